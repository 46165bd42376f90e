/* complete.c - the verb complete: prompts in, their continuations out.
 *
 * One prompt with one answer is streamed. Several prompts (--batch) or answers (--n) run together, so that what they
 * share is computed once, and are written in order when all have ended. */
#include "cli/runner.h"
#include "cli/say.h"

#include <stdlib.h>
#include <string.h>

#define PROMPT_COUNT_MAX 100000u

/* One answer to a prompt. */
typedef struct answer {
    FILE *stream; /* what it writes goes to text */
    char *text;
    size_t bytes;
    json_t *tokens;
    json_t *logprobs;
    icp_finish finish;
    char *stop_text; /* NULL: none */
    uint32_t token_count;
} answer;

typedef struct prompt {
    struct completion *owner;
    icp_tokens tokens;
    icp_job job;
    answer *answers; /* [branch_count] */
    uint32_t cached_tokens;
    double submitted_s, first_s, last_s;
} prompt;

typedef struct completion {
    icp_runner runner;
    icp_recipe recipe;
    const icp_arguments *arguments;
    prompt *prompts;
    size_t prompt_count;
    uint32_t branch_count;
    bool is_streamed;
    bool is_json;
    bool is_raw;
} completion;

/* ---- Prompts ------------------------------------------------------------------------------------------------- */

static int add_prompt(completion *all, const char *text, size_t bytes)
{
    char label[48] = "the prompt";
    prompt *added = &all->prompts[all->prompt_count];
    *added = (prompt){.owner = all};
    uint32_t flags = ICP_TOKENIZE_BOS;
    if (icp_arguments_flag(all->arguments, ICP_OPTION_SPECIAL)) flags |= ICP_TOKENIZE_SPECIAL;
    bool is_numbers = icp_arguments_flag(all->arguments, ICP_OPTION_PROMPT_IDS);
    int result = ICP_EXIT_OK;
    if (is_numbers)
        result = icp_runner_numbers(&all->runner, text, &added->tokens);
    else if (bytes > 0)
        result = icp_runner_tokenize(&all->runner, text, bytes, flags, &added->tokens);
    if (result != ICP_EXIT_OK) return result;
    all->prompt_count++;
    if (icp_arguments_is_given(all->arguments, ICP_OPTION_BATCH))
        snprintf(label, sizeof(label), "prompt %zu", all->prompt_count);
    result = icp_recipe_prompt(&all->recipe, &all->runner, &added->tokens, label);
    if (result != ICP_EXIT_OK) return result;

    bool is_echoed = icp_arguments_flag(all->arguments, ICP_OPTION_ECHO);
    added->answers = calloc(all->branch_count, sizeof(*added->answers));
    for (uint32_t i = 0; added->answers != NULL && i < all->branch_count; i++) {
        answer *made = &added->answers[i];
        made->stream = open_memstream(&made->text, &made->bytes);
        made->tokens = json_array();
        made->logprobs = json_array();
        if (made->stream == NULL) return icp_say_failure("there is no memory");
        if (is_echoed) fwrite(text, 1, bytes, all->is_streamed ? stdout : made->stream);
    }
    return added->answers != NULL ? ICP_EXIT_OK : icp_say_failure("there is no memory");
}

/* Each line that is not empty. */
static int add_lines(completion *all, char *text, size_t bytes)
{
    size_t room = 1;
    for (size_t i = 0; i < bytes; i++) room += text[i] == '\n';
    if (room > PROMPT_COUNT_MAX) return icp_say_failure("more than %u prompts are too many", PROMPT_COUNT_MAX);
    all->prompts = calloc(room, sizeof(*all->prompts));
    if (all->prompts == NULL) return icp_say_failure("there is no memory");
    for (char *line = text, *end; line < text + bytes; line = end + 1) {
        end = memchr(line, '\n', (size_t)(text + bytes - line));
        if (end == NULL) end = text + bytes;
        size_t length = (size_t)(end - line);
        if (length > 0 && line[length - 1] == '\r') length--;
        if (length == 0) continue;
        line[length] = '\0';
        int result = add_prompt(all, line, length);
        if (result != ICP_EXIT_OK) return result;
    }
    return all->prompt_count > 0 ? ICP_EXIT_OK : icp_say_failure("there is no prompt in the file of --batch");
}

