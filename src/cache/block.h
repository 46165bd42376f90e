/* block.h - the pool of block records, and who is charged for each block.
 *
 * A block is known by its number in the pool. Its record is made once, at open. At any time it is in one of these
 * states, and prev/next serve what that state needs:
 *
 *                 take                      publish
 *      SPARE ------------>  PRIVATE  ------------------> LEASED / SHARED <---+
 *        ^                     |    \                        |               | hit
 *        |  last reference     |     \ same content exists   | last reference|
 *        +---------------------+      +---> DUPLICATE        v               |
 *        +<---------------------------------+              CACHED -----------+
 *        +<------------------------------------------------- / evicted, withdrawn
 *
 *      state                  references  node   prev/next
 *      SPARE                  0           none   spare list (policy lru: the queue)
 *      PRIVATE                >= 1        none   unused
 *      LEASED, SHARED         1, >= 2     yes    ring of duplicates, or none
 *      DUPLICATE              >= 1        yes    ring of duplicates, which its node's own block leads
 *      CACHED                 0           yes    the queue it waits in
 *
 * Accounts. Every block that is held or findable is charged to the account of its scope; account 0 is nobody's. A
 * scope with a quota has a queue of its own; all the others wait in the queue of account 0. Which queue's head goes
 * next is the policy's business.
 *
 * Called by the other files of this folder only, on the cache's thread. */
#ifndef ICP_CACHE_BLOCK_H
#define ICP_CACHE_BLOCK_H

#include "base/arena.h"
#include "incipit/cache.h"

#include <stdbool.h>

typedef struct icp_block {
    uint32_t prev;
    uint32_t next;
    uint32_t reference_count; /* leases and pins that hold it */
    uint32_t node;            /* ICP_NODE_NONE: nobody can find it */
    uint32_t used_tick;       /* last acquired or released */
    uint32_t stored_tick;     /* last published */
    uint32_t account;         /* 0: nobody is charged */
    uint16_t pin_count;       /* of reference_count */
    uint8_t group;
    uint8_t flags;
} icp_block;

_Static_assert(sizeof(icp_block) == 32, "two block records share a cache line");

#define ICP_BLOCK_IS_DUPLICATE 1u /* another block stands for its node */
#define ICP_BLOCK_IS_PARTIAL 2u   /* a recurrent state that was left in the middle of a block: never published */

typedef struct icp_list {
    uint32_t head;
    uint32_t tail;
    uint32_t count;
} icp_list;

typedef struct icp_account {
    icp_list queue;      /* free and findable, oldest first; account 0: of all scopes without a quota */
    uint32_t charged;    /* blocks held by leases and pins of the scope, or findable under it */
    uint32_t free_count; /* of these: free to evict, whichever queue they wait in */
    uint32_t min;
    uint32_t max;       /* UINT32_MAX: no limit */
    uint32_t evictable; /* by others: 0 while the scope is at its min; kept while the pool has quotas */
    uint32_t head_tick; /* when the head of the queue was released; likewise */
    bool has_queue;
} icp_account;

typedef struct icp_policy icp_policy;

typedef struct icp_pool {
    icp_block *blocks;
    uint32_t block_count;
    icp_list spare;
    icp_account *accounts; /* [account_count] */
    uint32_t account_count;
    uint32_t quota_count; /* accounts with a queue of their own, beside 0 */
    uint64_t evictable;   /* sum over the accounts, while quota_count > 0 */
    uint32_t *winners;    /* [account_count]: see policy.c */
    const icp_policy *policy;
    /* Blocks by state; LEASED is what is left. */
    uint32_t spare_count;
    uint32_t cached_count;
    uint32_t shared_count;
    uint32_t private_count;
    uint32_t duplicate_count;
    uint32_t pinned_count;
    uint64_t reuse_gap[ICP_HISTOGRAM_COUNT];
} icp_pool;

/* Carves (or measures) and, with memory at hand, makes all blocks spare. */
void icp_pool_carve(icp_pool *pool, icp_arena *arena);
void icp_pool_start(icp_pool *pool);

/* The bucket of an age in the statistics. */
static inline uint32_t icp_age_bucket(uint32_t age)
{
    return age == 0 ? 0 : 32u - (uint32_t)__builtin_clz(age);
}

