/* jinja_value.c - memory, budgets, strings with their provenance, lists and dicts of a render.
 *
 * See jinja_value.h for the design. Everything that takes memory or walks bytes is counted here, so that the other
 * files need not think of budgets: a template can do no more work than its steps, nor hold more than its memory. */
#include "model/jinja_value.h"

#include "model/unicode.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHUNK_BYTES ((size_t)64 << 10)
#define WALK_COUNT_MAX 8u /* a dict of so few entries is walked */

/* ---- Memory ---------------------------------------------------------------------------------------------- */

struct icp_jinja_chunk {
    icp_jinja_chunk *next;
    size_t capacity;
    _Alignas(16) unsigned char bytes[];
};

void *icp_jinja_arena_take(icp_jinja_arena *arena, size_t bytes)
{
    if (bytes > arena->total_max - arena->total) return NULL;
    bytes = (bytes + 15) & ~(size_t)15;
    size_t counted = bytes < arena->total_max - arena->total ? arena->total + bytes : arena->total_max;
    icp_jinja_chunk *chunk = arena->chunks;
    if (chunk == NULL || chunk->capacity - arena->used < bytes) {
        size_t capacity = bytes > CHUNK_BYTES / 4 ? bytes : CHUNK_BYTES;
        chunk = calloc(1, sizeof(*chunk) + capacity);
        if (chunk == NULL) return NULL;
        chunk->capacity = capacity;
        if (capacity == bytes && arena->chunks != NULL) { /* large: behind the newest, which has room left */
            chunk->next = arena->chunks->next;
            arena->chunks->next = chunk;
            arena->total = counted;
            return chunk->bytes;
        }
        chunk->next = arena->chunks;
        arena->chunks = chunk;
        arena->used = 0;
    }
    void *piece = chunk->bytes + arena->used;
    arena->used += bytes;
    arena->total = counted;
    return piece;
}

void icp_jinja_arena_close(icp_jinja_arena *arena)
{
    for (icp_jinja_chunk *chunk = arena->chunks; chunk != NULL;) {
        icp_jinja_chunk *next = chunk->next;
        free(chunk);
        chunk = next;
    }
    *arena = (icp_jinja_arena){0};
}

/* ---- Failures and budgets -------------------------------------------------------------------------------- */

/* An error goes to people and into JSON: a character that was cut, or never was one, becomes question marks. */
static void make_valid(char *text)
{
    size_t bytes = strlen(text);
    for (size_t at = 0; at < bytes;) {
        uint32_t code = 0, length = icp_utf8_decode((const uint8_t *)text + at, bytes - at, &code);
        if (length == 1 && (uint8_t)text[at] >= 0x80) text[at] = '?';
        at += length;
    }
}

icp_jinja_value icp_jinja_fail(icp_jinja_run *run, const char *format, ...)
{
    if (run->status != ICP_OK) return icp_jinja_undefined(NULL);
    run->status = ICP_BAD_ARGUMENT;
    int used = 0;
    if (run->line > 0) {
        used = snprintf(run->error.text, sizeof(run->error.text), "chat template, line %u: ", (unsigned)run->line);
    }
    va_list list;
    va_start(list, format);
    vsnprintf(run->error.text + used, sizeof(run->error.text) - (size_t)used, format, list);
    va_end(list);
    make_valid(run->error.text);
    return icp_jinja_undefined(NULL);
}

void icp_jinja_fail_with(icp_jinja_run *run, icp_status status, const char *what)
{
    if (run->status != ICP_OK) return;
    icp_jinja_fail(run, "%s", what);
    run->status = status;
}

bool icp_jinja_step(icp_jinja_run *run, size_t bytes)
{
    run->step_count++;
    return icp_jinja_charge(run, bytes);
}

bool icp_jinja_charge(icp_jinja_run *run, size_t bytes)
{
    run->byte_count += bytes;
    if (run->step_count + run->byte_count / ICP_JINJA_STEP_BYTES > run->step_count_max) {
        icp_jinja_fail_with(run, ICP_TOO_LONG, "the template takes more steps than it may");
    }
    return run->status == ICP_OK;
}

bool icp_jinja_enter(icp_jinja_run *run)
{
    if (run->status != ICP_OK) return false;
    if (run->depth >= ICP_JINJA_DEPTH_MAX) {
        icp_jinja_fail_with(run, ICP_TOO_LONG, "macros or values are nested too deeply");
        return false;
    }
    run->depth++;
    return true;
}

void icp_jinja_leave(icp_jinja_run *run)
{
    run->depth--;
}

