/* model.c - a model file, opened: its metadata, vocabulary and chat template; the weights are mapped and not read.
 *
 * Nothing changes once it is open, so any number of threads may use it. What needs scratch memory (an encoder) makes
 * its own for the call. */
#include "engine/model.h"

#include "backend/cpu_kv.h"

#include <stdio.h>
#include <stdlib.h>

static icp_status fail(icp_error *error, icp_status status, const char *text)
{
    if (error != NULL) (void)snprintf(error->text, sizeof(error->text), "%s", text);
    return status;
}

/* ---- Open ----------------------------------------------------------------------------------------------------- */

/* A model whose template cannot be used can still complete text: the error is told when a chat is asked for. */
static icp_status open_chat(icp_model *model)
{
    icp_gguf_string text;
    if (!icp_gguf_text(model->gguf, "tokenizer.chat_template", &text)) {
        model->chat_status = fail(&model->chat_error, ICP_NOT_FOUND, "the model has no chat template");
        return ICP_OK;
    }
    model->chat_status = icp_chat_template_open(&model->chat, text.text, text.bytes, &model->chat_error);
    return model->chat_status == ICP_NO_MEMORY ? ICP_NO_MEMORY : ICP_OK;
}

static icp_status open_parts(icp_model *model, const char *path, icp_error *error)
{
    icp_status status = icp_shape_read(&model->shape, model->gguf, error);
    if (status == ICP_OK) status = icp_tokenizer_open(&model->tokenizer, model->gguf, error);
    if (status == ICP_OK) status = open_chat(model);
    if (status != ICP_OK) return status;
    const icp_tokenizer_facts *facts = icp_tokenizer_get_facts(model->tokenizer);
    (void)snprintf(model->tokenizer_text, sizeof(model->tokenizer_text), facts->pre[0] != '\0' ? "%s, pre %s" : "%s",
                   facts->model, facts->pre);
    model->path = strdup(path);
    return model->path != NULL ? ICP_OK : ICP_NO_MEMORY;
}

typedef struct model_source {
    const char *path; /* for people, where image is not NULL */
    const void *image;
    size_t bytes;
} model_source;

static icp_status open_source(icp_model **out, const model_source *source, icp_error *error)
{
    icp_model *model = calloc(1, sizeof(*model));
    if (model == NULL) return fail(error, ICP_NO_MEMORY, "there is no memory for a model");
    icp_status status = source->image != NULL ? icp_gguf_open_memory(&model->gguf, source->image, source->bytes, error)
                                              : icp_gguf_open(&model->gguf, source->path, error);
    if (status == ICP_OK) status = open_parts(model, source->path, error);
    if (status != ICP_OK) {
        icp_model_close(model);
        return status;
    }
    *out = model;
    return ICP_OK;
}

icp_status icp_model_open(icp_model **out, const char *path, icp_error *error)
{
    if (out == NULL) return fail(error, ICP_BAD_ARGUMENT, "out is NULL");
    model_source source = {.path = path};
    if (path == NULL) {
        source.path = "built-in";
        source.image = icp_builtin_image(&source.bytes);
    }
    return open_source(out, &source, error);
}

icp_status icp_model_open_memory(icp_model **out, const void *image, size_t bytes, icp_error *error)
{
    return open_source(out, &(model_source){"memory", image, bytes}, error);
}

void icp_model_close(icp_model *model)
{
    if (model == NULL) return;
    icp_chat_template_close(model->chat);
    icp_tokenizer_close(model->tokenizer);
    if (model->gguf != NULL) icp_gguf_close(model->gguf);
    free(model->path);
    free(model);
}

/* ---- Facts ---------------------------------------------------------------------------------------------------- */

