/* matrix_x86_avx2.c - kernels for x86-64 with AVX2, FMA and F16C, and no dot-product instruction.
 *
 * vpmaddubsw multiplies bytes without a sign by bytes with one and adds neighbours, in 16 bits and with saturation, so
 * what is added there must stay below 2^15. A row's quants are at most 127:
 *
 *      bits of a quant      largest pair          pairs that can be added
 *      4                    2 * 15 * 127 = 3810   8: all steps of a block
 *      5                    2 * 31 * 127 = 7874   4
 *      6                    2 * 63 * 127 = 16002  2
 *      8                    2 * 128 * 127 = 32512 1, of magnitudes: the row's values take the sign of the weight's
 *
 * Then vpmaddwd by ones makes sums of 32 bits. A quant of -128 has the magnitude 128, which a byte without a sign can
 * hold; so it is the weight's magnitude, not the row's, that is taken. */
#if defined(__x86_64__)

#include "backend/matrix_x86_256.h"

#include "base/cpu.h"

#define TARGET X86_AVX2
#define INLINE AVX2_INLINE
#define PARTS 1u
#define TILE_ROWS 8
#define TILE_LANES 0, 1, 4, 4, 4, 8, 8, 8, 8
#define TILE_ROWS_AT_ONCE 4
#define FLOAT_ROWS_AT_ONCE 12
#define OFFSET_Q8 0

INLINE ints multiply_pairs(int bits, ints w, ints x)
{
    if (bits == 8) return _mm256_maddubs_epi16(_mm256_abs_epi8(w), _mm256_sign_epi8(x, w));
    return _mm256_maddubs_epi16(w, x);
}

INLINE void dots(int bits, const ints *w, const int8_t *x, size_t stride, const int STEPS, ints *sums, const int ROWS)
{
    const ints ones = _mm256_set1_epi16(1);
    const int run = bits == 4 ? 8 : bits == 5 ? 4 : bits == 6 ? 2 : 1;
    ints pairs[TILE_ROWS_AT_ONCE];
    X86_UNROLL
    for (int k = 0; k < STEPS; k++) {
        X86_UNROLL
        for (int r = 0; r < ROWS; r++) {
            ints pair = multiply_pairs(bits, w[k], ints_broadcast(x + (size_t)k * stride + (size_t)r * X86_STEP));
            pairs[r] = k % run == 0 ? pair : _mm256_add_epi16(pairs[r], pair);
            if ((k + 1) % run != 0 && k + 1 != STEPS) continue;
            sums[r] = ints_add(sums[r], _mm256_madd_epi16(pairs[r], ones));
        }
    }
}

#include "backend/matrix_x86_body.h"

const icp_kernels icp_kernels_avx2 = {.name = "avx2", .is_supported = icp_cpu_has_avx2, X86_KERNELS};

#else
typedef int icp_matrix_x86_avx2_is_empty; /* ISO C asks for a declaration */
#endif
