/* test_engine.c - the whole engine on the CPU backend: the same bits in every way of running it, and what users see.
 *
 * SAME BITS. A set of requests is run in some way, and the logits that sampling saw are kept for every token. Whatever
 * the way (cache, chunks, batch, preemption, threads), they must be the very bits of the plain way: one at a time, one
 * thread, no cache. On random models of every architecture, and on the built-in one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "engine/engine.h"
#include "model_make.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define REQUESTS 9u
#define PROMPT_MAX 120u
#define OUTPUT_MAX 10u
#define TEXT_MAX 512u

typedef struct answer {
    uint32_t tokens[OUTPUT_MAX];
    uint32_t count;
    float *logits; /* [OUTPUT_MAX, vocabulary] */
    char text[TEXT_MAX];
    uint32_t text_bytes;
    uint32_t cached;
    icp_finish finish;
} answer;

typedef struct prompt {
    uint32_t tokens[PROMPT_MAX];
    uint32_t count;
} prompt;

typedef struct lab {
    gguf_make image;
    bool has_image;
    icp_model *model;
    uint32_t vocabulary;
    uint32_t request_count; /* REQUESTS, or less where the model is large */
    prompt prompts[REQUESTS];
    answer plain[REQUESTS];
    answer seen[REQUESTS];
} lab;

/* ---- The lab -------------------------------------------------------------------------------------------------- */

static void must(icp_status status, const icp_error *error)
{
    if (status != ICP_OK) fail_msg("%s: %s", icp_status_name(status), error->text);
}

/* Prompts that share beginnings: of none, half, most and all of another, of any length. */
static void make_prompts(lab *self)
{
    static const uint32_t shared[REQUESTS] = {0, 0, 50, 16, 33, 60, 60, 0, 7};
    static const uint32_t counts[REQUESTS] = {60, 1, 73, 31, 34, 61, 60, 96, 40};
    uint64_t random = 1;
    for (uint32_t i = 0; i < REQUESTS; i++) {
        prompt *p = &self->prompts[i];
        p->count = counts[i];
        for (uint32_t j = 0; j < p->count; j++) {
            random = random * 6364136223846793005u + 1442695040888963407u;
            uint32_t other = (uint32_t)(random >> 33) % (self->vocabulary - 10);
            p->tokens[j] = j < shared[i] ? self->prompts[0].tokens[j] : other;
        }
    }
}

static lab *lab_open(const char *architecture)
{
    lab *self = calloc(1, sizeof(*self));
    assert_non_null(self);
    icp_error error = {""};
    if (architecture == NULL) {
        must(icp_model_open(&self->model, NULL, &error), &error);
    } else {
        model_make options = model_make_of(architecture, ICP_WEIGHT_Q8_0);
        model_make_write(&self->image, &options);
        self->has_image = true;
        must(icp_model_open_memory(&self->model, self->image.bytes, self->image.count, &error), &error);
    }
    self->vocabulary = self->model->shape.vocabulary;
    self->request_count = architecture == NULL ? 4 : REQUESTS;
    for (uint32_t i = 0; i < REQUESTS; i++) {
        self->plain[i].logits = calloc((size_t)OUTPUT_MAX * self->vocabulary, sizeof(float));
        self->seen[i].logits = calloc((size_t)OUTPUT_MAX * self->vocabulary, sizeof(float));
        assert_true(self->plain[i].logits != NULL && self->seen[i].logits != NULL);
    }
    make_prompts(self);
    return self;
}

static void lab_close(lab *self)
{
    for (uint32_t i = 0; i < REQUESTS; i++) {
        free(self->plain[i].logits);
        free(self->seen[i].logits);
    }
    icp_model_close(self->model);
    if (self->has_image) gguf_make_stop(&self->image);
    free(self);
}

/* Bytes of so many blocks of each group. */
static uint64_t bytes_of(const lab *self, uint32_t blocks)
{
    uint64_t bytes = 0;
    for (uint32_t g = 0; g < self->model->shape.group_count; g++) {
        bytes += blocks * 16 * icp_model_kv_bytes(self->model, g, ICP_KV_FORMAT_F16);
    }
    return bytes;
}

static icp_engine_options plain_options(const lab *self)
{
    icp_engine_options options;
    icp_engine_options_init(&options);
    options.thread_count = 1;
    options.sequence_count_max = 1;
    options.is_cache_off = 1;
    options.context_tokens_max = 160;
    options.kv_bytes = bytes_of(self, 200);
    options.block_tokens = 16;
    return options;
}

static icp_engine *engine_open(const lab *self, const icp_engine_options *options)
{
    icp_engine *engine;
    icp_error error = {""};
    must(icp_engine_open(&engine, self->model, options, &error), &error);
    return engine;
}

static icp_submission submission_of(const prompt *p)
{
    icp_submission s;
    icp_submission_init(&s);
    s.tokens = p->tokens;
    s.token_count = p->count;
    s.output_tokens_max = OUTPUT_MAX;
    s.is_eos_ignored = 1;
    return s;
}

