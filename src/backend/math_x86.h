/* math_x86.h - the product of math.h for x86, on vectors of 8 or 16 floats.
 *
 * Included by math_avx2.c and math_avx512.c after math_body.h, with vec_halves (WIDTH halves as floats) besides what
 * that needs. A tile is 8 rows by two slabs where a slab is one vector (16 sums, 10 loads for 16 multiply-adds), 6
 * rows by one where it is two (12 sums, 8 loads for 12): chains enough to hide the latency, and they fit the
 * registers. */
#ifndef ICP_BACKEND_MATH_X86_H
#define ICP_BACKEND_MATH_X86_H

#include "backend/math_body.h"

#if !defined(vec_halves)
#define vec_halves(x) icp_half_to_float(*(x))
#endif

/* What is the most that fits the registers. */
#define TILE_ROWS (WIDTH == 16 ? 8u : 6u)
#define TILE_SLABS (WIDTH == 16 ? 2u : 1u)

typedef struct tile_sums {
    vec v[TILE_ROWS][TILE_SLABS * VECS];
} tile_sums;

BODY void product_tile(const icp_product *self, uint32_t row, uint32_t slab, const uint32_t rows, const uint32_t slabs,
                       const bool is_half)
{
    const uint32_t count = slabs * VECS;
    const float *a = self->a + row * self->a_stride;
    float *c = self->c + row * self->c_stride + slab * LANES;
    const size_t b_slab = is_half ? LANES * LANES : self->b_slab;
    size_t b = slab * b_slab + (is_half ? self->b_first * LANES : 0);
    tile_sums sums;
    UNROLL for (uint32_t r = 0; r < rows; r++)
    {
        const vec factor = vec_set(self->factors == NULL ? 1.0f : self->factors[row + r]);
        UNROLL for (uint32_t i = 0; i < count; i++) sums.v[r][i] =
            self->is_sum ? vec_mul(vec_load(c + r * self->c_stride + i * WIDTH), factor) : vec_set(0.0f);
    }
    for (uint32_t k = 0; k < self->depth; k++, b += LANES) {
        vec w[TILE_SLABS * VECS];
        UNROLL for (uint32_t i = 0; i < count; i++)
        {
            size_t at = b + i / VECS * b_slab + i % VECS * WIDTH;
            w[i] = is_half ? vec_halves(self->b_runs[0] + at) : vec_load(self->b + at);
        }
        UNROLL for (uint32_t r = 0; r < rows; r++)
        {
            const vec factor = vec_set(a[r * self->a_stride + k]);
            UNROLL for (uint32_t i = 0; i < count; i++) sums.v[r][i] = vec_fma(factor, w[i], sums.v[r][i]);
        }
    }
    UNROLL for (uint32_t r = 0; r < rows; r++)
    {
        UNROLL for (uint32_t i = 0; i < count; i++) vec_store(c + r * self->c_stride + i * WIDTH, sums.v[r][i]);
    }
}

BODY void product_rows(const icp_product *self, uint32_t slab, const uint32_t slabs, const bool is_half)
{
    uint32_t row = 0;
    for (; row + TILE_ROWS <= self->row_count; row += TILE_ROWS)
        product_tile(self, row, slab, TILE_ROWS, slabs, is_half);
    if (self->row_count - row >= 4) product_tile(self, row, slab, 4, slabs, is_half), row += 4;
    if (self->row_count - row >= 2) product_tile(self, row, slab, 2, slabs, is_half), row += 2;
    if (self->row_count - row == 1) product_tile(self, row, slab, 1, slabs, is_half);
}

BODY void product_slabs(const icp_product *self, const bool is_half)
{
    uint32_t slab = 0;
    for (; slab + TILE_SLABS <= self->slab_count; slab += TILE_SLABS) product_rows(self, slab, TILE_SLABS, is_half);
    if (slab < self->slab_count) product_rows(self, slab, 1, is_half);
}

TARGET static void math_product(const icp_product *self)
{
    if (self->b != NULL) {
        product_slabs(self, false);
        return;
    }
    icp_product run = *self; /* one after the other */
    if (!self->is_sum) {
        run.slab_count = 1;
        for (uint32_t slab = 0; slab < self->slab_count; slab++, run.b_runs++, run.c += LANES)
            product_slabs(&run, true);
        return;
    }
    for (uint32_t k = 0; k < self->depth; k += run.depth, run.a += run.depth, run.b_runs++, run.b_first = 0) {
        run.depth = LANES - run.b_first < self->depth - k ? LANES - run.b_first : self->depth - k;
        product_slabs(&run, true);
        run.factors = NULL;
    }
}

TARGET static void math_floats_of_halves(float *out, const uint16_t *in, size_t count)
{
    for (size_t i = 0; i < count; i += WIDTH) vec_store(out + i, vec_halves(in + i));
}

#endif
