/* jinja_sequence.c - filters on lists, dicts and whatever else can be walked: length, join, map, select, sort and so
 * on.
 *
 * Sorting is a merge sort: stable, n log n, and each comparison counts as a step. */
#include "model/jinja_eval.h"

#include <string.h>

/* ---- Attributes by path ---------------------------------------------------------------------------------- */

/* item.a.b.0 for the path "a.b.0"; the item itself for no path. */
static icp_jinja_value attribute_of(icp_jinja_run *run, icp_jinja_value item, icp_jinja_value path)
{
    static const icp_jinja_string dot = {.text = ".", .bytes = 1};
    if (path.kind == ICP_JINJA_ABSENT || path.kind == ICP_JINJA_NONE) return item;
    if (path.kind != ICP_JINJA_STRING) return icp_jinja_get_item(run, item, path);
    icp_jinja_value parts = icp_jinja_split(run, path.string, &dot, -1);
    for (size_t i = 0; !icp_jinja_is_failed(run) && i < parts.list->count; i++) {
        const icp_jinja_string *part = parts.list->items[i].string;
        int64_t index = 0;
        bool is_index = part->bytes > 0 && part->bytes < 10;
        for (size_t j = 0; j < part->bytes && is_index; j++) {
            is_index = part->text[j] >= '0' && part->text[j] <= '9';
            index = index * 10 + (part->text[j] - '0');
        }
        item = icp_jinja_get_item(run, item, is_index ? icp_jinja_int(index) : parts.list->items[i]);
    }
    return item;
}

/* What is compared: the attribute, in lower case where case does not count. */
static icp_jinja_value sort_key(icp_jinja_run *run, icp_jinja_value item, icp_jinja_value path, bool is_case_kept)
{
    icp_jinja_value key = attribute_of(run, item, path);
    if (is_case_kept || key.kind != ICP_JINJA_STRING || icp_jinja_is_failed(run)) return key;
    return icp_jinja_recase(run, key.string, ICP_JINJA_CASE_LOWER);
}

/* ---- Sorting --------------------------------------------------------------------------------------------- */

typedef struct sort_item {
    icp_jinja_value key, value;
} sort_item;

static void merge(icp_jinja_run *run, sort_item *items, sort_item *spare, size_t count, bool is_reverse)
{
    if (count < 2 || icp_jinja_is_failed(run)) return;
    size_t half = count / 2, left = 0, right = half, out = 0;
    merge(run, items, spare, half, is_reverse);
    merge(run, items + half, spare, count - half, is_reverse);
    while (left < half && right < count && icp_jinja_step(run, 0)) {
        int order = icp_jinja_compare(run, items[left].key, items[right].key);
        bool is_right = is_reverse ? order < 0 : order > 0;
        spare[out++] = items[is_right ? right++ : left++];
    }
    if (icp_jinja_is_failed(run)) return;
    while (left < half) spare[out++] = items[left++];
    memcpy(items, spare, out * sizeof(*items));
}

typedef struct sort_order {
    icp_jinja_value path;
    bool is_case_kept;
    bool is_reverse;
} sort_order;

static icp_jinja_value sort_list(icp_jinja_run *run, const icp_jinja_list *list, sort_order order)
{
    icp_jinja_list *sorted = icp_jinja_list_new(run, list->count);
    sort_item *items = icp_jinja_take(run, 2 * (list->count + 1) * sizeof(*items));
    if (sorted == NULL || items == NULL) return icp_jinja_undefined(NULL);
    for (size_t i = 0; i < list->count && !icp_jinja_is_failed(run); i++) {
        items[i] = (sort_item){sort_key(run, list->items[i], order.path, order.is_case_kept), list->items[i]};
    }
    merge(run, items, items + list->count, list->count, order.is_reverse);
    if (icp_jinja_is_failed(run)) return icp_jinja_undefined(NULL);
    for (size_t i = 0; i < list->count; i++) icp_jinja_list_add(run, sorted, items[i].value);
    return icp_jinja_of_list(sorted, ICP_JINJA_LIST);
}

static icp_jinja_value filter_sort(icp_jinja_run *run, const icp_jinja_call *call)
{
    const icp_jinja_list *list = icp_jinja_items(run, call->self);
    sort_order order = {call->bound[2], icp_jinja_argument_bool(call->bound[1], false),
                        icp_jinja_argument_bool(call->bound[0], false)};
    return list == NULL ? icp_jinja_undefined(NULL) : sort_list(run, list, order);
}

