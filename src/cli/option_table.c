/* option_table.c - the two tables: every verb and every option of the program, with the words about them.
 *
 * To add an option: a name in icp_option_id, a row here, and its use. --help, the manual page (make man) and the
 * completions follow. Rows of one section stand together, in the order of --help. */
#include "cli/option.h"

#define CHAT (1u << ICP_VERB_CHAT)
#define COMPLETE (1u << ICP_VERB_COMPLETE)
#define INSPECT (1u << ICP_VERB_INSPECT)
#define TOKENIZE (1u << ICP_VERB_TOKENIZE)
#define BENCH (1u << ICP_VERB_BENCH)
#define RUNS (CHAT | COMPLETE)
#define ENGINE (RUNS | BENCH)
#define MODEL (ENGINE | INSPECT | TOKENIZE)
#define ALL ((1u << ICP_VERB_COUNT) - 1)

const icp_verb icp_verbs[ICP_VERB_COUNT] = {
    [ICP_VERB_CHAT] =
        {"chat", "[MODEL.gguf]", "talk with a model, turn by turn",
         "Reads a line, streams the answer, and remembers the conversation. After each answer a line says how "
         "many tokens the prompt had, how many of them were in the cache, the time to the first token and the "
         "tokens per second after it.\n\n"
         "Ctrl-C ends an answer, Ctrl-D the program. Lines that begin with / are commands: /help lists them. "
         "Standard input may be a file or a pipe.",
         icp_chat_run},
    [ICP_VERB_COMPLETE] =
        {"complete", "[MODEL.gguf] [PROMPT]...", "continue a text",
         "The prompt is the words given, the file of --file, or standard input. With --batch every line of a "
         "file is a prompt; they run together and what they share is computed once.",
         icp_complete_run},
    [ICP_VERB_INSPECT] =
        {"inspect", "[MODEL.gguf]", "what a model file holds, and how much fits in memory",
         "Shows the architecture, the size, the vocabulary and the bytes of KV per token, and how many tokens, "
         "blocks and conversations fit in a given memory.",
         icp_inspect_run},
    [ICP_VERB_TOKENIZE] =
        {"tokenize", "[MODEL.gguf] [TEXT]...", "text to tokens, or tokens to text",
         "The text is the words given, the file of --file, or standard input. With --decode the words are "
         "token numbers, and their text is written as it is.",
         icp_tokenize_run},
    [ICP_VERB_BENCH] =
        {"bench", "[MODEL.gguf]", "measure prefill, decode, time to first token, sharing and batches",
         "Tokens per second at several lengths and contexts, the time to the first token with and without the "
         "cache, the tokens that requests with a common prompt compute, decoding in batches, and the read "
         "bandwidth of this machine in the same run, which decoding is bound by. Each figure is the best of "
         "--repeat rounds.",
         icp_bench_run},
    [ICP_VERB_HELP] = {"help", "[VERB]", "how to use the program, or one verb", "", icp_help_run},
    [ICP_VERB_VERSION] = {"version", "", "the version of the program", "", icp_version_run},
    [ICP_VERB_COMPLETION] =
        {"completion", "bash|zsh|fish", "a script that completes words in a shell",
         "For bash: source <(incipit completion bash). For zsh: incipit completion zsh > a file _incipit in a "
         "folder of $fpath. For fish: incipit completion fish | source.",
         icp_completion_run},
    [ICP_VERB_MAN] = {"man", "", "the manual page, as roff", "Read it with: incipit man | man -l -", icp_man_run},
};

#define MODEL_SECTION "Model and engine"
#define SAMPLING_SECTION "Choosing tokens"
#define LENGTH_SECTION "Length and number"
#define TEXT_SECTION "Input and output"
#define BENCH_SECTION "Measuring"
#define OTHER_SECTION "Other"
#define FLAG ICP_OPTION_TYPE_FLAG, NULL
#define COUNT(argument) ICP_OPTION_TYPE_COUNT, argument
#define NUMBER(argument) ICP_OPTION_TYPE_NUMBER, argument
#define MANY 4294967295.0

