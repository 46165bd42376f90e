/* math_neon.c - the functions of math.h for aarch64, where NEON with fused multiply-add and conversions from half are
 * part of the base instruction set.
 *
 * The product works on tiles of 4 rows by 16 lanes: 16 sums, 4 vectors of b, 4 of a: 28 of 32 registers, and one load
 * for every 3.2 multiply-adds. */
#include "backend/math.h"

#if defined(__aarch64__)

#include <arm_neon.h>

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
#define vec_size(x) vabsq_f32(x)
#define vec_sign(size, x) vbslq_f32(vdupq_n_u32(0x80000000u), x, size)

static inline vec vec_shift(vec y, vec n)
{
    uint32x4_t power = vshlq_n_u32(vreinterpretq_u32_f32(n), 23);
    return vreinterpretq_f32_u32(vaddq_u32(vreinterpretq_u32_f32(y), power));
}

#include "backend/math_body.h"

/* A tile is rows x 16 sums, rows a constant once inlined; each sum is named by constants, so that every compiler keeps
 * it in a register (clang 14 does not where rows are a loop: a third of the speed). */
typedef struct tile_sums {
    float32x4_t v[4][4]; /* [row][lanes / 4] */
} tile_sums;

#define EACH_ROW(macro, lane)     \
    if (rows > 0) macro(0, lane); \
    if (rows > 1) macro(1, lane); \
    if (rows > 2) macro(2, lane); \
    if (rows > 3) macro(3, lane)

#define LOAD_SUMS(r, unused)                                                          \
    do {                                                                              \
        const float factor = self->factors == NULL ? 1.0f : self->factors[row + (r)]; \
        sums.v[r][0] = vmulq_n_f32(vld1q_f32(c + (r)*c_stride), factor);              \
        sums.v[r][1] = vmulq_n_f32(vld1q_f32(c + (r)*c_stride + 4), factor);          \
        sums.v[r][2] = vmulq_n_f32(vld1q_f32(c + (r)*c_stride + 8), factor);          \
        sums.v[r][3] = vmulq_n_f32(vld1q_f32(c + (r)*c_stride + 12), factor);         \
    } while (0)

#define CLEAR_SUMS(r, unused) sums.v[r][0] = sums.v[r][1] = sums.v[r][2] = sums.v[r][3] = vdupq_n_f32(0.0f)

#define STORE_SUMS(r, unused)                           \
    do {                                                \
        vst1q_f32(c + (r)*c_stride, sums.v[r][0]);      \
        vst1q_f32(c + (r)*c_stride + 4, sums.v[r][1]);  \
        vst1q_f32(c + (r)*c_stride + 8, sums.v[r][2]);  \
        vst1q_f32(c + (r)*c_stride + 12, sums.v[r][3]); \
    } while (0)

#define ADD_PRODUCTS(r, lane)                                           \
    do {                                                                \
        sums.v[r][0] = vfmaq_laneq_f32(sums.v[r][0], w[0], a[r], lane); \
        sums.v[r][1] = vfmaq_laneq_f32(sums.v[r][1], w[1], a[r], lane); \
        sums.v[r][2] = vfmaq_laneq_f32(sums.v[r][2], w[2], a[r], lane); \
        sums.v[r][3] = vfmaq_laneq_f32(sums.v[r][3], w[3], a[r], lane); \
    } while (0)

#define LOAD_FACTORS(r, k) a[r] = vld1q_f32(a_rows + (r)*a_stride + (k))
#define LOAD_FACTOR(r, k) a[r] = vld1q_dup_f32(a_rows + (r)*a_stride + (k))

/* 16 values of b at k, floats or halves. */
BODY void load_lanes(const icp_product *self, float32x4_t w[4], size_t at)
{
    if (self->b != NULL) {
        const float *b = self->b + at;
        w[0] = vld1q_f32(b);
        w[1] = vld1q_f32(b + 4);
        w[2] = vld1q_f32(b + 8);
        w[3] = vld1q_f32(b + 12);
    } else {
        float16x8_t low = vreinterpretq_f16_u16(vld1q_u16(self->b_halves + at));
        float16x8_t high = vreinterpretq_f16_u16(vld1q_u16(self->b_halves + at + 8));
        w[0] = vcvt_f32_f16(vget_low_f16(low));
        w[1] = vcvt_high_f32_f16(low);
        w[2] = vcvt_f32_f16(vget_low_f16(high));
        w[3] = vcvt_high_f32_f16(high);
    }
}

/* One k, whose factors are in a lane of a[], a constant. */
#define STEP(lane)                    \
    do {                              \
        float32x4_t w[4];             \
        load_lanes(self, w, b);       \
        b += b_stride;                \
        EACH_ROW(ADD_PRODUCTS, lane); \
    } while (0)

/* Up to 4 rows and one slab. */
BODY void product_tile(const icp_product *self, uint32_t row, uint32_t slab, const uint32_t rows)
{
    const size_t b_stride = self->b_stride;
    const size_t a_stride = self->a_stride;
    const size_t c_stride = self->c_stride;
    const float *a_rows = self->a + row * a_stride;
    float *c = self->c + row * c_stride + slab * LANES;
    size_t b = slab * self->b_slab;
    float32x4_t a[4];
    tile_sums sums;
    if (self->is_sum) {
        EACH_ROW(LOAD_SUMS, 0);
    } else {
        EACH_ROW(CLEAR_SUMS, 0);
    }
    uint32_t k = 0;
    for (; k + 4 <= self->depth; k += 4) {
        EACH_ROW(LOAD_FACTORS, k);
        STEP(0);
        STEP(1);
        STEP(2);
        STEP(3);
    }
    for (; k < self->depth; k++) {
        EACH_ROW(LOAD_FACTOR, k);
        STEP(0);
    }
    EACH_ROW(STORE_SUMS, 0);
}

BODY void product_slabs(const icp_product *self)
{
    for (uint32_t slab = 0; slab < self->slab_count; slab++) { /* a slab of b stays in the first cache for all rows */
        uint32_t row = 0;
        for (; row + 4 <= self->row_count; row += 4) product_tile(self, row, slab, 4);
        if (self->row_count - row == 3) product_tile(self, row, slab, 3);
        if (self->row_count - row == 2) product_tile(self, row, slab, 2);
        if (self->row_count - row == 1) product_tile(self, row, slab, 1);
    }
}

/* Of which kind b is is known to the compiler in each of the two. */
static void neon_product(const icp_product *self)
{
    icp_product known = *self;
    if (self->b_halves == NULL) {
        known.b_halves = NULL;
        if (known.b != NULL) product_slabs(&known);
    } else {
        known.b = NULL;
        product_slabs(&known);
    }
}

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

#endif
