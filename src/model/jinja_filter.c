/* jinja_filter.c - filters on text and numbers, and the table of all filters. Those on sequences: jinja_sequence.c. */
#include "model/jinja_eval.h"

#include "model/unicode.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Text ------------------------------------------------------------------------------------------------ */

static icp_jinja_value filter_trim(icp_jinja_run *run, const icp_jinja_call *call)
{
    icp_jinja_value chars = call->bound[0];
    const icp_jinja_string *set = NULL;
    if (chars.kind != ICP_JINJA_ABSENT && chars.kind != ICP_JINJA_NONE) set = icp_jinja_argument_string(run, chars, "");
    return icp_jinja_strip(run, icp_jinja_string_of(run, call->self), set, ICP_JINJA_SIDE_LEFT | ICP_JINJA_SIDE_RIGHT);
}

static icp_jinja_value filter_upper(icp_jinja_run *run, const icp_jinja_call *call)
{
    return icp_jinja_recase(run, icp_jinja_string_of(run, call->self), ICP_JINJA_CASE_UPPER);
}

static icp_jinja_value filter_lower(icp_jinja_run *run, const icp_jinja_call *call)
{
    return icp_jinja_recase(run, icp_jinja_string_of(run, call->self), ICP_JINJA_CASE_LOWER);
}

static icp_jinja_value filter_capitalize(icp_jinja_run *run, const icp_jinja_call *call)
{
    return icp_jinja_recase(run, icp_jinja_string_of(run, call->self), ICP_JINJA_CASE_CAPITAL);
}

static icp_jinja_value filter_title(icp_jinja_run *run, const icp_jinja_call *call)
{
    return icp_jinja_recase(run, icp_jinja_string_of(run, call->self), ICP_JINJA_CASE_WORDS);
}

static icp_jinja_value filter_replace(icp_jinja_run *run, const icp_jinja_call *call)
{
    int64_t count = -1;
    if (call->bound[2].kind != ICP_JINJA_NONE) count = icp_jinja_argument_int(run, call->bound[2], -1);
    return icp_jinja_replace(run, icp_jinja_string_of(run, call->self), icp_jinja_string_of(run, call->bound[0]),
                             icp_jinja_string_of(run, call->bound[1]), count);
}

static icp_jinja_value filter_string(icp_jinja_run *run, const icp_jinja_call *call)
{
    return icp_jinja_of_string(icp_jinja_string_of(run, call->self));
}

static icp_jinja_value markup(icp_jinja_run *run, const icp_jinja_string *string)
{
    icp_jinja_string *marked = icp_jinja_take(run, sizeof(*marked));
    if (marked == NULL || icp_jinja_is_failed(run)) return icp_jinja_undefined(NULL);
    *marked = *string;
    marked->is_markup = true;
    return icp_jinja_of_string(marked);
}

static icp_jinja_value filter_safe(icp_jinja_run *run, const icp_jinja_call *call)
{
    return markup(run, icp_jinja_string_of(run, call->self));
}

static icp_jinja_value filter_escape(icp_jinja_run *run, const icp_jinja_call *call)
{
    const icp_jinja_string *string = icp_jinja_string_of(run, call->self);
    if (string->is_markup) return call->self;
    icp_jinja_value escaped = icp_jinja_escape(run, string);
    return icp_jinja_is_failed(run) ? escaped : markup(run, escaped.string);
}

static icp_jinja_value filter_indent(icp_jinja_run *run, const icp_jinja_call *call)
{
    const icp_jinja_string *string = icp_jinja_argument_string(run, call->self, ""), *indent = NULL;
    bool is_first = icp_jinja_argument_bool(call->bound[1], false);
    bool is_blank = icp_jinja_argument_bool(call->bound[2], false);
    if (call->bound[0].kind == ICP_JINJA_STRING) {
        indent = call->bound[0].string;
    } else {
        icp_jinja_value blank = icp_jinja_text(run, " ", 1, true);
        icp_jinja_value width = icp_jinja_int(icp_jinja_argument_int(run, call->bound[0], 4));
        blank = icp_jinja_binary(run, ICP_OP_MULTIPLY, blank, width);
        if (icp_jinja_is_failed(run)) return blank;
        indent = blank.string;
    }
    /* As Jinja does it: a newline is added, so that a last line that is empty counts. */
    icp_jinja_value newline = icp_jinja_text(run, "\n", 1, false); /* stands for what may have come from a message */
    icp_jinja_value whole = icp_jinja_concat(run, string, newline.string);
    icp_jinja_value lines = icp_jinja_split_lines(run, whole.string, false);
    icp_jinja_buffer *buffer = icp_jinja_buffer_new(run);
    if (icp_jinja_is_failed(run)) return lines;
    if (is_first) icp_jinja_append(run, buffer, indent);
    for (size_t i = 0; i < lines.list->count && icp_jinja_step(run, 0); i++) {
        const icp_jinja_string *line = lines.list->items[i].string;
        if (i > 0) icp_jinja_append(run, buffer, newline.string);
        if (i > 0 && (is_blank || line->bytes > 0)) icp_jinja_append(run, buffer, indent);
        icp_jinja_append(run, buffer, line);
    }
    return icp_jinja_buffer_string(run, buffer);
}

