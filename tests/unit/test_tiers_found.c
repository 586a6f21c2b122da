/* Which copy is restored where several tiers have checkpoints. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ckpt.h"
#include "test.h"
#include "tiers.h"
#include "tiers_room.h"

static void resumed_from_the_slow_tier(void **state) {
    (void)state;
    tiers_setting_t setting = {.tiers = {tiers_at(tiers_slow)}, .count = 1};
    lull_ckpt_t *ckpt;
    tiers_open(&setting, &ckpt);
    test_tiers_save(&ckpt, 1, 1, 1);
    test_tiers_save(&ckpt, 1, 2, 2);
    tiers_close(&setting, &ckpt);
    test_dir_drop(tiers_fast);
    assert_int_equal(test_tiers_newest_of(tiers_fast, tiers_slow), 2);
    setting.run_id = "second";
    tiers_open(&setting, &ckpt);
    /* From step 1 on: the newest all the same, whatever is where. */
    test_tiers_save(&ckpt, 1, 1, 11);
    assert_int_equal(test_tiers_newest_of(tiers_fast, tiers_slow), 11);
    tiers_close(&setting, &ckpt);
    assert_int_equal(test_tiers_newest(tiers_slow), 11);
    assert_int_equal(test_tiers_all_whole(tiers_slow), 2); /* 2 and the new 1 */
}

static char why[512];

static void on_skip(void *ctx, lull_ckpt_id_t id, const char *text) {
    (void)id;
    ++*(int *)ctx;
    snprintf(why, sizeof why, "%s", text);
}

static void a_damaged_copy_gives_way_to_another(void **state) {
    (void)state;
    tiers_setting_t setting = {.tiers = {tiers_at(tiers_slow)}, .count = 1};
    const char *dirs[] = {tiers_fast, tiers_slow};
    lull_ckpt_t *ckpt;
    lull_ckpt_id_t id;
    lull_ckpt_info_t *info;
    size_t index;
    int skipped = 0;
    tiers_open(&setting, &ckpt);
    test_tiers_save(&ckpt, 1, 1, 1);
    test_tiers_save(&ckpt, 1, 2, 2);
    tiers_close(&setting, &ckpt);
    lull_ckpt_find_options_t find = LULL_CKPT_FIND_OPTIONS_INIT;
    find.on_skip = on_skip;
    find.ctx = &skipped;
    assert_ok(lull_ckpt_find_in(dirs, 2, &find, &id, &index));
    assert_int_equal(index, 0);
    /* A block: only a load notices, and asks for another copy. */
    tiers_flip(tiers_fast, 2, "rank-00000.safetensors", 100);
    assert_ok(lull_ckpt_info_open(tiers_fast, id, &info));
    assert_fails(lull_ckpt_verify(info, NULL, NULL), LULL_ERR_CORRUPT, "block");
    lull_ckpt_info_destroy(info);
    find.before_seq = id.seq;
    find.from_tier = index + 1;
    assert_ok(lull_ckpt_find_in(dirs, 2, &find, &id, &index));
    assert_int_equal(id.step, 2);
    assert_int_equal(index, 1);
    find.from_tier = index + 1;
    assert_ok(lull_ckpt_find_in(dirs, 2, &find, &id, &index));
    assert_int_equal(id.step, 1);
    assert_int_equal(index, 0);
    /* The index: a look notices. */
    tiers_flip(tiers_fast, 2, "rank-00000.json", 40);
    find.before_seq = 0;
    find.from_tier = 0;
    assert_int_equal(skipped, 0);
    assert_ok(lull_ckpt_find_in(dirs, 2, &find, &id, &index));
    assert_int_equal(id.step, 2);
    assert_int_equal(index, 1);
    assert_int_equal(skipped, 1);
    assert_non_null(strstr(why, tiers_fast));
    find.step = 2;
    assert_ok(lull_ckpt_find_in(dirs, 2, &find, &id, &index));
    assert_int_equal(index, 1);
    assert_int_equal(skipped, 2);
    tiers_flip(tiers_slow, 2, "rank-00000.json", 40);
    assert_fails(lull_ckpt_find_in(dirs, 2, &find, &id, &index),
                 LULL_ERR_CORRUPT, tiers_fast);
    /* Directories that are not there. */
    dirs[1] = tiers_slower;
    find.step = 1;
    assert_ok(lull_ckpt_find_in(dirs, 2, &find, &id, &index));
    dirs[0] = tiers_slower;
    assert_fails(lull_ckpt_find_in(dirs, 2, &find, &id, &index),
                 LULL_ERR_NOT_FOUND, tiers_slower);
}

