/* transformer_part.h - the tensors that a transformer is made of: one table for all that look at them.
 *
 * shape.c checks a file against it, transformer.c loads by it, adapter.c finds what an adapter changes in it. A part is
 * of every layer ("blk.3.attn_q.weight") or of the model ("output_norm.weight"). A tensor of a file that is no
 * part would change the computation in a way that is not known here, so such files are refused. */
#ifndef ICP_MODEL_TRANSFORMER_PART_H
#define ICP_MODEL_TRANSFORMER_PART_H

#include "model/transformer.h"

typedef enum icp_part {
    /* Matrices of a layer: weights that are multiplied. */
    ICP_PART_Q,
    ICP_PART_K,
    ICP_PART_V,
    ICP_PART_ATTENTION_OUT,
    ICP_PART_GATE,
    ICP_PART_UP,
    ICP_PART_DOWN,
    ICP_MATRIX_COUNT,
    /* Their biases, in the same order. */
    ICP_PART_Q_BIAS = ICP_MATRIX_COUNT,
    ICP_PART_K_BIAS,
    ICP_PART_V_BIAS,
    ICP_PART_ATTENTION_OUT_BIAS,
    ICP_PART_GATE_BIAS,
    ICP_PART_UP_BIAS,
    ICP_PART_DOWN_BIAS,
    /* Norms of a layer. */
    ICP_PART_ATTENTION_NORM,
    ICP_PART_Q_NORM,
    ICP_PART_K_NORM,
    ICP_PART_ATTENTION_POST_NORM,
    ICP_PART_FEED_NORM,
    ICP_PART_FEED_POST_NORM,
    ICP_LAYER_PART_COUNT,
    /* Parts of the model. */
    ICP_PART_EMBEDDING = ICP_LAYER_PART_COUNT,
    ICP_PART_OUTPUT,
    ICP_PART_OUTPUT_BIAS,
    ICP_PART_OUTPUT_NORM,
    ICP_PART_ROPE_FACTORS,
    ICP_PART_COUNT
} icp_part;

#define ICP_PART_NAME_BYTES 72u /* "blk.511.post_attention_norm.weight" and ".lora_a" behind it */

/* The name of its tensor. Returns name. */
const char *icp_part_name(icp_part part, uint32_t layer, char name[ICP_PART_NAME_BYTES]);

/* The part that a tensor's name names, COUNT where it names none. */
icp_part icp_part_find(icp_gguf_string name, uint32_t layer_count, uint32_t *layer);

/* Values of a row of it, and rows; a vector is one row. */
uint64_t icp_part_columns(const icp_shape *shape, icp_part part);
uint64_t icp_part_rows(const icp_shape *shape, icp_part part);

/* Its tensor, of the shape that it must have once icp_shape_read has accepted the file. NULL: the model has none. */
const icp_gguf_tensor *icp_part_tensor(const icp_gguf *gguf, icp_part part, uint32_t layer);

/* Writes a sentence to error, where there is one; returns BAD_ARGUMENT. */
icp_status icp_shape_refuse(icp_error *error, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
