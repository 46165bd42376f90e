/* main.c - the program: finds the verb, parses its options, runs it.
 *
 *     incipit VERB [OPTION]... [OPERAND]...
 *
 * One file per verb; each sees the engine through incipit/engine.h alone. Options, help, manual page and completions
 * come from the tables of option_table.c. Exit status: 0 done, 1 it failed, 2 the command line is wrong. */
#include "cli/option.h"
#include "cli/say.h"
#include "incipit/cache.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>

static const char *verb_name(const void *context, size_t index)
{
    (void)context;
    return index < ICP_VERB_COUNT ? icp_verbs[index].name : NULL;
}

int icp_version_run(const icp_arguments *arguments)
{
    (void)arguments;
    printf("incipit %s\n", icp_version());
    return ICP_EXIT_OK;
}

static int unknown_verb(const char *word)
{
    const char *nearest = icp_word_nearest(word, verb_name, NULL);
    if (nearest != NULL) return icp_say_usage("there is no verb %s: did you mean %s?", word, nearest);
    return icp_say_usage("there is no verb %s: 'incipit help' lists them", word);
}

static int run_verb(const icp_verb *verb, char **words, size_t word_count)
{
    icp_arguments *arguments = calloc(1, sizeof(*arguments));
    const char **operands = calloc(word_count + 1, sizeof(*operands));
    int status = ICP_EXIT_FAILED;
    if (arguments == NULL || operands == NULL) {
        icp_say_failure("there is no memory");
    } else {
        arguments->operands = operands;
        status = icp_arguments_parse(arguments, verb, words, word_count);
    }
    if (status == ICP_EXIT_OK) {
        if (icp_arguments_flag(arguments, ICP_OPTION_HELP))
            icp_help_show(verb);
        else
            status = verb->run(arguments);
        int end = icp_say_end();
        if (status == ICP_EXIT_OK) status = end;
    }
    free(operands);
    free(arguments);
    return status;
}

int main(int argc, char **argv)
{
    signal(SIGPIPE, SIG_IGN); /* a reader that goes away is an error of the write, which icp_say_end sees */
    if (argc < 2) {
        fputs("incipit: a verb is wanted: 'incipit chat' talks with the built-in model, 'incipit help' lists all\n",
              stderr);
        return ICP_EXIT_USAGE;
    }
    const char *word = argv[1];
    if (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0) word = "help";
    if (strcmp(word, "--version") == 0) word = "version";
    const icp_verb *verb = icp_verb_find(word);
    if (verb == NULL) return unknown_verb(word);
    return run_verb(verb, argv + 2, (size_t)argc - 2);
}
