/* shape.c - what a model file says that is in it, as numbers, and whether all of it is understood.
 *
 * Everything in the file is a claim by a stranger. Each number is held against a limit before it is used, so that no
 * product of two of them overflows; then each tensor is held against the numbers. What is not understood is
 * refused, never passed over: a key of the architecture that is not in the table below, a tensor that is no
 * part, an unknown kind of scaling. A model that runs but computes something else would be worse than one that does
 * not run.
 *
 * Facts about files that no key tells, as the programs that write and read them (llama.cpp) have it:
 *   - llama: queries and keys are permuted by the converter, so that pairs (2i, 2i + 1) are turned together.
 *     rope_freqs.weight divides the frequencies (Llama 3). attention.sliding_window is not used: Mistral's files are
 *     run with full attention.
 *   - gemma3: norm weights have the 1 added. Every sixth layer is global where no pattern is given. Layers with a
 *   window
 *     turn by their own base, 10000 by default, without scaling. The 27B model (62 layers) scales scores by
 *     width / head_count in place of head_dim. */
#include "model/gguf_part.h"
#include "model/transformer_part.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* No model comes near; products of two of them fit in 64 bits with room to spare. */
#define WIDTH_MAX (1u << 20)
#define VOCABULARY_MAX (1u << 22)
#define CONTEXT_MAX (1u << 30)
#define HEAD_COUNT_MAX (1u << 14)
#define HEAD_DIM_MAX 4096u
#define KEY_BYTES_MAX 96u
#define NUMBER_MAX 1e12 /* of bases and factors */

#define GEMMA3_27B_LAYER_COUNT 62u
#define GEMMA3_PERIOD_DEFAULT 6u

typedef struct architecture {
    const char *name;
    icp_rope_kind rope_kind;
    icp_gate_kind gate_kind;
    bool has_qk_norm;
    bool has_post_norms;
    bool has_windows;
    bool has_softcaps;
    bool has_rope_factors;
    bool is_embedding_scaled; /* by sqrt(width) */
} architecture;

static const architecture architectures[] = {
    {.name = "llama", .rope_kind = ICP_ROPE_PAIRS, .has_rope_factors = true},
    {.name = "qwen2", .rope_kind = ICP_ROPE_HALVES},
    {.name = "qwen3", .rope_kind = ICP_ROPE_HALVES, .has_qk_norm = true},
    {.name = "gemma3",
     .rope_kind = ICP_ROPE_HALVES,
     .gate_kind = ICP_GATE_GELU,
     .has_qk_norm = true,
     .has_post_norms = true,
     .has_windows = true,
     .has_softcaps = true,
     .is_embedding_scaled = true},
};

/* Keys of an architecture, behind its name. A key that is not here is refused. */
typedef enum key_rule {
    KEY_READ,    /* read below */
    KEY_WINDOW,  /* read where the architecture has windows */
    KEY_SOFTCAP, /* read where the architecture has soft caps */
    KEY_PASSED,  /* says nothing about the computation, or is not used for it in any program */
    KEY_NEUTRAL, /* the computation is ours only if the value is this one */
} key_rule;

