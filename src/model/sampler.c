/* sampler.c - from logits to the next token, in a few passes over the vocabulary and no sort of it.
 *
 * BLOCKS. The vocabulary is seen in blocks of 64 logits. One pass finds the largest of each block; it is most of what a
 * greedy choice costs, and later passes skip every block whose largest logit is out of the question.
 *
 * THE CUT. Whatever top-k and top-p leave is a beginning of the tokens in order (logit falling, then token rising), so
 * it is described by its last member alone: a cut. The draw then walks the vocabulary in the order of tokens and
 * counts what is within the cut. So the filters need to find one token, not to sort:
 *
 *   top-k   the k-th largest of the blocks' maxima bounds the k-th largest logit from below. The few logits that
 *           reach it are collected, and the k-th of these is found by partitioning (quickselect).
 *   top-p   the logits not far below the largest are collected, further and further down until they weigh enough;
 *           the cut is found by partitioning with weights. Pivots are picked by a hash, so no input makes this slow.
 *   min-p   is a floor for weights: the likeliest weighs 1.
 *
 * SAME BITS. A weight is exp((logit - largest) / temperature), by a polynomial of plain products and sums that is here
 * (not the C library's, which differs from machine to machine). Sums are of four lanes of floats within a block, then
 * of doubles over blocks: an order that depends on nothing. The draw is
 *
 *     u = mix(mix(mix(seed) ^ (branch * 2^32 + index of the token in the answer))) / 2^64, 53 bits of it
 *
 * with mix the finaliser of splitmix64: a counter-based generator has no state to lose when a request is preempted.
 *
 * MEASURED by bench/bench_sampler.c, microseconds for a vocabulary of 128,256, one thread of a Neoverse-V1, gcc 12:
 *
 *     greedy 25, top-k 40 + top-p 0.95 56, min-p 0.05 29, temperature alone 220 (an exp for each token), top-p 0.95
 *     alone 258, the same of a flat distribution 1,750, penalties + 56, log-probabilities + 219 */
#include "model/sampler.h"

#include "base/assert.h"

#include <float.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BLOCK_LOGITS 64u
#define VOCABULARY_MAX (1u << 24)
#define SORTED_COUNT_MAX 24u  /* so few are sorted, not partitioned */
#define TEMPERATURE_MIN 1e-4f /* below it, logits that differ at all differ by more than weights can tell: greedy */
#define LOGPROB_MIN (-9999.0f)
#define WEIGHT_EXPONENT_MIN (-80.0f) /* what is lighter than exp of it weighs nothing */

/* A vector of each kind that every machine has. Comparisons give lanes of all ones or all zeros. */
typedef float lanes __attribute__((vector_size(16)));
typedef int32_t lanes_mask __attribute__((vector_size(16)));
typedef uint32_t lanes_bits __attribute__((vector_size(16)));
#define LANE_COUNT 4u

/* A token in the running. Order: value falling, token rising. */
typedef struct entry {
    float value;
    float weight;
    uint32_t token;
} entry;

/* Logits as one choice sees them. */
typedef struct view {
    const float *logits; /* no plus infinity; NaN counts as minus infinity */
    uint32_t count;
    uint32_t block_count;
    float max;
    float scale; /* 1 / temperature */
} view;

/* What may be drawn: tokens before or at (value, token) in order that weigh enough. */
typedef struct cut {
    float value;
    uint32_t token;
    float weight_min;
} cut;

static const cut cut_none = {.value = -INFINITY, .token = INT32_MAX, .weight_min = 0.0f};

struct icp_sampler {
    uint32_t vocabulary;
    uint32_t block_count;
    uint32_t *counts;  /* by token: 0, or 1 + times generated; all zero between calls */
    uint32_t *touched; /* tokens whose count is not zero */
    float *adjusted;   /* logits after bias and penalties */
    float *maxima;     /* by block */
    double *masses;    /* by block */
    entry *entries;    /* [vocabulary] */
    entry *blocks;     /* [block_count]: maxima in the running */
};

