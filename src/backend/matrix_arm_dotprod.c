/* matrix_arm_dotprod.c - quantised weights on aarch64 with sdot: four products of bytes in each of four lanes.
 *
 * S = 4: a vector of weights is [4 columns][4 values], one of a row part [4 rows][4 values]. sdot by element multiplies
 * the four columns by one row, so the lanes of a sum are columns, and scales need no other order. A tile is 4 rows x 8
 * columns; parts always have 4 lanes, and one row is the first of them.
 *
 * For machines that have sdot and not smmla (Neoverse N1, Cortex-A76 and the like, Apple M1). */
#if defined(__aarch64__)

#include "backend/matrix_arm.h"

#include "base/cpu.h"

#if defined(__clang__)
#define TARGET_DOTPROD __attribute__((target("dotprod")))
#else
#define TARGET_DOTPROD __attribute__((target("arch=armv8.2-a+dotprod")))
#endif
#define DOT_INLINE TARGET_DOTPROD ARM_INLINE

#define LANES 4u

/* Debian's clang declares the intrinsic only to files that are compiled for such machines as a whole. */
#if defined(__clang__)
#define DOT_LANE(sum, w, x, lane) __asm__("sdot %0.4s, %1.16b, %2.4b[" #lane "]" : "+w"(sum) : "w"(w), "w"(x))
#else
#define DOT_LANE(sum, w, x, lane) sum = vdotq_laneq_s32(sum, w, x, lane)
#endif

typedef struct lane_floats {
    float lane[8];
} lane_floats;

typedef struct lane_numbers {
    int32_t lane[8];
} lane_numbers;

/* ---- Unpacking -------------------------------------------------------------------------------------------- */

ARM_INLINE void put_floats(lane_floats *out, float32x4x2_t values, float factor)
{
    vst1q_f32(out->lane, vmulq_n_f32(values.val[0], factor));
    vst1q_f32(out->lane + 4, vmulq_n_f32(values.val[1], factor));
}

ARM_INLINE void put_numbers(lane_numbers *out, int32x4x2_t values)
{
    vst1q_s32(out->lane, values.val[0]);
    vst1q_s32(out->lane + 4, values.val[1]);
}

#include "backend/matrix_arm_unpack_body.h"

/* ---- Sums ------------------------------------------------------------------------------------------------- */

/* Sums of products over some steps of 4 values: ROWS rows x 8 columns. */
DOT_INLINE void add_steps(int32x4_t sum[4][2], const int8x16_t *w, const int8_t *x, const int STEPS, const int ROWS)
{
    ARM_UNROLL
    for (int step = 0; step < STEPS; step++) {
        int8x16_t rows = vld1q_s8(x + step * 16);
        ARM_UNROLL
        for (int h = 0; h < 2; h++) {
            DOT_LANE(sum[0][h], w[step * 2 + h], rows, 0);
            if (ROWS == 1) continue;
            DOT_LANE(sum[1][h], w[step * 2 + h], rows, 1);
            DOT_LANE(sum[2][h], w[step * 2 + h], rows, 2);
            DOT_LANE(sum[3][h], w[step * 2 + h], rows, 3);
        }
    }
}

ARM_INLINE void clear(int32x4_t sum[4][2], const int ROWS)
{
    ARM_UNROLL
    for (int i = 0; i < 2 * ROWS; i++) sum[i / 2][i % 2] = vdupq_n_s32(0);
}

/* u, the sums of minima times sums of blocks, which come as 64 * a + b. */
DOT_INLINE void sum_minima(int32x4_t u[4][2], const uint8_t *minima, const int8_t *split, const int ROWS)
{
    int8x16_t m[4];
    ARM_UNROLL
    for (int i = 0; i < 4; i++) m[i] = vreinterpretq_s8_u8(vld1q_u8(minima + i * 16));
    clear(u, ROWS);
    add_steps(u, m, split, 2, ROWS);
    ARM_UNROLL
    for (int i = 0; i < 2 * ROWS; i++) u[i / 2][i % 2] = vshlq_n_s32(u[i / 2][i % 2], 6);
    add_steps(u, m, split + 32, 2, ROWS);
}

