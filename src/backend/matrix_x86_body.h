/* matrix_x86_body.h - the kernels for x86-64, written once for a vector of any width.
 *
 * The file that includes it has defined, for vectors of V lanes of 32 bits:
 *
 *      V, TARGET, INLINE       lanes; the attribute of functions; static inline with it
 *      PARTS                   vectors that make up the columns of a panel: C = PARTS * V
 *      TILE_ROWS, TILE_LANES   rows of a part, and its lanes for each number of rows: 1, 4 or TILE_ROWS
 *      TILE_ROWS_AT_ONCE       rows whose sums fit the registers
 *      FLOAT_ROWS_AT_ONCE      the same for float weights
 *      OFFSET_Q8               128; or 0, where dots takes the quants of Q8_0 with their sign
 *      ints, floats            the vectors, and the functions ints_... and floats_... on them
 *      dots(bits, w, x, stride, steps, sums, rows)
 *                              adds the products of steps times PARTS vectors of quants (of so many bits, moved up by
 *                              the offset) and the rows' values at x, x + 4, ...; those of the next step are stride
 *                              bytes further. sums is [rows][PARTS], as are all arrays of the rows here
 *
 * TILE. Sums of whole numbers for all rows stay in registers over a block, the s of matrix.h over a group; the weights
 * of a step are loaded once for all rows, and a row's four values are broadcast by the load, once for all parts.
 *
 * VECTOR. One row: quants are expanded in registers. The same functions finish a group, for one row. */
#ifndef ICP_BACKEND_MATRIX_X86_BODY_H
#define ICP_BACKEND_MATRIX_X86_BODY_H

#include "backend/matrix_x86.h"

#include "base/assert.h"

#define VECTOR_BYTES ((size_t)V * 4)
#define AHEAD 8192 /* bytes; one thread reads Q4_0 at 14.7 GB/s so, at 14.3 from 4096 ahead, at 9 to 11 without */
#define C (PARTS * V)
#define CHUNK_BLOCKS (ICP_CHUNK_BLOCKS * 8u / C)
#define BLOCK_VECTORS (8 * (int)PARTS)
#define SUMS_MAX (TILE_ROWS_AT_ONCE * (int)PARTS)

/* ---- Types, as constants ---------------------------------------------------------------------------------- */

X86_INLINE bool type_is_super(icp_weight_type type)
{
    return type == ICP_WEIGHT_Q4_K || type == ICP_WEIGHT_Q5_K || type == ICP_WEIGHT_Q6_K;
}

X86_INLINE bool type_has_minima(icp_weight_type type)
{
    return type == ICP_WEIGHT_Q4_1 || type == ICP_WEIGHT_Q5_1 || type == ICP_WEIGHT_Q4_K || type == ICP_WEIGHT_Q5_K;
}

X86_INLINE int type_bits(icp_weight_type type)
{
    if (type == ICP_WEIGHT_Q8_0) return 8;
    if (type == ICP_WEIGHT_Q6_K) return 6;
    return type == ICP_WEIGHT_Q5_0 || type == ICP_WEIGHT_Q5_1 || type == ICP_WEIGHT_Q5_K ? 5 : 4;
}

X86_INLINE int32_t type_offset(icp_weight_type type)
{
    if (type == ICP_WEIGHT_Q8_0) return OFFSET_Q8;
    return type_has_minima(type) ? 0 : 1 << (type_bits(type) - 1);
}

/* ---- Unpacking -------------------------------------------------------------------------------------------- */

typedef union lanes {
    ints i;
    floats f;
} lanes;

/* What belongs to a block, and to a group of a K type. */
typedef struct block_scales {
    lanes a[PARTS]; /* d, or the first scales of a K type */
    lanes b[PARTS]; /* m, or the second scales */
} block_scales;

typedef struct group_scales {
    floats d[PARTS];
    floats m[PARTS];
    ints minima[2 * PARTS];
} group_scales;

typedef struct chunk_scratch {
    ints quants[CHUNK_BLOCKS][BLOCK_VECTORS];
    block_scales blocks[CHUNK_BLOCKS];
    group_scales groups[CHUNK_BLOCKS / ICP_GROUP_BLOCKS];
    icp_weight_type type;
} chunk_scratch;

