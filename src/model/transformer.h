/* transformer.h - the forward pass of a decoder-only transformer, from a GGUF file, on any backend.
 *
 * One description (icp_shape) covers the architectures that are supported: llama, qwen2, qwen3, gemma3. It is read from
 * the file's metadata and checked against its tensors before a weight is touched; the pass itself is one function
 * that walks the layers and asks the shape what each has.
 *
 *      icp_gguf -> icp_shape (numbers only; cheap)  -> icp_transformer (weights on a backend) -> forward(batch) ->
 *      logits
 *
 * One owner thread, the backend's. */
#ifndef ICP_MODEL_TRANSFORMER_H
#define ICP_MODEL_TRANSFORMER_H

#include "model/gguf.h"

#define ICP_LAYER_COUNT_MAX 512u

/* What kind of KV a layer keeps: layers alike form a group, numbered as the cache's groups are. */
typedef struct icp_shape_group {
    icp_group_kind kind;
    uint32_t window; /* WINDOW: a position sees itself and the window - 1 before it */
    uint32_t layer_count;
    uint32_t kv_head_count;
    uint32_t head_dim;
    double rope_base;
    double rope_scale; /* positions are divided by it; 1: not */
} icp_shape_group;

typedef struct icp_shape_layer {
    uint32_t group;
    uint32_t index; /* within the group */
} icp_shape_layer;

typedef struct icp_shape {
    char architecture[16]; /* "llama", "qwen2", "qwen3", "gemma3" */
    char name[128];        /* general.name */
    char type[32];         /* the weight type that most bytes are of, or general.file_type: "Q4_K_M" */
    uint32_t layer_count;
    uint32_t width;      /* of a row: the embedding length */
    uint32_t head_count; /* query heads */
    uint32_t kv_head_count;
    uint32_t head_dim;
    uint32_t rope_dim;     /* values of a head that are turned */
    uint32_t hidden_width; /* of the feed-forward network */
    uint32_t vocabulary;
    uint32_t context_max; /* tokens that the model was made for */
    uint32_t group_count;
    icp_shape_group groups[2];
    icp_shape_layer layers[ICP_LAYER_COUNT_MAX];
    icp_rope_kind rope_kind;
    icp_gate_kind gate_kind;
    float norm_epsilon;
    float embedding_scale;
    float attention_scale;
    float attention_softcap; /* 0: none */
    float logit_softcap;     /* 0: none */
    bool has_qkv_bias;
    bool has_qk_norm;
    bool has_post_norms; /* a norm after attention and after the feed-forward network, before they are added */
    bool is_tied;        /* the output matrix is the embedding table */
    uint64_t parameter_count;
    uint64_t weight_bytes; /* of the tensors in the file */
} icp_shape;

/* BAD_ARGUMENT: the architecture, a feature or a tensor's shape is not supported: error says which part. */
icp_status icp_shape_read(icp_shape *shape, const icp_gguf *gguf, icp_error *error);

typedef struct icp_transformer icp_transformer;
typedef struct icp_adapter icp_adapter; /* a LoRA adapter, loaded */

/* Told as weights are loaded: done of total bytes. */
typedef void icp_load_fn(void *context, uint64_t bytes_done, uint64_t bytes_total);

typedef struct icp_transformer_options {
    const icp_gguf *gguf; /* must live as long as the transformer */
    icp_backend *backend; /* the caller's; KV is opened by the caller too */
    uint32_t row_count_max;
    uint32_t sequence_count_max;
    uint32_t output_count_max;
    icp_load_fn *progress; /* or NULL */
    void *progress_context;
} icp_transformer_options;

/* Loads the weights. BAD_ARGUMENT: as icp_shape_read. NO_MEMORY. */
icp_status icp_transformer_open(icp_transformer **out, const icp_transformer_options *options, icp_error *error);
void icp_transformer_close(icp_transformer *transformer); /* accepts NULL */
const icp_shape *icp_transformer_shape(const icp_transformer *transformer);
uint64_t icp_transformer_bytes(const icp_transformer *transformer);     /* device memory of weights and rows */
uint64_t icp_transformer_row_bytes(const icp_transformer *transformer); /* of rows alone, logits included */

/* Sees what each layer gives, [row_count, width], as it is computed; layer == layer_count: after the last norm. Of the
 * last layer and after it there are the output rows alone. For tests. */
typedef void icp_tap_fn(void *context, uint32_t layer, const float *rows, uint32_t row_count, uint32_t width);
void icp_transformer_tap(icp_transformer *transformer, icp_tap_fn *fn, void *context);

/* Computes a batch, and gives the logits of its output rows: [output_count, vocabulary], valid until the next forward.
 * adapters: one per sequence, or NULL entries for none; NULL: no sequence has one. What the backend's end says. */
icp_status icp_transformer_forward(icp_transformer *transformer, const icp_batch *batch,
                                   const icp_adapter *const *adapters, const float **logits);

/* A LoRA adapter from a GGUF file (general.type "adapter"), for any of the linear layers. BAD_ARGUMENT: it is for
 * another architecture or its shapes do not fit: error says which tensor. */
icp_status icp_adapter_open(icp_adapter **out, icp_transformer *transformer, const icp_gguf *gguf, icp_error *error);
void icp_adapter_close(icp_adapter *adapter); /* accepts NULL; not while a forward uses it */

#endif
