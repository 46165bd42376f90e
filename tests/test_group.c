/* test_group.c - groups of layers: windows, states, several full groups, pools shared and of their own. */
#include "world.h"

#include <stdio.h>
#include <string.h>

static icp_cache *open_groups(const icp_group *groups, uint32_t group_count, uint32_t block_count)
{
    icp_cache_options options = world_options(block_count, 4);
    options.groups = groups;
    options.group_count = group_count;
    return world_open(&options);
}

/* A full group of 32 blocks and a window group with blocks of its own. */
static icp_cache *open_window(uint32_t window, uint32_t block_count)
{
    const icp_group groups[] = {{.kind = ICP_GROUP_FULL},
                                {.kind = ICP_GROUP_WINDOW, .window = window, .block_count = block_count}};
    return open_groups(groups, 2, 32);
}

static icp_cache *open_state(uint32_t block_count)
{
    const icp_group groups[] = {{.kind = ICP_GROUP_FULL}, {.kind = ICP_GROUP_STATE, .block_count = block_count}};
    return open_groups(groups, 2, 32);
}

/* Grows the lease in chunks that end where told, publishing each. */
static icp_lease run_chunks(icp_cache *cache, const char *letters, const uint32_t *ends, size_t count)
{
    icp_lease lease = world_match(cache, 0, letters, 0, NULL);
    for (size_t i = 0; i < count; i++) {
        char chunk[256];
        snprintf(chunk, sizeof(chunk), "%.*s", (int)ends[i], letters);
        world_publish(cache, lease, chunk);
    }
    return lease;
}

/* ---- Windows ------------------------------------------------------------------------------------------------- */

static void a_window_needs_the_blocks_that_the_next_token_sees(void **state)
{
    (void)state;
    const struct {
        uint32_t window;
        const char *table; /* of the window group, after a hit of six blocks */
    } cases[] = {{2, "- - - - - 5"},  {3, "- - - - - 5"},   {4, "- - - - - 5"},  {5, "- - - - - 5"},
                 {6, "- - - - 4 5"},  {8, "- - - - 4 5"},   {9, "- - - - 4 5"},  {10, "- - - 3 4 5"},
                 {13, "- - - 3 4 5"}, {14, "- - 2 3 4 5"},  {21, "- 1 2 3 4 5"}, {22, "0 1 2 3 4 5"},
                 {25, "0 1 2 3 4 5"}, {1000, "0 1 2 3 4 5"}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        icp_cache *cache = open_window(cases[i].window, 8);
        world_cache_text(cache, 0, "aaaabbbbccccddddeeeeffff");
        icp_hit hit;
        icp_lease lease = world_match(cache, 0, "aaaabbbbccccddddeeeeffffg", 0, &hit);
        assert_int_equal(hit.cached_tokens, 24);
        world_assert_table(cache, lease, 0, "0 1 2 3 4 5");
        world_assert_table(cache, lease, 1, cases[i].table);

        /* These are enough: all the others are taken away, and the hit is the same. */
        size_t left = 0;
        assert_int_equal(icp_cache_queue(cache, 1, NULL, 0, &left), ICP_OK);
        uint32_t tokens = (uint32_t)left * 4;
        DO(cache, icp_lease_release(cache, world_hold(cache, 0, tokens)));
        DO(cache, icp_lease_release(cache, lease));
        assert_int_equal(world_cached(cache, 0, "aaaabbbbccccddddeeeeffffg"), 24);
        icp_cache_close(cache);
    }
}

static void a_prefix_that_reaches_the_start_needs_no_more_than_it_has(void **state)
{
    (void)state;
    icp_cache *cache = open_window(14, 8); /* needs four blocks */
    world_cache_text(cache, 0, "aaaabbbb");
    assert_int_equal(world_cached(cache, 0, "aaaabbbbc"), 8);
    assert_int_equal(world_cached(cache, 0, "aaaac"), 4);
    icp_cache_close(cache);
}