static const struct {
    const char *name;
    key_rule rule;
    double neutral;
} keys[] = {
    {"context_length", KEY_READ, 0},
    {"embedding_length", KEY_READ, 0},
    {"block_count", KEY_READ, 0},
    {"feed_forward_length", KEY_READ, 0},
    {"vocab_size", KEY_READ, 0},
    {"attention.head_count", KEY_READ, 0},
    {"attention.head_count_kv", KEY_READ, 0},
    {"attention.key_length", KEY_READ, 0},
    {"attention.value_length", KEY_READ, 0},
    {"attention.layer_norm_rms_epsilon", KEY_READ, 0},
    {"rope.dimension_count", KEY_READ, 0},
    {"rope.freq_base", KEY_READ, 0},
    {"rope.scaling.type", KEY_READ, 0},
    {"rope.scaling.factor", KEY_READ, 0},
    {"rope.scale_linear", KEY_READ, 0}, /* the old name of the factor */
    {"attention.sliding_window", KEY_READ, 0},
    {"attention.sliding_window_pattern", KEY_WINDOW, 0},
    {"rope.freq_base_swa", KEY_WINDOW, 0},
    {"attn_logit_softcapping", KEY_SOFTCAP, 0},
    {"final_logit_softcapping", KEY_SOFTCAP, 0},
    {"rope.scaling.original_context_length", KEY_PASSED, 0},
    {"rope.scaling.finetuned", KEY_PASSED, 0},
    {"tensor_data_layout", KEY_PASSED, 0},
    {"expert_count", KEY_NEUTRAL, 0},
    {"expert_used_count", KEY_NEUTRAL, 0},
    {"attention.causal", KEY_NEUTRAL, 1},
    {"attention.clamp_kqv", KEY_NEUTRAL, 0},
    {"attention.max_alibi_bias", KEY_NEUTRAL, 0},
    {"rope.scaling.attn_factor", KEY_NEUTRAL, 1},
};

/* What a reading is about. */
typedef struct reading {
    const icp_gguf *gguf;
    const architecture *architecture;
    icp_shape *shape;
    icp_error *error;
} reading;

static const char *key_of(const reading *from, const char *name, char key[KEY_BYTES_MAX])
{
    snprintf(key, KEY_BYTES_MAX, "%s.%s", from->architecture->name, name);
    return key;
}

/* ---- Keys ----------------------------------------------------------------------------------------------- */

static icp_status read_architecture(reading *from)
{
    icp_gguf_string text;
    icp_gguf_string type;
    if (icp_gguf_text(from->gguf, "general.type", &type) && !(type.bytes == 5 && memcmp(type.text, "model", 5) == 0)) {
        char quote[ICP_GGUF_QUOTE_BYTES];
        return icp_shape_refuse(from->error, "general.type is %s: this file is no model", icp_gguf_quote(type, quote));
    }
    if (!icp_gguf_text(from->gguf, "general.architecture", &text))
        return icp_shape_refuse(from->error, "general.architecture is missing");
    for (size_t i = 0; i < sizeof(architectures) / sizeof(architectures[0]); i++) {
        const char *name = architectures[i].name;
        if (text.bytes != strlen(name) || memcmp(text.text, name, text.bytes) != 0) continue;
        from->architecture = &architectures[i];
        snprintf(from->shape->architecture, sizeof(from->shape->architecture), "%s", name);
        return ICP_OK;
    }
    char quote[ICP_GGUF_QUOTE_BYTES];
    return icp_shape_refuse(from->error, "the architecture %s is not supported: llama, qwen2, qwen3 and gemma3 are",
                            icp_gguf_quote(text, quote));
}

/* A number of any type, bool included. */
static bool pair_number(const icp_gguf_pair *pair, double *out)
{
    if (pair->is_array || pair->type == ICP_GGUF_STRING) return false;
    *out = icp_gguf_number_at(pair, 0);
    return true;
}

static icp_status check_key(const reading *from, const icp_gguf_pair *pair, icp_gguf_string name)
{
    char quote[ICP_GGUF_QUOTE_BYTES];
    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
        if (name.bytes != strlen(keys[i].name) || memcmp(name.text, keys[i].name, name.bytes) != 0) continue;
        double value = 0;
        switch (keys[i].rule) {
        case KEY_READ:
        case KEY_PASSED:
            return ICP_OK;
        case KEY_WINDOW:
            if (from->architecture->has_windows) return ICP_OK;
            break;
        case KEY_SOFTCAP:
            if (from->architecture->has_softcaps) return ICP_OK;
            break;
        case KEY_NEUTRAL:
            if (pair_number(pair, &value) && value >= keys[i].neutral && value <= keys[i].neutral) return ICP_OK;
            return icp_shape_refuse(from->error, "%s is not %g: that is not supported",
                                    icp_gguf_quote(pair->key, quote), keys[i].neutral);
        }
    }
    return icp_shape_refuse(from->error, "the key %s is not known for this architecture",
                            icp_gguf_quote(pair->key, quote));
}

