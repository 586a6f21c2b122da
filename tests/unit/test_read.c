/* ckpt: finding, opening and loading checkpoints. */
#include <dirent.h>
#include <fcntl.h>
#include <lull/codec.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ckpt_small.h"
#include "ckpt_writer.h"
#include "support.h"
#include "test.h"

static void small_round_trip(void **state) {
    (void)state;
    char *dir = test_dir("read");
    write_small(dir, 7, 100);
    lull_ckpt_id_t id;
    assert_ok(lull_ckpt_find(dir, NULL, &id));
    assert_int_equal(id.seq, 7);
    assert_int_equal(id.step, 100);
    lull_ckpt_info_t *info;
    assert_ok(lull_ckpt_info_open(dir, id, &info));
    lull_ckpt_entry_t entry;
    assert_ok(lull_ckpt_info_entry(info, &entry));
    assert_string_equal(entry.name, "step-00000100");
    assert_int_equal(entry.parent_seq, 6);
    assert_int_equal(entry.world, 2);
    assert_int_equal(entry.time, 1700000007);
    assert_string_equal(lull_ckpt_info_meta(info, "note"), "a \"b\"\n");
    assert_null(lull_ckpt_info_meta(info, "nothing"));
    lull_ckpt_meta_t meta;
    assert_true(lull_ckpt_info_meta_at(info, 1, &meta));
    assert_false(lull_ckpt_info_meta_at(info, 2, &meta));

    static const char *const names[] = {"b/..|\xc3\xa9", "none", "s", "tied",
                                        "w"};
    assert_int_equal(lull_ckpt_info_tensors(info), 5);
    lull_ckpt_tensor_info_t tensor;
    for (size_t i = 0; i < 5; i++) {
        assert_true(lull_ckpt_info_tensor_at(info, i, &tensor));
        assert_string_equal(tensor.name, names[i]);
    }
    assert_false(lull_ckpt_info_tensor_at(info, 5, &tensor));
    assert_ok(lull_ckpt_info_tensor(info, "w", &tensor));
    assert_int_equal(tensor.bytes, 48);
    assert_int_equal(tensor.stored_bytes, 48);
    assert_int_equal(tensor.shards, 2);
    assert_string_equal(tensor.codec, "raw");
    assert_ok(lull_ckpt_info_tensor(info, "tied", &tensor));
    assert_string_equal(tensor.alias_of, "w");
    assert_fails(lull_ckpt_info_tensor(info, "x", &tensor), LULL_ERR_NOT_FOUND,
                 "'x'");
    lull_ckpt_shard_info_t shard;
    assert_true(lull_ckpt_info_shard_at(info, "w", 1, &shard));
    assert_int_equal(shard.rank, 1);
    assert_int_equal(shard.offset[0], 2);
    assert_string_equal(shard.file, "rank-00001.safetensors");
    assert_false(lull_ckpt_info_shard_at(info, "w", 2, &shard));

    char text[8];
    size_t bytes;
    assert_ok(lull_ckpt_info_state(info, "loader", 1, NULL, 0, &bytes));
    assert_int_equal(bytes, 5);
    assert_ok(lull_ckpt_info_state(info, "loader", 9, text, 8, &bytes));
    assert_memory_equal(text, "state", 5);
    assert_ok(lull_ckpt_info_state(info, "rng", 1, text, 8, &bytes));
    assert_memory_equal(text, "rng1", 4);
    assert_fails(lull_ckpt_info_state(info, "rng", 2, text, 8, &bytes),
                 LULL_ERR_NOT_FOUND, "rank 2");
    assert_fails(lull_ckpt_info_state(info, "rng", 1, text, 3, &bytes),
                 LULL_ERR_CAPACITY, "4 bytes");
    assert_int_equal(bytes, 4);
    lull_ckpt_state_info_t row;
    assert_true(lull_ckpt_info_state_at(info, 2, &row));
    assert_string_equal(row.name, "rng");
    assert_int_equal(row.rank, 1);
    assert_true(row.per_rank);
    assert_false(lull_ckpt_info_state_at(info, 3, &row));
    lull_ckpt_rank_info_t rank;
    assert_true(lull_ckpt_info_rank_at(info, 1, &rank));
    assert_true(rank.flush_s == 0.003);
    assert_false(lull_ckpt_info_rank_at(info, 2, &rank));

    float w[12];
    uint16_t b[3];
    double s = 0;
    lull_ckpt_slice_t slices[4] = {slice_w(w), slice_w(w)};
    slices[1].name = "tied";
    slices[2] = (lull_ckpt_slice_t){.size = sizeof slices[0],
                                    .name = "b/..|\xc3\xa9",
                                    .dtype = LULL_BF16,
                                    .ndim = 1,
                                    .global_shape = {3},
                                    .shape = {3},
                                    .data = b};
    slices[3] = (lull_ckpt_slice_t){
        .size = sizeof slices[0], .name = "s", .dtype = LULL_F64, .data = &s};
    assert_ok(lull_ckpt_load(info, slices, 4, NULL));
    for (int i = 0; i < 12; i++)
        assert_true(w[i] == (float)(i + 1));
    assert_memory_equal(b, bias, sizeof bias);
    assert_true(s == 2.5);
    assert_ok(lull_ckpt_verify(info, NULL, NULL));
    lull_ckpt_info_destroy(info);
    lull_ckpt_info_destroy(NULL);
    test_dir_remove(dir);
}

