/* test_gguf_file.c - model files on disk, split models, real ones, and opening without enough memory.
 *
 * This program has a malloc of its own that counts and can be told to fail, as in test_open.c. Where a sanitizer or
 * valgrind has another, the tests that need it are skipped, and leaks are seen anyway. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* RTLD_NEXT */
#endif
#include "gguf_make.h"
#include "model/gguf.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- Allocations that fail ----------------------------------------------------------------------------------- */

#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define HAS_SANITIZER 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define HAS_SANITIZER 1
#endif

static volatile long allocations_left = -1; /* until one fails; below 0: none does */
static volatile long allocations_live;      /* volatile: compilers know what malloc does not touch */

#if !defined(HAS_SANITIZER)
static int is_refused(void)
{
    return allocations_left >= 0 && allocations_left-- == 0;
}

void *malloc(size_t bytes)
{
    static void *(*next)(size_t);
    if (next == NULL) *(void **)&next = dlsym(RTLD_NEXT, "malloc");
    if (is_refused()) return NULL;
    void *memory = next(bytes);
    allocations_live += memory != NULL;
    return memory;
}

void *calloc(size_t count, size_t bytes)
{
    static void *(*next)(size_t, size_t);
    if (next == NULL) *(void **)&next = dlsym(RTLD_NEXT, "calloc");
    if (is_refused()) return NULL;
    void *memory = next(count, bytes);
    allocations_live += memory != NULL;
    return memory;
}

void *realloc(void *memory, size_t bytes)
{
    static void *(*next)(void *, size_t);
    if (next == NULL) *(void **)&next = dlsym(RTLD_NEXT, "realloc");
    if (is_refused()) return NULL;
    void *moved = next(memory, bytes);
    allocations_live += memory == NULL && moved != NULL;
    return moved;
}

void free(void *memory)
{
    static void (*next)(void *);
    if (next == NULL) *(void **)&next = dlsym(RTLD_NEXT, "free");
    allocations_live -= memory != NULL;
    next(memory);
}
#endif

/* Sanitizers and valgrind put their own in its place. */
static int is_malloc_ours(void)
{
    long before = allocations_live;
    void *volatile memory = malloc(1);
    int is_ours = allocations_live != before;
    free(memory);
    return is_ours;
}

/* Reads the ends of everything; returns something of it. */
static uint64_t walk(const icp_gguf *gguf)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < icp_gguf_pair_count(gguf); i++) {
        const icp_gguf_pair *pair = icp_gguf_pair_at(gguf, i);
        sum += (uint8_t)pair->key.text[0];
        if (pair->bytes != 0) sum += pair->data[0] + pair->data[pair->bytes - 1];
    }
    for (uint32_t i = 0; i < icp_gguf_tensor_count(gguf); i++) {
        const icp_gguf_tensor *tensor = icp_gguf_tensor_at(gguf, i);
        sum += ((const uint8_t *)tensor->data)[0] + ((const uint8_t *)tensor->data)[tensor->bytes - 1];
    }
    return sum;
}

static void assert_text(icp_gguf_string text, const char *expected)
{
    assert_int_equal(text.bytes, strlen(expected));
    assert_memory_equal(text.text, expected, text.bytes);
}

/* ---- Memory -------------------------------------------------------------------------------------------------- */

static void every_allocation_may_fail(void **state)
{
    (void)state;
    if (!is_malloc_ours()) skip();
    gguf_make make;
    gguf_make_sample(&make);
    long before = allocations_live;
    long failed = 0;
    for (;; failed++) {
        icp_gguf *gguf = NULL;
        icp_error error = {""};
        allocations_left = failed;
        icp_status status = icp_gguf_open_memory(&gguf, make.bytes, make.count, &error);
        allocations_left = -1;
        if (status == ICP_OK) {
            icp_gguf_close(gguf);
            break;
        }
        assert_int_equal(status, ICP_NO_MEMORY);
        assert_null(gguf);
        assert_non_null(strstr(error.text, "memory"));
        assert_int_equal(allocations_live, before);
    }
    assert_int_equal(allocations_live, before);
    assert_int_equal(failed, 7); /* itself, parts, pairs, offsets, tensors, two tables of names */
    gguf_make_stop(&make);
}

static void a_refused_file_leaves_no_memory_behind(void **state)
{
    (void)state;
    gguf_make make;
    gguf_make_sample(&make);
    long before = allocations_live;
    for (size_t count = 0; count < make.count; count++) {
        icp_gguf *gguf = NULL;
        assert_int_equal(icp_gguf_open_memory(&gguf, make.bytes, count, NULL), ICP_BAD_ARGUMENT);
    }
    assert_int_equal(allocations_live, before);
    gguf_make_stop(&make);
}

