/* What the commands of `lull` share: the table's rows, options, messages,
 * printing. A program, so it may print and exit; public headers only. */
#ifndef CLI_H
#define CLI_H

#include <lull/lull.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

enum {
    CLI_OK = 0,
    CLI_FAILED = 1, /* also: what was compared differs */
    CLI_USAGE = 2,
    CLI_CORRUPT = 3
};

typedef enum option_kind {
    OPTION_FLAG,   /* bool */
    OPTION_TEXT,   /* const char *, of argv */
    OPTION_NUMBER, /* uint64_t */
    OPTION_BYTES   /* uint64_t; 5GB, 64MiB */
} option_kind_t;

/* One option; rows end with an empty one. */
typedef struct option {
    const char *name; /* "--step" */
    option_kind_t kind;
    void *value;      /* where it goes */
    const char *word; /* what its value is called: "N" */
    const char *help;
} option_t;

/* One command: a row of the table in main.c. Help and the man page are made
 * of it. */
typedef struct command {
    const char *name;
    const char *arguments;   /* "DIR [DIR...]" */
    const char *summary;     /* one line, no full stop */
    const char *help;        /* paragraphs of at most 72 columns, or NULL */
    const option_t *options; /* NULL: run parses argv itself, also --help */
    unsigned least, most;    /* positional arguments */
    /* args[count] are the positional arguments, argv[argc] everything from
     * the command's name on, for those that parse themselves. */
    int (*run)(int count, char **args);
} command_t;

/* Every command, in the order of help: cli/cmd_NAME.c defines command_NAME. */
#define CLI_COMMANDS(X) \
    X(ls)               \
    X(show)             \
    X(verify) X(export) X(diff) X(prune) X(codec) X(info) X(bench) X(train)
#define CLI_DECLARE_(name) extern const command_t command_##name;
CLI_COMMANDS(CLI_DECLARE_)
#undef CLI_DECLARE_

/* Parses argv (argv[0]: the command) and runs the command. */
int cli_run(const command_t *command, int argc, char **argv);
void cli_print_usage(FILE *to, const command_t *command);
void cli_print_help(const command_t *command);
/* All commands as lines of fields, of which the man page and the shell's
 * completion are made. */
void cli_print_table(const command_t *const *commands);

/* Prints "lull: TEXT" to stderr. */
void cli_say(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* ... and the usage; returns CLI_USAGE. */
int cli_usage(const command_t *command, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* Says what the library's last failing call left; the exit status that
 * belongs to it. */
int cli_fail(lull_status_t status);

/* ---- Printing ---- */

/* "1.2 GiB"; one of a few buffers that take turns. */
const char *cli_bytes(uint64_t bytes);
/* "2024-05-01 12:00:00", UTC. */
const char *cli_time(int64_t seconds);
/* "[2,3]" */
const char *cli_shape(uint32_t ndim, const uint64_t *shape);
/* For a terminal: control characters become '?'. */
void cli_print_name(FILE *to, const char *name);

/* A quoted JSON string. */
void cli_json_string(FILE *to, const char *text);
/* ,"key":  (the comma unless `first`) */
void cli_json_key(FILE *to, bool first, const char *key);
void cli_json_list(FILE *to, uint32_t n, const uint64_t *values);

/* A bar on stderr, only on a terminal and only after a second. Use it as
 * lull_ckpt_verify()'s callback, or by hand. */
typedef struct progress {
    const char *what;
    double begin, shown;
    bool terminal, visible;
} progress_t;
void cli_progress_begin(progress_t *progress, const char *what);
bool cli_progress(void *progress, uint64_t done, uint64_t total);
void cli_progress_end(progress_t *progress);

/* ---- Checkpoints ---- */

/* What "DIR", "DIR/step-00000100" or "DIR/100" names; `step` (LULL_LATEST:
 * not given) as from --step. Says what was skipped, and counts it in
 * cli_skipped. *dir is malloc'ed. Returns an exit status, having said why. */
extern unsigned cli_skipped;
int cli_resolve(const char *path, uint64_t step, char **dir,
                lull_ckpt_id_t *id);
/* ... and opens it. */
int cli_open(const char *path, uint64_t step, lull_ckpt_info_t **info);

#endif
