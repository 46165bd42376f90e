/* fake_backend.c - see fake_backend.h. */
#include "fake_backend.h"

#include "base/assert.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

struct icp_weight {
    uint64_t id; /* of its content */
    uint32_t rows, columns;
};

struct icp_rope {
    uint64_t id;
};

typedef struct fake_pool {
    uint64_t *values; /* [block_count, layer_count, block_tokens] */
    uint32_t block_count, layer_count, kv_width;
} fake_pool;

struct fake_backend {
    icp_backend backend;
    uint32_t vocabulary;
    fake_pool pools[ICP_GROUP_COUNT_MAX];
    uint32_t block_tokens, group_count;
    const icp_batch *batch;
    uint32_t *row_sequences; /* [row_count_max] */
    bool is_failing, is_shallow;
    uint64_t scribble;
    uint64_t row_count;
    double seconds;
    struct timespec began;
};

static uint64_t mix(uint64_t a, uint64_t b)
{
    uint64_t x = (a ^ (b * 0x9e3779b97f4a7c15u)) + 0x632be59bd9b4e019u;
    x ^= x >> 29;
    x *= 0xbf58476d1ce4e5b9u;
    return x ^ x >> 32;
}

static uint64_t row_get(const float *rows, size_t index, size_t width)
{
    uint64_t digest;
    memcpy(&digest, rows + index * width, sizeof(digest));
    return digest;
}

static void row_put(float *rows, size_t index, size_t width, uint64_t digest)
{
    memcpy(rows + index * width, &digest, sizeof(digest));
}

static fake_backend *self_of(icp_backend *backend)
{
    return (fake_backend *)backend;
}

/* ---- Weights and rows ----------------------------------------------------------------------------------------- */

static void fake_close(icp_backend *backend)
{
    fake_backend *self = self_of(backend);
    for (uint32_t g = 0; g < self->group_count; g++) free(self->pools[g].values);
    free(self->row_sequences);
    free(self);
}

static const char *fake_describe(const icp_backend *backend)
{
    (void)backend;
    return "integers";
}

static icp_status fake_weight_open(icp_backend *backend, const icp_weight_source *source, icp_weight **out,
                                   icp_error *error)
{
    (void)backend, (void)error;
    icp_weight *weight = calloc(1, sizeof(*weight));
    if (weight == NULL) return ICP_NO_MEMORY;
    const uint8_t *bytes = source->data;
    size_t count = (size_t)source->rows * source->columns * sizeof(float);
    ICP_ASSERT(source->type == ICP_WEIGHT_F32);
    weight->id = mix(source->rows, source->columns);
    for (size_t i = 0; i < count; i++) weight->id = mix(weight->id, bytes[i]);
    weight->rows = source->rows;
    weight->columns = source->columns;
    *out = weight;
    return ICP_OK;
}

static void fake_weight_close(icp_backend *backend, icp_weight *weight)
{
    (void)backend;
    free(weight);
}

static size_t fake_weight_bytes(const icp_backend *backend, const icp_weight *weight)
{
    (void)backend;
    return (size_t)weight->rows * weight->columns * sizeof(float);
}

static icp_status fake_rope_open(icp_backend *backend, icp_rope_kind kind, const float *frequencies,
                                 uint32_t frequency_count, icp_rope **out)
{
    (void)backend;
    icp_rope *rope = calloc(1, sizeof(*rope));
    if (rope == NULL) return ICP_NO_MEMORY;
    rope->id = (uint64_t)kind;
    for (uint32_t i = 0; i < frequency_count; i++) rope->id = mix(rope->id, (uint64_t)(frequencies[i] * 1e6f));
    *out = rope;
    return ICP_OK;
}

static void fake_rope_close(icp_backend *backend, icp_rope *rope)
{
    (void)backend;
    free(rope);
}

static float *fake_floats_open(icp_backend *backend, size_t count)
{
    (void)backend;
    return calloc(count + 2, sizeof(float));
}

static void fake_floats_close(icp_backend *backend, float *floats)
{
    (void)backend;
    free(floats);
}

