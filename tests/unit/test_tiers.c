/* Tiers: drained in the background, each kept by its own rules; merged files;
 * restoring over all; tiers that fail. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "allocations.h"
#include "ckpt.h"
#include "faultio.h"
#include "grid.h"
#include "support.h"
#include "test.h"
#include "tiers.h"

static char base[256], fast[300], slow[300], slower[300];

static int set_up(void **state) {
    (void)state;
    test_dir_make(base);
    test_tiers_rows = 70001;
    snprintf(fast, sizeof fast, "%s/fast", base);
    snprintf(slow, sizeof slow, "%s/slow", base);
    snprintf(slower, sizeof slower, "%s/slower", base);
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    lull__io_set_default(NULL);
    test_dir_drop(base);
    return 0;
}

static lull_ckpt_tier_t tier(const char *dir) {
    lull_ckpt_tier_t one = LULL_CKPT_TIER_INIT;
    one.dir = dir;
    return one;
}

typedef struct setting {
    lull_ckpt_tier_t tiers[2];
    size_t count;
    uint32_t world, keep_last;
    const char *codec;
    const char *run_id;
} setting_t;

static lull_ckpt_options_t options_of(const setting_t *setting, uint32_t rank) {
    uint32_t world = setting->world ? setting->world : 1;
    lull_ckpt_options_t options = test_options(fast, rank, world);
    options.tiers = setting->tiers;
    options.tier_count = setting->count;
    options.keep_last = setting->keep_last;
    options.codec = setting->codec;
    if (setting->run_id != NULL)
        options.run_id = setting->run_id;
    return options;
}

static void open_all(const setting_t *setting, lull_ckpt_t **ranks) {
    for (uint32_t r = 0; r == 0 || r < setting->world; r++) {
        lull_ckpt_options_t options = options_of(setting, r);
        assert_ok(lull_ckpt_open(&options, &ranks[r]));
    }
}

static void close_all(const setting_t *setting, lull_ckpt_t **ranks) {
    for (uint32_t r = 0; r == 0 || r < setting->world; r++) {
        assert_ok(lull_ckpt_close(ranks[r]));
        lull_ckpt_destroy(ranks[r]);
    }
}

static bool has(const char *dir, uint64_t step) {
    char name[32];
    snprintf(name, sizeof name, "step-%08d", (int)step);
    return test_has(dir, name);
}

/* Entries under a checkpoint of a directory that match a pattern. */
static unsigned files(const char *dir, uint64_t step, const char *pattern) {
    char command[900];
    snprintf(command, sizeof command, "ls '%s'/step-%08d/%s | wc -l", dir,
             (int)step, pattern);
    FILE *pipe = popen(command, "r");
    unsigned n = 0;
    assert_int_equal(fscanf(pipe, "%u", &n), 1);
    pclose(pipe);
    return n;
}

static void same_bytes(const char *a, const char *b) {
    char command[900];
    snprintf(command, sizeof command, "diff -r '%s' '%s'", a, b);
    assert_int_equal(system(command), 0);
}

static void drained_to_every_tier(void **state) {
    (void)state;
    setting_t setting = {
        .tiers = {tier(slow), tier(slower)}, .count = 2, .world = 2};
    lull_ckpt_t *ranks[2];
    open_all(&setting, ranks);
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
    close_all(&setting, ranks);
    assert_int_equal(stats.buffer_bytes, 1 << 20);
    const char *dirs[] = {fast, slow, slower};
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
    snprintf(a, sizeof a, "%s/step-00000020", fast);
    snprintf(b, sizeof b, "%s/step-00000020", slower);
    same_bytes(a, b);
}

