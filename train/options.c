/* The table of options, and what is made from it. */
#include "options.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agree.h"
#include "manual.h"
#include "tiers.h"

typedef enum kind { INT, LONG, SEED, REAL, TEXT, BYTES, MODE, TIER } kind_t;

typedef struct row {
    const char *name, *argument;
    kind_t kind;
    option_bond_t bond;
    size_t offset;
    const char *fallback; /* the default; NULL: not set */
    double least, most;   /* of numbers */
    const char *help;
} row_t;

#define AT(field) offsetof(config_t, field)
#define MANY 2147483647.0
#define GIB 1073741824.0
#define HUGE_COUNT 9007199254740991.0

static const row_t rows[] = {
    {"data", "FILE", TEXT, OPTION_FREE, AT(data), NULL, 0, 0,
     "text to learn; its last tenth is for validation"},
    {"layers", "N", INT, OPTION_BOUND, AT(layers), "4", 1, 10000,
     "transformer layers"},
    {"hidden", "N", INT, OPTION_BOUND, AT(hidden), "128", 8, 1048576,
     "width of the model"},
    {"heads", "N", INT, OPTION_BOUND, AT(heads), "4", 1, 65536,
     "attention heads; divide the width"},
    {"seq", "N", INT, OPTION_BOUND, AT(seq), "128", 1, 1048576,
     "bytes of context"},
    {"global-batch", "N", INT, OPTION_BOUND, AT(global_batch), "16", 1, MANY,
     "sequences in a step, over all ranks"},
    {"micro-batch", "N", INT, OPTION_LAYOUT, AT(micro_batch), "0", 0, MANY,
     "sequences of a rank in one pass; 0: chosen"},
    {"tp", "N", INT, OPTION_LAYOUT, AT(tp), "1", 1, MANY,
     "tensor-parallel ranks"},
    {"pp", "N", INT, OPTION_LAYOUT, AT(pp), "1", 1, MANY,
     "pipeline stages; data-parallel ranks: world / (tp * pp)"},
    {"zero", "0|1", INT, OPTION_LAYOUT, AT(zero), "0", 0, 1,
     "1: shard the optimizer's state over data-parallel ranks"},
    {"steps", "N", LONG, OPTION_BOUND, AT(steps), "1000", 1, HUGE_COUNT,
     "steps of the whole schedule"},
    {"stop-at", "N", LONG, OPTION_FREE, AT(stop_at), "0", 0, HUGE_COUNT,
     "end after this step, schedule unchanged; 0: --steps"},
    {"lr", "X", REAL, OPTION_BOUND, AT(lr), "0.001", 0, 1000,
     "peak learning rate"},
    {"warmup", "N", LONG, OPTION_BOUND, AT(warmup), "100", 0, HUGE_COUNT,
     "steps of rising learning rate"},
    {"seed", "N", SEED, OPTION_BOUND, AT(seed), "1", 0, 0,
     "of weights, batches and samples"},
    {"val-every", "N", LONG, OPTION_BOUND, AT(val_every), "0", 0, HUGE_COUNT,
     "validate every so many steps; 0: after the last only"},
    {"val-windows", "N", INT, OPTION_BOUND, AT(val_windows), "64", 1, MANY,
     "windows of --seq bytes that validation reads"},
    {"comm", "POLICY", TEXT, OPTION_LAYOUT, AT(comm), "none", 0, 0,
     "compression of communication, by role; auto measures"},
    {"ckpt-dir", "DIR", TEXT, OPTION_FREE, AT(ckpt_dir), NULL, 0, 0,
     "where checkpoints go; made if missing"},
    {"ckpt-every", "N", LONG, OPTION_FREE, AT(ckpt_every), "0", 0, HUGE_COUNT,
     "checkpoint every so many steps; 0: after the last only"},
    {"ckpt-mode", "lazy|eager|sync", MODE, OPTION_FREE, AT(ckpt_mode), "lazy",
     0, 0, "what a save waits for"},
    {"ckpt-buffer", "BYTES", BYTES, OPTION_FREE, AT(ckpt_buffer), "64M",
     1048576, 65536 * GIB,
     "staging memory of a rank; K, M and G are understood"},
    {"ckpt-codec", "POLICY", TEXT, OPTION_FREE, AT(ckpt_codec), NULL, 0, 0,
     "compression of checkpoints, as weights=expo,moments=expo"},
    {"ckpt-encode-threads", "N", INT, OPTION_FREE, AT(ckpt_encode_threads), "1",
     1, 16, "threads of a rank that compress checkpoints"},
    {"ckpt-tier", "DIR[,KEY=N]...", TIER, OPTION_FREE, AT(ckpt_tiers), NULL, 0,
     0,
     "slower place, drained to; again for more; keep-last, keep-every, files"},
    {"ckpt-local", "0|1", INT, OPTION_FREE, AT(ckpt_local), "0", 0, 1,
     "1: --ckpt-dir is a disk of each node, its ranks' files stay there"},
    {"commit-timeout", "SECONDS", REAL, OPTION_FREE, AT(commit_timeout), "600",
     1, 1e6, "a checkpoint that not all ranks wrote by then is given up"},
    {"keep-last", "N", INT, OPTION_FREE, AT(keep_last), "0", 0, MANY,
     "keep the newest N checkpoints; 0: all"},
    {"keep-every", "N", LONG, OPTION_FREE, AT(keep_every), "0", 0, HUGE_COUNT,
     "and those of every N-th step; 0: none"},
    {"resume", "DIR|auto", TEXT, OPTION_FREE, AT(resume), NULL, 0, 0,
     "go on from the newest checkpoint; auto: of --ckpt-dir, if any"},
    {"metrics", "FILE", TEXT, OPTION_FREE, AT(metrics), NULL, 0, 0,
     "a JSON object a step"},
    {"trace", "FILE", TEXT, OPTION_FREE, AT(trace), NULL, 0, 0,
     "a trace for Perfetto or chrome://tracing"},
    {"init", "FILE", TEXT, OPTION_FREE, AT(init), NULL, 0, 0,
     "begin with the weights of this safetensors file"},
    {"dump-init", "FILE", TEXT, OPTION_FREE, AT(dump_init), NULL, 0, 0,
     "write the first weights, as safetensors"},
    {"dump-grads", "FILE", TEXT, OPTION_FREE, AT(dump_grads), NULL, 0, 0,
     "write the gradients of the first step, before clipping"},
    {"dump-activations", "FILE", TEXT, OPTION_FREE, AT(dump_activations), NULL,
     0, 0, "write what parallel layers would send in that step; one rank only"},
    {"dump-step", "N", LONG, OPTION_FREE, AT(dump_step), "0", 0, HUGE_COUNT,
     "dump gradients and activations of step N; 0: the run's first"},
    {"dump-batches", "FILE", TEXT, OPTION_FREE, AT(dump_batches), NULL, 0, 0,
     "write the batch of every step"},
    {"sample", "N", INT, OPTION_FREE, AT(sample), "0", 0, 1048576,
     "write N bytes of text to stdout at the end"},
    {"prompt", "TEXT", TEXT, OPTION_FREE, AT(prompt), "\n", 0, 0,
     "what a sample begins with; default: a new line"},
    {"temperature", "X", REAL, OPTION_FREE, AT(temperature), "0.8", 0, 100,
     "of sampling; 0: the likeliest byte"},
    {"top-k", "N", INT, OPTION_FREE, AT(top_k), "40", 0, VOCABULARY,
     "sample among the likeliest N; 0: all"},
};

