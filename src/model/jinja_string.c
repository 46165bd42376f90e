/* jinja_string.c - work on strings that keeps every byte's provenance: strip, split, replace, case, format, join.
 *
 * Positions are bytes inside and characters (code points) outside, as Python counts. Slices of a string share its
 * memory; what is built anew copies bytes together with their trust. A character that is changed (upper) keeps the
 * trust of the one that it replaces, and text that is put in (the new of replace) keeps its own. */
#include "model/jinja_eval.h"

#include "model/unicode.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint32_t decode(const icp_jinja_string *string, size_t at, uint32_t *code)
{
    return icp_utf8_decode((const uint8_t *)string->text + at, string->bytes - at, code);
}

/* Of a character. Text is valid UTF-8: templates and JSON are checked. */
static bool is_first_byte(char byte)
{
    return ((uint8_t)byte & 0xc0u) != 0x80u;
}

/* Where the character that ends at at begins. */
static size_t back(const icp_jinja_string *string, size_t at)
{
    size_t start = at - 1;
    while (start > 0 && !is_first_byte(string->text[start])) start--;
    return start;
}

int64_t icp_jinja_index(icp_jinja_run *run, const icp_jinja_string *string, size_t offset)
{
    int64_t count = 0;
    icp_jinja_charge(run, offset);
    for (size_t at = 0; at < offset; at++) count += is_first_byte(string->text[at]);
    return count;
}

int64_t icp_jinja_length(icp_jinja_run *run, const icp_jinja_string *string)
{
    return icp_jinja_index(run, string, string->bytes);
}

size_t icp_jinja_offset(icp_jinja_run *run, const icp_jinja_string *string, int64_t index)
{
    size_t at = 0;
    while (at < string->bytes && (!is_first_byte(string->text[at]) || index-- > 0)) at++;
    icp_jinja_charge(run, at);
    return at;
}

bool icp_jinja_is_space(uint32_t code)
{
    return (icp_unicode_class(code) & ICP_UNICODE_SPACE) || (code >= 0x1c && code <= 0x1f);
}

/* ---- Strip ----------------------------------------------------------------------------------------------- */

static bool is_in_set(const icp_jinja_string *set, const icp_jinja_string *string, size_t start, size_t end)
{
    uint32_t code = 0, other = 0;
    decode(string, start, &code);
    if (set == NULL) return icp_jinja_is_space(code);
    for (size_t at = 0; at < set->bytes;) {
        size_t bytes = decode(set, at, &other);
        if (bytes == end - start && memcmp(set->text + at, string->text + start, bytes) == 0) return true;
        at += bytes;
    }
    return false;
}

icp_jinja_value icp_jinja_strip(icp_jinja_run *run, const icp_jinja_string *string, const icp_jinja_string *set,
                                unsigned sides)
{
    size_t start = 0, end = string->bytes, cost = 4 + (set != NULL ? set->bytes : 0);
    uint32_t code = 0;
    while ((sides & ICP_JINJA_SIDE_LEFT) && start < end) {
        size_t next = start + decode(string, start, &code);
        if (!is_in_set(set, string, start, next) || !icp_jinja_charge(run, cost)) break;
        start = next;
    }
    while ((sides & ICP_JINJA_SIDE_RIGHT) && start < end) {
        size_t before = back(string, end);
        if (!is_in_set(set, string, before, end) || !icp_jinja_charge(run, cost)) break;
        end = before;
    }
    return icp_jinja_slice(run, string, start, end);
}

/* ---- Case ------------------------------------------------------------------------------------------------ */

