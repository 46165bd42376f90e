/* test_open.c - options, memory and versions: what open takes, what it refuses, and that nothing is allocated after.
 *
 * This program has a malloc and an mmap of its own, which count and can be told to fail: the library is linked in
 * statically, so its calls come here. Sanitizers have a malloc of their own; there a hook counts. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* RTLD_NEXT */
#endif
#include "world.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

/* ---- Counting allocations ------------------------------------------------------------------------------------ */

static volatile unsigned long allocation_count; /* volatile: compilers know what malloc does not touch */
static bool is_map_refused;

#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define HAS_SANITIZER 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define HAS_SANITIZER 1
#endif

#if defined(HAS_SANITIZER)
int __sanitizer_install_malloc_and_free_hooks(void (*on_malloc)(const volatile void *, size_t),
                                              void (*on_free)(const volatile void *));

static void count_malloc(const volatile void *memory, size_t bytes)
{
    (void)memory, (void)bytes;
    allocation_count++;
}

static void count_free(const volatile void *memory)
{
    (void)memory;
}

static void counting_start(void)
{
    assert_true(__sanitizer_install_malloc_and_free_hooks(count_malloc, count_free) > 0);
}
#else
void *malloc(size_t bytes)
{
    static void *(*next)(size_t);
    if (next == NULL) *(void **)&next = dlsym(RTLD_NEXT, "malloc");
    allocation_count++;
    return next(bytes);
}

void *calloc(size_t count, size_t bytes)
{
    static void *(*next)(size_t, size_t);
    if (next == NULL) *(void **)&next = dlsym(RTLD_NEXT, "calloc");
    allocation_count++;
    return next(count, bytes);
}

void *realloc(void *memory, size_t bytes)
{
    static void *(*next)(void *, size_t);
    if (next == NULL) *(void **)&next = dlsym(RTLD_NEXT, "realloc");
    allocation_count++;
    return next(memory, bytes);
}

static void counting_start(void)
{
    unsigned long before = allocation_count;
    void *volatile memory = malloc(1);
    assert_int_equal(allocation_count, before + 1);
    free(memory);
}
#endif

void *mmap(void *address, size_t bytes, int protection, int flags, int file, off_t offset)
{
    allocation_count++;
    if (is_map_refused) {
        errno = ENOMEM;
        return MAP_FAILED;
    }
    long result = syscall(SYS_mmap, address, bytes, protection, flags, file, offset);
    return result == -1 ? MAP_FAILED : (void *)(uintptr_t)result;
}

/* ---- A long run of everything -------------------------------------------------------------------------------- */

static icp_cache_options everything(void)
{
    static const icp_group groups[] = {{.kind = ICP_GROUP_FULL},
                                       {.kind = ICP_GROUP_WINDOW, .window = 10, .block_count = 40},
                                       {.kind = ICP_GROUP_FULL, .block_count = 48}};
    icp_cache_options options = world_options(64, 4);
    options.groups = groups;
    options.group_count = 3;
    options.tail_tokens_min = 1;
    options.lease_count_max = 4;
    options.lease_tokens_max = 41;
    options.scope_count_max = 3;
    options.pin_count_max = 3;
    options.extra_count_max = 9;
    options.name_kind = ICP_NAME_SHA256;
    options.name_seed = "0";
    return options;
}

static void ask(icp_cache *cache, icp_scope scope, icp_lease *lease, uint64_t *seed)
{
    uint32_t tokens[40];
    size_t count = 1 + world_random(seed) % 40;
    for (size_t i = 0; i < count; i++) tokens[i] = world_random(seed) % 16 == 0;
    icp_extra extra = {world_random(seed) % 40, 1 + world_random(seed) % 9, tokens, 4};
    icp_request request = {.text = {tokens, count, &extra, world_random(seed) % 4 == 0}, .scope = scope};
    icp_explanation why;
    icp_pin pin;
    icp_explanation_init(&why);
    assert_int_equal(icp_cache_explain(cache, &request, 1, &why), ICP_OK);
    if (icp_cache_match(cache, &request, lease, NULL) != ICP_OK) return;
    if (icp_lease_extend(cache, *lease, (uint32_t)count) != ICP_OK) return;
    assert_int_equal(icp_lease_publish(cache, *lease, &request.text), ICP_OK);
    if (world_random(seed) % 8 != 0) return;
    icp_status status = icp_cache_pin(cache, &request, 1 + world_random(seed) % 20000, &pin, NULL);
    (void)status;
}

