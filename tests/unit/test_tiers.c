/* Tiers: drained in the background, each kept by its own rules; tiers that
 * fail. Others: test_tiers_found.c, test_tiers_merged.c, test_tiers_faults.c.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ckpt.h"
#include "test.h"
#include "tiers.h"
#include "tiers_room.h"

static void same_bytes(const char *a, const char *b) {
    char command[900];
    snprintf(command, sizeof command, "diff -r '%s' '%s'", a, b);
    assert_int_equal(system(command), 0);
}

static void drained_to_every_tier(void **state) {
    (void)state;
    tiers_setting_t setting = {
        .tiers = {tiers_at(tiers_slow), tiers_at(tiers_slower)},
        .count = 2,
        .world = 2};
    lull_ckpt_t *ranks[2];
    tiers_open(&setting, ranks);
    for (uint64_t i = 1; i <= 3; i++)
        test_tiers_save(ranks, 2, 10 * i, i);
    assert_ok(lull_ckpt_wait_drained(ranks[0], LULL_FOREVER));
    assert_ok(lull_ckpt_wait_drained(ranks[1], 0));
    lull_ckpt_stats_t stats = {.size = sizeof stats};
    assert_ok(lull_ckpt_stats(ranks[0], &stats));
    assert_int_equal(stats.drained, 6);
    assert_int_equal(stats.drain_pending, 0);
    assert_int_equal(stats.drain_failed, 0);
    assert_true(stats.drain_bytes > 6 * 280000 && stats.drain_s > 0);
    tiers_close(&setting, ranks);
    assert_int_equal(stats.buffer_bytes, 1 << 20);
    const char *dirs[] = {tiers_fast, tiers_slow, tiers_slower};
    for (int t = 0; t < 3; t++) {
        size_t n;
        char path[400];
        assert_int_equal(test_tiers_all_whole(dirs[t]), 3);
        assert_int_equal(test_tiers_newest(dirs[t]), 3);
        assert_int_equal(test_count(dirs[t], "."), 1);
        snprintf(path, sizeof path, "%s/latest", dirs[t]);
        char *latest = test_slurp(path, &n);
        assert_string_equal(latest, "step-00000030\n");
        free(latest);
    }
    char a[400], b[400];
    snprintf(a, sizeof a, "%s/step-00000020", tiers_fast);
    snprintf(b, sizeof b, "%s/step-00000020", tiers_slower);
    same_bytes(a, b);
}

/* A look, right after the commit, does not take the drain for done. */
static void a_look_at_drains_knows_of_the_last_commit(void **state) {
    (void)state;
    tiers_setting_t setting = {
        .tiers = {tiers_at(tiers_slow)}, .count = 1, .keep_last = 1};
    lull_ckpt_t *ckpt;
    tiers_open(&setting, &ckpt);
    for (uint64_t i = 1; i <= 30; i++) {
        test_tiers_save(&ckpt, 1, i, i);
        lull_status_t status = lull_ckpt_wait_drained(ckpt, 0);
        if (status == LULL_OK)
            assert_true(tiers_has(tiers_slow, i));
        else
            assert_int_equal(status, LULL_ERR_TIMEOUT);
        if (i % 3 == 0)
            assert_ok(lull_ckpt_wait_drained(ckpt, LULL_FOREVER));
    }
    tiers_close(&setting, &ckpt);
}

static void each_tier_keeps_its_own(void **state) {
    (void)state;
    tiers_setting_t setting = {
        .tiers = {tiers_at(tiers_slow), tiers_at(tiers_slower)},
        .count = 2,
        .keep_last = 1};
    setting.tiers[0].keep_last = 2;
    setting.tiers[1].keep_last = 1;
    setting.tiers[1].keep_every = 20;
    lull_ckpt_t *ckpt;
    tiers_open(&setting, &ckpt);
    for (uint64_t i = 1; i <= 5; i++) {
        test_tiers_save(&ckpt, 1, 10 * i, i);
        assert_ok(lull_ckpt_wait_drained(ckpt, LULL_FOREVER));
    }
    tiers_close(&setting, &ckpt);
    for (uint64_t step = 10; step <= 50; step += 10) {
        assert_int_equal(tiers_has(tiers_fast, step), step == 50);
        assert_int_equal(tiers_has(tiers_slow, step), step >= 40);
        assert_int_equal(tiers_has(tiers_slower, step),
                         step % 20 == 0 || step == 50);
    }
    test_tiers_all_whole(tiers_slower);
}

