/* naive.c - the model's pools, queues and nodes.
 *
 * One list per pool holds what is free and findable, in order of release (under ICP_POLICY_LRU: everything that is
 * free); a scope with a quota has no list of its own, its queue is what the list holds of its blocks. A second list
 * holds the spare blocks. Charges are counted anew each time they are asked for. */
#include "naive.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* Without a full group a node may have no blocks; the library has room for so many nodes. With one, each node has a
 * block there, so there is always room. */
#define NODES_PER_BLOCK 16u

void naive_fail(naive *model, const char *format, ...)
{
    if (model->error[0] != '\0') return; /* the first one is the one to look at */
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(model->error, sizeof(model->error), format, arguments);
    va_end(arguments);
}

/* ---- Queues -------------------------------------------------------------------------------------------- */

static void queue_insert(naive_queue *queue, uint32_t index, uint32_t block, uint64_t loose)
{
    for (uint32_t i = queue->count; i > index; i--) queue->places[i] = queue->places[i - 1];
    queue->places[index] = (naive_place){block, loose};
    queue->count++;
}

static bool queue_remove(naive_queue *queue, uint32_t block)
{
    for (uint32_t i = 0; i < queue->count; i++) {
        if (queue->places[i].block != block) continue;
        for (uint32_t k = i + 1; k < queue->count; k++) queue->places[k - 1] = queue->places[k];
        queue->count--;
        return true;
    }
    return false;
}

static naive_queue *spare_queue(naive *model, uint32_t pool)
{
    return model->is_lru ? &model->now.pools[pool].lru : &model->now.pools[pool].spare;
}

void naive_open(naive *model, icp_cache *cache, const icp_cache_options *options)
{
    memset(model, 0, offsetof(naive, ghosts)); /* these are many, and written before they are read */
    model->cache = cache;
    model->options = *options;
    model->group_count = options->group_count;
    model->block_tokens = options->block_tokens;
    model->is_lru = options->policy == ICP_POLICY_LRU;
    model->pool_count = 1;
    model->now.pools[0].block_count = options->block_count;
    for (uint32_t g = 0; g < model->group_count; g++) {
        model->groups[g] = options->groups[g];
        if (model->groups[g].kind == ICP_GROUP_FULL) model->has_full = true;
        if (model->groups[g].kind == ICP_GROUP_STATE) model->has_state = true;
        if (g == 0 || model->groups[g].block_count == 0) continue;
        model->pool_of[g] = model->pool_count++;
        model->now.pools[model->pool_of[g]].block_count = model->groups[g].block_count;
    }
    for (uint32_t p = 0; p < model->pool_count; p++) {
        naive_pool *pool = &model->now.pools[p];
        model->node_count_max += pool->block_count * (model->has_full ? 1 : NODES_PER_BLOCK);
        for (uint32_t b = 0; b < pool->block_count; b++) {
            pool->blocks[b].node = pool->blocks[b].duplicate_of = NAIVE_NONE;
            queue_insert(spare_queue(model, p), b, b, 0);
        }
    }
    model->now.scopes[0].is_live = true;
    model->now.scopes[0].open_count = 1;
}

/* ---- Charges ------------------------------------------------------------------------------------------- */

naive_block *naive_block_at(naive *model, uint32_t group, uint32_t block)
{
    return &model->now.pools[model->pool_of[group]].blocks[block];
}

uint32_t naive_domain(const naive *model, uint32_t scope)
{
    return model->now.scopes[scope].has_domain ? scope + 1 : 0;
}

static bool is_charged(const naive_block *block)
{
    return block->reference_count != 0 || block->node != NAIVE_NONE;
}

uint32_t naive_charged(const naive *model, uint32_t pool, uint32_t domain)
{
    uint32_t count = 0;
    for (uint32_t b = 0; b < model->now.pools[pool].block_count; b++) {
        const naive_block *block = &model->now.pools[pool].blocks[b];
        if (is_charged(block) && naive_domain(model, block->scope) == domain) count++;
    }
    return count;
}