INLINE const uint8_t *expand_4(bool is_signed, const uint8_t *packed, ints *w)
{
    const ints nibble = ints_bytes(15);
    X86_UNROLL
    for (int i = 0; i < BLOCK_VECTORS / 2; i++) {
        ints both = ints_load(packed + (size_t)i * VECTOR_BYTES);
        if (is_signed) both = ints_xor(both, ints_bytes(0x88));
        w[i] = ints_and(both, nibble);
        w[i + BLOCK_VECTORS / 2] = ints_and(ints_right(both, 4), nibble);
    }
    return packed + BLOCK_VECTORS / 2 * VECTOR_BYTES;
}

/* The fifth bit of vector i is bit i / PARTS of the bytes of high vector i % PARTS. */
INLINE const uint8_t *expand_5(bool is_signed, const uint8_t *packed, ints *w)
{
    packed = expand_4(false, packed, w);
    X86_UNROLL
    for (int part = 0; part < (int)PARTS; part++) {
        ints high = ints_load(packed + (size_t)part * VECTOR_BYTES);
        if (is_signed) high = ints_xor(high, ints_bytes(0xff));
        X86_UNROLL
        for (int i = 0; i < 8; i++) {
            ints bit = i < 4 ? ints_left(high, 4 - i) : ints_right(high, i - 4);
            ints *out = &w[i * (int)PARTS + part];
            *out = ints_or(*out, ints_and(bit, ints_bytes(0x10)));
        }
    }
    return packed + PARTS * VECTOR_BYTES;
}

/* The upper two bits of vector i are bits 2 * (i / (2 * PARTS)) and the next of the bytes of high vector
 * i % (2 * PARTS). */
INLINE const uint8_t *expand_6(const uint8_t *packed, ints *w)
{
    const int count = 2 * (int)PARTS;
    packed = expand_4(false, packed, w);
    X86_UNROLL
    for (int part = 0; part < count; part++) {
        ints high = ints_xor(ints_load(packed + (size_t)part * VECTOR_BYTES), ints_bytes(0xaa));
        X86_UNROLL
        for (int i = 0; i < 4; i++) {
            ints bits = i < 2 ? ints_left(high, 4 - 2 * i) : ints_right(high, 2 * i - 4);
            ints *out = &w[i * count + part];
            *out = ints_or(*out, ints_and(bits, ints_bytes(0x30)));
        }
    }
    return packed + 2 * PARTS * VECTOR_BYTES;
}

/* A block's quants, moved up by the type's offset; returns what follows them. */
INLINE const uint8_t *expand(icp_weight_type type, const uint8_t *packed, ints *w)
{
    if (type_bits(type) == 4) return expand_4(!type_has_minima(type), packed, w);
    if (type_bits(type) == 5) return expand_5(!type_has_minima(type), packed, w);
    if (type_bits(type) == 6) return expand_6(packed, w);
    X86_UNROLL
    for (int i = 0; i < BLOCK_VECTORS; i++) {
        w[i] = ints_load(packed + (size_t)i * VECTOR_BYTES);
        if (OFFSET_Q8 != 0) w[i] = ints_xor(w[i], ints_bytes(OFFSET_Q8));
    }
    return packed + BLOCK_VECTORS * VECTOR_BYTES;
}

INLINE const uint8_t *read_halves(const uint8_t *packed, floats *out)
{
    X86_UNROLL
    for (int p = 0; p < (int)PARTS; p++) out[p] = floats_of_halves(packed + (size_t)p * 2 * V);
    return packed + 2 * C;
}

INLINE const uint8_t *read_block_scales(icp_weight_type type, const uint8_t *packed, block_scales *out)
{
    X86_UNROLL
    for (int p = 0; p < (int)PARTS; p++) {
        size_t at = (size_t)p * V;
        if (type_is_super(type)) out->a[p].i = ints_of_bytes(packed + at);
        if (type == ICP_WEIGHT_Q6_K) out->b[p].i = ints_of_bytes(packed + C + at);
        if (!type_is_super(type)) out->a[p].f = floats_of_halves(packed + 2 * at);
        if (!type_is_super(type) && type_has_minima(type)) out->b[p].f = floats_of_halves(packed + 2 * C + 2 * at);
    }
    if (type_is_super(type)) return packed + (type == ICP_WEIGHT_Q6_K ? 2 : 1) * C;
    return packed + (type_has_minima(type) ? 4 : 2) * C;
}

