/* tokenizer_bpe.c - byte-level BPE: the merges as a table of pairs.
 *
 * The file writes the 256 bytes as 256 printable characters (a space is U+0120); everything here is the bytes
 * themselves. A merge is kept as the pair of the symbols that it joins, its place in the list and the symbol that it
 * makes, so that merging compares numbers and never text. Where merges go over a text that is no token, it becomes a
 * symbol past the tokens, and is written as its bytes if it is left over at the end. */
#include "model/vocabulary.h"

#include "base/assert.h"
#include "model/unicode.h"

#include <string.h>

#define PAIR_FREE UINT32_MAX

/* The character that stands for a byte. */
static uint32_t byte_code(uint32_t byte)
{
    if ((byte >= 0x21 && byte <= 0x7e) || (byte >= 0xa1 && byte <= 0xac) || byte >= 0xae) return byte;
    if (byte <= 0x20) return 0x100 + byte;        /* the first 33 of the others */
    if (byte <= 0xa0) return 0x121 + byte - 0x7f; /* the next 34 */
    return 0x143;                                 /* 0xad */
}

/* The byte that a character stands for, or UINT32_MAX. */
static uint32_t code_byte(uint32_t code)
{
    if (code < 0x100) return byte_code(code) == code ? code : UINT32_MAX;
    if (code <= 0x120) return code - 0x100;
    if (code <= 0x142) return code - 0x121 + 0x7f;
    return code == 0x143 ? 0xad : UINT32_MAX;
}

size_t icp_bpe_text(const char *text, size_t bytes, char *out)
{
    const uint8_t *from = (const uint8_t *)text;
    size_t count = 0;
    for (size_t at = 0; at < bytes; count++) {
        uint32_t code = 0;
        uint32_t length = icp_utf8_decode(from + at, bytes - at, &code);
        uint32_t byte = code_byte(code);
        if (byte == UINT32_MAX) return 0;
        out[count] = (char)byte;
        at += length;
    }
    return count;
}

void icp_bpe_carve(icp_tokenizer *tokenizer, icp_arena *arena, const icp_vocabulary_sizes *sizes)
{
    uint32_t count = icp_power_of_two((uint32_t)sizes->merges->count * 2);
    tokenizer->pairs = icp_arena_take(arena, count, sizeof(icp_pair));
    tokenizer->pair_mask = count - 1;
}

static uint32_t pair_slot(const icp_tokenizer *tokenizer, uint32_t left, uint32_t right)
{
    uint64_t mixed = ((uint64_t)left << 32 | right) * UINT64_C(0x9e3779b97f4a7c15);
    return (uint32_t)((mixed ^ mixed >> 32) & tokenizer->pair_mask);
}

bool icp_bpe_merge(const icp_tokenizer *tokenizer, uint32_t left, uint32_t right, icp_merge *merge)
{
    uint32_t slot = pair_slot(tokenizer, left, right);
    for (;; slot = (slot + 1) & tokenizer->pair_mask) {
        const icp_pair *pair = &tokenizer->pairs[slot];
        if (pair->rank == PAIR_FREE) return false;
        if (pair->left != left || pair->right != right) continue;
        *merge = (icp_merge){pair->rank, pair->result};
        return true;
    }
}

/* The first merge of a pair is the one that counts. */
static void pair_add(icp_tokenizer *tokenizer, icp_pair pair)
{
    icp_merge merge;
    if (icp_bpe_merge(tokenizer, pair.left, pair.right, &merge)) return;
    uint32_t slot = pair_slot(tokenizer, pair.left, pair.right);
    while (tokenizer->pairs[slot].rank != PAIR_FREE) slot = (slot + 1) & tokenizer->pair_mask;
    tokenizer->pairs[slot] = pair;
}