static void fake_floats_write(icp_backend *backend, float *floats, const float *host, size_t count)
{
    (void)backend;
    memcpy(floats, host, count * sizeof(float));
}

static const float *fake_floats_view(icp_backend *backend, const float *floats, size_t count)
{
    (void)backend, (void)count;
    return floats;
}

/* ---- KV ------------------------------------------------------------------------------------------------------- */

static uint64_t *slot(const fake_backend *self, uint32_t group, uint32_t block, uint32_t layer, uint32_t offset)
{
    const fake_pool *pool = &self->pools[group];
    ICP_ASSERT(block < pool->block_count && layer < pool->layer_count && offset < self->block_tokens);
    return pool->values + ((size_t)block * pool->layer_count + layer) * self->block_tokens + offset;
}

static size_t fake_kv_block_bytes(const icp_backend *backend, const icp_kv_options *options, uint32_t group)
{
    (void)backend, (void)options, (void)group;
    return 64; /* so that kv_bytes counts blocks, whatever is in them */
}

void fake_poison(icp_backend *backend, uint32_t group, uint32_t block)
{
    fake_backend *self = self_of(backend);
    for (uint32_t layer = 0; layer < self->pools[group].layer_count; layer++) {
        for (uint32_t i = 0; i < self->block_tokens; i++) *slot(self, group, block, layer, i) = self->scribble++;
    }
}

static icp_status fake_kv_open(icp_backend *backend, const icp_kv_options *options, icp_error *error)
{
    fake_backend *self = self_of(backend);
    (void)error;
    self->block_tokens = options->block_tokens;
    self->group_count = options->group_count;
    for (uint32_t g = 0; g < options->group_count; g++) {
        const icp_kv_group *group = &options->groups[g];
        fake_pool *pool = &self->pools[g];
        *pool = (fake_pool){.block_count = group->block_count,
                            .layer_count = group->layer_count,
                            .kv_width = group->head_count * group->head_dim};
        pool->values = calloc((size_t)group->block_count * group->layer_count * self->block_tokens, sizeof(uint64_t));
        if (pool->values == NULL) return ICP_NO_MEMORY;
        for (uint32_t block = 0; block < pool->block_count; block++) fake_poison(backend, g, block);
    }
    return ICP_OK;
}

static void fake_kv_copy(icp_backend *backend, uint32_t group, const icp_copy *copy)
{
    fake_backend *self = self_of(backend);
    ICP_ASSERT(copy->from != copy->to && self->batch == NULL);
    for (uint32_t layer = 0; layer < self->pools[group].layer_count; layer++) {
        for (uint32_t i = 0; i < self->block_tokens; i++) {
            uint64_t value = i < copy->positions ? *slot(self, group, copy->from, layer, i) : self->scribble++;
            *slot(self, group, copy->to, layer, i) = value;
        }
    }
}

static size_t block_bytes(const fake_backend *self, uint32_t group)
{
    return (size_t)self->pools[group].layer_count * self->block_tokens * sizeof(uint64_t);
}

static void fake_kv_read(icp_backend *backend, uint32_t group, uint32_t block, void *bytes)
{
    memcpy(bytes, slot(self_of(backend), group, block, 0, 0), block_bytes(self_of(backend), group));
}

static void fake_kv_write(icp_backend *backend, uint32_t group, uint32_t block, const void *bytes)
{
    memcpy(slot(self_of(backend), group, block, 0, 0), bytes, block_bytes(self_of(backend), group));
}

/* ---- A step --------------------------------------------------------------------------------------------------- */

static icp_status fake_reserve(icp_backend *backend, uint32_t row_count_max, uint32_t sequence_count_max)
{
    (void)sequence_count_max;
    fake_backend *self = self_of(backend);
    self->row_sequences = calloc(row_count_max, sizeof(uint32_t));
    return self->row_sequences == NULL ? ICP_NO_MEMORY : ICP_OK;
}

