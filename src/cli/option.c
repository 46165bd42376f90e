/* option.c - parses a verb's words by the table of options, and answers for their values.
 *
 * Forms: --name value, --name=value, -l value, -lvalue, flags together (-ji), -- before operands that begin with a
 * dash. A value may begin with a dash where the option wants one. First come the fallbacks of the table, then the
 * environment, then the command line. */
#include "cli/option.h"

#include "cli/say.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WORD_BYTES_MAX 32u

/* ---- Finding ------------------------------------------------------------------------------------------------- */

const icp_verb *icp_verb_find(const char *name)
{
    for (unsigned i = 0; i < ICP_VERB_COUNT; i++) {
        if (strcmp(icp_verbs[i].name, name) == 0) return &icp_verbs[i];
    }
    return NULL;
}

static bool has_verb(const icp_option *option, const icp_verb *verb)
{
    return (option->verbs >> (verb - icp_verbs) & 1u) != 0;
}

static const icp_option *find_name(const icp_verb *verb, const char *name, size_t length)
{
    for (unsigned i = 0; i < ICP_OPTION_COUNT; i++) {
        const icp_option *option = &icp_options[i];
        bool is_named = strlen(option->name) == length && memcmp(option->name, name, length) == 0;
        if (is_named && has_verb(option, verb)) return option;
    }
    return NULL;
}

static const icp_option *find_letter(const icp_verb *verb, char letter)
{
    for (unsigned i = 0; i < ICP_OPTION_COUNT; i++) {
        if (icp_options[i].letter == letter && has_verb(&icp_options[i], verb)) return &icp_options[i];
    }
    return NULL;
}

bool icp_option_environment(const icp_option *option, char name[ICP_ENVIRONMENT_BYTES])
{
    if (option - icp_options >= ICP_OPTION_MAX_TOKENS && option - icp_options != ICP_OPTION_QUIET) return false;
    snprintf(name, ICP_ENVIRONMENT_BYTES, "INCIPIT_%s", option->name);
    for (char *at = name; *at != '\0'; at++) *at = *at == '-' ? '_' : (char)toupper((unsigned char)*at);
    return true;
}

/* ---- Typos --------------------------------------------------------------------------------------------------- */

/* Letters to insert, delete, replace or swap with their neighbour to get from one word to the other. */
static unsigned distance(const char *a, const char *b)
{
    unsigned rows[3][WORD_BYTES_MAX + 1];
    size_t a_length = strlen(a), b_length = strlen(b);
    if (a_length > WORD_BYTES_MAX || b_length > WORD_BYTES_MAX) return UINT32_MAX;
    for (unsigned j = 0; j <= b_length; j++) rows[0][j] = j;
    for (unsigned i = 1; i <= a_length; i++) {
        unsigned *row = rows[i % 3], *above = rows[(i + 2) % 3], *two_above = rows[(i + 1) % 3];
        row[0] = i;
        for (unsigned j = 1; j <= b_length; j++) {
            unsigned cost = above[j - 1] + (a[i - 1] != b[j - 1]);
            if (above[j] + 1 < cost) cost = above[j] + 1;
            if (row[j - 1] + 1 < cost) cost = row[j - 1] + 1;
            bool is_swap = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
            if (is_swap && two_above[j - 2] + 1 < cost) cost = two_above[j - 2] + 1;
            row[j] = cost;
        }
    }
    return rows[a_length % 3][b_length];
}

const char *icp_word_nearest(const char *word, icp_word_fn *next, const void *context)
{
    const char *best = NULL, *candidate;
    unsigned best_distance = (unsigned)strlen(word) / 3 + 2; /* further away is no typo */
    for (size_t i = 0; (candidate = next(context, i)) != NULL; i++) {
        unsigned found =
            strncmp(candidate, word, strlen(word)) == 0 && strlen(word) > 2 ? 1 : distance(word, candidate);
        if (found >= best_distance) continue;
        best_distance = found;
        best = candidate;
    }
    return best;
}

/* The names of a verb's options, one after another. */
static const char *option_name(const void *context, size_t index)
{
    for (unsigned i = 0; i < ICP_OPTION_COUNT; i++) {
        if (has_verb(&icp_options[i], context) && index-- == 0) return icp_options[i].name;
    }
    return NULL;
}

