/* matrix_arm.h - what the sets of kernels for aarch64 share: expanding packed quants in registers, and loose ends.
 *
 * C = 8 columns in all of them, so a block of 32 values is 16 vectors of 16 quants, in the order E of kernel.h whatever
 * S is. The quants of signed types are expanded times a power of two, which costs nothing: they are shifted to the top
 * of their bytes and their sign comes along. 16 * 8 * 127 * 16 is still far from the end of an int32, and multiplying
 * by a power of two commutes with every rounding (no sum here is that large or that small), so dx is divided by it.
 *
 * Included by matrix_arm*.c only, on aarch64 only. */
#ifndef ICP_BACKEND_MATRIX_ARM_H
#define ICP_BACKEND_MATRIX_ARM_H

#if defined(__aarch64__)

#include "backend/kernel.h"

#include <arm_neon.h>
#include <string.h>

#define ARM_COLUMNS 8u
#define ARM_BLOCK_VECTORS 16u
#define ARM_BIAS 12582912.0f /* 1.5 * 2^23: see matrix_arm_i8mm.c */

#define ARM_INLINE static inline __attribute__((always_inline))
/* Before a loop over registers: -O2 alone would keep them in memory. */
#define ARM_UNROLL _Pragma("GCC unroll 16")

/* 1, or what quants of a type are multiplied by when they are expanded. */
ARM_INLINE float arm_unit(icp_weight_type type)
{
    switch (type) {
    case ICP_WEIGHT_Q4_0:
        return 16;
    case ICP_WEIGHT_Q5_0:
        return 8;
    case ICP_WEIGHT_Q6_K:
        return 4;
    default:
        return 1;
    }
}

/* The same for formats; they are constants where a type is. */
ARM_INLINE bool arm_has_minima(icp_weight_type type)
{
    return type == ICP_WEIGHT_Q4_1 || type == ICP_WEIGHT_Q5_1 || type == ICP_WEIGHT_Q4_K || type == ICP_WEIGHT_Q5_K;
}

/* Bytes of a packed block before its scales. */
ARM_INLINE size_t arm_quant_bytes(icp_weight_type type)
{
    switch (type) {
    case ICP_WEIGHT_Q8_0:
        return 256;
    case ICP_WEIGHT_Q6_K:
        return 192;
    case ICP_WEIGHT_Q5_0:
    case ICP_WEIGHT_Q5_1:
    case ICP_WEIGHT_Q5_K:
        return 160;
    default:
        return 128;
    }
}

/* Zeros. A compiler would copy them from a register that it keeps; the processor does a movi of 0 when it renames. */
ARM_INLINE int32x4_t arm_zero(void)
{
    int32x4_t zero;
    __asm__ volatile("movi %0.2d, #0" : "=w"(zero));
    return zero;
}

ARM_INLINE float32x4_t arm_zero_floats(void)
{
    return vreinterpretq_f32_s32(arm_zero());
}

/* Whole numbers as floats, divided by arm_unit, which costs nothing and is exact. */
ARM_INLINE float32x4_t arm_float(icp_weight_type type, int32x4_t value)
{
    switch (type) {
    case ICP_WEIGHT_Q4_0:
        return vcvtq_n_f32_s32(value, 4);
    case ICP_WEIGHT_Q5_0:
        return vcvtq_n_f32_s32(value, 3);
    case ICP_WEIGHT_Q6_K:
        return vcvtq_n_f32_s32(value, 2);
    default:
        return vcvtq_f32_s32(value);
    }
}

/* Left by count, or right where it is negative; the compiler sees a constant. */
ARM_INLINE uint8x16_t arm_shift(uint8x16_t value, int count)
{
    return vshlq_u8(value, vdupq_n_s8((int8_t)count));
}

/* Vector i of a block's 16: the low nibbles of packed vector i, or the high ones of packed vector i - 8. */
ARM_INLINE uint8x16_t arm_quant_4(const uint8_t *packed, bool is_signed, int i)
{
    uint8x16_t both = vld1q_u8(packed + i % 8 * 16);
    if (is_signed) return i < 8 ? arm_shift(both, 4) : vandq_u8(both, vdupq_n_u8(0xf0));
    return i < 8 ? vandq_u8(both, vdupq_n_u8(15)) : arm_shift(both, -4);
}

/* The fifth bit of vector i is bit i / 2 of the bytes of high vector i % 2. Shifts are what costs here: Neoverse V1
 * begins two in a cycle, of other operations four. So bits are put together by bit select (bsl), or by shift and insert
 * (sri) where that saves a shift. */
ARM_INLINE uint8x16_t arm_quant_5(const uint8_t *packed, bool is_signed, int i)
{
    uint8x16_t both = vld1q_u8(packed + i % 8 * 16);
    uint8x16_t bit = arm_shift(vld1q_u8(packed + 128 + i % 2 * 16), (is_signed ? 7 : 4) - i / 2);
    if (!is_signed) return vbslq_u8(vdupq_n_u8(16), bit, arm_quant_4(packed, false, i));
    if (i < 8) return vbslq_u8(vdupq_n_u8(0x80), bit, arm_shift(both, 3));
    return vandq_u8(vsriq_n_u8(bit, both, 1), vdupq_n_u8(0xf8));
}

