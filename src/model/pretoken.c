/* pretoken.c - the scanners, one for each expression, and the table of names.
 *
 * The expressions are those of the models' own tokenizer files, as far as they are known. A stage that is called at the
 * end of one piece begins the next one there, so what a stage found out about its piece is only kept as its end. */
#include "model/pretoken.h"

#include "model/unicode.h"

#include <string.h>

#define LETTER ICP_UNICODE_LETTER
#define MARK ICP_UNICODE_MARK
#define NUMBER ICP_UNICODE_NUMBER
#define SPACE ICP_UNICODE_SPACE
#define PUNCTUATION ICP_UNICODE_PUNCTUATION
#define SYMBOL ICP_UNICODE_SYMBOL

static bool is_newline(uint32_t code)
{
    return code == '\r' || code == '\n';
}

/* The end of the run of characters that have one of these classes. */
static size_t skip_class(const uint8_t *text, size_t position, size_t end, unsigned classes)
{
    for (;;) {
        icp_glyph glyph = icp_glyph_at(text, position, end);
        if ((glyph.class & classes) == 0) return position;
        position += glyph.bytes;
    }
}

/* The end of the run of characters that have none of them. */
static size_t skip_other(const uint8_t *text, size_t position, size_t end, unsigned classes)
{
    for (;;) {
        icp_glyph glyph = icp_glyph_at(text, position, end);
        if (glyph.bytes == 0 || (glyph.class & classes) != 0) return position;
        position += glyph.bytes;
    }
}

static size_t skip_newlines(const uint8_t *text, size_t position, size_t end, bool has_slash)
{
    while (position < end && (is_newline(text[position]) || (has_slash && text[position] == '/'))) position++;
    return position;
}

/* 's 't 're 've 'm 'll 'd at position: bytes of it, 0 where there is none. */
static size_t contraction(const uint8_t *text, size_t position, size_t end, bool has_case)
{
    if (end - position < 2 || text[position] != '\'') return 0;
    uint8_t fold = has_case ? 0 : 0x20;
    uint8_t first = text[position + 1] | fold;
    if (first == 's' || first == 't' || first == 'm' || first == 'd') return 2;
    if (end - position < 3) return 0;
    uint8_t second = text[position + 2] | fold;
    if ((first == 'r' && second == 'e') || (first == 'v' && second == 'e') || (first == 'l' && second == 'l')) return 3;
    return 0;
}

/* \s+(?!\S)|\s+ : all spaces at the end of the piece; before something else all but the last one. */
static size_t space_end(const uint8_t *text, size_t position, size_t end)
{
    size_t last = position;
    size_t next = position;
    for (;;) {
        icp_glyph glyph = icp_glyph_at(text, next, end);
        if (glyph.bytes == 0) return next;
        if ((glyph.class & SPACE) == 0) break;
        last = next;
        next += glyph.bytes;
    }
    return last > position ? last : next;
}

/* \s*[\r\n]+|\s+(?!\S)|\s+ : up to the last newline of the run of spaces, or as above. */
static size_t space_or_newline_end(const uint8_t *text, size_t position, size_t end)
{
    size_t last_newline = 0;
    size_t next = position;
    for (;;) {
        icp_glyph glyph = icp_glyph_at(text, next, end);
        if ((glyph.class & SPACE) == 0) break;
        next += glyph.bytes;
        if (is_newline(glyph.code)) last_newline = next;
    }
    return last_newline > 0 ? last_newline : space_end(text, position, end);
}

/* ---- GPT-2 ---------------------------------------------------------------------------------------------- */

/* 's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+ */
static size_t stage_gpt2(const uint8_t *text, size_t position, size_t end)
{
    size_t bytes = contraction(text, position, end, true);
    if (bytes > 0) return position + bytes;

    size_t start = position + (text[position] == ' ' ? 1 : 0);
    icp_glyph glyph = icp_glyph_at(text, start, end);
    if (glyph.bytes == 0) return start; /* a space at the end */
    if (glyph.class & LETTER) return skip_class(text, start, end, LETTER);
    if (glyph.class & NUMBER) return skip_class(text, start, end, NUMBER);
    if ((glyph.class & SPACE) == 0) return skip_other(text, start, end, SPACE | LETTER | NUMBER);
    return space_end(text, position, end);
}

