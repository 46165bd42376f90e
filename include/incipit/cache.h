/* incipit/cache.h - an automatic prefix cache for KV blocks. Tokens in, block numbers out.
 *
 * THE IDEA. An inference engine keeps the keys and values of every token in fixed blocks of, say, 16
 * positions. Two prompts that begin alike have the same blocks up to the point where they part, so the second
 * need not compute them. This library decides which block holds what: it finds the longest cached prefix of a
 * prompt, hands out blocks for the rest, remembers what was computed, and chooses what to forget. It never
 * touches a KV byte, so any engine can embed it.
 *
 * THE FIVE CALLS that do the job, in the order an engine uses them for one request:
 *
 *     icp_cache_match    the longest cached prefix of a prompt, as a lease
 *     icp_lease_extend   room for more tokens: new blocks, evicting what is least worth keeping
 *     icp_lease_table    the block table to hand to the attention kernel
 *     icp_lease_publish  full blocks of known tokens become findable by others
 *     icp_lease_release  the request is over; its blocks stay cached until their turn comes
 *
 * and icp_cache_tick once per engine step.
 *
 * RULES
 *  - One owner thread. Calls on one cache must never overlap in time; a debug build asserts it. Two caches
 *    share nothing. The event callback runs inside a call and must not call back into the same cache.
 *  - Nothing is allocated after icp_cache_open, and nothing reads a clock: time is the tick that you pass.
 *  - Every call either does what it says and returns ICP_OK, or returns another status and has changed nothing (but
 *    for the source of a tail that is due to be let go, see icp_lease_tail). Out-parameters are written on ICP_OK
 *    only. A pointer that must not be NULL and is gives ICP_BAD_ARGUMENT.
 *  - Options and results begin with struct_size, set by the _init functions below: a library newer than your
 *    header fills only the fields you know.
 *  - Handles (lease, scope, pin) carry a generation: one that was released gives ICP_STALE, never another's. Scopes are
 *    counted: the handle is the same for all who have the scope open, and stale when the last has closed it.
 *
 * Usable from C11 and C++. Licence: MIT. */
#ifndef INCIPIT_CACHE_H
#define INCIPIT_CACHE_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#if defined(__GNUC__)
#define ICP_API __attribute__((visibility("default")))
#define ICP_MUST_USE __attribute__((warn_unused_result))
#else
#define ICP_API
#define ICP_MUST_USE
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* Versions: the same major number means the same ABI. */
#define ICP_VERSION_MAJOR 0
#define ICP_VERSION_MINOR 1
#define ICP_VERSION_PATCH 0

/* The version of the library that is running, as "0.1.0". Static text. */
ICP_API const char *icp_version(void);

/* ---- Statuses ------------------------------------------------------------------------------------------ */

/* X(name, text). Numbers are stable: new ones are added at the end. */
#define ICP_STATUS_LIST(X)                                                                          \
    X(OK, "ok")                                                                                     \
    X(FULL, "the pool has no block to give: release a lease, or retry when one has ended")          \
    X(QUOTA, "the scope holds as many blocks as its quota allows")                                  \
    X(TOO_MANY_LEASES, "lease_count_max leases are open: release one, or open the cache with more") \
    X(TOO_MANY_SCOPES, "scope_count_max scopes are open or hold blocks: close or clear one")        \
    X(TOO_MANY_PINS, "pin_count_max pins are set: unpin one, or open the cache with more")          \
    X(TOO_LONG, "the text is longer than lease_tokens_max")                                         \
    X(BAD_ARGUMENT, "an argument is NULL, out of range or inconsistent")                            \
    X(STALE, "this handle was released or closed before")                                           \
    X(NOT_FOUND, "the cache does not hold that")                                                    \
    X(NO_MEMORY, "memory could not be had, or the memory handed in is too small")                   \
    X(CORRUPT, "an invariant does not hold: a bug in this library or a stray write into its memory")

typedef enum icp_status {
#define ICP_STATUS_ENUM(name, text) ICP_##name,
    ICP_STATUS_LIST(ICP_STATUS_ENUM)
#undef ICP_STATUS_ENUM
        ICP_STATUS_COUNT
} icp_status;

/* "ICP_FULL" and its sentence. Static text for every value, known or not. */
ICP_API const char *icp_status_name(icp_status status);
ICP_API const char *icp_status_text(icp_status status);

