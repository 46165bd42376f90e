/* test_name.c - names of blocks, and the two hashes under them.
 *
 * The digests of vLLM were made by running it (main of 2026-08-22). Where vLLM has no such thing (a model or tenant in
 * the root) or no vector was taken, Python's own pickle and hashlib gave the digest, and a CBOR encoder written apart.
 * SHA-256 is held against the published digests, XXH3-128 against the reference library where its header is there. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cpu.h"
#include "cache/name.h"
#include "cache/sha256.h"
#include "cache/xxh3.h"

#if defined(__has_include)
#if __has_include(<xxhash.h>)
#define XXH_INLINE_ALL
#include <xxhash.h>
#define HAS_XXHASH 1
#endif
#endif

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* ---- The world of a test --------------------------------------------------------------------------------------- */

/* SplitMix64, seeded by the environment's SEED. */
typedef struct dice {
    uint64_t state;
} dice;

static dice dice_open(void)
{
    const char *text = getenv("SEED");
    dice d = {text == NULL ? 20260822u : strtoull(text, NULL, 0)};
    print_message("seed %" PRIu64 "\n", d.state);
    return d;
}

static uint64_t dice_throw(dice *d)
{
    uint64_t x = d->state += 0x9e3779b97f4a7c15u;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

static void dice_fill(dice *d, uint8_t *bytes, size_t count)
{
    for (size_t i = 0; i < count; i++) bytes[i] = (uint8_t)dice_throw(d);
}

static void assert_hex(const uint8_t *bytes, size_t count, const char *hex)
{
    char text[2 * 32 + 1] = "";
    assert_true(count <= 32);
    for (size_t i = 0; i < count; i++) snprintf(text + 2 * i, 3, "%02x", bytes[i]);
    assert_string_equal(text, hex);
}

static void assert_name(const icp_name *name, const char *hex)
{
    assert_hex(name->bytes, name->length, hex);
}

static bool is_same(const icp_name *a, const icp_name *b)
{
    return a->length == b->length && memcmp(a->bytes, b->bytes, sizeof(a->bytes)) == 0;
}

#define NAMES_MAX 64u

typedef struct chain {
    icp_name names[NAMES_MAX];
    size_t count;
} chain;

static chain chain_of(const icp_name_root *root, const icp_text *text)
{
    chain c = {.count = 0};
    assert_int_equal(icp_name_chain(root, text, c.names, NAMES_MAX, &c.count), ICP_OK);
    return c;
}

static const icp_name_kind kinds[] = {ICP_NAME_SHA256_CBOR, ICP_NAME_XXH3_CBOR, ICP_NAME_SHA256};

/* ---- SHA-256 --------------------------------------------------------------------------------------------------- */

typedef struct digest_case {
    size_t bytes;
    const char *hex;
} digest_case;

static void check_published_digests(icp_sha256_kind kind)
{
    static const digest_case of_a[] = {
        {0, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
        {55, "9f4390f8d30c2dd92ec9f095b65e2b9ae9b0a925a5258e241c9f1e910f734318"},
        {56, "b35439a4ac6f0948b6d6f9e3c6af0f5f590ce20f1bde7090ef7970686ec6738a"},
        {63, "7d3e74a05d7db15bce4ad9ec0658ea98e3f06eeecf16b4c6fff2da457ddc2f34"},
        {64, "ffe054fe7ae0cb6dc65c3af9b61d5209f439851db43d0ba5997337df154668eb"},
        {65, "635361c48bb9eab14198e76ea8ab7f1a41685d6ad62aa9146d301d4f17eb0ae0"},
        {119, "31eba51c313a5c08226adf18d4a359cfdfd8d2e816b13f4af952f7ea6584dcfb"},
        {120, "2f3d335432c70b580af0e8e1b3674a7c020d683aa5f73aaaedfdc55af904c21c"},
        {1000000, "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0"},
    };
    static const char *const message = "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq";
    uint8_t digest[ICP_SHA256_BYTES];
    uint8_t *a = malloc(1000000);
    assert_non_null(a);
    memset(a, 'a', 1000000);
    for (size_t i = 0; i < COUNT(of_a); i++) {
        icp_sha256_digest_with(kind, a, of_a[i].bytes, digest);
        assert_hex(digest, sizeof(digest), of_a[i].hex);
    }
    free(a);

    icp_sha256_digest_with(kind, "abc", 3, digest);
    assert_hex(digest, sizeof(digest), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    icp_sha256_digest_with(kind, message, strlen(message), digest);
    assert_hex(digest, sizeof(digest), "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
}

static void sha256_in_plain_c_gives_the_published_digests(void **state)
{
    (void)state;
    check_published_digests(ICP_SHA256_PLAIN);
}

static void sha256_by_the_processor_gives_the_published_digests(void **state)
{
    (void)state;
    if (!icp_cpu_has_sha256()) skip();
    check_published_digests(ICP_SHA256_HARDWARE);
}

static void sha256_chooses_the_processor_where_it_can(void **state)
{
    (void)state;
    assert_int_equal(icp_sha256_best(), icp_cpu_has_sha256() ? ICP_SHA256_HARDWARE : ICP_SHA256_PLAIN);
}

static void sha256_plain_and_by_the_processor_agree_on_random_bytes(void **state)
{
    (void)state;
    if (!icp_cpu_has_sha256()) skip();
    dice d = dice_open();
    uint8_t bytes[700], plain[ICP_SHA256_BYTES], fast[ICP_SHA256_BYTES];
    for (size_t count = 0; count < sizeof(bytes); count++) {
        dice_fill(&d, bytes, count);
        icp_sha256_digest_with(ICP_SHA256_PLAIN, bytes, count, plain);
        icp_sha256_digest_with(ICP_SHA256_HARDWARE, bytes, count, fast);
        assert_memory_equal(plain, fast, sizeof(plain));
    }
}

static void sha256_in_pieces_equals_sha256_in_one_call(void **state)
{
    (void)state;
    dice d = dice_open();
    uint8_t bytes[1000], whole[ICP_SHA256_BYTES], pieces[ICP_SHA256_BYTES];
    dice_fill(&d, bytes, sizeof(bytes));
    for (size_t round = 0; round < 500; round++) {
        size_t count = dice_throw(&d) % (sizeof(bytes) + 1), step_max = 1 + dice_throw(&d) % 200;
        icp_sha256 sha;
        icp_sha256_begin(&sha, icp_sha256_best());
        for (size_t at = 0, step; at < count; at += step) {
            step = dice_throw(&d) % (step_max + 1);
            if (step > count - at) step = count - at;
            icp_sha256_update(&sha, bytes + at, step);
        }
        icp_sha256_end(&sha, pieces);
        icp_sha256_digest(bytes, count, whole);
        assert_memory_equal(pieces, whole, sizeof(whole));
    }
}

/* ---- XXH3-128 -------------------------------------------------------------------------------------------------- */

static void xxh3_gives_the_digests_of_the_reference_library(void **state)
{
    (void)state;
    static const digest_case cases[] = {
        {0, "99aa06d3014798d86001c324468d497f"},    {1, "e1325e21416bcdb2929e358d27ae3ee2"},
        {2, "07498d832b19a59df4861cd45aad8b47"},    {3, "05853a388c3c4c77d95f511cd1108231"},
        {4, "38097a6a41e3b86a9b924e1bbb2af774"},    {8, "33254291ca3e9585d46009c4a0dce0e2"},
        {9, "7c4c41e892cde6054fd451047034af3e"},    {16, "20842b4b9c392a29e43a6e8b5dffccff"},
        {17, "016fbe9ed409ac5ca1b5b5ba6967164d"},   {32, "8b78666750c88e21aca3689123384fa2"},
        {33, "4309b2bb4bc03361e7b8f1e5740ac34a"},   {128, "eb8f5e994acfe3a41b642bb65e1d9bfd"},
        {129, "8f4a2af11b689f90aecc0d5acd33105e"},  {160, "8a5ab08e43a645b5af32b22b8ee1c997"},
        {240, "9257c837cab31d320a97182156e31a1c"},  {241, "e8254789888aae01ae02df2598c4ffac"},
        {256, "0df8354db030080260cc644797e04413"},  {1024, "5ca883a062aaac155a487b950ce18bda"},
        {1025, "300c9bba1c116a311e0fb31a274c3954"}, {1088, "d1dca90f638e209be1dfa7e61af4af81"},
        {2048, "b54dd3b7be1ab1e94af2f0321078031d"}, {4096, "bdfc1bd059e43fdf4c2f722cdff570b3"},
    };
    uint8_t bytes[4096], digest[ICP_XXH3_BYTES];
    for (size_t i = 0; i < sizeof(bytes); i++) bytes[i] = (uint8_t)(i * 167 + (i >> 8) * 13 + 5);
    for (size_t i = 0; i < COUNT(cases); i++) {
        icp_xxh3_digest(bytes, cases[i].bytes, digest);
        assert_hex(digest, sizeof(digest), cases[i].hex);
    }
}

static void xxh3_agrees_with_the_reference_library_at_every_length(void **state)
{
    (void)state;
#if defined(HAS_XXHASH)
    dice d = dice_open();
    uint8_t bytes[2048], digest[ICP_XXH3_BYTES];
    dice_fill(&d, bytes, sizeof(bytes));
    for (size_t count = 0; count <= sizeof(bytes); count++) {
        XXH128_canonical_t wanted;
        XXH128_canonicalFromHash(&wanted, XXH3_128bits(bytes, count));
        icp_xxh3_digest(bytes, count, digest);
        assert_memory_equal(digest, wanted.digest, sizeof(digest));
    }
#else
    skip();
#endif
}

static void xxh3_in_pieces_equals_xxh3_in_one_call(void **state)
{
    (void)state;
    dice d = dice_open();
    uint8_t bytes[5000], whole[ICP_XXH3_BYTES], pieces[ICP_XXH3_BYTES];
    dice_fill(&d, bytes, sizeof(bytes));
    for (size_t round = 0; round < 500; round++) {
        size_t count = dice_throw(&d) % (sizeof(bytes) + 1), step_max = 1 + dice_throw(&d) % 1500;
        if (round % 4 == 0) count = 1024 * (count % 4) + count % 3;
        icp_xxh3 xxh;
        icp_xxh3_begin(&xxh);
        for (size_t at = 0, step; at < count; at += step) {
            step = dice_throw(&d) % (step_max + 1);
            if (step > count - at) step = count - at;
            icp_xxh3_update(&xxh, bytes + at, step);
        }
        icp_xxh3_end(&xxh, pieces);
        icp_xxh3_digest(bytes, count, whole);
        assert_memory_equal(pieces, whole, sizeof(whole));
    }
}

/* ---- vLLM's vectors -------------------------------------------------------------------------------------------- */

static const char none_cbor[] = "9bd96a485ad84efdafb72ee48a1d7a69bcead0f8f0433173941b276b9581eef0";

static void the_empty_text_is_called_as_in_vllm(void **state)
{
    (void)state;
    static const struct {
        icp_name_kind kind;
        const char *seed, *hex;
    } cases[] = {
        {ICP_NAME_SHA256_CBOR, NULL, none_cbor},
        {ICP_NAME_SHA256_CBOR, "vllm-none-hash", none_cbor},
        {ICP_NAME_SHA256_CBOR, "0", "4e1195df020de59e0d65a33a4279f1183e7ae4e5d980e309f8b55adff2e61c3e"},
        {ICP_NAME_SHA256, NULL, "066b1e8987e027138e98701c46128929378935f9b6cd1549105ae6b4f0d71198"},
        {ICP_NAME_SHA256, "0", "1973e23848344dc43a988a9b478663803cfffe1243480253f9a3cf004b14aa7c"},
        {ICP_NAME_XXH3_CBOR, "0", "1ebe36576dcb573f26b99533a20aaeca"},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        const icp_name_root root = {.kind = cases[i].kind, .seed = cases[i].seed, .block_tokens = 4};
        icp_name name;
        icp_name_begin(&root, &name);
        assert_name(&name, cases[i].hex);
    }
}

static void a_plain_block_is_called_as_in_vllm(void **state)
{
    (void)state;
    static const struct {
        icp_name_kind kind;
        const char *seed, *hex;
    } cases[] = {
        {ICP_NAME_SHA256_CBOR, NULL, "58d0879dff3800f65f8c5fd449d73048c0f7699dd238a03b84b146b151d55111"},
        {ICP_NAME_SHA256, NULL, "52a7f141c60918f65779927090482b5a24adbe68c8613a211a1eb4e3edd9361a"},
        {ICP_NAME_XXH3_CBOR, "0", "0a8577df5ee3430515a8cc1f6e3ac52e"},
    };
    const uint32_t tokens[] = {1, 2, 3, 4};
    const icp_text text = {.tokens = tokens, .token_count = COUNT(tokens)};
    for (size_t i = 0; i < COUNT(cases); i++) {
        const icp_name_root root = {.kind = cases[i].kind, .seed = cases[i].seed, .block_tokens = 4};
        chain c = chain_of(&root, &text);
        assert_int_equal(c.count, 1);
        assert_name(&c.names[0], cases[i].hex);
    }
}

/* The third block holds a number that is no 32-bit token, so its bytes are put together here. */
static void a_chain_with_tokens_of_every_width_is_vllms(void **state)
{
    (void)state;
    const uint32_t tokens[] = {1, 2, 3, 4, 5, 23, 24, 255, 13};
    const uint64_t wide[] = {256, 65535, 65536, 4294967296};
    const icp_name_root root = {.kind = ICP_NAME_SHA256_CBOR, .block_tokens = 4};
    chain c = chain_of(&root, &(icp_text){.tokens = tokens, .token_count = COUNT(tokens)});
    assert_int_equal(c.count, 2);
    assert_name(&c.names[0], "58d0879dff3800f65f8c5fd449d73048c0f7699dd238a03b84b146b151d55111");
    assert_name(&c.names[1], "0635b25247c8c424c6ee8b74622a4083363a16563bd5ca08a9b64ac233647960");

    uint8_t bytes[128], digest[ICP_SHA256_BYTES];
    size_t used = icp_name_cbor_head(bytes, 4, 3);
    used += icp_name_cbor_head(bytes + used, 2, ICP_SHA256_BYTES);
    memcpy(bytes + used, c.names[1].bytes, ICP_SHA256_BYTES);
    used += ICP_SHA256_BYTES;
    used += icp_name_cbor_head(bytes + used, 4, COUNT(wide));
    for (size_t i = 0; i < COUNT(wide); i++) used += icp_name_cbor_head(bytes + used, 0, wide[i]);
    bytes[used++] = 0xf6;
    icp_sha256_digest(bytes, used, digest);
    assert_hex(digest, sizeof(digest), "5fc7f60e365fb3c5f53767896aafe92370b70662bad58735ca81b07dd7d9af18");
}

static void the_salt_is_in_the_first_block_only(void **state)
{
    (void)state;
    const uint32_t tokens[] = {1, 2, 3, 4, 5, 6, 7, 8};
    const icp_name_root root = {.kind = ICP_NAME_SHA256_CBOR, .scope = {.salt = "s3cr\xc3\xa9t"}, .block_tokens = 4};
    chain c = chain_of(&root, &(icp_text){.tokens = tokens, .token_count = COUNT(tokens)});
    assert_int_equal(c.count, 2);
    assert_name(&c.names[0], "90b3464ce99402758eb8cf217336c5ba10cefd2ed31740e250949c7aa7517fc8");
    assert_name(&c.names[1], "078871255521a628019ce6b4e31e71ce78bc147256e8da2ed2c27f3a1d0e0cf6");
}

static void the_adapter_is_in_every_block(void **state)
{
    (void)state;
    const uint32_t tokens[] = {1, 2, 3, 4, 5, 6, 7, 8};
    const icp_name_root root = {
        .kind = ICP_NAME_SHA256_CBOR, .scope = {.adapter = "ad1", .salt = "S"}, .block_tokens = 4};
    chain c = chain_of(&root, &(icp_text){.tokens = tokens, .token_count = COUNT(tokens)});
    assert_int_equal(c.count, 2);
    assert_name(&c.names[0], "2cc720abac3d8bbd789395e0adf7e7257103f9275265c0eff594ed817e0bae2e");
    assert_name(&c.names[1], "08baed6b88ce57512a52046fee701aa78f458e1837c56ef1144a0ffd19aa0ca6");
}

static void extra_keys_are_in_every_block_under_them(void **state)
{
    (void)state;
    const uint32_t tokens[] = {1, 2, 9, 9, 9, 9, 9, 3, 3, 8, 8, 4};
    const icp_extra extras[] = {{.position = 2, .length = 5, .id = "imgA", .id_bytes = 4},
                                {.position = 9, .length = 2, .id = "imgB", .id_bytes = 4}};
    const icp_text text = {tokens, COUNT(tokens), extras, COUNT(extras)};
    const icp_name_root root = {
        .kind = ICP_NAME_SHA256_CBOR, .scope = {.adapter = "ad1", .salt = "S"}, .block_tokens = 4};
    chain c = chain_of(&root, &text);
    assert_int_equal(c.count, 3);
    assert_name(&c.names[0], "f64e020b2efc837e9ae9c5c0007c861fa8dbb09c69333152be330886f7418a27");
    assert_name(&c.names[1], "1569d127ee34c881d85528257edbd62d3d6bdc929932ae2b639ec7eec7881341");
    assert_name(&c.names[2], "a4285c37c1d7dd670f9986d04dbc0dd7500de58c1e9f4179ab404268f0561621");
}

/* vLLM's fourth algorithm, xxhash, is no kind of ours; its vectors test the hash on bytes that are not CBOR. */
static void xxh3_of_pickles_is_vllms(void **state)
{
    (void)state;
    const uint8_t seed[] = {0x80, 5, 0x95, 5, 0, 0, 0, 0, 0, 0, 0, 0x8c, 1, '0', 0x94, '.'};
    const uint8_t head[] = {0x80, 5, 0x95, 34, 0, 0, 0, 0, 0, 0, 0, 'C', 16};
    const uint8_t tail[] = {0x94, '(', 'K', 1, 'K', 2, 'K', 3, 'K', 4, 't', 0x94, 'N', 0x87, 0x94, '.'};
    uint8_t bytes[64], digest[ICP_XXH3_BYTES];
    icp_xxh3_digest(seed, sizeof(seed), digest);
    assert_hex(digest, sizeof(digest), "6fb31cc38bba6066183f7f2104b9c051");

    memcpy(bytes, head, sizeof(head));
    memcpy(bytes + sizeof(head), digest, sizeof(digest));
    memcpy(bytes + sizeof(head) + sizeof(digest), tail, sizeof(tail));
    icp_xxh3_digest(bytes, sizeof(head) + sizeof(digest) + sizeof(tail), digest);
    assert_hex(digest, sizeof(digest), "f3856cedd7e636094750c4546e855397");
}

/* ---- Serialisation beyond these vectors ------------------------------------------------------------------------ */

static void integers_are_written_as_short_as_they_can_be(void **state)
{
    (void)state;
    static const struct {
        uint64_t value;
        const char *hex;
    } cbor[] = {
        {0, "00"},
        {23, "17"},
        {24, "1818"},
        {255, "18ff"},
        {256, "190100"},
        {65535, "19ffff"},
        {65536, "1a00010000"},
        {UINT32_MAX, "1affffffff"},
        {4294967296, "1b0000000100000000"},
        {UINT64_MAX, "1bffffffffffffffff"},
    };
    static const struct {
        int64_t value;
        const char *hex;
    } pickle[] = {
        {0, "4b00"},
        {255, "4bff"},
        {256, "4d0001"},
        {65535, "4dffff"},
        {65536, "4a00000100"},
        {INT32_MAX, "4affffff7f"},
        {INT64_C(2147483648), "8a050000008000"},
        {UINT32_MAX, "8a05ffffffff00"},
        {INT64_C(0x7fffffffff), "8a05ffffffff7f"},
        {INT64_C(0x8000000000), "8a06000000008000"},
        {INT64_MAX, "8a08ffffffffffffff7f"},
        {-1, "4affffffff"},
        {INT32_MIN, "4a00000080"},
        {(int64_t)INT32_MIN - 1, "8a05ffffff7fff"},
    };
    uint8_t bytes[ICP_NAME_PICKLE_INT_BYTES_MAX];
    for (size_t i = 0; i < COUNT(cbor); i++) {
        assert_hex(bytes, icp_name_cbor_head(bytes, 0, cbor[i].value), cbor[i].hex);
    }
    for (size_t i = 0; i < COUNT(pickle); i++) {
        assert_hex(bytes, icp_name_pickle_int(bytes, pickle[i].value), pickle[i].hex);
    }
}

static void model_and_tenant_are_in_the_root(void **state)
{
    (void)state;
    static const struct {
        icp_name_kind kind;
        const char *both, *block, *model_only;
    } cases[] = {
        {ICP_NAME_SHA256_CBOR, "10282bc010283dd5c83b4e18ae68000515166cea7ed077aca6452cd460b1f188",
         "3e08efccb189a53a1e097c0946c667fa93cdad3458ae6019e198b1cb8c343a32",
         "ddb2ef21ddaa1cc6ca58bcb96ece9a28dcde6bfaeef659c1ecab17c869b78dfb"},
        {ICP_NAME_XXH3_CBOR, "883f5a23c3d02dec0ef590172afe8db9", "52c32f33cfa9696d38b92f3421ed883f",
         "f2eedccbd547834f285ffc9823bd4166"},
        {ICP_NAME_SHA256, "66cadedc4dea0eef2d018442d9d00c45c98441fb4c9e07a6b74ac17f30cba826",
         "31e195ff81332ab5bbdb99801b0ebb50662d5133ff0835ffddc622dbd3d6de8b",
         "88e91c23b8dcf9272a0f3aa40a751966e147f363fb6fe5c9c4c440a156d05091"},
    };
    const uint32_t tokens[] = {1, 2, 3, 4};
    for (size_t i = 0; i < COUNT(cases); i++) {
        icp_name_root root = {
            .kind = cases[i].kind, .seed = "se", .scope = {.model = "mod", .tenant = "ten"}, .block_tokens = 4};
        icp_name name;
        icp_name_begin(&root, &name);
        assert_name(&name, cases[i].both);
        icp_name_next(&root, &name, 0, tokens, NULL, 0, &name);
        assert_name(&name, cases[i].block);

        root.seed = NULL;
        root.scope.tenant = "";
        icp_name_begin(&root, &name);
        assert_name(&name, cases[i].model_only);
    }
}

/* Pickle has an opcode each for tuples of one, two and three, and a sign in every number of 32 bits. */
static void small_tuples_and_large_tokens_are_written_as_python_does(void **state)
{
    (void)state;
    static const struct {
        icp_name_kind kind;
        const char *hex[3];
    } cases[] = {
        {ICP_NAME_SHA256_CBOR,
         {"769c0b6dd89cfb0620ea236942508a81852efabd31a215e86cabe98a6a7071b0",
          "65edfe9644e34a1bbe73e53abbccfd786b38bfca779084206df0a39df5dc4e4c",
          "433690d7c0fb871d985b6e4a1f581ac730d39035609a6714e54da016d820b9e3"}},
        {ICP_NAME_XXH3_CBOR,
         {"071295b62b63d59591f429bab3c33e21", "a60975189dfd1fb16b0e65a1e8c9dfd4", "7d90d7e35c5b6c211bf7faea0cd9e3c9"}},
        {ICP_NAME_SHA256,
         {"81022da7783031d8b28e9b6197a6e638bf8fbd2ac1d17a8b3b442d63726d1027",
          "d5a09cff5a35338b32f23c931cbfaccc8e32d3d466d4490a033968926c420c57",
          "f7f4d7ae5038848c7a70e9f8d464e4cf102ee98140446509998d934d3722196c"}},
    };
    const uint32_t tokens[] = {2147483648, 2147483648, 2147483648};
    const icp_name_extra extra = {.id = "imgA", .id_bytes = 4, .offset = -70000};
    for (size_t i = 0; i < COUNT(cases); i++) {
        for (uint32_t n = 1; n <= 3; n++) {
            icp_name_root root = {.kind = cases[i].kind, .scope = {.adapter = "ad1"}, .block_tokens = n};
            if (n == 3) root.scope.salt = "salt";
            icp_name name;
            icp_name_begin(&root, &name);
            icp_name_next(&root, &name, 0, tokens, &extra, n > 1, &name);
            assert_name(&name, cases[i].hex[n - 1]);
        }
    }
}

enum { BIG = ICP_BLOCK_TOKENS_MAX };

typedef struct big_text {
    uint32_t tokens[BIG];
    icp_extra extras[BIG]; /* over one token each */
    char ids[BIG][ICP_EXTRA_ID_BYTES_MAX];
} big_text;

static void big_text_make(big_text *t)
{
    for (uint32_t i = 0; i < BIG; i++) {
        char digits[16];
        snprintf(digits, sizeof(digits), "%04" PRIu32, i);
        memset(t->ids[i], 'x', sizeof(t->ids[i]));
        memcpy(t->ids[i], digits, 4);
        t->tokens[i] = 70000;
        t->extras[i] = (icp_extra){.position = i, .length = 1, .id = t->ids[i], .id_bytes = sizeof(t->ids[i])};
    }
}

/* 140 KB to hash: written piece by piece, and in three frames of a pickle. */
static void the_biggest_block_is_called_as_in_vllm(void **state)
{
    (void)state;
    static const char *const hex[] = {"a186c1d9559e783e8477cb9ffc481aa3f9734cc9880ac9f7329a36684a6df3f1",
                                      "7cefe4a609c649148d476a9a35f90f1c",
                                      "4599b86897932846898355a50a6ff950d64833ba26d874f5c084588fa726dc1d"};
    static big_text t;
    big_text_make(&t);
    for (size_t k = 0; k < COUNT(kinds); k++) {
        const icp_name_root root = {.kind = kinds[k], .block_tokens = BIG};
        chain c = chain_of(&root, &(icp_text){t.tokens, BIG, t.extras, BIG});
        assert_int_equal(c.count, 1);
        assert_name(&c.names[0], hex[k]);
    }
}

/* A frame ends where an object begins, so closing what is open never starts another. */
static void a_pickle_that_ends_just_past_a_frame_is_written_as_python_does(void **state)
{
    (void)state;
    static const struct {
        size_t cut; /* bytes off the first id, so that the payload ends about 64 KiB */
        const char *hex;
    } cases[] = {
        {0, "d304163554a6f3a56d38cdda5bd0aa2ccf3517da7af574b591dff2c3fa79e697"},
        {18, "11f23b0d2a982711e3f96acf59d2e51de72da441aec9c5c0b43b8bdc718eb291"},
        {19, "1abfa819659f2efbdee892d9c05b3c5384000640ccaea173b4b2ac0fd207051c"},
        {27, "3194c5c9b1a71fcadc3e5927bedaf558e7db8ab8a3096103ba18f27665edb1a7"},
        {28, "ac7a82c6f2e195cc40fec45662f78c57827e971a5c50a8e449ea93a8a7426410"},
    };
    static big_text t;
    big_text_make(&t);
    const icp_name_root root = {.kind = ICP_NAME_SHA256, .block_tokens = BIG};
    for (size_t i = 0; i < COUNT(cases); i++) {
        t.extras[0].id_bytes = ICP_EXTRA_ID_BYTES_MAX - cases[i].cut;
        chain c = chain_of(&root, &(icp_text){t.tokens, BIG, t.extras, 446});
        assert_int_equal(c.count, 1);
        assert_name(&c.names[0], cases[i].hex);
    }
}

/* ---- What decides a name --------------------------------------------------------------------------------------- */

enum { BLOCK_TOKENS = 4, TOKEN_COUNT = 16, EXTRA_COUNT = 2 };

typedef struct world {
    icp_name_root root;
    uint32_t tokens[TOKEN_COUNT];
    icp_extra extras[EXTRA_COUNT];
} world;

static world world_of(icp_name_kind kind)
{
    world w = {.root = {.kind = kind,
                        .seed = "seed",
                        .scope = {.model = "model", .adapter = "adapter", .tenant = "tenant", .salt = "salt"},
                        .block_tokens = BLOCK_TOKENS},
               .extras = {{.position = 5, .length = 2, .id = "first", .id_bytes = 5},
                          {.position = 9, .length = 5, .id = "second", .id_bytes = 6}}};
    for (uint32_t i = 0; i < TOKEN_COUNT; i++) w.tokens[i] = 1000 + i;
    return w;
}

static chain world_chain(const world *w)
{
    return chain_of(&w->root, &(icp_text){w->tokens, TOKEN_COUNT, w->extras, EXTRA_COUNT});
}

/* The names before block index first are the same in both, all others differ. */
static void assert_parted_at(const world *a, const world *b, size_t first)
{
    chain x = world_chain(a), y = world_chain(b);
    assert_int_equal(x.count, TOKEN_COUNT / BLOCK_TOKENS);
    assert_int_equal(y.count, x.count);
    for (size_t i = 0; i < x.count; i++) assert_int_equal(is_same(&x.names[i], &y.names[i]), i < first);
}

static void every_text_of_the_root_changes_all_names(void **state)
{
    (void)state;
    for (size_t k = 0; k < COUNT(kinds); k++) {
        const world base = world_of(kinds[k]);
        static const char *const others[] = {"other", "", NULL};
        for (size_t i = 0; i < COUNT(others); i++) {
            world w = base;
            w.root.seed = others[i];
            assert_parted_at(&base, &w, 0);
            w = base;
            w.root.scope.model = others[i];
            assert_parted_at(&base, &w, 0);
            w = base;
            w.root.scope.adapter = others[i];
            assert_parted_at(&base, &w, 0);
            w = base;
            w.root.scope.tenant = others[i];
            assert_parted_at(&base, &w, 0);
            w = base;
            w.root.scope.salt = others[i];
            assert_parted_at(&base, &w, 0);
        }
    }
}

static void text_moved_from_one_field_to_another_changes_all_names(void **state)
{
    (void)state;
    for (size_t k = 0; k < COUNT(kinds); k++) {
        world a = world_of(kinds[k]), b = a;
        a.root.scope.model = "ab", a.root.scope.tenant = "c";
        b.root.scope.model = "a", b.root.scope.tenant = "bc";
        assert_parted_at(&a, &b, 0);
        a.root.scope.model = "a", a.root.scope.tenant = "";
        b.root.scope.model = "", b.root.scope.tenant = "a";
        assert_parted_at(&a, &b, 0);
    }
}

static void an_empty_text_is_the_same_as_none(void **state)
{
    (void)state;
    for (size_t k = 0; k < COUNT(kinds); k++) {
        world a = world_of(kinds[k]), b = a;
        a.root.scope = (icp_scope_key){NULL, NULL, NULL, NULL};
        b.root.scope = (icp_scope_key){"", "", "", ""};
        assert_parted_at(&a, &b, TOKEN_COUNT / BLOCK_TOKENS);
    }
}

static void every_token_changes_the_names_from_its_block_on(void **state)
{
    (void)state;
    for (size_t k = 0; k < COUNT(kinds); k++) {
        const world base = world_of(kinds[k]);
        for (size_t i = 0; i < TOKEN_COUNT; i++) {
            world w = base;
            w.tokens[i]++;
            assert_parted_at(&base, &w, i / BLOCK_TOKENS);
            w = base;
            w.tokens[i] ^= 0x80000000u;
            assert_parted_at(&base, &w, i / BLOCK_TOKENS);
        }
    }
}

static void every_extra_key_changes_the_names_from_its_first_block_on(void **state)
{
    (void)state;
    for (size_t k = 0; k < COUNT(kinds); k++) {
        const world base = world_of(kinds[k]);
        world w = base;
        w.extras[0].id = "firsT";
        assert_parted_at(&base, &w, 1);
        w = base;
        w.extras[0].id_bytes = 4;
        assert_parted_at(&base, &w, 1);
        w = base;
        w.extras[0].position = 6;
        assert_parted_at(&base, &w, 1);
        w = base;
        w.extras[1].id = "Second";
        assert_parted_at(&base, &w, 2);
        w = base;
        w.extras[1].position = 10;
        assert_parted_at(&base, &w, 2);
        w = base;
        w.extras[1].length = 3; /* no longer reaches into block 3 */
        assert_parted_at(&base, &w, 3);
        w = base;
        w.extras[1].length = 500; /* reaches no block more */
        assert_parted_at(&base, &w, 4);
    }
}

static void the_kinds_of_name_differ_and_have_their_lengths(void **state)
{
    (void)state;
    static const uint32_t lengths[] = {32, 16, 32};
    chain chains[COUNT(kinds)];
    for (size_t k = 0; k < COUNT(kinds); k++) {
        const world w = world_of(kinds[k]);
        chains[k] = world_chain(&w);
        for (size_t i = 0; i < chains[k].count; i++) assert_int_equal(chains[k].names[i].length, lengths[k]);
        for (size_t j = 0; j < k; j++) assert_false(is_same(&chains[j].names[0], &chains[k].names[0]));
    }
}

/* ---- The chain of a text --------------------------------------------------------------------------------------- */

enum { LONG_TOKENS = 300, LONG_EXTRAS = 40 };

typedef struct long_text {
    uint32_t tokens[LONG_TOKENS];
    icp_extra extras[LONG_EXTRAS];
    uint8_t ids[LONG_EXTRAS][ICP_EXTRA_ID_BYTES_MAX];
    size_t extra_count;
} long_text;

static void long_text_make(long_text *t, dice *d)
{
    uint32_t at = 0;
    for (size_t i = 0; i < LONG_TOKENS; i++) t->tokens[i] = (uint32_t)dice_throw(d) >> dice_throw(d) % 32;
    for (t->extra_count = 0; t->extra_count < LONG_EXTRAS && at < LONG_TOKENS; t->extra_count++) {
        icp_extra *extra = &t->extras[t->extra_count];
        uint8_t *id = t->ids[t->extra_count];
        dice_fill(d, id, ICP_EXTRA_ID_BYTES_MAX);
        extra->position = at + (uint32_t)(dice_throw(d) % 12);
        extra->length = 1 + (uint32_t)(dice_throw(d) % 20);
        extra->id = id;
        extra->id_bytes = 1 + dice_throw(d) % ICP_EXTRA_ID_BYTES_MAX;
        at = extra->position + extra->length;
    }
}

static void the_names_of_a_longer_text_start_with_those_of_the_shorter_one(void **state)
{
    (void)state;
    dice d = dice_open();
    long_text t;
    for (unsigned round = 0; round < 60; round++) {
        long_text_make(&t, &d);
        const icp_name_root root = {.kind = kinds[round % COUNT(kinds)],
                                    .scope = {.adapter = round % 2 == 0 ? "lora" : NULL},
                                    .block_tokens = 5 + (uint32_t)(dice_throw(&d) % 20)};
        chain whole = chain_of(&root, &(icp_text){t.tokens, LONG_TOKENS, t.extras, t.extra_count});
        assert_int_equal(whole.count, LONG_TOKENS / root.block_tokens);
        size_t count = dice_throw(&d) % LONG_TOKENS;
        chain part = chain_of(&root, &(icp_text){t.tokens, count, t.extras, t.extra_count});
        assert_int_equal(part.count, count / root.block_tokens);
        for (size_t i = 0; i < part.count; i++) assert_true(is_same(&part.names[i], &whole.names[i]));
    }
}

/* Against a walk that looks at every extra key for every block. */
static void a_chain_made_block_by_block_is_the_same(void **state)
{
    (void)state;
    dice d = dice_open();
    long_text t;
    for (unsigned round = 0; round < 60; round++) {
        long_text_make(&t, &d);
        const uint32_t step = 5 + (uint32_t)(dice_throw(&d) % 20);
        const icp_name_root root = {.kind = kinds[round % COUNT(kinds)], .scope = {.salt = "s"}, .block_tokens = step};
        chain c = chain_of(&root, &(icp_text){t.tokens, LONG_TOKENS, t.extras, t.extra_count});
        icp_name name;
        icp_name_begin(&root, &name);
        for (uint32_t i = 0; i < c.count; i++) {
            icp_name_extra over[LONG_EXTRAS];
            size_t count = 0;
            for (size_t e = 0; e < t.extra_count; e++) {
                const icp_extra *x = &t.extras[e];
                if (x->position >= (i + 1) * step || x->position + x->length <= i * step) continue;
                over[count++] = (icp_name_extra){x->id, (uint32_t)x->id_bytes, (int32_t)(x->position - i * step)};
            }
            icp_name_next(&root, &name, i * step, t.tokens + i * step, over, count, &name);
            assert_true(is_same(&name, &c.names[i]));
        }
    }
}

static void a_chain_stops_at_the_capacity_and_at_the_last_full_block(void **state)
{
    (void)state;
    const world w = world_of(ICP_NAME_SHA256_CBOR);
    const chain whole = world_chain(&w);
    icp_text text = {w.tokens, TOKEN_COUNT, w.extras, EXTRA_COUNT};
    icp_name names[3];
    size_t count = 77;
    memset(names, 0xee, sizeof(names));
    assert_int_equal(icp_name_chain(&w.root, &text, names, 2, &count), ICP_OK);
    assert_int_equal(count, 2);
    assert_true(is_same(&names[1], &whole.names[1]));
    assert_int_equal(names[2].bytes[0], 0xee);

    assert_int_equal(icp_name_chain(&w.root, &text, NULL, 0, &count), ICP_OK);
    assert_int_equal(count, 0);

    text.token_count = BLOCK_TOKENS - 1;
    assert_int_equal(icp_name_chain(&w.root, &text, names, 3, &count), ICP_OK);
    assert_int_equal(count, 0);
    assert_int_equal(icp_name_chain(&w.root, &(icp_text){NULL, 0, NULL, 0}, names, 3, &count), ICP_OK);
    assert_int_equal(count, 0);
}

static void assert_refused(const icp_name_root *root, const icp_text *text)
{
    icp_name name = {.length = 99};
    size_t count = 77;
    assert_int_equal(icp_name_chain(root, text, &name, 1, &count), ICP_BAD_ARGUMENT);
    assert_int_equal(name.length, 99);
    assert_int_equal(count, 77);
}

static void a_root_that_is_out_of_range_is_refused(void **state)
{
    (void)state;
    const world base = world_of(ICP_NAME_SHA256_CBOR);
    const icp_text text = {base.tokens, TOKEN_COUNT, base.extras, EXTRA_COUNT};
    char longest[ICP_SCOPE_TEXT_BYTES_MAX + 1], longer[ICP_SCOPE_TEXT_BYTES_MAX + 2];
    memset(longest, 'x', sizeof(longest));
    memset(longer, 'x', sizeof(longer));
    longest[sizeof(longest) - 1] = longer[sizeof(longer) - 1] = '\0';

    world w = base;
    w.root.kind = ICP_NAME_NONE;
    assert_refused(&w.root, &text);
    w.root.kind = (icp_name_kind)(ICP_NAME_SHA256 + 1);
    assert_refused(&w.root, &text);
    w = base;
    w.root.block_tokens = 0;
    assert_refused(&w.root, &text);
    w.root.block_tokens = ICP_BLOCK_TOKENS_MAX + 1;
    assert_refused(&w.root, &text);
    w = base;
    w.root.scope = (icp_scope_key){longest, longest, longest, longest};
    world_chain(&w);
    const char **texts[] = {&w.root.seed, &w.root.scope.model, &w.root.scope.adapter, &w.root.scope.tenant,
                            &w.root.scope.salt};
    for (size_t i = 0; i < COUNT(texts); i++) {
        w = base;
        *texts[i] = longer;
        assert_refused(&w.root, &text);
    }
}

static void a_text_that_is_out_of_range_is_refused(void **state)
{
    (void)state;
    const world w = world_of(ICP_NAME_SHA256_CBOR);
    assert_refused(&w.root, &(icp_text){NULL, TOKEN_COUNT, NULL, 0});
    assert_refused(&w.root, &(icp_text){w.tokens, TOKEN_COUNT, NULL, 1});
    assert_refused(&w.root, &(icp_text){w.tokens, (size_t)INT32_MAX + 1, NULL, 0});

    const icp_extra good = {.position = 5, .length = 2, .id = "id", .id_bytes = 2};
    icp_extra bad[][2] = {
        {good, good},                                                             /* overlapping */
        {good, {.position = 6, .length = 1, .id = "id", .id_bytes = 2}},          /* overlapping by one */
        {good, {.position = 3, .length = 1, .id = "id", .id_bytes = 2}},          /* out of order */
        {good, {.position = 7, .length = 0, .id = "id", .id_bytes = 2}},          /* of no length */
        {good, {.position = 7, .length = 1, .id = NULL, .id_bytes = 2}},          /* without an id */
        {good, {.position = 7, .length = 1, .id = "id", .id_bytes = 0}},          /* with an empty one */
        {good, {.position = 7, .length = 1, .id = "id", .id_bytes = 129}},        /* with too long a one */
        {good, {.position = 7, .length = INT32_MAX, .id = "id", .id_bytes = 2}},  /* ends past 2^31 */
        {good, {.position = 7, .length = UINT32_MAX, .id = "id", .id_bytes = 2}}, /* ends past 2^32 */
    };
    for (size_t i = 0; i < COUNT(bad); i++) assert_refused(&w.root, &(icp_text){w.tokens, TOKEN_COUNT, bad[i], 2});

    icp_name name;
    size_t count;
    const icp_text text = {w.tokens, TOKEN_COUNT, NULL, 0};
    assert_int_equal(icp_name_chain(NULL, &text, &name, 1, &count), ICP_BAD_ARGUMENT);
    assert_int_equal(icp_name_chain(&w.root, NULL, &name, 1, &count), ICP_BAD_ARGUMENT);
    assert_int_equal(icp_name_chain(&w.root, &text, NULL, 1, &count), ICP_BAD_ARGUMENT);
    assert_int_equal(icp_name_chain(&w.root, &text, &name, 1, NULL), ICP_BAD_ARGUMENT);
}

static void a_root_of_no_kind_gives_the_empty_name(void **state)
{
    (void)state;
    const world w = world_of(ICP_NAME_NONE);
    icp_name name;
    memset(&name, 0xee, sizeof(name));
    icp_name_begin(&w.root, &name);
    assert_int_equal(name.length, 0);
    icp_name_next(&w.root, &name, 0, w.tokens, NULL, 0, &name);
    assert_int_equal(name.length, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sha256_in_plain_c_gives_the_published_digests),
        cmocka_unit_test(sha256_by_the_processor_gives_the_published_digests),
        cmocka_unit_test(sha256_chooses_the_processor_where_it_can),
        cmocka_unit_test(sha256_plain_and_by_the_processor_agree_on_random_bytes),
        cmocka_unit_test(sha256_in_pieces_equals_sha256_in_one_call),
        cmocka_unit_test(xxh3_gives_the_digests_of_the_reference_library),
        cmocka_unit_test(xxh3_agrees_with_the_reference_library_at_every_length),
        cmocka_unit_test(xxh3_in_pieces_equals_xxh3_in_one_call),
        cmocka_unit_test(the_empty_text_is_called_as_in_vllm),
        cmocka_unit_test(a_plain_block_is_called_as_in_vllm),
        cmocka_unit_test(a_chain_with_tokens_of_every_width_is_vllms),
        cmocka_unit_test(the_salt_is_in_the_first_block_only),
        cmocka_unit_test(the_adapter_is_in_every_block),
        cmocka_unit_test(extra_keys_are_in_every_block_under_them),
        cmocka_unit_test(xxh3_of_pickles_is_vllms),
        cmocka_unit_test(integers_are_written_as_short_as_they_can_be),
        cmocka_unit_test(model_and_tenant_are_in_the_root),
        cmocka_unit_test(small_tuples_and_large_tokens_are_written_as_python_does),
        cmocka_unit_test(the_biggest_block_is_called_as_in_vllm),
        cmocka_unit_test(a_pickle_that_ends_just_past_a_frame_is_written_as_python_does),
        cmocka_unit_test(every_text_of_the_root_changes_all_names),
        cmocka_unit_test(text_moved_from_one_field_to_another_changes_all_names),
        cmocka_unit_test(an_empty_text_is_the_same_as_none),
        cmocka_unit_test(every_token_changes_the_names_from_its_block_on),
        cmocka_unit_test(every_extra_key_changes_the_names_from_its_first_block_on),
        cmocka_unit_test(the_kinds_of_name_differ_and_have_their_lengths),
        cmocka_unit_test(the_names_of_a_longer_text_start_with_those_of_the_shorter_one),
        cmocka_unit_test(a_chain_made_block_by_block_is_the_same),
        cmocka_unit_test(a_chain_stops_at_the_capacity_and_at_the_last_full_block),
        cmocka_unit_test(a_root_that_is_out_of_range_is_refused),
        cmocka_unit_test(a_text_that_is_out_of_range_is_refused),
        cmocka_unit_test(a_root_of_no_kind_gives_the_empty_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
