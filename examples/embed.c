/* embed.c - the five calls, in the order in which an engine makes them for one request. */
#include <incipit/cache.h>

#include <stdio.h>
#include <stdlib.h>

/* An engine does something better than this. */
static void must(icp_status status)
{
    if (status == ICP_OK) return;
    fprintf(stderr, "%s: %s\n", icp_status_name(status), icp_status_text(status));
    exit(1);
}

/* Serves one prompt; tells how much of it need not be computed. */
static void serve(icp_cache *cache, uint64_t step, const uint32_t *tokens, uint32_t token_count)
{
    must(icp_cache_tick(cache, step)); /* once per engine step */

    icp_request request = {.text = {.tokens = tokens, .token_count = token_count}};
    icp_lease lease;
    icp_hit hit;
    must(icp_cache_match(cache, &request, &lease, &hit));

    must(icp_lease_extend(cache, lease, token_count)); /* ICP_FULL: release the lease, try again later */

    const uint32_t *blocks;
    uint32_t block_count;
    must(icp_lease_table(cache, lease, 0, &blocks, &block_count));
    printf("%u tokens, %u cached; blocks:", token_count, hit.cached_tokens);
    for (uint32_t i = 0; i < block_count; i++) printf(" %u", blocks[i]);
    printf("\n");

    icp_copy copy; /* the token-exact tail: copy positions [0, n) of one block to another before computing */
    must(icp_lease_tail(cache, lease, 0, &copy));
    if (copy.positions != 0) printf("  copy %u positions of block %u to %u\n", copy.positions, copy.from, copy.to);

    /* ... compute the tokens from hit.cached_tokens on, writing their KV through the table ... */

    must(icp_lease_publish(cache, lease, &request.text));
    must(icp_lease_release(cache, lease));
}

int main(void)
{
    icp_cache_options options;
    icp_cache_options_init(&options);
    options.block_count = 64;
    options.block_tokens = 4;

    icp_cache *cache;
    icp_error error;
    if (icp_cache_open(&cache, &options, &error) != ICP_OK) {
        fprintf(stderr, "%s\n", error.text);
        return 1;
    }
    const uint32_t first[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10};
    const uint32_t second[] = {1, 2, 3, 4, 5, 6, 7, 70, 71, 72, 73};
    serve(cache, 1, first, 10);
    serve(cache, 2, first, 10);
    serve(cache, 3, second, 11);
    icp_cache_close(cache);
    return 0;
}
