/* Whole runs of bench_ckpt: a checkpoint every step, the computation a sleep
 * of the sim device, so that it costs no processor. */
#include "ckpt_bench.h"

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

static void one_step(how_t how, lull_ckpt_t *ckpt, device_state_t *d,
                     double compute) {
    lull_sim_kernel_t work = LULL_SIM_KERNEL_INIT;
    work.seconds = compute;
    if (ckpt != NULL)
        save(ckpt, d->stream, d->tensors, PARTS);
    if (how == TORCH)
        (void)torch_save();
    if (how == SYNC)
        must(lull_ckpt_wait_committed(ckpt, NULL, LULL_FOREVER), "saving");
    must(lull_sim_launch(d->device, d->stream, &work), "launching");
    must(lull_sim_stream_wait(d->device, d->stream), "computing");
    if (how == LAZY)
        must(lull_ckpt_wait_snapshot(ckpt, NULL, LULL_FOREVER), "waiting");
}

/* Seconds of `steps` steps of `compute` seconds, all of it durable. */
static double whole_run(how_t how, int steps, double compute) {
    device_state_t d;
    lull_ckpt_t *ckpt = NULL;
    make_device(&d);
    if (how == SYNC || how == LAZY)
        ckpt = open_engine(NULL, d.device);
    settle();
    double begin = now();
    for (int i = 0; i < steps; i++)
        one_step(how, ckpt, &d, compute);
    if (ckpt != NULL)
        must(lull_ckpt_wait_committed(ckpt, NULL, LULL_FOREVER), "saving");
    double seconds = now() - begin;
    if (ckpt != NULL)
        close_engine(ckpt);
    drop_device(&d);
    return seconds;
}

void measure_runs(bool has_torch, double drain) {
    series_t lazy = {.n = 0}, sync = lazy, with_torch = lazy, long_lazy = lazy,
             none = lazy;
    int steps = state.bytes > 64 * MIB ? scale->steps / 2 : scale->steps;
    char name[64];
    for (int i = 0; i < scale->run_rounds; i++) {
        if (has_torch)
            add(&with_torch, whole_run(TORCH, steps, 1.2 * drain));
        add(&lazy, whole_run(LAZY, steps, 1.2 * drain));
        add(&sync, whole_run(SYNC, steps, 1.2 * drain));
        add(&none, whole_run(NONE, steps, 1.5 * drain));
        add(&long_lazy, whole_run(LAZY, steps, 1.5 * drain));
    }
    snprintf(name, sizeof name, "lazy/%s/sim", size_name(state.bytes));
    printf("%-20s %d steps, computing %.3g s each (run_vs_none: %.3g s); the "
           "last drain is in it\n",
           "", steps, 1.2 * drain, 1.5 * drain);
    emit_less(name, (row_t){.metric = "run_s",
                            .unit = "s",
                            .ours = &lazy,
                            .baseline = "torch.save",
                            .theirs = &with_torch});
    emit_less(name, (row_t){.metric = "run_vs_sync",
                            .unit = "s",
                            .ours = &lazy,
                            .baseline = "sync",
                            .theirs = &sync});
    emit_less(name, (row_t){.metric = "run_vs_none",
                            .unit = "s",
                            .ours = &long_lazy,
                            .baseline = "no checkpoints",
                            .theirs = &none});
}
