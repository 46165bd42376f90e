/* test_schedule.c - what the scheduler decides: nothing is computed twice, and who goes first.
 *
 * On the backend of integers (fake_backend.h), with a pool that holds everything. IDEAL is the number of tokens that
 * were never seen before: the nodes of the tree of all texts, each text being a prompt and what was generated from
 * it, but for its last token, which is never computed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "engine/engine.h"
#include "fake_backend.h"
#include "sim_model.h"

#include <stdlib.h>

#define CONTEXT 8192u
#define TEXTS_MAX 128u

typedef struct text {
    uint32_t *tokens;
    uint32_t count;
    uint32_t cached;
    uint32_t preempted;
    icp_finish finish;
} text;

typedef struct lab {
    sim_model model;
    icp_backend *backend;
    icp_engine *engine;
    text texts[TEXTS_MAX]; /* by the context of their outputs: 64 branches each at most */
    uint32_t text_count;
    uint64_t random;
    uint64_t rows_before;
} lab;

static lab *lab_open(sim_kind kind, icp_engine_options options)
{
    lab *self = calloc(1, sizeof(*self));
    assert_non_null(self);
    sim_model_open(&self->model, kind, 256, CONTEXT);
    self->backend = fake_open(SIM_VOCABULARY);
    self->random = 1;
    icp_error error = {""};
    if (icp_engine_open_on(&self->engine, self->model.model, self->backend, &options, &error) != ICP_OK)
        fail_msg("%s", error.text);
    return self;
}

static icp_engine_options plenty(uint32_t sequence_count)
{
    icp_engine_options options;
    icp_engine_options_init(&options);
    options.sequence_count_max = sequence_count;
    options.kv_bytes = (uint64_t)64 * 20000;
    return options;
}

static void lab_close(lab *self)
{
    icp_error error = {""};
    if (icp_cache_check(icp_engine_cache(self->engine), &error) != ICP_OK) fail_msg("%s", error.text);
    icp_engine_close(self->engine);
    sim_model_close(&self->model);
    for (uint32_t i = 0; i < self->text_count; i++) free(self->texts[i].tokens);
    free(self);
}

/* Appends random tokens to a text; a new text where it is NULL. */
static text *lab_text(lab *self, const text *from, uint32_t from_count, uint32_t more)
{
    assert_true(self->text_count < TEXTS_MAX);
    text *to = &self->texts[self->text_count++];
    to->tokens = calloc(CONTEXT, sizeof(uint32_t));
    assert_non_null(to->tokens);
    if (from != NULL) memcpy(to->tokens, from->tokens, from_count * sizeof(uint32_t));
    to->count = from == NULL ? 0 : from_count;
    for (uint32_t i = 0; i < more; i++) {
        self->random = self->random * 6364136223846793005u + 1442695040888963407u;
        to->tokens[to->count++] = SIM_FIRST + (uint32_t)(self->random >> 33) % 40;
    }
    return to;
}

static icp_submission submission_of(text *prompt, uint32_t output_count)
{
    icp_submission s;
    icp_submission_init(&s);
    s.tokens = prompt->tokens;
    s.token_count = prompt->count;
    s.output_tokens_max = output_count;
    s.is_eos_ignored = 1;
    s.sampling.temperature = 1;
    s.sampling.seed = (uint64_t)(uintptr_t)prompt->tokens[prompt->count - 1];
    s.context = prompt;
    return s;
}

static icp_job lab_submit(lab *self, text *prompt, uint32_t output_count)
{
    icp_submission s = submission_of(prompt, output_count);
    icp_job job;
    icp_error error = {""};
    if (icp_engine_submit(self->engine, &s, &job, &error) != ICP_OK) fail_msg("%s", error.text);
    return job;
}

static void submit_for(lab *self, text *prompt, uint32_t output_count, const char *tenant)
{
    icp_submission s = submission_of(prompt, output_count);
    icp_job job;
    s.tenant = tenant;
    assert_int_equal(icp_engine_submit(self->engine, &s, &job, NULL), ICP_OK);
}

static void lab_poll(lab *self)
{
    icp_output output;
    icp_output_init(&output);
    while (icp_engine_poll(self->engine, &output) == ICP_OK) {
        text *to = (text *)output.context + output.branch;
        if (output.token != ICP_TOKEN_NONE) to->tokens[to->count++] = output.token;
        to->cached = output.cached_tokens;
        to->finish = output.finish;
        to->preempted = output.preempted_count;
    }
}

