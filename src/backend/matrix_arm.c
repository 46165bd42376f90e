/* matrix_arm.c - kernels for any aarch64: quantising rows, and float weights.
 *
 * Float weights. The lanes of a vector are columns, so the sum of an output is one chain of fused multiply-adds in
 * the order of k, as it must be, and chains of different columns and rows hide each other's latency: 8 rows x 8
 * columns for many rows, 4 panels x 8 columns for one. */
#if defined(__aarch64__)

#include "backend/matrix_arm.h"

#include "base/cpu.h"

/* ---- Rows ------------------------------------------------------------------------------------------------- */

static uint32_t largest_bits(const float *x, uint32_t count)
{
    const uint32x4_t mask = vdupq_n_u32(0x7fffffffu);
    uint32x4_t most[4] = {vdupq_n_u32(0), vdupq_n_u32(0), vdupq_n_u32(0), vdupq_n_u32(0)};
    for (uint32_t k = 0; k < count; k += 16) {
        for (uint32_t i = 0; i < 4; i++) {
            most[i] = vmaxq_u32(most[i], vandq_u32(vreinterpretq_u32_f32(vld1q_f32(x + k + 4 * i)), mask));
        }
    }
    return vmaxvq_u32(vmaxq_u32(vmaxq_u32(most[0], most[1]), vmaxq_u32(most[2], most[3])));
}

ARM_INLINE int8x16_t quantise_16(const float *x, float inverse)
{
    int16x8_t half[2];
    ARM_UNROLL
    for (int i = 0; i < 2; i++) {
        int32x4_t a = vcvtnq_s32_f32(vmulq_n_f32(vld1q_f32(x + 8 * i), inverse));
        int32x4_t b = vcvtnq_s32_f32(vmulq_n_f32(vld1q_f32(x + 8 * i + 4), inverse));
        half[i] = vcombine_s16(vmovn_s32(a), vmovn_s32(b));
    }
    return vcombine_s8(vmovn_s16(half[0]), vmovn_s16(half[1]));
}

/* 16 quants of k, in steps of S, to lanes [lane, lane + copies). */
ARM_INLINE void put_16(const icp_row_part *part, uint32_t step, size_t k, uint32_t lane, uint32_t copies, int8x16_t q)
{
    for (uint32_t copy = 0; copy < copies; copy++) {
        int8_t *out = part->quants + k * part->lanes + (lane + copy) * step;
        size_t stride = (size_t)part->lanes * step;
        if (step == 8) {
            vst1_s8(out, vget_low_s8(q));
            vst1_s8(out + stride, vget_high_s8(q));
        } else {
            uint32x4_t words = vreinterpretq_u32_s8(q);
            uint32_t each[4] = {vgetq_lane_u32(words, 0), vgetq_lane_u32(words, 1), vgetq_lane_u32(words, 2),
                                vgetq_lane_u32(words, 3)};
            for (uint32_t i = 0; i < 4; i++) memcpy(out + i * stride, &each[i], 4);
        }
    }
}

static void put_sum(const icp_row_part *part, uint32_t step, uint32_t block, uint32_t lane, int32_t sum)
{
    uint32_t b = block % ICP_GROUP_BLOCKS;
    int8_t *split = part->split + (size_t)block / ICP_GROUP_BLOCKS * 2 * ICP_GROUP_BLOCKS * part->lanes;
    size_t place = (b / step * part->lanes + lane) * step + b % step;
    part->sums[(size_t)block * part->lanes + lane] = (float)sum;
    split[place] = (int8_t)(sum >> 6);
    split[ICP_GROUP_BLOCKS * part->lanes + place] = (int8_t)(sum & 63);
}

