/* sim_model.c - see sim_model.h. */
#include "sim_model.h"

#include "tokenizer_world.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LAYERS 2u
#define WIDTH 2u

static void must(bool is_so, const char *what)
{
    if (is_so) return;
    (void)fprintf(stderr, "sim_model: %s\n", what);
    abort();
}

static void put_float(gguf_make *image, const char *key, float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof(bits));
    gguf_make_pair(image, key, ICP_GGUF_FLOAT32, bits);
}

static void put_vocabulary(gguf_make *image)
{
    char texts[SIM_VOCABULARY][8];
    const char *names[SIM_VOCABULARY];
    int32_t types[SIM_VOCABULARY];
    float scores[SIM_VOCABULARY];
    for (uint32_t i = 0; i < SIM_VOCABULARY; i++) {
        (void)snprintf(texts[i], sizeof(texts[i]), "%c", (char)('A' + i - SIM_FIRST));
        types[i] = ICP_TOKEN_NORMAL;
        scores[i] = -(float)i;
        names[i] = texts[i];
    }
    names[0] = "<unk>";
    names[1] = "<s>";
    names[SIM_EOS] = "</s>";
    names[3] = "\xe2\x96\x81";
    types[0] = ICP_TOKEN_UNKNOWN;
    types[1] = types[SIM_EOS] = ICP_TOKEN_CONTROL;
    image_text(image, "tokenizer.ggml.model", "llama");
    image_texts(image, "tokenizer.ggml.tokens", names, SIM_VOCABULARY);
    image_floats(image, "tokenizer.ggml.scores", scores, SIM_VOCABULARY);
    image_integers(image, "tokenizer.ggml.token_type", types, SIM_VOCABULARY);
    image_number(image, "tokenizer.ggml.bos_token_id", 1);
    image_number(image, "tokenizer.ggml.eos_token_id", SIM_EOS);
    image_number(image, "tokenizer.ggml.unknown_token_id", 0);
}

static void put_size(gguf_make *image, const char *architecture, const char *name, uint32_t value)
{
    char key[96];
    (void)snprintf(key, sizeof(key), "%s.%s", architecture, name);
    image_number(image, key, value);
}

typedef struct tensor_list {
    gguf_make *image;
    uint64_t offset;
} tensor_list;

static void put_tensor(tensor_list *list, const char *name, uint64_t columns, uint64_t rows)
{
    gguf_make_entry entry = {.name = name,
                             .type = ICP_WEIGHT_F32,
                             .dimension_count = rows == 1 ? 1 : 2,
                             .shape = {columns, rows},
                             .offset = list->offset};
    gguf_make_tensor(list->image, &entry);
    list->offset += (columns * rows * sizeof(float) + 31) / 32 * 32;
}

static void put_layer(tensor_list *list, uint32_t layer, bool is_gemma)
{
    static const char *const matrices[] = {"attn_q",   "attn_k", "attn_v",  "attn_output",
                                           "ffn_gate", "ffn_up", "ffn_down"};
    static const char *const norms[] = {"attn_norm",           "ffn_norm",     "attn_q_norm", "attn_k_norm",
                                        "post_attention_norm", "post_ffw_norm"};
    char name[64];
    for (size_t i = 0; i < 7; i++) {
        (void)snprintf(name, sizeof(name), "blk.%u.%s.weight", layer, matrices[i]);
        put_tensor(list, name, WIDTH, WIDTH);
    }
    for (size_t i = 0; i < (is_gemma ? 6 : 2); i++) {
        (void)snprintf(name, sizeof(name), "blk.%u.%s.weight", layer, norms[i]);
        put_tensor(list, name, WIDTH, 1);
    }
}

void sim_model_open(sim_model *self, sim_kind kind, uint32_t window, uint32_t context)
{
    const char *name = kind == SIM_FULL ? "llama" : "gemma3";
    char key[96];
    gguf_make *image = &self->image;
    gguf_make_start(image);
    image_text(image, "general.architecture", name);
    image_text(image, "general.name", "simulation");
    put_size(image, name, "block_count", LAYERS);
    put_size(image, name, "embedding_length", WIDTH);
    put_size(image, name, "feed_forward_length", WIDTH);
    put_size(image, name, "context_length", context);
    put_size(image, name, "attention.head_count", 1);
    put_size(image, name, "attention.head_count_kv", 1);
    put_size(image, name, "attention.key_length", WIDTH);
    put_size(image, name, "attention.value_length", WIDTH);
    (void)snprintf(key, sizeof(key), "%s.attention.layer_norm_rms_epsilon", name);
    put_float(image, key, 1e-5f);
    if (kind != SIM_FULL) {
        put_size(image, name, "attention.sliding_window", window);
        put_size(image, name, "attention.sliding_window_pattern", kind == SIM_WINDOW ? LAYERS + 1 : LAYERS);
    }
    put_vocabulary(image);
    tensor_list list = {.image = image};
    put_tensor(&list, "token_embd.weight", WIDTH, SIM_VOCABULARY);
    put_tensor(&list, "output.weight", WIDTH, SIM_VOCABULARY);
    put_tensor(&list, "output_norm.weight", WIDTH, 1);
    for (uint32_t layer = 0; layer < LAYERS; layer++) put_layer(&list, layer, kind != SIM_FULL);
    gguf_make_data(image, 32, list.offset);
    icp_error error = {""};
    must(icp_model_open_memory(&self->model, image->bytes, image->count, &error) == ICP_OK, error.text);
}

void sim_model_close(sim_model *self)
{
    icp_model_close(self->model);
    gguf_make_stop(&self->image);
}

void sim_adapter_write(const char *path, sim_kind kind, uint32_t number)
{
    gguf_make image;
    gguf_make_start(&image);
    image_text(&image, "general.type", "adapter");
    image_text(&image, "adapter.type", "lora");
    image_text(&image, "general.architecture", kind == SIM_FULL ? "llama" : "gemma3");
    put_float(&image, "adapter.lora.alpha", 1);
    tensor_list list = {.image = &image};
    put_tensor(&list, "blk.0.attn_k.weight.lora_a", WIDTH, WIDTH);
    put_tensor(&list, "blk.0.attn_k.weight.lora_b", WIDTH, WIDTH);
    put_tensor(&list, "blk.1.ffn_down.weight.lora_a", WIDTH, WIDTH);
    put_tensor(&list, "blk.1.ffn_down.weight.lora_b", WIDTH, WIDTH);
    size_t start = image.count;
    gguf_make_data(&image, 32, list.offset);
    for (size_t i = (start + 31) / 32 * 32; i < image.count; i++) image.bytes[i] = (uint8_t)(i + 77 * number);
    FILE *file = fopen(path, "wb");
    must(file != NULL && fwrite(image.bytes, 1, image.count, file) == image.count, "cannot write the adapter");
    must(fclose(file) == 0, "cannot write the adapter");
    gguf_make_stop(&image);
}
