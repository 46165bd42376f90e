/* weight.c - the types of weights that are supported. */
#include "backend/backend.h"

typedef struct weight_kind {
    const char *name;
    uint32_t block_values;
    uint32_t block_bytes;
} weight_kind;

static const weight_kind kinds[] = {
    [ICP_WEIGHT_F32] = {"F32", 1, 4},       [ICP_WEIGHT_F16] = {"F16", 1, 2},
    [ICP_WEIGHT_Q4_0] = {"Q4_0", 32, 18},   [ICP_WEIGHT_Q4_1] = {"Q4_1", 32, 20},
    [ICP_WEIGHT_Q5_0] = {"Q5_0", 32, 22},   [ICP_WEIGHT_Q5_1] = {"Q5_1", 32, 24},
    [ICP_WEIGHT_Q8_0] = {"Q8_0", 32, 34},   [ICP_WEIGHT_Q4_K] = {"Q4_K", 256, 144},
    [ICP_WEIGHT_Q5_K] = {"Q5_K", 256, 176}, [ICP_WEIGHT_Q6_K] = {"Q6_K", 256, 210},
    [ICP_WEIGHT_BF16] = {"BF16", 1, 2},
};

static weight_kind kind_of(icp_weight_type type)
{
    uint32_t number = (uint32_t)type;
    return number < sizeof(kinds) / sizeof(kinds[0]) ? kinds[number] : (weight_kind){0};
}

const char *icp_weight_name(icp_weight_type type)
{
    return kind_of(type).name;
}

uint32_t icp_weight_block_values(icp_weight_type type)
{
    return kind_of(type).block_values;
}

uint32_t icp_weight_block_bytes(icp_weight_type type)
{
    return kind_of(type).block_bytes;
}
