/* name.c - names of blocks: chained digests, byte for byte those of vLLM.
 *
 *      root = H(seed)                  or, where a model or a tenant is set, H((seed, model, tenant))
 *      name = H((parent's name, (token, token, ...), extras))
 *      extras = None, or the tuple of: the adapter's name, if any; (id, offset) of each extra key over the block, by
 *               position; the salt, if any, in the first block only
 *
 * The tuple is serialised and the bytes are hashed. Two serialisations, three kinds of name:
 *
 *      SHA256_CBOR   SHA-256 of canonical CBOR (RFC 8949, 4.2): definite lengths, every number as short as it can be
 *      XXH3_CBOR     XXH3-128 of the same bytes
 *      SHA256        SHA-256 of the bytes that Python's pickle writes in protocol 5
 *
 * Names are vLLM's where model and tenant are empty and vLLM is given the same seed. Its default seed is the text
 * "vllm-none-hash" for both SHA-256 kinds; for XXH3 it takes a random one, so there set PYTHONHASHSEED on its side.
 * Ids of extra keys are written as texts, as vLLM's are; one that is not UTF-8 has no counterpart there. Where one
 * id lies over a block twice, the pickle bytes of vLLM depend on whether Python happens to hold one string object or
 * two equal ones (the second mention of one object is a back reference). We write two; CBOR knows no such thing.
 * And vLLM writes adapter and salt alike: the first block of adapter "x" without salt is called as that of salt "x"
 * without adapter. Who lets strangers choose salts must see to it that no salt is the name of an adapter.
 *
 * How it is written. A sink is a buffer in front of a hash. An ordinary block fits in the buffer and is hashed in one
 * call. A big block, or one under many extra keys (1024 ids of 128 bytes make 140 KB), is flushed into the hash as
 * the buffer fills, so no length of input can overrun it:
 *
 *      write_preimage --> put_open, put_text, ... --> bytes[SINK_BYTES] --full--> hash.sha or hash.xxh
 *
 * Pickle puts the length of what follows in front of it, in frames of 64 KiB. So a pickle is written into a sink that
 * hashes nothing first: mostly it fits, and only the length before it must be filled in. If not, that pass has
 * measured the frames, and a second pass writes them.
 *
 * Measured on a Neoverse-V1, gcc 12 -O2, blocks of 16 tokens below 128k, in ns per token: SHA256_CBOR 9.4 (of which
 * 6.5 in the hash), XXH3_CBOR 4.3, SHA256 10.8. The CBOR encoder stores its widest form always and steps by what
 * counts: token widths are random to a branch predictor, and branching on them cost 2.1 ns per token more.
 *
 * Called by the cache core as it publishes, and by anybody through icp_name_chain. */
#include "cache/name.h"

#include <stdbool.h>
#include <string.h>

#include "cache/sha256.h"
#include "cache/xxh3.h"

#define SEED_DEFAULT "vllm-none-hash"

enum { CBOR_UNSIGNED = 0, CBOR_NEGATIVE = 1, CBOR_BYTES = 2, CBOR_TEXT = 3, CBOR_ARRAY = 4 };
#define CBOR_NONE 0xf6u

/* Opcodes of pickle, protocol 5. */
enum {
    PICKLE_PROTO = 0x80,
    PICKLE_FRAME = 0x95,
    PICKLE_MEMOIZE = 0x94,
    PICKLE_NONE = 'N',
    PICKLE_MARK = '(',
    PICKLE_TUPLE = 't',   /* of all since the mark */
    PICKLE_TUPLE1 = 0x85, /* of the last one; 0x86, 0x87: two, three */
    PICKLE_BYTES8 = 'C',  /* length in 8 bits */
    PICKLE_TEXT8 = 0x8c,
    PICKLE_TEXT32 = 'X',
    PICKLE_INT8 = 'K', /* unsigned */
    PICKLE_INT16 = 'M',
    PICKLE_INT32 = 'J', /* signed */
    PICKLE_INT_LONG = 0x8a,
    PICKLE_STOP = '.',
};

#define PICKLE_FRAME_BYTES (64u * 1024u) /* a frame ends before the first object that begins past this */
#define PICKLE_FRAME_COUNT_MAX 4u        /* a block needs three at most: 1024 tokens, 1024 ids, two texts */
#define PICKLE_FRAME_HEADER_BYTES 9u

