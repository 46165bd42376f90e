/* pin.c - prefixes that stay until a tick.
 *
 * A pin holds a reference on every block that a match of its prefix would hold, just as a lease does, so nothing else
 * has to know about pins. It remembers the last node only: while it is held, the way up from there cannot change. */
#include "cache/cache.h"

void icp_pin_start(icp_pin_table *table)
{
    for (uint32_t i = 0; i < table->count_max; i++) {
        table->records[i] = (icp_pin_record){.next = i + 1 < table->count_max ? i + 1 : UINT32_MAX};
    }
    table->free = 0;
    table->count = 0;
    table->next_tick = UINT64_MAX;
}

static void pin_acquire(icp_cache *cache, uint32_t group, uint32_t block)
{
    icp_pool *pool = icp_cache_pool(cache, group);
    icp_pool_acquire(pool, &block, 1, icp_cache_now(cache));
    if (pool->blocks[block].pin_count++ == 0) pool->pinned_count++;
}

static void pin_drop(icp_cache *cache, uint32_t group, uint32_t block)
{
    icp_pool *pool = icp_cache_pool(cache, group);
    if (--pool->blocks[block].pin_count == 0) pool->pinned_count--;
    icp_evict_drop(cache, group, block);
}

/* Every block that a prefix of this end needs, the last node first: so in the queue a child comes before its parent. */
static void pin_each(icp_cache *cache, uint32_t node, void (*act)(icp_cache *, uint32_t, uint32_t))
{
    uint32_t end = icp_tree_node(&cache->tree, node)->depth;
    while (node != ICP_NODE_NONE) {
        const icp_node *record = icp_tree_node(&cache->tree, node);
        uint32_t parent = record->parent;
        uint32_t distance = end - record->depth;
        for (uint32_t group = 0; group < cache->group_count; group++) {
            uint32_t block = icp_tree_link(&cache->tree, node)->blocks[group];
            if (distance < cache->groups[group].need) act(cache, group, block);
        }
        if (!cache->has_full && distance + 1 >= cache->need_max) return;
        node = parent;
    }
}

static void pin_end(icp_cache *cache, icp_pin_record *pin)
{
    pin_each(cache, pin->node, pin_drop);
    pin->is_set = false;
    pin->next = cache->pins.free;
    cache->pins.free = (uint32_t)(pin - cache->pins.records);
    cache->pins.count--;
}

icp_status icp_cache_pin(icp_cache *cache, const icp_request *request, uint64_t until_tick, icp_pin *pin,
                         uint32_t *token_count)
{
    if (cache == NULL || request == NULL || pin == NULL) return ICP_BAD_ARGUMENT;
    ICP_ENTER(cache);
    icp_status status = icp_text_validate(cache, &request->text);
    if (status != ICP_OK) return status;
    uint32_t scope = 0;
    if (!icp_scope_find(&cache->tree.scopes, request->scope, &scope)) return ICP_STALE;
    if (until_tick <= cache->tick) return ICP_BAD_ARGUMENT;
    if (cache->pins.free == UINT32_MAX) return ICP_TOO_MANY_PINS;

    icp_reach reach;
    icp_match_reach(cache, scope, &request->text, request->flags, NULL, &reach);
    if (reach.depth == 0) return ICP_NOT_FOUND;
    icp_pin_record *record = &cache->pins.records[cache->pins.free];
    uint32_t index = cache->pins.free;
    cache->pins.free = record->next;
    cache->pins.count++;
    uint32_t generation = record->generation == UINT32_MAX ? 1 : record->generation + 1;
    *record = (icp_pin_record){.generation = generation, .is_set = true, .node = reach.node, .until_tick = until_tick};
    if (until_tick < cache->pins.next_tick) cache->pins.next_tick = until_tick;
    pin_each(cache, reach.node, pin_acquire);

    *pin = (icp_pin)generation << 32 | index;
    if (token_count != NULL) *token_count = reach.depth * cache->tree.block_tokens;
    return ICP_OK;
}

icp_status icp_cache_unpin(icp_cache *cache, icp_pin pin)
{
    if (cache == NULL) return ICP_BAD_ARGUMENT;
    ICP_ENTER(cache);
    uint32_t index = (uint32_t)pin;
    if (index >= cache->pins.count_max) return ICP_STALE;
    icp_pin_record *record = &cache->pins.records[index];
    if (!record->is_set || record->generation != (uint32_t)(pin >> 32)) return ICP_STALE;
    pin_end(cache, record);
    return ICP_OK;
}

void icp_pin_expire(icp_cache *cache)
{
    if (cache->tick < cache->pins.next_tick) return;
    cache->pins.next_tick = UINT64_MAX;
    for (uint32_t i = 0; i < cache->pins.count_max; i++) {
        icp_pin_record *record = &cache->pins.records[i];
        if (!record->is_set) continue;
        if (record->until_tick <= cache->tick)
            pin_end(cache, record);
        else if (record->until_tick < cache->pins.next_tick)
            cache->pins.next_tick = record->until_tick;
    }
}

static bool pin_has_node(const icp_cache *cache, const icp_pin_record *pin, uint32_t node)
{
    uint32_t next = pin->node;
    while (next != ICP_NODE_NONE && next != node) next = icp_tree_node(&cache->tree, next)->parent;
    return next == node;
}

void icp_pin_cut(icp_cache *cache, uint32_t scope, uint32_t node)
{
    for (uint32_t i = 0; i < cache->pins.count_max && cache->pins.count != 0; i++) {
        icp_pin_record *record = &cache->pins.records[i];
        if (!record->is_set || icp_tree_node(&cache->tree, record->node)->scope != scope) continue;
        if (node == ICP_NODE_NONE || pin_has_node(cache, record, node)) pin_end(cache, record);
    }
}