static void run_everything(icp_cache *cache, uint64_t seed, uint64_t step_count)
{
    icp_lease leases[4] = {0};
    icp_scope scopes[2] = {0, 0};
    icp_status status = ICP_OK;
    for (uint64_t i = 1; i <= step_count; i++) {
        icp_lease *lease = &leases[world_random(&seed) % 4];
        char tenant[] = {(char)('a' + world_random(&seed) % 5), 0};
        if (scopes[1] != 0 && world_random(&seed) % 50 == 0) {
            assert_int_equal(icp_scope_close(cache, scopes[1]), ICP_OK);
            scopes[1] = 0;
        }
        if (scopes[1] == 0) status = icp_scope_open(cache, &(icp_scope_key){.tenant = tenant}, &scopes[1]);
        if (world_random(&seed) % 60 == 0) status = icp_scope_quota(cache, scopes[1], 3, 30);
        if (*lease == 0) {
            ask(cache, scopes[world_random(&seed) % 2], lease, &seed);
        } else {
            if (world_random(&seed) % 3 == 0) status = icp_lease_truncate(cache, *lease, world_random(&seed) % 40);
            if (world_random(&seed) % 9 == 0) status = icp_lease_unpublish(cache, *lease, world_random(&seed) % 40);
            assert_int_equal(icp_lease_release(cache, *lease), ICP_OK);
            *lease = 0;
        }
        if (world_random(&seed) % 500 == 0) assert_int_equal(icp_cache_clear(cache), ICP_OK);
        assert_int_equal(icp_cache_tick(cache, i), ICP_OK);
        if (i % 64 == 0) world_check(cache);
    }
    (void)status;
}

static void nothing_is_allocated_after_open(void **state)
{
    (void)state;
    icp_cache_options options = everything();
    counting_start();
    print_message("seed 51\n");
    unsigned long before = allocation_count;
    icp_cache *cache = world_open(&options);
    assert_int_equal(allocation_count, before + 1); /* one map, nothing else */
    before = allocation_count;
    run_everything(cache, 51, 20000);
    assert_int_equal(allocation_count, before);
    assert_true(world_stats(cache).evicted_count > 1000);
    icp_cache_close(cache);
    assert_int_equal(allocation_count, before);
}

/* ---- Options ------------------------------------------------------------------------------------------------- */

static void zero_means_the_default(void **state)
{
    (void)state;
    icp_cache_options zero, spelled;
    icp_cache_options_init(&zero);
    zero.block_count = 200;
    const icp_group full = {.kind = ICP_GROUP_FULL};
    icp_cache_options_init(&spelled);
    spelled.block_count = 200;
    spelled.block_tokens = 16;
    spelled.groups = &full;
    spelled.group_count = 1;
    spelled.policy = ICP_POLICY_SPARE_LRU;
    spelled.duplicates = ICP_DUPLICATES_KEEP;
    spelled.tail_tokens_min = 1;
    spelled.lease_count_max = 256;
    spelled.lease_tokens_max = 131072;
    spelled.scope_count_max = 64;
    spelled.pin_count_max = 64;
    spelled.extra_count_max = 1024;
    spelled.ghost_count = 200;
    spelled.name_kind = ICP_NAME_NONE;
    spelled.hash_bits = 64;
    assert_int_not_equal(icp_cache_size(&zero), 0);
    assert_int_equal(icp_cache_size(&zero), icp_cache_size(&spelled));
    spelled.ghost_count = 4000;
    assert_true(icp_cache_size(&spelled) > icp_cache_size(&zero));
    spelled.ghost_count = ICP_GHOST_OFF;
    assert_true(icp_cache_size(&spelled) < icp_cache_size(&zero));
}