static void a_full_tier_stops_nothing_and_loses_nothing(void **state) {
    (void)state;
    tiers_setting_t setting = {
        .tiers = {tiers_at(tiers_slow)}, .count = 1, .keep_last = 1};
    lull_ckpt_t *ckpt;
    tiers_refuse_slow(false);
    tiers_open(&setting, &ckpt);
    tiers_refuse_slow(true);
    for (uint64_t i = 1; i <= 4; i++)
        test_tiers_save(&ckpt, 1, i, i);
    assert_fails(lull_ckpt_wait_drained(ckpt, LULL_FOREVER), LULL_ERR_NO_SPACE,
                 "not drained to");
    /* None is deleted before it is drained. */
    for (uint64_t i = 1; i <= 4; i++)
        assert_true(tiers_has(tiers_fast, i));
    lull_ckpt_stats_t stats = {.size = sizeof stats};
    assert_ok(lull_ckpt_stats(ckpt, &stats));
    assert_int_equal(stats.drain_pending, 4);
    assert_true(stats.drain_failed > 0);
    assert_int_equal(stats.drained, 0);
    tiers_refuse_slow(false);
    test_tiers_save(&ckpt, 1, 5, 5);
    assert_ok(lull_ckpt_wait_drained(ckpt, LULL_FOREVER));
    for (uint64_t i = 1; i <= 5; i++) {
        assert_int_equal(tiers_has(tiers_fast, i), i == 5);
        assert_true(tiers_has(tiers_slow, i));
    }
    tiers_close(&setting, &ckpt);
    assert_int_equal(test_tiers_all_whole(tiers_slow), 5);
}

static void close_tells_and_the_next_open_takes_up(void **state) {
    (void)state;
    tiers_setting_t setting = {.tiers = {tiers_at(tiers_slow)}, .count = 1};
    lull_ckpt_t *ckpt;
    tiers_refuse_slow(false);
    tiers_open(&setting, &ckpt);
    tiers_refuse_slow(true);
    test_tiers_save(&ckpt, 1, 1, 1);
    assert_fails(lull_ckpt_close(ckpt), LULL_ERR_NO_SPACE, "step 1 is in");
    lull_ckpt_destroy(ckpt);
    assert_int_equal(test_tiers_newest(tiers_fast), 1);
    assert_int_equal(test_tiers_newest(tiers_slow), 0);
    tiers_refuse_slow(false);
    tiers_open(&setting, &ckpt);
    assert_ok(lull_ckpt_wait_drained(ckpt, LULL_FOREVER));
    tiers_close(&setting, &ckpt);
    assert_int_equal(test_tiers_newest(tiers_slow), 1);
}

static void destroy_cancels_and_the_next_open_takes_up(void **state) {
    (void)state;
    tiers_setting_t setting = {.tiers = {tiers_at(tiers_slow)}, .count = 1};
    lull_ckpt_t *ckpt;
    lull_ckpt_options_t options = tiers_options(&setting, 0);
    options.write_cap = 400000; /* a drain takes a second */
    assert_ok(lull_ckpt_open(&options, &ckpt));
    test_tiers_save(&ckpt, 1, 1, 1);
    lull_ckpt_destroy(ckpt);
    assert_int_equal(test_tiers_newest(tiers_slow), 0);
    assert_int_equal(test_count(tiers_slow, ".step"), 0);
    tiers_open(&setting, &ckpt);
    tiers_close(&setting, &ckpt);
    assert_int_equal(test_tiers_newest(tiers_slow), 1);
}

static void a_tier_that_vanished_is_found_again(void **state) {
    (void)state;
    tiers_setting_t setting = {.tiers = {tiers_at(tiers_slow)}, .count = 1};
    lull_ckpt_t *ckpt;
    tiers_open(&setting, &ckpt);
    tiers_lose_slow(ckpt);
    assert_fails(lull_ckpt_wait_drained(ckpt, LULL_FOREVER), LULL_ERR_NOT_FOUND,
                 "the tier is gone");
    assert_false(
        test_has(tiers_base, "slow")); /* nothing is made in its place */
    assert_int_equal(mkdir(tiers_slow, 0777), 0);
    test_tiers_save(&ckpt, 1, 3, 3);
    assert_ok(lull_ckpt_wait_drained(ckpt, LULL_FOREVER));
    tiers_close(&setting, &ckpt);
    assert_int_equal(test_tiers_all_whole(tiers_slow), 3);
}

/* slower -> slow: told from the first directory by what it is, taken up again
 * when it failed, and followed where it leads by then. */
