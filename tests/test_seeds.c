/* test_seeds.c - the worked examples of the documents that this cache was built from, block for block. */
#include "world.h"

#include <stdbool.h>
#include <string.h>

/* Ten blocks of four tokens, six points in time. Request 0: 15 tokens. Request 1: 14, ten of them the same. Request 2:
 * 29, twelve of them the same as request 0's. */
static void the_six_time_steps_come_out_block_for_block(void **state)
{
    (void)state;
    icp_cache_options options = world_options(10, 4);
    icp_cache *cache = world_open(&options);

    /* Time 1: four blocks, three of them full and cached. */
    icp_lease zero = world_run(cache, 0, "abcdefghijklmno");
    world_assert_table(cache, zero, 0, "0 1 2 3");
    world_assert_queue(cache, 0, "4 5 6 7 8 9");
    assert_int_equal(world_state(cache, 0, 2), ICP_BLOCK_LEASED);
    assert_int_equal(world_state(cache, 0, 3), ICP_BLOCK_PRIVATE);

    /* Time 2: block 3 is full and cached, block 4 is taken to go on. */
    world_publish(cache, zero, "abcdefghijklmnopq");
    world_assert_table(cache, zero, 0, "0 1 2 3 4");
    assert_int_equal(world_state(cache, 0, 3), ICP_BLOCK_LEASED);

    /* Time 3: the first ten tokens are the same, two blocks hit. */
    icp_hit hit;
    icp_lease one = world_match(cache, 0, "abcdefghijKLMN", 0, &hit);
    assert_int_equal(hit.cached_tokens, 8);
    world_publish(cache, one, "abcdefghijKLMN");
    world_assert_table(cache, one, 0, "0 1 5 6");
    assert_int_equal(world_state(cache, 0, 0), ICP_BLOCK_SHARED);

    /* Time 4: request 0 is over. 4, 3, 2 are free, 3 and 2 still cached. */
    DO(cache, icp_lease_release(cache, zero));
    world_assert_queue(cache, 0, "7 8 9 4 3 2");
    assert_int_equal(world_state(cache, 0, 4), ICP_BLOCK_SPARE);
    assert_int_equal(world_state(cache, 0, 3), ICP_BLOCK_CACHED);

    /* Time 5: request 1 is over. */
    DO(cache, icp_lease_release(cache, one));
    world_assert_queue(cache, 0, "7 8 9 4 3 2 6 5 1 0");

    /* Time 6: three blocks hit and leave the queue before five are taken; the one that took 3 evicted it. */
    icp_lease two = world_match(cache, 0, "abcdefghijklABCDEFGHIJKLMNOPQ", 0, &hit);
    assert_int_equal(hit.cached_tokens, 12);
    world_assert_queue(cache, 0, "7 8 9 4 3 6 5");
    world_publish(cache, two, "abcdefghijklABCDEFGHIJKLMNOPQ");
    world_assert_table(cache, two, 0, "0 1 2 7 8 9 4 3");
    world_assert_queue(cache, 0, "6 5");
    assert_int_equal(world_stats(cache).evicted_count, 1);
    icp_cache_close(cache);
}

/* Block size 4, prompt ABCDEF, output GHI, and the same again. */
static icp_lease decode_ghi(icp_cache *cache)
{
    icp_lease lease = world_run(cache, 0, "ABCDEF");
    world_publish(cache, lease, "ABCDEFG");
    world_publish(cache, lease, "ABCDEFGH");
    return lease;
}

static void a_duplicated_block_is_kept_beside_the_first_one(void **state)
{
    (void)state;
    icp_cache_options options = world_options(10, 4);
    icp_cache *cache = world_open(&options);
    icp_lease one = decode_ghi(cache);
    world_publish(cache, one, "ABCDEFGHI");
    world_assert_table(cache, one, 0, "0 1 2");

    icp_lease two = decode_ghi(cache);
    world_assert_table(cache, two, 0, "0 3");
    assert_int_equal(world_state(cache, 0, 1), ICP_BLOCK_LEASED);
    assert_int_equal(world_state(cache, 0, 3), ICP_BLOCK_DUPLICATE);

    /* The duplication ends with the request. */
    DO(cache, icp_lease_release(cache, two));
    assert_int_equal(world_state(cache, 0, 3), ICP_BLOCK_SPARE);
    DO(cache, icp_lease_release(cache, one));
    assert_int_equal(world_state(cache, 0, 1), ICP_BLOCK_CACHED);
    icp_cache_close(cache);
}

static void a_duplicate_takes_over_when_the_first_holder_ends(void **state)
{
    (void)state;
    icp_cache_options options = world_options(10, 4);
    icp_cache *cache = world_open(&options);
    icp_lease one = decode_ghi(cache);
    icp_lease two = decode_ghi(cache);
    world_assert_table(cache, two, 0, "0 2");
    DO(cache, icp_lease_release(cache, one));
    assert_int_equal(world_state(cache, 0, 1), ICP_BLOCK_SPARE);
    assert_int_equal(world_state(cache, 0, 2), ICP_BLOCK_LEASED);
    DO(cache, icp_lease_release(cache, two));
    assert_int_equal(world_state(cache, 0, 2), ICP_BLOCK_CACHED);
    icp_cache_close(cache);
}

