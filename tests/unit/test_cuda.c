/* The cuda device by its vtables: opening, order, threads, idleness, NUMA. Runs
 * on the driver that tests play, and with LULL_TEST_CUDA=real on a real one,
 * where what needs the fake is skipped. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cuda_room.h"
#include "device/cuda.h"
#include "device/numa.h"
#include "test.h"

static void test_opens_by_name(void **state) {
    (void)state;
    lull_device_t *device;
    assert_ok(lull_device_open("cuda", &device));
    assert_string_equal(lull_device_name(device), "cuda:0");
    assert_true(device->exec->async);
    lull_device_destroy(device);
    assert_fails(lull_device_open("cuda:99", &device), LULL_ERR_NOT_FOUND,
                 "cuda:99");
    assert_fails(lull_device_open("cuda:x", &device), LULL_ERR_NOT_FOUND,
                 "cuda:N");
    assert_fails(lull_device_open("cuda:-1", &device), LULL_ERR_NOT_FOUND,
                 "cuda:N");
    assert_fails(lull_device_open("cuda:9999999999999", &device),
                 LULL_ERR_NOT_FOUND, "cuda:N");
    lull_device_info_t info = {.size = sizeof info};
    assert_ok(lull_device_at(1, &info));
    assert_string_equal(info.name, "cuda:0");
    assert_int_equal(info.status, LULL_OK);
    assert_non_null(strstr(info.text, "GiB"));
}

/* "cuda" is what is current on the thread, as frameworks have it. */
static void test_current_device(void **state) {
    (void)state;
    NEEDS_FAKE;
    lull_device_t *first, *second, *current;
    lull__cu_context_t popped;
    cuda_room->fake->set_devices(2);
    assert_ok(lull_device_open("cuda:0", &first));
    assert_ok(lull_device_open("cuda:1", &second));
    lull__cu_context_t context = ((lull__cuda_device_t *)second)->context;
    assert_int_equal(cuda_room->cuCtxPushCurrent_v2(context), 0);
    assert_ok(lull_device_open("cuda", &current));
    assert_string_equal(lull_device_name(current), "cuda:1");
    assert_int_equal(cuda_room->cuCtxPopCurrent_v2(&popped), 0);
    lull_device_destroy(current);
    lull_device_destroy(second);
    lull_device_destroy(first);
}

static void late_kernel(lull_stream_t stream) {
    lull_device_t *device = cuda_room_open();
    void *data = cuda_world_alloc(BYTES), *staging;
    const char *note;
    assert_ok(device->memory->staging_alloc(device, BYTES, &staging, &note));
    assert_null(note);
    for (int round = 1; round <= 3; round++) {
        memset(staging, 0, BYTES);
        cuda_world_late_fill(stream, 0.02, data, (unsigned char)round, BYTES);
        assert_ok(cuda_room_snapshot(device, stream, staging, data, BYTES));
        assert_true(cuda_room_all(staging, round, BYTES));
    }
    device->memory->staging_free(device, staging, BYTES);
    cuda_world_free(data);
    lull_device_destroy(device);
}

static void test_waits_for_a_late_kernel(void **state) {
    (void)state;
    lull_stream_t stream = cuda_world_stream(false);
    late_kernel(stream);
    cuda_world_stream_destroy(stream);
    stream = cuda_world_stream(true);
    late_kernel(stream);
    cuda_world_stream_destroy(stream);
}

static void test_waits_for_the_default_stream(void **state) {
    (void)state;
    late_kernel(LULL_STREAM_DEFAULT);
}

/* Work that is queued behind the event is not waited for. */
static void test_does_not_wait_for_later_work(void **state) {
    (void)state;
    bool go = false;
    lull_device_t *device = cuda_room_open();
    const lull__device_exec_t *exec = device->exec;
    lull_stream_t stream = cuda_world_stream(false);
    void *data = cuda_world_alloc(BYTES), *staging, *event, *queue;
    const char *note;
    uint64_t number;
    assert_ok(device->memory->staging_alloc(device, BYTES, &staging, &note));
    assert_ok(exec->queue_create(device, &queue));
    cuda_world_late_fill(stream, 0, data, 1, BYTES);
    assert_ok(exec->event_record(device, stream, &event));
    cuda_world_hold(stream, &go);
    cuda_world_late_fill(stream, 0, data, 2, BYTES);
    assert_ok(exec->queue_after(device, queue, event));
    assert_ok(exec->copy_out(device, queue, staging, data, BYTES));
    assert_ok(exec->fence(device, queue, &number));
    assert_ok(exec->fence_wait(device, queue, number));
    assert_true(
        cuda_room_all(staging, 1, BYTES)); /* the old ones: nobody waited */
    exec->event_destroy(device, event);
    exec->queue_destroy(device, queue);
    __atomic_store_n(&go, true, __ATOMIC_SEQ_CST);
    cuda_world_sync(stream);
    device->memory->staging_free(device, staging, BYTES);
    cuda_world_free(data);
    cuda_world_stream_destroy(stream);
    lull_device_destroy(device);
}