static int unknown_option(const icp_verb *verb, const char *word)
{
    char name[WORD_BYTES_MAX];
    snprintf(name, sizeof(name), "%.*s", (int)strcspn(word + 2, "="), word + 2);
    const char *nearest = word[1] == '-' ? icp_word_nearest(name, option_name, verb) : NULL;
    if (nearest != NULL) return icp_say_usage("%s has no option %s: did you mean --%s?", verb->name, word, nearest);
    return icp_say_usage("%s has no option %s: 'incipit help %s' lists them", verb->name, word, verb->name);
}

/* ---- Values -------------------------------------------------------------------------------------------------- */

static bool parse_count(const char *text, size_t length, uint64_t *out)
{
    uint64_t value = 0;
    if (length == 0) return false;
    for (size_t i = 0; i < length; i++) {
        if (!isdigit((unsigned char)text[i])) return false;
        if (__builtin_mul_overflow(value, 10u, &value)) return false;
        if (__builtin_add_overflow(value, (uint64_t)(text[i] - '0'), &value)) return false;
    }
    *out = value;
    return true;
}

static bool parse_number(const char *text, double *out)
{
    char *end;
    if (*text == '\0' || isspace((unsigned char)*text)) return false;
    double value = strtod(text, &end);
    if (*end != '\0' || !isfinite(value)) return false;
    *out = value;
    return true;
}

/* 8G, 512M, 1.5G, 4096; also 8GB and 8GiB, all by powers of 1,024. */
static bool parse_size(const char *text, uint64_t *out)
{
    static const char units[] = "KMGT";
    char *end;
    if (!isdigit((unsigned char)*text)) return false;
    double value = strtod(text, &end);
    const char *unit = *end != '\0' ? strchr(units, toupper((unsigned char)*end)) : NULL;
    if (unit != NULL) {
        value = ldexp(value, 10 * (int)(unit - units + 1));
        end++;
        if (*end == 'i') end++;
    }
    if (*end == 'B') end++;
    if (*end != '\0' || !(value >= 1.0 && value < 0x1p62)) return false;
    *out = (uint64_t)value;
    return true;
}

/* The length of the piece of a comma-separated text at *at, which moves on to the next; false at the end. */
static bool next_piece(const char **at, const char **piece, size_t *length)
{
    if (*at == NULL) return false;
    *piece = *at;
    *length = strcspn(*at, ",");
    *at = (*at)[*length] == ',' ? *at + *length + 1 : NULL;
    return true;
}

static bool is_choice(const char *choices, const char *text, size_t length, uint32_t *index)
{
    *index = 0;
    for (const char *at = choices; *at != '\0'; (*index)++) {
        size_t choice_length = strcspn(at, " ");
        if (choice_length == length && memcmp(at, text, length) == 0) return true;
        at += choice_length + (at[choice_length] == ' ');
    }
    return false;
}

/* Some of the choices, or whole numbers in range, separated by commas. */
static bool is_list(const icp_option *option, const char *text)
{
    const char *at = text, *piece;
    size_t length, count = 0;
    while (next_piece(&at, &piece, &length)) {
        uint32_t index;
        uint64_t value;
        if (++count > ICP_LIST_COUNT_MAX) return false;
        if (option->type == ICP_OPTION_TYPE_CHOICES) {
            if (!is_choice(option->choices, piece, length, &index)) return false;
        } else if (!parse_count(piece, length, &value) || (double)value < option->low || (double)value > option->high) {
            return false;
        }
    }
    return true;
}

static bool is_valid(const icp_option *option, const char *text)
{
    uint64_t count;
    double number;
    uint32_t index;
    switch (option->type) {
    case ICP_OPTION_TYPE_FLAG:
    case ICP_OPTION_TYPE_TEXT:
        return true;
    case ICP_OPTION_TYPE_FILE:
        return *text != '\0';
    case ICP_OPTION_TYPE_COUNT:
        return parse_count(text, strlen(text), &count) && (double)count >= option->low && (double)count <= option->high;
    case ICP_OPTION_TYPE_NUMBER:
        return parse_number(text, &number) && number >= option->low && number <= option->high;
    case ICP_OPTION_TYPE_SIZE:
        return parse_size(text, &count);
    case ICP_OPTION_TYPE_CHOICE:
        return is_choice(option->choices, text, strlen(text), &index);
    case ICP_OPTION_TYPE_CHOICES:
    case ICP_OPTION_TYPE_COUNTS:
        return is_list(option, text);
    }
    return false;
}