/* ---- Llama 3, Qwen -------------------------------------------------------------------------------------- */

/* (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,D}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+
 * where words is what \p{L} stands for. */
static size_t scan_llama3(const uint8_t *text, size_t position, size_t end, unsigned digits_max, unsigned words)
{
    size_t bytes = contraction(text, position, end, false);
    if (bytes > 0) return position + bytes;

    icp_glyph glyph = icp_glyph_at(text, position, end);
    size_t second = position + glyph.bytes;
    icp_glyph next = icp_glyph_at(text, second, end);
    if (glyph.class & NUMBER) {
        size_t at = second;
        for (unsigned i = 1; i < digits_max && (next.class & NUMBER); i++) {
            at += next.bytes;
            next = icp_glyph_at(text, at, end);
        }
        return at;
    }
    if (glyph.class & words) return skip_class(text, second, end, words);
    if (!is_newline(glyph.code) && (next.class & words)) return skip_class(text, second, end, words);

    bool is_blank = glyph.code == ' ';
    icp_glyph first = is_blank ? next : glyph;
    if (first.bytes > 0 && (first.class & (SPACE | words | NUMBER)) == 0) {
        size_t at = skip_other(text, is_blank ? second : position, end, SPACE | words | NUMBER);
        return skip_newlines(text, at, end, false);
    }
    return space_or_newline_end(text, position, end);
}

static size_t stage_llama3(const uint8_t *text, size_t position, size_t end)
{
    return scan_llama3(text, position, end, 3, LETTER);
}

static size_t stage_qwen2(const uint8_t *text, size_t position, size_t end)
{
    return scan_llama3(text, position, end, 1, LETTER);
}

static size_t stage_qwen35(const uint8_t *text, size_t position, size_t end)
{
    return scan_llama3(text, position, end, 1, LETTER | MARK);
}

/* ---- GPT-4o, Tekken ------------------------------------------------------------------------------------- */

#define HEAD (ICP_UNICODE_UPPER | ICP_UNICODE_OTHER | MARK) /* [\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}] */
#define TAIL (ICP_UNICODE_LOWER | ICP_UNICODE_OTHER | MARK) /* [\p{Ll}\p{Lm}\p{Lo}\p{M}] */

/* HEAD*TAIL+ at position; its end, or position where it does not match. Where nothing of TAIL follows the run of HEAD,
 * the expression gives back characters until one of them is in both: the last such one ends the match. *head_end is
 * the end of the run of HEAD. */
static size_t mixed_word_end(const uint8_t *text, size_t position, size_t end, size_t *head_end)
{
    size_t last = position;
    size_t at = position;
    icp_glyph glyph;
    for (;;) {
        glyph = icp_glyph_at(text, at, end);
        if ((glyph.class & HEAD) == 0) break;
        at += glyph.bytes;
        if (glyph.class & TAIL) last = at;
    }
    *head_end = at;
    return glyph.class & TAIL ? skip_class(text, at, end, TAIL) : last;
}

/* [^\r\n\p{L}\p{N}]?HEAD*TAIL+|[^\r\n\p{L}\p{N}]?HEAD+TAIL* : its end, or position. */
static size_t cased_word_end(const uint8_t *text, size_t position, size_t end)
{
    icp_glyph glyph = icp_glyph_at(text, position, end);
    bool may_prefix = !is_newline(glyph.code) && (glyph.class & (LETTER | NUMBER)) == 0;
    size_t start = position + (may_prefix ? glyph.bytes : 0);
    size_t head_end = start;
    size_t at = mixed_word_end(text, start, end, &head_end);
    if (at > start) return at;
    if (may_prefix && (glyph.class & MARK)) return start; /* without the prefix the mark is the word */
    return head_end > start ? head_end : position;
}

