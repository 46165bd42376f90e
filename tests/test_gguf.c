/* test_gguf.c - the format of model files: what is read from good ones, and that each kind of bad one is refused.
 *
 * Images lie against a page that cannot be read: one byte too far ends the program. Files, split models and memory are
 * in test_gguf_file.c. */
#include "gguf_make.h"
#include "model/gguf.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* ---- Images -------------------------------------------------------------------------------------------------- */

/* A copy whose last byte is the last byte that can be read. */
typedef struct guarded {
    uint8_t *map;
    size_t map_bytes;
    uint8_t *image;
} guarded;

static guarded guard(const void *bytes, size_t count)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    size_t room = (count + page - 1) / page * page;
    guarded copy = {.map_bytes = room + page};
    copy.map = mmap(NULL, copy.map_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(copy.map, MAP_FAILED);
    assert_int_equal(mprotect(copy.map + room, page, PROT_NONE), 0);
    copy.image = copy.map + room - count;
    if (count != 0) memcpy(copy.image, bytes, count);
    return copy;
}

static void unguard(guarded *copy)
{
    munmap(copy->map, copy->map_bytes);
}

/* Reads all that can be read; returns something of it. */
static uint64_t walk(const icp_gguf *gguf)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < icp_gguf_pair_count(gguf); i++) {
        const icp_gguf_pair *pair = icp_gguf_pair_at(gguf, i);
        for (size_t b = 0; b < pair->key.bytes; b++) sum += (uint8_t)pair->key.text[b];
        for (size_t b = 0; b < pair->bytes; b++) sum += pair->data[b];
        icp_gguf_string item;
        size_t cursor = 0;
        uint64_t count = 0;
        while (icp_gguf_next_string(pair, &cursor, &item)) count++;
        if (pair->is_array && pair->type == ICP_GGUF_STRING) assert_true(count == pair->count);
        if (pair->type == ICP_GGUF_STRING) continue;
        for (uint64_t n = 0; n < pair->count; n++) sum += icp_gguf_number_at(pair, n) > 0;
    }
    for (uint32_t i = 0; i < icp_gguf_tensor_count(gguf); i++) {
        const icp_gguf_tensor *tensor = icp_gguf_tensor_at(gguf, i);
        const uint8_t *data = tensor->data;
        assert_true(tensor->bytes > 0);
        sum += data[0] + data[tensor->bytes - 1];
    }
    return sum;
}

static void assert_bytes_refused(const void *bytes, size_t count, const char *expected)
{
    guarded copy = guard(bytes, count);
    icp_gguf *gguf = NULL;
    icp_error error = {""};
    icp_status status = icp_gguf_open_memory(&gguf, copy.image, count, &error);
    if (status != ICP_BAD_ARGUMENT || strstr(error.text, expected) == NULL)
        fail_msg("%s, \"%s\" where \"%s\" was to be", icp_status_name(status), error.text, expected);
    assert_null(gguf);
    assert_int_equal(icp_gguf_open_memory(&gguf, copy.image, count, NULL), ICP_BAD_ARGUMENT);
    assert_null(gguf);
    unguard(&copy);
}

/* The image must be refused with these words; it is gone after. */
static void assert_refused(gguf_make *make, const char *expected)
{
    assert_bytes_refused(make->bytes, make->count, expected);
    gguf_make_stop(make);
}

static icp_gguf *open_guarded(const gguf_make *make, guarded *copy)
{
    *copy = guard(make->bytes, make->count);
    icp_gguf *gguf = NULL;
    icp_error error = {""};
    if (icp_gguf_open_memory(&gguf, copy->image, make->count, &error) != ICP_OK) fail_msg("refused: %s", error.text);
    walk(gguf);
    return gguf;
}

static void assert_accepted(gguf_make *make)
{
    guarded copy;
    icp_gguf_close(open_guarded(make, &copy));
    unguard(&copy);
    gguf_make_stop(make);
}

static void assert_text(icp_gguf_string text, const char *expected)
{
    assert_int_equal(text.bytes, strlen(expected));
    assert_memory_equal(text.text, expected, text.bytes);
}

/* ---- Good files ---------------------------------------------------------------------------------------------- */

