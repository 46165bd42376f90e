/* chat_world.h - rendering chat templates in tests: a template and a case, each text or a file.
 *
 * A case is a JSON object: {"messages": [...], "tools": [...], "variables": {...}, "add_generation_prompt": true,
 * "bos_token": "<s>", "eos_token": "</s>", "now": 1700000000}; all but messages may be left out. */
#ifndef ICP_TESTS_CHAT_WORLD_H
#define ICP_TESTS_CHAT_WORLD_H

#include "model/chat.h"

typedef struct chat_result {
    icp_status status;
    icp_error error;
    icp_chat_text text; /* where status is OK */
} chat_result;

/* The result is to be cleared. */
chat_result chat_render(const char *template_text, size_t bytes, const char *case_text, size_t case_bytes);
chat_result chat_render_text(const char *template_text, const char *case_text); /* both to their 0 */
void chat_result_clear(chat_result *result);

/* The whole file and a 0 after it, or NULL; free() it. */
char *chat_read_file(const char *path, size_t *bytes);

#endif