enum { ROW_COUNT = sizeof rows / sizeof rows[0] };
_Static_assert(ROW_COUNT <= 64, "options_t.given has a bit for each row");

static const char *const modes[] = {
    [LULL_CKPT_LAZY] = "lazy",
    [LULL_CKPT_EAGER] = "eager",
    [LULL_CKPT_SYNC] = "sync",
};

static void *field(config_t *config, const row_t *row) {
    return (char *)config + row->offset;
}

/* What would do for a row, after the value that does not. */
static lull_status_t refuse(const row_t *row, const char *text) {
    char wanted[96];
    switch (row->kind) {
    case TIER:
    case MODE:
        snprintf(wanted, sizeof wanted, "%s", row->argument);
        break;
    case SEED:
        snprintf(wanted, sizeof wanted, "a whole number from 0");
        break;
    case BYTES:
        snprintf(wanted, sizeof wanted, "a size from 1M to %.0fG, as 64M or 2G",
                 row->most / GIB);
        break;
    default:
        snprintf(wanted, sizeof wanted, "a %snumber from %.15g to %.15g",
                 row->kind == REAL ? "" : "whole ", row->least, row->most);
    }
    return train_fail(LULL_ERR_INVALID, "--%s: '%s': give %s", row->name, text,
                      wanted);
}

