/* ckpt: damaged checkpoints, each byte of them. */
#include <dirent.h>
#include <fcntl.h>
#include <lull/codec.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ckpt.h"
#include "ckpt_small.h"
#include "ckpt_writer.h"
#include "support.h"
#include "test.h"

/* ---- Damage ---- */

/* Opens, verifies, loads: what one of them says first. */
static lull_status_t read_all(const char *dir) {
    lull_ckpt_id_t id;
    lull_ckpt_info_t *info;
    lull_ckpt_find_options_t options = LULL_CKPT_FIND_OPTIONS_INIT;
    options.step = 100;
    lull_status_t status = lull_ckpt_find(dir, &options, &id);
    if (status == LULL_OK)
        status = lull_ckpt_info_open(dir, id, &info);
    if (status != LULL_OK)
        return status;
    status = lull_ckpt_verify(info, NULL, NULL);
    float w[12];
    lull_ckpt_slice_t slice = slice_w(w);
    if (status == LULL_OK)
        status = lull_ckpt_load(info, &slice, 1, NULL);
    lull_ckpt_info_destroy(info);
    return status;
}

static void damage_file(const char *dir, const char *name) {
    char sub[600];
    size_t n;
    snprintf(sub, sizeof sub, "%s/step-00000100", dir);
    char *good = test_file_read(sub, name, &n), *bad = malloc(n + 2);
    for (size_t i = 0; i < n; i++) {
        memcpy(bad, good, n);
        bad[i] = (char)(bad[i] ^ 1 << i % 8);
        test_file_write(sub, name, bad, n);
        if (read_all(dir) != LULL_ERR_CORRUPT)
            fail_msg("%s: byte %zu flipped: not found", name, i);
        assert_non_null(strstr(lull_last_error(), name));
    }
    for (size_t cut = 0; cut < n; cut++) {
        test_file_write(sub, name, good, cut);
        if (read_all(dir) != LULL_ERR_CORRUPT)
            fail_msg("%s: cut to %zu: not found", name, cut);
    }
    memcpy(bad, good, n);
    bad[n] = 0;
    test_file_write(sub, name, bad, n + 1);
    if (read_all(dir) != LULL_ERR_CORRUPT)
        fail_msg("%s: a byte behind it: not found", name);
    char path[1200];
    snprintf(path, sizeof path, "%s/%s", sub, name);
    unlink(path);
    if (read_all(dir) != LULL_ERR_CORRUPT)
        fail_msg("%s: missing: not found", name);
    test_file_write(sub, name, good, n);
    free(good);
    free(bad);
    assert_ok(read_all(dir));
}

static void damage_all(const char *dir) {
    assert_ok(read_all(dir));
    damage_file(dir, "manifest.json");
    damage_file(dir, "rank-00000.json");
    damage_file(dir, "rank-00001.json");
    damage_file(dir, "rank-00000.safetensors");
    damage_file(dir, "rank-00001.safetensors");
}

static void every_byte_counts(void **state) {
    (void)state;
    char *dir = test_dir("damage");
    write_small(dir, 1, 100);
    damage_all(dir);
    test_dir_remove(dir);
}

static void write_coded(const char *dir, const char *codec) {
    enum { COUNT = sizeof small_shards / sizeof *small_shards };
    test_shard_t shards[COUNT];
    memcpy(shards, small_shards, sizeof shards);
    for (size_t i = 0; i < COUNT; i++)
        if (shards[i].kind == LULL__SHARD_TENSOR && shards[i].dtype == LULL_F32)
            shards[i].codec = codec;
    test_ckpt_write(&(test_ckpt_t){.dir = dir,
                                   .seq = 1,
                                   .step = 100,
                                   .world = 2,
                                   .shards = shards,
                                   .count = COUNT});
}

static void every_byte_of_a_coded_one_counts(void **state) {
    (void)state;
    static const char *const codecs[] = {"expo", "zfp:8", "raw"};
    for (size_t i = 0; i < sizeof codecs / sizeof *codecs; i++) {
        char *dir = test_dir("coded");
        write_coded(dir, codecs[i]);
        damage_all(dir);
        test_dir_remove(dir);
    }
}

/* Without verify(): a load alone says so, or gives what was saved, where the
 * byte is none of what is wanted. */
