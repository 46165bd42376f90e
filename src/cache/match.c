/* match.c - the longest safe cached prefix of a text, and the tail past it.
 *
 * Whole blocks: the walk goes as far as the text is cached. Where there are window or state groups the end is then
 * moved back to the deepest node at which every one of them has what it needs: for a window the last blocks that the
 * next token would attend to, for a state the last block. (A run of blocks that reaches the start of the text is
 * enough as well.)
 *
 *        full     # # # # # # # # # #           #: the node has a block of the group
 *        window   # # . . . . # # # .           need 2: depth 9 is safe; 10 is not; without node 8's, neither
 *                         safe ----^            would be 8, 7, ... 3, and 2 would be next
 *
 * Tail: at the end of the safe prefix, the child that shares the most tokens with what follows is named; the engine
 * copies those positions into the request's private block. So reuse is exact to the token though storage is in blocks.
 * Only a child that was published in an earlier tick will do: what was published in this step may not have been
 * computed yet.
 *
 * explain and pin see through the same eyes: icp_match_reach changes nothing. */
#include "cache/cache.h"

static icp_reach reach_nothing(void)
{
    return (icp_reach){.node = ICP_NODE_NONE, .tail_node = ICP_NODE_NONE};
}

/* Climbs from the end of the walk. A node that lacks a group's block, within what the group needs before the end,
 * moves the end to just above it. Nodes deeper than the end no longer matter, those above it are still to come: one
 * climb will do. */
static void reach_retreat(const icp_cache *cache, const icp_walk *walk, icp_reach *reach)
{
    uint32_t end = walk->depth;
    uint32_t end_node = walk->node;
    uint32_t node = walk->node;
    for (uint32_t depth = walk->depth; depth > 0 && end - depth < cache->need_max; depth--) {
        const icp_node *record = icp_tree_node(&cache->tree, node);
        for (uint32_t group = 0; group < cache->group_count; group++) {
            if (record->group_mask & 1u << group || end - depth >= cache->groups[group].need) continue;
            if (end == walk->depth) reach->lacking = group;
            end = depth - 1;
            end_node = record->parent;
            break;
        }
        node = record->parent;
    }
    reach->depth = end;
    reach->node = end_node;
}

/* A tail can be copied from a node if every group has its block and all were published before this tick. */
static bool is_tail_source(const void *context, uint32_t node)
{
    const icp_cache *cache = context;
    const icp_link *link = icp_tree_link(&cache->tree, node);
    for (uint32_t group = 0; group < cache->group_count; group++) {
        uint32_t block = link->blocks[group];
        if (block == ICP_BLOCK_NONE) return false;
        const icp_block *blocks = cache->pools[cache->groups[group].pool].blocks;
        if (blocks[block].stored_tick == icp_cache_now(cache)) return false;
    }
    return true;
}

static void reach_tail(const icp_cache *cache, uint32_t scope, const icp_text *text, icp_reach *reach)
{
    uint32_t position = reach->depth * cache->tree.block_tokens;
    uint32_t top = *icp_tree_children(&cache->tree, scope, reach->node);
    if (top == ICP_NODE_NONE) return;
    icp_text all_but_last = *text;
    all_but_last.token_count--;
    icp_view view = icp_view_at(&all_but_last, position, cache->tree.block_tokens);
    if (view.token_count == 0) return;

    uint32_t shared = 0;
    uint32_t node = icp_order_nearest(&cache->tree, top, &view, is_tail_source, cache, &shared);
    if (node == ICP_NODE_NONE || shared < cache->tail_tokens_min) return;
    reach->tail_node = node;
    reach->tail_tokens = shared;
}

void icp_match_reach(const icp_cache *cache, uint32_t scope, const icp_text *text, uint32_t flags, uint32_t *blocks,
                     icp_reach *reach)
{
    *reach = reach_nothing();
    if (flags & ICP_NO_READ) return;
    icp_walk walk = {.blocks = blocks, .records = cache->pools[cache->groups[0].pool].blocks};
    uint32_t limit = (uint32_t)((text->token_count - 1) / cache->tree.block_tokens);
    icp_tree_walk(&cache->tree, scope, text, limit, &walk);
    reach->text_depth = walk.depth;
    reach_retreat(cache, &walk, reach);
    if (cache->tail_tokens_min != ICP_TAIL_OFF && !cache->has_state) reach_tail(cache, scope, text, reach);
}

