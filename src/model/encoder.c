/* encoder.c - text to tokens.
 *
 *      text      Hello <|im_end|> world
 *      specials  |Hello |<|im_end|>| world|      the longest one at the first place; control tokens where trusted
 *      words     |Hello| |                       by the pre-tokenizer, or where no token goes over (SentencePiece)
 *      cache     Hello -> 15496                  words come again: most of a text ends here
 *      merging   H e l l o -> He l l o -> ...    symbols in a linked list, candidates in a heap
 *
 * Merging takes the candidate of the lowest rank, the leftmost of equals. A candidate is not taken out of the heap when
 * one of its symbols is merged away: it is known to be stale by its length, since symbols only grow. A word of n
 * symbols has at most n - 1 candidates at first and each merge adds two for the one it takes, so 2n of them suffice.
 *
 * An encoder belongs to one thread. Its scratch memory grows to the longest word it has met; what is past
 * SCRATCH_KEPT is given back after the text. */
#include "model/vocabulary.h"

#include "base/assert.h"
#include "model/unicode.h"

#include <stdlib.h>
#include <string.h>

#define CACHE_COUNT 16384u /* words, 1 MiB; a power of two */
#define CACHE_TEXT_BYTES 34u
#define CACHE_IDS 6u
#define SCRATCH_KEPT 4096u /* symbols */
#define LINK_NONE UINT32_MAX

typedef struct word_entry {
    uint32_t tag;
    uint8_t bytes; /* 0: free */
    uint8_t id_count;
    char text[CACHE_TEXT_BYTES];
    uint32_t ids[CACHE_IDS];
} word_entry;

typedef struct word_symbol {
    uint32_t symbol;
    uint32_t start, bytes; /* in the word; 0 bytes: merged into the one before */
    uint32_t previous, next;
} word_symbol;

typedef struct candidate {
    uint64_t key; /* rank << 32 | index of the left symbol */
    uint32_t bytes;
    uint32_t result;
} candidate;

struct icp_encoder {
    const icp_tokenizer *tokenizer;
    word_entry *cache;

    word_symbol *symbols; /* [symbol_count_max] */
    candidate *heap;      /* [2 * symbol_count_max] */
    size_t symbol_count_max;
    uint32_t heap_count;
    char *plain; /* SentencePiece: the piece with its spaces, [plain_bytes_max] */
    size_t plain_bytes_max;

    uint32_t *ids; /* of the caller */
    size_t id_count_max, id_count;
    uint32_t word_ids[CACHE_IDS]; /* the first ones of the word at hand */
    size_t word_start;            /* id_count where it began */
};

static void emit(icp_encoder *encoder, uint32_t id)
{
    size_t index = encoder->id_count++;
    if (index < encoder->id_count_max) encoder->ids[index] = id;
    if (index - encoder->word_start < CACHE_IDS) encoder->word_ids[index - encoder->word_start] = id;
}

/* ---- The heap ------------------------------------------------------------------------------------------- */

static void heap_sink(candidate *heap, uint32_t count, uint32_t index)
{
    candidate moving = heap[index];
    for (;;) {
        uint32_t child = index * 2 + 1;
        if (child >= count) break;
        if (child + 1 < count && heap[child + 1].key < heap[child].key) child++;
        if (moving.key <= heap[child].key) break;
        heap[index] = heap[child];
        index = child;
    }
    heap[index] = moving;
}

static void heap_push(icp_encoder *encoder, candidate item)
{
    uint32_t index = encoder->heap_count++;
    candidate *heap = encoder->heap;
    while (index > 0 && item.key < heap[(index - 1) / 2].key) {
        heap[index] = heap[(index - 1) / 2];
        index = (index - 1) / 2;
    }
    heap[index] = item;
}

static candidate heap_pop(icp_encoder *encoder)
{
    candidate top = encoder->heap[0];
    encoder->heap[0] = encoder->heap[--encoder->heap_count];
    if (encoder->heap_count > 1) heap_sink(encoder->heap, encoder->heap_count, 0);
    return top;
}

