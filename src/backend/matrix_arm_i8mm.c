/* matrix_arm_i8mm.c - quantised weights on aarch64 with smmla: 2 rows x 8 values by 2 columns x 8 values, 32 products.
 *
 * S = 8: a vector of weights is [2 columns][8 values], one of a row part [2 rows][8 values], and the result has the
 * lanes [row 0 column 0, row 0 column 1, row 1 column 0, row 1 column 1]. Scales are unpacked into the same lanes,
 * [d0 d1 d0 d1], so that scaling a block is one operation per vector. A tile is 6 rows x 8 columns: 12 sums of whole
 * numbers, 12 of the group and the operands fill the 32 registers. Rows that are left over go in tiles of 4 and 2.
 *
 * Whole numbers become floats by a trick: the sums begin at the bits of 1.5 * 2^23, so that read as floats they are
 * that number plus the sum (which is under 2^22), and one subtraction is left. scvtf would be one operation too, but
 * Neoverse V1 does one in a cycle, and four subtractions.
 *
 * One row is a pair of equal rows, [8 values, the same 8 values]: sdot multiplies them by two columns at once, and a
 * pairwise addition puts the sums of four columns side by side. Packed weights are expanded in registers. */
#if defined(__aarch64__)

#include "backend/matrix_arm.h"

#include "base/cpu.h"

#if defined(__clang__)
#define TARGET_I8MM __attribute__((target("i8mm,dotprod")))
#else
#define TARGET_I8MM __attribute__((target("arch=armv8.2-a+i8mm+dotprod")))
#endif
#define I8MM_INLINE TARGET_I8MM ARM_INLINE

/* Debian's clang declares these only to files that are compiled for such machines as a whole. */
I8MM_INLINE int32x4_t mmla(int32x4_t sum, int8x16_t a, int8x16_t b)
{
#if defined(__clang__)
    __asm__("smmla %0.4s, %1.16b, %2.16b" : "+w"(sum) : "w"(a), "w"(b));
    return sum;
#else
    return vmmlaq_s32(sum, a, b);
#endif
}

I8MM_INLINE int32x4_t dot(int32x4_t sum, int8x16_t a, int8x16_t b)
{
#if defined(__clang__)
    __asm__("sdot %0.4s, %1.16b, %2.16b" : "+w"(sum) : "w"(a), "w"(b));
    return sum;
#else
    return vdotq_s32(sum, a, b);
#endif
}

#define BIAS_BITS 0x4b400000 /* of ARM_BIAS */

/* ---- Unpacking -------------------------------------------------------------------------------------------- */

/* Lanes as smmla gives them: 4 vectors [c, c + 1, c, c + 1]. */
typedef struct lane_floats {
    float lane[16];
} lane_floats;

typedef struct lane_numbers {
    int32_t lane[16];
} lane_numbers;

ARM_INLINE void put_floats(lane_floats *out, float32x4x2_t values, float factor)
{
    ARM_UNROLL
    for (int half = 0; half < 2; half++) {
        float64x2_t pairs = vreinterpretq_f64_f32(vmulq_n_f32(values.val[half], factor));
        vst1q_f32(out->lane + half * 8, vreinterpretq_f32_f64(vdupq_laneq_f64(pairs, 0)));
        vst1q_f32(out->lane + half * 8 + 4, vreinterpretq_f32_f64(vdupq_laneq_f64(pairs, 1)));
    }
}

ARM_INLINE void put_numbers(lane_numbers *out, int32x4x2_t values)
{
    ARM_UNROLL
    for (int half = 0; half < 2; half++) {
        int64x2_t pairs = vreinterpretq_s64_s32(values.val[half]);
        vst1q_s32(out->lane + half * 8, vreinterpretq_s32_s64(vdupq_laneq_s64(pairs, 0)));
        vst1q_s32(out->lane + half * 8 + 4, vreinterpretq_s32_s64(vdupq_laneq_s64(pairs, 1)));
    }
}

#include "backend/matrix_arm_unpack_body.h"

/* ---- Many rows -------------------------------------------------------------------------------------------- */

#define PAIRS_MAX 3

/* Sums of products over some steps of 8 values: PAIRS pairs of rows x 4 pairs of columns. */
I8MM_INLINE void add_steps(int32x4_t sum[PAIRS_MAX][4], const int8_t *w, const int8_t *x, const int STEPS,
                           const int PAIRS)
{
    ARM_UNROLL
    for (int step = 0; step < STEPS; step++) {
        int8x16_t columns[4];
        ARM_UNROLL
        for (int j = 0; j < 4; j++) columns[j] = vld1q_s8(w + step * 64 + j * 16);
        ARM_UNROLL
        for (int p = 0; p < PAIRS; p++) {
            int8x16_t rows = vld1q_s8(x + (step * PAIRS + p) * 16);
            ARM_UNROLL
            for (int j = 0; j < 4; j++) sum[p][j] = mmla(sum[p][j], rows, columns[j]);
        }
    }
}

