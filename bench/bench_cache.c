/* bench_cache.c - what each operation of the cache costs, beside the floor and the aim. One thread, blocks of 16
 * tokens.
 *
 *     bench_cache [--json FILE] [--quick]
 *
 * Shapes. "chat": all conversations share a system prompt of 512 tokens and grow by turns of 256, turn by turn in
 * turn, as they do in a server, so that one conversation's blocks lie scattered in runs of sixteen. "flat": prompts
 * that have nothing in common. Prompts are written to a buffer before the clock starts (they have just been tokenised)
 * and the figure is the median over batches. The floor of a match is to compare the same number of tokens: with both
 * arrays in the cache (hot), and with one of them somewhere in a gigabyte (cold). */
#include "incipit/cache.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#define BLOCK_TOKENS 16u
#define SYSTEM_TOKENS 512u
#define TURN_TOKENS 256u
#define PROMPT_TOKENS_MAX 131072u
#define BATCHES_MAX 4096u
#define ROUNDS 3u

typedef struct figure {
    const char *key;
    const char *text;
    const char *unit;
    double value;
    double aim;  /* 0: none */
    double peer; /* 0: none */
} figure;

enum {
    MATCH_100K,
    MATCH_1M,
    MATCH_10M,
    FLOOR_HOT,
    FLOOR_COLD,
    PUBLISH_EVICT,
    RELEASE,
    DECODE,
    DECODE_NEW,
    EVICT_LEAF,
    NAME,
    BYTES,
    FIGURE_COUNT
};

/* Aims of the project. Peers: measured beside this program on one machine, see bench/RESULTS.md; vLLM's KVCacheManager
 * (a match: hash, lookup and pin), and for a leaf SGLang's default tree, which took 27 ms for a call that evicts four.
 * */
static figure figures[FIGURE_COUNT] = {
    [MATCH_100K] = {"match_100k_ns_token", "match, full hit, chat, 100 k blocks", "ns/token", 0, 1.0, 217},
    [MATCH_1M] = {"match_1m_ns_token", "match, full hit, chat, 1 M blocks", "ns/token", 0, 2.0, 0},
    [MATCH_10M] = {"match_10m_ns_token", "match, full hit, chat, 10 M blocks", "ns/token", 0, 2.0, 0},
    [FLOOR_HOT] = {"floor_hot_ns_token", "  floor: compare the tokens, hot", "ns/token", 0, 0, 0},
    [FLOOR_COLD] = {"floor_cold_ns_token", "  floor: compare the tokens, cold", "ns/token", 0, 0, 0},
    [PUBLISH_EVICT] = {"publish_evict_ns_block", "extend + publish, each block evicts one", "ns/block", 0, 80, 2123},
    [RELEASE] = {"release_ns_block", "release", "ns/block", 0, 12, 156},
    [DECODE] = {"decode_ns", "decode step, no new block", "ns", 0, 10, 4142},
    [DECODE_NEW] = {"decode_new_block_ns", "decode step, a new block", "ns", 0, 80, 6194},
    [EVICT_LEAF] = {"evict_leaf_ns", "evict a leaf, 40,000 leaves", "ns", 0, 100, 6.8e6},
    [NAME] = {"name_ns_token", "name (sha256_cbor)", "ns/token", 0, 20, 420},
    [BYTES] = {"bytes_per_block", "memory, tokens included, 1 M blocks", "B/block", 0, 192, 290},
};

static double samples[BATCHES_MAX];
static uint32_t prompt[PROMPT_TOKENS_MAX + 1];

static double now_ns(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec * 1e9 + (double)time.tv_nsec;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a;
    double y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *values, size_t count)
{
    qsort(values, count, sizeof(*values), by_value);
    return count == 0 ? 0 : values[count / 2];
}

static void keep_best(int index, double value)
{
    figure *f = &figures[index];
    if (f->value == 0 || value < f->value) f->value = value;
}

static uint32_t mix(uint32_t x)
{
    x ^= x >> 16;
    x *= 0x7feb352du;
    x ^= x >> 15;
    x *= 0x846ca68bu;
    return x ^ x >> 16;
}

static void must(icp_status status, const char *what)
{
    if (status == ICP_OK) return;
    fprintf(stderr, "bench_cache: %s: %s\n", what, icp_status_text(status));
    exit(1);
}

static void progress(const char *text)
{
    fprintf(stderr, "\r\033[K%s", text);
    fflush(stderr);
}

static icp_cache *open_cache(uint32_t block_count, uint32_t lease_count, uint32_t lease_tokens)
{
    icp_cache_options options;
    icp_error error;
    icp_cache *cache = NULL;
    icp_cache_options_init(&options);
    options.block_count = block_count;
    options.lease_count_max = lease_count;
    options.lease_tokens_max = lease_tokens;
    if (icp_cache_open(&cache, &options, &error) != ICP_OK) {
        fprintf(stderr, "bench_cache: %s\n", error.text);
        exit(1);
    }
    return cache;
}

