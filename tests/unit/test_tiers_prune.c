/* Pruning a directory that has tiers behind it, while no run is there. */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ckpt.h"
#include "test.h"
#include "tiers.h"
#include "tiers_room.h"

/* What was kept, and why. */
static unsigned kept;
static char why[512];

static void on_keep(void *ctx, lull_ckpt_id_t id, const char *text) {
    kept |= 1u << id.step;
    snprintf(why, sizeof why, "%s", text);
    assert_ptr_equal(ctx, &kept);
}

static size_t prune(const char *dir, uint32_t keep_last, bool undrained) {
    lull_ckpt_prune_options_t options = LULL_CKPT_PRUNE_OPTIONS_INIT;
    size_t deleted = 99;
    options.keep_last = keep_last;
    options.undrained = undrained;
    options.on_keep = on_keep;
    options.ctx = &kept;
    kept = 0;
    assert_ok(lull_ckpt_prune(dir, &options, &deleted));
    return deleted;
}

/* Steps 1 to `last`, of which the first `drained` are in the slow tiers. */
static void run(const tiers_setting_t *setting, uint64_t drained,
                uint64_t last) {
    lull_ckpt_t *ckpt;
    tiers_refuse_slow(false);
    tiers_open(setting, &ckpt);
    for (uint64_t i = 1; i <= last; i++) {
        test_tiers_save(&ckpt, 1, i, i);
        if (i <= drained)
            assert_ok(lull_ckpt_wait_drained(ckpt, LULL_FOREVER));
        if (i == drained)
            tiers_refuse_slow(true);
    }
    (void)lull_ckpt_close(ckpt);
    lull_ckpt_destroy(ckpt);
    tiers_refuse_slow(false);
}

static void what_is_not_drained_stays(void **state) {
    (void)state;
    tiers_setting_t setting = {.tiers = {tiers_at(tiers_slow)}, .count = 1};
    run(&setting, 2, 4);
    assert_int_equal(prune(tiers_fast, 1, false), 2);
    assert_int_equal(kept, 1u << 3);
    assert_non_null(strstr(why, tiers_slow));
    assert_non_null(strstr(why, "step 3"));
    assert_true(tiers_has(tiers_fast, 3) && tiers_has(tiers_fast, 4));
    /* A run takes it up; then it may go. */
    lull_ckpt_t *ckpt;
    tiers_open(&setting, &ckpt);
    tiers_close(&setting, &ckpt);
    assert_int_equal(prune(tiers_fast, 1, false), 1);
    assert_int_equal(kept, 0);
    assert_int_equal(test_tiers_all_whole(tiers_slow), 4);
    /* The last tier has nothing behind it. */
    assert_int_equal(prune(tiers_slow, 1, false), 3);
}

static void what_no_tier_wants_may_go(void **state) {
    (void)state;
    tiers_setting_t setting = {.tiers = {tiers_at(tiers_slow)}, .count = 1};
    setting.tiers[0].keep_last = 2;
    setting.tiers[0].keep_every = 3;
    run(&setting, 1, 6);
    /* 5 and 6 are the tier's last two, 3 and 6 third steps; 1 is there. */
    assert_int_equal(prune(tiers_fast, 1, false), 3);
    assert_int_equal(kept, 1u << 3 | 1u << 5);
    assert_int_equal(prune(tiers_fast, 1, true), 2);
    assert_int_equal(kept, 0);
    assert_true(tiers_has(tiers_fast, 6));
}

static void a_tier_that_is_gone_has_nothing(void **state) {
    (void)state;
    tiers_setting_t setting = {
        .tiers = {tiers_at(tiers_slow), tiers_at(tiers_slower)}, .count = 2};
    run(&setting, 3, 3);
    assert_int_equal(prune(tiers_slow, 2, false), 1);
    test_dir_drop(tiers_slow);
    /* `slower` has them all; but `slow` wants them, too. */
    assert_int_equal(prune(tiers_fast, 1, false), 0);
    assert_int_equal(kept, 1u << 1 | 1u << 2);
    test_dir_drop(tiers_slower);
    assert_int_equal(prune(tiers_fast, 1, false), 0);
    /* The next run has other tiers. */
    setting = (tiers_setting_t){
        .tiers = {tiers_at(tiers_slower)}, .count = 1, .run_id = "other"};
    lull_ckpt_t *ckpt;
    tiers_open(&setting, &ckpt);
    tiers_close(&setting, &ckpt);
    assert_int_equal(prune(tiers_fast, 1, false), 2);
}

