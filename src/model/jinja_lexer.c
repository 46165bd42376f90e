/* jinja_lexer.c - the text of a template as tokens.
 *
 * Whitespace is treated as Hugging Face asks Jinja to: trim_blocks (the newline after a tag goes), lstrip_blocks
 * (blanks between the start of a line and a tag go), and "-" or "+" at a tag's edge to strip all or keep all. Comments
 * vanish here, and raw blocks become plain text.
 *
 *      text {{ expression }} text {% tag %}\n text        TEXT, PRINT_BEGIN, ..., PRINT_END, TEXT, TAG_BEGIN, ...
 *
 * A tag ends only where its brackets are closed, so {{ {"a": {}} }} is what it seems. */
#include "model/jinja_node.h"

#include "model/unicode.h"

#include <stdlib.h>
#include <string.h>

void icp_jinja_lexer_start(icp_jinja_lexer *lexer, icp_jinja_run *run, const char *text, size_t bytes)
{
    *lexer = (icp_jinja_lexer){.run = run, .text = text, .bytes = bytes, .line = 1};
}

static icp_jinja_token token_fail(icp_jinja_lexer *lexer, const char *what)
{
    lexer->run->line = lexer->line;
    icp_jinja_fail(lexer->run, "%s", what);
    return (icp_jinja_token){.kind = ICP_JINJA_TOKEN_END, .line = lexer->line};
}

static bool starts(const icp_jinja_lexer *lexer, size_t at, const char *what)
{
    size_t bytes = strlen(what);
    return lexer->bytes - at >= bytes && memcmp(lexer->text + at, what, bytes) == 0;
}

static void move_to(icp_jinja_lexer *lexer, size_t at)
{
    for (; lexer->at < at; lexer->at++) lexer->line += lexer->text[lexer->at] == '\n';
}

static size_t space_end(const icp_jinja_lexer *lexer, size_t at)
{
    for (;;) {
        icp_glyph glyph = icp_glyph_at((const uint8_t *)lexer->text, at, lexer->bytes);
        if (glyph.bytes == 0 || !(glyph.class & ICP_UNICODE_SPACE)) return at;
        at += glyph.bytes;
    }
}

/* ---- Between tags ---------------------------------------------------------------------------------------- */

/* Past the end of a tag or comment, whose closing characters (after a sign) are at at: "-" takes all the whitespace,
 * and one newline goes where is_trimmed. */
static size_t after_end(const icp_jinja_lexer *lexer, size_t at, char sign, bool is_trimmed)
{
    if (sign == '-') return space_end(lexer, at);
    if (sign != '+' && is_trimmed && at < lexer->bytes && lexer->text[at] == '\n') return at + 1;
    return at;
}

/* The end of text [start, at) before a tag whose sign is given, without the whitespace that the tag takes away. */
static size_t text_end(const icp_jinja_lexer *lexer, size_t start, size_t at, char sign, bool is_stripped)
{
    if (sign == '-') { /* back over whole characters of whitespace */
        while (at > start) {
            size_t back = at - 1;
            while (back > start && ((uint8_t)lexer->text[back] & 0xc0u) == 0x80u) back--;
            icp_glyph glyph = icp_glyph_at((const uint8_t *)lexer->text, back, at);
            if (!(glyph.class & ICP_UNICODE_SPACE) || back + glyph.bytes != at) break;
            at = back;
        }
        return at;
    }
    if (sign == '+' || !is_stripped) return at;
    size_t line = at;
    while (line > start && lexer->text[line - 1] != '\n') line--;
    bool is_line = line > start || start == 0 || lexer->text[start - 1] == '\n';
    return is_line && space_end(lexer, line) >= at ? line : at;
}

static char sign_at(const icp_jinja_lexer *lexer, size_t at)
{
    return at < lexer->bytes && (lexer->text[at] == '-' || lexer->text[at] == '+') ? lexer->text[at] : '\0';
}

/* Past "name", if that is the whole tag that begins at at ({% raw -%}); 0: it is not. */
static size_t bare_tag_end(const icp_jinja_lexer *lexer, size_t at, const char *name, bool is_trimmed)
{
    at += 2;
    if (sign_at(lexer, at) != '\0') at++;
    at = space_end(lexer, at);
    if (!starts(lexer, at, name)) return 0;
    at = space_end(lexer, at + strlen(name));
    char sign = sign_at(lexer, at);
    if (sign != '\0') at++;
    return starts(lexer, at, "%}") ? after_end(lexer, at + 2, sign, is_trimmed) : 0;
}

