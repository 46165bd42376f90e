/* jinja_value.h - what a chat template computes with: values as Python has them, and the memory and budgets of a
 * render.
 *
 * A render is one icp_jinja_run. Its values live in one arena that is freed as a whole, so nothing here has an owner.
 * Lists, dicts and strings do not change once they are built (HF's sandbox refuses the methods that would); only
 * namespaces and scopes do.
 *
 * PROVENANCE. Every byte of a string knows whether the template wrote it (trusted) or it came from a message (data). A
 * string is a view {text, bytes, trust}: trust has a byte for each byte of text, or is NULL where all bytes are alike.
 * Slices share memory with what they are cut from. What is made anew (numbers as text, JSON punctuation) is data.
 *
 *      buffer   text  [<|im_start|>user\nHello<|im_end|>......]   append only; a string that ends where the buffer ends
 *               trust [11111111111111111100000111111111......]   is extended in place, so s = s + x is linear
 *
 * ERRORS. The first failure is kept in the run, with the line of the template; what is called afterwards returns at
 * once. So a function that failed gives back any valid value, and only loops have to ask icp_jinja_is_failed.
 *
 * A run belongs to one thread. */
#ifndef ICP_MODEL_JINJA_VALUE_H
#define ICP_MODEL_JINJA_VALUE_H

#include "incipit/cache.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ICP_JINJA_DEPTH_MAX 800u  /* of evaluation, macros and nested values together */
#define ICP_JINJA_STEP_BYTES 256u /* so many bytes looked at or copied count as one step */

/* ---- Memory ---------------------------------------------------------------------------------------------- */

typedef struct icp_jinja_chunk icp_jinja_chunk;

typedef struct icp_jinja_arena {
    icp_jinja_chunk *chunks;
    size_t used; /* in the newest chunk */
    size_t total;
    size_t total_max;
} icp_jinja_arena;

/* Zeroed, 16-byte aligned. NULL: the system has no more, or total_max is reached. */
void *icp_jinja_arena_take(icp_jinja_arena *arena, size_t bytes);
void icp_jinja_arena_close(icp_jinja_arena *arena);

/* ---- Values ---------------------------------------------------------------------------------------------- */

typedef enum icp_jinja_kind {
    ICP_JINJA_ABSENT, /* an argument that was not given; nothing that a template can see */
    ICP_JINJA_UNDEFINED,
    ICP_JINJA_NONE,
    ICP_JINJA_BOOL,
    ICP_JINJA_INT,
    ICP_JINJA_FLOAT,
    ICP_JINJA_STRING,
    ICP_JINJA_LIST,
    ICP_JINJA_TUPLE,
    ICP_JINJA_GENERATOR, /* what map and select give: a list that has no length and is always true */
    ICP_JINJA_DICT,
    ICP_JINJA_NAMESPACE,
    ICP_JINJA_LOOP,
    ICP_JINJA_MACRO,
    ICP_JINJA_FUNCTION, /* a global, or a method bound to its value */
} icp_jinja_kind;

typedef struct icp_jinja_buffer {
    char *text;
    uint8_t *trust;
    size_t used;
    size_t capacity;
} icp_jinja_buffer;

typedef struct icp_jinja_string {
    const char *text;
    size_t bytes;
    const uint8_t *trust; /* one per byte, or NULL: each is as is_trusted says */
    bool is_trusted;
    bool is_markup;           /* came from safe or escape: + escapes what is added to it, as in Python's Markup */
    icp_jinja_buffer *buffer; /* that text lies in, or NULL */
} icp_jinja_string;

typedef struct icp_jinja_list icp_jinja_list;
typedef struct icp_jinja_dict icp_jinja_dict;
typedef struct icp_jinja_loop icp_jinja_loop;
typedef struct icp_jinja_macro icp_jinja_macro;
typedef struct icp_jinja_function icp_jinja_function;

typedef struct icp_jinja_value {
    icp_jinja_kind kind;
    union {
        bool boolean;
        int64_t integer;
        double number;
        const icp_jinja_string *string; /* of UNDEFINED: what is missing, for the error; or NULL */
        const icp_jinja_list *list;
        icp_jinja_dict *dict; /* of NAMESPACE too */
        icp_jinja_loop *loop;
        const icp_jinja_macro *macro;
        const icp_jinja_function *function;
    };
} icp_jinja_value;

