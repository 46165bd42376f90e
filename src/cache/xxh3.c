/* xxh3.c - XXH3-128, seed 0, default secret; written from doc/xxhash_spec.md of the xxHash project.
 *
 * Six recipes by length, each reading all of the input and a part of the 192-byte secret:
 *
 *      0, 1-3, 4-8, 9-16   a few multiplications
 *      17-128              16 bytes from the front and 16 from the back at a time, inwards out, into two accumulators
 *      129-240             32 bytes at a time, front to back, into the same two; the last 32 bytes again
 *      241 and more        stripes of 64 bytes into eight accumulators, which are scrambled after every 16 stripes
 *                          (a block); the last 64 bytes again
 *
 * A name of 16 tokens is hashed from about 100 bytes, so the 17-128 recipe is the one that counts. The last recipe
 * runs over a window, because a block with many extra keys is written piece by piece:
 *
 *      window:  | 64 bytes before the block | the block so far, held bytes |
 *                           ^ the last stripe is window[held, held + 64): always within
 *
 * A full block is consumed only when more bytes come, since the last block is treated apart even where it is full.
 *
 * Called by name.c, on any thread. */
#include "cache/xxh3.h"

#include <stdbool.h>
#include <string.h>

#define PRIME32_1 0x9e3779b1u
#define PRIME32_2 0x85ebca77u
#define PRIME32_3 0xc2b2ae3du
#define PRIME64_1 0x9e3779b185ebca87u
#define PRIME64_2 0xc2b2ae3d27d4eb4fu
#define PRIME64_3 0x165667b19e3779f9u
#define PRIME64_4 0x85ebca77c2b2ae63u
#define PRIME64_5 0x27d4eb2f165667c5u
#define PRIME_MX1 0x165667919e3779f9u
#define PRIME_MX2 0x9fb21c651e98df25u

#define MEDIUM_BYTES_MAX 240u
#define SECRET_BYTES 192u

static const uint8_t secret[SECRET_BYTES] = {
    0xb8, 0xfe, 0x6c, 0x39, 0x23, 0xa4, 0x4b, 0xbe, 0x7c, 0x01, 0x81, 0x2c, 0xf7, 0x21, 0xad, 0x1c, 0xde, 0xd4,
    0x6d, 0xe9, 0x83, 0x90, 0x97, 0xdb, 0x72, 0x40, 0xa4, 0xa4, 0xb7, 0xb3, 0x67, 0x1f, 0xcb, 0x79, 0xe6, 0x4e,
    0xcc, 0xc0, 0xe5, 0x78, 0x82, 0x5a, 0xd0, 0x7d, 0xcc, 0xff, 0x72, 0x21, 0xb8, 0x08, 0x46, 0x74, 0xf7, 0x43,
    0x24, 0x8e, 0xe0, 0x35, 0x90, 0xe6, 0x81, 0x3a, 0x26, 0x4c, 0x3c, 0x28, 0x52, 0xbb, 0x91, 0xc3, 0x00, 0xcb,
    0x88, 0xd0, 0x65, 0x8b, 0x1b, 0x53, 0x2e, 0xa3, 0x71, 0x64, 0x48, 0x97, 0xa2, 0x0d, 0xf9, 0x4e, 0x38, 0x19,
    0xef, 0x46, 0xa9, 0xde, 0xac, 0xd8, 0xa8, 0xfa, 0x76, 0x3f, 0xe3, 0x9c, 0x34, 0x3f, 0xf9, 0xdc, 0xbb, 0xc7,
    0xc7, 0x0b, 0x4f, 0x1d, 0x8a, 0x51, 0xe0, 0x4b, 0xcd, 0xb4, 0x59, 0x31, 0xc8, 0x9f, 0x7e, 0xc9, 0xd9, 0x78,
    0x73, 0x64, 0xea, 0xc5, 0xac, 0x83, 0x34, 0xd3, 0xeb, 0xc3, 0xc5, 0x81, 0xa0, 0xff, 0xfa, 0x13, 0x63, 0xeb,
    0x17, 0x0d, 0xdd, 0x51, 0xb7, 0xf0, 0xda, 0x49, 0xd3, 0x16, 0x55, 0x26, 0x29, 0xd4, 0x68, 0x9e, 0x2b, 0x16,
    0xbe, 0x58, 0x7d, 0x47, 0xa1, 0xfc, 0x8f, 0xf8, 0xb8, 0xd1, 0x7a, 0xd0, 0x31, 0xce, 0x45, 0xcb, 0x3a, 0x8f,
    0x95, 0x16, 0x04, 0x28, 0xaf, 0xd7, 0xfb, 0xca, 0xbb, 0x4b, 0x40, 0x7e,
};