icp_status icp_model_get_facts(const icp_model *model, icp_model_facts *facts)
{
    if (model == NULL || facts == NULL || facts->struct_size < sizeof(size_t)) return ICP_BAD_ARGUMENT;
    const icp_shape *shape = &model->shape;
    const icp_tokenizer_facts *tokens = icp_tokenizer_get_facts(model->tokenizer);
    icp_model_facts all = {.struct_size = facts->struct_size,
                           .path = model->path,
                           .name = shape->name,
                           .architecture = shape->architecture,
                           .type = shape->type,
                           .tokenizer = model->tokenizer_text,
                           .file_bytes = icp_gguf_bytes(model->gguf),
                           .weight_bytes = shape->weight_bytes,
                           .parameter_count = shape->parameter_count,
                           .file_version = icp_gguf_version(model->gguf),
                           .layer_count = shape->layer_count,
                           .width = shape->width,
                           .hidden_width = shape->hidden_width,
                           .head_count = shape->head_count,
                           .kv_head_count = shape->kv_head_count,
                           .head_dim = shape->head_dim,
                           .vocabulary = shape->vocabulary,
                           .context_max = shape->context_max,
                           .group_count = shape->group_count,
                           .bos = tokens->bos,
                           .eos = tokens->eos,
                           .has_chat_template = model->chat != NULL};
    for (uint32_t g = 0; g < shape->group_count; g++) {
        const icp_shape_group *group = &shape->groups[g];
        all.groups[g] =
            (icp_model_group){group->kind, group->window, group->layer_count, group->kv_head_count, group->head_dim};
    }
    memcpy(facts, &all, facts->struct_size < sizeof(all) ? facts->struct_size : sizeof(all));
    return ICP_OK;
}

uint64_t icp_model_kv_bytes(const icp_model *model, uint32_t group, icp_kv_format format)
{
    static const icp_kv_type types[] = {
        [ICP_KV_FORMAT_F16] = ICP_KV_F16, [ICP_KV_FORMAT_F32] = ICP_KV_F32, [ICP_KV_FORMAT_Q8_0] = ICP_KV_Q8_0};
    if (model == NULL || group >= model->shape.group_count || (unsigned)format > ICP_KV_FORMAT_Q8_0) return 0;
    const icp_shape_group *from = &model->shape.groups[group];
    icp_kv_options options = {.type = types[format], .block_tokens = ICP_KV_RUN, .group_count = 1};
    options.groups[0] = (icp_kv_group){.block_count = 1,
                                       .layer_count = from->layer_count,
                                       .head_count = from->kv_head_count,
                                       .head_dim = from->head_dim};
    icp_kv_memory memory; /* short heads are padded, and 8-bit ones have scales: as they lie in memory */
    return icp_kv_plan(&memory, &options, 0) ? memory.block_bytes / ICP_KV_RUN : 0;
}

/* ---- Text and tokens ------------------------------------------------------------------------------------------ */

static icp_status encode(const icp_model *model, const icp_encode_input *input, uint32_t *tokens, size_t count_max,
                         size_t *count)
{
    icp_encoder *encoder;
    icp_status status = icp_encoder_open(&encoder, model->tokenizer);
    if (status != ICP_OK) return status;
    status = icp_encoder_encode(encoder, input, tokens, count_max, count);
    icp_encoder_close(encoder);
    return status;
}

icp_status icp_model_tokenize(const icp_model *model, const char *text, size_t bytes, uint32_t flags, uint32_t *tokens,
                              size_t count_max, size_t *count)
{
    if (model == NULL || count == NULL || flags & ~(ICP_TOKENIZE_BOS | ICP_TOKENIZE_SPECIAL)) return ICP_BAD_ARGUMENT;
    icp_encode_input input = {.text = text, .bytes = bytes};
    if (flags & ICP_TOKENIZE_BOS) input.flags |= ICP_ENCODE_ADD_SPECIAL;
    if (flags & ICP_TOKENIZE_SPECIAL) input.flags |= ICP_ENCODE_PARSE_SPECIAL;
    return encode(model, &input, tokens, count_max, count);
}

icp_status icp_model_detokenize(const icp_model *model, const uint32_t *tokens, size_t count, uint32_t flags,
                                char *text, size_t bytes_max, size_t *bytes)
{
    if (model == NULL || bytes == NULL || (tokens == NULL && count != 0) || (text == NULL && bytes_max != 0) ||
        flags & ~ICP_TOKENIZE_SPECIAL)
        return ICP_BAD_ARGUMENT;
    icp_decoder decoder;
    icp_decoder_start(&decoder, model->tokenizer, flags & ICP_TOKENIZE_SPECIAL ? ICP_DECODE_SPECIAL : 0);
    size_t room = icp_decoder_bytes_max(&decoder);
    char *piece = malloc(room);
    if (piece == NULL) return ICP_NO_MEMORY;
    icp_status status = ICP_OK;
    size_t total = 0;
    for (size_t i = 0; i <= count && status == ICP_OK; i++) {
        size_t piece_bytes = 0;
        status = i < count ? icp_decoder_next(&decoder, tokens[i], piece, room, &piece_bytes)
                           : icp_decoder_flush(&decoder, piece, room, &piece_bytes);
        if (status == ICP_OK && total < bytes_max) {
            size_t left = bytes_max - total;
            memcpy(text + total, piece, piece_bytes < left ? piece_bytes : left);
        }
        total += piece_bytes;
    }
    free(piece);
    if (status != ICP_OK) return status;
    *bytes = total;
    return total <= bytes_max ? ICP_OK : ICP_TOO_LONG;
}

