/* arena.c - carving one piece of memory, and getting it from the system. */
#include "base/arena.h"

#include <stdint.h>
#include <sys/mman.h>

#define HUGE_PAGE_BYTES ((size_t)2 << 20)

void *icp_arena_take(icp_arena *arena, size_t count, size_t bytes)
{
    size_t size = 0;
    size_t end = 0;
    if (__builtin_mul_overflow(count, bytes, &size) || __builtin_add_overflow(size, ICP_ARENA_ALIGN - 1, &size) ||
        __builtin_add_overflow(arena->used, size & ~(size_t)(ICP_ARENA_ALIGN - 1), &end)) {
        arena->is_overflown = 1;
        return NULL;
    }
    void *piece = arena->base == NULL ? NULL : arena->base + arena->used;
    arena->used = end;
    return piece;
}

static size_t map_bytes(size_t bytes)
{
    return bytes < HUGE_PAGE_BYTES ? bytes : (bytes + HUGE_PAGE_BYTES - 1) & ~(HUGE_PAGE_BYTES - 1);
}

/* A huge page must start on its own boundary, so a large map is made one page longer and trimmed. */
void *icp_memory_map(size_t bytes)
{
    size_t size = map_bytes(bytes);
    int is_large = size >= HUGE_PAGE_BYTES;
    size_t asked = size;
    if (size < bytes || (is_large && __builtin_add_overflow(size, HUGE_PAGE_BYTES, &asked))) return NULL;

    uint8_t *map = mmap(NULL, asked, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (map == MAP_FAILED) return NULL;
    if (!is_large) return map;

    size_t front = (HUGE_PAGE_BYTES - ((uintptr_t)map & (HUGE_PAGE_BYTES - 1))) & (HUGE_PAGE_BYTES - 1);
    if (front != 0) munmap(map, front);
    munmap(map + front + size, HUGE_PAGE_BYTES - front);
#ifdef MADV_HUGEPAGE
    (void)madvise(map + front, size, MADV_HUGEPAGE); /* a wish: plain pages do as well, only slower */
#endif
    return map + front;
}

void icp_memory_unmap(void *memory, size_t bytes)
{
    if (memory != NULL) munmap(memory, map_bytes(bytes));
}