static icp_status check_keys(const reading *from)
{
    size_t prefix = strlen(from->architecture->name);
    for (uint32_t i = 0; i < icp_gguf_pair_count(from->gguf); i++) {
        const icp_gguf_pair *pair = icp_gguf_pair_at(from->gguf, i);
        if (pair->key.bytes <= prefix || memcmp(pair->key.text, from->architecture->name, prefix) != 0) continue;
        if (pair->key.text[prefix] != '.') continue;
        icp_gguf_string name = {pair->key.text + prefix + 1, pair->key.bytes - prefix - 1};
        icp_status status = check_key(from, pair, name);
        if (status != ICP_OK) return status;
    }
    return ICP_OK;
}

/* A number of 1 to limit; where it is given per layer, the same one in each. *out is what it is without the key; 0: the
 * key must be there. */
static icp_status read_size(const reading *from, const char *name, uint32_t limit, uint32_t *out)
{
    char key[KEY_BYTES_MAX];
    const icp_gguf_pair *pair = icp_gguf_find(from->gguf, key_of(from, name, key));
    if (pair == NULL && *out != 0) return ICP_OK;
    if (pair == NULL) return icp_shape_refuse(from->error, "the key \"%s\" is missing", key);
    uint64_t value = 0;
    if (pair->is_array) {
        if (pair->type == ICP_GGUF_STRING || pair->count == 0 || pair->count > ICP_LAYER_COUNT_MAX)
            return icp_shape_refuse(from->error, "the key \"%s\" is not a number per layer", key);
        double first = icp_gguf_number_at(pair, 0);
        for (uint64_t i = 0; i < pair->count; i++) {
            double item = icp_gguf_number_at(pair, i);
            if (!(item >= first && item <= first))
                return icp_shape_refuse(from->error, "\"%s\" differs between layers: that is not supported", key);
        }
        if (first >= 1 && first <= limit) value = (uint64_t)first;
    } else if (!icp_gguf_uint(from->gguf, key, &value)) {
        return icp_shape_refuse(from->error, "the key \"%s\" is not a whole number", key);
    }
    if (value == 0 || value > limit)
        return icp_shape_refuse(from->error, "\"%s\" is not a number from 1 to %u", key, limit);
    *out = (uint32_t)value;
    return ICP_OK;
}

/* A number from low to high. *out is what it is without the key; NAN: the key must be there. */
static icp_status read_float(const reading *from, const char *name, double low, double high, double *out)
{
    char key[KEY_BYTES_MAX];
    key_of(from, name, key);
    if (icp_gguf_find(from->gguf, key) == NULL) {
        if (isnan(*out)) return icp_shape_refuse(from->error, "the key \"%s\" is missing", key);
        return ICP_OK;
    }
    double value = NAN;
    if (!icp_gguf_float(from->gguf, key, &value) || !(value >= low && value <= high))
        return icp_shape_refuse(from->error, "\"%s\" is not a number from %g to %g", key, low, high);
    *out = value;
    return ICP_OK;
}

/* ---- Sizes ---------------------------------------------------------------------------------------------- */