static void load_refuses(void **state) {
    (void)state;
    char *dir = test_dir("read");
    write_small(dir, 1, 1);
    lull_ckpt_info_t *info;
    assert_ok(lull_ckpt_info_open(dir, (lull_ckpt_id_t){1, 1, 0}, &info));
    float w[12];
    lull_ckpt_slice_t slice = slice_w(w);
    slice.dtype = LULL_I32;
    assert_fails(lull_ckpt_load(info, &slice, 1, NULL), LULL_ERR_MISMATCH,
                 "it is F32, I32 is wanted");
    slice = slice_w(w);
    slice.global_shape[1] = 4;
    assert_fails(lull_ckpt_load(info, &slice, 1, NULL), LULL_ERR_MISMATCH,
                 "[4,3], [4,4]");
    slice = slice_w(w);
    slice.offset[0] = 1;
    assert_fails(lull_ckpt_load(info, &slice, 1, NULL), LULL_ERR_MISMATCH,
                 "inside");
    slice.offset[0] = UINT64_MAX;
    assert_fails(lull_ckpt_load(info, &slice, 1, NULL), LULL_ERR_MISMATCH,
                 "inside");
    slice = slice_w(NULL);
    assert_fails(lull_ckpt_load(info, &slice, 1, NULL), LULL_ERR_INVALID,
                 "NULL");
    slice = slice_w(w);
    slice.name = "missing";
    assert_fails(lull_ckpt_load(info, &slice, 1, NULL), LULL_ERR_NOT_FOUND,
                 "missing tensors: 'missing'");
    lull_ckpt_load_options_t options = LULL_CKPT_LOAD_OPTIONS_INIT;
    options.allow_missing = true;
    assert_ok(lull_ckpt_load(info, &slice, 1, &options));
    const char *known[] = {"w", "tied", "s"};
    options.known = known;
    options.known_count = 3;
    assert_fails(lull_ckpt_load(info, NULL, 0, &options), LULL_ERR_NOT_FOUND,
                 "lacks: 'b/..|\xc3\xa9', 'none'");
    options.allow_extra = true;
    assert_ok(lull_ckpt_load(info, NULL, 0, &options));
    lull_ckpt_info_destroy(info);
    test_dir_remove(dir);
}

