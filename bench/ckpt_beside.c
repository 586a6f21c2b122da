/* What a save takes from a computation beside it, against a plain thread that
 * copies and writes the same bytes, and the processor time of each of the
 * engine's threads. */
#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ckpt_bench.h"

/* ---- the computation ---- */

#define VALUES ((size_t)8 << 20) /* 2 arrays of 32 MiB: past the caches */

static float *from, *to;
static volatile float sink;

/* Registers only. */
static void compute_unit(void) {
    float a[16] = {1}, x = 1.0000001F;
    for (int i = 0; i < 2000000; i++)
        for (int k = 0; k < 16; k++)
            a[k] = a[k] * x + 1e-9F;
    sink = a[0];
}

/* As an optimizer's update: reads two arrays and writes one. */
static void memory_unit(void) {
    for (size_t i = 0; i < VALUES; i++)
        to[i] = 0.999F * to[i] + 0.001F * from[i];
    sink = to[0];
}

/* ---- what runs beside it ---- */

typedef enum beside { NOTHING, PLAIN, LULL } beside_t;

static struct {
    beside_t what;
    lull_ckpt_t *ckpt;
    bool stop; /* atomic */
    int saves;
} other;

/* The least that a checkpoint takes: each piece copied and written. */
static void plain_save(void) {
    char path[4096];
    const size_t piece = 8 * MIB;
    char *buffer = aligned_alloc(4096, piece);
    path_of(path, "plain.dat");
    (void)unlink(path);
    int fd = open(path, O_WRONLY | O_CREAT | O_DIRECT | O_CLOEXEC, 0666);
    if (fd < 0) /* no O_DIRECT here */
        fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
    if (fd < 0 || buffer == NULL)
        fail(path);
    for (size_t done = 0; done < state.bytes; done += piece) {
        memcpy(buffer, state.data + done, piece);
        if (pwrite(fd, buffer, piece, (off_t)done) != (ssize_t)piece)
            fail(path);
    }
    fsync(fd);
    close(fd);
    free(buffer);
}

static void *run_beside(void *arg) {
    (void)arg;
    while (!__atomic_load_n(&other.stop, __ATOMIC_ACQUIRE)) {
        if (other.what == LULL)
            (void)sync_save(other.ckpt);
        else
            plain_save();
        other.saves++;
    }
    return NULL;
}

/* Seconds of one unit, while `what` is saved again and again. *saves: how
 * many of them a second. */
static double time_units(void (*unit)(void), beside_t what, double *saves) {
    enum { UNITS = 40 };
    pthread_t thread;
    other.what = what;
    other.stop = false;
    other.saves = 0;
    settle();
    double begin = now();
    if (what != NOTHING && pthread_create(&thread, NULL, run_beside, NULL) != 0)
        fail("a thread");
    for (int i = 0; i < UNITS; i++)
        unit();
    double spent = now() - begin;
    __atomic_store_n(&other.stop, true, __ATOMIC_RELEASE);
    if (what != NOTHING)
        pthread_join(thread, NULL);
    *saves = (double)other.saves / (now() - begin);
    return spent / UNITS;
}

typedef struct lost {
    series_t slowdown, ms;
} lost_t;

/* ms: what a computation loses by each GiB that is saved beside it. */
static void add_lost(lost_t *lost, double alone, double beside, double saves) {
    double gib = saves * (double)state.bytes / (1024.0 * (double)MIB);
    add(&lost->slowdown, beside / alone);
    if (gib > 0)
        add(&lost->ms, 1e3 * (1 - alone / beside) / gib);
}

static void measure_unit(const char *kind, void (*unit)(void)) {
    lost_t plain = {.slowdown = {.n = 0}}, lull = plain;
    char name[64];
    double saves;
    for (int i = 0; i < scale->rounds; i++) {
        double alone = time_units(unit, NOTHING, &saves);
        double beside = time_units(unit, PLAIN, &saves);
        add_lost(&plain, alone, beside, saves);
        beside = time_units(unit, LULL, &saves);
        add_lost(&lull, alone, beside, saves);
    }
    snprintf(name, sizeof name, "beside-%s/%s/host", kind,
             size_name(state.bytes));
    emit_less(name, (row_t){.metric = "slowdown",
                            .unit = "x",
                            .ours = &lull.slowdown,
                            .baseline = "memcpy + write",
                            .theirs = &plain.slowdown});
    emit_less(name, (row_t){.metric = "lost_ms_per_GiB",
                            .unit = "ms",
                            .ours = &lull.ms,
                            .baseline = "memcpy + write",
                            .theirs = &plain.ms});
}

