/* Places that drain, and what may fail: a place that is full, silent, gone or
 * damaged, rank 0 that is, what an earlier run left, any storage call, any
 * allocation. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "allocations.h"
#include "ckpt.h"
#include "clock.h"
#include "faultio.h"
#include "places_room.h"
#include "test.h"
#include "tiers.h"
#include "tiers_room.h"

static places_setting_t setting;

static int set_up(void **state) {
    tiers_room_make(state);
    agree_room_init(&places_line);
    setting = (places_setting_t)PLACES_SETTING_INIT(tiers_base);
    setting.tiers[0] = tiers_at("slow");
    setting.count = 1;
    setting.timeout_s = TEST_CLOCK_TIMEOUT;
    test_tiers_rows = 2000;
    return 0;
}

static int tear_down(void **state) {
    agree_room_fini(&places_line);
    return tiers_room_drop(state);
}

/* ---- names that cannot be made in the slow tier ---- */

static const char *refused; /* how they begin; atomic */
static int refused_with;

static int verdict(int dir, const char *name) {
    char link[64], at[400] = "";
    const char *begin = __atomic_load_n(&refused, __ATOMIC_SEQ_CST);
    const char *last = strrchr(name, '/');
    if (begin == NULL ||
        strncmp(last ? last + 1 : name, begin, strlen(begin)) != 0)
        return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", dir);
    return readlink(link, at, sizeof at - 1) > 0 &&
                   strncmp(at, tiers_slow, strlen(tiers_slow)) == 0
               ? refused_with
               : 0;
}

static int refuse_open(const lull__io_t *io, int dir, const char *path,
                       int flags, unsigned mode) {
    int error = flags & O_CREAT ? verdict(dir, path) : 0;
    (void)io;
    return error != 0 ? -error
                      : lull__io_system.ops->open(&lull__io_system, dir, path,
                                                  flags, mode);
}

static int refuse_mkdir(const lull__io_t *io, int dir, const char *path,
                        unsigned mode) {
    int error = verdict(dir, path);
    (void)io;
    return error != 0
               ? -error
               : lull__io_system.ops->mkdir(&lull__io_system, dir, path, mode);
}

/* NULL: none any more. */
static void refuse(const char *begin, int error) {
    static lull__io_ops_t ops;
    static const lull__io_t io = {.ops = &ops};
    if (ops.open == NULL) {
        ops = *lull__io_system.ops;
        ops.open = refuse_open;
        ops.mkdir = refuse_mkdir;
    }
    refused_with = error;
    __atomic_store_n(&refused, begin, __ATOMIC_SEQ_CST);
    lull__io_set_default(&io);
}

/* A run whose first save is of this step, while names that begin so are
 * refused. */
static void save_refusing(lull_ckpt_t **ranks, uint64_t step, const char *begin,
                          int error) {
    refuse(NULL, 0);
    places_open(&setting, ranks);
    refuse(begin, error);
    test_tiers_save(ranks, PLACES_WORLD, step, 1);
}

/* ---- places that fail ---- */

static void close_quietly(lull_ckpt_t **ranks) {
    for (uint32_t r = 0; r < PLACES_WORLD; r++) {
        (void)lull_ckpt_close(ranks[r]);
        lull_ckpt_destroy(ranks[r]);
    }
}

static const char *slow_dir(void) {
    return places_tier(&setting, 0);
}

/* Both places have all of steps 1 to n. */
static void assert_kept(uint64_t n) {
    for (uint64_t step = 1; step <= n; step++)
        for (uint32_t r = 0; r < PLACES_WORLD; r += 2)
            assert_true(tiers_has(places_dir(&setting, r), step));
}