/* Memory that the CPU cannot touch: everything goes through the device. */
static void load_to_a_device(void **state) {
    (void)state;
    enum { ROWS = 700, COLUMNS = 1000 }; /* three blocks */
    char *dir = test_dir("device");
    static float values[ROWS][COLUMNS], back[ROWS][COLUMNS / 2];
    for (int i = 0; i < ROWS * COLUMNS; i++)
        values[i / COLUMNS][i % COLUMNS] = (float)i;
    test_shard_t shard = {.name = "w",
                          .dtype = LULL_F32,
                          .ndim = 2,
                          .global = {ROWS, COLUMNS},
                          .box = {{0, 0}, {ROWS, COLUMNS}},
                          .data = values};
    test_ckpt_write(&(test_ckpt_t){.dir = dir,
                                   .seq = 1,
                                   .step = 1,
                                   .world = 1,
                                   .shards = &shard,
                                   .count = 1});
    lull_ckpt_info_t *info;
    lull_device_t *device;
    void *memory;
    assert_ok(lull_ckpt_info_open(dir, (lull_ckpt_id_t){1, 1, 0}, &info));
    assert_ok(lull_device_open("sim:20", &device));
    assert_ok(lull_sim_alloc(device, sizeof back, &memory));
    lull_ckpt_load_options_t options = LULL_CKPT_LOAD_OPTIONS_INIT;
    options.device = device;
    lull_ckpt_slice_t slice = {.size = sizeof slice,
                               .name = "w",
                               .dtype = LULL_F32,
                               .ndim = 2,
                               .global_shape = {ROWS, COLUMNS},
                               .offset = {0, COLUMNS / 4},
                               .shape = {ROWS, COLUMNS / 2},
                               .data = memory};
    assert_ok(lull_ckpt_load(info, &slice, 1, &options));
    assert_ok(lull_sim_read(device, back, memory, sizeof back));
    for (int r = 0; r < ROWS; r++)
        assert_memory_equal(back[r], &values[r][COLUMNS / 4], sizeof back[r]);
    lull_sim_free(device, memory);
    lull_device_destroy(device);
    lull_ckpt_info_destroy(info);
    test_dir_remove(dir);
}

/* ---- Finding ---- */

typedef struct skips {
    int count;
    char why[512];
} skips_t;

static void on_skip(void *ctx, lull_ckpt_id_t id, const char *why) {
    skips_t *skips = ctx;
    (void)id;
    skips->count++;
    snprintf(skips->why, sizeof skips->why, "%s", why);
}

