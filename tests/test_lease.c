/* test_lease.c - what the header promises of a lease: match, extend, table, tail, publish, truncate, unpublish. */
#include "world.h"

#include <stdbool.h>
#include <string.h>

static icp_cache *open_small(uint32_t block_count, uint32_t tail_tokens_min)
{
    icp_cache_options options = world_options(block_count, 4);
    options.tail_tokens_min = tail_tokens_min;
    return world_open(&options);
}

static icp_lease_info inspect(const icp_cache *cache, icp_lease lease)
{
    icp_lease_info info;
    assert_int_equal(icp_lease_inspect(cache, lease, &info), ICP_OK);
    return info;
}

static void assert_copy(const icp_cache *cache, icp_lease lease, uint32_t from, uint32_t to, uint32_t positions)
{
    icp_copy copy;
    assert_int_equal(icp_lease_tail(cache, lease, 0, &copy), ICP_OK);
    assert_int_equal(copy.positions, positions);
    if (positions == 0) return;
    assert_int_equal(copy.from, from);
    assert_int_equal(copy.to, to);
}

/* Everything of a cache and one lease that can be seen. */
typedef struct sight {
    icp_cache_stats stats;
    icp_lease_info info;
    uint32_t queue[32];
    uint32_t table[32];
    size_t queue_count;
    icp_copy copy;
} sight;

static sight look(const icp_cache *cache, icp_lease lease)
{
    sight seen;
    memset(&seen, 0, sizeof(seen));
    const uint32_t *table = NULL;
    uint32_t count = 0;
    seen.stats = world_stats(cache);
    seen.info = inspect(cache, lease);
    assert_int_equal(icp_cache_queue(cache, 0, seen.queue, 32, &seen.queue_count), ICP_OK);
    assert_int_equal(icp_lease_table(cache, lease, 0, &table, &count), ICP_OK);
    memcpy(seen.table, table, count * sizeof(*table));
    if (icp_lease_tail(cache, lease, 0, &seen.copy) != ICP_OK) seen.copy.positions = 99;
    return seen;
}

static void assert_same_sight(const sight *before, const sight *after)
{
    assert_memory_equal(&before->stats, &after->stats, sizeof(before->stats));
    assert_memory_equal(before->queue, after->queue, sizeof(before->queue));
    assert_memory_equal(before->table, after->table, sizeof(before->table));
    assert_memory_equal(&before->copy, &after->copy, sizeof(before->copy));
    assert_int_equal(before->info.scope, after->info.scope);
    assert_int_equal(before->info.token_count, after->info.token_count);
    assert_int_equal(before->info.published_tokens, after->info.published_tokens);
    assert_int_equal(before->info.block_count, after->info.block_count);
}

/* ---- Match --------------------------------------------------------------------------------------------------- */

static void a_text_of_whole_blocks_leaves_its_last_block_to_compute(void **state)
{
    (void)state;
    icp_cache *cache = open_small(8, ICP_TAIL_OFF);
    world_cache_text(cache, 0, "aaaabbbbcccc");
    assert_int_equal(world_cached(cache, 0, "aaaabbbbcccc"), 8);
    assert_int_equal(world_cached(cache, 0, "aaaabbbbccccd"), 12);
    assert_int_equal(world_cached(cache, 0, "aaaabbbb"), 4);
    assert_int_equal(world_cached(cache, 0, "aaaa"), 0);
    assert_int_equal(world_cached(cache, 0, "a"), 0);
    icp_cache_close(cache);
}

static void with_tails_only_the_last_token_is_left_to_compute(void **state)
{
    (void)state;
    icp_cache *cache = open_small(8, 1);
    world_cache_text(cache, 0, "aaaabbbbcccc");
    DO(cache, icp_cache_tick(cache, 1));
    const struct {
        const char *text;
        icp_hit hit;
    } cases[] = {{"aaaabbbbccccd", {12, 12, 0}},
                 {"aaaabbbbcccc", {11, 8, 3}},
                 {"aaaabbbbccc", {10, 8, 2}},
                 {"aaaabbbbcc", {9, 8, 1}},
                 {"aaaabbbbc", {8, 8, 0}},
                 {"aaaabbbb", {7, 4, 3}},
                 {"aaaa", {3, 0, 3}},
                 {"aa", {1, 0, 1}},
                 {"a", {0, 0, 0}}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        icp_hit hit;
        icp_lease lease = world_match(cache, 0, cases[i].text, 0, &hit);
        assert_memory_equal(&hit, &cases[i].hit, sizeof(hit));
        assert_true(hit.cached_tokens < strlen(cases[i].text));
        DO(cache, icp_lease_release(cache, lease));
    }
    icp_cache_close(cache);
}

static void a_second_match_in_the_same_step_shares_whole_blocks_but_takes_no_tail(void **state)
{
    (void)state;
    icp_cache *cache = open_small(8, 1);
    DO(cache, icp_cache_tick(cache, 1));
    icp_lease one = world_run(cache, 0, "aaaabbbb");
    icp_hit hit;
    icp_lease two = world_match(cache, 0, "aaaabbbX", 0, &hit);
    assert_int_equal(hit.block_tokens_hit, 4);
    assert_int_equal(hit.tail_tokens_hit, 0);
    world_assert_table(cache, two, 0, "0");
    DO(cache, icp_lease_release(cache, two));

    DO(cache, icp_cache_tick(cache, 2));
    two = world_match(cache, 0, "aaaabbbX", 0, &hit);
    assert_int_equal(hit.block_tokens_hit, 4);
    assert_int_equal(hit.tail_tokens_hit, 3);
    DO(cache, icp_lease_release(cache, one));
    icp_cache_close(cache);
}

static void a_tail_shorter_than_the_minimum_is_not_taken(void **state)
{
    (void)state;
    icp_cache *cache = open_small(8, 3);
    world_cache_text(cache, 0, "aaaabbbb");
    DO(cache, icp_cache_tick(cache, 1));
    assert_int_equal(world_cached(cache, 0, "aaaabbXX"), 4);
    assert_int_equal(world_cached(cache, 0, "aaaabbbX"), 7);
    icp_cache_close(cache);
}

