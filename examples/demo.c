/* demo.c - a minute with the cache: two requests share a prompt, an eviction, an explained miss. Run by `make run`.
 *
 * Every block of the pool is drawn as a cell:  .  spare   o  cached   1  held once   2  shared   p  private. */
#include <incipit/cache.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { BLOCKS = 24, BLOCK_TOKENS = 8 };

static int has_colour;

static void must(icp_status status)
{
    if (status != ICP_OK) exit((fprintf(stderr, "%s\n", icp_status_text(status)), 1));
}

/* One token a character: a tokenizer would do better, but this can be read. */
static icp_text text_of(const char *prompt)
{
    static uint32_t tokens[1024];
    size_t count = strlen(prompt);
    for (size_t i = 0; i < count; i++) tokens[i] = (unsigned char)prompt[i];
    return (icp_text){.tokens = tokens, .token_count = count};
}

static void draw_pool(const icp_cache *cache)
{
    static const char *const cells[] = {"\033[2m.", "\033[34mo", "\033[32m1", "\033[33m2", "\033[31mp", "\033[31md"};
    printf("  blocks  ");
    for (uint32_t i = 0; i < BLOCKS; i++) {
        icp_block_info info;
        must(icp_block_inspect(cache, 0, i, &info));
        printf("%s%s", cells[info.state] + (has_colour ? 0 : strlen(cells[info.state]) - 1),
               has_colour ? "\033[0m" : "");
    }
    printf("   . spare  o cached  1 held  2 shared  p private\n");
}

/* The prompt with what is reused in colour, or in brackets. */
static void draw_prompt(const char *prompt, uint32_t cached)
{
    printf("  prompt  %s%.*s%s%s\n", has_colour ? "\033[32m" : "[", (int)cached, prompt, has_colour ? "\033[0m" : "]",
           prompt + cached);
}

static icp_lease start(icp_cache *cache, const char *prompt)
{
    icp_request request = {.text = text_of(prompt)};
    icp_lease lease;
    icp_hit hit;
    icp_copy copy;
    must(icp_cache_match(cache, &request, &lease, &hit));
    must(icp_lease_extend(cache, lease, (uint32_t)request.text.token_count));
    must(icp_lease_tail(cache, lease, 0, &copy));
    must(icp_lease_publish(cache, lease, &request.text));
    draw_prompt(prompt, hit.cached_tokens);
    printf("  %u of %zu tokens reused: %u in whole blocks, %u copied out of another request's block\n",
           hit.cached_tokens, request.text.token_count, hit.block_tokens_hit, hit.tail_tokens_hit);
    draw_pool(cache);
    return lease;
}

static void explain(const icp_cache *cache, const char *prompt)
{
    icp_request request = {.text = text_of(prompt)};
    icp_explanation explanation;
    char text[256];
    icp_explanation_init(&explanation);
    must(icp_cache_explain(cache, &request, 0, &explanation));
    icp_explanation_text(&explanation, text, sizeof(text));
    draw_prompt(prompt, explanation.hit.cached_tokens);
    printf("  why     %s\n", text);
    if (explanation.why == ICP_WHY_DIVERGES) {
        printf("          (in letters: cached '%c', asked '%c')\n", (char)explanation.cached[0],
               (char)explanation.asked[0]);
    }
}

int main(void)
{
    icp_cache_options options;
    icp_cache *cache;
    has_colour = isatty(STDOUT_FILENO);
    icp_cache_options_init(&options);
    options.block_count = BLOCKS;
    options.block_tokens = BLOCK_TOKENS;
    options.lease_count_max = 4;
    options.lease_tokens_max = 1024;
    must(icp_cache_open(&cache, &options, NULL));
    printf("libincipit %s: a pool of %d blocks, %d tokens each, %zu bytes of bookkeeping\n", icp_version(), BLOCKS,
           BLOCK_TOKENS, icp_cache_size(&options));

    printf("\n1. The first request computes all of its prompt.\n");
    must(icp_cache_tick(cache, 1));
    icp_lease one = start(cache, "You are a helpful assistant. Answer briefly. What is a radix tree?");

    printf("\n2. A second one begins alike. What they share is computed once, to the token.\n");
    must(icp_cache_tick(cache, 2));
    icp_lease two = start(cache, "You are a helpful assistant. Answer briefly. What is paged attention?");

    printf("\n3. Both end. Their blocks stay cached, to be evicted last block first.\n");
    must(icp_lease_release(cache, one));
    must(icp_lease_release(cache, two));
    draw_pool(cache);

    printf(
        "\n4. A long request needs more blocks than are spare: the oldest ends of texts go, their beginnings stay.\n");
    must(icp_cache_tick(cache, 300));
    icp_lease three =
        start(cache, "Summarise the following report in three sentences, and do not leave out the figures: "
                     "the quarter began slowly, then the new plant came on stream and output rose.");
    must(icp_lease_release(cache, three));

    printf("\n5. Why did my prompt not hit?\n");
    must(icp_cache_tick(cache, 1000));
    explain(cache, "You are a helpful assistant. Answer briefly. What is a radix tree?");
    explain(cache, "You are a helpful Assistant. Answer briefly. What is a radix tree?");

    icp_cache_stats stats;
    icp_cache_stats_init(&stats);
    must(icp_cache_statistics(cache, &stats));
    printf("\n%llu tokens asked for, %llu reused in whole blocks, %llu in tails; %llu blocks evicted; check: %s\n",
           (unsigned long long)stats.queried_tokens, (unsigned long long)stats.hit_tokens,
           (unsigned long long)stats.tail_tokens, (unsigned long long)stats.evicted_count,
           icp_status_text(icp_cache_check(cache, NULL)));
    icp_cache_close(cache);
    return 0;
}