/* ---- Free, held, evicted -------------------------------------------------------------------------------- */

/* The block, free and no longer findable, is the next to be taken. */
void naive_free_at_head(naive *model, uint32_t pool, uint32_t block)
{
    queue_remove(&model->now.pools[pool].lru, block);
    queue_insert(spare_queue(model, pool), 0, block, model->operation);
}

static void free_at_tail(naive *model, uint32_t pool, uint32_t block)
{
    bool is_findable = model->now.pools[pool].blocks[block].node != NAIVE_NONE;
    naive_queue *queue = is_findable ? &model->now.pools[pool].lru : spare_queue(model, pool);
    queue_insert(queue, queue->count, block, 0);
}

/* Bucket 0: age 0; bucket i: ages from 2^(i-1) to 2^i - 1. */
static void count_age(uint64_t *buckets, uint64_t age)
{
    uint32_t bucket = 0;
    while (age >> bucket != 0) bucket++;
    buckets[bucket]++;
}

void naive_acquire(naive *model, uint32_t group, uint32_t block)
{
    naive_block *record = naive_block_at(model, group, block);
    count_age(model->now.counters.reuse_gap, model->now.tick - record->tick_used);
    if (record->reference_count++ == 0) queue_remove(&model->now.pools[model->pool_of[group]].lru, block);
    record->tick_used = model->now.tick;
}

/* The first duplicate made of the block's node in its group. */
static uint32_t find_heir(const naive *model, uint32_t pool, const naive_block *primary)
{
    const naive_pool *records = &model->now.pools[pool];
    uint32_t heir = NAIVE_NONE;
    for (uint32_t b = 0; b < records->block_count; b++) {
        const naive_block *block = &records->blocks[b];
        if (block->duplicate_of != primary->node || block->group != primary->group) continue;
        if (heir == NAIVE_NONE || block->duplicate_rank < records->blocks[heir].duplicate_rank) heir = b;
    }
    return heir;
}

void naive_drop(naive *model, uint32_t group, uint32_t block)
{
    uint32_t pool = model->pool_of[group];
    naive_block *record = naive_block_at(model, group, block);
    if (record->reference_count == 0) {
        naive_fail(model, "the model drops block %u of pool %u, which nobody holds", block, pool);
        return;
    }
    if (--record->reference_count != 0) return;
    record->tick_used = model->now.tick;
    record->duplicate_of = NAIVE_NONE;
    uint32_t heir = record->node == NAIVE_NONE ? NAIVE_NONE : find_heir(model, pool, record);
    if (heir != NAIVE_NONE) {
        naive_block *successor = &model->now.pools[pool].blocks[heir];
        model->now.nodes[record->node].blocks[record->group] = heir;
        successor->node = record->node;
        successor->duplicate_of = NAIVE_NONE;
        record->node = NAIVE_NONE;
    }
    free_at_tail(model, pool, block);
}

/* The node's block of this group is about to be reused. */
static void evict(naive *model, uint32_t pool, uint32_t block)
{
    naive_block *record = &model->now.pools[pool].blocks[block];
    uint32_t node = record->node;
    uint32_t group = record->group;
    model->now.counters.evicted_count++;
    count_age(model->now.counters.residency, model->now.tick - record->tick_published);
    count_age(model->now.counters.idle, model->now.tick - record->tick_used);
    model->now.scopes[record->scope].evicted_count++;
    record->node = NAIVE_NONE;
    model->now.nodes[node].blocks[group] = NAIVE_NONE;
    if (model->groups[group].kind == ICP_GROUP_FULL) {
        if (naive_node_has_child(model, node))
            naive_fail(model, "block %u of pool %u is evicted before its child", block, pool);
        naive_node_remove(model, node, true);
    } else {
        naive_node_prune(model, node, true);
    }
}

static uint32_t domain_of(const naive *model, const naive_block *block)
{
    return block->node == NAIVE_NONE ? 0 : naive_domain(model, block->scope);
}

