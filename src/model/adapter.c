/* adapter.c - LoRA adapters: two small matrices for each matrix of the model that was trained further.
 *
 *      general.type "adapter", adapter.type "lora", adapter.lora.alpha, and for a matrix "M" of the model
 *      M.lora_a [columns, rank] and M.lora_b [rank, rows]:    W x becomes W x + (alpha / rank) B A x
 *
 * An alpha of 0, or none, is a scale of 1, as files are made. An adapter of the embedding table, of norms or of
 * anything that is not multiplied is refused: leaving a part out would be another adapter. */
#include "model/gguf_part.h"
#include "model/transformer_layer.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define SUFFIX_BYTES 7u /* ".lora_a" */
#define RANK_MAX 4096u

static bool is_text(const icp_gguf *gguf, const char *key, const char *text)
{
    icp_gguf_string value;
    return icp_gguf_text(gguf, key, &value) && value.bytes == strlen(text) &&
           memcmp(value.text, text, value.bytes) == 0;
}

static icp_status check_kind(const icp_shape *shape, const icp_gguf *gguf, icp_error *error)
{
    if (!is_text(gguf, "general.type", "adapter"))
        return icp_shape_refuse(error, "general.type is not \"adapter\": this file is no adapter");
    if (!is_text(gguf, "adapter.type", "lora"))
        return icp_shape_refuse(error, "adapter.type is not \"lora\": other adapters are not supported");
    if (!is_text(gguf, "general.architecture", shape->architecture))
        return icp_shape_refuse(error, "the adapter is not for the architecture %s", shape->architecture);
    if (icp_gguf_find(gguf, "adapter.alora.invocation_tokens") != NULL)
        return icp_shape_refuse(error, "adapters that tokens invoke (adapter.alora) are not supported");
    return ICP_OK;
}

/* A tensor of the file, the other one of its pair, and where in the model they belong. */
typedef struct place {
    const icp_gguf_tensor *a, *b;
    bool is_a; /* which of the two was looked up */
    icp_part part;
    uint32_t index; /* of the pair */
} place;

static icp_status find_place(const icp_adapter *adapter, const icp_gguf *gguf, const icp_gguf_tensor *tensor,
                             place *out, icp_error *error)
{
    const icp_shape *shape = &adapter->transformer->shape;
    char quote[ICP_GGUF_QUOTE_BYTES];
    icp_gguf_quote(tensor->name, quote);
    char name[ICP_GGUF_NAME_BYTES_MAX + 1] = "";
    size_t bytes = tensor->name.bytes;
    memcpy(name, tensor->name.text, bytes);
    const char *suffix = bytes > SUFFIX_BYTES ? name + bytes - SUFFIX_BYTES : name;
    out->is_a = strcmp(suffix, ".lora_a") == 0;
    if (!out->is_a && strcmp(suffix, ".lora_b") != 0)
        return icp_shape_refuse(error, "the tensor %s is neither a .lora_a nor a .lora_b", quote);

    uint32_t layer = 0;
    out->part = icp_part_find((icp_gguf_string){name, bytes - SUFFIX_BYTES}, shape->layer_count, &layer);
    bool is_output = out->part == ICP_PART_OUTPUT;
    if (out->part >= ICP_MATRIX_COUNT && !is_output)
        return icp_shape_refuse(error, "the tensor %s does not belong to a matrix that can be adapted", quote);
    out->index = is_output ? shape->layer_count * ICP_MATRIX_COUNT : layer * ICP_MATRIX_COUNT + (uint32_t)out->part;

    name[bytes - 1] = out->is_a ? 'b' : 'a';
    const icp_gguf_tensor *other = icp_gguf_find_tensor(gguf, name);
    if (other == NULL) return icp_shape_refuse(error, "the tensor %s is missing", name);
    out->a = out->is_a ? tensor : other;
    out->b = out->is_a ? other : tensor;
    return ICP_OK;
}

static icp_status load_weight(icp_adapter *adapter, const icp_gguf_tensor *tensor, icp_weight **out, icp_error *error)
{
    icp_backend *backend = adapter->transformer->backend;
    icp_weight_source source = {
        .type = tensor->type,
        .rows = (uint32_t)tensor->shape[1],
        .columns = (uint32_t)tensor->shape[0],
        .data = tensor->data,
        .is_matrix = true,
    };
    return backend->table->weight_open(backend, &source, out, error);
}

