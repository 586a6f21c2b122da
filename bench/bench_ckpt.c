/* What checkpoints cost, each figure beside its yardstick in the same run: a
 * warm torch.save and fsync, fio, and lull's own synchronous saves. Called by
 * bench/run.sh ckpt:
 *
 *     bench_ckpt [--json FILE] [--quick] [--dir DIR]
 *
 * DIR (default: a new folder in the current one) is where it writes, about
 * four times the size at hand; all of it is removed. A round runs every
 * contender once, so that what the disk does meanwhile meets all of them. */
#include <lull/lull.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "ckpt_bench.h"

#define MIB ((size_t)1 << 20)
#define PARTS 16

static struct {
    bool quick;
    const char *script; /* torch_save.py */
    uint64_t step;
} run;

/* The state at hand: PARTS tensors of one array. */
static struct {
    size_t bytes;
    char *data;
    char names[PARTS][32];
    lull_ckpt_tensor_t tensors[PARTS];
} state;

static void must(lull_status_t status, const char *what) {
    if (status != LULL_OK)
        fail(what);
}

static void nap(double seconds) {
    struct timespec t = {(time_t)seconds,
                         (long)(1e9 * (seconds - (double)(time_t)seconds))};
    while (seconds > 0 && nanosleep(&t, &t) != 0)
        continue;
}

/* ---- lull ---- */

/* Values as weights are: a sum of three uniform ones. */
static void make_state(size_t bytes) {
    uint64_t x = 88172645463325252U;
    state.bytes = bytes;
    state.data = aligned_alloc(4096, bytes);
    if (state.data == NULL)
        fail("no memory for the state");
    float *values = (float *)(void *)state.data;
    for (size_t i = 0; i < bytes / 4; i++) {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        values[i] = ((float)(x & 0xfffff) + (float)(x >> 20 & 0xfffff) +
                     (float)(x >> 40 & 0xfffff) - 1572864.0F) *
                    3e-8F;
    }
    for (int i = 0; i < PARTS; i++) {
        lull_ckpt_tensor_t *t = &state.tensors[i];
        *t = (lull_ckpt_tensor_t)LULL_CKPT_TENSOR_INIT;
        snprintf(state.names[i], sizeof state.names[i], "layer.%d.weight", i);
        t->name = state.names[i];
        t->dtype = LULL_F32;
        t->ndim = 1;
        t->shape[0] = t->global_shape[0] = bytes / 4 / PARTS;
        t->data = state.data + bytes / PARTS * (size_t)i;
    }
}

static lull_ckpt_t *open_engine(const char *codec, lull_device_t *device) {
    char dir[4096];
    lull_ckpt_options_t options = LULL_CKPT_OPTIONS_INIT;
    lull_ckpt_t *ckpt;
    path_of(dir, "ckpt");
    options.dir = dir;
    options.world = 1;
    options.run_id = "bench";
    options.buffer_bytes = state.bytes + 16 * MIB;
    options.keep_last = 1;
    options.flush_threads = DEPTH;
    options.codec = codec;
    options.device = device;
    must(lull_ckpt_open(&options, &ckpt), "opening an engine");
    return ckpt;
}

static void close_engine(lull_ckpt_t *ckpt) {
    must(lull_ckpt_close(ckpt), "closing an engine");
    lull_ckpt_destroy(ckpt);
}

static void save(lull_ckpt_t *ckpt, lull_stream_t stream,
                 const lull_ckpt_tensor_t *tensors) {
    lull_ckpt_save_t what = LULL_CKPT_SAVE_INIT;
    what.step = ++run.step;
    what.tensors = tensors;
    what.tensor_count = PARTS;
    what.stream = stream;
    must(lull_ckpt_save(ckpt, &what, NULL), "saving");
}

/* One save with `compute` seconds until the update: what it blocks. */
static double lazy_save(lull_ckpt_t *ckpt, double compute) {
    double begin = now();
    save(ckpt, LULL_STREAM_DEFAULT, state.tensors);
    double blocked = now() - begin;
    nap(compute);
    begin = now();
    must(lull_ckpt_wait_snapshot(ckpt, NULL, LULL_FOREVER), "waiting");
    return blocked + now() - begin;
}

static double sync_save(lull_ckpt_t *ckpt) {
    double begin = now();
    save(ckpt, LULL_STREAM_DEFAULT, state.tensors);
    must(lull_ckpt_wait_committed(ckpt, NULL, LULL_FOREVER), "committing");
    return now() - begin;
}

static double eager_save(lull_ckpt_t *ckpt) {
    double blocked = lazy_save(ckpt, 0);
    must(lull_ckpt_wait_committed(ckpt, NULL, LULL_FOREVER), "committing");
    return blocked;
}