static int bad_value(const icp_option *option, const char *text, const char *label)
{
    char range[64];
    if (option->high >= 4294967295.0)
        snprintf(range, sizeof(range), "%.15g or more", option->low);
    else
        snprintf(range, sizeof(range), "from %.15g to %.15g", option->low, option->high);
    switch (option->type) {
    case ICP_OPTION_TYPE_COUNT:
        return icp_say_usage("%s '%s': a whole number %s is wanted", label, text, range);
    case ICP_OPTION_TYPE_NUMBER:
        return icp_say_usage("%s '%s': a number %s is wanted", label, text, range);
    case ICP_OPTION_TYPE_COUNTS:
        return icp_say_usage("%s '%s': whole numbers %s, separated by commas, are wanted", label, text, range);
    case ICP_OPTION_TYPE_SIZE:
        return icp_say_usage("%s '%s': a size such as 512M or 8G is wanted", label, text);
    case ICP_OPTION_TYPE_CHOICE:
        return icp_say_usage("%s '%s': one of %s is wanted", label, text, option->choices);
    case ICP_OPTION_TYPE_CHOICES:
        return icp_say_usage("%s '%s': some of %s, separated by commas, are wanted", label, text, option->choices);
    default:
        return icp_say_usage("%s: a value is wanted", label);
    }
}

static int add_value(icp_arguments *arguments, const icp_option *option, const char *text, const char *label)
{
    icp_argument *value = &arguments->values[option - icp_options];
    if (!is_valid(option, text)) return bad_value(option, text, label);
    if (option->is_repeated && value->count == ICP_REPEAT_COUNT_MAX)
        return icp_say_usage("%s: more than %u are too many", label, ICP_REPEAT_COUNT_MAX);
    if (!option->is_repeated || value->is_weak) value->count = 0;
    value->is_weak = false;
    value->texts[value->count++] = text;
    value->is_given = true;
    return ICP_EXIT_OK;
}

/* ---- Parsing ------------------------------------------------------------------------------------------------- */

static int read_environment(icp_arguments *arguments)
{
    for (unsigned i = 0; i < ICP_OPTION_COUNT; i++) {
        const icp_option *option = &icp_options[i];
        char name[ICP_ENVIRONMENT_BYTES];
        if (!has_verb(option, arguments->verb) || i == ICP_OPTION_HELP) continue;
        if (option->fallback != NULL) arguments->values[i] = (icp_argument){.texts = {option->fallback}, .count = 1};
        const char *text = icp_option_environment(option, name) ? getenv(name) : NULL;
        if (text == NULL || *text == '\0') continue;
        if (option->type == ICP_OPTION_TYPE_FLAG && strcmp(text, "0") == 0) continue;
        int status = add_value(arguments, option, text, name);
        if (status != ICP_EXIT_OK) return status;
        arguments->values[i].is_weak = true;
    }
    return ICP_EXIT_OK;
}

typedef struct cursor {
    char **words;
    size_t count;
    size_t next;
} cursor;

static int take_value(icp_arguments *arguments, const icp_option *option, const char *text, cursor *at)
{
    char label[ICP_ENVIRONMENT_BYTES];
    snprintf(label, sizeof(label), "--%s", option->name);
    if (text == NULL) {
        if (at->next == at->count) return icp_say_usage("%s wants a value: %s %s", label, label, option->argument);
        text = at->words[at->next++];
    }
    return add_value(arguments, option, text, label);
}

