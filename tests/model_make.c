/* model_make.c - random models as GGUF images, for tests. */
#include "model_make.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ALIGNMENT 32u
#define TENSOR_COUNT_MAX 256u
#define VOCABULARY_MIN 288u

enum { TYPE_UINT32 = 4, TYPE_INT32 = 5, TYPE_FLOAT32 = 6, TYPE_STRING = 8 };

const char *const model_make_architectures[MODEL_MAKE_ARCHITECTURE_COUNT] = {"llama", "qwen2", "qwen3", "gemma3"};
const icp_weight_type model_make_types[MODEL_MAKE_TYPE_COUNT] = {
    ICP_WEIGHT_F32,  ICP_WEIGHT_F16,  ICP_WEIGHT_BF16, ICP_WEIGHT_Q8_0, ICP_WEIGHT_Q4_0, ICP_WEIGHT_Q4_1,
    ICP_WEIGHT_Q5_0, ICP_WEIGHT_Q5_1, ICP_WEIGHT_Q4_K, ICP_WEIGHT_Q5_K, ICP_WEIGHT_Q6_K,
};

/* How the values of a tensor are spread. */
typedef enum fill { FILL_MATRIX, FILL_NORM, FILL_BIAS, FILL_FACTORS } fill;

typedef struct plan_tensor {
    char name[80];
    icp_weight_type type;
    uint32_t columns, rows; /* a vector has 1 row */
    fill fill;
} plan_tensor;

typedef struct plan {
    plan_tensor tensors[TENSOR_COUNT_MAX];
    uint32_t count;
} plan;

/* ---- Numbers ---------------------------------------------------------------------------------------------- */

