/* sha256.h - SHA-256 (FIPS 180-4).
 *
 * In one call where the bytes lie together, which is the case for every name of an ordinary block; piece by piece
 * where they do not. Allocates nothing, keeps nothing between calls: any thread may call. */
#ifndef ICP_CACHE_SHA256_H
#define ICP_CACHE_SHA256_H

#include <stddef.h>
#include <stdint.h>

#define ICP_SHA256_BYTES 32u       /* of a digest */
#define ICP_SHA256_BLOCK_BYTES 64u /* that are compressed at once */

typedef enum icp_sha256_kind {
    ICP_SHA256_PLAIN,    /* C; on every machine, and the oracle for the other */
    ICP_SHA256_HARDWARE, /* the processor's instructions; only where icp_cpu_has_sha256 */
} icp_sha256_kind;

/* The fastest kind that this machine has. */
icp_sha256_kind icp_sha256_best(void);

/* The digest of bytes, by the best kind, and by a given one (for tests: it must be there). */
void icp_sha256_digest(const void *data, size_t bytes, uint8_t digest[ICP_SHA256_BYTES]);
void icp_sha256_digest_with(icp_sha256_kind kind, const void *data, size_t bytes, uint8_t digest[ICP_SHA256_BYTES]);

/* The digest of bytes that come in pieces: begin, update any number of times, end. */
typedef struct icp_sha256 {
    uint32_t h[8];
    icp_sha256_kind kind;
    uint64_t byte_count;                  /* so far */
    uint8_t tail[ICP_SHA256_BLOCK_BYTES]; /* the last byte_count % 64 of them, not compressed yet */
} icp_sha256;

void icp_sha256_begin(icp_sha256 *sha, icp_sha256_kind kind);
void icp_sha256_update(icp_sha256 *sha, const void *data, size_t bytes);
void icp_sha256_end(icp_sha256 *sha, uint8_t digest[ICP_SHA256_BYTES]);

#endif
