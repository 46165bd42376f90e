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
        for (uint32_t k = 0; k < ICP_BLOCK_VALUES; k++) {
            p->image[b][place(p->panel_columns, p->step, column, k)] = (uint8_t)block.quants[first + k];
        }
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

static uint8_t *put_block(const pack *p, const uint8_t *image, uint8_t *out)
{
    uint32_t columns = p->panel_columns;
    uint32_t count = ICP_BLOCK_VALUES * columns;
    if (p->format->bits == 8) return put(out, image, count);

    for (uint32_t i = 0; i < count / 2; i++) out[i] = (uint8_t)((image[i] & 15u) | (image[i + count / 2] & 15u) << 4);
    out += count / 2;

    uint32_t high_bits = p->format->bits - 4u;
    if (high_bits == 0) return out;
    uint32_t high_bytes = p->format->high * columns;
    memset(out, 0, high_bytes);
    for (uint32_t i = 0; i < count; i++) {
        uint32_t high = (image[i] >> 4) & ((1u << high_bits) - 1u);
        out[i % high_bytes] |= (uint8_t)(high << (i / high_bytes * high_bits));
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

/* A half that is -0 becomes 0, which changes no sum: kernels may turn halves into floats by adding them to 0. */
static void pack_floats(const icp_matrix *matrix, const icp_weight_source *source, uint32_t panel)
{
    uint32_t bytes = icp_weight_block_bytes(source->type);
    uint32_t columns = matrix->kernels->panel_columns;
    size_t row_bytes = (size_t)source->columns * bytes;
    uint32_t first = panel * columns;
    uint8_t *out = matrix->panels + panel * matrix->panel_bytes;
    memset(out, 0, matrix->panel_bytes);
    for (uint32_t column = 0; column < columns && first + column < source->rows; column++) {
        const uint8_t *row = (const uint8_t *)source->data + (first + column) * row_bytes;
        for (size_t k = 0; k < source->columns; k++) {
            uint8_t *weight = out + (k * columns + column) * bytes;
            memcpy(weight, row + k * bytes, bytes);
            if (source->type == ICP_WEIGHT_F16 && weight[0] == 0 && weight[1] == 0x80) weight[1] = 0;
        }
    }
}

void icp_matrix_pack(const icp_matrix *matrix, const icp_weight_source *source, uint32_t first, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        if (icp_format_of(matrix->type)->is_quantised) pack_quantised(matrix, source, first + i);
        if (!icp_format_of(matrix->type)->is_quantised) pack_floats(matrix, source, first + i);
    }
}
