/* capacity.c - sizes that are decided at open: blocks of each group, and how long a context may be.
 *
 * BYTES. What the caller says; otherwise half of the memory that is free once the weights are loaded, or enough for
 * sequence_count_max whole contexts where that is less.
 *
 * GROUPS. A running sequence needs all its blocks of a full group, but of a window group only those that its window
 * still sees and those that a step adds. So a window pool is wanted for sequence_count_max such runs, and as many again
 * that stay behind with cached prefixes, since a prefix can be taken up only where its window is cached too; but never
 * for more tokens than the full pool. Bytes are divided as what is wanted: both pools serve as many sequences. Where
 * there is little, the window pool gets what one sequence needs first.
 *
 * CONTEXT. What a sequence alone can have: the full pool less one block, which the exchange of a padded block needs for
 * a moment (sequence.c). */
#include "engine/engine.h"

#include <stdio.h>
#include <stdlib.h>

/* The number behind a word at the start of a line. UINT64_MAX: there is none. */
static uint64_t number_in(const char *path, const char *word)
{
    char line[128];
    uint64_t number = UINT64_MAX;
    FILE *file = fopen(path, "re");
    if (file == NULL) return number;
    while (number == UINT64_MAX && fgets(line, sizeof(line), file) != NULL) {
        if (strncmp(line, word, strlen(word)) != 0) continue;
        char *end = NULL;
        unsigned long long read = strtoull(line + strlen(word), &end, 10);
        if (end != line + strlen(word)) number = read;
    }
    (void)fclose(file);
    return number;
}

/* Memory that could be had now: of the machine, and of the control group that this process is in. */
uint64_t icp_capacity_free_bytes(void)
{
    uint64_t kib = number_in("/proc/meminfo", "MemAvailable:");
    uint64_t bytes = kib == UINT64_MAX ? (uint64_t)1 << 30 : kib * 1024;
    uint64_t limit = number_in("/sys/fs/cgroup/memory.max", "");
    uint64_t used = number_in("/sys/fs/cgroup/memory.current", "");
    if (limit != UINT64_MAX && used != UINT64_MAX) {
        uint64_t left = limit > used ? limit - used : 0;
        if (left < bytes) bytes = left;
    }
    return bytes;
}

typedef struct sizes {
    uint64_t bytes[2];  /* of one block */
    uint64_t need[2];   /* blocks of one sequence of the whole context */
    uint64_t wanted[2]; /* blocks for all */
    uint32_t group_count;
} sizes;

static uint64_t blocks_for(const icp_engine *engine, uint64_t tokens)
{
    uint32_t block_tokens = engine->options.block_tokens;
    return (tokens + block_tokens - 1) / block_tokens;
}

static sizes sizes_of(const icp_engine *engine, const uint64_t *block_bytes, uint64_t context)
{
    const icp_shape *shape = engine->shape;
    sizes all = {.group_count = shape->group_count};
    for (uint32_t g = 0; g < shape->group_count; g++) {
        uint64_t whole = blocks_for(engine, context) + 1;
        uint64_t run = blocks_for(engine, (uint64_t)shape->groups[g].window + engine->options.step_tokens) + 3;
        bool is_window = shape->groups[g].kind == ICP_GROUP_WINDOW;
        all.bytes[g] = block_bytes[g];
        all.need[g] = is_window && run < whole ? run : whole;
        uint64_t wanted = is_window && 2 * all.need[g] < whole ? 2 * all.need[g] : whole;
        all.wanted[g] = wanted * engine->options.sequence_count_max;
    }
    return all;
}

/* UINT64_MAX: more than can be counted. */
static uint64_t enough_bytes(const sizes *all)
{
    uint64_t bytes[2];
    uint64_t sum;
    if (__builtin_mul_overflow(all->wanted[0], all->bytes[0], &bytes[0]) ||
        __builtin_mul_overflow(all->wanted[1], all->bytes[1], &bytes[1]) ||
        __builtin_add_overflow(bytes[0], bytes[1], &sum))
        return UINT64_MAX;
    return sum;
}

/* What a sequence of two tokens needs: two blocks of a full group, and a window. */
static uint64_t least_bytes(const icp_engine *engine, const sizes *all)
{
    uint64_t bytes = 0;
    for (uint32_t g = 0; g < all->group_count; g++) {
        bool is_window = engine->shape->groups[g].kind == ICP_GROUP_WINDOW;
        bytes += (is_window ? all->need[g] : 2) * all->bytes[g];
    }
    return bytes;
}

/* Blocks of each group out of so many bytes. */
static void divide(const icp_engine *engine, const sizes *all, uint64_t bytes, uint64_t *counts)
{
    counts[0] = bytes / all->bytes[0];
    counts[1] = 0;
    if (all->group_count == 1) return;
    uint32_t window = engine->shape->groups[0].kind == ICP_GROUP_WINDOW ? 0 : 1;
    uint32_t full = 1 - window;
    double share = (double)bytes / (double)enough_bytes(all);
    counts[window] = (uint64_t)((double)all->wanted[window] * share);
    if (counts[window] < all->need[window]) counts[window] = all->need[window];
    uint64_t taken = counts[window] * all->bytes[window];
    counts[full] = taken < bytes ? (bytes - taken) / all->bytes[full] : 0;
}

icp_status icp_capacity_decide(icp_capacity *out, const icp_engine *engine, const uint64_t *block_bytes,
                               uint64_t free_bytes, icp_error *error)
{
    const icp_engine_options *options = &engine->options;
    const icp_shape *shape = engine->shape;
    uint64_t context = options->context_tokens_max != 0 ? options->context_tokens_max : shape->context_max;
    sizes all = sizes_of(engine, block_bytes, context);
    uint64_t bytes = options->kv_bytes;
    uint64_t enough = enough_bytes(&all);
    if (bytes == 0) bytes = free_bytes / 2 < enough ? free_bytes / 2 : enough;

    uint64_t counts[2];
    divide(engine, &all, bytes, counts);
    out->kv_bytes = 0;
    for (uint32_t g = 0; g < shape->group_count; g++) {
        if (counts[g] > UINT32_MAX / 2) counts[g] = UINT32_MAX / 2;
        bool is_window = shape->groups[g].kind == ICP_GROUP_WINDOW;
        uint64_t fits = counts[g] == 0 ? 0 : (counts[g] - 1) * options->block_tokens;
        if (is_window && counts[g] >= all.need[g]) fits = context; /* whatever its length */
        if (fits < context && options->context_tokens_max == 0) context = fits;
        if (fits < context)
            return icp_fail(error, ICP_NO_MEMORY, "a context of %llu tokens does not fit the %llu KiB of KV",
                            (unsigned long long)context, (unsigned long long)(bytes >> 10));
        out->block_count[g] = (uint32_t)counts[g];
        out->kv_bytes += counts[g] * all.bytes[g];
    }
    if (context < 2)
        return icp_fail(error, ICP_NO_MEMORY, "%llu KiB of KV are too little: %llu KiB are the least",
                        (unsigned long long)(bytes >> 10),
                        (unsigned long long)((least_bytes(engine, &all) + 1023) >> 10));
    out->context_tokens = (uint32_t)context;
    return ICP_OK;
}