static icp_jinja_token text_token(icp_jinja_lexer *lexer, size_t start, size_t end)
{
    icp_jinja_token token = {.kind = ICP_JINJA_TOKEN_TEXT, .line = lexer->line};
    token.value = icp_jinja_text(lexer->run, lexer->text + start, end - start, true);
    return token;
}

/* From after {% raw %} at body to {% endraw %}. */
static icp_jinja_token raw_token(icp_jinja_lexer *lexer, size_t body)
{
    for (size_t at = body; at + 1 < lexer->bytes; at++) {
        if (lexer->text[at] != '{' || !starts(lexer, at, "{%")) continue;
        size_t end = bare_tag_end(lexer, at, "endraw", true);
        if (end == 0) continue;
        icp_jinja_token token = text_token(lexer, body, text_end(lexer, body, at, sign_at(lexer, at + 2), true));
        move_to(lexer, end);
        return token;
    }
    return token_fail(lexer, "a raw block has no endraw");
}

/* Past a comment that begins at at; 0: it has no end. */
static size_t comment_end(const icp_jinja_lexer *lexer, size_t at)
{
    for (size_t i = at + 2; i + 1 < lexer->bytes; i++) {
        if (lexer->text[i] != '#' || lexer->text[i + 1] != '}') continue;
        char sign = i > at + 2 ? sign_at(lexer, i - 1) : '\0';
        return after_end(lexer, i + 2, sign, true);
    }
    return 0;
}

/* The text up to the next tag; the tag's begin comes with the next token, a comment is passed over. */
static icp_jinja_token outside(icp_jinja_lexer *lexer)
{
    size_t start = lexer->at, at = start;
    while (at + 1 < lexer->bytes &&
           (lexer->text[at] != '{' || strchr("{%#", lexer->text[at + 1]) == NULL || lexer->text[at + 1] == '\0')) {
        at++;
    }
    if (at + 1 >= lexer->bytes) {
        icp_jinja_token token = text_token(lexer, start, lexer->bytes);
        move_to(lexer, lexer->bytes);
        return token;
    }
    char mark = lexer->text[at + 1], sign = sign_at(lexer, at + 2);
    icp_jinja_token token = text_token(lexer, start, text_end(lexer, start, at, sign, mark != '{'));
    move_to(lexer, at);
    if (mark == '#') {
        size_t end = comment_end(lexer, at);
        if (end == 0) return token_fail(lexer, "a comment has no end");
        move_to(lexer, end);
        return token;
    }
    lexer->is_begin_next = true;
    lexer->begin_next = mark == '{' ? ICP_JINJA_TOKEN_PRINT_BEGIN : ICP_JINJA_TOKEN_TAG_BEGIN;
    return token;
}

static icp_jinja_token begin(icp_jinja_lexer *lexer)
{
    lexer->is_begin_next = false;
    bool is_tag = lexer->begin_next == ICP_JINJA_TOKEN_TAG_BEGIN;
    size_t body = is_tag ? bare_tag_end(lexer, lexer->at, "raw", false) : 0;
    if (body != 0) {
        move_to(lexer, body);
        return raw_token(lexer, body);
    }
    lexer->end = is_tag ? ICP_JINJA_TOKEN_TAG_END : ICP_JINJA_TOKEN_PRINT_END;
    lexer->at += 2;
    if (sign_at(lexer, lexer->at) != '\0') lexer->at++;
    return (icp_jinja_token){.kind = lexer->begin_next, .line = lexer->line};
}

/* ---- Inside a tag ---------------------------------------------------------------------------------------- */

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_name_char(const icp_jinja_lexer *lexer, size_t at)
{
    if (at >= lexer->bytes) return false;
    char c = lexer->text[at];
    return c == '_' || is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (uint8_t)c >= 0x80;
}

