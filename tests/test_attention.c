/* test_attention.c - attention over block tables: right numbers, and the same bits however the work is cut.
 *
 * A world is a KV pool full of NaN bytes and some sequences with blocks at random places in it. Keys, values and
 * queries of all positions are known to the test, so any part of a sequence can be stored and computed in any chunks;
 * the naive version (double precision, no tiles, no blocks) reads the values as the KV type keeps them. */
#include "cpu_world.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BLOCKS_MAX 256u

typedef struct world_shape {
    icp_kv_type type;
    uint32_t block_tokens;
    uint32_t heads, kv_heads, dim;
    uint32_t window;
    float softcap;
    uint32_t sequence_count;
    uint32_t length; /* of each sequence */
} world_shape;

typedef struct attention_world {
    world_shape shape;
    float scale;
    uint32_t tables[CPU_SEQUENCES_MAX][BLOCKS_MAX];
    uint32_t block_count;
    float *q, *k, *v; /* [sequence][position][heads * dim] */
    float *expected;  /* as q: what the first way of computing gave */
} attention_world;

static const uint32_t GROUP = 1; /* of two: the other is there to be in the way */
static const uint32_t LAYER = 1;

static void world_open(attention_world *world, const world_shape *shape, cpu_random *random)
{
    memset(world, 0, sizeof(*world));
    world->shape = *shape;
    world->scale = 1.0f / sqrtf((float)shape->dim);
    uint32_t blocks = (shape->length + shape->block_tokens - 1) / shape->block_tokens;
    world->block_count = blocks * shape->sequence_count + 3;
    assert_true(blocks <= BLOCKS_MAX);

    uint32_t *order = calloc(world->block_count, sizeof(*order));
    for (uint32_t i = 0; i < world->block_count; i++) order[i] = i;
    for (uint32_t i = world->block_count - 1; i > 0; i--) {
        uint32_t j = cpu_random_below(random, i + 1);
        uint32_t kept = order[i];
        order[i] = order[j];
        order[j] = kept;
    }
    for (uint32_t s = 0; s < shape->sequence_count; s++)
        for (uint32_t b = 0; b < blocks; b++) world->tables[s][b] = order[s * blocks + b];
    free(order);

    size_t rows = (size_t)shape->sequence_count * shape->length;
    world->q = calloc(rows * shape->heads * shape->dim, sizeof(float));
    world->expected = calloc(rows * shape->heads * shape->dim, sizeof(float));
    world->k = calloc(rows * shape->kv_heads * shape->dim, sizeof(float));
    world->v = calloc(rows * shape->kv_heads * shape->dim, sizeof(float));
    cpu_random_fill(random, world->q, rows * shape->heads * shape->dim);
    cpu_random_fill(random, world->k, rows * shape->kv_heads * shape->dim);
    cpu_random_fill(random, world->v, rows * shape->kv_heads * shape->dim);
    /* some rows look at one place sharply, so that maxima grow late and weights vanish */
    for (size_t i = 0; i < rows * shape->heads; i += 7)
        for (uint32_t d = 0; d < shape->dim; d++) world->q[i * shape->dim + d] *= 6.0f;
}

static void world_close(attention_world *world)
{
    free(world->q);
    free(world->k);
    free(world->v);
    free(world->expected);
}

/* A backend whose KV is all NaN: whatever is read before it is written shows. */
static icp_backend *backend_open(const attention_world *world, uint32_t threads, const char *kernels)
{
    const world_shape *shape = &world->shape;
    icp_backend *backend = kernels == NULL ? cpu_open(threads) : cpu_open_with(threads, kernels);
    icp_kv_options options = {.type = shape->type, .block_tokens = shape->block_tokens, .group_count = 2};
    options.groups[0] = (icp_kv_group){.block_count = 2, .layer_count = 1, .head_count = 1, .head_dim = 32};
    options.groups[GROUP] = (icp_kv_group){
        .block_count = world->block_count, .layer_count = 2, .head_count = shape->kv_heads, .head_dim = shape->dim};
    icp_error error = {""};
    if (backend->table->kv_open(backend, &options, &error) != ICP_OK) fail_msg("%s", error.text);
    assert_int_equal(backend->table->reserve(backend, CPU_ROWS_MAX, CPU_SEQUENCES_MAX), ICP_OK);

    size_t bytes = backend->table->kv_block_bytes(backend, &options, GROUP);
    void *block = malloc(bytes);
    memset(block, 0xff, bytes); /* a NaN as a half and as a float; the largest scale is a NaN too */
    for (uint32_t b = 0; b < world->block_count; b++) backend->table->kv_write(backend, GROUP, b, block);
    free(block);
    return backend;
}

