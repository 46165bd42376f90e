/* sim_job.c - requests of the simulation: drawn, submitted, cancelled, and compared with what they should give. */
#include "sim.h"

#include <stdio.h>
#include <stdlib.h>

/* ---- Drawing -------------------------------------------------------------------------------------------------- */

static uint32_t draw_token(sim *self)
{
    return SIM_FIRST + sim_draw(&self->random, self->config.alphabet);
}

/* A beginning of some text that was there, or nothing, and new tokens. */
static void draw_prompt(sim *self, sim_text *prompt, uint32_t count_max)
{
    prompt->count = 0;
    uint32_t known = self->history_count < SIM_HISTORY_MAX ? self->history_count : SIM_HISTORY_MAX;
    if (known != 0 && !sim_chance(&self->random, 4)) {
        *prompt = self->history[sim_draw(&self->random, known)];
        bool is_next_turn = sim_chance(&self->random, 2);
        if (!is_next_turn) prompt->count = sim_draw(&self->random, prompt->count + 1);
        if (prompt->count > count_max) prompt->count = count_max;
    }
    uint32_t more = sim_chance(&self->random, 3) ? sim_draw(&self->random, count_max) : sim_draw(&self->random, 12);
    for (uint32_t i = 0; i < more && prompt->count < count_max; i++) prompt->tokens[prompt->count++] = draw_token(self);
    if (prompt->count == 0) prompt->tokens[prompt->count++] = draw_token(self);
}

static void remember(sim *self, const sim_text *prompt, const sim_answer *answer)
{
    sim_text *text = &self->history[self->history_count++ % SIM_HISTORY_MAX];
    *text = *prompt;
    for (uint32_t i = 0; answer != NULL && i < answer->count && text->count < SIM_CONTEXT_MAX; i++) {
        text->tokens[text->count++] = answer->tokens[i];
    }
}

static void draw_stops(sim *self, sim_job *job)
{
    icp_submission *s = &job->submission;
    sim_random *random = &self->random;
    s->is_stop_shown = sim_chance(random, 3);
    s->is_special_shown = sim_chance(random, 3);
    s->is_eos_ignored = sim_chance(random, 4);
    if (sim_chance(random, 3)) s->output_tokens_min = sim_draw(random, 8);
    for (uint32_t i = 0; i < SIM_STOP_MAX && sim_chance(random, 2); i++) {
        uint32_t bytes = 1 + sim_draw(random, 3);
        for (uint32_t j = 0; j < bytes; j++) job->stop_texts[i][j] = (char)('A' + sim_draw(random, 8));
        job->stops[s->stop_count++] = (icp_stop){job->stop_texts[i], bytes};
    }
    s->stops = job->stops;
    if (!sim_chance(random, 4)) return;
    job->stop_tokens[0] = SIM_FIRST + sim_draw(random, SIM_VOCABULARY - SIM_FIRST);
    s->stop_tokens = job->stop_tokens;
    s->stop_token_count = 1;
}

static void draw_sharing(sim *self, sim_job *job)
{
    icp_submission *s = &job->submission;
    sim_random *random = &self->random;
    job->adapter = SIM_ADAPTER_MAX;
    if (self->config.adapter_every != 0 && sim_chance(random, 5)) job->adapter = sim_draw(random, SIM_ADAPTER_MAX);
    if (job->adapter < SIM_ADAPTER_MAX) s->adapter = job->adapter == 0 ? "first" : "second";
    if (sim_chance(random, 8)) {
        (void)snprintf(job->tenant, sizeof(job->tenant), "t%u", sim_draw(random, 3));
        s->tenant = job->tenant;
    }
    if (sim_chance(random, 16)) {
        (void)snprintf(job->salt, sizeof(job->salt), "s%u", sim_draw(random, 30));
        s->salt = job->salt;
    }
    if (sim_chance(random, 16)) s->flags |= ICP_NO_READ;
    if (sim_chance(random, 12)) s->flags |= ICP_NO_STORE;
    s->priority = sim_chance(random, 3) ? (int32_t)sim_draw(random, 3) - 1 : 0;
}

static void draw_job(sim *self, sim_job *job)
{
    sim_random *random = &self->random;
    uint32_t context = self->engine->capacity.context_tokens;
    memset(job, 0, sizeof(*job));
    icp_submission *s = &job->submission;
    icp_submission_init(s);
    draw_prompt(self, &job->prompt, context - 1);
    s->tokens = job->prompt.tokens;
    s->token_count = job->prompt.count;
    uint32_t left = context - job->prompt.count;
    uint32_t wanted = 1 + sim_draw(random, sim_chance(random, 4) ? 60 : 12);
    s->output_tokens_max = wanted < left ? wanted : left;
    s->branch_count = sim_chance(random, 5) ? 1 + sim_draw(random, SIM_BRANCH_MAX) : 1;
    if (s->branch_count > self->config.options.queue_count_max) s->branch_count = 1;
    s->sampling.seed = sim_draw(random, 1000);
    if (sim_chance(random, 2)) s->sampling.temperature = 1;
    if (sim_chance(random, 4)) s->sampling.repetition_penalty = 1.5f;
    if (sim_chance(random, 4)) s->sampling.presence_penalty = 1;
    draw_stops(self, job);
    draw_sharing(self, job);
    s->context = job;
}

