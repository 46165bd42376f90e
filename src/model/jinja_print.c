/* jinja_print.c - values as text: Python's str and repr, and JSON as json.dumps writes it.
 *
 * Strings keep their provenance inside whatever they are printed in; punctuation, numbers and escapes are data. */
#include "model/jinja_eval.h"

#include "model/unicode.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The digits are those of the shortest decimal that reads back as the same double. */
void icp_jinja_float_text(double number, char text[ICP_JINJA_FLOAT_BYTES_MAX])
{
    if (isnan(number) || isinf(number)) {
        snprintf(text, ICP_JINJA_FLOAT_BYTES_MAX, "%s", isnan(number) ? "nan" : number < 0 ? "-inf" : "inf");
        return;
    }
    char shortest[ICP_JINJA_FLOAT_BYTES_MAX], digits[ICP_JINJA_FLOAT_BYTES_MAX];
    for (int precision = 0; precision < 17; precision++) {
        snprintf(shortest, sizeof(shortest), "%.*e", precision, number);
        if (strtod(shortest, NULL) == number) break;
    }
    const char *e = strchr(shortest, 'e');
    int exponent = atoi(e + 1), count = 0, used = 0;
    for (const char *at = shortest; at < e; at++) {
        if (*at >= '0' && *at <= '9') digits[count++] = *at;
    }
    while (count > 1 && digits[count - 1] == '0') count--;
    if (signbit(number)) text[used++] = '-';
    if (exponent < -4 || exponent >= 16) {
        text[used++] = digits[0];
        if (count > 1) text[used++] = '.';
        for (int i = 1; i < count; i++) text[used++] = digits[i];
        snprintf(text + used, ICP_JINJA_FLOAT_BYTES_MAX - (size_t)used, "e%c%02d", exponent < 0 ? '-' : '+',
                 abs(exponent));
        return;
    }
    int point = exponent + 1; /* digits before the point */
    if (point <= 0) text[used++] = '0';
    for (int i = 0; i < point; i++) text[used++] = i < count ? digits[i] : '0';
    text[used++] = '.';
    for (int i = point; i < 0; i++) text[used++] = '0';
    for (int i = point > 0 ? point : 0; i < count; i++) text[used++] = digits[i];
    if (count <= point) text[used++] = '0';
    text[used] = '\0';
}

static void print_number(icp_jinja_run *run, icp_jinja_buffer *buffer, icp_jinja_value value)
{
    char text[ICP_JINJA_FLOAT_BYTES_MAX];
    if (value.kind == ICP_JINJA_INT) {
        snprintf(text, sizeof(text), "%lld", (long long)value.integer);
    } else {
        icp_jinja_float_text(value.number, text);
    }
    icp_jinja_append_data(run, buffer, text);
}

/* ---- repr ------------------------------------------------------------------------------------------------ */

/* What Python writes for a character in a repr that is not itself; "" where it is. */
static void repr_escape(uint32_t code, char quote, char text[16])
{
    text[0] = '\0';
    uint8_t class = icp_unicode_class(code);
    if (code == (uint8_t)quote || code == '\\') {
        snprintf(text, 16, "\\%c", (int)code);
    } else if (code == '\n' || code == '\r' || code == '\t') {
        snprintf(text, 16, "\\%c", code == '\n' ? 'n' : code == '\r' ? 'r' : 't');
    } else if (code != ' ' && (class == 0 || (class & ICP_UNICODE_SPACE))) {
        snprintf(text, 16, code < 0x100 ? "\\x%02x" : code < 0x10000 ? "\\u%04x" : "\\U%08x", (unsigned)code);
    }
}