/* ---- Many rows -------------------------------------------------------------------------------------------- */

ARM_INLINE void load_block(int8x16_t w[ARM_BLOCK_VECTORS], const int8_t *quants)
{
    ARM_UNROLL
    for (int i = 0; i < (int)ARM_BLOCK_VECTORS; i++) w[i] = vld1q_s8(quants + i * 16);
}

ARM_INLINE void load_acc(const icp_tile *tile, float32x4_t acc[4][2])
{
    ARM_UNROLL
    for (int i = 0; i < 8; i++)
        acc[i / 2][i % 2] = vld1q_f32(tile->acc + (size_t)(i / 2) * tile->acc_stride + i % 2 * 4);
}

ARM_INLINE void store_acc(const icp_tile *tile, float32x4_t acc[4][2])
{
    ARM_UNROLL
    for (int i = 0; i < 8; i++)
        vst1q_f32(tile->acc + (size_t)(i / 2) * tile->acc_stride + i % 2 * 4, acc[i / 2][i % 2]);
}

DOT_INLINE void tile_blocks(const icp_tile *tile, const bool HAS_MINIMA)
{
    const block_scales *scales = tile->chunk->scales;
    const int8_t *w = tile->chunk->quants;
    const int8_t *x = tile->rows.quants;
    float32x4_t acc[4][2], s[4][2];
    load_acc(tile, acc);
    for (uint32_t block = 0; block < tile->block_count; block++) {
        float32x4_t dx = vld1q_f32(tile->rows.scales + (size_t)block * LANES);
        int8x16_t quants[ARM_BLOCK_VECTORS];
        int32x4_t sum[4][2];
        load_block(quants, w);
        clear(sum, 4);
        add_steps(sum, quants, x, 8, 4);
        ARM_UNROLL
        for (int i = 0; i < 8; i++) {
            float32x4_t d = vld1q_f32(scales->d[block].lane + i % 2 * 4);
            float32x4_t sums = vld1q_dup_f32(tile->rows.sums + (size_t)block * LANES + i / 2);
            s[i / 2][i % 2] = vfmaq_f32(vdupq_n_f32(0), vcvtq_f32_s32(sum[i / 2][i % 2]), d);
            if (HAS_MINIMA)
                s[i / 2][i % 2] = vfmaq_f32(s[i / 2][i % 2], sums, vld1q_f32(scales->with.m[block].lane + i % 2 * 4));
        }
        w += tile->chunk->quants_stride;
        x += ICP_BLOCK_VALUES * LANES;
        ARM_UNROLL
        for (int h = 0; h < 2; h++) {
            acc[0][h] = vfmaq_laneq_f32(acc[0][h], s[0][h], dx, 0);
            acc[1][h] = vfmaq_laneq_f32(acc[1][h], s[1][h], dx, 1);
            acc[2][h] = vfmaq_laneq_f32(acc[2][h], s[2][h], dx, 2);
            acc[3][h] = vfmaq_laneq_f32(acc[3][h], s[3][h], dx, 3);
        }
    }
    store_acc(tile, acc);
}

