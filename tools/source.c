/* source.c - reading text files for the programs in tools/. */
#include "source.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static void die(const char *path)
{
    perror(path);
    exit(2);
}

char *source_read(const char *path)
{
    struct stat info;
    if (lstat(path, &info) != 0) {
        if (errno != ENOENT && errno != ENOTDIR) die(path);
        return NULL;
    }
    if (!S_ISREG(info.st_mode)) return NULL;

    FILE *file = fopen(path, "rb");
    if (file == NULL) die(path);
    size_t bytes = (size_t)info.st_size;
    char *text = malloc(bytes + 1);
    if (text == NULL || fread(text, 1, bytes, file) != bytes) die(path);
    fclose(file);
    text[bytes] = '\0';

    if (strlen(text) == bytes) return text;
    free(text);
    return NULL;
}

bool source_next(const char **cursor, source_line *line)
{
    if (**cursor == '\0') return false;
    const char *end = strchr(*cursor, '\n');
    line->text = *cursor;
    line->length = end != NULL ? (size_t)(end - *cursor) : strlen(*cursor);
    line->number++;
    *cursor += line->length + (end != NULL ? 1 : 0);
    return true;
}

static const char *skip_blanks(const char *at, const char *end)
{
    while (at < end && (*at == ' ' || *at == '\t')) at++;
    return at;
}

bool source_parse_include(const source_line *line, source_include *include)
{
    const char *end = line->text + line->length;
    const char *at = skip_blanks(line->text, end);
    if (at == end || *at != '#') return false;
    at = skip_blanks(at + 1, end);
    if (end - at < 7 || memcmp(at, "include", 7) != 0) return false;
    at = skip_blanks(at + 7, end);
    if (at == end || (*at != '"' && *at != '<')) return false;

    include->is_system = *at == '<';
    const char *close = memchr(at + 1, include->is_system ? '>' : '"', (size_t)(end - at - 1));
    if (close == NULL || close - at > SOURCE_NAME_MAX) return false;
    size_t length = (size_t)(close - at - 1);
    memcpy(include->name, at + 1, length);
    include->name[length] = '\0';
    return true;
}

bool source_has_prefix(const char *text, const char *prefix)
{
    return strncmp(text, prefix, strlen(prefix)) == 0;
}

bool source_has_suffix(const char *text, const char *suffix)
{
    size_t length = strlen(text);
    size_t suffix_length = strlen(suffix);
    return length >= suffix_length && strcmp(text + length - suffix_length, suffix) == 0;
}