static void flags_of_a_request_keep_it_from_reading_storing_and_counting(void **state)
{
    (void)state;
    icp_cache *cache = open_small(16, ICP_TAIL_OFF);
    icp_hit hit;
    icp_lease lease = world_match(cache, 0, "aaaabbbb", ICP_NO_STORE, &hit);
    world_publish(cache, lease, "aaaabbbb");
    assert_int_equal(world_stats(cache).stored_count, 0);
    assert_int_equal(inspect(cache, lease).published_tokens, 0);
    assert_int_equal(world_state(cache, 0, 0), ICP_BLOCK_PRIVATE);
    assert_int_equal(world_cached(cache, 0, "aaaabbbbc"), 0);
    DO(cache, icp_lease_release(cache, lease));
    assert_int_equal(world_stats(cache).block_count_spare, 16);

    world_cache_text(cache, 0, "aaaabbbb");
    lease = world_match(cache, 0, "aaaabbbbc", ICP_NO_STORE, &hit);
    assert_int_equal(hit.cached_tokens, 8);
    DO(cache, icp_lease_release(cache, lease));

    lease = world_match(cache, 0, "aaaabbbbccccd", ICP_NO_READ, &hit);
    assert_int_equal(hit.cached_tokens, 0);
    world_publish(cache, lease, "aaaabbbbccccd");
    assert_int_equal(world_cached(cache, 0, "aaaabbbbccccd"), 12);
    DO(cache, icp_lease_release(cache, lease));

    icp_cache_stats before = world_stats(cache);
    lease = world_match(cache, 0, "aaaabbbbccccd", ICP_UNCOUNTED, &hit);
    assert_int_equal(hit.cached_tokens, 12);
    icp_cache_stats after = world_stats(cache);
    assert_int_equal(after.match_count, before.match_count);
    assert_int_equal(after.queried_tokens, before.queried_tokens);
    assert_int_equal(after.hit_tokens, before.hit_tokens);
    assert_int_equal(after.tail_tokens, before.tail_tokens);
    icp_cache_close(cache);
}

static void one_lease_too_many_is_refused(void **state)
{
    (void)state;
    icp_cache_options options = world_options(8, 4);
    options.lease_count_max = 2;
    icp_cache *cache = world_open(&options);
    icp_lease one = world_run(cache, 0, "aaaab");
    icp_lease two = world_run(cache, 0, "bbbbc");
    world_text text;
    world_letters(&text, "ccccd");
    icp_lease three = 77;
    icp_hit hit = {7, 7, 7};
    icp_request request = {.text = text.text};
    REFUSED(cache, ICP_TOO_MANY_LEASES, icp_cache_match(cache, &request, &three, &hit));
    assert_int_equal(three, 77);
    assert_int_equal(hit.cached_tokens, 7);
    DO(cache, icp_lease_release(cache, one));
    DO(cache, icp_cache_match(cache, &request, &three, &hit));
    assert_int_not_equal(three, one);
    assert_int_not_equal(three, two);
    icp_cache_close(cache);
}

static void a_text_longer_than_a_lease_may_be_is_refused(void **state)
{
    (void)state;
    icp_cache_options options = world_options(8, 4);
    options.lease_tokens_max = 10;
    icp_cache *cache = world_open(&options);
    world_text text;
    icp_lease lease = 77;
    world_letters(&text, "aaaabbbbccc");
    REFUSED(cache, ICP_TOO_LONG, icp_cache_match(cache, &(icp_request){.text = text.text}, &lease, NULL));
    assert_int_equal(lease, 77);
    lease = world_match(cache, 0, "aaaabbbbcc", 0, NULL);
    REFUSED(cache, ICP_TOO_LONG, icp_lease_extend(cache, lease, 11));
    DO(cache, icp_lease_extend(cache, lease, 10));
    world_assert_table(cache, lease, 0, "0 1 2");
    icp_cache_close(cache);
}

/* ---- Extend, table, release ---------------------------------------------------------------------------------- */

static void an_extend_that_finds_no_room_changes_nothing(void **state)
{
    (void)state;
    icp_cache *cache = open_small(6, ICP_TAIL_OFF);
    world_cache_text(cache, 0, "aaaabbbb");
    world_cache_text(cache, 0, "xxxxyyyy");
    icp_lease other = world_run(cache, 0, "aaaabbbbc");
    icp_lease lease = world_run(cache, 0, "xxxxz");
    sight before = look(cache, lease);
    assert_int_equal(icp_lease_extend(cache, lease, 17), ICP_FULL);
    world_check(cache);
    sight after = look(cache, lease);
    assert_int_equal(after.stats.full_count, before.stats.full_count + 1);
    after.stats.full_count = before.stats.full_count;
    assert_same_sight(&before, &after);
    assert_int_equal(world_cached(cache, 0, "xxxxyyyyz"), 8);

    DO(cache, icp_lease_release(cache, other));
    DO(cache, icp_lease_extend(cache, lease, 17));
    icp_cache_close(cache);
}

static void an_extend_to_what_is_there_already_changes_nothing(void **state)
{
    (void)state;
    icp_cache *cache = open_small(6, ICP_TAIL_OFF);
    icp_lease lease = world_run(cache, 0, "aaaabb");
    sight before = look(cache, lease);
    DO(cache, icp_lease_extend(cache, lease, 6));
    DO(cache, icp_lease_extend(cache, lease, 3));
    DO(cache, icp_lease_extend(cache, lease, 0));
    sight after = look(cache, lease);
    assert_same_sight(&before, &after);
    icp_cache_close(cache);
}

static void a_table_shows_later_changes_where_it_is(void **state)
{
    (void)state;
    icp_cache *cache = open_small(8, ICP_TAIL_OFF);
    icp_lease lease = world_run(cache, 0, "aaaa");
    const uint32_t *early = NULL;
    const uint32_t *late = NULL;
    uint32_t count = 0;
    DO(cache, icp_lease_table(cache, lease, 0, &early, &count));
    assert_int_equal(count, 1);
    DO(cache, icp_lease_extend(cache, lease, 12));
    DO(cache, icp_lease_table(cache, lease, 0, &late, &count));
    assert_int_equal(count, 3);
    assert_ptr_equal(early, late);
    assert_int_equal(early[2], 2);
    icp_cache_close(cache);
}

static void inspect_tells_the_scope_and_the_sizes_of_a_lease(void **state)
{
    (void)state;
    icp_cache *cache = open_small(8, ICP_TAIL_OFF);
    icp_scope scope = world_tenant(cache, "alice");
    icp_lease lease = world_run(cache, scope, "aaaabbbbcc");
    icp_lease_info info = inspect(cache, lease);
    assert_int_equal(info.scope, scope);
    assert_int_equal(info.token_count, 10);
    assert_int_equal(info.published_tokens, 8);
    assert_int_equal(info.block_count, 3);
    icp_cache_close(cache);
}

