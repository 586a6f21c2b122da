/* What checkpoints cost, each figure beside its yardstick in the same run: a
 * warm torch.save and fsync, fio, and lull's own synchronous saves. Called by
 * bench/run.sh ckpt:
 *
 *     bench_ckpt [--json FILE] [--quick | --smoke] [--dir DIR]
 *                [--only PART,...] [--mib N] --torch SCRIPT
 *
 * PARTs are those of the table below; N, the one size to measure. DIR
 * (default: the current one) gets a new folder to write in, about four times
 * the size at hand; all of it is removed. A round runs every contender once, so
 * that what the disk does meanwhile meets all of them, and each of them begins
 * when the disk has come to rest.
 *
 * Restores go to memory that was touched before, as a trainer's parameters
 * are; restore_fresh tells what they take where it was not, page faults
 * included. fio reads into four buffers of its own, of small pages. */
#include <lull/lull.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ckpt_bench.h"

static const scale_t scales[] = {
    {NULL, {64, 512, 1024, 4096}, 5, 4, 9, 50, 3, 1000000, 512},
    {"--quick", {64, 512}, 3, 4, 3, 24, 1, 1000000, 512},
    /* Whether it works, for tests: the figures mean nothing. */
    {"--smoke", {8}, 1, 1, 1, 3, 1, 2000, 16},
};
enum { SCALES = sizeof scales / sizeof scales[0] };
const scale_t *scale = &scales[0];

static const char *script; /* torch_save.py */

/* What can be measured alone. */
enum { ROUNDS, RESTORE, CODEC, RUNS, BESIDE, MANY, PARTS_OF_ALL };
static const char *const parts[] = {"rounds", "restore", "codec",
                                    "runs",   "beside",  "many"};
static unsigned wanted = (1u << PARTS_OF_ALL) - 1;
static size_t only_mib; /* 0: all sizes */

static bool wants(int part) {
    return (wanted >> part & 1) != 0;
}

/* ---- blocked time and bandwidth ---- */

typedef struct figures {
    series_t torch_ms, lazy_ms, eager_ms, sync_ms;
    series_t durable, fio_write, restore, restore_fresh, fio_read;
    series_t torch_lazy; /* a torch.save of the round, for each lazy one */
} figures_t;

static double gbps(double seconds) {
    return 1e-9 * (double)state.bytes / seconds;
}

static void durable_pair(lull_ckpt_t *ckpt, figures_t *f) {
    settle();
    double seconds = sync_save(ckpt);
    add(&f->sync_ms, 1e3 * seconds);
    add(&f->durable, gbps(seconds));
    settle();
    add(&f->fio_write, fio_write(state.bytes));
}

/* Each goes first in every other pair. */
static void restore_pair(char *to, figures_t *f) {
    bool first = f->restore.n % 2 == 0;
    settle();
    if (first)
        add(&f->restore, restore(to));
    add(&f->fio_read, fio_read(state.bytes));
    if (!first)
        add(&f->restore, restore(to));
    if (state.bytes <= 1024 * MIB) /* else memory would not suffice */
        add(&f->restore_fresh, restore_fresh());
}

static void one_round(lull_ckpt_t *ckpt, double cycle, char *to, figures_t *f) {
    settle();
    double torch_ms = 1e3 * torch_save();
    if (torch_ms > 0)
        add(&f->torch_ms, torch_ms);
    settle();
    for (int i = 0; i < scale->lazies; i++) {
        add(&f->lazy_ms, 1e3 * lazy_save(ckpt, 1.5 * cycle));
        if (torch_ms > 0)
            add(&f->torch_lazy, torch_ms);
    }
    must(lull_ckpt_wait_committed(ckpt, NULL, LULL_FOREVER), "committing");
    settle();
    add(&f->eager_ms, 1e3 * eager_save(ckpt));
    durable_pair(ckpt, f);
    restore_pair(to, f);
}

static void show_blocked(const figures_t *f) {
    static const char *const modes[] = {"lazy", "eager", "sync"};
    const series_t *blocked[] = {&f->lazy_ms, &f->eager_ms, &f->sync_ms};
    char name[64];
    for (int i = 0; i < 3; i++) {
        snprintf(name, sizeof name, "%s/%s/host", modes[i],
                 size_name(state.bytes));
        emit_less(name,
                  (row_t){.metric = "blocked_ms",
                          .unit = "ms",
                          .ours = blocked[i],
                          .baseline = "torch.save",
                          .theirs = i == 0 ? &f->torch_lazy : &f->torch_ms});
    }
    snprintf(name, sizeof name, "lazy/%s/host", size_name(state.bytes));
    row_t row = {.unit = "ms", .baseline = "torch.save", .n = f->lazy_ms.n};
    row.metric = "blocked_mean_ms";
    emit_one(name, row, mean(&f->lazy_ms), mean(&f->torch_ms));
    row.metric = "blocked_p99_ms";
    emit_one(name, row, at(&f->lazy_ms, 0.99), at(&f->torch_ms, 0.99));
}

