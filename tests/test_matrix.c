/* test_matrix.c - matrix products of the CPU backend: exact formats, the same bits from every set of kernels and for
 * any number of rows, and the right numbers. */
#include "backend/half.h"
#include "backend/matrix.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define SEED 0x1d872b41u

static const icp_weight_type types[] = {ICP_WEIGHT_F32,  ICP_WEIGHT_F16,  ICP_WEIGHT_BF16, ICP_WEIGHT_Q8_0,
                                        ICP_WEIGHT_Q4_0, ICP_WEIGHT_Q4_1, ICP_WEIGHT_Q5_0, ICP_WEIGHT_Q5_1,
                                        ICP_WEIGHT_Q4_K, ICP_WEIGHT_Q5_K, ICP_WEIGHT_Q6_K};
#define TYPE_COUNT (sizeof(types) / sizeof(types[0]))

/* ---- Worlds ----------------------------------------------------------------------------------------------- */

static uint32_t random_state;

static uint32_t random_bits(void)
{
    random_state += 0x9e3779b9u;
    uint32_t x = random_state;
    x = (x ^ x >> 16) * 0x7feb352du;
    x = (x ^ x >> 15) * 0x846ca68bu;
    return x ^ x >> 16;
}

/* About normal. */
static float random_float(void)
{
    float sum = 0;
    for (int i = 0; i < 4; i++) sum += (float)(random_bits() >> 8) * 0x1p-24f - 0.5f;
    return sum;
}

static void *take(size_t bytes)
{
    void *memory = aligned_alloc(64, (bytes + 63) / 64 * 64 + 64);
    assert_non_null(memory);
    return memory;
}

static void put_half(uint8_t *bytes, uint16_t half)
{
    bytes[0] = (uint8_t)half;
    bytes[1] = (uint8_t)(half >> 8);
}

/* A half between 2^-8 and 2^-6, of either sign. */
static uint16_t random_half(void)
{
    return (uint16_t)((random_bits() & 0x8000u) | (7u + random_bits() % 2) << 10 | (random_bits() & 1023u));
}

static size_t source_bytes(icp_weight_type type, uint32_t rows, uint32_t columns)
{
    return (size_t)rows * columns / icp_weight_block_values(type) * icp_weight_block_bytes(type);
}

static bool has_minima(icp_weight_type type)
{
    return type == ICP_WEIGHT_Q4_1 || type == ICP_WEIGHT_Q5_1 || type == ICP_WEIGHT_Q4_K || type == ICP_WEIGHT_Q5_K;
}

static void set_halves(icp_weight_type type, uint8_t *block, uint16_t d, uint16_t m)
{
    put_half(block + (type == ICP_WEIGHT_Q6_K ? 208 : 0), d);
    if (has_minima(type)) put_half(block + 2, m);
}

/* Random weights at an odd address. */
static icp_weight_source open_source(icp_weight_type type, uint32_t rows, uint32_t columns)
{
    uint32_t block_bytes = icp_weight_block_bytes(type);
    size_t bytes = source_bytes(type, rows, columns);
    uint8_t *data = (uint8_t *)take(bytes + 1) + 1;
    for (size_t i = 0; i < bytes; i++) data[i] = (uint8_t)random_bits();
    for (size_t i = 0; i < bytes; i += block_bytes) {
        float value = random_float() * 0.1f;
        uint32_t bits = icp_float_to_bits(value);
        if (type == ICP_WEIGHT_F32) memcpy(data + i, &value, 4);
        if (type == ICP_WEIGHT_BF16) put_half(data + i, (uint16_t)(bits >> 16));
        if (type == ICP_WEIGHT_F16) put_half(data + i, random_half());
        if (block_bytes > 4) set_halves(type, data + i, random_half(), random_half());
    }
    return (icp_weight_source){.type = type, .rows = rows, .columns = columns, .data = data, .is_matrix = true};
}