/* A look, right after the commit, does not take the drain for done. */
static void a_look_at_drains_knows_of_the_last_commit(void **state) {
    (void)state;
    setting_t setting = {.tiers = {tier(slow)}, .count = 1, .keep_last = 1};
    lull_ckpt_t *ckpt;
    open_all(&setting, &ckpt);
    for (uint64_t i = 1; i <= 30; i++) {
        test_tiers_save(&ckpt, 1, i, i);
        lull_status_t status = lull_ckpt_wait_drained(ckpt, 0);
        if (status == LULL_OK)
            assert_true(has(slow, i));
        else
            assert_int_equal(status, LULL_ERR_TIMEOUT);
        if (i % 3 == 0)
            assert_ok(lull_ckpt_wait_drained(ckpt, LULL_FOREVER));
    }
    close_all(&setting, &ckpt);
}

static void each_tier_keeps_its_own(void **state) {
    (void)state;
    setting_t setting = {
        .tiers = {tier(slow), tier(slower)}, .count = 2, .keep_last = 1};
    setting.tiers[0].keep_last = 2;
    setting.tiers[1].keep_last = 1;
    setting.tiers[1].keep_every = 20;
    lull_ckpt_t *ckpt;
    open_all(&setting, &ckpt);
    for (uint64_t i = 1; i <= 5; i++) {
        test_tiers_save(&ckpt, 1, 10 * i, i);
        assert_ok(lull_ckpt_wait_drained(ckpt, LULL_FOREVER));
    }
    close_all(&setting, &ckpt);
    for (uint64_t step = 10; step <= 50; step += 10) {
        assert_int_equal(has(fast, step), step == 50);
        assert_int_equal(has(slow, step), step >= 40);
        assert_int_equal(has(slower, step), step % 20 == 0 || step == 50);
    }
    test_tiers_all_whole(slower);
}

/* A tier where every change fails, by the path of its directory. */
static faultio_t fault;
static lull__io_ops_t refusing_ops;
static lull__io_t refusing;
static bool refuse;

static int refuse_mkdir(const lull__io_t *io, int dir, const char *path,
                        unsigned mode) {
    char link[64], at[400] = "";
    (void)io;
    snprintf(link, sizeof link, "/proc/self/fd/%d", dir);
    if (readlink(link, at, sizeof at - 1) > 0 && strcmp(at, slow) == 0 &&
        __atomic_load_n(&refuse, __ATOMIC_RELAXED))
        return -ENOSPC;
    return lull__io_system.ops->mkdir(&lull__io_system, dir, path, mode);
}

static void refuse_slow(bool on) {
    __atomic_store_n(&refuse, on, __ATOMIC_RELAXED);
    refusing_ops = *lull__io_system.ops;
    refusing_ops.mkdir = refuse_mkdir;
    refusing.ops = &refusing_ops;
    lull__io_set_default(&refusing);
}

static void a_full_tier_stops_nothing_and_loses_nothing(void **state) {
    (void)state;
    setting_t setting = {.tiers = {tier(slow)}, .count = 1, .keep_last = 1};
    lull_ckpt_t *ckpt;
    refuse_slow(false);
    open_all(&setting, &ckpt);
    refuse_slow(true);
    for (uint64_t i = 1; i <= 4; i++)
        test_tiers_save(&ckpt, 1, i, i);
    assert_fails(lull_ckpt_wait_drained(ckpt, LULL_FOREVER), LULL_ERR_NO_SPACE,
                 "not drained to");
    /* None is deleted before it is drained. */
    for (uint64_t i = 1; i <= 4; i++)
        assert_true(has(fast, i));
    lull_ckpt_stats_t stats = {.size = sizeof stats};
    assert_ok(lull_ckpt_stats(ckpt, &stats));
    assert_int_equal(stats.drain_pending, 4);
    assert_true(stats.drain_failed > 0);
    assert_int_equal(stats.drained, 0);
    refuse_slow(false);
    test_tiers_save(&ckpt, 1, 5, 5);
    assert_ok(lull_ckpt_wait_drained(ckpt, LULL_FOREVER));
    for (uint64_t i = 1; i <= 5; i++) {
        assert_int_equal(has(fast, i), i == 5);
        assert_true(has(slow, i));
    }
    close_all(&setting, &ckpt);
    assert_int_equal(test_tiers_all_whole(slow), 5);
}