void *icp_jinja_take(icp_jinja_run *run, size_t bytes)
{
    void *piece = icp_jinja_arena_take(&run->memory, bytes);
    if (piece != NULL) return piece;
    bool is_budget = bytes > run->memory.total_max - run->memory.total;
    icp_jinja_fail_with(run, is_budget ? ICP_TOO_LONG : ICP_NO_MEMORY,
                        is_budget ? "the template takes more memory than it may" : "there is no memory left");
    return NULL;
}

/* ---- Strings --------------------------------------------------------------------------------------------- */

static const icp_jinja_string empty_string = {.text = "", .is_trusted = true};

static icp_jinja_value string_new(icp_jinja_run *run, icp_jinja_string string)
{
    icp_jinja_string *copy = icp_jinja_take(run, sizeof(*copy));
    if (copy == NULL) return icp_jinja_of_string(&empty_string);
    *copy = string;
    return icp_jinja_of_string(copy);
}

icp_jinja_value icp_jinja_text(icp_jinja_run *run, const char *text, size_t bytes, bool is_trusted)
{
    if (bytes == 0) return icp_jinja_of_string(&empty_string);
    return string_new(run, (icp_jinja_string){.text = text, .bytes = bytes, .is_trusted = is_trusted});
}

icp_jinja_value icp_jinja_data(icp_jinja_run *run, const char *text)
{
    size_t bytes = strlen(text);
    char *copy = icp_jinja_take(run, bytes + 1);
    if (copy == NULL) return icp_jinja_of_string(&empty_string);
    memcpy(copy, text, bytes);
    return icp_jinja_text(run, copy, bytes, false);
}

icp_jinja_value icp_jinja_slice(icp_jinja_run *run, const icp_jinja_string *string, size_t start, size_t end)
{
    if (start >= end) return icp_jinja_of_string(&empty_string);
    if (start == 0 && end == string->bytes && !string->is_markup) return icp_jinja_of_string(string);
    icp_jinja_string slice = *string;
    slice.text += start;
    slice.bytes = end - start;
    if (slice.trust != NULL) slice.trust += start;
    slice.is_markup = false;
    return string_new(run, slice);
}

/* Where left ends at the end of its buffer, right is put behind it: what was there stays as it is for everyone. */
icp_jinja_value icp_jinja_concat(icp_jinja_run *run, const icp_jinja_string *left, const icp_jinja_string *right)
{
    if (right->bytes == 0) return icp_jinja_of_string(left);
    if (left->bytes == 0) return icp_jinja_of_string(right);
    icp_jinja_buffer *buffer = left->buffer;
    if (buffer == NULL || left->text + left->bytes != buffer->text + buffer->used) {
        buffer = icp_jinja_buffer_new(run);
        icp_jinja_append(run, buffer, left);
    }
    icp_jinja_append(run, buffer, right);
    if (icp_jinja_is_failed(run)) return icp_jinja_of_string(&empty_string);
    size_t start = buffer->used - left->bytes - right->bytes;
    return string_new(run, (icp_jinja_string){.text = buffer->text + start,
                                              .bytes = left->bytes + right->bytes,
                                              .trust = buffer->trust + start,
                                              .buffer = buffer});
}

/* ---- Buffers --------------------------------------------------------------------------------------------- */

icp_jinja_buffer *icp_jinja_buffer_new(icp_jinja_run *run)
{
    return icp_jinja_take(run, sizeof(icp_jinja_buffer));
}

/* Strings keep pointing into the memory that is left behind. */
static bool buffer_reserve(icp_jinja_run *run, icp_jinja_buffer *buffer, size_t bytes)
{
    if (buffer->capacity - buffer->used >= bytes) return true;
    if (bytes > run->text_bytes_max - buffer->used) {
        icp_jinja_fail_with(run, ICP_TOO_LONG, "the text is longer than it may be");
        return false;
    }
    size_t capacity = buffer->capacity < 64 ? 64 : 2 * buffer->capacity;
    while (capacity < buffer->used + bytes) capacity *= 2;
    char *text = icp_jinja_take(run, 2 * capacity);
    if (text == NULL || !icp_jinja_step(run, buffer->used)) return false;
    if (buffer->used > 0) {
        memcpy(text, buffer->text, buffer->used);
        memcpy(text + capacity, buffer->trust, buffer->used);
    }
    buffer->text = text;
    buffer->trust = (uint8_t *)text + capacity;
    buffer->capacity = capacity;
    return true;
}