static void a_tier_may_be_a_link(void **state) {
    (void)state;
    tiers_setting_t setting = {
        .tiers = {tiers_at(tiers_slow), tiers_at(tiers_slower)}, .count = 2};
    lull_ckpt_t *ckpt;
    char other[400];
    snprintf(other, sizeof other, "%s/other", tiers_base);
    assert_int_equal(mkdir(tiers_slow, 0777) | mkdir(other, 0777), 0);
    assert_int_equal(symlink(tiers_slow, tiers_slower), 0);
    lull_ckpt_options_t options = tiers_options(&setting, 0);
    assert_fails(lull_ckpt_open(&options, &ckpt), LULL_ERR_INVALID,
                 "the same directory");
    setting = (tiers_setting_t){.tiers = {tiers_at(tiers_slower)}, .count = 1};
    tiers_refuse_slow(false);
    tiers_open(&setting, &ckpt);
    tiers_refuse_slow(true);
    test_tiers_save(&ckpt, 1, 1, 1);
    assert_fails(lull_ckpt_wait_drained(ckpt, LULL_FOREVER), LULL_ERR_NO_SPACE,
                 "not drained to");
    tiers_refuse_slow(false);
    assert_ok(lull_ckpt_wait_drained(ckpt, LULL_FOREVER));
    assert_true(tiers_has(tiers_slow, 1));
    tiers_refuse_slow(true);
    test_tiers_save(&ckpt, 1, 2, 2);
    assert_fails(lull_ckpt_wait_drained(ckpt, LULL_FOREVER), LULL_ERR_NO_SPACE,
                 "not drained to");
    assert_int_equal(unlink(tiers_slower) | symlink(other, tiers_slower), 0);
    assert_ok(lull_ckpt_wait_drained(ckpt, LULL_FOREVER));
    assert_int_equal(test_tiers_all_whole(other), 2);
    tiers_close(&setting, &ckpt);
}

static void damage_is_not_carried_over(void **state) {
    (void)state;
    tiers_setting_t setting = {.count = 0};
    lull_ckpt_t *ckpt;
    for (uint32_t merge = 0; merge < 2; merge++) {
        setting = (tiers_setting_t){.world = 2, .run_id = merge ? "a" : "b"};
        lull_ckpt_t *ranks[2];
        tiers_open(&setting, ranks);
        test_tiers_save(ranks, 2, 1, 1);
        test_tiers_save(ranks, 2, 2, 2);
        tiers_close(&setting, ranks);
        tiers_flip(tiers_fast, 2, "rank-00001.safetensors", 50000);
        setting =
            (tiers_setting_t){.tiers = {tiers_at(tiers_slow)}, .count = 1};
        setting.tiers[0].files = merge;
        setting.keep_last = 1;
        tiers_open(&setting, &ckpt);
        assert_fails(lull_ckpt_wait_drained(ckpt, LULL_FOREVER),
                     LULL_ERR_CORRUPT, "rank-00001.safetensors");
        /* Told once; the other one is there. */
        assert_ok(lull_ckpt_wait_drained(ckpt, LULL_FOREVER));
        tiers_close(&setting, &ckpt);
        assert_false(tiers_has(tiers_slow, 2));
        assert_int_equal(test_tiers_all_whole(tiers_slow), 1);
        assert_int_equal(test_count(tiers_slow, "."), 1);
        tiers_room_empty();
    }
}

/* What another run left under the same step is newer: it stays. */
static void nothing_newer_is_replaced(void **state) {
    (void)state;
    tiers_setting_t plain = {.run_id = "one"};
    lull_ckpt_t *ckpt;
    char into[700];
    tiers_open(&plain, &ckpt);
    test_tiers_save(&ckpt, 1, 7, 1);
    test_tiers_save(&ckpt, 1, 7, 2);
    tiers_close(&plain, &ckpt);
    snprintf(into, sizeof into, "mv '%s' '%s'", tiers_fast, tiers_slow);
    assert_int_equal(system(into), 0);
    plain.run_id = "two";
    tiers_open(&plain, &ckpt);
    test_tiers_save(&ckpt, 1, 7, 3);
    tiers_close(&plain, &ckpt);
    tiers_setting_t setting = {
        .tiers = {tiers_at(tiers_slow)}, .count = 1, .run_id = "three"};
    tiers_open(&setting, &ckpt);
    assert_ok(lull_ckpt_wait_drained(ckpt, LULL_FOREVER));
    assert_int_equal(test_tiers_newest(tiers_slow), 2);
    assert_int_equal(test_tiers_newest(tiers_fast), 3);
    /* Saved again it is the newest of all. */
    test_tiers_save(&ckpt, 1, 7, 4);
    tiers_close(&setting, &ckpt);
    assert_int_equal(test_tiers_newest(tiers_slow), 4);
}

