/* transformer.c - the forward pass: icp_transformer_forward is the whole of it, layer by layer.
 *
 *      x = embedding[token]
 *      for each layer:
 *          x += out(attend(rotate(norm(q)), rotate(norm(k)), v))       q, k, v = norm(x) times their matrices
 *          x += down(gate(norm(x)) * up(norm(x)))
 *      logits = output(norm(x))                                          of the output rows alone
 *
 * What a layer has (biases, norms of heads, norms after attention and feed-forward network) follows from which of its
 * parts are there. In the last layer, keys and values are all that rows without an output are needed for: the
 * output rows are gathered behind its attention, and the rest is computed for them alone. A batch without outputs, a
 * chunk in the middle of a prompt, ends with the last layer's keys and values.
 *
 * ADAPTERS. Sequences that follow one another and use the same adapter form a run. After each product of a matrix, the
 * adapter's two small matrices are multiplied for the rows of its runs and added. So one batch mixes any
 * adapters, rows without one are not touched, and each row's sums are the same as if its sequence were alone. */
#include "model/transformer_layer.h"

#include "base/assert.h"

/* One product with a matrix of a layer. */
typedef struct product {
    icp_part matrix;
    float *out;
    bool is_added;
} product;

/* The rows that are being computed: all of the batch, or its output rows. */
typedef struct pass {
    icp_transformer *model;
    const icp_backend_table *on;
    icp_backend *backend;
    uint32_t layer;
    float *x;
    uint32_t row_count;
    bool is_outputs;
} pass;

/* ---- Adapters ------------------------------------------------------------------------------------------- */

static void find_runs(icp_transformer *self, const icp_batch *batch, const icp_adapter *const *adapters)
{
    self->run_count = 0;
    uint32_t output = 0;
    const icp_adapter *before = NULL;
    for (uint32_t s = 0; adapters != NULL && s < batch->sequence_count; s++) {
        const icp_batch_sequence *sequence = &batch->sequences[s];
        uint32_t row_end = sequence->row_start + sequence->row_count;
        uint32_t output_start = output;
        while (output < batch->output_count && batch->output_rows[output] < row_end) output++;
        if (adapters[s] != NULL && adapters[s] == before) {
            icp_run *run = &self->runs[self->run_count - 1];
            run->row_count += sequence->row_count;
            run->output_count += output - output_start;
        } else if (adapters[s] != NULL) {
            ICP_ASSERT(adapters[s]->transformer == self);
            self->runs[self->run_count++] = (icp_run){
                .adapter = adapters[s],
                .row_start = sequence->row_start,
                .row_count = sequence->row_count,
                .output_start = output_start,
                .output_count = output - output_start,
            };
        }
        before = adapters[s];
    }
}

/* Adds what the runs' adapters add to products: pairs[i] of an adapter belongs to outputs[i] of the linear. */
static void adapt(const pass *at, const icp_linear *linear, const uint32_t *pairs)
{
    const icp_transformer *model = at->model;
    for (uint32_t r = 0; r < model->run_count; r++) {
        const icp_run *run = &model->runs[r];
        const icp_adapter *adapter = run->adapter;
        size_t start = at->is_outputs ? run->output_start : run->row_start;
        uint32_t row_count = at->is_outputs ? run->output_count : run->row_count;
        if (row_count == 0) continue;
        icp_linear down = {.row_count = row_count};
        icp_linear up[ICP_ADAPTER_SHARED_MAX];
        for (uint32_t i = 0; i < linear->output_count; i++) {
            const icp_pair *pair = &adapter->pairs[pairs[i]];
            if (pair->a == NULL) continue;
            float *products = adapter->products + (size_t)i * model->row_count_max * adapter->rank_max;
            icp_linear_output *from = &down.outputs[down.output_count];
            *from = (icp_linear_output){.weight = pair->a, .out = products, .scale = 1};
            up[down.output_count++] = (icp_linear){
                .x = products,
                .row_count = row_count,
                .output_count = 1,
                .outputs = {{.weight = pair->b,
                             .out = linear->outputs[i].out + start * pair->rows,
                             .scale = pair->scale,
                             .is_added = true}},
            };
            down.x = linear->x + start * pair->columns;
        }
        if (down.output_count == 0) continue;
        at->on->linear(at->backend, &down);
        for (uint32_t i = 0; i < down.output_count; i++) at->on->linear(at->backend, &up[i]);
    }
}