static void a_silent_place_fails_the_drain(void **state) {
    (void)state;
    lull_ckpt_t *ranks[PLACES_WORLD];
    setting.keep_last = 1;
    save_refusing(ranks, 1, "tmp-part-run-1", EIO);
    test_tiers_save(ranks, PLACES_WORLD, 2, 2);
    test_clock_speed(TEST_CLOCK_HURRY);
    assert_fails(lull_ckpt_wait_drained(ranks[0], LULL_FOREVER),
                 LULL_ERR_TIMEOUT, "rank 2 in ");
    test_clock_speed(1);
    assert_non_null(strstr(lull_last_error(), "node1 copied nothing"));
    assert_kept(2);
    assert_int_equal(test_count(slow_dir(), "step-"), 0);
    refuse(NULL, 0);
    assert_ok(lull_ckpt_wait_drained(ranks[0], LULL_FOREVER));
    places_close(&setting, ranks);
    assert_int_equal(test_tiers_all_whole(slow_dir()), 2);
    assert_int_equal(test_count(places_dir(&setting, 3), "step-"), 1);
    assert_int_equal(test_count(slow_dir(), "."), 1);
}

static void full_for(const char *begin, const char *said) {
    lull_ckpt_t *ranks[PLACES_WORLD];
    setting.keep_last = 1;
    refuse(NULL, 0);
    places_open(&setting, ranks);
    refuse(begin, ENOSPC);
    test_tiers_save(ranks, PLACES_WORLD, 1, 1);
    test_tiers_save(ranks, PLACES_WORLD, 2, 2);
    assert_fails(lull_ckpt_wait_drained(ranks[0], LULL_FOREVER),
                 LULL_ERR_NO_SPACE, said);
    assert_non_null(strstr(lull_last_error(), "and not drained to"));
    assert_kept(2);
    assert_int_equal(test_count(slow_dir(), "step-"), 0);
    refuse(NULL, 0);
    test_tiers_save(ranks, PLACES_WORLD, 3, 3);
    assert_ok(lull_ckpt_wait_drained(ranks[0], LULL_FOREVER));
    places_close(&setting, ranks);
    assert_int_equal(test_tiers_all_whole(slow_dir()), 3);
    for (uint32_t r = 0; r < PLACES_WORLD; r += 2)
        assert_int_equal(test_count(places_dir(&setting, r), "step-"), 1);
    assert_int_equal(test_count(slow_dir(), "."), 1);
    tiers_room_empty();
}

/* For rank 0 itself, for another place, for notes. */
static void a_full_tier_loses_nothing(void **state) {
    (void)state;
    full_for(".step-", "slow");
    full_for("rank-00000", "slow");
    full_for("rank-00003", "node1: ");
    full_for("tmp-drain", "slow");
    full_for("tmp-manifest", "slow");
}

/* Its part is lost, or damaged: then nothing comes of it, and the others go on.
 */
static void lose(bool damage) {
    lull_ckpt_t *ranks[PLACES_WORLD];
    setting.keep_last = 1;
    save_refusing(ranks, 1, ".step-", ENOSPC);
    test_tiers_save(ranks, PLACES_WORLD, 2, 2);
    char path[500];
    snprintf(path, sizeof path, "%s/step-00000001", places_dir(&setting, 2));
    if (damage)
        tiers_flip(places_dir(&setting, 2), 1, "rank-00002.safetensors", 90);
    else
        test_dir_drop(path);
    refuse(NULL, 0);
    lull_status_t status = lull_ckpt_wait_drained(ranks[0], LULL_FOREVER);
    if (damage)
        assert_fails(status, LULL_ERR_CORRUPT, "rank-00002.safetensors");
    else
        assert_ok(status);
    test_tiers_save(ranks, PLACES_WORLD, 3, 3);
    places_close(&setting, ranks);
    assert_false(tiers_has(slow_dir(), 1));
    assert_int_equal(test_tiers_all_whole(slow_dir()), 2);
    for (uint32_t r = 0; r < PLACES_WORLD; r += 2)
        assert_int_equal(test_count(places_dir(&setting, r), "step-"), 1);
    tiers_room_empty();
}

static void a_lost_part_is_not_waited_for(void **state) {
    (void)state;
    lose(false);
    lose(true);
}