/* A cased word or else \p{N}{1,D}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+ */
static size_t scan_cased(const uint8_t *text, size_t position, size_t end, unsigned digits_max, bool has_contractions)
{
    size_t word = cased_word_end(text, position, end);
    if (word > position) return has_contractions ? word + contraction(text, word, end, false) : word;

    size_t at = position;
    icp_glyph glyph = icp_glyph_at(text, at, end);
    for (unsigned i = 0; i < digits_max && (glyph.class & NUMBER); i++) {
        at += glyph.bytes;
        glyph = icp_glyph_at(text, at, end);
    }
    if (at > position) return at;

    size_t start = position + (glyph.code == ' ' ? 1 : 0);
    glyph = icp_glyph_at(text, start, end);
    if (glyph.bytes > 0 && (glyph.class & (SPACE | LETTER | NUMBER)) == 0) {
        return skip_newlines(text, skip_other(text, start, end, SPACE | LETTER | NUMBER), end, true);
    }
    return space_or_newline_end(text, position, end);
}

static size_t stage_gpt4o(const uint8_t *text, size_t position, size_t end)
{
    return scan_cased(text, position, end, 3, true);
}

static size_t stage_tekken(const uint8_t *text, size_t position, size_t end)
{
    return scan_cased(text, position, end, 1, false);
}

/* ---- Stages that pick out some matches and leave what lies between ---------------------------------------- */

/* The end of a match that begins at position, or position. */
typedef size_t match_end(const uint8_t *text, size_t position, size_t end);

/* A match, or everything up to the next one. A match that is long is found at the end of the gap before it and once
 * more by the next call: still linear. */
static size_t match_or_gap(const uint8_t *text, size_t position, size_t end, match_end *match)
{
    size_t at = match(text, position, end);
    if (at > position) return at;
    at = position;
    do at += icp_glyph_at(text, at, end).bytes;
    while (at < end && match(text, at, end) == at);
    return at;
}

/* \p{N} */
static size_t stage_digit(const uint8_t *text, size_t position, size_t end)
{
    icp_glyph glyph = icp_glyph_at(text, position, end);
    return glyph.class & NUMBER ? position + glyph.bytes : skip_other(text, position, end, NUMBER);
}

/* \p{N}+ */
static size_t stage_digits(const uint8_t *text, size_t position, size_t end)
{
    size_t at = skip_class(text, position, end, NUMBER);
    return at > position ? at : skip_other(text, position, end, NUMBER);
}

/* \p{N}{1,3} */
static size_t stage_digits3(const uint8_t *text, size_t position, size_t end)
{
    size_t at = position;
    for (unsigned i = 0; i < 3; i++) {
        icp_glyph glyph = icp_glyph_at(text, at, end);
        if (glyph.class & NUMBER) at += glyph.bytes;
    }
    return at > position ? at : skip_other(text, position, end, NUMBER);
}

/* [0-9][0-9][0-9] */
static size_t match_three_ascii(const uint8_t *text, size_t position, size_t end)
{
    for (size_t i = 0; i < 3; i++) {
        if (position + i >= end || text[position + i] < '0' || text[position + i] > '9') return position;
    }
    return position + 3;
}

static size_t stage_three_ascii(const uint8_t *text, size_t position, size_t end)
{
    return match_or_gap(text, position, end, match_three_ascii);
}

/* [\p{P}\$\+<=>\^~\|]+ and the same with ` */
static size_t punctuation_end(const uint8_t *text, size_t position, size_t end, const char *extra)
{
    for (;;) {
        icp_glyph glyph = icp_glyph_at(text, position, end);
        bool is_extra = glyph.code != 0 && glyph.code < 0x80 && strchr(extra, (int)glyph.code) != NULL;
        if ((glyph.class & PUNCTUATION) == 0 && !is_extra) return position;
        position += glyph.bytes;
    }
}

