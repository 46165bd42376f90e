/* index.c - nodes that have siblings, by the hash of their whole prefix.
 *
 * Buckets of chains, threaded both ways through the node records, so that to take a node out waits for no other record:
 * the oldest node, which is evicted, stands at the end of its chain. (Tried: chains one way, half as fast to evict
 * from; an open table of (hash, node) pairs, slower still, since entries must move back, and larger.) A node's bucket
 * is its hash scaled to the number of buckets, so there can be any number. The hash only proposes: find compares
 * parent, scope, tokens and extras before it answers, and a collision costs one more compare. Tests open a cache with
 * hash_bits 8 to see that.
 *
 * Called by tree.c only. */
#include "base/prefetch.h"
#include "cache/hash.h"
#include "cache/tree.h"

uint32_t icp_index_bucket_count(uint32_t node_count_max)
{
    return 2 * node_count_max;
}

static uint32_t *bucket_of(const icp_tree *tree, uint64_t hash)
{
    return &tree->buckets[icp_hash_range(hash & tree->hash_mask, tree->bucket_count)];
}

void icp_index_prefetch(const icp_tree *tree, uint32_t node)
{
    ICP_PREFETCH(bucket_of(tree, icp_tree_node(tree, node)->hash));
}

void icp_index_insert(icp_tree *tree, uint32_t node)
{
    icp_node *record = icp_tree_node(tree, node);
    uint32_t *bucket = bucket_of(tree, record->hash);
    record->bucket_prev = ICP_NODE_NONE;
    record->bucket_next = *bucket;
    if (*bucket != ICP_NODE_NONE) icp_tree_node(tree, *bucket)->bucket_prev = node;
    *bucket = node;
    record->flags |= ICP_NODE_IS_INDEXED;
}

void icp_index_remove(icp_tree *tree, uint32_t node)
{
    icp_node *record = icp_tree_node(tree, node);
    uint32_t prev = record->bucket_prev;
    uint32_t next = record->bucket_next;
    if (prev == ICP_NODE_NONE) *bucket_of(tree, record->hash) = next;
    else icp_tree_node(tree, prev)->bucket_next = next;
    if (next != ICP_NODE_NONE) icp_tree_node(tree, next)->bucket_prev = prev;
    record->flags &= (uint16_t)~ICP_NODE_IS_INDEXED;
}

uint32_t icp_index_find(const icp_tree *tree, uint32_t scope, uint32_t parent, uint64_t hash, const icp_view *view)
{
    uint64_t wanted = hash & tree->hash_mask;
    for (uint32_t node = *bucket_of(tree, hash); node != ICP_NODE_NONE;) {
        const icp_node *record = icp_tree_node(tree, node);
        bool is_candidate =
            (record->hash & tree->hash_mask) == wanted && record->parent == parent && record->scope == scope;
        int order = 0;
        if (is_candidate && icp_order_compare(tree, view, node, &order) == tree->block_tokens) return node;
        node = record->bucket_next;
    }
    return ICP_NODE_NONE;
}
