/* fuzz_ops.c - a libFuzzer target: bytes choose the configuration and the operations of driver.h.
 *
 *     clang -fsanitize=fuzzer,address,undefined tests/fuzz_ops.c ...   (make fuzz)
 *
 * A difference between the library and the model is printed and aborts. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "driver.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static driver *self;
    if (self == NULL) self = driver_open();
    if (self == NULL) return 0;
    driver_bytes bytes;
    driver_bytes_start(&bytes, data, size);
    if (driver_run(self, &bytes.source, UINT64_MAX)) return 0;
    driver_report(self, stderr);
    abort();
}
