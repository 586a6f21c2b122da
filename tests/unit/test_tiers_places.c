/* Tiers behind places: each place drains its part to a tier that all see,
 * where it is one whole checkpoint. Failures: test_tiers_places_faults.c. */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ckpt.h"
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
    setting.tiers[1] = tiers_at("slower");
    setting.count = 1;
    return 0;
}

static int tear_down(void **state) {
    agree_room_fini(&places_line);
    return tiers_room_drop(state);
}

/* Names in a checkpoint of a directory that end so. */
static unsigned files(const char *dir, uint64_t step, const char *end) {
    char command[900];
    snprintf(command, sizeof command, "ls '%s'/step-%08d/*%s | wc -l", dir,
             (int)step, end);
    FILE *pipe = popen(command, "r");
    unsigned n = 0;
    assert_int_equal(fscanf(pipe, "%u", &n), 1);
    pclose(pipe);
    return n;
}

static void save_three(lull_ckpt_t **ranks) {
    for (uint64_t i = 1; i <= 3; i++)
        test_tiers_save(ranks, PLACES_WORLD, 10 * i, i);
}

/* The slow tier has each whole, for any reader; and what is behind it. */
static void each_place_drains_its_part(void **state) {
    (void)state;
    lull_ckpt_t *ranks[PLACES_WORLD];
    lull_ckpt_stats_t stats = {.size = sizeof stats};
    setting.count = 2;
    places_open(&setting, ranks);
    save_three(ranks);
    assert_ok(lull_ckpt_wait_drained(ranks[0], LULL_FOREVER));
    for (uint32_t r = 1; r < PLACES_WORLD; r++)
        assert_ok(lull_ckpt_wait_drained(ranks[r], LULL_FOREVER));
    assert_ok(lull_ckpt_stats(ranks[0], &stats));
    assert_int_equal(stats.drained, 6);
    assert_int_equal(stats.drain_pending, 0);
    assert_int_equal(stats.drain_failed, 0);
    assert_ok(lull_ckpt_stats(ranks[2], &stats));
    assert_true(stats.drain_bytes > 3 * 140000);
    assert_ok(lull_ckpt_stats(ranks[3], &stats));
    assert_int_equal(stats.drain_bytes, 0);
    places_close(&setting, ranks);
    for (size_t t = 0; t < 2; t++) {
        const char *dir = places_tier(&setting, t);
        assert_int_equal(test_tiers_all_whole(dir), 3);
        assert_int_equal(test_tiers_newest(dir), 3);
        assert_int_equal(test_count(dir, "."), 1);
        assert_int_equal(test_count(dir, ".lull/drain"), 0);
        assert_int_equal(files(dir, 30, ".safetensors"), PLACES_WORLD);
    }
    /* The same checkpoint, by its id, in places and tiers. */
    lull_ckpt_id_t place, slow;
    lull_ckpt_info_t *info;
    lull_ckpt_file_info_t file;
    assert_ok(lull_ckpt_find(places_dir(&setting, 3), NULL, &place));
    assert_ok(lull_ckpt_find(places_tier(&setting, 0), NULL, &slow));
    assert_memory_equal(&place, &slow, sizeof slow);
    assert_ok(lull_ckpt_info_open(places_tier(&setting, 0), slow, &info));
    for (size_t i = 0; lull_ckpt_info_file_at(info, i, &file); i++)
        assert_null(file.elsewhere);
    lull_ckpt_info_destroy(info);
}

static void merge(unsigned places, bool scattered, uint32_t into,
                  unsigned expected) {
    lull_ckpt_t *ranks[PLACES_WORLD];
    setting.places = places;
    setting.scattered = scattered;
    setting.tiers[0].files = into;
    places_open(&setting, ranks);
    test_tiers_save(ranks, PLACES_WORLD, 5, 7);
    places_close(&setting, ranks);
    const char *slow = places_tier(&setting, 0);
    assert_int_equal(test_tiers_newest(slow), 7);
    assert_int_equal(files(slow, 5, ".safetensors"), expected);
    assert_int_equal(files(slow, 5, ".json"), expected + 1);
    tiers_room_empty();
}

/* Each place merges its own: no less than one file for ranks that follow each
 * other there. */