static void the_default_limits_are_those_of_the_header(void **state)
{
    (void)state;
    icp_cache_options options;
    icp_cache_options_init(&options);
    options.block_count = 8193;
    icp_cache *cache = world_open(&options);
    uint32_t token = 1;
    icp_request request = {.text = {&token, 1, NULL, 0}};
    icp_lease lease = 0, first = 0;
    icp_scope scope = 0;
    for (int i = 0; i < 256; i++) {
        assert_int_equal(icp_cache_match(cache, &request, &lease, NULL), ICP_OK);
        if (i == 0) first = lease;
    }
    REFUSED(cache, ICP_TOO_MANY_LEASES, icp_cache_match(cache, &request, &lease, NULL));
    REFUSED(cache, ICP_TOO_LONG, icp_lease_extend(cache, first, 131073));
    DO(cache, icp_lease_extend(cache, first, 131072));
    assert_int_equal(world_stats(cache).block_count_private, 8192); /* of 16 tokens */
    for (int i = 0; i < 64; i++) {
        char tenant[] = {(char)('0' + i), 0};
        assert_int_equal(icp_scope_open(cache, &(icp_scope_key){.tenant = tenant}, &scope), ICP_OK);
    }
    REFUSED(cache, ICP_TOO_MANY_SCOPES, icp_scope_open(cache, &(icp_scope_key){.tenant = "one more"}, &scope));
    icp_cache_close(cache);
}

static void the_default_tail_is_one_token_and_the_default_order_spare_first(void **state)
{
    (void)state;
    icp_cache_options options;
    icp_cache_options_init(&options);
    options.block_count = 8;
    icp_cache *cache = world_open(&options);
    world_cache_text(cache, 0, "aaaaaaaaaaaaaaaa");
    DO(cache, icp_cache_tick(cache, 1));
    assert_int_equal(world_cached(cache, 0, "aX"), 1);
    world_assert_queue(cache, 0, "1 2 3 4 5 6 7 0");
    DO(cache, icp_lease_release(cache, world_hold(cache, 0, 112)));
    assert_int_equal(world_cached(cache, 0, "aaaaaaaaaaaaaaaab"), 16);
    icp_request request;
    world_text text;
    icp_pin pin;
    world_letters(&text, "aaaaaaaaaaaaaaaab");
    request = (icp_request){.text = text.text};
    for (int i = 0; i < 64; i++) DO(cache, icp_cache_pin(cache, &request, 9, &pin, NULL));
    REFUSED(cache, ICP_TOO_MANY_PINS, icp_cache_pin(cache, &request, 9, &pin, NULL));
    icp_cache_close(cache);
}

static void assert_refused(const icp_cache_options *options, icp_status status, const char *word)
{
    icp_cache *cache = (icp_cache *)(uintptr_t)77;
    icp_error error;
    assert_string_equal(icp_status_name(icp_cache_open(&cache, options, &error)), icp_status_name(status));
    assert_ptr_equal(cache, (icp_cache *)(uintptr_t)77);
    if (strstr(error.text, word) == NULL) fail_msg("\"%s\" does not say \"%s\"", error.text, word);
    assert_string_equal(icp_status_name(icp_cache_open(&cache, options, NULL)), icp_status_name(status));
    if (status == ICP_BAD_ARGUMENT && options != NULL && options->memory == NULL) {
        assert_int_equal(icp_cache_size(options), 0);
    }
}

