/* gguf_value.c - values of pairs: numbers, texts, items of arrays.
 *
 * Everything here was checked at open; nothing is aligned. */
#include "model/gguf_part.h"

#include "base/assert.h"

#include <string.h>

uint32_t icp_gguf_type_bytes(icp_gguf_type type)
{
    static const uint8_t bytes[ICP_GGUF_TYPE_COUNT] = {
        [ICP_GGUF_UINT8] = 1,  [ICP_GGUF_INT8] = 1,  [ICP_GGUF_UINT16] = 2,  [ICP_GGUF_INT16] = 2,
        [ICP_GGUF_UINT32] = 4, [ICP_GGUF_INT32] = 4, [ICP_GGUF_FLOAT32] = 4, [ICP_GGUF_BOOL] = 1,
        [ICP_GGUF_UINT64] = 8, [ICP_GGUF_INT64] = 8, [ICP_GGUF_FLOAT64] = 8,
    };
    return (uint32_t)type < ICP_GGUF_TYPE_COUNT ? bytes[type] : 0;
}

static bool is_signed(icp_gguf_type type)
{
    return type == ICP_GGUF_INT8 || type == ICP_GGUF_INT16 || type == ICP_GGUF_INT32 || type == ICP_GGUF_INT64;
}

static bool is_float(icp_gguf_type type)
{
    return type == ICP_GGUF_FLOAT32 || type == ICP_GGUF_FLOAT64;
}

/* Integers of fewer than 64 bits, their sign spread over the rest. */
static int64_t load_signed(const uint8_t *data, uint32_t bytes)
{
    uint64_t number = icp_gguf_load(data, bytes);
    uint64_t sign = UINT64_C(1) << (8 * bytes - 1);
    return (int64_t)((number ^ sign) - sign);
}

static double load_number(const uint8_t *data, icp_gguf_type type)
{
    uint32_t bytes = icp_gguf_type_bytes(type);
    if (type == ICP_GGUF_FLOAT32) {
        uint32_t bits = (uint32_t)icp_gguf_load(data, bytes);
        float number;
        memcpy(&number, &bits, sizeof(number));
        return (double)number;
    }
    if (type == ICP_GGUF_FLOAT64) {
        uint64_t bits = icp_gguf_load(data, bytes);
        double number;
        memcpy(&number, &bits, sizeof(number));
        return number;
    }
    if (is_signed(type)) return (double)load_signed(data, bytes);
    return (double)icp_gguf_load(data, bytes);
}

/* ---- Single values ------------------------------------------------------------------------------------- */

static const icp_gguf_pair *find_single(const icp_gguf *gguf, const char *key)
{
    const icp_gguf_pair *pair = icp_gguf_find(gguf, key);
    return pair == NULL || pair->is_array ? NULL : pair;
}

bool icp_gguf_pair_uint(const icp_gguf_pair *pair, uint64_t *out)
{
    if (pair == NULL || pair->is_array || is_float(pair->type) || pair->type == ICP_GGUF_STRING) return false;
    uint32_t bytes = icp_gguf_type_bytes(pair->type);
    if (is_signed(pair->type) && load_signed(pair->data, bytes) < 0) return false;
    *out = icp_gguf_load(pair->data, bytes);
    return true;
}

bool icp_gguf_uint(const icp_gguf *gguf, const char *key, uint64_t *out)
{
    return icp_gguf_pair_uint(icp_gguf_find(gguf, key), out);
}

bool icp_gguf_float(const icp_gguf *gguf, const char *key, double *out)
{
    const icp_gguf_pair *pair = find_single(gguf, key);
    if (pair == NULL || pair->type == ICP_GGUF_STRING || pair->type == ICP_GGUF_BOOL) return false;
    *out = load_number(pair->data, pair->type);
    return true;
}

bool icp_gguf_bool(const icp_gguf *gguf, const char *key, bool *out)
{
    const icp_gguf_pair *pair = find_single(gguf, key);
    if (pair == NULL || pair->type != ICP_GGUF_BOOL) return false;
    *out = pair->data[0] != 0;
    return true;
}

bool icp_gguf_text(const icp_gguf *gguf, const char *key, icp_gguf_string *out)
{
    const icp_gguf_pair *pair = find_single(gguf, key);
    if (pair == NULL || pair->type != ICP_GGUF_STRING) return false;
    *out = (icp_gguf_string){(const char *)pair->data, pair->bytes};
    return true;
}

/* ---- Items of arrays ----------------------------------------------------------------------------------- */

bool icp_gguf_next_string(const icp_gguf_pair *array, size_t *cursor, icp_gguf_string *out)
{
    if (!array->is_array || array->type != ICP_GGUF_STRING) return false;
    if (*cursor > array->bytes || array->bytes - *cursor < sizeof(uint64_t)) return false;
    const uint8_t *item = array->data + *cursor;
    size_t left = array->bytes - *cursor - sizeof(uint64_t);
    uint64_t bytes = icp_gguf_load(item, sizeof(uint64_t));
    if (bytes > left) return false; /* the file was changed after it was opened */
    *out = (icp_gguf_string){(const char *)item + sizeof(uint64_t), (size_t)bytes};
    *cursor += sizeof(uint64_t) + (size_t)bytes;
    return true;
}

double icp_gguf_number_at(const icp_gguf_pair *array, uint64_t index)
{
    ICP_ASSERT(index < array->count && array->type != ICP_GGUF_STRING);
    return load_number(array->data + index * icp_gguf_type_bytes(array->type), array->type);
}