/* Takes what a step gave; contexts are answers. */
static void take_outputs(icp_engine *engine, uint32_t vocabulary)
{
    icp_output output;
    icp_output_init(&output);
    while (icp_engine_poll(engine, &output) == ICP_OK) {
        answer *a = (answer *)output.context + output.branch;
        if (output.token != ICP_TOKEN_NONE && a->logits != NULL) {
            const float *logits = icp_engine_logits(engine, output.job, output.branch);
            assert_non_null(logits);
            memcpy(a->logits + (size_t)a->count * vocabulary, logits, vocabulary * sizeof(float));
        }
        if (output.token != ICP_TOKEN_NONE) a->tokens[a->count++] = output.token;
        assert_true(a->text_bytes + output.text_bytes <= TEXT_MAX);
        memcpy(a->text + a->text_bytes, output.text, output.text_bytes);
        a->text_bytes += (uint32_t)output.text_bytes;
        a->cached = output.cached_tokens;
        a->finish = output.finish;
    }
}

static void finish_all(icp_engine *engine, uint32_t vocabulary)
{
    icp_step_info info;
    icp_step_info_init(&info);
    while (!info.is_idle) {
        assert_int_equal(icp_engine_step(engine, &info), ICP_OK);
        take_outputs(engine, vocabulary);
        icp_error error = {""};
        must(icp_cache_check(icp_engine_cache(engine), &error), &error);
    }
}

static void answer_clear(answer *a)
{
    float *logits = a->logits;
    memset(a, 0, sizeof(*a));
    a->logits = logits;
}

/* Odd ones draw at random, even ones take the likeliest. */
static void submit(icp_engine *engine, const lab *self, uint32_t index, answer *a)
{
    icp_submission s = submission_of(&self->prompts[index]);
    icp_job job;
    icp_error error = {""};
    s.sampling.temperature = index % 2 == 0 ? 0 : 0.9f;
    s.sampling.seed = 100 + index;
    s.priority = (int32_t)(index % 3);
    s.context = a;
    answer_clear(a);
    must(icp_engine_submit(engine, &s, &job, &error), &error);
}

static void run_all(icp_engine *engine, lab *self, answer *answers)
{
    for (uint32_t i = 0; i < self->request_count; i++) submit(engine, self, i, &answers[i]);
    finish_all(engine, self->vocabulary);
}

static void run_plain(lab *self)
{
    icp_engine_options options = plain_options(self);
    icp_engine *engine = engine_open(self, &options);
    run_all(engine, self, self->plain);
    icp_engine_close(engine);
}

static void assert_same(const lab *self, uint32_t index, const char *way)
{
    const answer *plain = &self->plain[index];
    const answer *seen = &self->seen[index];
    if (seen->count != plain->count) fail_msg("%s: request %u gave %u tokens", way, index, seen->count);
    size_t bytes = (size_t)plain->count * self->vocabulary * sizeof(float);
    if (memcmp(plain->logits, seen->logits, bytes) != 0) fail_msg("%s: request %u has other logits", way, index);
    assert_memory_equal(plain->tokens, seen->tokens, plain->count * sizeof(uint32_t));
    assert_int_equal(plain->text_bytes, seen->text_bytes);
    assert_memory_equal(plain->text, seen->text, plain->text_bytes);
}

static icp_engine_stats stats_of(const icp_engine *engine)
{
    icp_engine_stats stats;
    icp_engine_stats_init(&stats);
    assert_int_equal(icp_engine_statistics(engine, &stats), ICP_OK);
    return stats;
}

/* ---- Same bits ------------------------------------------------------------------------------------------------ */

typedef struct way {
    const char *name;
    uint32_t step_tokens, sequences, threads;
    uint32_t blocks; /* of the first group; 0: plenty */
} way;

static void run_way(lab *self, const way *how)
{
    icp_engine_options options = plain_options(self);
    options.is_cache_off = 0;
    options.step_tokens = how->step_tokens;
    options.sequence_count_max = how->sequences;
    options.thread_count = how->threads;
    if (how->blocks != 0) {
        options.context_tokens_max = 112;
        options.kv_bytes = bytes_of(self, how->blocks);
    }
    icp_engine *engine = engine_open(self, &options);
    run_all(engine, self, self->seen);
    for (uint32_t i = 0; i < self->request_count; i++) assert_same(self, i, how->name);
    if (how->blocks != 0) assert_true(stats_of(engine).preempted_count > 0);
    run_all(engine, self, self->seen); /* again: warm */
    for (uint32_t i = 0; i < self->request_count; i++) assert_same(self, i, how->name);
    if (how->blocks == 0) {
        for (uint32_t i = 0; i < self->request_count; i++)
            assert_int_equal(self->seen[i].cached, self->prompts[i].count - 1);
    }
    icp_engine_close(engine);
}

static void run_ways(const char *architecture, const way *ways, size_t count)
{
    lab *self = lab_open(architecture);
    run_plain(self);
    for (size_t i = 0; i < count; i++) run_way(self, &ways[i]);
    lab_close(self);
}

static void every_format_of_kv_gives_the_same_bits_cold_and_warm(void **state)
{
    (void)state;
    lab *self = lab_open("gemma3");
    for (uint32_t format = ICP_KV_FORMAT_F16; format <= ICP_KV_FORMAT_Q8_0; format++) {
        icp_engine_options options = plain_options(self);
        options.kv_format = (icp_kv_format)format;
        options.kv_bytes *= 2;
        icp_engine *engine = engine_open(self, &options);
        run_all(engine, self, self->plain);
        icp_engine_close(engine);
        options.is_cache_off = 0;
        options.sequence_count_max = 4;
        engine = engine_open(self, &options);
        for (uint32_t round = 0; round < 2; round++) {
            run_all(engine, self, self->seen);
            for (uint32_t i = 0; i < REQUESTS; i++) assert_same(self, i, "a format of KV");
        }
        icp_engine_close(engine);
    }
    lab_close(self);
}

