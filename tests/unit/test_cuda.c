/* The cuda device by its vtables: order, errors, pinning, fork, capture. Runs
 * on the driver that tests play, and with LULL_TEST_CUDA=real on a real one,
 * where what needs the fake is skipped. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cuda_world.h"
#include "device/cuda.h"
#include "device/numa.h"
#include "test.h"

#define MIB ((size_t)1 << 20)
#define BYTES (4 * MIB)

static cuda_world_t *world;
static fake_cuda_live_t at_start;
static char *host; /* pageable */

#define NEEDS_FAKE           \
    if (world->fake == NULL) \
    skip()

static int begin_test(void **state) {
    (void)state;
    if (world->fake != NULL) {
        world->fake->reset();
        world->fake->live(&at_start);
    }
    return 0;
}

/* Nothing of a test is left, and the thread's context is what it was. */
static int end_test(void **state) {
    (void)state;
    lull__cu_context_t current = NULL;
    assert_int_equal(world->cuCtxGetCurrent(&current), 0);
    assert_ptr_equal(current, world->context);
    if (world->fake == NULL)
        return 0;
    fake_cuda_live_t live;
    world->fake->live(&live);
    assert_memory_equal(&live, &at_start, sizeof live);
    assert_int_equal(world->fake->spins(), 0);
    return 0;
}

static lull_device_t *open_cuda(void) {
    lull_device_t *device = NULL;
    assert_ok(lull_device_open("cuda:0", &device));
    return device;
}

static bool all(const char *data, int value, size_t bytes) {
    return (unsigned char)data[0] == value &&
           memcmp(data, data + 1, bytes - 1) == 0;
}

/* The one path of a save: event, queue, copies, fence. */
static lull_status_t snapshot(lull_device_t *device, lull_stream_t stream,
                              void *to, const void *from, size_t bytes) {
    const lull__device_exec_t *exec = device->exec;
    void *event = NULL, *queue = NULL;
    uint64_t number = 0;
    lull_status_t status = exec->event_record(device, stream, &event);
    if (status != LULL_OK)
        return status;
    status = exec->queue_create(device, &queue);
    if (status == LULL_OK)
        status = exec->queue_after(device, queue, event);
    exec->event_destroy(device, event);
    for (size_t at = 0; status == LULL_OK && at < bytes; at += MIB)
        status = exec->copy_out(device, queue, (char *)to + at,
                                (const char *)from + at, MIB);
    if (status == LULL_OK)
        status = exec->fence(device, queue, &number);
    if (status == LULL_OK)
        status = exec->fence_wait(device, queue, number);
    exec->queue_destroy(device, queue);
    return status;
}

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
    world->fake->set_devices(2);
    assert_ok(lull_device_open("cuda:0", &first));
    assert_ok(lull_device_open("cuda:1", &second));
    lull__cu_context_t context = ((lull__cuda_device_t *)second)->context;
    assert_int_equal(world->cuCtxPushCurrent_v2(context), 0);
    assert_ok(lull_device_open("cuda", &current));
    assert_string_equal(lull_device_name(current), "cuda:1");
    assert_int_equal(world->cuCtxPopCurrent_v2(&popped), 0);
    lull_device_destroy(current);
    lull_device_destroy(second);
    lull_device_destroy(first);
}

static void late_kernel(lull_stream_t stream) {
    lull_device_t *device = open_cuda();
    void *data = cuda_world_alloc(BYTES), *staging;
    const char *note;
    assert_ok(device->memory->staging_alloc(device, BYTES, &staging, &note));
    assert_null(note);
    for (int round = 1; round <= 3; round++) {
        memset(staging, 0, BYTES);
        cuda_world_late_fill(stream, 0.02, data, (unsigned char)round, BYTES);
        assert_ok(snapshot(device, stream, staging, data, BYTES));
        assert_true(all(staging, round, BYTES));
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
    const double late = 0.3;
    lull_device_t *device = open_cuda();
    const lull__device_exec_t *exec = device->exec;
    lull_stream_t stream = cuda_world_stream(false);
    void *data = cuda_world_alloc(BYTES), *staging, *event, *queue;
    const char *note;
    uint64_t number;
    assert_ok(device->memory->staging_alloc(device, BYTES, &staging, &note));
    assert_ok(exec->queue_create(device, &queue));
    cuda_world_late_fill(stream, 0, data, 1, BYTES);
    assert_ok(exec->event_record(device, stream, &event));
    cuda_world_late_fill(stream, late, data, 2, BYTES);
    assert_ok(exec->queue_after(device, queue, event));
    assert_ok(exec->copy_out(device, queue, staging, data, BYTES));
    assert_ok(exec->fence(device, queue, &number));
    assert_ok(exec->fence_wait(device, queue, number));
    assert_true(all(staging, 1, BYTES)); /* the old ones: nobody waited */
    exec->event_destroy(device, event);
    exec->queue_destroy(device, queue);
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
    lull_device_t *device = open_cuda();
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
        cuda_world_read(host, (char *)data + i * STEP, STEP);
        assert_true(all(host, i % 251, STEP));
    }
    exec->queue_destroy(device, queue);
    device->memory->staging_free(device, staging, COUNT * STEP);
    cuda_world_free(data);
    lull_device_destroy(device);
}

