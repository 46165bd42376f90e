/* sequence.c - one generation and its lease.
 *
 * PADDED ENDS. The cache knows whole blocks, and of a block's beginning a tail can be copied. So that the end of a text
 * is found again to the token, a partial last block is published as a whole one, filled up with a token that no text
 * has: a match can take its first positions as a tail, and never the block itself.
 *
 *      prompt   [ a b c d ][ e f - - ]                     published, with padding
 *      goes on  [ a b c d ][ e f g . ]                     in a private copy of that block: icp_lease_truncate
 *      branch   [ a b c d ][ e f h . ]                     a match, and a tail of two tokens
 *
 * This is done where a prompt ends, which is how branches, and requests that come while it is being answered, compute
 * nothing of it again; and where a sequence ends or is preempted, so that the next turn of a conversation, or the same
 * sequence, goes on from its last token. It costs one block of the cache for each, and nothing where nothing is stored.
 *
 * Full blocks are published when they are planned (icp_sequence_extend): others that are planned in the same step share
 * them, since the backend stores KV before it reads it, layer by layer. */
#include "engine/engine.h"

static uint32_t block_tokens(const icp_engine *engine)
{
    return engine->options.block_tokens;
}

static uint32_t to_whole_blocks(const icp_engine *engine, uint32_t token_count)
{
    return (token_count + block_tokens(engine) - 1) / block_tokens(engine) * block_tokens(engine);
}

static icp_text text_of(const icp_sequence *sequence, uint32_t token_count)
{
    const icp_job_record *job = sequence->job;
    return (icp_text){
        .tokens = sequence->tokens, .token_count = token_count, .extras = job->extras, .extra_count = job->extra_count};
}

static icp_request request_of(const icp_engine *engine, const icp_sequence *sequence)
{
    const icp_job_record *job = sequence->job;
    bool is_first = sequence->branch == 0 && sequence->computed_most == 0;
    uint32_t flags = job->flags;
    if (!is_first) flags &= ~ICP_NO_READ; /* what the job has computed itself, it may read */
    if (engine->options.is_cache_off) flags |= ICP_NO_READ | ICP_NO_STORE;
    if (!is_first || sequence->is_matched) flags |= ICP_UNCOUNTED;
    return (icp_request){
        .text = text_of(sequence, sequence->token_count), .scope = engine->scopes[job->scope].scope, .flags = flags};
}

/* Looks for what is cached. On ICP_OK the sequence has a lease. */
icp_status icp_sequence_match(icp_engine *engine, icp_sequence *sequence)
{
    icp_request request = request_of(engine, sequence);
    icp_hit hit;
    icp_status status = icp_cache_match(engine->cache, &request, &sequence->lease, &hit);
    if (status != ICP_OK) return status;
    for (uint32_t group = 0; group < engine->shape->group_count; group++) {
        uint32_t count;
        status = icp_lease_table(engine->cache, sequence->lease, group, &sequence->tables[group], &count);
        ICP_ASSERT(status == ICP_OK);
    }
    sequence->is_matched = true;
    sequence->is_tail_due = hit.tail_tokens_hit != 0;
    sequence->computed = sequence->cached = hit.cached_tokens;
    return ICP_OK;
}

/* True where a sequence that was just matched would find more a step later: tokens of its next block are being computed
 * in this very step, and a tail cannot be taken from there yet. */
bool icp_sequence_may_share_more(const icp_engine *engine, const icp_sequence *sequence)
{
    icp_request request = request_of(engine, sequence);
    icp_explanation why;
    icp_explanation_init(&why);
    if (request.flags & ICP_NO_READ) return false;
    if (icp_cache_explain(engine->cache, &request, 0, &why) != ICP_OK) return false;
    uint32_t shared = why.hit.block_tokens_hit + why.shared_tokens;
    if (shared >= sequence->token_count) shared = sequence->token_count - 1;
    return shared > sequence->computed;
}

/* ---- Growing ------------------------------------------------------------------------------------------------ */

static void copy_tail(icp_engine *engine, const icp_sequence *sequence)
{
    for (uint32_t group = 0; group < engine->shape->group_count; group++) {
        icp_copy copy;
        icp_status status = icp_lease_tail(engine->cache, sequence->lease, group, &copy);
        ICP_ASSERT(status == ICP_OK);
        if (copy.positions == 0) continue;
        engine->backend->table->kv_copy(engine->backend, group, &copy);
        engine->stats.copied_blocks++;
    }
}