const icp_option icp_options[ICP_OPTION_COUNT] = {
    [ICP_OPTION_MODEL] = {"model", 'm', ICP_OPTION_TYPE_FILE, "FILE", MODEL_SECTION, MODEL,
                          .shown = "the built-in model", .help = "A GGUF file, or any part of a split one."},
    [ICP_OPTION_THREADS] = {"threads", 't', COUNT("N"), MODEL_SECTION, ENGINE, .low = 1, .high = 1024,
                            .shown = "the machine's cores", .help = "Threads to compute with."},
    [ICP_OPTION_CONTEXT] = {"context", 'c', COUNT("N"), MODEL_SECTION, ENGINE, .low = 16, .high = MANY,
                            .shown = "what the model allows and the memory holds",
                            .help = "Tokens of one conversation, prompt and answer together."},
    [ICP_OPTION_KV_TYPE] = {"kv-type", 0, ICP_OPTION_TYPE_CHOICE, "TYPE", MODEL_SECTION, ENGINE,
                            .choices = "f16 f32 q8_0", .fallback = "f16", .help = "How keys and values are kept."},
    [ICP_OPTION_KV_SIZE] = {"kv-size", 0, ICP_OPTION_TYPE_SIZE, "SIZE", MODEL_SECTION, ENGINE,
                            .shown = "half of the free memory at most", .help = "Memory for keys and values."},
    [ICP_OPTION_BLOCK_TOKENS] = {"block-tokens", 0, COUNT("N"), MODEL_SECTION, ENGINE | INSPECT, .low = 16,
                                 .high = 1024, .fallback = "16",
                                 .help = "Tokens per block of the cache, a multiple of 16."},
    [ICP_OPTION_STEP_TOKENS] = {"step-tokens", 0, COUNT("N"), MODEL_SECTION, ENGINE, .low = 1, .high = 65536,
                                .fallback = "512",
                                .help = "Tokens computed in one step at most; longer prompts take several."},
    [ICP_OPTION_SEQUENCES] = {"sequences", 0, COUNT("N"), MODEL_SECTION, COMPLETE | BENCH, .low = 1, .high = 65536,
                              .fallback = "64", .help = "Answers that are computed at the same time at most."},
    [ICP_OPTION_NO_CACHE] = {"no-cache", 0, FLAG, MODEL_SECTION, ENGINE,
                             .help = "Nothing computed is found again: for comparing."},
    [ICP_OPTION_LORA] = {"lora", 0, ICP_OPTION_TYPE_TEXT, "NAME=FILE", MODEL_SECTION, RUNS, .is_repeated = true,
                         .help = "Loads a LoRA adapter from a GGUF file, under a name."},
    [ICP_OPTION_ADAPTER] = {"adapter", 0, ICP_OPTION_TYPE_TEXT, "NAME", MODEL_SECTION, RUNS,
                            .shown = "the first that --lora names", .help = "The adapter to use; none: without one."},

    [ICP_OPTION_TEMPERATURE] = {"temperature", 'T', NUMBER("X"), SAMPLING_SECTION, RUNS, .low = 0, .high = 100,
                                .fallback = "0",
                                .help = "0 takes the likeliest token each time; 1 follows the model's probabilities."},
    [ICP_OPTION_TOP_K] = {"top-k", 0, COUNT("N"), SAMPLING_SECTION, RUNS, .low = 0, .high = MANY, .shown = "all",
                          .help = "Only the N likeliest tokens."},
    [ICP_OPTION_TOP_P] = {"top-p", 0, NUMBER("P"), SAMPLING_SECTION, RUNS, .low = 0, .high = 1, .shown = "all",
                          .help = "Only the likeliest tokens that have P of the probability together."},
    [ICP_OPTION_MIN_P] = {"min-p", 0, NUMBER("P"), SAMPLING_SECTION, RUNS, .low = 0, .high = 1, .shown = "all",
                          .help = "Only tokens that are at least P times as likely as the likeliest."},
    [ICP_OPTION_REPETITION_PENALTY] = {"repetition-penalty", 0, NUMBER("X"), SAMPLING_SECTION, RUNS, .low = 0,
                                       .high = 100, .fallback = "1",
                                       .help = "Above 1, tokens that were there before are less likely."},
    [ICP_OPTION_PRESENCE_PENALTY] = {"presence-penalty", 0, NUMBER("X"), SAMPLING_SECTION, RUNS, .low = -2, .high = 2,
                                     .fallback = "0", .help = "Taken from the logit of tokens that the answer has."},
    [ICP_OPTION_FREQUENCY_PENALTY] = {"frequency-penalty", 0, NUMBER("X"), SAMPLING_SECTION, RUNS, .low = -2, .high = 2,
                                      .fallback = "0", .help = "The same for each time that the answer has the token."},
    [ICP_OPTION_LOGIT_BIAS] = {"logit-bias", 0, ICP_OPTION_TYPE_TEXT, "TOKEN=X", SAMPLING_SECTION, RUNS,
                               .is_repeated = true, .help = "Added to the logit of a token; -100 or less bans it."},
    [ICP_OPTION_SEED] = {"seed", 's', COUNT("N"), SAMPLING_SECTION, RUNS, .low = 0, .high = 18446744073709551615.0,
                         .shown = "another one each time", .help = "The same seed gives the same text."},

    [ICP_OPTION_MAX_TOKENS] = {"max-tokens", 'l', COUNT("N"), LENGTH_SECTION, RUNS, .low = 1, .high = MANY,
                               .fallback = "512", .help = "Tokens of an answer at most; less where the context ends."},
    [ICP_OPTION_MIN_TOKENS] = {"min-tokens", 0, COUNT("N"), LENGTH_SECTION, COMPLETE, .low = 0, .high = MANY,
                               .fallback = "0", .help = "The model cannot end its answer before."},
    [ICP_OPTION_STOP] = {"stop", 0, ICP_OPTION_TYPE_TEXT, "TEXT", LENGTH_SECTION, RUNS, .is_repeated = true,
                         .help = "The answer ends before this text."},
    [ICP_OPTION_STOP_TOKEN] = {"stop-token", 0, COUNT("ID"), LENGTH_SECTION, COMPLETE, .is_repeated = true, .low = 0,
                               .high = MANY, .help = "The answer ends with this token."},
    [ICP_OPTION_IGNORE_EOS] = {"ignore-eos", 0, FLAG, LENGTH_SECTION, COMPLETE,
                               .help = "The model's end of text does not end the answer."},
    [ICP_OPTION_N] = {"n", 'n', COUNT("N"), LENGTH_SECTION, COMPLETE, .low = 1, .high = 64, .fallback = "1",
                      .help = "Answers to the prompt, which is computed once."},

    [ICP_OPTION_FILE] = {"file", 'f', ICP_OPTION_TYPE_FILE, "FILE", TEXT_SECTION, COMPLETE | TOKENIZE,
                         .help = "Reads the text from a file; - is standard input."},
    [ICP_OPTION_BATCH] = {"batch", 'b', ICP_OPTION_TYPE_FILE, "FILE", TEXT_SECTION, COMPLETE,
                          .help = "Each line of the file is a prompt; all run together. - is standard input."},
    [ICP_OPTION_SYSTEM] = {"system", 'S', ICP_OPTION_TYPE_TEXT, "TEXT", TEXT_SECTION, CHAT,
                           .help = "The system message that a conversation begins with."},
    [ICP_OPTION_SPECIAL] = {"special", 0, FLAG, TEXT_SECTION, COMPLETE | TOKENIZE,
                            .help = "Control tokens are read from the text, and shown."},
    [ICP_OPTION_PROMPT_IDS] = {"prompt-ids", 0, FLAG, TEXT_SECTION, COMPLETE,
                               .help = "The prompt is token numbers, separated by spaces or commas."},
    [ICP_OPTION_RAW] = {"raw", 0, FLAG, TEXT_SECTION, COMPLETE, .help = "Writes token numbers, not their text."},
    [ICP_OPTION_ECHO] = {"echo", 0, FLAG, TEXT_SECTION, COMPLETE, .help = "Writes the prompt before the answer."},
    [ICP_OPTION_LOGPROBS] = {"logprobs", 0, COUNT("N"), TEXT_SECTION, COMPLETE, .low = 0, .high = 20,
                             .help =
                                 "Log-probabilities of each token and of the N likeliest in its place; wants --json."},
    [ICP_OPTION_JSON] = {"json", 'j', FLAG, TEXT_SECTION, COMPLETE | INSPECT | TOKENIZE,
                         .help =
                             "One JSON object instead of text: for complete, text, usage, cached tokens and times."},

    [ICP_OPTION_MEMORY] = {"memory", 0, ICP_OPTION_TYPE_SIZE, "SIZE", TEXT_SECTION, INSPECT,
                           .shown = "what is free now", .help = "The memory to fit weights and KV into."},
    [ICP_OPTION_TOKENS] = {"tokens", 0, COUNT("N"), TEXT_SECTION, INSPECT, .low = 1, .high = MANY,
                           .shown = "the model's context", .help = "Tokens of one conversation, for how many fit."},
    [ICP_OPTION_METADATA] = {"metadata", 0, FLAG, TEXT_SECTION, INSPECT, .help = "All metadata of the file."},
    [ICP_OPTION_TENSORS] = {"tensors", 0, FLAG, TEXT_SECTION, INSPECT,
                            .help = "All tensors: name, type, shape, bytes."},

    [ICP_OPTION_IDS] = {"ids", 'i', FLAG, TEXT_SECTION, TOKENIZE, .help = "Token numbers alone, in one line."},
    [ICP_OPTION_DECODE] = {"decode", 'd', FLAG, TEXT_SECTION, TOKENIZE,
                           .help = "The other way round: token numbers to text."},
    [ICP_OPTION_BOS] = {"bos", 0, FLAG, TEXT_SECTION, TOKENIZE,
                        .help = "With the token that begins a text, where the model has one."},

    [ICP_OPTION_ONLY] = {"only", 0, ICP_OPTION_TYPE_CHOICES, "PART,...", BENCH_SECTION, BENCH,
                         .choices = "bandwidth prefill decode ttft shared batch", .shown = "all",
                         .help = "The parts to run."},
    [ICP_OPTION_BENCH_PREFILL] = {"prefill", 0, ICP_OPTION_TYPE_COUNTS, "N,...", BENCH_SECTION, BENCH, .low = 1,
                                  .high = 10000000, .fallback = "512,2048", .help = "Lengths of prompts to measure."},
    [ICP_OPTION_BENCH_DECODE] = {"decode", 0, ICP_OPTION_TYPE_COUNTS, "N,...", BENCH_SECTION, BENCH, .low = 0,
                                 .high = 10000000, .fallback = "0,1024,2048,4096", .help = "Contexts to decode at."},
    [ICP_OPTION_BENCH_BATCH] = {"batch", 0, ICP_OPTION_TYPE_COUNTS, "N,...", BENCH_SECTION, BENCH, .low = 1,
                                .high = 1024, .fallback = "1,2,4,8",
                                .help = "Numbers of sequences to decode together."},
    [ICP_OPTION_BENCH_TOKENS] = {"decode-tokens", 0, COUNT("N"), BENCH_SECTION, BENCH, .low = 2, .high = 100000,
                                 .fallback = "32", .help = "Tokens to decode for one figure."},
    [ICP_OPTION_BENCH_PREFIX] = {"prefix", 0, COUNT("N"), BENCH_SECTION, BENCH, .low = 16, .high = 10000000,
                                 .fallback = "2000",
                                 .help = "Tokens that are cached (in ttft: whole steps), or in common."},
    [ICP_OPTION_BENCH_NEW] = {"new", 0, COUNT("N"), BENCH_SECTION, BENCH, .low = 1, .high = 100000, .fallback = "32",
                              .help = "Tokens that are new after them."},
    [ICP_OPTION_BENCH_REQUESTS] = {"requests", 0, COUNT("N"), BENCH_SECTION, BENCH, .low = 1, .high = 1024,
                                   .fallback = "8", .help = "Requests that share the prefix."},
    [ICP_OPTION_BENCH_REPEAT] = {"repeat", 'r', COUNT("N"), BENCH_SECTION, BENCH, .low = 1, .high = 1000,
                                 .fallback = "3", .help = "Rounds of each measurement; the best counts."},
    [ICP_OPTION_BENCH_JSON] = {"json", 'j', ICP_OPTION_TYPE_FILE, "FILE", BENCH_SECTION, BENCH,
                               .help = "Writes the figures to a file, as JSON; - is standard output."},

    [ICP_OPTION_QUIET] = {"quiet", 'q', FLAG, OTHER_SECTION, MODEL,
                          .help = "Nothing on standard error but errors: no progress, no figures."},
    [ICP_OPTION_HELP] = {"help", 'h', FLAG, OTHER_SECTION, ALL, .help = "Says what the verb does and its options."},
};
