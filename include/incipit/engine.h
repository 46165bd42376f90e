/* incipit/engine.h - inference on a prefix cache: models in GGUF files, continuous batching, no prefix computed twice.
 *
 * THE LOOP. Open a model, open an engine on it, submit requests at any time, and call step until it is idle; after each
 * step, poll gives what it made:
 *
 *     icp_model_open -> icp_engine_open -> icp_engine_submit ...
 *                                          icp_engine_step        plan -> forward -> sample -> commit, once
 *                                          icp_engine_poll ...    tokens, text and ends, until there is no more
 *                                          icp_engine_cancel      at any moment
 *
 * RULES
 *  - One owner thread for an engine. The engine uses threads of its own inside step. A model is read only
 *    once it is open: any number of threads may use it, and several engines.
 *  - The engine reads no clock and no random device; what a request gives depends on the request alone. The same
 *    request gives the same tokens whatever else runs, however it is batched or preempted, cached or not.
 *  - Sizes are decided at open. A full queue says ICP_FULL; nothing grows past its limit.
 *  - Options and results begin with struct_size, set by the _init functions. Zero means the default, in [brackets].
 *
 * Usable from C11 and C++. Licence: MIT. */
#ifndef INCIPIT_ENGINE_H
#define INCIPIT_ENGINE_H

#include "incipit/cache.h"