static icp_jinja_value pairs_of(icp_jinja_run *run, const icp_jinja_dict *dict)
{
    icp_jinja_list *list = icp_jinja_list_new(run, dict->count);
    for (size_t i = 0; i < dict->count && list != NULL && icp_jinja_step(run, 0); i++) {
        icp_jinja_list_add(run, list, icp_jinja_pair(run, dict->entries[i].key, dict->entries[i].value));
    }
    return icp_jinja_of_list(list, ICP_JINJA_LIST);
}

static icp_jinja_value filter_dictsort(icp_jinja_run *run, const icp_jinja_call *call)
{
    if (call->self.kind != ICP_JINJA_DICT) return icp_jinja_fail(run, "dictsort: the value is not a mapping");
    const icp_jinja_string *by = icp_jinja_argument_string(run, call->bound[1], "key");
    bool is_value = icp_jinja_is_text(by, "value");
    if (!is_value && !icp_jinja_is_text(by, "key")) {
        return icp_jinja_fail(run, "You can only sort by either \"key\" or \"value\"");
    }
    sort_order order = {icp_jinja_int(is_value), icp_jinja_argument_bool(call->bound[0], false),
                        icp_jinja_argument_bool(call->bound[2], false)};
    icp_jinja_value pairs = pairs_of(run, call->self.dict);
    return icp_jinja_is_failed(run) ? pairs : sort_list(run, pairs.list, order);
}

/* ---- Taking apart ---------------------------------------------------------------------------------------- */

static icp_jinja_value filter_items(icp_jinja_run *run, const icp_jinja_call *call)
{
    icp_jinja_value value = call->self;
    if (value.kind == ICP_JINJA_UNDEFINED) return icp_jinja_of_list(icp_jinja_list_new(run, 0), ICP_JINJA_GENERATOR);
    if (value.kind != ICP_JINJA_DICT) return icp_jinja_fail(run, "Can only get item pairs from a mapping.");
    value = pairs_of(run, value.dict);
    value.kind = ICP_JINJA_GENERATOR;
    return value;
}

static icp_jinja_value filter_length(icp_jinja_run *run, const icp_jinja_call *call)
{
    icp_jinja_value value = call->self;
    switch (value.kind) {
    case ICP_JINJA_STRING:
        return icp_jinja_int(icp_jinja_length(run, value.string));
    case ICP_JINJA_LIST:
    case ICP_JINJA_TUPLE:
        return icp_jinja_int((int64_t)value.list->count);
    case ICP_JINJA_DICT:
        return icp_jinja_int((int64_t)value.dict->count);
    case ICP_JINJA_UNDEFINED:
        return icp_jinja_int(0);
    default:
        return icp_jinja_fail(run, "object of type '%s' has no len()", icp_jinja_type_name(value));
    }
}

static icp_jinja_value end_of(icp_jinja_run *run, icp_jinja_value value, bool is_last)
{
    const icp_jinja_list *list = icp_jinja_items(run, value);
    if (list == NULL) return icp_jinja_undefined(NULL);
    if (list->count > 0) return list->items[is_last ? list->count - 1 : 0];
    return icp_jinja_undefined(icp_jinja_data(run, "the sequence is empty, it has no such item").string);
}

static icp_jinja_value filter_first(icp_jinja_run *run, const icp_jinja_call *call)
{
    return end_of(run, call->self, false);
}

static icp_jinja_value filter_last(icp_jinja_run *run, const icp_jinja_call *call)
{
    return end_of(run, call->self, true);
}

static icp_jinja_value filter_list(icp_jinja_run *run, const icp_jinja_call *call)
{
    return icp_jinja_of_list(icp_jinja_items(run, call->self), ICP_JINJA_LIST);
}

static icp_jinja_value filter_reverse(icp_jinja_run *run, const icp_jinja_call *call)
{
    icp_jinja_value bounds[3] = {{.kind = ICP_JINJA_ABSENT}, {.kind = ICP_JINJA_ABSENT}, icp_jinja_int(-1)};
    if (call->self.kind == ICP_JINJA_STRING) return icp_jinja_cut(run, call->self, bounds);
    const icp_jinja_list *list = icp_jinja_items(run, call->self);
    if (list == NULL) return icp_jinja_undefined(NULL);
    icp_jinja_value turned = icp_jinja_cut(run, icp_jinja_of_list(list, ICP_JINJA_LIST), bounds);
    if (turned.kind == ICP_JINJA_LIST) turned.kind = ICP_JINJA_GENERATOR;
    return turned;
}

