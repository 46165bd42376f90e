/* jinja_method.c - methods of strings, dicts and lists.
 *
 * Those that change a list or a dict in place (append, pop, update ...) are refused when they are called, as in the
 * immutable sandbox that Hugging Face renders with. */
#include "model/jinja_eval.h"

#include "model/unicode.h"

#include <string.h>

/* ---- Strings --------------------------------------------------------------------------------------------- */

static icp_jinja_value strip(icp_jinja_run *run, const icp_jinja_call *call, unsigned sides)
{
    icp_jinja_value chars = call->bound[0];
    const icp_jinja_string *set = NULL;
    if (chars.kind != ICP_JINJA_ABSENT && chars.kind != ICP_JINJA_NONE) set = icp_jinja_argument_string(run, chars, "");
    return icp_jinja_strip(run, call->self.string, set, sides);
}

static icp_jinja_value string_strip(icp_jinja_run *run, const icp_jinja_call *call)
{
    return strip(run, call, ICP_JINJA_SIDE_LEFT | ICP_JINJA_SIDE_RIGHT);
}

static icp_jinja_value string_lstrip(icp_jinja_run *run, const icp_jinja_call *call)
{
    return strip(run, call, ICP_JINJA_SIDE_LEFT);
}

static icp_jinja_value string_rstrip(icp_jinja_run *run, const icp_jinja_call *call)
{
    return strip(run, call, ICP_JINJA_SIDE_RIGHT);
}

static const icp_jinja_string *separator_of(icp_jinja_run *run, icp_jinja_value value)
{
    if (value.kind == ICP_JINJA_ABSENT || value.kind == ICP_JINJA_NONE) return NULL;
    return icp_jinja_argument_string(run, value, "");
}

static icp_jinja_value string_split(icp_jinja_run *run, const icp_jinja_call *call)
{
    int64_t count = icp_jinja_argument_int(run, call->bound[1], -1);
    return icp_jinja_split(run, call->self.string, separator_of(run, call->bound[0]), count);
}

static icp_jinja_value string_rsplit(icp_jinja_run *run, const icp_jinja_call *call)
{
    int64_t count = icp_jinja_argument_int(run, call->bound[1], -1);
    return icp_jinja_split_back(run, call->self.string, separator_of(run, call->bound[0]), count);
}

static icp_jinja_value string_splitlines(icp_jinja_run *run, const icp_jinja_call *call)
{
    return icp_jinja_split_lines(run, call->self.string, icp_jinja_argument_bool(call->bound[0], false));
}

static icp_jinja_value partition(icp_jinja_run *run, const icp_jinja_call *call, bool is_last)
{
    const icp_jinja_string *self = call->self.string;
    const icp_jinja_string *separator = icp_jinja_argument_string(run, call->bound[0], " ");
    icp_jinja_value parts =
        is_last ? icp_jinja_split_back(run, self, separator, 1) : icp_jinja_split(run, self, separator, 1);
    icp_jinja_value empty = icp_jinja_text(run, "", 0, true);
    icp_jinja_list *list = icp_jinja_list_new(run, 3);
    if (icp_jinja_is_failed(run)) return parts;
    bool is_found = parts.list->count == 2;
    if (!is_found && is_last) icp_jinja_list_add(run, list, empty);
    if (!is_found && is_last) icp_jinja_list_add(run, list, empty);
    icp_jinja_list_add(run, list, parts.list->items[0]);
    if (is_found) icp_jinja_list_add(run, list, icp_jinja_of_string(separator));
    if (is_found) icp_jinja_list_add(run, list, parts.list->items[1]);
    if (!is_found && !is_last) icp_jinja_list_add(run, list, empty);
    if (!is_found && !is_last) icp_jinja_list_add(run, list, empty);
    return icp_jinja_of_list(list, ICP_JINJA_TUPLE);
}

static icp_jinja_value string_partition(icp_jinja_run *run, const icp_jinja_call *call)
{
    return partition(run, call, false);
}

