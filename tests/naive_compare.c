/* naive_compare.c - the library against the model: queues, blocks, leases, statistics.
 *
 * Everything that the public header shows is compared. Only where places in a queue are loose (see naive.h) does the
 * model follow the library, and then only within the run of places that may stand in any order. */
#include "naive.h"

#include <inttypes.h>
#include <stdio.h>

/* ---- Queues ---------------------------------------------------------------------------------------------- */

static uint32_t place_in(const uint32_t *blocks, size_t count, uint32_t block)
{
    uint32_t i = 0;
    while (i < count && blocks[i] != block) i++;
    return i;
}

/* Puts each run of loose places into the library's order. */
static void settle_queue(naive_queue *queue, const uint32_t *seen, size_t seen_count)
{
    for (uint32_t begin = 0, end; begin < queue->count; begin = end) {
        uint64_t loose = queue->places[begin].loose;
        end = begin + 1;
        if (loose == 0) continue;
        while (end < queue->count && queue->places[end].loose == loose) end++;
        for (uint32_t i = begin; i < end; i++) {
            uint32_t first = i;
            for (uint32_t k = i + 1; k < end; k++) {
                uint32_t a = place_in(seen, seen_count, queue->places[k].block);
                uint32_t b = place_in(seen, seen_count, queue->places[first].block);
                if (a < b) first = k;
            }
            uint32_t block = queue->places[first].block;
            queue->places[first] = queue->places[i];
            queue->places[i] = (naive_place){block, 0};
        }
    }
}

static bool compare_queue(naive *model, uint32_t group)
{
    uint32_t seen[NAIVE_BLOCK_COUNT_MAX];
    size_t seen_count = 0;
    uint32_t pool = model->pool_of[group];
    icp_status status = icp_cache_queue(model->cache, group, seen, NAIVE_BLOCK_COUNT_MAX, &seen_count);
    if (status != ICP_OK) {
        naive_fail(model, "icp_cache_queue of group %u: %s", group, icp_status_name(status));
        return false;
    }
    settle_queue(&model->now.pools[pool].spare, seen, seen_count);
    settle_queue(&model->now.pools[pool].lru, seen, seen_count);
    uint32_t wanted[NAIVE_BLOCK_COUNT_MAX];
    uint32_t count = naive_queue_list(model, pool, wanted);
    if (count != seen_count) {
        naive_fail(model, "queue of pool %u: %zu blocks, want %u", pool, seen_count, count);
        return false;
    }
    for (uint32_t i = 0; i < count; i++) {
        if (seen[i] == wanted[i]) continue;
        naive_fail(model, "queue of pool %u: place %u of %u is block %u, want %u", pool, i, count, seen[i], wanted[i]);
        return false;
    }
    return true;
}

/* ---- Blocks ----------------------------------------------------------------------------------------------- */

static icp_block_state state_of(const naive_block *block)
{
    if (block->duplicate_of != NAIVE_NONE) return ICP_BLOCK_DUPLICATE;
    if (block->node == NAIVE_NONE) return block->reference_count == 0 ? ICP_BLOCK_SPARE : ICP_BLOCK_PRIVATE;
    if (block->reference_count == 0) return ICP_BLOCK_CACHED;
    return block->reference_count == 1 ? ICP_BLOCK_LEASED : ICP_BLOCK_SHARED;
}

static bool compare_place(naive *model, uint32_t pool, uint32_t b, const icp_block_info *info)
{
    const naive_block *block = &model->now.pools[pool].blocks[b];
    uint32_t n = block->node != NAIVE_NONE ? block->node : block->duplicate_of;
    if (n == NAIVE_NONE) {
        if (info->node == ICP_NODE_NONE) return true;
        naive_fail(model, "block %u of pool %u: has node %u, want none", b, pool, info->node);
        return false;
    }
    const naive_node *node = &model->now.nodes[n];
    uint32_t position = (node->depth - 1) * model->block_tokens;
    if (info->node != node->known_as || info->position != position) {
        naive_fail(model, "block %u of pool %u: node %u at %u, want %u at %u", b, pool, info->node, info->position,
                   node->known_as, position);
        return false;
    }
    if (info->scope == model->now.scopes[node->scope].handle) return true;
    naive_fail(model, "block %u of pool %u: scope %" PRIx64, b, pool, info->scope);
    return false;
}

