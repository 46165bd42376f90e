/* test_check.c - icp_cache_check sees what it claims to see: each kind of damage, done on purpose, is found.
 *
 * A check that always says OK would make every other test worthless, so here its memory is written to behind its back.
 * */
#include "cache/cache.h"
#include "world.h"

#include <stdio.h>
#include <string.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

/* A cache with something of everything: shared, private, cached, duplicate, pinned and spare blocks, siblings, extras.
 * */
static icp_cache *full_world(void)
{
    static const icp_group groups[2] = {{.kind = ICP_GROUP_FULL}, {.kind = ICP_GROUP_WINDOW, .window = 6}};
    icp_cache_options options = world_options(64, 4);
    options.policy = ICP_POLICY_SPARE_LRU;
    options.groups = groups;
    options.group_count = 2;
    icp_cache *cache = world_open(&options);
    icp_scope tenant;
    DO(cache, icp_scope_open(cache, &(icp_scope_key){.tenant = "t"}, &tenant));
    DO(cache, icp_scope_quota(cache, tenant, 2, 40));
    world_cache_text(cache, tenant, "mmmmnnnnoooo");
    world_cache_text(cache, 0, "aaaabbbbccccdddd");
    world_cache_text(cache, 0, "aaaabbbbxxxx");
    world_cache_text(cache, 0, "aaaabbbbyyyy");
    world_run(cache, 0, "aaaabbbbccccdddde");
    icp_lease other = world_match(cache, 0, "aaaabbbbcccc", ICP_NO_READ, NULL);
    world_publish(cache, other, "aaaabbbbcccc");
    world_text text;
    world_letters(&text, "aaaabbbbxxxxz");
    icp_pin pin;
    DO(cache, icp_cache_pin(cache, &(icp_request){.text = text.text}, 100, &pin, NULL));
    return cache;
}

/* The cached node of a text's last block. */
static uint32_t node_of(icp_cache *cache, const char *letters)
{
    world_text text;
    icp_walk walk = {.blocks = NULL};
    world_letters(&text, letters);
    icp_tree_walk(&cache->tree, 0, &text.text, (uint32_t)text.text.token_count / 4, &walk);
    assert_int_not_equal(walk.node, ICP_NODE_NONE);
    return walk.node;
}

static icp_block *block_of(icp_cache *cache, const char *letters)
{
    return &cache->pools[0].blocks[icp_tree_link(&cache->tree, node_of(cache, letters))->blocks[0]];
}

static icp_node *record_of(icp_cache *cache, const char *letters)
{
    return icp_tree_node(&cache->tree, node_of(cache, letters));
}

static icp_lease_record *first_lease(icp_cache *cache)
{
    for (uint32_t i = 0;; i++) {
        if (cache->leases.records[i].is_open) return &cache->leases.records[i];
    }
}

/* ---- Damage --------------------------------------------------------------------------------------------------- */

static void lose_a_reference(icp_cache *cache)
{
    block_of(cache, "aaaa")->reference_count--;
}
static void invent_a_reference(icp_cache *cache)
{
    block_of(cache, "aaaa")->reference_count++;
}
static void hold_a_free_block(icp_cache *cache)
{
    block_of(cache, "aaaabbbbyyyy")->reference_count = 1;
}
static void lose_a_pin(icp_cache *cache)
{
    block_of(cache, "aaaabbbbxxxx")->pin_count--;
}
static void break_a_link(icp_cache *cache)
{
    block_of(cache, "aaaabbbbyyyy")->prev = 63;
}
static void cut_the_queue(icp_cache *cache)
{
    cache->pools[0].accounts[0].queue.tail = ICP_BLOCK_NONE;
}
static void miscount_spare(icp_cache *cache)
{
    cache->pools[0].spare_count++;
}
static void miscount_shared(icp_cache *cache)
{
    cache->pools[0].shared_count++;
}
static void miscount_private(icp_cache *cache)
{
    cache->pools[0].private_count--;
}
static void miscount_duplicates(icp_cache *cache)
{
    cache->pools[0].duplicate_count--;
}
static void charge_another(icp_cache *cache)
{
    block_of(cache, "aaaabbbbyyyy")->account = 2;
}
static void overcharge(icp_cache *cache)
{
    cache->pools[0].accounts[2].charged++;
}
static void miscount_evictable(icp_cache *cache)
{
    cache->pools[0].accounts[2].evictable++;
}
static void crown_a_loser(icp_cache *cache)
{
    cache->pools[0].winners[1] = 3;
}
static void change_a_token(icp_cache *cache)
{
    icp_tree_tokens(&cache->tree, node_of(cache, "aaaabbbb"))[1]++;
}
static void change_a_hash(icp_cache *cache)
{
    record_of(cache, "aaaabbbb")->hash ^= 1;
}
static void change_a_depth(icp_cache *cache)
{
    record_of(cache, "aaaabbbb")->depth++;
}
static void change_a_scope(icp_cache *cache)
{
    record_of(cache, "aaaabbbbyyyy")->scope = 1;
}
static void orphan_a_node(icp_cache *cache)
{
    record_of(cache, "aaaabbbbxxxx")->parent = ICP_NODE_NONE;
}
static void swap_siblings(icp_cache *cache)
{
    for (uint32_t i = 0; i < cache->tree.node_fresh; i++) {
        icp_link *link = icp_tree_link(&cache->tree, i);
        uint32_t left = link->left;
        if (icp_tree_node(&cache->tree, i)->depth == ICP_NODE_NONE || (left & link->right) == ICP_NODE_NONE) continue;
        link->left = link->right;
        link->right = left;
        return;
    }
}
static void unmark_in_index(icp_cache *cache)
{
    record_of(cache, "aaaabbbbyyyy")->flags = 0;
}
static void lose_a_full_block(icp_cache *cache)
{
    record_of(cache, "aaaabbbbyyyy")->group_mask &= 2;
}
static void point_at_another_block(icp_cache *cache)
{
    icp_tree_link(&cache->tree, node_of(cache, "aaaabbbbyyyy"))->blocks[0] ^= 1;
}
static void lose_a_node(icp_cache *cache)
{
    cache->tree.node_count--;
}
static void promote_a_duplicate(icp_cache *cache)
{
    for (uint32_t i = 0; i < cache->pools[0].block_count; i++) {
        cache->pools[0].blocks[i].flags &= (uint8_t)~ICP_BLOCK_IS_DUPLICATE;
    }
}
static void change_a_table(icp_cache *cache)
{
    icp_lease_row(cache, first_lease(cache), 0)[1] ^= 1;
}
static void lengthen_a_path(icp_cache *cache)
{
    first_lease(cache)->published++;
}
static void lose_a_lease(icp_cache *cache)
{
    cache->leases.count--;
}
static void miscount_a_scope(icp_cache *cache)
{
    cache->tree.scopes.records[0].lease_count++;
}
static void miscount_extras(icp_cache *cache)
{
    cache->tree.extras.item_count++;
}

