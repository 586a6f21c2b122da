/* The engine of one rank: its life cycle, waits, ring, errors, counters. */
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/thread.h"
#include "ckpt.h"
#include "ckpt/engine.h"
#include "support.h"
#include "test.h"

#define MIB ((size_t)1 << 20)

static lull_ckpt_t *open_one(lull_ckpt_options_t *options) {
    lull_ckpt_t *ckpt = NULL;
    assert_ok(lull_ckpt_open(options, &ckpt));
    return ckpt;
}

static lull_ckpt_save_t
save_of(uint64_t step, const lull_ckpt_tensor_t *tensors, size_t count) {
    lull_ckpt_save_t save = LULL_CKPT_SAVE_INIT;
    save.step = step;
    save.tensors = tensors;
    save.tensor_count = count;
    return save;
}

static void assert_stored(uint64_t step, const char *name, const void *data,
                          uint64_t bytes) {
    uint64_t n = 0;
    char *stored = test_stored(ckpt_room, step, 0, name, &n);
    assert_non_null(stored);
    assert_int_equal(n, bytes);
    assert_memory_equal(stored, data, bytes);
    free(stored);
}

static void a_save_is_committed_and_read_back(void **state) {
    (void)state;
    float weights[1000];
    uint8_t odd[3] = {1, 2, 3};
    double big[5] = {1, 2, 3, 4, 5};
    uint64_t position = 77;
    test_fill(weights, sizeof weights, 1);
    lull_ckpt_options_t options = test_options(ckpt_room, 0, 1);
    lull_ckpt_t *ckpt = open_one(&options);
    lull_ckpt_tensor_t tensors[] = {
        test_tensor("odd", LULL_U8, 3, odd),
        test_tensor("weights", LULL_F32, 1000, weights),
        test_tensor("big", LULL_F64, 5, big),
        test_tensor("none", LULL_F32, 0, NULL),
        test_tensor("tied", LULL_F32, 0, NULL),
        test_tensor("scalar", LULL_F32, 1, weights),
    };
    tensors[4].alias_of = "weights";
    tensors[5].ndim = 0;
    lull_ckpt_state_t host = {"position", &position, sizeof position, false};
    lull_ckpt_meta_t meta = {"model", "tiny"};
    lull_ckpt_save_t save = save_of(100, tensors, 6);
    save.states = &host;
    save.state_count = 1;
    save.meta = &meta;
    save.meta_count = 1;
    save.parent_seq = 500; /* of another directory */
    lull_ckpt_request_t *request;
    assert_ok(lull_ckpt_save(ckpt, &save, &request));
    position = 78; /* the file holds what it was at save */
    assert_ok(lull_ckpt_wait_snapshot(ckpt, request, LULL_FOREVER));
    assert_ok(lull_ckpt_wait_durable(ckpt, request, LULL_FOREVER));
    assert_ok(lull_ckpt_wait_committed(ckpt, request, LULL_FOREVER));
    lull_ckpt_progress_t progress = {.size = sizeof progress};
    assert_ok(lull_ckpt_test(ckpt, request, &progress));
    assert_int_equal(progress.stage, LULL_CKPT_COMMITTED);
    assert_int_equal(progress.step, 100);
    assert_int_equal(progress.bytes, 4000 + 3 + 40 + 4 + 8);
    assert_int_equal(progress.bytes_written, progress.bytes);
    assert_true(progress.queued_s <= progress.copy_begin_s);
    assert_true(progress.copy_begin_s <= progress.snapshot_s);
    assert_true(progress.snapshot_s <= progress.durable_s);
    assert_true(progress.durable_s <= progress.committed_s);
    lull_ckpt_request_destroy(request);
    assert_ok(lull_ckpt_close(ckpt));
    assert_fails(lull_ckpt_save(ckpt, &save, NULL), LULL_ERR_STATE, "closed");
    lull_ckpt_destroy(ckpt);
    assert_stored(100, "weights", weights, sizeof weights);
    assert_stored(100, "odd", odd, 3);
    assert_stored(100, "big", big, sizeof big);
    assert_stored(100, "none", "", 0);
    assert_stored(100, "scalar", weights, 4);
    position = 77;
    assert_stored(100, "lull.state/position", &position, 8);
    assert_true(test_has(ckpt_room, "step-00000100/manifest.json"));
    assert_true(test_has(ckpt_room, "step-00000100/rank-00000.json"));
    assert_int_equal(test_count(ckpt_room, ".step"), 0);
    char path[512];
    snprintf(path, sizeof path, "%s/latest", ckpt_room);
    size_t n;
    char *latest = test_slurp(path, &n);
    assert_string_equal(latest, "step-00000100\n");
    free(latest);
}

