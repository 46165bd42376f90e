/* jinja_parser.c - expressions of a template as a tree.
 *
 * One function for each level of binding, the loosest first, in Jinja's order:
 *
 *      a if b else c | or | and | not | == in ... | + - | ~ | * / // % | ** | -a | a.b a[b] a(b) | a|f a is t
 *
 * Statements are in jinja_statement.c. After a failure every token is END, so each function here comes to its end. */
#include "model/jinja_node.h"

#include "model/jinja_eval.h"

#include <string.h>

/* ---- Tokens ---------------------------------------------------------------------------------------------- */

void icp_jinja_parser_step(icp_jinja_parser *parser)
{
    parser->token = parser->next;
    parser->next = icp_jinja_lexer_next(&parser->lexer);
    if (icp_jinja_is_failed(parser->run)) parser->token.kind = parser->next.kind = ICP_JINJA_TOKEN_END;
    if (!icp_jinja_is_failed(parser->run)) parser->run->line = parser->token.line;
}

static bool token_is(const icp_jinja_token *token, icp_jinja_token_kind kind, const char *text)
{
    return token->kind == kind && token->bytes == strlen(text) && memcmp(token->text, text, token->bytes) == 0;
}

bool icp_jinja_parser_is(const icp_jinja_parser *parser, const char *operator_text)
{
    return token_is(&parser->token, ICP_JINJA_TOKEN_OPERATOR, operator_text);
}

bool icp_jinja_parser_is_name(const icp_jinja_parser *parser, const char *name)
{
    return token_is(&parser->token, ICP_JINJA_TOKEN_NAME, name);
}

bool icp_jinja_parser_skip(icp_jinja_parser *parser, const char *operator_text)
{
    if (!icp_jinja_parser_is(parser, operator_text)) return false;
    icp_jinja_parser_step(parser);
    return true;
}

bool icp_jinja_parser_skip_name(icp_jinja_parser *parser, const char *name)
{
    if (!icp_jinja_parser_is_name(parser, name)) return false;
    icp_jinja_parser_step(parser);
    return true;
}

static void fail_token(icp_jinja_parser *parser, const char *wanted)
{
    const icp_jinja_token *token = &parser->token;
    if (token->kind == ICP_JINJA_TOKEN_NAME || token->kind == ICP_JINJA_TOKEN_OPERATOR) {
        icp_jinja_fail(parser->run, "%s was expected, not '%.*s'", wanted, (int)(token->bytes < 40 ? token->bytes : 40),
                       token->text);
        return;
    }
    static const char *const names[] = {
        "the end of the template", "text", "{{", "}}", "{%", "%}", "a name", "a string", "a number", "an operator"};
    icp_jinja_fail(parser->run, "%s was expected, not %s", wanted, names[token->kind]);
}

void icp_jinja_parser_expect(icp_jinja_parser *parser, const char *operator_text)
{
    if (!icp_jinja_parser_skip(parser, operator_text)) fail_token(parser, operator_text);
}

const icp_jinja_string *icp_jinja_parser_take_name(icp_jinja_parser *parser)
{
    icp_jinja_token token = parser->token;
    if (token.kind != ICP_JINJA_TOKEN_NAME) {
        fail_token(parser, "a name");
        token = (icp_jinja_token){.text = "", .bytes = 0};
    }
    icp_jinja_parser_step(parser);
    return icp_jinja_text(parser->run, token.text, token.bytes, true).string;
}

/* ---- Nodes ----------------------------------------------------------------------------------------------- */

static icp_jinja_node no_node = {.kind = ICP_NODE_CONSTANT, .value = {.kind = ICP_JINJA_NONE}};

icp_jinja_node *icp_jinja_parser_node(icp_jinja_parser *parser, icp_jinja_node_kind kind)
{
    icp_jinja_node *node = icp_jinja_is_failed(parser->run) ? NULL : icp_jinja_take(parser->run, sizeof(*node));
    if (node == NULL) return &no_node;
    node->kind = kind;
    node->line = parser->token.line;
    return node;
}

