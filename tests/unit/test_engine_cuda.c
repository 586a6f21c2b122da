/* The engine on devices that copy in the background: on the cuda device (of
 * the driver that tests play, or with LULL_TEST_CUDA=real of a real one) and
 * on the sim device. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ckpt.h"
#include "cuda_world.h"
#include "device_engine.h"
#include "support.h"
#include "test.h"

#define MIB ((size_t)1 << 20)

/* A device and what a test does with its memory. */
typedef struct kit {
    const char *slow, *fast; /* names */
    double slow_gbps;
    void *(*alloc)(size_t bytes);
    void (*free)(void *data);
    void (*write)(void *to, const void *from, size_t bytes);
    void (*read)(void *to, const void *from, size_t bytes);
    lull_stream_t (*stream)(void);
    void (*stream_destroy)(lull_stream_t stream);
    void (*sync)(lull_stream_t stream);
    /* All bytes become `value`, `seconds` after the stream gets there. */
    void (*late_fill)(lull_stream_t stream, double seconds, void *data,
                      unsigned char value, size_t bytes);
} kit_t;

static const kit_t *kit;
static cuda_world_t *world;
static lull_device_t *device;

/* ---- Kits ---- */

static lull_stream_t cuda_stream(void) {
    return cuda_world_stream(false);
}

static const kit_t cuda_kit = {
    .slow = "cuda:0",
    .fast = "cuda:0",
    .alloc = cuda_world_alloc,
    .free = cuda_world_free,
    .write = cuda_world_write,
    .read = cuda_world_read,
    .stream = cuda_stream,
    .stream_destroy = cuda_world_stream_destroy,
    .sync = cuda_world_sync,
    .late_fill = cuda_world_late_fill,
};

static void *sim_alloc(size_t bytes) {
    void *data = NULL;
    assert_ok(lull_sim_alloc(device, bytes, &data));
    return data;
}

static void sim_free(void *data) {
    lull_sim_free(device, data);
}

static void sim_write(void *to, const void *from, size_t bytes) {
    assert_ok(lull_sim_write(device, to, from, bytes));
}

static void sim_read(void *to, const void *from, size_t bytes) {
    assert_ok(lull_sim_read(device, to, from, bytes));
}

static lull_stream_t sim_stream(void) {
    lull_stream_t stream = {NULL};
    assert_ok(lull_sim_stream_create(device, &stream));
    return stream;
}

static void sim_stream_destroy(lull_stream_t stream) {
    lull_sim_stream_destroy(device, stream);
}

static void sim_sync(lull_stream_t stream) {
    assert_ok(lull_sim_stream_wait(device, stream));
}

static void fill(void *ctx, void *data, size_t bytes) {
    memset(data, (int)(intptr_t)ctx, bytes);
}

static void sim_late_fill(lull_stream_t stream, double seconds, void *data,
                          unsigned char value, size_t bytes) {
    lull_sim_kernel_t kernel = LULL_SIM_KERNEL_INIT;
    kernel.seconds = seconds;
    kernel.output = data;
    kernel.bytes = bytes;
    kernel.fn = fill;
    kernel.ctx = (void *)(intptr_t)value;
    assert_ok(lull_sim_launch(device, stream, &kernel));
}

static const kit_t sim_kit = {
    .slow = "sim:0.2",
    .fast = "sim:100",
    .alloc = sim_alloc,
    .free = sim_free,
    .write = sim_write,
    .read = sim_read,
    .stream = sim_stream,
    .stream_destroy = sim_stream_destroy,
    .sync = sim_sync,
    .late_fill = sim_late_fill,
};

static void begin(const kit_t *with, bool slow) {
    kit = with;
    ckpt_room_make(NULL);
    if (world->fake != NULL) {
        world->fake->reset();
        if (kit == &cuda_kit)
            world->fake->set_gbps(slow ? 0.2 : 100);
    }
    assert_ok(lull_device_open(slow ? kit->slow : kit->fast, &device));
}

