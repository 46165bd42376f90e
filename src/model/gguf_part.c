/* gguf_part.c - reads the header of one model file. */
#include "model/gguf_part.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The least that a pair and a tensor take up in a file: a count that needs more bytes than there are is a lie. */
#define PAIR_BYTES_MIN (8u + 1u + 4u + 1u)
#define TENSOR_BYTES_MIN (8u + 1u + 4u + 8u + 4u + 8u)

/* A cursor over the header, and what an error needs to say where it is. */
typedef struct reader {
    const uint8_t *image;
    size_t bytes; /* of the file, or as much of it as a header may have */
    size_t position;
    size_t field; /* where the field read last begins */
    size_t alignment;
    uint64_t data_end;    /* where the data of the tensor before ends, from the start of all data */
    const char *kind;     /* of the subject: "key ", "tensor " or "" */
    icp_gguf_string name; /* of the subject */
    const char *label;    /* of the file */
    icp_error *error;
} reader;

/* ---- Errors -------------------------------------------------------------------------------------------- */

static void explain(icp_error *error, const char *format, va_list arguments) __attribute__((format(printf, 2, 0)));

static void explain(icp_error *error, const char *format, va_list arguments)
{
    if (error != NULL) vsnprintf(error->text, sizeof(error->text), format, arguments);
}

void icp_gguf_explain(icp_error *error, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    explain(error, format, arguments);
    va_end(arguments);
}

const char *icp_gguf_quote(icp_gguf_string name, char quote[ICP_GGUF_QUOTE_BYTES])
{
    static const char digits[] = "0123456789abcdef";
    size_t used = 0;
    quote[used++] = '"';
    for (size_t i = 0; i < name.bytes; i++) {
        uint8_t byte = (uint8_t)name.text[i];
        if (used + 9 > ICP_GGUF_QUOTE_BYTES) { /* room for one \xNN, "...", a quotation mark and the 0 */
            memcpy(quote + used, "...", 3);
            used += 3;
            break;
        }
        if (byte >= ' ' && byte <= '~') {
            quote[used++] = (char)byte;
            continue;
        }
        quote[used++] = '\\';
        quote[used++] = 'x';
        quote[used++] = digits[byte >> 4];
        quote[used++] = digits[byte & 15];
    }
    quote[used++] = '"';
    quote[used] = '\0';
    return quote;
}

static icp_status refuse(const reader *from, const char *format, ...) __attribute__((format(printf, 2, 3)));

static icp_status refuse(const reader *from, const char *format, ...)
{
    icp_error why;
    char quote[ICP_GGUF_QUOTE_BYTES] = "";
    bool has_subject = from->kind[0] != '\0';
    va_list arguments;
    va_start(arguments, format);
    explain(&why, format, arguments);
    va_end(arguments);
    icp_gguf_explain(from->error, "%s%sbyte %zu: %s%s%s%s", from->label, from->label[0] == '\0' ? "" : ": ",
                     from->field, from->kind, has_subject ? icp_gguf_quote(from->name, quote) : "",
                     has_subject ? ": " : "", why.text);
    return ICP_BAD_ARGUMENT;
}

/* ---- The cursor ---------------------------------------------------------------------------------------- */

/* The next bytes, NULL where there are not so many. */
static const uint8_t *take(reader *from, uint64_t bytes)
{
    from->field = from->position;
    if (bytes > from->bytes - from->position) return NULL;
    const uint8_t *data = from->image + from->position;
    from->position += (size_t)bytes;
    return data;
}

static icp_status ended(const reader *from, const char *what)
{
    if (from->bytes == ICP_GGUF_HEADER_BYTES_MAX) return refuse(from, "the header is longer than 512 MiB");
    return refuse(from, "%s runs past the end of the file", what);
}

static icp_status read_u32(reader *from, const char *what, uint32_t *out)
{
    const uint8_t *data = take(from, sizeof(*out));
    if (data == NULL) return ended(from, what);
    *out = (uint32_t)icp_gguf_load(data, sizeof(*out));
    return ICP_OK;
}

static icp_status read_u64(reader *from, const char *what, uint64_t *out)
{
    const uint8_t *data = take(from, sizeof(*out));
    if (data == NULL) return ended(from, what);
    *out = icp_gguf_load(data, sizeof(*out));
    return ICP_OK;
}

