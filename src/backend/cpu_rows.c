/* cpu_rows.c - operations that work on each row alone.
 *
 * An item is a row, or a head of a row. Nothing here is fused and every sum has 16 lanes, so that the compiler's vector
 * code, of any width, gives the same bits as scalar code. Exponentials come from math.h. */
#include "backend/cpu.h"

#include "base/assert.h"

#include <math.h>
#include <string.h>

/* ---- Embed and gather ----------------------------------------------------------------------------------- */

typedef struct embed_work {
    const icp_batch *batch;
    const icp_embed *embed;
} embed_work;

static void embed_row(void *context, uint32_t row, uint32_t worker)
{
    (void)worker;
    const embed_work *work = context;
    const icp_weight *table = work->embed->table;
    uint32_t token = work->batch->tokens[row];
    ICP_ASSERT(token < table->rows);
    float *out = work->embed->out + (size_t)row * table->columns;
    icp_weight_decode(table->type, table->table + token * table->table_row_bytes, out, table->columns);
    if (work->embed->scale == 1.0f) return;
    for (uint32_t i = 0; i < table->columns; i++) out[i] *= work->embed->scale;
}

void icp_cpu_embed(icp_backend *backend, const icp_embed *embed)
{
    icp_cpu *cpu = icp_cpu_of(backend);
    ICP_ASSERT(embed->table->table != NULL);
    embed_work work = {cpu->batch, embed};
    uint32_t count = cpu->batch->row_count;
    icp_cpu_run(cpu, embed_row, &work, count, (size_t)count * embed->table->columns);
}

void icp_cpu_gather(icp_backend *backend, const icp_gather *gather)
{
    const icp_batch *batch = icp_cpu_of(backend)->batch;
    size_t width = gather->width;
    for (uint32_t i = 0; i < batch->output_count; i++)
        memcpy(gather->out + i * width, gather->x + batch->output_rows[i] * width, width * sizeof(float));
}

/* ---- Norm ----------------------------------------------------------------------------------------------- */

/* Sum of squares: value i goes to lane i modulo 16. */
static float square_sum(const float *x, uint32_t count)
{
    float lanes[ICP_MATH_LANES] = {0};
    uint32_t whole = count / ICP_MATH_LANES * ICP_MATH_LANES;
    for (uint32_t at = 0; at < whole; at += ICP_MATH_LANES)
        for (uint32_t i = 0; i < ICP_MATH_LANES; i++) lanes[i] += x[at + i] * x[at + i];
    for (uint32_t i = whole; i < count; i++) lanes[i - whole] += x[i] * x[i];
    return icp_math_sum(lanes);
}

static void norm_row(void *context, uint32_t row, uint32_t worker)
{
    (void)worker;
    const icp_norm *norm = context;
    uint32_t width = norm->width;
    for (uint32_t h = 0; h < norm->head_count; h++) {
        size_t at = ((size_t)row * norm->head_count + h) * width;
        const float *x = norm->x + at;
        float *out = norm->out + at;
        float scale = 1.0f / sqrtf(square_sum(x, width) / (float)width + norm->epsilon);
        for (uint32_t i = 0; i < width; i++) out[i] = x[i] * scale * norm->weight[i];
    }
}

void icp_cpu_norm(icp_backend *backend, const icp_norm *norm)
{
    icp_norm work = *norm;
    size_t values = (size_t)norm->row_count * norm->head_count * norm->width;
    icp_cpu_run(icp_cpu_of(backend), norm_row, &work, norm->row_count, values);
}

/* ---- Rotate and store ----------------------------------------------------------------------------------- */

static void rotate_row(void *context, uint32_t row, uint32_t worker)
{
    (void)worker;
    const icp_rotate *rotate = context;
    uint32_t count = rotate->rope->frequency_count;
    const float *turns = rotate->rope->turns + (size_t)row * count * 2;
    uint32_t step = rotate->rope->kind == ICP_ROPE_PAIRS ? 2 : 1;
    uint32_t apart = rotate->rope->kind == ICP_ROPE_PAIRS ? 1 : count;
    for (uint32_t h = 0; h < rotate->head_count; h++) {
        float *x = rotate->x + ((size_t)row * rotate->head_count + h) * rotate->head_dim;
        for (uint32_t i = 0; i < count; i++) {
            float a = x[i * step];
            float b = x[i * step + apart];
            x[i * step] = a * turns[2 * i] - b * turns[2 * i + 1];
            x[i * step + apart] = a * turns[2 * i + 1] + b * turns[2 * i];
        }
    }
}

void icp_cpu_rotate(icp_backend *backend, const icp_rotate *rotate)
{
    icp_cpu *cpu = icp_cpu_of(backend);
    ICP_ASSERT(2 * rotate->rope->frequency_count <= rotate->head_dim);
    icp_rotate work = *rotate;
    uint32_t count = cpu->batch->row_count;
    icp_cpu_run(cpu, rotate_row, &work, count, (size_t)count * rotate->head_count * rotate->head_dim);
}

typedef struct store_work {
    const icp_store *store;
    const icp_kv_memory *memory;
    const icp_batch *batch;
} store_work;

