/* tree.c - nodes, and the walk down a prompt.
 *
 * The walk is the hot path of a match. Along a trunk a step is: the parent's link names the child, 64 bytes of tokens
 * are compared, the child's link names the next one; the lines of the node some steps on are asked for in passing.
 * Only at a fork is a hash computed and looked up. */
#include "cache/tree.h"

#include "base/assert.h"
#include "base/prefetch.h"
#include "cache/hash.h"

void icp_tree_carve(icp_tree *tree, icp_arena *arena)
{
    const size_t half_line = ICP_ARENA_ALIGN / 2;
    tree->link_bytes = (sizeof(icp_link) + tree->group_count * sizeof(uint32_t) + half_line - 1) & ~(half_line - 1);
    tree->bucket_count = icp_index_bucket_count(tree->node_count_max);
    tree->links = icp_arena_take(arena, tree->node_count_max, tree->link_bytes);
    tree->tokens = icp_arena_take(arena, tree->node_count_max, tree->block_tokens * sizeof(uint32_t));
    tree->nodes = icp_arena_take(arena, tree->node_count_max, sizeof(icp_node));
    tree->buckets = icp_arena_take(arena, tree->bucket_count, sizeof(uint32_t));
    icp_extra_carve(&tree->extras, arena);
    icp_scope_carve(&tree->scopes, arena);
}

void icp_tree_start(icp_tree *tree)
{
    tree->node_count = tree->node_fresh = 0;
    tree->node_free = ICP_NODE_NONE;
    for (uint32_t i = 0; i < tree->node_count_max; i++) icp_tree_node(tree, i)->depth = ICP_NODE_NONE;
    for (uint32_t i = 0; i < tree->bucket_count; i++) tree->buckets[i] = ICP_NODE_NONE;
    icp_extra_start(&tree->extras);
}

icp_view icp_tree_view(const icp_tree *tree, uint32_t node)
{
    return (icp_view){.tokens = icp_tree_tokens(tree, node),
                      .token_count = tree->block_tokens,
                      .item = icp_tree_link(tree, node)->item};
}

/* ---- Finding -------------------------------------------------------------------------------------------- */

uint64_t icp_tree_hash(const icp_tree *tree, uint32_t scope, uint32_t parent, const icp_view *view)
{
    uint64_t prefix = parent == ICP_NODE_NONE ? tree->scopes.records[scope].hash : icp_tree_node(tree, parent)->hash;
    if (icp_view_has_extras(view)) prefix ^= icp_view_extra_hash(&tree->extras, view);
    return icp_hash_tokens(prefix, view->tokens, view->token_count);
}

/* Four tokens as one value: a vector register where there are any, two words elsewhere. */
typedef uint64_t quad __attribute__((vector_size(16)));

static inline quad quad_differ(const uint32_t *a, const uint32_t *b)
{
    quad x;
    quad y;
    memcpy(&x, a, sizeof(x));
    memcpy(&y, b, sizeof(y));
    return x ^ y;
}

/* Sixteen tokens at a time, without a branch on the way: a compare that stops early saves nothing on a hit. */
static inline bool tokens_equal(const uint32_t *a, const uint32_t *b, uint32_t count)
{
    uint32_t i = 0;
    for (; i + 16 <= count; i += 16) {
        quad low = quad_differ(a + i, b + i) | quad_differ(a + i + 4, b + i + 4);
        quad high = quad_differ(a + i + 8, b + i + 8) | quad_differ(a + i + 12, b + i + 12);
        low |= high;
        if ((low[0] | low[1]) != 0) return false;
    }
    for (; i < count; i++) {
        if (a[i] != b[i]) return false;
    }
    return true;
}

/* ICP_NODE_NONE is all ones, so that one compare tells whether all links are none. */
static inline bool is_only_child(const icp_link *link)
{
    return (link->left & link->right & link->up) == ICP_NODE_NONE;
}

uint32_t icp_tree_child(const icp_tree *tree, uint32_t scope, uint32_t parent, const icp_view *view)
{
    uint32_t child = *icp_tree_children(tree, scope, parent);
    if (child == ICP_NODE_NONE) return ICP_NODE_NONE;
    const icp_link *link = icp_tree_link(tree, child);
    if (!is_only_child(link)) {
        return icp_index_find(tree, scope, parent, icp_tree_hash(tree, scope, parent, view), view);
    }
    if (link->item == ICP_ITEM_NONE && view->extra_count == 0) {
        return tokens_equal(view->tokens, icp_tree_tokens(tree, child), tree->block_tokens) ? child : ICP_NODE_NONE;
    }
    int order = 0;
    return icp_order_compare(tree, view, child, &order) == tree->block_tokens ? child : ICP_NODE_NONE;
}

