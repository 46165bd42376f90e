/* math_body.h - the loops of math.h that are the same on every machine, written on vectors of any width.
 *
 * Included by math_plain.c, math_neon.c and so on, each after it has said what a vector is (one float, unless told):
 * the type vec of WIDTH floats, TARGET (the attribute of its functions, or nothing) and
 *
 *      vec_load vec_store vec_set   vec_add vec_sub vec_mul vec_div   vec_fma(a, b, c) = a * b + c, fused
 *      vec_above(a, b, x, y)        a > b ? x : y, in each lane
 *      vec_max(a, b) vec_top(x)     the larger, the largest lane; of zeros with different signs, or of NaNs, any
 *      vec_shift(y, n)              the bits of y + (the bits of n << 23): times 2 to the power in n's low bits
 *      vec_size(x)                  |x|
 *      vec_sign(size, x)            size with the sign of x
 *
 *      vec_fresh(x)                 vec_set(x) as a term that a sum is added to, in a register of its own (or the same)
 *
 * EXP. exp(x) = 2^n * exp(r), n = round(x / ln 2), r = x - n ln 2 in two steps (fused), exp(r) by a polynomial of
 * degree 5 whose relative error is at most 1.05e-7 (Remez, on |r| <= 0.347). With rounding, at most 1.7e-7 over [-87,
 * 88] (tests/test_cpu.c tries a hundred thousand floats). Where n < -125 (x < -87), exactly 0: weights so small do not
 * count, and -infinity, the score of a position that a row may not see, gets a weight of 0. Above 88: exp(88). */
#ifndef ICP_BACKEND_MATH_BODY_H
#define ICP_BACKEND_MATH_BODY_H

#include "backend/half.h"
#include "backend/math.h"

#include <math.h>

#if !defined(WIDTH)
#define WIDTH 1u
#define TARGET
typedef float vec;

static inline vec vec_load(const float *x)
{
    return *x;
}

static inline void vec_store(float *x, vec value)
{
    *x = value;
}

#define vec_set(x) (x)
#define vec_add(a, b) ((a) + (b))
#define vec_sub(a, b) ((a) - (b))
#define vec_mul(a, b) ((a) * (b))
#define vec_div(a, b) ((a) / (b))
#define vec_fma(a, b, c) fmaf(a, b, c)
#define vec_above(a, b, x, y) ((a) > (b) ? (x) : (y))
#define vec_shift(y, n) icp_float_from_bits(icp_float_to_bits(y) + (icp_float_to_bits(n) << 23))
#define vec_max(a, b) ((a) > (b) ? (a) : (b))
#define vec_top(x) (x)
#define vec_size(x) fabsf(x)
#define vec_sign(size, x) copysignf(size, x)
#endif

#if !defined(vec_fresh)
#define vec_fresh(x) vec_set(x)
#endif

#define LANES ICP_MATH_LANES
#if defined(__clang__)
#define UNROLL_TEXT "unroll"
#else
#define UNROLL_TEXT "GCC unroll 16"
#endif
#define VECS (LANES / WIDTH)
#define UNROLL _Pragma(UNROLL_TEXT)
#define BODY static inline __attribute__((always_inline)) TARGET

#define EACH(i, count) UNROLL for (uint32_t i = 0; i < (count); i++)

/* x = exp(x) of vectors that go abreast, x <= 88. An exponential is a chain of 11 operations: one chain behind the
 * other fills the queues of a core before it fills its units (Neoverse-V1: twice the time of 4 abreast). */
BODY void exp_abreast(vec *x, const uint32_t count)
{
    const vec magic = vec_set(0x1.8p23f); /* adding it rounds to a whole number, which is then in the low bits */
    vec shifted[VECS], n[VECS], q[VECS];
    EACH(i, count) shifted[i] = vec_fma(x[i], vec_set(0x1.715476p+0f), vec_fresh(0x1.8p23f));
    EACH(i, count) n[i] = vec_sub(shifted[i], magic);
    EACH(i, count) x[i] = vec_fma(n[i], vec_set(-0x1.62e4p-1f), x[i]);
    EACH(i, count) x[i] = vec_fma(n[i], vec_set(-0x1.7f7d1cp-20f), x[i]);
    EACH(i, count) q[i] = vec_fma(vec_set(0x1.10621ep-7f), x[i], vec_fresh(0x1.572adap-5f));
    EACH(i, count) q[i] = vec_fma(q[i], x[i], vec_fresh(0x1.5557b0p-3f));
    EACH(i, count) q[i] = vec_fma(q[i], x[i], vec_fresh(0x1.fffdfap-2f));
    EACH(i, count) q[i] = vec_fma(q[i], x[i], vec_fresh(1.0f));
    EACH(i, count) q[i] = vec_fma(q[i], x[i], vec_fresh(1.0f));
    EACH(i, count) q[i] = vec_shift(q[i], shifted[i]);
    EACH(i, count) x[i] = vec_above(vec_set(-125.0f), n[i], vec_set(0.0f), q[i]);
}