static void repr_string(icp_jinja_run *run, icp_jinja_buffer *buffer, const icp_jinja_string *string)
{
    bool has_single = memchr(string->text, '\'', string->bytes) != NULL;
    char quote = has_single && memchr(string->text, '"', string->bytes) == NULL ? '"' : '\'';
    size_t start = 0;
    icp_jinja_append_bytes(run, buffer, &quote, 1, false);
    icp_jinja_charge(run, 8 * string->bytes);
    for (size_t at = 0; at < string->bytes && !icp_jinja_is_failed(run);) {
        uint32_t code = 0;
        size_t next = at + icp_utf8_decode((const uint8_t *)string->text + at, string->bytes - at, &code);
        char text[16];
        repr_escape(code, quote, text);
        if (text[0] != '\0') {
            icp_jinja_append_slice(run, buffer, string, start, at);
            icp_jinja_append_data(run, buffer, text);
            start = next;
        }
        at = next;
    }
    icp_jinja_append_slice(run, buffer, string, start, string->bytes);
    icp_jinja_append_bytes(run, buffer, &quote, 1, false);
}

static void repr_list(icp_jinja_run *run, icp_jinja_buffer *buffer, icp_jinja_value value)
{
    bool is_tuple = value.kind == ICP_JINJA_TUPLE;
    icp_jinja_append_data(run, buffer, is_tuple ? "(" : "[");
    for (size_t i = 0; i < value.list->count && icp_jinja_step(run, 0); i++) {
        if (i > 0) icp_jinja_append_data(run, buffer, ", ");
        icp_jinja_repr(run, buffer, value.list->items[i]);
    }
    if (is_tuple && value.list->count == 1) icp_jinja_append_data(run, buffer, ",");
    icp_jinja_append_data(run, buffer, is_tuple ? ")" : "]");
}

static void repr_dict(icp_jinja_run *run, icp_jinja_buffer *buffer, const icp_jinja_dict *dict)
{
    icp_jinja_append_data(run, buffer, "{");
    for (size_t i = 0; i < dict->count && icp_jinja_step(run, 0); i++) {
        if (i > 0) icp_jinja_append_data(run, buffer, ", ");
        icp_jinja_repr(run, buffer, dict->entries[i].key);
        icp_jinja_append_data(run, buffer, ": ");
        icp_jinja_repr(run, buffer, dict->entries[i].value);
    }
    icp_jinja_append_data(run, buffer, "}");
}

static void repr_other(icp_jinja_run *run, icp_jinja_buffer *buffer, icp_jinja_value value)
{
    if (value.kind == ICP_JINJA_NAMESPACE) {
        icp_jinja_append_data(run, buffer, "<Namespace ");
        repr_dict(run, buffer, value.dict);
        icp_jinja_append_data(run, buffer, ">");
    } else if (value.kind == ICP_JINJA_MACRO) {
        icp_jinja_append_data(run, buffer, "<Macro>");
    } else {
        icp_jinja_append_data(run, buffer, value.kind == ICP_JINJA_UNDEFINED ? "Undefined" : "<");
        if (value.kind == ICP_JINJA_UNDEFINED) return;
        icp_jinja_append_data(run, buffer, icp_jinja_type_name(value));
        icp_jinja_append_data(run, buffer, " object>");
    }
}

void icp_jinja_repr(icp_jinja_run *run, icp_jinja_buffer *buffer, icp_jinja_value value)
{
    if (!icp_jinja_enter(run)) return;
    switch (value.kind) {
    case ICP_JINJA_NONE:
        icp_jinja_append_data(run, buffer, "None");
        break;
    case ICP_JINJA_BOOL:
        icp_jinja_append_data(run, buffer, value.boolean ? "True" : "False");
        break;
    case ICP_JINJA_INT:
    case ICP_JINJA_FLOAT:
        print_number(run, buffer, value);
        break;
    case ICP_JINJA_STRING:
        if (value.string->is_markup) icp_jinja_append_data(run, buffer, "Markup(");
        repr_string(run, buffer, value.string);
        if (value.string->is_markup) icp_jinja_append_data(run, buffer, ")");
        break;
    case ICP_JINJA_LIST:
    case ICP_JINJA_TUPLE:
        repr_list(run, buffer, value);
        break;
    case ICP_JINJA_DICT:
        repr_dict(run, buffer, value.dict);
        break;
    default:
        repr_other(run, buffer, value);
        break;
    }
    icp_jinja_leave(run);
}