static bool read_whole(const char *text, long long *out) {
    char *end;
    errno = 0;
    *out = strtoll(text, &end, 10);
    return errno == 0 && end != text && *end == '\0';
}

static bool read_seed(const char *text, uint64_t *out) {
    char *end;
    errno = 0;
    *out = strtoull(text, &end, 10);
    return errno == 0 && end != text && *end == '\0' &&
           strchr(text, '-') == NULL;
}

static bool read_bytes(const char *text, double *out) {
    static const char suffixes[] = "KMG";
    char *end;
    errno = 0;
    unsigned long long value = strtoull(text, &end, 10);
    if (errno != 0 || end == text || strchr(text, '-') != NULL)
        return false;
    *out = (double)value;
    const char *suffix = *end != '\0' ? strchr(suffixes, *end) : NULL;
    if (suffix != NULL) {
        for (long i = 0; i <= suffix - suffixes; ++i)
            *out *= 1024;
        ++end;
    }
    return *end == '\0';
}

static bool within(const row_t *row, double value) {
    return value >= row->least && value <= row->most;
}

static lull_status_t set_mode(config_t *config, const row_t *row,
                              const char *text) {
    for (size_t i = 0; i < sizeof modes / sizeof modes[0]; ++i) {
        if (strcmp(modes[i], text) == 0) {
            *(lull_ckpt_mode_t *)field(config, row) = (lull_ckpt_mode_t)i;
            return LULL_OK;
        }
    }
    return refuse(row, text);
}

static lull_status_t set_number(config_t *config, const row_t *row,
                                const char *text) {
    long long whole = 0;
    double real = 0;
    char *end;
    if (row->kind == SEED)
        return read_seed(text, field(config, row)) ? LULL_OK
                                                   : refuse(row, text);
    if (row->kind == REAL) {
        real = strtod(text, &end);
        if (end == text || *end != '\0' || !within(row, real))
            return refuse(row, text);
        *(double *)field(config, row) = real;
    } else if (row->kind == BYTES) {
        if (!read_bytes(text, &real) || !within(row, real))
            return refuse(row, text);
        *(uint64_t *)field(config, row) = (uint64_t)real;
    } else {
        if (!read_whole(text, &whole) || !within(row, (double)whole))
            return refuse(row, text);
        if (row->kind == INT)
            *(int *)field(config, row) = (int)whole;
        else
            *(int64_t *)field(config, row) = whole;
    }
    return LULL_OK;
}

/* Each time one more. */
static lull_status_t add_tier(tier_texts_t *tiers, const row_t *row,
                              const char *text) {
    tier_spec_t spec;
    lull_status_t status = tier_parse(text, &spec);
    if (status != LULL_OK)
        return status;
    if (tiers->count == LULL_CKPT_TIERS_MAX)
        return train_fail(LULL_ERR_INVALID, "--%s %s: give at most %d",
                          row->name, text, LULL_CKPT_TIERS_MAX);
    tiers->text[tiers->count++] = text;
    return LULL_OK;
}

static lull_status_t set(config_t *config, const row_t *row, const char *text) {
    if (row->kind == MODE)
        return set_mode(config, row, text);
    if (row->kind == TIER)
        return add_tier(field(config, row), row, text);
    if (row->kind != TEXT)
        return set_number(config, row, text);
    if (*text == '\0' && row->offset != AT(prompt))
        return train_fail(LULL_ERR_INVALID, "--%s: '': give %s", row->name,
                          row->argument);
    *(const char **)field(config, row) = text;
    return LULL_OK;
}

static const row_t *find(const char *name, size_t length) {
    for (size_t i = 0; i < ROW_COUNT; ++i) {
        if (strlen(rows[i].name) == length &&
            memcmp(rows[i].name, name, length) == 0)
            return &rows[i];
    }
    return NULL;
}

