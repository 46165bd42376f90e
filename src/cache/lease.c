/* lease.c - one request's hold on its blocks: the block table, there is no second one.
 *
 *      tokens        |<------ published ------>|                |
 *      row (full)    [ 12 ][ 13 ][ 40 ][ 41 ][ 7 ][ 8 ][ 9 ]       entries 0 .. block_count - 1
 *      row (window)  [ -- ][ -- ][ -- ][ 21 ][ 22 ][ 23 ][ 24 ]    -- given back: behind the window
 *                                 lowest ^          ^ node: the last one published
 *
 * Invariants (check.c proves them):
 *  - The first `published` blocks are nodes of one path of the tree; the lease holds a block on each of them in every
 *    full group, the node's own or a duplicate. So none of them can be evicted.
 *  - Entries past `published` cannot be found. They are private, this lease alone writes them, but for blocks that
 *  others
 *    hold too since before a failed step: these are neither published nor, see truncate, written. */
#include "base/prefetch.h"
#include "cache/cache.h"

/* ---- The table of leases ---------------------------------------------------------------------------------- */

icp_lease_record *icp_lease_find(const icp_cache *cache, icp_lease lease)
{
    uint32_t index = (uint32_t)lease;
    if (index >= cache->leases.count_max) return NULL;
    icp_lease_record *record = &cache->leases.records[index];
    return record->is_open && record->generation == (uint32_t)(lease >> 32) ? record : NULL;
}

icp_lease icp_lease_handle(const icp_lease_record *lease)
{
    return (icp_lease)lease->generation << 32 | lease->index;
}

icp_lease_record *icp_lease_claim(icp_cache *cache)
{
    if (cache->leases.free == UINT32_MAX) return NULL;
    icp_lease_record *record = &cache->leases.records[cache->leases.free];
    cache->leases.free = record->next;
    cache->leases.count++;
    record->is_open = true;
    record->generation = record->generation == UINT32_MAX ? 1 : record->generation + 1;
    return record;
}

bool icp_lease_is_shared(const icp_cache *cache, const icp_lease_record *lease, uint32_t index)
{
    for (uint32_t group = 0; group < cache->group_count; group++) {
        uint32_t block = icp_lease_row(cache, lease, group)[index];
        if (block == ICP_BLOCK_NONE) continue;
        if (cache->pools[cache->groups[group].pool].blocks[block].reference_count > 1) return true;
    }
    return false;
}

/* True where the lease holds a block of the node that its path ends in. */
static bool lease_holds_end(const icp_cache *cache, const icp_lease_record *lease)
{
    for (uint32_t group = 0; group < cache->group_count; group++) {
        uint32_t block = icp_lease_row(cache, lease, group)[lease->published - 1];
        if (block == ICP_BLOCK_NONE) continue;
        if (cache->pools[cache->groups[group].pool].blocks[block].node == lease->node) return true;
    }
    return false;
}

void icp_lease_shorten(icp_cache *cache, icp_lease_record *lease, uint32_t published)
{
    while (lease->published > published ||
           (!cache->has_full && lease->published > 0 && !lease_holds_end(cache, lease))) {
        lease->node = icp_tree_node(&cache->tree, lease->node)->parent;
        lease->published--;
    }
    if (lease->matched > lease->published) lease->matched = lease->published;
}

static bool lease_has_node(const icp_cache *cache, const icp_lease_record *lease, uint32_t node)
{
    uint32_t depth = icp_tree_node(&cache->tree, node)->depth;
    uint32_t next = lease->node;
    for (uint32_t i = lease->published; i > depth + 1; i--) next = icp_tree_node(&cache->tree, next)->parent;
    return next == node && lease->published > depth;
}

void icp_lease_cut(icp_cache *cache, uint32_t scope, uint32_t node)
{
    for (uint32_t i = 0; i < cache->leases.count_max; i++) {
        icp_lease_record *lease = &cache->leases.records[i];
        if (!lease->is_open || lease->scope != scope) continue;
        if (node == ICP_NODE_NONE) {
            lease->flags |= ICP_NO_STORE;
            lease->published = lease->matched = 0;
            lease->node = ICP_NODE_NONE;
        } else if (lease_has_node(cache, lease, node)) {
            icp_lease_shorten(cache, lease, icp_tree_node(&cache->tree, node)->depth);
        }
    }
}