/* Blocks that extend could take for an account, and whether the account's own limit (rather than the pool) is what
 * stops it from taking more. freed: blocks that this account gives back before it takes. */
uint64_t icp_pool_available(const icp_pool *pool, uint32_t account, uint64_t freed);
bool icp_pool_is_over_quota(const icp_pool *pool, uint32_t account, uint64_t wanted, uint64_t freed);

/* The block to take next for an account, or ICP_BLOCK_NONE. Changes nothing. */
uint32_t icp_pool_next(const icp_pool *pool, uint32_t account);

/* A free block leaves its list, and can no longer be found: it is in the caller's hands, to take or to spoil. */
void icp_pool_unlist(icp_pool *pool, uint32_t block);

/* An unlisted block is PRIVATE from now on, and an account is charged for it. */
void icp_pool_take(icp_pool *pool, uint32_t block, uint32_t account, uint8_t group, uint32_t tick);

/* One more reference for each of these findable blocks. */
void icp_pool_acquire(icp_pool *pool, const uint32_t *blocks, uint32_t count, uint32_t tick);

/* The last reference is gone: the block waits to be evicted (findable) or is spare. */
void icp_pool_free(icp_pool *pool, uint32_t block, uint32_t tick);

/* A free block can no longer be found: it is spare, and the next to be taken. */
void icp_pool_spoil(icp_pool *pool, uint32_t block);

/* A held block becomes findable, stands beside the one that is (duplicate), or can no longer be found. */
void icp_pool_publish(icp_pool *pool, uint32_t block, uint32_t node, uint32_t tick);
void icp_pool_duplicate(icp_pool *pool, uint32_t block, uint32_t primary, uint32_t tick);
void icp_pool_conceal(icp_pool *pool, uint32_t block);

/* The duplicate that was made first, or ICP_BLOCK_NONE. */
uint32_t icp_pool_heir(const icp_pool *pool, uint32_t primary);

/* The heir takes its primary's place; the primary, which stays in the state it is in, can no longer be found. */
void icp_pool_inherit(icp_pool *pool, uint32_t primary, uint32_t heir);

/* Sets the quota of an account; the first one moves what the scope has in the common queue to a queue of its own. */
void icp_pool_quota(icp_pool *pool, uint32_t account, uint32_t min, uint32_t max);

/* The quota is void: the account was never heard of. It must hold no block. */
void icp_pool_account_reset(icp_pool *pool, uint32_t account);

icp_block_state icp_pool_state(const icp_pool *pool, uint32_t block);

/* ---- Lists threaded through the records ---- */

static inline void icp_list_append(icp_block *blocks, icp_list *list, uint32_t block)
{
    blocks[block].prev = list->tail;
    blocks[block].next = ICP_BLOCK_NONE;
    if (list->tail == ICP_BLOCK_NONE)
        list->head = block;
    else
        blocks[list->tail].next = block;
    list->tail = block;
    list->count++;
}

static inline void icp_list_prepend(icp_block *blocks, icp_list *list, uint32_t block)
{
    blocks[block].prev = ICP_BLOCK_NONE;
    blocks[block].next = list->head;
    if (list->head == ICP_BLOCK_NONE)
        list->tail = block;
    else
        blocks[list->head].prev = block;
    list->head = block;
    list->count++;
}

/* Cuts out count blocks that follow each other, first to last; their own links are the caller's. */
static inline void icp_list_remove_run(icp_block *blocks, icp_list *list, uint32_t first, uint32_t last, uint32_t count)
{
    uint32_t prev = blocks[first].prev;
    uint32_t next = blocks[last].next;
    if (prev == ICP_BLOCK_NONE)
        list->head = next;
    else
        blocks[prev].next = next;
    if (next == ICP_BLOCK_NONE)
        list->tail = prev;
    else
        blocks[next].prev = prev;
    list->count -= count;
}

static inline void icp_list_remove(icp_block *blocks, icp_list *list, uint32_t block)
{
    icp_list_remove_run(blocks, list, block, block, 1);
    blocks[block].prev = blocks[block].next = ICP_BLOCK_NONE;
}

#endif
