/* test_scope.c - who may share with whom, who may evict whom, what is kept for whom: scopes, quotas, pins, clear. */
#include "world.h"

#include <stdio.h>
#include <string.h>

static icp_cache *open_small(uint32_t block_count)
{
    icp_cache_options options = world_options(block_count, 4);
    options.scope_count_max = 4;
    options.pin_count_max = 2;
    return world_open(&options);
}

static icp_scope open_key(icp_cache *cache, icp_scope_key key)
{
    icp_scope scope = 0;
    DO(cache, icp_scope_open(cache, &key, &scope));
    return scope;
}

static icp_scope_stats scope_stats(const icp_cache *cache, icp_scope scope)
{
    icp_scope_stats stats;
    icp_scope_stats_init(&stats);
    assert_int_equal(icp_scope_statistics(cache, scope, &stats), ICP_OK);
    return stats;
}

/* Caches so many different texts of two blocks, one after the other. */
static void flood(icp_cache *cache, icp_scope scope, int count)
{
    for (int i = 0; i < count; i++) {
        char letters[9] = "????????";
        memset(letters, '0' + i % 10, 4);
        memset(letters + 4, 'A' + i / 10, 4);
        world_cache_text(cache, scope, letters);
    }
}

static icp_pin pin_text(icp_cache *cache, icp_scope scope, const char *letters, uint64_t until_tick, uint32_t tokens)
{
    world_text text;
    icp_pin pin = 0;
    uint32_t count = 0;
    world_letters(&text, letters);
    icp_request request = {.text = text.text, .scope = scope};
    DO(cache, icp_cache_pin(cache, &request, until_tick, &pin, &count));
    assert_int_not_equal(pin, 0);
    assert_int_equal(count, tokens);
    return pin;
}

/* ---- Scopes -------------------------------------------------------------------------------------------------- */

static void each_of_the_four_texts_separates(void **state)
{
    (void)state;
    icp_cache_options options = world_options(32, 4);
    icp_cache *cache = world_open(&options);
    const icp_scope_key keys[] = {
        {NULL, NULL, NULL, NULL},
        {.model = "x"},
        {.adapter = "x"},
        {.tenant = "x"},
        {.salt = "x"},
        {.model = "ab", .adapter = "c"},
        {.model = "a", .adapter = "bc"},
        {.tenant = "ab", .salt = "c"},
        {.tenant = "a", .salt = "bc"},
        {.adapter = "ab", .tenant = "c"},
        {.model = "abc"},
        {.adapter = "a", .tenant = "bc"},
    };
    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
        icp_scope scope = open_key(cache, keys[i]);
        assert_int_equal(world_cached(cache, scope, "aaaab"), 0);
        world_cache_text(cache, scope, "aaaab");
        assert_int_equal(world_cached(cache, scope, "aaaab"), 4);
    }
    icp_cache_close(cache);
}

static void equal_texts_are_the_same_scope_and_null_is_empty(void **state)
{
    (void)state;
    icp_cache *cache = open_small(8);
    icp_scope one = open_key(cache, (icp_scope_key){.model = "m", .tenant = "t"});
    char model[] = "m";
    assert_int_equal(open_key(cache, (icp_scope_key){model, "", "t", ""}), one);
    assert_int_equal(open_key(cache, (icp_scope_key){"", "", "", ""}), 0);
    assert_int_equal(open_key(cache, (icp_scope_key){NULL, NULL, NULL, NULL}), 0);
    world_cache_text(cache, one, "aaaab");

    /* Each open wants a close. */
    DO(cache, icp_scope_close(cache, one));
    assert_int_equal(world_cached(cache, one, "aaaab"), 4);
    DO(cache, icp_scope_close(cache, one));
    REFUSED(cache, ICP_STALE, icp_scope_close(cache, one));
    icp_cache_close(cache);
}

