/* gguf.c - model files: maps the parts, has each of them read (gguf_part.c), and finds pairs and tensors by name.
 *
 * Names are found through tables of open addressing, at most a quarter full. The hash has no seed, so a file can be
 * made whose names collide; the search for a name takes PROBES_MAX steps and no more, and a file with a name that has
 * no place within them is refused. With names that were not chosen for it that does not happen: runs of 64 in a table
 * that is a quarter full have a probability of about 10^-13 for the largest number of names.
 *
 * Parts of a split model may repeat keys of the first one. The tables of names then show the first pair, as a key may
 * occur once in each part. Names of tensors are unique in all of them. */
#include "model/gguf_part.h"

#include "base/assert.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define PROBES_MAX 64u
#define LABEL_BYTES_MAX 60u    /* of a file's name in an error */
#define PATH_BYTES_SHOWN 120u  /* where the file cannot be opened */
#define SPLIT_SUFFIX_BYTES 20u /* "-00001-of-00003.gguf" */
#define SPLIT_SUFFIX_ROOM 40u  /* what snprintf is given for it */

typedef struct name_slot {
    const icp_gguf_string *name; /* in the table of pairs or tensors; NULL: the slot is empty */
    uint64_t hash;
    uint32_t first; /* index of the first of this name */
    uint32_t last;
} name_slot;

typedef struct name_table {
    name_slot *slots;
    uint32_t slot_count; /* a power of two */
} name_table;

struct icp_gguf {
    icp_gguf_part *parts;
    uint32_t part_count;
    icp_gguf_tables tables;
    name_table pair_names;
    name_table tensor_names;
};

/* split.no, split.count and split.tensors.count. */
typedef struct split_info {
    uint64_t number;
    uint64_t count; /* 0 or 1: this file is all of it */
    uint64_t tensor_count;
} split_info;

/* ---- Names --------------------------------------------------------------------------------------------- */

/* FNV-1a, and a last mix for the low bits, which choose the slot. */
static uint64_t name_hash(icp_gguf_string name)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    for (size_t i = 0; i < name.bytes; i++) hash = (hash ^ (uint8_t)name.text[i]) * UINT64_C(0x100000001b3);
    hash ^= hash >> 32;
    hash *= UINT64_C(0xd6e8feb86659fd93);
    return hash ^ hash >> 32;
}

/* The slot that has the name, or the one that would take it. NULL: PROBES_MAX others are in the way. */
static name_slot *names_probe(const name_table *table, icp_gguf_string name, uint64_t hash)
{
    for (uint32_t i = 0; i < PROBES_MAX; i++) {
        name_slot *slot = &table->slots[(hash + i) & (table->slot_count - 1)];
        if (slot->name == NULL) return slot;
        if (slot->hash != hash || slot->name->bytes != name.bytes) continue;
        if (memcmp(slot->name->text, name.text, name.bytes) == 0) return slot;
    }
    return NULL;
}

static icp_status names_open(name_table *table, uint32_t count)
{
    table->slot_count = PROBES_MAX;
    while (table->slot_count / 4 < count) table->slot_count *= 2;
    table->slots = calloc(table->slot_count, sizeof(name_slot));
    return table->slots == NULL ? ICP_NO_MEMORY : ICP_OK;
}

/* Notes the name. since: where the names begin that it must differ from. */
static icp_status names_add(name_table *table, const icp_gguf_string *name, uint32_t index, uint32_t since,
                            icp_error *error)
{
    char quote[ICP_GGUF_QUOTE_BYTES];
    uint64_t hash = name_hash(*name);
    name_slot *slot = names_probe(table, *name, hash);
    if (slot == NULL) {
        icp_gguf_explain(error, "too many names collide with %s: the file was made to do so",
                         icp_gguf_quote(*name, quote));
        return ICP_BAD_ARGUMENT;
    }
    if (slot->name == NULL) {
        *slot = (name_slot){.name = name, .hash = hash, .first = index, .last = index};
        return ICP_OK;
    }
    if (slot->last >= since) {
        icp_gguf_explain(error, "%s is there twice", icp_gguf_quote(*name, quote));
        return ICP_BAD_ARGUMENT;
    }
    slot->last = index;
    return ICP_OK;
}

static uint32_t names_find(const name_table *table, const char *text)
{
    icp_gguf_string name = {text, strlen(text)};
    const name_slot *slot = names_probe(table, name, name_hash(name));
    return slot == NULL || slot->name == NULL ? UINT32_MAX : slot->first;
}

