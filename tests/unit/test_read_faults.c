/* ckpt: reading when the n-th storage call or the n-th allocation fails, for
 * every n: an error with the reason, or right values; nothing leaks. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

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
    if (status == LULL_OK)
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

static void storage(int error, bool harmless) {
    faultio_t fault;
    unsigned before = test_descriptors();
    uint64_t failed = 0, n;
    faultio_init(&fault);
    if (error == EINTR) /* calls that a signal may interrupt */
        fault.ops = FAULT_OPEN | FAULT_READ | FAULT_LOCK | FAULT_CLOSE;
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
    storage(EIO, false);
}

static void descriptors_run_out(void **state) {
    (void)state;
    storage(EMFILE, false);
}

static void interrupted(void **state) {
    (void)state;
    storage(EINTR, true);
}

static void short_reads(void **state) {
    (void)state;
    storage(0, true);
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
        cmocka_unit_test(every_allocation),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    test_dir_remove(dir);
    free(data);
    free(back);
    return failed;
}
