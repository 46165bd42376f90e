/* test_sampler.c - the sampler against a slow one that sorts, in doubles, and its promises one by one.
 *
 * The naive sampler below makes the whole distribution: every token's share, in the order of tokens. The sampler's
 * token must be the one whose share of the unit interval holds the draw's number, which the test computes too; so each
 * sample checks filters, weights, order and generator at once. Roundings are allowed for: EPSILON of the mass. Cases
 * where a filter's edge lies within it are passed over, and counted, so that they stay few. */
#include "model/sampler.h"
#include "world.h"

#include <float.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EPSILON 2e-5
#define VOCABULARY_MAX 5000u
#define TEXT_MAX 64u

static const icp_sampling plain = {.temperature = 1.0f};

static icp_sampler *open_sampler(uint32_t vocabulary)
{
    icp_sampler *sampler = NULL;
    assert_int_equal(icp_sampler_open(&sampler, vocabulary), ICP_OK);
    return sampler;
}

/* ---- The naive sampler ------------------------------------------------------------------------------------- */

typedef struct ranked {
    float logit;
    uint32_t token;
    double weight;
} ranked;

static int by_rank(const void *a, const void *b)
{
    const ranked *left = a, *right = b;
    if (left->logit != right->logit) return left->logit > right->logit ? -1 : 1;
    return left->token < right->token ? -1 : 1;
}

static float naive_clean(float logit)
{
    if (isnan(logit)) return -INFINITY;
    return logit > FLT_MAX ? FLT_MAX : logit;
}

/* The logit of a token after bias, ban and penalties, by counting through the whole text. */
static float naive_logit(const icp_sample_input *input, uint32_t token)
{
    const icp_sampling *sampling = input->sampling;
    float logit = input->logits[token];
    for (uint32_t i = 0; i < sampling->bias_count; i++) {
        if (sampling->biases[i].token == token) logit += sampling->biases[i].bias;
        if (sampling->biases[i].token == token && sampling->biases[i].bias <= -100.0f) logit = -INFINITY;
    }
    for (uint32_t i = 0; i < input->banned_count; i++) {
        if (input->banned[i] == token) logit = -INFINITY;
    }
    uint32_t there = 0, generated = 0;
    for (uint32_t i = 0; i < input->token_count; i++) {
        if (input->tokens[i] != token) continue;
        there++;
        generated += i >= input->prompt_count;
    }
    if (there > 0 && sampling->repetition_penalty != 0.0f && logit > 0.0f)
        logit /= sampling->repetition_penalty;
    else if (there > 0 && sampling->repetition_penalty != 0.0f)
        logit *= sampling->repetition_penalty;
    if (generated > 0) logit -= sampling->presence_penalty + sampling->frequency_penalty * (float)generated;
    return naive_clean(logit);
}

/* What the distribution is: shares[token] sum up to 1. False: a filter's edge is too close to call. */
static bool naive_shares(const icp_sample_input *input, uint32_t vocabulary, double *shares)
{
    const icp_sampling *sampling = input->sampling;
    ranked *all = calloc(vocabulary, sizeof(*all));
    for (uint32_t i = 0; i < vocabulary; i++) all[i] = (ranked){.logit = naive_logit(input, i), .token = i};
    qsort(all, vocabulary, sizeof(*all), by_rank);
    for (uint32_t i = 0; i < vocabulary; i++)
        all[i].weight = exp(((double)all[i].logit - (double)all[0].logit) / (double)sampling->temperature);

    bool is_clear = true;
    uint32_t kept = sampling->top_k > 0 && sampling->top_k < vocabulary ? sampling->top_k : vocabulary;
    if (sampling->top_p > 0.0f && sampling->top_p < 1.0f) {
        double total = 0.0, sum = 0.0;
        for (uint32_t i = 0; i < kept; i++) total += all[i].weight;
        uint32_t count = 0;
        while (count < kept && sum < (double)sampling->top_p * total) {
            sum += all[count++].weight;
            if (fabs(sum / total - (double)sampling->top_p) < EPSILON) is_clear = false;
        }
        kept = count;
    }
    memset(shares, 0, vocabulary * sizeof(*shares));
    double mass = 0.0;
    for (uint32_t i = 0; i < kept; i++) {
        if (fabs(all[i].weight / (double)sampling->min_p - 1.0) < EPSILON && all[i].weight < 1.0) is_clear = false;
        if (all[i].weight < (double)sampling->min_p) continue;
        shares[all[i].token] = all[i].weight;
        mass += all[i].weight;
    }
    for (uint32_t i = 0; i < vocabulary; i++) shares[i] /= mass;
    free(all);
    return is_clear;
}

