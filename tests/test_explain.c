/* test_explain.c - why did my prompt not hit? Every answer with its numbers and its sentence. */
#include "world.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

static icp_cache *open_small(uint32_t block_count, uint32_t tail_tokens_min)
{
    icp_cache_options options = world_options(block_count, 4);
    options.tail_tokens_min = tail_tokens_min;
    return world_open(&options);
}

static void assert_sentence(const icp_explanation *why, const char *sentence)
{
    char text[512];
    assert_int_equal(icp_explanation_text(why, text, sizeof(text)), strlen(sentence));
    assert_string_equal(text, sentence);
}

/* Explains, then matches: the hit must be the one foretold, and explaining must have changed nothing. */
static icp_explanation explain_and_match(icp_cache *cache, icp_scope scope, const char *letters)
{
    uint32_t before[1024], after[1024];
    size_t before_count = 0, after_count = 0;
    icp_cache_stats stats = world_stats(cache);
    assert_int_equal(icp_cache_queue(cache, 0, before, 1024, &before_count), ICP_OK);
    icp_explanation why = world_explain(cache, scope, letters, ICP_EXPLAIN_OTHER_SCOPES);
    why = world_explain(cache, scope, letters, 0);
    icp_cache_stats stats_after = world_stats(cache);
    assert_memory_equal(&stats, &stats_after, sizeof(stats));
    assert_int_equal(icp_cache_queue(cache, 0, after, 1024, &after_count), ICP_OK);
    assert_int_equal(before_count, after_count);
    assert_memory_equal(before, after, before_count * sizeof(before[0]));
    world_check(cache);

    icp_hit hit;
    icp_lease lease = world_match(cache, scope, letters, ICP_UNCOUNTED, &hit);
    assert_memory_equal(&hit, &why.hit, sizeof(hit));
    DO(cache, icp_lease_release(cache, lease));
    return why;
}

static void a_text_that_is_all_cached_is_a_hit(void **state)
{
    (void)state;
    icp_cache *cache = open_small(16, 1);
    world_cache_text(cache, 0, "aaaabbbb");
    DO(cache, icp_cache_tick(cache, 1));
    icp_explanation why = explain_and_match(cache, 0, "aaaabbbbc");
    assert_int_equal(why.why, ICP_WHY_HIT);
    assert_int_equal(why.position, 8);
    assert_int_equal(why.hit.block_tokens_hit, 8);
    assert_sentence(&why, "hit: 8 tokens are cached, all that can be.");
    why = explain_and_match(cache, 0, "aaaabbbb");
    assert_int_equal(why.why, ICP_WHY_HIT);
    assert_int_equal(why.hit.block_tokens_hit, 4);
    assert_int_equal(why.hit.tail_tokens_hit, 3);
    icp_cache_close(cache);

    cache = open_small(16, ICP_TAIL_OFF); /* all but the last partial block */
    world_cache_text(cache, 0, "aaaabbbb");
    why = explain_and_match(cache, 0, "aaaabbbbccc");
    assert_int_equal(why.why, ICP_WHY_HIT);
    assert_int_equal(why.position, 8);
    icp_cache_close(cache);
}

static void a_text_that_goes_another_way_diverges_at_a_token(void **state)
{
    (void)state;
    icp_cache *cache = open_small(16, 1);
    world_cache_text(cache, 0, "aaaabbcd");
    world_cache_text(cache, 0, "aaaaxxxx");
    DO(cache, icp_cache_tick(cache, 1));
    icp_explanation why = explain_and_match(cache, 0, "aaaabbXYZ");
    assert_int_equal(why.why, ICP_WHY_DIVERGES);
    assert_int_equal(why.hit.cached_tokens, 6);
    assert_int_equal(why.position, 6);
    assert_int_equal(why.shared_tokens, 2);
    assert_int_equal(why.token_count, 2); /* within the block */
    assert_int_equal(why.cached[0], 'c');
    assert_int_equal(why.cached[1], 'd');
    assert_int_equal(why.asked[0], 'X');
    assert_int_equal(why.asked[1], 'Y');
    assert_sentence(&why,
                    "6 tokens are cached. The nearest cached text parts from this one at token 6: it has 99 there, "
                    "this one 88.");
    icp_cache_close(cache);
}

