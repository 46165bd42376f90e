/* engine.h - the inside of an engine: what its files share.
 *
 *      engine.c     open, close, step: read icp_engine_step first
 *      capacity.c   sizes: how many blocks of each group, how long a context
 *      job.c        submit: a request is checked and copied; jobs come and go
 *      scope.c      who shares with whom: scopes, LoRA adapters
 *      queue.c      who waits and who runs, in order
 *      sequence.c   one generation and its lease: match, extend, publish, release
 *      scheduler.c  plan: what the next step computes; and taking a failed step back
 *      batch.c      the plan as flat arrays
 *      commit.c     tokens after a step: append, stop rules, branches, ends
 *      output.c     text as it may be shown: stop strings; poll
 *      model.c      icp_model, which has no engine in it (model_show.c: for people; builtin.c: the built-in one)
 *
 * A JOB is a request that was submitted; its branches are SEQUENCES. A sequence is in one state:
 *
 *      BRANCHING ---> WAITING <---> RUNNING ---> ENDED        (cancel: from anywhere to ENDED)
 *      n > 1: until     heap by       list by      until the job's outputs were polled
 *      branch 0 has     urgency       urgency,
 *      the prompt                     has a lease
 *
 * Invariants: a sequence has a lease if and only if it is RUNNING. computed < token_count while it is WAITING or
 * RUNNING: the last token is known but not computed. Tokens [0, computed) have their KV in the lease's blocks. At most
 * one output of a sequence waits to be polled. Everything here belongs to the engine's owner thread. */
#ifndef ICP_ENGINE_ENGINE_H
#define ICP_ENGINE_ENGINE_H

#include "base/assert.h"
#include "engine/model.h"
#include "incipit/engine.h"
#include "model/sampler.h"

#define ICP_END_TOKEN_COUNT_MAX 64u /* of a vocabulary: end-of-generation tokens that are known */
#define ICP_ADAPTER_NAME_BYTES_MAX 64u

typedef struct icp_job_record icp_job_record;
typedef struct icp_sequence icp_sequence;

typedef enum icp_sequence_state {
    ICP_SEQUENCE_BRANCHING,
    ICP_SEQUENCE_WAITING,
    ICP_SEQUENCE_RUNNING,
    ICP_SEQUENCE_ENDED,
} icp_sequence_state;

/* One generation. What a decode step touches comes first. */
struct icp_sequence {
    icp_job_record *job;
    icp_sequence *previous, *next; /* RUNNING: more urgent, less urgent */
    uint32_t *tokens;              /* prompt and output, with room up to a whole block */
    icp_lease lease;
    const uint32_t *tables[2]; /* the lease's, one per group */
    uint32_t token_count;      /* known */
    uint32_t computed;         /* KV is there */
    uint32_t chunk;            /* tokens that the plan computes; 0: it takes no part in the step */
    uint32_t branch;
    icp_sequence_state state;
    uint32_t heap_index;    /* WAITING */
    uint32_t computed_most; /* ever: more of it again is computed again */
    uint32_t cached;        /* by the last match */
    uint32_t preempted_count;
    bool is_matched;  /* once before: its next match is not counted */
    bool is_tail_due; /* the match's tail is to be copied when the lease is extended */
    bool is_padded;   /* the lease ends in a block published with padding: see sequence.c */
    bool has_yielded; /* it waited a step to share what another was computing */
    bool is_output_waiting;
    icp_sequence *output_next;
    uint64_t logit_step; /* when its logits were last seen, and where */
    uint32_t logit_row;

    /* Text that came out: [0, text_shown) is shown with this step's output, [text_shown, text_bytes) is held back. */
    icp_decoder decoder;
    char *text;
    uint32_t text_bytes, text_shown;
    uint16_t *stop_states; /* per stop string: bytes of it that the text ends in */
    icp_output output;
};