/* ---- threads ---- */

enum { THREADS_MOST = 64 };
typedef struct cost {
    char name[32];
    double seconds;
    int threads;
} cost_t;

static bool read_line(const char *task, const char *file, char line[128]) {
    char path[512];
    snprintf(path, sizeof path, "/proc/self/task/%s/%s", task, file);
    FILE *in = fopen(path, "r");
    bool ok = in != NULL && fgets(line, 128, in) != NULL;
    if (in != NULL)
        fclose(in);
    line[ok ? strcspn(line, "\n") : 0] = '\0';
    return ok;
}

/* Threads by name; those of the kernel's own for this process, too. */
static int read_costs(cost_t costs[THREADS_MOST]) {
    DIR *tasks = opendir("/proc/self/task");
    struct dirent *task;
    int count = 0;
    char name[128], spent[128];
    while (tasks != NULL && (task = readdir(tasks)) != NULL) {
        if (task->d_name[0] == '.' || !read_line(task->d_name, "comm", name) ||
            !read_line(task->d_name, "schedstat", spent))
            continue;
        if (strncmp(name, "lull-", 5) != 0 && strncmp(name, "iou-", 4) != 0)
            continue;
        if (name[0] == 'i')
            snprintf(name, sizeof name, "kernel's io_uring");
        int i = 0;
        while (i < count && strcmp(costs[i].name, name) != 0)
            i++;
        if (i == THREADS_MOST)
            break;
        if (i == count)
            snprintf(costs[count++].name, sizeof costs[0].name, "%.31s", name);
        costs[i].seconds += 1e-9 * strtod(spent, NULL);
        costs[i].threads++;
    }
    if (tasks != NULL)
        closedir(tasks);
    return count;
}

static void measure_threads(const char *codec) {
    cost_t costs[THREADS_MOST] = {{.threads = 0}};
    series_t total = {.n = 0};
    char name[64];
    int saves = 2 + scale->rounds, threads = 0;
    double all = 0;
    lull_ckpt_t *ckpt = open_engine(codec, NULL);
    for (int i = 0; i < saves; i++)
        (void)sync_save(ckpt);
    settle(); /* what was deleted is counted */
    int count = read_costs(costs);
    close_engine(ckpt);
    double gib = saves * (double)state.bytes / (1024.0 * (double)MIB);
    printf("threads of an engine%s%s, and what each takes of the processor:\n",
           codec ? " with " : "", codec ? codec : "");
    for (int i = 0; i < count; i++) {
        printf("  %-20s %2d  %8.1f ms a GiB\n", costs[i].name, costs[i].threads,
               1e3 * costs[i].seconds / gib);
        all += costs[i].seconds;
        threads += costs[i].threads;
    }
    add(&total, 1e3 * all / gib);
    printf("  %-20s %2d\n", "all", threads);
    snprintf(name, sizeof name, "threads%s%s/%s/host", codec ? "+" : "",
             codec ? codec : "", size_name(state.bytes));
    emit(name,
         &(row_t){.metric = "cpu_ms_per_GiB", .unit = "ms", .ours = &total});
}

void measure_beside(void) {
    from = malloc(VALUES * sizeof *from);
    to = malloc(VALUES * sizeof *to);
    if (from == NULL || to == NULL)
        fail("no memory");
    memset(from, 0, VALUES * sizeof *from);
    memset(to, 0, VALUES * sizeof *to);
    other.ckpt = open_engine(NULL, NULL);
    measure_unit("compute", compute_unit);
    measure_unit("memory", memory_unit);
    close_engine(other.ckpt);
    free(from);
    free(to);
    measure_threads(NULL);
    measure_threads("expo");
}
