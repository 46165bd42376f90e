/* publish.c - full blocks of known tokens become nodes that others find, and a failed step takes them back.
 *
 * For each full block past what the lease has published: the node under the end of its path that has the same content,
 * or a new one. A new node gets the lease's blocks. Where the node is there already (the same answer decoded twice, a
 * prompt that ends on a block boundary, a request that did not read), each block of the lease is
 *    the node's in that group, if the node had none or this very one;
 *    KEEP:  a duplicate beside the node's, which takes over if the node's is not held (see evict.c);
 *    ADOPT: given back, and the table names the node's block instead. */
#include "cache/cache.h"

/* The lease's block of a group at an index, or ICP_BLOCK_NONE where there is none to publish. */
static uint32_t own_block(const icp_cache *cache, const icp_lease_record *lease, uint32_t group, uint32_t index)
{
    uint32_t block = icp_lease_row(cache, lease, group)[index];
    if (block == ICP_BLOCK_NONE) return block;
    const icp_pool *pool = &cache->pools[cache->groups[group].pool];
    return pool->blocks[block].flags & ICP_BLOCK_IS_PARTIAL ? ICP_BLOCK_NONE : block;
}

static void publish_duplicate(icp_cache *cache, icp_lease_record *lease, uint32_t group, uint32_t index, uint32_t node)
{
    icp_pool *pool = icp_cache_pool(cache, group);
    uint32_t *entry = &icp_lease_row(cache, lease, group)[index];
    uint32_t primary = icp_tree_link(&cache->tree, node)->blocks[group];
    uint32_t own = *entry;
    cache->stats.duplicate_count++;
    if (cache->duplicates == ICP_DUPLICATES_ADOPT) {
        icp_pool_acquire(pool, &primary, 1, icp_cache_now(cache));
        *entry = primary;
        icp_evict_drop(cache, group, own);
    } else if (pool->blocks[primary].reference_count == 0) {
        icp_evict_spoil(cache, node, group);
        icp_evict_attach(cache, node, group, own);
        icp_event_stored(cache, node, 1u << group);
    } else {
        icp_pool_duplicate(pool, own, primary, icp_cache_now(cache));
    }
}

/* Puts the lease's blocks at an index under a node that has that content. */
static void publish_blocks(icp_cache *cache, icp_lease_record *lease, uint32_t index, uint32_t node)
{
    uint32_t stored_mask = 0;
    for (uint32_t group = 0; group < cache->group_count; group++) {
        uint32_t own = own_block(cache, lease, group, index);
        if (own == ICP_BLOCK_NONE) continue;
        uint32_t primary = icp_tree_link(&cache->tree, node)->blocks[group];
        if (primary == own) continue;
        if (primary == ICP_BLOCK_NONE) {
            icp_evict_attach(cache, node, group, own);
            stored_mask |= 1u << group;
        } else {
            publish_duplicate(cache, lease, group, index, node);
        }
    }
    if (stored_mask != 0) icp_event_stored(cache, node, stored_mask);
}

static void name_store(icp_cache *cache, uint32_t node, const icp_view *view)
{
    const icp_node *record = icp_tree_node(&cache->tree, node);
    const icp_scope_record *scope = &cache->tree.scopes.records[record->scope];
    icp_name_root root = {cache->name_kind, cache->name_seed, icp_scope_texts(scope), cache->tree.block_tokens};
    icp_name parent = icp_cache_name(cache, record->scope, record->parent);
    icp_name_extra extras[ICP_BLOCK_TOKENS_MAX];
    icp_name name;
    icp_name_next(&root, &parent, view->position, view->tokens, extras, icp_name_extras(view, extras), &name);
    memcpy(cache->names + (size_t)node * cache->name_bytes, name.bytes, cache->name_bytes);
}

/* A node for the block, made if need be. ICP_NODE_NONE: there is no room, or another lease holds the block too. That is
 * so only after a failed step was taken back, and until the other was truncated or released as well: whose content it
 * is then is open. */
static uint32_t publish_node(icp_cache *cache, const icp_lease_record *lease, const icp_view *view)
{
    icp_tree *tree = &cache->tree;
    if (icp_lease_is_shared(cache, lease, lease->published)) return ICP_NODE_NONE;
    uint32_t node = icp_tree_child(tree, lease->scope, lease->node, view);
    if (node != ICP_NODE_NONE) return node;
    uint32_t item = ICP_ITEM_NONE;
    if (!icp_tree_has_room(tree)) return ICP_NODE_NONE;
    if (view->extra_count != 0 && !icp_extra_attach(&tree->extras, view, &item)) return ICP_NODE_NONE;
    node = icp_tree_add(tree, lease->scope, lease->node, view, item);
    if (cache->name_kind != ICP_NAME_NONE) name_store(cache, node, view);
    return node;
}

/* True where the lease has a block at an index that keeps the node there from being evicted. */
static bool has_own_block(const icp_cache *cache, const icp_lease_record *lease, uint32_t index)
{
    for (uint32_t group = 0; group < cache->group_count; group++) {
        if (own_block(cache, lease, group, index) != ICP_BLOCK_NONE) return true;
    }
    return false;
}

