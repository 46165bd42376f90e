/* chat.c - the verb chat: a conversation, turn by turn.
 *
 * The whole conversation is sent each turn, by the model's template; the cache makes that cost the new tokens only, and
 * the line after each answer shows it. Answers go to standard output; the prompt sign and figures to standard error,
 * so that a conversation read from a pipe leaves its answers alone on standard output. */
#include "cli/runner.h"
#include "cli/say.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/select.h>
#include <time.h>
#include <unistd.h>

typedef struct conversation {
    icp_runner runner;
    icp_recipe recipe;
    json_t *messages;
    uint32_t *tokens; /* of the prompt: [the context] */
    bool is_terminal; /* both ends are a person's */
    bool is_over;
    /* Of the answer that is being made. */
    FILE *answer;
    char *text;
    size_t text_bytes;
    double asked_s, first_s, last_s;
    icp_output end;
} conversation;

static void on_interrupt(int number)
{
    (void)number;
    icp_runner_is_interrupted = 1;
}

/* A line about the conversation, not of it. */
static void note(const conversation *talk, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void note(const conversation *talk, const char *format, ...)
{
    va_list values;
    bool is_dim = icp_say_is_terminal(stderr);
    if (talk->runner.is_quiet) return;
    fflush(stdout);
    if (is_dim) fputs("\033[2m", stderr);
    va_start(values, format);
    vfprintf(stderr, format, values);
    va_end(values);
    fputs(is_dim ? "\033[0m\n" : "\n", stderr);
}

/* ---- A turn -------------------------------------------------------------------------------------------------- */

static void take_output(void *context, const icp_output *output)
{
    conversation *talk = context;
    talk->last_s = icp_say_clock();
    if (talk->first_s <= 0.0) talk->first_s = talk->last_s;
    fwrite(output->text, 1, output->text_bytes, talk->answer);
    fwrite(output->text, 1, output->text_bytes, stdout);
    fflush(stdout);
    if (ferror(stdout)) icp_runner_is_interrupted = 1;
    talk->end = *output;
}

static void show_figures(const conversation *talk)
{
    static const char *const ends[ICP_FINISH_COUNT] = {"", "", "; cut: the answer is as long as allowed",
                                                       "; cancelled"};
    const icp_output *end = &talk->end;
    double decode_s = talk->last_s - talk->first_s;
    uint32_t share = end->prompt_tokens > 0 ? end->cached_tokens * 100u / end->prompt_tokens : 0;
    double rate = decode_s > 0.0 && end->output_tokens > 1 ? (end->output_tokens - 1) / decode_s : 0.0;
    note(talk, "[%u prompt tokens, %u cached (%u %%); first token after %.0f ms; %u tokens, %.1f tokens/s%s]",
         end->prompt_tokens, end->cached_tokens, share, (talk->first_s - talk->asked_s) * 1e3, end->output_tokens, rate,
         ends[end->finish]);
}

/* The conversation as tokens. False: it cannot be, and was said. */
static bool make_prompt(conversation *talk, icp_tokens *prompt)
{
    icp_chat chat;
    icp_error error = {""};
    char *text = json_dumps(talk->messages, JSON_COMPACT);
    if (text == NULL) {
        icp_say_failure("there is no memory");
        return false;
    }
    icp_chat_init(&chat);
    chat.messages = text;
    chat.messages_bytes = strlen(text);
    chat.now = (int64_t)time(NULL);
    uint32_t room = talk->runner.stats.context_tokens_max;
    icp_status status = icp_model_chat(talk->runner.model, &chat, talk->tokens, room, &prompt->count, &error);
    free(text);
    prompt->ids = talk->tokens;
    if (status == ICP_TOO_LONG || (status == ICP_OK && prompt->count >= room))
        icp_say_failure("the conversation has %zu tokens, the context %u: /clear begins a new one", prompt->count,
                        room);
    else if (status != ICP_OK)
        icp_say_failure("the chat template: %s", error.text[0] != '\0' ? error.text : icp_status_text(status));
    return status == ICP_OK && prompt->count < room;
}

/* Streams the answer. */
static int answer(conversation *talk, const icp_tokens *prompt)
{
    icp_job job;
    icp_error error = {""};
    int result = icp_recipe_prompt(&talk->recipe, &talk->runner, prompt, "the conversation");
    if (result != ICP_EXIT_OK) return result;
    icp_runner_is_interrupted = 0;
    talk->asked_s = icp_say_clock();
    talk->first_s = 0.0;
    icp_output_init(&talk->end);
    icp_status status = icp_engine_submit(talk->runner.engine, &talk->recipe.submission, &job, &error);
    if (status == ICP_NOT_FOUND)
        return icp_say_failure("there is no adapter %s: load it with --lora", talk->runner.adapter);
    if (status != ICP_OK)
        return icp_say_failure("the request: %s", error.text[0] != '\0' ? error.text : icp_status_text(status));
    result = icp_runner_run(&talk->runner, job, take_output, talk);
    icp_runner_is_interrupted = 0;
    return result;
}

static int take_turn(conversation *talk, const char *line, size_t bytes)
{
    icp_tokens prompt;
    json_t *content = json_stringn(line, bytes);
    if (content == NULL) {
        note(talk, "that line is not UTF-8 text: it was left out");
        return ICP_EXIT_OK;
    }
    json_array_append_new(talk->messages, json_pack("{s:s, s:o}", "role", "user", "content", content));
    size_t asked = json_array_size(talk->messages) - 1;
    if (!make_prompt(talk, &prompt)) {
        json_array_remove(talk->messages, asked);
        return talk->is_terminal ? ICP_EXIT_OK : ICP_EXIT_FAILED;
    }
    talk->answer = open_memstream(&talk->text, &talk->text_bytes);
    if (talk->answer == NULL) return icp_say_failure("there is no memory");
    int result = answer(talk, &prompt);
    fclose(talk->answer);
    putchar('\n');
    fflush(stdout);
    if (ferror(stdout)) talk->is_over = true;
    if (result == ICP_EXIT_OK) {
        show_figures(talk);
        json_array_append_new(talk->messages, json_pack("{s:s, s:o}", "role", "assistant", "content",
                                                        icp_json_text(talk->text, talk->text_bytes)));
    } else {
        json_array_remove(talk->messages, asked);
    }
    free(talk->text);
    return result;
}

/* ---- Commands ------------------------------------------------------------------------------------------------ */

static void set_system(conversation *talk, const char *text)
{
    const char *role = json_string_value(json_object_get(json_array_get(talk->messages, 0), "role"));
    if (role != NULL && strcmp(role, "system") == 0) json_array_remove(talk->messages, 0);
    if (*text == '\0') return;
    json_t *message = json_pack("{s:s, s:o}", "role", "system", "content", icp_json_text(text, strlen(text)));
    json_array_insert_new(talk->messages, 0, message);
}

static void command_help(conversation *talk, const char *rest)
{
    (void)rest;
    note(talk, "/clear         begins a new conversation\n"
               "/system TEXT   sets the system message; without a text, removes it\n"
               "/stats         what the engine did so far\n"
               "/save FILE     writes the conversation as JSON\n"
               "/quit          ends the program, as Ctrl-D does\n"
               "Ctrl-C ends an answer. To begin a line with a slash, write two.");
}

static void command_clear(conversation *talk, const char *rest)
{
    (void)rest;
    const char *role = json_string_value(json_object_get(json_array_get(talk->messages, 0), "role"));
    size_t first = role != NULL && strcmp(role, "system") == 0;
    while (json_array_size(talk->messages) > first) json_array_remove(talk->messages, first);
    note(talk, "a new conversation");
}

static void command_system(conversation *talk, const char *rest)
{
    set_system(talk, rest);
    note(talk, *rest != '\0' ? "the system message is set" : "there is no system message");
}

static void command_stats(conversation *talk, const char *rest)
{
    (void)rest;
    icp_engine_stats stats;
    icp_engine_stats_init(&stats);
    if (icp_engine_statistics(talk->runner.engine, &stats) != ICP_OK) return;
    note(talk, "%s prompt tokens, %s of them cached; %s tokens computed, %s written, in %s steps",
         icp_say_count(stats.prompt_tokens), icp_say_count(stats.cached_tokens), icp_say_count(stats.computed_tokens),
         icp_say_count(stats.output_tokens), icp_say_count(stats.step_count));
}

static void command_save(conversation *talk, const char *rest)
{
    if (*rest == '\0') {
        note(talk, "/save wants the name of a file");
        return;
    }
    if (json_dump_file(talk->messages, rest, JSON_INDENT(2)) != 0)
        note(talk, "%s: %s", rest, strerror(errno));
    else
        note(talk, "saved %zu messages to %s", json_array_size(talk->messages), rest);
}

static void command_quit(conversation *talk, const char *rest)
{
    (void)rest;
    talk->is_over = true;
}

static void run_command(conversation *talk, const char *line)
{
    static const struct {
        const char *name;
        void (*run)(conversation *talk, const char *rest);
    } commands[] = {
        {"help", command_help},   {"clear", command_clear}, {"system", command_system},
        {"stats", command_stats}, {"save", command_save},   {"quit", command_quit},
    };
    size_t length = strcspn(line + 1, " ");
    const char *rest = line + 1 + length;
    while (*rest == ' ') rest++;
    for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++) {
        if (strlen(commands[i].name) != length || memcmp(commands[i].name, line + 1, length) != 0) continue;
        commands[i].run(talk, rest);
        return;
    }
    note(talk, "there is no command %.*s: /help lists them", (int)length + 1, line);
}