static void end(void) {
    lull_device_destroy(device);
    ckpt_room_drop(NULL);
    lull__cu_context_t current = NULL;
    assert_int_equal(world->cuCtxGetCurrent(&current), 0);
    assert_ptr_equal(current, world->context);
}

/* ---- Tests; each runs on every kit ---- */

/* Rule 3 of the life cycle: save returns at once, and nothing is read before
 * the kernel that was launched before it is done. */
static void late_kernel(const kit_t *with) {
    begin(with, false);
    const size_t bytes = 3 * MIB + 5;
    lull_stream_t stream = kit->stream();
    void *data = kit->alloc(bytes);
    for (unsigned threads = 1; threads <= 3; threads++) {
        lull_ckpt_t *ckpt = device_engine_open(device, 8 * MIB, threads);
        lull_ckpt_tensor_t tensor = test_tensor("w", LULL_U8, bytes, data);
        for (unsigned i = 1; i <= 3; i++) {
            unsigned step = 10 * threads + i;
            kit->late_fill(stream, 0.03, data, (unsigned char)step, bytes);
            assert_ok(device_engine_save(ckpt, step, 1, &tensor, stream));
            assert_ok(lull_ckpt_wait_snapshot(ckpt, NULL, LULL_FOREVER));
            /* The next update: must not get into this checkpoint. */
            kit->late_fill(stream, 0, data, 0xaa, bytes);
        }
        assert_ok(lull_ckpt_close(ckpt));
        lull_ckpt_destroy(ckpt);
        for (unsigned i = 1; i <= 3; i++)
            device_engine_assert_all(10 * threads + i, "w",
                                     (int)(10 * threads + i), bytes);
    }
    kit->stream_destroy(stream);
    kit->free(data);
    end();
}

static void late_kernel_on_the_default_stream(const kit_t *with) {
    begin(with, false);
    void *data = kit->alloc(MIB);
    lull_ckpt_t *ckpt = device_engine_open(device, 2 * MIB, 1);
    lull_ckpt_tensor_t tensor = test_tensor("w", LULL_U8, MIB, data);
    kit->late_fill(LULL_STREAM_DEFAULT, 0.05, data, 17, MIB);
    assert_ok(device_engine_save(ckpt, 1, 1, &tensor, LULL_STREAM_DEFAULT));
    assert_ok(lull_ckpt_close(ckpt));
    lull_ckpt_destroy(ckpt);
    device_engine_assert_all(1, "w", 17, MIB);
    kit->free(data);
    end();
}

/* Rule 1: after wait_snapshot the memory may go, whatever is still to do. */
static void freed_after_the_snapshot(const kit_t *with) {
    begin(with, true);
    enum { COUNT = 5 };
    const size_t bytes = MIB + 77;
    char names[COUNT][8], *expected[COUNT];
    lull_ckpt_tensor_t tensors[COUNT];
    void *data[COUNT];
    lull_ckpt_options_t options = test_options(ckpt_room, 0, 1);
    lull_ckpt_t *ckpt = NULL;
    options.device = device;
    options.buffer_bytes = 8 * MIB;
    options.write_cap = 100 * MIB; /* the flush lasts longer */
    assert_ok(lull_ckpt_open(&options, &ckpt));
    for (int i = 0; i < COUNT; i++) {
        expected[i] = malloc(bytes);
        test_fill(expected[i], bytes, (uint64_t)i);
        data[i] = kit->alloc(bytes);
        kit->write(data[i], expected[i], bytes);
        sprintf(names[i], "t%d", i);
        tensors[i] = test_tensor(names[i], LULL_U8, bytes, data[i]);
    }
    assert_ok(device_engine_save(ckpt, 1, COUNT, tensors, LULL_STREAM_DEFAULT));
    assert_ok(lull_ckpt_wait_snapshot(ckpt, NULL, LULL_FOREVER));
    for (int i = 0; i < COUNT; i++)
        kit->free(data[i]);
    assert_ok(lull_ckpt_close(ckpt));
    lull_ckpt_destroy(ckpt);
    for (int i = 0; i < COUNT; i++) {
        device_engine_assert_stored(1, names[i], expected[i], bytes);
        free(expected[i]);
    }
    end();
}

