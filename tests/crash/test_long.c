/* 10,000 saves of one engine: descriptors, memory and files stay flat. In
 * memory where there is a tmpfs; LULL_TEST_SAVES sets the number. */
#include <lull/ckpt.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ckpt.h"
#include "test.h"

#define BEGINNING 500

/* Resident memory; 0: not known, or a sanitizer keeps what is freed. */
static unsigned long resident(void) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    return 0;
#else
    unsigned long size, pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    if (file != NULL && fscanf(file, "%lu %lu", &size, &pages) != 2)
        pages = 0;
    if (file != NULL)
        fclose(file);
    return pages * (unsigned long)sysconf(_SC_PAGESIZE);
#endif
}

static void save_one(lull_ckpt_t *ckpt, uint64_t step) {
    static uint32_t x[1000];
    lull_ckpt_tensor_t tensor = test_tensor("x", LULL_U32, 1000, x);
    lull_ckpt_state_t states = {"step", &step, sizeof step, false};
    lull_ckpt_meta_t meta = {"note", "one of many"};
    lull_ckpt_save_t save = LULL_CKPT_SAVE_INIT;
    /* Some are saved again. */
    save.step = step - step % 3;
    save.tensors = &tensor;
    save.tensor_count = 1;
    save.states = &states;
    save.state_count = 1;
    save.meta = &meta;
    save.meta_count = 1;
    assert_ok(lull_ckpt_save(ckpt, &save, NULL));
}

static void ten_thousand_saves(void **state) {
    (void)state;
    const char *given = getenv("LULL_TEST_SAVES");
    uint64_t saves = given ? strtoull(given, NULL, 10) : 10000;
    lull_ckpt_options_t options = test_options(ckpt_room, 0, 1);
    lull_ckpt_t *ckpt;
    unsigned descriptors = 0;
    unsigned long memory = 0;
    options.keep_last = 3;
    options.keep_every = saves / 2;
    assert_ok(lull_ckpt_open(&options, &ckpt));
    for (uint64_t i = 0; i < saves; i++) {
        save_one(ckpt, i);
        if (i != BEGINNING)
            continue;
        assert_ok(lull_ckpt_wait_committed(ckpt, NULL, LULL_FOREVER));
        descriptors = test_descriptors();
        memory = resident();
    }
    assert_ok(lull_ckpt_wait_committed(ckpt, NULL, LULL_FOREVER));
    printf("resident: %lu KiB after %d saves, %lu after %llu\n", memory >> 10,
           BEGINNING, resident() >> 10, (unsigned long long)saves);
    /* What waits to be deleted holds two each. */
    assert_true(test_descriptors() <= descriptors + 12);
    assert_true(resident() <= memory + (4ul << 20));
    assert_ok(lull_ckpt_close(ckpt));
    lull_ckpt_destroy(ckpt);
    assert_true(test_count(ckpt_room, "step-") <= 5);
    assert_int_equal(test_count(ckpt_room, "."), 1);
}

int main(void) {
    ckpt_room_in_memory();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(ten_thousand_saves, ckpt_room_make,
                                        ckpt_room_drop),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