static int parse_long(icp_arguments *arguments, const char *word, cursor *at)
{
    size_t length = strcspn(word + 2, "=");
    const char *text = word[2 + length] == '=' ? word + 3 + length : NULL;
    const icp_option *option = find_name(arguments->verb, word + 2, length);
    if (option == NULL) return unknown_option(arguments->verb, word);
    if (option->type != ICP_OPTION_TYPE_FLAG) return take_value(arguments, option, text, at);
    if (text != NULL) return icp_say_usage("--%s takes no value", option->name);
    return add_value(arguments, option, "", option->name);
}

static int parse_letters(icp_arguments *arguments, const char *word, cursor *at)
{
    for (const char *letter = word + 1; *letter != '\0'; letter++) {
        const icp_option *option = find_letter(arguments->verb, *letter);
        if (option == NULL) return unknown_option(arguments->verb, (char[]){'-', *letter, '\0'});
        if (option->type != ICP_OPTION_TYPE_FLAG)
            return take_value(arguments, option, letter[1] != '\0' ? letter + 1 : NULL, at);
        int status = add_value(arguments, option, "", option->name);
        if (status != ICP_EXIT_OK) return status;
    }
    return ICP_EXIT_OK;
}

int icp_arguments_parse(icp_arguments *arguments, const icp_verb *verb, char **words, size_t word_count)
{
    const char **operands = arguments->operands;
    memset(arguments, 0, sizeof(*arguments));
    arguments->verb = verb;
    arguments->operands = operands;
    int status = read_environment(arguments);
    bool is_option_over = false;
    cursor at = {.words = words, .count = word_count};
    while (status == ICP_EXIT_OK && at.next < at.count) {
        const char *word = words[at.next++];
        if (is_option_over || word[0] != '-' || word[1] == '\0')
            operands[arguments->operand_count++] = word;
        else if (strcmp(word, "--") == 0)
            is_option_over = true;
        else if (word[1] == '-')
            status = parse_long(arguments, word, &at);
        else
            status = parse_letters(arguments, word, &at);
    }
    return status;
}

/* ---- Asking -------------------------------------------------------------------------------------------------- */

bool icp_arguments_flag(const icp_arguments *arguments, icp_option_id id)
{
    return arguments->values[id].count > 0;
}

bool icp_arguments_is_given(const icp_arguments *arguments, icp_option_id id)
{
    return arguments->values[id].is_given;
}

const char *icp_arguments_text(const icp_arguments *arguments, icp_option_id id)
{
    const icp_argument *value = &arguments->values[id];
    return value->count > 0 ? value->texts[value->count - 1] : NULL;
}

uint64_t icp_arguments_count(const icp_arguments *arguments, icp_option_id id)
{
    const char *text = icp_arguments_text(arguments, id);
    uint64_t value = 0;
    if (text == NULL) return 0;
    bool is_read = icp_options[id].type == ICP_OPTION_TYPE_SIZE ? parse_size(text, &value)
                                                                : parse_count(text, strlen(text), &value);
    return is_read ? value : 0;
}

double icp_arguments_number(const icp_arguments *arguments, icp_option_id id)
{
    const char *text = icp_arguments_text(arguments, id);
    double value = 0.0;
    return text != NULL && parse_number(text, &value) ? value : 0.0;
}

uint32_t icp_arguments_choice(const icp_arguments *arguments, icp_option_id id)
{
    const char *text = icp_arguments_text(arguments, id);
    uint32_t index = 0;
    if (text == NULL || !is_choice(icp_options[id].choices, text, strlen(text), &index)) return 0;
    return index;
}

bool icp_arguments_has_choice(const icp_arguments *arguments, icp_option_id id, const char *choice)
{
    const char *at = icp_arguments_text(arguments, id), *piece;
    size_t length;
    if (at == NULL) return true; /* all */
    while (next_piece(&at, &piece, &length)) {
        if (strlen(choice) == length && memcmp(piece, choice, length) == 0) return true;
    }
    return false;
}

uint32_t icp_arguments_counts(const icp_arguments *arguments, icp_option_id id, uint32_t values[ICP_LIST_COUNT_MAX])
{
    const char *at = icp_arguments_text(arguments, id), *piece;
    size_t length;
    uint32_t count = 0;
    while (next_piece(&at, &piece, &length)) {
        uint64_t value;
        if (parse_count(piece, length, &value)) values[count++] = (uint32_t)value;
    }
    return count;
}