#define SINK_BYTES 2048u    /* plain blocks of up to about 250 tokens are hashed in one call */
#define TOKENS_AT_ONCE 128u /* that are written between two looks at the room left */
_Static_assert(TOKENS_AT_ONCE *ICP_NAME_PICKLE_INT_BYTES_MAX <= SINK_BYTES, "an empty sink has room for them");
_Static_assert(ICP_NAME_CBOR_HEAD_BYTES_MAX <= ICP_NAME_PICKLE_INT_BYTES_MAX, "that is room for either encoding");

/* ---- Integers ------------------------------------------------------------------------------------------------ */

/* Through a copy, not byte by byte: gcc 12 -O2 would leave that a loop. */
static inline void store_le64(uint8_t *out, uint64_t x)
{
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    x = __builtin_bswap64(x);
#endif
    memcpy(out, &x, sizeof(x));
}

static inline void store_be64(uint8_t *out, uint64_t x)
{
    store_le64(out, __builtin_bswap64(x));
}

/* The major type and a number: within the byte below 24, else in the 1, 2, 4 or 8 bytes after it. */
static inline size_t cbor_head(uint8_t *out, unsigned major, uint64_t value)
{
    static const uint8_t bytes[5] = {1, 2, 3, 5, 9}, shift[5] = {56, 56, 48, 32, 0};
    unsigned width = (unsigned)(value > 23) + (value > UINT8_MAX) + (value > UINT16_MAX) + (value > UINT32_MAX);
    out[0] = (uint8_t)(major << 5 | (width > 0 ? 23 + width : (unsigned)value));
    store_be64(out + 1, value << shift[width]);
    return bytes[width];
}

static inline size_t pickle_int(uint8_t *out, int64_t value)
{
    static const uint8_t codes[3] = {PICKLE_INT8, PICKLE_INT16, PICKLE_INT32}, bytes[3] = {2, 3, 5};
    if (value >= INT32_MIN && value <= INT32_MAX) {
        unsigned width = value < 0 ? 2 : (unsigned)(value > UINT8_MAX) + (value > UINT16_MAX);
        out[0] = codes[width];
        store_le64(out + 1, (uint64_t)value);
        return bytes[width];
    }
    unsigned count = 5; /* of bytes; the highest bit of the last one is the sign */
    while (count < 8 && value >> (8 * count - 1) != (value < 0 ? -1 : 0)) count++;
    out[0] = PICKLE_INT_LONG;
    out[1] = (uint8_t)count;
    store_le64(out + 2, (uint64_t)value);
    return 2 + count;
}

size_t icp_name_cbor_head(uint8_t *out, unsigned major, uint64_t value)
{
    return cbor_head(out, major, value);
}

size_t icp_name_pickle_int(uint8_t *out, int64_t value)
{
    return pickle_int(out, value);
}

/* ---- The sink: bytes on their way into a hash ---------------------------------------------------------------- */

/* Where the frames of a pickle end, in bytes of payload (what is neither frame header nor protocol). */
typedef struct frames {
    uint64_t ends[PICKLE_FRAME_COUNT_MAX];
    unsigned count;
} frames;

typedef struct sink {
    icp_name_kind kind;
    bool is_pickle;
    bool is_measuring;     /* what is flushed is dropped, and frames is found rather than followed */
    bool is_flushed;       /* the hash holds something */
    unsigned frame;        /* the one being written, of frames */
    size_t used;           /* of bytes */
    uint64_t dropped;      /* bytes that went from here into the hash, or nowhere */
    uint64_t header_bytes; /* of all written: not payload */
    frames frames;
    union {
        icp_sha256 sha;
        icp_xxh3 xxh;
    } hash;
    uint8_t bytes[SINK_BYTES];
} sink;

/* Not all of it: the hash and the bytes are set as they are used. */
static void sink_open(sink *s, icp_name_kind kind, bool is_measuring)
{
    s->kind = kind;
    s->is_pickle = kind == ICP_NAME_SHA256;
    s->is_measuring = is_measuring;
    s->is_flushed = false;
    s->frame = 0;
    s->used = 0;
    s->dropped = 0;
    s->header_bytes = 0;
    s->frames.count = 0;
}

static void sink_flush(sink *s)
{
    if (s->is_measuring) {
        /* Only counted. */
    } else if (s->kind == ICP_NAME_XXH3_CBOR) {
        if (!s->is_flushed) icp_xxh3_begin(&s->hash.xxh);
        icp_xxh3_update(&s->hash.xxh, s->bytes, s->used);
    } else {
        if (!s->is_flushed) icp_sha256_begin(&s->hash.sha, icp_sha256_best());
        icp_sha256_update(&s->hash.sha, s->bytes, s->used);
    }
    s->is_flushed = true;
    s->dropped += s->used;
    s->used = 0;
}

