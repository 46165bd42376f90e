/* source.h - what the programs in tools/ share: a text file in memory, its lines, its #include lines. */
#ifndef TOOLS_SOURCE_H
#define TOOLS_SOURCE_H

#include <stdbool.h>
#include <stddef.h>

#define SOURCE_NAME_MAX 256

/* The whole file, with a NUL after it, or NULL where there is no such file or it is binary. The caller frees it. Ends
 * the program where the file is there and cannot be read. */
char *source_read(const char *path);

typedef struct source_line {
    const char *text; /* not NUL-terminated */
    size_t length;    /* without the newline */
    unsigned number;  /* from 1 */
} source_line;

/* Steps from line to line. Begin with *cursor at the text and line->number 0; false at the end. */
bool source_next(const char **cursor, source_line *line);

typedef struct source_include {
    char name[SOURCE_NAME_MAX];
    bool is_system; /* <name>, not "name" */
} source_include;

/* Reads an #include line; false where the line is another one. */
bool source_parse_include(const source_line *line, source_include *include);

bool source_has_prefix(const char *text, const char *prefix);
bool source_has_suffix(const char *text, const char *suffix);

#endif
