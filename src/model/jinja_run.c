/* jinja_run.c - the statements of a template: output, branches, loops, assignments, macros.
 *
 * SCOPES. A for loop (each turn of it), a macro call, a set, filter or with block open a scope; an if does not. A name
 * is set in the innermost scope and looked up from there outwards; a macro looks into the scopes where it was defined.
 * So a set in a loop ends with the turn, and what must outlive it is a field of a namespace, as in Jinja.
 *
 * LOOPS. Items that the loop's own "if" lets pass are found one at a time, since the test may ask a namespace that the
 * body changes; only loop.last, loop.length and the like look ahead. */
#include "model/jinja_eval.h"

#include <stdio.h>

typedef enum flow { FLOW_NEXT, FLOW_BREAK, FLOW_CONTINUE } flow;

struct icp_jinja_loop {
    const icp_jinja_node *node;
    icp_jinja_scope *scope; /* around the loop */
    const icp_jinja_list *source;
    size_t source_at;
    icp_jinja_list *passed; /* NULL: there is no test, all of source passes */
    size_t index;
    size_t depth;
    icp_jinja_value changed; /* what loop.changed was asked last */
};

static flow execute(icp_jinja_run *run, const icp_jinja_node *node);

/* ---- Scopes ---------------------------------------------------------------------------------------------- */

static icp_jinja_scope *scope_new(icp_jinja_run *run, icp_jinja_scope *parent)
{
    icp_jinja_scope *scope = icp_jinja_take(run, sizeof(*scope));
    if (scope != NULL) scope->parent = parent;
    return scope;
}

/* An empty scope for the next turn of a loop: the one of the turn before, unless it is kept. */
static icp_jinja_scope *scope_again(icp_jinja_run *run, icp_jinja_scope *scope, icp_jinja_scope *parent)
{
    if (scope == NULL || scope->is_kept) return scope_new(run, parent);
    icp_jinja_dict_clear(&scope->names);
    return scope;
}

static void assign_items(icp_jinja_run *run, const icp_jinja_node *target, icp_jinja_value value);

static void assign(icp_jinja_run *run, const icp_jinja_node *target, icp_jinja_value value)
{
    if (icp_jinja_is_failed(run)) return;
    if (target->kind == ICP_NODE_NAME) {
        icp_jinja_dict_set(run, &run->scope->names, icp_jinja_of_string(target->name), value);
    } else if (target->kind == ICP_NODE_ATTRIBUTE) {
        icp_jinja_value object = icp_jinja_evaluate(run, target->left);
        if (icp_jinja_is_failed(run)) return;
        if (object.kind != ICP_JINJA_NAMESPACE) {
            icp_jinja_fail(run, "cannot assign attribute on non-namespace object");
            return;
        }
        icp_jinja_dict_set(run, object.dict, icp_jinja_of_string(target->name), value);
    } else {
        assign_items(run, target, value);
    }
}

static void assign_items(icp_jinja_run *run, const icp_jinja_node *target, icp_jinja_value value)
{
    const icp_jinja_list *items = icp_jinja_items(run, value);
    if (items == NULL) return;
    if (items->count != target->item_count) {
        icp_jinja_fail(run, "%s values to unpack (expected %u, got %zu)",
                       items->count < target->item_count ? "not enough" : "too many", (unsigned)target->item_count,
                       items->count);
        return;
    }
    for (uint32_t i = 0; i < target->item_count; i++) assign(run, target->items[i], items->items[i]);
}

/* The text that the body writes, in a scope of its own. */
static icp_jinja_value capture(icp_jinja_run *run, const icp_jinja_node *body, icp_jinja_scope *scope)
{
    icp_jinja_buffer *out = run->out;
    icp_jinja_scope *outer = run->scope;
    icp_jinja_buffer *buffer = icp_jinja_buffer_new(run);
    if (buffer == NULL || scope == NULL) return icp_jinja_undefined(NULL);
    run->out = buffer;
    run->scope = scope;
    execute(run, body);
    run->out = out;
    run->scope = outer;
    return icp_jinja_buffer_string(run, buffer);
}

/* ---- Loops ----------------------------------------------------------------------------------------------- */

static bool passes(icp_jinja_run *run, icp_jinja_loop *loop, icp_jinja_value item)
{
    icp_jinja_scope *outer = run->scope;
    icp_jinja_scope *scope = scope_new(run, loop->scope);
    if (scope == NULL) return false;
    run->scope = scope;
    assign(run, loop->node->target, item);
    bool is_true = icp_jinja_is_true(icp_jinja_evaluate(run, loop->node->test));
    run->scope = outer;
    return is_true;
}

