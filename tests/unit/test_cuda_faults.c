/* What the cuda device refuses, and calls into the driver that fail. Runs
 * on the driver that tests play, and with LULL_TEST_CUDA=real on a real one,
 * where what needs the fake is skipped. */
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cuda_room.h"
#include "test.h"

/* ---- What is refused ---- */

static void test_pointers(void **state) {
    (void)state;
    lull_device_t *device = cuda_room_open();
    void *data = cuda_world_alloc(MIB), *pinned = NULL;
    assert_fails(cuda_room_snapshot(device, LULL_STREAM_DEFAULT, cuda_room_host,
                                    cuda_room_host, MIB),
                 LULL_ERR_DEVICE, "no memory of CUDA");
    assert_fails(cuda_room_snapshot(device, LULL_STREAM_DEFAULT, cuda_room_host,
                                    NULL, MIB),
                 LULL_ERR_DEVICE, "no memory of CUDA");
    /* Host memory that CUDA pinned (offloaded state) is as good. */
    assert_int_equal(cuda_room->cuMemHostAlloc(&pinned, MIB, 0), 0);
    memset(pinned, 8, MIB);
    assert_ok(cuda_room_snapshot(device, LULL_STREAM_DEFAULT, cuda_room_host,
                                 pinned, MIB));
    assert_true(cuda_room_all(cuda_room_host, 8, MIB));
    assert_int_equal(cuda_room->cuMemFreeHost(pinned), 0);
    cuda_world_free(data);
    if (cuda_room->fake != NULL)
        assert_fails(cuda_room_snapshot(device, LULL_STREAM_DEFAULT,
                                        cuda_room_host, data, MIB),
                     LULL_ERR_DEVICE, "freed");
    lull_device_destroy(device);
}

static void test_range_past_an_allocation(void **state) {
    (void)state;
    NEEDS_FAKE;
    lull_device_t *device = cuda_room_open();
    void *data = cuda_world_alloc(MIB);
    assert_fails(cuda_room_snapshot(device, LULL_STREAM_DEFAULT, cuda_room_host,
                                    (char *)data + 4096, MIB),
                 LULL_ERR_DEVICE, "CUDA_ERROR_INVALID_VALUE");
    cuda_world_free(data);
    lull_device_destroy(device);
}

static void test_memory_of_another_device(void **state) {
    (void)state;
    NEEDS_FAKE;
    lull_device_t *first, *second;
    cuda_room->fake->set_devices(2);
    void *data = cuda_world_alloc(MIB); /* on cuda:0 */
    assert_ok(lull_device_open("cuda:0", &first));
    assert_ok(lull_device_open("cuda:1", &second));
    assert_fails(cuda_room_snapshot(second, LULL_STREAM_DEFAULT, cuda_room_host,
                                    data, MIB),
                 LULL_ERR_DEVICE, "memory of cuda:0");
    assert_ok(cuda_room_snapshot(first, LULL_STREAM_DEFAULT, cuda_room_host,
                                 data, MIB));
    lull_stream_t stream = cuda_world_stream(false); /* of cuda:0 */
    assert_fails(cuda_room_snapshot(second, stream, cuda_room_host, data, MIB),
                 LULL_ERR_DEVICE, "CUDA_ERROR_INVALID_HANDLE");
    cuda_world_stream_destroy(stream);
    lull_device_destroy(second);
    lull_device_destroy(first);
    cuda_world_free(data);
}

static void test_destroyed_stream(void **state) {
    (void)state;
    NEEDS_FAKE; /* CUDA leaves it undefined */
    lull_device_t *device = cuda_room_open();
    lull_stream_t stream = cuda_world_stream(false);
    void *event;
    cuda_world_stream_destroy(stream);
    assert_fails(device->exec->event_record(device, stream, &event),
                 LULL_ERR_DEVICE, "destroyed");
    lull_device_destroy(device);
}

static void test_captured_stream(void **state) {
    (void)state;
    lull_device_t *device = cuda_room_open();
    lull_stream_t stream = cuda_world_stream(false);
    void *event, *graph = NULL;
    assert_int_equal(cuda_room->cuStreamBeginCapture_v2(stream.handle, 2), 0);
    assert_fails(device->exec->event_record(device, stream, &event),
                 LULL_ERR_STATE, "captured");
    assert_int_equal(cuda_room->cuStreamEndCapture(stream.handle, &graph), 0);
    assert_ok(device->exec->event_record(device, stream, &event));
    device->exec->event_destroy(device, event);
    cuda_world_stream_destroy(stream);
    lull_device_destroy(device);
}