static void at_most_eight_tokens_that_differ_are_told(void **state)
{
    (void)state;
    icp_cache_options options = world_options(16, 16);
    icp_cache *cache = world_open(&options);
    world_cache_text(cache, 0, "abcdefghijklmnop");
    icp_explanation why = explain_and_match(cache, 0, "Zbcdefghijklmnopq");
    assert_int_equal(why.why, ICP_WHY_DIVERGES);
    assert_int_equal(why.position, 0);
    assert_int_equal(why.token_count, ICP_EXPLAIN_TOKENS);
    for (uint32_t i = 0; i < ICP_EXPLAIN_TOKENS; i++) {
        assert_int_equal(why.cached[i], 'a' + i);
        assert_int_equal(why.asked[i], i == 0 ? 'Z' : 'a' + i);
    }
    why = explain_and_match(cache, 0, "abcdefghijklmZZZq");
    assert_int_equal(why.token_count, 3);
    assert_int_equal(why.asked[3], 0);
    icp_cache_close(cache);
}

static void the_same_tokens_under_another_image_are_told_apart(void **state)
{
    (void)state;
    icp_cache *cache = open_small(16, ICP_TAIL_OFF);
    world_text text;
    icp_lease lease = 0;
    icp_explanation why;
    world_letters(&text, "aaaabbbbc");
    icp_extra image = {6, 2, "cat", 3};
    text.text.extras = &image;
    text.text.extra_count = 1;
    icp_request request = {.text = text.text};
    DO(cache, icp_cache_match(cache, &request, &lease, NULL));
    DO(cache, icp_lease_extend(cache, lease, 9));
    DO(cache, icp_lease_publish(cache, lease, &request.text));
    image.id = "dog";
    icp_explanation_init(&why);
    DO(cache, icp_cache_explain(cache, &request, 0, &why));
    assert_int_equal(why.why, ICP_WHY_EXTRA);
    assert_int_equal(why.hit.cached_tokens, 4);
    assert_int_equal(why.position, 6);
    assert_int_equal(why.shared_tokens, 2);
    assert_sentence(&why, "4 tokens are cached. The nearest cached text has the same tokens, but another image (extra "
                          "key) at token 6.");
    icp_cache_close(cache);
}

static void less_than_a_block_in_common_is_too_short(void **state)
{
    (void)state;
    icp_cache *cache = open_small(16, ICP_TAIL_OFF);
    world_cache_text(cache, 0, "aaaabbcd");
    icp_explanation why = explain_and_match(cache, 0, "aaaabbXYZ");
    assert_int_equal(why.why, ICP_WHY_SHORT);
    assert_int_equal(why.hit.cached_tokens, 4);
    assert_int_equal(why.position, 6);
    assert_int_equal(why.shared_tokens, 2);
    assert_int_equal(why.token_count, 2);
    assert_int_equal(why.cached[0], 'c');
    assert_int_equal(why.asked[0], 'X');
    assert_sentence(&why,
                    "4 tokens are cached. The nearest cached text shares 2 more, up to token 6: less than a block, "
                    "and no tail could be taken.");
    icp_cache_close(cache);
}

/* The text ends inside a cached block, but what it shares there is no tail. */
static void a_last_block_below_the_minimum_or_not_yet_computed_is_too_short(void **state)
{
    (void)state;
    icp_cache *cache = open_small(16, 3);
    world_cache_text(cache, 0, "aaaabbcd");
    DO(cache, icp_cache_tick(cache, 1));
    icp_explanation why = explain_and_match(cache, 0, "aaaabb");
    assert_int_equal(why.why, ICP_WHY_SHORT);
    assert_int_equal(why.hit.cached_tokens, 4);
    assert_int_equal(why.shared_tokens, 2);
    assert_int_equal(why.position, 6);
    assert_int_equal(why.token_count, 0);
    assert_int_equal(explain_and_match(cache, 0, "aaa").why, ICP_WHY_SHORT);
    icp_cache_close(cache);

    cache = open_small(16, 1);
    world_cache_text(cache, 0, "aaaabbcd");
    why = explain_and_match(cache, 0, "aaaabbc");
    assert_int_equal(why.why, ICP_WHY_SHORT);
    assert_int_equal(why.hit.cached_tokens, 4);
    assert_int_equal(why.shared_tokens, 3);
    DO(cache, icp_cache_tick(cache, 1));
    assert_int_equal(explain_and_match(cache, 0, "aaaabbc").why, ICP_WHY_HIT);
    icp_cache_close(cache);
}

static void a_text_that_goes_on_where_the_cached_one_ends_is_new(void **state)
{
    (void)state;
    icp_cache *cache = open_small(16, 1);
    world_cache_text(cache, 0, "aaaabbbbc");
    icp_explanation why = explain_and_match(cache, 0, "aaaabbbbcccccc");
    assert_int_equal(why.why, ICP_WHY_ENDS);
    assert_int_equal(why.position, 8);
    assert_sentence(&why, "8 tokens are cached. The cached text ends there (only whole blocks are kept).");
    icp_cache_close(cache);
}