/* True where the loop has an item of that index; looks for it as far as it must. */
static bool loop_has(icp_jinja_run *run, icp_jinja_loop *loop, size_t index)
{
    if (loop->passed == NULL) return index < loop->source->count;
    while (loop->passed->count <= index && loop->source_at < loop->source->count && !icp_jinja_is_failed(run)) {
        icp_jinja_value item = loop->source->items[loop->source_at++];
        if (passes(run, loop, item)) icp_jinja_list_add(run, loop->passed, item);
    }
    return index < loop->passed->count && !icp_jinja_is_failed(run);
}

static icp_jinja_value loop_item(const icp_jinja_loop *loop, size_t index)
{
    return loop->passed == NULL ? loop->source->items[index] : loop->passed->items[index];
}

static int64_t loop_length(icp_jinja_run *run, icp_jinja_loop *loop)
{
    loop_has(run, loop, SIZE_MAX);
    return (int64_t)(loop->passed == NULL ? loop->source->count : loop->passed->count);
}

static icp_jinja_value loop_cycle(icp_jinja_run *run, const icp_jinja_call *call)
{
    if (call->argument_count == 0) return icp_jinja_fail(run, "no items for cycling given");
    return call->arguments[call->self.loop->index % call->argument_count];
}

static icp_jinja_value loop_changed(icp_jinja_run *run, const icp_jinja_call *call)
{
    icp_jinja_list *values = icp_jinja_list_new(run, call->argument_count);
    if (values == NULL) return icp_jinja_undefined(NULL);
    for (size_t i = 0; i < call->argument_count; i++) icp_jinja_list_add(run, values, call->arguments[i]);
    icp_jinja_value now = icp_jinja_of_list(values, ICP_JINJA_TUPLE);
    bool is_changed = !icp_jinja_equal(run, now, call->self.loop->changed);
    call->self.loop->changed = now;
    return icp_jinja_bool(is_changed);
}

static const icp_jinja_builtin loop_methods[] = {{"cycle", NULL, loop_cycle}, {"changed", NULL, loop_changed}, {0}};

icp_jinja_value icp_jinja_loop_field(icp_jinja_run *run, icp_jinja_loop *loop, const icp_jinja_string *name)
{
    int64_t index = (int64_t)loop->index;
    if (icp_jinja_is_text(name, "index")) return icp_jinja_int(index + 1);
    if (icp_jinja_is_text(name, "index0")) return icp_jinja_int(index);
    if (icp_jinja_is_text(name, "first")) return icp_jinja_bool(index == 0);
    if (icp_jinja_is_text(name, "last")) return icp_jinja_bool(!loop_has(run, loop, loop->index + 1));
    if (icp_jinja_is_text(name, "length")) return icp_jinja_int(loop_length(run, loop));
    if (icp_jinja_is_text(name, "revindex")) return icp_jinja_int(loop_length(run, loop) - index);
    if (icp_jinja_is_text(name, "revindex0")) return icp_jinja_int(loop_length(run, loop) - index - 1);
    if (icp_jinja_is_text(name, "depth")) return icp_jinja_int(1);
    if (icp_jinja_is_text(name, "depth0")) return icp_jinja_int(0);
    if (icp_jinja_is_text(name, "previtem")) {
        return index == 0 ? icp_jinja_undefined(icp_jinja_data(run, "there is no previous item").string)
                          : loop_item(loop, loop->index - 1);
    }
    if (icp_jinja_is_text(name, "nextitem")) {
        return loop_has(run, loop, loop->index + 1)
                   ? loop_item(loop, loop->index + 1)
                   : icp_jinja_undefined(icp_jinja_data(run, "there is no next item").string);
    }
    const icp_jinja_builtin *method = icp_jinja_builtin_find(loop_methods, name);
    icp_jinja_function *function = method == NULL ? NULL : icp_jinja_take(run, sizeof(*function));
    if (function == NULL) return (icp_jinja_value){.kind = ICP_JINJA_ABSENT};
    *function = (icp_jinja_function){method, {.kind = ICP_JINJA_LOOP, .loop = loop}};
    return (icp_jinja_value){.kind = ICP_JINJA_FUNCTION, .function = function};
}

