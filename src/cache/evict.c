/* evict.c - how a block leaves: a reference dropped, its content evicted or withdrawn.
 *
 * This is where the pool and the tree meet: a block that stands for a node never changes on one side only.
 *
 *  - Dropped: the last reference goes. Where duplicates are held, the one made first takes the node over, so a node
 *    that a running request's path goes through is always held by that request.
 *  - Evicted: the queue's head is findable. In a full group its node is a leaf (policy.h says why) and goes, with its
 *    blocks of other groups. In a window or state group only that block goes; a node left with neither blocks nor
 *    children goes too, and so may its parents.
 *  - Withdrawn: a failed step, or clear. A whole subtree can no longer be found; leases keep the blocks they hold. */
#include "base/assert.h"
#include "base/prefetch.h"
#include "cache/cache.h"

void icp_evict_attach(icp_cache *cache, uint32_t node, uint32_t group, uint32_t block)
{
    icp_node *record = icp_tree_node(&cache->tree, node);
    icp_pool_publish(icp_cache_pool(cache, group), block, node, icp_cache_now(cache));
    icp_tree_link(&cache->tree, node)->blocks[group] = block;
    record->group_mask |= (uint16_t)(1u << group);
    cache->stats.stored_count++;
    cache->tree.scopes.records[record->scope].stored_count++;
}

static void node_forget_block(icp_cache *cache, uint32_t node, uint32_t group)
{
    icp_tree_link(&cache->tree, node)->blocks[group] = ICP_BLOCK_NONE;
    icp_tree_node(&cache->tree, node)->group_mask &= (uint16_t) ~(1u << group);
}

void icp_evict_spoil(icp_cache *cache, uint32_t node, uint32_t group)
{
    uint32_t block = icp_tree_link(&cache->tree, node)->blocks[group];
    node_forget_block(cache, node, group);
    icp_pool_spoil(icp_cache_pool(cache, group), block);
}

static void node_remove(icp_cache *cache, uint32_t node)
{
    uint32_t scope = icp_tree_node(&cache->tree, node)->scope;
    icp_tree_remove(&cache->tree, node);
    if (cache->tree.scopes.records[scope].node_count == 0) icp_cache_rest(cache, scope);
}

/* Nodes of window and state groups alone may be left with nothing, up to the first that has something. */
void icp_evict_hollow(icp_cache *cache, uint32_t node, bool is_evicted)
{
    while (node != ICP_NODE_NONE) {
        const icp_node *record = icp_tree_node(&cache->tree, node);
        if (record->group_mask != 0 || icp_tree_link(&cache->tree, node)->children != ICP_NODE_NONE) return;
        uint32_t parent = record->parent;
        if (is_evicted) icp_ghost_add(&cache->ghosts, record->hash, icp_cache_now(cache));
        node_remove(cache, node);
        node = parent;
    }
}

static void count_eviction(icp_cache *cache, const icp_block *block, uint32_t scope)
{
    uint32_t now = icp_cache_now(cache);
    cache->stats.evicted_count++;
    cache->stats.residency[icp_age_bucket(now - block->stored_tick)]++;
    cache->stats.idle[icp_age_bucket(now - block->used_tick)]++;
    cache->tree.scopes.records[scope].evicted_count++;
}

/* Takes a free findable block out of the tree and out of its queue. */
static void block_evict(icp_cache *cache, uint32_t group, uint32_t block)
{
    icp_pool *pool = icp_cache_pool(cache, group);
    uint32_t node = pool->blocks[block].node;
    icp_node *holder = icp_tree_node(&cache->tree, node);
    bool is_full = cache->groups[group].kind == ICP_GROUP_FULL;
    count_eviction(cache, &pool->blocks[block], holder->scope);
    icp_event_removed(cache, node, is_full ? holder->group_mask : 1u << group);
    node_forget_block(cache, node, group);
    icp_pool_unlist(pool, block);
    if (!is_full) {
        icp_evict_hollow(cache, node, true);
        return;
    }
    ICP_ASSERT(icp_tree_link(&cache->tree, node)->children == ICP_NODE_NONE);
    icp_ghost_add(&cache->ghosts, holder->hash, icp_cache_now(cache));
    for (uint32_t other = 0; holder->group_mask != 0; other++) {
        if (holder->group_mask & 1u << other) icp_evict_spoil(cache, node, other);
    }
    node_remove(cache, node);
}

/* Evicting touches records all over memory, so what the next two victims need is asked for now: the second one's node,
 * and what lies round the first one's in the tree. (A third step, farther ahead, was tried: it cost more than it
 * gave.) */