/* The first of a domain in the list. */
static uint32_t domain_head(const naive *model, uint32_t pool, uint32_t domain)
{
    const naive_pool *records = &model->now.pools[pool];
    for (uint32_t i = 0; i < records->lru.count; i++) {
        if (domain_of(model, &records->blocks[records->lru.places[i].block]) == domain) return i;
    }
    return NAIVE_NONE;
}

/* Of the places from index on that may stand in any order, the one that the library took; if it is none of them, the
 * youngest, so that another domain's head goes before it where it may. */
static uint32_t resolve_loose(const naive_pool *pool, const naive_queue *queue, uint32_t index, uint32_t wanted)
{
    uint64_t loose = index == NAIVE_NONE ? 0 : queue->places[index].loose;
    uint32_t youngest = index;
    for (uint32_t i = index; loose != 0 && i < queue->count && queue->places[i].loose == loose; i++) {
        const naive_place *place = &queue->places[i];
        if (place->block == wanted) return i;
        if (pool->blocks[place->block].tick_used > pool->blocks[queue->places[youngest].block].tick_used) youngest = i;
    }
    return youngest;
}

/* The place in lru of the oldest head among the domains that may lose a block to this one. */
static uint32_t oldest_head(const naive *model, uint32_t pool, uint32_t own, uint32_t wanted)
{
    const naive_pool *records = &model->now.pools[pool];
    uint32_t best = NAIVE_NONE;
    uint64_t best_tick = 0;
    for (uint32_t domain = 0; domain <= NAIVE_SCOPE_COUNT_MAX; domain++) {
        bool may_lose = domain == 0 || domain == own ||
                        naive_charged(model, pool, domain) > model->now.scopes[domain - 1].quota_min;
        uint32_t head = may_lose ? domain_head(model, pool, domain) : NAIVE_NONE;
        head = resolve_loose(records, &records->lru, head, wanted);
        if (head == NAIVE_NONE) continue;
        uint64_t tick = records->blocks[records->lru.places[head].block].tick_used;
        if (best != NAIVE_NONE && best_tick <= tick) continue;
        best = head;
        best_tick = tick;
    }
    return best;
}

/* wanted: the block that the library took, ICP_BLOCK_NONE if it took none. */
icp_status naive_take(naive *model, uint32_t group, uint32_t scope, uint32_t wanted, uint32_t *block)
{
    uint32_t pool = model->pool_of[group];
    naive_pool *records = &model->now.pools[pool];
    uint32_t own = naive_domain(model, scope);
    uint32_t max = own == 0 ? 0 : model->now.scopes[scope].quota_max;
    naive_queue *queue = &records->lru;
    uint32_t index;
    if (max != 0 && naive_charged(model, pool, own) >= max) {
        index = domain_head(model, pool, own);
        if (index == NAIVE_NONE) return ICP_QUOTA;
    } else if (records->spare.count != 0) {
        queue = &records->spare;
        index = resolve_loose(records, queue, 0, wanted);
    } else {
        index = oldest_head(model, pool, own, wanted);
        if (index == NAIVE_NONE) return ICP_FULL;
    }
    *block = queue->places[index].block;
    queue_remove(queue, *block);
    naive_block *record = &records->blocks[*block];
    if (record->node != NAIVE_NONE) evict(model, pool, *block);
    record->reference_count = 1;
    record->scope = scope;
    record->group = group;
    record->tick_used = model->now.tick;
    model->now.counters.taken_count++;
    return ICP_OK;
}

/* ---- Texts and nodes ------------------------------------------------------------------------------------ */

naive_cover naive_text_cover(const naive_text *text, uint32_t position, uint32_t block_begin)
{
    for (uint32_t i = 0; i < text->extra_count; i++) {
        const naive_extra *extra = &text->extras[i];
        if (position < extra->position || position - extra->position >= extra->length) continue;
        return (naive_cover){extra->id, (int32_t)extra->position - (int32_t)block_begin, extra->length};
    }
    return (naive_cover){0, 0, 0};
}

