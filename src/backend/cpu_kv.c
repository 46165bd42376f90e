/* cpu_kv.c - sizes of the KV pool, and positions going into and out of it. */
#include "backend/cpu_kv.h"

#include "backend/math_half.h"

#include <math.h>

static uint32_t divide_up(uint32_t value, uint32_t by)
{
    return value / by + (value % by != 0);
}

static size_t value_bytes(icp_kv_type type)
{
    return type == ICP_KV_F32 ? 4 : type == ICP_KV_F16 ? 2 : 1;
}

bool icp_kv_plan(icp_kv_memory *memory, const icp_kv_options *options, uint32_t group)
{
    const icp_kv_group *shape = &options->groups[group];
    if (options->block_tokens == 0 || options->block_tokens % ICP_KV_RUN != 0) return false;
    if (options->type >= ICP_KV_TYPE_COUNT || shape->head_dim == 0 || shape->head_dim > ICP_KV_HEAD_DIM_MAX)
        return false;

    *memory = (icp_kv_memory){.type = options->type, .shape = *shape, .block_tokens = options->block_tokens};
    memory->width = divide_up(shape->head_dim, ICP_MATH_LANES) * ICP_MATH_LANES;
    memory->scale_count = divide_up(shape->head_dim, ICP_KV_SCALE_VALUES);
    size_t scale_bytes = options->type == ICP_KV_Q8_0 ? (size_t)ICP_KV_RUN * memory->scale_count * 2 : 0;
    memory->k_run_bytes = (size_t)ICP_KV_RUN * shape->head_dim * value_bytes(options->type) + scale_bytes;
    memory->v_run_bytes = (size_t)ICP_KV_RUN * memory->width * value_bytes(options->type) + scale_bytes;
    memory->head_bytes = options->block_tokens / ICP_KV_RUN * (memory->k_run_bytes + memory->v_run_bytes);
    size_t layer_bytes;
    return !__builtin_mul_overflow(memory->head_bytes, shape->head_count, &layer_bytes) &&
           !__builtin_mul_overflow(layer_bytes, shape->layer_count, &memory->block_bytes) &&
           !__builtin_mul_overflow(memory->block_bytes, shape->block_count, &memory->bytes);
}

/* ---- Out ------------------------------------------------------------------------------------------------ */

static void bytes_k(const icp_kv_memory *memory, const icp_math *math, const uint8_t *run, float *out)
{
    uint32_t dim = memory->shape.head_dim;
    const uint8_t *halves = run + (size_t)dim * ICP_KV_RUN;
    for (uint32_t first = 0; first < dim; first += ICP_KV_SCALE_VALUES) {
        float scales[ICP_KV_RUN];
        math->floats_of_halves(scales, (const uint16_t *)(const void *)halves, ICP_KV_RUN);
        halves += ICP_KV_RUN * sizeof(uint16_t);
        for (uint32_t d = first; d < dim && d < first + ICP_KV_SCALE_VALUES; d++)
            math->floats_of_bytes(out + d * ICP_KV_RUN, (const int8_t *)run + d * ICP_KV_RUN, scales);
    }
}

/* A V run is a piece for each 16 values of the head: [16 positions][16]. */
#define PIECE ((size_t)ICP_KV_RUN * ICP_MATH_LANES)

static void bytes_v(const icp_kv_memory *memory, const icp_math *math, const uint8_t *run, float *out, size_t apart)
{
    const uint16_t *halves = (const uint16_t *)(const void *)(run + (size_t)memory->width * ICP_KV_RUN);
    for (uint32_t slot = 0; slot < ICP_KV_RUN; slot++) {
        for (uint32_t piece = 0; piece < memory->width / ICP_MATH_LANES; piece++) {
            float scales[ICP_MATH_LANES];
            uint32_t scale_index = piece * ICP_MATH_LANES / ICP_KV_SCALE_VALUES;
            float scale = icp_half_to_float(halves[slot * memory->scale_count + scale_index]);
            for (uint32_t i = 0; i < ICP_MATH_LANES; i++) scales[i] = scale;
            size_t at = (size_t)slot * ICP_MATH_LANES;
            math->floats_of_bytes(out + piece * apart + at, (const int8_t *)run + piece * PIECE + at, scales);
        }
    }
}

void icp_kv_run_k(const icp_kv_memory *memory, const icp_math *math, const uint8_t *run, float *out)
{
    size_t count = (size_t)ICP_KV_RUN * memory->shape.head_dim;
    if (memory->type == ICP_KV_F16) math->floats_of_halves(out, (const uint16_t *)(const void *)run, count);
    if (memory->type == ICP_KV_F32) memcpy(out, run, count * sizeof(*out));
    if (memory->type == ICP_KV_Q8_0) bytes_k(memory, math, run, out);
}

