/* matrix.c - the way of a product through the caches, for every set of kernels.
 *
 * Many rows. A panel or a few at a time are unpacked, a chunk of k at a time, into scratch that stays in the first
 * cache; then all rows pass by in tiles, each read once for those panels. So unpacking is paid once for hundreds of
 * rows, and the rows stream from the second cache. What a tile has summed up waits in acc between the chunks, which
 * changes no operation: the sum of an output is the same chain in the order of k, see matrix.h.
 *
 *      scratch  [ acc: rows of a row block x panels | chunk of panel 0 | chunk of panel 1 | ... ]
 *
 * One row, or a few. The set reads the packed panels as they lie in memory: the speed is that of memory.
 *
 * No allocation, no state; any thread. */
#include "backend/kernel.h"

#include "base/assert.h"

#include <stdlib.h>
#include <string.h>

#define COLUMNS_AT_ONCE 8u /* quantised outputs under one pass of the rows, whole panels: 25 KiB in the first cache */
#define FLOAT_COLUMNS 64u  /* float outputs: 32 KiB */
#define COLUMNS_MAX 64u    /* of the two above, and of a panel */
#define PANELS_AT_ONCE 2u  /* quantised panels, at most */
#define ROW_BLOCK 240u     /* rows per unpacking, at most: a multiple of every tile_rows and float_tile_rows */
#define SCRATCH_ALIGN 64u

/* ---- Sets ------------------------------------------------------------------------------------------------- */

/* Best first. */
static const icp_kernels *const sets[] = {
#if defined(__aarch64__)
    &icp_kernels_i8mm,
    &icp_kernels_dotprod,
#elif defined(__x86_64__)
    &icp_kernels_avx512vnni,
    &icp_kernels_avxvnni,
    &icp_kernels_avx2,
#endif
    &icp_kernels_plain,
};

#define SET_COUNT (sizeof(sets) / sizeof(sets[0]))

const icp_kernels *icp_kernels_at(uint32_t index)
{
    for (uint32_t i = 0; i < SET_COUNT; i++) {
        if (sets[i]->is_supported() && index-- == 0) return sets[i];
    }
    return NULL;
}

const icp_kernels *icp_kernels_choose(void)
{
    const char *wanted = getenv("INCIPIT_KERNELS");
    const icp_kernels *set;
    for (uint32_t i = 0; wanted != NULL && (set = icp_kernels_at(i)) != NULL; i++) {
        if (strcmp(set->name, wanted) == 0) return set;
    }
    return icp_kernels_at(0);
}

const char *icp_kernels_name(const icp_kernels *kernels)
{
    return kernels->name;
}

/* ---- Formats ---------------------------------------------------------------------------------------------- */

static const icp_format formats[] = {
    [ICP_WEIGHT_Q4_0] = {.is_quantised = true, .bits = 4, .low = 16, .scales = 2, .scale_count = 1},
    [ICP_WEIGHT_Q4_1] = {.is_quantised = true, .has_minima = true, .bits = 4, .low = 16, .scales = 4, .scale_count = 1},
    [ICP_WEIGHT_Q5_0] = {.is_quantised = true, .bits = 5, .low = 16, .high = 4, .scales = 2, .scale_count = 1},
    [ICP_WEIGHT_Q5_1] =
        {.is_quantised = true, .has_minima = true, .bits = 5, .low = 16, .high = 4, .scales = 4, .scale_count = 1},
    [ICP_WEIGHT_Q8_0] = {.is_quantised = true, .bits = 8, .low = 32, .scales = 2, .scale_count = 1},
    [ICP_WEIGHT_Q4_K] = {.is_quantised = true,
                         .is_super = true,
                         .has_minima = true,
                         .bits = 4,
                         .head = 12,
                         .low = 16,
                         .scales = 1,
                         .scale_count = 1},
    [ICP_WEIGHT_Q5_K] = {.is_quantised = true,
                         .is_super = true,
                         .has_minima = true,
                         .bits = 5,
                         .head = 12,
                         .low = 16,
                         .high = 4,
                         .scales = 1,
                         .scale_count = 1},
    [ICP_WEIGHT_Q6_K] = {.is_quantised = true,
                         .is_super = true,
                         .bits = 6,
                         .head = 2,
                         .low = 16,
                         .high = 8,
                         .scales = 2,
                         .scale_count = 2},
    [ICP_WEIGHT_BF16] = {0},
};

