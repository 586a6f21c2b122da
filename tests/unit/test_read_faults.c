/* ckpt: reading when the n-th storage call or the n-th allocation fails, for
 * every n: an error with the reason, or right values; nothing leaks. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "allocations.h"
#include "ckpt.h"
#include "ckpt_writer.h"
#include "faultio.h"
#include "test.h"

enum { N = 400000 }; /* of floats: two blocks a rank */

static float *data, *back;
static char *dir;

static void write_all(void) {
    data = malloc(N * sizeof *data);
    back = malloc(N * sizeof *back);
    for (int i = 0; i < N; i++)
        data[i] = (float)i;
    test_shard_t shards[] = {
        {.rank = 0,
         .name = "w",
         .dtype = LULL_F32,
         .ndim = 1,
         .global = {N},
         .box = {{0}, {N / 2}},
         .data = data},
        {.rank = 0,
         .name = "state",
         .kind = LULL__SHARD_STATE,
         .dtype = LULL_U8,
         .ndim = 1,
         .global = {4},
         .box = {{0}, {4}},
         .data = "abcd"},
        {.rank = 1,
         .name = "w",
         .dtype = LULL_F32,
         .ndim = 1,
         .global = {N},
         .box = {{N / 2}, {N / 2}},
         .data = data + N / 2,
         .codec = "expo"},
    };
    dir = test_dir("faults");
    for (uint64_t step = 1; step <= 2; step++)
        test_ckpt_write(&(test_ckpt_t){.dir = dir,
                                       .seq = step,
                                       .step = step,
                                       .world = 2,
                                       .shards = shards,
                                       .count = 3});
}

/* Find, open, verify, load, state, list. */
static lull_status_t read_all(void) {
    lull_ckpt_id_t id;
    lull_ckpt_info_t *info;
    lull_ckpt_entry_t *entries;
    size_t count, bytes;
    char text[4];
    memset(back, 0, N * sizeof *back);
    lull_status_t status = lull_ckpt_find(dir, NULL, &id);
    if (status != LULL_OK)
        return status;
    assert_int_equal(id.step, 2); /* an older one never, without damage */
    status = lull_ckpt_info_open(dir, id, &info);
    if (status != LULL_OK)
        return status;
    lull_ckpt_slice_t slice = {.size = sizeof slice,
                               .name = "w",
                               .dtype = LULL_F32,
                               .ndim = 1,
                               .global_shape = {N},
                               .shape = {N},
                               .data = back};
    status = lull_ckpt_verify(info, NULL, NULL);
    if (status == LULL_OK)
        status = lull_ckpt_load(info, &slice, 1, NULL);
    if (status == LULL_OK)
        status = lull_ckpt_info_state(info, "state", 0, text, 4, &bytes);
    lull_ckpt_info_destroy(info);
    if (status != LULL_OK)
        return status;
    assert_memory_equal(back, data, N * sizeof *data);
    assert_memory_equal(text, "abcd", 4);
    status = lull_ckpt_list(dir, &entries, &count);
    if (status == LULL_OK)
        lull_ckpt_entries_free(entries);
    return status;
}

/* ops: those that fail. */
static void storage(int error, unsigned ops, bool harmless) {
    faultio_t fault;
    unsigned before = test_descriptors();
    uint64_t failed = 0, n;
    faultio_init(&fault);
    fault.ops = ops;
    lull__io_set_default(&fault.io);
    for (n = 1;; n++) {
        faultio_arm(&fault, n, error);
        lull_status_t status = read_all();
        bool hit = faultio_hit(&fault);
        faultio_arm(&fault, 0, 0);
        assert_int_equal(test_descriptors(), before);
        if (status != LULL_OK) {
            failed++;
            assert_non_null(strstr(lull_last_error(), dir));
        }
        if (!hit)
            break;
    }
    lull__io_set_default(NULL);
    printf("%s: %llu calls, %llu times an error\n",
           error ? strerror(error) : "short", (unsigned long long)n - 1,
           (unsigned long long)failed);
    if (harmless)
        assert_int_equal(failed, 0);
    else
        assert_true(failed > 5);
}

static void io_errors(void **state) {
    (void)state;
    storage(EIO, FAULT_ANY, false);
}

static void descriptors_run_out(void **state) {
    (void)state;
    storage(EMFILE, FAULT_ANY, false);
}

static void interrupted(void **state) {
    (void)state;
    /* Calls that a signal may interrupt. */
    storage(EINTR, FAULT_OPEN | FAULT_READ | FAULT_LOCK | FAULT_CLOSE, true);
}

static void short_reads(void **state) {
    (void)state;
    storage(0, FAULT_ANY, true);
}

/* Of a disk that has a moment. */
static void one_error_of_reading_is_nothing(void **state) {
    (void)state;
    storage(EIO, FAULT_OPEN | FAULT_READ, true);
    storage(ETIMEDOUT, FAULT_OPEN | FAULT_READ, true);
}

/* ---- A file that cannot be read ---- */

static const char *unread; /* the end of its path */

static ssize_t read_most(const lull__io_t *io, int fd, void *to, size_t bytes,
                         uint64_t offset) {
    char link[64], path[600] = "";
    (void)io;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t n = readlink(link, path, sizeof path - 1), end = 0;
    if (n > 0 && unread != NULL)
        end = (ssize_t)strlen(unread);
    if (end > 0 && n >= end && strcmp(path + n - end, unread) == 0)
        return -EIO;
    return lull__io_system.ops->read(&lull__io_system, fd, to, bytes, offset);
}

static unsigned skipped;