static void fake_begin(icp_backend *backend, const icp_batch *batch)
{
    fake_backend *self = self_of(backend);
    (void)clock_gettime(CLOCK_MONOTONIC, &self->began);
    self->batch = batch;
    self->row_count += batch->row_count;
    uint32_t row = 0;
    for (uint32_t s = 0; s < batch->sequence_count; s++) {
        ICP_ASSERT(batch->sequences[s].row_start == row && batch->sequences[s].row_count != 0);
        for (uint32_t i = 0; i < batch->sequences[s].row_count; i++, row++) {
            ICP_ASSERT(batch->positions[row] == batch->sequences[s].position + i);
            self->row_sequences[row] = s;
        }
    }
    ICP_ASSERT(row == batch->row_count);
}

static void fake_embed(icp_backend *backend, const icp_embed *embed)
{
    const icp_batch *batch = self_of(backend)->batch;
    for (uint32_t r = 0; r < batch->row_count; r++) {
        row_put(embed->out, r, embed->table->columns, mix(embed->table->id, batch->tokens[r]));
    }
}

static void fake_norm(icp_backend *backend, const icp_norm *norm)
{
    (void)backend;
    size_t width = (size_t)norm->head_count * norm->width;
    for (uint32_t r = 0; r < norm->row_count; r++) row_put(norm->out, r, width, mix(row_get(norm->x, r, width), 1));
}

static void put_logits(float *out, uint32_t count, uint64_t digest)
{
    for (uint32_t i = 0; i < count; i++) {
        digest = digest * 6364136223846793005u + 1442695040888963407u;
        out[i] = (float)(digest >> 40) * (8.0f / 16777216.0f);
    }
}

static void fake_linear(icp_backend *backend, const icp_linear *linear)
{
    const fake_backend *self = self_of(backend);
    for (uint32_t i = 0; i < linear->output_count; i++) {
        const icp_linear_output *to = &linear->outputs[i];
        for (uint32_t r = 0; r < linear->row_count; r++) {
            uint64_t digest = mix(row_get(linear->x, r, to->weight->columns), to->weight->id);
            if (to->weight->rows == self->vocabulary) {
                put_logits(to->out + (size_t)r * self->vocabulary, self->vocabulary, digest);
                continue;
            }
            if (to->is_added) digest = mix(row_get(to->out, r, to->weight->rows), digest);
            row_put(to->out, r, to->weight->rows, digest);
        }
    }
}

static void fake_rotate(icp_backend *backend, const icp_rotate *rotate)
{
    const icp_batch *batch = self_of(backend)->batch;
    size_t width = (size_t)rotate->head_count * rotate->head_dim;
    for (uint32_t r = 0; r < batch->row_count; r++) {
        uint64_t turned = mix(row_get(rotate->x, r, width), rotate->rope->id + batch->positions[r]);
        row_put(rotate->x, r, width, turned);
    }
}

/* Where the KV of a position of a row's sequence lies. */
static uint64_t *kv_at(const fake_backend *self, uint32_t row, const uint32_t place[2], uint32_t position)
{
    const icp_batch_sequence *sequence = &self->batch->sequences[self->row_sequences[row]];
    uint32_t block = sequence->tables[place[0]][position / self->block_tokens];
    return slot(self, place[0], block, place[1], position % self->block_tokens);
}

static void fake_store(icp_backend *backend, const icp_store *store)
{
    const fake_backend *self = self_of(backend);
    uint32_t width = self->pools[store->group].kv_width;
    const uint32_t place[2] = {store->group, store->layer};
    for (uint32_t r = 0; r < self->batch->row_count; r++) {
        uint64_t value = mix(row_get(store->k, r, width), row_get(store->v, r, width));
        *kv_at(self, r, place, self->batch->positions[r]) = value;
    }
}

static void fake_attend(icp_backend *backend, const icp_attend *attend)
{
    const fake_backend *self = self_of(backend);
    const uint32_t place[2] = {attend->group, attend->layer};
    size_t width = (size_t)attend->head_count * 2;
    for (uint32_t r = 0; r < self->batch->row_count; r++) {
        uint64_t digest = row_get(attend->q, r, width);
        uint32_t end = self->batch->positions[r] + 1;
        uint32_t start = attend->window != 0 && end > attend->window ? end - attend->window : 0;
        if (self->is_shallow) start = end;
        for (uint32_t p = start; p < end; p++) digest = mix(digest, *kv_at(self, r, place, p));
        row_put(attend->out, r, width, digest);
    }
}