/* ---- Tails ------------------------------------------------------------------------------------------------ */

static void tail_drop(icp_cache *cache, icp_lease_record *lease)
{
    for (uint32_t group = 0; group < cache->group_count; group++) {
        icp_evict_drop(cache, group, *icp_lease_source(cache, lease, group));
    }
    lease->tail_tokens = 0;
}

/* The step in which the tail was to be copied is over. */
void icp_lease_settle(icp_cache *cache, icp_lease_record *lease)
{
    if (lease->tail_tokens != 0 && lease->is_tail_placed && lease->tail_tick != cache->tick) tail_drop(cache, lease);
}

static bool is_tail_pending(const icp_lease_record *lease)
{
    return lease->tail_tokens != 0 && !lease->is_tail_placed;
}

icp_status icp_lease_tail(const icp_cache *cache, icp_lease lease, uint32_t group, icp_copy *copy)
{
    if (cache == NULL || copy == NULL || group >= cache->group_count) return ICP_BAD_ARGUMENT;
    ICP_ENTER(cache);
    const icp_lease_record *record = icp_lease_find(cache, lease);
    if (record == NULL) return ICP_STALE;
    if (is_tail_pending(record)) return ICP_NOT_FOUND;
    const uint32_t *row = icp_lease_row(cache, record, group);
    bool has_copy =
        record->tail_tokens != 0 && row[record->tail_index] != ICP_BLOCK_NONE; /* not behind the window yet */
    *copy = has_copy ? (icp_copy){*icp_lease_source(cache, record, group), row[record->tail_index], record->tail_tokens}
                     : (icp_copy){ICP_BLOCK_NONE, ICP_BLOCK_NONE, 0};
    return ICP_OK;
}

/* ---- Extend ----------------------------------------------------------------------------------------------- */

/* What an extend does to one group: entries [lowest, keep_from) go, new entries [first, end) come. */
typedef struct group_growth {
    uint32_t keep_from;
    uint32_t first;
    uint32_t end;
} group_growth;

static uint32_t blocks_for(const icp_cache *cache, uint32_t token_count)
{
    return token_count / cache->tree.block_tokens + (token_count % cache->tree.block_tokens != 0);
}

/* The first entry that a token at position still needs. */
static uint32_t first_needed(const icp_cache *cache, uint32_t group, uint32_t position)
{
    const icp_group_plan *plan = &cache->groups[group];
    if (plan->kind == ICP_GROUP_FULL || position == 0) return 0;
    if (plan->kind == ICP_GROUP_STATE) return (position - 1) / cache->tree.block_tokens;
    return position < plan->window ? 0 : (position - (plan->window - 1)) / cache->tree.block_tokens;
}

static group_growth growth_of(const icp_cache *cache, const icp_lease_record *lease, uint32_t group, uint32_t count)
{
    uint32_t position = lease->token_count + (is_tail_pending(lease) ? lease->tail_tokens : 0);
    if (position > count) position = count;
    group_growth growth = {.keep_from = first_needed(cache, group, position),
                           .first = lease->block_count,
                           .end = blocks_for(cache, count)};
    if (cache->groups[group].kind == ICP_GROUP_STATE && growth.first < growth.end) growth.first = growth.end - 1;
    return growth;
}

/* In a cache without full groups the end of the path is held by its window or state blocks alone, so these stay. */
static bool is_entry_kept(const icp_cache *cache, const icp_lease_record *lease, uint32_t index)
{
    return !cache->has_full && index + 1 == lease->published;
}

/* Blocks that would be free once the entries [from, to) were given back. */
static uint32_t count_freed(const icp_cache *cache, const icp_lease_record *lease, uint32_t group, uint32_t from,
                            uint32_t to)
{
    const uint32_t *row = icp_lease_row(cache, lease, group);
    const icp_block *blocks = cache->pools[cache->groups[group].pool].blocks;
    uint32_t freed = 0;
    for (uint32_t i = from; i < to && i < lease->block_count; i++) {
        if (row[i] != ICP_BLOCK_NONE) freed += blocks[row[i]].reference_count == 1;
    }
    return freed;
}