static void each_place_merges_its_own(void **state) {
    (void)state;
    merge(2, false, 2, 2);
    merge(2, false, 1, 2);
    merge(2, false, 3, 2);
    merge(2, false, 4, 4);
    merge(2, true, 2, 4);
    merge(4, false, 1, 4);
    merge(1, false, 1, 1);
    setting.codec = "weights=expo";
    test_tiers_rows = TIERS_ROWS_MAX;
    merge(2, false, 2, 2);
    merge(3, true, 0, 4);
}

/* What is drained goes from each place by its rule, the newest stays. */
static void each_place_lets_go(void **state) {
    (void)state;
    lull_ckpt_t *ranks[PLACES_WORLD];
    setting.keep_last = 1;
    places_open(&setting, ranks);
    save_three(ranks);
    places_close(&setting, ranks);
    for (uint32_t r = 0; r < PLACES_WORLD; r += 2)
        for (uint64_t step = 10; step <= 30; step += 10)
            assert_int_equal(tiers_has(places_dir(&setting, r), step),
                             step == 30);
    assert_int_equal(test_tiers_all_whole(places_tier(&setting, 0)), 3);
}

/* A tier that wants only some: the others are let go undrained. */
static void the_tier_keeps_its_own(void **state) {
    (void)state;
    lull_ckpt_t *ranks[PLACES_WORLD];
    setting.keep_last = 1;
    setting.tiers[0].keep_last = 1;
    setting.tiers[0].keep_every = 20;
    places_open(&setting, ranks);
    for (uint64_t i = 1; i <= 5; i++) {
        test_tiers_save(ranks, PLACES_WORLD, 10 * i, i);
        assert_ok(lull_ckpt_wait_drained(ranks[0], LULL_FOREVER));
    }
    places_close(&setting, ranks);
    for (uint64_t step = 10; step <= 50; step += 10) {
        assert_int_equal(tiers_has(places_dir(&setting, 0), step), step == 50);
        assert_int_equal(tiers_has(places_dir(&setting, 2), step), step == 50);
        assert_int_equal(tiers_has(places_tier(&setting, 0), step),
                         step % 20 == 0 || step == 50);
    }
}

#define ROWS 64

/* Every rank has all of "copy"; rank 0's are the tensor. */
static void replicas_are_drained_once(void **state) {
    (void)state;
    static uint32_t rows[ROWS], back[ROWS];
    lull_ckpt_t *ranks[PLACES_WORLD];
    test_fill(rows, sizeof rows, 1);
    places_open(&setting, ranks);
    for (uint32_t r = 0; r < PLACES_WORLD; r++) {
        lull_ckpt_tensor_t tensor = test_tensor("copy", LULL_U32, ROWS, rows);
        lull_ckpt_save_t save = LULL_CKPT_SAVE_INIT;
        tensor.replica = r;
        tensor.replicas = PLACES_WORLD;
        save.step = 1;
        save.tensors = &tensor;
        save.tensor_count = 1;
        assert_ok(lull_ckpt_save(ranks[r], &save, NULL));
    }
    places_close(&setting, ranks);
    lull_ckpt_info_t *info;
    lull_ckpt_shard_info_t shard;
    lull_ckpt_slice_t slice = LULL_CKPT_SLICE_INIT;
    assert_ok(lull_ckpt_info_open(places_tier(&setting, 0),
                                  (lull_ckpt_id_t){LULL_LATEST, 0, 0}, &info));
    assert_ok(lull_ckpt_verify(info, NULL, NULL));
    assert_true(lull_ckpt_info_shard_at(info, "copy", 0, &shard));
    assert_int_equal(shard.rank, 0);
    assert_false(lull_ckpt_info_shard_at(info, "copy", 1, &shard));
    slice.name = "copy";
    slice.dtype = LULL_U32;
    slice.ndim = 1;
    slice.global_shape[0] = slice.shape[0] = ROWS;
    slice.data = back;
    lull_ckpt_load_options_t load = LULL_CKPT_LOAD_OPTIONS_INIT;
    assert_ok(lull_ckpt_load(info, &slice, 1, &load));
    assert_memory_equal(back, rows, sizeof rows);
    lull_ckpt_info_destroy(info);
    struct stat st;
    char path[500];
    snprintf(path, sizeof path, "%s/step-00000001/rank-00003.safetensors",
             places_tier(&setting, 0));
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_size % 4096, 0); /* a header alone */
}

