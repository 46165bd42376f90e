/* test_stats.c - the numbers: counters, ages, blocks by state, scopes, single blocks, the queue. */
#include "world.h"

#include <stdbool.h>
#include <string.h>

static icp_cache *open_small(uint32_t block_count)
{
    icp_cache_options options = world_options(block_count, 4);
    return world_open(&options);
}

static icp_block_info inspect(const icp_cache *cache, uint32_t block)
{
    icp_block_info info;
    assert_int_equal(icp_block_inspect(cache, 0, block, &info), ICP_OK);
    return info;
}

static icp_scope_stats scope_stats(const icp_cache *cache, icp_scope scope)
{
    icp_scope_stats stats;
    icp_scope_stats_init(&stats);
    assert_int_equal(icp_scope_statistics(cache, scope, &stats), ICP_OK);
    return stats;
}

static void assert_states_add_up(const icp_cache_stats *stats)
{
    assert_int_equal(stats->block_count_spare + stats->block_count_cached + stats->block_count_leased +
                         stats->block_count_shared + stats->block_count_private + stats->block_count_duplicate,
                     stats->block_count);
}

/* ---- Counters ------------------------------------------------------------------------------------------------ */

static void matches_are_counted_in_tokens(void **state)
{
    (void)state;
    icp_cache_options options = world_options(16, 4);
    options.tail_tokens_min = 1;
    icp_cache *cache = world_open(&options);
    world_cache_text(cache, 0, "aaaabbbb");
    DO(cache, icp_cache_tick(cache, 1));
    DO(cache, icp_lease_release(cache, world_match(cache, 0, "aaaabbX", 0, NULL)));
    DO(cache, icp_lease_release(cache, world_match(cache, 0, "aaaabbX", ICP_UNCOUNTED, NULL)));
    DO(cache, icp_lease_release(cache, world_match(cache, 0, "aaaabbX", ICP_NO_READ, NULL)));
    icp_cache_stats stats = world_stats(cache);
    assert_int_equal(stats.match_count, 3);
    assert_int_equal(stats.queried_tokens, 8 + 7 + 7);
    assert_int_equal(stats.hit_tokens, 4);
    assert_int_equal(stats.tail_tokens, 2);
    icp_cache_close(cache);
}

static void blocks_are_counted_as_they_are_taken_stored_duplicated_and_evicted(void **state)
{
    (void)state;
    icp_cache *cache = open_small(4);
    icp_lease one = world_run(cache, 0, "aaaabbbbc");
    icp_lease two = world_run(cache, 0, "aaaabbbb");
    icp_cache_stats stats = world_stats(cache);
    assert_int_equal(stats.taken_count, 4);
    assert_int_equal(stats.stored_count, 2);
    assert_int_equal(stats.duplicate_count, 1);
    assert_int_equal(stats.evicted_count, 0);
    assert_int_equal(icp_lease_extend(cache, two, 9), ICP_FULL);
    assert_int_equal(world_stats(cache).full_count, 1);

    DO(cache, icp_lease_release(cache, one));
    DO(cache, icp_lease_release(cache, two));
    DO(cache, icp_lease_release(cache, world_hold(cache, 0, 16)));
    stats = world_stats(cache);
    assert_int_equal(stats.taken_count, 8);
    assert_int_equal(stats.evicted_count, 2); /* the spare ones were not */
    assert_int_equal(stats.refused_count, 0);
    icp_cache_close(cache);
}

static void a_truncate_that_exchanges_a_block_counts_as_taken(void **state)
{
    (void)state;
    icp_cache *cache = open_small(4);
    icp_lease lease = world_run(cache, 0, "aaaabbbb");
    DO(cache, icp_lease_truncate(cache, lease, 6));
    assert_int_equal(world_stats(cache).taken_count, 3);
    icp_cache_close(cache);
}