/* The inner loop of 6 rows x 8 columns is written in assembly: gcc makes the same instructions of intrinsics, but in an
 * order that costs a third more on Neoverse V1. Here each operand is used right after it was loaded, and the sums'
 * start values are loaded rather than moved: 24 cycles for the 48 smmla of a block of 32 values and their scaling (23
 * for Q4_K, 31 for Q6_K), where 18 would do if every pipe were always busy. Other orders and shapes (4 x 8, 8 x 8 with
 * the sums of the group in memory, two blocks at a time, scaling one block while the next is summed up) came out the
 * same or worse. With what surrounds the loop a product of 512 rows takes 32 cycles: 35 % of the peak.
 *
 * v0 to v11 are sums, of pair p and columns j at 4 * p + j; v24 to v27 columns or scales, v28 to v30 pairs of rows,
 * v31 the bias; v12 to v23 are the sums of the group. */
#define STEP_COLUMNS(w_offset, column, first, second, third) \
    "ldr q" column ",[%[w],#" w_offset "]\n"                 \
    "smmla v" first ".4s,v28.16b,v" column ".16b\n"          \
    "smmla v" second ".4s,v29.16b,v" column ".16b\n"         \
    "smmla v" third ".4s,v30.16b,v" column ".16b\n"

#define STEP(x0, x2, w0, w1, w2, w3)                                                                       \
    "ldp q28,q29,[%[x],#" x0 "]\n"                                                                         \
    "ldr q30,[%[x],#" x2 "]\n" STEP_COLUMNS(w0, "24", "0", "4", "8") STEP_COLUMNS(w1, "25", "1", "5", "9") \
        STEP_COLUMNS(w2, "26", "2", "6", "10") STEP_COLUMNS(w3, "27", "3", "7", "11")

#define STEPS_01 STEP("0", "32", "0", "16", "32", "48") STEP("48", "80", "64", "80", "96", "112")
#define STEPS_23 STEP("96", "128", "128", "144", "160", "176") STEP("144", "176", "192", "208", "224", "240")

/* For each sum, and for each sum of a group. */
#define EACH_SUM(text) ".irp i,0,1,2,3,4,5,6,7,8,9,10,11\n" text ".endr\n"
#define EACH_GROUP_SUM(text) ".irp i,12,13,14,15,16,17,18,19,20,21,22,23\n" text ".endr\n"
#define START_BIAS EACH_SUM("ldr q\\i, [%[bias]]\n")
#define START_ZERO EACH_SUM("movi v\\i\\().2d, #0\n")

/* The sums times four vectors of scales are added to the sums of the group, all whole numbers. */
#define SCALE_COLUMNS(offset, column, s0, v0, s1, v1, s2, v2) \
    "ldr q" column ",[%[d],#" offset "]\n"                    \
    "mla v" s0 ".4s,v" v0 ".4s,v" column ".4s\n"              \
    "mla v" s1 ".4s,v" v1 ".4s,v" column ".4s\n"              \
    "mla v" s2 ".4s,v" v2 ".4s,v" column ".4s\n"

#define SCALE(d0, d1, d2, d3)                                 \
    SCALE_COLUMNS(d0, "24", "12", "0", "16", "4", "20", "8")  \
    SCALE_COLUMNS(d1, "25", "13", "1", "17", "5", "21", "9")  \
    SCALE_COLUMNS(d2, "26", "14", "2", "18", "6", "22", "10") \
    SCALE_COLUMNS(d3, "27", "15", "3", "19", "7", "23", "11")

/* Three sums v of a block, biased: s = bias * -d + (bias + sum) * d = sum * d with one rounding, in t0 to t2 where
 * start lies first; then acc = fma(s, dx, acc). Two operations per vector, as without dx, for the price of a load. */
#define SCALE_BLOCK(offset, d, t0, t1, t2, v0, v1, v2, a0, a1, a2) \
    "ldr q" d ",[%[d],#" offset "]\n"                              \
    "ldr q" t0 ",[%[start],#" offset "]\n"                         \
    "ldr q" t1 ",[%[start],#" offset "]\n"                         \
    "ldr q" t2 ",[%[start],#" offset "]\n"                         \
    "fmla v" t0 ".4s,v" v0 ".4s,v" d ".4s\n"                       \
    "fmla v" t1 ".4s,v" v1 ".4s,v" d ".4s\n"                       \
    "fmla v" t2 ".4s,v" v2 ".4s,v" d ".4s\n"                       \
    "fmla v" a0 ".4s,v" t0 ".4s,v28.4s\n"                          \
    "fmla v" a1 ".4s,v" t1 ".4s,v29.4s\n"                          \
    "fmla v" a2 ".4s,v" t2 ".4s,v30.4s\n"
#define SCALE_BLOCKS                                                          \
    SCALE_BLOCK("0", "24", "25", "26", "27", "0", "4", "8", "12", "16", "20") \
    SCALE_BLOCK("16", "31", "0", "4", "8", "1", "5", "9", "13", "17", "21")   \
    SCALE_BLOCK("32", "24", "1", "5", "9", "2", "6", "10", "14", "18", "22")  \
    SCALE_BLOCK("48", "31", "2", "6", "10", "3", "7", "11", "15", "19", "23")

#define BEGIN_GROUP EACH_GROUP_SUM("movi v\\i\\().2d, #0\n") "1:\n"