static void every_type_of_value_is_read(void **state)
{
    (void)state;
    gguf_make make;
    gguf_make_sample(&make);
    guarded copy;
    icp_gguf *gguf = open_guarded(&make, &copy);
    assert_int_equal(icp_gguf_version(gguf), 3);
    assert_int_equal(icp_gguf_bytes(gguf), make.count);
    assert_int_equal(icp_gguf_pair_count(gguf), 17);

    static const struct {
        const char *key;
        bool is_uint, is_float;
        uint64_t uint;
        double number;
    } numbers[] = {{"u8", true, true, 200, 200},          {"i8", false, true, 0, -100},
                   {"u16", true, true, 60000, 60000},     {"i16", false, true, 0, -30000},
                   {"u32", true, true, 4000000000u, 4e9}, {"i32", false, true, 0, -2e9},
                   {"f32", false, true, 0, 1.5},          {"bool", true, false, 1, 0},
                   {"text", false, false, 0, 0},          {"u64", true, true, UINT64_MAX, 18446744073709551616.0},
                   {"i64", false, true, 0, -5},           {"f64", false, true, 0, -2.5},
                   {"texts", false, false, 0, 0},         {"numbers", false, false, 0, 0},
                   {"absent", false, false, 0, 0}};
    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
        uint64_t uint = 0;
        double number = 0;
        assert_int_equal(icp_gguf_uint(gguf, numbers[i].key, &uint), numbers[i].is_uint);
        assert_true(uint == numbers[i].uint);
        assert_int_equal(icp_gguf_float(gguf, numbers[i].key, &number), numbers[i].is_float);
        assert_true(number >= numbers[i].number && number <= numbers[i].number);
    }
    bool is_set = false;
    assert_true(icp_gguf_bool(gguf, "bool", &is_set) && is_set);
    assert_false(icp_gguf_bool(gguf, "u8", &is_set));
    icp_gguf_string text = {NULL, 0};
    assert_true(icp_gguf_text(gguf, "text", &text));
    assert_text(text, "a text");
    assert_true(icp_gguf_text(gguf, "empty", &text));
    assert_text(text, "");
    assert_false(icp_gguf_text(gguf, "texts", &text) || icp_gguf_text(gguf, "u8", &text));
    icp_gguf_close(gguf);
    unguard(&copy);
    gguf_make_stop(&make);
}

static void arrays_are_read_item_by_item(void **state)
{
    (void)state;
    gguf_make make;
    gguf_make_sample(&make);
    guarded copy;
    icp_gguf *gguf = open_guarded(&make, &copy);
    const icp_gguf_pair *texts = icp_gguf_find(gguf, "texts");
    assert_non_null(texts);
    assert_true(texts->is_array && texts->type == ICP_GGUF_STRING && texts->count == 3);
    static const char *const expected[] = {"one", "", "three"};
    size_t cursor = 0;
    icp_gguf_string item;
    for (int i = 0; i < 3; i++) {
        assert_true(icp_gguf_next_string(texts, &cursor, &item));
        assert_text(item, expected[i]);
    }
    assert_false(icp_gguf_next_string(texts, &cursor, &item));
    cursor = SIZE_MAX;
    assert_false(icp_gguf_next_string(texts, &cursor, &item));

    const icp_gguf_pair *numbers = icp_gguf_find(gguf, "numbers");
    assert_true(numbers->is_array && numbers->type == ICP_GGUF_INT16 && numbers->count == 2 && numbers->bytes == 4);
    assert_int_equal((int)icp_gguf_number_at(numbers, 0), 7);
    assert_int_equal((int)icp_gguf_number_at(numbers, 1), -7);
    cursor = 0;
    assert_false(icp_gguf_next_string(numbers, &cursor, &item));
    assert_false(icp_gguf_next_string(icp_gguf_find(gguf, "text"), &cursor, &item));
    assert_int_equal((int)icp_gguf_number_at(icp_gguf_find(gguf, "bools"), 1), 1);
    assert_int_equal(icp_gguf_find(gguf, "none")->count, 0);

    /* The file changes while it is open: the length of the first string grows past the array. */
    size_t at = (size_t)(texts->data - copy.image);
    memset(copy.image + at, 0xff, 8);
    cursor = 0;
    assert_false(icp_gguf_next_string(texts, &cursor, &item));
    icp_gguf_close(gguf);
    unguard(&copy);
    gguf_make_stop(&make);
}

static void tensors_lie_where_the_table_says(void **state)
{
    (void)state;
    gguf_make make;
    gguf_make_sample(&make);
    guarded copy;
    icp_gguf *gguf = open_guarded(&make, &copy);
    assert_int_equal(icp_gguf_tensor_count(gguf), 2);
    const icp_gguf_tensor *first = icp_gguf_find_tensor(gguf, "first");
    const icp_gguf_tensor *second = icp_gguf_find_tensor(gguf, "second");
    assert_ptr_equal(first, icp_gguf_tensor_at(gguf, 0));
    assert_ptr_equal(second, icp_gguf_tensor_at(gguf, 1));
    assert_null(icp_gguf_find_tensor(gguf, "third"));
    assert_null(icp_gguf_find(gguf, "first"));
    assert_int_equal(first->type, ICP_WEIGHT_Q8_0);
    assert_int_equal(first->dimension_count, 2);
    assert_true(first->shape[0] == 32 && first->shape[1] == 3 && first->shape[2] == 1 && first->shape[3] == 1);
    assert_int_equal(first->bytes, 102);
    assert_int_equal(second->bytes, 20);
    assert_int_equal(*(const uint8_t *)first->data, 1);
    assert_int_equal(*(const uint8_t *)second->data, 129);
    assert_ptr_equal((const uint8_t *)second->data + 20, copy.image + make.count);
    icp_gguf_close(gguf);
    unguard(&copy);
    gguf_make_stop(&make);
}

