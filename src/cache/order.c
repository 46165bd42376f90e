/* order.c - the children of one node in lexical order, as a balanced binary tree.
 *
 * Why an order: of all siblings, the two neighbours of a text in lexical order are the ones that share the most leading
 * tokens with it, and both lie on the path of one search. So the token-exact tail costs O(log siblings) at a node with
 * forty thousand children, where a scan costs a compare for each of them.
 *
 * Why this tree: a treap. A node's height is decided by a mix of its own number, so nobody can choose prompts that make
 * it lopsided; insertion splits one path in two, removal merges two paths into one, with a step or two on average and
 * no rotations to get wrong. Links to the node above let a removal start at the node itself, without a search:
 * evicting a leaf with forty thousand siblings touches a handful of records.
 *
 * Blocks are ordered position by position: by token, then by what begins to lie over that position (extra.h). Called by
 * tree.c, index.c, match.c, event.c and explain.c. */
#include "cache/hash.h"
#include "cache/tree.h"

static inline uint32_t tokens_shared(const uint32_t *a, const uint32_t *b, uint32_t count)
{
    uint32_t i = 0;
    for (; i + 2 <= count; i += 2) {
        if (icp_hash_load(a + i) != icp_hash_load(b + i)) break;
    }
    while (i < count && a[i] == b[i]) i++;
    return i;
}

uint32_t icp_order_compare(const icp_tree *tree, const icp_view *view, uint32_t node, int *order)
{
    const uint32_t *tokens = icp_tree_tokens(tree, node);
    uint32_t shared = tokens_shared(view->tokens, tokens, view->token_count);
    *order = 0;
    if (shared < view->token_count) *order = view->tokens[shared] < tokens[shared] ? -1 : 1;
    if (icp_tree_link(tree, node)->item == ICP_ITEM_NONE && !icp_view_has_extras(view)) return shared;
    icp_view other = icp_tree_view(tree, node);
    return icp_view_extra_difference(&tree->extras, view, &other, shared, order);
}

static bool is_higher(uint32_t a, uint32_t b)
{
    return icp_hash_mix(a) > icp_hash_mix(b);
}

/* Splits the tree below top by the view into what sorts before it and what sorts after it, and hangs both on node. */
static void order_split(icp_tree *tree, uint32_t top, const icp_view *view, uint32_t node)
{
    icp_link *record = icp_tree_link(tree, node);
    uint32_t *before = &record->left;
    uint32_t *after = &record->right;
    uint32_t before_up = node;
    uint32_t after_up = node;
    while (top != ICP_NODE_NONE) {
        icp_link *next = icp_tree_link(tree, top);
        int order = 0;
        icp_order_compare(tree, view, top, &order);
        if (order > 0) {
            *before = top;
            next->up = before_up;
            before_up = top;
            before = &next->right;
            top = next->right;
        } else {
            *after = top;
            next->up = after_up;
            after_up = top;
            after = &next->left;
            top = next->left;
        }
    }
    *before = *after = ICP_NODE_NONE;
}

void icp_order_insert(icp_tree *tree, uint32_t *top, uint32_t node)
{
    icp_view view = icp_tree_view(tree, node);
    uint32_t up = ICP_NODE_NONE;
    uint32_t *link = top;
    while (*link != ICP_NODE_NONE && is_higher(*link, node)) {
        int order = 0;
        icp_order_compare(tree, &view, *link, &order);
        up = *link;
        link = order < 0 ? &icp_tree_link(tree, up)->left : &icp_tree_link(tree, up)->right;
    }
    order_split(tree, *link, &view, node);
    icp_tree_link(tree, node)->up = up;
    *link = node;
}

void icp_order_remove(icp_tree *tree, uint32_t *top, uint32_t node)
{
    icp_link *record = icp_tree_link(tree, node);
    uint32_t before = record->left;
    uint32_t after = record->right;
    uint32_t up = record->up;
    uint32_t *link = top;
    if (up != ICP_NODE_NONE) {
        icp_link *above = icp_tree_link(tree, up);
        link = above->left == node ? &above->left : &above->right;
    }
    while (before != ICP_NODE_NONE && after != ICP_NODE_NONE) {
        bool is_before = is_higher(before, after);
        uint32_t next = is_before ? before : after;
        icp_link *taken = icp_tree_link(tree, next);
        *link = next;
        taken->up = up;
        up = next;
        link = is_before ? &taken->right : &taken->left;
        if (is_before)
            before = taken->right;
        else
            after = taken->left;
    }
    *link = before != ICP_NODE_NONE ? before : after;
    if (*link != ICP_NODE_NONE) icp_tree_link(tree, *link)->up = up;
}

/* The outermost node below top on one side: the first in order, or the last. */
static uint32_t order_end(const icp_tree *tree, uint32_t top, bool is_last)
{
    uint32_t node = top;
    while (top != ICP_NODE_NONE) {
        node = top;
        top = is_last ? icp_tree_link(tree, node)->right : icp_tree_link(tree, node)->left;
    }
    return node;
}

/* The neighbour of a node in order, before or after it. */
static uint32_t order_step(const icp_tree *tree, uint32_t node, bool is_back)
{
    const icp_link *record = icp_tree_link(tree, node);
    uint32_t inner = is_back ? record->left : record->right;
    if (inner != ICP_NODE_NONE) return order_end(tree, inner, is_back);
    while (record->up != ICP_NODE_NONE) {
        const icp_link *above = icp_tree_link(tree, record->up);
        if ((is_back ? above->right : above->left) == node) return record->up;
        node = record->up;
        record = above;
    }
    return ICP_NODE_NONE;
}

uint32_t icp_order_next(const icp_tree *tree, uint32_t top, uint32_t node)
{
    return node == ICP_NODE_NONE ? order_end(tree, top, false) : order_step(tree, node, false);
}

/* The first node from here on, in one direction, that will do. */
static uint32_t order_find(const icp_tree *tree, uint32_t node, bool is_back, icp_order_filter *is_eligible,
                           const void *context)
{
    for (uint32_t i = 0; i < ICP_ORDER_STEPS_MAX && node != ICP_NODE_NONE; i++) {
        if (is_eligible == NULL || is_eligible(context, node)) return node;
        node = order_step(tree, node, is_back);
    }
    return ICP_NODE_NONE;
}

/* What a text shares with its neighbours in order only shrinks with their distance. So on either side the first one
 * that will do is the best of that side. */
uint32_t icp_order_nearest(const icp_tree *tree, uint32_t top, const icp_view *view, icp_order_filter *is_eligible,
                           const void *context, uint32_t *shared)
{
    uint32_t before = ICP_NODE_NONE;
    uint32_t after = ICP_NODE_NONE;
    for (int order = 1; top != ICP_NODE_NONE && order != 0;) {
        icp_order_compare(tree, view, top, &order);
        if (order > 0)
            before = top;
        else
            after = top; /* an equal one is as good a start */
        top = order < 0 ? icp_tree_link(tree, top)->left : icp_tree_link(tree, top)->right;
        if (order == 0) before = order_step(tree, after, true);
    }
    before = order_find(tree, before, true, is_eligible, context);
    after = order_find(tree, after, false, is_eligible, context);

    int order = 0;
    uint32_t shared_before = before == ICP_NODE_NONE ? 0 : icp_order_compare(tree, view, before, &order);
    uint32_t shared_after = after == ICP_NODE_NONE ? 0 : icp_order_compare(tree, view, after, &order);
    bool is_before = before != ICP_NODE_NONE && (after == ICP_NODE_NONE || shared_before > shared_after);
    *shared = is_before ? shared_before : shared_after;
    return is_before ? before : after;
}
