/* tree.h - the prefix tree: one node for each block-sized run of tokens that can be found.
 *
 *      scope A                                      scope B
 *        |                                            |
 *      [You are a helpful] --- [assistant. Answer]   [You are a helpful]      the same text, another scope:
 *                                |          \                                another tree
 *                   [in French: ...]      [in one line: ...]
 *
 * A node has one block per group, or none in that group. A node of the full groups always has all of them; only blocks
 * of window and state groups come and go while the node stays.
 *
 * Three ways lead to a child:
 *  - An only child is found through its parent and compared: no hash is computed on the way along a trunk, and most
 *    nodes of a chat are only children. A node also remembers one that lies some steps ahead, so that its cache lines
 *    are on their way while the nodes between are compared.
 *  - Where there are siblings, a hash of the whole prefix finds the candidate (index.c), which is then compared.
 *  - The siblings of a node are kept in lexical order (order.c), which gives the one that shares most tokens with a
 *    text, however many there are.
 *
 * Nodes are known by their index into three arrays, so that nothing moves: their links, which a walk follows, their
 * tokens, which it compares, and the rest, which it leaves alone. (Links and tokens side by side in one record were
 * tried: as fast from memory, slower from the shared cache, and a third slower to evict among many siblings.) */
#ifndef ICP_CACHE_TREE_H
#define ICP_CACHE_TREE_H

#include "base/arena.h"
#include "cache/block.h"
#include "cache/extra.h"
#include "cache/scope.h"
#include "incipit/cache.h"

#include <stdbool.h>

/* What a walk reads of a node, apart from its tokens: half a cache line. ICP_NODE_NONE where there is none. */
typedef struct icp_link {
    uint32_t children; /* the top of the order of its children */
    uint32_t left;     /* its place in the order of its siblings */
    uint32_t right;
    uint32_t up;
    uint32_t ahead;    /* a descendant that was there once: a hint, to fetch early */
    uint32_t item;     /* the first of its extras */
    uint32_t blocks[]; /* [group_count] */
} icp_link;

/* The rest. */
typedef struct icp_node {
    uint64_t hash;   /* of the scope and all tokens and extras up to the end of this node */
    uint32_t parent; /* ICP_NODE_NONE: it starts a text. Of a free node: the next free one */
    uint32_t scope;
    uint32_t bucket_next; /* its chain of the index */
    uint32_t bucket_prev;
    uint32_t depth;       /* nodes before it on its path; ICP_NODE_NONE: the record is free */
    uint16_t flags;
    uint16_t group_mask; /* groups in which it has a block */
} icp_node;

_Static_assert(sizeof(icp_link) == 24 && sizeof(icp_node) == 32, "two of each share a cache line");

#define ICP_NODE_IS_INDEXED 1u

/* How far ahead a node points: so many compares take about as long as a trip to memory. Measured, 8 to 24: slowly
 * better. */
#define ICP_NODE_AHEAD 16u

typedef struct icp_tree {
    icp_node *nodes;  /* [node_count_max] */
    uint8_t *links;   /* [node_count_max] of link_bytes each */
    uint32_t *tokens; /* [node_count_max][block_tokens] */
    size_t link_bytes;
    uint32_t *buckets; /* [bucket_count]: see index.c */
    uint32_t bucket_count;
    uint64_t hash_mask; /* the bits of a hash that the index looks at */
    uint32_t node_count_max;
    uint32_t node_count;
    uint32_t node_free;  /* a list of records that were used before */
    uint32_t node_fresh; /* records from here on never were */
    uint32_t block_tokens;
    uint32_t group_count;
    icp_extra_table extras;
    icp_scope_table scopes;
} icp_tree;

void icp_tree_carve(icp_tree *tree, icp_arena *arena);
void icp_tree_start(icp_tree *tree);

static inline icp_node *icp_tree_node(const icp_tree *tree, uint32_t node)
{
    return &tree->nodes[node];
}