/* What is mounted anew while a run is there knows what is behind it, too. */
static void a_tier_of_a_new_disk_knows_the_next(void **state) {
    (void)state;
    tiers_setting_t setting = {
        .tiers = {tiers_at(tiers_slow), tiers_at(tiers_slower)}, .count = 2};
    lull_ckpt_t *ckpt;
    tiers_open(&setting, &ckpt);
    tiers_lose_slow(ckpt);
    assert_int_equal(mkdir(tiers_slow, 0777), 0);
    assert_ok(lull_ckpt_wait_drained(ckpt, LULL_FOREVER));
    tiers_close(&setting, &ckpt);
    assert_true(tiers_has(tiers_slow, 1) && tiers_has(tiers_slow, 2));
    test_dir_drop(tiers_slower); /* has nothing by now */
    assert_int_equal(prune(tiers_slow, 1, false), 0);
    assert_int_equal(kept, 1u << 1);
    assert_non_null(strstr(why, tiers_slower));
}

/* Nothing would come of waiting. */
static void what_can_never_be_drained_may_go(void **state) {
    (void)state;
    tiers_setting_t setting = {.tiers = {tiers_at(tiers_slow)}, .count = 1};
    tiers_setting_t plain = {.run_id = "plain"};
    char into[700];
    run(&plain, 0, 2);
    snprintf(into, sizeof into, "mv '%s' '%s'", tiers_fast, tiers_slow);
    assert_int_equal(system(into), 0);
    run(&plain, 0, 2); /* the same numbers, another save */
    lull_ckpt_t *ckpt;
    tiers_open(&setting, &ckpt);
    test_tiers_save(&ckpt, 1, 3, 3);
    tiers_close(&setting, &ckpt);
    assert_int_equal(prune(tiers_fast, 1, false), 2);
    assert_int_equal(test_tiers_all_whole(tiers_slow), 3);
}

static void a_reader_is_named_as_a_reason(void **state) {
    (void)state;
    tiers_setting_t plain = {0};
    lull_ckpt_info_t *info;
    run(&plain, 0, 2);
    assert_ok(
        lull_ckpt_info_open(tiers_fast, (lull_ckpt_id_t){1, 1, 0}, &info));
    assert_int_equal(prune(tiers_fast, 1, false), 0);
    assert_int_equal(kept, 1u << 1);
    lull_ckpt_info_destroy(info);
    assert_int_equal(prune(tiers_fast, 1, false), 1);
}

static void bad_options_and_records_are_named(void **state) {
    (void)state;
    tiers_setting_t setting = {.tiers = {tiers_at(tiers_slow)}, .count = 1};
    lull_ckpt_prune_options_t options = LULL_CKPT_PRUNE_OPTIONS_INIT;
    char path[400];
    run(&setting, 2, 2);
    assert_fails(lull_ckpt_prune(NULL, &options, NULL), LULL_ERR_INVALID,
                 "dir");
    assert_fails(lull_ckpt_prune(tiers_fast, &options, NULL), LULL_ERR_INVALID,
                 "keep_last");
    assert_fails(lull_ckpt_prune(tiers_fast, NULL, NULL), LULL_ERR_INVALID,
                 "LULL_CKPT_PRUNE_OPTIONS_INIT");
    options.keep_last = 1;
    snprintf(path, sizeof path, "%s/.lull/behind-1", tiers_fast);
    test_spit(path, "lull-note 1\n", 12);
    assert_fails(lull_ckpt_prune(tiers_fast, &options, NULL), LULL_ERR_CORRUPT,
                 "behind-1");
    assert_int_equal(test_tiers_all_whole(tiers_fast), 2);
    options.undrained = true;
    assert_ok(lull_ckpt_prune(tiers_fast, &options, NULL));
    assert_int_equal(test_tiers_all_whole(tiers_fast), 1);
}

/* A path that does not fit a record is refused before anything is saved. */
static void a_path_too_long_is_refused(void **state) {
    (void)state;
    char path[1300], *at = path;
    at += sprintf(at, "%s", tiers_base);
    while (at - path < 1100)
        at += sprintf(at, "/%0200d", 0);
    tiers_setting_t setting = {.tiers = {tiers_at(path)}, .count = 1};
    lull_ckpt_options_t options = tiers_options(&setting, 0);
    lull_ckpt_t *ckpt;
    assert_fails(lull_ckpt_open(&options, &ckpt), LULL_ERR_INVALID, "1023");
}

int main(void) {
    ckpt_room_in_memory();
#define TEST(name) \
    cmocka_unit_test_setup_teardown(name, tiers_room_make, tiers_room_drop)
    const struct CMUnitTest tests[] = {
        TEST(what_is_not_drained_stays),
        TEST(what_no_tier_wants_may_go),
        TEST(a_tier_that_is_gone_has_nothing),
        TEST(a_tier_of_a_new_disk_knows_the_next),
        TEST(what_can_never_be_drained_may_go),
        TEST(a_reader_is_named_as_a_reason),
        TEST(bad_options_and_records_are_named),
        TEST(a_path_too_long_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