/* Where the next bytes go; there is room for count of them, which is at most SINK_BYTES. */
static inline uint8_t *sink_room(sink *s, size_t count)
{
    if (SINK_BYTES - s->used < count) sink_flush(s);
    return s->bytes + s->used;
}

static uint64_t sink_payload(const sink *s)
{
    return s->dropped + s->used - s->header_bytes;
}

static void sink_finish(sink *s, icp_name *out)
{
    if (s->is_flushed) sink_flush(s);
    if (s->kind == ICP_NAME_XXH3_CBOR) {
        out->length = ICP_XXH3_BYTES;
        memset(out->bytes + ICP_XXH3_BYTES, 0, sizeof(out->bytes) - ICP_XXH3_BYTES);
        if (s->is_flushed) {
            icp_xxh3_end(&s->hash.xxh, out->bytes);
        } else {
            icp_xxh3_digest(s->bytes, s->used, out->bytes);
        }
    } else {
        out->length = ICP_SHA256_BYTES;
        if (s->is_flushed) {
            icp_sha256_end(&s->hash.sha, out->bytes);
        } else {
            icp_sha256_digest(s->bytes, s->used, out->bytes);
        }
    }
}

/* ---- Values, in either serialisation ------------------------------------------------------------------------- */

static inline void put_byte(sink *s, unsigned byte)
{
    *sink_room(s, 1) = (uint8_t)byte;
    s->used++;
}

static void put_bytes(sink *s, const void *data, size_t count)
{
    const uint8_t *from = data;
    while (count > 0) {
        uint8_t *at = sink_room(s, 1);
        size_t room = SINK_BYTES - s->used, take = count < room ? count : room;
        memcpy(at, from, take);
        s->used += take;
        from += take;
        count -= take;
    }
}

static inline void put_head(sink *s, unsigned major, uint64_t value)
{
    uint8_t *at = sink_room(s, ICP_NAME_CBOR_HEAD_BYTES_MAX);
    s->used += cbor_head(at, major, value);
}

/* The header of the frame that follows. */
static void put_frame(sink *s)
{
    uint64_t begin = s->frame == 0 ? 0 : s->frames.ends[s->frame - 1];
    uint8_t *at = sink_room(s, PICKLE_FRAME_HEADER_BYTES);
    at[0] = PICKLE_FRAME;
    store_le64(at + 1, s->frames.ends[s->frame] - begin);
    s->used += PICKLE_FRAME_HEADER_BYTES;
    s->header_bytes += PICKLE_FRAME_HEADER_BYTES;
}

/* Before every object of a pickle: a full frame ends here. */
static void pickle_begin_object(sink *s)
{
    uint64_t payload = sink_payload(s);
    frames *f = &s->frames;
    if (!s->is_measuring) {
        if (payload != f->ends[s->frame]) return;
        s->frame++;
        put_frame(s);
    } else {
        uint64_t begin = f->count == 0 ? 0 : f->ends[f->count - 1];
        if (payload - begin < PICKLE_FRAME_BYTES || f->count == PICKLE_FRAME_COUNT_MAX - 1) return;
        f->ends[f->count++] = payload;
    }
}

static void put_text(sink *s, const void *text, size_t bytes)
{
    if (!s->is_pickle) {
        put_head(s, CBOR_TEXT, bytes);
        put_bytes(s, text, bytes);
        return;
    }
    pickle_begin_object(s);
    uint8_t *at = sink_room(s, 1 + sizeof(uint64_t));
    bool is_short = bytes <= UINT8_MAX;
    at[0] = is_short ? PICKLE_TEXT8 : PICKLE_TEXT32;
    store_le64(at + 1, bytes);
    s->used += is_short ? 2 : 5;
    put_bytes(s, text, bytes);
    put_byte(s, PICKLE_MEMOIZE);
}

static void put_string(sink *s, const char *text)
{
    put_text(s, text, text == NULL ? 0 : strlen(text));
}

static void put_name(sink *s, const uint8_t *name, size_t bytes)
{
    if (!s->is_pickle) {
        put_head(s, CBOR_BYTES, bytes);
        put_bytes(s, name, bytes);
        return;
    }
    pickle_begin_object(s);
    put_byte(s, PICKLE_BYTES8);
    put_byte(s, (unsigned)bytes);
    put_bytes(s, name, bytes);
    put_byte(s, PICKLE_MEMOIZE);
}

