/* assert.c - the last words of a program whose contract broke. */
#include "base/assert.h"

#include <stdio.h>
#include <stdlib.h>

_Noreturn void icp_assert_failed(const char *claim, const char *file, int line)
{
    fprintf(stderr, "incipit: %s:%d: this must hold and does not: %s\n", file, line, claim);
    abort();
}
