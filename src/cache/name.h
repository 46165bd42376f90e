/* name.h - what a block is called outside this process: a chain of digests, byte for byte vLLM's.
 *
 * The cache core makes the name of a block when it publishes it, from the name of the block before: icp_name_begin
 * once per scope, then icp_name_next per block. icp_name_chain of incipit/cache.h does the same over a whole text.
 * Pure functions of their arguments: no allocation, no state, any thread. */
#ifndef ICP_CACHE_NAME_H
#define ICP_CACHE_NAME_H

#include <stddef.h>
#include <stdint.h>

#include "cache/extra.h"
#include "incipit/cache.h"

/* An extra key that lies over a block. */
typedef struct icp_name_extra {
    const void *id;
    uint32_t id_bytes; /* 1 to ICP_EXTRA_ID_BYTES_MAX */
    int32_t offset;    /* where it began, from the block's first token on; negative: in an earlier block */
} icp_name_extra;

/* The name of the empty text: what the first block has for a parent. vLLM's NONE_HASH where model and tenant are
 * empty. In both functions a root of kind NONE gives the empty name, of length 0. */
void icp_name_begin(const icp_name_root *root, icp_name *out);

/* The name of the block of root->block_tokens tokens after parent. position is that of its first token; at 0 the
 * salt is part of the name. extras are all that lie over the block, by offset: at most block_tokens of them, since
 * they do not overlap. out may be parent. */
void icp_name_next(const icp_name_root *root, const icp_name *parent, uint32_t position, const uint32_t *tokens,
                   const icp_name_extra *extras, size_t extra_count, icp_name *out);

/* The two integer encoders that names are made with, for tests: here they take numbers that are no token. Each
 * writes up to its limit at out and returns how many bytes count; the rest is scratch. */
#define ICP_NAME_CBOR_HEAD_BYTES_MAX 9u
#define ICP_NAME_PICKLE_INT_BYTES_MAX 10u
size_t icp_name_cbor_head(uint8_t *out, unsigned major, uint64_t value); /* major: RFC 8949, 3.1; 0 is an integer */
size_t icp_name_pickle_int(uint8_t *out, int64_t value);

/* The extras that lie over a view of the caller's, at most as many as it has tokens. Returns how many. */
size_t icp_name_extras(const icp_view *view, icp_name_extra *extras);

#endif