/* ---- The call ------------------------------------------------------------------------------------------- */

/* The lease's row of one group for the safe prefix, with a reference on each block that the group needs. */
static void lease_fill(icp_cache *cache, icp_lease_record *lease, uint32_t group, const icp_reach *reach)
{
    const icp_group_plan *plan = &cache->groups[group];
    uint32_t *row = icp_lease_row(cache, lease, group);
    uint32_t from = reach->depth > plan->need ? reach->depth - plan->need : 0;
    *icp_lease_lowest(cache, lease, group) = from;
    if (group != 0 || plan->kind != ICP_GROUP_FULL) { /* otherwise the walk has filled it */
        uint32_t node = reach->node;
        for (uint32_t i = reach->depth; i-- > from;) {
            row[i] = icp_tree_link(&cache->tree, node)->blocks[group];
            node = icp_tree_node(&cache->tree, node)->parent;
        }
        for (uint32_t i = 0; i < from; i++) row[i] = ICP_BLOCK_NONE;
    }
    icp_pool_acquire(icp_cache_pool(cache, group), row + from, reach->depth - from, icp_cache_now(cache));
}

static void lease_hold_tail(icp_cache *cache, icp_lease_record *lease, const icp_reach *reach)
{
    lease->tail_tokens = reach->tail_tokens;
    lease->tail_index = reach->depth;
    lease->is_tail_placed = false;
    for (uint32_t group = 0; group < cache->group_count; group++) {
        uint32_t *source = icp_lease_source(cache, lease, group);
        *source = icp_tree_link(&cache->tree, reach->tail_node)->blocks[group];
        icp_pool_acquire(icp_cache_pool(cache, group), source, 1, icp_cache_now(cache));
    }
}

static void count_match(icp_cache *cache, uint32_t scope, const icp_request *request, const icp_hit *hit)
{
    if (request->flags & ICP_UNCOUNTED) return;
    icp_scope_record *record = &cache->tree.scopes.records[scope];
    cache->stats.match_count++;
    cache->stats.queried_tokens += request->text.token_count;
    cache->stats.hit_tokens += hit->block_tokens_hit;
    cache->stats.tail_tokens += hit->tail_tokens_hit;
    record->match_count++;
    record->queried_tokens += request->text.token_count;
    record->hit_tokens += hit->block_tokens_hit;
    record->tail_tokens += hit->tail_tokens_hit;
}

icp_status icp_cache_match(icp_cache *cache, const icp_request *request, icp_lease *lease, icp_hit *hit)
{
    if (cache == NULL || request == NULL || lease == NULL) return ICP_BAD_ARGUMENT;
    ICP_ENTER(cache);
    icp_status status = icp_text_validate(cache, &request->text);
    if (status != ICP_OK) return status;
    uint32_t scope = 0;
    if (!icp_scope_find(&cache->tree.scopes, request->scope, &scope)) return ICP_STALE;
    icp_lease_record *record = icp_lease_claim(cache);
    if (record == NULL) return ICP_TOO_MANY_LEASES;

    icp_reach reach;
    uint32_t *row = cache->groups[0].kind == ICP_GROUP_FULL ? icp_lease_row(cache, record, 0) : NULL;
    icp_match_reach(cache, scope, &request->text, request->flags, row, &reach);
    record->flags = request->flags;
    record->scope = scope;
    record->token_count = reach.depth * cache->tree.block_tokens;
    record->block_count = record->published = record->matched = reach.depth;
    record->node = reach.node;
    record->tail_tokens = 0;
    cache->tree.scopes.records[scope].lease_count++;
    for (uint32_t group = 0; group < cache->group_count; group++) lease_fill(cache, record, group, &reach);
    if (reach.tail_node != ICP_NODE_NONE) lease_hold_tail(cache, record, &reach);

    icp_hit found = {record->token_count + record->tail_tokens, record->token_count, record->tail_tokens};
    count_match(cache, scope, request, &found);
    *lease = icp_lease_handle(record);
    if (hit != NULL) *hit = found;
    return ICP_OK;
}