static size_t match_punctuation(const uint8_t *text, size_t position, size_t end)
{
    return punctuation_end(text, position, end, "$+<=>^~|");
}

static size_t match_punctuation_falcon(const uint8_t *text, size_t position, size_t end)
{
    return punctuation_end(text, position, end, "$+<=>^~|`");
}

static size_t stage_punctuation(const uint8_t *text, size_t position, size_t end)
{
    return match_or_gap(text, position, end, match_punctuation);
}

static size_t stage_punctuation_falcon(const uint8_t *text, size_t position, size_t end)
{
    return match_or_gap(text, position, end, match_punctuation_falcon);
}

/* ---- DeepSeek ------------------------------------------------------------------------------------------- */

/* [\r\n] */
static size_t stage_newline(const uint8_t *text, size_t position, size_t end)
{
    if (is_newline(text[position])) return position + 1;
    while (position < end && !is_newline(text[position])) position++;
    return position;
}

typedef bool is_member(icp_glyph glyph);

/* \s?[members]+ */
static size_t spaced_end(const uint8_t *text, size_t position, size_t end, is_member *member)
{
    icp_glyph glyph = icp_glyph_at(text, position, end);
    size_t at = position;
    if (glyph.class & SPACE) {
        icp_glyph next = icp_glyph_at(text, position + glyph.bytes, end);
        if (next.bytes > 0 && member(next)) at += glyph.bytes;
    }
    size_t start = at;
    for (;;) {
        glyph = icp_glyph_at(text, at, end);
        if (glyph.bytes == 0 || !member(glyph)) return at > start ? at : position;
        at += glyph.bytes;
    }
}

static bool is_deepseek_letter(icp_glyph glyph)
{
    if (glyph.code < 0x80) return (glyph.class & LETTER) != 0;
    uint32_t low = 0, high = icp_unicode_deepseek_count;
    while (low < high) {
        uint32_t middle = (low + high) / 2;
        if (glyph.code < icp_unicode_deepseek[middle][0])
            high = middle;
        else if (glyph.code > icp_unicode_deepseek[middle][1])
            low = middle + 1;
        else
            return true;
    }
    return false;
}

/* [!-/:-~！-／：-～‘-‟　-。]; letters never come here, an earlier stage has taken them. */
static bool is_deepseek_punctuation(icp_glyph glyph)
{
    uint32_t code = glyph.code;
    return (code >= '!' && code <= '/') || (code >= ':' && code <= '~') || (code >= 0xff01 && code <= 0xff0f) ||
           (code >= 0xff1a && code <= 0xff5e) || (code >= 0x2018 && code <= 0x201f) ||
           (code >= 0x3000 && code <= 0x3002);
}

/* [一-龥ࠀ-一가-퟿] */
static bool is_deepseek_cjk(icp_glyph glyph)
{
    return (glyph.code >= 0x800 && glyph.code <= 0x9fa5) || (glyph.code >= 0xac00 && glyph.code <= 0xd7ff);
}

/* [一-龥぀-ゟ゠-ヿ] */
static bool is_deepseek3_cjk(icp_glyph glyph)
{
    return (glyph.code >= 0x4e00 && glyph.code <= 0x9fa5) || (glyph.code >= 0x3040 && glyph.code <= 0x30ff);
}

static bool is_letter(icp_glyph glyph)
{
    return (glyph.class & LETTER) != 0;
}

static bool is_punctuation(icp_glyph glyph)
{
    return (glyph.class & PUNCTUATION) != 0;
}

/* [members]+ */
static size_t members_or_gap(const uint8_t *text, size_t position, size_t end, is_member *member)
{
    bool is_in = member(icp_glyph_at(text, position, end));
    while (position < end) {
        icp_glyph glyph = icp_glyph_at(text, position, end);
        if (member(glyph) != is_in) break;
        position += glyph.bytes;
    }
    return position;
}

static size_t match_deepseek_letters(const uint8_t *text, size_t position, size_t end)
{
    return spaced_end(text, position, end, is_deepseek_letter);
}

