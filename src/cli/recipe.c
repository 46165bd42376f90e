/* recipe.c - what a request is made of, from the command line: sampling, limits, stops and the text of the prompt. */
#include "cli/runner.h"

#include "cli/say.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define TEXT_BYTES_MAX ((size_t)64 << 20) /* of a prompt */

/* ---- Options ------------------------------------------------------------------------------------------------- */

static int read_biases(icp_recipe *recipe, const icp_argument *given)
{
    for (uint32_t i = 0; i < given->count; i++) {
        char *end;
        const char *text = given->texts[i];
        errno = 0;
        unsigned long token = strtoul(text, &end, 10);
        bool is_token = isdigit((unsigned char)*text) && *end == '=' && errno == 0 && token < ICP_TOKEN_NONE;
        const char *number = end + 1;
        float bias = is_token ? strtof(number, &end) : 0.0f;
        if (!is_token || end == number || *end != '\0')
            return icp_say_usage("--logit-bias '%s': TOKEN=X is wanted, for example 50=-100", text);
        recipe->biases[i] = (icp_bias){.token = (uint32_t)token, .bias = bias};
    }
    recipe->submission.sampling.biases = recipe->biases;
    recipe->submission.sampling.bias_count = given->count;
    return ICP_EXIT_OK;
}

static int read_stops(icp_recipe *recipe, const icp_arguments *arguments)
{
    const icp_argument *stops = &arguments->values[ICP_OPTION_STOP];
    const icp_argument *tokens = &arguments->values[ICP_OPTION_STOP_TOKEN];
    if (stops->count > ICP_STOP_COUNT_MAX)
        return icp_say_usage("--stop: more than %u are too many", ICP_STOP_COUNT_MAX);
    for (uint32_t i = 0; i < stops->count; i++) {
        size_t bytes = strlen(stops->texts[i]);
        if (bytes == 0 || bytes > ICP_STOP_BYTES_MAX)
            return icp_say_usage("--stop: a text of 1 to %u bytes is wanted", ICP_STOP_BYTES_MAX);
        recipe->stops[i] = (icp_stop){.text = stops->texts[i], .bytes = bytes};
    }
    for (uint32_t i = 0; i < tokens->count; i++) recipe->stop_tokens[i] = (uint32_t)strtoul(tokens->texts[i], NULL, 10);
    recipe->submission.stops = recipe->stops;
    recipe->submission.stop_count = stops->count;
    recipe->submission.stop_tokens = recipe->stop_tokens;
    recipe->submission.stop_token_count = tokens->count;
    return ICP_EXIT_OK;
}

static uint64_t seed_of(const icp_arguments *arguments)
{
    if (icp_arguments_is_given(arguments, ICP_OPTION_SEED)) return icp_arguments_count(arguments, ICP_OPTION_SEED);
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return ((uint64_t)now.tv_nsec ^ (uint64_t)now.tv_sec << 20 ^ (uint64_t)getpid()) & 0xffffffffu; /* easy to type */
}

int icp_recipe_read(icp_recipe *recipe, const icp_runner *runner, const icp_arguments *arguments)
{
    memset(recipe, 0, sizeof(*recipe));
    icp_submission_init(&recipe->submission);
    icp_submission *submission = &recipe->submission;
    icp_sampling *sampling = &submission->sampling;
    uint64_t top_k = icp_arguments_count(arguments, ICP_OPTION_TOP_K);
    sampling->temperature = (float)icp_arguments_number(arguments, ICP_OPTION_TEMPERATURE);
    sampling->top_k = top_k > UINT32_MAX ? 0 : (uint32_t)top_k;
    sampling->top_p = (float)icp_arguments_number(arguments, ICP_OPTION_TOP_P);
    sampling->min_p = (float)icp_arguments_number(arguments, ICP_OPTION_MIN_P);
    sampling->repetition_penalty = (float)icp_arguments_number(arguments, ICP_OPTION_REPETITION_PENALTY);
    sampling->presence_penalty = (float)icp_arguments_number(arguments, ICP_OPTION_PRESENCE_PENALTY);
    sampling->frequency_penalty = (float)icp_arguments_number(arguments, ICP_OPTION_FREQUENCY_PENALTY);
    sampling->seed = seed_of(arguments);
    sampling->logprob_count = (uint32_t)icp_arguments_count(arguments, ICP_OPTION_LOGPROBS);
    sampling->is_logprob_wanted = icp_arguments_is_given(arguments, ICP_OPTION_LOGPROBS);
    recipe->output_tokens_max = (uint32_t)icp_arguments_count(arguments, ICP_OPTION_MAX_TOKENS);
    submission->output_tokens_min = (uint32_t)icp_arguments_count(arguments, ICP_OPTION_MIN_TOKENS);
    submission->is_eos_ignored = icp_arguments_flag(arguments, ICP_OPTION_IGNORE_EOS);
    submission->is_special_shown = icp_arguments_flag(arguments, ICP_OPTION_SPECIAL);
    submission->branch_count = (uint32_t)icp_arguments_count(arguments, ICP_OPTION_N);
    submission->adapter = runner->adapter;
    int result = read_biases(recipe, &arguments->values[ICP_OPTION_LOGIT_BIAS]);
    return result == ICP_EXIT_OK ? read_stops(recipe, arguments) : result;
}

int icp_recipe_prompt(icp_recipe *recipe, const icp_runner *runner, const icp_tokens *tokens, const char *label)
{
    uint32_t context = runner->stats.context_tokens_max;
    if (tokens->count == 0) return icp_say_failure("%s is empty: give it at least a word", label);
    if (tokens->count >= context)
        return icp_say_failure("%s has %zu tokens, the context %u: shorten it, or raise --context or --kv-size", label,
                               tokens->count, context);
    uint32_t room = context - (uint32_t)tokens->count;
    recipe->submission.tokens = tokens->ids;
    recipe->submission.token_count = tokens->count;
    recipe->submission.output_tokens_max = recipe->output_tokens_max < room ? recipe->output_tokens_max : room;
    return ICP_EXIT_OK;
}

