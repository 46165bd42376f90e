/* vocabulary.c - the table of texts: adding, finding, hashing. */
#include "model/vocabulary.h"

#include <string.h>

static uint64_t mix(uint64_t value)
{
    value *= UINT64_C(0x9e3779b97f4a7c15);
    return value ^ value >> 32;
}

/* Eight bytes at a time; the last ones overlap, so that nothing past the end is read. */
uint64_t icp_text_hash(const void *text, size_t bytes)
{
    const uint8_t *from = text;
    uint64_t hash = mix(bytes + 1);
    uint64_t word = 0;
    if (bytes >= 8) {
        for (size_t i = 0; i + 8 < bytes; i += 8) {
            memcpy(&word, from + i, 8);
            hash = mix(hash ^ word);
        }
        memcpy(&word, from + bytes - 8, 8);
    } else if (bytes >= 4) {
        uint32_t low = 0, high = 0;
        memcpy(&low, from, 4);
        memcpy(&high, from + bytes - 4, 4);
        word = (uint64_t)high << 32 | low;
    } else if (bytes > 0) {
        word = (uint64_t)from[0] << 16 | (uint64_t)from[bytes / 2] << 8 | from[bytes - 1];
    }
    return mix(mix(hash ^ word));
}

static bool is_text(const icp_tokenizer *tokenizer, uint32_t symbol, const void *text, size_t bytes)
{
    if (icp_symbol_bytes(tokenizer, symbol) != bytes) return false;
    return memcmp(tokenizer->texts + tokenizer->offsets[symbol], text, bytes) == 0;
}

uint32_t icp_symbol_find(const icp_tokenizer *tokenizer, const void *text, size_t bytes, bool is_mergeable)
{
    if (bytes == 0) return ICP_SYMBOL_NONE;
    uint64_t hash = icp_text_hash(text, bytes);
    uint32_t slot = (uint32_t)hash & tokenizer->slot_mask;
    for (;; slot = (slot + 1) & tokenizer->slot_mask) {
        uint64_t item = tokenizer->slots[slot];
        if (item == 0) return ICP_SYMBOL_NONE;
        if (item >> 32 != hash >> 32) continue;
        uint32_t symbol = (uint32_t)item - 1;
        if (is_mergeable && (tokenizer->marks[symbol] & ICP_MARK_MERGEABLE) == 0) continue;
        if (is_text(tokenizer, symbol, text, bytes)) return symbol;
    }
}

void icp_symbol_append(icp_tokenizer *tokenizer, uint32_t bytes, uint8_t marks)
{
    uint32_t symbol = tokenizer->symbol_count++;
    tokenizer->text_bytes += bytes;
    tokenizer->offsets[symbol + 1] = (uint32_t)tokenizer->text_bytes;
    tokenizer->marks[symbol] = marks;
    if ((marks & ICP_MARK_MERGEABLE) && bytes > tokenizer->merge_bytes_max) tokenizer->merge_bytes_max = bytes;
}

void icp_symbol_index(icp_tokenizer *tokenizer, uint32_t symbol)
{
    uint32_t bytes = icp_symbol_bytes(tokenizer, symbol);
    if (bytes == 0) return;
    uint64_t hash = icp_text_hash(tokenizer->texts + tokenizer->offsets[symbol], bytes);
    uint32_t slot = (uint32_t)hash & tokenizer->slot_mask;
    while (tokenizer->slots[slot] != 0) slot = (slot + 1) & tokenizer->slot_mask;
    tokenizer->slots[slot] = hash >> 32 << 32 | (symbol + 1);
}
