/* test_event.c - what a subscriber is told: every change to what can be found, in order, and all of it on demand. */
#include "world.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#define RECORD_COUNT_MAX 256u
#define NODE_COUNT_MAX 4096u
#define TOKENS_MAX 16u
#define GROUPS_MAX 3u

/* An event as it was told: what its pointers pointed to is kept as well. */
typedef struct record {
    icp_event event;
    uint32_t blocks[GROUPS_MAX];
    uint32_t tokens[TOKENS_MAX];
    icp_extra extras[4];
    char ids[4][16];
} record;

typedef struct listener {
    uint32_t group_count;
    uint32_t count;
    record records[RECORD_COUNT_MAX];
} listener;

static void record_event(record *self, const icp_event *event, uint32_t group_count)
{
    memset(self, 0, sizeof(*self));
    self->event = *event;
    if (event->kind != ICP_EVENT_STORED) return;
    assert_true(event->text.token_count <= TOKENS_MAX && event->text.extra_count <= 4);
    memcpy(self->blocks, event->blocks, group_count * sizeof(uint32_t));
    memcpy(self->tokens, event->text.tokens, event->text.token_count * sizeof(uint32_t));
    for (size_t i = 0; i < event->text.extra_count; i++) {
        self->extras[i] = event->text.extras[i];
        memcpy(self->ids[i], self->extras[i].id, self->extras[i].id_bytes);
    }
}

static void listen(void *context, const icp_event *event)
{
    listener *self = context;
    assert_true(self->count < RECORD_COUNT_MAX);
    record_event(&self->records[self->count++], event, self->group_count);
}

static icp_cache_options listener_options(listener *self, uint32_t block_count)
{
    icp_cache_options options = world_options(block_count, 4);
    memset(self, 0, sizeof(*self));
    self->group_count = 1;
    options.event = listen;
    options.event_context = self;
    return options;
}

/* The events since the last call in short: "+0:aaaa" stored at 0, "-4" removed at 4, "x" cleared, "X" all cleared. */
static void assert_told(listener *self, const char *expected)
{
    char text[1024] = "";
    size_t used = 0;
    for (uint32_t i = 0; i < self->count; i++) {
        const icp_event *event = &self->records[i].event;
        const char *space = i == 0 ? "" : " ";
        if (event->kind == ICP_EVENT_CLEARED) {
            used += (size_t)snprintf(text + used, sizeof(text) - used, "%s%c", space, event->is_all ? 'X' : 'x');
            continue;
        }
        char sign = event->kind == ICP_EVENT_STORED ? '+' : '-';
        used += (size_t)snprintf(text + used, sizeof(text) - used, "%s%c%u", space, sign, event->position);
        if (event->kind != ICP_EVENT_STORED) continue;
        used += (size_t)snprintf(text + used, sizeof(text) - used, ":");
        for (size_t t = 0; t < event->text.token_count; t++) text[used++] = (char)self->records[i].tokens[t];
        text[used] = 0;
    }
    assert_string_equal(text, expected);
    self->count = 0;
}

/* ---- One event after the other ------------------------------------------------------------------------------- */

static void a_published_text_is_told_block_by_block(void **state)
{
    (void)state;
    listener told;
    icp_cache_options options = listener_options(&told, 8);
    icp_cache *cache = world_open(&options);
    icp_scope alice = world_tenant(cache, "alice");
    DO(cache, icp_cache_tick(cache, 7));
    world_run(cache, alice, "aaaabbbbc");
    const icp_event *one = &told.records[0].event;
    const icp_event *two = &told.records[1].event;
    assert_int_equal(told.count, 2);
    assert_int_equal(one->kind, ICP_EVENT_STORED);
    assert_int_equal(one->sequence, 1);
    assert_int_equal(two->sequence, 2);
    assert_int_equal(one->tick, 7);
    assert_int_equal(one->scope, alice);
    assert_int_equal(one->parent, ICP_NODE_NONE);
    assert_int_equal(two->parent, one->node);
    assert_int_not_equal(two->node, one->node);
    assert_int_equal(one->group_mask, 1);
    assert_int_equal(told.records[0].blocks[0], 0);
    assert_int_equal(told.records[1].blocks[0], 1);
    assert_int_equal(one->name.length, 0);
    icp_block_info info;
    DO(cache, icp_block_inspect(cache, 0, 1, &info));
    assert_int_equal(info.node, two->node);
    assert_told(&told, "+0:aaaa +4:bbbb");
    icp_cache_close(cache);
}