static void close_tells_and_the_next_open_takes_up(void **state) {
    (void)state;
    setting_t setting = {.tiers = {tier(slow)}, .count = 1};
    lull_ckpt_t *ckpt;
    refuse_slow(false);
    open_all(&setting, &ckpt);
    refuse_slow(true);
    test_tiers_save(&ckpt, 1, 1, 1);
    assert_fails(lull_ckpt_close(ckpt), LULL_ERR_NO_SPACE, "step 1 is in");
    lull_ckpt_destroy(ckpt);
    assert_int_equal(test_tiers_newest(fast), 1);
    assert_int_equal(test_tiers_newest(slow), 0);
    refuse_slow(false);
    open_all(&setting, &ckpt);
    assert_ok(lull_ckpt_wait_drained(ckpt, LULL_FOREVER));
    close_all(&setting, &ckpt);
    assert_int_equal(test_tiers_newest(slow), 1);
}

static void destroy_cancels_and_the_next_open_takes_up(void **state) {
    (void)state;
    setting_t setting = {.tiers = {tier(slow)}, .count = 1};
    lull_ckpt_t *ckpt;
    lull_ckpt_options_t options = options_of(&setting, 0);
    options.write_cap = 400000; /* a drain takes a second */
    assert_ok(lull_ckpt_open(&options, &ckpt));
    test_tiers_save(&ckpt, 1, 1, 1);
    lull_ckpt_destroy(ckpt);
    assert_int_equal(test_tiers_newest(slow), 0);
    assert_int_equal(test_count(slow, ".step"), 0);
    open_all(&setting, &ckpt);
    close_all(&setting, &ckpt);
    assert_int_equal(test_tiers_newest(slow), 1);
}

static void a_tier_that_vanished_is_found_again(void **state) {
    (void)state;
    setting_t setting = {.tiers = {tier(slow)}, .count = 1};
    lull_ckpt_t *ckpt;
    open_all(&setting, &ckpt);
    test_tiers_save(&ckpt, 1, 1, 1);
    assert_ok(lull_ckpt_wait_drained(ckpt, LULL_FOREVER));
    test_dir_drop(slow);
    test_tiers_save(&ckpt, 1, 2, 2);
    assert_fails(lull_ckpt_wait_drained(ckpt, LULL_FOREVER), LULL_ERR_NOT_FOUND,
                 slow);
    assert_fails(lull_ckpt_wait_drained(ckpt, LULL_FOREVER), LULL_ERR_NOT_FOUND,
                 "the tier is gone");
    assert_false(test_has(base, "slow")); /* nothing is made in its place */
    assert_int_equal(mkdir(slow, 0777), 0);
    test_tiers_save(&ckpt, 1, 3, 3);
    assert_ok(lull_ckpt_wait_drained(ckpt, LULL_FOREVER));
    close_all(&setting, &ckpt);
    assert_int_equal(test_tiers_all_whole(slow), 3);
}

/* slower -> slow: told from the first directory by what it is, taken up again
 * when it failed, and followed where it leads by then. */
static void a_tier_may_be_a_link(void **state) {
    (void)state;
    setting_t setting = {.tiers = {tier(slow), tier(slower)}, .count = 2};
    lull_ckpt_t *ckpt;
    char other[400];
    snprintf(other, sizeof other, "%s/other", base);
    assert_int_equal(mkdir(slow, 0777) | mkdir(other, 0777), 0);
    assert_int_equal(symlink(slow, slower), 0);
    lull_ckpt_options_t options = options_of(&setting, 0);
    assert_fails(lull_ckpt_open(&options, &ckpt), LULL_ERR_INVALID,
                 "the same directory");
    setting = (setting_t){.tiers = {tier(slower)}, .count = 1};
    refuse_slow(false);
    open_all(&setting, &ckpt);
    refuse_slow(true);
    test_tiers_save(&ckpt, 1, 1, 1);
    assert_fails(lull_ckpt_wait_drained(ckpt, LULL_FOREVER), LULL_ERR_NO_SPACE,
                 "not drained to");
    refuse_slow(false);
    assert_ok(lull_ckpt_wait_drained(ckpt, LULL_FOREVER));
    assert_true(has(slow, 1));
    refuse_slow(true);
    test_tiers_save(&ckpt, 1, 2, 2);
    assert_fails(lull_ckpt_wait_drained(ckpt, LULL_FOREVER), LULL_ERR_NO_SPACE,
                 "not drained to");
    assert_int_equal(unlink(slower) | symlink(other, slower), 0);
    assert_ok(lull_ckpt_wait_drained(ckpt, LULL_FOREVER));
    assert_int_equal(test_tiers_all_whole(other), 2);
    close_all(&setting, &ckpt);
}