static void close_source(icp_weight_source *source)
{
    free((uint8_t *)(uintptr_t)source->data - 1);
}

static float *random_rows(uint32_t row_count, uint32_t columns)
{
    float *x = take((size_t)row_count * columns * sizeof(float));
    for (size_t i = 0; i < (size_t)row_count * columns; i++) x[i] = random_float();
    return x;
}

static icp_matrix open_matrix(const icp_kernels *kernels, const icp_weight_source *source)
{
    icp_matrix matrix;
    assert_int_equal(icp_matrix_plan(&matrix, kernels, source), ICP_OK);
    matrix.panels = take(matrix.panel_count * matrix.panel_bytes);
    icp_matrix_pack(&matrix, source, 0, matrix.panel_count);
    return matrix;
}

/* How a product is asked for; out holds the start values, and then the result, [row_count, matrix->rows]. */
typedef struct ask {
    const float *x;
    uint32_t row_count;
    const float *bias;
    float scale;
    bool is_added;
    float *out;
} ask;

static void multiply(const icp_matrix *matrix, const ask *a)
{
    void *rows = take(icp_rows_bytes(matrix->kernels, a->row_count, matrix->columns));
    icp_quantise quantise = {.kernels = matrix->kernels,
                             .kind = icp_matrix_rows_kind(matrix),
                             .x = a->x,
                             .row_count = a->row_count,
                             .columns = matrix->columns,
                             .rows = rows};
    if (quantise.kind != ICP_ROWS_FLOATS) {
        for (uint32_t part = icp_rows_part_count(matrix->kernels, a->row_count); part-- > 0;) {
            icp_rows_quantise(&quantise, part);
        }
    }
    void *scratch = take(icp_multiply_scratch_bytes(matrix->kernels, matrix->columns));
    icp_multiply m = {.matrix = matrix,
                      .x = a->x,
                      .rows = rows,
                      .row_count = a->row_count,
                      .out = a->out,
                      .out_stride = matrix->rows,
                      .bias = a->bias,
                      .scale = a->scale,
                      .is_added = a->is_added};
    uint32_t half = matrix->panel_count / 2; /* two threads' worth, the second first */
    icp_matrix_multiply(&m, half, matrix->panel_count - half, scratch);
    icp_matrix_multiply(&m, 0, half, scratch);
    free(scratch);
    free(rows);
}

static void multiply_source(const icp_kernels *kernels, const icp_weight_source *source, const ask *a)
{
    icp_matrix matrix = open_matrix(kernels, source);
    multiply(&matrix, a);
    free(matrix.panels);
}

static const icp_kernels *plain(void)
{
    const icp_kernels *set = NULL;
    for (uint32_t i = 0; icp_kernels_at(i) != NULL; i++) set = icp_kernels_at(i);
    assert_string_equal(icp_kernels_name(set), "plain");
    return set;
}

static bool fits(icp_weight_type type, uint32_t columns)
{
    return columns % icp_weight_block_values(type) == 0;
}

/* ---- Formats ---------------------------------------------------------------------------------------------- */

/* Writes a block whose quants, scales and minima are known, bit by bit as the format is described. */
static void write_nibbles(uint8_t *low, const uint8_t *quants)
{
    for (uint32_t i = 0; i < 16; i++) low[i] = (uint8_t)((quants[i] & 15) + (quants[16 + i] & 15) * 16);
}

static void write_high(uint8_t *high, const uint8_t *quants)
{
    memset(high, 0, 4);
    for (uint32_t i = 0; i < 32; i++) high[i / 8] = (uint8_t)(high[i / 8] + (quants[i] >> 4) * (1 << i % 8));
}

