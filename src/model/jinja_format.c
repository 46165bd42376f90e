/* jinja_format.c - str.format and the % of strings: the parts that chat templates use.
 *
 * format: {}, {0}, {name}, {{ and }}, and :.2f or :02d after them. %: %s %r %d %i %f %.2f %x %%. What is put in keeps
 * its provenance where it is a string without a width; numbers are data. */
#include "model/jinja_eval.h"

#include <stdio.h>
#include <string.h>

#define SPEC_BYTES_MAX 8u

/* A number by a C format of flags, width and precision that was checked: "%" spec letter. */
static void print_formatted(icp_jinja_run *run, icp_jinja_buffer *buffer, const char *spec, char letter,
                            icp_jinja_value value)
{
    char format[SPEC_BYTES_MAX + 8], text[512];
    if (!icp_jinja_is_number(value)) {
        icp_jinja_fail(run, "a number is required for format '%c', not %s", letter, icp_jinja_type_name(value));
        return;
    }
    bool is_float = letter == 'f' || letter == 'F' || letter == 'e' || letter == 'g';
    snprintf(format, sizeof(format), "%%%s%s%c", spec, is_float ? "" : "ll", letter == 'i' ? 'd' : letter);
    /* The format is of our making: spec holds digits, one point, and the flags 0, + and -. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    int bytes = 0;
    if (is_float) {
        bytes = snprintf(text, sizeof(text), format, icp_jinja_number_of(value));
    } else {
        double number = icp_jinja_number_of(value);
        bool is_whole = value.kind != ICP_JINJA_FLOAT || (number > -9e18 && number < 9e18);
        if (!is_whole) icp_jinja_fail(run, "a number is too large for format '%c'", letter);
        long long whole =
            value.kind == ICP_JINJA_FLOAT ? (is_whole ? (long long)number : 0) : (long long)icp_jinja_integer_of(value);
        bytes = snprintf(text, sizeof(text), format, whole);
    }
#pragma GCC diagnostic pop
    if (bytes < 0 || (size_t)bytes >= sizeof(text)) {
        icp_jinja_fail(run, "a formatted number is too long");
        return;
    }
    icp_jinja_append_data(run, buffer, text);
}

/* Copies flags, width and precision from text to spec; says how many bytes they are, SIZE_MAX: more than we know. */
static size_t take_spec(const char *text, size_t bytes, char spec[SPEC_BYTES_MAX])
{
    size_t count = 0, width = 0;
    while (count < bytes && text[count] != '\0' && strchr("0123456789.+-", text[count]) != NULL) count++;
    if (count >= SPEC_BYTES_MAX) return SIZE_MAX;
    memcpy(spec, text, count);
    spec[count] = '\0';
    for (size_t i = 0; i < count; i++) {
        width = spec[i] >= '0' && spec[i] <= '9' ? width * 10 + (size_t)(spec[i] - '0') : 0;
        if (width > 99) return SIZE_MAX;
    }
    return count;
}

/* ---- % --------------------------------------------------------------------------------------------------- */

static void percent_one(icp_jinja_run *run, icp_jinja_buffer *buffer, const char *spec, char letter,
                        icp_jinja_value value)
{
    if ((letter == 's' || letter == 'r') && spec[0] != '\0') {
        icp_jinja_fail(run, "a width in '%%%c' is not supported", letter);
    } else if (letter == 's') {
        icp_jinja_print(run, buffer, value);
    } else if (letter == 'r') {
        icp_jinja_repr(run, buffer, value);
    } else if (letter != '\0' && strchr("difFegxX", letter) != NULL) {
        print_formatted(run, buffer, spec, letter, value);
    } else {
        icp_jinja_fail(run, "unsupported format character '%c'", letter);
    }
}

icp_jinja_value icp_jinja_format_percent(icp_jinja_run *run, const icp_jinja_string *format, icp_jinja_value values)
{
    icp_jinja_buffer *buffer = icp_jinja_buffer_new(run);
    bool is_tuple = values.kind == ICP_JINJA_TUPLE;
    size_t count = is_tuple ? values.list->count : 1, taken = 0, start = 0;
    for (size_t at = 0; at < format->bytes && !icp_jinja_is_failed(run);) {
        if (format->text[at] != '%') {
            at++;
            continue;
        }
        char spec[SPEC_BYTES_MAX];
        icp_jinja_append_slice(run, buffer, format, start, at);
        size_t bytes = take_spec(format->text + at + 1, format->bytes - at - 1, spec);
        if (bytes == SIZE_MAX || at + 1 + bytes >= format->bytes) return icp_jinja_fail(run, "incomplete format");
        char letter = format->text[at + 1 + bytes];
        if (letter == '%') {
            icp_jinja_append_slice(run, buffer, format, at, at + 1);
        } else if (taken == count) {
            return icp_jinja_fail(run, "not enough arguments for format string");
        } else {
            icp_jinja_value value = is_tuple ? values.list->items[taken] : values;
            percent_one(run, buffer, spec, letter, value);
            taken++;
        }
        at += bytes + 2;
        start = at;
    }
    bool may_be_left =
        values.kind == ICP_JINJA_DICT || values.kind == ICP_JINJA_LIST || values.kind == ICP_JINJA_UNDEFINED;
    if (taken < count && !may_be_left)
        return icp_jinja_fail(run, "not all arguments converted during string formatting");
    icp_jinja_append_slice(run, buffer, format, start, format->bytes);
    return icp_jinja_buffer_string(run, buffer);
}

/* ---- format ---------------------------------------------------------------------------------------------- */

static icp_jinja_value field_value(icp_jinja_run *run, const icp_jinja_call *call, const char *name, size_t bytes,
                                   size_t *automatic)
{
    size_t index = 0;
    bool is_number = true;
    for (size_t i = 0; i < bytes; i++) {
        is_number = is_number && name[i] >= '0' && name[i] <= '9' && bytes < 5;
        if (is_number) index = index * 10 + (size_t)(name[i] - '0');
    }
    if (bytes == 0) index = (*automatic)++;
    if (is_number) {
        if (index < call->argument_count) return call->arguments[index];
        return icp_jinja_fail(run, "Replacement index %zu out of range for positional args tuple", index);
    }
    for (size_t i = 0; i < call->named_count; i++) {
        const icp_jinja_string *key = call->named[i].key.string;
        if (key->bytes == bytes && memcmp(key->text, name, bytes) == 0) return call->named[i].value;
    }
    return icp_jinja_fail(run, "format has no field '%.*s'", (int)(bytes < 40 ? bytes : 40), name);
}

/* The inside of one {}: name, or name:spec. */
static void format_field(icp_jinja_run *run, icp_jinja_buffer *buffer, const icp_jinja_call *call, const char *text,
                         size_t bytes, size_t *automatic)
{
    const char *colon = memchr(text, ':', bytes);
    size_t name_bytes = colon == NULL ? bytes : (size_t)(colon - text);
    icp_jinja_value value = field_value(run, call, text, name_bytes, automatic);
    if (icp_jinja_is_failed(run)) return;
    if (colon == NULL || name_bytes + 1 == bytes) {
        icp_jinja_print(run, buffer, value);
        return;
    }
    char spec[SPEC_BYTES_MAX];
    size_t rest = bytes - name_bytes - 1, spec_bytes = take_spec(colon + 1, rest, spec);
    bool is_default = spec_bytes == rest && value.kind == ICP_JINJA_INT;
    if (spec_bytes == SIZE_MAX || (rest != spec_bytes + 1 && !is_default)) {
        icp_jinja_fail(run, "the format '%.*s' is not supported", (int)(rest < 20 ? rest : 20), colon + 1);
        return;
    }
    char letter = is_default ? 'd' : colon[1 + spec_bytes];
    if (strchr("dfFegxX", letter) == NULL || letter == '\0') {
        icp_jinja_fail(run, "the format '%.*s' is not supported", (int)(rest < 20 ? rest : 20), colon + 1);
        return;
    }
    print_formatted(run, buffer, spec, letter, value);
}

icp_jinja_value icp_jinja_format(icp_jinja_run *run, const icp_jinja_string *format, const icp_jinja_call *call)
{
    icp_jinja_buffer *buffer = icp_jinja_buffer_new(run);
    size_t start = 0, automatic = 0;
    for (size_t at = 0; at < format->bytes && !icp_jinja_is_failed(run);) {
        char c = format->text[at];
        if (c != '{' && c != '}') {
            at++;
            continue;
        }
        icp_jinja_append_slice(run, buffer, format, start, at);
        if (at + 1 < format->bytes && format->text[at + 1] == c) {
            icp_jinja_append_slice(run, buffer, format, at, at + 1);
            at += 2;
        } else if (c == '}') {
            return icp_jinja_fail(run, "Single '}' encountered in format string");
        } else {
            const char *end = memchr(format->text + at, '}', format->bytes - at);
            if (end == NULL) return icp_jinja_fail(run, "expected '}' before end of string");
            size_t close = (size_t)(end - format->text);
            format_field(run, buffer, call, format->text + at + 1, close - at - 1, &automatic);
            at = close + 1;
        }
        start = at;
    }
    icp_jinja_append_slice(run, buffer, format, start, format->bytes);
    return icp_jinja_buffer_string(run, buffer);
}
