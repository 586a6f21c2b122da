/* A small disk that fills: a loop-mounted ext4 and a tmpfs of a few MiB. The
 * error names path and cause, what was committed stays, the partial one goes,
 * and there is room again after a prune. Needs root and mount. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ckpt.h"
#include "mount.h"
#include "test.h"

#define BYTES ((size_t)3 << 20)

static char dir[320]; /* in what is mounted */
static char data[BYTES];

static int set_up(void **state) {
    int rc = mount_room_make(state);
    snprintf(dir, sizeof dir, "%s/ck", mount_point);
    return rc;
}

static lull_status_t save_step(lull_ckpt_t *ckpt, uint64_t step) {
    lull_ckpt_tensor_t tensor = test_tensor("t", LULL_U8, BYTES, data);
    lull_ckpt_save_t save = LULL_CKPT_SAVE_INIT;
    save.step = step;
    save.tensors = &tensor;
    save.tensor_count = 1;
    test_fill(data, BYTES, step);
    return test_commit(ckpt, &save);
}

static void assert_all_whole(size_t expected) {
    lull_ckpt_entry_t *entries;
    size_t count;
    assert_ok(lull_ckpt_list(dir, &entries, &count));
    assert_int_equal(count, expected);
    for (size_t i = 0; i < count; i++) {
        lull_ckpt_info_t *info;
        assert_ok(lull_ckpt_info_open(dir, entries[i].id, &info));
        assert_ok(lull_ckpt_verify(info, NULL, NULL));
        lull_ckpt_info_destroy(info);
    }
    lull_ckpt_entries_free(entries);
}

static void fill_and_go_on(const char *how) {
    mount_or_skip(how);
    lull_ckpt_t *ckpt;
    lull_ckpt_options_t options = test_options(dir, 0, 1);
    assert_ok(lull_ckpt_open(&options, &ckpt));
    uint64_t step = 0;
    lull_status_t status;
    while ((status = save_step(ckpt, step)) == LULL_OK)
        assert_true(++step < 20);
    assert_int_equal(status, LULL_ERR_NO_SPACE);
    assert_non_null(strstr(lull_last_error(), dir));
    assert_true(step > 0);
    assert_all_whole(step);
    assert_ok(lull_ckpt_close(ckpt));
    lull_ckpt_destroy(ckpt);
    assert_int_equal(test_count(dir, "."), 1);
    lull_ckpt_prune_options_t newest = LULL_CKPT_PRUNE_OPTIONS_INIT;
    size_t deleted;
    newest.keep_last = 1;
    assert_ok(lull_ckpt_prune(dir, &newest, &deleted));
    assert_int_equal(deleted, step - 1);
    assert_ok(lull_ckpt_open(&options, &ckpt));
    assert_ok(save_step(ckpt, step));
    assert_ok(lull_ckpt_close(ckpt));
    lull_ckpt_destroy(ckpt);
    assert_all_whole(2);
}

static size_t count_whole(void) {
    lull_ckpt_entry_t *entries;
    size_t count;
    assert_ok(lull_ckpt_list(dir, &entries, &count));
    lull_ckpt_entries_free(entries);
    assert_all_whole(count);
    return count;
}

/* The small disk is the slower tier: it fills, saves go on, and with more room
 * the rest is drained. */
static void full_slow_tier(void **state) {
    (void)state;
    char command[900], fast[300];
    snprintf(fast, sizeof fast, "%s/fast", mount_base);
    mount_or_skip("mount -t tmpfs -o size=12m none disk");
    lull_ckpt_t *ckpt;
    lull_ckpt_options_t options = test_options(fast, 0, 1);
    lull_ckpt_tier_t tier = LULL_CKPT_TIER_INIT;
    tier.dir = dir;
    options.tiers = &tier;
    options.tier_count = 1;
    options.keep_last = 1;
    assert_ok(lull_ckpt_open(&options, &ckpt));
    for (uint64_t step = 0; step < 7; step++)
        assert_ok(save_step(ckpt, step));
    assert_fails(lull_ckpt_wait_drained(ckpt, LULL_FOREVER), LULL_ERR_NO_SPACE,
                 dir);
    size_t drained = count_whole();
    assert_in_range(drained, 1, 6);
    lull_ckpt_stats_t stats = {.size = sizeof stats};
    assert_ok(lull_ckpt_stats(ckpt, &stats));
    assert_int_equal(stats.drain_pending, 7 - drained);
    snprintf(command, sizeof command, "mount -o remount,size=64m '%s'",
             mount_point);
    assert_int_equal(system(command), 0);
    assert_ok(lull_ckpt_wait_drained(ckpt, LULL_FOREVER));
    assert_int_equal(count_whole(), 7);
    assert_ok(lull_ckpt_close(ckpt));
    lull_ckpt_destroy(ckpt);
    assert_int_equal(test_count(fast, "step-"), 1);
    assert_int_equal(test_count(dir, "."), 1);
}

/* Raw it does not fit, coded it does; where it does not either, that shows late
 * and harms nothing. */
static void coded(void **state) {
    (void)state;
    static float values[3 << 20];
    mount_or_skip("dd if=/dev/zero of=image bs=1M count=12 && "
                  "mkfs.ext4 -q -F -O ^has_journal image && "
                  "mount -o loop image disk");
    lull_ckpt_t *ckpt;
    lull_ckpt_options_t options = test_options(dir, 0, 1);
    lull_ckpt_tensor_t tensor = test_tensor("t", LULL_F32, 3 << 20, values);
    lull_ckpt_save_t save = LULL_CKPT_SAVE_INIT;
    save.tensors = &tensor;
    save.tensor_count = 1;
    options.codec = "weights=mpc";
    assert_ok(lull_ckpt_open(&options, &ckpt));
    for (save.step = 1; save.step < 6; save.step++) {
        bool fits = save.step != 3;
        if (fits)
            memset(values, (int)save.step, sizeof values);
        else
            test_fill(values, sizeof values, save.step);
        assert_ok(lull_ckpt_save(ckpt, &save, NULL));
        lull_status_t status =
            lull_ckpt_wait_committed(ckpt, NULL, LULL_FOREVER);
        if (status != (fits ? LULL_OK : LULL_ERR_NO_SPACE))
            fail_msg("step %d: %s", (int)save.step, lull_last_error());
        if (!fits)
            assert_non_null(strstr(lull_last_error(), dir));
    }
    assert_ok(lull_ckpt_close(ckpt));
    lull_ckpt_destroy(ckpt);
    assert_all_whole(4);
    assert_int_equal(test_count(dir, "."), 1);
}

static void ext4(void **state) {
    (void)state;
    fill_and_go_on("dd if=/dev/zero of=image bs=1M count=24 && "
                   "mkfs.ext4 -q -F image && mount -o loop image disk");
}

static void tmpfs(void **state) {
    (void)state;
    fill_and_go_on("mount -t tmpfs -o size=12m none disk");
}

int main(void) {
#define TEST(name) \
    cmocka_unit_test_setup_teardown(name, set_up, mount_room_drop)
    const struct CMUnitTest tests[] = {TEST(ext4), TEST(tmpfs),
                                       TEST(full_slow_tier), TEST(coded)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