__extension__ typedef unsigned __int128 u128;

typedef struct hash128 {
    uint64_t low, high;
} hash128;

/* ---- Words --------------------------------------------------------------------------------------------------- */

static inline uint32_t load_le32(const uint8_t *bytes)
{
    return (uint32_t)bytes[0] | (uint32_t)bytes[1] << 8 | (uint32_t)bytes[2] << 16 | (uint32_t)bytes[3] << 24;
}

static inline uint64_t load_le64(const uint8_t *bytes)
{
    return load_le32(bytes) | (uint64_t)load_le32(bytes + 4) << 32;
}

static inline uint32_t swap32(uint32_t x)
{
    return x >> 24 | (x >> 8 & 0xff00u) | (x & 0xff00u) << 8 | x << 24;
}

static inline uint64_t swap64(uint64_t x)
{
    return (uint64_t)swap32((uint32_t)x) << 32 | swap32((uint32_t)(x >> 32));
}

static inline hash128 multiply(uint64_t a, uint64_t b)
{
    u128 product = (u128)a * b;
    return (hash128){(uint64_t)product, (uint64_t)(product >> 64)};
}

/* A full product, its two halves folded into one word. */
static inline uint64_t multiply_fold(uint64_t a, uint64_t b)
{
    hash128 product = multiply(a, b);
    return product.low ^ product.high;
}

static inline uint64_t avalanche(uint64_t x)
{
    x ^= x >> 37;
    x *= PRIME_MX1;
    return x ^ x >> 32;
}

static inline uint64_t avalanche_xxh64(uint64_t x)
{
    x ^= x >> 33;
    x *= PRIME64_2;
    x ^= x >> 29;
    x *= PRIME64_3;
    return x ^ x >> 32;
}

/* ---- 0 to 16 bytes ------------------------------------------------------------------------------------------- */

static hash128 hash_0(void)
{
    return (hash128){avalanche_xxh64(load_le64(secret + 64) ^ load_le64(secret + 72)),
                     avalanche_xxh64(load_le64(secret + 80) ^ load_le64(secret + 88))};
}

static hash128 hash_1_to_3(const uint8_t *data, size_t bytes)
{
    uint32_t last = data[bytes - 1], first = data[0], middle = data[bytes >> 1];
    uint32_t combined = last | (uint32_t)bytes << 8 | first << 16 | middle << 24;
    uint32_t swapped = swap32(combined);
    uint32_t rotated = swapped << 13 | swapped >> 19;
    return (hash128){avalanche_xxh64((load_le32(secret) ^ load_le32(secret + 4)) ^ combined),
                     avalanche_xxh64((load_le32(secret + 8) ^ load_le32(secret + 12)) ^ rotated)};
}

static hash128 hash_4_to_8(const uint8_t *data, size_t bytes)
{
    uint64_t combined = load_le32(data) | (uint64_t)load_le32(data + bytes - 4) << 32;
    uint64_t value = load_le64(secret + 16) ^ load_le64(secret + 24) ^ combined;
    hash128 hash = multiply(value, PRIME64_1 + ((uint64_t)bytes << 2));
    hash.high += hash.low << 1;
    hash.low ^= hash.high >> 3;
    hash.low ^= hash.low >> 35;
    hash.low *= PRIME_MX2;
    hash.low ^= hash.low >> 28;
    hash.high = avalanche(hash.high);
    return hash;
}

