/* test_cpu.c - the operations of the CPU backend, each against a naive version in double precision.
 *
 * Tolerances are relative to the size of what goes in, and said at each test. Attention is in test_attention.c, matrix
 * products themselves in test_matrix.c. */
#include "backend/math.h"
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

static void assert_near(double found, double expected, double tolerance, const char *what, size_t at)
{
    if (!(fabs(found - expected) <= tolerance))
        fail_msg("%s, value %zu: %.9g where %.9g was to be (within %.3g)", what, at, found, expected, tolerance);
}

/* Float memory of the backend with random numbers. */
static float *random_floats(icp_backend *backend, cpu_random *random, size_t count, float scale)
{
    float *host = calloc(count, sizeof(*host));
    cpu_random_fill(random, host, count);
    for (size_t i = 0; i < count; i++) host[i] *= scale;
    float *floats = backend->table->floats_open(backend, count);
    assert_non_null(floats);
    backend->table->floats_write(backend, floats, host, count);
    free(host);
    return floats;
}

static float *copy_of(icp_backend *backend, const float *floats, size_t count)
{
    float *host = calloc(count, sizeof(*host));
    memcpy(host, backend->table->floats_view(backend, floats, count), count * sizeof(*host));
    return host;
}

/* A batch of one sequence that starts at a position. */
static void begin_rows(icp_backend *backend, cpu_batch *batch, uint32_t position, uint32_t row_count)
{
    const uint32_t *no_tables[1] = {NULL};
    cpu_batch_start(batch);
    cpu_batch_add(batch, position, row_count, no_tables);
    backend->table->begin(backend, &batch->batch);
}

static cpu_batch batch; /* too large for a stack */

/* ---- Exponentials --------------------------------------------------------------------------------------- */

static void exponentials_are_within_two_units_in_the_last_place(void **state)
{
    (void)state;
    double worst = 0;
    for (uint32_t bits = 0; bits < 0x42b00001u; bits += 9973) { /* to 88 */
        float x[2];
        memcpy(&x[0], &bits, sizeof(bits));
        x[1] = -x[0] < -87.0f ? -1.0f : -x[0];
        float y[2] = {x[0], x[1]};
        icp_math_plain.exponentials(y, 2);
        for (int i = 0; i < 2; i++) {
            double error = fabs((double)y[i] / exp((double)x[i]) - 1);
            worst = error > worst ? error : worst;
        }
    }
    printf("exp: relative error at most %.3g\n", worst);
    assert_true(worst < 2.4e-7);
    float edges[5] = {-INFINITY, -87.5f, 0.0f, 1e30f, -1e30f};
    icp_math_plain.exponentials(edges, 5);
    assert_true(edges[0] == 0.0f && edges[1] == 0.0f && edges[2] == 1.0f && edges[4] == 0.0f);
    assert_true(isfinite(edges[3]) && edges[3] > 1e38f);
}

/* Numbers of many sizes, with the special ones among them. */
static void fill_widely(cpu_random *random, float *out, size_t count)
{
    for (size_t i = 0; i < count; i++)
        out[i] = cpu_random_float(random) * ldexpf(1.0f, (int)cpu_random_below(random, 16) - 8);
    out[0] = 0.0f;
    out[1] = -0.0f;
    out[2] = 1e30f;
    out[3] = -1e30f;
}

static void try_softmax(const icp_math *math, cpu_random *random)
{
    enum { ROWS = 3 };
    float scores[2][ROWS * 64], max[2][ROWS], sums[2][ROWS * 16], factors[2][ROWS];
    fill_widely(random, scores[0], ROWS * 64);
    scores[0][2] = scores[0][3] = 9.0f;
    memcpy(scores[1], scores[0], sizeof(scores[0]));
    for (uint32_t i = 0; i < ROWS; i++)
        max[0][i] = max[1][i] = cpu_random_below(random, 2) == 0 ? -INFINITY : cpu_random_float(random);
    cpu_random_fill(random, sums[0], ROWS * 16);
    memcpy(sums[1], sums[0], sizeof(sums[0]));
    uint32_t begin = cpu_random_below(random, 2) == 0 ? 0 : cpu_random_below(random, 64);
    uint32_t end = cpu_random_below(random, 2) == 0 ? 64 : begin + 1 + cpu_random_below(random, 64 - begin);
    float softcap = cpu_random_below(random, 3) == 0 ? 20.0f : 0.0f;
    for (int i = 0; i < 2; i++) {
        icp_softmax softmax = {.scores = scores[i],
                               .stride = 64,
                               .row_count = ROWS,
                               .begin = begin,
                               .end = end,
                               .softcap = softcap,
                               .max = max[i],
                               .sums = sums[i],
                               .factors = factors[i]};
        (i == 0 ? math : &icp_math_plain)->softmax(&softmax);
    }
    assert_memory_equal(factors[0], factors[1], sizeof(factors[0]));
    assert_memory_equal(scores[0], scores[1], sizeof(scores[0]));
    assert_memory_equal(sums[0], sums[1], sizeof(sums[0]));
    for (uint32_t r = 0; r < ROWS; r++) {
        assert_true(max[0][r] == max[1][r]);
        for (uint32_t i = begin / 16 * 16; i < (end + 15) / 16 * 16; i++)
            if (i < begin || i >= end) assert_true(scores[0][r * 64 + i] == 0.0f);
    }
}

