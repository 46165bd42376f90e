/* math.h - the inner loops on floats: products of small tiles, softmax, exponentials.
 *
 * One set of functions for each kind of machine; every set gives the same bits as the plain one, because all of them
 * do the same operations in the same order:
 *
 *  - lanes: whatever is summed is summed in 16 lanes or in none, so that a vector of 4, 8 or 16 floats makes no
 *    difference, and lanes are added up in one tree (icp_math_sum);
 *  - fused means fused: fmaf here is one instruction there, and nothing else is fused (-ffp-contract=off);
 *  - exp is our own polynomial (math_body.h), not the system's.
 *
 * The bodies of all but the product and the conversions are written once, in math_body.h, as loops over 16 lanes that
 * compilers turn into vector code, and compiled for each machine. Pure functions; any thread. */
#ifndef ICP_BACKEND_MATH_H
#define ICP_BACKEND_MATH_H

#include "backend/backend.h"

#define ICP_MATH_LANES 16u

/* c[r][s * 16 + lane] (+)= sum over k of a[r][k] * b[s][k][lane]: acc = fma(a, b, acc), k rising, from 0 or from c. */
typedef struct icp_product {
    const float *a; /* [row_count, depth], rows a_stride apart */
    size_t a_stride;
    const float *b; /* [slab_count][depth][16], slabs b_slab apart */
    size_t b_slab;
    const uint16_t *const *b_runs; /* instead of b, where that is NULL: runs of 16 positions as halves. Keys: each is a
                                      slab. Values, is_sum: [slab][16][16] each, k is position b_first + k of them */
    uint32_t b_first;
    const uint16_t *const *b_ahead; /* as many runs, which are wanted next: may be asked for meanwhile; NULL: none */
    float *c;                       /* [row_count, slab_count * 16], rows c_stride apart */
    size_t c_stride;
    uint32_t row_count;
    uint32_t slab_count;
    uint32_t depth;
    bool is_sum; /* adds to what c holds */
    const float
        *factors; /* [row_count]: what c holds is multiplied by them first, where it is added to; NULL: by none */
} icp_product;

/* Rows of scores become weights, by the rule of online softmax. Positions [begin, end) of each row count; of others,
 * the weights are 0 where they share 16 lanes with one that counts, else they are not written. */
typedef struct icp_softmax {
    float *scores; /* [row_count]: scores in, exp(score - max) out; rows stride apart */
    size_t stride;
    uint32_t row_count;
    uint32_t begin;
    uint32_t end;   /* > begin */
    float softcap;  /* 0: none */
    float *max;     /* [row_count]: of all scores so far; -infinity at first */
    float *sums;    /* [row_count][16]: of the weights so far, by position modulo 16 */
    float *factors; /* [row_count], out: exp(old max - new max), by which what was summed so far is to be multiplied */
} icp_softmax;

typedef struct icp_math {
    const char *name;
    void (*product)(const icp_product *product);
    void (*softmax)(const icp_softmax *softmax);
    void (*exponentials)(float *x, size_t count); /* x = exp(x) */
    void (*gate)(icp_gate_kind kind, float *gate, const float *up, size_t count);
    void (*cap)(float *x, size_t count, float softcap);
    void (*floats_of_halves)(float *out, const uint16_t *in, size_t count);     /* count: a multiple of 16 */
    void (*floats_of_bytes)(float *out, const int8_t *in, const float *scales); /* 16: out = in * scale, by lane */
} icp_math;

/* The best for this machine; the plain ones where the environment variable INCIPIT_KERNELS is "plain". */
const icp_math *icp_math_choose(void);
/* All that this machine can run, best first, plain last: for tests. NULL past the end. */
const icp_math *icp_math_at(uint32_t index);

/* The sum of 16 lanes, in the order that is used everywhere: lane i and i + 8, then i + 4, i + 2, i + 1. */
float icp_math_sum(const float lanes[ICP_MATH_LANES]);

extern const icp_math icp_math_plain;
extern const icp_math icp_math_neon, icp_math_fmlal;  /* aarch64 */
extern const icp_math icp_math_avx2, icp_math_avx512; /* x86-64 */

#endif