static void blocks_behind_the_window_are_given_back_and_stay_findable(void **state)
{
    (void)state;
    icp_cache *cache = open_window(6, 5);
    const uint32_t ends[] = {12};
    icp_lease lease = run_chunks(cache, "aaaabbbbcccc", ends, 1);
    world_assert_table(cache, lease, 1, "0 1 2");
    world_publish(cache, lease, "aaaabbbbccccd"); /* position 12 sees 7 to 12 */
    world_assert_table(cache, lease, 0, "0 1 2 3");
    world_assert_table(cache, lease, 1, "- 1 2 3");
    world_assert_queue(cache, 1, "4 0");
    assert_int_equal(world_state(cache, 1, 0), ICP_BLOCK_CACHED);
    assert_int_equal(world_cached(cache, 0, "aaaaX"), 4);
    world_publish(cache, lease, "aaaabbbbccccdd"); /* position 13 sees 8 to 13 */
    world_assert_table(cache, lease, 1, "- - 2 3");
    world_assert_queue(cache, 1, "4 0 1");
    assert_int_equal(world_cached(cache, 0, "aaaabbbbX"), 8);
    icp_cache_close(cache);
}

/* Each decode step needs a place in the window only: four blocks carry a text of any length. */
static void a_small_window_pool_carries_a_long_text(void **state)
{
    (void)state;
    icp_cache *cache = open_window(6, 3);
    char letters[101];
    icp_lease lease = world_match(cache, 0, "a", 0, NULL);
    memset(letters, 0, sizeof(letters));
    for (int i = 0; i < 100; i++) {
        letters[i] = (char)('a' + i % 26);
        world_publish(cache, lease, letters);
    }
    DO(cache, icp_lease_release(cache, lease));
    assert_int_equal(world_stats(cache).node_count, 25);
    icp_cache_close(cache);
}

static void window_blocks_are_evicted_from_inner_nodes_on_their_own(void **state)
{
    (void)state;
    icp_cache *cache = open_window(6, 6);
    const uint32_t ends[] = {12, 16, 20};
    DO(cache, icp_lease_release(cache, run_chunks(cache, "aaaabbbbccccddddeeee", ends, 3)));
    world_assert_queue(cache, 1, "5 0 1 4 3 2");
    icp_lease taker = world_hold(cache, 0, 12); /* the spare one and two of the start of the text */
    assert_int_equal(world_stats(cache).node_count, 5);
    assert_int_equal(world_state(cache, 0, 0), ICP_BLOCK_CACHED);
    assert_int_equal(world_state(cache, 1, 0), ICP_BLOCK_PRIVATE);
    assert_int_equal(world_state(cache, 1, 1), ICP_BLOCK_PRIVATE);
    assert_int_equal(world_cached(cache, 0, "aaaabbbbccccddddeeeef"), 20);
    assert_int_equal(world_cached(cache, 0, "aaaabbbbccccddddX"), 16);
    icp_explanation why = world_explain(cache, 0, "aaaabbbbccccX", 0); /* would need 1 and 2 */
    assert_int_equal(why.hit.cached_tokens, 0);
    assert_int_equal(why.why, ICP_WHY_GROUP);
    assert_int_equal(why.group, 1);
    assert_int_equal(why.text_tokens, 12);
    DO(cache, icp_lease_release(cache, taker));

    /* Computing the text again puts the missing blocks back under the nodes that are there. */
    world_cache_text(cache, 0, "aaaabbbbccccX");
    assert_int_equal(world_stats(cache).node_count, 5);
    assert_int_equal(world_cached(cache, 0, "aaaabbbbccccX"), 12);
    icp_cache_close(cache);
}

static void a_tail_is_copied_in_every_group(void **state)
{
    (void)state;
    const icp_group groups[] = {{.kind = ICP_GROUP_FULL}, {.kind = ICP_GROUP_WINDOW, .window = 6, .block_count = 8}};
    icp_cache_options options = world_options(16, 4);
    options.groups = groups;
    options.group_count = 2;
    options.tail_tokens_min = 1;
    icp_cache *cache = world_open(&options);
    world_cache_text(cache, 0, "aaaabbbb");
    DO(cache, icp_cache_tick(cache, 1));
    icp_hit hit;
    icp_lease lease = world_match(cache, 0, "aaaabbX", 0, &hit);
    assert_int_equal(hit.cached_tokens, 6);
    DO(cache, icp_lease_extend(cache, lease, 7));
    for (uint32_t group = 0; group < 2; group++) {
        icp_copy copy;
        DO(cache, icp_lease_tail(cache, lease, group, &copy));
        assert_int_equal(copy.from, 1);
        assert_int_equal(copy.to, 2);
        assert_int_equal(copy.positions, 2);
    }
    icp_cache_close(cache);
}