static void try_product(const icp_math *math, cpu_random *random)
{
    enum { ROWS = 9, DEPTH = 37, SLABS = 3 };
    float a[ROWS * DEPTH], b[SLABS * DEPTH * 16], c[2][ROWS * 64], factors[ROWS];
    cpu_random_fill(random, a, ROWS * DEPTH);
    cpu_random_fill(random, b, SLABS * DEPTH * 16);
    cpu_random_fill(random, c[0], ROWS * 64);
    memcpy(c[1], c[0], sizeof(c[0]));
    cpu_random_fill(random, factors, ROWS);
    uint32_t rows = 1 + cpu_random_below(random, ROWS);
    uint32_t slabs = 1 + cpu_random_below(random, SLABS);
    uint32_t depth = 1 + cpu_random_below(random, DEPTH);
    icp_product product = {.a = a,
                           .a_stride = DEPTH,
                           .b = b,
                           .c_stride = 64,
                           .row_count = rows,
                           .slab_count = slabs,
                           .depth = depth,
                           .b_slab = DEPTH * 16,
                           .is_sum = cpu_random_below(random, 2) == 0,
                           .factors = cpu_random_below(random, 2) == 0 ? NULL : factors};
    product.c = c[0];
    math->product(&product);
    product.c = c[1];
    icp_math_plain.product(&product);
    assert_memory_equal(c[0], c[1], sizeof(c[0]));

    /* runs of halves: what it gives with the same numbers as floats, one run behind the other */
    static uint16_t halves[4][SLABS * 16 * 16];
    static float floats[SLABS * 64 * 16];
    const uint16_t *const runs[4] = {halves[2], halves[0], halves[3], halves[1]};
    for (uint32_t i = 0; i < sizeof(halves) / 2; i++)
        (&halves[0][0])[i] = (uint16_t)(cpu_random_bits(random) & 0xbbff);
    if (product.is_sum) {
        product.b_first = cpu_random_below(random, 16);
        for (uint32_t i = 0; i < 4 * SLABS; i++)
            icp_math_plain.floats_of_halves(floats + (i / 4 * 64 + i % 4 * 16) * 16, runs[i % 4] + i / 4 * 256, 256);
    } else {
        for (uint32_t i = 0; i < SLABS; i++) icp_math_plain.floats_of_halves(floats + i * 1024, runs[i], DEPTH * 16);
    }
    memcpy(c[0], c[1], sizeof(c[0]));
    product.b_slab = 1024;
    product.b = floats + product.b_first * 16;
    icp_math_plain.product(&product);
    product.b = NULL;
    product.b_runs = runs;
    product.b_ahead = cpu_random_below(random, 2) == 0 ? runs : NULL;
    product.c = c[0];
    math->product(&product);
    assert_memory_equal(c[0], c[1], sizeof(c[0]));
}