static void evictions_are_told_before_the_store_that_caused_them(void **state)
{
    (void)state;
    listener told;
    icp_cache_options options = listener_options(&told, 2);
    icp_cache *cache = world_open(&options);
    world_cache_text(cache, 0, "aaaabbbb");
    assert_told(&told, "+0:aaaa +4:bbbb");
    world_cache_text(cache, 0, "xxxxyyyy");
    assert_int_equal(told.records[0].event.sequence, 3);
    assert_int_equal(told.records[0].event.group_mask, 1);
    assert_told(&told, "-4 -0 +0:xxxx +4:yyyy");
    icp_cache_close(cache);
}

static void what_changes_nothing_to_be_found_is_not_told(void **state)
{
    (void)state;
    listener told;
    icp_cache_options options = listener_options(&told, 16);
    icp_cache *cache = world_open(&options);
    icp_lease lease = world_match(cache, 0, "aaaabbbb", ICP_NO_STORE, NULL);
    world_publish(cache, lease, "aaaabbbb");
    DO(cache, icp_lease_release(cache, lease));
    assert_told(&told, "");
    lease = world_run(cache, 0, "aaaabbbbc");
    assert_told(&told, "+0:aaaa +4:bbbb");
    icp_lease two = world_run(cache, 0, "aaaabbbb"); /* a duplicate */
    DO(cache, icp_lease_release(cache, two));
    DO(cache, icp_lease_truncate(cache, lease, 4));
    DO(cache, icp_lease_release(cache, lease));
    world_explain(cache, 0, "aaaabbbbc", 0);
    assert_told(&told, "");
    icp_cache_close(cache);
}

static void a_block_that_takes_over_is_told_as_stored(void **state)
{
    (void)state;
    listener told;
    icp_cache_options options = listener_options(&told, 8);
    icp_cache *cache = world_open(&options);
    icp_lease one = world_run(cache, 0, "aaaabbbb");
    icp_lease two = world_run(cache, 0, "aaaabbbb");
    assert_told(&told, "+0:aaaa +4:bbbb");
    DO(cache, icp_lease_release(cache, one));
    assert_int_equal(told.records[0].blocks[0], 2);
    assert_told(&told, "+4:bbbb");
    DO(cache, icp_lease_release(cache, two));
    assert_told(&told, "");
    world_cache_text(cache, 0, "aaaabbbb");
    assert_int_equal(told.records[0].blocks[0], 3);
    assert_told(&told, "+4:bbbb");
    icp_cache_close(cache);
}

static void a_step_taken_back_is_told_children_first(void **state)
{
    (void)state;
    listener told;
    icp_cache_options options = listener_options(&told, 8);
    icp_cache *cache = world_open(&options);
    icp_lease lease = world_run(cache, 0, "aaaabbbbcccc");
    told.count = 0;
    DO(cache, icp_lease_unpublish(cache, lease, 4));
    assert_told(&told, "-8 -4");
    icp_cache_close(cache);
}

static void a_clear_is_told_in_one_event(void **state)
{
    (void)state;
    listener told;
    icp_cache_options options = listener_options(&told, 16);
    icp_cache *cache = world_open(&options);
    icp_scope alice = world_tenant(cache, "alice");
    world_cache_text(cache, alice, "aaaabbbb");
    world_cache_text(cache, 0, "aaaabbbb");
    told.count = 0;
    DO(cache, icp_scope_clear(cache, alice));
    assert_int_equal(told.records[0].event.scope, alice);
    assert_int_equal(told.records[0].event.sequence, 5);
    assert_told(&told, "x");
    DO(cache, icp_cache_clear(cache));
    assert_int_equal(told.records[0].event.sequence, 6);
    assert_told(&told, "X");
    icp_cache_close(cache);
}

