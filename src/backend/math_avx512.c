/* math_avx512.c - the functions of math.h for x86-64 with AVX-512 (F, DQ). */
#include "backend/math.h"

#if defined(__x86_64__)

#include <immintrin.h>

#define WIDTH 16u
#define TARGET __attribute__((target("avx512f,avx512dq,avx2,fma,f16c")))
typedef __m512 vec;

#define vec_load(x) _mm512_loadu_ps(x)
#define vec_store(x, value) _mm512_storeu_ps(x, value)
#define vec_set(x) _mm512_set1_ps(x)
#define vec_add(a, b) _mm512_add_ps(a, b)
#define vec_sub(a, b) _mm512_sub_ps(a, b)
#define vec_mul(a, b) _mm512_mul_ps(a, b)
#define vec_div(a, b) _mm512_div_ps(a, b)
#define vec_fma(a, b, c) _mm512_fmadd_ps(a, b, c)
#define vec_above(a, b, x, y) _mm512_mask_blend_ps(_mm512_cmp_ps_mask(a, b, _CMP_GT_OQ), y, x)
#define vec_max(a, b) _mm512_max_ps(a, b)
#define vec_top(x) _mm512_reduce_max_ps(x)
#define vec_size(x) _mm512_andnot_ps(_mm512_set1_ps(-0.0f), x)
#define vec_sign(size, x) _mm512_or_ps(size, _mm512_and_ps(_mm512_set1_ps(-0.0f), x))
#define vec_shift(y, n) \
    _mm512_castsi512_ps(_mm512_add_epi32(_mm512_castps_si512(y), _mm512_slli_epi32(_mm512_castps_si512(n), 23)))
#define vec_halves(x) _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)(const void *)(x)))

#include "backend/math_x86.h"

TARGET static void math_floats_of_bytes(float *out, const int8_t *in, const float *scales)
{
    __m512i values = _mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i *)(const void *)in));
    vec_store(out, vec_mul(_mm512_cvtepi32_ps(values), vec_load(scales)));
}

const icp_math icp_math_avx512 = {
    .name = "avx512",
    .product = math_product,
    .softmax = math_softmax,
    .exponentials = math_exponentials,
    .gate = math_gate,
    .cap = math_cap,
    .floats_of_halves = math_floats_of_halves,
    .floats_of_bytes = math_floats_of_bytes,
};

#endif