static icp_jinja_value string_rpartition(icp_jinja_run *run, const icp_jinja_call *call)
{
    return partition(run, call, true);
}

static bool has_affix(const icp_jinja_string *string, const icp_jinja_string *affix, bool is_end)
{
    if (affix->bytes > string->bytes) return false;
    const char *at = string->text + (is_end ? string->bytes - affix->bytes : 0);
    return affix->bytes == 0 || memcmp(at, affix->text, affix->bytes) == 0;
}

/* A string, or a tuple of them; a start in characters. */
static icp_jinja_value affix(icp_jinja_run *run, const icp_jinja_call *call, bool is_end)
{
    const icp_jinja_string *self = call->self.string;
    int64_t start = icp_jinja_argument_int(run, call->bound[1], 0);
    if (start < 0) start += icp_jinja_length(run, self);
    if (start > 0) self = icp_jinja_slice(run, self, icp_jinja_offset(run, self, start), self->bytes).string;
    if (call->bound[0].kind != ICP_JINJA_TUPLE) {
        return icp_jinja_bool(has_affix(self, icp_jinja_argument_string(run, call->bound[0], ""), is_end));
    }
    bool is_found = false;
    const icp_jinja_list *list = call->bound[0].list;
    for (size_t i = 0; i < list->count && !is_found && icp_jinja_step(run, 0); i++) {
        is_found = has_affix(self, icp_jinja_argument_string(run, list->items[i], ""), is_end);
    }
    return icp_jinja_bool(is_found);
}

static icp_jinja_value string_startswith(icp_jinja_run *run, const icp_jinja_call *call)
{
    return affix(run, call, false);
}

static icp_jinja_value string_endswith(icp_jinja_run *run, const icp_jinja_call *call)
{
    return affix(run, call, true);
}

static icp_jinja_value string_removeprefix(icp_jinja_run *run, const icp_jinja_call *call)
{
    const icp_jinja_string *self = call->self.string, *prefix = icp_jinja_argument_string(run, call->bound[0], "");
    return icp_jinja_slice(run, self, has_affix(self, prefix, false) ? prefix->bytes : 0, self->bytes);
}

static icp_jinja_value string_removesuffix(icp_jinja_run *run, const icp_jinja_call *call)
{
    const icp_jinja_string *self = call->self.string, *suffix = icp_jinja_argument_string(run, call->bound[0], "");
    return icp_jinja_slice(run, self, 0, self->bytes - (has_affix(self, suffix, true) ? suffix->bytes : 0));
}

static icp_jinja_value string_upper(icp_jinja_run *run, const icp_jinja_call *call)
{
    return icp_jinja_recase(run, call->self.string, ICP_JINJA_CASE_UPPER);
}

static icp_jinja_value string_lower(icp_jinja_run *run, const icp_jinja_call *call)
{
    return icp_jinja_recase(run, call->self.string, ICP_JINJA_CASE_LOWER);
}

static icp_jinja_value string_title(icp_jinja_run *run, const icp_jinja_call *call)
{
    return icp_jinja_recase(run, call->self.string, ICP_JINJA_CASE_TITLE);
}

static icp_jinja_value string_capitalize(icp_jinja_run *run, const icp_jinja_call *call)
{
    return icp_jinja_recase(run, call->self.string, ICP_JINJA_CASE_CAPITAL);
}

static icp_jinja_value string_replace(icp_jinja_run *run, const icp_jinja_call *call)
{
    const icp_jinja_string *old = icp_jinja_argument_string(run, call->bound[0], "");
    const icp_jinja_string *with = icp_jinja_argument_string(run, call->bound[1], "");
    int64_t count = icp_jinja_argument_int(run, call->bound[2], -1);
    return icp_jinja_is_failed(run) ? icp_jinja_undefined(NULL)
                                    : icp_jinja_replace(run, call->self.string, old, with, count);
}

