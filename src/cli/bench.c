/* bench.c - the verb bench: runs the measurements that are asked for, shows them, writes them as JSON. */
#include "cli/bench.h"

#include "cli/say.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct report {
    icp_bench bench;
    const icp_arguments *arguments;
    json_t *json;
    FILE *table;      /* where rows go */
    double bandwidth; /* bytes per second; 0: not measured */
    uint64_t weight_bytes;
} report;

/* A line that the next one takes the place of. */
static void progress(const report *out, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void progress(const report *out, const char *format, ...)
{
    va_list values;
    if (!out->bench.is_shown) return;
    fputs("\r\033[Kmeasuring ", stderr);
    va_start(values, format);
    vfprintf(stderr, format, values);
    va_end(values);
    fputs(" ...", stderr);
}

/* A row of the table. */
static void row(const report *out, const char *name, const char *format, ...) __attribute__((format(printf, 3, 4)));
static void row(const report *out, const char *name, const char *format, ...)
{
    va_list values;
    if (out->bench.is_shown) fputs("\r\033[K", stderr);
    fprintf(out->table, "%-34s ", name);
    va_start(values, format);
    vfprintf(out->table, format, values);
    va_end(values);
    fputc('\n', out->table);
    fflush(out->table);
}

static bool is_wanted(const report *out, const char *part)
{
    return icp_arguments_has_choice(out->arguments, ICP_OPTION_ONLY, part);
}

static uint32_t context_max(const report *out)
{
    return out->bench.runner.stats.context_tokens_max;
}

/* Lengths past the context are left out, with a word where they were asked for. */
static void row_too_long(const report *out, icp_option_id id, const char *name)
{
    if (icp_arguments_is_given(out->arguments, id))
        row(out, name, "       - the context has %u tokens", context_max(out));
}

/* ---- Parts --------------------------------------------------------------------------------------------------- */

static int run_bandwidth(report *out)
{
    uint32_t threads = (uint32_t)icp_arguments_count(out->arguments, ICP_OPTION_THREADS);
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    if (threads == 0) threads = cores > 0 ? (uint32_t)cores : 1;
    progress(out, "read bandwidth, %u threads", threads);
    out->bandwidth = icp_bench_bandwidth(threads, out->bench.repeat_count + 2);
    json_object_set_new(out->json, "roofline",
                        json_pack("{s:i, s:f, s:I, s:f}", "threads", (int)threads, "read_bytes_per_s", out->bandwidth,
                                  "weight_bytes_per_token", (json_int_t)out->weight_bytes, "decode_tokens_per_s_max",
                                  out->bandwidth / (double)out->weight_bytes));
    row(out, "read bandwidth", "%8.1f GB/s, %u threads: at most %.1f tokens/s of %s weights", out->bandwidth / 1e9,
        threads, out->bandwidth / (double)out->weight_bytes, icp_say_bytes(out->weight_bytes));
    return ICP_EXIT_OK;
}

static int run_prefill(report *out)
{
    uint32_t lengths[ICP_LIST_COUNT_MAX];
    uint32_t count = icp_arguments_counts(out->arguments, ICP_OPTION_BENCH_PREFILL, lengths);
    json_t *list = json_array();
    json_object_set_new(out->json, "prefill", list);
    for (uint32_t i = 0; i < count; i++) {
        char name[64];
        double rate;
        snprintf(name, sizeof(name), "prefill %u", lengths[i]);
        if (lengths[i] >= context_max(out)) {
            row_too_long(out, ICP_OPTION_BENCH_PREFILL, name);
            continue;
        }
        progress(out, "%s", name);
        int result = icp_bench_prefill(&out->bench, lengths[i], &rate);
        if (result != ICP_EXIT_OK) return result;
        json_array_append_new(list, json_pack("{s:i, s:f}", "tokens", (int)lengths[i], "tokens_per_s", rate));
        row(out, name, "%8.1f tokens/s", rate);
    }
    return ICP_EXIT_OK;
}

/* Bytes that one step of decoding reads: the weights, and the KV of every sequence. */
static double step_bytes(const report *out, uint32_t context, uint32_t sequence_count)
{
    static const icp_kv_format formats[] = {ICP_KV_FORMAT_F16, ICP_KV_FORMAT_F32, ICP_KV_FORMAT_Q8_0};
    icp_kv_format format = formats[icp_arguments_choice(out->arguments, ICP_OPTION_KV_TYPE)];
    const icp_runner *runner = &out->bench.runner;
    double bytes = (double)out->weight_bytes;
    for (uint32_t group = 0; group < runner->facts.group_count; group++) {
        uint32_t window = runner->facts.groups[group].window;
        uint32_t tokens = window > 0 && window < context ? window : context;
        bytes += (double)icp_model_kv_bytes(runner->model, group, format) * tokens * sequence_count;
    }
    return bytes;
}

static int run_decode(report *out)
{
    uint32_t contexts[ICP_LIST_COUNT_MAX];
    uint32_t count = icp_arguments_counts(out->arguments, ICP_OPTION_BENCH_DECODE, contexts);
    json_t *list = json_array();
    json_object_set_new(out->json, "decode", list);
    for (uint32_t i = 0; i < count; i++) {
        char name[64];
        double rate;
        snprintf(name, sizeof(name), "decode at %u", contexts[i]);
        if (contexts[i] + out->bench.decode_tokens + 2 > context_max(out)) {
            row_too_long(out, ICP_OPTION_BENCH_DECODE, name);
            continue;
        }
        progress(out, "%s", name);
        int result = icp_bench_decode(&out->bench, contexts[i], 1, &rate);
        if (result != ICP_EXIT_OK) return result;
        double read = step_bytes(out, contexts[i], 1) * rate;
        json_t *value =
            json_pack("{s:i, s:f, s:f}", "context", (int)contexts[i], "tokens_per_s", rate, "read_bytes_per_s", read);
        if (out->bandwidth > 0.0) json_object_set_new(value, "bandwidth_share", json_real(read / out->bandwidth));
        json_array_append_new(list, value);
        if (out->bandwidth > 0.0)
            row(out, name, "%8.1f tokens/s, %.1f GB/s: %.0f %% of the read bandwidth", rate, read / 1e9,
                read / out->bandwidth * 100.0);
        else
            row(out, name, "%8.1f tokens/s, %.1f GB/s", rate, read / 1e9);
    }
    return ICP_EXIT_OK;
}

/* The prefix is whole steps, so that the new tokens of a cold prompt are a step of their own, which can be timed. */
static uint32_t prefix_of_steps(const report *out, uint32_t new_count)
{
    uint32_t step = out->bench.step_tokens, limit = context_max(out) - 1;
    uint32_t wanted = (uint32_t)icp_arguments_count(out->arguments, ICP_OPTION_BENCH_PREFIX);
    uint32_t steps = (wanted + step / 2) / step;
    if (steps == 0) steps = 1;
    while (steps > 0 && (uint64_t)steps * step + new_count > limit) steps--;
    return steps * step;
}

static int run_ttft(report *out)
{
    icp_bench_first first = {.new_count = (uint32_t)icp_arguments_count(out->arguments, ICP_OPTION_BENCH_NEW)};
    first.prefix_count = prefix_of_steps(out, first.new_count);
    if (first.prefix_count == 0) {
        row(out, "time to first token", "       - a step and the new tokens do not fit the context of %u",
            context_max(out));
        return ICP_EXIT_OK;
    }
    progress(out, "time to first token, %u + %u tokens", first.prefix_count, first.new_count);
    int result = icp_bench_ttft(&out->bench, &first);
    if (result != ICP_EXIT_OK) return result;
    char name[64];
    double ratio = first.new_s > 0.0 ? first.warm_s / first.new_s : 0.0;
    json_object_set_new(out->json, "ttft",
                        json_pack("{s:i, s:i, s:i, s:f, s:f, s:f, s:f}", "prefix_tokens", (int)first.prefix_count,
                                  "new_tokens", (int)first.new_count, "cached_tokens", (int)first.cached_count,
                                  "cold_s", first.cold_s, "warm_s", first.warm_s, "new_s", first.new_s, "warm_over_new",
                                  ratio));
    snprintf(name, sizeof(name), "first token, %u + %u, cold", first.prefix_count, first.new_count);
    row(out, name, "%8.1f ms", first.cold_s * 1e3);
    snprintf(name, sizeof(name), "first token, %u cached + %u", first.cached_count,
             first.prefix_count + first.new_count - first.cached_count);
    row(out, name, "%8.1f ms, %.1f times as fast", first.warm_s * 1e3, first.cold_s / first.warm_s);
    if (ratio > 0.0) row(out, "  the new tokens alone", "%8.1f ms: warm takes %.2f of it", first.new_s * 1e3, ratio);
    return ICP_EXIT_OK;
}

static int run_shared(report *out)
{
    icp_bench_common common = {
        .request_count = (uint32_t)icp_arguments_count(out->arguments, ICP_OPTION_BENCH_REQUESTS),
        .prefix_count = (uint32_t)icp_arguments_count(out->arguments, ICP_OPTION_BENCH_PREFIX),
        .new_count = (uint32_t)icp_arguments_count(out->arguments, ICP_OPTION_BENCH_NEW),
    };
    uint32_t limit = context_max(out) - 1;
    if (common.new_count + 1 > limit) common.new_count = limit / 2;
    if (common.prefix_count + common.new_count > limit) common.prefix_count = limit - common.new_count;
    progress(out, "%u requests with %u tokens in common", common.request_count, common.prefix_count);
    int result = icp_bench_shared(&out->bench, &common);
    if (result != ICP_EXIT_OK) return result;
    double ratio = (double)common.computed_tokens / (double)common.ideal_tokens;
    char name[64];
    json_object_set_new(out->json, "shared",
                        json_pack("{s:i, s:i, s:i, s:I, s:I, s:f, s:f}", "requests", (int)common.request_count,
                                  "prefix_tokens", (int)common.prefix_count, "new_tokens", (int)common.new_count,
                                  "computed_tokens", (json_int_t)common.computed_tokens, "ideal_tokens",
                                  (json_int_t)common.ideal_tokens, "computed_over_ideal", ratio, "seconds",
                                  common.seconds));
    snprintf(name, sizeof(name), "%u requests, %u in common + %u", common.request_count, common.prefix_count,
             common.new_count);
    row(out, name, "%8.3f of the ideal: %s tokens computed, not %s; %.2f s", ratio,
        icp_say_count(common.computed_tokens),
        icp_say_count((uint64_t)common.request_count * (common.prefix_count + common.new_count)), common.seconds);
    return ICP_EXIT_OK;
}

static int run_batch(report *out)
{
    uint32_t sizes[ICP_LIST_COUNT_MAX];
    uint32_t count = icp_arguments_counts(out->arguments, ICP_OPTION_BENCH_BATCH, sizes);
    uint32_t sequences = (uint32_t)icp_arguments_count(out->arguments, ICP_OPTION_SEQUENCES);
    double single = 0.0;
    json_t *list = json_array();
    json_object_set_new(out->json, "batch", list);
    for (uint32_t i = 0; i < count; i++) {
        char name[64];
        double rate;
        snprintf(name, sizeof(name), "decode, %u sequence%s", sizes[i], sizes[i] == 1 ? "" : "s");
        if (sizes[i] > sequences || sizes[i] > out->bench.request_count_max) {
            row(out, name, "       - more than --sequences %u", sequences);
            continue;
        }
        progress(out, "%s", name);
        int result = icp_bench_decode(&out->bench, 16, sizes[i], &rate);
        if (result != ICP_EXIT_OK) return result;
        if (sizes[i] == 1) single = rate;
        json_array_append_new(list, json_pack("{s:i, s:f}", "sequences", (int)sizes[i], "tokens_per_s", rate));
        if (single > 0.0)
            row(out, name, "%8.1f tokens/s in all, %.2f times one", rate, rate / single);
        else
            row(out, name, "%8.1f tokens/s in all", rate);
    }
    return ICP_EXIT_OK;
}

/* ---- The verb ------------------------------------------------------------------------------------------------ */

static int run_parts(report *out)
{
    static const struct {
        const char *name;
        int (*run)(report *out);
    } parts[] = {
        {"bandwidth", run_bandwidth}, {"prefill", run_prefill}, {"decode", run_decode},
        {"ttft", run_ttft},           {"shared", run_shared},   {"batch", run_batch},
    };
    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
        if (!is_wanted(out, parts[i].name)) continue;
        int result = parts[i].run(out);
        if (result != ICP_EXIT_OK) return result;
    }
    return ICP_EXIT_OK;
}