static icp_jinja_value filter_batch(icp_jinja_run *run, const icp_jinja_call *call)
{
    const icp_jinja_list *list = icp_jinja_items(run, call->self);
    int64_t count = icp_jinja_argument_int(run, call->bound[0], 1);
    icp_jinja_list *batches = icp_jinja_list_new(run, 0), *batch = NULL;
    if (count < 1) return icp_jinja_fail(run, "batch: a size of at least 1 is wanted");
    for (size_t i = 0; list != NULL && i < list->count && icp_jinja_step(run, 0); i++) {
        if (batch == NULL || batch->count == (size_t)count) {
            batch = icp_jinja_list_new(run, 0);
            icp_jinja_list_add(run, batches, icp_jinja_of_list(batch, ICP_JINJA_LIST));
        }
        if (batch != NULL) icp_jinja_list_add(run, batch, list->items[i]);
    }
    bool is_filled = call->bound[1].kind != ICP_JINJA_ABSENT && call->bound[1].kind != ICP_JINJA_NONE;
    while (is_filled && batch != NULL && batch->count < (size_t)count && icp_jinja_step(run, 0)) {
        icp_jinja_list_add(run, batch, call->bound[1]);
    }
    return icp_jinja_of_list(icp_jinja_is_failed(run) ? NULL : batches, ICP_JINJA_GENERATOR);
}

/* ---- Putting together ------------------------------------------------------------------------------------ */

static icp_jinja_value filter_join(icp_jinja_run *run, const icp_jinja_call *call)
{
    const icp_jinja_list *list = icp_jinja_items(run, call->self);
    const icp_jinja_string *separator = icp_jinja_text(run, "", 0, true).string;
    if (list == NULL) return icp_jinja_undefined(NULL);
    if (call->bound[0].kind != ICP_JINJA_ABSENT) separator = icp_jinja_string_of(run, call->bound[0]);
    if (call->bound[1].kind == ICP_JINJA_ABSENT) return icp_jinja_join(run, separator, list);
    icp_jinja_list *parts = icp_jinja_list_new(run, list->count);
    for (size_t i = 0; i < list->count && parts != NULL && !icp_jinja_is_failed(run); i++) {
        icp_jinja_list_add(run, parts, attribute_of(run, list->items[i], call->bound[1]));
    }
    return parts == NULL ? icp_jinja_undefined(NULL) : icp_jinja_join(run, separator, parts);
}

static icp_jinja_value filter_sum(icp_jinja_run *run, const icp_jinja_call *call)
{
    const icp_jinja_list *list = icp_jinja_items(run, call->self);
    icp_jinja_value sum = call->bound[1].kind == ICP_JINJA_ABSENT ? icp_jinja_int(0) : call->bound[1];
    if (sum.kind == ICP_JINJA_STRING) return icp_jinja_fail(run, "sum() can't sum strings");
    for (size_t i = 0; list != NULL && i < list->count && icp_jinja_step(run, 0); i++) {
        sum = icp_jinja_binary(run, ICP_OP_ADD, sum, attribute_of(run, list->items[i], call->bound[0]));
    }
    return sum;
}

static icp_jinja_value extreme(icp_jinja_run *run, const icp_jinja_call *call, int sign)
{
    const icp_jinja_list *list = icp_jinja_items(run, call->self);
    bool is_case_kept = icp_jinja_argument_bool(call->bound[0], false);
    if (list == NULL) return icp_jinja_undefined(NULL);
    if (list->count == 0) return icp_jinja_undefined(icp_jinja_data(run, "the sequence is empty").string);
    icp_jinja_value best = list->items[0], best_key = sort_key(run, best, call->bound[1], is_case_kept);
    for (size_t i = 1; i < list->count && icp_jinja_step(run, 0); i++) {
        icp_jinja_value key = sort_key(run, list->items[i], call->bound[1], is_case_kept);
        if (icp_jinja_compare(run, key, best_key) * sign <= 0) continue;
        best = list->items[i];
        best_key = key;
    }
    return best;
}