static icp_step_info lab_step(lab *self)
{
    icp_step_info info;
    icp_step_info_init(&info);
    assert_int_equal(icp_engine_step(self->engine, &info), ICP_OK);
    lab_poll(self);
    return info;
}

static void lab_run(lab *self)
{
    while (!lab_step(self).is_idle) continue;
}

static int compare_texts(const void *a, const void *b)
{
    const text *left = a;
    const text *right = b;
    uint32_t count = left->count < right->count ? left->count : right->count;
    for (uint32_t i = 0; i < count; i++) {
        if (left->tokens[i] != right->tokens[i]) return left->tokens[i] < right->tokens[i] ? -1 : 1;
    }
    return left->count < right->count ? -1 : left->count > right->count;
}

/* Rows that went through the model, over the ideal; and prints it. */
static double lab_ratio(lab *self, const char *name)
{
    static text sorted[TEXTS_MAX];
    memcpy(sorted, self->texts, sizeof(sorted));
    for (uint32_t i = 0; i < self->text_count; i++) sorted[i].count -= sorted[i].finish != ICP_FINISH_NONE;
    qsort(sorted, self->text_count, sizeof(sorted[0]), compare_texts);
    uint64_t ideal = 0;
    for (uint32_t i = 0; i < self->text_count; i++) {
        uint32_t count = sorted[i].count;
        uint32_t shared = 0;
        while (i > 0 && shared < count && shared < sorted[i - 1].count &&
               sorted[i].tokens[shared] == sorted[i - 1].tokens[shared])
            shared++;
        ideal += count - shared;
    }
    icp_engine_stats stats;
    icp_engine_stats_init(&stats);
    assert_int_equal(icp_engine_statistics(self->engine, &stats), ICP_OK);
    assert_true(stats.computed_tokens == fake_row_count(self->backend));
    double ratio = (double)stats.computed_tokens / (double)ideal;
    print_message("%-60s %6llu computed, %6llu ideal: %.4f\n", name, (unsigned long long)stats.computed_tokens,
                  (unsigned long long)ideal, ratio);
    return ratio;
}

/* ---- Nothing twice -------------------------------------------------------------------------------------------- */

static void users_arrive(sim_kind kind, uint32_t sequences, uint32_t shared, const char *name)
{
    lab *self = lab_open(kind, plenty(sequences));
    text *system = lab_text(self, NULL, 0, shared);
    for (uint32_t i = 0; i < 16; i++) lab_submit(self, lab_text(self, system, shared, 64), 16);
    lab_run(self);
    self->texts[0].count = 0; /* it was not asked for by itself */
    assert_true(lab_ratio(self, name) <= 1.02);
    lab_close(self);
}

static void users_of_one_system_prompt_who_arrive_together_compute_it_once(void **state)
{
    (void)state;
    users_arrive(SIM_FULL, 16, 2000, "16 users, 2000 shared, at once");
    users_arrive(SIM_FULL, 4, 2000, "16 users, 2000 shared, 4 at a time");
    users_arrive(SIM_FULL, 16, 2011, "16 users, 2011 shared, not whole blocks");
    users_arrive(SIM_FULL, 16, 505, "16 users, 505 shared: all in one step");
    users_arrive(SIM_FULL_AND_WINDOW, 16, 2011, "16 users, 2011 shared, full and window groups");
    users_arrive(SIM_WINDOW, 16, 2011, "16 users, 2011 shared, a window group alone");
}

static void the_same_prompt_many_times_at_once_is_computed_once(void **state)
{
    (void)state;
    lab *self = lab_open(SIM_FULL, plenty(16));
    text *prompt = lab_text(self, NULL, 0, 2010);
    lab_submit(self, prompt, 1);
    for (uint32_t i = 1; i < 8; i++) lab_submit(self, lab_text(self, prompt, 2010, 0), 1);
    lab_run(self);
    icp_engine_stats stats;
    icp_engine_stats_init(&stats);
    assert_int_equal(icp_engine_statistics(self->engine, &stats), ICP_OK);
    assert_int_equal(stats.computed_tokens, 2010 + 7); /* the last token of each gives its logits */
    lab_close(self);
}