DOT_INLINE void tile_super(const icp_tile *tile, const bool HAS_MINIMA, const int SCALES)
{
    const super_group *group = tile->chunk->scales;
    const int8_t *w = tile->chunk->quants;
    const int8_t *x = tile->rows.quants;
    float32x4_t acc[4][2], s[4][2];
    load_acc(tile, acc);
    for (uint32_t block = 0; block < tile->block_count; block += ICP_GROUP_BLOCKS, group++) {
        const uint32_t g = block / ICP_GROUP_BLOCKS;
        float32x4_t dx = vld1q_f32(tile->rows.scales + g * LANES);
        int32x4_t t[4][2], u[4][2];
        clear(t, 4);
        for (uint32_t b = 0; b < ICP_GROUP_BLOCKS; b++, w += 256) {
            int8x16_t quants[ARM_BLOCK_VECTORS];
            load_block(quants, w);
            ARM_UNROLL
            for (int part = 0; part < SCALES; part++, x += ICP_BLOCK_VALUES * LANES / (uint32_t)SCALES) {
                int32x4_t sum[4][2];
                clear(sum, 4);
                add_steps(sum, quants + part * 8, x, 8 / SCALES, 4);
                ARM_UNROLL
                for (int i = 0; i < 8; i++) {
                    int32x4_t scale = vld1q_s32(group->scales[b][part].lane + i % 2 * 4);
                    t[i / 2][i % 2] = vmlaq_s32(t[i / 2][i % 2], sum[i / 2][i % 2], scale);
                }
            }
        }
        if (HAS_MINIMA) sum_minima(u, (const uint8_t *)group->minima, tile->rows.split + g * 16 * LANES, 4);
        ARM_UNROLL
        for (int i = 0; i < 8; i++) {
            float32x4_t m = vld1q_f32(group->m.lane + i % 2 * 4);
            s[i / 2][i % 2] = vmulq_f32(vcvtq_f32_s32(t[i / 2][i % 2]), vld1q_f32(group->d.lane + i % 2 * 4));
            if (HAS_MINIMA) s[i / 2][i % 2] = vfmaq_f32(s[i / 2][i % 2], vcvtq_f32_s32(u[i / 2][i % 2]), m);
        }
        ARM_UNROLL
        for (int h = 0; h < 2; h++) {
            acc[0][h] = vfmaq_laneq_f32(acc[0][h], s[0][h], dx, 0);
            acc[1][h] = vfmaq_laneq_f32(acc[1][h], s[1][h], dx, 1);
            acc[2][h] = vfmaq_laneq_f32(acc[2][h], s[2][h], dx, 2);
            acc[3][h] = vfmaq_laneq_f32(acc[3][h], s[3][h], dx, 3);
        }
    }
    store_acc(tile, acc);
}

TARGET_DOTPROD static void tile(const icp_tile *t)
{
    if (!t->format->is_super && !t->format->has_minima) tile_blocks(t, false);
    if (!t->format->is_super && t->format->has_minima) tile_blocks(t, true);
    if (t->format->is_super && !t->format->has_minima) tile_super(t, false, 2);
    if (t->format->is_super && t->format->has_minima) tile_super(t, true, 1);
}

/* ---- One row ---------------------------------------------------------------------------------------------- */

DOT_INLINE void vector_blocks(icp_weight_type type, const icp_row_part *rows, const uint8_t *w, uint32_t block_count,
                              float *out)
{
    const bool has_minima = arm_has_minima(type);
    const size_t quant_bytes = arm_quant_bytes(type);
    const int8_t *x = rows->quants;
    float32x4_t acc[2] = {vdupq_n_f32(0), vdupq_n_f32(0)};
    for (uint32_t block = 0; block < block_count; block++, x += ICP_BLOCK_VALUES * LANES) {
        float32x4_t dx = vdupq_n_f32(rows->scales[(size_t)block * LANES] * (1 / arm_unit(type)));
        float32x4_t s[2];
        int8x16_t quants[ARM_BLOCK_VECTORS];
        int32x4_t sum[4][2];
        arm_expand(type, w, quants);
        clear(sum, 1);
        add_steps(sum, quants, x, 8, 1);
        float32x4x2_t d = arm_halves(w + quant_bytes);
        ARM_UNROLL
        for (int h = 0; h < 2; h++) s[h] = vfmaq_f32(vdupq_n_f32(0), vcvtq_f32_s32(sum[0][h]), d.val[h]);
        if (has_minima) {
            float32x4x2_t m = arm_halves(w + quant_bytes + 16);
            ARM_UNROLL
            for (int h = 0; h < 2; h++) s[h] = vfmaq_n_f32(s[h], m.val[h], rows->sums[(size_t)block * LANES]);
        }
        w += quant_bytes + (has_minima ? 32 : 16);
        ARM_UNROLL
        for (int h = 0; h < 2; h++) acc[h] = vfmaq_f32(acc[h], s[h], dx);
    }
    vst1q_f32(out, acc[0]);
    vst1q_f32(out + 4, acc[1]);
}

