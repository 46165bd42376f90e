/* amalgamate.c - writes libincipit as one C file.
 *
 *     amalgamate SOURCE.c... >incipit.c
 *
 * Each source is copied in turn. An internal header is put where it is first asked for, with its own includes before
 * it, and left out from then on: so the headers come in the order in which they depend on each other. The public
 * header is included at the top, as incipit.h, and <...> lines stay as they are.
 *
 * What the sources must keep for this to work: an internal #include is never inside an #if (other than the guard of a
 * header), and no two sources give the same name to a static function, a type or a macro. The compiler finds the
 * latter, this program the former. */
#include "source.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HEADER_COUNT_MAX 256

static char headers[HEADER_COUNT_MAX][SOURCE_NAME_MAX]; /* paths of those written so far */
static size_t header_count;

static const char preamble[] =
    "/* incipit.c - libincipit in one file, made by tools/amalgamate.c: edit the sources, not this. Licence: MIT. */\n"
    "#ifndef _DEFAULT_SOURCE\n"
    "#define _DEFAULT_SOURCE 1\n"
    "#endif\n"
    "#include \"incipit.h\"\n";

static void die(const char *path, unsigned line, const char *what, const char *name)
{
    fprintf(stderr, "%s:%u: %s %s\n", path, line, what, name);
    exit(1);
}

/* Whether this header is still to be written; from now on it is not. */
static bool is_first_time(const char *path)
{
    for (size_t i = 0; i < header_count; i++) {
        if (strcmp(headers[i], path) == 0) return false;
    }
    if (header_count == HEADER_COUNT_MAX) die(path, 0, "is one header too many:", "raise HEADER_COUNT_MAX");
    snprintf(headers[header_count++], SOURCE_NAME_MAX, "%s", path);
    return true;
}

/* Where an internal header lies: a bare name beside the file that includes it, a path under src/. Its text, or NULL. */
static char *find_header(const char *from, const char *name, char path[SOURCE_NAME_MAX])
{
    const char *slash = strrchr(from, '/');
    int folder_length = slash != NULL ? (int)(slash - from + 1) : 0;
    bool is_bare = strchr(name, '/') == NULL;
    int length = snprintf(path, SOURCE_NAME_MAX, "%.*s%s", is_bare ? folder_length : 4, is_bare ? from : "src/", name);
    return length < SOURCE_NAME_MAX ? source_read(path) : NULL;
}

/* +1 at #if, #ifdef, #ifndef; -1 at #endif. */
static int condition_step(const source_line *line)
{
    const char *at = line->text;
    const char *end = at + line->length;
    if (at == end || *at != '#') return 0;
    for (at++; at < end && *at == ' '; at++) continue;
    if (end - at >= 2 && memcmp(at, "if", 2) == 0) return 1;
    return end - at >= 5 && memcmp(at, "endif", 5) == 0 ? -1 : 0;
}

static void emit(const char *path, const char *text)
{
    int depth_guard = source_has_suffix(path, ".h") ? 1 : 0;
    int depth = 0;
    const char *cursor = text;
    source_line line = {.number = 0};
    source_include include;

    printf("\n/* ---- %s ---- */\n\n", path);
    while (source_next(&cursor, &line)) {
        depth += condition_step(&line);
        bool is_include = source_parse_include(&line, &include);
        if (is_include && source_has_prefix(include.name, "incipit/")) continue;
        if (!is_include || include.is_system) {
            printf("%.*s\n", (int)line.length, line.text);
            continue;
        }
        if (depth > depth_guard) die(path, line.number, "an #if hides the include of", include.name);
        char header_path[SOURCE_NAME_MAX];
        char *header = find_header(path, include.name, header_path);
        if (header == NULL) die(path, line.number, "there is no", include.name);
        if (is_first_time(header_path)) emit(header_path, header);
        free(header);
    }
}

int main(int argc, char **argv)
{
    printf("%s", preamble);
    for (int i = 1; i < argc; i++) {
        char *text = source_read(argv[i]);
        if (text == NULL) die(argv[i], 0, "cannot be read:", "no such text file");
        emit(argv[i], text);
        free(text);
    }
    return fflush(stdout) == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