/* GB/s of loading the newest checkpoint, verified. */
static double restore(char *to) {
    char dir[4096], path[4096 + 512];
    lull_ckpt_info_t *info;
    lull_ckpt_file_info_t file;
    lull_ckpt_entry_t entry;
    lull_ckpt_slice_t slices[PARTS];
    lull_ckpt_load_options_t how = LULL_CKPT_LOAD_OPTIONS_INIT;
    path_of(dir, "ckpt");
    how.threads = DEPTH;
    must(lull_ckpt_info_open(dir, (lull_ckpt_id_t){LULL_LATEST, 0}, &info),
         "opening a checkpoint");
    must(lull_ckpt_info_entry(info, &entry), "opening a checkpoint");
    for (size_t i = 0; lull_ckpt_info_file_at(info, i, &file); i++) {
        snprintf(path, sizeof path, "%s/%s/%s", dir, entry.name, file.name);
        forget(path);
    }
    for (int i = 0; i < PARTS; i++) {
        slices[i] = (lull_ckpt_slice_t)LULL_CKPT_SLICE_INIT;
        slices[i].name = state.names[i];
        slices[i].dtype = LULL_F32;
        slices[i].ndim = 1;
        slices[i].shape[0] = slices[i].global_shape[0] =
            state.bytes / 4 / PARTS;
        slices[i].data = to + state.bytes / PARTS * (size_t)i;
    }
    double begin = now();
    must(lull_ckpt_load(info, slices, PARTS, &how), "loading");
    double seconds = now() - begin;
    lull_ckpt_info_destroy(info);
    if (memcmp(to, state.data, state.bytes) != 0) {
        fputs("bench_ckpt: what was loaded is not what was saved\n", stderr);
        exit(1);
    }
    return 1e-9 * (double)state.bytes / seconds;
}

/* ---- blocked time and bandwidth ---- */

static const char *size_name(size_t bytes) {
    static char text[24];
    if (bytes >= 1024 * MIB)
        snprintf(text, sizeof text, "%zuGiB", bytes / MIB / 1024);
    else
        snprintf(text, sizeof text, "%zuMiB", bytes / MIB);
    return text;
}

typedef struct figures {
    series_t torch_ms, lazy_ms, eager_ms, sync_ms;
    series_t durable, fio_write, restore, fio_read;
    series_t torch_lazy; /* a torch.save of the round, for each lazy one */
} figures_t;

static void one_round(lull_ckpt_t *ckpt, double drain, int lazies, char *to,
                      figures_t *f) {
    double torch_ms = 1e3 * torch_save();
    if (torch_ms > 0)
        add(&f->torch_ms, torch_ms);
    for (int i = 0; i < lazies; i++) {
        add(&f->lazy_ms, 1e3 * lazy_save(ckpt, 1.5 * drain));
        if (torch_ms > 0)
            add(&f->torch_lazy, torch_ms);
    }
    must(lull_ckpt_wait_committed(ckpt, NULL, LULL_FOREVER), "committing");
    add(&f->eager_ms, 1e3 * eager_save(ckpt));
    double seconds = sync_save(ckpt);
    add(&f->sync_ms, 1e3 * seconds);
    add(&f->durable, 1e-9 * (double)state.bytes / seconds);
    add(&f->fio_write, fio_write(state.bytes));
    add(&f->restore, restore(to));
    add(&f->fio_read, fio_read(state.bytes));
}

static void show(const char *mode, const figures_t *f) {
    static const char *const names[] = {"lazy", "eager", "sync"};
    const series_t *blocked[] = {&f->lazy_ms, &f->eager_ms, &f->sync_ms};
    bool raw = strcmp(mode, "raw") == 0;
    char name[64], goal[64];
    for (int i = 0; i < 3; i++) {
        snprintf(name, sizeof name, "%s%s%s/%s/host", names[i], raw ? "" : "+",
                 raw ? "" : mode, size_name(state.bytes));
        snprintf(goal, sizeof goal, "%s",
                 i > 0                       ? ""
                 : state.bytes >= 4096 * MIB ? "ratio 500"
                 : state.bytes >= 1024 * MIB ? "ratio 100"
                 : state.bytes <= 64 * MIB   ? "2 ms"
                                             : "");
        emit_less(name, (row_t){"blocked_ms", "ms", blocked[i], "torch.save",
                                i == 0 ? &f->torch_lazy : &f->torch_ms, 0,
                                goal[0] ? goal : NULL});
        if (i == 0)
            printf("%-20s mean %.4g ms, p99 %.4g ms\n", "", mean(&f->lazy_ms),
                   at(&f->lazy_ms, 0.99));
    }
    snprintf(name, sizeof name, "sync%s%s/%s/host", raw ? "" : "+",
             raw ? "" : mode, size_name(state.bytes));
    emit_more(name, (row_t){"durable_GBps", "GB/s", &f->durable, "fio write",
                            &f->fio_write, 0, "ratio 0.95"});
    emit_more(name, (row_t){"restore_GBps", "GB/s", &f->restore, "fio read",
                            &f->fio_read, 0, "ratio 0.90"});
}

