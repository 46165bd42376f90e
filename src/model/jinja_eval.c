/* jinja_eval.c - the value of an expression: a walk down the tree, a step for each node.
 *
 * Errors are kept in the run (see jinja_value.h): after one, every evaluation gives undefined at once. */
#include "model/jinja_eval.h"

#include <string.h>

/* ---- Names ----------------------------------------------------------------------------------------------- */

static icp_jinja_value bound_function(icp_jinja_run *run, const icp_jinja_builtin *builtin, icp_jinja_value self)
{
    icp_jinja_function *function = icp_jinja_take(run, sizeof(*function));
    if (function == NULL) return icp_jinja_undefined(NULL);
    *function = (icp_jinja_function){.builtin = builtin, .self = self};
    return (icp_jinja_value){.kind = ICP_JINJA_FUNCTION, .function = function};
}

icp_jinja_value icp_jinja_lookup(icp_jinja_run *run, const icp_jinja_string *name)
{
    for (const icp_jinja_scope *scope = run->scope; scope != NULL; scope = scope->parent) {
        const icp_jinja_entry *entry = icp_jinja_dict_find(run, &scope->names, icp_jinja_of_string(name));
        if (entry != NULL) return entry->value;
    }
    const icp_jinja_builtin *global = icp_jinja_builtin_find(icp_jinja_globals, name);
    if (global != NULL) return bound_function(run, global, icp_jinja_none());
    icp_jinja_buffer *text = icp_jinja_buffer_new(run);
    icp_jinja_append_data(run, text, "'");
    icp_jinja_append_slice(run, text, name, 0, name->bytes < 100 ? name->bytes : 100);
    icp_jinja_append_data(run, text, "' is undefined");
    return icp_jinja_undefined(icp_jinja_is_failed(run) ? NULL : icp_jinja_buffer_string(run, text).string);
}

/* ---- Calls ----------------------------------------------------------------------------------------------- */

const icp_jinja_builtin *icp_jinja_builtin_find(const icp_jinja_builtin *table, const icp_jinja_string *name)
{
    for (; table->name != NULL; table++) {
        if (icp_jinja_is_text(name, table->name)) return table;
    }
    return NULL;
}

/* The place of a parameter in "old! new! count"; SIZE_MAX: there is none of that name. */
static size_t parameter_of(const char *parameters, const icp_jinja_string *name)
{
    for (size_t place = 0; *parameters != '\0'; place++) {
        size_t bytes = strcspn(parameters, " !");
        if (bytes == name->bytes && memcmp(parameters, name->text, bytes) == 0) return place;
        parameters += strcspn(parameters, " ");
        parameters += *parameters == ' ';
    }
    return SIZE_MAX;
}

static bool bind(icp_jinja_run *run, const icp_jinja_builtin *builtin, icp_jinja_call *call)
{
    const char *at = builtin->parameters;
    size_t count = 0;
    for (size_t i = 0; i < ICP_JINJA_PARAMETER_COUNT_MAX; i++) call->bound[i].kind = ICP_JINJA_ABSENT;
    for (; *at != '\0'; count++) {
        if (count < call->argument_count) call->bound[count] = call->arguments[count];
        at += strcspn(at, " ");
        at += *at == ' ';
    }
    if (call->argument_count > count) {
        icp_jinja_fail(run, "%s takes %zu arguments, not %zu", builtin->name, count, call->argument_count);
        return false;
    }
    for (size_t i = 0; i < call->named_count; i++) {
        const icp_jinja_string *name = call->named[i].key.string;
        size_t place = parameter_of(builtin->parameters, name);
        if (place == SIZE_MAX || place < call->argument_count) {
            icp_jinja_fail(run, "%s has no argument '%.*s' here", builtin->name,
                           (int)(name->bytes < 40 ? name->bytes : 40), name->text);
            return false;
        }
        call->bound[place] = call->named[i].value;
    }
    at = builtin->parameters;
    for (size_t i = 0; i < count; i++) {
        size_t bytes = strcspn(at, " ");
        if (at[bytes - 1] == '!' && call->bound[i].kind == ICP_JINJA_ABSENT) {
            icp_jinja_fail(run, "%s lacks its argument '%.*s'", builtin->name, (int)bytes - 1, at);
            return false;
        }
        at += bytes + (at[bytes] == ' ');
    }
    return true;
}

