/* unicode.c - UTF-8, and the search in the table of classes. */
#include "model/unicode.h"

#include <stdbool.h>

#define INDEXED_BLOCKS 512u

uint8_t icp_unicode_class(uint32_t code)
{
    if (code >= 0x110000u) return 0;
    uint32_t block = code >> 8 < INDEXED_BLOCKS ? code >> 8 : INDEXED_BLOCKS;
    uint32_t low = icp_unicode_index[block]; /* the change at low is at or before code, the one at high after it */
    uint32_t high = block < INDEXED_BLOCKS ? icp_unicode_index[block + 1] + 1u : icp_unicode_change_count;
    while (high - low > 1) {
        uint32_t middle = low + (high - low) / 2;
        if (icp_unicode_changes[middle] >> 8 <= code)
            low = middle;
        else
            high = middle;
    }
    return (uint8_t)icp_unicode_changes[low];
}

/* The length that a first byte announces, and the range of the second byte: no overlong forms, no surrogates, nothing
 * past U+10FFFF. 0: not a first byte. */
static uint32_t sequence_bytes(uint8_t first, uint8_t *second_min, uint8_t *second_max)
{
    *second_min = 0x80;
    *second_max = 0xbf;
    if (first < 0x80) return 1;
    if (first < 0xc2) return 0;
    if (first < 0xe0) return 2;
    if (first == 0xe0) *second_min = 0xa0;
    if (first == 0xed) *second_max = 0x9f;
    if (first < 0xf0) return 3;
    if (first == 0xf0) *second_min = 0x90;
    if (first == 0xf4) *second_max = 0x8f;
    return first < 0xf5 ? 4 : 0;
}

/* Bytes of a sequence that are there and valid, up to its length. */
static uint32_t sequence_valid(const uint8_t *text, size_t bytes, uint32_t *length)
{
    uint8_t low = 0, high = 0;
    *length = sequence_bytes(text[0], &low, &high);
    if (*length == 0) return 0;
    uint32_t valid = 1;
    while (valid < *length && valid < bytes && text[valid] >= low && text[valid] <= high) {
        low = 0x80;
        high = 0xbf;
        valid++;
    }
    return valid;
}

uint32_t icp_utf8_decode(const uint8_t *text, size_t bytes, uint32_t *code)
{
    if (bytes == 0) return 0;
    uint32_t length = 0;
    uint32_t valid = sequence_valid(text, bytes, &length);
    if (length == 0 || valid != length) {
        *code = ICP_UNICODE_INVALID;
        return 1;
    }
    static const uint8_t first_mask[5] = {0, 0x7f, 0x1f, 0x0f, 0x07};
    uint32_t value = text[0] & first_mask[length];
    for (uint32_t i = 1; i < length; i++) value = value << 6 | (text[i] & 0x3fu);
    *code = value;
    return length;
}

uint32_t icp_utf8_lacks(const uint8_t *text, size_t bytes)
{
    if (bytes == 0) return 0;
    uint32_t length = 0;
    uint32_t valid = sequence_valid(text, bytes, &length);
    return valid == bytes && valid < length ? length - valid : 0;
}

uint32_t icp_utf8_encode(uint32_t code, uint8_t *text)
{
    if (code < 0x80) {
        text[0] = (uint8_t)code;
        return 1;
    }
    uint32_t length = code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    static const uint8_t first_bits[5] = {0, 0, 0xc0, 0xe0, 0xf0};
    for (uint32_t i = length - 1; i > 0; i--) {
        text[i] = (uint8_t)(0x80u | (code & 0x3fu));
        code >>= 6;
    }
    text[0] = (uint8_t)(first_bits[length] | code);
    return length;
}

icp_glyph icp_glyph_decode(const uint8_t *text, size_t bytes)
{
    icp_glyph glyph = {0, 0, 0};
    glyph.bytes = (uint8_t)icp_utf8_decode(text, bytes, &glyph.code);
    if (glyph.bytes > 0) glyph.class = icp_unicode_class(glyph.code);
    return glyph;
}