/* Measures with a codec (NULL: raw); returns the seconds of a drain. */
static double measure(const char *codec, int rounds, int lazies, char *to) {
    figures_t f;
    memset(&f, 0, sizeof f);
    lull_ckpt_t *ckpt = open_engine(codec, NULL);
    lull_ckpt_stats_t stats = {.size = sizeof stats};
    double drain = 0;
    for (int i = 0; i < 2; i++) /* the first touch of a disk is slow */
        drain = sync_save(ckpt);
    (void)torch_save();
    for (int i = 0; i < rounds; i++)
        one_round(ckpt, drain, lazies, to, &f);
    must(lull_ckpt_stats(ckpt, &stats), "counters");
    show(codec ? codec : "raw", &f);
    if (codec != NULL && stats.bytes_copied > 0)
        printf("%-20s %.1f %% of the bytes saved, %.2f GB/s coding\n", "",
               100.0 * (double)stats.bytes_saved / (double)stats.bytes_copied,
               1e-9 * (double)stats.bytes_copied / stats.encode_s);
    close_engine(ckpt);
    return at(&f.sync_ms, 0.5) / 1e3;
}

/* ---- a whole run, a checkpoint every step ---- */

typedef struct device_state {
    lull_device_t *device;
    lull_stream_t stream;
    void *data;
    lull_ckpt_tensor_t tensors[PARTS];
} device_state_t;

static void make_device(device_state_t *d) {
    must(lull_device_open("sim", &d->device), "the sim device");
    must(lull_sim_stream_create(d->device, &d->stream), "a stream");
    must(lull_sim_alloc(d->device, state.bytes, &d->data), "memory of sim");
    must(lull_sim_write(d->device, d->data, state.data, state.bytes), "sim");
    for (int i = 0; i < PARTS; i++) {
        d->tensors[i] = state.tensors[i];
        d->tensors[i].data = (char *)d->data + state.bytes / PARTS * (size_t)i;
    }
}

static void drop_device(device_state_t *d) {
    lull_sim_free(d->device, d->data);
    lull_sim_stream_destroy(d->device, d->stream);
    lull_device_destroy(d->device);
}

typedef enum how { NONE, TORCH, SYNC, LAZY } how_t;

/* Seconds of `steps` steps of `compute` seconds, all of it durable. */
static double whole_run(how_t how, int steps, double compute) {
    device_state_t d;
    lull_ckpt_t *ckpt = NULL;
    lull_sim_kernel_t work = LULL_SIM_KERNEL_INIT;
    make_device(&d);
    work.seconds = compute;
    if (how == SYNC || how == LAZY)
        ckpt = open_engine(NULL, d.device);
    double begin = now();
    for (int i = 0; i < steps; i++) {
        if (ckpt != NULL)
            save(ckpt, d.stream, d.tensors);
        if (how == TORCH)
            (void)torch_save();
        if (how == SYNC)
            must(lull_ckpt_wait_committed(ckpt, NULL, LULL_FOREVER), "saving");
        must(lull_sim_launch(d.device, d.stream, &work), "launching");
        must(lull_sim_stream_wait(d.device, d.stream), "computing");
        if (how == LAZY)
            must(lull_ckpt_wait_snapshot(ckpt, NULL, LULL_FOREVER), "waiting");
    }
    if (ckpt != NULL)
        must(lull_ckpt_close(ckpt), "closing an engine");
    double seconds = now() - begin;
    lull_ckpt_destroy(ckpt);
    drop_device(&d);
    return seconds;
}

static void measure_runs(bool has_torch, double drain, int steps, int rounds) {
    series_t lazy = {.n = 0}, sync = lazy, with_torch = lazy, long_lazy = lazy,
             none = lazy;
    char name[64];
    for (int i = 0; i < rounds; i++) {
        if (has_torch)
            add(&with_torch, whole_run(TORCH, steps, 1.2 * drain));
        add(&lazy, whole_run(LAZY, steps, 1.2 * drain));
        add(&sync, whole_run(SYNC, steps, 1.2 * drain));
        add(&none, whole_run(NONE, steps, 1.5 * drain));
        add(&long_lazy, whole_run(LAZY, steps, 1.5 * drain));
    }
    snprintf(name, sizeof name, "lazy/%s/sim", size_name(state.bytes));
    printf("%-20s %d steps, computing %.3g s (run_vs_none: %.3g s)\n", "",
           steps, 1.2 * drain, 1.5 * drain);
    emit_less(name, (row_t){"run_s", "s", &lazy, "torch.save", &with_torch, 0,
                            "ratio 2.2"});
    emit_less(name, (row_t){"run_vs_sync", "s", &lazy, "sync", &sync, 0,
                            "ratio 1.7"});
    emit_less(name, (row_t){"run_vs_none", "s", &long_lazy, "no checkpoints",
                            &none, 0, "ratio 0.98; the last drain is in it"});
}