static void extras_are_told_with_positions_from_the_start_of_the_text(void **state)
{
    (void)state;
    listener told;
    icp_cache_options options = listener_options(&told, 16);
    icp_cache *cache = world_open(&options);
    world_text text;
    icp_lease lease = 0;
    world_letters(&text, "aaaabbbbccccd");
    const icp_extra extras[] = {{2, 4, "cat", 3}, {6, 1, "dog", 3}};
    icp_request request = {.text = {text.tokens, 13, extras, 2}};
    DO(cache, icp_cache_match(cache, &request, &lease, NULL));
    DO(cache, icp_lease_extend(cache, lease, 13));
    DO(cache, icp_lease_publish(cache, lease, &request.text));
    assert_int_equal(told.count, 3);
    assert_int_equal(told.records[0].event.text.extra_count, 1);
    assert_int_equal(told.records[1].event.text.extra_count, 2);
    assert_int_equal(told.records[2].event.text.extra_count, 0);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(told.records[1].extras[i].position, extras[i].position);
        assert_int_equal(told.records[1].extras[i].length, extras[i].length);
        assert_int_equal(told.records[1].extras[i].id_bytes, 3);
        assert_memory_equal(told.records[1].ids[i], extras[i].id, 3);
    }
    icp_cache_close(cache);
}

static void groups_that_go_are_told_by_their_mask(void **state)
{
    (void)state;
    listener told;
    const icp_group groups[] = {
        {.kind = ICP_GROUP_FULL}, {.kind = ICP_GROUP_WINDOW, .window = 5, .block_count = 3}, {.kind = ICP_GROUP_STATE}};
    icp_cache_options options = listener_options(&told, 8);
    options.groups = groups;
    options.group_count = told.group_count = 3;
    icp_cache *cache = world_open(&options);
    world_cache_text(cache, 0, "aaaabbbb");
    assert_int_equal(told.records[0].event.group_mask, 1 | 2);
    assert_int_equal(told.records[0].blocks[2], ICP_BLOCK_NONE);
    assert_int_equal(told.records[1].event.group_mask, 1 | 2 | 4);
    assert_int_equal(told.records[1].blocks[2], 2);
    assert_told(&told, "+0:aaaa +4:bbbb");

    icp_lease lease = world_hold(cache, 0, 8); /* group 1: a spare one and its last block of the text */
    assert_int_equal(told.records[0].event.group_mask, 2);
    assert_told(&told, "-4");
    DO(cache, icp_lease_extend(cache, lease, 12)); /* ... and the other one */
    assert_int_equal(told.records[0].event.group_mask, 2);
    assert_told(&told, "-0");
    DO(cache, icp_lease_release(cache, lease));
    lease = world_hold(cache, 0, 12);
    icp_lease other = world_match(cache, 0, "z", 0, NULL);
    DO(cache, icp_lease_truncate(cache, lease, 0));
    DO(cache, icp_lease_release(cache, lease));
    DO(cache, icp_lease_release(cache, other));
    told.count = 0;
    world_cache_text(cache, 0, "aaaabbbb"); /* both are back */
    assert_int_equal(told.records[0].event.group_mask & 2, 2);
    icp_cache_close(cache);
}

/* ---- Names --------------------------------------------------------------------------------------------------- */

static void names_in_events_are_those_of_the_chain(void **state)
{
    (void)state;
    const icp_scope_key key = {"model", "adapter", "tenant", "salt"};
    for (int kind = ICP_NAME_SHA256_CBOR; kind <= ICP_NAME_SHA256; kind++) {
        for (int has_seed = 0; has_seed < 2; has_seed++) {
            listener told;
            icp_cache_options options = listener_options(&told, 8);
            options.name_kind = (icp_name_kind)kind;
            options.name_seed = has_seed ? "42" : NULL;
            icp_cache *cache = world_open(&options);
            icp_scope scope = 0;
            world_text text;
            icp_name names[4];
            size_t count = 0;
            DO(cache, icp_scope_open(cache, &key, &scope));
            world_run(cache, scope, "aaaabbbbccccd");
            world_letters(&text, "aaaabbbbccccd");
            const icp_name_root root = {options.name_kind, options.name_seed, key, 4};
            DO(cache, icp_name_chain(&root, &text.text, names, 4, &count));
            assert_int_equal(count, 3);
            assert_int_equal(told.count, 3);
            for (uint32_t i = 0; i < 3; i++) {
                const icp_event *event = &told.records[i].event;
                assert_int_equal(event->name.length, kind == ICP_NAME_XXH3_CBOR ? 16 : 32);
                assert_int_equal(event->name.length, names[i].length);
                assert_memory_equal(event->name.bytes, names[i].bytes, names[i].length);
                if (i == 0) continue;
                assert_memory_equal(event->parent_name.bytes, names[i - 1].bytes, names[i].length);
            }
            assert_int_equal(told.records[0].event.parent_name.length, names[0].length);
            icp_cache_close(cache);
        }
    }
}