static icp_status build_names(icp_gguf *gguf, icp_error *error)
{
    const icp_gguf_tables *tables = &gguf->tables;
    icp_status status = names_open(&gguf->pair_names, tables->pair_count);
    if (status != ICP_OK) return status;
    status = names_open(&gguf->tensor_names, tables->tensor_count);
    for (uint32_t p = 0; p < gguf->part_count; p++) {
        uint32_t first = gguf->parts[p].pair_first;
        for (uint32_t i = 0; i < gguf->parts[p].pair_count && status == ICP_OK; i++)
            status = names_add(&gguf->pair_names, &tables->pairs[first + i].key, first + i, first, error);
    }
    for (uint32_t i = 0; i < tables->tensor_count && status == ICP_OK; i++)
        status = names_add(&gguf->tensor_names, &tables->tensors[i].name, i, 0, error);
    return status;
}

/* ---- Parts --------------------------------------------------------------------------------------------- */

static void parts_close(icp_gguf *gguf)
{
    for (uint32_t i = 0; i < gguf->part_count; i++) {
        icp_gguf_part *part = &gguf->parts[i];
        if (part->is_mapped) munmap((void *)(uintptr_t)part->image, part->bytes);
    }
    free(gguf->parts);
    free(gguf->tables.pairs);
    free(gguf->tables.tensors);
    gguf->parts = NULL;
    gguf->part_count = 0;
    gguf->tables = (icp_gguf_tables){0};
}

/* An empty part at the end of the list. */
static icp_gguf_part *part_add(icp_gguf *gguf)
{
    icp_gguf_part *grown = realloc(gguf->parts, (gguf->part_count + (size_t)1) * sizeof(*grown));
    if (grown == NULL) return NULL;
    gguf->parts = grown;
    icp_gguf_part *part = &grown[gguf->part_count++];
    *part = (icp_gguf_part){0};
    return part;
}

static const char *text_tail(const char *text, size_t bytes_max)
{
    size_t bytes = strlen(text);
    return bytes > bytes_max ? text + (bytes - bytes_max) : text;
}

/* The name of the file without its folder; the end of it where it is long. */
static const char *label_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    return text_tail(slash == NULL ? path : slash + 1, LABEL_BYTES_MAX);
}

static icp_status cannot_open(const char *path, int number, icp_error *error)
{
    char why[64];
    if (strerror_r(number, why, sizeof(why)) != 0) snprintf(why, sizeof(why), "error %d", number);
    icp_gguf_explain(error, "%s cannot be opened: %s", text_tail(path, PATH_BYTES_SHOWN), why);
    return number == ENOMEM ? ICP_NO_MEMORY : ICP_NOT_FOUND;
}

static icp_status part_map_file(icp_gguf_part *part, const char *path, int file, icp_error *error)
{
    struct stat info;
    if (fstat(file, &info) != 0) return cannot_open(path, errno, error);
    if (!S_ISREG(info.st_mode)) {
        icp_gguf_explain(error, "%s is not a regular file", text_tail(path, PATH_BYTES_SHOWN));
        return ICP_NOT_FOUND;
    }
    if (info.st_size == 0) return ICP_OK; /* cannot be mapped; the reader tells that there is no header */
    if ((uint64_t)info.st_size > SIZE_MAX) return cannot_open(path, EFBIG, error);
    void *image = mmap(NULL, (size_t)info.st_size, PROT_READ, MAP_PRIVATE, file, 0);
    if (image == MAP_FAILED) return cannot_open(path, errno, error);
    part->image = image;
    part->bytes = (size_t)info.st_size;
    part->is_mapped = true;
    return ICP_OK;
}

/* Adds one file. It is opened without waiting, as a path may lead to a pipe that nobody writes to. */
static icp_status part_open(icp_gguf *gguf, const char *path, icp_error *error)
{
    icp_gguf_part *part = part_add(gguf);
    if (part == NULL) return ICP_NO_MEMORY;
    int file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (file < 0) return cannot_open(path, errno, error);
    icp_status status = part_map_file(part, path, file, error);
    close(file); /* the map stays */
    if (status != ICP_OK) return status;
    return icp_gguf_part_read(part, &gguf->tables, label_of(path), error);
}

/* ---- Split models -------------------------------------------------------------------------------------- */

