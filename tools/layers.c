/* layers.c - fails the build where an #include goes up, or sideways, in the layers of the design.
 *
 *     layers FILE...      prints "file:line: rule" for each breach; exit 1 where there is one
 *
 * The table below is the design's layer diagram. Project headers are included by their path under src/ or include/
 * ("base/list.h", "incipit/cache.h"), or by their bare name from the same folder, so that the layer can be read off
 * the line. Files outside the folders of the table (tools, tests, bench) may include what they like, but no .c file. */
#include "source.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAY_MAX 8

typedef struct layer_rule {
    const char *files;        /* path prefix of the files that are this layer */
    const char *may[MAY_MAX]; /* what they may include: a header, or a folder with its "/" */
    const char *rule;         /* for people */
} layer_rule;

/* From the bottom up. A layer may always include headers of its own folder. */
static const layer_rule layers[] = {
    {"include/incipit/cache.h", {NULL}, "incipit/cache.h stands alone"},
    {"include/incipit/engine.h", {"incipit/cache.h"}, "incipit/engine.h sees incipit/cache.h only"},
    {"src/base/", {"base/"}, "base is the lowest layer and sees base only"},
    {"src/cache/", {"cache/", "base/", "incipit/cache.h"}, "cache sees base and incipit/cache.h only"},
    {"src/tier/", {"tier/", "base/", "incipit/cache.h"}, "tier sees base and incipit/cache.h only"},
    {"src/backend/", {"backend/", "base/", "incipit/cache.h"}, "backend sees base and incipit/cache.h only"},
    {"src/model/",
     {"model/", "backend/backend.h", "base/", "incipit/cache.h", "incipit/engine.h"},
     "model sees backend/backend.h, base and the public headers (for the types of a request) only"},
    {"src/engine/",
     {"engine/", "model/", "backend/", "tier/", "base/", "incipit/cache.h", "incipit/engine.h"},
     "engine sees model, backend, tier, base and the public headers, and knows nothing of the server"},
    {"src/server/",
     {"server/", "base/", "incipit/cache.h", "incipit/engine.h"},
     "server sees incipit/engine.h, incipit/cache.h and base only"},
    {"src/cli/",
     {"cli/", "server/", "base/", "incipit/cache.h", "incipit/engine.h"},
     "cli sees server, base and the public headers"},
    {"src/", {NULL}, "every file of src/ is in the folder of a layer that tools/layers.c knows"},
    {"examples/", {"incipit/cache.h", "incipit/engine.h"}, "examples see the public headers only, as users do"},
};

/* The cache is pure bookkeeping: system headers that it has no use for. A name that ends in "/" is a folder. */
static const char *const not_for_cache[] = {
    "complex.h", "fcntl.h", "fenv.h",    "float.h", "math.h",   "netdb.h", "poll.h", "pthread.h",
    "signal.h",  "spawn.h", "threads.h", "time.h",  "unistd.h", "net/",    "sys/",
};

static unsigned breaches;

static void breach(const char *path, const source_line *line, const char *name, const char *rule)
{
    fprintf(stderr, "%s:%u: includes %s: %s\n", path, line->number, name, rule);
    breaches++;
}

static bool is_in(const char *name, const char *pattern)
{
    return source_has_suffix(pattern, "/") ? source_has_prefix(name, pattern) : strcmp(name, pattern) == 0;
}

static const layer_rule *layer_of(const char *path)
{
    for (size_t i = 0; i < sizeof(layers) / sizeof(layers[0]); i++) {
        if (source_has_prefix(path, layers[i].files)) return &layers[i];
    }
    return NULL;
}

static bool is_allowed(const layer_rule *layer, const source_include *include)
{
    if (!include->is_system && strchr(include->name, '/') == NULL) return true; /* of its own folder */
    for (size_t i = 0; i < MAY_MAX && layer->may[i] != NULL; i++) {
        if (is_in(include->name, layer->may[i])) return true;
    }
    return false;
}

static bool is_unfit_for_cache(const char *name)
{
    for (size_t i = 0; i < sizeof(not_for_cache) / sizeof(not_for_cache[0]); i++) {
        if (is_in(name, not_for_cache[i])) return true;
    }
    return false;
}

static void check_include(const char *path, const source_line *line, const source_include *include)
{
    const layer_rule *layer = layer_of(path);
    const char *name = include->name;
    bool is_foreign = include->is_system && !source_has_prefix(name, "incipit/"); /* libc's, or another library's */

    if (source_has_suffix(name, ".c")) {
        breach(path, line, name, "headers are included, never a .c file");
    } else if (is_foreign) {
        if (source_has_prefix(path, "src/cache/") && is_unfit_for_cache(name)) {
            breach(path, line, name, "cache is pure bookkeeping: no I/O, thread, clock or float");
        }
    } else if (strstr(name, "..") != NULL) {
        breach(path, line, name, "paths begin at src/ or include/, so that the layer can be read off them");
    } else if (layer != NULL && !is_allowed(layer, include)) {
        breach(path, line, name, layer->rule);
    }
}

static void check_file(const char *path)
{
    char *text = source_read(path);
    if (text == NULL) return;

    const char *cursor = text;
    source_line line = {.number = 0};
    source_include include;
    while (source_next(&cursor, &line)) {
        if (source_parse_include(&line, &include)) check_include(path, &line, &include);
    }
    free(text);
}

int main(int argc, char **argv)
{
    static const char *const suffixes[] = {".c", ".h", ".cu", ".cuh"};
    for (int i = 1; i < argc; i++) {
        for (size_t j = 0; j < sizeof(suffixes) / sizeof(suffixes[0]); j++) {
            if (source_has_suffix(argv[i], suffixes[j])) check_file(argv[i]);
        }
    }
    if (breaches > 0) fprintf(stderr, "layers: %u breaches\n", breaches);
    return breaches > 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}