static void find_by_seq_and_fall_back(void **state) {
    (void)state;
    char *dir = test_dir("find"), path[600];
    lull_ckpt_id_t id;
    skips_t skips = {0};
    lull_ckpt_find_options_t options = LULL_CKPT_FIND_OPTIONS_INIT;
    options.on_skip = on_skip;
    options.ctx = &skips;
    assert_fails(lull_ckpt_find("/nowhere/at/all", NULL, &id),
                 LULL_ERR_NOT_FOUND, "/nowhere/at/all");
    assert_fails(lull_ckpt_find(dir, NULL, &id), LULL_ERR_NOT_FOUND,
                 "no checkpoint");
    write_small(dir, 1, 100);
    write_small(dir, 3, 300);
    write_small(dir, 4, 110); /* resumed from 100 */
    test_file_write(dir, "latest", "step-00000999\n", 14);
    snprintf(path, sizeof path, "%s/.step-00000400.partial-r-1", dir);
    mkdir(path, 0777);
    snprintf(path, sizeof path, "%s/unrelated", dir);
    mkdir(path, 0777);
    assert_ok(lull_ckpt_find(dir, &options, &id));
    assert_int_equal(id.step, 110);
    assert_int_equal(skips.count, 0);
    options.before_seq = 4;
    assert_ok(lull_ckpt_find(dir, &options, &id));
    assert_int_equal(id.step, 300);
    options.before_seq = 0;
    options.step = 100;
    assert_ok(lull_ckpt_find(dir, &options, &id));
    assert_int_equal(id.seq, 1);
    options.step = 101;
    assert_fails(lull_ckpt_find(dir, &options, &id), LULL_ERR_NOT_FOUND,
                 "step 101");

    /* The newest is damaged: a truncated data file. */
    snprintf(path, sizeof path, "%s/step-00000110/rank-00001.safetensors", dir);
    assert_int_equal(truncate(path, 4100), 0);
    options.step = LULL_LATEST;
    assert_ok(lull_ckpt_find(dir, &options, &id));
    assert_int_equal(id.step, 300);
    assert_int_equal(skips.count, 1);
    assert_non_null(strstr(skips.why, "rank-00001.safetensors"));
    options.step = 110;
    assert_fails(lull_ckpt_find(dir, &options, &id), LULL_ERR_CORRUPT,
                 "4100 bytes");

    /* Another has no manifest at all; one is a file. */
    snprintf(path, sizeof path, "%s/step-00000300/manifest.json", dir);
    assert_int_equal(unlink(path), 0);
    test_file_write(dir, "step-00000500", "x", 1);
    skips.count = 0;
    options.step = LULL_LATEST;
    assert_ok(lull_ckpt_find(dir, &options, &id));
    assert_int_equal(id.step, 100);
    assert_int_equal(skips.count, 3); /* those without seq may be newer */
    options.before_seq = 5;
    assert_ok(lull_ckpt_find(dir, &options, &id));
    assert_int_equal(skips.count, 4); /* told already */
    options.before_seq = 0;

    /* One of an older step that the hint calls the newest. */
    write_small(dir, 5, 50);
    snprintf(path, sizeof path, "%s/step-00000050", dir);
    test_file_write(path, "manifest.json", "", 0);
    skips.count = 0;
    assert_ok(lull_ckpt_find(dir, &options, &id));
    assert_int_equal(skips.count, 3);
    test_file_write(dir, "latest", "step-00000050\n", 14);
    skips.count = 0;
    assert_ok(lull_ckpt_find(dir, &options, &id));
    assert_int_equal(id.step, 100);
    assert_int_equal(skips.count, 4);
    snprintf(path, sizeof path, "%s/step-00000050.gone", dir);
    char damaged[600];
    snprintf(damaged, sizeof damaged, "%s/step-00000050", dir);
    assert_int_equal(rename(damaged, path), 0);

    lull_ckpt_entry_t *entries;
    size_t count;
    assert_ok(lull_ckpt_list(dir, &entries, &count));
    assert_int_equal(count, 4);
    assert_int_equal(entries[0].id.seq, 0);
    assert_int_equal(entries[1].id.seq, 0);
    assert_int_equal(entries[0].state, LULL_ERR_CORRUPT);
    assert_int_equal(entries[2].state, LULL_OK);
    assert_int_equal(entries[2].id.step, 100);
    assert_int_equal(entries[3].state, LULL_ERR_CORRUPT);
    assert_int_equal(entries[3].id.seq, 4);
    assert_non_null(strstr(entries[3].why, "4100 bytes"));
    lull_ckpt_entries_free(entries);
    test_dir_remove(dir);
}

static void found_where_a_crash_left_it(void **state) {
    (void)state;
    char *dir = test_dir("old"), from[600], to[600];
    lull_ckpt_id_t id;
    lull_ckpt_info_t *info;
    write_small(dir, 1, 100);
    snprintf(from, sizeof from, "%s/step-00000100", dir);
    snprintf(to, sizeof to, "%s/.step-00000100.old-r-1", dir);
    assert_int_equal(rename(from, to), 0);
    assert_ok(lull_ckpt_find(dir, NULL, &id));
    assert_int_equal(id.seq, 1);
    assert_ok(lull_ckpt_info_open(dir, id, &info));
    lull_ckpt_info_destroy(info);
    /* Its successor is there: it does not count. */
    write_small(dir, 2, 100);
    assert_ok(lull_ckpt_find(dir, NULL, &id));
    assert_int_equal(id.seq, 2);
    lull_ckpt_entry_t *entries;
    size_t count;
    assert_ok(lull_ckpt_list(dir, &entries, &count));
    assert_int_equal(count, 1);
    lull_ckpt_entries_free(entries);
    assert_fails(lull_ckpt_info_open(dir, (lull_ckpt_id_t){1, 100, 0}, &info),
                 LULL_ERR_NOT_FOUND, "seq 1");
    test_dir_remove(dir);
}

