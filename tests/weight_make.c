/* weight_make.c - floats as each of the weight types, for tests: model_make_encode.
 *
 * Layouts as in the files: a half is little-endian; a block of 32 has its scale first. Of a 4-bit byte, the low half is
 * a value of the first half of the block. Rounding is to the nearest; scales are chosen from the extremes. */
#include "model_make.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static uint16_t half_of(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof(bits));
    uint32_t sign = bits >> 16 & 0x8000u;
    double magnitude = fabs((double)value);
    if (magnitude >= 65520) return (uint16_t)(sign | 0x7c00u);
    int exponent = magnitude > 0 ? ilogb(magnitude) : -14;
    if (exponent < -14) exponent = -14;                        /* subnormal: a step of 2^-24 */
    double steps = nearbyint(ldexp(magnitude, 10 - exponent)); /* 1024 and up where normal; 2048: the next exponent */
    uint32_t code = (uint32_t)steps + ((uint32_t)(exponent + 14) << 10);
    return (uint16_t)(sign | code);
}

static float half_value(uint16_t half)
{
    int exponent = half >> 10 & 31;
    float fraction = (float)(half & 1023);
    float value = exponent == 0 ? ldexpf(fraction, -24) : ldexpf(fraction + 1024, exponent - 25);
    return half & 0x8000u ? -value : value;
}

static uint16_t bfloat_of(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof(bits));
    return (uint16_t)((bits + 0x7fffu + (bits >> 16 & 1)) >> 16);
}

static void put16(uint8_t *out, uint16_t number)
{
    out[0] = (uint8_t)number;
    out[1] = (uint8_t)(number >> 8);
}

/* The nearest whole number of steps from base, within [low, high]. */
static int steps(float value, float base, float step, int low, int high)
{
    float count = step > 0 || step < 0 ? nearbyintf((value - base) / step) : 0;
    if (count < (float)low) return low;
    return count > (float)high ? high : (int)count;
}

static void range_of(const float *x, uint32_t count, float *least, float *most)
{
    *least = x[0];
    *most = x[0];
    for (uint32_t i = 1; i < count; i++) {
        *least = fminf(*least, x[i]);
        *most = fmaxf(*most, x[i]);
    }
}

/* ---- Blocks of 32 ------------------------------------------------------------------------------------------ */

/* Q4_0, Q4_1, Q5_0, Q5_1: bits of 4 or 5, with a minimum or around the middle. */
static size_t encode_nibbles(const float *x, uint8_t *out, int bits, bool has_minimum)
{
    float least;
    float most;
    range_of(x, 32, &least, &most);
    int top = (1 << bits) - 1;
    int middle = has_minimum ? 0 : 1 << (bits - 1);
    float size = fmaxf(fabsf(least), fabsf(most));
    uint16_t d = half_of(has_minimum ? (most - least) / (float)top : size / (float)(middle - 1));
    uint16_t m = half_of(has_minimum ? least : 0);
    uint8_t *at = out;
    put16(at, d);
    at += 2;
    if (has_minimum) put16(at, m);
    at += has_minimum ? 2 : 0;
    uint8_t *high = at;
    at += bits == 5 ? 4 : 0;
    memset(high, 0, (size_t)(at - high) + 16);
    for (uint32_t i = 0; i < 32; i++) {
        int q = steps(x[i], half_value(m), half_value(d), -middle, top - middle) + middle;
        at[i % 16] |= (uint8_t)((q & 15) << (i < 16 ? 0 : 4));
        if (bits == 5) high[i / 8] |= (uint8_t)(q >> 4 << i % 8);
    }
    return (size_t)(at - out) + 16;
}

static size_t encode_q8(const float *x, uint8_t *out)
{
    float least;
    float most;
    range_of(x, 32, &least, &most);
    uint16_t d = half_of(fmaxf(fabsf(least), fabsf(most)) / 127);
    put16(out, d);
    for (uint32_t i = 0; i < 32; i++) out[2 + i] = (uint8_t)steps(x[i], 0, half_value(d), -127, 127);
    return 34;
}

/* ---- Blocks of 256 ----------------------------------------------------------------------------------------- */

/* Eight scales and eight minima of six bits in twelve bytes: four of each in the low bits of the first eight bytes,
 * then the low halves of the others, whose two upper bits go above those of the first eight. */
static void put_scales(uint8_t out[12], const int scales[8], const int minima[8])
{
    for (uint32_t i = 0; i < 4; i++) {
        out[i] = (uint8_t)(scales[i] | scales[i + 4] >> 4 << 6);
        out[i + 4] = (uint8_t)(minima[i] | minima[i + 4] >> 4 << 6);
        out[i + 8] = (uint8_t)((scales[i + 4] & 15) | (minima[i + 4] & 15) << 4);
    }
}

