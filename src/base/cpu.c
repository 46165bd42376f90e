/* cpu.c - asks the kernel (aarch64) or the processor itself (x86-64) for its features.
 *
 * The answers are bits of one relaxed atomic. Two threads that ask first at the same time both look, find the same
 * and write the same, so there is nothing to order and nothing to lock. Called by the chooser of every kernel that has
 * more than one version: cache/sha256.c, backend/matrix.c. */
#include "base/cpu.h"

#include <stdatomic.h>

#if defined(__aarch64__) && defined(__linux__)
#include <sys/auxv.h>
#elif defined(__x86_64__)
#include <cpuid.h>
#endif

enum {
    KNOWN = 1 << 0,
    SHA256 = 1 << 1,
    DOTPROD = 1 << 2,
    I8MM = 1 << 3,
    FP16 = 1 << 4,
    AVX2 = 1 << 5,
    AVX_VNNI = 1 << 6,
    AVX512 = 1 << 7,
    AVX512_VNNI = 1 << 8,
    FMLAL = 1 << 9,
};

#if defined(__aarch64__) && defined(__linux__)

#ifndef HWCAP2_I8MM
#define HWCAP2_I8MM (1UL << 13)
#endif

static int detect(void)
{
    unsigned long first = getauxval(AT_HWCAP);
    unsigned long second = getauxval(AT_HWCAP2);
    int found = 0;
    if ((first & HWCAP_SHA2) != 0) found |= SHA256;
    if ((first & HWCAP_ASIMDDP) != 0) found |= DOTPROD;
    if ((first & HWCAP_ASIMDHP) != 0) found |= FP16;
    if ((first & HWCAP_ASIMDFHM) != 0) found |= FMLAL;
    if ((second & HWCAP2_I8MM) != 0) found |= I8MM;
    return found;
}

#elif defined(__x86_64__)

/* Which registers the system saves: xgetbv 0, known by the processor's word that the system has switched it on. */
static unsigned saved_registers(unsigned leaf1_c)
{
    if ((leaf1_c & bit_OSXSAVE) == 0) return 0;
    unsigned low, high;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return low;
}

static int detect(void)
{
    enum { SAVED_AVX = 0x06, SAVED_AVX512 = 0xe6, BIT_AVX_VNNI = 1 << 4 };
    const unsigned base = bit_FMA | bit_F16C | bit_AVX;
    const unsigned wide = bit_AVX512F | bit_AVX512BW | bit_AVX512VL | bit_AVX512DQ;
    unsigned a, b, c, d, c1, more;
    int found = 0;
    if (__get_cpuid(1, &a, &b, &c1, &d) == 0) return 0;
    if (__get_cpuid_count(7, 0, &more, &b, &c, &d) == 0) return 0;

    /* Every x86-64 system saves the SSE registers, so the processor's word is enough. */
    if ((c1 & bit_SSSE3) != 0 && (c1 & bit_SSE4_1) != 0 && (b & bit_SHA) != 0) found |= SHA256;

    unsigned saved = saved_registers(c1);
    if ((saved & SAVED_AVX) != SAVED_AVX || (c1 & base) != base || (b & bit_AVX2) == 0) return found;
    found |= AVX2;
    if ((saved & SAVED_AVX512) == SAVED_AVX512 && (b & wide) == wide) {
        found |= AVX512;
        if ((c & bit_AVX512VNNI) != 0) found |= AVX512_VNNI;
    }
    if (more >= 1 && __get_cpuid_count(7, 1, &a, &b, &c, &d) != 0 && (a & BIT_AVX_VNNI) != 0) found |= AVX_VNNI;
    return found;
}

#else

static int detect(void)
{
    return 0;
}

#endif

static bool has(int feature)
{
    static atomic_int known = 0;

    int answer = atomic_load_explicit(&known, memory_order_relaxed);
    if (answer == 0) {
        answer = detect() | KNOWN;
        atomic_store_explicit(&known, answer, memory_order_relaxed);
    }
    return (answer & feature) != 0;
}

bool icp_cpu_has_sha256(void)
{
    return has(SHA256);
}

bool icp_cpu_has_dotprod(void)
{
    return has(DOTPROD);
}

bool icp_cpu_has_i8mm(void)
{
    return has(I8MM);
}

bool icp_cpu_has_fp16(void)
{
    return has(FP16);
}

bool icp_cpu_has_fmlal(void)
{
    return has(FMLAL);
}

bool icp_cpu_has_avx2(void)
{
    return has(AVX2);
}

bool icp_cpu_has_avx_vnni(void)
{
    return has(AVX_VNNI);
}

bool icp_cpu_has_avx512(void)
{
    return has(AVX512);
}

bool icp_cpu_has_avx512_vnni(void)
{
    return has(AVX512_VNNI);
}
