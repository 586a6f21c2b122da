/* ckpt: finding, opening, loading and verifying checkpoints. */
#include <dirent.h>
#include <fcntl.h>
#include <lull/codec.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ckpt_writer.h"
#include "support.h"
#include "test.h"

/* ---- A small checkpoint of two ranks ---- */

static const float w_top[6] = {1, 2, 3, 4, 5, 6};
static const float w_low[6] = {7, 8, 9, 10, 11, 12};
static const uint16_t bias[3] = {100, 200, 300};
static const double scalar = 2.5;

static const test_shard_t small_shards[] = {
    {0,
     "w",
     LULL__SHARD_TENSOR,
     LULL_F32,
     2,
     {4, 3},
     {{0, 0}, {2, 3}},
     w_top,
     NULL},
    {0,
     "b/..|\xc3\xa9",
     LULL__SHARD_TENSOR,
     LULL_BF16,
     1,
     {3},
     {{0}, {3}},
     bias,
     NULL},
    {0,
     "none",
     LULL__SHARD_TENSOR,
     LULL_F32,
     2,
     {0, 3},
     {{0}, {0, 3}},
     NULL,
     NULL},
    {0,
     "loader",
     LULL__SHARD_STATE,
     LULL_U8,
     1,
     {5},
     {{0}, {5}},
     "state",
     NULL},
    {0,
     "rng",
     LULL__SHARD_STATE_RANK,
     LULL_U8,
     1,
     {4},
     {{0}, {4}},
     "rng0",
     NULL},
    {1,
     "w",
     LULL__SHARD_TENSOR,
     LULL_F32,
     2,
     {4, 3},
     {{2, 0}, {2, 3}},
     w_low,
     NULL},
    {1, "s", LULL__SHARD_TENSOR, LULL_F64, 0, {0}, {{0}, {0}}, &scalar, NULL},
    {1,
     "rng",
     LULL__SHARD_STATE_RANK,
     LULL_U8,
     1,
     {4},
     {{0}, {4}},
     "rng1",
     NULL},
};
static const lull_ckpt_meta_t small_meta[] = {{"model.model_type", "gpt_neox"},
                                              {"note", "a \"b\"\n"}};
static const lull_ckpt_meta_t small_aliases[] = {{"tied", "w"}};

static void write_small(const char *dir, uint64_t seq, uint64_t step) {
    test_ckpt_write(
        &(test_ckpt_t){.dir = dir,
                       .seq = seq,
                       .step = step,
                       .parent = seq - 1,
                       .world = 2,
                       .shards = small_shards,
                       .count = sizeof small_shards / sizeof *small_shards,
                       .meta = small_meta,
                       .meta_count = 2,
                       .aliases = small_aliases,
                       .alias_count = 1});
}