/* ---- Match --------------------------------------------------------------------------------------------------- */

/* The first count tokens of a conversation. */
static void chat_prompt(uint32_t conversation, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        uint32_t of = i < SYSTEM_TOKENS ? 0 : conversation + 1;
        prompt[i] = mix(of * 0x9e3779b9u + i) & 0x1ffffu;
    }
}

static icp_lease run_prompt(icp_cache *cache, uint32_t count)
{
    icp_request request = {.text = {.tokens = prompt, .token_count = count}};
    icp_lease lease = 0;
    must(icp_cache_match(cache, &request, &lease, NULL), "match");
    must(icp_lease_extend(cache, lease, count), "extend");
    must(icp_lease_publish(cache, lease, &request.text), "publish");
    return lease;
}

/* Conversations of the given length fill the cache turn by turn. Returns how many there are. */
static uint32_t chat_fill(icp_cache *cache, uint32_t block_count, uint32_t length)
{
    uint32_t own_blocks = (length - SYSTEM_TOKENS) / BLOCK_TOKENS;
    uint32_t conversations = (block_count - SYSTEM_TOKENS / BLOCK_TOKENS) / own_blocks;
    if (conversations == 0) conversations = 1;
    for (uint32_t end = SYSTEM_TOKENS + TURN_TOKENS; end <= length; end += TURN_TOKENS) {
        char text[96];
        snprintf(text, sizeof(text), "filling %u blocks, %u tokens each: %u %%", block_count, length,
                 end / (length / 100));
        progress(text);
        for (uint32_t i = 0; i < conversations; i++) {
            chat_prompt(i, end);
            must(icp_lease_release(cache, run_prompt(cache, end)), "release");
        }
    }
    return conversations;
}

static double match_once(icp_cache *cache, uint32_t length)
{
    prompt[length] = 7;
    icp_request request = {.text = {.tokens = prompt, .token_count = length + 1}};
    icp_lease lease = 0;
    icp_hit hit;
    double start = now_ns();
    icp_status status = icp_cache_match(cache, &request, &lease, &hit);
    double spent = now_ns() - start;
    must(status, "match");
    if (hit.block_tokens_hit != length) {
        fprintf(stderr, "bench_cache: hit %u of %u tokens\n", hit.block_tokens_hit, length);
        exit(1);
    }
    must(icp_lease_release(cache, lease), "release");
    return spent / length;
}

/* The median over many conversations. */
static double match_round(icp_cache *cache, uint32_t conversations, uint32_t length)
{
    uint32_t batches = 400 * 8192 / length + 60;
    for (uint32_t i = 0; i < batches; i++) {
        chat_prompt(mix(i) % conversations, length);
        samples[i] = match_once(cache, length);
    }
    return median(samples, batches);
}

/* The slowest of three lengths. */
static double bench_match(uint32_t block_count)
{
    static const uint32_t lengths[] = {8192, 32768, 131072};
    double worst = 0;
    for (size_t i = 0; i < 3; i++) {
        icp_cache *cache = open_cache(block_count, 4, PROMPT_TOKENS_MAX + BLOCK_TOKENS);
        uint32_t conversations = chat_fill(cache, block_count, lengths[i]);
        double value = 0;
        for (uint32_t round = 0; round < ROUNDS; round++) {
            double taken = match_round(cache, conversations, lengths[i]);
            if (round == 0 || taken < value) value = taken;
        }
        progress("");
        printf("  match, %9u blocks, %6u tokens, %6u conversations: %.3f ns/token\n", block_count, lengths[i],
               conversations, value);
        fflush(stdout);
        if (value > worst) worst = value;
        icp_cache_close(cache);
    }
    return worst;
}

static volatile uint64_t sink;

__attribute__((noinline)) static uint64_t compare_tokens(const uint32_t *a, const uint32_t *b, size_t count)
{
    uint64_t difference = 0;
    for (size_t i = 0; i < count; i++) difference |= a[i] ^ b[i];
    return difference;
}

static void bench_floor(void)
{
    const uint32_t length = 8192;
    size_t count = (size_t)1 << 28; /* a gigabyte */
    uint32_t *tokens = malloc(count * sizeof(*tokens));
    if (tokens == NULL) return;
    memset(tokens, 1, count * sizeof(*tokens));
    for (uint32_t i = 0; i < 400; i++) {
        double start = now_ns();
        for (int j = 0; j < 8; j++) sink += compare_tokens(prompt, tokens, length);
        samples[i] = (now_ns() - start) / (8.0 * length);
    }
    figures[FLOOR_HOT].value = median(samples, 400);
    for (uint32_t i = 0; i < 400; i++) {
        const uint32_t *place = tokens + (size_t)(mix(i) % (count / length)) * length;
        double start = now_ns();
        sink += compare_tokens(prompt, place, length);
        samples[i] = (now_ns() - start) / length;
    }
    figures[FLOOR_COLD].value = median(samples, 400);
    free(tokens);
}

