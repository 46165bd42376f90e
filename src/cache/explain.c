/* explain.c - why did my prompt not hit?
 *
 * The same walk as a match, then the first of these that is true:
 *
 *   1. the hit reaches as far as any hit of this text can           HIT
 *   2. the text goes on in the tree, but a group lacks a block      GROUP
 *   3. the block after the last hit is remembered as evicted        EVICTED
 *   4. some cached text goes on otherwise from there                DIVERGES, EXTRA, or SHORT with tails off
 *   5. the cached text ends there                                   ENDS
 *   6. nothing of it is cached: another scope's, if one may ask     OTHER_SCOPE, else NEVER
 *
 * Nothing is changed, no tick is stamped, nothing is counted. What other scopes hold is told only on request, as a
 * number of tokens: never whose, never which text. */
#include "cache/cache.h"

#include <inttypes.h>
#include <stdio.h>

/* Whole-block tokens of the text in the scope, other than this one, that has most of it. */
static uint32_t other_scope_tokens(const icp_cache *cache, uint32_t scope, const icp_text *text)
{
    uint32_t best = 0;
    uint32_t limit = (uint32_t)((text->token_count - 1) / cache->tree.block_tokens);
    for (uint32_t other = 0; other < cache->tree.scopes.fresh; other++) {
        if (other == scope || cache->tree.scopes.records[other].node_count == 0) continue;
        icp_walk walk = {.blocks = NULL};
        icp_tree_walk(&cache->tree, other, text, limit, &walk);
        if (walk.depth > best) best = walk.depth;
    }
    return best * cache->tree.block_tokens;
}

/* Counts blocks from the given place on that were all evicted, and how long ago the first one was. */
static bool explain_evicted(const icp_cache *cache, uint32_t scope, const icp_text *text, const icp_reach *reach,
                            icp_explanation *out)
{
    const icp_tree *tree = &cache->tree;
    uint32_t whole = (uint32_t)(text->token_count / tree->block_tokens);
    uint64_t prefix = 0;
    for (uint32_t depth = reach->depth; depth < whole; depth++) {
        icp_view view = icp_view_at(text, depth * tree->block_tokens, tree->block_tokens);
        if (depth == reach->depth) {
            prefix = icp_tree_hash(tree, scope, reach->node, &view);
        } else {
            if (icp_view_has_extras(&view)) prefix ^= icp_view_extra_hash(&tree->extras, &view);
            prefix = icp_hash_tokens(prefix, view.tokens, view.token_count);
        }
        uint32_t tick = 0;
        if (!icp_ghost_find(&cache->ghosts, prefix, &tick)) break;
        if (depth == reach->depth) out->evicted_ticks_ago = icp_cache_now(cache) - tick;
        out->evicted_tokens += tree->block_tokens;
    }
    if (out->evicted_tokens == 0) return false;
    out->why = ICP_WHY_EVICTED;
    out->position = reach->depth * tree->block_tokens;
    return true;
}

/* Reuse stops at whole blocks: tails are off, or cannot be. */
static bool is_without_tails(const icp_cache *cache)
{
    return cache->tail_tokens_min == ICP_TAIL_OFF || cache->has_state;
}

/* The cached text that shares most with what follows the hit. */
static bool explain_neighbour(const icp_cache *cache, uint32_t scope, const icp_text *text, const icp_reach *reach,
                              icp_explanation *out)
{
    const icp_tree *tree = &cache->tree;
    uint32_t start = reach->depth * tree->block_tokens;
    uint32_t top = *icp_tree_children(tree, scope, reach->node);
    if (top == ICP_NODE_NONE) return false;
    icp_view view = icp_view_at(text, start, tree->block_tokens);
    uint32_t shared = 0;
    uint32_t node = icp_order_nearest(tree, top, &view, NULL, NULL, &shared);
    out->shared_tokens = shared;
    out->position = start + shared;
    if (shared == view.token_count) { /* the text ends first, inside a cached block */
        out->why = ICP_WHY_SHORT;
        return true;
    }
    const uint32_t *cached = icp_tree_tokens(tree, node) + shared;
    if (cached[0] == view.tokens[shared]) {
        out->why = ICP_WHY_EXTRA;
        return true;
    }
    out->why = shared > 0 && is_without_tails(cache) ? ICP_WHY_SHORT : ICP_WHY_DIVERGES;
    for (uint32_t i = 0; i < ICP_EXPLAIN_TOKENS && shared + i < view.token_count; i++) {
        out->cached[i] = cached[i];
        out->asked[i] = view.tokens[shared + i];
        out->token_count = i + 1;
    }
    return true;
}