/* Somebody gave a checkpoint the name of another step. */
static void a_misnamed_one_is_left_alone(void **state) {
    (void)state;
    tiers_setting_t plain = {0},
                    setting = {.tiers = {tiers_at(tiers_slow)}, .count = 1};
    lull_ckpt_t *ckpt;
    char from[400], to[400];
    tiers_open(&plain, &ckpt);
    test_tiers_save(&ckpt, 1, 1, 1);
    test_tiers_save(&ckpt, 1, 2, 2);
    tiers_close(&plain, &ckpt);
    snprintf(from, sizeof from, "%s/step-00000002", tiers_fast);
    snprintf(to, sizeof to, "%s/step-00000007", tiers_fast);
    assert_int_equal(rename(from, to), 0);
    tiers_open(&setting, &ckpt);
    assert_ok(lull_ckpt_wait_drained(ckpt, 200000));
    test_tiers_save(&ckpt, 1, 3, 3);
    tiers_close(&setting, &ckpt);
    assert_true(tiers_has(tiers_slow, 1) && tiers_has(tiers_slow, 3) &&
                !tiers_has(tiers_slow, 2) && tiers_has(tiers_fast, 7));
    assert_int_equal(test_tiers_newest(tiers_slow), 3);
}

static void bad_tiers_are_refused(void **state) {
    (void)state;
    lull_ckpt_t *ckpt;
    tiers_setting_t setting = {
        .tiers = {tiers_at(tiers_slow), tiers_at(tiers_slower)}, .count = 2};
    lull_ckpt_options_t options = tiers_options(&setting, 0);
    char dots[400];
    snprintf(dots, sizeof dots, "%s/../fast", tiers_slow);
    assert_int_equal(mkdir(tiers_fast, 0777), 0);
    assert_int_equal(mkdir(tiers_slow, 0777), 0);
    setting.tiers[1].dir = dots;
    assert_fails(lull_ckpt_open(&options, &ckpt), LULL_ERR_INVALID,
                 "the same directory");
    setting.tiers[1].dir = "";
    assert_fails(lull_ckpt_open(&options, &ckpt), LULL_ERR_INVALID, "tier");
    setting.tiers[1] = tiers_at(tiers_slower);
    setting.tiers[0].size = 3;
    assert_fails(lull_ckpt_open(&options, &ckpt), LULL_ERR_INVALID,
                 "LULL_CKPT_TIER_INIT");
    setting.tiers[0].size = sizeof(lull_ckpt_tier_t);
    options.tier_count = 8;
    assert_fails(lull_ckpt_open(&options, &ckpt), LULL_ERR_INVALID, "at most");
    /* Another run holds a tier. */
    options = test_options(tiers_slow, 0, 1);
    lull_ckpt_t *other;
    assert_ok(lull_ckpt_open(&options, &other));
    options = tiers_options(&setting, 0);
    assert_fails(lull_ckpt_open(&options, &ckpt), LULL_ERR_BUSY, tiers_slow);
    lull_ckpt_destroy(other);
}

static void a_tier_that_a_rank_does_not_see_is_named(void **state) {
    (void)state;
    lull_ckpt_t *ranks[2];
    tiers_setting_t setting = {
        .tiers = {tiers_at(tiers_slow)}, .count = 1, .world = 2};
    lull_ckpt_options_t options = tiers_options(&setting, 0);
    assert_ok(lull_ckpt_open(&options, &ranks[0]));
    options = tiers_options(&setting, 1);
    options.commit_timeout_s = 0.2;
    setting.tiers[0].dir = tiers_slower;
    assert_fails(lull_ckpt_open(&options, &ranks[1]), LULL_ERR_NOT_FOUND,
                 tiers_slower);
    setting.tiers[0].dir = tiers_slow;
    assert_ok(lull_ckpt_open(&options, &ranks[1]));
    test_tiers_save(ranks, 2, 1, 1);
    tiers_close(&setting, ranks);
}

int main(void) {
    /* Many drains: a disk would only add time. */
    ckpt_room_in_memory();
#define TEST(name) \
    cmocka_unit_test_setup_teardown(name, tiers_room_make, tiers_room_drop)
    const struct CMUnitTest tests[] = {
        TEST(drained_to_every_tier),
        TEST(a_look_at_drains_knows_of_the_last_commit),
        TEST(each_tier_keeps_its_own),
        TEST(a_full_tier_stops_nothing_and_loses_nothing),
        TEST(close_tells_and_the_next_open_takes_up),
        TEST(destroy_cancels_and_the_next_open_takes_up),
        TEST(a_tier_that_vanished_is_found_again),
        TEST(a_tier_may_be_a_link),
        TEST(damage_is_not_carried_over),
        TEST(nothing_newer_is_replaced),
        TEST(a_misnamed_one_is_left_alone),
        TEST(bad_tiers_are_refused),
        TEST(a_tier_that_a_rank_does_not_see_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
