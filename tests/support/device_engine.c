/* Engines on a device that copies in the background. */
#include "device_engine.h"

#include <stdlib.h>

#include "ckpt.h"
#include "test.h"

lull_ckpt_t *device_engine_open(lull_device_t *device, uint64_t buffer_bytes,
                                unsigned copy_threads) {
    lull_ckpt_options_t options = test_options(ckpt_room, 0, 1);
    lull_ckpt_t *ckpt = NULL;
    options.device = device;
    options.buffer_bytes = buffer_bytes;
    options.copy_threads = copy_threads;
    assert_ok(lull_ckpt_open(&options, &ckpt));
    return ckpt;
}

lull_status_t device_engine_save(lull_ckpt_t *ckpt, uint64_t step, size_t count,
                                 const lull_ckpt_tensor_t *tensors,
                                 lull_stream_t stream) {
    lull_ckpt_save_t save = LULL_CKPT_SAVE_INIT;
    save.step = step;
    save.tensors = tensors;
    save.tensor_count = count;
    save.stream = stream;
    return lull_ckpt_save(ckpt, &save, NULL);
}

void device_engine_assert_all(uint64_t step, const char *name, int value,
                              size_t bytes) {
    uint64_t n = 0;
    char *stored = test_stored(ckpt_room, step, 0, name, &n);
    assert_non_null(stored);
    assert_int_equal(n, bytes);
    assert_int_equal((unsigned char)stored[0], value);
    assert_memory_equal(stored, stored + 1, bytes - 1);
    free(stored);
}

void device_engine_assert_stored(uint64_t step, const char *name,
                                 const void *data, size_t bytes) {
    uint64_t n = 0;
    char *stored = test_stored(ckpt_room, step, 0, name, &n);
    assert_non_null(stored);
    assert_int_equal(n, bytes);
    assert_memory_equal(stored, data, bytes);
    free(stored);
}

lull_ckpt_info_t *device_engine_latest(uint64_t step) {
    lull_ckpt_find_options_t options = LULL_CKPT_FIND_OPTIONS_INIT;
    lull_ckpt_id_t id;
    lull_ckpt_info_t *info = NULL;
    assert_ok(lull_ckpt_find(ckpt_room, &options, &id));
    assert_int_equal(id.step, step);
    assert_ok(lull_ckpt_info_open(ckpt_room, id, &info));
    return info;
}