static void every_set_of_inner_loops_gives_the_bits_of_the_plain_one(void **state)
{
    (void)state;
    cpu_random random = {cpu_seed()};
    uint32_t count = 0;
    for (const icp_math *math; (math = icp_math_at(count)) != NULL; count++) {
        printf("%s\n", math->name);
        for (uint32_t i = 0; i < 300; i++) {
            try_softmax(math, &random);
            try_product(math, &random);
        }
        for (uint32_t i = 0; i < 60; i++) {
            float x[4][61];
            fill_widely(&random, x[0], 61);
            fill_widely(&random, x[1], 61);
            memcpy(x[2], x[0], sizeof(x[0]));
            icp_gate_kind kind = i % 2 == 0 ? ICP_GATE_SILU : ICP_GATE_GELU;
            uint32_t values = 4 + i % 58;
            math->gate(kind, x[0], x[1], values);
            icp_math_plain.gate(kind, x[2], x[1], values);
            assert_memory_equal(x[0], x[2], values * sizeof(float));
            math->cap(x[0], values, 30.0f);
            icp_math_plain.cap(x[2], values, 30.0f);
            assert_memory_equal(x[0], x[2], values * sizeof(float));
            fill_widely(&random, x[0], 61);
            memcpy(x[2], x[0], sizeof(x[0]));
            math->exponentials(x[0], values);
            icp_math_plain.exponentials(x[2], values);
            assert_memory_equal(x[0], x[2], values * sizeof(float));
        }
        static uint16_t halves[65536];
        static float floats[2][65536];
        for (uint32_t i = 0; i < 65536; i++) halves[i] = (uint16_t)i;
        math->floats_of_halves(floats[0], halves, 65536);
        icp_math_plain.floats_of_halves(floats[1], halves, 65536);
        assert_memory_equal(floats[0], floats[1], sizeof(floats[0]));
        int8_t bytes[16];
        float scales[16];
        for (int i = 0; i < 16; i++) bytes[i] = (int8_t)(i * 17 - 128);
        cpu_random_fill(&random, scales, 16);
        math->floats_of_bytes(floats[0], bytes, scales);
        icp_math_plain.floats_of_bytes(floats[1], bytes, scales);
        assert_memory_equal(floats[0], floats[1], 16 * sizeof(float));
    }
    assert_true(count >= 1);
}

/* ---- Operations on rows --------------------------------------------------------------------------------- */

static void norm_divides_by_the_root_mean_square(void **state)
{
    (void)state;
    cpu_random random = {cpu_seed()};
    icp_backend *backend = cpu_open(2);
    static const uint32_t shapes[][3] = {{1, 1, 2048}, {40, 1, 576}, {7, 3, 80}, {5, 2, 13}}; /* rows, heads, width */
    for (uint32_t s = 0; s < 4; s++) {
        uint32_t rows = shapes[s][0], heads = shapes[s][1], width = shapes[s][2];
        size_t count = (size_t)rows * heads * width;
        float *x = random_floats(backend, &random, count, 3.0f);
        float *weight = random_floats(backend, &random, width, 1.0f);
        float *before = copy_of(backend, x, count);
        icp_norm norm = {x, weight, x, rows, heads, width, 1e-5f};
        backend->table->norm(backend, &norm);
        for (size_t i = 0; i < count; i++) {
            const float *part = before + i / width * width;
            double sum = 0;
            for (uint32_t j = 0; j < width; j++) sum += (double)part[j] * (double)part[j];
            double expected = (double)before[i] / sqrt(sum / width + 1e-5) * (double)weight[i % width];
            assert_near((double)x[i], expected, 1e-6 * (1 + fabs(expected)), "norm", i);
        }
        free(before);
    }
    backend->table->close(backend);
}

static void rotate_turns_pairs_or_halves_by_the_position(void **state)
{
    (void)state;
    enum { ROWS = 70, HEADS = 4, DIM = 20, COUNT = 8 }; /* the last 4 values of a head are not turned */
    cpu_random random = {cpu_seed()};
    icp_backend *backend = cpu_open(2);
    assert_int_equal(backend->table->reserve(backend, ROWS, 1), ICP_OK);
    float frequencies[COUNT];
    for (int i = 0; i < COUNT; i++) frequencies[i] = powf(10000.0f, -(float)i / COUNT);
    for (int kind = ICP_ROPE_PAIRS; kind <= ICP_ROPE_HALVES; kind++) {
        icp_rope *rope = NULL;
        assert_int_equal(backend->table->rope_open(backend, (icp_rope_kind)kind, frequencies, COUNT, &rope), ICP_OK);
        float *x = random_floats(backend, &random, ROWS * HEADS * DIM, 1.0f);
        float *before = copy_of(backend, x, ROWS * HEADS * DIM);
        begin_rows(backend, &batch, 100000, ROWS);
        backend->table->rotate(backend, &(icp_rotate){rope, x, HEADS, DIM});
        assert_int_equal(backend->table->end(backend), ICP_OK);
        for (uint32_t i = 0; i < ROWS * HEADS; i++) {
            for (uint32_t f = 0; f < COUNT; f++) {
                uint32_t a = i * DIM + (kind == ICP_ROPE_PAIRS ? 2 * f : f);
                uint32_t b = kind == ICP_ROPE_PAIRS ? a + 1 : a + COUNT;
                double angle = (100000.0 + i / HEADS) * (double)frequencies[f];
                double x0 = (double)before[a], x1 = (double)before[b];
                assert_near((double)x[a], x0 * cos(angle) - x1 * sin(angle), 1e-6, "rotate", a);
                assert_near((double)x[b], x0 * sin(angle) + x1 * cos(angle), 1e-6, "rotate", b);
            }
            assert_memory_equal(x + i * DIM + 2 * COUNT, before + i * DIM + 2 * COUNT, 4 * sizeof(float));
        }
        free(before);
        backend->table->rope_close(backend, rope);
    }
    backend->table->close(backend);
}

