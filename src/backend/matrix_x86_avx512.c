/* matrix_x86_avx512.c - kernels for x86-64 with AVX-512 and its dot-product instruction, vpdpbusd: 16 lanes of four
 * products each.
 *
 * A tile is 8 rows x 32 columns: 10 loads for 16 dot products, of which two can begin in a cycle, as can two loads. The
 * 16 sums of whole numbers are in registers; the 16 sums of floats beside them are not all, which costs less than
 * more loads do. On a recent Xeon, a product of 240 rows with Q8_0 runs at 61 % of the instruction's peak so, at
 * 58 % in tiles of 6 x 32, which all fit, and at 50 % in tiles of 8 x 16. */
#if defined(__x86_64__)

#include "backend/matrix_x86.h"

#include "base/cpu.h"

#include <string.h>

#define V 16u
#define TARGET __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx2,fma,f16c")))
#define INLINE TARGET X86_INLINE
#define PARTS 2u
#define TILE_ROWS 8
#define TILE_LANES 0, 1, 4, 4, 4, 8, 8, 8, 8
#define TILE_ROWS_AT_ONCE 8
#define FLOAT_ROWS_AT_ONCE 10
#define OFFSET_Q8 128

typedef __m512i ints;
typedef __m512 floats;
typedef uint16_t shorts __attribute__((vector_size(64)));

INLINE ints ints_zero(void)
{
    return _mm512_setzero_si512();
}

INLINE ints ints_bytes(int byte)
{
    return _mm512_set1_epi8((char)byte);
}

INLINE ints ints_load(const void *at)
{
    return _mm512_loadu_si512(at);
}

INLINE ints ints_broadcast(const void *at)
{
    int32_t value;
    memcpy(&value, at, sizeof(value));
    return _mm512_set1_epi32(value);
}

/* Sixteen bytes with their signs. */
INLINE ints ints_of_bytes(const void *at)
{
    return _mm512_cvtepi8_epi32(_mm_loadu_si128(at));
}

INLINE ints ints_and(ints a, ints b)
{
    return _mm512_and_si512(a, b);
}

INLINE ints ints_or(ints a, ints b)
{
    return _mm512_or_si512(a, b);
}

INLINE ints ints_xor(ints a, ints b)
{
    return _mm512_xor_si512(a, b);
}

/* Shifts of 16 bits at a time; who wants bytes masks what came from the neighbour. */
INLINE ints ints_left(ints a, int count)
{
    return (ints)((shorts)a << count);
}

INLINE ints ints_right(ints a, int count)
{
    return (ints)((shorts)a >> count);
}

INLINE ints ints_add(ints a, ints b)
{
    return _mm512_add_epi32(a, b);
}

INLINE ints ints_multiply(ints a, ints b)
{
    return _mm512_mullo_epi32(a, b);
}

INLINE ints ints_times_64(ints a)
{
    return _mm512_slli_epi32(a, 6);
}

INLINE floats floats_zero(void)
{
    return _mm512_setzero_ps();
}

INLINE floats floats_load(const float *at)
{
    return _mm512_loadu_ps(at);
}

INLINE void floats_store(float *at, floats value)
{
    _mm512_storeu_ps(at, value);
}

INLINE floats floats_broadcast(const float *at)
{
    return _mm512_set1_ps(*at);
}

INLINE floats floats_of_ints(ints a)
{
    return _mm512_cvtepi32_ps(a);
}

INLINE floats floats_of_halves(const void *at)
{
    return _mm512_cvtph_ps(_mm256_loadu_si256(at));
}

INLINE floats floats_of_bfloats(const void *at)
{
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_loadu_si256(at)), 16));
}

INLINE floats floats_multiply(floats a, floats b)
{
    return _mm512_mul_ps(a, b);
}

INLINE floats floats_fma(floats a, floats b, floats c)
{
    return _mm512_fmadd_ps(a, b, c);
}

/* c - a * b, fused. */
INLINE floats floats_minus(floats a, floats b, floats c)
{
    return _mm512_fnmadd_ps(a, b, c);
}

INLINE void dots(int bits, const ints *w, const int8_t *x, size_t stride, const int STEPS, ints *sums, const int ROWS)
{
    (void)bits;
    X86_UNROLL
    for (int k = 0; k < STEPS; k++) {
        X86_UNROLL
        for (int r = 0; r < ROWS; r++) {
            ints four = ints_broadcast(x + (size_t)k * stride + (size_t)r * X86_STEP);
            X86_UNROLL
            for (int p = 0; p < (int)PARTS; p++) {
                ints *sum = &sums[r * (int)PARTS + p];
                *sum = _mm512_dpbusd_epi32(*sum, w[k * (int)PARTS + p], four);
            }
        }
    }
}

#include "backend/matrix_x86_body.h"

const icp_kernels icp_kernels_avx512vnni = {.name = "avx512vnni", .is_supported = icp_cpu_has_avx512_vnni, X86_KERNELS};

#else
typedef int icp_matrix_x86_avx512_is_empty; /* ISO C asks for a declaration */
#endif