/* ---- Ring 1: the cache, leases, and the five calls ----------------------------------------------------- */

typedef struct icp_cache icp_cache;
typedef uint64_t icp_lease; /* one request's hold on its blocks; 0 is never a lease */
typedef uint64_t icp_scope; /* who may share with whom; 0 is the default scope, always there */
typedef uint64_t icp_pin;   /* 0 is never a pin */

#define ICP_BLOCK_NONE UINT32_MAX /* in a table: no block is held for these positions */
#define ICP_NODE_NONE UINT32_MAX

#define ICP_BLOCK_TOKENS_MAX 1024u    /* tokens per block */
#define ICP_GROUP_COUNT_MAX 16u       /* groups of layers */
#define ICP_EXTRA_ID_BYTES_MAX 128u   /* bytes of one extra key's id */
#define ICP_SCOPE_TEXT_BYTES_MAX 248u /* bytes of the four texts of a scope together */

/* Layers that keep KV alike form a group; a lease has one block table per group.
 *  FULL    every position is attended to: a prefix needs all of its blocks.
 *  WINDOW  a position attends to itself and the window - 1 before it: a prefix needs its last
 *          ceil((window - 1) / block_tokens) blocks, and blocks behind the window are given back as it moves on.
 *  STATE   a recurrent state: a block holds the state after its last token, and a prefix needs its last block
 *          only. The state of position p is computed from the block before p's block, or from p's own block when
 *          p is inside it; extend hands out a block for the last position alone. */
typedef enum icp_group_kind { ICP_GROUP_FULL, ICP_GROUP_WINDOW, ICP_GROUP_STATE } icp_group_kind;

typedef struct icp_group {
    icp_group_kind kind;
    uint32_t window;      /* tokens; WINDOW only, at least 2 */
    uint32_t block_count; /* blocks of its own, numbered from 0; 0: it draws on the blocks of group 0 */
} icp_group;

/* What leaves first when a block is needed. */
typedef enum icp_policy_kind {
    ICP_POLICY_DEFAULT,   /* = SPARE_LRU */
    ICP_POLICY_LRU,       /* vLLM's order exactly: one queue, released blocks at its tail, content or not */
    ICP_POLICY_SPARE_LRU, /* blocks that nobody can find first, then least recently used */
    ICP_POLICY_COUNT
} icp_policy_kind;

/* What publish does with a block whose content another block holds already. */
typedef enum icp_duplicates {
    ICP_DUPLICATES_KEEP,  /* the lease keeps its own copy: tables only grow (vLLM v1) */
    ICP_DUPLICATES_ADOPT, /* the lease's table is changed to the other block, its own is given back (vLLM v0) */
} icp_duplicates;

/* How names are made: see icp_name_chain. */
typedef enum icp_name_kind {
    ICP_NAME_NONE,
    ICP_NAME_SHA256_CBOR, /* vLLM's sha256_cbor, 32 bytes */
    ICP_NAME_XXH3_CBOR,   /* vLLM's xxhash_cbor, 16 bytes; fast, not for mutual distrust */
    ICP_NAME_SHA256,      /* vLLM's sha256 (its default), 32 bytes */
} icp_name_kind;

typedef struct icp_event icp_event;
typedef void icp_event_fn(void *context, const icp_event *event);

#define ICP_TAIL_OFF UINT32_MAX
#define ICP_GHOST_OFF UINT32_MAX

/* Zero means the default, given in [brackets]; block_count alone must be set. */
typedef struct icp_cache_options {
    size_t struct_size;
    uint32_t block_count;      /* blocks of group 0 */
    uint32_t block_tokens;     /* tokens per block [16] */
    const icp_group *groups;   /* read at open only [one FULL group] */
    uint32_t group_count;      /* [1] */
    icp_policy_kind policy;    /* [SPARE_LRU] */
    icp_duplicates duplicates; /* [KEEP] */
    uint32_t tail_tokens_min;  /* shortest tail worth a copy; ICP_TAIL_OFF: whole blocks only [1] */
    uint32_t lease_count_max;  /* leases open at once [256] */
    uint32_t lease_tokens_max; /* tokens in one lease [131072] */
    uint32_t scope_count_max;  /* scopes beside the default one [64] */
    uint32_t pin_count_max;    /* pins at once [64] */
    uint32_t extra_count_max;  /* extra keys attached to cached blocks at once [1024] */
    uint32_t ghost_count;      /* evictions remembered for explain, about; ICP_GHOST_OFF: none [block_count] */
    icp_name_kind name_kind;   /* names kept with each cached block, for events [NONE] */
    const char *name_seed;     /* what the chain of names starts from; read at open only [vLLM's] */
    uint64_t seed;             /* of the internal hash: give a random one where prompts come from strangers */
    icp_event_fn *event;       /* told of every change to what can be found [none] */
    void *event_context;
    void *memory;        /* at least icp_cache_size bytes, 64-byte aligned, yours until after close [own] */
    size_t memory_bytes; /* of memory */
    uint32_t hash_bits;  /* for tests: keep this many bits of the internal hash [64] */
} icp_cache_options;