/* A number of one part, whose names have no table yet. */
static bool part_uint(const icp_gguf *gguf, const icp_gguf_part *part, const char *key, uint64_t *out)
{
    size_t bytes = strlen(key);
    for (uint32_t i = 0; i < part->pair_count; i++) {
        const icp_gguf_pair *pair = &gguf->tables.pairs[part->pair_first + i];
        if (pair->key.bytes == bytes && memcmp(pair->key.text, key, bytes) == 0) return icp_gguf_pair_uint(pair, out);
    }
    return false;
}

/* What the part says of the whole. A count of 0 is what tools leave behind that join parts. */
static icp_status split_read(const icp_gguf *gguf, const icp_gguf_part *part, split_info *out, const char *label,
                             icp_error *error)
{
    *out = (split_info){0};
    if (!part_uint(gguf, part, "split.count", &out->count) || out->count <= 1) return ICP_OK;
    if (out->count > ICP_GGUF_SPLIT_COUNT_MAX) {
        icp_gguf_explain(error, "%s: split.count: %llu parts are too many", label, (unsigned long long)out->count);
        return ICP_BAD_ARGUMENT;
    }
    if (!part_uint(gguf, part, "split.no", &out->number) || out->number >= out->count) {
        icp_gguf_explain(error, "%s: split.no is missing or not below split.count", label);
        return ICP_BAD_ARGUMENT;
    }
    if (!part_uint(gguf, part, "split.tensors.count", &out->tensor_count)) {
        icp_gguf_explain(error, "%s: split.tensors.count is missing", label);
        return ICP_BAD_ARGUMENT;
    }
    return ICP_OK;
}

/* Checks the part opened last against what the first one that was opened said. */
static icp_status split_check(const icp_gguf *gguf, const split_info *expected, const char *label, icp_error *error)
{
    const icp_gguf_part *part = &gguf->parts[gguf->part_count - 1];
    split_info found;
    icp_status status = split_read(gguf, part, &found, label, error);
    if (status != ICP_OK) return status;
    if (found.count == expected->count && found.tensor_count == expected->tensor_count &&
        found.number == gguf->part_count - 1 && part->version == gguf->parts[0].version)
        return ICP_OK;
    icp_gguf_explain(error, "%s: split.no, split.count, split.tensors.count or the version do not fit the other parts",
                     label);
    return ICP_BAD_ARGUMENT;
}

static void split_suffix(char suffix[SPLIT_SUFFIX_ROOM], uint64_t number, uint64_t count)
{
    snprintf(suffix, SPLIT_SUFFIX_ROOM, "-%05u-of-%05u.gguf", (unsigned)number + 1, (unsigned)count);
}

/* All parts in order, by names that differ from path in the number only. The first one may be open already. */
static icp_status split_open(icp_gguf *gguf, char *path, const split_info *split, icp_error *error)
{
    char suffix[SPLIT_SUFFIX_ROOM];
    char *end = path + strlen(path) - SPLIT_SUFFIX_BYTES;
    if (split->number != 0) parts_close(gguf);
    while (gguf->part_count < split->count) {
        split_suffix(suffix, gguf->part_count, split->count);
        memcpy(end, suffix, SPLIT_SUFFIX_BYTES);
        icp_status status = part_open(gguf, path, error);
        if (status == ICP_OK) status = split_check(gguf, split, label_of(path), error);
        if (status != ICP_OK) return status;
    }
    if (gguf->tables.tensor_count == split->tensor_count) return ICP_OK;
    icp_gguf_explain(error, "the parts have %u tensors, split.tensors.count is %llu", gguf->tables.tensor_count,
                     (unsigned long long)split->tensor_count);
    return ICP_BAD_ARGUMENT;
}

/* Opens the file, and where it is one of several, the others too. */
static icp_status parts_open(icp_gguf *gguf, const char *path, icp_error *error)
{
    icp_status status = part_open(gguf, path, error);
    if (status != ICP_OK) return status;
    split_info split;
    status = split_read(gguf, &gguf->parts[0], &split, label_of(path), error);
    if (status != ICP_OK || split.count <= 1) return status;

    char suffix[SPLIT_SUFFIX_ROOM];
    split_suffix(suffix, split.number, split.count);
    size_t bytes = strlen(path);
    if (bytes < SPLIT_SUFFIX_BYTES || strcmp(path + bytes - SPLIT_SUFFIX_BYTES, suffix) != 0) {
        icp_gguf_explain(error, "%s: as part of a split model its name should end in %s", label_of(path), suffix);
        return ICP_BAD_ARGUMENT;
    }
    char *part_path = malloc(bytes + 1);
    if (part_path == NULL) return ICP_NO_MEMORY;
    memcpy(part_path, path, bytes + 1);
    status = split_open(gguf, part_path, &split, error);
    free(part_path);
    return status;
}

