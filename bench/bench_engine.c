/* bench_engine.c - what the engine costs beside the forward pass: plan, batch, sample, commit, poll.
 *
 *     bench_engine [SEQUENCES...]      default 16, 128, 1000
 *
 * On the backend of integers with attention that reads nothing, so many sequences decode together; the time between
 * begin and end of the forward pass is taken off. Printed is the rest, in nanoseconds per sequence and step: the
 * minimum of several rounds. Sampling is greedy, of 48 tokens. */
#include "engine/engine.h"
#include "fake_backend.h"
#include "sim_model.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define PROMPT_TOKENS 64u
#define OUTPUT_TOKENS 400u
#define ROUND_STEPS 32u

static double now(void)
{
    struct timespec time;
    (void)clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static void must(icp_status status, const icp_error *error)
{
    if (status == ICP_OK) return;
    (void)fprintf(stderr, "%s: %s\n", icp_status_name(status), error->text);
    exit(1);
}

static void submit_all(icp_engine *engine, uint32_t count)
{
    uint32_t tokens[PROMPT_TOKENS];
    uint32_t random = 1;
    for (uint32_t i = 0; i < count; i++) {
        for (uint32_t j = 0; j < PROMPT_TOKENS; j++) {
            random = random * 1664525u + 1013904223u;
            tokens[j] = SIM_FIRST + (random >> 24) % (SIM_VOCABULARY - SIM_FIRST);
        }
        icp_submission s;
        icp_submission_init(&s);
        s.tokens = tokens;
        s.token_count = PROMPT_TOKENS;
        s.output_tokens_max = OUTPUT_TOKENS;
        s.is_eos_ignored = 1;
        icp_job job;
        icp_error error = {""};
        must(icp_engine_submit(engine, &s, &job, &error), &error);
    }
}

static icp_step_info step(icp_engine *engine)
{
    icp_error error = {""};
    icp_step_info info;
    icp_step_info_init(&info);
    must(icp_engine_step(engine, &info), &error);
    icp_output output;
    icp_output_init(&output);
    while (icp_engine_poll(engine, &output) == ICP_OK) continue;
    return info;
}

static void measure(const icp_model *model, uint32_t count)
{
    icp_engine_options options;
    icp_engine_options_init(&options);
    options.sequence_count_max = options.queue_count_max = count;
    options.step_tokens = 8 * count; /* so that prompts are soon done */
    options.kv_bytes = (uint64_t)64 * count * ((PROMPT_TOKENS + OUTPUT_TOKENS) / 16 + 2);
    icp_error error = {""};
    icp_backend *backend = fake_open(SIM_VOCABULARY);
    icp_engine *engine;
    must(icp_engine_open_on(&engine, model, backend, &options, &error), &error);
    fake_set_shallow(backend, true);
    submit_all(engine, count);
    while (step(engine).prefill_count != 0) continue;
    double best = 1e9;
    for (uint32_t round = 0; round < 8; round++) {
        double start = now() - fake_seconds(backend);
        for (uint32_t i = 0; i < ROUND_STEPS; i++) {
            if (step(engine).row_count != count) exit(1);
        }
        double rest = now() - fake_seconds(backend) - start;
        if (rest < best) best = rest;
    }
    printf("%6u sequences: %7.0f ns per sequence and step, %8.1f us per step\n", count,
           best * 1e9 / ROUND_STEPS / count, best * 1e6 / ROUND_STEPS);
    icp_engine_close(engine);
}

int main(int argc, char **argv)
{
    static const uint32_t counts[] = {16, 128, 1000};
    sim_model model;
    sim_model_open(&model, SIM_FULL, 0, 8192);
    for (int i = 1; i < argc; i++) measure(model.model, (uint32_t)strtoul(argv[i], NULL, 10));
    for (size_t i = 0; argc < 2 && i < sizeof(counts) / sizeof(counts[0]); i++) measure(model.model, counts[i]);
    sim_model_close(&model);
    return 0;
}