/* What a lease wants of each pool, and what it gives back before. */
typedef struct pool_demand {
    uint64_t wanted[ICP_GROUP_COUNT_MAX];
    uint64_t freed[ICP_GROUP_COUNT_MAX];
} pool_demand;

/* OK where every pool can give what is wanted. */
static icp_status demand_check(icp_cache *cache, const icp_lease_record *lease, const pool_demand *demand)
{
    uint32_t account = icp_cache_account(lease->scope);
    icp_status status = ICP_OK;
    for (uint32_t i = 0; i < cache->pool_count && status == ICP_OK; i++) {
        const icp_pool *pool = &cache->pools[i];
        if (demand->wanted[i] == 0) continue;
        if (icp_pool_is_over_quota(pool, account, demand->wanted[i], demand->freed[i]))
            status = ICP_QUOTA;
        else if (icp_pool_available(pool, account, demand->freed[i]) < demand->wanted[i])
            status = ICP_FULL;
    }
    if (status != ICP_OK) cache->stats.full_count++;
    return status;
}

static icp_status growth_check(icp_cache *cache, const icp_lease_record *lease, uint32_t count)
{
    pool_demand demand = {{0}, {0}};
    for (uint32_t group = 0; group < cache->group_count; group++) {
        group_growth growth = growth_of(cache, lease, group, count);
        uint32_t pool = cache->groups[group].pool;
        uint32_t lowest = *icp_lease_lowest(cache, lease, group);
        demand.wanted[pool] += growth.end - growth.first;
        demand.freed[pool] += count_freed(cache, lease, group, lowest, growth.keep_from);
        uint32_t kept = lease->published - 1;
        if (!cache->has_full && lease->published != 0 && kept >= lowest && kept < growth.keep_from) {
            demand.freed[pool] -= count_freed(cache, lease, group, kept, kept + 1);
        }
    }
    return demand_check(cache, lease, &demand);
}

static void group_give_back(icp_cache *cache, icp_lease_record *lease, uint32_t group, uint32_t keep_from)
{
    uint32_t *row = icp_lease_row(cache, lease, group);
    uint32_t *lowest = icp_lease_lowest(cache, lease, group);
    if (keep_from > lease->block_count) keep_from = lease->block_count;
    uint32_t lowest_now = keep_from > *lowest ? keep_from : *lowest;
    for (uint32_t i = keep_from; i-- > *lowest;) {
        if (row[i] == ICP_BLOCK_NONE) continue;
        if (is_entry_kept(cache, lease, i)) {
            lowest_now = i;
            continue;
        }
        icp_evict_drop(cache, group, row[i]);
        row[i] = ICP_BLOCK_NONE;
    }
    *lowest = lowest_now;
}

static void group_grow(icp_cache *cache, icp_lease_record *lease, uint32_t group, const group_growth *growth)
{
    uint32_t *row = icp_lease_row(cache, lease, group);
    uint32_t block_tokens = cache->tree.block_tokens;
    if (cache->groups[group].kind == ICP_GROUP_STATE && growth->first < growth->end &&
        lease->token_count % block_tokens != 0) { /* the state stays behind in the middle of its block */
        uint32_t left = row[lease->block_count - 1];
        if (left != ICP_BLOCK_NONE) icp_cache_pool(cache, group)->blocks[left].flags |= ICP_BLOCK_IS_PARTIAL;
    }
    for (uint32_t i = lease->block_count; i < growth->first; i++) row[i] = ICP_BLOCK_NONE;
    for (uint32_t i = growth->first; i < growth->end; i++) row[i] = icp_evict_take(cache, group, lease->scope);
}

static icp_status lease_grow(icp_cache *cache, icp_lease_record *lease, uint32_t count)
{
    icp_status status = growth_check(cache, lease, count);
    if (status != ICP_OK) return status;
    group_growth growth[ICP_GROUP_COUNT_MAX];
    for (uint32_t group = 0; group < cache->group_count; group++) {
        growth[group] = growth_of(cache, lease, group, count);
        group_give_back(cache, lease, group, growth[group].keep_from);
    }
    for (uint32_t group = 0; group < cache->group_count; group++) group_grow(cache, lease, group, &growth[group]);
    if (is_tail_pending(lease)) {
        lease->is_tail_placed = true;
        lease->tail_tick = cache->tick;
    }
    lease->block_count = blocks_for(cache, count);
    lease->token_count = count;
    return ICP_OK;
}

