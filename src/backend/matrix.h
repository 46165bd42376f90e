/* matrix.h - weight matrices of the CPU backend: repacked for the machine's kernels, and multiplied.
 *
 *      y[r, c] = sum over k of x[r, k] * w[c, k]            rows r of activations, columns c of y = rows of the weight
 *
 * A matrix is cut into panels of 8 or 16 outputs, as the kernels like it; a panel is contiguous and holds what a kernel
 * reads in the order in which it reads it. Threads take whole panels, so no sum is ever shared between threads.
 *
 * SAME BITS. Quantised weights meet activations that are quantised to 8 bits, with one scale for each group of values:
 * of 32 where the type's blocks have 32, of 256 where the type is one of the K types, whose blocks have 256. The sums
 * of products inside a block of 32 are whole numbers and exact; each is then scaled and added, in the order of k, with
 * fused multiply-adds:
 *
 *      for each group g of activations:  s = 0
 *          for each block b in g:        s = fma(isum(r, c, b), d(c, b), s)
 *                                        s = fma(bsum(r, b), m(c, b), s)         Q4_1 and Q5_1
 *                                        acc = fma(s, dx(r, g), acc)
 *
 * The K types have whole numbers for the scales and minima of their blocks, and a block of the file is a group; all of
 * it is summed up in whole numbers (int32, exact), which is faster and rounds less:
 *
 *      for each group g:                 t = sum over b of scale(c, b) * isum(r, c, b)
 *                                        u = sum over b of minimum(c, b) * bsum(r, b)
 *                                        s = float(t) * d(c, g);  s = fma(float(u), -m(c, g), s)
 *                                        acc = fma(s, dx(r, g), acc)
 *
 * Every kernel, plain C included, does these operations and no others, so that all of them give the same bits for
 * any number of rows. Float weights: acc = fma(x[k], w[k], acc), k rising. Last, out = acc * scale, + bias, added to
 * what was there, each rounded.
 *
 * dx is the group's largest magnitude / 127, and a quant is x * (127 / magnitude), rounded to nearest even. A group
 * that is not all finite has a NaN for dx, so that all outputs of the row are NaN; one that is all under 2^-120 counts
 * as 0.
 *
 * Pure functions on memory that the caller owns; any number of threads. */
#ifndef ICP_BACKEND_MATRIX_H
#define ICP_BACKEND_MATRIX_H

#include "backend/backend.h"

/* Activations, as a type of weights wants them. Groups of 32 for all types would cost the K types a conversion for each
 * block; groups of 256 for all were tried: on the built-in model (Q8_0) the likeliest token is then another one than
 * that of exact activations at 6.5 % of positions, at 1.7 % with groups of 32, for the same speed. */
typedef enum icp_rows_kind {
    ICP_ROWS_FLOATS, /* as they are */
    ICP_ROWS_BLOCKS, /* 8 bits, a scale for each 32 values */
    ICP_ROWS_GROUPS, /* 8 bits, a scale for each 256 */
    ICP_ROWS_KIND_COUNT
} icp_rows_kind;

/* Kernels for one kind of machine. The first that the machine can run is chosen at run time, unless told. */
typedef struct icp_kernels icp_kernels;

/* The best for this machine; the environment variable INCIPIT_KERNELS names another (an unknown one is not used). */
const icp_kernels *icp_kernels_choose(void);
/* All that this machine can run, best first, "plain" last: for tests. NULL past the end. */
const icp_kernels *icp_kernels_at(uint32_t index);
const char *
icp_kernels_name(const icp_kernels *kernels); /* "i8mm", "dotprod", "neon", "avx512vnni", "avxvnni", "avx2", "plain" */

/* A repacked matrix. */
typedef struct icp_matrix {
    const icp_kernels *kernels;
    icp_weight_type type;
    uint32_t rows, columns; /* outputs, inputs */
    uint32_t panel_count;
    size_t panel_bytes;
    uint8_t *panels; /* [panel_count, panel_bytes], 64-byte aligned, the caller's */
} icp_matrix;

/* Fills all but panels in. BAD_ARGUMENT: the kernels do not do that type or shape. */
icp_status icp_matrix_plan(icp_matrix *matrix, const icp_kernels *kernels, const icp_weight_source *source);

/* Repacks panels [first, first + count). */
void icp_matrix_pack(const icp_matrix *matrix, const icp_weight_source *source, uint32_t first, uint32_t count);

/* Activations in the form that the kernels read. It depends on the matrix's type alone; weights that share an input
 * may need several. */
icp_rows_kind icp_matrix_rows_kind(const icp_matrix *matrix);
size_t icp_rows_bytes(const icp_kernels *kernels, uint32_t row_count, uint32_t columns); /* 64-byte aligned memory */
uint32_t icp_rows_part_count(const icp_kernels *kernels, uint32_t row_count); /* parts that can be filled alone */

typedef struct icp_quantise {
    const icp_kernels *kernels;
    icp_rows_kind kind; /* not FLOATS */
    const float *x;     /* [row_count, columns] */
    uint32_t row_count;
    uint32_t columns; /* a multiple of 32 */
    void *rows;       /* icp_rows_bytes of memory */
} icp_quantise;

void icp_rows_quantise(const icp_quantise *quantise, uint32_t part);

typedef struct icp_multiply {
    const icp_matrix *matrix;
    const float *x;   /* [row_count, columns] */
    const void *rows; /* the same, quantised as icp_matrix_rows_kind says; not read where that is FLOATS */
    uint32_t row_count;
    float *out; /* [row_count, out_stride] */
    size_t out_stride;
    const float *bias; /* [matrix->rows] or NULL */
    float scale;
    bool is_added; /* out = out + (acc * scale + bias) */
} icp_multiply;

/* Scratch memory that one thread needs for icp_matrix_multiply, for matrices of up to so many columns. */
size_t icp_multiply_scratch_bytes(const icp_kernels *kernels, uint32_t columns_max);

/* Computes the outputs of panels [first, first + count), for all rows. */
void icp_matrix_multiply(const icp_multiply *multiply, uint32_t first, uint32_t count, void *scratch);

#endif
