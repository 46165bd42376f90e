/* tokenizer_world.c - see tokenizer_world.h. */
#include "tokenizer_world.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void image_start(image_builder *image)
{
    gguf_make_start(image);
    image_text(image, "general.architecture", "llama");
}

void image_text(image_builder *image, const char *key, const char *value)
{
    gguf_make_text(image, key, value);
}

void image_flag(image_builder *image, const char *key, bool value)
{
    gguf_make_pair(image, key, ICP_GGUF_BOOL, value);
}

void image_number(image_builder *image, const char *key, uint32_t value)
{
    gguf_make_pair(image, key, ICP_GGUF_UINT32, value);
}

void image_texts(image_builder *image, const char *key, const char *const *values, size_t count)
{
    gguf_make_array(image, key, ICP_GGUF_STRING, count);
    for (size_t i = 0; i < count; i++) gguf_make_string(image, values[i]);
}

void image_integers(image_builder *image, const char *key, const int32_t *values, size_t count)
{
    gguf_make_array(image, key, ICP_GGUF_INT32, count);
    gguf_make_bytes(image, values, count * sizeof(*values));
}

void image_floats(image_builder *image, const char *key, const float *values, size_t count)
{
    gguf_make_array(image, key, ICP_GGUF_FLOAT32, count);
    gguf_make_bytes(image, values, count * sizeof(*values));
}

void image_end(image_builder *image)
{
    gguf_make_stop(image);
}

icp_status image_tokenizer(const image_builder *image, icp_tokenizer **out, icp_error *error)
{
    icp_gguf *gguf = NULL;
    icp_status status = icp_gguf_open_memory(&gguf, image->bytes, image->count, error);
    if (status != ICP_OK) return status;
    status = icp_tokenizer_open(out, gguf, error);
    icp_gguf_close(gguf);
    return status;
}

/* ---- The two vocabularies -------------------------------------------------------------------------------- */

/* The characters of the bytes in byte-level BPE, worked out as the original does: printable ones are themselves, the
 * others are numbered from U+0100 on. */
static void byte_names(char names[256][4])
{
    unsigned other = 0;
    for (unsigned byte = 0; byte < 256; byte++) {
        bool is_printable = (byte >= '!' && byte <= '~') || (byte >= 0xa1 && byte <= 0xac) || byte >= 0xae;
        unsigned code = is_printable ? byte : 256 + other++;
        char *name = names[byte];
        memset(name, 0, 4);
        if (code < 0x80) {
            name[0] = (char)code;
        } else {
            name[0] = (char)(0xc0 | code >> 6);
            name[1] = (char)(0x80 | (code & 0x3f));
        }
    }
}

#define G "\xc4\xa0" /* a space */

void tiny_bpe_image(image_builder *image, const char *pre)
{
    static const char *const more[] = {"he",    "ll",         "hell",          "hello", G "w",   "or",
                                       G "wor", "ld",         G "world",       G G,     G G G G, "im",
                                       "|>",    "<|im_end|>", "<|endoftext|>", "<tool>"};
    static const char *const merges[] = {"h e", "l l",      "he ll", "hell o",    G " w", "o r", G "w or",
                                         "l d", G "wor ld", G " " G, G G " " G G, "i m",  "| >"};
    char names[256][4];
    const char *tokens[TINY_BPE_COUNT];
    int32_t types[TINY_BPE_COUNT];
    byte_names(names);
    for (size_t i = 0; i < TINY_BPE_COUNT; i++) {
        tokens[i] = i < 256 ? names[i] : more[i - 256];
        types[i] = ICP_TOKEN_NORMAL;
    }
    types[TINY_BPE_IM_END] = types[TINY_BPE_END_OF_TEXT] = ICP_TOKEN_CONTROL;
    types[TINY_BPE_TOOL] = ICP_TOKEN_USER_DEFINED;

    image_start(image);
    image_text(image, "tokenizer.ggml.model", "gpt2");
    image_text(image, "tokenizer.ggml.pre", pre);
    image_texts(image, "tokenizer.ggml.tokens", tokens, TINY_BPE_COUNT);
    image_integers(image, "tokenizer.ggml.token_type", types, TINY_BPE_COUNT);
    image_texts(image, "tokenizer.ggml.merges", merges, sizeof(merges) / sizeof(merges[0]));
    image_number(image, "tokenizer.ggml.bos_token_id", TINY_BPE_END_OF_TEXT);
    image_number(image, "tokenizer.ggml.eos_token_id", TINY_BPE_END_OF_TEXT);
}

#define B "\xe2\x96\x81" /* U+2581, a space */

void tiny_spm_image(image_builder *image)
{
    static const char *const more[] = {"he", "ll",      "hell", "hello", B "hello", B "w",        "or",    B "wor",
                                       "ld", B "world", B B,    "</",    "s>",      "<|im_end|>", "<tool>"};
    char names[TINY_SPM_HE][8];
    const char *tokens[TINY_SPM_COUNT];
    int32_t types[TINY_SPM_COUNT];
    float scores[TINY_SPM_COUNT];
    snprintf(names[0], sizeof(names[0]), "<unk>");
    snprintf(names[1], sizeof(names[1]), "<s>");
    snprintf(names[2], sizeof(names[2]), "</s>");
    for (unsigned i = 0; i < 256; i++) snprintf(names[TINY_SPM_BYTES + i], sizeof(names[0]), "<0x%02X>", i);
    snprintf(names[TINY_SPM_SPACE], sizeof(names[0]), B);
    for (int i = 0; i < 26; i++) snprintf(names[TINY_SPM_A + i], sizeof(names[0]), "%c", 'a' + i);
    for (size_t i = 0; i < TINY_SPM_COUNT; i++) {
        tokens[i] = i < TINY_SPM_HE ? names[i] : more[i - TINY_SPM_HE];
        types[i] = i >= TINY_SPM_BYTES && i < TINY_SPM_SPACE ? ICP_TOKEN_BYTE : ICP_TOKEN_NORMAL;
        scores[i] = i < TINY_SPM_SPACE ? 0.0f : -(float)i;
    }
    types[0] = ICP_TOKEN_UNKNOWN;
    types[1] = types[2] = types[TINY_SPM_IM_END] = ICP_TOKEN_CONTROL;
    types[TINY_SPM_TOOL] = ICP_TOKEN_USER_DEFINED;

    image_start(image);
    image_text(image, "tokenizer.ggml.model", "llama");
    image_texts(image, "tokenizer.ggml.tokens", tokens, TINY_SPM_COUNT);
    image_integers(image, "tokenizer.ggml.token_type", types, TINY_SPM_COUNT);
    image_floats(image, "tokenizer.ggml.scores", scores, TINY_SPM_COUNT);
}

static icp_tokenizer *image_open(image_builder *image)
{
    icp_tokenizer *tokenizer = NULL;
    icp_error error = {""};
    if (image_tokenizer(image, &tokenizer, &error) != ICP_OK) fprintf(stderr, "tokenizer_world: %s\n", error.text);
    image_end(image);
    return tokenizer;
}

icp_tokenizer *tiny_bpe_open(const char *pre)
{
    image_builder image;
    tiny_bpe_image(&image, pre);
    return image_open(&image);
}

icp_tokenizer *tiny_spm_open(void)
{
    image_builder image;
    tiny_spm_image(&image);
    return image_open(&image);
}