/* The same numbers as icp_plain_quantise. columns is a multiple of 32. */
ARM_INLINE void quantise_row(uint32_t step, const icp_row_part *part, const float *x, uint32_t columns, uint32_t lane,
                             uint32_t copies)
{
    uint32_t group_values = part->group_blocks * ICP_BLOCK_VALUES;
    for (uint32_t k = 0; k < columns; k += group_values) {
        uint32_t end = columns - k < group_values ? columns : k + group_values;
        float inverse;
        float scale = icp_rows_scale(largest_bits(x + k, end - k), &inverse);
        for (uint32_t i = 0; i < copies; i++) part->scales[k / group_values * part->lanes + lane + i] = scale;
        for (uint32_t i = k; i < end; i += ICP_BLOCK_VALUES) {
            int8x16_t a = vdupq_n_s8(0);
            int8x16_t b = a;
            if (inverse != 0) {
                a = quantise_16(x + i, inverse);
                b = quantise_16(x + i + 16, inverse);
            }
            put_16(part, step, i, lane, copies, a);
            put_16(part, step, i + 16, lane, copies, b);
            int32_t sum = vaddvq_s16(vpadalq_s8(vpaddlq_s8(a), b));
            for (uint32_t j = 0; j < copies; j++) put_sum(part, step, i / ICP_BLOCK_VALUES, lane + j, sum);
        }
    }
}

void icp_arm_quantise(const icp_kernels *kernels, const icp_row_part *part, const float *x, uint32_t columns)
{
    for (uint32_t row = 0; row < part->row_count; row++) {
        uint32_t copies = row + 1 == part->row_count ? part->lanes - row : 1;
        const float *from = x + (size_t)row * columns;
        if (kernels->step == 8) quantise_row(8, part, from, columns, row, copies);
        if (kernels->step == 4) quantise_row(4, part, from, columns, row, copies);
    }
}

/* ---- Quants ----------------------------------------------------------------------------------------------- */

ARM_INLINE void expand_store(icp_weight_type type, const uint8_t *packed, int8_t *quants)
{
    int8x16_t w[ARM_BLOCK_VECTORS];
    arm_expand(type, packed, w);
    ARM_UNROLL
    for (int i = 0; i < (int)ARM_BLOCK_VECTORS; i++) vst1q_s8(quants + i * 16, w[i]);
}

void icp_arm_expand_block(icp_weight_type type, const uint8_t *packed, int8_t *quants)
{
    switch (type) {
    case ICP_WEIGHT_Q4_0:
        expand_store(ICP_WEIGHT_Q4_0, packed, quants);
        return;
    case ICP_WEIGHT_Q4_1:
    case ICP_WEIGHT_Q4_K:
        expand_store(ICP_WEIGHT_Q4_K, packed, quants);
        return;
    case ICP_WEIGHT_Q5_0:
        expand_store(ICP_WEIGHT_Q5_0, packed, quants);
        return;
    case ICP_WEIGHT_Q5_1:
    case ICP_WEIGHT_Q5_K:
        expand_store(ICP_WEIGHT_Q5_K, packed, quants);
        return;
    default:
        expand_store(ICP_WEIGHT_Q6_K, packed, quants);
    }
}

/* One panel after the other, one stream of memory. Two at a time, by blocks or by groups, were slower on Neoverse V1
 * (Q8_0 23 GB/s instead of 27, Q4_0 14 instead of 21), and so was asking for lines ahead of the processor's own
 * prefetcher. */
void icp_arm_vector(const icp_vector *vector, icp_arm_vector_panel *panel)
{
    const icp_matrix *matrix = vector->matrix;
    if (!icp_format_of(matrix->type)->is_quantised) {
        icp_arm_float_vector(vector);
        return;
    }
    for (uint32_t i = 0; i < vector->panel_count; i++) {
        panel(matrix->type, vector->rows, matrix->panels + (vector->panel + i) * matrix->panel_bytes,
              matrix->columns / ICP_BLOCK_VALUES, vector->acc + i * ARM_COLUMNS);
    }
}

/* ---- Float weights ---------------------------------------------------------------------------------------- */

/* Eight weights. */
ARM_INLINE float32x4x2_t load_f32(const uint8_t *bytes)
{
    float32x4_t low = vreinterpretq_f32_u8(vld1q_u8(bytes));
    return (float32x4x2_t){{low, vreinterpretq_f32_u8(vld1q_u8(bytes + 16))}};
}

ARM_INLINE float32x4x2_t load_bf16(const uint8_t *bytes)
{
    uint16x8_t bits = vreinterpretq_u16_u8(vld1q_u8(bytes));
    uint32x4_t low = vshll_n_u16(vget_low_u16(bits), 16);
    uint32x4_t high = vshll_n_u16(vget_high_u16(bits), 16);
    return (float32x4x2_t){{vreinterpretq_f32_u32(low), vreinterpretq_f32_u32(high)}};
}