static icp_status read_heads(const reading *from)
{
    icp_shape *shape = from->shape;
    icp_status status = read_size(from, "attention.head_count", HEAD_COUNT_MAX, &shape->head_count);
    if (status != ICP_OK) return status;
    shape->kv_head_count = shape->head_count;
    status = read_size(from, "attention.head_count_kv", HEAD_COUNT_MAX, &shape->kv_head_count);
    if (status != ICP_OK) return status;
    if (shape->head_count % shape->kv_head_count != 0)
        return icp_shape_refuse(from->error, "%u query heads cannot share %u KV heads evenly", shape->head_count,
                                shape->kv_head_count);

    if (shape->width % shape->head_count == 0) shape->head_dim = shape->width / shape->head_count;
    uint32_t value_dim = shape->head_dim;
    status = read_size(from, "attention.key_length", HEAD_DIM_MAX, &shape->head_dim);
    if (status != ICP_OK) return status;
    status = read_size(from, "attention.value_length", HEAD_DIM_MAX, &value_dim);
    if (status != ICP_OK) return status;
    if (shape->head_dim > HEAD_DIM_MAX || shape->head_dim % 2 != 0 || value_dim != shape->head_dim)
        return icp_shape_refuse(from->error, "heads of %u for keys and %u for values are not supported",
                                shape->head_dim, value_dim);
    shape->rope_dim = shape->head_dim;
    status = read_size(from, "rope.dimension_count", HEAD_DIM_MAX, &shape->rope_dim);
    if (status != ICP_OK) return status;
    if (shape->rope_dim != shape->head_dim) /* as in all models of these architectures */
        return icp_shape_refuse(from->error, "turning %u values of heads of %u is not supported", shape->rope_dim,
                                shape->head_dim);
    if ((uint64_t)shape->head_count * shape->head_dim > WIDTH_MAX)
        return icp_shape_refuse(from->error, "%u heads of %u are too wide", shape->head_count, shape->head_dim);
    return ICP_OK;
}

static icp_status read_sizes(const reading *from)
{
    icp_shape *shape = from->shape;
    icp_status status = read_size(from, "block_count", ICP_LAYER_COUNT_MAX, &shape->layer_count);
    if (status == ICP_OK) status = read_size(from, "embedding_length", WIDTH_MAX, &shape->width);
    if (status == ICP_OK) status = read_size(from, "feed_forward_length", WIDTH_MAX, &shape->hidden_width);
    if (status == ICP_OK) status = read_size(from, "context_length", CONTEXT_MAX, &shape->context_max);
    if (status == ICP_OK) status = read_heads(from);
    double epsilon = NAN;
    if (status == ICP_OK) status = read_float(from, "attention.layer_norm_rms_epsilon", 0, 1, &epsilon);
    shape->norm_epsilon = (float)epsilon;
    return status;
}

/* The embedding table has a row for each token; the vocabulary of the file must agree. */
static icp_status read_vocabulary(const reading *from)
{
    if (icp_gguf_tensor_count(from->gguf) == 0)
        return icp_shape_refuse(from->error, "the file has no weights: it is a vocabulary, not a model that can run");
    const icp_gguf_tensor *embedding = icp_part_tensor(from->gguf, ICP_PART_EMBEDDING, 0);
    if (embedding == NULL) return icp_shape_refuse(from->error, "the tensor token_embd.weight is missing");
    if (embedding->shape[1] > VOCABULARY_MAX)
        return icp_shape_refuse(from->error, "%llu tokens are too many", (unsigned long long)embedding->shape[1]);
    uint64_t count = embedding->shape[1];
    char key[KEY_BYTES_MAX];
    const icp_gguf_pair *tokens = icp_gguf_find(from->gguf, "tokenizer.ggml.tokens");
    if (tokens != NULL) {
        count = tokens->count;
    } else {
        icp_gguf_uint(from->gguf, key_of(from, "vocab_size", key), &count);
    }
    if (count != embedding->shape[1])
        return icp_shape_refuse(from->error, "the vocabulary has %llu tokens, token_embd.weight %llu rows",
                                (unsigned long long)count, (unsigned long long)embedding->shape[1]);
    from->shape->vocabulary = (uint32_t)count;
    return ICP_OK;
}

/* ---- Attention ------------------------------------------------------------------------------------------ */