static void a_conversation_computes_each_turn_once(void **state)
{
    (void)state;
    for (uint32_t kind = 0; kind < SIM_KIND_COUNT; kind++) {
        lab *self = lab_open((sim_kind)kind, plenty(4));
        text *turn = lab_text(self, NULL, 0, 300);
        for (uint32_t i = 0; i < 6; i++) {
            lab_submit(self, turn, 77);
            lab_run(self);
            if (i < 5) turn = lab_text(self, turn, turn->count, 41);
        }
        assert_true(lab_ratio(self, "one conversation, 6 turns") <= 1.02);
        lab_close(self);
    }
}

static void questions_on_one_document_compute_it_once(void **state)
{
    (void)state;
    lab *self = lab_open(SIM_FULL, plenty(8));
    text *document = lab_text(self, NULL, 0, 6003);
    for (uint32_t i = 0; i < 8; i++) lab_submit(self, lab_text(self, document, 6003, 48), 16);
    lab_run(self);
    document->count = 0;
    assert_true(lab_ratio(self, "8 questions at once on a document of 6003") <= 1.02);
    lab_close(self);
}

static void branching_conversations_compute_each_turn_once(void **state)
{
    (void)state;
    lab *self = lab_open(SIM_FULL, plenty(4));
    text *root = lab_text(self, NULL, 0, 1000);
    lab_submit(self, root, 50);
    lab_run(self);
    for (uint32_t i = 0; i < 3; i++) { /* three ways to go on, and three from each of them, all at once */
        text *way = lab_text(self, root, root->count, 100 + i * 7);
        lab_submit(self, way, 50);
    }
    lab_run(self);
    for (uint32_t i = 1; i <= 3; i++) {
        for (uint32_t j = 0; j < 3; j++) {
            text *from = &self->texts[i];
            lab_submit(self, lab_text(self, from, from->count - j * 13, 30), 20);
        }
    }
    lab_run(self);
    assert_true(lab_ratio(self, "branching conversations, 13 requests") <= 1.02);
    lab_close(self);
}

static void more_conversations_than_run_at_once_compute_each_turn_once(void **state)
{
    (void)state;
    lab *self = lab_open(SIM_FULL, plenty(4));
    text *system = lab_text(self, NULL, 0, 1500);
    text *turns[12];
    for (uint32_t i = 0; i < 12; i++) turns[i] = lab_text(self, system, 1500, 60);
    for (uint32_t turn = 0; turn < 3; turn++) {
        for (uint32_t i = 0; i < 12; i++) lab_submit(self, turns[i], 40);
        lab_run(self);
        for (uint32_t i = 0; i < 12 && turn < 2; i++) turns[i] = lab_text(self, turns[i], turns[i]->count, 33);
    }
    system->count = 0;
    assert_true(lab_ratio(self, "12 conversations of 3 turns, 4 at a time") <= 1.02);
    lab_close(self);
}

static void branches_of_one_request_compute_its_prompt_once(void **state)
{
    (void)state;
    lab *self = lab_open(SIM_FULL, plenty(16));
    text *first = lab_text(self, NULL, 0, 1005);
    for (uint32_t i = 1; i < 8; i++) lab_text(self, first, 1005, 0);
    icp_submission s = submission_of(first, 20);
    s.branch_count = 8;
    icp_job job;
    assert_int_equal(icp_engine_submit(self->engine, &s, &job, NULL), ICP_OK);
    lab_run(self);
    icp_engine_stats stats;
    icp_engine_stats_init(&stats);
    assert_int_equal(icp_engine_statistics(self->engine, &stats), ICP_OK);
    for (uint32_t i = 0; i < 8; i++) assert_int_equal(self->texts[i].count, 1025);
    assert_int_equal(stats.computed_tokens, 1005 + 8 * 19);
    lab_close(self);
}

/* ---- Who goes first ------------------------------------------------------------------------------------------- */

static void a_long_prompt_does_not_stop_those_that_decode(void **state)
{
    (void)state;
    lab *self = lab_open(SIM_FULL, plenty(4));
    text *chat = lab_text(self, NULL, 0, 20);
    lab_submit(self, chat, 100);
    lab_step(self);
    lab_submit(self, lab_text(self, NULL, 0, 5000), 1);
    for (uint32_t i = 0; i < 10; i++) {
        icp_step_info info = lab_step(self);
        assert_int_equal(chat->count, 22 + i); /* a token in every step */
        if (i < 9) assert_int_equal(info.row_count, 512);
    }
    lab_close(self);
}

