/* gguf_make.c - writes GGUF images for tests. */
#include "gguf_make.h"

#include <stdlib.h>
#include <string.h>

/* Of the types as numbered in the format; strings and arrays have none. */
static const uint8_t type_bytes[13] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};

void gguf_make_start(gguf_make *make)
{
    *make = (gguf_make){0};
    gguf_make_bytes(make, "GGUF", 4);
    gguf_make_number(make, 3, 4);
    gguf_make_number(make, 0, 8);
    gguf_make_number(make, 0, 8);
}

void gguf_make_stop(gguf_make *make)
{
    free(make->bytes);
    *make = (gguf_make){0};
}

void gguf_make_bytes(gguf_make *make, const void *data, size_t count)
{
    if (make->count + count > make->room) {
        make->room = 2 * (make->count + count);
        make->bytes = realloc(make->bytes, make->room);
        if (make->bytes == NULL) abort();
    }
    if (count != 0) memcpy(make->bytes + make->count, data, count);
    make->count += count;
}

void gguf_make_number(gguf_make *make, uint64_t number, uint32_t bytes)
{
    for (uint32_t i = 0; i < bytes; i++) gguf_make_bytes(make, &(uint8_t){(uint8_t)(number >> 8 * i)}, 1);
}

void gguf_make_put(gguf_make *make, size_t position, uint64_t number, uint32_t bytes)
{
    if (position + bytes > make->count) abort();
    for (uint32_t i = 0; i < bytes; i++) make->bytes[position + i] = (uint8_t)(number >> 8 * i);
}

/* One more of what the header counts there. */
static void count_one(gguf_make *make, size_t position)
{
    uint64_t count = 0;
    for (uint32_t i = 8; i-- > 0;) count = count << 8 | make->bytes[position + i];
    gguf_make_put(make, position, count + 1, 8);
}

void gguf_make_string(gguf_make *make, const char *text)
{
    gguf_make_number(make, strlen(text), 8);
    gguf_make_bytes(make, text, strlen(text));
}

void gguf_make_key(gguf_make *make, const char *key, uint32_t type)
{
    count_one(make, GGUF_MAKE_PAIR_COUNT_AT);
    gguf_make_string(make, key);
    gguf_make_number(make, type, 4);
}

void gguf_make_array(gguf_make *make, const char *key, uint32_t item_type, uint64_t count)
{
    gguf_make_key(make, key, 9);
    gguf_make_number(make, item_type, 4);
    gguf_make_number(make, count, 8);
}

void gguf_make_pair(gguf_make *make, const char *key, uint32_t type, uint64_t number)
{
    gguf_make_key(make, key, type);
    gguf_make_number(make, number, type < 13 ? type_bytes[type] : 1);
}

void gguf_make_text(gguf_make *make, const char *key, const char *text)
{
    gguf_make_key(make, key, 8);
    gguf_make_string(make, text);
}

void gguf_make_tensor(gguf_make *make, const gguf_make_entry *entry)
{
    count_one(make, GGUF_MAKE_TENSOR_COUNT_AT);
    gguf_make_string(make, entry->name);
    gguf_make_number(make, entry->dimension_count, 4);
    for (uint32_t i = 0; i < entry->dimension_count && i < 5; i++) gguf_make_number(make, entry->shape[i], 8);
    gguf_make_number(make, entry->type, 4);
    gguf_make_number(make, entry->offset, 8);
}

void gguf_make_data(gguf_make *make, size_t alignment, size_t bytes)
{
    while (make->count % alignment != 0) gguf_make_number(make, 0, 1);
    for (size_t i = 1; i <= bytes; i++) gguf_make_number(make, i, 1);
}

void gguf_make_sample(gguf_make *make)
{
    gguf_make_start(make);
    gguf_make_pair(make, "u8", 0, 200);
    gguf_make_pair(make, "i8", 1, (uint8_t)-100);
    gguf_make_pair(make, "u16", 2, 60000);
    gguf_make_pair(make, "i16", 3, (uint16_t)-30000);
    gguf_make_pair(make, "u32", 4, 4000000000u);
    gguf_make_pair(make, "i32", 5, (uint32_t)-2000000000);
    gguf_make_pair(make, "f32", 6, 0x3fc00000u); /* 1.5 */
    gguf_make_pair(make, "bool", 7, 1);
    gguf_make_text(make, "text", "a text");
    gguf_make_pair(make, "u64", 10, UINT64_MAX);
    gguf_make_pair(make, "i64", 11, (uint64_t)-5);
    gguf_make_pair(make, "f64", 12, UINT64_C(0xc004000000000000)); /* -2.5 */
    gguf_make_text(make, "empty", "");
    gguf_make_array(make, "texts", 8, 3);
    gguf_make_string(make, "one");
    gguf_make_string(make, "");
    gguf_make_string(make, "three");
    gguf_make_array(make, "numbers", 3, 2);
    gguf_make_number(make, 7, 2);
    gguf_make_number(make, (uint16_t)-7, 2);
    gguf_make_array(make, "bools", 7, 2);
    gguf_make_number(make, 0x0100, 2);
    gguf_make_array(make, "none", 12, 0);
    gguf_make_tensor(make, &(gguf_make_entry){"first", 8, 2, {32, 3}, 0}); /* 3 blocks of Q8_0: 102 bytes */
    gguf_make_tensor(make, &(gguf_make_entry){"second", 0, 1, {5}, 128});  /* 5 floats */
    gguf_make_data(make, 32, 128 + 20);
}
