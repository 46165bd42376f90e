/* cache.c - open, close, tick, clear, scopes: the cache as a whole.
 *
 * Options are checked once, into a plan in which every default is spelled out; the plan is laid out over an arena
 * twice, first to measure, then for good. After that nothing is allocated. */
#include "cache/cache.h"

#include "base/assert.h"
#include "cache/policy.h"

#include <stdarg.h>
#include <stdio.h>

#define BLOCK_COUNT_MAX (UINT32_MAX / 4)
#define LEASE_TOKENS_MAX (INT32_MAX - 1)
#define COUNT_MAX (1u << 24)
#define PIN_COUNT_MAX UINT16_MAX /* a block counts its pins in 16 bits */
#define NAME_SEED_BYTES (ICP_SCOPE_TEXT_BYTES_MAX + 1) /* as icp_name_chain has it */

/* Without a full group, inner nodes may have no blocks left, so there are more nodes than blocks. */
#define PATH_NODES_PER_BLOCK 16u

/* ---- One call at a time ------------------------------------------------------------------------------------- */

#if defined(ICP_DEBUG) && ICP_DEBUG
atomic_flag *icp_guard_enter(const icp_cache *cache)
{
    atomic_flag *flag = (atomic_flag *)(uintptr_t)&cache->is_busy;
    ICP_ASSERT(!atomic_flag_test_and_set(flag)); /* two threads in one cache, or a call from its own callback */
    return flag;
}

void icp_guard_leave(atomic_flag **guard)
{
    atomic_flag_clear(*guard);
}
#endif

/* ---- Options ------------------------------------------------------------------------------------------------ */

__attribute__((format(printf, 2, 3))) static icp_status options_fail(icp_error *error, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(error->text, sizeof(error->text), format, arguments);
    va_end(arguments);
    return ICP_BAD_ARGUMENT;
}

static icp_status options_range(icp_error *error, const char *name, uint64_t value, uint64_t min, uint64_t max)
{
    if (value >= min && value <= max) return ICP_OK;
    return options_fail(error, "%s is %llu; it must be %llu to %llu", name, (unsigned long long)value,
                        (unsigned long long)min, (unsigned long long)max);
}

static void options_defaults(icp_cache_options *o)
{
    static const icp_group full = {ICP_GROUP_FULL, 0, 0};
    if (o->block_tokens == 0) o->block_tokens = 16;
    if (o->group_count == 0 && o->groups == NULL) {
        o->groups = &full;
        o->group_count = 1;
    }
    if (o->policy == ICP_POLICY_DEFAULT) o->policy = ICP_POLICY_SPARE_LRU;
    if (o->tail_tokens_min == 0) o->tail_tokens_min = 1;
    if (o->lease_count_max == 0) o->lease_count_max = 256;
    if (o->lease_tokens_max == 0) o->lease_tokens_max = 131072;
    if (o->scope_count_max == 0) o->scope_count_max = 64;
    if (o->pin_count_max == 0) o->pin_count_max = 64;
    if (o->extra_count_max == 0) o->extra_count_max = 1024;
    if (o->ghost_count == 0) o->ghost_count = o->block_count;
    if (o->ghost_count == ICP_GHOST_OFF) o->ghost_count = 0;
    if (o->hash_bits == 0) o->hash_bits = 64;
}