static bool compare_block(naive *model, uint32_t group, uint32_t b)
{
    uint32_t pool = model->pool_of[group];
    const naive_block *block = &model->now.pools[pool].blocks[b];
    icp_block_info info;
    icp_status status = icp_block_inspect(model->cache, group, b, &info);
    if (status != ICP_OK) {
        naive_fail(model, "icp_block_inspect: %s", icp_status_name(status));
        return false;
    }
    if (info.reference_count != block->reference_count || info.pin_count != block->pin_count) {
        naive_fail(model, "block %u of pool %u: %u references, %u pins, want %u, %u", b, pool, info.reference_count,
                   info.pin_count, block->reference_count, block->pin_count);
        return false;
    }
    if (info.state != state_of(block)) {
        naive_fail(model, "block %u of pool %u: state %d, want %d", b, pool, (int)info.state, (int)state_of(block));
        return false;
    }
    uint64_t idle_ticks = model->now.tick - block->tick_used;
    if (info.state != ICP_BLOCK_SPARE && info.idle_ticks != idle_ticks) {
        naive_fail(model, "block %u of pool %u: idle for %" PRIu64 ", want %" PRIu64, b, pool, info.idle_ticks,
                   idle_ticks);
        return false;
    }
    return compare_place(model, pool, b, &info);
}

/* ---- Leases ------------------------------------------------------------------------------------------------ */

static bool compare_table(naive *model, uint32_t slot, uint32_t group)
{
    const naive_lease *lease = &model->now.leases[slot];
    const uint32_t *blocks = NULL;
    uint32_t count = 0;
    icp_status status = icp_lease_table(model->cache, lease->handle, group, &blocks, &count);
    if (status != ICP_OK || count != lease->entry_count) {
        naive_fail(model, "lease %u: table of group %u: %s, %u entries, want %u", slot, group, icp_status_name(status),
                   count, lease->entry_count);
        return false;
    }
    for (uint32_t i = 0; i < count; i++) {
        if (blocks[i] == lease->tables[group][i]) continue;
        naive_fail(model, "lease %u: entry %u of group %u is %d, want %d", slot, i, group, (int)blocks[i],
                   (int)lease->tables[group][i]);
        return false;
    }
    return true;
}

static bool compare_tail(naive *model, uint32_t slot, uint32_t group)
{
    const naive_lease *lease = &model->now.leases[slot];
    icp_copy copy = {0, 0, 0};
    icp_status status = icp_lease_tail(model->cache, lease->handle, group, &copy);
    icp_status wanted = lease->is_tail_pending ? ICP_NOT_FOUND : ICP_OK;
    bool is_there = lease->is_tail_held && lease->tables[group][lease->tail_index] != NAIVE_NONE; /* not given back */
    uint32_t positions = is_there ? lease->tail_positions : 0;
    if (status != wanted || copy.positions != positions) {
        naive_fail(model, "lease %u: tail in group %u: %s, %u positions, want %s, %u", slot, group,
                   icp_status_name(status), copy.positions, icp_status_name(wanted), positions);
        return false;
    }
    if (positions == 0) return true;
    uint32_t to = lease->tables[group][lease->tail_index];
    if (copy.from == lease->tail_sources[group] && copy.to == to) return true;
    naive_fail(model, "lease %u: tail in group %u: copy %u to %u, want %u to %u", slot, group, copy.from, copy.to,
               lease->tail_sources[group], to);
    return false;
}

/* What a lease's path leads to is there: a path never outlives its nodes. */
static bool is_path_alive(naive *model, uint32_t slot)
{
    const naive_lease *lease = &model->now.leases[slot];
    for (uint32_t i = 0; i < lease->published / model->block_tokens; i++) {
        if (model->now.nodes[lease->path[i]].serial == lease->path_serial[i]) continue;
        naive_fail(model, "lease %u: the node at %u of its path is gone", slot, i);
        return false;
    }
    return true;
}