static size_t match_deepseek_punctuation(const uint8_t *text, size_t position, size_t end)
{
    return spaced_end(text, position, end, is_deepseek_punctuation);
}

static size_t match_letters(const uint8_t *text, size_t position, size_t end)
{
    return spaced_end(text, position, end, is_letter);
}

static size_t match_punctuations(const uint8_t *text, size_t position, size_t end)
{
    return spaced_end(text, position, end, is_punctuation);
}

static size_t stage_deepseek_letters(const uint8_t *text, size_t position, size_t end)
{
    return match_or_gap(text, position, end, match_deepseek_letters);
}

static size_t stage_deepseek_punctuation(const uint8_t *text, size_t position, size_t end)
{
    return match_or_gap(text, position, end, match_deepseek_punctuation);
}

static size_t stage_spaced_letters(const uint8_t *text, size_t position, size_t end)
{
    return match_or_gap(text, position, end, match_letters);
}

static size_t stage_spaced_punctuation(const uint8_t *text, size_t position, size_t end)
{
    return match_or_gap(text, position, end, match_punctuations);
}

static size_t stage_deepseek_cjk(const uint8_t *text, size_t position, size_t end)
{
    return members_or_gap(text, position, end, is_deepseek_cjk);
}

static size_t stage_deepseek3_cjk(const uint8_t *text, size_t position, size_t end)
{
    return members_or_gap(text, position, end, is_deepseek3_cjk);
}

/* \s+$ : the spaces at the end of the piece. */
static size_t stage_spaces_at_end(const uint8_t *text, size_t position, size_t end)
{
    size_t last = position; /* the end of the last character that is no space */
    for (size_t at = position; at < end;) {
        icp_glyph glyph = icp_glyph_at(text, at, end);
        at += glyph.bytes;
        if ((glyph.class & SPACE) == 0) last = at;
    }
    return last > position ? last : end;
}

/* [ascii punctuation][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+ */
static size_t match_deepseek3(const uint8_t *text, size_t position, size_t end)
{
    icp_glyph glyph = icp_glyph_at(text, position, end);
    size_t second = position + glyph.bytes;
    icp_glyph next = icp_glyph_at(text, second, end);
    if (glyph.code < 0x80 && (glyph.class & (PUNCTUATION | SYMBOL)) && next.code < 0x80 && (next.class & LETTER)) {
        while (second < end && text[second] < 0x80 && (icp_unicode_ascii[text[second]] & LETTER)) second++;
        return second;
    }
    bool may_prefix = !is_newline(glyph.code) && (glyph.class & (LETTER | PUNCTUATION | SYMBOL)) == 0;
    if (may_prefix && (next.class & (LETTER | MARK))) return skip_class(text, second, end, LETTER | MARK);
    if (glyph.class & (LETTER | MARK)) return skip_class(text, position, end, LETTER | MARK);

    size_t start = glyph.code == ' ' ? second : position;
    size_t at = skip_class(text, start, end, PUNCTUATION | SYMBOL);
    if (at > start) return skip_newlines(text, at, end, false);
    return glyph.class & SPACE ? space_or_newline_end(text, position, end) : position;
}

static size_t stage_deepseek3(const uint8_t *text, size_t position, size_t end)
{
    return match_or_gap(text, position, end, match_deepseek3);
}

/* ---- Names ---------------------------------------------------------------------------------------------- */

#define GPT2_STAGES \
    {               \
        stage_gpt2  \
    }
#define DIGIT_STAGES            \
    {                           \
        stage_digit, stage_gpt2 \
    }