static void versions_two_and_three_and_empty_tables_are_accepted(void **state)
{
    (void)state;
    gguf_make make;
    for (uint32_t version = 2; version <= 3; version++) {
        gguf_make_sample(&make);
        gguf_make_put(&make, GGUF_MAKE_VERSION_AT, version, 4);
        guarded copy;
        icp_gguf *gguf = open_guarded(&make, &copy);
        assert_int_equal(icp_gguf_version(gguf), version);
        icp_gguf_close(gguf);
        unguard(&copy);
        gguf_make_stop(&make);
    }
    gguf_make_start(&make);
    assert_accepted(&make);
    gguf_make_start(&make);
    gguf_make_text(&make, "general.architecture", "none");
    assert_accepted(&make);
    gguf_make_start(&make);
    gguf_make_tensor(&make, &(gguf_make_entry){"t", 0, 1, {1}, 0});
    gguf_make_data(&make, 32, 4);
    assert_accepted(&make);
}

static void the_alignment_of_the_file_is_followed(void **state)
{
    (void)state;
    for (uint32_t alignment = 1; alignment <= 65536; alignment *= 2) {
        gguf_make make;
        gguf_make_start(&make);
        gguf_make_pair(&make, "general.alignment", ICP_GGUF_UINT32, alignment);
        gguf_make_tensor(&make, &(gguf_make_entry){"t", 0, 1, {1}, 0});
        gguf_make_tensor(&make, &(gguf_make_entry){"u", 0, 1, {1}, alignment < 4 ? 4 : alignment});
        gguf_make_data(&make, alignment, (alignment < 4 ? 4 : alignment) + 4);
        guarded copy;
        icp_gguf *gguf = open_guarded(&make, &copy);
        const uint8_t *data = icp_gguf_find_tensor(gguf, "t")->data;
        assert_int_equal((size_t)(data - copy.image) % alignment, 0);
        assert_int_equal(*data, 1);
        icp_gguf_close(gguf);
        unguard(&copy);
        gguf_make_stop(&make);
    }
}

static void every_supported_weight_type_has_its_size(void **state)
{
    (void)state;
    static const struct {
        uint32_t type, values, bytes;
        const char *name;
    } types[] = {{0, 1, 4, "F32"},       {1, 1, 2, "F16"},       {30, 1, 2, "BF16"},    {8, 32, 34, "Q8_0"},
                 {2, 32, 18, "Q4_0"},    {3, 32, 20, "Q4_1"},    {6, 32, 22, "Q5_0"},   {7, 32, 24, "Q5_1"},
                 {12, 256, 144, "Q4_K"}, {13, 256, 176, "Q5_K"}, {14, 256, 210, "Q6_K"}};
    for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
        icp_weight_type type = (icp_weight_type)types[i].type;
        assert_string_equal(icp_weight_name(type), types[i].name);
        assert_int_equal(icp_weight_block_values(type), types[i].values);
        assert_int_equal(icp_weight_block_bytes(type), types[i].bytes);
        gguf_make make;
        gguf_make_start(&make);
        gguf_make_tensor(&make, &(gguf_make_entry){"t", types[i].type, 4, {2 * types[i].values, 3, 1, 2}, 0});
        gguf_make_data(&make, 32, 12 * types[i].bytes);
        make.count--;
        assert_bytes_refused(make.bytes, make.count, "tensor \"t\": its ");
        make.count++;
        guarded copy;
        icp_gguf *gguf = open_guarded(&make, &copy);
        assert_int_equal(icp_gguf_tensor_at(gguf, 0)->bytes, 12 * types[i].bytes);
        icp_gguf_close(gguf);
        unguard(&copy);
        gguf_make_stop(&make);
        if (types[i].values == 1) continue;
        gguf_make_start(&make);
        gguf_make_tensor(&make, &(gguf_make_entry){"t", types[i].type, 2, {types[i].values - 1, types[i].values}, 0});
        gguf_make_data(&make, 32, 65536);
        assert_refused(&make, "not whole blocks");
    }
    assert_null(icp_weight_name((icp_weight_type)4));
    assert_null(icp_weight_name((icp_weight_type)UINT32_MAX));
    assert_int_equal(icp_weight_block_values((icp_weight_type)31), 0);
    assert_int_equal(icp_weight_block_bytes((icp_weight_type)9), 0);
}

