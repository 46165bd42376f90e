/* tokenizer.c - opens a vocabulary from a model file, and answers questions about its tokens.
 *
 * Everything is measured first (the number of tokens, the bytes of texts and merges), taken as one piece of memory,
 * and filled. Then nothing changes any more. */
#include "model/vocabulary.h"

#include "base/assert.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Texts that end a generation, in the order in which they are looked for as the end of a turn: the model files say too
 * little, so the names that models are known to use are taken as well. */
static const struct known_end {
    const char *text;
    bool is_turn;  /* may be the eot token */
    bool is_plain; /* ordinary text may look like this: only where the file does not say that it is normal */
} known_ends[] = {
    {"<|eot_id|>", true, false},
    {"<|im_end|>", true, false},
    {"<|end|>", true, false},
    {"<end_of_turn>", true, false},
    {"<|endoftext|>", true, false},
    {"<|end_of_text|>", true, false},
    {"<EOT>", true, true},
    {"_<EOT>", true, true},
    {"[EOT]", true, true},
    {"<\xef\xbd\x9c"
     "end\xe2\x96\x81of\xe2\x96\x81sentence\xef\xbd\x9c>",
     true, false},
    {"<end_of_utterance>", true, false},
    {"<|eom_id|>", false, false},
    {"<|return|>", false, false},
    {"<|call|>", false, false},
    {"</s>", false, true},
    {"<eos>", false, true},
    {"[EOS]", false, true},
    {"<|fim_pad|>", false, false},
    {"<|fim_repo|>", false, false},
    {"<|repo_name|>", false, false},
    {"<|file_sep|>", false, false},
};

/* What a name in a model file may print as. */
static int printable(char *out, size_t size, icp_gguf_string name)
{
    size_t bytes = name.bytes < size - 1 ? name.bytes : size - 1;
    for (size_t i = 0; i < bytes; i++) out[i] = name.text[i] >= 0x20 && name.text[i] < 0x7f ? name.text[i] : '?';
    out[bytes] = 0;
    return (int)bytes;
}

static icp_status refuse(icp_error *error, const char *text)
{
    snprintf(error->text, sizeof(error->text), "%s", text);
    return ICP_BAD_ARGUMENT;
}

/* ---- Measuring ------------------------------------------------------------------------------------------ */

static icp_status read_kind(icp_tokenizer *tokenizer, const icp_gguf *gguf, icp_error *error)
{
    char name[64] = "";
    icp_gguf_string model, pre = {"default", 7};
    if (!icp_gguf_text(gguf, "tokenizer.ggml.model", &model)) {
        return refuse(error, "tokenizer.ggml.model is missing: the file has no vocabulary");
    }
    tokenizer->is_spm = model.bytes == 5 && memcmp(model.text, "llama", 5) == 0;
    bool is_bpe = model.bytes == 4 && memcmp(model.text, "gpt2", 4) == 0;
    if (!tokenizer->is_spm && !is_bpe) {
        printable(name, sizeof(name), model);
        snprintf(error->text, sizeof(error->text), "tokenizer.ggml.model \"%s\" is not supported: llama and gpt2 are",
                 name);
        return ICP_BAD_ARGUMENT;
    }
    printable(tokenizer->facts.model, sizeof(tokenizer->facts.model), model);
    if (tokenizer->is_spm) return ICP_OK;

    (void)icp_gguf_text(gguf, "tokenizer.ggml.pre", &pre);
    tokenizer->pretoken = icp_pretoken_find(pre.text, pre.bytes);
    if (tokenizer->pretoken == NULL) {
        printable(name, sizeof(name), pre);
        snprintf(error->text, sizeof(error->text), "tokenizer.ggml.pre \"%s\" is not a known pre-tokenizer", name);
        return ICP_BAD_ARGUMENT;
    }
    printable(tokenizer->facts.pre, sizeof(tokenizer->facts.pre), pre);
    return ICP_OK;
}

static bool is_array(const icp_gguf_pair *pair, icp_gguf_type type, uint64_t count_max)
{
    return pair != NULL && pair->is_array && pair->type == type && pair->count <= count_max;
}