static inline void icp_cache_options_init(icp_cache_options *options)
{
    memset(options, 0, sizeof(*options));
    options->struct_size = sizeof(*options);
}

/* Why an open failed, for people. */
typedef struct icp_error {
    char text[192];
} icp_error;

/* Bytes that a cache of these options takes, all of it at open. 0: the options are not valid. */
ICP_API size_t icp_cache_size(const icp_cache_options *options);

/* Makes a cache. error may be NULL; it gets a sentence on failure.
 * BAD_ARGUMENT: an option is out of range. NO_MEMORY: none to be had, or memory_bytes is too small. */
ICP_API ICP_MUST_USE icp_status icp_cache_open(icp_cache **out, const icp_cache_options *options, icp_error *error);

/* Frees it, whatever leases are open. Accepts NULL. Memory that was handed in stays the caller's. */
ICP_API void icp_cache_close(icp_cache *cache);

/* Something that is not a token but decides what the tokens mean: the image or audio clip behind the
 * placeholders at [position, position + length). The id is its content hash, any bytes. Two blocks are alike only
 * if the same ids lie over them at the same offsets. */
typedef struct icp_extra {
    uint32_t position;
    uint32_t length; /* at least 1 */
    const void *id;
    size_t id_bytes; /* 1 to ICP_EXTRA_ID_BYTES_MAX */
} icp_extra;

/* A text, as the caller holds it: read during the call, never kept. */
typedef struct icp_text {
    const uint32_t *tokens;
    size_t token_count;
    const icp_extra *extras; /* by position, not overlapping; may reach past token_count */
    size_t extra_count;
} icp_text;

/* Flags of a request. */
#define ICP_NO_READ 1u   /* match finds nothing, yet the blocks are published */
#define ICP_NO_STORE 2u  /* the cache is read, nothing is published */
#define ICP_UNCOUNTED 4u /* left out of the match counters: a preempted request that looks its blocks up again */

typedef struct icp_request {
    icp_text text;
    icp_scope scope;
    uint32_t flags;
} icp_request;

/* What a match found. Tokens [0, block_tokens_hit) are in the lease's table already. The next tail_tokens_hit are
 * in somebody else's block: extend gives the private block that they are copied to (icp_lease_tail). Compute
 * starts at cached_tokens, the sum; it is always less than the number of tokens in the text. */
typedef struct icp_hit {
    uint32_t cached_tokens;
    uint32_t block_tokens_hit;
    uint32_t tail_tokens_hit;
} icp_hit;

/* The longest usable cached prefix of a text, as a lease that holds its blocks against eviction. Release it in
 * the end, whatever became of the request. hit may be NULL. (Past sixteen siblings in a row that cannot be copied from,
 * since this very step published them or their window block is gone, the search for a tail gives up.)
 * BAD_ARGUMENT: an empty text, extras out of order. TOO_LONG, TOO_MANY_LEASES. STALE: the scope. */
ICP_API ICP_MUST_USE icp_status icp_cache_match(icp_cache *cache, const icp_request *request, icp_lease *lease,
                                                icp_hit *hit);

/* Grows the lease to token_count tokens in all: the block tables get the blocks that these need, and window
 * blocks that the next position to compute no longer sees are given back. New blocks are private to the lease,
 * and their content is undefined. A count at or below the current one changes nothing.
 * FULL, QUOTA: nothing was changed; release something and try again. TOO_LONG. STALE. */
ICP_API ICP_MUST_USE icp_status icp_lease_extend(icp_cache *cache, icp_lease lease, uint32_t token_count);

