/* runner.c - opening a model and an engine by the options, and stepping until all is done. */
#include "cli/runner.h"

#include "cli/say.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define BAR_COLUMNS 40u

volatile sig_atomic_t icp_runner_is_interrupted;

/* ---- Opening ------------------------------------------------------------------------------------------------- */

static bool is_model_name(const char *word)
{
    size_t length = strlen(word);
    return length > 5 && strcmp(word + length - 5, ".gguf") == 0;
}

static bool is_on_command_line(const icp_argument *value)
{
    return value->is_given && !value->is_weak;
}

/* The sentence names the file itself. */
static bool is_named(const char *sentence, const char *path)
{
    if (path == NULL || sentence[0] == '\0') return false;
    const char *slash = strrchr(path, '/');
    return strstr(sentence, slash != NULL && slash[1] != '\0' ? slash + 1 : path) != NULL;
}

int icp_runner_open_model(icp_runner *runner, const icp_arguments *arguments)
{
    memset(runner, 0, sizeof(*runner));
    runner->is_quiet = icp_arguments_flag(arguments, ICP_OPTION_QUIET);
    const char *path = icp_arguments_text(arguments, ICP_OPTION_MODEL);
    bool has_text =
        arguments->verb == &icp_verbs[ICP_VERB_COMPLETE] || arguments->verb == &icp_verbs[ICP_VERB_TOKENIZE];
    bool is_operand = arguments->operand_count > 0 && (!has_text || is_model_name(arguments->operands[0]));
    if (is_operand && !is_on_command_line(&arguments->values[ICP_OPTION_MODEL])) {
        path = arguments->operands[0];
        runner->operand_first = 1;
    }
    icp_error error = {""};
    icp_status status = icp_model_open(&runner->model, path, &error);
    if (status != ICP_OK && is_named(error.text, path)) return icp_say_failure("%s", error.text);
    if (status != ICP_OK)
        return icp_say_failure("%s: %s", path != NULL ? path : "the built-in model",
                               error.text[0] != '\0' ? error.text : icp_status_text(status));
    icp_model_facts_init(&runner->facts);
    status = icp_model_get_facts(runner->model, &runner->facts);
    return status == ICP_OK ? ICP_EXIT_OK : icp_say_failure("the model: %s", icp_status_text(status));
}

typedef struct progress {
    bool is_shown;
    unsigned percent;
} progress;

static void show_progress(void *context, uint64_t done, uint64_t total)
{
    progress *shown = context;
    unsigned percent = total > 0 ? (unsigned)((double)done / (double)total * 100.0) : 100;
    if (!shown->is_shown || percent == shown->percent) return;
    shown->percent = percent;
    char bar[BAR_COLUMNS + 1];
    for (unsigned i = 0; i < BAR_COLUMNS; i++) bar[i] = i * 100 < percent * BAR_COLUMNS ? '#' : '.';
    bar[BAR_COLUMNS] = '\0';
    fprintf(stderr, "\rloading %s %3u %% of %s", bar, percent, icp_say_bytes(total));
}

static int load_adapters(icp_runner *runner, const icp_arguments *arguments)
{
    const icp_argument *adapters = &arguments->values[ICP_OPTION_LORA];
    for (uint32_t i = 0; i < adapters->count; i++) {
        char name[128];
        icp_error error = {""};
        size_t length = strcspn(adapters->texts[i], "=");
        const char *path = adapters->texts[i] + length + 1;
        if (adapters->texts[i][length] != '=' || length == 0 || length >= sizeof(name) || *path == '\0')
            return icp_say_usage("--lora '%s': NAME=FILE is wanted", adapters->texts[i]);
        snprintf(name, sizeof(name), "%.*s", (int)length, adapters->texts[i]);
        icp_status status = icp_engine_adapter_load(runner->engine, name, path, &error);
        if (status != ICP_OK)
            return icp_say_failure("adapter %s: %s", name,
                                   error.text[0] != '\0' ? error.text : icp_status_text(status));
    }
    return ICP_EXIT_OK;
}

/* The adapter that requests use: --adapter, or the first --lora. */
static const char *choose_adapter(const icp_arguments *arguments, char name[128])
{
    const char *chosen = icp_arguments_text(arguments, ICP_OPTION_ADAPTER);
    const icp_argument *adapters = &arguments->values[ICP_OPTION_LORA];
    if (chosen != NULL) return strcmp(chosen, "none") == 0 ? NULL : chosen;
    if (adapters->count == 0) return NULL;
    snprintf(name, 128, "%.*s", (int)strcspn(adapters->texts[0], "="), adapters->texts[0]);
    return name;
}

