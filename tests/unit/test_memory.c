/* The memory of an engine beside its staging buffer (and the 12 MiB that are
 * coded into): 16 MiB, and for each tensor of a pending save 512 bytes and
 * twice its name. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "allocations.h"
#include "ckpt.h"
#include "faultio.h"
#include "test.h"

#define MIB ((uint64_t)1 << 20)
#define TENSORS ((size_t)100000)
#define NAME 48

static char dir[256];
static faultio_t fault;
static char names[TENSORS][NAME + 1];
static float values[TENSORS];
static lull_ckpt_tensor_t tensors[TENSORS];

static int set_up(void **state) {
    (void)state;
    ckpt_room_in_memory();
    test_dir_make(dir);
    for (size_t i = 0; i < TENSORS; i++) {
        snprintf(names[i], sizeof names[i], "%0*zu", NAME, i * 7919 % TENSORS);
        tensors[i] = test_tensor(names[i], LULL_F32, 1, &values[i]);
    }
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    lull__io_set_default(NULL);
    test_dir_drop(dir);
    return 0;
}

/* So many saves are pending at once, their writes being slow. */
static void saves_pending(uint32_t pending, const char *codec) {
    lull_ckpt_t *ckpt;
    uint64_t most, before;
    lull_ckpt_options_t options = test_options(dir, 0, 1);
    options.max_pending = pending;
    options.codec = codec;
    faultio_init(&fault);
    fault.ops = FAULT_WRITE;
    fault.slow_s = 0.002;
    lull__io_set_default(&fault.io);
    before = allocations_held(&most);
    assert_ok(lull_ckpt_open(&options, &ckpt));
    lull_ckpt_save_t save = LULL_CKPT_SAVE_INIT;
    save.tensors = tensors;
    save.tensor_count = TENSORS;
    for (save.step = 0; save.step < pending; save.step++)
        assert_ok(lull_ckpt_save(ckpt, &save, NULL));
    assert_ok(lull_ckpt_close(ckpt));
    lull_ckpt_destroy(ckpt);
    assert_int_equal(allocations_held(&most), before);
    uint64_t each = (most - before) / (pending * TENSORS);
    printf("%u pending%s: %llu KiB at most, %llu bytes a tensor and save\n",
           pending, codec ? ", coded" : "",
           (unsigned long long)(most - before) >> 10, (unsigned long long)each);
    assert_true(most - before > pending * TENSORS * NAME);
    assert_true(most - before <= options.buffer_bytes +
                                     (codec ? 28 : 16) * MIB +
                                     pending * TENSORS * (512 + 2 * NAME));
    lull__io_set_default(NULL);
}

static void saving(void **state) {
    (void)state;
    saves_pending(1, NULL);
    saves_pending(3, NULL);
}

static void saving_coded(void **state) {
    (void)state;
    saves_pending(1, "expo");
    saves_pending(3, "expo");
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {TEST(saving), TEST(saving_coded)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
