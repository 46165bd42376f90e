/* matrix_pack.c - weights of a file, repacked into panels: see kernel.h for the order.
 *
 * Done once when a model is opened, so it is plain C for all sets: a block is taken apart, its quants are put at
 * their places in an image of the panel's block, one byte each, and the image is folded into nibbles and high bits. */
#include "backend/kernel.h"
#include "backend/weight.h"
#include "base/assert.h"

#include <string.h>

#define C_MAX ICP_PANEL_COLUMNS_MAX

/* One group of one panel on its way. */
typedef struct pack {
    const icp_format *format;
    uint32_t panel_columns;
    uint32_t step;
    uint32_t block_count;
    /* The group's quants, scales and minima, [block][...], by column. */
    uint8_t image[ICP_GROUP_BLOCKS][ICP_BLOCK_VALUES * C_MAX];
    uint16_t d[ICP_GROUP_BLOCKS][C_MAX]; /* K types: [0] */
    uint16_t m[ICP_GROUP_BLOCKS][C_MAX];
    int8_t scales[ICP_GROUP_BLOCKS][2][C_MAX];
    uint8_t minima[ICP_GROUP_BLOCKS * C_MAX];
} pack;

static uint32_t place(uint32_t panel_columns, uint32_t step, uint32_t column, uint32_t k)
{
    return k / step * panel_columns * step + column * step + k % step;
}

/* A column's 32 quants, in steps. The sizes are constants where it counts: a model is a few billion of them. */
static void put_quants(uint8_t *image, uint32_t panel_columns, uint32_t step, const int8_t *quants)
{
    switch (step) {
    case 4:
        for (uint32_t k = 0; k < ICP_BLOCK_VALUES; k += 4) memcpy(image + k * panel_columns, quants + k, 4);
        return;
    case 8:
        for (uint32_t k = 0; k < ICP_BLOCK_VALUES; k += 8) memcpy(image + k * panel_columns, quants + k, 8);
        return;
    default:
        for (uint32_t k = 0; k < ICP_BLOCK_VALUES; k += step) memcpy(image + k * panel_columns, quants + k, step);
    }
}

/* One column's blocks of the group. */
static void take_column(pack *p, icp_weight_type type, const uint8_t *bytes, uint32_t column)
{
    uint32_t values = icp_weight_block_values(type);
    uint32_t step_minima = p->step < 8 ? p->step : 8;
    icp_weight_block block;
    memset(&block, 0, sizeof(block));
    for (uint32_t b = 0; b < p->block_count; b++) {
        uint32_t first = b * ICP_BLOCK_VALUES % values;
        if (first == 0)
            icp_weight_block_read(type, bytes + b * ICP_BLOCK_VALUES / values * icp_weight_block_bytes(type), &block);
        put_quants(p->image[b] + column * p->step, p->panel_columns, p->step, block.quants + first);
        p->d[b][column] = block.d;
        p->m[b][column] = block.m;
        if (!p->format->is_super) continue;
        for (uint32_t i = 0; i < p->format->scale_count; i++) {
            p->scales[b][i][column] = block.scales[b * p->format->scale_count + i];
        }
        p->minima[place(p->panel_columns, step_minima, column, b)] = block.minima[b];
    }
}

static uint8_t *put(uint8_t *out, const void *bytes, size_t count)
{
    memcpy(out, bytes, count);
    return out + count;
}

/* Runs of bytes, of a length that compilers see: they make vectors of them. Everything here is a multiple of it. */
#define RUN 32u

static void fold_nibbles(uint8_t *restrict out, const uint8_t *restrict low, const uint8_t *restrict high)
{
    for (uint32_t i = 0; i < RUN; i++) out[i] = (uint8_t)((low[i] & 15u) | (uint8_t)(high[i] << 4));
}

static void fold_high(uint8_t *restrict out, const uint8_t *restrict image, uint32_t mask, uint32_t left)
{
    uint8_t bits = (uint8_t)mask;
    for (uint32_t i = 0; i < RUN; i++) out[i] |= (uint8_t)(((image[i] >> 4) & bits) << left);
}

static uint8_t *put_block(const pack *p, const uint8_t *image, uint8_t *out)
{
    uint32_t columns = p->panel_columns;
    uint32_t count = ICP_BLOCK_VALUES * columns;
    if (p->format->bits == 8) return put(out, image, count);

    for (uint32_t i = 0; i < count / 2; i += RUN) fold_nibbles(out + i, image + i, image + i + count / 2);
    out += count / 2;

    uint32_t high_bits = p->format->bits - 4u;
    if (high_bits == 0) return out;
    uint32_t high_bytes = p->format->high * columns;
    memset(out, 0, high_bytes);
    for (uint32_t i = 0; i < count; i += RUN) {
        uint32_t left = i / high_bytes * high_bits;
        fold_high(out + i % high_bytes, image + i, (1u << high_bits) - 1u, left);
    }
    return out + high_bytes;
}

