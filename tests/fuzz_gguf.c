/* fuzz_gguf.c - a libFuzzer target: bytes are a model file in memory; whatever is accepted is read from end to end.
 *
 *     clang -fsanitize=fuzzer,address,undefined tests/fuzz_gguf.c ...   (make libfuzzer)
 *
 * What must hold of an accepted file aborts where it does not. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "model/gguf.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static volatile uint64_t sink; /* what was read, so that it is read */

static void claim(bool holds)
{
    if (!holds) abort();
}

static void read_bytes(const void *bytes, size_t count)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < count; i++) sum += ((const uint8_t *)bytes)[i];
    sink += sum;
}

static void read_pair(const icp_gguf *gguf, const icp_gguf_pair *pair)
{
    read_bytes(pair->key.text, pair->key.bytes);
    read_bytes(pair->data, pair->bytes);
    claim(pair->key.bytes > 0 && pair->type < ICP_GGUF_TYPE_COUNT && pair->type != ICP_GGUF_ARRAY);
    claim(pair->is_array || pair->count == 1);
    uint64_t count = 0;
    size_t cursor = 0;
    icp_gguf_string item;
    for (; icp_gguf_next_string(pair, &cursor, &item); count++) read_bytes(item.text, item.bytes);
    if (pair->is_array && pair->type == ICP_GGUF_STRING) claim(count == pair->count && cursor == pair->bytes);
    for (uint64_t i = 0; pair->type != ICP_GGUF_STRING && i < pair->count; i++) sink += icp_gguf_number_at(pair, i) > 0;

    /* By name, where the name is one that a text of C can hold. */
    char *key = malloc(pair->key.bytes + 1);
    if (key == NULL) return;
    memcpy(key, pair->key.text, pair->key.bytes);
    key[pair->key.bytes] = '\0';
    if (strlen(key) == pair->key.bytes) claim(icp_gguf_find(gguf, key) == pair);
    uint64_t number = 0;
    double real = 0;
    bool is_set = false;
    sink += icp_gguf_uint(gguf, key, &number) + icp_gguf_float(gguf, key, &real) + icp_gguf_bool(gguf, key, &is_set);
    if (icp_gguf_text(gguf, key, &item)) read_bytes(item.text, item.bytes);
    free(key);
}

static void read_tensor(const icp_gguf_tensor *tensor, const uint8_t *image, size_t size)
{
    const uint8_t *data = tensor->data;
    claim(tensor->bytes > 0 && data >= image && data < image + size);
    claim(tensor->bytes <= (size_t)(image + size - data));
    claim(icp_weight_name(tensor->type) != NULL && tensor->dimension_count >= 1 && tensor->dimension_count <= 4);
    uint64_t values = 1;
    for (int i = 0; i < 4; i++) values *= tensor->shape[i];
    claim(values / icp_weight_block_values(tensor->type) * icp_weight_block_bytes(tensor->type) == tensor->bytes);
    read_bytes(tensor->name.text, tensor->name.bytes);
    sink += data[0] + data[tensor->bytes - 1];
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    icp_gguf *gguf = NULL;
    icp_error error = {""};
    icp_status status = icp_gguf_open_memory(&gguf, data, size, &error);
    claim(status == ICP_OK || status == ICP_BAD_ARGUMENT || status == ICP_NO_MEMORY);
    if (status != ICP_OK) {
        claim(gguf == NULL && error.text[0] != '\0');
        return 0;
    }
    for (uint32_t i = 0; i < icp_gguf_pair_count(gguf); i++) read_pair(gguf, icp_gguf_pair_at(gguf, i));
    const uint8_t *end = data;
    for (uint32_t i = 0; i < icp_gguf_tensor_count(gguf); i++) {
        const icp_gguf_tensor *tensor = icp_gguf_tensor_at(gguf, i);
        read_tensor(tensor, data, size);
        claim((const uint8_t *)tensor->data >= end); /* no two of them overlap */
        end = (const uint8_t *)tensor->data + tensor->bytes;
    }
    icp_gguf_close(gguf);
    return 0;
}