bool naive_cover_equal(naive_cover a, naive_cover b)
{
    if (a.length == 0 || b.length == 0) return a.length == b.length;
    return a.id == b.id && a.begin == b.begin && a.length == b.length;
}

/* Tokens from the text's position begin on that the node's block shares. */
uint32_t naive_node_common(const naive *model, uint32_t node, const naive_text *text, uint32_t begin)
{
    const naive_content *content = &model->contents[node];
    uint32_t count = 0;
    while (count < model->block_tokens && begin + count < text->token_count) {
        if (content->tokens[count] != text->tokens[begin + count]) break;
        if (!naive_cover_equal(content->covers[count], naive_text_cover(text, begin + count, begin))) break;
        count++;
    }
    return count;
}

uint32_t naive_node_find(const naive *model, uint32_t scope, uint32_t parent, const naive_text *text, uint32_t begin)
{
    for (uint32_t n = 0; n < model->now.node_count; n++) {
        const naive_node *node = &model->now.nodes[n];
        if (node->serial == 0 || node->parent != parent || node->scope != scope) continue;
        if (naive_node_common(model, n, text, begin) == model->block_tokens) return n;
    }
    return NAIVE_NONE;
}

uint32_t naive_node_make(naive *model, uint32_t scope, uint32_t parent, const naive_text *text, uint32_t begin)
{
    uint32_t n = 0;
    while (n < model->now.node_count && model->now.nodes[n].serial != 0) n++;
    if (n == NAIVE_NODE_COUNT_MAX) {
        naive_fail(model, "the model has no room for another node");
        return NAIVE_NONE;
    }
    if (n == model->now.node_count) model->now.node_count++;
    naive_node *node = &model->now.nodes[n];
    *node = (naive_node){.serial = ++model->now.serial, .scope = scope, .parent = parent, .known_as = ICP_NODE_NONE};
    node->depth = parent == NAIVE_NONE ? 1 : model->now.nodes[parent].depth + 1;
    node->tick_published = model->now.tick;
    for (uint32_t g = 0; g < NAIVE_GROUP_COUNT_MAX; g++) node->blocks[g] = NAIVE_NONE;
    for (uint32_t i = 0; i < model->block_tokens; i++) {
        model->contents[n].tokens[i] = text->tokens[begin + i];
        model->contents[n].covers[i] = naive_text_cover(text, begin + i, begin);
    }
    return n;
}

/* Extra keys that lie over the node's block. Two that touch each other begin at different places. */
uint32_t naive_node_extras(const naive *model, uint32_t node)
{
    const naive_content *content = &model->contents[node];
    uint32_t count = 0;
    for (uint32_t i = 0; i < model->block_tokens; i++) {
        if (content->covers[i].length == 0) continue;
        if (i == 0 || content->covers[i - 1].length == 0 || content->covers[i - 1].begin != content->covers[i].begin)
            count++;
    }
    return count;
}

bool naive_node_has_block(const naive *model, uint32_t node)
{
    for (uint32_t g = 0; g < model->group_count; g++) {
        if (model->now.nodes[node].blocks[g] != NAIVE_NONE) return true;
    }
    return false;
}

bool naive_node_has_child(const naive *model, uint32_t node)
{
    for (uint32_t n = 0; n < model->now.node_count; n++) {
        if (model->now.nodes[n].serial != 0 && model->now.nodes[n].parent == node) return true;
    }
    return false;
}

static void remember_ghost(naive *model, uint32_t node)
{
    naive_ghost *ghost = &model->ghosts[model->now.ghost_count++ % NAIVE_GHOST_COUNT_MAX];
    ghost->scope_key = model->now.scopes[model->now.nodes[node].scope].key;
    ghost->depth = model->now.nodes[node].depth;
    ghost->tick = model->now.tick;
    for (uint32_t n = node; n != NAIVE_NONE; n = model->now.nodes[n].parent) {
        uint32_t begin = (model->now.nodes[n].depth - 1) * model->block_tokens;
        for (uint32_t i = 0; i < model->block_tokens; i++) {
            ghost->tokens[begin + i] = model->contents[n].tokens[i];
            ghost->covers[begin + i] = model->contents[n].covers[i];
        }
    }
}