static icp_status options_check(const icp_cache_options *o, icp_error *error)
{
    const struct {
        const char *name;
        uint64_t value, min, max;
    } ranges[] = {
        {"block_count", o->block_count, 1, BLOCK_COUNT_MAX},
        {"block_tokens", o->block_tokens, 1, ICP_BLOCK_TOKENS_MAX},
        {"group_count", o->group_count, 1, ICP_GROUP_COUNT_MAX},
        {"policy", (uint64_t)o->policy, 0, ICP_POLICY_COUNT - 1},
        {"duplicates", (uint64_t)o->duplicates, 0, ICP_DUPLICATES_ADOPT},
        {"name_kind", (uint64_t)o->name_kind, 0, ICP_NAME_SHA256},
        {"lease_count_max", o->lease_count_max, 1, COUNT_MAX},
        {"lease_tokens_max", o->lease_tokens_max, 1, LEASE_TOKENS_MAX},
        {"scope_count_max", o->scope_count_max, 1, COUNT_MAX},
        {"pin_count_max", o->pin_count_max, 1, PIN_COUNT_MAX},
        {"extra_count_max", o->extra_count_max, 1, COUNT_MAX},
        {"hash_bits", o->hash_bits, 1, 64},
    };
    for (size_t i = 0; i < sizeof(ranges) / sizeof(ranges[0]); i++) {
        icp_status status = options_range(error, ranges[i].name, ranges[i].value, ranges[i].min, ranges[i].max);
        if (status != ICP_OK) return status;
    }
    if (o->groups == NULL) return options_fail(error, "groups is NULL, but group_count is %u", o->group_count);
    if (o->groups[0].block_count != 0 && o->groups[0].block_count != o->block_count) {
        return options_fail(error, "groups[0].block_count differs from block_count: leave it 0");
    }
    for (uint32_t i = 0; i < o->group_count; i++) {
        const icp_group *group = &o->groups[i];
        if ((unsigned)group->kind > ICP_GROUP_STATE) return options_fail(error, "groups[%u].kind is unknown", i);
        if (group->kind == ICP_GROUP_WINDOW && (group->window < 2 || group->window > LEASE_TOKENS_MAX)) {
            return options_fail(error, "groups[%u].window is %u; it must be at least 2", i, group->window);
        }
        if (group->block_count > BLOCK_COUNT_MAX) return options_fail(error, "groups[%u].block_count is too large", i);
    }
    if (o->name_seed != NULL && strnlen(o->name_seed, NAME_SEED_BYTES) == NAME_SEED_BYTES) {
        return options_fail(error, "name_seed is longer than %u bytes", NAME_SEED_BYTES - 1);
    }
    if (o->memory != NULL && (uintptr_t)o->memory % ICP_ARENA_ALIGN != 0) {
        return options_fail(error, "memory must be aligned to %u bytes", ICP_ARENA_ALIGN);
    }
    return ICP_OK;
}

/* The caller's options with every default spelled out. */
static icp_status options_read(const icp_cache_options *given, icp_cache_options *options, icp_error *error)
{
    if (given == NULL) return options_fail(error, "options is NULL");
    size_t known = given->struct_size;
    if (known < offsetof(icp_cache_options, block_tokens)) {
        return options_fail(error, "struct_size is %zu: call icp_cache_options_init first", known);
    }
    memset(options, 0, sizeof(*options));
    memcpy(options, given, known < sizeof(*options) ? known : sizeof(*options));
    options_defaults(options);
    return options_check(options, error);
}

/* ---- Layout ------------------------------------------------------------------------------------------------- */

static void plan_groups(icp_cache *cache, const icp_cache_options *o)
{
    cache->group_count = o->group_count;
    cache->pools[0].block_count = o->block_count;
    cache->pool_count = 1;
    for (uint32_t i = 0; i < o->group_count; i++) {
        const icp_group *group = &o->groups[i];
        icp_group_plan *plan = &cache->groups[i];
        *plan = (icp_group_plan){.kind = group->kind, .window = group->window};
        if (i != 0 && group->block_count != 0) {
            plan->pool = cache->pool_count++;
            cache->pools[plan->pool].block_count = group->block_count;
        }
        switch (group->kind) {
        case ICP_GROUP_FULL:
            plan->need = UINT32_MAX;
            cache->has_full = true;
            break;
        case ICP_GROUP_WINDOW:
            plan->need = (group->window - 2) / o->block_tokens + 1;
            break;
        case ICP_GROUP_STATE:
            plan->need = 1;
            cache->has_state = true;
            break;
        }
        if (plan->kind != ICP_GROUP_FULL && plan->need > cache->need_max) cache->need_max = plan->need;
    }
}