/* ---- Opening ------------------------------------------------------------------------------------------- */

icp_status icp_sampler_open(icp_sampler **out, uint32_t vocabulary)
{
    if (out == NULL || vocabulary == 0 || vocabulary > VOCABULARY_MAX) return ICP_BAD_ARGUMENT;
    icp_sampler *sampler = calloc(1, sizeof(*sampler));
    if (sampler == NULL) return ICP_NO_MEMORY;

    size_t count = vocabulary;
    size_t block_count = (count + BLOCK_LOGITS - 1) / BLOCK_LOGITS;
    sampler->vocabulary = vocabulary;
    sampler->block_count = (uint32_t)block_count;
    sampler->counts = calloc(count, sizeof(*sampler->counts));
    sampler->touched = calloc(count, sizeof(*sampler->touched));
    sampler->adjusted = calloc(count, sizeof(*sampler->adjusted));
    sampler->maxima = calloc(block_count, sizeof(*sampler->maxima));
    sampler->masses = calloc(block_count, sizeof(*sampler->masses));
    sampler->entries = calloc(count, sizeof(*sampler->entries));
    sampler->blocks = calloc(block_count, sizeof(*sampler->blocks));
    if (sampler->counts == NULL || sampler->touched == NULL || sampler->adjusted == NULL || sampler->maxima == NULL ||
        sampler->masses == NULL || sampler->entries == NULL || sampler->blocks == NULL) {
        icp_sampler_close(sampler);
        return ICP_NO_MEMORY;
    }
    *out = sampler;
    return ICP_OK;
}

void icp_sampler_close(icp_sampler *sampler)
{
    if (sampler == NULL) return;
    free(sampler->counts);
    free(sampler->touched);
    free(sampler->adjusted);
    free(sampler->maxima);
    free(sampler->masses);
    free(sampler->entries);
    free(sampler->blocks);
    free(sampler);
}

/* ---- Checking parameters ------------------------------------------------------------------------------- */

static icp_status refuse(icp_error *error, const char *name, double value, double low, double high)
{
    if (error != NULL)
        snprintf(error->text, sizeof(error->text), "%s is %g, allowed is %g to %g", name, value, low, high);
    return ICP_BAD_ARGUMENT;
}

static icp_status check_biases(const icp_sampling *sampling, uint32_t vocabulary, icp_error *error)
{
    if (sampling->bias_count > ICP_BIAS_COUNT_MAX)
        return refuse(error, "bias_count", sampling->bias_count, 0, ICP_BIAS_COUNT_MAX);
    if (sampling->bias_count > 0 && sampling->biases == NULL) {
        if (error != NULL) snprintf(error->text, sizeof(error->text), "biases is NULL, bias_count is not 0");
        return ICP_BAD_ARGUMENT;
    }
    for (uint32_t i = 0; i < sampling->bias_count; i++) {
        const icp_bias *bias = &sampling->biases[i];
        if (bias->token >= vocabulary) return refuse(error, "the token of a bias", bias->token, 0, vocabulary - 1.0);
        if (!(bias->bias < INFINITY)) return refuse(error, "a bias", (double)bias->bias, -FLT_MAX, FLT_MAX);
    }
    return ICP_OK;
}

icp_status icp_sampling_check(const icp_sampling *sampling, uint32_t vocabulary, icp_error *error)
{
    if (sampling == NULL) return ICP_BAD_ARGUMENT;
    const struct {
        const char *name;
        float value, low, high;
    } ranges[] = {
        {"temperature", sampling->temperature, 0.0f, 100.0f},
        {"top_p", sampling->top_p, 0.0f, 1.0f},
        {"min_p", sampling->min_p, 0.0f, 1.0f},
        {"repetition_penalty", sampling->repetition_penalty, 0.0f, 100.0f},
        {"presence_penalty", sampling->presence_penalty, -2.0f, 2.0f},
        {"frequency_penalty", sampling->frequency_penalty, -2.0f, 2.0f},
    };
    for (size_t i = 0; i < sizeof(ranges) / sizeof(ranges[0]); i++) {
        if (!(ranges[i].value >= ranges[i].low && ranges[i].value <= ranges[i].high)) /* NaN too */
            return refuse(error, ranges[i].name, (double)ranges[i].value, (double)ranges[i].low,
                          (double)ranges[i].high);
    }
    if (sampling->logprob_count > ICP_LOGPROB_COUNT_MAX)
        return refuse(error, "logprob_count", sampling->logprob_count, 0, ICP_LOGPROB_COUNT_MAX);
    return check_biases(sampling, vocabulary, error);
}