static void truncate_past_what_a_window_gave_back_is_not_found(void **state)
{
    (void)state;
    icp_cache *cache = open_window(6, 8);
    const uint32_t ends[] = {16, 17, 18};
    icp_lease lease = run_chunks(cache, "aaaabbbbccccddddee", ends, 3);
    world_assert_table(cache, lease, 1, "- - - 3 4");
    REFUSED(cache, ICP_NOT_FOUND, icp_lease_truncate(cache, lease, 16)); /* sees 11 */
    REFUSED(cache, ICP_NOT_FOUND, icp_lease_truncate(cache, lease, 4));
    world_assert_table(cache, lease, 0, "0 1 2 3 4");
    world_assert_table(cache, lease, 1, "- - - 3 4");
    DO(cache, icp_lease_truncate(cache, lease, 17)); /* sees 12 */
    world_assert_table(cache, lease, 1, "- - - 3 4");
    DO(cache, icp_lease_truncate(cache, lease, 0)); /* a start needs nothing */
    world_assert_table(cache, lease, 1, "");
    icp_cache_close(cache);
}

/* ---- States -------------------------------------------------------------------------------------------------- */

static void a_state_is_kept_for_the_end_of_each_chunk_alone(void **state)
{
    (void)state;
    icp_cache *cache = open_state(8);
    const uint32_t ends[] = {8, 16};
    icp_lease lease = run_chunks(cache, "aaaabbbbccccdddd", ends, 1);
    world_assert_table(cache, lease, 0, "0 1");
    world_assert_table(cache, lease, 1, "- 0");
    world_publish(cache, lease, "aaaabbbbccccdddd");
    world_assert_table(cache, lease, 1, "- 0 - 1"); /* 8 is computed from the block before it */
    world_publish(cache, lease, "aaaabbbbccccdddde");
    world_assert_table(cache, lease, 1, "- - - 1 2");
    assert_int_equal(world_cached(cache, 0, "aaaabbbbccccddddX"), 16);
    assert_int_equal(world_cached(cache, 0, "aaaabbbbccccX"), 8);
    assert_int_equal(world_cached(cache, 0, "aaaabbbbX"), 8);
    assert_int_equal(world_cached(cache, 0, "aaaaX"), 0);
    icp_lease hit = world_match(cache, 0, "aaaabbbbccccX", 0, NULL);
    world_assert_table(cache, hit, 0, "0 1");
    world_assert_table(cache, hit, 1, "- 0");
    icp_cache_close(cache);
}

static void a_state_left_inside_a_block_is_never_published(void **state)
{
    (void)state;
    icp_cache *cache = open_state(8);
    const uint32_t ends[] = {6, 12};
    icp_lease lease = run_chunks(cache, "aaaabbbbcccc", ends, 2);
    world_assert_table(cache, lease, 1, "- 0 1");
    assert_int_equal(world_state(cache, 1, 0), ICP_BLOCK_PRIVATE);
    assert_int_equal(world_state(cache, 1, 1), ICP_BLOCK_LEASED);
    assert_int_equal(world_cached(cache, 0, "aaaabbbbX"), 0);
    assert_int_equal(world_cached(cache, 0, "aaaabbbbccccX"), 12);
    DO(cache, icp_lease_release(cache, lease));

    const uint32_t within[] = {18, 20}; /* one that moves on to the end of its block is */
    lease = run_chunks(cache, "qqqqrrrrsssstttuuuuu", within, 2);
    assert_int_equal(world_cached(cache, 0, "qqqqrrrrsssstttuuuuuX"), 20);
    icp_cache_close(cache);
}

static void a_model_with_states_takes_no_tails(void **state)
{
    (void)state;
    const icp_group groups[] = {{.kind = ICP_GROUP_FULL}, {.kind = ICP_GROUP_STATE}};
    icp_cache_options options = world_options(16, 4);
    options.groups = groups;
    options.group_count = 2;
    options.tail_tokens_min = 1;
    icp_cache *cache = world_open(&options);
    const uint32_t ends[] = {4, 8};
    DO(cache, icp_lease_release(cache, run_chunks(cache, "aaaabbbb", ends, 2)));
    DO(cache, icp_cache_tick(cache, 1));
    assert_int_equal(world_cached(cache, 0, "aaaabbbX"), 4);
    icp_cache_close(cache);
}

static void truncate_goes_back_to_a_state_that_is_held_only(void **state)
{
    (void)state;
    icp_cache *cache = open_state(8);
    const uint32_t ends[] = {4, 8, 12};
    icp_lease lease = run_chunks(cache, "aaaabbbbcccc", ends, 3);
    world_assert_table(cache, lease, 1, "- 1 2");
    REFUSED(cache, ICP_NOT_FOUND, icp_lease_truncate(cache, lease, 11));
    REFUSED(cache, ICP_NOT_FOUND, icp_lease_truncate(cache, lease, 4));
    world_assert_table(cache, lease, 1, "- 1 2");
    DO(cache, icp_lease_truncate(cache, lease, 8));
    world_assert_table(cache, lease, 0, "0 1");
    world_assert_table(cache, lease, 1, "- 1");
    icp_cache_close(cache);
}

