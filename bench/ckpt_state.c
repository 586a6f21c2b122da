/* The state that bench_ckpt saves, and each way to save and load it. */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "ckpt_bench.h"
#include "sample.h"

state_t state;
static uint64_t step;

void make_state(size_t bytes) {
    state.bytes = bytes;
    state.data = aligned_alloc(4096, bytes);
    if (state.data == NULL)
        fail("no memory for the state");
    sample_weights((float *)(void *)state.data, bytes / 4);
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

const char *size_name(size_t bytes) {
    static char text[24];
    if (bytes >= 1024 * MIB)
        snprintf(text, sizeof text, "%zuGiB", bytes / MIB / 1024);
    else
        snprintf(text, sizeof text, "%zuMiB", bytes / MIB);
    return text;
}

lull_ckpt_t *open_engine(const char *codec, lull_device_t *device) {
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

void close_engine(lull_ckpt_t *ckpt) {
    must(lull_ckpt_close(ckpt), "closing an engine");
    lull_ckpt_destroy(ckpt);
}

void save(lull_ckpt_t *ckpt, lull_stream_t stream,
          const lull_ckpt_tensor_t *tensors, size_t count) {
    lull_ckpt_save_t what = LULL_CKPT_SAVE_INIT;
    what.step = ++step;
    what.tensors = tensors;
    what.tensor_count = count;
    what.stream = stream;
    must(lull_ckpt_save(ckpt, &what, NULL), "saving");
}

double lazy_save(lull_ckpt_t *ckpt, double compute) {
    double begin = now();
    save(ckpt, LULL_STREAM_DEFAULT, state.tensors, PARTS);
    double blocked = now() - begin;
    nap(compute);
    begin = now();
    must(lull_ckpt_wait_snapshot(ckpt, NULL, LULL_FOREVER), "waiting");
    return blocked + now() - begin;
}

double sync_save(lull_ckpt_t *ckpt) {
    double begin = now();
    save(ckpt, LULL_STREAM_DEFAULT, state.tensors, PARTS);
    must(lull_ckpt_wait_committed(ckpt, NULL, LULL_FOREVER), "committing");
    return now() - begin;
}

double eager_save(lull_ckpt_t *ckpt) {
    double blocked = lazy_save(ckpt, 0);
    must(lull_ckpt_wait_committed(ckpt, NULL, LULL_FOREVER), "committing");
    return blocked;
}

/* The files of a checkpoint leave the page cache. */
static void forget_files(const lull_ckpt_info_t *info) {
    char dir[4096], path[4096 + 512];
    lull_ckpt_file_info_t file;
    lull_ckpt_entry_t entry;
    path_of(dir, "ckpt");
    must(lull_ckpt_info_entry(info, &entry), "opening a checkpoint");
    for (size_t i = 0; lull_ckpt_info_file_at(info, i, &file); i++) {
        snprintf(path, sizeof path, "%s/%s/%s", dir, entry.name, file.name);
        forget(path);
    }
}

double restore(char *to) {
    char dir[4096];
    lull_ckpt_info_t *info;
    lull_ckpt_slice_t slices[PARTS];
    lull_ckpt_load_options_t how = LULL_CKPT_LOAD_OPTIONS_INIT;
    path_of(dir, "ckpt");
    how.threads = DEPTH;
    must(lull_ckpt_info_open(dir, (lull_ckpt_id_t){LULL_LATEST, 0, 0}, &info),
         "opening a checkpoint");
    forget_files(info);
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

double restore_fresh(void) {
    void *to = mmap(NULL, state.bytes, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (to == MAP_FAILED)
        fail("no memory");
    double gbps = restore(to);
    munmap(to, state.bytes);
    return gbps;
}