static void every_way_of_running_gives_the_same_bits_on_every_architecture(void **state)
{
    (void)state;
    static const way ways[] = {
        {"one at a time", 512, 1, 1, 0},  {"chunks of 5", 5, 7, 2, 0}, {"a batch of 7", 64, 7, 4, 0},
        {"a batch of 64", 512, 64, 2, 0}, {"preempted", 32, 7, 1, 14},
    };
    for (uint32_t i = 0; i < MODEL_MAKE_ARCHITECTURE_COUNT; i++) {
        run_ways(model_make_architectures[i], ways, sizeof(ways) / sizeof(ways[0]));
    }
}

static void every_way_of_running_gives_the_same_bits_on_the_built_in_model(void **state)
{
    (void)state;
    static const way ways[] = {
        {"chunks of 24", 24, 64, 4, 0},
        {"preempted", 48, 7, 2, 8},
    };
    run_ways(NULL, ways, sizeof(ways) / sizeof(ways[0]));
}

static void a_hit_at_every_offset_gives_the_same_bits(void **state)
{
    (void)state;
    static const char *const architectures[] = {"llama", "gemma3"};
    for (uint32_t a = 0; a < 2; a++) {
        lab *self = lab_open(architectures[a]);
        icp_engine_options options = plain_options(self);
        icp_engine *engine = engine_open(self, &options);
        submit(engine, self, 0, &self->plain[0]);
        finish_all(engine, self->vocabulary);
        icp_engine_close(engine);
        options.is_cache_off = 0;
        engine = engine_open(self, &options);
        const prompt *whole = &self->prompts[0];
        for (uint32_t offset = 0; offset <= whole->count; offset++) {
            prompt other = *whole;
            if (offset < other.count) other.tokens[offset] = (other.tokens[offset] + 1) % self->vocabulary;
            icp_submission s = submission_of(&other);
            icp_job job;
            s.output_tokens_max = 1;
            s.context = &self->seen[1];
            answer_clear(&self->seen[1]);
            assert_int_equal(icp_cache_clear(icp_engine_cache(engine)), ICP_OK);
            assert_int_equal(icp_engine_submit(engine, &s, &job, NULL), ICP_OK);
            finish_all(engine, self->vocabulary);
            submit(engine, self, 0, &self->seen[0]);
            finish_all(engine, self->vocabulary);
            uint32_t hit = offset < whole->count ? offset : whole->count - 1;
            assert_int_equal(self->seen[0].cached, hit);
            assert_same(self, 0, "a hit");
        }
        icp_engine_close(engine);
        lab_close(self);
    }
}

/* ---- What users see ------------------------------------------------------------------------------------------- */

/* Runs one submission on an engine of its own defaults. */
static void run_one(lab *self, icp_submission s, answer *answers)
{
    icp_engine_options options = plain_options(self);
    options.is_cache_off = 0;
    options.sequence_count_max = 8;
    icp_engine *engine = engine_open(self, &options);
    icp_job job;
    icp_error error = {""};
    s.context = answers;
    for (uint32_t i = 0; i < (s.branch_count == 0 ? 1 : s.branch_count); i++) answer_clear(&answers[i]);
    must(icp_engine_submit(engine, &s, &job, &error), &error);
    finish_all(engine, self->vocabulary);
    assert_int_equal(icp_engine_cancel(engine, job), ICP_STALE);
    icp_engine_close(engine);
}

static void branches_are_the_request_with_other_draws_and_the_first_is_the_request_alone(void **state)
{
    (void)state;
    lab *self = lab_open("llama");
    icp_submission s = submission_of(&self->prompts[0]);
    s.sampling.temperature = 1.5f;
    s.sampling.seed = 9;
    run_one(self, s, self->plain);
    s.branch_count = 5;
    run_one(self, s, self->seen);
    assert_same(self, 0, "branch 0");
    uint32_t different = 0;
    for (uint32_t i = 1; i < 5; i++) {
        assert_int_equal(self->seen[i].count, OUTPUT_MAX);
        different += memcmp(self->seen[i].tokens, self->plain[0].tokens, sizeof(self->plain[0].tokens)) != 0;
        /* the first logits are of the same prompt */
        assert_memory_equal(self->seen[i].logits, self->plain[0].logits, self->vocabulary * sizeof(float));
    }
    assert_true(different >= 3);
    lab_close(self);
}