/* The block table of one group: block numbers for positions [i * block_tokens, (i + 1) * block_tokens), or
 * ICP_BLOCK_NONE. *blocks stays valid, and shows later changes, until the lease is released. */
ICP_API ICP_MUST_USE icp_status icp_lease_table(const icp_cache *cache, icp_lease lease, uint32_t group,
                                                const uint32_t **blocks, uint32_t *count);

/* A copy that the engine has to make, in every layer of the group, before it computes the lease's next token:
 * positions [0, positions) of block from to the same positions of block to. */
typedef struct icp_copy {
    uint32_t from;
    uint32_t to;
    uint32_t positions; /* 0: there is nothing to copy */
} icp_copy;

/* The copy for the token-exact tail of a match (or truncate), once extend has made room for it. The source is held
 * until the lease is next extended, published or truncated in a later tick, so the copy may be made at any time in
 * this step, before or after other requests' writes. positions is 0 where there is no tail. STALE.
 * NOT_FOUND: there is a tail but no extend yet. */
ICP_API ICP_MUST_USE icp_status icp_lease_tail(const icp_cache *cache, icp_lease lease, uint32_t group, icp_copy *copy);

/* Makes the full blocks of text findable. text is the whole text of the lease so far, from its first token, known
 * and within what extend made room for; only blocks not yet published are read, so a decode step costs O(1).
 * It may be called when the step is planned, before anything is computed: a later match of the same step then
 * shares the blocks (compute layer by layer, writing KV before reading it), but no tail is taken from them before
 * the next tick. With ICP_DUPLICATES_ADOPT call it after the step was computed: the table may change.
 * It publishes less, and counts it (refused_count), where a table has no room left (extra_count_max) or where another
 * lease has published the same block with another text: that costs a miss, no more.
 * BAD_ARGUMENT: text is longer than the lease, or the extras are out of order. STALE. */
ICP_API ICP_MUST_USE icp_status icp_lease_publish(icp_cache *cache, icp_lease lease, const icp_text *text);

/* Ends the lease. Its blocks go to the tail of the free queue, last block first; published ones stay findable
 * until the queue's head reaches them. STALE: released before. */
ICP_API ICP_MUST_USE icp_status icp_lease_release(icp_cache *cache, icp_lease lease);

/* Sets the logical time: once per engine step, in any unit that never goes back. Ages are exact up to 2^31 ticks.
 * Everything published before a call that raises it counts as computed from there on. Pins that have run out end.
 * BAD_ARGUMENT: earlier than the last tick. */
ICP_API ICP_MUST_USE icp_status icp_cache_tick(icp_cache *cache, uint64_t tick);

/* ---- Ring 2: more of a lease --------------------------------------------------------------------------- */

/* Drops the last tokens of a lease, down to token_count: rejected guesses, a stop string. What was published stays
 * cached. Where the new end lies inside a block that is published or that another lease holds too, it is exchanged for
 * a private one, and icp_lease_tail tells what to copy, in this tick. A count at or above the current one changes
 * nothing. FULL, QUOTA: no private block to be had. NOT_FOUND: a window block or a state needed to go on from there
 * was given back already: release the lease and match again. */
ICP_API ICP_MUST_USE icp_status icp_lease_truncate(icp_cache *cache, icp_lease lease, uint32_t token_count);

/* A step failed: what the lease published past token_count, and everything cached below it, can no longer be found;
 * pins on it end. The leases that hold those blocks keep them, unpublished; call this, then truncate or release, for
 * every lease of the failed step. A block that two leases then still hold is not published again before one has let go
 * of it. token_count is rounded down to a whole block; what the lease got by match is not taken back. */
ICP_API ICP_MUST_USE icp_status icp_lease_unpublish(icp_cache *cache, icp_lease lease, uint32_t token_count);

typedef struct icp_lease_info {
    icp_scope scope;
    uint32_t token_count;      /* room in the tables */
    uint32_t published_tokens; /* findable prefix, whole blocks */
    uint32_t block_count;      /* entries in each table */
} icp_lease_info;

ICP_API ICP_MUST_USE icp_status icp_lease_inspect(const icp_cache *cache, icp_lease lease, icp_lease_info *info);

/* ---- Ring 2: scopes, quotas, pins ---------------------------------------------------------------------- */