#define REFUSE_FIELD(field, value)                          \
    do {                                                    \
        icp_cache_options refused = world_options(8, 4);    \
        refused.field = value;                              \
        assert_refused(&refused, ICP_BAD_ARGUMENT, #field); \
    } while (0)

static void an_option_out_of_range_is_refused_by_its_name(void **state)
{
    (void)state;
    char long_seed[1024];
    memset(long_seed, 'x', sizeof(long_seed));
    long_seed[sizeof(long_seed) - 1] = 0;
    REFUSE_FIELD(struct_size, 0);
    REFUSE_FIELD(struct_size, sizeof(size_t));
    REFUSE_FIELD(block_count, 0);
    REFUSE_FIELD(block_count, UINT32_MAX);
    REFUSE_FIELD(block_tokens, ICP_BLOCK_TOKENS_MAX + 1);
    REFUSE_FIELD(group_count, 1); /* groups is NULL */
    REFUSE_FIELD(group_count, ICP_GROUP_COUNT_MAX + 1);
    REFUSE_FIELD(policy, ICP_POLICY_COUNT);
    REFUSE_FIELD(duplicates, (icp_duplicates)2);
    REFUSE_FIELD(lease_count_max, UINT32_MAX);
    REFUSE_FIELD(lease_tokens_max, UINT32_MAX);
    REFUSE_FIELD(scope_count_max, UINT32_MAX);
    REFUSE_FIELD(pin_count_max, UINT32_MAX);
    REFUSE_FIELD(extra_count_max, UINT32_MAX);
    REFUSE_FIELD(name_kind, (icp_name_kind)4);
    REFUSE_FIELD(name_seed, long_seed);
    REFUSE_FIELD(hash_bits, 65);
    assert_refused(NULL, ICP_BAD_ARGUMENT, "options");
    assert_int_equal(icp_cache_size(NULL), 0);
    icp_cache_options options = world_options(8, 4);
    icp_error error;
    assert_int_equal(icp_cache_open(NULL, &options, &error), ICP_BAD_ARGUMENT);
    assert_non_null(strstr(error.text, "out"));
}

static void a_group_out_of_range_is_refused_by_its_name(void **state)
{
    (void)state;
    const struct {
        icp_group group;
        const char *word;
    } cases[] = {{{.kind = (icp_group_kind)3}, "groups[1].kind"},
                 {{.kind = ICP_GROUP_WINDOW, .window = 0}, "groups[1].window"},
                 {{.kind = ICP_GROUP_WINDOW, .window = 1}, "groups[1].window"},
                 {{.kind = ICP_GROUP_WINDOW, .window = UINT32_MAX}, "groups[1].window"},
                 {{.kind = ICP_GROUP_FULL, .block_count = UINT32_MAX}, "groups[1].block_count"}};
    icp_cache_options options = world_options(8, 4);
    icp_group groups[2] = {{.kind = ICP_GROUP_FULL}, {.kind = ICP_GROUP_FULL}};
    options.groups = groups;
    options.group_count = 2;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        groups[1] = cases[i].group;
        assert_refused(&options, ICP_BAD_ARGUMENT, cases[i].word);
    }
    groups[1] = (icp_group){.kind = ICP_GROUP_WINDOW, .window = 2};
    groups[0].block_count = 9;
    assert_refused(&options, ICP_BAD_ARGUMENT, "groups[0].block_count");
    groups[0].block_count = 8;
    icp_cache_close(world_open(&options));
    options.group_count = 0;
    assert_refused(&options, ICP_BAD_ARGUMENT, "group_count");
}

/* ---- Memory -------------------------------------------------------------------------------------------------- */

#define GUARD_BYTES 4096u

