/* prefetch.h - asks for a cache line before it is needed.
 *
 * A plain __builtin_prefetch in a function of its own is no side effect to gcc, which then drops the calls of that
 * function as useless; the empty asm keeps them. */
#ifndef ICP_BASE_PREFETCH_H
#define ICP_BASE_PREFETCH_H

#define ICP_PREFETCH(address) \
    do { \
        __builtin_prefetch(address); \
        __asm__ volatile(""); \
    } while (0)

#endif
