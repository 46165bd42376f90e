/* assert.h - broken contracts stop the program, in release builds too.
 *
 * ICP_ASSERT is for what can only be false through a bug here or a stray write into our memory: going on would
 * hand one request's KV to another. What a caller or the world can cause is an icp_status instead.
 * ICP_DEBUG_ASSERT costs too much for release, or catches misuse that release tolerates. */
#ifndef ICP_BASE_ASSERT_H
#define ICP_BASE_ASSERT_H

_Noreturn void icp_assert_failed(const char *claim, const char *file, int line);

#define ICP_ASSERT(claim)                                                                 \
    do {                                                                                  \
        if (__builtin_expect(!(claim), 0)) icp_assert_failed(#claim, __FILE__, __LINE__); \
    } while (0)

#if defined(ICP_DEBUG) && ICP_DEBUG
#define ICP_DEBUG_ASSERT(claim) ICP_ASSERT(claim)
#else
#define ICP_DEBUG_ASSERT(claim) ((void)0)
#endif

#endif
