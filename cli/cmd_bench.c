/* lull bench: what a checkpoint costs in a directory; a short self-test. */
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cli.h"
#include "sample.h"

#define MIB ((uint64_t)1 << 20)
#define ROUNDS 5
#define BUFFER_MOST (1024 * MIB)

static bool json;
static uint64_t size, encode_threads;
static const char *codec;

static volatile sig_atomic_t interrupted;

/* What was measured; seconds. */
typedef struct result {
    double blocked, durable, load;
    double cpu;   /* of the engine's threads, in a save */
    double saved; /* share of the bytes that the codec takes off */
} result_t;

typedef struct bench {
    char dir[4096];
    uint64_t bytes;
    float *values, *loaded;
    lull_ckpt_t *ckpt;
} bench_t;

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Processor time of all threads but the calling one. */
static double others_cpu(void) {
    struct timespec all, own;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &all);
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &own);
    return (double)(all.tv_sec - own.tv_sec) +
           1e-9 * (double)(all.tv_nsec - own.tv_nsec);
}

static void on_signal(int sig) {
    (void)sig;
    interrupted = 1;
}

static int remove_one(const char *path, const struct stat *st, int kind,
                      struct FTW *walk) {
    (void)st;
    (void)kind;
    (void)walk;
    (void)remove(path);
    return 0;
}

static lull_status_t save(bench_t *b, uint64_t step, result_t *result) {
    lull_ckpt_tensor_t tensor = LULL_CKPT_TENSOR_INIT;
    lull_ckpt_save_t what = LULL_CKPT_SAVE_INIT;
    tensor.name = "weights";
    tensor.dtype = LULL_F32;
    tensor.ndim = 1;
    tensor.shape[0] = tensor.global_shape[0] = b->bytes / 4;
    tensor.data = b->values;
    what.step = step;
    what.tensors = &tensor;
    what.tensor_count = 1;
    double begin = now(), cpu = others_cpu();
    lull_status_t status = lull_ckpt_save(b->ckpt, &what, NULL);
    result->blocked = now() - begin;
    if (status == LULL_OK)
        status = lull_ckpt_wait_committed(b->ckpt, NULL, LULL_FOREVER);
    result->durable = now() - begin;
    result->cpu = others_cpu() - cpu;
    return status;
}

/* The files' pages leave the cache, so that they are read from the disk. */
static void forget(const bench_t *b, const lull_ckpt_info_t *info) {
    lull_ckpt_entry_t entry;
    lull_ckpt_file_info_t file;
    char path[2 * 4096];
    if (lull_ckpt_info_entry(info, &entry) != LULL_OK)
        return;
    for (size_t i = 0; lull_ckpt_info_file_at(info, i, &file); i++) {
        snprintf(path, sizeof path, "%s/%s/%s", b->dir, entry.name, file.name);
        int fd = open(path, O_RDONLY | O_CLOEXEC);
        if (fd < 0)
            continue;
        (void)posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
        close(fd);
    }
}

static lull_status_t load(bench_t *b, result_t *result) {
    lull_ckpt_info_t *info;
    lull_ckpt_slice_t slice = LULL_CKPT_SLICE_INIT;
    lull_ckpt_load_options_t how = LULL_CKPT_LOAD_OPTIONS_INIT;
    lull_status_t status =
        lull_ckpt_info_open(b->dir, (lull_ckpt_id_t){LULL_LATEST, 0, 0}, &info);
    if (status != LULL_OK)
        return status;
    forget(b, info);
    slice.name = "weights";
    slice.dtype = LULL_F32;
    slice.ndim = 1;
    slice.shape[0] = slice.global_shape[0] = b->bytes / 4;
    slice.data = b->loaded;
    double begin = now();
    status = lull_ckpt_load(info, &slice, 1, &how);
    result->load = now() - begin;
    lull_ckpt_info_destroy(info);
    return status;
}

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a - *(const double *)b;
    return x < 0 ? -1 : x > 0;
}

static double median(double values[ROUNDS]) {
    qsort(values, ROUNDS, sizeof *values, by_value);
    return values[ROUNDS / 2];
}

static lull_status_t measure(bench_t *b, result_t *out) {
    double blocked[ROUNDS], durable[ROUNDS], loads[ROUNDS], cpu[ROUNDS];
    lull_ckpt_stats_t stats = {.size = sizeof stats};
    progress_t progress;
    result_t one;
    cli_progress_begin(&progress, b->dir);
    /* The first touch of a disk is slow. */
    lull_status_t status = save(b, 1, &one);
    for (uint64_t i = 0; status == LULL_OK && i < ROUNDS; i++) {
        if (interrupted || !cli_progress(&progress, i, ROUNDS))
            break;
        status = save(b, 2 + i, &one);
        blocked[i] = one.blocked;
        durable[i] = one.durable;
        cpu[i] = one.cpu;
        if (status == LULL_OK)
            status = load(b, &one);
        loads[i] = one.load;
    }
    cli_progress_end(&progress);
    if (status == LULL_OK)
        status = lull_ckpt_stats(b->ckpt, &stats);
    if (status != LULL_OK || interrupted)
        return status;
    out->blocked = median(blocked);
    out->durable = median(durable);
    out->load = median(loads);
    out->cpu = median(cpu);
    out->saved = (double)stats.bytes_saved / (double)stats.bytes_copied;
    return LULL_OK;
}

/* ---- what it says ---- */

static const char *seconds_text(double s) {
    static char text[4][24];
    static unsigned turn;
    char *out = text[turn++ % 4];
    if (s < 1)
        snprintf(out, sizeof text[0], "%.1f ms", 1e3 * s);
    else if (s < 120)
        snprintf(out, sizeof text[0], "%.1f s", s);
    else
        snprintf(out, sizeof text[0], "%.0f min", s / 60);
    return out;
}