/* ASCII, Latin, Greek and Cyrillic, one character to one; others stay as they are. */
static uint32_t recase_code(uint32_t code, bool is_upper)
{
    if (code < 0x80) {
        if (is_upper) return code >= 'a' && code <= 'z' ? code - 32 : code;
        return code >= 'A' && code <= 'Z' ? code + 32 : code;
    }
    if (is_upper) {
        if (code == 0xb5) return 0x39c;
        if (code == 0xff) return 0x178;
        if ((code >= 0xe0 && code <= 0xfe && code != 0xf7)) return code - 32;
        if (code >= 0x3b1 && code <= 0x3cb && code != 0x3c2) return code - 32;
        if (code == 0x3c2) return 0x3a3;
        if (code >= 0x430 && code <= 0x44f) return code - 32;
        if (code >= 0x450 && code <= 0x45f) return code - 80;
    } else {
        if (code == 0x178) return 0xff;
        if ((code >= 0xc0 && code <= 0xde && code != 0xd7)) return code + 32;
        if (code >= 0x391 && code <= 0x3ab && code != 0x3a2) return code + 32;
        if (code >= 0x410 && code <= 0x42f) return code + 32;
        if (code >= 0x400 && code <= 0x40f) return code + 80;
    }
    bool is_even_pair = (code >= 0x100 && code <= 0x137 && code != 0x130 && code != 0x131) ||
                        (code >= 0x14a && code <= 0x177) || (code >= 0x460 && code <= 0x481) ||
                        (code >= 0x48a && code <= 0x4bf) || (code >= 0x4d0 && code <= 0x52f) ||
                        (code >= 0x1e00 && code <= 0x1e95) || (code >= 0x1ea0 && code <= 0x1eff);
    bool is_odd_pair = (code >= 0x139 && code <= 0x148) || (code >= 0x179 && code <= 0x17e);
    if (is_even_pair) return is_upper ? code & ~1u : code | 1u;
    if (is_odd_pair) return is_upper ? code - !(code & 1u) : code + (code & 1u);
    return code;
}

static bool is_cased(uint32_t code)
{
    return (icp_unicode_class(code) & (ICP_UNICODE_UPPER | ICP_UNICODE_LOWER)) != 0;
}

static bool is_word_edge(uint32_t code)
{
    return icp_jinja_is_space(code) || code == '-' || code == '(' || code == '{' || code == '[' || code == '<';
}

icp_jinja_value icp_jinja_recase(icp_jinja_run *run, const icp_jinja_string *string, icp_jinja_case to)
{
    icp_jinja_buffer *buffer = icp_jinja_buffer_new(run);
    bool is_start = true;
    if (buffer == NULL || !icp_jinja_step(run, 8 * string->bytes)) return icp_jinja_undefined(NULL);
    for (size_t at = 0; at < string->bytes && !icp_jinja_is_failed(run);) {
        uint32_t code = 0, bytes = decode(string, at, &code), changed = code;
        bool is_upper = to == ICP_JINJA_CASE_UPPER || (to > ICP_JINJA_CASE_UPPER && is_start);
        if (to == ICP_JINJA_CASE_UPPER && code == 0xdf) { /* the one that becomes two */
            icp_jinja_append_bytes(run, buffer, "SS", 2, icp_jinja_trust_at(string, at));
            at += bytes;
            continue;
        }
        changed = recase_code(code, is_upper);
        if (changed == code) {
            icp_jinja_append_slice(run, buffer, string, at, at + bytes);
        } else {
            char text[4];
            uint32_t count = icp_utf8_encode(changed, (uint8_t *)text);
            icp_jinja_append_bytes(run, buffer, text, count, icp_jinja_trust_at(string, at));
        }
        is_start = to == ICP_JINJA_CASE_TITLE ? !is_cased(code) : to == ICP_JINJA_CASE_WORDS && is_word_edge(code);
        at += bytes;
    }
    return icp_jinja_buffer_string(run, buffer);
}

/* ---- Replace and join ------------------------------------------------------------------------------------ */

icp_jinja_value icp_jinja_replace(icp_jinja_run *run, const icp_jinja_string *string, const icp_jinja_string *old,
                                  const icp_jinja_string *with, int64_t count_max)
{
    icp_jinja_buffer *buffer = icp_jinja_buffer_new(run);
    size_t at = 0, start = 0;
    uint32_t code = 0;
    if (buffer == NULL || !icp_jinja_step(run, string->bytes)) return icp_jinja_undefined(NULL);
    if (old->bytes > 0 && icp_jinja_find(string, old, 0) == SIZE_MAX) return icp_jinja_of_string(string);
    for (int64_t count = 0; (count_max < 0 || count < count_max) && icp_jinja_step(run, 0); count++) {
        size_t found = icp_jinja_find(string, old, at);
        if (found == SIZE_MAX) break;
        icp_jinja_append_slice(run, buffer, string, start, found);
        icp_jinja_append(run, buffer, with);
        start = found + old->bytes;
        at = start;
        if (old->bytes > 0) continue;
        if (at >= string->bytes) break; /* nothing is found before each character, and at the end */
        at += decode(string, at, &code);
    }
    icp_jinja_append_slice(run, buffer, string, start, string->bytes);
    return icp_jinja_buffer_string(run, buffer);
}