static icp_status load_pair(icp_adapter *adapter, const place *at, double alpha, icp_error *error)
{
    const icp_shape *shape = &adapter->transformer->shape;
    const icp_gguf_tensor *a = at->a;
    const icp_gguf_tensor *b = at->b;
    uint64_t columns = icp_part_columns(shape, at->part);
    uint64_t rows = icp_part_rows(shape, at->part);
    uint64_t rank = a->shape[1];
    bool is_flat = a->shape[2] == 1 && a->shape[3] == 1 && b->shape[2] == 1 && b->shape[3] == 1;
    if (!is_flat || a->shape[0] != columns || b->shape[0] != rank || b->shape[1] != rows || rank > RANK_MAX)
        return icp_shape_refuse(error, "%.*s: [%llu, %llu] and [%llu, %llu] do not fit a matrix of [%llu, %llu]",
                                (int)(a->name.bytes - SUFFIX_BYTES), a->name.text, (unsigned long long)a->shape[0],
                                (unsigned long long)rank, (unsigned long long)b->shape[0],
                                (unsigned long long)b->shape[1], (unsigned long long)columns, (unsigned long long)rows);

    icp_pair *pair = &adapter->pairs[at->index];
    pair->rank = (uint32_t)rank;
    pair->rows = (uint32_t)rows;
    pair->columns = (uint32_t)columns;
    pair->scale = alpha > 0 || alpha < 0 ? (float)(alpha / (double)rank) : 1;
    if (pair->rank > adapter->rank_max) adapter->rank_max = pair->rank;
    icp_status status = load_weight(adapter, a, &pair->a, error);
    return status == ICP_OK ? load_weight(adapter, b, &pair->b, error) : status;
}

static icp_status load_pairs(icp_adapter *adapter, const icp_gguf *gguf, icp_error *error)
{
    double alpha = 0;
    icp_gguf_float(gguf, "adapter.lora.alpha", &alpha);
    if (!isfinite(alpha)) return icp_shape_refuse(error, "adapter.lora.alpha is not a finite number");
    icp_status status = ICP_OK;
    for (uint32_t i = 0; status == ICP_OK && i < icp_gguf_tensor_count(gguf); i++) {
        place at = {.part = ICP_PART_COUNT};
        status = find_place(adapter, gguf, icp_gguf_tensor_at(gguf, i), &at, error);
        if (status == ICP_OK && at.is_a) status = load_pair(adapter, &at, alpha, error);
    }
    if (status == ICP_OK && adapter->rank_max == 0) status = icp_shape_refuse(error, "the adapter has no tensors");
    return status;
}

icp_status icp_adapter_open(icp_adapter **out, icp_transformer *transformer, const icp_gguf *gguf, icp_error *error)
{
    icp_status status = check_kind(&transformer->shape, gguf, error);
    if (status != ICP_OK) return status;
    icp_adapter *adapter = calloc(1, sizeof(*adapter));
    if (adapter == NULL) return ICP_NO_MEMORY;
    adapter->transformer = transformer;
    adapter->pairs = calloc((size_t)transformer->shape.layer_count * ICP_MATRIX_COUNT + 1, sizeof(*adapter->pairs));
    status = adapter->pairs != NULL ? load_pairs(adapter, gguf, error) : ICP_NO_MEMORY;
    if (status != ICP_OK) goto fail;

    uint64_t rows = (uint64_t)transformer->row_count_max * ICP_ADAPTER_SHARED_MAX;
    adapter->products = transformer->backend->table->floats_open(transformer->backend, rows * adapter->rank_max);
    if (adapter->products == NULL) {
        status = ICP_NO_MEMORY;
        goto fail;
    }
    *out = adapter;
    return ICP_OK;

fail:
    icp_adapter_close(adapter);
    return status;
}

void icp_adapter_close(icp_adapter *adapter)
{
    if (adapter == NULL) return;
    icp_backend *backend = adapter->transformer->backend;
    uint32_t pair_count = adapter->transformer->shape.layer_count * ICP_MATRIX_COUNT + 1;
    for (uint32_t i = 0; adapter->pairs != NULL && i < pair_count; i++) {
        backend->table->weight_close(backend, adapter->pairs[i].a);
        backend->table->weight_close(backend, adapter->pairs[i].b);
    }
    if (adapter->products != NULL) backend->table->floats_close(backend, adapter->products);
    free(adapter->pairs);
    free(adapter);
}
