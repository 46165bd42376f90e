/* completion.c - scripts that complete words in bash, zsh and fish, from the tables. */
#include "cli/option.h"
#include "cli/say.h"

#include <string.h>

static bool has_verb(const icp_option *option, unsigned verb)
{
    return (option->verbs >> verb & 1u) != 0;
}

static bool is_file(const icp_option *option)
{
    return option->type == ICP_OPTION_TYPE_FILE;
}

static bool wants_value(const icp_option *option)
{
    return option->type != ICP_OPTION_TYPE_FLAG;
}

static void put_verb_names(const char *separator)
{
    for (unsigned i = 0; i < ICP_VERB_COUNT; i++) printf("%s%s", i > 0 ? separator : "", icp_verbs[i].name);
}

/* ---- bash ---------------------------------------------------------------------------------------------------- */

/* What may follow an option: "verb:--option" cases, since a name may mean different things to two verbs. */
static void bash_value_case(unsigned verb, const icp_option *option)
{
    if (!wants_value(option)) return;
    printf("    %s:--%s", icp_verbs[verb].name, option->name);
    if (option->letter != 0) printf("|%s:-%c", icp_verbs[verb].name, option->letter);
    if (option->choices != NULL)
        printf(") COMPREPLY=($(compgen -W '%s' -- \"$word\")); return ;;\n", option->choices);
    else if (is_file(option))
        printf(") COMPREPLY=($(compgen -f -- \"$word\")); return ;;\n");
    else
        printf(") return ;;\n");
}

static void bash_script(void)
{
    puts("# bash completion for incipit, written by 'incipit completion bash'.");
    puts("_incipit() {\n    local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]} "
         "verb=${COMP_WORDS[1]}\n    COMPREPLY=()");
    printf("    if [ \"$COMP_CWORD\" -eq 1 ]; then COMPREPLY=($(compgen -W '");
    put_verb_names(" ");
    puts("' -- \"$word\")); return; fi");
    puts("    case \"$verb:$before\" in");
    for (unsigned verb = 0; verb < ICP_VERB_COUNT; verb++) {
        for (unsigned i = 0; i < ICP_OPTION_COUNT; i++) {
            if (has_verb(&icp_options[i], verb)) bash_value_case(verb, &icp_options[i]);
        }
    }
    printf("    help:*) COMPREPLY=($(compgen -W '");
    put_verb_names(" ");
    puts("' -- \"$word\")); return ;;");
    puts("    completion:*) COMPREPLY=($(compgen -W 'bash zsh fish' -- \"$word\")); return ;;\n    esac");
    puts("    case \"$verb:$word\" in");
    for (unsigned verb = 0; verb < ICP_VERB_COUNT; verb++) {
        printf("    %s:-*) COMPREPLY=($(compgen -W '", icp_verbs[verb].name);
        for (unsigned i = 0; i < ICP_OPTION_COUNT; i++) {
            if (has_verb(&icp_options[i], verb)) printf("--%s ", icp_options[i].name);
        }
        puts("' -- \"$word\")) ;;");
    }
    puts("    *) COMPREPLY=($(compgen -f -- \"$word\")) ;;\n    esac\n}");
    puts("complete -o filenames -F _incipit incipit");
}

/* ---- zsh ----------------------------------------------------------------------------------------------------- */

/* Help within single quotes and brackets. */
static void zsh_text(const char *text)
{
    for (; *text != '\0'; text++) {
        if (*text == '\'')
            fputs("'\\''", stdout);
        else if (strchr("[]:\\", *text) != NULL)
            printf("\\%c", *text);
        else
            putchar(*text);
    }
}

static void zsh_option(const icp_option *option, const char *dashes, const char *name)
{
    printf("            '%s%s%s[", option->is_repeated ? "*" : "", dashes, name);
    zsh_text(option->help);
    fputs("]", stdout);
    if (wants_value(option)) {
        fputs(":", stdout);
        zsh_text(option->argument);
        fputs(":", stdout);
        if (option->choices != NULL) printf("(%s)", option->choices);
        if (is_file(option)) fputs("_files", stdout);
    }
    puts("' \\");
}