INLINE const uint8_t *read_group_scales(icp_weight_type type, const uint8_t *packed, group_scales *out)
{
    if (!type_is_super(type)) return packed;
    packed = read_halves(packed, out->d);
    if (!type_has_minima(type)) return packed;
    packed = read_halves(packed, out->m);
    X86_UNROLL
    for (int i = 0; i < 2 * (int)PARTS; i++) out->minima[i] = ints_load(packed + (size_t)i * VECTOR_BYTES);
    return packed + 8 * C;
}

INLINE void unpack_type(icp_weight_type type, const uint8_t *packed, uint32_t block_count, chunk_scratch *out)
{
    for (uint32_t b = 0; b < block_count; b++) {
        if (b % ICP_GROUP_BLOCKS == 0) packed = read_group_scales(type, packed, &out->groups[b / ICP_GROUP_BLOCKS]);
        packed = expand(type, packed, out->quants[b]);
        packed = read_block_scales(type, packed, &out->blocks[b]);
    }
}

/* Calls function(type, ...) with the type as a constant. */
#define FOR_TYPE(type, function, ...)           \
    switch (type) {                             \
    case ICP_WEIGHT_Q8_0:                       \
        function(ICP_WEIGHT_Q8_0, __VA_ARGS__); \
        break;                                  \
    case ICP_WEIGHT_Q4_0:                       \
        function(ICP_WEIGHT_Q4_0, __VA_ARGS__); \
        break;                                  \
    case ICP_WEIGHT_Q4_1:                       \
        function(ICP_WEIGHT_Q4_1, __VA_ARGS__); \
        break;                                  \
    case ICP_WEIGHT_Q5_0:                       \
        function(ICP_WEIGHT_Q5_0, __VA_ARGS__); \
        break;                                  \
    case ICP_WEIGHT_Q5_1:                       \
        function(ICP_WEIGHT_Q5_1, __VA_ARGS__); \
        break;                                  \
    case ICP_WEIGHT_Q4_K:                       \
        function(ICP_WEIGHT_Q4_K, __VA_ARGS__); \
        break;                                  \
    case ICP_WEIGHT_Q5_K:                       \
        function(ICP_WEIGHT_Q5_K, __VA_ARGS__); \
        break;                                  \
    default:                                    \
        function(ICP_WEIGHT_Q6_K, __VA_ARGS__); \
    }

TARGET static void unpack(icp_weight_type type, const uint8_t *packed, uint32_t block_count, uint8_t *scratch,
                          icp_chunk *chunk)
{
    chunk_scratch *out = (chunk_scratch *)(void *)scratch;
    out->type = type;
    FOR_TYPE(type, unpack_type, packed, block_count, out)
    *chunk = (icp_chunk){.quants = (const int8_t *)out->quants, .quants_stride = sizeof(out->quants[0]), .scales = out};
}

/* ---- Groups ----------------------------------------------------------------------------------------------- */

/* Some rows of a part, from the start of a group. */
typedef struct group_rows {
    const int8_t *quants;
    const float *scales;
    const float *sums;
    const int8_t *split;
    const int32_t *starts;
    size_t lanes; /* of the part, so also from one number of a row to its next */
} group_rows;

/* Whole numbers: the sums of steps times PARTS vectors of quants, from where they start. */
INLINE void sum_steps(icp_weight_type type, const ints *w, const group_rows *rows, size_t step, size_t start,
                      const int STEPS, ints *sums, const int ROWS)
{
    X86_UNROLL
    for (int i = 0; i < ROWS * (int)PARTS; i++) {
        const int32_t *at = rows->starts + start * rows->lanes + (size_t)i / PARTS;
        sums[i] = type_offset(type) == 0 ? ints_zero() : ints_broadcast(at);
    }
    const int8_t *x = rows->quants + step * rows->lanes * X86_STEP;
    dots(type_bits(type), w, x, rows->lanes * X86_STEP, STEPS, sums, ROWS);
}

