/* block.c - the pool of KV block records: states, references, accounts.
 *
 * Records are made once, at open. The free queue is threaded through them, so taking a block out of the middle (a
 * hit) is O(1) and allocates nothing. Everything that changes a block's state is here, and each function moves the
 * block along one arrow of the drawing in block.h and keeps the counts; lease.c and evict.c decide when.
 *
 * Keeps invariants 1 to 4 of check.c. */
#include "cache/block.h"

#include "base/assert.h"
#include "base/prefetch.h"
#include "cache/policy.h"

/* Records that are about to be needed are asked for this many steps before: about the time that memory takes. */
#define PREFETCH_AHEAD 32u

/* Blocks that leave a queue at once: few enough for their records to stay in the first-level cache meanwhile. */
#define RUN_MAX 128u

/* ---- Rings ------------------------------------------------------------------------------------------------ */

/* The ring of a node's duplicates: primary, first made, ..., last made, and round again. A block alone is no ring. */
static void ring_join(icp_block *blocks, uint32_t primary, uint32_t block)
{
    uint32_t last = blocks[primary].prev == ICP_BLOCK_NONE ? primary : blocks[primary].prev;
    blocks[block].prev = last;
    blocks[block].next = primary;
    blocks[last].next = block;
    blocks[primary].prev = block;
}

static void ring_leave(icp_block *blocks, uint32_t block)
{
    uint32_t prev = blocks[block].prev;
    uint32_t next = blocks[block].next;
    if (next == ICP_BLOCK_NONE) return;
    blocks[prev].next = next;
    blocks[next].prev = prev;
    if (next == prev) blocks[next].prev = blocks[next].next = ICP_BLOCK_NONE;
    blocks[block].prev = blocks[block].next = ICP_BLOCK_NONE;
}

/* ---- Open --------------------------------------------------------------------------------------------- */

void icp_pool_carve(icp_pool *pool, icp_arena *arena)
{
    pool->blocks = icp_arena_take(arena, pool->block_count, sizeof(icp_block));
    pool->accounts = icp_arena_take(arena, pool->account_count, sizeof(icp_account));
    pool->winners = icp_arena_take(arena, pool->account_count, sizeof(uint32_t));
}

static const icp_list empty_list = {ICP_BLOCK_NONE, ICP_BLOCK_NONE, 0};

static icp_list *spare_list(icp_pool *pool)
{
    return pool->policy->queues_spare ? &pool->accounts[0].queue : &pool->spare;
}

void icp_pool_account_reset(icp_pool *pool, uint32_t account)
{
    icp_account *owner = &pool->accounts[account];
    if (owner->has_queue && account != 0) {
        ICP_ASSERT(owner->charged == 0 && owner->queue.count == 0);
        owner->min = 0;
        icp_policy_refresh(pool, account);
        owner->has_queue = false;
        pool->quota_count--;
    }
    *owner = (icp_account){.queue = empty_list, .max = UINT32_MAX};
}

void icp_pool_start(icp_pool *pool)
{
    for (uint32_t i = 0; i < pool->account_count; i++) {
        pool->accounts[i].has_queue = false;
        icp_pool_account_reset(pool, i);
    }
    pool->accounts[0].has_queue = true;
    pool->spare = empty_list;
    pool->spare_count = pool->block_count;
    icp_list *list = spare_list(pool);
    for (uint32_t i = 0; i < pool->block_count; i++) {
        pool->blocks[i] = (icp_block){.node = ICP_NODE_NONE};
        icp_list_append(pool->blocks, list, i);
    }
}

/* ---- Accounts and quotas ------------------------------------------------------------------------------- */

static void charge(icp_pool *pool, uint32_t block, uint32_t account)
{
    pool->blocks[block].account = account;
    pool->accounts[account].charged++;
    icp_policy_refresh(pool, account);
}

static void discharge(icp_pool *pool, uint32_t block)
{
    uint32_t account = pool->blocks[block].account;
    pool->accounts[account].charged--;
    pool->blocks[block].account = 0;
    icp_policy_refresh(pool, account);
}

