/* math_half.h - floats to halves, as keys and values are stored.
 *
 * Rounded to the nearest, ties to even, as hardware does it; but what does not fit saturates to the largest finite
 * half instead of becoming infinite. A key or value that large comes from a model that was not made for halves; as an
 * infinity it would turn every later row of its sequence into NaN (infinity - infinity in the softmax, 0 * infinity in
 * the sum), as 65504 it costs precision in one place. NaN stays NaN. */
#ifndef ICP_BACKEND_MATH_HALF_H
#define ICP_BACKEND_MATH_HALF_H

#include "backend/half.h"

#define ICP_HALF_MAX 65504.0f

static inline uint16_t icp_half_from_float(float value)
{
    uint32_t bits = icp_float_to_bits(value);
    uint16_t sign = (uint16_t)(bits >> 16 & 0x8000u);
    float size = icp_float_from_bits(bits & 0x7fffffffu);
    if (size != size) return sign | 0x7e00u;
    if (size >= ICP_HALF_MAX) return sign | 0x7bffu;
    /* 0.5 has the unit of a subnormal half in its last place: the addition rounds, the subtraction leaves the units */
    if (size < 0x1p-14f) return sign | (uint16_t)(icp_float_to_bits(size + 0.5f) - 0x3f000000u);

    uint32_t rounded = (bits & 0x7fffffffu) + 0xfffu + (bits >> 13 & 1u);
    return sign | (uint16_t)((rounded >> 13) - (112u << 10));
}

#endif
