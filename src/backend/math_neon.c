/* math_neon.c - the functions of math.h for aarch64, where NEON with fused multiply-add and conversions from half are
 * part of the base instruction set; and a set whose product uses fmlal, where the machine has it. */
#include "backend/math.h"

#if defined(__aarch64__)

#include <arm_neon.h>

#if defined(__clang__)
#define TARGET_FMLAL __attribute__((target("fullfp16,fp16fml")))
#else
#define TARGET_FMLAL __attribute__((target("arch=armv8.2-a+fp16fml")))
#endif

#define WIDTH 4u
#define TARGET
typedef float32x4_t vec;

#define vec_load(x) vld1q_f32(x)
#define vec_store(x, value) vst1q_f32(x, value)
#define vec_set(x) vdupq_n_f32(x)
#define vec_add(a, b) vaddq_f32(a, b)
#define vec_sub(a, b) vsubq_f32(a, b)
#define vec_mul(a, b) vmulq_f32(a, b)
#define vec_div(a, b) vdivq_f32(a, b)
#define vec_fma(a, b, c) vfmaq_f32(c, a, b)
#define vec_above(a, b, x, y) vbslq_f32(vcgtq_f32(a, b), x, y)
#define vec_max(a, b) vmaxq_f32(a, b)
#define vec_top(x) vmaxvq_f32(x)
/* Loaded each time: fmla adds to its own register, so a constant would be copied first, in the units that multiply (a
 * softmax takes a sixth longer). */
#define vec_fresh(x)                                                                   \
    __extension__({                                                                    \
        static const float four[4] = {x, x, x, x};                                     \
        vec fresh;                                                                     \
        __asm__ volatile("ldr %q0, %1" : "=w"(fresh) : "m"(*(const float(*)[4])four)); \
        fresh;                                                                         \
    })
#define vec_size(x) vabsq_f32(x)
#define vec_sign(size, x) vbslq_f32(vdupq_n_u32(0x80000000u), x, size)

static inline vec vec_shift(vec y, vec n)
{
    uint32x4_t power = vshlq_n_u32(vreinterpretq_u32_f32(n), 23);
    return vreinterpretq_f32_u32(vaddq_u32(vreinterpretq_u32_f32(y), power));
}

#include "backend/math_body.h"

/* ---- Product ------------------------------------------------------------------------------------------- */

/* A tile in registers, in assembly: from C, compilers reach two thirds of the speed (clang 14 a third).
 *
 *      v0 to v15    sums: up to 4 rows x 16 lanes, or up to 8 rows x 8
 *      v16 to v19   16 or 8 values of b at k, and halves on their way
 *      v24 to v31   factors of each row, for 4 k
 *
 *      x0 to x7     where the factors of each row are read
 *      x8, x9, x10  where b is read, k left to do, where c is read
 *      x11          what is wanted next
 *
 * Rows below are what is known of one: its number, its sums, its factors. */
#define ROWS16_1(m, x) m(x, 0, 0, 1, 2, 3, 24)
#define ROWS16_2(m, x) ROWS16_1(m, x) m(x, 1, 4, 5, 6, 7, 25)
#define ROWS16_3(m, x) ROWS16_2(m, x) m(x, 2, 8, 9, 10, 11, 26)
#define ROWS16_4(m, x) ROWS16_3(m, x) m(x, 3, 12, 13, 14, 15, 27)
#define ROWS8_4(m, x) m(x, 0, 0, 1, 24) m(x, 1, 2, 3, 25) m(x, 2, 4, 5, 26) m(x, 3, 6, 7, 27)
#define ROWS8_5(m, x) ROWS8_4(m, x) m(x, 4, 8, 9, 28)
#define ROWS8_6(m, x) ROWS8_5(m, x) m(x, 5, 10, 11, 29)
#define ROWS8_7(m, x) ROWS8_6(m, x) m(x, 6, 12, 13, 30)
#define ROWS8_8(m, x) ROWS8_7(m, x) m(x, 7, 14, 15, 31)

#define FMA(sum, b, factor, lane) "fmla v" #sum ".4s, v" #b ".4s, v" #factor ".s[" #lane "]\n"
#define FMAS16(lane, r, s0, s1, s2, s3, f) \
    FMA(s0, 16, f, lane) FMA(s1, 17, f, lane) FMA(s2, 18, f, lane) FMA(s3, 19, f, lane)
