/* matrix_x86_avxvnni.c - kernels for x86-64 with vpdpbusd on vectors of eight lanes: processors without AVX-512. */
#if defined(__x86_64__)

#include "backend/matrix_x86_256.h"

#include "base/cpu.h"

#define TARGET __attribute__((target("avx2,fma,f16c,avxvnni")))
#define INLINE TARGET X86_INLINE
#define PARTS 1u
#define TILE_ROWS 8
#define TILE_LANES 0, 1, 4, 4, 4, 8, 8, 8, 8
#define TILE_ROWS_AT_ONCE 4
#define FLOAT_ROWS_AT_ONCE 12
#define OFFSET_Q8 128

INLINE void dots(int bits, const ints *w, const int8_t *x, size_t stride, const int STEPS, ints *sums, const int ROWS)
{
    (void)bits;
    X86_UNROLL
    for (int k = 0; k < STEPS; k++) {
        X86_UNROLL
        for (int r = 0; r < ROWS; r++) {
            ints four = ints_broadcast(x + (size_t)k * stride + (size_t)r * X86_STEP);
            sums[r] = _mm256_dpbusd_avx_epi32(sums[r], w[k], four);
        }
    }
}

#include "backend/matrix_x86_body.h"

const icp_kernels icp_kernels_avxvnni = {.name = "avxvnni", .is_supported = icp_cpu_has_avx_vnni, X86_KERNELS};

#else
typedef int icp_matrix_x86_avxvnni_is_empty; /* ISO C asks for a declaration */
#endif