static void destroy_null_is_harmless(void **state) {
    (void)state;
    lull_ckpt_destroy(NULL);
    lull_ckpt_request_destroy(NULL);
}

/* Sizes around slots and blocks, several tensors, more than the ring. */
static void tensors_of_every_size_stream_through_the_ring(void **state) {
    (void)state;
    const size_t sizes[] = {0,    1, MIB - 1, 7, MIB, MIB + 1, 5 * MIB + 13,
                            4096, 0, 3 * MIB};
    enum { COUNT = sizeof sizes / sizeof *sizes };
    for (unsigned threads = 1; threads <= 3; threads++) {
        lull_ckpt_options_t options = test_options(ckpt_room, 0, 1);
        options.copy_threads = threads;
        options.buffer_bytes = threads * MIB;
        lull_ckpt_t *ckpt = open_one(&options);
        lull_ckpt_tensor_t tensors[COUNT];
        char names[COUNT][8];
        char *data[COUNT];
        for (unsigned i = 0; i < COUNT; i++) {
            data[i] = malloc(sizes[i] + 1);
            test_fill(data[i], sizes[i], i + threads);
            sprintf(names[i], "t%u", i);
            tensors[i] = test_tensor(names[i], LULL_U8, sizes[i], data[i]);
        }
        lull_ckpt_save_t save = save_of(threads, tensors, COUNT);
        assert_ok(lull_ckpt_save(ckpt, &save, NULL));
        assert_ok(lull_ckpt_wait_snapshot(ckpt, NULL, LULL_FOREVER));
        for (unsigned i = 0; i < COUNT; i++)
            data[i][0] ^= 1; /* after the snapshot nobody looks */
        assert_ok(lull_ckpt_wait_committed(ckpt, NULL, LULL_FOREVER));
        lull_ckpt_stats_t stats = {.size = sizeof stats};
        assert_ok(lull_ckpt_stats(ckpt, &stats));
        assert_int_equal(stats.buffer_bytes, threads * MIB);
        assert_true(stats.buffer_peak <= stats.buffer_bytes);
        assert_true(stats.buffer_peak > 0);
        assert_int_equal(stats.saves, 1);
        assert_int_equal(stats.committed, 1);
        assert_ok(lull_ckpt_close(ckpt));
        lull_ckpt_destroy(ckpt);
        for (unsigned i = 0; i < COUNT; i++) {
            data[i][0] ^= 1;
            assert_stored(threads, names[i], data[i], sizes[i]);
            free(data[i]);
        }
    }
}

static void the_nth_checkpoint_holds_the_nth_values(void **state) {
    (void)state;
    static uint64_t values[300000];
    lull_ckpt_options_t options = test_options(ckpt_room, 0, 1);
    options.buffer_bytes = 8 * MIB;
    options.max_pending = 3;
    lull_ckpt_t *ckpt = open_one(&options);
    lull_ckpt_tensor_t tensor = test_tensor("values", LULL_U64, 300000, values);
    for (uint64_t step = 0; step < 12; step++) {
        assert_ok(lull_ckpt_wait_snapshot(ckpt, NULL, LULL_FOREVER));
        test_fill(values, sizeof values, step);
        lull_ckpt_state_t host = {"step", &step, sizeof step, true};
        lull_ckpt_save_t save = save_of(step, &tensor, 1);
        save.states = &host;
        save.state_count = 1;
        assert_ok(lull_ckpt_save(ckpt, &save, NULL));
    }
    assert_ok(lull_ckpt_close(ckpt));
    lull_ckpt_destroy(ckpt);
    for (uint64_t step = 0; step < 12; step++) {
        test_fill(values, sizeof values, step);
        assert_stored(step, "values", values, sizeof values);
        assert_stored(step, "lull.state/step", &step, sizeof step);
    }
}

