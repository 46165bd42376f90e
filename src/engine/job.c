/* job.c - requests: checked and copied at submit, forgotten when they have ended and were polled.
 *
 * A job is one piece of memory from malloc, taken at submit and given back when it is forgotten: the record, its
 * branches, and for each of them the tokens of prompt and output. So a step takes no memory, and the sum is bounded:
 * queue_count_max + sequence_count_max branches of context_tokens_max tokens. (Not made at open, since that bound is
 * far more than is ever used; the pages of an output that stays short are never touched.)
 *
 * Each branch takes a place in the queue. A handle is (generation, index): a job that has ended is stale. */
#include "base/arena.h"
#include "engine/engine.h"

#include <stdlib.h>

/* ---- Checks --------------------------------------------------------------------------------------------------- */

static bool is_continuation(uint8_t byte)
{
    return (byte & 0xc0u) == 0x80u;
}

/* Whole characters: what is shown before it ends between two characters. */
static bool is_utf8(const char *text, size_t bytes)
{
    for (size_t i = 0; i < bytes;) {
        uint8_t lead = (uint8_t)text[i];
        size_t length = lead < 0x80 ? 1 : lead < 0xc2 ? 0 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : lead < 0xf5 ? 4 : 0;
        if (length == 0 || length > bytes - i) return false;
        for (size_t j = 1; j < length; j++) {
            if (!is_continuation((uint8_t)text[i + j])) return false;
        }
        i += length;
    }
    return true;
}

static icp_status check_stops(const icp_submission *s, uint32_t vocabulary, icp_error *error)
{
    if (s->stop_count > ICP_STOP_COUNT_MAX || s->stop_token_count > ICP_STOP_COUNT_MAX)
        return icp_fail(error, ICP_BAD_ARGUMENT, "there are more than %u stop strings or stop tokens",
                        ICP_STOP_COUNT_MAX);
    if ((s->stop_count != 0 && s->stops == NULL) || (s->stop_token_count != 0 && s->stop_tokens == NULL))
        return icp_fail(error, ICP_BAD_ARGUMENT, "stops is NULL, but their count is not 0");
    for (uint32_t i = 0; i < s->stop_count; i++) {
        const icp_stop *stop = &s->stops[i];
        if (stop->text == NULL || stop->bytes == 0 || stop->bytes > ICP_STOP_BYTES_MAX)
            return icp_fail(error, ICP_BAD_ARGUMENT, "stop string %u is not of 1 to %u bytes", i, ICP_STOP_BYTES_MAX);
        if (!is_utf8(stop->text, stop->bytes))
            return icp_fail(error, ICP_BAD_ARGUMENT, "stop string %u is not valid UTF-8", i);
    }
    for (uint32_t i = 0; i < s->stop_token_count; i++) {
        if (s->stop_tokens[i] >= vocabulary)
            return icp_fail(error, ICP_BAD_ARGUMENT, "stop token %u is not in the vocabulary", s->stop_tokens[i]);
    }
    return ICP_OK;
}

static icp_status check_extras(const icp_submission *s, icp_error *error)
{
    uint64_t end = 0;
    if (s->extra_count != 0 && s->extras == NULL)
        return icp_fail(error, ICP_BAD_ARGUMENT, "extras is NULL, but extra_count is not 0");
    if (s->extra_count > s->token_count) return icp_fail(error, ICP_BAD_ARGUMENT, "there are more extras than tokens");
    for (size_t i = 0; i < s->extra_count; i++) {
        const icp_extra *extra = &s->extras[i];
        bool has_id = extra->id != NULL && extra->id_bytes >= 1 && extra->id_bytes <= ICP_EXTRA_ID_BYTES_MAX;
        if (extra->length == 0 || extra->position < end || !has_id)
            return icp_fail(error, ICP_BAD_ARGUMENT, "extra %zu is empty, out of order, or has no id of 1 to %u bytes",
                            i, ICP_EXTRA_ID_BYTES_MAX);
        end = (uint64_t)extra->position + extra->length;
        if (end > s->token_count) return icp_fail(error, ICP_BAD_ARGUMENT, "extra %zu ends past the prompt", i);
    }
    return ICP_OK;
}

