/* test_pool.c - the thread pool: every item once, results seen, no matter how many threads there are. */
#include "base/pool.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define ITEMS_MAX 5000u
#define THREADS_MAX 9u

typedef struct job {
    uint8_t counts[ITEMS_MAX]; /* plain memory: a missing barrier is a race that the thread sanitizer tells */
    uint64_t values[ITEMS_MAX];
    uint64_t salt;
    atomic_bool is_busy[THREADS_MAX];
    atomic_bool is_shared; /* a worker's number was used by two threads at a time */
    uint32_t thread_count;
} job;

static void do_item(void *context, uint32_t item, uint32_t worker)
{
    job *self = context;
    assert_true(worker < self->thread_count);
    if (atomic_exchange(&self->is_busy[worker], true)) atomic_store(&self->is_shared, true);
    self->counts[item]++;
    self->values[item] = item * self->salt;
    atomic_store(&self->is_busy[worker], false);
}

static void run_and_check(icp_pool *pool, job *self, uint32_t item_count, uint64_t salt)
{
    memset(self->counts, 0, sizeof(self->counts));
    self->salt = salt;
    icp_pool_run(pool, do_item, self, item_count);
    for (uint32_t i = 0; i < ITEMS_MAX; i++) assert_int_equal(self->counts[i], i < item_count ? 1 : 0);
    for (uint32_t i = 0; i < item_count; i++) assert_true(self->values[i] == i * salt);
    assert_false(atomic_load(&self->is_shared));
}

static void every_item_is_done_once_and_seen_by_the_caller(void **state)
{
    (void)state;
    static const uint32_t counts[] = {0, 1, 2, 3, 7, 64, 1000, ITEMS_MAX};
    job *self = calloc(1, sizeof(*self));
    for (uint32_t threads = 1; threads < THREADS_MAX; threads += threads < 4 ? 1 : 4) {
        icp_pool *pool = icp_pool_open(threads);
        assert_non_null(pool);
        assert_int_equal(icp_pool_thread_count(pool), threads);
        self->thread_count = threads;
        for (uint32_t i = 0; i < 8; i++) run_and_check(pool, self, counts[i], i + 1);
        icp_pool_close(pool);
    }
    free(self);
}

/* Jobs that follow one another at once meet workers that are still leaving the last one, spinning or asleep. */
static void many_short_jobs_in_a_row_do_not_mix(void **state)
{
    (void)state;
    job *self = calloc(1, sizeof(*self));
    self->thread_count = 4; /* more than the cores of a small machine */
    icp_pool *pool = icp_pool_open(4);
    for (uint32_t i = 0; i < 300; i++) run_and_check(pool, self, 1 + i % 40, i);
    icp_pool_close(pool);
    free(self);
}

typedef struct meeting {
    atomic_uint here;
    uint32_t expected;
} meeting;

/* Waits until as many items run at a time as there are threads. */
static void meet(void *context, uint32_t item, uint32_t worker)
{
    (void)item;
    (void)worker;
    meeting *self = context;
    atomic_fetch_add(&self->here, 1);
    while (atomic_load(&self->here) < self->expected) sched_yield();
}

static void all_threads_work_even_after_they_fell_asleep(void **state)
{
    (void)state;
    icp_pool *pool = icp_pool_open(3);
    for (uint32_t i = 0; i < 20; i++) {
        meeting self = {.expected = 3};
        icp_pool_run(pool, meet, &self, 3);
        for (uint32_t n = 0; n < 2000 * (i % 4); n++) sched_yield(); /* long enough for workers to sleep, sometimes */
    }
    icp_pool_close(pool);
}

static void a_pool_that_never_ran_closes(void **state)
{
    (void)state;
    icp_pool *pool = icp_pool_open(3);
    icp_pool_close(pool);
    pool = icp_pool_open(0);
    assert_true(icp_pool_thread_count(pool) >= 1);
    icp_pool_close(pool);
    icp_pool_close(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_item_is_done_once_and_seen_by_the_caller),
        cmocka_unit_test(many_short_jobs_in_a_row_do_not_mix),
        cmocka_unit_test(all_threads_work_even_after_they_fell_asleep),
        cmocka_unit_test(a_pool_that_never_ran_closes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
