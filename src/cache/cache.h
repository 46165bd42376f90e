/* cache.h - struct icp_cache: what the files of this folder share.
 *
 *      cache.c    open, close, tick, clear; options checked and memory laid out
 *      lease.c    extend, truncate, release: one request's hold on its blocks
 *      publish.c  full blocks become findable, and a failed step takes them back
 *      match.c    the longest safe cached prefix, and the tail past it
 *      evict.c    how a block leaves: dropped, evicted, withdrawn
 *      tree.c     nodes and the walk          order.c, index.c   ways to a child
 *      block.c    pools, states, accounts     policy.c           who goes next
 *      scope.c, extra.c, pin.c, ghost.h       tables             name.c, sha256.c, xxh3.c   names
 *      explain.c, event.c, stats.c, check.c   for people and subscribers
 *
 * Calls go down this list, but for two: a lease or node that goes lets its scope rest (cache.c), and match.c fills what
 * lease.c keeps. */
#ifndef ICP_CACHE_CACHE_H
#define ICP_CACHE_CACHE_H

#include "cache/block.h"
#include "cache/ghost.h"
#include "cache/name.h"
#include "cache/tree.h"
#include "incipit/cache.h"

#include <stdatomic.h>
#include <stdbool.h>

typedef struct icp_group_plan {
    icp_group_kind kind;
    uint32_t window;
    uint32_t need; /* blocks at the end of a prefix that must be there; UINT32_MAX: all */
    uint32_t pool;
} icp_group_plan;

typedef struct icp_lease_record {
    uint32_t index; /* its own, in the table */
    uint32_t generation;
    uint32_t next; /* free list */
    bool is_open;
    bool is_tail_placed; /* extend has given the tail its private block */
    uint32_t flags;
    uint32_t scope;
    uint32_t token_count; /* positions that the tables have room for; whole blocks until the first extend */
    uint32_t block_count; /* entries in each table */
    uint32_t published;   /* nodes on its path */
    uint32_t matched;     /* of these: found by match, so that a failed step does not take them back */
    uint32_t node;        /* the last of them, or ICP_NODE_NONE */
    uint32_t tail_tokens; /* 0: no tail */
    uint32_t tail_index;  /* the table entry that the tail is copied to */
    uint64_t tail_tick;   /* when it was placed */
} icp_lease_record;

/* Tables: one row per lease and group, row_count entries; the last one is the block that the tail is copied from. */
typedef struct icp_lease_table_set {
    icp_lease_record *records; /* [count_max] */
    uint32_t *rows;            /* [count_max][group_count][row_count] */
    uint32_t *lowest;          /* [count_max][group_count]: no entry below this one is held */
    uint32_t count_max;
    uint32_t count;
    uint32_t free;
    size_t row_count;
    uint32_t tokens_max;
} icp_lease_table_set;

typedef struct icp_pin_record {
    uint32_t generation;
    uint32_t next; /* free list */
    bool is_set;
    uint32_t node; /* the end of the pinned prefix */
    uint64_t until_tick;
} icp_pin_record;

typedef struct icp_pin_table {
    icp_pin_record *records; /* [count_max] */
    uint32_t count_max;
    uint32_t count;
    uint32_t free;
    uint64_t next_tick; /* no pin runs out before this */
} icp_pin_table;

struct icp_cache {
    icp_tree tree;
    icp_pool pools[ICP_GROUP_COUNT_MAX];
    uint32_t pool_count;
    icp_group_plan groups[ICP_GROUP_COUNT_MAX];
    uint32_t group_count;
    uint32_t need_max; /* the longest need of a window or state group; 0: there are none */
    bool has_full;     /* some group is FULL: a lease then holds every node of its path */
    bool has_state;    /* some group is STATE: there are no tails */
    icp_lease_table_set leases;
    icp_pin_table pins;
    icp_ghost_table ghosts;
    uint64_t tick;
    icp_duplicates duplicates;
    uint32_t tail_tokens_min; /* ICP_TAIL_OFF: none */
    icp_event_fn *event;
    void *event_context;
    uint64_t event_sequence;
    icp_name_kind name_kind;
    uint32_t name_bytes;
    uint8_t *names; /* [node_count_max][name_bytes] */
    char *name_seed;
    icp_cache_stats stats; /* the counters; what can be derived is not kept here */
    atomic_flag is_busy;
    void *memory; /* NULL: the caller's */
    size_t memory_bytes;
};

/* ---- One call at a time --------------------------------------------------------------------------------- */

#if defined(ICP_DEBUG) && ICP_DEBUG
atomic_flag *icp_guard_enter(const icp_cache *cache);
void icp_guard_leave(atomic_flag **guard);
#define ICP_ENTER(cache) \
    __attribute__((cleanup(icp_guard_leave), unused)) atomic_flag *guard = icp_guard_enter(cache)
#else
#define ICP_ENTER(cache) ((void)0)
#endif

/* ---- Small things that several files need ---------------------------------------------------------------- */

