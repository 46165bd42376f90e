/* jinja_global.c - the functions that every template has: range, dict, namespace, raise_exception, strftime_now. */
#include "model/jinja_eval.h"

#include <string.h>
#include <time.h>

#define RANGE_COUNT_MAX 100000 /* as Jinja's sandbox has it */
#define DATE_BYTES_MAX 256u

static icp_jinja_value global_range(icp_jinja_run *run, const icp_jinja_call *call)
{
    bool has_stop = call->bound[1].kind != ICP_JINJA_ABSENT;
    int64_t first = icp_jinja_argument_int(run, call->bound[0], 0), start = has_stop ? first : 0;
    int64_t stop = icp_jinja_argument_int(run, call->bound[1], first);
    int64_t step = icp_jinja_argument_int(run, call->bound[2], 1), distance = 0;
    if (icp_jinja_is_failed(run)) return icp_jinja_undefined(NULL);
    if (step == 0) return icp_jinja_fail(run, "range() arg 3 must not be zero");
    bool is_empty = step > 0 ? start >= stop : start <= stop;
    if (__builtin_sub_overflow(stop, start, &distance) || step == INT64_MIN) {
        return icp_jinja_fail(run, "a range is too large");
    }
    int64_t count = is_empty ? 0 : (distance - (step > 0 ? 1 : -1)) / step + 1;
    if (count > RANGE_COUNT_MAX) {
        return icp_jinja_fail(run, "Range too big. The sandbox blocks ranges larger than %d", RANGE_COUNT_MAX);
    }
    icp_jinja_list *list = icp_jinja_list_new(run, (size_t)count);
    for (int64_t i = 0; i < count && list != NULL && icp_jinja_charge(run, 16); i++) {
        icp_jinja_list_add(run, list, icp_jinja_int(start + i * step));
    }
    return icp_jinja_of_list(list, ICP_JINJA_LIST);
}

/* dict(mapping or pairs, name=value ...), also for namespace. */
static icp_jinja_dict *build_dict(icp_jinja_run *run, const icp_jinja_call *call)
{
    icp_jinja_dict *dict = icp_jinja_dict_new(run);
    if (call->argument_count > 1) icp_jinja_fail(run, "one mapping at most is wanted");
    for (size_t i = 0; i < call->argument_count && !icp_jinja_is_failed(run); i++) {
        icp_jinja_value from = call->arguments[i];
        if (from.kind == ICP_JINJA_DICT) {
            for (size_t j = 0; j < from.dict->count && icp_jinja_step(run, 0); j++) {
                icp_jinja_dict_set(run, dict, from.dict->entries[j].key, from.dict->entries[j].value);
            }
            continue;
        }
        const icp_jinja_list *pairs = icp_jinja_items(run, from);
        for (size_t j = 0; pairs != NULL && j < pairs->count && icp_jinja_step(run, 0); j++) {
            const icp_jinja_list *pair = icp_jinja_items(run, pairs->items[j]);
            if (pair == NULL) break;
            if (pair->count != 2) icp_jinja_fail(run, "a dict is made of pairs");
            if (pair->count == 2) icp_jinja_dict_set(run, dict, pair->items[0], pair->items[1]);
        }
    }
    for (size_t i = 0; i < call->named_count; i++) {
        icp_jinja_dict_set(run, dict, call->named[i].key, call->named[i].value);
    }
    return dict;
}

static icp_jinja_value global_dict(icp_jinja_run *run, const icp_jinja_call *call)
{
    icp_jinja_dict *dict = build_dict(run, call);
    if (icp_jinja_is_failed(run)) return icp_jinja_undefined(NULL);
    return (icp_jinja_value){.kind = ICP_JINJA_DICT, .dict = dict};
}

static icp_jinja_value global_namespace(icp_jinja_run *run, const icp_jinja_call *call)
{
    icp_jinja_dict *dict = build_dict(run, call);
    if (icp_jinja_is_failed(run)) return icp_jinja_undefined(NULL);
    return (icp_jinja_value){.kind = ICP_JINJA_NAMESPACE, .dict = dict};
}

static icp_jinja_value global_raise_exception(icp_jinja_run *run, const icp_jinja_call *call)
{
    const icp_jinja_string *text = icp_jinja_string_of(run, call->bound[0]);
    return icp_jinja_fail(run, "%.*s", (int)(text->bytes < 150 ? text->bytes : 150), text->text);
}

static icp_jinja_value global_strftime_now(icp_jinja_run *run, const icp_jinja_call *call)
{
    const icp_jinja_string *string = icp_jinja_argument_string(run, call->bound[0], "");
    char format[DATE_BYTES_MAX + 2], text[4 * DATE_BYTES_MAX];
    time_t now = (time_t)run->now;
    struct tm parts;
    if (icp_jinja_is_failed(run)) return icp_jinja_undefined(NULL);
    if (string->bytes > DATE_BYTES_MAX) return icp_jinja_fail(run, "strftime_now: the format is too long");
    if (gmtime_r(&now, &parts) == NULL) return icp_jinja_fail(run, "strftime_now: the time is out of range");
    memcpy(format, string->text, string->bytes);
    memcpy(format + string->bytes, ".", 2); /* so that a result of no bytes is not taken for a failure */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    size_t bytes = strftime(text, sizeof(text), format, &parts);
#pragma GCC diagnostic pop
    if (bytes == 0) return icp_jinja_fail(run, "strftime_now: the date is too long");
    text[bytes - 1] = '\0';
    return icp_jinja_data(run, text);
}

const icp_jinja_builtin icp_jinja_globals[] = {
    {"range", "start! stop step", global_range},
    {"dict", NULL, global_dict},
    {"namespace", NULL, global_namespace},
    {"raise_exception", "message!", global_raise_exception},
    {"strftime_now", "format!", global_strftime_now},
    {0},
};