/* ---- Files --------------------------------------------------------------------------------------------------- */

static char folder[64];

static int folder_make(void **state)
{
    (void)state;
    snprintf(folder, sizeof(folder), "/tmp/icp-gguf-XXXXXX");
    return mkdtemp(folder) == NULL;
}

static int folder_remove(void **state)
{
    (void)state;
    char path[128];
    for (int i = 0; i < 8; i++) {
        snprintf(path, sizeof(path), "%s/m-%05d-of-00003.gguf", folder, i);
        unlink(path);
    }
    snprintf(path, sizeof(path), "%s/one.gguf", folder);
    unlink(path);
    return rmdir(folder);
}

static const char *path_of(const char *name)
{
    static char path[128];
    snprintf(path, sizeof(path), "%s/%s", folder, name);
    return path;
}

/* Writes the image to a file of the folder; it is gone after. */
static void save(gguf_make *make, const char *name)
{
    FILE *file = fopen(path_of(name), "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(make->bytes, 1, make->count, file), make->count);
    assert_int_equal(fclose(file), 0);
    gguf_make_stop(make);
}

/* Neither a file nor a map is left open. */
static void assert_nothing_open(void)
{
    char line[512];
    FILE *maps = fopen("/proc/self/maps", "r");
    assert_non_null(maps);
    while (fgets(line, sizeof(line), maps) != NULL) assert_null(strstr(line, folder));
    fclose(maps);
    for (int i = 3; i < 64; i++) {
        char link[32], target[512];
        snprintf(link, sizeof(link), "/proc/self/fd/%d", i);
        ssize_t bytes = readlink(link, target, sizeof(target) - 1);
        if (bytes < 0) continue;
        target[bytes] = '\0';
        assert_null(strstr(target, folder));
    }
}

static void assert_open_fails(const char *name, icp_status expected, const char *text)
{
    icp_gguf *gguf = NULL;
    icp_error error = {""};
    icp_status status = icp_gguf_open(&gguf, path_of(name), &error);
    if (status != expected || strstr(error.text, text) == NULL)
        fail_msg("%s, \"%s\" where \"%s\" was to be", icp_status_name(status), error.text, text);
    assert_null(gguf);
    assert_nothing_open();
}

static void a_file_is_mapped_and_unmapped(void **state)
{
    (void)state;
    gguf_make make;
    gguf_make_sample(&make);
    size_t bytes = make.count;
    save(&make, "one.gguf");
    icp_gguf *gguf = NULL;
    icp_error error = {""};
    assert_int_equal(icp_gguf_open(&gguf, path_of("one.gguf"), &error), ICP_OK);
    walk(gguf);
    assert_int_equal(icp_gguf_bytes(gguf), bytes);
    assert_int_equal((uintptr_t)icp_gguf_tensor_at(gguf, 1)->data % 32, 0);
    icp_gguf_close(gguf);
    assert_nothing_open();
}

static void what_cannot_be_opened_is_said(void **state)
{
    (void)state;
    assert_open_fails("absent.gguf", ICP_NOT_FOUND, "absent.gguf cannot be opened: No such file");
    assert_open_fails(".", ICP_NOT_FOUND, "not a regular file");
    assert_int_equal(mkfifo(path_of("one.gguf"), 0600), 0); /* nobody writes: open must not wait */
    assert_open_fails("one.gguf", ICP_NOT_FOUND, "not a regular file");
    unlink(path_of("one.gguf"));
    gguf_make make;
    gguf_make_start(&make);
    make.count = 0;
    save(&make, "one.gguf");
    assert_open_fails("one.gguf", ICP_BAD_ARGUMENT, "one.gguf: byte 0: the header runs past the end");
    gguf_make_sample(&make);
    make.count--;
    save(&make, "one.gguf");
    assert_open_fails("one.gguf", ICP_BAD_ARGUMENT, "one.gguf: byte ");
}

/* ---- Split models -------------------------------------------------------------------------------------------- */

/* What a part says, for tests to change. Types as llama.cpp writes them. */
typedef struct part_words {
    uint64_t number;
    uint64_t count;
    uint64_t tensor_count;
} part_words;

/* One tensor each, its value the number of the part; the first part has the model's pairs. */
static void save_part(const char *name, const part_words *words, const char *tensor)
{
    gguf_make make;
    gguf_make_start(&make);
    if (words->number == 0) gguf_make_text(&make, "general.architecture", "llama");
    if (words->number != 0) gguf_make_text(&make, "only.later", name);
    gguf_make_pair(&make, "split.no", ICP_GGUF_UINT16, words->number);
    gguf_make_pair(&make, "split.count", ICP_GGUF_UINT16, words->count);
    gguf_make_pair(&make, "split.tensors.count", ICP_GGUF_INT32, words->tensor_count);
    gguf_make_tensor(&make, &(gguf_make_entry){tensor, 0, 1, {1}, 0});
    gguf_make_data(&make, 32, 0);
    gguf_make_number(&make, words->number, 4);
    save(&make, name);
}

static void save_three_parts(void)
{
    save_part("m-00001-of-00003.gguf", &(part_words){0, 3, 3}, "a");
    save_part("m-00002-of-00003.gguf", &(part_words){1, 3, 3}, "b");
    save_part("m-00003-of-00003.gguf", &(part_words){2, 3, 3}, "c");
}

static void a_split_model_is_opened_by_any_of_its_parts(void **state)
{
    (void)state;
    save_three_parts();
    static const char *const names[] = {"m-00001-of-00003.gguf", "m-00002-of-00003.gguf", "m-00003-of-00003.gguf"};
    for (int i = 0; i < 3; i++) {
        icp_gguf *gguf = NULL;
        icp_error error = {""};
        if (icp_gguf_open(&gguf, path_of(names[i]), &error) != ICP_OK) fail_msg("refused: %s", error.text);
        walk(gguf);
        assert_int_equal(icp_gguf_tensor_count(gguf), 3);
        assert_int_equal(icp_gguf_pair_count(gguf), 12);
        for (uint32_t t = 0; t < 3; t++) {
            const icp_gguf_tensor *tensor = icp_gguf_tensor_at(gguf, t);
            assert_text(tensor->name, (const char *[]){"a", "b", "c"}[t]);
            assert_int_equal(*(const uint8_t *)tensor->data, t);
        }
        uint64_t number = 9;
        assert_true(icp_gguf_uint(gguf, "split.no", &number)); /* of the first part */
        assert_int_equal(number, 0);
        icp_gguf_string text;
        assert_true(icp_gguf_text(gguf, "only.later", &text));
        assert_text(text, names[1]);
        icp_gguf_close(gguf);
        assert_nothing_open();
    }
}

static void a_missing_part_is_named(void **state)
{
    (void)state;
    save_three_parts();
    unlink(path_of("m-00003-of-00003.gguf"));
    assert_open_fails("m-00001-of-00003.gguf", ICP_NOT_FOUND, "m-00003-of-00003.gguf cannot be opened: No such file");
    assert_open_fails("m-00002-of-00003.gguf", ICP_NOT_FOUND, "m-00003-of-00003.gguf cannot be opened: No such file");
    unlink(path_of("m-00001-of-00003.gguf"));
    assert_open_fails("m-00002-of-00003.gguf", ICP_NOT_FOUND, "m-00001-of-00003.gguf cannot be opened: No such file");
}

static void parts_that_do_not_belong_together_are_refused(void **state)
{
    (void)state;
    static const char one[] = "m-00001-of-00003.gguf", two[] = "m-00002-of-00003.gguf";
    static const part_words wrong[] = {{0, 3, 3}, {2, 3, 3}, {1, 4, 3}, {1, 2, 3}, {1, 3, 4}, {1, 0, 3}};
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        save_three_parts();
        save_part(two, &wrong[i], "b");
        assert_open_fails(one, ICP_BAD_ARGUMENT, "m-00002-of-00003.gguf: split.no");
    }
    save_three_parts();
    save_part(two, &(part_words){3, 3, 3}, "b");
    assert_open_fails(one, ICP_BAD_ARGUMENT, "not below split.count");
    save_part(two, &(part_words){1, 3, 3}, "a");
    assert_open_fails(one, ICP_BAD_ARGUMENT, "\"a\" is there twice");
    save_part(two, &(part_words){1, 3, (uint32_t)-3}, "a");
    assert_open_fails(one, ICP_BAD_ARGUMENT, "split.tensors.count is missing");
    save_part(one, &(part_words){0, 1025, 3}, "a");
    assert_open_fails(one, ICP_BAD_ARGUMENT, "too many");
    save_part(one, &(part_words){0, 3, 4}, "a");
    save_part(two, &(part_words){1, 3, 4}, "b");
    save_part("m-00003-of-00003.gguf", &(part_words){2, 3, 4}, "c");
    assert_open_fails(one, ICP_BAD_ARGUMENT, "the parts have 3 tensors, split.tensors.count is 4");
    gguf_make make;
    gguf_make_start(&make);
    gguf_make_put(&make, GGUF_MAKE_VERSION_AT, 2, 4);
    gguf_make_pair(&make, "split.no", ICP_GGUF_UINT16, 1);
    gguf_make_pair(&make, "split.count", ICP_GGUF_UINT16, 3);
    gguf_make_pair(&make, "split.tensors.count", ICP_GGUF_INT32, 4);
    save(&make, two);
    assert_open_fails(one, ICP_BAD_ARGUMENT, "or the version do not fit");
    gguf_make_sample(&make);
    make.count -= 1;
    save(&make, two);
    assert_open_fails(one, ICP_BAD_ARGUMENT, "m-00002-of-00003.gguf: byte ");
}