static void the_text_ends_before_a_stop_string_and_at_a_stop_token(void **state)
{
    (void)state;
    lab *self = lab_open(NULL);
    static const char *const text = "Package: ripgrep\nDescription:";
    prompt p;
    size_t count = 0;
    assert_int_equal(
        icp_model_tokenize(self->model, text, strlen(text), ICP_TOKENIZE_BOS, p.tokens, PROMPT_MAX, &count), ICP_OK);
    p.count = (uint32_t)count;
    icp_submission s = submission_of(&p);
    run_one(self, s, self->plain);
    const answer *plain = &self->plain[0];
    assert_int_equal(plain->finish, ICP_FINISH_LENGTH);
    assert_true(plain->text_bytes > 8);

    icp_stop stop = {plain->text + plain->text_bytes / 2, 3};
    s.stops = &stop;
    s.stop_count = 1;
    run_one(self, s, self->seen);
    const answer *seen = &self->seen[0];
    assert_int_equal(seen->finish, ICP_FINISH_STOP);
    assert_true(seen->text_bytes <= plain->text_bytes / 2);
    assert_memory_equal(seen->text, plain->text, seen->text_bytes);
    assert_memory_equal(plain->text + seen->text_bytes, stop.text, 3);

    s.stop_count = 0;
    s.stop_tokens = &plain->tokens[3];
    s.stop_token_count = 1;
    run_one(self, s, self->seen);
    assert_int_equal(seen->finish, ICP_FINISH_STOP);
    assert_true(seen->count <= 4);
    assert_int_equal(seen->tokens[seen->count - 1], plain->tokens[3]);
    assert_true(seen->text_bytes < plain->text_bytes);
    lab_close(self);
}

static void log_probabilities_are_those_of_the_logits(void **state)
{
    (void)state;
    lab *self = lab_open("qwen3");
    icp_engine_options options = plain_options(self);
    icp_engine *engine = engine_open(self, &options);
    icp_submission s = submission_of(&self->prompts[0]);
    s.sampling.logprob_count = 4;
    s.sampling.is_logprob_wanted = 1;
    icp_job job;
    assert_int_equal(icp_engine_submit(engine, &s, &job, NULL), ICP_OK);
    icp_output output;
    icp_output_init(&output);
    uint32_t seen = 0;
    for (output.is_last = 0; !output.is_last;) {
        assert_int_equal(icp_engine_step(engine, NULL), ICP_OK);
        while (icp_engine_poll(engine, &output) == ICP_OK) {
            const float *logits = icp_engine_logits(engine, job, 0);
            double sum = 0;
            for (uint32_t i = 0; i < self->vocabulary; i++) sum += exp((double)logits[i]);
            assert_int_equal(output.candidate_count, 4);
            assert_int_equal(output.candidates[0].token, output.token); /* greedy */
            for (uint32_t i = 0; i < 4; i++) {
                double expected = (double)logits[output.candidates[i].token] - log(sum);
                assert_true(fabs((double)output.candidates[i].logprob - expected) < 1e-4);
            }
            assert_true(fabsf(output.logprob - output.candidates[0].logprob) < 1e-6f);
            seen++;
        }
    }
    assert_int_equal(seen, OUTPUT_MAX);
    icp_engine_close(engine);
    lab_close(self);
}

static void a_request_can_be_cancelled_wherever_it_is(void **state)
{
    (void)state;
    lab *self = lab_open("llama");
    for (uint32_t when = 0; when < 13; when++) { /* waiting, prefilling, branching, decoding */
        icp_engine_options options = plain_options(self);
        options.is_cache_off = 0;
        options.step_tokens = 16;
        options.sequence_count_max = 3;
        icp_engine *engine = engine_open(self, &options);
        icp_submission s = submission_of(&self->prompts[0]);
        s.branch_count = 4;
        s.context = self->seen;
        for (uint32_t i = 0; i < 5; i++) answer_clear(&self->seen[i]);
        icp_job job;
        icp_job other;
        assert_int_equal(icp_engine_submit(engine, &s, &job, NULL), ICP_OK);
        s.branch_count = 1;
        s.context = &self->seen[4];
        assert_int_equal(icp_engine_submit(engine, &s, &other, NULL), ICP_OK);
        for (uint32_t i = 0; i < when; i++) {
            take_outputs(engine, self->vocabulary);
            assert_int_equal(icp_engine_step(engine, NULL), ICP_OK);
        }
        assert_int_equal(icp_engine_cancel(engine, job), ICP_OK);
        assert_int_equal(icp_engine_cancel(engine, job), ICP_STALE);
        take_outputs(engine, self->vocabulary);
        finish_all(engine, self->vocabulary);
        for (uint32_t i = 0; i < 4; i++) assert_int_equal(self->seen[i].finish, ICP_FINISH_CANCELLED);
        assert_int_equal(self->seen[4].finish, ICP_FINISH_LENGTH);
        icp_cache_stats stats;
        icp_cache_stats_init(&stats);
        assert_int_equal(icp_cache_statistics(icp_engine_cache(engine), &stats), ICP_OK);
        assert_int_equal(stats.lease_count, 0);
        icp_engine_close(engine);
    }
    lab_close(self);
}

static void outputs_must_be_polled_before_the_next_step(void **state)
{
    (void)state;
    lab *self = lab_open("llama");
    icp_engine_options options = plain_options(self);
    icp_engine *engine = engine_open(self, &options);
    submit(engine, self, 0, &self->seen[0]);
    assert_int_equal(icp_engine_step(engine, NULL), ICP_OK);
    assert_int_equal(icp_engine_step(engine, NULL), ICP_FULL);
    take_outputs(engine, self->vocabulary);
    assert_int_equal(icp_engine_step(engine, NULL), ICP_OK);
    icp_engine_close(engine); /* whatever runs */
    lab_close(self);
}