/* "left right" as bytes, one after the other at texts + text_bytes. False: it is no merge, and of no use. */
static bool merge_read(icp_tokenizer *tokenizer, icp_gguf_string line, size_t *left_bytes, size_t *right_bytes)
{
    if (line.bytes < 3) return false;
    const char *space = memchr(line.text + 1, ' ', line.bytes - 1);
    if (space == NULL) return false;
    char *out = tokenizer->texts + tokenizer->text_bytes;
    size_t first = (size_t)(space - line.text);
    ICP_ASSERT(tokenizer->text_bytes + line.bytes <= tokenizer->text_bytes_max);
    *left_bytes = icp_bpe_text(line.text, first, out);
    *right_bytes = icp_bpe_text(space + 1, line.bytes - first - 1, out + *left_bytes);
    return *left_bytes > 0 && *right_bytes > 0;
}

static uint32_t symbol_of(icp_tokenizer *tokenizer, const char *text, size_t bytes)
{
    uint32_t symbol = icp_symbol_find(tokenizer, text, bytes, true);
    if (symbol != ICP_SYMBOL_NONE) return symbol;
    symbol = tokenizer->symbol_count;
    memmove(tokenizer->texts + tokenizer->text_bytes, text, bytes);
    icp_symbol_append(tokenizer, (uint32_t)bytes, ICP_MARK_MERGEABLE);
    icp_symbol_index(tokenizer, symbol);
    return symbol;
}

/* The symbols and tokens of the 256 bytes. Some files have the bytes that UTF-8 never uses as user defined tokens,
 * under the characters that stand for them. */
static void build_bytes(icp_tokenizer *tokenizer)
{
    for (uint32_t byte = 0; byte < 256; byte++) {
        char text = (char)byte;
        uint32_t symbol = symbol_of(tokenizer, &text, 1);
        uint32_t token = symbol < tokenizer->facts.token_count ? symbol : ICP_TOKEN_NONE;
        if (token == ICP_TOKEN_NONE && byte >= 0x80) {
            uint8_t written[4];
            uint32_t bytes = icp_utf8_encode(byte_code(byte), written);
            uint32_t found = icp_tokenizer_find(tokenizer, (const char *)written, bytes);
            if (icp_tokenizer_type(tokenizer, found) == ICP_TOKEN_USER_DEFINED) token = found;
        }
        tokenizer->byte_symbols[byte] = symbol;
        tokenizer->byte_tokens[byte] = token == ICP_TOKEN_NONE ? tokenizer->facts.unk : token;
    }
}

void icp_bpe_build(icp_tokenizer *tokenizer, const icp_vocabulary_sizes *sizes)
{
    for (uint32_t i = 0; i <= tokenizer->pair_mask; i++) tokenizer->pairs[i].rank = PAIR_FREE;
    build_bytes(tokenizer);

    /* What merges make first, so that the order of the list does not matter for what they join. */
    icp_gguf_string line;
    size_t left_bytes = 0, right_bytes = 0;
    for (size_t cursor = 0; icp_gguf_next_string(sizes->merges, &cursor, &line);) {
        if (!merge_read(tokenizer, line, &left_bytes, &right_bytes)) continue;
        (void)symbol_of(tokenizer, tokenizer->texts + tokenizer->text_bytes, left_bytes + right_bytes);
    }
    uint32_t rank = 0;
    for (size_t cursor = 0; icp_gguf_next_string(sizes->merges, &cursor, &line); rank++) {
        if (!merge_read(tokenizer, line, &left_bytes, &right_bytes)) continue;
        const char *text = tokenizer->texts + tokenizer->text_bytes;
        icp_pair pair = {.rank = rank};
        pair.left = icp_symbol_find(tokenizer, text, left_bytes, true);
        pair.right = icp_symbol_find(tokenizer, text + left_bytes, right_bytes, true);
        pair.result = icp_symbol_find(tokenizer, text, left_bytes + right_bytes, true);
        if (pair.left != ICP_SYMBOL_NONE && pair.right != ICP_SYMBOL_NONE) pair_add(tokenizer, pair);
    }
}