static uint32_t deeper(uint32_t depth, const icp_jinja_node *part)
{
    return part != NULL && part->depth > depth ? part->depth : depth;
}

icp_jinja_node *icp_jinja_parser_close(icp_jinja_parser *parser, icp_jinja_node *node)
{
    if (icp_jinja_is_failed(parser->run)) return &no_node;
    uint32_t depth = deeper(deeper(deeper(0, node->left), node->right), node->test);
    depth = deeper(deeper(depth, node->target), node->body);
    for (uint32_t i = 0; i < node->item_count; i++) depth = deeper(depth, node->items[i]);
    for (uint32_t i = 0; i < node->argument_count; i++) depth = deeper(depth, node->arguments[i].value);
    node->depth = depth + 1;
    if (node->depth > ICP_JINJA_NODE_DEPTH_MAX) icp_jinja_fail(parser->run, "the template is nested too deeply");
    return node;
}

bool icp_jinja_parser_enter(icp_jinja_parser *parser)
{
    if (parser->depth >= ICP_JINJA_NODE_DEPTH_MAX) icp_jinja_fail(parser->run, "the template is nested too deeply");
    if (icp_jinja_is_failed(parser->run)) return false;
    parser->depth++;
    return true;
}

/* Arrays grow when their count is a power of two. */
static bool is_full(uint32_t count)
{
    return (count & (count - 1)) == 0;
}

void icp_jinja_node_add(icp_jinja_parser *parser, icp_jinja_node *node, const icp_jinja_node *item, icp_jinja_op op)
{
    if (icp_jinja_is_failed(parser->run)) return;
    uint32_t count = node->item_count;
    if (is_full(count)) {
        size_t capacity = count == 0 ? 1 : 2 * (size_t)count;
        const icp_jinja_node **items = icp_jinja_take(parser->run, capacity * sizeof(*items));
        icp_jinja_op *ops = icp_jinja_take(parser->run, capacity * sizeof(*ops));
        if (items == NULL || ops == NULL) return;
        if (count > 0) memcpy(items, node->items, count * sizeof(*items));
        if (count > 0) memcpy(ops, node->ops, count * sizeof(*ops));
        node->items = items;
        node->ops = ops;
    }
    node->ops[count] = op;
    node->items[node->item_count++] = item;
}

void icp_jinja_node_add_argument(icp_jinja_parser *parser, icp_jinja_node *node, icp_jinja_argument argument)
{
    if (icp_jinja_is_failed(parser->run)) return;
    uint32_t count = node->argument_count;
    if (is_full(count)) {
        size_t capacity = count == 0 ? 1 : 2 * (size_t)count;
        icp_jinja_argument *arguments = icp_jinja_take(parser->run, capacity * sizeof(*arguments));
        if (arguments == NULL) return;
        if (count > 0) memcpy(arguments, node->arguments, count * sizeof(*arguments));
        node->arguments = arguments;
    }
    node->arguments[node->argument_count++] = argument;
}

static icp_jinja_node *make(icp_jinja_parser *parser, icp_jinja_node_kind kind, icp_jinja_node *left,
                            icp_jinja_node *right)
{
    icp_jinja_node *node = icp_jinja_parser_node(parser, kind);
    if (node == &no_node) return node;
    node->left = left;
    node->right = right;
    if (left != NULL && left != &no_node) node->line = left->line;
    return icp_jinja_parser_close(parser, node);
}

static icp_jinja_node *constant(icp_jinja_parser *parser, icp_jinja_value value)
{
    icp_jinja_node *node = icp_jinja_parser_node(parser, ICP_NODE_CONSTANT);
    if (node != &no_node) node->value = value;
    return icp_jinja_parser_close(parser, node);
}

/* ---- Primary expressions --------------------------------------------------------------------------------- */