DOT_INLINE void vector_super(icp_weight_type type, const icp_row_part *rows, const uint8_t *w, uint32_t block_count,
                             float *out)
{
    const bool has_minima = arm_has_minima(type);
    const int scale_count = has_minima ? 1 : 2;
    const int8_t *x = rows->quants;
    const int8_t *split = rows->split;
    float32x4_t acc[2] = {vdupq_n_f32(0), vdupq_n_f32(0)};
    for (uint32_t block = 0; block < block_count; block += ICP_GROUP_BLOCKS, split += 16 * LANES) {
        const uint8_t *head = w;
        int32x4_t t[2] = {vdupq_n_s32(0), vdupq_n_s32(0)};
        w += has_minima ? 96 : 16;
        for (uint32_t b = 0; b < ICP_GROUP_BLOCKS; b++) {
            int8x16_t quants[ARM_BLOCK_VECTORS];
            arm_expand(type, w, quants);
            w += arm_quant_bytes(type);
            ARM_UNROLL
            for (int part = 0; part < scale_count; part++, w += ARM_COLUMNS) {
                int32x4_t sum[4][2];
                clear(sum, 1);
                add_steps(sum, quants + part * 8, x, 8 / scale_count, 1);
                x += 128 / scale_count;
                int32x4x2_t scale = arm_scales(w);
                ARM_UNROLL
                for (int h = 0; h < 2; h++) t[h] = vmlaq_s32(t[h], sum[0][h], scale.val[h]);
            }
        }
        float32x4_t dx = vdupq_n_f32(rows->scales[block / ICP_GROUP_BLOCKS * LANES] * (1 / arm_unit(type)));
        float32x4x2_t d = arm_halves(head);
        float32x4x2_t m = has_minima ? arm_halves(head + 16) : d;
        int32x4_t u[4][2];
        if (has_minima) sum_minima(u, head + 32, split, 1);
        ARM_UNROLL
        for (int h = 0; h < 2; h++) {
            float32x4_t s = vmulq_f32(vcvtq_f32_s32(t[h]), d.val[h]);
            if (has_minima) s = vfmsq_f32(s, vcvtq_f32_s32(u[0][h]), m.val[h]);
            acc[h] = vfmaq_f32(acc[h], s, dx);
        }
    }
    vst1q_f32(out, acc[0]);
    vst1q_f32(out + 4, acc[1]);
}

TARGET_DOTPROD static void vector_panel(icp_weight_type type, const icp_row_part *rows, const uint8_t *w,
                                        uint32_t block_count, float *out)
{
    ARM_VECTOR_OF_TYPE(type, rows, w, block_count, out)
}

static void vector(const icp_vector *v)
{
    icp_arm_vector(v, vector_panel);
}

const icp_kernels icp_kernels_dotprod = {
    .name = "dotprod",
    .is_supported = icp_cpu_has_dotprod,
    .panel_columns = ARM_COLUMNS,
    .step = 4,
    .tile_rows = LANES,
    .tile_lanes = {0, LANES, LANES, LANES, LANES},
    .float_tile_rows = ARM_FLOAT_TILE_ROWS,
    .chunk_bytes = sizeof(chunk_scratch),
    .quantise = icp_arm_quantise,
    .unpack = unpack,
    .tile = tile,
    .widen = icp_arm_widen,
    .float_tile = icp_arm_float_tile,
    .transpose = icp_arm_transpose,
    .vector = vector,
};

#else
typedef int icp_matrix_arm_dotprod_is_empty; /* ISO C asks for a declaration */
#endif