static void eos_ends_a_request_unless_it_is_ignored_or_too_early(void **state)
{
    (void)state;
    lab *self = lab_open("llama");
    icp_submission s = submission_of(&self->prompts[0]);
    icp_bias bias = {MODEL_MAKE_EOS, 1000};
    s.sampling.biases = &bias;
    s.sampling.bias_count = 1;
    s.is_eos_ignored = 0;
    run_one(self, s, self->seen);
    assert_int_equal(self->seen[0].finish, ICP_FINISH_STOP);
    assert_int_equal(self->seen[0].count, 1);
    assert_int_equal(self->seen[0].text_bytes, 0);
    s.output_tokens_min = 4;
    run_one(self, s, self->seen);
    assert_int_equal(self->seen[0].count, 5);
    s.is_eos_ignored = 1;
    run_one(self, s, self->seen);
    assert_int_equal(self->seen[0].finish, ICP_FINISH_LENGTH);
    lab_close(self);
}

static void run_with_adapter(icp_engine *engine, lab *self, const char *adapter, answer *a)
{
    icp_submission s = submission_of(&self->prompts[0]);
    icp_job job;
    icp_error error = {""};
    s.adapter = adapter;
    s.context = a;
    answer_clear(a);
    must(icp_engine_submit(engine, &s, &job, &error), &error);
    if (adapter != NULL) assert_int_equal(icp_engine_adapter_unload(engine, adapter), ICP_FULL);
    finish_all(engine, self->vocabulary);
}

static void adapters_are_chosen_by_name_and_share_nothing(void **state)
{
    (void)state;
    lab *self = lab_open("qwen2");
    char paths[2][64];
    for (uint32_t i = 0; i < 2; i++) {
        gguf_make image;
        model_make model = model_make_of("qwen2", ICP_WEIGHT_Q8_0);
        model_make_adapter(&image, &model, &(model_make_lora){.rank = 4, .alpha = 8, .seed = 5 + i});
        (void)snprintf(paths[i], sizeof(paths[i]), "/tmp/incipit-test-engine-%ld-%u.gguf", (long)getpid(), i);
        FILE *file = fopen(paths[i], "wb");
        assert_non_null(file);
        assert_int_equal(fwrite(image.bytes, 1, image.count, file), image.count);
        assert_int_equal(fclose(file), 0);
        gguf_make_stop(&image);
    }
    icp_engine_options options = plain_options(self);
    options.is_cache_off = 0;
    icp_engine *engine = engine_open(self, &options);
    icp_error error = {""};
    must(icp_engine_adapter_load(engine, "one", paths[0], &error), &error);
    must(icp_engine_adapter_load(engine, "two", paths[1], &error), &error);
    assert_int_equal(icp_engine_adapter_load(engine, "two", paths[1], &error), ICP_BAD_ARGUMENT);
    run_with_adapter(engine, self, NULL, &self->plain[0]);
    run_with_adapter(engine, self, "one", &self->plain[1]);
    run_with_adapter(engine, self, "two", &self->plain[2]);
    size_t bytes = self->vocabulary * sizeof(float);
    for (uint32_t i = 0; i < 3; i++) {
        assert_int_equal(self->plain[i].cached, 0);
        assert_memory_not_equal(self->plain[i].logits, self->plain[(i + 1) % 3].logits, bytes);
    }
    run_with_adapter(engine, self, "one", &self->seen[1]); /* warm */
    assert_int_equal(self->seen[1].cached, self->prompts[0].count - 1);
    assert_same(self, 1, "an adapter, warm");
    icp_cache_stats before;
    icp_cache_stats after;
    icp_cache_stats_init(&before);
    icp_cache_stats_init(&after);
    assert_int_equal(icp_cache_statistics(icp_engine_cache(engine), &before), ICP_OK);
    assert_int_equal(icp_engine_adapter_unload(engine, "one"), ICP_OK);
    assert_int_equal(icp_cache_statistics(icp_engine_cache(engine), &after), ICP_OK);
    assert_true(after.node_count < before.node_count); /* what was cached under it is forgotten */
    assert_int_equal(icp_engine_adapter_unload(engine, "one"), ICP_NOT_FOUND);
    must(icp_engine_adapter_load(engine, "one", paths[1], &error), &error); /* other weights under the old name */
    run_with_adapter(engine, self, "one", &self->seen[2]);
    assert_int_equal(self->seen[2].cached, 0);
    assert_same(self, 2, "an adapter, loaded again");
    icp_engine_close(engine);
    for (uint32_t i = 0; i < 2; i++) assert_int_equal(remove(paths[i]), 0);
    lab_close(self);
}

/* ---- Refusals ------------------------------------------------------------------------------------------------- */

static void assert_refused(icp_engine *engine, icp_submission s, icp_status status, const char *words)
{
    icp_job job = 77;
    icp_error error = {""};
    icp_status seen = icp_engine_submit(engine, &s, &job, &error);
    assert_string_equal(icp_status_name(seen), icp_status_name(status));
    if (strstr(error.text, words) == NULL) fail_msg("\"%s\" does not say \"%s\"", error.text, words);
    assert_int_equal(job, 77);
}