static icp_status check_lengths(const icp_engine *engine, const icp_submission *s, icp_error *error)
{
    uint32_t context = engine->capacity.context_tokens;
    if (s->tokens == NULL || s->token_count == 0) return icp_fail(error, ICP_BAD_ARGUMENT, "the prompt is empty");
    if (s->branch_count > ICP_BRANCH_COUNT_MAX)
        return icp_fail(error, ICP_BAD_ARGUMENT, "branch_count is more than %u", ICP_BRANCH_COUNT_MAX);
    if (s->branch_count > engine->options.queue_count_max)
        return icp_fail(error, ICP_BAD_ARGUMENT, "branch_count is more than the queue holds, %u",
                        engine->options.queue_count_max);
    if (s->token_count >= context)
        return icp_fail(error, ICP_TOO_LONG, "the prompt has %zu tokens, and the context has room for %u with one more",
                        s->token_count, context);
    if (s->output_tokens_max > context - s->token_count)
        return icp_fail(error, ICP_TOO_LONG, "%zu tokens of prompt and %u of output do not fit a context of %u",
                        s->token_count, s->output_tokens_max, context);
    return ICP_OK;
}

static icp_status check(const icp_engine *engine, const icp_submission *s, icp_error *error)
{
    uint32_t vocabulary = engine->shape->vocabulary;
    icp_status status = check_lengths(engine, s, error);
    if (status != ICP_OK) return status;
    for (size_t i = 0; i < s->token_count; i++) {
        if (s->tokens[i] >= vocabulary)
            return icp_fail(error, ICP_BAD_ARGUMENT, "token %u at %zu is not in the vocabulary of %u", s->tokens[i], i,
                            vocabulary);
    }
    if (s->flags & ~(ICP_NO_READ | ICP_NO_STORE))
        return icp_fail(error, ICP_BAD_ARGUMENT, "flags has bits other than ICP_NO_READ and ICP_NO_STORE");
    status = icp_sampling_check(&s->sampling, vocabulary, error);
    if (status == ICP_OK) status = check_stops(s, vocabulary, error);
    if (status == ICP_OK) status = check_extras(s, error);
    return status;
}

/* ---- Copying -------------------------------------------------------------------------------------------------- */

/* A job being laid out: with memory NULL only its size is measured. */
typedef struct job_layout {
    const icp_engine *engine;
    const icp_submission *submission;
    icp_arena arena;
    uint32_t branch_count;
    uint32_t output_max;
    uint32_t token_room;
    uint32_t text_room;
} job_layout;

static void *copy_in(job_layout *layout, const void *from, size_t count, size_t bytes)
{
    void *to = icp_arena_take(&layout->arena, count, bytes);
    if (to != NULL && count != 0) memcpy(to, from, count * bytes);
    return to;
}

static void lay_out_stops(job_layout *layout, icp_job_record *job)
{
    const icp_submission *s = layout->submission;
    icp_stop_string *stops = icp_arena_take(&layout->arena, s->stop_count, sizeof(*stops));
    for (uint32_t i = 0; i < s->stop_count; i++) {
        char *text = icp_arena_take(&layout->arena, s->stops[i].bytes + 1, 1);
        uint16_t *failure = icp_arena_take(&layout->arena, s->stops[i].bytes, sizeof(*failure));
        if (stops == NULL || text == NULL || failure == NULL) continue;
        uint32_t bytes = (uint32_t)s->stops[i].bytes;
        memcpy(text, s->stops[i].text, bytes);
        text[bytes] = '\0';
        icp_stop_prepare(text, bytes, failure);
        stops[i] = (icp_stop_string){text, failure, bytes};
    }
    uint32_t end_count = s->is_eos_ignored ? 0 : layout->engine->end_token_count;
    uint32_t *banned = icp_arena_take(&layout->arena, (size_t)end_count + s->stop_token_count, sizeof(*banned));
    if (job == NULL) return;
    if (banned != NULL) {
        memcpy(banned, layout->engine->end_tokens, end_count * sizeof(*banned));
        if (s->stop_token_count != 0) memcpy(banned + end_count, s->stop_tokens, s->stop_token_count * sizeof(*banned));
    }
    job->stops = stops;
    job->stop_count = s->stop_count;
    job->banned = banned;
    job->end_count = end_count;
    job->banned_count = end_count + s->stop_token_count;
}

