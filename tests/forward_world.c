/* forward_world.c - a model on the CPU backend, for tests. */
#include "forward_world.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

static void open_kv(forward_world *world, const forward_options *options)
{
    icp_kv_options kv = {
        .type = options->kv_type,
        .block_tokens = world->block_tokens,
        .group_count = world->shape->group_count,
    };
    for (uint32_t g = 0; g < kv.group_count; g++) {
        const icp_shape_group *group = &world->shape->groups[g];
        kv.groups[g] = (icp_kv_group){
            .block_count = options->block_count != 0 ? options->block_count : FORWARD_BLOCKS_MAX,
            .layer_count = group->layer_count,
            .head_count = group->kv_head_count,
            .head_dim = group->head_dim,
        };
    }
    icp_error error = {""};
    if (world->backend->table->kv_open(world->backend, &kv, &error) != ICP_OK) fail_msg("kv: %s", error.text);
}

void forward_open(forward_world *world, const forward_options *options)
{
    *world = (forward_world){.kv_type = options->kv_type,
                             .block_tokens = options->block_tokens != 0 ? options->block_tokens : 16};
    icp_error error = {""};
    icp_status status = options->image != NULL
                            ? icp_gguf_open_memory(&world->gguf, options->image, options->image_bytes, &error)
                            : icp_gguf_open(&world->gguf, options->path, &error);
    if (status != ICP_OK) fail_msg("gguf: %s", error.text);
    status = icp_cpu_open(&world->backend, options->thread_count != 0 ? options->thread_count : 1, &error);
    if (status != ICP_OK) fail_msg("backend: %s", error.text);
    const icp_transformer_options wanted = {
        .gguf = world->gguf,
        .backend = world->backend,
        .row_count_max = FORWARD_ROWS_MAX,
        .sequence_count_max = FORWARD_PIECES_MAX,
        .output_count_max = FORWARD_ROWS_MAX,
    };
    status = icp_transformer_open(&world->transformer, &wanted, &error);
    if (status != ICP_OK) fail_msg("transformer: %s", error.text);
    world->shape = icp_transformer_shape(world->transformer);
    open_kv(world, options);
}

void forward_close(forward_world *world)
{
    icp_transformer_close(world->transformer);
    world->backend->table->close(world->backend);
    icp_gguf_close(world->gguf);
}

void forward_run(forward_world *world, const forward_piece *pieces, uint32_t count, float *logits)
{
    uint32_t tokens[FORWARD_ROWS_MAX];
    uint32_t positions[FORWARD_ROWS_MAX];
    uint32_t output_rows[FORWARD_ROWS_MAX];
    icp_batch_sequence sequences[FORWARD_PIECES_MAX];
    const icp_adapter *adapters[FORWARD_PIECES_MAX];
    icp_batch batch = {tokens, positions, 0, sequences, count, output_rows, 0};
    assert_true(count <= FORWARD_PIECES_MAX);
    for (uint32_t p = 0; p < count; p++) {
        const forward_piece *piece = &pieces[p];
        assert_true(batch.row_count + piece->count <= FORWARD_ROWS_MAX);
        sequences[p] = (icp_batch_sequence){batch.row_count, piece->count, piece->position, {NULL}};
        for (uint32_t g = 0; g < world->shape->group_count; g++) sequences[p].tables[g] = piece->tables->blocks[g];
        adapters[p] = piece->adapter;
        for (uint32_t i = 0; i < piece->count; i++) {
            tokens[batch.row_count] = piece->tokens[piece->position + i];
            positions[batch.row_count] = piece->position + i;
            if (i >= piece->silent_count) output_rows[batch.output_count++] = batch.row_count;
            batch.row_count++;
        }
    }
    const float *result = NULL;
    assert_int_equal(icp_transformer_forward(world->transformer, &batch, adapters, &result), ICP_OK);
    size_t bytes = (size_t)batch.output_count * world->shape->vocabulary * sizeof(float);
    if (logits != NULL && bytes != 0) memcpy(logits, result, bytes);
}

void forward_tables_from(forward_tables *tables, uint32_t first)
{
    for (uint32_t i = 0; i < FORWARD_BLOCKS_MAX; i++) {
        tables->blocks[0][i] = first + i;
        tables->blocks[1][i] = first + i;
    }
}

void forward_tokens(const forward_world *world, uint32_t *tokens, uint32_t count, uint64_t seed)
{
    uint64_t state = seed;
    for (uint32_t i = 0; i < count; i++) tokens[i] = (uint32_t)(model_make_random(&state) % world->shape->vocabulary);
}