void sim_job_arrive(sim *self)
{
    sim_job *job = NULL;
    for (uint32_t i = 0; i < self->config.job_max && job == NULL; i++) {
        if (!self->jobs[i].is_used) job = &self->jobs[i];
    }
    if (job == NULL) return;
    draw_job(self, job);
    icp_error error = {""};
    icp_status status = icp_engine_submit(self->engine, &job->submission, &job->job, &error);
    bool is_gone = job->adapter < SIM_ADAPTER_MAX && !self->is_loaded[job->adapter];
    if (status == ICP_FULL || status == ICP_TOO_MANY_SCOPES || (status == ICP_NOT_FOUND && is_gone)) return;
    if (status != ICP_OK) {
        sim_wrong(self, "submit: %s", error.text);
        return;
    }
    job->is_used = true;
    job->live_count = job->submission.branch_count;
    self->job_count++;
    self->branch_count += job->live_count;
    if (sim_chance(&self->random, 3)) remember(self, &job->prompt, NULL);
}

/* ---- Comparing ------------------------------------------------------------------------------------------------ */

static bool compare(sim *self, const sim_job *job, uint32_t branch)
{
    static sim_answer expected;
    const sim_answer *seen = &job->answers[branch];
    sim_plain_run(&self->plain, job, branch, &expected);
    bool is_cut = seen->finish == ICP_FINISH_CANCELLED;
    if (is_cut && !job->is_cancelled) return sim_wrong(self, "cancelled, but nobody asked for it");
    if (!is_cut && seen->finish != expected.finish)
        return sim_wrong(self, "finish %d, not %d, after %u tokens", (int)seen->finish, (int)expected.finish,
                         seen->count);
    uint32_t count = seen->count < expected.count ? seen->count : expected.count;
    for (uint32_t i = 0; i < count; i++) {
        if (seen->tokens[i] != expected.tokens[i])
            return sim_wrong(self, "prompt of %u, branch %u: output %u is %u, not %u", job->prompt.count, branch, i,
                             seen->tokens[i], expected.tokens[i]);
    }
    if (is_cut ? seen->count > expected.count : seen->count != expected.count)
        return sim_wrong(self, "%u tokens came out, not %u", seen->count, expected.count);
    if (is_cut ? seen->text_bytes > expected.text_bytes : seen->text_bytes != expected.text_bytes)
        return sim_wrong(self, "%u bytes of text came out, not %u", seen->text_bytes, expected.text_bytes);
    if (memcmp(seen->text, expected.text, seen->text_bytes) != 0)
        return sim_wrong(self, "the text is \"%.*s\", not \"%.*s\"", (int)seen->text_bytes, seen->text,
                         (int)expected.text_bytes, expected.text);
    return true;
}

bool sim_job_output(sim *self, const icp_output *output)
{
    sim_job *job = output->context;
    if (!job->is_used || job->job != output->job || output->branch >= job->submission.branch_count)
        return sim_wrong(self, "an output of a job that is not there");
    sim_answer *answer = &job->answers[output->branch];
    if (answer->finish != ICP_FINISH_NONE) return sim_wrong(self, "an output after the end");
    if (output->token != ICP_TOKEN_NONE) {
        if (answer->count == SIM_CONTEXT_MAX) return sim_wrong(self, "more output than the context holds");
        answer->tokens[answer->count++] = output->token;
        self->token_count++;
    }
    if (answer->text_bytes + output->text_bytes > sizeof(answer->text)) return sim_wrong(self, "too much text");
    memcpy(answer->text + answer->text_bytes, output->text, output->text_bytes);
    answer->text_bytes += (uint32_t)output->text_bytes;
    answer->finish = output->finish;
    if (output->finish == ICP_FINISH_NONE) return true;
    job->live_count--;
    if (output->is_last != (job->live_count == 0)) return sim_wrong(self, "is_last is not on the last");
    if (!compare(self, job, output->branch)) return false;
    if (sim_chance(&self->random, 2)) remember(self, &job->prompt, answer);
    if (job->live_count == 0) job->is_used = false;
    return true;
}

/* ---- Cancelling ----------------------------------------------------------------------------------------------- */

/* has_outputs: some wait to be polled, so a job may have ended without our knowing. */
void sim_job_cancel_some(sim *self, bool has_outputs)
{
    sim_job *job = &self->jobs[sim_draw(&self->random, self->config.job_max)];
    icp_status status = icp_engine_cancel(self->engine, job->job);
    if (!job->is_used) {
        if (status != ICP_STALE) sim_wrong(self, "a job that has ended was cancelled");
        return;
    }
    if (status == ICP_STALE && has_outputs) return;
    if (status != ICP_OK) {
        sim_wrong(self, "cancel: %s", icp_status_name(status));
        return;
    }
    job->is_cancelled = true;
    self->cancelled_count++;
}

uint32_t sim_job_live_count(const sim *self)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < SIM_JOB_MAX; i++) count += self->jobs[i].is_used;
    return count;
}