/* Names may hold any bytes; what cannot be printed is not in an error. */
static void strings_may_hold_any_bytes(void **state)
{
    (void)state;
    gguf_make make;
    gguf_make_start(&make);
    gguf_make_number(&make, 4, 8);
    gguf_make_bytes(&make, "\0\n\x80k", 4);
    gguf_make_number(&make, ICP_GGUF_STRING, 4);
    gguf_make_number(&make, 3, 8);
    gguf_make_bytes(&make, "\0\xff\"", 3);
    gguf_make_put(&make, GGUF_MAKE_PAIR_COUNT_AT, 1, 8);
    guarded copy;
    icp_gguf *gguf = open_guarded(&make, &copy);
    assert_int_equal(icp_gguf_pair_at(gguf, 0)->key.bytes, 4);
    assert_null(icp_gguf_find(gguf, ""));
    icp_gguf_close(gguf);
    unguard(&copy);
    gguf_make_put(&make, GGUF_MAKE_PAIRS_AT + 12, 13, 4);
    assert_refused(&make, "byte 36: key \"\\x00\\x0a\\x80k\": type of value 13 is not known");
}

static void a_cursor_beyond_the_array_reads_nothing(void **state)
{
    (void)state;
    gguf_make make;
    gguf_make_start(&make);
    gguf_make_array(&make, "texts", ICP_GGUF_STRING, 1);
    gguf_make_string(&make, "the end of the image");
    guarded copy;
    icp_gguf *gguf = open_guarded(&make, &copy);
    const icp_gguf_pair *texts = icp_gguf_find(gguf, "texts");
    assert_ptr_equal(texts->data + texts->bytes, copy.image + make.count);
    icp_gguf_string item;
    for (size_t past = 0; past < 16; past++) {
        size_t cursor = texts->bytes - 7 + past;
        assert_false(icp_gguf_next_string(texts, &cursor, &item));
    }
    icp_gguf_close(gguf);
    unguard(&copy);
    gguf_make_stop(&make);
}

/* The quotation has a bound of its own: whatever the name, the error ends in what is wrong. */
static void long_names_are_cut_short_in_errors(void **state)
{
    (void)state;
    for (size_t bytes = 1; bytes <= 64; bytes++) {
        for (int letter = 0; letter < 2; letter++) {
            char name[65] = "";
            memset(name, letter == 0 ? '\xff' : 'n', bytes);
            gguf_make make;
            gguf_make_start(&make);
            gguf_make_tensor(&make, &(gguf_make_entry){name, 5, 1, {1}, 0});
            assert_refused(&make, "\": weight type 5 is not supported");
        }
    }
}

/* ---- Bad headers --------------------------------------------------------------------------------------------- */

static void a_file_that_is_not_gguf_two_or_three_is_refused(void **state)
{
    (void)state;
    gguf_make make;
    gguf_make_sample(&make);
    make.bytes[0] = 'F';
    assert_refused(&make, "not a GGUF file");
    gguf_make_sample(&make);
    memcpy(make.bytes, "FUGG", 4);
    assert_refused(&make, "not a GGUF file");
    static const struct {
        uint32_t version;
        const char *expected;
    } versions[] = {{0, "version 0"},           {1, "version 1 is not"},
                    {4, "version 4"},           {UINT32_MAX, "version 4294967295"},
                    {0x03000000, "big-endian"}, {0x02000000, "big-endian"}};
    for (size_t i = 0; i < sizeof(versions) / sizeof(versions[0]); i++) {
        gguf_make_sample(&make);
        gguf_make_put(&make, GGUF_MAKE_VERSION_AT, versions[i].version, 4);
        assert_refused(&make, versions[i].expected);
    }
    assert_bytes_refused("", 0, "byte 0: the header runs past");
    icp_gguf *gguf = NULL;
    assert_int_equal(icp_gguf_open_memory(&gguf, NULL, 5, NULL), ICP_BAD_ARGUMENT);
    assert_int_equal(icp_gguf_open_memory(NULL, "GGUF", 4, NULL), ICP_BAD_ARGUMENT);
    assert_int_equal(icp_gguf_open(&gguf, NULL, NULL), ICP_BAD_ARGUMENT);
    assert_int_equal(icp_gguf_open(NULL, "a", NULL), ICP_BAD_ARGUMENT);
    icp_gguf_close(NULL);
}

static void counts_that_the_file_cannot_hold_are_refused(void **state)
{
    (void)state;
    static const struct {
        uint64_t count;
        const char *expected;
    } counts[] = {{UINT64_MAX, "too many"},
                  {UINT64_C(1) << 63, "too many"},
                  {UINT64_C(1) << 32, "too many"},
                  {65537, "too many"},
                  {65536, "too short"},
                  {1000, "too short"}};
    gguf_make make;
    for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
        gguf_make_sample(&make);
        gguf_make_put(&make, GGUF_MAKE_PAIR_COUNT_AT, counts[i].count, 8);
        assert_refused(&make, counts[i].expected);
        gguf_make_sample(&make);
        gguf_make_put(&make, GGUF_MAKE_TENSOR_COUNT_AT, counts[i].count, 8);
        assert_refused(&make, counts[i].expected);
    }
    gguf_make_start(&make);
    gguf_make_text(&make, "k", "a text of more bytes than a pair needs");
    gguf_make_put(&make, GGUF_MAKE_PAIR_COUNT_AT, 2, 8);
    assert_refused(&make, "past the end");
}

