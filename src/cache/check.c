/* check.c - walks everything and proves the invariants. Tests and the simulator call it after each operation.
 *
 *   1. Every block is in exactly one state, the lists are sound, and the counts add up to the pool.
 *   2. References equal the sum over leases, tails and pins, block for block.
 *   3. A node's block names the node, a block's node names the block or leads its ring of duplicates; duplicates are
 *      held, and so is the block that leads them.
 *   4. Charges and free counts of every account are what the blocks say; evictable and winners follow from them.
 *   5. Children know their parent, in order, with the right hash, depth and scope; siblings are all in the index.
 *   6. Every node has a block in every full group; a node without any block has children.
 *   7. While a node is held in a full group, so is its parent; a free one was not used later than its parent.
 *   8. A lease's published entries lie on one path and are held; its other entries are its own.
 *   9. The tables (extras, leases, pins, scopes' nodes and leases, free nodes) count what they hold.
 *
 * It needs no memory: where two sets must be equal, their members' hashes are summed up and the sums compared. */
#include "cache/cache.h"
#include "cache/policy.h"

#include <stdarg.h>
#include <stdio.h>

__attribute__((format(printf, 2, 3))) static bool check_fail(icp_error *error, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(error->text, sizeof(error->text), format, arguments);
    va_end(arguments);
    return false;
}

#define CHECK(claim, ...)                                    \
    do {                                                     \
        if (!(claim)) return check_fail(error, __VA_ARGS__); \
    } while (0)

/* Stands for one reference to a block in a sum. */
static uint64_t weight(uint32_t pool, uint32_t block)
{
    return icp_hash_fold((uint64_t)pool << 32 | block, ICP_HASH_A) | 1;
}

/* ---- Pools ------------------------------------------------------------------------------------------------ */

static bool check_list(const icp_pool *pool, const icp_list *list, bool is_spare_allowed, bool is_cached_allowed,
                       uint32_t queue, icp_error *error)
{
    uint32_t prev = ICP_BLOCK_NONE;
    uint32_t count = 0;
    for (uint32_t block = list->head; block != ICP_BLOCK_NONE; block = pool->blocks[block].next) {
        const icp_block *record = &pool->blocks[block];
        CHECK(count++ < list->count, "a free list is longer than its count, or a ring");
        CHECK(record->prev == prev, "block %u: the free list's links disagree", block);
        CHECK(record->reference_count == 0, "block %u is held and in a free list", block);
        bool is_spare = record->node == ICP_NODE_NONE;
        CHECK(is_spare ? is_spare_allowed : is_cached_allowed, "block %u is in the wrong free list", block);
        CHECK(is_spare ? record->account == 0 : icp_policy_queue(pool, record->account) == queue,
              "block %u waits in another account's queue", block);
        prev = block;
    }
    CHECK(count == list->count && list->tail == prev, "a free list's count or tail is wrong");
    return true;
}

static bool check_lists(const icp_pool *pool, icp_error *error)
{
    bool is_mixed = pool->policy->queues_spare;
    if (!check_list(pool, &pool->spare, true, false, 0, error)) return false;
    uint64_t listed = pool->spare.count;
    for (uint32_t i = 0; i < pool->account_count; i++) {
        const icp_account *account = &pool->accounts[i];
        if (!check_list(pool, &account->queue, is_mixed && i == 0, true, i, error)) return false;
        CHECK(account->has_queue || account->queue.count == 0, "account %u: a queue that it should not have", i);
        listed += account->queue.count;
    }
    CHECK(listed == (uint64_t)pool->spare_count + pool->cached_count, "free blocks: listed and counted differ");
    CHECK(!is_mixed || pool->spare.count == 0, "the spare list is in use under a policy without one");
    return true;
}

static bool check_ring(const icp_pool *pool, uint32_t block, icp_error *error)
{
    const icp_block *record = &pool->blocks[block];
    if (record->reference_count == 0 || record->node == ICP_NODE_NONE) return true;
    bool is_duplicate = record->flags & ICP_BLOCK_IS_DUPLICATE;
    CHECK((record->next == ICP_BLOCK_NONE) == (record->prev == ICP_BLOCK_NONE), "block %u: half a ring", block);
    CHECK(!is_duplicate || record->next != ICP_BLOCK_NONE, "block %u duplicates nothing", block);
    if (record->next == ICP_BLOCK_NONE) return true;
    CHECK(pool->blocks[record->next].prev == block && pool->blocks[record->prev].next == block,
          "block %u: the ring's links disagree", block);
    CHECK(pool->blocks[record->next].node == record->node, "block %u: a ring over two nodes", block);
    return true;
}

