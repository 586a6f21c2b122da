/* The progress line and the table. */
#include "report.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agree.h"

enum { ROWS_SHOWN = 12, TEXT_MAX = 24, LINE_SECONDS = 2 };

void report_start(report_t *report, int64_t first, int64_t last) {
    memset(report, 0, sizeof *report);
    report->first = first;
    report->last = last;
    report->begun = train_now();
}

static const char *size_text(double bytes, char *text) {
    static const char units[] = " kMGT";
    int unit = 0;
    while (bytes >= 999.5 && unit < 4) {
        bytes /= 1000;
        ++unit;
    }
    snprintf(text, TEXT_MAX, "%.*f %cB", unit > 0 && bytes < 99.95 ? 1 : 0,
             bytes, units[unit]);
    if (unit == 0)
        snprintf(text, TEXT_MAX, "%.0f B", bytes);
    return text;
}

static const char *time_text(double seconds, char *text) {
    long long whole = (long long)(seconds + 0.5);
    if (whole >= 3600)
        snprintf(text, TEXT_MAX, "%lld:%02lld:%02lld", whole / 3600,
                 whole / 60 % 60, whole % 60);
    else
        snprintf(text, TEXT_MAX, "%lld:%02lld", whole / 60, whole % 60);
    return text;
}

static void write_line(const report_t *report, const step_line_t *line) {
    char given[TEXT_MAX], wire[TEXT_MAX], left[TEXT_MAX], val[TEXT_MAX] = "";
    double each = (train_now() - report->begun) / (double)report->steps;
    if (line->validated)
        snprintf(val, sizeof val, "  val %.4f", line->val_loss);
    train_say("step %5lld/%lld  loss %.4f%s  %.0f tokens/s  comm %s, wire %s"
              "  blocked %.1f ms  left %s",
              (long long)line->step, (long long)report->last, line->result.loss,
              val, report->spent > 0 ? report->learnt / report->spent : 0,
              size_text(report->given, given), size_text(report->wire, wire),
              1e3 * report->blocked,
              time_text(each * (double)(report->last - line->step), left));
}

void report_step(report_t *report, const step_line_t *line) {
    for (int i = 0; i < LULL_ROLE_COUNT; ++i) {
        report->roles[i].calls += line->roles[i].calls;
        report->roles[i].bytes += line->roles[i].bytes;
        report->roles[i].wire_bytes += line->roles[i].wire_bytes;
        report->roles[i].seconds += line->roles[i].seconds;
        report->given += line->roles[i].bytes;
        report->wire += line->roles[i].wire_bytes;
    }
    ++report->steps;
    report->learnt += line->bytes_learnt;
    report->spent += line->seconds;
    report->steps_seconds += line->seconds;
    report->blocked += line->blocked;
    report->all_blocked += line->blocked;
    double now = train_now();
    if (now - report->shown < LINE_SECONDS && !line->validated &&
        line->step < report->last)
        return;
    write_line(report, line);
    report->shown = now;
    report->learnt = report->spent = 0;
    report->given = report->wire = report->blocked = 0;
}

/* ---- The table --------------------------------------------------------- */

static void write_roles(const report_t *report) {
    char given[TEXT_MAX], wire[TEXT_MAX];
    train_say("\n  role     calls      given    on wire  ratio   ms a step");
    for (int i = 0; i < LULL_ROLE_COUNT; ++i) {
        const role_sum_t *role = &report->roles[i];
        if (role->calls > 0)
            train_say("  %-5s %8.0f %10s %10s  %5.2f  %10.2f",
                      lull_role_name((lull_role_t)i), role->calls,
                      size_text(role->bytes, given),
                      size_text(role->wire_bytes, wire),
                      role->wire_bytes > 0 ? role->bytes / role->wire_bytes
                                           : 1.0,
                      1e3 * role->seconds / (double)report->steps);
    }
}