/* What must be equal before two requests may share anything. NULL is the same as "". */
typedef struct icp_scope_key {
    const char *model;
    const char *adapter; /* LoRA */
    const char *tenant;
    const char *salt;
} icp_scope_key;

/* The scope of these four texts, made if need be; each open wants a close. Opening again what is still cached finds
 * it. Four empty texts are the default scope, 0, which needs no close. BAD_ARGUMENT: the texts are too long.
 * TOO_MANY_SCOPES. */
ICP_API ICP_MUST_USE icp_status icp_scope_open(icp_cache *cache, const icp_scope_key *key, icp_scope *scope);

/* Leases may outlive it; what is cached stays cached. STALE. The default scope cannot be closed: BAD_ARGUMENT. */
ICP_API ICP_MUST_USE icp_status icp_scope_close(icp_cache *cache, icp_scope scope);

/* At least and at most so many blocks, in each pool, for a scope's cached and leased blocks together. Others cannot
 * evict a scope below min (by one node's blocks at most: a node that goes takes its blocks of all groups with it); it
 * cannot grow past max, and evicts its own to stay there. max 0: no limit. The first quota of a scope that holds
 * blocks walks the free queue. It lasts as long as the scope is open or holds blocks. BAD_ARGUMENT: min > max, or the
 * sum of all min exceeds a pool. */
ICP_API ICP_MUST_USE icp_status icp_scope_quota(icp_cache *cache, icp_scope scope, uint32_t min, uint32_t max);

/* Forgets what is cached under one scope, or all of it. Leases keep their blocks and publish nothing more. */
ICP_API ICP_MUST_USE icp_status icp_scope_clear(icp_cache *cache, icp_scope scope);
ICP_API ICP_MUST_USE icp_status icp_cache_clear(icp_cache *cache);

/* Keeps the cached whole-block prefix of a text, as match would find it, from eviction until the tick is reached
 * (UINT64_MAX: until unpin). *token_count (may be NULL) tells how many tokens that is.
 * NOT_FOUND: not one block is cached. BAD_ARGUMENT: the tick has passed. TOO_MANY_PINS. */
ICP_API ICP_MUST_USE icp_status icp_cache_pin(icp_cache *cache, const icp_request *request, uint64_t until_tick,
                                              icp_pin *pin, uint32_t *token_count);
ICP_API ICP_MUST_USE icp_status icp_cache_unpin(icp_cache *cache, icp_pin pin);

/* ---- Ring 2: why did my prompt not hit? ---------------------------------------------------------------- */

typedef enum icp_why {
    ICP_WHY_HIT,         /* all but the last token (or the last partial block) is cached */
    ICP_WHY_DIVERGES,    /* the nearest cached text differs at token position */
    ICP_WHY_EXTRA,       /* the same tokens, but another image (extra key) at token position */
    ICP_WHY_SHORT,       /* the nearest cached text shares shared_tokens more, but less than a block: tails are off, or
                            its last block is shorter than tail_tokens_min or not yet computed */
    ICP_WHY_ENDS,        /* the cached text ends at token position: the rest is new */
    ICP_WHY_EVICTED,     /* the block at token position was cached, and evicted evicted_ticks_ago */
    ICP_WHY_GROUP,       /* the text is cached to token position, but a window or state block of group is not */
    ICP_WHY_OTHER_SCOPE, /* nothing here, but the same text is cached under another scope */
    ICP_WHY_NEVER,       /* never seen, or so long ago that it was forgotten */
    ICP_WHY_COUNT
} icp_why;

#define ICP_EXPLAIN_TOKENS 8u

#define ICP_EXPLAIN_OTHER_SCOPES 1u /* the caller may know that other scopes hold this text */

typedef struct icp_explanation {
    size_t struct_size;
    icp_why why;
    icp_hit hit;                /* what match would give now */
    uint32_t position;          /* the token where reuse stops, or where the texts part */
    uint32_t shared_tokens;     /* DIVERGES, EXTRA, SHORT: tokens past the last whole cached block that agree */
    uint32_t group;             /* GROUP: which one */
    uint32_t text_tokens;       /* GROUP: tokens that are cached as text */
    uint32_t evicted_tokens;    /* EVICTED: tokens from position on that were all cached once */
    uint64_t evicted_ticks_ago; /* EVICTED */
    uint32_t other_tokens;      /* with ICP_EXPLAIN_OTHER_SCOPES: whole-block tokens cached under the best other one */
    uint32_t token_count;       /* DIVERGES, SHORT: how many of these follow, from position on, within the block */
    uint32_t cached[ICP_EXPLAIN_TOKENS]; /* ... in the nearest cached text */
    uint32_t asked[ICP_EXPLAIN_TOKENS];  /* ... in the text that was asked for */
} icp_explanation;