/* The node leaves the tree; its free blocks are spare from now on, its held ones private. */
void naive_node_remove(naive *model, uint32_t node, bool is_eviction)
{
    if (is_eviction) remember_ghost(model, node);
    for (uint32_t g = 0; g < model->group_count; g++) {
        naive_pool *pool = &model->now.pools[model->pool_of[g]];
        for (uint32_t b = 0; b < pool->block_count; b++) {
            if (pool->blocks[b].duplicate_of == node) pool->blocks[b].duplicate_of = NAIVE_NONE;
        }
        uint32_t block = model->now.nodes[node].blocks[g];
        if (block == NAIVE_NONE) continue;
        pool->blocks[block].node = NAIVE_NONE;
        if (pool->blocks[block].reference_count == 0) naive_free_at_head(model, model->pool_of[g], block);
    }
    model->now.nodes[node].serial = 0;
}

/* Nodes with neither a block nor a child go, from this one upwards. */
void naive_node_prune(naive *model, uint32_t node, bool is_eviction)
{
    while (node != NAIVE_NONE && !naive_node_has_block(model, node) && !naive_node_has_child(model, node)) {
        uint32_t parent = model->now.nodes[node].parent;
        naive_node_remove(model, node, is_eviction);
        node = parent;
    }
}

void naive_node_hollow(naive *model, uint32_t scope)
{
    for (uint32_t n = 0; n < model->now.node_count; n++) {
        if (model->now.nodes[n].serial != 0 && model->now.nodes[n].scope == scope) naive_node_prune(model, n, false);
    }
}

/* ---- Walks ---------------------------------------------------------------------------------------------- */

static bool is_safe(const naive *model, const naive_walk *walk, uint32_t depth)
{
    for (uint32_t g = 0; g < model->group_count && depth != 0; g++) {
        uint32_t need = depth; /* FULL */
        if (model->groups[g].kind == ICP_GROUP_STATE) need = 1;
        if (model->groups[g].kind == ICP_GROUP_WINDOW) {
            need = (model->groups[g].window - 1 + model->block_tokens - 1) / model->block_tokens;
        }
        for (uint32_t i = depth; i > 0 && depth - i < need; i--) {
            if (model->now.nodes[walk->nodes[i - 1]].blocks[g] == NAIVE_NONE) return false;
        }
    }
    return true;
}

void naive_walk_text(const naive *model, uint32_t scope, const naive_text *text, naive_walk *walk)
{
    uint32_t limit = (text->token_count - 1) / model->block_tokens;
    uint32_t parent = NAIVE_NONE;
    walk->depth = 0;
    while (walk->depth < limit) {
        parent = naive_node_find(model, scope, parent, text, walk->depth * model->block_tokens);
        if (parent == NAIVE_NONE) break;
        walk->nodes[walk->depth++] = parent;
    }
    walk->safe = walk->depth;
    while (!is_safe(model, walk, walk->safe)) walk->safe--;
}

/* ---- The queue as it is shown --------------------------------------------------------------------------- */

/* Spare blocks, then domain after domain. */
uint32_t naive_queue_list(const naive *model, uint32_t pool, uint32_t *blocks)
{
    const naive_pool *records = &model->now.pools[pool];
    uint32_t count = 0;
    for (uint32_t i = 0; i < records->spare.count; i++) blocks[count++] = records->spare.places[i].block;
    for (uint32_t domain = 0; domain <= NAIVE_SCOPE_COUNT_MAX; domain++) {
        for (uint32_t i = 0; i < records->lru.count; i++) {
            uint32_t block = records->lru.places[i].block;
            if (domain_of(model, &records->blocks[block]) == domain) blocks[count++] = block;
        }
    }
    return count;
}
