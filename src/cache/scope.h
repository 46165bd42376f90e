/* scope.h - who may share with whom: model, adapter, tenant and salt, as four texts.
 *
 * A scope's record is its four texts, the root of its tree, and its statistics. It is found by its texts, compared to
 * the letter. It lives while anyone has it open, a lease uses it or a node is under it; after that it is idle, kept
 * for when it comes back, and the longest idle one makes room for a new one. Record 0 is the default scope.
 *
 * A handle is (generation << 32 | index); the default scope's handle is 0. */
#ifndef ICP_CACHE_SCOPE_H
#define ICP_CACHE_SCOPE_H

#include "base/arena.h"
#include "incipit/cache.h"

#include <stdbool.h>

#define ICP_SCOPE_NONE UINT32_MAX

typedef struct icp_scope_record {
    uint64_t hash; /* of the texts and the cache's seed: what the hashes of its nodes start from */
    uint32_t generation;
    uint32_t open_count;
    uint32_t lease_count;
    uint32_t node_count;
    uint32_t children;    /* the top of the order of the nodes that start a text */
    uint32_t bucket_next; /* records with the same bucket */
    uint32_t idle_prev;
    uint32_t idle_next;
    bool is_idle;
    uint32_t quota_min;
    uint32_t quota_max; /* 0: none */
    uint64_t match_count;
    uint64_t queried_tokens;
    uint64_t hit_tokens;
    uint64_t tail_tokens;
    uint64_t stored_count;
    uint64_t evicted_count;
    icp_name name;                            /* where its chain of names starts */
    char texts[ICP_SCOPE_TEXT_BYTES_MAX + 4]; /* model, adapter, tenant, salt, each with its 0 */
} icp_scope_record;

typedef struct icp_scope_table {
    icp_scope_record *records; /* [count_max] */
    uint32_t *buckets;         /* [count_max] */
    uint32_t count_max;
    uint32_t fresh; /* records from here on were never made */
    uint32_t count; /* records that are not idle */
    uint32_t idle_head;
    uint32_t idle_tail;
    uint64_t seed;
} icp_scope_table;

void icp_scope_carve(icp_scope_table *table, icp_arena *arena);
void icp_scope_start(icp_scope_table *table, uint64_t seed);

/* The record of a handle. False: there is none. */
bool icp_scope_find(const icp_scope_table *table, icp_scope scope, uint32_t *index);
icp_scope icp_scope_handle(const icp_scope_table *table, uint32_t index);

/* The record of these texts, made if need be (*is_new), and not idle from now on. BAD_ARGUMENT, TOO_MANY_SCOPES. */
icp_status icp_scope_make(icp_scope_table *table, const icp_scope_key *key, uint32_t *index, bool *is_new);

/* Its four texts. */
icp_scope_key icp_scope_texts(const icp_scope_record *record);

/* To be called when a count of the record fell: it may be idle now. */
void icp_scope_rest(icp_scope_table *table, uint32_t index);

#endif
