/* policy.c - least recently used, as vLLM orders it and with spare blocks first.
 *
 * Without quotas there is one queue and its head is the victim. With quotas every scope that has one owns a queue, and
 * the victim is the oldest head among the queues that may lose a block: a queue may not if its scope is at its min. A
 * tournament finds it: winners[i] is the better of winners[2i] and winners[2i + 1], the leaves being the accounts; one
 * account's change costs a walk from its leaf to the top.
 *
 *              winners[1]                  an account with nothing to lose never wins against one that has;
 *             /          \                 between two that have, the older head wins, then the lower number
 *        [2]                [3]
 *       /   \              /   \
 *     a0     a1          a2     a3 */
#include "cache/policy.h"


/* True where account a is the better victim. Ticks are compared by their difference, so that they may wrap. */
static bool is_better(const icp_pool *pool, uint32_t a, uint32_t b)
{
    const icp_account *left = &pool->accounts[a];
    const icp_account *right = &pool->accounts[b];
    if (left->evictable == 0 || right->evictable == 0) return left->evictable != 0 || (right->evictable == 0 && a < b);
    int32_t older = (int32_t)(left->head_tick - right->head_tick);
    return older != 0 ? older < 0 : a < b;
}

static uint32_t winner_at(const icp_pool *pool, uint32_t i)
{
    return i >= pool->account_count ? i - pool->account_count : pool->winners[i];
}

static void play(icp_pool *pool, uint32_t i)
{
    uint32_t a = winner_at(pool, 2 * i);
    uint32_t b = winner_at(pool, 2 * i + 1);
    pool->winners[i] = is_better(pool, a, b) ? a : b;
}

void icp_policy_replay(icp_pool *pool, uint32_t account)
{
    uint32_t queue = icp_policy_queue(pool, account);
    icp_account *owner = &pool->accounts[queue];
    uint32_t over = owner->charged > owner->min ? owner->charged - owner->min : 0;
    uint32_t evictable = queue == 0 || owner->queue.count < over ? owner->queue.count : over;
    pool->evictable += evictable;
    pool->evictable -= owner->evictable;
    owner->evictable = evictable;
    if (owner->queue.count != 0) owner->head_tick = pool->blocks[owner->queue.head].used_tick;
    for (uint32_t i = (queue + pool->account_count) / 2; i >= 1; i /= 2) play(pool, i);
}

void icp_policy_restart(icp_pool *pool)
{
    pool->evictable = 0;
    for (uint32_t i = 0; i < pool->account_count; i++) pool->accounts[i].evictable = 0;
    for (uint32_t i = pool->account_count - 1; i >= 1; i--) play(pool, i);
    for (uint32_t i = 0; i < pool->account_count; i++) icp_policy_replay(pool, i);
}

static void lru_insert(icp_pool *pool, uint32_t block)
{
    uint32_t account = pool->blocks[block].account;
    icp_list_append(pool->blocks, &pool->accounts[icp_policy_queue(pool, account)].queue, block);
}

static void lru_remove(icp_pool *pool, uint32_t first, uint32_t last, uint32_t count)
{
    uint32_t account = pool->blocks[first].account;
    icp_list_remove_run(pool->blocks, &pool->accounts[icp_policy_queue(pool, account)].queue, first, last, count);
}

static uint32_t lru_victim_own(const icp_pool *pool, uint32_t account)
{
    return pool->accounts[account].has_queue ? pool->accounts[account].queue.head : ICP_BLOCK_NONE;
}

/* An account may always evict its own, even at its min. */
static uint32_t lru_victim(const icp_pool *pool, uint32_t account)
{
    if (pool->quota_count == 0) return pool->accounts[0].queue.head;

    uint32_t best = pool->winners[1];
    uint32_t queue = icp_policy_queue(pool, account);
    const icp_account *own = &pool->accounts[queue];
    if (pool->accounts[best].evictable == 0) return own->queue.head;
    if (best == queue || own->queue.count == 0) return pool->accounts[best].queue.head;
    int32_t older = (int32_t)(own->head_tick - pool->accounts[best].head_tick);
    bool is_own = older != 0 ? older < 0 : queue < best;
    return is_own ? own->queue.head : pool->accounts[best].queue.head;
}

static const icp_policy policies[] = {
    {"lru", true, lru_insert, lru_remove, lru_victim, lru_victim_own},
    {"spare-lru", false, lru_insert, lru_remove, lru_victim, lru_victim_own},
};

const icp_policy *icp_policy_find(icp_policy_kind kind)
{
    switch (kind) {
    case ICP_POLICY_LRU:
        return &policies[0];
    case ICP_POLICY_DEFAULT:
    case ICP_POLICY_SPARE_LRU:
        return &policies[1];
    case ICP_POLICY_COUNT:
        break;
    }
    return NULL;
}
