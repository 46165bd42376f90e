/* transformer_layer.h - a transformer and its adapters in memory: what loading fills and the pass reads.
 *
 * For transformer_load.c, transformer.c and adapter.c alone. All that is pointed to is the backend's, but for the
 * arrays of layers, pairs and runs. */
#ifndef ICP_MODEL_TRANSFORMER_LAYER_H
#define ICP_MODEL_TRANSFORMER_LAYER_H

#include "model/transformer_part.h"

typedef struct icp_layer {
    icp_weight *matrices[ICP_MATRIX_COUNT];
    float *vectors[ICP_LAYER_PART_COUNT]; /* biases and norms, by part; NULL where the model has none */
} icp_layer;

/* The rows of the sequences that follow one another and use the same adapter. */
typedef struct icp_run {
    const icp_adapter *adapter; /* not NULL */
    uint32_t row_start, row_count;
    uint32_t output_start, output_count; /* the same among the output rows */
} icp_run;

struct icp_transformer {
    icp_shape shape;
    icp_backend *backend;
    uint32_t row_count_max;
    uint32_t sequence_count_max;
    uint32_t output_count_max;
    uint64_t bytes;
    uint64_t row_bytes; /* of these */

    icp_weight *embedding; /* [vocabulary, width]; a matrix too where the output is tied to it */
    icp_weight *output;    /* [vocabulary, width]; NULL: tied */
    float *output_bias;    /* [vocabulary] or NULL */
    float *output_norm;    /* [width] */
    icp_rope *ropes[2];    /* by group */
    icp_layer *layers;     /* [layer_count] */

    /* Rows, reused by every layer. */
    float *x;       /* [row_count_max, width], what flows through the layers */
    float *normed;  /* [row_count_max, width], what a layer's parts read, and what they add */
    float *q;       /* [row_count_max, head_count * head_dim] */
    float *k;       /* [row_count_max, kv_head_count * head_dim] */
    float *v;       /* the same */
    float *mixed;   /* [row_count_max, head_count * head_dim], what attention gives */
    float *gate;    /* [row_count_max, hidden_width] */
    float *up;      /* the same */
    float *outputs; /* [output_count_max, width], x of the output rows */
    float *logits;  /* [output_count_max, vocabulary] */

    icp_run *runs; /* [sequence_count_max], of the batch that is computed */
    uint32_t run_count;
    icp_tap_fn *tap;
    void *tap_context;
};

/* What an adapter adds to a matrix: x * a^T * b^T * scale. */
typedef struct icp_pair {
    icp_weight *a; /* [rank, columns]; NULL: nothing */
    icp_weight *b; /* [rows, rank] */
    uint32_t rank, rows, columns;
    float scale;
} icp_pair;

#define ICP_ADAPTER_SHARED_MAX 3u /* matrices that share an input: Q, K and V */

struct icp_adapter {
    icp_transformer *transformer;
    icp_pair *pairs; /* [layer_count * ICP_MATRIX_COUNT], then one for the output matrix */
    uint32_t rank_max;
    float *products; /* [ICP_ADAPTER_SHARED_MAX, row_count_max, rank_max], x * a^T */
};

/* Floats of the backend, counted. NULL: no memory. */
float *icp_transformer_floats(icp_transformer *transformer, uint64_t rows, uint64_t columns);

#endif