/* ---- many tensors ---- */

static void measure_many(int rounds) {
    enum { MANY = 10000, EACH = 256 };
    lull_ckpt_tensor_t *tensors = calloc(MANY, sizeof *tensors);
    char(*names)[24] = calloc(MANY, sizeof *names);
    series_t ms = {.n = 0};
    if (tensors == NULL || names == NULL)
        fail("no memory");
    for (int i = 0; i < MANY; i++) {
        tensors[i] = state.tensors[0];
        snprintf(names[i], sizeof names[i], "layer.%d.weight", i);
        tensors[i].name = names[i];
        tensors[i].shape[0] = tensors[i].global_shape[0] = EACH;
    }
    lull_ckpt_t *ckpt = open_engine(NULL, NULL);
    for (int i = 0; i < rounds; i++) {
        lull_ckpt_save_t what = LULL_CKPT_SAVE_INIT;
        what.step = ++run.step;
        what.tensors = tensors;
        what.tensor_count = MANY;
        double begin = now();
        must(lull_ckpt_save(ckpt, &what, NULL), "saving");
        add(&ms, 1e3 * (now() - begin));
        must(lull_ckpt_wait_committed(ckpt, NULL, LULL_FOREVER), "committing");
    }
    close_engine(ckpt);
    emit("lazy/10000tensors/host",
         &(row_t){"save_ms", "ms", &ms, NULL, NULL, 0, "5 ms"});
    free(names);
    free(tensors);
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

static void measure_size(size_t mib) {
    int rounds = run.quick ? 2 : 5, lazies = run.quick ? 2 : 4;
    if (!fits(mib * MIB)) {
        printf("%-20s left out: too little memory is free\n",
               size_name(mib * MIB));
        return;
    }
    make_state(mib * MIB);
    bool has_torch = torch_begin(run.script, state.bytes);
    if (!has_torch) {
        puts("no torch.save: /usr/bin/python3 has no torch");
        torch_end();
    }
    char *to = malloc(state.bytes);
    if (to == NULL)
        fail("no memory");
    if (!run.quick && mib == 4096)
        rounds = 9;
    double drain = measure(NULL, rounds, lazies, to);
    if (mib <= 1024)
        (void)measure("expo", run.quick ? 1 : rounds, lazies, to);
    if (mib == 64 || (mib == 1024 && !run.quick))
        measure_runs(has_torch, drain, run.quick ? 8 : 50, run.quick ? 1 : 3);
    if (mib == 64)
        measure_many(run.quick ? 3 : 20);
    torch_end();
    free(to);
    free(state.data);
    folder_empty();
}

static void parse(int argc, char **argv) {
    const char *under = ".";
    for (int i = 1; i < argc; i++) {
        bool more = i + 1 < argc;
        if (strcmp(argv[i], "--quick") == 0) {
            run.quick = true;
        } else if (strcmp(argv[i], "--json") == 0 && more) {
            figures_json = fopen(argv[++i], "w");
            if (figures_json == NULL)
                fail(argv[i]);
        } else if (strcmp(argv[i], "--dir") == 0 && more) {
            under = argv[++i];
        } else if (strcmp(argv[i], "--torch") == 0 && more) {
            run.script = argv[++i];
        } else {
            fprintf(stderr, "usage: bench_ckpt [--json FILE] [--quick] "
                            "[--dir DIR] --torch bench/torch_save.py\n");
            exit(2);
        }
    }
    folder_make(under);
}

static void interrupted(int sig) {
    (void)sig;
    exit(130); /* a benchmark: better than leaving gigabytes */
}

int main(int argc, char **argv) {
    static const size_t sizes[] = {64, 512, 1024, 4096};
    parse(argc, argv);
    signal(SIGINT, interrupted);
    signal(SIGTERM, interrupted);
    signal(SIGPIPE, SIG_IGN);
    if (figures_json != NULL)
        fputs("[", figures_json);
    for (size_t i = 0; i < (run.quick ? 2 : 4); i++)
        measure_size(sizes[i]);
    if (figures_json != NULL) {
        fputs("\n]\n", figures_json);
        if (fclose(figures_json) != 0)
            fail("--json");
    }
    return 0;
}