/* The step along a trunk: an only child, without extras, and the same tokens. */
static inline bool is_trunk_step(const icp_tree *tree, const icp_link *child, const uint32_t *own,
                                 const uint32_t *tokens)
{
    return (child->left & child->right & child->up & child->item) == ICP_NODE_NONE &&
           tokens_equal(own, tokens, tree->block_tokens);
}

void icp_tree_walk(const icp_tree *tree, uint32_t scope, const icp_text *text, uint32_t limit, icp_walk *walk)
{
    uint32_t block_tokens = tree->block_tokens;
    bool has_extras = text->extra_count != 0;
    uint32_t *blocks = walk->blocks;
    const icp_block *records = walk->records;
    uint32_t node = ICP_NODE_NONE;
    uint32_t depth = 0;
    uint32_t child = *icp_tree_children(tree, scope, node);
    for (; depth < limit && child != ICP_NODE_NONE; depth++) {
        const icp_link *link = icp_tree_link(tree, child);
        const uint32_t *tokens = text->tokens + (size_t)depth * block_tokens;
        ICP_PREFETCH(icp_tree_link(tree, link->ahead));
        ICP_PREFETCH(icp_tree_tokens(tree, link->ahead));
        if (has_extras || !is_trunk_step(tree, link, icp_tree_tokens(tree, child), tokens)) {
            icp_view view = icp_view_at(text, depth * block_tokens, block_tokens);
            child = icp_tree_child(tree, scope, node, &view);
            if (child == ICP_NODE_NONE) break;
            link = icp_tree_link(tree, child);
        }
        if (blocks != NULL) {
            blocks[depth] = link->blocks[0];
            ICP_PREFETCH(&records[link->blocks[0]]);
        }
        node = child;
        child = link->children;
    }
    walk->node = node;
    walk->depth = depth;
}

/* ---- Adding and removing ---------------------------------------------------------------------------------- */

uint32_t icp_tree_add(icp_tree *tree, uint32_t scope, uint32_t parent, const icp_view *view, uint32_t item)
{
    uint32_t *top = icp_tree_children(tree, scope, parent);
    uint64_t hash = icp_tree_hash(tree, scope, parent, view);
    uint32_t node = tree->node_free;
    if (node == ICP_NODE_NONE)
        node = tree->node_fresh++;
    else
        tree->node_free = icp_tree_node(tree, node)->parent;
    ICP_ASSERT(node < tree->node_count_max);

    icp_node *record = icp_tree_node(tree, node);
    icp_link *link = icp_tree_link(tree, node);
    link->children = link->left = link->right = link->up = ICP_NODE_NONE;
    link->ahead = node;
    link->item = item;
    record->hash = hash;
    record->parent = parent;
    record->scope = scope;
    record->depth = parent == ICP_NODE_NONE ? 0 : icp_tree_node(tree, parent)->depth + 1;
    record->flags = record->group_mask = 0;
    for (uint32_t group = 0; group < tree->group_count; group++) link->blocks[group] = ICP_BLOCK_NONE;
    memcpy(icp_tree_tokens(tree, node), view->tokens, tree->block_tokens * sizeof(uint32_t));

    if (*top == ICP_NODE_NONE) {
        *top = node;
    } else {
        if (!(icp_tree_node(tree, *top)->flags & ICP_NODE_IS_INDEXED)) icp_index_insert(tree, *top);
        icp_order_insert(tree, top, node);
        icp_index_insert(tree, node);
    }
    tree->node_count++;
    tree->scopes.records[scope].node_count++;
    return node;
}

static inline void prefetch_link(const icp_tree *tree, uint32_t node)
{
    if (node != ICP_NODE_NONE) ICP_PREFETCH(icp_tree_link(tree, node));
}

void icp_tree_prefetch(const icp_tree *tree, uint32_t node)
{
    const icp_link *link = icp_tree_link(tree, node);
    prefetch_link(tree, icp_tree_node(tree, node)->parent);
    if (is_only_child(link)) return;
    prefetch_link(tree, link->up);
    prefetch_link(tree, link->left);
    prefetch_link(tree, link->right);
    icp_index_prefetch(tree, node);
}

void icp_tree_remove(icp_tree *tree, uint32_t node)
{
    icp_node *record = icp_tree_node(tree, node);
    const icp_link *link = icp_tree_link(tree, node);
    ICP_ASSERT(link->children == ICP_NODE_NONE && record->group_mask == 0);
    uint32_t *top = icp_tree_children(tree, record->scope, record->parent);
    if (*top == node && is_only_child(link)) *top = ICP_NODE_NONE;
    else icp_order_remove(tree, top, node);
    if (record->flags & ICP_NODE_IS_INDEXED) icp_index_remove(tree, node);
    if (link->item != ICP_ITEM_NONE) icp_extra_detach(&tree->extras, link->item);
    tree->scopes.records[record->scope].node_count--;
    tree->node_count--;
    record->depth = ICP_NODE_NONE;
    record->parent = tree->node_free;
    tree->node_free = node;
}