static icp_jinja_node *parse_name(icp_jinja_parser *parser)
{
    static const struct {
        const char *name;
        icp_jinja_value value;
    } words[] = {
        {"true", {.kind = ICP_JINJA_BOOL, .boolean = true}},
        {"True", {.kind = ICP_JINJA_BOOL, .boolean = true}},
        {"false", {.kind = ICP_JINJA_BOOL, .boolean = false}},
        {"False", {.kind = ICP_JINJA_BOOL, .boolean = false}},
        {"none", {.kind = ICP_JINJA_NONE}},
        {"None", {.kind = ICP_JINJA_NONE}},
    };
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        if (!icp_jinja_parser_is_name(parser, words[i].name)) continue;
        icp_jinja_node *node = constant(parser, words[i].value);
        icp_jinja_parser_step(parser);
        return node;
    }
    icp_jinja_node *node = icp_jinja_parser_node(parser, ICP_NODE_NAME);
    const icp_jinja_string *name = icp_jinja_parser_take_name(parser);
    if (node != &no_node) node->name = name;
    return icp_jinja_parser_close(parser, node);
}

/* Strings that follow each other are one. */
static icp_jinja_node *parse_string(icp_jinja_parser *parser)
{
    icp_jinja_value value = parser->token.value;
    icp_jinja_node *node = constant(parser, value);
    icp_jinja_parser_step(parser);
    while (parser->token.kind == ICP_JINJA_TOKEN_STRING) {
        value = icp_jinja_concat(parser->run, value.string, parser->token.value.string);
        icp_jinja_parser_step(parser);
    }
    if (value.string->buffer != NULL) { /* the tree is shared by renders: nobody may extend its strings */
        icp_jinja_string *own = icp_jinja_take(parser->run, sizeof(*own));
        if (own != NULL) {
            *own = *value.string;
            own->buffer = NULL;
            own->trust = NULL;
            own->is_trusted = true;
            value = icp_jinja_of_string(own);
        }
    }
    if (node != &no_node) node->value = value;
    return node;
}

static icp_jinja_node *parse_list(icp_jinja_parser *parser)
{
    icp_jinja_node *node = icp_jinja_parser_node(parser, ICP_NODE_LIST);
    icp_jinja_parser_step(parser);
    while (!icp_jinja_parser_is(parser, "]") && !icp_jinja_is_failed(parser->run)) {
        icp_jinja_node_add(parser, node, icp_jinja_parse_expression(parser), ICP_OP_NONE);
        if (!icp_jinja_parser_is(parser, "]")) icp_jinja_parser_expect(parser, ",");
    }
    icp_jinja_parser_expect(parser, "]");
    return icp_jinja_parser_close(parser, node);
}

static icp_jinja_node *parse_dict(icp_jinja_parser *parser)
{
    icp_jinja_node *node = icp_jinja_parser_node(parser, ICP_NODE_DICT);
    icp_jinja_parser_step(parser);
    while (!icp_jinja_parser_is(parser, "}") && !icp_jinja_is_failed(parser->run)) {
        icp_jinja_node_add(parser, node, icp_jinja_parse_expression(parser), ICP_OP_NONE);
        icp_jinja_parser_expect(parser, ":");
        icp_jinja_node_add(parser, node, icp_jinja_parse_expression(parser), ICP_OP_NONE);
        if (!icp_jinja_parser_is(parser, "}")) icp_jinja_parser_expect(parser, ",");
    }
    icp_jinja_parser_expect(parser, "}");
    return icp_jinja_parser_close(parser, node);
}

static icp_jinja_node *parse_parenthesis(icp_jinja_parser *parser)
{
    icp_jinja_parser_step(parser);
    icp_jinja_node *node = NULL;
    if (icp_jinja_parser_is(parser, ")")) {
        node = icp_jinja_parser_close(parser, icp_jinja_parser_node(parser, ICP_NODE_TUPLE));
    } else {
        node = icp_jinja_parse_tuple(parser, true);
    }
    icp_jinja_parser_expect(parser, ")");
    return node;
}

