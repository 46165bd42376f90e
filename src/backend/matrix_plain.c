/* matrix_plain.c - every kernel in plain C: what runs where there is nothing better, and the oracle of the others.
 *
 * C = 8 columns, S = 32: the quants of a column lie together, and a tile is one row, so that the sums are loops over
 * 32 bytes of each. The operations on floats are those of matrix.h, in that order, and fmaf is fused everywhere. */
#include "backend/half.h"
#include "backend/kernel.h"

#include <math.h>
#include <string.h>

#define C 8u

/* A block unpacked; d and m of a K type's group are repeated in each block. */
typedef struct plain_block {
    float d[C];
    float m[C];
    int32_t scales[2][C];
    int32_t minima[C];
} plain_block;

typedef struct plain_scratch {
    int8_t quants[ICP_CHUNK_BLOCKS][ICP_BLOCK_VALUES * C];
    plain_block blocks[ICP_CHUNK_BLOCKS];
} plain_scratch;

static bool is_supported(void)
{
    return true;
}

/* ---- Rows ------------------------------------------------------------------------------------------------- */

/* The largest magnitude becomes 127. A group with an infinity or a NaN gets a NaN, which shows in all of the row's
 * outputs; one whose largest magnitude is under 2^-100 counts as zeros: kernels may divide the scale by 16. */
float icp_rows_scale(uint32_t largest, float *inverse)
{
    float magnitude = icp_float_from_bits(largest);
    *inverse = 0;
    if (largest >= 0x7f800000u) return icp_float_from_bits(0x7fc00000u);
    if (magnitude < 0x1p-100f) return 0;
    *inverse = 127.0f / magnitude;
    return magnitude / 127.0f;
}

static uint32_t largest_bits(const float *x, uint32_t count)
{
    uint32_t most = 0;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t bits = icp_float_to_bits(x[i]) & 0x7fffffffu;
        most = bits > most ? bits : most;
    }
    return most;
}

static void quantise_lane(const icp_kernels *kernels, const icp_row_part *part, const float *x, uint32_t columns,
                          uint32_t lane)
{
    uint32_t step = kernels->step;
    uint32_t step_split = step < 8 ? step : 8;
    uint32_t group_values = part->group_blocks * ICP_BLOCK_VALUES;
    float inverse = 0;
    for (uint32_t block = 0; block * ICP_BLOCK_VALUES < columns; block++) {
        uint32_t k = block * ICP_BLOCK_VALUES;
        if (block % part->group_blocks == 0) {
            uint32_t count = columns - k < group_values ? columns - k : group_values;
            float *scale = &part->scales[(size_t)block / part->group_blocks * part->lanes + lane];
            *scale = icp_rows_scale(largest_bits(x + k, count), &inverse);
        }
        int32_t sum = 0;
        for (uint32_t i = k; i < k + ICP_BLOCK_VALUES; i++) {
            int8_t quant = inverse == 0 ? 0 : (int8_t)lrintf(x[i] * inverse);
            part->quants[(size_t)i / step * part->lanes * step + lane * step + i % step] = quant;
            sum += quant;
        }
        part->sums[(size_t)block * part->lanes + lane] = (float)sum;
        uint32_t b = block % ICP_GROUP_BLOCKS;
        int8_t *split = part->split + (size_t)(block - b) * 2 * part->lanes;
        int32_t upper = (sum + 4096) / 64 - 64; /* rounds down */
        size_t place = (b / step_split * part->lanes + lane) * step_split + b % step_split;
        split[place] = (int8_t)upper;
        split[ICP_GROUP_BLOCKS * part->lanes + place] = (int8_t)(sum - upper * 64);
    }
}

void icp_plain_quantise(const icp_kernels *kernels, const icp_row_part *part, const float *x, uint32_t columns)
{
    for (uint32_t lane = 0; lane < part->lanes; lane++) {
        size_t row = lane < part->row_count ? lane : part->row_count - 1;
        quantise_lane(kernels, part, x + row * columns, columns, lane);
    }
}

/* ---- Quantised weights ------------------------------------------------------------------------------------ */

static void unpack_quants(const icp_format *format, const uint8_t *packed, int8_t *quants)
{
    const uint32_t count = ICP_BLOCK_VALUES * C;
    if (format->bits == 8) {
        memcpy(quants, packed, count);
        return;
    }
    const uint8_t *high = packed + format->low * C;
    uint32_t high_bytes = format->high * C;
    uint32_t high_bits = format->bits - 4u;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t value = i < count / 2 ? packed[i] & 15u : (uint32_t)packed[i - count / 2] >> 4;
        if (high_bits != 0) {
            uint32_t bits = (uint32_t)high[i % high_bytes] >> (i / high_bytes * high_bits);
            value |= (bits & ((1u << high_bits) - 1u)) << 4;
        }
        uint32_t sign = format->has_minima ? 0 : 1u << (format->bits - 1u);
        quants[i] = (int8_t)((int32_t)(value ^ sign) - (int32_t)sign);
    }
}

static void unpack_halves(const uint8_t *bytes, float *values)
{
    for (uint32_t c = 0; c < C; c++) values[c] = icp_half_to_float((uint16_t)(bytes[2 * c] | bytes[2 * c + 1] << 8));
}

