/* assert.h - broken contracts stop the program, in release builds too.
 *
 * ICP_ASSERT is for what can only be false through a bug here or a stray write into our memory: going on would
 * hand one request's KV to another. What a caller or the world can cause is an icp_status instead. */
#ifndef ICP_BASE_ASSERT_H
#define ICP_BASE_ASSERT_H

_Noreturn void icp_assert_failed(const char *claim, const char *file, int line);

#define ICP_ASSERT(claim)                                                                 \
    do {                                                                                  \
        if (__builtin_expect(!(claim), 0)) icp_assert_failed(#claim, __FILE__, __LINE__); \
    } while (0)

#endif
