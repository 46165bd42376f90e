/* world.h - a small world for one test: a cache, texts from letters, tables as text.
 *
 * Texts are written as strings, one token a character, so that a test reads like the examples of the documentation:
 * "ABCDEF" with blocks of four is one full block and two tokens. Every call through DO() must succeed and leave a cache
 * that passes its own check. */
#ifndef ICP_TESTS_WORLD_H
#define ICP_TESTS_WORLD_H

#include "incipit/cache.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define WORLD_TOKENS_MAX 4096u

typedef struct world_text {
    uint32_t tokens[WORLD_TOKENS_MAX];
    icp_text text;
} world_text;

/* Blocks of block_tokens, an otherwise default cache of LRU order without tails: the seeds' world. */
icp_cache_options world_options(uint32_t block_count, uint32_t block_tokens);
icp_cache *world_open(const icp_cache_options *options);

/* A text of letters; of numbers first, first + 1, ... */
void world_letters(world_text *text, const char *letters);
void world_numbers(world_text *text, uint32_t first, size_t count);

/* Match, extend to the whole text, publish it. */
icp_lease world_run(icp_cache *cache, icp_scope scope, const char *letters);
/* The same and released at once. */
void world_cache_text(icp_cache *cache, icp_scope scope, const char *letters);
icp_lease world_match(icp_cache *cache, icp_scope scope, const char *letters, uint32_t flags, icp_hit *hit);
void world_publish(icp_cache *cache, icp_lease lease, const char *letters);

/* Private blocks for so many tokens, taken from whoever loses them: pressure. */
icp_lease world_hold(icp_cache *cache, icp_scope scope, uint32_t token_count);
/* Tokens of a text that a match would give now; nothing is changed. */
uint32_t world_cached(const icp_cache *cache, icp_scope scope, const char *letters);
icp_scope world_tenant(icp_cache *cache, const char *tenant);
/* The next of a sequence of random numbers. */
uint32_t world_random(uint64_t *seed);

void world_check(const icp_cache *cache);
void world_assert_table(const icp_cache *cache, icp_lease lease, uint32_t group, const char *expected);
void world_assert_queue(const icp_cache *cache, uint32_t group, const char *expected);
icp_cache_stats world_stats(const icp_cache *cache);
icp_block_state world_state(const icp_cache *cache, uint32_t group, uint32_t block);
icp_explanation world_explain(const icp_cache *cache, icp_scope scope, const char *letters, uint32_t flags);

#define DO(cache, call)                                       \
    do {                                                      \
        assert_string_equal(icp_status_name(call), "ICP_OK"); \
        world_check(cache);                                   \
    } while (0)

/* The call must answer with this status and change nothing that can be seen. */
#define REFUSED(cache, status, call)                                            \
    do {                                                                        \
        icp_cache_stats world_before = world_stats(cache);                      \
        assert_string_equal(icp_status_name(call), icp_status_name(status));    \
        icp_cache_stats world_after = world_stats(cache);                       \
        world_after.full_count = world_before.full_count;                       \
        assert_memory_equal(&world_before, &world_after, sizeof(world_before)); \
        world_check(cache);                                                     \
    } while (0)

#endif
