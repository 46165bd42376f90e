/* matrix_x86.h - what the sets of kernels for x86-64 share.
 *
 * The columns of a panel are the lanes of one vector or two, and S = 4: a vector of quants holds four values of k for
 * each of its columns, so a dot-product instruction leaves the sum of a column in its lane. The kernels are written
 * once, in matrix_x86_body.h, for a vector of any width; a set brings its vectors, its dot product and its target.
 * What is the same for all, and never hot, is in matrix_x86.c.
 *
 * UNSIGNED BY SIGNED. The instructions multiply bytes without a sign (here the weights) by bytes with one (the rows).
 * Quants of signed types are therefore moved up by an offset when they are expanded, which is an exclusive or of
 * their highest bit; what that adds to a sum, offset times the sum of the row's quants, is taken from where the sum
 * starts. All of it is whole numbers, and exact.
 *
 * Included by matrix_x86*.c only, on x86-64 only. */
#ifndef ICP_BACKEND_MATRIX_X86_H
#define ICP_BACKEND_MATRIX_X86_H

#if defined(__x86_64__)

#include "backend/kernel.h"

#include <immintrin.h>

#define X86_STEP 4u

#define X86_INLINE static inline __attribute__((always_inline))
#define X86_UNROLL _Pragma("GCC unroll 32")
#define X86_AVX2 __attribute__((target("avx2,fma,f16c")))

/* Rows into a part, the same numbers as icp_plain_quantise. */
void icp_x86_quantise(const icp_kernels *kernels, const icp_row_part *part, const float *x, uint32_t columns);

/* -offset times the sum of the quants of each block, [block][lanes]; or of each half of a block, [block][2][lanes].
 * They write up to seven numbers past the end. */
void icp_x86_starts(const icp_row_part *rows, uint32_t block_count, int32_t offset, int32_t *starts);
void icp_x86_half_starts(const icp_row_part *rows, uint32_t block_count, int32_t offset, int32_t *starts);

#endif
#endif