/* One checkpoint, seq 1 and step 1, in each of two directories: by two runs,
 * the one in `newer` a second later. */
static void two_runs(const char *older, const char *newer) {
    const char *dirs[] = {older, newer};
    for (uint64_t i = 0; i < 2; i++) {
        lull_ckpt_options_t options = test_options(dirs[i], 0, 1);
        lull_ckpt_t *ckpt;
        options.run_id = i == 0 ? "one" : "two";
        assert_ok(lull_ckpt_open(&options, &ckpt));
        if (i == 1)
            sleep(1); /* times are whole seconds */
        test_tiers_save(&ckpt, 1, 1, i + 1);
        assert_ok(lull_ckpt_close(ckpt));
        lull_ckpt_destroy(ckpt);
    }
}

/* Equal numbers do not make a copy. */
static void another_run_has_the_same_number(void **state) {
    (void)state;
    const char *dirs[] = {tiers_fast, tiers_slow};
    lull_ckpt_find_options_t find = LULL_CKPT_FIND_OPTIONS_INIT;
    lull_ckpt_id_t newer, older, id;
    lull_ckpt_info_t *info;
    size_t index;
    two_runs(tiers_fast, tiers_slow);
    /* The one committed last, though it is in the slower tier. */
    assert_ok(lull_ckpt_find_in(dirs, 2, NULL, &newer, &index));
    assert_int_equal(index, 1);
    assert_int_equal(test_tiers_version(dirs[index], newer), 2);
    /* Before it comes the other one, which is not taken for it. */
    find.before_seq = newer.seq;
    find.before_origin = newer.origin;
    find.from_tier = index + 1;
    assert_ok(lull_ckpt_find_in(dirs, 2, &find, &older, &index));
    assert_int_equal(index, 0);
    assert_int_equal(test_tiers_version(dirs[index], older), 1);
    assert_true(older.seq == newer.seq && older.step == newer.step &&
                older.origin != newer.origin);
    find.before_origin = older.origin;
    find.from_tier = index + 1;
    assert_fails(lull_ckpt_find_in(dirs, 2, &find, &id, &index),
                 LULL_ERR_NOT_FOUND, tiers_fast);
    assert_fails(lull_ckpt_info_open(tiers_fast, newer, &info),
                 LULL_ERR_NOT_FOUND, "another run");
    /* So it is where the one that is meant is not. */
    find.before_origin = newer.origin;
    assert_ok(lull_ckpt_find(tiers_fast, &find, &id));
    assert_true(id.origin == older.origin);
    find.before_origin = 0;
    assert_fails(lull_ckpt_find(tiers_fast, &find, &id), LULL_ERR_NOT_FOUND,
                 tiers_fast);
    /* Where it is damaged, a search for the step does not give the other. */
    tiers_flip(tiers_slow, 1, "rank-00000.json", 40);
    find = (lull_ckpt_find_options_t)LULL_CKPT_FIND_OPTIONS_INIT;
    find.step = 1;
    assert_fails(lull_ckpt_find_in(dirs, 2, &find, &id, &index),
                 LULL_ERR_CORRUPT, tiers_slow);
}

int main(void) {
    /* Many drains: a disk would only add time. */
    ckpt_room_in_memory();
#define TEST(name) \
    cmocka_unit_test_setup_teardown(name, tiers_room_make, tiers_room_drop)
    const struct CMUnitTest tests[] = {
        TEST(resumed_from_the_slow_tier),
        TEST(a_damaged_copy_gives_way_to_another),
        TEST(another_run_has_the_same_number),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
