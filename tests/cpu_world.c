/* cpu_world.c - the world of test_cpu.c and test_attention.c. */
#include "cpu_world.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

uint64_t cpu_random_bits(cpu_random *random)
{
    uint64_t z = random->state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

uint32_t cpu_random_below(cpu_random *random, uint32_t count)
{
    return (uint32_t)((cpu_random_bits(random) >> 32) * count >> 32);
}

float cpu_random_float(cpu_random *random)
{
    uint64_t bits = cpu_random_bits(random);
    float sum = 0.0f;
    for (int i = 0; i < 4; i++) sum += (float)(bits >> (16 * i) & 0xffff) * 0x1p-16f;
    return (sum - 2.0f) * 1.7320508f; /* four uniform numbers: variance 1/3 */
}

void cpu_random_fill(cpu_random *random, float *out, size_t count)
{
    for (size_t i = 0; i < count; i++) out[i] = cpu_random_float(random);
}

uint64_t cpu_seed(void)
{
    const char *text = getenv("SEED");
    uint64_t seed = text == NULL ? 20261115 : strtoull(text, NULL, 0);
    printf("SEED=%llu\n", (unsigned long long)seed);
    return seed;
}

icp_backend *cpu_open(uint32_t thread_count)
{
    icp_backend *backend = NULL;
    icp_error error = {""};
    if (icp_cpu_open(&backend, thread_count, &error) != ICP_OK) fail_msg("%s", error.text);
    return backend;
}

icp_backend *cpu_open_with(uint32_t thread_count, const char *kernels)
{
    setenv("INCIPIT_KERNELS", kernels, 1);
    icp_backend *backend = cpu_open(thread_count);
    unsetenv("INCIPIT_KERNELS");
    return backend;
}

void cpu_batch_start(cpu_batch *self)
{
    memset(&self->batch, 0, sizeof(self->batch));
    self->batch.tokens = self->tokens;
    self->batch.positions = self->positions;
    self->batch.sequences = self->sequences;
    self->batch.output_rows = self->output_rows;
}

void cpu_batch_add(cpu_batch *self, uint32_t position, uint32_t row_count, const uint32_t *const *tables)
{
    icp_batch *batch = &self->batch;
    assert_true(batch->sequence_count < CPU_SEQUENCES_MAX && batch->row_count + row_count <= CPU_ROWS_MAX);
    icp_batch_sequence *sequence = &self->sequences[batch->sequence_count++];
    *sequence = (icp_batch_sequence){.row_start = batch->row_count, .row_count = row_count, .position = position};
    for (uint32_t g = 0; g < ICP_GROUP_COUNT_MAX && tables[g] != NULL; g++) sequence->tables[g] = tables[g];
    for (uint32_t r = 0; r < row_count; r++) self->positions[batch->row_count + r] = position + r;
    batch->row_count += row_count;
}