/* Rows [first, first + count) of some sequences, in one batch: stored and attended; results as [sequence][position]. */
typedef struct chunk {
    uint32_t sequence, first, count;
} chunk;

static void compute(attention_world *world, icp_backend *backend, const chunk *chunks, uint32_t count, float *results)
{
    const world_shape *shape = &world->shape;
    static cpu_batch batch;
    cpu_batch_start(&batch);
    size_t q_width = (size_t)shape->heads * shape->dim;
    size_t kv_width = (size_t)shape->kv_heads * shape->dim;
    for (uint32_t i = 0; i < count; i++) {
        const uint32_t *tables[3] = {world->tables[chunks[i].sequence], world->tables[chunks[i].sequence], NULL};
        cpu_batch_add(&batch, chunks[i].first, chunks[i].count, tables);
    }
    uint32_t rows = batch.batch.row_count;
    const icp_backend_table *table = backend->table;
    float *q = table->floats_open(backend, rows * q_width);
    float *out = table->floats_open(backend, rows * q_width);
    float *k = table->floats_open(backend, rows * kv_width);
    float *v = table->floats_open(backend, rows * kv_width);
    size_t row = 0;
    for (uint32_t i = 0; i < count; row += chunks[i++].count) {
        size_t from = (size_t)chunks[i].sequence * shape->length + chunks[i].first;
        table->floats_write(backend, q + row * q_width, world->q + from * q_width, chunks[i].count * q_width);
        table->floats_write(backend, k + row * kv_width, world->k + from * kv_width, chunks[i].count * kv_width);
        table->floats_write(backend, v + row * kv_width, world->v + from * kv_width, chunks[i].count * kv_width);
    }
    table->begin(backend, &batch.batch);
    table->store(backend, &(icp_store){.group = GROUP, .layer = LAYER, .k = k, .v = v});
    table->attend(backend, &(icp_attend){.group = GROUP,
                                         .layer = LAYER,
                                         .q = q,
                                         .out = out,
                                         .head_count = shape->heads,
                                         .window = shape->window,
                                         .scale = world->scale,
                                         .softcap = shape->softcap});
    assert_int_equal(table->end(backend), ICP_OK);
    row = 0;
    for (uint32_t i = 0; i < count; row += chunks[i++].count) {
        size_t to = (size_t)chunks[i].sequence * shape->length + chunks[i].first;
        memcpy(results + to * q_width, table->floats_view(backend, out, rows * q_width) + row * q_width,
               chunks[i].count * q_width * sizeof(float));
    }
    table->floats_close(backend, q);
    table->floats_close(backend, out);
    table->floats_close(backend, k);
    table->floats_close(backend, v);
}

/* All sequences from the start, in chunks of sizes that random gives (0 to max at a time each). */
static void compute_all(attention_world *world, icp_backend *backend, cpu_random *random, uint32_t max, float *results)
{
    const world_shape *shape = &world->shape;
    uint32_t done[CPU_SEQUENCES_MAX] = {0};
    for (;;) {
        chunk chunks[CPU_SEQUENCES_MAX];
        uint32_t count = 0;
        bool is_done = true;
        for (uint32_t s = 0; s < shape->sequence_count; s++) {
            uint32_t left = shape->length - done[s];
            uint32_t rows = random == NULL ? max : cpu_random_below(random, max + 1);
            if (rows > left) rows = left;
            is_done &= left == 0;
            if (rows == 0) continue;
            chunks[count++] = (chunk){s, done[s], rows};
            done[s] += rows;
        }
        if (is_done) return;
        if (count != 0) compute(world, backend, chunks, count, results);
    }
}

static size_t result_count(const attention_world *world)
{
    return (size_t)world->shape.sequence_count * world->shape.length * world->shape.heads * world->shape.dim;
}

static void assert_same_bits(const attention_world *world, const float *results, const char *what)
{
    size_t count = result_count(world);
    if (memcmp(world->expected, results, count * sizeof(float)) == 0) return;
    size_t at = 0;
    while (memcmp(world->expected + at, results + at, sizeof(float)) == 0) at++;
    size_t row = at / world->shape.dim / world->shape.heads;
    fail_msg("%s: other bits at sequence %zu, position %zu, head %zu, value %zu: %.9g, %.9g; heads %u/%u x %u type %d",
             what, row / world->shape.length, row % world->shape.length, at / world->shape.dim % world->shape.heads,
             at % world->shape.dim, (double)world->expected[at], (double)results[at], world->shape.heads,
             world->shape.kv_heads, world->shape.dim, world->shape.type);
}

/* ---- The naive version ---------------------------------------------------------------------------------- */

