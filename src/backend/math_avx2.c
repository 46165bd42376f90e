/* math_avx2.c - the functions of math.h for x86-64 with AVX2, FMA and F16C. */
#include "backend/math.h"

#if defined(__x86_64__)

#include <immintrin.h>

#define WIDTH 8u
#define TARGET __attribute__((target("avx2,fma,f16c")))
typedef __m256 vec;

#define vec_load(x) _mm256_loadu_ps(x)
#define vec_store(x, value) _mm256_storeu_ps(x, value)
#define vec_set(x) _mm256_set1_ps(x)
#define vec_add(a, b) _mm256_add_ps(a, b)
#define vec_sub(a, b) _mm256_sub_ps(a, b)
#define vec_mul(a, b) _mm256_mul_ps(a, b)
#define vec_div(a, b) _mm256_div_ps(a, b)
#define vec_fma(a, b, c) _mm256_fmadd_ps(a, b, c)
#define vec_above(a, b, x, y) _mm256_blendv_ps(y, x, _mm256_cmp_ps(a, b, _CMP_GT_OQ))
#define vec_max(a, b) _mm256_max_ps(a, b)
#define vec_size(x) _mm256_andnot_ps(_mm256_set1_ps(-0.0f), x)
#define vec_sign(size, x) _mm256_or_ps(size, _mm256_and_ps(_mm256_set1_ps(-0.0f), x))
#define vec_shift(y, n) \
    _mm256_castsi256_ps(_mm256_add_epi32(_mm256_castps_si256(y), _mm256_slli_epi32(_mm256_castps_si256(n), 23)))
#define vec_halves(x) _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)(x)))

TARGET static inline float vec_top(vec x)
{
    __m128 half = _mm_max_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
    half = _mm_max_ps(half, _mm_movehl_ps(half, half));
    return _mm_cvtss_f32(_mm_max_ss(half, _mm_movehdup_ps(half)));
}

#include "backend/math_x86.h"

TARGET static void math_floats_of_bytes(float *out, const int8_t *in, const float *scales)
{
    for (uint32_t i = 0; i < LANES; i += WIDTH) {
        __m256i values = _mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i *)(const void *)(in + i)));
        vec_store(out + i, vec_mul(_mm256_cvtepi32_ps(values), vec_load(scales + i)));
    }
}

const icp_math icp_math_avx2 = {
    .name = "avx2",
    .product = math_product,
    .softmax = math_softmax,
    .exponentials = math_exponentials,
    .gate = math_gate,
    .cap = math_cap,
    .floats_of_halves = math_floats_of_halves,
    .floats_of_bytes = math_floats_of_bytes,
};

#endif