/* Parts may repeat the keys of others, but not their own. */
static void a_key_twice_in_a_later_part_is_refused(void **state)
{
    (void)state;
    save_three_parts();
    gguf_make make;
    gguf_make_start(&make);
    gguf_make_pair(&make, "split.no", ICP_GGUF_UINT16, 1);
    gguf_make_pair(&make, "split.count", ICP_GGUF_UINT16, 3);
    gguf_make_pair(&make, "split.tensors.count", ICP_GGUF_INT32, 3);
    gguf_make_pair(&make, "split.no", ICP_GGUF_UINT16, 1);
    gguf_make_tensor(&make, &(gguf_make_entry){"b", 0, 1, {1}, 0});
    gguf_make_data(&make, 32, 4);
    save(&make, "m-00002-of-00003.gguf");
    assert_open_fails("m-00001-of-00003.gguf", ICP_BAD_ARGUMENT, "\"split.no\" is there twice");
}

/* Each allocation of opening three parts fails once: no map and no memory is left. */
static void a_split_model_may_run_out_of_memory_anywhere(void **state)
{
    (void)state;
    if (!is_malloc_ours()) skip();
    save_three_parts();
    long failed = 0;
    for (;; failed++) {
        long before = allocations_live;
        icp_gguf *gguf = NULL;
        allocations_left = failed;
        icp_status status = icp_gguf_open(&gguf, path_of("m-00002-of-00003.gguf"), NULL);
        allocations_left = -1;
        if (status == ICP_OK) {
            icp_gguf_close(gguf);
            break;
        }
        assert_int_equal(status, ICP_NO_MEMORY);
        assert_int_equal(allocations_live, before);
        assert_nothing_open();
    }
    assert_true(failed > 10);
}

