/* decoder.c - tokens to text, a character at a time.
 *
 * A token may be part of a character. What is held back are the bytes of a sequence that is valid as far as it goes and
 * not whole: at most three. They come out with the token that completes them, or when it turns out that none will. */
#include "model/vocabulary.h"

#include "model/unicode.h"

#include <string.h>

/* The bytes that were held, and then those of the token. */
typedef struct joined {
    const uint8_t *head, *tail;
    size_t head_bytes, bytes;
} joined;

static uint8_t joined_at(const joined *text, size_t index)
{
    return index < text->head_bytes ? text->head[index] : text->tail[index - text->head_bytes];
}

/* Up to four bytes from there on. */
static size_t joined_window(const joined *text, size_t index, uint8_t window[4])
{
    size_t count = text->bytes - index < 4 ? text->bytes - index : 4;
    for (size_t i = 0; i < count; i++) window[i] = joined_at(text, index + i);
    return count;
}

/* Writes to out, or only counts where out is NULL, the characters up to the one that is not whole; says how many bytes,
 * and where the first byte that is held back lies. */
static size_t characters(const joined *text, bool is_replacing, bool is_last, uint8_t *out, size_t *held_from)
{
    static const uint8_t replacement[3] = {0xef, 0xbf, 0xbd};
    size_t written = 0;
    size_t at = 0;
    while (at < text->bytes) {
        uint8_t window[4] = {0};
        uint32_t code = 0;
        size_t count = joined_window(text, at, window);
        if (!is_last && icp_utf8_lacks(window, count) > 0) break;
        uint32_t length = icp_utf8_decode(window, count, &code);
        bool is_invalid = length == 1 && window[0] >= 0x80;
        size_t bytes = is_invalid && is_replacing ? sizeof(replacement) : length;
        if (out != NULL) memcpy(out + written, is_invalid && is_replacing ? replacement : window, bytes);
        written += bytes;
        at += length;
    }
    *held_from = at;
    return written;
}

void icp_decoder_start(icp_decoder *decoder, const icp_tokenizer *tokenizer, uint32_t flags)
{
    *decoder = (icp_decoder){.tokenizer = tokenizer, .flags = flags, .is_at_start = (flags & ICP_DECODE_START) != 0};
}

size_t icp_decoder_bytes_max(const icp_decoder *decoder)
{
    return 3 * ((size_t)decoder->tokenizer->facts.text_bytes_max + ICP_DECODER_HELD_BYTES_MAX);
}

static icp_status decode(icp_decoder *decoder, icp_gguf_string text, bool is_last, char *out, size_t bytes_max,
                         size_t *bytes)
{
    joined all = {.head = decoder->held, .head_bytes = decoder->held_bytes, .tail = (const uint8_t *)text.text};
    all.bytes = all.head_bytes + text.bytes;
    bool is_replacing = (decoder->flags & ICP_DECODE_REPLACE) != 0;
    size_t held_from = 0;
    size_t needed = characters(&all, is_replacing, is_last, NULL, &held_from);
    *bytes = needed;
    if (needed > bytes_max) return ICP_TOO_LONG;
    if (needed > 0) (void)characters(&all, is_replacing, is_last, (uint8_t *)out, &held_from);

    uint8_t window[4] = {0};
    decoder->held_bytes = (uint32_t)joined_window(&all, held_from, window);
    memcpy(decoder->held, window, sizeof(decoder->held));
    return ICP_OK;
}

icp_status icp_decoder_next(icp_decoder *decoder, uint32_t id, char *out, size_t bytes_max, size_t *bytes)
{
    if (decoder == NULL || bytes == NULL || (out == NULL && bytes_max > 0)) return ICP_BAD_ARGUMENT;
    const icp_tokenizer *tokenizer = decoder->tokenizer;
    if (id >= tokenizer->facts.token_count) return ICP_BAD_ARGUMENT;

    uint8_t type = tokenizer->types[id];
    bool is_special = type == ICP_TOKEN_CONTROL || type == ICP_TOKEN_UNKNOWN;
    icp_gguf_string text = icp_tokenizer_text(tokenizer, id);
    if (is_special && (decoder->flags & ICP_DECODE_SPECIAL) == 0) text.bytes = 0;
    bool is_first = decoder->is_at_start && !is_special;
    if (is_first && tokenizer->facts.is_adding_space && text.bytes > 0 && text.text[0] == ' ') {
        text.text++;
        text.bytes--;
    }
    icp_status status = decode(decoder, text, false, out, bytes_max, bytes);
    if (status == ICP_OK && is_first) decoder->is_at_start = false;
    return status;
}

icp_status icp_decoder_flush(icp_decoder *decoder, char *out, size_t bytes_max, size_t *bytes)
{
    if (decoder == NULL || bytes == NULL || (out == NULL && bytes_max > 0)) return ICP_BAD_ARGUMENT;
    return decode(decoder, (icp_gguf_string){"", 0}, true, out, bytes_max, bytes);
}