static void write_scales_k(uint8_t *bytes, const uint8_t *scales, const uint8_t *minima)
{
    memset(bytes, 0, 12);
    for (uint32_t i = 0; i < 4; i++) {
        bytes[i] = (uint8_t)(scales[i] + (scales[i + 4] / 16) * 64);
        bytes[i + 4] = (uint8_t)(minima[i] + (minima[i + 4] / 16) * 64);
        bytes[i + 8] = (uint8_t)(scales[i + 4] % 16 + (minima[i + 4] % 16) * 16);
    }
}

static void a_block_of_32_decodes_to_what_was_written(void **state)
{
    (void)state;
    static const struct {
        icp_weight_type type;
        uint32_t low, high, most;
        float offset;
    } cases[] = {{ICP_WEIGHT_Q4_0, 2, 0, 15, -8},
                 {ICP_WEIGHT_Q4_1, 4, 0, 15, 0},
                 {ICP_WEIGHT_Q5_0, 6, 2, 31, -16},
                 {ICP_WEIGHT_Q5_1, 8, 4, 31, 0},
                 {ICP_WEIGHT_Q8_0, 2, 0, 255, 0}};
    random_state = SEED;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        uint8_t block[210] = {0}; /* the largest that set_halves writes to */
        uint8_t quants[32];
        float values[32];
        for (uint32_t k = 0; k < 32; k++) quants[k] = (uint8_t)(random_bits() % (cases[i].most + 1));
        set_halves(cases[i].type, block, 0x3400 /* 0.25 */, 0xc200 /* -3 */);
        if (cases[i].type == ICP_WEIGHT_Q8_0) memcpy(block + 2, quants, 32);
        if (cases[i].type != ICP_WEIGHT_Q8_0) write_nibbles(block + cases[i].low, quants);
        if (cases[i].high != 0) write_high(block + cases[i].high, quants);
        icp_weight_decode(cases[i].type, block, values, 32);
        for (uint32_t k = 0; k < 32; k++) {
            float quant = cases[i].type == ICP_WEIGHT_Q8_0 ? (float)(int8_t)quants[k] : (float)quants[k];
            float expected = (quant + cases[i].offset) * 0.25f + (has_minima(cases[i].type) ? -3.0f : 0);
            assert_true(values[k] == expected);
        }
    }
}

static void a_block_of_256_decodes_to_what_was_written(void **state)
{
    (void)state;
    random_state = SEED;
    for (int is_five = 0; is_five < 2; is_five++) {
        uint8_t block[176] = {0};
        uint8_t scales[8], minima[8], quants[256];
        float values[256];
        for (uint32_t i = 0; i < 8; i++) scales[i] = (uint8_t)(random_bits() % 64);
        for (uint32_t i = 0; i < 8; i++) minima[i] = (uint8_t)(random_bits() % 64);
        for (uint32_t i = 0; i < 256; i++) quants[i] = (uint8_t)(random_bits() % (is_five ? 32 : 16));
        put_half(block, 0x3400);     /* 0.25 */
        put_half(block + 2, 0x3800); /* 0.5 */
        write_scales_k(block + 4, scales, minima);
        for (uint32_t k = 0; k < 256; k++) { /* 64 values share 32 bytes; a high byte has a bit of each 32 */
            uint8_t *low = block + (is_five ? 48 : 16) + k / 64 * 32 + k % 32;
            *low = (uint8_t)(*low + (quants[k] & 15) * (k % 64 < 32 ? 1 : 16));
            if (is_five) block[16 + k % 32] = (uint8_t)(block[16 + k % 32] + (quants[k] >> 4) * (1 << k / 32));
        }
        icp_weight_decode(is_five ? ICP_WEIGHT_Q5_K : ICP_WEIGHT_Q4_K, block, values, 256);
        for (uint32_t k = 0; k < 256; k++) {
            assert_true(values[k] == 0.25f * scales[k / 32] * quants[k] - 0.5f * minima[k / 32]);
        }
    }
}

