/* sim_plain.c - what a request gives, worked out plainly: one sequence, its own blocks in order, no cache and no
 * engine.
 *
 * Stop rules are written here a second time, the simple way: the whole text is searched after each token. */
#include "sim.h"

#include <stdio.h>
#include <stdlib.h>

#define BLOCK_TOKENS 8u

static void must(icp_status status, const char *what)
{
    if (status == ICP_OK) return;
    (void)fprintf(stderr, "sim_plain: %s: %s\n", what, icp_status_name(status));
    abort();
}

void sim_plain_open(sim_plain *self, const icp_model *model, char (*paths)[64])
{
    icp_error error = {""};
    *self = (sim_plain){.backend = fake_open(SIM_VOCABULARY), .model = model};
    icp_transformer_options options = {.gguf = model->gguf,
                                       .backend = self->backend,
                                       .row_count_max = SIM_CONTEXT_MAX,
                                       .sequence_count_max = 1,
                                       .output_count_max = 1};
    must(icp_transformer_open(&self->transformer, &options, &error), error.text);
    icp_kv_options kv = {.block_tokens = BLOCK_TOKENS, .group_count = model->shape.group_count};
    for (uint32_t g = 0; g < kv.group_count; g++) {
        kv.groups[g] = (icp_kv_group){.block_count = SIM_CONTEXT_MAX / BLOCK_TOKENS + 1,
                                      .layer_count = model->shape.groups[g].layer_count,
                                      .head_count = model->shape.groups[g].kv_head_count,
                                      .head_dim = model->shape.groups[g].head_dim};
    }
    must(self->backend->table->kv_open(self->backend, &kv, &error), error.text);
    must(icp_sampler_open(&self->sampler, SIM_VOCABULARY), "sampler");
    for (uint32_t i = 0; i < SIM_ADAPTER_MAX; i++) {
        must(icp_gguf_open(&self->adapter_files[i], paths[i], &error), error.text);
        must(icp_adapter_open(&self->adapters[i], self->transformer, self->adapter_files[i], &error), error.text);
    }
}

void sim_plain_close(sim_plain *self)
{
    for (uint32_t i = 0; i < SIM_ADAPTER_MAX; i++) {
        icp_adapter_close(self->adapters[i]);
        icp_gguf_close(self->adapter_files[i]);
    }
    icp_sampler_close(self->sampler);
    icp_transformer_close(self->transformer);
    self->backend->table->close(self->backend);
}

/* Computes tokens [position, end); the logits of the last. */
static const float *forward(sim_plain *self, const uint32_t *tokens, const uint32_t range[2], uint32_t adapter)
{
    uint32_t identity[SIM_CONTEXT_MAX / BLOCK_TOKENS + 1];
    uint32_t positions[SIM_CONTEXT_MAX];
    uint32_t count = range[1] - range[0];
    for (uint32_t i = 0; i < SIM_CONTEXT_MAX / BLOCK_TOKENS + 1; i++) identity[i] = i;
    for (uint32_t i = 0; i < count; i++) positions[i] = range[0] + i;
    icp_batch_sequence sequence = {.row_count = count, .position = range[0], .tables = {identity, identity}};
    uint32_t last = count - 1;
    icp_batch batch = {.tokens = tokens + range[0],
                       .positions = positions,
                       .row_count = count,
                       .sequences = &sequence,
                       .sequence_count = 1,
                       .output_rows = &last,
                       .output_count = 1};
    const icp_adapter *adapters[1] = {adapter < SIM_ADAPTER_MAX ? self->adapters[adapter] : NULL};
    const float *logits = NULL;
    must(icp_transformer_forward(self->transformer, &batch, adapters, &logits), "forward");
    return logits;
}

/* The first place where a stop string is complete, looked for from the start of text that counts. */
static bool find_stop(const sim_job *job, const sim_answer *answer, uint32_t from, uint32_t *keep)
{
    for (uint32_t end = from + 1; end <= answer->text_bytes; end++) {
        uint32_t longest = 0;
        for (uint32_t i = 0; i < job->submission.stop_count; i++) {
            uint32_t bytes = (uint32_t)job->stops[i].bytes;
            if (end - from < bytes || memcmp(answer->text + end - bytes, job->stops[i].text, bytes) != 0) continue;
            if (bytes > longest) longest = bytes;
        }
        if (longest == 0) continue;
        *keep = end - (job->submission.is_stop_shown ? 0 : longest);
        return true;
    }
    return false;
}

static bool is_end(const sim_job *job, uint32_t token)
{
    bool is_stop = job->submission.stop_token_count != 0 && token == job->stop_tokens[0];
    return (token == SIM_EOS && !job->submission.is_eos_ignored) || is_stop;
}

/* Takes a token; true where it ends the answer. */
static bool take(const sim_plain *self, const sim_job *job, sim_answer *out, uint32_t *early_bytes)
{
    const icp_submission *s = &job->submission;
    uint32_t token = out->tokens[out->count - 1];
    if (is_end(job, token)) {
        out->finish = ICP_FINISH_STOP;
        return true;
    }
    icp_gguf_string text = {"", 0};
    bool is_special = icp_tokenizer_type(self->model->tokenizer, token) != ICP_TOKEN_NORMAL;
    if (!is_special || s->is_special_shown) text = icp_tokenizer_text(self->model->tokenizer, token);
    memcpy(out->text + out->text_bytes, text.text, text.bytes);
    out->text_bytes += (uint32_t)text.bytes;
    uint32_t keep = 0;
    if (out->count < s->output_tokens_min) {
        *early_bytes = out->text_bytes; /* stop strings count from here on */
    } else if (find_stop(job, out, *early_bytes, &keep)) {
        out->text_bytes = keep;
        out->finish = ICP_FINISH_STOP;
        return true;
    }
    if (out->count < s->output_tokens_max) return false;
    out->finish = ICP_FINISH_LENGTH;
    return true;
}

void sim_plain_run(sim_plain *self, const sim_job *job, uint32_t branch, sim_answer *out)
{
    const icp_submission *s = &job->submission;
    sim_text text = job->prompt;
    uint32_t early_bytes = 0;
    uint32_t banned[2] = {SIM_EOS, job->stop_tokens[0]};
    uint32_t range[2] = {0, text.count};
    out->count = out->text_bytes = 0;
    for (;;) {
        icp_sample_input input = {.sampling = &s->sampling,
                                  .logits = forward(self, text.tokens, range, job->adapter),
                                  .tokens = text.tokens,
                                  .token_count = text.count,
                                  .prompt_count = job->prompt.count,
                                  .branch = branch};
        if (out->count < s->output_tokens_min) {
            input.banned = s->is_eos_ignored ? banned + 1 : banned;
            input.banned_count = (s->is_eos_ignored ? 0 : 1) + s->stop_token_count;
        }
        icp_sample sample;
        icp_sampler_sample(self->sampler, &input, &sample);
        out->tokens[out->count++] = sample.token;
        if (take(self, job, out, &early_bytes)) return;
        range[0] = text.count;
        text.tokens[text.count++] = sample.token;
        range[1] = text.count;
    }
}