/* The upper two bits of vector i are bits 2 * (i / 4) and the next of the bytes of high vector i % 4. */
ARM_INLINE uint8x16_t arm_quant_6(const uint8_t *packed, int i)
{
    uint8x16_t both = vld1q_u8(packed + i % 8 * 16);
    uint8x16_t bits = arm_shift(vld1q_u8(packed + 128 + i % 4 * 16), 6 - 2 * (i / 4));
    if (i < 8) return vbslq_u8(vdupq_n_u8(0xc0), bits, arm_shift(both, 2));
    return vandq_u8(vsriq_n_u8(bits, both, 2), vdupq_n_u8(0xfc));
}

/* Vector i of a block's quants; type and i are constants where this is called. */
ARM_INLINE int8x16_t arm_quant(icp_weight_type type, const uint8_t *packed, int i)
{
    switch (type) {
    case ICP_WEIGHT_Q4_0:
        return vreinterpretq_s8_u8(arm_quant_4(packed, true, i));
    case ICP_WEIGHT_Q4_1:
    case ICP_WEIGHT_Q4_K:
        return vreinterpretq_s8_u8(arm_quant_4(packed, false, i));
    case ICP_WEIGHT_Q5_0:
        return vreinterpretq_s8_u8(arm_quant_5(packed, true, i));
    case ICP_WEIGHT_Q5_1:
    case ICP_WEIGHT_Q5_K:
        return vreinterpretq_s8_u8(arm_quant_5(packed, false, i));
    case ICP_WEIGHT_Q6_K:
        return vreinterpretq_s8_u8(arm_quant_6(packed, i));
    default:
        return vreinterpretq_s8_u8(vld1q_u8(packed + i * 16));
    }
}

ARM_INLINE void arm_expand(icp_weight_type type, const uint8_t *packed, int8x16_t out[16])
{
    ARM_UNROLL
    for (int i = 0; i < (int)ARM_BLOCK_VECTORS; i++) out[i] = arm_quant(type, packed, i);
}

/* Eight halves as floats. */
ARM_INLINE float32x4x2_t arm_halves(const uint8_t *bytes)
{
    float16x8_t halves = vreinterpretq_f16_u8(vld1q_u8(bytes));
    return (float32x4x2_t){{vcvt_f32_f16(vget_low_f16(halves)), vcvt_f32_f16(vget_high_f16(halves))}};
}

/* Eight bytes as int32. */
ARM_INLINE int32x4x2_t arm_scales(const uint8_t *bytes)
{
    int16x8_t wide = vmovl_s8(vreinterpret_s8_u8(vld1_u8(bytes)));
    return (int32x4x2_t){{vmovl_s16(vget_low_s16(wide)), vmovl_s16(vget_high_s16(wide))}};
}

/* What needs no more than the base instruction set: matrix_arm.c. */
void icp_arm_quantise(const icp_kernels *kernels, const icp_row_part *part, const float *x, uint32_t columns);
void icp_arm_expand_block(icp_weight_type type, const uint8_t *packed, int8_t *quants);
void icp_arm_widen(icp_weight_type type, const uint8_t *packed, float *values, size_t count);
void icp_arm_float_tile(const icp_float_tile *tile);
void icp_arm_transpose(const float *x, size_t stride, uint32_t row_count, uint32_t k_count, float *out);
void icp_arm_float_vector(const icp_vector *vector);

#define ARM_FLOAT_TILE_ROWS 8u

/* One row against some panels; the body of panel, which computes one, is ARM_VECTOR_OF_TYPE. */
typedef void icp_arm_vector_panel(icp_weight_type type, const icp_row_part *rows, const uint8_t *w,
                                  uint32_t block_count, float *out);
void icp_arm_vector(const icp_vector *vector, icp_arm_vector_panel *panel);

#define ARM_VECTOR_CASE(name, function, rows, w, block_count, out) \
    case ICP_WEIGHT_##name:                                        \
        function(ICP_WEIGHT_##name, rows, w, block_count, out);    \
        return;
#define ARM_VECTOR_OF_TYPE(type, rows, w, block_count, out)             \
    switch (type) {                                                     \
        ARM_VECTOR_CASE(Q8_0, vector_blocks, rows, w, block_count, out) \
        ARM_VECTOR_CASE(Q4_0, vector_blocks, rows, w, block_count, out) \
        ARM_VECTOR_CASE(Q4_1, vector_blocks, rows, w, block_count, out) \
        ARM_VECTOR_CASE(Q5_0, vector_blocks, rows, w, block_count, out) \
        ARM_VECTOR_CASE(Q5_1, vector_blocks, rows, w, block_count, out) \
        ARM_VECTOR_CASE(Q4_K, vector_super, rows, w, block_count, out)  \
        ARM_VECTOR_CASE(Q5_K, vector_super, rows, w, block_count, out)  \
        ARM_VECTOR_CASE(Q6_K, vector_super, rows, w, block_count, out)  \
    default:                                                            \
        return;                                                         \
    }

#endif
#endif