/* Who leads it was destroyed: all learn at once, the next run drains. */
static void a_place_that_is_gone_says_so(void **state) {
    (void)state;
    lull_ckpt_t *ranks[PLACES_WORLD];
    save_refusing(ranks, 1, ".step-", ENOSPC);
    lull_ckpt_destroy(ranks[2]);
    ranks[2] = NULL;
    refuse(NULL, 0);
    assert_fails(lull_ckpt_wait_drained(ranks[0], LULL_FOREVER), LULL_ERR_PEER,
                 "rank 2 has closed");
    assert_fails(lull_ckpt_close(ranks[0]), LULL_ERR_PEER, "step 1 is in");
    for (uint32_t r = 0; r < PLACES_WORLD; r++)
        lull_ckpt_destroy(ranks[r]);
    assert_int_equal(test_count(slow_dir(), "step-"), 0);
    setting.run_id = "next";
    places_open(&setting, ranks);
    places_close(&setting, ranks);
    assert_int_equal(test_tiers_newest(slow_dir()), 1);
}

/* Rank 0 gives no sign: who closes says what is not drained, in time. */
static void a_silent_rank_0_holds_nobody(void **state) {
    (void)state;
    lull_ckpt_t *ranks[PLACES_WORLD];
    save_refusing(ranks, 7, "tmp-drain", EIO);
    test_clock_speed(TEST_CLOCK_HURRY);
    assert_fails(lull_ckpt_close(ranks[2]), LULL_ERR_TIMEOUT, "step 7 is in ");
    test_clock_speed(1);
    assert_non_null(strstr(lull_last_error(), "all): rank 0 gave no sign"));
    assert_ok(lull_ckpt_close(ranks[1]));
    assert_ok(lull_ckpt_close(ranks[3]));
    refuse(NULL, 0);
    assert_fails(lull_ckpt_close(ranks[0]), LULL_ERR_PEER, "step 7 is in ");
    for (uint32_t r = 0; r < PLACES_WORLD; r++)
        lull_ckpt_destroy(ranks[r]);
}

/* Rank 0 is destroyed while places still wait for it: they end at once. */
static void rank_0_that_is_destroyed_lets_all_go(void **state) {
    (void)state;
    lull_ckpt_t *ranks[PLACES_WORLD];
    save_refusing(ranks, 1, ".step-", ENOSPC);
    lull_ckpt_destroy(ranks[0]);
    ranks[0] = NULL;
    for (uint32_t r = 1; r < PLACES_WORLD; r++) {
        assert_ok(lull_ckpt_close(ranks[r]));
        lull_ckpt_destroy(ranks[r]);
    }
    assert_kept(1);
}

/* The tier is gone: who closes does not wait for rank 0's sign there, which it
 * cannot give. */
static void a_tier_that_is_gone_holds_nobody(void **state) {
    (void)state;
    lull_ckpt_t *ranks[PLACES_WORLD];
    save_refusing(ranks, 1, ".step-", ENOSPC);
    test_dir_drop(slow_dir());
    assert_fails(lull_ckpt_close(ranks[0]), LULL_ERR_NOT_FOUND,
                 "the tier is gone");
    test_clock_speed(100); /* ten seconds of a thousand */
    assert_fails(lull_ckpt_close(ranks[2]), LULL_ERR_TIMEOUT, "step 1 is in ");
    test_clock_speed(1);
    assert_non_null(strstr(lull_last_error(), "slow"));
    assert_null(strstr(lull_last_error(), "no sign"));
    close_quietly(ranks);
    assert_kept(1);
}

/* Notes and a half drain of a run that crashed are no orders, and go. */
static void what_a_crash_left_goes(void **state) {
    (void)state;
    lull_ckpt_t *ranks[PLACES_WORLD];
    char path[500];
    refuse(NULL, 0);
    places_open(&setting, ranks);
    test_tiers_save(ranks, PLACES_WORLD, 1, 1);
    places_close(&setting, ranks);
    snprintf(path, sizeof path, "mkdir -p '%s/.step-00000002.partial-old-3'",
             slow_dir());
    assert_int_equal(system(path), 0);
    static const char *const notes[] = {"drain-old-1", "part-old-1",
                                        "tmp-part-old-0"};
    for (size_t i = 0; i < 3; i++) {
        snprintf(path, sizeof path, "%s/.lull/%s", slow_dir(), notes[i]);
        test_spit(path, "lull-note 1\n", 12);
    }
    setting.run_id = "next";
    places_open(&setting, ranks);
    assert_int_equal(test_count(slow_dir(), ".step-"), 0);
    for (size_t i = 0; i < 3; i++) {
        snprintf(path, sizeof path, ".lull/%s", notes[i]);
        assert_false(test_has(slow_dir(), path));
    }
    close_quietly(ranks);
}

