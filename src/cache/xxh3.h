/* xxh3.h - XXH3-128 with seed 0 and the default secret.
 *
 * The digest is in the canonical form: the 128-bit number, most significant byte first. Fast, and no defence against
 * somebody who looks for collisions. Allocates nothing, keeps nothing between calls: any thread may call. */
#ifndef ICP_CACHE_XXH3_H
#define ICP_CACHE_XXH3_H

#include <stddef.h>
#include <stdint.h>

#define ICP_XXH3_BYTES 16u         /* of a digest */
#define ICP_XXH3_STRIPE_BYTES 64u  /* that one step takes in */
#define ICP_XXH3_BLOCK_BYTES 1024u /* after which the accumulators are scrambled */

void icp_xxh3_digest(const void *data, size_t bytes, uint8_t digest[ICP_XXH3_BYTES]);

/* The digest of bytes that come in pieces: begin, update any number of times, end. */
typedef struct icp_xxh3 {
    uint64_t accumulators[8];
    uint64_t byte_count; /* so far */
    size_t held;         /* bytes of block that are not consumed yet */
    /* The end of the block before, for a last stripe that reaches back into it, and the block itself. */
    uint8_t window[ICP_XXH3_STRIPE_BYTES + ICP_XXH3_BLOCK_BYTES];
} icp_xxh3;

void icp_xxh3_begin(icp_xxh3 *xxh);
void icp_xxh3_update(icp_xxh3 *xxh, const void *data, size_t bytes);
void icp_xxh3_end(icp_xxh3 *xxh, uint8_t digest[ICP_XXH3_BYTES]);

#endif