/* acc and a block of a type that is not a K type. */
INLINE void add_block(icp_weight_type type, const ints *w, const block_scales *scales, const group_rows *rows,
                      uint32_t block, floats *acc, const int ROWS)
{
    ints sums[SUMS_MAX];
    sum_steps(type, w, rows, (size_t)block * 8, block, 8, sums, ROWS);
    X86_UNROLL
    for (int i = 0; i < ROWS * (int)PARTS; i++) {
        size_t row = block * rows->lanes + (size_t)i / PARTS;
        floats s = floats_fma(floats_of_ints(sums[i]), scales->a[i % (int)PARTS].f, floats_zero());
        if (type_has_minima(type)) s = floats_fma(floats_broadcast(rows->sums + row), scales->b[i % (int)PARTS].f, s);
        acc[i] = floats_fma(s, floats_broadcast(rows->scales + row), acc[i]);
    }
}

INLINE void add_scaled(const ints *sums, const lanes *scales, ints *t, const int ROWS)
{
    X86_UNROLL
    for (int i = 0; i < ROWS * (int)PARTS; i++) {
        t[i] = ints_add(t[i], ints_multiply(sums[i], scales[i % (int)PARTS].i));
    }
}

/* t of a block of a K type. */
INLINE void add_super(icp_weight_type type, const ints *w, const block_scales *scales, const group_rows *rows,
                      uint32_t block, ints *t, const int ROWS)
{
    ints sums[SUMS_MAX];
    if (type != ICP_WEIGHT_Q6_K) {
        sum_steps(type, w, rows, (size_t)block * 8, block, 8, sums, ROWS);
        add_scaled(sums, scales->a, t, ROWS);
        return;
    }
    sum_steps(type, w, rows, (size_t)block * 8, (size_t)block * 2, 4, sums, ROWS);
    add_scaled(sums, scales->a, t, ROWS);
    sum_steps(type, w + 4 * PARTS, rows, (size_t)block * 8 + 4, (size_t)block * 2 + 1, 4, sums, ROWS);
    add_scaled(sums, scales->b, t, ROWS);
}

/* s of a K type's group. */
INLINE void finish_super(icp_weight_type type, const group_scales *scales, const group_rows *rows, const ints *t,
                         floats *s, const int ROWS)
{
    X86_UNROLL
    for (int i = 0; i < ROWS * (int)PARTS; i++) s[i] = floats_multiply(floats_of_ints(t[i]), scales->d[i % (int)PARTS]);
    if (!type_has_minima(type)) return;
    ints high[SUMS_MAX], low[SUMS_MAX];
    size_t stride = rows->lanes * X86_STEP;
    X86_UNROLL
    for (int i = 0; i < ROWS * (int)PARTS; i++) high[i] = low[i] = ints_zero();
    dots(5, scales->minima, rows->split, stride, 2, high, ROWS);
    dots(5, scales->minima, rows->split + ICP_GROUP_BLOCKS * rows->lanes, stride, 2, low, ROWS);
    X86_UNROLL
    for (int i = 0; i < ROWS * (int)PARTS; i++) {
        floats u = floats_of_ints(ints_add(ints_times_64(high[i]), low[i]));
        s[i] = floats_minus(u, scales->m[i % (int)PARTS], s[i]);
    }
}

/* The rows' acc as registers, and back. */
INLINE void load_acc(floats *sums, const float *acc, size_t acc_stride, const int ROWS)
{
    X86_UNROLL
    for (int i = 0; i < ROWS * (int)PARTS; i++)
        sums[i] = floats_load(acc + (size_t)i / PARTS * acc_stride + (size_t)i % PARTS * V);
}

INLINE void store_acc(const floats *sums, float *acc, size_t acc_stride, const int ROWS)
{
    X86_UNROLL
    for (int i = 0; i < ROWS * (int)PARTS; i++)
        floats_store(acc + (size_t)i / PARTS * acc_stride + (size_t)i % PARTS * V, sums[i]);
}

/* acc and a group of a K type. */
INLINE void add_group(const group_rows *rows, const floats *s, floats *acc, const int ROWS)
{
    X86_UNROLL
    for (int i = 0; i < ROWS * (int)PARTS; i++)
        acc[i] = floats_fma(s[i], floats_broadcast(rows->scales + (size_t)i / PARTS), acc[i]);
}

/* ---- Many rows -------------------------------------------------------------------------------------------- */