const icp_format *icp_format_of(icp_weight_type type)
{
    return &formats[type];
}

static size_t panel_bytes_of(icp_weight_type type, uint32_t columns, uint32_t panel_columns)
{
    const icp_format *format = icp_format_of(type);
    if (!format->is_quantised) return (size_t)columns * panel_columns * icp_weight_block_bytes(type);

    uint32_t groups = columns / ICP_GROUP_VALUES;
    uint32_t rest = columns % ICP_GROUP_VALUES / ICP_BLOCK_VALUES;
    size_t bytes = groups * icp_format_group_bytes(format, ICP_GROUP_BLOCKS, panel_columns);
    return rest == 0 ? bytes : bytes + icp_format_group_bytes(format, rest, panel_columns);
}

icp_status icp_matrix_plan(icp_matrix *matrix, const icp_kernels *kernels, const icp_weight_source *source)
{
    uint32_t block = icp_weight_block_values(source->type);
    if (block == 0 || source->rows == 0 || source->columns == 0) return ICP_BAD_ARGUMENT;
    if (source->columns % block != 0) return ICP_BAD_ARGUMENT;
    if (source->rows > UINT32_MAX - ICP_PANEL_COLUMNS_MAX) return ICP_BAD_ARGUMENT;

    *matrix = (icp_matrix){
        .kernels = kernels,
        .type = source->type,
        .rows = source->rows,
        .columns = source->columns,
        .panel_count = (source->rows + kernels->panel_columns - 1) / kernels->panel_columns,
        .panel_bytes = panel_bytes_of(source->type, source->columns, kernels->panel_columns),
    };
    return ICP_OK;
}

static icp_rows_kind rows_kind_of(const icp_format *format)
{
    if (!format->is_quantised) return ICP_ROWS_FLOATS;
    return format->is_super ? ICP_ROWS_GROUPS : ICP_ROWS_BLOCKS;
}

icp_rows_kind icp_matrix_rows_kind(const icp_matrix *matrix)
{
    return rows_kind_of(icp_format_of(matrix->type));
}

/* ---- Rows ------------------------------------------------------------------------------------------------- */

static uint32_t round_up(uint32_t value, uint32_t unit)
{
    return (value + unit - 1) / unit * unit;
}

static size_t aligned(size_t bytes)
{
    return (bytes + SCRATCH_ALIGN - 1) / SCRATCH_ALIGN * SCRATCH_ALIGN;
}

static uint32_t group_count_of(uint32_t columns)
{
    return (columns + ICP_GROUP_VALUES - 1) / ICP_GROUP_VALUES;
}

/* Sets pointers into a part for so many lanes, with base 0 to measure. Returns the bytes. */
static size_t part_layout(icp_row_part *part, uint8_t *base, uint32_t columns)
{
    uint32_t groups = group_count_of(columns);
    size_t lanes = part->lanes;
    size_t quants = aligned((size_t)round_up(columns, ICP_BLOCK_VALUES) * lanes);
    size_t scales = aligned((size_t)groups * ICP_GROUP_BLOCKS * lanes * sizeof(float));
    size_t sums = aligned((size_t)groups * ICP_GROUP_BLOCKS * lanes * sizeof(float));
    size_t split = aligned((size_t)groups * 2 * ICP_GROUP_BLOCKS * lanes);
    size_t halves = aligned((size_t)groups * 2 * ICP_GROUP_BLOCKS * lanes * sizeof(int16_t));
    if (base != NULL) {
        part->quants = (int8_t *)base;
        part->scales = (float *)(void *)(base + quants);
        part->sums = (float *)(void *)(base + quants + scales);
        part->split = (int8_t *)(base + quants + scales + sums);
        part->halves = (int16_t *)(void *)(base + quants + scales + sums + split);
    }
    return quants + scales + sums + split + halves;
}

static size_t part_bytes(const icp_kernels *kernels, uint32_t columns)
{
    icp_row_part part = {.lanes = kernels->tile_lanes[kernels->tile_rows]};
    return part_layout(&part, NULL, columns);
}

uint32_t icp_rows_part_count(const icp_kernels *kernels, uint32_t row_count)
{
    return (row_count + kernels->tile_rows - 1) / kernels->tile_rows;
}

size_t icp_rows_bytes(const icp_kernels *kernels, uint32_t row_count, uint32_t columns)
{
    return icp_rows_part_count(kernels, row_count) * part_bytes(kernels, columns);
}

