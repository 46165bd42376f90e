/* sampler.h - from logits to the next token.
 *
 * The order of things, as users of llama.cpp and vLLM expect it: logit bias and bans (min_tokens) -> penalties ->
 * greedy where temperature is 0, else temperature -> top-k -> top-p -> min-p -> draw. Log-probabilities are those of
 * the model, the logits as they came, before any of this.
 *
 * SAME TEXT. The draw uses a counter-based generator: a pure function of (seed, branch, index of the token). What else
 * runs, in what batch, and how often a request was preempted cannot change it. All sums are in a fixed order.
 *
 * No allocation after open: one icp_sampler (scratch memory for a vocabulary) serves all requests of an engine, one
 * owner thread. What belongs to a request is icp_sampling (parameters, constant) and the tokens so far. */
#ifndef ICP_MODEL_SAMPLER_H
#define ICP_MODEL_SAMPLER_H

#include "incipit/engine.h" /* icp_sampling, icp_bias, icp_candidate */

typedef struct icp_sampler icp_sampler;

icp_status icp_sampler_open(icp_sampler **out, uint32_t vocabulary);
void icp_sampler_close(icp_sampler *sampler);

/* BAD_ARGUMENT: a value is out of range, error says which and what is allowed. */
icp_status icp_sampling_check(const icp_sampling *sampling, uint32_t vocabulary, icp_error *error);

typedef struct icp_sample_input {
    const icp_sampling *sampling;
    const float *logits;    /* [vocabulary] */
    const uint32_t *tokens; /* prompt and what was generated, for penalties */
    uint32_t token_count;
    uint32_t prompt_count;  /* of these: presence and frequency count generated tokens only, repetition counts all */
    uint32_t branch;        /* of n */
    const uint32_t *banned; /* tokens that must not come now: end of generation before min_tokens */
    uint32_t banned_count;
} icp_sample_input;

typedef struct icp_sample {
    uint32_t token;
    float logprob;                                   /* of the token, where it was asked for; else 0 */
    uint32_t candidate_count;                        /* = sampling->logprob_count, or the vocabulary */
    icp_candidate candidates[ICP_LOGPROB_COUNT_MAX]; /* the likeliest, best first; equal ones by token */
} icp_sample;

/* Logits that are NaN count as minus infinity, plus infinity as the largest float; where all are minus infinity, token
 * 0 comes. The draw is of index token_count - prompt_count. Log-probabilities are at least -9999, so always finite. */
void icp_sampler_sample(icp_sampler *sampler, const icp_sample_input *input, icp_sample *out);

#endif
