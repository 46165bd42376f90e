/* scope.c - the table of scopes. */
#include "cache/scope.h"

#include "base/assert.h"
#include "cache/hash.h"

#include <string.h>

void icp_scope_carve(icp_scope_table *table, icp_arena *arena)
{
    table->records = icp_arena_take(arena, table->count_max, sizeof(icp_scope_record));
    table->buckets = icp_arena_take(arena, table->count_max, sizeof(uint32_t));
}

void icp_scope_start(icp_scope_table *table, uint64_t seed)
{
    table->seed = seed;
    table->fresh = table->count = 0;
    table->idle_head = table->idle_tail = ICP_SCOPE_NONE;
    for (uint32_t i = 0; i < table->count_max; i++) {
        table->buckets[i] = ICP_SCOPE_NONE;
        table->records[i] = (icp_scope_record){.children = ICP_NODE_NONE};
    }
    uint32_t index = 0;
    bool is_new = false;
    icp_status status = icp_scope_make(table, &(icp_scope_key){0}, &index, &is_new);
    ICP_ASSERT(status == ICP_OK && index == 0);
    table->records[0].open_count = 1; /* for ever */
}

bool icp_scope_find(const icp_scope_table *table, icp_scope scope, uint32_t *index)
{
    uint32_t i = (uint32_t)scope;
    if (scope == 0) {
        *index = 0;
        return true;
    }
    if (i == 0 || i >= table->count_max || table->records[i].generation != (uint32_t)(scope >> 32)) return false;
    if (table->records[i].open_count == 0) return false;
    *index = i;
    return true;
}

icp_scope icp_scope_handle(const icp_scope_table *table, uint32_t index)
{
    return index == 0 ? 0 : (icp_scope)table->records[index].generation << 32 | index;
}

icp_scope_key icp_scope_texts(const icp_scope_record *record)
{
    icp_scope_key key;
    key.model = record->texts;
    key.adapter = key.model + strlen(key.model) + 1;
    key.tenant = key.adapter + strlen(key.adapter) + 1;
    key.salt = key.tenant + strlen(key.tenant) + 1;
    return key;
}

/* The four texts one after the other, each with its 0: no two keys give the same bytes. 0: too long. */
static size_t key_pack(const icp_scope_key *key, char *texts)
{
    const char *parts[4] = {key->model, key->adapter, key->tenant, key->salt};
    size_t used = 0;
    for (int i = 0; i < 4; i++) {
        const char *part = parts[i] == NULL ? "" : parts[i];
        size_t bytes = strnlen(part, ICP_SCOPE_TEXT_BYTES_MAX + 1) + 1;
        if (used + bytes > ICP_SCOPE_TEXT_BYTES_MAX + 4) return 0;
        memcpy(texts + used, part, bytes);
        used += bytes;
    }
    return used;
}

/* ---- Idle records --------------------------------------------------------------------------------------- */

static void idle_remove(icp_scope_table *table, uint32_t index)
{
    icp_scope_record *record = &table->records[index];
    if (record->idle_prev == ICP_SCOPE_NONE)
        table->idle_head = record->idle_next;
    else
        table->records[record->idle_prev].idle_next = record->idle_next;
    if (record->idle_next == ICP_SCOPE_NONE)
        table->idle_tail = record->idle_prev;
    else
        table->records[record->idle_next].idle_prev = record->idle_prev;
    record->is_idle = false;
    table->count++;
}

void icp_scope_rest(icp_scope_table *table, uint32_t index)
{
    icp_scope_record *record = &table->records[index];
    if (record->is_idle || record->open_count + record->lease_count + record->node_count != 0) return;
    record->is_idle = true;
    record->idle_prev = table->idle_tail;
    record->idle_next = ICP_SCOPE_NONE;
    if (table->idle_tail == ICP_SCOPE_NONE)
        table->idle_head = index;
    else
        table->records[table->idle_tail].idle_next = index;
    table->idle_tail = index;
    table->count--;
}

/* ---- Finding and making --------------------------------------------------------------------------------- */

static void bucket_remove(icp_scope_table *table, uint32_t index)
{
    uint32_t *link = &table->buckets[icp_hash_range(table->records[index].hash, table->count_max)];
    while (*link != index) link = &table->records[*link].bucket_next;
    *link = table->records[index].bucket_next;
}

/* A record to make a scope of: one that never was, or the longest idle one. */
static uint32_t record_claim(icp_scope_table *table)
{
    if (table->fresh < table->count_max) {
        table->count++;
        return table->fresh++;
    }
    uint32_t index = table->idle_head;
    if (index == ICP_SCOPE_NONE) return index;
    idle_remove(table, index);
    bucket_remove(table, index);
    return index;
}

icp_status icp_scope_make(icp_scope_table *table, const icp_scope_key *key, uint32_t *index, bool *is_new)
{
    char texts[ICP_SCOPE_TEXT_BYTES_MAX + 4] = {0};
    size_t bytes = key_pack(key, texts);
    if (bytes == 0) return ICP_BAD_ARGUMENT;

    uint64_t hash = icp_hash_bytes(table->seed, texts, bytes);
    uint32_t *bucket = &table->buckets[icp_hash_range(hash, table->count_max)];
    for (uint32_t i = *bucket; i != ICP_SCOPE_NONE; i = table->records[i].bucket_next) {
        if (memcmp(table->records[i].texts, texts, sizeof(texts)) != 0) continue;
        if (table->records[i].is_idle) idle_remove(table, i);
        *index = i;
        *is_new = false;
        return ICP_OK;
    }
    uint32_t made = record_claim(table);
    if (made == ICP_SCOPE_NONE) return ICP_TOO_MANY_SCOPES;
    icp_scope_record *record = &table->records[made];
    uint32_t generation = record->generation + 1;
    *record = (icp_scope_record){.hash = hash,
                                 .generation = generation == 0 ? 1 : generation,
                                 .children = ICP_NODE_NONE,
                                 .bucket_next = *bucket};
    memcpy(record->texts, texts, sizeof(texts));
    *bucket = made;
    *index = made;
    *is_new = true;
    return ICP_OK;
}
