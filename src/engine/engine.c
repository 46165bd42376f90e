/* engine.c - an engine is opened, steps, and is closed. Read icp_engine_step first: it is the path of every token.
 *
 * Sizes are decided at open and all arrays are made there; a step takes no memory. One owner thread. */
#include "engine/engine.h"

#include "base/arena.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#define SEQUENCE_COUNT_MAX 65536u
#define QUEUE_COUNT_MAX (1u << 20)
#define STEP_TOKENS_MAX 65536u
#define SCOPE_COUNT_MAX (1u << 20)
#define ADAPTER_COUNT_MAX 4096u

icp_status icp_fail(icp_error *error, icp_status status, const char *format, ...)
{
    if (error == NULL) return status;
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(error->text, sizeof(error->text), format, arguments);
    va_end(arguments);
    return status;
}

/* ---- The step ------------------------------------------------------------------------------------------------- */

static void step_tell(const icp_engine *engine, icp_step_info *info)
{
    const icp_plan *plan = &engine->plan;
    icp_step_info all = {.row_count = plan->row_count,
                         .prefill_count = plan->prefill_count,
                         .sequence_count = plan->sequence_count,
                         .running_count = engine->running_count,
                         .waiting_count = engine->heap_count + engine->branching_count,
                         .preempted_count = plan->preempted_count};
    all.is_idle = all.running_count + all.waiting_count == 0;
    size_t bytes = info->struct_size < sizeof(all) ? info->struct_size : sizeof(all);
    all.struct_size = info->struct_size;
    memcpy(info, &all, bytes);
}

icp_status icp_engine_step(icp_engine *engine, icp_step_info *info)
{
    if (engine == NULL || (info != NULL && info->struct_size < sizeof(size_t))) return ICP_BAD_ARGUMENT;
    if (engine->output_first != NULL) return ICP_FULL;
    icp_job_reap(engine);
    icp_status status = icp_cache_tick(engine->cache, ++engine->stats.step_count);
    ICP_ASSERT(status == ICP_OK);

    icp_scheduler_plan(engine); /* match -> leases; extend -> blocks; chunks */
    if (engine->plan.row_count != 0) {
        icp_batch_fill(engine); /* flat arrays */
        status = icp_transformer_forward(engine->transformer, &engine->batch, engine->batch_adapters, &engine->logits);
        if (status == ICP_OK) {
            icp_commit_sample(engine); /* logits -> tokens */
            icp_commit(engine);        /* append, stop rules, release */
        } else {
            icp_scheduler_undo(engine);
        }
    }
    if (info != NULL) step_tell(engine, info);
    return status;
}

/* ---- Open ----------------------------------------------------------------------------------------------------- */

static void set_default(uint32_t *option, uint32_t value)
{
    if (*option == 0) *option = value;
}

static icp_status options_read(icp_engine *engine, const icp_engine_options *options, icp_error *error)
{
    icp_engine_options *own = &engine->options;
    icp_engine_options_init(own);
    if (options != NULL) {
        if (options->struct_size < sizeof(size_t)) return icp_fail(error, ICP_BAD_ARGUMENT, "struct_size was not set");
        memcpy(own, options, options->struct_size < sizeof(*own) ? options->struct_size : sizeof(*own));
    }
    set_default(&own->block_tokens, 16);
    set_default(&own->sequence_count_max, 64);
    set_default(&own->step_tokens, own->sequence_count_max > 512 ? own->sequence_count_max : 512);
    set_default(&own->queue_count_max, 1024);
    set_default(&own->tail_tokens_min, 1);
    set_default(&own->scope_count_max, 256);
    set_default(&own->adapter_count_max, 16);
    const struct {
        const char *name;
        uint32_t value, max;
    } limits[] = {
        {"kv_format", (uint32_t)own->kv_format, ICP_KV_FORMAT_Q8_0},
        {"block_tokens", own->block_tokens, ICP_BLOCK_TOKENS_MAX},
        {"step_tokens", own->step_tokens, STEP_TOKENS_MAX},
        {"sequence_count_max", own->sequence_count_max, SEQUENCE_COUNT_MAX},
        {"queue_count_max", own->queue_count_max, QUEUE_COUNT_MAX},
        {"context_tokens_max", own->context_tokens_max, engine->model->shape.context_max},
        {"scope_count_max", own->scope_count_max, SCOPE_COUNT_MAX},
        {"adapter_count_max", own->adapter_count_max, ADAPTER_COUNT_MAX},
    };
    for (size_t i = 0; i < sizeof(limits) / sizeof(limits[0]); i++) {
        if (limits[i].value > limits[i].max)
            return icp_fail(error, ICP_BAD_ARGUMENT, "%s is %u, and may be %u at most", limits[i].name, limits[i].value,
                            limits[i].max);
    }
    return ICP_OK;
}

