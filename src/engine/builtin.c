/* builtin.c - the built-in model: the file model/incipit-debian.gguf as it is, in the read-only data of the library.
 *
 * The assembler puts it there: no generated source, and no time for a compiler to read 18 MB of numbers. It begins a
 * page, the largest that the machines have, so that tensors keep the alignment that the file gives them and pages are
 * read from disk only when a weight is. The path is relative to where make runs; the Makefile has the dependency. */
#include "engine/model.h"

__asm__(".section .rodata\n"
        ".balign 65536\n"
        "icp_builtin_start:\n"
        ".incbin \"model/incipit-debian.gguf\"\n"
        "icp_builtin_end:\n"
        ".byte 0\n"
        ".previous\n");

extern const unsigned char icp_builtin_start[] __attribute__((visibility("hidden")));
extern const unsigned char icp_builtin_end[] __attribute__((visibility("hidden")));

const void *icp_builtin_image(size_t *bytes)
{
    *bytes = (size_t)(icp_builtin_end - icp_builtin_start);
    return icp_builtin_start;
}