static icp_status read_rope(const reading *from, double *base, double *scale, double *base_window)
{
    char key[KEY_BYTES_MAX];
    icp_gguf_string type = {"linear", 6};
    key_of(from, "rope.scaling.type", key);
    if (icp_gguf_find(from->gguf, key) != NULL && !icp_gguf_text(from->gguf, key, &type))
        return icp_shape_refuse(from->error, "the key \"%s\" is not a text", key);
    bool is_none = type.bytes == 4 && memcmp(type.text, "none", 4) == 0;
    if (!is_none && !(type.bytes == 6 && memcmp(type.text, "linear", 6) == 0)) {
        char quote[ICP_GGUF_QUOTE_BYTES];
        return icp_shape_refuse(from->error, "rope scaling %s is not supported: none and linear are",
                                icp_gguf_quote(type, quote));
    }
    *base = 10000;
    *scale = 0; /* as in files: not scaled */
    icp_status status = read_float(from, "rope.freq_base", 1, NUMBER_MAX, base);
    if (status == ICP_OK) status = read_float(from, "rope.scale_linear", 0, NUMBER_MAX, scale);
    if (status == ICP_OK) status = read_float(from, "rope.scaling.factor", 0, NUMBER_MAX, scale);
    if (is_none || *scale <= 0) *scale = 1;
    *base_window = 10000;
    if (status == ICP_OK && from->architecture->has_windows)
        status = read_float(from, "rope.freq_base_swa", 1, NUMBER_MAX, base_window);
    return status;
}

static icp_status read_window(const reading *from, uint32_t *window, uint32_t *period)
{
    *window = 0;
    *period = 1; /* every layer is global */
    char key[KEY_BYTES_MAX];
    key_of(from, "attention.sliding_window", key);
    uint64_t tokens = 0;
    if (!from->architecture->has_windows || icp_gguf_find(from->gguf, key) == NULL) return ICP_OK;
    if (!icp_gguf_uint(from->gguf, key, &tokens) || tokens == 1 || tokens > CONTEXT_MAX)
        return icp_shape_refuse(from->error, "\"%s\" is not 0 or a number from 2 to %u", key, CONTEXT_MAX);
    if (tokens == 0) return ICP_OK;
    *window = (uint32_t)tokens;
    *period = GEMMA3_PERIOD_DEFAULT;
    const icp_gguf_pair *pattern = icp_gguf_find(from->gguf, key_of(from, "attention.sliding_window_pattern", key));
    if (pattern != NULL && pattern->is_array)
        return icp_shape_refuse(from->error, "\"%s\" as a list is not supported", key);
    return read_size(from, "attention.sliding_window_pattern", UINT32_MAX, period);
}

/* Gives the layers that keep KV in this way to a new group, where there are any. */
static void add_group(icp_shape *shape, icp_shape_group group, uint32_t period)
{
    group.kv_head_count = shape->kv_head_count;
    group.head_dim = shape->head_dim;
    for (uint32_t i = 0; i < shape->layer_count; i++) {
        bool is_global = i % period == period - 1;
        if (is_global == (group.kind == ICP_GROUP_FULL))
            shape->layers[i] = (icp_shape_layer){shape->group_count, group.layer_count++};
    }
    if (group.layer_count != 0) shape->groups[shape->group_count++] = group;
}

static icp_status read_attention(const reading *from)
{
    icp_shape *shape = from->shape;
    const architecture *is = from->architecture;
    icp_shape_group full = {.kind = ICP_GROUP_FULL};
    icp_shape_group windowed = {.kind = ICP_GROUP_WINDOW, .rope_scale = 1};
    uint32_t period = 1;
    icp_status status = read_rope(from, &full.rope_base, &full.rope_scale, &windowed.rope_base);
    if (status == ICP_OK) status = read_window(from, &windowed.window, &period);
    if (status != ICP_OK) return status;
    add_group(shape, full, period);
    add_group(shape, windowed, period);

    bool is_gemma3_27b = is->has_windows && shape->layer_count == GEMMA3_27B_LAYER_COUNT;
    uint32_t scaled_by = is_gemma3_27b ? shape->width / shape->head_count : shape->head_dim;
    if (scaled_by == 0) return icp_shape_refuse(from->error, "%u heads are more than the width", shape->head_count);
    shape->attention_scale = (float)(1 / sqrt(scaled_by));

    double attention_cap = 0;
    double logit_cap = 0;
    if (is->has_softcaps) {
        status = read_float(from, "attn_logit_softcapping", 0, NUMBER_MAX, &attention_cap);
        if (status == ICP_OK) status = read_float(from, "final_logit_softcapping", 0, NUMBER_MAX, &logit_cap);
    }
    shape->attention_softcap = (float)attention_cap;
    shape->logit_softcap = (float)logit_cap;
    return status;
}