/* A queue that goes with copies under way waits for them. */
static void test_queue_destroy_waits(void **state) {
    (void)state;
    lull_device_t *device = open_cuda();
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
    assert_true(all(staging, 9, BYTES));
    device->memory->staging_free(device, staging, BYTES);
    cuda_world_free(data);
    cuda_world_stream_destroy(stream);
    lull_device_destroy(device);
}

/* ---- Pinning ---- */

typedef struct pin_case {
    size_t bytes, one, all;
    int pins;         /* registrations that are left */
    const char *note; /* a word of it; NULL: none */
} pin_case_t;

static void pin_and_copy(const pin_case_t *c) {
    lull_device_t *device = open_cuda();
    const lull__device_exec_t *exec = device->exec;
    void *staging, *queue, *data = cuda_world_alloc(c->bytes);
    const char *note;
    fake_cuda_live_t live;
    uint64_t number;
    world->fake->pin_limits(c->one, c->all);
    assert_ok(device->memory->staging_alloc(device, c->bytes, &staging, &note));
    world->fake->live(&live);
    assert_int_equal(live.pins - at_start.pins, c->pins);
    assert_int_equal(note == NULL, c->note == NULL);
    if (c->note != NULL)
        assert_non_null(strstr(note, c->note));
    assert_int_equal((uintptr_t)staging % 4096, 0);
    /* One copy across all pieces, each way. */
    memset(staging, 3, c->bytes);
    assert_ok(exec->queue_create(device, &queue));
    assert_ok(exec->copy_in(device, queue, data, staging, c->bytes));
    assert_ok(exec->fence(device, queue, &number));
    assert_ok(exec->fence_wait(device, queue, number));
    memset(staging, 0, c->bytes);
    assert_ok(exec->copy_out(device, queue, staging, data, c->bytes));
    assert_ok(exec->fence(device, queue, &number));
    assert_ok(exec->fence_wait(device, queue, number));
    assert_true(all(staging, 3, c->bytes));
    exec->queue_destroy(device, queue);
    device->memory->staging_free(device, staging, c->bytes);
    world->fake->live(&live);
    assert_int_equal(live.pins, at_start.pins);
    cuda_world_free(data);
    lull_device_destroy(device);
}

static void test_pinning_falls_back(void **state) {
    (void)state;
    NEEDS_FAKE;
    const size_t piece = LULL__CUDA_PIECE, most = SIZE_MAX;
    world->fake->set_gbps(1000);
    /* A limit of one piece: two or three pieces by where it begins. */
    pin_case_t whole = {BYTES, most, most, 1, NULL};
    pin_case_t none = {BYTES, 0, most, 0, "refused"};
    pin_case_t odd = {5 * MIB + 123, most, most, 1, NULL};
    pin_and_copy(&whole);
    pin_and_copy(&none);
    odd.bytes = 5 * MIB + 123;
    pin_and_copy(&odd);
    lull_device_t *device = open_cuda();
    void *staging;
    const char *note;
    fake_cuda_live_t live;
    world->fake->pin_limits(piece, most);
    assert_ok(
        device->memory->staging_alloc(device, 2 * piece, &staging, &note));
    assert_null(note);
    world->fake->live(&live);
    assert_in_range(live.pins - at_start.pins, 2, 3);
    device->memory->staging_free(device, staging, 2 * piece);
    lull_device_destroy(device);
}

