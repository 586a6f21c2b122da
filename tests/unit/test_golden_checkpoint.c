/* ckpt: the golden checkpoints, which lull did not write: good/ has to be
 * read for ever, each of bad/ has to be refused (tests/golden/checkpoint). */
#include <dirent.h>
#include <lull/ckpt.h>
#include <stdio.h>

#include "test.h"

#define GOLDEN TEST_SOURCES "/golden/checkpoint"

static void read_good(const char *dir) {
    lull_ckpt_id_t id;
    lull_ckpt_info_t *info;
    lull_ckpt_entry_t entry;
    assert_ok(lull_ckpt_find(dir, NULL, &id));
    assert_ok(lull_ckpt_info_open(dir, id, &info));
    assert_ok(lull_ckpt_info_entry(info, &entry));
    assert_int_equal(entry.id.seq, 7);
    assert_int_equal(entry.id.step, 100);
    assert_int_equal(entry.parent_seq, 5);
    assert_int_equal(entry.time, 1700000000);
    assert_string_equal(lull_ckpt_info_meta(info, "note"),
                        "a \"golden\" one\n");
    float w[12];
    uint16_t h;
    lull_ckpt_slice_t slices[2] = {{.size = sizeof slices[0],
                                    .name = "tied",
                                    .dtype = LULL_F32,
                                    .ndim = 2,
                                    .global_shape = {4, 3},
                                    .shape = {4, 3},
                                    .data = w},
                                   {.size = sizeof slices[0],
                                    .name = "h/\xc3\xa9",
                                    .dtype = LULL_BF16,
                                    .data = &h}};
    assert_ok(lull_ckpt_load(info, slices, 2, NULL));
    for (int i = 0; i < 12; i++)
        assert_true(w[i] == (float)i);
    assert_int_equal(h, 0x3f80);
    char text[3];
    size_t bytes;
    assert_ok(lull_ckpt_info_state(info, "clock", 1, text, 3, &bytes));
    assert_memory_equal(text, "abc", 3);
    assert_ok(lull_ckpt_info_state(info, "rng", 1, text, 3, &bytes));
    assert_int_equal(text[0], 1);
    lull_ckpt_rank_info_t rank;
    assert_true(lull_ckpt_info_rank_at(info, 1, &rank));
    assert_int_equal(rank.shards, 2);
    assert_ok(lull_ckpt_verify(info, NULL, NULL));
    lull_ckpt_info_destroy(info);
}

static void good(void **state) {
    (void)state;
    read_good(GOLDEN "/good");
}

/* The same in one file. */
static void merged(void **state) {
    (void)state;
    read_good(GOLDEN "/merged");
}

/* place-0 and place-1 are the two places of one checkpoint. */
static void places(void **state) {
    (void)state;
    for (uint64_t place = 0; place < 2; place++) {
        lull_ckpt_id_t id;
        lull_ckpt_info_t *info;
        float w[6];
        const char *dir = place ? GOLDEN "/place-1" : GOLDEN "/place-0";
        assert_ok(lull_ckpt_find(dir, NULL, &id));
        assert_ok(lull_ckpt_info_open(dir, id, &info));
        assert_ok(lull_ckpt_verify(info, NULL, NULL));
        lull_ckpt_slice_t slice = {.size = sizeof slice,
                                   .name = "w",
                                   .dtype = LULL_F32,
                                   .ndim = 2,
                                   .global_shape = {4, 3},
                                   .offset = {2 * place, 0},
                                   .shape = {2, 3},
                                   .data = w};
        assert_ok(lull_ckpt_load(info, &slice, 1, NULL));
        for (int i = 0; i < 6; i++)
            assert_true(w[i] == (float)(6 * (int)place + i));
        slice.offset[0] = 1;
        assert_fails(lull_ckpt_load(info, &slice, 1, NULL), LULL_ERR_NOT_FOUND,
                     place ? "a:/disk: rank-00000" : "b:/disk: rank-00001");
        lull_ckpt_info_destroy(info);
    }
}

static lull_status_t read_bad(const char *dir) {
    lull_ckpt_id_t id;
    lull_ckpt_info_t *info;
    lull_ckpt_find_options_t options = LULL_CKPT_FIND_OPTIONS_INIT;
    options.step = 100;
    lull_status_t status = lull_ckpt_find(dir, &options, &id);
    if (status != LULL_OK)
        return status;
    status = lull_ckpt_info_open(dir, id, &info);
    if (status != LULL_OK)
        return status;
    status = lull_ckpt_verify(info, NULL, NULL);
    lull_ckpt_info_destroy(info);
    return status;
}

static void bad(void **state) {
    (void)state;
    unsigned count = 0;
    DIR *dir = opendir(GOLDEN "/bad");
    assert_non_null(dir);
    for (struct dirent *e; (e = readdir(dir)) != NULL;) {
        char path[1024];
        if (e->d_name[0] == '.')
            continue;
        snprintf(path, sizeof path, GOLDEN "/bad/%s", e->d_name);
        lull_status_t wanted = strstr(e->d_name, "version") != NULL
                                   ? LULL_ERR_VERSION
                                   : LULL_ERR_CORRUPT;
        lull_status_t status = read_bad(path);
        printf("%-14s %s\n", e->d_name,
               status == LULL_OK ? "accepted"
                                 : strstr(lull_last_error(), "/bad/"));
        assert_int_equal(status, wanted);
        count++;
    }
    closedir(dir);
    assert_true(count >= 32);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(good), cmocka_unit_test(places),
        cmocka_unit_test(merged), cmocka_unit_test(bad)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