icp_status icp_lease_extend(icp_cache *cache, icp_lease lease, uint32_t token_count)
{
    if (cache == NULL) return ICP_BAD_ARGUMENT;
    ICP_ENTER(cache);
    icp_lease_record *record = icp_lease_find(cache, lease);
    if (record == NULL) return ICP_STALE;
    if (token_count > cache->leases.tokens_max) return ICP_TOO_LONG;
    icp_lease_settle(cache, record);
    if (token_count <= record->token_count) return ICP_OK;
    if (cache->need_max == 0 && token_count <= record->block_count * cache->tree.block_tokens) { /* a decode step */
        record->token_count = token_count;
        return ICP_OK;
    }
    return lease_grow(cache, record, token_count);
}

icp_status icp_lease_table(const icp_cache *cache, icp_lease lease, uint32_t group, const uint32_t **blocks,
                           uint32_t *count)
{
    if (cache == NULL || blocks == NULL || count == NULL || group >= cache->group_count) return ICP_BAD_ARGUMENT;
    ICP_ENTER(cache);
    const icp_lease_record *record = icp_lease_find(cache, lease);
    if (record == NULL) return ICP_STALE;
    *blocks = icp_lease_row(cache, record, group);
    *count = record->block_count;
    return ICP_OK;
}

icp_status icp_lease_inspect(const icp_cache *cache, icp_lease lease, icp_lease_info *info)
{
    if (cache == NULL || info == NULL) return ICP_BAD_ARGUMENT;
    ICP_ENTER(cache);
    const icp_lease_record *record = icp_lease_find(cache, lease);
    if (record == NULL) return ICP_STALE;
    *info = (icp_lease_info){.scope = icp_scope_handle(&cache->tree.scopes, record->scope),
                             .token_count = record->token_count,
                             .published_tokens = record->published * cache->tree.block_tokens,
                             .block_count = record->block_count};
    return ICP_OK;
}

/* ---- Truncate and release ----------------------------------------------------------------------------------- */

/* Gives back the entries from keep on, the last first. */
static void lease_shrink(icp_cache *cache, icp_lease_record *lease, uint32_t keep)
{
    if (cache->group_count == 1) {
        const uint32_t *row = icp_lease_row(cache, lease, 0);
        const icp_block *blocks = icp_cache_pool(cache, 0)->blocks;
        for (uint32_t i = lease->block_count; i-- > keep;) {
            if (i >= keep + 8 && row[i - 8] != ICP_BLOCK_NONE) ICP_PREFETCH(&blocks[row[i - 8]]);
            if (row[i] != ICP_BLOCK_NONE) icp_evict_drop(cache, 0, row[i]);
        }
    } else {
        for (uint32_t i = lease->block_count; i-- > keep;) {
            for (uint32_t group = 0; group < cache->group_count; group++) {
                uint32_t block = icp_lease_row(cache, lease, group)[i];
                if (block != ICP_BLOCK_NONE) icp_evict_drop(cache, group, block);
            }
        }
    }
    lease->block_count = keep;
}

/* NOT_FOUND where a group has given back what a token at position count would need. */
static icp_status truncate_check_held(const icp_cache *cache, const icp_lease_record *lease, uint32_t count)
{
    for (uint32_t group = 0; group < cache->group_count; group++) {
        const icp_group_plan *plan = &cache->groups[group];
        const uint32_t *row = icp_lease_row(cache, lease, group);
        if (plan->kind == ICP_GROUP_FULL || count == 0) continue;
        if (plan->kind == ICP_GROUP_STATE && count % cache->tree.block_tokens != 0) return ICP_NOT_FOUND;
        uint32_t end = blocks_for(cache, count);
        for (uint32_t i = first_needed(cache, group, count); i < end; i++) {
            if (row[i] == ICP_BLOCK_NONE) return ICP_NOT_FOUND;
            bool is_partial = cache->pools[plan->pool].blocks[row[i]].flags & ICP_BLOCK_IS_PARTIAL;
            if (plan->kind == ICP_GROUP_STATE && is_partial) return ICP_NOT_FOUND;
        }
    }
    return ICP_OK;
}

