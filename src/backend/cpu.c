/* cpu.c - the CPU backend: what it is made of, and when.
 *
 * All memory comes from opens: weights and floats each in a map of their own, KV in one map for each group, scratch in
 * rooms that grow when a weight is opened or a reserve says how large a batch can be. A step takes none. Since the
 * operations below cannot fail, end always says OK.
 *
 * Owner thread only; the pool's threads run inside operations. */
#include "backend/cpu.h"

#include "base/arena.h"
#include "base/assert.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Memory --------------------------------------------------------------------------------------------- */

void *icp_cpu_link_open(icp_cpu_link *ring, size_t bytes)
{
    icp_cpu_link *link = icp_memory_map(bytes);
    if (link == NULL) return NULL;
    *link = (icp_cpu_link){.next = ring, .previous = ring->previous, .bytes = bytes};
    ring->previous->next = link;
    ring->previous = link;
    return link;
}

void icp_cpu_link_close(icp_cpu_link *link)
{
    link->next->previous = link->previous;
    link->previous->next = link->next;
    icp_memory_unmap(link, link->bytes);
}

bool icp_cpu_room_grow(icp_cpu_room *room, size_t bytes)
{
    if (bytes <= room->bytes) return true;
    uint8_t *memory = icp_memory_map(bytes);
    if (memory == NULL) return false;
    icp_memory_unmap(room->memory, room->bytes);
    *room = (icp_cpu_room){memory, bytes};
    return true;
}

void icp_cpu_run(icp_cpu *cpu, icp_pool_fn *fn, void *context, uint32_t item_count, size_t value_count)
{
    if (value_count >= ICP_CPU_REGION_VALUES) {
        icp_pool_run(cpu->pool, fn, context, item_count);
        return;
    }
    for (uint32_t i = 0; i < item_count; i++) fn(context, i, 0);
}

/* The floats of a caller lie one line behind their link. */
#define FLOATS_OFFSET 64u
_Static_assert(sizeof(icp_cpu_link) <= FLOATS_OFFSET, "a link fits in front of floats");

static float *cpu_floats_open(icp_backend *backend, size_t count)
{
    icp_cpu *cpu = icp_cpu_of(backend);
    if (count > (SIZE_MAX - FLOATS_OFFSET) / sizeof(float)) return NULL;
    uint8_t *memory = icp_cpu_link_open(&cpu->floats, FLOATS_OFFSET + count * sizeof(float));
    return memory == NULL ? NULL : (float *)(void *)(memory + FLOATS_OFFSET);
}

static void cpu_floats_close(icp_backend *backend, float *floats)
{
    (void)backend;
    if (floats != NULL) icp_cpu_link_close((icp_cpu_link *)(void *)((uint8_t *)floats - FLOATS_OFFSET));
}

static void cpu_floats_write(icp_backend *backend, float *floats, const float *host, size_t count)
{
    (void)backend;
    if (count != 0) memcpy(floats, host, count * sizeof(*floats));
}

static const float *cpu_floats_view(icp_backend *backend, const float *floats, size_t count)
{
    (void)backend;
    (void)count;
    return floats;
}

/* ---- Ropes ---------------------------------------------------------------------------------------------- */

static bool rope_reserve(icp_rope *rope, uint32_t row_count_max)
{
    if (row_count_max <= rope->turn_row_max) return true;
    float *turns = malloc((size_t)row_count_max * rope->frequency_count * 2 * sizeof(*turns));
    if (turns == NULL) return false;
    free(rope->turns);
    rope->turns = turns;
    rope->turn_row_max = row_count_max;
    return true;
}

static void cpu_rope_close(icp_backend *backend, icp_rope *rope)
{
    (void)backend;
    if (rope == NULL) return;
    free(rope->turns);
    icp_cpu_link_close(&rope->link);
}