static icp_status open_transformer(icp_engine *engine, icp_error *error)
{
    const icp_engine_options *options = &engine->options;
    icp_transformer_options wanted = {.gguf = engine->model->gguf,
                                      .backend = engine->backend,
                                      .row_count_max = options->step_tokens,
                                      .sequence_count_max = options->sequence_count_max,
                                      .output_count_max = options->sequence_count_max,
                                      .progress = options->progress,
                                      .progress_context = options->progress_context};
    return icp_transformer_open(&engine->transformer, &wanted, error);
}

static icp_status open_kv(icp_engine *engine, icp_error *error)
{
    static const icp_kv_type types[] = {
        [ICP_KV_FORMAT_F16] = ICP_KV_F16, [ICP_KV_FORMAT_F32] = ICP_KV_F32, [ICP_KV_FORMAT_Q8_0] = ICP_KV_Q8_0};
    const icp_backend_table *on = engine->backend->table;
    const icp_shape *shape = engine->shape;
    icp_kv_options options = {.type = types[engine->options.kv_format],
                              .block_tokens = engine->options.block_tokens,
                              .group_count = shape->group_count};
    uint64_t block_bytes[2] = {0, 0};
    for (uint32_t g = 0; g < shape->group_count; g++) {
        const icp_shape_group *group = &shape->groups[g];
        options.groups[g] = (icp_kv_group){.block_count = 1,
                                           .layer_count = group->layer_count,
                                           .head_count = group->kv_head_count,
                                           .head_dim = group->head_dim};
    }
    for (uint32_t g = 0; g < shape->group_count; g++) {
        block_bytes[g] = on->kv_block_bytes(engine->backend, &options, g);
        if (block_bytes[g] == 0) return on->kv_open(engine->backend, &options, error); /* which says what is wrong */
    }
    icp_status status = icp_capacity_decide(&engine->capacity, engine, block_bytes, icp_capacity_free_bytes(), error);
    if (status != ICP_OK) return status;
    for (uint32_t g = 0; g < shape->group_count; g++) options.groups[g].block_count = engine->capacity.block_count[g];
    return on->kv_open(engine->backend, &options, error);
}

static icp_status open_cache(icp_engine *engine, icp_error *error)
{
    const icp_engine_options *from = &engine->options;
    const icp_shape *shape = engine->shape;
    icp_group groups[2];
    for (uint32_t g = 0; g < shape->group_count; g++) {
        groups[g] = (icp_group){.kind = shape->groups[g].kind,
                                .window = shape->groups[g].window,
                                .block_count = engine->capacity.block_count[g]};
    }
    icp_cache_options options;
    icp_cache_options_init(&options);
    options.block_count = engine->capacity.block_count[0];
    options.block_tokens = from->block_tokens;
    options.groups = groups;
    options.group_count = shape->group_count;
    options.policy = from->policy;
    options.tail_tokens_min = from->tail_tokens_min;
    options.lease_count_max = from->sequence_count_max + 1;
    options.lease_tokens_max = engine->capacity.context_tokens + from->block_tokens;
    options.scope_count_max = from->scope_count_max + 1;
    options.seed = from->seed;
    options.event = from->cache_event;
    options.event_context = from->cache_event_context;
    return icp_cache_open(&engine->cache, &options, error);
}

static void carve(icp_engine *engine, icp_arena *arena)
{
    const icp_engine_options *options = &engine->options;
    uint32_t rows = options->step_tokens;
    uint32_t sequences = options->sequence_count_max;
    uint32_t places = engine->heap_count_max;
    engine->heap = icp_arena_take(arena, places, sizeof(*engine->heap));
    engine->jobs = icp_arena_take(arena, places, sizeof(*engine->jobs));
    engine->generations = icp_arena_take(arena, places, sizeof(*engine->generations));
    engine->free_jobs = icp_arena_take(arena, places, sizeof(*engine->free_jobs));
    engine->scopes = icp_arena_take(arena, options->scope_count_max, sizeof(*engine->scopes));
    engine->adapters = icp_arena_take(arena, options->adapter_count_max, sizeof(*engine->adapters));
    engine->plan.sequences = icp_arena_take(arena, sequences, sizeof(*engine->plan.sequences));
    engine->batch_tokens = icp_arena_take(arena, rows, sizeof(*engine->batch_tokens));
    engine->batch_positions = icp_arena_take(arena, rows, sizeof(*engine->batch_positions));
    engine->batch_outputs = icp_arena_take(arena, sequences, sizeof(*engine->batch_outputs));
    engine->batch_sequences = icp_arena_take(arena, sequences, sizeof(*engine->batch_sequences));
    engine->batch_adapters = icp_arena_take(arena, sequences, sizeof(*engine->batch_adapters));
}

