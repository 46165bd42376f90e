/* bench.h - what the verb bench measures, one function each.
 *
 * All of it goes through the engine as any request does: tokens are submitted, steps run, outputs are polled, and the
 * clock is read around them. Prompts are random tokens, others each time, so that nothing is found in the cache that a
 * part does not mean to find. A figure is the best of so many rounds. */
#ifndef ICP_CLI_BENCH_H
#define ICP_CLI_BENCH_H

#include "cli/runner.h"

typedef struct icp_bench {
    icp_runner runner;
    uint32_t repeat_count;
    uint32_t decode_tokens;
    uint32_t step_tokens;
    uint64_t random;  /* state of the prompts' generator */
    uint32_t *tokens; /* of prompts: the longest, or a short one for each of request_count_max */
    uint32_t request_count_max;
    bool is_shown; /* progress */
} icp_bench;

/* Tokens per second of a prompt of so many tokens. Each returns an exit status. */
int icp_bench_prefill(icp_bench *bench, uint32_t token_count, double *rate);

/* Tokens per second, all sequences together, after context tokens each. */
int icp_bench_decode(icp_bench *bench, uint32_t context, uint32_t sequence_count, double *rate);

/* Seconds to the first token of prefix_count tokens and new_count after them. */
typedef struct icp_bench_first {
    uint32_t prefix_count;
    uint32_t new_count;
    uint32_t cached_count; /* what the warm one found */
    double cold_s;         /* nothing cached */
    double warm_s;         /* the prefix cached */
    double new_s; /* the step of a cold prompt that computes just the new tokens, after the others: no cache is asked */
} icp_bench_first;
int icp_bench_ttft(icp_bench *bench, icp_bench_first *first);

/* Requests that arrive together, with a common prefix. */
typedef struct icp_bench_common {
    uint32_t request_count;
    uint32_t prefix_count;
    uint32_t new_count;
    uint64_t ideal_tokens;    /* the prefix once, and all that is new */
    uint64_t computed_tokens; /* rows that went through the model */
    double seconds;
} icp_bench_common;
int icp_bench_shared(icp_bench *bench, icp_bench_common *common);

/* Bytes per second that the threads read together, from a buffer larger than any cache. 0: no memory. */
double icp_bench_bandwidth(uint32_t thread_count, uint32_t repeat_count);

/* Bytes of weights that one decoding step reads. */
uint64_t icp_bench_weight_bytes(const icp_runner *runner);

#endif