/* Every node has a block in each full group, so there are no more nodes than the smallest of their pools has blocks. */
static uint32_t plan_node_count(const icp_cache *cache)
{
    uint64_t smallest = UINT64_MAX;
    uint64_t sum = 0;
    for (uint32_t i = 0; i < cache->pool_count; i++) sum += cache->pools[i].block_count;
    for (uint32_t i = 0; i < cache->group_count; i++) {
        uint64_t count = cache->pools[cache->groups[i].pool].block_count;
        if (cache->groups[i].kind == ICP_GROUP_FULL && count < smallest) smallest = count;
    }
    uint64_t count = cache->has_full ? smallest : sum * PATH_NODES_PER_BLOCK;
    return count < BLOCK_COUNT_MAX ? (uint32_t)count : BLOCK_COUNT_MAX;
}

/* The sizes of everything, and the settings. */
static void cache_plan(icp_cache *cache, const icp_cache_options *o)
{
    plan_groups(cache, o);
    cache->tree.block_tokens = o->block_tokens;
    cache->tree.group_count = o->group_count;
    cache->tree.node_count_max = plan_node_count(cache);
    cache->tree.hash_mask = UINT64_MAX << (64 - o->hash_bits);
    cache->tree.scopes.count_max = o->scope_count_max + 1;
    cache->tree.extras.count_max = o->extra_count_max;
    for (uint32_t i = 0; i < cache->pool_count; i++) {
        cache->pools[i].account_count = o->scope_count_max + 2;
        cache->pools[i].policy = icp_policy_find(o->policy);
    }
    cache->leases.count_max = o->lease_count_max;
    cache->leases.tokens_max = o->lease_tokens_max;
    cache->leases.row_count = (size_t)(o->lease_tokens_max - 1) / o->block_tokens + 2;
    cache->pins.count_max = o->pin_count_max;
    cache->ghosts.count = o->ghost_count;
    cache->duplicates = o->duplicates;
    cache->tail_tokens_min = o->tail_tokens_min;
    cache->event = o->event;
    cache->event_context = o->event_context;
    cache->name_kind = o->name_kind;
    cache->name_bytes = o->name_kind == ICP_NAME_NONE ? 0 : o->name_kind == ICP_NAME_XXH3_CBOR ? 16 : 32;
}

static void cache_carve(icp_cache *cache, icp_arena *arena)
{
    icp_tree_carve(&cache->tree, arena);
    for (uint32_t i = 0; i < cache->pool_count; i++) icp_pool_carve(&cache->pools[i], arena);
    size_t rows = (size_t)cache->leases.count_max * cache->group_count;
    cache->leases.records = icp_arena_take(arena, cache->leases.count_max, sizeof(icp_lease_record));
    cache->leases.lowest = icp_arena_take(arena, rows, sizeof(uint32_t));
    cache->leases.rows = icp_arena_take(arena, rows, cache->leases.row_count * sizeof(uint32_t));
    cache->pins.records = icp_arena_take(arena, cache->pins.count_max, sizeof(icp_pin_record));
    cache->ghosts.ghosts = icp_arena_take(arena, cache->ghosts.count, sizeof(icp_ghost));
    cache->names = icp_arena_take(arena, cache->tree.node_count_max, cache->name_bytes);
    cache->name_seed = icp_arena_take(arena, 1, NAME_SEED_BYTES);
}

/* 0: more than can be addressed. */
static size_t cache_measure(const icp_cache_options *options)
{
    icp_cache plan;
    memset(&plan, 0, sizeof(plan));
    icp_arena arena = {0};
    icp_arena_take(&arena, 1, sizeof(icp_cache));
    cache_plan(&plan, options);
    cache_carve(&plan, &arena);
    return arena.is_overflown ? 0 : arena.used;
}

size_t icp_cache_size(const icp_cache_options *options)
{
    icp_cache_options read;
    icp_error error;
    return options_read(options, &read, &error) == ICP_OK ? cache_measure(&read) : 0;
}

/* ---- Open and close ------------------------------------------------------------------------------------------- */

