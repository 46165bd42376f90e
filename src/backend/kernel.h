/* kernel.h - what a set of kernels is: a table of functions for one kind of machine, private to the CPU backend.
 *
 * matrix.c plans, cuts the work into pieces that stay in the caches and calls the set; a set knows instructions. The
 * orders in which packed weights and quantised rows lie in memory are the same for all, but for three numbers: C
 * (panel_columns), S (step) and the lanes of a tile. With E(c, k) = k / S * C * S + c * S + k % S, the place of value
 * k < 32 of column c in a block, the panel of a quantised type is, for each group of 256 values of k,
 *
 *      head     K types: half d[C] | Q4_K, Q5_K: half m[C] | minima[8 * C], number b of column c at E(c, b)
 *      block    low | high | scales                                 as many blocks as the group has, eight or fewer
 *
 *      low      Q8_0: the 32 * C quants at E. Other types: byte i has the low four bits of quant E = i in its low
 *               and of quant E = i + 16 * C in its high nibble
 *      high     5-bit types: bit e / (4 * C) of byte e % (4 * C) belongs to the quant at e
 *               Q6_K: bits 2 * (e / (8 * C)) and the next of byte e % (8 * C)
 *      scales   half d[C], then half m[C] (Q4_1, Q5_1); K types: int8 scale[C], Q6_K: scale[2][C], of 16 values each
 *
 * (S is taken as 8 for the minima where it is larger.) Quants of types without minima are signed and stored in two's
 * complement of as many bits as the type has. Columns past the last are zeros. Float types: [columns][C], each a
 * weight as it lies in the file.
 *
 * Quantised rows come in parts of tile_rows rows; a part is
 *
 *      quants   int8 [columns / S][lanes][S]
 *      scales   float [group][lanes]                the dx of a group, which has group_blocks blocks: 1, or 8 for K
 *      types
 *      sums     float [block][lanes]                the bsum of a block of 32
 *      split    int8 [group][2][8 / S][lanes][S]    the same sums as 64 * a + b: first a, then 0 <= b < 64
 *      halves   int16 [block][2][lanes]             the sums of the block's halves, where a set fills and reads them
 *
 * with lanes = tile_lanes[rows of the part]; a lane past the last row repeats that row. */
#ifndef ICP_BACKEND_KERNEL_H
#define ICP_BACKEND_KERNEL_H

#include "backend/matrix.h"

#include <stddef.h>
#include <stdint.h>

#define ICP_BLOCK_VALUES 32u
#define ICP_GROUP_VALUES 256u /* of a K type's block; packed panels are cut into groups of it, whatever the type */
#define ICP_GROUP_BLOCKS (ICP_GROUP_VALUES / ICP_BLOCK_VALUES)
#define ICP_PANEL_COLUMNS_MAX 32u
#define ICP_TILE_ROWS_MAX 8u
#define ICP_CHUNK_BLOCKS 64u  /* blocks of a panel of 8 columns that are unpacked at once; of C columns, 8 / C of it */
#define ICP_CHUNK_FLOATS 128u /* values of k of a float panel that are widened at once */

/* How a quantised type lies in a panel: bytes per column. */
typedef struct icp_format {
    bool is_quantised;
    bool is_super;   /* a K type: scales are whole numbers, d is kept per group */
    bool has_minima; /* quants are not negative */
    uint8_t bits;    /* of a quant */
    uint8_t head;    /* bytes at the start of a group */
    uint8_t low, high, scales;
    uint8_t scale_count; /* per block: 2 for Q6_K */
} icp_format;

const icp_format *icp_format_of(icp_weight_type type);

/* Bytes of a group that has so many blocks. */
static inline size_t icp_format_group_bytes(const icp_format *format, uint32_t block_count, uint32_t panel_columns)
{
    size_t block = (size_t)format->low + format->high + format->scales;
    return (format->head + block * block_count) * panel_columns;
}

/* Some rows, quantised: see above. */
typedef struct icp_row_part {
    int8_t *quants;
    float *scales;
    float *sums;
    int8_t *split;
    int16_t *halves;
    uint32_t row_count; /* <= lanes */
    uint32_t lanes;
    uint32_t group_blocks; /* blocks under one scale */
} icp_row_part;