/* A tuple of count values, which is not 0, stands between these two. */
static void put_open(sink *s, size_t count)
{
    if (!s->is_pickle) {
        put_head(s, CBOR_ARRAY, count);
        return;
    }
    pickle_begin_object(s);
    if (count > 3) put_byte(s, PICKLE_MARK);
}

static void put_close(sink *s, size_t count)
{
    if (!s->is_pickle) return;
    put_byte(s, count > 3 ? (unsigned)PICKLE_TUPLE : PICKLE_TUPLE1 + (unsigned)count - 1);
    put_byte(s, PICKLE_MEMOIZE);
}

/* No frame of a pickle can end within the tokens: they are the first 7 KB of it at most. */
static void put_tokens(sink *s, const uint32_t *tokens, size_t count)
{
    put_open(s, count);
    for (size_t begin = 0, end; begin < count; begin = end) {
        end = count - begin < TOKENS_AT_ONCE ? count : begin + TOKENS_AT_ONCE;
        uint8_t *at = sink_room(s, (end - begin) * ICP_NAME_PICKLE_INT_BYTES_MAX);
        if (s->is_pickle) {
            for (size_t i = begin; i < end; i++) at += pickle_int(at, tokens[i]);
        } else {
            for (size_t i = begin; i < end; i++) at += cbor_head(at, CBOR_UNSIGNED, tokens[i]);
        }
        s->used = (size_t)(at - s->bytes);
    }
    put_close(s, count);
}

static void put_offset(sink *s, int64_t offset)
{
    if (s->is_pickle) {
        pickle_begin_object(s);
        s->used += pickle_int(sink_room(s, ICP_NAME_PICKLE_INT_BYTES_MAX), offset);
    } else if (offset < 0) {
        put_head(s, CBOR_NEGATIVE, (uint64_t)(-1 - offset));
    } else {
        put_head(s, CBOR_UNSIGNED, (uint64_t)offset);
    }
}

/* ---- What is hashed ------------------------------------------------------------------------------------------ */

/* All that decides a name. */
typedef struct preimage {
    const icp_name_root *root;
    const icp_name *parent; /* NULL: the root's own name is wanted, and the rest is not looked at */
    const uint32_t *tokens; /* [root->block_tokens] */
    const icp_name_extra *extras;
    size_t extra_count;
    bool is_first; /* the block starts the text */
} preimage;

static inline bool is_empty(const char *text)
{
    return text == NULL || text[0] == '\0';
}

static void write_root(sink *s, const icp_name_root *root)
{
    const icp_scope_key *scope = &root->scope;
    const char *seed = root->seed == NULL ? SEED_DEFAULT : root->seed;
    if (is_empty(scope->model) && is_empty(scope->tenant)) {
        put_string(s, seed);
        return;
    }
    put_open(s, 3);
    put_string(s, seed);
    put_string(s, scope->model);
    put_string(s, scope->tenant);
    put_close(s, 3);
}

static void write_extras(sink *s, const preimage *p)
{
    const icp_scope_key *scope = &p->root->scope;
    bool has_adapter = !is_empty(scope->adapter), has_salt = p->is_first && !is_empty(scope->salt);
    size_t count = has_adapter + p->extra_count + has_salt;
    if (count == 0) { /* nor can a frame end before this None */
        put_byte(s, s->is_pickle ? (unsigned)PICKLE_NONE : CBOR_NONE);
        return;
    }
    put_open(s, count);
    if (has_adapter) put_string(s, scope->adapter);
    for (size_t i = 0; i < p->extra_count; i++) {
        put_open(s, 2);
        put_text(s, p->extras[i].id, p->extras[i].id_bytes);
        put_offset(s, p->extras[i].offset);
        put_close(s, 2);
    }
    if (has_salt) put_string(s, scope->salt);
    put_close(s, count);
}

static void write_preimage(sink *s, const preimage *p)
{
    if (p->parent == NULL) {
        write_root(s, p->root);
    } else {
        put_open(s, 3);
        put_name(s, p->parent->bytes, s->kind == ICP_NAME_XXH3_CBOR ? ICP_XXH3_BYTES : ICP_SHA256_BYTES);
        put_tokens(s, p->tokens, p->root->block_tokens);
        write_extras(s, p);
        put_close(s, 3);
    }
    if (s->is_pickle) put_byte(s, PICKLE_STOP);
}

static void hash_cbor(const preimage *p, icp_name *out)
{
    sink s;
    sink_open(&s, p->root->kind, false);
    write_preimage(&s, p);
    sink_finish(&s, out);
}

