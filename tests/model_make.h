/* model_make.h - random models of every architecture and weight type, small, as GGUF images for tests.
 *
 * The same options give the same bytes on every machine. Sizes are odd where they can be (the hidden width is no
 * multiple of the width, heads are wider than the width says, windows end inside a block), so that a mixed-up length
 * shows. The vocabulary is byte-level and valid: text can be encoded, any bytes at all.
 *
 *      model_make options = model_make_of("gemma3", 12);
 *      gguf_make image;
 *      model_make_write(&image, &options);      icp_gguf_open_memory(&gguf, image.bytes, image.count, ...)
 *      gguf_make_stop(&image);
 *
 * Encoders to the quantised types are written from the descriptions of the formats and round in the simplest way. */
#ifndef ICP_TESTS_MODEL_MAKE_H
#define ICP_TESTS_MODEL_MAKE_H

#include "backend/backend.h"
#include "gguf_make.h"

#include <stdbool.h>

#define MODEL_MAKE_ARCHITECTURE_COUNT 4u
#define MODEL_MAKE_TYPE_COUNT 11u
#define MODEL_MAKE_BOS 286u /* the last two tokens */
#define MODEL_MAKE_EOS 287u

extern const char *const model_make_architectures[MODEL_MAKE_ARCHITECTURE_COUNT];
extern const icp_weight_type model_make_types[MODEL_MAKE_TYPE_COUNT];

/* One more pair, whatever it says: a text where there is one, else a number of that GGUF type. */
typedef struct model_make_pair {
    const char *key;
    const char *text;
    uint32_t type;
    uint64_t bits;
} model_make_pair;

typedef struct model_make {
    const char *architecture;
    icp_weight_type type; /* of all matrices; vectors are F32 */
    uint64_t seed;
    uint32_t layer_count;
    uint32_t width;
    uint32_t head_count;
    uint32_t kv_head_count;
    uint32_t head_dim;
    uint32_t hidden_width;
    uint32_t vocabulary; /* at least 288 */
    uint32_t context;
    uint32_t window;        /* gemma3 */
    uint32_t window_period; /* gemma3: every so many layers one is global */
    float rope_scale;       /* 0: no key */
    float logit_softcap;    /* gemma3; 0: no key */
    float attention_softcap;
    bool is_untied;
    bool has_all_biases; /* of every matrix, not of Q, K and V alone; llama */
    bool has_rope_factors;
    const model_make_pair *extra; /* or NULL */
} model_make;

/* Two layers, the sizes that the type allows, what the architecture usually has. */
model_make model_make_of(const char *architecture, icp_weight_type type);

/* A whole image; to be stopped. */
void model_make_write(gguf_make *make, const model_make *options);

/* An adapter for the model: all matrices of all layers and, where is_output is set, the output matrix. F32. */
typedef struct model_make_lora {
    uint32_t rank;
    float alpha;
    uint64_t seed;
    bool is_output;
} model_make_lora;

void model_make_adapter(gguf_make *make, const model_make *options, const model_make_lora *lora);

/* Values as a weight type; count is a multiple of its block. Returns bytes written. */
size_t model_make_encode(icp_weight_type type, const float *values, size_t count, uint8_t *out);

/* Random numbers: any 64 bits; a float in [-1, 1). */
uint64_t model_make_random(uint64_t *state);
float model_make_random_float(uint64_t *state);

#endif