void icp_pool_quota(icp_pool *pool, uint32_t account, uint32_t min, uint32_t max)
{
    icp_account *owner = &pool->accounts[account];
    owner->min = min;
    owner->max = max;
    if (owner->has_queue) {
        icp_policy_refresh(pool, account);
        return;
    }
    icp_list *common = &pool->accounts[0].queue;
    owner->has_queue = true;
    pool->quota_count++;
    for (uint32_t block = common->head, next; block != ICP_BLOCK_NONE; block = next) {
        next = pool->blocks[block].next;
        if (pool->blocks[block].account != account) continue;
        icp_list_remove(pool->blocks, common, block);
        icp_list_append(pool->blocks, &owner->queue, block);
    }
    if (pool->quota_count == 1) icp_policy_restart(pool);
    icp_policy_refresh(pool, 0);
    icp_policy_refresh(pool, account);
}

uint64_t icp_pool_available(const icp_pool *pool, uint32_t account, uint64_t freed)
{
    if (pool->quota_count == 0) return (uint64_t)pool->spare_count + pool->cached_count + freed;
    const icp_account *own = &pool->accounts[icp_policy_queue(pool, account)];
    return (uint64_t)pool->spare.count + pool->evictable - own->evictable + own->queue.count + freed;
}

bool icp_pool_is_over_quota(const icp_pool *pool, uint32_t account, uint64_t wanted, uint64_t freed)
{
    const icp_account *own = &pool->accounts[account];
    return own->max != UINT32_MAX && own->charged + wanted > (uint64_t)own->max + own->queue.count + freed;
}

uint32_t icp_pool_next(const icp_pool *pool, uint32_t account)
{
    const icp_account *own = &pool->accounts[account];
    if (own->charged >= own->max) return pool->policy->victim_own(pool, account);
    if (pool->spare.head != ICP_BLOCK_NONE) return pool->spare.head;
    return pool->policy->victim(pool, account);
}

/* ---- The arrows ----------------------------------------------------------------------------------------- */

void icp_pool_unlist(icp_pool *pool, uint32_t block)
{
    icp_block *record = &pool->blocks[block];
    ICP_ASSERT(record->reference_count == 0);
    if (record->node == ICP_NODE_NONE) {
        icp_list_remove(pool->blocks, spare_list(pool), block);
        pool->spare_count--;
        if (pool->policy->queues_spare) icp_policy_refresh(pool, 0);
        return;
    }
    pool->policy->remove(pool, block, block, 1);
    pool->accounts[record->account].free_count--;
    pool->cached_count--;
    discharge(pool, block);
    record->node = ICP_NODE_NONE;
}

void icp_pool_take(icp_pool *pool, uint32_t block, uint32_t account, uint8_t group, uint32_t tick)
{
    icp_block *record = &pool->blocks[block];
    pool->private_count++;
    record->prev = record->next = ICP_BLOCK_NONE;
    record->reference_count = 1;
    record->used_tick = tick;
    record->group = group;
    record->flags = 0;
    charge(pool, block, account);
}

/* Free blocks leave their queue. A request's blocks were released last to first, so in the queue each has the next one
 * of its path before it: such a run is cut out as a whole. Returns how many of the blocks that is. */
static uint32_t acquire_free(icp_pool *pool, const uint32_t *blocks, uint32_t count, uint32_t tick)
{
    icp_block *record = &pool->blocks[blocks[0]];
    uint32_t used = record->used_tick;
    uint32_t account = record->account;
    uint32_t first = record->prev;
    uint32_t run = 1;
    while (run < count && run < RUN_MAX && blocks[run] == first) {
        if (run + PREFETCH_AHEAD < count) ICP_PREFETCH(&pool->blocks[blocks[run + PREFETCH_AHEAD]]);
        const icp_block *next = &pool->blocks[blocks[run]];
        if (next->account != account || next->used_tick != used) break;
        first = next->prev;
        run++;
    }
    pool->policy->remove(pool, blocks[run - 1], blocks[0], run);
    for (uint32_t i = 0; i < run; i++) {
        record = &pool->blocks[blocks[i]];
        record->prev = record->next = ICP_BLOCK_NONE;
        record->reference_count = 1;
        record->used_tick = tick;
    }
    pool->reuse_gap[icp_age_bucket(tick - used)] += run;
    pool->accounts[account].free_count -= run;
    pool->cached_count -= run;
    icp_policy_refresh(pool, account);
    return run;
}