void icp_jinja_append_bytes(icp_jinja_run *run, icp_jinja_buffer *buffer, const char *text, size_t bytes, bool trust)
{
    if (icp_jinja_is_failed(run) || bytes == 0 || !buffer_reserve(run, buffer, bytes)) return;
    run->byte_count += bytes;
    memcpy(buffer->text + buffer->used, text, bytes);
    memset(buffer->trust + buffer->used, trust, bytes);
    buffer->used += bytes;
}

void icp_jinja_append_slice(icp_jinja_run *run, icp_jinja_buffer *buffer, const icp_jinja_string *string, size_t start,
                            size_t end)
{
    if (start >= end || icp_jinja_is_failed(run)) return;
    if (string->trust == NULL) {
        icp_jinja_append_bytes(run, buffer, string->text + start, end - start, string->is_trusted);
        return;
    }
    size_t bytes = end - start;
    if (!buffer_reserve(run, buffer, bytes)) return;
    run->byte_count += bytes;
    memcpy(buffer->text + buffer->used, string->text + start, bytes);
    memcpy(buffer->trust + buffer->used, string->trust + start, bytes);
    buffer->used += bytes;
}

void icp_jinja_append(icp_jinja_run *run, icp_jinja_buffer *buffer, const icp_jinja_string *string)
{
    icp_jinja_append_slice(run, buffer, string, 0, string->bytes);
}

void icp_jinja_append_data(icp_jinja_run *run, icp_jinja_buffer *buffer, const char *text)
{
    icp_jinja_append_bytes(run, buffer, text, strlen(text), false);
}

icp_jinja_value icp_jinja_buffer_string(icp_jinja_run *run, icp_jinja_buffer *buffer)
{
    if (icp_jinja_is_failed(run) || buffer->used == 0) return icp_jinja_of_string(&empty_string);
    return string_new(
        run, (icp_jinja_string){.text = buffer->text, .bytes = buffer->used, .trust = buffer->trust, .buffer = buffer});
}

/* ---- Lists ----------------------------------------------------------------------------------------------- */

icp_jinja_list *icp_jinja_list_new(icp_jinja_run *run, size_t capacity)
{
    icp_jinja_list *list = icp_jinja_take(run, sizeof(*list));
    if (list == NULL) return NULL;
    if (capacity > SIZE_MAX / sizeof(*list->items)) capacity = SIZE_MAX / sizeof(*list->items);
    if (capacity > 0) list->items = icp_jinja_take(run, capacity * sizeof(*list->items));
    if (capacity > 0 && list->items == NULL) return NULL;
    list->capacity = capacity;
    return list;
}

void icp_jinja_list_add(icp_jinja_run *run, icp_jinja_list *list, icp_jinja_value item)
{
    if (icp_jinja_is_failed(run)) return;
    if (list->count == list->capacity) {
        size_t capacity = list->capacity < 4 ? 4 : 2 * list->capacity;
        icp_jinja_value *items = icp_jinja_take(run, capacity * sizeof(*items));
        if (items == NULL) return;
        if (list->count > 0) memcpy(items, list->items, list->count * sizeof(*items));
        list->items = items;
        list->capacity = capacity;
    }
    list->items[list->count++] = item;
}

icp_jinja_value icp_jinja_of_list(const icp_jinja_list *list, icp_jinja_kind kind)
{
    return list == NULL ? icp_jinja_undefined(NULL) : (icp_jinja_value){.kind = kind, .list = list};
}

icp_jinja_value icp_jinja_pair(icp_jinja_run *run, icp_jinja_value first, icp_jinja_value second)
{
    icp_jinja_list *pair = icp_jinja_list_new(run, 2);
    if (pair == NULL) return icp_jinja_undefined(NULL);
    icp_jinja_list_add(run, pair, first);
    icp_jinja_list_add(run, pair, second);
    return icp_jinja_of_list(pair, ICP_JINJA_TUPLE);
}

/* ---- Dicts ----------------------------------------------------------------------------------------------- */

static uint64_t hash_bytes(const char *text, size_t bytes)
{
    uint64_t hash = 0xcbf29ce484222325u;
    for (size_t i = 0; i < bytes; i++) hash = (hash ^ (uint8_t)text[i]) * 0x100000001b3u;
    return hash ^ (hash >> 29);
}

