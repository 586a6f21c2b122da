/* Real file systems, small and mounted for the test: two ranks save, replace,
 * retain and load; on a disk that is full to the last byte all ranks learn at
 * once that a save failed. Needs root and mount. */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ckpt.h"
#include "mount.h"
#include "test.h"

#define WORLD 2
#define COUNT ((size_t)1 << 17) /* of F32, a rank */

static char dir[320]; /* in what is mounted */
static float values[WORLD * COUNT];

static int set_up(void **state) {
    int rc = mount_room_make(state);
    snprintf(dir, sizeof dir, "%s/ck", mount_point);
    return rc;
}

static void open_ranks(lull_ckpt_t **ranks, double timeout_s) {
    for (uint32_t r = 0; r < WORLD; r++) {
        lull_ckpt_options_t options = test_options(dir, r, WORLD);
        options.commit_timeout_s = timeout_s;
        options.keep_last = 2;
        assert_ok(lull_ckpt_open(&options, &ranks[r]));
    }
}

static void save_all(lull_ckpt_t **ranks, uint64_t step) {
    test_fill(values, sizeof values, step);
    for (uint32_t r = 0; r < WORLD; r++) {
        lull_ckpt_tensor_t tensor =
            test_tensor("t", LULL_F32, COUNT, values + r * COUNT);
        tensor.global_shape[0] = WORLD * COUNT;
        tensor.offset[0] = r * COUNT;
        lull_ckpt_save_t save = LULL_CKPT_SAVE_INIT;
        save.step = step;
        save.tensors = &tensor;
        save.tensor_count = 1;
        assert_ok(lull_ckpt_save(ranks[r], &save, NULL));
    }
}

static void assert_newest(uint64_t step) {
    static float back[WORLD * COUNT];
    lull_ckpt_id_t id;
    lull_ckpt_info_t *info;
    assert_ok(lull_ckpt_find(dir, NULL, &id));
    assert_int_equal(id.step, step);
    assert_ok(lull_ckpt_info_open(dir, id, &info));
    assert_ok(lull_ckpt_verify(info, NULL, NULL));
    lull_ckpt_slice_t slice = LULL_CKPT_SLICE_INIT;
    slice.name = "t";
    slice.dtype = LULL_F32;
    slice.ndim = 1;
    slice.global_shape[0] = slice.shape[0] = WORLD * COUNT;
    slice.data = back;
    assert_ok(lull_ckpt_load(info, &slice, 1, NULL));
    lull_ckpt_info_destroy(info);
    test_fill(values, sizeof values, step);
    assert_memory_equal(back, values, sizeof back);
}

static void close_ranks(lull_ckpt_t **ranks) {
    for (uint32_t r = 0; r < WORLD; r++) {
        assert_ok(lull_ckpt_close(ranks[r]));
        lull_ckpt_destroy(ranks[r]);
    }
}

/* Steps 1, 2, 3, 3: two stay. A reader of the first 3 keeps its bytes. */
static void round_of(const char *how) {
    lull_ckpt_t *ranks[WORLD];
    lull_ckpt_id_t id;
    lull_ckpt_info_t *held = NULL;
    mount_or_skip(how);
    open_ranks(ranks, 60);
    for (uint64_t step = 1; step <= 4; step++) {
        save_all(ranks, step < 4 ? step : 3);
        for (uint32_t r = 0; r < WORLD; r++)
            assert_ok(lull_ckpt_wait_committed(ranks[r], NULL, LULL_FOREVER));
        if (step == 3) {
            assert_ok(lull_ckpt_find(dir, NULL, &id));
            assert_ok(lull_ckpt_info_open(dir, id, &held));
        }
    }
    close_ranks(ranks);
    assert_ok(lull_ckpt_verify(held, NULL, NULL));
    lull_ckpt_info_destroy(held);
    assert_newest(3);
    assert_int_equal(test_count(dir, "step-"), 2);
}

static void ext4(void **state) {
    (void)state;
    round_of("dd if=/dev/zero of=image bs=1M count=24 && "
             "mkfs.ext4 -q -F image && mount -o loop image disk");
}

static void tmpfs(void **state) {
    (void)state;
    round_of("mount -t tmpfs -o size=12m none disk");
}

/* Over a tmpfs: an overlay takes no overlay as its upper layer. */
static void overlay(void **state) {
    (void)state;
    round_of("mount -t tmpfs -o size=12m none disk && cd disk && "
             "mkdir lower upper work && mount -t overlay overlay -o "
             "lowerdir=lower,upperdir=upper,workdir=work ../disk || "
             "{ umount ../disk; false; }");
}

/* Takes what is free, to the last byte. */
static void fill_disk(void) {
    static const char zeros[4096];
    char path[340];
    snprintf(path, sizeof path, "%s/filler", mount_point);
    int fd = open(path, O_WRONLY | O_CREAT, 0600);
    assert_true(fd >= 0);
    while (write(fd, zeros, sizeof zeros) > 0)
        continue;
    fsync(fd);
    while (write(fd, zeros, sizeof zeros) > 0)
        continue;
    close(fd);
}

static void full_to_the_last_byte(const char *how) {
    char path[340];
    lull_ckpt_t *ranks[WORLD];
    mount_or_skip(how);
    open_ranks(ranks, 100000);
    save_all(ranks, 1);
    for (uint32_t r = 0; r < WORLD; r++)
        assert_ok(lull_ckpt_wait_committed(ranks[r], NULL, LULL_FOREVER));
    fill_disk();
    for (uint64_t step = 2; step < 5; step++) {
        save_all(ranks, step);
        for (uint32_t r = 0; r < WORLD; r++)
            assert_int_not_equal(
                lull_ckpt_wait_committed(ranks[r], NULL, LULL_FOREVER),
                LULL_OK);
    }
    assert_newest(1);
    snprintf(path, sizeof path, "%s/filler", mount_point);
    assert_int_equal(unlink(path), 0);
    save_all(ranks, 9);
    for (uint32_t r = 0; r < WORLD; r++)
        assert_ok(lull_ckpt_wait_committed(ranks[r], NULL, LULL_FOREVER));
    close_ranks(ranks);
    assert_newest(9);
    assert_int_equal(test_count(dir, "."), 1);
}

static void full_ext4(void **state) {
    (void)state;
    full_to_the_last_byte("dd if=/dev/zero of=image bs=1M count=24 && "
                          "mkfs.ext4 -q -F image && mount -o loop image disk");
}

static void full_tmpfs(void **state) {
    (void)state;
    full_to_the_last_byte("mount -t tmpfs -o size=12m none disk");
}

int main(void) {
#define TEST(name) \
    cmocka_unit_test_setup_teardown(name, set_up, mount_room_drop)
    const struct CMUnitTest tests[] = {TEST(ext4), TEST(tmpfs), TEST(overlay),
                                       TEST(full_ext4), TEST(full_tmpfs)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