/* ---- Bad pairs ----------------------------------------------------------------------------------------------- */

static void bad_lengths_of_keys_and_strings_are_refused(void **state)
{
    (void)state;
    static const uint64_t lengths[] = {UINT64_MAX,        UINT64_MAX - 7,  UINT64_MAX - 24, UINT64_C(1) << 63,
                                       UINT64_C(1) << 32, (64u << 10) + 1, (16u << 20) + 1, 200,
                                       64u << 10,         16u << 20};
    gguf_make make;
    for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
        gguf_make_start(&make);
        gguf_make_text(&make, "key", "text");
        gguf_make_put(&make, GGUF_MAKE_PAIRS_AT, lengths[i], 8);
        assert_refused(&make, lengths[i] > 64u << 10 ? "too long" : "past the end");
        gguf_make_start(&make);
        gguf_make_text(&make, "key", "text");
        gguf_make_put(&make, GGUF_MAKE_PAIRS_AT + 15, lengths[i], 8);
        assert_refused(&make, lengths[i] > 16u << 20 ? "too long" : "past the end");
        gguf_make_start(&make);
        gguf_make_array(&make, "key", ICP_GGUF_STRING, 1);
        gguf_make_number(&make, lengths[i], 8);
        assert_refused(&make, lengths[i] > 16u << 20 ? "too long" : "past the end");
    }
    gguf_make_start(&make);
    gguf_make_text(&make, "key", "text");
    gguf_make_put(&make, GGUF_MAKE_PAIRS_AT + 15, 5, 8); /* one more than there are */
    assert_refused(&make, "key \"key\": the text runs past");
    gguf_make_start(&make);
    gguf_make_text(&make, "", "text");
    assert_refused(&make, "without a name");
}

static void bad_types_and_values_are_refused(void **state)
{
    (void)state;
    static const uint32_t types[] = {13, 14, 255, 0x80000000u, UINT32_MAX};
    gguf_make make;
    for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
        gguf_make_start(&make);
        gguf_make_key(&make, "k", types[i]);
        gguf_make_number(&make, 0, 8);
        assert_refused(&make, "is not known");
        gguf_make_start(&make);
        gguf_make_array(&make, "k", types[i], 1);
        gguf_make_number(&make, 0, 8);
        assert_refused(&make, "is not known");
    }
    gguf_make_start(&make);
    gguf_make_array(&make, "k", ICP_GGUF_ARRAY, 1);
    gguf_make_number(&make, ICP_GGUF_UINT8, 4);
    gguf_make_number(&make, 1, 8);
    gguf_make_number(&make, 1, 1);
    assert_refused(&make, "arrays of arrays");
    gguf_make_start(&make);
    gguf_make_pair(&make, "k", ICP_GGUF_BOOL, 2);
    assert_refused(&make, "a bool is 2");
    gguf_make_start(&make);
    gguf_make_array(&make, "k", ICP_GGUF_BOOL, 3);
    gguf_make_number(&make, 0xff0001, 3);
    assert_refused(&make, "a bool is 255");
}

static void arrays_longer_than_the_file_are_refused(void **state)
{
    (void)state;
    static const uint64_t counts[] = {
        UINT64_MAX, UINT64_C(1) << 61, (UINT64_C(1) << 61) + 1, UINT64_C(1) << 63, 1u << 26, (1u << 26) + 1, 2};
    for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
        for (uint32_t type = 0; type < ICP_GGUF_TYPE_COUNT; type++) {
            if (type == ICP_GGUF_ARRAY) continue;
            gguf_make make;
            gguf_make_start(&make);
            gguf_make_array(&make, "k", type, counts[i]);
            if (type == ICP_GGUF_UINT8 || type == ICP_GGUF_INT8 || type == ICP_GGUF_BOOL)
                gguf_make_number(&make, 0, 1);
            else
                gguf_make_number(&make, 0, type == ICP_GGUF_UINT16 || type == ICP_GGUF_INT16 ? 3 : 7);
            assert_refused(&make, counts[i] > 1u << 26 ? "are too many" : "past the end");
        }
    }
}

static void the_same_key_or_tensor_twice_is_refused(void **state)
{
    (void)state;
    gguf_make make;
    gguf_make_start(&make);
    gguf_make_text(&make, "k", "a");
    gguf_make_text(&make, "l", "a");
    gguf_make_pair(&make, "k", ICP_GGUF_UINT8, 1);
    assert_refused(&make, "\"k\" is there twice");
    gguf_make_start(&make);
    gguf_make_text(&make, "t", "a key is no tensor");
    gguf_make_tensor(&make, &(gguf_make_entry){"t", 0, 1, {8}, 0});
    gguf_make_tensor(&make, &(gguf_make_entry){"t", 0, 1, {8}, 32});
    gguf_make_data(&make, 32, 64);
    assert_refused(&make, "\"t\" is there twice");
}