static int read_prompts(completion *all)
{
    const char *batch = icp_arguments_text(all->arguments, ICP_OPTION_BATCH);
    char *text = NULL;
    size_t bytes = 0;
    int result = batch != NULL ? icp_file_read(batch, &text, &bytes)
                               : icp_text_read(all->arguments, all->runner.operand_first, &text, &bytes);
    if (result == ICP_EXIT_OK && batch != NULL) {
        result = add_lines(all, text, bytes);
    } else if (result == ICP_EXIT_OK) {
        all->prompts = calloc(1, sizeof(*all->prompts));
        result = all->prompts != NULL ? add_prompt(all, text, bytes) : icp_say_failure("there is no memory");
    }
    free(text);
    return result;
}

/* ---- Answers ------------------------------------------------------------------------------------------------- */

static json_t *piece_of(const completion *all, uint32_t token)
{
    char text[256];
    size_t bytes = 0;
    icp_status status =
        icp_model_detokenize(all->runner.model, &token, 1, ICP_TOKENIZE_SPECIAL, text, sizeof(text), &bytes);
    return icp_json_text(text, status == ICP_OK ? bytes : 0);
}

static json_t *logprob_json(const completion *all, const icp_output *output)
{
    json_t *likeliest = json_array();
    for (uint32_t i = 0; i < output->candidate_count; i++) {
        const icp_candidate *candidate = &output->candidates[i];
        json_array_append_new(likeliest,
                              json_pack("{s:i, s:o, s:f}", "token", (int)candidate->token, "text",
                                        piece_of(all, candidate->token), "logprob", (double)candidate->logprob));
    }
    return json_pack("{s:i, s:o, s:f, s:o}", "token", (int)output->token, "text", piece_of(all, output->token),
                     "logprob", (double)output->logprob, "likeliest", likeliest);
}

static void write_output(const completion *all, const answer *made, const icp_output *output, FILE *stream)
{
    if (!all->is_raw)
        fwrite(output->text, 1, output->text_bytes, stream);
    else if (output->token != ICP_TOKEN_NONE)
        fprintf(stream, "%s%u", made->token_count > 0 ? " " : "", output->token);
}

static void take_output(void *context, const icp_output *output)
{
    completion *all = context;
    prompt *asked = output->context;
    answer *made = &asked->answers[output->branch];
    double now = icp_say_clock();
    if (asked->first_s <= 0.0) asked->first_s = now;
    asked->last_s = now;
    asked->cached_tokens = output->cached_tokens;
    if (all->is_streamed) {
        write_output(all, made, output, stdout);
        fflush(stdout);
        if (ferror(stdout)) icp_runner_is_interrupted = 1; /* nobody reads: end it */
    } else {
        write_output(all, made, output, made->stream);
    }
    if (output->token != ICP_TOKEN_NONE) {
        made->token_count++;
        if (all->is_json) json_array_append_new(made->tokens, json_integer(output->token));
        if (all->is_json && all->recipe.submission.sampling.is_logprob_wanted)
            json_array_append_new(made->logprobs, logprob_json(all, output));
    }
    if (output->finish == ICP_FINISH_NONE) return;
    made->finish = output->finish;
    if (output->stop_text != NULL) made->stop_text = strdup(output->stop_text);
}