/* ---- Parts of a layer ----------------------------------------------------------------------------------- */

static void multiply(const pass *at, const float *x, const product *products, uint32_t count)
{
    const icp_layer *layer = &at->model->layers[at->layer];
    icp_linear linear = {.x = x, .row_count = at->row_count, .output_count = count};
    uint32_t pairs[ICP_LINEAR_OUTPUTS_MAX];
    for (uint32_t i = 0; i < count; i++) {
        icp_part matrix = products[i].matrix;
        linear.outputs[i] = (icp_linear_output){
            .weight = layer->matrices[matrix],
            .bias = layer->vectors[matrix + ICP_MATRIX_COUNT],
            .out = products[i].out,
            .scale = 1,
            .is_added = products[i].is_added,
        };
        pairs[i] = at->layer * ICP_MATRIX_COUNT + (uint32_t)matrix;
    }
    at->on->linear(at->backend, &linear);
    adapt(at, &linear, pairs);
}

/* out = norm(x), or nothing where the weight is NULL. */
static void norm(const pass *at, const float *weight, const float *x, float *out)
{
    if (weight == NULL) return;
    const icp_shape *shape = &at->model->shape;
    at->on->norm(at->backend, &(icp_norm){.x = x,
                                          .weight = weight,
                                          .out = out,
                                          .row_count = at->row_count,
                                          .head_count = 1,
                                          .width = shape->width,
                                          .epsilon = shape->norm_epsilon});
}

/* Queries or keys: each head normed, where the model does that, and turned. */
static void turn(const pass *at, icp_part norm_part, float *heads, uint32_t head_count)
{
    const icp_shape *shape = &at->model->shape;
    const float *weight = at->model->layers[at->layer].vectors[norm_part];
    if (weight != NULL) {
        at->on->norm(at->backend, &(icp_norm){.x = heads,
                                              .weight = weight,
                                              .out = heads,
                                              .row_count = at->row_count,
                                              .head_count = head_count,
                                              .width = shape->head_dim,
                                              .epsilon = shape->norm_epsilon});
    }
    const icp_rope *rope = at->model->ropes[shape->layers[at->layer].group];
    at->on->rotate(at->backend, &(icp_rotate){rope, heads, head_count, shape->head_dim});
}

/* x += weight * from, through a norm where the model has one behind the matrix. */
static void add_back(const pass *at, icp_part matrix, icp_part norm_part, const float *from)
{
    icp_transformer *model = at->model;
    const float *weight = model->layers[at->layer].vectors[norm_part];
    if (weight == NULL) {
        multiply(at, from, &(product){matrix, at->x, true}, 1);
        return;
    }
    multiply(at, from, &(product){matrix, model->normed, false}, 1);
    norm(at, weight, model->normed, model->normed);
    at->on->add(at->backend, &(icp_add){at->x, model->normed, at->row_count, model->shape.width});
}

/* Writes the layer's keys and values, then fills mixed with what attention reads. */
static void attend(const pass *at, bool is_store_only)
{
    icp_transformer *model = at->model;
    const icp_shape *shape = &model->shape;
    icp_shape_layer place = shape->layers[at->layer];
    norm(at, model->layers[at->layer].vectors[ICP_PART_ATTENTION_NORM], at->x, model->normed);
    const product products[] = {
        {ICP_PART_K, model->k, false}, {ICP_PART_V, model->v, false}, {ICP_PART_Q, model->q, false}};
    multiply(at, model->normed, products, is_store_only ? 2 : 3);
    turn(at, ICP_PART_K_NORM, model->k, shape->kv_head_count);
    at->on->store(at->backend, &(icp_store){place.group, place.index, model->k, model->v});
    if (is_store_only) return;
    turn(at, ICP_PART_Q_NORM, model->q, shape->head_count);
    at->on->attend(at->backend, &(icp_attend){.group = place.group,
                                              .layer = place.index,
                                              .q = model->q,
                                              .out = model->mixed,
                                              .head_count = shape->head_count,
                                              .window = shape->groups[place.group].window,
                                              .scale = shape->attention_scale,
                                              .softcap = shape->attention_softcap});
}

