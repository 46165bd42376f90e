/* matrix_x86.c - what the sets of kernels for x86-64 share, with AVX2: quantising rows, and where sums start. */
#if defined(__x86_64__)

#include "backend/matrix_x86.h"

#include <string.h>

/* ---- Rows ------------------------------------------------------------------------------------------------- */

X86_AVX2 static uint32_t largest_bits(const float *x, uint32_t count)
{
    const __m256i mask = _mm256_set1_epi32(0x7fffffff);
    __m256i most[4] = {_mm256_setzero_si256(), _mm256_setzero_si256(), _mm256_setzero_si256(), _mm256_setzero_si256()};
    for (uint32_t k = 0; k < count; k += 32) {
        X86_UNROLL
        for (uint32_t i = 0; i < 4; i++) {
            __m256i bits = _mm256_castps_si256(_mm256_loadu_ps(x + k + 8 * i));
            most[i] = _mm256_max_epu32(most[i], _mm256_and_si256(bits, mask));
        }
    }
    __m256i all = _mm256_max_epu32(_mm256_max_epu32(most[0], most[1]), _mm256_max_epu32(most[2], most[3]));
    __m128i four = _mm_max_epu32(_mm256_castsi256_si128(all), _mm256_extracti128_si256(all, 1));
    four = _mm_max_epu32(four, _mm_shuffle_epi32(four, 0x4e));
    four = _mm_max_epu32(four, _mm_shuffle_epi32(four, 0xb1));
    return (uint32_t)_mm_cvtsi128_si32(four);
}

X86_AVX2 X86_INLINE __m256i quantise_8(const float *x, __m256 inverse)
{
    return _mm256_cvtps_epi32(_mm256_mul_ps(_mm256_loadu_ps(x), inverse));
}

/* 32 quants in the order of k; packing goes by halves of a vector, which the permutation puts right. */
X86_AVX2 X86_INLINE __m256i quantise_32(const float *x, float inverse)
{
    const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
    const __m256 factor = _mm256_set1_ps(inverse);
    __m256i low = _mm256_packs_epi32(quantise_8(x, factor), quantise_8(x + 8, factor));
    __m256i high = _mm256_packs_epi32(quantise_8(x + 16, factor), quantise_8(x + 24, factor));
    return _mm256_permutevar8x32_epi32(_mm256_packs_epi16(low, high), order);
}

/* Sums of four neighbouring bytes each. */
X86_AVX2 X86_INLINE __m256i sums_of_4(__m256i quants)
{
    return _mm256_madd_epi16(_mm256_maddubs_epi16(_mm256_set1_epi8(1), quants), _mm256_set1_epi16(1));
}

X86_AVX2 X86_INLINE int32_t sum_of_lanes(__m128i four)
{
    four = _mm_add_epi32(four, _mm_shuffle_epi32(four, 0x4e));
    four = _mm_add_epi32(four, _mm_shuffle_epi32(four, 0xb1));
    return _mm_cvtsi128_si32(four);
}

/* The sums of a block: of its halves, of both, and that split. */
X86_AVX2 X86_INLINE void put_sums(const icp_row_part *part, uint32_t block, uint32_t lane, int32_t first, int32_t last)
{
    size_t lanes = part->lanes;
    uint32_t b = block % ICP_GROUP_BLOCKS;
    int32_t sum = first + last;
    int8_t *split = part->split + (size_t)block / ICP_GROUP_BLOCKS * 2 * ICP_GROUP_BLOCKS * lanes;
    size_t place = (b / X86_STEP * lanes + lane) * X86_STEP + b % X86_STEP;
    split[place] = (int8_t)(sum >> 6);
    split[ICP_GROUP_BLOCKS * lanes + place] = (int8_t)(sum & 63);
    part->sums[block * lanes + lane] = (float)sum;
    part->halves[(size_t)block * 2 * lanes + lane] = (int16_t)first;
    part->halves[((size_t)block * 2 + 1) * lanes + lane] = (int16_t)last;
}

/* One block of a row, to lanes [lane, lane + copies). */
X86_AVX2 X86_INLINE void put_block(const icp_row_part *part, uint32_t block, uint32_t lane, uint32_t copies,
                                   __m256i quants)
{
    int8_t *out = part->quants + ((size_t)block * ICP_BLOCK_VALUES * part->lanes) + lane * X86_STEP;
    __m256i fours = sums_of_4(quants);
    int32_t first = sum_of_lanes(_mm256_castsi256_si128(fours));
    int32_t last = sum_of_lanes(_mm256_extracti128_si256(fours, 1));
    int32_t steps[8];
    _mm256_storeu_si256((__m256i *)(void *)steps, quants);
    for (uint32_t copy = 0; copy < copies; copy++) {
        for (uint32_t i = 0; i < 8; i++) memcpy(out + (i * part->lanes + copy) * X86_STEP, &steps[i], X86_STEP);
        put_sums(part, block, lane + copy, first, last);
    }
}

X86_AVX2 static void quantise_row(const icp_row_part *part, const float *x, uint32_t columns, uint32_t lane,
                                  uint32_t copies)
{
    uint32_t group_values = part->group_blocks * ICP_BLOCK_VALUES;
    for (uint32_t k = 0; k < columns; k += group_values) {
        uint32_t end = columns - k < group_values ? columns : k + group_values;
        float inverse;
        float scale = icp_rows_scale(largest_bits(x + k, end - k), &inverse);
        for (uint32_t i = 0; i < copies; i++) part->scales[k / group_values * part->lanes + lane + i] = scale;
        for (uint32_t i = k; i < end; i += ICP_BLOCK_VALUES) {
            __m256i quants = inverse == 0 ? _mm256_setzero_si256() : quantise_32(x + i, inverse);
            put_block(part, i / ICP_BLOCK_VALUES, lane, copies, quants);
        }
    }
}

void icp_x86_quantise(const icp_kernels *kernels, const icp_row_part *part, const float *x, uint32_t columns)
{
    (void)kernels;
    for (uint32_t row = 0; row < part->row_count; row++) {
        uint32_t copies = row + 1 == part->row_count ? part->lanes - row : 1;
        quantise_row(part, x + (size_t)row * columns, columns, row, copies);
    }
}

/* ---- Starts ----------------------------------------------------------------------------------------------- */

/* There are sums of a whole group's blocks, so eight at a time do not go past the end. */
X86_AVX2 void icp_x86_starts(const icp_row_part *rows, uint32_t block_count, int32_t offset, int32_t *starts)
{
    const __m256 factor = _mm256_set1_ps((float)-offset);
    for (uint32_t i = 0; i < block_count * rows->lanes; i += 8) {
        __m256i start = _mm256_cvtps_epi32(_mm256_mul_ps(_mm256_loadu_ps(rows->sums + i), factor));
        _mm256_storeu_si256((__m256i *)(void *)(starts + i), start);
    }
}

X86_AVX2 void icp_x86_half_starts(const icp_row_part *rows, uint32_t block_count, int32_t offset, int32_t *starts)
{
    const __m256i factor = _mm256_set1_epi32(-offset);
    for (uint32_t i = 0; i < 2 * block_count * rows->lanes; i += 8) {
        __m256i sums = _mm256_cvtepi16_epi32(_mm_loadu_si128((const __m128i *)(const void *)(rows->halves + i)));
        _mm256_storeu_si256((__m256i *)(void *)(starts + i), _mm256_mullo_epi32(sums, factor));
    }
}

#else
typedef int icp_matrix_x86_is_empty; /* ISO C asks for a declaration */
#endif