/* acc to v12 to v23 and back: op is ldp or stp. */
#define MOVE_ACC(op)                                                                                                   \
    op " q12,q13,[%[acc]]\n" op " q14,q15,[%[acc],#32]\n" op " q16,q17,[%[acc],#64]\n" op " q18,q19,[%[acc],#96]\n" op \
       " q20,q21,[%[acc],#128]\n" op " q22,q23,[%[acc],#160]\n"

#define NEXT_BLOCK(w_stride, d_stride) \
    "add %[w], %[w], " w_stride "\n"   \
    "add %[x], %[x],#192\n"            \
    "add %[d], %[d],#" d_stride "\n"   \
    "subs %[count], %[count],#1\n"     \
    "b.ne 1b\n"

/* The dx of six rows as lanes, v28 to v30. */
#define LOAD_DX                   \
    "ldr d28, [%[dx]]\n"          \
    "ldr d29, [%[dx],#8]\n"       \
    "ldr d30, [%[dx],#16]\n"      \
    "zip1 v28.4s,v28.4s,v28.4s\n" \
    "zip1 v29.4s,v29.4s,v29.4s\n" \
    "zip1 v30.4s,v30.4s,v30.4s\n"

/* acc = fma(s, dx, acc), two vectors at a time. */
#define ADD_PAIR(offset, s0, s1, dx)     \
    "ldp q0,q1,[%[acc],#" offset "]\n"   \
    "fmla v0.4s,v" s0 ".4s,v" dx ".4s\n" \
    "fmla v1.4s,v" s1 ".4s,v" dx ".4s\n" \
    "stp q0,q1,[%[acc],#" offset "]\n"

#define ADD_GROUP                                                                                             \
    LOAD_DX ADD_PAIR("0", "12", "13", "28") ADD_PAIR("32", "14", "15", "28") ADD_PAIR("64", "16", "17", "29") \
        ADD_PAIR("96", "18", "19", "29") ADD_PAIR("128", "20", "21", "30") ADD_PAIR("160", "22", "23", "30")

/* The whole numbers t become s = float(t) * d, and with minima s += float(u) * -m, where u is ready. (A string may have
 * 4095 characters: so .irp here, and no spaces after the commas above.) */
#define LOAD_FOUR(pointer)             \
    "ldp q24, q25, [%[" pointer "]]\n" \
    "ldp q26, q27, [%[" pointer "],#32]\n"
#define TO_FLOAT(sums, d) \
    ".irp i," sums "\n scvtf v\\i\\().4s,v\\i\\().4s\n fmul v\\i\\().4s,v\\i\\().4s,v" d ".4s\n.endr\n"
#define FLOAT_GROUP    \
    LOAD_FOUR("scale") \
    TO_FLOAT("12,16,20", "24") TO_FLOAT("13,17,21", "25") TO_FLOAT("14,18,22", "26") TO_FLOAT("15,19,23", "27")
#define MINIMA_PAIR(offset, s0, m0, s1, m1) \
    "ldp q0,q1,[%[u],#" offset "]\n"        \
    "fmla v" s0 ".4s,v0.4s,v" m0 ".4s\n"    \
    "fmla v" s1 ".4s,v1.4s,v" m1 ".4s\n"
#define MINIMA_GROUP                          \
    LOAD_FOUR("minimum")                      \
    MINIMA_PAIR("0", "12", "24", "13", "25")  \
    MINIMA_PAIR("32", "14", "26", "15", "27") \
    MINIMA_PAIR("64", "16", "24", "17", "25") \
    MINIMA_PAIR("96", "18", "26", "19", "27") \
    MINIMA_PAIR("128", "20", "24", "21", "25") MINIMA_PAIR("160", "22", "26", "23", "27")

#define GROUP_REGISTERS                                                                                                \
    "v0", "v1", "v2", "v3", "v4", "v5", "v6", "v7", "v8", "v9", "v10", "v11", "v12", "v13", "v14", "v15", "v16",       \
        "v17", "v18", "v19", "v20", "v21", "v22", "v23", "v24", "v25", "v26", "v27", "v28", "v29", "v30", "v31", "cc", \
        "memory"

/* acc += what blocks give, for 6 rows and a type without minima. */
I8MM_INLINE void add_blocks(float32x4_t acc[PAIRS_MAX][4], const icp_tile *tile)
{
    static const float bias[4] = {ARM_BIAS, ARM_BIAS, ARM_BIAS, ARM_BIAS};
    const block_scales *scales = tile->chunk->scales;
    const int8_t *w = tile->chunk->quants;
    const int8_t *x = tile->rows.quants;
    const float *d = scales->d[0].lane;
    const float *start = scales->with.start[0].lane;
    const float *dx = tile->rows.scales;
    uint64_t count = tile->block_count;
    __asm__ volatile(MOVE_ACC("ldp") "1:\n" START_BIAS STEPS_01 STEPS_23 LOAD_DX SCALE_BLOCKS "add %[dx],%[dx],#24\n"
                                     "add %[start],%[start],#64\n" NEXT_BLOCK("%[stride]", "64") MOVE_ACC("stp")
                     : [w] "+r"(w), [x] "+r"(x), [d] "+r"(d), [start] "+r"(start), [dx] "+r"(dx), [count] "+r"(count)
                     : [stride] "r"(tile->chunk->quants_stride), [bias] "r"(bias), [acc] "r"(acc)
                     : GROUP_REGISTERS);
}