/* More fences than there are events, waited for in odd orders. */
static void test_fences(void **state) {
    (void)state;
    enum { COUNT = 300, STEP = 4096 };
    lull_device_t *device = cuda_room_open();
    const lull__device_exec_t *exec = device->exec;
    void *data = cuda_world_alloc(COUNT * STEP), *staging, *queue;
    const char *note;
    uint64_t number[COUNT];
    assert_ok(
        device->memory->staging_alloc(device, COUNT * STEP, &staging, &note));
    assert_ok(exec->queue_create(device, &queue));
    for (int i = 0; i < COUNT; i++) {
        char *at = (char *)staging + i * STEP;
        memset(at, i % 251, STEP);
        assert_ok(
            exec->copy_in(device, queue, (char *)data + i * STEP, at, STEP));
        assert_ok(exec->fence(device, queue, &number[i]));
        assert_true(i == 0 || number[i] > number[i - 1]);
    }
    assert_fails(exec->fence_wait(device, queue, number[COUNT - 1] + 1),
                 LULL_ERR_INVALID, "fence");
    assert_ok(exec->fence_wait(device, queue, number[COUNT / 2]));
    assert_ok(exec->fence_wait(device, queue, number[COUNT - 1]));
    assert_ok(exec->fence_wait(device, queue, number[0]));
    for (int i = 0; i < COUNT; i++) {
        cuda_world_read(cuda_room_host, (char *)data + i * STEP, STEP);
        assert_true(cuda_room_all(cuda_room_host, i % 251, STEP));
    }
    exec->queue_destroy(device, queue);
    device->memory->staging_free(device, staging, COUNT * STEP);
    cuda_world_free(data);
    lull_device_destroy(device);
}

/* A queue that goes with copies under way waits for them. */
static void test_queue_destroy_waits(void **state) {
    (void)state;
    lull_device_t *device = cuda_room_open();
    const lull__device_exec_t *exec = device->exec;
    lull_stream_t stream = cuda_world_stream(false);
    void *data = cuda_world_alloc(BYTES), *staging, *event, *queue;
    const char *note;
    assert_ok(device->memory->staging_alloc(device, BYTES, &staging, &note));
    assert_ok(exec->queue_create(device, &queue));
    cuda_world_late_fill(stream, 0.05, data, 9, BYTES);
    assert_ok(exec->event_record(device, stream, &event));
    assert_ok(exec->queue_after(device, queue, event));
    assert_ok(exec->copy_out(device, queue, staging, data, BYTES));
    exec->event_destroy(device, event);
    exec->queue_destroy(device, queue);
    assert_true(cuda_room_all(staging, 9, BYTES));
    device->memory->staging_free(device, staging, BYTES);
    cuda_world_free(data);
    cuda_world_stream_destroy(stream);
    lull_device_destroy(device);
}

/* ---- Threads, idleness ---- */

typedef struct worker {
    lull_device_t *device;
    char *to;
    const char *from;
    lull_status_t status;
} worker_t;

static void *work(void *arg) {
    worker_t *worker = arg;
    for (int i = 0; i < 5 && worker->status == LULL_OK; i++)
        worker->status = cuda_room_snapshot(worker->device, LULL_STREAM_DEFAULT,
                                            worker->to, worker->from, BYTES);
    return NULL;
}

static void test_threads(void **state) {
    (void)state;
    enum { THREADS = 4 };
    lull_device_t *device = cuda_room_open();
    char *data = cuda_world_alloc(THREADS * BYTES);
    void *staging;
    const char *note;
    pthread_t threads[THREADS];
    worker_t workers[THREADS];
    assert_ok(device->memory->staging_alloc(device, THREADS * BYTES, &staging,
                                            &note));
    for (int i = 0; i < THREADS; i++) {
        size_t at = (size_t)i * BYTES;
        cuda_world_late_fill(LULL_STREAM_DEFAULT, 0, data + at,
                             (unsigned char)(i + 1), BYTES);
        workers[i] =
            (worker_t){device, (char *)staging + at, data + at, LULL_OK};
        pthread_create(&threads[i], NULL, work, &workers[i]);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        assert_int_equal(workers[i].status, LULL_OK);
        assert_true(cuda_room_all(workers[i].to, i + 1, BYTES));
    }
    device->memory->staging_free(device, staging, THREADS * BYTES);
    cuda_world_free(data);
    lull_device_destroy(device);
}