static void lay_out_extras(job_layout *layout, icp_job_record *job)
{
    const icp_submission *s = layout->submission;
    icp_extra *extras = copy_in(layout, s->extras, s->extra_count, sizeof(*extras));
    for (size_t i = 0; i < s->extra_count; i++) {
        void *id = copy_in(layout, s->extras[i].id, s->extras[i].id_bytes, 1);
        if (extras != NULL) extras[i].id = id;
    }
    if (job == NULL) return;
    job->extras = extras;
    job->extra_count = (uint32_t)s->extra_count;
}

static void lay_out_sequence(job_layout *layout, icp_job_record *job, uint32_t branch)
{
    const icp_submission *s = layout->submission;
    uint32_t *tokens = icp_arena_take(&layout->arena, layout->token_room, sizeof(*tokens));
    char *text = icp_arena_take(&layout->arena, layout->text_room, 1);
    uint16_t *states = icp_arena_take(&layout->arena, s->stop_count, sizeof(*states));
    if (job == NULL) return;
    icp_sequence *sequence = &job->sequences[branch];
    memset(sequence, 0, sizeof(*sequence));
    if (states != NULL) memset(states, 0, s->stop_count * sizeof(*states));
    memcpy(tokens, s->tokens, s->token_count * sizeof(*tokens));
    sequence->job = job;
    sequence->branch = branch;
    sequence->tokens = tokens;
    sequence->token_count = (uint32_t)s->token_count;
    sequence->text = text;
    sequence->stop_states = states;
    sequence->logit_step = UINT64_MAX;
    sequence->state = ICP_SEQUENCE_BRANCHING;
    icp_output_start(sequence, layout->engine->model->tokenizer, s->is_special_shown != 0);
    icp_output_init(&sequence->output);
    sequence->output.branch = branch;
    sequence->output.context = s->context;
    sequence->output.text = text;
    sequence->output.stop_token = ICP_TOKEN_NONE;
    sequence->output.prompt_tokens = (uint32_t)s->token_count;
}

static icp_job_record *lay_out(job_layout *layout)
{
    const icp_submission *s = layout->submission;
    icp_job_record *job = icp_arena_take(&layout->arena, 1, sizeof(*job));
    icp_sequence *sequences = icp_arena_take(&layout->arena, layout->branch_count, sizeof(*sequences));
    icp_bias *biases = copy_in(layout, s->sampling.biases, s->sampling.bias_count, sizeof(*biases));
    if (job != NULL) {
        *job = (icp_job_record){.context = s->context,
                                .priority = s->priority,
                                .flags = s->flags,
                                .prompt_count = (uint32_t)s->token_count,
                                .output_max = layout->output_max,
                                .output_min = s->output_tokens_min,
                                .branch_count = layout->branch_count,
                                .live_count = layout->branch_count,
                                .is_eos_ignored = s->is_eos_ignored != 0,
                                .is_stop_shown = s->is_stop_shown != 0,
                                .sampling = s->sampling,
                                .sequences = sequences};
        job->sampling.biases = biases;
    }
    lay_out_stops(layout, job);
    lay_out_extras(layout, job);
    for (uint32_t branch = 0; branch < layout->branch_count; branch++) lay_out_sequence(layout, job, branch);
    return job;
}

static icp_job_record *job_make(const icp_engine *engine, const icp_submission *s)
{
    uint32_t block_tokens = engine->options.block_tokens;
    uint32_t prompt = (uint32_t)s->token_count;
    size_t stop_bytes = 0;
    for (uint32_t i = 0; i < s->stop_count; i++) {
        if (s->stops[i].bytes > stop_bytes) stop_bytes = s->stops[i].bytes;
    }
    job_layout layout = {.engine = engine, .submission = s, .branch_count = s->branch_count == 0 ? 1 : s->branch_count};
    layout.output_max = s->output_tokens_max == 0 ? engine->capacity.context_tokens - prompt : s->output_tokens_max;
    layout.token_room = (prompt + layout.output_max + block_tokens - 1) / block_tokens * block_tokens;
    layout.text_room = (uint32_t)icp_output_room(engine->model->tokenizer, stop_bytes);
    lay_out(&layout);
    size_t bytes = (layout.arena.used + ICP_ARENA_ALIGN - 1) / ICP_ARENA_ALIGN * ICP_ARENA_ALIGN;
    if (layout.arena.is_overflown) return NULL;
    void *memory = aligned_alloc(ICP_ARENA_ALIGN, bytes);
    if (memory == NULL) return NULL;
    layout.arena = (icp_arena){.base = memory};
    return lay_out(&layout);
}