static void a_block_of_six_bits_decodes_to_what_was_written(void **state)
{
    (void)state;
    random_state = SEED;
    uint8_t block[210] = {0};
    float values[256];
    uint8_t quants[256];
    for (uint32_t k = 0; k < 256; k++) {
        quants[k] = (uint8_t)(random_bits() % 64);
        uint32_t half = k / 128, quarter = k % 128 / 32, i = k % 32;
        uint8_t *low = block + half * 64 + quarter % 2 * 32 + i;
        uint8_t *high = block + 128 + half * 32 + i;
        *low = (uint8_t)(*low + quants[k] % 16 * (quarter < 2 ? 1 : 16));
        *high = (uint8_t)(*high + quants[k] / 16 * (1 << 2 * quarter));
    }
    for (uint32_t i = 0; i < 16; i++) block[192 + i] = (uint8_t)random_bits();
    put_half(block + 208, 0xb400); /* -0.25 */
    icp_weight_decode(ICP_WEIGHT_Q6_K, block, values, 256);
    for (uint32_t k = 0; k < 256; k++) {
        assert_true(values[k] == -0.25f * (float)(int8_t)block[192 + k / 16] * (float)(quants[k] - 32));
    }
}

static void halves_become_the_floats_that_they_are(void **state)
{
    (void)state;
    for (uint32_t bits = 0; bits < 0x8000u; bits++) {
        float value = icp_half_to_float((uint16_t)bits);
        uint32_t exponent = bits >> 10;
        double expected =
            ldexp(exponent == 0 ? bits : (bits & 1023u) + 1024.0, (int)(exponent == 0 ? 1 : exponent) - 25);
        if (exponent == 31) {
            assert_true((bits & 1023u) == 0 ? isinf(value) : isnan(value));
        } else {
            assert_true((double)value == expected);
            assert_true(icp_half_to_float((uint16_t)(bits | 0x8000u)) == -value);
        }
    }
    assert_true(icp_bfloat_to_float(0x3fc0) == 1.5f);
}

/* ---- Products --------------------------------------------------------------------------------------------- */

/* What quantising a row does to it, in double precision. */
static void quantised_row(const float *x, uint32_t columns, uint32_t group, double *out)
{
    for (uint32_t k = 0; k < columns; k += group) {
        uint32_t end = k + group < columns ? k + group : columns;
        float most = 0;
        for (uint32_t i = k; i < end; i++) most = fmaxf(most, fabsf(x[i]));
        for (uint32_t i = k; i < end; i++) out[i] = rint(x[i] * (127.0f / most)) * (double)(most / 127.0f);
    }
}

/* Against a product in double precision of the decoded weights and the quantised rows; the tolerance is that of
 * adding floats: 4e-6 of the sum of |x| times the largest weight. Then with the rows as they are: half a quant each. */
static void a_product_is_right_within_rounding(void **state)
{
    (void)state;
    random_state = SEED;
    const uint32_t columns = 1280, rows = 20, row_count = 5;
    double *quantised = take(columns * sizeof(double));
    float *weights = take((size_t)rows * columns * sizeof(float));
    for (size_t t = 0; t < TYPE_COUNT; t++) {
        icp_weight_source source = open_source(types[t], rows, columns);
        float *x = random_rows(row_count, columns);
        float out[5 * 20];
        icp_weight_decode(types[t], source.data, weights, (size_t)rows * columns);
        multiply_source(icp_kernels_choose(), &source, &(ask){.x = x, .row_count = row_count, .scale = 1, .out = out});
        for (uint32_t r = 0; r < row_count; r++) {
            quantised_row(x + r * columns, columns, icp_weight_block_values(types[t]) == 256 ? 256 : 32, quantised);
            for (uint32_t c = 0; c < rows; c++) {
                const float *w = weights + c * columns;
                double sum = 0, exact = 0, size = 0, off = 0, most = 0;
                for (uint32_t k = 0; k < columns; k++) {
                    double xk = x[r * columns + k];
                    double used = icp_weight_block_values(types[t]) == 1 ? xk : quantised[k];
                    sum += used * w[k];
                    exact += xk * w[k];
                    size += fabs(xk);
                    off += fabs((xk - used) * w[k]);
                    most = fmax(most, fabs((double)w[k]));
                }
                double y = out[r * rows + c];
                assert_true(fabs(y - sum) <= 4e-6 * size * most);
                assert_true(fabs(y - exact) <= 4e-6 * size * most + off);
            }
        }
        free(x);
        close_source(&source);
    }
    free(weights);
    free(quantised);
}