/* The same of a K type with minima; u is float(sum of minima times sums of blocks). */
I8MM_INLINE void add_super(float32x4_t acc[PAIRS_MAX][4], const int8_t *w, const int8_t *x, const super_group *group,
                           const float *dx, float32x4_t u[PAIRS_MAX][4])
{
    const int32_t *d = group->scales[0][0].lane;
    uint64_t count = ICP_GROUP_BLOCKS;
    __asm__ volatile(BEGIN_GROUP START_ZERO STEPS_01 STEPS_23 SCALE("0", "16", "32", "48") NEXT_BLOCK("#256", "128")
                         FLOAT_GROUP MINIMA_GROUP ADD_GROUP
                     : [w] "+r"(w), [x] "+r"(x), [d] "+r"(d), [count] "+r"(count)
                     : [acc] "r"(acc), [dx] "r"(dx), [scale] "r"(&group->d), [minimum] "r"(&group->m), [u] "r"(u)
                     : GROUP_REGISTERS);
}

/* The same of Q6_K: two scales for a block, no minima. */
I8MM_INLINE void add_halves(float32x4_t acc[PAIRS_MAX][4], const int8_t *w, const int8_t *x, const super_group *group,
                            const float *dx)
{
    const int32_t *d = group->scales[0][0].lane;
    uint64_t count = ICP_GROUP_BLOCKS;
    __asm__ volatile(BEGIN_GROUP START_ZERO STEPS_01 SCALE("0", "16", "32", "48")
                         START_ZERO STEPS_23 SCALE("64", "80", "96", "112") NEXT_BLOCK("#256", "128")
                             FLOAT_GROUP ADD_GROUP
                     : [w] "+r"(w), [x] "+r"(x), [d] "+r"(d), [count] "+r"(count)
                     : [acc] "r"(acc), [dx] "r"(dx), [scale] "r"(&group->d)
                     : GROUP_REGISTERS);
}

/* One value for each row, [lanes], as smmla's lanes. */
ARM_INLINE float32x4_t pair_rows(const float *values, int pair)
{
    float32x2_t two = vld1_f32(values + pair * 2);
    return vcombine_f32(vdup_lane_f32(two, 0), vdup_lane_f32(two, 1));
}

ARM_INLINE void load_acc(const icp_tile *tile, float32x4_t acc[PAIRS_MAX][4], const int PAIRS)
{
    ARM_UNROLL
    for (int p = 0; p < PAIRS; p++) {
        const float *first = tile->acc + (size_t)p * 2 * tile->acc_stride;
        const float *second = first + tile->acc_stride;
        ARM_UNROLL
        for (int j = 0; j < 4; j++) acc[p][j] = vcombine_f32(vld1_f32(first + j * 2), vld1_f32(second + j * 2));
    }
}

ARM_INLINE void store_acc(const icp_tile *tile, float32x4_t acc[PAIRS_MAX][4], const int PAIRS)
{
    ARM_UNROLL
    for (int p = 0; p < PAIRS; p++) {
        float *first = tile->acc + (size_t)p * 2 * tile->acc_stride;
        float *second = first + tile->acc_stride;
        ARM_UNROLL
        for (int j = 0; j < 4; j++) {
            vst1_f32(first + j * 2, vget_low_f32(acc[p][j]));
            vst1_f32(second + j * 2, vget_high_f32(acc[p][j]));
        }
    }
}

I8MM_INLINE void tile_blocks(const icp_tile *tile, const bool HAS_MINIMA, const int PAIRS)
{
    const block_scales *scales = tile->chunk->scales;
    const int8_t *w = tile->chunk->quants;
    const int8_t *x = tile->rows.quants;
    const float *dx = tile->rows.scales;
    const float *sums = tile->rows.sums;
    const float32x4_t bias = vdupq_n_f32(ARM_BIAS);
    float32x4_t acc[PAIRS_MAX][4];
    load_acc(tile, acc, PAIRS);
    if (!HAS_MINIMA && PAIRS == PAIRS_MAX) add_blocks(acc, tile);
    for (uint32_t block = 0; (HAS_MINIMA || PAIRS != PAIRS_MAX) && block < tile->block_count; block++) {
        int32x4_t sum[PAIRS_MAX][4];
        ARM_UNROLL
        for (int i = 0; i < 4 * PAIRS; i++) sum[i / 4][i % 4] = vdupq_n_s32(BIAS_BITS);
        add_steps(sum, w, x, 4, PAIRS);
        ARM_UNROLL
        for (int i = 0; i < 4 * PAIRS; i++) {
            float32x4_t value = vsubq_f32(vreinterpretq_f32_s32(sum[i / 4][i % 4]), bias);
            float32x4_t s = vfmaq_f32(vdupq_n_f32(0), value, vld1q_f32(scales->d[block].lane + i % 4 * 4));
            float32x4_t m = vld1q_f32(scales->with.m[block].lane + i % 4 * 4);
            if (HAS_MINIMA) s = vfmaq_f32(s, pair_rows(sums, i / 4), m);
            acc[i / 4][i % 4] = vfmaq_f32(acc[i / 4][i % 4], s, pair_rows(dx, i / 4));
        }
        w += tile->chunk->quants_stride;
        x += 64 * PAIRS;
        dx += 2 * PAIRS;
        sums += 2 * PAIRS;
    }
    store_acc(tile, acc, PAIRS);
}

