/* jinja_node.h - a chat template as a tree, and how its text becomes one.
 *
 *      text -> tokens (jinja_lexer.c) -> expressions (jinja_parser.c) and statements (jinja_statement.c) -> tree
 *
 * The tree lies in the arena of the run that parsed it and is read only afterwards: any number of renders use it at
 * once. No tree is deeper than ICP_JINJA_NODE_DEPTH_MAX, so that walking it needs a bounded stack. */
#ifndef ICP_MODEL_JINJA_NODE_H
#define ICP_MODEL_JINJA_NODE_H

#include "model/jinja_value.h"

#define ICP_JINJA_NODE_DEPTH_MAX 250u

typedef enum icp_jinja_node_kind {
    /* Expressions. */
    ICP_NODE_CONSTANT,  /* value */
    ICP_NODE_NAME,      /* name */
    ICP_NODE_LIST,      /* items */
    ICP_NODE_TUPLE,     /* items */
    ICP_NODE_DICT,      /* items: key, value, key, value ... */
    ICP_NODE_NOT,       /* left */
    ICP_NODE_UNARY,     /* op left */
    ICP_NODE_AND,       /* left and right */
    ICP_NODE_OR,        /* left or right */
    ICP_NODE_BINARY,    /* left op right */
    ICP_NODE_COMPARE,   /* left, then items, each with its op */
    ICP_NODE_CONCAT,    /* items, ~ between them */
    ICP_NODE_CONDITION, /* left if test else right; right may be NULL */
    ICP_NODE_ATTRIBUTE, /* left.name */
    ICP_NODE_ITEM,      /* left[right] */
    ICP_NODE_SLICE,     /* left[items[0]:items[1]:items[2]], each may be NULL */
    ICP_NODE_CALL,      /* left(arguments) */
    ICP_NODE_FILTER,    /* left | name(arguments) */
    ICP_NODE_TEST,      /* left is name(arguments) */
    ICP_NODE_BODY_TEXT, /* the text of a filter or set block, for the filters on it */
    /* Statements. */
    ICP_NODE_BLOCK,        /* items, one after the other */
    ICP_NODE_PRINT,        /* left */
    ICP_NODE_IF,           /* items: test, block, test, block ...; right: the else, may be NULL */
    ICP_NODE_FOR,          /* for target in left if test: body; right: the else, may be NULL */
    ICP_NODE_SET,          /* target = left */
    ICP_NODE_SET_BLOCK,    /* target = body, through the filters of left */
    ICP_NODE_MACRO,        /* name(arguments with defaults): body */
    ICP_NODE_CALL_MACRO,   /* left is the call; caller(arguments): body */
    ICP_NODE_FILTER_BLOCK, /* left: the filters; body */
    ICP_NODE_WITH,         /* arguments as names; body */
    ICP_NODE_SCOPE,        /* body, as generation has it */
    ICP_NODE_BREAK,
    ICP_NODE_CONTINUE,
} icp_jinja_node_kind;

typedef enum icp_jinja_op {
    ICP_OP_NONE,
    ICP_OP_ADD,
    ICP_OP_SUBTRACT,
    ICP_OP_MULTIPLY,
    ICP_OP_DIVIDE,
    ICP_OP_FLOOR,
    ICP_OP_MODULO,
    ICP_OP_POWER,
    ICP_OP_EQUAL,
    ICP_OP_NOT_EQUAL,
    ICP_OP_LESS,
    ICP_OP_LESS_EQUAL,
    ICP_OP_MORE,
    ICP_OP_MORE_EQUAL,
    ICP_OP_IN,
    ICP_OP_NOT_IN,
} icp_jinja_op;

typedef struct icp_jinja_node icp_jinja_node;

typedef enum icp_jinja_star { ICP_STAR_NONE, ICP_STAR_LIST, ICP_STAR_DICT } icp_jinja_star;

/* Of a call: name is NULL where it is positional. Of a macro: value is the default, or NULL. */
typedef struct icp_jinja_argument {
    const icp_jinja_string *name;
    const icp_jinja_node *value;
    icp_jinja_star star;
} icp_jinja_argument;

struct icp_jinja_node {
    icp_jinja_node_kind kind;
    icp_jinja_op op;
    uint32_t line;
    uint32_t depth; /* levels below and with this one */
    uint32_t item_count;
    uint32_t argument_count;
    icp_jinja_value value;
    const icp_jinja_string *name;
    const icp_jinja_node *left, *right, *test, *target, *body;
    const icp_jinja_node **items;
    icp_jinja_op *ops; /* of items, COMPARE only */
    icp_jinja_argument *arguments;
    const struct icp_jinja_builtin *builtin; /* FILTER and TEST; NULL: there is no such one, said when it is run */
};