static void a_duplicated_block_is_given_up_for_the_first_one_when_adopting(void **state)
{
    (void)state;
    icp_cache_options options = world_options(10, 4);
    options.duplicates = ICP_DUPLICATES_ADOPT;
    icp_cache *cache = world_open(&options);
    icp_lease one = decode_ghi(cache);
    world_publish(cache, one, "ABCDEFGHI");
    icp_lease two = world_run(cache, 0, "ABCDEFG");
    world_assert_table(cache, two, 0, "0 3");
    world_publish(cache, two, "ABCDEFGH");
    world_assert_table(cache, two, 0, "0 1");
    assert_int_equal(world_state(cache, 0, 1), ICP_BLOCK_SHARED);
    assert_int_equal(world_state(cache, 0, 3), ICP_BLOCK_SPARE);
    icp_cache_close(cache);
}

/* Request 1 held blocks 2, 3, 4 and 8: they join the queue last block first. */
static void a_finished_request_frees_its_blocks_in_reverse_order(void **state)
{
    (void)state;
    icp_cache_options options = world_options(10, 4);
    icp_cache *cache = world_open(&options);
    icp_lease other = world_run(cache, 0, "xxxxyyyy");
    icp_lease one = world_run(cache, 0, "aaaabbbbcccc");
    icp_lease third = world_run(cache, 0, "ppppqqqqrrrr");
    world_publish(cache, one, "aaaabbbbccccdddd");
    world_assert_table(cache, one, 0, "2 3 4 8");
    DO(cache, icp_lease_release(cache, one));
    world_assert_queue(cache, 0, "9 8 4 3 2");
    DO(cache, icp_lease_release(cache, other));
    DO(cache, icp_lease_release(cache, third));
    icp_cache_close(cache);
}

static void requests_of_different_salts_share_nothing(void **state)
{
    (void)state;
    icp_cache_options options = world_options(16, 4);
    icp_cache *cache = world_open(&options);
    icp_scope salted, other;
    DO(cache, icp_scope_open(cache, &(icp_scope_key){.salt = "your-cache-salt"}, &salted));
    DO(cache, icp_scope_open(cache, &(icp_scope_key){.salt = "another-salt"}, &other));
    world_cache_text(cache, salted, "ABCDEFGHIJ");

    icp_hit hit;
    icp_lease lease = world_match(cache, other, "ABCDEFGHIJ", 0, &hit);
    assert_int_equal(hit.cached_tokens, 0);
    DO(cache, icp_lease_release(cache, lease));
    lease = world_match(cache, 0, "ABCDEFGHIJ", 0, &hit);
    assert_int_equal(hit.cached_tokens, 0);
    DO(cache, icp_lease_release(cache, lease));
    lease = world_match(cache, salted, "ABCDEFGHIJ", 0, &hit);
    assert_int_equal(hit.cached_tokens, 8);
    DO(cache, icp_lease_release(cache, lease));
    icp_cache_close(cache);
}

/* Blocks of 16; 8 tokens of text, 41 placeholders, and [/INST]: 50 tokens, four blocks, the image over all of them. */
static icp_hit image_prompt(icp_cache *cache, const char *image, bool is_published)
{
    static const uint32_t start[] = {1, 3, 7493, 1681, 1294, 1593, 3937, 9551};
    uint32_t tokens[64];
    size_t count = 0;
    for (; count < 8; count++) tokens[count] = start[count];
    for (; count < 49; count++) tokens[count] = 10;
    for (; count < 64; count++) tokens[count] = 4;
    icp_extra extra = {.position = 8, .length = 41, .id = image, .id_bytes = strlen(image)};
    icp_request request = {.text = {tokens, 64, &extra, 1}};
    icp_lease lease = 0;
    icp_hit hit;
    DO(cache, icp_cache_match(cache, &request, &lease, &hit));
    if (is_published) {
        DO(cache, icp_lease_extend(cache, lease, 64));
        DO(cache, icp_lease_publish(cache, lease, &request.text));
    }
    DO(cache, icp_lease_release(cache, lease));
    return hit;
}

static void placeholders_of_another_image_do_not_match(void **state)
{
    (void)state;
    icp_cache_options options = world_options(16, 16);
    icp_cache *cache = world_open(&options);
    assert_int_equal(image_prompt(cache, "image hash one", true).cached_tokens, 0);
    assert_int_equal(image_prompt(cache, "image hash one", true).cached_tokens, 48);
    assert_int_equal(image_prompt(cache, "image hash two", true).cached_tokens, 0);
    assert_int_equal(world_stats(cache).extra_count, 8);
    assert_int_equal(image_prompt(cache, "image hash two", true).cached_tokens, 48);
    icp_cache_close(cache);

    /* With tails, the text before the image is shared to the token. */
    options.tail_tokens_min = 1;
    cache = world_open(&options);
    image_prompt(cache, "image hash one", true);
    DO(cache, icp_cache_tick(cache, 1));
    icp_hit hit = image_prompt(cache, "image hash two", false);
    assert_int_equal(hit.block_tokens_hit, 0);
    assert_int_equal(hit.tail_tokens_hit, 8);
    icp_cache_close(cache);
}

