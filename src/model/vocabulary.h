/* vocabulary.h - the tables of a tokenizer, for the files that are it: tokenizer.c opens them, tokenizer_bpe.c and
 * tokenizer_spm.c add what their kind needs, encoder.c and decoder.c use them.
 *
 *      symbols   [ tokens, by id | texts that merges make on the way and that are no tokens (BPE only) ]
 *      offsets     where each text begins in texts; the next one's is its end
 *      slots       open hashing, text -> symbol; an item is tag << 32 | symbol + 1, 0 is free
 *      specials    tokens that are found in text before anything else, sorted by text
 *
 * All of it is one piece of memory, carved up once. A token is mergeable where ordinary text may become it: control,
 * unknown and byte tokens are not, so no text can be merged into one. */
#ifndef ICP_MODEL_VOCABULARY_H
#define ICP_MODEL_VOCABULARY_H

#include "base/arena.h"
#include "model/pretoken.h"
#include "model/tokenizer.h"

#define ICP_SYMBOL_NONE UINT32_MAX

#define ICP_MARK_MERGEABLE 1u
#define ICP_MARK_END 2u /* of generation */

/* In special_first: tokens of these types begin with that byte. */
#define ICP_FIRST_USER_DEFINED 1u
#define ICP_FIRST_CONTROL 2u

typedef struct icp_special {
    const char *text;
    uint32_t bytes;
    uint32_t id;
} icp_special;

/* left and right, next to each other, may become result; the lowest rank is first. */
typedef struct icp_pair {
    uint32_t left, right;
    uint32_t rank, result;
} icp_pair;

typedef struct icp_merge {
    uint32_t rank, result;
} icp_merge;

struct icp_tokenizer {
    icp_tokenizer_facts facts;
    size_t memory_bytes;
    bool is_spm;
    const icp_pretoken *pretoken; /* BPE */

    uint32_t symbol_count, symbol_count_max;
    char *texts;
    size_t text_bytes, text_bytes_max;
    uint32_t *offsets; /* [symbol_count_max + 1] */
    uint8_t *types;    /* [token_count] */
    uint8_t *marks;    /* [symbol_count_max] */
    uint64_t *slots;   /* [slot_mask + 1] */
    uint32_t slot_mask;
    uint32_t merge_bytes_max; /* of the longest mergeable symbol */

    icp_special *specials;
    uint32_t special_count;
    uint8_t special_first[256];

    uint32_t byte_symbols[256]; /* the symbol of one byte */
    uint32_t byte_tokens[256];  /* the token that stands in for a byte; ICP_TOKEN_NONE */

    icp_pair *pairs; /* BPE: [pair_mask + 1], open hashing; a free one has rank UINT32_MAX */
    uint32_t pair_mask;
    uint32_t *ranks;      /* SPM: [token_count], by score */
    uint64_t joins[1024]; /* SPM: bit first << 8 | second: the two bytes are neighbours in some token */
};

/* Sizes that are known before anything is read. */
typedef struct icp_vocabulary_sizes {
    const icp_gguf_pair *tokens, *merges;
    size_t token_bytes, merge_bytes;
} icp_vocabulary_sizes;

static inline uint32_t icp_symbol_bytes(const icp_tokenizer *tokenizer, uint32_t symbol)
{
    return tokenizer->offsets[symbol + 1] - tokenizer->offsets[symbol];
}

static inline uint32_t icp_power_of_two(uint32_t at_least)
{
    uint32_t power = 16;
    while (power < at_least) power *= 2;
    return power;
}

/* Of short texts: words and tokens. */
uint64_t icp_text_hash(const void *text, size_t bytes);

/* The symbol of that text: of any, or of the mergeable ones only. ICP_SYMBOL_NONE. */
uint32_t icp_symbol_find(const icp_tokenizer *tokenizer, const void *text, size_t bytes, bool is_mergeable);

/* Adds the symbol symbol_count, whose text lies at texts + text_bytes already; and puts one into slots. */
void icp_symbol_append(icp_tokenizer *tokenizer, uint32_t bytes, uint8_t marks);
void icp_symbol_index(icp_tokenizer *tokenizer, uint32_t symbol);

/* tokenizer_bpe.c. A token's text in a byte-level vocabulary as bytes: how many, or 0 where it is no such text. The
 * output has at most as many bytes as the input. */
size_t icp_bpe_text(const char *text, size_t bytes, char *out);
void icp_bpe_carve(icp_tokenizer *tokenizer, icp_arena *arena, const icp_vocabulary_sizes *sizes);
void icp_bpe_build(icp_tokenizer *tokenizer, const icp_vocabulary_sizes *sizes);
bool icp_bpe_merge(const icp_tokenizer *tokenizer, uint32_t left, uint32_t right, icp_merge *merge);

/* tokenizer_spm.c. A token's text with spaces for U+2581: how many bytes. *has_space: it had spaces of its own, so no
 * text becomes it. icp_spm_text may work in place. */
size_t icp_spm_text(const char *text, size_t bytes, char *out, bool *has_space);
void icp_spm_carve(icp_tokenizer *tokenizer, icp_arena *arena);
icp_status icp_spm_build(icp_tokenizer *tokenizer, const icp_gguf *gguf, icp_error *error);
bool icp_spm_merge(const icp_tokenizer *tokenizer, const uint8_t *text, size_t bytes, icp_merge *merge);
/* Bytes of the word that begins the text: no token goes over its end. */
size_t icp_spm_word_bytes(const icp_tokenizer *tokenizer, const uint8_t *text, size_t bytes);

#endif
