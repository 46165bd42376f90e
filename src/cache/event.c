/* event.c - telling a subscriber what can be found, in order, and all of it again on demand.
 *
 * A subscriber who applies STORED, REMOVED and CLEARED to an empty set has the resident set at every moment. One who
 * missed something asks for a dump and goes on from the sequence it names. Salts are never told, only the scope's
 * handle. */
#include "cache/cache.h"

icp_name icp_cache_name(const icp_cache *cache, uint32_t scope, uint32_t node)
{
    if (node == ICP_NODE_NONE) return cache->tree.scopes.records[scope].name;
    icp_name name = {.length = cache->name_bytes};
    if (cache->name_bytes != 0) memcpy(name.bytes, cache->names + (size_t)node * cache->name_bytes, cache->name_bytes);
    return name;
}

/* The node's extras as the caller gave them; at most one begins at each position. */
static size_t event_extras(const icp_tree *tree, uint32_t node, uint32_t position, icp_extra *extras)
{
    size_t count = 0;
    for (uint32_t item = icp_tree_link(tree, node)->item; item != ICP_ITEM_NONE; item = tree->extras.items[item].next) {
        const icp_item *record = &tree->extras.items[item];
        const icp_key *key = &tree->extras.keys[record->key];
        uint32_t start = (uint32_t)((int32_t)position + record->offset);
        extras[count++] = (icp_extra){start, record->length, key->id, key->id_bytes};
    }
    return count;
}

static void event_send(const icp_cache *cache, icp_event_fn *fn, void *context, icp_event_kind kind, uint32_t node,
                       uint32_t group_mask)
{
    const icp_tree *tree = &cache->tree;
    const icp_node *record = icp_tree_node(tree, node);
    icp_extra extras[ICP_BLOCK_TOKENS_MAX];
    icp_event event = {.kind = kind,
                       .sequence = cache->event_sequence,
                       .tick = cache->tick,
                       .scope = icp_scope_handle(&tree->scopes, record->scope),
                       .node = node,
                       .parent = record->parent,
                       .position = record->depth * tree->block_tokens,
                       .group_mask = group_mask,
                       .name = icp_cache_name(cache, record->scope, node),
                       .parent_name = icp_cache_name(cache, record->scope, record->parent)};
    if (kind == ICP_EVENT_STORED) {
        event.blocks = icp_tree_link(tree, node)->blocks;
        event.text = (icp_text){icp_tree_tokens(tree, node), tree->block_tokens, extras,
                                event_extras(tree, node, event.position, extras)};
    }
    fn(context, &event);
}

void icp_event_tell(icp_cache *cache, icp_event_kind kind, uint32_t node, uint32_t group_mask)
{
    cache->event_sequence++;
    event_send(cache, cache->event, cache->event_context, kind, node, group_mask);
}

void icp_event_cleared(icp_cache *cache, uint32_t scope, bool is_all)
{
    if (cache->event == NULL) return;
    cache->event_sequence++;
    icp_event event = {.kind = ICP_EVENT_CLEARED,
                       .is_all = is_all,
                       .sequence = cache->event_sequence,
                       .tick = cache->tick,
                       .scope = icp_scope_handle(&cache->tree.scopes, scope),
                       .node = ICP_NODE_NONE,
                       .parent = ICP_NODE_NONE};
    cache->event(cache->event_context, &event);
}

/* The node after this one, parents before children: its first child, or the next sibling of it or of the nearest node
 * above that has one. */
static uint32_t tree_next(const icp_tree *tree, uint32_t scope, uint32_t node)
{
    uint32_t top = *icp_tree_children(tree, scope, node);
    if (top != ICP_NODE_NONE) return icp_order_next(tree, top, ICP_NODE_NONE);
    while (node != ICP_NODE_NONE) {
        uint32_t parent = icp_tree_node(tree, node)->parent;
        uint32_t next = icp_order_next(tree, *icp_tree_children(tree, scope, parent), node);
        if (next != ICP_NODE_NONE) return next;
        node = parent;
    }
    return ICP_NODE_NONE;
}

icp_status icp_cache_dump(const icp_cache *cache, icp_event_fn *fn, void *context, uint64_t *sequence)
{
    if (cache == NULL || fn == NULL) return ICP_BAD_ARGUMENT;
    ICP_ENTER(cache);
    for (uint32_t scope = 0; scope < cache->tree.scopes.fresh; scope++) {
        if (cache->tree.scopes.records[scope].node_count == 0) continue;
        uint32_t node = ICP_NODE_NONE;
        while ((node = tree_next(&cache->tree, scope, node)) != ICP_NODE_NONE) {
            uint32_t group_mask = icp_tree_node(&cache->tree, node)->group_mask;
            if (group_mask != 0) event_send(cache, fn, context, ICP_EVENT_STORED, node, group_mask);
        }
    }
    if (sequence != NULL) *sequence = cache->event_sequence;
    return ICP_OK;
}
