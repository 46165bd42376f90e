/* backend.h - a device that keeps tensors and runs operations: the CPU here, CUDA beside it, a fake one in tests.
 *
 * The forward pass (model/transformer.c) is written once, against this table of coarse operations. It never looks
 * into device memory: weights, vectors, rows and KV blocks are handles of the backend.
 *
 *      open -> weights, vectors, ropes, kv -> begin(batch) -> operations ... -> end -> view(logits)
 *
 * ROWS. Activations are float rows in device memory: row r of the batch is one token of one sequence. An operation
 * reads and writes whole rows.
 *
 * SAME BITS. What an operation writes to a row depends on that row, the weights, and the KV of its own sequence at its
 * own and earlier positions; and the order of every reduction depends on positions and on the shape of the
 * weights only: never on the number of rows, on the other rows, on the thread count or on who computed the KV. So
 * logits are the same bits whatever the batch, the chunking, a preemption or a cache hit. Every backend keeps this.
 *
 * KV. Blocks hold block_tokens positions of all layers of a group, contiguous, so that copying, reading or writing
 * one (a tail copy, a tier) is one move. What is inside is the backend's affair, but for this: a block read from a
 * backend of the same kind and options may be written to another.
 *
 * Operations return nothing: an error of the device is kept and told by end. One owner thread calls; the backend
 * may use others inside. It has never heard of a request, a lease or a block's name. */
#ifndef ICP_BACKEND_BACKEND_H
#define ICP_BACKEND_BACKEND_H

#include "incipit/cache.h" /* icp_status, icp_error */

#include <stdbool.h>

/* ---- Weights as they lie in a model file ---------------------------------------------------------------- */

/* Numbered as in GGUF; the numbers in between are types that are not supported. */
typedef enum icp_weight_type {
    ICP_WEIGHT_F32 = 0,
    ICP_WEIGHT_F16 = 1,
    ICP_WEIGHT_Q4_0 = 2,
    ICP_WEIGHT_Q4_1 = 3,
    ICP_WEIGHT_Q5_0 = 6,
    ICP_WEIGHT_Q5_1 = 7,
    ICP_WEIGHT_Q8_0 = 8,
    ICP_WEIGHT_Q4_K = 12,
    ICP_WEIGHT_Q5_K = 13,
    ICP_WEIGHT_Q6_K = 14,
    ICP_WEIGHT_BF16 = 30,
} icp_weight_type;

/* "Q4_K", its block (values) and the bytes of one. NULL, 0: not a type that is supported. */
const char *icp_weight_name(icp_weight_type type);
uint32_t icp_weight_block_values(icp_weight_type type);
uint32_t icp_weight_block_bytes(icp_weight_type type);

/* values of any type as floats: count is a multiple of the type's block; data need not be aligned. */
void icp_weight_decode(icp_weight_type type, const void *data, float *values, size_t count);

typedef struct icp_weight_source {
    icp_weight_type type;
    uint32_t rows;    /* outputs */
    uint32_t columns; /* inputs: contiguous in data, a multiple of the type's block */
    const void *data; /* [rows, columns]; must live as long as the weight where is_table is set, else until the call
                         returns; not always aligned */
    bool is_table;    /* rows are looked up by embed; a weight may be a table and a matrix */
    bool is_matrix;   /* it is multiplied by linear */
    bool is_mapped;   /* data is a mapping of a file: its pages may be given back to the system once they are repacked;
                         those that embed looks up come from the file again */
} icp_weight_source;

typedef struct icp_weight icp_weight; /* in the form that the device likes */
typedef struct icp_rope icp_rope;     /* the frequencies of a rotary embedding */

/* ---- The batch: what a step computes, as flat arrays ---------------------------------------------------- */

/* Rows of one sequence: row_count tokens that follow one another, the first at position. */
typedef struct icp_batch_sequence {
    uint32_t row_start;
    uint32_t row_count;
    uint32_t position;                           /* = tokens whose KV is there already */
    const uint32_t *tables[ICP_GROUP_COUNT_MAX]; /* block tables, one per group: [ceil(end / block_tokens)] */
} icp_batch_sequence;