static void print_people(const bench_t *b, const result_t *r) {
    double gb = 1e-9 * (double)b->bytes;
    printf("%s of state, one rank, median of %d\n", cli_bytes(b->bytes),
           ROUNDS);
    printf("  held back by the save itself  %s\n", seconds_text(r->blocked));
    printf("  committed after               %s, %.2f GB/s\n",
           seconds_text(r->durable), gb / r->durable);
    printf("  loaded and verified in        %s, %.2f GB/s\n",
           seconds_text(r->load), gb / r->load);
    if (codec != NULL)
        printf("  saved by %-20s %.1f %% of the bytes\n", codec,
               100 * r->saved);
    printf("  processor time of its threads %s a GiB\n",
           seconds_text(r->cpu * 1.073741824 / gb));
    puts("\nthis disk: what a checkpoint of one rank would cost here\n"
         "   state    committed after   loaded in");
    for (uint64_t gib = 1; gib <= 100; gib *= 10) {
        double times = (double)gib * 1073741824.0 / (double)b->bytes;
        printf("%8s %18s %11s\n", cli_bytes(gib * 1024 * MIB),
               seconds_text(times * r->durable), seconds_text(times * r->load));
    }
    puts("\nTraining goes on meanwhile, as long as a step takes longer than\n"
         "the copy to memory and checkpoints are further apart than that.");
}

static void print_json(const bench_t *b, const result_t *r) {
    printf("{\"bytes\":%" PRIu64 ",\"blocked_s\":%.6f,\"durable_s\":%.6f,"
           "\"load_s\":%.6f,\"cpu_s\":%.6f,\"durable_GBps\":%.4f,"
           "\"restore_GBps\":%.4f,\"bytes_saved\":%.4f}\n",
           b->bytes, r->blocked, r->durable, r->load, r->cpu,
           1e-9 * (double)b->bytes / r->durable,
           1e-9 * (double)b->bytes / r->load, r->saved);
}

/* ---- */

static lull_status_t open_engine(bench_t *b) {
    lull_ckpt_options_t options = LULL_CKPT_OPTIONS_INIT;
    options.dir = b->dir;
    options.world = 1;
    options.run_id = "bench";
    options.keep_last = 1;
    options.buffer_bytes =
        b->bytes < BUFFER_MOST ? b->bytes + MIB : BUFFER_MOST;
    options.codec = codec;
    options.encode_threads = (uint32_t)encode_threads;
    return lull_ckpt_open(&options, &b->ckpt);
}

/* With the folder made and memory there. */
static int bench(bench_t *b) {
    result_t result = {0};
    sample_weights(b->values, b->bytes / 4);
    memset(b->loaded, 0, b->bytes);
    lull_status_t status = open_engine(b);
    if (status != LULL_OK)
        return cli_fail(status);
    status = measure(b, &result);
    int code = status == LULL_OK ? CLI_OK : cli_fail(status);
    lull_ckpt_destroy(b->ckpt);
    if (code != CLI_OK)
        return code;
    if (interrupted) {
        cli_say("interrupted");
        return CLI_FAILED;
    }
    if (json)
        print_json(b, &result);
    else
        print_people(b, &result);
    return CLI_OK;
}

static int run(int count, char **args) {
    bench_t b = {.bytes = size > 0 ? size / 4 * 4 : 256 * MIB};
    int code = CLI_FAILED;
    (void)count;
    if (b.bytes < MIB)
        return cli_usage(&command_bench,
                         "--size must be at least 1 MiB: less measures "
                         "system calls, not the disk");
    if (encode_threads > 16)
        return cli_usage(&command_bench, "--encode-threads must be at most 16");
    int n = snprintf(b.dir, sizeof b.dir, "%s/.lull-bench-XXXXXX", args[0]);
    if (n < 0 || (size_t)n >= sizeof b.dir || mkdtemp(b.dir) == NULL) {
        cli_say("%s: no folder can be made there: %s", args[0],
                strerror(n < (int)sizeof b.dir ? errno : ENAMETOOLONG));
        return CLI_FAILED;
    }
    struct sigaction action = {.sa_handler = on_signal};
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    b.values = malloc(b.bytes);
    b.loaded = malloc(b.bytes);
    if (b.values != NULL && b.loaded != NULL)
        code = bench(&b);
    else
        cli_say("no memory for twice %s", cli_bytes(b.bytes));
    free(b.values);
    free(b.loaded);
    (void)nftw(b.dir, remove_one, 16, FTW_DEPTH | FTW_PHYS);
    return code;
}

static const option_t options[] = {
    {"--size", OPTION_BYTES, &size, "BYTES", "of state; 256MiB by default"},
    {"--codec", OPTION_TEXT, &codec, "POLICY",
     "compressed, as weights=expo (the data is synthetic)"},
    {"--encode-threads", OPTION_NUMBER, &encode_threads, "N",
     "that compress; 1 by default"},
    {"--json", OPTION_FLAG, &json, NULL, "one object"},
    {0},
};

const command_t command_bench = {
    .name = "bench",
    .arguments = "DIR",
    .summary = "Measure what a checkpoint costs in a directory",
    .help =
        "Writes and reads a few checkpoints of synthetic state in a folder of\n"
        "its own below DIR, which is removed; takes twice --size of the disk\n"
        "and three times of memory. One rank: where ranks share a disk they\n"
        "share its speed.",
    .options = options,
    .least = 1,
    .most = 1,
    .run = run,
};