static icp_status cpu_rope_open(icp_backend *backend, icp_rope_kind kind, const float *frequencies,
                                uint32_t frequency_count, icp_rope **out)
{
    icp_cpu *cpu = icp_cpu_of(backend);
    if (frequency_count == 0) return ICP_BAD_ARGUMENT;
    icp_rope *rope = icp_cpu_link_open(&cpu->ropes, sizeof(*rope) + frequency_count * sizeof(float));
    if (rope == NULL) return ICP_NO_MEMORY;
    rope->kind = kind;
    rope->frequency_count = frequency_count;
    rope->frequencies = (float *)(void *)(rope + 1);
    memcpy(rope->frequencies, frequencies, frequency_count * sizeof(float));
    if (!rope_reserve(rope, cpu->row_count_max)) {
        cpu_rope_close(backend, rope);
        return ICP_NO_MEMORY;
    }
    *out = rope;
    return ICP_OK;
}

typedef struct turn_work {
    const icp_batch *batch;
    icp_rope *rope;
} turn_work;

/* In double precision: an angle of 100,000 radians has only 7 bits behind the point as a float. */
static void turn_row(void *context, uint32_t row, uint32_t worker)
{
    (void)worker;
    turn_work *work = context;
    uint32_t count = work->rope->frequency_count;
    float *turns = work->rope->turns + (size_t)row * count * 2;
    for (uint32_t i = 0; i < count; i++) {
        double angle = (double)work->batch->positions[row] * (double)work->rope->frequencies[i];
        turns[2 * i] = (float)cos(angle);
        turns[2 * i + 1] = (float)sin(angle);
    }
}

/* ---- KV ------------------------------------------------------------------------------------------------- */

