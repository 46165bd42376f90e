/* cpu_world.h - a CPU backend with a small KV pool and a batch, for tests; and attention written naively.
 *
 * Random numbers come from a seed that the test prints. The naive versions are in double precision, with the textbook's
 * formula and no tiles. */
#ifndef CPU_WORLD_H
#define CPU_WORLD_H

#include "backend/backend.h"

/* splitmix64 */
typedef struct cpu_random {
    uint64_t state;
} cpu_random;

uint64_t cpu_random_bits(cpu_random *random);
uint32_t cpu_random_below(cpu_random *random, uint32_t count);
float cpu_random_float(cpu_random *random); /* about normal: mean 0, variance 1 */
void cpu_random_fill(cpu_random *random, float *out, size_t count);

/* The seed of this run: SEED in the environment, or a fixed one; printed. */
uint64_t cpu_seed(void);

icp_backend *cpu_open(uint32_t thread_count);
/* The same with other kernels, by INCIPIT_KERNELS. */
icp_backend *cpu_open_with(uint32_t thread_count, const char *kernels);

#define CPU_SEQUENCES_MAX 8u
#define CPU_ROWS_MAX 2048u

/* Sequences of one batch. */
typedef struct cpu_batch {
    icp_batch batch;
    icp_batch_sequence sequences[CPU_SEQUENCES_MAX];
    uint32_t tokens[CPU_ROWS_MAX];
    uint32_t positions[CPU_ROWS_MAX];
    uint32_t output_rows[CPU_ROWS_MAX];
} cpu_batch;

void cpu_batch_start(cpu_batch *self);
/* Adds rows of a sequence. tables: one per group, NULL after the last (or ICP_GROUP_COUNT_MAX of them). */
void cpu_batch_add(cpu_batch *self, uint32_t position, uint32_t row_count, const uint32_t *const *tables);

#endif
