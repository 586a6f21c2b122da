/* Options by table: parsing, usage, help. */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"

static const option_t *find(const option_t *options, const char *name,
                            size_t n) {
    for (; options->name != NULL; options++)
        if (strlen(options->name) == n && memcmp(options->name, name, n) == 0)
            return options;
    return NULL;
}

/* A whole number, with a unit if `units`; false: it is none. A letter alone is
 * binary, as it is for dd and du. */
static bool number(const char *text, bool units, uint64_t *out) {
    static const struct {
        const char *unit;
        uint64_t factor;
    } rows[] = {{"", 1},
                {"kB", 1000},
                {"MB", 1000000},
                {"GB", 1000000000},
                {"KiB", UINT64_C(1) << 10},
                {"MiB", UINT64_C(1) << 20},
                {"GiB", UINT64_C(1) << 30},
                {"K", UINT64_C(1) << 10},
                {"M", UINT64_C(1) << 20},
                {"G", UINT64_C(1) << 30}};
    uint64_t value = 0;
    const char *at = text;
    for (; isdigit((unsigned char)*at); at++)
        if (__builtin_mul_overflow(value, 10, &value) ||
            __builtin_add_overflow(value, (uint64_t)(*at - '0'), &value))
            return false;
    if (at == text)
        return false;
    for (size_t i = 0; i < (units ? sizeof rows / sizeof *rows : 1); i++)
        if (strcmp(at, rows[i].unit) == 0)
            return !__builtin_mul_overflow(value, rows[i].factor, out);
    return false;
}

/* Takes an option's value; an exit status, having said why. */
static int set(const command_t *command, const option_t *option,
               const char *value) {
    switch (option->kind) {
    case OPTION_FLAG:
        *(bool *)option->value = true;
        return CLI_OK;
    case OPTION_TEXT:
        *(const char **)option->value = value;
        return CLI_OK;
    default:
        if (number(value, option->kind == OPTION_BYTES, option->value))
            return CLI_OK;
        return cli_usage(command, "%s %s: not a whole number%s", option->name,
                         value,
                         option->kind == OPTION_BYTES
                             ? " with or without a unit (64MiB, 64M, 5GB)"
                             : "");
    }
}

/* argv[*at] is an option: takes it and its value. */
static int take(const command_t *command, int argc, char **argv, int *at) {
    const char *word = argv[*at], *equals = strchr(word, '=');
    size_t n = equals != NULL ? (size_t)(equals - word) : strlen(word);
    const option_t *option = find(command->options, word, n);
    if (option == NULL)
        return cli_usage(command, "%s: no such option", word);
    if (option->kind == OPTION_FLAG) {
        if (equals != NULL)
            return cli_usage(command, "%s takes no value", option->name);
        return set(command, option, NULL);
    }
    if (equals == NULL && *at + 1 >= argc)
        return cli_usage(command, "%s: its value is missing", word);
    const char *value = equals != NULL ? equals + 1 : argv[++*at];
    if (*value == '\0')
        return cli_usage(command, "%s: its value is empty", option->name);
    return set(command, option, value);
}

/* Enough arguments, not too many, and none that is empty, as a variable of
 * the shell's that is not set would be. */
static int check_count(const command_t *command, unsigned count, char **args) {
    if (count < command->least)
        return cli_usage(command, "an argument is missing");
    if (count > command->most)
        return cli_usage(command, "%s: one argument too many",
                         args[command->most]);
    for (unsigned i = 0; i < count; i++)
        if (args[i][0] == '\0')
            return cli_usage(command, "argument %u is empty", i + 1);
    return CLI_OK;
}

int cli_run(const command_t *command, int argc, char **argv) {
    if (command->options == NULL)
        return command->run(argc, argv);
    char **args = calloc((size_t)argc + 1, sizeof *args);
    unsigned count = 0;
    bool only_args = false;
    int status = CLI_OK;
    if (args == NULL) {
        cli_say("out of memory");
        return CLI_FAILED;
    }
    for (int i = 1; status == CLI_OK && i < argc; i++) {
        if (!only_args && strcmp(argv[i], "--help") == 0) {
            cli_print_help(command);
            free(args);
            return CLI_OK;
        }
        if (!only_args && strcmp(argv[i], "--") == 0)
            only_args = true;
        else if (!only_args && argv[i][0] == '-' && argv[i][1] != '\0')
            status = take(command, argc, argv, &i);
        else
            args[count++] = argv[i];
    }
    if (status == CLI_OK)
        status = check_count(command, count, args);
    if (status == CLI_OK)
        status = command->run((int)count, args);
    free(args);
    return status;
}

void cli_print_usage(FILE *to, const command_t *command) {
    fprintf(to, "usage: lull %s%s%s%s\n", command->name,
            command->arguments[0] != '\0' ? " " : "", command->arguments,
            command->options != NULL && command->options->name != NULL
                ? " [OPTION...]"
                : "");
}

void cli_print_help(const command_t *command) {
    cli_print_usage(stdout, command);
    printf("\n%s.\n", command->summary);
    if (command->help != NULL)
        printf("\n%s\n", command->help);
    if (command->options != NULL && command->options->name != NULL)
        putchar('\n');
    for (const option_t *o = command->options; o != NULL && o->name != NULL;
         o++) {
        char left[64];
        snprintf(left, sizeof left, "%s%s%s", o->name,
                 o->word != NULL ? " " : "", o->word != NULL ? o->word : "");
        printf("  %-20s %s\n", left, o->help);
    }
    printf("  %-20s %s\n", "--help", "this text");
}