typedef struct icp_batch {
    const uint32_t *tokens;    /* [row_count] */
    const uint32_t *positions; /* [row_count] */
    uint32_t row_count;
    const icp_batch_sequence *sequences; /* by row_start, no gaps. A table may name a block that another sequence of the
                                            same batch fills: KV is stored before it is read, layer by layer */
    uint32_t sequence_count;
    const uint32_t *output_rows; /* [output_count], rising: rows whose logits are wanted */
    uint32_t output_count;
} icp_batch;

/* ---- KV ------------------------------------------------------------------------------------------------- */

typedef enum icp_kv_type { ICP_KV_F16, ICP_KV_F32, ICP_KV_Q8_0, ICP_KV_TYPE_COUNT } icp_kv_type;

typedef struct icp_kv_group {
    uint32_t block_count;
    uint32_t layer_count;
    uint32_t head_count; /* KV heads of one layer */
    uint32_t head_dim;   /* of K and of V */
} icp_kv_group;

typedef struct icp_kv_options {
    icp_kv_type type;
    uint32_t block_tokens;
    uint32_t group_count;
    icp_kv_group groups[ICP_GROUP_COUNT_MAX];
} icp_kv_options;

/* ---- Operations ----------------------------------------------------------------------------------------- */

/* out[r] = table[tokens[r]] * scale, for every row of the batch. */
typedef struct icp_embed {
    const icp_weight *table; /* [vocabulary, width] */
    float scale;
    float *out; /* [rows, width] */
} icp_embed;

/* Root mean square norm, of each of the head_count parts of a row alike: part / sqrt(mean(part^2) + epsilon) * weight.
 * */
typedef struct icp_norm {
    const float *x;      /* [row_count, head_count * width] */
    const float *weight; /* [width], a vector of the backend */
    float *out;          /* may be x */
    uint32_t row_count;
    uint32_t head_count; /* 1 for a norm of the whole row */
    uint32_t width;
    float epsilon;
} icp_norm;

#define ICP_LINEAR_OUTPUTS_MAX 4u

/* out = x * weight^T * scale + bias, or added to what out holds; several weights may share the input. */
typedef struct icp_linear_output {
    const icp_weight *weight; /* [rows, columns] */
    const float *bias;        /* [rows], a vector of the backend, or NULL */
    float *out;               /* [row_count, rows]; not x */
    float scale;
    bool is_added; /* out += */
} icp_linear_output;

typedef struct icp_linear {
    const float *x; /* [row_count, columns] */
    uint32_t row_count;
    uint32_t output_count;
    icp_linear_output outputs[ICP_LINEAR_OUTPUTS_MAX];
} icp_linear;

/* Which values of a head are turned together. */
typedef enum icp_rope_kind {
    ICP_ROPE_PAIRS,  /* 2i and 2i + 1 (GGUF's llama) */
    ICP_ROPE_HALVES, /* i and i + n/2 (NeoX: qwen, gemma) */
} icp_rope_kind;

/* Turns each head of each row of the batch by its position, in place. */
typedef struct icp_rotate {
    const icp_rope *rope;
    float *x; /* [rows, head_count * head_dim] */
    uint32_t head_count;
    uint32_t head_dim; /* the first 2 * frequency_count values of a head are turned */
} icp_rotate;

/* Puts the batch's keys and values where its tables say. */
typedef struct icp_store {
    uint32_t group;
    uint32_t layer; /* within the group */
    const float *k; /* [rows, head_count * head_dim] */
    const float *v;
} icp_store;

/* softmax(q * k^T * scale) * v for every row and head of the batch, over the row's own and earlier positions,
 * the last window of them (0: all). Query heads [i * n, (i + 1) * n) share KV head i. */
typedef struct icp_attend {
    uint32_t group;
    uint32_t layer;
    const float *q; /* [rows, head_count * head_dim] */
    float *out;     /* the same shape; not q */
    uint32_t head_count;
    uint32_t window;
    float scale;
    float softcap; /* scores become softcap * tanh(score / softcap); 0: none */
} icp_attend;

typedef enum icp_gate_kind {
    ICP_GATE_SILU, /* silu(gate) * up */
    ICP_GATE_GELU, /* gelu(gate) * up, the tanh form */
} icp_gate_kind;

typedef struct icp_gate {
    icp_gate_kind kind;
    float *gate;     /* [row_count, width]; the result */
    const float *up; /* the same shape */
    uint32_t row_count;
    uint32_t width;
} icp_gate;