static bool compare_lease(naive *model, uint32_t slot)
{
    const naive_lease *lease = &model->now.leases[slot];
    icp_lease_info info;
    icp_status status = icp_lease_inspect(model->cache, lease->handle, &info);
    if (status != ICP_OK) {
        naive_fail(model, "lease %u: %s", slot, icp_status_name(status));
        return false;
    }
    if (info.token_count != lease->room || info.published_tokens != lease->published ||
        info.block_count != lease->entry_count || info.scope != model->now.scopes[lease->scope].handle) {
        naive_fail(model, "lease %u: room %u, published %u, entries %u, want %u, %u, %u", slot, info.token_count,
                   info.published_tokens, info.block_count, lease->room, lease->published, lease->entry_count);
        return false;
    }
    for (uint32_t g = 0; g < model->group_count; g++) {
        if (!compare_table(model, slot, g) || !compare_tail(model, slot, g)) return false;
    }
    return true;
}

bool naive_compare(naive *model)
{
    if (model->error[0] != '\0') return false;
    icp_error error = {""};
    if (icp_cache_check(model->cache, &error) != ICP_OK) {
        naive_fail(model, "icp_cache_check: %s", error.text);
        return false;
    }
    for (uint32_t l = 0; l < NAIVE_LEASE_COUNT_MAX; l++) {
        if (model->now.leases[l].is_open && (!is_path_alive(model, l) || !compare_lease(model, l))) return false;
    }
    for (uint32_t g = 0, pool = 0; g < model->group_count; g++) {
        if (model->pool_of[g] != pool) continue;
        for (uint32_t b = 0; b < model->now.pools[pool].block_count; b++) {
            if (!compare_block(model, g, b)) return false;
        }
        if (!compare_queue(model, g)) return false;
        pool++;
    }
    return true;
}

/* ---- Statistics ---------------------------------------------------------------------------------------------- */

static bool same(naive *model, const char *what, uint64_t seen, uint64_t wanted)
{
    if (seen == wanted) return true;
    naive_fail(model, "statistics: %s is %" PRIu64 ", want %" PRIu64, what, seen, wanted);
    return false;
}

static bool compare_counters(naive *model, const icp_cache_stats *stats)
{
    const naive_counters *wanted = &model->now.counters;
    return same(model, "match_count", stats->match_count, wanted->match_count) &&
           same(model, "queried_tokens", stats->queried_tokens, wanted->queried_tokens) &&
           same(model, "hit_tokens", stats->hit_tokens, wanted->hit_tokens) &&
           same(model, "tail_tokens", stats->tail_tokens, wanted->tail_tokens) &&
           same(model, "taken_count", stats->taken_count, wanted->taken_count) &&
           same(model, "stored_count", stats->stored_count, wanted->stored_count) &&
           same(model, "duplicate_count", stats->duplicate_count, wanted->duplicate_count) &&
           same(model, "evicted_count", stats->evicted_count, wanted->evicted_count) &&
           same(model, "refused_count", stats->refused_count, wanted->refused_count) &&
           same(model, "full_count", stats->full_count, wanted->full_count);
}

static bool compare_ages(naive *model, const icp_cache_stats *stats)
{
    const naive_counters *wanted = &model->now.counters;
    for (uint32_t i = 0; i < ICP_HISTOGRAM_COUNT; i++) {
        if (!same(model, "a bucket of residency", stats->residency[i], wanted->residency[i])) return false;
        if (!same(model, "a bucket of idle", stats->idle[i], wanted->idle[i])) return false;
        if (!same(model, "a bucket of reuse_gap", stats->reuse_gap[i], wanted->reuse_gap[i])) return false;
    }
    return true;
}

static bool compare_states(naive *model, const icp_cache_stats *stats)
{
    uint64_t counts[ICP_BLOCK_DUPLICATE + 1] = {0};
    uint64_t pinned = 0;
    uint64_t total = 0;
    for (uint32_t p = 0; p < model->pool_count; p++) {
        for (uint32_t b = 0; b < model->now.pools[p].block_count; b++) {
            const naive_block *block = &model->now.pools[p].blocks[b];
            counts[state_of(block)]++;
            if (block->pin_count != 0) pinned++;
            total++;
        }
    }
    return same(model, "block_count", stats->block_count, total) &&
           same(model, "spare", stats->block_count_spare, counts[ICP_BLOCK_SPARE]) &&
           same(model, "cached", stats->block_count_cached, counts[ICP_BLOCK_CACHED]) &&
           same(model, "leased", stats->block_count_leased, counts[ICP_BLOCK_LEASED]) &&
           same(model, "shared", stats->block_count_shared, counts[ICP_BLOCK_SHARED]) &&
           same(model, "private", stats->block_count_private, counts[ICP_BLOCK_PRIVATE]) &&
           same(model, "duplicate", stats->block_count_duplicate, counts[ICP_BLOCK_DUPLICATE]) &&
           same(model, "pinned", stats->block_count_pinned, pinned);
}