/* From the start given in characters; -1: it is not there. */
static int64_t find(icp_jinja_run *run, const icp_jinja_call *call)
{
    const icp_jinja_string *self = call->self.string, *what = icp_jinja_argument_string(run, call->bound[0], "");
    int64_t start = icp_jinja_argument_int(run, call->bound[1], 0);
    if (start < 0) start += icp_jinja_length(run, self);
    if (!icp_jinja_step(run, self->bytes)) return -1;
    size_t found = icp_jinja_find(self, what, icp_jinja_offset(run, self, start));
    return found == SIZE_MAX ? -1 : icp_jinja_index(run, self, found);
}

static icp_jinja_value string_find(icp_jinja_run *run, const icp_jinja_call *call)
{
    return icp_jinja_int(find(run, call));
}

static icp_jinja_value string_index(icp_jinja_run *run, const icp_jinja_call *call)
{
    int64_t index = find(run, call);
    return index < 0 ? icp_jinja_fail(run, "substring not found") : icp_jinja_int(index);
}

static icp_jinja_value string_rfind(icp_jinja_run *run, const icp_jinja_call *call)
{
    const icp_jinja_string *self = call->self.string, *what = icp_jinja_argument_string(run, call->bound[0], "");
    if (what->bytes == 0) return icp_jinja_int(icp_jinja_length(run, self));
    icp_jinja_value parts = icp_jinja_split_back(run, self, what, 1);
    if (icp_jinja_is_failed(run) || parts.list->count < 2) return icp_jinja_int(-1);
    return icp_jinja_int(icp_jinja_length(run, parts.list->items[0].string));
}

static icp_jinja_value string_count(icp_jinja_run *run, const icp_jinja_call *call)
{
    const icp_jinja_string *self = call->self.string, *what = icp_jinja_argument_string(run, call->bound[0], "");
    if (what->bytes == 0) return icp_jinja_int(icp_jinja_length(run, self) + 1);
    int64_t count = 0;
    size_t at = 0;
    while (icp_jinja_charge(run, what->bytes) && (at = icp_jinja_find(self, what, at)) != SIZE_MAX) {
        at += what->bytes;
        count++;
    }
    icp_jinja_step(run, self->bytes);
    return icp_jinja_int(count);
}

static icp_jinja_value string_join(icp_jinja_run *run, const icp_jinja_call *call)
{
    const icp_jinja_list *list = icp_jinja_items(run, call->bound[0]);
    for (size_t i = 0; list != NULL && i < list->count; i++) {
        if (list->items[i].kind != ICP_JINJA_STRING) {
            return icp_jinja_fail(run, "sequence item %zu: expected str instance, %s found", i,
                                  icp_jinja_type_name(list->items[i]));
        }
    }
    return list == NULL ? icp_jinja_undefined(NULL) : icp_jinja_join(run, call->self.string, list);
}

static icp_jinja_value string_format(icp_jinja_run *run, const icp_jinja_call *call)
{
    return icp_jinja_format(run, call->self.string, call);
}

static icp_jinja_value string_zfill(icp_jinja_run *run, const icp_jinja_call *call)
{
    const icp_jinja_string *self = call->self.string;
    int64_t pad = icp_jinja_argument_int(run, call->bound[0], 0) - icp_jinja_length(run, self);
    icp_jinja_buffer *buffer = icp_jinja_buffer_new(run);
    size_t sign = self->bytes > 0 && (self->text[0] == '-' || self->text[0] == '+');
    if (buffer == NULL) return icp_jinja_undefined(NULL);
    icp_jinja_append_slice(run, buffer, self, 0, sign);
    for (int64_t i = 0; i < pad && icp_jinja_step(run, 0); i++) icp_jinja_append_data(run, buffer, "0");
    icp_jinja_append_slice(run, buffer, self, sign, self->bytes);
    return icp_jinja_buffer_string(run, buffer);
}