static void a_closed_scope_opened_again_finds_what_is_cached(void **state)
{
    (void)state;
    icp_cache *cache = open_small(8);
    icp_scope scope = world_tenant(cache, "alice");
    icp_lease lease = world_run(cache, scope, "aaaabbbb");
    DO(cache, icp_scope_close(cache, scope));
    world_publish(cache, lease, "aaaabbbbcccc"); /* leases may outlive it */
    DO(cache, icp_lease_release(cache, lease));
    scope = world_tenant(cache, "alice");
    assert_int_equal(world_cached(cache, scope, "aaaabbbbccccd"), 12);
    icp_cache_close(cache);
}

static void a_closed_scope_is_stale_in_every_call(void **state)
{
    (void)state;
    icp_cache *cache = open_small(8);
    icp_scope closed = world_tenant(cache, "alice");
    world_cache_text(cache, closed, "aaaab");
    DO(cache, icp_scope_close(cache, closed));
    const icp_scope scopes[] = {closed, UINT64_MAX, 1, UINT64_C(1) << 32};
    for (size_t i = 0; i < sizeof(scopes) / sizeof(scopes[0]); i++) {
        world_text text;
        icp_lease lease = 77;
        icp_pin pin = 77;
        icp_explanation why;
        icp_scope_stats stats;
        world_letters(&text, "aaaab");
        icp_request request = {.text = text.text, .scope = scopes[i]};
        icp_explanation_init(&why);
        icp_scope_stats_init(&stats);
        REFUSED(cache, ICP_STALE, icp_cache_match(cache, &request, &lease, NULL));
        REFUSED(cache, ICP_STALE, icp_cache_pin(cache, &request, 9, &pin, NULL));
        REFUSED(cache, ICP_STALE, icp_cache_explain(cache, &request, 0, &why));
        REFUSED(cache, ICP_STALE, icp_scope_close(cache, scopes[i]));
        REFUSED(cache, ICP_STALE, icp_scope_quota(cache, scopes[i], 0, 1));
        REFUSED(cache, ICP_STALE, icp_scope_clear(cache, scopes[i]));
        REFUSED(cache, ICP_STALE, icp_scope_statistics(cache, scopes[i], &stats));
        assert_int_equal(lease, 77);
        assert_int_equal(pin, 77);
    }
    icp_cache_close(cache);
}

static void one_scope_too_many_is_refused(void **state)
{
    (void)state;
    icp_cache_options options = world_options(8, 4);
    options.scope_count_max = 2;
    icp_cache *cache = world_open(&options);
    icp_scope alice = world_tenant(cache, "alice");
    icp_scope bob = world_tenant(cache, "bob");
    icp_scope carol = 77;
    const icp_scope_key key = {.tenant = "carol"};
    REFUSED(cache, ICP_TOO_MANY_SCOPES, icp_scope_open(cache, &key, &carol));
    world_cache_text(cache, alice, "aaaab");
    icp_lease lease = world_match(cache, bob, "b", 0, NULL);
    DO(cache, icp_scope_close(cache, alice)); /* but it holds a block */
    DO(cache, icp_scope_close(cache, bob));   /* but it has a lease */
    REFUSED(cache, ICP_TOO_MANY_SCOPES, icp_scope_open(cache, &key, &carol));
    assert_int_equal(carol, 77);

    DO(cache, icp_lease_release(cache, lease));
    DO(cache, icp_scope_open(cache, &key, &carol));
    REFUSED(cache, ICP_TOO_MANY_SCOPES, icp_scope_open(cache, &(icp_scope_key){.tenant = "dave"}, &carol));
    DO(cache, icp_lease_release(cache, world_hold(cache, 0, 32))); /* evicts what alice had */
    DO(cache, icp_scope_open(cache, &(icp_scope_key){.tenant = "dave"}, &carol));
    icp_cache_close(cache);
}

