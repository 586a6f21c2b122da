/* The command line of lull-train: one table makes the parser, --help, the
 * metadata of a checkpoint and the comparison on resume. */
#ifndef TRAIN_OPTIONS_H
#define TRAIN_OPTIONS_H

#include <stddef.h>
#include <stdio.h>

#include <lull/comm.h>

#include "config.h"

/* What resuming from a checkpoint does with an option. */
typedef enum option_bond {
    OPTION_FREE,   /* not of the run's identity: as given now */
    OPTION_LAYOUT, /* may change; not given: as in the checkpoint */
    OPTION_BOUND   /* may not change; not given: as in the checkpoint */
} option_bond_t;

/* Parsed options: the configuration and which rows were given. */
typedef struct options {
    config_t config;
    uint64_t given;    /* bit i: row i of the table */
    char *adopted[64]; /* strings that are the options' own, by row */
} options_t;

enum { OPTION_TEXT_MAX = LULL_POLICY_MAX };

/* Fills *out with the defaults, then with argv[1] and on. Strings point into
 * argv. LULL_ERR_INVALID: one option, its value and what would do. */
lull_status_t options_parse(int argc, char **argv, options_t *out);

/* Whether argv asks for --help, --version or --table: prints it, returns
 * true. */
bool options_answer(int argc, char **argv);

/* Row `index` of the table for people; fallback: the default, or NULL. False
 * past the last row. */
typedef struct option_text {
    const char *name, *argument, *help, *fallback;
} option_text_t;
bool options_text(size_t index, option_text_t *out);

/* Row `index` of the table as text: its name without dashes, its bond and its
 * value (a path in full). False past the last row. */
typedef struct option_row {
    const char *name;
    option_bond_t bond;
    bool given;
    char value[OPTION_TEXT_MAX];
} option_row_t;
bool options_row(const options_t *options, size_t index, option_row_t *out);

/* Sets row `index` from a checkpoint's text, which nothing vouches for.
 * LULL_ERR_INVALID: not a value of this option. */
lull_status_t options_adopt(options_t *options, size_t index, const char *text);

/* Frees what was adopted; the configuration is not to be used any more. */
void options_release(options_t *options);

/* Checks what needs no world: options that exclude or need each other, and
 * the policy. To be called before a checkpoint is looked for. */
lull_status_t options_check_company(const options_t *options);

/* Sets config->dp from the world, chooses what was left open, and checks all
 * that belongs together: divisibility, ranges. */
lull_status_t options_check(options_t *options, int world);

#endif