static void store_rows(const store_work *work, const icp_batch_sequence *sequence, uint32_t first, uint32_t count)
{
    const icp_kv_memory *memory = work->memory;
    const uint32_t *table = sequence->tables[work->store->group];
    uint32_t dim = memory->shape.head_dim;
    uint32_t heads = memory->shape.head_count;
    size_t offset = (size_t)work->store->layer * heads * memory->head_bytes;
    for (uint32_t r = first; r < first + count; r++) {
        uint32_t position = sequence->position + r;
        uint32_t block = table[position / memory->block_tokens];
        ICP_ASSERT(block < memory->shape.block_count);
        uint8_t *head = memory->blocks + block * memory->block_bytes + offset;
        size_t at = ((size_t)sequence->row_start + r) * heads * dim;
        for (uint32_t h = 0; h < heads; h++, head += memory->head_bytes, at += dim)
            icp_kv_put(memory, head, position % memory->block_tokens, work->store->k + at, work->store->v + at);
    }
}

/* The run of 16 positions that a row is in, within its sequence, is one thread's: the rows of a run share lines. The
 * item is a row of the batch; the first row of a run stores all of them. */
static void store_run(void *context, uint32_t row, uint32_t worker)
{
    (void)worker;
    const store_work *work = context;
    const icp_batch *batch = work->batch;
    uint32_t low = 0;
    uint32_t high = batch->sequence_count; /* the last sequence that starts at or before row */
    while (high - low > 1) {
        uint32_t middle = low + (high - low) / 2;
        if (batch->sequences[middle].row_start <= row) {
            low = middle;
        } else {
            high = middle;
        }
    }
    const icp_batch_sequence *sequence = &batch->sequences[low];
    uint32_t first = row - sequence->row_start;
    uint32_t lane = (sequence->position + first) % ICP_KV_RUN;
    if (first != 0 && lane != 0) return;
    uint32_t left = sequence->row_count - first;
    store_rows(work, sequence, first, left < ICP_KV_RUN - lane ? left : ICP_KV_RUN - lane);
}

void icp_cpu_store(icp_backend *backend, const icp_store *store)
{
    icp_cpu *cpu = icp_cpu_of(backend);
    ICP_ASSERT(store->group < cpu->group_count && store->layer < cpu->kv[store->group].shape.layer_count);
    store_work work = {store, &cpu->kv[store->group], cpu->batch};
    uint32_t count = cpu->batch->row_count;
    size_t values = (size_t)count * work.memory->shape.head_count * work.memory->shape.head_dim * 2;
    icp_cpu_run(cpu, store_run, &work, count, values);
}

/* ---- Gate, add, cap ------------------------------------------------------------------------------------- */

typedef struct gate_work {
    const icp_gate *gate;
    const icp_math *math;
    uint32_t part_count; /* of a row */
} gate_work;

/* An exponential takes about as long as 4 values of a plain loop; so a single row of a large model is worth sharing. */
#define GATE_PART 2048u
#define GATE_VALUES 4u

static void gate_part(void *context, uint32_t item, uint32_t worker)
{
    (void)worker;
    const gate_work *work = context;
    uint32_t first = item % work->part_count * GATE_PART;
    uint32_t left = work->gate->width - first;
    size_t at = (size_t)(item / work->part_count) * work->gate->width + first;
    work->math->gate(work->gate->kind, work->gate->gate + at, work->gate->up + at, left < GATE_PART ? left : GATE_PART);
}

void icp_cpu_gate(icp_backend *backend, const icp_gate *gate)
{
    icp_cpu *cpu = icp_cpu_of(backend);
    gate_work work = {gate, cpu->math, (gate->width + GATE_PART - 1) / GATE_PART};
    size_t values = (size_t)gate->row_count * gate->width * GATE_VALUES;
    icp_cpu_run(cpu, gate_part, &work, gate->row_count * work.part_count, values);
}

static void add_row(void *context, uint32_t row, uint32_t worker)
{
    (void)worker;
    const icp_add *add = context;
    float *out = add->out + (size_t)row * add->width;
    const float *x = add->x + (size_t)row * add->width;
    for (uint32_t i = 0; i < add->width; i++) out[i] += x[i];
}

void icp_cpu_add(icp_backend *backend, const icp_add *add)
{
    icp_add work = *add;
    icp_cpu_run(icp_cpu_of(backend), add_row, &work, add->row_count, (size_t)add->row_count * add->width);
}

typedef struct cap_work {
    const icp_cap *cap;
    const icp_math *math;
} cap_work;

static void cap_row(void *context, uint32_t row, uint32_t worker)
{
    (void)worker;
    const cap_work *work = context;
    work->math->cap(work->cap->x + (size_t)row * work->cap->width, work->cap->width, work->cap->softcap);
}

void icp_cpu_cap(icp_backend *backend, const icp_cap *cap)
{
    icp_cpu *cpu = icp_cpu_of(backend);
    cap_work work = {cap, cpu->math};
    icp_cpu_run(cpu, cap_row, &work, cap->row_count, (size_t)cap->row_count * cap->width);
}
