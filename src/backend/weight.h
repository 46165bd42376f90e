/* weight.h - one block of a quantised weight, taken apart: what decoding and repacking both start from. */
#ifndef ICP_BACKEND_WEIGHT_H
#define ICP_BACKEND_WEIGHT_H

#include "backend/backend.h"

#define ICP_WEIGHT_BLOCK_VALUES_MAX 256u

/* value[i] = quants[i] * (d * scales[i / n]) + m                  blocks of 32: one scale, which is 1; m is 0 or stored
 * value[i] = quants[i] * (d * scales[i / n]) - m * minima[i / 32] blocks of 256: n is 32, for Q6_K 16 */
typedef struct icp_weight_block {
    uint16_t d; /* half */
    uint16_t m; /* half; 0 where the type has no minima */
    int8_t scales[16];
    uint8_t minima[8];
    int8_t quants[ICP_WEIGHT_BLOCK_VALUES_MAX];
} icp_weight_block;

/* Takes a block of the file apart; bytes need not be aligned. Quantised types only. */
void icp_weight_block_read(icp_weight_type type, const uint8_t *bytes, icp_weight_block *block);

#endif