#if defined(__clang__)
#define TARGET_FMLAL __attribute__((target("fullfp16,fp16fml")))
#else
#define TARGET_FMLAL __attribute__((target("arch=armv8.2-a+fp16fml")))
#endif

/* Halves times one, added to 0: the floats that fcvtl makes too, but Neoverse V1 does four of these in a cycle and one
 * fcvtl. (There is no -0 among packed halves.) */
TARGET_FMLAL ARM_INLINE float32x4x2_t halves_by_fmlal(const uint8_t *bytes)
{
    const uint16x8_t one = vdupq_n_u16(0x3c00);
    uint8x16_t halves = vld1q_u8(bytes);
    float32x4x2_t out;
    __asm__("movi %0.2d, #0\n fmlal %0.4s, %1.4h, %2.4h" : "=&w"(out.val[0]) : "w"(halves), "w"(one));
    __asm__("movi %0.2d, #0\n fmlal2 %0.4s, %1.4h, %2.4h" : "=&w"(out.val[1]) : "w"(halves), "w"(one));
    return out;
}

#define WIDEN(packed, values, count, bytes, load)       \
    for (size_t i = 0; i < (count); i += 8) {           \
        float32x4x2_t w = load((packed) + i * (bytes)); \
        vst1q_f32((values) + i, w.val[0]);              \
        vst1q_f32((values) + i + 4, w.val[1]);          \
    }

TARGET_FMLAL static void widen_by_fmlal(const uint8_t *packed, float *values, size_t count)
{
    WIDEN(packed, values, count, 2, halves_by_fmlal)
}

void icp_arm_widen(icp_weight_type type, const uint8_t *packed, float *values, size_t count)
{
    if (type == ICP_WEIGHT_F32) {
        WIDEN(packed, values, count, 4, load_f32)
    } else if (type == ICP_WEIGHT_BF16) {
        WIDEN(packed, values, count, 2, load_bf16)
    } else if (icp_cpu_has_fmlal()) {
        widen_by_fmlal(packed, values, count);
    } else {
        WIDEN(packed, values, count, 2, arm_halves)
    }
}

/* Four rows x four values of k, turned. */
ARM_INLINE void transpose_4x4(const float *const rows[4], size_t k, float *out)
{
    float32x4_t a = vld1q_f32(rows[0] + k), b = vld1q_f32(rows[1] + k);
    float32x4_t c = vld1q_f32(rows[2] + k), d = vld1q_f32(rows[3] + k);
    float32x4_t ac0 = vzip1q_f32(a, c), ac1 = vzip2q_f32(a, c);
    float32x4_t bd0 = vzip1q_f32(b, d), bd1 = vzip2q_f32(b, d);
    vst1q_f32(out, vzip1q_f32(ac0, bd0));
    vst1q_f32(out + ARM_FLOAT_TILE_ROWS, vzip2q_f32(ac0, bd0));
    vst1q_f32(out + 2 * ARM_FLOAT_TILE_ROWS, vzip1q_f32(ac1, bd1));
    vst1q_f32(out + 3 * ARM_FLOAT_TILE_ROWS, vzip2q_f32(ac1, bd1));
}

void icp_arm_transpose(const float *x, size_t stride, uint32_t row_count, uint32_t k_count, float *out)
{
    const float *rows[ARM_FLOAT_TILE_ROWS];
    for (uint32_t r = 0; r < ARM_FLOAT_TILE_ROWS; r++) rows[r] = x + (r < row_count ? r : row_count - 1) * stride;
    size_t k = 0;
    for (; k + 4 <= k_count; k += 4) {
        transpose_4x4(rows, k, out + k * ARM_FLOAT_TILE_ROWS);
        if (row_count > 4) transpose_4x4(rows + 4, k, out + k * ARM_FLOAT_TILE_ROWS + 4);
    }
    for (; k < k_count; k++) {
        for (uint32_t r = 0; r < ARM_FLOAT_TILE_ROWS; r++) out[k * ARM_FLOAT_TILE_ROWS + r] = rows[r][k];
    }
}

/* 8 rows x 8 columns: for each k, two vectors of weights meet each lane of two vectors of x. In assembly, because the
 * order matters: 94 % of the multiply-adds that Neoverse V1 can do, where operands are used as soon as they are loaded;
 * with the order that gcc chooses, half of them. */