static void show_pairs(const char *metric, const series_t *ours,
                       const char *baseline, const series_t *theirs) {
    char name[64];
    snprintf(name, sizeof name, "sync/%s/host", size_name(state.bytes));
    if (ours->n > 0)
        emit_more(name, (row_t){.metric = metric,
                                .unit = "GB/s",
                                .ours = ours,
                                .baseline = baseline,
                                .theirs = theirs});
}

static void show(const figures_t *f) {
    if (wants(ROUNDS))
        show_blocked(f);
    show_pairs("durable_GBps", &f->durable, "fio write", &f->fio_write);
    show_pairs("restore_GBps", &f->restore, "fio read", &f->fio_read);
    show_pairs("restore_fresh_GBps", &f->restore_fresh, "fio read",
               &f->fio_read);
}

/* Returns the seconds in which a checkpoint drains, again and again: with
 * what retention deletes for it, which on some disks takes half as long as
 * writing. */
static double warm_up(lull_ckpt_t *ckpt) {
    series_t cycle = {.n = 0};
    for (int i = 0; i < 2; i++) /* the first touch of a disk is slow */
        (void)sync_save(ckpt);
    (void)torch_save();
    (void)fio_write(state.bytes);
    for (int i = 0; i < 3; i++) {
        settle();
        double begin = now();
        (void)sync_save(ckpt);
        settle();
        add(&cycle, now() - begin);
    }
    return at(&cycle, 0.5);
}

/* Returns the seconds of a drain. */
static double measure(bool largest, char *to) {
    figures_t f;
    memset(&f, 0, sizeof f);
    lull_ckpt_t *ckpt = open_engine(NULL, NULL);
    double cycle = warm_up(ckpt);
    for (int i = 0; i < scale->rounds && wants(ROUNDS); i++)
        one_round(ckpt, cycle, to, &f);
    for (int i = f.restore.n; i < scale->pairs && wants(RESTORE); i++)
        restore_pair(to, &f);
    while (f.sync_ms.n < (largest ? scale->pairs : scale->rounds))
        durable_pair(ckpt, &f);
    show(&f);
    close_engine(ckpt);
    return at(&f.sync_ms, 0.5) / 1e3;
}

/* ---- coded saves, against raw ones ---- */

static void measure_codec(const char *codec) {
    series_t raw_gbps = {.n = 0}, gbs = raw_gbps, raw_ms = raw_gbps,
             ms = raw_gbps, saved = raw_gbps;
    char name[64];
    lull_ckpt_stats_t stats = {.size = sizeof stats};
    for (int i = 0; i < scale->rounds + 1; i++) {
        double seconds[2], blocked[2];
        for (int coded = 0; coded < 2; coded++) {
            lull_ckpt_t *ckpt = open_engine(coded ? codec : NULL, NULL);
            settle();
            seconds[coded] = sync_save(ckpt);
            blocked[coded] = 1e3 * lazy_save(ckpt, 1.5 * seconds[coded]);
            must(lull_ckpt_wait_committed(ckpt, NULL, LULL_FOREVER), "saving");
            must(lull_ckpt_stats(ckpt, &stats), "counters");
            close_engine(ckpt);
        }
        if (i == 0)
            continue; /* warming up */
        add(&raw_gbps, gbps(seconds[0]));
        add(&gbs, gbps(seconds[1]));
        add(&raw_ms, blocked[0]);
        add(&ms, blocked[1]);
        add(&saved,
            100.0 * (double)stats.bytes_saved / (double)stats.bytes_copied);
    }
    snprintf(name, sizeof name, "sync+%s/%s/host", codec,
             size_name(state.bytes));
    emit(name, &(row_t){.metric = "bytes_saved", .unit = "%", .ours = &saved});
    emit_more(name, (row_t){.metric = "flush_GBps",
                            .unit = "GB/s",
                            .ours = &gbs,
                            .baseline = "raw",
                            .theirs = &raw_gbps});
    double ratio = at(&gbs, 0.5) / at(&raw_gbps, 0.5);
    printf("%-20s coding makes the flush %s on this disk\n", "",
           ratio > 1.05   ? "faster"
           : ratio < 0.95 ? "slower"
                          : "neither faster nor slower");
    snprintf(name, sizeof name, "lazy+%s/%s/host", codec,
             size_name(state.bytes));
    emit_less(name, (row_t){.metric = "blocked_ms",
                            .unit = "ms",
                            .ours = &ms,
                            .baseline = "raw",
                            .theirs = &raw_ms});
}