static inline icp_link *icp_tree_link(const icp_tree *tree, uint32_t node)
{
    return (icp_link *)(void *)(tree->links + node * tree->link_bytes);
}

static inline uint32_t *icp_tree_tokens(const icp_tree *tree, uint32_t node)
{
    return tree->tokens + (size_t)node * tree->block_tokens;
}

icp_view icp_tree_view(const icp_tree *tree, uint32_t node);

/* Where the children of a node begin; of the scope itself for ICP_NODE_NONE. */
static inline uint32_t *icp_tree_children(const icp_tree *tree, uint32_t scope, uint32_t node)
{
    return node == ICP_NODE_NONE ? &tree->scopes.records[scope].children : &icp_tree_link(tree, node)->children;
}

/* The hash of a view as a child of a node, or of the scope itself. */
uint64_t icp_tree_hash(const icp_tree *tree, uint32_t scope, uint32_t parent, const icp_view *view);

/* The child of a node (of the scope, for ICP_NODE_NONE) that equals a whole block, or ICP_NODE_NONE. */
uint32_t icp_tree_child(const icp_tree *tree, uint32_t scope, uint32_t parent, const icp_view *view);

/* Walks down along whole blocks of a text, at most limit of them, and stops where none matches. */
typedef struct icp_walk {
    uint32_t node;            /* where it got to; ICP_NODE_NONE: still at the scope's root */
    uint32_t depth;           /* nodes passed */
    uint32_t *blocks;         /* not NULL: gets the block in group 0 of each node passed */
    const icp_block *records; /* with blocks: their records, which are asked for in passing */
} icp_walk;

void icp_tree_walk(const icp_tree *tree, uint32_t scope, const icp_text *text, uint32_t limit, icp_walk *walk);

/* Room for one more node? */
static inline bool icp_tree_has_room(const icp_tree *tree)
{
    return tree->node_count < tree->node_count_max;
}

/* A new child without blocks. There must be room, no equal child, and item made for the view's extras. */
uint32_t icp_tree_add(icp_tree *tree, uint32_t scope, uint32_t parent, const icp_view *view, uint32_t item);

/* The node is about to be removed: asks for what that will touch. */
void icp_tree_prefetch(const icp_tree *tree, uint32_t node);

/* Takes a leaf without blocks out. */
void icp_tree_remove(icp_tree *tree, uint32_t node);

/* ---- order.c: the children of one node in lexical order ---- */

/* Tokens that the text shares with a node's block; *order < 0 where the text sorts before the node. */
uint32_t icp_order_compare(const icp_tree *tree, const icp_view *view, uint32_t node, int *order);

void icp_order_insert(icp_tree *tree, uint32_t *top, uint32_t node);
void icp_order_remove(icp_tree *tree, uint32_t *top, uint32_t node);

/* The next node in order after this one, or the first (for ICP_NODE_NONE). */
uint32_t icp_order_next(const icp_tree *tree, uint32_t top, uint32_t node);

/* Of the nodes of an order that is_eligible (NULL: all) allows, one that shares most tokens with the view, and how
 * many. ICP_NODE_NONE: there is none. O(log siblings), and at most ICP_ORDER_STEPS_MAX neighbours on either side that
 * are not allowed are passed over. */
#define ICP_ORDER_STEPS_MAX 16u
typedef bool icp_order_filter(const void *context, uint32_t node);
uint32_t icp_order_nearest(const icp_tree *tree, uint32_t top, const icp_view *view, icp_order_filter *is_eligible,
                           const void *context, uint32_t *shared);

/* ---- index.c: nodes by hash ---- */

uint32_t icp_index_bucket_count(uint32_t node_count_max);
void icp_index_prefetch(const icp_tree *tree, uint32_t node);
void icp_index_insert(icp_tree *tree, uint32_t node);
void icp_index_remove(icp_tree *tree, uint32_t node);
uint32_t icp_index_find(const icp_tree *tree, uint32_t scope, uint32_t parent, uint64_t hash, const icp_view *view);

#endif
