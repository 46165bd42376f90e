/* matrix_x86_256.h - vectors of eight lanes for matrix_x86_body.h: AVX2, FMA and F16C. */
#ifndef ICP_BACKEND_MATRIX_X86_256_H
#define ICP_BACKEND_MATRIX_X86_256_H

#if defined(__x86_64__)

#include "backend/matrix_x86.h"

#include <string.h>

#define V 8u
#define AVX2_INLINE X86_AVX2 X86_INLINE

typedef __m256i ints;
typedef __m256 floats;
typedef uint16_t shorts __attribute__((vector_size(32)));

AVX2_INLINE ints ints_zero(void)
{
    return _mm256_setzero_si256();
}

AVX2_INLINE ints ints_bytes(int byte)
{
    return _mm256_set1_epi8((char)byte);
}

AVX2_INLINE ints ints_load(const void *at)
{
    return _mm256_loadu_si256(at);
}

AVX2_INLINE ints ints_broadcast(const void *at)
{
    int32_t value;
    memcpy(&value, at, sizeof(value));
    return _mm256_set1_epi32(value);
}

/* Eight bytes with their signs. */
AVX2_INLINE ints ints_of_bytes(const void *at)
{
    return _mm256_cvtepi8_epi32(_mm_loadl_epi64(at));
}

AVX2_INLINE ints ints_and(ints a, ints b)
{
    return _mm256_and_si256(a, b);
}

AVX2_INLINE ints ints_or(ints a, ints b)
{
    return _mm256_or_si256(a, b);
}

AVX2_INLINE ints ints_xor(ints a, ints b)
{
    return _mm256_xor_si256(a, b);
}

/* Shifts of 16 bits at a time; who wants bytes masks what came from the neighbour. */
AVX2_INLINE ints ints_left(ints a, int count)
{
    return (ints)((shorts)a << count);
}

AVX2_INLINE ints ints_right(ints a, int count)
{
    return (ints)((shorts)a >> count);
}

AVX2_INLINE ints ints_add(ints a, ints b)
{
    return _mm256_add_epi32(a, b);
}

AVX2_INLINE ints ints_multiply(ints a, ints b)
{
    return _mm256_mullo_epi32(a, b);
}

AVX2_INLINE ints ints_times_64(ints a)
{
    return _mm256_slli_epi32(a, 6);
}

AVX2_INLINE floats floats_zero(void)
{
    return _mm256_setzero_ps();
}

AVX2_INLINE floats floats_load(const float *at)
{
    return _mm256_loadu_ps(at);
}

AVX2_INLINE void floats_store(float *at, floats value)
{
    _mm256_storeu_ps(at, value);
}

AVX2_INLINE floats floats_broadcast(const float *at)
{
    return _mm256_broadcast_ss(at);
}

AVX2_INLINE floats floats_of_ints(ints a)
{
    return _mm256_cvtepi32_ps(a);
}

AVX2_INLINE floats floats_of_halves(const void *at)
{
    return _mm256_cvtph_ps(_mm_loadu_si128(at));
}

AVX2_INLINE floats floats_of_bfloats(const void *at)
{
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(_mm_loadu_si128(at)), 16));
}

AVX2_INLINE floats floats_multiply(floats a, floats b)
{
    return _mm256_mul_ps(a, b);
}

AVX2_INLINE floats floats_fma(floats a, floats b, floats c)
{
    return _mm256_fmadd_ps(a, b, c);
}

/* c - a * b, fused. */
AVX2_INLINE floats floats_minus(floats a, floats b, floats c)
{
    return _mm256_fnmadd_ps(a, b, c);
}

#endif
#endif