/* A node is new: it has nothing, the slow tier what was drained. The numbers
 * go on from there, and the others let go of what cannot be whole again. */
static void a_new_node_goes_on_from_the_slow_tier(void **state) {
    (void)state;
    lull_ckpt_t *ranks[PLACES_WORLD];
    places_open(&setting, ranks);
    save_three(ranks);
    places_close(&setting, ranks);
    test_dir_drop(places_dir(&setting, 3));
    assert_int_equal(
        test_tiers_newest_of(places_dir(&setting, 3), places_tier(&setting, 0)),
        3);
    setting.run_id = "next";
    setting.keep_last = 1;
    places_open(&setting, ranks);
    test_tiers_save(ranks, PLACES_WORLD, 40, 4);
    places_close(&setting, ranks);
    lull_ckpt_id_t id;
    assert_ok(lull_ckpt_find(places_tier(&setting, 0), NULL, &id));
    assert_int_equal(id.seq, 4);
    assert_int_equal(test_tiers_newest(places_tier(&setting, 0)), 4);
    for (uint32_t r = 0; r < PLACES_WORLD; r += 2)
        assert_int_equal(test_count(places_dir(&setting, r), "step-"), 1);
}

/* What is left undrained is drained by the next run, which is told of it when
 * it opens. */
static void the_next_open_takes_it_up(void **state) {
    (void)state;
    lull_ckpt_t *ranks[PLACES_WORLD];
    setting.count = 0;
    places_open(&setting, ranks);
    save_three(ranks);
    places_close(&setting, ranks);
    setting.count = 1;
    setting.run_id = "next";
    places_open(&setting, ranks);
    assert_ok(lull_ckpt_wait_drained(ranks[0], LULL_FOREVER));
    places_close(&setting, ranks);
    assert_int_equal(test_tiers_all_whole(places_tier(&setting, 0)), 3);
}

/* `prune` in a place, while no run is there, knows what the tier lacks. */
static void prune_keeps_what_is_not_drained(void **state) {
    (void)state;
    lull_ckpt_t *ranks[PLACES_WORLD];
    lull_ckpt_prune_options_t prune = LULL_CKPT_PRUNE_OPTIONS_INIT;
    size_t deleted;
    prune.keep_last = 1;
    places_open(&setting, ranks);
    save_three(ranks);
    places_close(&setting, ranks);
    char path[500];
    snprintf(path, sizeof path, "%s/step-00000010", places_tier(&setting, 0));
    test_dir_drop(path);
    for (uint32_t r = 0; r < PLACES_WORLD; r += 2) {
        assert_ok(lull_ckpt_prune(places_dir(&setting, r), &prune, &deleted));
        assert_int_equal(deleted, 1);
        assert_true(tiers_has(places_dir(&setting, r), 10));
    }
}

static void tiers_are_the_same_on_all_ranks(void **state) {
    (void)state;
    lull_ckpt_t *ranks[PLACES_WORLD];
    places_opened_t opened[PLACES_WORLD];
    setting.tierless = 2;
    places_try(&setting, ranks, opened);
    for (uint32_t r = 0; r < PLACES_WORLD; r++)
        assert_int_equal(opened[r].status, LULL_ERR_MISMATCH);
    assert_non_null(strstr(opened[0].why, "rank 2"));
    assert_non_null(strstr(opened[0].why, "0 tiers"));
    /* The directory of a place is no tier of it. */
    setting.tierless = UINT32_MAX;
    setting.tiers[0].dir = "node1";
    places_try(&setting, ranks, opened);
    for (uint32_t r = 0; r < PLACES_WORLD; r++)
        assert_int_not_equal(opened[r].status, LULL_OK);
    assert_non_null(strstr(opened[0].why, "node1"));
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(each_place_drains_its_part),
        TEST(each_place_merges_its_own),
        TEST(each_place_lets_go),
        TEST(the_tier_keeps_its_own),
        TEST(replicas_are_drained_once),
        TEST(a_new_node_goes_on_from_the_slow_tier),
        TEST(the_next_open_takes_it_up),
        TEST(prune_keeps_what_is_not_drained),
        TEST(tiers_are_the_same_on_all_ranks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