/* Starts a pickle whose frames are known. */
static void put_prologue(sink *s)
{
    put_byte(s, PICKLE_PROTO);
    put_byte(s, 5);
    s->header_bytes += 2;
    put_frame(s);
}

static void hash_pickle(const preimage *p, icp_name *out)
{
    const size_t prologue_bytes = 2 + PICKLE_FRAME_HEADER_BYTES;
    sink s;
    sink_open(&s, p->root->kind, true);
    s.used = s.header_bytes = prologue_bytes; /* room to fill in */
    write_preimage(&s, p);
    s.frames.ends[s.frames.count++] = sink_payload(&s);

    const frames found = s.frames;
    const size_t used = s.used;
    const bool is_whole = !s.is_flushed;
    sink_open(&s, p->root->kind, false);
    s.frames = found;
    put_prologue(&s);
    if (is_whole) {
        s.used = used; /* the payload is there already */
    } else {
        write_preimage(&s, p);
    }
    sink_finish(&s, out);
}

static void hash_preimage(const preimage *p, icp_name *out)
{
    switch (p->root->kind) {
    case ICP_NAME_SHA256_CBOR:
    case ICP_NAME_XXH3_CBOR:
        hash_cbor(p, out);
        break;
    case ICP_NAME_SHA256:
        hash_pickle(p, out);
        break;
    case ICP_NAME_NONE:
    default:
        memset(out, 0, sizeof(*out));
        break;
    }
}

void icp_name_begin(const icp_name_root *root, icp_name *out)
{
    hash_preimage(&(preimage){.root = root}, out);
}

void icp_name_next(const icp_name_root *root, const icp_name *parent, uint32_t position, const uint32_t *tokens,
                   const icp_name_extra *extras, size_t extra_count, icp_name *out)
{
    const preimage p = {.root = root,
                        .parent = parent,
                        .tokens = tokens,
                        .extras = extras,
                        .extra_count = extra_count,
                        .is_first = position == 0};
    hash_preimage(&p, out);
}

/* ---- The chain of a text ------------------------------------------------------------------------------------- */

static bool is_root_valid(const icp_name_root *root)
{
    if (root->kind != ICP_NAME_SHA256_CBOR && root->kind != ICP_NAME_XXH3_CBOR && root->kind != ICP_NAME_SHA256) {
        return false;
    }
    if (root->block_tokens == 0 || root->block_tokens > ICP_BLOCK_TOKENS_MAX) return false;

    const icp_scope_key *scope = &root->scope;
    const char *texts[] = {root->seed, scope->model, scope->adapter, scope->tenant, scope->salt};
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        if (texts[i] != NULL && strlen(texts[i]) > ICP_SCOPE_TEXT_BYTES_MAX) return false;
    }
    return true;
}

/* Everything below 2^31, so that every offset fits its type. */
static bool is_text_valid(const icp_text *text)
{
    if (text->token_count > INT32_MAX || (text->tokens == NULL && text->token_count > 0)) return false;
    return icp_extra_validate(text) == ICP_OK;
}

/* They do not overlap, so there are at most as many as tokens. */
size_t icp_name_extras(const icp_view *view, icp_name_extra *extras)
{
    size_t count = 0;
    uint32_t end = view->position + view->token_count;
    for (; count < view->extra_count && view->extras[count].position < end; count++) {
        const icp_extra *extra = &view->extras[count];
        int32_t offset = (int32_t)extra->position - (int32_t)view->position;
        extras[count] = (icp_name_extra){extra->id, (uint32_t)extra->id_bytes, offset};
    }
    return count;
}

icp_status icp_name_chain(const icp_name_root *root, const icp_text *text, icp_name *names, size_t capacity,
                          size_t *count)
{
    if (root == NULL || text == NULL || count == NULL || (names == NULL && capacity > 0)) return ICP_BAD_ARGUMENT;
    if (!is_root_valid(root) || !is_text_valid(text)) return ICP_BAD_ARGUMENT;

    const uint32_t step = root->block_tokens;
    const size_t full = text->token_count / step, wanted = full < capacity ? full : capacity;
    icp_name_extra extras[ICP_BLOCK_TOKENS_MAX];
    icp_name name;
    icp_name_begin(root, &name);
    for (size_t i = 0; i < wanted; i++) {
        icp_view view = icp_view_at(text, (uint32_t)(i * step), step);
        icp_name_next(root, &name, view.position, view.tokens, extras, icp_name_extras(&view, extras), &name);
        names[i] = name;
    }
    *count = wanted;
    return ICP_OK;
}