static void gate_multiplies_by_silu_or_gelu(void **state)
{
    (void)state;
    enum { ROWS = 5, WIDTH = 4003 };
    cpu_random random = {cpu_seed()};
    icp_backend *backend = cpu_open(2);
    for (int kind = ICP_GATE_SILU; kind <= ICP_GATE_GELU; kind++) {
        float *gate = random_floats(backend, &random, ROWS * WIDTH, 4.0f);
        float *up = random_floats(backend, &random, ROWS * WIDTH, 1.0f);
        float *before = copy_of(backend, gate, ROWS * WIDTH);
        backend->table->gate(backend, &(icp_gate){(icp_gate_kind)kind, gate, up, ROWS, WIDTH});
        for (size_t i = 0; i < ROWS * WIDTH; i++) {
            double x = (double)before[i];
            double silu = x / (1 + exp(-x));
            double gelu = 0.5 * x * (1 + tanh(0.7978845608028654 * (x + 0.044715 * x * x * x)));
            double expected = (kind == ICP_GATE_SILU ? silu : gelu) * (double)up[i];
            /* of |x| up / 10^6: where gelu's exponential is large its relative error is that of the exponent */
            assert_near((double)gate[i], expected, 1e-6 * (1 + fabs(x)) * (1 + fabs((double)up[i])), "gate", i);
        }
        free(before);
    }
    backend->table->close(backend);
}

static void add_cap_and_gather_do_what_they_say(void **state)
{
    (void)state;
    enum { ROWS = 9, WIDTH = 3001 };
    cpu_random random = {cpu_seed()};
    icp_backend *backend = cpu_open(2);
    assert_int_equal(backend->table->reserve(backend, ROWS, 1), ICP_OK);
    float *x = random_floats(backend, &random, ROWS * WIDTH, 40.0f);
    float *out = random_floats(backend, &random, ROWS * WIDTH, 1.0f);
    float *before = copy_of(backend, out, ROWS * WIDTH);
    backend->table->add(backend, &(icp_add){out, x, ROWS, WIDTH});
    for (size_t i = 0; i < ROWS * WIDTH; i++) assert_true(out[i] == before[i] + x[i]);

    free(before);
    before = copy_of(backend, x, ROWS * WIDTH);
    backend->table->cap(backend, &(icp_cap){x, ROWS, WIDTH, 30.0f});
    for (size_t i = 0; i < ROWS * WIDTH; i++)
        assert_near((double)x[i], 30 * tanh((double)before[i] / 30), 30 * 2e-7, "cap", i);

    batch.output_rows[0] = 2;
    batch.output_rows[1] = 8;
    begin_rows(backend, &batch, 0, ROWS);
    batch.batch.output_count = 2;
    backend->table->gather(backend, &(icp_gather){x, out, WIDTH});
    assert_memory_equal(out, x + 2 * WIDTH, WIDTH * sizeof(float));
    assert_memory_equal(out + WIDTH, x + 8 * WIDTH, WIDTH * sizeof(float));
    assert_int_equal(backend->table->end(backend), ICP_OK);
    free(before);
    backend->table->close(backend);
}

/* ---- Weights -------------------------------------------------------------------------------------------- */