static icp_jinja_node *parse_primary(icp_jinja_parser *parser)
{
    icp_jinja_node *node = NULL;
    switch (parser->token.kind) {
    case ICP_JINJA_TOKEN_NAME:
        return parse_name(parser);
    case ICP_JINJA_TOKEN_STRING:
        return parse_string(parser);
    case ICP_JINJA_TOKEN_NUMBER:
        node = constant(parser, parser->token.value);
        icp_jinja_parser_step(parser);
        return node;
    default:
        break;
    }
    if (icp_jinja_parser_is(parser, "(")) return parse_parenthesis(parser);
    if (icp_jinja_parser_is(parser, "[")) return parse_list(parser);
    if (icp_jinja_parser_is(parser, "{")) return parse_dict(parser);
    fail_token(parser, "a value");
    return &no_node;
}

/* ---- Calls, attributes, filters, tests ------------------------------------------------------------------- */

static void parse_arguments(icp_jinja_parser *parser, icp_jinja_node *node)
{
    icp_jinja_parser_expect(parser, "(");
    while (!icp_jinja_parser_is(parser, ")") && !icp_jinja_is_failed(parser->run)) {
        icp_jinja_argument argument = {0};
        if (icp_jinja_parser_skip(parser, "**")) {
            argument.star = ICP_STAR_DICT;
        } else if (icp_jinja_parser_skip(parser, "*")) {
            argument.star = ICP_STAR_LIST;
        } else if (parser->token.kind == ICP_JINJA_TOKEN_NAME &&
                   token_is(&parser->next, ICP_JINJA_TOKEN_OPERATOR, "=")) {
            argument.name = icp_jinja_parser_take_name(parser);
            icp_jinja_parser_step(parser);
        }
        bool is_late = argument.name == NULL && argument.star == ICP_STAR_NONE && node->argument_count > 0 &&
                       node->arguments[node->argument_count - 1].name != NULL;
        if (is_late) icp_jinja_fail(parser->run, "a positional argument follows a named one");
        argument.value = icp_jinja_parse_expression(parser);
        icp_jinja_node_add_argument(parser, node, argument);
        if (!icp_jinja_parser_is(parser, ")")) icp_jinja_parser_expect(parser, ",");
    }
    icp_jinja_parser_expect(parser, ")");
}

static icp_jinja_node *parse_call(icp_jinja_parser *parser, icp_jinja_node *left)
{
    icp_jinja_node *node = icp_jinja_parser_node(parser, ICP_NODE_CALL);
    if (node == &no_node) return node;
    node->left = left;
    parse_arguments(parser, node);
    return icp_jinja_parser_close(parser, node);
}

static icp_jinja_node *parse_subscript(icp_jinja_parser *parser, icp_jinja_node *left)
{
    icp_jinja_node *parts[3] = {NULL, NULL, NULL};
    size_t part = 0;
    icp_jinja_parser_expect(parser, "[");
    while (!icp_jinja_parser_is(parser, "]") && !icp_jinja_is_failed(parser->run)) {
        if (icp_jinja_parser_skip(parser, ":")) {
            if (++part == 3) icp_jinja_fail(parser->run, "a slice has three parts at most");
        } else {
            if (parts[part] != NULL) icp_jinja_fail(parser->run, "] was expected");
            parts[part] = icp_jinja_parse_expression(parser);
        }
        if (part == 3) return &no_node;
    }
    if (part == 0 && parts[0] == NULL) icp_jinja_fail(parser->run, "a subscript is empty");
    icp_jinja_node *node = make(parser, part == 0 ? ICP_NODE_ITEM : ICP_NODE_SLICE, left, part == 0 ? parts[0] : NULL);
    for (size_t i = 0; part > 0 && i < 3; i++) icp_jinja_node_add(parser, node, parts[i], ICP_OP_NONE);
    icp_jinja_parser_expect(parser, "]");
    return icp_jinja_parser_close(parser, node);
}

