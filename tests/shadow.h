/* shadow.h - what an engine would have in its blocks, position by position.
 *
 * The library moves numbers only; whether they are the right ones shows when an engine reads what it finds there. So
 * each position of each block keeps a value that stands for the whole text up to it. A lease's tokens are computed as
 * soon as there is room: everything that the computation would attend to must then hold the right values. Tails are
 * copied when the library says so. This knows nothing of the model: it would find a fault that the model shares. */
#ifndef INCIPIT_TESTS_SHADOW_H
#define INCIPIT_TESTS_SHADOW_H

#include "naive.h"

typedef struct shadow {
    /* [pool][block][position]; a group adds its number. A state's value is that of the position it was computed to, in
     * place 0. */
    uint64_t values[NAIVE_GROUP_COUNT_MAX][NAIVE_BLOCK_COUNT_MAX][NAIVE_BLOCK_TOKENS_MAX];
    uint32_t computed[NAIVE_LEASE_COUNT_MAX]; /* tokens, of each lease slot */
    uint64_t copied[NAIVE_LEASE_COUNT_MAX];   /* tail_serial of the last tail copied */
} shadow;

/* A lease was matched, with so many tokens cached. */
void shadow_match(shadow *blocks, uint32_t slot, uint32_t cached_tokens);

/* A lease was truncated. */
void shadow_truncate(shadow *blocks, uint32_t slot, uint32_t token_count);

/* Copies the tail, if there is one to copy, and computes the known tokens for which there is room. False: something
 * that it reads is not what it should be; model->error tells. */
bool shadow_compute(shadow *blocks, naive *model, uint32_t slot, const naive_text *text);

#endif