static void released_blocks_stay_findable_until_their_turn_comes(void **state)
{
    (void)state;
    icp_cache *cache = open_small(4, ICP_TAIL_OFF);
    world_cache_text(cache, 0, "aaaabbbb");
    world_assert_queue(cache, 0, "2 3 1 0");
    DO(cache, icp_lease_release(cache, world_hold(cache, 0, 8)));
    assert_int_equal(world_cached(cache, 0, "aaaabbbbc"), 8);
    DO(cache, icp_lease_release(cache, world_hold(cache, 0, 4)));
    assert_int_equal(world_cached(cache, 0, "aaaabbbbc"), 4);
    DO(cache, icp_lease_release(cache, world_hold(cache, 0, 16)));
    assert_int_equal(world_cached(cache, 0, "aaaabbbbc"), 0);
    icp_cache_close(cache);
}

/* ---- Handles and arguments ----------------------------------------------------------------------------------- */

static void every_call_refuses(icp_cache *cache, icp_lease lease)
{
    const uint32_t *blocks = NULL;
    uint32_t count = 77;
    icp_copy copy = {7, 7, 7};
    icp_lease_info info = {.block_count = 77};
    world_text text;
    world_letters(&text, "a");
    REFUSED(cache, ICP_STALE, icp_lease_extend(cache, lease, 8));
    REFUSED(cache, ICP_STALE, icp_lease_table(cache, lease, 0, &blocks, &count));
    REFUSED(cache, ICP_STALE, icp_lease_tail(cache, lease, 0, &copy));
    REFUSED(cache, ICP_STALE, icp_lease_publish(cache, lease, &text.text));
    REFUSED(cache, ICP_STALE, icp_lease_truncate(cache, lease, 0));
    REFUSED(cache, ICP_STALE, icp_lease_unpublish(cache, lease, 0));
    REFUSED(cache, ICP_STALE, icp_lease_inspect(cache, lease, &info));
    REFUSED(cache, ICP_STALE, icp_lease_release(cache, lease));
    assert_null(blocks);
    assert_int_equal(count, 77);
    assert_int_equal(copy.positions, 7);
    assert_int_equal(info.block_count, 77);
}

static void a_released_lease_is_stale_in_every_call(void **state)
{
    (void)state;
    icp_cache *cache = open_small(8, ICP_TAIL_OFF);
    icp_lease lease = world_run(cache, 0, "aaaab");
    DO(cache, icp_lease_release(cache, lease));
    every_call_refuses(cache, lease);
    icp_lease next = world_run(cache, 0, "aaaab");
    assert_int_not_equal(next, lease);
    every_call_refuses(cache, lease);
    every_call_refuses(cache, 0);
    every_call_refuses(cache, UINT64_MAX);
    every_call_refuses(cache, next + 1);
    world_assert_table(cache, next, 0, "0 2");
    icp_cache_close(cache);
}

static void a_null_where_none_may_be_is_a_bad_argument(void **state)
{
    (void)state;
    icp_cache *cache = open_small(8, ICP_TAIL_OFF);
    icp_lease lease = world_run(cache, 0, "aaaab");
    const uint32_t *blocks = NULL;
    uint32_t count = 0;
    icp_copy copy;
    icp_lease_info info;
    world_text text;
    world_letters(&text, "aaaab");
    icp_request request = {.text = text.text};
    icp_lease other = 77;
    REFUSED(cache, ICP_BAD_ARGUMENT, icp_cache_match(NULL, &request, &other, NULL));
    REFUSED(cache, ICP_BAD_ARGUMENT, icp_cache_match(cache, NULL, &other, NULL));
    REFUSED(cache, ICP_BAD_ARGUMENT, icp_cache_match(cache, &request, NULL, NULL));
    REFUSED(cache, ICP_BAD_ARGUMENT, icp_lease_extend(NULL, lease, 8));
    REFUSED(cache, ICP_BAD_ARGUMENT, icp_lease_table(NULL, lease, 0, &blocks, &count));
    REFUSED(cache, ICP_BAD_ARGUMENT, icp_lease_table(cache, lease, 0, NULL, &count));
    REFUSED(cache, ICP_BAD_ARGUMENT, icp_lease_table(cache, lease, 0, &blocks, NULL));
    REFUSED(cache, ICP_BAD_ARGUMENT, icp_lease_table(cache, lease, 1, &blocks, &count));
    REFUSED(cache, ICP_BAD_ARGUMENT, icp_lease_tail(NULL, lease, 0, &copy));
    REFUSED(cache, ICP_BAD_ARGUMENT, icp_lease_tail(cache, lease, 0, NULL));
    REFUSED(cache, ICP_BAD_ARGUMENT, icp_lease_tail(cache, lease, 1, &copy));
    REFUSED(cache, ICP_BAD_ARGUMENT, icp_lease_publish(NULL, lease, &text.text));
    REFUSED(cache, ICP_BAD_ARGUMENT, icp_lease_publish(cache, lease, NULL));
    REFUSED(cache, ICP_BAD_ARGUMENT, icp_lease_release(NULL, lease));
    REFUSED(cache, ICP_BAD_ARGUMENT, icp_lease_truncate(NULL, lease, 0));
    REFUSED(cache, ICP_BAD_ARGUMENT, icp_lease_unpublish(NULL, lease, 0));
    REFUSED(cache, ICP_BAD_ARGUMENT, icp_lease_inspect(NULL, lease, &info));
    REFUSED(cache, ICP_BAD_ARGUMENT, icp_lease_inspect(cache, lease, NULL));
    REFUSED(cache, ICP_BAD_ARGUMENT, icp_cache_tick(NULL, 1));
    assert_int_equal(other, 77);
    icp_cache_close(cache);
}

/* Both match and publish look at a text before they use it. */
static void assert_bad_text(icp_cache *cache, icp_lease lease, const icp_text *text)
{
    icp_lease other = 77;
    REFUSED(cache, ICP_BAD_ARGUMENT, icp_cache_match(cache, &(icp_request){.text = *text}, &other, NULL));
    REFUSED(cache, ICP_BAD_ARGUMENT, icp_lease_publish(cache, lease, text));
    assert_int_equal(other, 77);
}