/* ---- Lanes --------------------------------------------------------------------------------------------- */

static lanes lanes_load(const float *from)
{
    lanes x;
    memcpy(&x, from, sizeof(x));
    return x;
}

static lanes lanes_of(float x)
{
    return (lanes){x, x, x, x};
}

static lanes lanes_pick(lanes_mask mask, lanes yes, lanes no)
{
    return (lanes)((mask & (lanes_mask)yes) | (~mask & (lanes_mask)no));
}

/* exp of x <= 0, to about 2e-7 of its value; exp(0) is 1 exactly, exp(NaN) is 0. x = n ln 2 + r, |r| <= ln 2 / 2, then
 * the series of exp(r) up to r^6, summed in pairs for a short chain. Adding 1.5 * 2^23 rounds to a whole number, which
 * can then be read off the low bits. */
static lanes lanes_exp(lanes x)
{
    lanes_mask is_something = x >= WEIGHT_EXPONENT_MIN; /* where it is not, what follows is discarded */
    lanes shifted = x * 1.44269504f + 12582912.0f;
    lanes n = shifted - 12582912.0f;
    lanes r = (x - n * 0.693359375f) + n * 2.12194440e-4f; /* ln 2 in two parts: the first product is exact */
    lanes s = r * r;
    lanes p = (r * (1.0f / 120) + 1.0f / 24) + s * (1.0f / 720);
    p = (r * (1.0f / 6) + 0.5f) + s * p;
    p = (r + 1.0f) + s * p;
    lanes_bits power = (lanes_bits)p + ((lanes_bits)shifted << 23); /* times 2^n */
    return (lanes)((lanes_mask)power & is_something);
}

static float lanes_sum(lanes x)
{
    return (x[0] + x[1]) + (x[2] + x[3]);
}

/* ---- Blocks -------------------------------------------------------------------------------------------- */

static float cleaned(float logit)
{
    return logit > -INFINITY ? logit : -INFINITY;
}

/* The block's logits; the last one's, where it is not whole, in buffer. */
static const float *block_load(const view *seen, uint32_t block, float buffer[BLOCK_LOGITS])
{
    uint32_t first = block * BLOCK_LOGITS;
    if (seen->count - first >= BLOCK_LOGITS) return seen->logits + first;
    for (uint32_t i = 0; i < BLOCK_LOGITS; i++)
        buffer[i] = first + i < seen->count ? seen->logits[first + i] : -INFINITY;
    return buffer;
}

static lanes lanes_max(lanes x, lanes most)
{
    return lanes_pick(x > most, x, most); /* never NaN, where most is not */
}

static float block_max(const float *logits)
{
    lanes a = lanes_of(-INFINITY), b = a, c = a, d = a;
    for (uint32_t i = 0; i < BLOCK_LOGITS; i += 4 * LANE_COUNT) {
        a = lanes_max(lanes_load(logits + i), a);
        b = lanes_max(lanes_load(logits + i + LANE_COUNT), b);
        c = lanes_max(lanes_load(logits + i + 2 * LANE_COUNT), c);
        d = lanes_max(lanes_load(logits + i + 3 * LANE_COUNT), d);
    }
    a = lanes_max(lanes_max(a, b), lanes_max(c, d));
    float max = a[0];
    for (uint32_t i = 1; i < LANE_COUNT; i++) max = a[i] > max ? a[i] : max;
    return max;
}

