/* fuzz_jinja.c - a libFuzzer target: any bytes as a chat template, and as JSON for it.
 *
 * What comes before the first 0 is the template; what follows is the messages, or a conversation of the target's own
 * where that is not JSON. What must hold: it comes to an end, an error has words, the ranges are in order and merged,
 * and a mark that only a message holds is never trusted. */
#include "model/chat.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The mark is of characters that no template of ASCII text can make: one outside of it, in every case the same. */
#define MARK "\xe4\xb8\xad"

static const char own_messages[] =
    "[{\"role\":\"system\",\"content\":\"" MARK "\"},{\"role\":\"user\",\"content\":\" a" MARK "b \"},"
    "{\"role\":\"assistant\",\"content\":null,\"tool_calls\":[{\"id\":\"1\",\"type\":\"function\","
    "\"function\":{\"name\":\"f" MARK "\",\"arguments\":{\"x\":1,\"y\":[1.5,true,\"" MARK "\"]}}}]},"
    "{\"role\":\"tool\",\"content\":\"" MARK "," MARK "\"}]";
static const char own_tools[] = "[{\"type\":\"function\",\"function\":{\"name\":\"g\",\"parameters\":{}}}]";

static void must(bool claim, const char *what)
{
    if (claim) return;
    fprintf(stderr, "fuzz_jinja: %s\n", what);
    abort();
}

static void check_text(const icp_chat_text *text, bool has_marks)
{
    size_t end = 0;
    for (size_t i = 0; i < text->trusted_count; i++) {
        icp_byte_range range = text->trusted[i];
        must(range.start < range.end && range.end <= text->bytes, "a range is not inside the text");
        must(i == 0 || range.start > end, "ranges overlap, touch, or are not in order");
        end = range.end;
        for (size_t at = range.start; has_marks && at + 3 <= range.end; at++) {
            must(memcmp(text->text + at, MARK, 3) != 0, "text of a message is trusted");
        }
    }
    must(text->text[text->bytes] == '\0', "the text does not end");
}

static void render(const icp_chat_template *chat, const char *messages, size_t bytes, bool has_marks)
{
    icp_chat_text text = {0};
    icp_error error = {{0}};
    icp_chat_input input = {.messages = messages,
                            .messages_bytes = bytes,
                            .tools = own_tools,
                            .tools_bytes = sizeof(own_tools) - 1,
                            .bos_text = "<s>",
                            .eos_text = "</s>",
                            .is_prompt_added = true,
                            .now = 1000000000};
    icp_status status = icp_chat_render(chat, &input, &text, &error);
    if (status == ICP_OK) {
        check_text(&text, has_marks);
    } else {
        must(status == ICP_BAD_ARGUMENT || status == ICP_TOO_LONG || status == ICP_NO_MEMORY, "a status of no meaning");
        must(error.text[0] != '\0', "an error without words");
    }
    icp_chat_text_clear(&text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size > 16384) return 0;
    const char *text = (const char *)data;
    const uint8_t *zero = size > 0 ? memchr(data, 0, size) : NULL;
    size_t bytes = zero == NULL ? size : (size_t)(zero - data);
    icp_chat_template *chat = NULL;
    icp_error error = {{0}};
    icp_status status = icp_chat_template_open(&chat, size > 0 ? text : "", bytes, &error);
    if (status != ICP_OK) {
        must(status != ICP_BAD_ARGUMENT || error.text[0] != '\0', "an error without words");
        return 0;
    }
    bool is_plain = true; /* a template that could write the mark itself says nothing about trust */
    for (size_t i = 0; i < bytes; i++) is_plain = is_plain && data[i] < 0x80 && data[i] != '\\';
    render(chat, own_messages, sizeof(own_messages) - 1, is_plain);
    if (zero != NULL) render(chat, text + bytes + 1, size - bytes - 1, false);
    icp_chat_template_close(chat);
    return 0;
}