/* Pages that may be used between two that may not. */
static uint8_t *guarded_map(size_t bytes, size_t *pages_bytes)
{
    *pages_bytes = (bytes + 2 * GUARD_BYTES - 1) / GUARD_BYTES * GUARD_BYTES;
    uint8_t *map = mmap(NULL, *pages_bytes + 2 * GUARD_BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(map, MAP_FAILED);
    assert_int_equal(mprotect(map + GUARD_BYTES, *pages_bytes, PROT_READ | PROT_WRITE), 0);
    memset(map + GUARD_BYTES, 0xA5, *pages_bytes);
    return map + GUARD_BYTES;
}

static void assert_untouched(const uint8_t *bytes, size_t count)
{
    for (size_t i = 0; i < count; i++) assert_int_equal(bytes[i], 0xA5);
}

static void memory_handed_in_is_used_and_nothing_around_it(void **state)
{
    (void)state;
    icp_cache_options options = everything();
    options.memory_bytes = icp_cache_size(&options);
    size_t pages_bytes = 0;
    uint8_t *pages = guarded_map(options.memory_bytes, &pages_bytes);
    size_t slack = (pages_bytes - options.memory_bytes) & ~(size_t)63;
    const size_t offsets[] = {slack, 0, slack / 2 & ~(size_t)63}; /* against the end, against the start, between */
    for (int i = 0; i < 3; i++) {
        memset(pages, 0xA5, pages_bytes);
        options.memory = pages + offsets[i];
        icp_cache *cache = world_open(&options);
        print_message("seed %d\n", 60 + i);
        run_everything(cache, 60 + (uint64_t)i, 5000);
        world_check(cache);
        icp_cache_close(cache);
        size_t end = offsets[i] + options.memory_bytes;
        assert_untouched(pages, offsets[i]);
        assert_untouched(pages + end, pages_bytes - end);
    }
    memset(pages, 0, pages_bytes); /* it is still ours */
    assert_int_equal(munmap(pages - GUARD_BYTES, pages_bytes + 2 * GUARD_BYTES), 0);
}

static void memory_too_small_or_misaligned_is_refused(void **state)
{
    (void)state;
    icp_cache_options options = everything();
    size_t bytes = icp_cache_size(&options);
    size_t pages_bytes = 0;
    uint8_t *pages = guarded_map(bytes + 64, &pages_bytes);
    options.memory = pages;
    options.memory_bytes = bytes - 1;
    assert_refused(&options, ICP_NO_MEMORY, "memory_bytes");
    options.memory_bytes = 0;
    assert_refused(&options, ICP_NO_MEMORY, "memory_bytes");
    options.memory_bytes = bytes + 64;
    for (size_t offset = 1; offset < 64; offset *= 2) {
        options.memory = pages + offset;
        assert_refused(&options, ICP_BAD_ARGUMENT, "memory");
    }
    assert_untouched(pages, pages_bytes);
    assert_int_equal(munmap(pages - GUARD_BYTES, pages_bytes + 2 * GUARD_BYTES), 0);
}

static void without_memory_to_be_had_open_says_so(void **state)
{
    (void)state;
    icp_cache_options options = world_options(8, 4);
    is_map_refused = true;
    assert_refused(&options, ICP_NO_MEMORY, "memory");
    is_map_refused = false;
    icp_cache_close(world_open(&options));

    options.block_tokens = 1; /* more than any machine has addresses for */
    options.lease_count_max = 1u << 24;
    options.lease_tokens_max = INT32_MAX - 1;
    assert_refused(&options, ICP_NO_MEMORY, "memory");
    assert_true(icp_cache_size(&options) > (size_t)1 << 50);
}

static void a_cache_can_be_closed_with_leases_open_and_when_there_is_none(void **state)
{
    (void)state;
    icp_cache_close(NULL);
    icp_cache_options options = world_options(8, 4);
    icp_cache *cache = world_open(&options);
    world_run(cache, 0, "aaaab");
    world_tenant(cache, "alice");
    icp_cache_close(cache);
}

static void two_caches_share_nothing(void **state)
{
    (void)state;
    icp_cache_options options = world_options(8, 4);
    icp_cache *one = world_open(&options);
    icp_cache *two = world_open(&options);
    world_cache_text(one, 0, "aaaabbbb");
    icp_scope alice = world_tenant(one, "alice");
    DO(one, icp_cache_tick(one, 9));
    assert_int_equal(world_cached(two, 0, "aaaabbbbc"), 0);
    assert_int_equal(world_stats(two).match_count, 0);
    REFUSED(two, ICP_STALE, icp_scope_close(two, alice));
    DO(two, icp_cache_tick(two, 1));
    world_cache_text(two, 0, "xxxx");
    icp_cache_close(two);
    assert_int_equal(world_cached(one, 0, "aaaabbbbc"), 8);
    icp_cache_close(one);
}

/* ---- Versions ------------------------------------------------------------------------------------------------ */

static void options_of_an_older_or_a_newer_caller_work(void **state)
{
    (void)state;
    struct {
        icp_cache_options options;
        uint8_t more[64];
    } newer;
    memset(&newer, 0xA5, sizeof(newer));
    newer.options = world_options(8, 4);
    newer.options.struct_size = sizeof(newer);
    icp_cache *cache = world_open(&newer.options);
    world_cache_text(cache, 0, "aaaab");
    icp_cache_close(cache);

    icp_cache_options older;
    memset(&older, 0xA5, sizeof(older)); /* what it does not know is not looked at */
    older.struct_size = offsetof(icp_cache_options, block_tokens);
    older.block_count = 3;
    cache = world_open(&older);
    world_cache_text(cache, 0, "aaaaaaaaaaaaaaaab");
    assert_int_equal(world_cached(cache, 0, "aaaaaaaaaaaaaaaab"), 16);
    icp_cache_close(cache);

    icp_cache_options last = world_options(8, 4);
    last.struct_size = offsetof(icp_cache_options, hash_bits);
    last.hash_bits = 99;
    icp_cache_close(world_open(&last));
}

typedef icp_status fill_fn(const icp_cache *cache, void *result);

static icp_status fill_stats(const icp_cache *cache, void *result)
{
    return icp_cache_statistics(cache, result);
}

static icp_status fill_scope_stats(const icp_cache *cache, void *result)
{
    return icp_scope_statistics(cache, 0, result);
}

static icp_status fill_explanation(const icp_cache *cache, void *result)
{
    uint32_t token = 'a';
    return icp_cache_explain(cache, &(icp_request){.text = {&token, 1, NULL, 0}}, 0, result);
}

/* A caller that knows fewer fields gets these and no more; one that knows more finds the rest as it was. */
static void assert_filled_as_far_as_known(const icp_cache *cache, fill_fn *fill, size_t bytes)
{
    _Alignas(8) uint8_t whole[2048];
    _Alignas(8) uint8_t part[2048];
    assert_true(bytes + 64 < sizeof(whole));
    memset(whole, 0xA5, sizeof(whole));
    memcpy(whole, &bytes, sizeof(bytes));
    assert_int_equal(fill(cache, whole), ICP_OK);
    assert_untouched(whole + bytes, sizeof(whole) - bytes);
    for (size_t known = sizeof(size_t); known <= bytes + 64; known += 8) {
        size_t filled = known < bytes ? known : bytes;
        memset(part, 0xA5, sizeof(part));
        memcpy(part, &known, sizeof(known));
        assert_int_equal(fill(cache, part), ICP_OK);
        assert_memory_equal(part, &known, sizeof(known));
        assert_memory_equal(part + sizeof(size_t), whole + sizeof(size_t), filled - sizeof(size_t));
        assert_untouched(part + filled, sizeof(part) - filled);
    }
    memset(part, 0, sizeof(size_t)); /* _init was forgotten */
    assert_int_equal(fill(cache, part), ICP_BAD_ARGUMENT);
}

static void results_are_filled_as_far_as_the_caller_knows_them(void **state)
{
    (void)state;
    icp_cache_options options = world_options(8, 4);
    icp_cache *cache = world_open(&options);
    world_cache_text(cache, 0, "bbbbc");
    assert_filled_as_far_as_known(cache, fill_stats, sizeof(icp_cache_stats));
    assert_filled_as_far_as_known(cache, fill_scope_stats, sizeof(icp_scope_stats));
    assert_filled_as_far_as_known(cache, fill_explanation, sizeof(icp_explanation));
    icp_cache_close(cache);
}

static void the_version_and_every_status_have_a_text(void **state)
{
    (void)state;
    char version[32];
    snprintf(version, sizeof(version), "%d.%d.%d", ICP_VERSION_MAJOR, ICP_VERSION_MINOR, ICP_VERSION_PATCH);
    assert_string_equal(icp_version(), version);
    assert_string_equal(icp_status_name(ICP_OK), "ICP_OK");
    assert_string_equal(icp_status_name(ICP_FULL), "ICP_FULL");
    assert_string_equal(icp_status_name(ICP_CORRUPT), "ICP_CORRUPT");
    assert_string_equal(icp_status_text(ICP_STALE), "this handle was released or closed before");
    for (int i = -1; i <= ICP_STATUS_COUNT + 1; i++) {
        assert_int_equal(strncmp(icp_status_name((icp_status)i), "ICP_", 4), 0);
        assert_true(strlen(icp_status_text((icp_status)i)) > 1);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_is_allocated_after_open),
        cmocka_unit_test(zero_means_the_default),
        cmocka_unit_test(the_default_limits_are_those_of_the_header),
        cmocka_unit_test(the_default_tail_is_one_token_and_the_default_order_spare_first),
        cmocka_unit_test(an_option_out_of_range_is_refused_by_its_name),
        cmocka_unit_test(a_group_out_of_range_is_refused_by_its_name),
        cmocka_unit_test(memory_handed_in_is_used_and_nothing_around_it),
        cmocka_unit_test(memory_too_small_or_misaligned_is_refused),
        cmocka_unit_test(without_memory_to_be_had_open_says_so),
        cmocka_unit_test(a_cache_can_be_closed_with_leases_open_and_when_there_is_none),
        cmocka_unit_test(two_caches_share_nothing),
        cmocka_unit_test(options_of_an_older_or_a_newer_caller_work),
        cmocka_unit_test(results_are_filled_as_far_as_the_caller_knows_them),
        cmocka_unit_test(the_version_and_every_status_have_a_text),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