static const icp_pretoken pretokens[] = {
    {"default", false, false, {stage_punctuation, stage_gpt2, stage_digits, stage_three_ascii}},
    {"gpt-2", false, false, GPT2_STAGES},
    {"phi-2", false, false, GPT2_STAGES},
    {"mpt", false, false, GPT2_STAGES},
    {"olmo", false, false, GPT2_STAGES},
    {"jais", false, false, GPT2_STAGES},
    {"gigachat", false, false, GPT2_STAGES},
    {"exaone4", false, false, GPT2_STAGES},
    {"mellum", false, false, GPT2_STAGES},
    {"trillion", false, false, GPT2_STAGES},
    {"a.x-4.0", false, false, GPT2_STAGES},
    {"smollm", false, false, DIGIT_STAGES},
    {"starcoder", false, false, DIGIT_STAGES},
    {"refact", false, false, DIGIT_STAGES},
    {"command-r", false, false, DIGIT_STAGES},
    {"codeshell", false, false, DIGIT_STAGES},
    {"exaone", false, false, DIGIT_STAGES},
    {"minerva-7b", false, false, DIGIT_STAGES},
    {"llama3", true, true, {stage_llama3}},
    {"llama-v3", true, true, {stage_llama3}},
    {"llama-bpe", true, true, {stage_llama3}},
    {"falcon3", true, true, {stage_llama3}},
    {"pixtral", true, true, {stage_llama3}},
    {"lfm2", true, true, {stage_llama3}},
    {"dbrx", false, false, {stage_llama3}},
    {"smaug-bpe", false, false, {stage_llama3}},
    {"glm4", false, false, {stage_llama3}},
    {"chatglm-bpe", false, false, {stage_llama3}},
    {"qwen2", false, false, {stage_qwen2}},
    {"deepseek-r1-qwen", false, false, {stage_qwen2}},
    {"stablelm2", false, false, {stage_qwen2}},
    {"megrez", false, false, {stage_qwen2}},
    {"hunyuan", false, false, {stage_qwen2}},
    {"grok-2", false, false, {stage_qwen2}},
    {"qwen35", false, false, {stage_qwen35}},
    {"gpt-4o", false, false, {stage_gpt4o}},
    {"llama4", false, false, {stage_gpt4o}},
    {"tekken", true, true, {stage_tekken}},
    {"falcon", false, false, {stage_punctuation_falcon, stage_gpt2, stage_three_ascii}},
    {"deepseek-llm",
     false,
     false,
     {stage_newline, stage_deepseek_letters, stage_deepseek_punctuation, stage_spaces_at_end, stage_deepseek_cjk,
      stage_digits}},
    {"deepseek-coder",
     false,
     false,
     {stage_newline, stage_spaced_letters, stage_spaced_punctuation, stage_deepseek_cjk, stage_digit}},
    {"deepseek-v3", false, false, {stage_digits3, stage_deepseek3_cjk, stage_deepseek3}},
    {"hunyuan-dense", false, false, {stage_digits3, stage_deepseek3_cjk, stage_deepseek3}},
};

const icp_pretoken *icp_pretoken_find(const char *name, size_t bytes)
{
    for (size_t i = 0; i < sizeof(pretokens) / sizeof(pretokens[0]); i++) {
        if (strlen(pretokens[i].name) == bytes && memcmp(pretokens[i].name, name, bytes) == 0) return &pretokens[i];
    }
    return NULL;
}

void icp_pretoken_start(icp_pretoken_scan *scan, const icp_pretoken *pretoken, const uint8_t *text, size_t bytes)
{
    *scan = (icp_pretoken_scan){.pretoken = pretoken, .text = text};
    scan->ends[0] = bytes;
}

bool icp_pretoken_next(icp_pretoken_scan *scan, const uint8_t **word, size_t *bytes)
{
    size_t position = scan->position;
    if (position == scan->ends[0]) return false;
    size_t end = scan->ends[0];
    for (size_t i = 0; i < ICP_PRETOKEN_STAGES_MAX && scan->pretoken->stages[i] != NULL; i++) {
        if (scan->ends[i + 1] == position) {
            scan->ends[i + 1] = scan->pretoken->stages[i](scan->text, position, end);
        }
        end = scan->ends[i + 1];
    }
    *word = scan->text + position;
    *bytes = end - position;
    scan->position = end;
    return true;
}