BODY vec exp_low(vec x)
{
    exp_abreast(&x, 1);
    return x;
}

BODY vec exp_any(vec x)
{
    const vec top = vec_set(88.0f);
    return exp_low(vec_above(x, top, top, x));
}

/* softcap * tanh(x / softcap) by (1 - t) / (1 + t), t = exp(-2 |x| / softcap): within 2e-7 softcap. */
BODY vec cap_vec(vec x, float softcap, float inverse)
{
    const vec one = vec_set(1.0f);
    vec t = exp_low(vec_mul(vec_size(x), vec_set(-2.0f * inverse)));
    vec size = vec_mul(vec_div(vec_sub(one, t), vec_add(one, t)), vec_set(softcap));
    return vec_sign(size, x);
}

/* silu(x) = x / (1 + exp(-x)); gelu(x), the tanh form, = x / (1 + exp(-z)) with z = 2 sqrt(2/pi) (x + 0.044715 x^3),
 * because (1 + tanh(y)) / 2 = 1 / (1 + exp(-2y)): no cancellation near 0. */
BODY vec gate_vec(icp_gate_kind kind, vec gate, vec up)
{
    const vec linear = vec_set(-1.59576912160573f); /* -2 sqrt(2 / pi) */
    const vec cubic = vec_set(-0.0713548162726f);   /* times 0.044715 */
    vec factor = kind == ICP_GATE_SILU ? vec_set(-1.0f) : vec_fma(vec_mul(cubic, gate), gate, linear);
    vec e = exp_any(vec_mul(gate, factor));
    return vec_mul(vec_div(gate, vec_add(vec_set(1.0f), e)), up);
}

/* The last values of a row, which may be less than a vector: in a vector of their own. */
BODY vec load_some(const float *x, size_t count)
{
    if (count == WIDTH) return vec_load(x);
    float lanes[WIDTH] = {0};
    for (size_t i = 0; i < count; i++) lanes[i] = x[i];
    return vec_load(lanes);
}

BODY void store_some(float *x, vec value, size_t count)
{
    if (count == WIDTH) {
        vec_store(x, value);
        return;
    }
    float lanes[WIDTH];
    vec_store(lanes, value);
    for (size_t i = 0; i < count; i++) x[i] = lanes[i];
}

/* ---- Softmax -------------------------------------------------------------------------------------------- */

/* Scores of 16 positions: capped, -infinity where the row may not look. */
BODY void score_lanes(const icp_softmax *self, const float *scores, vec x[VECS], uint32_t first)
{
    EACH(i, VECS) x[i] = vec_load(scores + first + i * WIDTH);
    if (self->softcap != 0.0f) {
        const float inverse = 1.0f / self->softcap;
        EACH(i, VECS) x[i] = cap_vec(x[i], self->softcap, inverse);
    }
    if (first >= self->begin && first + LANES <= self->end) return;

    float lanes[LANES];
    EACH(i, VECS) vec_store(lanes + i * WIDTH, x[i]);
    for (uint32_t i = 0; i < LANES; i++)
        if (first + i < self->begin || first + i >= self->end) lanes[i] = -INFINITY;
    EACH(i, VECS) x[i] = vec_load(lanes + i * WIDTH);
}

/* The largest score of a row so far, this tile's included. is_ready: the products are the scores as they are; else the
 * scores are left where the products were. */
BODY float softmax_max(const icp_softmax *self, float *scores, float max, const bool is_ready)
{
    vec best[VECS];
    EACH(i, VECS) best[i] = vec_set(max);
    for (uint32_t at = self->begin / LANES * LANES; at < self->end; at += LANES) {
        vec x[VECS];
        if (is_ready) {
            EACH(i, VECS) x[i] = vec_load(scores + at + i * WIDTH);
        } else {
            score_lanes(self, scores, x, at);
            EACH(i, VECS) vec_store(scores + at + i * WIDTH, x[i]);
        }
        EACH(i, VECS) best[i] = vec_max(x[i], best[i]);
    }
    EACH(i, VECS) best[0] = vec_max(best[i], best[0]);
    return vec_top(best[0]);
}