static icp_row_part part_at(const icp_quantise *q, uint32_t part)
{
    uint32_t first = part * q->kernels->tile_rows;
    ICP_ASSERT(first < q->row_count && q->kind != ICP_ROWS_FLOATS);
    uint32_t count = q->row_count - first < q->kernels->tile_rows ? q->row_count - first : q->kernels->tile_rows;
    icp_row_part out = {.row_count = count,
                        .lanes = q->kernels->tile_lanes[count],
                        .group_blocks = q->kind == ICP_ROWS_BLOCKS ? 1 : ICP_GROUP_BLOCKS};
    part_layout(&out, (uint8_t *)q->rows + part * part_bytes(q->kernels, q->columns), q->columns);
    return out;
}

void icp_rows_quantise(const icp_quantise *q, uint32_t part)
{
    icp_row_part out = part_at(q, part);
    q->kernels->quantise(q->kernels, &out, q->x + (size_t)part * q->kernels->tile_rows * q->columns, q->columns);
}

/* ---- Products --------------------------------------------------------------------------------------------- */

/* Panels under one pass of the rows. */
static uint32_t panels_at_once(const icp_kernels *kernels, bool is_quantised)
{
    uint32_t count = (is_quantised ? COLUMNS_AT_ONCE : FLOAT_COLUMNS) / kernels->panel_columns;
    return count == 0 ? 1 : count;
}

size_t icp_multiply_scratch_bytes(const icp_kernels *kernels, uint32_t columns_max)
{
    (void)columns_max; /* k is cut into chunks */
    size_t acc = (size_t)ROW_BLOCK * COLUMNS_MAX * sizeof(float);
    size_t chunks = PANELS_AT_ONCE * aligned(kernels->chunk_bytes);
    size_t panels = (size_t)FLOAT_COLUMNS * ICP_CHUNK_FLOATS * sizeof(float);
    size_t x = (size_t)kernels->float_tile_rows * ICP_CHUNK_FLOATS * sizeof(float);
    return acc + (chunks > panels + x ? chunks : panels + x);
}

/* Four floats anywhere: -O2 alone does not vectorise a loop of unknown length. */
typedef float four_floats __attribute__((vector_size(16), aligned(4), may_alias));

/* out = acc * scale + bias for some columns of one row. */
static void finish(const icp_multiply *m, const float *acc, size_t row, uint32_t first, uint32_t count)
{
    float *out = m->out + row * m->out_stride + first;
    const float *bias = m->bias == NULL ? NULL : m->bias + first;
    uint32_t i = 0;
    for (; i + 4 <= count; i += 4) {
        four_floats value = *(const four_floats *)(acc + i) * m->scale;
        if (bias != NULL) value = value + *(const four_floats *)(bias + i);
        if (m->is_added) value = *(const four_floats *)(out + i) + value;
        *(four_floats *)(out + i) = value;
    }
    for (; i < count; i++) {
        float value = acc[i] * m->scale;
        if (bias != NULL) value = value + bias[i];
        out[i] = m->is_added ? out[i] + value : value;
    }
}

/* Some panels of a product, and the rows that are under way. */
typedef struct piece {
    const icp_multiply *multiply;
    const icp_kernels *kernels;
    uint32_t panel, panel_count;
    uint32_t row, row_count;
    float *acc; /* [row_count, acc_stride] */
    size_t acc_stride;
    uint8_t *scratch;
} piece;

static void finish_rows(const piece *p)
{
    uint32_t first = p->panel * p->kernels->panel_columns;
    uint32_t count = p->panel_count * p->kernels->panel_columns;
    uint32_t left = p->multiply->matrix->rows - first;
    if (count > left) count = left;
    for (uint32_t r = 0; r < p->row_count; r++) {
        finish(p->multiply, p->acc + r * p->acc_stride, p->row + r, first, count);
    }
}

/* How the rows of a product were quantised. They are only read. */
static icp_quantise quantised_of(const icp_multiply *m)
{
    return (icp_quantise){.kernels = m->matrix->kernels,
                          .kind = icp_matrix_rows_kind(m->matrix),
                          .row_count = m->row_count,
                          .columns = m->matrix->columns,
                          .rows = (void *)(uintptr_t)m->rows};
}

