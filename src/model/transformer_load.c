/* transformer_load.c - opens a transformer: its weights on the backend, its frequencies, and memory for rows.
 *
 * The file was accepted by icp_shape_read before anything is loaded, so every tensor that is found has the shape that
 * its part must have. Vectors (norms, biases) are small and become floats; matrices go to the backend as they lie
 * in the file. */
#include "model/transformer_layer.h"

#include "base/assert.h"

#include <math.h>
#include <stdlib.h>

typedef struct loading {
    icp_transformer *transformer;
    const icp_transformer_options *options;
    icp_error *error;
    uint64_t bytes_done;
} loading;

static void tell(loading *load, const icp_gguf_tensor *tensor)
{
    load->bytes_done += tensor->bytes;
    if (load->options->progress == NULL) return;
    load->options->progress(load->options->progress_context, load->bytes_done, load->transformer->shape.weight_bytes);
}

static icp_status no_memory(icp_error *error, const char *what)
{
    (void)icp_shape_refuse(error, "no memory for %s", what);
    return ICP_NO_MEMORY;
}

float *icp_transformer_floats(icp_transformer *self, uint64_t rows, uint64_t columns)
{
    uint64_t count;
    if (__builtin_mul_overflow(rows, columns, &count) || count > SIZE_MAX / sizeof(float)) return NULL;
    float *floats = self->backend->table->floats_open(self->backend, (size_t)count);
    if (floats != NULL) self->bytes += count * sizeof(float);
    return floats;
}

/* ---- Weights -------------------------------------------------------------------------------------------- */

/* A matrix, a table, or both. *out stays NULL where the model has no such part. */
static icp_status load_matrix(loading *load, icp_part part, uint32_t layer, icp_weight **out)
{
    const icp_gguf_tensor *tensor = icp_part_tensor(load->options->gguf, part, layer);
    if (tensor == NULL) return ICP_OK;
    icp_transformer *self = load->transformer;
    bool is_table = part == ICP_PART_EMBEDDING;
    icp_weight_source source = {
        .type = tensor->type,
        .rows = (uint32_t)tensor->shape[1],
        .columns = (uint32_t)tensor->shape[0],
        .data = tensor->data,
        .is_table = is_table,
        .is_matrix = !is_table || self->shape.is_tied,
        .is_mapped = icp_gguf_is_mapped(load->options->gguf),
    };
    icp_status status = self->backend->table->weight_open(self->backend, &source, out, load->error);
    if (status != ICP_OK) return status;
    self->bytes += self->backend->table->weight_bytes(self->backend, *out);
    tell(load, tensor);
    return ICP_OK;
}

/* A tensor of one row as floats of the host. The caller frees. NULL: no memory. */
static float *decode_vector(const icp_gguf_tensor *tensor)
{
    float *values = malloc((size_t)tensor->shape[0] * sizeof(*values));
    if (values != NULL) icp_weight_decode(tensor->type, tensor->data, values, (size_t)tensor->shape[0]);
    return values;
}

static icp_status load_vector(loading *load, icp_part part, uint32_t layer, float **out)
{
    const icp_gguf_tensor *tensor = icp_part_tensor(load->options->gguf, part, layer);
    if (tensor == NULL) return ICP_OK;
    icp_transformer *self = load->transformer;
    float *values = decode_vector(tensor);
    *out = icp_transformer_floats(self, 1, tensor->shape[0]);
    bool is_there = values != NULL && *out != NULL;
    if (is_there) self->backend->table->floats_write(self->backend, *out, values, (size_t)tensor->shape[0]);
    free(values);
    if (!is_there) return no_memory(load->error, "a vector of the model");
    tell(load, tensor);
    return ICP_OK;
}

/* Frequencies are computed in double precision: base^(-2i / rope_dim), divided by the group's scale and, where
 * the file has factors, by those of the file. */
static icp_status load_ropes(loading *load)
{
    icp_transformer *self = load->transformer;
    const icp_shape *shape = &self->shape;
    const icp_gguf_tensor *tensor = icp_part_tensor(load->options->gguf, ICP_PART_ROPE_FACTORS, 0);
    uint32_t count = shape->rope_dim / 2;
    float *frequencies = malloc(count * sizeof(*frequencies));
    float *factors = tensor != NULL ? decode_vector(tensor) : NULL;
    icp_status status = ICP_OK;
    if (frequencies == NULL || (tensor != NULL && factors == NULL)) status = no_memory(load->error, "frequencies");
    for (uint32_t g = 0; status == ICP_OK && g < shape->group_count; g++) {
        for (uint32_t i = 0; status == ICP_OK && i < count; i++) {
            double frequency = pow(shape->groups[g].rope_base, -2.0 * i / shape->rope_dim);
            double factor = factors != NULL ? (double)factors[i] : 1;
            frequencies[i] = (float)(frequency / shape->groups[g].rope_scale / factor);
            if (!(factor > 0) || !isfinite(frequencies[i]))
                status = icp_shape_refuse(load->error, "rope_freqs.weight: factor %u is %g", i, factor);
        }
        if (status != ICP_OK) break;
        status = self->backend->table->rope_open(self->backend, shape->rope_kind, frequencies, count, &self->ropes[g]);
    }
    if (status == ICP_OK && tensor != NULL) tell(load, tensor);
    free(frequencies);
    free(factors);
    return status;
}

