/* Tiers with ranks' files merged. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ckpt.h"
#include "grid.h"
#include "support.h"
#include "test.h"
#include "tiers.h"
#include "tiers_room.h"

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

static void merge_into(uint32_t into, const char *codec) {
    tiers_setting_t setting = {
        .tiers = {tiers_at(tiers_slow), tiers_at(tiers_slower)},
        .count = 2,
        .world = TIERS_WORLD,
        .codec = codec};
    lull_ckpt_t *ranks[TIERS_WORLD];
    setting.tiers[0].files = into;
    setting.tiers[1].files = 1;
    tiers_open(&setting, ranks);
    test_tiers_save(ranks, TIERS_WORLD, 5, into);
    tiers_close(&setting, ranks);
    unsigned expected = into < TIERS_WORLD && into > 0 ? into : TIERS_WORLD;
    assert_int_equal(files(tiers_slow, 5, "*.safetensors"), expected);
    assert_int_equal(files(tiers_slow, 5, "rank-*.json"), expected);
    assert_int_equal(files(tiers_slower, 5, "*"), 3);
    assert_int_equal(test_tiers_newest(tiers_slow), into);
    assert_int_equal(test_tiers_newest(tiers_slower), into);
    /* Shards know who saved them; the file is its group's. */
    lull_ckpt_info_t *info;
    lull_ckpt_shard_info_t shard;
    assert_ok(lull_ckpt_info_open(tiers_slower,
                                  (lull_ckpt_id_t){LULL_LATEST, 0, 0}, &info));
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
    char *stored = test_stored(tiers_slower, 5, 0, "rows#1", &n);
    assert_non_null(stored);
    free(stored);
    tiers_room_empty();
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
        tiers_setting_t setting = {.tiers = {tiers_at(tiers_slow)}, .count = 1};
        setting.world = 1 + (uint32_t)(test_random(&random) % 4);
        setting.tiers[0].files = 1 + (uint32_t)(test_random(&random) % 3);
        setting.codec = test_random(&random) % 2 ? "weights=expo" : NULL;
        tiers_open(&setting, ranks);
        grid_save(&grid, whole, ranks, setting.world);
        tiers_close(&setting, ranks);
        grid_load(&other, whole, tiers_slow);
        free(whole);
        tiers_room_empty();
    }
}

/* Damaged so, the slow copy is refused, and the file is named. */
static void assert_damaged(const char *name) {
    lull_ckpt_info_t *info;
    lull_status_t status =
        lull_ckpt_info_open(tiers_slow, (lull_ckpt_id_t){1, 1, 0}, &info);
    if (status == LULL_OK) {
        status = lull_ckpt_verify(info, NULL, NULL);
        lull_ckpt_info_destroy(info);
    }
    assert_int_equal(status, LULL_ERR_CORRUPT);
    assert_non_null(strstr(lull_last_error(), name));
}

static void damage_file(const char *name) {
    char path[400];
    size_t n;
    snprintf(path, sizeof path, "%s/step-00000001/%s", tiers_slow, name);
    char *data = test_slurp(path, &n);
    assert_non_null(data);
    for (size_t at = 0; at < n; at++) {
        data[at] ^= (char)(1 << at % 8);
        test_spit(path, data, n);
        assert_damaged(name);
        data[at] ^= (char)(1 << at % 8);
    }
    for (size_t cut = 0; cut < n; cut += 7) {
        test_spit(path, data, cut);
        assert_damaged(name);
    }
    test_spit(path, data, n);
    free(data);
}

/* Damage in merged files is found and named, whatever byte it is. */
static void damage_of_merged_files_is_named(void **state) {
    (void)state;
    static const char *const names[] = {
        "manifest.json", "rank-00000.json", "rank-00002.json",
        "rank-00000.safetensors", "rank-00002.safetensors"};
    tiers_setting_t setting = {.tiers = {tiers_at(tiers_slow)},
                               .count = 1,
                               .world = 4,
                               .codec = "weights=expo"};
    lull_ckpt_t *ranks[4];
    test_tiers_rows = 64;
    setting.tiers[0].files = 2;
    tiers_open(&setting, ranks);
    test_tiers_save(ranks, 4, 1, 1);
    tiers_close(&setting, ranks);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        damage_file(names[i]);
    assert_int_equal(test_tiers_newest(tiers_slow), 1);
}

int main(void) {
    /* Many drains: a disk would only add time. */
    ckpt_room_in_memory();
#define TEST(name) \
    cmocka_unit_test_setup_teardown(name, tiers_room_make, tiers_room_drop)
    const struct CMUnitTest tests[] = {
        TEST(ranks_files_are_merged),
        TEST(coded_files_are_merged),
        TEST(any_layout_through_a_merged_tier),
        TEST(damage_of_merged_files_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