/* Without full groups, a path that ended in a node where the lease has no block could not be held: it ends before. */
static uint32_t publish_end(const icp_cache *cache, const icp_lease_record *lease, uint32_t end)
{
    if (cache->has_full) return end;
    while (end > lease->published && !has_own_block(cache, lease, end - 1)) end--;
    return end;
}

/* The node some steps up the path points here from now on, for the walks to come. */
static void publish_ahead(icp_cache *cache, const icp_lease_record *lease, uint32_t node)
{
    if (lease->published < ICP_NODE_AHEAD || cache->groups[0].kind != ICP_GROUP_FULL) return;
    uint32_t block = icp_lease_row(cache, lease, 0)[lease->published - ICP_NODE_AHEAD];
    icp_tree_link(&cache->tree, cache->pools[0].blocks[block].node)->ahead = node;
}

static void lease_publish(icp_cache *cache, icp_lease_record *lease, const icp_text *text, uint32_t end)
{
    uint32_t block_tokens = cache->tree.block_tokens;
    while (lease->published < end) {
        icp_view view = icp_view_at(text, lease->published * block_tokens, block_tokens);
        uint32_t node = publish_node(cache, lease, &view);
        if (node == ICP_NODE_NONE) {
            uint32_t last = lease->node;
            cache->stats.refused_count += end - lease->published;
            icp_lease_shorten(cache, lease, lease->published);
            icp_evict_hollow(cache, last, false);
            return;
        }
        publish_blocks(cache, lease, lease->published, node);
        publish_ahead(cache, lease, node);
        lease->node = node;
        lease->published++;
    }
}

icp_status icp_lease_publish(icp_cache *cache, icp_lease lease, const icp_text *text)
{
    if (cache == NULL || text == NULL) return ICP_BAD_ARGUMENT;
    ICP_ENTER(cache);
    icp_lease_record *record = icp_lease_find(cache, lease);
    if (record == NULL) return ICP_STALE;
    if (text->token_count > record->token_count || (text->tokens == NULL && text->token_count != 0))
        return ICP_BAD_ARGUMENT;
    icp_status status = icp_extra_validate(text);
    if (status != ICP_OK) return status;
    icp_lease_settle(cache, record);
    uint32_t end = (uint32_t)text->token_count / cache->tree.block_tokens;
    if (end <= record->published || record->flags & ICP_NO_STORE) return ICP_OK;
    lease_publish(cache, record, text, publish_end(cache, record, end));
    return ICP_OK;
}

/* ---- Taking back ------------------------------------------------------------------------------------------ */

/* The node at an index of the lease's path. */
static uint32_t path_node(const icp_cache *cache, const icp_lease_record *lease, uint32_t index)
{
    uint32_t node = lease->node;
    for (uint32_t i = lease->published; i > index + 1; i--) node = icp_tree_node(&cache->tree, node)->parent;
    return node;
}

/* True where the node at an index stands on a block of this lease. */
static bool is_ours(const icp_cache *cache, const icp_lease_record *lease, uint32_t index, uint32_t node)
{
    for (uint32_t group = 0; group < cache->group_count; group++) {
        uint32_t block = icp_lease_row(cache, lease, group)[index];
        if (block != ICP_BLOCK_NONE && icp_tree_link(&cache->tree, node)->blocks[group] == block) return true;
    }
    return false;
}

/* The lease's duplicates at an index are duplicates no more. */
static void conceal_own(icp_cache *cache, const icp_lease_record *lease, uint32_t index)
{
    for (uint32_t group = 0; group < cache->group_count; group++) {
        icp_pool *pool = icp_cache_pool(cache, group);
        uint32_t block = icp_lease_row(cache, lease, group)[index];
        if (block != ICP_BLOCK_NONE && pool->blocks[block].node != ICP_NODE_NONE) icp_pool_conceal(pool, block);
    }
}

static void node_take_back(icp_cache *cache, uint32_t scope, uint32_t node)
{
    uint32_t parent = icp_tree_node(&cache->tree, node)->parent;
    icp_pin_cut(cache, scope, node);
    icp_lease_cut(cache, scope, node);
    icp_evict_withdraw(cache, node);
    icp_evict_hollow(cache, parent, false);
}

icp_status icp_lease_unpublish(icp_cache *cache, icp_lease lease, uint32_t token_count)
{
    if (cache == NULL) return ICP_BAD_ARGUMENT;
    ICP_ENTER(cache);
    icp_lease_record *record = icp_lease_find(cache, lease);
    if (record == NULL) return ICP_STALE;
    uint32_t from = token_count / cache->tree.block_tokens;
    if (from < record->matched) from = record->matched;
    uint32_t was_published = record->published;
    for (uint32_t index = from; index < record->published; index++) {
        uint32_t node = path_node(cache, record, index);
        if (!is_ours(cache, record, index, node)) continue;
        node_take_back(cache, record->scope, node); /* the lease's path ends before it now */
        index = from - 1;                           /* a pin that ended may have made duplicates further up ours */
    }
    for (uint32_t index = from; index < was_published; index++) conceal_own(cache, record, index);
    if (record->published > from) icp_lease_shorten(cache, record, from);
    return ICP_OK;
}
