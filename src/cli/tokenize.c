/* tokenize.c - the verb tokenize: text to tokens, and back. */
#include "cli/runner.h"
#include "cli/say.h"

#include <stdlib.h>
#include <string.h>

#define PIECE_BYTES_MAX 4096u

/* A token's own text. */
static size_t piece_of(const icp_runner *runner, uint32_t token, char piece[PIECE_BYTES_MAX])
{
    size_t bytes = 0;
    icp_status status =
        icp_model_detokenize(runner->model, &token, 1, ICP_TOKENIZE_SPECIAL, piece, PIECE_BYTES_MAX, &bytes);
    return status == ICP_OK ? bytes : 0;
}

static void write_ids(const icp_tokens *tokens)
{
    for (size_t i = 0; i < tokens->count; i++) printf("%s%u", i > 0 ? " " : "", tokens->ids[i]);
    putchar('\n');
}

static void write_table(const icp_runner *runner, const icp_tokens *tokens, size_t bytes)
{
    char piece[PIECE_BYTES_MAX];
    puts("position      id  text");
    for (size_t i = 0; i < tokens->count; i++) {
        size_t length = piece_of(runner, tokens->ids[i], piece);
        printf("%8zu  %6u  \"", i, tokens->ids[i]);
        icp_say_visible(stdout, piece, length);
        puts("\"");
    }
    printf("%s tokens, %s bytes, %.2f bytes a token\n", icp_say_count(tokens->count), icp_say_count(bytes),
           tokens->count > 0 ? (double)bytes / (double)tokens->count : 0.0);
}

static int write_json(const icp_runner *runner, const icp_tokens *tokens, size_t bytes)
{
    char piece[PIECE_BYTES_MAX], hex[2 * PIECE_BYTES_MAX + 1];
    json_t *list = json_array();
    for (size_t i = 0; i < tokens->count; i++) {
        size_t length = piece_of(runner, tokens->ids[i], piece);
        hex[0] = '\0';
        for (size_t b = 0; b < length; b++) snprintf(hex + 2 * b, 3, "%02x", (unsigned char)piece[b]);
        json_array_append_new(list, json_pack("{s:I, s:o, s:s}", "id", (json_int_t)tokens->ids[i], "text",
                                              icp_json_text(piece, length), "bytes", hex));
    }
    return icp_json_write(
        json_pack("{s:I, s:I, s:o}", "count", (json_int_t)tokens->count, "bytes", (json_int_t)bytes, "tokens", list),
        stdout);
}

static int decode(const icp_runner *runner, const icp_arguments *arguments, const char *text)
{
    icp_tokens tokens;
    uint32_t flags = icp_arguments_flag(arguments, ICP_OPTION_SPECIAL) ? ICP_TOKENIZE_SPECIAL : 0;
    int result = icp_runner_numbers(runner, text, &tokens);
    if (result != ICP_EXIT_OK) return result;
    size_t bytes = 0;
    char *out = NULL;
    icp_status status = icp_model_detokenize(runner->model, tokens.ids, tokens.count, flags, NULL, 0, &bytes);
    if (status == ICP_TOO_LONG) {
        out = malloc(bytes);
        status = out == NULL ? ICP_NO_MEMORY
                             : icp_model_detokenize(runner->model, tokens.ids, tokens.count, flags, out, bytes, &bytes);
    }
    free(tokens.ids);
    if (status != ICP_OK) {
        free(out);
        return icp_say_failure("these tokens: %s", icp_status_text(status));
    }
    if (icp_arguments_flag(arguments, ICP_OPTION_JSON)) {
        result = icp_json_write(json_pack("{s:o}", "text", icp_json_text(out != NULL ? out : "", bytes)), stdout);
    } else {
        if (out != NULL) fwrite(out, 1, bytes, stdout);
        if (icp_say_is_terminal(stdout)) putchar('\n');
    }
    free(out);
    return result;
}

static int encode(const icp_runner *runner, const icp_arguments *arguments, const char *text, size_t bytes)
{
    icp_tokens tokens;
    uint32_t flags = 0;
    if (icp_arguments_flag(arguments, ICP_OPTION_SPECIAL)) flags |= ICP_TOKENIZE_SPECIAL;
    if (icp_arguments_flag(arguments, ICP_OPTION_BOS)) flags |= ICP_TOKENIZE_BOS;
    int result = icp_runner_tokenize(runner, text, bytes, flags, &tokens);
    if (result != ICP_EXIT_OK) return result;
    if (icp_arguments_flag(arguments, ICP_OPTION_JSON))
        result = write_json(runner, &tokens, bytes);
    else if (icp_arguments_flag(arguments, ICP_OPTION_IDS))
        write_ids(&tokens);
    else
        write_table(runner, &tokens, bytes);
    free(tokens.ids);
    return result;
}

int icp_tokenize_run(const icp_arguments *arguments)
{
    icp_runner runner;
    char *text = NULL;
    size_t bytes = 0;
    int result = icp_runner_open_model(&runner, arguments);
    if (result == ICP_EXIT_OK) result = icp_text_read(arguments, runner.operand_first, &text, &bytes);
    if (result == ICP_EXIT_OK) {
        if (icp_arguments_flag(arguments, ICP_OPTION_DECODE))
            result = decode(&runner, arguments, text);
        else
            result = encode(&runner, arguments, text, bytes);
    }
    free(text);
    icp_runner_close(&runner);
    return result;
}