static void a_text_that_makes_no_sense_is_a_bad_argument(void **state)
{
    (void)state;
    icp_cache *cache = open_small(8, ICP_TAIL_OFF);
    icp_lease lease = world_match(cache, 0, "aaaabbbb", 0, NULL);
    icp_lease other = 77;
    DO(cache, icp_lease_extend(cache, lease, 8));
    world_text text;
    world_letters(&text, "aaaabbbb");
    char id[ICP_EXTRA_ID_BYTES_MAX + 1] = {1};
    const icp_extra bad[][2] = {
        {{4, 2, id, 1}, {0, 2, id, 1}},         /* out of order */
        {{0, 3, id, 1}, {2, 2, id, 1}},         /* overlapping */
        {{0, 2, id, 1}, {0, 2, id, 1}},         /* twice the same */
        {{0, 2, id, 1}, {4, 0, id, 1}},         /* of no length */
        {{0, 2, id, 1}, {4, 1, NULL, 1}},       /* of no id */
        {{0, 2, id, 1}, {4, 1, id, 0}},         /* of an empty id */
        {{0, 2, id, sizeof(id)}, {4, 1, id, 1}} /* of too long an id */
    };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        icp_text with_extras = {text.tokens, 8, bad[i], 2};
        assert_bad_text(cache, lease, &with_extras);
    }
    assert_bad_text(cache, lease, &(icp_text){text.tokens, 8, NULL, 1});
    assert_bad_text(cache, lease, &(icp_text){NULL, 8, NULL, 0});
    icp_request empty = {.text = {text.tokens, 0, NULL, 0}};
    REFUSED(cache, ICP_BAD_ARGUMENT, icp_cache_match(cache, &empty, &other, NULL));
    world_letters(&text, "aaaabbbbc");
    REFUSED(cache, ICP_BAD_ARGUMENT, icp_lease_publish(cache, lease, &text.text));

    /* Touching each other, the longest id, reaching past the end: all of that may be. */
    const icp_extra good[] = {{0, 2, id, ICP_EXTRA_ID_BYTES_MAX}, {2, 100, id, 1}};
    DO(cache, icp_lease_publish(cache, lease, &(icp_text){text.tokens, 8, good, 2}));
    assert_int_equal(inspect(cache, lease).published_tokens, 8);
    icp_cache_close(cache);
}

static void time_never_goes_back(void **state)
{
    (void)state;
    icp_cache *cache = open_small(8, ICP_TAIL_OFF);
    DO(cache, icp_cache_tick(cache, 5));
    DO(cache, icp_cache_tick(cache, 5));
    REFUSED(cache, ICP_BAD_ARGUMENT, icp_cache_tick(cache, 4));
    DO(cache, icp_cache_tick(cache, UINT64_MAX));
    icp_cache_close(cache);
}

/* ---- Publish ------------------------------------------------------------------------------------------------- */

static void publish_reads_only_what_is_not_published_yet(void **state)
{
    (void)state;
    icp_cache *cache = open_small(8, ICP_TAIL_OFF);
    icp_lease lease = world_run(cache, 0, "aaaabb");
    world_publish(cache, lease, "????bbbb");
    assert_int_equal(world_cached(cache, 0, "aaaabbbbc"), 8);
    assert_int_equal(world_cached(cache, 0, "????bbbbc"), 0);
    icp_cache_close(cache);
}

static void publish_stops_where_the_table_of_extras_is_full(void **state)
{
    (void)state;
    icp_cache_options options = world_options(8, 4);
    options.extra_count_max = 1;
    icp_cache *cache = world_open(&options);
    world_text text;
    world_letters(&text, "aaaabbbbccccd");
    const icp_extra images[] = {{1, 2, "one", 3}, {5, 2, "two", 3}};
    text.text.extras = images;
    text.text.extra_count = 2;
    icp_lease lease = 0;
    icp_request request = {.text = text.text};
    DO(cache, icp_cache_match(cache, &request, &lease, NULL));
    DO(cache, icp_lease_extend(cache, lease, 13));
    DO(cache, icp_lease_publish(cache, lease, &text.text));
    assert_int_equal(inspect(cache, lease).published_tokens, 4);
    assert_int_equal(world_stats(cache).refused_count, 2);
    assert_int_equal(world_stats(cache).extra_count, 1);
    DO(cache, icp_lease_release(cache, lease));
    icp_hit hit;
    DO(cache, icp_cache_match(cache, &request, &lease, &hit));
    assert_int_equal(hit.cached_tokens, 4);
    icp_cache_close(cache);
}

static void extras_decide_at_their_offset_what_is_alike(void **state)
{
    (void)state;
    icp_cache *cache = open_small(32, ICP_TAIL_OFF);
    world_text text;
    world_letters(&text, "aaaaaaaaa");
    const icp_extra images[][1] = {{{1, 2, "one", 3}}, {{2, 2, "one", 3}}, {{1, 3, "one", 3}}, {{1, 2, "two", 3}},
                                   {{1, 2, "on", 2}},  {{5, 1, "one", 3}}, {{3, 9, "one", 3}}, {{8, 1, "one", 3}}};
    const uint32_t expected[] = {0, 0, 0, 0, 0, 0, 0, 4};
    for (size_t i = 0; i < sizeof(images) / sizeof(images[0]); i++) {
        icp_request request = {.text = {text.tokens, 9, images[i], 1}};
        icp_lease lease = 0;
        icp_hit hit;
        DO(cache, icp_cache_match(cache, &request, &lease, &hit));
        assert_int_equal(hit.cached_tokens, expected[i]);
        DO(cache, icp_lease_extend(cache, lease, 9));
        DO(cache, icp_lease_publish(cache, lease, &request.text));
        DO(cache, icp_lease_release(cache, lease));
        DO(cache, icp_cache_match(cache, &request, &lease, &hit));
        assert_int_equal(hit.cached_tokens, 8);
        DO(cache, icp_lease_release(cache, lease));
    }
    icp_cache_close(cache);
}

/* ---- Duplicates ---------------------------------------------------------------------------------------------- */

static icp_cache *open_duplicates(icp_duplicates duplicates)
{
    icp_cache_options options = world_options(8, 4);
    options.duplicates = duplicates;
    return world_open(&options);
}