typedef struct icp_stop_string {
    const char *text;
    const uint16_t *failure; /* [bytes]: as Knuth, Morris and Pratt */
    uint32_t bytes;
} icp_stop_string;

/* A request. One piece of memory holds it and all it points to. */
struct icp_job_record {
    uint32_t index;       /* in engine->jobs */
    uint64_t serial;      /* order of arrival */
    icp_job_record *next; /* ended ones */
    void *context;
    int32_t priority;
    uint32_t flags;
    uint32_t scope; /* in engine->scopes */
    uint32_t prompt_count;
    uint32_t cached; /* of the prompt, when it was first scheduled */
    uint32_t output_max, output_min;
    uint32_t branch_count;
    uint32_t live_count;    /* branches that have not ended */
    uint32_t waiting_count; /* outputs that were not polled */
    bool is_scheduled;
    bool is_eos_ignored, is_stop_shown;
    icp_sampling sampling;
    icp_stop_string *stops;
    uint32_t stop_count;
    uint32_t *banned; /* end-of-generation tokens (unless they are ignored), then the stop tokens */
    uint32_t banned_count;
    uint32_t end_count; /* of these: end-of-generation tokens */
    icp_extra *extras;
    uint32_t extra_count;
    icp_sequence *sequences; /* [branch_count] */
};

/* A scope that the engine keeps open, whether or not a job uses it now. */
typedef struct icp_scope_entry {
    icp_scope scope; /* 0: the entry is free */
    uint32_t job_count;
    uint32_t adapter; /* in engine->adapters, or UINT32_MAX */
    uint64_t used;    /* serial of the last job */
} icp_scope_entry;

typedef struct icp_adapter_entry {
    icp_adapter *adapter; /* NULL: the entry is free */
    icp_gguf *gguf;
    uint64_t serial; /* of the load: a name that is loaded again is another scope */
    uint32_t job_count;
    char name[ICP_ADAPTER_NAME_BYTES_MAX];
} icp_adapter_entry;

/* Sizes decided at open, see capacity.c. */
typedef struct icp_capacity {
    uint32_t context_tokens;
    uint32_t block_count[2];
    uint64_t kv_bytes;
} icp_capacity;

/* What the next step computes: sequences[i]->chunk tokens each. */
typedef struct icp_plan {
    icp_sequence **sequences; /* [sequence_count_max] */
    uint32_t sequence_count;
    uint32_t resident_count; /* of these, the first: they ran before */
    uint32_t row_count;
    uint32_t prefill_count;
    uint32_t decode_count; /* running sequences with one token to compute that are not planned yet */
    uint32_t preempted_count;
} icp_plan;

struct icp_engine {
    const icp_model *model;
    icp_backend *backend;
    icp_transformer *transformer;
    icp_sampler *sampler;
    icp_cache *cache;
    icp_engine_options options; /* with every default filled in */
    icp_capacity capacity;
    const icp_shape *shape;
    uint32_t end_tokens[ICP_END_TOKEN_COUNT_MAX];
    uint32_t end_token_count;

    icp_sequence **heap; /* WAITING, the most urgent first: [waiting_count_max] */
    uint32_t heap_count, heap_count_max;
    icp_sequence *running_first, *running_last;
    uint32_t running_count;
    uint32_t branching_count;
    bool is_admission_closed; /* from a preemption until a sequence ends */

    icp_job_record **jobs; /* [heap_count_max]; a free one holds NULL */
    uint32_t *generations; /* of their handles */
    uint32_t *free_jobs;   /* a stack of indexes */
    uint32_t free_job_count;
    icp_job_record *ended; /* jobs whose branches have all ended */
    uint64_t job_serial;

    icp_scope_entry *scopes; /* [scope_count_max] */
    icp_adapter_entry *adapters;
    uint64_t adapter_serial;

    icp_plan plan;
    icp_batch batch;
    uint32_t *batch_tokens, *batch_positions, *batch_outputs;
    icp_batch_sequence *batch_sequences;
    const icp_adapter **batch_adapters;
    const float *logits; /* of the last step */