static void bad_requests_are_refused_with_a_sentence(void **state)
{
    (void)state;
    lab *self = lab_open("llama");
    icp_engine_options options = plain_options(self);
    options.queue_count_max = 3;
    icp_engine *engine = engine_open(self, &options);
    const icp_submission good = submission_of(&self->prompts[0]);
    static const uint32_t wild[] = {1, 2, UINT32_MAX};
    static const icp_stop half = {"\xe2\x82", 2};
    static const icp_stop empty = {"", 0};
    static const icp_extra far = {.position = 59, .length = 2, .id = "x", .id_bytes = 1};
    icp_submission s = good;
    s.token_count = 0;
    assert_refused(engine, s, ICP_BAD_ARGUMENT, "empty");
    s = good;
    s.tokens = wild;
    s.token_count = 3;
    assert_refused(engine, s, ICP_BAD_ARGUMENT, "vocabulary");
    s = good;
    s.output_tokens_max = 101;
    assert_refused(engine, s, ICP_TOO_LONG, "context of 160");
    s = good;
    s.branch_count = 4;
    assert_refused(engine, s, ICP_BAD_ARGUMENT, "queue");
    s.branch_count = ICP_BRANCH_COUNT_MAX + 1;
    assert_refused(engine, s, ICP_BAD_ARGUMENT, "branch_count");
    s = good;
    s.stops = &half;
    s.stop_count = 1;
    assert_refused(engine, s, ICP_BAD_ARGUMENT, "UTF-8");
    s.stops = &empty;
    assert_refused(engine, s, ICP_BAD_ARGUMENT, "1 to 256 bytes");
    s = good;
    s.sampling.temperature = -1;
    assert_refused(engine, s, ICP_BAD_ARGUMENT, "temperature");
    s = good;
    s.adapter = "nobody";
    assert_refused(engine, s, ICP_NOT_FOUND, "nobody");
    s = good;
    s.flags = 64;
    assert_refused(engine, s, ICP_BAD_ARGUMENT, "flags");
    s = good;
    s.extras = &far;
    s.extra_count = 1;
    assert_refused(engine, s, ICP_BAD_ARGUMENT, "past the prompt");
    char long_text[300];
    memset(long_text, 'x', sizeof(long_text) - 1);
    long_text[sizeof(long_text) - 1] = '\0';
    s = good;
    s.tenant = long_text;
    assert_refused(engine, s, ICP_BAD_ARGUMENT, "too long");
    icp_job job;
    for (uint32_t i = 0; i < 3; i++) assert_int_equal(icp_engine_submit(engine, &good, &job, NULL), ICP_OK);
    assert_refused(engine, good, ICP_FULL, "queue is full");
    assert_int_equal(stats_of(engine).refused_count, 13);
    icp_engine_close(engine);
    lab_close(self);
}

static void bad_options_are_refused_with_a_sentence(void **state)
{
    (void)state;
    lab *self = lab_open("gemma3");
    icp_engine *engine = NULL;
    icp_error error = {""};
    icp_engine_options options = plain_options(self);
    options.kv_bytes = 1000;
    assert_int_equal(icp_engine_open(&engine, self->model, &options, &error), ICP_NO_MEMORY);
    assert_non_null(strstr(error.text, "KV"));
    options = plain_options(self);
    options.block_tokens = 5;
    assert_int_equal(icp_engine_open(&engine, self->model, &options, &error), ICP_BAD_ARGUMENT);
    options = plain_options(self);
    options.context_tokens_max = 1u << 30;
    assert_int_equal(icp_engine_open(&engine, self->model, &options, &error), ICP_BAD_ARGUMENT);
    assert_non_null(strstr(error.text, "context_tokens_max"));
    options = plain_options(self);
    options.struct_size = 0;
    assert_int_equal(icp_engine_open(&engine, self->model, &options, &error), ICP_BAD_ARGUMENT);
    assert_null(engine);
    size_t *oldest = malloc(sizeof(*oldest)); /* of a caller who knows no option yet: nothing behind it is read */
    assert_non_null(oldest);
    *oldest = sizeof(*oldest);
    must(icp_engine_open(&engine, self->model, (const icp_engine_options *)(const void *)oldest, &error), &error);
    icp_engine_close(engine);
    free(oldest);
    icp_model *model = NULL;
    assert_int_equal(icp_model_open(&model, "/nowhere/at/all.gguf", &error), ICP_NOT_FOUND);
    assert_int_equal(icp_model_open(&model, "Makefile", &error), ICP_BAD_ARGUMENT);
    assert_null(model);
    lab_close(self);
}

/* ---- The model and the cache, through the engine -------------------------------------------------------------- */

static void a_model_tells_what_is_in_it(void **state)
{
    (void)state;
    lab *self = lab_open(NULL);
    icp_model_facts facts;
    icp_model_facts_init(&facts);
    assert_int_equal(icp_model_get_facts(self->model, &facts), ICP_OK);
    assert_string_equal(facts.architecture, "llama");
    assert_string_equal(facts.path, "built-in");
    assert_int_equal(facts.layer_count, 9);
    assert_int_equal(facts.context_max, 1024);
    uint64_t values = 2ull * 9 * facts.kv_head_count * facts.head_dim;
    assert_int_equal(icp_model_kv_bytes(self->model, 0, ICP_KV_FORMAT_F16), values * 2);
    char key[64];
    char value[80];
    uint32_t pairs = 0;
    bool has_layers = false;
    while (icp_model_pair(self->model, pairs, key, sizeof(key), value, sizeof(value)) == ICP_OK) {
        has_layers |= strcmp(key, "llama.block_count") == 0 && strcmp(value, "9") == 0;
        pairs++;
    }
    assert_true(pairs > 10 && has_layers);
    icp_model_tensor tensor;
    uint32_t tensors = 0;
    while (icp_model_tensor_at(self->model, tensors, &tensor) == ICP_OK) tensors++;
    assert_int_equal(tensors, 83);
    static const char *const text = "Hello w\xc3\xb6rld\n";
    uint32_t tokens[32];
    char back[32];
    size_t count = 0;
    size_t bytes = 0;
    assert_int_equal(icp_model_tokenize(self->model, text, strlen(text), 0, tokens, 32, &count), ICP_OK);
    assert_int_equal(icp_model_detokenize(self->model, tokens, count, 0, back, sizeof(back), &bytes), ICP_OK);
    assert_int_equal(bytes, strlen(text));
    assert_memory_equal(back, text, bytes);
    assert_int_equal(icp_model_detokenize(self->model, tokens, count, 0, back, 3, &bytes), ICP_TOO_LONG);
    assert_int_equal(bytes, strlen(text));
    lab_close(self);
}