/* Every set on this machine against plain, bit by bit. */
static void compare_sets(const icp_weight_source *source, const float *x, uint32_t row_count, bool is_added)
{
    size_t count = (size_t)row_count * source->rows;
    float *start = random_rows(row_count, source->rows);
    float *bias = random_rows(1, source->rows);
    float *expected = take(count * sizeof(float));
    float *out = take(count * sizeof(float));
    ask a = {.x = x, .row_count = row_count, .scale = is_added ? 0.37f : 1.0f, .is_added = is_added};
    a.bias = row_count % 2 == 0 ? bias : NULL;

    memcpy(expected, start, count * sizeof(float));
    a.out = expected;
    multiply_source(plain(), source, &a);
    for (uint32_t i = 0; icp_kernels_at(i) != NULL; i++) {
        memcpy(out, start, count * sizeof(float));
        a.out = out;
        multiply_source(icp_kernels_at(i), source, &a);
        if (memcmp(out, expected, count * sizeof(float)) != 0) {
            uint32_t at = 0;
            while (memcmp(&out[at], &expected[at], sizeof(float)) == 0) at++;
            fail_msg("%s, %s: [%u, %u] x %u rows: row %u, output %u is %a, plain has %a",
                     icp_kernels_name(icp_kernels_at(i)), icp_weight_name(source->type), source->rows, source->columns,
                     row_count, at / source->rows, at % source->rows, (double)out[at], (double)expected[at]);
        }
    }
    free(out);
    free(expected);
    free(bias);
    free(start);
}

static void every_set_gives_the_same_bits_as_plain(void **state)
{
    (void)state;
    static const uint32_t shapes[][2] = {{1, 32},   {7, 64},   {8, 96},    {13, 172}, {33, 256},
                                         {24, 512}, {70, 896}, {19, 2304}, {5, 4864}, {40, 1280}};
    static const uint32_t row_counts[] = {1, 2, 3, 4, 5, 7, 8, 9, 33, 64};
    random_state = SEED;
    print_message("seed %#x\n", SEED);
    for (size_t t = 0; t < TYPE_COUNT; t++) {
        for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++) {
            if (!fits(types[t], shapes[i][1])) continue;
            icp_weight_source source = open_source(types[t], shapes[i][0], shapes[i][1]);
            for (size_t j = 0; j < sizeof(row_counts) / sizeof(row_counts[0]); j++) {
                if (row_counts[j] > 9 && shapes[i][0] * shapes[i][1] > 40000) continue;
                float *x = random_rows(row_counts[j], source.columns);
                compare_sets(&source, x, row_counts[j], (i + j) % 3 == 0);
                free(x);
            }
            close_source(&source);
        }
    }
}