typedef struct damage {
    const char *name;
    void (*act)(icp_cache *cache);
} damage;

#define DAMAGE(act) \
    {               \
#act, act   \
    }

static const damage damages[] = {
    DAMAGE(lose_a_reference),    DAMAGE(invent_a_reference),  DAMAGE(hold_a_free_block),      DAMAGE(lose_a_pin),
    DAMAGE(break_a_link),        DAMAGE(cut_the_queue),       DAMAGE(miscount_spare),         DAMAGE(miscount_shared),
    DAMAGE(miscount_private),    DAMAGE(miscount_duplicates), DAMAGE(charge_another),         DAMAGE(overcharge),
    DAMAGE(miscount_evictable),  DAMAGE(crown_a_loser),       DAMAGE(change_a_token),         DAMAGE(change_a_hash),
    DAMAGE(change_a_depth),      DAMAGE(change_a_scope),      DAMAGE(orphan_a_node),          DAMAGE(swap_siblings),
    DAMAGE(unmark_in_index),     DAMAGE(lose_a_full_block),   DAMAGE(point_at_another_block), DAMAGE(lose_a_node),
    DAMAGE(promote_a_duplicate), DAMAGE(change_a_table),      DAMAGE(lengthen_a_path),        DAMAGE(lose_a_lease),
    DAMAGE(miscount_a_scope),    DAMAGE(miscount_extras),
};

static void every_kind_of_damage_is_found(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(damages) / sizeof(damages[0]); i++) {
        icp_cache *cache = full_world();
        icp_error error = {""};
        damages[i].act(cache);
        if (icp_cache_check(cache, &error) != ICP_CORRUPT) fail_msg("not found: %s", damages[i].name);
        assert_true(strlen(error.text) > 0);
        icp_cache_close(cache);
    }
}

/* ---- One call at a time --------------------------------------------------------------------------------------- */

static void call_back_into(void *context, const icp_event *event)
{
    (void)event;
    icp_cache_stats stats;
    icp_cache_stats_init(&stats);
    (void)!icp_cache_statistics(*(icp_cache **)context, &stats);
}

/* Overlapping calls, from another thread or from the event callback, stop a debug build. */
static void a_call_from_inside_a_call_stops_a_debug_build(void **state)
{
    (void)state;
#if !defined(ICP_DEBUG) || !ICP_DEBUG
    skip(); /* release builds do not look */
#endif
    pid_t child = fork();
    if (child == 0) {
        icp_cache *cache = NULL;
        icp_cache_options options = world_options(8, 4);
        options.event = call_back_into;
        options.event_context = &cache;
        if (freopen("/dev/null", "w", stderr) == NULL || icp_cache_open(&cache, &options, NULL) != ICP_OK) _exit(1);
        signal(SIGABRT, SIG_DFL);
        world_run(cache, 0, "abcd");
        _exit(0);
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status));
    assert_int_equal(WTERMSIG(status), SIGABRT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_kind_of_damage_is_found),
        cmocka_unit_test(a_call_from_inside_a_call_stops_a_debug_build),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