static void an_evicted_text_is_told_with_its_age(void **state)
{
    (void)state;
    icp_cache_options options = world_options(4, 4);
    options.ghost_count = 1024;
    icp_cache *cache = world_open(&options);
    world_cache_text(cache, 0, "aaaabbbbccccdddd");
    DO(cache, icp_cache_tick(cache, 100));
    DO(cache, icp_lease_release(cache, world_hold(cache, 0, 12))); /* the last three blocks */
    DO(cache, icp_cache_tick(cache, 107));
    icp_explanation why = explain_and_match(cache, 0, "aaaabbbbccccddddeeee");
    assert_int_equal(why.why, ICP_WHY_EVICTED);
    assert_int_equal(why.hit.cached_tokens, 4);
    assert_int_equal(why.position, 4);
    assert_int_equal(why.evicted_tokens, 12);
    assert_int_equal(why.evicted_ticks_ago, 7);
    assert_sentence(&why, "4 tokens are cached. The next 12 were, and were evicted 7 ticks ago: the cache is too small "
                          "for what came between.");
    assert_int_equal(world_explain(cache, 0, "aaaabbbbXXXXd", 0).evicted_tokens, 4);
    icp_cache_close(cache);

    options.ghost_count = ICP_GHOST_OFF;
    cache = world_open(&options);
    world_cache_text(cache, 0, "aaaabbbbccccdddd");
    DO(cache, icp_lease_release(cache, world_hold(cache, 0, 16)));
    assert_int_equal(explain_and_match(cache, 0, "aaaabbbbc").why, ICP_WHY_NEVER);
    icp_cache_close(cache);
}

static void a_window_block_that_is_gone_is_told_with_its_group(void **state)
{
    (void)state;
    const icp_group groups[] = {{.kind = ICP_GROUP_FULL},
                                {.kind = ICP_GROUP_WINDOW, .window = 5},
                                {.kind = ICP_GROUP_WINDOW, .window = 5, .block_count = 4}};
    icp_cache_options options = world_options(32, 4);
    options.groups = groups;
    options.group_count = 3;
    icp_cache *cache = world_open(&options);
    world_cache_text(cache, 0, "aaaabbbbcccc");
    DO(cache, icp_lease_release(cache, world_hold(cache, 0, 8))); /* the spare one and the last of group 2 */
    icp_explanation why = explain_and_match(cache, 0, "aaaabbbbccccddddd");
    assert_int_equal(why.why, ICP_WHY_GROUP);
    assert_int_equal(why.group, 2);
    assert_int_equal(why.text_tokens, 12);
    assert_int_equal(why.position, 12);
    assert_int_equal(why.hit.cached_tokens, 8);
    assert_sentence(&why, "8 tokens are usable. The text is cached to token 12, but blocks of group 2 that a longer "
                          "prefix needs are gone.");
    icp_cache_close(cache);
}

static void another_scope_is_told_only_when_asked_and_only_as_a_number(void **state)
{
    (void)state;
    icp_cache *cache = open_small(16, 1);
    icp_scope alice = world_tenant(cache, "alice");
    icp_scope bob = world_tenant(cache, "bob");
    world_cache_text(cache, alice, "aaaabbbbcccc");
    world_cache_text(cache, 0, "aaaa");
    icp_explanation why = explain_and_match(cache, bob, "aaaabbbbccccd");
    assert_int_equal(why.why, ICP_WHY_NEVER);
    assert_int_equal(why.other_tokens, 0);
    assert_sentence(&why, "nothing is cached: no text that begins like this was seen, or long ago.");

    why = world_explain(cache, bob, "aaaabbbbccccd", ICP_EXPLAIN_OTHER_SCOPES);
    assert_int_equal(why.why, ICP_WHY_OTHER_SCOPE);
    assert_int_equal(why.other_tokens, 12); /* of the best one */
    assert_int_equal(why.hit.cached_tokens, 0);
    assert_sentence(&why, "nothing is cached here, but 12 tokens of this text are under another scope (model, adapter, "
                          "tenant or salt).");

    why = world_explain(cache, 0, "aaaabbbbccccd", ICP_EXPLAIN_OTHER_SCOPES);
    assert_int_equal(why.why, ICP_WHY_ENDS);
    assert_int_equal(why.other_tokens, 12);
    why = world_explain(cache, alice, "aaaabbbbccccd", ICP_EXPLAIN_OTHER_SCOPES);
    assert_int_equal(why.why, ICP_WHY_HIT);
    assert_int_equal(why.other_tokens, 4);
    icp_cache_close(cache);
}

