/* chat.c - a conversation as the text of a prompt: JSON to values, the template run, the text and its trusted ranges
 * out.
 *
 * What the template sees is what Hugging Face's apply_chat_template gives it: messages, tools, documents,
 * add_generation_prompt, the special tokens, and the request's own variables. Of these only bos_token and eos_token are
 * trusted; everything that was JSON is data. */
#include "model/chat.h"

#include "model/jinja_eval.h"
#include "model/unicode.h"

#include <jansson.h>
#include <locale.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define JSON_DEPTH_MAX 128u

struct icp_chat_template {
    icp_jinja_arena memory;
    const icp_jinja_node *tree;
};

static icp_status explain(icp_error *error, icp_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static icp_status explain(icp_error *error, icp_status status, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    if (error != NULL) vsnprintf(error->text, sizeof(error->text), format, list);
    va_end(list);
    return status;
}

/* Numbers and dates are written as Python writes them, whatever locale the program has set: this thread works in "C"
 * until locale_leave. */
typedef struct locale_change {
    locale_t plain, before;
} locale_change;

static bool locale_enter(locale_change *change)
{
    change->plain = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    if (change->plain == (locale_t)0) return false;
    change->before = uselocale(change->plain);
    return true;
}

static void locale_leave(const locale_change *change)
{
    uselocale(change->before);
    freelocale(change->plain);
}

/* ---- Templates ------------------------------------------------------------------------------------------- */

static bool is_utf8(const char *text, size_t bytes)
{
    for (size_t at = 0; at < bytes;) {
        uint32_t code = 0, length = icp_utf8_decode((const uint8_t *)text + at, bytes - at, &code);
        if (length == 1 && (uint8_t)text[at] >= 0x80) return false;
        at += length;
    }
    return true;
}

/* A copy with \n for every kind of newline, and without the last one: Jinja leaves it out. */
static char *copy_text(icp_jinja_run *run, const char *text, size_t bytes, size_t *used)
{
    char *copy = icp_jinja_take(run, bytes + 1);
    if (copy == NULL) return NULL;
    *used = 0;
    for (size_t i = 0; i < bytes; i++) {
        bool is_return = text[i] == '\r';
        copy[(*used)++] = is_return ? '\n' : text[i];
        if (is_return && i + 1 < bytes && text[i + 1] == '\n') i++;
    }
    if (*used > 0 && copy[*used - 1] == '\n') (*used)--;
    return copy;
}

icp_status icp_chat_template_open(icp_chat_template **out, const char *text, size_t bytes, icp_error *error)
{
    if (bytes > ICP_CHAT_TEMPLATE_BYTES_MAX) {
        return explain(error, ICP_TOO_LONG, "the chat template is longer than %zu bytes", ICP_CHAT_TEMPLATE_BYTES_MAX);
    }
    if (!is_utf8(text, bytes)) return explain(error, ICP_BAD_ARGUMENT, "the chat template is not valid UTF-8");
    icp_chat_template *chat = calloc(1, sizeof(*chat));
    locale_change change;
    if (chat == NULL || !locale_enter(&change)) {
        free(chat);
        return explain(error, ICP_NO_MEMORY, "no memory for a chat template");
    }
    icp_jinja_run run = {.line = 1, .step_count_max = UINT64_MAX, .text_bytes_max = ICP_CHAT_TEMPLATE_BYTES_MAX};
    run.memory.total_max = ICP_CHAT_MEMORY_BYTES_MAX;
    size_t used = 0;
    const char *copy = copy_text(&run, text, bytes, &used);
    if (copy != NULL) chat->tree = icp_jinja_parse(&run, copy, used);
    locale_leave(&change);
    chat->memory = run.memory;
    if (icp_jinja_is_failed(&run)) {
        icp_chat_template_close(chat);
        return explain(error, run.status, "%s", run.error.text);
    }
    *out = chat;
    return ICP_OK;
}

void icp_chat_template_close(icp_chat_template *chat)
{
    if (chat == NULL) return;
    icp_jinja_arena_close(&chat->memory);
    free(chat);
}

/* ---- JSON to values -------------------------------------------------------------------------------------- */

static icp_jinja_value value_of(icp_jinja_run *run, const json_t *json, uint32_t depth);

static icp_jinja_value value_of_text(icp_jinja_run *run, const char *text, size_t bytes)
{
    char *copy = icp_jinja_take(run, bytes + 1);
    if (copy == NULL) return icp_jinja_undefined(NULL);
    memcpy(copy, text, bytes);
    return icp_jinja_text(run, copy, bytes, false);
}

static icp_jinja_value value_of_object(icp_jinja_run *run, const json_t *json, uint32_t depth)
{
    icp_jinja_dict *dict = icp_jinja_dict_new(run);
    void *at = json_object_iter((json_t *)(uintptr_t)json);
    for (; at != NULL && dict != NULL; at = json_object_iter_next((json_t *)(uintptr_t)json, at)) {
        icp_jinja_value key = value_of_text(run, json_object_iter_key(at), json_object_iter_key_len(at));
        icp_jinja_dict_set(run, dict, key, value_of(run, json_object_iter_value(at), depth));
    }
    if (icp_jinja_is_failed(run)) return icp_jinja_undefined(NULL);
    return (icp_jinja_value){.kind = ICP_JINJA_DICT, .dict = dict};
}

static icp_jinja_value value_of_array(icp_jinja_run *run, const json_t *json, uint32_t depth)
{
    size_t count = json_array_size(json);
    icp_jinja_list *list = icp_jinja_list_new(run, count);
    for (size_t i = 0; i < count && list != NULL; i++) {
        icp_jinja_list_add(run, list, value_of(run, json_array_get(json, i), depth));
    }
    return icp_jinja_of_list(list, ICP_JINJA_LIST);
}

static icp_jinja_value value_of(icp_jinja_run *run, const json_t *json, uint32_t depth)
{
    if (depth > JSON_DEPTH_MAX) icp_jinja_fail(run, "JSON is nested deeper than %u levels", JSON_DEPTH_MAX);
    if (icp_jinja_is_failed(run)) return icp_jinja_undefined(NULL);
    switch (json_typeof(json)) {
    case JSON_OBJECT:
        return value_of_object(run, json, depth + 1);
    case JSON_ARRAY:
        return value_of_array(run, json, depth + 1);
    case JSON_STRING:
        return value_of_text(run, json_string_value(json), json_string_length(json));
    case JSON_INTEGER:
        return icp_jinja_int(json_integer_value(json));
    case JSON_REAL:
        return icp_jinja_float(json_real_value(json));
    case JSON_TRUE:
        return icp_jinja_bool(true);
    case JSON_FALSE:
        return icp_jinja_bool(false);
    default:
        return icp_jinja_none();
    }
}

/* Parses one of the inputs; the value must be of the kind, or none. */
static icp_jinja_value read_json(icp_jinja_run *run, const char *name, const char *text, size_t bytes,
                                 icp_jinja_kind kind)
{
    json_error_t problem;
    if (icp_jinja_is_failed(run)) return icp_jinja_none();
    json_t *json = json_loadb(text, bytes, JSON_ALLOW_NUL | JSON_DECODE_ANY, &problem);
    if (json == NULL) {
        icp_jinja_fail(run, "%s is not valid JSON: line %d: %.100s", name, problem.line, problem.text);
        return icp_jinja_none();
    }
    icp_jinja_value value = value_of(run, json, 0);
    json_decref(json);
    if (value.kind != kind) {
        icp_jinja_fail(run, "%s is not a JSON %s", name, kind == ICP_JINJA_DICT ? "object" : "array");
    }
    return value;
}

/* ---- Rendering ------------------------------------------------------------------------------------------- */

static void set_variable(icp_jinja_run *run, const char *name, icp_jinja_value value)
{
    icp_jinja_dict_set_text(run, &run->globals.names, name, value);
}

static void set_variables(icp_jinja_run *run, const icp_chat_input *input)
{
    set_variable(run, "tools", icp_jinja_none());
    set_variable(run, "documents", icp_jinja_none());
    if (input->variables != NULL) {
        icp_jinja_value more = read_json(run, "variables", input->variables, input->variables_bytes, ICP_JINJA_DICT);
        for (size_t i = 0; !icp_jinja_is_failed(run) && i < more.dict->count; i++) {
            icp_jinja_dict_set(run, &run->globals.names, more.dict->entries[i].key, more.dict->entries[i].value);
        }
    }
    set_variable(run, "messages", read_json(run, "messages", input->messages, input->messages_bytes, ICP_JINJA_LIST));
    if (input->tools != NULL) {
        set_variable(run, "tools", read_json(run, "tools", input->tools, input->tools_bytes, ICP_JINJA_LIST));
    }
    set_variable(run, "add_generation_prompt", icp_jinja_bool(input->is_prompt_added));
    const char *bos = input->bos_text != NULL ? input->bos_text : "";
    const char *eos = input->eos_text != NULL ? input->eos_text : "";
    set_variable(run, "bos_token", icp_jinja_text(run, bos, strlen(bos), true));
    set_variable(run, "eos_token", icp_jinja_text(run, eos, strlen(eos), true));
}

/* The runs of trusted bytes. Counted first, then written. */
static size_t trusted_ranges(const icp_jinja_buffer *buffer, icp_byte_range *ranges)
{
    size_t count = 0;
    for (size_t at = 0; at < buffer->used;) {
        size_t start = at;
        while (at < buffer->used && buffer->trust[at] == buffer->trust[start]) at++;
        if (!buffer->trust[start]) continue;
        if (ranges != NULL) ranges[count] = (icp_byte_range){start, at};
        count++;
    }
    return count;
}

static icp_status give_text(const icp_jinja_buffer *buffer, icp_chat_text *out)
{
    icp_chat_text text = {.bytes = buffer->used, .trusted_count = trusted_ranges(buffer, NULL)};
    text.text = malloc(text.bytes + 1);
    text.trusted = malloc((text.trusted_count + 1) * sizeof(*text.trusted));
    if (text.text == NULL || text.trusted == NULL) {
        icp_chat_text_clear(&text);
        return ICP_NO_MEMORY;
    }
    if (text.bytes > 0) memcpy(text.text, buffer->text, text.bytes);
    text.text[text.bytes] = '\0';
    trusted_ranges(buffer, text.trusted);
    *out = text;
    return ICP_OK;
}

icp_status icp_chat_render(const icp_chat_template *chat, const icp_chat_input *input, icp_chat_text *out,
                           icp_error *error)
{
    if (input->messages == NULL) return explain(error, ICP_BAD_ARGUMENT, "there are no messages");
    bool is_long = input->messages_bytes > ICP_CHAT_INPUT_BYTES_MAX ||
                   (input->tools != NULL && input->tools_bytes > ICP_CHAT_INPUT_BYTES_MAX) ||
                   (input->variables != NULL && input->variables_bytes > ICP_CHAT_INPUT_BYTES_MAX);
    if (is_long) return explain(error, ICP_TOO_LONG, "messages, tools or variables are too long");
    uint64_t steps = input->step_count_max != 0 ? input->step_count_max : ICP_CHAT_STEP_COUNT_MAX;
    icp_jinja_run run = {.step_count_max = steps, .text_bytes_max = ICP_CHAT_OUTPUT_BYTES_MAX, .now = input->now};
    run.memory.total_max = input->memory_bytes_max != 0 ? input->memory_bytes_max : ICP_CHAT_MEMORY_BYTES_MAX;
    icp_jinja_buffer buffer = {0};
    locale_change change;
    if (!locale_enter(&change)) return explain(error, ICP_NO_MEMORY, "no memory for a locale");
    run.out = &buffer;
    run.scope = &run.globals;
    set_variables(&run, input);
    if (!icp_jinja_is_failed(&run)) icp_jinja_execute(&run, chat->tree);
    locale_leave(&change);
    if (!icp_jinja_is_failed(&run)) run.status = give_text(&buffer, out);
    icp_status status = run.status;
    if (status != ICP_OK) explain(error, status, "%s", run.error.text[0] != '\0' ? run.error.text : "no memory");
    icp_jinja_arena_close(&run.memory);
    return status;
}

void icp_chat_text_clear(icp_chat_text *text)
{
    free(text->text);
    free(text->trusted);
    *text = (icp_chat_text){0};
}
