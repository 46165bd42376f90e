/* driver.c - a run: one configuration, many operations, and a comparison after each. */
#include "driver.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

/* How often the costlier comparisons are made, in operations. */
#define STATISTICS_EVERY 16u
#define EVENTS_EVERY 64u

/* ---- Sources ---------------------------------------------------------------------------------------------- */

static uint32_t random_draw(driver_source *source, uint32_t bound)
{
    driver_random *random = (driver_random *)(void *)source;
    random->state ^= random->state >> 12;
    random->state ^= random->state << 25;
    random->state ^= random->state >> 27;
    uint64_t value = random->state * 0x2545f4914f6cdd1du;
    return (uint32_t)((value >> 32) * bound >> 32);
}

void driver_random_start(driver_random *random, uint64_t seed)
{
    random->source = (driver_source){random_draw, false};
    random->state = (seed + 0x9e3779b97f4a7c15u) * 0xbf58476d1ce4e5b9u;
    if (random->state == 0) random->state = 1;
    for (int i = 0; i < 8; i++) (void)random_draw(&random->source, 2);
}

static uint32_t bytes_draw(driver_source *source, uint32_t bound)
{
    driver_bytes *bytes = (driver_bytes *)(void *)source;
    uint32_t value = 0;
    for (uint32_t range = 1; range < bound; range <<= 8) {
        if (bytes->count == 0) {
            source->is_empty = true;
            return 0;
        }
        value = value << 8 | *bytes->bytes++;
        bytes->count--;
    }
    return value % bound;
}

void driver_bytes_start(driver_bytes *bytes, const uint8_t *data, size_t count)
{
    *bytes = (driver_bytes){.source = {bytes_draw, false}, .bytes = data, .count = count};
}

/* ---- Open and close ----------------------------------------------------------------------------------------- */

driver *driver_open(void)
{
    driver *self = calloc(1, sizeof(*self));
    if (self == NULL) return NULL;
    self->model = calloc(1, sizeof(*self->model));
    self->events = calloc(1, sizeof(*self->events));
    self->dump = calloc(1, sizeof(*self->dump));
    self->blocks = calloc(1, sizeof(*self->blocks));
    if (self->model != NULL && self->events != NULL && self->dump != NULL && self->blocks != NULL) return self;
    driver_close(self);
    return NULL;
}

static void close_cache(driver *self)
{
    icp_cache_close(self->cache);
    free(self->memory);
    self->cache = NULL;
    self->memory = NULL;
}

void driver_close(driver *self)
{
    if (self == NULL) return;
    close_cache(self);
    free(self->model);
    free(self->events);
    free(self->dump);
    free(self->blocks);
    free(self);
}

/* ---- One operation ------------------------------------------------------------------------------------------- */

void driver_begin(driver *self, const char *format, ...)
{
    self->operation++;
    self->operation_count++;
    self->model->operation = self->operation;
    char *line = self->log[self->operation % DRIVER_LOG_COUNT];
    int used =
        snprintf(line, DRIVER_LOG_BYTES, "%6" PRIu64 " [tick %" PRIu64 "] ", self->operation, self->model->now.tick);
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(line + used, DRIVER_LOG_BYTES - (size_t)used, format, arguments);
    va_end(arguments);
}

static void log_status(driver *self, icp_status status)
{
    char *line = self->log[self->operation % DRIVER_LOG_COUNT];
    size_t used = strlen(line);
    (void)snprintf(line + used, DRIVER_LOG_BYTES - used, " -> %s", icp_status_name(status));
}

/* Where both the pool and the quota are too small, either may be blamed. */
static bool are_alike(icp_status seen, icp_status wanted)
{
    bool is_refusal = seen == ICP_FULL || seen == ICP_QUOTA;
    return seen == wanted || (is_refusal && (wanted == ICP_FULL || wanted == ICP_QUOTA));
}

bool driver_end(driver *self, icp_status seen, icp_status wanted)
{
    naive *model = self->model;
    log_status(self, seen);
    if ((unsigned)seen < ICP_STATUS_COUNT) self->status_counts[seen]++;
    if (!are_alike(seen, wanted)) {
        naive_fail(model, "the status is %s, want %s", icp_status_name(seen), icp_status_name(wanted));
        return false;
    }
    naive_scope_sweep(model);
    if (!replica_settle(self->events, model) || !naive_compare(model)) return false;
    if (self->operation % STATISTICS_EVERY == 0 && !naive_compare_statistics(model)) return false;
    if (self->operation % EVENTS_EVERY == 0 && !replica_compare(self->events, model, self->dump)) return false;
    return true;
}

