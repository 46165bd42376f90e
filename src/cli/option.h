/* option.h - verbs and options: one table of each, which feeds the parser, --help, the manual page and completions.
 *
 * Options of the model, the engine and the choice of tokens can also be set through the environment: --kv-type is
 * INCIPIT_KV_TYPE; the command line wins. Values are checked when they are parsed, so asking for one cannot fail. */
#ifndef ICP_CLI_OPTION_H
#define ICP_CLI_OPTION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ---- Verbs -------------------------------------------------------------------------------------------------- */

typedef enum icp_verb_id {
    ICP_VERB_CHAT,
    ICP_VERB_COMPLETE,
    ICP_VERB_INSPECT,
    ICP_VERB_TOKENIZE,
    ICP_VERB_BENCH,
    ICP_VERB_HELP,
    ICP_VERB_VERSION,
    ICP_VERB_COMPLETION,
    ICP_VERB_MAN,
    ICP_VERB_COUNT
} icp_verb_id;

typedef struct icp_arguments icp_arguments;

typedef struct icp_verb {
    const char *name;
    const char *operands; /* "[PROMPT]..." */
    const char *summary;  /* one line */
    const char *text;     /* paragraphs for --help and the manual, separated by an empty line */
    int (*run)(const icp_arguments *arguments);
} icp_verb;

extern const icp_verb icp_verbs[ICP_VERB_COUNT];

/* NULL: there is none of that name. */
const icp_verb *icp_verb_find(const char *name);

/* ---- Options ------------------------------------------------------------------------------------------------ */

typedef enum icp_option_id {
    /* The model and the engine. */
    ICP_OPTION_MODEL,
    ICP_OPTION_THREADS,
    ICP_OPTION_CONTEXT,
    ICP_OPTION_KV_TYPE,
    ICP_OPTION_KV_SIZE,
    ICP_OPTION_BLOCK_TOKENS,
    ICP_OPTION_STEP_TOKENS,
    ICP_OPTION_SEQUENCES,
    ICP_OPTION_NO_CACHE,
    ICP_OPTION_LORA,
    ICP_OPTION_ADAPTER,
    /* How tokens are chosen. */
    ICP_OPTION_TEMPERATURE,
    ICP_OPTION_TOP_K,
    ICP_OPTION_TOP_P,
    ICP_OPTION_MIN_P,
    ICP_OPTION_REPETITION_PENALTY,
    ICP_OPTION_PRESENCE_PENALTY,
    ICP_OPTION_FREQUENCY_PENALTY,
    ICP_OPTION_LOGIT_BIAS,
    ICP_OPTION_SEED,
    /* How much, and when it ends. */
    ICP_OPTION_MAX_TOKENS,
    ICP_OPTION_MIN_TOKENS,
    ICP_OPTION_STOP,
    ICP_OPTION_STOP_TOKEN,
    ICP_OPTION_IGNORE_EOS,
    ICP_OPTION_N,
    /* What goes in and comes out. */
    ICP_OPTION_FILE,
    ICP_OPTION_BATCH,
    ICP_OPTION_SYSTEM,
    ICP_OPTION_SPECIAL,
    ICP_OPTION_PROMPT_IDS,
    ICP_OPTION_RAW,
    ICP_OPTION_ECHO,
    ICP_OPTION_LOGPROBS,
    ICP_OPTION_JSON,
    /* inspect. */
    ICP_OPTION_MEMORY,
    ICP_OPTION_TOKENS,
    ICP_OPTION_METADATA,
    ICP_OPTION_TENSORS,
    /* tokenize. */
    ICP_OPTION_IDS,
    ICP_OPTION_DECODE,
    ICP_OPTION_BOS,
    /* bench. */
    ICP_OPTION_ONLY,
    ICP_OPTION_BENCH_PREFILL,
    ICP_OPTION_BENCH_DECODE,
    ICP_OPTION_BENCH_BATCH,
    ICP_OPTION_BENCH_TOKENS,
    ICP_OPTION_BENCH_PREFIX,
    ICP_OPTION_BENCH_NEW,
    ICP_OPTION_BENCH_REQUESTS,
    ICP_OPTION_BENCH_REPEAT,
    ICP_OPTION_BENCH_JSON,
    /* All. */
    ICP_OPTION_QUIET,
    ICP_OPTION_HELP,
    ICP_OPTION_COUNT
} icp_option_id;

