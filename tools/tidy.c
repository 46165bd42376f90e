/* tidy.c - fails the build where the text of a source breaks the project's habits.
 *
 *     tidy FILE...      prints "file:line: what is wrong" for each finding; exit 1 where there is one
 *
 * What is checked is in two tables: rules[], one small function each, and bans[], words that code of a folder may not
 * use. A rule sees the file as it is and as code alone, where comments and literals are blanked out. Files that are
 * not there (deleted, yet known to git) and binary files are passed over. */
#include "source.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COLUMNS_MAX 120u
#define FUNCTION_LINES_MAX 70u
#define FILE_LINES_MAX 1000u

enum { KIND_C = 1, KIND_SCRIPT = 2, KIND_PROSE = 4, KIND_ANY = 7 };

typedef struct tidy_file {
    const char *path;
    unsigned kind;
    const char *text;
    const char *code; /* text of the same layout, without comments and literals; C only */
} tidy_file;

static unsigned findings;

static void find(const tidy_file *file, unsigned line, const char *what, const char *detail)
{
    fprintf(stderr, "%s:%u: %s%s\n", file->path, line, what, detail);
    findings++;
}

/* ---- Rules --------------------------------------------------------------------------------------------- */

static void check_columns(const tidy_file *file)
{
    const char *cursor = file->text;
    source_line line = {.number = 0};
    while (source_next(&cursor, &line)) {
        unsigned columns = 0;
        for (size_t i = 0; i < line.length; i++) {
            if (((unsigned char)line.text[i] & 0xc0u) != 0x80u) columns++; /* UTF-8: first bytes only */
        }
        if (columns > COLUMNS_MAX) find(file, line.number, "the line is longer than 120 columns", "");
    }
}

static void check_tabs(const tidy_file *file)
{
    const char *cursor = file->text;
    source_line line = {.number = 0};
    while (source_next(&cursor, &line)) {
        if (memchr(line.text, '\t', line.length) != NULL) find(file, line.number, "a tab", "");
    }
}

static void check_line_ends(const tidy_file *file)
{
    const char *cursor = file->text;
    source_line line = {.number = 0};
    while (source_next(&cursor, &line)) {
        if (line.length > 0 && strchr(" \t\r", line.text[line.length - 1]) != NULL) {
            find(file, line.number, "space at the end of the line", "");
        }
    }
    if (cursor > file->text && cursor[-1] != '\n') find(file, line.number, "no newline at the end of the file", "");
}

static void check_file_length(const tidy_file *file)
{
    const char *cursor = file->text;
    source_line line = {.number = 0};
    while (source_next(&cursor, &line)) continue;
    if (line.number > FILE_LINES_MAX) find(file, line.number, "longer than 1000 lines: split the file by noun", "");
}

/* A function lies between a { and a } that each begin a line. */
static void check_function_length(const tidy_file *file)
{
    const char *cursor = file->code;
    source_line line = {.number = 0};
    unsigned start = 0;
    while (source_next(&cursor, &line)) {
        char first = line.length > 0 ? line.text[0] : ' ';
        if (first == '{') start = line.number;
        if (first != '}' || start == 0) continue;
        if (line.number - start + 1 > FUNCTION_LINES_MAX) find(file, start, "the function is longer than 70 lines", "");
        start = 0;
    }
}

/* The file begins with "/" "* name - ", name being the end of its own path. */
static void check_head(const tidy_file *file)
{
    const char *end = source_has_prefix(file->text, "/* ") ? strstr(file->text, " - ") : NULL;
    size_t length = end != NULL ? (size_t)(end - file->text) - 3 : 0;
    size_t path_length = strlen(file->path);
    bool is_own_name = length > 0 && length <= path_length &&
                       memcmp(file->text + 3, file->path + path_length - length, length) == 0 &&
                       (length == path_length || file->path[path_length - length - 1] == '/');
    if (!is_own_name) find(file, 1, "the file does not begin with a comment \"its-name - what it is\"", "");
}

/* ---- Words --------------------------------------------------------------------------------------------- */

static bool is_word_char(char c)
{
    return isalnum((unsigned char)c) || c == '_';
}

/* The next place at or after at where the word stands alone, or NULL. */
static const char *next_word(const char *text, const char *at, const char *word)
{
    size_t length = strlen(word);
    for (at = strstr(at, word); at != NULL; at = strstr(at + 1, word)) {
        if ((at == text || !is_word_char(at[-1])) && !is_word_char(at[length])) return at;
    }
    return NULL;
}

static unsigned line_of(const char *text, const char *at)
{
    unsigned number = 1;
    for (; text < at; text++) number += *text == '\n';
    return number;
}

static void check_left_over(const tidy_file *file)
{
    static const char *const words[] = {"TODO", "FIXME", "XXX"};
    if (strcmp(file->path, "tools/tidy.c") == 0) return; /* it has to name them */
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        const char *at = next_word(file->text, file->text, words[i]);
        for (; at != NULL; at = next_word(file->text, at + 1, words[i])) {
            find(file, line_of(file->text, at), "work left over: ", words[i]);
        }
    }
}

typedef struct tidy_ban {
    const char *where;  /* path prefix */
    const char *except; /* path prefix within it that is free to, or NULL */
    bool is_call;       /* banned as a call only, not as a word or a member */
    const char *words;
    const char *why;
} tidy_ban;