#define FLOAT_ROW(low, high, x, lane)                \
    "fmla v" low ".4s, v16.4s, v" x ".s[" lane "]\n" \
    "fmla v" high ".4s, v17.4s, v" x ".s[" lane "]\n"

static void float_tile_8(const icp_float_tile *tile)
{
    const float *w = tile->panel;
    const float *x = tile->x;
    uint64_t count = tile->k_count;
    float *acc = tile->acc;
    size_t stride = tile->acc_stride * sizeof(float);
    __asm__ volatile("mov x9, %[acc]\n"
                     "ldp q0, q1, [x9]\n add x9, x9, %[stride]\n"
                     "ldp q2, q3, [x9]\n add x9, x9, %[stride]\n"
                     "ldp q4, q5, [x9]\n add x9, x9, %[stride]\n"
                     "ldp q6, q7, [x9]\n add x9, x9, %[stride]\n"
                     "ldp q8, q9, [x9]\n add x9, x9, %[stride]\n"
                     "ldp q10, q11, [x9]\n add x9, x9, %[stride]\n"
                     "ldp q12, q13, [x9]\n add x9, x9, %[stride]\n"
                     "ldp q14, q15, [x9]\n"
                     "1:\n"
                     "ldp q16, q17, [%[w]], #32\n"
                     "ldp q18, q19, [%[x]], #32\n"
                     "subs %[count], %[count], #1\n" FLOAT_ROW("0", "1", "18", "0") FLOAT_ROW("2", "3", "18", "1")
                         FLOAT_ROW("4", "5", "18", "2") FLOAT_ROW("6", "7", "18", "3") FLOAT_ROW("8", "9", "19", "0")
                             FLOAT_ROW("10", "11", "19", "1") FLOAT_ROW("12", "13", "19", "2")
                                 FLOAT_ROW("14", "15", "19", "3") "b.ne 1b\n"
                                                                  "mov x9, %[acc]\n"
                                                                  "stp q0, q1, [x9]\n add x9, x9, %[stride]\n"
                                                                  "stp q2, q3, [x9]\n add x9, x9, %[stride]\n"
                                                                  "stp q4, q5, [x9]\n add x9, x9, %[stride]\n"
                                                                  "stp q6, q7, [x9]\n add x9, x9, %[stride]\n"
                                                                  "stp q8, q9, [x9]\n add x9, x9, %[stride]\n"
                                                                  "stp q10, q11, [x9]\n add x9, x9, %[stride]\n"
                                                                  "stp q12, q13, [x9]\n add x9, x9, %[stride]\n"
                                                                  "stp q14, q15, [x9]\n"
                     : [w] "+r"(w), [x] "+r"(x), [count] "+r"(count)
                     : [acc] "r"(acc), [stride] "r"(stride)
                     : "x9", "v0", "v1", "v2", "v3", "v4", "v5", "v6", "v7", "v8", "v9", "v10", "v11", "v12", "v13",
                       "v14", "v15", "v16", "v17", "v18", "v19", "cc", "memory");
}

/* Four rows or fewer. */
static void float_tile_4(const icp_float_tile *tile)
{
    float32x4_t acc[4][2];
    ARM_UNROLL
    for (int r = 0; r < 4; r++) {
        acc[r][0] = vld1q_f32(tile->acc + (size_t)r * tile->acc_stride);
        acc[r][1] = vld1q_f32(tile->acc + (size_t)r * tile->acc_stride + 4);
    }
    for (size_t k = 0; k < tile->k_count; k++) {
        float32x4_t x = vld1q_f32(tile->x + k * ARM_FLOAT_TILE_ROWS);
        float32x4_t low = vld1q_f32(tile->panel + k * ARM_COLUMNS);
        float32x4_t high = vld1q_f32(tile->panel + k * ARM_COLUMNS + 4);
#define ROW(r)                                         \
    acc[r][0] = vfmaq_laneq_f32(acc[r][0], low, x, r); \
    acc[r][1] = vfmaq_laneq_f32(acc[r][1], high, x, r)
        ROW(0);
        ROW(1);
        ROW(2);
        ROW(3);
#undef ROW
    }
    ARM_UNROLL
    for (int r = 0; r < 4; r++) {
        vst1q_f32(tile->acc + (size_t)r * tile->acc_stride, acc[r][0]);
        vst1q_f32(tile->acc + (size_t)r * tile->acc_stride + 4, acc[r][1]);
    }
}

