/* transformer_part.c - the table of the tensors that a transformer is made of. */
#include "model/transformer_part.h"

#include "base/assert.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* Lengths that tensors have. */
typedef enum extent {
    EXTENT_ONE,
    EXTENT_WIDTH,
    EXTENT_QUERY, /* all query heads */
    EXTENT_KV,    /* all KV heads */
    EXTENT_HEAD,
    EXTENT_HIDDEN,
    EXTENT_VOCABULARY,
    EXTENT_FREQUENCIES,
} extent;

typedef struct part_kind {
    const char *name;
    extent columns;
    extent rows;
} part_kind;

static const part_kind kinds[ICP_PART_COUNT] = {
    [ICP_PART_Q] = {"attn_q.weight", EXTENT_WIDTH, EXTENT_QUERY},
    [ICP_PART_K] = {"attn_k.weight", EXTENT_WIDTH, EXTENT_KV},
    [ICP_PART_V] = {"attn_v.weight", EXTENT_WIDTH, EXTENT_KV},
    [ICP_PART_ATTENTION_OUT] = {"attn_output.weight", EXTENT_QUERY, EXTENT_WIDTH},
    [ICP_PART_GATE] = {"ffn_gate.weight", EXTENT_WIDTH, EXTENT_HIDDEN},
    [ICP_PART_UP] = {"ffn_up.weight", EXTENT_WIDTH, EXTENT_HIDDEN},
    [ICP_PART_DOWN] = {"ffn_down.weight", EXTENT_HIDDEN, EXTENT_WIDTH},
    [ICP_PART_Q_BIAS] = {"attn_q.bias", EXTENT_QUERY, EXTENT_ONE},
    [ICP_PART_K_BIAS] = {"attn_k.bias", EXTENT_KV, EXTENT_ONE},
    [ICP_PART_V_BIAS] = {"attn_v.bias", EXTENT_KV, EXTENT_ONE},
    [ICP_PART_ATTENTION_OUT_BIAS] = {"attn_output.bias", EXTENT_WIDTH, EXTENT_ONE},
    [ICP_PART_GATE_BIAS] = {"ffn_gate.bias", EXTENT_HIDDEN, EXTENT_ONE},
    [ICP_PART_UP_BIAS] = {"ffn_up.bias", EXTENT_HIDDEN, EXTENT_ONE},
    [ICP_PART_DOWN_BIAS] = {"ffn_down.bias", EXTENT_WIDTH, EXTENT_ONE},
    [ICP_PART_ATTENTION_NORM] = {"attn_norm.weight", EXTENT_WIDTH, EXTENT_ONE},
    [ICP_PART_Q_NORM] = {"attn_q_norm.weight", EXTENT_HEAD, EXTENT_ONE},
    [ICP_PART_K_NORM] = {"attn_k_norm.weight", EXTENT_HEAD, EXTENT_ONE},
    [ICP_PART_ATTENTION_POST_NORM] = {"post_attention_norm.weight", EXTENT_WIDTH, EXTENT_ONE},
    [ICP_PART_FEED_NORM] = {"ffn_norm.weight", EXTENT_WIDTH, EXTENT_ONE},
    [ICP_PART_FEED_POST_NORM] = {"post_ffw_norm.weight", EXTENT_WIDTH, EXTENT_ONE},
    [ICP_PART_EMBEDDING] = {"token_embd.weight", EXTENT_WIDTH, EXTENT_VOCABULARY},
    [ICP_PART_OUTPUT] = {"output.weight", EXTENT_WIDTH, EXTENT_VOCABULARY},
    [ICP_PART_OUTPUT_BIAS] = {"output.bias", EXTENT_VOCABULARY, EXTENT_ONE},
    [ICP_PART_OUTPUT_NORM] = {"output_norm.weight", EXTENT_WIDTH, EXTENT_ONE},
    [ICP_PART_ROPE_FACTORS] = {"rope_freqs.weight", EXTENT_FREQUENCIES, EXTENT_ONE},
};

static uint64_t extent_of(const icp_shape *shape, extent which)
{
    switch (which) {
    case EXTENT_ONE:
        return 1;
    case EXTENT_WIDTH:
        return shape->width;
    case EXTENT_QUERY:
        return (uint64_t)shape->head_count * shape->head_dim;
    case EXTENT_KV:
        return (uint64_t)shape->kv_head_count * shape->head_dim;
    case EXTENT_HEAD:
        return shape->head_dim;
    case EXTENT_HIDDEN:
        return shape->hidden_width;
    case EXTENT_VOCABULARY:
        return shape->vocabulary;
    case EXTENT_FREQUENCIES:
        return shape->rope_dim / 2;
    }
    return 0;
}

uint64_t icp_part_columns(const icp_shape *shape, icp_part part)
{
    return extent_of(shape, kinds[part].columns);
}

uint64_t icp_part_rows(const icp_shape *shape, icp_part part)
{
    return extent_of(shape, kinds[part].rows);
}

const char *icp_part_name(icp_part part, uint32_t layer, char name[ICP_PART_NAME_BYTES])
{
    ICP_ASSERT(part < ICP_PART_COUNT && layer < ICP_LAYER_COUNT_MAX);
    if (part < ICP_LAYER_PART_COUNT) {
        snprintf(name, ICP_PART_NAME_BYTES, "blk.%u.%s", layer, kinds[part].name);
    } else {
        snprintf(name, ICP_PART_NAME_BYTES, "%s", kinds[part].name);
    }
    return name;
}

const icp_gguf_tensor *icp_part_tensor(const icp_gguf *gguf, icp_part part, uint32_t layer)
{
    char name[ICP_PART_NAME_BYTES];
    return icp_gguf_find_tensor(gguf, icp_part_name(part, layer, name));
}

static bool is_text(icp_gguf_string string, const char *text)
{
    return string.bytes == strlen(text) && memcmp(string.text, text, string.bytes) == 0;
}

icp_part icp_part_find(icp_gguf_string name, uint32_t layer_count, uint32_t *layer)
{
    *layer = 0;
    uint32_t first = ICP_LAYER_PART_COUNT;
    uint32_t end = ICP_PART_COUNT;
    icp_gguf_string rest = name;
    if (name.bytes > 4 && memcmp(name.text, "blk.", 4) == 0) {
        size_t at = 4;
        uint32_t number = 0;
        while (at < name.bytes && name.text[at] >= '0' && name.text[at] <= '9' && number < layer_count)
            number = number * 10 + (uint32_t)(name.text[at++] - '0');
        bool is_plain = at == 5 || (at > 5 && name.text[4] != '0'); /* "blk.03." is another name */
        if (!is_plain || number >= layer_count || at == name.bytes || name.text[at] != '.') return ICP_PART_COUNT;
        *layer = number;
        rest = (icp_gguf_string){name.text + at + 1, name.bytes - at - 1};
        first = 0;
        end = ICP_LAYER_PART_COUNT;
    }
    for (uint32_t part = first; part < end; part++)
        if (is_text(rest, kinds[part].name)) return (icp_part)part;
    return ICP_PART_COUNT;
}

icp_status icp_shape_refuse(icp_error *error, const char *format, ...)
{
    if (error == NULL) return ICP_BAD_ARGUMENT;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(error->text, sizeof(error->text), format, arguments);
    va_end(arguments);
    return ICP_BAD_ARGUMENT;
}