static bool check_states(const icp_pool *pool, icp_error *error)
{
    uint32_t counts[ICP_BLOCK_DUPLICATE + 1] = {0};
    uint32_t pinned = 0;
    for (uint32_t block = 0; block < pool->block_count; block++) {
        const icp_block *record = &pool->blocks[block];
        counts[icp_pool_state(pool, block)]++;
        pinned += record->pin_count != 0;
        CHECK(record->pin_count <= record->reference_count, "block %u: more pins than references", block);
        CHECK((record->account == 0) == (icp_pool_state(pool, block) == ICP_BLOCK_SPARE),
              "block %u is charged while spare, or free of charge while not", block);
        if (!check_ring(pool, block, error)) return false;
    }
    CHECK(counts[ICP_BLOCK_SPARE] == pool->spare_count, "spare blocks: %u, counted %u", counts[ICP_BLOCK_SPARE],
          pool->spare_count);
    CHECK(counts[ICP_BLOCK_CACHED] == pool->cached_count, "cached blocks: %u, counted %u", counts[ICP_BLOCK_CACHED],
          pool->cached_count);
    CHECK(counts[ICP_BLOCK_SHARED] == pool->shared_count, "shared blocks: %u, counted %u", counts[ICP_BLOCK_SHARED],
          pool->shared_count);
    CHECK(counts[ICP_BLOCK_PRIVATE] == pool->private_count, "private blocks: %u, counted %u", counts[ICP_BLOCK_PRIVATE],
          pool->private_count);
    CHECK(counts[ICP_BLOCK_DUPLICATE] == pool->duplicate_count, "duplicates: %u, counted %u",
          counts[ICP_BLOCK_DUPLICATE], pool->duplicate_count);
    CHECK(pinned == pool->pinned_count, "pinned blocks: %u, counted %u", pinned, pool->pinned_count);
    return true;
}

/* Sums over the blocks against sums over the accounts: (account, charged) and (account, free). */
static bool check_charges(const icp_pool *pool, icp_error *error)
{
    uint64_t charged = 0;
    uint64_t free_blocks = 0;
    for (uint32_t block = 0; block < pool->block_count; block++) {
        uint32_t account = pool->blocks[block].account;
        if (account == 0) continue;
        CHECK(account < pool->account_count, "block %u: no such account", block);
        charged += weight(0, account);
        if (pool->blocks[block].reference_count == 0) free_blocks += weight(0, account);
    }
    for (uint32_t i = 1; i < pool->account_count; i++) {
        charged -= pool->accounts[i].charged * weight(0, i);
        free_blocks -= pool->accounts[i].free_count * weight(0, i);
    }
    CHECK(charged == 0, "some account is charged for blocks that are not its own, or not for those that are");
    CHECK(free_blocks == 0, "some account's free blocks are miscounted");
    return true;
}

static bool check_quotas(const icp_pool *pool, icp_error *error)
{
    uint32_t quotas = 0;
    uint64_t evictable = 0;
    for (uint32_t i = 0; i < pool->account_count; i++) {
        const icp_account *account = &pool->accounts[i];
        quotas += i != 0 && account->has_queue;
        evictable += account->evictable;
        if (pool->quota_count == 0 || !account->has_queue) continue;
        uint32_t over = account->charged > account->min ? account->charged - account->min : 0;
        uint32_t expected = i == 0 || account->queue.count < over ? account->queue.count : over;
        CHECK(account->evictable == expected, "account %u: evictable is %u, not %u", i, account->evictable, expected);
        CHECK(expected == 0 || account->head_tick == pool->blocks[account->queue.head].used_tick,
              "account %u: the age of its oldest block is wrong", i);
        CHECK(expected == 0 || pool->accounts[pool->winners[1]].evictable != 0, "the tournament has no winner");
        CHECK(expected == 0 || (int32_t)(pool->accounts[pool->winners[1]].head_tick - account->head_tick) <= 0,
              "account %u is older than the tournament's winner", i);
    }
    CHECK(quotas == pool->quota_count, "quotas: %u, counted %u", quotas, pool->quota_count);
    CHECK(pool->quota_count == 0 || evictable == pool->evictable, "evictable blocks do not add up");
    return true;
}

/* ---- Nodes ------------------------------------------------------------------------------------------------ */

static uint32_t age_of(const icp_cache *cache, const icp_block *block)
{
    return icp_cache_now(cache) - block->used_tick;
}