static void a_recycled_scope_leaves_its_old_handle_stale(void **state)
{
    (void)state;
    icp_cache_options options = world_options(8, 4);
    options.scope_count_max = 1;
    icp_cache *cache = world_open(&options);
    icp_scope alice = world_tenant(cache, "alice");
    DO(cache, icp_scope_close(cache, alice));
    icp_scope bob = world_tenant(cache, "bob");
    assert_int_not_equal(bob, alice);
    world_cache_text(cache, bob, "aaaab");
    REFUSED(cache, ICP_STALE, icp_scope_close(cache, alice));
    REFUSED(cache, ICP_STALE, icp_scope_clear(cache, alice));
    assert_int_equal(world_cached(cache, bob, "aaaab"), 4);
    DO(cache, icp_scope_clear(cache, bob));
    DO(cache, icp_scope_close(cache, bob));
    icp_scope again = world_tenant(cache, "alice");
    assert_int_not_equal(again, alice);
    assert_int_not_equal(again, bob);
    icp_cache_close(cache);
}

static void the_longest_idle_scope_is_recycled_first(void **state)
{
    (void)state;
    icp_cache_options options = world_options(8, 4);
    options.scope_count_max = 2;
    icp_cache *cache = world_open(&options);
    icp_scope alice = world_tenant(cache, "alice");
    icp_scope bob = world_tenant(cache, "bob");
    DO(cache, icp_scope_close(cache, bob));
    DO(cache, icp_scope_close(cache, alice));
    world_tenant(cache, "carol");
    assert_int_equal(world_tenant(cache, "alice"), alice); /* idle, yet still known */
    icp_cache_close(cache);
}

static void the_texts_of_a_scope_have_a_length(void **state)
{
    (void)state;
    icp_cache *cache = open_small(8);
    char longest[ICP_SCOPE_TEXT_BYTES_MAX + 1];
    char too_long[ICP_SCOPE_TEXT_BYTES_MAX + 2];
    memset(longest, 'x', sizeof(longest));
    memset(too_long, 'x', sizeof(too_long));
    longest[ICP_SCOPE_TEXT_BYTES_MAX] = 0;
    too_long[ICP_SCOPE_TEXT_BYTES_MAX + 1] = 0;
    icp_scope scope = 77;
    REFUSED(cache, ICP_BAD_ARGUMENT, icp_scope_open(cache, &(icp_scope_key){.salt = too_long}, &scope));
    REFUSED(cache, ICP_BAD_ARGUMENT, icp_scope_open(cache, &(icp_scope_key){.model = "m", .salt = longest}, &scope));
    REFUSED(cache, ICP_BAD_ARGUMENT, icp_scope_open(cache, &(icp_scope_key){.model = longest, .salt = "s"}, &scope));
    assert_int_equal(scope, 77);
    icp_scope one = open_key(cache, (icp_scope_key){.model = longest});
    icp_scope two = open_key(cache, (icp_scope_key){.salt = longest});
    icp_scope three = open_key(cache, (icp_scope_key){.model = longest + 8, .tenant = longest + 240});
    assert_true(one != two && two != three && three != one);
    icp_cache_close(cache);
}

static void the_arguments_of_scopes_are_checked(void **state)
{
    (void)state;
    icp_cache *cache = open_small(8);
    icp_scope scope = 77;
    icp_scope_stats stats;
    icp_scope_stats_init(&stats);
    const icp_scope_key key = {.tenant = "alice"};
    REFUSED(cache, ICP_BAD_ARGUMENT, icp_scope_open(NULL, &key, &scope));
    REFUSED(cache, ICP_BAD_ARGUMENT, icp_scope_open(cache, NULL, &scope));
    REFUSED(cache, ICP_BAD_ARGUMENT, icp_scope_open(cache, &key, NULL));
    REFUSED(cache, ICP_BAD_ARGUMENT, icp_scope_close(NULL, 1));
    REFUSED(cache, ICP_BAD_ARGUMENT, icp_scope_close(cache, 0)); /* the default scope is always there */
    REFUSED(cache, ICP_BAD_ARGUMENT, icp_scope_quota(NULL, 0, 0, 0));
    REFUSED(cache, ICP_BAD_ARGUMENT, icp_scope_clear(NULL, 0));
    REFUSED(cache, ICP_BAD_ARGUMENT, icp_cache_clear(NULL));
    REFUSED(cache, ICP_BAD_ARGUMENT, icp_scope_statistics(NULL, 0, &stats));
    REFUSED(cache, ICP_BAD_ARGUMENT, icp_scope_statistics(cache, 0, NULL));
    icp_cache_close(cache);
}

