/* world.c - caches, texts and assertions for the tests. */
#include "world.h"

#include <stdio.h>
#include <string.h>

icp_cache_options world_options(uint32_t block_count, uint32_t block_tokens)
{
    icp_cache_options options;
    icp_cache_options_init(&options);
    options.block_count = block_count;
    options.block_tokens = block_tokens;
    options.policy = ICP_POLICY_LRU;
    options.tail_tokens_min = ICP_TAIL_OFF;
    options.lease_tokens_max = 1024;
    options.lease_count_max = 16;
    return options;
}

icp_cache *world_open(const icp_cache_options *options)
{
    icp_cache *cache = NULL;
    icp_error error;
    if (icp_cache_open(&cache, options, &error) != ICP_OK) fail_msg("open: %s", error.text);
    world_check(cache);
    return cache;
}

void world_check(const icp_cache *cache)
{
    icp_error error;
    if (icp_cache_check(cache, &error) != ICP_OK) fail_msg("check: %s", error.text);
}

void world_letters(world_text *text, const char *letters)
{
    size_t count = strlen(letters);
    assert_true(count <= WORLD_TOKENS_MAX);
    for (size_t i = 0; i < count; i++) text->tokens[i] = (uint8_t)letters[i];
    text->text = (icp_text){.tokens = text->tokens, .token_count = count};
}

void world_numbers(world_text *text, uint32_t first, size_t count)
{
    assert_true(count <= WORLD_TOKENS_MAX);
    for (size_t i = 0; i < count; i++) text->tokens[i] = first + (uint32_t)i;
    text->text = (icp_text){.tokens = text->tokens, .token_count = count};
}

icp_lease world_match(icp_cache *cache, icp_scope scope, const char *letters, uint32_t flags, icp_hit *hit)
{
    world_text text;
    icp_lease lease = 0;
    world_letters(&text, letters);
    icp_request request = {.text = text.text, .scope = scope, .flags = flags};
    DO(cache, icp_cache_match(cache, &request, &lease, hit));
    return lease;
}

void world_publish(icp_cache *cache, icp_lease lease, const char *letters)
{
    world_text text;
    world_letters(&text, letters);
    DO(cache, icp_lease_extend(cache, lease, (uint32_t)text.text.token_count));
    DO(cache, icp_lease_publish(cache, lease, &text.text));
}

icp_lease world_run(icp_cache *cache, icp_scope scope, const char *letters)
{
    icp_lease lease = world_match(cache, scope, letters, 0, NULL);
    world_publish(cache, lease, letters);
    return lease;
}

void world_cache_text(icp_cache *cache, icp_scope scope, const char *letters)
{
    DO(cache, icp_lease_release(cache, world_run(cache, scope, letters)));
}

icp_lease world_hold(icp_cache *cache, icp_scope scope, uint32_t token_count)
{
    uint32_t token = 0;
    icp_lease lease = 0;
    icp_request request = {
        .text = {&token, 1, NULL, 0}, .scope = scope, .flags = ICP_NO_READ | ICP_NO_STORE | ICP_UNCOUNTED};
    DO(cache, icp_cache_match(cache, &request, &lease, NULL));
    DO(cache, icp_lease_extend(cache, lease, token_count));
    return lease;
}

uint32_t world_cached(const icp_cache *cache, icp_scope scope, const char *letters)
{
    return world_explain(cache, scope, letters, 0).hit.cached_tokens;
}

icp_scope world_tenant(icp_cache *cache, const char *tenant)
{
    icp_scope scope = 0;
    DO(cache, icp_scope_open(cache, &(icp_scope_key){.tenant = tenant}, &scope));
    return scope;
}

/* splitmix64 */
uint32_t world_random(uint64_t *seed)
{
    uint64_t x = *seed += UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    return (uint32_t)(x >> 32);
}

/* Numbers as "3 4 -", a dash for no block. */
static void numbers_print(char *out, size_t bytes, const uint32_t *numbers, size_t count)
{
    size_t used = 0;
    out[0] = 0;
    for (size_t i = 0; i < count && used < bytes; i++) {
        const char *space = i == 0 ? "" : " ";
        int length = numbers[i] == ICP_BLOCK_NONE ? snprintf(out + used, bytes - used, "%s-", space)
                                                  : snprintf(out + used, bytes - used, "%s%u", space, numbers[i]);
        used += (size_t)length;
    }
}

void world_assert_table(const icp_cache *cache, icp_lease lease, uint32_t group, const char *expected)
{
    const uint32_t *blocks = NULL;
    uint32_t count = 0;
    char text[4096];
    assert_int_equal(icp_lease_table(cache, lease, group, &blocks, &count), ICP_OK);
    numbers_print(text, sizeof(text), blocks, count);
    assert_string_equal(text, expected);
}

void world_assert_queue(const icp_cache *cache, uint32_t group, const char *expected)
{
    uint32_t blocks[1024];
    size_t count = 0;
    char text[4096];
    assert_int_equal(icp_cache_queue(cache, group, blocks, 1024, &count), ICP_OK);
    assert_true(count <= 1024);
    numbers_print(text, sizeof(text), blocks, count);
    assert_string_equal(text, expected);
}

icp_cache_stats world_stats(const icp_cache *cache)
{
    icp_cache_stats stats;
    icp_cache_stats_init(&stats);
    assert_int_equal(icp_cache_statistics(cache, &stats), ICP_OK);
    return stats;
}

icp_block_state world_state(const icp_cache *cache, uint32_t group, uint32_t block)
{
    icp_block_info info;
    assert_int_equal(icp_block_inspect(cache, group, block, &info), ICP_OK);
    return info.state;
}

icp_explanation world_explain(const icp_cache *cache, icp_scope scope, const char *letters, uint32_t flags)
{
    world_text text;
    icp_explanation explanation;
    world_letters(&text, letters);
    icp_explanation_init(&explanation);
    icp_request request = {.text = text.text, .scope = scope};
    assert_int_equal(icp_cache_explain(cache, &request, flags, &explanation), ICP_OK);
    return explanation;
}
