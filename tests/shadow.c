/* shadow.c - values that stand for keys and values, and a computation that reads them. */
#include "shadow.h"

static uint64_t mix(uint64_t value, uint64_t more)
{
    value = (value ^ more) * 0x9e3779b97f4a7c15u;
    return value ^ value >> 29;
}

/* values[i] stands for the text up to and including position i. */
static void text_values(const naive_text *text, uint32_t scope_key, uint64_t *values)
{
    uint64_t value = mix(1, scope_key);
    for (uint32_t i = 0; i < text->token_count; i++) {
        naive_cover cover = naive_text_cover(text, i, 0);
        value = mix(value, text->tokens[i]);
        if (cover.length != 0)
            value = mix(mix(value, cover.id + 100), (uint64_t)(i - (uint32_t)cover.begin) << 32 | cover.length);
        values[i] = value;
    }
}

void shadow_match(shadow *blocks, uint32_t slot, uint32_t cached_tokens)
{
    blocks->computed[slot] = cached_tokens;
    blocks->copied[slot] = 0;
}

void shadow_truncate(shadow *blocks, uint32_t slot, uint32_t token_count)
{
    if (blocks->computed[slot] > token_count) blocks->computed[slot] = token_count;
}

static bool copy_tail(shadow *blocks, naive *model, uint32_t slot)
{
    for (uint32_t g = 0; g < model->group_count; g++) {
        icp_copy copy;
        icp_status status = icp_lease_tail(model->cache, model->now.leases[slot].handle, g, &copy);
        if (status == ICP_NOT_FOUND) return true; /* not before extend */
        uint32_t block_count = model->now.pools[model->pool_of[g]].block_count;
        bool is_sound = copy.positions <= model->block_tokens && copy.from < block_count && copy.to < block_count;
        if (status == ICP_OK && copy.positions == 0) continue;
        if (status != ICP_OK || !is_sound) {
            naive_fail(model, "shadow: lease %u, group %u: %s, copy %d to %d", slot, g, icp_status_name(status),
                       (int)copy.from, (int)copy.to);
            return false;
        }
        uint64_t(*pool)[NAIVE_BLOCK_TOKENS_MAX] = blocks->values[model->pool_of[g]];
        for (uint32_t i = 0; i < copy.positions; i++) pool[copy.to][i] = pool[copy.from][i];
    }
    blocks->copied[slot] = model->now.leases[slot].tail_serial;
    return true;
}

/* The position that holds a group's first value that the computation of a token reads. */
static uint32_t first_read(const icp_group *group, uint32_t position)
{
    if (group->kind == ICP_GROUP_FULL || position < group->window) return 0;
    return position - (group->window - 1);
}

static bool read_values(shadow *blocks, naive *model, uint32_t slot, uint32_t group, uint32_t begin,
                        const uint64_t *values, const uint32_t *table, uint32_t entry_count)
{
    uint32_t size = model->block_tokens;
    bool is_state = model->groups[group].kind == ICP_GROUP_STATE;
    uint32_t first = is_state ? (begin == 0 ? 0 : begin - 1) : first_read(&model->groups[group], begin);
    for (uint32_t i = first; i < begin; i++) {
        uint32_t block = i / size < entry_count ? table[i / size] : ICP_BLOCK_NONE;
        if (block == ICP_BLOCK_NONE) {
            naive_fail(model, "shadow: lease %u, group %u: no block at position %u to compute %u", slot, group, i,
                       begin);
            return false;
        }
        if (blocks->values[model->pool_of[group]][block][is_state ? 0 : i % size] == values[i] + group) continue;
        naive_fail(model, "shadow: lease %u, group %u: block %u is wrong at position %u", slot, group, block, i);
        return false;
    }
    return true;
}

static bool write_values(shadow *blocks, naive *model, uint32_t slot, uint32_t group, uint32_t begin, uint32_t end,
                         const uint64_t *values, const uint32_t *table)
{
    uint32_t size = model->block_tokens;
    bool is_state = model->groups[group].kind == ICP_GROUP_STATE;
    for (uint32_t i = is_state ? end - 1 : begin; i < end; i++) {
        if (table[i / size] == ICP_BLOCK_NONE) {
            naive_fail(model, "shadow: lease %u, group %u: no block to write position %u to", slot, group, i);
            return false;
        }
        blocks->values[model->pool_of[group]][table[i / size]][is_state ? 0 : i % size] = values[i] + group;
    }
    return true;
}

bool shadow_compute(shadow *blocks, naive *model, uint32_t slot, const naive_text *text)
{
    const naive_lease *lease = &model->now.leases[slot];
    uint64_t values[NAIVE_TOKEN_COUNT_MAX];
    if (blocks->copied[slot] != lease->tail_serial && !copy_tail(blocks, model, slot)) return false;
    uint32_t begin = blocks->computed[slot];
    uint32_t end = text->token_count < lease->room ? text->token_count : lease->room;
    if (end <= begin) return true;
    text_values(text, model->now.scopes[lease->scope].key, values);
    for (uint32_t g = 0; g < model->group_count; g++) {
        const uint32_t *table = NULL;
        uint32_t count = 0;
        if (icp_lease_table(model->cache, lease->handle, g, &table, &count) != ICP_OK) return false;
        if (!read_values(blocks, model, slot, g, begin, values, table, count)) return false;
        if (!write_values(blocks, model, slot, g, begin, end, values, table)) return false;
    }
    blocks->computed[slot] = end;
    return true;
}
