/* two_requests.c - a toy engine: two requests of one step share a prompt, and the KV proves that sharing is right.
 *
 * The "KV" of a token is a digest of all tokens up to it, and each new token is computed from the KV that is read
 * through the block table. So a wrong block would give a wrong answer; the answers are checked against a run without
 * any cache. */
#include <incipit/cache.h>

#include <stdio.h>
#include <stdlib.h>

enum { BLOCKS = 32, BLOCK_TOKENS = 4, PROMPT = 10, OUTPUT = 6, REQUESTS = 2 };

typedef struct request {
    uint32_t tokens[PROMPT + OUTPUT];
    uint32_t count; /* tokens known */
    uint32_t done;  /* tokens whose KV is written */
    icp_lease lease;
} request;

static uint32_t kv[BLOCKS][BLOCK_TOKENS];
static uint32_t computed; /* tokens that cost something */

static void must(icp_status status)
{
    if (status != ICP_OK) exit((fprintf(stderr, "%s\n", icp_status_text(status)), 1));
}

static uint32_t digest(uint32_t before, uint32_t token)
{
    return (before ^ token) * 2654435761u + 1;
}

/* Plan: what is cached, room for the rest, and the full blocks made known, so that the next request shares them. */
static void plan(icp_cache *cache, request *r)
{
    icp_text text = {.tokens = r->tokens, .token_count = r->count};
    if (r->lease == 0) {
        icp_hit hit;
        must(icp_cache_match(cache, &(icp_request){.text = text}, &r->lease, &hit));
        r->done = hit.cached_tokens;
        printf("request with %u tokens: %u cached\n", r->count, r->done);
    }
    must(icp_lease_extend(cache, r->lease, r->count));
    must(icp_lease_publish(cache, r->lease, &text));
}

/* Compute: the KV of each new token from that of the one before, read through the table; then the next token. */
static void compute(icp_cache *cache, request *r)
{
    const uint32_t *table;
    uint32_t entries;
    must(icp_lease_table(cache, r->lease, 0, &table, &entries));
    for (; r->done < r->count; r->done++, computed++) {
        uint32_t p = r->done;
        uint32_t before = p == 0 ? 0 : kv[table[(p - 1) / BLOCK_TOKENS]][(p - 1) % BLOCK_TOKENS];
        kv[table[p / BLOCK_TOKENS]][p % BLOCK_TOKENS] = digest(before, r->tokens[p]);
    }
    uint32_t last = r->count - 1;
    if (r->count < PROMPT + OUTPUT) r->tokens[r->count++] = kv[table[last / BLOCK_TOKENS]][last % BLOCK_TOKENS] % 1000;
}

int main(void)
{
    icp_cache_options options;
    icp_cache *cache;
    icp_cache_options_init(&options);
    options.block_count = BLOCKS;
    options.block_tokens = BLOCK_TOKENS;
    options.tail_tokens_min = ICP_TAIL_OFF; /* whole blocks only: this engine cannot copy */
    must(icp_cache_open(&cache, &options, NULL));

    request requests[REQUESTS] = {{.count = PROMPT}, {.count = PROMPT}};
    for (int i = 0; i < REQUESTS; i++) {
        for (uint32_t p = 0; p < PROMPT; p++) requests[i].tokens[p] = p < 9 ? 100 + p : 200 + (uint32_t)i;
    }
    for (uint64_t step = 1; step <= OUTPUT; step++) {
        must(icp_cache_tick(cache, step));
        for (int i = 0; i < REQUESTS; i++) plan(cache, &requests[i]);
        for (int i = 0; i < REQUESTS; i++) compute(cache, &requests[i]);
    }
    for (int i = 0; i < REQUESTS; i++) { /* the same without a cache */
        uint32_t value = 0;
        for (uint32_t p = 0; p + 1 < PROMPT + OUTPUT; p++) {
            value = digest(value, requests[i].tokens[p]);
            if (p + 1 >= PROMPT && requests[i].tokens[p + 1] != value % 1000) return 1;
        }
        must(icp_lease_release(cache, requests[i].lease));
    }
    printf("both answers are right; %u tokens computed instead of %d\n", computed, REQUESTS * (PROMPT + OUTPUT - 1));
    icp_cache_close(cache);
    return 0;
}
