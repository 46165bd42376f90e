/* help.c - --help and the verb help, from the tables. */
#include "cli/option.h"
#include "cli/say.h"

#include <string.h>

#define COLUMNS 100u
#define INDENT 28u

/* Words of text, wrapped; column is where the first one goes, indent where the following lines begin. */
static void wrap(const char *text, unsigned column, unsigned indent)
{
    while (*text != '\0') {
        size_t length = strcspn(text, " \n");
        if (column > indent && column + length + 1 > COLUMNS) {
            printf("\n%*s", (int)indent, "");
            column = indent;
        } else if (column > indent) {
            putchar(' ');
            column++;
        }
        printf("%.*s", (int)length, text);
        column += (unsigned)length;
        text += length;
        while (*text == ' ') text++;
        if (*text != '\n') continue;
        while (*text == '\n') text++;
        printf("\n\n%*s", (int)indent, "");
        column = indent;
    }
    putchar('\n');
}

static void show_option(const icp_option *option)
{
    char head[64], text[512], letter[8] = "    ";
    if (option->letter != 0) snprintf(letter, sizeof(letter), "-%c, ", option->letter);
    snprintf(head, sizeof(head), "  %s--%s%s%s", letter, option->name, option->argument != NULL ? " " : "",
             option->argument != NULL ? option->argument : "");
    const char *fallback = option->fallback != NULL ? option->fallback : option->shown;
    snprintf(text, sizeof(text), "%s%s%s%s%s%s%s", option->help,
             option->choices == NULL                  ? ""
             : option->type == ICP_OPTION_TYPE_CHOICE ? " One of: "
                                                      : " Some of: ",
             option->choices != NULL ? option->choices : "", option->choices != NULL ? "." : "",
             fallback != NULL ? " [" : "", fallback != NULL ? fallback : "", fallback != NULL ? "]" : "");
    printf("%s", head);
    if (strlen(head) + 2 > INDENT)
        printf("\n%*s", (int)INDENT, "");
    else
        printf("%*s", (int)(INDENT - strlen(head)), "");
    wrap(text, INDENT, INDENT);
}

static void show_options(const icp_verb *verb)
{
    const char *section = "";
    for (unsigned i = 0; i < ICP_OPTION_COUNT; i++) {
        const icp_option *option = &icp_options[i];
        if ((option->verbs >> (verb - icp_verbs) & 1u) == 0) continue;
        if (strcmp(section, option->section) != 0) printf("\n%s:\n", option->section);
        section = option->section;
        show_option(option);
    }
}

static void show_program(void)
{
    printf("usage: incipit VERB [OPTION]... [OPERAND]...\n\n");
    printf("Runs language models from GGUF files, and computes no beginning twice. Without a file it runs the\n"
           "built-in model, which knows Debian's packages and commands a little.\n\n");
    for (unsigned i = 0; i < ICP_VERB_COUNT; i++) printf("  %-12s %s\n", icp_verbs[i].name, icp_verbs[i].summary);
    printf(
        "\nTry:\n"
        "  incipit chat\n"
        "  incipit complete -m model.gguf \"Once upon a time\"\n"
        "  incipit inspect model.gguf --memory 8G\n"
        "\n'incipit help VERB' lists the options of a verb. Those of the model, the engine and the choice of tokens\n"
        "can be set in the environment too: --kv-type is INCIPIT_KV_TYPE. Exit status: 0 done, 1 it failed, 2 the\n"
        "command line is wrong.\n");
}

void icp_help_show(const icp_verb *verb)
{
    if (verb == NULL) {
        show_program();
        return;
    }
    printf("usage: incipit %s [OPTION]... %s\n\n", verb->name, verb->operands);
    wrap(*verb->text != '\0' ? verb->text : verb->summary, 0, 0);
    show_options(verb);
}

int icp_help_run(const icp_arguments *arguments)
{
    if (arguments->operand_count == 0) {
        icp_help_show(NULL);
        return ICP_EXIT_OK;
    }
    const icp_verb *verb = icp_verb_find(arguments->operands[0]);
    if (verb == NULL) return icp_say_usage("there is no verb %s: 'incipit help' lists them", arguments->operands[0]);
    icp_help_show(verb);
    return ICP_EXIT_OK;
}