/* ---- Merging -------------------------------------------------------------------------------------------- */

/* What the symbol left and the one after it become, if anything. */
static bool candidate_make(const icp_encoder *encoder, const uint8_t *word, uint32_t left, candidate *item)
{
    const word_symbol *first = &encoder->symbols[left];
    if (first->next == LINK_NONE) return false;
    const word_symbol *second = &encoder->symbols[first->next];
    icp_merge merge;
    uint32_t bytes = first->bytes + second->bytes;
    bool is_merge = encoder->tokenizer->is_spm
                        ? icp_spm_merge(encoder->tokenizer, word + first->start, bytes, &merge)
                        : icp_bpe_merge(encoder->tokenizer, first->symbol, second->symbol, &merge);
    if (is_merge) *item = (candidate){(uint64_t)merge.rank << 32 | left, bytes, merge.result};
    return is_merge;
}

/* Characters of a SentencePiece word, bytes of a BPE word. How many. */
static uint32_t word_split(icp_encoder *encoder, const uint8_t *word, size_t bytes)
{
    const icp_tokenizer *tokenizer = encoder->tokenizer;
    uint32_t count = 0;
    for (size_t at = 0; at < bytes; count++) {
        uint32_t length = 1, code = 0;
        if (tokenizer->is_spm && word[at] >= 0x80) length = icp_utf8_decode(word + at, bytes - at, &code);
        word_symbol *symbol = &encoder->symbols[count];
        symbol->symbol =
            length == 1 ? tokenizer->byte_symbols[word[at]] : icp_symbol_find(tokenizer, word + at, length, true);
        symbol->start = (uint32_t)at;
        symbol->bytes = length;
        symbol->previous = count == 0 ? LINK_NONE : count - 1;
        symbol->next = count + 1;
        at += length;
    }
    if (count > 0) encoder->symbols[count - 1].next = LINK_NONE;
    return count;
}

static void word_merge(icp_encoder *encoder, const uint8_t *word, uint32_t count)
{
    word_symbol *symbols = encoder->symbols;
    candidate item;
    encoder->heap_count = 0;
    for (uint32_t i = 0; i + 1 < count; i++) {
        if (candidate_make(encoder, word, i, &item)) encoder->heap[encoder->heap_count++] = item;
    }
    for (uint32_t i = encoder->heap_count / 2; i > 0; i--) heap_sink(encoder->heap, encoder->heap_count, i - 1);

    while (encoder->heap_count > 0) {
        candidate best = heap_pop(encoder);
        uint32_t index = (uint32_t)best.key;
        word_symbol *left = &symbols[index];
        if (left->bytes == 0 || left->next == LINK_NONE) continue;
        word_symbol *right = &symbols[left->next];
        if (left->bytes + right->bytes != best.bytes) continue;
        left->symbol = best.result;
        left->bytes = best.bytes;
        left->next = right->next;
        right->bytes = 0;
        if (left->next != LINK_NONE) symbols[left->next].previous = index;
        if (left->previous != LINK_NONE && candidate_make(encoder, word, left->previous, &item)) {
            heap_push(encoder, item);
        }
        if (candidate_make(encoder, word, index, &item)) heap_push(encoder, item);
    }
}

/* What is no token is written byte by byte; a byte that the vocabulary has no token for is left out. */
static void emit_bytes(icp_encoder *encoder, const uint8_t *text, uint32_t bytes)
{
    for (uint32_t i = 0; i < bytes; i++) {
        uint32_t id = encoder->tokenizer->byte_tokens[text[i]];
        if (id != ICP_TOKEN_NONE) emit(encoder, id);
    }
}

