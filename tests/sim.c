/* sim.c - see sim.h: a world, from its seed to its end. */
#include "sim.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define DRAIN_STEPS_MAX 20000u

uint32_t sim_draw(sim_random *random, uint32_t bound)
{
    random->state ^= random->state >> 12;
    random->state ^= random->state << 25;
    random->state ^= random->state >> 27;
    return (uint32_t)((random->state * 0x2545f4914f6cdd1du >> 32) * bound >> 32);
}

bool sim_chance(sim_random *random, uint32_t times)
{
    return times != 0 && sim_draw(random, times) == 0;
}

bool sim_wrong(sim *self, const char *format, ...)
{
    if (self->error[0] != '\0') return false;
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(self->error, sizeof(self->error), format, arguments);
    va_end(arguments);
    return false;
}

/* ---- The world ------------------------------------------------------------------------------------------------ */

static uint32_t pick(sim_random *random, const uint32_t *choices, uint32_t count)
{
    return choices[sim_draw(random, count)];
}

static void draw_config(sim *self)
{
    static const uint32_t block_tokens[] = {1, 2, 3, 4, 4, 8, 16};
    static const uint32_t windows[] = {2, 3, 5, 8, 12, 20};
    static const uint32_t steps[] = {1, 2, 4, 7, 12, 16, 32, 64};
    static const uint32_t sequences[] = {1, 2, 3, 5, 8, 16};
    static const uint32_t alphabets[] = {1, 2, 3, 8, 40};
    static const uint32_t tails[] = {1, 1, 1, 2, 5, ICP_TAIL_OFF};
    sim_random *random = &self->random;
    sim_config *config = &self->config;
    *config = (sim_config){.kind = (sim_kind)sim_draw(random, SIM_KIND_COUNT),
                           .window = pick(random, windows, 6),
                           .context = 16 + sim_draw(random, SIM_CONTEXT_MAX - 16),
                           .alphabet = pick(random, alphabets, 5),
                           .arrival_every = 1 + sim_draw(random, 6),
                           .job_max = 1 + sim_draw(random, SIM_JOB_MAX)};
    if (sim_chance(random, 2)) config->cancel_every = 3 + sim_draw(random, 40);
    if (sim_chance(random, 2)) config->fail_every = 3 + sim_draw(random, 40);
    if (sim_chance(random, 2)) config->adapter_every = 10 + sim_draw(random, 40);
    icp_engine_options *options = &config->options;
    icp_engine_options_init(options);
    options->block_tokens = pick(random, block_tokens, 7);
    options->step_tokens = pick(random, steps, 8);
    options->sequence_count_max = pick(random, sequences, 6);
    options->queue_count_max = 1 + sim_draw(random, 40);
    options->tail_tokens_min = pick(random, tails, 6);
    options->policy = (icp_policy_kind)sim_draw(random, ICP_POLICY_COUNT);
    options->is_cache_off = sim_chance(random, 12);
    options->scope_count_max = sim_chance(random, 2) ? 3 + sim_draw(random, 6) : 64;
    options->adapter_count_max = SIM_ADAPTER_MAX;
    options->seed = self->seed;
    /* Blocks are 64 bytes. From what one sequence needs, to plenty. */
    uint32_t whole = config->context / options->block_tokens + 2;
    uint32_t run = (config->window + options->step_tokens) / options->block_tokens + 4;
    uint32_t pools = config->kind == SIM_FULL_AND_WINDOW ? whole + run : config->kind == SIM_FULL ? whole : run;
    options->kv_bytes = 64 * (uint64_t)(pools + sim_draw(random, sim_chance(random, 2) ? 6 : pools * 4));
}

static void load_adapter(sim *self, uint32_t index)
{
    icp_error error = {""};
    const char *name = index == 0 ? "first" : "second";
    if (icp_engine_adapter_load(self->engine, name, self->adapter_paths[index], &error) != ICP_OK)
        sim_wrong(self, "adapter: %s", error.text);
    else
        self->is_loaded[index] = true;
}

static bool world_open(sim *self, uint64_t seed)
{
    self->seed = seed;
    self->random.state = (seed + 1) * 0x9e3779b97f4a7c15u;
    for (int i = 0; i < 8; i++) (void)sim_draw(&self->random, 2);
    self->error[0] = '\0';
    self->step = self->history_count = 0;
    self->failed_rows = 0;
    memset(self->jobs, 0, sizeof(self->jobs));
    draw_config(self);
    sim_model_open(&self->model, self->config.kind, self->config.window, self->config.context);
    for (uint32_t i = 0; i < SIM_ADAPTER_MAX; i++) {
        (void)snprintf(self->adapter_paths[i], sizeof(self->adapter_paths[i]), "/tmp/incipit-sim-%ld-%u.gguf",
                       (long)getpid(), i);
        sim_adapter_write(self->adapter_paths[i], self->config.kind, i);
        self->is_loaded[i] = false;
    }
    sim_plain_open(&self->plain, self->model.model, self->adapter_paths);
    self->backend = fake_open(SIM_VOCABULARY);
    icp_error error = {""};
    icp_status status =
        icp_engine_open_on(&self->engine, self->model.model, self->backend, &self->config.options, &error);
    if (status != ICP_OK) return sim_wrong(self, "open: %s", error.text);
    if (self->config.adapter_every != 0) load_adapter(self, 0);
    return true;
}