static bool has_bytes(const void *memory, size_t bytes, const char *text)
{
    for (size_t i = 0; i + strlen(text) <= bytes; i++) {
        if (memcmp((const char *)memory + i, text, strlen(text)) == 0) return true;
    }
    return false;
}

static void salts_are_never_told(void **state)
{
    (void)state;
    static listener told;
    icp_cache_options options = listener_options(&told, 4);
    options.name_kind = ICP_NAME_SHA256_CBOR;
    icp_cache *cache = world_open(&options);
    icp_scope scope = 0;
    DO(cache, icp_scope_open(cache, &(icp_scope_key){.salt = "secret"}, &scope));
    world_cache_text(cache, scope, "aaaabbbb");
    world_cache_text(cache, scope, "ccccddddeeee");
    DO(cache, icp_cache_dump(cache, listen, &told, NULL));
    DO(cache, icp_scope_clear(cache, scope));
    assert_true(told.count > 8);
    assert_false(has_bytes(&told, sizeof(told), "secret"));
    icp_cache_close(cache);
}

/* ---- A subscriber's set -------------------------------------------------------------------------------------- */

typedef struct known {
    uint32_t group_mask; /* 0: not known */
    record last;
} known;

typedef struct subscriber {
    uint32_t group_count;
    uint32_t block_tokens;
    uint64_t sequence;
    bool is_dump;
    known nodes[NODE_COUNT_MAX];
} subscriber;

static void subscriber_store(subscriber *self, const icp_event *event)
{
    known *node = &self->nodes[event->node];
    assert_int_not_equal(event->group_mask, 0);
    assert_int_equal(event->text.token_count, self->block_tokens);
    if (event->parent != ICP_NODE_NONE) {
        const icp_event *parent = &self->nodes[event->parent].last.event;
        assert_int_not_equal(self->nodes[event->parent].group_mask, 0); /* parents first */
        assert_int_equal(parent->position + self->block_tokens, event->position);
        assert_int_equal(parent->scope, event->scope);
    }
    node->group_mask |= event->group_mask;
    record_event(&node->last, event, self->group_count);
    for (uint32_t group = 0; group < self->group_count; group++) {
        if (node->group_mask & 1u << group) assert_int_not_equal(event->blocks[group], ICP_BLOCK_NONE);
    }
}

static void subscribe(void *context, const icp_event *event)
{
    subscriber *self = context;
    if (!self->is_dump) assert_int_equal(event->sequence, self->sequence + 1);
    self->sequence = event->sequence;
    if (event->kind == ICP_EVENT_STORED) {
        subscriber_store(self, event);
    } else if (event->kind == ICP_EVENT_REMOVED) {
        known *node = &self->nodes[event->node];
        assert_int_not_equal(event->group_mask, 0);
        assert_int_equal(node->group_mask & event->group_mask, event->group_mask);
        node->group_mask &= ~event->group_mask;
    } else {
        for (uint32_t i = 0; i < NODE_COUNT_MAX; i++) {
            if (event->is_all || self->nodes[i].last.event.scope == event->scope) self->nodes[i].group_mask = 0;
        }
    }
}

static void assert_dump_is(const icp_cache *cache, const subscriber *self)
{
    static subscriber dump;
    memset(&dump, 0, sizeof(dump));
    dump.group_count = self->group_count;
    dump.block_tokens = self->block_tokens;
    dump.is_dump = true;
    uint64_t sequence = 0;
    assert_int_equal(icp_cache_dump(cache, subscribe, &dump, &sequence), ICP_OK);
    assert_int_equal(sequence, self->sequence);
    for (uint32_t i = 0; i < NODE_COUNT_MAX; i++) {
        const known *a = &self->nodes[i];
        const known *b = &dump.nodes[i];
        assert_int_equal(a->group_mask, b->group_mask);
        if (a->group_mask == 0) continue;
        assert_int_equal(b->last.event.sequence, sequence);
        assert_int_equal(a->last.event.scope, b->last.event.scope);
        assert_int_equal(a->last.event.parent, b->last.event.parent);
        assert_int_equal(a->last.event.position, b->last.event.position);
        assert_memory_equal(a->last.tokens, b->last.tokens, sizeof(a->last.tokens));
        for (uint32_t group = 0; group < self->group_count; group++) {
            if (a->group_mask & 1u << group) assert_int_equal(a->last.blocks[group], b->last.blocks[group]);
        }
    }
}