static icp_status scratch_reserve(icp_encoder *encoder, size_t symbol_count)
{
    if (symbol_count <= encoder->symbol_count_max) return ICP_OK;
    size_t count = symbol_count + symbol_count / 2;
    word_symbol *symbols = malloc(count * sizeof(*symbols));
    candidate *heap = malloc(count * 2 * sizeof(*heap));
    if (symbols == NULL || heap == NULL) {
        free(symbols);
        free(heap);
        return ICP_NO_MEMORY;
    }
    free(encoder->symbols);
    free(encoder->heap);
    encoder->symbols = symbols;
    encoder->heap = heap;
    encoder->symbol_count_max = count;
    return ICP_OK;
}

static icp_status word_tokenize(icp_encoder *encoder, const uint8_t *word, size_t bytes)
{
    const icp_tokenizer *tokenizer = encoder->tokenizer;
    if (!tokenizer->is_spm && tokenizer->pretoken->is_ignoring_merges && bytes <= tokenizer->merge_bytes_max) {
        uint32_t symbol = icp_symbol_find(tokenizer, word, bytes, true);
        if (symbol < tokenizer->facts.token_count) {
            emit(encoder, symbol);
            return ICP_OK;
        }
    }
    icp_status status = scratch_reserve(encoder, bytes);
    if (status != ICP_OK) return status;
    uint32_t count = word_split(encoder, word, bytes);
    word_merge(encoder, word, count);
    for (uint32_t i = 0; i != LINK_NONE; i = encoder->symbols[i].next) {
        const word_symbol *symbol = &encoder->symbols[i];
        if (symbol->symbol < tokenizer->facts.token_count)
            emit(encoder, symbol->symbol);
        else
            emit_bytes(encoder, word + symbol->start, symbol->bytes);
    }
    return ICP_OK;
}

/* ---- Words ---------------------------------------------------------------------------------------------- */

static icp_status encode_word(icp_encoder *encoder, const uint8_t *word, size_t bytes)
{
    encoder->word_start = encoder->id_count;
    if (bytes > CACHE_TEXT_BYTES) return word_tokenize(encoder, word, bytes);

    uint64_t hash = icp_text_hash(word, bytes);
    word_entry *entry = &encoder->cache[hash & (CACHE_COUNT - 1)];
    uint32_t tag = (uint32_t)(hash >> 32);
    if (entry->tag == tag && entry->bytes == bytes && memcmp(entry->text, word, bytes) == 0) {
        for (uint32_t i = 0; i < entry->id_count; i++) emit(encoder, entry->ids[i]);
        return ICP_OK;
    }
    icp_status status = word_tokenize(encoder, word, bytes);
    size_t count = encoder->id_count - encoder->word_start;
    if (status != ICP_OK || count > CACHE_IDS) return status;
    entry->tag = tag;
    entry->bytes = (uint8_t)bytes;
    entry->id_count = (uint8_t)count;
    memcpy(entry->text, word, bytes);
    memcpy(entry->ids, encoder->word_ids, count * sizeof(uint32_t));
    return ICP_OK;
}

static icp_status encode_spm(icp_encoder *encoder, const char *text, size_t bytes, bool has_space_before)
{
    if (bytes + 1 > encoder->plain_bytes_max) {
        size_t size = bytes + bytes / 2 + 1;
        char *plain = malloc(size);
        if (plain == NULL) return ICP_NO_MEMORY;
        free(encoder->plain);
        encoder->plain = plain;
        encoder->plain_bytes_max = size;
    }
    bool has_space = false;
    size_t count = has_space_before ? 1 : 0;
    encoder->plain[0] = ' ';
    count += icp_spm_text(text, bytes, encoder->plain + count, &has_space);

    const uint8_t *plain = (const uint8_t *)encoder->plain;
    for (size_t at = 0; at < count;) {
        size_t word = icp_spm_word_bytes(encoder->tokenizer, plain + at, count - at);
        icp_status status = encode_word(encoder, plain + at, word);
        if (status != ICP_OK) return status;
        at += word;
    }
    return ICP_OK;
}