/* ---- Quotas -------------------------------------------------------------------------------------------------- */

static void a_flood_cannot_evict_what_another_is_guaranteed(void **state)
{
    (void)state;
    for (int is_late = 0; is_late < 2; is_late++) { /* the quota is set before or after the blocks are there */
        icp_cache *cache = open_small(10);
        icp_scope alice = world_tenant(cache, "alice");
        icp_scope bob = world_tenant(cache, "bob");
        if (!is_late) DO(cache, icp_scope_quota(cache, alice, 3, 0));
        world_cache_text(cache, alice, "aaaabbbbcccc");
        if (is_late) DO(cache, icp_scope_quota(cache, alice, 3, 0));
        flood(cache, bob, 40);
        assert_int_equal(world_cached(cache, alice, "aaaabbbbccccd"), 12);
        icp_lease lease = world_match(cache, bob, "z", 0, NULL);
        REFUSED(cache, ICP_FULL, icp_lease_extend(cache, lease, 29));
        DO(cache, icp_lease_extend(cache, lease, 28));
        assert_int_equal(world_cached(cache, alice, "aaaabbbbccccd"), 12);
        icp_cache_close(cache);
    }
}

static void blocks_above_the_guarantee_may_be_evicted(void **state)
{
    (void)state;
    icp_cache *cache = open_small(10);
    icp_scope alice = world_tenant(cache, "alice");
    icp_scope bob = world_tenant(cache, "bob");
    DO(cache, icp_scope_quota(cache, alice, 2, 0));
    world_cache_text(cache, alice, "aaaabbbbccccdddd");
    DO(cache, icp_cache_tick(cache, 1)); /* between the queues of scopes, the older tick goes first */
    flood(cache, bob, 40);
    assert_int_equal(world_cached(cache, alice, "aaaabbbbccccdddde"), 8);
    assert_int_equal(scope_stats(cache, alice).block_count, 2);
    icp_cache_close(cache);
}

/* Alice has five blocks of the full group and three of the window group, the last of her text. Bob's window moves on
 * within the blocks that it has, so that he needs blocks of the full group alone. */
/* Three nodes with their full blocks are guaranteed; a node that goes takes its window block along. */
static void a_guarantee_of_nodes_is_kept_though_their_window_blocks_may_go_with_others(void **state)
{
    (void)state;
    const icp_group groups[] = {{.kind = ICP_GROUP_FULL}, {.kind = ICP_GROUP_WINDOW, .window = 6, .block_count = 8}};
    icp_cache_options options = world_options(12, 4);
    options.groups = groups;
    options.group_count = 2;
    icp_cache *cache = world_open(&options);
    icp_scope alice = world_tenant(cache, "alice");
    icp_scope bob = world_tenant(cache, "bob");
    DO(cache, icp_scope_quota(cache, alice, 3, 0));
    icp_lease lease = world_run(cache, alice, "aaaabbbbcccc");
    world_publish(cache, lease, "aaaabbbbccccdddd");
    world_publish(cache, lease, "aaaabbbbccccddddeeee");
    DO(cache, icp_lease_release(cache, lease));
    DO(cache, icp_cache_tick(cache, 1));
    lease = world_hold(cache, bob, 20);
    assert_int_equal(scope_stats(cache, alice).block_count, 5 + 3);
    for (uint32_t count = 21; icp_lease_extend(cache, lease, count) == ICP_OK; count++) world_check(cache);
    assert_int_equal(scope_stats(cache, bob).lease_count, 1);
    assert_int_equal(scope_stats(cache, alice).node_count, 3);
    icp_cache_close(cache);
}