#define FMAS8(lane, r, s0, s1, f) FMA(s0, 16, f, lane) FMA(s1, 17, f, lane)

#define CLEAR(sum) "movi v" #sum ".2d, #0\n"
#define CLEAR16(x, r, s0, s1, s2, s3, f) CLEAR(s0) CLEAR(s1) CLEAR(s2) CLEAR(s3)
#define CLEAR8(x, r, s0, s1, f) CLEAR(s0) CLEAR(s1)

/* c * factor of the row */
#define SCALE(sum) "fmul v" #sum ".4s, v" #sum ".4s, v20.s[0]\n"
#define LOAD16(x, r, s0, s1, s2, s3, f)                                                                \
    "ldr s20, [%[factors]], #4\n ldp q" #s0 ", q" #s1 ", [x10]\n ldp q" #s2 ", q" #s3 ", [x10, #32]\n" \
    "add x10, x10, %[c_stride]\n" SCALE(s0) SCALE(s1) SCALE(s2) SCALE(s3)
#define LOAD8(x, r, s0, s1, f)                                    \
    "ldr s20, [%[factors]], #4\n ldp q" #s0 ", q" #s1 ", [x10]\n" \
    "add x10, x10, %[c_stride]\n" SCALE(s0) SCALE(s1)
#define STORE16(x, r, s0, s1, s2, s3, f) \
    "stp q" #s0 ", q" #s1 ", [%[c]]\n stp q" #s2 ", q" #s3 ", [%[c], #32]\n add %[c], %[c], %[c_stride]\n"
#define STORE8(x, r, s0, s1, f) "stp q" #s0 ", q" #s1 ", [%[c]]\n add %[c], %[c], %[c_stride]\n"

/* Factors of 4 k, or of one. */
#define FACTORS16(kind, r, s0, s1, s2, s3, f) FACTORS8(kind, r, s0, s1, f)
#define FACTORS8(kind, r, s0, s1, f) "ldr " #kind #f ", [x" #r "], " FACTOR_BYTES_##kind "\n"
#define FACTOR_BYTES_q "#16"
#define FACTOR_BYTES_s "#4"

/* b at k, which is 16 values behind the one before: floats; halves by fcvtl; halves by fmlal, as -0 + half * 1 (from
 * +0, a half of -0 would lose its sign), which Neoverse-V1 does two of a cycle where it does one fcvtl. The -0 comes
 * from memory: the units for it are idle. NEXT: behind 4 k, or one; the run that is wanted next is asked for at this
 * pace, since all of it at once would stop the loads of this one. */
#define FLOATS16(lane) "ldp q16, q17, [x8, #64 * " #lane "]\n ldp q18, q19, [x8, #64 * " #lane " + 32]\n"
#define FLOATS16_NEXT4 "add x8, x8, #256\n"
#define FLOATS16_NEXT1 "add x8, x8, #64\n"
#define FCVTL16(lane)                                                                      \
    "ldp q20, q21, [x8, #32 * " #lane "]\n fcvtl v16.4s, v20.4h\n fcvtl2 v17.4s, v20.8h\n" \
    "fcvtl v18.4s, v21.4h\n fcvtl2 v19.4s, v21.8h\n"
#define FMLAL16(lane)                                                                                         \
    "ldp q20, q21, [x8, #32 * " #lane "]\n ldr q16, [%[zeros]]\n ldr q17, [%[zeros]]\n ldr q18, [%[zeros]]\n" \
    "ldr q19, [%[zeros]]\n fmlal v16.4s, v20.4h, v22.4h\n fmlal2 v17.4s, v20.4h, v22.4h\n"                    \
    "fmlal v18.4s, v21.4h, v22.4h\n fmlal2 v19.4s, v21.4h, v22.4h\n"
#define FCVTL8(lane) "ldr q18, [x8, #32 * " #lane "]\n fcvtl v16.4s, v18.4h\n fcvtl2 v17.4s, v18.8h\n"
#define FMLAL8(lane)                                                               \
    "ldr q18, [x8, #32 * " #lane "]\n ldr q16, [%[zeros]]\n ldr q17, [%[zeros]]\n" \
    "fmlal v16.4s, v18.4h, v22.4h\n fmlal2 v17.4s, v18.4h, v22.4h\n"