icp_jinja_value icp_jinja_call_builtin(icp_jinja_run *run, const icp_jinja_builtin *builtin, icp_jinja_call *call)
{
    icp_jinja_value value = icp_jinja_undefined(NULL);
    if (!icp_jinja_step(run, 0) || !icp_jinja_enter(run)) return value;
    if (builtin->parameters == NULL || bind(run, builtin, call)) value = builtin->run(run, call);
    icp_jinja_leave(run);
    return value;
}

static void add_named(icp_jinja_run *run, icp_jinja_dict *named, icp_jinja_value key, icp_jinja_value value)
{
    if (key.kind != ICP_JINJA_STRING) {
        icp_jinja_fail(run, "names of arguments must be strings");
    } else if (icp_jinja_dict_find(run, named, key) != NULL) {
        icp_jinja_fail(run, "an argument is given twice");
    } else {
        icp_jinja_dict_set(run, named, key, value);
    }
}

/* The arguments of a call, filter or test. */
static icp_jinja_call evaluate_arguments(icp_jinja_run *run, const icp_jinja_node *node)
{
    icp_jinja_call call = {0};
    if (node->argument_count == 0) return call;
    icp_jinja_list *list = icp_jinja_list_new(run, node->argument_count);
    icp_jinja_dict *named = icp_jinja_dict_new(run);
    for (uint32_t i = 0; i < node->argument_count && !icp_jinja_is_failed(run); i++) {
        const icp_jinja_argument *argument = &node->arguments[i];
        icp_jinja_value value = icp_jinja_evaluate(run, argument->value);
        if (argument->star == ICP_STAR_LIST) {
            const icp_jinja_list *more = icp_jinja_items(run, value);
            for (size_t j = 0; more != NULL && j < more->count; j++) icp_jinja_list_add(run, list, more->items[j]);
        } else if (argument->star == ICP_STAR_DICT) {
            if (value.kind != ICP_JINJA_DICT) icp_jinja_fail(run, "what follows ** must be a mapping");
            for (size_t j = 0; !icp_jinja_is_failed(run) && j < value.dict->count; j++) {
                add_named(run, named, value.dict->entries[j].key, value.dict->entries[j].value);
            }
        } else if (argument->name != NULL) {
            add_named(run, named, icp_jinja_of_string(argument->name), value);
        } else {
            icp_jinja_list_add(run, list, value);
        }
    }
    if (icp_jinja_is_failed(run)) return call;
    call.arguments = list->items;
    call.argument_count = list->count;
    call.named = named->entries;
    call.named_count = named->count;
    return call;
}

icp_jinja_value icp_jinja_call_node(icp_jinja_run *run, const icp_jinja_node *node, icp_jinja_value caller)
{
    icp_jinja_value callee = icp_jinja_evaluate(run, node->left);
    icp_jinja_call call = evaluate_arguments(run, node);
    if (icp_jinja_is_failed(run)) return icp_jinja_undefined(NULL);
    run->line = node->line;
    if (callee.kind == ICP_JINJA_MACRO) return icp_jinja_call_macro(run, callee.macro, &call, caller);
    if (callee.kind == ICP_JINJA_FUNCTION) {
        call.self = callee.function->self;
        return icp_jinja_call_builtin(run, callee.function->builtin, &call);
    }
    if (callee.kind == ICP_JINJA_UNDEFINED) return icp_jinja_fail_undefined(run, callee);
    return icp_jinja_fail(run, "'%s' object is not callable", icp_jinja_type_name(callee));
}

/* A filter or a test. */
static icp_jinja_value evaluate_builtin(icp_jinja_run *run, const icp_jinja_node *node)
{
    if (node->builtin == NULL) {
        return icp_jinja_fail(run, "there is no %s named '%.*s'", node->kind == ICP_NODE_FILTER ? "filter" : "test",
                              (int)(node->name->bytes < 80 ? node->name->bytes : 80), node->name->text);
    }
    icp_jinja_value self = icp_jinja_evaluate(run, node->left);
    icp_jinja_call call = evaluate_arguments(run, node);
    call.self = self;
    run->line = node->line;
    return icp_jinja_call_builtin(run, node->builtin, &call);
}

/* ---- Arguments of builtins ------------------------------------------------------------------------------- */

