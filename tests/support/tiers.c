/* A state of several ranks, for tests of tiers. */
#include "tiers.h"

#include <stdlib.h>
#include <string.h>

#include "ckpt.h"
#include "test.h"

uint32_t test_tiers_rows = 70001;

#define ROWS test_tiers_rows
#define ODD 1003

typedef struct state {
    uint32_t rows[TIERS_ROWS_MAX];
    uint16_t half[ODD];
    uint8_t bytes[ODD];
} state_t;

static void fill(state_t *state, uint64_t version) {
    test_fill(state->rows, ROWS * sizeof *state->rows, version);
    test_fill(state->half, sizeof state->half, version + 1);
    test_fill(state->bytes, sizeof state->bytes, version + 2);
}

/* Part `i` of `n` of a one-dimensional tensor. */
static lull_ckpt_tensor_t part(const char *name, lull_dtype_t dtype,
                               uint64_t count, const void *data, uint64_t i,
                               uint64_t n) {
    uint64_t begin = count * i / n, end = count * (i + 1) / n;
    size_t width = lull_dtype_bits(dtype) / 8;
    lull_ckpt_tensor_t tensor = test_tensor(name, dtype, end - begin,
                                            (const char *)data + begin * width);
    tensor.global_shape[0] = count;
    tensor.offset[0] = begin;
    return tensor;
}

static void save_rank(lull_ckpt_t *ckpt, uint32_t rank, uint32_t world,
                      uint64_t step, const uint64_t *version,
                      const state_t *state) {
    uint64_t mine = *version * 100 + rank;
    lull_ckpt_tensor_t tensors[5];
    tensors[0] = part("b.bytes", LULL_U8, ODD, state->bytes, rank, world);
    tensors[1] = part("rows", LULL_U32, ROWS, state->rows, 2 * rank, 2 * world);
    tensors[2] =
        part("rows", LULL_U32, ROWS, state->rows, 2 * rank + 1, 2 * world);
    tensors[3] = part("half", LULL_BF16, ODD, state->half, rank, world);
    tensors[4] = test_tensor("tied", LULL_U32, 0, NULL);
    tensors[4].alias_of = "rows";
    lull_ckpt_state_t states[2] = {{"version", version, sizeof *version, false},
                                   {"mine", &mine, sizeof mine, true}};
    lull_ckpt_meta_t meta = {"model", "a small one"};
    lull_ckpt_save_t save = LULL_CKPT_SAVE_INIT;
    save.step = step;
    save.tensors = tensors;
    save.tensor_count = 5;
    save.states = states;
    save.state_count = 2;
    save.meta = &meta;
    save.meta_count = 1;
    assert_ok(lull_ckpt_save(ckpt, &save, NULL));
}

void test_tiers_save(lull_ckpt_t **ranks, uint32_t world, uint64_t step,
                     uint64_t version) {
    static state_t state;
    fill(&state, version);
    for (uint32_t r = 0; r < world; r++)
        save_rank(ranks[r], r, world, step, &version, &state);
    for (uint32_t r = 0; r < world; r++)
        assert_ok(lull_ckpt_wait_committed(ranks[r], NULL, LULL_FOREVER));
}

static lull_ckpt_slice_t slice(const char *name, lull_dtype_t dtype,
                               uint64_t count, void *data) {
    lull_ckpt_slice_t all = LULL_CKPT_SLICE_INIT;
    all.name = name;
    all.dtype = dtype;
    all.ndim = 1;
    all.global_shape[0] = all.shape[0] = count;
    all.data = data;
    return all;
}

static void check_ranks(const lull_ckpt_info_t *info, uint64_t version) {
    lull_ckpt_entry_t entry;
    lull_ckpt_rank_info_t rank;
    uint64_t mine;
    size_t n;
    assert_ok(lull_ckpt_info_entry(info, &entry));
    for (uint32_t r = 0; r < entry.world; r++) {
        assert_ok(
            lull_ckpt_info_state(info, "mine", r, &mine, sizeof mine, &n));
        assert_int_equal(mine, version * 100 + r);
        assert_true(lull_ckpt_info_rank_at(info, r, &rank));
        assert_int_equal(rank.shards, 5 + (r == 0));
    }
    assert_false(lull_ckpt_info_rank_at(info, entry.world, &rank));
    assert_string_equal(lull_ckpt_info_meta(info, "model"), "a small one");
}

uint64_t test_tiers_version(const char *dir, lull_ckpt_id_t id) {
    static state_t expected, back;
    static uint32_t tied[TIERS_ROWS_MAX];
    lull_ckpt_info_t *info;
    uint64_t version = 0;
    size_t n;
    assert_ok(lull_ckpt_info_open(dir, id, &info));
    assert_ok(lull_ckpt_verify(info, NULL, NULL));
    assert_ok(
        lull_ckpt_info_state(info, "version", 0, &version, sizeof version, &n));
    lull_ckpt_slice_t slices[] = {slice("rows", LULL_U32, ROWS, back.rows),
                                  slice("tied", LULL_U32, ROWS, tied),
                                  slice("half", LULL_BF16, ODD, back.half),
                                  slice("b.bytes", LULL_U8, ODD, back.bytes)};
    lull_ckpt_load_options_t load = LULL_CKPT_LOAD_OPTIONS_INIT;
    assert_ok(lull_ckpt_load(info, slices, 4, &load));
    fill(&expected, version);
    size_t bytes = ROWS * sizeof *tied;
    assert_memory_equal(back.rows, expected.rows, bytes);
    assert_memory_equal(tied, expected.rows, bytes);
    assert_memory_equal(back.half, expected.half, sizeof back.half);
    assert_memory_equal(back.bytes, expected.bytes, sizeof back.bytes);
    check_ranks(info, version);
    lull_ckpt_info_destroy(info);
    return version;
}

uint64_t test_tiers_newest(const char *dir) {
    lull_ckpt_id_t id;
    lull_status_t status = lull_ckpt_find(dir, NULL, &id);
    if (status == LULL_ERR_NOT_FOUND)
        return 0;
    assert_ok(status);
    return test_tiers_version(dir, id);
}

uint64_t test_tiers_newest_of(const char *fast, const char *slow) {
    const char *dirs[] = {fast, slow};
    lull_ckpt_id_t id;
    size_t index;
    assert_ok(lull_ckpt_find_in(dirs, 2, NULL, &id, &index));
    return test_tiers_version(dirs[index], id);
}

size_t test_tiers_all_whole(const char *dir) {
    lull_ckpt_entry_t *entries;
    size_t count;
    lull_status_t status = lull_ckpt_list(dir, &entries, &count);
    if (status == LULL_ERR_NOT_FOUND)
        return 0;
    assert_ok(status);
    for (size_t i = 0; i < count; i++) {
        if (entries[i].state != LULL_OK)
            fail_msg("%s/%s: %s", dir, entries[i].name, entries[i].why);
        (void)test_tiers_version(dir, entries[i].id);
    }
    lull_ckpt_entries_free(entries);
    return count;
}
