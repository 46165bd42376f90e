/* cpu.h - the CPU backend's own state, shared by its files.
 *
 *      cpu.c         open and close, floats, ropes, KV blocks, begin and end; the table of functions
 *      cpu_weight.c  weights and linear
 *      cpu_rows.c    operations on rows alone: embed, norm, rotate, store, gate, add, gather, cap
 *      attention.c   attend
 *
 * Every operation is a region of the pool, or runs on the caller's thread where the work is less than a region costs.
 * One owner thread calls. */
#ifndef ICP_BACKEND_CPU_H
#define ICP_BACKEND_CPU_H

#include "backend/cpu_kv.h"
#include "backend/math.h"
#include "backend/matrix.h"
#include "base/pool.h"

/* What is open, so that close can free what was not. */
typedef struct icp_cpu_link {
    struct icp_cpu_link *next;
    struct icp_cpu_link *previous;
    size_t bytes; /* of the memory map that begins with this link */
} icp_cpu_link;

struct icp_weight {
    icp_cpu_link link;
    icp_matrix matrix;
    size_t panel_bytes; /* of all panels; 0: not a matrix */
    const uint8_t *table;
    size_t table_row_bytes;
    icp_weight_type type;
    uint32_t rows, columns;
};

struct icp_rope {
    icp_cpu_link link;
    icp_rope_kind kind;
    uint32_t frequency_count;
    float *frequencies;    /* behind the rope */
    float *turns;          /* of the batch: [row_count][frequency_count][cos, sin] */
    uint32_t turn_row_max; /* rows that turns has room for */
};

/* Memory that grows where an open says so, and never in a step. */
typedef struct icp_cpu_room {
    uint8_t *memory;
    size_t bytes;
} icp_cpu_room;

typedef struct icp_cpu {
    icp_backend backend;
    icp_pool *pool;
    const icp_kernels *kernels;
    const icp_math *math;
    uint32_t thread_count;
    char description[96];
    icp_cpu_link weights, ropes, floats; /* rings */

    uint32_t row_count_max;
    uint32_t sequence_count_max;
    uint32_t columns_max;                   /* of any matrix */
    icp_cpu_room rows[ICP_ROWS_KIND_COUNT]; /* linear's input, quantised; not FLOATS */
    icp_cpu_room multiply_scratch;          /* [thread_count][multiply_bytes] */
    size_t multiply_bytes;

    uint32_t group_count; /* 0: KV is not open */
    icp_kv_memory kv[ICP_GROUP_COUNT_MAX];
    struct icp_attention *attention;

    const icp_batch *batch; /* NULL outside begin and end */
} icp_cpu;

static inline icp_cpu *icp_cpu_of(icp_backend *backend)
{
    return (icp_cpu *)(void *)backend;
}

/* Fewer values than this are not worth a region: 16 Ki floats take some 5 us, a region 1 to 2. */
#define ICP_CPU_REGION_VALUES 16384u

/* A region, or a plain loop where all the items together touch few values. */
void icp_cpu_run(icp_cpu *cpu, icp_pool_fn *fn, void *context, uint32_t item_count, size_t value_count);

/* A piece of zeroed memory in a ring; NULL: none. */
void *icp_cpu_link_open(icp_cpu_link *ring, size_t bytes);
void icp_cpu_link_close(icp_cpu_link *link);

/* At least so many bytes; what was in it is lost. false: no memory, and the room is as it was. */
bool icp_cpu_room_grow(icp_cpu_room *room, size_t bytes);

/* Room for linear, after a weight or a reserve. */
bool icp_cpu_linear_reserve(icp_cpu *cpu);

icp_status icp_cpu_weight_open(icp_backend *backend, const icp_weight_source *source, icp_weight **out,
                               icp_error *error);
void icp_cpu_weight_close(icp_backend *backend, icp_weight *weight);
size_t icp_cpu_weight_bytes(const icp_backend *backend, const icp_weight *weight);
void icp_cpu_linear(icp_backend *backend, const icp_linear *linear);

void icp_cpu_embed(icp_backend *backend, const icp_embed *embed);
void icp_cpu_norm(icp_backend *backend, const icp_norm *norm);
void icp_cpu_rotate(icp_backend *backend, const icp_rotate *rotate);
void icp_cpu_store(icp_backend *backend, const icp_store *store);
void icp_cpu_gate(icp_backend *backend, const icp_gate *gate);
void icp_cpu_add(icp_backend *backend, const icp_add *add);
void icp_cpu_gather(icp_backend *backend, const icp_gather *gather);
void icp_cpu_cap(icp_backend *backend, const icp_cap *cap);

/* Scratch of attend, for heads of up to so many values; NULL: no memory. */
typedef struct icp_attention icp_attention;
icp_attention *icp_attention_open(uint32_t thread_count, uint32_t width_max);
void icp_attention_close(icp_attention *attention); /* accepts NULL */
bool icp_attention_reserve(icp_attention *attention, uint32_t sequence_count_max);
void icp_cpu_attend(icp_backend *backend, const icp_attend *attend);

#endif