static icp_status measure(icp_tokenizer *tokenizer, const icp_gguf *gguf, icp_vocabulary_sizes *sizes, icp_error *error)
{
    icp_gguf_string text;
    sizes->tokens = icp_gguf_find(gguf, "tokenizer.ggml.tokens");
    if (!is_array(sizes->tokens, ICP_GGUF_STRING, ICP_TOKENIZER_TOKEN_COUNT_MAX) || sizes->tokens->count == 0) {
        return refuse(error, "tokenizer.ggml.tokens is not a list of 1 to 4194304 texts");
    }
    for (size_t cursor = 0; icp_gguf_next_string(sizes->tokens, &cursor, &text);) sizes->token_bytes += text.bytes;
    if (!tokenizer->is_spm) {
        sizes->merges = icp_gguf_find(gguf, "tokenizer.ggml.merges");
        if (!is_array(sizes->merges, ICP_GGUF_STRING, ICP_TOKENIZER_MERGE_COUNT_MAX)) {
            return refuse(error, "tokenizer.ggml.merges is not a list of at most 4194304 texts");
        }
        size_t longest = 0;
        for (size_t cursor = 0; icp_gguf_next_string(sizes->merges, &cursor, &text);) {
            sizes->merge_bytes += text.bytes;
            if (text.bytes > longest) longest = text.bytes;
        }
        sizes->merge_bytes += longest; /* one is taken apart behind the others */
    }
    tokenizer->facts.token_count = (uint32_t)sizes->tokens->count;
    tokenizer->symbol_count_max = tokenizer->facts.token_count;
    if (!tokenizer->is_spm) tokenizer->symbol_count_max += 256 + (uint32_t)sizes->merges->count;
    tokenizer->text_bytes_max = sizes->token_bytes + sizes->merge_bytes + 256;
    if (tokenizer->text_bytes_max > UINT32_MAX) return refuse(error, "the vocabulary is larger than 4 GiB");
    return ICP_OK;
}

static void carve(icp_tokenizer *tokenizer, icp_arena *arena, const icp_vocabulary_sizes *sizes)
{
    uint32_t symbols = tokenizer->symbol_count_max;
    tokenizer->slot_mask = icp_power_of_two(symbols * 2) - 1;
    tokenizer->texts = icp_arena_take(arena, tokenizer->text_bytes_max, 1);
    tokenizer->offsets = icp_arena_take(arena, (size_t)symbols + 1, sizeof(uint32_t));
    tokenizer->types = icp_arena_take(arena, tokenizer->facts.token_count, 1);
    tokenizer->marks = icp_arena_take(arena, symbols, 1);
    tokenizer->slots = icp_arena_take(arena, (size_t)tokenizer->slot_mask + 1, sizeof(uint64_t));
    tokenizer->specials = icp_arena_take(arena, tokenizer->facts.token_count, sizeof(icp_special));
    if (tokenizer->is_spm)
        icp_spm_carve(tokenizer, arena);
    else
        icp_bpe_carve(tokenizer, arena, sizes);
}

/* ---- Reading -------------------------------------------------------------------------------------------- */

static icp_status read_types(icp_tokenizer *tokenizer, const icp_gguf *gguf, icp_error *error)
{
    const icp_gguf_pair *types = icp_gguf_find(gguf, "tokenizer.ggml.token_type");
    uint32_t count = tokenizer->facts.token_count;
    if (types == NULL) {
        memset(tokenizer->types, ICP_TOKEN_NORMAL, count);
        return ICP_OK;
    }
    bool is_number = types->type == ICP_GGUF_INT32 || types->type == ICP_GGUF_UINT32;
    if (!types->is_array || !is_number || types->count != count) {
        return refuse(error, "tokenizer.ggml.token_type is not a number for each token");
    }
    for (uint32_t i = 0; i < count; i++) {
        double type = icp_gguf_number_at(types, i);
        tokenizer->types[i] = type >= 0 && type <= ICP_TOKEN_BYTE ? (uint8_t)type : ICP_TOKEN_UNDEFINED;
    }
    return ICP_OK;
}

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'A' && c <= 'F') return c - 'A' + 10;
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    return -1;
}

/* "<0x0A>" */
static int byte_of(icp_gguf_string text)
{
    if (text.bytes != 6 || memcmp(text.text, "<0x", 3) != 0 || text.text[5] != '>') return -1;
    int high = hex_digit(text.text[3]);
    int low = hex_digit(text.text[4]);
    return high < 0 || low < 0 ? -1 : high * 16 + low;
}