static const tidy_ban bans[] = {
    {"", NULL, true, "strcpy strcat sprintf vsprintf gets alloca", "writes without a bound: "},
    {"", NULL, true, "strtok rand srand random srandom drand48", "keeps hidden state: "},
    {"", "tests/", true, "setjmp longjmp", "hides where control goes: "},
    {"src/cache/", NULL, true, "malloc calloc realloc free aligned_alloc posix_memalign strdup",
     "the cache takes its memory once, at open, from base: "},
    {"src/cache/", NULL, true, "printf fprintf vprintf vfprintf puts fputs putchar perror exit abort",
     "the library never prints or ends the program: "},
    {"src/cache/", NULL, true, "time clock clock_gettime gettimeofday getrandom",
     "the cache reads no clock and no random device: "},
    {"src/cache/", NULL, false, "float double", "the cache has no floats: "},
};

static bool is_call(const char *code, const char *at, size_t length)
{
    const char *before = at;
    while (before > code && before[-1] == ' ') before--;
    bool is_member =
        (before - code >= 1 && before[-1] == '.') || (before - code >= 2 && memcmp(before - 2, "->", 2) == 0);
    at += length;
    while (*at == ' ') at++;
    return !is_member && *at == '(';
}

static void check_ban(const tidy_file *file, const tidy_ban *ban, const char *word)
{
    const char *at = next_word(file->code, file->code, word);
    for (; at != NULL; at = next_word(file->code, at + 1, word)) {
        if (ban->is_call && !is_call(file->code, at, strlen(word))) continue;
        find(file, line_of(file->code, at), ban->why, word);
    }
}

static void check_bans(const tidy_file *file)
{
    for (size_t i = 0; i < sizeof(bans) / sizeof(bans[0]); i++) {
        if (!source_has_prefix(file->path, bans[i].where)) continue;
        if (bans[i].except != NULL && source_has_prefix(file->path, bans[i].except)) continue;
        const char *at = bans[i].words;
        while (*at != '\0') {
            char word[32];
            size_t length = strcspn(at, " ");
            snprintf(word, sizeof(word), "%.*s", (int)length, at);
            check_ban(file, &bans[i], word);
            at += length + (at[length] == ' ');
        }
    }
}

/* ---- The tables at work -------------------------------------------------------------------------------- */

typedef struct tidy_rule {
    unsigned kinds;
    void (*check)(const tidy_file *file);
} tidy_rule;

/* clang-format off: a rule on each line */
static const tidy_rule rules[] = {
    {KIND_C | KIND_SCRIPT, check_columns}, {KIND_C, check_tabs},
    {KIND_ANY, check_line_ends},           {KIND_C, check_file_length},
    {KIND_C, check_function_length},       {KIND_C, check_head},
    {KIND_ANY, check_left_over},           {KIND_C, check_bans},
};
/* clang-format on */

/* 0: none of ours. A name without a suffix is a script, or as plain as one (LICENSE). */
static unsigned kind_of(const char *path)
{
    static const struct {
        const char *suffix;
        unsigned kind;
    } kinds[] = {
        {".c", KIND_C},       {".h", KIND_C},       {".cu", KIND_C},     {".cuh", KIND_C},
        {".py", KIND_SCRIPT}, {".sh", KIND_SCRIPT}, {".md", KIND_PROSE}, {".in", KIND_PROSE},
        {".1", KIND_PROSE},   {".3", KIND_PROSE},   {".7", KIND_PROSE},
    };
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        if (source_has_suffix(path, kinds[i].suffix)) return kinds[i].kind;
    }
    const char *slash = strrchr(path, '/');
    return strchr(slash != NULL ? slash : path, '.') == NULL ? KIND_SCRIPT : 0;
}

/* How many characters the comment or literal that starts at text takes; 0: none starts there. */
static size_t skip_length(const char *text)
{
    const char *end = text;
    if (source_has_prefix(text, "/*")) {
        end = strstr(text + 2, "*/");
        return end != NULL ? (size_t)(end - text) + 2 : strlen(text);
    }
    if (source_has_prefix(text, "//")) return strcspn(text, "\n");
    if (*text != '"' && *text != '\'') return 0;
    for (end = text + 1; *end != '\0' && *end != '\n' && *end != *text; end++) {
        if (*end == '\\' && end[1] != '\0') end++;
    }
    return (size_t)(end - text) + (*end == *text);
}

static char *code_of(const char *text)
{
    char *code = malloc(strlen(text) + 1);
    if (code == NULL) exit(2);
    size_t at = 0;
    while (text[at] != '\0') {
        size_t end = at + skip_length(text + at);
        if (end == at) {
            code[at] = text[at];
            at++;
        }
        for (; at < end; at++) code[at] = text[at] == '\n' ? '\n' : ' ';
    }
    code[at] = '\0';
    return code;
}

static void check_file(const char *path)
{
    tidy_file file = {.path = path, .kind = kind_of(path)};
    char *text = file.kind != 0 ? source_read(path) : NULL;
    if (text == NULL) return;
    char *code = code_of(text);
    file.text = text;
    file.code = code;
    for (size_t i = 0; i < sizeof(rules) / sizeof(rules[0]); i++) {
        if ((rules[i].kinds & file.kind) != 0) rules[i].check(&file);
    }
    free(code);
    free(text);
}

int main(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) check_file(argv[i]);
    if (findings > 0) fprintf(stderr, "tidy: %u findings\n", findings);
    return findings > 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}
