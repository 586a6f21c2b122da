/* The engine on the cuda device, on the driver that tests play: every call into
 * it fails once, the context breaks, nothing can be pinned, and what is asked
 * of it in a save. */
#include <stdlib.h>
#include <string.h>

#include "ckpt.h"
#include "cuda_world.h"
#include "device_engine.h"
#include "support.h"
#include "test.h"

#define MIB ((size_t)1 << 20)

static cuda_world_t *world;
static lull_device_t *device;

static void begin(bool slow) {
    ckpt_room_make(NULL);
    world->fake->reset();
    world->fake->set_gbps(slow ? 0.2 : 100);
    assert_ok(lull_device_open("cuda:0", &device));
}

static void end(void) {
    lull_device_destroy(device);
    ckpt_room_drop(NULL);
    lull__cu_context_t current = NULL;
    assert_int_equal(world->cuCtxGetCurrent(&current), 0);
    assert_ptr_equal(current, world->context);
}

#define NEEDS_FAKE           \
    if (world->fake == NULL) \
    skip()

/* The copier issues ahead: the device never waits for hashing or writing. */
static void copies_are_issued_ahead(void **state) {
    (void)state;
    NEEDS_FAKE;
    enum { CHUNKS = 8 };
    begin(true);
    void *data = cuda_world_alloc(CHUNKS * MIB);
    lull_ckpt_t *ckpt = device_engine_open(device, CHUNKS * MIB, 1);
    lull_ckpt_tensor_t tensor = test_tensor("w", LULL_U8, CHUNKS * MIB, data);
    cuda_world_late_fill(LULL_STREAM_DEFAULT, 0.05, data, 1, CHUNKS * MIB);
    world->fake->reset();
    assert_ok(device_engine_save(ckpt, 1, 1, &tensor, LULL_STREAM_DEFAULT));
    assert_ok(lull_ckpt_wait_snapshot(ckpt, NULL, LULL_FOREVER));
    unsigned ahead = 0;
    const char *name;
    for (unsigned i = 0; (name = world->fake->log_at(i)) != NULL &&
                         strcmp(name, "cuEventSynchronize") != 0;
         i++)
        ahead += strcmp(name, "cuMemcpyDtoHAsync_v2") == 0;
    assert_int_equal(ahead, CHUNKS);
    assert_int_equal(world->fake->calls("cuStreamSynchronize"), 0);
    assert_int_equal(world->fake->calls("cuCtxSynchronize"), 0);
    assert_int_equal(world->fake->spins(), 0);
    assert_ok(lull_ckpt_close(ckpt));
    lull_ckpt_destroy(ckpt);
    cuda_world_free(data);
    end();
}

/* Every call into the driver fails once, in a save: the error reaches the
 * caller, what was there stays, and the next save works. */
static void every_call_of_a_save_fails_once(void **state) {
    (void)state;
    NEEDS_FAKE;
    begin(false);
    char *expected = malloc(3 * MIB);
    void *data = cuda_world_alloc(3 * MIB);
    test_fill(expected, 3 * MIB, 1);
    cuda_world_write(data, expected, 3 * MIB);
    lull_ckpt_t *ckpt = device_engine_open(device, 2 * MIB, 1);
    lull_ckpt_tensor_t tensors[] = {
        test_tensor("a", LULL_U8, MIB + 5, data),
        test_tensor("b", LULL_U8, MIB, (char *)data + 2 * MIB)};
    unsigned failures = 0, n = 1;
    for (uint64_t step = 0;; n++, step += 2) {
        assert_ok(
            device_engine_save(ckpt, step, 2, tensors, LULL_STREAM_DEFAULT));
        assert_ok(lull_ckpt_wait_committed(ckpt, NULL, LULL_FOREVER));
        world->fake->inject("*", n, 2);
        lull_status_t status =
            device_engine_save(ckpt, step + 1, 2, tensors, LULL_STREAM_DEFAULT);
        if (status == LULL_OK)
            status = lull_ckpt_wait_committed(ckpt, NULL, LULL_FOREVER);
        char said[64];
        snprintf(said, sizeof said, "%.63s", lull_last_error());
        bool reached = world->fake->injected();
        world->fake->inject("*", 0, 0);
        if (status != LULL_OK) {
            failures++;
            assert_int_equal(status, LULL_ERR_NO_MEMORY);
            assert_non_null(strstr(lull_last_error(), "OUT_OF_MEMORY"));
            lull_ckpt_info_destroy(device_engine_latest(step));
        } else {
            device_engine_assert_stored(step + 1, "a", expected, MIB + 5);
            device_engine_assert_stored(step + 1, "b", expected + 2 * MIB, MIB);
        }
        if (!reached)
            break;
    }
    assert_true(failures > 5);
    assert_ok(lull_ckpt_close(ckpt));
    lull_ckpt_destroy(ckpt);
    cuda_world_free(data);
    free(expected);
    end();
}

static void every_call_of_an_open_fails_once(void **state) {
    (void)state;
    NEEDS_FAKE;
    begin(false);
    lull_ckpt_options_t options = test_options(ckpt_room, 0, 1);
    unsigned failures = 0;
    options.device = device;
    options.copy_threads = 2;
    for (unsigned n = 1;; n++) {
        lull_ckpt_t *ckpt = NULL;
        world->fake->inject("*", n, 2);
        lull_status_t status = lull_ckpt_open(&options, &ckpt);
        if (status == LULL_OK)
            assert_ok(lull_ckpt_close(ckpt));
        else
            assert_non_null(strstr(lull_last_error(), "OUT_OF_MEMORY"));
        failures += status != LULL_OK;
        lull_ckpt_destroy(ckpt);
        if (!world->fake->injected())
            break;
    }
    world->fake->inject("*", 0, 0);
    assert_true(failures > 5);
    end();
}