/* float(u), u the sum of minima times sums of blocks, which come as 64 * a + b. |u| < 2^22, so it becomes a float like
 * the sums of a block. */
I8MM_INLINE void sum_minima(float32x4_t out[PAIRS_MAX][4], const int8_t *all, const int8_t *split, const int PAIRS)
{
    const int32x4_t start = vdupq_n_s32(BIAS_BITS);
    ARM_UNROLL
    for (int i = 0; i < 4 * PAIRS; i++) {
        int8x16_t minima = vld1q_s8(all + i % 4 * 16);
        int32x4_t upper = mmla(vdupq_n_s32(0), vld1q_s8(split + i / 4 * 16), minima);
        int32x4_t u = vaddq_s32(start, vshlq_n_s32(upper, 6));
        u = mmla(u, vld1q_s8(split + (PAIRS + i / 4) * 16), minima);
        out[i / 4][i % 4] = vsubq_f32(vreinterpretq_f32_s32(u), vdupq_n_f32(ARM_BIAS));
    }
}

/* The t of a group, for fewer rows than add_super and add_halves take. */
I8MM_INLINE void sum_super(int32x4_t t[PAIRS_MAX][4], const int8_t *w, const int8_t *x, const super_group *group,
                           const int SCALES, const int PAIRS)
{
    ARM_UNROLL
    for (int i = 0; i < 4 * PAIRS; i++) t[i / 4][i % 4] = vdupq_n_s32(0);
    for (uint32_t b = 0; b < ICP_GROUP_BLOCKS; b++, w += 256) {
        ARM_UNROLL
        for (int part = 0; part < SCALES; part++, x += 64 * PAIRS / SCALES) {
            int32x4_t sum[PAIRS_MAX][4];
            ARM_UNROLL
            for (int i = 0; i < 4 * PAIRS; i++) sum[i / 4][i % 4] = vdupq_n_s32(0);
            add_steps(sum, w + part * 256 / SCALES, x, 4 / SCALES, PAIRS);
            ARM_UNROLL
            for (int i = 0; i < 4 * PAIRS; i++) {
                int32x4_t scale = vld1q_s32(group->scales[b][part].lane + i % 4 * 4);
                t[i / 4][i % 4] = vmlaq_s32(t[i / 4][i % 4], sum[i / 4][i % 4], scale);
            }
        }
    }
}

I8MM_INLINE void tile_super(const icp_tile *tile, const bool HAS_MINIMA, const int SCALES, const int PAIRS)
{
    const super_group *group = tile->chunk->scales;
    const int8_t *w = tile->chunk->quants;
    const int8_t *x = tile->rows.quants;
    const int8_t *split = tile->rows.split;
    const float *dx = tile->rows.scales;
    float32x4_t acc[PAIRS_MAX][4], u[PAIRS_MAX][4];
    load_acc(tile, acc, PAIRS);
    for (uint32_t block = 0; block < tile->block_count; block += ICP_GROUP_BLOCKS, group++) {
        if (HAS_MINIMA) sum_minima(u, group->minima, split, PAIRS);
        if (PAIRS == PAIRS_MAX) {
            if (HAS_MINIMA) add_super(acc, w, x, group, dx, u);
            if (!HAS_MINIMA) add_halves(acc, w, x, group, dx);
        } else {
            int32x4_t t[PAIRS_MAX][4];
            sum_super(t, w, x, group, SCALES, PAIRS);
            ARM_UNROLL
            for (int i = 0; i < 4 * PAIRS; i++) {
                float32x4_t s = vmulq_f32(vcvtq_f32_s32(t[i / 4][i % 4]), vld1q_f32(group->d.lane + i % 4 * 4));
                if (HAS_MINIMA) s = vfmaq_f32(s, u[i / 4][i % 4], vld1q_f32(group->m.lane + i % 4 * 4));
                acc[i / 4][i % 4] = vfmaq_f32(acc[i / 4][i % 4], s, pair_rows(dx, i / 4));
            }
        }
        w += ICP_GROUP_BLOCKS * 256;
        x += ICP_GROUP_BLOCKS * ICP_BLOCK_VALUES * tile->rows.lanes;
        split += 32 * PAIRS;
        dx += 2 * PAIRS;
    }
    store_acc(tile, acc, PAIRS);
}

/* Each is a function of its own, so that its registers are. */
#define TILE(name, call)                                                      \
    TARGET_I8MM static __attribute__((noinline)) void name(const icp_tile *t) \
    {                                                                         \
        call;                                                                 \
    }
TILE(tile_blocks_6, tile_blocks(t, false, 3))
TILE(tile_blocks_4, tile_blocks(t, false, 2))
TILE(tile_blocks_2, tile_blocks(t, false, 1))
TILE(tile_minima_6, tile_blocks(t, true, 3))
TILE(tile_minima_4, tile_blocks(t, true, 2))
TILE(tile_minima_2, tile_blocks(t, true, 1))
TILE(tile_super_6, tile_super(t, true, 1, 3))
TILE(tile_super_4, tile_super(t, true, 1, 2))
TILE(tile_super_2, tile_super(t, true, 1, 1))
TILE(tile_halves_6, tile_super(t, false, 2, 3))
TILE(tile_halves_4, tile_super(t, false, 2, 2))
TILE(tile_halves_2, tile_super(t, false, 2, 1))
#undef TILE

