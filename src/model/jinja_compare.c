/* jinja_compare.c - what can be asked of values: truth, equality, order, membership, items and attributes.
 *
 * Python's rules: numbers and booleans compare by value, other kinds are equal only among themselves, and ordering two
 * kinds is an error. Nested values are walked a level at a time under the depth limit of the run. */
#define _GNU_SOURCE /* memmem, which is linear */
#include "model/jinja_value.h"

#include "model/jinja_eval.h"
#include "model/unicode.h"

#include <stdio.h>
#include <string.h>

bool icp_jinja_is_text(const icp_jinja_string *string, const char *text)
{
    size_t bytes = strlen(text);
    return string->bytes == bytes && memcmp(string->text, text, bytes) == 0;
}

const char *icp_jinja_type_name(icp_jinja_value value)
{
    switch (value.kind) {
    case ICP_JINJA_NONE:
        return "NoneType";
    case ICP_JINJA_BOOL:
        return "bool";
    case ICP_JINJA_INT:
        return "int";
    case ICP_JINJA_FLOAT:
        return "float";
    case ICP_JINJA_STRING:
        return "str";
    case ICP_JINJA_LIST:
        return "list";
    case ICP_JINJA_TUPLE:
        return "tuple";
    case ICP_JINJA_GENERATOR:
        return "generator";
    case ICP_JINJA_DICT:
        return "dict";
    case ICP_JINJA_NAMESPACE:
        return "Namespace";
    case ICP_JINJA_LOOP:
        return "LoopContext";
    case ICP_JINJA_MACRO:
        return "Macro";
    case ICP_JINJA_FUNCTION:
        return "function";
    default:
        return "Undefined";
    }
}

bool icp_jinja_is_true(icp_jinja_value value)
{
    switch (value.kind) {
    case ICP_JINJA_ABSENT:
    case ICP_JINJA_UNDEFINED:
    case ICP_JINJA_NONE:
        return false;
    case ICP_JINJA_BOOL:
        return value.boolean;
    case ICP_JINJA_INT:
        return value.integer != 0;
    case ICP_JINJA_FLOAT:
        return value.number != 0;
    case ICP_JINJA_STRING:
        return value.string->bytes > 0;
    case ICP_JINJA_LIST:
    case ICP_JINJA_TUPLE:
        return value.list->count > 0;
    case ICP_JINJA_DICT:
        return value.dict->count > 0;
    default:
        return true;
    }
}

bool icp_jinja_is_number(icp_jinja_value value)
{
    return value.kind == ICP_JINJA_BOOL || value.kind == ICP_JINJA_INT || value.kind == ICP_JINJA_FLOAT;
}

double icp_jinja_number_of(icp_jinja_value value)
{
    if (value.kind == ICP_JINJA_FLOAT) return value.number;
    return (double)icp_jinja_integer_of(value);
}

int64_t icp_jinja_integer_of(icp_jinja_value value)
{
    return value.kind == ICP_JINJA_BOOL ? value.boolean : value.integer;
}

/* ---- Equality and order ---------------------------------------------------------------------------------- */

static bool is_list(icp_jinja_value value)
{
    return value.kind == ICP_JINJA_LIST || value.kind == ICP_JINJA_TUPLE;
}

static bool equal_lists(icp_jinja_run *run, const icp_jinja_list *left, const icp_jinja_list *right)
{
    if (left->count != right->count || !icp_jinja_enter(run)) return false;
    bool is_equal = true;
    for (size_t i = 0; i < left->count && is_equal; i++) {
        is_equal = icp_jinja_step(run, 0) && icp_jinja_equal(run, left->items[i], right->items[i]);
    }
    icp_jinja_leave(run);
    return is_equal;
}

static bool equal_dicts(icp_jinja_run *run, const icp_jinja_dict *left, const icp_jinja_dict *right)
{
    if (left->count != right->count || !icp_jinja_enter(run)) return false;
    bool is_equal = true;
    for (size_t i = 0; i < left->count && is_equal; i++) {
        const icp_jinja_entry *entry = icp_jinja_dict_find(run, right, left->entries[i].key);
        is_equal =
            entry != NULL && icp_jinja_step(run, 0) && icp_jinja_equal(run, left->entries[i].value, entry->value);
    }
    icp_jinja_leave(run);
    return is_equal;
}