/* Equal keys hash alike: 1, 1.0 and true are one key. Fails for what Python cannot hash. */
static uint64_t hash_value(icp_jinja_run *run, icp_jinja_value value)
{
    double number = 0;
    uint64_t hash = 7;
    switch (value.kind) {
    case ICP_JINJA_STRING:
        run->byte_count += value.string->bytes;
        return hash_bytes(value.string->text, value.string->bytes);
    case ICP_JINJA_BOOL:
    case ICP_JINJA_INT:
    case ICP_JINJA_FLOAT:
        number = icp_jinja_number_of(value);
        if (number == 0) number = 0; /* and not -0 */
        return hash_bytes((const char *)&number, sizeof(number));
    case ICP_JINJA_TUPLE:
        if (!icp_jinja_enter(run)) return 0;
        for (size_t i = 0; i < value.list->count; i++) hash = hash * 31 + hash_value(run, value.list->items[i]);
        icp_jinja_leave(run);
        return hash;
    case ICP_JINJA_LIST:
    case ICP_JINJA_DICT:
        icp_jinja_fail(run, "unhashable type: '%s'", icp_jinja_type_name(value));
        return 0;
    default:
        return (uint64_t)value.kind;
    }
}

static icp_jinja_entry *find_hashed(icp_jinja_run *run, const icp_jinja_dict *dict, icp_jinja_value key, uint64_t hash)
{
    if (dict->index == NULL) {
        for (size_t i = 0; i < dict->count; i++) {
            icp_jinja_entry *entry = &dict->entries[i];
            if (entry->hash == hash && icp_jinja_equal(run, entry->key, key)) return entry;
        }
        return NULL;
    }
    size_t mask = dict->index_count - 1;
    for (size_t slot = hash & mask; dict->index[slot] != 0; slot = (slot + 1) & mask) {
        icp_jinja_entry *entry = &dict->entries[dict->index[slot] - 1];
        if (!icp_jinja_charge(run, 16)) return NULL; /* who sends keys that collide pays for it */
        if (entry->hash == hash && icp_jinja_equal(run, entry->key, key)) return entry;
    }
    return NULL;
}

icp_jinja_entry *icp_jinja_dict_find(icp_jinja_run *run, const icp_jinja_dict *dict, icp_jinja_value key)
{
    uint64_t hash = hash_value(run, key);
    return icp_jinja_is_failed(run) ? NULL : find_hashed(run, dict, key, hash);
}

static void index_add(icp_jinja_dict *dict, size_t entry)
{
    size_t mask = dict->index_count - 1;
    size_t slot = dict->entries[entry].hash & mask;
    while (dict->index[slot] != 0) slot = (slot + 1) & mask;
    dict->index[slot] = (uint32_t)entry + 1;
}

static bool dict_grow(icp_jinja_run *run, icp_jinja_dict *dict)
{
    size_t capacity = dict->capacity < 4 ? 4 : 2 * dict->capacity;
    if (capacity > UINT32_MAX / 4) {
        icp_jinja_fail_with(run, ICP_TOO_LONG, "a dict has too many entries");
        return false;
    }
    icp_jinja_entry *entries = icp_jinja_take(run, capacity * sizeof(*entries));
    if (entries == NULL) return false;
    if (dict->count > 0) memcpy(entries, dict->entries, dict->count * sizeof(*entries));
    dict->entries = entries;
    dict->capacity = capacity;
    if (capacity <= WALK_COUNT_MAX) return true;
    dict->index = icp_jinja_take(run, 2 * capacity * sizeof(*dict->index));
    if (dict->index == NULL) return false;
    dict->index_count = 2 * capacity;
    for (size_t i = 0; i < dict->count; i++) index_add(dict, i);
    return true;
}

icp_jinja_dict *icp_jinja_dict_new(icp_jinja_run *run)
{
    return icp_jinja_take(run, sizeof(icp_jinja_dict));
}

void icp_jinja_dict_set(icp_jinja_run *run, icp_jinja_dict *dict, icp_jinja_value key, icp_jinja_value value)
{
    if (icp_jinja_is_failed(run)) return;
    uint64_t hash = hash_value(run, key);
    icp_jinja_entry *entry = icp_jinja_is_failed(run) ? NULL : find_hashed(run, dict, key, hash);
    if (icp_jinja_is_failed(run)) return;
    if (entry != NULL) {
        entry->value = value;
        return;
    }
    if (dict->count == dict->capacity && !dict_grow(run, dict)) return;
    dict->entries[dict->count++] = (icp_jinja_entry){.key = key, .value = value, .hash = hash};
    if (dict->index != NULL) index_add(dict, dict->count - 1);
}

void icp_jinja_dict_clear(icp_jinja_dict *dict)
{
    dict->count = 0;
    if (dict->index != NULL) memset(dict->index, 0, dict->index_count * sizeof(*dict->index));
}

void icp_jinja_dict_set_text(icp_jinja_run *run, icp_jinja_dict *dict, const char *key, icp_jinja_value value)
{
    icp_jinja_dict_set(run, dict, icp_jinja_text(run, key, strlen(key), true), value);
}