static void a_bad_alignment_is_refused(void **state)
{
    (void)state;
    static const uint32_t alignments[] = {0, 3, 13, 31, 33, 65535, 131072, 0x80000000u, UINT32_MAX};
    gguf_make make;
    for (size_t i = 0; i < sizeof(alignments) / sizeof(alignments[0]); i++) {
        gguf_make_start(&make);
        gguf_make_pair(&make, "general.alignment", ICP_GGUF_UINT32, alignments[i]);
        assert_refused(&make, "not a power of two");
    }
    gguf_make_start(&make);
    gguf_make_pair(&make, "general.alignment", ICP_GGUF_UINT64, 32);
    assert_refused(&make, "not uint32");
    gguf_make_start(&make);
    gguf_make_array(&make, "general.alignment", ICP_GGUF_UINT32, 0);
    assert_refused(&make, "not uint32");
    gguf_make_start(&make);
    gguf_make_text(&make, "general.alignment", "32");
    assert_refused(&make, "not uint32");
}

/* ---- Bad tensors --------------------------------------------------------------------------------------------- */

/* A file of one tensor and 4096 bytes of data. */
static void assert_tensor_refused(const gguf_make_entry *entry, const char *expected)
{
    gguf_make make;
    gguf_make_start(&make);
    gguf_make_tensor(&make, entry);
    gguf_make_data(&make, 32, 4096);
    assert_refused(&make, expected);
}

static void bad_names_and_shapes_of_tensors_are_refused(void **state)
{
    (void)state;
    static const char name[] = "a.name.of.65.bytes.which.is.one.more.than.a.tensor.may.have.12345";
    assert_int_equal(strlen(name), 65);
    assert_tensor_refused(&(gguf_make_entry){name, 0, 1, {1}, 0}, "a name of 65 bytes is too long");
    assert_tensor_refused(&(gguf_make_entry){"", 0, 1, {1}, 0}, "without a name");
    assert_tensor_refused(&(gguf_make_entry){"t", 0, 0, {0}, 0}, "0 dimensions");
    assert_tensor_refused(&(gguf_make_entry){"t", 0, 5, {1, 1, 1, 1, 1}, 0}, "5 dimensions");
    assert_tensor_refused(&(gguf_make_entry){"t", 0, UINT32_MAX, {1, 1, 1, 1, 1}, 0}, "4294967295 dimensions");
    assert_tensor_refused(&(gguf_make_entry){"t", 0, 1, {0}, 0}, "dimension 0 is 0");
    assert_tensor_refused(&(gguf_make_entry){"t", 0, 3, {1, 1, 0}, 0}, "dimension 2 is 0");
    assert_tensor_refused(&(gguf_make_entry){"t", 0, 2, {1, UINT64_MAX}, 0}, "dimension 1 is -1");
    assert_tensor_refused(&(gguf_make_entry){"t", 0, 1, {UINT64_C(1) << 63}, 0}, "dimension 0 is -");
    gguf_make make;
    gguf_make_start(&make);
    gguf_make_tensor(&make, &(gguf_make_entry){name + 1, 0, 1, {1}, 0});
    gguf_make_data(&make, 32, 4);
    assert_accepted(&make);
}

