/* policy.h - which free block goes next.
 *
 * A policy keeps the blocks that are free and findable in queues threaded through their records, one queue per account,
 * and names the victim. It never walks: insert, remove and victim are O(1), or O(log accounts) once there are quotas.
 * It may rely on this: a lease that holds a node's block of a full group holds its parent's too and gives the child's
 * back first. So in order of release a child always comes before its parent, and the oldest block is a leaf.
 *
 * Chosen at open by icp_cache_options.policy. */
#ifndef ICP_CACHE_POLICY_H
#define ICP_CACHE_POLICY_H

#include "cache/block.h"

struct icp_policy {
    const char *name;
    bool
        queues_spare; /* spare blocks wait in the queue of account 0, in order of release, not in a list of their own */
    void (*insert)(icp_pool *pool, uint32_t block); /* at the young end */
    /* A hit, or an eviction: count blocks of one account that follow each other in their queue, first to last. */
    void (*remove)(icp_pool *pool, uint32_t first, uint32_t last, uint32_t count);
    uint32_t (*victim)(const icp_pool *pool, uint32_t account);     /* for this account; ICP_BLOCK_NONE: none */
    uint32_t (*victim_own)(const icp_pool *pool, uint32_t account); /* among its own blocks only */
};

/* NULL: no such policy. */
const icp_policy *icp_policy_find(icp_policy_kind kind);

/* The queue in which a free block of an account waits. */
static inline uint32_t icp_policy_queue(const icp_pool *pool, uint32_t account)
{
    return pool->accounts[account].has_queue ? account : 0;
}

/* The numbers of an account have changed: keeps evictable and the winners right while there are quotas. */
void icp_policy_replay(icp_pool *pool, uint32_t account);
/* The first quota is there: nothing of this was kept before. */
void icp_policy_restart(icp_pool *pool);

static inline void icp_policy_refresh(icp_pool *pool, uint32_t account)
{
    if (pool->quota_count != 0) icp_policy_replay(pool, account);
}

#endif