static void resumed_from_the_slow_tier(void **state) {
    (void)state;
    setting_t setting = {.tiers = {tier(slow)}, .count = 1};
    lull_ckpt_t *ckpt;
    open_all(&setting, &ckpt);
    test_tiers_save(&ckpt, 1, 1, 1);
    test_tiers_save(&ckpt, 1, 2, 2);
    close_all(&setting, &ckpt);
    test_dir_drop(fast);
    assert_int_equal(test_tiers_newest_of(fast, slow), 2);
    setting.run_id = "second";
    open_all(&setting, &ckpt);
    /* From step 1 on: the newest all the same, whatever is where. */
    test_tiers_save(&ckpt, 1, 1, 11);
    assert_int_equal(test_tiers_newest_of(fast, slow), 11);
    close_all(&setting, &ckpt);
    assert_int_equal(test_tiers_newest(slow), 11);
    assert_int_equal(test_tiers_all_whole(slow), 2); /* 2 and the new 1 */
}

static char why[512];
static void on_skip(void *ctx, lull_ckpt_id_t id, const char *text) {
    (void)id;
    ++*(int *)ctx;
    snprintf(why, sizeof why, "%s", text);
}

static void flip(const char *dir, uint64_t step, const char *name,
                 size_t from_end) {
    char path[500];
    size_t n;
    snprintf(path, sizeof path, "%s/step-%08d/%s", dir, (int)step, name);
    char *data = test_slurp(path, &n);
    assert_non_null(data);
    data[n - from_end] ^= 0x10;
    test_spit(path, data, n);
    free(data);
}

static void a_damaged_copy_gives_way_to_another(void **state) {
    (void)state;
    setting_t setting = {.tiers = {tier(slow)}, .count = 1};
    const char *dirs[] = {fast, slow};
    lull_ckpt_t *ckpt;
    lull_ckpt_id_t id;
    lull_ckpt_info_t *info;
    size_t index;
    int skipped = 0;
    open_all(&setting, &ckpt);
    test_tiers_save(&ckpt, 1, 1, 1);
    test_tiers_save(&ckpt, 1, 2, 2);
    close_all(&setting, &ckpt);
    lull_ckpt_find_options_t find = LULL_CKPT_FIND_OPTIONS_INIT;
    find.on_skip = on_skip;
    find.ctx = &skipped;
    assert_ok(lull_ckpt_find_in(dirs, 2, &find, &id, &index));
    assert_int_equal(index, 0);
    /* A block: only a load notices, and asks for another copy. */
    flip(fast, 2, "rank-00000.safetensors", 100);
    assert_ok(lull_ckpt_info_open(fast, id, &info));
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
    flip(fast, 2, "rank-00000.json", 40);
    find.before_seq = 0;
    find.from_tier = 0;
    assert_int_equal(skipped, 0);
    assert_ok(lull_ckpt_find_in(dirs, 2, &find, &id, &index));
    assert_int_equal(id.step, 2);
    assert_int_equal(index, 1);
    assert_int_equal(skipped, 1);
    assert_non_null(strstr(why, fast));
    find.step = 2;
    assert_ok(lull_ckpt_find_in(dirs, 2, &find, &id, &index));
    assert_int_equal(index, 1);
    assert_int_equal(skipped, 2);
    flip(slow, 2, "rank-00000.json", 40);
    assert_fails(lull_ckpt_find_in(dirs, 2, &find, &id, &index),
                 LULL_ERR_CORRUPT, fast);
    /* Directories that are not there. */
    dirs[1] = slower;
    find.step = 1;
    assert_ok(lull_ckpt_find_in(dirs, 2, &find, &id, &index));
    dirs[0] = slower;
    assert_fails(lull_ckpt_find_in(dirs, 2, &find, &id, &index),
                 LULL_ERR_NOT_FOUND, slower);
}