/* Random requests in a pool that turns over, three at a time, with everything that can befall them. */
static void run_requests(icp_cache *cache, const subscriber *self, uint64_t seed)
{
    icp_scope scopes[2] = {0, world_tenant(cache, "alice")};
    icp_lease leases[3] = {0, 0, 0};
    print_message("seed %d\n", (int)seed);
    for (uint32_t i = 0; i < 3000; i++) {
        char letters[21] = {0};
        icp_lease *lease = &leases[world_random(&seed) % 3];
        uint32_t count = 1 + world_random(&seed) % 20;
        for (uint32_t j = 0; j < count; j++) letters[j] = world_random(&seed) % 8 == 0 ? 'b' : 'a';
        if (*lease == 0) {
            *lease = world_match(cache, scopes[world_random(&seed) % 2], letters, 0, NULL);
            if (icp_lease_extend(cache, *lease, count) == ICP_OK) world_publish(cache, *lease, letters);
        } else {
            if (world_random(&seed) % 4 == 0) DO(cache, icp_lease_unpublish(cache, *lease, count));
            DO(cache, icp_lease_release(cache, *lease));
            *lease = 0;
        }
        if (world_random(&seed) % 100 == 0) DO(cache, icp_scope_clear(cache, scopes[world_random(&seed) % 2]));
        if (world_random(&seed) % 400 == 0) DO(cache, icp_cache_clear(cache));
        if (i % 20 == 0) DO(cache, icp_cache_tick(cache, i));
        if (i % 10 == 0) assert_dump_is(cache, self);
    }
    assert_true(world_stats(cache).evicted_count > 100);
}

static void subscribe_and_run(const icp_group *groups, uint32_t group_count, uint64_t seed)
{
    static subscriber self;
    memset(&self, 0, sizeof(self));
    icp_cache_options options = world_options(20, 4);
    self.group_count = options.group_count = group_count;
    self.block_tokens = 4;
    options.groups = groups;
    options.event = subscribe;
    options.event_context = &self;
    icp_cache *cache = world_open(&options);
    run_requests(cache, &self, seed);
    icp_cache_close(cache);
}

static void a_dump_is_the_set_that_the_events_have_made(void **state)
{
    (void)state;
    const icp_group groups[] = {{.kind = ICP_GROUP_FULL},
                                {.kind = ICP_GROUP_WINDOW, .window = 6, .block_count = 16},
                                {.kind = ICP_GROUP_STATE, .block_count = 8}};
    subscribe_and_run(groups, 1, 41);
    subscribe_and_run(groups, 2, 42);
    subscribe_and_run(groups, 3, 43);
}

static void a_dump_asks_for_a_callback(void **state)
{
    (void)state;
    listener told;
    icp_cache_options options = listener_options(&told, 4);
    icp_cache *cache = world_open(&options);
    world_cache_text(cache, 0, "aaaabbbb");
    uint64_t sequence = 77;
    REFUSED(cache, ICP_BAD_ARGUMENT, icp_cache_dump(NULL, listen, &told, &sequence));
    REFUSED(cache, ICP_BAD_ARGUMENT, icp_cache_dump(cache, NULL, &told, &sequence));
    assert_int_equal(sequence, 77);
    told.count = 0;
    DO(cache, icp_cache_dump(cache, listen, &told, &sequence));
    assert_int_equal(sequence, 2);
    assert_int_equal(told.records[0].event.sequence, 2);
    assert_told(&told, "+0:aaaa +4:bbbb");
    icp_cache_close(cache);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_published_text_is_told_block_by_block),
        cmocka_unit_test(evictions_are_told_before_the_store_that_caused_them),
        cmocka_unit_test(what_changes_nothing_to_be_found_is_not_told),
        cmocka_unit_test(a_block_that_takes_over_is_told_as_stored),
        cmocka_unit_test(a_step_taken_back_is_told_children_first),
        cmocka_unit_test(a_clear_is_told_in_one_event),
        cmocka_unit_test(extras_are_told_with_positions_from_the_start_of_the_text),
        cmocka_unit_test(groups_that_go_are_told_by_their_mask),
        cmocka_unit_test(names_in_events_are_those_of_the_chain),
        cmocka_unit_test(salts_are_never_told),
        cmocka_unit_test(a_dump_is_the_set_that_the_events_have_made),
        cmocka_unit_test(a_dump_asks_for_a_callback),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
