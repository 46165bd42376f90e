/* naive.h - a naive model of the cache, to hold the library against, operation for operation.
 *
 * Everything is a plain array that is searched from one end to the other: no hashing, no links, no counters that
 * could go wrong separately. A node keeps a full copy of its tokens and extras; a queue is a list of block numbers.
 * It knows the library by its public header alone.
 *
 * The caller does an operation on the library first and on the model second, and compares the statuses; then
 * naive_compare holds everything that can be seen from outside against the model. Where the semantics leave the
 * library a choice (the order of blocks that became spare within one operation; which of several equally good tail
 * sources), the model looks at what the library did, checks that it was allowed, and follows.
 *
 *     naive.c          pools, queues, nodes: take, evict, release
 *     naive_lease.c    match, extend, publish, truncate, unpublish, release, pins
 *     naive_scope.c    scopes, quotas, clear
 *     naive_text.c     texts, ids and keys as the library reads them
 *     naive_compare.c  the library against the model
 *     naive_explain.c  an explanation against the model
 *
 * A lease, scope or pin is known here by its slot; the driver keeps the library's handles in the slots. */
#ifndef INCIPIT_TESTS_NAIVE_H
#define INCIPIT_TESTS_NAIVE_H

#include <stdbool.h>
#include <stdint.h>

#include "incipit/cache.h"

#define NAIVE_NONE UINT32_MAX
#define NAIVE_GROUP_COUNT_MAX 4u
#define NAIVE_BLOCK_COUNT_MAX 64u  /* in a pool */
#define NAIVE_BLOCK_TOKENS_MAX 16u /* tokens per block */
#define NAIVE_TOKEN_COUNT_MAX 128u /* in a text, and so entries in a table */
#define NAIVE_EXTRA_COUNT_MAX 8u   /* in a text */
#define NAIVE_LEASE_COUNT_MAX 8u
#define NAIVE_SCOPE_COUNT_MAX 5u /* with the default scope, which is slot 0 */
#define NAIVE_PIN_COUNT_MAX 4u
#define NAIVE_NODE_COUNT_MAX 2048u
#define NAIVE_GHOST_COUNT_MAX 2048u
#define NAIVE_EXTRA_ID_COUNT 6u  /* different ids of extras */
#define NAIVE_SCOPE_KEY_COUNT 8u /* different keys of scopes; 0 is the default scope's */

/* An extra key; id is a small number that stands for the bytes of the real id. */
typedef struct naive_extra {
    uint32_t position;
    uint32_t length;
    uint32_t id;
} naive_extra;

typedef struct naive_text {
    uint32_t token_count;
    uint32_t extra_count;
    uint32_t tokens[NAIVE_TOKEN_COUNT_MAX];
    naive_extra extras[NAIVE_EXTRA_COUNT_MAX];
} naive_text;

/* What lies over one position: begin counts from the start of the node's block. length 0: nothing. */
typedef struct naive_cover {
    uint32_t id;
    int32_t begin;
    uint32_t length;
} naive_cover;

typedef struct naive_content {
    uint32_t tokens[NAIVE_BLOCK_TOKENS_MAX];
    naive_cover covers[NAIVE_BLOCK_TOKENS_MAX];
} naive_content;

typedef struct naive_block {
    uint32_t reference_count;
    uint32_t pin_count;      /* of these */
    uint32_t node;           /* whose block it is; NAIVE_NONE: not findable */
    uint32_t group;          /* in which group, where it has a node or duplicates one */
    uint32_t duplicate_of;   /* node; NAIVE_NONE: no duplicate */
    uint32_t scope;          /* of the lease that took it */
    uint64_t duplicate_rank; /* the smallest is the first duplicate made */
    uint64_t tick_published; /* a tail may be taken from it in any later tick */
    uint64_t tick_used;      /* last taken, acquired, or let go by its last holder */
} naive_block;

/* A place in a queue. Places with the same loose number (not 0) that lie next to each other may be in any order. */
typedef struct naive_place {
    uint32_t block;
    uint64_t loose;
} naive_place;

typedef struct naive_queue {
    uint32_t count;
    naive_place places[NAIVE_BLOCK_COUNT_MAX];
} naive_queue;

/* spare is unused under ICP_POLICY_LRU. A domain's queue is lru without the blocks of other domains. */
typedef struct naive_pool {
    uint32_t block_count;
    naive_queue spare;
    naive_queue lru;
    naive_block blocks[NAIVE_BLOCK_COUNT_MAX];
} naive_pool;

typedef struct naive_node {
    uint64_t serial; /* 0: the slot is free; never used twice */
    uint32_t scope;
    uint32_t parent;   /* NAIVE_NONE: the scope's root */
    uint32_t depth;    /* 1: the text's first block */
    uint32_t known_as; /* the library's number, ICP_NODE_NONE until an event told it */
    uint32_t blocks[NAIVE_GROUP_COUNT_MAX];
    uint64_t tick_published;
} naive_node;