static icp_status read_string(reader *from, const char *what, uint32_t bytes_max, icp_gguf_string *out)
{
    uint64_t bytes = 0;
    icp_status status = read_u64(from, what, &bytes);
    if (status != ICP_OK) return status;
    if (bytes > bytes_max) return refuse(from, "%s of %llu bytes is too long", what, (unsigned long long)bytes);
    const uint8_t *data = take(from, bytes);
    if (data == NULL) return ended(from, what);
    *out = (icp_gguf_string){(const char *)data, (size_t)bytes};
    return ICP_OK;
}

/* A string that something is called by: it becomes the subject of errors. */
static icp_status read_name(reader *from, const char *kind, uint32_t bytes_max, icp_gguf_string *out)
{
    from->kind = "";
    icp_status status = read_string(from, "a name", bytes_max, out);
    if (status != ICP_OK) return status;
    if (out->bytes == 0) return refuse(from, "%swithout a name", kind);
    from->kind = kind;
    from->name = *out;
    return ICP_OK;
}

/* ---- Pairs --------------------------------------------------------------------------------------------- */

static icp_status read_type(reader *from, const char *what, icp_gguf_type *out)
{
    uint32_t type = 0;
    icp_status status = read_u32(from, what, &type);
    if (status != ICP_OK) return status;
    if (type >= ICP_GGUF_TYPE_COUNT) return refuse(from, "%s %u is not known", what, type);
    *out = (icp_gguf_type)type;
    return ICP_OK;
}

static icp_status read_numbers(reader *from, icp_gguf_pair *pair)
{
    uint64_t bytes = 0;
    if (__builtin_mul_overflow(pair->count, icp_gguf_type_bytes(pair->type), &bytes)) return ended(from, "the value");
    pair->data = take(from, bytes);
    if (pair->data == NULL) return ended(from, "the value");
    pair->bytes = (size_t)bytes;
    if (pair->type != ICP_GGUF_BOOL) return ICP_OK;
    for (size_t i = 0; i < pair->bytes; i++) {
        if (pair->data[i] > 1) return refuse(from, "a bool is %u", (unsigned)pair->data[i]);
    }
    return ICP_OK;
}

static icp_status read_array(reader *from, icp_gguf_pair *pair)
{
    icp_status status = read_type(from, "type of items", &pair->type);
    if (status != ICP_OK) return status;
    if (pair->type == ICP_GGUF_ARRAY) return refuse(from, "arrays of arrays are not supported");
    status = read_u64(from, "the number of items", &pair->count);
    if (status != ICP_OK) return status;
    if (pair->count > ICP_GGUF_ARRAY_COUNT_MAX)
        return refuse(from, "%llu items are too many", (unsigned long long)pair->count);
    if (pair->type != ICP_GGUF_STRING) return read_numbers(from, pair);

    size_t start = from->position;
    for (uint64_t i = 0; i < pair->count; i++) {
        icp_gguf_string item;
        status = read_string(from, "a string", ICP_GGUF_STRING_BYTES_MAX, &item);
        if (status != ICP_OK) return status;
    }
    pair->data = from->image + start;
    pair->bytes = from->position - start;
    return ICP_OK;
}

static icp_status read_pair(reader *from, icp_gguf_pair *pair)
{
    *pair = (icp_gguf_pair){.count = 1};
    icp_status status = read_name(from, "key ", ICP_GGUF_KEY_BYTES_MAX, &pair->key);
    if (status != ICP_OK) return status;
    status = read_type(from, "type of value", &pair->type);
    if (status != ICP_OK) return status;
    if (pair->type == ICP_GGUF_ARRAY) {
        pair->is_array = true;
        return read_array(from, pair);
    }
    if (pair->type != ICP_GGUF_STRING) return read_numbers(from, pair);

    icp_gguf_string text = {0};
    status = read_string(from, "the text", ICP_GGUF_STRING_BYTES_MAX, &text);
    pair->data = (const uint8_t *)text.text;
    pair->bytes = text.bytes;
    return status;
}

/* Space for more items at the end of a table. */
static icp_status grow(void **items, uint32_t count, uint32_t more, size_t item_bytes)
{
    if (more == 0) return ICP_OK;
    void *grown = realloc(*items, ((size_t)count + more) * item_bytes);
    if (grown == NULL) return ICP_NO_MEMORY;
    *items = grown;
    return ICP_OK;
}