static void chunk_rows(const piece *p, const icp_chunk *chunks, uint32_t block, uint32_t block_count)
{
    const icp_multiply *m = p->multiply;
    const icp_kernels *kernels = p->kernels;
    icp_quantise quantised = quantised_of(m);
    for (uint32_t r = 0; r < p->row_count; r += kernels->tile_rows) {
        uint32_t part = (p->row + r) / kernels->tile_rows;
        icp_row_part rows = part_at(&quantised, part);
        rows.quants += (size_t)block * ICP_BLOCK_VALUES * rows.lanes;
        rows.scales += (size_t)block / rows.group_blocks * rows.lanes;
        rows.sums += (size_t)block * rows.lanes;
        rows.split += (size_t)block * 2 * rows.lanes;
        rows.halves += (size_t)block * 2 * rows.lanes;
        icp_tile tile = {.format = icp_format_of(m->matrix->type),
                         .rows = rows,
                         .block_count = block_count,
                         .acc_stride = p->acc_stride};
        for (uint32_t i = 0; i < p->panel_count; i++) {
            tile.chunk = &chunks[i];
            tile.acc = p->acc + r * p->acc_stride + i * kernels->panel_columns;
            kernels->tile(&tile);
        }
    }
}

static void multiply_quantised(const piece *p)
{
    const icp_matrix *matrix = p->multiply->matrix;
    const icp_format *format = icp_format_of(matrix->type);
    uint32_t blocks = matrix->columns / ICP_BLOCK_VALUES;
    size_t group_bytes = icp_format_group_bytes(format, ICP_GROUP_BLOCKS, p->kernels->panel_columns);
    size_t chunk_bytes = aligned(p->kernels->chunk_bytes);
    icp_chunk chunks[PANELS_AT_ONCE];
    uint32_t chunk_blocks = ICP_CHUNK_BLOCKS * 8 / p->kernels->panel_columns;
    for (uint32_t block = 0; block < blocks; block += chunk_blocks) {
        uint32_t count = blocks - block < chunk_blocks ? blocks - block : chunk_blocks;
        for (uint32_t i = 0; i < p->panel_count; i++) {
            const uint8_t *packed = matrix->panels + (p->panel + i) * matrix->panel_bytes;
            packed += block / ICP_GROUP_BLOCKS * group_bytes;
            p->kernels->unpack(matrix->type, packed, count, p->scratch + i * chunk_bytes, &chunks[i]);
        }
        chunk_rows(p, chunks, block, count);
    }
}

/* Rows of a chunk, put together: rows of a power of two would fall into the same few sets of the first cache. */
static void gather_rows(const piece *p, uint32_t row, uint32_t row_count, uint32_t k, uint32_t k_count, float *out)
{
    size_t columns = p->multiply->matrix->columns;
    const float *x = p->multiply->x + (p->row + row) * columns + k;
    if (p->kernels->transpose != NULL) {
        p->kernels->transpose(x, columns, row_count, k_count, out);
        return;
    }
    for (uint32_t i = 0; i < row_count; i++) memcpy(out + i * ICP_CHUNK_FLOATS, x + i * columns, k_count * sizeof(*x));
}

static void float_rows(const piece *p, const float *panels, float *x, uint32_t k, uint32_t k_count)
{
    uint32_t rows = p->kernels->float_tile_rows;
    for (uint32_t r = 0; r < p->row_count; r += rows) {
        icp_float_tile tile = {.x = x, .x_stride = ICP_CHUNK_FLOATS, .k_count = k_count, .acc_stride = p->acc_stride};
        tile.row_count = p->row_count - r < rows ? p->row_count - r : rows;
        gather_rows(p, r, tile.row_count, k, k_count, x);
        for (uint32_t i = 0; i < p->panel_count; i++) {
            tile.panel = panels + (size_t)i * ICP_CHUNK_FLOATS * p->kernels->panel_columns;
            tile.acc = p->acc + r * p->acc_stride + i * p->kernels->panel_columns;
            p->kernels->float_tile(&tile);
        }
    }
}

