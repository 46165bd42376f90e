/* cpu_kv.h - where the CPU backend keeps keys and values.
 *
 *      group: [block][layer][kv head] of heads      head: [K run]... [V run]...      a run: 16 positions
 *
 *      K run  [head_dim][16 positions]              so that q * K has a position in each lane,
 *      V run  [width / 16][16 positions][16]        and p * V a value of the head in each lane:
 *
 * no sum ever goes across lanes. width is head_dim rounded up to 16; what is beyond head_dim stays 0. Q8_0 has a half
 * as the scale of 32 values of one position (fewer at the end of a head): [head_dim / 32][16] behind a K run,
 * [16][head_dim / 32] behind a V run.
 *
 * Written by store, on any thread, each row by one; read by attend, in a later region of the pool. */
#ifndef ICP_BACKEND_CPU_KV_H
#define ICP_BACKEND_CPU_KV_H

#include "backend/math.h"

#define ICP_KV_RUN 16u
#define ICP_KV_SCALE_VALUES 32u
#define ICP_KV_HEAD_DIM_MAX 512u

typedef struct icp_kv_memory {
    icp_kv_type type;
    icp_kv_group shape;
    uint32_t block_tokens;
    uint32_t width;       /* of a V row: head_dim rounded up to 16 */
    uint32_t scale_count; /* of a position: head_dim / 32, rounded up */
    size_t k_run_bytes;
    size_t v_run_bytes;
    size_t head_bytes;
    size_t block_bytes;
    size_t bytes;
    uint8_t *blocks;
} icp_kv_memory;

/* Sizes only. false: block_tokens or a shape that is not possible, or too large to be counted. */
bool icp_kv_plan(icp_kv_memory *memory, const icp_kv_options *options, uint32_t group);

/* The run of a layer and head that holds a position; the block table says in which block. */
typedef struct icp_kv_run {
    const uint8_t *k;
    const uint8_t *v;
} icp_kv_run;

static inline icp_kv_run icp_kv_run_at(const icp_kv_memory *memory, const uint32_t *table, size_t head_offset,
                                       uint32_t position)
{
    uint32_t block = table[position / memory->block_tokens];
    uint32_t run = position % memory->block_tokens / ICP_KV_RUN;
    const uint8_t *head = memory->blocks + block * memory->block_bytes + head_offset;
    size_t k_bytes = memory->block_tokens / ICP_KV_RUN * memory->k_run_bytes;
    return (icp_kv_run){head + run * memory->k_run_bytes, head + k_bytes + run * memory->v_run_bytes};
}

/* A run as floats: [head_dim][16]; [width / 16][16][16], the former apart values apart. */
void icp_kv_run_k(const icp_kv_memory *memory, const icp_math *math, const uint8_t *run, float *out);
void icp_kv_run_v(const icp_kv_memory *memory, const icp_math *math, const uint8_t *run, float *out, size_t apart);

/* One position of one head, into a block that the caller may write. */
void icp_kv_put(const icp_kv_memory *memory, uint8_t *head, uint32_t slot, const float *k, const float *v);

#endif
