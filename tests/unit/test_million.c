/* ckpt: a million tensors in one checkpoint: saved, listed, opened, verified,
 * loaded; the times are printed beside those of an eighth of it. */
#include <lull/ckpt.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>

#include "ckpt.h"
#include "test.h"

enum { NAME = 40 };

typedef struct model {
    size_t count;
    char (*names)[NAME];
    uint32_t *values, *back;
    lull_ckpt_tensor_t *tensors;
    lull_ckpt_slice_t *slices;
} model_t;

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static model_t make(size_t count) {
    model_t m = {.count = count};
    m.names = malloc(count * sizeof *m.names);
    m.values = malloc(count * sizeof *m.values);
    m.back = calloc(count, sizeof *m.back);
    m.tensors = calloc(count, sizeof *m.tensors);
    m.slices = calloc(count, sizeof *m.slices);
    for (size_t i = 0; i < count; i++) {
        /* Not in the order of names. */
        size_t id = i * 7919 % count;
        snprintf(m.names[i], NAME, "layers.%zu.experts.%zu.weight", id / 64,
                 id % 64);
        m.values[i] = (uint32_t)(id * 2654435761u);
        m.tensors[i] = test_tensor(m.names[i], LULL_U32, 1, &m.values[i]);
        m.slices[i] = (lull_ckpt_slice_t)LULL_CKPT_SLICE_INIT;
        m.slices[i].name = m.names[i];
        m.slices[i].dtype = LULL_U32;
        m.slices[i].ndim = 1;
        m.slices[i].global_shape[0] = m.slices[i].shape[0] = 1;
        m.slices[i].data = &m.back[i];
    }
    return m;
}

static void drop(model_t *m) {
    free(m->names);
    free(m->values);
    free(m->back);
    free(m->tensors);
    free(m->slices);
}

static void save(const char *dir, const model_t *m, double times[2]) {
    lull_ckpt_options_t options = test_options(dir, 0, 1);
    lull_ckpt_save_t what = LULL_CKPT_SAVE_INIT;
    lull_ckpt_t *ckpt;
    options.buffer_bytes = 64 << 20;
    options.commit_timeout_s = 300;
    what.step = 1;
    what.tensors = m->tensors;
    what.tensor_count = m->count;
    assert_ok(lull_ckpt_open(&options, &ckpt));
    double begin = now();
    assert_ok(lull_ckpt_save(ckpt, &what, NULL));
    times[0] = now() - begin;
    assert_ok(lull_ckpt_close(ckpt));
    times[1] = now() - begin;
    lull_ckpt_destroy(ckpt);
}

static void restore(const char *dir, const model_t *m, double times[4]) {
    lull_ckpt_entry_t *entries;
    lull_ckpt_info_t *info;
    size_t count;
    double begin = now();
    assert_ok(lull_ckpt_list(dir, &entries, &count));
    assert_int_equal(count, 1);
    assert_int_equal(entries[0].state, LULL_OK);
    lull_ckpt_entries_free(entries);
    times[0] = now() - begin;
    begin = now();
    assert_ok(
        lull_ckpt_info_open(dir, (lull_ckpt_id_t){LULL_LATEST, 0, 0}, &info));
    assert_int_equal(lull_ckpt_info_tensors(info), m->count);
    times[1] = now() - begin;
    begin = now();
    assert_ok(lull_ckpt_load(info, m->slices, m->count, NULL));
    times[2] = now() - begin;
    assert_memory_equal(m->back, m->values, m->count * sizeof *m->values);
    begin = now();
    assert_ok(lull_ckpt_verify(info, NULL, NULL));
    times[3] = now() - begin;
    lull_ckpt_info_destroy(info);
}

static void round_trip(size_t count) {
    char dir[256];
    double saved[2], read[4];
    struct rusage usage;
    model_t m = make(count);
    test_dir_make(dir);
    save(dir, &m, saved);
    restore(dir, &m, read);
    getrusage(RUSAGE_SELF, &usage);
    printf("%zu tensors: save() %.3f s, committed %.3f, list %.3f, find and "
           "open %.3f, load %.3f, verify %.3f; %ld MiB at most\n",
           count, saved[0], saved[1], read[0], read[1], read[2], read[3],
           usage.ru_maxrss / 1024);
    test_dir_drop(dir);
    drop(&m);
}

static void a_million(void **state) {
    (void)state;
    round_trip(125000);
#if !defined __SANITIZE_ADDRESS__ && !defined __SANITIZE_THREAD__
    round_trip(1000000);
#endif
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_million)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
