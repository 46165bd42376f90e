/* man.c - the manual page as roff, from the tables. man/incipit.1 is what this writes; a test compares them. */
#include "cli/option.h"
#include "cli/say.h"
#include "incipit/cache.h"

#include <string.h>

/* Text as roff wants it: a dash that stays a dash, no line that begins with a dot or a quote. */
static void put(const char *text)
{
    bool is_line_start = true;
    for (; *text != '\0'; text++) {
        if (is_line_start && (*text == '.' || *text == '\'')) fputs("\\&", stdout);
        if (*text == '-')
            fputs("\\-", stdout);
        else if (*text == '\\')
            fputs("\\e", stdout);
        else
            putchar(*text);
        is_line_start = *text == '\n';
    }
}

static void put_paragraphs(const char *text)
{
    while (*text != '\0') {
        const char *end = strstr(text, "\n\n");
        size_t length = end != NULL ? (size_t)(end - text) : strlen(text);
        char paragraph[1024];
        snprintf(paragraph, sizeof(paragraph), "%.*s", (int)length, text);
        put(paragraph);
        putchar('\n');
        text += length;
        if (end == NULL) break;
        text += 2;
        puts(".PP");
    }
}

static void put_verbs_of(const icp_option *option)
{
    const char *separator = "";
    fputs("Verbs: ", stdout);
    for (unsigned i = 0; i < ICP_VERB_COUNT; i++) {
        if ((option->verbs >> i & 1u) == 0) continue;
        printf("%s%s", separator, icp_verbs[i].name);
        separator = ", ";
    }
    puts(".");
}

static void put_option(const icp_option *option)
{
    char environment[ICP_ENVIRONMENT_BYTES];
    const char *fallback = option->fallback != NULL ? option->fallback : option->shown;
    puts(".TP");
    fputs(".BR ", stdout);
    if (option->letter != 0) printf("\\-%c \", \" ", option->letter);
    fputs("\\-\\-", stdout);
    put(option->name);
    if (option->argument != NULL) {
        fputs(" \" \\fI", stdout);
        put(option->argument);
        fputs("\\fR\"", stdout);
    }
    putchar('\n');
    put(option->help);
    if (option->choices != NULL) {
        fputs(option->type == ICP_OPTION_TYPE_CHOICE ? " One of: " : " Some of: ", stdout);
        put(option->choices);
        putchar('.');
    }
    putchar('\n');
    if (fallback != NULL) {
        fputs("Default: ", stdout);
        put(fallback);
        puts(".");
    }
    if (option - icp_options == ICP_OPTION_HELP) return;
    put_verbs_of(option);
    if (icp_option_environment(option, environment)) printf("Environment:\n.BR %s .\n", environment);
}

static void put_options(void)
{
    const char *section = "";
    puts(".SH OPTIONS\nA size is a number of bytes, or with K, M, G or T after it of that many powers of 1,024.\n"
         "Options that begin with one dash and take no value can be put together.");
    for (unsigned i = 0; i < ICP_OPTION_COUNT; i++) {
        if (strcmp(section, icp_options[i].section) != 0) printf(".SS %s\n", icp_options[i].section);
        section = icp_options[i].section;
        put_option(&icp_options[i]);
    }
}

static void put_end(void)
{
    puts(".SH EXIT STATUS\n.TP\n.B 0\nDone.\n.TP\n.B 1\nIt failed: a file, a model, memory or a prompt; a line on "
         "standard error says what.\n.TP\n.B 2\nThe command line is wrong; a line on standard error says how.");
    puts(".SH EXAMPLES\n.nf\n"
         "incipit chat\n"
         "incipit complete \\-m model.gguf \\-T 0.7 \\-\\-top\\-p 0.95 \"Once upon a time\"\n"
         "incipit complete \\-\\-batch prompts.txt \\-\\-json\n"
         "incipit inspect model.gguf \\-\\-memory 8G \\-\\-tokens 8192\n"
         "incipit tokenize \"Hello, world\"\n"
         "incipit bench model.gguf \\-\\-only prefill,decode \\-\\-json figures.json\n"
         ".fi");
    puts(".SH SEE ALSO\n.BR libincipit (3)");
}

int icp_man_run(const icp_arguments *arguments)
{
    (void)arguments;
    puts(".\\\" incipit.1 - written by 'incipit man' from the program's own tables: do not edit.");
    printf(".TH INCIPIT 1 2026-11-15 \"incipit %s\" \"Incipit\"\n", icp_version());
    puts(".SH NAME\nincipit \\- language models from GGUF files, no beginning computed twice");
    puts(".SH SYNOPSIS\n.B incipit\n.I VERB\n.RI [ OPTION ]...\n.RI [ OPERAND ]...");
    puts(".SH DESCRIPTION\nRuns language models on an automatic prefix cache: what two prompts have in common is "
         "computed "
         "once.\nWithout a file it runs the built\\-in model, which knows Debian's packages and commands a little.");
    puts("An operand that ends in .gguf and comes first is the model, as with\n.BR \\-\\-model .");
    puts("Answers go to standard output, everything about them to standard error.");
    puts(".SH VERBS");
    for (unsigned i = 0; i < ICP_VERB_COUNT; i++) {
        printf(".SS %s%s", icp_verbs[i].name, *icp_verbs[i].operands != '\0' ? " " : "");
        put(icp_verbs[i].operands);
        putchar('\n');
        put(icp_verbs[i].summary);
        puts(".");
        if (*icp_verbs[i].text != '\0') puts(".PP");
        put_paragraphs(icp_verbs[i].text);
    }
    put_options();
    put_end();
    return ICP_EXIT_OK;
}