void icp_pool_acquire(icp_pool *pool, const uint32_t *blocks, uint32_t count, uint32_t tick)
{
    for (uint32_t i = 0; i < count;) {
        icp_block *record = &pool->blocks[blocks[i]];
        if (record->reference_count == 0) {
            i += acquire_free(pool, blocks + i, count - i, tick);
            continue;
        }
        pool->reuse_gap[icp_age_bucket(tick - record->used_tick)]++;
        if (record->reference_count++ == 1) pool->shared_count++;
        record->used_tick = tick;
        i++;
    }
}

void icp_pool_free(icp_pool *pool, uint32_t block, uint32_t tick)
{
    icp_block *record = &pool->blocks[block];
    record->used_tick = tick;
    if (record->node != ICP_NODE_NONE) {
        pool->policy->insert(pool, block);
        pool->accounts[record->account].free_count++;
        pool->cached_count++;
        icp_policy_refresh(pool, record->account);
        return;
    }
    discharge(pool, block);
    icp_list_append(pool->blocks, spare_list(pool), block);
    pool->private_count--;
    pool->spare_count++;
    if (pool->policy->queues_spare) icp_policy_refresh(pool, 0);
}

void icp_pool_spoil(icp_pool *pool, uint32_t block)
{
    icp_pool_unlist(pool, block);
    icp_list_prepend(pool->blocks, spare_list(pool), block);
    pool->spare_count++;
    if (pool->policy->queues_spare) icp_policy_refresh(pool, 0);
}

void icp_pool_publish(icp_pool *pool, uint32_t block, uint32_t node, uint32_t tick)
{
    icp_block *record = &pool->blocks[block];
    ICP_ASSERT(record->reference_count != 0 && record->node == ICP_NODE_NONE);
    record->node = node;
    record->stored_tick = tick;
    record->prev = record->next = ICP_BLOCK_NONE;
    pool->private_count--;
    if (record->reference_count > 1) pool->shared_count++;
}

void icp_pool_duplicate(icp_pool *pool, uint32_t block, uint32_t primary, uint32_t tick)
{
    icp_block *record = &pool->blocks[block];
    ICP_ASSERT(record->reference_count != 0 && record->node == ICP_NODE_NONE);
    ICP_ASSERT(pool->blocks[primary].reference_count != 0);
    record->node = pool->blocks[primary].node;
    record->stored_tick = tick;
    record->flags |= ICP_BLOCK_IS_DUPLICATE;
    ring_join(pool->blocks, primary, block);
    pool->private_count--;
    pool->duplicate_count++;
}

void icp_pool_conceal(icp_pool *pool, uint32_t block)
{
    icp_block *record = &pool->blocks[block];
    ICP_ASSERT(record->reference_count != 0 && record->node != ICP_NODE_NONE);
    ring_leave(pool->blocks, block);
    if (record->flags & ICP_BLOCK_IS_DUPLICATE)
        pool->duplicate_count--;
    else if (record->reference_count > 1)
        pool->shared_count--;
    record->flags &= (uint8_t)~ICP_BLOCK_IS_DUPLICATE;
    record->node = ICP_NODE_NONE;
    pool->private_count++;
}

uint32_t icp_pool_heir(const icp_pool *pool, uint32_t primary)
{
    const icp_block *record = &pool->blocks[primary];
    return record->flags & ICP_BLOCK_IS_DUPLICATE ? ICP_BLOCK_NONE : record->next;
}

/* Called where the primary's last reference has just gone, and it is in no queue yet: counted as if still held. */
void icp_pool_inherit(icp_pool *pool, uint32_t primary, uint32_t heir)
{
    ring_leave(pool->blocks, primary);
    pool->blocks[primary].node = ICP_NODE_NONE;
    pool->private_count++;
    pool->blocks[heir].flags &= (uint8_t)~ICP_BLOCK_IS_DUPLICATE;
    pool->duplicate_count--;
    if (pool->blocks[heir].reference_count > 1) pool->shared_count++;
}

icp_block_state icp_pool_state(const icp_pool *pool, uint32_t block)
{
    const icp_block *record = &pool->blocks[block];
    if (record->node == ICP_NODE_NONE) return record->reference_count == 0 ? ICP_BLOCK_SPARE : ICP_BLOCK_PRIVATE;
    if (record->flags & ICP_BLOCK_IS_DUPLICATE) return ICP_BLOCK_DUPLICATE;
    if (record->reference_count == 0) return ICP_BLOCK_CACHED;
    return record->reference_count == 1 ? ICP_BLOCK_LEASED : ICP_BLOCK_SHARED;
}
