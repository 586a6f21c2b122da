/* Many tensors: what a call of save takes, memory beyond the staging budget,
 * and whether saving, listing and loading stay linear. */
#include <stdlib.h>
#include <string.h>

#include "ckpt_bench.h"

enum { EACH = 16 }; /* values of a tensor */

typedef struct many {
    int count;
    float *data;
    char (*names)[32];
    size_t name_bytes; /* of all names */
    lull_ckpt_tensor_t *tensors;
    lull_ckpt_slice_t *slices;
} many_t;

static void make_many(many_t *m, int count) {
    *m = (many_t){.count = count};
    size_t n = (size_t)count;
    m->data = malloc(n * EACH * sizeof *m->data);
    m->names = malloc(n * sizeof *m->names);
    m->tensors = malloc(n * sizeof *m->tensors);
    m->slices = malloc(n * sizeof *m->slices);
    if (!m->data || !m->names || !m->tensors || !m->slices)
        fail("no memory for many tensors");
    for (size_t i = 0; i < n * EACH; i++)
        m->data[i] = (float)i;
    for (int i = 0; i < count; i++) {
        lull_ckpt_tensor_t *t = &m->tensors[i];
        lull_ckpt_slice_t *s = &m->slices[i];
        *t = (lull_ckpt_tensor_t)LULL_CKPT_TENSOR_INIT;
        *s = (lull_ckpt_slice_t)LULL_CKPT_SLICE_INIT;
        m->name_bytes += (size_t)snprintf(m->names[i], sizeof m->names[i],
                                          "layers.%d.mlp.weight", i);
        t->name = s->name = m->names[i];
        t->dtype = s->dtype = LULL_F32;
        t->ndim = s->ndim = 1;
        t->shape[0] = t->global_shape[0] = EACH;
        s->shape[0] = s->global_shape[0] = EACH;
        t->data = s->data = m->data + (size_t)i * EACH;
    }
}

static void drop_many(many_t *m) {
    free(m->data);
    free(m->names);
    free(m->tensors);
    free(m->slices);
}

static void measure_call(int count) {
    many_t m;
    series_t ms = {.n = 0};
    char name[64];
    make_many(&m, count);
    lull_ckpt_t *ckpt = open_engine(NULL, NULL);
    for (int i = 0; i < 4 * scale->rounds; i++) {
        double begin = now();
        save(ckpt, LULL_STREAM_DEFAULT, m.tensors, (size_t)count);
        add(&ms, 1e3 * (now() - begin));
        must(lull_ckpt_wait_committed(ckpt, NULL, LULL_FOREVER), "committing");
    }
    close_engine(ckpt);
    drop_many(&m);
    snprintf(name, sizeof name, "lazy/%dtensors/host", count);
    emit(name, &(row_t){.metric = "save_ms", .unit = "ms", .ours = &ms});
}

/* ---- memory ---- */

/* KiB of a line of /proc/self/status; 0: it cannot be read. */
static double status_kib(const char *key) {
    char line[256];
    double kib = 0;
    FILE *file = fopen("/proc/self/status", "r");
    while (file != NULL && fgets(line, sizeof line, file) != NULL)
        if (strncmp(line, key, strlen(key)) == 0)
            kib = strtod(line + strlen(key), NULL);
    if (file != NULL)
        fclose(file);
    return kib;
}

/* The peak that VmHWM tells is counted from here. */
static bool reset_peak(void) {
    FILE *file = fopen("/proc/self/clear_refs", "w");
    if (file == NULL)
        return false;
    fputs("5", file);
    return fclose(file) == 0;
}