/* ---- Full groups and pools ----------------------------------------------------------------------------------- */

static void full_groups_that_share_a_pool_take_from_it_together(void **state)
{
    (void)state;
    const icp_group groups[] = {{.kind = ICP_GROUP_FULL}, {.kind = ICP_GROUP_FULL}};
    icp_cache *cache = open_groups(groups, 2, 6);
    icp_lease lease = world_run(cache, 0, "aaaabbbb");
    world_assert_table(cache, lease, 0, "0 1");
    world_assert_table(cache, lease, 1, "2 3");
    assert_int_equal(world_stats(cache).block_count, 6);
    icp_lease other = world_match(cache, 0, "xxxxy", 0, NULL);
    REFUSED(cache, ICP_FULL, icp_lease_extend(cache, other, 5));
    DO(cache, icp_lease_extend(cache, other, 4));
    DO(cache, icp_lease_release(cache, other));
    DO(cache, icp_lease_release(cache, lease));

    lease = world_match(cache, 0, "aaaabbbbc", 0, NULL);
    world_assert_table(cache, lease, 0, "0 1");
    world_assert_table(cache, lease, 1, "2 3");
    icp_cache_close(cache);
}

static void full_groups_with_pools_of_their_own_number_their_blocks_from_zero(void **state)
{
    (void)state;
    const icp_group groups[] = {{.kind = ICP_GROUP_FULL}, {.kind = ICP_GROUP_FULL, .block_count = 3}};
    icp_cache *cache = open_groups(groups, 2, 8);
    world_cache_text(cache, 0, "aaaabbbb");
    assert_int_equal(world_stats(cache).block_count, 11);
    world_assert_queue(cache, 0, "2 3 4 5 6 7 1 0");
    world_assert_queue(cache, 1, "2 1 0");

    /* The smaller pool runs out: a node goes with its blocks of every group. */
    icp_lease lease = world_hold(cache, 0, 8);
    assert_int_equal(world_cached(cache, 0, "aaaabbbbc"), 4);
    assert_int_equal(world_state(cache, 0, 1), ICP_BLOCK_SPARE);
    REFUSED(cache, ICP_FULL, icp_lease_extend(cache, lease, 13));
    DO(cache, icp_lease_extend(cache, lease, 12));
    assert_int_equal(world_stats(cache).node_count, 0);
    icp_cache_close(cache);
}

static void groups_of_every_kind_may_share_one_pool(void **state)
{
    (void)state;
    const icp_group groups[] = {
        {.kind = ICP_GROUP_FULL}, {.kind = ICP_GROUP_WINDOW, .window = 6}, {.kind = ICP_GROUP_STATE}};
    icp_cache *cache = open_groups(groups, 3, 16);
    icp_lease lease = world_run(cache, 0, "aaaabbbbcccc");
    world_assert_table(cache, lease, 0, "0 1 2");
    world_assert_table(cache, lease, 1, "3 4 5");
    world_assert_table(cache, lease, 2, "- - 6");
    world_publish(cache, lease, "aaaabbbbccccd");
    world_assert_table(cache, lease, 1, "- 4 5 8");
    world_assert_table(cache, lease, 2, "- - 6 9");
    DO(cache, icp_lease_release(cache, lease));
    lease = world_match(cache, 0, "aaaabbbbccccd", 0, NULL);
    world_assert_table(cache, lease, 0, "0 1 2");
    world_assert_table(cache, lease, 1, "- 4 5");
    world_assert_table(cache, lease, 2, "- - 6");
    icp_cache_close(cache);
}

