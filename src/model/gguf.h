/* gguf.h - model files: GGUF version 2 and 3, one file or several, mapped into memory and validated before use.
 *
 * Opening reads the whole header with checked arithmetic and believes nothing: every count, length and offset is held
 * against the number of bytes that the file really has, before anything is touched. After that the tables here point
 * into the map; tensors' data is only read by whoever uses it, so opening a large model costs no memory.
 *
 *      file   [ magic, version, counts | key-value pairs | tensor table | padding | data ... ]
 *                                         ^ icp_gguf_find  ^ icp_gguf_find_tensor      ^ tensor->data
 *
 * A split model ("name-00001-of-00003.gguf") is opened by the name of any of its parts.
 *
 * An icp_gguf is read only once it is open: any number of threads may look into it. */
#ifndef ICP_MODEL_GGUF_H
#define ICP_MODEL_GGUF_H

#include "backend/backend.h" /* icp_weight_type */
#include "incipit/cache.h"   /* icp_status, icp_error */

#include <stdbool.h>

/* Limits, all checked at open. */
#define ICP_GGUF_STRING_BYTES_MAX (16u << 20)
#define ICP_GGUF_PAIR_COUNT_MAX 65536u
#define ICP_GGUF_TENSOR_COUNT_MAX 65536u
#define ICP_GGUF_ARRAY_COUNT_MAX (1u << 26)
#define ICP_GGUF_HEADER_BYTES_MAX ((uint64_t)512 << 20)
#define ICP_GGUF_DIMENSIONS_MAX 4u
#define ICP_GGUF_SPLIT_COUNT_MAX 1024u

/* Types of values, numbered as in the file. */
typedef enum icp_gguf_type {
    ICP_GGUF_UINT8,
    ICP_GGUF_INT8,
    ICP_GGUF_UINT16,
    ICP_GGUF_INT16,
    ICP_GGUF_UINT32,
    ICP_GGUF_INT32,
    ICP_GGUF_FLOAT32,
    ICP_GGUF_BOOL,
    ICP_GGUF_STRING,
    ICP_GGUF_ARRAY,
    ICP_GGUF_UINT64,
    ICP_GGUF_INT64,
    ICP_GGUF_FLOAT64,
    ICP_GGUF_TYPE_COUNT
} icp_gguf_type;

/* Text inside the map: not terminated by a 0. */
typedef struct icp_gguf_string {
    const char *text;
    size_t bytes;
} icp_gguf_string;

typedef struct icp_gguf_pair {
    icp_gguf_string key;
    icp_gguf_type type; /* of the value; of the items where is_array is set */
    bool is_array;
    uint64_t count;      /* items; 1 unless it is an array */
    const uint8_t *data; /* the value or the items as they lie in the file, not aligned */
    size_t bytes;
} icp_gguf_pair;

typedef struct icp_gguf_tensor {
    icp_gguf_string name;
    icp_weight_type type;
    uint32_t dimension_count;
    uint64_t shape[ICP_GGUF_DIMENSIONS_MAX]; /* shape[0] is contiguous; 1 past dimension_count */
    const void *data;                        /* in the map of its part, aligned as the file says */
    size_t bytes;
} icp_gguf_tensor;

typedef struct icp_gguf icp_gguf;

/* Opens and validates a file, or all parts of a split model. BAD_ARGUMENT: the file is malformed, error says how and
 * where. NOT_FOUND: it cannot be opened or read. NO_MEMORY. */
icp_status icp_gguf_open(icp_gguf **out, const char *path, icp_error *error);

/* The same of a file image in memory, which stays the caller's and must outlive it: for tests and the built-in model.
 * */
icp_status icp_gguf_open_memory(icp_gguf **out, const void *image, size_t bytes, icp_error *error);

void icp_gguf_close(icp_gguf *gguf);

/* Bytes of all parts, for progress and statistics. */
uint64_t icp_gguf_bytes(const icp_gguf *gguf);
uint32_t icp_gguf_version(const icp_gguf *gguf);

/* Tensors lie in mappings of files, so pages that are given back to the system can be read again. */
bool icp_gguf_is_mapped(const icp_gguf *gguf);

/* All pairs and tensors, in file order, parts in order. */
uint32_t icp_gguf_pair_count(const icp_gguf *gguf);
const icp_gguf_pair *icp_gguf_pair_at(const icp_gguf *gguf, uint32_t index);
uint32_t icp_gguf_tensor_count(const icp_gguf *gguf);
const icp_gguf_tensor *icp_gguf_tensor_at(const icp_gguf *gguf, uint32_t index);

/* By name, in constant time. NULL: there is none. */
const icp_gguf_pair *icp_gguf_find(const icp_gguf *gguf, const char *key);
const icp_gguf_tensor *icp_gguf_find_tensor(const icp_gguf *gguf, const char *name);

/* A value as what is wanted, where the pair is there, is no array, and the value fits: any integer type (and bool) as
 * uint64, any number as double. False, and *out untouched, otherwise. */
bool icp_gguf_uint(const icp_gguf *gguf, const char *key, uint64_t *out);
bool icp_gguf_float(const icp_gguf *gguf, const char *key, double *out);
bool icp_gguf_bool(const icp_gguf *gguf, const char *key, bool *out);
bool icp_gguf_text(const icp_gguf *gguf, const char *key, icp_gguf_string *out);

/* Items of an array of strings, in order: *cursor starts at 0. False: no more. Linear in all, constant a step. */
bool icp_gguf_next_string(const icp_gguf_pair *array, size_t *cursor, icp_gguf_string *out);

/* An item of an array of numbers. The index must be below count. */
double icp_gguf_number_at(const icp_gguf_pair *array, uint64_t index);

#endif