/* ---- The loop ------------------------------------------------------------------------------------------------ */

/* Waits until a person has typed a line; false: an interrupt came instead. It is blocked but while waiting, so that
 * none is lost between the prompt sign and the wait. A terminal gives a line at a time: stdin's buffer is empty here.
 * */
static bool wait_for_line(void)
{
    sigset_t interrupt, before;
    fd_set input;
    sigemptyset(&interrupt);
    sigaddset(&interrupt, SIGINT);
    sigprocmask(SIG_BLOCK, &interrupt, &before);
    do {
        FD_ZERO(&input);
        FD_SET(STDIN_FILENO, &input);
    } while (!icp_runner_is_interrupted && pselect(STDIN_FILENO + 1, &input, NULL, NULL, NULL, &before) < 0 &&
             errno == EINTR);
    bool is_interrupted = icp_runner_is_interrupted != 0;
    icp_runner_is_interrupted = 0;
    sigprocmask(SIG_SETMASK, &before, NULL);
    return !is_interrupted;
}

/* The next line without its end; false at the end of input. An interrupt gives an empty line. */
static bool read_line(const conversation *talk, char **line, size_t *room, size_t *bytes)
{
    *bytes = 0;
    if (talk->is_terminal && !talk->runner.is_quiet) fputs("> ", stderr);
    if (talk->is_terminal && !wait_for_line()) {
        note(talk, "\n/quit or Ctrl-D ends the program");
        return true;
    }
    ssize_t length = getline(line, room, stdin);
    if (length < 0) return false;
    while (length > 0 && ((*line)[length - 1] == '\n' || (*line)[length - 1] == '\r')) length--;
    (*line)[length] = '\0';
    *bytes = (size_t)length;
    return true;
}