static void feed_forward(const pass *at)
{
    icp_transformer *model = at->model;
    const icp_shape *shape = &model->shape;
    norm(at, model->layers[at->layer].vectors[ICP_PART_FEED_NORM], at->x, model->normed);
    const product products[] = {{ICP_PART_GATE, model->gate, false}, {ICP_PART_UP, model->up, false}};
    multiply(at, model->normed, products, 2);
    at->on->gate(at->backend,
                 &(icp_gate){shape->gate_kind, model->gate, model->up, at->row_count, shape->hidden_width});
    add_back(at, ICP_PART_DOWN, ICP_PART_FEED_POST_NORM, model->gate);
}

/* From here on, the output rows alone: of x, and of what attention gave, which goes where the queries were. */
static const float *gather(pass *at, uint32_t output_count)
{
    icp_transformer *model = at->model;
    uint32_t query_width = model->shape.head_count * model->shape.head_dim;
    at->on->gather(at->backend, &(icp_gather){model->x, model->outputs, model->shape.width});
    at->on->gather(at->backend, &(icp_gather){model->mixed, model->q, query_width});
    at->x = model->outputs;
    at->row_count = output_count;
    at->is_outputs = true;
    return model->q;
}

static void project(const pass *at)
{
    icp_transformer *model = at->model;
    const icp_shape *shape = &model->shape;
    norm(at, model->output_norm, at->x, at->x);
    icp_linear linear = {
        .x = at->x,
        .row_count = at->row_count,
        .output_count = 1,
        .outputs = {{.weight = shape->is_tied ? model->embedding : model->output,
                     .bias = model->output_bias,
                     .out = model->logits,
                     .scale = 1}},
    };
    at->on->linear(at->backend, &linear);
    adapt(at, &linear, &(uint32_t){shape->layer_count * ICP_MATRIX_COUNT});
    if (shape->logit_softcap > 0)
        at->on->cap(at->backend, &(icp_cap){model->logits, at->row_count, shape->vocabulary, shape->logit_softcap});
}

/* ---- The pass ------------------------------------------------------------------------------------------- */

static void show(const pass *at, uint32_t layer)
{
    icp_transformer *model = at->model;
    if (model->tap == NULL) return;
    uint32_t width = model->shape.width;
    const float *rows = at->on->floats_view(at->backend, at->x, (size_t)at->row_count * width);
    model->tap(model->tap_context, layer, rows, at->row_count, width);
}

void icp_transformer_tap(icp_transformer *self, icp_tap_fn *fn, void *context)
{
    self->tap = fn;
    self->tap_context = context;
}

icp_status icp_transformer_forward(icp_transformer *self, const icp_batch *batch, const icp_adapter *const *adapters,
                                   const float **logits)
{
    ICP_ASSERT(batch->row_count != 0 && batch->row_count <= self->row_count_max);
    ICP_ASSERT(batch->sequence_count <= self->sequence_count_max && batch->output_count <= self->output_count_max);
    const icp_shape *shape = &self->shape;
    pass at = {
        .model = self,
        .on = self->backend->table,
        .backend = self->backend,
        .x = self->x,
        .row_count = batch->row_count,
    };
    find_runs(self, batch, adapters);

    at.on->begin(at.backend, batch);
    at.on->embed(at.backend, &(icp_embed){self->embedding, shape->embedding_scale, self->x});
    for (at.layer = 0; at.layer < shape->layer_count; at.layer++) {
        bool is_last = at.layer + 1 == shape->layer_count;
        bool is_store_only = is_last && batch->output_count == 0;
        attend(&at, is_store_only);
        if (is_store_only) break;
        const float *mixed = is_last ? gather(&at, batch->output_count) : self->mixed;
        add_back(&at, ICP_PART_ATTENTION_OUT, ICP_PART_ATTENTION_POST_NORM, mixed);
        feed_forward(&at);
        show(&at, at.layer);
    }
    if (batch->output_count != 0) {
        project(&at);
        show(&at, shape->layer_count);
    }
    icp_status status = at.on->end(at.backend);
    if (status != ICP_OK) return status;
    *logits = at.on->floats_view(at.backend, self->logits, (size_t)batch->output_count * shape->vocabulary);
    return ICP_OK;
}
