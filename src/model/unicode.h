/* unicode.h - code points in UTF-8 text, and their classes.
 *
 * A class is a set of bits; the sets that regular expressions name are unions of them (\p{L} is ICP_UNICODE_LETTER).
 * A byte that is not part of valid UTF-8 is a character of its own with the class of U+FFFD, a symbol: so every text
 * can be cut into characters, and put together again byte for byte.
 *
 * The tables are constant; any thread may ask. */
#ifndef ICP_MODEL_UNICODE_H
#define ICP_MODEL_UNICODE_H

#include <stddef.h>
#include <stdint.h>

#define ICP_UNICODE_UPPER 1u /* Lu and Lt */
#define ICP_UNICODE_LOWER 2u /* Ll */
#define ICP_UNICODE_OTHER 4u /* Lm and Lo */
#define ICP_UNICODE_LETTER (ICP_UNICODE_UPPER | ICP_UNICODE_LOWER | ICP_UNICODE_OTHER)
#define ICP_UNICODE_MARK 8u
#define ICP_UNICODE_NUMBER 16u
#define ICP_UNICODE_PUNCTUATION 32u
#define ICP_UNICODE_SYMBOL 64u
#define ICP_UNICODE_SPACE 128u /* White_Space: \s */

#define ICP_UNICODE_INVALID 0xfffdu

/* A character in its text. bytes is 0 past the end, and then nothing is set. */
typedef struct icp_glyph {
    uint32_t code;
    uint8_t bytes;
    uint8_t class;
} icp_glyph;

/* Generated: see tools/make-unicode. A change is code << 8 | class. */
extern const uint8_t icp_unicode_ascii[128];
extern const uint32_t icp_unicode_change_count;
extern const uint32_t icp_unicode_changes[];
extern const uint16_t icp_unicode_index[];
extern const uint32_t icp_unicode_deepseek_count;
extern const uint32_t icp_unicode_deepseek[][2];

/* The class of a code point; 0 where it is none, or not assigned. */
uint8_t icp_unicode_class(uint32_t code);

/* Bytes of the character that begins at text, of the bytes there; 1 for a byte that is not valid, 0 for no bytes. */
uint32_t icp_utf8_decode(const uint8_t *text, size_t bytes, uint32_t *code);

/* How many bytes the character that begins at text lacks; 0 where it is whole, or cannot become valid. */
uint32_t icp_utf8_lacks(const uint8_t *text, size_t bytes);

/* Writes 1 to 4 bytes and says how many. */
uint32_t icp_utf8_encode(uint32_t code, uint8_t *text);

icp_glyph icp_glyph_decode(const uint8_t *text, size_t bytes);

static inline icp_glyph icp_glyph_at(const uint8_t *text, size_t position, size_t end)
{
    if (position >= end) return (icp_glyph){0, 0, 0};
    uint8_t first = text[position];
    if (first < 0x80) return (icp_glyph){first, 1, icp_unicode_ascii[first]};
    return icp_glyph_decode(text + position, end - position);
}

#endif
