/* matrix.h - weight matrices of the CPU backend: repacked for the machine's kernels, and multiplied.
 *
 *      y[r, c] = sum over k of x[r, k] * w[c, k]            rows r of activations, columns c of y = rows of the weight
 *
 * A matrix is cut into panels of ICP_PANEL_COLUMNS outputs; a panel is contiguous and holds what a kernel reads in the
 * order in which it reads it. Threads take whole panels, so no sum is ever shared between threads.
 *
 * SAME BITS. Quantised weights meet activations that are quantised to 8 bits, with one scale for each group of
 * ICP_ACTIVATION_GROUP values. The sums of products inside a block of the weights are whole numbers and exact; each is
 * then scaled and added, in the order of k, with fused multiply-adds:
 *
 *      for each group g of activations:  s = 0
 *          for each block b in g:        s = fma(isum(r, c, b), dw(c, b), s)
 *                                        s = fma(bsum(r, b), -mw(c, b), s)       where the type has minima
 *                                        acc = fma(s, dx(r, g), acc)
 *
 * Every kernel, plain C included, does these operations and no others, so that all of them give the same bits for
 * any number of rows. Float weights: acc = fma(x[k], w[k], acc), k rising.
 *
 * Pure functions on memory that the caller owns; any number of threads. */
#ifndef ICP_BACKEND_MATRIX_H
#define ICP_BACKEND_MATRIX_H

#include "backend/backend.h"

#define ICP_ACTIVATION_GROUP 256u /* values under one scale; the last group of a row may be shorter */

/* Kernels for one kind of machine. The first that the machine can run is chosen at run time, unless told. */
typedef struct icp_kernels icp_kernels;

/* The best for this machine; the environment variable INCIPIT_KERNELS names another (an unknown one is not used). */
const icp_kernels *icp_kernels_choose(void);
/* All that this machine can run, best first, "plain" last: for tests. NULL past the end. */
const icp_kernels *icp_kernels_at(uint32_t index);
const char *icp_kernels_name(const icp_kernels *kernels); /* "i8mm", "dotprod", "neon", "avx512vnni", "avx2", "plain" */

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

/* Activations in the form that the kernels read. Whether they are quantised or left as floats depends on the
 * matrix's type alone, so weights that share an input may need both. */
bool icp_matrix_is_quantised(const icp_matrix *matrix);
size_t icp_rows_bytes(const icp_kernels *kernels, uint32_t row_count, uint32_t columns); /* 64-byte aligned memory */
uint32_t icp_rows_part_count(const icp_kernels *kernels, uint32_t row_count); /* parts that can be filled alone */
void icp_rows_quantise(const icp_kernels *kernels, void *rows, const float *x, uint32_t row_count, uint32_t columns,
                       uint32_t part);

typedef struct icp_multiply {
    const icp_matrix *matrix;
    const float *x;   /* [row_count, columns] */
    const void *rows; /* the same, quantised; read where the matrix is quantised */
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
