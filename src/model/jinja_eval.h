/* jinja_eval.h - running the tree of a template, and what templates can call.
 *
 *      jinja_run.c        statements, scopes, loops, macros        jinja_filter.c     filters on text and numbers
 *      jinja_eval.c       expressions and calls                    jinja_sequence.c   filters on sequences
 *      jinja_operator.c   arithmetic, slices                       jinja_test.c       tests: is defined, is string
 *      jinja_compare.c    equality, order, items, attributes       jinja_method.c     methods of strings, dicts, lists
 *      jinja_print.c      values as text: str, repr, JSON          jinja_global.c     range, namespace, raise_exception
 *      jinja_string.c     work on strings, byte by byte traced     jinja_format.c     str.format and %
 *
 * A render uses up to 256 KiB of the thread's stack, at ICP_JINJA_DEPTH_MAX (measured, aarch64, -O2).
 *
 * Everything that can be called is a builtin: a name, its parameters, a function. Filters, tests, methods and globals
 * differ only in how they are looked up. */
#ifndef ICP_MODEL_JINJA_EVAL_H
#define ICP_MODEL_JINJA_EVAL_H

#include "model/jinja_node.h"
#include "model/jinja_value.h"

#define ICP_JINJA_PARAMETER_COUNT_MAX 5u

/* ---- Calls ----------------------------------------------------------------------------------------------- */

typedef struct icp_jinja_call {
    icp_jinja_value self; /* what is filtered, tested, or whose method it is */
    const icp_jinja_value *arguments;
    size_t argument_count;
    const icp_jinja_entry *named; /* keys are strings */
    size_t named_count;
    icp_jinja_value bound[ICP_JINJA_PARAMETER_COUNT_MAX]; /* by parameter; ABSENT: not given */
} icp_jinja_call;

typedef icp_jinja_value icp_jinja_builtin_fn(icp_jinja_run *run, const icp_jinja_call *call);

typedef struct icp_jinja_builtin {
    const char *name;
    const char *parameters; /* "old! new! count": ! must be given; NULL: the function looks at the arguments itself */
    icp_jinja_builtin_fn *run;
} icp_jinja_builtin;

struct icp_jinja_function {
    const icp_jinja_builtin *builtin;
    icp_jinja_value self;
};

struct icp_jinja_macro {
    const icp_jinja_node *node; /* MACRO or CALL_MACRO */
    icp_jinja_scope *scope;     /* where it was defined */
};

/* Binds the arguments to the parameters and runs. */
icp_jinja_value icp_jinja_call_builtin(icp_jinja_run *run, const icp_jinja_builtin *builtin, icp_jinja_call *call);
icp_jinja_value icp_jinja_call_macro(icp_jinja_run *run, const icp_jinja_macro *macro, const icp_jinja_call *call,
                                     icp_jinja_value caller);

/* Tables end with a NULL name. */
const icp_jinja_builtin *icp_jinja_builtin_find(const icp_jinja_builtin *table, const icp_jinja_string *name);
const icp_jinja_builtin *icp_jinja_filter_find(const icp_jinja_string *name);
const icp_jinja_builtin *icp_jinja_test_find(const icp_jinja_string *name);
extern const icp_jinja_builtin icp_jinja_sequence_filters[];
extern const icp_jinja_builtin icp_jinja_globals[];

/* ABSENT: there is none. */
icp_jinja_value icp_jinja_method_of(icp_jinja_run *run, icp_jinja_value value, const icp_jinja_string *name);
icp_jinja_value icp_jinja_loop_field(icp_jinja_run *run, icp_jinja_loop *loop, const icp_jinja_string *name);

/* ---- Arguments ------------------------------------------------------------------------------------------- */

/* Each fails where the argument is of another kind, and gives the default where it is absent. */
int64_t icp_jinja_argument_int(icp_jinja_run *run, icp_jinja_value value, int64_t otherwise);
bool icp_jinja_argument_bool(icp_jinja_value value, bool otherwise);
const icp_jinja_string *icp_jinja_argument_string(icp_jinja_run *run, icp_jinja_value value, const char *otherwise);

/* ---- Evaluation ------------------------------------------------------------------------------------------ */