int64_t icp_jinja_argument_int(icp_jinja_run *run, icp_jinja_value value, int64_t otherwise)
{
    if (value.kind == ICP_JINJA_ABSENT) return otherwise;
    if (value.kind == ICP_JINJA_INT || value.kind == ICP_JINJA_BOOL) return icp_jinja_integer_of(value);
    if (value.kind == ICP_JINJA_UNDEFINED) icp_jinja_fail_undefined(run, value);
    icp_jinja_fail(run, "an integer is wanted, not '%s'", icp_jinja_type_name(value));
    return otherwise;
}

bool icp_jinja_argument_bool(icp_jinja_value value, bool otherwise)
{
    return value.kind == ICP_JINJA_ABSENT ? otherwise : icp_jinja_is_true(value);
}

const icp_jinja_string *icp_jinja_argument_string(icp_jinja_run *run, icp_jinja_value value, const char *otherwise)
{
    if (value.kind == ICP_JINJA_STRING) return value.string;
    if (value.kind == ICP_JINJA_UNDEFINED) icp_jinja_fail_undefined(run, value);
    if (value.kind != ICP_JINJA_ABSENT) icp_jinja_fail(run, "a string is wanted, not '%s'", icp_jinja_type_name(value));
    return icp_jinja_text(run, otherwise, strlen(otherwise), true).string;
}

/* ---- Expressions ----------------------------------------------------------------------------------------- */

static icp_jinja_value evaluate_list(icp_jinja_run *run, const icp_jinja_node *node, icp_jinja_kind kind)
{
    icp_jinja_list *list = icp_jinja_list_new(run, node->item_count);
    for (uint32_t i = 0; i < node->item_count && list != NULL; i++) {
        icp_jinja_list_add(run, list, icp_jinja_evaluate(run, node->items[i]));
    }
    return icp_jinja_of_list(list, kind);
}

static icp_jinja_value evaluate_dict(icp_jinja_run *run, const icp_jinja_node *node)
{
    icp_jinja_dict *dict = icp_jinja_dict_new(run);
    for (uint32_t i = 0; i + 1 < node->item_count && dict != NULL; i += 2) {
        icp_jinja_value key = icp_jinja_evaluate(run, node->items[i]);
        icp_jinja_dict_set(run, dict, key, icp_jinja_evaluate(run, node->items[i + 1]));
    }
    if (icp_jinja_is_failed(run)) return icp_jinja_undefined(NULL);
    return (icp_jinja_value){.kind = ICP_JINJA_DICT, .dict = dict};
}

static bool compare_once(icp_jinja_run *run, icp_jinja_op op, icp_jinja_value left, icp_jinja_value right)
{
    double l = icp_jinja_is_number(left) ? icp_jinja_number_of(left) : 0;
    double r = icp_jinja_is_number(right) ? icp_jinja_number_of(right) : 0;
    if ((l != l || r != r) && op >= ICP_OP_LESS && op <= ICP_OP_MORE_EQUAL) return false; /* not a number */
    switch (op) {
    case ICP_OP_EQUAL:
        return icp_jinja_equal(run, left, right);
    case ICP_OP_NOT_EQUAL:
        return !icp_jinja_equal(run, left, right);
    case ICP_OP_LESS:
        return icp_jinja_compare(run, left, right) < 0;
    case ICP_OP_LESS_EQUAL:
        return icp_jinja_compare(run, left, right) <= 0;
    case ICP_OP_MORE:
        return icp_jinja_compare(run, left, right) > 0;
    case ICP_OP_MORE_EQUAL:
        return icp_jinja_compare(run, left, right) >= 0;
    case ICP_OP_IN:
        return icp_jinja_contains(run, right, left);
    default:
        return !icp_jinja_contains(run, right, left);
    }
}

/* a < b < c is a < b and b < c. */
static icp_jinja_value evaluate_comparison(icp_jinja_run *run, const icp_jinja_node *node)
{
    icp_jinja_value left = icp_jinja_evaluate(run, node->left);
    bool is_true = true;
    for (uint32_t i = 0; i < node->item_count && is_true && !icp_jinja_is_failed(run); i++) {
        icp_jinja_value right = icp_jinja_evaluate(run, node->items[i]);
        is_true = !icp_jinja_is_failed(run) && compare_once(run, node->ops[i], left, right);
        left = right;
    }
    return icp_jinja_bool(is_true);
}

static icp_jinja_value evaluate_concat(icp_jinja_run *run, const icp_jinja_node *node)
{
    const icp_jinja_string *text = icp_jinja_text(run, "", 0, true).string;
    for (uint32_t i = 0; i < node->item_count && !icp_jinja_is_failed(run); i++) {
        icp_jinja_value value = icp_jinja_evaluate(run, node->items[i]);
        text = icp_jinja_concat(run, text, icp_jinja_string_of(run, value)).string;
    }
    return text->is_markup ? icp_jinja_slice(run, text, 0, text->bytes) : icp_jinja_of_string(text);
}