static hash128 hash_9_to_16(const uint8_t *data, size_t bytes)
{
    uint64_t first = load_le64(data), last = load_le64(data + bytes - 8);
    uint64_t value1 = load_le64(secret + 32) ^ load_le64(secret + 40) ^ first ^ last;
    uint64_t value2 = load_le64(secret + 48) ^ load_le64(secret + 56) ^ last;
    hash128 hash = multiply(value1, PRIME64_1);
    hash.low += (uint64_t)(bytes - 1) << 54;
    hash.high += value2 + (value2 & UINT32_MAX) * (PRIME32_2 - 1);
    hash.low ^= swap64(hash.high);

    hash128 product = multiply(hash.low, PRIME64_2);
    product.high += hash.high * PRIME64_2;
    return (hash128){avalanche(product.low), avalanche(product.high)};
}

/* ---- 17 to 240 bytes ----------------------------------------------------------------------------------------- */

static inline uint64_t mix(const uint8_t *data, const uint8_t *key)
{
    return multiply_fold(load_le64(data) ^ load_le64(key), load_le64(data + 8) ^ load_le64(key + 8));
}

/* Two runs of 16 bytes, with 32 bytes of the secret. */
static inline void mix_two(hash128 *acc, const uint8_t *data1, const uint8_t *data2, const uint8_t *key)
{
    acc->low += mix(data1, key);
    acc->high += mix(data2, key + 16);
    acc->low ^= load_le64(data2) + load_le64(data2 + 8);
    acc->high ^= load_le64(data1) + load_le64(data1 + 8);
}

static hash128 finish_medium(hash128 acc, size_t bytes)
{
    uint64_t high = acc.low * PRIME64_1 + acc.high * PRIME64_4 + (uint64_t)bytes * PRIME64_2;
    return (hash128){avalanche(acc.low + acc.high), 0 - avalanche(high)};
}

static hash128 hash_17_to_128(const uint8_t *data, size_t bytes)
{
    hash128 acc = {(uint64_t)bytes * PRIME64_1, 0};
    for (size_t round = (bytes - 1) / 32 + 1; round-- > 0;) {
        mix_two(&acc, data + round * 16, data + bytes - round * 16 - 16, secret + round * 32);
    }
    return finish_medium(acc, bytes);
}

static hash128 hash_129_to_240(const uint8_t *data, size_t bytes)
{
    hash128 acc = {(uint64_t)bytes * PRIME64_1, 0};
    for (size_t i = 0; i < 128; i += 32) mix_two(&acc, data + i, data + i + 16, secret + i);
    acc = (hash128){avalanche(acc.low), avalanche(acc.high)};
    for (size_t i = 128; i + 32 <= bytes; i += 32) mix_two(&acc, data + i, data + i + 16, secret + i - 128 + 3);
    mix_two(&acc, data + bytes - 16, data + bytes - 32, secret + 103); /* the halves in the other order */
    return finish_medium(acc, bytes);
}

/* ---- 241 bytes and more -------------------------------------------------------------------------------------- */

static void accumulate(uint64_t acc[8], const uint8_t *stripe, const uint8_t *key)
{
    for (unsigned i = 0; i < 8; i++) {
        uint64_t word = load_le64(stripe + 8 * i), value = word ^ load_le64(key + 8 * i);
        acc[i ^ 1] += word;
        acc[i] += (value & UINT32_MAX) * (value >> 32);
    }
}

static void accumulate_stripes(uint64_t acc[8], const uint8_t *data, size_t stripe_count)
{
    for (size_t i = 0; i < stripe_count; i++) accumulate(acc, data + i * ICP_XXH3_STRIPE_BYTES, secret + 8 * i);
}

static void scramble(uint64_t acc[8])
{
    for (unsigned i = 0; i < 8; i++) {
        acc[i] ^= acc[i] >> 47;
        acc[i] ^= load_le64(secret + SECRET_BYTES - 64 + 8 * i);
        acc[i] *= PRIME32_1;
    }
}

