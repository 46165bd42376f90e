/* bandwidth.c - the roofline of decoding: how fast this machine reads memory, and what a step has to read.
 *
 * Each thread adds up its share of a buffer that is far larger than any cache, four lanes at a time, so that loads and
 * not sums are the limit. The time is that of the slowest, as in a step; starting the threads is some 0.5 % of it. */
#include "cli/bench.h"

#include "cli/say.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define BUFFER_BYTES ((size_t)512 << 20)

typedef uint64_t lanes __attribute__((vector_size(16)));

typedef struct reader {
    pthread_t thread;
    const lanes *data;
    size_t count;
    lanes sum; /* kept, so that the reads are */
} reader;

static lanes add_up(const lanes *data, size_t count)
{
    lanes a = {0, 0}, b = a, c = a, d = a;
    for (size_t i = 0; i + 4 <= count; i += 4) {
        a += data[i];
        b += data[i + 1];
        c += data[i + 2];
        d += data[i + 3];
    }
    return (a + b) + (c + d);
}

static void *reader_run(void *context)
{
    reader *self = context;
    self->sum += add_up(self->data, self->count);
    return NULL;
}

static double time_pass(reader *readers, uint32_t thread_count)
{
    double start = icp_say_clock();
    uint32_t started = 1;
    while (started < thread_count && pthread_create(&readers[started].thread, NULL, reader_run, &readers[started]) == 0)
        started++;
    reader_run(&readers[0]);
    for (uint32_t i = 1; i < started; i++) pthread_join(readers[i].thread, NULL);
    for (uint32_t i = started; i < thread_count; i++) reader_run(&readers[i]); /* no thread was to be had */
    return icp_say_clock() - start;
}

double icp_bench_bandwidth(uint32_t thread_count, uint32_t repeat_count)
{
    void *buffer = NULL;
    double best = 0.0;
    reader *readers = calloc(thread_count, sizeof(*readers));
    if (readers == NULL || posix_memalign(&buffer, 64, BUFFER_BYTES) != 0) {
        free(readers);
        return 0.0;
    }
    memset(buffer, 1, BUFFER_BYTES); /* pages of its own: zero pages would all be one */
    size_t count = BUFFER_BYTES / sizeof(lanes) / thread_count;
    for (uint32_t i = 0; i < thread_count; i++)
        readers[i] = (reader){.data = (const lanes *)buffer + i * count, .count = count};
    for (uint32_t i = 0; i < repeat_count; i++) {
        double seconds = time_pass(readers, thread_count);
        if (i == 0 || seconds < best) best = seconds;
    }
    volatile uint64_t kept = 0;
    for (uint32_t i = 0; i < thread_count; i++) kept += readers[i].sum[0] + readers[i].sum[1];
    (void)kept;
    free(buffer);
    free(readers);
    return (double)(count * thread_count * sizeof(lanes)) / best;
}

uint64_t icp_bench_weight_bytes(const icp_runner *runner)
{
    uint64_t table_bytes = 0, bytes = 0;
    bool has_output = false;
    icp_model_tensor tensor;
    for (uint32_t i = 0; icp_model_tensor_at(runner->model, i, &tensor) == ICP_OK; i++) {
        bytes += tensor.bytes;
        if (strcmp(tensor.name, "token_embd.weight") == 0) table_bytes = tensor.bytes;
        if (strcmp(tensor.name, "output.weight") == 0) has_output = true;
    }
    return has_output ? bytes - table_bytes : bytes; /* one row of the table is read; all of it where it is tied */
}