static uint64_t naive_mix(uint64_t x)
{
    x += 0x9e3779b97f4a7c15u;
    x ^= x >> 30;
    x *= 0xbf58476d1ce4e5b9u;
    x ^= x >> 27;
    x *= 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

static double naive_uniform(const icp_sample_input *input)
{
    uint64_t place = (uint64_t)input->branch << 32 | (input->token_count - input->prompt_count);
    return (double)(naive_mix(naive_mix(naive_mix(input->sampling->seed) ^ place)) >> 11) / 9007199254740992.0;
}

/* ---- Random cases ------------------------------------------------------------------------------------------ */

typedef struct random_case {
    icp_sampling sampling;
    icp_sample_input input;
    uint32_t vocabulary;
    float logits[VOCABULARY_MAX];
    uint32_t tokens[TEXT_MAX];
    uint32_t banned[4];
    icp_bias biases[8];
} random_case;

static double unit(uint64_t *seed)
{
    return world_random(seed) / 4294967296.0;
}

static float bell(uint64_t *seed)
{
    return (float)(sqrt(-2.0 * log(1.0 - unit(seed))) * cos(6.283185307 * unit(seed)));
}

static uint32_t below(uint64_t *seed, uint32_t limit)
{
    return world_random(seed) % limit;
}

static void make_logits(random_case *made, uint64_t *seed)
{
    static const float odd[] = {NAN, INFINITY, -INFINITY, FLT_MAX, -FLT_MAX, 0.0f, 1e30f};
    uint32_t kind = below(seed, 7);
    float spread = (float[]){0.1f, 1.0f, 3.0f, 10.0f}[below(seed, 4)];
    for (uint32_t i = 0; i < made->vocabulary; i++) {
        float *logit = &made->logits[i];
        switch (kind) {
        case 0:
            *logit = 1.25f;
            break; /* all equal */
        case 1:
            *logit = roundf(bell(seed));
            break; /* many ties */
        case 2:
            *logit = (float)i * 0.01f;
            break; /* rising */
        case 3:
            *logit = -(float)i * 0.01f;
            break; /* falling */
        case 4:
            *logit = below(seed, 4) == 0 ? odd[below(seed, 7)] : bell(seed);
            break;
        default:
            *logit = bell(seed) * spread;
            break;
        }
    }
}

static void make_case(random_case *made, uint64_t *seed)
{
    static const uint32_t sizes[] = {1, 2, 3, 40, 63, 64, 65, 127, 128, 1000, 3000, VOCABULARY_MAX};
    made->vocabulary = sizes[below(seed, 12)];
    make_logits(made, seed);
    icp_sampling *sampling = &made->sampling;
    *sampling = (icp_sampling){.temperature = (float)(0.01 + 2.0 * unit(seed)), .seed = world_random(seed)};
    if (below(seed, 10) == 0) sampling->temperature = 100.0f;
    if (below(seed, 2) == 0) sampling->top_k = (uint32_t[]){1, 2, 5, 40, 90, 4000, UINT32_MAX}[below(seed, 7)];
    if (below(seed, 2) == 0) sampling->top_p = (float[]){1e-30f, 0.1f, 0.5f, 0.9f, 0.95f, 0.999f, 1.0f}[below(seed, 7)];
    if (below(seed, 3) == 0) sampling->min_p = (float[]){1e-6f, 0.05f, 0.3f, 1.0f}[below(seed, 4)];
    if (below(seed, 3) == 0) sampling->repetition_penalty = (float)(0.5 + unit(seed));
    if (below(seed, 3) == 0) sampling->presence_penalty = (float)(4.0 * unit(seed) - 2.0);
    if (below(seed, 3) == 0) sampling->frequency_penalty = (float)(4.0 * unit(seed) - 2.0);
    sampling->logprob_count = below(seed, 2) == 0 ? below(seed, ICP_LOGPROB_COUNT_MAX + 1) : 0;
    sampling->biases = made->biases;
    sampling->bias_count = below(seed, 4) == 0 ? below(seed, 9) : 0;
    for (uint32_t i = 0; i < 8; i++)
        made->biases[i] = (icp_bias){below(seed, made->vocabulary), below(seed, 3) == 0 ? -100.0f : bell(seed)};
    for (uint32_t i = 0; i < TEXT_MAX; i++) made->tokens[i] = below(seed, made->vocabulary);
    for (uint32_t i = 0; i < 4; i++) made->banned[i] = below(seed, made->vocabulary);
    made->input = (icp_sample_input){.sampling = sampling,
                                     .logits = made->logits,
                                     .tokens = made->tokens,
                                     .token_count = below(seed, TEXT_MAX + 1),
                                     .branch = below(seed, 3),
                                     .banned = made->banned,
                                     .banned_count = below(seed, 3) == 0 ? below(seed, 5) : 0};
    made->input.prompt_count = below(seed, made->input.token_count + 1);
}

static void assert_near(double found, double expected)
{
    if (fabs(found - expected) > 1e-5 + 1e-6 * fabs(expected)) fail_msg("%.9g, not %.9g", found, expected);
}

/* Log-probabilities are those of the logits as they came. */
static void check_logprobs(const random_case *made, const icp_sample *sample)
{
    ranked *all = calloc(made->vocabulary, sizeof(*all));
    for (uint32_t i = 0; i < made->vocabulary; i++) all[i] = (ranked){naive_clean(made->logits[i]), i, 0.0};
    qsort(all, made->vocabulary, sizeof(*all), by_rank);
    double sum = 0.0;
    for (uint32_t i = 0; i < made->vocabulary; i++) sum += exp((double)all[i].logit - (double)all[0].logit);
    double mass = (double)all[0].logit + log(sum);
    uint32_t wanted = made->sampling.logprob_count;
    assert_int_equal(sample->candidate_count, wanted < made->vocabulary ? wanted : made->vocabulary);
    for (uint32_t i = 0; i < sample->candidate_count; i++) {
        assert_int_equal(sample->candidates[i].token, all[i].token);
        assert_near((double)sample->candidates[i].logprob, fmax(-9999.0, (double)all[i].logit - mass));
    }
    if (wanted > 0) {
        double logit = (double)naive_clean(made->logits[sample->token]);
        assert_near((double)sample->logprob, fmax(-9999.0, logit - mass));
    }
    free(all);
}

/* The number of the draw lies in the share of the token that came. */
static void check_draw(const random_case *made, const double *shares, uint32_t token)
{
    double before = 0.0, u = naive_uniform(&made->input);
    assert_true(token < made->vocabulary);
    for (uint32_t i = 0; i < token; i++) before += shares[i];
    if (shares[token] <= 0.0 || u < before - EPSILON || u > before + shares[token] + EPSILON) {
        fail_msg("token %u of %u, share %g after %g, u %g, temperature %g, top_k %u, top_p %g, min_p %g", token,
                 made->vocabulary, shares[token], before, u, (double)made->sampling.temperature, made->sampling.top_k,
                 (double)made->sampling.top_p, (double)made->sampling.min_p);
    }
}

static void every_sample_is_the_one_that_a_sorting_sampler_draws(void **state)
{
    (void)state;
    uint64_t seed = 20261115;
    uint32_t case_count = 3000, unclear_count = 0;
    print_message("seed %llu\n", (unsigned long long)seed);
    random_case *made = calloc(1, sizeof(*made));
    double *shares = calloc(VOCABULARY_MAX, sizeof(*shares));
    for (uint32_t i = 0; i < case_count; i++) {
        make_case(made, &seed);
        icp_error error;
        assert_int_equal(icp_sampling_check(&made->sampling, made->vocabulary, &error), ICP_OK);
        icp_sampler *sampler = open_sampler(made->vocabulary);
        icp_sample sample;
        icp_sampler_sample(sampler, &made->input, &sample);
        bool is_any = false;
        for (uint32_t t = 0; t < made->vocabulary; t++) is_any |= naive_logit(&made->input, t) > -INFINITY;
        if (!is_any)
            assert_int_equal(sample.token, 0);
        else if (naive_shares(&made->input, made->vocabulary, shares))
            check_draw(made, shares, sample.token);
        else
            unclear_count++;
        check_logprobs(made, &sample);
        icp_sampler_close(sampler);
    }
    assert_true(unclear_count < case_count / 20);
    free(shares);
    free(made);
}

static void temperature_zero_takes_the_likeliest_and_the_lower_of_equals(void **state)
{
    (void)state;
    uint64_t seed = 7;
    random_case *made = calloc(1, sizeof(*made));
    for (uint32_t i = 0; i < 500; i++) {
        make_case(made, &seed);
        made->sampling.temperature = i % 2 == 0 ? 0.0f : 1e-6f;
        icp_sampler *sampler = open_sampler(made->vocabulary);
        icp_sample sample;
        icp_sampler_sample(sampler, &made->input, &sample);
        uint32_t best = 0;
        for (uint32_t t = 1; t < made->vocabulary; t++) {
            if (naive_logit(&made->input, t) > naive_logit(&made->input, best)) best = t;
        }
        assert_int_equal(sample.token, best);
        icp_sampler_close(sampler);
    }
    free(made);
}

/* ---- Distributions ----------------------------------------------------------------------------------------- */

/* Chi-square of count draws against the naive shares; the numbers of the draws are fixed, so this never wavers. */
static double chi_square(const icp_sampling *sampling, const float *logits, uint32_t vocabulary, uint32_t count)
{
    icp_sampler *sampler = open_sampler(vocabulary);
    uint32_t *text = calloc(count, sizeof(*text));
    uint32_t hits[64] = {0};
    double shares[64], sum = 0.0;
    icp_sample_input input = {.sampling = sampling, .logits = logits, .tokens = text};
    assert_true(naive_shares(&input, vocabulary, shares));
    for (; input.token_count < count; input.token_count++) {
        icp_sample sample;
        icp_sampler_sample(sampler, &input, &sample);
        hits[sample.token]++;
        text[input.token_count] = sample.token;
    }
    for (uint32_t i = 0; i < vocabulary; i++) {
        double expected = shares[i] * count;
        if (expected <= 0.0)
            assert_int_equal(hits[i], 0);
        else
            sum += (hits[i] - expected) * (hits[i] - expected) / expected;
    }
    free(text);
    icp_sampler_close(sampler);
    return sum;
}

static void draws_follow_the_distribution(void **state)
{
    (void)state;
    float logits[20];
    for (uint32_t i = 0; i < 20; i++) logits[i] = (float)(i * 7 % 20) * 0.15f;
    for (uint64_t seed = 1; seed <= 5; seed++) {
        icp_sampling sampling = plain;
        sampling.seed = seed;
        assert_true(chi_square(&sampling, logits, 20, 20000) < 43.8); /* 19 degrees of freedom, 0.1 % */
        sampling.temperature = 0.5f;
        assert_true(chi_square(&sampling, logits, 20, 20000) < 43.8);
        sampling.top_k = 11;
        assert_true(chi_square(&sampling, logits, 20, 20000) < 29.6); /* 10 */
        sampling.top_p = 0.7f;
        assert_true(chi_square(&sampling, logits, 20, 20000) < 29.6);
    }
}

static void branches_and_seeds_draw_on_their_own(void **state)
{
    (void)state;
    float logits[64] = {0};
    icp_sampler *sampler = open_sampler(64);
    uint32_t text[256] = {0}, equal_branches = 0, equal_seeds = 0;
    for (uint32_t i = 0; i < 256; i++) {
        icp_sampling one = plain, other = plain;
        other.seed = 1;
        icp_sample_input input = {.sampling = &one, .logits = logits, .tokens = text, .token_count = i};
        icp_sample first, second, third;
        icp_sampler_sample(sampler, &input, &first);
        input.branch = 1;
        icp_sampler_sample(sampler, &input, &second);
        input.branch = 0;
        input.sampling = &other;
        icp_sampler_sample(sampler, &input, &third);
        equal_branches += first.token == second.token;
        equal_seeds += first.token == third.token;
    }
    assert_in_range(equal_branches, 0, 16); /* 4 are expected */
    assert_in_range(equal_seeds, 0, 16);
    icp_sampler_close(sampler);
}

/* ---- Promises ---------------------------------------------------------------------------------------------- */

static void a_request_gets_the_same_token_whatever_was_sampled_before(void **state)
{
    (void)state;
    uint64_t seed = 99;
    random_case *made = calloc(1, sizeof(*made));
    icp_sampler *shared[2] = {NULL, NULL};
    for (uint32_t i = 0; i < 400; i++) {
        do make_case(made, &seed);
        while (made->vocabulary != 1000 && made->vocabulary != 65);
        icp_sampler **used = &shared[made->vocabulary == 65];
        if (*used == NULL) *used = open_sampler(made->vocabulary);
        icp_sampler *fresh = open_sampler(made->vocabulary);
        icp_sample first, second;
        memset(&first, 0, sizeof(first));
        memset(&second, 0, sizeof(second));
        icp_sampler_sample(*used, &made->input, &first);
        icp_sampler_sample(fresh, &made->input, &second);
        assert_memory_equal(&first, &second, sizeof(first));
        icp_sampler_close(fresh);
    }
    icp_sampler_close(shared[0]);
    icp_sampler_close(shared[1]);
    free(made);
}

static void a_filter_that_keeps_everything_changes_nothing(void **state)
{
    (void)state;
    uint64_t seed = 3;
    random_case *made = calloc(1, sizeof(*made));
    for (uint32_t i = 0; i < 200; i++) {
        make_case(made, &seed);
        icp_sampler *sampler = open_sampler(made->vocabulary);
        icp_sample first, second;
        made->sampling.top_p = made->sampling.min_p = 0.0f;
        made->sampling.top_k = 0;
        icp_sampler_sample(sampler, &made->input, &first);
        made->sampling.top_p = 1.0f;
        made->sampling.top_k = made->vocabulary + below(&seed, 10);
        icp_sampler_sample(sampler, &made->input, &second);
        assert_int_equal(first.token, second.token);
        icp_sampler_close(sampler);
    }
    free(made);
}

static void a_text_reads_the_same_on_every_machine(void **state)
{
    (void)state;
    /* Logits without a library function in them, and the tokens that they gave when this was written. */
    static const uint32_t expected[12] = {1612, 2417, 70, 706, 3740, 2896, 3649, 1408, 2778, 327, 3341, 1796};
    float *logits = calloc(4096, sizeof(*logits));
    uint64_t seed = 11;
    for (uint32_t i = 0; i < 4096; i++) logits[i] = (float)(world_random(&seed) >> 16) / 8192.0f;
    icp_sampler *sampler = open_sampler(4096);
    uint32_t text[12] = {0};
    icp_sampling sampling = {.temperature = 0.7f, .top_p = 0.9f, .min_p = 0.01f, .seed = 42};
    icp_sample_input input = {.sampling = &sampling, .logits = logits, .tokens = text};
    for (; input.token_count < 12; input.token_count++) {
        icp_sample sample;
        icp_sampler_sample(sampler, &input, &sample);
        text[input.token_count] = sample.token;
    }
    assert_memory_equal(text, expected, sizeof(text));
    icp_sampler_close(sampler);
    free(logits);
}

static void banned_tokens_never_come(void **state)
{
    (void)state;
    float logits[4] = {5.0f, 1.0f, 1.0f, 4.0f};
    uint32_t banned[1] = {0}, text[64] = {0};
    icp_bias bias = {.token = 3, .bias = -100.0f};
    icp_sampling sampling = {.temperature = 2.0f, .biases = &bias, .bias_count = 1, .is_logprob_wanted = 1};
    icp_sampler *sampler = open_sampler(4);
    icp_sample_input input = {
        .sampling = &sampling, .logits = logits, .tokens = text, .banned = banned, .banned_count = 1};
    for (; input.token_count < 64; input.token_count++) {
        icp_sample sample;
        icp_sampler_sample(sampler, &input, &sample);
        assert_in_range(sample.token, 1, 2);
        assert_near((double)sample.logprob, 1.0 - (5.0 + log(1.0 + 2.0 * exp(-4.0) + exp(-1.0))));
    }
    icp_sampler_close(sampler);
}

static void assert_refused(icp_sampling sampling, const char *expected)
{
    icp_error error = {""};
    assert_int_equal(icp_sampling_check(&sampling, 100, &error), ICP_BAD_ARGUMENT);
    if (strstr(error.text, expected) == NULL) fail_msg("\"%s\" does not name %s", error.text, expected);
    assert_int_equal(icp_sampling_check(&sampling, 100, NULL), ICP_BAD_ARGUMENT);
}

static void parameters_out_of_range_are_refused_by_name(void **state)
{
    (void)state;
    icp_bias far = {.token = 100, .bias = 1.0f}, wrong = {.token = 1, .bias = NAN};
    assert_refused((icp_sampling){.temperature = -0.1f}, "temperature");
    assert_refused((icp_sampling){.temperature = 100.5f}, "temperature is 100.5, allowed is 0 to 100");
    assert_refused((icp_sampling){.temperature = NAN}, "temperature");
    assert_refused((icp_sampling){.top_p = 1.01f}, "top_p");
    assert_refused((icp_sampling){.top_p = NAN}, "top_p");
    assert_refused((icp_sampling){.min_p = -0.01f}, "min_p");
    assert_refused((icp_sampling){.repetition_penalty = -1.0f}, "repetition_penalty");
    assert_refused((icp_sampling){.presence_penalty = 2.1f}, "presence_penalty");
    assert_refused((icp_sampling){.frequency_penalty = -2.1f}, "frequency_penalty");
    assert_refused((icp_sampling){.logprob_count = 21}, "logprob_count");
    assert_refused((icp_sampling){.bias_count = 1}, "biases is NULL");
    assert_refused((icp_sampling){.bias_count = 1025, .biases = &far}, "bias_count");
    assert_refused((icp_sampling){.bias_count = 1, .biases = &far}, "token of a bias is 100");
    assert_refused((icp_sampling){.bias_count = 1, .biases = &wrong}, "a bias");
    assert_int_equal(icp_sampling_check(NULL, 100, NULL), ICP_BAD_ARGUMENT);
    icp_sampler *sampler = NULL;
    assert_int_equal(icp_sampler_open(&sampler, 0), ICP_BAD_ARGUMENT);
    assert_int_equal(icp_sampler_open(&sampler, UINT32_MAX), ICP_BAD_ARGUMENT);
    icp_sampler_close(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_sample_is_the_one_that_a_sorting_sampler_draws),
        cmocka_unit_test(temperature_zero_takes_the_likeliest_and_the_lower_of_equals),
        cmocka_unit_test(draws_follow_the_distribution),
        cmocka_unit_test(branches_and_seeds_draw_on_their_own),
        cmocka_unit_test(a_request_gets_the_same_token_whatever_was_sampled_before),
        cmocka_unit_test(a_filter_that_keeps_everything_changes_nothing),
        cmocka_unit_test(a_text_reads_the_same_on_every_machine),
        cmocka_unit_test(banned_tokens_never_come),
        cmocka_unit_test(parameters_out_of_range_are_refused_by_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