static void modes_wait_as_they_say(void **state) {
    (void)state;
    static char data[3 * MIB];
    lull_ckpt_tensor_t tensor = test_tensor("t", LULL_U8, sizeof data, data);
    for (int mode = 0; mode <= LULL_CKPT_SYNC; mode++) {
        lull_ckpt_options_t options = test_options(ckpt_room, 0, 1);
        options.mode = (lull_ckpt_mode_t)mode;
        lull_ckpt_t *ckpt = open_one(&options);
        lull_ckpt_save_t save = save_of((uint64_t)mode, &tensor, 1);
        lull_ckpt_request_t *request;
        assert_ok(lull_ckpt_save(ckpt, &save, &request));
        if (mode >= LULL_CKPT_EAGER)
            assert_ok(lull_ckpt_wait_snapshot(ckpt, request, 0));
        if (mode == LULL_CKPT_SYNC) {
            assert_ok(lull_ckpt_wait_committed(ckpt, request, 0));
            assert_true(test_has(ckpt_room, "step-00000002/manifest.json"));
        }
        lull_ckpt_request_destroy(request);
        assert_ok(lull_ckpt_close(ckpt));
        lull_ckpt_destroy(ckpt);
    }
}

static void bad_descriptors_are_refused_by_name(void **state) {
    (void)state;
    float x[4] = {0};
    lull_ckpt_options_t options = test_options(ckpt_room, 0, 1);
    lull_ckpt_t *ckpt = open_one(&options);
    lull_ckpt_tensor_t good = test_tensor("good", LULL_F32, 4, x), bad[3];
    lull_ckpt_save_t save = save_of(1, bad, 2);
    bad[0] = good;
#define REFUSED(word) \
    assert_fails(lull_ckpt_save(ckpt, &save, NULL), LULL_ERR_INVALID, word)
    bad[1] = test_tensor("hole", LULL_F32, 4, NULL);
    REFUSED("'hole'");
    bad[1] = test_tensor("big", LULL_F32, UINT64_MAX / 2, x);
    REFUSED("'big'");
    bad[1] = test_tensor("__metadata__", LULL_F32, 4, x);
    REFUSED("__metadata__");
    bad[1] = test_tensor("\xff", LULL_F32, 4, x);
    REFUSED("UTF-8");
    bad[1] = test_tensor("", LULL_F32, 4, x);
    REFUSED("empty");
    bad[1] = test_tensor("out", LULL_F32, 4, x);
    bad[1].offset[0] = 1;
    REFUSED("'out'");
    bad[1] = test_tensor("type", (lull_dtype_t)99, 4, x);
    REFUSED("'type'");
    bad[1] = test_tensor("dims", LULL_F32, 4, x);
    bad[1].ndim = 9;
    REFUSED("'dims'");
    bad[1] = test_tensor("nibbles", LULL_F4, 3, x);
    REFUSED("'nibbles'");
    bad[1] = test_tensor("copies", LULL_F32, 4, x);
    bad[1].replica = bad[1].replicas = 2;
    REFUSED("'copies'");
    /* "w#1" is what the second shard of "w" is stored as. */
    bad[1] = bad[0] = test_tensor("w", LULL_F32, 4, x);
    bad[2] = test_tensor("w#1", LULL_F32, 4, x);
    save.tensor_count = 3;
    REFUSED("'w#1'");
    save.tensor_count = 1;
    static char large[MIB + 1];
    lull_ckpt_state_t host[] = {{"a", large, MIB, true}, {"b", large, 1, true}};
    save.states = host;
    save.state_count = 2;
    REFUSED("'b'");
    save.state_count = 0;
    save.step = LULL_LATEST;
    REFUSED("LATEST");
    save.step = 1;
    save.parent_seq = LULL_LATEST;
    REFUSED("parent_seq");
    save.parent_seq = 0;
    bad[0] = good;
    assert_ok(lull_ckpt_save(ckpt, &save, NULL));
    assert_ok(lull_ckpt_close(ckpt));
    lull_ckpt_destroy(ckpt);
    assert_stored(1, "good", x, sizeof x);
    assert_int_equal(test_count(ckpt_room, ".step"), 0);
}

