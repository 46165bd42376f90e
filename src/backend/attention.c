/* attention.c - softmax(q * K^T) * V over the block tables, for prefill and decode alike.
 *
 * ORDER. What is added to what depends on the row's own position and on nothing else. For one row and head:
 *
 *      positions   | segment 0: 512             | segment 1             | ...          at absolute multiples
 *      segment     | tile 0: 64 | tile 1 | ...                                         at absolute multiples
 *
 *   - q is multiplied by the scale once;
 *   - in a tile: scores, their maximum, weights p = exp(score - max so far); what the segment has so far is multiplied
 *     by exp(old max - new max); o[d] = fma(p[j], v[j][d], o[d]), j rising; weights are summed by position modulo 16;
 *   - segments, each begun anew, are merged in rising order.
 *
 * Positions that the row may not see (later ones, those before its window) take no part: not as a weight of 0 but not
 * at all, so what lies there cannot show, not even a NaN, and neither can the other rows of the item.
 *
 * WORK. A unit is some rows of one sequence and the query heads that share a KV head: up to 64 rows of a small matrix
 * that is multiplied with each tile of K and V, which is turned into floats once for all of them. Where there are fewer
 * units than the threads need (one long sequence being decoded), an item is a segment of a unit; the thread that
 * finishes the last segment of a unit merges them, in the same order, so the bits are the same.
 *
 * Measured on one Neoverse-V1 core (f32 peak 83 GFLOP/s), heads of 64, halves: prefill of 512 rows at 2,048 and 4,096
 * tokens 48 GFLOP/s, of which products alone are at 67 and a sixth of the time is softmax; decode at 2,048 tokens 29
 * to 31 GFLOP/s with 4 query heads to a KV head, 34 with 7. With 4 heads and one block's KV read again and again it is
 * 37: a sixth to a fifth of the time goes to waiting for memory, and a third of a product's to widening halves. Two
 * threads take half the time. Tiles of 64 positions: a tile of K and V as floats is 32 KiB, half of the first cache,
 * and the sums are rescaled once for 64 positions instead of 16. Units of 32 or 48 rows were no faster.
 *
 * Called by the owner thread; items run on the pool's. */
#include "backend/cpu.h"

#include "base/arena.h"
#include "base/assert.h"

#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define LANES ICP_MATH_LANES
#define TILE 64u
#define SEGMENT 512u
#define ROWS_MAX 64u
#define DIRECT_ROWS_MAX 8u

#define UNITS_PER_THREAD 4u /* fewer: segments are shared out */
#define PARTIAL_BYTES ((size_t)16 << 20)

/* What one thread works in. */
typedef struct scratch {
    float *q;                                /* [rows][head_dim] */
    float *scores;                           /* [rows][TILE] */
    float *k;                                /* [TILE / 16][head_dim][16] */
    float *v;                                /* [width / 16][TILE][16] */
    float *max;                              /* [rows]: of the segment */
    float *factors;                          /* [rows]: that o is multiplied by, for the larger max of this tile */
    float *lanes;                            /* [rows][16]: sums of its weights */
    float *sums;                             /* [rows]: the same, added up */
    float *o;                                /* [rows][width] */
    float *total_max, *total_sums, *total_o; /* of all segments so far */
} scratch;

/* Rows of one sequence and query heads that share a KV head. Row i of the unit is head i % head_count of its query row
 * i / head_count. */
typedef struct unit {
    const icp_batch_sequence *sequence;
    uint32_t row_first; /* within the sequence */
    uint32_t row_count;
    uint32_t kv_head;
    uint32_t head_first;
    uint32_t head_count;
    uint32_t begin, end; /* positions that any of its rows sees */
} unit;

/* A unit whose segments are items. */
typedef struct split {
    unit unit;
    uint32_t item_first;
    uint32_t segment_first;
    uint32_t segment_count;
    float *partials; /* [segment_count]: max [rows], sums [rows], o [rows][width] */
    _Atomic uint32_t left;
} split;

struct icp_attention {
    uint32_t thread_count;
    scratch *scratches; /* [thread_count] */
    icp_cpu_room memory;
    uint8_t *partials; /* PARTIAL_BYTES */
    split *splits;     /* [thread_count * UNITS_PER_THREAD] */
    uint32_t *starts;  /* [sequence_count_max + 1]: the first unit of each sequence */
    uint32_t sequence_count_max;
};

