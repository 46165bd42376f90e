/* driver.h - drives the library and the model (naive.h) through the same random operations.
 *
 * A run draws a configuration, opens a cache, and does operations as an engine would (match, extend, publish, decode,
 * truncate, release, tick), mixed with rarer ones and with calls that must be refused. After each of them everything
 * that can be seen is compared, and icp_cache_check must be content. All choices come from a source: a generator of
 * random numbers (test_fuzz.c) or the bytes that a fuzzer found (fuzz_ops.c).
 *
 *     driver.c          a run: the loop, the log, what is compared when
 *     driver_config.c   configurations and texts
 *     driver_lease.c    operations on leases
 *     driver_scope.c    scopes, pins, time, explain
 *     driver_refused.c  calls that must fail and change nothing
 *     shadow.c          what the engine would have in its blocks
 *
 * One thread, one driver at a time. */
#ifndef INCIPIT_TESTS_DRIVER_H
#define INCIPIT_TESTS_DRIVER_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "naive.h"
#include "replica.h"
#include "shadow.h"

/* Where choices come from. draw gives a number below bound (at least 1); once is_empty, it gives 0. */
typedef struct driver_source driver_source;
struct driver_source {
    uint32_t (*draw)(driver_source *source, uint32_t bound);
    bool is_empty;
};

/* A generator, xorshift64*. */
typedef struct driver_random {
    driver_source source;
    uint64_t state;
} driver_random;

/* Bytes, read once from first to last. */
typedef struct driver_bytes {
    driver_source source;
    const uint8_t *bytes;
    size_t count;
} driver_bytes;

void driver_random_start(driver_random *random, uint64_t seed);
void driver_bytes_start(driver_bytes *bytes, const uint8_t *data, size_t count);

#define DRIVER_LOG_COUNT 20u
#define DRIVER_LOG_BYTES 200u
#define DRIVER_RECENT_COUNT 12u
#define DRIVER_STALE_COUNT 4u

typedef struct driver {
    driver_source *source;
    icp_cache *cache;
    naive *model;
    replica *events;
    replica *dump;
    shadow *blocks;
    void *memory; /* handed to the cache, or NULL */
    icp_cache_options options;
    icp_group groups[NAIVE_GROUP_COUNT_MAX];
    uint32_t alphabet; /* different tokens */
    bool has_extras;
    bool has_quotas;
    naive_text texts[NAIVE_LEASE_COUNT_MAX]; /* of each lease: the tokens known so far */
    naive_text recent[DRIVER_RECENT_COUNT];
    uint32_t recent_count; /* ever */
    icp_lease stale_leases[DRIVER_STALE_COUNT];
    icp_pin stale_pins[DRIVER_STALE_COUNT];
    icp_scope stale_scopes[DRIVER_STALE_COUNT];
    uint64_t operation; /* of this run */
    uint64_t status_counts[ICP_STATUS_COUNT];
    uint64_t operation_count; /* of all runs, as run_count is */
    uint64_t run_count;
    char configuration[400];
    char log[DRIVER_LOG_COUNT][DRIVER_LOG_BYTES];
} driver;

driver *driver_open(void);
void driver_close(driver *self);

/* One configuration, so many operations. False: the library and the model differ; driver_report tells. */
bool driver_run(driver *self, driver_source *source, uint64_t operation_count);
void driver_report(const driver *self, FILE *file);

/* ---- For the driver's own files ---- */

static inline uint32_t driver_draw(driver *self, uint32_t bound)
{
    return self->source->draw(self->source, bound);
}

/* True once in so many times. */
static inline bool driver_chance(driver *self, uint32_t times)
{
    return driver_draw(self, times) == 0;
}

/* Begins an operation: a line for the log. */
void driver_begin(driver *self, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Ends it: the statuses agree, and so does everything else. */
bool driver_end(driver *self, icp_status seen, icp_status wanted);

bool driver_configure(driver *self);
void driver_text_draw(driver *self, naive_text *text);
void driver_text_append(driver *self, naive_text *text, uint32_t count);
uint32_t driver_lease_draw(driver *self); /* an open one, or NAIVE_NONE */
uint32_t driver_scope_draw(driver *self); /* an open one */

bool driver_match(driver *self);
bool driver_extend(driver *self);
bool driver_publish(driver *self);
bool driver_decode(driver *self);
bool driver_truncate(driver *self);
bool driver_unpublish(driver *self);
bool driver_release(driver *self);
bool driver_release_slot(driver *self, uint32_t slot);

bool driver_tick(driver *self);
bool driver_pin(driver *self);
bool driver_unpin(driver *self);
bool driver_clear(driver *self);
bool driver_quota(driver *self);
bool driver_scope(driver *self);
bool driver_explain(driver *self);

bool driver_refused(driver *self);

#endif
