/* model.h - the inside of icp_model, for the engine and its tests. Read only once it is open. */
#ifndef ICP_ENGINE_MODEL_H
#define ICP_ENGINE_MODEL_H

#include "incipit/engine.h"
#include "model/chat.h"
#include "model/tokenizer.h"
#include "model/transformer.h"

struct icp_model {
    icp_gguf *gguf;
    icp_shape shape;
    icp_tokenizer *tokenizer;
    icp_chat_template *chat; /* NULL: chat_status and chat_error say why it cannot be used */
    icp_status chat_status;
    icp_error chat_error;
    char *path;
    char tokenizer_text[64]; /* "gpt2, pre qwen2" */
};

/* A file image in memory, which must outlive the model. */
icp_status icp_model_open_memory(icp_model **out, const void *image, size_t bytes, icp_error *error);

/* builtin.c: the image of the built-in model. */
const void *icp_builtin_image(size_t *bytes);

#endif