static void the_last_block_of_a_fully_cached_prompt_is_kept_beside_the_first_one(void **state)
{
    (void)state;
    icp_cache *cache = open_duplicates(ICP_DUPLICATES_KEEP);
    icp_lease one = world_run(cache, 0, "aaaabbbb");
    icp_lease two = world_run(cache, 0, "aaaabbbb");
    world_assert_table(cache, one, 0, "0 1");
    world_assert_table(cache, two, 0, "0 2");
    assert_int_equal(world_state(cache, 0, 2), ICP_BLOCK_DUPLICATE);
    assert_int_equal(world_stats(cache).duplicate_count, 1);
    DO(cache, icp_lease_release(cache, one));
    DO(cache, icp_lease_release(cache, two));
    assert_int_equal(world_cached(cache, 0, "aaaabbbbc"), 8);

    /* Where nobody holds the first one, the new one stands for the text and the old one is spare. */
    icp_lease three = world_run(cache, 0, "aaaabbbb");
    world_assert_table(cache, three, 0, "0 3");
    assert_int_equal(world_state(cache, 0, 3), ICP_BLOCK_LEASED);
    assert_int_equal(world_state(cache, 0, 2), ICP_BLOCK_SPARE);
    assert_int_equal(world_stats(cache).duplicate_count, 2);
    assert_int_equal(world_stats(cache).block_count_cached, 0);
    icp_cache_close(cache);
}

static void the_last_block_of_a_fully_cached_prompt_is_adopted(void **state)
{
    (void)state;
    icp_cache *cache = open_duplicates(ICP_DUPLICATES_ADOPT);
    icp_lease one = world_run(cache, 0, "aaaabbbb");
    icp_lease two = world_run(cache, 0, "aaaabbbb");
    world_assert_table(cache, two, 0, "0 1");
    assert_int_equal(world_state(cache, 0, 1), ICP_BLOCK_SHARED);
    assert_int_equal(world_state(cache, 0, 2), ICP_BLOCK_SPARE);
    DO(cache, icp_lease_release(cache, one));
    DO(cache, icp_lease_release(cache, two));
    icp_lease three = world_run(cache, 0, "aaaabbbb");
    world_assert_table(cache, three, 0, "0 1");
    assert_int_equal(world_stats(cache).duplicate_count, 2);
    assert_int_equal(world_stats(cache).stored_count, 2);
    icp_cache_close(cache);
}

/* ---- A failed step ------------------------------------------------------------------------------------------- */

static void what_a_failed_step_published_can_no_longer_be_found(void **state)
{
    (void)state;
    icp_cache *cache = open_small(8, ICP_TAIL_OFF);
    icp_lease one = world_run(cache, 0, "aaaabbbbcccc");
    icp_lease two = world_match(cache, 0, "aaaabbbbccccd", 0, NULL);
    world_assert_table(cache, two, 0, "0 1 2");

    DO(cache, icp_lease_unpublish(cache, one, 7)); /* rounded down to one block */
    assert_int_equal(world_cached(cache, 0, "aaaabbbbccccd"), 4);
    world_assert_table(cache, one, 0, "0 1 2");
    world_assert_table(cache, two, 0, "0 1 2");
    assert_int_equal(inspect(cache, one).published_tokens, 4);
    assert_int_equal(inspect(cache, two).published_tokens, 4);
    assert_int_equal(inspect(cache, two).token_count, 12);
    assert_int_equal(world_state(cache, 0, 0), ICP_BLOCK_SHARED);
    assert_int_equal(world_state(cache, 0, 1), ICP_BLOCK_PRIVATE);

    DO(cache, icp_lease_truncate(cache, one, 4));
    DO(cache, icp_lease_truncate(cache, two, 4));
    world_publish(cache, one, "aaaabbbbcccc");
    assert_int_equal(world_cached(cache, 0, "aaaabbbbccccd"), 12);
    DO(cache, icp_lease_release(cache, one));
    DO(cache, icp_lease_release(cache, two));
    assert_int_equal(world_stats(cache).block_count_cached, 3);
    icp_cache_close(cache);
}

static void a_block_of_a_failed_step_is_published_again_once_one_lease_holds_it(void **state)
{
    (void)state;
    icp_cache *cache = open_small(8, ICP_TAIL_OFF);
    icp_lease one = world_run(cache, 0, "aaaabbbbcccc");
    icp_lease two = world_match(cache, 0, "aaaabbbbccccd", 0, NULL);
    DO(cache, icp_lease_unpublish(cache, one, 0));
    world_publish(cache, two, "aaaaXXXX");
    world_publish(cache, one, "aaaabbbbcccc");
    assert_int_equal(world_stats(cache).node_count, 0);
    assert_true(world_stats(cache).refused_count > 0);

    DO(cache, icp_lease_release(cache, two));
    world_publish(cache, one, "aaaabbbbcccc");
    assert_int_equal(world_cached(cache, 0, "aaaabbbbccccd"), 12);
    world_assert_table(cache, one, 0, "0 1 2");
    icp_cache_close(cache);
}

static void a_lease_of_a_failed_step_never_writes_a_block_that_can_be_found(void **state)
{
    (void)state;
    icp_cache *cache = open_small(8, ICP_TAIL_OFF);
    icp_lease one = world_run(cache, 0, "aaaabbbb");
    icp_lease two = world_match(cache, 0, "aaaabbbbc", 0, NULL);
    DO(cache, icp_lease_unpublish(cache, one, 0));
    DO(cache, icp_lease_unpublish(cache, two, 0));
    world_publish(cache, two, "aaaabbbb");
    DO(cache, icp_lease_release(cache, two));
    DO(cache, icp_lease_truncate(cache, one, 6));
    assert_int_equal(world_stats(cache).block_count_private, 2);
    icp_cache_close(cache);
}

static void what_is_cached_below_a_failed_step_is_gone_too(void **state)
{
    (void)state;
    icp_cache *cache = open_small(8, ICP_TAIL_OFF);
    icp_lease one = world_run(cache, 0, "aaaabbbb");
    world_cache_text(cache, 0, "aaaabbbbXXXX");
    icp_lease two = world_run(cache, 0, "aaaabbbbYYYYZZZZ");
    DO(cache, icp_lease_unpublish(cache, one, 4));
    assert_int_equal(world_cached(cache, 0, "aaaabbbbXXXXc"), 4);
    assert_int_equal(world_cached(cache, 0, "aaaabbbbYYYYZZZZc"), 4);
    world_assert_table(cache, two, 0, "0 1 3 4");
    assert_int_equal(inspect(cache, two).published_tokens, 4);
    assert_int_equal(world_stats(cache).node_count, 1);
    icp_cache_close(cache);
}