static void nodes_leases_scopes_pins_and_extras_are_counted(void **state)
{
    (void)state;
    icp_cache *cache = open_small(16);
    icp_scope alice = world_tenant(cache, "alice");
    uint64_t scope_count = world_stats(cache).scope_count;
    world_text text;
    icp_lease lease = 0;
    icp_pin pin = 0;
    world_letters(&text, "aaaabbbbc");
    const icp_extra image = {3, 2, "cat", 3}; /* over two blocks */
    icp_request request = {.text = {text.tokens, 9, &image, 1}, .scope = alice};
    DO(cache, icp_cache_match(cache, &request, &lease, NULL));
    DO(cache, icp_lease_extend(cache, lease, 9));
    DO(cache, icp_lease_publish(cache, lease, &request.text));
    DO(cache, icp_cache_pin(cache, &request, 9, &pin, NULL));
    icp_cache_stats stats = world_stats(cache);
    assert_int_equal(stats.node_count, 2);
    assert_int_equal(stats.lease_count, 1);
    assert_int_equal(stats.pin_count, 1);
    assert_int_equal(stats.extra_count, 2);
    world_tenant(cache, "bob");
    assert_int_equal(world_stats(cache).scope_count, scope_count + 1);
    DO(cache, icp_cache_unpin(cache, pin));
    DO(cache, icp_lease_release(cache, lease));
    DO(cache, icp_scope_clear(cache, alice));
    stats = world_stats(cache);
    assert_int_equal(stats.node_count + stats.lease_count + stats.pin_count + stats.extra_count, 0);
    icp_cache_close(cache);
}

/* ---- Ages ---------------------------------------------------------------------------------------------------- */

static const struct {
    uint64_t age;
    uint32_t bucket;
} ages[] = {{0, 0},
            {1, 1},
            {2, 2},
            {3, 2},
            {4, 3},
            {7, 3},
            {8, 4},
            {1023, 10},
            {1024, 11},
            {(UINT64_C(1) << 31) - 1, 31},
            {UINT64_C(1) << 31, 32},
            {(UINT64_C(1) << 32) - 1, 32}};

static uint64_t histogram_sum(const uint64_t *buckets)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < ICP_HISTOGRAM_COUNT; i++) sum += buckets[i];
    return sum;
}

static void an_evicted_block_is_counted_by_its_age(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(ages) / sizeof(ages[0]); i++) {
        icp_cache *cache = open_small(1);
        DO(cache, icp_cache_tick(cache, 1000));
        world_cache_text(cache, 0, "aaaa");
        DO(cache, icp_cache_tick(cache, 1000 + ages[i].age));
        world_hold(cache, 0, 1);
        icp_cache_stats stats = world_stats(cache);
        assert_int_equal(stats.residency[ages[i].bucket], 1);
        assert_int_equal(stats.idle[ages[i].bucket], 1);
        assert_int_equal(histogram_sum(stats.residency), 1);
        assert_int_equal(histogram_sum(stats.idle), 1);
        assert_int_equal(histogram_sum(stats.reuse_gap), 0);
        icp_cache_close(cache);
    }
}

static void a_reused_block_is_counted_by_the_gap(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(ages) / sizeof(ages[0]); i++) {
        icp_cache *cache = open_small(4);
        world_cache_text(cache, 0, "aaaabbbb");
        DO(cache, icp_cache_tick(cache, ages[i].age));
        world_match(cache, 0, "aaaabbbbc", 0, NULL);
        icp_cache_stats stats = world_stats(cache);
        assert_int_equal(stats.reuse_gap[ages[i].bucket], 2);
        assert_int_equal(histogram_sum(stats.reuse_gap), 2);
        icp_cache_close(cache);
    }
}

static void residency_runs_from_publish_and_idle_from_the_last_use(void **state)
{
    (void)state;
    icp_cache *cache = open_small(2);
    world_cache_text(cache, 0, "aaaa");
    DO(cache, icp_cache_tick(cache, 5));
    icp_lease lease = world_match(cache, 0, "aaaab", 0, NULL); /* a gap of 5 */
    DO(cache, icp_cache_tick(cache, 8));
    DO(cache, icp_lease_release(cache, lease));
    DO(cache, icp_cache_tick(cache, 9));
    assert_int_equal(inspect(cache, 0).idle_ticks, 1);
    world_hold(cache, 0, 8);
    icp_cache_stats stats = world_stats(cache);
    assert_int_equal(stats.residency[4], 1); /* 9 ticks */
    assert_int_equal(stats.idle[1], 1);      /* 1 tick */
    assert_int_equal(stats.reuse_gap[3], 1); /* 5 ticks */
    icp_cache_close(cache);
}

/* ---- Blocks by state ----------------------------------------------------------------------------------------- */