static void test_pinned_in_part(void **state) {
    (void)state;
    NEEDS_FAKE;
    const size_t piece = LULL__CUDA_PIECE, bytes = piece + piece / 2;
    lull_device_t *device = open_cuda();
    const lull__device_exec_t *exec = device->exec;
    void *staging, *queue, *data = cuda_world_alloc(bytes);
    const char *note;
    uint64_t number;
    world->fake->set_gbps(1000);
    world->fake->pin_limits(piece, piece); /* not all of it */
    assert_ok(device->memory->staging_alloc(device, bytes, &staging, &note));
    assert_non_null(strstr(note, "part"));
    memset(staging, 6, bytes);
    assert_ok(exec->queue_create(device, &queue));
    assert_ok(exec->copy_in(device, queue, data, staging, bytes));
    assert_ok(exec->fence(device, queue, &number));
    assert_ok(exec->fence_wait(device, queue, number));
    memset(staging, 0, bytes);
    assert_ok(exec->copy_out(device, queue, staging, data, bytes));
    assert_ok(exec->fence(device, queue, &number));
    assert_ok(exec->fence_wait(device, queue, number));
    assert_true(all(staging, 6, bytes));
    exec->queue_destroy(device, queue);
    device->memory->staging_free(device, staging, bytes);
    cuda_world_free(data);
    lull_device_destroy(device);
}

static void test_huge_staging_is_refused(void **state) {
    (void)state;
    lull_device_t *device = open_cuda();
    void *staging;
    const char *note;
    assert_fails(
        device->memory->staging_alloc(device, SIZE_MAX - 5, &staging, &note),
        LULL_ERR_NO_MEMORY, "staging");
    assert_fails(
        device->memory->staging_alloc(device, SIZE_MAX / 4, &staging, &note),
        LULL_ERR_NO_MEMORY, "staging");
    lull_device_destroy(device);
}

/* Staging stays memory when the context breaks: others still read it. */
static void test_staging_outlives_the_context(void **state) {
    (void)state;
    NEEDS_FAKE;
    lull_device_t *device = open_cuda();
    void *staging;
    const char *note;
    assert_ok(device->memory->staging_alloc(device, BYTES, &staging, &note));
    world->fake->break_device(0, 709);
    memset(staging, 4, BYTES);
    assert_true(all(staging, 4, BYTES));
    device->memory->staging_free(device, staging, BYTES);
    lull_device_destroy(device);
    world->fake->reset();
}

/* ---- What is refused ---- */

static void test_pointers(void **state) {
    (void)state;
    lull_device_t *device = open_cuda();
    void *data = cuda_world_alloc(MIB), *pinned = NULL;
    assert_fails(snapshot(device, LULL_STREAM_DEFAULT, host, host, MIB),
                 LULL_ERR_DEVICE, "no memory of CUDA");
    assert_fails(snapshot(device, LULL_STREAM_DEFAULT, host, NULL, MIB),
                 LULL_ERR_DEVICE, "no memory of CUDA");
    /* Host memory that CUDA pinned (offloaded state) is as good. */
    assert_int_equal(world->cuMemHostAlloc(&pinned, MIB, 0), 0);
    memset(pinned, 8, MIB);
    assert_ok(snapshot(device, LULL_STREAM_DEFAULT, host, pinned, MIB));
    assert_true(all(host, 8, MIB));
    assert_int_equal(world->cuMemFreeHost(pinned), 0);
    cuda_world_free(data);
    if (world->fake != NULL)
        assert_fails(snapshot(device, LULL_STREAM_DEFAULT, host, data, MIB),
                     LULL_ERR_DEVICE, "freed");
    lull_device_destroy(device);
}

static void test_range_past_an_allocation(void **state) {
    (void)state;
    NEEDS_FAKE;
    lull_device_t *device = open_cuda();
    void *data = cuda_world_alloc(MIB);
    assert_fails(
        snapshot(device, LULL_STREAM_DEFAULT, host, (char *)data + 4096, MIB),
        LULL_ERR_DEVICE, "CUDA_ERROR_INVALID_VALUE");
    cuda_world_free(data);
    lull_device_destroy(device);
}