static const uint8_t *unpack_head(const icp_format *format, const uint8_t *packed, plain_block *blocks, uint32_t count)
{
    if (!format->is_super) return packed;
    memset(blocks, 0, count * sizeof(*blocks));
    for (uint32_t b = 0; b < count; b++) {
        unpack_halves(packed, blocks[b].d);
        if (!format->has_minima) continue;
        unpack_halves(packed + 2 * C, blocks[b].m);
        for (uint32_t c = 0; c < C; c++) blocks[b].minima[c] = packed[4 * C + c * 8 + b];
    }
    return packed + format->head * C;
}

static void unpack(icp_weight_type type, const uint8_t *packed, uint32_t block_count, uint8_t *scratch,
                   icp_chunk *chunk)
{
    const icp_format *format = icp_format_of(type);
    plain_scratch *out = (plain_scratch *)(void *)scratch;
    for (uint32_t b = 0; b < block_count; b++) {
        plain_block *block = &out->blocks[b];
        uint32_t left = block_count - b;
        if (b % ICP_GROUP_BLOCKS == 0) {
            packed = unpack_head(format, packed, block, left < ICP_GROUP_BLOCKS ? left : ICP_GROUP_BLOCKS);
        }
        unpack_quants(format, packed, out->quants[b]);
        packed += (format->low + format->high) * C;
        if (format->is_super) {
            for (uint32_t i = 0; i < format->scale_count * C; i++) block->scales[i / C][i % C] = (int8_t)packed[i];
        } else {
            unpack_halves(packed, block->d);
            if (format->has_minima) unpack_halves(packed + 2 * C, block->m);
        }
        packed += format->scales * C;
    }
    *chunk = (icp_chunk){.quants = out->quants[0], .quants_stride = sizeof(out->quants[0]), .scales = out->blocks};
}

static int32_t dot(const int8_t *restrict a, const int8_t *restrict b, uint32_t count)
{
    int32_t sum = 0;
    for (uint32_t i = 0; i < count; i++) sum += a[i] * b[i];
    return sum;
}

/* The s of one block and column, of a type with a scale per block. */
static float sum_block(const icp_tile *tile, uint32_t b, uint32_t c)
{
    const plain_block *block = (const plain_block *)tile->chunk->scales + b;
    const int8_t *w = tile->chunk->quants + b * tile->chunk->quants_stride + c * ICP_BLOCK_VALUES;
    int32_t sum = dot(tile->rows.quants + b * ICP_BLOCK_VALUES, w, ICP_BLOCK_VALUES);
    float s = fmaf((float)sum, block->d[c], 0);
    return tile->format->has_minima ? fmaf(tile->rows.sums[b], block->m[c], s) : s;
}

/* The s of one group and column of a K type. */
static float sum_super(const icp_tile *tile, uint32_t first, uint32_t c)
{
    const plain_block *blocks = tile->chunk->scales;
    uint32_t run = ICP_BLOCK_VALUES / tile->format->scale_count;
    int32_t t = 0;
    int32_t u = 0;
    for (uint32_t b = first; b < first + ICP_GROUP_BLOCKS; b++) {
        const int8_t *w = tile->chunk->quants + b * tile->chunk->quants_stride + c * ICP_BLOCK_VALUES;
        const int8_t *x = tile->rows.quants + b * ICP_BLOCK_VALUES;
        for (uint32_t i = 0; i < tile->format->scale_count; i++) {
            t += blocks[b].scales[i][c] * dot(x + i * run, w + i * run, run);
        }
        u += blocks[b].minima[c] * (int32_t)tile->rows.sums[b];
    }
    float s = (float)t * blocks[first].d[c];
    return tile->format->has_minima ? fmaf((float)u, -blocks[first].m[c], s) : s;
}

static void tile_row(const icp_tile *tile)
{
    uint32_t step = tile->rows.group_blocks;
    for (uint32_t b = 0; b < tile->block_count; b += step) {
        float dx = tile->rows.scales[b / step];
        for (uint32_t c = 0; c < C; c++) {
            float s = tile->format->is_super ? sum_super(tile, b, c) : sum_block(tile, b, c);
            tile->acc[c] = fmaf(s, dx, tile->acc[c]);
        }
    }
}

/* ---- Float weights ---------------------------------------------------------------------------------------- */

void icp_plain_widen(icp_weight_type type, const uint8_t *packed, float *values, size_t count)
{
    icp_weight_decode(type, packed, values, count);
}

static void float_tile(const icp_float_tile *tile)
{
    for (uint32_t k = 0; k < tile->k_count; k++) {
        for (uint32_t c = 0; c < C; c++) tile->acc[c] = fmaf(tile->x[k], tile->panel[k * C + c], tile->acc[c]);
    }
}

const icp_kernels icp_kernels_plain = {
    .name = "plain",
    .is_supported = is_supported,
    .panel_columns = C,
    .step = ICP_BLOCK_VALUES,
    .tile_rows = 1,
    .tile_lanes = {0, 1},
    .float_tile_rows = 1,
    .chunk_bytes = sizeof(plain_scratch),
    .quantise = icp_plain_quantise,
    .unpack = unpack,
    .tile = tile_row,
    .widen = icp_plain_widen,
    .float_tile = float_tile,
};