#define HALVES_NEXT4 "prfm pldl2keep, [x11]\n prfm pldl2keep, [x11, #64]\n add x11, x11, #128\n add x8, x8, #128\n"
#define HALVES_NEXT1 "add x8, x8, #32\n"
#define FCVTL16_NEXT4 HALVES_NEXT4
#define FMLAL16_NEXT4 HALVES_NEXT4
#define FCVTL8_NEXT4 HALVES_NEXT4
#define FMLAL8_NEXT4 HALVES_NEXT4
#define FCVTL16_NEXT1 HALVES_NEXT1
#define FMLAL16_NEXT1 HALVES_NEXT1
#define FCVTL8_NEXT1 HALVES_NEXT1
#define FMLAL8_NEXT1 HALVES_NEXT1

/* What a tile multiplies: runs of b that follow one another in k. */
typedef struct tile {
    const float *a;          /* the first row */
    size_t a_stride;         /* in bytes */
    const void *const *runs; /* [run_count] */
    size_t run_count;
    const void *const *ahead; /* [run_count]: wanted next */
    size_t b_offset;          /* in bytes: of the tile's lanes in each run */
    size_t depth;             /* of each run */
    float *c;                 /* of the first row */
    size_t c_stride;          /* in bytes */
    bool is_sum;
    const float *factors; /* of its rows */
} tile;

typedef void tile_fn(const tile *self);

static const float minus_zeros[4] = {-0.0f, -0.0f, -0.0f, -0.0f};
static const float no_factors[8] = {1.0f, 1.0f, 1.0f, 1.0f, 1.0f, 1.0f, 1.0f, 1.0f};

#define TILE_STEP(kind, rows, load_b, lane) load_b(lane) ROWS##kind##_##rows(FMAS##kind, lane)

/* A tile is longer than the strings that every compiler must take; ours take it. */
#pragma GCC diagnostic ignored "-Woverlength-strings"

#define TILE(name, kind, rows, load_b)                                                                                \
    static void name(const tile *self)                                                                                \
    {                                                                                                                 \
        const void *const *runs = self->runs;                                                                         \
        const void *const *ahead = self->ahead;                                                                       \
        size_t run_count = self->run_count;                                                                           \
        float *c = self->c;                                                                                           \
        const float *factors = self->factors == NULL ? no_factors : self->factors;                                    \
        __asm__ volatile(                                                                                             \
            "mov x0, %[a]\n add x1, x0, %[a_stride]\n add x2, x1, %[a_stride]\n add x3, x2, %[a_stride]\n"            \
            "add x4, x3, %[a_stride]\n add x5, x4, %[a_stride]\n add x6, x5, %[a_stride]\n"                           \
            "add x7, x6, %[a_stride]\n mov x10, %[c]\n movi v22.8h, #0x3c, lsl #8\n"                                  \
            "cbnz %w[is_sum], 1f\n" ROWS##kind##_##rows(                                                              \
                CLEAR##kind, 0) "b 2f\n"                                                                              \
                                "1:\n" ROWS##kind##_##rows(                                                           \
                                    LOAD##kind,                                                                       \
                                    0) "2: ldr x8, [%[runs]], #8\n add x8, x8, %[b_offset]\n ldr x11, [%[ahead]], "   \
                                       "#8\n add x11, x11, %[b_offset]\n lsr x9, %[depth], #2\n cbz x9, 4f\n"         \
                                       "3:\n" ROWS##kind##_##rows(FACTORS##kind, q) TILE_STEP(kind, rows, load_b, 0)  \
                                           TILE_STEP(kind, rows, load_b, 1) TILE_STEP(kind, rows, load_b, 2)          \
                                               TILE_STEP(kind, rows, load_b, 3) load_b##_NEXT4                        \
            "subs x9, x9, #1\n b.ne 3b\n"                                                                             \
            "4: ands x9, %[depth], #3\n b.eq 6f\n"                                                                    \
            "5:\n" ROWS##kind##_##rows(FACTORS##kind, s) TILE_STEP(kind, rows, load_b, 0) load_b##_NEXT1              \
            "subs x9, x9, #1\n b.ne 5b\n"                                                                             \
            "6: subs %[run_count], %[run_count], #1\n b.ne 2b\n" ROWS##kind##_##rows(STORE##kind, 0)                  \
            :                                                                                                         \
            [runs] "+r"(runs), [ahead] "+r"(ahead), [run_count] "+r"(run_count), [c] "+r"(c), [factors] "+r"(factors) \
            : [a] "r"(self->a), [a_stride] "r"(self->a_stride), [b_offset] "r"(self->b_offset),                       \
              [depth] "r"(self->depth), [c_stride] "r"(self->c_stride), [is_sum] "r"((uint32_t)self->is_sum),         \
              [zeros] "r"(minus_zeros)                                                                                \
            : "x0", "x1", "x2", "x3", "x4", "x5", "x6", "x7", "x8", "x9", "x10", "x11", "v0", "v1", "v2", "v3", "v4", \
              "v5", "v6", "v7", "v8", "v9", "v10", "v11", "v12", "v13", "v14", "v15", "v16", "v17", "v18", "v19",     \
              "v20", "v21", "v22", "v24", "v25", "v26", "v27", "v28", "v29", "v30", "v31", "cc", "memory");           \
    }