static inline void icp_explanation_init(icp_explanation *explanation)
{
    memset(explanation, 0, sizeof(*explanation));
    explanation->struct_size = sizeof(*explanation);
}

/* How a request would match, and why not further. Changes nothing. Errors as for icp_cache_match. */
ICP_API ICP_MUST_USE icp_status icp_cache_explain(const icp_cache *cache, const icp_request *request, uint32_t flags,
                                                  icp_explanation *explanation);

/* The explanation as one English sentence, cut to bytes. Returns its whole length, as snprintf does. */
ICP_API size_t icp_explanation_text(const icp_explanation *explanation, char *text, size_t bytes);

/* ---- Ring 2: names and events -------------------------------------------------------------------------- */

typedef struct icp_name {
    uint8_t bytes[32];
    uint32_t length; /* 32 or 16 */
} icp_name;

/* Where a chain of names starts. The bytes are vLLM's where model and tenant are empty; otherwise these two are part
 * of the root, so that names never meet across them. */
typedef struct icp_name_root {
    icp_name_kind kind;
    const char *seed; /* NULL: vLLM's default */
    icp_scope_key scope;
    uint32_t block_tokens;
} icp_name_root;

/* Names of the first full blocks of a text: a pure function of its arguments, no cache needed. Writes at most
 * capacity names, *count tells how many. (vLLM's bytes do not tell an adapter "x" from a salt "x" in the first block:
 * where names address stored bytes, set tenant or model, or keep salts and adapter names apart.) BAD_ARGUMENT: kind
 * NONE, block_tokens 0, extras out of order. */
ICP_API ICP_MUST_USE icp_status icp_name_chain(const icp_name_root *root, const icp_text *text, icp_name *names,
                                               size_t capacity, size_t *count);

typedef enum icp_event_kind {
    ICP_EVENT_STORED,  /* the node can be found in the groups of group_mask, or another block has taken over there */
    ICP_EVENT_REMOVED, /* these groups of the node are gone; without its last group the node is gone */
    ICP_EVENT_CLEARED, /* everything of the scope is gone, or of all scopes where is_all is set */
} icp_event_kind;

struct icp_event {
    icp_event_kind kind;
    int is_all;
    uint64_t sequence; /* 1, 2, 3, ...; a dump repeats the sequence of the last event */
    uint64_t tick;
    icp_scope scope;
    uint32_t node;   /* known by this number from STORED to the REMOVED of its last group */
    uint32_t parent; /* ICP_NODE_NONE: the block starts the text. Without FULL groups it may be a node without blocks */
    uint32_t position;
    uint32_t group_mask;
    const uint32_t *blocks; /* STORED: one per group, ICP_BLOCK_NONE where it has none */
    icp_text text;          /* STORED: the node's own tokens; extras' positions count from the text's start */
    icp_name name;          /* length 0 where names are not kept */
    icp_name parent_name;   /* of the root where there is no parent */
};

/* STORED for every node that can be found now, parents first: with it a subscriber who missed something starts
 * anew. *sequence (may be NULL) tells the last event that it includes. */
ICP_API ICP_MUST_USE icp_status icp_cache_dump(const icp_cache *cache, icp_event_fn *fn, void *context,
                                               uint64_t *sequence);

/* ---- Ring 2: statistics and introspection -------------------------------------------------------------- */

#define ICP_HISTOGRAM_COUNT 33u /* bucket 0: age 0; bucket i: ages [2^(i-1), 2^i) ticks */