icp_jinja_value icp_jinja_escape(icp_jinja_run *run, const icp_jinja_string *string)
{
    icp_jinja_buffer *buffer = icp_jinja_buffer_new(run);
    size_t start = 0;
    if (buffer == NULL || !icp_jinja_step(run, string->bytes)) return icp_jinja_undefined(NULL);
    for (size_t at = 0; at < string->bytes; at++) {
        char c = string->text[at];
        const char *text = c == '&'    ? "&amp;"
                           : c == '<'  ? "&lt;"
                           : c == '>'  ? "&gt;"
                           : c == '\'' ? "&#39;"
                           : c == '"'  ? "&#34;"
                                       : NULL;
        if (text == NULL) continue;
        icp_jinja_append_slice(run, buffer, string, start, at);
        icp_jinja_append_bytes(run, buffer, text, strlen(text), icp_jinja_trust_at(string, at));
        start = at + 1;
    }
    icp_jinja_append_slice(run, buffer, string, start, string->bytes);
    return icp_jinja_buffer_string(run, buffer);
}

icp_jinja_value icp_jinja_join(icp_jinja_run *run, const icp_jinja_string *separator, const icp_jinja_list *items)
{
    icp_jinja_buffer *buffer = icp_jinja_buffer_new(run);
    if (buffer == NULL) return icp_jinja_undefined(NULL);
    for (size_t i = 0; i < items->count && icp_jinja_step(run, 0); i++) {
        if (i > 0) icp_jinja_append(run, buffer, separator);
        icp_jinja_print(run, buffer, items->items[i]);
    }
    return icp_jinja_buffer_string(run, buffer);
}

/* ---- Split ----------------------------------------------------------------------------------------------- */

static icp_jinja_value split_space(icp_jinja_run *run, const icp_jinja_string *string, int64_t count_max)
{
    icp_jinja_list *list = icp_jinja_list_new(run, 0);
    size_t at = 0;
    uint32_t code = 0;
    while (list != NULL && at < string->bytes && icp_jinja_charge(run, 4)) {
        size_t bytes = decode(string, at, &code);
        if (icp_jinja_is_space(code)) {
            at += bytes;
            continue;
        }
        if (count_max >= 0 && (int64_t)list->count == count_max) {
            icp_jinja_list_add(run, list, icp_jinja_slice(run, string, at, string->bytes));
            break;
        }
        size_t start = at;
        icp_jinja_step(run, 0);
        while (at < string->bytes && (bytes = decode(string, at, &code), !icp_jinja_is_space(code))) at += bytes;
        icp_jinja_list_add(run, list, icp_jinja_slice(run, string, start, at));
    }
    return icp_jinja_of_list(list, ICP_JINJA_LIST);
}

icp_jinja_value icp_jinja_split(icp_jinja_run *run, const icp_jinja_string *string, const icp_jinja_string *separator,
                                int64_t count_max)
{
    if (!icp_jinja_step(run, string->bytes)) return icp_jinja_undefined(NULL);
    if (separator == NULL) return split_space(run, string, count_max);
    if (separator->bytes == 0) return icp_jinja_fail(run, "empty separator");
    icp_jinja_list *list = icp_jinja_list_new(run, 0);
    size_t start = 0;
    while (list != NULL && icp_jinja_step(run, 0)) {
        bool is_last = count_max >= 0 && (int64_t)list->count >= count_max;
        size_t found = is_last ? SIZE_MAX : icp_jinja_find(string, separator, start);
        icp_jinja_list_add(run, list, icp_jinja_slice(run, string, start, found == SIZE_MAX ? string->bytes : found));
        if (found == SIZE_MAX) break;
        start = found + separator->bytes;
    }
    return icp_jinja_of_list(list, ICP_JINJA_LIST);
}