/* Rule 4: more state than ring, with tensors larger than it. */
static void ring_wraps(const kit_t *with) {
    begin(with, false);
    const size_t sizes[] = {1, 5 * MIB + 13, 0, 4096, 2 * MIB, 7, 9 * MIB + 1};
    enum { COUNT = sizeof sizes / sizeof *sizes };
    char names[COUNT][8], *expected[COUNT];
    lull_ckpt_tensor_t tensors[COUNT];
    void *data[COUNT];
    for (int i = 0; i < COUNT; i++) {
        expected[i] = malloc(sizes[i] + 1);
        test_fill(expected[i], sizes[i], (uint64_t)i);
        data[i] = sizes[i] > 0 ? kit->alloc(sizes[i]) : NULL;
        if (sizes[i] > 0)
            kit->write(data[i], expected[i], sizes[i]);
        sprintf(names[i], "t%d", i);
        tensors[i] = test_tensor(names[i], LULL_U8, sizes[i], data[i]);
    }
    for (unsigned threads = 1; threads <= 3; threads++) {
        lull_ckpt_t *ckpt = device_engine_open(device, threads * MIB, threads);
        lull_ckpt_stats_t stats = {.size = sizeof stats};
        uint64_t step = threads;
        assert_ok(device_engine_save(ckpt, step, COUNT, tensors,
                                     LULL_STREAM_DEFAULT));
        assert_ok(device_engine_save(ckpt, step + 10, COUNT, tensors,
                                     LULL_STREAM_DEFAULT));
        assert_ok(lull_ckpt_wait_committed(ckpt, NULL, LULL_FOREVER));
        assert_ok(lull_ckpt_stats(ckpt, &stats));
        assert_true(stats.buffer_peak <= threads * MIB);
        assert_true(stats.bytes_copied == stats.bytes_written);
        assert_ok(lull_ckpt_close(ckpt));
        lull_ckpt_destroy(ckpt);
        for (int i = 0; i < COUNT; i++) {
            device_engine_assert_stored(step, names[i], expected[i], sizes[i]);
            device_engine_assert_stored(step + 10, names[i], expected[i],
                                        sizes[i]);
        }
    }
    for (int i = 0; i < COUNT; i++) {
        if (data[i] != NULL)
            kit->free(data[i]);
        free(expected[i]);
    }
    end();
}

/* A slow disk under a small ring: the copy waits, and counts it. */
static void back_pressure(const kit_t *with) {
    begin(with, false);
    const size_t bytes = 12 * MIB;
    void *data = kit->alloc(bytes);
    lull_ckpt_options_t options = test_options(ckpt_room, 0, 1);
    lull_ckpt_t *ckpt = NULL;
    lull_ckpt_stats_t stats = {.size = sizeof stats};
    options.device = device;
    options.buffer_bytes = 2 * MIB;
    options.write_cap = 20 * MIB;
    assert_ok(lull_ckpt_open(&options, &ckpt));
    lull_ckpt_tensor_t tensor = test_tensor("w", LULL_U8, bytes, data);
    kit->late_fill(LULL_STREAM_DEFAULT, 0, data, 3, bytes);
    assert_ok(device_engine_save(ckpt, 1, 1, &tensor, LULL_STREAM_DEFAULT));
    assert_ok(lull_ckpt_close(ckpt));
    assert_ok(lull_ckpt_stats(ckpt, &stats));
    assert_true(stats.backpressure_s > 0);
    assert_int_equal(stats.buffer_peak, 2 * MIB);
    lull_ckpt_destroy(ckpt);
    device_engine_assert_all(1, "w", 3, bytes);
    kit->free(data);
    end();
}

