/* naive_explain.c - an explanation against the model.
 *
 * What match would give must be exact. A reason is checked by looking at every node: a claim must be true of the model,
 * and it must be the claim to make where the case is plain (all is cached; a group's block lacks). That something was
 * evicted may be claimed only of what the model has evicted, as long as it remembers. */
#include "naive.h"

typedef struct sight {
    naive_walk walk;
    uint32_t begin;       /* the first token past the safe prefix */
    uint32_t child_count; /* of its last node */
    uint32_t shared;      /* the most tokens that one of these shares, as far as the text goes */
    bool differs_token;   /* one of the children that share most has another token there */
    bool differs_extra;   /* ... the same token, but another extra */
} sight;

static bool is_child(const naive *model, uint32_t n, uint32_t parent, uint32_t scope)
{
    const naive_node *node = &model->now.nodes[n];
    return node->serial != 0 && node->parent == parent && node->scope == scope;
}

static void look(const naive *model, const naive_request *request, sight *seen)
{
    const naive_text *text = request->text;
    naive_walk_text(model, request->scope, text, &seen->walk);
    uint32_t depth = seen->walk.safe;
    uint32_t parent = depth == 0 ? NAIVE_NONE : seen->walk.nodes[depth - 1];
    seen->begin = depth * model->block_tokens;
    seen->child_count = seen->shared = 0;
    seen->differs_token = seen->differs_extra = false;
    for (uint32_t n = 0; n < model->now.node_count; n++) {
        if (!is_child(model, n, parent, request->scope)) continue;
        uint32_t shared = naive_node_common(model, n, text, seen->begin);
        seen->child_count++;
        if (shared > seen->shared) seen->shared = shared;
    }
    uint32_t position = seen->begin + seen->shared;
    if (seen->shared == model->block_tokens || position >= text->token_count) return;
    for (uint32_t n = 0; n < model->now.node_count; n++) {
        if (!is_child(model, n, parent, request->scope)) continue;
        if (naive_node_common(model, n, text, seen->begin) != seen->shared) continue;
        bool is_same = model->contents[n].tokens[seen->shared] == text->tokens[position];
        if (is_same)
            seen->differs_extra = true;
        else
            seen->differs_token = true;
    }
}

/* True where the block that follows depth blocks of the text was evicted, or the model has forgotten. */
static bool was_evicted(const naive *model, const naive_request *request, uint32_t depth)
{
    if (model->now.ghost_count > NAIVE_GHOST_COUNT_MAX) return true;
    uint32_t tokens = (depth + 1) * model->block_tokens;
    if (tokens > request->text->token_count) return false;
    for (uint32_t i = 0; i < model->now.ghost_count; i++) {
        const naive_ghost *ghost = &model->ghosts[i];
        if (ghost->depth != depth + 1 || ghost->scope_key != model->now.scopes[request->scope].key) continue;
        uint32_t k = 0;
        while (k < tokens && ghost->tokens[k] == request->text->tokens[k] &&
               naive_cover_equal(ghost->covers[k], naive_text_cover(request->text, k, k - k % model->block_tokens)))
            k++;
        if (k == tokens) return true;
    }
    return false;
}

static uint32_t other_tokens(const naive *model, const naive_request *request)
{
    uint32_t best = 0;
    for (uint32_t s = 0; s < NAIVE_SCOPE_COUNT_MAX; s++) {
        if (s == request->scope || !model->now.scopes[s].is_live) continue;
        naive_walk walk;
        naive_walk_text(model, s, request->text, &walk);
        if (walk.depth > best) best = walk.depth;
    }
    return best * model->block_tokens;
}