/* The bytes that a token stands for, to out; *is_mergeable: ordinary text may become it. */
static size_t token_text(const icp_tokenizer *tokenizer, uint8_t type, icp_gguf_string text, char *out,
                         bool *is_mergeable)
{
    bool is_literal = type == ICP_TOKEN_CONTROL || type == ICP_TOKEN_UNKNOWN;
    int byte = type == ICP_TOKEN_BYTE ? byte_of(text) : -1;
    *is_mergeable = false;
    if (byte >= 0) {
        *out = (char)byte;
        return 1;
    }
    if (!is_literal && tokenizer->is_spm) {
        bool has_space = false;
        size_t bytes = icp_spm_text(text.text, text.bytes, out, &has_space);
        *is_mergeable = !has_space && type != ICP_TOKEN_BYTE;
        if (type != ICP_TOKEN_USER_DEFINED || bytes == text.bytes) return bytes;
        /* A user defined token is found in text as it is written; only one of spaces alone is also text. */
        if (strspn(out, " ") >= bytes) return bytes;
        *is_mergeable = false;
    } else if (!is_literal && type != ICP_TOKEN_USER_DEFINED && type != ICP_TOKEN_BYTE) {
        size_t bytes = icp_bpe_text(text.text, text.bytes, out);
        *is_mergeable = bytes > 0;
        if (bytes > 0) return bytes;
    }
    if (text.bytes > 0) memcpy(out, text.text, text.bytes);
    return text.bytes;
}

static void read_tokens(icp_tokenizer *tokenizer, const icp_vocabulary_sizes *sizes)
{
    icp_gguf_string text;
    size_t cursor = 0;
    uint32_t count = tokenizer->facts.token_count;
    tokenizer->offsets[0] = 0;
    for (uint32_t i = 0; i < count; i++) {
        bool is_mergeable = false;
        bool is_there = icp_gguf_next_string(sizes->tokens, &cursor, &text);
        ICP_ASSERT(is_there);
        char *out = tokenizer->texts + tokenizer->text_bytes;
        size_t bytes = token_text(tokenizer, tokenizer->types[i], text, out, &is_mergeable);
        icp_symbol_append(tokenizer, (uint32_t)bytes, is_mergeable ? ICP_MARK_MERGEABLE : 0);
        if (bytes > tokenizer->facts.text_bytes_max) tokenizer->facts.text_bytes_max = (uint32_t)bytes;
    }
    for (uint32_t i = count; i > 0; i--) icp_symbol_index(tokenizer, i - 1); /* the last of equal ones is found first */
}

static void read_id(const icp_tokenizer *tokenizer, const icp_gguf *gguf, const char *key, uint32_t *id)
{
    uint64_t value = 0;
    if (icp_gguf_uint(gguf, key, &value) && value < tokenizer->facts.token_count) *id = (uint32_t)value;
    if (*id >= tokenizer->facts.token_count) *id = ICP_TOKEN_NONE;
}

static void read_facts(icp_tokenizer *tokenizer, const icp_gguf *gguf)
{
    icp_tokenizer_facts *facts = &tokenizer->facts;
    facts->bos = tokenizer->is_spm ? 1 : ICP_TOKEN_NONE;
    facts->eos = tokenizer->is_spm ? 2 : ICP_TOKEN_NONE;
    facts->unk = tokenizer->is_spm ? 0 : ICP_TOKEN_NONE;
    facts->eot = facts->pad = ICP_TOKEN_NONE;
    read_id(tokenizer, gguf, "tokenizer.ggml.bos_token_id", &facts->bos);
    read_id(tokenizer, gguf, "tokenizer.ggml.eos_token_id", &facts->eos);
    read_id(tokenizer, gguf, "tokenizer.ggml.eot_token_id", &facts->eot);
    read_id(tokenizer, gguf, "tokenizer.ggml.unknown_token_id", &facts->unk);
    read_id(tokenizer, gguf, "tokenizer.ggml.padding_token_id", &facts->pad);

    facts->is_adding_bos = tokenizer->is_spm || tokenizer->pretoken->is_adding_bos;
    facts->is_adding_space = tokenizer->is_spm;
    (void)icp_gguf_bool(gguf, "tokenizer.ggml.add_bos_token", &facts->is_adding_bos);
    (void)icp_gguf_bool(gguf, "tokenizer.ggml.add_eos_token", &facts->is_adding_eos);
    if (tokenizer->is_spm) (void)icp_gguf_bool(gguf, "tokenizer.ggml.add_space_prefix", &facts->is_adding_space);
    facts->is_adding_bos = facts->is_adding_bos && facts->bos != ICP_TOKEN_NONE;
    facts->is_adding_eos = facts->is_adding_eos && facts->eos != ICP_TOKEN_NONE;
}

