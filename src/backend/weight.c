/* weight.c - the types of weights that are supported, and their blocks as GGUF lays them out.
 *
 * Blocks of 32 values begin with a half d, then a half m where the type has one, then 32 high bits (Q5), then the
 * quants: byte j holds value j in its low and value j + 16 in its high nibble. Blocks of 256 ("K") keep scales of
 * sub-blocks, which are themselves whole numbers under d (and minima under m):
 *
 *      Q4_K, Q5_K   d m | 8 scales and 8 minima of 6 bits in 12 bytes | 32 bytes of high bits (Q5_K) | nibbles: the 32
 *                   bytes j hold sub-block 2j low and 2j + 1 high; bit i of a high byte belongs to sub-block i
 *      Q6_K         nibbles | high pairs | 16 scales of 8 bits | d; by halves of 128 values, see read_q6_k
 *
 * Decoding rounds once per value at most (the product d * scale is exact), so that the order of its operations does not
 * show. Pure functions; any thread. */
#include "backend/weight.h"

#include "backend/half.h"
#include "base/assert.h"

#include <string.h>

typedef struct weight_kind {
    const char *name;
    uint32_t block_values;
    uint32_t block_bytes;
} weight_kind;

static const weight_kind kinds[] = {
    [ICP_WEIGHT_F32] = {"F32", 1, 4},       [ICP_WEIGHT_F16] = {"F16", 1, 2},
    [ICP_WEIGHT_Q4_0] = {"Q4_0", 32, 18},   [ICP_WEIGHT_Q4_1] = {"Q4_1", 32, 20},
    [ICP_WEIGHT_Q5_0] = {"Q5_0", 32, 22},   [ICP_WEIGHT_Q5_1] = {"Q5_1", 32, 24},
    [ICP_WEIGHT_Q8_0] = {"Q8_0", 32, 34},   [ICP_WEIGHT_Q4_K] = {"Q4_K", 256, 144},
    [ICP_WEIGHT_Q5_K] = {"Q5_K", 256, 176}, [ICP_WEIGHT_Q6_K] = {"Q6_K", 256, 210},
    [ICP_WEIGHT_BF16] = {"BF16", 1, 2},
};

static weight_kind kind_of(icp_weight_type type)
{
    uint32_t number = (uint32_t)type;
    return number < sizeof(kinds) / sizeof(kinds[0]) ? kinds[number] : (weight_kind){0};
}

const char *icp_weight_name(icp_weight_type type)
{
    return kind_of(type).name;
}

uint32_t icp_weight_block_values(icp_weight_type type)
{
    return kind_of(type).block_values;
}

uint32_t icp_weight_block_bytes(icp_weight_type type)
{
    return kind_of(type).block_bytes;
}

/* ---- Blocks taken apart ---------------------------------------------------------------------------------- */

static uint16_t read_half(const uint8_t *bytes)
{
    return (uint16_t)(bytes[0] | bytes[1] << 8);
}

static void read_q8_0(const uint8_t *bytes, icp_weight_block *block)
{
    block->d = read_half(bytes);
    memcpy(block->quants, bytes + 2, 32);
}

/* 32 values of 4 bits, or of 5 where there are high bits; low is what the quant 0 stands for. */
static void read_nibbles(const uint8_t *bytes, uint32_t high, int low, icp_weight_block *block)
{
    for (uint32_t j = 0; j < 16; j++) {
        int first = (bytes[j] & 15) | (int)((high >> j) & 1u) << 4;
        int second = bytes[j] >> 4 | (int)((high >> (j + 16)) & 1u) << 4;
        block->quants[j] = (int8_t)(first + low);
        block->quants[j + 16] = (int8_t)(second + low);
    }
}

static uint32_t read_bits(const uint8_t *bytes)
{
    return bytes[0] | (uint32_t)bytes[1] << 8 | (uint32_t)bytes[2] << 16 | (uint32_t)bytes[3] << 24;
}

/* Numbers 0 to 3 have six bits in a byte of their own; of 4 to 7 four bits lie together and two above the others. */
static void read_scales_k(const uint8_t *bytes, icp_weight_block *block)
{
    for (uint32_t j = 0; j < 4; j++) {
        block->scales[j] = (int8_t)(bytes[j] & 63);
        block->minima[j] = (uint8_t)(bytes[j + 4] & 63);
        block->scales[j + 4] = (int8_t)((bytes[j + 8] & 15) | (bytes[j] >> 6) << 4);
        block->minima[j + 4] = (uint8_t)(bytes[j + 8] >> 4 | (bytes[j + 4] >> 6) << 4);
    }
}

