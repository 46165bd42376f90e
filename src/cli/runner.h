/* runner.h - a model and an engine, opened as the command line says, and the loop around them.
 *
 * What can go wrong is said where it happens, on standard error, and comes back as an exit status. One thread. */
#ifndef ICP_CLI_RUNNER_H
#define ICP_CLI_RUNNER_H

#include "cli/option.h"
#include "incipit/engine.h"

#include <jansson.h>
#include <signal.h>
#include <stdio.h>

typedef struct icp_runner {
    icp_model *model;
    icp_engine *engine;
    icp_model_facts facts;
    icp_engine_stats stats; /* as the engine was opened */
    const char *adapter;    /* of requests; NULL: none */
    size_t operand_first;   /* operands before it were the model */
    double load_s;
    bool is_quiet;
} icp_runner;

/* Opens the model; then the engine too. Whatever they return, the runner wants a close. */
int icp_runner_open_model(icp_runner *runner, const icp_arguments *arguments);
int icp_runner_open(icp_runner *runner, const icp_arguments *arguments);
void icp_runner_close(icp_runner *runner);

/* Three lines about model, device and memory. */
void icp_runner_describe(const icp_runner *runner, FILE *stream);
const char *icp_runner_kv_name(icp_kv_format format);

/* Set by whoever catches an interrupt: run then cancels its job. */
extern volatile sig_atomic_t icp_runner_is_interrupted;

/* Steps until nothing is left to do; each output goes to fn. job: what an interrupt cancels; 0: nothing. */
typedef void icp_output_fn(void *context, const icp_output *output);
int icp_runner_run(icp_runner *runner, icp_job job, icp_output_fn *fn, void *context);

/* Sampling, limits and stops of the command line. It holds what the submission points to. */
typedef struct icp_recipe {
    icp_submission submission;
    uint32_t output_tokens_max;
    icp_bias biases[ICP_REPEAT_COUNT_MAX];
    icp_stop stops[ICP_STOP_COUNT_MAX];
    uint32_t stop_tokens[ICP_REPEAT_COUNT_MAX];
} icp_recipe;

int icp_recipe_read(icp_recipe *recipe, const icp_runner *runner, const icp_arguments *arguments);
typedef struct icp_tokens {
    uint32_t *ids; /* free() them */
    size_t count;
} icp_tokens;

/* The submission of a prompt. Fails where the prompt is empty or does not fit the context; the label names it. */
int icp_recipe_prompt(icp_recipe *recipe, const icp_runner *runner, const icp_tokens *tokens, const char *label);

/* A text of the command line: the operands from first on, --file, or standard input. free() it. */
int icp_text_read(const icp_arguments *arguments, size_t first, char **text, size_t *bytes);
/* All of a file, - for standard input. free() it. */
int icp_file_read(const char *path, char **text, size_t *bytes);
/* Tokens of a text; numbers of a text. */
int icp_runner_tokenize(const icp_runner *runner, const char *text, size_t bytes, uint32_t flags, icp_tokens *out);
int icp_runner_numbers(const icp_runner *runner, const char *text, icp_tokens *out);

/* A JSON string; what is not UTF-8 becomes U+FFFD. */
json_t *icp_json_text(const char *text, size_t bytes);
/* Writes the value and a line end, and frees it. */
int icp_json_write(json_t *value, FILE *stream);

#endif