static double naive_score(const attention_world *world, const float *q, const float *k)
{
    double sum = 0;
    for (uint32_t d = 0; d < world->shape.dim; d++) sum += (double)q[d] * (double)k[d];
    sum *= (double)world->scale;
    double cap = (double)world->shape.softcap;
    return cap == 0 ? sum : cap * tanh(sum / cap);
}

static void naive_head(const attention_world *world, uint32_t sequence, uint32_t position, uint32_t head, double *out)
{
    const world_shape *shape = &world->shape;
    uint32_t kv_head = head / (shape->heads / shape->kv_heads);
    size_t base = (size_t)sequence * shape->length;
    const float *q = world->q + ((base + position) * shape->heads + head) * shape->dim;
    uint32_t first = shape->window == 0 || position < shape->window ? 0 : position - shape->window + 1;
    double top = -INFINITY;
    for (uint32_t p = first; p <= position; p++) {
        double score = naive_score(world, q, world->k + ((base + p) * shape->kv_heads + kv_head) * shape->dim);
        top = score > top ? score : top;
    }
    double sum = 0;
    for (uint32_t d = 0; d < shape->dim; d++) out[d] = 0;
    for (uint32_t p = first; p <= position; p++) {
        size_t at = ((base + p) * shape->kv_heads + kv_head) * shape->dim;
        double weight = exp(naive_score(world, q, world->k + at) - top);
        sum += weight;
        for (uint32_t d = 0; d < shape->dim; d++) out[d] += weight * (double)world->v[at + d];
    }
    for (uint32_t d = 0; d < shape->dim; d++) out[d] /= sum;
}

/* The largest difference over rows that random picks. */
static double naive_distance(const attention_world *world, cpu_random *random, uint32_t samples)
{
    const world_shape *shape = &world->shape;
    double worst = 0;
    double out[512];
    for (uint32_t i = 0; i < samples; i++) {
        uint32_t sequence = cpu_random_below(random, shape->sequence_count);
        uint32_t position = i < 2 ? i * (shape->length - 1) : cpu_random_below(random, shape->length);
        uint32_t head = cpu_random_below(random, shape->heads);
        naive_head(world, sequence, position, head, out);
        size_t row = (size_t)sequence * shape->length + position;
        const float *found = world->expected + (row * shape->heads + head) * shape->dim;
        for (uint32_t d = 0; d < shape->dim; d++) {
            double difference = fabs(out[d] - (double)found[d]);
            if (!(difference <= worst)) worst = difference; /* a NaN stays */
        }
    }
    return worst;
}

/* ---- Tests ---------------------------------------------------------------------------------------------- */

/* Values are about normal. Floats: rounding alone. Halves: 2^-11 of a key is turned into scores that are off by as much
 * as |q| |k| 2^-11 / sqrt(dim), with some rows' queries six times as large. Bytes: an error of 1/254 of the largest. */
static const double tolerances[ICP_KV_TYPE_COUNT] = {[ICP_KV_F16] = 2e-2, [ICP_KV_F32] = 2e-5, [ICP_KV_Q8_0] = 2e-1};

/* The whole of a world: naive numbers, then the same bits in every other way of computing it. */
static void try_world(const world_shape *shape, cpu_random *random)
{
    attention_world world;
    world_open(&world, shape, random);
    size_t bytes = result_count(&world) * sizeof(float);
    float *results = malloc(bytes);

    icp_backend *backend = backend_open(&world, 1, "plain");
    compute_all(&world, backend, NULL, shape->length, world.expected);
    double worst = naive_distance(&world, random, 12);
    if (!(worst <= tolerances[shape->type]))
        fail_msg("off by %g: heads %u/%u x %u, type %d, window %u", worst, shape->heads, shape->kv_heads, shape->dim,
                 shape->type, shape->window);
    backend->table->close(backend);

    static const uint32_t threads[] = {1, 2, 4};
    for (uint32_t t = 0; t < 3; t++) {
        backend = backend_open(&world, threads[t], NULL);
        memset(results, 0xff, bytes);
        compute_all(&world, backend, NULL, shape->length, results);
        assert_same_bits(&world, results, "in one chunk");
        backend->table->close(backend);

        backend = backend_open(&world, threads[t], NULL);
        memset(results, 0xff, bytes);
        compute_all(&world, backend, random, t == 0 ? 97 : 1 + shape->length / 2, results);
        assert_same_bits(&world, results, "in random chunks");
        backend->table->close(backend);
    }
    free(results);
    world_close(&world);
}