    icp_sequence *output_first, *output_last;
    icp_engine_stats stats;
    void *memory; /* of all arrays above */
    size_t memory_bytes;
};

/* engine.c */
/* As icp_engine_open, on a backend of the caller's, which becomes the engine's, even where this fails. */
icp_status icp_engine_open_on(icp_engine **out, const icp_model *model, icp_backend *backend,
                              const icp_engine_options *options, icp_error *error);
icp_status icp_fail(icp_error *error, icp_status status, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* capacity.c */

/* block_bytes: of one block of each group. */
icp_status icp_capacity_decide(icp_capacity *out, const icp_engine *engine, const uint64_t *block_bytes,
                               uint64_t free_bytes, icp_error *error);
uint64_t icp_capacity_free_bytes(void);

/* job.c */
icp_job_record *icp_job_find(const icp_engine *engine, icp_job job); /* NULL: stale */
void icp_job_reap(icp_engine *engine);                               /* forgets ended jobs whose outputs were polled */
void icp_job_end_branch(icp_engine *engine, icp_job_record *job, icp_finish how);

/* scope.c */
icp_status icp_engine_scope_acquire(icp_engine *engine, const icp_submission *submission, uint32_t *entry,
                                    icp_error *error);
void icp_engine_scope_release(icp_engine *engine, uint32_t entry);
icp_status icp_engine_scope_key(const icp_engine *engine, const icp_submission *submission, icp_scope_key *key,
                                char *text, size_t text_bytes);
void icp_engine_adapters_close(icp_engine *engine);

/* queue.c */
void icp_queue_push(icp_engine *engine, icp_sequence *sequence); /* it waits */
icp_sequence *icp_queue_pop(icp_engine *engine);                 /* the most urgent; NULL: none waits */
void icp_queue_remove(icp_engine *engine, icp_sequence *sequence);
void icp_running_add(icp_engine *engine, icp_sequence *sequence);
void icp_running_remove(icp_engine *engine, icp_sequence *sequence);

/* sequence.c */
icp_status icp_sequence_match(icp_engine *engine, icp_sequence *sequence);
icp_status icp_sequence_extend(icp_engine *engine, icp_sequence *sequence, uint32_t chunk);
bool icp_sequence_may_share_more(const icp_engine *engine, const icp_sequence *sequence);
void icp_sequence_publish_end(icp_engine *engine, icp_sequence *sequence);
void icp_sequence_unpublish(icp_engine *engine, icp_sequence *sequence);
icp_status icp_sequence_retreat(icp_engine *engine, icp_sequence *sequence);
void icp_sequence_release(icp_engine *engine, icp_sequence *sequence);

/* scheduler.c */
void icp_scheduler_plan(icp_engine *engine);
void icp_scheduler_undo(icp_engine *engine); /* the step failed */

/* batch.c */
void icp_batch_fill(icp_engine *engine);

/* commit.c */
void icp_commit_sample(icp_engine *engine);
void icp_commit(icp_engine *engine);
/* Ends a sequence wherever it is, with an output that says so. */
void icp_commit_end(icp_engine *engine, icp_sequence *sequence, icp_finish finish);

/* output.c */
void icp_output_start(icp_sequence *sequence, const icp_tokenizer *tokenizer, bool is_special_shown);
/* The text of a token joins the stream; NULL, or the stop string that it completes. */
const icp_stop_string *icp_output_text(icp_sequence *sequence, uint32_t token);
const icp_stop_string *icp_output_flush(icp_sequence *sequence);
size_t icp_output_room(const icp_tokenizer *tokenizer, size_t stop_bytes_max); /* of a sequence's text */
void icp_output_add(icp_engine *engine, icp_sequence *sequence);
void icp_stop_prepare(const char *text, uint32_t bytes, uint16_t *failure);

#endif
