/* jinja_test.c - the tests of a template: x is defined, x is string, x is in y. */
#include "model/jinja_eval.h"

#include "model/unicode.h"

typedef icp_jinja_value value;

#define TEST(name, claim)                                                    \
    static value test_##name(icp_jinja_run *run, const icp_jinja_call *call) \
    {                                                                        \
        value self = call->self;                                             \
        (void)run;                                                           \
        return icp_jinja_bool(claim);                                        \
    }

static bool is_case(icp_jinja_run *run, value self, uint8_t wanted, uint8_t other)
{
    const icp_jinja_string *string = icp_jinja_string_of(run, self);
    bool has = false;
    icp_jinja_step(run, string->bytes);
    for (size_t at = 0; at < string->bytes;) {
        icp_glyph glyph = icp_glyph_at((const uint8_t *)string->text, at, string->bytes);
        if (glyph.class & other) return false;
        has = has || (glyph.class & wanted);
        at += glyph.bytes;
    }
    return has;
}

static bool has_remainder(icp_jinja_run *run, value left, value right, int64_t wanted)
{
    value rest = icp_jinja_binary(run, ICP_OP_MODULO, left, right);
    return icp_jinja_equal(run, rest, icp_jinja_int(wanted));
}

static bool is_sequence(value self)
{
    return self.kind == ICP_JINJA_STRING || self.kind == ICP_JINJA_LIST || self.kind == ICP_JINJA_TUPLE ||
           self.kind == ICP_JINJA_DICT || self.kind == ICP_JINJA_UNDEFINED;
}

static bool is_same(icp_jinja_run *run, value left, value right)
{
    if (left.kind != right.kind) return false;
    bool is_shared = left.kind == ICP_JINJA_LIST || left.kind == ICP_JINJA_DICT || left.kind == ICP_JINJA_TUPLE;
    if (!is_shared) return icp_jinja_equal(run, left, right);
    return left.kind == ICP_JINJA_DICT ? left.dict == right.dict : left.list == right.list;
}

/* clang-format off: a test on each line */
TEST(defined, self.kind != ICP_JINJA_UNDEFINED)
TEST(undefined, self.kind == ICP_JINJA_UNDEFINED)
TEST(none, self.kind == ICP_JINJA_NONE)
TEST(boolean, self.kind == ICP_JINJA_BOOL)
TEST(true, self.kind == ICP_JINJA_BOOL && self.boolean)
TEST(false, self.kind == ICP_JINJA_BOOL && !self.boolean)
TEST(integer, self.kind == ICP_JINJA_INT)
TEST(float, self.kind == ICP_JINJA_FLOAT)
TEST(number, icp_jinja_is_number(self))
TEST(string, self.kind == ICP_JINJA_STRING)
TEST(mapping, self.kind == ICP_JINJA_DICT)
TEST(sequence, is_sequence(self))
TEST(iterable, is_sequence(self) || self.kind == ICP_JINJA_GENERATOR)
TEST(callable, self.kind == ICP_JINJA_MACRO || self.kind == ICP_JINJA_FUNCTION || self.kind == ICP_JINJA_UNDEFINED)
TEST(escaped, self.kind == ICP_JINJA_STRING && self.string->is_markup)
TEST(lower, is_case(run, self, ICP_UNICODE_LOWER, ICP_UNICODE_UPPER))
TEST(upper, is_case(run, self, ICP_UNICODE_UPPER, ICP_UNICODE_LOWER))
TEST(odd, has_remainder(run, self, icp_jinja_int(2), 1))
TEST(even, has_remainder(run, self, icp_jinja_int(2), 0))
TEST(divisibleby, has_remainder(run, self, call->bound[0], 0))
TEST(in, icp_jinja_contains(run, call->bound[0], self))
TEST(sameas, is_same(run, self, call->bound[0]))
TEST(equal, icp_jinja_equal(run, self, call->bound[0]))
TEST(not_equal, !icp_jinja_equal(run, self, call->bound[0]))
TEST(less, icp_jinja_compare(run, self, call->bound[0]) < 0)
TEST(less_equal, icp_jinja_compare(run, self, call->bound[0]) <= 0)
TEST(more, icp_jinja_compare(run, self, call->bound[0]) > 0)
TEST(more_equal, icp_jinja_compare(run, self, call->bound[0]) >= 0)
TEST(filter, self.kind == ICP_JINJA_STRING && icp_jinja_filter_find(self.string) != NULL)
TEST(test, self.kind == ICP_JINJA_STRING && icp_jinja_test_find(self.string) != NULL)

static const icp_jinja_builtin tests[] = {
    {"defined", "", test_defined},    {"undefined", "", test_undefined},
    {"none", "", test_none},          {"boolean", "", test_boolean},
    {"true", "", test_true},          {"false", "", test_false},
    {"integer", "", test_integer},    {"float", "", test_float},
    {"number", "", test_number},      {"string", "", test_string},
    {"mapping", "", test_mapping},    {"sequence", "", test_sequence},
    {"iterable", "", test_iterable},  {"callable", "", test_callable},
    {"escaped", "", test_escaped},    {"lower", "", test_lower},
    {"upper", "", test_upper},        {"odd", "", test_odd},
    {"even", "", test_even},          {"divisibleby", "num!", test_divisibleby},
    {"in", "seq!", test_in},          {"sameas", "other!", test_sameas},
    {"==", "b!", test_equal},         {"eq", "b!", test_equal},
    {"equalto", "b!", test_equal},    {"!=", "b!", test_not_equal},
    {"ne", "b!", test_not_equal},     {"<", "b!", test_less},
    {"lt", "b!", test_less},          {"lessthan", "b!", test_less},
    {"<=", "b!", test_less_equal},    {"le", "b!", test_less_equal},
    {">", "b!", test_more},           {"gt", "b!", test_more},
    {"greaterthan", "b!", test_more}, {">=", "b!", test_more_equal},
    {"ge", "b!", test_more_equal},    {"filter", "", test_filter},
    {"test", "", test_test},          {0},
};
/* clang-format on */

const icp_jinja_builtin *icp_jinja_test_find(const icp_jinja_string *name)
{
    return icp_jinja_builtin_find(tests, name);
}
