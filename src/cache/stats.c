/* stats.c - numbers that answer questions: counters, blocks by state, one block, the queue.
 *
 * What can be derived is derived here. Structs that grow are copied as far as the caller knows them. */
#include "cache/cache.h"

/* Copies as much of a result as the caller's header has, and keeps the caller's struct_size. */
static icp_status result_copy(void *out, const void *result, size_t bytes)
{
    size_t known = *(size_t *)out;
    if (known < sizeof(size_t)) return ICP_BAD_ARGUMENT;
    memcpy((char *)out + sizeof(size_t), (const char *)result + sizeof(size_t),
           (known < bytes ? known : bytes) - sizeof(size_t));
    return ICP_OK;
}

static void stats_add_pool(icp_cache_stats *stats, const icp_pool *pool)
{
    uint64_t other = (uint64_t)pool->spare_count + pool->cached_count + pool->shared_count + pool->private_count +
                     pool->duplicate_count;
    stats->block_count += pool->block_count;
    stats->block_count_spare += pool->spare_count;
    stats->block_count_cached += pool->cached_count;
    stats->block_count_shared += pool->shared_count;
    stats->block_count_private += pool->private_count;
    stats->block_count_duplicate += pool->duplicate_count;
    stats->block_count_leased += pool->block_count - other;
    stats->block_count_pinned += pool->pinned_count;
    for (uint32_t i = 0; i < ICP_HISTOGRAM_COUNT; i++) stats->reuse_gap[i] += pool->reuse_gap[i];
}

icp_status icp_cache_statistics(const icp_cache *cache, icp_cache_stats *stats)
{
    if (cache == NULL || stats == NULL) return ICP_BAD_ARGUMENT;
    ICP_ENTER(cache);
    icp_cache_stats result = cache->stats;
    for (uint32_t i = 0; i < cache->pool_count; i++) stats_add_pool(&result, &cache->pools[i]);
    result.node_count = cache->tree.node_count;
    result.lease_count = cache->leases.count;
    result.scope_count = cache->tree.scopes.count;
    result.pin_count = cache->pins.count;
    result.extra_count = cache->tree.extras.item_count;
    return result_copy(stats, &result, sizeof(result));
}

icp_status icp_scope_statistics(const icp_cache *cache, icp_scope scope, icp_scope_stats *stats)
{
    if (cache == NULL || stats == NULL) return ICP_BAD_ARGUMENT;
    ICP_ENTER(cache);
    uint32_t index = 0;
    if (!icp_scope_find(&cache->tree.scopes, scope, &index)) return ICP_STALE;
    const icp_scope_record *record = &cache->tree.scopes.records[index];
    icp_scope_stats result = {.match_count = record->match_count,
                              .queried_tokens = record->queried_tokens,
                              .hit_tokens = record->hit_tokens,
                              .tail_tokens = record->tail_tokens,
                              .stored_count = record->stored_count,
                              .evicted_count = record->evicted_count,
                              .node_count = record->node_count,
                              .lease_count = record->lease_count,
                              .quota_min = record->quota_min,
                              .quota_max = record->quota_max};
    for (uint32_t i = 0; i < cache->pool_count; i++) {
        const icp_account *account = &cache->pools[i].accounts[icp_cache_account(index)];
        result.block_count += account->charged;
        result.block_count_cached += account->free_count;
    }
    return result_copy(stats, &result, sizeof(result));
}

icp_status icp_block_inspect(const icp_cache *cache, uint32_t group, uint32_t block, icp_block_info *info)
{
    if (cache == NULL || info == NULL || group >= cache->group_count) return ICP_BAD_ARGUMENT;
    ICP_ENTER(cache);
    const icp_pool *pool = &cache->pools[cache->groups[group].pool];
    if (block >= pool->block_count) return ICP_BAD_ARGUMENT;
    const icp_block *record = &pool->blocks[block];
    *info = (icp_block_info){.state = icp_pool_state(pool, block),
                             .reference_count = record->reference_count,
                             .pin_count = record->pin_count,
                             .node = record->node,
                             .idle_ticks = icp_cache_now(cache) - record->used_tick};
    if (record->node != ICP_NODE_NONE) {
        const icp_node *node = icp_tree_node(&cache->tree, record->node);
        info->position = node->depth * cache->tree.block_tokens;
        info->scope = icp_scope_handle(&cache->tree.scopes, node->scope);
    }
    return ICP_OK;
}

/* Where quotas give scopes queues of their own, these follow, scope by scope. */
icp_status icp_cache_queue(const icp_cache *cache, uint32_t group, uint32_t *blocks, size_t capacity, size_t *count)
{
    if (cache == NULL || count == NULL || group >= cache->group_count) return ICP_BAD_ARGUMENT;
    if (blocks == NULL && capacity != 0) return ICP_BAD_ARGUMENT;
    ICP_ENTER(cache);
    const icp_pool *pool = &cache->pools[cache->groups[group].pool];
    size_t listed = 0;
    for (uint32_t i = 0; i <= pool->account_count; i++) {
        const icp_list *list = i == 0 ? &pool->spare : &pool->accounts[i - 1].queue;
        for (uint32_t block = list->head; block != ICP_BLOCK_NONE; block = pool->blocks[block].next) {
            if (listed < capacity) blocks[listed] = block;
            listed++;
        }
    }
    *count = listed;
    return ICP_OK;
}