typedef struct icp_cache_stats {
    size_t struct_size;
    /* Matches that count (no ICP_UNCOUNTED). */
    uint64_t match_count;
    uint64_t queried_tokens;
    uint64_t hit_tokens;  /* whole blocks */
    uint64_t tail_tokens; /* on top of these */
    /* Blocks, in all pools together. */
    uint64_t taken_count;     /* handed out by extend and truncate */
    uint64_t stored_count;    /* published */
    uint64_t duplicate_count; /* published content that was there already */
    uint64_t evicted_count;   /* cached blocks taken for something else; what goes with their node is not counted */
    uint64_t refused_count;   /* full blocks that a publish left out, counted at each call */
    uint64_t full_count;      /* extends and truncates answered FULL or QUOTA */
    /* Blocks by state now; the six add up to block_count. */
    uint64_t block_count;
    uint64_t block_count_spare;     /* free, nothing to find in it */
    uint64_t block_count_cached;    /* free to evict, findable */
    uint64_t block_count_leased;    /* findable and held once, by a lease or a pin */
    uint64_t block_count_shared;    /* findable and held more than once */
    uint64_t block_count_private;   /* held, not published */
    uint64_t block_count_duplicate; /* held, with content that another block stands for */
    uint64_t block_count_pinned;    /* of those held: by a pin */
    uint64_t node_count;
    uint64_t lease_count;
    uint64_t scope_count;
    uint64_t pin_count;
    uint64_t extra_count;
    /* Ages in ticks. */
    uint64_t residency[ICP_HISTOGRAM_COUNT]; /* from published to evicted */
    uint64_t idle[ICP_HISTOGRAM_COUNT];      /* from the last use to evicted */
    uint64_t reuse_gap[ICP_HISTOGRAM_COUNT]; /* from the last use to a hit */
} icp_cache_stats;

static inline void icp_cache_stats_init(icp_cache_stats *stats)
{
    memset(stats, 0, sizeof(*stats));
    stats->struct_size = sizeof(*stats);
}

ICP_API ICP_MUST_USE icp_status icp_cache_statistics(const icp_cache *cache, icp_cache_stats *stats);

typedef struct icp_scope_stats {
    size_t struct_size;
    uint64_t match_count;
    uint64_t queried_tokens;
    uint64_t hit_tokens;
    uint64_t tail_tokens;
    uint64_t stored_count;
    uint64_t evicted_count;
    uint64_t block_count; /* cached and leased now, in all pools */
    uint64_t block_count_cached;
    uint64_t node_count;
    uint64_t lease_count;
    uint32_t quota_min;
    uint32_t quota_max;
} icp_scope_stats;

static inline void icp_scope_stats_init(icp_scope_stats *stats)
{
    memset(stats, 0, sizeof(*stats));
    stats->struct_size = sizeof(*stats);
}

ICP_API ICP_MUST_USE icp_status icp_scope_statistics(const icp_cache *cache, icp_scope scope, icp_scope_stats *stats);

typedef enum icp_block_state {
    ICP_BLOCK_SPARE,
    ICP_BLOCK_CACHED,
    ICP_BLOCK_LEASED,
    ICP_BLOCK_SHARED,
    ICP_BLOCK_PRIVATE,
    ICP_BLOCK_DUPLICATE,
} icp_block_state;

typedef struct icp_block_info {
    icp_block_state state;
    uint32_t reference_count; /* leases and pins that hold it */
    uint32_t pin_count;
    uint32_t node;       /* ICP_NODE_NONE: not findable */
    uint32_t position;   /* of its first token, where it has a node */
    icp_scope scope;     /* where it has a node */
    uint64_t idle_ticks; /* since the last use */
} icp_block_info;

/* One block of the pool that a group draws on. BAD_ARGUMENT: no such group or block. */
ICP_API ICP_MUST_USE icp_status icp_block_inspect(const icp_cache *cache, uint32_t group, uint32_t block,
                                                  icp_block_info *info);

/* The free blocks of the pool that a group draws on, in the order in which extend would take them. The queues of scopes
 * that have a quota follow one by one: which of them goes next depends on who asks. Writes at most capacity numbers,
 * *count tells how many there are. Walks the queues. */
ICP_API ICP_MUST_USE icp_status icp_cache_queue(const icp_cache *cache, uint32_t group, uint32_t *blocks,
                                                size_t capacity, size_t *count);

/* Walks everything and proves the invariants (see src/cache/check.c). CORRUPT, and a sentence in error (may be
 * NULL), where one does not hold. O(blocks + leases): for tests, and for a server that is idle. */
ICP_API ICP_MUST_USE icp_status icp_cache_check(const icp_cache *cache, icp_error *error);

#ifdef __cplusplus
}
#endif

#endif
