/* test_collision.c - texts whose internal hashes collide all the time are never served for one another.
 *
 * With hash_bits = 1 every other node has the same hash, so that only the comparison of tokens, extras and scopes
 * stands between one request and another's KV. The tests keep what was written to each block, as an engine would, and
 * look at every block that a match hands out. */
#include "world.h"

#include <stdbool.h>
#include <string.h>

#define BLOCK_TOKENS 4u
#define TEXT_BLOCKS_MAX 5u
#define TEXT_TOKENS_MAX (TEXT_BLOCKS_MAX * BLOCK_TOKENS + 1)
#define SCOPE_COUNT 4u
#define BLOCK_COUNT_MAX 8192u
#define TEXT_COUNT 3000u

/* A text with at most one image over it. */
typedef struct prompt {
    uint32_t scope; /* index */
    uint32_t count;
    uint32_t tokens[TEXT_TOKENS_MAX];
    icp_extra image; /* length 0: none */
} prompt;

/* What the KV of a block was computed from: all of the prompt up to its end. */
typedef struct content {
    prompt prompt;
    uint32_t end; /* 0: nothing */
} content;

typedef struct engine {
    icp_cache *cache;
    icp_scope scopes[SCOPE_COUNT];
    uint64_t seed;
    bool has_images;
    content blocks[BLOCK_COUNT_MAX];
    prompt published[TEXT_COUNT];
    uint32_t published_count;
} engine;

static engine *engine_open(uint32_t hash_bits, uint32_t block_count, bool has_images)
{
    static engine self;
    static const char *salts[SCOPE_COUNT] = {"", "one", "two", "three"};
    memset(&self, 0, sizeof(self));
    icp_cache_options options = world_options(block_count, BLOCK_TOKENS);
    options.hash_bits = hash_bits;
    options.tail_tokens_min = 1;
    options.lease_tokens_max = 64;
    options.extra_count_max = BLOCK_COUNT_MAX;
    self.cache = world_open(&options);
    self.seed = hash_bits * 1000 + has_images;
    self.has_images = has_images;
    print_message("seed %d\n", (int)self.seed);
    for (uint32_t i = 0; i < SCOPE_COUNT; i++) {
        DO(self.cache, icp_scope_open(self.cache, &(icp_scope_key){.salt = salts[i]}, &self.scopes[i]));
    }
    return &self;
}

static prompt prompt_draw(engine *self)
{
    static const char *ids[] = {"cat", "dog", "dogs"};
    prompt drawn = {.scope = world_random(&self->seed) % SCOPE_COUNT};
    drawn.count = 1 + world_random(&self->seed) % TEXT_TOKENS_MAX;
    for (uint32_t i = 0; i < drawn.count; i++) drawn.tokens[i] = world_random(&self->seed) % 16 < 13;
    if (self->has_images && world_random(&self->seed) % 2 == 0) {
        const char *id = ids[world_random(&self->seed) % 3];
        drawn.image =
            (icp_extra){world_random(&self->seed) % drawn.count, 1 + world_random(&self->seed) % 6, id, strlen(id)};
    }
    return drawn;
}

static icp_request prompt_request(const engine *self, const prompt *asked)
{
    return (icp_request){.text = {asked->tokens, asked->count, &asked->image, asked->image.length != 0},
                         .scope = self->scopes[asked->scope]};
}

static bool is_image_over(const prompt *text, uint32_t position)
{
    return text->image.length != 0 && text->image.position <= position &&
           position < text->image.position + text->image.length;
}

/* The same token, and the same image at the same offset over it (an image's length is part of what it is). */
static bool is_same_at(const prompt *a, const prompt *b, uint32_t position)
{
    if (a->tokens[position] != b->tokens[position]) return false;
    if (is_image_over(a, position) != is_image_over(b, position)) return false;
    if (!is_image_over(a, position)) return true;
    return a->image.position == b->image.position && a->image.length == b->image.length &&
           a->image.id_bytes == b->image.id_bytes && memcmp(a->image.id, b->image.id, a->image.id_bytes) == 0;
}