static void zsh_script(void)
{
    puts("#compdef incipit\n# zsh completion for incipit, written by 'incipit completion zsh'.");
    puts("_incipit() {\n    local -a verbs\n    verbs=(");
    for (unsigned i = 0; i < ICP_VERB_COUNT; i++) {
        printf("        '%s:", icp_verbs[i].name);
        zsh_text(icp_verbs[i].summary);
        puts("'");
    }
    puts("    )\n    if (( CURRENT == 2 )); then\n        _describe verb verbs\n        return\n    fi");
    puts("    local verb=$words[2]\n    shift words\n    (( CURRENT-- ))\n    case $verb in");
    for (unsigned verb = 0; verb < ICP_VERB_COUNT; verb++) {
        printf("    %s)\n        _arguments -s \\\n", icp_verbs[verb].name);
        for (unsigned i = 0; i < ICP_OPTION_COUNT; i++) {
            const icp_option *option = &icp_options[i];
            if (!has_verb(option, verb)) continue;
            zsh_option(option, "--", option->name);
            if (option->letter != 0) zsh_option(option, "-", (char[]){option->letter, '\0'});
        }
        if (verb == ICP_VERB_COMPLETION)
            puts("            '1:shell:(bash zsh fish)' ;;");
        else if (verb == ICP_VERB_HELP)
            fputs("            '1:verb:(", stdout), put_verb_names(" "), puts(")' ;;");
        else
            puts("            '*:file:_files' ;;");
    }
    puts("    esac\n}\n_incipit \"$@\"");
}

/* ---- fish ---------------------------------------------------------------------------------------------------- */

static void fish_text(const char *text)
{
    for (; *text != '\0'; text++) {
        if (*text == '\'' || *text == '\\') putchar('\\');
        putchar(*text);
    }
}

static void fish_script(void)
{
    puts("# fish completion for incipit, written by 'incipit completion fish'.");
    for (unsigned i = 0; i < ICP_VERB_COUNT; i++) {
        printf("complete -c incipit -f -n __fish_use_subcommand -a %s -d '", icp_verbs[i].name);
        fish_text(icp_verbs[i].summary);
        puts("'");
    }
    for (unsigned verb = 0; verb < ICP_VERB_COUNT; verb++) {
        for (unsigned i = 0; i < ICP_OPTION_COUNT; i++) {
            const icp_option *option = &icp_options[i];
            if (!has_verb(option, verb)) continue;
            printf("complete -c incipit -n '__fish_seen_subcommand_from %s' -l %s", icp_verbs[verb].name, option->name);
            if (option->letter != 0) printf(" -s %c", option->letter);
            if (is_file(option))
                fputs(" -r -F", stdout);
            else if (wants_value(option))
                fputs(" -x", stdout);
            if (option->choices != NULL) printf(" -a '%s'", option->choices);
            fputs(" -d '", stdout);
            fish_text(option->help);
            puts("'");
        }
    }
    puts("complete -c incipit -f -n '__fish_seen_subcommand_from completion' -a 'bash zsh fish'");
    fputs("complete -c incipit -f -n '__fish_seen_subcommand_from help' -a '", stdout);
    put_verb_names(" ");
    puts("'");
}

int icp_completion_run(const icp_arguments *arguments)
{
    const char *shell = arguments->operand_count > 0 ? arguments->operands[0] : "";
    if (strcmp(shell, "bash") == 0)
        bash_script();
    else if (strcmp(shell, "zsh") == 0)
        zsh_script();
    else if (strcmp(shell, "fish") == 0)
        fish_script();
    else
        return icp_say_usage("completion wants the name of a shell: bash, zsh or fish");
    return ICP_EXIT_OK;
}
