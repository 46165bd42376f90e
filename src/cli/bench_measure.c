/* bench_measure.c - the measurements of the verb bench: prompts in, seconds out. */
#include "cli/bench.h"

#include "cli/say.h"

#include <stdlib.h>
#include <string.h>

/* ---- Requests ------------------------------------------------------------------------------------------------ */

/* One measurement, step by step. */
typedef struct watch {
    uint32_t request_count;
    uint32_t started_count; /* requests that gave a first token */
    uint32_t cached_tokens; /* of the last one that did */
    double first_s;         /* when all had started */
    uint32_t after_count;   /* tokens of whole steps after that, until the first request ended */
    double last_s;          /* when the last of those steps ended */
} watch;

/* Steps until all is done. */
static int watch_run(icp_bench *bench, watch *seen)
{
    icp_step_info info;
    icp_output output;
    bool is_over = false;
    icp_step_info_init(&info);
    icp_output_init(&output);
    do {
        bool is_running = seen->started_count == seen->request_count;
        uint32_t token_count = 0, end_count = 0;
        icp_status status = icp_engine_step(bench->runner.engine, &info);
        double now = icp_say_clock();
        if (status != ICP_OK) return icp_say_failure("the engine: %s", icp_status_text(status));
        while (icp_engine_poll(bench->runner.engine, &output) == ICP_OK) {
            token_count += output.token != ICP_TOKEN_NONE;
            end_count += output.finish != ICP_FINISH_NONE;
            if (output.token == ICP_TOKEN_NONE || output.output_tokens != 1) continue;
            seen->started_count++;
            seen->cached_tokens = output.cached_tokens;
        }
        if (is_running && !is_over && token_count > 0) {
            seen->after_count += token_count;
            seen->last_s = now;
        }
        if (!is_running && seen->started_count == seen->request_count) seen->first_s = now;
        is_over = is_over || end_count > 0;
    } while (!info.is_idle);
    return ICP_EXIT_OK;
}

static void random_tokens(icp_bench *bench, uint32_t *tokens, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        bench->random = bench->random * 6364136223846793005u + 1442695040888963407u;
        tokens[i] = (uint32_t)((bench->random >> 33) % bench->runner.facts.vocabulary);
    }
}

static int submit(icp_bench *bench, const uint32_t *tokens, uint32_t count, uint32_t output_tokens, uint32_t flags)
{
    icp_submission submission;
    icp_job job;
    icp_error error = {""};
    icp_submission_init(&submission);
    submission.tokens = tokens;
    submission.token_count = count;
    submission.output_tokens_max = output_tokens;
    submission.is_eos_ignored = 1;
    submission.flags = flags;
    icp_status status = icp_engine_submit(bench->runner.engine, &submission, &job, &error);
    if (status == ICP_OK) return ICP_EXIT_OK;
    return icp_say_failure("the request: %s", error.text[0] != '\0' ? error.text : icp_status_text(status));
}

/* One request; the seconds to its first token. */
static int time_first(icp_bench *bench, uint32_t count, uint32_t flags, double *seconds, uint32_t *cached)
{
    watch seen = {.request_count = 1};
    double start = icp_say_clock();
    int result = submit(bench, bench->tokens, count, 1, flags);
    if (result == ICP_EXIT_OK) result = watch_run(bench, &seen);
    *seconds = seen.first_s - start;
    if (cached != NULL) *cached = seen.cached_tokens;
    return result;
}

/* ---- Prefill and decode -------------------------------------------------------------------------------------- */

int icp_bench_prefill(icp_bench *bench, uint32_t token_count, double *rate)
{
    double best = 0.0;
    for (uint32_t i = 0; i < bench->repeat_count; i++) {
        double seconds;
        random_tokens(bench, bench->tokens, token_count);
        int result = time_first(bench, token_count, ICP_NO_READ | ICP_NO_STORE, &seconds, NULL);
        if (result != ICP_EXIT_OK) return result;
        if (best <= 0.0 || seconds < best) best = seconds;
    }
    *rate = token_count / best;
    return ICP_EXIT_OK;
}