static void execute_for(icp_jinja_run *run, const icp_jinja_node *node)
{
    static const icp_jinja_string loop_name = {.text = "loop", .bytes = 4, .is_trusted = true};
    icp_jinja_scope *outer = run->scope;
    icp_jinja_loop *loop = icp_jinja_take(run, sizeof(*loop));
    icp_jinja_value value = icp_jinja_evaluate(run, node->left);
    const icp_jinja_list *source = icp_jinja_items(run, value);
    if (loop == NULL || source == NULL) return;
    *loop = (icp_jinja_loop){.node = node, .scope = outer, .source = source};
    if (node->test != NULL) loop->passed = icp_jinja_list_new(run, 0);
    bool is_empty = !loop_has(run, loop, 0);
    icp_jinja_scope *scope = NULL;
    for (; loop_has(run, loop, loop->index); loop->index++) {
        scope = scope_again(run, scope, outer);
        if (scope == NULL || !icp_jinja_step(run, 0)) break;
        run->scope = scope;
        icp_jinja_dict_set(run, &scope->names, icp_jinja_of_string(&loop_name),
                           (icp_jinja_value){.kind = ICP_JINJA_LOOP, .loop = loop});
        assign(run, node->target, loop_item(loop, loop->index));
        if (execute(run, node->body) == FLOW_BREAK) break;
    }
    run->scope = outer;
    if (!is_empty || node->right == NULL || icp_jinja_is_failed(run)) return;
    scope = scope_new(run, outer);
    if (scope == NULL) return;
    run->scope = scope;
    execute(run, node->right);
    run->scope = outer;
}

/* ---- Macros ---------------------------------------------------------------------------------------------- */

/* Arguments by position, then by name, then the defaults, which may use the parameters before them. */
static void bind_parameters(icp_jinja_run *run, const icp_jinja_macro *macro, const icp_jinja_call *call)
{
    const icp_jinja_node *node = macro->node;
    icp_jinja_dict *names = &run->scope->names;
    if (call->argument_count > node->argument_count) {
        icp_jinja_fail(run, "a macro takes %u arguments, not %zu", (unsigned)node->argument_count,
                       call->argument_count);
    }
    for (size_t i = 0; i < call->named_count; i++) {
        const icp_jinja_string *name = call->named[i].key.string;
        bool is_known = false;
        for (size_t j = call->argument_count; j < node->argument_count && !is_known; j++) {
            is_known = icp_jinja_equal(run, icp_jinja_of_string(node->arguments[j].name), call->named[i].key);
        }
        if (!is_known) {
            icp_jinja_fail(run, "a macro has no argument '%.*s' here", (int)(name->bytes < 40 ? name->bytes : 40),
                           name->text);
        }
    }
    for (uint32_t i = 0; i < node->argument_count && !icp_jinja_is_failed(run); i++) {
        icp_jinja_value key = icp_jinja_of_string(node->arguments[i].name), value = icp_jinja_undefined(NULL);
        bool is_given = i < call->argument_count;
        if (is_given) value = call->arguments[i];
        for (size_t j = 0; j < call->named_count && !is_given; j++) {
            is_given = icp_jinja_equal(run, call->named[j].key, key);
            if (is_given) value = call->named[j].value;
        }
        if (!is_given && node->arguments[i].value != NULL) {
            value = icp_jinja_evaluate(run, node->arguments[i].value);
        } else if (!is_given) {
            char what[96];
            snprintf(what, sizeof(what), "parameter '%.*s' was not provided",
                     (int)(key.string->bytes < 60 ? key.string->bytes : 60), key.string->text);
            value = icp_jinja_undefined(icp_jinja_data(run, what).string);
        }
        icp_jinja_dict_set(run, names, key, value);
    }
}

icp_jinja_value icp_jinja_call_macro(icp_jinja_run *run, const icp_jinja_macro *macro, const icp_jinja_call *call,
                                     icp_jinja_value caller)
{
    icp_jinja_scope *outer = run->scope;
    icp_jinja_scope *scope = scope_new(run, macro->scope);
    if (scope == NULL || !icp_jinja_enter(run)) return icp_jinja_undefined(NULL);
    run->scope = scope;
    bind_parameters(run, macro, call);
    if (caller.kind != ICP_JINJA_ABSENT) icp_jinja_dict_set_text(run, &scope->names, "caller", caller);
    icp_jinja_value text = icp_jinja_undefined(NULL);
    if (!icp_jinja_is_failed(run)) text = capture(run, macro->node->body, scope);
    run->scope = outer;
    icp_jinja_leave(run);
    return text;
}

static icp_jinja_value macro_new(icp_jinja_run *run, const icp_jinja_node *node)
{
    icp_jinja_macro *macro = icp_jinja_take(run, sizeof(*macro));
    if (macro == NULL) return icp_jinja_undefined(NULL);
    *macro = (icp_jinja_macro){.node = node, .scope = run->scope};
    for (icp_jinja_scope *scope = run->scope; scope != NULL && !scope->is_kept; scope = scope->parent) {
        scope->is_kept = true;
    }
    return (icp_jinja_value){.kind = ICP_JINJA_MACRO, .macro = macro};
}