static void what_a_lease_found_is_not_taken_back(void **state)
{
    (void)state;
    icp_cache *cache = open_small(8, ICP_TAIL_OFF);
    world_cache_text(cache, 0, "aaaabbbb");
    icp_lease lease = world_run(cache, 0, "aaaabbbbcccc");
    DO(cache, icp_lease_unpublish(cache, lease, 0));
    assert_int_equal(world_cached(cache, 0, "aaaabbbbccccd"), 8);
    assert_int_equal(inspect(cache, lease).published_tokens, 8);
    DO(cache, icp_lease_release(cache, lease));
    assert_int_equal(world_stats(cache).block_count_cached, 2);
    icp_cache_close(cache);
}

/* ---- Truncate ------------------------------------------------------------------------------------------------ */

static void a_lease_truncated_inside_a_private_block_keeps_it(void **state)
{
    (void)state;
    icp_cache *cache = open_small(8, ICP_TAIL_OFF);
    icp_lease lease = world_run(cache, 0, "aaaabbb");
    DO(cache, icp_lease_truncate(cache, lease, 5));
    world_assert_table(cache, lease, 0, "0 1");
    assert_int_equal(inspect(cache, lease).token_count, 5);
    assert_copy(cache, lease, 0, 0, 0);
    icp_cache_close(cache);
}

static void a_lease_truncated_inside_a_published_block_gets_a_private_one_to_copy_to(void **state)
{
    (void)state;
    icp_cache *cache = open_small(8, ICP_TAIL_OFF);
    icp_lease lease = world_run(cache, 0, "aaaabbbbcc");
    DO(cache, icp_lease_truncate(cache, lease, 6));
    world_assert_table(cache, lease, 0, "0 3");
    assert_copy(cache, lease, 1, 3, 2);
    assert_int_equal(world_state(cache, 0, 1), ICP_BLOCK_LEASED);
    assert_int_equal(world_state(cache, 0, 2), ICP_BLOCK_SPARE);
    assert_int_equal(world_state(cache, 0, 3), ICP_BLOCK_PRIVATE);
    assert_int_equal(inspect(cache, lease).published_tokens, 4);
    assert_int_equal(world_cached(cache, 0, "aaaabbbbc"), 8); /* what was published stays cached */

    DO(cache, icp_cache_tick(cache, 1));
    world_publish(cache, lease, "aaaabbYY");
    assert_int_equal(world_state(cache, 0, 1), ICP_BLOCK_CACHED);
    assert_copy(cache, lease, 0, 0, 0);
    assert_int_equal(world_cached(cache, 0, "aaaabbbbc"), 8);
    assert_int_equal(world_cached(cache, 0, "aaaabbYYc"), 8);
    icp_cache_close(cache);
}

static void a_lease_truncated_to_a_block_boundary_or_to_nothing_needs_no_copy(void **state)
{
    (void)state;
    icp_cache *cache = open_small(8, ICP_TAIL_OFF);
    icp_lease lease = world_run(cache, 0, "aaaabbbbcc");
    DO(cache, icp_lease_truncate(cache, lease, 4));
    world_assert_table(cache, lease, 0, "0");
    assert_copy(cache, lease, 0, 0, 0);
    assert_int_equal(world_state(cache, 0, 1), ICP_BLOCK_CACHED);
    DO(cache, icp_lease_truncate(cache, lease, 0));
    world_assert_table(cache, lease, 0, "");
    assert_copy(cache, lease, 0, 0, 0);
    assert_int_equal(inspect(cache, lease).token_count, 0);
    assert_int_equal(world_cached(cache, 0, "aaaabbbbc"), 8);
    world_publish(cache, lease, "XXXXY");
    assert_int_equal(world_cached(cache, 0, "XXXXY"), 4);
    icp_cache_close(cache);
}

static void truncate_shortens_a_tail_that_waits_for_its_extend(void **state)
{
    (void)state;
    icp_cache *cache = open_small(8, 1);
    world_cache_text(cache, 0, "aaaabbbb");
    DO(cache, icp_cache_tick(cache, 1));
    icp_lease lease = world_match(cache, 0, "aaaabbbX", 0, NULL);
    DO(cache, icp_lease_truncate(cache, lease, 6));
    DO(cache, icp_lease_extend(cache, lease, 8));
    assert_copy(cache, lease, 1, 2, 2);
    DO(cache, icp_lease_release(cache, lease));

    lease = world_match(cache, 0, "aaaabbbX", 0, NULL);
    DO(cache, icp_lease_truncate(cache, lease, 4));
    assert_int_equal(world_state(cache, 0, 1), ICP_BLOCK_CACHED);
    DO(cache, icp_lease_extend(cache, lease, 8));
    assert_copy(cache, lease, 0, 0, 0);
    icp_cache_close(cache);
}

static void truncate_to_what_is_there_or_more_changes_nothing(void **state)
{
    (void)state;
    icp_cache *cache = open_small(8, 1);
    icp_lease lease = world_run(cache, 0, "aaaabbb");
    sight before = look(cache, lease);
    DO(cache, icp_lease_truncate(cache, lease, 7));
    DO(cache, icp_lease_truncate(cache, lease, 1000000));
    sight after = look(cache, lease);
    assert_same_sight(&before, &after);

    world_cache_text(cache, 0, "xxxxyyyy");
    DO(cache, icp_cache_tick(cache, 1));
    lease = world_match(cache, 0, "xxxxyyZZ", 0, NULL);
    before = look(cache, lease);
    DO(cache, icp_lease_truncate(cache, lease, 6));
    DO(cache, icp_lease_truncate(cache, lease, 7));
    after = look(cache, lease);
    assert_same_sight(&before, &after);
    DO(cache, icp_lease_extend(cache, lease, 8));
    icp_copy copy;
    DO(cache, icp_lease_tail(cache, lease, 0, &copy));
    assert_int_equal(copy.positions, 2);
    icp_cache_close(cache);
}