static uint64_t merge(const uint64_t acc[8], uint64_t start, const uint8_t *key)
{
    uint64_t sum = start;
    for (unsigned i = 0; i < 8; i += 2) {
        sum += multiply_fold(acc[i] ^ load_le64(key + 8 * i), acc[i + 1] ^ load_le64(key + 8 * i + 8));
    }
    return avalanche(sum);
}

static hash128 finish_long(icp_xxh3 *xxh)
{
    uint64_t *acc = xxh->accumulators;
    accumulate_stripes(acc, xxh->window + ICP_XXH3_STRIPE_BYTES, (xxh->held - 1) / ICP_XXH3_STRIPE_BYTES);
    accumulate(acc, xxh->window + xxh->held, secret + SECRET_BYTES - 71);
    return (hash128){merge(acc, xxh->byte_count * PRIME64_1, secret + 11),
                     merge(acc, ~(xxh->byte_count * PRIME64_2), secret + SECRET_BYTES - 75)};
}

/* ---- The digest ---------------------------------------------------------------------------------------------- */

static hash128 hash_short(const uint8_t *data, size_t bytes)
{
    if (bytes > 128) return hash_129_to_240(data, bytes);
    if (bytes > 16) return hash_17_to_128(data, bytes);
    if (bytes > 8) return hash_9_to_16(data, bytes);
    if (bytes > 3) return hash_4_to_8(data, bytes);
    if (bytes > 0) return hash_1_to_3(data, bytes);
    return hash_0();
}

void icp_xxh3_begin(icp_xxh3 *xxh)
{
    static const uint64_t start[8] = {PRIME32_3, PRIME64_1, PRIME64_2, PRIME64_3,
                                      PRIME64_4, PRIME32_2, PRIME64_5, PRIME32_1};
    memcpy(xxh->accumulators, start, sizeof(start));
    xxh->byte_count = 0;
    xxh->held = 0;
}

void icp_xxh3_update(icp_xxh3 *xxh, const void *data, size_t bytes)
{
    const uint8_t *from = data;
    uint8_t *block = xxh->window + ICP_XXH3_STRIPE_BYTES;
    xxh->byte_count += bytes;
    while (bytes > 0) {
        if (xxh->held == ICP_XXH3_BLOCK_BYTES) {
            accumulate_stripes(xxh->accumulators, block, ICP_XXH3_BLOCK_BYTES / ICP_XXH3_STRIPE_BYTES);
            scramble(xxh->accumulators);
            memcpy(xxh->window, xxh->window + ICP_XXH3_BLOCK_BYTES, ICP_XXH3_STRIPE_BYTES);
            xxh->held = 0;
        }
        size_t room = ICP_XXH3_BLOCK_BYTES - xxh->held, take = bytes < room ? bytes : room;
        memcpy(block + xxh->held, from, take);
        xxh->held += take;
        from += take;
        bytes -= take;
    }
}

static void write_digest(hash128 hash, uint8_t digest[ICP_XXH3_BYTES])
{
    for (unsigned i = 0; i < 8; i++) {
        digest[i] = (uint8_t)(hash.high >> (56 - 8 * i));
        digest[8 + i] = (uint8_t)(hash.low >> (56 - 8 * i));
    }
}

void icp_xxh3_end(icp_xxh3 *xxh, uint8_t digest[ICP_XXH3_BYTES])
{
    const uint8_t *block = xxh->window + ICP_XXH3_STRIPE_BYTES;
    bool is_short = xxh->byte_count <= MEDIUM_BYTES_MAX;
    write_digest(is_short ? hash_short(block, xxh->held) : finish_long(xxh), digest);
}

void icp_xxh3_digest(const void *data, size_t bytes, uint8_t digest[ICP_XXH3_BYTES])
{
    if (bytes <= MEDIUM_BYTES_MAX) {
        write_digest(hash_short(data, bytes), digest);
        return;
    }
    icp_xxh3 xxh;
    icp_xxh3_begin(&xxh);
    icp_xxh3_update(&xxh, data, bytes);
    icp_xxh3_end(&xxh, digest);
}
