/* fuzz_tokenizer.c - a libFuzzer target: any bytes, encoded and decoded with the small vocabularies.
 *
 * The first byte chooses the vocabulary and the flags, the next two a trusted range. What must hold: the bytes come
 * back (but for SentencePiece's own spaces), a second encoder agrees on the ids, no control token comes from text where
 * nothing is trusted, and a replacing decoder writes valid UTF-8. */
#include "tokenizer_world.h"

#include "model/unicode.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define VOCABULARIES 8
#define BYTES_MAX 4096u
#define IDS_MAX (2 * BYTES_MAX + 8)

static icp_tokenizer *tokenizers[VOCABULARIES];
static icp_encoder *warm[VOCABULARIES];

static void must(bool claim, const char *what)
{
    if (claim) return;
    fprintf(stderr, "fuzz_tokenizer: %s\n", what);
    abort();
}

static void start(void)
{
    static const char *const pres[VOCABULARIES - 1] = {"gpt-2",        "llama-bpe",   "qwen2",  "gpt-4o",
                                                       "deepseek-llm", "deepseek-v3", "default"};
    for (size_t i = 0; i < VOCABULARIES; i++) {
        tokenizers[i] = i == 0 ? tiny_spm_open() : tiny_bpe_open(pres[i - 1]);
        must(tokenizers[i] != NULL, "a vocabulary does not open");
        must(icp_encoder_open(&warm[i], tokenizers[i]) == ICP_OK, "an encoder does not open");
    }
}

/* Everything that the ids stand for. */
static size_t decode(const icp_tokenizer *tokenizer, const uint32_t *ids, size_t count, uint32_t flags, char *out)
{
    icp_decoder decoder;
    size_t used = 0, bytes = 0;
    icp_decoder_start(&decoder, tokenizer, flags);
    for (size_t i = 0; i < count; i++) {
        icp_status status = icp_decoder_next(&decoder, ids[i], out + used, icp_decoder_bytes_max(&decoder), &bytes);
        must(status == ICP_OK, "an id is not decoded");
        used += bytes;
    }
    must(icp_decoder_flush(&decoder, out + used, 16, &bytes) == ICP_OK, "the end is not decoded");
    return used + bytes;
}

static bool is_valid(const char *text, size_t bytes)
{
    for (size_t at = 0; at < bytes;) {
        uint32_t code = 0;
        uint32_t length = icp_utf8_decode((const uint8_t *)text + at, bytes - at, &code);
        if (length == 1 && (uint8_t)text[at] >= 0x80) return false;
        at += length;
    }
    return true;
}

static bool has_blank(const char *text, size_t bytes)
{
    for (size_t i = 0; i + 3 <= bytes; i++) {
        if (memcmp(text + i, "\xe2\x96\x81", 3) == 0) return true;
    }
    return false;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static uint32_t ids[IDS_MAX], again[IDS_MAX];
    static char out[16 * BYTES_MAX + 4096];
    if (size < 3 || size > BYTES_MAX) return 0;
    if (tokenizers[0] == NULL) start();
    size_t which = data[0] % VOCABULARIES;
    const icp_tokenizer *tokenizer = tokenizers[which];
    icp_encode_input input = {.text = (const char *)data + 3, .bytes = size - 3};
    icp_byte_range range = {data[1], data[2]};
    if (range.end > input.bytes) range.end = input.bytes;
    bool is_ranged = range.start <= range.end && (data[0] & 64);
    if (is_ranged) {
        input.trusted = &range;
        input.trusted_count = 1;
    }
    size_t count = 0, count_again = 0;
    must(icp_encoder_encode(warm[which], &input, ids, IDS_MAX, &count) == ICP_OK, "the text is not encoded");
    if ((data[0] & 0xb0) == 0xb0) { /* now and then: it is slow */
        icp_encoder *fresh = NULL;
        if (icp_encoder_open(&fresh, tokenizer) != ICP_OK) return 0;
        must(icp_encoder_encode(fresh, &input, again, IDS_MAX, &count_again) == ICP_OK, "not encoded again");
        must(count == count_again && memcmp(ids, again, count * sizeof(*ids)) == 0, "the cache changes the ids");
        icp_encoder_close(fresh);
    }
    bool has_control = false;
    for (size_t i = 0; i < count; i++) {
        icp_token_type type = icp_tokenizer_type(tokenizer, ids[i]);
        has_control = has_control || type == ICP_TOKEN_CONTROL || type == ICP_TOKEN_UNKNOWN;
    }
    must(is_ranged || !has_control, "text became a control token");
    size_t bytes = decode(tokenizer, ids, count, ICP_DECODE_REPLACE | ICP_DECODE_SPECIAL, out);
    must(is_valid(out, bytes), "a replacing decoder wrote invalid UTF-8");
    if (which == 0 && (has_control || has_blank(input.text, input.bytes))) return 0; /* spaces are added, or lost */
    for (size_t i = 0; which == 0 && i < count; i++) {
        if (ids[i] == TINY_SPM_TOOL) return 0; /* a space is added after it */
    }
    bytes = decode(tokenizer, ids, count, ICP_DECODE_START | ICP_DECODE_SPECIAL, out);
    must(bytes == input.bytes && memcmp(out, input.text, bytes) == 0, "the text does not come back");
    return 0;
}