static void embed_looks_rows_up_and_scales_them(void **state)
{
    (void)state;
    enum { TOKENS = 50, WIDTH = 96, ROWS = 300 };
    cpu_random random = {cpu_seed()};
    icp_backend *backend = cpu_open(2);
    assert_int_equal(backend->table->reserve(backend, ROWS, 1), ICP_OK);
    float *data = calloc(TOKENS * WIDTH, sizeof(*data));
    cpu_random_fill(&random, data, TOKENS * WIDTH);
    icp_weight_source source = {ICP_WEIGHT_F32, TOKENS, WIDTH, data, true, false, false};
    icp_weight *table = NULL;
    assert_int_equal(backend->table->weight_open(backend, &source, &table, NULL), ICP_OK);
    float *out = backend->table->floats_open(backend, ROWS * WIDTH);
    for (uint32_t r = 0; r < ROWS; r++) batch.tokens[r] = cpu_random_below(&random, TOKENS);
    begin_rows(backend, &batch, 0, ROWS);
    backend->table->embed(backend, &(icp_embed){table, 1.5f, out});
    assert_int_equal(backend->table->end(backend), ICP_OK);
    for (uint32_t i = 0; i < ROWS * WIDTH; i++)
        assert_true(out[i] == data[batch.tokens[i / WIDTH] * WIDTH + i % WIDTH] * 1.5f);
    backend->table->close(backend); /* frees the weight and the floats */
    free(data);
}

/* Linear with three outputs of different types, against the decoded weights. */
enum { COLUMNS = 256, LINEAR_ROWS = 33, OUTPUTS = 3 };

typedef struct linear_case {
    icp_weight_type type;
    uint32_t rows;
    bool has_bias, is_added;
    float scale;
} linear_case;

static const linear_case cases[OUTPUTS] = {{ICP_WEIGHT_F32, 300, true, false, 1.0f},
                                           {ICP_WEIGHT_F16, 77, false, true, 0.5f},
                                           {ICP_WEIGHT_Q8_0, 130, true, true, 2.0f}};

typedef struct linear_world {
    icp_backend *backend;
    icp_linear linear;
    float *decoded[OUTPUTS]; /* the weights as floats */
    float *before[OUTPUTS];  /* what the outputs held */
} linear_world;

/* Random bytes, but for the parts that decide how large the numbers are. */
static uint8_t *weight_data(const linear_case *self, size_t bytes, cpu_random *random)
{
    uint8_t *data = malloc(bytes);
    for (size_t i = 0; i < bytes; i++) data[i] = (uint8_t)cpu_random_bits(random);
    for (size_t i = 0; i < bytes; i++) {
        if (self->type == ICP_WEIGHT_F32 && i % 4 == 3) data[i] = (data[i] & 0x80) | 0x3f;
        if (self->type == ICP_WEIGHT_F16 && i % 2 == 1) data[i] = (data[i] & 0x80) | 0x38;
        if (self->type == ICP_WEIGHT_Q8_0 && i % 34 == 1) data[i] = 0x20; /* a scale of 0.008 */
    }
    return data;
}

static void linear_open(linear_world *self, uint32_t threads, cpu_random *random)
{
    icp_backend *backend = self->backend = cpu_open(threads);
    assert_int_equal(backend->table->reserve(backend, LINEAR_ROWS, 1), ICP_OK);
    self->linear = (icp_linear){.row_count = LINEAR_ROWS, .output_count = OUTPUTS};
    self->linear.x = random_floats(backend, random, LINEAR_ROWS * COLUMNS, 1.0f);
    for (uint32_t o = 0; o < OUTPUTS; o++) {
        const linear_case *c = &cases[o];
        size_t values = (size_t)c->rows * COLUMNS;
        size_t bytes = values / icp_weight_block_values(c->type) * icp_weight_block_bytes(c->type);
        uint8_t *data = weight_data(c, bytes, random);
        icp_weight_source source = {
            .type = c->type, .rows = c->rows, .columns = COLUMNS, .data = data, .is_matrix = true};
        icp_weight *weight = NULL;
        assert_int_equal(backend->table->weight_open(backend, &source, &weight, NULL), ICP_OK);
        assert_true(backend->table->weight_bytes(backend, weight) >= bytes);
        self->decoded[o] = calloc(values, sizeof(float));
        icp_weight_decode(c->type, data, self->decoded[o], values);
        free(data);
        float *out = random_floats(backend, random, LINEAR_ROWS * c->rows, 1.0f);
        float *bias = c->has_bias ? random_floats(backend, random, c->rows, 1.0f) : NULL;
        self->before[o] = copy_of(backend, out, LINEAR_ROWS * c->rows);
        self->linear.outputs[o] = (icp_linear_output){weight, bias, out, c->scale, c->is_added};
    }
}