static bool do_something(driver *self)
{
    static const struct {
        bool (*act)(driver *self);
        uint32_t weight;
    } acts[] = {
        {driver_match, 36},    {driver_extend, 30},   {driver_publish, 24}, {driver_decode, 30}, {driver_tick, 24},
        {driver_truncate, 10}, {driver_release, 20},  {driver_explain, 6},  {driver_refused, 6}, {driver_pin, 3},
        {driver_unpin, 2},     {driver_unpublish, 3}, {driver_scope, 3},    {driver_quota, 2},   {driver_clear, 1},
    };
    uint32_t total = 0;
    for (size_t i = 0; i < sizeof(acts) / sizeof(acts[0]); i++) total += acts[i].weight;
    uint32_t drawn = driver_draw(self, total);
    size_t chosen = 0;
    while (drawn >= acts[chosen].weight) drawn -= acts[chosen++].weight;
    return acts[chosen].act(self);
}

/* ---- A run ----------------------------------------------------------------------------------------------------- */

bool driver_run(driver *self, driver_source *source, uint64_t operation_count)
{
    close_cache(self);
    self->source = source;
    self->operation = 0;
    self->run_count++;
    self->recent_count = 0;
    memset(self->log, 0, sizeof(self->log));
    memset(self->stale_leases, 0, sizeof(self->stale_leases));
    memset(self->stale_pins, 0, sizeof(self->stale_pins));
    memset(self->stale_scopes, 0, sizeof(self->stale_scopes));
    bool is_good = driver_configure(self);
    while (is_good && self->operation < operation_count && !source->is_empty) is_good = do_something(self);
    if (is_good) is_good = replica_compare(self->events, self->model, self->dump);
    if (is_good) close_cache(self); /* otherwise the report looks at it */
    return is_good;
}

static void report_queues(const driver *self, FILE *file)
{
    const naive *model = self->model;
    for (uint32_t g = 0, pool = 0; g < model->group_count; g++) {
        if (model->pool_of[g] != pool) continue;
        uint32_t wanted[NAIVE_BLOCK_COUNT_MAX];
        uint32_t seen[NAIVE_BLOCK_COUNT_MAX];
        size_t seen_count = 0;
        uint32_t count = naive_queue_list(model, pool, wanted);
        if (icp_cache_queue(self->cache, g, seen, NAIVE_BLOCK_COUNT_MAX, &seen_count) != ICP_OK) return;
        (void)fprintf(file, "queue of pool %u:", pool);
        for (size_t i = 0; i < seen_count; i++) (void)fprintf(file, " %u", seen[i]);
        (void)fprintf(file, "\n          model:");
        for (uint32_t i = 0; i < count; i++) {
            const naive_block *block = &model->now.pools[pool].blocks[wanted[i]];
            (void)fprintf(file, block->node == NAIVE_NONE ? " (%u)" : " %u", wanted[i]); /* (spare) */
        }
        (void)fprintf(file, "\n");
        pool++;
    }
}

static void report_leases(const driver *self, FILE *file)
{
    for (uint32_t l = 0; l < NAIVE_LEASE_COUNT_MAX; l++) {
        const naive_lease *lease = &self->model->now.leases[l];
        if (!lease->is_open) continue;
        (void)fprintf(file, "lease %u, scope %u: room %u, published %u%s%s\n", l, lease->scope, lease->room,
                      lease->published, lease->is_tail_pending ? ", tail pending" : "",
                      lease->is_tail_held ? ", tail held" : "");
        for (uint32_t g = 0; g < self->model->group_count; g++) {
            (void)fprintf(file, "    group %u:", g);
            for (uint32_t i = 0; i < lease->entry_count; i++) (void)fprintf(file, " %d", (int)lease->tables[g][i]);
            (void)fprintf(file, "\n");
        }
    }
    for (uint32_t s = 0; s < NAIVE_SCOPE_COUNT_MAX; s++) {
        const naive_scope *scope = &self->model->now.scopes[s];
        if (!scope->is_live) continue;
        (void)fprintf(file, "scope %u: open %u times, quota %u to %u%s\n", s, scope->open_count, scope->quota_min,
                      scope->quota_max, scope->has_domain ? ", a queue of its own" : "");
    }
}

void driver_report(const driver *self, FILE *file)
{
    (void)fprintf(file, "configuration %" PRIu64 ": %s\n", self->run_count, self->configuration);
    for (uint64_t i = self->operation >= DRIVER_LOG_COUNT ? self->operation - DRIVER_LOG_COUNT + 1 : 1;
         i <= self->operation; i++) {
        (void)fprintf(file, "%s\n", self->log[i % DRIVER_LOG_COUNT]);
    }
    if (self->cache != NULL) {
        report_queues(self, file);
        report_leases(self, file);
    }
    (void)fprintf(file, "operation %" PRIu64 ": %s\n", self->operation, self->model->error);
}