void icp_kv_run_v(const icp_kv_memory *memory, const icp_math *math, const uint8_t *run, float *out, size_t apart)
{
    if (memory->type == ICP_KV_Q8_0) {
        bytes_v(memory, math, run, out, apart);
        return;
    }
    for (uint32_t piece = 0; piece < memory->width / ICP_MATH_LANES; piece++, out += apart) {
        if (memory->type == ICP_KV_F16)
            math->floats_of_halves(out, (const uint16_t *)(const void *)run + piece * PIECE, PIECE);
        if (memory->type == ICP_KV_F32) memcpy(out, run + piece * PIECE * sizeof(float), PIECE * sizeof(float));
    }
}

/* ---- In ------------------------------------------------------------------------------------------------- */

/* Up to 32 values as 8 bits: the scale is rounded to a half first and the values divided by that, so that an error of
 * the scale is not one of the values. */
static uint16_t quantise(int8_t *out, const float *x, uint32_t count)
{
    float top = 0.0f;
    for (uint32_t i = 0; i < count; i++) top = fabsf(x[i]) > top ? fabsf(x[i]) : top;
    uint16_t half = icp_half_from_float(top / 127.0f);
    float scale = icp_half_to_float(half);
    for (uint32_t i = 0; i < count; i++) {
        float value = scale == 0.0f ? 0.0f : x[i] / scale;
        if (!(value > -127.0f)) value = -127.0f; /* NaN too: a byte has none */
        if (value > 127.0f) value = 127.0f;
        out[i] = (int8_t)(value + (value < 0.0f ? -0.5f : 0.5f));
    }
    return half;
}

/* Where value d of a position is in a V run. */
static size_t v_place(uint32_t slot, uint32_t d)
{
    return d / ICP_MATH_LANES * PIECE + (size_t)slot * ICP_MATH_LANES + d % ICP_MATH_LANES;
}

static void put_bytes(const icp_kv_memory *memory, uint8_t *k_run, uint8_t *v_run, uint32_t slot,
                      const float *const x[2])
{
    uint32_t dim = memory->shape.head_dim;
    uint16_t *k_scales = (uint16_t *)(void *)(k_run + (size_t)dim * ICP_KV_RUN);
    uint16_t *v_scales = (uint16_t *)(void *)(v_run + (size_t)memory->width * ICP_KV_RUN);
    for (uint32_t g = 0; g < memory->scale_count; g++) {
        int8_t bytes[ICP_KV_SCALE_VALUES];
        uint32_t first = g * ICP_KV_SCALE_VALUES;
        uint32_t count = dim - first < ICP_KV_SCALE_VALUES ? dim - first : ICP_KV_SCALE_VALUES;
        k_scales[g * ICP_KV_RUN + slot] = quantise(bytes, x[0] + first, count);
        for (uint32_t i = 0; i < count; i++) k_run[(first + i) * ICP_KV_RUN + slot] = (uint8_t)bytes[i];
        v_scales[slot * memory->scale_count + g] = quantise(bytes, x[1] + first, count);
        for (uint32_t i = 0; i < count; i++) v_run[v_place(slot, first + i)] = (uint8_t)bytes[i];
    }
}

void icp_kv_put(const icp_kv_memory *memory, uint8_t *head, uint32_t slot, const float *k, const float *v)
{
    uint32_t dim = memory->shape.head_dim;
    uint32_t run = slot / ICP_KV_RUN;
    uint32_t lane = slot % ICP_KV_RUN;
    uint8_t *k_run = head + run * memory->k_run_bytes;
    uint8_t *v_run = head + memory->block_tokens / ICP_KV_RUN * memory->k_run_bytes + run * memory->v_run_bytes;
    if (memory->type == ICP_KV_Q8_0) {
        put_bytes(memory, k_run, v_run, lane, (const float *const[2]){k, v});
    } else if (memory->type == ICP_KV_F16) {
        uint16_t *k_out = (uint16_t *)(void *)k_run + lane;
        uint16_t *v_out = (uint16_t *)(void *)v_run;
        for (uint32_t d = 0; d < dim; d++) k_out[d * ICP_KV_RUN] = icp_half_from_float(k[d]);
        for (uint32_t d = 0; d < dim; d++) v_out[v_place(lane, d)] = icp_half_from_float(v[d]);
    } else {
        float *k_out = (float *)(void *)k_run + lane;
        float *v_out = (float *)(void *)v_run;
        for (uint32_t d = 0; d < dim; d++) k_out[d * ICP_KV_RUN] = k[d];
        for (uint32_t d = 0; d < dim; d++) v_out[v_place(lane, d)] = v[d];
    }
}
