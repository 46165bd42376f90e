/* cpu.c - asks the kernel (aarch64) or the processor itself (x86-64) for its features.
 *
 * The answer is kept in a relaxed atomic. Two threads that ask first at the same time both look, find the same and
 * write the same, so there is nothing to order and nothing to lock. Called by the chooser of every kernel that has
 * more than one version, today cache/sha256.c. */
#include "base/cpu.h"

#include <stdatomic.h>

#if defined(__aarch64__) && defined(__linux__)
#include <sys/auxv.h>
#elif defined(__x86_64__)
#include <cpuid.h>
#endif

#if defined(__aarch64__) && defined(__linux__)

static bool detect_sha256(void)
{
    return (getauxval(AT_HWCAP) & HWCAP_SHA2) != 0;
}

#elif defined(__x86_64__)

/* Every x86-64 system saves the SSE registers, so the processor's word is enough. */
static bool detect_sha256(void)
{
    unsigned a, b, c, d;
    if (__get_cpuid(1, &a, &b, &c, &d) == 0) return false;
    if ((c & bit_SSSE3) == 0 || (c & bit_SSE4_1) == 0) return false;

    if (__get_cpuid_count(7, 0, &a, &b, &c, &d) == 0) return false;
    return (b & bit_SHA) != 0;
}

#else

static bool detect_sha256(void)
{
    return false;
}

#endif

bool icp_cpu_has_sha256(void)
{
    enum { UNKNOWN, NO, YES };
    static atomic_int known = UNKNOWN;

    int answer = atomic_load_explicit(&known, memory_order_relaxed);
    if (answer == UNKNOWN) {
        answer = detect_sha256() ? YES : NO;
        atomic_store_explicit(&known, answer, memory_order_relaxed);
    }
    return answer == YES;
}