/* Every character is of one of the classes, and there is one. */
static icp_jinja_value is_all(icp_jinja_run *run, const icp_jinja_call *call, uint8_t classes)
{
    const icp_jinja_string *self = call->self.string;
    icp_jinja_step(run, self->bytes);
    for (size_t at = 0; at < self->bytes;) {
        icp_glyph glyph = icp_glyph_at((const uint8_t *)self->text, at, self->bytes);
        bool is_in = (glyph.class & classes) || (classes == ICP_UNICODE_SPACE && icp_jinja_is_space(glyph.code));
        if (!is_in) return icp_jinja_bool(false);
        at += glyph.bytes;
    }
    return icp_jinja_bool(self->bytes > 0);
}

static icp_jinja_value string_isdigit(icp_jinja_run *run, const icp_jinja_call *call)
{
    return is_all(run, call, ICP_UNICODE_NUMBER);
}

static icp_jinja_value string_isalpha(icp_jinja_run *run, const icp_jinja_call *call)
{
    return is_all(run, call, ICP_UNICODE_LETTER);
}

static icp_jinja_value string_isalnum(icp_jinja_run *run, const icp_jinja_call *call)
{
    return is_all(run, call, ICP_UNICODE_LETTER | ICP_UNICODE_NUMBER);
}

static icp_jinja_value string_isspace(icp_jinja_run *run, const icp_jinja_call *call)
{
    return is_all(run, call, ICP_UNICODE_SPACE);
}

static icp_jinja_value is_case(icp_jinja_run *run, const icp_jinja_call *call, const char *test)
{
    icp_jinja_call inner = {.self = call->self};
    icp_jinja_value name = icp_jinja_data(run, test);
    return icp_jinja_call_builtin(run, icp_jinja_test_find(name.string), &inner);
}

static icp_jinja_value string_isupper(icp_jinja_run *run, const icp_jinja_call *call)
{
    return is_case(run, call, "upper");
}

static icp_jinja_value string_islower(icp_jinja_run *run, const icp_jinja_call *call)
{
    return is_case(run, call, "lower");
}

static const icp_jinja_builtin string_methods[] = {
    {"strip", "chars", string_strip},
    {"lstrip", "chars", string_lstrip},
    {"rstrip", "chars", string_rstrip},
    {"split", "sep maxsplit", string_split},
    {"rsplit", "sep maxsplit", string_rsplit},
    {"splitlines", "keepends", string_splitlines},
    {"partition", "sep!", string_partition},
    {"rpartition", "sep!", string_rpartition},
    {"startswith", "prefix! start", string_startswith},
    {"endswith", "suffix! start", string_endswith},
    {"removeprefix", "prefix!", string_removeprefix},
    {"removesuffix", "suffix!", string_removesuffix},
    {"upper", "", string_upper},
    {"lower", "", string_lower},
    {"title", "", string_title},
    {"capitalize", "", string_capitalize},
    {"replace", "old! new! count", string_replace},
    {"find", "sub! start", string_find},
    {"rfind", "sub!", string_rfind},
    {"index", "sub! start", string_index},
    {"count", "sub!", string_count},
    {"join", "iterable!", string_join},
    {"format", NULL, string_format},
    {"zfill", "width!", string_zfill},
    {"isdigit", "", string_isdigit},
    {"isdecimal", "", string_isdigit},
    {"isnumeric", "", string_isdigit},
    {"isalpha", "", string_isalpha},
    {"isalnum", "", string_isalnum},
    {"isspace", "", string_isspace},
    {"isupper", "", string_isupper},
    {"islower", "", string_islower},
    {0},
};

/* ---- Dicts and lists ------------------------------------------------------------------------------------- */

static icp_jinja_value dict_get(icp_jinja_run *run, const icp_jinja_call *call)
{
    const icp_jinja_entry *entry = icp_jinja_dict_find(run, call->self.dict, call->bound[0]);
    if (entry != NULL) return entry->value;
    return call->bound[1].kind == ICP_JINJA_ABSENT ? icp_jinja_none() : call->bound[1];
}

static icp_jinja_value dict_keys(icp_jinja_run *run, const icp_jinja_call *call)
{
    return icp_jinja_of_list(icp_jinja_items(run, call->self), ICP_JINJA_LIST);
}