/* The value of count digits of a base; -1: they are not there. */
static int64_t digits(const char *text, size_t bytes, size_t count, int base)
{
    int64_t value = 0;
    if (bytes < count) return -1;
    for (size_t i = 0; i < count; i++) {
        int digit = text[i] >= '0' && text[i] <= '9'   ? text[i] - '0'
                    : text[i] >= 'a' && text[i] <= 'f' ? text[i] - 'a' + 10
                    : text[i] >= 'A' && text[i] <= 'F' ? text[i] - 'A' + 10
                                                       : 99;
        if (digit >= base) return -1;
        value = value * base + digit;
    }
    return value;
}

/* An escape as Python's strings have it, after the backslash. Says how many bytes it took; 0: it is malformed. */
static size_t unescape(const char *text, size_t bytes, char *out, size_t *out_bytes)
{
    static const char plain[] = "\\\\''\"\"a\ab\bf\fn\nr\rt\tv\v";
    int64_t code = -1;
    size_t taken = 0;
    *out_bytes = 0;
    if (text[0] == '\n') return 1;
    for (size_t i = 0; i + 1 < sizeof(plain); i += 2) {
        if (text[0] != plain[i]) continue;
        out[(*out_bytes)++] = plain[i + 1];
        return 1;
    }
    if (text[0] == 'x' || text[0] == 'u' || text[0] == 'U') {
        taken = text[0] == 'x' ? 2 : text[0] == 'u' ? 4 : 8;
        code = digits(text + 1, bytes - 1, taken++, 16);
    } else if (text[0] >= '0' && text[0] <= '7') {
        code = 0;
        while (taken < 3 && taken < bytes && text[taken] >= '0' && text[taken] <= '7') {
            code = code * 8 + (text[taken++] - '0');
        }
    } else if (text[0] == 'N') {
        return 0;
    } else { /* not an escape: the backslash stays */
        out[(*out_bytes)++] = '\\';
        return SIZE_MAX;
    }
    if (code < 0 || code > 0x10ffff || (code >= 0xd800 && code < 0xe000)) return 0;
    *out_bytes = icp_utf8_encode((uint32_t)code, (uint8_t *)out);
    return taken;
}

static icp_jinja_token string_token(icp_jinja_lexer *lexer)
{
    size_t start = lexer->at + 1, end = start;
    char quote = lexer->text[lexer->at];
    while (end < lexer->bytes && lexer->text[end] != quote) end += lexer->text[end] == '\\' ? 2 : 1;
    if (end >= lexer->bytes) return token_fail(lexer, "a string has no end");
    char *out = icp_jinja_take(lexer->run, end - start + 1);
    if (out == NULL) return token_fail(lexer, "no memory");
    size_t used = 0;
    for (size_t at = start; at < end;) {
        if (lexer->text[at] != '\\') {
            out[used++] = lexer->text[at++];
            continue;
        }
        size_t bytes = 0, taken = unescape(lexer->text + at + 1, end - at - 1, out + used, &bytes);
        if (taken == 0) return token_fail(lexer, "a string has an escape that is not valid");
        at += taken == SIZE_MAX ? 1 : taken + 1;
        used += bytes;
    }
    icp_jinja_token token = {.kind = ICP_JINJA_TOKEN_STRING, .line = lexer->line};
    token.value = icp_jinja_text(lexer->run, out, used, true);
    move_to(lexer, end + 1);
    return token;
}

/* The end of digits with single underscores between them. */
static size_t digits_end(const icp_jinja_lexer *lexer, size_t at)
{
    while (at < lexer->bytes && (is_digit(lexer->text[at]) ||
                                 (lexer->text[at] == '_' && at + 1 < lexer->bytes && is_digit(lexer->text[at + 1])))) {
        at++;
    }
    return at;
}

