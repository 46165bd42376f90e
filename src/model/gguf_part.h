/* gguf_part.h - one file of a model: its header read into the tables of the whole.
 * For gguf.c; icp_gguf_quote also for those who name what a file holds.
 *
 * The reader goes through the header once, front to back. A field is taken only after its length was held against the
 * bytes that are left, and every sum and product of numbers from the file is checked. What a table needs is allocated
 * only when the file is long enough to fill it, so a small file cannot ask for much memory.
 *
 * Stricter than the letter of the format, because nothing that is in use needs it:
 *   - arrays of arrays are refused, as llama.cpp does;
 *   - tensors' data lies in the order of the tensor table, as llama.cpp demands (gaps are let pass): that is how an
 *     overlap is seen without sorting;
 *   - keys and tensor names are not empty, no dimension is 0, a bool is 0 or 1.
 *
 * A file may be changed while it is mapped. Pointers and sizes that were checked are kept in the tables and never read
 * again; the lengths of strings in arrays are the exception, and icp_gguf_next_string checks them again. */
#ifndef ICP_MODEL_GGUF_PART_H
#define ICP_MODEL_GGUF_PART_H

#include "model/gguf.h"

#define ICP_GGUF_KEY_BYTES_MAX (64u << 10)
#define ICP_GGUF_NAME_BYTES_MAX 64u /* of a tensor, as in the description of the format */
#define ICP_GGUF_ALIGNMENT_MAX (64u << 10)
#define ICP_GGUF_ALIGNMENT_DEFAULT 32u
#define ICP_GGUF_QUOTE_BYTES 56u /* of a name in an error */

/* One part: its image and its share of the tables. */
typedef struct icp_gguf_part {
    const uint8_t *image;
    size_t bytes;
    bool is_mapped; /* by us, so unmapped by us */
    uint32_t version;
    uint32_t pair_first;
    uint32_t pair_count;
    uint32_t tensor_first;
    uint32_t tensor_count;
} icp_gguf_part;

typedef struct icp_gguf_tables {
    icp_gguf_pair *pairs;
    icp_gguf_tensor *tensors;
    uint32_t pair_count;
    uint32_t tensor_count;
} icp_gguf_tables;

/* Reads the header of part->image, checks all of it and appends to the tables. label is the file's name in errors.
 * After a failure the tables may hold more than before; whoever owns them frees them. */
icp_status icp_gguf_part_read(icp_gguf_part *part, icp_gguf_tables *tables, const char *label, icp_error *error);

/* Writes a sentence to error, where there is one. */
void icp_gguf_explain(icp_error *error, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* A name for people: "name", what is not printable as \xNN, the end cut off where it is long. Returns quote. */
const char *icp_gguf_quote(icp_gguf_string name, char quote[ICP_GGUF_QUOTE_BYTES]);

/* Bytes of a number; 0 for strings, arrays and what is no type. */
uint32_t icp_gguf_type_bytes(icp_gguf_type type);

/* icp_gguf_uint of a pair; NULL is no pair. */
bool icp_gguf_pair_uint(const icp_gguf_pair *pair, uint64_t *out);

/* Numbers as they lie in the file, low byte first. */
static inline uint64_t icp_gguf_load(const uint8_t *data, uint32_t bytes)
{
    uint64_t number = 0;
    for (uint32_t i = bytes; i-- > 0;) number = number << 8 | data[i];
    return number;
}

#endif