/* Tiles of 1 to 8 rows. Many rows of floats go best by 4 x 16; 5 to 8 rows of halves by 8 x 8, so that halves are
 * widened once for all of them. */
typedef struct tiles {
    tile_fn *floats[4];
    tile_fn *halves[8];
} tiles;

TILE(floats_1, 16, 1, FLOATS16)
TILE(floats_2, 16, 2, FLOATS16)
TILE(floats_3, 16, 3, FLOATS16)
TILE(floats_4, 16, 4, FLOATS16)
TILE(fcvtl_1, 16, 1, FCVTL16)
TILE(fcvtl_2, 16, 2, FCVTL16)
TILE(fcvtl_3, 16, 3, FCVTL16)
TILE(fcvtl_4, 16, 4, FCVTL16)
TILE(fcvtl_5, 8, 5, FCVTL8)
TILE(fcvtl_6, 8, 6, FCVTL8)
TILE(fcvtl_7, 8, 7, FCVTL8)
TILE(fcvtl_8, 8, 8, FCVTL8)
TARGET_FMLAL TILE(fmlal_1, 16, 1, FMLAL16)
TARGET_FMLAL TILE(fmlal_2, 16, 2, FMLAL16)
TARGET_FMLAL TILE(fmlal_3, 16, 3, FMLAL16)
TARGET_FMLAL TILE(fmlal_4, 16, 4, FMLAL16)
TARGET_FMLAL TILE(fmlal_5, 8, 5, FMLAL8)
TARGET_FMLAL TILE(fmlal_6, 8, 6, FMLAL8)
TARGET_FMLAL TILE(fmlal_7, 8, 7, FMLAL8)
TARGET_FMLAL TILE(fmlal_8, 8, 8, FMLAL8)

    static const tiles tiles_fcvtl = {
        {floats_1, floats_2, floats_3, floats_4},
        {fcvtl_1, fcvtl_2, fcvtl_3, fcvtl_4, fcvtl_5, fcvtl_6, fcvtl_7, fcvtl_8},
};
static const tiles tiles_fmlal = {
    {floats_1, floats_2, floats_3, floats_4},
    {fmlal_1, fmlal_2, fmlal_3, fmlal_4, fmlal_5, fmlal_6, fmlal_7, fmlal_8},
};

/* The k that tiles of one slab go through: all, or a part of a run, whole runs, a part of a run. */
typedef struct part {
    const void *const *runs;
    const void *const *ahead;
    size_t run_count;
    size_t depth;  /* of each run */
    size_t offset; /* in bytes, of the slab's first k */
} part;

static void multiply_part(const icp_product *self, const tiles *set, uint32_t slab, uint32_t k, const part *from)
{
    const bool is_half = self->b == NULL;
    tile now = {.a_stride = self->a_stride * sizeof(float),
                .runs = from->runs,
                .ahead = from->ahead,
                .run_count = from->run_count,
                .depth = from->depth,
                .c_stride = self->c_stride * sizeof(float),
                .is_sum = self->is_sum || k != 0};
    const uint32_t rows_max = is_half ? 8 : 4;
    for (uint32_t row = 0, rows; row < self->row_count; row += rows) {
        rows = self->row_count - row < rows_max ? self->row_count - row : rows_max;
        now.a = self->a + row * self->a_stride + k;
        now.factors = self->factors == NULL || k != 0 ? NULL : self->factors + row;
        now.c = self->c + row * self->c_stride + slab * LANES;
        now.b_offset = from->offset;
        tile_fn *fn = is_half ? set->halves[rows - 1] : set->floats[rows - 1];
        fn(&now);
        if (rows <= 4) continue;
        now.c += 8;
        now.b_offset += 8 * sizeof(uint16_t);
        fn(&now);
    }
}