static icp_jinja_node *parse_dot(icp_jinja_parser *parser, icp_jinja_node *left)
{
    icp_jinja_parser_step(parser);
    if (parser->token.kind == ICP_JINJA_TOKEN_NUMBER && parser->token.value.kind == ICP_JINJA_INT) {
        icp_jinja_node *index = constant(parser, parser->token.value);
        icp_jinja_parser_step(parser);
        return make(parser, ICP_NODE_ITEM, left, index);
    }
    icp_jinja_node *node = make(parser, ICP_NODE_ATTRIBUTE, left, NULL);
    const icp_jinja_string *name = icp_jinja_parser_take_name(parser);
    if (node != &no_node) node->name = name;
    return node;
}

static icp_jinja_node *parse_postfix(icp_jinja_parser *parser, icp_jinja_node *node)
{
    while (!icp_jinja_is_failed(parser->run)) {
        if (icp_jinja_parser_is(parser, ".")) {
            node = parse_dot(parser, node);
        } else if (icp_jinja_parser_is(parser, "[")) {
            node = parse_subscript(parser, node);
        } else if (icp_jinja_parser_is(parser, "(")) {
            node = parse_call(parser, node);
        } else {
            return node;
        }
    }
    return node;
}

static void resolve(icp_jinja_parser *parser, icp_jinja_node *node)
{
    bool is_filter = node->kind == ICP_NODE_FILTER;
    node->builtin = is_filter ? icp_jinja_filter_find(node->name) : icp_jinja_test_find(node->name);
    if (node->builtin == NULL && parser->unknown == NULL) parser->unknown = node;
}

icp_jinja_node *icp_jinja_parse_filter(icp_jinja_parser *parser, icp_jinja_node *left)
{
    icp_jinja_node *node = icp_jinja_parser_node(parser, ICP_NODE_FILTER);
    if (node == &no_node) return node;
    node->left = left;
    node->name = icp_jinja_parser_take_name(parser);
    resolve(parser, node);
    if (icp_jinja_parser_is(parser, "(")) parse_arguments(parser, node);
    return icp_jinja_parser_close(parser, node);
}

icp_jinja_node *icp_jinja_parse_filters(icp_jinja_parser *parser, icp_jinja_node *left)
{
    while (icp_jinja_parser_skip(parser, "|")) left = icp_jinja_parse_filter(parser, left);
    return left;
}

static bool is_test_argument(const icp_jinja_parser *parser)
{
    static const char *const others[] = {"else", "or", "and", "if", "in", "not", "is", "recursive"};
    if (parser->token.kind == ICP_JINJA_TOKEN_STRING || parser->token.kind == ICP_JINJA_TOKEN_NUMBER) return true;
    if (icp_jinja_parser_is(parser, "[") || icp_jinja_parser_is(parser, "{")) return true;
    if (parser->token.kind != ICP_JINJA_TOKEN_NAME) return false;
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
        if (icp_jinja_parser_is_name(parser, others[i])) return false;
    }
    return true;
}

/* After "is". An argument may stand without parentheses: x is divisibleby 3. */
static icp_jinja_node *parse_test(icp_jinja_parser *parser, icp_jinja_node *left)
{
    bool is_negated = icp_jinja_parser_skip_name(parser, "not");
    icp_jinja_node *node = icp_jinja_parser_node(parser, ICP_NODE_TEST);
    if (node == &no_node) return node;
    node->left = left;
    node->name = icp_jinja_parser_take_name(parser);
    resolve(parser, node);
    if (icp_jinja_parser_is(parser, "(")) {
        parse_arguments(parser, node);
    } else if (is_test_argument(parser)) {
        icp_jinja_argument argument = {.value = parse_postfix(parser, parse_primary(parser))};
        icp_jinja_node_add_argument(parser, node, argument);
    }
    node = icp_jinja_parser_close(parser, node);
    return is_negated ? make(parser, ICP_NODE_NOT, node, NULL) : node;
}

/* ---- Operators ------------------------------------------------------------------------------------------- */