static icp_jinja_value evaluate_slice(icp_jinja_run *run, const icp_jinja_node *node)
{
    icp_jinja_value value = icp_jinja_evaluate(run, node->left), bounds[3];
    for (uint32_t i = 0; i < 3; i++) {
        bounds[i] = node->items[i] == NULL ? (icp_jinja_value){.kind = ICP_JINJA_ABSENT}
                                           : icp_jinja_evaluate(run, node->items[i]);
    }
    return icp_jinja_is_failed(run) ? value : icp_jinja_cut(run, value, bounds);
}

static icp_jinja_value evaluate_condition(icp_jinja_run *run, const icp_jinja_node *node)
{
    if (icp_jinja_is_true(icp_jinja_evaluate(run, node->test))) return icp_jinja_evaluate(run, node->left);
    if (node->right != NULL) return icp_jinja_evaluate(run, node->right);
    return icp_jinja_undefined(NULL);
}

static icp_jinja_value evaluate_item(icp_jinja_run *run, const icp_jinja_node *node)
{
    icp_jinja_value value = icp_jinja_evaluate(run, node->left);
    icp_jinja_value key = icp_jinja_evaluate(run, node->right);
    if (icp_jinja_is_failed(run)) return value;
    run->line = node->line;
    return icp_jinja_get_item(run, value, key);
}

static icp_jinja_value evaluate_operation(icp_jinja_run *run, const icp_jinja_node *node)
{
    icp_jinja_value left = icp_jinja_evaluate(run, node->left);
    switch (node->kind) {
    case ICP_NODE_NOT:
        return icp_jinja_bool(!icp_jinja_is_true(left));
    case ICP_NODE_UNARY:
        return icp_jinja_negate(run, left, node->op == ICP_OP_SUBTRACT);
    case ICP_NODE_AND:
        return icp_jinja_is_true(left) ? icp_jinja_evaluate(run, node->right) : left;
    case ICP_NODE_OR:
        return icp_jinja_is_true(left) ? left : icp_jinja_evaluate(run, node->right);
    default:
        return icp_jinja_binary(run, node->op, left, icp_jinja_evaluate(run, node->right));
    }
}

static icp_jinja_value evaluate_node(icp_jinja_run *run, const icp_jinja_node *node)
{
    switch (node->kind) {
    case ICP_NODE_CONSTANT:
        return node->value;
    case ICP_NODE_NAME:
        return icp_jinja_lookup(run, node->name);
    case ICP_NODE_LIST:
        return evaluate_list(run, node, ICP_JINJA_LIST);
    case ICP_NODE_TUPLE:
        return evaluate_list(run, node, ICP_JINJA_TUPLE);
    case ICP_NODE_DICT:
        return evaluate_dict(run, node);
    case ICP_NODE_COMPARE:
        return evaluate_comparison(run, node);
    case ICP_NODE_CONCAT:
        return evaluate_concat(run, node);
    case ICP_NODE_CONDITION:
        return evaluate_condition(run, node);
    case ICP_NODE_ATTRIBUTE:
        return icp_jinja_get_attribute(run, icp_jinja_evaluate(run, node->left), node->name);
    case ICP_NODE_ITEM:
        return evaluate_item(run, node);
    case ICP_NODE_SLICE:
        return evaluate_slice(run, node);
    case ICP_NODE_CALL:
        return icp_jinja_call_node(run, node, (icp_jinja_value){.kind = ICP_JINJA_ABSENT});
    case ICP_NODE_FILTER:
    case ICP_NODE_TEST:
        return evaluate_builtin(run, node);
    case ICP_NODE_BODY_TEXT:
        return run->body;
    default:
        return evaluate_operation(run, node);
    }
}

icp_jinja_value icp_jinja_evaluate(icp_jinja_run *run, const icp_jinja_node *node)
{
    if (!icp_jinja_step(run, 0) || !icp_jinja_enter(run)) return icp_jinja_undefined(NULL);
    run->line = node->line;
    icp_jinja_value value = evaluate_node(run, node);
    icp_jinja_leave(run);
    return icp_jinja_is_failed(run) ? icp_jinja_undefined(NULL) : value;
}
