/* bench_matrix.c - matrix products of the CPU backend beside the roofline of the machine, measured in the same run.
 *
 *     bench_matrix [--json FILE] [--quick] [--type Q8_0] [--set i8mm] [--threads N] [--cpu]
 *
 * Prefill: 512 rows, in 10^9 operations (two per product) a second, and as a share of what the machine's dot-product or
 * multiply-add instruction does in a loop of its own. Decode: one row, in bytes of packed weights a second, and as a
 * share of reading memory; the matrix is there many times, so that no cache holds it. Batch: 1 to 16 rows, in time
 * over the time of one row. Threads take the panels in equal parts. Every figure is the best of several runs.
 * --cpu counts the time of the slowest thread on its processor, for a machine that others use too. */
#include "backend/matrix.h"
#include "base/arena.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define THREADS_MAX 64u
#define ROWS 512u
#define COLD_BYTES ((size_t)192 << 20)
#define ROUNDS 5u

static const icp_weight_type types[] = {ICP_WEIGHT_Q8_0, ICP_WEIGHT_Q4_0, ICP_WEIGHT_Q4_K, ICP_WEIGHT_Q6_K,
                                        ICP_WEIGHT_Q5_K, ICP_WEIGHT_Q4_1, ICP_WEIGHT_Q5_0, ICP_WEIGHT_Q5_1,
                                        ICP_WEIGHT_F16,  ICP_WEIGHT_BF16, ICP_WEIGHT_F32};
#define TYPE_COUNT (sizeof(types) / sizeof(types[0]))

/* Of Llama-3.2-1B and of Qwen2.5-0.5B. */
static const uint32_t shapes[][2] = {{2048, 2048}, {8192, 2048}, {2048, 8192}, {896, 896}, {4864, 896}, {896, 4864}};
#define SHAPE_COUNT (sizeof(shapes) / sizeof(shapes[0]))

static struct {
    const char *json_path, *type, *set;
    bool is_quick, is_cpu;
    uint32_t threads;
} options = {.threads = 2};

