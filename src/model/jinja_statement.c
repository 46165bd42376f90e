/* jinja_statement.c - the statements of a template as a tree: text, {{ }}, and the tags.
 *
 * What Hugging Face's renderer knows: if, for (with break and continue), set, macro, call, filter, with, generation.
 * Tags that read other files (include, import, extends) or that nobody's chat template uses (block, autoescape) are
 * refused by name. */
#include "model/jinja_node.h"

#include <string.h>

typedef struct end_tags {
    const char *names[4]; /* the tags that end a block; NULL after the last; none: the end of the template */
} end_tags;

static icp_jinja_node *parse_block(icp_jinja_parser *parser, end_tags ends);

static void expect_end(icp_jinja_parser *parser)
{
    if (parser->token.kind != ICP_JINJA_TOKEN_TAG_END) {
        if (parser->token.kind == ICP_JINJA_TOKEN_NAME || parser->token.kind == ICP_JINJA_TOKEN_OPERATOR) {
            int bytes = (int)(parser->token.bytes < 40 ? parser->token.bytes : 40);
            icp_jinja_fail(parser->run, "the end of the tag was expected, not '%.*s'", bytes, parser->token.text);
        }
        icp_jinja_fail(parser->run, "the end of the tag was expected");
    }
    icp_jinja_parser_step(parser);
}

/* The statements up to one of the tags, which stays the current token. */
static icp_jinja_node *parse_body(icp_jinja_parser *parser, end_tags ends)
{
    expect_end(parser);
    return parse_block(parser, ends);
}

/* The statements up to {% end %}, and past that. A break or continue cannot leave them but for a with. */
static icp_jinja_node *parse_whole_body(icp_jinja_parser *parser, const char *end)
{
    uint32_t loop_count = parser->loop_count;
    if (strcmp(end, "endwith") != 0) parser->loop_count = 0;
    icp_jinja_node *body = parse_body(parser, (end_tags){{end}});
    parser->loop_count = loop_count;
    icp_jinja_parser_step(parser);
    if (parser->token.kind == ICP_JINJA_TOKEN_NAME) icp_jinja_parser_step(parser); /* {% endmacro name %} */
    expect_end(parser);
    return body;
}

/* ---- Targets --------------------------------------------------------------------------------------------- */

static icp_jinja_node *parse_target_one(icp_jinja_parser *parser, bool has_fields);

static icp_jinja_node *parse_target(icp_jinja_parser *parser, bool has_fields)
{
    icp_jinja_node *first = parse_target_one(parser, has_fields);
    if (!icp_jinja_parser_is(parser, ",")) return first;
    icp_jinja_node *tuple = icp_jinja_parser_node(parser, ICP_NODE_TUPLE);
    icp_jinja_node_add(parser, tuple, first, ICP_OP_NONE);
    while (icp_jinja_parser_skip(parser, ",") && !icp_jinja_parser_is_name(parser, "in") &&
           (parser->token.kind == ICP_JINJA_TOKEN_NAME || icp_jinja_parser_is(parser, "("))) {
        icp_jinja_node_add(parser, tuple, parse_target_one(parser, has_fields), ICP_OP_NONE);
    }
    return icp_jinja_parser_close(parser, tuple);
}

/* A name, name.field of a namespace, or a tuple of them in parentheses. */
static icp_jinja_node *parse_target_one(icp_jinja_parser *parser, bool has_fields)
{
    icp_jinja_node *node = icp_jinja_parser_node(parser, ICP_NODE_NAME);
    if (icp_jinja_is_failed(parser->run)) return node;
    if (icp_jinja_parser_is(parser, "(")) {
        if (!icp_jinja_parser_enter(parser)) return node;
        icp_jinja_parser_step(parser);
        node = parse_target(parser, has_fields);
        icp_jinja_parser_expect(parser, ")");
        parser->depth--;
        return node;
    }
    node->name = icp_jinja_parser_take_name(parser);
    node = icp_jinja_parser_close(parser, node);
    if (!has_fields || !icp_jinja_parser_skip(parser, ".")) return node;
    icp_jinja_node *field = icp_jinja_parser_node(parser, ICP_NODE_ATTRIBUTE);
    if (icp_jinja_is_failed(parser->run)) return field;
    field->left = node;
    field->name = icp_jinja_parser_take_name(parser);
    return icp_jinja_parser_close(parser, field);
}

/* ---- Tags ------------------------------------------------------------------------------------------------ */

static void parse_if(icp_jinja_parser *parser, icp_jinja_node *node)
{
    static const end_tags ends = {{"elif", "else", "endif"}};
    const icp_jinja_node *unknown = parser->unknown;
    do {
        icp_jinja_node_add(parser, node, icp_jinja_parse_tuple(parser, false), ICP_OP_NONE);
        icp_jinja_node_add(parser, node, parse_body(parser, ends), ICP_OP_NONE);
    } while (icp_jinja_parser_skip_name(parser, "elif"));
    if (icp_jinja_parser_skip_name(parser, "else")) {
        icp_jinja_node *other = parse_body(parser, (end_tags){{"endif"}});
        if (!icp_jinja_is_failed(parser->run)) node->right = other;
    }
    icp_jinja_parser_step(parser);
    expect_end(parser);
    parser->unknown = unknown;
}

