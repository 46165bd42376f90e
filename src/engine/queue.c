/* queue.c - who waits and who runs, the most urgent first.
 *
 * Urgency is (priority, arrival, branch), and never changes: a sequence that is preempted comes back to the place that
 * it had. Those that wait are a binary heap, so that arrivals, cancels and returns cost O(log n) whatever the
 * priorities are. Those that run are a sorted list: newcomers belong near its end, from where their place is looked
 * for, and the end is also where a victim is taken. */
#include "engine/engine.h"

static bool is_more_urgent(const icp_sequence *a, const icp_sequence *b)
{
    if (a->job->priority != b->job->priority) return a->job->priority < b->job->priority;
    if (a->job->serial != b->job->serial) return a->job->serial < b->job->serial;
    return a->branch < b->branch;
}

/* ---- Those that wait ------------------------------------------------------------------------------------------ */

static void heap_put(icp_engine *engine, uint32_t index, icp_sequence *sequence)
{
    engine->heap[index] = sequence;
    sequence->heap_index = index;
}

static void heap_rise(icp_engine *engine, uint32_t index, icp_sequence *sequence)
{
    while (index > 0 && is_more_urgent(sequence, engine->heap[(index - 1) / 2])) {
        heap_put(engine, index, engine->heap[(index - 1) / 2]);
        index = (index - 1) / 2;
    }
    heap_put(engine, index, sequence);
}

static void heap_sink(icp_engine *engine, uint32_t index, icp_sequence *sequence)
{
    for (;;) {
        uint32_t child = index * 2 + 1;
        if (child >= engine->heap_count) break;
        if (child + 1 < engine->heap_count && is_more_urgent(engine->heap[child + 1], engine->heap[child])) child++;
        if (!is_more_urgent(engine->heap[child], sequence)) break;
        heap_put(engine, index, engine->heap[child]);
        index = child;
    }
    heap_put(engine, index, sequence);
}

void icp_queue_push(icp_engine *engine, icp_sequence *sequence)
{
    ICP_ASSERT(engine->heap_count < engine->heap_count_max);
    sequence->state = ICP_SEQUENCE_WAITING;
    heap_rise(engine, engine->heap_count++, sequence);
}

icp_sequence *icp_queue_pop(icp_engine *engine)
{
    if (engine->heap_count == 0) return NULL;
    icp_sequence *first = engine->heap[0];
    icp_queue_remove(engine, first);
    return first;
}

void icp_queue_remove(icp_engine *engine, icp_sequence *sequence)
{
    uint32_t index = sequence->heap_index;
    ICP_ASSERT(sequence->state == ICP_SEQUENCE_WAITING && engine->heap[index] == sequence);
    icp_sequence *last = engine->heap[--engine->heap_count];
    if (last == sequence) return;
    if (is_more_urgent(last, sequence))
        heap_rise(engine, index, last);
    else
        heap_sink(engine, index, last);
}

/* ---- Those that run ------------------------------------------------------------------------------------------- */

void icp_running_add(icp_engine *engine, icp_sequence *sequence)
{
    icp_sequence *before = engine->running_last;
    while (before != NULL && is_more_urgent(sequence, before)) before = before->previous;
    icp_sequence *after = before != NULL ? before->next : engine->running_first;
    sequence->previous = before;
    sequence->next = after;
    *(before != NULL ? &before->next : &engine->running_first) = sequence;
    *(after != NULL ? &after->previous : &engine->running_last) = sequence;
    sequence->state = ICP_SEQUENCE_RUNNING;
    engine->running_count++;
}

void icp_running_remove(icp_engine *engine, icp_sequence *sequence)
{
    ICP_ASSERT(sequence->state == ICP_SEQUENCE_RUNNING);
    icp_sequence *before = sequence->previous;
    icp_sequence *after = sequence->next;
    *(before != NULL ? &before->next : &engine->running_first) = after;
    *(after != NULL ? &after->previous : &engine->running_last) = before;
    engine->running_count--;
}