static icp_jinja_value filter_wordcount(icp_jinja_run *run, const icp_jinja_call *call)
{
    const icp_jinja_string *string = icp_jinja_string_of(run, call->self);
    int64_t count = 0;
    bool is_inside = false;
    icp_jinja_step(run, string->bytes);
    for (size_t at = 0; at < string->bytes;) {
        icp_glyph glyph = icp_glyph_at((const uint8_t *)string->text, at, string->bytes);
        bool is_word = (glyph.class & (ICP_UNICODE_LETTER | ICP_UNICODE_NUMBER)) || glyph.code == '_';
        count += is_word && !is_inside;
        is_inside = is_word;
        at += glyph.bytes;
    }
    return icp_jinja_int(count);
}

static icp_jinja_value filter_truncate(icp_jinja_run *run, const icp_jinja_call *call)
{
    if (call->self.kind == ICP_JINJA_UNDEFINED) return call->self;
    const icp_jinja_string *string = icp_jinja_argument_string(run, call->self, "");
    int64_t length = icp_jinja_argument_int(run, call->bound[0], 255);
    bool is_cut_inside = icp_jinja_argument_bool(call->bound[1], false);
    const icp_jinja_string *end = icp_jinja_argument_string(run, call->bound[2], "...");
    int64_t leeway = icp_jinja_argument_int(run, call->bound[3], 5), end_length = icp_jinja_length(run, end);
    if (length < end_length || leeway < 0) return icp_jinja_fail(run, "truncate: the length is too small");
    if (icp_jinja_length(run, string) - leeway <= length) return icp_jinja_of_string(string);
    size_t bytes = icp_jinja_offset(run, string, length - end_length);
    if (!is_cut_inside) {
        size_t blank = bytes;
        while (blank > 0 && string->text[blank - 1] != ' ') blank--;
        if (blank > 0) bytes = blank - 1;
    }
    icp_jinja_value cut = icp_jinja_slice(run, string, 0, bytes);
    return icp_jinja_concat(run, cut.string, end);
}

static icp_jinja_value filter_center(icp_jinja_run *run, const icp_jinja_call *call)
{
    const icp_jinja_string *string = icp_jinja_string_of(run, call->self);
    int64_t width = icp_jinja_argument_int(run, call->bound[0], 80), length = icp_jinja_length(run, string);
    icp_jinja_buffer *buffer = icp_jinja_buffer_new(run);
    if (width <= length || buffer == NULL) return icp_jinja_of_string(string);
    int64_t pad = width - length, left = pad / 2 + (pad & width & 1);
    for (int64_t i = 0; i < pad && icp_jinja_step(run, 0); i++) {
        if (i == left) icp_jinja_append(run, buffer, string);
        icp_jinja_append_data(run, buffer, " ");
    }
    if (left == pad) icp_jinja_append(run, buffer, string);
    return icp_jinja_buffer_string(run, buffer);
}

static icp_jinja_value filter_format(icp_jinja_run *run, const icp_jinja_call *call)
{
    if (call->named_count > 0) return icp_jinja_fail(run, "format by name is not supported");
    icp_jinja_list *values = icp_jinja_list_new(run, call->argument_count);
    if (values == NULL) return icp_jinja_undefined(NULL);
    for (size_t i = 0; i < call->argument_count; i++) icp_jinja_list_add(run, values, call->arguments[i]);
    return icp_jinja_format_percent(run, icp_jinja_string_of(run, call->self),
                                    icp_jinja_of_list(values, ICP_JINJA_TUPLE));
}

/* ---- JSON ------------------------------------------------------------------------------------------------ */

static const icp_jinja_string *text_of(icp_jinja_run *run, const char *text)
{
    return icp_jinja_text(run, text, strlen(text), false).string;
}