static void parse_for(icp_jinja_parser *parser, icp_jinja_node *node)
{
    node->target = parse_target(parser, false);
    if (!icp_jinja_parser_skip_name(parser, "in")) icp_jinja_fail(parser->run, "'in' was expected in a for");
    node->left = icp_jinja_parse_tuple(parser, false);
    if (icp_jinja_parser_skip_name(parser, "if")) node->test = icp_jinja_parse_expression(parser);
    if (icp_jinja_parser_is_name(parser, "recursive")) icp_jinja_fail(parser->run, "recursive loops are not supported");
    parser->loop_count++;
    node->body = parse_body(parser, (end_tags){{"endfor", "else"}});
    parser->loop_count--;
    if (icp_jinja_parser_skip_name(parser, "else")) node->right = parse_body(parser, (end_tags){{"endfor"}});
    icp_jinja_parser_step(parser);
    expect_end(parser);
}

static icp_jinja_node *body_text(icp_jinja_parser *parser)
{
    return icp_jinja_parser_close(parser, icp_jinja_parser_node(parser, ICP_NODE_BODY_TEXT));
}

static void parse_set(icp_jinja_parser *parser, icp_jinja_node *node)
{
    node->target = parse_target(parser, true);
    if (icp_jinja_parser_skip(parser, "=")) {
        node->left = icp_jinja_parse_tuple(parser, true);
        expect_end(parser);
        return;
    }
    node->kind = ICP_NODE_SET_BLOCK;
    node->left = icp_jinja_parse_filters(parser, body_text(parser));
    node->body = parse_whole_body(parser, "endset");
}

/* (a, b=1): the parameters of a macro. */
static void parse_parameters(icp_jinja_parser *parser, icp_jinja_node *node)
{
    icp_jinja_parser_expect(parser, "(");
    while (!icp_jinja_parser_is(parser, ")") && !icp_jinja_is_failed(parser->run)) {
        icp_jinja_argument parameter = {.name = icp_jinja_parser_take_name(parser)};
        if (icp_jinja_parser_skip(parser, "=")) {
            parameter.value = icp_jinja_parse_expression(parser);
        } else if (node->argument_count > 0 && node->arguments[node->argument_count - 1].value != NULL) {
            icp_jinja_fail(parser->run, "a parameter without a default follows one with a default");
        }
        icp_jinja_node_add_argument(parser, node, parameter);
        if (!icp_jinja_parser_is(parser, ")")) icp_jinja_parser_expect(parser, ",");
    }
    icp_jinja_parser_expect(parser, ")");
}

static void parse_macro(icp_jinja_parser *parser, icp_jinja_node *node)
{
    node->name = icp_jinja_parser_take_name(parser);
    parse_parameters(parser, node);
    node->body = parse_whole_body(parser, "endmacro");
}

static void parse_call(icp_jinja_parser *parser, icp_jinja_node *node)
{
    if (icp_jinja_parser_is(parser, "(")) parse_parameters(parser, node);
    node->left = icp_jinja_parse_expression(parser);
    if (node->left->kind != ICP_NODE_CALL) icp_jinja_fail(parser->run, "a call was expected");
    node->body = parse_whole_body(parser, "endcall");
}

static void parse_filter(icp_jinja_parser *parser, icp_jinja_node *node)
{
    node->left = icp_jinja_parse_filters(parser, icp_jinja_parse_filter(parser, body_text(parser)));
    node->body = parse_whole_body(parser, "endfilter");
}

static void parse_with(icp_jinja_parser *parser, icp_jinja_node *node)
{
    while (parser->token.kind == ICP_JINJA_TOKEN_NAME) {
        icp_jinja_argument variable = {.name = icp_jinja_parser_take_name(parser)};
        icp_jinja_parser_expect(parser, "=");
        variable.value = icp_jinja_parse_expression(parser);
        icp_jinja_node_add_argument(parser, node, variable);
        if (!icp_jinja_parser_skip(parser, ",")) break;
    }
    node->body = parse_whole_body(parser, "endwith");
}

static void parse_generation(icp_jinja_parser *parser, icp_jinja_node *node)
{
    node->body = parse_whole_body(parser, "endgeneration");
}

static void parse_jump(icp_jinja_parser *parser, icp_jinja_node *node)
{
    if (parser->loop_count == 0) {
        icp_jinja_fail(parser->run, "%s outside of a loop", node->kind == ICP_NODE_BREAK ? "break" : "continue");
    }
    expect_end(parser);
}

typedef struct tag {
    const char *name;
    icp_jinja_node_kind kind;
    void (*parse)(icp_jinja_parser *parser, icp_jinja_node *node);
} tag;