uint64_t model_make_random(uint64_t *state)
{
    uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

float model_make_random_float(uint64_t *state)
{
    return (float)(int32_t)(model_make_random(state) >> 40) / 8388608.0f - 1.0f; /* 24 bits: exact */
}

static float value_of(fill how, uint32_t columns, uint32_t column, uint64_t *state)
{
    float number = model_make_random_float(state);
    switch (how) {
    case FILL_MATRIX:
        return number * sqrtf(4.0f / (float)columns); /* a product is about as large as what goes in */
    case FILL_NORM:
        return 1 + 0.4f * number;
    case FILL_BIAS:
        return 0.5f * number;
    case FILL_FACTORS:
        return column < columns / 2 ? 1 : 4 + number; /* long waves are made longer, as in Llama 3 */
    }
    abort();
}

/* ---- Tensors ---------------------------------------------------------------------------------------------- */

static plan_tensor *add(plan *to, const char *name, uint32_t columns, uint32_t rows, fill how)
{
    if (to->count == TENSOR_COUNT_MAX) abort();
    plan_tensor *tensor = &to->tensors[to->count++];
    *tensor = (plan_tensor){.columns = columns, .rows = rows, .fill = how};
    snprintf(tensor->name, sizeof(tensor->name), "%s", name);
    return tensor;
}

static void add_to_layer(plan *to, uint32_t layer, const char *name, uint32_t columns, uint32_t rows, fill how)
{
    char whole[80];
    snprintf(whole, sizeof(whole), "blk.%u.%s", layer, name);
    add(to, whole, columns, rows, how);
}

static const struct {
    const char *name;
    char in, out; /* Width, Query heads, Kv heads, Hidden */
} matrices[] = {{"attn_q", 'W', 'Q'},   {"attn_k", 'W', 'K'}, {"attn_v", 'W', 'K'},  {"attn_output", 'Q', 'W'},
                {"ffn_gate", 'W', 'H'}, {"ffn_up", 'W', 'H'}, {"ffn_down", 'H', 'W'}};

static uint32_t length_of(const model_make *options, char which)
{
    switch (which) {
    case 'W':
        return options->width;
    case 'Q':
        return options->head_count * options->head_dim;
    case 'K':
        return options->kv_head_count * options->head_dim;
    default:
        return options->hidden_width;
    }
}

static void plan_layer(plan *to, const model_make *options, uint32_t layer)
{
    bool is_gemma = strcmp(options->architecture, "gemma3") == 0;
    bool has_head_norms = is_gemma || strcmp(options->architecture, "qwen3") == 0;
    bool has_biases = strcmp(options->architecture, "qwen2") == 0 || options->has_all_biases;
    for (uint32_t i = 0; i < sizeof(matrices) / sizeof(matrices[0]); i++) {
        char name[40];
        uint32_t rows = length_of(options, matrices[i].out);
        snprintf(name, sizeof(name), "%s.weight", matrices[i].name);
        add_to_layer(to, layer, name, length_of(options, matrices[i].in), rows, FILL_MATRIX);
        snprintf(name, sizeof(name), "%s.bias", matrices[i].name);
        if (has_biases && (i < 3 || options->has_all_biases)) add_to_layer(to, layer, name, rows, 1, FILL_BIAS);
    }
    add_to_layer(to, layer, "attn_norm.weight", options->width, 1, FILL_NORM);
    add_to_layer(to, layer, "ffn_norm.weight", options->width, 1, FILL_NORM);
    if (has_head_norms) {
        add_to_layer(to, layer, "attn_q_norm.weight", options->head_dim, 1, FILL_NORM);
        add_to_layer(to, layer, "attn_k_norm.weight", options->head_dim, 1, FILL_NORM);
    }
    if (is_gemma) {
        add_to_layer(to, layer, "post_attention_norm.weight", options->width, 1, FILL_NORM);
        add_to_layer(to, layer, "post_ffw_norm.weight", options->width, 1, FILL_NORM);
    }
}

static plan *plan_model(const model_make *options)
{
    plan *to = calloc(1, sizeof(*to));
    if (to == NULL) abort();
    add(to, "token_embd.weight", options->width, options->vocabulary, FILL_MATRIX);
    for (uint32_t i = 0; i < options->layer_count; i++) plan_layer(to, options, i);
    add(to, "output_norm.weight", options->width, 1, FILL_NORM);
    if (options->is_untied) add(to, "output.weight", options->width, options->vocabulary, FILL_MATRIX);
    if (options->has_rope_factors) add(to, "rope_freqs.weight", options->head_dim / 2, 1, FILL_FACTORS);
    for (uint32_t i = 0; i < to->count; i++)
        to->tensors[i].type = to->tensors[i].fill == FILL_MATRIX ? options->type : ICP_WEIGHT_F32;
    return to;
}

/* The table and the data of all tensors; frees the plan. */
static void write_tensors(gguf_make *make, plan *from, uint64_t seed)
{
    uint64_t offset = 0;
    for (uint32_t i = 0; i < from->count; i++) {
        const plan_tensor *tensor = &from->tensors[i];
        gguf_make_tensor(make, &(gguf_make_entry){.name = tensor->name,
                                                  .type = (uint32_t)tensor->type,
                                                  .dimension_count = tensor->rows == 1 ? 1 : 2,
                                                  .shape = {tensor->columns, tensor->rows},
                                                  .offset = offset});
        uint64_t row_bytes =
            (uint64_t)tensor->columns / icp_weight_block_values(tensor->type) * icp_weight_block_bytes(tensor->type);
        offset += (row_bytes * tensor->rows + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    }
    uint64_t state = seed;
    for (uint32_t i = 0; i < from->count; i++) {
        const plan_tensor *tensor = &from->tensors[i];
        float *values = malloc(tensor->columns * sizeof(float));
        uint8_t *bytes = malloc(tensor->columns * sizeof(float) + 256);
        if (values == NULL || bytes == NULL) abort();
        gguf_make_data(make, ALIGNMENT, 0);
        for (uint32_t row = 0; row < tensor->rows; row++) {
            for (uint32_t c = 0; c < tensor->columns; c++)
                values[c] = value_of(tensor->fill, tensor->columns, c, &state);
            gguf_make_bytes(make, bytes, model_make_encode(tensor->type, values, tensor->columns, bytes));
        }
        free(values);
        free(bytes);
    }
    gguf_make_data(make, ALIGNMENT, 0);
    free(from);
}

/* ---- Pairs ------------------------------------------------------------------------------------------------ */

static void put_uint(gguf_make *make, const model_make *options, const char *name, uint32_t value)
{
    char key[80];
    snprintf(key, sizeof(key), "%s.%s", options->architecture, name);
    gguf_make_pair(make, key, TYPE_UINT32, value);
}

static void put_float(gguf_make *make, const model_make *options, const char *name, float value)
{
    char key[80];
    uint32_t bits;
    memcpy(&bits, &value, sizeof(bits));
    snprintf(key, sizeof(key), "%s.%s", options->architecture, name);
    gguf_make_pair(make, key, TYPE_FLOAT32, bits);
}

/* A byte-level vocabulary: the characters that stand for the 256 bytes, filler, the beginning and the end of a text. */
static void write_vocabulary(gguf_make *make, uint32_t count)
{
    gguf_make_text(make, "tokenizer.ggml.model", "gpt2");
    gguf_make_text(make, "tokenizer.ggml.pre", "gpt-2");
    gguf_make_array(make, "tokenizer.ggml.tokens", TYPE_STRING, count);
    uint32_t spare = 256;
    for (uint32_t i = 0; i < count; i++) {
        char text[24];
        bool is_plain = (i >= 33 && i < 127) || (i >= 161 && i < 173) || (i >= 174 && i < 256);
        uint32_t code = is_plain ? i : i < 256 ? spare++ : 0;
        if (i >= 256) {
            snprintf(text, sizeof(text), i == MODEL_MAKE_BOS ? "<s>" : i == MODEL_MAKE_EOS ? "</s>" : "<filler%u>", i);
        } else if (code < 128) {
            snprintf(text, sizeof(text), "%c", (char)code);
        } else {
            snprintf(text, sizeof(text), "%c%c", (char)(0xc0 | code >> 6), (char)(0x80 | (code & 63)));
        }
        gguf_make_string(make, text);
    }
    gguf_make_array(make, "tokenizer.ggml.token_type", TYPE_INT32, count);
    for (uint32_t i = 0; i < count; i++) gguf_make_number(make, i == MODEL_MAKE_BOS || i == MODEL_MAKE_EOS ? 3 : 1, 4);
    gguf_make_array(make, "tokenizer.ggml.merges", TYPE_STRING, 0);
    gguf_make_pair(make, "tokenizer.ggml.bos_token_id", TYPE_UINT32, MODEL_MAKE_BOS);
    gguf_make_pair(make, "tokenizer.ggml.eos_token_id", TYPE_UINT32, MODEL_MAKE_EOS);
}

model_make model_make_of(const char *architecture, icp_weight_type type)
{
    bool is_gemma = strcmp(architecture, "gemma3") == 0;
    bool is_super = icp_weight_block_values(type) == 256;
    return (model_make){
        .architecture = architecture,
        .type = type,
        .seed = 1,
        .layer_count = 2,
        .width = is_super ? 256 : 96,
        .head_count = 4,
        .kv_head_count = 2,
        .head_dim = is_super ? 64 : 32,
        .hidden_width = is_super ? 512 : 160,
        .vocabulary = VOCABULARY_MIN,
        .context = 2048,
        .window = is_gemma ? 24 : 0,
        .window_period = is_gemma ? 2 : 0,
        .is_untied = strcmp(architecture, "qwen2") == 0,
        .has_rope_factors = strcmp(architecture, "llama") == 0,
    };
}

void model_make_write(gguf_make *make, const model_make *options)
{
    if (options->vocabulary < VOCABULARY_MIN) abort();
    gguf_make_start(make);
    gguf_make_text(make, "general.architecture", options->architecture);
    gguf_make_text(make, "general.name", "random");
    put_uint(make, options, "block_count", options->layer_count);
    put_uint(make, options, "context_length", options->context);
    put_uint(make, options, "embedding_length", options->width);
    put_uint(make, options, "feed_forward_length", options->hidden_width);
    put_uint(make, options, "attention.head_count", options->head_count);
    put_uint(make, options, "attention.head_count_kv", options->kv_head_count);
    put_uint(make, options, "attention.key_length", options->head_dim);
    put_uint(make, options, "attention.value_length", options->head_dim);
    put_float(make, options, "attention.layer_norm_rms_epsilon", 1e-5f);
    put_float(make, options, "rope.freq_base", 20000.0f);
    if (options->window != 0) put_uint(make, options, "attention.sliding_window", options->window);
    if (options->window_period != 0)
        put_uint(make, options, "attention.sliding_window_pattern", options->window_period);
    if (options->rope_scale > 0) {
        put_float(make, options, "rope.scaling.factor", options->rope_scale);
        char key[80];
        snprintf(key, sizeof(key), "%s.rope.scaling.type", options->architecture);
        gguf_make_text(make, key, "linear");
    }
    if (options->logit_softcap > 0) put_float(make, options, "final_logit_softcapping", options->logit_softcap);
    if (options->attention_softcap > 0) put_float(make, options, "attn_logit_softcapping", options->attention_softcap);
    if (options->extra != NULL && options->extra->text != NULL) {
        gguf_make_text(make, options->extra->key, options->extra->text);
    } else if (options->extra != NULL) {
        gguf_make_pair(make, options->extra->key, options->extra->type, options->extra->bits);
    }
    write_vocabulary(make, options->vocabulary);
    write_tensors(make, plan_model(options), options->seed);
}

void model_make_adapter(gguf_make *make, const model_make *options, const model_make_lora *lora)
{
    gguf_make_start(make);
    gguf_make_text(make, "general.architecture", options->architecture);
    gguf_make_text(make, "general.type", "adapter");
    gguf_make_text(make, "adapter.type", "lora");
    uint32_t bits;
    memcpy(&bits, &lora->alpha, sizeof(bits));
    gguf_make_pair(make, "adapter.lora.alpha", TYPE_FLOAT32, bits);
    plan *model = plan_model(options);
    plan *to = calloc(1, sizeof(*to));
    if (to == NULL) abort();
    for (uint32_t i = 0; i < model->count; i++) {
        const plan_tensor *tensor = &model->tensors[i];
        bool is_output = strcmp(tensor->name, lora->is_output ? "output.weight" : "") == 0;
        if (tensor->fill != FILL_MATRIX || (strncmp(tensor->name, "blk.", 4) != 0 && !is_output)) continue;
        char name[72];
        snprintf(name, sizeof(name), "%.60s.lora_a", tensor->name);
        add(to, name, tensor->columns, lora->rank, FILL_MATRIX);
        snprintf(name, sizeof(name), "%.60s.lora_b", tensor->name);
        add(to, name, lora->rank, tensor->rows, FILL_MATRIX);
    }
    free(model);
    write_tensors(make, to, lora->seed);
}
