/* questions.c - many questions on one document, all at once: the document is computed once.
 *
 * Eight requests begin with the same text and are submitted together. The engine lets the first compute it and the
 * others share its blocks, then answers all of them side by side. */
#include <incipit/engine.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define QUESTIONS 8
#define TOKENS_MAX 900

static void must(icp_status status, const icp_error *error)
{
    if (status == ICP_OK) return;
    fprintf(stderr, "%s: %s\n", icp_status_name(status), error->text);
    exit(1);
}

static const char *const questions[QUESTIONS] = {
    "Which command copies files?",
    "Which command lists open files?",
    "What is grep?",
    "What is tar?",
    "What is ripgrep?",
    "Which command shows processes?",
    "What is sed?",
    "What is a kernel?",
};

static void submit(icp_engine *engine, const icp_model *model, const char *document, const char *question)
{
    char text[8192];
    uint32_t tokens[TOKENS_MAX];
    size_t count;
    icp_error error = {"the text is too long"};
    int bytes = snprintf(text, sizeof(text), "%s\nQuestion: %s\nAnswer:", document, question);
    must(icp_model_tokenize(model, text, (size_t)bytes, ICP_TOKENIZE_BOS, tokens, TOKENS_MAX, &count), &error);

    icp_submission submission;
    icp_submission_init(&submission);
    submission.tokens = tokens;
    submission.token_count = count;
    submission.output_tokens_max = 8;
    icp_job job;
    must(icp_engine_submit(engine, &submission, &job, &error), &error);
}

int main(void)
{
    icp_error error = {""};
    icp_model *model;
    icp_engine *engine;
    must(icp_model_open(&model, NULL, &error), &error);
    must(icp_engine_open(&engine, model, NULL, &error), &error);

    static const char sentence[] = "Unix programs do one thing and do it well. They read text. ";
    char document[35 * (sizeof(sentence) - 1) + 1] = "";
    for (size_t i = 0; i < 35; i++) memcpy(document + i * (sizeof(sentence) - 1), sentence, sizeof(sentence));
    for (int i = 0; i < QUESTIONS; i++) submit(engine, model, document, questions[i]);

    icp_step_info info;
    icp_output output;
    icp_step_info_init(&info);
    icp_output_init(&output);
    uint32_t sent = 0;
    do {
        must(icp_engine_step(engine, &info), &error);
        printf("step of %4u tokens for %u sequences, %u wait\n", info.row_count, info.sequence_count,
               info.waiting_count);
        while (icp_engine_poll(engine, &output) == ICP_OK) {
            if (output.finish != ICP_FINISH_NONE) sent += output.prompt_tokens + output.output_tokens;
        }
    } while (!info.is_idle);

    icp_engine_stats stats;
    icp_engine_stats_init(&stats);
    must(icp_engine_statistics(engine, &stats), &error);
    printf("%u tokens of prompts and answers, %llu of them computed\n", sent,
           (unsigned long long)stats.computed_tokens);
    icp_engine_close(engine);
    icp_model_close(model);
    return 0;
}