void icp_arm_float_tile(const icp_float_tile *tile)
{
    if (tile->row_count > 4) float_tile_8(tile);
    if (tile->row_count <= 4) float_tile_4(tile);
}

/* One row and PANELS panels; load gives 8 weights. A macro, since a function cannot be inlined into one for another
 * machine. */
#define VECTOR_PANELS(v, row_bytes, load, PANELS)                            \
    do {                                                                     \
        const icp_matrix *matrix = (v)->matrix;                              \
        const uint8_t *w[ICP_VECTOR_PANELS];                                 \
        float32x4_t acc[ICP_VECTOR_PANELS][2];                               \
        ARM_UNROLL for (uint32_t p = 0; p < (PANELS); p++)                   \
        {                                                                    \
            w[p] = matrix->panels + ((v)->panel + p) * matrix->panel_bytes;  \
            acc[p][0] = acc[p][1] = vdupq_n_f32(0);                          \
        }                                                                    \
        for (uint32_t k = 0; k < matrix->columns; k++) {                     \
            float32x4_t x = vld1q_dup_f32((v)->x + k);                       \
            ARM_UNROLL for (uint32_t p = 0; p < (PANELS); p++)               \
            {                                                                \
                float32x4x2_t values = load(w[p] + (size_t)k * (row_bytes)); \
                acc[p][0] = vfmaq_f32(acc[p][0], values.val[0], x);          \
                acc[p][1] = vfmaq_f32(acc[p][1], values.val[1], x);          \
            }                                                                \
        }                                                                    \
        ARM_UNROLL for (uint32_t p = 0; p < (PANELS); p++)                   \
        {                                                                    \
            vst1q_f32((v)->acc + p * 8, acc[p][0]);                          \
            vst1q_f32((v)->acc + p * 8 + 4, acc[p][1]);                      \
        }                                                                    \
    } while (0)

static void vector_f32(const icp_vector *v)
{
    if (v->panel_count == ICP_VECTOR_PANELS) VECTOR_PANELS(v, 32, load_f32, ICP_VECTOR_PANELS);
    if (v->panel_count == 1) VECTOR_PANELS(v, 32, load_f32, 1);
}

static void vector_bf16(const icp_vector *v)
{
    if (v->panel_count == ICP_VECTOR_PANELS) VECTOR_PANELS(v, 16, load_bf16, ICP_VECTOR_PANELS);
    if (v->panel_count == 1) VECTOR_PANELS(v, 16, load_bf16, 1);
}

static void vector_f16(const icp_vector *v)
{
    if (v->panel_count == ICP_VECTOR_PANELS) VECTOR_PANELS(v, 16, arm_halves, ICP_VECTOR_PANELS);
    if (v->panel_count == 1) VECTOR_PANELS(v, 16, arm_halves, 1);
}

TARGET_FMLAL static void vector_f16_by_fmlal(const icp_vector *v)
{
    if (v->panel_count == ICP_VECTOR_PANELS) VECTOR_PANELS(v, 16, halves_by_fmlal, ICP_VECTOR_PANELS);
    if (v->panel_count == 1) VECTOR_PANELS(v, 16, halves_by_fmlal, 1);
}

void icp_arm_float_vector(const icp_vector *vector)
{
    icp_weight_type type = vector->matrix->type;
    void (*function)(const icp_vector *) = type == ICP_WEIGHT_F32    ? vector_f32
                                           : type == ICP_WEIGHT_BF16 ? vector_bf16
                                           : icp_cpu_has_fmlal()     ? vector_f16_by_fmlal
                                                                     : vector_f16;
    if (vector->panel_count == ICP_VECTOR_PANELS) {
        function(vector);
        return;
    }
    icp_vector one = *vector;
    one.panel_count = 1;
    for (uint32_t i = 0; i < vector->panel_count; i++, one.panel++, one.acc += ARM_COLUMNS) function(&one);
}

#else
typedef int icp_matrix_arm_is_empty; /* ISO C asks for a declaration */
#endif