static void publish(icp_engine *engine, const icp_sequence *sequence, uint32_t token_count)
{
    icp_text text = text_of(sequence, token_count);
    icp_status status = icp_lease_publish(engine->cache, sequence->lease, &text);
    ICP_ASSERT(status == ICP_OK);
}

/* Publishes tokens [0, end) with padding; the lease reaches to a whole block. What follows end stays what it is. */
static void publish_padded(icp_engine *engine, const icp_sequence *sequence, uint32_t end)
{
    uint32_t kept[ICP_BLOCK_TOKENS_MAX];
    uint32_t count = to_whole_blocks(engine, end) - end;
    memcpy(kept, sequence->tokens + end, count * sizeof(*kept));
    for (uint32_t i = 0; i < count; i++) sequence->tokens[end + i] = ICP_TOKEN_NONE;
    publish(engine, sequence, end + count);
    memcpy(sequence->tokens + end, kept, count * sizeof(*kept));
}

/* A lease that ends in a padded block goes on in a private copy of it. */
static icp_status leave_padding(icp_engine *engine, icp_sequence *sequence)
{
    icp_status status = icp_lease_truncate(engine->cache, sequence->lease, sequence->computed);
    if (status != ICP_OK) return status;
    sequence->is_padded = false;
    copy_tail(engine, sequence);
    return ICP_OK;
}

/* Room for the next chunk tokens, and they are published. FULL, QUOTA: it has what it had. */
icp_status icp_sequence_extend(icp_engine *engine, icp_sequence *sequence, uint32_t chunk)
{
    icp_status status = sequence->is_padded ? leave_padding(engine, sequence) : ICP_OK;
    if (status != ICP_OK) return status;
    uint32_t end = sequence->computed + chunk;
    bool is_prompt_end = end == sequence->job->prompt_count && end == sequence->token_count;
    bool is_padded = is_prompt_end && end % block_tokens(engine) != 0;
    status = icp_lease_extend(engine->cache, sequence->lease, is_padded ? to_whole_blocks(engine, end) : end);
    if (status != ICP_OK) return status;
    if (sequence->is_tail_due) copy_tail(engine, sequence);
    sequence->is_tail_due = false;
    sequence->is_padded = is_padded;
    if (is_padded)
        publish_padded(engine, sequence, end);
    else if (end / block_tokens(engine) != sequence->computed / block_tokens(engine))
        publish(engine, sequence, end);
    sequence->chunk = chunk;
    return ICP_OK;
}

/* ---- Letting go --------------------------------------------------------------------------------------------- */

/* What was computed can be found to its last token. */
void icp_sequence_publish_end(icp_engine *engine, icp_sequence *sequence)
{
    if (sequence->is_padded || sequence->computed % block_tokens(engine) == 0) return;
    uint32_t whole = to_whole_blocks(engine, sequence->computed); /* no more blocks than it has */
    if (icp_lease_extend(engine->cache, sequence->lease, whole) != ICP_OK) return;
    publish_padded(engine, sequence, sequence->computed);
}

/* What this step was to compute was not. */
void icp_sequence_unpublish(icp_engine *engine, icp_sequence *sequence)
{
    icp_status status = icp_lease_unpublish(engine->cache, sequence->lease, sequence->computed);
    ICP_ASSERT(status == ICP_OK);
}

/* Back to what was computed before the step. */
icp_status icp_sequence_retreat(icp_engine *engine, icp_sequence *sequence)
{
    sequence->chunk = 0;
    sequence->is_padded = false;
    icp_status status = icp_lease_truncate(engine->cache, sequence->lease, sequence->computed);
    if (status == ICP_OK) copy_tail(engine, sequence);
    return status;
}

void icp_sequence_release(icp_engine *engine, icp_sequence *sequence)
{
    icp_status status = icp_lease_release(engine->cache, sequence->lease);
    ICP_ASSERT(status == ICP_OK);
    sequence->lease = 0;
    sequence->computed = sequence->chunk = 0;
    sequence->is_padded = sequence->is_tail_due = false;
}