typedef struct naive_lease {
    bool is_open;
    bool is_mute; /* publishes nothing more */
    icp_lease handle;
    uint32_t scope;
    uint32_t flags;
    uint32_t room;
    uint32_t published; /* tokens */
    uint32_t matched;   /* tokens of these that match found: unpublish leaves them */
    uint32_t entry_count;
    uint32_t tables[NAIVE_GROUP_COUNT_MAX][NAIVE_TOKEN_COUNT_MAX];
    bool is_partial[NAIVE_TOKEN_COUNT_MAX]; /* STATE: the state is not that of the block's end */
    uint32_t path[NAIVE_TOKEN_COUNT_MAX];   /* nodes of the published prefix */
    uint64_t path_serial[NAIVE_TOKEN_COUNT_MAX];
    /* The tail: pending from match to extend, then held while the copy may be made. */
    bool is_tail_pending;
    bool is_tail_held;
    uint32_t tail_positions;
    uint32_t tail_index; /* entry of the copy's target */
    uint64_t tail_tick;
    uint64_t tail_serial; /* another number for each tail */
    uint32_t tail_sources[NAIVE_GROUP_COUNT_MAX];
} naive_lease;

typedef struct naive_pin {
    bool is_set;
    icp_pin handle;
    uint32_t scope;
    uint32_t node; /* the last of the prefix */
    uint64_t until_tick;
    uint32_t entry_count;
    uint32_t tables[NAIVE_GROUP_COUNT_MAX][NAIVE_TOKEN_COUNT_MAX];
} naive_pin;

typedef struct naive_scope {
    bool is_live; /* open, or holds something */
    bool has_domain;
    uint32_t open_count;
    uint32_t key; /* a small number that stands for the four texts; kept, as handle is, when it is not live */
    uint32_t quota_min;
    uint32_t quota_max;
    icp_scope handle;
    uint64_t match_count;
    uint64_t queried_tokens;
    uint64_t hit_tokens;
    uint64_t tail_tokens;
    uint64_t stored_count;
    uint64_t evicted_count;
} naive_scope;

typedef struct naive_counters {
    uint64_t match_count;
    uint64_t queried_tokens;
    uint64_t hit_tokens;
    uint64_t tail_tokens;
    uint64_t taken_count;
    uint64_t stored_count;
    uint64_t duplicate_count;
    uint64_t evicted_count;
    uint64_t refused_count;
    uint64_t full_count;
    uint64_t residency[ICP_HISTOGRAM_COUNT];
    uint64_t idle[ICP_HISTOGRAM_COUNT];
    uint64_t reuse_gap[ICP_HISTOGRAM_COUNT];
} naive_counters;

/* What an operation may change; extend and truncate copy it, to go back when they fail half-way. */
typedef struct naive_state {
    uint64_t tick;
    uint64_t serial; /* last given to a node or a duplicate */
    naive_counters counters;
    uint32_t ghost_count; /* ever made; the array keeps the last ones */
    naive_pool pools[NAIVE_GROUP_COUNT_MAX];
    naive_lease leases[NAIVE_LEASE_COUNT_MAX];
    naive_pin pins[NAIVE_PIN_COUNT_MAX];
    naive_scope scopes[NAIVE_SCOPE_COUNT_MAX];
    uint32_t node_count; /* slots used so far */
    naive_node nodes[NAIVE_NODE_COUNT_MAX];
} naive_state;

/* A node that was evicted: the whole text that led to it. */
typedef struct naive_ghost {
    uint32_t scope_key;
    uint32_t depth;
    uint64_t tick;
    naive_cover covers[NAIVE_TOKEN_COUNT_MAX];
    uint32_t tokens[NAIVE_TOKEN_COUNT_MAX];
} naive_ghost;

typedef struct naive {
    icp_cache *cache; /* the library's: looked at through the public header, never changed */
    icp_cache_options options;
    icp_group groups[NAIVE_GROUP_COUNT_MAX];
    uint32_t group_count;
    uint32_t block_tokens;
    uint32_t pool_of[NAIVE_GROUP_COUNT_MAX];
    uint32_t pool_count;
    bool is_lru; /* ICP_POLICY_LRU */
    bool has_full;
    bool has_state;
    uint32_t node_count_max; /* nodes that the library has room for */
    uint64_t operation;      /* number of the current one: marks loose places */
    char error[256];         /* "" or the first thing that the library may not do */
    naive_state now;
    naive_content contents[NAIVE_NODE_COUNT_MAX];
    naive_ghost ghosts[NAIVE_GHOST_COUNT_MAX];
} naive;