static void json_separators(icp_jinja_run *run, icp_jinja_value pair, icp_jinja_json_options *options)
{
    options->comma = text_of(run, options->indent == NULL ? ", " : ",");
    options->colon = text_of(run, ": ");
    if (pair.kind == ICP_JINJA_ABSENT || pair.kind == ICP_JINJA_NONE) return;
    bool is_pair = (pair.kind == ICP_JINJA_LIST || pair.kind == ICP_JINJA_TUPLE) && pair.list->count == 2;
    if (!is_pair) {
        icp_jinja_fail(run, "tojson: separators is a pair of strings");
        return;
    }
    options->comma = icp_jinja_argument_string(run, pair.list->items[0], "");
    options->colon = icp_jinja_argument_string(run, pair.list->items[1], "");
}

static icp_jinja_value filter_tojson(icp_jinja_run *run, const icp_jinja_call *call)
{
    icp_jinja_json_options options = {
        .is_ascii = icp_jinja_argument_bool(call->bound[0], false),
        .is_sorted = icp_jinja_argument_bool(call->bound[3], false),
    };
    icp_jinja_value indent = call->bound[1];
    if (indent.kind == ICP_JINJA_STRING) {
        options.indent = indent.string;
    } else if (indent.kind != ICP_JINJA_ABSENT && indent.kind != ICP_JINJA_NONE) {
        icp_jinja_value width = icp_jinja_int(icp_jinja_argument_int(run, indent, 0));
        indent = icp_jinja_binary(run, ICP_OP_MULTIPLY, icp_jinja_of_string(text_of(run, " ")), width);
        if (icp_jinja_is_failed(run)) return indent;
        options.indent = indent.string;
    }
    json_separators(run, call->bound[2], &options);
    icp_jinja_buffer *buffer = icp_jinja_buffer_new(run);
    if (icp_jinja_is_failed(run)) return icp_jinja_undefined(NULL);
    icp_jinja_json(run, buffer, call->self, &options);
    return icp_jinja_buffer_string(run, buffer);
}

/* ---- Numbers --------------------------------------------------------------------------------------------- */

/* Reads a whole string, blanks around it left out, as Python's int or float do; false: it is not a number. */
static bool read_number(const icp_jinja_string *string, double *number, int64_t *integer, bool *is_integer)
{
    char text[64], *end = NULL;
    size_t used = 0, start = 0, stop = string->bytes;
    while (start < stop && icp_jinja_is_space((uint8_t)string->text[start])) start++;
    while (stop > start && icp_jinja_is_space((uint8_t)string->text[stop - 1])) stop--;
    for (size_t i = start; i < stop; i++) {
        char c = string->text[i];
        if (used + 1 >= sizeof(text) || c == 'x' || c == 'X' || c == 'p' || c == 'P' || c == '(' || c == '\0')
            return false;
        bool is_between = c == '_' && i > start && i + 1 < stop && string->text[i - 1] != '_';
        if (is_between) continue;
        text[used++] = c;
    }
    text[used] = '\0';
    if (used == 0) return false;
    errno = 0;
    *integer = strtoll(text, &end, 10);
    *is_integer = *end == '\0' && errno == 0;
    *number = strtod(text, &end);
    return *end == '\0';
}

static icp_jinja_value int_of_float(double number, icp_jinja_value otherwise)
{
    if (!(number > -9.2233720368547748e18 && number < 9.2233720368547748e18)) return otherwise;
    return icp_jinja_int((int64_t)number);
}

static icp_jinja_value filter_int(icp_jinja_run *run, const icp_jinja_call *call)
{
    icp_jinja_value value = call->self;
    icp_jinja_value otherwise = call->bound[0].kind == ICP_JINJA_ABSENT ? icp_jinja_int(0) : call->bound[0];
    int64_t base = icp_jinja_argument_int(run, call->bound[1], 10), integer = 0;
    double number = 0;
    bool is_integer = false;
    if (value.kind == ICP_JINJA_UNDEFINED) return icp_jinja_fail_undefined(run, value);
    if (value.kind == ICP_JINJA_FLOAT) return int_of_float(value.number, otherwise);
    if (icp_jinja_is_number(value)) return icp_jinja_int(icp_jinja_integer_of(value));
    if (value.kind != ICP_JINJA_STRING) return otherwise;
    if (base != 10) return icp_jinja_fail(run, "int: only base 10 is supported");
    if (!read_number(value.string, &number, &integer, &is_integer)) return otherwise;
    return is_integer ? icp_jinja_int(integer) : int_of_float(number, otherwise);
}

