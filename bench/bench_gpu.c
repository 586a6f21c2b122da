/* What checkpoints cost beside a GPU: bench_gpu [--bytes N] [--rounds N] DIR.
 * Bandwidth of the snapshot against a plain pinned copy of the same bytes,
 * time blocked, slow-down of kernels beside a running save, the three modes,
 * restore. Each figure stands beside its yardstick of the same run, in turns;
 * medians. Needs the driver, no compiler. */
#include <dlfcn.h>
#include <errno.h>
#include <lull/lull.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "gpu_driver.h"

#define ROUNDS_MAX 64
#define TENSORS 16

static gpu_t gpu;
static gpu_handle_t stream, spin, copy_kernel;
static gpu_pointer_t state, scratch;
static size_t bytes = (size_t)1 << 30;
static size_t scratch_bytes;
static int rounds = 7;
static const char *dir;
static lull_device_t *device;

static void die(const char *what, const char *why) {
    fprintf(stderr, "bench_gpu: %s: %s\n", what, why);
    exit(1);
}

#define GPU(call)                                                    \
    do {                                                             \
        int result_ = gpu.call;                                      \
        if (result_ != 0) {                                          \
            char text_[32];                                          \
            snprintf(text_, sizeof text_, "CUDA error %d", result_); \
            die(#call, text_);                                       \
        }                                                            \
    } while (0)
#define LULL(call)                         \
    do {                                   \
        if ((call) != LULL_OK)             \
            die(#call, lull_last_error()); \
    } while (0)

static double now(void) {
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    return (double)at.tv_sec + 1e-9 * (double)at.tv_nsec;
}

static int ascending(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(const double *values, int count) {
    double sorted[ROUNDS_MAX];
    memcpy(sorted, values, (size_t)count * sizeof *values);
    qsort(sorted, (size_t)count, sizeof *sorted, ascending);
    return sorted[count / 2];
}

/* ---- The GPU's side ---- */

static void load_driver(void) {
    static const struct {
        const char *name;
        size_t offset;
    } rows[] = {
#define ROW(name, parameters) {#name, offsetof(gpu_t, name)},
        GPU_TABLE(ROW)
#undef ROW
    };
    void *library = dlopen("libcuda.so.1", RTLD_NOW);
    if (library == NULL) {
        printf("skipped: %s\n", dlerror());
        exit(77);
    }
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        void *symbol = dlsym(library, rows[i].name);
        if (symbol == NULL)
            die(rows[i].name, "not in this driver");
        memcpy((char *)&gpu + rows[i].offset, &symbol, sizeof symbol);
    }
}

static void open_gpu(void) {
    char name[128];
    int id;
    gpu_handle_t context, module;
    load_driver();
    GPU(cuInit(0));
    GPU(cuDeviceGet(&id, 0));
    GPU(cuDeviceGetName(name, sizeof name, id));
    GPU(cuDevicePrimaryCtxRetain(&context, id));
    GPU(cuCtxPushCurrent_v2(context));
    GPU(cuStreamCreate(&stream, 1));
    GPU(cuModuleLoadData(&module, gpu_kernels));
    GPU(cuModuleGetFunction(&spin, module, "spin"));
    GPU(cuModuleGetFunction(&copy_kernel, module, "stream"));
    GPU(cuMemAlloc_v2(&state, bytes));
    scratch_bytes = (size_t)64 << 20;
    GPU(cuMemAlloc_v2(&scratch, 2 * scratch_bytes));
    GPU(cuMemsetD8Async(scratch, 1, 2 * scratch_bytes, stream));
    for (int i = 0; i < TENSORS; i++)
        GPU(cuMemsetD8Async(state + bytes / TENSORS * (size_t)i,
                            (unsigned char)(i + 1), bytes / TENSORS, stream));
    GPU(cuStreamSynchronize(stream));
    printf("gpu: %s, state of %.0f MiB, %d rounds\n", name,
           (double)bytes / (1 << 20), rounds);
}

/* One of the kernels, `amount` of its work. */
typedef struct work {
    const char *name;
    bool memory;
    unsigned amount; /* loops, or passes */
} work_t;

static void launch(const work_t *work) {
    unsigned loops = work->amount;
    gpu_pointer_t to = scratch, from = scratch + scratch_bytes;
    unsigned long long count = scratch_bytes / 16;
    void *spin_parameters[] = {&to, &loops};
    void *copy_parameters[] = {&to, &from, &count};
    for (unsigned i = 0; i < (work->memory ? work->amount : 1); i++)
        GPU(cuLaunchKernel(
            work->memory ? copy_kernel : spin, 1024, 1, 1, 256, 1, 1, 0, stream,
            work->memory ? copy_parameters : spin_parameters, NULL));
}

static double time_of(const work_t *work, int launches) {
    double from = now();
    for (int i = 0; i < launches; i++)
        launch(work);
    GPU(cuStreamSynchronize(stream));
    return now() - from;
}

/* Sets the amount so that a launch takes about 5 ms. */
static double calibrate(work_t *work) {
    work->amount = work->memory ? 4 : 1000;
    (void)time_of(work, 2);
    double seconds = time_of(work, 4) / 4;
    double amount = work->amount * 5e-3 / (seconds > 1e-6 ? seconds : 1e-6);
    double most = work->memory ? 1000 : 1e7;
    work->amount = (unsigned)(amount < 1 ? 1 : amount > most ? most : amount);
    return time_of(work, 4) / 4;
}

/* ---- lull's side ---- */

static lull_ckpt_t *open_engine(lull_ckpt_mode_t mode) {
    lull_ckpt_options_t options = LULL_CKPT_OPTIONS_INIT;
    lull_ckpt_t *ckpt;
    options.dir = dir;
    options.world = 1;
    options.device = device;
    options.mode = mode;
    options.keep_last = 1;
    options.buffer_bytes = bytes + ((size_t)16 << 20);
    LULL(lull_ckpt_open(&options, &ckpt));
    return ckpt;
}

static void save(lull_ckpt_t *ckpt, lull_ckpt_request_t **request) {
    static uint64_t step;
    static char names[TENSORS][16];
    lull_ckpt_tensor_t tensors[TENSORS];
    lull_ckpt_save_t all = LULL_CKPT_SAVE_INIT;
    for (int i = 0; i < TENSORS; i++) {
        snprintf(names[i], sizeof names[i], "layer.%d", i);
        tensors[i] = (lull_ckpt_tensor_t)LULL_CKPT_TENSOR_INIT;
        tensors[i].name = names[i];
        tensors[i].dtype = LULL_U8;
        tensors[i].ndim = 1;
        tensors[i].global_shape[0] = tensors[i].shape[0] = bytes / TENSORS;
        tensors[i].data =
            (void *)(uintptr_t)(state + bytes / TENSORS * (size_t)i);
    }
    all.step = ++step;
    all.tensors = tensors;
    all.tensor_count = TENSORS;
    all.stream.handle = stream;
    LULL(lull_ckpt_save(ckpt, &all, request));
}

static void close_engine(lull_ckpt_t *ckpt) {
    LULL(lull_ckpt_close(ckpt));
    lull_ckpt_destroy(ckpt);
}

/* Seconds of the snapshot, and of the whole to durable, of one save. */
static double snapshot_s(lull_ckpt_t *ckpt, double *durable_s) {
    lull_ckpt_request_t *request;
    lull_ckpt_progress_t at = {.size = sizeof at};
    save(ckpt, &request);
    LULL(lull_ckpt_wait_committed(ckpt, request, LULL_FOREVER));
    LULL(lull_ckpt_test(ckpt, request, &at));
    lull_ckpt_request_destroy(request);
    *durable_s = at.durable_s - at.queued_s;
    return at.snapshot_s - at.queued_s;
}

/* ---- The figures ---- */

static double bandwidth(double *durable) {
    double plain[ROUNDS_MAX], engine[ROUNDS_MAX], whole[ROUNDS_MAX];
    double ratios[ROUNDS_MAX];
    void *pinned;
    GPU(cuMemHostAlloc(&pinned, bytes, 0));
    memset(pinned, 0, bytes);
    lull_ckpt_t *ckpt = open_engine(LULL_CKPT_LAZY);
    (void)snapshot_s(ckpt, &whole[0]); /* warm */
    for (int i = 0; i < rounds; i++) {
        double from = now();
        GPU(cuMemcpyDtoHAsync_v2(pinned, state, bytes, stream));
        GPU(cuStreamSynchronize(stream));
        plain[i] = now() - from;
        engine[i] = snapshot_s(ckpt, &whole[i]);
        ratios[i] = plain[i] / engine[i];
    }
    close_engine(ckpt);
    GPU(cuMemFreeHost(pinned));
    double gb = (double)bytes / 1e9;
    printf("device to host   plain pinned copy %7.2f GB/s   engine %7.2f GB/s"
           "   ratio %.3f (goal 0.95)\n",
           gb / median(plain, rounds), gb / median(engine, rounds),
           median(ratios, rounds));
    *durable = median(whole, rounds);
    printf("durable          %7.2f GB/s\n", gb / *durable);
    return median(engine, rounds);
}

/* What save and wait_snapshot keep the caller from, with computation of 1.5
 * times a drain between them. */
static void blocked(const work_t *work, double each, double durable) {
    double times[ROUNDS_MAX], plain[ROUNDS_MAX], sum = 0, most = 0;
    int launches = (int)(1.5 * durable / each) + 1;
    lull_ckpt_t *ckpt = open_engine(LULL_CKPT_LAZY);
    for (int i = 0; i < rounds; i++) {
        double from = now();
        save(ckpt, NULL);
        times[i] = now() - from;
        (void)time_of(work, launches);
        from = now();
        LULL(lull_ckpt_wait_snapshot(ckpt, NULL, LULL_FOREVER));
        times[i] += now() - from;
        sum += times[i];
        most = times[i] > most ? times[i] : most;
    }
    close_engine(ckpt);
    ckpt = open_engine(LULL_CKPT_SYNC);
    for (int i = 0; i < rounds; i++) {
        double from = now();
        save(ckpt, NULL);
        plain[i] = now() - from;
    }
    close_engine(ckpt);
    printf("blocked          lazy mean %.3f ms, most %.3f ms   sync %.1f ms   "
           "%.0f times less\n",
           1e3 * sum / rounds, 1e3 * most, 1e3 * median(plain, rounds),
           median(plain, rounds) / (sum / rounds));
}

static void slow_down(const work_t *work, double each, double snapshot) {
    double alone[ROUNDS_MAX], beside[ROUNDS_MAX], ratios[ROUNDS_MAX];
    int launches = (int)(snapshot / each) + 1; /* as long as the copy */
    lull_ckpt_t *ckpt = open_engine(LULL_CKPT_LAZY);
    for (int i = 0; i < rounds; i++) {
        alone[i] = time_of(work, launches);
        save(ckpt, NULL);
        beside[i] = time_of(work, launches);
        LULL(lull_ckpt_wait_committed(ckpt, NULL, LULL_FOREVER));
        ratios[i] = beside[i] / alone[i];
    }
    close_engine(ckpt);
    printf("slow-down        %-14s alone %.1f ms   beside the copy %.1f ms   "
           "%+.1f %%%s\n",
           work->name, 1e3 * median(alone, rounds),
           1e3 * median(beside, rounds), 100 * (median(ratios, rounds) - 1),
           work->memory ? "" : " (goal 2 %)");
}

/* A checkpoint at each iteration, computation of 1.5 times a drain. */
static void modes(const work_t *work, double each, double durable) {
    static const char *const names[] = {"lazy", "eager", "sync"};
    int launches = (int)(1.5 * durable / each) + 1;
    int steps = rounds < 5 ? rounds : 5;
    double from = now();
    for (int i = 0; i < steps; i++)
        (void)time_of(work, launches);
    double none = (now() - from) / steps;
    printf("an iteration     none %.1f ms", 1e3 * none);
    for (int mode = 0; mode < 3; mode++) {
        lull_ckpt_t *ckpt = open_engine((lull_ckpt_mode_t)mode);
        from = now();
        for (int i = 0; i < steps; i++) {
            LULL(lull_ckpt_wait_snapshot(ckpt, NULL, LULL_FOREVER));
            save(ckpt, NULL);
            (void)time_of(work, launches);
        }
        double spent = (now() - from) / steps;
        close_engine(ckpt);
        printf("   %s %.1f ms (%.2f)", names[mode], 1e3 * spent, spent / none);
    }
    printf("\n");
}

static void check_restored(void) {
    size_t part = bytes / TENSORS;
    char *got = malloc(part);
    if (got == NULL)
        die("checking", strerror(ENOMEM));
    for (int i = 0; i < TENSORS; i++) {
        GPU(cuMemcpyDtoH_v2(got, state + part * (size_t)i, part));
        if (got[0] != (char)(i + 1) || memcmp(got, got + 1, part - 1) != 0)
            die("restore", "the bytes are not those that were saved");
    }
    free(got);
}

static void restore(void) {
    lull_ckpt_find_options_t find = LULL_CKPT_FIND_OPTIONS_INIT;
    lull_ckpt_load_options_t options = LULL_CKPT_LOAD_OPTIONS_INIT;
    lull_ckpt_id_t id;
    lull_ckpt_info_t *info;
    lull_ckpt_slice_t slices[TENSORS];
    char names[TENSORS][16];
    double times[ROUNDS_MAX];
    for (int i = 0; i < TENSORS; i++) {
        snprintf(names[i], sizeof names[i], "layer.%d", i);
        slices[i] = (lull_ckpt_slice_t)LULL_CKPT_SLICE_INIT;
        slices[i].name = names[i];
        slices[i].dtype = LULL_U8;
        slices[i].ndim = 1;
        slices[i].global_shape[0] = slices[i].shape[0] = bytes / TENSORS;
        slices[i].data =
            (void *)(uintptr_t)(state + bytes / TENSORS * (size_t)i);
    }
    options.device = device;
    GPU(cuMemsetD8Async(state, 0, bytes, stream));
    GPU(cuStreamSynchronize(stream));
    LULL(lull_ckpt_find(dir, &find, &id));
    LULL(lull_ckpt_info_open(dir, id, &info));
    for (int i = 0; i < rounds; i++) {
        double from = now();
        LULL(lull_ckpt_load(info, slices, TENSORS, &options));
        times[i] = now() - from;
    }
    lull_ckpt_info_destroy(info);
    check_restored();
    printf("restore          %7.2f GB/s, checksums verified, from the page "
           "cache; bytes compared\n",
           (double)bytes / 1e9 / median(times, rounds));
}

int main(int argc, char **argv) {
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--bytes") == 0 && i + 1 < argc)
            bytes = (size_t)strtoull(argv[++i], NULL, 10);
        else if (strcmp(argv[i], "--rounds") == 0 && i + 1 < argc)
            rounds = atoi(argv[++i]);
        else
            dir = argv[i];
    }
    if (dir == NULL || dir[0] == '-' || rounds < 1 || rounds > ROUNDS_MAX ||
        bytes < ((size_t)1 << 20)) {
        fprintf(stderr, "usage: bench_gpu [--bytes N] [--rounds N] DIR\n");
        return 2;
    }
    bytes -= bytes % (TENSORS * 16);
    open_gpu();
    LULL(lull_device_open("cuda:0", &device));
    work_t compute = {.name = "compute-bound"};
    work_t memory = {.name = "memory-bound", .memory = true};
    double compute_s = calibrate(&compute), memory_s = calibrate(&memory);
    double durable, snapshot = bandwidth(&durable);
    blocked(&compute, compute_s, durable);
    slow_down(&compute, compute_s, snapshot);
    slow_down(&memory, memory_s, snapshot);
    modes(&compute, compute_s, durable);
    restore();
    lull_device_destroy(device);
    return 0;
}