static void a_lower_priority_number_goes_first_and_equal_ones_as_they_came(void **state)
{
    (void)state;
    lab *self = lab_open(SIM_FULL, plenty(1));
    text *texts[4];
    static const int32_t priorities[4] = {5, 0, 0, -3};
    static const uint32_t order[4] = {3, 1, 2, 0};
    for (uint32_t i = 0; i < 4; i++) {
        texts[i] = lab_text(self, NULL, 0, 10);
        icp_submission s = submission_of(texts[i], 1);
        s.priority = priorities[i];
        icp_job job;
        assert_int_equal(icp_engine_submit(self->engine, &s, &job, NULL), ICP_OK);
    }
    for (uint32_t i = 0; i < 4; i++) {
        lab_step(self);
        assert_int_equal(texts[order[i]]->finish, ICP_FINISH_LENGTH);
        for (uint32_t j = i + 1; j < 4; j++) assert_int_equal(texts[order[j]]->finish, ICP_FINISH_NONE);
    }
    lab_close(self);
}

static void the_least_urgent_gives_way_when_the_pool_is_full_and_loses_nothing(void **state)
{
    (void)state;
    icp_engine_options options = plenty(4);
    options.kv_bytes = 64 * 24; /* 24 blocks of 16 */
    options.context_tokens_max = 300;
    lab *self = lab_open(SIM_FULL, options);
    text *texts[4];
    for (uint32_t i = 0; i < 4; i++) {
        texts[i] = lab_text(self, NULL, 0, 60);
        lab_submit(self, texts[i], 120);
    }
    bool was_first_ever_behind = false;
    while (texts[0]->finish == ICP_FINISH_NONE) {
        uint32_t before = texts[0]->count;
        lab_step(self);
        was_first_ever_behind |= texts[0]->count != before + 1;
    }
    assert_false(was_first_ever_behind);
    lab_run(self);
    icp_engine_stats stats;
    icp_engine_stats_init(&stats);
    assert_int_equal(icp_engine_statistics(self->engine, &stats), ICP_OK);
    assert_true(stats.preempted_count > 0);
    print_message("%llu preempted, %llu of %llu tokens computed again\n", (unsigned long long)stats.preempted_count,
                  (unsigned long long)stats.recomputed_tokens, (unsigned long long)stats.computed_tokens);
    for (uint32_t i = 0; i < 4; i++) {
        assert_int_equal(texts[i]->finish, ICP_FINISH_LENGTH);
        assert_int_equal(texts[i]->count, 180);
    }
    lab_close(self);
}

static void a_tenant_at_its_quota_gives_way_to_itself_alone(void **state)
{
    (void)state;
    lab *self = lab_open(SIM_FULL, plenty(8));
    icp_submission s = submission_of(lab_text(self, NULL, 0, 10), 1);
    icp_request request;
    s.tenant = "a";
    assert_int_equal(icp_engine_cache_request(self->engine, &s, &request), ICP_OK);
    assert_int_equal(icp_scope_quota(icp_engine_cache(self->engine), request.scope, 0, 24), ICP_OK);
    text *of_a[3];
    text *of_b[2];
    for (uint32_t i = 0; i < 3; i++) { /* 13 blocks each in the end */
        of_a[i] = lab_text(self, NULL, 0, 100);
        submit_for(self, of_a[i], 100, "a");
        if (i < 2) of_b[i] = lab_text(self, NULL, 0, 100);
        if (i < 2) submit_for(self, of_b[i], 100, "b");
    }
    text *too_long = lab_text(self, NULL, 0, 400);
    submit_for(self, too_long, 5, "a");
    lab_run(self);
    uint32_t preempted = 0;
    for (uint32_t i = 0; i < 3; i++) {
        assert_int_equal(of_a[i]->count, 200);
        preempted += of_a[i]->preempted;
        if (i < 2) assert_int_equal(of_b[i]->count, 200);
        if (i < 2) assert_int_equal(of_b[i]->preempted, 0);
    }
    assert_true(preempted > 0);
    assert_int_equal(too_long->finish, ICP_FINISH_LENGTH);
    assert_int_equal(too_long->count, 400);
    assert_int_equal(icp_scope_close(icp_engine_cache(self->engine), request.scope), ICP_OK);
    lab_close(self);
}