static void a_block_can_be_seen_in_every_state(void **state)
{
    (void)state;
    icp_cache *cache = open_small(8);
    icp_scope alice = world_tenant(cache, "alice");
    DO(cache, icp_cache_tick(cache, 10));
    icp_lease one = world_run(cache, alice, "aaaabbbbcccc");
    icp_lease two = world_run(cache, alice, "aaaabbbbccccd");
    DO(cache, icp_lease_release(cache, two));
    two = world_run(cache, alice, "aaaabbbb");
    world_cache_text(cache, 0, "xxxx");
    DO(cache, icp_lease_extend(cache, one, 13));
    world_assert_table(cache, one, 0, "0 1 2 6");
    world_assert_table(cache, two, 0, "0 4");
    DO(cache, icp_cache_tick(cache, 17));
    const struct {
        uint32_t block;
        icp_block_state state;
        uint32_t reference_count;
        uint32_t position;
        icp_scope scope;
    } cases[] = {{0, ICP_BLOCK_SHARED, 2, 0, alice}, {1, ICP_BLOCK_LEASED, 1, 4, alice},
                 {2, ICP_BLOCK_LEASED, 1, 8, alice}, {4, ICP_BLOCK_DUPLICATE, 1, 4, alice},
                 {5, ICP_BLOCK_CACHED, 0, 0, 0},     {6, ICP_BLOCK_PRIVATE, 1, 0, 0},
                 {7, ICP_BLOCK_SPARE, 0, 0, 0},      {3, ICP_BLOCK_SPARE, 0, 0, 0}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        icp_block_info info = inspect(cache, cases[i].block);
        bool has_node = cases[i].state != ICP_BLOCK_PRIVATE && cases[i].state != ICP_BLOCK_SPARE;
        assert_int_equal(info.state, cases[i].state);
        assert_int_equal(info.reference_count, cases[i].reference_count);
        assert_int_equal(info.pin_count, 0);
        assert_int_equal(info.node != ICP_NODE_NONE, has_node);
        if (has_node) assert_int_equal(info.position, cases[i].position);
        if (has_node) assert_int_equal(info.scope, cases[i].scope);
        if (cases[i].block != 7) assert_int_equal(info.idle_ticks, 7);
    }
    assert_int_equal(inspect(cache, 1).node, inspect(cache, 4).node);
    icp_cache_stats stats = world_stats(cache);
    assert_int_equal(stats.block_count_spare, 2);
    assert_int_equal(stats.block_count_cached, 1);
    assert_int_equal(stats.block_count_leased, 2);
    assert_int_equal(stats.block_count_shared, 1);
    assert_int_equal(stats.block_count_private, 1);
    assert_int_equal(stats.block_count_duplicate, 1);
    icp_cache_close(cache);
}

static void pinned_blocks_are_counted_among_those_that_are_held(void **state)
{
    (void)state;
    icp_cache *cache = open_small(8);
    world_cache_text(cache, 0, "aaaabbbb");
    world_text text;
    icp_pin one, two;
    world_letters(&text, "aaaabbbbc");
    icp_request request = {.text = text.text};
    DO(cache, icp_cache_pin(cache, &request, 9, &one, NULL));
    assert_int_equal(inspect(cache, 0).state, ICP_BLOCK_LEASED);
    request.text.token_count = 5;
    DO(cache, icp_cache_pin(cache, &request, 9, &two, NULL));
    assert_int_equal(inspect(cache, 0).state, ICP_BLOCK_SHARED);
    assert_int_equal(inspect(cache, 0).pin_count, 2);
    assert_int_equal(inspect(cache, 0).reference_count, 2);
    assert_int_equal(inspect(cache, 1).pin_count, 1);
    icp_cache_stats stats = world_stats(cache);
    assert_int_equal(stats.block_count_pinned, 2);
    assert_states_add_up(&stats);
    DO(cache, icp_cache_unpin(cache, one));
    assert_int_equal(world_stats(cache).block_count_pinned, 1);
    assert_int_equal(inspect(cache, 1).state, ICP_BLOCK_CACHED);
    icp_cache_close(cache);
}

/* What the statistics say of the states is what a look at every block says. */
static void assert_states_are_those_of_the_blocks(const icp_cache *cache, uint32_t block_count)
{
    uint64_t by_state[ICP_BLOCK_DUPLICATE + 1] = {0};
    icp_cache_stats stats = world_stats(cache);
    for (uint32_t i = 0; i < block_count; i++) by_state[inspect(cache, i).state]++;
    assert_states_add_up(&stats);
    assert_int_equal(stats.block_count, block_count);
    assert_int_equal(stats.block_count_spare, by_state[ICP_BLOCK_SPARE]);
    assert_int_equal(stats.block_count_cached, by_state[ICP_BLOCK_CACHED]);
    assert_int_equal(stats.block_count_leased, by_state[ICP_BLOCK_LEASED]);
    assert_int_equal(stats.block_count_shared, by_state[ICP_BLOCK_SHARED]);
    assert_int_equal(stats.block_count_private, by_state[ICP_BLOCK_PRIVATE]);
    assert_int_equal(stats.block_count_duplicate, by_state[ICP_BLOCK_DUPLICATE]);
}

