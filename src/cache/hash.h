/* hash.h - the internal hash: finds candidates, decides nothing.
 *
 * Whatever it finds is compared token by token before it is used, so its quality is a matter of speed alone. The
 * multiply-and-fold step takes 64 x 64 -> 128 bits and xors the halves: four tokens a multiplication, and the
 * multiplications of one block do not wait for each other. A seed (icp_cache_options.seed) keeps strangers from
 * choosing prompts that collide. Chained: the hash of a block takes in the hash of the one before, so it stands for
 * the whole prefix. */
#ifndef ICP_CACHE_HASH_H
#define ICP_CACHE_HASH_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

__extension__ typedef unsigned __int128 icp_uint128;

/* Odd numbers with about as many ones as zeros, from the fractional parts of square roots of primes. */
#define ICP_HASH_A UINT64_C(0x6a09e667f3bcc909)
#define ICP_HASH_B UINT64_C(0xbb67ae8584caa73b)
#define ICP_HASH_C UINT64_C(0x3c6ef372fe94f82b)

static inline uint64_t icp_hash_fold(uint64_t a, uint64_t b)
{
    icp_uint128 product = (icp_uint128)a * b;
    return (uint64_t)product ^ (uint64_t)(product >> 64);
}

static inline uint64_t icp_hash_load(const void *bytes)
{
    uint64_t word;
    memcpy(&word, bytes, sizeof(word));
    return word;
}

/* The hash of a block of tokens after the hash of its prefix. */
static inline uint64_t icp_hash_tokens(uint64_t prefix, const uint32_t *tokens, uint32_t count)
{
    uint64_t sum = prefix;
    uint64_t place = prefix ^ ICP_HASH_A;
    uint32_t i = 0;
    for (; i + 8 <= count; i += 8) {
        sum += icp_hash_fold(icp_hash_load(tokens + i) ^ place, icp_hash_load(tokens + i + 2) ^ ICP_HASH_B);
        sum += icp_hash_fold(icp_hash_load(tokens + i + 4) ^ (place + ICP_HASH_C),
                             icp_hash_load(tokens + i + 6) ^ ICP_HASH_B);
        place += 2 * ICP_HASH_C;
    }
    if (i + 4 <= count) {
        sum += icp_hash_fold(icp_hash_load(tokens + i) ^ place, icp_hash_load(tokens + i + 2) ^ ICP_HASH_B);
        place += ICP_HASH_C;
        i += 4;
    }
    for (; i < count; i++) {
        sum += icp_hash_fold(tokens[i] ^ place, ICP_HASH_B);
        place += ICP_HASH_C;
    }
    return icp_hash_fold(sum ^ ICP_HASH_C, place);
}

static inline uint64_t icp_hash_bytes(uint64_t seed, const void *bytes, size_t count)
{
    const uint8_t *next = bytes;
    uint64_t hash = seed ^ ICP_HASH_A ^ count;
    for (; count >= 8; count -= 8, next += 8) hash = icp_hash_fold(hash ^ icp_hash_load(next), ICP_HASH_B);
    uint64_t last = 0;
    if (count != 0) memcpy(&last, next, count);
    return icp_hash_fold(hash ^ last, ICP_HASH_C);
}

/* A number below count, from the high bits. */
static inline uint32_t icp_hash_range(uint64_t hash, uint32_t count)
{
    return (uint32_t)(((hash >> 32) * count) >> 32);
}

/* One to one on 32 bits: the heap order of siblings (see order.c), never equal for two nodes. */
static inline uint32_t icp_hash_mix(uint32_t x)
{
    x ^= x >> 16;
    x *= 0x7feb352du;
    x ^= x >> 15;
    x *= 0x846ca68bu;
    x ^= x >> 16;
    return x;
}

#endif