/* ---- Conversations -------------------------------------------------------------------------------------------- */

/* The text of a special token, terminated; "" where there is none. free() it. */
static char *token_text(const icp_model *model, uint32_t id)
{
    icp_gguf_string text = {"", 0};
    if (id != ICP_TOKEN_NONE) text = icp_tokenizer_text(model->tokenizer, id);
    return strndup(text.text, text.bytes);
}

static icp_status render(const icp_model *model, const icp_chat *chat, icp_chat_text *out, icp_error *error)
{
    icp_chat known;
    icp_chat_init(&known);
    if (model == NULL || chat == NULL || chat->struct_size < sizeof(size_t))
        return fail(error, ICP_BAD_ARGUMENT, "an argument is NULL, or struct_size was not set");
    memcpy(&known, chat, chat->struct_size < sizeof(known) ? chat->struct_size : sizeof(known));
    if (model->chat == NULL) return fail(error, model->chat_status, model->chat_error.text);
    const icp_tokenizer_facts *facts = icp_tokenizer_get_facts(model->tokenizer);
    char *bos = token_text(model, facts->bos);
    char *eos = token_text(model, facts->eos);
    icp_status status = ICP_NO_MEMORY;
    if (bos != NULL && eos != NULL) {
        icp_chat_input input = {.messages = known.messages,
                                .messages_bytes = known.messages_bytes,
                                .tools = known.tools,
                                .tools_bytes = known.tools_bytes,
                                .variables = known.variables,
                                .variables_bytes = known.variables_bytes,
                                .bos_text = bos,
                                .eos_text = eos,
                                .is_prompt_added = !known.is_prompt_left_out,
                                .now = known.now};
        status = icp_chat_render(model->chat, &input, out, error);
    }
    free(bos);
    free(eos);
    return status;
}

/* True where the template wrote the BOS token itself: then encoding adds none. */
static bool begins_with_bos(const icp_model *model, const icp_chat_text *text)
{
    const icp_tokenizer_facts *facts = icp_tokenizer_get_facts(model->tokenizer);
    if (facts->bos == ICP_TOKEN_NONE) return false;
    icp_gguf_string bos = icp_tokenizer_text(model->tokenizer, facts->bos);
    return bos.bytes != 0 && text->bytes >= bos.bytes && memcmp(text->text, bos.text, bos.bytes) == 0;
}

icp_status icp_model_chat(const icp_model *model, const icp_chat *chat, uint32_t *tokens, size_t count_max,
                          size_t *count, icp_error *error)
{
    if (count == NULL) return fail(error, ICP_BAD_ARGUMENT, "count is NULL");
    icp_chat_text text;
    icp_status status = render(model, chat, &text, error);
    if (status != ICP_OK) return status;
    icp_encode_input input = {.text = text.text,
                              .bytes = text.bytes,
                              .flags = begins_with_bos(model, &text) ? 0 : ICP_ENCODE_ADD_SPECIAL,
                              .trusted = text.trusted,
                              .trusted_count = text.trusted_count};
    status = encode(model, &input, tokens, count_max, count);
    if (status != ICP_OK) fail(error, status, icp_status_text(status));
    icp_chat_text_clear(&text);
    return status;
}

icp_status icp_model_chat_text(const icp_model *model, const icp_chat *chat, char *text, size_t bytes_max,
                               size_t *bytes, icp_error *error)
{
    if (bytes == NULL || (text == NULL && bytes_max != 0)) return fail(error, ICP_BAD_ARGUMENT, "an argument is NULL");
    icp_chat_text whole;
    icp_status status = render(model, chat, &whole, error);
    if (status != ICP_OK) return status;
    if (bytes_max != 0) memcpy(text, whole.text, whole.bytes < bytes_max ? whole.bytes : bytes_max);
    *bytes = whole.bytes;
    icp_chat_text_clear(&whole);
    return ICP_OK;
}