static void load_alone_finds_it(const char *dir) {
    char sub[600];
    size_t n;
    unsigned found = 0;
    float was[12], w[12];
    lull_ckpt_slice_t slice = slice_w(was);
    lull_ckpt_info_t *info;
    lull_ckpt_id_t id = {1, 100, 0};
    assert_ok(lull_ckpt_info_open(dir, id, &info));
    assert_ok(lull_ckpt_load(info, &slice, 1, NULL));
    snprintf(sub, sizeof sub, "%s/step-00000100", dir);
    char *data = test_file_read(sub, "rank-00000.safetensors", &n);
    slice.data = w;
    for (size_t i = 4096; i < n; i++) {
        data[i] ^= 1;
        test_file_write(sub, "rank-00000.safetensors", data, n);
        data[i] ^= 1;
        lull_status_t status = lull_ckpt_load(info, &slice, 1, NULL);
        if (status == LULL_OK)
            assert_memory_equal(w, was, sizeof w);
        else
            assert_non_null(strstr(lull_last_error(), "'w'"));
        found += status == LULL_ERR_CORRUPT;
    }
    assert_true(found >= 24);
    lull_ckpt_info_destroy(info);
    free(data);
}

static void load_finds_each_byte_by_itself(void **state) {
    (void)state;
    static const char *const codecs[] = {NULL, "expo", "zfp:8", "raw"};
    for (size_t i = 0; i < sizeof codecs / sizeof *codecs; i++) {
        char *dir = test_dir("load");
        write_coded(dir, codecs[i]);
        load_alone_finds_it(dir);
        test_dir_remove(dir);
    }
}

/* The hint misleads nobody, whatever it is. */
static void whatever_latest_says(void **state) {
    (void)state;
    static const char good[] = "step-00000300\n";
    char *dir = test_dir("latest"), bad[sizeof good + 1], big[5000];
    size_t n = sizeof good - 1;
    lull_ckpt_id_t id;
    write_small(dir, 1, 300);
    write_small(dir, 2, 100);
    for (size_t i = 0; i < 8 * n; i++) {
        memcpy(bad, good, sizeof good);
        bad[i / 8] = (char)(bad[i / 8] ^ 1 << i % 8);
        test_file_write(dir, "latest", bad, n);
        assert_ok(lull_ckpt_find(dir, NULL, &id));
        assert_int_equal(id.seq, 2);
    }
    memset(big, '/', sizeof big);
    for (size_t cut = 0; cut <= n + 1; cut++) {
        memcpy(bad, good, sizeof good);
        test_file_write(dir, "latest", cut <= n ? bad : big,
                        cut <= n ? cut : sizeof big);
        assert_ok(lull_ckpt_find(dir, NULL, &id));
        assert_int_equal(id.seq, 2);
    }
    test_dir_remove(dir);
}

static void load_finds_damage_by_itself(void **state) {
    (void)state;
    char *dir = test_dir("load"), sub[600];
    write_small(dir, 1, 100);
    snprintf(sub, sizeof sub, "%s/step-00000100", dir);
    size_t n;
    char *data = test_file_read(sub, "rank-00001.safetensors", &n);
    data[4096] ^= 1;
    test_file_write(sub, "rank-00001.safetensors", data, n);
    free(data);
    lull_ckpt_info_t *info;
    assert_ok(lull_ckpt_info_open(dir, (lull_ckpt_id_t){1, 100, 0}, &info));
    float w[12];
    lull_ckpt_slice_t slice = slice_w(w);
    assert_fails(lull_ckpt_load(info, &slice, 1, NULL), LULL_ERR_CORRUPT,
                 "rank-00001.safetensors: tensor 'w': the hash of block 0");
    /* The other rank's part is whole. */
    slice.shape[0] = 2;
    assert_ok(lull_ckpt_load(info, &slice, 1, NULL));
    lull_ckpt_info_destroy(info);
    test_dir_remove(dir);
}

/* A file of a larger world, and other litter, is harmless. */
static void litter(void **state) {
    (void)state;
    char *dir = test_dir("litter"), sub[600];
    write_small(dir, 1, 100);
    snprintf(sub, sizeof sub, "%s/step-00000100", dir);
    test_file_write(sub, "rank-00002.safetensors", "x", 1);
    test_file_write(sub, "rank-00002.json", "x", 1);
    assert_ok(read_all(dir));
    test_dir_remove(dir);
}