static icp_jinja_node *parse_unary(icp_jinja_parser *parser, bool has_filter)
{
    icp_jinja_node *node = NULL;
    bool is_minus = icp_jinja_parser_is(parser, "-");
    if (!icp_jinja_parser_enter(parser)) return &no_node;
    if (is_minus || icp_jinja_parser_is(parser, "+")) {
        icp_jinja_parser_step(parser);
        node = make(parser, ICP_NODE_UNARY, parse_unary(parser, false), NULL);
        if (node != &no_node) node->op = is_minus ? ICP_OP_SUBTRACT : ICP_OP_ADD;
    } else {
        node = parse_primary(parser);
    }
    node = parse_postfix(parser, node);
    while (has_filter && !icp_jinja_is_failed(parser->run)) {
        if (icp_jinja_parser_is(parser, "|")) {
            node = icp_jinja_parse_filters(parser, node);
        } else if (icp_jinja_parser_skip_name(parser, "is")) {
            node = parse_test(parser, node);
        } else if (icp_jinja_parser_is(parser, "(")) {
            node = parse_call(parser, node);
        } else {
            break;
        }
    }
    parser->depth--;
    return node;
}

typedef struct binary_level {
    struct {
        const char *text;
        icp_jinja_op op;
    } operators[5];
} binary_level;

static const binary_level levels[] = {
    {{{"+", ICP_OP_ADD}, {"-", ICP_OP_SUBTRACT}}},
    {{{"~", ICP_OP_NONE}}},
    {{{"*", ICP_OP_MULTIPLY}, {"/", ICP_OP_DIVIDE}, {"//", ICP_OP_FLOOR}, {"%", ICP_OP_MODULO}}},
    {{{"**", ICP_OP_POWER}}},
};
#define LEVEL_CONCAT 1u

/* True, and past it, if one of the level's operators is next. */
static bool take_operator(icp_jinja_parser *parser, const binary_level *level, icp_jinja_op *op)
{
    for (size_t i = 0; level->operators[i].text != NULL; i++) {
        *op = level->operators[i].op;
        if (icp_jinja_parser_skip(parser, level->operators[i].text)) return true;
    }
    return false;
}

static icp_jinja_node *parse_binary(icp_jinja_parser *parser, size_t level)
{
    if (level == sizeof(levels) / sizeof(levels[0])) return parse_unary(parser, true);
    icp_jinja_node *left = parse_binary(parser, level + 1);
    icp_jinja_op op = ICP_OP_NONE;
    if (level == LEVEL_CONCAT) {
        if (!icp_jinja_parser_is(parser, "~")) return left;
        icp_jinja_node *node = icp_jinja_parser_node(parser, ICP_NODE_CONCAT);
        icp_jinja_node_add(parser, node, left, ICP_OP_NONE);
        while (take_operator(parser, &levels[level], &op)) {
            icp_jinja_node_add(parser, node, parse_binary(parser, level + 1), ICP_OP_NONE);
        }
        return icp_jinja_parser_close(parser, node);
    }
    while (take_operator(parser, &levels[level], &op)) {
        left = make(parser, ICP_NODE_BINARY, left, parse_binary(parser, level + 1));
        if (left != &no_node) left->op = op;
    }
    return left;
}

static icp_jinja_op take_comparison(icp_jinja_parser *parser)
{
    static const struct {
        const char *text;
        icp_jinja_op op;
    } operators[] = {{"==", ICP_OP_EQUAL},      {"!=", ICP_OP_NOT_EQUAL}, {"<", ICP_OP_LESS},
                     {"<=", ICP_OP_LESS_EQUAL}, {">", ICP_OP_MORE},       {">=", ICP_OP_MORE_EQUAL}};
    for (size_t i = 0; i < sizeof(operators) / sizeof(operators[0]); i++) {
        if (icp_jinja_parser_skip(parser, operators[i].text)) return operators[i].op;
    }
    if (icp_jinja_parser_skip_name(parser, "in")) return ICP_OP_IN;
    if (icp_jinja_parser_is_name(parser, "not") && token_is(&parser->next, ICP_JINJA_TOKEN_NAME, "in")) {
        icp_jinja_parser_step(parser);
        icp_jinja_parser_step(parser);
        return ICP_OP_NOT_IN;
    }
    return ICP_OP_NONE;
}