/* ---- Opening and closing ------------------------------------------------------------------------------- */

static icp_status finish(icp_gguf **out, icp_gguf *gguf, icp_status status, icp_error *error)
{
    if (status == ICP_OK) status = build_names(gguf, error);
    if (status == ICP_OK) {
        *out = gguf;
        return ICP_OK;
    }
    if (status == ICP_NO_MEMORY) icp_gguf_explain(error, "there is not enough memory to open the model");
    icp_gguf_close(gguf);
    return status;
}

icp_status icp_gguf_open(icp_gguf **out, const char *path, icp_error *error)
{
    if (out == NULL || path == NULL) {
        icp_gguf_explain(error, "out or path is NULL");
        return ICP_BAD_ARGUMENT;
    }
    icp_gguf *gguf = calloc(1, sizeof(*gguf));
    return finish(out, gguf, gguf == NULL ? ICP_NO_MEMORY : parts_open(gguf, path, error), error);
}

static icp_status image_open(icp_gguf *gguf, const void *image, size_t bytes, icp_error *error)
{
    icp_gguf_part *part = part_add(gguf);
    if (part == NULL) return ICP_NO_MEMORY;
    part->image = image;
    part->bytes = bytes;
    icp_status status = icp_gguf_part_read(part, &gguf->tables, "", error);
    if (status != ICP_OK) return status;
    uint64_t split_count = 0;
    if (!part_uint(gguf, part, "split.count", &split_count) || split_count <= 1) return ICP_OK;
    icp_gguf_explain(error, "one of %llu parts of a split model cannot be opened alone",
                     (unsigned long long)split_count);
    return ICP_BAD_ARGUMENT;
}

icp_status icp_gguf_open_memory(icp_gguf **out, const void *image, size_t bytes, icp_error *error)
{
    if (out == NULL || (image == NULL && bytes != 0)) {
        icp_gguf_explain(error, "out or image is NULL");
        return ICP_BAD_ARGUMENT;
    }
    icp_gguf *gguf = calloc(1, sizeof(*gguf));
    return finish(out, gguf, gguf == NULL ? ICP_NO_MEMORY : image_open(gguf, image, bytes, error), error);
}

void icp_gguf_close(icp_gguf *gguf)
{
    if (gguf == NULL) return;
    parts_close(gguf);
    free(gguf->pair_names.slots);
    free(gguf->tensor_names.slots);
    free(gguf);
}

/* ---- Looking ------------------------------------------------------------------------------------------- */

uint64_t icp_gguf_bytes(const icp_gguf *gguf)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < gguf->part_count; i++) bytes += gguf->parts[i].bytes;
    return bytes;
}

uint32_t icp_gguf_version(const icp_gguf *gguf)
{
    return gguf->parts[0].version;
}

bool icp_gguf_is_mapped(const icp_gguf *gguf)
{
    return gguf->parts[0].is_mapped;
}

uint32_t icp_gguf_pair_count(const icp_gguf *gguf)
{
    return gguf->tables.pair_count;
}

const icp_gguf_pair *icp_gguf_pair_at(const icp_gguf *gguf, uint32_t index)
{
    ICP_ASSERT(index < gguf->tables.pair_count);
    return &gguf->tables.pairs[index];
}

uint32_t icp_gguf_tensor_count(const icp_gguf *gguf)
{
    return gguf->tables.tensor_count;
}

const icp_gguf_tensor *icp_gguf_tensor_at(const icp_gguf *gguf, uint32_t index)
{
    ICP_ASSERT(index < gguf->tables.tensor_count);
    return &gguf->tables.tensors[index];
}

const icp_gguf_pair *icp_gguf_find(const icp_gguf *gguf, const char *key)
{
    uint32_t index = names_find(&gguf->pair_names, key);
    return index == UINT32_MAX ? NULL : &gguf->tables.pairs[index];
}

const icp_gguf_tensor *icp_gguf_find_tensor(const icp_gguf *gguf, const char *name)
{
    uint32_t index = names_find(&gguf->tensor_names, name);
    return index == UINT32_MAX ? NULL : &gguf->tables.tensors[index];
}