static int submit_all(completion *all)
{
    for (size_t i = 0; i < all->prompt_count; i++) {
        prompt *asked = &all->prompts[i];
        icp_error error = {""};
        icp_submission *submission = &all->recipe.submission;
        int result = icp_recipe_prompt(&all->recipe, &all->runner, &asked->tokens, "the prompt");
        if (result != ICP_EXIT_OK) return result;
        submission->context = asked;
        icp_status status;
        while ((status = icp_engine_submit(all->runner.engine, submission, &asked->job, &error)) == ICP_FULL) {
            result = icp_runner_run(&all->runner, 0, take_output, all); /* the queue is full: empty it */
            if (result != ICP_EXIT_OK) return result;
        }
        if (status == ICP_NOT_FOUND)
            return icp_say_failure("there is no adapter %s: load it with --lora", submission->adapter);
        if (status != ICP_OK)
            return icp_say_failure("the request: %s", error.text[0] != '\0' ? error.text : icp_status_text(status));
        asked->submitted_s = icp_say_clock();
    }
    return icp_runner_run(&all->runner, all->is_streamed ? all->prompts[0].job : 0, take_output, all);
}

/* ---- Writing ------------------------------------------------------------------------------------------------- */

static const char *finish_name(icp_finish finish)
{
    static const char *const names[ICP_FINISH_COUNT] = {"none", "stop", "length", "cancelled"};
    return names[finish];
}

static json_t *answer_json(const completion *all, const answer *made, uint32_t index)
{
    json_t *value =
        json_pack("{s:i, s:o, s:s, s:O}", "index", (int)index, "text", icp_json_text(made->text, made->bytes), "finish",
                  finish_name(made->finish), "tokens", made->tokens);
    if (made->stop_text != NULL)
        json_object_set_new(value, "stop", icp_json_text(made->stop_text, strlen(made->stop_text)));
    if (all->recipe.submission.sampling.is_logprob_wanted) json_object_set(value, "logprobs", made->logprobs);
    return value;
}

static json_int_t output_tokens(const completion *all, const prompt *asked)
{
    json_int_t count = 0;
    for (uint32_t i = 0; i < all->branch_count; i++) count += asked->answers[i].token_count;
    return count;
}

static json_t *usage_json(json_int_t prompt_tokens, json_int_t cached_tokens, json_int_t output)
{
    return json_pack("{s:I, s:I, s:I}", "prompt_tokens", prompt_tokens, "cached_tokens", cached_tokens, "output_tokens",
                     output);
}

static json_t *prompt_json(const completion *all, const prompt *asked)
{
    json_t *answers = json_array();
    for (uint32_t i = 0; i < all->branch_count; i++)
        json_array_append_new(answers, answer_json(all, &asked->answers[i], i));
    json_int_t output = output_tokens(all, asked);
    double decode_s = asked->last_s - asked->first_s;
    double rate = decode_s > 0.0 ? (double)(output - all->branch_count) / decode_s : 0.0;
    return json_pack("{s:o, s:o, s:{s:f, s:f, s:f}}", "answers", answers, "usage",
                     usage_json((json_int_t)asked->tokens.count, asked->cached_tokens, output), "timing",
                     "first_token_s", asked->first_s - asked->submitted_s, "total_s",
                     asked->last_s - asked->submitted_s, "decode_tokens_per_s", rate);
}

static int write_json(const completion *all)
{
    json_int_t prompt_tokens = 0, cached_tokens = 0, output = 0;
    json_t *prompts = json_array(), *value;
    for (size_t i = 0; i < all->prompt_count; i++) {
        json_array_append_new(prompts, prompt_json(all, &all->prompts[i]));
        prompt_tokens += (json_int_t)all->prompts[i].tokens.count;
        cached_tokens += all->prompts[i].cached_tokens;
        output += output_tokens(all, &all->prompts[i]);
    }
    if (icp_arguments_is_given(all->arguments, ICP_OPTION_BATCH)) {
        value = json_pack("{s:o, s:o}", "prompts", prompts, "usage", usage_json(prompt_tokens, cached_tokens, output));
    } else {
        value = json_incref(json_array_get(prompts, 0));
        json_decref(prompts);
    }
    const icp_model_facts *facts = &all->runner.facts;
    json_object_set_new(value, "model", icp_json_text(facts->name, strlen(facts->name)));
    json_object_set_new(value, "seed", json_integer((json_int_t)all->recipe.submission.sampling.seed));
    json_object_set_new(value, "load_s", json_real(all->runner.load_s));
    return icp_json_write(value, stdout);
}