static void a_scope_at_its_maximum_evicts_its_own(void **state)
{
    (void)state;
    icp_cache *cache = open_small(10);
    icp_scope alice = world_tenant(cache, "alice");
    icp_scope bob = world_tenant(cache, "bob");
    DO(cache, icp_scope_quota(cache, bob, 0, 4));
    world_cache_text(cache, alice, "aaaabbbb");
    for (int i = 1; i < 20; i++) {
        flood(cache, bob, i);
        assert_true(scope_stats(cache, bob).block_count <= 4);
    }
    assert_int_equal(scope_stats(cache, bob).block_count, 4);
    assert_int_equal(world_cached(cache, alice, "aaaabbbbc"), 8);
    assert_int_equal(world_stats(cache).block_count_spare, 4);
    icp_cache_close(cache);
}

static void quota_and_full_tell_who_is_in_the_way(void **state)
{
    (void)state;
    icp_cache *cache = open_small(6);
    icp_scope alice = world_tenant(cache, "alice");
    icp_scope bob = world_tenant(cache, "bob");
    DO(cache, icp_scope_quota(cache, bob, 0, 4));
    icp_lease lease = world_match(cache, bob, "x", 0, NULL);
    REFUSED(cache, ICP_QUOTA, icp_lease_extend(cache, lease, 17));
    DO(cache, icp_lease_extend(cache, lease, 8));
    icp_lease other = world_hold(cache, alice, 12);
    REFUSED(cache, ICP_FULL, icp_lease_extend(cache, lease, 16)); /* it might, but the pool has but one */
    REFUSED(cache, ICP_QUOTA, icp_lease_extend(cache, lease, 17));
    DO(cache, icp_lease_extend(cache, lease, 12));
    DO(cache, icp_lease_release(cache, other));
    DO(cache, icp_lease_extend(cache, lease, 16));
    icp_lease second = world_match(cache, bob, "y", 0, NULL);
    REFUSED(cache, ICP_QUOTA, icp_lease_extend(cache, second, 1));
    DO(cache, icp_lease_release(cache, lease));
    DO(cache, icp_lease_extend(cache, second, 1));
    icp_cache_close(cache);
}

static void truncate_answers_to_the_quota_too(void **state)
{
    (void)state;
    icp_cache *cache = open_small(8);
    icp_scope bob = world_tenant(cache, "bob");
    DO(cache, icp_scope_quota(cache, bob, 0, 2));
    icp_lease lease = world_run(cache, bob, "aaaabbbb");
    REFUSED(cache, ICP_QUOTA, icp_lease_truncate(cache, lease, 6));
    DO(cache, icp_scope_quota(cache, bob, 0, 3));
    DO(cache, icp_lease_truncate(cache, lease, 6));
    icp_cache_close(cache);
}