static int compare_numbers(icp_jinja_value left, icp_jinja_value right)
{
    if (left.kind != ICP_JINJA_FLOAT && right.kind != ICP_JINJA_FLOAT) {
        int64_t l = icp_jinja_integer_of(left), r = icp_jinja_integer_of(right);
        return (l > r) - (l < r);
    }
    double l = icp_jinja_number_of(left), r = icp_jinja_number_of(right);
    return (l > r) - (l < r);
}

bool icp_jinja_equal(icp_jinja_run *run, icp_jinja_value left, icp_jinja_value right)
{
    if (icp_jinja_is_failed(run)) return false;
    if (icp_jinja_is_number(left) && icp_jinja_is_number(right)) {
        bool is_nan = icp_jinja_number_of(left) != icp_jinja_number_of(left) ||
                      icp_jinja_number_of(right) != icp_jinja_number_of(right);
        return !is_nan && compare_numbers(left, right) == 0;
    }
    if (left.kind != right.kind) return false;
    switch (left.kind) {
    case ICP_JINJA_STRING:
        run->byte_count += left.string->bytes;
        return left.string->bytes == right.string->bytes &&
               memcmp(left.string->text, right.string->text, left.string->bytes) == 0;
    case ICP_JINJA_LIST:
    case ICP_JINJA_TUPLE:
        return equal_lists(run, left.list, right.list);
    case ICP_JINJA_DICT:
        return equal_dicts(run, left.dict, right.dict);
    case ICP_JINJA_GENERATOR:
        return left.list == right.list;
    case ICP_JINJA_NAMESPACE:
        return left.dict == right.dict;
    case ICP_JINJA_MACRO:
        return left.macro == right.macro;
    case ICP_JINJA_FUNCTION:
        return left.function == right.function;
    case ICP_JINJA_LOOP:
        return left.loop == right.loop;
    default: /* none and undefined */
        return true;
    }
}

static int compare_strings(const icp_jinja_string *left, const icp_jinja_string *right)
{
    size_t bytes = left->bytes < right->bytes ? left->bytes : right->bytes;
    int order = bytes > 0 ? memcmp(left->text, right->text, bytes) : 0; /* UTF-8 sorts as its code points */
    return order != 0 ? order : (left->bytes > right->bytes) - (left->bytes < right->bytes);
}

static int compare_lists(icp_jinja_run *run, const icp_jinja_list *left, const icp_jinja_list *right)
{
    int order = 0;
    if (!icp_jinja_enter(run)) return 0;
    size_t count = left->count < right->count ? left->count : right->count;
    for (size_t i = 0; i < count && order == 0 && icp_jinja_step(run, 0); i++) {
        if (!icp_jinja_equal(run, left->items[i], right->items[i])) {
            order = icp_jinja_compare(run, left->items[i], right->items[i]);
            break;
        }
    }
    icp_jinja_leave(run);
    return order != 0 ? order : (left->count > right->count) - (left->count < right->count);
}

int icp_jinja_compare(icp_jinja_run *run, icp_jinja_value left, icp_jinja_value right)
{
    if (icp_jinja_is_failed(run)) return 0;
    if (icp_jinja_is_number(left) && icp_jinja_is_number(right)) return compare_numbers(left, right);
    if (left.kind == ICP_JINJA_STRING && right.kind == ICP_JINJA_STRING) {
        run->byte_count += left.string->bytes;
        return compare_strings(left.string, right.string);
    }
    if (is_list(left) && left.kind == right.kind) return compare_lists(run, left.list, right.list);
    if (left.kind == ICP_JINJA_UNDEFINED) icp_jinja_fail_undefined(run, left);
    if (right.kind == ICP_JINJA_UNDEFINED) icp_jinja_fail_undefined(run, right);
    icp_jinja_fail(run, "'%s' and '%s' cannot be ordered", icp_jinja_type_name(left), icp_jinja_type_name(right));
    return 0;
}

