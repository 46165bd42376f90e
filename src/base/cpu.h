/* cpu.h - what the processor under us can do.
 *
 * Asked at run time, so that one build serves every machine: a kernel that needs more than the base instruction
 * set is compiled always and chosen here. Each answer is found once and kept; asking again costs one load. Any
 * thread may ask. */
#ifndef ICP_BASE_CPU_H
#define ICP_BASE_CPU_H

#include <stdbool.h>

/* The SHA-256 instructions: ARMv8 SHA2, or x86 SHA-NI with the SSSE3 and SSE4.1 that its kernel shuffles with. */
bool icp_cpu_has_sha256(void);

#endif