/* A save in the background, beside a capture of the mode that forbids others
 * nearly everything: neither suffers. */
static void test_beside_a_capture(void **state) {
    (void)state;
    lull_device_t *device = cuda_room_open();
    lull_stream_t captured = cuda_world_stream(false);
    lull_stream_t stream = cuda_world_stream(false);
    void *data = cuda_world_alloc(BYTES), *staging, *graph = NULL;
    const char *note;
    cuda_world_late_fill(stream, 0, data, 5, BYTES);
    assert_int_equal(cuda_room->cuStreamBeginCapture_v2(captured.handle, 0), 0);
    assert_ok(device->memory->staging_alloc(device, BYTES, &staging, &note));
    assert_null(note);
    assert_ok(cuda_room_snapshot(device, stream, staging, data, BYTES));
    assert_true(cuda_room_all(staging, 5, BYTES));
    assert_int_equal(cuda_room->cuStreamEndCapture(captured.handle, &graph), 0);
    device->memory->staging_free(device, staging, BYTES);
    cuda_world_free(data);
    cuda_world_stream_destroy(captured);
    cuda_world_stream_destroy(stream);
    lull_device_destroy(device);
}

static void test_fork_is_refused(void **state) {
    (void)state;
    lull_device_t *device = cuda_room_open(), *other;
    void *staging, *queue;
    const char *note;
    assert_ok(device->memory->staging_alloc(device, BYTES, &staging, &note));
    assert_ok(device->exec->queue_create(device, &queue));
    pid_t child = fork();
    if (child == 0) {
        const lull__device_exec_t *exec = device->exec;
        void *got;
        uint64_t number;
        int bad = exec->fence(device, queue, &number) != LULL_ERR_FORKED;
        bad += exec->event_record(device, LULL_STREAM_DEFAULT, &got) !=
               LULL_ERR_FORKED;
        bad += device->memory->staging_alloc(device, 1, &got, &note) !=
               LULL_ERR_FORKED;
        bad += lull_device_open("cuda", &other) != LULL_ERR_FORKED;
        exec->queue_destroy(device, queue);
        device->memory->staging_free(device, staging, BYTES);
        lull_device_destroy(device);
        _exit(bad);
    }
    int how;
    assert_int_equal(waitpid(child, &how, 0), child);
    assert_true(WIFEXITED(how) && WEXITSTATUS(how) == 0);
    memset(staging, 1, BYTES);
    device->exec->queue_destroy(device, queue);
    device->memory->staging_free(device, staging, BYTES);
    lull_device_destroy(device);
}

/* ---- Errors ---- */

/* All of what an engine does with a device; the first status that is not
 * LULL_OK. Whatever fails, nothing may be left. */
static lull_status_t life(const void *data) {
    lull_device_t *device = NULL;
    void *staging = NULL;
    const char *note;
    lull_status_t status = lull_device_open("cuda:0", &device);
    if (status != LULL_OK)
        return status;
    status = device->memory->staging_alloc(device, BYTES, &staging, &note);
    if (status == LULL_OK) {
        memset(staging, 0, BYTES);
        status = cuda_room_snapshot(device, LULL_STREAM_DEFAULT, staging, data,
                                    BYTES);
        if (status == LULL_OK)
            assert_true(cuda_room_all(staging, 7, BYTES));
        device->memory->staging_free(device, staging, BYTES);
    }
    lull_device_destroy(device);
    return status;
}

/* Every call fails once: a status with a sentence, or, where it was only a
 * help or a clean-up, success. */
