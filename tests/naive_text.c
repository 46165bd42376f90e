/* naive_text.c - the model's texts as the library reads them: the bytes behind the small numbers. */
#include "naive.h"

#include <string.h>

/* Ids of all lengths, some of them alike but for the last byte, one a prefix of another. */
static const struct {
    size_t bytes;
    uint8_t fill;
    uint8_t last;
} ids[NAIVE_EXTRA_ID_COUNT] = {{1, 0, 1},  {1, 0, 2},  {16, 7, 7},
                               {32, 7, 7}, {32, 7, 8}, {ICP_EXTRA_ID_BYTES_MAX, 9, 1}};

static uint8_t id_bytes[NAIVE_EXTRA_ID_COUNT][ICP_EXTRA_ID_BYTES_MAX];

static void make_ids(void)
{
    for (uint32_t i = 0; i < NAIVE_EXTRA_ID_COUNT; i++) {
        memset(id_bytes[i], ids[i].fill, ids[i].bytes);
        id_bytes[i][ids[i].bytes - 1] = ids[i].last;
    }
}

uint32_t naive_extra_find(const void *id, size_t bytes)
{
    for (uint32_t i = 0; i < NAIVE_EXTRA_ID_COUNT; i++) {
        if (ids[i].bytes == bytes && memcmp(id_bytes[i], id, bytes) == 0) return i;
    }
    return NAIVE_NONE;
}

icp_text naive_text_make(const naive_text *text, icp_extra *extras)
{
    make_ids();
    for (uint32_t i = 0; i < text->extra_count; i++) {
        const naive_extra *extra = &text->extras[i];
        extras[i] = (icp_extra){extra->position, extra->length, id_bytes[extra->id], ids[extra->id].bytes};
    }
    return (icp_text){text->tokens, text->token_count, extras, text->extra_count};
}

/* Keys that differ in one text each, and one that the others must not be confused with when joined. */
static const icp_scope_key keys[NAIVE_SCOPE_KEY_COUNT] = {
    {NULL, NULL, NULL, NULL}, {"m", "", NULL, NULL},   {NULL, "m", "", NULL},   {"", NULL, "m", NULL},
    {NULL, NULL, NULL, "m"},  {"m", "a", "t", "salt"}, {"m", "at", "", "salt"}, {"model", "adapter", "tenant", "s"},
};

icp_scope_key naive_scope_key(uint32_t key)
{
    return keys[key];
}

/* The whole text that leads to a node. */
static void node_text(const naive *model, uint32_t node, naive_text *text)
{
    text->token_count = model->now.nodes[node].depth * model->block_tokens;
    text->extra_count = 0;
    for (uint32_t n = node; n != NAIVE_NONE; n = model->now.nodes[n].parent) {
        uint32_t begin = (model->now.nodes[n].depth - 1) * model->block_tokens;
        memcpy(&text->tokens[begin], model->contents[n].tokens, model->block_tokens * sizeof(uint32_t));
    }
    /* An extra that covers several positions is met at each of them; it is listed where it is met first. */
    for (uint32_t i = 0; i < text->token_count; i++) {
        uint32_t n = node;
        while ((model->now.nodes[n].depth - 1) * model->block_tokens > i) n = model->now.nodes[n].parent;
        uint32_t begin = (model->now.nodes[n].depth - 1) * model->block_tokens;
        naive_cover cover = model->contents[n].covers[i - begin];
        if (cover.length == 0) continue;
        uint32_t position = (uint32_t)((int32_t)begin + cover.begin);
        if (text->extra_count != 0 && text->extras[text->extra_count - 1].position == position) continue;
        text->extras[text->extra_count++] = (naive_extra){position, cover.length, cover.id};
    }
}

bool naive_node_name(naive *model, uint32_t node, icp_name *name)
{
    naive_text text;
    icp_extra extras[NAIVE_EXTRA_COUNT_MAX];
    icp_name names[NAIVE_TOKEN_COUNT_MAX];
    size_t count = 0;
    node_text(model, node, &text);
    icp_text whole = naive_text_make(&text, extras);
    icp_name_root root = {.kind = model->options.name_kind,
                          .seed = model->options.name_seed,
                          .scope = naive_scope_key(model->now.scopes[model->now.nodes[node].scope].key),
                          .block_tokens = model->block_tokens};
    icp_status status = icp_name_chain(&root, &whole, names, NAIVE_TOKEN_COUNT_MAX, &count);
    if (status != ICP_OK || count != model->now.nodes[node].depth) {
        naive_fail(model, "icp_name_chain: %s, %zu names", icp_status_name(status), count);
        return false;
    }
    *name = names[count - 1];
    return true;
}