/* ---- all of it ---- */

/* Memory for `bytes` of state: ours, its copy, what is loaded, torch's. */
static bool fits(size_t bytes) {
    char line[128];
    unsigned long long kib = 0;
    FILE *file = fopen("/proc/meminfo", "r");
    while (file != NULL && fgets(line, sizeof line, file) != NULL)
        if (sscanf(line, "MemAvailable: %llu", &kib) == 1)
            break;
    if (file != NULL)
        fclose(file);
    return 4.5 * (double)bytes < 1024.0 * (double)kib;
}

static bool is_largest(size_t mib) {
    size_t largest = 0;
    for (int i = 0; i < 4; i++)
        if (scale->sizes[i] > largest)
            largest = scale->sizes[i];
    return mib == largest;
}

static void measure_size(size_t mib) {
    if (!fits(mib * MIB)) {
        printf("%-20s left out: too little memory is free\n",
               size_name(mib * MIB));
        return;
    }
    make_state(mib * MIB);
    bool has_torch = torch_begin(script, state.bytes);
    if (!has_torch) {
        puts("no torch.save: /usr/bin/python3 has no torch");
        torch_end();
    }
    char *to = malloc(state.bytes);
    if (to == NULL)
        fail("no memory");
    memset(to, 1, state.bytes);
    double drain = measure(is_largest(mib), to);
    free(to);
    if (mib <= 512 && wants(CODEC))
        measure_codec("expo");
    if (mib <= 512 && wants(RUNS))
        measure_runs(has_torch, drain);
    torch_end();
    free(state.data);
    folder_empty();
}

static void measure_sizes(void) {
    if (!wants(ROUNDS) && !wants(RESTORE) && !wants(CODEC) && !wants(RUNS))
        return;
    for (int i = 0; i < 4 && scale->sizes[i] > 0; i++)
        if (only_mib == 0 || only_mib == scale->sizes[i])
            measure_size(scale->sizes[i]);
}

static void measure_rest(void) {
    make_state(scale->beside * MIB);
    if (wants(BESIDE))
        measure_beside();
    free(state.data);
    folder_empty();
    make_state(MIB);
    if (wants(MANY))
        measure_many();
    free(state.data);
    folder_empty();
}

static void usage(void) {
    fputs("usage: bench_ckpt [--json FILE] [--quick | --smoke] [--dir DIR] "
          "[--only PART,...] [--mib N] --torch bench/torch_save.py\n"
          "parts:",
          stderr);
    for (int i = 0; i < PARTS_OF_ALL; i++)
        fprintf(stderr, " %s", parts[i]);
    fputc('\n', stderr);
    exit(2);
}

static bool parse_scale(const char *option) {
    for (int i = 1; i < SCALES; i++) {
        if (strcmp(option, scales[i].option) == 0) {
            scale = &scales[i];
            return true;
        }
    }
    return false;
}

static void parse_parts(char *list) {
    wanted = 0;
    for (char *word = strtok(list, ","); word; word = strtok(NULL, ",")) {
        int part = 0;
        while (part < PARTS_OF_ALL && strcmp(word, parts[part]) != 0)
            part++;
        if (part == PARTS_OF_ALL)
            usage();
        wanted |= 1u << part;
    }
}

static void parse(int argc, char **argv) {
    const char *under = ".";
    for (int i = 1; i < argc; i++) {
        bool more = i + 1 < argc;
        if (parse_scale(argv[i]))
            continue;
        if (!more)
            usage();
        if (strcmp(argv[i], "--json") == 0) {
            figures_json = fopen(argv[++i], "w");
            if (figures_json == NULL)
                fail(argv[i]);
        } else if (strcmp(argv[i], "--dir") == 0) {
            under = argv[++i];
        } else if (strcmp(argv[i], "--torch") == 0) {
            script = argv[++i];
        } else if (strcmp(argv[i], "--only") == 0) {
            parse_parts(argv[++i]);
        } else if (strcmp(argv[i], "--mib") == 0) {
            only_mib = strtoul(argv[++i], NULL, 10);
        } else {
            usage();
        }
    }
    if (script == NULL)
        usage();
    folder_make(under);
}

static void interrupted(int sig) {
    (void)sig;
    exit(130); /* a benchmark: better than leaving gigabytes */
}

int main(int argc, char **argv) {
    parse(argc, argv);
    signal(SIGINT, interrupted);
    signal(SIGTERM, interrupted);
    signal(SIGPIPE, SIG_IGN);
    if (figures_json != NULL)
        fputs("[", figures_json);
    measure_sizes();
    measure_rest();
    if (figures_json != NULL) {
        fputs("\n]\n", figures_json);
        if (fclose(figures_json) != 0)
            fail("--json");
    }
    return 0;
}