static uint8_t *put_group(const pack *p, uint8_t *out)
{
    uint32_t columns = p->panel_columns;
    if (p->format->is_super) {
        out = put(out, p->d[0], columns * 2u);
        if (p->format->has_minima) {
            out = put(out, p->m[0], columns * 2u);
            out = put(out, p->minima, columns * 8u);
        }
    }
    for (uint32_t b = 0; b < p->block_count; b++) {
        out = put_block(p, p->image[b], out);
        if (p->format->is_super) {
            for (uint32_t i = 0; i < p->format->scale_count; i++) out = put(out, p->scales[b][i], columns);
        } else {
            out = put(out, p->d[b], columns * 2u);
            if (p->format->has_minima) out = put(out, p->m[b], columns * 2u);
        }
    }
    return out;
}

static void pack_quantised(const icp_matrix *matrix, const icp_weight_source *source, uint32_t panel)
{
    uint32_t values = icp_weight_block_values(source->type);
    size_t row_bytes = (size_t)source->columns / values * icp_weight_block_bytes(source->type);
    uint32_t first = panel * matrix->kernels->panel_columns;
    uint8_t *out = matrix->panels + panel * matrix->panel_bytes;
    pack p = {.format = icp_format_of(source->type),
              .panel_columns = matrix->kernels->panel_columns,
              .step = matrix->kernels->step};
    for (uint32_t k = 0; k < source->columns; k += ICP_GROUP_VALUES) {
        uint32_t left = source->columns - k;
        p.block_count = (left < ICP_GROUP_VALUES ? left : ICP_GROUP_VALUES) / ICP_BLOCK_VALUES;
        for (uint32_t column = 0; column < p.panel_columns && first + column < source->rows; column++) {
            const uint8_t *bytes = (const uint8_t *)source->data + (first + column) * row_bytes;
            take_column(&p, source->type, bytes + k / values * icp_weight_block_bytes(source->type), column);
        }
        out = put_group(&p, out);
    }
    ICP_ASSERT(out == matrix->panels + (panel + 1) * matrix->panel_bytes);
}

/* Weights of 2 bytes: those of k, then those of k + 1. A half that is -0 becomes 0, which changes no sum: kernels may
 * turn halves into floats by adding them to 0. */
static void pack_shorts(const uint8_t *const *rows, uint32_t columns, size_t k_count, uint16_t no_zero, uint8_t *out)
{
    for (size_t k = 0; k < k_count; k++) {
        for (uint32_t column = 0; column < columns; column++) {
            uint16_t weight = 0;
            if (rows[column] != NULL) memcpy(&weight, rows[column] + k * 2, 2);
            if (weight == no_zero) weight = 0;
            memcpy(out + (k * columns + column) * 2, &weight, 2);
        }
    }
}

static void pack_singles(const uint8_t *const *rows, uint32_t columns, size_t k_count, uint8_t *out)
{
    for (size_t k = 0; k < k_count; k++) {
        for (uint32_t column = 0; column < columns; column++) {
            uint32_t weight = 0;
            if (rows[column] != NULL) memcpy(&weight, rows[column] + k * 4, 4);
            memcpy(out + (k * columns + column) * 4, &weight, 4);
        }
    }
}

static void pack_floats(const icp_matrix *matrix, const icp_weight_source *source, uint32_t panel)
{
    uint32_t columns = matrix->kernels->panel_columns;
    size_t row_bytes = (size_t)source->columns * icp_weight_block_bytes(source->type);
    uint32_t first = panel * columns;
    uint8_t *out = matrix->panels + panel * matrix->panel_bytes;
    const uint8_t *rows[C_MAX] = {NULL}; /* columns past the last are zeros */
    for (uint32_t column = 0; column < columns && first + column < source->rows; column++) {
        rows[column] = (const uint8_t *)source->data + (first + column) * row_bytes;
    }
    if (source->type == ICP_WEIGHT_F32) pack_singles(rows, columns, source->columns, out);
    if (source->type == ICP_WEIGHT_F16) pack_shorts(rows, columns, source->columns, 0x8000, out);
    if (source->type == ICP_WEIGHT_BF16) pack_shorts(rows, columns, source->columns, 0, out);
}

void icp_matrix_pack(const icp_matrix *matrix, const icp_weight_source *source, uint32_t first, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        if (icp_format_of(matrix->type)->is_quantised) pack_quantised(matrix, source, first + i);
        if (!icp_format_of(matrix->type)->is_quantised) pack_floats(matrix, source, first + i);
    }
}