static lull_ckpt_slice_t slice_w(void *to) {
    return (lull_ckpt_slice_t){.size = sizeof(lull_ckpt_slice_t),
                               .name = "w",
                               .dtype = LULL_F32,
                               .ndim = 2,
                               .global_shape = {4, 3},
                               .shape = {4, 3},
                               .data = to};
}

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
    assert_ok(lull_ckpt_info_open(dir, (lull_ckpt_id_t){1, 1}, &info));
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
    assert_ok(lull_ckpt_info_open(dir, (lull_ckpt_id_t){1, 1}, &info));
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
    assert_fails(lull_ckpt_info_open(dir, (lull_ckpt_id_t){1, 100}, &info),
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
    assert_ok(lull_ckpt_info_open(dir, (lull_ckpt_id_t){1, 100}, &info));
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
        /* All of a header's padding is alike: sample it. */
        if (n > 3000 && i > 1500 && i < 4090 && i % 97 != 0)
            continue;
        memcpy(bad, good, n);
        bad[i] = (char)(bad[i] ^ 1 << i % 8);
        test_file_write(sub, name, bad, n);
        if (read_all(dir) != LULL_ERR_CORRUPT)
            fail_msg("%s: byte %zu flipped: not found", name, i);
        assert_non_null(strstr(lull_last_error(), name));
    }
    for (size_t cut = 0; cut<n; cut += n> 3000 ? 61 : 1) {
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

static void every_byte_counts(void **state) {
    (void)state;
    char *dir = test_dir("damage");
    write_small(dir, 1, 100);
    assert_ok(read_all(dir));
    damage_file(dir, "manifest.json");
    damage_file(dir, "rank-00000.json");
    damage_file(dir, "rank-00001.json");
    damage_file(dir, "rank-00000.safetensors");
    damage_file(dir, "rank-00001.safetensors");
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
    assert_ok(lull_ckpt_info_open(dir, (lull_ckpt_id_t){1, 100}, &info));
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
    lull_ckpt_id_t id = {1, 100};
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
    assert_ok(lull_ckpt_info_open(dir, (lull_ckpt_id_t){9, 900}, &info));
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
    assert_fails(lull_ckpt_info_open(dir, (lull_ckpt_id_t){1, 1}, &info),
                 LULL_ERR_CORRUPT, "'w': parts of it are missing");
    test_shard_t twice[2] = {small_shards[1], small_shards[1]};
    ckpt = (test_ckpt_t){.dir = dir,
                         .seq = 2,
                         .step = 2,
                         .world = 1,
                         .shards = twice,
                         .count = 2};
    test_ckpt_write(&ckpt);
    assert_fails(lull_ckpt_info_open(dir, (lull_ckpt_id_t){2, 2}, &info),
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
    assert_fails(lull_ckpt_info_open(dir, (lull_ckpt_id_t){3, 3}, &info),
                 LULL_ERR_CORRUPT, "disagree");
    lull_ckpt_meta_t lost = {"x", "y"};
    ckpt = (test_ckpt_t){.dir = dir,
                         .seq = 4,
                         .step = 4,
                         .world = 1,
                         .aliases = &lost,
                         .alias_count = 1};
    test_ckpt_write(&ckpt);
    assert_fails(lull_ckpt_info_open(dir, (lull_ckpt_id_t){4, 4}, &info),
                 LULL_ERR_CORRUPT, "'x'");
    test_dir_remove(dir);
}

/* ---- Codecs ---- */

/* Frames of 1 MiB of raw data, as an engine makes them. */
static void encode(const test_shard_t *shard, uint64_t raw, lull__memory_t *to,
                   uint64_t **frames, uint64_t *frame_count) {
    lull_codec_t codec;
    lull_codec_scratch_t *scratch;
    unsigned width = lull_dtype_bits(shard->dtype) / 8;
    assert_ok(lull_codec_parse(shard->codec, shard->dtype, &codec));
    assert_ok(lull_codec_scratch_create(&scratch));
    *frame_count = (raw + LULL__FRAME_BYTES - 1) / LULL__FRAME_BYTES;
    *frames = calloc(*frame_count + 1, sizeof **frames);
    for (uint64_t i = 0; i < *frame_count; i++) {
        uint64_t n = raw - i * LULL__FRAME_BYTES;
        n = n < LULL__FRAME_BYTES ? n : LULL__FRAME_BYTES;
        lull_buffer_t out = {0};
        assert_ok(lull_frame_bound(&codec, n / width, &out.capacity));
        out.data = malloc(out.capacity);
        assert_ok(lull_frame_encode(
            &codec, (const char *)shard->data + i * LULL__FRAME_BYTES,
            n / width, 0, &out, scratch));
        assert_ok(lull__out_to_memory(to, out.data, out.bytes));
        (*frames)[i] = out.bytes;
        free(out.data);
    }
    lull_codec_scratch_destroy(scratch);
}

/* A frame that is not what the vote says: its bytes are as they were written,
 * so only decoding can tell. */
static void encode_another(const test_shard_t *shard, uint64_t raw,
                           lull__memory_t *to, uint64_t **frames,
                           uint64_t *frame_count) {
    test_shard_t other = *shard;
    if (strcmp(shard->name, "dtype") == 0)
        other.dtype = LULL_I32;
    if (strcmp(shard->name, "length") == 0) {
        encode(&other, raw - 4, to, frames, frame_count);
        return;
    }
    size_t before = to->bytes;
    encode(&other, raw, to, frames, frame_count);
    if (strcmp(shard->name, "magic") == 0)
        to->data[before] ^= 1;
}

static void frames_that_lie(void **state) {
    (void)state;
    static const char *const names[] = {"dtype", "length", "magic"};
    char *dir = test_dir("frames");
    static float data[1000], back[1000];
    test_ckpt_encode = encode_another;
    for (uint64_t i = 0; i < 3; i++) {
        test_shard_t shard = {.name = names[i],
                              .dtype = LULL_F32,
                              .ndim = 1,
                              .global = {1000},
                              .box = {{0}, {1000}},
                              .data = data,
                              .codec = "raw"};
        test_ckpt_write(&(test_ckpt_t){.dir = dir,
                                       .seq = i + 1,
                                       .step = i,
                                       .world = 1,
                                       .shards = &shard,
                                       .count = 1});
        lull_ckpt_info_t *info;
        assert_ok(lull_ckpt_info_open(dir, (lull_ckpt_id_t){i + 1, i}, &info));
        lull_ckpt_tensor_info_t tensor;
        assert_true(lull_ckpt_info_tensor_at(info, 0, &tensor));
        assert_string_equal(tensor.codec, "raw");
        lull_ckpt_slice_t slice = {.size = sizeof slice,
                                   .name = names[i],
                                   .dtype = LULL_F32,
                                   .ndim = 1,
                                   .global_shape = {1000},
                                   .shape = {1000},
                                   .data = back};
        lull_status_t status = lull_ckpt_load(info, &slice, 1, NULL);
        assert_int_not_equal(status, LULL_OK);
        assert_non_null(strstr(lull_last_error(), names[i]));
        assert_non_null(strstr(lull_last_error(), "frame 0"));
        lull_ckpt_info_destroy(info);
    }
    test_ckpt_encode = encode;
    test_dir_remove(dir);
}

/* ---- Any layout to any layout ---- */

#define MOST_TENSORS 6
#define MOST_SHARDS 64

typedef struct world {
    uint64_t seed;
    struct {
        char name[24];
        lull_dtype_t dtype;
        uint32_t ndim;
        uint64_t shape[LULL_MAX_DIMS];
    } tensors[MOST_TENSORS];
    size_t count;
    test_shard_t shards[MOST_SHARDS];
    size_t shard_count;
} world_t;

static uint64_t below(world_t *world, uint64_t n) {
    return test_random(&world->seed) % n;
}

/* The byte that belongs at byte `byte` of the element with a global index. */
static unsigned char value(size_t tensor, uint64_t index, unsigned byte) {
    uint64_t x = (index + 1) * 0x9e3779b97f4a7c15u + tensor * 0x1234567u;
    x ^= x >> 29;
    return (unsigned char)(x * 0xbf58476d1ce4e5b9u >> (8 * byte));
}

/* Fills, or checks against, what a box must hold. False: it differs. */
static bool visit(const world_t *world, size_t t, const lull__box_t *box,
                  unsigned char *data, bool check) {
    uint32_t ndim = world->tensors[t].ndim;
    unsigned width = lull_dtype_bits(world->tensors[t].dtype) / 8;
    uint64_t volume;
    assert_true(lull__shape_volume(ndim, box->shape, &volume));
    for (uint64_t e = 0; e < volume; e++) {
        uint64_t rest = e, index = 0, stride = 1;
        for (uint32_t d = ndim; d-- > 0;) {
            index += (box->offset[d] + rest % box->shape[d]) * stride;
            rest /= box->shape[d];
            stride *= world->tensors[t].shape[d];
        }
        for (unsigned b = 0; b < width; b++) {
            unsigned char *at = &data[e * width + b];
            if (check && *at != value(t, index, b))
                return false;
            *at = value(t, index, b);
        }
    }
    return true;
}

static unsigned char *box_data(const world_t *world, size_t t,
                               const lull__box_t *box) {
    uint64_t bytes;
    assert_ok(lull__shape_bytes(world->tensors[t].dtype, world->tensors[t].ndim,
                                box->shape, &bytes));
    return malloc(bytes + 1);
}

static void split(world_t *world, size_t t, lull__box_t box, unsigned depth) {
    uint32_t ndim = world->tensors[t].ndim;
    uint32_t d = ndim > 0 ? (uint32_t)below(world, ndim) : 0;
    if (depth > 0 && ndim > 0 && box.shape[d] > 1) {
        uint64_t at = below(world, box.shape[d] + 1);
        lull__box_t low = box, high = box;
        low.shape[d] = at;
        high.offset[d] += at;
        high.shape[d] -= at;
        split(world, t, low, depth - 1);
        split(world, t, high, depth - 1);
        return;
    }
    test_shard_t *shard = &world->shards[world->shard_count++];
    *shard = (test_shard_t){.name = world->tensors[t].name,
                            .dtype = world->tensors[t].dtype,
                            .ndim = ndim,
                            .box = box};
    memcpy(shard->global, world->tensors[t].shape, sizeof shard->global);
    unsigned char *data = box_data(world, t, &box);
    visit(world, t, &box, data, false);
    shard->data = data;
    if (shard->dtype == LULL_F32 || shard->dtype == LULL_F64)
        shard->codec = below(world, 3) == 0   ? "mpc:1"
                       : below(world, 3) == 0 ? "raw"
                                              : NULL;
}

static void invent(world_t *world, uint32_t ranks, bool large) {
    static const lull_dtype_t dtypes[] = {LULL_U8,  LULL_BF16, LULL_F32,
                                          LULL_F64, LULL_BOOL, LULL_I64};
    world->count = 1 + below(world, MOST_TENSORS);
    world->shard_count = 0;
    for (size_t t = 0; t < world->count; t++) {
        snprintf(world->tensors[t].name, 24, "t%zu", t);
        world->tensors[t].dtype = dtypes[below(world, 6)];
        world->tensors[t].ndim = (uint32_t)below(world, 5);
        memset(world->tensors[t].shape, 0, sizeof world->tensors[t].shape);
        for (uint32_t d = 0; d < world->tensors[t].ndim; d++)
            world->tensors[t].shape[d] =
                below(world, 12) == 0 ? 0 : 1 + below(world, 9);
        if (large && t == 0) {
            world->tensors[t].dtype = LULL_F32;
            world->tensors[t].ndim = 2;
            world->tensors[t].shape[0] = 100 + below(world, 900);
            world->tensors[t].shape[1] = 1000 + below(world, 1000);
        }
        split(world, t,
              test_whole(world->tensors[t].ndim, world->tensors[t].shape),
              (unsigned)below(world, 4));
    }
    for (size_t i = 0; i < world->shard_count; i++)
        world->shards[i].rank = (uint32_t)below(world, ranks);
}

static void random_slice(world_t *world, lull_ckpt_slice_t *slice,
                         lull__box_t *box, size_t *tensor) {
    size_t t = below(world, world->count);
    *slice = (lull_ckpt_slice_t)LULL_CKPT_SLICE_INIT;
    slice->name = world->tensors[t].name;
    slice->dtype = world->tensors[t].dtype;
    slice->ndim = world->tensors[t].ndim;
    memset(box, 0, sizeof *box);
    for (uint32_t d = 0; d < slice->ndim; d++) {
        uint64_t whole = world->tensors[t].shape[d];
        slice->global_shape[d] = whole;
        box->offset[d] = below(world, 3) == 0 ? 0 : below(world, whole + 1);
        box->shape[d] = below(world, 2) == 0
                            ? whole - box->offset[d]
                            : below(world, whole - box->offset[d] + 1);
    }
    memcpy(slice->offset, box->offset, sizeof slice->offset);
    memcpy(slice->shape, box->shape, sizeof slice->shape);
    slice->data = box_data(world, t, box);
    *tensor = t;
}

static void one_layout(world_t *world, bool large) {
    enum { SLICES = 12 };
    uint32_t ranks = 1 + (uint32_t)below(world, 5);
    char *dir = test_dir("layout");
    invent(world, ranks, large);
    test_ckpt_write(&(test_ckpt_t){.dir = dir,
                                   .seq = 1,
                                   .step = 1,
                                   .world = ranks,
                                   .shards = world->shards,
                                   .count = world->shard_count});
    lull_ckpt_info_t *info;
    assert_ok(lull_ckpt_info_open(dir, (lull_ckpt_id_t){1, 1}, &info));
    assert_ok(lull_ckpt_verify(info, NULL, NULL));
    lull_ckpt_slice_t slices[SLICES];
    lull__box_t boxes[SLICES];
    size_t tensors[SLICES];
    for (int i = 0; i < SLICES; i++)
        random_slice(world, &slices[i], &boxes[i], &tensors[i]);
    lull_ckpt_load_options_t options = LULL_CKPT_LOAD_OPTIONS_INIT;
    options.threads = 1 + (uint32_t)below(world, 4);
    assert_ok(lull_ckpt_load(info, slices, SLICES, &options));
    for (int i = 0; i < SLICES; i++) {
        if (!visit(world, tensors[i], &boxes[i], slices[i].data, true))
            fail_msg("slice %d of %s differs", i, slices[i].name);
        free(slices[i].data);
    }
    for (size_t i = 0; i < world->shard_count; i++)
        free((void *)world->shards[i].data);
    lull_ckpt_info_destroy(info);
    test_dir_remove(dir);
}

static void any_layout_to_any_layout(void **state) {
    (void)state;
    world_t *world = calloc(1, sizeof *world);
    world->seed = test_seed();
    test_ckpt_encode = encode;
    for (int i = 0; i < 150; i++)
        one_layout(world, i % 10 == 0);
    free(world);
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
        cmocka_unit_test(every_byte_counts),
        cmocka_unit_test(load_finds_damage_by_itself),
        cmocka_unit_test(litter),
        cmocka_unit_test(pipes_and_nulls),
        cmocka_unit_test(shards_that_do_not_tile),
        cmocka_unit_test(frames_that_lie),
        cmocka_unit_test(any_layout_to_any_layout),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