static void every_call_of_a_load_fails_once(void **state) {
    (void)state;
    NEEDS_FAKE;
    begin(false);
    const size_t bytes = 9 * MIB + 3; /* more than one read */
    char *expected = malloc(bytes), *got = malloc(bytes);
    void *data = cuda_world_alloc(bytes);
    test_fill(expected, bytes, 1);
    cuda_world_write(data, expected, bytes);
    lull_ckpt_t *ckpt = device_engine_open(device, 8 * MIB, 1);
    lull_ckpt_tensor_t tensor = test_tensor("w", LULL_U8, bytes, data);
    assert_ok(device_engine_save(ckpt, 1, 1, &tensor, LULL_STREAM_DEFAULT));
    assert_ok(lull_ckpt_close(ckpt));
    lull_ckpt_destroy(ckpt);
    lull_ckpt_info_t *info = device_engine_latest(1);
    lull_ckpt_slice_t slice = LULL_CKPT_SLICE_INIT;
    slice.name = "w";
    slice.dtype = LULL_U8;
    slice.ndim = 1;
    slice.global_shape[0] = slice.shape[0] = bytes;
    slice.data = data;
    lull_ckpt_load_options_t options = LULL_CKPT_LOAD_OPTIONS_INIT;
    options.device = device;
    options.threads = 2;
    unsigned failures = 0;
    for (unsigned n = 1;; n += 3) { /* threads mix the order anyway */
        world->fake->inject("*", n, 1);
        lull_status_t status = lull_ckpt_load(info, &slice, 1, &options);
        bool reached = world->fake->injected();
        world->fake->inject("*", 0, 0);
        if (status == LULL_OK) {
            cuda_world_read(got, data, bytes);
            assert_memory_equal(got, expected, bytes);
        } else {
            failures++;
            assert_int_equal(status, LULL_ERR_DEVICE);
            assert_non_null(strstr(lull_last_error(), "INVALID_VALUE"));
        }
        if (!reached)
            break;
    }
    assert_true(failures > 5);
    lull_ckpt_info_destroy(info);
    cuda_world_free(data);
    free(expected);
    free(got);
    end();
}

/* The caller's own kernel breaks the context under a save. */
static void lost_context(void **state) {
    (void)state;
    NEEDS_FAKE;
    begin(false);
    bool go = false;
    lull_stream_t stream = cuda_world_stream(false);
    void *data = cuda_world_alloc(MIB);
    cuda_world_late_fill(stream, 0, data, 1, MIB);
    lull_ckpt_t *ckpt = device_engine_open(device, 4 * MIB, 1);
    lull_ckpt_tensor_t tensor = test_tensor("w", LULL_U8, MIB, data);
    assert_ok(device_engine_save(ckpt, 1, 1, &tensor, stream));
    assert_ok(lull_ckpt_wait_committed(ckpt, NULL, LULL_FOREVER));
    cuda_world_hold(stream, &go);
    world->fake->break_in_stream(stream.handle, 700);
    assert_ok(device_engine_save(ckpt, 2, 1, &tensor, stream));
    __atomic_store_n(&go, true, __ATOMIC_SEQ_CST);
    assert_fails(lull_ckpt_wait_committed(ckpt, NULL, LULL_FOREVER),
                 LULL_ERR_DEVICE, "the context is lost");
    assert_fails(device_engine_save(ckpt, 3, 1, &tensor, stream),
                 LULL_ERR_DEVICE, "CUDA_ERROR_ILLEGAL_ADDRESS");
    assert_int_equal(lull_ckpt_close(ckpt), LULL_OK); /* reported already */
    lull_ckpt_destroy(ckpt);
    lull_ckpt_info_destroy(device_engine_latest(1));
    device_engine_assert_all(1, "w", 1, MIB);
    world->fake->reset();
    cuda_world_stream_destroy(stream);
    cuda_world_free(data);
    end();
}

/* Nothing can be pinned: slower, and right. */
static void pageable_staging(void **state) {
    (void)state;
    NEEDS_FAKE;
    begin(false);
    world->fake->pin_limits(0, 0);
    void *data = cuda_world_alloc(5 * MIB);
    lull_ckpt_t *ckpt = device_engine_open(device, 2 * MIB, 2);
    lull_ckpt_tensor_t tensor = test_tensor("w", LULL_U8, 5 * MIB, data);
    cuda_world_late_fill(LULL_STREAM_DEFAULT, 0.02, data, 9, 5 * MIB);
    assert_ok(device_engine_save(ckpt, 1, 1, &tensor, LULL_STREAM_DEFAULT));
    assert_ok(lull_ckpt_close(ckpt));
    lull_ckpt_destroy(ckpt);
    device_engine_assert_all(1, "w", 9, 5 * MIB);
    cuda_world_free(data);
    end();
}

/* Nothing of lull lives in CUDA after all this. */
static void nothing_is_left(void **state) {
    (void)state;
    NEEDS_FAKE;
    cuda_world_assert_empty();
}

int main(void) {
    world = cuda_world_begin();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(copies_are_issued_ahead),
        cmocka_unit_test(every_call_of_a_save_fails_once),
        cmocka_unit_test(every_call_of_an_open_fails_once),
        cmocka_unit_test(every_call_of_a_load_fails_once),
        cmocka_unit_test(lost_context),
        cmocka_unit_test(pageable_staging),
        cmocka_unit_test(nothing_is_left),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    if (failed == 0)
        cuda_world_end();
    return failed;
}