/* The sum of the block's weights. */
static float block_mass(const view *seen, uint32_t block)
{
    float buffer[BLOCK_LOGITS];
    const float *logits = block_load(seen, block, buffer);
    const lanes max = lanes_of(seen->max), scale = lanes_of(seen->scale);
    lanes sum = lanes_of(0.0f);
    for (uint32_t i = 0; i < BLOCK_LOGITS; i += LANE_COUNT) sum += lanes_exp((lanes_load(logits + i) - max) * scale);
    return lanes_sum(sum);
}

/* Weights of the block's tokens that are within the cut, 0 for the others; returns their sum, which is the block's mass
 * to the bit where all are. */
static float block_weigh(const view *seen, uint32_t block, const cut *within, float weights[BLOCK_LOGITS])
{
    float buffer[BLOCK_LOGITS];
    const float *logits = block_load(seen, block, buffer);
    const lanes max = lanes_of(seen->max), scale = lanes_of(seen->scale);
    const lanes value = lanes_of(within->value), weight_min = lanes_of(within->weight_min);
    const int32_t last = (int32_t)within->token;
    lanes_mask token = (lanes_mask){0, 1, 2, 3} + (int32_t)(block * BLOCK_LOGITS);
    lanes sum = lanes_of(0.0f);
    for (uint32_t i = 0; i < BLOCK_LOGITS; i += LANE_COUNT, token += (int32_t)LANE_COUNT) {
        lanes x = lanes_load(logits + i);
        lanes weight = lanes_exp((x - max) * scale);
        lanes_mask is_in = (x > value) | ((x == value) & (token <= last));
        weight = (lanes)((lanes_mask)weight & is_in & (weight >= weight_min));
        memcpy(weights + i, &weight, sizeof(weight));
        sum += weight;
    }
    return lanes_sum(sum);
}

/* ---- Passes -------------------------------------------------------------------------------------------- */

/* The maxima of the blocks, and of all. Returns the first block that has it. */
static uint32_t view_scan(icp_sampler *sampler, view *seen)
{
    uint32_t best = 0;
    seen->max = -INFINITY;
    for (uint32_t block = 0; block < seen->block_count; block++) {
        float buffer[BLOCK_LOGITS];
        float max = block_max(block_load(seen, block, buffer));
        sampler->maxima[block] = max;
        if (max <= seen->max) continue;
        seen->max = max;
        best = block;
    }
    return best;
}

/* Begins with logits. Returns the first token that has the largest. */
static uint32_t view_begin(icp_sampler *sampler, view *seen, const float *logits)
{
    *seen = (view){.logits = logits, .count = sampler->vocabulary, .block_count = sampler->block_count, .scale = 1.0f};
    uint32_t token = view_scan(sampler, seen) * BLOCK_LOGITS;
    if (seen->max == -INFINITY) return 0;
    if (seen->max == INFINITY) {
        for (uint32_t i = 0; i < seen->count; i++)
            sampler->adjusted[i] = logits[i] == INFINITY ? FLT_MAX : cleaned(logits[i]);
        seen->logits = sampler->adjusted;
        token = view_scan(sampler, seen) * BLOCK_LOGITS;
    }
    while (!(seen->logits[token] >= seen->max)) token++;
    return token;
}

/* The mass within the cut, by block and in all. */
static double view_weigh(icp_sampler *sampler, const view *seen, const cut *within)
{
    double sum = 0.0;
    bool is_all = within->value == -INFINITY && within->weight_min <= 0.0f;
    for (uint32_t block = 0; block < seen->block_count; block++) {
        float weights[BLOCK_LOGITS], mass = 0.0f;
        if (is_all)
            mass = block_mass(seen, block);
        else if (sampler->maxima[block] >= within->value)
            mass = block_weigh(seen, block, within, weights);
        sampler->masses[block] = (double)mass;
        sum += (double)mass;
    }
    return sum;
}