static void explain_why(const icp_cache *cache, uint32_t scope, const icp_text *text, const icp_reach *reach,
                        icp_explanation *out)
{
    uint32_t block_tokens = cache->tree.block_tokens;
    uint32_t limit = (uint32_t)((text->token_count - 1) / block_tokens);
    out->position = out->hit.cached_tokens;
    out->text_tokens = reach->text_depth * block_tokens;
    bool is_whole_hit = is_without_tails(cache) && reach->depth == limit && limit > 0;
    if (is_whole_hit || out->hit.cached_tokens + 1 == text->token_count) {
        out->why = ICP_WHY_HIT;
    } else if (reach->text_depth > reach->depth) {
        out->why = ICP_WHY_GROUP;
        out->group = reach->lacking;
        out->position = out->text_tokens;
    } else if (explain_evicted(cache, scope, text, reach, out)) {
        return;
    } else if (explain_neighbour(cache, scope, text, reach, out)) {
        return;
    } else if (reach->depth > 0) {
        out->why = ICP_WHY_ENDS;
    } else {
        out->why = out->other_tokens > 0 ? ICP_WHY_OTHER_SCOPE : ICP_WHY_NEVER;
    }
}

icp_status icp_cache_explain(const icp_cache *cache, const icp_request *request, uint32_t flags,
                             icp_explanation *explanation)
{
    if (cache == NULL || request == NULL || explanation == NULL) return ICP_BAD_ARGUMENT;
    if (explanation->struct_size < sizeof(size_t)) return ICP_BAD_ARGUMENT;
    ICP_ENTER(cache);
    icp_status status = icp_text_validate(cache, &request->text);
    if (status != ICP_OK) return status;
    uint32_t scope = 0;
    if (!icp_scope_find(&cache->tree.scopes, request->scope, &scope)) return ICP_STALE;

    icp_reach reach;
    icp_explanation result;
    icp_explanation_init(&result);
    icp_match_reach(cache, scope, &request->text, request->flags, NULL, &reach);
    uint32_t whole = reach.depth * cache->tree.block_tokens;
    result.hit = (icp_hit){whole + reach.tail_tokens, whole, reach.tail_tokens};
    if (flags & ICP_EXPLAIN_OTHER_SCOPES) result.other_tokens = other_scope_tokens(cache, scope, &request->text);
    explain_why(cache, scope, &request->text, &reach, &result);

    size_t known = explanation->struct_size;
    result.struct_size = known;
    memcpy(explanation, &result, known < sizeof(result) ? known : sizeof(result));
    return ICP_OK;
}

/* ---- In words --------------------------------------------------------------------------------------------- */

size_t icp_explanation_text(const icp_explanation *e, char *text, size_t bytes)
{
    uint32_t hit = e->hit.cached_tokens;
    int length = 0;
    switch (e->why) {
    case ICP_WHY_HIT:
        length = snprintf(text, bytes, "hit: %" PRIu32 " tokens are cached, all that can be.", hit);
        break;
    case ICP_WHY_DIVERGES:
        length = snprintf(text, bytes,
                          "%" PRIu32 " tokens are cached. The nearest cached text parts from this one at token %" PRIu32
                          ": it has %" PRIu32 " there, this one %" PRIu32 ".",
                          hit, e->position, e->cached[0], e->asked[0]);
        break;
    case ICP_WHY_EXTRA:
        length = snprintf(text, bytes,
                          "%" PRIu32 " tokens are cached. The nearest cached text has the same tokens, but another "
                          "image (extra key) at token %" PRIu32 ".",
                          hit, e->position);
        break;
    case ICP_WHY_SHORT:
        length = snprintf(text, bytes,
                          "%" PRIu32 " tokens are cached. The nearest cached text shares %" PRIu32
                          " more, up to token %" PRIu32 ": less than a block, and no tail could be taken.",
                          hit, e->shared_tokens, e->position);
        break;
    case ICP_WHY_ENDS:
        length =
            snprintf(text, bytes,
                     "%" PRIu32 " tokens are cached. The cached text ends there (only whole blocks are kept).", hit);
        break;
    case ICP_WHY_EVICTED:
        length = snprintf(text, bytes,
                          "%" PRIu32 " tokens are cached. The next %" PRIu32 " were, and were evicted %" PRIu64
                          " ticks ago: the cache is too small for what came between.",
                          hit, e->evicted_tokens, e->evicted_ticks_ago);
        break;
    case ICP_WHY_GROUP:
        length = snprintf(text, bytes,
                          "%" PRIu32 " tokens are usable. The text is cached to token %" PRIu32
                          ", but blocks of group %" PRIu32 " that a longer prefix needs are gone.",
                          hit, e->text_tokens, e->group);
        break;
    case ICP_WHY_OTHER_SCOPE:
        length = snprintf(text, bytes,
                          "nothing is cached here, but %" PRIu32 " tokens of this text are under another scope "
                          "(model, adapter, tenant or salt).",
                          e->other_tokens);
        break;
    case ICP_WHY_NEVER:
        length = snprintf(text, bytes, "nothing is cached: no text that begins like this was seen, or long ago.");
        break;
    case ICP_WHY_COUNT:
        break;
    }
    return length < 0 ? 0 : (size_t)length;
}
