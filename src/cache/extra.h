/* extra.h - extra keys: the images and clips that lie over a text's placeholders.
 *
 * An id (a content hash, any bytes) is kept once, however many blocks it lies over: an image of a thousand tokens is
 * one key and sixty-odd items. An item hangs on one node: which key, where it began relative to the block, how long it
 * is.
 *
 *      text     .  .  [ ------- imgA ------- ]  .  .        key 7: "imgA", 3 items
 *      blocks  |            |            |            |
 *      items     (7, +2)      (7, -2)      (7, -6)
 *
 * A view is one block of a text, the caller's or a node's, in a form in which the two can be compared. Blocks are
 * compared position by position: the token first, then what begins to lie over it. */
#ifndef ICP_CACHE_EXTRA_H
#define ICP_CACHE_EXTRA_H

#include "base/arena.h"
#include "incipit/cache.h"

#include <stdbool.h>

#define ICP_ITEM_NONE UINT32_MAX

typedef struct icp_key {
    uint32_t item_count; /* items that use it; 0: the key is free */
    uint32_t next;       /* in its bucket, or in the free list */
    uint32_t id_bytes;
    uint8_t id[ICP_EXTRA_ID_BYTES_MAX];
} icp_key;

typedef struct icp_item {
    uint32_t key;
    int32_t offset;
    uint32_t length;
    uint32_t next; /* on the same node, by offset; or in the free list */
} icp_item;

typedef struct icp_extra_table {
    icp_key *keys;     /* [count_max] */
    icp_item *items;   /* [count_max] */
    uint32_t *buckets; /* [count_max] */
    uint32_t count_max;
    uint32_t key_free;
    uint32_t item_free;
    uint32_t item_count; /* in use */
} icp_extra_table;

/* One block: its tokens, and either the items of a node or the extras of a text (from first on, the first that ends
 * past the block's start). */
typedef struct icp_view {
    const uint32_t *tokens;
    uint32_t token_count; /* block_tokens, or less at the end of a text */
    uint32_t position;    /* of the first token; only used with extras */
    const icp_extra *extras;
    size_t extra_count;
    uint32_t item; /* ICP_ITEM_NONE unless it is a node's */
} icp_view;

void icp_extra_carve(icp_extra_table *table, icp_arena *arena);
void icp_extra_start(icp_extra_table *table);

/* BAD_ARGUMENT unless the extras are in order, apart, and their ids within bounds. */
icp_status icp_extra_validate(const icp_text *text);

/* The view of the block at position. */
icp_view icp_view_at(const icp_text *text, uint32_t position, uint32_t block_tokens);

/* True where something lies over the view's tokens. */
static inline bool icp_view_has_extras(const icp_view *view)
{
    return view->item != ICP_ITEM_NONE ||
           (view->extra_count != 0 && view->extras[0].position < view->position + view->token_count);
}

/* The first position, at most limit, from which the extras of a and b differ; *order < 0 where a sorts before b there.
 * */
uint32_t icp_view_extra_difference(const icp_extra_table *table, const icp_view *a, const icp_view *b, uint32_t limit,
                                   int *order);

/* A number that views with the same extras share. */
uint64_t icp_view_extra_hash(const icp_extra_table *table, const icp_view *view);

/* Makes items for the extras of a view of the caller's. False, and nothing done, where there is no room. */
bool icp_extra_attach(icp_extra_table *table, const icp_view *view, uint32_t *item);

/* Frees a node's items. */
void icp_extra_detach(icp_extra_table *table, uint32_t item);

#endif