static int fill_options(icp_engine_options *options, const icp_arguments *arguments)
{
    static const icp_kv_format formats[] = {ICP_KV_FORMAT_F16, ICP_KV_FORMAT_F32, ICP_KV_FORMAT_Q8_0};
    icp_engine_options_init(options);
    options->thread_count = (uint32_t)icp_arguments_count(arguments, ICP_OPTION_THREADS);
    options->context_tokens_max = (uint32_t)icp_arguments_count(arguments, ICP_OPTION_CONTEXT);
    options->kv_format = formats[icp_arguments_choice(arguments, ICP_OPTION_KV_TYPE)];
    options->kv_bytes = icp_arguments_count(arguments, ICP_OPTION_KV_SIZE);
    options->block_tokens = (uint32_t)icp_arguments_count(arguments, ICP_OPTION_BLOCK_TOKENS);
    options->step_tokens = (uint32_t)icp_arguments_count(arguments, ICP_OPTION_STEP_TOKENS);
    options->sequence_count_max = (uint32_t)icp_arguments_count(arguments, ICP_OPTION_SEQUENCES);
    options->is_cache_off = icp_arguments_flag(arguments, ICP_OPTION_NO_CACHE);
    if (options->block_tokens % 16 != 0)
        return icp_say_usage("--block-tokens '%u': a multiple of 16 is wanted", options->block_tokens);
    return ICP_EXIT_OK;
}

int icp_runner_open(icp_runner *runner, const icp_arguments *arguments)
{
    static char adapter[128];
    double start = icp_say_clock();
    int result = icp_runner_open_model(runner, arguments);
    if (result != ICP_EXIT_OK) return result;

    icp_engine_options options;
    progress shown = {.is_shown = !runner->is_quiet && icp_say_is_terminal(stderr), .percent = 101};
    result = fill_options(&options, arguments);
    if (result != ICP_EXIT_OK) return result;
    if (options.context_tokens_max > runner->facts.context_max)
        return icp_say_failure("--context %u is more than the model allows: %u at most", options.context_tokens_max,
                               runner->facts.context_max);
    options.progress = show_progress;
    options.progress_context = &shown;
    icp_error error = {""};
    icp_status status = icp_engine_open(&runner->engine, runner->model, &options, &error);
    if (shown.is_shown) fputs("\r\033[K", stderr);
    if (status != ICP_OK)
        return icp_say_failure("%s: %s", runner->facts.path,
                               error.text[0] != '\0' ? error.text : icp_status_text(status));
    result = load_adapters(runner, arguments);
    if (result != ICP_EXIT_OK) return result;

    runner->adapter = choose_adapter(arguments, adapter);
    runner->load_s = icp_say_clock() - start;
    icp_engine_stats_init(&runner->stats);
    status = icp_engine_statistics(runner->engine, &runner->stats);
    return status == ICP_OK ? ICP_EXIT_OK : icp_say_failure("the engine: %s", icp_status_text(status));
}

void icp_runner_close(icp_runner *runner)
{
    icp_engine_close(runner->engine);
    icp_model_close(runner->model);
    runner->engine = NULL;
    runner->model = NULL;
}

/* ---- For people ---------------------------------------------------------------------------------------------- */

const char *icp_runner_kv_name(icp_kv_format format)
{
    static const char *const names[] = {"f16", "f32", "q8_0"};
    return names[format];
}

void icp_runner_describe(const icp_runner *runner, FILE *stream)
{
    const icp_model_facts *facts = &runner->facts;
    const icp_engine_stats *stats = &runner->stats;
    fprintf(stream, "model   %s: %s, %s parameters, %s\n", facts->name, facts->architecture,
            icp_say_short(facts->parameter_count), facts->type);
    fprintf(stream, "device  %s; weights %s, loaded in %.2f s\n", stats->device, icp_say_bytes(stats->weight_bytes),
            runner->load_s);
    fprintf(stream, "cache   %s of KV: %s tokens in blocks of %u; a conversation has up to %s\n",
            icp_say_bytes(stats->kv_bytes), icp_say_count(stats->block_count[0] * stats->block_tokens),
            stats->block_tokens, icp_say_count(stats->context_tokens_max));
}

/* ---- Running ------------------------------------------------------------------------------------------------- */

int icp_runner_run(icp_runner *runner, icp_job job, icp_output_fn *fn, void *context)
{
    icp_step_info info;
    icp_output output;
    icp_step_info_init(&info);
    icp_output_init(&output);
    do {
        if (icp_runner_is_interrupted && job != 0) {
            icp_status status = icp_engine_cancel(runner->engine, job);
            if (status != ICP_OK && status != ICP_STALE) return icp_say_failure("cancel: %s", icp_status_text(status));
            job = 0;
            while (icp_engine_poll(runner->engine, &output) == ICP_OK) fn(context, &output); /* its end */
        }
        icp_status status = icp_engine_step(runner->engine, &info);
        if (status != ICP_OK) return icp_say_failure("the engine: %s", icp_status_text(status));
        while (icp_engine_poll(runner->engine, &output) == ICP_OK) fn(context, &output);
    } while (!info.is_idle);
    return ICP_EXIT_OK;
}
