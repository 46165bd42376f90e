/* extra.c - keys, items, and the comparison of what lies over two blocks. */
#include "cache/extra.h"

#include "base/assert.h"
#include "cache/hash.h"

#include <string.h>

void icp_extra_carve(icp_extra_table *table, icp_arena *arena)
{
    table->keys = icp_arena_take(arena, table->count_max, sizeof(icp_key));
    table->items = icp_arena_take(arena, table->count_max, sizeof(icp_item));
    table->buckets = icp_arena_take(arena, table->count_max, sizeof(uint32_t));
}

void icp_extra_start(icp_extra_table *table)
{
    for (uint32_t i = 0; i < table->count_max; i++) {
        uint32_t next = i + 1 < table->count_max ? i + 1 : ICP_ITEM_NONE;
        table->keys[i].item_count = 0;
        table->keys[i].next = next;
        table->items[i].next = next;
        table->buckets[i] = ICP_ITEM_NONE;
    }
    table->key_free = table->item_free = 0;
    table->item_count = 0;
}

icp_status icp_extra_validate(const icp_text *text)
{
    if (text->extra_count != 0 && text->extras == NULL) return ICP_BAD_ARGUMENT;
    uint64_t end = 0;
    for (size_t i = 0; i < text->extra_count; i++) {
        const icp_extra *extra = &text->extras[i];
        if (extra->position < end || extra->length == 0 || extra->id == NULL) return ICP_BAD_ARGUMENT;
        if (extra->id_bytes == 0 || extra->id_bytes > ICP_EXTRA_ID_BYTES_MAX) return ICP_BAD_ARGUMENT;
        end = (uint64_t)extra->position + extra->length;
        if (end > INT32_MAX) return ICP_BAD_ARGUMENT;
    }
    return ICP_OK;
}

/* ---- Views -------------------------------------------------------------------------------------------- */

icp_view icp_view_at(const icp_text *text, uint32_t position, uint32_t block_tokens)
{
    size_t left = text->token_count - position;
    icp_view view = {.tokens = text->tokens + position,
                     .token_count = left < block_tokens ? (uint32_t)left : block_tokens,
                     .position = position,
                     .item = ICP_ITEM_NONE};
    if (text->extra_count == 0) return view;

    size_t low = 0; /* the first extra that ends past position: they are in order and apart, so their ends are too */
    size_t high = text->extra_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        const icp_extra *extra = &text->extras[middle];
        if (extra->position + extra->length <= position)
            low = middle + 1;
        else
            high = middle;
    }
    view.extras = text->extras + low;
    view.extra_count = text->extra_count - low;
    return view;
}

/* One item of a view, whichever kind of view it is. */
typedef struct overlay {
    const void *id;
    size_t id_bytes;
    int32_t offset;
    uint32_t length;
} overlay;

/* Gives the next item over the view's tokens and steps past it. False: there is none. */
static bool view_step(const icp_extra_table *table, icp_view *view, overlay *out)
{
    if (view->item != ICP_ITEM_NONE) {
        const icp_item *item = &table->items[view->item];
        const icp_key *key = &table->keys[item->key];
        *out = (overlay){key->id, key->id_bytes, item->offset, item->length};
        view->item = item->next;
        return true;
    }
    if (!icp_view_has_extras(view)) return false;
    const icp_extra *extra = view->extras++;
    view->extra_count--;
    *out = (overlay){extra->id, extra->id_bytes, (int32_t)extra->position - (int32_t)view->position, extra->length};
    return true;
}

static int overlay_order(const overlay *a, const overlay *b)
{
    if (a->offset != b->offset) return a->offset > b->offset ? -1 : 1; /* nothing sorts before something */
    if (a->length != b->length) return a->length < b->length ? -1 : 1;
    if (a->id_bytes != b->id_bytes) return a->id_bytes < b->id_bytes ? -1 : 1;
    return memcmp(a->id, b->id, a->id_bytes);
}

/* Items before the first pair that differs are the same in both, so the difference begins where the earlier of that
 * pair begins: from there one block has something over it that the other has not. */