/* From the old maxima, in factors, and the new ones. */
BODY void softmax_factors(const icp_softmax *self)
{
    for (uint32_t row = 0; row < self->row_count; row += WIDTH) {
        uint32_t count = self->row_count - row < WIDTH ? self->row_count - row : WIDTH;
        vec old = load_some(self->factors + row, count);
        vec top = load_some(self->max + row, count);
        store_some(self->factors + row, vec_above(top, old, exp_low(vec_sub(old, top)), vec_set(1.0f)), count);
    }
}

/* The maxima of all rows, then the weights of all: a row's weights wait for its maximum, and another row's work is
 * there to be done meanwhile. No branch on a score: whether a maximum grows is not foreseen in one row of three, which
 * costs more than an exponential. self by value: a store of sums could change it, for all that the compiler knows, and
 * it would be read again each time. */
BODY void softmax_body(const icp_softmax by_value, const bool is_ready)
{
    const icp_softmax *const self = &by_value;
    for (uint32_t row = 0; row < self->row_count; row++) {
        self->factors[row] = self->max[row];
        self->max[row] = softmax_max(self, self->scores + row * self->stride, self->max[row], is_ready);
    }
    softmax_factors(self);
    const uint32_t first = self->begin / LANES * LANES;
    for (uint32_t row = 0; row < self->row_count; row++) {
        float *scores = self->scores + row * self->stride;
        float *sums = self->sums + (size_t)row * LANES;
        const vec top = vec_set(self->max[row]);
        const vec factor = vec_set(self->factors[row]);
        vec sum[VECS];
        EACH(i, VECS) sum[i] = vec_mul(vec_load(sums + i * WIDTH), factor);
        for (uint32_t at = first; at < self->end; at += LANES) {
            vec x[VECS];
            EACH(i, VECS) x[i] = vec_sub(vec_load(scores + at + i * WIDTH), top);
            exp_abreast(x, VECS);
            EACH(i, VECS) vec_store(scores + at + i * WIDTH, x[i]);
            EACH(i, VECS) sum[i] = vec_add(sum[i], x[i]);
        }
        EACH(i, VECS) vec_store(sums + i * WIDTH, sum[i]);
    }
}

/* ---- Whole rows ----------------------------------------------------------------------------------------- */

BODY void gate_body(icp_gate_kind kind, float *gate, const float *up, size_t count)
{
    size_t at = 0;
    for (; at + WIDTH <= count; at += WIDTH)
        vec_store(gate + at, gate_vec(kind, vec_load(gate + at), vec_load(up + at)));
    size_t left = count - at;
    if (left != 0) store_some(gate + at, gate_vec(kind, load_some(gate + at, left), load_some(up + at, left)), left);
}

BODY void cap_body(float *x, size_t count, float softcap)
{
    size_t at = 0;
    float inverse = 1.0f / softcap;
    for (; at + WIDTH <= count; at += WIDTH) vec_store(x + at, cap_vec(vec_load(x + at), softcap, inverse));
    if (at < count) store_some(x + at, cap_vec(load_some(x + at, count - at), softcap, inverse), count - at);
}

BODY void exponentials_body(float *x, size_t count)
{
    size_t at = 0;
    for (; at + WIDTH <= count; at += WIDTH) vec_store(x + at, exp_any(vec_load(x + at)));
    if (at < count) store_some(x + at, exp_any(load_some(x + at, count - at)), count - at);
}

/* ---- The functions of a set ----------------------------------------------------------------------------- */

TARGET static void math_softmax(const icp_softmax *self)
{
    if (self->softcap == 0.0f && self->begin % LANES == 0 && self->end % LANES == 0) {
        softmax_body(*self, true);
    } else {
        softmax_body(*self, false);
    }
}

TARGET static void math_exponentials(float *x, size_t count)
{
    exponentials_body(x, count);
}

TARGET static void math_gate(icp_gate_kind kind, float *gate, const float *up, size_t count)
{
    if (kind == ICP_GATE_SILU) {
        gate_body(ICP_GATE_SILU, gate, up, count);
    } else {
        gate_body(ICP_GATE_GELU, gate, up, count);
    }
}

TARGET static void math_cap(float *x, size_t count, float softcap)
{
    cap_body(x, count, softcap);
}

#endif