/* Straight to the device's memory, whole and in slices of another layout. */
static void load_to_the_device(const kit_t *with) {
    begin(with, false);
    enum { ROWS = 300, COLUMNS = 5000, FROM = 1237, WIDTH = 2001 };
    const size_t bytes = ROWS * COLUMNS * sizeof(float);
    float *expected = malloc(bytes), *got = malloc(bytes);
    void *data = kit->alloc(bytes), *whole = kit->alloc(bytes);
    void *part = kit->alloc(ROWS * WIDTH * sizeof(float));
    test_fill(expected, bytes, 5);
    kit->write(data, expected, bytes);
    lull_ckpt_t *ckpt = device_engine_open(device, 4 * MIB, 1);
    lull_ckpt_tensor_t tensor = test_tensor("w", LULL_F32, 0, data);
    tensor.ndim = 2;
    tensor.global_shape[0] = tensor.shape[0] = ROWS;
    tensor.global_shape[1] = tensor.shape[1] = COLUMNS;
    assert_ok(device_engine_save(ckpt, 1, 1, &tensor, LULL_STREAM_DEFAULT));
    assert_ok(lull_ckpt_close(ckpt));
    lull_ckpt_destroy(ckpt);
    lull_ckpt_info_t *info = device_engine_latest(1);
    lull_ckpt_slice_t slices[2] = {LULL_CKPT_SLICE_INIT, LULL_CKPT_SLICE_INIT};
    for (int i = 0; i < 2; i++) {
        slices[i].name = "w";
        slices[i].dtype = LULL_F32;
        slices[i].ndim = 2;
        slices[i].global_shape[0] = slices[i].shape[0] = ROWS;
        slices[i].global_shape[1] = slices[i].shape[1] = COLUMNS;
    }
    slices[0].data = whole;
    slices[1].offset[1] = FROM;
    slices[1].shape[1] = WIDTH;
    slices[1].data = part;
    lull_ckpt_load_options_t options = LULL_CKPT_LOAD_OPTIONS_INIT;
    options.device = device;
    assert_ok(lull_ckpt_load(info, slices, 2, &options));
    kit->read(got, whole, bytes);
    assert_memory_equal(got, expected, bytes);
    kit->read(got, part, ROWS * WIDTH * sizeof(float));
    for (int r = 0; r < ROWS; r++)
        assert_memory_equal(got + r * WIDTH, expected + r * COLUMNS + FROM,
                            WIDTH * sizeof(float));
    slices[0].data = got; /* of the host */
    assert_fails(lull_ckpt_load(info, slices, 1, &options), LULL_ERR_DEVICE,
                 lull_device_name(device));
    lull_ckpt_info_destroy(info);
    kit->free(data);
    kit->free(whole);
    kit->free(part);
    free(expected);
    free(got);
    end();
}

/* A tensor that is not on the device: the save fails by its name, and the
 * next one works. */
static void bad_pointer(const kit_t *with) {
    begin(with, false);
    void *data = kit->alloc(MIB);
    char *host = malloc(MIB);
    kit->late_fill(LULL_STREAM_DEFAULT, 0, data, 1, MIB);
    lull_ckpt_t *ckpt = device_engine_open(device, 4 * MIB, 1);
    lull_ckpt_tensor_t tensors[] = {test_tensor("good", LULL_U8, MIB, data),
                                    test_tensor("bad", LULL_U8, MIB, host)};
    assert_ok(device_engine_save(ckpt, 1, 1, tensors, LULL_STREAM_DEFAULT));
    assert_ok(lull_ckpt_wait_committed(ckpt, NULL, LULL_FOREVER));
    assert_ok(device_engine_save(ckpt, 2, 2, tensors, LULL_STREAM_DEFAULT));
    assert_fails(lull_ckpt_wait_committed(ckpt, NULL, LULL_FOREVER),
                 LULL_ERR_DEVICE, "tensor 'bad'");
    assert_ok(device_engine_save(ckpt, 3, 1, tensors, LULL_STREAM_DEFAULT));
    assert_ok(lull_ckpt_close(ckpt));
    lull_ckpt_destroy(ckpt);
    device_engine_assert_all(3, "good", 1, MIB);
    device_engine_assert_all(1, "good", 1, MIB);
    assert_false(test_has(ckpt_room, "step-00000002"));
    kit->free(data);
    free(host);
    end();
}

