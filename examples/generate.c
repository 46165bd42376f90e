/* generate.c - the engine in one page: open a model, submit a prompt, step, poll, close.
 *
 *     generate [FILE.gguf [PROMPT]]      without a file, the built-in model */
#include <incipit/engine.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PROMPT_TOKENS_MAX 512

static void must(icp_status status, const icp_error *error)
{
    if (status == ICP_OK) return;
    fprintf(stderr, "%s: %s\n", icp_status_name(status), error->text);
    exit(1);
}

/* Prints what a job gives as it comes; returns when all of it came. */
static void run(icp_engine *engine)
{
    icp_error none = {"the device failed"};
    icp_output output;
    icp_output_init(&output);
    for (int is_last = 0; !is_last;) {
        must(icp_engine_step(engine, NULL), &none); /* one token for everyone who runs */
        while (icp_engine_poll(engine, &output) == ICP_OK) {
            fwrite(output.text, 1, output.text_bytes, stdout);
            fflush(stdout);
            is_last = output.is_last;
        }
    }
    printf("\n  [%u tokens of prompt, %u of them cached, %u of output]\n", output.prompt_tokens, output.cached_tokens,
           output.output_tokens);
}

int main(int argc, char **argv)
{
    icp_error error = {""};
    icp_model *model;
    must(icp_model_open(&model, argc > 1 ? argv[1] : NULL, &error), &error);

    icp_engine *engine;
    must(icp_engine_open(&engine, model, NULL, &error), &error);

    const char *text = argc > 2 ? argv[2] : "A prefix cache is";
    uint32_t tokens[PROMPT_TOKENS_MAX];
    size_t count;
    must(icp_model_tokenize(model, text, strlen(text), ICP_TOKENIZE_BOS, tokens, PROMPT_TOKENS_MAX, &count), &error);

    for (int i = 0; i < 2; i++) { /* the second time, the prompt is cached */
        icp_submission submission;
        icp_submission_init(&submission);
        submission.tokens = tokens;
        submission.token_count = count;
        submission.output_tokens_max = 24;
        icp_job job;
        must(icp_engine_submit(engine, &submission, &job, &error), &error);
        printf("%s", text);
        run(engine);
    }
    icp_engine_close(engine);
    icp_model_close(model);
    return 0;
}
