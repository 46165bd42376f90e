/* gguf_make.h - writes GGUF images for tests, right ones and wrong ones.
 *
 * The image is written front to back: start, pairs, tensors, data. The counts in the header follow what is written.
 * Nothing is checked: types, lengths and offsets are written as given, and gguf_make_put changes any field after. It
 * shares no code with the reader. */
#ifndef ICP_TESTS_GGUF_MAKE_H
#define ICP_TESTS_GGUF_MAKE_H

#include <stddef.h>
#include <stdint.h>

/* Where the fields of the header lie. */
#define GGUF_MAKE_VERSION_AT 4u
#define GGUF_MAKE_TENSOR_COUNT_AT 8u
#define GGUF_MAKE_PAIR_COUNT_AT 16u
#define GGUF_MAKE_PAIRS_AT 24u

typedef struct gguf_make {
    uint8_t *bytes;
    size_t count;
    size_t room;
} gguf_make;

typedef struct gguf_make_entry {
    const char *name;
    uint32_t type;
    uint32_t dimension_count;
    uint64_t shape[5];
    uint64_t offset;
} gguf_make_entry;

/* The header of version 3 without pairs or tensors. Every start has its stop, which frees. */
void gguf_make_start(gguf_make *make);
void gguf_make_stop(gguf_make *make);

/* Raw pieces: bytes, a number low byte first, a string with its length. */
void gguf_make_bytes(gguf_make *make, const void *data, size_t count);
void gguf_make_number(gguf_make *make, uint64_t number, uint32_t bytes);
void gguf_make_string(gguf_make *make, const char *text);

/* Pairs. After a key and after an array's head, the values follow as raw pieces. */
void gguf_make_key(gguf_make *make, const char *key, uint32_t type);
void gguf_make_array(gguf_make *make, const char *key, uint32_t item_type, uint64_t count);
void gguf_make_pair(gguf_make *make, const char *key, uint32_t type, uint64_t number);
void gguf_make_text(gguf_make *make, const char *key, const char *text);

/* A row of the tensor table; as many dimensions as dimension_count says, 5 at most. */
void gguf_make_tensor(gguf_make *make, const gguf_make_entry *entry);

/* Zeros up to a multiple of alignment, then bytes of data that count up from 1. */
void gguf_make_data(gguf_make *make, size_t alignment, size_t bytes);

/* Changes what was written: the number at a position. */
void gguf_make_put(gguf_make *make, size_t position, uint64_t number, uint32_t bytes);

/* Every type of value, arrays, two tensors; its last byte is the last byte of the second tensor. */
void gguf_make_sample(gguf_make *make);

#endif