typedef enum icp_option_type {
    ICP_OPTION_TYPE_FLAG,
    ICP_OPTION_TYPE_COUNT,   /* a whole number from low to high */
    ICP_OPTION_TYPE_NUMBER,  /* any number from low to high */
    ICP_OPTION_TYPE_SIZE,    /* bytes: 512M, 8G */
    ICP_OPTION_TYPE_TEXT,    /* anything */
    ICP_OPTION_TYPE_FILE,    /* a path; differs from a text for completions only */
    ICP_OPTION_TYPE_CHOICE,  /* one of choices */
    ICP_OPTION_TYPE_CHOICES, /* some of them, separated by commas */
    ICP_OPTION_TYPE_COUNTS,  /* whole numbers from low to high, separated by commas */
} icp_option_type;

typedef struct icp_option {
    const char *name; /* without the two dashes */
    char letter;      /* 0: it has none */
    icp_option_type type;
    const char *argument; /* what --help calls its value */
    const char *section;  /* of --help */
    unsigned verbs;       /* 1u << icp_verb_id, or'ed */
    bool is_repeated;     /* each adds a value; else the last one counts */
    double low, high;
    const char *choices;  /* separated by spaces */
    const char *fallback; /* the value where none is given; NULL: none */
    const char *shown;    /* what --help says of it, where fallback is NULL */
    const char *help;
} icp_option;

extern const icp_option icp_options[ICP_OPTION_COUNT];

#define ICP_LIST_COUNT_MAX 64u   /* numbers in one COUNTS value */
#define ICP_REPEAT_COUNT_MAX 64u /* values of one repeated option */
#define ICP_ENVIRONMENT_BYTES 64u

/* INCIPIT_KV_TYPE. False: the option has none. */
bool icp_option_environment(const icp_option *option, char name[ICP_ENVIRONMENT_BYTES]);

/* ---- Arguments ---------------------------------------------------------------------------------------------- */

typedef struct icp_argument {
    const char *texts[ICP_REPEAT_COUNT_MAX];
    uint32_t count; /* of texts; 0: neither given nor a fallback */
    bool is_given;  /* by the command line or the environment */
    bool is_weak;   /* not by the command line, whose values take its place */
} icp_argument;

struct icp_arguments {
    const icp_verb *verb;
    icp_argument values[ICP_OPTION_COUNT];
    const char **operands; /* what is no option */
    size_t operand_count;
};

/* Reads the words after the verb. ICP_EXIT_OK, or another exit status after an error was said. operands must have room
 * for word_count. */
int icp_arguments_parse(icp_arguments *arguments, const icp_verb *verb, char **words, size_t word_count);

bool icp_arguments_flag(const icp_arguments *arguments, icp_option_id id);
bool icp_arguments_is_given(const icp_arguments *arguments, icp_option_id id);
uint64_t icp_arguments_count(const icp_arguments *arguments, icp_option_id id);   /* 0 where there is no value */
double icp_arguments_number(const icp_arguments *arguments, icp_option_id id);    /* 0 where there is no value */
const char *icp_arguments_text(const icp_arguments *arguments, icp_option_id id); /* NULL where there is no value */
/* CHOICE: its index among the choices. CHOICES: whether the choice is among the values. */
uint32_t icp_arguments_choice(const icp_arguments *arguments, icp_option_id id);
bool icp_arguments_has_choice(const icp_arguments *arguments, icp_option_id id, const char *choice);
uint32_t icp_arguments_counts(const icp_arguments *arguments, icp_option_id id, uint32_t values[ICP_LIST_COUNT_MAX]);

/* The nearest of the candidates to a word with a typo in it, or NULL: for "did you mean". next gives one candidate
 * after another for index 0, 1, ..., NULL at the end. */
typedef const char *icp_word_fn(const void *context, size_t index);
const char *icp_word_nearest(const char *word, icp_word_fn *next, const void *context);

/* ---- What the tables give ----------------------------------------------------------------------------------- */

int icp_help_run(const icp_arguments *arguments);       /* help [VERB] */
void icp_help_show(const icp_verb *verb);               /* --help; NULL: of the program */
int icp_man_run(const icp_arguments *arguments);        /* man */
int icp_completion_run(const icp_arguments *arguments); /* completion SHELL */
int icp_version_run(const icp_arguments *arguments);    /* version */

int icp_chat_run(const icp_arguments *arguments);
int icp_complete_run(const icp_arguments *arguments);
int icp_inspect_run(const icp_arguments *arguments);
int icp_tokenize_run(const icp_arguments *arguments);
int icp_bench_run(const icp_arguments *arguments);

#endif