static icp_status load_layer(loading *load, uint32_t index)
{
    icp_layer *layer = &load->transformer->layers[index];
    icp_status status = ICP_OK;
    for (uint32_t part = 0; status == ICP_OK && part < ICP_LAYER_PART_COUNT; part++) {
        if (part < ICP_MATRIX_COUNT) {
            status = load_matrix(load, (icp_part)part, index, &layer->matrices[part]);
        } else {
            status = load_vector(load, (icp_part)part, index, &layer->vectors[part]);
        }
    }
    return status;
}

static icp_status load_weights(loading *load)
{
    icp_transformer *self = load->transformer;
    icp_status status = load_matrix(load, ICP_PART_EMBEDDING, 0, &self->embedding);
    for (uint32_t i = 0; status == ICP_OK && i < self->shape.layer_count; i++) status = load_layer(load, i);
    if (status == ICP_OK) status = load_vector(load, ICP_PART_OUTPUT_NORM, 0, &self->output_norm);
    if (status == ICP_OK) status = load_matrix(load, ICP_PART_OUTPUT, 0, &self->output);
    if (status == ICP_OK) status = load_vector(load, ICP_PART_OUTPUT_BIAS, 0, &self->output_bias);
    if (status == ICP_OK) status = load_ropes(load);
    return status;
}

/* ---- Open and close ------------------------------------------------------------------------------------- */

static icp_status open_rows(icp_transformer *self, icp_error *error)
{
    const icp_shape *shape = &self->shape;
    uint64_t query_width = (uint64_t)shape->head_count * shape->head_dim;
    uint64_t kv_width = (uint64_t)shape->kv_head_count * shape->head_dim;
    const struct {
        float **rows;
        uint64_t count, width;
    } wanted[] = {
        {&self->x, self->row_count_max, shape->width},
        {&self->normed, self->row_count_max, shape->width},
        {&self->q, self->row_count_max, query_width},
        {&self->k, self->row_count_max, kv_width},
        {&self->v, self->row_count_max, kv_width},
        {&self->mixed, self->row_count_max, query_width},
        {&self->gate, self->row_count_max, shape->hidden_width},
        {&self->up, self->row_count_max, shape->hidden_width},
        {&self->outputs, self->output_count_max, shape->width},
        {&self->logits, self->output_count_max, shape->vocabulary},
    };
    for (size_t i = 0; i < sizeof(wanted) / sizeof(wanted[0]); i++) {
        *wanted[i].rows = icp_transformer_floats(self, wanted[i].count, wanted[i].width);
        if (*wanted[i].rows == NULL) return no_memory(error, "the rows of a batch");
    }
    return ICP_OK;
}

icp_status icp_transformer_open(icp_transformer **out, const icp_transformer_options *options, icp_error *error)
{
    ICP_ASSERT(options->row_count_max != 0 && options->sequence_count_max != 0 && options->output_count_max != 0);
    icp_transformer *self = calloc(1, sizeof(*self));
    if (self == NULL) return no_memory(error, "the model");
    self->backend = options->backend;
    self->row_count_max = options->row_count_max;
    self->sequence_count_max = options->sequence_count_max;
    self->output_count_max = options->output_count_max;
    loading load = {.transformer = self, .options = options, .error = error};
    icp_status status = icp_shape_read(&self->shape, options->gguf, error);
    if (status != ICP_OK) goto fail;

    self->layers = calloc(self->shape.layer_count, sizeof(*self->layers));
    self->runs = calloc(self->sequence_count_max, sizeof(*self->runs));
    status = self->layers != NULL && self->runs != NULL ? ICP_OK : no_memory(error, "the model");
    if (status == ICP_OK) status = open_rows(self, error);
    self->row_bytes = self->bytes;
    if (status == ICP_OK) status = load_weights(&load);
    if (status == ICP_OK)
        status = self->backend->table->reserve(self->backend, self->row_count_max, self->sequence_count_max);
    if (status != ICP_OK) goto fail;
    *out = self;
    return ICP_OK;

fail:
    icp_transformer_close(self);
    return status;
}

static void close_floats(icp_transformer *self, float *floats)
{
    if (floats != NULL) self->backend->table->floats_close(self->backend, floats);
}

void icp_transformer_close(icp_transformer *self)
{
    if (self == NULL) return;
    const icp_backend_table *table = self->backend->table;
    for (uint32_t i = 0; self->layers != NULL && i < self->shape.layer_count; i++) {
        for (uint32_t part = 0; part < ICP_MATRIX_COUNT; part++)
            table->weight_close(self->backend, self->layers[i].matrices[part]);
        for (uint32_t part = 0; part < ICP_LAYER_PART_COUNT; part++) close_floats(self, self->layers[i].vectors[part]);
    }
    table->weight_close(self->backend, self->embedding);
    table->weight_close(self->backend, self->output);
    for (uint32_t i = 0; i < 2; i++)
        if (self->ropes[i] != NULL) table->rope_close(self->backend, self->ropes[i]);
    float *const floats[] = {self->output_norm, self->output_bias, self->x,       self->normed,
                             self->q,           self->k,           self->v,       self->mixed,
                             self->gate,        self->up,          self->outputs, self->logits};
    for (size_t i = 0; i < sizeof(floats) / sizeof(floats[0]); i++) close_floats(self, floats[i]);
    free(self->layers);
    free(self->runs);
    free(self);
}

const icp_shape *icp_transformer_shape(const icp_transformer *self)
{
    return &self->shape;
}

uint64_t icp_transformer_bytes(const icp_transformer *self)
{
    return self->bytes;
}

uint64_t icp_transformer_row_bytes(const icp_transformer *self)
{
    return self->row_bytes;
}