/* Nothing is created or pinned between open and close, and nothing waits for
 * a whole stream or device. */
static void test_steady_state_creates_nothing(void **state) {
    (void)state;
    NEEDS_FAKE;
    lull_device_t *device = cuda_room_open();
    const lull__device_exec_t *exec = device->exec;
    void *data = cuda_world_alloc(BYTES), *staging, *queue, *event;
    const char *note;
    uint64_t number;
    assert_ok(device->memory->staging_alloc(device, BYTES, &staging, &note));
    assert_ok(exec->queue_create(device, &queue));
    cuda_room->fake->reset();
    for (int i = 0; i < 200; i++) {
        assert_ok(exec->event_record(device, LULL_STREAM_DEFAULT, &event));
        assert_ok(exec->queue_after(device, queue, event));
        exec->event_destroy(device, event);
        assert_ok(exec->copy_out(device, queue, staging, data, 4096));
        assert_ok(exec->fence(device, queue, &number));
        assert_ok(exec->fence_wait(device, queue, number));
    }
    static const char *const never[] = {
        "cuEventCreate",       "cuEventDestroy_v2",    "cuStreamCreate",
        "cuStreamSynchronize", "cuMemHostRegister_v2", "cuCtxSynchronize"};
    for (size_t i = 0; i < sizeof never / sizeof *never; i++)
        assert_int_equal(cuda_room->fake->calls(never[i]), 0);
    assert_int_equal(cuda_room->fake->calls("cuMemcpyDtoHAsync_v2"), 200);
    exec->queue_destroy(device, queue);
    device->memory->staging_free(device, staging, BYTES);
    cuda_world_free(data);
    lull_device_destroy(device);
}

/* ---- NUMA ---- */

static void test_numa_node(void **state) {
    (void)state;
    char dir[] = "/tmp/lull-numa-XXXXXX", path[128];
    assert_non_null(mkdtemp(dir));
    snprintf(path, sizeof path, "%s/0000:3b:00.0", dir);
    assert_int_equal(mkdir(path, 0700), 0);
    assert_int_equal(lull__numa_node_of_pci(dir, "0000:3B:00.0"), -1);
    snprintf(path, sizeof path, "%s/0000:3b:00.0/numa_node", dir);
    static const struct {
        const char *text;
        int node;
    } rows[] = {{"1\n", 1},  {"0\n", 0}, {"-1\n", -1},
                {"x\n", -1}, {"", -1},   {"99999\n", -1}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        FILE *file = fopen(path, "w");
        fputs(rows[i].text, file);
        fclose(file);
        assert_int_equal(lull__numa_node_of_pci(dir, "0000:3B:00.0"),
                         rows[i].node);
    }
    assert_int_equal(lull__numa_node_of_pci(dir, "../0000:3B:00.0"), -1);
    assert_int_equal(lull__numa_node_of_pci("/nowhere", "0000:3B:00.0"), -1);
    unlink(path);
    path[strlen(path) - strlen("/numa_node")] = '\0';
    rmdir(path);
    rmdir(dir);
    lull__numa_prefer(cuda_room_host, 0, 1023); /* no such node: no harm */
}

int main(void) {
    const struct CMUnitTest tests[] = {
        CUDA_ROOM_TEST(test_opens_by_name),
        CUDA_ROOM_TEST(test_current_device),
        CUDA_ROOM_TEST(test_waits_for_a_late_kernel),
        CUDA_ROOM_TEST(test_waits_for_the_default_stream),
        CUDA_ROOM_TEST(test_does_not_wait_for_later_work),
        CUDA_ROOM_TEST(test_fences),
        CUDA_ROOM_TEST(test_queue_destroy_waits),
        CUDA_ROOM_TEST(test_threads),
        CUDA_ROOM_TEST(test_steady_state_creates_nothing),
        CUDA_ROOM_TEST(test_numa_node),
    };
    cuda_room_begin();
    return cuda_room_end(cmocka_run_group_tests(tests, NULL, NULL));
}
