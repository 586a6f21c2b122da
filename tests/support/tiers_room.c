/* Directories of tiers, and engines over them. */
#include "tiers_room.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ckpt.h"
#include "io/io.h"
#include "test.h"
#include "tiers.h"

char tiers_base[256], tiers_fast[300], tiers_slow[300], tiers_slower[300];

int tiers_room_make(void **state) {
    (void)state;
    test_dir_make(tiers_base);
    test_tiers_rows = 70001;
    snprintf(tiers_fast, sizeof tiers_fast, "%s/fast", tiers_base);
    snprintf(tiers_slow, sizeof tiers_slow, "%s/slow", tiers_base);
    snprintf(tiers_slower, sizeof tiers_slower, "%s/slower", tiers_base);
    return 0;
}

int tiers_room_drop(void **state) {
    (void)state;
    lull__io_set_default(NULL);
    test_dir_drop(tiers_base);
    return 0;
}

void tiers_room_empty(void) {
    test_dir_drop(tiers_base);
    assert_int_equal(mkdir(tiers_base, 0777), 0);
}

lull_ckpt_tier_t tiers_at(const char *dir) {
    lull_ckpt_tier_t one = LULL_CKPT_TIER_INIT;
    one.dir = dir;
    return one;
}

lull_ckpt_options_t tiers_options(const tiers_setting_t *setting,
                                  uint32_t rank) {
    uint32_t world = setting->world ? setting->world : 1;
    lull_ckpt_options_t options = test_options(tiers_fast, rank, world);
    options.tiers = setting->tiers;
    options.tier_count = setting->count;
    options.keep_last = setting->keep_last;
    options.codec = setting->codec;
    if (setting->run_id != NULL)
        options.run_id = setting->run_id;
    return options;
}

void tiers_open(const tiers_setting_t *setting, lull_ckpt_t **ranks) {
    for (uint32_t r = 0; r == 0 || r < setting->world; r++) {
        lull_ckpt_options_t options = tiers_options(setting, r);
        assert_ok(lull_ckpt_open(&options, &ranks[r]));
    }
}

void tiers_close(const tiers_setting_t *setting, lull_ckpt_t **ranks) {
    for (uint32_t r = 0; r == 0 || r < setting->world; r++) {
        assert_ok(lull_ckpt_close(ranks[r]));
        lull_ckpt_destroy(ranks[r]);
    }
}

void tiers_lose_slow(lull_ckpt_t *ckpt) {
    test_tiers_save(&ckpt, 1, 1, 1);
    assert_ok(lull_ckpt_wait_drained(ckpt, LULL_FOREVER));
    test_dir_drop(tiers_slow);
    test_tiers_save(&ckpt, 1, 2, 2);
    assert_fails(lull_ckpt_wait_drained(ckpt, LULL_FOREVER), LULL_ERR_NOT_FOUND,
                 tiers_slow);
}

bool tiers_has(const char *dir, uint64_t step) {
    char name[32];
    snprintf(name, sizeof name, "step-%08d", (int)step);
    return test_has(dir, name);
}

void tiers_flip(const char *dir, uint64_t step, const char *name,
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

/* ---- a tier where every change fails, by the path of its directory ---- */

static bool refuse;

static int refuse_mkdir(const lull__io_t *io, int dir, const char *path,
                        unsigned mode) {
    char link[64], at[400] = "";
    (void)io;
    snprintf(link, sizeof link, "/proc/self/fd/%d", dir);
    if (readlink(link, at, sizeof at - 1) > 0 && strcmp(at, tiers_slow) == 0 &&
        __atomic_load_n(&refuse, __ATOMIC_RELAXED))
        return -ENOSPC;
    return lull__io_system.ops->mkdir(&lull__io_system, dir, path, mode);
}

void tiers_refuse_slow(bool on) {
    static lull__io_ops_t ops;
    static lull__io_t io;
    __atomic_store_n(&refuse, on, __ATOMIC_RELAXED);
    ops = *lull__io_system.ops;
    ops.mkdir = refuse_mkdir;
    io.ops = &ops;
    lull__io_set_default(&io);
}