static void the_bytes_of_a_token_are_those_that_the_pool_has(void **state)
{
    (void)state;
    static const icp_kv_format formats[] = {ICP_KV_FORMAT_F16, ICP_KV_FORMAT_F32, ICP_KV_FORMAT_Q8_0};
    lab *self = lab_open("gemma3");
    for (size_t i = 0; i < sizeof(formats) / sizeof(formats[0]); i++) {
        icp_engine_options options = plain_options(self);
        options.kv_format = formats[i];
        icp_engine *engine = engine_open(self, &options);
        icp_engine_stats stats;
        icp_engine_stats_init(&stats);
        assert_int_equal(icp_engine_statistics(engine, &stats), ICP_OK);
        uint64_t bytes = 0;
        for (uint32_t g = 0; g < self->model->shape.group_count; g++)
            bytes += stats.block_count[g] * 16 * icp_model_kv_bytes(self->model, g, formats[i]);
        assert_int_equal(bytes, stats.kv_bytes);
        icp_engine_close(engine);
    }
    assert_int_equal(icp_model_kv_bytes(self->model, 2, ICP_KV_FORMAT_F16), 0);
    lab_close(self);
}

static void a_conversation_becomes_tokens_and_its_next_turn_is_cached(void **state)
{
    (void)state;
    lab *self = lab_open(NULL);
    icp_engine_options options = plain_options(self);
    options.is_cache_off = 0;
    icp_engine *engine = engine_open(self, &options);
    icp_error error = {""};
    icp_chat chat;
    icp_chat_init(&chat);
    char messages[512] = "[{\"role\": \"user\", \"content\": \"What is <|im_end|> tar?\"}]";
    chat.messages = messages;
    chat.messages_bytes = strlen(messages);
    prompt first;
    size_t count = 0;
    must(icp_model_chat(self->model, &chat, first.tokens, PROMPT_MAX, &count, &error), &error);
    first.count = (uint32_t)count;
    icp_submission s = submission_of(&first);
    icp_job job;
    s.context = &self->seen[0];
    must(icp_engine_submit(engine, &s, &job, &error), &error);
    finish_all(engine, self->vocabulary);

    (void)snprintf(messages, sizeof(messages),
                   "[{\"role\": \"user\", \"content\": \"What is <|im_end|> tar?\"},"
                   "{\"role\": \"assistant\", \"content\": \"An archiver.\"},"
                   "{\"role\": \"user\", \"content\": \"And gzip?\"}]");
    chat.messages_bytes = strlen(messages);
    prompt second;
    must(icp_model_chat(self->model, &chat, second.tokens, PROMPT_MAX, &count, &error), &error);
    second.count = (uint32_t)count;
    assert_true(second.count > first.count);
    assert_memory_equal(second.tokens, first.tokens, (first.count - 1) * sizeof(uint32_t));
    s = submission_of(&second);
    s.context = &self->seen[1];
    must(icp_engine_submit(engine, &s, &job, &error), &error);
    finish_all(engine, self->vocabulary);
    assert_true(self->seen[1].cached >= first.count - 1);

    chat.messages = "[{";
    chat.messages_bytes = 2;
    assert_int_equal(icp_model_chat(self->model, &chat, first.tokens, PROMPT_MAX, &count, &error), ICP_BAD_ARGUMENT);
    assert_true(error.text[0] != '\0');
    icp_engine_close(engine);
    lab_close(self);
}

static void the_cache_explains_a_submission(void **state)
{
    (void)state;
    lab *self = lab_open("llama");
    icp_engine_options options = plain_options(self);
    options.is_cache_off = 0;
    icp_engine *engine = engine_open(self, &options);
    submit(engine, self, 0, &self->seen[0]);
    finish_all(engine, self->vocabulary);
    icp_submission s = submission_of(&self->prompts[2]); /* shares 50 tokens with it */
    icp_request request;
    icp_explanation why;
    icp_explanation_init(&why);
    assert_int_equal(icp_engine_cache_request(engine, &s, &request), ICP_OK);
    assert_int_equal(icp_cache_explain(icp_engine_cache(engine), &request, 0, &why), ICP_OK);
    assert_int_equal(icp_scope_close(icp_engine_cache(engine), request.scope), ICP_OK);
    assert_int_equal(why.why, ICP_WHY_DIVERGES);
    assert_int_equal(why.hit.cached_tokens, 50);
    s.tenant = "other";
    assert_int_equal(icp_engine_cache_request(engine, &s, &request), ICP_OK);
    assert_int_equal(icp_cache_explain(icp_engine_cache(engine), &request, 0, &why), ICP_OK);
    assert_int_equal(icp_scope_close(icp_engine_cache(engine), request.scope), ICP_OK);
    assert_int_equal(why.why, ICP_WHY_NEVER);
    s.struct_size = offsetof(icp_submission, tenant); /* of a caller who does not know tenants yet */
    assert_int_equal(icp_engine_cache_request(engine, &s, &request), ICP_OK);
    assert_int_equal(icp_cache_explain(icp_engine_cache(engine), &request, 0, &why), ICP_OK);
    assert_int_equal(icp_scope_close(icp_engine_cache(engine), request.scope), ICP_OK);
    assert_int_equal(why.why, ICP_WHY_DIVERGES);
    icp_engine_close(engine);
    lab_close(self);
}

