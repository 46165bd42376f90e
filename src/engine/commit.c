/* commit.c - after a step was computed: a token for each sequence whose last known token was in it, and what follows
 * from that: branches start, sequences end.
 *
 * Sampling writes into the output of the sequence; committing appends the token, makes the text that may be shown and
 * applies the stop rules. Nothing here can fail. */
#include "engine/engine.h"

static uint32_t output_count_of(const icp_sequence *sequence)
{
    return sequence->token_count - sequence->job->prompt_count;
}

/* The step has computed all that is known of it. */
static bool is_caught_up(const icp_sequence *sequence)
{
    return sequence->computed + sequence->chunk == sequence->token_count;
}

/* The step has computed the last token of a prompt: all branches take their first token from it. */
static uint32_t branches_at(const icp_sequence *sequence)
{
    return output_count_of(sequence) == 0 ? sequence->job->branch_count : 1;
}

/* ---- Sampling ------------------------------------------------------------------------------------------------- */

static void sample(icp_engine *engine, icp_sequence *sequence, uint32_t logit_row)
{
    const icp_job_record *job = sequence->job;
    bool is_early = output_count_of(sequence) < job->output_min;
    icp_sample_input input = {.sampling = &job->sampling,
                              .logits = engine->logits + (size_t)logit_row * engine->shape->vocabulary,
                              .tokens = sequence->tokens,
                              .token_count = sequence->token_count,
                              .prompt_count = job->prompt_count,
                              .branch = sequence->branch,
                              .banned = job->banned,
                              .banned_count = is_early ? job->banned_count : 0};
    icp_sample result;
    icp_sampler_sample(engine->sampler, &input, &result);
    icp_output *output = &sequence->output;
    output->token = result.token;
    output->logprob = result.logprob;
    output->candidate_count = result.candidate_count;
    memcpy(output->candidates, result.candidates, result.candidate_count * sizeof(result.candidates[0]));
    sequence->logit_step = engine->stats.step_count;
    sequence->logit_row = logit_row;
}

void icp_commit_sample(icp_engine *engine)
{
    for (uint32_t i = 0; i < engine->plan.sequence_count; i++) {
        icp_sequence *first = engine->plan.sequences[i];
        if (!is_caught_up(first)) continue;
        uint32_t count = branches_at(first);
        for (uint32_t b = 0; b < count; b++) sample(engine, first + b, first->logit_row);
    }
}

/* ---- Ends ----------------------------------------------------------------------------------------------------- */

static void finish(icp_engine *engine, icp_sequence *sequence, icp_finish how)
{
    switch (sequence->state) {
    case ICP_SEQUENCE_RUNNING:
        icp_sequence_publish_end(engine, sequence);
        icp_running_remove(engine, sequence);
        icp_sequence_release(engine, sequence);
        engine->is_admission_closed = false;
        break;
    case ICP_SEQUENCE_WAITING:
        icp_queue_remove(engine, sequence);
        break;
    case ICP_SEQUENCE_BRANCHING:
        engine->branching_count--;
        break;
    default:
        ICP_ASSERT(sequence->state != ICP_SEQUENCE_ENDED);
    }
    sequence->state = ICP_SEQUENCE_ENDED;
    sequence->output.finish = how;
    icp_output_add(engine, sequence);
    icp_job_end_branch(engine, sequence->job, how);
}

void icp_commit_end(icp_engine *engine, icp_sequence *sequence, icp_finish how)
{
    if (!sequence->is_output_waiting) { /* otherwise the last token's output says that it ended */
        sequence->output.token = ICP_TOKEN_NONE;
        sequence->output.candidate_count = 0;
        (void)icp_output_text(sequence, ICP_TOKEN_NONE);
        if (how == ICP_FINISH_LENGTH) (void)icp_output_flush(sequence); /* what was held back is part of the text */
        sequence->output.text_bytes = sequence->text_shown;
    }
    finish(engine, sequence, how);
}

/* The place of a token among those that end the job; end_count and up are the caller's. banned_count: it does not. */
static uint32_t end_of(const icp_job_record *job, uint32_t token)
{
    uint32_t i = 0;
    while (i < job->banned_count && job->banned[i] != token) i++;
    return i;
}

/* Appends the token that was sampled, and tells how the sequence goes on. */
static icp_finish append(icp_sequence *sequence)
{
    const icp_job_record *job = sequence->job;
    icp_output *output = &sequence->output;
    sequence->tokens[sequence->token_count++] = output->token;
    uint32_t count = output_count_of(sequence);
    uint32_t end = end_of(job, output->token);
    icp_finish how = ICP_FINISH_NONE;
    const icp_stop_string *stop = NULL;
    if (end < job->banned_count) {
        if (end >= job->end_count) output->stop_token = output->token;
        how = ICP_FINISH_STOP;
        (void)icp_output_text(sequence, ICP_TOKEN_NONE);
    } else {
        stop = icp_output_text(sequence, output->token);
        if (count == job->output_max) how = ICP_FINISH_LENGTH;
    }
    if (how != ICP_FINISH_NONE && stop == NULL) stop = icp_output_flush(sequence);
    if (stop != NULL) {
        output->stop_text = stop->text;
        how = ICP_FINISH_STOP;
    }
    output->text = sequence->text;
    output->text_bytes = sequence->text_shown;
    output->output_tokens = count;
    return how;
}

static void commit_token(icp_engine *engine, icp_sequence *sequence)
{
    icp_finish how = append(sequence);
    sequence->output.cached_tokens = sequence->job->cached;
    sequence->output.preempted_count = sequence->preempted_count;
    engine->stats.output_tokens++;
    if (how != ICP_FINISH_NONE)
        finish(engine, sequence, how);
    else
        icp_output_add(engine, sequence);
}

/* ---- Commit --------------------------------------------------------------------------------------------------- */

static void count_computed(icp_engine *engine, icp_sequence *sequence)
{
    icp_job_record *job = sequence->job;
    if (!job->is_scheduled) {
        job->is_scheduled = true;
        job->cached = sequence->cached;
        engine->stats.prompt_tokens += job->prompt_count;
        engine->stats.cached_tokens += job->cached;
    }
    uint32_t start = sequence->computed;
    uint32_t again = sequence->computed_most > start ? sequence->computed_most - start : 0;
    engine->stats.recomputed_tokens += again < sequence->chunk ? again : sequence->chunk;
    engine->stats.computed_tokens += sequence->chunk;
    sequence->computed += sequence->chunk;
    sequence->chunk = 0;
    if (sequence->computed > sequence->computed_most) sequence->computed_most = sequence->computed;
}

/* The other branches of a prompt that was just computed have their first token; those that go on wait to run. */
static void commit_branches(icp_engine *engine, icp_sequence *first, uint32_t count)
{
    for (uint32_t b = 1; b < count; b++) {
        engine->branching_count--;
        icp_queue_push(engine, first + b);
        commit_token(engine, first + b);
    }
}

void icp_commit(icp_engine *engine)
{
    for (uint32_t i = 0; i < engine->plan.sequence_count; i++) {
        icp_sequence *sequence = engine->plan.sequences[i];
        bool has_token = is_caught_up(sequence);
        uint32_t branch_count = branches_at(sequence);
        count_computed(engine, sequence);
        if (!has_token) continue;
        commit_token(engine, sequence);
        commit_branches(engine, sequence, branch_count);
    }
}
