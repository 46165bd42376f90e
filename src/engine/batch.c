/* batch.c - the plan as flat arrays for the forward pass. */
#include "engine/engine.h"

void icp_batch_fill(icp_engine *engine)
{
    const icp_plan *plan = &engine->plan;
    uint32_t row = 0;
    uint32_t output_count = 0;
    for (uint32_t i = 0; i < plan->sequence_count; i++) {
        icp_sequence *s = plan->sequences[i];
        icp_batch_sequence *entry = &engine->batch_sequences[i];
        *entry = (icp_batch_sequence){.row_start = row, .row_count = s->chunk, .position = s->computed};
        for (uint32_t group = 0; group < engine->shape->group_count; group++) entry->tables[group] = s->tables[group];
        memcpy(engine->batch_tokens + row, s->tokens + s->computed, s->chunk * sizeof(uint32_t));
        for (uint32_t j = 0; j < s->chunk; j++) engine->batch_positions[row + j] = s->computed + j;
        row += s->chunk;
        uint32_t adapter = engine->scopes[s->job->scope].adapter;
        engine->batch_adapters[i] = adapter == UINT32_MAX ? NULL : engine->adapters[adapter].adapter;
        if (s->computed + s->chunk < s->token_count) continue;
        s->logit_row = output_count;
        engine->batch_outputs[output_count++] = row - 1;
    }
    engine->batch = (icp_batch){.tokens = engine->batch_tokens,
                                .positions = engine->batch_positions,
                                .row_count = row,
                                .sequences = engine->batch_sequences,
                                .sequence_count = plan->sequence_count,
                                .output_rows = engine->batch_outputs,
                                .output_count = output_count};
}
