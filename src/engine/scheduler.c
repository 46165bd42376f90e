/* scheduler.c - plan: what the next step computes.
 *
 *      1. Those that run, in order of urgency: one token for each that decodes; prompts get what is left of step_tokens
 *         when all that decode have theirs. Where the pool has no block left, the least urgent is preempted: it gives
 *         back its lease (its blocks stay findable until they are taken) and waits again in its old place.
 *      2. Those that wait, in order of urgency, while there is room: each is matched, and computes from there.
 *
 * No deadlock: victims are less urgent than who needs the block, so the most urgent always gets on; submit has refused
 * what is larger than the pool. No thrashing: after a preemption nobody is let in until a sequence has ended.
 *
 * NOTHING TWICE. A prompt that is being computed is findable block by block as it is planned, so what comes in behind
 * it shares it; a prompt that is not finished takes all that is left of the step, so nobody comes in beside it; and one
 * whose next block is half computed by another in this very step waits for the next step, once, to take that half too.
 *
 * A victim is never planned yet: plans are made in order of urgency and victims come from the end of it. And nobody is
 * preempted once the first one was matched, so what a match found in this step will be computed in this step. */
#include "engine/engine.h"

static void plan_add(icp_engine *engine, icp_sequence *sequence)
{
    icp_plan *plan = &engine->plan;
    plan->sequences[plan->sequence_count++] = sequence;
    plan->row_count += sequence->chunk;
    if (sequence->computed < sequence->job->prompt_count) plan->prefill_count += sequence->chunk;
}

/* ---- Those that run ------------------------------------------------------------------------------------------- */

static bool is_decoding(const icp_sequence *sequence)
{
    return sequence->token_count - sequence->computed == 1;
}

/* Back to where it waits, without a lease. */
static void suspend(icp_engine *engine, icp_sequence *sequence)
{
    icp_running_remove(engine, sequence);
    icp_sequence_release(engine, sequence);
    icp_queue_push(engine, sequence);
}

static void preempt(icp_engine *engine, icp_sequence *victim)
{
    ICP_ASSERT(victim->chunk == 0);
    if (is_decoding(victim)) engine->plan.decode_count--;
    icp_sequence_publish_end(engine, victim);
    suspend(engine, victim);
    victim->preempted_count++;
    engine->plan.preempted_count++;
    engine->stats.preempted_count++;
    engine->is_admission_closed = true;
}

/* Takes blocks from the least urgent, so that the sequence may try again. False: it is gone itself. Only pins and
 * quotas can keep a sequence that runs alone from getting its blocks: it ends. */
static bool make_room(icp_engine *engine, icp_sequence *sequence, icp_status why)
{
    icp_sequence *victim = engine->running_last;
    if (why == ICP_QUOTA) { /* blocks of others would not help */
        while (victim != sequence && victim->job->scope != sequence->job->scope) victim = victim->previous;
    }
    if (engine->running_count == 1) {
        if (is_decoding(sequence)) engine->plan.decode_count--;
        icp_commit_end(engine, sequence, ICP_FINISH_LENGTH);
        return false;
    }
    preempt(engine, why == ICP_FULL || why == ICP_QUOTA ? victim : sequence);
    return sequence->state == ICP_SEQUENCE_RUNNING;
}

/* Tokens of a running sequence that this step has room for. */
static uint32_t chunk_of(const icp_engine *engine, const icp_sequence *sequence)
{
    uint32_t wanted = sequence->token_count - sequence->computed;
    uint32_t left = engine->options.step_tokens - engine->plan.row_count;
    uint32_t kept = is_decoding(sequence) ? 0 : engine->plan.decode_count;
    left = left > kept ? left - kept : 0;
    return wanted < left ? wanted : left;
}