static void a_row_has_the_same_bits_alone_and_in_any_batch(void **state)
{
    (void)state;
    random_state = SEED + 1;
    const uint32_t columns = 1536, rows = 43, most = 300;
    float *x = random_rows(most, columns);
    float *out = take((size_t)most * rows * sizeof(float));
    for (uint32_t set = 0; icp_kernels_at(set) != NULL; set++) {
        bool is_plain = icp_kernels_at(set + 1) == NULL;
        for (size_t t = 0; t < TYPE_COUNT; t++) {
            icp_weight_source source = open_source(types[t], rows, columns);
            icp_matrix matrix = open_matrix(icp_kernels_at(set), &source);
            uint32_t row_count = is_plain ? 9 : most;
            multiply(&matrix, &(ask){.x = x, .row_count = row_count, .scale = 1, .out = out});
            for (uint32_t r = 0; r < row_count; r += 1 + r / 8) {
                float alone[43], few[3 * 43];
                multiply(&matrix, &(ask){.x = x + r * columns, .row_count = 1, .scale = 1, .out = alone});
                assert_memory_equal(alone, out + r * rows, sizeof(alone));
                if (r + 3 > row_count) continue;
                multiply(&matrix, &(ask){.x = x + r * columns, .row_count = 3, .scale = 1, .out = few});
                assert_memory_equal(few, out + r * rows, sizeof(few));
            }
            free(matrix.panels);
            close_source(&source);
        }
    }
    free(out);
    free(x);
}

/* ---- Extremes --------------------------------------------------------------------------------------------- */

/* Quants, scales and minima at their ends: 0xff and 0x80 bytes make the largest sums of either sign. */
static void the_largest_sums_do_not_overflow(void **state)
{
    (void)state;
    static const uint8_t fills[] = {0x00, 0x80, 0x7f, 0xff, 0x88, 0xf0};
    static const uint16_t halves[] = {0x3c00, 0x7bff, 0x0001, 0x8000, 0xfbff}; /* 1, largest, smallest, -0, -largest */
    random_state = SEED + 2;
    for (size_t t = 0; t < TYPE_COUNT; t++) {
        if (icp_weight_block_values(types[t]) == 1) continue;
        for (size_t i = 0; i < sizeof(fills); i++) {
            icp_weight_source source = open_source(types[t], 11, 768);
            uint8_t *data = (uint8_t *)(uintptr_t)source.data;
            size_t bytes = source_bytes(types[t], 11, 768);
            memset(data, fills[i], bytes);
            for (size_t at = 0; at < bytes; at += icp_weight_block_bytes(types[t])) {
                set_halves(types[t], data + at, halves[(at + i) % 5], halves[(at + i + 1) % 5]);
            }
            float *x = random_rows(5, 768);
            for (uint32_t k = 0; k < 768; k++) x[k] = 1;
            for (uint32_t k = 768; k < 2 * 768; k++) x[k] = -1;
            for (uint32_t k = 0; k < 768; k++) x[2 * 768 + k] = k % 2 == 0 ? 1 : -1;
            for (uint32_t k = 3 * 768; k < 4 * 768; k++) x[k] = 0;
            compare_sets(&source, x, 5, false);
            compare_sets(&source, x, 1, true);
            free(x);
            close_source(&source);
        }
    }
}

static void zeros_denormals_and_infinities_among_float_weights_are_kept(void **state)
{
    (void)state;
    static const uint16_t halves[] = {0x0000, 0x8000, 0x0001, 0x83ff, 0x0400, 0x7bff, 0x7c00, 0xfc00};
    random_state = SEED + 4;
    for (size_t t = 0; t < TYPE_COUNT; t++) {
        if (icp_weight_block_values(types[t]) != 1) continue;
        icp_weight_source source = open_source(types[t], 21, 70);
        uint8_t *data = (uint8_t *)(uintptr_t)source.data;
        for (uint32_t i = 0; i < 21 * 70; i++) {
            /* Rows 16 and up are finite but odd; an infinity meets no other in a row. */
            uint16_t half = halves[random_bits() % 6];
            if (i / 70 < 16) half = i % 70 == i / 70 ? halves[6 + i % 2] : random_half();
            uint32_t value = types[t] == ICP_WEIGHT_F32 ? icp_float_to_bits(icp_half_to_float(half)) : half;
            if (types[t] == ICP_WEIGHT_BF16) value = icp_float_to_bits(icp_half_to_float(half)) >> 16;
            memcpy(data + i * icp_weight_block_bytes(types[t]), &value, icp_weight_block_bytes(types[t]));
        }
        float *x = random_rows(9, 70);
        for (uint32_t k = 0; k < 70; k++) x[k] *= 1e-38f;
        compare_sets(&source, x, 9, false);
        compare_sets(&source, x, 1, false);
        compare_sets(&source, x + 70, 1, true);
        free(x);
        close_source(&source);
    }
}