static void quotas_that_cannot_be_kept_are_refused(void **state)
{
    (void)state;
    const icp_group groups[] = {{.kind = ICP_GROUP_FULL}, {.kind = ICP_GROUP_FULL, .block_count = 6}};
    icp_cache_options options = world_options(10, 4);
    icp_cache *cache = world_open(&options);
    icp_scope alice = world_tenant(cache, "alice");
    icp_scope bob = world_tenant(cache, "bob");
    REFUSED(cache, ICP_BAD_ARGUMENT, icp_scope_quota(cache, alice, 4, 3));
    REFUSED(cache, ICP_BAD_ARGUMENT, icp_scope_quota(cache, alice, 11, 0));
    DO(cache, icp_scope_quota(cache, alice, 6, 6));
    REFUSED(cache, ICP_BAD_ARGUMENT, icp_scope_quota(cache, bob, 5, 0));
    assert_int_equal(scope_stats(cache, bob).quota_min, 0);
    DO(cache, icp_scope_quota(cache, bob, 4, 0));
    REFUSED(cache, ICP_BAD_ARGUMENT, icp_scope_quota(cache, 0, 1, 0));
    DO(cache, icp_scope_quota(cache, alice, 5, 0));
    DO(cache, icp_scope_quota(cache, 0, 1, 0));
    assert_int_equal(scope_stats(cache, alice).quota_min, 5);
    assert_int_equal(scope_stats(cache, alice).quota_max, 0);
    icp_cache_close(cache);

    options.groups = groups;
    options.group_count = 2;
    cache = world_open(&options);
    REFUSED(cache, ICP_BAD_ARGUMENT, icp_scope_quota(cache, 0, 7, 0)); /* in each pool */
    DO(cache, icp_scope_quota(cache, 0, 6, 0));
    icp_cache_close(cache);
}

static void a_quota_ends_with_its_scope(void **state)
{
    (void)state;
    icp_cache *cache = open_small(10);
    icp_scope alice = world_tenant(cache, "alice");
    icp_scope bob = world_tenant(cache, "bob");
    DO(cache, icp_scope_quota(cache, alice, 6, 8));
    world_cache_text(cache, alice, "aaaab");
    DO(cache, icp_scope_close(cache, alice));
    REFUSED(cache, ICP_BAD_ARGUMENT, icp_scope_quota(cache, bob, 5, 0)); /* it holds a block */
    DO(cache, icp_cache_clear(cache));
    DO(cache, icp_scope_quota(cache, bob, 10, 0));
    alice = world_tenant(cache, "alice");
    assert_int_equal(scope_stats(cache, alice).quota_min, 0);
    assert_int_equal(scope_stats(cache, alice).quota_max, 0);
    icp_cache_close(cache);
}

/* ---- Pins ---------------------------------------------------------------------------------------------------- */

static void a_pinned_prefix_survives_a_flood_until_its_tick(void **state)
{
    (void)state;
    icp_cache *cache = open_small(6);
    world_cache_text(cache, 0, "aaaabbbb");
    icp_pin pin = pin_text(cache, 0, "aaaabbbbc", 10, 8);
    assert_int_equal(world_stats(cache).pin_count, 1);
    assert_int_equal(world_stats(cache).block_count_pinned, 2);
    DO(cache, icp_cache_tick(cache, 9));
    flood(cache, 0, 20);
    assert_int_equal(world_cached(cache, 0, "aaaabbbbc"), 8);
    icp_lease lease = world_match(cache, 0, "z", 0, NULL);
    REFUSED(cache, ICP_FULL, icp_lease_extend(cache, lease, 17));

    DO(cache, icp_cache_tick(cache, 10));
    assert_int_equal(world_stats(cache).pin_count, 0);
    assert_int_equal(world_stats(cache).block_count_pinned, 0);
    REFUSED(cache, ICP_STALE, icp_cache_unpin(cache, pin));
    flood(cache, 0, 20);
    assert_int_equal(world_cached(cache, 0, "aaaabbbbc"), 0);
    icp_cache_close(cache);
}

static void a_pin_without_a_tick_lasts_until_unpin(void **state)
{
    (void)state;
    icp_cache *cache = open_small(6);
    world_cache_text(cache, 0, "aaaabbbb");
    icp_pin pin = pin_text(cache, 0, "aaaabbbbc", UINT64_MAX, 8);
    DO(cache, icp_cache_tick(cache, UINT64_MAX - 1));
    flood(cache, 0, 20);
    assert_int_equal(world_cached(cache, 0, "aaaabbbbc"), 8);
    DO(cache, icp_cache_unpin(cache, pin));
    REFUSED(cache, ICP_STALE, icp_cache_unpin(cache, pin));
    REFUSED(cache, ICP_STALE, icp_cache_unpin(cache, 0));
    REFUSED(cache, ICP_STALE, icp_cache_unpin(cache, UINT64_MAX));
    assert_int_equal(world_stats(cache).block_count_cached, 6);
    icp_cache_close(cache);
}