/* ---- Ends of generation and special tokens --------------------------------------------------------------- */

static void mark_end(icp_tokenizer *tokenizer, uint32_t id)
{
    if (id < tokenizer->facts.token_count) tokenizer->marks[id] |= ICP_MARK_END;
}

static void mark_control(icp_tokenizer *tokenizer, uint32_t id)
{
    if (id >= tokenizer->facts.token_count) return;
    tokenizer->types[id] = ICP_TOKEN_CONTROL;
    tokenizer->marks[id] &= (uint8_t)~ICP_MARK_MERGEABLE;
}

/* A token of a name that ends a generation is a control token, whatever the file says: a message must not end one. */
static void read_ends(icp_tokenizer *tokenizer, const icp_gguf *gguf)
{
    uint32_t eom = ICP_TOKEN_NONE;
    read_id(tokenizer, gguf, "tokenizer.ggml.eom_token_id", &eom);
    if (icp_gguf_find(gguf, "tokenizer.ggml.token_type") == NULL) { /* an old file: only the ids tell */
        mark_control(tokenizer, tokenizer->facts.bos);
        mark_control(tokenizer, tokenizer->facts.eos);
        mark_control(tokenizer, tokenizer->facts.eot);
    }
    for (size_t i = 0; i < sizeof(known_ends) / sizeof(known_ends[0]); i++) {
        const struct known_end *known = &known_ends[i];
        uint32_t id = icp_tokenizer_find(tokenizer, known->text, strlen(known->text));
        if (id == ICP_TOKEN_NONE || (known->is_plain && tokenizer->types[id] == ICP_TOKEN_NORMAL)) continue;
        mark_control(tokenizer, id);
        mark_end(tokenizer, id);
        if (known->is_turn && tokenizer->facts.eot == ICP_TOKEN_NONE) tokenizer->facts.eot = id;
    }
    /* In the harmony format <|end|> ends a message, and others end the generation. */
    uint32_t end = icp_tokenizer_find(tokenizer, "<|end|>", 7);
    if (end != ICP_TOKEN_NONE && icp_tokenizer_find(tokenizer, "<|return|>", 10) != ICP_TOKEN_NONE &&
        icp_tokenizer_find(tokenizer, "<|call|>", 8) != ICP_TOKEN_NONE) {
        tokenizer->marks[end] &= (uint8_t)~ICP_MARK_END;
        if (tokenizer->facts.eot == end) tokenizer->facts.eot = ICP_TOKEN_NONE;
    }
    mark_end(tokenizer, tokenizer->facts.eos);
    mark_end(tokenizer, tokenizer->facts.eot);
    mark_end(tokenizer, eom);
}

static int compare_specials(const void *a, const void *b)
{
    const icp_special *left = a, *right = b;
    size_t bytes = left->bytes < right->bytes ? left->bytes : right->bytes;
    int order = memcmp(left->text, right->text, bytes);
    if (order != 0) return order;
    if (left->bytes != right->bytes) return left->bytes < right->bytes ? -1 : 1;
    return left->id < right->id ? -1 : left->id > right->id;
}

static void build_specials(icp_tokenizer *tokenizer)
{
    for (uint32_t id = 0; id < tokenizer->facts.token_count; id++) {
        uint8_t type = tokenizer->types[id];
        bool is_control = type == ICP_TOKEN_CONTROL || type == ICP_TOKEN_UNKNOWN;
        if ((!is_control && type != ICP_TOKEN_USER_DEFINED) || icp_symbol_bytes(tokenizer, id) == 0) continue;
        if (tokenizer->is_spm && !is_control && tokenizer->texts[tokenizer->offsets[id]] == ' ') continue; /* merged */
        icp_special *special = &tokenizer->specials[tokenizer->special_count++];
        special->text = tokenizer->texts + tokenizer->offsets[id];
        special->bytes = icp_symbol_bytes(tokenizer, id);
        special->id = id;
        uint8_t bit = is_control ? ICP_FIRST_CONTROL : ICP_FIRST_USER_DEFINED;
        tokenizer->special_first[(uint8_t)special->text[0]] |= bit;
    }
    if (tokenizer->special_count > 1) {
        qsort(tokenizer->specials, tokenizer->special_count, sizeof(icp_special), compare_specials);
    }
}