/* Pipes in the place of files hold no reader; wrong arguments are refused. */
static void pipes_and_nulls(void **state) {
    (void)state;
    static const char *const names[] = {"manifest.json", "rank-00000.json",
                                        "rank-00000.safetensors"};
    char *dir = test_dir("pipes"), path[600];
    lull_ckpt_info_t *info;
    lull_ckpt_id_t id = {1, 100, 0};
    size_t bytes;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        write_small(dir, i + 1, 100 + i);
        snprintf(path, sizeof path, "%s/step-%08zu/%s", dir, 100 + i, names[i]);
        assert_int_equal(unlink(path), 0);
        assert_int_equal(mkfifo(path, 0666), 0);
        lull_ckpt_find_options_t options = LULL_CKPT_FIND_OPTIONS_INIT;
        options.step = 100 + i;
        assert_fails(lull_ckpt_find(dir, &options, &id), LULL_ERR_CORRUPT,
                     names[i]);
        assert_int_equal(unlink(path), 0);
    }
    write_small(dir, 9, 900);
    assert_ok(lull_ckpt_info_open(dir, (lull_ckpt_id_t){9, 900, 0}, &info));
    assert_fails(lull_ckpt_info_state(info, NULL, 0, NULL, 0, &bytes),
                 LULL_ERR_INVALID, "NULL");
    assert_fails(lull_ckpt_info_state(info, "rng", 1, NULL, 0, NULL),
                 LULL_ERR_INVALID, "NULL");
    assert_fails(lull_ckpt_info_tensor(info, NULL, NULL), LULL_ERR_INVALID,
                 "NULL");
    assert_fails(lull_ckpt_info_entry(NULL, NULL), LULL_ERR_INVALID, "NULL");
    assert_null(lull_ckpt_info_meta(info, NULL));
    assert_false(lull_ckpt_info_tensor_at(info, 0, NULL));
    assert_false(lull_ckpt_info_shard_at(info, NULL, 0, NULL));
    assert_int_equal(lull_ckpt_info_tensors(NULL), 0);
    lull_ckpt_info_destroy(info);
    test_dir_remove(dir);
}

static void shards_that_do_not_tile(void **state) {
    (void)state;
    char *dir = test_dir("tile");
    lull_ckpt_info_t *info;
    test_ckpt_t ckpt = {.dir = dir,
                        .seq = 1,
                        .step = 1,
                        .world = 1,
                        .shards = small_shards,
                        .count = 1};
    test_ckpt_write(&ckpt);
    assert_fails(lull_ckpt_info_open(dir, (lull_ckpt_id_t){1, 1, 0}, &info),
                 LULL_ERR_CORRUPT, "'w': parts of it are missing");
    test_shard_t twice[2] = {small_shards[1], small_shards[1]};
    ckpt = (test_ckpt_t){.dir = dir,
                         .seq = 2,
                         .step = 2,
                         .world = 1,
                         .shards = twice,
                         .count = 2};
    test_ckpt_write(&ckpt);
    assert_fails(lull_ckpt_info_open(dir, (lull_ckpt_id_t){2, 2, 0}, &info),
                 LULL_ERR_CORRUPT, "stored twice");
    test_shard_t differ[2] = {small_shards[0], small_shards[5]};
    differ[1].global[1] = 5;
    ckpt = (test_ckpt_t){.dir = dir,
                         .seq = 3,
                         .step = 3,
                         .world = 2,
                         .shards = differ,
                         .count = 2};
    test_ckpt_write(&ckpt);
    assert_fails(lull_ckpt_info_open(dir, (lull_ckpt_id_t){3, 3, 0}, &info),
                 LULL_ERR_CORRUPT, "disagree");
    lull_ckpt_meta_t lost = {"x", "y"};
    ckpt = (test_ckpt_t){.dir = dir,
                         .seq = 4,
                         .step = 4,
                         .world = 1,
                         .aliases = &lost,
                         .alias_count = 1};
    test_ckpt_write(&ckpt);
    assert_fails(lull_ckpt_info_open(dir, (lull_ckpt_id_t){4, 4, 0}, &info),
                 LULL_ERR_CORRUPT, "'x'");
    test_dir_remove(dir);
}

int main(void) {
    /* Thousands of rewritten files: a disk would only add time. */
    ckpt_room_in_memory();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_byte_counts),
        cmocka_unit_test(every_byte_of_a_coded_one_counts),
        cmocka_unit_test(whatever_latest_says),
        cmocka_unit_test(load_finds_damage_by_itself),
        cmocka_unit_test(load_finds_each_byte_by_itself),
        cmocka_unit_test(litter),
        cmocka_unit_test(pipes_and_nulls),
        cmocka_unit_test(shards_that_do_not_tile),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