static void truncate_without_a_private_block_to_be_had_changes_nothing(void **state)
{
    (void)state;
    icp_cache *cache = open_small(3, ICP_TAIL_OFF);
    icp_lease lease = world_run(cache, 0, "aaaabbbb");
    icp_lease other = world_run(cache, 0, "x");
    sight before = look(cache, lease);
    REFUSED(cache, ICP_FULL, icp_lease_truncate(cache, lease, 6));
    sight after = look(cache, lease);
    after.stats.full_count = before.stats.full_count;
    assert_same_sight(&before, &after);
    DO(cache, icp_lease_truncate(cache, lease, 4));
    DO(cache, icp_lease_release(cache, other));
    DO(cache, icp_lease_truncate(cache, lease, 2));
    assert_copy(cache, lease, 0, 1, 2);
    icp_cache_close(cache);
}

static void a_lease_truncated_inside_a_block_that_another_holds_gets_its_own(void **state)
{
    (void)state;
    icp_cache *cache = open_small(8, ICP_TAIL_OFF);
    icp_lease one = world_run(cache, 0, "aaaabbbb");
    icp_lease two = world_match(cache, 0, "aaaabbbbc", 0, NULL);
    DO(cache, icp_lease_unpublish(cache, one, 0));
    DO(cache, icp_lease_truncate(cache, two, 6));
    world_assert_table(cache, one, 0, "0 1");
    world_assert_table(cache, two, 0, "0 2");
    assert_copy(cache, two, 1, 2, 2);
    DO(cache, icp_lease_truncate(cache, one, 7)); /* the copy may still be to come */
    world_assert_table(cache, one, 0, "0 3");
    icp_cache_close(cache);
}

/* ---- Tails --------------------------------------------------------------------------------------------------- */

/* Three blocks: 0 and 1 are "aaaabbbb"; the lease shares 0, and two tokens of 1 go to 2. Nothing is left. */
static icp_cache *open_tight(icp_lease *lease)
{
    icp_cache *cache = open_small(3, 1);
    icp_copy copy;
    world_cache_text(cache, 0, "aaaabbbb");
    DO(cache, icp_cache_tick(cache, 1));
    *lease = world_match(cache, 0, "aaaabbX", 0, NULL);
    REFUSED(cache, ICP_NOT_FOUND, icp_lease_tail(cache, *lease, 0, &copy));
    DO(cache, icp_lease_extend(cache, *lease, 7));
    assert_copy(cache, *lease, 1, 2, 2);
    return cache;
}

static void assert_one_block_left(icp_cache *cache, bool is_left)
{
    icp_lease lease = world_match(cache, 0, "z", 0, NULL);
    if (is_left)
        DO(cache, icp_lease_extend(cache, lease, 1));
    else
        REFUSED(cache, ICP_FULL, icp_lease_extend(cache, lease, 1));
    DO(cache, icp_lease_release(cache, lease));
}

static void the_source_of_a_tail_is_held_through_the_step(void **state)
{
    (void)state;
    icp_lease lease;
    icp_cache *cache = open_tight(&lease);
    assert_one_block_left(cache, false);
    DO(cache, icp_lease_extend(cache, lease, 8));
    world_publish(cache, lease, "aaaabbX");
    DO(cache, icp_lease_truncate(cache, lease, 8));
    assert_copy(cache, lease, 1, 2, 2);
    assert_one_block_left(cache, false);
    DO(cache, icp_cache_tick(cache, 2));
    assert_one_block_left(cache, false); /* until the lease itself is extended, published or truncated */
    icp_cache_close(cache);
}

static void the_source_of_a_tail_is_let_go_in_a_later_tick(void **state)
{
    (void)state;
    for (int way = 0; way < 4; way++) {
        icp_lease lease;
        icp_cache *cache = open_tight(&lease);
        world_text text;
        world_letters(&text, "aaaabbX");
        DO(cache, icp_cache_tick(cache, 2));
        if (way == 0) DO(cache, icp_lease_extend(cache, lease, 8));
        if (way == 1) DO(cache, icp_lease_publish(cache, lease, &text.text));
        if (way == 2) DO(cache, icp_lease_truncate(cache, lease, 7));
        if (way == 3) DO(cache, icp_lease_release(cache, lease));
        if (way != 3) assert_copy(cache, lease, 0, 0, 0);
        assert_int_equal(world_state(cache, 0, 1), ICP_BLOCK_CACHED);
        assert_one_block_left(cache, true);
        icp_cache_close(cache);
    }
}

/* A root block with many children of few different tokens; the brute force knows them all. */
#define CHILD_COUNT 3000u
#define CHILD_TOKENS 16u

typedef struct crowd {
    uint32_t tokens[CHILD_COUNT][2 * CHILD_TOKENS]; /* the root, then the child */
    uint64_t seed;
} crowd;

static void crowd_draw(crowd *all, uint32_t child)
{
    for (uint32_t i = 0; i < CHILD_TOKENS; i++) {
        all->tokens[child][i] = i;
        all->tokens[child][CHILD_TOKENS + i] = world_random(&all->seed) % 3;
    }
}

static void crowd_publish(crowd *all, icp_cache *cache, uint32_t from, uint32_t to)
{
    for (uint32_t i = from; i < to; i++) {
        crowd_draw(all, i);
        icp_request request = {.text = {all->tokens[i], 2 * CHILD_TOKENS, NULL, 0}};
        icp_lease lease = 0;
        assert_int_equal(icp_cache_match(cache, &request, &lease, NULL), ICP_OK);
        assert_int_equal(icp_lease_extend(cache, lease, 2 * CHILD_TOKENS), ICP_OK);
        assert_int_equal(icp_lease_publish(cache, lease, &request.text), ICP_OK);
        assert_int_equal(icp_lease_release(cache, lease), ICP_OK);
    }
    world_check(cache);
}

/* The longest prefix, short of the last token, that the text shares with one of the first children. */
static uint32_t crowd_best(const crowd *all, const uint32_t *text, uint32_t child_count)
{
    uint32_t best = 0;
    for (uint32_t child = 0; child < child_count; child++) {
        uint32_t shared = 0;
        while (shared < 2 * CHILD_TOKENS - 1 && all->tokens[child][shared] == text[shared]) shared++;
        if (shared > best) best = shared;
    }
    return best;
}