/* ---- Opening -------------------------------------------------------------------------------------------- */

static icp_status fill(icp_tokenizer *tokenizer, const icp_gguf *gguf, const icp_vocabulary_sizes *sizes,
                       icp_error *error)
{
    icp_status status = read_types(tokenizer, gguf, error);
    if (status != ICP_OK) return status;
    read_tokens(tokenizer, sizes);
    read_facts(tokenizer, gguf);
    read_ends(tokenizer, gguf);
    build_specials(tokenizer);
    if (tokenizer->is_spm) return icp_spm_build(tokenizer, gguf, error);
    icp_bpe_build(tokenizer, sizes);
    return ICP_OK;
}

icp_status icp_tokenizer_open(icp_tokenizer **out, const icp_gguf *gguf, icp_error *error)
{
    icp_error ignored;
    if (error == NULL) error = &ignored;
    if (out == NULL || gguf == NULL) return refuse(error, "an argument is NULL");
    icp_tokenizer plan = {0};
    icp_vocabulary_sizes sizes = {0};
    icp_status status = read_kind(&plan, gguf, error);
    if (status == ICP_OK) status = measure(&plan, gguf, &sizes, error);
    if (status != ICP_OK) return status;

    icp_arena arena = {0};
    (void)icp_arena_take(&arena, 1, sizeof(icp_tokenizer));
    carve(&plan, &arena, &sizes);
    plan.memory_bytes = arena.used;
    arena = (icp_arena){.base = plan.memory_bytes > 0 ? icp_memory_map(plan.memory_bytes) : NULL};
    if (arena.base == NULL) {
        snprintf(error->text, sizeof(error->text), "no memory for a vocabulary of %u tokens", plan.facts.token_count);
        return ICP_NO_MEMORY;
    }
    icp_tokenizer *tokenizer = icp_arena_take(&arena, 1, sizeof(icp_tokenizer));
    *tokenizer = plan;
    carve(tokenizer, &arena, &sizes);
    status = fill(tokenizer, gguf, &sizes, error);
    if (status != ICP_OK) {
        if (status == ICP_NO_MEMORY) snprintf(error->text, sizeof(error->text), "no memory to sort the scores");
        icp_tokenizer_close(tokenizer);
        return status;
    }
    *out = tokenizer;
    return ICP_OK;
}

void icp_tokenizer_close(icp_tokenizer *tokenizer)
{
    if (tokenizer != NULL) icp_memory_unmap(tokenizer, tokenizer->memory_bytes);
}

/* ---- Questions ------------------------------------------------------------------------------------------ */

const icp_tokenizer_facts *icp_tokenizer_get_facts(const icp_tokenizer *tokenizer)
{
    return &tokenizer->facts;
}

icp_gguf_string icp_tokenizer_text(const icp_tokenizer *tokenizer, uint32_t id)
{
    if (id >= tokenizer->facts.token_count) return (icp_gguf_string){"", 0};
    return (icp_gguf_string){tokenizer->texts + tokenizer->offsets[id], icp_symbol_bytes(tokenizer, id)};
}

icp_token_type icp_tokenizer_type(const icp_tokenizer *tokenizer, uint32_t id)
{
    return id < tokenizer->facts.token_count ? (icp_token_type)tokenizer->types[id] : ICP_TOKEN_UNDEFINED;
}

bool icp_tokenizer_is_end_of_generation(const icp_tokenizer *tokenizer, uint32_t id)
{
    return id < tokenizer->facts.token_count && (tokenizer->marks[id] & ICP_MARK_END) != 0;
}

uint32_t icp_tokenizer_find(const icp_tokenizer *tokenizer, const char *text, size_t bytes)
{
    uint32_t symbol = icp_symbol_find(tokenizer, text, bytes, false);
    return symbol < tokenizer->facts.token_count ? symbol : ICP_TOKEN_NONE;
}