static icp_jinja_node *parse_comparison(icp_jinja_parser *parser)
{
    icp_jinja_node *left = parse_binary(parser, 0), *node = NULL;
    icp_jinja_op op = ICP_OP_NONE;
    while ((op = take_comparison(parser)) != ICP_OP_NONE) {
        if (node == NULL) node = make(parser, ICP_NODE_COMPARE, left, NULL);
        icp_jinja_node_add(parser, node, parse_binary(parser, 0), op);
    }
    return node == NULL ? left : icp_jinja_parser_close(parser, node);
}

static icp_jinja_node *parse_not(icp_jinja_parser *parser)
{
    if (!icp_jinja_parser_is_name(parser, "not")) return parse_comparison(parser);
    if (!icp_jinja_parser_enter(parser)) return &no_node;
    icp_jinja_parser_step(parser);
    icp_jinja_node *node = make(parser, ICP_NODE_NOT, parse_not(parser), NULL);
    parser->depth--;
    return node;
}

static icp_jinja_node *parse_and(icp_jinja_parser *parser)
{
    icp_jinja_node *left = parse_not(parser);
    while (icp_jinja_parser_skip_name(parser, "and")) left = make(parser, ICP_NODE_AND, left, parse_not(parser));
    return left;
}

icp_jinja_node *icp_jinja_parse_expression_plain(icp_jinja_parser *parser)
{
    if (!icp_jinja_parser_enter(parser)) return &no_node;
    icp_jinja_node *left = parse_and(parser);
    while (icp_jinja_parser_skip_name(parser, "or")) left = make(parser, ICP_NODE_OR, left, parse_and(parser));
    parser->depth--;
    return left;
}

icp_jinja_node *icp_jinja_parse_expression(icp_jinja_parser *parser)
{
    if (!icp_jinja_parser_enter(parser)) return &no_node;
    const icp_jinja_node *unknown = parser->unknown;
    icp_jinja_node *left = icp_jinja_parse_expression_plain(parser);
    while (icp_jinja_parser_skip_name(parser, "if")) {
        icp_jinja_node *test = icp_jinja_parse_expression_plain(parser), *right = NULL;
        if (icp_jinja_parser_skip_name(parser, "else")) right = icp_jinja_parse_expression(parser);
        left = make(parser, ICP_NODE_CONDITION, left, right);
        if (left != &no_node) left->test = test;
        left = icp_jinja_parser_close(parser, left);
        parser->unknown = unknown;
    }
    parser->depth--;
    return left;
}

/* "a, b" is a tuple, "a" is a. */
icp_jinja_node *icp_jinja_parse_tuple(icp_jinja_parser *parser, bool has_condition)
{
    icp_jinja_node *first =
        has_condition ? icp_jinja_parse_expression(parser) : icp_jinja_parse_expression_plain(parser);
    if (!icp_jinja_parser_is(parser, ",")) return first;
    icp_jinja_node *node = icp_jinja_parser_node(parser, ICP_NODE_TUPLE);
    icp_jinja_node_add(parser, node, first, ICP_OP_NONE);
    while (icp_jinja_parser_skip(parser, ",")) {
        bool is_end = icp_jinja_parser_is(parser, ")") || icp_jinja_parser_is(parser, "=") ||
                      icp_jinja_parser_is_name(parser, "in") || parser->token.kind == ICP_JINJA_TOKEN_TAG_END ||
                      parser->token.kind == ICP_JINJA_TOKEN_PRINT_END;
        if (is_end) break;
        icp_jinja_node *item =
            has_condition ? icp_jinja_parse_expression(parser) : icp_jinja_parse_expression_plain(parser);
        icp_jinja_node_add(parser, node, item, ICP_OP_NONE);
    }
    return icp_jinja_parser_close(parser, node);
}