static bool compare_objects(naive *model, const icp_cache_stats *stats)
{
    uint64_t nodes = 0, leases = 0, pins = 0, extras = 0, scopes = 0;
    for (uint32_t n = 0; n < model->now.node_count; n++) {
        if (model->now.nodes[n].serial == 0) continue;
        nodes++;
        extras += naive_node_extras(model, n);
    }
    for (uint32_t l = 0; l < NAIVE_LEASE_COUNT_MAX; l++) leases += model->now.leases[l].is_open;
    for (uint32_t p = 0; p < NAIVE_PIN_COUNT_MAX; p++) pins += model->now.pins[p].is_set;
    for (uint32_t s = 0; s < NAIVE_SCOPE_COUNT_MAX; s++) scopes += model->now.scopes[s].is_live;
    return same(model, "node_count", stats->node_count, nodes) &&
           same(model, "lease_count", stats->lease_count, leases) && same(model, "pin_count", stats->pin_count, pins) &&
           same(model, "extra_count", stats->extra_count, extras) &&
           same(model, "scope_count", stats->scope_count, scopes);
}

/* Blocks that are charged to a scope, and those of them that are free to evict. */
static bool compare_scope(naive *model, uint32_t slot)
{
    const naive_scope *scope = &model->now.scopes[slot];
    icp_scope_stats stats;
    icp_scope_stats_init(&stats);
    icp_status status = icp_scope_statistics(model->cache, scope->handle, &stats);
    if (status != ICP_OK) {
        naive_fail(model, "icp_scope_statistics of scope %u: %s", slot, icp_status_name(status));
        return false;
    }
    uint64_t charged = 0, cached = 0, nodes = 0, leases = 0;
    for (uint32_t p = 0; p < model->pool_count; p++) {
        for (uint32_t b = 0; b < model->now.pools[p].block_count; b++) {
            const naive_block *block = &model->now.pools[p].blocks[b];
            if (block->scope != slot || state_of(block) == ICP_BLOCK_SPARE) continue;
            charged++;
            cached += state_of(block) == ICP_BLOCK_CACHED;
        }
    }
    for (uint32_t n = 0; n < model->now.node_count; n++) {
        nodes += model->now.nodes[n].serial != 0 && model->now.nodes[n].scope == slot;
    }
    for (uint32_t l = 0; l < NAIVE_LEASE_COUNT_MAX; l++) {
        leases += model->now.leases[l].is_open && model->now.leases[l].scope == slot;
    }
    return same(model, "scope's match_count", stats.match_count, scope->match_count) &&
           same(model, "scope's queried_tokens", stats.queried_tokens, scope->queried_tokens) &&
           same(model, "scope's hit_tokens", stats.hit_tokens, scope->hit_tokens) &&
           same(model, "scope's tail_tokens", stats.tail_tokens, scope->tail_tokens) &&
           same(model, "scope's stored_count", stats.stored_count, scope->stored_count) &&
           same(model, "scope's evicted_count", stats.evicted_count, scope->evicted_count) &&
           same(model, "scope's block_count", stats.block_count, charged) &&
           same(model, "scope's block_count_cached", stats.block_count_cached, cached) &&
           same(model, "scope's node_count", stats.node_count, nodes) &&
           same(model, "scope's lease_count", stats.lease_count, leases) &&
           same(model, "scope's quota_min", stats.quota_min, scope->quota_min) &&
           same(model, "scope's quota_max", stats.quota_max, scope->quota_max);
}

bool naive_compare_statistics(naive *model)
{
    icp_cache_stats stats;
    icp_cache_stats_init(&stats);
    icp_status status = icp_cache_statistics(model->cache, &stats);
    if (status != ICP_OK) {
        naive_fail(model, "icp_cache_statistics: %s", icp_status_name(status));
        return false;
    }
    if (!compare_counters(model, &stats) || !compare_ages(model, &stats)) return false;
    if (!compare_states(model, &stats) || !compare_objects(model, &stats)) return false;
    for (uint32_t s = 0; s < NAIVE_SCOPE_COUNT_MAX; s++) {
        if (model->now.scopes[s].open_count != 0 && !compare_scope(model, s)) return false;
    }
    return true;
}
