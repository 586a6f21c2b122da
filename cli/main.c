/* `lull`: the table of commands, and what concerns all of them. */
#include <errno.h>
#include <string.h>

#include "cli.h"

static const command_t *const commands[] = {
#define ROW(name) &command_##name,
    CLI_COMMANDS(ROW)
#undef ROW
        NULL,
};

static const command_t *find(const char *name) {
    for (size_t i = 0; commands[i] != NULL; i++)
        if (strcmp(commands[i]->name, name) == 0)
            return commands[i];
    return NULL;
}

static void print_overview(FILE *to) {
    fputs("usage: lull COMMAND [ARGUMENT...]\n\n", to);
    for (size_t i = 0; commands[i] != NULL; i++)
        fprintf(to, "  %-8s %s\n", commands[i]->name, commands[i]->summary);
    fputs("\n`lull COMMAND --help` tells more. Exit status: 0 success, "
          "1 failure, 2 usage,\n3 corrupt data.\n",
          to);
}

static void log_line(void *ctx, lull_log_level_t level, const char *line) {
    (void)ctx;
    (void)level;
    cli_say("%s", line);
}

static int help(const char *name) {
    if (name == NULL) {
        print_overview(stdout);
        return CLI_OK;
    }
    const command_t *command = find(name);
    if (command == NULL) {
        cli_say("'%s': no such command; `lull --help` lists them", name);
        return CLI_USAGE;
    }
    if (command->options == NULL)
        return command->run(2, (char *[]){(char *)name, "--help", NULL});
    cli_print_help(command);
    return CLI_OK;
}

static int dispatch(int argc, char **argv) {
    if (argc < 2) {
        print_overview(stderr);
        return CLI_USAGE;
    }
    if (strcmp(argv[1], "help") == 0 || strcmp(argv[1], "--help") == 0)
        return help(argc > 2 ? argv[2] : NULL);
    if (strcmp(argv[1], "--version") == 0) {
        printf("lull %s\n", lull_version());
        return CLI_OK;
    }
    if (strcmp(argv[1], "--table") == 0) { /* for the build */
        cli_print_table(commands);
        return CLI_OK;
    }
    const command_t *command = find(argv[1]);
    if (command == NULL) {
        cli_say("'%s': no such command; `lull --help` lists them", argv[1]);
        return CLI_USAGE;
    }
    return cli_run(command, argc - 1, argv + 1);
}

int main(int argc, char **argv) {
    lull_log_set(log_line, NULL, LULL_LOG_WARN);
    int status = dispatch(argc, argv);
    if ((fflush(stdout) != 0 || ferror(stdout)) && status == CLI_OK) {
        cli_say("standard output: writing failed: %s", strerror(errno));
        return CLI_FAILED;
    }
    return status;
}