/* CVE-2025-53630 and CVE-2026-27940: sums and products that wrap around to something small. */
static void sizes_that_overflow_are_refused(void **state)
{
    (void)state;
    static const uint64_t big = UINT64_C(4) * INT32_MAX;
    assert_tensor_refused(&(gguf_make_entry){"t", 0, 2, {big, big}, 0}, "too large");
    assert_tensor_refused(&(gguf_make_entry){"t", 0, 2, {UINT64_C(1) << 32, UINT64_C(1) << 32}, 0}, "too large");
    assert_tensor_refused(&(gguf_make_entry){"t", 0, 3, {UINT64_C(1) << 22, UINT64_C(1) << 22, 1u << 20}, 0},
                          "too large");
    assert_tensor_refused(&(gguf_make_entry){"t", 0, 4, {1u << 16, 1u << 16, 1u << 16, 1u << 16}, 0}, "too large");
    assert_tensor_refused(&(gguf_make_entry){"t", 0, 1, {UINT64_C(1) << 62}, 0}, "too large");
    assert_tensor_refused(&(gguf_make_entry){"t", 0, 1, {(UINT64_C(1) << 62) + 1}, 0}, "too large");
    assert_tensor_refused(&(gguf_make_entry){"t", 8, 1, {INT64_MAX - 31}, 0}, "past the end"); /* 34/32 of it */
    assert_tensor_refused(&(gguf_make_entry){"t", 8, 1, {INT64_MAX / 32 * 32}, 0}, "past the end");
    /* Fits 64 bits, but not the file. */
    assert_tensor_refused(&(gguf_make_entry){"t", 12, 1, {UINT64_C(1) << 62}, 0}, "past the end");
    assert_tensor_refused(&(gguf_make_entry){"t", 0, 1, {UINT64_C(1) << 60}, 0}, "past the end");
    /* Offset and bytes wrap around, with and without the header. */
    assert_tensor_refused(&(gguf_make_entry){"t", 0, 1, {8}, UINT64_MAX - 31}, "past the end");
    assert_tensor_refused(&(gguf_make_entry){"t", 0, 1, {8}, UINT64_MAX - 63}, "past the end");
    assert_tensor_refused(&(gguf_make_entry){"t", 0, 1, {8}, UINT64_MAX - 95}, "past the end");
    assert_tensor_refused(&(gguf_make_entry){"t", 1, 1, {INT64_MAX / 2}, UINT64_C(1) << 63}, "past the end");
    assert_tensor_refused(&(gguf_make_entry){"t", 1, 1, {INT64_MAX}, 32}, "past the end");

    /* Two sizes that are small together, taken modulo 2^64. */
    gguf_make make;
    gguf_make_start(&make);
    gguf_make_tensor(&make, &(gguf_make_entry){"t", 1, 1, {UINT64_C(0x7ffffffffffffff0)}, 0});
    gguf_make_tensor(&make, &(gguf_make_entry){"u", 0, 1, {16}, UINT64_MAX - 31});
    gguf_make_data(&make, 32, 4096);
    assert_refused(&make, "past the end");
}

static void unknown_weight_types_are_refused_by_name_and_number(void **state)
{
    (void)state;
    static const uint32_t types[] = {4, 5, 9, 10, 11, 15, 16, 24, 29, 31, 39, 40, 0x80000000u, UINT32_MAX};
    for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
        char expected[80];
        snprintf(expected, sizeof(expected), "tensor \"blk.0\": weight type %u is not supported", types[i]);
        assert_tensor_refused(&(gguf_make_entry){"blk.0", types[i], 1, {256}, 0}, expected);
    }
}

static void data_outside_the_file_misaligned_or_shared_is_refused(void **state)
{
    (void)state;
    assert_tensor_refused(&(gguf_make_entry){"t", 0, 1, {1}, 1}, "not aligned to 32");
    assert_tensor_refused(&(gguf_make_entry){"t", 0, 1, {1}, UINT64_MAX}, "not aligned to 32");
    assert_tensor_refused(&(gguf_make_entry){"t", 0, 1, {1}, 4096}, "past the end");
    assert_tensor_refused(&(gguf_make_entry){"t", 0, 1, {1025}, 0}, "past the end");
    assert_tensor_refused(&(gguf_make_entry){"t", 0, 1, {1017}, 32}, "past the end");
    static const uint64_t overlaps[][2] = {{0, 0}, {0, 32}, {64, 0}, {64, 32}, {32, 64}};
    gguf_make make;
    for (size_t i = 0; i < sizeof(overlaps) / sizeof(overlaps[0]); i++) {
        gguf_make_start(&make);
        gguf_make_tensor(&make, &(gguf_make_entry){"t", 0, 1, {9}, overlaps[i][0]});
        gguf_make_tensor(&make, &(gguf_make_entry){"u", 0, 1, {9}, overlaps[i][1]});
        gguf_make_data(&make, 32, 4096);
        assert_refused(&make, "tensor \"u\": offset");
    }
    gguf_make_start(&make); /* a gap is nothing bad */
    gguf_make_tensor(&make, &(gguf_make_entry){"t", 0, 1, {9}, 32});
    gguf_make_tensor(&make, &(gguf_make_entry){"u", 0, 1, {9}, 320});
    gguf_make_data(&make, 32, 4096);
    assert_accepted(&make);
    gguf_make_start(&make); /* a header that ends where the data was to begin */
    gguf_make_tensor(&make, &(gguf_make_entry){"t", 0, 1, {1}, 0});
    assert_refused(&make, "past the end");
}

/* ---- All bytes ----------------------------------------------------------------------------------------------- */

static void a_file_that_ends_too_early_is_refused_wherever_it_ends(void **state)
{
    (void)state;
    gguf_make make;
    gguf_make_sample(&make);
    for (size_t count = 0; count < make.count; count++) assert_bytes_refused(make.bytes, count, "byte ");
    gguf_make_stop(&make);
}