/* ---- Texts --------------------------------------------------------------------------------------------------- */

int icp_file_read(const char *path, char **text, size_t *bytes)
{
    bool is_standard = strcmp(path, "-") == 0;
    FILE *file = is_standard ? stdin : fopen(path, "rb");
    if (is_standard) path = "standard input";
    if (file == NULL) return icp_say_failure("%s: %s", path, strerror(errno));
    size_t room = 1 << 16, used = 0;
    char *buffer = malloc(room + 1);
    while (buffer != NULL && used <= TEXT_BYTES_MAX) {
        size_t got = fread(buffer + used, 1, room - used, file);
        used += got;
        if (got == 0) break;
        if (used < room) continue;
        char *larger = realloc(buffer, (room *= 2) + 1);
        if (larger == NULL) free(buffer);
        buffer = larger;
    }
    int number = ferror(file) ? errno : 0;
    if (!is_standard) fclose(file);
    if (buffer == NULL) return icp_say_failure("%s: there is no memory for it", path);
    if (number != 0 || used > TEXT_BYTES_MAX) {
        free(buffer);
        return icp_say_failure("%s: %s", path, number != 0 ? strerror(number) : "more than 64 MiB are too much");
    }
    buffer[used] = '\0';
    *text = buffer;
    *bytes = used;
    return ICP_EXIT_OK;
}

/* The operands, with a space between them. */
static int join_operands(const icp_arguments *arguments, size_t first, char **text, size_t *bytes)
{
    FILE *stream = open_memstream(text, bytes);
    if (stream == NULL) return icp_say_failure("there is no memory");
    for (size_t i = first; i < arguments->operand_count; i++)
        fprintf(stream, "%s%s", i > first ? " " : "", arguments->operands[i]);
    return fclose(stream) == 0 ? ICP_EXIT_OK : icp_say_failure("there is no memory");
}

int icp_text_read(const icp_arguments *arguments, size_t first, char **text, size_t *bytes)
{
    const char *path = icp_arguments_text(arguments, ICP_OPTION_FILE);
    bool has_words = arguments->operand_count > first;
    if (has_words && path != NULL) return icp_say_usage("words and --file: only one of them can be the text");
    if (has_words && strcmp(arguments->operands[first], "-") != 0) return join_operands(arguments, first, text, bytes);
    if (path == NULL && !has_words && icp_say_is_terminal(stdin))
        return icp_say_usage("%s wants a text: as words, with --file, or on standard input", arguments->verb->name);
    return icp_file_read(path != NULL ? path : "-", text, bytes);
}

int icp_runner_tokenize(const icp_runner *runner, const char *text, size_t bytes, uint32_t flags, icp_tokens *out)
{
    size_t room = bytes + 16; /* no token is of no bytes, but for those at the ends */
    uint32_t *ids = malloc(room * sizeof(*ids));
    if (ids == NULL) return icp_say_failure("there is no memory for %zu bytes of text", bytes);
    icp_status status = icp_model_tokenize(runner->model, text, bytes, flags, ids, room, &out->count);
    if (status != ICP_OK) {
        free(ids);
        return icp_say_failure("tokenizing: %s", icp_status_text(status));
    }
    out->ids = ids;
    return ICP_EXIT_OK;
}

int icp_runner_numbers(const icp_runner *runner, const char *text, icp_tokens *out)
{
    static const char separators[] = " \t\r\n,[]";
    uint32_t *ids = malloc((strlen(text) / 2 + 2) * sizeof(*ids));
    size_t count = 0;
    if (ids == NULL) return icp_say_failure("there is no memory");
    for (const char *at = text + strspn(text, separators); *at != '\0'; at += strspn(at, separators)) {
        char *end;
        int length = (int)strcspn(at, separators);
        errno = 0;
        unsigned long long id = strtoull(at, &end, 10);
        if (!isdigit((unsigned char)*at) || errno != 0 || id >= runner->facts.vocabulary || end != at + length) {
            icp_say_failure("'%.*s' is no token: whole numbers below %u are wanted", length > 40 ? 40 : length, at,
                            runner->facts.vocabulary);
            free(ids);
            return ICP_EXIT_FAILED;
        }
        ids[count++] = (uint32_t)id;
        at = end;
    }
    out->ids = ids;
    out->count = count;
    return ICP_EXIT_OK;
}

/* ---- JSON ---------------------------------------------------------------------------------------------------- */

json_t *icp_json_text(const char *text, size_t bytes)
{
    json_t *value = json_stringn(text, bytes);
    if (value != NULL) return value;
    char *clean = malloc(bytes * 3 + 1);
    if (clean == NULL) return NULL;
    size_t used = 0;
    for (size_t i = 0; i < bytes;) {
        size_t length = icp_say_character(text + i, bytes - i);
        memcpy(clean + used, length > 0 ? text + i : "\xef\xbf\xbd", length > 0 ? length : 3);
        used += length > 0 ? length : 3;
        i += length > 0 ? length : 1;
    }
    value = json_stringn(clean, used);
    free(clean);
    return value;
}

int icp_json_write(json_t *value, FILE *stream)
{
    int failed = value == NULL || json_dumpf(value, stream, JSON_INDENT(2) | JSON_REAL_PRECISION(9)) != 0;
    json_decref(value);
    fputc('\n', stream);
    /* A reader that went away is seen at the end. */
    return failed && !ferror(stream) ? icp_say_failure("there is no memory for the JSON") : ICP_EXIT_OK;
}