static bool check_node_block(const icp_cache *cache, uint32_t node, uint32_t group, icp_error *error)
{
    const icp_node *record = icp_tree_node(&cache->tree, node);
    uint32_t block = icp_tree_link(&cache->tree, node)->blocks[group];
    bool has_block = record->group_mask >> group & 1;
    CHECK(has_block == (block != ICP_BLOCK_NONE), "node %u: its mask and its blocks disagree", node);
    CHECK(has_block || cache->groups[group].kind != ICP_GROUP_FULL, "node %u has no block in full group %u", node,
          group);
    if (!has_block) return true;
    const icp_pool *pool = &cache->pools[cache->groups[group].pool];
    CHECK(block < pool->block_count && pool->blocks[block].node == node, "node %u: block %u knows another", node,
          block);
    CHECK(pool->blocks[block].group == group, "node %u: block %u is of another group", node, block);
    CHECK(!(pool->blocks[block].flags & ICP_BLOCK_IS_DUPLICATE), "node %u stands on a duplicate", node);
    CHECK(pool->blocks[block].account == icp_cache_account(record->scope),
          "node %u: block %u is charged to another scope", node, block);
    if (cache->groups[group].kind != ICP_GROUP_FULL || record->parent == ICP_NODE_NONE) return true;
    const icp_block *own = &pool->blocks[block];
    const icp_block *above = &pool->blocks[icp_tree_link(&cache->tree, record->parent)->blocks[group]];
    CHECK(own->reference_count == 0 || above->reference_count != 0, "node %u is held, its parent is not", node);
    CHECK(own->reference_count != 0 || above->reference_count != 0 || age_of(cache, above) <= age_of(cache, own),
          "node %u was used after its parent", node);
    return true;
}

/* A node's place among its siblings. */
static bool check_node_order(const icp_tree *tree, uint32_t node, icp_error *error)
{
    const icp_node *record = icp_tree_node(tree, node);
    const icp_link *link = icp_tree_link(tree, node);
    icp_view view = icp_tree_view(tree, node);
    uint32_t sides[2] = {link->left, link->right};
    for (int i = 0; i < 2; i++) {
        if (sides[i] == ICP_NODE_NONE) continue;
        const icp_node *below = icp_tree_node(tree, sides[i]);
        CHECK(icp_tree_link(tree, sides[i])->up == node && below->parent == record->parent &&
                  below->scope == record->scope,
              "node %u: a stranger among its siblings", node);
        CHECK(icp_hash_mix(sides[i]) < icp_hash_mix(node), "node %u: its sibling stands too high", node);
    }
    uint32_t top = *icp_tree_children(tree, record->scope, record->parent);
    uint32_t next = icp_order_next(tree, top, node);
    int order = 0;
    if (next != ICP_NODE_NONE) icp_order_compare(tree, &view, next, &order);
    CHECK(next == ICP_NODE_NONE || order < 0, "node %u does not sort before its next sibling", node);
    CHECK((link->up == ICP_NODE_NONE) == (top == node), "node %u: not below the top of its siblings", node);
    return true;
}

static bool check_node_links(const icp_tree *tree, uint32_t node, icp_error *error)
{
    const icp_node *record = icp_tree_node(tree, node);
    icp_view view = icp_tree_view(tree, node);
    uint32_t parent = record->parent;
    if (parent != ICP_NODE_NONE) {
        const icp_node *above = icp_tree_node(tree, parent);
        CHECK(above->depth != ICP_NODE_NONE && record->depth == above->depth + 1, "node %u: its depth is wrong", node);
        CHECK(above->scope == record->scope, "node %u: its parent is of another scope", node);
    }
    CHECK(record->hash == icp_tree_hash(tree, record->scope, parent, &view), "node %u: its hash is wrong", node);
    CHECK(icp_tree_child(tree, record->scope, parent, &view) == node, "node %u cannot be found", node);
    const icp_link *link = icp_tree_link(tree, node);
    CHECK(record->group_mask != 0 || link->children != ICP_NODE_NONE, "node %u is hollow", node);
    bool has_siblings = (link->left & link->right & link->up) != ICP_NODE_NONE;
    CHECK(!has_siblings || record->flags & ICP_NODE_IS_INDEXED, "node %u has siblings and is not in the index", node);
    return check_node_order(tree, node, error);
}