static int converse(conversation *talk)
{
    char *line = NULL;
    size_t room = 0, bytes;
    int result = ICP_EXIT_OK;
    while (!talk->is_over && result == ICP_EXIT_OK && read_line(talk, &line, &room, &bytes)) {
        if (bytes == 0) continue;
        if (line[0] == '/' && line[1] == '/')
            result = take_turn(talk, line + 1, bytes - 1);
        else if (line[0] == '/')
            run_command(talk, line);
        else
            result = take_turn(talk, line, bytes);
        if (talk->is_terminal && result == ICP_EXIT_FAILED) result = ICP_EXIT_OK; /* said; a person can go on */
    }
    free(line);
    return result;
}

/* Whether the model has a chat template that can be used: otherwise says so, before anybody types. */
static bool can_talk(const icp_runner *runner)
{
    if (runner->facts.has_chat_template) return true;
    icp_chat chat;
    icp_error error = {""};
    size_t count = 0;
    icp_chat_init(&chat);
    (void)!icp_model_chat(runner->model, &chat, NULL, 0, &count, &error);
    icp_say_failure("%s: %s: use 'incipit complete'", runner->facts.path, error.text);
    return false;
}

int icp_chat_run(const icp_arguments *arguments)
{
    conversation talk = {.is_terminal = icp_say_is_terminal(stdin) && icp_say_is_terminal(stderr)};
    int result = icp_runner_open(&talk.runner, arguments);
    if (result == ICP_EXIT_OK && arguments->operand_count > talk.runner.operand_first)
        result = icp_say_usage("chat takes no text: type it, or pipe it into standard input");
    if (result == ICP_EXIT_OK && !can_talk(&talk.runner)) result = ICP_EXIT_FAILED;
    if (result == ICP_EXIT_OK) result = icp_recipe_read(&talk.recipe, &talk.runner, arguments);
    if (result == ICP_EXIT_OK) {
        talk.messages = json_array();
        talk.tokens = calloc(talk.runner.stats.context_tokens_max, sizeof(*talk.tokens));
        if (talk.messages == NULL || talk.tokens == NULL) result = icp_say_failure("there is no memory");
    }
    if (result == ICP_EXIT_OK) {
        struct sigaction action = {.sa_handler = on_interrupt, .sa_flags = SA_RESTART};
        const char *system = icp_arguments_text(arguments, ICP_OPTION_SYSTEM);
        sigaction(SIGINT, &action, NULL);
        if (system != NULL) set_system(&talk, system);
        if (!talk.runner.is_quiet) icp_runner_describe(&talk.runner, stderr);
        note(&talk, "/help lists the commands, Ctrl-D ends.");
        result = converse(&talk);
        if (talk.is_terminal) fputc('\n', stderr);
    }
    json_decref(talk.messages);
    free(talk.tokens);
    icp_runner_close(&talk.runner);
    return result;
}