static void a_sentence_is_cut_to_what_there_is_room_for(void **state)
{
    (void)state;
    for (int i = 0; i < ICP_WHY_COUNT; i++) {
        icp_explanation why;
        char whole[512], cut[512];
        icp_explanation_init(&why);
        why.why = (icp_why)i;
        size_t length = icp_explanation_text(&why, whole, sizeof(whole));
        assert_true(length > 20 && length < sizeof(whole));
        assert_int_equal(strlen(whole), length);
        assert_int_equal(whole[length - 1], '.');
        assert_int_equal(icp_explanation_text(&why, NULL, 0), length);
        for (size_t bytes = 1; bytes <= length + 1; bytes++) {
            memset(cut, '#', sizeof(cut));
            assert_int_equal(icp_explanation_text(&why, cut, bytes), length);
            assert_int_equal(strlen(cut), bytes - 1);
            assert_memory_equal(cut, whole, bytes - 1);
            assert_int_equal(cut[bytes], '#');
        }
    }
}

static void the_arguments_of_explain_are_checked(void **state)
{
    (void)state;
    icp_cache *cache = open_small(16, 1);
    world_text text;
    icp_explanation why;
    world_letters(&text, "aaaa");
    icp_request request = {.text = text.text};
    icp_explanation_init(&why);
    REFUSED(cache, ICP_BAD_ARGUMENT, icp_cache_explain(NULL, &request, 0, &why));
    REFUSED(cache, ICP_BAD_ARGUMENT, icp_cache_explain(cache, NULL, 0, &why));
    REFUSED(cache, ICP_BAD_ARGUMENT, icp_cache_explain(cache, &request, 0, NULL));
    request.text.token_count = 0;
    REFUSED(cache, ICP_BAD_ARGUMENT, icp_cache_explain(cache, &request, 0, &why));
    request.text.token_count = 5000;
    REFUSED(cache, ICP_TOO_LONG, icp_cache_explain(cache, &request, 0, &why));
    icp_cache_close(cache);
}

/* Random texts over a pool that turns over: whatever explain says of the hit is what match gives. */
static void explain_always_foretells_the_hit(void **state)
{
    (void)state;
    uint64_t seed = 31;
    bool is_seen[ICP_WHY_COUNT] = {false};
    icp_cache *cache = open_small(12, 2);
    icp_scope scopes[2] = {0, world_tenant(cache, "alice")};
    print_message("seed %d\n", (int)seed);
    for (uint32_t i = 0; i < 2000; i++) {
        char letters[24] = {0};
        uint32_t count = 1 + world_random(&seed) % 23;
        icp_scope scope = scopes[world_random(&seed) % 2];
        for (uint32_t j = 0; j < count; j++) letters[j] = world_random(&seed) % 8 == 0 ? 'b' : 'a';
        is_seen[explain_and_match(cache, scope, letters).why] = true;
        is_seen[world_explain(cache, scope, letters, ICP_EXPLAIN_OTHER_SCOPES).why] = true;
        if (world_random(&seed) % 2 == 0) world_cache_text(cache, scope, letters);
        if (world_random(&seed) % 2 == 0) DO(cache, icp_cache_tick(cache, i));
    }
    assert_true(is_seen[ICP_WHY_HIT] && is_seen[ICP_WHY_DIVERGES] && is_seen[ICP_WHY_EVICTED]);
    icp_cache_close(cache);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_text_that_is_all_cached_is_a_hit),
        cmocka_unit_test(a_text_that_goes_another_way_diverges_at_a_token),
        cmocka_unit_test(at_most_eight_tokens_that_differ_are_told),
        cmocka_unit_test(the_same_tokens_under_another_image_are_told_apart),
        cmocka_unit_test(less_than_a_block_in_common_is_too_short),
        cmocka_unit_test(a_last_block_below_the_minimum_or_not_yet_computed_is_too_short),
        cmocka_unit_test(a_text_that_goes_on_where_the_cached_one_ends_is_new),
        cmocka_unit_test(an_evicted_text_is_told_with_its_age),
        cmocka_unit_test(a_window_block_that_is_gone_is_told_with_its_group),
        cmocka_unit_test(another_scope_is_told_only_when_asked_and_only_as_a_number),
        cmocka_unit_test(a_sentence_is_cut_to_what_there_is_room_for),
        cmocka_unit_test(the_arguments_of_explain_are_checked),
        cmocka_unit_test(explain_always_foretells_the_hit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
