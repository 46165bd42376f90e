/* chat.h - messages to the text of a prompt, by the model's own chat template.
 *
 * The template is Jinja (tokenizer.chat_template of the file), run as Hugging Face runs it by a sandboxed interpreter:
 * no I/O, no names but messages, tools, documents, add_generation_prompt, bos_token, eos_token, the variables of the
 * request, range, dict, namespace, raise_exception and strftime_now; budgets of steps, bytes, memory and depth. An
 * integer that does not fit 64 bits is an error. jinja_eval.h says how it is built.
 *
 * What the template itself writes is trusted and may hold control tokens; what comes from a message is data, and its
 * ranges are kept apart all the way to the tokenizer, so that text of a message can never become a special token. */
#ifndef ICP_MODEL_CHAT_H
#define ICP_MODEL_CHAT_H

#include "model/tokenizer.h"

#define ICP_CHAT_TEMPLATE_BYTES_MAX ((size_t)256 << 10)
#define ICP_CHAT_OUTPUT_BYTES_MAX ((size_t)16 << 20)
#define ICP_CHAT_INPUT_BYTES_MAX ((size_t)32 << 20) /* of messages, of tools, of variables */
#define ICP_CHAT_STEP_COUNT_MAX 4000000u
#define ICP_CHAT_MEMORY_BYTES_MAX ((size_t)256 << 20)

typedef struct icp_chat_template icp_chat_template;

/* Reads a template; the text may be freed afterwards. BAD_ARGUMENT: it is malformed or uses what is not there, error
 * says what and in which line. */
icp_status icp_chat_template_open(icp_chat_template **out, const char *text, size_t bytes, icp_error *error);
void icp_chat_template_close(icp_chat_template *chat);

/* Values for the template: JSON text, so that messages, tools and whatever else a request carries pass through
 * unchanged. */
typedef struct icp_chat_input {
    const char *messages; /* a JSON array of {"role": ..., "content": ...} */
    size_t messages_bytes;
    const char *tools; /* a JSON array, or NULL */
    size_t tools_bytes;
    const char *variables; /* a JSON object of more variables (chat_template_kwargs), or NULL */
    size_t variables_bytes;
    const char *bos_text; /* bos_token and eos_token; "" where there is none */
    const char *eos_text;
    bool is_prompt_added;    /* add_generation_prompt */
    int64_t now;             /* seconds since 1970 (UTC) for strftime_now */
    uint32_t step_count_max; /* budgets of this render; 0: ICP_CHAT_STEP_COUNT_MAX, ICP_CHAT_MEMORY_BYTES_MAX */
    size_t memory_bytes_max;
} icp_chat_input;

typedef struct icp_chat_text {
    char *text; /* free() it */
    size_t bytes;
    icp_byte_range *trusted; /* what the template wrote itself; free() it */
    size_t trusted_count;
} icp_chat_text;

/* BAD_ARGUMENT: malformed JSON, raise_exception (error has its words), or an operation that Jinja refuses too.
 * TOO_LONG: a budget ran out. NO_MEMORY. */
icp_status icp_chat_render(const icp_chat_template *chat, const icp_chat_input *input, icp_chat_text *out,
                           icp_error *error);
void icp_chat_text_clear(icp_chat_text *text);

#endif
