/* jinja_operator.c - arithmetic and slices, with Python's meaning: // and % round towards minus infinity, / gives a
 * float, + and * work on strings and lists too. An integer that does not fit 64 bits is refused, never wrapped. */
#include "model/jinja_eval.h"

#include <math.h>

static icp_jinja_value fail_operands(icp_jinja_run *run, icp_jinja_op op, icp_jinja_value left, icp_jinja_value right)
{
    static const char *const names[] = {"", "+", "-", "*", "/", "//", "%", "**"};
    if (left.kind == ICP_JINJA_UNDEFINED) return icp_jinja_fail_undefined(run, left);
    if (right.kind == ICP_JINJA_UNDEFINED) return icp_jinja_fail_undefined(run, right);
    return icp_jinja_fail(run, "unsupported operand type(s) for %s: '%s' and '%s'", names[op],
                          icp_jinja_type_name(left), icp_jinja_type_name(right));
}

/* ---- Numbers --------------------------------------------------------------------------------------------- */

static int64_t floor_divide(int64_t left, int64_t right)
{
    int64_t quotient = left / right;
    return quotient - (left % right != 0 && (left < 0) != (right < 0));
}

static bool power(int64_t base, int64_t exponent, int64_t *out)
{
    int64_t result = 1;
    bool is_over = false;
    for (; exponent > 0; exponent >>= 1) { /* by squaring: the base overflows soon where the result does */
        if (exponent & 1) is_over = is_over || __builtin_mul_overflow(result, base, &result);
        if (exponent > 1 && __builtin_mul_overflow(base, base, &base)) return false;
    }
    *out = result;
    return !is_over;
}

static icp_jinja_value integers(icp_jinja_run *run, icp_jinja_op op, int64_t left, int64_t right)
{
    int64_t result = 0;
    bool is_over = false;
    if ((op == ICP_OP_DIVIDE || op == ICP_OP_FLOOR || op == ICP_OP_MODULO) && right == 0) {
        return icp_jinja_fail(run, "division by zero");
    }
    switch (op) {
    case ICP_OP_ADD:
        is_over = __builtin_add_overflow(left, right, &result);
        break;
    case ICP_OP_SUBTRACT:
        is_over = __builtin_sub_overflow(left, right, &result);
        break;
    case ICP_OP_MULTIPLY:
        is_over = __builtin_mul_overflow(left, right, &result);
        break;
    case ICP_OP_DIVIDE:
        return icp_jinja_float((double)left / (double)right);
    case ICP_OP_FLOOR:
        is_over = left == INT64_MIN && right == -1;
        if (!is_over) result = floor_divide(left, right);
        break;
    case ICP_OP_MODULO:
        if (right != -1) result = left - floor_divide(left, right) * right;
        break;
    default:
        if (right < 0) return icp_jinja_float(pow((double)left, (double)right));
        is_over = !power(left, right, &result);
        break;
    }
    return is_over ? icp_jinja_fail(run, "an integer is larger than 64 bits") : icp_jinja_int(result);
}

static icp_jinja_value floats(icp_jinja_run *run, icp_jinja_op op, double left, double right)
{
    if ((op == ICP_OP_DIVIDE || op == ICP_OP_FLOOR || op == ICP_OP_MODULO) && right == 0) {
        return icp_jinja_fail(run, "division by zero");
    }
    double rest = 0, quotient = 0;
    switch (op) {
    case ICP_OP_ADD:
        return icp_jinja_float(left + right);
    case ICP_OP_SUBTRACT:
        return icp_jinja_float(left - right);
    case ICP_OP_MULTIPLY:
        return icp_jinja_float(left * right);
    case ICP_OP_DIVIDE:
        return icp_jinja_float(left / right);
    case ICP_OP_FLOOR:
        rest = fmod(left, right); /* by the remainder: 1 // 0.1 is 9, since 0.1 is a little more than a tenth */
        quotient = (left - rest) / right;
        if (rest != 0 && (rest < 0) != (right < 0)) quotient -= 1;
        return icp_jinja_float(quotient - floor(quotient) > 0.5 ? floor(quotient) + 1 : floor(quotient));
    case ICP_OP_MODULO:
        rest = fmod(left, right);
        return icp_jinja_float(rest != 0 && (rest < 0) != (right < 0) ? rest + right : rest);
    default:
        return icp_jinja_float(pow(left, right));
    }
}