/* ---- Handles -------------------------------------------------------------------------------------------------- */

static icp_job handle_of(const icp_engine *engine, const icp_job_record *job)
{
    return (icp_job)engine->generations[job->index] << 32 | job->index;
}

icp_job_record *icp_job_find(const icp_engine *engine, icp_job job)
{
    uint32_t index = (uint32_t)job;
    if (index >= engine->heap_count_max || engine->generations[index] != (uint32_t)(job >> 32)) return NULL;
    return engine->jobs[index];
}

void icp_job_end_branch(icp_engine *engine, icp_job_record *job, icp_finish how)
{
    if (--job->live_count != 0) return;
    *(how == ICP_FINISH_CANCELLED ? &engine->stats.cancelled_count : &engine->stats.finished_count) += 1;
    icp_engine_scope_release(engine, job->scope);
    job->next = engine->ended;
    engine->ended = job;
}

void icp_job_reap(icp_engine *engine)
{
    icp_job_record **link = &engine->ended;
    while (*link != NULL) {
        icp_job_record *job = *link;
        if (job->waiting_count != 0) {
            link = &job->next;
            continue;
        }
        *link = job->next;
        engine->jobs[job->index] = NULL;
        engine->free_jobs[engine->free_job_count++] = job->index;
        free(job);
    }
}

/* ---- The calls ------------------------------------------------------------------------------------------------ */

static void job_enter(icp_engine *engine, icp_job_record *job)
{
    uint32_t index = engine->free_jobs[--engine->free_job_count];
    engine->generations[index] = engine->generations[index] == UINT32_MAX ? 1 : engine->generations[index] + 1;
    engine->jobs[index] = job;
    job->index = index;
    job->serial = engine->job_serial++;
    for (uint32_t i = 0; i < job->branch_count; i++) job->sequences[i].output.job = handle_of(engine, job);
    icp_queue_push(engine, &job->sequences[0]);
    engine->branching_count += job->branch_count - 1;
    engine->stats.submitted_count++;
}

static icp_status submit(icp_engine *engine, const icp_submission *s, icp_job *out, icp_error *error)
{
    icp_status status = check(engine, s, error);
    if (status != ICP_OK) return status;
    uint32_t places = s->branch_count == 0 ? 1 : s->branch_count;
    uint32_t waiting = engine->heap_count + engine->branching_count;
    if (waiting > engine->options.queue_count_max - places || engine->free_job_count == 0)
        return icp_fail(error, ICP_FULL, "the queue is full: %u sequences wait", waiting);
    uint32_t scope;
    status = icp_engine_scope_acquire(engine, s, &scope, error);
    if (status != ICP_OK) return status;
    icp_job_record *job = job_make(engine, s);
    if (job == NULL) {
        icp_engine_scope_release(engine, scope);
        return icp_fail(error, ICP_NO_MEMORY, "there is no memory for the request");
    }
    job->scope = scope;
    job_enter(engine, job);
    *out = handle_of(engine, job);
    return ICP_OK;
}

icp_status icp_engine_submit(icp_engine *engine, const icp_submission *submission, icp_job *job, icp_error *error)
{
    if (engine == NULL || submission == NULL || job == NULL || submission->struct_size < sizeof(size_t))
        return icp_fail(error, ICP_BAD_ARGUMENT, "an argument is NULL, or struct_size was not set");
    icp_submission known;
    icp_submission_init(&known);
    size_t bytes = submission->struct_size < sizeof(known) ? submission->struct_size : sizeof(known);
    memcpy(&known, submission, bytes);
    icp_status status = submit(engine, &known, job, error);
    if (status != ICP_OK) engine->stats.refused_count++;
    return status;
}

icp_status icp_engine_cancel(icp_engine *engine, icp_job job)
{
    if (engine == NULL) return ICP_BAD_ARGUMENT;
    icp_job_reap(engine);
    icp_job_record *record = icp_job_find(engine, job);
    if (record == NULL || record->live_count == 0) return ICP_STALE;
    for (uint32_t i = 0; i < record->branch_count; i++) {
        icp_sequence *sequence = &record->sequences[i];
        if (sequence->state != ICP_SEQUENCE_ENDED) icp_commit_end(engine, sequence, ICP_FINISH_CANCELLED);
    }
    return ICP_OK;
}