typedef struct attend_work {
    const icp_attend *attend;
    const icp_kv_memory *memory;
    const icp_math *math;
    const icp_batch *batch;
    icp_attention *attention;
    uint32_t dim, width;
    uint32_t share;      /* query heads of a KV head */
    uint32_t part_heads; /* of them, in one unit */
    uint32_t part_count;
    uint32_t unit_rows; /* query rows in one unit, at most */
    uint32_t unit_count;
    uint32_t split_count;
} attend_work;

/* ---- Memory --------------------------------------------------------------------------------------------- */

static void carve(icp_arena *arena, icp_attention *attention, uint32_t width)
{
    attention->scratches = icp_arena_take(arena, attention->thread_count, sizeof(scratch));
    attention->splits = icp_arena_take(arena, (size_t)attention->thread_count * UNITS_PER_THREAD, sizeof(split));
    attention->partials = icp_arena_take(arena, 1, PARTIAL_BYTES);
    for (uint32_t i = 0; i < attention->thread_count; i++) {
        scratch piece;
        piece.q = icp_arena_take(arena, (size_t)ROWS_MAX * width, sizeof(float));
        piece.scores = icp_arena_take(arena, (size_t)ROWS_MAX * TILE, sizeof(float));
        piece.k = icp_arena_take(arena, (size_t)TILE * width, sizeof(float));
        piece.v = icp_arena_take(arena, (size_t)TILE * width, sizeof(float));
        piece.max = icp_arena_take(arena, ROWS_MAX, sizeof(float));
        piece.factors = icp_arena_take(arena, ROWS_MAX, sizeof(float));
        piece.lanes = icp_arena_take(arena, (size_t)ROWS_MAX * LANES, sizeof(float));
        piece.sums = icp_arena_take(arena, ROWS_MAX, sizeof(float));
        piece.o = icp_arena_take(arena, (size_t)ROWS_MAX * width, sizeof(float));
        piece.total_max = icp_arena_take(arena, ROWS_MAX, sizeof(float));
        piece.total_sums = icp_arena_take(arena, ROWS_MAX, sizeof(float));
        piece.total_o = icp_arena_take(arena, (size_t)ROWS_MAX * width, sizeof(float));
        if (arena->base != NULL) attention->scratches[i] = piece;
    }
}

icp_attention *icp_attention_open(uint32_t thread_count, uint32_t width_max)
{
    icp_attention *attention = calloc(1, sizeof(*attention));
    if (attention == NULL) return NULL;
    attention->thread_count = thread_count;
    icp_arena measure = {0};
    carve(&measure, attention, width_max);
    if (!icp_cpu_room_grow(&attention->memory, measure.used)) {
        free(attention);
        return NULL;
    }
    icp_arena arena = {.base = attention->memory.memory};
    carve(&arena, attention, width_max);
    return attention;
}

void icp_attention_close(icp_attention *attention)
{
    if (attention == NULL) return;
    icp_memory_unmap(attention->memory.memory, attention->memory.bytes);
    free(attention->starts);
    free(attention);
}

bool icp_attention_reserve(icp_attention *attention, uint32_t sequence_count_max)
{
    if (attention->starts != NULL && sequence_count_max <= attention->sequence_count_max) return true;
    uint32_t *starts = malloc(((size_t)sequence_count_max + 1) * sizeof(*starts));
    if (starts == NULL) return false;
    free(attention->starts);
    attention->starts = starts;
    attention->sequence_count_max = sequence_count_max;
    return true;
}

/* ---- What a row sees ------------------------------------------------------------------------------------ */

typedef struct range {
    uint32_t begin, end;
} range;