static void test_memory_of_another_device(void **state) {
    (void)state;
    NEEDS_FAKE;
    lull_device_t *first, *second;
    world->fake->set_devices(2);
    void *data = cuda_world_alloc(MIB); /* on cuda:0 */
    assert_ok(lull_device_open("cuda:0", &first));
    assert_ok(lull_device_open("cuda:1", &second));
    assert_fails(snapshot(second, LULL_STREAM_DEFAULT, host, data, MIB),
                 LULL_ERR_DEVICE, "memory of cuda:0");
    assert_ok(snapshot(first, LULL_STREAM_DEFAULT, host, data, MIB));
    lull_stream_t stream = cuda_world_stream(false); /* of cuda:0 */
    assert_fails(snapshot(second, stream, host, data, MIB), LULL_ERR_DEVICE,
                 "CUDA_ERROR_INVALID_HANDLE");
    cuda_world_stream_destroy(stream);
    lull_device_destroy(second);
    lull_device_destroy(first);
    cuda_world_free(data);
}

static void test_destroyed_stream(void **state) {
    (void)state;
    NEEDS_FAKE; /* CUDA leaves it undefined */
    lull_device_t *device = open_cuda();
    lull_stream_t stream = cuda_world_stream(false);
    void *event;
    cuda_world_stream_destroy(stream);
    assert_fails(device->exec->event_record(device, stream, &event),
                 LULL_ERR_DEVICE, "destroyed");
    lull_device_destroy(device);
}

static void test_captured_stream(void **state) {
    (void)state;
    lull_device_t *device = open_cuda();
    lull_stream_t stream = cuda_world_stream(false);
    void *event, *graph = NULL;
    assert_int_equal(world->cuStreamBeginCapture_v2(stream.handle, 2), 0);
    assert_fails(device->exec->event_record(device, stream, &event),
                 LULL_ERR_STATE, "captured");
    assert_int_equal(world->cuStreamEndCapture(stream.handle, &graph), 0);
    assert_ok(device->exec->event_record(device, stream, &event));
    device->exec->event_destroy(device, event);
    cuda_world_stream_destroy(stream);
    lull_device_destroy(device);
}

/* A save in the background, beside a capture of the mode that forbids others
 * nearly everything: neither suffers. */
static void test_beside_a_capture(void **state) {
    (void)state;
    lull_device_t *device = open_cuda();
    lull_stream_t captured = cuda_world_stream(false);
    lull_stream_t stream = cuda_world_stream(false);
    void *data = cuda_world_alloc(BYTES), *staging, *graph = NULL;
    const char *note;
    cuda_world_late_fill(stream, 0, data, 5, BYTES);
    assert_int_equal(world->cuStreamBeginCapture_v2(captured.handle, 0), 0);
    assert_ok(device->memory->staging_alloc(device, BYTES, &staging, &note));
    assert_null(note);
    assert_ok(snapshot(device, stream, staging, data, BYTES));
    assert_true(all(staging, 5, BYTES));
    assert_int_equal(world->cuStreamEndCapture(captured.handle, &graph), 0);
    device->memory->staging_free(device, staging, BYTES);
    cuda_world_free(data);
    cuda_world_stream_destroy(captured);
    cuda_world_stream_destroy(stream);
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
        status = snapshot(device, LULL_STREAM_DEFAULT, staging, data, BYTES);
        if (status == LULL_OK)
            assert_true(all(staging, 7, BYTES));
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
    world->fake->set_gbps(1000);
    unsigned failures = 0, n = 1;
    for (;; n++) {
        world->fake->inject("*", n, 719);
        lull_status_t status = life(data);
        if (!world->fake->injected())
            break;
        if (status == LULL_OK)
            continue;
        failures++;
        assert_int_equal(status, LULL_ERR_DEVICE);
        assert_non_null(strstr(lull_last_error(), "CUDA_ERROR_LAUNCH_FAILED"));
    }
    world->fake->inject("*", 0, 0);
    assert_true(failures > 20 && n > failures);
    assert_ok(life(data));
    cuda_world_free(data);
    /* A call that could not enter the context could not unpin either. */
    fake_cuda_live_t live;
    world->fake->live(&live);
    at_start.pins = live.pins;
    at_start.events = live.events;
    at_start.streams = live.streams;
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
    lull_device_t *device = open_cuda();
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        void *queue;
        world->fake->inject("cuStreamCreate", 1, rows[i].result);
        assert_fails(device->exec->queue_create(device, &queue), rows[i].status,
                     rows[i].word);
    }
    lull_device_destroy(device);
}