static void linear_close(linear_world *self)
{
    for (uint32_t o = 0; o < OUTPUTS; o++) {
        free(self->decoded[o]);
        free(self->before[o]);
    }
    self->backend->table->close(self->backend);
}

static void assert_linear_is_near(const linear_world *self, uint32_t output)
{
    const linear_case *c = &cases[output];
    const icp_linear_output *found = &self->linear.outputs[output];
    for (uint32_t i = 0; i < LINEAR_ROWS * c->rows; i++) {
        const float *x = self->linear.x + i / c->rows * COLUMNS;
        const float *w = self->decoded[output] + i % c->rows * COLUMNS;
        double sum = 0, squares = 0;
        for (uint32_t k = 0; k < COLUMNS; k++) {
            sum += (double)x[k] * (double)w[k];
            squares += (double)w[k] * (double)w[k];
        }
        double expected = sum * (double)c->scale;
        if (c->has_bias) expected += (double)found->bias[i % c->rows];
        if (c->is_added) expected += (double)self->before[output][i];
        /* Activations of 8 bits are off by a uniform error of up to 1/254 of the largest, at most 3.5 here: a standard
         * deviation of 0.008 for each, and six of them for the sum. Floats: rounding. */
        double size = sqrt(squares) * (double)c->scale;
        assert_near((double)found->out[i], expected, (c->type == ICP_WEIGHT_Q8_0 ? 0.05 : 1e-5) * size + 1e-5, "linear",
                    i);
    }
}

static void linear_multiplies_all_outputs_in_one_call(void **state)
{
    (void)state;
    uint64_t seed = cpu_seed();
    float *results[2][OUTPUTS];
    for (uint32_t t = 0; t < 2; t++) {
        cpu_random random = {seed};
        linear_world world;
        linear_open(&world, t + 1, &random);
        world.backend->table->linear(world.backend, &world.linear);
        for (uint32_t o = 0; o < OUTPUTS; o++) {
            assert_linear_is_near(&world, o);
            results[t][o] = copy_of(world.backend, world.linear.outputs[o].out, LINEAR_ROWS * cases[o].rows);
        }
        linear_close(&world);
    }
    for (uint32_t o = 0; o < OUTPUTS; o++) { /* one thread or two: the same bits */
        assert_memory_equal(results[0][o], results[1][o], LINEAR_ROWS * cases[o].rows * sizeof(float));
        free(results[0][o]);
        free(results[1][o]);
    }
}

static void a_row_of_linear_does_not_depend_on_the_other_rows(void **state)
{
    (void)state;
    cpu_random random = {cpu_seed()};
    linear_world world;
    linear_open(&world, 2, &random);
    for (uint32_t o = 0; o < OUTPUTS; o++) world.linear.outputs[o].is_added = false;
    world.backend->table->linear(world.backend, &world.linear);
    float *all[OUTPUTS];
    for (uint32_t o = 0; o < OUTPUTS; o++)
        all[o] = copy_of(world.backend, world.linear.outputs[o].out, LINEAR_ROWS * cases[o].rows);
    const float *x = world.linear.x;
    for (uint32_t first = 0; first < LINEAR_ROWS; first += 1 + first / 2) {
        world.linear.x = x + first * COLUMNS;
        world.linear.row_count = 1 + first / 2 < LINEAR_ROWS - first ? 1 + first / 2 : LINEAR_ROWS - first;
        world.backend->table->linear(world.backend, &world.linear);
        for (uint32_t o = 0; o < OUTPUTS; o++)
            assert_memory_equal(world.linear.outputs[o].out, all[o] + first * cases[o].rows,
                                world.linear.row_count * cases[o].rows * sizeof(float));
    }
    for (uint32_t o = 0; o < OUTPUTS; o++) free(all[o]);
    linear_close(&world);
}

static void weights_that_cannot_be_are_refused_with_a_reason(void **state)
{
    (void)state;
    icp_backend *backend = cpu_open(1);
    float data[32] = {0};
    icp_weight *weight = NULL;
    icp_error error = {""};
    icp_weight_source odd = {ICP_WEIGHT_Q4_0, 1, 33, data, false, true, false};
    assert_int_equal(backend->table->weight_open(backend, &odd, &weight, &error), ICP_BAD_ARGUMENT);
    assert_non_null(strstr(error.text, "33"));
    icp_weight_source unknown = {(icp_weight_type)5, 1, 32, data, false, true, false};
    assert_int_equal(backend->table->weight_open(backend, &unknown, &weight, &error), ICP_BAD_ARGUMENT);
    assert_null(weight);
    backend->table->weight_close(backend, NULL);
    backend->table->close(backend);
}