static void name_scope(icp_cache *cache, uint32_t scope)
{
    if (cache->name_kind == ICP_NAME_NONE) return;
    icp_scope_record *record = &cache->tree.scopes.records[scope];
    icp_name_root root = {cache->name_kind, cache->name_seed, icp_scope_texts(record), cache->tree.block_tokens};
    icp_name_begin(&root, &record->name);
}

static void cache_start(icp_cache *cache, const icp_cache_options *options)
{
    icp_tree_start(&cache->tree);
    for (uint32_t i = 0; i < cache->pool_count; i++) icp_pool_start(&cache->pools[i]);
    for (uint32_t i = 0; i < cache->leases.count_max; i++) {
        uint32_t next = i + 1 < cache->leases.count_max ? i + 1 : UINT32_MAX;
        cache->leases.records[i] = (icp_lease_record){.index = i, .next = next};
    }
    icp_pin_start(&cache->pins);
    if (cache->ghosts.count != 0) memset(cache->ghosts.ghosts, 0, cache->ghosts.count * sizeof(icp_ghost));
    if (options->name_seed == NULL)
        cache->name_seed = NULL;
    else
        memcpy(cache->name_seed, options->name_seed, strlen(options->name_seed) + 1);
    icp_scope_start(&cache->tree.scopes, options->seed);
    name_scope(cache, 0);
    atomic_flag_clear(&cache->is_busy);
}

static icp_status cache_open(icp_cache **out, const icp_cache_options *options, icp_error *error)
{
    size_t bytes = cache_measure(options);
    void *memory = options->memory;
    if (bytes == 0) return options_fail(error, "a cache of these options is larger than memory can be");
    if (memory != NULL && options->memory_bytes < bytes) {
        options_fail(error, "memory_bytes is %zu; these options take %zu", options->memory_bytes, bytes);
        return ICP_NO_MEMORY;
    }
    if (memory == NULL) memory = icp_memory_map(bytes);
    if (memory == NULL) {
        options_fail(error, "the system gave no memory for the %zu bytes that these options take", bytes);
        return ICP_NO_MEMORY;
    }
    icp_cache *cache = memory;
    memset(cache, 0, sizeof(*cache));
    icp_arena arena = {.base = memory};
    icp_arena_take(&arena, 1, sizeof(icp_cache));
    cache_plan(cache, options);
    cache_carve(cache, &arena);
    ICP_ASSERT(arena.used == bytes);
    if (options->memory == NULL) cache->memory = memory;
    cache->memory_bytes = bytes;
    cache_start(cache, options);
    *out = cache;
    return ICP_OK;
}

icp_status icp_cache_open(icp_cache **out, const icp_cache_options *options, icp_error *error)
{
    icp_error unwanted;
    icp_cache_options read;
    if (error == NULL) error = &unwanted;
    error->text[0] = 0;
    if (out == NULL) return options_fail(error, "out is NULL");
    icp_status status = options_read(options, &read, error);
    return status == ICP_OK ? cache_open(out, &read, error) : status;
}

void icp_cache_close(icp_cache *cache)
{
    if (cache == NULL || cache->memory == NULL) return;
    icp_memory_unmap(cache->memory, cache->memory_bytes);
}

/* ---- The cache as a whole --------------------------------------------------------------------------------------- */

icp_status icp_text_validate(const icp_cache *cache, const icp_text *text)
{
    if (text->tokens == NULL || text->token_count == 0) return ICP_BAD_ARGUMENT;
    if (text->token_count > cache->leases.tokens_max) return ICP_TOO_LONG;
    return icp_extra_validate(text);
}

icp_status icp_cache_tick(icp_cache *cache, uint64_t tick)
{
    if (cache == NULL || tick < cache->tick) return ICP_BAD_ARGUMENT;
    ICP_ENTER(cache);
    cache->tick = tick;
    icp_pin_expire(cache);
    return ICP_OK;
}

/* Nothing of it can be found any more. What happens on the way is not told: CLEARED says it all. */
static void scope_clear(icp_cache *cache, uint32_t scope)
{
    icp_scope_record *record = &cache->tree.scopes.records[scope];
    icp_event_fn *event = cache->event;
    cache->event = NULL;
    icp_pin_cut(cache, scope, ICP_NODE_NONE);
    icp_lease_cut(cache, scope, ICP_NODE_NONE);
    while (record->children != ICP_NODE_NONE) icp_evict_withdraw(cache, record->children);
    cache->event = event;
}