/* Found by the simulation: a failed step gave up the leases of all that ran, and a request that stores nothing began
 * again from its first token, for ever where steps failed often enough. */
static void a_request_that_stores_nothing_gets_on_though_every_other_step_fails(void **state)
{
    (void)state;
    icp_engine_options options = plenty(4);
    options.step_tokens = 64;
    lab *self = lab_open(SIM_FULL_AND_WINDOW, options);
    text *texts[3];
    for (uint32_t i = 0; i < 3; i++) {
        texts[i] = lab_text(self, i == 2 ? texts[1] : NULL, i == 2 ? 500 : 0, 603 - (i == 2 ? 500 : 0));
        icp_submission s = submission_of(texts[i], 30);
        s.flags = i == 0 ? ICP_NO_STORE : 0;
        icp_job job;
        assert_int_equal(icp_engine_submit(self->engine, &s, &job, NULL), ICP_OK);
    }
    uint64_t failed_rows = 0;
    icp_step_info info;
    icp_step_info_init(&info);
    for (uint32_t i = 0; !info.is_idle; i++) {
        assert_true(i < 1000);
        if (i % 2 == 1) fake_fail_next(self->backend);
        icp_status status = icp_engine_step(self->engine, &info);
        if (status != ICP_OK) failed_rows += info.row_count;
        lab_poll(self);
        icp_error error = {""};
        if (icp_cache_check(icp_engine_cache(self->engine), &error) != ICP_OK) fail_msg("%s", error.text);
    }
    for (uint32_t i = 0; i < 3; i++) assert_int_equal(texts[i]->count, 633);
    uint64_t rows = fake_row_count(self->backend) - failed_rows;
    assert_int_equal(rows, 2 * 632 + 132); /* as if no step had failed */
    lab_close(self);
}

static void a_request_that_pins_leave_no_room_for_ends_instead_of_waiting_for_ever(void **state)
{
    (void)state;
    icp_engine_options options = plenty(2);
    options.kv_bytes = 64 * 12;
    lab *self = lab_open(SIM_FULL, options);
    text *pinned = lab_text(self, NULL, 0, 140);
    lab_submit(self, pinned, 1);
    lab_run(self);
    icp_submission s = submission_of(pinned, 1);
    s.token_count = 140;
    icp_request request;
    assert_int_equal(icp_engine_cache_request(self->engine, &s, &request), ICP_OK);
    icp_pin pin;
    assert_int_equal(icp_cache_pin(icp_engine_cache(self->engine), &request, UINT64_MAX, &pin, NULL), ICP_OK);
    assert_int_equal(icp_scope_close(icp_engine_cache(self->engine), request.scope), ICP_OK);
    text *other = lab_text(self, NULL, 0, 100);
    lab_submit(self, other, 1);
    text *small = lab_text(self, NULL, 0, 10);
    lab_submit(self, small, 3);
    lab_run(self);
    assert_int_equal(other->finish, ICP_FINISH_LENGTH);
    assert_int_equal(other->count, 100);
    assert_int_equal(small->count, 13);
    lab_close(self);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(users_of_one_system_prompt_who_arrive_together_compute_it_once),
        cmocka_unit_test(the_same_prompt_many_times_at_once_is_computed_once),
        cmocka_unit_test(a_conversation_computes_each_turn_once),
        cmocka_unit_test(questions_on_one_document_compute_it_once),
        cmocka_unit_test(branching_conversations_compute_each_turn_once),
        cmocka_unit_test(more_conversations_than_run_at_once_compute_each_turn_once),
        cmocka_unit_test(branches_of_one_request_compute_its_prompt_once),
        cmocka_unit_test(a_long_prompt_does_not_stop_those_that_decode),
        cmocka_unit_test(a_lower_priority_number_goes_first_and_equal_ones_as_they_came),
        cmocka_unit_test(the_least_urgent_gives_way_when_the_pool_is_full_and_loses_nothing),
        cmocka_unit_test(a_tenant_at_its_quota_gives_way_to_itself_alone),
        cmocka_unit_test(a_request_that_stores_nothing_gets_on_though_every_other_step_fails),
        cmocka_unit_test(a_request_that_pins_leave_no_room_for_ends_instead_of_waiting_for_ever),
    };
    return cmocka_run_group_tests_name("schedule", tests, NULL, NULL);
}