static void crowd_ask(icp_cache *cache, const crowd *all, uint32_t child_count, uint64_t seed)
{
    for (uint32_t i = 0; i < 500; i++) {
        uint32_t text[2 * CHILD_TOKENS];
        for (uint32_t t = 0; t < CHILD_TOKENS; t++) text[t] = t;
        for (uint32_t t = CHILD_TOKENS; t < 2 * CHILD_TOKENS; t++) text[t] = world_random(&seed) % 3;
        icp_request request = {.text = {text, 2 * CHILD_TOKENS, NULL, 0}};
        icp_lease lease = 0;
        icp_hit hit;
        assert_int_equal(icp_cache_match(cache, &request, &lease, &hit), ICP_OK);
        assert_int_equal(hit.cached_tokens, crowd_best(all, text, child_count));
        assert_int_equal(icp_lease_release(cache, lease), ICP_OK);
    }
}

static icp_cache *crowd_open(void)
{
    icp_cache_options options = world_options(CHILD_COUNT + 8, CHILD_TOKENS);
    options.tail_tokens_min = 1;
    options.lease_tokens_max = 64;
    return world_open(&options);
}

static void the_best_tail_is_found_among_thousands_of_children(void **state)
{
    (void)state;
    static crowd all = {.seed = 20};
    icp_cache *cache = crowd_open();
    print_message("seed %d\n", (int)all.seed);
    crowd_publish(&all, cache, 0, CHILD_COUNT);
    DO(cache, icp_cache_tick(cache, 1));
    crowd_ask(cache, &all, CHILD_COUNT, 21);
    icp_cache_close(cache);
}

static void the_best_computed_tail_is_found_though_this_step_published_closer_ones(void **state)
{
    (void)state;
    static crowd all = {.seed = 22};
    icp_cache *cache = crowd_open();
    print_message("seed %d\n", (int)all.seed);
    crowd_publish(&all, cache, 0, CHILD_COUNT / 2);
    DO(cache, icp_cache_tick(cache, 1));
    crowd_publish(&all, cache, CHILD_COUNT / 2, CHILD_COUNT);
    crowd_ask(cache, &all, CHILD_COUNT / 2, 23);
    icp_cache_close(cache);
}

/* The pin holds one lease's blocks; when it ends, another's duplicates take over in the middle of the taking back. */
static void a_step_taken_back_that_ends_a_pin_leaves_the_cache_sound(void **state)
{
    (void)state;
    icp_cache_options options = world_options(16, 4);
    icp_cache *cache = world_open(&options);
    icp_lease first = world_run(cache, 0, "abcdefghi");
    icp_lease second = world_match(cache, 0, "abcdefghijklm", ICP_NO_READ, NULL);
    world_publish(cache, second, "abcdefghijklm");
    world_text text;
    icp_pin pin;
    world_letters(&text, "abcdefghijklm");
    DO(cache, icp_cache_pin(cache, &(icp_request){.text = text.text}, 9, &pin, NULL));
    DO(cache, icp_lease_release(cache, first));
    DO(cache, icp_lease_unpublish(cache, second, 0));
    assert_int_equal(world_stats(cache).node_count, 0);
    assert_int_equal(world_stats(cache).pin_count, 0);
    icp_cache_close(cache);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_text_of_whole_blocks_leaves_its_last_block_to_compute),
        cmocka_unit_test(with_tails_only_the_last_token_is_left_to_compute),
        cmocka_unit_test(a_second_match_in_the_same_step_shares_whole_blocks_but_takes_no_tail),
        cmocka_unit_test(a_tail_shorter_than_the_minimum_is_not_taken),
        cmocka_unit_test(flags_of_a_request_keep_it_from_reading_storing_and_counting),
        cmocka_unit_test(one_lease_too_many_is_refused),
        cmocka_unit_test(a_text_longer_than_a_lease_may_be_is_refused),
        cmocka_unit_test(an_extend_that_finds_no_room_changes_nothing),
        cmocka_unit_test(an_extend_to_what_is_there_already_changes_nothing),
        cmocka_unit_test(a_table_shows_later_changes_where_it_is),
        cmocka_unit_test(inspect_tells_the_scope_and_the_sizes_of_a_lease),
        cmocka_unit_test(released_blocks_stay_findable_until_their_turn_comes),
        cmocka_unit_test(a_released_lease_is_stale_in_every_call),
        cmocka_unit_test(a_null_where_none_may_be_is_a_bad_argument),
        cmocka_unit_test(a_text_that_makes_no_sense_is_a_bad_argument),
        cmocka_unit_test(time_never_goes_back),
        cmocka_unit_test(publish_reads_only_what_is_not_published_yet),
        cmocka_unit_test(publish_stops_where_the_table_of_extras_is_full),
        cmocka_unit_test(extras_decide_at_their_offset_what_is_alike),
        cmocka_unit_test(the_last_block_of_a_fully_cached_prompt_is_kept_beside_the_first_one),
        cmocka_unit_test(the_last_block_of_a_fully_cached_prompt_is_adopted),
        cmocka_unit_test(what_a_failed_step_published_can_no_longer_be_found),
        cmocka_unit_test(a_block_of_a_failed_step_is_published_again_once_one_lease_holds_it),
        cmocka_unit_test(a_lease_of_a_failed_step_never_writes_a_block_that_can_be_found),
        cmocka_unit_test(what_is_cached_below_a_failed_step_is_gone_too),
        cmocka_unit_test(what_a_lease_found_is_not_taken_back),
        cmocka_unit_test(a_lease_truncated_inside_a_private_block_keeps_it),
        cmocka_unit_test(a_lease_truncated_inside_a_published_block_gets_a_private_one_to_copy_to),
        cmocka_unit_test(a_lease_truncated_to_a_block_boundary_or_to_nothing_needs_no_copy),
        cmocka_unit_test(truncate_shortens_a_tail_that_waits_for_its_extend),
        cmocka_unit_test(truncate_to_what_is_there_or_more_changes_nothing),
        cmocka_unit_test(truncate_without_a_private_block_to_be_had_changes_nothing),
        cmocka_unit_test(a_lease_truncated_inside_a_block_that_another_holds_gets_its_own),
        cmocka_unit_test(the_source_of_a_tail_is_held_through_the_step),
        cmocka_unit_test(the_source_of_a_tail_is_let_go_in_a_later_tick),
        cmocka_unit_test(the_best_tail_is_found_among_thousands_of_children),
        cmocka_unit_test(the_best_computed_tail_is_found_though_this_step_published_closer_ones),
        cmocka_unit_test(a_step_taken_back_that_ends_a_pin_leaves_the_cache_sound),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