void icp_jinja_print(icp_jinja_run *run, icp_jinja_buffer *buffer, icp_jinja_value value)
{
    if (value.kind == ICP_JINJA_STRING) {
        icp_jinja_append(run, buffer, value.string);
    } else if (value.kind != ICP_JINJA_UNDEFINED) {
        icp_jinja_repr(run, buffer, value);
    }
}

const icp_jinja_string *icp_jinja_string_of(icp_jinja_run *run, icp_jinja_value value)
{
    if (value.kind == ICP_JINJA_STRING) return value.string;
    icp_jinja_buffer *buffer = icp_jinja_buffer_new(run);
    icp_jinja_print(run, buffer, value);
    return icp_jinja_buffer_string(run, buffer).string;
}

/* ---- JSON ------------------------------------------------------------------------------------------------ */

static void json_escape(uint32_t code, bool is_ascii, char text[16])
{
    static const char letters[] = "\"\"\\\\\bb\ff\nn\rr\tt";
    text[0] = '\0';
    for (size_t i = 0; i + 1 < sizeof(letters); i += 2) {
        if (code == (uint8_t)letters[i]) {
            snprintf(text, 16, "\\%c", letters[i + 1]);
            return;
        }
    }
    if (code < 0x20 || (is_ascii && code > 0x7e && code < 0x10000)) {
        snprintf(text, 16, "\\u%04x", (unsigned)code);
    } else if (is_ascii && code >= 0x10000) {
        unsigned rest = code - 0x10000;
        snprintf(text, 16, "\\u%04x\\u%04x", 0xd800 + (rest >> 10), 0xdc00 + (rest & 0x3ff));
    }
}

static void json_string(icp_jinja_run *run, icp_jinja_buffer *buffer, const icp_jinja_string *string, bool is_ascii)
{
    size_t start = 0;
    icp_jinja_append_data(run, buffer, "\"");
    icp_jinja_charge(run, string->bytes);
    for (size_t at = 0; at < string->bytes;) {
        uint32_t code = (uint8_t)string->text[at];
        bool is_plain = code >= 0x20 && code < 0x7f && code != '"' && code != '\\';
        if (is_plain) {
            at++;
            continue;
        }
        size_t next = at + icp_utf8_decode((const uint8_t *)string->text + at, string->bytes - at, &code);
        char text[16];
        json_escape(code, is_ascii, text);
        if (text[0] != '\0') {
            icp_jinja_append_slice(run, buffer, string, start, at);
            icp_jinja_append_data(run, buffer, text);
            start = next;
        }
        at = next;
    }
    icp_jinja_append_slice(run, buffer, string, start, string->bytes);
    icp_jinja_append_data(run, buffer, "\"");
}

typedef struct json_writer {
    icp_jinja_run *run;
    icp_jinja_buffer *buffer;
    const icp_jinja_json_options *options;
    size_t level;
} json_writer;

static void json_value(json_writer *writer, icp_jinja_value value);

static void json_line(json_writer *writer)
{
    if (writer->options->indent == NULL) return;
    icp_jinja_append_data(writer->run, writer->buffer, "\n");
    for (size_t i = 0; i < writer->level; i++) {
        icp_jinja_append(writer->run, writer->buffer, writer->options->indent);
    }
}

static void json_list(json_writer *writer, const icp_jinja_list *list)
{
    icp_jinja_append_data(writer->run, writer->buffer, "[");
    writer->level++;
    for (size_t i = 0; i < list->count && icp_jinja_step(writer->run, 0); i++) {
        if (i > 0) icp_jinja_append(writer->run, writer->buffer, writer->options->comma);
        json_line(writer);
        json_value(writer, list->items[i]);
    }
    writer->level--;
    if (list->count > 0) json_line(writer);
    icp_jinja_append_data(writer->run, writer->buffer, "]");
}