uint32_t icp_view_extra_difference(const icp_extra_table *table, const icp_view *a, const icp_view *b, uint32_t limit,
                                   int *order)
{
    icp_view left = *a;
    icp_view right = *b;
    for (;;) {
        overlay x = {.offset = INT32_MAX};
        overlay y = {.offset = INT32_MAX};
        bool has_x = view_step(table, &left, &x);
        bool has_y = view_step(table, &right, &y);
        if (!has_x && !has_y) return limit;
        int difference = has_x && has_y ? overlay_order(&x, &y) : has_x ? 1 : -1;
        if (difference == 0) continue;
        int32_t first = x.offset < y.offset ? x.offset : y.offset;
        if (first >= (int32_t)limit) return limit;
        *order = difference;
        return first < 0 ? 0 : (uint32_t)first;
    }
}

uint64_t icp_view_extra_hash(const icp_extra_table *table, const icp_view *view)
{
    icp_view rest = *view;
    overlay item;
    uint64_t hash = 0;
    while (view_step(table, &rest, &item)) {
        uint64_t place = (uint64_t)(uint32_t)item.offset << 32 | item.length;
        hash = icp_hash_bytes(icp_hash_fold(hash ^ place ^ ICP_HASH_C, ICP_HASH_A), item.id, item.id_bytes);
    }
    return hash;
}

/* ---- Keys and items ------------------------------------------------------------------------------------- */

static uint32_t *key_bucket(icp_extra_table *table, const void *id, size_t id_bytes)
{
    return &table->buckets[icp_hash_range(icp_hash_bytes(0, id, id_bytes), table->count_max)];
}

/* The key of an id, made if need be. There is always one free: no more keys than items are in use. */
static uint32_t key_find_or_make(icp_extra_table *table, const void *id, size_t id_bytes)
{
    uint32_t *bucket = key_bucket(table, id, id_bytes);
    for (uint32_t i = *bucket; i != ICP_ITEM_NONE; i = table->keys[i].next) {
        if (table->keys[i].id_bytes == id_bytes && memcmp(table->keys[i].id, id, id_bytes) == 0) return i;
    }
    uint32_t index = table->key_free;
    ICP_ASSERT(index != ICP_ITEM_NONE);
    icp_key *key = &table->keys[index];
    table->key_free = key->next;
    key->id_bytes = (uint32_t)id_bytes;
    memcpy(key->id, id, id_bytes);
    key->next = *bucket;
    *bucket = index;
    return index;
}

static void key_release(icp_extra_table *table, uint32_t index)
{
    icp_key *key = &table->keys[index];
    if (--key->item_count != 0) return;
    uint32_t *link = key_bucket(table, key->id, key->id_bytes);
    while (*link != index) link = &table->keys[*link].next;
    *link = key->next;
    key->next = table->key_free;
    table->key_free = index;
}

bool icp_extra_attach(icp_extra_table *table, const icp_view *view, uint32_t *item)
{
    icp_view rest = *view;
    overlay next;
    uint32_t count = 0;
    while (view_step(table, &rest, &next)) count++;
    if (count > table->count_max - table->item_count) return false;

    uint32_t *link = item;
    *link = ICP_ITEM_NONE;
    rest = *view;
    while (view_step(table, &rest, &next)) {
        uint32_t index = table->item_free;
        icp_item *made = &table->items[index];
        table->item_free = made->next;
        *made = (icp_item){key_find_or_make(table, next.id, next.id_bytes), next.offset, next.length, ICP_ITEM_NONE};
        table->keys[made->key].item_count++;
        table->item_count++;
        *link = index;
        link = &made->next;
    }
    return true;
}

void icp_extra_detach(icp_extra_table *table, uint32_t item)
{
    while (item != ICP_ITEM_NONE) {
        icp_item *freed = &table->items[item];
        uint32_t next = freed->next;
        key_release(table, freed->key);
        freed->next = table->item_free;
        table->item_free = item;
        table->item_count--;
        item = next;
    }
}