static icp_jinja_value dict_values(icp_jinja_run *run, const icp_jinja_call *call)
{
    const icp_jinja_dict *dict = call->self.dict;
    icp_jinja_list *list = icp_jinja_list_new(run, dict->count);
    for (size_t i = 0; list != NULL && i < dict->count; i++) icp_jinja_list_add(run, list, dict->entries[i].value);
    return icp_jinja_of_list(list, ICP_JINJA_LIST);
}

static icp_jinja_value dict_items(icp_jinja_run *run, const icp_jinja_call *call)
{
    const icp_jinja_dict *dict = call->self.dict;
    icp_jinja_list *list = icp_jinja_list_new(run, dict->count);
    for (size_t i = 0; list != NULL && i < dict->count && icp_jinja_step(run, 0); i++) {
        icp_jinja_list_add(run, list, icp_jinja_pair(run, dict->entries[i].key, dict->entries[i].value));
    }
    return icp_jinja_of_list(list, ICP_JINJA_LIST);
}

static icp_jinja_value copy(icp_jinja_run *run, const icp_jinja_call *call)
{
    (void)run;
    return call->self; /* nothing changes it */
}

static icp_jinja_value list_index(icp_jinja_run *run, const icp_jinja_call *call)
{
    const icp_jinja_list *list = call->self.list;
    for (size_t i = 0; i < list->count && icp_jinja_step(run, 0); i++) {
        if (icp_jinja_equal(run, list->items[i], call->bound[0])) return icp_jinja_int((int64_t)i);
    }
    return icp_jinja_fail(run, "the value is not in the list");
}

static icp_jinja_value list_count(icp_jinja_run *run, const icp_jinja_call *call)
{
    const icp_jinja_list *list = call->self.list;
    int64_t count = 0;
    for (size_t i = 0; i < list->count && icp_jinja_step(run, 0); i++) {
        count += icp_jinja_equal(run, list->items[i], call->bound[0]);
    }
    return icp_jinja_int(count);
}

static icp_jinja_value refused(icp_jinja_run *run, const icp_jinja_call *call)
{
    return icp_jinja_fail(run, "a method that changes a %s is not safely callable", icp_jinja_type_name(call->self));
}

static const icp_jinja_builtin dict_methods[] = {
    {"get", "key! default", dict_get},
    {"keys", "", dict_keys},
    {"values", "", dict_values},
    {"items", "", dict_items},
    {"copy", "", copy},
    {"update", NULL, refused},
    {"pop", NULL, refused},
    {"popitem", NULL, refused},
    {"clear", NULL, refused},
    {"setdefault", NULL, refused},
    {0},
};

static const icp_jinja_builtin list_methods[] = {
    {"index", "value!", list_index}, {"count", "value!", list_count}, {"copy", "", copy},
    {"append", NULL, refused},       {"extend", NULL, refused},       {"insert", NULL, refused},
    {"pop", NULL, refused},          {"remove", NULL, refused},       {"reverse", NULL, refused},
    {"sort", NULL, refused},         {"clear", NULL, refused},        {0},
};

static const icp_jinja_builtin *methods_of(icp_jinja_kind kind)
{
    switch (kind) {
    case ICP_JINJA_STRING:
        return string_methods;
    case ICP_JINJA_DICT:
        return dict_methods;
    case ICP_JINJA_LIST:
    case ICP_JINJA_TUPLE:
        return list_methods;
    default:
        return NULL;
    }
}

icp_jinja_value icp_jinja_method_of(icp_jinja_run *run, icp_jinja_value value, const icp_jinja_string *name)
{
    const icp_jinja_builtin *table = methods_of(value.kind);
    const icp_jinja_builtin *method = table == NULL ? NULL : icp_jinja_builtin_find(table, name);
    icp_jinja_function *function = method == NULL ? NULL : icp_jinja_take(run, sizeof(*function));
    if (function == NULL) return (icp_jinja_value){.kind = ICP_JINJA_ABSENT};
    *function = (icp_jinja_function){.builtin = method, .self = value};
    return (icp_jinja_value){.kind = ICP_JINJA_FUNCTION, .function = function};
}