static icp_jinja_value filter_max(icp_jinja_run *run, const icp_jinja_call *call)
{
    return extreme(run, call, 1);
}

static icp_jinja_value filter_min(icp_jinja_run *run, const icp_jinja_call *call)
{
    return extreme(run, call, -1);
}

static icp_jinja_value filter_unique(icp_jinja_run *run, const icp_jinja_call *call)
{
    const icp_jinja_list *list = icp_jinja_items(run, call->self);
    icp_jinja_list *unique = icp_jinja_list_new(run, 0);
    icp_jinja_dict *seen = icp_jinja_dict_new(run);
    bool is_case_kept = icp_jinja_argument_bool(call->bound[0], false);
    for (size_t i = 0; list != NULL && i < list->count && icp_jinja_step(run, 0); i++) {
        icp_jinja_value key = sort_key(run, list->items[i], call->bound[1], is_case_kept);
        if (icp_jinja_dict_find(run, seen, key) != NULL) continue;
        icp_jinja_dict_set(run, seen, key, icp_jinja_none());
        icp_jinja_list_add(run, unique, list->items[i]);
    }
    return icp_jinja_of_list(icp_jinja_is_failed(run) ? NULL : unique, ICP_JINJA_GENERATOR);
}

static icp_jinja_value filter_groupby(icp_jinja_run *run, const icp_jinja_call *call)
{
    sort_order order = {call->bound[0], icp_jinja_argument_bool(call->bound[2], false), false};
    const icp_jinja_list *list = icp_jinja_items(run, call->self);
    if (list == NULL) return icp_jinja_undefined(NULL);
    icp_jinja_value sorted = sort_list(run, list, order), before = {.kind = ICP_JINJA_ABSENT};
    icp_jinja_list *groups = icp_jinja_list_new(run, 0), *group = NULL;
    for (size_t i = 0; !icp_jinja_is_failed(run) && i < sorted.list->count; i++) {
        icp_jinja_value item = sorted.list->items[i], key = sort_key(run, item, order.path, order.is_case_kept);
        if (group == NULL || !icp_jinja_equal(run, key, before)) {
            group = icp_jinja_list_new(run, 0);
            icp_jinja_value grouper = attribute_of(run, item, order.path);
            icp_jinja_list_add(run, groups, icp_jinja_pair(run, grouper, icp_jinja_of_list(group, ICP_JINJA_LIST)));
            before = key;
        }
        if (group != NULL) icp_jinja_list_add(run, group, item);
    }
    return icp_jinja_of_list(icp_jinja_is_failed(run) ? NULL : groups, ICP_JINJA_LIST);
}

/* ---- map and select -------------------------------------------------------------------------------------- */

static icp_jinja_value named_argument(const icp_jinja_call *call, const char *name)
{
    for (size_t i = 0; i < call->named_count; i++) {
        if (icp_jinja_is_text(call->named[i].key.string, name)) return call->named[i].value;
    }
    return (icp_jinja_value){.kind = ICP_JINJA_ABSENT};
}

/* map(attribute="a", default=x), or map("filter", arguments...). */
static icp_jinja_value map_one(icp_jinja_run *run, const icp_jinja_call *call, icp_jinja_value item)
{
    if (call->argument_count == 0) {
        icp_jinja_value path = named_argument(call, "attribute"), otherwise = named_argument(call, "default");
        if (path.kind == ICP_JINJA_ABSENT) return icp_jinja_fail(run, "map requires a filter argument");
        icp_jinja_value value = attribute_of(run, item, path);
        bool is_missing = value.kind == ICP_JINJA_UNDEFINED && otherwise.kind != ICP_JINJA_ABSENT;
        return is_missing ? otherwise : value;
    }
    const icp_jinja_string *name = icp_jinja_argument_string(run, call->arguments[0], "");
    const icp_jinja_builtin *filter = icp_jinja_filter_find(name);
    if (filter == NULL) {
        return icp_jinja_fail(run, "there is no filter named '%.*s'", (int)(name->bytes < 80 ? name->bytes : 80),
                              name->text);
    }
    icp_jinja_call inner = *call;
    inner.self = item;
    inner.arguments++;
    inner.argument_count--;
    return icp_jinja_call_builtin(run, filter, &inner);
}