struct icp_jinja_list {
    icp_jinja_value *items;
    size_t count;
    size_t capacity;
};

typedef struct icp_jinja_entry {
    icp_jinja_value key;
    icp_jinja_value value;
    uint64_t hash;
} icp_jinja_entry;

/* In the order of insertion. The index is made once there are more entries than are worth walking. */
struct icp_jinja_dict {
    icp_jinja_entry *entries;
    size_t count;
    size_t capacity;
    uint32_t *index; /* entry + 1, or 0; a power of two, less than 2/3 full */
    size_t index_count;
};

typedef struct icp_jinja_scope {
    struct icp_jinja_scope *parent;
    icp_jinja_dict names;
    bool is_kept; /* a macro looks into it: the next turn of the loop must not use it again */
} icp_jinja_scope;

/* ---- A render -------------------------------------------------------------------------------------------- */

typedef struct icp_jinja_run {
    icp_jinja_arena memory;
    icp_status status;
    icp_error error;
    uint32_t line;       /* of the template, for errors; 0: not in the template */
    uint64_t step_count; /* what is left of it is not kept: it is compared with step_count_max */
    uint64_t step_count_max;
    uint64_t byte_count;
    size_t text_bytes_max; /* of any string */
    uint32_t depth;
    int64_t now;
    icp_jinja_buffer *out;   /* where output goes now: the prompt, or the text of a macro or a set block */
    icp_jinja_scope *scope;  /* where names are looked up and set now */
    icp_jinja_scope globals; /* the render's variables */
    icp_jinja_value body;    /* the text of a filter or set block, while its filters run */
} icp_jinja_run;

static inline bool icp_jinja_is_failed(const icp_jinja_run *run)
{
    return run->status != ICP_OK;
}

/* Keeps the first failure: BAD_ARGUMENT with a sentence, after the line. Gives an undefined value, for return. */
icp_jinja_value icp_jinja_fail(icp_jinja_run *run, const char *format, ...) __attribute__((format(printf, 2, 3)));
void icp_jinja_fail_with(icp_jinja_run *run, icp_status status, const char *what);

/* Counts a step, and bytes that are walked or copied. False: the budget has run out, or something failed before. */
bool icp_jinja_step(icp_jinja_run *run, size_t bytes);
bool icp_jinja_charge(icp_jinja_run *run, size_t bytes); /* the bytes alone */

/* A level deeper, for whatever calls itself. False: too deep; then do not leave. */
bool icp_jinja_enter(icp_jinja_run *run);
void icp_jinja_leave(icp_jinja_run *run);

void *icp_jinja_take(icp_jinja_run *run, size_t bytes); /* NULL: failed, TOO_LONG or NO_MEMORY */

/* ---- Making values --------------------------------------------------------------------------------------- */

static inline icp_jinja_value icp_jinja_none(void)
{
    return (icp_jinja_value){.kind = ICP_JINJA_NONE};
}

static inline icp_jinja_value icp_jinja_bool(bool boolean)
{
    return (icp_jinja_value){.kind = ICP_JINJA_BOOL, .boolean = boolean};
}

static inline icp_jinja_value icp_jinja_int(int64_t integer)
{
    return (icp_jinja_value){.kind = ICP_JINJA_INT, .integer = integer};
}

static inline icp_jinja_value icp_jinja_float(double number)
{
    return (icp_jinja_value){.kind = ICP_JINJA_FLOAT, .number = number};
}

static inline icp_jinja_value icp_jinja_undefined(const icp_jinja_string *what)
{
    return (icp_jinja_value){.kind = ICP_JINJA_UNDEFINED, .string = what};
}

static inline icp_jinja_value icp_jinja_of_string(const icp_jinja_string *string)
{
    return (icp_jinja_value){.kind = ICP_JINJA_STRING, .string = string};
}

/* Text that stays where it is, all of it trusted or all of it data. */
icp_jinja_value icp_jinja_text(icp_jinja_run *run, const char *text, size_t bytes, bool is_trusted);
icp_jinja_value icp_jinja_data(icp_jinja_run *run, const char *text); /* copied; to the 0 */
icp_jinja_value icp_jinja_slice(icp_jinja_run *run, const icp_jinja_string *string, size_t start, size_t end);
icp_jinja_value icp_jinja_concat(icp_jinja_run *run, const icp_jinja_string *left, const icp_jinja_string *right);