static void fake_gate(icp_backend *backend, const icp_gate *gate)
{
    (void)backend;
    for (uint32_t r = 0; r < gate->row_count; r++) {
        uint64_t digest = mix(row_get(gate->gate, r, gate->width), row_get(gate->up, r, gate->width));
        row_put(gate->gate, r, gate->width, digest);
    }
}

static void fake_add(icp_backend *backend, const icp_add *add)
{
    (void)backend;
    for (uint32_t r = 0; r < add->row_count; r++) {
        row_put(add->out, r, add->width, mix(row_get(add->out, r, add->width), row_get(add->x, r, add->width)));
    }
}

static void fake_gather(icp_backend *backend, const icp_gather *gather)
{
    const icp_batch *batch = self_of(backend)->batch;
    for (uint32_t i = 0; i < batch->output_count; i++) {
        row_put(gather->out, i, gather->width, row_get(gather->x, batch->output_rows[i], gather->width));
    }
}

static void fake_cap(icp_backend *backend, const icp_cap *cap)
{
    (void)backend, (void)cap;
}

static void scribble_over(fake_backend *self)
{
    for (uint32_t g = 0; g < self->group_count; g++) {
        for (uint32_t layer = 0; layer < self->pools[g].layer_count; layer++) {
            const uint32_t place[2] = {g, layer};
            for (uint32_t r = 0; r < self->batch->row_count; r++) {
                *kv_at(self, r, place, self->batch->positions[r]) = self->scribble++;
            }
        }
    }
}

static icp_status fake_end(icp_backend *backend)
{
    fake_backend *self = self_of(backend);
    bool is_failing = self->is_failing;
    if (is_failing) scribble_over(self);
    self->is_failing = false;
    self->batch = NULL;
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    self->seconds += (double)(now.tv_sec - self->began.tv_sec) + 1e-9 * (double)(now.tv_nsec - self->began.tv_nsec);
    return is_failing ? ICP_CORRUPT : ICP_OK;
}

/* ---- The table ------------------------------------------------------------------------------------------------ */

static const icp_backend_table table = {
    .name = "fake",
    .close = fake_close,
    .describe = fake_describe,
    .weight_open = fake_weight_open,
    .weight_close = fake_weight_close,
    .weight_bytes = fake_weight_bytes,
    .rope_open = fake_rope_open,
    .rope_close = fake_rope_close,
    .floats_open = fake_floats_open,
    .floats_close = fake_floats_close,
    .floats_write = fake_floats_write,
    .floats_view = fake_floats_view,
    .kv_block_bytes = fake_kv_block_bytes,
    .kv_open = fake_kv_open,
    .kv_copy = fake_kv_copy,
    .kv_read = fake_kv_read,
    .kv_write = fake_kv_write,
    .reserve = fake_reserve,
    .begin = fake_begin,
    .embed = fake_embed,
    .norm = fake_norm,
    .linear = fake_linear,
    .rotate = fake_rotate,
    .store = fake_store,
    .attend = fake_attend,
    .gate = fake_gate,
    .add = fake_add,
    .gather = fake_gather,
    .cap = fake_cap,
    .end = fake_end,
};

icp_backend *fake_open(uint32_t vocabulary)
{
    fake_backend *self = calloc(1, sizeof(*self));
    if (self == NULL) return NULL;
    self->backend.table = &table;
    self->vocabulary = vocabulary;
    self->scribble = 0xdeadbeef00000000u;
    return &self->backend;
}

void fake_fail_next(icp_backend *backend)
{
    self_of(backend)->is_failing = true;
}

void fake_set_shallow(icp_backend *backend, bool is_shallow)
{
    self_of(backend)->is_shallow = is_shallow;
}

uint64_t fake_row_count(const icp_backend *backend)
{
    return ((const fake_backend *)backend)->row_count;
}

double fake_seconds(const icp_backend *backend)
{
    return ((const fake_backend *)backend)->seconds;
}