/* Text between two special tokens, or the ends. */
static icp_status encode_piece(icp_encoder *encoder, const char *text, size_t bytes)
{
    if (bytes == 0) return ICP_OK;
    const icp_tokenizer *tokenizer = encoder->tokenizer;
    if (tokenizer->is_spm) return encode_spm(encoder, text, bytes, tokenizer->facts.is_adding_space);

    icp_pretoken_scan scan;
    const uint8_t *word = NULL;
    icp_pretoken_start(&scan, tokenizer->pretoken, (const uint8_t *)text, bytes);
    while (icp_pretoken_next(&scan, &word, &bytes)) {
        icp_status status = encode_word(encoder, word, bytes);
        if (status != ICP_OK) return status;
    }
    return ICP_OK;
}

/* ---- Special tokens ------------------------------------------------------------------------------------- */

/* The first item of [low, high) whose byte at depth is at least byte; shorter texts come before all. */
static uint32_t special_bound(const icp_special *specials, uint32_t low, uint32_t high, uint32_t depth, unsigned byte)
{
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        const icp_special *special = &specials[middle];
        if (special->bytes <= depth || (uint8_t)special->text[depth] < byte)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* The longest special token that begins here: a user defined one of any of bytes, a control token of the trusted ones.
 * Goes down byte by byte through the sorted texts, and stops where none begins like this. NULL: there is none. */
static const icp_special *special_match(const icp_tokenizer *tokenizer, const char *text, size_t bytes, size_t trusted)
{
    const icp_special *specials = tokenizer->specials;
    const icp_special *found = NULL;
    uint32_t low = 0, high = tokenizer->special_count;
    for (uint32_t depth = 0; depth < bytes; depth++) {
        unsigned byte = (uint8_t)text[depth];
        low = special_bound(specials, low, high, depth, byte);
        high = special_bound(specials, low, high, depth, byte + 1);
        if (low == high) break;
        for (uint32_t i = low; i < high && specials[i].bytes == depth + 1; i++) { /* more than one: equal texts */
            bool is_user_defined = tokenizer->types[specials[i].id] == ICP_TOKEN_USER_DEFINED;
            if (is_user_defined || depth + 1 <= trusted) found = &specials[i];
        }
    }
    return found;
}

typedef struct special_scan {
    const icp_encode_input *input;
    size_t range;   /* the first trusted range that ends past the position */
    size_t run_end; /* where the ranges that touch it end */
} special_scan;

/* How many bytes from position on are trusted. */
static size_t trusted_bytes(special_scan *scan, size_t position)
{
    const icp_encode_input *input = scan->input;
    if (input->flags & ICP_ENCODE_PARSE_SPECIAL) return input->bytes - position;
    while (scan->range < input->trusted_count && input->trusted[scan->range].end <= position) scan->range++;
    if (scan->range == input->trusted_count || input->trusted[scan->range].start > position) return 0;
    if (scan->run_end <= position) {
        size_t last = scan->range;
        while (last + 1 < input->trusted_count && input->trusted[last + 1].start == input->trusted[last].end) last++;
        scan->run_end = input->trusted[last].end;
    }
    return scan->run_end - position;
}

static icp_status encode_text(icp_encoder *encoder, const icp_encode_input *input)
{
    const icp_tokenizer *tokenizer = encoder->tokenizer;
    special_scan scan = {.input = input};
    bool has_trusted = (input->flags & ICP_ENCODE_PARSE_SPECIAL) || input->trusted_count > 0;
    unsigned wanted = ICP_FIRST_USER_DEFINED | (has_trusted ? ICP_FIRST_CONTROL : 0);
    size_t start = 0;
    for (size_t at = 0; at < input->bytes;) {
        const icp_special *special = NULL;
        if (tokenizer->special_first[(uint8_t)input->text[at]] & wanted) {
            size_t trusted = has_trusted ? trusted_bytes(&scan, at) : 0;
            special = special_match(tokenizer, input->text + at, input->bytes - at, trusted);
        }
        if (special == NULL) {
            at++;
            continue;
        }
        icp_status status = encode_piece(encoder, input->text + start, at - start);
        if (status != ICP_OK) return status;
        encoder->word_start = encoder->id_count;
        emit(encoder, special->id);
        at += special->bytes;
        start = at;
    }
    return encode_piece(encoder, input->text + start, input->bytes - start);
}

/* ---- The calls ------------------------------------------------------------------------------------------ */

icp_status icp_encoder_open(icp_encoder **out, const icp_tokenizer *tokenizer)
{
    if (out == NULL || tokenizer == NULL) return ICP_BAD_ARGUMENT;
    icp_encoder *encoder = calloc(1, sizeof(*encoder));
    if (encoder == NULL) return ICP_NO_MEMORY;
    encoder->tokenizer = tokenizer;
    encoder->cache = aligned_alloc(64, CACHE_COUNT * sizeof(word_entry));
    if (encoder->cache == NULL || scratch_reserve(encoder, 256) != ICP_OK) {
        icp_encoder_close(encoder);
        return ICP_NO_MEMORY;
    }
    memset(encoder->cache, 0, CACHE_COUNT * sizeof(word_entry));
    *out = encoder;
    return ICP_OK;
}

void icp_encoder_close(icp_encoder *encoder)
{
    if (encoder == NULL) return;
    free(encoder->cache);
    free(encoder->symbols);
    free(encoder->heap);
    free(encoder->plain);
    free(encoder);
}

static bool is_valid(const icp_encode_input *input)
{
    if (input->text == NULL && input->bytes > 0) return false;
    if (input->flags & ~(ICP_ENCODE_ADD_SPECIAL | ICP_ENCODE_PARSE_SPECIAL)) return false;
    if (input->trusted == NULL && input->trusted_count > 0) return false;
    size_t end = 0;
    for (size_t i = 0; i < input->trusted_count; i++) {
        const icp_byte_range *range = &input->trusted[i];
        if (range->start < end || range->end < range->start || range->end > input->bytes) return false;
        end = range->end;
    }
    return true;
}

static void scratch_trim(icp_encoder *encoder)
{
    if (encoder->symbol_count_max > SCRATCH_KEPT) {
        free(encoder->symbols);
        free(encoder->heap);
        encoder->symbols = NULL;
        encoder->heap = NULL;
        encoder->symbol_count_max = 0;
    }
    if (encoder->plain_bytes_max > SCRATCH_KEPT * sizeof(word_symbol)) {
        free(encoder->plain);
        encoder->plain = NULL;
        encoder->plain_bytes_max = 0;
    }
}

icp_status icp_encoder_encode(icp_encoder *encoder, const icp_encode_input *input, uint32_t *ids, size_t id_count_max,
                              size_t *id_count)
{
    if (encoder == NULL || input == NULL || id_count == NULL) return ICP_BAD_ARGUMENT;
    if ((ids == NULL && id_count_max > 0) || !is_valid(input)) return ICP_BAD_ARGUMENT;
    *id_count = 0;
    if (input->bytes > ICP_TOKENIZER_TEXT_BYTES_MAX) return ICP_TOO_LONG;

    const icp_tokenizer_facts *facts = &encoder->tokenizer->facts;
    bool is_adding = (input->flags & ICP_ENCODE_ADD_SPECIAL) != 0;
    encoder->ids = ids;
    encoder->id_count_max = id_count_max;
    encoder->id_count = encoder->word_start = 0;
    if (is_adding && facts->is_adding_bos) emit(encoder, facts->bos);
    icp_status status = encode_text(encoder, input);
    encoder->word_start = encoder->id_count;
    if (is_adding && facts->is_adding_eos) emit(encoder, facts->eos);
    encoder->ids = NULL;
    scratch_trim(encoder);
    if (status != ICP_OK) return status;

    *id_count = encoder->id_count;
    return encoder->id_count > id_count_max ? ICP_TOO_LONG : ICP_OK;
}