static void directory_of_another_step(void **state) {
    (void)state;
    char *dir = test_dir("moved"), from[600], to[600];
    lull_ckpt_id_t id;
    write_small(dir, 1, 100);
    snprintf(from, sizeof from, "%s/step-00000100", dir);
    snprintf(to, sizeof to, "%s/step-00000200", dir);
    assert_int_equal(rename(from, to), 0);
    lull_ckpt_find_options_t options = LULL_CKPT_FIND_OPTIONS_INIT;
    options.step = 200;
    assert_fails(lull_ckpt_find(dir, &options, &id), LULL_ERR_CORRUPT,
                 "step 100");
    test_dir_remove(dir);
}

/* A reader holds it against deletion, and reads on when it was renamed. */
static void reader_holds(void **state) {
    (void)state;
    char *dir = test_dir("hold"), from[600], to[600], path[700];
    lull_ckpt_info_t *info;
    write_small(dir, 1, 100);
    assert_ok(lull_ckpt_info_open(dir, (lull_ckpt_id_t){1, 100, 0}, &info));
    snprintf(from, sizeof from, "%s/step-00000100", dir);
    snprintf(to, sizeof to, "%s/.trash-r-0-100", dir);
    snprintf(path, sizeof path, "%s/manifest.json", from);
    int fd = open(path, O_RDONLY);
    assert_int_equal(flock(fd, LOCK_EX | LOCK_NB), -1);
    assert_int_equal(rename(from, to), 0);
    float w[12];
    lull_ckpt_slice_t slice = slice_w(w);
    assert_ok(lull_ckpt_load(info, &slice, 1, NULL));
    assert_ok(lull_ckpt_verify(info, NULL, NULL));
    lull_ckpt_info_destroy(info);
    assert_int_equal(flock(fd, LOCK_EX | LOCK_NB), 0);
    close(fd);
    test_dir_remove(dir);
}

/* Who maps a file, or has read half of it, and holds no lock, as any reader of
 * safetensors: deleting takes nothing from them. */
static void pruned_under_a_reader(void **state) {
    (void)state;
    char *dir = test_dir("mapped"), path[600], half[2048];
    size_t deleted, n;
    lull_ckpt_prune_options_t newest = LULL_CKPT_PRUNE_OPTIONS_INIT;
    newest.keep_last = 1;
    write_small(dir, 1, 100);
    write_small(dir, 2, 200);
    snprintf(path, sizeof path, "%s/step-00000100", dir);
    char *was = test_file_read(path, "rank-00000.safetensors", &n);
    snprintf(path, sizeof path, "%s/step-00000100/rank-00000.safetensors", dir);
    int fd = open(path, O_RDONLY);
    assert_true(fd >= 0 && n > 2 * sizeof half);
    char *mapped = mmap(NULL, n, PROT_READ, MAP_SHARED, fd, 0);
    assert_true(mapped != MAP_FAILED);
    assert_int_equal(read(fd, half, sizeof half), sizeof half);
    assert_ok(lull_ckpt_prune(dir, &newest, &deleted));
    assert_int_equal(deleted, 1);
    assert_int_equal(access(path, F_OK), -1);
    assert_memory_equal(mapped, was, n);
    assert_int_equal(read(fd, half, sizeof half), sizeof half);
    assert_memory_equal(half, was + sizeof half, sizeof half);
    munmap(mapped, n);
    close(fd);
    free(was);
    test_dir_remove(dir);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(small_round_trip),
        cmocka_unit_test(load_refuses),
        cmocka_unit_test(load_to_a_device),
        cmocka_unit_test(find_by_seq_and_fall_back),
        cmocka_unit_test(found_where_a_crash_left_it),
        cmocka_unit_test(directory_of_another_step),
        cmocka_unit_test(reader_holds),
        cmocka_unit_test(pruned_under_a_reader),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