static icp_status open_arrays(icp_engine *engine, icp_error *error)
{
    engine->heap_count_max = engine->options.queue_count_max + engine->options.sequence_count_max;
    icp_arena arena = {.base = NULL};
    carve(engine, &arena);
    engine->memory_bytes = arena.used;
    engine->memory = icp_memory_map(arena.used);
    if (engine->memory == NULL)
        return icp_fail(error, ICP_NO_MEMORY, "%zu bytes for queues could not be had", engine->memory_bytes);
    arena = (icp_arena){.base = engine->memory};
    carve(engine, &arena);
    for (uint32_t i = 0; i < engine->heap_count_max; i++) engine->free_jobs[i] = engine->heap_count_max - 1 - i;
    engine->free_job_count = engine->heap_count_max;
    for (uint32_t i = 0; i < engine->options.scope_count_max; i++) engine->scopes[i].adapter = UINT32_MAX;
    return ICP_OK;
}

static void find_end_tokens(icp_engine *engine)
{
    for (uint32_t id = 0; id < engine->shape->vocabulary; id++) {
        if (!icp_tokenizer_is_end_of_generation(engine->model->tokenizer, id)) continue;
        if (engine->end_token_count < ICP_END_TOKEN_COUNT_MAX) engine->end_tokens[engine->end_token_count++] = id;
    }
}

icp_status icp_engine_open_on(icp_engine **out, const icp_model *model, icp_backend *backend,
                              const icp_engine_options *options, icp_error *error)
{
    icp_engine *engine = calloc(1, sizeof(*engine));
    if (engine == NULL) {
        backend->table->close(backend);
        return icp_fail(error, ICP_NO_MEMORY, "there is no memory for an engine");
    }
    engine->model = model;
    engine->backend = backend;
    engine->shape = &model->shape;
    icp_status status = options_read(engine, options, error);
    if (status == ICP_OK) status = open_transformer(engine, error);
    if (status == ICP_OK) status = open_kv(engine, error);
    if (status == ICP_OK) status = open_cache(engine, error);
    if (status == ICP_OK) status = open_arrays(engine, error);
    if (status == ICP_OK) status = icp_sampler_open(&engine->sampler, engine->shape->vocabulary);
    if (status != ICP_OK) {
        icp_engine_close(engine);
        return status;
    }
    find_end_tokens(engine);
    *out = engine;
    return ICP_OK;
}

icp_status icp_engine_open(icp_engine **out, const icp_model *model, const icp_engine_options *options,
                           icp_error *error)
{
    if (out == NULL || model == NULL) return icp_fail(error, ICP_BAD_ARGUMENT, "an argument is NULL");
    icp_backend *backend;
    size_t known = offsetof(icp_engine_options, thread_count) + sizeof(options->thread_count);
    uint32_t thread_count = options == NULL || options->struct_size < known ? 0 : options->thread_count;
    icp_status status = icp_cpu_open(&backend, thread_count, error);
    if (status != ICP_OK) return status;
    return icp_engine_open_on(out, model, backend, options, error);
}

void icp_engine_close(icp_engine *engine)
{
    if (engine == NULL) return;
    for (uint32_t i = 0; engine->memory != NULL && i < engine->heap_count_max; i++) free(engine->jobs[i]);
    icp_engine_adapters_close(engine);
    icp_sampler_close(engine->sampler);
    icp_cache_close(engine->cache);
    icp_transformer_close(engine->transformer);
    engine->backend->table->close(engine->backend);
    if (engine->memory != NULL) icp_memory_unmap(engine->memory, engine->memory_bytes);
    free(engine);
}

/* ---- Looking in ----------------------------------------------------------------------------------------------- */

icp_status icp_engine_statistics(const icp_engine *engine, icp_engine_stats *stats)
{
    if (engine == NULL || stats == NULL || stats->struct_size < sizeof(size_t)) return ICP_BAD_ARGUMENT;
    icp_engine_stats all = engine->stats;
    all.running_count = engine->running_count;
    all.waiting_count = engine->heap_count + engine->branching_count;
    all.context_tokens_max = engine->capacity.context_tokens;
    all.block_tokens = engine->options.block_tokens;
    for (uint32_t g = 0; g < 2; g++) all.block_count[g] = engine->capacity.block_count[g];
    all.kv_bytes = engine->capacity.kv_bytes;
    all.row_bytes = icp_transformer_row_bytes(engine->transformer);
    all.weight_bytes = icp_transformer_bytes(engine->transformer) - all.row_bytes;
    all.device = engine->backend->table->describe(engine->backend);
    all.struct_size = stats->struct_size;
    memcpy(stats, &all, stats->struct_size < sizeof(all) ? stats->struct_size : sizeof(all));
    return ICP_OK;
}

icp_cache *icp_engine_cache(icp_engine *engine)
{
    return engine == NULL ? NULL : engine->cache;
}

const float *icp_engine_logits(const icp_engine *engine, icp_job job, uint32_t branch)
{
    const icp_job_record *record = engine == NULL ? NULL : icp_job_find(engine, job);
    if (record == NULL || branch >= record->branch_count) return NULL;
    const icp_sequence *sequence = &record->sequences[branch];
    if (sequence->logit_step != engine->stats.step_count) return NULL;
    return engine->logits + (size_t)sequence->logit_row * engine->shape->vocabulary;
}