/* ---- Tokens ---------------------------------------------------------------------------------------------- */

typedef enum icp_jinja_token_kind {
    ICP_JINJA_TOKEN_END,
    ICP_JINJA_TOKEN_TEXT, /* outside of tags; value is the string */
    ICP_JINJA_TOKEN_PRINT_BEGIN,
    ICP_JINJA_TOKEN_PRINT_END,
    ICP_JINJA_TOKEN_TAG_BEGIN,
    ICP_JINJA_TOKEN_TAG_END,
    ICP_JINJA_TOKEN_NAME,
    ICP_JINJA_TOKEN_STRING, /* value */
    ICP_JINJA_TOKEN_NUMBER, /* value */
    ICP_JINJA_TOKEN_OPERATOR,
} icp_jinja_token_kind;

typedef struct icp_jinja_token {
    icp_jinja_token_kind kind;
    uint32_t line;
    const char *text;
    size_t bytes;
    icp_jinja_value value;
} icp_jinja_token;

typedef struct icp_jinja_lexer {
    icp_jinja_run *run;
    const char *text; /* newlines are \n */
    size_t bytes;
    size_t at;
    uint32_t line;
    icp_jinja_token_kind end; /* of the tag that we are in: PRINT_END or TAG_END; END outside */
    icp_jinja_token_kind begin_next;
    bool is_begin_next; /* the text before a tag was given: its begin comes next */
    uint32_t bracket_count;
    char brackets[64];
} icp_jinja_lexer;

/* Reads from text with \n for its newlines, which stays where it is. */
void icp_jinja_lexer_start(icp_jinja_lexer *lexer, icp_jinja_run *run, const char *text, size_t bytes);
icp_jinja_token icp_jinja_lexer_next(icp_jinja_lexer *lexer); /* END after the last, and after a failure */

/* ---- Parsing --------------------------------------------------------------------------------------------- */

typedef struct icp_jinja_parser {
    icp_jinja_run *run;
    icp_jinja_lexer lexer;
    icp_jinja_token token, next;
    uint32_t depth;
    uint32_t loop_count;           /* loops around the place, within its macro */
    const icp_jinja_node *unknown; /* a filter or test that there is not; forgotten if it is behind a condition, where
                                      it is said only when it is reached, as in Jinja */
} icp_jinja_parser;

/* The whole template. NULL: failed. */
const icp_jinja_node *icp_jinja_parse(icp_jinja_run *run, const char *text, size_t bytes);

/* Shared by jinja_parser.c and jinja_statement.c. Nodes are never NULL: after a failure they are empty ones. */
void icp_jinja_parser_step(icp_jinja_parser *parser);
bool icp_jinja_parser_is(const icp_jinja_parser *parser, const char *operator_text);
bool icp_jinja_parser_is_name(const icp_jinja_parser *parser, const char *name);
bool icp_jinja_parser_skip(icp_jinja_parser *parser, const char *operator_text);
bool icp_jinja_parser_skip_name(icp_jinja_parser *parser, const char *name);
void icp_jinja_parser_expect(icp_jinja_parser *parser, const char *operator_text);
const icp_jinja_string *icp_jinja_parser_take_name(icp_jinja_parser *parser);
icp_jinja_node *icp_jinja_parser_node(icp_jinja_parser *parser, icp_jinja_node_kind kind);
icp_jinja_node *icp_jinja_parser_close(icp_jinja_parser *parser, icp_jinja_node *node); /* depth, from its parts */
bool icp_jinja_parser_enter(icp_jinja_parser *parser);                                  /* false: nested too deeply */

icp_jinja_node *icp_jinja_parse_expression(icp_jinja_parser *parser);
icp_jinja_node *icp_jinja_parse_expression_plain(icp_jinja_parser *parser); /* without "a if b" */
icp_jinja_node *icp_jinja_parse_tuple(icp_jinja_parser *parser, bool has_condition);
icp_jinja_node *icp_jinja_parse_filters(icp_jinja_parser *parser, icp_jinja_node *left); /* at a | */
icp_jinja_node *icp_jinja_parse_filter(icp_jinja_parser *parser, icp_jinja_node *left);  /* after the | */

/* ---- Growing lists of nodes ------------------------------------------------------------------------------ */

void icp_jinja_node_add(icp_jinja_parser *parser, icp_jinja_node *node, const icp_jinja_node *item, icp_jinja_op op);
void icp_jinja_node_add_argument(icp_jinja_parser *parser, icp_jinja_node *node, icp_jinja_argument argument);

#endif