static void damage_is_not_carried_over(void **state) {
    (void)state;
    setting_t setting = {.count = 0};
    lull_ckpt_t *ckpt;
    for (uint32_t merge = 0; merge < 2; merge++) {
        setting = (setting_t){.world = 2, .run_id = merge ? "a" : "b"};
        lull_ckpt_t *ranks[2];
        open_all(&setting, ranks);
        test_tiers_save(ranks, 2, 1, 1);
        test_tiers_save(ranks, 2, 2, 2);
        close_all(&setting, ranks);
        flip(fast, 2, "rank-00001.safetensors", 50000);
        setting = (setting_t){.tiers = {tier(slow)}, .count = 1};
        setting.tiers[0].files = merge;
        setting.keep_last = 1;
        open_all(&setting, &ckpt);
        assert_fails(lull_ckpt_wait_drained(ckpt, LULL_FOREVER),
                     LULL_ERR_CORRUPT, "rank-00001.safetensors");
        /* Told once; the other one is there. */
        assert_ok(lull_ckpt_wait_drained(ckpt, LULL_FOREVER));
        close_all(&setting, &ckpt);
        assert_false(has(slow, 2));
        assert_int_equal(test_tiers_all_whole(slow), 1);
        assert_int_equal(test_count(slow, "."), 1);
        test_dir_drop(base);
        assert_int_equal(mkdir(base, 0777), 0);
    }
}

/* What another run left under the same step is newer: it stays. */
static void nothing_newer_is_replaced(void **state) {
    (void)state;
    setting_t plain = {.run_id = "one"};
    lull_ckpt_t *ckpt;
    char into[700];
    open_all(&plain, &ckpt);
    test_tiers_save(&ckpt, 1, 7, 1);
    test_tiers_save(&ckpt, 1, 7, 2);
    close_all(&plain, &ckpt);
    snprintf(into, sizeof into, "mv '%s' '%s'", fast, slow);
    assert_int_equal(system(into), 0);
    plain.run_id = "two";
    open_all(&plain, &ckpt);
    test_tiers_save(&ckpt, 1, 7, 3);
    close_all(&plain, &ckpt);
    setting_t setting = {.tiers = {tier(slow)}, .count = 1, .run_id = "three"};
    open_all(&setting, &ckpt);
    assert_ok(lull_ckpt_wait_drained(ckpt, LULL_FOREVER));
    assert_int_equal(test_tiers_newest(slow), 2);
    assert_int_equal(test_tiers_newest(fast), 3);
    /* Saved again it is the newest of all. */
    test_tiers_save(&ckpt, 1, 7, 4);
    close_all(&setting, &ckpt);
    assert_int_equal(test_tiers_newest(slow), 4);
}

/* Somebody gave a checkpoint the name of another step. */
static void a_misnamed_one_is_left_alone(void **state) {
    (void)state;
    setting_t plain = {0}, setting = {.tiers = {tier(slow)}, .count = 1};
    lull_ckpt_t *ckpt;
    char from[400], to[400];
    open_all(&plain, &ckpt);
    test_tiers_save(&ckpt, 1, 1, 1);
    test_tiers_save(&ckpt, 1, 2, 2);
    close_all(&plain, &ckpt);
    snprintf(from, sizeof from, "%s/step-00000002", fast);
    snprintf(to, sizeof to, "%s/step-00000007", fast);
    assert_int_equal(rename(from, to), 0);
    open_all(&setting, &ckpt);
    assert_ok(lull_ckpt_wait_drained(ckpt, 20000));
    test_tiers_save(&ckpt, 1, 3, 3);
    close_all(&setting, &ckpt);
    assert_true(has(slow, 1) && has(slow, 3) && !has(slow, 2) && has(fast, 7));
    assert_int_equal(test_tiers_newest(slow), 3);
}