/* Request 1 is [S1] + [A], request 2 is [S1] + [B]: S1, to the token, is computed once, and the branch grows there. */
static void a_branch_shares_its_trunk_to_the_token(void **state)
{
    (void)state;
    icp_cache_options options = world_options(16, 4);
    options.tail_tokens_min = 1;
    icp_cache *cache = world_open(&options);
    world_cache_text(cache, 0,
                     "sssssss"
                     "aaaaaaaaa");
    DO(cache, icp_cache_tick(cache, 1));

    icp_hit hit;
    icp_lease two = world_match(cache, 0,
                                "sssssss"
                                "bbbbbbbbb",
                                0, &hit);
    assert_int_equal(hit.cached_tokens, 7);
    assert_int_equal(hit.block_tokens_hit, 4);
    assert_int_equal(hit.tail_tokens_hit, 3);
    icp_copy copy;
    REFUSED(cache, ICP_NOT_FOUND, icp_lease_tail(cache, two, 0, &copy));
    world_publish(cache, two,
                  "sssssss"
                  "bbbbbbbbb");
    DO(cache, icp_lease_tail(cache, two, 0, &copy));
    assert_int_equal(copy.from, 1);
    assert_int_equal(copy.positions, 3);
    world_assert_table(cache, two, 0, "0 4 5 6");
    assert_int_equal(copy.to, 4);
    DO(cache, icp_lease_release(cache, two));

    DO(cache, icp_cache_tick(cache, 2));
    icp_lease three = world_match(cache, 0,
                                  "sssssss"
                                  "bbbbb"
                                  "c",
                                  0, &hit);
    assert_int_equal(hit.cached_tokens, 12);
    DO(cache, icp_lease_release(cache, three));
    icp_cache_close(cache);
}

/* Global blocks are there for the whole text, window blocks only here and there: the longest safe prefix is reused. */
static void a_hybrid_model_reuses_the_longest_prefix_with_a_valid_window(void **state)
{
    (void)state;
    icp_group groups[2] = {{.kind = ICP_GROUP_FULL}, {.kind = ICP_GROUP_WINDOW, .window = 8, .block_count = 6}};
    icp_cache_options options = world_options(32, 4);
    options.groups = groups;
    options.group_count = 2;
    icp_cache *cache = world_open(&options);
    world_cache_text(cache, 0, "aaaabbbbccccddddeeee");

    icp_hit hit;
    icp_lease lease = world_match(cache, 0, "aaaabbbbccccddddeeeef", 0, &hit);
    assert_int_equal(hit.cached_tokens, 20);
    world_assert_table(cache, lease, 0, "0 1 2 3 4");
    world_assert_table(cache, lease, 1, "- - - 3 4");
    DO(cache, icp_lease_release(cache, lease));

    /* Three window blocks are needed elsewhere: 5 is spare, then the queue has 2, 1, 0 of the middle of the text. */
    world_cache_text(cache, 0, "xxxxyyyyzzzz");
    lease = world_match(cache, 0, "aaaabbbbccccddddeeeef", 0, &hit);
    assert_int_equal(hit.cached_tokens, 20);
    DO(cache, icp_lease_release(cache, lease));
    lease = world_match(cache, 0, "aaaabbbbccccddddeEEE", 0, &hit);
    assert_int_equal(hit.cached_tokens, 4);
    DO(cache, icp_lease_release(cache, lease));
    icp_explanation why = world_explain(cache, 0, "aaaabbbbccccddddeEEE", 0);
    assert_int_equal(why.why, ICP_WHY_GROUP);
    assert_int_equal(why.group, 1);
    assert_int_equal(why.text_tokens, 16);
    icp_cache_close(cache);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_six_time_steps_come_out_block_for_block),
        cmocka_unit_test(a_duplicated_block_is_kept_beside_the_first_one),
        cmocka_unit_test(a_duplicate_takes_over_when_the_first_holder_ends),
        cmocka_unit_test(a_duplicated_block_is_given_up_for_the_first_one_when_adopting),
        cmocka_unit_test(a_finished_request_frees_its_blocks_in_reverse_order),
        cmocka_unit_test(requests_of_different_salts_share_nothing),
        cmocka_unit_test(placeholders_of_another_image_do_not_match),
        cmocka_unit_test(a_branch_shares_its_trunk_to_the_token),
        cmocka_unit_test(a_hybrid_model_reuses_the_longest_prefix_with_a_valid_window),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