/* ---- Tensors -------------------------------------------------------------------------------------------- */

static bool is_part_known(const reading *from, icp_part part)
{
    switch (part) {
    case ICP_PART_Q_NORM:
    case ICP_PART_K_NORM:
        return from->architecture->has_qk_norm;
    case ICP_PART_ATTENTION_POST_NORM:
    case ICP_PART_FEED_POST_NORM:
        return from->architecture->has_post_norms;
    case ICP_PART_ROPE_FACTORS:
        return from->architecture->has_rope_factors;
    default:
        return part < ICP_PART_COUNT;
    }
}

static bool is_part_optional(icp_part part)
{
    bool is_bias = part >= ICP_PART_Q_BIAS && part <= ICP_PART_DOWN_BIAS;
    return is_bias || part == ICP_PART_OUTPUT || part == ICP_PART_OUTPUT_BIAS || part == ICP_PART_ROPE_FACTORS;
}

/* "[64, 128]" */
static const char *extents_text(const uint64_t *extents, uint32_t count, char text[96])
{
    size_t used = 0;
    for (uint32_t i = 0; i < count; i++) {
        int length = snprintf(text + used, 96 - used, "%s%llu", i == 0 ? "[" : ", ", (unsigned long long)extents[i]);
        used += (size_t)length;
    }
    snprintf(text + used, 96 - used, "]");
    return text;
}

static icp_status check_part(const reading *from, icp_part part, uint32_t layer)
{
    char name[ICP_PART_NAME_BYTES];
    const icp_gguf_tensor *tensor = icp_gguf_find_tensor(from->gguf, icp_part_name(part, layer, name));
    if (tensor == NULL && is_part_optional(part)) return ICP_OK;
    if (tensor == NULL) return icp_shape_refuse(from->error, "the tensor %s is missing", name);
    const uint64_t wanted[2] = {icp_part_columns(from->shape, part), icp_part_rows(from->shape, part)};
    if (tensor->shape[0] == wanted[0] && tensor->shape[1] == wanted[1] && tensor->shape[2] == 1 &&
        tensor->shape[3] == 1)
        return ICP_OK;
    char is_text[96];
    char wanted_text[96];
    return icp_shape_refuse(from->error, "the tensor %s is %s, not %s", name,
                            extents_text(tensor->shape, tensor->dimension_count, is_text),
                            extents_text(wanted, wanted[1] == 1 ? 1 : 2, wanted_text));
}

static icp_status check_tensors(const reading *from)
{
    for (uint32_t part = 0; part < ICP_PART_COUNT; part++) {
        uint32_t layer_count = part < ICP_LAYER_PART_COUNT ? from->shape->layer_count : 1;
        for (uint32_t layer = 0; is_part_known(from, (icp_part)part) && layer < layer_count; layer++) {
            icp_status status = check_part(from, (icp_part)part, layer);
            if (status != ICP_OK) return status;
        }
    }
    for (uint32_t i = 0; i < icp_gguf_tensor_count(from->gguf); i++) {
        const icp_gguf_tensor *tensor = icp_gguf_tensor_at(from->gguf, i);
        uint32_t layer = 0;
        char quote[ICP_GGUF_QUOTE_BYTES];
        if (!is_part_known(from, icp_part_find(tensor->name, from->shape->layer_count, &layer)))
            return icp_shape_refuse(from->error, "the tensor %s is not known for the architecture %s",
                                    icp_gguf_quote(tensor->name, quote), from->architecture->name);
    }
    return ICP_OK;
}