static void activations_that_are_not_numbers_make_their_own_row_nan(void **state)
{
    (void)state;
    random_state = SEED + 3;
    for (size_t t = 0; t < TYPE_COUNT; t++) {
        icp_weight_source source = open_source(types[t], 10, 512);
        float *x = random_rows(6, 512);
        x[0 * 512 + 300] = NAN;
        x[1 * 512 + 5] = INFINITY;
        x[2 * 512 + 511] = -INFINITY;
        for (uint32_t k = 0; k < 512; k++) x[3 * 512 + k] *= 1e38f;
        for (uint32_t k = 0; k < 512; k++) x[4 * 512 + k] *= 1e-44f;
        compare_sets(&source, x, 6, false);
        float out[60];
        multiply_source(icp_kernels_choose(), &source, &(ask){.x = x, .row_count = 6, .scale = 1, .out = out});
        for (uint32_t c = 0; c < 10; c++) {
            assert_true(isnan(out[c]));
            assert_false(isfinite(out[10 + c]) || isfinite(out[20 + c]));
            assert_true(isfinite(out[40 + c]) && fabsf(out[40 + c]) < 1e-37f);
            assert_true(isfinite(out[50 + c]));
        }
        free(x);
        close_source(&source);
    }
}

static void a_shape_or_type_that_is_not_known_is_refused(void **state)
{
    (void)state;
    icp_matrix matrix;
    icp_weight_source source = {.type = ICP_WEIGHT_Q4_K, .rows = 8, .columns = 128};
    assert_int_equal(icp_matrix_plan(&matrix, plain(), &source), ICP_BAD_ARGUMENT);
    source = (icp_weight_source){.type = (icp_weight_type)9, .rows = 8, .columns = 256};
    assert_int_equal(icp_matrix_plan(&matrix, plain(), &source), ICP_BAD_ARGUMENT);
    source = (icp_weight_source){.type = ICP_WEIGHT_F32, .rows = 0, .columns = 256};
    assert_int_equal(icp_matrix_plan(&matrix, plain(), &source), ICP_BAD_ARGUMENT);
}

static void the_environment_chooses_a_set_by_name(void **state)
{
    (void)state;
    const icp_kernels *best = icp_kernels_at(0);
    setenv("INCIPIT_KERNELS", "plain", 1);
    assert_ptr_equal(icp_kernels_choose(), plain());
    setenv("INCIPIT_KERNELS", "no such set", 1);
    assert_ptr_equal(icp_kernels_choose(), best);
    unsetenv("INCIPIT_KERNELS");
    assert_ptr_equal(icp_kernels_choose(), best);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_block_of_32_decodes_to_what_was_written),
        cmocka_unit_test(a_block_of_256_decodes_to_what_was_written),
        cmocka_unit_test(a_block_of_six_bits_decodes_to_what_was_written),
        cmocka_unit_test(halves_become_the_floats_that_they_are),
        cmocka_unit_test(a_product_is_right_within_rounding),
        cmocka_unit_test(every_set_gives_the_same_bits_as_plain),
        cmocka_unit_test(a_row_has_the_same_bits_alone_and_in_any_batch),
        cmocka_unit_test(the_largest_sums_do_not_overflow),
        cmocka_unit_test(zeros_denormals_and_infinities_among_float_weights_are_kept),
        cmocka_unit_test(activations_that_are_not_numbers_make_their_own_row_nan),
        cmocka_unit_test(a_shape_or_type_that_is_not_known_is_refused),
        cmocka_unit_test(the_environment_chooses_a_set_by_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