static void world_close(sim *self)
{
    icp_engine_stats stats;
    icp_engine_stats_init(&stats);
    if (icp_engine_statistics(self->engine, &stats) == ICP_OK) {
        self->cached_count += stats.cached_tokens;
        self->preempted_count += stats.preempted_count;
        self->failed_count += stats.failed_step_count;
        self->computed_count += stats.computed_tokens;
    }
    icp_engine_close(self->engine);
    self->engine = NULL;
    sim_plain_close(&self->plain);
    sim_model_close(&self->model);
    for (uint32_t i = 0; i < SIM_ADAPTER_MAX; i++) (void)remove(self->adapter_paths[i]);
}

/* ---- A step --------------------------------------------------------------------------------------------------- */

static bool poll_all(sim *self, uint32_t *count)
{
    icp_output output;
    icp_output_init(&output);
    *count = 0;
    while (icp_engine_poll(self->engine, &output) == ICP_OK) {
        ++*count;
        if (!sim_job_output(self, &output)) return false;
    }
    return true;
}

static void poison_spare(sim *self)
{
    for (uint32_t g = 0; g < self->engine->shape->group_count; g++) {
        for (uint32_t block = 0; block < self->engine->capacity.block_count[g]; block++) {
            icp_block_info info;
            if (icp_block_inspect(self->engine->cache, g, block, &info) != ICP_OK) continue;
            if (info.state == ICP_BLOCK_SPARE) fake_poison(self->backend, g, block);
        }
    }
}

static void change_adapters(sim *self)
{
    uint32_t index = sim_draw(&self->random, SIM_ADAPTER_MAX);
    if (!self->is_loaded[index]) {
        load_adapter(self, index);
        return;
    }
    icp_status status = icp_engine_adapter_unload(self->engine, index == 0 ? "first" : "second");
    if (status == ICP_OK) self->is_loaded[index] = false;
    if (status != ICP_OK && status != ICP_FULL) sim_wrong(self, "unload: %s", icp_status_name(status));
}

static bool check_step(sim *self, const icp_step_info *info, bool is_failed, uint32_t output_count)
{
    icp_error error = {""};
    if (icp_cache_check(self->engine->cache, &error) != ICP_OK) return sim_wrong(self, "cache: %s", error.text);
    if (info->row_count > self->config.options.step_tokens)
        return sim_wrong(self, "%u rows in a step", info->row_count);
    if (info->row_count == 0 && output_count == 0) return sim_wrong(self, "nothing was done, and there was work");
    if (is_failed) self->failed_rows += info->row_count;
    icp_engine_stats stats;
    icp_engine_stats_init(&stats);
    if (icp_engine_statistics(self->engine, &stats) != ICP_OK) return sim_wrong(self, "statistics");
    if (stats.computed_tokens + self->failed_rows != fake_row_count(self->backend))
        return sim_wrong(self, "rows are counted wrongly");
    return true;
}

/* One step. is_busy: requests still arrive. */
static bool world_step(sim *self, bool is_busy)
{
    sim_random *random = &self->random;
    const sim_config *config = &self->config;
    uint32_t count = 0;
    if (is_busy && sim_chance(random, config->arrival_every)) {
        for (uint32_t i = 1 + sim_draw(random, 3); i > 0; i--) sim_job_arrive(self);
    }
    if (is_busy && config->adapter_every != 0 && sim_chance(random, config->adapter_every)) change_adapters(self);
    if (sim_chance(random, config->cancel_every)) sim_job_cancel_some(self, false);
    if (!poll_all(self, &count) || self->error[0] != '\0') return false;
    if (sim_job_live_count(self) == 0) return true;
    bool is_failing = sim_chance(random, config->fail_every);
    if (is_failing) fake_fail_next(self->backend);
    icp_step_info info;
    icp_step_info_init(&info);
    icp_status status = icp_engine_step(self->engine, &info);
    if (status != (is_failing && info.row_count != 0 ? ICP_CORRUPT : ICP_OK))
        return sim_wrong(self, "step: %s", icp_status_name(status));
    self->step++;
    self->step_count++;
    if (sim_chance(random, config->cancel_every)) sim_job_cancel_some(self, true);
    if (!poll_all(self, &count)) return false;
    if (!check_step(self, &info, status != ICP_OK, count)) return false;
    poison_spare(self);
    return true;
}

static bool world_drain(sim *self)
{
    for (uint32_t i = 0; sim_job_live_count(self) != 0; i++) {
        if (i == DRAIN_STEPS_MAX) return sim_wrong(self, "the last requests never end");
        if (!world_step(self, false)) return false;
    }
    icp_cache_stats stats;
    icp_cache_stats_init(&stats);
    if (icp_cache_statistics(self->engine->cache, &stats) != ICP_OK || stats.lease_count != 0)
        return sim_wrong(self, "leases are left over");
    icp_step_info info;
    icp_step_info_init(&info);
    if (icp_engine_step(self->engine, &info) != ICP_OK || !info.is_idle) return sim_wrong(self, "it is not idle");
    return true;
}

bool sim_run(sim *self, uint64_t seed, uint32_t step_count)
{
    bool is_right = world_open(self, seed);
    for (uint32_t i = 0; i < step_count && is_right; i++) is_right = world_step(self, true);
    if (is_right) is_right = world_drain(self);
    if (is_right) world_close(self);
    self->world_count++;
    return is_right;
}