static void test_every_call_fails_once(void **state) {
    (void)state;
    NEEDS_FAKE;
    void *data = cuda_world_alloc(BYTES);
    cuda_world_late_fill(LULL_STREAM_DEFAULT, 0, data, 7, BYTES);
    cuda_room->fake->set_gbps(1000);
    unsigned failures = 0, n = 1;
    for (;; n++) {
        cuda_room->fake->inject("*", n, 719);
        lull_status_t status = life(data);
        if (!cuda_room->fake->injected())
            break;
        if (status == LULL_OK)
            continue;
        failures++;
        assert_int_equal(status, LULL_ERR_DEVICE);
        assert_non_null(strstr(lull_last_error(), "CUDA_ERROR_LAUNCH_FAILED"));
    }
    cuda_room->fake->inject("*", 0, 0);
    assert_true(failures > 20 && n > failures);
    assert_ok(life(data));
    cuda_world_free(data);
    /* A call that could not enter the context could not unpin either. */
    fake_cuda_live_t live;
    cuda_room->fake->live(&live);
    cuda_room_at_start.pins = live.pins;
    cuda_room_at_start.events = live.events;
    cuda_room_at_start.streams = live.streams;
}

static void test_statuses_of_results(void **state) {
    (void)state;
    NEEDS_FAKE;
    static const struct {
        unsigned result;
        lull_status_t status;
        const char *word;
    } rows[] = {{2, LULL_ERR_NO_MEMORY, "CUDA_ERROR_OUT_OF_MEMORY"},
                {1, LULL_ERR_DEVICE, "CUDA_ERROR_INVALID_VALUE"},
                {719, LULL_ERR_DEVICE, "the context is lost"},
                {714, LULL_ERR_DEVICE, "CUDA_ERROR_HARDWARE_STACK_ERROR"},
                {12345, LULL_ERR_DEVICE, "CUDA error 12345"}};
    lull_device_t *device = cuda_room_open();
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        void *queue;
        cuda_room->fake->inject("cuStreamCreate", 1, rows[i].result);
        assert_fails(device->exec->queue_create(device, &queue), rows[i].status,
                     rows[i].word);
    }
    lull_device_destroy(device);
}

/* A kernel of the caller fails while copies wait for it. */
static void test_sticky_error(void **state) {
    (void)state;
    NEEDS_FAKE;
    lull_device_t *device = cuda_room_open();
    lull_stream_t stream = cuda_world_stream(false);
    void *data = cuda_world_alloc(MIB), *staging;
    const char *note;
    assert_ok(device->memory->staging_alloc(device, BYTES, &staging, &note));
    cuda_world_late_fill(stream, 0.02, NULL, 0, 0);
    cuda_room->fake->break_in_stream(stream.handle, 700);
    assert_fails(cuda_room_snapshot(device, stream, staging, data, MIB),
                 LULL_ERR_DEVICE, "the context is lost");
    assert_fails(cuda_room_snapshot(device, stream, staging, data, MIB),
                 LULL_ERR_DEVICE, "CUDA_ERROR_ILLEGAL_ADDRESS");
    lull_device_t *other;
    assert_fails(lull_device_open("cuda:0", &other), LULL_ERR_DEVICE,
                 "CUDA_ERROR_ILLEGAL_ADDRESS");
    device->memory->staging_free(device, staging, BYTES);
    lull_device_destroy(device);
    cuda_room->fake->reset();
    cuda_world_free(data);
    cuda_world_stream_destroy(stream);
}

static void test_absent(void **state) {
    (void)state;
    NEEDS_FAKE;
    lull_device_t *device;
    lull_device_info_t info = {.size = sizeof info};
    cuda_room->fake->set_devices(0);
    assert_fails(lull_device_open("cuda", &device), LULL_ERR_UNSUPPORTED,
                 "no device");
    assert_ok(lull_device_at(1, &info));
    assert_string_equal(info.name, "cuda");
    assert_int_equal(info.status, LULL_ERR_UNSUPPORTED);
    assert_non_null(strstr(info.text, "no device"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        CUDA_ROOM_TEST(test_pointers),
        CUDA_ROOM_TEST(test_range_past_an_allocation),
        CUDA_ROOM_TEST(test_memory_of_another_device),
        CUDA_ROOM_TEST(test_destroyed_stream),
        CUDA_ROOM_TEST(test_captured_stream),
        CUDA_ROOM_TEST(test_beside_a_capture),
        CUDA_ROOM_TEST(test_fork_is_refused),
        CUDA_ROOM_TEST(test_every_call_fails_once),
        CUDA_ROOM_TEST(test_statuses_of_results),
        CUDA_ROOM_TEST(test_sticky_error),
        CUDA_ROOM_TEST(test_absent),
    };
    cuda_room_begin();
    return cuda_room_end(cmocka_run_group_tests(tests, NULL, NULL));
}