/* Group g of the part, from a lane on. Starts begin where the chunk begins. */
INLINE group_rows rows_at(icp_weight_type type, const icp_row_part *part, const int32_t *starts, uint32_t group,
                          uint32_t lane)
{
    size_t all = part->lanes;
    size_t blocks = (size_t)group * ICP_GROUP_BLOCKS;
    return (group_rows){.quants = part->quants + blocks * ICP_BLOCK_VALUES * all + lane * X86_STEP,
                        .scales = part->scales + (type_is_super(type) ? group : blocks) * all + lane,
                        .sums = part->sums + blocks * all + lane,
                        .split = part->split + blocks * 2 * all + lane * X86_STEP,
                        .starts = starts + blocks * (type == ICP_WEIGHT_Q6_K ? 2 : 1) * all + lane,
                        .lanes = all};
}

INLINE void tile_rows(icp_weight_type type, const icp_tile *tile, const int32_t *starts, uint32_t lane, const int ROWS)
{
    const chunk_scratch *chunk = tile->chunk->scales;
    for (uint32_t first = 0; first < tile->block_count; first += ICP_GROUP_BLOCKS) {
        uint32_t left = tile->block_count - first;
        uint32_t count = left < ICP_GROUP_BLOCKS ? left : ICP_GROUP_BLOCKS;
        uint32_t group = first / ICP_GROUP_BLOCKS;
        group_rows rows = rows_at(type, &tile->rows, starts, group, lane);
        float *at = tile->acc + lane * tile->acc_stride;
        floats acc[SUMS_MAX], s[SUMS_MAX];
        ints t[SUMS_MAX];
        X86_UNROLL
        for (int i = 0; i < ROWS * (int)PARTS; i++) t[i] = ints_zero();
        load_acc(acc, at, tile->acc_stride, ROWS);
        for (uint32_t b = 0; b < count; b++) {
            const ints *w = chunk->quants[first + b];
            const block_scales *scales = &chunk->blocks[first + b];
            if (type_is_super(type)) add_super(type, w, scales, &rows, b, t, ROWS);
            if (!type_is_super(type)) add_block(type, w, scales, &rows, b, acc, ROWS);
        }
        if (type_is_super(type)) {
            finish_super(type, &chunk->groups[group], &rows, t, s, ROWS);
            add_group(&rows, s, acc, ROWS);
        }
        store_acc(acc, at, tile->acc_stride, ROWS);
    }
}

INLINE void starts_of(icp_weight_type type, const icp_row_part *rows, uint32_t block_count, int32_t *starts)
{
    if (type == ICP_WEIGHT_Q6_K) {
        icp_x86_half_starts(rows, block_count, type_offset(type), starts);
    } else if (type_offset(type) != 0) {
        icp_x86_starts(rows, block_count, type_offset(type), starts);
    }
}

INLINE void tile_type(icp_weight_type type, const icp_tile *tile)
{
    int32_t starts[CHUNK_BLOCKS * 2 * TILE_ROWS + 8];
    starts_of(type, &tile->rows, tile->block_count, starts);
    uint32_t lane = 0;
    for (; lane + TILE_ROWS_AT_ONCE <= tile->rows.lanes; lane += TILE_ROWS_AT_ONCE) {
        tile_rows(type, tile, starts, lane, TILE_ROWS_AT_ONCE);
    }
    if (TILE_ROWS_AT_ONCE != 4 && lane + 4 <= tile->rows.lanes) {
        tile_rows(type, tile, starts, lane, 4);
        lane += 4;
    }
    for (; lane < tile->rows.lanes; lane++) tile_rows(type, tile, starts, lane, 1);
}

TARGET static void tile(const icp_tile *self)
{
    const chunk_scratch *chunk = self->chunk->scales;
    FOR_TYPE(chunk->type, tile_type, self)
}

/* ---- One row ---------------------------------------------------------------------------------------------- */

/* Asks for what is read AHEAD bytes later. Panels follow one another, so it is wanted, but for the last; the
 * processor's own prefetching stops at the end of a page. */
INLINE void ask_ahead(const uint8_t *from, const uint8_t *to)
{
    for (; from < to; from += 64) _mm_prefetch((const char *)from + AHEAD, _MM_HINT_T0);
}