static icp_jinja_value filter_float(icp_jinja_run *run, const icp_jinja_call *call)
{
    icp_jinja_value value = call->self;
    icp_jinja_value otherwise = call->bound[0].kind == ICP_JINJA_ABSENT ? icp_jinja_float(0) : call->bound[0];
    int64_t integer = 0;
    double number = 0;
    bool is_integer = false;
    if (value.kind == ICP_JINJA_UNDEFINED) return icp_jinja_fail_undefined(run, value);
    if (icp_jinja_is_number(value)) return icp_jinja_float(icp_jinja_number_of(value));
    if (value.kind != ICP_JINJA_STRING || !read_number(value.string, &number, &integer, &is_integer)) return otherwise;
    return icp_jinja_float(number);
}

static icp_jinja_value filter_abs(icp_jinja_run *run, const icp_jinja_call *call)
{
    icp_jinja_value value = call->self;
    if (!icp_jinja_is_number(value)) return icp_jinja_negate(run, value, true);
    bool is_negative = icp_jinja_number_of(value) < 0;
    if (value.kind == ICP_JINJA_FLOAT) return icp_jinja_float(fabs(value.number));
    return icp_jinja_negate(run, value, is_negative);
}

static icp_jinja_value filter_round(icp_jinja_run *run, const icp_jinja_call *call)
{
    icp_jinja_value value = call->self;
    int64_t precision = icp_jinja_argument_int(run, call->bound[0], 0);
    const icp_jinja_string *method = icp_jinja_argument_string(run, call->bound[1], "common");
    bool is_ceil = icp_jinja_is_text(method, "ceil"), is_floor = icp_jinja_is_text(method, "floor");
    if (!icp_jinja_is_number(value)) return icp_jinja_negate(run, value, true);
    if (precision < 0 || precision > 15) return icp_jinja_fail(run, "round: a precision from 0 to 15 is supported");
    if (is_ceil || is_floor) {
        double scale = pow(10, (double)precision), number = icp_jinja_number_of(value) * scale;
        return icp_jinja_float((is_ceil ? ceil(number) : floor(number)) / scale);
    }
    if (!icp_jinja_is_text(method, "common")) return icp_jinja_fail(run, "method must be common, ceil or floor");
    if (value.kind != ICP_JINJA_FLOAT) return icp_jinja_int(icp_jinja_integer_of(value));
    char text[512];
    snprintf(text, sizeof(text), "%.*f", (int)precision, value.number);
    return icp_jinja_float(strtod(text, NULL));
}

/* ---- Others ---------------------------------------------------------------------------------------------- */

static icp_jinja_value filter_default(icp_jinja_run *run, const icp_jinja_call *call)
{
    bool is_boolean = icp_jinja_argument_bool(call->bound[1], false);
    bool is_missing = call->self.kind == ICP_JINJA_UNDEFINED || (is_boolean && !icp_jinja_is_true(call->self));
    if (!is_missing) return call->self;
    return call->bound[0].kind == ICP_JINJA_ABSENT ? icp_jinja_text(run, "", 0, true) : call->bound[0];
}

static icp_jinja_value filter_attr(icp_jinja_run *run, const icp_jinja_call *call)
{
    if (call->self.kind == ICP_JINJA_DICT) return icp_jinja_undefined(NULL); /* attributes, not items */
    return icp_jinja_get_attribute(run, call->self, icp_jinja_argument_string(run, call->bound[0], ""));
}

static const icp_jinja_builtin filters[] = {
    {"trim", "chars", filter_trim},
    {"upper", "", filter_upper},
    {"lower", "", filter_lower},
    {"capitalize", "", filter_capitalize},
    {"title", "", filter_title},
    {"replace", "old! new! count", filter_replace},
    {"string", "", filter_string},
    {"safe", "", filter_safe},
    {"escape", "", filter_escape},
    {"e", "", filter_escape},
    {"forceescape", "", filter_escape},
    {"indent", "width first blank", filter_indent},
    {"wordcount", "", filter_wordcount},
    {"truncate", "length killwords end leeway", filter_truncate},
    {"center", "width", filter_center},
    {"format", NULL, filter_format},
    {"tojson", "ensure_ascii indent separators sort_keys", filter_tojson},
    {"int", "default base", filter_int},
    {"float", "default", filter_float},
    {"abs", "", filter_abs},
    {"round", "precision method", filter_round},
    {"default", "default_value boolean", filter_default},
    {"d", "default_value boolean", filter_default},
    {"attr", "name!", filter_attr},
    {0},
};

const icp_jinja_builtin *icp_jinja_filter_find(const icp_jinja_string *name)
{
    const icp_jinja_builtin *filter = icp_jinja_builtin_find(filters, name);
    return filter != NULL ? filter : icp_jinja_builtin_find(icp_jinja_sequence_filters, name);
}
