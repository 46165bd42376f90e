/* bench_attention.c - attention of the CPU backend: prefill and decode at long contexts; and what a region costs.
 *
 *     bench_attention [THREADS...]     1 and 2, unless told
 *
 * Prefill: 512 rows that end at the context's length. Decode: one row there. A layer's KV of many blocks at random
 * places is filled first; layers are taken in turn, so decode reads KV from memory and not from a cache, as it does in
 * a model. The best of several passes, in GFLOP/s (4 * head_dim for each pair of row and position that it sees, and
 * head), as a share of the peak that the same threads reach on multiply-adds in registers, and for decode in GB/s of KV
 * read. */
#include "backend/backend.h"
#include "base/pool.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define BLOCK_TOKENS 16u
#define CONTEXT_MAX 4096u
#define LAYERS 4u
#define ROWS_MAX 512u

typedef struct bench {
    icp_backend *backend;
    uint32_t heads, kv_heads, dim;
    uint32_t table[CONTEXT_MAX / BLOCK_TOKENS];
    uint32_t positions[ROWS_MAX];
    float *q, *k, *v, *out;
    uint32_t threads;
    double peak; /* GFLOP/s of one thread */
} bench;

static double clock_seconds(clockid_t clock)
{
    struct timespec time;
    clock_gettime(clock, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

static double now(void)
{
    return clock_seconds(CLOCK_MONOTONIC);
}

/* ---- Peak ----------------------------------------------------------------------------------------------- */

#define PEAK_STEPS 2000u

#if defined(__aarch64__)
#define ROW(a, b, lane, s0, s1, s2, s3)                                                                 \
    "fmla v" s0 ".4s, v" b ".4s, v" a ".s[" lane "]\n fmla v" s1 ".4s, v" b ".4s, v" a ".s[" lane "]\n" \
    "fmla v" s2 ".4s, v" b ".4s, v" a ".s[" lane "]\n fmla v" s3 ".4s, v" b ".4s, v" a ".s[" lane "]\n"
#define FOUR_ROWS(lane)                       \
    ROW("16", "20", lane, "0", "1", "2", "3") \
    ROW("17", "21", lane, "4", "5", "6", "7") \
    ROW("18", "22", lane, "8", "9", "10", "11") ROW("19", "23", lane, "12", "13", "14", "15")
#endif

#if defined(__x86_64__)
#define FMA_8(v, a, b, c, d, e, f, g, h) FMA(v, a) FMA(v, b) FMA(v, c) FMA(v, d) FMA(v, e) FMA(v, f) FMA(v, g) FMA(v, h)
#define FMA(v, i) "vfmadd231ps %%" v "15, %%" v "14, %%" v #i "\n"
#define FMA_16(v) FMA_8(v, 0, 1, 2, 3, 4, 5, 6, 7) FMA_8(v, 8, 9, 10, 11, 12, 13, 0, 1)
/* 512 operations a step. */
#define FMA_LOOP(text)                                                                                          \
    __asm__ volatile("vzeroall\n 1:\n" text "sub $1, %0\n jne 1b\n vzeroupper\n"                                \
                     : "+r"(steps)                                                                              \
                     :                                                                                          \
                     : "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", \
                       "xmm11", "xmm12", "xmm13", "xmm14", "xmm15", "cc")
#endif

static void multiply_add(float *sink)
{
#if defined(__aarch64__)
    static const float factors[32] = {0.5f, -0.3f, 0.2f, 0.1f, 0.7f, 0.4f, -0.9f, 0.6f, 0.1f, 0.3f, -0.2f, 0.4f};
    const float *from = factors;
    uint32_t steps = PEAK_STEPS;
    /* As a product of 4 rows x 16 lanes does it, without its loads. */
    __asm__ volatile("ldp q16, q17, [%[f]]\n ldp q18, q19, [%[f], #32]\n ldp q20, q21, [%[f], #64]\n"
                     "ldp q22, q23, [%[f], #96]\n"
                     "1:\n" FOUR_ROWS("0") FOUR_ROWS("1") FOUR_ROWS("2")
                         FOUR_ROWS("3") "subs %w[n], %w[n], #1\n b.ne 1b\n"
                     : [f] "+r"(from), [n] "+r"(steps)
                     :
                     : "v0", "v1", "v2", "v3", "v4", "v5", "v6", "v7", "v8", "v9", "v10", "v11", "v12", "v13", "v14",
                       "v15", "v16", "v17", "v18", "v19", "v20", "v21", "v22", "v23", "cc", "memory");
    sink[0] += 1.0f;
#elif defined(__x86_64__)
    uint32_t steps = PEAK_STEPS;
    if (__builtin_cpu_supports("avx512f")) {
        FMA_LOOP(FMA_16("zmm"));
    } else if (__builtin_cpu_supports("fma")) {
        FMA_LOOP(FMA_16("ymm") FMA_16("ymm"));
    }
    sink[0] += 1.0f;
#else
    (void)sink;
#endif
}

static double measure_peak(void)
{
    static float sink[16];
    double best = 0;
    for (uint32_t pass = 0; pass < 200; pass++) {
        double start = now();
        multiply_add(sink);
        double rate = 2.0 * 4 * 64 * PEAK_STEPS / (now() - start) * 1e-9;
        best = rate > best ? rate : best;
    }
    return best;
}

static void nothing(void *context, uint32_t item, uint32_t worker)
{
    (void)context;
    (void)item;
    (void)worker;
}

static double measure_region(uint32_t threads)
{
    icp_pool *pool = icp_pool_open(threads);
    double best = 1;
    for (uint32_t pass = 0; pass < 20; pass++) {
        double start = now();
        for (uint32_t i = 0; i < 1000; i++) icp_pool_run(pool, nothing, NULL, 2 * threads);
        double time = (now() - start) / 1000;
        best = time < best ? time : best;
    }
    icp_pool_close(pool);
    return best * 1e6;
}

/* ---- Attention ------------------------------------------------------------------------------------------ */

static bool open_backend(bench *self, uint32_t threads, icp_kv_type type)
{
    icp_error error = {""};
    if (icp_cpu_open(&self->backend, threads, &error) != ICP_OK) return false;
    const icp_backend_table *table = self->backend->table;
    icp_kv_options options = {.type = type, .block_tokens = BLOCK_TOKENS, .group_count = 1};
    uint32_t blocks = CONTEXT_MAX / BLOCK_TOKENS;
    options.groups[0] = (icp_kv_group){blocks, LAYERS, self->kv_heads, self->dim};
    if (table->kv_open(self->backend, &options, &error) != ICP_OK) return false;
    if (table->reserve(self->backend, ROWS_MAX, 1) != ICP_OK) return false;
    for (uint32_t i = 0; i < blocks; i++) self->table[i] = i * 97 % blocks; /* 97 is odd: every block once */
    size_t width = (size_t)ROWS_MAX * self->heads * self->dim;
    self->q = table->floats_open(self->backend, width);
    self->k = table->floats_open(self->backend, width);
    self->v = table->floats_open(self->backend, width);
    self->out = table->floats_open(self->backend, width);
    uint32_t random = 1;
    for (size_t i = 0; i < width; i++) {
        random = random * 1664525u + 1013904223u;
        self->q[i] = self->k[i] = self->v[i] = (float)(random >> 8) * 0x1p-23f - 1.0f;
    }
    return true;
}

/* Seconds, and those that processors worked, all threads together: on a machine that others use too, the latter says
 * more. */
typedef struct duration {
    double wall, busy;
} duration;

/* Every layer once; the fastest. */
static duration pass(bench *self, uint32_t position, uint32_t rows, bool is_stored)
{
    const icp_backend_table *table = self->backend->table;
    for (uint32_t i = 0; i < rows; i++) self->positions[i] = position + i;
    icp_batch_sequence sequence = {.row_count = rows, .position = position, .tables = {self->table}};
    icp_batch batch = {.positions = self->positions, .row_count = rows, .sequences = &sequence, .sequence_count = 1};
    table->begin(self->backend, &batch);
    duration best = {1e9, 1e9};
    for (uint32_t layer = 0; layer < LAYERS; layer++) {
        icp_store store = {.layer = layer, .k = self->k, .v = self->v};
        icp_attend attend = {
            .layer = layer, .q = self->q, .out = self->out, .head_count = self->heads, .scale = 0.125f};
        double start = now();
        double start_busy = clock_seconds(CLOCK_PROCESS_CPUTIME_ID);
        if (is_stored) {
            table->store(self->backend, &store);
        } else {
            table->attend(self->backend, &attend);
        }
        double busy = clock_seconds(CLOCK_PROCESS_CPUTIME_ID) - start_busy;
        double wall = now() - start;
        best.wall = wall < best.wall ? wall : best.wall;
        best.busy = busy < best.busy ? busy : best.busy;
    }
    (void)table->end(self->backend);
    return best;
}

static void measure(bench *self, uint32_t context, uint32_t rows, const char *what, size_t kv_bytes)
{
    duration best = {1e9, 1e9};
    double seen = (double)rows * (context - rows) + (double)rows * (rows + 1) / 2;
    for (uint32_t i = 0; i < (rows == 1 ? 20 : 1); i++) {
        duration time = pass(self, context - rows, rows, false);
        best.wall = time.wall < best.wall ? time.wall : best.wall;
        best.busy = time.busy < best.busy ? time.busy : best.busy;
    }
    double work = seen * self->heads * self->dim * 4 * 1e-9;
    printf("  %-8s %5u  %9.1f us  %6.1f GFLOP/s", what, context, best.wall * 1e6, work / best.wall);
    if (rows > 1 || self->threads == 1) /* else too short for the clock of processor time */
        printf("; a thread: %5.1f GFLOP/s, %4.1f %% of peak", work / best.busy, 100 * work / best.busy / self->peak);
    if (rows == 1) printf("; %5.1f GB/s", (double)kv_bytes * context / best.wall * 1e-9);
    printf("\n");
}

static void bench_shape(bench *self, icp_kv_type type)
{
    static const char *const names[] = {"f16", "f32", "q8_0"};
    if (!open_backend(self, self->threads, type)) return;
    printf("%u threads, %u/%u heads x %u, %s\n", self->threads, self->heads, self->kv_heads, self->dim, names[type]);
    for (uint32_t at = 0; at < CONTEXT_MAX; at += ROWS_MAX) (void)pass(self, at, ROWS_MAX, true);
    size_t bytes = (size_t)self->kv_heads * self->dim * 2 * (type == ICP_KV_F32 ? 4 : type == ICP_KV_F16 ? 2 : 1);
    for (uint32_t context = 2048; context <= CONTEXT_MAX; context *= 2) {
        measure(self, context, ROWS_MAX, "prefill", bytes);
        measure(self, context, 1, "decode", bytes);
    }
    self->backend->table->close(self->backend);
}

int main(int argc, char **argv)
{
    uint32_t threads[8] = {1, 2};
    uint32_t count = argc > 1 ? 0 : 2;
    for (int i = 1; i < argc && count < 8; i++) threads[count++] = (uint32_t)strtoul(argv[i], NULL, 10);
    for (uint32_t t = 0; t < count; t++) {
        bench self = {.threads = threads[t], .peak = measure_peak()};
        printf("%u threads: peak %.1f GFLOP/s each, a region %.2f us\n", threads[t], self.peak,
               measure_region(threads[t]));
        static const uint32_t shapes[][3] = {{32, 8, 64}, {14, 2, 64}};
        for (uint32_t s = 0; s < 2; s++) {
            self.heads = shapes[s][0];
            self.kv_heads = shapes[s][1];
            self.dim = shapes[s][2];
            bench_shape(&self, ICP_KV_F16);
        }
        if (argc > 1) bench_shape(&self, ICP_KV_Q8_0);
    }
    return 0;
}