/* Q4_K, Q5_K: value = d * scale * q - dmin * minimum, a scale and a minimum for each 32. */
static size_t encode_k(const float *x, uint8_t *out, int bits)
{
    float widths[8];
    float depths[8]; /* how far below 0 */
    float width_most = 0;
    float depth_most = 0;
    int top = (1 << bits) - 1;
    for (uint32_t b = 0; b < 8; b++) {
        float least;
        float most;
        range_of(x + 32 * b, 32, &least, &most);
        depths[b] = fmaxf(-least, 0);
        widths[b] = (most + depths[b]) / (float)top;
        width_most = fmaxf(width_most, widths[b]);
        depth_most = fmaxf(depth_most, depths[b]);
    }
    uint16_t d = half_of(width_most / 63);
    uint16_t dmin = half_of(depth_most / 63);
    put16(out, d);
    put16(out + 2, dmin);
    uint8_t *high = out + 16;
    uint8_t *low = bits == 5 ? high + 32 : high;
    memset(high, 0, (size_t)(low - high) + 128);
    int scales[8];
    int minima[8];
    for (uint32_t b = 0; b < 8; b++) {
        scales[b] = steps(widths[b], 0, half_value(d), 0, 63);
        minima[b] = steps(depths[b], 0, half_value(dmin), 0, 63);
        float step = half_value(d) * (float)scales[b];
        float base = -half_value(dmin) * (float)minima[b];
        for (uint32_t i = 0; i < 32; i++) {
            int q = steps(x[32 * b + i], base, step, 0, top);
            low[b / 2 * 32 + i] |= (uint8_t)((q & 15) << (b % 2 == 0 ? 0 : 4));
            if (bits == 5) high[i] |= (uint8_t)(q >> 4 << b);
        }
    }
    put_scales(out + 4, scales, minima);
    return (size_t)(low - out) + 128;
}

/* Q6_K: value = d * scale * (q - 32), a scale of eight bits for each 16. Low halves, upper bits, scales, d. */
static size_t encode_q6_k(const float *x, uint8_t *out)
{
    memset(out, 0, 210);
    float sizes[16];
    float most_of_all = 0;
    for (uint32_t b = 0; b < 16; b++) {
        float least;
        float most;
        range_of(x + 16 * b, 16, &least, &most);
        sizes[b] = fmaxf(fabsf(least), fabsf(most)) / 31;
        most_of_all = fmaxf(most_of_all, sizes[b]);
    }
    uint16_t d = half_of(most_of_all / 127);
    put16(out + 208, d);
    for (uint32_t b = 0; b < 16; b++) {
        int scale = steps(sizes[b], 0, half_value(d), 0, 127);
        if (b % 3 == 1) scale = -scale; /* scales have a sign, so it is used */
        out[192 + b] = (uint8_t)scale;
        for (uint32_t i = 16 * b; i < 16 * b + 16; i++) {
            int q = steps(x[i], 0, half_value(d) * (float)scale, -32, 31) + 32;
            uint32_t half = i / 128;
            uint32_t quarter = i % 128 / 32;
            out[half * 64 + quarter % 2 * 32 + i % 32] |= (uint8_t)((q & 15) << quarter / 2 * 4);
            out[128 + half * 32 + i % 32] |= (uint8_t)(q >> 4 << 2 * quarter);
        }
    }
    return 210;
}

static size_t encode_block(icp_weight_type type, const float *x, uint8_t *out)
{
    switch (type) {
    case ICP_WEIGHT_F32:
        memcpy(out, x, 4);
        return 4;
    case ICP_WEIGHT_F16:
        put16(out, half_of(*x));
        return 2;
    case ICP_WEIGHT_BF16:
        put16(out, bfloat_of(*x));
        return 2;
    case ICP_WEIGHT_Q4_0:
        return encode_nibbles(x, out, 4, false);
    case ICP_WEIGHT_Q4_1:
        return encode_nibbles(x, out, 4, true);
    case ICP_WEIGHT_Q5_0:
        return encode_nibbles(x, out, 5, false);
    case ICP_WEIGHT_Q5_1:
        return encode_nibbles(x, out, 5, true);
    case ICP_WEIGHT_Q8_0:
        return encode_q8(x, out);
    case ICP_WEIGHT_Q4_K:
        return encode_k(x, out, 4);
    case ICP_WEIGHT_Q5_K:
        return encode_k(x, out, 5);
    case ICP_WEIGHT_Q6_K:
        return encode_q6_k(x, out);
    }
    abort();
}

size_t model_make_encode(icp_weight_type type, const float *values, size_t count, uint8_t *out)
{
    size_t bytes = 0;
    for (size_t i = 0; i < count; i += icp_weight_block_values(type))
        bytes += encode_block(type, values + i, out + bytes);
    return bytes;
}