/* A group of one panel as it is packed; returns the next. */
INLINE const uint8_t *vector_group(icp_weight_type type, const uint8_t *packed, const group_rows *rows, uint32_t count,
                                   float *acc)
{
    group_scales group;
    floats sums[PARTS], s[PARTS];
    ints t[PARTS];
    X86_UNROLL
    for (int p = 0; p < (int)PARTS; p++) t[p] = ints_zero();
    load_acc(sums, acc, 0, 1);
    packed = read_group_scales(type, packed, &group);
    for (uint32_t b = 0; b < count; b++) {
        ints w[BLOCK_VECTORS];
        block_scales scales;
        const uint8_t *next = read_block_scales(type, expand(type, packed, w), &scales);
        ask_ahead(packed, next);
        packed = next;
        if (type_is_super(type)) add_super(type, w, &scales, rows, b, t, 1);
        if (!type_is_super(type)) add_block(type, w, &scales, rows, b, sums, 1);
    }
    if (type_is_super(type)) {
        finish_super(type, &group, rows, t, s, 1);
        add_group(rows, s, sums, 1);
    }
    store_acc(sums, acc, 0, 1);
    return packed;
}

INLINE void vector_type(icp_weight_type type, const icp_vector *self)
{
    const icp_matrix *matrix = self->matrix;
    const uint8_t *packed[ICP_VECTOR_PANELS];
    for (uint32_t p = 0; p < self->panel_count; p++) {
        packed[p] = matrix->panels + (self->panel + p) * matrix->panel_bytes;
        for (uint32_t i = 0; i < C; i += V) floats_store(self->acc + (size_t)p * C + i, floats_zero());
    }
    uint32_t blocks = matrix->columns / ICP_BLOCK_VALUES;
    for (uint32_t first = 0; first < blocks; first += ICP_GROUP_BLOCKS) {
        uint32_t count = blocks - first < ICP_GROUP_BLOCKS ? blocks - first : ICP_GROUP_BLOCKS;
        int32_t starts[2 * ICP_GROUP_BLOCKS + 8];
        icp_row_part part = *self->rows;
        part.quants += (size_t)first * ICP_BLOCK_VALUES;
        part.scales += first / part.group_blocks;
        part.sums += first;
        part.split += (size_t)first * 2;
        part.halves += (size_t)first * 2;
        starts_of(type, &part, count, starts);
        group_rows rows = rows_at(type, &part, starts, 0, 0);
        for (uint32_t p = 0; p < self->panel_count; p++) {
            packed[p] = vector_group(type, packed[p], &rows, count, self->acc + (size_t)p * C);
        }
    }
}

/* ---- Float weights ---------------------------------------------------------------------------------------- */

INLINE floats load_floats(icp_weight_type type, const uint8_t *packed)
{
    if (type == ICP_WEIGHT_F16) return floats_of_halves(packed);
    if (type == ICP_WEIGHT_BF16) return floats_of_bfloats(packed);
    return floats_load((const float *)(const void *)packed);
}

INLINE void widen_type(icp_weight_type type, const uint8_t *packed, float *values, size_t count)
{
    uint32_t bytes = type == ICP_WEIGHT_F32 ? 4 : 2;
    for (size_t i = 0; i < count; i += V) floats_store(values + i, load_floats(type, packed + i * bytes));
}

TARGET static void widen(icp_weight_type type, const uint8_t *packed, float *values, size_t count)
{
    if (type == ICP_WEIGHT_F32) widen_type(ICP_WEIGHT_F32, packed, values, count);
    if (type == ICP_WEIGHT_F16) widen_type(ICP_WEIGHT_F16, packed, values, count);
    if (type == ICP_WEIGHT_BF16) widen_type(ICP_WEIGHT_BF16, packed, values, count);
}

/* x comes with a stride that is known, so that the rows' addresses differ by constants. */
INLINE void float_tile_rows(const icp_float_tile *self, uint32_t row, const int ROWS)
{
    const float *x = self->x + (size_t)row * ICP_CHUNK_FLOATS;
    float *at = self->acc + row * self->acc_stride;
    floats acc[FLOAT_ROWS_AT_ONCE * PARTS];
    X86_UNROLL
    for (int i = 0; i < ROWS * (int)PARTS; i++) {
        acc[i] = floats_load(at + (size_t)i / PARTS * self->acc_stride + (size_t)i % PARTS * V);
    }
    for (uint32_t k = 0; k < self->k_count; k++) {
        floats w[PARTS];
        X86_UNROLL
        for (int p = 0; p < (int)PARTS; p++) w[p] = floats_load(self->panel + (size_t)k * C + (size_t)p * V);
        X86_UNROLL
        for (int i = 0; i < ROWS * (int)PARTS; i++) {
            acc[i] =
                floats_fma(floats_broadcast(x + k + (size_t)i / PARTS * ICP_CHUNK_FLOATS), w[i % (int)PARTS], acc[i]);
        }
    }
    X86_UNROLL
    for (int i = 0; i < ROWS * (int)PARTS; i++) {
        floats_store(at + (size_t)i / PARTS * self->acc_stride + (size_t)i % PARTS * V, acc[i]);
    }
}