static void detects_mutation(const kit_t *with) {
    begin(with, false);
    void *data = kit->alloc(MIB);
    kit->late_fill(LULL_STREAM_DEFAULT, 0, data, 1, MIB);
    lull_ckpt_options_t options = test_options(ckpt_room, 0, 1);
    lull_ckpt_t *ckpt = NULL;
    options.device = device;
    options.detect_mutation = true;
    assert_ok(lull_ckpt_open(&options, &ckpt));
    lull_ckpt_tensor_t tensor = test_tensor("w", LULL_U8, MIB, data);
    assert_ok(device_engine_save(ckpt, 1, 1, &tensor, LULL_STREAM_DEFAULT));
    assert_ok(lull_ckpt_wait_snapshot(ckpt, NULL, LULL_FOREVER));
    lull_ckpt_save_t save = LULL_CKPT_SAVE_INIT;
    lull_ckpt_request_t *request;
    lull_ckpt_progress_t at = {.size = sizeof at};
    save.step = 2;
    save.tensors = &tensor;
    save.tensor_count = 1;
    assert_ok(lull_ckpt_save(ckpt, &save, &request));
    /* Behind the copy, or the misuse would be a race in this test. */
    do
        assert_ok(lull_ckpt_test(ckpt, request, &at));
    while (at.stage < LULL_CKPT_FLUSHING && usleep(1000) == 0);
    lull_ckpt_request_destroy(request);
    kit->write(data, "changed", 7);
    assert_fails(lull_ckpt_wait_snapshot(ckpt, NULL, LULL_FOREVER),
                 LULL_ERR_MUTATED, "'w'");
    assert_ok(lull_ckpt_close(ckpt));
    lull_ckpt_destroy(ckpt);
    kit->free(data);
    end();
}

/* Destroyed with copies under way: nothing is published, nothing crashes. */
static void cancelled(const kit_t *with) {
    begin(with, true);
    void *data = kit->alloc(8 * MIB);
    for (unsigned threads = 1; threads <= 2; threads++) {
        lull_ckpt_t *ckpt = device_engine_open(device, 4 * MIB, threads);
        lull_ckpt_tensor_t tensor = test_tensor("w", LULL_U8, 8 * MIB, data);
        kit->late_fill(LULL_STREAM_DEFAULT, 0.02, data, 1, 8 * MIB);
        assert_ok(device_engine_save(ckpt, 1, 1, &tensor, LULL_STREAM_DEFAULT));
        lull_ckpt_destroy(ckpt);
        assert_false(test_has(ckpt_room, "step-00000001"));
    }
    kit->sync(LULL_STREAM_DEFAULT); /* the kernels are the test's own */
    kit->free(data);
    end();
}

#define BOTH(name)                             \
    static void name##_on_cuda(void **state) { \
        (void)state;                           \
        name(&cuda_kit);                       \
    }                                          \
    static void name##_on_sim(void **state) {  \
        (void)state;                           \
        name(&sim_kit);                        \
    }
/* clang-format off */
#define KITS(X)                                                         \
    X(late_kernel)                                                      \
    X(late_kernel_on_the_default_stream)                                \
    X(freed_after_the_snapshot)                                         \
    X(ring_wraps)                                                       \
    X(back_pressure)                                                    \
    X(load_to_the_device)                                               \
    X(bad_pointer)                                                      \
    X(detects_mutation)                                                 \
    X(cancelled)
/* clang-format on */
KITS(BOTH)

/* Nothing of lull lives in CUDA after all this. */
static void nothing_is_left(void **state) {
    (void)state;
    if (world->fake == NULL)
        skip();
    cuda_world_assert_empty();
}

int main(void) {
    world = cuda_world_begin();
    const struct CMUnitTest tests[] = {
#define ROWS(name) \
    cmocka_unit_test(name##_on_cuda), cmocka_unit_test(name##_on_sim),
        KITS(ROWS)
#undef ROWS
            cmocka_unit_test(nothing_is_left),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    if (failed == 0)
        cuda_world_end();
    return failed;
}
