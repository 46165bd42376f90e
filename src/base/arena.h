/* arena.h - one piece of memory, measured first and carved up after.
 *
 * The code that carves runs twice: with base NULL it only adds up sizes, with the memory at hand it gives out
 * pointers. So the size that was promised and the size that is used cannot differ.
 *
 *     base [ cache | links | tokens | nodes | ... ]
 *            ^64-byte aligned each              ^used                                                     */
#ifndef ICP_BASE_ARENA_H
#define ICP_BASE_ARENA_H

#include <stddef.h>
#include <stdint.h>

#define ICP_ARENA_ALIGN 64u

typedef struct icp_arena {
    uint8_t *base; /* NULL: measuring */
    size_t used;
    int is_overflown; /* a size went past SIZE_MAX */
} icp_arena;

/* Room for count items of bytes each, 64-byte aligned, or NULL while measuring. */
void *icp_arena_take(icp_arena *arena, size_t count, size_t bytes);

/* Zeroed memory from the system, in huge pages where there are any (a cache of ten million blocks is walked at
 * random, and page walks would cost more than the cache lines). NULL: none to be had. */
void *icp_memory_map(size_t bytes);
void icp_memory_unmap(void *memory, size_t bytes);

#endif