/* OK where each group can have a private block in exchange for a published one, once the entries from keep on and the
 * source of an earlier tail are back. */
static icp_status truncate_check_room(icp_cache *cache, const icp_lease_record *lease, uint32_t keep)
{
    pool_demand demand = {{0}, {0}};
    for (uint32_t group = 0; group < cache->group_count; group++) {
        uint32_t pool = cache->groups[group].pool;
        demand.wanted[pool]++;
        demand.freed[pool] += count_freed(cache, lease, group, keep, lease->block_count);
        uint32_t source = *icp_lease_source(cache, lease, group);
        if (lease->tail_tokens != 0) demand.freed[pool] += cache->pools[pool].blocks[source].reference_count == 1;
    }
    return demand_check(cache, lease, &demand);
}

/* The new end lies inside a block that is not the lease's alone: its entry there becomes a private block, and the old
 * one, with the lease's reference, what the tail is copied from. */
static void lease_exchange_last(icp_cache *cache, icp_lease_record *lease, uint32_t count)
{
    uint32_t index = count / cache->tree.block_tokens;
    lease->tail_tokens = count % cache->tree.block_tokens;
    lease->tail_index = index;
    lease->is_tail_placed = true;
    lease->tail_tick = cache->tick;
    for (uint32_t group = 0; group < cache->group_count; group++) {
        uint32_t *row = icp_lease_row(cache, lease, group);
        *icp_lease_source(cache, lease, group) = row[index];
        row[index] = icp_evict_take(cache, group, lease->scope);
    }
}

static icp_status lease_truncate(icp_cache *cache, icp_lease_record *lease, uint32_t count)
{
    uint32_t whole = count / cache->tree.block_tokens;
    uint32_t keep = blocks_for(cache, count);
    bool is_private = whole >= lease->published && !icp_lease_is_shared(cache, lease, whole);
    bool is_exchanged = keep > whole && !is_private;
    icp_status status = truncate_check_held(cache, lease, count);
    if (status == ICP_OK && is_exchanged) status = truncate_check_room(cache, lease, keep);
    if (status != ICP_OK) return status;

    if (lease->tail_tokens != 0 && (is_exchanged || count <= lease->tail_index * cache->tree.block_tokens)) {
        tail_drop(cache, lease);
    }
    icp_lease_shorten(cache, lease, whole < lease->published ? whole : lease->published);
    lease_shrink(cache, lease, keep);
    if (is_exchanged) lease_exchange_last(cache, lease, count);
    lease->token_count = count;
    for (uint32_t group = 0; group < cache->group_count; group++) {
        uint32_t *lowest = icp_lease_lowest(cache, lease, group);
        if (*lowest > keep) *lowest = keep;
    }
    return ICP_OK;
}

icp_status icp_lease_truncate(icp_cache *cache, icp_lease lease, uint32_t token_count)
{
    if (cache == NULL) return ICP_BAD_ARGUMENT;
    ICP_ENTER(cache);
    icp_lease_record *record = icp_lease_find(cache, lease);
    if (record == NULL) return ICP_STALE;
    icp_lease_settle(cache, record);
    if (token_count < record->token_count) return lease_truncate(cache, record, token_count);
    uint32_t tail_left = token_count - record->token_count;
    if (!is_tail_pending(record) || tail_left >= record->tail_tokens) return ICP_OK;
    if (tail_left == 0)
        tail_drop(cache, record);
    else
        record->tail_tokens = tail_left;
    return ICP_OK;
}

icp_status icp_lease_release(icp_cache *cache, icp_lease lease)
{
    if (cache == NULL) return ICP_BAD_ARGUMENT;
    ICP_ENTER(cache);
    icp_lease_record *record = icp_lease_find(cache, lease);
    if (record == NULL) return ICP_STALE;
    if (record->tail_tokens != 0) tail_drop(cache, record);
    lease_shrink(cache, record, 0);
    record->is_open = false;
    record->next = cache->leases.free;
    cache->leases.free = record->index;
    cache->leases.count--;
    cache->tree.scopes.records[record->scope].lease_count--;
    icp_cache_rest(cache, record->scope);
    return ICP_OK;
}