/* general.alignment is the one pair that the header itself depends on. */
static icp_status note_alignment(reader *from, const icp_gguf_pair *pair)
{
    static const char key[] = "general.alignment";
    if (pair->key.bytes != sizeof(key) - 1 || memcmp(pair->key.text, key, sizeof(key) - 1) != 0) return ICP_OK;
    if (pair->is_array || pair->type != ICP_GGUF_UINT32) return refuse(from, "the type is not uint32");
    uint64_t alignment = icp_gguf_load(pair->data, sizeof(uint32_t));
    if (alignment == 0 || alignment > ICP_GGUF_ALIGNMENT_MAX || (alignment & (alignment - 1)) != 0)
        return refuse(from, "%llu is not a power of two up to 65536", (unsigned long long)alignment);
    from->alignment = (size_t)alignment;
    return ICP_OK;
}

static icp_status read_pairs(reader *from, icp_gguf_part *part, icp_gguf_tables *tables)
{
    if (part->pair_count > (from->bytes - from->position) / PAIR_BYTES_MIN)
        return refuse(from, "the file is too short for %u pairs", part->pair_count);
    void *items = tables->pairs;
    icp_status status = grow(&items, tables->pair_count, part->pair_count, sizeof(icp_gguf_pair));
    tables->pairs = items;
    part->pair_first = tables->pair_count;
    for (uint32_t i = 0; i < part->pair_count && status == ICP_OK; i++) {
        icp_gguf_pair *pair = &tables->pairs[tables->pair_count++];
        status = read_pair(from, pair);
        if (status == ICP_OK) status = note_alignment(from, pair);
    }
    from->kind = "";
    return status;
}

/* ---- Tensors ------------------------------------------------------------------------------------------- */

static icp_status read_shape(reader *from, icp_gguf_tensor *tensor)
{
    icp_status status = read_u32(from, "the number of dimensions", &tensor->dimension_count);
    if (status != ICP_OK) return status;
    if (tensor->dimension_count == 0 || tensor->dimension_count > ICP_GGUF_DIMENSIONS_MAX)
        return refuse(from, "%u dimensions are not 1 to %u", tensor->dimension_count, ICP_GGUF_DIMENSIONS_MAX);
    for (uint32_t i = 0; i < ICP_GGUF_DIMENSIONS_MAX; i++) {
        tensor->shape[i] = 1;
        if (i >= tensor->dimension_count) continue;
        status = read_u64(from, "the shape", &tensor->shape[i]);
        if (status != ICP_OK) return status;
        if (tensor->shape[i] == 0 || tensor->shape[i] > INT64_MAX)
            return refuse(from, "dimension %u is %lld", i, (long long)tensor->shape[i]);
    }
    return ICP_OK;
}

/* The type and, from it and the shape, the bytes. */
static icp_status read_weight_type(reader *from, icp_gguf_tensor *tensor)
{
    uint32_t type = 0;
    icp_status status = read_u32(from, "the type", &type);
    if (status != ICP_OK) return status;
    tensor->type = (icp_weight_type)type;
    uint32_t block_values = icp_weight_block_values(tensor->type);
    if (block_values == 0) return refuse(from, "weight type %u is not supported", type);
    if (tensor->shape[0] % block_values != 0)
        return refuse(from, "rows of %llu values are not whole blocks of %s", (unsigned long long)tensor->shape[0],
                      icp_weight_name(tensor->type));
    int64_t values = 1;
    bool is_over = false;
    for (uint32_t i = 0; i < ICP_GGUF_DIMENSIONS_MAX; i++)
        is_over = is_over || __builtin_mul_overflow(values, tensor->shape[i], &values);
    is_over =
        is_over || __builtin_mul_overflow(values / block_values, icp_weight_block_bytes(tensor->type), &tensor->bytes);
    return is_over ? refuse(from, "the shape is too large") : ICP_OK;
}

static icp_status read_tensor(reader *from, icp_gguf_tensor *tensor, uint64_t *offset)
{
    *tensor = (icp_gguf_tensor){0};
    icp_status status = read_name(from, "tensor ", ICP_GGUF_NAME_BYTES_MAX, &tensor->name);
    if (status != ICP_OK) return status;
    status = read_shape(from, tensor);
    if (status != ICP_OK) return status;
    status = read_weight_type(from, tensor);
    if (status != ICP_OK) return status;
    status = read_u64(from, "the offset", offset);
    if (status != ICP_OK) return status;
    if (*offset % from->alignment != 0)
        return refuse(from, "offset %llu is not aligned to %zu", (unsigned long long)*offset, from->alignment);
    if (*offset < from->data_end)
        return refuse(from, "offset %llu overlaps the tensor before", (unsigned long long)*offset);
    if (__builtin_add_overflow(*offset, tensor->bytes, &from->data_end))
        return refuse(from, "offset %llu is past the end of the file", (unsigned long long)*offset);
    return ICP_OK;
}

