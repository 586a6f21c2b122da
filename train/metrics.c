/* Sums over ranks, and the JSON lines made of them. */
#include "metrics.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agree.h"

/* ---- Sums -------------------------------------------------------------- */

/* What a rank tells of a step: plain numbers. */
typedef struct told {
    double seconds, blocked;
    role_sum_t roles[LULL_ROLE_COUNT];
} told_t;
enum { TOLD_NUMBERS = sizeof(told_t) / sizeof(double) };

lull_status_t comm_watch_start(comm_watch_t *watch, const groups_t *groups,
                               const lull_comm_t *own) {
    const lull_comm_t *all[] = {
        groups->train.tp, groups->train.pp,
        groups->plain.tp, groups->plain.pp,
        groups->dp_comm,  groups->param_comm,
        groups->other,    own,
    };
    memset(watch, 0, sizeof *watch);
    watch->gathered = calloc((size_t)lull_comm_size(own), sizeof(told_t));
    if (watch->gathered == NULL)
        return train_fail(LULL_ERR_NO_MEMORY, "metrics: out of memory");
    for (size_t i = 0; i < sizeof all / sizeof all[0]; ++i) {
        if (all[i] == NULL)
            continue;
        lull_comm_stats_t *seen = &watch->seen[watch->count];
        seen->size = sizeof *seen;
        watch->comms[watch->count++] = all[i];
        lull_comm_stats(all[i], seen);
    }
    return LULL_OK;
}

void comm_watch_stop(comm_watch_t *watch) {
    free(watch->gathered);
    watch->gathered = NULL;
}

static void add_difference(const lull_comm_stats_t *now,
                           const lull_comm_stats_t *before, role_sum_t *sum) {
    sum->calls += (double)(now->calls - before->calls);
    sum->bytes += (double)(now->bytes - before->bytes);
    sum->wire_bytes += (double)(now->wire_bytes - before->wire_bytes);
    sum->seconds += now->total_s - before->total_s;
}

/* This rank's part of the step. */
static void look(comm_watch_t *watch, role_sum_t *roles) {
    for (int i = 0; i < watch->count; ++i) {
        lull_comm_stats_t now = {.size = sizeof now};
        if (lull_comm_stats(watch->comms[i], &now) != LULL_OK)
            continue;
        add_difference(&now, &watch->seen[i],
                       &roles[lull_comm_role(watch->comms[i])]);
        watch->seen[i] = now;
    }
}

lull_status_t step_line_sum(comm_watch_t *watch, lull_comm_t *other,
                            step_line_t *line) {
    told_t own = {.seconds = line->seconds, .blocked = line->blocked};
    int world = lull_comm_size(other);
    look(watch, own.roles);
    lull_status_t status =
        lull_allgather(&own, watch->gathered, TOLD_NUMBERS, LULL_F64, other);
    if (status != LULL_OK)
        return train_wrap(status, "metrics");
    memset(line->roles, 0, sizeof line->roles);
    for (int rank = 0; rank < world; ++rank) {
        const told_t *told = (const told_t *)watch->gathered + rank;
        line->seconds = fmax(line->seconds, told->seconds);
        line->blocked = fmax(line->blocked, told->blocked);
        for (int i = 0; i < LULL_ROLE_COUNT; ++i) {
            line->roles[i].calls += told->roles[i].calls;
            line->roles[i].bytes += told->roles[i].bytes;
            line->roles[i].wire_bytes += told->roles[i].wire_bytes;
            line->roles[i].seconds += told->roles[i].seconds / world;
        }
    }
    return LULL_OK;
}

/* ---- The file ---------------------------------------------------------- */

struct metrics {
    FILE *file;
    const char *path;
};

static lull_status_t failed(const char *path) {
    return train_fail(LULL_ERR_IO, "--metrics %s: cannot be written: %s", path,
                      strerror(errno));
}

/* Where lines end that may stay: before the first whole or torn line of ours
 * whose step is past `step`. Foreign lines stay. */
static long end_of_kept(FILE *file, int64_t step) {
    char *text = NULL;
    size_t capacity = 0;
    long kept = 0;
    ssize_t length;
    while ((length = getline(&text, &capacity, file)) > 0) {
        long long at;
        bool ours = sscanf(text, "{\"step\":%lld,", &at) == 1;
        bool torn = text[length - 1] != '\n' && text[0] == '{';
        if ((ours && at > step) || torn)
            break;
        kept += length;
    }
    free(text);
    return kept;
}

lull_status_t metrics_open(const char *path, int64_t resumed_step,
                           metrics_t **out) {
    metrics_t *metrics = calloc(1, sizeof *metrics);
    if (metrics == NULL)
        return train_fail(LULL_ERR_NO_MEMORY, "--metrics: out of memory");
    metrics->path = path;
    metrics->file = fopen(path, resumed_step > 0 ? "a+" : "w");
    lull_status_t status = LULL_OK;
    if (metrics->file == NULL)
        status = failed(path);
    else if (resumed_step > 0) {
        rewind(metrics->file);
        long kept = end_of_kept(metrics->file, resumed_step);
        if (fseek(metrics->file, 0, SEEK_END) != 0)
            errno = 0; /* a pipe: there is nothing to cut */
        else if (ftruncate(fileno(metrics->file), kept) != 0)
            status = failed(path);
    }
    if (status != LULL_OK) {
        metrics_close(metrics);
        return status;
    }
    *out = metrics;
    return LULL_OK;
}

void metrics_close(metrics_t *metrics) {
    if (metrics == NULL)
        return;
    if (metrics->file != NULL)
        fclose(metrics->file);
    free(metrics);
}

/* JSON has no NaN and no infinity: null. */
static void number(FILE *file, const char *key, double value) {
    if (isfinite(value))
        fprintf(file, ",\"%s\":%.17g", key, value);
    else
        fprintf(file, ",\"%s\":null", key);
}

static void rounded(FILE *file, const char *key, double value) {
    fprintf(file, ",\"%s\":%.6g", key, value);
}

static void write_roles(FILE *file, const role_sum_t *roles) {
    fprintf(file, ",\"comm\":{");
    for (int i = 0; i < LULL_ROLE_COUNT; ++i)
        fprintf(file,
                "%s\"%s\":{\"calls\":%.0f,\"bytes\":%.0f,"
                "\"wire_bytes\":%.0f,\"ms\":%.6g}",
                i > 0 ? "," : "", lull_role_name((lull_role_t)i),
                roles[i].calls, roles[i].bytes, roles[i].wire_bytes,
                1e3 * roles[i].seconds);
    fprintf(file, "}");
}

lull_status_t metrics_write(metrics_t *metrics, const step_line_t *line) {
    if (metrics == NULL)
        return LULL_OK;
    FILE *file = metrics->file;
    fprintf(file, "{\"step\":%lld", (long long)line->step);
    number(file, "loss", line->result.loss);
    if (line->validated)
        number(file, "val_loss", line->val_loss);
    number(file, "grad_norm", line->result.grad_norm);
    number(file, "lr", line->result.lr);
    rounded(file, "step_ms", 1e3 * line->seconds);
    rounded(file, "tokens_per_s", line->bytes_learnt / line->seconds);
    rounded(file, "tflops", 1e-12 * line->flops / line->seconds);
    rounded(file, "ckpt_blocked_ms", 1e3 * line->blocked);
    write_roles(file, line->roles);
    fprintf(file, "}\n");
    if (fflush(file) != 0 || ferror(file))
        return failed(metrics->path);
    return LULL_OK;
}