/* ---- Building text --------------------------------------------------------------------------------------- */

/* NULL: failed. A buffer that is NULL may be appended to: then nothing happens. */
icp_jinja_buffer *icp_jinja_buffer_new(icp_jinja_run *run);
void icp_jinja_append(icp_jinja_run *run, icp_jinja_buffer *buffer, const icp_jinja_string *string);
void icp_jinja_append_slice(icp_jinja_run *run, icp_jinja_buffer *buffer, const icp_jinja_string *string, size_t start,
                            size_t end);
/* Bytes that are all trusted, or all data. */
void icp_jinja_append_bytes(icp_jinja_run *run, icp_jinja_buffer *buffer, const char *text, size_t bytes, bool trust);
void icp_jinja_append_data(icp_jinja_run *run, icp_jinja_buffer *buffer, const char *text); /* to the 0 */
icp_jinja_value icp_jinja_buffer_string(icp_jinja_run *run, icp_jinja_buffer *buffer);

static inline bool icp_jinja_trust_at(const icp_jinja_string *string, size_t at)
{
    return string->trust != NULL ? string->trust[at] != 0 : string->is_trusted;
}

/* ---- Lists and dicts ------------------------------------------------------------------------------------- */

icp_jinja_list *icp_jinja_list_new(icp_jinja_run *run, size_t capacity); /* NULL: failed */
void icp_jinja_list_add(icp_jinja_run *run, icp_jinja_list *list, icp_jinja_value item);
icp_jinja_value icp_jinja_of_list(const icp_jinja_list *list, icp_jinja_kind kind);
icp_jinja_value icp_jinja_pair(icp_jinja_run *run, icp_jinja_value first, icp_jinja_value second); /* a tuple */

icp_jinja_dict *icp_jinja_dict_new(icp_jinja_run *run);
void icp_jinja_dict_set(icp_jinja_run *run, icp_jinja_dict *dict, icp_jinja_value key, icp_jinja_value value);
/* NULL: it is not there. The entry moves when the dict grows. */
icp_jinja_entry *icp_jinja_dict_find(icp_jinja_run *run, const icp_jinja_dict *dict, icp_jinja_value key);
void icp_jinja_dict_clear(icp_jinja_dict *dict);
void icp_jinja_dict_set_text(icp_jinja_run *run, icp_jinja_dict *dict, const char *key, icp_jinja_value value);

/* ---- Asking values --------------------------------------------------------------------------------------- */

bool icp_jinja_is_true(icp_jinja_value value);
bool icp_jinja_is_number(icp_jinja_value value); /* bool, int or float */
bool icp_jinja_equal(icp_jinja_run *run, icp_jinja_value left, icp_jinja_value right);
/* Less than 0, 0, more than 0; fails where Python does not order the two. */
int icp_jinja_compare(icp_jinja_run *run, icp_jinja_value left, icp_jinja_value right);
bool icp_jinja_contains(icp_jinja_run *run, icp_jinja_value container, icp_jinja_value item);
double icp_jinja_number_of(icp_jinja_value value);   /* of a number */
int64_t icp_jinja_integer_of(icp_jinja_value value); /* of a bool or an int */
bool icp_jinja_is_text(const icp_jinja_string *string, const char *text);
const char *icp_jinja_type_name(icp_jinja_value value); /* as Python calls it: "dict" */
size_t icp_jinja_find(const icp_jinja_string *in, const icp_jinja_string *what, size_t from); /* SIZE_MAX: not there */
/* The items of whatever a for loop may walk, as a list; NULL: failed. */
const icp_jinja_list *icp_jinja_items(icp_jinja_run *run, icp_jinja_value value);
/* The value of an attribute, x.name or x["name"]; undefined where there is none. */
icp_jinja_value icp_jinja_get_item(icp_jinja_run *run, icp_jinja_value value, icp_jinja_value key);
icp_jinja_value icp_jinja_get_attribute(icp_jinja_run *run, icp_jinja_value value, const icp_jinja_string *name);
/* Fails with what is missing. */
icp_jinja_value icp_jinja_fail_undefined(icp_jinja_run *run, icp_jinja_value undefined);

#endif
