/* half.h - 16-bit floats as they lie in model files, in plain C: IEEE half and bfloat16, to float and exact.
 *
 * Kernels for a machine that has the conversion use its instruction; the result is the same for every number. */
#ifndef ICP_BACKEND_HALF_H
#define ICP_BACKEND_HALF_H

#include <stdint.h>
#include <string.h>

static inline float icp_float_from_bits(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof(value));
    return value;
}

static inline uint32_t icp_float_to_bits(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof(bits));
    return bits;
}

static inline float icp_bfloat_to_float(uint16_t bits)
{
    return icp_float_from_bits((uint32_t)bits << 16);
}

/* A number with a small exponent is a whole multiple of 2^-24; the others have their exponent moved. A NaN becomes
 * quiet and keeps its payload, as the instructions do it. */
static inline float icp_half_to_float(uint16_t bits)
{
    uint32_t sign = (uint32_t)(bits & 0x8000u) << 16;
    uint32_t exponent = (bits >> 10) & 31u;
    uint32_t fraction = bits & 1023u;
    if (exponent == 0) {
        float magnitude = (float)fraction * 0x1p-24f;
        return sign != 0 ? -magnitude : magnitude;
    }
    if (exponent == 31) {
        uint32_t quiet = fraction != 0 ? 1u << 22 : 0;
        return icp_float_from_bits(sign | 0x7f800000u | quiet | fraction << 13);
    }
    return icp_float_from_bits(sign | (exponent + 112u) << 23 | fraction << 13);
}

#endif