static const tag tags[] = {
    {"if", ICP_NODE_IF, parse_if},
    {"for", ICP_NODE_FOR, parse_for},
    {"set", ICP_NODE_SET, parse_set},
    {"macro", ICP_NODE_MACRO, parse_macro},
    {"call", ICP_NODE_CALL_MACRO, parse_call},
    {"filter", ICP_NODE_FILTER_BLOCK, parse_filter},
    {"with", ICP_NODE_WITH, parse_with},
    {"generation", ICP_NODE_SCOPE, parse_generation},
    {"break", ICP_NODE_BREAK, parse_jump},
    {"continue", ICP_NODE_CONTINUE, parse_jump},
};

/* At the name of a tag. */
static icp_jinja_node *parse_tag(icp_jinja_parser *parser)
{
    icp_jinja_node *node = icp_jinja_parser_node(parser, ICP_NODE_BLOCK);
    if (icp_jinja_is_failed(parser->run)) return node;
    for (size_t i = 0; i < sizeof(tags) / sizeof(tags[0]); i++) {
        if (!icp_jinja_parser_skip_name(parser, tags[i].name)) continue;
        node->kind = tags[i].kind;
        tags[i].parse(parser, node);
        return icp_jinja_parser_close(parser, node);
    }
    icp_jinja_fail(parser->run, "the tag '%.*s' is not known here",
                   (int)(parser->token.bytes < 40 ? parser->token.bytes : 40),
                   parser->token.text != NULL ? parser->token.text : "");
    return node;
}

static icp_jinja_node *parse_print(icp_jinja_parser *parser)
{
    icp_jinja_node *node = icp_jinja_parser_node(parser, ICP_NODE_PRINT);
    icp_jinja_parser_step(parser);
    icp_jinja_node *value = icp_jinja_parse_tuple(parser, true);
    if (parser->token.kind != ICP_JINJA_TOKEN_PRINT_END) icp_jinja_fail(parser->run, "}} was expected");
    icp_jinja_parser_step(parser);
    if (icp_jinja_is_failed(parser->run)) return node;
    node->left = value;
    return icp_jinja_parser_close(parser, node);
}

static icp_jinja_node *parse_text(icp_jinja_parser *parser)
{
    icp_jinja_node *node = icp_jinja_parser_node(parser, ICP_NODE_CONSTANT);
    if (!icp_jinja_is_failed(parser->run)) node->value = parser->token.value;
    icp_jinja_parser_step(parser);
    return icp_jinja_parser_close(parser, node);
}

static bool is_end_tag(const icp_jinja_parser *parser, end_tags ends)
{
    for (size_t i = 0; i < 4 && ends.names[i] != NULL; i++) {
        if (icp_jinja_parser_is_name(parser, ends.names[i])) return true;
    }
    return false;
}

static icp_jinja_node *parse_block(icp_jinja_parser *parser, end_tags ends)
{
    icp_jinja_node *block = icp_jinja_parser_node(parser, ICP_NODE_BLOCK);
    if (!icp_jinja_parser_enter(parser)) return block;
    while (!icp_jinja_is_failed(parser->run) && parser->token.kind != ICP_JINJA_TOKEN_END) {
        icp_jinja_node *item = NULL;
        if (parser->token.kind == ICP_JINJA_TOKEN_TEXT) {
            item = parse_text(parser);
        } else if (parser->token.kind == ICP_JINJA_TOKEN_PRINT_BEGIN) {
            item = parse_print(parser);
        } else {
            icp_jinja_parser_step(parser);
            if (is_end_tag(parser, ends)) break;
            item = parse_tag(parser);
        }
        icp_jinja_node_add(parser, block, item, ICP_OP_NONE);
    }
    if (parser->token.kind == ICP_JINJA_TOKEN_END && ends.names[0] != NULL) {
        icp_jinja_fail(parser->run, "the template ends before '%s', for the tag in line %u", ends.names[0],
                       (unsigned)block->line);
    }
    parser->depth--;
    return icp_jinja_parser_close(parser, block);
}

const icp_jinja_node *icp_jinja_parse(icp_jinja_run *run, const char *text, size_t bytes)
{
    icp_jinja_parser parser = {.run = run};
    icp_jinja_lexer_start(&parser.lexer, run, text, bytes);
    icp_jinja_parser_step(&parser);
    icp_jinja_parser_step(&parser);
    const icp_jinja_node *tree = parse_block(&parser, (end_tags){{NULL}});
    const icp_jinja_node *unknown = parser.unknown;
    if (unknown != NULL && !icp_jinja_is_failed(run)) {
        run->line = unknown->line;
        icp_jinja_fail(run, "there is no %s named '%.*s'", unknown->kind == ICP_NODE_FILTER ? "filter" : "test",
                       (int)(unknown->name->bytes < 80 ? unknown->name->bytes : 80), unknown->name->text);
    }
    return icp_jinja_is_failed(run) ? NULL : tree;
}
