/* tokenizer_spm.c - SentencePiece vocabularies: any two neighbours whose text together is a token may become it, the
 * highest score first.
 *
 * The file writes a space as U+2581. Here a space is a space: tokens are kept with spaces, and text that has a U+2581
 * of its own is read as if it had a space, as the original does.
 *
 * Scores are turned into ranks once, equal scores into equal ranks, so that both kinds of merging compare numbers.
 *
 * Merging could look at the whole text, but two neighbouring bytes that no token has next to each other can never be
 * merged over: text is cut there into words (a letter and the space after it, mostly), which are small, and which come
 * again and again. */
#include "model/vocabulary.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char blank[3] = {(char)0xe2, (char)0x96, (char)0x81}; /* U+2581 */

size_t icp_spm_text(const char *text, size_t bytes, char *out, bool *has_space)
{
    size_t count = 0;
    *has_space = false;
    for (size_t at = 0; at < bytes; count++) {
        bool is_blank = text[at] == blank[0] && bytes - at >= 3 && memcmp(text + at, blank, 3) == 0;
        if (text[at] == ' ') *has_space = true;
        out[count] = is_blank ? ' ' : text[at];
        at += is_blank ? 3 : 1;
    }
    return count;
}

void icp_spm_carve(icp_tokenizer *tokenizer, icp_arena *arena)
{
    tokenizer->ranks = icp_arena_take(arena, tokenizer->facts.token_count, sizeof(uint32_t));
}

typedef struct scored {
    double score;
    uint32_t id;
} scored;

static int compare_scores(const void *a, const void *b)
{
    const scored *left = a, *right = b;
    return (left->score < right->score) - (left->score > right->score);
}

static icp_status build_ranks(icp_tokenizer *tokenizer, const icp_gguf_pair *scores, icp_error *error)
{
    uint32_t count = tokenizer->facts.token_count;
    scored *order = calloc(count, sizeof(*order));
    if (order == NULL) return ICP_NO_MEMORY;
    for (uint32_t i = 0; i < count; i++) {
        order[i] = (scored){icp_gguf_number_at(scores, i), i};
        if (isfinite(order[i].score)) continue;
        snprintf(error->text, sizeof(error->text), "tokenizer.ggml.scores: the score of token %u is not finite", i);
        free(order);
        return ICP_BAD_ARGUMENT;
    }
    qsort(order, count, sizeof(*order), compare_scores);
    uint32_t rank = 0;
    for (uint32_t i = 0; i < count; i++) {
        if (i > 0 && order[i].score < order[i - 1].score) rank = i;
        tokenizer->ranks[order[i].id] = rank;
    }
    free(order);
    return ICP_OK;
}

/* "<0x0A>" became its byte at open, so a byte token is one byte. */
static void build_bytes(icp_tokenizer *tokenizer)
{
    for (uint32_t byte = 0; byte < 256; byte++) {
        char text = (char)byte;
        tokenizer->byte_symbols[byte] = icp_symbol_find(tokenizer, &text, 1, true);
        tokenizer->byte_tokens[byte] = tokenizer->facts.unk;
    }
    for (uint32_t id = 0; id < tokenizer->facts.token_count; id++) {
        if (tokenizer->types[id] != ICP_TOKEN_BYTE || icp_symbol_bytes(tokenizer, id) != 1) continue;
        tokenizer->byte_tokens[(uint8_t)tokenizer->texts[tokenizer->offsets[id]]] = id;
    }
}

static void build_joins(icp_tokenizer *tokenizer)
{
    for (uint32_t id = 0; id < tokenizer->facts.token_count; id++) {
        if ((tokenizer->marks[id] & ICP_MARK_MERGEABLE) == 0) continue;
        const uint8_t *text = (const uint8_t *)tokenizer->texts + tokenizer->offsets[id];
        uint32_t bytes = icp_symbol_bytes(tokenizer, id);
        for (uint32_t i = 1; i < bytes; i++) {
            uint32_t bit = (uint32_t)text[i - 1] << 8 | text[i];
            tokenizer->joins[bit >> 6] |= UINT64_C(1) << (bit & 63);
        }
    }
}

icp_status icp_spm_build(icp_tokenizer *tokenizer, const icp_gguf *gguf, icp_error *error)
{
    const icp_gguf_pair *scores = icp_gguf_find(gguf, "tokenizer.ggml.scores");
    if (scores == NULL || !scores->is_array || scores->count != tokenizer->facts.token_count ||
        (scores->type != ICP_GGUF_FLOAT32 && scores->type != ICP_GGUF_INT32 && scores->type != ICP_GGUF_FLOAT64)) {
        snprintf(error->text, sizeof(error->text), "tokenizer.ggml.scores is not a number for each token");
        return ICP_BAD_ARGUMENT;
    }
    icp_status status = build_ranks(tokenizer, scores, error);
    if (status != ICP_OK) return status;
    build_bytes(tokenizer);
    build_joins(tokenizer);
    return ICP_OK;
}

bool icp_spm_merge(const icp_tokenizer *tokenizer, const uint8_t *text, size_t bytes, icp_merge *merge)
{
    if (bytes > tokenizer->merge_bytes_max) return false;
    uint32_t symbol = icp_symbol_find(tokenizer, text, bytes, true);
    if (symbol == ICP_SYMBOL_NONE) return false;
    *merge = (icp_merge){tokenizer->ranks[symbol], symbol};
    return true;
}

size_t icp_spm_word_bytes(const icp_tokenizer *tokenizer, const uint8_t *text, size_t bytes)
{
    for (size_t i = 1; i < bytes; i++) {
        uint32_t bit = (uint32_t)text[i - 1] << 8 | text[i];
        bool is_inside = (text[i] & 0xc0) == 0x80; /* a character */
        if (!is_inside && (tokenizer->joins[bit >> 6] >> (bit & 63) & 1) == 0) return i;
    }
    return bytes;
}