static void bad_tiers_are_refused(void **state) {
    (void)state;
    lull_ckpt_t *ckpt;
    setting_t setting = {.tiers = {tier(slow), tier(slower)}, .count = 2};
    lull_ckpt_options_t options = options_of(&setting, 0);
    char dots[400];
    snprintf(dots, sizeof dots, "%s/../fast", slow);
    assert_int_equal(mkdir(fast, 0777), 0);
    assert_int_equal(mkdir(slow, 0777), 0);
    setting.tiers[1].dir = dots;
    assert_fails(lull_ckpt_open(&options, &ckpt), LULL_ERR_INVALID,
                 "the same directory");
    setting.tiers[1].dir = "";
    assert_fails(lull_ckpt_open(&options, &ckpt), LULL_ERR_INVALID, "tier");
    setting.tiers[1] = tier(slower);
    setting.tiers[0].size = 3;
    assert_fails(lull_ckpt_open(&options, &ckpt), LULL_ERR_INVALID,
                 "LULL_CKPT_TIER_INIT");
    setting.tiers[0].size = sizeof(lull_ckpt_tier_t);
    options.tier_count = 8;
    assert_fails(lull_ckpt_open(&options, &ckpt), LULL_ERR_INVALID, "at most");
    /* Another run holds a tier. */
    options = test_options(slow, 0, 1);
    lull_ckpt_t *other;
    assert_ok(lull_ckpt_open(&options, &other));
    options = options_of(&setting, 0);
    assert_fails(lull_ckpt_open(&options, &ckpt), LULL_ERR_BUSY, slow);
    lull_ckpt_destroy(other);
}

static void a_tier_that_a_rank_does_not_see_is_named(void **state) {
    (void)state;
    lull_ckpt_t *ranks[2];
    setting_t setting = {.tiers = {tier(slow)}, .count = 1, .world = 2};
    lull_ckpt_options_t options = options_of(&setting, 0);
    assert_ok(lull_ckpt_open(&options, &ranks[0]));
    options = options_of(&setting, 1);
    options.commit_timeout_s = 0.2;
    setting.tiers[0].dir = slower;
    assert_fails(lull_ckpt_open(&options, &ranks[1]), LULL_ERR_NOT_FOUND,
                 slower);
    setting.tiers[0].dir = slow;
    assert_ok(lull_ckpt_open(&options, &ranks[1]));
    test_tiers_save(ranks, 2, 1, 1);
    close_all(&setting, ranks);
}

/* ---- merged files ---- */

static void merge_into(uint32_t into, const char *codec) {
    setting_t setting = {.tiers = {tier(slow), tier(slower)},
                         .count = 2,
                         .world = TIERS_WORLD,
                         .codec = codec};
    lull_ckpt_t *ranks[TIERS_WORLD];
    setting.tiers[0].files = into;
    setting.tiers[1].files = 1;
    open_all(&setting, ranks);
    test_tiers_save(ranks, TIERS_WORLD, 5, into);
    close_all(&setting, ranks);
    unsigned expected = into < TIERS_WORLD && into > 0 ? into : TIERS_WORLD;
    assert_int_equal(files(slow, 5, "*.safetensors"), expected);
    assert_int_equal(files(slow, 5, "rank-*.json"), expected);
    assert_int_equal(files(slower, 5, "*"), 3);
    assert_int_equal(test_tiers_newest(slow), into);
    assert_int_equal(test_tiers_newest(slower), into);
    /* Shards know who saved them; the file is its group's. */
    lull_ckpt_info_t *info;
    lull_ckpt_shard_info_t shard;
    assert_ok(
        lull_ckpt_info_open(slower, (lull_ckpt_id_t){LULL_LATEST, 0}, &info));
    bool seen[TIERS_WORLD] = {0};
    for (size_t i = 0; lull_ckpt_info_shard_at(info, "rows", i, &shard); i++) {
        seen[shard.rank] = true;
        assert_string_equal(shard.file, "rank-00000.safetensors");
        assert_true(codec != NULL || shard.file_offset % 4 == 0);
    }
    for (int r = 0; r < TIERS_WORLD; r++)
        assert_true(seen[r]);
    lull_ckpt_entry_t entry;
    assert_ok(lull_ckpt_info_entry(info, &entry));
    assert_int_equal(entry.world, TIERS_WORLD);
    assert_int_equal(entry.files, 3);
    lull_ckpt_info_destroy(info);
    uint64_t n;
    char *stored = test_stored(slower, 5, 0, "rows#1", &n);
    assert_non_null(stored);
    free(stored);
    test_dir_drop(base);
    assert_int_equal(mkdir(base, 0777), 0);
}