/* Turns offsets, which count from the end of the header, into places in the file. */
static icp_status place_tensors(reader *from, const icp_gguf_part *part, icp_gguf_tensor *tensors,
                                const uint64_t *offsets)
{
    size_t start = (from->position + from->alignment - 1) / from->alignment * from->alignment;
    from->field = start;
    for (uint32_t i = 0; i < part->tensor_count; i++) {
        uint64_t data = 0, end = 0;
        from->name = tensors[i].name;
        if (__builtin_add_overflow(start, offsets[i], &data) || __builtin_add_overflow(data, tensors[i].bytes, &end) ||
            end > part->bytes)
            return refuse(from, "its %zu bytes at offset %llu run past the end of the file", tensors[i].bytes,
                          (unsigned long long)offsets[i]);
        tensors[i].data = part->image + data;
    }
    return ICP_OK;
}

static icp_status read_tensors(reader *from, icp_gguf_part *part, icp_gguf_tables *tables)
{
    part->tensor_first = tables->tensor_count;
    if (part->tensor_count == 0) return ICP_OK;
    if (part->tensor_count > (from->bytes - from->position) / TENSOR_BYTES_MIN)
        return refuse(from, "the file is too short for %u tensors", part->tensor_count);
    uint64_t *offsets = malloc(part->tensor_count * sizeof(uint64_t));
    if (offsets == NULL) return ICP_NO_MEMORY;
    void *items = tables->tensors;
    icp_status status = grow(&items, tables->tensor_count, part->tensor_count, sizeof(icp_gguf_tensor));
    tables->tensors = items;
    for (uint32_t i = 0; i < part->tensor_count && status == ICP_OK; i++)
        status = read_tensor(from, &tables->tensors[tables->tensor_count++], &offsets[i]);
    if (status == ICP_OK) status = place_tensors(from, part, tables->tensors + part->tensor_first, offsets);
    free(offsets);
    from->kind = "";
    return status;
}

/* ---- The whole ----------------------------------------------------------------------------------------- */

static icp_status read_start(reader *from, icp_gguf_part *part)
{
    const uint8_t *magic = take(from, 4);
    if (magic == NULL) return ended(from, "the header");
    if (memcmp(magic, "GGUF", 4) != 0) return refuse(from, "this is not a GGUF file");
    icp_status status = read_u32(from, "the header", &part->version);
    if (status != ICP_OK) return status;
    if (part->version != 0 && (part->version & 0xffffu) == 0)
        return refuse(from, "this is a big-endian GGUF file: only little-endian ones are supported");
    if (part->version == 1) return refuse(from, "GGUF version 1 is not supported: convert the model again");
    if (part->version < 2 || part->version > 3)
        return refuse(from, "GGUF version %u is not known: 2 and 3 are", part->version);
    return ICP_OK;
}

static icp_status read_count(reader *from, const char *what, uint32_t room, uint32_t *out)
{
    uint64_t count = 0;
    icp_status status = read_u64(from, "the header", &count);
    if (status != ICP_OK) return status;
    if (count > room) return refuse(from, "%llu %s are too many", (unsigned long long)count, what);
    *out = (uint32_t)count;
    return ICP_OK;
}

icp_status icp_gguf_part_read(icp_gguf_part *part, icp_gguf_tables *tables, const char *label, icp_error *error)
{
    reader from = {.image = part->image, .alignment = ICP_GGUF_ALIGNMENT_DEFAULT, .kind = "", .label = label};
    from.bytes = part->bytes < ICP_GGUF_HEADER_BYTES_MAX ? part->bytes : (size_t)ICP_GGUF_HEADER_BYTES_MAX;
    from.error = error;
    icp_status status = read_start(&from, part);
    if (status != ICP_OK) return status;
    status = read_count(&from, "tensors", ICP_GGUF_TENSOR_COUNT_MAX - tables->tensor_count, &part->tensor_count);
    if (status != ICP_OK) return status;
    status = read_count(&from, "pairs", ICP_GGUF_PAIR_COUNT_MAX - tables->pair_count, &part->pair_count);
    if (status != ICP_OK) return status;
    status = read_pairs(&from, part, tables);
    if (status != ICP_OK) return status;
    return read_tensors(&from, part, tables);
}