typedef struct naive_request {
    const naive_text *text;
    uint32_t scope; /* slot */
    uint32_t flags;
} naive_request;

/* A walk down the tree along a text. */
typedef struct naive_walk {
    uint32_t depth; /* nodes found, at most limit */
    uint32_t safe;  /* the deepest safe depth */
    uint32_t nodes[NAIVE_TOKEN_COUNT_MAX];
} naive_walk;

void naive_open(naive *model, icp_cache *cache, const icp_cache_options *options);
void naive_fail(naive *model, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* ---- naive.c: pools, queues, nodes ---- */
naive_block *naive_block_at(naive *model, uint32_t group, uint32_t block);
uint32_t naive_domain(const naive *model, uint32_t scope);
uint32_t naive_charged(const naive *model, uint32_t pool, uint32_t domain);
void naive_acquire(naive *model, uint32_t group, uint32_t block);
void naive_drop(naive *model, uint32_t group, uint32_t block);
icp_status naive_take(naive *model, uint32_t group, uint32_t scope, uint32_t wanted, uint32_t *block);
void naive_free_at_head(naive *model, uint32_t pool, uint32_t block);
/* The order in which the default scope would take what is free. */
uint32_t naive_queue_list(const naive *model, uint32_t pool, uint32_t *blocks);

naive_cover naive_text_cover(const naive_text *text, uint32_t position, uint32_t block_begin);
bool naive_cover_equal(naive_cover a, naive_cover b);
uint32_t naive_node_common(const naive *model, uint32_t node, const naive_text *text, uint32_t begin);
uint32_t naive_node_find(const naive *model, uint32_t scope, uint32_t parent, const naive_text *text, uint32_t begin);
uint32_t naive_node_make(naive *model, uint32_t scope, uint32_t parent, const naive_text *text, uint32_t begin);
uint32_t naive_node_extras(const naive *model, uint32_t node);
bool naive_node_has_block(const naive *model, uint32_t node);
bool naive_node_has_child(const naive *model, uint32_t node);
void naive_node_remove(naive *model, uint32_t node, bool is_eviction);
void naive_node_prune(naive *model, uint32_t node, bool is_eviction);
void naive_node_hollow(naive *model, uint32_t scope); /* prunes wherever there is something to prune */
void naive_walk_text(const naive *model, uint32_t scope, const naive_text *text, naive_walk *walk);

/* ---- naive_text.c: the model's texts as the library reads them ---- */
uint32_t naive_extra_find(const void *id, size_t bytes);
icp_text naive_text_make(const naive_text *text, icp_extra *extras);
icp_scope_key naive_scope_key(uint32_t key);
bool naive_node_name(naive *model, uint32_t node, icp_name *name);

/* ---- naive_lease.c: each returns the status that the library must have returned ---- */
uint32_t naive_lease_slot(const naive *model); /* the next lease's; NAIVE_NONE: all are open */
icp_status naive_match(naive *model, const naive_request *request, icp_lease handle, const icp_hit *seen, icp_hit *hit);
icp_status naive_extend(naive *model, uint32_t lease, uint32_t token_count);
icp_status naive_publish(naive *model, uint32_t lease, const naive_text *text);
icp_status naive_truncate(naive *model, uint32_t lease, uint32_t token_count);
icp_status naive_unpublish(naive *model, uint32_t lease, uint32_t token_count);
icp_status naive_release(naive *model, uint32_t lease);
icp_status naive_pin_set(naive *model, const naive_request *request, uint64_t until_tick, icp_pin handle,
                         uint32_t *token_count);
icp_status naive_unpin(naive *model, uint32_t pin);
icp_status naive_tick(naive *model, uint64_t tick);
/* Ends the pins of a scope, or only those whose prefix leads through a node. */
void naive_pin_cut(naive *model, uint32_t scope, uint32_t node);

/* ---- naive_scope.c ---- */
icp_status naive_scope_open(naive *model, uint32_t key, icp_scope handle, uint32_t *scope);
icp_status naive_scope_close(naive *model, uint32_t scope);
icp_status naive_scope_quota(naive *model, uint32_t scope, uint32_t min, uint32_t max);
icp_status naive_scope_clear(naive *model, uint32_t scope);
icp_status naive_clear(naive *model);
/* Scopes that are closed and hold nothing any more end. */
void naive_scope_sweep(naive *model);

/* ---- naive_compare.c: true where the library agrees; otherwise model->error says what does not ---- */
bool naive_compare(naive *model);
bool naive_compare_statistics(naive *model);

/* ---- naive_explain.c ---- */
bool naive_compare_explanation(naive *model, const naive_request *request, uint32_t flags,
                               const icp_explanation *explanation);

#endif