/* ---- Facts for people ----------------------------------------------------------------------------------- */

/* general.file_type, where the weights are of one of the types here; else the type of most bytes. */
static void name_type(const reading *from)
{
    static const char *const file_types[] = {
        [0] = "F32",     [1] = "F16",     [2] = "Q4_0",    [3] = "Q4_1",    [7] = "Q8_0",  [8] = "Q5_0",  [9] = "Q5_1",
        [14] = "Q4_K_S", [15] = "Q4_K_M", [16] = "Q5_K_S", [17] = "Q5_K_M", [18] = "Q6_K", [32] = "BF16",
    };
    uint64_t bytes[ICP_WEIGHT_BF16 + 1] = {0};
    uint32_t most = ICP_WEIGHT_F32;
    for (uint32_t i = 0; i < icp_gguf_tensor_count(from->gguf); i++) {
        const icp_gguf_tensor *tensor = icp_gguf_tensor_at(from->gguf, i);
        bytes[tensor->type] += tensor->bytes;
        if (bytes[tensor->type] > bytes[most]) most = tensor->type;
    }
    const char *name = icp_weight_name((icp_weight_type)most);
    uint64_t number = 0;
    bool is_told = icp_gguf_uint(from->gguf, "general.file_type", &number);
    if (is_told && number < sizeof(file_types) / sizeof(file_types[0]) && file_types[number] != NULL)
        name = file_types[number];
    snprintf(from->shape->type, sizeof(from->shape->type), "%s", name);
}

static void read_facts(const reading *from)
{
    icp_shape *shape = from->shape;
    icp_gguf_string name = {shape->architecture, strlen(shape->architecture)};
    icp_gguf_text(from->gguf, "general.name", &name);
    size_t bytes = name.bytes < sizeof(shape->name) ? name.bytes : sizeof(shape->name) - 1;
    memcpy(shape->name, name.text, bytes);
    while (bytes != 0 && bytes < name.bytes && ((uint8_t)name.text[bytes] & 0xc0u) == 0x80u) bytes--;
    shape->name[bytes] = '\0'; /* no character is cut in two */
    name_type(from);
    for (uint32_t i = 0; i < icp_gguf_tensor_count(from->gguf); i++) {
        const icp_gguf_tensor *tensor = icp_gguf_tensor_at(from->gguf, i);
        shape->parameter_count += tensor->shape[0] * tensor->shape[1]; /* all are parts, of the shape of parts */
        shape->weight_bytes += tensor->bytes;
    }
}

icp_status icp_shape_read(icp_shape *out, const icp_gguf *gguf, icp_error *error)
{
    icp_shape shape = {.group_count = 0};
    reading from = {.gguf = gguf, .shape = &shape, .error = error};
    icp_status status = read_architecture(&from);
    if (status == ICP_OK) status = check_keys(&from);
    if (status == ICP_OK) status = read_sizes(&from);
    if (status == ICP_OK) status = read_vocabulary(&from);
    if (status == ICP_OK) status = read_attention(&from);
    if (status == ICP_OK) status = check_tensors(&from);
    if (status != ICP_OK) return status;

    shape.rope_kind = from.architecture->rope_kind;
    shape.gate_kind = from.architecture->gate_kind;
    shape.has_qk_norm = from.architecture->has_qk_norm;
    shape.has_post_norms = from.architecture->has_post_norms;
    shape.embedding_scale = from.architecture->is_embedding_scaled ? sqrtf((float)shape.width) : 1.0f;
    shape.has_qkv_bias = icp_part_tensor(gguf, ICP_PART_Q_BIAS, 0) != NULL;
    shape.is_tied = icp_part_tensor(gguf, ICP_PART_OUTPUT, 0) == NULL;
    read_facts(&from);
    *out = shape;
    return ICP_OK;
}