static void tile(const icp_tile *t)
{
    static void (*const tiles[2][2][PAIRS_MAX])(const icp_tile *) = {
        {{tile_blocks_2, tile_blocks_4, tile_blocks_6}, {tile_minima_2, tile_minima_4, tile_minima_6}},
        {{tile_halves_2, tile_halves_4, tile_halves_6}, {tile_super_2, tile_super_4, tile_super_6}},
    };
    tiles[t->format->is_super][t->format->has_minima][t->rows.lanes / 2 - 1](t);
}

/* ---- Few rows --------------------------------------------------------------------------------------------- */

/* What a tile does, but quants are expanded between their load and smmla, and scales are put into lanes here: for a few
 * rows that costs less than writing a chunk and reading it again. */

/* Values of 8 columns as smmla's lanes, for columns j and the next. */
ARM_INLINE float32x4_t pair_columns(float32x4x2_t values, int j)
{
    float64x2_t pairs = vreinterpretq_f64_f32(values.val[j / 2]);
    return vreinterpretq_f32_f64(j % 2 == 0 ? vdupq_laneq_f64(pairs, 0) : vdupq_laneq_f64(pairs, 1));
}

ARM_INLINE int32x4_t pair_scales(int32x4x2_t values, int j)
{
    int64x2_t pairs = vreinterpretq_s64_s32(values.val[j / 2]);
    return vreinterpretq_s32_s64(j % 2 == 0 ? vdupq_laneq_s64(pairs, 0) : vdupq_laneq_s64(pairs, 1));
}

/* Steps of 8 values, the quants of which are in registers. */
I8MM_INLINE void add_quants(int32x4_t sum[PAIRS_MAX][4], const int8x16_t *w, const int8_t *x, const int STEPS,
                            const int PAIRS)
{
    ARM_UNROLL
    for (int i = 0; i < STEPS * PAIRS; i++) {
        int8x16_t rows = vld1q_s8(x + i * 16);
        ARM_UNROLL
        for (int j = 0; j < 4; j++) sum[i % PAIRS][j] = mmla(sum[i % PAIRS][j], rows, w[i / PAIRS * 4 + j]);
    }
}

ARM_INLINE void store_few(const icp_few *few, float32x4_t acc[PAIRS_MAX][4], const int PAIRS)
{
    const icp_tile tile = {.acc = few->acc, .acc_stride = few->acc_stride};
    store_acc(&tile, acc, PAIRS);
}

I8MM_INLINE void few_blocks(const icp_few *few, icp_weight_type type, const int PAIRS)
{
    const bool has_minima = arm_has_minima(type);
    const size_t quant_bytes = arm_quant_bytes(type);
    const uint8_t *w = few->packed;
    const int8_t *x = few->rows.quants;
    const float *dx = few->rows.scales;
    const float *sums = few->rows.sums;
    float32x4_t acc[PAIRS_MAX][4];
    ARM_UNROLL
    for (int i = 0; i < 4 * PAIRS; i++) acc[i / 4][i % 4] = vdupq_n_f32(0);
    for (uint32_t block = 0; block < few->block_count; block++) {
        int8x16_t quants[ARM_BLOCK_VECTORS];
        int32x4_t sum[PAIRS_MAX][4];
        ARM_UNROLL
        for (int i = 0; i < 4 * PAIRS; i++) sum[i / 4][i % 4] = arm_zero();
        arm_expand(type, w, quants);
        add_quants(sum, quants, x, 4, PAIRS);
        float32x4x2_t d = arm_halves(w + quant_bytes);
        float32x4x2_t m = arm_halves(w + quant_bytes + (has_minima ? 16 : 0));
        ARM_UNROLL
        for (int i = 0; i < 4 * PAIRS; i++) {
            float32x4_t value = arm_float(type, sum[i / 4][i % 4]);
            float32x4_t s = vfmaq_f32(arm_zero_floats(), value, pair_columns(d, i % 4));
            if (has_minima) s = vfmaq_f32(s, pair_rows(sums, i / 4), pair_columns(m, i % 4));
            acc[i / 4][i % 4] = vfmaq_f32(acc[i / 4][i % 4], s, pair_rows(dx, i / 4));
        }
        w += quant_bytes + (has_minima ? 32 : 16);
        x += 64 * PAIRS;
        dx += 2 * PAIRS;
        sums += 2 * PAIRS;
    }
    store_few(few, acc, PAIRS);
}