/* out += x. */
typedef struct icp_add {
    float *out;
    const float *x;
    uint32_t row_count;
    uint32_t width;
} icp_add;

/* out[i] = x[output_rows[i]]: the rows whose logits are wanted. */
typedef struct icp_gather {
    const float *x;
    float *out; /* [output_count, width]; not x */
    uint32_t width;
} icp_gather;

/* x = softcap * tanh(x / softcap), in place. */
typedef struct icp_cap {
    float *x; /* [row_count, width] */
    uint32_t row_count;
    uint32_t width;
    float softcap;
} icp_cap;

/* ---- The table ------------------------------------------------------------------------------------------ */

typedef struct icp_backend icp_backend;

typedef struct icp_backend_table {
    const char *name;                    /* "cpu" */
    void (*close)(icp_backend *backend); /* frees all that was not freed */
    /* For people: "aarch64 i8mm, 2 threads". Static text or the backend's. */
    const char *(*describe)(const icp_backend *backend);

    /* What a model is made of. weight_open may copy and repack, on all threads; NO_MEMORY, BAD_ARGUMENT (a shape or
     * type that the device does not do; error says which). */
    icp_status (*weight_open)(icp_backend *backend, const icp_weight_source *source, icp_weight **out,
                              icp_error *error);
    void (*weight_close)(icp_backend *backend, icp_weight *weight);               /* accepts NULL */
    size_t (*weight_bytes)(const icp_backend *backend, const icp_weight *weight); /* device memory that it takes */
    icp_status (*rope_open)(icp_backend *backend, icp_rope_kind kind, const float *frequencies,
                            uint32_t frequency_count, icp_rope **out); /* radians per position */
    void (*rope_close)(icp_backend *backend, icp_rope *rope);
    /* Rows and vectors: float memory of the device, zeroed. write fills it from host memory. NULL: no memory. */
    float *(*floats_open)(icp_backend *backend, size_t count);
    void (*floats_close)(icp_backend *backend, float *floats);
    void (*floats_write)(icp_backend *backend, float *floats, const float *host, size_t count);
    /* Rows as the host can read them, until the next begin. */
    const float *(*floats_view)(icp_backend *backend, const float *floats, size_t count);

    /* KV: opened once, after which blocks can be moved at any time outside begin and end. */
    size_t (*kv_block_bytes)(const icp_backend *backend, const icp_kv_options *options, uint32_t group);
    icp_status (*kv_open)(icp_backend *backend, const icp_kv_options *options, icp_error *error);
    void (*kv_copy)(icp_backend *backend, uint32_t group, const icp_copy *copy); /* its first positions, at least */
    void (*kv_read)(icp_backend *backend, uint32_t group, uint32_t block, void *bytes);
    void (*kv_write)(icp_backend *backend, uint32_t group, uint32_t block, const void *bytes);

    /* A step. The batch lives until end; rows_max of any batch is told by reserve, before the first. */
    icp_status (*reserve)(icp_backend *backend, uint32_t row_count_max, uint32_t sequence_count_max);
    void (*begin)(icp_backend *backend, const icp_batch *batch);
    void (*embed)(icp_backend *backend, const icp_embed *embed);
    void (*norm)(icp_backend *backend, const icp_norm *norm);
    void (*linear)(icp_backend *backend, const icp_linear *linear);
    void (*rotate)(icp_backend *backend, const icp_rotate *rotate);
    void (*store)(icp_backend *backend, const icp_store *store);
    void (*attend)(icp_backend *backend, const icp_attend *attend);
    void (*gate)(icp_backend *backend, const icp_gate *gate);
    void (*add)(icp_backend *backend, const icp_add *add);
    void (*gather)(icp_backend *backend, const icp_gather *gather);
    void (*cap)(icp_backend *backend, const icp_cap *cap);
    icp_status (*end)(icp_backend *backend); /* waits until all is computed */
} icp_backend_table;

/* Every backend begins with it. */
struct icp_backend {
    const icp_backend_table *table;
};

/* The CPU backend. thread_count 0: as many as the machine has cores. NO_MEMORY. */
icp_status icp_cpu_open(icp_backend **out, uint32_t thread_count, icp_error *error);

#endif
