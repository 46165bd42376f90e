/* bench_sampler.c - what choosing a token costs, in microseconds, for a large vocabulary.
 *
 *     bench_sampler [VOCABULARY]     [128256]
 *
 * Logits as models have them: a bell of width 2.5 and a few tokens that stand out. Each row is the least of many
 * rounds over eight sets of logits, so that memory is read as after a step. */
#include "model/sampler.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define SET_COUNT 8u
#define ROUND_COUNT 200u
#define TEXT_TOKENS 2000u

static uint64_t random_state = 1;

static float uniform(void)
{
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return (float)(random_state >> 40) / 16777216.0f;
}

static float bell(void)
{
    float sum = 0.0f;
    for (int i = 0; i < 12; i++) sum += uniform();
    return sum - 6.0f;
}

static double now_us(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec * 1e6 + (double)time.tv_nsec * 1e-3;
}

static double measure(icp_sampler *sampler, const icp_sampling *sampling, float *const *sets, const uint32_t *text)
{
    double best = 1e30;
    for (uint32_t round = 0; round < ROUND_COUNT; round++) {
        icp_sample_input input = {.sampling = sampling, .logits = sets[round % SET_COUNT], .tokens = text};
        input.token_count = TEXT_TOKENS + round;
        input.prompt_count = TEXT_TOKENS;
        icp_sample sample;
        double start = now_us();
        icp_sampler_sample(sampler, &input, &sample);
        double took = now_us() - start;
        if (took < best) best = took;
    }
    return best;
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        icp_sampling sampling;
    } rows[] = {
        {"greedy", {.temperature = 0.0f}},
        {"temperature 0.8", {.temperature = 0.8f}},
        {"top-k 40", {.temperature = 0.8f, .top_k = 40}},
        {"top-k 40, top-p 0.95", {.temperature = 0.8f, .top_k = 40, .top_p = 0.95f}},
        {"top-p 0.95", {.temperature = 0.8f, .top_p = 0.95f}},
        {"top-p 0.95, temperature 2 (flat)", {.temperature = 2.0f, .top_p = 0.95f}},
        {"min-p 0.05", {.temperature = 0.8f, .min_p = 0.05f}},
        {"greedy, penalties over 2,000 tokens", {.repetition_penalty = 1.1f}},
        {"greedy, 20 log-probabilities", {.logprob_count = 20}},
    };
    uint32_t vocabulary = argc > 1 ? (uint32_t)strtoul(argv[1], NULL, 10) : 128256;
    icp_sampler *sampler = NULL;
    float *sets[SET_COUNT];
    static uint32_t text[TEXT_TOKENS + ROUND_COUNT];
    if (icp_sampler_open(&sampler, vocabulary) != ICP_OK) return 1;
    for (uint32_t s = 0; s < SET_COUNT; s++) {
        sets[s] = malloc(vocabulary * sizeof(float));
        if (sets[s] == NULL) return 1;
        for (uint32_t i = 0; i < vocabulary; i++) sets[s][i] = bell() * 2.5f;
        for (uint32_t i = 0; i < 20; i++) sets[s][(uint32_t)(uniform() * (float)(vocabulary - 1))] = 12.0f + bell();
    }
    for (uint32_t i = 0; i < TEXT_TOKENS + ROUND_COUNT; i++) text[i] = (uint32_t)(uniform() * (float)(vocabulary - 1));
    printf("vocabulary %u, microseconds per token\n", vocabulary);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        printf("%8.1f  %s\n", measure(sampler, &rows[i].sampling, sets, text), rows[i].name);
    for (uint32_t s = 0; s < SET_COUNT; s++) free(sets[s]);
    icp_sampler_close(sampler);
    return 0;
}