static void the_states_always_add_up(void **state)
{
    (void)state;
    uint64_t seed = 71;
    icp_lease leases[4] = {0};
    icp_cache *cache = open_small(16);
    print_message("seed %d\n", (int)seed);
    for (uint32_t i = 0; i < 3000; i++) {
        char letters[17] = {0};
        icp_lease *lease = &leases[world_random(&seed) % 4];
        uint32_t count = 1 + world_random(&seed) % 16;
        for (uint32_t j = 0; j < count; j++) letters[j] = world_random(&seed) % 8 == 0 ? 'b' : 'a';
        if (*lease == 0) {
            *lease = world_match(cache, 0, letters, 0, NULL);
            if (icp_lease_extend(cache, *lease, count) == ICP_OK) world_publish(cache, *lease, letters);
        } else {
            icp_status status = icp_lease_truncate(cache, *lease, count);
            assert_true(status == ICP_OK || status == ICP_FULL);
            assert_states_are_those_of_the_blocks(cache, 16);
            DO(cache, icp_lease_release(cache, *lease));
            *lease = 0;
        }
        assert_states_are_those_of_the_blocks(cache, 16);
    }
    icp_cache_close(cache);
}

/* ---- Scopes -------------------------------------------------------------------------------------------------- */

static void each_scope_has_its_own_numbers(void **state)
{
    (void)state;
    icp_cache_options options = world_options(8, 4);
    options.tail_tokens_min = 1;
    icp_cache *cache = world_open(&options);
    icp_scope alice = world_tenant(cache, "alice");
    icp_scope bob = world_tenant(cache, "bob");
    DO(cache, icp_scope_quota(cache, alice, 1, 7));
    world_cache_text(cache, alice, "aaaabbbb");
    DO(cache, icp_cache_tick(cache, 1));
    icp_lease lease = world_run(cache, alice, "aaaabbXX");
    icp_scope_stats stats = scope_stats(cache, alice);
    assert_int_equal(stats.match_count, 2);
    assert_int_equal(stats.queried_tokens, 16);
    assert_int_equal(stats.hit_tokens, 4);
    assert_int_equal(stats.tail_tokens, 2);
    assert_int_equal(stats.stored_count, 3);
    assert_int_equal(stats.evicted_count, 0);
    assert_int_equal(stats.block_count, 3);
    assert_int_equal(stats.node_count, 3);
    assert_int_equal(stats.lease_count, 1);
    assert_int_equal(stats.quota_min, 1);
    assert_int_equal(stats.quota_max, 7);
    assert_int_equal(scope_stats(cache, bob).block_count, 0);
    assert_int_equal(scope_stats(cache, bob).match_count, 0);

    DO(cache, icp_lease_release(cache, lease));
    assert_int_equal(scope_stats(cache, alice).block_count_cached, 3);
    DO(cache, icp_cache_tick(cache, 2));
    lease = world_hold(cache, bob, 28); /* all but the one that alice is sure of */
    stats = scope_stats(cache, alice);
    assert_int_equal(stats.evicted_count, 2);
    assert_int_equal(stats.block_count, 1);
    assert_int_equal(stats.node_count, 1);
    assert_int_equal(scope_stats(cache, bob).block_count, 7);
    assert_int_equal(scope_stats(cache, bob).block_count_cached, 0);
    assert_int_equal(scope_stats(cache, bob).lease_count, 1);
    icp_cache_close(cache);
}

/* ---- The queue ----------------------------------------------------------------------------------------------- */

static void the_queue_is_the_order_in_which_blocks_are_taken(void **state)
{
    (void)state;
    for (int policy = ICP_POLICY_LRU; policy <= ICP_POLICY_SPARE_LRU; policy++) {
        icp_cache_options options = world_options(6, 4);
        options.policy = (icp_policy_kind)policy;
        icp_cache *cache = world_open(&options);
        world_cache_text(cache, 0, "aaaabbbbc");
        world_cache_text(cache, 0, "xxxxy");
        bool is_lru = policy == ICP_POLICY_LRU;
        world_assert_queue(cache, 0, is_lru ? "5 2 1 0 4 3" : "5 2 4 1 0 3");
        icp_lease lease = world_hold(cache, 0, 24);
        world_assert_table(cache, lease, 0, is_lru ? "5 2 1 0 4 3" : "5 2 4 1 0 3");
        world_assert_queue(cache, 0, "");
        icp_cache_close(cache);
    }
}