/* ---- Publish, release, decode, evict -------------------------------------------------------------------------- */

static void flat_prompt(uint32_t id, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) prompt[i] = mix(id * 0x85ebca6bu + i) & 0x1ffffu;
}

static void bench_publish(void)
{
    const uint32_t length = 8192;
    const uint32_t batches = 600;
    static double release[BATCHES_MAX];
    icp_cache *cache = open_cache(100000, 4, length);
    for (uint32_t i = 0; i < 250; i++) {
        flat_prompt(i, length);
        must(icp_lease_release(cache, run_prompt(cache, length)), "release");
    }
    for (uint32_t i = 0; i < batches; i++) {
        flat_prompt(1000 + i, length);
        must(icp_cache_tick(cache, i + 1), "tick");
        icp_request request = {.text = {.tokens = prompt, .token_count = length}};
        icp_lease lease = 0;
        must(icp_cache_match(cache, &request, &lease, NULL), "match");
        double start = now_ns();
        icp_status extended = icp_lease_extend(cache, lease, length);
        icp_status published = icp_lease_publish(cache, lease, &request.text);
        double middle = now_ns();
        icp_status released = icp_lease_release(cache, lease);
        double end = now_ns();
        must(extended, "extend");
        must(published, "publish");
        must(released, "release");
        samples[i] = (middle - start) / (length / BLOCK_TOKENS);
        release[i] = (end - middle) / (length / BLOCK_TOKENS);
    }
    keep_best(PUBLISH_EVICT, median(samples, batches));
    keep_best(RELEASE, median(release, batches));
    icp_cache_close(cache);
}

/* 64 requests decode in step, each from its own prompt of a whole number of blocks; the pool is full of cached text. A
 * step with a new block is either one that takes it (and evicts) or, 15 steps later, one that fills and publishes it:
 * the slower kind counts. */
static void bench_decode(void)
{
    enum { REQUESTS = 64, STEPS = 4096, START = 256 };
    static uint32_t texts[REQUESTS][START + STEPS];
    static double taken[BATCHES_MAX];
    static double filled[BATCHES_MAX];
    icp_lease leases[REQUESTS];
    icp_cache *cache = open_cache(100000, REQUESTS + 4, 8192);
    for (uint32_t i = 0; i < 250; i++) {
        flat_prompt(i, 8192);
        must(icp_lease_release(cache, run_prompt(cache, 8192)), "release");
    }
    for (uint32_t i = 0; i < REQUESTS; i++) {
        flat_prompt(5000 + i, START + STEPS);
        memcpy(texts[i], prompt, sizeof(texts[i]));
        leases[i] = run_prompt(cache, START);
    }
    size_t plain_count = 0;
    size_t taken_count = 0;
    size_t filled_count = 0;
    for (uint32_t step = 1; step <= STEPS; step++) {
        must(icp_cache_tick(cache, step), "tick");
        icp_status status = ICP_OK;
        double start = now_ns();
        for (uint32_t i = 0; i < REQUESTS; i++) {
            icp_text text = {.tokens = texts[i], .token_count = START + step};
            icp_status extended = icp_lease_extend(cache, leases[i], START + step);
            icp_status published = icp_lease_publish(cache, leases[i], &text);
            status |= extended | published;
        }
        double spent = (now_ns() - start) / REQUESTS;
        must(status, "decode");
        if (step % BLOCK_TOKENS == 1)
            taken[taken_count++] = spent;
        else if (step % BLOCK_TOKENS == 0)
            filled[filled_count++] = spent;
        else
            samples[plain_count++] = spent;
    }
    double take = median(taken, taken_count);
    double fill = median(filled, filled_count);
    keep_best(DECODE, median(samples, plain_count));
    keep_best(DECODE_NEW, take > fill ? take : fill);
    progress("");
    printf("  decode step that takes a block: %.1f ns; that fills one, which is published: %.1f ns\n", take, fill);
    icp_cache_close(cache);
}