static void multiply_floats(const piece *p)
{
    const icp_matrix *matrix = p->multiply->matrix;
    size_t row_bytes = (size_t)p->kernels->panel_columns * icp_weight_block_bytes(matrix->type);
    size_t chunk_floats = (size_t)ICP_CHUNK_FLOATS * p->kernels->panel_columns;
    float *panels = (float *)(void *)p->scratch;
    float *x = panels + FLOAT_COLUMNS * ICP_CHUNK_FLOATS;
    for (uint32_t k = 0; k < matrix->columns; k += ICP_CHUNK_FLOATS) {
        uint32_t count = matrix->columns - k < ICP_CHUNK_FLOATS ? matrix->columns - k : ICP_CHUNK_FLOATS;
        for (uint32_t i = 0; i < p->panel_count; i++) {
            const uint8_t *packed = matrix->panels + (p->panel + i) * matrix->panel_bytes + k * row_bytes;
            p->kernels->widen(matrix->type, packed, panels + i * chunk_floats,
                              (size_t)count * p->kernels->panel_columns);
        }
        float_rows(p, panels, x, k, count);
    }
}

static void multiply_vector(const piece *p)
{
    const icp_multiply *m = p->multiply;
    icp_row_part rows = {.row_count = 0};
    icp_quantise quantised = quantised_of(m);
    if (quantised.kind != ICP_ROWS_FLOATS) rows = part_at(&quantised, 0);
    for (uint32_t i = 0; i < p->panel_count; i += ICP_VECTOR_PANELS) {
        uint32_t left = p->panel_count - i;
        icp_vector vector = {.matrix = m->matrix,
                             .rows = &rows,
                             .x = m->x,
                             .panel = p->panel + i,
                             .panel_count = left < ICP_VECTOR_PANELS ? left : ICP_VECTOR_PANELS,
                             .acc = p->acc + i * p->kernels->panel_columns};
        p->kernels->vector(&vector);
    }
}

/* Each panel comes from memory once: the parts after the first find it in a cache. */
static void multiply_few(const piece *p)
{
    const icp_matrix *matrix = p->multiply->matrix;
    const icp_kernels *kernels = p->kernels;
    icp_quantise quantised = quantised_of(p->multiply);
    for (uint32_t i = 0; i < p->panel_count; i++) {
        for (uint32_t r = 0; r < p->row_count; r += kernels->tile_rows) {
            icp_few few = {.type = matrix->type,
                           .packed = matrix->panels + (p->panel + i) * matrix->panel_bytes,
                           .rows = part_at(&quantised, (p->row + r) / kernels->tile_rows),
                           .block_count = matrix->columns / ICP_BLOCK_VALUES,
                           .acc = p->acc + r * p->acc_stride + i * kernels->panel_columns,
                           .acc_stride = p->acc_stride};
            kernels->few(&few);
        }
    }
}

void icp_matrix_multiply(const icp_multiply *multiply, uint32_t first, uint32_t count, void *scratch)
{
    const icp_matrix *matrix = multiply->matrix;
    const icp_kernels *kernels = matrix->kernels;
    bool is_quantised = icp_matrix_rows_kind(matrix) != ICP_ROWS_FLOATS;
    uint32_t panels = panels_at_once(kernels, is_quantised);
    ICP_ASSERT(first <= matrix->panel_count && count <= matrix->panel_count - first);

    /* Row blocks of one size, so that the last is not a small one. */
    uint32_t unit = is_quantised ? kernels->tile_rows : kernels->float_tile_rows;
    uint32_t row_blocks = (multiply->row_count + ROW_BLOCK - 1) / ROW_BLOCK;
    uint32_t row_block = row_blocks == 0 ? 0 : round_up((multiply->row_count + row_blocks - 1) / row_blocks, unit);

    piece p = {.multiply = multiply, .kernels = kernels, .acc = scratch};
    p.acc_stride = (size_t)panels * kernels->panel_columns;
    p.scratch = (uint8_t *)scratch + ROW_BLOCK * COLUMNS_MAX * sizeof(float);
    for (p.row = 0; p.row < multiply->row_count; p.row += row_block) {
        uint32_t left = multiply->row_count - p.row;
        p.row_count = left < row_block ? left : row_block;
        for (uint32_t i = 0; i < count; i += panels) {
            p.panel = first + i;
            p.panel_count = count - i < panels ? count - i : panels;
            if (multiply->row_count == 1 && kernels->vector != NULL) {
                multiply_vector(&p);
            } else if (is_quantised && multiply->row_count <= kernels->few_rows) {
                multiply_few(&p);
            } else {
                memset(p.acc, 0, round_up(p.row_count, unit) * p.acc_stride * sizeof(float));
                if (is_quantised) multiply_quantised(&p);
                if (!is_quantised) multiply_floats(&p);
            }
            finish_rows(&p);
        }
    }
}
