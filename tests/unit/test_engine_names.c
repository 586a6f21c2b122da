/* Names of tensors, through an engine and back. */
#include <string.h>

#include "ckpt.h"
#include "test.h"

static char dir[256];

static int make_dir(void **state) {
    (void)state;
    test_dir_make(dir);
    return 0;
}

static int drop_dir(void **state) {
    (void)state;
    test_dir_drop(dir);
    return 0;
}

/* What others have put in a path, an index or a buffer of 256 bytes. */
static void odd_names_come_back(void **state) {
    (void)state;
    enum { COUNT = 14, LONGEST = 65536 };
    static char longest[LONGEST + 2];
    memset(longest, 'n', LONGEST);
    const char *const names[COUNT] = {"/",
                                      "../../etc/passwd",
                                      "..",
                                      "a|b",
                                      "0",
                                      "123",
                                      "\xc3\xa9\xe2\x82\xac\xf0\x9f\x9a\x80",
                                      "w#1",
                                      "w#2",
                                      "a\"\\\n\x7f",
                                      " ",
                                      "%s%n",
                                      "\xef\xbf\xbf",
                                      longest};
    lull_ckpt_options_t options = test_options(dir, 0, 1);
    lull_ckpt_t *ckpt;
    assert_ok(lull_ckpt_open(&options, &ckpt));
    lull_ckpt_tensor_t tensors[COUNT];
    uint32_t values[COUNT], back[COUNT] = {0};
    for (uint32_t i = 0; i < COUNT; i++) {
        values[i] = 1000 + i;
        tensors[i] = test_tensor(names[i], LULL_U32, 1, &values[i]);
    }
    lull_ckpt_save_t save = LULL_CKPT_SAVE_INIT;
    save.step = 1;
    save.tensors = tensors;
    save.tensor_count = COUNT;
    assert_ok(lull_ckpt_save(ckpt, &save, NULL));
    assert_ok(lull_ckpt_wait_committed(ckpt, NULL, LULL_FOREVER));
    /* Twice the same is two shards of one, and they overlap. */
    save.step = 2;
    tensors[3] = tensors[0];
    assert_ok(lull_ckpt_save(ckpt, &save, NULL));
    assert_fails(lull_ckpt_wait_committed(ckpt, NULL, LULL_FOREVER),
                 LULL_ERR_MISMATCH, "'/'");
    longest[LONGEST] = 'n';
    tensors[3] = test_tensor("a|b", LULL_U32, 1, &values[3]);
    assert_fails(lull_ckpt_save(ckpt, &save, NULL), LULL_ERR_INVALID,
                 "longer than 65536");
    longest[LONGEST] = '\0';
    assert_ok(lull_ckpt_close(ckpt));
    lull_ckpt_destroy(ckpt);
    lull_ckpt_info_t *info;
    lull_ckpt_id_t id;
    lull_ckpt_slice_t slices[COUNT];
    for (uint32_t i = 0; i < COUNT; i++) {
        slices[i] = (lull_ckpt_slice_t)LULL_CKPT_SLICE_INIT;
        slices[i].name = names[i];
        slices[i].dtype = LULL_U32;
        slices[i].ndim = 1;
        slices[i].global_shape[0] = slices[i].shape[0] = 1;
        slices[i].data = &back[i];
    }
    assert_ok(lull_ckpt_find(dir, NULL, &id));
    assert_ok(lull_ckpt_info_open(dir, id, &info));
    assert_ok(lull_ckpt_verify(info, NULL, NULL));
    assert_ok(lull_ckpt_load(info, slices, COUNT, NULL));
    assert_memory_equal(back, values, sizeof back);
    lull_ckpt_info_destroy(info);
    assert_int_equal(test_count(dir, "step-"), 1);
}

/* Rows whose size was never set, or is another header's, and counts that are
 * none: told before anything is looked at by them. */
static void wrong_sizes_and_counts_are_told(void **state) {
    enum { ROWS = 16 };
    (void)state;
    lull_ckpt_options_t options = test_options(dir, 0, 1);
    lull_ckpt_t *ckpt;
    assert_ok(lull_ckpt_open(&options, &ckpt));
    lull_ckpt_tensor_t tensors[ROWS];
    lull_ckpt_save_t save = LULL_CKPT_SAVE_INIT;
    save.tensors = tensors;
    save.tensor_count = ROWS;
    for (size_t size = 0; size < sizeof *tensors; size++) {
        memset(tensors, 0x5a, sizeof tensors);
        tensors[0].size = size;
        assert_fails(lull_ckpt_save(ckpt, &save, NULL), LULL_ERR_INVALID,
                     "LULL_CKPT_TENSOR_INIT");
    }
    uint32_t value = 1;
    tensors[0] = test_tensor("a", LULL_U32, 1, &value);
    lull_ckpt_state_t host = {0};
    lull_ckpt_meta_t meta = {"key", "value"};
    save.states = &host;
    save.meta = &meta;
    size_t *counts[] = {&save.tensor_count, &save.state_count,
                        &save.meta_count};
    for (size_t i = 0; i < 3; i++) {
        save.tensor_count = 1;
        save.state_count = save.meta_count = 0;
        *counts[i] = SIZE_MAX; /* -1 of an int */
        assert_fails(lull_ckpt_save(ckpt, &save, NULL), LULL_ERR_INVALID,
                     "18446744073709551615");
    }
    lull_ckpt_destroy(ckpt);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(odd_names_come_back, make_dir,
                                        drop_dir),
        cmocka_unit_test_setup_teardown(wrong_sizes_and_counts_are_told,
                                        make_dir, drop_dir)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