icp_jinja_value icp_jinja_evaluate(icp_jinja_run *run, const icp_jinja_node *node);
void icp_jinja_execute(icp_jinja_run *run, const icp_jinja_node *tree);
/* A CALL node; caller is what {% call %} passes to a macro, ABSENT otherwise. */
icp_jinja_value icp_jinja_call_node(icp_jinja_run *run, const icp_jinja_node *node, icp_jinja_value caller);
icp_jinja_value icp_jinja_binary(icp_jinja_run *run, icp_jinja_op op, icp_jinja_value left, icp_jinja_value right);
icp_jinja_value icp_jinja_negate(icp_jinja_run *run, icp_jinja_value value, bool is_minus);
/* value[bounds[0]:bounds[1]:bounds[2]]; ABSENT or none: left out. */
icp_jinja_value icp_jinja_cut(icp_jinja_run *run, icp_jinja_value value, const icp_jinja_value bounds[3]);
icp_jinja_value icp_jinja_lookup(icp_jinja_run *run, const icp_jinja_string *name);

/* ---- Values as text -------------------------------------------------------------------------------------- */

#define ICP_JINJA_FLOAT_BYTES_MAX 40u
void icp_jinja_float_text(double number, char text[ICP_JINJA_FLOAT_BYTES_MAX]); /* as Python's repr */

typedef struct icp_jinja_json_options {
    bool is_ascii;
    bool is_sorted;
    const icp_jinja_string *indent; /* NULL: all on one line */
    const icp_jinja_string *comma, *colon;
} icp_jinja_json_options;

void icp_jinja_print(icp_jinja_run *run, icp_jinja_buffer *buffer, icp_jinja_value value); /* as Python's str */
void icp_jinja_repr(icp_jinja_run *run, icp_jinja_buffer *buffer, icp_jinja_value value);
void icp_jinja_json(icp_jinja_run *run, icp_jinja_buffer *buffer, icp_jinja_value value,
                    const icp_jinja_json_options *options);
const icp_jinja_string *icp_jinja_string_of(icp_jinja_run *run, icp_jinja_value value); /* str(value) */

/* ---- Work on strings ------------------------------------------------------------------------------------- */

#define ICP_JINJA_SIDE_LEFT 1u
#define ICP_JINJA_SIDE_RIGHT 2u

typedef enum icp_jinja_case {
    ICP_JINJA_CASE_LOWER,
    ICP_JINJA_CASE_UPPER,
    ICP_JINJA_CASE_CAPITAL, /* the first character upper, the others lower */
    ICP_JINJA_CASE_TITLE,   /* each run of letters, as str.title() */
    ICP_JINJA_CASE_WORDS,   /* after blanks, hyphens and opening brackets, as the filter title */
} icp_jinja_case;

int64_t icp_jinja_length(icp_jinja_run *run, const icp_jinja_string *string); /* in characters */
size_t icp_jinja_offset(icp_jinja_run *run, const icp_jinja_string *string,
                        int64_t index); /* of a character, in bytes */
int64_t icp_jinja_index(icp_jinja_run *run, const icp_jinja_string *string, size_t offset);
bool icp_jinja_is_space(uint32_t code);
icp_jinja_value icp_jinja_strip(icp_jinja_run *run, const icp_jinja_string *string, const icp_jinja_string *set,
                                unsigned sides);
icp_jinja_value icp_jinja_recase(icp_jinja_run *run, const icp_jinja_string *string, icp_jinja_case to);
icp_jinja_value icp_jinja_replace(icp_jinja_run *run, const icp_jinja_string *string, const icp_jinja_string *old,
                                  const icp_jinja_string *with, int64_t count_max);
icp_jinja_value icp_jinja_escape(icp_jinja_run *run, const icp_jinja_string *string); /* for HTML */
/* separator NULL: at whitespace. count_max < 0: no limit. */
icp_jinja_value icp_jinja_split(icp_jinja_run *run, const icp_jinja_string *string, const icp_jinja_string *separator,
                                int64_t count_max);
icp_jinja_value icp_jinja_split_back(icp_jinja_run *run, const icp_jinja_string *string,
                                     const icp_jinja_string *separator, int64_t count_max);
icp_jinja_value icp_jinja_split_lines(icp_jinja_run *run, const icp_jinja_string *string, bool is_end_kept);
icp_jinja_value icp_jinja_format(icp_jinja_run *run, const icp_jinja_string *format, const icp_jinja_call *call);
icp_jinja_value icp_jinja_format_percent(icp_jinja_run *run, const icp_jinja_string *format, icp_jinja_value values);
icp_jinja_value icp_jinja_join(icp_jinja_run *run, const icp_jinja_string *separator, const icp_jinja_list *items);

#endif