static void bad_options_are_refused(void **state) {
    (void)state;
    lull_ckpt_t *ckpt;
    lull_ckpt_options_t options = test_options(ckpt_room, 1, 1);
    assert_fails(lull_ckpt_open(&options, &ckpt), LULL_ERR_INVALID, "rank");
    options = test_options(NULL, 0, 1);
    assert_fails(lull_ckpt_open(&options, &ckpt), LULL_ERR_INVALID, "dir");
    options = test_options(ckpt_room, 0, 1);
    options.run_id = "a/b";
    assert_fails(lull_ckpt_open(&options, &ckpt), LULL_ERR_INVALID, "run_id");
    options = test_options(ckpt_room, 0, 1);
    options.buffer_bytes = 1000;
    assert_fails(lull_ckpt_open(&options, &ckpt), LULL_ERR_INVALID, "buffer");
    options = test_options("/proc/nowhere/at/all", 0, 1);
    assert_fails(lull_ckpt_open(&options, &ckpt), LULL_ERR_NOT_FOUND,
                 "/proc/nowhere");
}

static void a_second_run_is_told_who_is_there(void **state) {
    (void)state;
    char pid[32];
    lull_ckpt_options_t options = test_options(ckpt_room, 0, 1);
    lull_ckpt_t *first = open_one(&options), *second = NULL;
    sprintf(pid, "pid %ld", (long)getpid());
    assert_fails(lull_ckpt_open(&options, &second), LULL_ERR_BUSY, pid);
    lull_ckpt_prune_options_t newest = LULL_CKPT_PRUNE_OPTIONS_INIT;
    newest.keep_last = 1;
    assert_fails(lull_ckpt_prune(ckpt_room, &newest, NULL), LULL_ERR_BUSY, pid);
    assert_ok(lull_ckpt_close(first));
    second = open_one(&options);
    lull_ckpt_destroy(second);
    lull_ckpt_destroy(first);
}

static void a_forked_child_is_refused(void **state) {
    (void)state;
    float x[4] = {0};
    lull_ckpt_options_t options = test_options(ckpt_room, 0, 1);
    lull_ckpt_t *ckpt = open_one(&options);
    lull_ckpt_tensor_t tensor = test_tensor("t", LULL_F32, 4, x);
    lull_ckpt_save_t save = save_of(1, &tensor, 1);
    assert_ok(lull_ckpt_save(ckpt, &save, NULL));
    pid_t child = fork();
    if (child == 0) {
        int ok = lull_ckpt_save(ckpt, &save, NULL) == LULL_ERR_FORKED &&
                 lull_ckpt_wait_committed(ckpt, NULL, 0) == LULL_ERR_FORKED &&
                 lull_ckpt_close(ckpt) == LULL_ERR_FORKED;
        lull_ckpt_destroy(ckpt);
        /* The child lives on; the directory must not stay locked by it. */
        sleep(1);
        _exit(ok ? 0 : 1);
    }
    assert_ok(lull_ckpt_close(ckpt));
    lull_ckpt_destroy(ckpt);
    ckpt = open_one(&options);
    lull_ckpt_destroy(ckpt);
    int status;
    waitpid(child, &status, 0);
    assert_int_equal(status, 0);
}

/* The lock may be held, for ever, by a thread that the child does not have. */
static void a_forked_child_lets_go_of_requests(void **state) {
    (void)state;
    float x[4] = {0};
    lull_ckpt_options_t options = test_options(ckpt_room, 0, 1);
    lull_ckpt_t *ckpt = open_one(&options);
    lull_ckpt_tensor_t tensor = test_tensor("t", LULL_F32, 4, x);
    lull_ckpt_save_t save = save_of(1, &tensor, 1);
    lull_ckpt_request_t *request;
    assert_ok(lull_ckpt_save(ckpt, &save, &request));
    pthread_mutex_lock(&ckpt->lock);
    pid_t child = fork();
    if (child == 0) {
        alarm(100); /* where it hangs */
        lull_ckpt_request_destroy(request);
        lull_ckpt_destroy(ckpt);
        _exit(0);
    }
    pthread_mutex_unlock(&ckpt->lock);
    int status;
    waitpid(child, &status, 0);
    assert_int_equal(status, 0);
    lull_ckpt_request_destroy(request);
    assert_ok(lull_ckpt_close(ckpt));
    lull_ckpt_destroy(ckpt);
}