TARGET static void float_tile(const icp_float_tile *self)
{
    ICP_ASSERT(self->x_stride == ICP_CHUNK_FLOATS);
    uint32_t row = 0;
    for (; row + FLOAT_ROWS_AT_ONCE <= self->row_count; row += FLOAT_ROWS_AT_ONCE) {
        float_tile_rows(self, row, FLOAT_ROWS_AT_ONCE);
    }
    for (; row + 4 <= self->row_count; row += 4) float_tile_rows(self, row, 4);
    for (; row < self->row_count; row++) float_tile_rows(self, row, 1);
}

INLINE void float_vector_panels(icp_weight_type type, const icp_vector *self, uint32_t panel, const int PANELS)
{
    const icp_matrix *matrix = self->matrix;
    const size_t bytes = type == ICP_WEIGHT_F32 ? 4 : 2;
    const uint8_t *packed = matrix->panels + (self->panel + panel) * matrix->panel_bytes;
    floats acc[ICP_VECTOR_PANELS * PARTS];
    X86_UNROLL
    for (int i = 0; i < PANELS * (int)PARTS; i++) acc[i] = floats_zero();
    for (uint32_t k = 0; k < matrix->columns; k++, packed += C * bytes) {
        floats x = floats_broadcast(self->x + k);
        X86_UNROLL
        for (int p = 0; p < PANELS; p++) {
            const uint8_t *from = packed + (size_t)p * matrix->panel_bytes;
            ask_ahead(from, from + C * bytes);
        }
        X86_UNROLL
        for (int i = 0; i < PANELS * (int)PARTS; i++) {
            size_t at = (size_t)i / PARTS * matrix->panel_bytes + (size_t)i % PARTS * V * bytes;
            acc[i] = floats_fma(x, load_floats(type, packed + at), acc[i]);
        }
    }
    X86_UNROLL
    for (int i = 0; i < PANELS * (int)PARTS; i++) floats_store(self->acc + (size_t)panel * C + (size_t)i * V, acc[i]);
}

INLINE void float_vector(icp_weight_type type, const icp_vector *self)
{
    uint32_t panel = 0;
    for (; panel + ICP_VECTOR_PANELS <= self->panel_count; panel += ICP_VECTOR_PANELS) {
        float_vector_panels(type, self, panel, ICP_VECTOR_PANELS);
    }
    for (; panel + 2 <= self->panel_count; panel += 2) float_vector_panels(type, self, panel, 2);
    for (; panel < self->panel_count; panel++) float_vector_panels(type, self, panel, 1);
}

TARGET static void vector(const icp_vector *self)
{
    icp_weight_type type = self->matrix->type;
    if (type == ICP_WEIGHT_F32) {
        float_vector(ICP_WEIGHT_F32, self);
    } else if (type == ICP_WEIGHT_F16) {
        float_vector(ICP_WEIGHT_F16, self);
    } else if (type == ICP_WEIGHT_BF16) {
        float_vector(ICP_WEIGHT_BF16, self);
    } else {
        FOR_TYPE(type, vector_type, self)
    }
}

/* All of a set but its name and whether the machine can run it. */
#define X86_KERNELS                                                                                            \
    .panel_columns = C, .step = X86_STEP, .tile_rows = TILE_ROWS, .tile_lanes = {TILE_LANES},                  \
    .float_tile_rows = FLOAT_ROWS_AT_ONCE, .chunk_bytes = sizeof(chunk_scratch), .quantise = icp_x86_quantise, \
    .unpack = unpack, .tile = tile, .widen = widen, .float_tile = float_tile, .vector = vector

#endif