/* True where KV computed for one serves the other up to end. */
static bool is_same_to(const prompt *a, const prompt *b, uint32_t end)
{
    if (a->scope != b->scope || a->count < end || b->count < end) return false;
    for (uint32_t i = 0; i < end; i++) {
        if (!is_same_at(a, b, i)) return false;
    }
    return true;
}

static void assert_served_its_own(const engine *self, const prompt *asked, icp_lease lease, const icp_hit *hit)
{
    const uint32_t *table = NULL;
    uint32_t count = 0;
    assert_int_equal(icp_lease_table(self->cache, lease, 0, &table, &count), ICP_OK);
    assert_int_equal(count * BLOCK_TOKENS, hit->block_tokens_hit);
    assert_true(hit->cached_tokens < asked->count);
    for (uint32_t i = 0; i < count; i++) {
        const content *held = &self->blocks[table[i]];
        assert_int_equal(held->end, (i + 1) * BLOCK_TOKENS);
        assert_true(is_same_to(&held->prompt, asked, held->end));
    }
}

static void assert_tail_is_its_own(const engine *self, const prompt *asked, icp_lease lease, const icp_hit *hit)
{
    icp_copy copy;
    assert_int_equal(icp_lease_tail(self->cache, lease, 0, &copy), ICP_OK);
    assert_int_equal(copy.positions, hit->tail_tokens_hit);
    if (copy.positions == 0) return;
    assert_true(is_same_to(&self->blocks[copy.from].prompt, asked, hit->cached_tokens));
}

/* One request from match to release; its KV is written where it says so. False: the pool was too small. */
static icp_hit engine_serve(engine *self, const prompt *asked)
{
    icp_request request = prompt_request(self, asked);
    icp_lease lease = 0;
    icp_hit hit;
    assert_int_equal(icp_cache_match(self->cache, &request, &lease, &hit), ICP_OK);
    assert_served_its_own(self, asked, lease, &hit);
    assert_int_equal(icp_lease_extend(self->cache, lease, asked->count), ICP_OK);
    assert_tail_is_its_own(self, asked, lease, &hit);

    const uint32_t *table = NULL;
    uint32_t count = 0;
    assert_int_equal(icp_lease_table(self->cache, lease, 0, &table, &count), ICP_OK);
    for (uint32_t i = hit.block_tokens_hit / BLOCK_TOKENS; i < count; i++) {
        self->blocks[table[i]] = (content){*asked, (i + 1) * BLOCK_TOKENS};
    }
    assert_int_equal(icp_lease_publish(self->cache, lease, &request.text), ICP_OK);
    assert_int_equal(icp_lease_release(self->cache, lease), ICP_OK);
    return hit;
}

/* Whole-block tokens that some published text has in common with this one, short of its last token. */
static uint32_t best_published(const engine *self, const prompt *asked)
{
    uint32_t best = 0;
    for (uint32_t i = 0; i < self->published_count; i++) {
        while (best + BLOCK_TOKENS < asked->count) {
            if (self->published[i].count < best + BLOCK_TOKENS) break;
            if (!is_same_to(&self->published[i], asked, best + BLOCK_TOKENS)) break;
            best += BLOCK_TOKENS;
        }
    }
    return best;
}

/* Nothing is evicted: a match gives what was published, no more and no less. */
static void serve_and_compare(uint32_t hash_bits, bool has_images)
{
    engine *self = engine_open(hash_bits, BLOCK_COUNT_MAX, has_images);
    for (uint32_t i = 0; i < TEXT_COUNT; i++) {
        prompt asked = prompt_draw(self);
        icp_hit hit = engine_serve(self, &asked);
        if (i % 4 == 0) assert_int_equal(hit.block_tokens_hit, best_published(self, &asked));
        self->published[self->published_count++] = asked;
        if (i % 50 == 0) DO(self->cache, icp_cache_tick(self->cache, i));
    }
    assert_int_equal(world_stats(self->cache).evicted_count, 0);
    assert_int_equal(world_stats(self->cache).refused_count, 0);
    assert_true(world_stats(self->cache).hit_tokens > TEXT_COUNT);
    assert_true(world_stats(self->cache).tail_tokens > TEXT_COUNT / 4);
    icp_cache_close(self->cache);
}