/* A kernel of the caller fails while copies wait for it. */
static void test_sticky_error(void **state) {
    (void)state;
    NEEDS_FAKE;
    lull_device_t *device = open_cuda();
    lull_stream_t stream = cuda_world_stream(false);
    void *data = cuda_world_alloc(MIB), *staging;
    const char *note;
    assert_ok(device->memory->staging_alloc(device, BYTES, &staging, &note));
    cuda_world_late_fill(stream, 0.02, NULL, 0, 0);
    world->fake->break_in_stream(stream.handle, 700);
    assert_fails(snapshot(device, stream, staging, data, MIB), LULL_ERR_DEVICE,
                 "the context is lost");
    assert_fails(snapshot(device, stream, staging, data, MIB), LULL_ERR_DEVICE,
                 "CUDA_ERROR_ILLEGAL_ADDRESS");
    lull_device_t *other;
    assert_fails(lull_device_open("cuda:0", &other), LULL_ERR_DEVICE,
                 "CUDA_ERROR_ILLEGAL_ADDRESS");
    device->memory->staging_free(device, staging, BYTES);
    lull_device_destroy(device);
    world->fake->reset();
    cuda_world_free(data);
    cuda_world_stream_destroy(stream);
}

static void test_absent(void **state) {
    (void)state;
    NEEDS_FAKE;
    lull_device_t *device;
    lull_device_info_t info = {.size = sizeof info};
    world->fake->set_devices(0);
    assert_fails(lull_device_open("cuda", &device), LULL_ERR_UNSUPPORTED,
                 "no device");
    assert_ok(lull_device_at(1, &info));
    assert_string_equal(info.name, "cuda");
    assert_int_equal(info.status, LULL_ERR_UNSUPPORTED);
    assert_non_null(strstr(info.text, "no device"));
}

/* ---- Fork, threads, idleness ---- */

static void test_fork_is_refused(void **state) {
    (void)state;
    lull_device_t *device = open_cuda(), *other;
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

typedef struct worker {
    lull_device_t *device;
    char *to;
    const char *from;
    lull_status_t status;
} worker_t;

static void *work(void *arg) {
    worker_t *worker = arg;
    for (int i = 0; i < 5 && worker->status == LULL_OK; i++)
        worker->status = snapshot(worker->device, LULL_STREAM_DEFAULT,
                                  worker->to, worker->from, BYTES);
    return NULL;
}

static void test_threads(void **state) {
    (void)state;
    enum { THREADS = 4 };
    lull_device_t *device = open_cuda();
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
        assert_true(all(workers[i].to, i + 1, BYTES));
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
    lull_device_t *device = open_cuda();
    const lull__device_exec_t *exec = device->exec;
    void *data = cuda_world_alloc(BYTES), *staging, *queue, *event;
    const char *note;
    uint64_t number;
    assert_ok(device->memory->staging_alloc(device, BYTES, &staging, &note));
    assert_ok(exec->queue_create(device, &queue));
    world->fake->reset();
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
        assert_int_equal(world->fake->calls(never[i]), 0);
    assert_int_equal(world->fake->calls("cuMemcpyDtoHAsync_v2"), 200);
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
    lull__numa_prefer(host, 0, 1023); /* no such node: no harm */
}

int main(void) {
    world = cuda_world_begin();
    host = malloc(BYTES);
#define TEST(name) cmocka_unit_test_setup_teardown(name, begin_test, end_test)
    const struct CMUnitTest tests[] = {
        TEST(test_opens_by_name),
        TEST(test_current_device),
        TEST(test_waits_for_a_late_kernel),
        TEST(test_waits_for_the_default_stream),
        TEST(test_does_not_wait_for_later_work),
        TEST(test_fences),
        TEST(test_queue_destroy_waits),
        TEST(test_pinning_falls_back),
        TEST(test_pinned_in_part),
        TEST(test_huge_staging_is_refused),
        TEST(test_staging_outlives_the_context),
        TEST(test_pointers),
        TEST(test_range_past_an_allocation),
        TEST(test_memory_of_another_device),
        TEST(test_destroyed_stream),
        TEST(test_captured_stream),
        TEST(test_beside_a_capture),
        TEST(test_every_call_fails_once),
        TEST(test_statuses_of_results),
        TEST(test_sticky_error),
        TEST(test_absent),
        TEST(test_fork_is_refused),
        TEST(test_threads),
        TEST(test_steady_state_creates_nothing),
        TEST(test_numa_node),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    free(host);
    if (failed == 0)
        cuda_world_end();
    return failed;
}