static void the_queues_of_scopes_with_a_quota_follow(void **state)
{
    (void)state;
    icp_cache *cache = open_small(6);
    icp_scope alice = world_tenant(cache, "alice");
    DO(cache, icp_scope_quota(cache, alice, 1, 0));
    world_cache_text(cache, alice, "aaaabbbb");
    world_cache_text(cache, 0, "xxxx");
    world_assert_queue(cache, 0, "3 4 5 2 1 0");
    icp_cache_close(cache);
}

static void a_listing_is_cut_to_what_there_is_room_for(void **state)
{
    (void)state;
    icp_cache *cache = open_small(6);
    uint32_t blocks[6] = {77, 77, 77, 77, 77, 77};
    size_t count = 0;
    DO(cache, icp_cache_queue(cache, 0, blocks, 2, &count));
    assert_int_equal(count, 6);
    assert_int_equal(blocks[1], 1);
    assert_int_equal(blocks[2], 77);
    DO(cache, icp_cache_queue(cache, 0, NULL, 0, &count));
    assert_int_equal(count, 6);
    icp_cache_close(cache);
}

static void the_arguments_of_statistics_are_checked(void **state)
{
    (void)state;
    icp_cache *cache = open_small(6);
    icp_block_info info = {.reference_count = 77};
    icp_cache_stats stats;
    uint32_t block = 77;
    size_t count = 77;
    icp_cache_stats_init(&stats);
    REFUSED(cache, ICP_BAD_ARGUMENT, icp_cache_statistics(NULL, &stats));
    REFUSED(cache, ICP_BAD_ARGUMENT, icp_cache_statistics(cache, NULL));
    REFUSED(cache, ICP_BAD_ARGUMENT, icp_block_inspect(NULL, 0, 0, &info));
    REFUSED(cache, ICP_BAD_ARGUMENT, icp_block_inspect(cache, 1, 0, &info));
    REFUSED(cache, ICP_BAD_ARGUMENT, icp_block_inspect(cache, 0, 6, &info));
    REFUSED(cache, ICP_BAD_ARGUMENT, icp_block_inspect(cache, 0, ICP_BLOCK_NONE, &info));
    REFUSED(cache, ICP_BAD_ARGUMENT, icp_block_inspect(cache, 0, 0, NULL));
    REFUSED(cache, ICP_BAD_ARGUMENT, icp_cache_queue(NULL, 0, &block, 1, &count));
    REFUSED(cache, ICP_BAD_ARGUMENT, icp_cache_queue(cache, 1, &block, 1, &count));
    REFUSED(cache, ICP_BAD_ARGUMENT, icp_cache_queue(cache, 0, NULL, 1, &count));
    REFUSED(cache, ICP_BAD_ARGUMENT, icp_cache_queue(cache, 0, &block, 1, NULL));
    assert_int_equal(icp_cache_check(NULL, NULL), ICP_BAD_ARGUMENT);
    DO(cache, icp_cache_check(cache, NULL));
    assert_int_equal(info.reference_count, 77);
    assert_int_equal(block, 77);
    assert_int_equal(count, 77);
    icp_cache_close(cache);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(matches_are_counted_in_tokens),
        cmocka_unit_test(blocks_are_counted_as_they_are_taken_stored_duplicated_and_evicted),
        cmocka_unit_test(a_truncate_that_exchanges_a_block_counts_as_taken),
        cmocka_unit_test(nodes_leases_scopes_pins_and_extras_are_counted),
        cmocka_unit_test(an_evicted_block_is_counted_by_its_age),
        cmocka_unit_test(a_reused_block_is_counted_by_the_gap),
        cmocka_unit_test(residency_runs_from_publish_and_idle_from_the_last_use),
        cmocka_unit_test(a_block_can_be_seen_in_every_state),
        cmocka_unit_test(pinned_blocks_are_counted_among_those_that_are_held),
        cmocka_unit_test(the_states_always_add_up),
        cmocka_unit_test(each_scope_has_its_own_numbers),
        cmocka_unit_test(the_queue_is_the_order_in_which_blocks_are_taken),
        cmocka_unit_test(the_queues_of_scopes_with_a_quota_follow),
        cmocka_unit_test(a_listing_is_cut_to_what_there_is_room_for),
        cmocka_unit_test(the_arguments_of_statistics_are_checked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
