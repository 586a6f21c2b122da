/* The engine on a device with streams: nothing is read before the kernels
 * that produce it are done, and copies run beside the caller. */
#include <stdlib.h>
#include <string.h>

#include "base/thread.h"
#include "ckpt.h"
#include "test.h"

#define BYTES ((size_t)3 << 20)

static void write_step(void *ctx, void *data, size_t bytes) {
    test_fill(data, bytes, *(uint64_t *)ctx);
}

typedef struct rig {
    lull_device_t *device;
    lull_stream_t stream;
    void *tensor;
    lull_ckpt_t *ckpt;
} rig_t;

static void rig_up(rig_t *rig, lull_ckpt_options_t options) {
    assert_ok(lull_device_open("sim:2", &rig->device));
    assert_ok(lull_sim_alloc(rig->device, BYTES, &rig->tensor));
    assert_ok(lull_sim_stream_create(rig->device, &rig->stream));
    options.device = rig->device;
    assert_ok(lull_ckpt_open(&options, &rig->ckpt));
}

static void rig_down(rig_t *rig) {
    lull_ckpt_destroy(rig->ckpt);
    lull_sim_stream_destroy(rig->device, rig->stream);
    lull_sim_free(rig->device, rig->tensor);
    lull_device_destroy(rig->device);
}

/* A kernel that takes a while writes the tensor; save comes right behind. */
static void update_and_save(rig_t *rig, uint64_t *step, double seconds) {
    lull_sim_kernel_t kernel = LULL_SIM_KERNEL_INIT;
    kernel.seconds = seconds;
    kernel.output = rig->tensor;
    kernel.bytes = BYTES;
    kernel.fn = write_step;
    kernel.ctx = step;
    assert_ok(lull_ckpt_wait_snapshot(rig->ckpt, NULL, LULL_FOREVER));
    assert_ok(lull_sim_launch(rig->device, rig->stream, &kernel));
    lull_ckpt_tensor_t tensor =
        test_tensor("t", LULL_U8, BYTES - 5, rig->tensor);
    lull_ckpt_save_t save = LULL_CKPT_SAVE_INIT;
    save.step = *step;
    save.tensors = &tensor;
    save.tensor_count = 1;
    save.stream = rig->stream;
    lull_ckpt_state_t host = {"step", step, sizeof *step, false};
    save.states = &host;
    save.state_count = 1;
    assert_ok(lull_ckpt_save(rig->ckpt, &save, NULL));
}

static void assert_steps(uint64_t count) {
    char *expected = malloc(BYTES);
    for (uint64_t step = 0; step < count; step++) {
        uint64_t n;
        char *stored = test_stored(ckpt_room, step, 0, "t", &n);
        assert_non_null(stored);
        assert_int_equal(n, BYTES - 5);
        test_fill(expected, BYTES, step);
        assert_memory_equal(stored, expected, n);
        free(stored);
        stored = test_stored(ckpt_room, step, 0, "lull.state/step", &n);
        assert_memory_equal(stored, &step, sizeof step);
        free(stored);
    }
    free(expected);
}

static void no_byte_is_read_too_early(void **state) {
    (void)state;
    const uint64_t buffers[] = {1 << 20, 2 << 20, 16 << 20};
    for (int i = 0; i < 3; i++) {
        rig_t rig;
        uint64_t steps[4] = {0, 1, 2, 3};
        lull_ckpt_options_t options = test_options(ckpt_room, 0, 1);
        options.buffer_bytes = buffers[i];
        options.copy_threads = i == 2 ? 3 : 1;
        rig_up(&rig, options);
        for (int s = 0; s < 4; s++)
            update_and_save(&rig, &steps[s], 0.01);
        assert_ok(lull_ckpt_close(rig.ckpt));
        rig_down(&rig);
        assert_steps(4);
    }
}

static void mutation_is_found_on_a_device(void **state) {
    (void)state;
    rig_t rig;
    uint64_t steps[2] = {0, 1};
    lull_ckpt_options_t options = test_options(ckpt_room, 0, 1);
    options.detect_mutation = true;
    rig_up(&rig, options);
    update_and_save(&rig, &steps[0], 0.01);
    assert_ok(lull_ckpt_wait_snapshot(rig.ckpt, NULL, LULL_FOREVER));
    update_and_save(&rig, &steps[1], 0.01);
    lull_ckpt_stats_t stats = {.size = sizeof stats};
    do /* copied, so that the misuse is no data race */
        assert_ok(lull_ckpt_stats(rig.ckpt, &stats));
    while (stats.bytes_copied < 2 * (BYTES - 5 + sizeof *steps));
    assert_ok(lull_sim_write(rig.device, (char *)rig.tensor + 77, "x", 1));
    assert_fails(lull_ckpt_wait_snapshot(rig.ckpt, NULL, LULL_FOREVER),
                 LULL_ERR_MUTATED, "'t'");
    rig_down(&rig);
}

static void a_cancelled_save_touches_nothing_more(void **state) {
    (void)state;
    rig_t rig;
    uint64_t step = 0;
    rig_up(&rig, test_options(ckpt_room, 0, 1));
    update_and_save(&rig, &step, 0.03);
    rig_down(&rig); /* destroys the engine, then the memory */
    assert_int_equal(test_count(ckpt_room, "step-"), 0);
}

int main(void) {
#define TEST(name) \
    cmocka_unit_test_setup_teardown(name, ckpt_room_make, ckpt_room_drop)
    const struct CMUnitTest tests[] = {
        TEST(no_byte_is_read_too_early),
        TEST(mutation_is_found_on_a_device),
        TEST(a_cancelled_save_touches_nothing_more),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