static void ranks_files_are_merged(void **state) {
    (void)state;
    test_tiers_rows = TIERS_ROWS_MAX;
    for (uint32_t into = 1; into <= 5; into++)
        merge_into(into, NULL);
}

static void coded_files_are_merged(void **state) {
    (void)state;
    test_tiers_rows = TIERS_ROWS_MAX;
    merge_into(1, "weights=expo");
    merge_into(3, "weights=expo");
}

static void any_layout_through_a_merged_tier(void **state) {
    (void)state;
    uint64_t random = test_seed();
    for (int round = 0; round < 15; round++) {
        grid_t grid, other;
        lull_ckpt_t *ranks[4];
        uint16_t *whole = grid_random(&grid, &other, &random);
        setting_t setting = {.tiers = {tier(slow)}, .count = 1};
        setting.world = 1 + (uint32_t)(test_random(&random) % 4);
        setting.tiers[0].files = 1 + (uint32_t)(test_random(&random) % 3);
        setting.codec = test_random(&random) % 2 ? "weights=expo" : NULL;
        open_all(&setting, ranks);
        grid_save(&grid, whole, ranks, setting.world);
        close_all(&setting, ranks);
        grid_load(&other, whole, slow);
        free(whole);
        test_dir_drop(base);
        assert_int_equal(mkdir(base, 0777), 0);
    }
}

/* Damage in a merged file is found and named, wherever it is. */
static void damage_of_merged_files_is_named(void **state) {
    (void)state;
    setting_t setting = {.tiers = {tier(slow)}, .count = 1, .world = 4};
    lull_ckpt_t *ranks[4];
    lull_ckpt_info_t *info;
    char path[400];
    size_t n;
    setting.tiers[0].files = 2;
    open_all(&setting, ranks);
    test_tiers_save(ranks, 4, 1, 1);
    close_all(&setting, ranks);
    snprintf(path, sizeof path, "%s/step-00000001/rank-00002.safetensors",
             slow);
    char *data = test_slurp(path, &n);
    uint64_t random = test_seed();
    for (int i = 0; i < 40; i++) {
        size_t at = i == 0 ? 0 : test_random(&random) % n;
        data[at] ^= 0x41;
        test_spit(path, data, n);
        lull_status_t status =
            lull_ckpt_info_open(slow, (lull_ckpt_id_t){1, 1}, &info);
        if (status == LULL_OK) {
            status = lull_ckpt_verify(info, NULL, NULL);
            lull_ckpt_info_destroy(info);
        }
        assert_int_equal(status, LULL_ERR_CORRUPT);
        assert_non_null(strstr(lull_last_error(), "rank-00002.safetensors"));
        data[at] ^= 0x41;
    }
    test_spit(path, data, n);
    free(data);
    assert_int_equal(test_tiers_newest(slow), 1);
}

/* ---- a storage call of a drain, or an allocation, fails ---- */

#define NO_MEMORY (-1) /* an error of one_fails */