static void on_skip(void *ctx, lull_ckpt_id_t id, const char *why) {
    (void)ctx;
    (void)id;
    assert_non_null(strstr(why, strerror(EIO)));
    skipped++;
}

/* An error says nothing about what is there: an older checkpoint is taken in
 * its place only by who asks for it. */
static void what_cannot_be_read_is_not_passed_over(void **state) {
    (void)state;
    static const char *const files[] = {"step-00000002/manifest.json",
                                        "step-00000002/rank-00001.json",
                                        "step-00000002/rank-00000.safetensors"};
    lull__io_ops_t ops = *lull__io_system.ops;
    const lull__io_t io = {.ops = &ops};
    ops.read = read_most;
    lull__io_set_default(&io);
    for (int i = 0; i < 3; i++) {
        lull_ckpt_find_options_t find = LULL_CKPT_FIND_OPTIONS_INIT;
        lull_ckpt_id_t id;
        lull_ckpt_entry_t *entries;
        size_t count, bad = 0;
        find.on_skip = on_skip;
        skipped = 0;
        unread = files[i];
        assert_fails(lull_ckpt_find(dir, &find, &id), LULL_ERR_IO, unread);
        assert_int_equal(skipped, 0);
        find.step = 2;
        assert_fails(lull_ckpt_find(dir, &find, &id), LULL_ERR_IO, unread);
        find.step = 1;
        assert_ok(lull_ckpt_find(dir, &find, &id));
        assert_ok(lull_ckpt_list(dir, &entries, &count));
        assert_int_equal(count, 2);
        for (size_t k = 0; k < count; k++)
            bad += entries[k].id.step == 2 && entries[k].state == LULL_ERR_IO;
        assert_int_equal(bad, 1);
        lull_ckpt_entries_free(entries);
    }
    unread = NULL;
    lull__io_set_default(NULL);
}

/* ... nor written over: the next would have a seq that may be taken. */
static void an_engine_does_not_open_over_it(void **state) {
    (void)state;
    lull_ckpt_options_t options = test_options(dir, 0, 1);
    lull_ckpt_t *ckpt;
    lull__io_ops_t ops = *lull__io_system.ops;
    const lull__io_t io = {.ops = &ops};
    ops.read = read_most;
    lull__io_set_default(&io);
    unread = "step-00000002/manifest.json";
    assert_fails(lull_ckpt_open(&options, &ckpt), LULL_ERR_IO, unread);
    unread = NULL;
    lull__io_set_default(NULL);
    assert_ok(read_all());
}

/* A copy that can be read does in its place. */
static void another_copy_is_read(void **state) {
    (void)state;
    static const char *const files[] = {
        "fast/step-00000002/manifest.json",
        "fast/step-00000002/rank-00001.json",
        "fast/step-00000002/rank-00000.safetensors"};
    char *top = test_dir("copies"), command[1200];
    char fast[300], slow[300];
    lull__io_ops_t ops = *lull__io_system.ops;
    const lull__io_t io = {.ops = &ops};
    snprintf(fast, sizeof fast, "%s/fast", top);
    snprintf(slow, sizeof slow, "%s/slow", top);
    snprintf(command, sizeof command,
             "cp -r '%s' '%s'; cp -r '%s' '%s'; echo step-00000002 > "
             "'%s/latest'",
             dir, fast, dir, slow, fast);
    assert_int_equal(system(command), 0);
    ops.read = read_most;
    lull__io_set_default(&io);
    for (int i = 0; i < 3; i++)
        for (int asked = 0; asked < 2; asked++) {
            lull_ckpt_find_options_t find = LULL_CKPT_FIND_OPTIONS_INIT;
            lull_ckpt_id_t id;
            size_t index;
            find.on_skip = on_skip;
            find.step = asked ? 2 : LULL_LATEST;
            skipped = 0;
            unread = files[i];
            assert_ok(lull_ckpt_find_in((const char *[]){fast, slow}, 2, &find,
                                        &id, &index));
            assert_int_equal(id.step, 2);
            assert_int_equal(index, 1);
            assert_int_equal(skipped, !(asked && i == 0));
            /* Without it the older one is none to take. */
            unread = files[i] + strlen("fast/");
            assert_fails(lull_ckpt_find_in((const char *[]){fast, slow}, 2,
                                           &find, &id, &index),
                         LULL_ERR_IO, unread);
        }
    unread = NULL;
    lull__io_set_default(NULL);
    test_dir_remove(top);
}

/* ---- Allocations ---- */

static void every_allocation(void **state) {
    (void)state;
    unsigned before = test_descriptors();
    uint64_t failed = 0;
    for (uint64_t n = 1;; n++) {
        allocations_arm(n);
        lull_status_t status = read_all();
        bool reached = allocations_arm(0);
        assert_int_equal(test_descriptors(), before);
        if (status != LULL_OK) {
            failed++;
            if (status != LULL_ERR_NO_MEMORY)
                fail_msg("allocation %llu: %s", (unsigned long long)n,
                         lull_last_error());
        }
        if (!reached)
            break;
    }
    printf("%llu allocations told\n", (unsigned long long)failed);
    assert_true(failed > 20);
}

int main(void) {
    write_all();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(io_errors),
        cmocka_unit_test(descriptors_run_out),
        cmocka_unit_test(interrupted),
        cmocka_unit_test(short_reads),
        cmocka_unit_test(one_error_of_reading_is_nothing),
        cmocka_unit_test(what_cannot_be_read_is_not_passed_over),
        cmocka_unit_test(an_engine_does_not_open_over_it),
        cmocka_unit_test(another_copy_is_read),
        cmocka_unit_test(every_allocation),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    test_dir_remove(dir);
    free(data);
    free(back);
    return failed;
}