/* The misuse is a data race by nature; here it is made without one. */
static void await_copied_under_tsan(lull_ckpt_t *ckpt,
                                    lull_ckpt_request_t *request) {
#ifdef __SANITIZE_THREAD__
    lull_ckpt_progress_t progress = {.size = sizeof progress};
    do
        assert_ok(lull_ckpt_test(ckpt, request, &progress));
    while (progress.stage < LULL_CKPT_FLUSHING);
#else
    (void)ckpt, (void)request;
#endif
}

static void mutation_is_detected_and_named(void **state) {
    (void)state;
    static char a[2 * MIB + 5], b[3 * MIB];
    lull_ckpt_options_t options = test_options(ckpt_room, 0, 1);
    options.detect_mutation = true;
    options.copy_threads = 2;
    options.buffer_bytes = 8 * MIB;
    lull_ckpt_t *ckpt = open_one(&options);
    lull_ckpt_tensor_t tensors[] = {test_tensor("a", LULL_U8, sizeof a, a),
                                    test_tensor("b", LULL_U8, sizeof b, b)};
    lull_ckpt_save_t save = save_of(1, tensors, 2);
    assert_ok(lull_ckpt_save(ckpt, &save, NULL));
    assert_ok(lull_ckpt_wait_snapshot(ckpt, NULL, LULL_FOREVER));
    assert_ok(lull_ckpt_wait_committed(ckpt, NULL, LULL_FOREVER));
    save.step = 2;
    lull_ckpt_request_t *request;
    assert_ok(lull_ckpt_save(ckpt, &save, &request));
    await_copied_under_tsan(ckpt, request);
    b[MIB + 7] ^= 1; /* before its copy or after it */
    lull_ckpt_request_destroy(request);
    assert_fails(lull_ckpt_wait_snapshot(ckpt, NULL, LULL_FOREVER),
                 LULL_ERR_MUTATED, "'b'");
    save.step = 3;
    assert_ok(lull_ckpt_save(ckpt, &save, NULL));
    assert_ok(lull_ckpt_close(ckpt));
    lull_ckpt_destroy(ckpt);
    assert_true(test_has(ckpt_room, "step-00000001"));
    assert_false(test_has(ckpt_room, "step-00000002"));
    assert_true(test_has(ckpt_room, "step-00000003"));
}

static void the_same_step_again_replaces_the_old_one(void **state) {
    (void)state;
    uint32_t x[4] = {1, 2, 3, 4};
    lull_ckpt_options_t options = test_options(ckpt_room, 0, 1);
    lull_ckpt_t *ckpt = open_one(&options);
    lull_ckpt_tensor_t tensor = test_tensor("x", LULL_U32, 4, x);
    lull_ckpt_save_t save = save_of(5, &tensor, 1);
    for (uint32_t i = 0; i < 3; i++) {
        x[0] = i;
        assert_ok(lull_ckpt_save(ckpt, &save, NULL));
        assert_ok(lull_ckpt_wait_committed(ckpt, NULL, LULL_FOREVER));
        assert_stored(5, "x", x, sizeof x);
    }
    assert_ok(lull_ckpt_close(ckpt));
    lull_ckpt_destroy(ckpt);
    assert_int_equal(test_count(ckpt_room, "step-"), 1);
    assert_int_equal(test_count(ckpt_room, "."), 1); /* .lull */
}