/* {% call(x) name(...) %}: the macro gets the body as caller(x). */
static void execute_call(icp_jinja_run *run, const icp_jinja_node *node)
{
    icp_jinja_value caller = macro_new(run, node);
    icp_jinja_value text = icp_jinja_call_node(run, node->left, caller);
    if (!icp_jinja_is_failed(run)) icp_jinja_print(run, run->out, text);
}

/* ---- Statements ------------------------------------------------------------------------------------------ */

/* The text of the body, through the filters of left. */
static icp_jinja_value filtered_body(icp_jinja_run *run, const icp_jinja_node *node)
{
    icp_jinja_value text = capture(run, node->body, scope_new(run, run->scope)), before = run->body;
    if (icp_jinja_is_failed(run)) return text;
    run->body = text;
    icp_jinja_value value = icp_jinja_evaluate(run, node->left);
    run->body = before;
    return value;
}

static flow execute_if(icp_jinja_run *run, const icp_jinja_node *node)
{
    for (uint32_t i = 0; i + 1 < node->item_count; i += 2) {
        bool is_true = icp_jinja_is_true(icp_jinja_evaluate(run, node->items[i]));
        if (icp_jinja_is_failed(run)) return FLOW_NEXT;
        if (is_true) return execute(run, node->items[i + 1]);
    }
    return node->right == NULL ? FLOW_NEXT : execute(run, node->right);
}

static flow execute_scoped(icp_jinja_run *run, const icp_jinja_node *node)
{
    icp_jinja_scope *outer = run->scope;
    icp_jinja_scope *scope = scope_new(run, outer);
    if (scope == NULL) return FLOW_NEXT;
    for (uint32_t i = 0; i < node->argument_count; i++) {
        icp_jinja_value value = icp_jinja_evaluate(run, node->arguments[i].value);
        icp_jinja_dict_set(run, &scope->names, icp_jinja_of_string(node->arguments[i].name), value);
    }
    run->scope = scope;
    flow next = execute(run, node->body);
    run->scope = outer;
    return next;
}

static flow execute_block(icp_jinja_run *run, const icp_jinja_node *node)
{
    flow next = FLOW_NEXT;
    for (uint32_t i = 0; i < node->item_count && next == FLOW_NEXT && !icp_jinja_is_failed(run); i++) {
        next = execute(run, node->items[i]);
    }
    return next;
}

static flow execute_node(icp_jinja_run *run, const icp_jinja_node *node)
{
    switch (node->kind) {
    case ICP_NODE_BLOCK:
        return execute_block(run, node);
    case ICP_NODE_CONSTANT:
        icp_jinja_append(run, run->out, node->value.string);
        break;
    case ICP_NODE_PRINT:
        icp_jinja_print(run, run->out, icp_jinja_evaluate(run, node->left));
        break;
    case ICP_NODE_IF:
        return execute_if(run, node);
    case ICP_NODE_FOR:
        execute_for(run, node);
        break;
    case ICP_NODE_SET:
        assign(run, node->target, icp_jinja_evaluate(run, node->left));
        break;
    case ICP_NODE_SET_BLOCK:
        assign(run, node->target, filtered_body(run, node));
        break;
    case ICP_NODE_FILTER_BLOCK:
        icp_jinja_print(run, run->out, filtered_body(run, node));
        break;
    case ICP_NODE_MACRO:
        icp_jinja_dict_set(run, &run->scope->names, icp_jinja_of_string(node->name), macro_new(run, node));
        break;
    case ICP_NODE_CALL_MACRO:
        execute_call(run, node);
        break;
    case ICP_NODE_BREAK:
        return FLOW_BREAK;
    case ICP_NODE_CONTINUE:
        return FLOW_CONTINUE;
    default: /* WITH and SCOPE */
        return execute_scoped(run, node);
    }
    return FLOW_NEXT;
}

static flow execute(icp_jinja_run *run, const icp_jinja_node *node)
{
    if (!icp_jinja_step(run, 0) || !icp_jinja_enter(run)) return FLOW_NEXT;
    run->line = node->line;
    flow next = execute_node(run, node);
    icp_jinja_leave(run);
    return next;
}

void icp_jinja_execute(icp_jinja_run *run, const icp_jinja_node *tree)
{
    execute(run, tree);
}