static void write_text(const completion *all)
{
    for (size_t i = 0; i < all->prompt_count; i++) {
        for (uint32_t branch = 0; branch < all->branch_count; branch++) {
            const answer *made = &all->prompts[i].answers[branch];
            if (all->prompt_count > 1) printf("==> prompt %zu", i + 1);
            if (all->branch_count > 1) printf("%s answer %u", all->prompt_count > 1 ? "," : "==>", branch + 1);
            if (all->prompt_count > 1 || all->branch_count > 1) puts(" <==");
            fwrite(made->text, 1, made->bytes, stdout);
            putchar('\n');
        }
    }
}

/* What it took, in one line on standard error. */
static void write_figures(const completion *all)
{
    uint64_t prompt_tokens = 0, cached_tokens = 0, output = 0;
    double first_s = 0.0, last_s = 0.0;
    for (size_t i = 0; i < all->prompt_count; i++) {
        const prompt *asked = &all->prompts[i];
        prompt_tokens += asked->tokens.count;
        cached_tokens += asked->cached_tokens;
        output += (uint64_t)output_tokens(all, asked);
        if (i == 0 || asked->first_s < first_s) first_s = asked->first_s;
        if (asked->last_s > last_s) last_s = asked->last_s;
    }
    double decode_s = last_s - first_s;
    fprintf(stderr, "[%s prompt tokens, %s cached; first token after %.0f ms; %s tokens, %.1f tokens/s]\n",
            icp_say_count(prompt_tokens), icp_say_count(cached_tokens), (first_s - all->prompts[0].submitted_s) * 1e3,
            icp_say_count(output),
            decode_s > 0.0 ? (double)(output - all->prompt_count * all->branch_count) / decode_s : 0.0);
}

static void completion_close(completion *all)
{
    for (size_t i = 0; i < all->prompt_count; i++) {
        prompt *asked = &all->prompts[i];
        for (uint32_t branch = 0; asked->answers != NULL && branch < all->branch_count; branch++) {
            answer *made = &asked->answers[branch];
            if (made->stream != NULL) fclose(made->stream);
            json_decref(made->tokens);
            json_decref(made->logprobs);
            free(made->text);
            free(made->stop_text);
        }
        free(asked->answers);
        free(asked->tokens.ids);
    }
    free(all->prompts);
    icp_runner_close(&all->runner);
}

int icp_complete_run(const icp_arguments *arguments)
{
    completion all = {.arguments = arguments};
    all.is_json = icp_arguments_flag(arguments, ICP_OPTION_JSON);
    all.is_raw = icp_arguments_flag(arguments, ICP_OPTION_RAW);
    all.branch_count = (uint32_t)icp_arguments_count(arguments, ICP_OPTION_N);
    all.is_streamed = !all.is_json && all.branch_count == 1 && !icp_arguments_is_given(arguments, ICP_OPTION_BATCH);
    if (icp_arguments_is_given(arguments, ICP_OPTION_LOGPROBS) && !all.is_json)
        return icp_say_usage("--logprobs are shown with --json only: add it");

    int result = icp_runner_open(&all.runner, arguments);
    if (result == ICP_EXIT_OK) result = icp_recipe_read(&all.recipe, &all.runner, arguments);
    if (result == ICP_EXIT_OK) result = read_prompts(&all);
    if (result == ICP_EXIT_OK) result = submit_all(&all);
    if (result == ICP_EXIT_OK) {
        for (size_t i = 0; i < all.prompt_count; i++) {
            for (uint32_t branch = 0; branch < all.branch_count; branch++)
                fflush(all.prompts[i].answers[branch].stream);
        }
        if (all.is_json)
            result = write_json(&all);
        else if (all.is_streamed)
            putchar('\n');
        else
            write_text(&all);
        fflush(stdout);
        if (!all.runner.is_quiet && !all.is_json) write_figures(&all);
    }
    completion_close(&all);
    return result;
}