static void a_split_part_with_another_name_or_in_memory_is_refused(void **state)
{
    (void)state;
    static const char words[] = "should end in -00001-of-00003.gguf";
    save_part("one.gguf", &(part_words){0, 3, 3}, "a");
    assert_open_fails("one.gguf", ICP_BAD_ARGUMENT, words);
    save_part("m-00002-of-00003.gguf", &(part_words){0, 3, 3}, "a");
    assert_open_fails("m-00002-of-00003.gguf", ICP_BAD_ARGUMENT, words);
    gguf_make make;
    gguf_make_start(&make);
    gguf_make_pair(&make, "split.count", ICP_GGUF_UINT16, 2);
    icp_gguf *gguf = NULL;
    icp_error error = {""};
    assert_int_equal(icp_gguf_open_memory(&gguf, make.bytes, make.count, &error), ICP_BAD_ARGUMENT);
    assert_non_null(strstr(error.text, "one of 2 parts"));
    gguf_make_stop(&make);

    /* What joining tools leave behind: a count of 0. */
    gguf_make_start(&make);
    gguf_make_pair(&make, "split.count", ICP_GGUF_UINT16, 0);
    gguf_make_pair(&make, "split.no", ICP_GGUF_UINT16, 0);
    save(&make, "one.gguf");
    assert_int_equal(icp_gguf_open(&gguf, path_of("one.gguf"), NULL), ICP_OK);
    icp_gguf_close(gguf);
}

/* ---- Real models --------------------------------------------------------------------------------------------- */

static icp_gguf *open_real(const char *path)
{
    icp_gguf *gguf = NULL;
    icp_error error = {""};
    if (access(path, R_OK) != 0) skip();
    if (icp_gguf_open(&gguf, path, &error) != ICP_OK) fail_msg("refused: %s", error.text);
    walk(gguf);
    return gguf;
}

/* The string at an index of an array, by walking there. */
static icp_gguf_string string_at(const icp_gguf_pair *array, uint64_t index)
{
    icp_gguf_string item = {NULL, 0};
    size_t cursor = 0;
    for (uint64_t i = 0; i <= index; i++) assert_true(icp_gguf_next_string(array, &cursor, &item));
    return item;
}