static void sixteen_groups_work_together(void **state)
{
    (void)state;
    icp_group groups[ICP_GROUP_COUNT_MAX];
    for (uint32_t i = 0; i < ICP_GROUP_COUNT_MAX; i++) {
        groups[i] = (icp_group){.kind = (icp_group_kind)(i % 3), .window = i % 3 == 1 ? 2 + i : 0};
        if (i % 4 == 3) groups[i].block_count = 20;
    }
    icp_cache *cache = open_groups(groups, ICP_GROUP_COUNT_MAX, 200);
    const uint32_t ends[] = {8, 12};
    icp_lease one = run_chunks(cache, "aaaabbbbcccc", ends, 2);
    DO(cache, icp_lease_release(cache, one));
    for (int i = 0; i < 20; i++) {
        char letters[] = "aaaabbbb????";
        char longer[] = "aaaabbbb????d";
        icp_hit hit;
        for (int j = 8; j < 12; j++) letters[j] = longer[j] = (char)('A' + i);
        icp_lease lease = world_match(cache, 0, letters, 0, &hit);
        assert_true(hit.cached_tokens == 8 || i > 4); /* until the pools of 20 turn over */
        world_publish(cache, lease, letters);
        DO(cache, icp_lease_release(cache, lease));
        assert_int_equal(world_cached(cache, 0, longer), 12);
    }
    icp_cache_close(cache);
}

/* ---- Models without a full group ----------------------------------------------------------------------------- */

static void a_model_of_windows_alone_holds_only_its_window(void **state)
{
    (void)state;
    const icp_group groups[] = {{.kind = ICP_GROUP_WINDOW, .window = 6}};
    icp_cache *cache = open_groups(groups, 1, 6);
    const uint32_t ends[] = {12, 16, 20};
    DO(cache, icp_lease_release(cache, run_chunks(cache, "aaaabbbbccccddddeeee", ends, 3)));
    icp_hit hit;
    icp_lease lease = world_match(cache, 0, "aaaabbbbccccddddeeeef", 0, &hit);
    assert_int_equal(hit.cached_tokens, 20);
    world_assert_table(cache, lease, 0, "- - - 3 4");
    icp_lease taker = world_hold(cache, 0, 16);
    assert_int_equal(world_cached(cache, 0, "aaaabbbbccccddddeeeef"), 20);
    assert_int_equal(world_cached(cache, 0, "aaaabbbbX"), 0);
    DO(cache, icp_lease_release(cache, taker));
    DO(cache, icp_lease_release(cache, lease));
    DO(cache, icp_lease_release(cache, world_hold(cache, 0, 24)));
    assert_int_equal(world_stats(cache).node_count, 0);
    icp_cache_close(cache);
}

static void a_model_of_states_alone_needs_one_block(void **state)
{
    (void)state;
    const icp_group groups[] = {{.kind = ICP_GROUP_STATE}};
    icp_cache *cache = open_groups(groups, 1, 4);
    const uint32_t ends[] = {8, 16};
    DO(cache, icp_lease_release(cache, run_chunks(cache, "aaaabbbbccccdddd", ends, 2)));
    icp_hit hit;
    icp_lease lease = world_match(cache, 0, "aaaabbbbccccdddde", 0, &hit);
    assert_int_equal(hit.cached_tokens, 16);
    world_assert_table(cache, lease, 0, "- - - 1");
    assert_int_equal(world_cached(cache, 0, "aaaabbbbX"), 8);
    icp_lease taker = world_hold(cache, 0, 4);
    assert_int_equal(world_cached(cache, 0, "aaaabbbbX"), 8);
    DO(cache, icp_lease_release(cache, taker));
    DO(cache, icp_lease_release(cache, lease));
    icp_cache_close(cache);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_window_needs_the_blocks_that_the_next_token_sees),
        cmocka_unit_test(a_prefix_that_reaches_the_start_needs_no_more_than_it_has),
        cmocka_unit_test(blocks_behind_the_window_are_given_back_and_stay_findable),
        cmocka_unit_test(a_small_window_pool_carries_a_long_text),
        cmocka_unit_test(window_blocks_are_evicted_from_inner_nodes_on_their_own),
        cmocka_unit_test(a_tail_is_copied_in_every_group),
        cmocka_unit_test(truncate_past_what_a_window_gave_back_is_not_found),
        cmocka_unit_test(a_state_is_kept_for_the_end_of_each_chunk_alone),
        cmocka_unit_test(a_state_left_inside_a_block_is_never_published),
        cmocka_unit_test(a_model_with_states_takes_no_tails),
        cmocka_unit_test(truncate_goes_back_to_a_state_that_is_held_only),
        cmocka_unit_test(full_groups_that_share_a_pool_take_from_it_together),
        cmocka_unit_test(full_groups_with_pools_of_their_own_number_their_blocks_from_zero),
        cmocka_unit_test(groups_of_every_kind_may_share_one_pool),
        cmocka_unit_test(sixteen_groups_work_together),
        cmocka_unit_test(a_model_of_windows_alone_holds_only_its_window),
        cmocka_unit_test(a_model_of_states_alone_needs_one_block),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