/* A request of a tenant whose quota is so many blocks. */
static void run_in_quota(lab *self, uint32_t blocks, const char *stop, answer *a)
{
    icp_engine_options options = plain_options(self);
    options.is_cache_off = 0;
    icp_engine *engine = engine_open(self, &options);
    icp_submission s = submission_of(&self->prompts[0]);
    icp_stop stops[1] = {{stop, stop == NULL ? 0 : strlen(stop)}};
    icp_request request;
    icp_job job;
    s.context = a;
    s.stops = stops;
    s.stop_count = stop != NULL;
    answer_clear(a);
    assert_int_equal(icp_engine_cache_request(engine, &s, &request), ICP_OK);
    assert_int_equal(icp_scope_quota(icp_engine_cache(engine), request.scope, 0, blocks), ICP_OK);
    assert_int_equal(icp_engine_submit(engine, &s, &job, NULL), ICP_OK);
    finish_all(engine, self->vocabulary);
    assert_int_equal(icp_scope_close(icp_engine_cache(engine), request.scope), ICP_OK);
    icp_engine_close(engine);
}

static void a_request_that_a_quota_ends_gives_the_text_that_was_held_back(void **state)
{
    (void)state;
    lab *self = lab_open(NULL);
    answer *all = &self->plain[0];
    answer *held = &self->seen[0];
    run_in_quota(self, 4, NULL, all); /* 60 tokens of prompt, and none in a fifth block */
    assert_int_equal(all->finish, ICP_FINISH_LENGTH);
    assert_true(all->count > 0 && all->count < OUTPUT_MAX && all->text_bytes > 0);
    char last = all->text[all->text_bytes - 1];
    assert_true(last > 0); /* a character of its own */
    char stop[] = {last, 1, 2, 3, 0};
    run_in_quota(self, 4, stop, held);
    assert_int_equal(held->finish, ICP_FINISH_LENGTH);
    assert_int_equal(held->count, all->count);
    assert_int_equal(held->text_bytes, all->text_bytes);
    assert_memory_equal(held->text, all->text, all->text_bytes);
    lab_close(self);
}

static void a_stranger_with_many_salts_cannot_keep_others_out(void **state)
{
    (void)state;
    lab *self = lab_open("llama");
    icp_engine_options options = plain_options(self);
    options.is_cache_off = 0;
    options.scope_count_max = 4;
    icp_engine *engine = engine_open(self, &options);
    for (uint32_t i = 0; i < 20; i++) {
        char salt[16];
        icp_submission s = submission_of(&self->prompts[0]);
        icp_job job;
        (void)snprintf(salt, sizeof(salt), "salt %u", i);
        s.salt = salt;
        s.output_tokens_max = 1;
        s.context = &self->seen[0];
        answer_clear(&self->seen[0]);
        assert_int_equal(icp_engine_submit(engine, &s, &job, NULL), ICP_OK);
        finish_all(engine, self->vocabulary);
        assert_int_equal(self->seen[0].cached, 0);
    }
    icp_engine_close(engine);
    lab_close(self);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_way_of_running_gives_the_same_bits_on_every_architecture),
        cmocka_unit_test(every_way_of_running_gives_the_same_bits_on_the_built_in_model),
        cmocka_unit_test(every_format_of_kv_gives_the_same_bits_cold_and_warm),
        cmocka_unit_test(a_hit_at_every_offset_gives_the_same_bits),
        cmocka_unit_test(branches_are_the_request_with_other_draws_and_the_first_is_the_request_alone),
        cmocka_unit_test(the_text_ends_before_a_stop_string_and_at_a_stop_token),
        cmocka_unit_test(log_probabilities_are_those_of_the_logits),
        cmocka_unit_test(a_request_can_be_cancelled_wherever_it_is),
        cmocka_unit_test(outputs_must_be_polled_before_the_next_step),
        cmocka_unit_test(eos_ends_a_request_unless_it_is_ignored_or_too_early),
        cmocka_unit_test(adapters_are_chosen_by_name_and_share_nothing),
        cmocka_unit_test(bad_requests_are_refused_with_a_sentence),
        cmocka_unit_test(bad_options_are_refused_with_a_sentence),
        cmocka_unit_test(a_model_tells_what_is_in_it),
        cmocka_unit_test(the_bytes_of_a_token_are_those_that_the_pool_has),
        cmocka_unit_test(a_conversation_becomes_tokens_and_its_next_turn_is_cached),
        cmocka_unit_test(the_cache_explains_a_submission),
        cmocka_unit_test(a_request_that_a_quota_ends_gives_the_text_that_was_held_back),
        cmocka_unit_test(a_stranger_with_many_salts_cannot_keep_others_out),
    };
    return cmocka_run_group_tests_name("engine", tests, NULL, NULL);
}