static int write_json(const report *out)
{
    const char *path = icp_arguments_text(out->arguments, ICP_OPTION_BENCH_JSON);
    if (path == NULL) return ICP_EXIT_OK;
    if (strcmp(path, "-") == 0) return icp_json_write(json_incref(out->json), stdout);
    FILE *file = fopen(path, "w");
    if (file == NULL) return icp_say_failure("%s: %s", path, strerror(errno));
    int result = icp_json_write(json_incref(out->json), file);
    if (fclose(file) != 0) return icp_say_failure("%s: %s", path, strerror(errno));
    return result;
}

/* A file that cannot be written is told before anything is measured. */
static int check_json(const report *out)
{
    const char *path = icp_arguments_text(out->arguments, ICP_OPTION_BENCH_JSON);
    if (path == NULL || strcmp(path, "-") == 0) return ICP_EXIT_OK;
    FILE *file = fopen(path, "a");
    if (file == NULL) return icp_say_failure("%s: %s", path, strerror(errno));
    (void)fclose(file);
    return ICP_EXIT_OK;
}

static int prepare(report *out)
{
    icp_bench *bench = &out->bench;
    const icp_model_facts *facts = &bench->runner.facts;
    bench->repeat_count = (uint32_t)icp_arguments_count(out->arguments, ICP_OPTION_BENCH_REPEAT);
    bench->decode_tokens = (uint32_t)icp_arguments_count(out->arguments, ICP_OPTION_BENCH_TOKENS);
    bench->step_tokens = (uint32_t)icp_arguments_count(out->arguments, ICP_OPTION_STEP_TOKENS);
    bench->random = 1;
    bench->is_shown = !bench->runner.is_quiet && icp_say_is_terminal(stderr);
    uint32_t room = context_max(out) > 1024 * 16 ? context_max(out) : 1024 * 16;
    bench->request_count_max = 1024;
    bench->tokens = calloc(room, sizeof(*bench->tokens));
    out->weight_bytes = icp_bench_weight_bytes(&bench->runner);
    out->json = json_pack("{s:o, s:s, s:s, s:I, s:s, s:o}", "model", icp_json_text(facts->name, strlen(facts->name)),
                          "architecture", facts->architecture, "type", facts->type, "parameters",
                          (json_int_t)facts->parameter_count, "version", icp_version(), "device",
                          icp_json_text(bench->runner.stats.device, strlen(bench->runner.stats.device)));
    return bench->tokens != NULL && out->json != NULL ? ICP_EXIT_OK : icp_say_failure("there is no memory");
}

int icp_bench_run(const icp_arguments *arguments)
{
    const char *path = icp_arguments_text(arguments, ICP_OPTION_BENCH_JSON);
    report out = {.arguments = arguments};
    out.table = path != NULL && strcmp(path, "-") == 0 ? stderr : stdout;
    int result = check_json(&out);
    if (result == ICP_EXIT_OK) result = icp_runner_open(&out.bench.runner, arguments);
    if (result == ICP_EXIT_OK && arguments->operand_count > out.bench.runner.operand_first)
        result = icp_say_usage("bench takes one model, a file whose name ends in .gguf; use --model for others");
    if (result == ICP_EXIT_OK) result = prepare(&out);
    if (result == ICP_EXIT_OK) {
        if (!out.bench.runner.is_quiet) icp_runner_describe(&out.bench.runner, stderr);
        result = run_parts(&out);
    }
    if (result == ICP_EXIT_OK) result = write_json(&out);
    if (out.bench.is_shown) fputs("\r\033[K", stderr);
    json_decref(out.json);
    free(out.bench.tokens);
    icp_runner_close(&out.bench.runner);
    return result;
}