int icp_bench_decode(icp_bench *bench, uint32_t context, uint32_t sequence_count, double *rate)
{
    uint32_t length = context > 0 ? context : 1;
    *rate = 0.0;
    random_tokens(bench, bench->tokens, length * sequence_count);
    for (uint32_t i = 0; i < bench->repeat_count; i++) { /* the prompts are cached after the first round */
        watch seen = {.request_count = sequence_count};
        int result = ICP_EXIT_OK;
        /* Those that start early have to go on until the last has started and decoded its tokens. */
        uint32_t room = bench->runner.stats.context_tokens_max - length;
        uint32_t wanted = bench->decode_tokens + sequence_count * (length / bench->step_tokens + 1);
        for (uint32_t s = 0; s < sequence_count && result == ICP_EXIT_OK; s++)
            result = submit(bench, bench->tokens + (size_t)s * length, length, wanted < room ? wanted : room, 0);
        if (result == ICP_EXIT_OK) result = watch_run(bench, &seen);
        if (result != ICP_EXIT_OK) return result;
        double seconds = seen.last_s - seen.first_s;
        if (seen.after_count > 0 && seconds > 0.0 && seen.after_count / seconds > *rate)
            *rate = seen.after_count / seconds;
    }
    return ICP_EXIT_OK;
}

/* ---- The first token ----------------------------------------------------------------------------------------- */

static void drop_output(void *context, const icp_output *output)
{
    (void)context;
    (void)output;
}

/* A cold prompt, step by step: the seconds in all, and those of the step that computes the new tokens alone. */
static int time_cold(icp_bench *bench, const icp_bench_first *first, double *cold_s, double *new_s)
{
    uint32_t count = first->prefix_count + first->new_count;
    icp_step_info info;
    icp_output output;
    icp_step_info_init(&info);
    icp_output_init(&output);
    random_tokens(bench, bench->tokens, count);
    double start = icp_say_clock(), before = start;
    int result = submit(bench, bench->tokens, count, 1, ICP_NO_READ | ICP_NO_STORE);
    if (result != ICP_EXIT_OK) return result;
    for (;;) {
        icp_status status = icp_engine_step(bench->runner.engine, &info);
        double now = icp_say_clock();
        if (status != ICP_OK) return icp_say_failure("the engine: %s", icp_status_text(status));
        if (icp_engine_poll(bench->runner.engine, &output) == ICP_OK) {
            *cold_s = now - start;
            if (info.row_count == first->new_count) *new_s = now - before;
            break;
        }
        before = now;
    }
    return icp_runner_run(&bench->runner, 0, drop_output, NULL);
}

int icp_bench_ttft(icp_bench *bench, icp_bench_first *first)
{
    uint32_t count = first->prefix_count + first->new_count;
    for (uint32_t i = 0; i < bench->repeat_count; i++) {
        double cold_s = 0.0, new_s = 0.0, warm_s = 0.0, unused;
        int result = time_cold(bench, first, &cold_s, &new_s);
        if (result != ICP_EXIT_OK) return result;
        random_tokens(bench, bench->tokens, count);
        result = time_first(bench, first->prefix_count, 0, &unused, NULL);
        if (result != ICP_EXIT_OK) return result;
        result = time_first(bench, count, 0, &warm_s, &first->cached_count);
        if (result != ICP_EXIT_OK) return result;
        if (i == 0 || cold_s < first->cold_s) first->cold_s = cold_s;
        if (i == 0 || warm_s < first->warm_s) first->warm_s = warm_s;
        if (new_s > 0.0 && (first->new_s <= 0.0 || new_s < first->new_s)) first->new_s = new_s;
    }
    return ICP_EXIT_OK;
}

/* ---- Sharing ------------------------------------------------------------------------------------------------- */

static int computed_tokens(const icp_bench *bench, uint64_t *count)
{
    icp_engine_stats stats;
    icp_engine_stats_init(&stats);
    icp_status status = icp_engine_statistics(bench->runner.engine, &stats);
    if (status != ICP_OK) return icp_say_failure("the engine: %s", icp_status_text(status));
    *count = stats.computed_tokens;
    return ICP_EXIT_OK;
}

int icp_bench_shared(icp_bench *bench, icp_bench_common *common)
{
    uint32_t count = common->prefix_count + common->new_count;
    watch seen = {.request_count = common->request_count};
    uint64_t before, after;
    random_tokens(bench, bench->tokens, count);
    int result = computed_tokens(bench, &before);
    double start = icp_say_clock();
    for (uint32_t i = 0; i < common->request_count && result == ICP_EXIT_OK; i++) {
        random_tokens(bench, bench->tokens + common->prefix_count, common->new_count);
        result = submit(bench, bench->tokens, count, 1, 0);
    }
    if (result == ICP_EXIT_OK) result = watch_run(bench, &seen);
    if (result == ICP_EXIT_OK) result = computed_tokens(bench, &after);
    if (result != ICP_EXIT_OK) return result;
    common->seconds = seen.first_s - start;
    common->computed_tokens = after - before;
    common->ideal_tokens = common->prefix_count + (uint64_t)common->request_count * common->new_count;
    return ICP_EXIT_OK;
}
