/* tokenizer_world.h - model files made in memory, with vocabularies small enough to work out by hand. */
#ifndef ICP_TESTS_TOKENIZER_WORLD_H
#define ICP_TESTS_TOKENIZER_WORLD_H

#include "gguf_make.h"
#include "model/tokenizer.h"

/* A GGUF image that grows by one pair with each call. */
typedef gguf_make image_builder;

void image_start(image_builder *image);
void image_text(image_builder *image, const char *key, const char *value);
void image_flag(image_builder *image, const char *key, bool value);
void image_number(image_builder *image, const char *key, uint32_t value);
void image_texts(image_builder *image, const char *key, const char *const *values, size_t count);
void image_integers(image_builder *image, const char *key, const int32_t *values, size_t count);
void image_floats(image_builder *image, const char *key, const float *values, size_t count);
void image_end(image_builder *image); /* gives the memory back */

/* Opens the tokenizer of an image. */
icp_status image_tokenizer(const image_builder *image, icp_tokenizer **out, icp_error *error);

/* 256 byte tokens, so that the id of a byte is TINY_BPE_BYTES + byte, and a few merges, in this order:
 *      h e   l l   he ll   hell o   ' ' w   o r   ' w' or   l d   ' wor' ld   ' ' ' '   '  ' '  '   i m   '|' '>'
 * Then <|im_end|> and <|endoftext|> (control) and <tool> (user defined). */
enum {
    TINY_BPE_BYTES = 0,
    TINY_BPE_HELLO = 259, /* 256 he, 257 ll, 258 hell */
    TINY_BPE_WORLD = 264, /* 260 ' w', 261 or, 262 ' wor', 263 ld */
    TINY_BPE_SPACES2 = 265,
    TINY_BPE_SPACES4,
    TINY_BPE_IM,
    TINY_BPE_CLOSE,
    TINY_BPE_IM_END,
    TINY_BPE_END_OF_TEXT,
    TINY_BPE_TOOL,
    TINY_BPE_COUNT
};

/* <unk> <s> </s>, 256 byte tokens, a space, the letters a to z, and these in falling order of score:
 *      he ll hell hello ' hello' ' w' or ' wor' ld ' world' '  ' </ s>
 * Then <|im_end|> (control) and <tool> (user defined). */
enum {
    TINY_SPM_BYTES = 3,
    TINY_SPM_SPACE = 259,
    TINY_SPM_A = 260,
    TINY_SPM_HE = 286,
    TINY_SPM_HELLO = 289,
    TINY_SPM_SPACE_HELLO = 290,
    TINY_SPM_WORLD = 295,
    TINY_SPM_SPACES2,
    TINY_SPM_SLASH,
    TINY_SPM_CLOSE,
    TINY_SPM_IM_END,
    TINY_SPM_TOOL,
    TINY_SPM_COUNT
};

/* Without their last pairs, so that a test may add its own; and opened. NULL on failure. */
void tiny_bpe_image(image_builder *image, const char *pre);
void tiny_spm_image(image_builder *image);
icp_tokenizer *tiny_bpe_open(const char *pre);
icp_tokenizer *tiny_spm_open(void);

#endif