icp_jinja_value icp_jinja_negate(icp_jinja_run *run, icp_jinja_value value, bool is_minus)
{
    if (value.kind == ICP_JINJA_UNDEFINED) return icp_jinja_fail_undefined(run, value);
    if (!icp_jinja_is_number(value)) {
        return icp_jinja_fail(run, "bad operand type for unary %s: '%s'", is_minus ? "-" : "+",
                              icp_jinja_type_name(value));
    }
    if (value.kind == ICP_JINJA_FLOAT) return icp_jinja_float(is_minus ? -value.number : value.number);
    int64_t integer = icp_jinja_integer_of(value);
    return is_minus ? integers(run, ICP_OP_SUBTRACT, 0, integer) : icp_jinja_int(integer);
}

/* ---- Strings and lists ----------------------------------------------------------------------------------- */

/* Where one of two strings is markup, the other is escaped. */
static icp_jinja_value add_strings(icp_jinja_run *run, const icp_jinja_string *left, const icp_jinja_string *right)
{
    if (!left->is_markup && !right->is_markup) return icp_jinja_concat(run, left, right);
    if (!left->is_markup) left = icp_jinja_escape(run, left).string;
    if (!right->is_markup) right = icp_jinja_escape(run, right).string;
    if (icp_jinja_is_failed(run)) return icp_jinja_undefined(NULL);
    icp_jinja_string *sum = icp_jinja_take(run, sizeof(*sum));
    if (sum == NULL) return icp_jinja_undefined(NULL);
    *sum = *icp_jinja_concat(run, left, right).string;
    sum->is_markup = true;
    return icp_jinja_of_string(sum);
}

static icp_jinja_value add_lists(icp_jinja_run *run, icp_jinja_value left, icp_jinja_value right)
{
    icp_jinja_list *list = icp_jinja_list_new(run, left.list->count + right.list->count);
    if (list == NULL || !icp_jinja_step(run, 16 * list->capacity)) return icp_jinja_undefined(NULL);
    for (size_t i = 0; i < left.list->count; i++) icp_jinja_list_add(run, list, left.list->items[i]);
    for (size_t i = 0; i < right.list->count; i++) icp_jinja_list_add(run, list, right.list->items[i]);
    return icp_jinja_of_list(list, left.kind);
}

static icp_jinja_value repeat(icp_jinja_run *run, icp_jinja_value value, int64_t count)
{
    if (value.kind == ICP_JINJA_STRING) {
        icp_jinja_buffer *buffer = icp_jinja_buffer_new(run);
        if (value.string->bytes == 0) count = 0;
        if (count > 0 && (uint64_t)count > run->text_bytes_max / value.string->bytes) {
            icp_jinja_fail_with(run, ICP_TOO_LONG, "the text is longer than it may be");
        }
        for (int64_t i = 0; i < count && icp_jinja_charge(run, 8); i++) icp_jinja_append(run, buffer, value.string);
        return icp_jinja_is_failed(run) ? icp_jinja_undefined(NULL) : icp_jinja_buffer_string(run, buffer);
    }
    icp_jinja_list *list = icp_jinja_list_new(run, 0);
    if (value.list->count == 0) count = 0;
    if (count > 0 && (uint64_t)count > run->memory.total_max / sizeof(value) / value.list->count) {
        icp_jinja_fail_with(run, ICP_TOO_LONG, "the template takes more memory than it may");
    }
    for (int64_t i = 0; i < count && list != NULL && icp_jinja_step(run, 16 * value.list->count); i++) {
        for (size_t j = 0; j < value.list->count; j++) icp_jinja_list_add(run, list, value.list->items[j]);
    }
    return icp_jinja_of_list(list, value.kind);
}

static bool is_sequence(icp_jinja_value value)
{
    return value.kind == ICP_JINJA_STRING || value.kind == ICP_JINJA_LIST || value.kind == ICP_JINJA_TUPLE;
}

static bool is_integer(icp_jinja_value value)
{
    return value.kind == ICP_JINJA_INT || value.kind == ICP_JINJA_BOOL;
}