/* The tokens shown, from position on: those asked for, and those of one of the nearest children. */
static bool are_tokens_right(const naive *model, const naive_request *request, const sight *seen,
                             const icp_explanation *explanation)
{
    uint32_t offset = explanation->position - seen->begin;
    uint32_t depth = seen->walk.safe;
    uint32_t parent = depth == 0 ? NAIVE_NONE : seen->walk.nodes[depth - 1];
    if (explanation->token_count > ICP_EXPLAIN_TOKENS || offset + explanation->token_count > model->block_tokens)
        return false;
    for (uint32_t i = 0; i < explanation->token_count; i++) {
        uint32_t position = explanation->position + i;
        if (position < request->text->token_count && explanation->asked[i] != request->text->tokens[position])
            return false;
    }
    for (uint32_t n = 0; n < model->now.node_count; n++) {
        if (!is_child(model, n, parent, request->scope)) continue;
        if (naive_node_common(model, n, request->text, seen->begin) != seen->shared) continue;
        uint32_t i = 0;
        while (i < explanation->token_count && explanation->cached[i] == model->contents[n].tokens[offset + i]) i++;
        if (i == explanation->token_count) return true;
    }
    return false;
}

static bool is_reason_true(const naive *model, const naive_request *request, const sight *seen,
                           const icp_explanation *explanation)
{
    uint32_t limit = (request->text->token_count - 1) / model->block_tokens;
    uint32_t position = explanation->position;
    switch (explanation->why) {
    case ICP_WHY_HIT:
        return explanation->hit.cached_tokens + 1 == request->text->token_count || seen->walk.safe == limit;
    case ICP_WHY_DIVERGES:
        return seen->differs_token && position == seen->begin + seen->shared &&
               explanation->shared_tokens == seen->shared && are_tokens_right(model, request, seen, explanation);
    case ICP_WHY_EXTRA:
        return seen->differs_extra && position == seen->begin + seen->shared &&
               explanation->shared_tokens == seen->shared;
    case ICP_WHY_SHORT:
        return (model->options.tail_tokens_min > seen->shared || explanation->hit.tail_tokens_hit < seen->shared) &&
               explanation->shared_tokens == seen->shared && are_tokens_right(model, request, seen, explanation);
    case ICP_WHY_ENDS:
        return seen->child_count == 0 && seen->begin != 0 && position == seen->begin;
    case ICP_WHY_EVICTED:
        return position == seen->begin && was_evicted(model, request, seen->walk.safe);
    case ICP_WHY_GROUP:
        return seen->walk.depth > seen->walk.safe && explanation->group < model->group_count &&
               model->groups[explanation->group].kind != ICP_GROUP_FULL && position == explanation->text_tokens &&
               explanation->text_tokens == seen->walk.depth * model->block_tokens;
    case ICP_WHY_OTHER_SCOPE:
        return seen->begin == 0 && explanation->other_tokens != 0;
    case ICP_WHY_NEVER:
        return seen->begin == 0;
    case ICP_WHY_COUNT:
        break;
    }
    return false;
}

bool naive_compare_explanation(naive *model, const naive_request *request, uint32_t flags,
                               const icp_explanation *explanation)
{
    sight seen;
    look(model, request, &seen);
    uint32_t hit = (request->flags & ICP_NO_READ) ? 0 : seen.begin;
    if (explanation->hit.block_tokens_hit != hit) {
        naive_fail(model, "explain: %u tokens in whole blocks, want %u", explanation->hit.block_tokens_hit, hit);
        return false;
    }
    if (request->flags & ICP_NO_READ) return true;
    if (explanation->hit.cached_tokens + 1 == request->text->token_count && explanation->why != ICP_WHY_HIT) {
        naive_fail(model, "explain: all is cached, yet the reason is %d", (int)explanation->why);
        return false;
    }
    if (seen.walk.depth > seen.walk.safe && explanation->why != ICP_WHY_GROUP && explanation->why != ICP_WHY_HIT) {
        naive_fail(model, "explain: a group's block lacks, yet the reason is %d", (int)explanation->why);
        return false;
    }
    uint32_t other = flags & ICP_EXPLAIN_OTHER_SCOPES ? other_tokens(model, request) : 0;
    if (explanation->other_tokens != other) {
        naive_fail(model, "explain: %u tokens under another scope, want %u", explanation->other_tokens, other);
        return false;
    }
    if (is_reason_true(model, request, &seen, explanation)) return true;
    naive_fail(model, "explain: reason %d at %u is not so (safe to %u, cached to %u, %u children, %u shared)",
               (int)explanation->why, explanation->position, seen.begin, seen.walk.depth * model->block_tokens,
               seen.child_count, seen.shared);
    return false;
}