static uint64_t mix(uint64_t x)
{
    x += 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

static bool is_before(const entry *a, const entry *b)
{
    return a->value > b->value || (a->value == b->value && a->token < b->token);
}

static void entries_swap(entry *a, entry *b)
{
    entry kept = *a;
    *a = *b;
    *b = kept;
}

static void entries_sort(entry *entries, uint32_t count)
{
    for (uint32_t i = 1; i < count; i++) {
        entry moved = entries[i];
        uint32_t j = i;
        for (; j > 0 && is_before(&moved, &entries[j - 1]); j--) entries[j] = entries[j - 1];
        entries[j] = moved;
    }
}

/* Moves the pivot to where it belongs and all that come before it to before it. Returns its place; *sum is the
 * weight of those before it. */
static uint32_t entries_part(entry *entries, uint32_t count, bool is_counted, double *sum)
{
    entries_swap(&entries[mix(count) % count], &entries[count - 1]);
    entry pivot = entries[count - 1];
    uint32_t place = 0;
    *sum = 0.0;
    for (uint32_t i = 0; i + 1 < count; i++) {
        bool is_above = is_before(&entries[i], &pivot); /* half of them, at random: no branch on it */
        *sum += is_above ? (is_counted ? 1.0 : (double)entries[i].weight) : 0.0;
        entries_swap(&entries[i], &entries[place]);
        place += is_above;
    }
    entries_swap(&entries[place], &entries[count - 1]);
    return place;
}

/* Moves to the front the fewest entries, in order, that weigh at least target together (each 1 where is_counted), all
 * where all do not. Returns how many; the last of them is the last in order, the others are in any. */
static uint32_t entries_keep(entry *entries, uint32_t count, double target, bool is_counted)
{
    uint32_t first = 0, end = count; /* the last one kept is in [first, end) */
    double sum = 0.0;                /* of those before first */
    while (end - first > SORTED_COUNT_MAX) {
        double above;
        uint32_t place = first + entries_part(entries + first, end - first, is_counted, &above);
        if (sum + above >= target) {
            end = place;
            continue;
        }
        sum += above + (is_counted ? 1.0 : (double)entries[place].weight);
        first = place + 1;
        if (sum >= target) return first;
    }
    entries_sort(entries + first, end - first);
    while (first < end && sum < target) sum += is_counted ? 1.0 : (double)entries[first].weight, first++;
    return first;
}

/* All tokens whose logit is at least value, in the order of tokens. */
static uint32_t view_collect(icp_sampler *sampler, const view *seen, float value)
{
    uint32_t count = 0;
    for (uint32_t block = 0; block < seen->block_count; block++) {
        if (sampler->maxima[block] < value) continue;
        float weights[BLOCK_LOGITS];
        block_weigh(seen, block, &cut_none, weights);
        uint32_t token = block * BLOCK_LOGITS;
        for (uint32_t i = 0; i < BLOCK_LOGITS && token < seen->count; i++, token++) {
            float logit = cleaned(seen->logits[token]);
            sampler->entries[count] = (entry){.value = logit, .weight = weights[i], .token = token};
            count += logit >= value;
        }
    }
    return count;
}

/* The likeliest tokens, enough of them to weigh target: those within 4 of the largest exponent, or 8, or 16 ... */
static uint32_t view_collect_p(icp_sampler *sampler, const view *seen, double target)
{
    for (float depth = 4.0f; depth <= -WEIGHT_EXPONENT_MIN; depth *= 2.0f) {
        uint32_t count = view_collect(sampler, seen, seen->max - depth / seen->scale);
        double mass = 0.0;
        for (uint32_t i = 0; i < count; i++) mass += (double)sampler->entries[i].weight;
        if (mass >= target) return count;
    }
    return view_collect(sampler, seen, -INFINITY);
}

/* The k likeliest become the first entries; the k-th is the last of them. k <= count of tokens. */
static void view_keep_k(icp_sampler *sampler, const view *seen, uint32_t k)
{
    float bound = -INFINITY;
    if (k < seen->block_count) {
        for (uint32_t i = 0; i < seen->block_count; i++)
            sampler->blocks[i] = (entry){.value = sampler->maxima[i], .token = i};
        bound = sampler->blocks[entries_keep(sampler->blocks, seen->block_count, k, true) - 1].value;
    }
    uint32_t count = view_collect(sampler, seen, bound);
    uint32_t kept = entries_keep(sampler->entries, count, k, true);
    ICP_ASSERT(kept == k);
}

/* ---- Choosing ------------------------------------------------------------------------------------------ */

/* The cut of top-k, top-p and min-p. */
static cut find_cut(icp_sampler *sampler, const view *seen, const icp_sampling *sampling)
{
    cut found = cut_none;
    found.weight_min = sampling->min_p;
    uint32_t kept = 0;
    if (sampling->top_k > 0 && sampling->top_k < seen->count) {
        kept = sampling->top_k;
        view_keep_k(sampler, seen, kept);
    }
    if (sampling->top_p > 0.0f && sampling->top_p < 1.0f) {
        double p = (double)sampling->top_p, mass = 0.0;
        if (kept > 0) {
            for (uint32_t i = 0; i < kept; i++) mass += (double)sampler->entries[i].weight;
        } else {
            mass = view_weigh(sampler, seen, &cut_none);
            kept = view_collect_p(sampler, seen, p * mass);
        }
        kept = entries_keep(sampler->entries, kept, p * mass, false);
    }
    if (kept > 0) {
        found.value = sampler->entries[kept - 1].value;
        found.token = sampler->entries[kept - 1].token;
    } else if (sampling->min_p > 0.0f) {
        found.value = seen->max + (logf(sampling->min_p) - 0.01f) / seen->scale; /* no weight_min below: skips blocks */
    }
    return found;
}

/* The token at share u of the mass within the cut. */
static uint32_t draw(icp_sampler *sampler, const view *seen, const cut *within, double u)
{
    double target = u * view_weigh(sampler, seen, within);
    uint32_t block = 0;
    for (uint32_t i = 0; i < seen->block_count; i++) {
        if (sampler->masses[i] <= 0.0) continue;
        block = i; /* rounding may take the target past the end: the last block that has mass */
        if (target < sampler->masses[i]) break;
        target -= sampler->masses[i];
    }
    float weights[BLOCK_LOGITS];
    block_weigh(seen, block, within, weights);
    uint32_t chosen = 0;
    for (uint32_t i = 0; i < BLOCK_LOGITS; i++) {
        if (weights[i] <= 0.0f) continue;
        chosen = i;
        if (target < (double)weights[i]) break;
        target -= (double)weights[i];
    }
    return block * BLOCK_LOGITS + chosen;
}

static double uniform(uint64_t seed, uint32_t branch, uint32_t index)
{
    uint64_t bits = mix(mix(mix(seed) ^ ((uint64_t)branch << 32 | index)));
    return (double)(bits >> 11) * 0x1p-53;
}

/* ---- Penalties ----------------------------------------------------------------------------------------- */

static bool is_penalized(const icp_sampling *sampling)
{
    return (sampling->repetition_penalty > 0.0f && sampling->repetition_penalty != 1.0f) ||
           sampling->presence_penalty != 0.0f || sampling->frequency_penalty != 0.0f;
}

/* In time of the tokens so far; the counts are zero again after it. */
static void penalize(icp_sampler *sampler, const icp_sample_input *input)
{
    const icp_sampling *sampling = input->sampling;
    uint32_t touched_count = 0;
    for (uint32_t i = 0; i < input->token_count; i++) {
        uint32_t token = input->tokens[i];
        ICP_ASSERT(token < sampler->vocabulary);
        if (sampler->counts[token] == 0) {
            sampler->touched[touched_count++] = token;
            sampler->counts[token] = 1;
        }
        if (i >= input->prompt_count) sampler->counts[token]++;
    }
    for (uint32_t i = 0; i < touched_count; i++) {
        uint32_t token = sampler->touched[i];
        uint32_t generated_count = sampler->counts[token] - 1;
        float x = sampler->adjusted[token];
        float repetition = sampling->repetition_penalty;
        if (repetition > 0.0f) x = x > 0.0f ? x / repetition : x * repetition;
        if (generated_count > 0) x -= sampling->presence_penalty + sampling->frequency_penalty * (float)generated_count;
        sampler->adjusted[token] = x;
        sampler->counts[token] = 0;
    }
}

/* The logits after bias, bans and penalties: the caller's own where there are none. */
static const float *adjust(icp_sampler *sampler, const icp_sample_input *input)
{
    const icp_sampling *sampling = input->sampling;
    bool is_adjusted = sampling->bias_count > 0 || input->banned_count > 0 || is_penalized(sampling);
    if (!is_adjusted) return input->logits;

    memcpy(sampler->adjusted, input->logits, sampler->vocabulary * sizeof(*sampler->adjusted));
    for (uint32_t i = 0; i < sampling->bias_count; i++) {
        const icp_bias *bias = &sampling->biases[i];
        ICP_ASSERT(bias->token < sampler->vocabulary);
        float *logit = &sampler->adjusted[bias->token];
        *logit = bias->bias <= -100.0f ? -INFINITY : *logit + bias->bias;
    }
    for (uint32_t i = 0; i < input->banned_count; i++) {
        ICP_ASSERT(input->banned[i] < sampler->vocabulary);
        sampler->adjusted[input->banned[i]] = -INFINITY;
    }
    if (is_penalized(sampling)) penalize(sampler, input);
    return sampler->adjusted;
}

/* ---- Sampling ------------------------------------------------------------------------------------------ */

static float logprob_of(float logit, double mass_log)
{
    double logprob = (double)(logit > FLT_MAX ? FLT_MAX : cleaned(logit)) - mass_log;
    return logprob > (double)LOGPROB_MIN ? (float)logprob : LOGPROB_MIN; /* the least for NaN too: no logit counted */
}

/* The log of the mass of the logits as they came, and the likeliest tokens. */
static double report(icp_sampler *sampler, const view *raw, const icp_sampling *sampling, icp_sample *out)
{
    double mass_log = (double)raw->max + log(view_weigh(sampler, raw, &cut_none));
    uint32_t count = sampling->logprob_count < raw->count ? sampling->logprob_count : raw->count;
    out->candidate_count = count;
    if (count == 0) return mass_log;

    view_keep_k(sampler, raw, count);
    entries_sort(sampler->entries, count);
    for (uint32_t i = 0; i < count; i++) {
        const entry *found = &sampler->entries[i];
        out->candidates[i].token = found->token;
        out->candidates[i].logprob = logprob_of(found->value, mass_log);
    }
    return mass_log;
}

void icp_sampler_sample(icp_sampler *sampler, const icp_sample_input *input, icp_sample *out)
{
    const icp_sampling *sampling = input->sampling;
    ICP_ASSERT(sampling->logprob_count <= ICP_LOGPROB_COUNT_MAX && input->prompt_count <= input->token_count);
    view seen;
    uint32_t best = view_begin(sampler, &seen, input->logits);
    bool is_reported = sampling->is_logprob_wanted || sampling->logprob_count > 0;
    double mass_log = 0.0;
    out->candidate_count = 0;
    out->logprob = 0.0f;
    if (is_reported) mass_log = report(sampler, &seen, sampling, out);

    const float *logits = adjust(sampler, input);
    if (logits != input->logits) best = view_begin(sampler, &seen, logits);
    out->token = best;
    if (sampling->temperature >= TEMPERATURE_MIN && seen.max > -INFINITY) {
        seen.scale = 1.0f / sampling->temperature;
        cut within = find_cut(sampler, &seen, sampling);
        double u = uniform(sampling->seed, input->branch, input->token_count - input->prompt_count);
        out->token = draw(sampler, &seen, &within, u);
    }
    if (is_reported) out->logprob = logprob_of(input->logits[out->token], mass_log);
}
