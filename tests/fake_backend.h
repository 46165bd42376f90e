/* fake_backend.h - a backend of integers, for the simulation.
 *
 * A row is a digest of 64 bits in its first two floats. Every operation mixes digests; store puts them into KV blocks
 * through the block tables; attend folds, in the order of positions, every value that the row may see, read through the
 * table. So one wrong, stale or early freed block changes the row, all that follows from it, and the tokens that
 * come out. Blocks are poisoned until they are written, and wherever the simulation says that nobody holds them.
 *
 * It keeps the contract of a backend: same bits whatever the batch. Any block_tokens will do. */
#ifndef ICP_TESTS_FAKE_BACKEND_H
#define ICP_TESTS_FAKE_BACKEND_H

#include "backend/backend.h"

typedef struct fake_backend fake_backend;

/* vocabulary: a matrix of so many rows gives logits. */
icp_backend *fake_open(uint32_t vocabulary);

/* The next step fails at its end, and leaves rubbish in the KV that it was to write. */
void fake_fail_next(icp_backend *backend);

/* Nobody may read this block before it is written again. */
void fake_poison(icp_backend *backend, uint32_t group, uint32_t block);

/* Attention reads nothing: for measuring what is around it. */
void fake_set_shallow(icp_backend *backend, bool is_shallow);

/* Rows computed since open; seconds between begin and end. */
uint64_t fake_row_count(const icp_backend *backend);
double fake_seconds(const icp_backend *backend);

#endif
