/* output.c - the text of a sequence as it may be shown, and outputs on their way to poll.
 *
 * STOP STRINGS are looked for in the stream of bytes by the automaton of Knuth, Morris and Pratt, one for each: a state
 * is the number of bytes of the stop string that the text ends in. So the time is linear in the text, and the longest
 * state is exactly what must be held back: what may still become a stop string. Stop strings are whole characters, and
 * the decoder gives whole characters, so what is shown never ends inside of one.
 *
 *      text   [ t h e   a n s w e r . \n | \n ]      stop "\n\nQ:"
 *               shown ------------------^  ^-- held back, state 2
 *
 * Outputs wait in a list through the sequences: at most one each, since a step makes one and must be polled before the
 * next; a cancel in between joins the one that waits. */
#include "engine/engine.h"

/* ---- Stop strings --------------------------------------------------------------------------------------------- */

void icp_stop_prepare(const char *text, uint32_t bytes, uint16_t *failure)
{
    uint16_t state = 0;
    failure[0] = 0;
    for (uint32_t i = 1; i < bytes; i++) {
        while (state > 0 && text[i] != text[state]) state = failure[state - 1];
        if (text[i] == text[state]) state++;
        failure[i] = state;
    }
}

static uint16_t stop_next(const icp_stop_string *stop, uint16_t state, char byte)
{
    while (state > 0 && byte != stop->text[state]) state = stop->failure[state - 1];
    return byte == stop->text[state] ? (uint16_t)(state + 1) : state;
}

/* The stop string that the byte completes, of several the longest; NULL: none. */
static const icp_stop_string *stop_find(icp_sequence *sequence, char byte)
{
    const icp_job_record *job = sequence->job;
    const icp_stop_string *found = NULL;
    for (uint32_t i = 0; i < job->stop_count; i++) {
        const icp_stop_string *stop = &job->stops[i];
        sequence->stop_states[i] = stop_next(stop, sequence->stop_states[i], byte);
        if (sequence->stop_states[i] == stop->bytes && (found == NULL || stop->bytes > found->bytes)) found = stop;
    }
    return found;
}

static uint32_t held_bytes(const icp_sequence *sequence)
{
    uint32_t held = 0;
    for (uint32_t i = 0; i < sequence->job->stop_count; i++) {
        if (sequence->stop_states[i] > held) held = sequence->stop_states[i];
    }
    return held;
}

/* ---- Text ----------------------------------------------------------------------------------------------------- */

size_t icp_output_room(const icp_tokenizer *tokenizer, size_t stop_bytes_max)
{
    icp_decoder decoder;
    icp_decoder_start(&decoder, tokenizer, ICP_DECODE_REPLACE);
    return stop_bytes_max + 2 * icp_decoder_bytes_max(&decoder); /* held back, a token, what a flush adds */
}

void icp_output_start(icp_sequence *sequence, const icp_tokenizer *tokenizer, bool is_special_shown)
{
    icp_decoder_start(&sequence->decoder, tokenizer, ICP_DECODE_REPLACE | (is_special_shown ? ICP_DECODE_SPECIAL : 0));
}

/* What was decoded, bytes more, joins the stream. */
static const icp_stop_string *text_join(icp_sequence *sequence, uint32_t bytes)
{
    const icp_job_record *job = sequence->job;
    bool is_early = sequence->token_count - job->prompt_count < job->output_min; /* stop strings do not count yet */
    uint32_t end = sequence->text_bytes + bytes;
    for (uint32_t i = sequence->text_bytes; i < end && !is_early; i++) {
        const icp_stop_string *stop = stop_find(sequence, sequence->text[i]);
        if (stop == NULL) continue;
        sequence->text_bytes = sequence->text_shown = i + 1 - (job->is_stop_shown ? 0 : stop->bytes);
        return stop;
    }
    sequence->text_bytes = end;
    sequence->text_shown = end - held_bytes(sequence);
    return NULL;
}

const icp_stop_string *icp_output_text(icp_sequence *sequence, uint32_t token)
{
    uint32_t held = sequence->text_bytes - sequence->text_shown;
    memmove(sequence->text, sequence->text + sequence->text_shown, held);
    sequence->text_bytes = held;
    sequence->text_shown = 0;
    if (token == ICP_TOKEN_NONE) return NULL;
    const icp_tokenizer *tokenizer = sequence->decoder.tokenizer;
    if (token >= icp_tokenizer_get_facts(tokenizer)->token_count) return NULL; /* a row that pads the matrix: no text */
    size_t bytes = 0;
    size_t room = icp_decoder_bytes_max(&sequence->decoder);
    icp_status status = icp_decoder_next(&sequence->decoder, token, sequence->text + held, room, &bytes);
    ICP_ASSERT(status == ICP_OK);
    return text_join(sequence, (uint32_t)bytes);
}

/* The stream ends: the rest of a character that never became whole, and all that was held back. */
const icp_stop_string *icp_output_flush(icp_sequence *sequence)
{
    size_t bytes = 0;
    size_t room = icp_decoder_bytes_max(&sequence->decoder);
    icp_status status = icp_decoder_flush(&sequence->decoder, sequence->text + sequence->text_bytes, room, &bytes);
    ICP_ASSERT(status == ICP_OK);
    const icp_stop_string *stop = text_join(sequence, (uint32_t)bytes);
    sequence->text_shown = sequence->text_bytes;
    return stop;
}

/* ---- Outputs -------------------------------------------------------------------------------------------------- */

void icp_output_add(icp_engine *engine, icp_sequence *sequence)
{
    if (sequence->is_output_waiting) return;
    sequence->is_output_waiting = true;
    sequence->output_next = NULL;
    *(engine->output_last != NULL ? &engine->output_last->output_next : &engine->output_first) = sequence;
    engine->output_last = sequence;
    sequence->job->waiting_count++;
}

icp_status icp_engine_poll(icp_engine *engine, icp_output *output)
{
    if (engine == NULL || output == NULL || output->struct_size < sizeof(size_t)) return ICP_BAD_ARGUMENT;
    icp_sequence *sequence = engine->output_first;
    if (sequence == NULL) return ICP_NOT_FOUND;
    engine->output_first = sequence->output_next;
    if (engine->output_first == NULL) engine->output_last = NULL;
    sequence->is_output_waiting = false;
    icp_job_record *job = sequence->job;
    job->waiting_count--;
    sequence->output.is_last = job->live_count == 0 && job->waiting_count == 0;
    size_t bytes = output->struct_size < sizeof(*output) ? output->struct_size : sizeof(*output);
    memcpy((char *)output + sizeof(size_t), (char *)&sequence->output + sizeof(size_t), bytes - sizeof(size_t));
    return ICP_OK;
}