lull_status_t options_parse(int argc, char **argv, options_t *out) {
    memset(out, 0, sizeof *out);
    for (size_t i = 0; i < ROW_COUNT; ++i) {
        if (rows[i].fallback != NULL)
            set(&out->config, &rows[i], rows[i].fallback);
    }
    for (int i = 1; i < argc; ++i) {
        const char *name = argv[i];
        const char *equals = strchr(name, '=');
        size_t length = equals != NULL ? (size_t)(equals - name) : strlen(name);
        const row_t *row = strncmp(name, "--", 2) == 0 && length > 2
                               ? find(name + 2, length - 2)
                               : NULL;
        if (row == NULL)
            return train_fail(LULL_ERR_INVALID,
                              "%s: no such option: lull-train --help has all",
                              name);
        if (equals == NULL && i + 1 == argc)
            return train_fail(LULL_ERR_INVALID, "%s: no value: give %s", name,
                              row->argument);
        const char *value = equals != NULL ? equals + 1 : argv[++i];
        lull_status_t status = set(&out->config, row, value);
        if (status != LULL_OK)
            return status;
        out->given |= UINT64_C(1) << (row - rows);
    }
    return LULL_OK;
}

bool options_text(size_t index, option_text_t *out) {
    if (index >= ROW_COUNT)
        return false;
    const row_t *row = &rows[index];
    *out = (option_text_t){.name = row->name,
                           .argument = row->argument,
                           .help = row->help,
                           .fallback = row->fallback};
    if (row->offset == AT(prompt)) /* not to be shown as it is */
        out->fallback = NULL;
    return true;
}

/* Known before MPI is: Open MPI's and MPICH's launchers tell in the
 * environment. */
static bool first_rank(void) {
    const char *rank = getenv("OMPI_COMM_WORLD_RANK");
    if (rank == NULL)
        rank = getenv("PMI_RANK");
    return rank == NULL || strcmp(rank, "0") == 0;
}

bool options_answer(int argc, char **argv) {
    for (int i = 1; i < argc; ++i) {
        if (strcmp(argv[i], "--help") == 0) {
            if (first_rank())
                manual_help();
            return true;
        }
        if (strcmp(argv[i], "--table") == 0) { /* for the build */
            manual_table();
            return true;
        }
        if (strcmp(argv[i], "--version") == 0) {
            if (first_rank())
                printf("lull-train %s\n", lull_version());
            return true;
        }
        const row_t *row = strncmp(argv[i], "--", 2) == 0
                               ? find(argv[i] + 2, strlen(argv[i] + 2))
                               : NULL;
        i += row != NULL; /* a value is not a question */
    }
    return false;
}

static void as_text(const config_t *config, const row_t *row, char *text) {
    const void *at = (const char *)config + row->offset;
    switch (row->kind) {
    case INT:
        snprintf(text, OPTION_TEXT_MAX, "%d", *(const int *)at);
        break;
    case LONG:
        snprintf(text, OPTION_TEXT_MAX, "%lld",
                 (long long)*(const int64_t *)at);
        break;
    case SEED:
    case BYTES:
        snprintf(text, OPTION_TEXT_MAX, "%llu",
                 (unsigned long long)*(const uint64_t *)at);
        break;
    case REAL:
        snprintf(text, OPTION_TEXT_MAX, "%.17g", *(const double *)at);
        break;
    case MODE:
        snprintf(text, OPTION_TEXT_MAX, "%s",
                 modes[*(const lull_ckpt_mode_t *)at]);
        break;
    case TIER:
        text[0] = '\0'; /* it is of no run's identity */
        break;
    case TEXT:
        text[0] = '\0';
        if (*(const char *const *)at != NULL)
            snprintf(text, OPTION_TEXT_MAX, "%s", *(const char *const *)at);
    }
}

bool options_row(const options_t *options, size_t index, option_row_t *out) {
    if (index >= ROW_COUNT)
        return false;
    const row_t *row = &rows[index];
    out->name = row->name;
    out->bond = row->bond;
    out->given = (options->given >> index & 1) != 0;
    as_text(&options->config, row, out->value);
    return true;
}

lull_status_t options_adopt(options_t *options, size_t index,
                            const char *text) {
    const row_t *row = &rows[index];
    if (row->kind != TEXT)
        return set(&options->config, row, text);
    char *copy = strdup(text);
    if (copy == NULL)
        return train_fail(LULL_ERR_NO_MEMORY, "--%s: out of memory", row->name);
    free(options->adopted[index]);
    options->adopted[index] = copy;
    return set(&options->config, row, copy);
}

void options_release(options_t *options) {
    for (size_t i = 0; i < ROW_COUNT; ++i)
        free(options->adopted[i]);
    *options = (options_t){0};
}