static inline icp_pool *icp_cache_pool(icp_cache *cache, uint32_t group)
{
    return &cache->pools[cache->groups[group].pool];
}

/* A scope's account in every pool. */
static inline uint32_t icp_cache_account(uint32_t scope)
{
    return scope + 1;
}

static inline uint32_t icp_cache_now(const icp_cache *cache)
{
    return (uint32_t)cache->tick;
}

/* ICP_OK where the text can be looked at: pointers, extras in order, length. */
icp_status icp_text_validate(const icp_cache *cache, const icp_text *text);

/* Lets a scope rest where nothing uses it any more, and ends its quota with it. */
void icp_cache_rest(icp_cache *cache, uint32_t scope);

/* ---- match.c ---- */

/* How far a request's text is cached. */
typedef struct icp_reach {
    uint32_t node;       /* the end of the safe prefix */
    uint32_t depth;      /* its nodes */
    uint32_t text_depth; /* nodes that match as text, safe or not */
    uint32_t lacking;    /* the group that cut it short, where text_depth > depth */
    uint32_t tail_node;  /* ICP_NODE_NONE: no tail */
    uint32_t tail_tokens;
} icp_reach;

void icp_match_reach(const icp_cache *cache, uint32_t scope, const icp_text *text, uint32_t flags, uint32_t *blocks,
                     icp_reach *reach);

/* ---- lease.c ---- */

icp_lease_record *icp_lease_find(const icp_cache *cache, icp_lease lease);

static inline uint32_t *icp_lease_row(const icp_cache *cache, const icp_lease_record *lease, uint32_t group)
{
    size_t index = (size_t)lease->index * cache->group_count + group;
    return cache->leases.rows + index * cache->leases.row_count;
}

static inline uint32_t *icp_lease_lowest(const icp_cache *cache, const icp_lease_record *lease, uint32_t group)
{
    return &cache->leases.lowest[(size_t)lease->index * cache->group_count + group];
}

icp_lease_record *icp_lease_claim(icp_cache *cache);
icp_lease icp_lease_handle(const icp_lease_record *lease);

/* The block that a group's tail is copied from, where the lease has a tail. */
static inline uint32_t *icp_lease_source(const icp_cache *cache, const icp_lease_record *lease, uint32_t group)
{
    return &icp_lease_row(cache, lease, group)[cache->leases.row_count - 1];
}

/* True where another lease or a pin holds a block of the lease at an index too. */
bool icp_lease_is_shared(const icp_cache *cache, const icp_lease_record *lease, uint32_t index);

/* Gives the source of a tail back once the step in which it was to be copied is over. */
void icp_lease_settle(icp_cache *cache, icp_lease_record *lease);

/* Ends the path of a lease after so many nodes; without full groups, where the lease holds a block, so that the node
 * it ends in cannot be evicted. */
void icp_lease_shorten(icp_cache *cache, icp_lease_record *lease, uint32_t published);

/* Leases whose path runs through the node (all of the scope's, for ICP_NODE_NONE) end above it from now on. */
void icp_lease_cut(icp_cache *cache, uint32_t scope, uint32_t node);

/* ---- pin.c ---- */

void icp_pin_start(icp_pin_table *table);
/* Ends the pins that have run out; those that run through a node (any of the scope's, for ICP_NODE_NONE). */
void icp_pin_expire(icp_cache *cache);
void icp_pin_cut(icp_cache *cache, uint32_t scope, uint32_t node);

/* ---- evict.c ---- */

/* A block for a lease of the scope. There must be one: icp_pool_available. */
uint32_t icp_evict_take(icp_cache *cache, uint32_t group, uint32_t scope);
/* One reference less. */
void icp_evict_drop(icp_cache *cache, uint32_t group, uint32_t block);
/* The node has (or has no longer) this block. */
void icp_evict_attach(icp_cache *cache, uint32_t node, uint32_t group, uint32_t block);
void icp_evict_spoil(icp_cache *cache, uint32_t node, uint32_t group);
/* The node and all below it can no longer be found. Leases and pins must have been cut. */
void icp_evict_withdraw(icp_cache *cache, uint32_t node);
/* Removes the node if it has neither blocks nor children, then its parent if so, and so on. */
void icp_evict_hollow(icp_cache *cache, uint32_t node, bool is_evicted);

/* ---- event.c ---- */

void icp_event_tell(icp_cache *cache, icp_event_kind kind, uint32_t node, uint32_t group_mask);

static inline void icp_event_stored(icp_cache *cache, uint32_t node, uint32_t group_mask)
{
    if (cache->event != NULL) icp_event_tell(cache, ICP_EVENT_STORED, node, group_mask);
}

static inline void icp_event_removed(icp_cache *cache, uint32_t node, uint32_t group_mask)
{
    if (cache->event != NULL && group_mask != 0) icp_event_tell(cache, ICP_EVENT_REMOVED, node, group_mask);
}

void icp_event_cleared(icp_cache *cache, uint32_t scope, bool is_all);
icp_name icp_cache_name(const icp_cache *cache, uint32_t scope, uint32_t node);

#endif