/* map and the selects take whatever is false, none too, for nothing. */
static const icp_jinja_list *items_or_none(icp_jinja_run *run, icp_jinja_value value)
{
    return icp_jinja_is_true(value) ? icp_jinja_items(run, value) : icp_jinja_list_new(run, 0);
}

static icp_jinja_value filter_map(icp_jinja_run *run, const icp_jinja_call *call)
{
    const icp_jinja_list *list = items_or_none(run, call->self);
    icp_jinja_list *mapped = icp_jinja_list_new(run, 0);
    for (size_t i = 0; list != NULL && mapped != NULL && i < list->count && icp_jinja_step(run, 0); i++) {
        icp_jinja_list_add(run, mapped, map_one(run, call, list->items[i]));
    }
    return icp_jinja_of_list(icp_jinja_is_failed(run) ? NULL : mapped, ICP_JINJA_GENERATOR);
}

/* Whether the test named by the argument at offset, with those after it, says yes. */
static bool is_selected(icp_jinja_run *run, const icp_jinja_call *call, size_t offset, icp_jinja_value value)
{
    if (call->argument_count <= offset) return icp_jinja_is_true(value);
    const icp_jinja_string *name = icp_jinja_argument_string(run, call->arguments[offset], "");
    const icp_jinja_builtin *test = icp_jinja_test_find(name);
    if (test == NULL) {
        icp_jinja_fail(run, "there is no test named '%.*s'", (int)(name->bytes < 80 ? name->bytes : 80), name->text);
        return false;
    }
    icp_jinja_call inner = *call;
    inner.self = value;
    inner.arguments += offset + 1;
    inner.argument_count -= offset + 1;
    return icp_jinja_is_true(icp_jinja_call_builtin(run, test, &inner));
}

static icp_jinja_value select_items(icp_jinja_run *run, const icp_jinja_call *call, bool has_attribute, bool is_kept)
{
    const icp_jinja_list *list = items_or_none(run, call->self);
    icp_jinja_list *selected = icp_jinja_list_new(run, 0);
    if (has_attribute && call->argument_count == 0) return icp_jinja_fail(run, "Missing parameter for attribute name");
    for (size_t i = 0; list != NULL && selected != NULL && i < list->count && icp_jinja_step(run, 0); i++) {
        icp_jinja_value value = list->items[i];
        if (has_attribute) value = attribute_of(run, value, call->arguments[0]);
        if (icp_jinja_is_failed(run)) break;
        if (is_selected(run, call, has_attribute, value) == is_kept) icp_jinja_list_add(run, selected, list->items[i]);
    }
    return icp_jinja_of_list(icp_jinja_is_failed(run) ? NULL : selected, ICP_JINJA_GENERATOR);
}

static icp_jinja_value filter_select(icp_jinja_run *run, const icp_jinja_call *call)
{
    return select_items(run, call, false, true);
}

static icp_jinja_value filter_reject(icp_jinja_run *run, const icp_jinja_call *call)
{
    return select_items(run, call, false, false);
}

static icp_jinja_value filter_selectattr(icp_jinja_run *run, const icp_jinja_call *call)
{
    return select_items(run, call, true, true);
}

static icp_jinja_value filter_rejectattr(icp_jinja_run *run, const icp_jinja_call *call)
{
    return select_items(run, call, true, false);
}

const icp_jinja_builtin icp_jinja_sequence_filters[] = {
    {"length", "", filter_length},
    {"count", "", filter_length},
    {"first", "", filter_first},
    {"last", "", filter_last},
    {"list", "", filter_list},
    {"join", "d attribute", filter_join},
    {"items", "", filter_items},
    {"dictsort", "case_sensitive by reverse", filter_dictsort},
    {"sort", "reverse case_sensitive attribute", filter_sort},
    {"reverse", "", filter_reverse},
    {"unique", "case_sensitive attribute", filter_unique},
    {"groupby", "attribute! default case_sensitive", filter_groupby},
    {"batch", "linecount! fill_with", filter_batch},
    {"sum", "attribute start", filter_sum},
    {"min", "case_sensitive attribute", filter_min},
    {"max", "case_sensitive attribute", filter_max},
    {"map", NULL, filter_map},
    {"select", NULL, filter_select},
    {"reject", NULL, filter_reject},
    {"selectattr", NULL, filter_selectattr},
    {"rejectattr", NULL, filter_rejectattr},
    {0},
};