static uint32_t least(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

static uint32_t most(uint32_t a, uint32_t b)
{
    return a > b ? a : b;
}

static range seen_by(const attend_work *work, uint32_t position)
{
    uint32_t window = work->attend->window;
    return (range){window == 0 || position < window ? 0 : position - window + 1, position + 1};
}

static uint32_t unit_position(const unit *self, uint32_t row)
{
    return self->sequence->position + self->row_first + row;
}

/* ---- One tile ------------------------------------------------------------------------------------------- */

/* The runs of a tile, and those of the next tile, or again of this where there is none. */
typedef struct direct_runs {
    const uint16_t *k[TILE / LANES], *v[TILE / LANES];
    const uint16_t *k_ahead[TILE / LANES], *v_ahead[TILE / LANES];
} direct_runs;

/* A tile of a unit. */
typedef struct tile_work {
    const attend_work *work;
    const unit *unit;
    const scratch *mine;
    uint32_t base;             /* the tile's first position */
    const direct_runs *direct; /* NULL: its KV are floats in scratch memory */
} tile_work;

static icp_kv_run run_at(const tile_work *tile, uint32_t position)
{
    const icp_kv_memory *memory = tile->work->memory;
    size_t head = (size_t)tile->work->attend->layer * memory->shape.head_count + tile->unit->kv_head;
    const uint32_t *table = tile->unit->sequence->tables[tile->work->attend->group];
    return icp_kv_run_at(memory, table, head * memory->head_bytes, position);
}

static void load_tile(const tile_work *tile, range positions)
{
    const attend_work *work = tile->work;
    for (uint32_t at = positions.begin / LANES * LANES; at < positions.end; at += LANES) {
        icp_kv_run run = run_at(tile, at);
        icp_kv_run_k(work->memory, work->math, run.k, tile->mine->k + (size_t)(at % TILE) * work->dim);
        icp_kv_run_v(work->memory, work->math, run.v, tile->mine->v + (size_t)(at % TILE) * LANES,
                     (size_t)TILE * LANES);
    }
}

/* Where rows are few and KV are halves, these are read where they lie, and turned into floats on the way into the
 * product. (4 rows: 0.8 us for a tile of 64 x 64, against 1.05 by way of scratch memory.) The next tile is asked for
 * meanwhile: its runs lie in blocks anywhere in memory, and a head's part of a block is too short for the processor to
 * see where the reading goes. */
static void find_runs(const tile_work *tile, range positions, direct_runs *out)
{
    for (uint32_t at = positions.begin / LANES * LANES; at < positions.end; at += LANES) {
        uint32_t i = at % TILE / LANES;
        icp_kv_run run = run_at(tile, at);
        icp_kv_run ahead = at + TILE < tile->unit->end ? run_at(tile, at + TILE) : run;
        out->k[i] = (const uint16_t *)(const void *)run.k;
        out->v[i] = (const uint16_t *)(const void *)run.v;
        out->k_ahead[i] = (const uint16_t *)(const void *)ahead.k;
        out->v_ahead[i] = (const uint16_t *)(const void *)ahead.v;
    }
}

/* scores = q * k, q multiplied by the scale before. seen is within the tile here and below. */
static void multiply_keys(const tile_work *tile, range seen, range rows)
{
    const attend_work *work = tile->work;
    uint32_t first = seen.begin / LANES * LANES;
    icp_product product = {.a = tile->mine->q + (size_t)rows.begin * work->dim,
                           .a_stride = work->dim,
                           .b = tile->mine->k + (size_t)first * work->dim,
                           .b_slab = (size_t)LANES * work->dim,
                           .c = tile->mine->scores + (size_t)rows.begin * TILE + first,
                           .c_stride = TILE,
                           .row_count = rows.end - rows.begin,
                           .slab_count = (seen.end - first + LANES - 1) / LANES,
                           .depth = work->dim};
    if (tile->direct == NULL) {
        work->math->product(&product);
        return;
    }
    product.b = NULL;
    product.b_runs = tile->direct->k + first / LANES;
    product.b_ahead = tile->direct->k_ahead + first / LANES;
    work->math->product(&product);
}

/* o += p * v */
static void multiply_values(const tile_work *tile, range seen, range rows)
{
    const attend_work *work = tile->work;
    icp_product product = {.a = tile->mine->scores + (size_t)rows.begin * TILE + seen.begin,
                           .a_stride = TILE,
                           .b = tile->mine->v + (size_t)seen.begin * LANES,
                           .b_slab = (size_t)TILE * LANES,
                           .c = tile->mine->o + (size_t)rows.begin * work->width,
                           .c_stride = work->width,
                           .row_count = rows.end - rows.begin,
                           .slab_count = work->width / LANES,
                           .depth = seen.end - seen.begin,
                           .is_sum = true,
                           .factors = tile->mine->factors + rows.begin};
    if (tile->direct == NULL) {
        work->math->product(&product);
        return;
    }
    product.b = NULL;
    product.b_runs = tile->direct->v + seen.begin / LANES;
    product.b_ahead = tile->direct->v_ahead + seen.begin / LANES;
    product.b_first = seen.begin % LANES;
    work->math->product(&product);
}

/* Rows of the unit, all of which see the positions [begin, end) of the tile and no other of it. */
static void attend_rows(const tile_work *tile, range seen, range rows)
{
    const attend_work *work = tile->work;
    multiply_keys(tile, seen, rows);
    icp_softmax softmax = {.scores = tile->mine->scores + (size_t)rows.begin * TILE,
                           .stride = TILE,
                           .row_count = rows.end - rows.begin,
                           .begin = seen.begin,
                           .end = seen.end,
                           .softcap = work->attend->softcap,
                           .max = tile->mine->max + rows.begin,
                           .sums = tile->mine->lanes + (size_t)rows.begin * LANES,
                           .factors = tile->mine->factors + rows.begin};
    work->math->softmax(&softmax);
    multiply_values(tile, seen, rows);
}

static void attend_tile(const attend_work *work, const unit *self, range positions, const scratch *mine)
{
    uint32_t base = positions.begin / TILE * TILE;
    uint32_t rows = self->row_count * self->head_count;
    direct_runs direct;
    tile_work tile = {work, self, mine, base, NULL};
    if (work->memory->type == ICP_KV_F16 && rows <= DIRECT_ROWS_MAX) {
        find_runs(&tile, positions, &direct);
        tile.direct = &direct;
    } else {
        load_tile(&tile, positions);
    }

    range first = seen_by(work, unit_position(self, 0));
    range last = seen_by(work, unit_position(self, self->row_count - 1));
    if (first.end >= base + TILE && last.begin <= base) { /* all rows see all of it */
        attend_rows(&tile, (range){0, TILE}, (range){0, rows});
        return;
    }
    for (uint32_t r = 0; r < self->row_count; r++) {
        range seen = seen_by(work, unit_position(self, r));
        seen = (range){most(seen.begin, base), least(seen.end, base + TILE)};
        if (seen.begin >= seen.end) continue;
        attend_rows(&tile, (range){seen.begin - base, seen.end - base},
                    (range){r * self->head_count, (r + 1) * self->head_count});
    }
}

/* ---- Segments ------------------------------------------------------------------------------------------- */

static void load_rows(const attend_work *work, const unit *self, const scratch *mine)
{
    for (uint32_t r = 0; r < self->row_count; r++) {
        size_t row = (size_t)self->sequence->row_start + self->row_first + r;
        const float *q = work->attend->q + (row * work->attend->head_count + self->head_first) * work->dim;
        size_t count = (size_t)self->head_count * work->dim;
        float *out = mine->q + r * count;
        for (size_t i = 0; i < count; i++) out[i] = q[i] * work->attend->scale;
    }
}

static void attend_segment(const attend_work *work, const unit *self, uint32_t segment, const scratch *mine)
{
    uint32_t rows = self->row_count * self->head_count;
    for (uint32_t r = 0; r < rows; r++) mine->max[r] = -INFINITY;
    memset(mine->lanes, 0, (size_t)rows * LANES * sizeof(float));
    memset(mine->o, 0, (size_t)rows * work->width * sizeof(float));

    uint32_t begin = most(self->begin, segment * SEGMENT);
    uint32_t end = least(self->end, (segment + 1) * SEGMENT);
    for (uint32_t at = begin; at < end; at = (at / TILE + 1) * TILE)
        attend_tile(work, self, (range){at, least(end, (at / TILE + 1) * TILE)}, mine);
    for (uint32_t r = 0; r < rows; r++) mine->sums[r] = icp_math_sum(mine->lanes + (size_t)r * LANES);
}

/* A segment's result is added to those before it, for the rows that see some of it. */
static void merge_segment(const attend_work *work, const unit *self, uint32_t segment, const scratch *from,
                          const scratch *mine)
{
    for (uint32_t r = 0; r < self->row_count * self->head_count; r++) {
        range seen = seen_by(work, unit_position(self, r / self->head_count));
        if (seen.begin >= (segment + 1) * SEGMENT || seen.end <= segment * SEGMENT) continue;

        const float *o = from->o + (size_t)r * work->width;
        float *total = mine->total_o + (size_t)r * work->width;
        if (segment == seen.begin / SEGMENT) { /* the first that it sees */
            mine->total_max[r] = from->max[r];
            mine->total_sums[r] = from->sums[r];
            memcpy(total, o, work->width * sizeof(*o));
            continue;
        }
        float top = from->max[r] > mine->total_max[r] ? from->max[r] : mine->total_max[r];
        float factors[2] = {mine->total_max[r] - top, from->max[r] - top};
        work->math->exponentials(factors, 2);
        mine->total_max[r] = top;
        mine->total_sums[r] = mine->total_sums[r] * factors[0] + from->sums[r] * factors[1];
        for (uint32_t at = 0; at < work->width; at += LANES)
            for (uint32_t i = 0; i < LANES; i++) total[at + i] = total[at + i] * factors[0] + o[at + i] * factors[1];
    }
}

static void write_rows(const attend_work *work, const unit *self, const scratch *mine)
{
    for (uint32_t r = 0; r < self->row_count * self->head_count; r++) {
        size_t row = (size_t)self->sequence->row_start + self->row_first + r / self->head_count;
        size_t head = row * work->attend->head_count + self->head_first + r % self->head_count;
        float *out = work->attend->out + head * work->dim;
        const float *total = mine->total_o + (size_t)r * work->width;
        float inverse = 1.0f / mine->total_sums[r];
        for (uint32_t d = 0; d < work->dim; d++) out[d] = total[d] * inverse;
    }
}

/* ---- Units ---------------------------------------------------------------------------------------------- */

static uint32_t sequence_tiles(const attend_work *work, const icp_batch_sequence *sequence)
{
    return (sequence->row_count + work->unit_rows - 1) / work->unit_rows;
}

/* Units of a sequence: [kv head][part][tile of rows], so that units that follow one another read the same KV. The
 * tiles go down: the last see the most, and the longest work is best begun first. */
static unit unit_at(const attend_work *work, uint32_t index)
{
    const uint32_t *starts = work->attention->starts;
    uint32_t low = 0;
    uint32_t high = work->batch->sequence_count;
    while (high - low > 1) {
        uint32_t middle = low + (high - low) / 2;
        if (starts[middle] <= index) {
            low = middle;
        } else {
            high = middle;
        }
    }
    const icp_batch_sequence *sequence = &work->batch->sequences[low];
    uint32_t tiles = sequence_tiles(work, sequence);
    uint32_t tile = tiles - 1 - (index - starts[low]) % tiles;
    uint32_t part = (index - starts[low]) / tiles % work->part_count;
    uint32_t kv_head = (index - starts[low]) / tiles / work->part_count;
    unit self = {.sequence = sequence,
                 .row_first = tile * work->unit_rows,
                 .kv_head = kv_head,
                 .head_first = kv_head * work->share + part * work->part_heads,
                 .head_count = least(work->part_heads, work->share - part * work->part_heads)};
    self.row_count = least(work->unit_rows, sequence->row_count - self.row_first);
    self.begin = seen_by(work, unit_position(&self, 0)).begin;
    self.end = unit_position(&self, self.row_count - 1) + 1;
    return self;
}

static void attend_unit(void *context, uint32_t item, uint32_t worker)
{
    const attend_work *work = context;
    const scratch *mine = &work->attention->scratches[worker];
    unit self = unit_at(work, item);
    load_rows(work, &self, mine);
    for (uint32_t segment = self.begin / SEGMENT; segment * SEGMENT < self.end; segment++) {
        attend_segment(work, &self, segment, mine);
        merge_segment(work, &self, segment, mine, mine);
    }
    write_rows(work, &self, mine);
}

/* Where a segment of a split unit keeps its result. */
static scratch partial_at(const attend_work *work, const split *self, uint32_t segment)
{
    uint32_t rows = self->unit.row_count * self->unit.head_count;
    float *memory = self->partials + (size_t)segment * rows * (work->width + 2);
    return (scratch){.max = memory, .sums = memory + rows, .o = memory + 2 * rows};
}

static void attend_split(void *context, uint32_t item, uint32_t worker)
{
    const attend_work *work = context;
    const scratch *mine = &work->attention->scratches[worker];
    uint32_t index = work->split_count - 1;
    while (work->attention->splits[index].item_first > item) index--;
    split *self = &work->attention->splits[index];
    uint32_t rows = self->unit.row_count * self->unit.head_count;

    scratch partial = partial_at(work, self, item - self->item_first);
    load_rows(work, &self->unit, mine);
    attend_segment(work, &self->unit, self->segment_first + item - self->item_first, mine);
    memcpy(partial.max, mine->max, rows * sizeof(float));
    memcpy(partial.sums, mine->sums, rows * sizeof(float));
    memcpy(partial.o, mine->o, (size_t)rows * work->width * sizeof(float));
    if (atomic_fetch_sub_explicit(&self->left, 1, memory_order_acq_rel) != 1) return;

    for (uint32_t s = 0; s < self->segment_count; s++) {
        partial = partial_at(work, self, s);
        merge_segment(work, &self->unit, self->segment_first + s, &partial, mine);
    }
    write_rows(work, &self->unit, mine);
}

/* The items into which few units are cut; 0: they are not, there are enough of them or too much to be kept. */
static uint32_t plan_splits(attend_work *work)
{
    icp_attention *attention = work->attention;
    if (attention->thread_count == 1 || work->unit_count >= attention->thread_count * UNITS_PER_THREAD) return 0;
    size_t used = 0;
    uint32_t items = 0;
    for (uint32_t i = 0; i < work->unit_count; i++) {
        split *self = &attention->splits[i];
        self->unit = unit_at(work, i);
        self->item_first = items;
        self->segment_first = self->unit.begin / SEGMENT;
        self->segment_count = (self->unit.end - 1) / SEGMENT + 1 - self->segment_first;
        self->partials = (float *)(void *)(attention->partials + used);
        atomic_store_explicit(&self->left, self->segment_count, memory_order_relaxed);
        size_t rows = (size_t)self->unit.row_count * self->unit.head_count;
        used += self->segment_count * rows * (work->width + 2) * sizeof(float);
        items += self->segment_count;
        if (used > PARTIAL_BYTES) return 0;
    }
    work->split_count = work->unit_count;
    return items == work->unit_count ? 0 : items;
}

void icp_cpu_attend(icp_backend *backend, const icp_attend *attend)
{
    icp_cpu *cpu = icp_cpu_of(backend);
    ICP_ASSERT(attend->group < cpu->group_count && attend->layer < cpu->kv[attend->group].shape.layer_count);
    const icp_kv_memory *memory = &cpu->kv[attend->group];
    ICP_ASSERT(attend->head_count != 0 && attend->head_count % memory->shape.head_count == 0);
    attend_work work = {.attend = attend,
                        .memory = memory,
                        .math = cpu->math,
                        .batch = cpu->batch,
                        .attention = cpu->attention,
                        .dim = memory->shape.head_dim,
                        .width = memory->width,
                        .share = attend->head_count / memory->shape.head_count};
    work.part_heads = least(work.share, ROWS_MAX);
    work.part_count = (work.share + work.part_heads - 1) / work.part_heads;
    work.unit_rows = ROWS_MAX / work.part_heads;
    size_t values = 0;
    for (uint32_t i = 0; i < cpu->batch->sequence_count; i++) {
        const icp_batch_sequence *sequence = &cpu->batch->sequences[i];
        work.attention->starts[i] = work.unit_count;
        work.unit_count += sequence_tiles(&work, sequence) * work.part_count * memory->shape.head_count;
        values += (size_t)sequence->row_count * (sequence->position + sequence->row_count) * attend->head_count;
    }
    uint32_t items = plan_splits(&work);
    if (items != 0) {
        icp_cpu_run(cpu, attend_split, &work, items, values);
    } else {
        icp_cpu_run(cpu, attend_unit, &work, work.unit_count, values);
    }
}