static void retention_goes_by_commits(void **state) {
    (void)state;
    uint32_t x[4] = {1, 2, 3, 4};
    lull_ckpt_options_t options = test_options(ckpt_room, 0, 1);
    lull_ckpt_tensor_t tensor = test_tensor("x", LULL_U32, 4, x);
    lull_ckpt_t *ckpt = open_one(&options);
    lull_ckpt_save_t save = save_of(0, &tensor, 1);
    for (save.step = 100; save.step <= 300; save.step += 100)
        assert_ok(lull_ckpt_save(ckpt, &save, NULL));
    assert_ok(lull_ckpt_close(ckpt));
    lull_ckpt_destroy(ckpt);
    /* Resumed from 100: 110 and 120 are newer than 300. */
    options.keep_last = 2;
    ckpt = open_one(&options);
    save.parent_seq = 1;
    save.step = 110;
    assert_ok(lull_ckpt_save(ckpt, &save, NULL));
    assert_ok(lull_ckpt_wait_committed(ckpt, NULL, LULL_FOREVER));
    save.step = 120;
    assert_ok(lull_ckpt_save(ckpt, &save, NULL));
    assert_ok(lull_ckpt_close(ckpt));
    lull_ckpt_destroy(ckpt);
    assert_int_equal(test_count(ckpt_room, "step-"), 2);
    assert_true(test_has(ckpt_room, "step-00000110"));
    assert_true(test_has(ckpt_room, "step-00000120"));
    /* And every 50th step. */
    options.keep_last = 1;
    options.keep_every = 50;
    ckpt = open_one(&options);
    for (save.step = 125; save.step <= 175; save.step += 25)
        assert_ok(lull_ckpt_save(ckpt, &save, NULL));
    assert_ok(lull_ckpt_close(ckpt));
    lull_ckpt_destroy(ckpt);
    assert_int_equal(test_count(ckpt_room, "step-"), 2);
    assert_true(test_has(ckpt_room, "step-00000150"));
    assert_true(test_has(ckpt_room, "step-00000175"));
    lull_ckpt_prune_options_t newest = LULL_CKPT_PRUNE_OPTIONS_INIT;
    size_t deleted;
    newest.keep_last = 1;
    assert_ok(lull_ckpt_prune(ckpt_room, &newest, &deleted));
    assert_int_equal(deleted, 1);
    assert_int_equal(test_count(ckpt_room, "step-"), 1);
    assert_int_equal(test_count(ckpt_room, ".trash"), 0);
}

/* Overwritten and pruned, it is still there for who opened it before. */
static void a_reader_keeps_what_it_holds(void **state) {
    (void)state;
    static uint32_t x[500000], back[500000], old[500000];
    lull_ckpt_options_t options = test_options(ckpt_room, 0, 1);
    options.keep_last = 1;
    lull_ckpt_t *ckpt = open_one(&options);
    lull_ckpt_tensor_t tensor = test_tensor("x", LULL_U32, 500000, x);
    lull_ckpt_info_t *held[2];
    for (uint64_t step = 1; step <= 2; step++) {
        test_fill(x, sizeof x, step);
        lull_ckpt_save_t save = save_of(step, &tensor, 1);
        assert_ok(lull_ckpt_save(ckpt, &save, NULL));
        assert_ok(lull_ckpt_wait_committed(ckpt, NULL, LULL_FOREVER));
        assert_ok(lull_ckpt_info_open(
            ckpt_room, (lull_ckpt_id_t){LULL_LATEST, 0, 0}, &held[step - 1]));
    }
    for (uint64_t step = 2; step <= 4; step++) {
        test_fill(x, sizeof x, 10 + step);
        lull_ckpt_save_t save = save_of(step, &tensor, 1);
        assert_ok(lull_ckpt_save(ckpt, &save, NULL));
        assert_ok(lull_ckpt_wait_committed(ckpt, NULL, LULL_FOREVER));
    }
    for (uint64_t step = 1; step <= 2; step++) {
        lull_ckpt_slice_t slice = LULL_CKPT_SLICE_INIT;
        slice.name = "x";
        slice.dtype = LULL_U32;
        slice.ndim = 1;
        slice.global_shape[0] = slice.shape[0] = 500000;
        slice.data = back;
        lull_ckpt_load_options_t load = LULL_CKPT_LOAD_OPTIONS_INIT;
        assert_ok(lull_ckpt_load(held[step - 1], &slice, 1, &load));
        test_fill(old, sizeof old, step);
        assert_memory_equal(back, old, sizeof old);
        assert_ok(lull_ckpt_verify(held[step - 1], NULL, NULL));
        lull_ckpt_info_destroy(held[step - 1]);
    }
    /* Let go of, they go. */
    lull_ckpt_save_t save = save_of(5, &tensor, 1);
    assert_ok(lull_ckpt_save(ckpt, &save, NULL));
    assert_ok(lull_ckpt_close(ckpt));
    lull_ckpt_destroy(ckpt);
    assert_int_equal(test_count(ckpt_room, "step-"), 1);
    ckpt = open_one(&options);
    lull_ckpt_destroy(ckpt);
    assert_int_equal(test_count(ckpt_room, "."), 1);
}