icp_status icp_scope_clear(icp_cache *cache, icp_scope scope)
{
    if (cache == NULL) return ICP_BAD_ARGUMENT;
    ICP_ENTER(cache);
    uint32_t index = 0;
    if (!icp_scope_find(&cache->tree.scopes, scope, &index)) return ICP_STALE;
    scope_clear(cache, index);
    icp_event_cleared(cache, index, false);
    return ICP_OK;
}

icp_status icp_cache_clear(icp_cache *cache)
{
    if (cache == NULL) return ICP_BAD_ARGUMENT;
    ICP_ENTER(cache);
    for (uint32_t i = 0; i < cache->tree.scopes.fresh; i++) scope_clear(cache, i);
    icp_event_cleared(cache, 0, true);
    for (uint32_t i = 0; i < cache->tree.scopes.fresh; i++) icp_cache_rest(cache, i);
    return ICP_OK;
}

/* ---- Scopes ------------------------------------------------------------------------------------------------------ */

static void scope_quota(icp_cache *cache, uint32_t scope, uint32_t min, uint32_t max)
{
    icp_scope_record *record = &cache->tree.scopes.records[scope];
    record->quota_min = min;
    record->quota_max = max;
    for (uint32_t i = 0; i < cache->pool_count; i++) {
        icp_pool_quota(&cache->pools[i], icp_cache_account(scope), min, max == 0 ? UINT32_MAX : max);
    }
}

void icp_cache_rest(icp_cache *cache, uint32_t scope)
{
    icp_scope_record *record = &cache->tree.scopes.records[scope];
    icp_scope_rest(&cache->tree.scopes, scope);
    if (!record->is_idle || !cache->pools[0].accounts[icp_cache_account(scope)].has_queue) return;
    record->quota_min = record->quota_max = 0;
    for (uint32_t i = 0; i < cache->pool_count; i++) icp_pool_account_reset(&cache->pools[i], icp_cache_account(scope));
}

icp_status icp_scope_open(icp_cache *cache, const icp_scope_key *key, icp_scope *scope)
{
    if (cache == NULL || key == NULL || scope == NULL) return ICP_BAD_ARGUMENT;
    ICP_ENTER(cache);
    uint32_t index = 0;
    bool is_new = false;
    icp_status status = icp_scope_make(&cache->tree.scopes, key, &index, &is_new);
    if (status != ICP_OK) return status;
    if (is_new) name_scope(cache, index);
    cache->tree.scopes.records[index].open_count++;
    *scope = icp_scope_handle(&cache->tree.scopes, index);
    return ICP_OK;
}

icp_status icp_scope_close(icp_cache *cache, icp_scope scope)
{
    if (cache == NULL || scope == 0) return ICP_BAD_ARGUMENT;
    ICP_ENTER(cache);
    uint32_t index = 0;
    if (!icp_scope_find(&cache->tree.scopes, scope, &index)) return ICP_STALE;
    cache->tree.scopes.records[index].open_count--;
    icp_cache_rest(cache, index);
    return ICP_OK;
}

icp_status icp_scope_quota(icp_cache *cache, icp_scope scope, uint32_t min, uint32_t max)
{
    if (cache == NULL || (max != 0 && min > max)) return ICP_BAD_ARGUMENT;
    ICP_ENTER(cache);
    uint32_t index = 0;
    if (!icp_scope_find(&cache->tree.scopes, scope, &index)) return ICP_STALE;
    uint64_t sum = min;
    for (uint32_t i = 0; i < cache->tree.scopes.fresh; i++) {
        if (i != index) sum += cache->tree.scopes.records[i].quota_min;
    }
    for (uint32_t i = 0; i < cache->pool_count; i++) {
        if (sum > cache->pools[i].block_count) return ICP_BAD_ARGUMENT;
    }
    scope_quota(cache, index, min, max);
    return ICP_OK;
}