static double now_s(void)
{
    struct timespec time;
    clock_gettime(options.is_cpu ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

static void *take(size_t bytes)
{
    void *memory = icp_memory_map(bytes);
    if (memory == NULL) {
        fprintf(stderr, "bench_matrix: no memory\n");
        exit(1);
    }
    return memory;
}

/* ---- Threads ---------------------------------------------------------------------------------------------- */

typedef struct job {
    void (*function)(void *state, uint32_t thread, uint32_t thread_count);
    void *state;
    uint32_t thread, thread_count;
    pthread_barrier_t *start;
    double begun, ended;
} job;

static void *run_job(void *argument)
{
    job *j = argument;
    if (j->thread_count > 1) pthread_barrier_wait(j->start);
    j->begun = now_s();
    j->function(j->state, j->thread, j->thread_count);
    j->ended = now_s();
    return NULL;
}

/* The time from the first start to the last end, the best of some rounds. */
static double time_on(uint32_t thread_count, void (*function)(void *, uint32_t, uint32_t), void *state, uint32_t rounds)
{
    double best = 0;
    for (uint32_t round = 0; round < rounds; round++) {
        job jobs[THREADS_MAX];
        pthread_t threads[THREADS_MAX];
        pthread_barrier_t start;
        pthread_barrier_init(&start, NULL, thread_count);
        for (uint32_t i = 0; i < thread_count; i++) {
            jobs[i] =
                (job){.function = function, .state = state, .thread = i, .thread_count = thread_count, .start = &start};
            if (i > 0) pthread_create(&threads[i], NULL, run_job, &jobs[i]);
        }
        run_job(&jobs[0]);
        double begun = jobs[0].begun, ended = jobs[0].ended;
        for (uint32_t i = 1; i < thread_count; i++) {
            pthread_join(threads[i], NULL);
            if (options.is_cpu) { /* each thread has a clock of its own */
                if (jobs[i].ended - jobs[i].begun > ended - begun) begun = jobs[i].begun, ended = jobs[i].ended;
                continue;
            }
            if (jobs[i].begun < begun) begun = jobs[i].begun;
            if (jobs[i].ended > ended) ended = jobs[i].ended;
        }
        pthread_barrier_destroy(&start);
        if (round == 0 || ended - begun < best) best = ended - begun;
    }
    return best;
}

/* ---- Roofline --------------------------------------------------------------------------------------------- */

/* An instruction that kernels live by, in a loop of its own. */
typedef struct instruction {
    const char *name;
    const char *set; /* whose products it is the peak of; NULL: of every other */
    bool is_float;   /* float products */
    double operations;
    void (*loop)(void *state, uint32_t thread, uint32_t thread_count);
} instruction;

#define PEAK_LOOPS 400000u
/* Fifteen chains; the operands are loaded before. */
#define PEAK_15(op, a, b)                                                                                       \
    op(0, a, b) op(1, a, b) op(2, a, b) op(3, a, b) op(4, a, b) op(5, a, b) op(6, a, b) op(7, a, b) op(8, a, b) \
        op(9, a, b) op(10, a, b) op(11, a, b) op(12, a, b) op(13, a, b) op(14, a, b)
#define PEAK_COUNT 30

#if defined(__aarch64__)

#define SMMLA(i, a, b) "smmla v" #i ".4s, v" #a ".16b, v" #b ".16b\n"
#define SDOT(i, a, b) "sdot v" #i ".4s, v" #a ".16b, v" #b ".16b\n"
#define FMLA(i, a, b) "fmla v" #i ".4s, v" #a ".4s, v" #b ".4s\n"
#define PEAK_LOOP(op)                                                                                              \
    static void loop_##op(void *state, uint32_t thread, uint32_t thread_count)                                     \
    {                                                                                                              \
        uint8_t operands[64] = {1, 2, 3, 4, 5, 6, 7, 8};                                                           \
        uint64_t count = PEAK_LOOPS;                                                                               \
        (void)state, (void)thread, (void)thread_count;                                                             \
        __asm__ volatile(".arch armv8.2-a+dotprod+i8mm\n"                                                          \
                         "ldp q28, q29, [%1]\n ldp q30, q31, [%1, #32]\n 1:\n" PEAK_15(op, 28, 31)                 \
                             PEAK_15(op, 29, 30) "subs %0, %0, #1\n b.ne 1b\n"                                     \
                         : "+r"(count)                                                                             \
                         : "r"(operands)                                                                           \
                         : "v0", "v1", "v2", "v3", "v4", "v5", "v6", "v7", "v8", "v9", "v10", "v11", "v12", "v13", \
                           "v14", "v15", "v28", "v29", "v30", "v31", "cc", "memory");                              \
    }
PEAK_LOOP(SMMLA)
PEAK_LOOP(SDOT)
PEAK_LOOP(FMLA)

static const instruction instructions[] = {{"smmla", "i8mm", false, 64, loop_SMMLA},
                                           {"sdot", "dotprod", false, 32, loop_SDOT},
                                           {"fmla", NULL, true, 8, loop_FMLA}};

#elif defined(__x86_64__)

#define VPDPBUSD(i, a, b) "%{vex%} vpdpbusd %%ymm15, %%ymm15, %%ymm" #i "\n"
#define VFMADD(i, a, b) "vfmadd231ps %%ymm15, %%ymm15, %%ymm" #i "\n"
#define VPDPBUSD_ZMM(i, a, b) "vpdpbusd %%zmm15, %%zmm15, %%zmm" #i "\n"
#define VFMADD_ZMM(i, a, b) "vfmadd231ps %%zmm15, %%zmm15, %%zmm" #i "\n"
#define PEAK_LOOP(op)                                                                                               \
    static void loop_##op(void *state, uint32_t thread, uint32_t thread_count)                                      \
    {                                                                                                               \
        uint64_t count = PEAK_LOOPS;                                                                                \
        (void)state, (void)thread, (void)thread_count;                                                              \
        __asm__ volatile("vzeroall\n 1:\n" PEAK_15(op, , ) PEAK_15(op, , ) "sub $1, %0\n jne 1b\n vzeroupper\n"     \
                         : "+r"(count)                                                                              \
                         :                                                                                          \
                         : "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", \
                           "xmm11", "xmm12", "xmm13", "xmm14", "xmm15", "cc");                                      \
    }
PEAK_LOOP(VPDPBUSD)
PEAK_LOOP(VFMADD)
PEAK_LOOP(VPDPBUSD_ZMM)
PEAK_LOOP(VFMADD_ZMM)

static const instruction instructions[] = {{"vpdpbusd zmm", "avx512vnni", false, 128, loop_VPDPBUSD_ZMM},
                                           {"vfmadd zmm", "avx512vnni", true, 32, loop_VFMADD_ZMM},
                                           {"vpdpbusd ymm", "avxvnni", false, 64, loop_VPDPBUSD},
                                           {"vfmadd ymm", "avx2", true, 16, loop_VFMADD},
                                           {"vfmadd ymm", "avxvnni", true, 16, loop_VFMADD}};

#else

static const instruction instructions[] = {{NULL, "", false, 0, NULL}};

#endif

#define INSTRUCTION_COUNT (sizeof(instructions) / sizeof(instructions[0]))

static struct {
    double instruction[INSTRUCTION_COUNT]; /* 10^9 operations a second; 0: the machine has it not */
    double read;                           /* 10^9 bytes a second */
} peak[2];                                 /* one thread, all threads */

static bool has_set(const char *name)
{
    for (uint32_t i = 0; icp_kernels_at(i) != NULL; i++) {
        if (name == NULL || strcmp(icp_kernels_name(icp_kernels_at(i)), name) == 0) return true;
    }
    return false;
}

static void measure_peaks(int index, uint32_t threads)
{
    for (size_t i = 0; i < INSTRUCTION_COUNT; i++) {
        if (!has_set(instructions[i].set)) continue;
        double operations = instructions[i].operations * PEAK_COUNT * PEAK_LOOPS * threads;
        peak[index].instruction[i] = operations / time_on(threads, instructions[i].loop, NULL, ROUNDS) * 1e-9;
        printf("%s %.0f, ", instructions[i].name, peak[index].instruction[i]);
    }
}

static double peak_for(const icp_matrix *matrix, int index)
{
    const char *set = icp_kernels_name(matrix->kernels);
    for (size_t i = 0; i < INSTRUCTION_COUNT; i++) {
        if (instructions[i].is_float == (icp_matrix_rows_kind(matrix) != ICP_ROWS_FLOATS)) continue;
        if (instructions[i].set == NULL || strcmp(instructions[i].set, set) == 0) return peak[index].instruction[i];
    }
    return 0;
}

typedef uint64_t vector __attribute__((vector_size(16)));

static volatile uint64_t sink;

/* Four streams side by side: one alone does not fill the memory's queues. */
static void read_part(void *state, uint32_t thread, uint32_t thread_count)
{
    size_t count = COLD_BYTES / sizeof(vector) / thread_count;
    const vector *words = (const vector *)state + count * thread;
    size_t part = count / 4;
    vector sum[4] = {{0}};
    for (size_t i = 0; i + 4 <= part; i += 4) {
        sum[0] ^= words[i] ^ words[i + 1] ^ words[i + 2] ^ words[i + 3];
        sum[1] ^= words[part + i] ^ words[part + i + 1] ^ words[part + i + 2] ^ words[part + i + 3];
        sum[2] ^= words[2 * part + i] ^ words[2 * part + i + 1] ^ words[2 * part + i + 2] ^ words[2 * part + i + 3];
        sum[3] ^= words[3 * part + i] ^ words[3 * part + i + 1] ^ words[3 * part + i + 2] ^ words[3 * part + i + 3];
    }
    for (size_t j = 0; j < 4; j++) sink += sum[j][0] + sum[j][1];
}

static void measure_roofline(void)
{
    void *memory = take(COLD_BYTES);
    memset(memory, 1, COLD_BYTES);
    for (int i = 0; i < 2; i++) {
        uint32_t threads = i == 0 ? 1 : options.threads;
        printf("roofline, %u thread%s: ", threads, threads == 1 ? "" : "s");
        measure_peaks(i, threads);
        peak[i].read = (double)COLD_BYTES / time_on(threads, read_part, memory, 3 * ROUNDS) * 1e-9;
        printf("in GOP/s; read %.1f GB/s\n", peak[i].read);
    }
    icp_memory_unmap(memory, COLD_BYTES);
}

/* ---- Products --------------------------------------------------------------------------------------------- */

typedef struct product {
    icp_matrix matrix;
    uint32_t copy_count; /* of the packed matrix, one after the other */
    size_t copy_bytes;
    uint32_t row_count;
    float *x, *out;
    void *rows;
    void *scratch[THREADS_MAX];
    size_t scratch_bytes;
} product;

static void random_source(const icp_weight_source *source, uint8_t *data, size_t bytes)
{
    uint32_t block = icp_weight_block_bytes(source->type);
    uint32_t state = 1;
    for (size_t i = 0; i < bytes; i++) data[i] = (uint8_t)((state = state * 1664525u + 1013904223u) >> 24);
    for (size_t i = 0; i < bytes; i += block) { /* halves and floats of a sane size */
        if (block == 4) memcpy(data + i, &(float){0.01f}, 4);
        if (block == 2) memcpy(data + i, &(uint16_t){0x3c12}, 2);
        if (block > 4) memcpy(data + i + (source->type == ICP_WEIGHT_Q6_K ? 208 : 0), &(uint16_t){0x2012}, 2);
        if (block > 18 && block != 34 && block != 210) memcpy(data + i + 2, &(uint16_t){0x2012}, 2);
    }
}

static void open_product(product *p, const icp_kernels *set, icp_weight_type type, const uint32_t *shape)
{
    icp_weight_source source = {.type = type, .rows = shape[0], .columns = shape[1]};
    size_t bytes = (size_t)shape[0] * shape[1] / icp_weight_block_values(type) * icp_weight_block_bytes(type);
    uint8_t *data = take(bytes);
    random_source(&source, data, bytes);
    source.data = data;
    memset(p, 0, sizeof(*p));
    if (icp_matrix_plan(&p->matrix, set, &source) != ICP_OK) exit(1);
    p->copy_bytes = (p->matrix.panel_count * p->matrix.panel_bytes + 63) / 64 * 64;
    p->copy_count = (uint32_t)(COLD_BYTES / p->copy_bytes) + 1;
    p->matrix.panels = take(p->copy_bytes * p->copy_count);
    icp_matrix_pack(&p->matrix, &source, 0, p->matrix.panel_count);
    for (uint32_t i = 1; i < p->copy_count; i++) {
        memcpy(p->matrix.panels + i * p->copy_bytes, p->matrix.panels, p->copy_bytes);
    }
    icp_memory_unmap(data, bytes);
    p->x = take((size_t)ROWS * shape[1] * sizeof(float));
    p->out = take((size_t)ROWS * shape[0] * sizeof(float));
    for (size_t i = 0; i < (size_t)ROWS * shape[1]; i++) p->x[i] = (float)(i * 7919 % 2003) * 0.001f - 1;
    p->rows = take(icp_rows_bytes(set, ROWS, shape[1]));
    p->scratch_bytes = icp_multiply_scratch_bytes(set, shape[1]);
    for (uint32_t i = 0; i < options.threads; i++) p->scratch[i] = take(p->scratch_bytes);
}

static void close_product(product *p)
{
    const icp_matrix *m = &p->matrix;
    for (uint32_t i = 0; i < options.threads; i++) icp_memory_unmap(p->scratch[i], p->scratch_bytes);
    icp_memory_unmap(p->rows, icp_rows_bytes(m->kernels, ROWS, m->columns));
    icp_memory_unmap(p->out, (size_t)ROWS * m->rows * sizeof(float));
    icp_memory_unmap(p->x, (size_t)ROWS * m->columns * sizeof(float));
    icp_memory_unmap(m->panels, p->copy_bytes * p->copy_count);
}

static void multiply_copy(const product *p, uint32_t copy, uint32_t thread, uint32_t thread_count)
{
    icp_matrix matrix = p->matrix;
    matrix.panels += copy * p->copy_bytes;
    icp_multiply m = {.matrix = &matrix,
                      .x = p->x,
                      .rows = p->rows,
                      .row_count = p->row_count,
                      .out = p->out,
                      .out_stride = matrix.rows,
                      .scale = 1};
    uint32_t first = (uint32_t)((uint64_t)matrix.panel_count * thread / thread_count);
    uint32_t end = (uint32_t)((uint64_t)matrix.panel_count * (thread + 1) / thread_count);
    icp_matrix_multiply(&m, first, end - first, p->scratch[thread]);
}

static void multiply_once(void *state, uint32_t thread, uint32_t thread_count)
{
    multiply_copy(state, 0, thread, thread_count);
}

static void multiply_all(void *state, uint32_t thread, uint32_t thread_count)
{
    const product *p = state;
    for (uint32_t i = 0; i < p->copy_count; i++) multiply_copy(p, i, thread, thread_count);
}

static void quantise(product *p, uint32_t row_count)
{
    const icp_kernels *set = p->matrix.kernels;
    p->row_count = row_count;
    icp_quantise quantise = {.kernels = set,
                             .kind = icp_matrix_rows_kind(&p->matrix),
                             .x = p->x,
                             .row_count = row_count,
                             .columns = p->matrix.columns,
                             .rows = p->rows};
    if (quantise.kind == ICP_ROWS_FLOATS) return;
    for (uint32_t i = 0; i < icp_rows_part_count(set, row_count); i++) {
        icp_rows_quantise(&quantise, i);
    }
}

/* ---- Figures ---------------------------------------------------------------------------------------------- */

static FILE *json;
static bool is_first = true;

static double share(double value, double of)
{
    return of > 0 ? 100 * value / of : 0;
}

static void figure(const product *p, const char *what, uint32_t threads, double value, const char *unit, double percent)
{
    const icp_matrix *m = &p->matrix;
    if (json == NULL) return;
    fprintf(json,
            "%s\n    {\"set\": \"%s\", \"type\": \"%s\", \"rows\": %u, \"columns\": %u, \"what\": \"%s\", "
            "\"row_count\": %u, \"threads\": %u, \"value\": %.4g, \"unit\": \"%s\", \"share_percent\": %.3g}",
            is_first ? "" : ",", icp_kernels_name(m->kernels), icp_weight_name(m->type), m->rows, m->columns, what,
            p->row_count, threads, value, unit, percent);
    is_first = false;
}

static void bench_prefill(product *p)
{
    bool is_plain = strcmp(icp_kernels_name(p->matrix.kernels), "plain") == 0;
    quantise(p, is_plain ? 4 : ROWS);
    for (int i = 0; i < 2; i++) {
        uint32_t threads = i == 0 ? 1 : options.threads;
        double operations = 2.0 * p->matrix.rows * p->matrix.columns * p->row_count;
        double value = operations / time_on(threads, multiply_once, p, is_plain ? 1 : ROUNDS) * 1e-9;
        printf(" %8.1f %3.0f%%", value, share(value, peak_for(&p->matrix, i)));
        figure(p, "prefill", threads, value, "GOP/s", share(value, peak_for(&p->matrix, i)));
    }
}

static double cold_time(product *p, uint32_t row_count, uint32_t threads, uint32_t rounds)
{
    quantise(p, row_count);
    return time_on(threads, multiply_all, p, rounds);
}

static void bench_decode(product *p)
{
    for (int i = 0; i < 2; i++) {
        uint32_t threads = i == 0 ? 1 : options.threads;
        double bytes = (double)p->matrix.panel_count * (double)p->matrix.panel_bytes * p->copy_count;
        double value = bytes / cold_time(p, 1, threads, ROUNDS) * 1e-9;
        printf(" %8.1f %3.0f%%", value, share(value, peak[i].read));
        figure(p, "decode", threads, value, "GB/s", share(value, peak[i].read));
    }
}

static void bench_batch(product *p)
{
    static const uint32_t counts[] = {2, 3, 4, 5, 8, 16};
    double one = cold_time(p, 1, options.threads, ROUNDS);
    printf("  ");
    for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
        double ratio = cold_time(p, counts[i], options.threads, 2) / one;
        printf(" %.2f", ratio);
        figure(p, "batch", options.threads, ratio, "x", 0);
    }
}

static void bench_set(const icp_kernels *set)
{
    bool is_plain = strcmp(icp_kernels_name(set), "plain") == 0;
    printf("\n%s: 512 rows in GOP/s and share of peak, 1 row in GB/s and share of reading, each on 1 and %u threads;\n"
           "then the time of 2, 3, 4, 5, 8, 16 rows over that of one\n",
           icp_kernels_name(set), options.threads);
    for (size_t t = 0; t < TYPE_COUNT; t++) {
        if (options.type != NULL && strcmp(options.type, icp_weight_name(types[t])) != 0) continue;
        for (size_t i = 0; i < SHAPE_COUNT; i++) {
            if (shapes[i][1] % icp_weight_block_values(types[t]) != 0) continue;
            if ((options.is_quick || is_plain) && i != 1) continue;
            product p;
            open_product(&p, set, types[t], shapes[i]);
            printf("  %-5s %5u x %-5u", icp_weight_name(types[t]), shapes[i][0], shapes[i][1]);
            bench_prefill(&p);
            if (!is_plain) bench_decode(&p);
            if (i == 1 && !is_plain) bench_batch(&p);
            printf("\n");
            fflush(stdout);
            close_product(&p);
        }
    }
}

static void read_options(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        const char *value = i + 1 < argc ? argv[i + 1] : NULL;
        if (strcmp(argv[i], "--quick") == 0 || strcmp(argv[i], "--cpu") == 0) {
            options.is_quick = options.is_quick || argv[i][2] == 'q';
            options.is_cpu = options.is_cpu || argv[i][2] == 'c';
            continue;
        }
        if (value != NULL && strcmp(argv[i], "--json") == 0) {
            options.json_path = value;
        } else if (value != NULL && strcmp(argv[i], "--type") == 0) {
            options.type = value;
        } else if (value != NULL && strcmp(argv[i], "--set") == 0) {
            options.set = value;
        } else if (value != NULL && strcmp(argv[i], "--threads") == 0) {
            options.threads = (uint32_t)strtoul(value, NULL, 10);
        } else {
            fprintf(stderr, "bench_matrix [--json FILE] [--quick] [--type Q8_0] [--set i8mm] [--threads N] [--cpu]\n");
            exit(2);
        }
        i++;
    }
    if (options.threads == 0 || options.threads > THREADS_MAX) options.threads = 2;
}

int main(int argc, char **argv)
{
    read_options(argc, argv);
    if (options.json_path != NULL) json = fopen(options.json_path, "w");
    measure_roofline();
    if (json != NULL) {
        fprintf(json, "{\n  \"roofline\": [");
        for (int i = 0; i < 2; i++) {
            fprintf(json, "%s{\"threads\": %u", i == 0 ? "" : ", ", i == 0 ? 1 : options.threads);
            for (size_t j = 0; j < INSTRUCTION_COUNT; j++) {
                if (peak[i].instruction[j] == 0) continue;
                fprintf(json, ", \"%s\": %.4g", instructions[j].name, peak[i].instruction[j]);
            }
            fprintf(json, ", \"read\": %.4g}", peak[i].read);
        }
        fprintf(json, "],\n  \"figures\": [");
    }
    for (uint32_t i = 0; icp_kernels_at(i) != NULL; i++) {
        const icp_kernels *set = icp_kernels_at(i);
        if (options.set == NULL || strcmp(options.set, icp_kernels_name(set)) == 0) bench_set(set);
    }
    if (json != NULL) {
        fprintf(json, "\n  ]\n}\n");
        fclose(json);
    }
    return 0;
}
