/* model_show.c - what is in a model file, as text for people. */
#include "engine/model.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#define ITEMS_SHOWN 6u

/* Text that is cut to its room: at is always within bytes. */
typedef struct cut_text {
    char *text;
    size_t bytes, at;
} cut_text;

static void put(cut_text *out, const char *text, size_t bytes)
{
    for (size_t i = 0; i < bytes && out->at + 1 < out->bytes; i++) {
        unsigned char c = (unsigned char)text[i];
        out->text[out->at++] = (char)(c < 32 || c == 127 ? ' ' : c);
    }
}

static void put_number(cut_text *out, const icp_gguf_pair *pair, uint64_t index)
{
    char number[40];
    double value = icp_gguf_number_at(pair, index);
    const uint8_t *at = pair->data + index * 8;
    uint64_t wide = 0;
    switch (pair->type) {
    case ICP_GGUF_BOOL:
        (void)snprintf(number, sizeof(number), "%s", value != 0 ? "true" : "false");
        break;
    case ICP_GGUF_FLOAT32:
    case ICP_GGUF_FLOAT64:
        (void)snprintf(number, sizeof(number), "%.9g", value);
        break;
    case ICP_GGUF_UINT64: /* more than a double holds */
        for (int i = 7; i >= 0; i--) wide = wide << 8 | at[i];
        (void)snprintf(number, sizeof(number), "%" PRIu64, wide);
        break;
    default:
        (void)snprintf(number, sizeof(number), "%.0f", value);
    }
    put(out, number, strlen(number));
}

static void put_value(cut_text *out, const icp_gguf_pair *pair)
{
    char tail[48];
    size_t cursor = 0;
    icp_gguf_string text;
    if (pair->is_array) put(out, "[", 1);
    for (uint64_t i = 0; i < pair->count && i < ITEMS_SHOWN; i++) {
        if (i != 0) put(out, ", ", 2);
        if (pair->type != ICP_GGUF_STRING)
            put_number(out, pair, i);
        else if (icp_gguf_next_string(pair, &cursor, &text))
            put(out, text.text, text.bytes);
    }
    if (!pair->is_array) return;
    bool is_short = pair->count <= ITEMS_SHOWN;
    (void)snprintf(tail, sizeof(tail), is_short ? "]" : ", ... %" PRIu64 " in all]", pair->count);
    put(out, tail, strlen(tail));
}

icp_status icp_model_pair(const icp_model *model, uint32_t index, char *key, size_t key_bytes, char *value,
                          size_t value_bytes)
{
    if (model == NULL || key == NULL || value == NULL || key_bytes == 0 || value_bytes == 0) return ICP_BAD_ARGUMENT;
    if (index >= icp_gguf_pair_count(model->gguf)) return ICP_NOT_FOUND;
    const icp_gguf_pair *pair = icp_gguf_pair_at(model->gguf, index);
    cut_text key_out = {key, key_bytes, 0};
    cut_text value_out = {value, value_bytes, 0};
    put(&key_out, pair->key.text, pair->key.bytes);
    if (!pair->is_array && pair->type == ICP_GGUF_STRING) {
        icp_gguf_string text = {"", 0};
        char name[256];
        (void)snprintf(name, sizeof(name), "%.*s", (int)(pair->key.bytes < 255 ? pair->key.bytes : 255),
                       pair->key.text);
        if (icp_gguf_text(model->gguf, name, &text)) put(&value_out, text.text, text.bytes);
    } else {
        put_value(&value_out, pair);
    }
    key[key_out.at] = '\0';
    value[value_out.at] = '\0';
    return ICP_OK;
}

icp_status icp_model_tensor_at(const icp_model *model, uint32_t index, icp_model_tensor *tensor)
{
    if (model == NULL || tensor == NULL) return ICP_BAD_ARGUMENT;
    if (index >= icp_gguf_tensor_count(model->gguf)) return ICP_NOT_FOUND;
    const icp_gguf_tensor *from = icp_gguf_tensor_at(model->gguf, index);
    cut_text name = {tensor->name, sizeof(tensor->name), 0};
    put(&name, from->name.text, from->name.bytes);
    tensor->name[name.at] = '\0';
    tensor->type = icp_weight_name(from->type);
    tensor->dimension_count = from->dimension_count;
    for (uint32_t i = 0; i < 4; i++) tensor->shape[i] = from->shape[i];
    tensor->bytes = from->bytes;
    return ICP_OK;
}