static void prefetch_victims(const icp_cache *cache, const icp_pool *pool, uint32_t victim)
{
    uint32_t first = pool->blocks[victim].next;
    if (first == ICP_BLOCK_NONE) return;
    if (pool->blocks[first].node != ICP_NODE_NONE) {
        icp_tree_prefetch(&cache->tree, pool->blocks[first].node);
        icp_ghost_prefetch(&cache->ghosts, icp_tree_node(&cache->tree, pool->blocks[first].node)->hash);
    }
    uint32_t second = pool->blocks[first].next;
    if (second == ICP_BLOCK_NONE || pool->blocks[second].node == ICP_NODE_NONE) return;
    ICP_PREFETCH(icp_tree_node(&cache->tree, pool->blocks[second].node));
    ICP_PREFETCH(icp_tree_link(&cache->tree, pool->blocks[second].node));
}

uint32_t icp_evict_take(icp_cache *cache, uint32_t group, uint32_t scope)
{
    icp_pool *pool = icp_cache_pool(cache, group);
    uint32_t account = icp_cache_account(scope);
    uint32_t block = icp_pool_next(pool, account);
    ICP_ASSERT(block != ICP_BLOCK_NONE);
    if (pool->blocks[block].node != ICP_NODE_NONE) {
        prefetch_victims(cache, pool, block);
        block_evict(cache, pool->blocks[block].group, block);
    } else {
        icp_pool_unlist(pool, block);
    }
    icp_pool_take(pool, block, account, (uint8_t)group, icp_cache_now(cache));
    cache->stats.taken_count++;
    return block;
}

/* The last reference of a findable block that others duplicate, or of a duplicate, is about to go. */
static void block_hand_over(icp_cache *cache, uint32_t group, uint32_t block)
{
    icp_pool *pool = icp_cache_pool(cache, group);
    icp_block *record = &pool->blocks[block];
    if (record->flags & ICP_BLOCK_IS_DUPLICATE) {
        icp_pool_conceal(pool, block);
        return;
    }
    uint32_t heir = icp_pool_heir(pool, block);
    if (heir == ICP_BLOCK_NONE) return;
    uint32_t node = record->node;
    icp_tree_link(&cache->tree, node)->blocks[group] = heir;
    icp_pool_inherit(pool, block, heir);
    icp_event_stored(cache, node, 1u << group);
}

void icp_evict_drop(icp_cache *cache, uint32_t group, uint32_t block)
{
    icp_pool *pool = icp_cache_pool(cache, group);
    icp_block *record = &pool->blocks[block];
    ICP_ASSERT(record->reference_count != 0);
    if (record->reference_count > 1) {
        record->reference_count--;
        bool is_primary = record->node != ICP_NODE_NONE && !(record->flags & ICP_BLOCK_IS_DUPLICATE);
        if (is_primary && record->reference_count == 1) pool->shared_count--;
        return;
    }
    if (record->node != ICP_NODE_NONE && record->next != ICP_BLOCK_NONE) block_hand_over(cache, group, block);
    record->reference_count = 0;
    icp_pool_free(pool, block, icp_cache_now(cache));
}

/* All blocks of a node, and all their duplicates, stop being findable. */
static void node_empty(icp_cache *cache, uint32_t node)
{
    icp_link *link = icp_tree_link(&cache->tree, node);
    for (uint32_t group = 0; group < cache->group_count; group++) {
        uint32_t block = link->blocks[group];
        if (block == ICP_BLOCK_NONE) continue;
        icp_pool *pool = icp_cache_pool(cache, group);
        if (pool->blocks[block].reference_count == 0) {
            icp_evict_spoil(cache, node, group);
            continue;
        }
        for (uint32_t heir; (heir = icp_pool_heir(pool, block)) != ICP_BLOCK_NONE;) icp_pool_conceal(pool, heir);
        icp_pool_conceal(pool, block);
        link->blocks[group] = ICP_BLOCK_NONE;
    }
    icp_tree_node(&cache->tree, node)->group_mask = 0;
}

void icp_evict_withdraw(icp_cache *cache, uint32_t node)
{
    uint32_t next = node;
    for (;;) {
        const icp_node *record = icp_tree_node(&cache->tree, next);
        uint32_t child = icp_tree_link(&cache->tree, next)->children;
        if (child != ICP_NODE_NONE) {
            next = child;
            continue;
        }
        uint32_t parent = record->parent;
        icp_event_removed(cache, next, record->group_mask);
        node_empty(cache, next);
        icp_tree_remove(&cache->tree, next);
        if (next == node) return;
        next = parent;
    }
}