#ifdef __cplusplus
extern "C" {
#endif

#define ICP_TOKEN_NONE UINT32_MAX

/* ---- Ring 1: a model ------------------------------------------------------------------------------------ */

typedef struct icp_model icp_model;

/* Opens a GGUF file (or any part of a split one): metadata, vocabulary, chat template; the weights are mapped, not
 * read. path NULL: the built-in model. NOT_FOUND, BAD_ARGUMENT (malformed, or a part is not supported: error says
 * which), NO_MEMORY. */
ICP_API ICP_MUST_USE icp_status icp_model_open(icp_model **out, const char *path, icp_error *error);
ICP_API void icp_model_close(icp_model *model); /* accepts NULL; its engines must be closed before */

/* A layer group's KV, for planning a capacity. */
typedef struct icp_model_group {
    icp_group_kind kind;
    uint32_t window; /* tokens; WINDOW only */
    uint32_t layer_count;
    uint32_t kv_head_count;
    uint32_t head_dim;
} icp_model_group;

/* What the file says. Texts are the model's and live as long as it. */
typedef struct icp_model_facts {
    size_t struct_size;
    const char *path; /* "built-in" */
    const char *name;
    const char *architecture;
    const char *type;      /* of most weights: "Q8_0" */
    const char *tokenizer; /* "gpt2, pre qwen2" */
    uint64_t file_bytes;
    uint64_t weight_bytes;
    uint64_t parameter_count;
    uint32_t file_version;
    uint32_t layer_count, width, hidden_width, head_count, kv_head_count, head_dim;
    uint32_t vocabulary;
    uint32_t context_max;
    uint32_t group_count;
    icp_model_group groups[2];
    uint32_t bos, eos; /* ICP_TOKEN_NONE: it has none */
    int has_chat_template;
} icp_model_facts;

static inline void icp_model_facts_init(icp_model_facts *facts)
{
    memset(facts, 0, sizeof(*facts));
    facts->struct_size = sizeof(*facts);
}

ICP_API ICP_MUST_USE icp_status icp_model_get_facts(const icp_model *model, icp_model_facts *facts);

/* How KV is kept. */
typedef enum icp_kv_format { ICP_KV_FORMAT_F16, ICP_KV_FORMAT_F32, ICP_KV_FORMAT_Q8_0 } icp_kv_format;

/* Bytes of KV that one token takes in a group. */
ICP_API uint64_t icp_model_kv_bytes(const icp_model *model, uint32_t group, icp_kv_format format);

/* Metadata and tensors, one by one, as text for people: "general.name" "string" "My model". *value is cut to
 * value_bytes; long arrays are shortened. NOT_FOUND: past the end. */
ICP_API ICP_MUST_USE icp_status icp_model_pair(const icp_model *model, uint32_t index, char *key, size_t key_bytes,
                                               char *value, size_t value_bytes);
typedef struct icp_model_tensor {
    char name[128];
    const char *type;
    uint32_t dimension_count;
    uint64_t shape[4]; /* shape[0] is contiguous */
    uint64_t bytes;
} icp_model_tensor;
ICP_API ICP_MUST_USE icp_status icp_model_tensor_at(const icp_model *model, uint32_t index, icp_model_tensor *tensor);

/* Text to tokens. Control tokens are made of text only with ICP_TOKENIZE_SPECIAL, for text that is trusted. Writes
 * up to count_max ids, *count tells how many there are. TOO_LONG: more than fit. */
#define ICP_TOKENIZE_BOS 1u     /* BOS (and EOS) where the model wants them */
#define ICP_TOKENIZE_SPECIAL 2u /* "<|im_end|>" in the text is that token */
ICP_API ICP_MUST_USE icp_status icp_model_tokenize(const icp_model *model, const char *text, size_t bytes,
                                                   uint32_t flags, uint32_t *tokens, size_t count_max, size_t *count);

/* Tokens to text; control tokens come out as their text with ICP_TOKENIZE_SPECIAL, and not at all without. Writes up
 * to bytes_max bytes, no 0 at the end. TOO_LONG: more than fit, *bytes tells how many. */
ICP_API ICP_MUST_USE icp_status icp_model_detokenize(const icp_model *model, const uint32_t *tokens, size_t count,
                                                     uint32_t flags, char *text, size_t bytes_max, size_t *bytes);

/* A conversation as tokens, by the model's chat template. messages is a JSON array of {"role", "content"}; tools a JSON
 * array or NULL; variables a JSON object or NULL. Text of a message never becomes a control token. */
typedef struct icp_chat {
    size_t struct_size;
    const char *messages;
    size_t messages_bytes;
    const char *tools;
    size_t tools_bytes;
    const char *variables;
    size_t variables_bytes;
    int is_prompt_left_out; /* 0: the prompt ends where the assistant's answer begins */
    int64_t now;            /* seconds since 1970, for templates that write the date */
} icp_chat;

static inline void icp_chat_init(icp_chat *chat)
{
    memset(chat, 0, sizeof(*chat));
    chat->struct_size = sizeof(*chat);
}

/* NOT_FOUND: the model has no template. BAD_ARGUMENT: JSON or template, error has a sentence. TOO_LONG: more tokens
 * than count_max; *count tells how many. */
ICP_API ICP_MUST_USE icp_status icp_model_chat(const icp_model *model, const icp_chat *chat, uint32_t *tokens,
                                               size_t count_max, size_t *count, icp_error *error);
/* The same as text, cut to bytes_max, *bytes tells its length. */
ICP_API ICP_MUST_USE icp_status icp_model_chat_text(const icp_model *model, const icp_chat *chat, char *text,
                                                    size_t bytes_max, size_t *bytes, icp_error *error);

/* ---- Ring 1: an engine ---------------------------------------------------------------------------------- */

typedef struct icp_engine icp_engine;

/* Told while the weights are loaded. */
typedef void icp_progress_fn(void *context, uint64_t bytes_done, uint64_t bytes_total);

typedef struct icp_engine_options {
    size_t struct_size;
    uint32_t thread_count;       /* [the machine's cores] */
    icp_kv_format kv_format;     /* [F16] */
    uint64_t kv_bytes;           /* of all KV blocks [half of the memory that is free after the weights, or enough for
                                    sequence_count_max whole contexts where that is less] */
    uint32_t block_tokens;       /* tokens per block, a multiple of 16 [16] */
    uint32_t step_tokens;        /* tokens computed in one step at most [512, or sequence_count_max if that is more] */
    uint32_t sequence_count_max; /* sequences that run at once [64] */
    uint32_t queue_count_max;    /* sequences that wait; each branch of a request takes a place [1024] */
    uint32_t
        context_tokens_max;   /* of one sequence, prompt and output [the model's, but no more than fits in the pool] */
    int is_cache_off;         /* nothing is found again: for comparing */
    uint32_t tail_tokens_min; /* as in icp_cache_options [1] */
    icp_policy_kind policy;   /* what leaves the cache first [default] */
    uint32_t scope_count_max; /* tenants, adapters and salts at once [256] */
    uint32_t adapter_count_max; /* LoRA adapters loaded at once [16] */
    uint64_t seed;              /* of the cache's hash: a random one where prompts come from strangers */
    icp_event_fn *cache_event;  /* told of every change to what can be found [none] */
    void *cache_event_context;
    icp_progress_fn *progress; /* [none] */
    void *progress_context;
} icp_engine_options;

static inline void icp_engine_options_init(icp_engine_options *options)
{
    memset(options, 0, sizeof(*options));
    options->struct_size = sizeof(*options);
}

/* Loads the weights and takes the memory for KV. The model must outlive the engine. NO_MEMORY: error says how much was
 * wanted. BAD_ARGUMENT: an option. */
ICP_API ICP_MUST_USE icp_status icp_engine_open(icp_engine **out, const icp_model *model,
                                                const icp_engine_options *options, icp_error *error);
ICP_API void icp_engine_close(icp_engine *engine); /* whatever runs; accepts NULL */

/* ---- Ring 1: requests ----------------------------------------------------------------------------------- */

#define ICP_LOGPROB_COUNT_MAX 20u
#define ICP_STOP_COUNT_MAX 16u
#define ICP_STOP_BYTES_MAX 256u /* of one stop string */
#define ICP_BIAS_COUNT_MAX 1024u
#define ICP_BRANCH_COUNT_MAX 64u

typedef struct icp_bias {
    uint32_t token;
    float bias; /* added to its logit; -100 or less bans it */
} icp_bias;

/* How the next token is chosen. All zero but temperature: the model's own distribution. */
typedef struct icp_sampling {
    float temperature;        /* 0: greedy, the likeliest token; up to 100 */
    uint32_t top_k;           /* the likeliest k; 0: all */
    float top_p;              /* the likeliest that sum up to p; 0 or 1: all */
    float min_p;              /* at least p times as likely as the likeliest; 0: all */
    float repetition_penalty; /* tokens that were there: logit divided by it, multiplied if negative; 0, 1: none */
    float presence_penalty;   /* taken from logits of tokens generated before, -2 to 2 */
    float frequency_penalty;  /* ... for each time */
    uint64_t seed;
    uint32_t logprob_count; /* candidates to report with each token, up to ICP_LOGPROB_COUNT_MAX */
    int is_logprob_wanted;  /* report the token's own, even with logprob_count 0 */
    const icp_bias *biases; /* copied at submit */
    uint32_t bias_count;
} icp_sampling;

typedef struct icp_candidate {
    uint32_t token;
    float logprob;
} icp_candidate;

typedef struct icp_stop {
    const char *text;
    size_t bytes;
} icp_stop;

typedef uint64_t icp_job; /* a request that was submitted; 0 is never one */

/* Copied at submit, all of it. */
typedef struct icp_submission {
    size_t struct_size;
    const uint32_t *tokens; /* the prompt, at least one token */
    size_t token_count;
    icp_sampling sampling;
    uint32_t branch_count;      /* n: answers to the same prompt, which is computed once; with ICP_NO_STORE or the cache
                                   off, once for each [1] */
    uint32_t output_tokens_max; /* [as many as the context has room for] */
    uint32_t output_tokens_min; /* no end of generation before */
    int is_eos_ignored;         /* the end-of-generation token does not end it */
    const icp_stop *stops;      /* the text ends before the first of these; each valid UTF-8 */
    uint32_t stop_count;
    const uint32_t *stop_tokens; /* ... or with one of these, whose text is left out */
    uint32_t stop_token_count;
    int is_stop_shown;    /* a stop string is part of the text */
    int is_special_shown; /* control tokens come out as their text */
    int32_t priority;     /* lower is let in first, and keeps its blocks; equal ones first come, first served. One that
                             runs is not stopped for one that waits */
    uint32_t flags;       /* ICP_NO_READ (what the request has computed itself is read all the same), ICP_NO_STORE */
    const char *adapter;  /* a LoRA adapter that was loaded; NULL or "": none */
    const char *tenant;   /* part of the scope: tenants never share */
    const char *salt;
    const icp_extra *extras; /* see icp_text; within the prompt */
    size_t extra_count;
    void *context; /* the caller's, comes back with each output */
} icp_submission;

static inline void icp_submission_init(icp_submission *submission)
{
    memset(submission, 0, sizeof(*submission));
    submission->struct_size = sizeof(*submission);
}

/* Takes a request in. FULL: the queue is full, try later. TOO_LONG: prompt and output_tokens_max do not fit the
 * context. NOT_FOUND: no such adapter. BAD_ARGUMENT: error (may be NULL) says what. TOO_MANY_SCOPES. */
ICP_API ICP_MUST_USE icp_status icp_engine_submit(icp_engine *engine, const icp_submission *submission, icp_job *job,
                                                  icp_error *error);

/* Ends a request at once, wherever it is; its branches that still run come out of poll as CANCELLED. STALE: it has
 * ended. */
ICP_API ICP_MUST_USE icp_status icp_engine_cancel(icp_engine *engine, icp_job job);

/* What one step did. */
typedef struct icp_step_info {
    size_t struct_size;
    int is_idle;             /* there is nothing to do: nothing runs and nothing waits */
    uint32_t row_count;      /* tokens computed */
    uint32_t prefill_count;  /* of these: of prompts */
    uint32_t sequence_count; /* sequences that took part */
    uint32_t running_count;  /* after the step */
    uint32_t waiting_count;
    uint32_t preempted_count; /* in this step */
} icp_step_info;

static inline void icp_step_info_init(icp_step_info *info)
{
    memset(info, 0, sizeof(*info));
    info->struct_size = sizeof(*info);
}

/* Plans, computes, samples and commits one batch. info may be NULL. FULL: outputs of the step before are not polled.
 * Another status: the device failed; what the step had published was taken back, every request goes on as if
 * the step had not been, and the step may be tried again. */
ICP_API ICP_MUST_USE icp_status icp_engine_step(icp_engine *engine, icp_step_info *info);

typedef enum icp_finish {
    ICP_FINISH_NONE,   /* it goes on */
    ICP_FINISH_STOP,   /* end of generation, a stop string or a stop token */
    ICP_FINISH_LENGTH, /* output_tokens_max; or pins and quotas leave it no blocks, even alone */
    ICP_FINISH_CANCELLED,
    ICP_FINISH_COUNT
} icp_finish;

/* A token of one branch, or its end, or both. */
typedef struct icp_output {
    size_t struct_size;
    icp_job job;
    uint32_t branch;
    void *context;
    uint32_t token; /* ICP_TOKEN_NONE: none, only the end */
    float logprob;  /* where it was asked for */
    uint32_t candidate_count;
    icp_candidate candidates[ICP_LOGPROB_COUNT_MAX];
    const char *text; /* what may be shown now: whole characters, nothing that may yet turn out to be a stop string;
                         valid until the next step or cancel; not terminated by a 0 */
    size_t text_bytes;
    icp_finish finish;
    const char *stop_text; /* the stop string that ended it, or NULL */
    uint32_t stop_token;   /* the one of stop_tokens that ended it; ICP_TOKEN_NONE: none */
    int is_last;           /* of the job: all branches have ended, the job's handle is stale */
    uint32_t prompt_tokens;
    uint32_t cached_tokens; /* of the prompt, when it was first scheduled */
    uint32_t output_tokens; /* of this branch so far */
    uint32_t preempted_count;
} icp_output;

static inline void icp_output_init(icp_output *output)
{
    memset(output, 0, sizeof(*output));
    output->struct_size = sizeof(*output);
}

/* The next output. NOT_FOUND: no more for now. */
ICP_API ICP_MUST_USE icp_status icp_engine_poll(icp_engine *engine, icp_output *output);

/* ---- Ring 2: adapters, statistics, the cache ------------------------------------------------------------ */

/* A LoRA adapter from a GGUF file, under a name. BAD_ARGUMENT: it does not fit the model, or the name is taken. FULL.
 * */
ICP_API ICP_MUST_USE icp_status icp_engine_adapter_load(icp_engine *engine, const char *name, const char *path,
                                                        icp_error *error);
/* NOT_FOUND. FULL: a request uses it. What is cached under it is forgotten. */
ICP_API ICP_MUST_USE icp_status icp_engine_adapter_unload(icp_engine *engine, const char *name);

typedef struct icp_engine_stats {
    size_t struct_size;
    /* Since open. */
    uint64_t step_count;
    uint64_t submitted_count, finished_count, cancelled_count, refused_count;
    uint64_t preempted_count;
    uint64_t failed_step_count;
    uint64_t prompt_tokens;     /* of requests that were scheduled */
    uint64_t cached_tokens;     /* of these: found in the cache */
    uint64_t computed_tokens;   /* rows that went through the model */
    uint64_t recomputed_tokens; /* of these: computed before by the same request, then preempted and evicted */
    uint64_t output_tokens;
    uint64_t copied_blocks; /* tail copies */
    /* Now. */
    uint32_t running_count, waiting_count;
    uint32_t context_tokens_max;
    uint32_t block_tokens;
    uint64_t block_count[2]; /* by group */
    uint64_t kv_bytes;
    uint64_t weight_bytes; /* in memory, as repacked */
    uint64_t row_bytes;    /* activations and logits */
    const char *device;    /* "aarch64 i8mm, 2 threads" */
} icp_engine_stats;

static inline void icp_engine_stats_init(icp_engine_stats *stats)
{
    memset(stats, 0, sizeof(*stats));
    stats->struct_size = sizeof(*stats);
}

ICP_API ICP_MUST_USE icp_status icp_engine_statistics(const icp_engine *engine, icp_engine_stats *stats);

/* The engine's cache, for statistics, explain, pins, quotas and dumps; leases are the engine's affair. */
ICP_API icp_cache *icp_engine_cache(icp_engine *engine);

/* The request that a submission would make of the cache, for icp_cache_explain and icp_cache_pin. The scope is opened
 * and wants a close. */
ICP_API ICP_MUST_USE icp_status icp_engine_cache_request(icp_engine *engine, const icp_submission *submission,
                                                         icp_request *request);

/* ---- Ring 3: for tests of the engine itself ------------------------------------------------------------- */

/* Logits of the last step's outputs, in the order of poll: what sampling saw. NULL: no such output. Valid until the
 * next step. */
ICP_API const float *icp_engine_logits(const icp_engine *engine, icp_job job, uint32_t branch);

#ifdef __cplusplus
}
#endif

#endif