static void every_shape_gives_the_naive_numbers_and_the_same_bits_in_every_cut(void **state)
{
    (void)state;
    static const uint32_t dims[] = {8, 32, 64, 80, 96, 128, 256};
    cpu_random random = {cpu_seed()};
    for (uint32_t i = 0; i < 21; i++) {
        uint32_t share = 1 + i % 8;
        uint32_t kv_heads = 1 + cpu_random_below(&random, 2);
        world_shape shape = {.type = (icp_kv_type)(i % ICP_KV_TYPE_COUNT),
                             .block_tokens = 16u << cpu_random_below(&random, 3),
                             .heads = kv_heads * share,
                             .kv_heads = kv_heads,
                             .dim = dims[i % 7],
                             .window = i % 4 == 1 ? 1 + cpu_random_below(&random, 200) : 0,
                             .softcap = i % 5 == 2 ? 30.0f : 0.0f,
                             .sequence_count = 1 + cpu_random_below(&random, 3),
                             .length = 40 + cpu_random_below(&random, 90)};
        try_world(&shape, &random);
    }
}

static void long_sequences_are_cut_into_segments_with_the_same_bits(void **state)
{
    (void)state;
    cpu_random random = {cpu_seed() + 1};
    for (uint32_t i = 0; i < 3; i++) {
        world_shape shape = {.type = (icp_kv_type)i,
                             .block_tokens = 16,
                             .heads = 3,
                             .kv_heads = 1,
                             .dim = 32,
                             .window = i == 1 ? 700 : 0,
                             .sequence_count = 1,
                             .length = 1100};
        try_world(&shape, &random);
    }
}

/* Sequence 1 begins with the blocks that sequence 0 fills in the same batch, as two requests with one prompt do. */
static void a_sequence_reads_blocks_that_another_fills_in_the_same_batch(void **state)
{
    (void)state;
    cpu_random random = {cpu_seed() + 2};
    world_shape shape = {.type = ICP_KV_F16,
                         .block_tokens = 16,
                         .heads = 4,
                         .kv_heads = 2,
                         .dim = 64,
                         .sequence_count = 2,
                         .length = 100};
    attention_world world;
    world_open(&world, &shape, &random);
    const uint32_t shared = 48;
    for (uint32_t b = 0; b < shared / 16; b++) world.tables[1][b] = world.tables[0][b];
    size_t row = (size_t)shape.kv_heads * shape.dim;
    memcpy(world.k + shape.length * row, world.k, shared * row * sizeof(float));
    memcpy(world.v + shape.length * row, world.v, shared * row * sizeof(float));

    icp_backend *backend = backend_open(&world, 1, "plain");
    compute_all(&world, backend, NULL, shape.length, world.expected);
    backend->table->close(backend);

    float *results = calloc(result_count(&world), sizeof(float));
    memcpy(results, world.expected, result_count(&world) * sizeof(float));
    backend = backend_open(&world, 2, NULL);
    chunk chunks[2] = {{0, 0, shape.length}, {1, shared, shape.length - shared}};
    compute(&world, backend, chunks, 2, results);
    assert_same_bits(&world, results, "with shared blocks");
    backend->table->close(backend);
    free(results);
    world_close(&world);
}

/* Too large for a half: stored as the largest half, not as an infinity, so that nothing becomes NaN. */
static void values_beyond_a_half_saturate(void **state)
{
    (void)state;
    cpu_random random = {cpu_seed() + 3};
    world_shape shape = {.type = ICP_KV_F16,
                         .block_tokens = 16,
                         .heads = 1,
                         .kv_heads = 1,
                         .dim = 32,
                         .sequence_count = 1,
                         .length = 20};
    attention_world world;
    world_open(&world, &shape, &random);
    for (uint32_t d = 0; d < shape.dim; d++) world.v[5 * shape.dim + d] = d % 2 == 0 ? 1e6f : -65519.0f;
    for (uint32_t p = 0; p < shape.length; p++) /* every row from 5 on looks at position 5 alone */
        for (uint32_t d = 0; d < shape.dim; d++) world.q[p * shape.dim + d] = 10.0f * world.k[5 * shape.dim + d];
    icp_backend *backend = backend_open(&world, 1, NULL);
    compute_all(&world, backend, NULL, shape.length, world.expected);
    for (uint32_t d = 0; d < shape.dim; d++) {
        float found = world.expected[(size_t)10 * shape.dim + d];
        assert_true(fabsf(found - (d % 2 == 0 ? 65504.0f : -65504.0f)) < 1.0f);
    }
    backend->table->close(backend);
    world_close(&world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_shape_gives_the_naive_numbers_and_the_same_bits_in_every_cut),
        cmocka_unit_test(long_sequences_are_cut_into_segments_with_the_same_bits),
        cmocka_unit_test(a_sequence_reads_blocks_that_another_fills_in_the_same_batch),
        cmocka_unit_test(values_beyond_a_half_saturate),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