static bool check_nodes(const icp_cache *cache, icp_error *error)
{
    const icp_tree *tree = &cache->tree;
    uint32_t count = 0;
    uint32_t indexed = 0;
    uint32_t items = 0;
    uint64_t scopes = 0;
    for (uint32_t node = 0; node < tree->node_fresh; node++) {
        const icp_node *record = icp_tree_node(tree, node);
        if (record->depth == ICP_NODE_NONE) continue;
        count++;
        indexed += (record->flags & ICP_NODE_IS_INDEXED) != 0;
        scopes += weight(1, record->scope);
        if (!check_node_links(tree, node, error)) return false;
        for (uint32_t group = 0; group < cache->group_count; group++) {
            if (!check_node_block(cache, node, group, error)) return false;
        }
        for (uint32_t i = icp_tree_link(tree, node)->item; i != ICP_ITEM_NONE; i = tree->extras.items[i].next) items++;
    }
    CHECK(count == tree->node_count, "nodes: %u, counted %u", count, tree->node_count);
    CHECK(items == tree->extras.item_count, "extras: %u, counted %u", items, tree->extras.item_count);
    for (uint32_t i = 0; i < tree->scopes.fresh; i++) scopes -= tree->scopes.records[i].node_count * weight(1, i);
    CHECK(scopes == 0, "some scope's nodes are miscounted");
    for (uint32_t i = 0; i < tree->bucket_count; i++) {
        for (uint32_t node = tree->buckets[i]; node != ICP_NODE_NONE; node = icp_tree_node(tree, node)->bucket_next)
            indexed--;
    }
    CHECK(indexed == 0, "the index holds other nodes than those marked");
    for (uint32_t node = tree->node_free; node != ICP_NODE_NONE; node = icp_tree_node(tree, node)->parent) count++;
    CHECK(count == tree->node_fresh, "node records were lost");
    return true;
}

/* Every findable block is its node's, or is in the ring of the one that is. */
static bool check_findable(const icp_cache *cache, icp_error *error)
{
    uint64_t rings = 0;
    for (uint32_t i = 0; i < cache->pool_count; i++) {
        const icp_pool *pool = &cache->pools[i];
        for (uint32_t block = 0; block < pool->block_count; block++) {
            const icp_block *record = &pool->blocks[block];
            if (record->node == ICP_NODE_NONE) continue;
            const icp_node *node = icp_tree_node(&cache->tree, record->node);
            CHECK(node->depth != ICP_NODE_NONE, "block %u is of a node that is gone", block);
            uint32_t primary = icp_tree_link(&cache->tree, record->node)->blocks[record->group];
            bool is_duplicate = record->flags & ICP_BLOCK_IS_DUPLICATE;
            CHECK(is_duplicate ? primary != block : primary == block, "block %u: its node stands on %u", block,
                  primary);
            if (is_duplicate) rings++;
            if (is_duplicate || record->reference_count == 0) continue;
            for (uint32_t heir = record->next; heir != ICP_BLOCK_NONE && heir != block;
                 heir = pool->blocks[heir].next) {
                rings--;
            }
        }
    }
    CHECK(rings == 0, "duplicates that are in no node's ring");
    return true;
}

/* ---- Leases and pins --------------------------------------------------------------------------------------- */

static bool check_lease_entry(const icp_cache *cache, const icp_lease_record *lease, uint32_t group, uint32_t index,
                              uint32_t node, icp_error *error)
{
    uint32_t block = icp_lease_row(cache, lease, group)[index];
    const icp_pool *pool = &cache->pools[cache->groups[group].pool];
    bool is_full = cache->groups[group].kind == ICP_GROUP_FULL;
    CHECK(block != ICP_BLOCK_NONE || !is_full, "a lease has no block at %u in full group %u", index, group);
    CHECK(block == ICP_BLOCK_NONE || index >= *icp_lease_lowest(cache, lease, group),
          "a lease holds an entry below its lowest");
    if (block == ICP_BLOCK_NONE) return true;
    CHECK(block < pool->block_count && pool->blocks[block].reference_count != 0, "a lease's block %u is not held",
          block);
    CHECK(pool->blocks[block].group == group, "a lease's block %u is of another group", block);
    uint32_t expected = pool->blocks[block].flags & ICP_BLOCK_IS_PARTIAL ? ICP_NODE_NONE : node;
    CHECK(pool->blocks[block].node == expected, "a lease's block %u is not of its path's node at %u", block, index);
    CHECK(pool->blocks[block].account == icp_cache_account(lease->scope), "a lease's block %u is charged to another",
          block);
    return true;
}