static inline void product(const icp_product *self, const tiles *set)
{
    for (uint32_t slab = 0; slab < self->slab_count; slab++) { /* a slab of b stays in the first cache for all rows */
        const void *const *runs = (const void *const *)self->b_runs;
        const void *const *ahead = self->b_ahead == NULL ? runs : (const void *const *)self->b_ahead;
        if (self->b != NULL) {
            const void *b = self->b + slab * self->b_slab;
            multiply_part(self, set, slab, 0, &(part){&b, &b, 1, self->depth, 0});
        } else if (!self->is_sum) {
            multiply_part(self, set, slab, 0, &(part){runs + slab, ahead + slab, 1, self->depth, 0});
        } else {
            for (uint32_t k = 0, count; k < self->depth; k += count) {
                uint32_t at = self->b_first + k;
                uint32_t left = self->depth - k;
                uint32_t depth = LANES - at % LANES < left ? LANES - at % LANES : left;
                size_t offset = ((size_t)slab * LANES + at % LANES) * LANES * sizeof(uint16_t);
                part next = {runs + at / LANES, ahead + at / LANES, depth == LANES ? left / LANES : 1, depth, offset};
                count = (uint32_t)next.run_count * depth;
                multiply_part(self, set, slab, k, &next);
            }
        }
    }
}

static void neon_product(const icp_product *self)
{
    product(self, &tiles_fcvtl);
}

static void fmlal_product(const icp_product *self)
{
    product(self, &tiles_fmlal);
}

/* ---- Conversions ---------------------------------------------------------------------------------------- */

static void neon_floats_of_halves(float *out, const uint16_t *in, size_t count)
{
    for (size_t i = 0; i < count; i += LANES) {
        uint16x8_t low = vld1q_u16(in + i);
        uint16x8_t high = vld1q_u16(in + i + 8);
        vst1q_f32(out + i, vcvt_f32_f16(vreinterpret_f16_u16(vget_low_u16(low))));
        vst1q_f32(out + i + 4, vcvt_high_f32_f16(vreinterpretq_f16_u16(low)));
        vst1q_f32(out + i + 8, vcvt_f32_f16(vreinterpret_f16_u16(vget_low_u16(high))));
        vst1q_f32(out + i + 12, vcvt_high_f32_f16(vreinterpretq_f16_u16(high)));
    }
}

static void neon_floats_of_bytes(float *out, const int8_t *in, const float *scales)
{
    int8x16_t bytes = vld1q_s8(in);
    int16x8_t low = vmovl_s8(vget_low_s8(bytes));
    int16x8_t high = vmovl_high_s8(bytes);
    vst1q_f32(out, vmulq_f32(vcvtq_f32_s32(vmovl_s16(vget_low_s16(low))), vld1q_f32(scales)));
    vst1q_f32(out + 4, vmulq_f32(vcvtq_f32_s32(vmovl_high_s16(low)), vld1q_f32(scales + 4)));
    vst1q_f32(out + 8, vmulq_f32(vcvtq_f32_s32(vmovl_s16(vget_low_s16(high))), vld1q_f32(scales + 8)));
    vst1q_f32(out + 12, vmulq_f32(vcvtq_f32_s32(vmovl_high_s16(high)), vld1q_f32(scales + 12)));
}

const icp_math icp_math_neon = {
    .name = "neon",
    .product = neon_product,
    .softmax = math_softmax,
    .exponentials = math_exponentials,
    .gate = math_gate,
    .cap = math_cap,
    .floats_of_halves = neon_floats_of_halves,
    .floats_of_bytes = neon_floats_of_bytes,
};

const icp_math icp_math_fmlal = {
    .name = "fmlal",
    .product = fmlal_product,
    .softmax = math_softmax,
    .exponentials = math_exponentials,
    .gate = math_gate,
    .cap = math_cap,
    .floats_of_halves = neon_floats_of_halves,
    .floats_of_bytes = neon_floats_of_bytes,
};

#endif