static void many_saves_leave_nothing_behind(void **state) {
    (void)state;
    uint32_t x[4] = {1, 2, 3, 4};
    const char *given = getenv("LULL_TEST_SAVES");
    unsigned saves = given ? (unsigned)atoi(given) : 500, before = 0;
    lull_ckpt_options_t options = test_options(ckpt_room, 0, 1);
    options.keep_last = 2;
    lull_ckpt_t *ckpt = open_one(&options);
    lull_ckpt_tensor_t tensor = test_tensor("x", LULL_U32, 4, x);
    for (unsigned i = 0; i < saves; i++) {
        lull_ckpt_save_t save = save_of(i, &tensor, 1);
        assert_ok(lull_ckpt_save(ckpt, &save, NULL));
        if (i == 20) {
            assert_ok(lull_ckpt_wait_committed(ckpt, NULL, LULL_FOREVER));
            before = test_descriptors();
        }
    }
    /* Committed is known before the older ones are deleted: each of the few
     * that may wait for that holds two. */
    assert_ok(lull_ckpt_wait_committed(ckpt, NULL, LULL_FOREVER));
    assert_true(test_descriptors() <= before + 12);
    assert_ok(lull_ckpt_close(ckpt));
    lull_ckpt_destroy(ckpt);
    assert_int_equal(test_count(ckpt_room, "step-"), 2);
    char path[300];
    snprintf(path, sizeof path, "%s/.lull", ckpt_room);
    assert_int_equal(test_count(path, ""), 1); /* lock */
}

/* As a directory says in which someone has put such a one. */
static void the_last_number_is_not_given_away(void **state) {
    (void)state;
    uint32_t value = 1;
    lull_ckpt_tensor_t tensor = test_tensor("a", LULL_U32, 1, &value);
    lull_ckpt_options_t options = test_options(ckpt_room, 0, 1);
    lull_ckpt_t *ckpt = open_one(&options);
    lull_ckpt_save_t save = save_of(1, &tensor, 1);
    ckpt->history.last = LULL_LATEST - 2;
    assert_ok(lull_ckpt_save(ckpt, &save, NULL));
    assert_ok(lull_ckpt_wait_committed(ckpt, NULL, LULL_FOREVER));
    save.step = 2;
    for (int i = 0; i < 2; i++) {
        assert_ok(lull_ckpt_save(ckpt, &save, NULL));
        assert_fails(lull_ckpt_wait_committed(ckpt, NULL, LULL_FOREVER),
                     LULL_ERR_STATE, "no seq is left for step 2");
    }
    lull_ckpt_destroy(ckpt);
    lull_ckpt_id_t id;
    assert_ok(lull_ckpt_find(ckpt_room, NULL, &id));
    assert_true(id.seq == LULL_LATEST - 1 && id.step == 1);
}

int main(void) {
#define TEST(name) \
    cmocka_unit_test_setup_teardown(name, ckpt_room_make, ckpt_room_drop)
    const struct CMUnitTest tests[] = {
        TEST(a_save_is_committed_and_read_back),
        TEST(destroy_null_is_harmless),
        TEST(tensors_of_every_size_stream_through_the_ring),
        TEST(the_nth_checkpoint_holds_the_nth_values),
        TEST(modes_wait_as_they_say),
        TEST(bad_descriptors_are_refused_by_name),
        TEST(bad_options_are_refused),
        TEST(a_second_run_is_told_who_is_there),
        TEST(a_forked_child_is_refused),
        TEST(a_forked_child_lets_go_of_requests),
        TEST(mutation_is_detected_and_named),
        TEST(the_same_step_again_replaces_the_old_one),
        TEST(retention_goes_by_commits),
        TEST(a_reader_keeps_what_it_holds),
        TEST(many_saves_leave_nothing_behind),
        TEST(the_last_number_is_not_given_away),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