/* A run of groups of one panel, unpacked: bytes of quants at E, the rest as the set likes it. It begins at a group. */
typedef struct icp_chunk {
    const int8_t *quants;
    size_t quants_stride; /* from block to block */
    const void *scales;
} icp_chunk;

/* Adds the products of a chunk and of the same blocks of some rows to acc. */
typedef struct icp_tile {
    const icp_format *format;
    const icp_chunk *chunk;
    icp_row_part rows; /* begins where the chunk begins */
    uint32_t block_count;
    float *acc; /* [lanes, acc_stride], of which C are used */
    size_t acc_stride;
} icp_tile;

typedef struct icp_float_tile {
    const float *panel; /* [k_count, C] */
    const float *x;     /* [row_count, x_stride]; of a set with transpose [k_count, float_tile_rows] */
    size_t x_stride;    /* ICP_CHUNK_FLOATS */
    uint32_t row_count; /* <= float_tile_rows */
    uint32_t k_count;
    float *acc; /* [row_count, acc_stride], of which C are used; there is room for float_tile_rows rows */
    size_t acc_stride;
} icp_float_tile;

/* One row against whole packed panels, as they lie in memory. */
typedef struct icp_vector {
    const icp_matrix *matrix;
    const icp_row_part *rows; /* of one row, where the matrix is quantised */
    const float *x;           /* where it is not */
    uint32_t panel;
    uint32_t panel_count; /* 1 to ICP_VECTOR_PANELS */
    float *acc;           /* [panel_count, C]; written */
} icp_vector;

#define ICP_VECTOR_PANELS 4u

/* One part of rows against one whole packed panel. */
typedef struct icp_few {
    icp_weight_type type;
    const uint8_t *packed;
    icp_row_part rows;
    uint32_t block_count;
    float *acc; /* [lanes, acc_stride], of which C are used; written */
    size_t acc_stride;
} icp_few;

struct icp_kernels {
    const char *name;
    bool (*is_supported)(void);
    uint32_t panel_columns;
    uint32_t step;
    uint32_t tile_rows;
    uint8_t tile_lanes[ICP_TILE_ROWS_MAX + 1];
    uint32_t float_tile_rows;
    size_t chunk_bytes; /* scratch that unpack needs */

    /* Rows x [part->row_count, columns] into a part. */
    void (*quantise)(const icp_kernels *kernels, const icp_row_part *part, const float *x, uint32_t columns);
    /* packed is the start of a group; scratch is 64-byte aligned. */
    void (*unpack)(icp_weight_type type, const uint8_t *packed, uint32_t block_count, uint8_t *scratch,
                   icp_chunk *chunk);
    void (*tile)(const icp_tile *tile);
    void (*widen)(icp_weight_type type, const uint8_t *packed, float *values, size_t count);
    void (*float_tile)(const icp_float_tile *tile);
    /* NULL, or it turns rows x [row_count, stride] for float_tile: [k_count, float_tile_rows], anything past
     * row_count. */
    void (*transpose)(const float *x, size_t stride, uint32_t row_count, uint32_t k_count, float *out);
    /* NULL: one row goes the way of many. */
    void (*vector)(const icp_vector *vector);
    /* NULL, or it reads packed quants for up to few_rows rows, for which unpacking them into scratch would not pay. */
    void (*few)(const icp_few *few);
    uint32_t few_rows;
};

/* What sets share: matrix_plain.c. The scale of a group whose largest magnitude has these bits (without the sign), and
 * what its values are multiplied by; 0: they are all taken as 0. */
float icp_rows_scale(uint32_t largest, float *inverse);
void icp_plain_quantise(const icp_kernels *kernels, const icp_row_part *part, const float *x, uint32_t columns);
void icp_plain_widen(icp_weight_type type, const uint8_t *packed, float *values, size_t count);

extern const icp_kernels icp_kernels_plain;
#if defined(__aarch64__)
extern const icp_kernels icp_kernels_i8mm;
extern const icp_kernels icp_kernels_dotprod;
#elif defined(__x86_64__)
extern const icp_kernels icp_kernels_avx512vnni;
extern const icp_kernels icp_kernels_avxvnni;
extern const icp_kernels icp_kernels_avx2;
#endif

#endif