static void plan_running(icp_engine *engine)
{
    icp_sequence *next = NULL;
    for (icp_sequence *s = engine->running_first; s != NULL; s = s->next) engine->plan.decode_count += is_decoding(s);
    for (icp_sequence *s = engine->running_first; s != NULL; s = next) {
        uint32_t chunk = chunk_of(engine, s);
        icp_status status = chunk == 0 ? ICP_OK : icp_sequence_extend(engine, s, chunk);
        while (status != ICP_OK && make_room(engine, s, status)) status = icp_sequence_extend(engine, s, chunk);
        next = s->next; /* right even of one that is gone now: it was right when it went */
        if (status != ICP_OK) continue;
        engine->plan.decode_count -= is_decoding(s);
        if (s->chunk != 0) plan_add(engine, s);
    }
}

/* ---- Those that wait ------------------------------------------------------------------------------------------ */

typedef enum admission {
    ADMITTED,
    PASSED_OVER, /* those behind it may come in before it */
    REFUSED,     /* the pool has no room, for those behind it neither */
} admission;

static admission admit(icp_engine *engine, icp_sequence *sequence)
{
    icp_status status = icp_sequence_match(engine, sequence);
    ICP_ASSERT(status == ICP_OK); /* there is a lease for each that may run, and its scope is open */
    if (!sequence->has_yielded && engine->plan.prefill_count != 0 && icp_sequence_may_share_more(engine, sequence)) {
        sequence->has_yielded = true;
        icp_sequence_release(engine, sequence);
        return PASSED_OVER;
    }
    status = icp_sequence_extend(engine, sequence, chunk_of(engine, sequence));
    if (status != ICP_OK) {
        icp_sequence_release(engine, sequence);
        return status == ICP_QUOTA ? PASSED_OVER : REFUSED; /* a tenant's quota is no affair of the others */
    }
    icp_running_add(engine, sequence);
    plan_add(engine, sequence);
    return ADMITTED;
}

static bool has_room(const icp_engine *engine)
{
    return engine->running_count < engine->options.sequence_count_max &&
           engine->plan.row_count < engine->options.step_tokens;
}

static void plan_waiting(icp_engine *engine)
{
    icp_sequence *passed_over = NULL;
    admission answer = ADMITTED;
    while (answer != REFUSED && has_room(engine) && engine->heap_count != 0) {
        icp_sequence *sequence = icp_queue_pop(engine);
        answer = admit(engine, sequence);
        if (answer == ADMITTED) continue;
        if (engine->running_count == 0) { /* alone, and there is no room: pins or a quota, for ever */
            icp_queue_push(engine, sequence);
            icp_commit_end(engine, sequence, ICP_FINISH_LENGTH);
            answer = PASSED_OVER;
            continue;
        }
        sequence->next = passed_over;
        passed_over = sequence;
    }
    while (passed_over != NULL) {
        icp_sequence *next = passed_over->next;
        icp_queue_push(engine, passed_over);
        passed_over = next;
    }
}

void icp_scheduler_plan(icp_engine *engine)
{
    icp_sequence **sequences = engine->plan.sequences;
    engine->plan = (icp_plan){.sequences = sequences};
    plan_running(engine);
    engine->plan.resident_count = engine->plan.sequence_count;
    if (engine->running_count == 0) engine->is_admission_closed = false;
    if (!engine->is_admission_closed) plan_waiting(engine);
}

/* The step failed: what it published was never computed, and nobody outside it has seen it. Those that it let in go
 * back to where they waited, and with them the last who share blocks of this step; the others give back what the step
 * gave them. Nothing else of theirs has changed: that is left to commit. */
void icp_scheduler_undo(icp_engine *engine)
{
    icp_plan *plan = &engine->plan;
    for (uint32_t i = 0; i < plan->sequence_count; i++) icp_sequence_unpublish(engine, plan->sequences[i]);
    for (uint32_t i = plan->resident_count; i < plan->sequence_count; i++) suspend(engine, plan->sequences[i]);
    for (uint32_t i = 0; i < plan->resident_count; i++) {
        if (icp_sequence_retreat(engine, plan->sequences[i]) != ICP_OK) suspend(engine, plan->sequences[i]);
    }
    engine->stats.failed_step_count++;
}