I8MM_INLINE void few_super(const icp_few *few, icp_weight_type type, const int PAIRS)
{
    const bool has_minima = arm_has_minima(type);
    const int scale_count = has_minima ? 1 : 2;
    const uint8_t *w = few->packed;
    const int8_t *x = few->rows.quants;
    const int8_t *split = few->rows.split;
    const float *dx = few->rows.scales;
    float32x4_t acc[PAIRS_MAX][4], u[PAIRS_MAX][4];
    ARM_UNROLL
    for (int i = 0; i < 4 * PAIRS; i++) acc[i / 4][i % 4] = vdupq_n_f32(0);
    for (uint32_t block = 0; block < few->block_count; block += ICP_GROUP_BLOCKS) {
        const uint8_t *head = w;
        int32x4_t t[PAIRS_MAX][4];
        ARM_UNROLL
        for (int i = 0; i < 4 * PAIRS; i++) t[i / 4][i % 4] = vdupq_n_s32(0);
        w += has_minima ? 96 : 16;
        for (uint32_t b = 0; b < ICP_GROUP_BLOCKS; b++) {
            int8x16_t quants[ARM_BLOCK_VECTORS];
            arm_expand(type, w, quants);
            w += arm_quant_bytes(type);
            ARM_UNROLL
            for (int part = 0; part < scale_count; part++, x += 64 * PAIRS / scale_count, w += ARM_COLUMNS) {
                int32x4_t sum[PAIRS_MAX][4];
                ARM_UNROLL
                for (int i = 0; i < 4 * PAIRS; i++) sum[i / 4][i % 4] = arm_zero();
                add_quants(sum, quants + part * 8, x, 4 / scale_count, PAIRS);
                int32x4x2_t scales = arm_scales(w);
                ARM_UNROLL
                for (int i = 0; i < 4 * PAIRS; i++) {
                    t[i / 4][i % 4] = vmlaq_s32(t[i / 4][i % 4], sum[i / 4][i % 4], pair_scales(scales, i % 4));
                }
            }
        }
        if (has_minima) sum_minima(u, (const int8_t *)head + 32, split, PAIRS);
        float32x4x2_t d = arm_halves(head);
        float32x4x2_t m = arm_halves(head + (has_minima ? 16 : 0));
        ARM_UNROLL
        for (int i = 0; i < 4 * PAIRS; i++) {
            float32x4_t s = vmulq_f32(arm_float(type, t[i / 4][i % 4]), pair_columns(d, i % 4));
            if (has_minima) s = vfmsq_f32(s, u[i / 4][i % 4], pair_columns(m, i % 4));
            acc[i / 4][i % 4] = vfmaq_f32(acc[i / 4][i % 4], s, pair_rows(dx, i / 4));
        }
        split += 32 * PAIRS;
        dx += 2 * PAIRS;
    }
    store_few(few, acc, PAIRS);
}

