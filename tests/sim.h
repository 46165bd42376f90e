/* sim.h - the deterministic simulation: the engine, the cache and the forward pass on a backend of integers.
 *
 * A world is drawn from a seed: a model (full attention, windows, both), sizes of blocks, pools and steps, mostly tiny,
 * cache options. Then steps: requests arrive (fresh texts, shared beginnings, next turns of conversations, branches,
 * priorities, adapters, tenants, salts, flags), are cancelled, steps fail. After each step the cache is checked, blocks
 * that nobody holds are poisoned, and some work must have been done. In the end, and as each request ends, its
 * tokens, its text and how it ended must be those of sim_plain.c: one sequence at a time, no cache, no engine.
 *
 *     sim.c         a run: the loop and what is checked when
 *     sim_job.c     requests: drawn, submitted, compared
 *     sim_plain.c   what a request gives, worked out plainly
 *     sim_model.c   model files
 *     fake_backend.c
 *
 * Everything follows from the seed. One thread. */
#ifndef ICP_TESTS_SIM_H
#define ICP_TESTS_SIM_H

#include "engine/engine.h"
#include "fake_backend.h"
#include "sim_model.h"

#define SIM_CONTEXT_MAX 160u
#define SIM_BRANCH_MAX 4u
#define SIM_JOB_MAX 40u
#define SIM_HISTORY_MAX 12u
#define SIM_ADAPTER_MAX 2u
#define SIM_STOP_MAX 2u

typedef struct sim_random {
    uint64_t state;
} sim_random;

uint32_t sim_draw(sim_random *random, uint32_t bound); /* below bound */
bool sim_chance(sim_random *random, uint32_t times);   /* once in so many times; 0: never */

/* What one branch gave, or should give. */
typedef struct sim_answer {
    uint32_t tokens[SIM_CONTEXT_MAX];
    uint32_t count;
    char text[SIM_CONTEXT_MAX * 4];
    uint32_t text_bytes;
    icp_finish finish;
} sim_answer;

typedef struct sim_text {
    uint32_t tokens[SIM_CONTEXT_MAX];
    uint32_t count;
} sim_text;

/* A request as it was submitted, and what came of it. */
typedef struct sim_job {
    bool is_used;
    icp_job job;
    sim_text prompt;
    icp_submission submission;
    char stop_texts[SIM_STOP_MAX][4];
    icp_stop stops[SIM_STOP_MAX];
    uint32_t stop_tokens[1];
    uint32_t adapter; /* SIM_ADAPTER_MAX: none */
    char tenant[8], salt[8];
    sim_answer answers[SIM_BRANCH_MAX];
    uint32_t live_count;
    bool is_cancelled;
} sim_job;

/* ---- sim_plain.c ---- */

typedef struct sim_plain {
    icp_backend *backend;
    icp_transformer *transformer;
    icp_sampler *sampler;
    const icp_model *model;
    icp_adapter *adapters[SIM_ADAPTER_MAX];
    icp_gguf *adapter_files[SIM_ADAPTER_MAX];
} sim_plain;

void sim_plain_open(sim_plain *self, const icp_model *model, char (*paths)[64]);
void sim_plain_close(sim_plain *self);
void sim_plain_run(sim_plain *self, const sim_job *job, uint32_t branch, sim_answer *out);

/* ---- A world ---- */

typedef struct sim_config {
    sim_kind kind;
    uint32_t window;
    uint32_t context;
    uint32_t alphabet; /* different tokens in prompts */
    uint32_t arrival_every, cancel_every, fail_every, adapter_every;
    uint32_t job_max;
    icp_engine_options options;
} sim_config;

typedef struct sim {
    uint64_t seed;
    sim_random random;
    sim_config config;
    sim_model model;
    icp_backend *backend; /* the engine's */
    icp_engine *engine;
    sim_plain plain;
    char adapter_paths[SIM_ADAPTER_MAX][64];
    bool is_loaded[SIM_ADAPTER_MAX];
    sim_job jobs[SIM_JOB_MAX];
    sim_text history[SIM_HISTORY_MAX];
    uint32_t history_count; /* ever */
    uint64_t step;
    uint64_t failed_rows;
    char error[256]; /* "" so far */
    /* Of all worlds. */
    uint64_t step_count, world_count, job_count, token_count, cached_count, preempted_count, failed_count,
        cancelled_count, branch_count, computed_count;
} sim;

/* One world of about so many steps. False: error says what is wrong. */
bool sim_run(sim *self, uint64_t seed, uint32_t step_count);

/* ---- For the simulation's own files ---- */

bool sim_wrong(sim *self, const char *format, ...) __attribute__((format(printf, 2, 3))); /* false */
void sim_job_arrive(sim *self);
bool sim_job_output(sim *self, const icp_output *output);
void sim_job_cancel_some(sim *self, bool has_outputs);
uint32_t sim_job_live_count(const sim *self);

#endif