/* The pieces are found from the end, then turned round. */
static icp_jinja_value turned(icp_jinja_run *run, const icp_jinja_list *pieces)
{
    icp_jinja_list *list = icp_jinja_list_new(run, pieces->count);
    for (size_t i = pieces->count; list != NULL && i > 0; i--) icp_jinja_list_add(run, list, pieces->items[i - 1]);
    return icp_jinja_of_list(list, ICP_JINJA_LIST);
}

static void split_space_back(icp_jinja_run *run, const icp_jinja_string *string, int64_t count_max,
                             icp_jinja_list *list)
{
    size_t end = string->bytes;
    uint32_t code = 0;
    while (end > 0 && icp_jinja_charge(run, 4)) {
        size_t before = back(string, end);
        decode(string, before, &code);
        if (icp_jinja_is_space(code)) {
            end = before;
            continue;
        }
        if (count_max >= 0 && (int64_t)list->count == count_max) {
            icp_jinja_list_add(run, list, icp_jinja_slice(run, string, 0, end));
            return;
        }
        size_t start = end;
        icp_jinja_step(run, 0);
        while (start > 0) {
            before = back(string, start);
            decode(string, before, &code);
            if (icp_jinja_is_space(code)) break;
            start = before;
        }
        icp_jinja_list_add(run, list, icp_jinja_slice(run, string, start, end));
        end = start;
    }
}

icp_jinja_value icp_jinja_split_back(icp_jinja_run *run, const icp_jinja_string *string,
                                     const icp_jinja_string *separator, int64_t count_max)
{
    icp_jinja_list *list = icp_jinja_list_new(run, 0);
    if (list == NULL || !icp_jinja_step(run, string->bytes)) return icp_jinja_undefined(NULL);
    if (separator == NULL) {
        split_space_back(run, string, count_max, list);
        return turned(run, list);
    }
    if (separator->bytes == 0) return icp_jinja_fail(run, "empty separator");
    size_t end = string->bytes, at = string->bytes;
    while (at >= separator->bytes && (count_max < 0 || (int64_t)list->count < count_max)) {
        if (string->text[at - 1] != separator->text[separator->bytes - 1] ||
            memcmp(string->text + at - separator->bytes, separator->text, separator->bytes) != 0) {
            at--;
            if (!icp_jinja_charge(run,
                                  string->text[at] == separator->text[separator->bytes - 1] ? separator->bytes : 1))
                break;
            continue;
        }
        icp_jinja_list_add(run, list, icp_jinja_slice(run, string, at, end));
        at -= separator->bytes;
        end = at;
        if (!icp_jinja_step(run, separator->bytes)) break;
    }
    icp_jinja_list_add(run, list, icp_jinja_slice(run, string, 0, end));
    return turned(run, list);
}

icp_jinja_value icp_jinja_split_lines(icp_jinja_run *run, const icp_jinja_string *string, bool is_end_kept)
{
    icp_jinja_list *list = icp_jinja_list_new(run, 0);
    size_t start = 0, at = 0;
    if (!icp_jinja_step(run, string->bytes)) return icp_jinja_undefined(NULL);
    while (list != NULL && at < string->bytes && !icp_jinja_is_failed(run)) {
        uint32_t code = 0;
        size_t end = at;
        at += decode(string, at, &code);
        bool is_end = (code >= 0x0a && code <= 0x0d) || (code >= 0x1c && code <= 0x1e) || code == 0x85 ||
                      code == 0x2028 || code == 0x2029;
        if (!is_end) continue;
        if (code == '\r' && at < string->bytes && string->text[at] == '\n') at++;
        icp_jinja_list_add(run, list, icp_jinja_slice(run, string, start, is_end_kept ? at : end));
        start = at;
        icp_jinja_step(run, 0);
    }
    if (list != NULL && start < string->bytes) {
        icp_jinja_list_add(run, list, icp_jinja_slice(run, string, start, string->bytes));
    }
    return icp_jinja_of_list(list, ICP_JINJA_LIST);
}