icp_jinja_value icp_jinja_binary(icp_jinja_run *run, icp_jinja_op op, icp_jinja_value left, icp_jinja_value right)
{
    if (icp_jinja_is_failed(run)) return icp_jinja_undefined(NULL);
    if (icp_jinja_is_number(left) && icp_jinja_is_number(right)) {
        if (is_integer(left) && is_integer(right)) {
            return integers(run, op, icp_jinja_integer_of(left), icp_jinja_integer_of(right));
        }
        return floats(run, op, icp_jinja_number_of(left), icp_jinja_number_of(right));
    }
    if (op == ICP_OP_ADD && left.kind == right.kind) {
        if (left.kind == ICP_JINJA_STRING) return add_strings(run, left.string, right.string);
        if (is_sequence(left)) return add_lists(run, left, right);
    }
    if (op == ICP_OP_MULTIPLY && is_sequence(left) && is_integer(right)) {
        return repeat(run, left, icp_jinja_integer_of(right));
    }
    if (op == ICP_OP_MULTIPLY && is_sequence(right) && is_integer(left)) {
        return repeat(run, right, icp_jinja_integer_of(left));
    }
    if (op == ICP_OP_MODULO && left.kind == ICP_JINJA_STRING) return icp_jinja_format_percent(run, left.string, right);
    return fail_operands(run, op, left, right);
}

/* ---- Slices ---------------------------------------------------------------------------------------------- */

static int64_t clamp_bound(int64_t bound, int64_t count, int64_t low, int64_t high)
{
    if (bound < 0) bound += count;
    return bound < low ? low : bound > high ? high : bound;
}

/* Characters [start, stop) with a step, one by one; the plain case shares the bytes. */
static icp_jinja_value cut_string(icp_jinja_run *run, const icp_jinja_string *string, const int64_t range[3])
{
    if (range[2] == 1) {
        if (range[0] >= range[1]) return icp_jinja_slice(run, string, 0, 0);
        size_t start = icp_jinja_offset(run, string, range[0]);
        return icp_jinja_slice(run, string, start, icp_jinja_offset(run, string, range[1]));
    }
    const icp_jinja_list *characters = icp_jinja_items(run, icp_jinja_of_string(string));
    icp_jinja_buffer *buffer = icp_jinja_buffer_new(run);
    for (int64_t i = range[0]; range[2] > 0 ? i < range[1] : i > range[1]; i += range[2]) {
        if (icp_jinja_is_failed(run)) return icp_jinja_undefined(NULL);
        icp_jinja_append(run, buffer, characters->items[i].string);
        if (range[2] > range[1] - i && range[2] > 0) break; /* and no overflow of i */
        if (range[2] < range[1] - i && range[2] < 0) break;
    }
    return icp_jinja_is_failed(run) ? icp_jinja_undefined(NULL) : icp_jinja_buffer_string(run, buffer);
}

static icp_jinja_value cut_list(icp_jinja_run *run, icp_jinja_value value, const int64_t range[3])
{
    icp_jinja_list *list = icp_jinja_list_new(run, 0);
    for (int64_t i = range[0]; range[2] > 0 ? i < range[1] : i > range[1]; i += range[2]) {
        if (list == NULL || !icp_jinja_charge(run, 16)) return icp_jinja_undefined(NULL);
        icp_jinja_list_add(run, list, value.list->items[i]);
        if (range[2] > range[1] - i && range[2] > 0) break;
        if (range[2] < range[1] - i && range[2] < 0) break;
    }
    return icp_jinja_of_list(list, value.kind);
}

icp_jinja_value icp_jinja_cut(icp_jinja_run *run, icp_jinja_value value, const icp_jinja_value bounds[3])
{
    if (value.kind == ICP_JINJA_UNDEFINED) return icp_jinja_fail_undefined(run, value);
    if (!is_sequence(value)) return icp_jinja_fail(run, "a '%s' cannot be sliced", icp_jinja_type_name(value));
    bool has[3];
    int64_t given[3];
    for (size_t i = 0; i < 3; i++) {
        has[i] = bounds[i].kind != ICP_JINJA_ABSENT && bounds[i].kind != ICP_JINJA_NONE;
        if (has[i] && !is_integer(bounds[i])) return icp_jinja_fail(run, "slice indices must be integers or None");
        given[i] = has[i] ? icp_jinja_integer_of(bounds[i]) : 0;
    }
    int64_t step = has[2] ? given[2] : 1;
    if (step == 0) return icp_jinja_fail(run, "slice step cannot be zero");
    bool is_string = value.kind == ICP_JINJA_STRING, is_back = step < 0;
    int64_t count = is_string ? icp_jinja_length(run, value.string) : (int64_t)value.list->count;
    int64_t low = is_back ? -1 : 0, high = is_back ? count - 1 : count;
    int64_t start = has[0] ? clamp_bound(given[0], count, low, high) : is_back ? high : 0;
    int64_t stop = has[1] ? clamp_bound(given[1], count, low, high) : is_back ? -1 : count;
    int64_t range[3] = {start, stop, step};
    return is_string ? cut_string(run, value.string, range) : cut_list(run, value, range);
}