/* high is NULL for Q4_K. */
static void read_quants_k(const uint8_t *low, const uint8_t *high, int8_t *quants)
{
    for (uint32_t sub = 0; sub < 8; sub++) {
        for (uint32_t i = 0; i < 32; i++) {
            uint32_t nibble = ((uint32_t)low[sub / 2 * 32 + i] >> (sub % 2 * 4)) & 15u;
            uint32_t bit = high == NULL ? 0 : ((uint32_t)high[i] >> sub) & 1u;
            quants[sub * 32 + i] = (int8_t)(nibble | bit << 4);
        }
    }
}

/* In each half of 128 values, value 32 * q + i has its nibble in byte 32 * (q % 2) + i, low for q < 2, and its upper
 * two bits in high byte i at 2 * q. */
static void read_q6_k(const uint8_t *bytes, icp_weight_block *block)
{
    for (uint32_t half = 0; half < 2; half++) {
        const uint8_t *low = bytes + half * 64;
        const uint8_t *high = bytes + 128 + half * 32;
        int8_t *quants = block->quants + half * 128;
        for (uint32_t q = 0; q < 4; q++) {
            for (uint32_t i = 0; i < 32; i++) {
                uint32_t nibble = ((uint32_t)low[q % 2 * 32 + i] >> (q / 2 * 4)) & 15u;
                uint32_t pair = ((uint32_t)high[i] >> (q * 2)) & 3u;
                quants[q * 32 + i] = (int8_t)((int)(nibble | pair << 4) - 32);
            }
        }
    }
    memcpy(block->scales, bytes + 192, 16);
    block->d = read_half(bytes + 208);
}

void icp_weight_block_read(icp_weight_type type, const uint8_t *bytes, icp_weight_block *block)
{
    block->m = 0;
    block->scales[0] = 1;
    if (type == ICP_WEIGHT_Q6_K) {
        read_q6_k(bytes, block);
        return;
    }
    block->d = read_half(bytes);
    if (type == ICP_WEIGHT_Q4_1 || type == ICP_WEIGHT_Q5_1 || type == ICP_WEIGHT_Q4_K || type == ICP_WEIGHT_Q5_K) {
        block->m = read_half(bytes + 2);
    }
    switch (type) {
    case ICP_WEIGHT_Q8_0:
        read_q8_0(bytes, block);
        return;
    case ICP_WEIGHT_Q4_0:
        read_nibbles(bytes + 2, 0, -8, block);
        return;
    case ICP_WEIGHT_Q4_1:
        read_nibbles(bytes + 4, 0, 0, block);
        return;
    case ICP_WEIGHT_Q5_0:
        read_nibbles(bytes + 6, read_bits(bytes + 2), -16, block);
        return;
    case ICP_WEIGHT_Q5_1:
        read_nibbles(bytes + 8, read_bits(bytes + 4), 0, block);
        return;
    case ICP_WEIGHT_Q4_K:
        read_scales_k(bytes + 4, block);
        read_quants_k(bytes + 16, NULL, block->quants);
        return;
    case ICP_WEIGHT_Q5_K:
        read_scales_k(bytes + 4, block);
        read_quants_k(bytes + 48, bytes + 16, block->quants);
        return;
    default:
        ICP_ASSERT(false && "a quantised type");
    }
}

/* ---- Values ---------------------------------------------------------------------------------------------- */

static void decode_block(icp_weight_type type, const icp_weight_block *block, float *values)
{
    uint32_t count = icp_weight_block_values(type);
    uint32_t run = type == ICP_WEIGHT_Q6_K ? 16 : 32;
    float d = icp_half_to_float(block->d);
    float m = icp_half_to_float(block->m);
    for (uint32_t i = 0; i < count; i++) {
        float scale = d * (float)block->scales[i / run];
        float value = scale * (float)block->quants[i];
        if (type == ICP_WEIGHT_Q4_1 || type == ICP_WEIGHT_Q5_1) value += m;
        if (type == ICP_WEIGHT_Q4_K || type == ICP_WEIGHT_Q5_K) value -= m * (float)block->minima[i / run];
        values[i] = value;
    }
}

static void decode_floats(icp_weight_type type, const uint8_t *bytes, float *values, size_t count)
{
    if (type == ICP_WEIGHT_F32) {
        memcpy(values, bytes, count * sizeof(*values));
        return;
    }
    for (size_t i = 0; i < count; i++) {
        uint16_t bits = read_half(bytes + i * 2);
        values[i] = type == ICP_WEIGHT_F16 ? icp_half_to_float(bits) : icp_bfloat_to_float(bits);
    }
}

void icp_weight_decode(icp_weight_type type, const void *data, float *values, size_t count)
{
    const weight_kind kind = kind_of(type);
    ICP_ASSERT(kind.name != NULL && count % kind.block_values == 0);
    if (kind.block_values == 1) {
        decode_floats(type, data, values, count);
        return;
    }
    const uint8_t *bytes = data;
    icp_weight_block block;
    for (size_t i = 0; i < count; i += kind.block_values) {
        icp_weight_block_read(type, bytes, &block);
        decode_block(type, &block, values + i);
        bytes += kind.block_bytes;
    }
}