/* ---- Membership and items -------------------------------------------------------------------------------- */

size_t icp_jinja_find(const icp_jinja_string *in, const icp_jinja_string *what, size_t from)
{
    if (from > in->bytes || what->bytes > in->bytes - from) return SIZE_MAX;
    if (what->bytes == 0) return from;
    const char *at = memmem(in->text + from, in->bytes - from, what->text, what->bytes);
    return at == NULL ? SIZE_MAX : (size_t)(at - in->text);
}

bool icp_jinja_contains(icp_jinja_run *run, icp_jinja_value container, icp_jinja_value item)
{
    switch (container.kind) {
    case ICP_JINJA_STRING:
        if (item.kind == ICP_JINJA_UNDEFINED) icp_jinja_fail_undefined(run, item);
        if (item.kind != ICP_JINJA_STRING) {
            icp_jinja_fail(run, "'in <string>' requires string as left operand, not %s", icp_jinja_type_name(item));
            return false;
        }
        run->byte_count += container.string->bytes;
        return icp_jinja_find(container.string, item.string, 0) != SIZE_MAX;
    case ICP_JINJA_DICT:
        return icp_jinja_dict_find(run, container.dict, item) != NULL;
    case ICP_JINJA_LIST:
    case ICP_JINJA_TUPLE:
    case ICP_JINJA_GENERATOR:
        for (size_t i = 0; i < container.list->count && icp_jinja_step(run, 0); i++) {
            if (icp_jinja_equal(run, container.list->items[i], item)) return true;
        }
        return false;
    case ICP_JINJA_UNDEFINED:
        return false;
    default:
        icp_jinja_fail(run, "argument of type '%s' is not iterable", icp_jinja_type_name(container));
        return false;
    }
}

static const icp_jinja_list *characters(icp_jinja_run *run, const icp_jinja_string *string)
{
    icp_jinja_list *list = icp_jinja_list_new(run, 0);
    for (size_t at = 0; list != NULL && at < string->bytes && icp_jinja_step(run, 0);) {
        uint32_t code = 0;
        size_t next = at + icp_utf8_decode((const uint8_t *)string->text + at, string->bytes - at, &code);
        icp_jinja_list_add(run, list, icp_jinja_slice(run, string, at, next));
        at = next;
    }
    return list;
}

static const icp_jinja_list *keys(icp_jinja_run *run, const icp_jinja_dict *dict)
{
    icp_jinja_list *list = icp_jinja_list_new(run, dict->count);
    if (list == NULL) return NULL;
    for (size_t i = 0; i < dict->count; i++) icp_jinja_list_add(run, list, dict->entries[i].key);
    return list;
}

const icp_jinja_list *icp_jinja_items(icp_jinja_run *run, icp_jinja_value value)
{
    if (icp_jinja_is_failed(run)) return NULL;
    switch (value.kind) {
    case ICP_JINJA_LIST:
    case ICP_JINJA_TUPLE:
    case ICP_JINJA_GENERATOR:
        return value.list;
    case ICP_JINJA_STRING:
        return characters(run, value.string);
    case ICP_JINJA_DICT:
        return keys(run, value.dict);
    case ICP_JINJA_UNDEFINED:
        return icp_jinja_list_new(run, 0);
    default:
        icp_jinja_fail(run, "'%s' object is not iterable", icp_jinja_type_name(value));
        return NULL;
    }
}

/* ---- Attributes and items -------------------------------------------------------------------------------- */

icp_jinja_value icp_jinja_fail_undefined(icp_jinja_run *run, icp_jinja_value undefined)
{
    const icp_jinja_string *what = undefined.string;
    if (what == NULL) return icp_jinja_fail(run, "a value is undefined");
    return icp_jinja_fail(run, "%.*s", (int)(what->bytes < 150 ? what->bytes : 150), what->text);
}

