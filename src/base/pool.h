/* pool.h - threads that share out the items of one job at a time.
 *
 * Opened once with n threads, of which the caller of run is one. run gives each item of a job to exactly one thread and
 * returns when all are done; what the items wrote is then seen by the caller. Threads that find nothing to do spin for
 * some tens of microseconds, because the next job of a forward pass is that near, and then sleep: an idle pool takes no
 * processor time. A job never waits for a thread that has not begun to work on it, so a pool with more threads than
 * there are free cores is no slower than one that fits.
 *
 * One owner thread opens, runs and closes. */
#ifndef ICP_BASE_POOL_H
#define ICP_BASE_POOL_H

#include <stdint.h>

typedef struct icp_pool icp_pool;

/* worker is in [0, thread_count): no two items run at the same time with the same one. The caller is worker 0. */
typedef void icp_pool_fn(void *context, uint32_t item, uint32_t worker);

/* thread_count 0: as many as there are cores that this process may use. NULL: no memory, or no threads to be had. */
icp_pool *icp_pool_open(uint32_t thread_count);
void icp_pool_close(icp_pool *pool); /* accepts NULL */

uint32_t icp_pool_thread_count(const icp_pool *pool);

void icp_pool_run(icp_pool *pool, icp_pool_fn *fn, void *context, uint32_t item_count);

#endif