/* ---- any call, any allocation ---- */

static faultio_t fault;

#define NO_MEMORY (-1)

/* What is not said because of it is waited for in vain. */
static void hurry(faultio_t *at, fault_op_t op) {
    (void)at, (void)op;
    test_clock_hurry();
}

/* Step 1 is in two places and not drained; the n-th call of the run that
 * drains it fails. True: there was one. */
static bool one_fails(uint64_t n, int error) {
    lull_ckpt_t *ranks[PLACES_WORLD];
    places_opened_t opened[PLACES_WORLD];
    setting.world = 2;
    setting.count = 0;
    setting.run_id = "run";
    faultio_arm(&fault, 0, 0);
    places_open(&setting, ranks);
    test_tiers_save(ranks, 2, 1, 1);
    places_close(&setting, ranks);
    setting.count = 1;
    setting.run_id = "drains";
    test_clock_may_hurry(true);
    if (error == NO_MEMORY) {
        test_clock_speed(TEST_CLOCK_HURRY / 2);
        allocations_arm(n);
    } else {
        faultio_arm(&fault, n, error);
    }
    places_try(&setting, ranks, opened);
    bool open = opened[0].status == LULL_OK && opened[1].status == LULL_OK;
    if (open)
        (void)lull_ckpt_wait_drained(ranks[0], LULL_FOREVER);
    for (uint32_t r = 0; r < 2; r++) {
        if (open)
            (void)lull_ckpt_close(ranks[r]);
        lull_ckpt_destroy(ranks[r]);
    }
    bool hit =
        error == NO_MEMORY ? allocations_count() >= n : faultio_hit(&fault);
    faultio_arm(&fault, 0, 0);
    allocations_arm(0);
    test_clock_may_hurry(false);
    test_tiers_all_whole(slow_dir());
    setting.run_id = "goes-on";
    places_open(&setting, ranks);
    places_close(&setting, ranks);
    assert_int_equal(test_tiers_newest(slow_dir()), 1);
    assert_int_equal(test_count(slow_dir(), "."), 1);
    for (uint32_t r = 0; r < 2; r++) {
        assert_int_equal(test_count(places_dir(&setting, r), "."), 1);
        assert_true(tiers_has(places_dir(&setting, r), 1));
    }
    tiers_room_empty();
    return hit;
}

static void any_call_may_fail(void **state) {
    (void)state;
    static const int errors[] = {EIO, ENOSPC, EDQUOT};
    faultio_init(&fault);
    fault.hook = hurry;
    lull__io_set_default(&fault.io);
    uint64_t n = 1;
    while (one_fails(n, errors[n % 3]))
        n++;
    assert_true(n > 100);
}

static void any_allocation_may_fail(void **state) {
    (void)state;
    faultio_init(&fault);
    uint64_t n = 1;
    while (one_fails(n, NO_MEMORY))
        n++;
    assert_true(n > 100);
}

int main(void) {
    /* Many drains: a disk would only add time. */
    ckpt_room_in_memory();
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(a_silent_place_fails_the_drain),
        TEST(a_full_tier_loses_nothing),
        TEST(a_lost_part_is_not_waited_for),
        TEST(a_place_that_is_gone_says_so),
        TEST(a_silent_rank_0_holds_nobody),
        TEST(rank_0_that_is_destroyed_lets_all_go),
        TEST(a_tier_that_is_gone_holds_nobody),
        TEST(what_a_crash_left_goes),
        TEST(any_call_may_fail),
        TEST(any_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
