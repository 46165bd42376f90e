/* cpu.h - what the processor under us can do.
 *
 * Asked at run time, so that one build serves every machine: a kernel that needs more than the base instruction
 * set is compiled always and chosen here. Each answer is found once and kept; asking again costs one load. Any
 * thread may ask. What another kind of processor could do is false. */
#ifndef ICP_BASE_CPU_H
#define ICP_BASE_CPU_H

#include <stdbool.h>

/* The SHA-256 instructions: ARMv8 SHA2, or x86 SHA-NI with the SSSE3 and SSE4.1 that its kernel shuffles with. */
bool icp_cpu_has_sha256(void);

/* aarch64: sdot (four products of bytes, summed), smmla (2 x 8 by 8 x 2 bytes), arithmetic on halves, and fmlal
 * (products of halves, added to floats). */
bool icp_cpu_has_dotprod(void);
bool icp_cpu_has_i8mm(void);
bool icp_cpu_has_fp16(void);
bool icp_cpu_has_fmlal(void);

/* x86-64, each only where the system saves the registers: AVX2 with FMA and F16C; VEX-encoded VNNI (vpdpbusd on 256
 * bits) with them; AVX-512 F, BW, VL, DQ; VNNI on 512 bits with those. */
bool icp_cpu_has_avx2(void);
bool icp_cpu_has_avx_vnni(void);
bool icp_cpu_has_avx512(void);
bool icp_cpu_has_avx512_vnni(void);

#endif