/* The n-th call since open fails. True: one did. */
static bool one_fails(uint64_t n, int error, uint32_t merge) {
    setting_t plain = {.world = 2}, setting = {.tiers = {tier(slow)},
                                               .count = 1,
                                               .keep_last = 1,
                                               .run_id = "drains"};
    lull_ckpt_t *ranks[2], *ckpt;
    setting.tiers[0].files = merge;
    faultio_arm(&fault, 0, 0);
    open_all(&plain, ranks);
    test_tiers_save(ranks, 2, 1, 1);
    close_all(&plain, ranks);
    lull_ckpt_options_t options = options_of(&setting, 0);
    if (error == NO_MEMORY)
        allocations_arm(n);
    else
        faultio_arm(&fault, n, error);
    lull_status_t status = lull_ckpt_open(&options, &ckpt);
    if (status == LULL_OK) {
        status = lull_ckpt_wait_drained(ckpt, LULL_FOREVER);
        if (status != LULL_OK && error != NO_MEMORY &&
            strstr(lull_last_error(), base) == NULL)
            fail_msg("call %d: '%s' says no path", (int)n, lull_last_error());
        (void)lull_ckpt_close(ckpt);
        lull_ckpt_destroy(ckpt);
    }
    bool hit =
        error == NO_MEMORY ? allocations_count() >= n : faultio_hit(&fault);
    faultio_arm(&fault, 0, 0);
    allocations_arm(0);
    assert_int_equal(test_tiers_newest(fast), 1);
    test_tiers_all_whole(slow);
    open_all(&setting, &ckpt);
    close_all(&setting, &ckpt);
    assert_int_equal(test_tiers_newest(slow), 1);
    assert_int_equal(test_count(slow, "."), 1);
    assert_int_equal(test_count(fast, "."), 1);
    test_dir_drop(base);
    assert_int_equal(mkdir(base, 0777), 0);
    return hit;
}

static void any_call_of_a_drain_may_fail(void **state) {
    (void)state;
    static const int errors[] = {EIO, ENOSPC, EDQUOT};
    faultio_init(&fault);
    lull__io_set_default(&fault.io);
    uint64_t n = 1;
    while (one_fails(n, errors[n % 3], n % 2))
        n++;
    assert_true(n > 60);
}

static void any_allocation_of_a_drain_may_fail(void **state) {
    (void)state;
    faultio_init(&fault);
    uint64_t n = 1;
    while (one_fails(n, NO_MEMORY, n % 2))
        n++;
    assert_true(n > 60);
}

static void short_transfers_and_interrupts(void **state) {
    (void)state;
    faultio_init(&fault);
    fault.ops = FAULT_READ | FAULT_WRITE;
    lull__io_set_default(&fault.io);
    for (uint64_t n = 1; one_fails(n, 0, n % 2); n += 3)
        continue;
    for (uint64_t n = 1; one_fails(n, EINTR, n % 2); n += 3)
        continue;
}

int main(void) {
    /* Many drains: a disk would only add time. */
    if (access("/dev/shm", W_OK) == 0)
        setenv("TMPDIR", "/dev/shm", 0);
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(drained_to_every_tier),
        TEST(a_look_at_drains_knows_of_the_last_commit),
        TEST(each_tier_keeps_its_own),
        TEST(a_full_tier_stops_nothing_and_loses_nothing),
        TEST(close_tells_and_the_next_open_takes_up),
        TEST(destroy_cancels_and_the_next_open_takes_up),
        TEST(a_tier_that_vanished_is_found_again),
        TEST(a_tier_may_be_a_link),
        TEST(resumed_from_the_slow_tier),
        TEST(a_damaged_copy_gives_way_to_another),
        TEST(damage_is_not_carried_over),
        TEST(nothing_newer_is_replaced),
        TEST(a_misnamed_one_is_left_alone),
        TEST(bad_tiers_are_refused),
        TEST(a_tier_that_a_rank_does_not_see_is_named),
        TEST(ranks_files_are_merged),
        TEST(coded_files_are_merged),
        TEST(any_layout_through_a_merged_tier),
        TEST(damage_of_merged_files_is_named),
        TEST(any_call_of_a_drain_may_fail),
        TEST(any_allocation_of_a_drain_may_fail),
        TEST(short_transfers_and_interrupts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