static icp_jinja_value missing(icp_jinja_run *run, icp_jinja_value of, icp_jinja_value key)
{
    char text[160];
    if (key.kind == ICP_JINJA_STRING) {
        int bytes = (int)(key.string->bytes < 80 ? key.string->bytes : 80);
        snprintf(text, sizeof(text),
                 of.kind == ICP_JINJA_NONE ? "'%s' has no attribute '%.*s'" : "'%s object' has no attribute '%.*s'",
                 of.kind == ICP_JINJA_NONE ? "None" : icp_jinja_type_name(of), bytes, key.string->text);
    } else {
        snprintf(text, sizeof(text), "'%s object' has no such element", icp_jinja_type_name(of));
    }
    return icp_jinja_undefined(icp_jinja_data(run, text).string);
}

static icp_jinja_value character_at(icp_jinja_run *run, const icp_jinja_string *string, int64_t index)
{
    int64_t count = icp_jinja_length(run, string);
    if (index < 0) index += count;
    if (index < 0 || index >= count) return icp_jinja_undefined(NULL);
    size_t start = icp_jinja_offset(run, string, index);
    return icp_jinja_slice(run, string, start, icp_jinja_offset(run, string, index + 1));
}

/* x[key], without the attributes. ABSENT: there is no such item. */
static icp_jinja_value subscript(icp_jinja_run *run, icp_jinja_value value, icp_jinja_value key)
{
    const icp_jinja_entry *entry = NULL;
    int64_t index = 0;
    switch (value.kind) {
    case ICP_JINJA_DICT:
        if (key.kind == ICP_JINJA_LIST || key.kind == ICP_JINJA_DICT) break;
        entry = icp_jinja_dict_find(run, value.dict, key);
        if (entry != NULL) return entry->value;
        break;
    case ICP_JINJA_LIST:
    case ICP_JINJA_TUPLE:
        if (key.kind != ICP_JINJA_INT && key.kind != ICP_JINJA_BOOL) break;
        index = icp_jinja_integer_of(key);
        if (index < 0) index += (int64_t)value.list->count;
        if (index >= 0 && index < (int64_t)value.list->count) return value.list->items[index];
        break;
    case ICP_JINJA_STRING:
        if (key.kind != ICP_JINJA_INT && key.kind != ICP_JINJA_BOOL) break;
        {
            icp_jinja_value character = character_at(run, value.string, icp_jinja_integer_of(key));
            if (character.kind == ICP_JINJA_STRING) return character;
        }
        break;
    default:
        break;
    }
    return (icp_jinja_value){.kind = ICP_JINJA_ABSENT};
}

/* Attributes that are not items: methods, fields of a namespace and of loop. ABSENT: there is none. */
static icp_jinja_value field(icp_jinja_run *run, icp_jinja_value value, const icp_jinja_string *name)
{
    if (value.kind == ICP_JINJA_NAMESPACE) {
        const icp_jinja_entry *entry = icp_jinja_dict_find(run, value.dict, icp_jinja_of_string(name));
        if (entry != NULL) return entry->value;
        return (icp_jinja_value){.kind = ICP_JINJA_ABSENT};
    }
    if (value.kind == ICP_JINJA_LOOP) return icp_jinja_loop_field(run, value.loop, name);
    return icp_jinja_method_of(run, value, name);
}

icp_jinja_value icp_jinja_get_item(icp_jinja_run *run, icp_jinja_value value, icp_jinja_value key)
{
    if (value.kind == ICP_JINJA_UNDEFINED) return icp_jinja_fail_undefined(run, value);
    icp_jinja_value found = subscript(run, value, key);
    if (found.kind == ICP_JINJA_ABSENT && key.kind == ICP_JINJA_STRING) found = field(run, value, key.string);
    return found.kind != ICP_JINJA_ABSENT ? found : missing(run, value, key);
}

icp_jinja_value icp_jinja_get_attribute(icp_jinja_run *run, icp_jinja_value value, const icp_jinja_string *name)
{
    if (value.kind == ICP_JINJA_UNDEFINED) return icp_jinja_fail_undefined(run, value);
    icp_jinja_value found = field(run, value, name);
    if (found.kind == ICP_JINJA_ABSENT) found = subscript(run, value, icp_jinja_of_string(name));
    return found.kind != ICP_JINJA_ABSENT ? found : missing(run, value, icp_jinja_of_string(name));
}