static bool check_lease(const icp_cache *cache, const icp_lease_record *lease, uint64_t *references, icp_error *error)
{
    uint32_t node = lease->node;
    CHECK(lease->published <= lease->block_count && lease->matched <= lease->published, "a lease's path is too long");
    CHECK(lease->published * (uint64_t)cache->tree.block_tokens <= lease->token_count,
          "a lease published a partial block");
    for (uint32_t index = lease->block_count; index-- > 0;) {
        uint32_t path = index < lease->published ? node : ICP_NODE_NONE;
        for (uint32_t group = 0; group < cache->group_count; group++) {
            if (!check_lease_entry(cache, lease, group, index, path, error)) return false;
            uint32_t block = icp_lease_row(cache, lease, group)[index];
            if (block != ICP_BLOCK_NONE) *references += weight(cache->groups[group].pool, block);
        }
        if (path == ICP_NODE_NONE) continue;
        CHECK(icp_tree_node(&cache->tree, node)->depth == index, "a lease's path is not where it should be");
        node = icp_tree_node(&cache->tree, node)->parent;
    }
    CHECK(lease->published == 0 ? lease->node == ICP_NODE_NONE : node == ICP_NODE_NONE, "a lease's path has no root");
    for (uint32_t group = 0; group < cache->group_count && lease->tail_tokens != 0; group++) {
        uint32_t source = *icp_lease_source(cache, lease, group);
        *references += weight(cache->groups[group].pool, source);
    }
    return true;
}

static void check_pin_references(const icp_cache *cache, const icp_pin_record *pin, uint64_t *references)
{
    uint32_t end = icp_tree_node(&cache->tree, pin->node)->depth;
    for (uint32_t node = pin->node; node != ICP_NODE_NONE; node = icp_tree_node(&cache->tree, node)->parent) {
        const icp_node *record = icp_tree_node(&cache->tree, node);
        for (uint32_t group = 0; group < cache->group_count; group++) {
            if (end - record->depth >= cache->groups[group].need) continue;
            *references += weight(cache->groups[group].pool, icp_tree_link(&cache->tree, node)->blocks[group]);
        }
    }
}

static bool check_references(const icp_cache *cache, icp_error *error)
{
    uint64_t held = 0;
    uint64_t pinned = 0;
    uint32_t leases = 0;
    uint64_t scopes = 0;
    for (uint32_t i = 0; i < cache->leases.count_max; i++) {
        const icp_lease_record *lease = &cache->leases.records[i];
        if (!lease->is_open) continue;
        leases++;
        scopes += weight(2, lease->scope);
        if (!check_lease(cache, lease, &held, error)) return false;
    }
    uint32_t pins = 0;
    for (uint32_t i = 0; i < cache->pins.count_max; i++) {
        if (!cache->pins.records[i].is_set) continue;
        pins++;
        check_pin_references(cache, &cache->pins.records[i], &pinned);
    }
    CHECK(pins == cache->pins.count, "pins: %u, counted %u", pins, cache->pins.count);
    CHECK(leases == cache->leases.count, "leases: %u, counted %u", leases, cache->leases.count);
    for (uint32_t i = 0; i < cache->tree.scopes.fresh; i++) {
        scopes -= cache->tree.scopes.records[i].lease_count * weight(2, i);
    }
    CHECK(scopes == 0, "some scope's leases are miscounted");
    held += pinned;
    for (uint32_t i = 0; i < cache->pool_count; i++) {
        const icp_pool *pool = &cache->pools[i];
        for (uint32_t block = 0; block < pool->block_count; block++) {
            held -= pool->blocks[block].reference_count * weight(i, block);
            pinned -= pool->blocks[block].pin_count * weight(i, block);
        }
    }
    CHECK(held == 0, "some block's references are not those of the leases and pins");
    CHECK(pinned == 0, "some block's pins are not those of the table");
    return true;
}

/* ---- All of it --------------------------------------------------------------------------------------------- */

icp_status icp_cache_check(const icp_cache *cache, icp_error *error)
{
    if (cache == NULL) return ICP_BAD_ARGUMENT;
    ICP_ENTER(cache);
    icp_error unwanted;
    if (error == NULL) error = &unwanted;
    for (uint32_t i = 0; i < cache->pool_count; i++) {
        const icp_pool *pool = &cache->pools[i];
        if (!check_lists(pool, error) || !check_states(pool, error)) return ICP_CORRUPT;
        if (!check_charges(pool, error) || !check_quotas(pool, error)) return ICP_CORRUPT;
    }
    if (!check_nodes(cache, error) || !check_findable(cache, error)) return ICP_CORRUPT;
    if (!check_references(cache, error)) return ICP_CORRUPT;
    return ICP_OK;
}