#define FEW(name, body)                                                                  \
    TARGET_I8MM static __attribute__((noinline)) void few_##name##_2(const icp_few *few) \
    {                                                                                    \
        body(few, ICP_WEIGHT_##name, 1);                                                 \
    }                                                                                    \
    TARGET_I8MM static __attribute__((noinline)) void few_##name##_4(const icp_few *few) \
    {                                                                                    \
        body(few, ICP_WEIGHT_##name, 2);                                                 \
    }                                                                                    \
    TARGET_I8MM static __attribute__((noinline)) void few_##name##_6(const icp_few *few) \
    {                                                                                    \
        body(few, ICP_WEIGHT_##name, 3);                                                 \
    }
FEW(Q8_0, few_blocks)
FEW(Q4_0, few_blocks)
FEW(Q4_1, few_blocks)
FEW(Q5_0, few_blocks)
FEW(Q5_1, few_blocks)
FEW(Q4_K, few_super)
FEW(Q5_K, few_super)
FEW(Q6_K, few_super)
#undef FEW

#define FEW(name) [ICP_WEIGHT_##name] = {few_##name##_2, few_##name##_4, few_##name##_6}
static void few_rows(const icp_few *few)
{
    static void (*const functions[][PAIRS_MAX])(const icp_few *) = {FEW(Q8_0), FEW(Q4_0), FEW(Q4_1), FEW(Q5_0),
                                                                    FEW(Q5_1), FEW(Q4_K), FEW(Q5_K), FEW(Q6_K)};
    functions[few->type][few->rows.lanes / 2 - 1](few);
}
#undef FEW

/* ---- One row ---------------------------------------------------------------------------------------------- */

/* Sums of products of the row and 8 columns over some steps of 8 values. */
I8MM_INLINE int32x4x2_t dot_steps(const int8x16_t *w, const int8_t *x, const int STEPS)
{
    int32x4_t sum[4];
    ARM_UNROLL
    for (int j = 0; j < 4; j++) sum[j] = arm_zero();
    ARM_UNROLL
    for (int step = 0; step < STEPS; step++) {
        int8x16_t row = vld1q_s8(x + step * 16);
        ARM_UNROLL
        for (int j = 0; j < 4; j++) sum[j] = dot(sum[j], w[step * 4 + j], row);
    }
    return (int32x4x2_t){{vpaddq_s32(sum[0], sum[1]), vpaddq_s32(sum[2], sum[3])}};
}

I8MM_INLINE void vector_blocks(icp_weight_type type, const icp_row_part *rows, const uint8_t *w, uint32_t block_count,
                               float *out)
{
    const bool has_minima = arm_has_minima(type);
    const size_t quant_bytes = arm_quant_bytes(type);
    const int8_t *x = rows->quants;
    float32x4_t acc[2] = {vdupq_n_f32(0), vdupq_n_f32(0)};
    for (uint32_t block = 0; block < block_count; block++, x += 64) {
        float32x4_t dx = vdupq_n_f32(rows->scales[(size_t)block * 2]);
        float32x4_t s[2];
        int8x16_t quants[ARM_BLOCK_VECTORS];
        arm_expand(type, w, quants);
        int32x4x2_t sum = dot_steps(quants, x, 4);
        float32x4x2_t d = arm_halves(w + quant_bytes);
        ARM_UNROLL
        for (int h = 0; h < 2; h++) s[h] = vfmaq_f32(arm_zero_floats(), arm_float(type, sum.val[h]), d.val[h]);
        if (has_minima) {
            float32x4x2_t m = arm_halves(w + quant_bytes + 16);
            ARM_UNROLL
            for (int h = 0; h < 2; h++) s[h] = vfmaq_n_f32(s[h], m.val[h], rows->sums[(size_t)block * 2]);
        }
        w += quant_bytes + (has_minima ? 32 : 16);
        ARM_UNROLL
        for (int h = 0; h < 2; h++) acc[h] = vfmaq_f32(acc[h], s[h], dx);
    }
    vst1q_f32(out, acc[0]);
    vst1q_f32(out + 4, acc[1]);
}

I8MM_INLINE void vector_super(icp_weight_type type, const icp_row_part *rows, const uint8_t *w, uint32_t block_count,
                              float *out)
{
    const bool has_minima = arm_has_minima(type);
    const int scale_count = has_minima ? 1 : 2;
    const size_t quant_bytes = arm_quant_bytes(type);
    const int8_t *x = rows->quants;
    const int8_t *split = rows->split;
    float32x4_t acc[2] = {vdupq_n_f32(0), vdupq_n_f32(0)};
    for (uint32_t block = 0; block < block_count; block += ICP_GROUP_BLOCKS, split += 32) {
        const uint8_t *head = w;
        int32x4_t t[2] = {vdupq_n_s32(0), vdupq_n_s32(0)};
        w += has_minima ? 96 : 16;
        for (uint32_t b = 0; b < ICP_GROUP_BLOCKS; b++) {
            int8x16_t quants[ARM_BLOCK_VECTORS];
            arm_expand(type, w, quants);
            w += quant_bytes;
            ARM_UNROLL
            for (int part = 0; part < scale_count; part++, x += 64 / scale_count, w += ARM_COLUMNS) {
                int32x4x2_t sum = dot_steps(quants + part * 8, x, 4 / scale_count);
                int32x4x2_t scale = arm_scales(w);
                ARM_UNROLL
                for (int h = 0; h < 2; h++) t[h] = vmlaq_s32(t[h], sum.val[h], scale.val[h]);
            }
        }
        float32x4_t dx = vdupq_n_f32(rows->scales[block / ICP_GROUP_BLOCKS * 2]);
        float32x4x2_t d = arm_halves(head);
        float32x4_t s[2];
        ARM_UNROLL
        for (int h = 0; h < 2; h++) s[h] = vmulq_f32(arm_float(type, t[h]), d.val[h]);
        if (has_minima) {
            float32x4x2_t m = arm_halves(head + 16);
            int32x4_t u[4];
            ARM_UNROLL
            for (int j = 0; j < 4; j++) {
                int8x16_t minima = vreinterpretq_s8_u8(vld1q_u8(head + 32 + j * 16));
                u[j] = vshlq_n_s32(dot(vdupq_n_s32(0), minima, vld1q_s8(split)), 6);
                u[j] = dot(u[j], minima, vld1q_s8(split + 16));
            }
            s[0] = vfmsq_f32(s[0], vcvtq_f32_s32(vpaddq_s32(u[0], u[1])), m.val[0]);
            s[1] = vfmsq_f32(s[1], vcvtq_f32_s32(vpaddq_s32(u[2], u[3])), m.val[1]);
        }
        ARM_UNROLL
        for (int h = 0; h < 2; h++) acc[h] = vfmaq_f32(acc[h], s[h], dx);
    }
    vst1q_f32(out, acc[0]);
    vst1q_f32(out + 4, acc[1]);
}

TARGET_I8MM static void vector_panel(icp_weight_type type, const icp_row_part *rows, const uint8_t *w,
                                     uint32_t block_count, float *out)
{
    ARM_VECTOR_OF_TYPE(type, rows, w, block_count, out)
}

static void vector(const icp_vector *v)
{
    icp_arm_vector(v, vector_panel);
}

static bool is_supported(void)
{
    return icp_cpu_has_i8mm() && icp_cpu_has_dotprod();
}

const icp_kernels icp_kernels_i8mm = {
    .name = "i8mm",
    .is_supported = is_supported,
    .panel_columns = ARM_COLUMNS,
    .step = 8,
    .tile_rows = 6,
    .tile_lanes = {0, 2, 2, 4, 4, 6, 6},
    .float_tile_rows = ARM_FLOAT_TILE_ROWS,
    .chunk_bytes = sizeof(chunk_scratch),
    .quantise = icp_arm_quantise,
    .unpack = unpack,
    .tile = tile,
    .widen = icp_arm_widen,
    .float_tile = icp_arm_float_tile,
    .transpose = icp_arm_transpose,
    .vector = vector,
    .few = few_rows,
    .few_rows = 12,
};

#else
typedef int icp_matrix_arm_i8mm_is_empty; /* ISO C asks for a declaration */
#endif
