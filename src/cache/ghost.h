/* ghost.h - what was cached once: the hash of an evicted prefix, and when it went.
 *
 * For explain alone: a prompt that misses because it was evicted is another matter than one never seen. Each prefix has
 * one place, and a later one there overwrites it: the memory is of the recent past. 32 bits of the hash tell ghosts
 * apart, so that about one explanation in four thousand million is wrong; nothing is ever served from here. */
#ifndef ICP_CACHE_GHOST_H
#define ICP_CACHE_GHOST_H

#include "base/prefetch.h"
#include "cache/hash.h"

#include <stdbool.h>

typedef struct icp_ghost {
    uint32_t tag; /* 0: empty */
    uint32_t tick;
} icp_ghost;

typedef struct icp_ghost_table {
    icp_ghost *ghosts; /* [count] */
    uint32_t count;
} icp_ghost_table;

static inline uint32_t icp_ghost_tag(uint64_t hash)
{
    return (uint32_t)hash == 0 ? 1 : (uint32_t)hash;
}

static inline void icp_ghost_add(icp_ghost_table *table, uint64_t hash, uint32_t tick)
{
    if (table->count == 0) return;
    table->ghosts[icp_hash_range(hash, table->count)] = (icp_ghost){icp_ghost_tag(hash), tick};
}

static inline void icp_ghost_prefetch(const icp_ghost_table *table, uint64_t hash)
{
    if (table->count != 0) ICP_PREFETCH(&table->ghosts[icp_hash_range(hash, table->count)]);
}

static inline bool icp_ghost_find(const icp_ghost_table *table, uint64_t hash, uint32_t *tick)
{
    if (table->count == 0) return false;
    const icp_ghost *ghost = &table->ghosts[icp_hash_range(hash, table->count)];
    if (ghost->tag != icp_ghost_tag(hash)) return false;
    *tick = ghost->tick;
    return true;
}

#endif