/* Any byte may be anything: that is refused or read, and never read beyond the end. */
static void a_file_with_any_one_byte_changed_is_safe(void **state)
{
    (void)state;
    gguf_make make;
    gguf_make_sample(&make);
    guarded copy = guard(make.bytes, make.count);
    unsigned refused = 0, accepted = 0;
    for (size_t at = 0; at < make.count; at++) {
        for (unsigned value = 0; value < 256; value++) {
            copy.image[at] = (uint8_t)value;
            icp_gguf *gguf = NULL;
            icp_status status = icp_gguf_open_memory(&gguf, copy.image, make.count, NULL);
            assert_true(status == ICP_OK || status == ICP_BAD_ARGUMENT);
            if (status == ICP_OK) walk(gguf);
            icp_gguf_close(gguf);
            refused += status != ICP_OK;
            accepted += status == ICP_OK;
        }
        copy.image[at] = make.bytes[at];
    }
    assert_true(refused > 0 && accepted > 0);
    unguard(&copy);
    gguf_make_stop(&make);
}

/* ---- Names --------------------------------------------------------------------------------------------------- */

static void the_largest_number_of_names_is_found(void **state)
{
    (void)state;
    gguf_make make;
    gguf_make_start(&make);
    char name[32];
    for (uint32_t i = 0; i < 65536; i++) {
        snprintf(name, sizeof(name), "key.%u", i);
        gguf_make_pair(&make, name, ICP_GGUF_UINT32, i);
    }
    for (uint32_t i = 0; i < 65536; i++) {
        snprintf(name, sizeof(name), "blk.%u.weight", i);
        gguf_make_tensor(&make, &(gguf_make_entry){name, 0, 1, {1}, 32 * (uint64_t)i});
    }
    gguf_make_data(&make, 32, 65536 * 32);
    guarded copy;
    icp_gguf *gguf = open_guarded(&make, &copy);
    for (uint32_t i = 0; i < 65536; i++) {
        uint64_t number = UINT64_MAX;
        snprintf(name, sizeof(name), "key.%u", i);
        assert_true(icp_gguf_uint(gguf, name, &number) && number == i);
        snprintf(name, sizeof(name), "blk.%u.weight", i);
        assert_ptr_equal(icp_gguf_find_tensor(gguf, name), icp_gguf_tensor_at(gguf, i));
    }
    assert_null(icp_gguf_find(gguf, "key.65536"));
    icp_gguf_close(gguf);
    unguard(&copy);
    gguf_make_stop(&make);
}

/* The hash of gguf.c, to choose names that want the same slot. */
static uint64_t hash_of(const char *text)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    for (; *text != '\0'; text++) hash = (hash ^ (uint8_t)*text) * UINT64_C(0x100000001b3);
    hash ^= hash >> 32;
    hash *= UINT64_C(0xd6e8feb86659fd93);
    return hash ^ hash >> 32;
}

static void names_made_to_collide_are_refused_rather_than_searched(void **state)
{
    (void)state;
    gguf_make make;
    gguf_make_start(&make);
    char name[32];
    uint32_t count = 0;
    for (uint32_t i = 0; count < 65; i++) {
        snprintf(name, sizeof(name), "k%u", i);
        if ((hash_of(name) & 0xfff) != 5) continue;
        gguf_make_pair(&make, name, ICP_GGUF_UINT8, 1);
        count++;
    }
    assert_refused(&make, "collide");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_type_of_value_is_read),
        cmocka_unit_test(arrays_are_read_item_by_item),
        cmocka_unit_test(tensors_lie_where_the_table_says),
        cmocka_unit_test(versions_two_and_three_and_empty_tables_are_accepted),
        cmocka_unit_test(the_alignment_of_the_file_is_followed),
        cmocka_unit_test(every_supported_weight_type_has_its_size),
        cmocka_unit_test(strings_may_hold_any_bytes),
        cmocka_unit_test(a_cursor_beyond_the_array_reads_nothing),
        cmocka_unit_test(long_names_are_cut_short_in_errors),
        cmocka_unit_test(a_file_that_is_not_gguf_two_or_three_is_refused),
        cmocka_unit_test(counts_that_the_file_cannot_hold_are_refused),
        cmocka_unit_test(bad_lengths_of_keys_and_strings_are_refused),
        cmocka_unit_test(bad_types_and_values_are_refused),
        cmocka_unit_test(arrays_longer_than_the_file_are_refused),
        cmocka_unit_test(the_same_key_or_tensor_twice_is_refused),
        cmocka_unit_test(a_bad_alignment_is_refused),
        cmocka_unit_test(bad_names_and_shapes_of_tensors_are_refused),
        cmocka_unit_test(sizes_that_overflow_are_refused),
        cmocka_unit_test(unknown_weight_types_are_refused_by_name_and_number),
        cmocka_unit_test(data_outside_the_file_misaligned_or_shared_is_refused),
        cmocka_unit_test(a_file_that_ends_too_early_is_refused_wherever_it_ends),
        cmocka_unit_test(a_file_with_any_one_byte_changed_is_safe),
        cmocka_unit_test(the_largest_number_of_names_is_found),
        cmocka_unit_test(names_made_to_collide_are_refused_rather_than_searched),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