static void write_saves(const save_record_t *saves, size_t count) {
    char bytes[TEXT_MAX], rate[TEXT_MAX];
    double blocked = 0, moved = 0, spent = 0;
    size_t first = count > ROWS_SHOWN ? count - ROWS_SHOWN : 0, committed = 0;
    train_say("\n  checkpoint    bytes  blocked ms  copied ms  durable ms"
              "  durable/s");
    for (size_t i = 0; i < count; ++i) {
        const save_record_t *save = &saves[i];
        blocked += save->blocked;
        moved += save->failed ? 0 : save->bytes;
        spent += save->failed ? 0 : save->durable;
        committed += !save->failed;
        if (i < first)
            continue;
        train_say(
            "  step %5lld %8s  %10.2f  %9.2f  %10.2f  %9s",
            (long long)save->step, size_text(save->bytes, bytes),
            1e3 * save->blocked, 1e3 * save->snapshot, 1e3 * save->durable,
            save->failed        ? "failed"
            : save->durable > 0 ? size_text(save->bytes / save->durable, rate)
                                : "-");
    }
    train_say("  all: %zu committed, %zu failed, blocked %.2f ms on average,"
              " %s/s durable",
              committed, count - committed, 1e3 * blocked / (double)count,
              size_text(spent > 0 ? moved / spent : 0, rate));
}

/* The slowest rank's times and all ranks' bytes. `most` and `bytes` are room
 * for FIELDS and one number a save. */
enum { FIELDS = 4 };
static lull_status_t sum_saves(save_record_t *saves, size_t count, double *most,
                               lull_comm_t *other) {
    double *bytes = most + FIELDS * count;
    for (size_t i = 0; i < count; ++i) {
        most[FIELDS * i] = saves[i].blocked;
        most[FIELDS * i + 1] = saves[i].snapshot;
        most[FIELDS * i + 2] = saves[i].durable;
        most[FIELDS * i + 3] = saves[i].failed;
        bytes[i] = saves[i].bytes;
    }
    lull_status_t status = lull_allreduce(LULL_IN_PLACE, most, FIELDS * count,
                                          LULL_F64, LULL_MAX, other);
    if (status == LULL_OK)
        status = lull_allreduce(LULL_IN_PLACE, bytes, count, LULL_F64, LULL_SUM,
                                other);
    for (size_t i = 0; i < count; ++i) {
        saves[i].blocked = most[FIELDS * i];
        saves[i].snapshot = most[FIELDS * i + 1];
        saves[i].durable = most[FIELDS * i + 2];
        saves[i].failed = most[FIELDS * i + 3] > 0;
        saves[i].bytes = bytes[i];
    }
    return train_wrap(status, "table");
}

static void write_table(const report_t *report, const save_record_t *saves,
                        size_t count) {
    write_roles(report);
    if (count > 0)
        write_saves(saves, count);
    train_say("  %lld steps in %.1f s, %.1f ms of it blocked by checkpoints\n",
              (long long)report->steps, report->steps_seconds,
              1e3 * report->all_blocked);
}

lull_status_t report_table(const report_t *report, const saver_t *saver,
                           lull_comm_t *other) {
    size_t count;
    bool sayer;
    const save_record_t *own = saver_records(saver, &count);
    save_record_t *saves = calloc(count + 1, sizeof *saves);
    double *room = calloc(count + 1, (FIELDS + 1) * sizeof *room);
    lull_status_t status =
        saves != NULL && room != NULL ? LULL_OK : LULL_ERR_NO_MEMORY;
    if (!agree_quiet(other, status, &sayer)) {
        status = train_fail(LULL_ERR_NO_MEMORY, "table: out of memory");
    } else {
        if (count > 0)
            memcpy(saves, own, count * sizeof *saves);
        status = sum_saves(saves, count, room, other);
        if (status == LULL_OK && lull_comm_rank(other) == 0 &&
            report->steps > 0)
            write_table(report, saves, count);
    }
    free(room);
    free(saves);
    return status;
}