static void a_pin_covers_the_whole_blocks_that_a_match_would_find(void **state)
{
    (void)state;
    icp_cache *cache = open_small(6);
    world_cache_text(cache, 0, "aaaabbbb");
    DO(cache, icp_cache_unpin(cache, pin_text(cache, 0, "aaaabbXX", 9, 4)));
    DO(cache, icp_cache_unpin(cache, pin_text(cache, 0, "aaaabbbb", 9, 4)));
    DO(cache, icp_cache_unpin(cache, pin_text(cache, 0, "aaaabbbbcccccccc", 9, 8)));
    icp_cache_close(cache);
}

static void a_pin_that_makes_no_sense_is_refused(void **state)
{
    (void)state;
    icp_cache *cache = open_small(8);
    DO(cache, icp_cache_tick(cache, 5));
    world_cache_text(cache, 0, "aaaabbbb");
    world_text text;
    world_letters(&text, "aaaabbbbc");
    icp_request request = {.text = text.text};
    icp_pin pin = 77;
    uint32_t count = 77;
    REFUSED(cache, ICP_BAD_ARGUMENT, icp_cache_pin(cache, &request, 4, &pin, &count));
    REFUSED(cache, ICP_BAD_ARGUMENT, icp_cache_pin(NULL, &request, 9, &pin, &count));
    REFUSED(cache, ICP_BAD_ARGUMENT, icp_cache_pin(cache, NULL, 9, &pin, &count));
    REFUSED(cache, ICP_BAD_ARGUMENT, icp_cache_pin(cache, &request, 9, NULL, &count));
    REFUSED(cache, ICP_BAD_ARGUMENT, icp_cache_unpin(NULL, 1));
    world_letters(&text, "xxxxy");
    request.text = text.text;
    REFUSED(cache, ICP_NOT_FOUND, icp_cache_pin(cache, &request, 9, &pin, &count));
    request.text.token_count = 0;
    REFUSED(cache, ICP_BAD_ARGUMENT, icp_cache_pin(cache, &request, 9, &pin, &count));
    assert_int_equal(pin, 77);
    assert_int_equal(count, 77);

    icp_pin one = pin_text(cache, 0, "aaaabbbbc", 9, 8);
    pin_text(cache, 0, "aaaabbbbc", 9, 8);
    world_letters(&text, "aaaabbbbc");
    request.text = text.text;
    REFUSED(cache, ICP_TOO_MANY_PINS, icp_cache_pin(cache, &request, 9, &pin, &count));
    DO(cache, icp_cache_unpin(cache, one));
    DO(cache, icp_cache_pin(cache, &request, 9, &pin, NULL));
    icp_cache_close(cache);
}

/* ---- Clear --------------------------------------------------------------------------------------------------- */

static void a_cleared_scope_forgets_while_its_leases_keep_their_blocks(void **state)
{
    (void)state;
    icp_cache *cache = open_small(16);
    icp_scope alice = world_tenant(cache, "alice");
    icp_scope bob = world_tenant(cache, "bob");
    world_cache_text(cache, alice, "aaaabbbb");
    world_cache_text(cache, bob, "aaaabbbb");
    icp_lease lease = world_run(cache, alice, "aaaabbbbccccd");
    icp_pin pin = pin_text(cache, alice, "aaaabbbbc", 9, 8);
    DO(cache, icp_scope_clear(cache, alice));
    assert_int_equal(world_cached(cache, alice, "aaaabbbbccccd"), 0);
    assert_int_equal(world_cached(cache, bob, "aaaabbbbccccd"), 8);
    REFUSED(cache, ICP_STALE, icp_cache_unpin(cache, pin)); /* pins end */
    world_assert_table(cache, lease, 0, "0 1 4 5");
    assert_int_equal(world_state(cache, 0, 4), ICP_BLOCK_PRIVATE);

    world_publish(cache, lease, "aaaabbbbccccdddd"); /* publishes nothing more */
    assert_int_equal(world_cached(cache, alice, "aaaabbbbccccdddde"), 0);
    DO(cache, icp_lease_release(cache, lease));
    assert_int_equal(world_stats(cache).block_count_cached, 2);
    world_cache_text(cache, alice, "aaaabbbb"); /* others do */
    assert_int_equal(world_cached(cache, alice, "aaaabbbbc"), 8);
    icp_cache_close(cache);
}