static void serve_and_evict(uint32_t hash_bits, bool has_images)
{
    engine *self = engine_open(hash_bits, 200, has_images);
    for (uint32_t i = 0; i < 4 * TEXT_COUNT; i++) {
        prompt asked = prompt_draw(self);
        engine_serve(self, &asked);
        if (i % 50 == 0) DO(self->cache, icp_cache_tick(self->cache, i));
    }
    assert_true(world_stats(self->cache).evicted_count > TEXT_COUNT);
    assert_true(world_stats(self->cache).hit_tokens > TEXT_COUNT);
    icp_cache_close(self->cache);
}

static void with_one_bit_of_hash_a_match_gives_exactly_what_was_published(void **state)
{
    (void)state;
    serve_and_compare(1, false);
}

static void with_eight_bits_of_hash_a_match_gives_exactly_what_was_published(void **state)
{
    (void)state;
    serve_and_compare(8, false);
}

static void colliding_images_and_scopes_are_never_taken_for_one_another(void **state)
{
    (void)state;
    serve_and_compare(1, true);
    serve_and_compare(8, true);
}

static void colliding_texts_are_told_apart_while_the_pool_turns_over(void **state)
{
    (void)state;
    serve_and_evict(1, false);
    serve_and_evict(8, true);
}

/* The same tokens under every scope: each finds its own blocks and nobody else's. */
static void the_same_text_under_colliding_scopes_has_blocks_of_its_own(void **state)
{
    (void)state;
    engine *self = engine_open(1, 64, false);
    icp_lease leases[SCOPE_COUNT];
    for (uint32_t i = 0; i < SCOPE_COUNT; i++) {
        assert_int_equal(world_cached(self->cache, self->scopes[i], "aaaabbbbcccc"), 0);
        leases[i] = world_run(self->cache, self->scopes[i], "aaaabbbbcccc");
        assert_int_equal(world_cached(self->cache, self->scopes[i], "aaaabbbbccccd"), 12);
    }
    world_assert_table(self->cache, leases[0], 0, "0 1 2");
    world_assert_table(self->cache, leases[3], 0, "9 10 11");
    icp_cache_close(self->cache);
}

/* A hash of no use to eviction's memory either: what explain remembers of evicted texts is never served. */
static void an_evicted_text_is_a_miss_whatever_collides_with_it(void **state)
{
    (void)state;
    engine *self = engine_open(1, 4, false);
    world_cache_text(self->cache, 0, "aaaabbbb");
    world_cache_text(self->cache, 0, "ccccddddeeeeffff");
    assert_int_equal(world_cached(self->cache, 0, "aaaabbbbc"), 0);
    assert_int_equal(world_explain(self->cache, 0, "aaaabbbbc", 0).why, ICP_WHY_EVICTED);
    assert_int_equal(world_cached(self->cache, 0, "ccccddddeeeeffffg"), 16);
    icp_cache_close(self->cache);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(with_one_bit_of_hash_a_match_gives_exactly_what_was_published),
        cmocka_unit_test(with_eight_bits_of_hash_a_match_gives_exactly_what_was_published),
        cmocka_unit_test(colliding_images_and_scopes_are_never_taken_for_one_another),
        cmocka_unit_test(colliding_texts_are_told_apart_while_the_pool_turns_over),
        cmocka_unit_test(the_same_text_under_colliding_scopes_has_blocks_of_its_own),
        cmocka_unit_test(an_evicted_text_is_a_miss_whatever_collides_with_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