static void real_vocabularies_are_read(void **state)
{
    (void)state;
    static const struct {
        const char *path, *model, *first, *last;
        uint32_t pair_count;
        uint64_t token_count, bos;
    } files[] = {
        {"../shared/models/ggml-vocab-gpt-2.gguf", "gpt2", "!", "<|endoftext|>", 16, 50257, 50256},
        {"../shared/models/ggml-vocab-llama-spm.gguf", "llama", "<unk>", "\xe7\xbb\x99", 22, 32000, 1},
        {"../shared/models/ggml-vocab-deepseek-llm.gguf", "gpt2", "!", "[PAD102399]", 23, 102400, 100000},
    };
    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
        icp_gguf *gguf = open_real(files[i].path);
        assert_int_equal(icp_gguf_pair_count(gguf), files[i].pair_count);
        assert_int_equal(icp_gguf_tensor_count(gguf), 0);
        icp_gguf_string model;
        assert_true(icp_gguf_text(gguf, "tokenizer.ggml.model", &model));
        assert_text(model, files[i].model);
        const icp_gguf_pair *tokens = icp_gguf_find(gguf, "tokenizer.ggml.tokens");
        assert_int_equal(tokens->count, files[i].token_count);
        assert_text(string_at(tokens, 0), files[i].first);
        assert_text(string_at(tokens, tokens->count - 1), files[i].last);
        uint64_t bos = 0;
        assert_true(icp_gguf_uint(gguf, "tokenizer.ggml.bos_token_id", &bos));
        assert_int_equal(bos, files[i].bos);
        icp_gguf_close(gguf);
    }
}

static void a_real_model_is_read(void **state)
{
    (void)state;
    icp_gguf *gguf = open_real("../shared/models/stories260K.gguf");
    assert_int_equal(icp_gguf_version(gguf), 3);
    assert_int_equal(icp_gguf_bytes(gguf), 1185472);
    assert_int_equal(icp_gguf_pair_count(gguf), 22);
    assert_int_equal(icp_gguf_tensor_count(gguf), 48);
    uint64_t embedding = 0;
    double epsilon = 0;
    assert_true(icp_gguf_uint(gguf, "llama.embedding_length", &embedding));
    assert_int_equal(embedding, 64);
    assert_true(icp_gguf_float(gguf, "llama.attention.layer_norm_rms_epsilon", &epsilon));
    assert_true(epsilon > 0.9999e-5 && epsilon < 1.0001e-5);
    assert_int_equal((int)icp_gguf_number_at(icp_gguf_find(gguf, "tokenizer.ggml.scores"), 511), -252);

    const icp_gguf_tensor *first = icp_gguf_find_tensor(gguf, "token_embd.weight");
    const icp_gguf_tensor *last = icp_gguf_find_tensor(gguf, "blk.4.ffn_up.weight");
    assert_ptr_equal(first, icp_gguf_tensor_at(gguf, 0));
    assert_ptr_equal(last, icp_gguf_tensor_at(gguf, 47));
    assert_true(first->shape[0] == 64 && first->shape[1] == 512 && first->bytes == 131072);
    assert_true(last->shape[0] == 64 && last->shape[1] == 172 && last->bytes == 44032);
    float value = 0;
    memcpy(&value, first->data, sizeof(value));
    assert_true(value > -0.294749f && value < -0.294748f);
    memcpy(&value, (const uint8_t *)last->data + last->bytes - 4, sizeof(value));
    assert_true(value > 0.106031f && value < 0.106033f);
    icp_gguf_close(gguf);
}

int main(void)
{
#define IN_FOLDER(test) cmocka_unit_test_setup_teardown(test, folder_make, folder_remove)
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_allocation_may_fail),
        cmocka_unit_test(a_refused_file_leaves_no_memory_behind),
        IN_FOLDER(a_file_is_mapped_and_unmapped),
        IN_FOLDER(what_cannot_be_opened_is_said),
        IN_FOLDER(a_split_model_is_opened_by_any_of_its_parts),
        IN_FOLDER(a_missing_part_is_named),
        IN_FOLDER(parts_that_do_not_belong_together_are_refused),
        IN_FOLDER(a_key_twice_in_a_later_part_is_refused),
        IN_FOLDER(a_split_model_may_run_out_of_memory_anywhere),
        IN_FOLDER(a_split_part_with_another_name_or_in_memory_is_refused),
        cmocka_unit_test(real_vocabularies_are_read),
        cmocka_unit_test(a_real_model_is_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