static void a_cleared_cache_forgets_everything(void **state)
{
    (void)state;
    icp_cache *cache = open_small(16);
    icp_scope alice = world_tenant(cache, "alice");
    icp_scope bob = world_tenant(cache, "bob");
    world_cache_text(cache, alice, "aaaabbbb");
    world_cache_text(cache, bob, "aaaabbbb");
    DO(cache, icp_scope_close(cache, bob));
    icp_lease lease = world_run(cache, 0, "aaaabbbb");
    icp_pin pin = pin_text(cache, alice, "aaaabbbbc", 9, 8);
    DO(cache, icp_cache_clear(cache));
    assert_int_equal(world_stats(cache).node_count, 0);
    assert_int_equal(world_stats(cache).block_count_spare, 14);
    assert_int_equal(world_stats(cache).pin_count, 0);
    REFUSED(cache, ICP_STALE, icp_cache_unpin(cache, pin));
    world_assert_table(cache, lease, 0, "4 5");
    world_publish(cache, lease, "aaaabbbbcccc");
    assert_int_equal(world_stats(cache).node_count, 0);
    DO(cache, icp_lease_release(cache, lease));
    assert_int_equal(world_cached(cache, world_tenant(cache, "bob"), "aaaabbbbc"), 0);
    assert_int_equal(world_stats(cache).block_count_spare, 16);
    icp_cache_close(cache);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_of_the_four_texts_separates),
        cmocka_unit_test(equal_texts_are_the_same_scope_and_null_is_empty),
        cmocka_unit_test(a_closed_scope_opened_again_finds_what_is_cached),
        cmocka_unit_test(a_closed_scope_is_stale_in_every_call),
        cmocka_unit_test(one_scope_too_many_is_refused),
        cmocka_unit_test(a_recycled_scope_leaves_its_old_handle_stale),
        cmocka_unit_test(the_longest_idle_scope_is_recycled_first),
        cmocka_unit_test(the_texts_of_a_scope_have_a_length),
        cmocka_unit_test(the_arguments_of_scopes_are_checked),
        cmocka_unit_test(a_flood_cannot_evict_what_another_is_guaranteed),
        cmocka_unit_test(blocks_above_the_guarantee_may_be_evicted),
        cmocka_unit_test(a_guarantee_of_nodes_is_kept_though_their_window_blocks_may_go_with_others),
        cmocka_unit_test(a_scope_at_its_maximum_evicts_its_own),
        cmocka_unit_test(quota_and_full_tell_who_is_in_the_way),
        cmocka_unit_test(truncate_answers_to_the_quota_too),
        cmocka_unit_test(quotas_that_cannot_be_kept_are_refused),
        cmocka_unit_test(a_quota_ends_with_its_scope),
        cmocka_unit_test(a_pinned_prefix_survives_a_flood_until_its_tick),
        cmocka_unit_test(a_pin_without_a_tick_lasts_until_unpin),
        cmocka_unit_test(a_pin_covers_the_whole_blocks_that_a_match_would_find),
        cmocka_unit_test(a_pin_that_makes_no_sense_is_refused),
        cmocka_unit_test(a_cleared_scope_forgets_while_its_leases_keep_their_blocks),
        cmocka_unit_test(a_cleared_cache_forgets_everything),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
