/* chat_world.c - rendering chat templates in tests. See chat_world.h. */
#include "chat_world.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A member of the case as JSON text of its own; NULL: it has none. */
static char *member_text(const json_t *object, const char *name)
{
    const json_t *member = json_object_get(object, name);
    return member == NULL ? NULL : json_dumps(member, JSON_ENCODE_ANY | JSON_COMPACT | JSON_REAL_PRECISION(17));
}

static size_t length_of(const char *text)
{
    return text == NULL ? 0 : strlen(text);
}

static const char *string_of(const json_t *object, const char *name)
{
    const char *text = json_string_value(json_object_get(object, name));
    return text == NULL ? "" : text;
}

static void render_case(const icp_chat_template *chat, const json_t *object, chat_result *result)
{
    char *messages = member_text(object, "messages");
    char *tools = member_text(object, "tools");
    char *variables = member_text(object, "variables");
    icp_chat_input input = {
        .messages = messages,
        .messages_bytes = length_of(messages),
        .tools = tools,
        .tools_bytes = length_of(tools),
        .variables = variables,
        .variables_bytes = length_of(variables),
        .bos_text = string_of(object, "bos_token"),
        .eos_text = string_of(object, "eos_token"),
        .is_prompt_added = json_is_true(json_object_get(object, "add_generation_prompt")),
        .now = json_integer_value(json_object_get(object, "now")),
    };
    result->status = icp_chat_render(chat, &input, &result->text, &result->error);
    free(messages);
    free(tools);
    free(variables);
}

chat_result chat_render(const char *template_text, size_t bytes, const char *case_text, size_t case_bytes)
{
    chat_result result = {.status = ICP_BAD_ARGUMENT};
    icp_chat_template *chat = NULL;
    json_error_t problem;
    json_t *object = json_loadb(case_text, case_bytes, JSON_ALLOW_NUL, &problem);
    if (object == NULL) {
        snprintf(result.error.text, sizeof(result.error.text), "the case is not JSON: %.150s", problem.text);
        return result;
    }
    result.status = icp_chat_template_open(&chat, template_text, bytes, &result.error);
    if (result.status == ICP_OK) render_case(chat, object, &result);
    icp_chat_template_close(chat);
    json_decref(object);
    return result;
}

chat_result chat_render_text(const char *template_text, const char *case_text)
{
    return chat_render(template_text, strlen(template_text), case_text, strlen(case_text));
}

void chat_result_clear(chat_result *result)
{
    icp_chat_text_clear(&result->text);
}

char *chat_read_file(const char *path, size_t *bytes)
{
    FILE *file = fopen(path, "rb");
    if (file == NULL) return NULL;
    size_t capacity = (size_t)1 << 20;
    char *text = malloc(capacity + 1);
    *bytes = text == NULL ? 0 : fread(text, 1, capacity, file);
    fclose(file);
    if (text != NULL) text[*bytes] = '\0';
    return text;
}
