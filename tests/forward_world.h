/* forward_world.h - a model on the CPU backend, ready to compute batches: for tests of the forward pass.
 *
 * A batch is told as pieces: some tokens of a sequence from a position on, and the sequence's block tables. Blocks are
 * handed out by the tests themselves, as they like. Every row is an output, unless said otherwise. */
#ifndef ICP_TESTS_FORWARD_WORLD_H
#define ICP_TESTS_FORWARD_WORLD_H

#include "model/transformer.h"
#include "model_make.h"

#define FORWARD_ROWS_MAX 256u
#define FORWARD_PIECES_MAX 96u
#define FORWARD_BLOCKS_MAX 128u /* of a table */

typedef struct forward_options {
    const void *image; /* a GGUF image, or NULL: path */
    size_t image_bytes;
    const char *path;
    icp_kv_type kv_type;
    uint32_t thread_count;
    uint32_t block_tokens; /* 0: 16 */
    uint32_t block_count;  /* of each group; 0: FORWARD_BLOCKS_MAX */
} forward_options;

typedef struct forward_world {
    icp_gguf *gguf;
    icp_backend *backend;
    icp_transformer *transformer;
    const icp_shape *shape;
    icp_kv_type kv_type;
    uint32_t block_tokens;
} forward_world;

/* A sequence's blocks, by group. */
typedef struct forward_tables {
    uint32_t blocks[2][FORWARD_BLOCKS_MAX];
} forward_tables;

typedef struct forward_piece {
    const uint32_t *tokens; /* of the whole sequence */
    uint32_t position;      /* the first that is computed */
    uint32_t count;
    const forward_tables *tables;
    const icp_adapter *adapter; /* or NULL */
    uint32_t silent_count;      /* its first rows, which are no outputs */
} forward_piece;

/* What cannot be opened fails the test. */
void forward_open(forward_world *world, const forward_options *options);
void forward_close(forward_world *world);

/* Computes the pieces in one batch. logits: [output rows, vocabulary], copied; may be NULL. */
void forward_run(forward_world *world, const forward_piece *pieces, uint32_t count, float *logits);

/* Tables that count up from first, in both groups; the tokens of a seed. */
void forward_tables_from(forward_tables *tables, uint32_t first);
void forward_tokens(const forward_world *world, uint32_t *tokens, uint32_t count, uint64_t seed);

#endif