static void json_scalar(json_writer *writer, icp_jinja_value value)
{
    if (value.kind == ICP_JINJA_NONE) {
        icp_jinja_append_data(writer->run, writer->buffer, "null");
    } else if (value.kind == ICP_JINJA_BOOL) {
        icp_jinja_append_data(writer->run, writer->buffer, value.boolean ? "true" : "false");
    } else if (value.kind == ICP_JINJA_FLOAT && !isfinite(value.number)) {
        const char *text = isnan(value.number) ? "NaN" : value.number < 0 ? "-Infinity" : "Infinity";
        icp_jinja_append_data(writer->run, writer->buffer, text);
    } else {
        print_number(writer->run, writer->buffer, value);
    }
}

static void json_key(json_writer *writer, icp_jinja_value key)
{
    if (key.kind == ICP_JINJA_STRING) {
        json_string(writer->run, writer->buffer, key.string, writer->options->is_ascii);
    } else if (icp_jinja_is_number(key) || key.kind == ICP_JINJA_NONE) {
        icp_jinja_append_data(writer->run, writer->buffer, "\"");
        json_scalar(writer, key);
        icp_jinja_append_data(writer->run, writer->buffer, "\"");
    } else {
        icp_jinja_fail(writer->run, "keys must be str, int, float, bool or None, not %s", icp_jinja_type_name(key));
    }
}

static const icp_jinja_dict *sorted_by_key(icp_jinja_run *run, const icp_jinja_dict *dict)
{
    static const icp_jinja_string name = {.text = "dictsort", .bytes = 8};
    icp_jinja_value is_case_kept = icp_jinja_bool(true);
    icp_jinja_call call = {
        .self = {.kind = ICP_JINJA_DICT, .dict = (icp_jinja_dict *)(uintptr_t)dict},
        .arguments = &is_case_kept,
        .argument_count = 1,
    };
    icp_jinja_value pairs = icp_jinja_call_builtin(run, icp_jinja_filter_find(&name), &call);
    icp_jinja_dict *sorted = icp_jinja_dict_new(run);
    if (icp_jinja_is_failed(run)) return dict;
    for (size_t i = 0; i < pairs.list->count; i++) {
        const icp_jinja_value *pair = pairs.list->items[i].list->items;
        icp_jinja_dict_set(run, sorted, pair[0], pair[1]);
    }
    return sorted;
}

static void json_dict(json_writer *writer, const icp_jinja_dict *dict)
{
    if (writer->options->is_sorted) dict = sorted_by_key(writer->run, dict);
    icp_jinja_append_data(writer->run, writer->buffer, "{");
    writer->level++;
    for (size_t i = 0; i < dict->count && icp_jinja_step(writer->run, 0); i++) {
        if (i > 0) icp_jinja_append(writer->run, writer->buffer, writer->options->comma);
        json_line(writer);
        json_key(writer, dict->entries[i].key);
        icp_jinja_append(writer->run, writer->buffer, writer->options->colon);
        json_value(writer, dict->entries[i].value);
    }
    writer->level--;
    if (dict->count > 0) json_line(writer);
    icp_jinja_append_data(writer->run, writer->buffer, "}");
}

static void json_value(json_writer *writer, icp_jinja_value value)
{
    if (!icp_jinja_enter(writer->run)) return;
    switch (value.kind) {
    case ICP_JINJA_NONE:
    case ICP_JINJA_BOOL:
    case ICP_JINJA_INT:
    case ICP_JINJA_FLOAT:
        json_scalar(writer, value);
        break;
    case ICP_JINJA_STRING:
        json_string(writer->run, writer->buffer, value.string, writer->options->is_ascii);
        break;
    case ICP_JINJA_LIST:
    case ICP_JINJA_TUPLE:
        json_list(writer, value.list);
        break;
    case ICP_JINJA_DICT:
        json_dict(writer, value.dict);
        break;
    default:
        icp_jinja_fail(writer->run, "Object of type %s is not JSON serializable", icp_jinja_type_name(value));
        break;
    }
    icp_jinja_leave(writer->run);
}

void icp_jinja_json(icp_jinja_run *run, icp_jinja_buffer *buffer, icp_jinja_value value,
                    const icp_jinja_json_options *options)
{
    json_writer writer = {.run = run, .buffer = buffer, .options = options};
    json_value(&writer, value);
}