/* Two saves pending, as many as the default lets be. */
static void measure_memory(int count) {
    enum { PENDING = 2 };
    many_t m;
    char name[64];
    lull_ckpt_stats_t stats = {.size = sizeof stats};
    make_many(&m, count);
    if (!reset_peak()) {
        puts("memory is not measured: /proc/self/clear_refs cannot be written");
        drop_many(&m);
        return;
    }
    double before = status_kib("VmRSS:");
    lull_ckpt_t *ckpt = open_engine(NULL, NULL);
    for (int i = 0; i < PENDING; i++)
        save(ckpt, LULL_STREAM_DEFAULT, m.tensors, (size_t)count);
    must(lull_ckpt_wait_committed(ckpt, NULL, LULL_FOREVER), "committing");
    must(lull_ckpt_stats(ckpt, &stats), "counters");
    double beyond = (status_kib("VmHWM:") - before) / 1024 -
                    (double)stats.buffer_bytes / (double)MIB;
    close_engine(ckpt);
    double granted = 16 + PENDING *
                              (512.0 * count + 2.0 * (double)m.name_bytes) /
                              (double)MIB;
    drop_many(&m);
    snprintf(name, sizeof name, "lazy/%dtensors/host", count);
    emit_one(name,
             (row_t){.metric = "memory_MiB",
                     .unit = "MiB",
                     .baseline = "16 MiB + (512 B + 2 names) a tensor, save",
                     .n = 1},
             beyond, granted);
}

/* ---- linear ---- */

typedef struct times {
    double save, commit, list, load;
} times_t;

static times_t time_many(int count) {
    many_t m;
    times_t t;
    char dir[4096];
    lull_ckpt_info_t *info;
    lull_ckpt_tensor_info_t tensor;
    lull_ckpt_load_options_t how = LULL_CKPT_LOAD_OPTIONS_INIT;
    make_many(&m, count);
    path_of(dir, "ckpt");
    lull_ckpt_t *ckpt = open_engine(NULL, NULL);
    double begin = now();
    save(ckpt, LULL_STREAM_DEFAULT, m.tensors, (size_t)count);
    t.save = now() - begin;
    must(lull_ckpt_wait_committed(ckpt, NULL, LULL_FOREVER), "committing");
    t.commit = now() - begin;
    close_engine(ckpt);
    memset(m.data, 0, (size_t)count * EACH * sizeof *m.data);
    begin = now();
    must(lull_ckpt_info_open(dir, (lull_ckpt_id_t){LULL_LATEST, 0, 0}, &info),
         "opening a checkpoint");
    size_t listed = 0;
    while (lull_ckpt_info_tensor_at(info, listed, &tensor))
        listed++;
    t.list = now() - begin;
    begin = now();
    must(lull_ckpt_load(info, m.slices, (size_t)count, &how), "loading");
    t.load = now() - begin;
    lull_ckpt_info_destroy(info);
    if (listed != (size_t)count || m.data[count * EACH - 1] == 0) {
        fputs("bench_ckpt: not all of many tensors came back\n", stderr);
        exit(1);
    }
    drop_many(&m);
    return t;
}

/* Times a tensor, of `most` against a tenth of that. */
static void measure_linear(int most) {
    enum { PHASES = 4 };
    static const char *const metrics[PHASES] = {"save_us", "committed_us",
                                                "list_us", "load_us"};
    series_t large[PHASES] = {{.n = 0}}, small[PHASES] = {{.n = 0}};
    char name[64], few[64];
    for (int i = 0; i < scale->run_rounds; i++) {
        times_t a = time_many(most / 10), b = time_many(most);
        const double fewer[] = {a.save, a.commit, a.list, a.load};
        const double more[] = {b.save, b.commit, b.list, b.load};
        for (int p = 0; p < PHASES; p++) {
            add(&small[p], 1e6 * fewer[p] / (most / 10.0));
            add(&large[p], 1e6 * more[p] / most);
        }
    }
    snprintf(name, sizeof name, "lazy/%dtensors/host", most);
    snprintf(few, sizeof few, "%d tensors", most / 10);
    for (int p = 0; p < PHASES; p++)
        emit_less(name, (row_t){.metric = metrics[p],
                                .unit = "us",
                                .ours = &large[p],
                                .baseline = few,
                                .theirs = &small[p]});
}

void measure_many(void) {
    measure_call(scale->many / 100);
    measure_memory(scale->many / 10);
    measure_linear(scale->many);
}