/* Short prompts that have nothing in common, as many as the pool has blocks: each block is a leaf. */
static void bench_evict(void)
{
    const uint32_t leaves = 40000;
    const uint32_t rounds = 200;
    icp_cache *cache = open_cache(leaves, 256, 64 * BLOCK_TOKENS);
    for (uint32_t i = 0; i < leaves; i++) {
        flat_prompt(i, BLOCK_TOKENS);
        must(icp_lease_release(cache, run_prompt(cache, BLOCK_TOKENS)), "release");
    }
    for (uint32_t i = 0; i < rounds; i++) {
        flat_prompt(100000 + i, 64 * BLOCK_TOKENS);
        icp_request request = {.text = {.tokens = prompt, .token_count = 64 * BLOCK_TOKENS}};
        icp_lease lease = 0;
        must(icp_cache_match(cache, &request, &lease, NULL), "match");
        double start = now_ns();
        icp_status status = icp_lease_extend(cache, lease, 64 * BLOCK_TOKENS);
        samples[i] = (now_ns() - start) / 64;
        must(status, "extend");
    }
    keep_best(EVICT_LEAF, median(samples, rounds));
    icp_cache_close(cache);
}

static void bench_name(void)
{
    static icp_name names[8192 / BLOCK_TOKENS];
    icp_name_root root = {.kind = ICP_NAME_SHA256_CBOR, .block_tokens = BLOCK_TOKENS};
    flat_prompt(1, 8192);
    icp_text text = {.tokens = prompt, .token_count = 8192};
    for (uint32_t i = 0; i < 200; i++) {
        size_t count = 0;
        double start = now_ns();
        icp_status status = icp_name_chain(&root, &text, names, 8192 / BLOCK_TOKENS, &count);
        samples[i] = (now_ns() - start) / 8192;
        must(status, "name");
    }
    keep_best(NAME, median(samples, 200));
}

static double bytes_per_block(uint32_t block_count)
{
    icp_cache_options options;
    icp_cache_options_init(&options);
    options.block_count = block_count;
    return (double)icp_cache_size(&options) / block_count;
}

/* ---- Results --------------------------------------------------------------------------------------------------- */

static void print_table(void)
{
    printf("\n%-42s %10s %-9s %8s %6s %12s %9s\n", "operation", "measured", "", "aim", "", "peer", "faster by");
    for (int i = 0; i < FIGURE_COUNT; i++) {
        const figure *f = &figures[i];
        if (f->value == 0) continue;
        printf("%-42s %10.2f %-9s", f->text, f->value, f->unit);
        if (f->aim != 0) printf(" %8.4g %6s", f->aim, f->value <= f->aim ? "met" : "MISSED");
        if (f->peer != 0) printf(" %12.0f %8.0fx", f->peer, f->peer / f->value);
        printf("\n");
    }
    double floor = figures[FLOOR_HOT].value;
    if (floor > 0 && figures[MATCH_100K].value > 0) {
        printf("match over the floor: 100 k %.1fx hot, %.1fx cold", figures[MATCH_100K].value / floor,
               figures[MATCH_100K].value / figures[FLOOR_COLD].value);
        if (figures[MATCH_10M].value > 0)
            printf("; 10 M %.1fx cold", figures[MATCH_10M].value / figures[FLOOR_COLD].value);
        printf("\n");
    }
    printf("memory with default options: %.1f B/block at 100 k blocks (of which 84 are the tables of 256 leases of "
           "131,072\n"
           "tokens, mapped but not touched until used), %.1f at 1 M, %.1f at 10 M\n",
           bytes_per_block(100000), bytes_per_block(1000000), bytes_per_block(10000000));
    printf("peer: vLLM's KVCacheManager, for a leaf SGLang's default tree; bench/RESULTS.md tells how they were "
           "measured\n");
}

static void write_json(const char *path)
{
    FILE *file = fopen(path, "w");
    if (file == NULL) {
        perror(path);
        exit(1);
    }
    fprintf(file, "{");
    for (int i = 0; i < FIGURE_COUNT; i++) {
        fprintf(file, "%s\n  \"%s\": %.4f", i == 0 ? "" : ",", figures[i].key, figures[i].value);
    }
    fprintf(file, "\n}\n");
    if (fclose(file) != 0) {
        perror(path);
        exit(1);
    }
    printf("written: %s\n", path);
}

int main(int argc, char **argv)
{
    const char *json = NULL;
    bool is_quick = false;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--quick") == 0)
            is_quick = true;
        else if (strcmp(argv[i], "--json") == 0 && i + 1 < argc)
            json = argv[++i];
        else {
            fprintf(stderr, "usage: bench_cache [--json FILE] [--quick]   (--quick: leaves out 1 M and 10 M blocks)\n");
            return 2;
        }
    }
    bench_floor();
    figures[MATCH_100K].value = bench_match(100000);
    if (!is_quick) figures[MATCH_1M].value = bench_match(1000000);
    if (!is_quick) figures[MATCH_10M].value = bench_match(10000000);
    progress("publish, release, decode, evict, name");
    for (uint32_t round = 0; round < ROUNDS; round++) {
        bench_publish();
        bench_decode();
        bench_evict();
        bench_name();
    }
    figures[BYTES].value = bytes_per_block(1000000);
    progress("");
    print_table();
    if (json != NULL) write_json(json);
    return 0;
}