/* ---- KV ------------------------------------------------------------------------------------------------- */

static void blocks_are_copied_read_and_written_whole(void **state)
{
    (void)state;
    for (int type = 0; type < ICP_KV_TYPE_COUNT; type++) {
        icp_backend *backend = cpu_open(1);
        icp_kv_options options = {.type = (icp_kv_type)type, .block_tokens = 32, .group_count = 2};
        options.groups[0] = (icp_kv_group){4, 3, 2, 80};
        options.groups[1] = (icp_kv_group){5, 1, 1, 64};
        assert_int_equal(backend->table->kv_open(backend, &options, NULL), ICP_OK);
        for (uint32_t g = 0; g < 2; g++) {
            size_t bytes = backend->table->kv_block_bytes(backend, &options, g);
            uint8_t *wrote = malloc(bytes), *read = malloc(bytes);
            for (size_t i = 0; i < bytes; i++) wrote[i] = (uint8_t)(i * 7 + g);
            backend->table->kv_write(backend, g, 1, wrote);
            backend->table->kv_copy(backend, g, &(icp_copy){1, 3, 5});
            backend->table->kv_read(backend, g, 3, read);
            assert_memory_equal(wrote, read, bytes);
            backend->table->kv_read(backend, g, 2, read); /* its neighbours are as they were */
            for (size_t i = 0; i < bytes; i++) assert_int_equal(read[i], 0);
            free(wrote);
            free(read);
        }
        backend->table->close(backend);
    }
}

static void kv_options_that_cannot_be_are_refused(void **state)
{
    (void)state;
    icp_backend *backend = cpu_open(1);
    icp_error error = {""};
    icp_kv_options options = {.block_tokens = 24, .group_count = 1};
    options.groups[0] = (icp_kv_group){4, 1, 1, 64};
    assert_int_equal(backend->table->kv_open(backend, &options, &error), ICP_BAD_ARGUMENT);
    assert_non_null(strstr(error.text, "24"));
    assert_int_equal(backend->table->kv_block_bytes(backend, &options, 0), 0);
    options.block_tokens = 16;
    options.groups[0].block_count = UINT32_MAX; /* 2^32 blocks of many layers: more than a machine has, or counts */
    options.groups[0].layer_count = UINT32_MAX;
    assert_int_not_equal(backend->table->kv_open(backend, &options, &error), ICP_OK);
    options.groups[0] = (icp_kv_group){4, 1, 1, 64};
    assert_int_equal(backend->table->kv_open(backend, &options, &error), ICP_OK);
    backend->table->close(backend);
}

static void the_backend_says_what_it_is(void **state)
{
    (void)state;
    icp_backend *backend = cpu_open(3);
    assert_string_equal(backend->table->name, "cpu");
    assert_non_null(strstr(backend->table->describe(backend), "3 threads"));
    backend->table->close(backend);
    backend = cpu_open_with(1, "plain");
    assert_non_null(strstr(backend->table->describe(backend), "plain, 1 thread"));
    backend->table->close(backend);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(exponentials_are_within_two_units_in_the_last_place),
        cmocka_unit_test(every_set_of_inner_loops_gives_the_bits_of_the_plain_one),
        cmocka_unit_test(norm_divides_by_the_root_mean_square),
        cmocka_unit_test(rotate_turns_pairs_or_halves_by_the_position),
        cmocka_unit_test(gate_multiplies_by_silu_or_gelu),
        cmocka_unit_test(add_cap_and_gather_do_what_they_say),
        cmocka_unit_test(embed_looks_rows_up_and_scales_them),
        cmocka_unit_test(linear_multiplies_all_outputs_in_one_call),
        cmocka_unit_test(a_row_of_linear_does_not_depend_on_the_other_rows),
        cmocka_unit_test(weights_that_cannot_be_are_refused_with_a_reason),
        cmocka_unit_test(blocks_are_copied_read_and_written_whole),
        cmocka_unit_test(kv_options_that_cannot_be_are_refused),
        cmocka_unit_test(the_backend_says_what_it_is),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