static void say(icp_error *error, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void say(icp_error *error, const char *format, ...)
{
    if (error == NULL) return;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(error->text, sizeof(error->text), format, arguments);
    va_end(arguments);
}

static size_t cpu_kv_block_bytes(const icp_backend *backend, const icp_kv_options *options, uint32_t group)
{
    (void)backend;
    icp_kv_memory memory;
    return icp_kv_plan(&memory, options, group) ? memory.block_bytes : 0;
}

static void kv_close(icp_cpu *cpu)
{
    for (uint32_t g = 0; g < cpu->group_count; g++) icp_memory_unmap(cpu->kv[g].blocks, cpu->kv[g].bytes);
    cpu->group_count = 0;
    icp_attention_close(cpu->attention);
    cpu->attention = NULL;
}

static icp_status kv_open_group(icp_cpu *cpu, const icp_kv_options *options, uint32_t group, icp_error *error)
{
    icp_kv_memory *memory = &cpu->kv[group];
    const icp_kv_group *shape = &options->groups[group];
    if (!icp_kv_plan(memory, options, group)) {
        say(error, "KV group %u is not possible: blocks of %u tokens (a multiple of %u is needed), heads of %u values",
            group, options->block_tokens, ICP_KV_RUN, shape->head_dim);
        return ICP_BAD_ARGUMENT;
    }
    memory->blocks = memory->bytes == 0 ? NULL : icp_memory_map(memory->bytes);
    if (memory->blocks == NULL && memory->bytes != 0) {
        say(error, "no memory for %zu MiB of KV", memory->bytes >> 20);
        return ICP_NO_MEMORY;
    }
    cpu->group_count = group + 1;
    return ICP_OK;
}

static icp_status cpu_kv_open(icp_backend *backend, const icp_kv_options *options, icp_error *error)
{
    icp_cpu *cpu = icp_cpu_of(backend);
    ICP_ASSERT(cpu->group_count == 0);
    if (options->group_count == 0 || options->group_count > ICP_GROUP_COUNT_MAX) {
        say(error, "%u groups of KV: 1 to %u are possible", options->group_count, ICP_GROUP_COUNT_MAX);
        return ICP_BAD_ARGUMENT;
    }
    icp_status status = ICP_OK;
    uint32_t width_max = 0;
    for (uint32_t g = 0; g < options->group_count && status == ICP_OK; g++) {
        status = kv_open_group(cpu, options, g, error);
        if (status == ICP_OK && cpu->kv[g].width > width_max) width_max = cpu->kv[g].width;
    }
    if (status != ICP_OK) goto fail;

    cpu->attention = icp_attention_open(cpu->thread_count, width_max);
    if (cpu->attention == NULL || !icp_attention_reserve(cpu->attention, cpu->sequence_count_max)) {
        say(error, "no memory for the scratch of attention");
        status = ICP_NO_MEMORY;
        goto fail;
    }
    return ICP_OK;

fail:
    kv_close(cpu);
    return status;
}

static uint8_t *block_at(icp_backend *backend, uint32_t group, uint32_t block)
{
    icp_cpu *cpu = icp_cpu_of(backend);
    ICP_ASSERT(group < cpu->group_count && block < cpu->kv[group].shape.block_count);
    return cpu->kv[group].blocks + block * cpu->kv[group].block_bytes;
}

static void cpu_kv_copy(icp_backend *backend, uint32_t group, const icp_copy *copy)
{
    if (copy->positions == 0 || copy->from == copy->to) return;
    uint8_t *to = block_at(backend, group, copy->to);
    memcpy(to, block_at(backend, group, copy->from), icp_cpu_of(backend)->kv[group].block_bytes);
}

static void cpu_kv_read(icp_backend *backend, uint32_t group, uint32_t block, void *bytes)
{
    memcpy(bytes, block_at(backend, group, block), icp_cpu_of(backend)->kv[group].block_bytes);
}

static void cpu_kv_write(icp_backend *backend, uint32_t group, uint32_t block, const void *bytes)
{
    memcpy(block_at(backend, group, block), bytes, icp_cpu_of(backend)->kv[group].block_bytes);
}

/* ---- A step --------------------------------------------------------------------------------------------- */

static icp_status cpu_reserve(icp_backend *backend, uint32_t row_count_max, uint32_t sequence_count_max)
{
    icp_cpu *cpu = icp_cpu_of(backend);
    if (row_count_max > cpu->row_count_max) cpu->row_count_max = row_count_max;
    if (sequence_count_max > cpu->sequence_count_max) cpu->sequence_count_max = sequence_count_max;
    if (!icp_cpu_linear_reserve(cpu)) return ICP_NO_MEMORY;
    if (cpu->attention != NULL && !icp_attention_reserve(cpu->attention, cpu->sequence_count_max)) return ICP_NO_MEMORY;
    for (icp_cpu_link *link = cpu->ropes.next; link != &cpu->ropes; link = link->next)
        if (!rope_reserve((icp_rope *)(void *)link, cpu->row_count_max)) return ICP_NO_MEMORY;
    return ICP_OK;
}

/* A sine takes some 20 ns: as much as 16 values of a plain loop. */
#define TURN_VALUES 16u

static void cpu_begin(icp_backend *backend, const icp_batch *batch)
{
    icp_cpu *cpu = icp_cpu_of(backend);
    ICP_ASSERT(cpu->batch == NULL);
    ICP_ASSERT(batch->row_count <= cpu->row_count_max && batch->sequence_count <= cpu->sequence_count_max);
    cpu->batch = batch;
    for (icp_cpu_link *link = cpu->ropes.next; link != &cpu->ropes; link = link->next) {
        turn_work work = {batch, (icp_rope *)(void *)link};
        size_t values = (size_t)batch->row_count * work.rope->frequency_count * TURN_VALUES;
        icp_cpu_run(cpu, turn_row, &work, batch->row_count, values);
    }
}

static icp_status cpu_end(icp_backend *backend)
{
    icp_cpu *cpu = icp_cpu_of(backend);
    ICP_ASSERT(cpu->batch != NULL);
    cpu->batch = NULL;
    return ICP_OK;
}

/* ---- The backend ---------------------------------------------------------------------------------------- */

static const char *cpu_describe(const icp_backend *backend)
{
    return ((const icp_cpu *)(const void *)backend)->description;
}

static void cpu_close(icp_backend *backend)
{
    if (backend == NULL) return;
    icp_cpu *cpu = icp_cpu_of(backend);
    while (cpu->weights.next != &cpu->weights) icp_cpu_weight_close(backend, (icp_weight *)(void *)cpu->weights.next);
    while (cpu->ropes.next != &cpu->ropes) cpu_rope_close(backend, (icp_rope *)(void *)cpu->ropes.next);
    while (cpu->floats.next != &cpu->floats) icp_cpu_link_close(cpu->floats.next);
    kv_close(cpu);
    for (uint32_t kind = 0; kind < ICP_ROWS_KIND_COUNT; kind++)
        icp_memory_unmap(cpu->rows[kind].memory, cpu->rows[kind].bytes);
    icp_memory_unmap(cpu->multiply_scratch.memory, cpu->multiply_scratch.bytes);
    icp_pool_close(cpu->pool);
    free(cpu);
}

static const icp_backend_table table = {
    .name = "cpu",
    .close = cpu_close,
    .describe = cpu_describe,
    .weight_open = icp_cpu_weight_open,
    .weight_close = icp_cpu_weight_close,
    .weight_bytes = icp_cpu_weight_bytes,
    .rope_open = cpu_rope_open,
    .rope_close = cpu_rope_close,
    .floats_open = cpu_floats_open,
    .floats_close = cpu_floats_close,
    .floats_write = cpu_floats_write,
    .floats_view = cpu_floats_view,
    .kv_block_bytes = cpu_kv_block_bytes,
    .kv_open = cpu_kv_open,
    .kv_copy = cpu_kv_copy,
    .kv_read = cpu_kv_read,
    .kv_write = cpu_kv_write,
    .reserve = cpu_reserve,
    .begin = cpu_begin,
    .embed = icp_cpu_embed,
    .norm = icp_cpu_norm,
    .linear = icp_cpu_linear,
    .rotate = icp_cpu_rotate,
    .store = icp_cpu_store,
    .attend = icp_cpu_attend,
    .gate = icp_cpu_gate,
    .add = icp_cpu_add,
    .gather = icp_cpu_gather,
    .cap = icp_cpu_cap,
    .end = cpu_end,
};

#if defined(__aarch64__)
#define MACHINE "aarch64"
#elif defined(__x86_64__)
#define MACHINE "x86-64"
#else
#define MACHINE "this machine:"
#endif

icp_status icp_cpu_open(icp_backend **out, uint32_t thread_count, icp_error *error)
{
    icp_cpu *cpu = calloc(1, sizeof(*cpu));
    if (cpu == NULL) {
        say(error, "no memory for a backend");
        return ICP_NO_MEMORY;
    }
    cpu->backend.table = &table;
    cpu->weights = (icp_cpu_link){.next = &cpu->weights, .previous = &cpu->weights};
    cpu->ropes = (icp_cpu_link){.next = &cpu->ropes, .previous = &cpu->ropes};
    cpu->floats = (icp_cpu_link){.next = &cpu->floats, .previous = &cpu->floats};
    cpu->kernels = icp_kernels_choose();
    cpu->math = icp_math_choose();
    cpu->pool = icp_pool_open(thread_count);
    if (cpu->pool == NULL) {
        say(error, "no memory for %u threads", thread_count);
        cpu_close(&cpu->backend);
        return ICP_NO_MEMORY;
    }
    cpu->thread_count = icp_pool_thread_count(cpu->pool);
    snprintf(cpu->description, sizeof(cpu->description), "%s %s, %u thread%s", MACHINE, icp_kernels_name(cpu->kernels),
             cpu->thread_count, cpu->thread_count == 1 ? "" : "s");
    *out = &cpu->backend;
    return ICP_OK;
}