static icp_jinja_token number_token(icp_jinja_lexer *lexer)
{
    size_t start = lexer->at, end = digits_end(lexer, start), exponent = 0;
    bool is_float = false;
    if (end + 1 < lexer->bytes && lexer->text[end] == '.' && is_digit(lexer->text[end + 1])) {
        end = digits_end(lexer, end + 1);
        is_float = true;
    }
    if (end < lexer->bytes && (lexer->text[end] == 'e' || lexer->text[end] == 'E')) {
        exponent = end + 1;
        if (sign_at(lexer, exponent) != '\0') exponent++;
        if (exponent < lexer->bytes && is_digit(lexer->text[exponent])) {
            end = digits_end(lexer, exponent);
            is_float = true;
        }
    }
    char text[64];
    size_t used = 0;
    for (size_t at = start; at < end; at++) {
        if (lexer->text[at] == '_') continue;
        if (used + 1 >= sizeof(text)) return token_fail(lexer, "a number is too long");
        text[used++] = lexer->text[at];
    }
    text[used] = '\0';
    icp_jinja_token token = {.kind = ICP_JINJA_TOKEN_NUMBER, .line = lexer->line};
    lexer->at = end;
    if (is_float) {
        token.value = icp_jinja_float(strtod(text, NULL));
        return token;
    }
    int64_t value = 0;
    for (size_t i = 0; i < used; i++) {
        if (__builtin_mul_overflow(value, 10, &value) || __builtin_add_overflow(value, text[i] - '0', &value)) {
            return token_fail(lexer, "an integer is larger than 64 bits");
        }
    }
    token.value = icp_jinja_int(value);
    return token;
}

static icp_jinja_token operator_token(icp_jinja_lexer *lexer)
{
    static const char *const operators[] = {"//", "**", "==", "!=", ">=", "<=", "+", "-", "/", "*", "%", "~", "[",
                                            "]",  "(",  ")",  "{",  "}",  ">",  "<", "=", ".", ":", "|", ",", ";"};
    for (size_t i = 0; i < sizeof(operators) / sizeof(operators[0]); i++) {
        if (!starts(lexer, lexer->at, operators[i])) continue;
        char c = operators[i][0];
        if (c == '(' || c == '[' || c == '{') {
            if (lexer->bracket_count == sizeof(lexer->brackets)) return token_fail(lexer, "too many brackets");
            lexer->brackets[lexer->bracket_count++] = c == '(' ? ')' : c == '[' ? ']' : '}';
        } else if (c == ')' || c == ']' || c == '}') {
            if (lexer->bracket_count == 0 || lexer->brackets[lexer->bracket_count - 1] != c) {
                return token_fail(lexer, "a bracket is closed that was not opened");
            }
            lexer->bracket_count--;
        }
        size_t bytes = strlen(operators[i]);
        lexer->at += bytes;
        return (icp_jinja_token){ICP_JINJA_TOKEN_OPERATOR, lexer->line, operators[i], bytes, {0}};
    }
    return token_fail(lexer, "a character that means nothing here");
}

static icp_jinja_token inside(icp_jinja_lexer *lexer)
{
    move_to(lexer, space_end(lexer, lexer->at));
    if (lexer->at >= lexer->bytes) return token_fail(lexer, "the template ends inside a tag");
    const char *closing = lexer->end == ICP_JINJA_TOKEN_TAG_END ? "%}" : "}}";
    char sign = sign_at(lexer, lexer->at);
    if (lexer->end == ICP_JINJA_TOKEN_PRINT_END && sign == '+') sign = '\0';
    size_t at = lexer->at + (sign != '\0');
    if (lexer->bracket_count == 0 && starts(lexer, at, closing)) {
        icp_jinja_token token = {.kind = lexer->end, .line = lexer->line};
        move_to(lexer, after_end(lexer, at + 2, sign, lexer->end == ICP_JINJA_TOKEN_TAG_END));
        lexer->end = ICP_JINJA_TOKEN_END;
        return token;
    }
    char c = lexer->text[lexer->at];
    if (c == '"' || c == '\'') return string_token(lexer);
    if (is_digit(c)) return number_token(lexer);
    if (!is_name_char(lexer, lexer->at)) return operator_token(lexer);
    size_t start = lexer->at;
    while (is_name_char(lexer, lexer->at)) lexer->at++;
    return (icp_jinja_token){ICP_JINJA_TOKEN_NAME, lexer->line, lexer->text + start, lexer->at - start, {0}};
}

icp_jinja_token icp_jinja_lexer_next(icp_jinja_lexer *lexer)
{
    if (icp_jinja_is_failed(lexer->run)) return (icp_jinja_token){.kind = ICP_JINJA_TOKEN_END, .line = lexer->line};
    if (lexer->end != ICP_JINJA_TOKEN_END) return inside(lexer);
    if (lexer->is_begin_next) return begin(lexer);
    if (lexer->at >= lexer->bytes) return (icp_jinja_token){.kind = ICP_JINJA_TOKEN_END, .line = lexer->line};
    return outside(lexer);
}
