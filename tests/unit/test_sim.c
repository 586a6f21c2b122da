/* The sim device: order of streams and copies, what it refuses, its memory. */
#include <locale.h>
#include <lull/device.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/thread.h"
#include "device/device.h"
#include "support.h"
#include "test.h"

#define BYTES ((size_t)1 << 20)

static lull_device_t *device;
static char *host;

static int setup(void **state) {
    (void)state;
    host = malloc(BYTES);
    return lull_device_open("sim:100", &device) == LULL_OK ? 0 : -1;
}

static int teardown(void **state) {
    (void)state;
    lull_device_destroy(device);
    free(host);
    return 0;
}

static void fill_7(void *ctx, void *data, size_t bytes) {
    (void)ctx;
    memset(data, 7, bytes);
}

static bool all(const char *data, int value, size_t bytes) {
    return (unsigned char)data[0] == value &&
           memcmp(data, data + 1, bytes - 1) == 0;
}

/* Copies what a late kernel writes; `order`: behind an event, or not. */
static void copy_behind(bool order) {
    const lull__device_exec_t *exec = device->exec;
    lull_stream_t stream;
    void *memory, *event, *queue;
    uint64_t number;
    assert_ok(lull_sim_alloc(device, BYTES, &memory));
    assert_ok(lull_sim_stream_create(device, &stream));
    assert_ok(exec->queue_create(device, &queue));
    lull_sim_kernel_t kernel = LULL_SIM_KERNEL_INIT;
    kernel.seconds = 0.05;
    kernel.output = memory;
    kernel.bytes = BYTES;
    kernel.fn = fill_7;
    assert_ok(lull_sim_launch(device, stream, &kernel));
    assert_ok(exec->event_record(device, stream, &event));
    if (order)
        assert_ok(exec->queue_after(device, queue, event));
    exec->event_destroy(device, event);
    assert_ok(exec->copy_out(device, queue, host, memory, BYTES));
    assert_ok(exec->fence(device, queue, &number));
    assert_ok(exec->fence_wait(device, queue, number));
    assert_true(all(host, order ? 7 : 0xeb, BYTES));
    exec->queue_destroy(device, queue);
    lull_sim_stream_destroy(device, stream);
    lull_sim_free(device, memory);
}

static void test_waits_for_the_event(void **state) {
    (void)state;
    copy_behind(true);
}

/* What the poison is for: a copy that does not wait is seen. */
static void test_reading_too_early_shows(void **state) {
    (void)state;
#ifdef __SANITIZE_THREAD__
    skip(); /* a race by intent, and found as one */
#endif
    copy_behind(false);
}

static void test_copies_in_and_out(void **state) {
    (void)state;
    const lull__device_exec_t *exec = device->exec;
    void *memory, *queue;
    uint64_t number;
    char *back = malloc(BYTES);
    for (size_t i = 0; i < BYTES; i++)
        host[i] = (char)(i * 131 >> 3);
    assert_ok(lull_sim_alloc(device, BYTES, &memory));
    assert_ok(exec->queue_create(device, &queue));
    /* More than a lane's ring, with one fence each. */
    for (size_t at = 0; at < BYTES; at += 1024) {
        assert_ok(
            exec->copy_in(device, queue, (char *)memory + at, host + at, 1024));
        assert_ok(exec->fence(device, queue, &number));
    }
    assert_ok(exec->copy_out(device, queue, back, memory, BYTES));
    assert_ok(exec->fence(device, queue, &number));
    assert_ok(exec->fence_wait(device, queue, number));
    assert_memory_equal(back, host, BYTES);
    assert_fails(exec->fence_wait(device, queue, number + 1), LULL_ERR_INVALID,
                 "fence");
    memset(back, 0, BYTES);
    assert_ok(lull_sim_read(device, back, memory, BYTES));
    assert_memory_equal(back, host, BYTES);
    exec->queue_destroy(device, queue);
    lull_sim_free(device, memory);
    free(back);
}

static void test_refuses(void **state) {
    (void)state;
    const lull__device_exec_t *exec = device->exec;
    void *memory, *queue, *event;
    lull_stream_t stream;
    assert_ok(lull_sim_alloc(device, BYTES, &memory));
    assert_ok(exec->queue_create(device, &queue));
    assert_fails(exec->copy_out(device, queue, host, host, 1), LULL_ERR_DEVICE,
                 "no memory of it");
    assert_fails(exec->copy_out(device, queue, host, memory, BYTES + 1),
                 LULL_ERR_DEVICE, "no memory of it");
    lull_sim_free(device, memory);
    assert_fails(exec->copy_out(device, queue, host, memory, 1),
                 LULL_ERR_DEVICE, "freed");
    assert_ok(lull_sim_stream_create(device, &stream));
    lull_sim_stream_destroy(device, stream);
    assert_fails(exec->event_record(device, stream, &event), LULL_ERR_DEVICE,
                 "stream");
    exec->queue_destroy(device, queue);
    lull_device_t *other;
    assert_ok(lull_device_open("host", &other));
    assert_fails(lull_sim_alloc(other, 1, &memory), LULL_ERR_INVALID, "host");
    assert_fails(lull_device_open("sim:x", &other), LULL_ERR_NOT_FOUND,
                 "sim:x");
    assert_fails(lull_device_open("sim:-1", &other), LULL_ERR_NOT_FOUND, "-1");
    if (test_decimal_comma()) {
        assert_ok(lull_device_open("sim:0.5", &other));
        assert_string_equal(lull_device_name(other), "sim:0.5");
        lull_device_destroy(other);
        setlocale(LC_NUMERIC, "C");
    }
}

/* Freed while a copy of it waits in a queue: no crash, and not its bytes. */
static void test_freed_under_a_copy(void **state) {
    (void)state;
    const lull__device_exec_t *exec = device->exec;
    void *memory, *queue, *event;
    uint64_t number;
    lull_sim_kernel_t kernel = LULL_SIM_KERNEL_INIT;
    kernel.seconds = 0.05;
    assert_ok(lull_sim_alloc(device, BYTES, &memory));
    assert_ok(lull_sim_launch(device, LULL_STREAM_DEFAULT, &kernel));
    assert_ok(exec->event_record(device, LULL_STREAM_DEFAULT, &event));
    assert_ok(exec->queue_create(device, &queue));
    assert_ok(exec->queue_after(device, queue, event));
    assert_ok(exec->copy_out(device, queue, host, memory, BYTES));
    assert_ok(exec->fence(device, queue, &number));
    lull_sim_free(device, memory);
    assert_ok(exec->fence_wait(device, queue, number));
    assert_true(all(host, 0xfd, BYTES));
    exec->event_destroy(device, event);
    exec->queue_destroy(device, queue);
}

/* In a child, so that what dies is not the test. */
static void test_the_cpu_may_not_touch_it(void **state) {
    (void)state;
    void *memory;
    assert_ok(lull_sim_alloc(device, BYTES, &memory));
    pid_t child = fork();
    if (child == 0) {
        signal(SIGSEGV, SIG_DFL);
        _exit(*(volatile char *)memory == 1);
    }
    int how;
    assert_int_equal(waitpid(child, &how, 0), child);
    assert_true(WIFSIGNALED(how) && WTERMSIG(how) == SIGSEGV);
    lull_sim_free(device, memory);
}

static void test_fork_is_refused(void **state) {
    (void)state;
    pid_t child = fork();
    if (child == 0) {
        void *queue;
        lull_status_t status = device->exec->queue_create(device, &queue);
        lull_device_destroy(device);
        _exit(status == LULL_ERR_FORKED ? 0 : 1);
    }
    int how;
    assert_int_equal(waitpid(child, &how, 0), child);
    assert_true(WIFEXITED(how) && WEXITSTATUS(how) == 0);
}

static void test_bandwidth_is_kept(void **state) {
    (void)state;
    lull_device_t *slow;
    void *memory, *queue;
    uint64_t number;
    assert_ok(lull_device_open("sim:0.02", &slow));
    assert_string_equal(lull_device_name(slow), "sim:0.02");
    assert_ok(lull_sim_alloc(slow, BYTES, &memory));
    assert_ok(slow->exec->queue_create(slow, &queue));
    double begin = lull__now();
    assert_ok(slow->exec->copy_out(slow, queue, host, memory, BYTES));
    assert_ok(slow->exec->fence(slow, queue, &number));
    assert_ok(slow->exec->fence_wait(slow, queue, number));
    assert_true(lull__now() - begin >= 0.9 * (double)BYTES / 0.02e9);
    slow->exec->queue_destroy(slow, queue);
    lull_device_destroy(slow); /* frees the memory */
}

static void test_devices_are_listed(void **state) {
    (void)state;
    lull_device_info_t info = {.size = sizeof info};
    unsigned count = 0, seen = 0;
    for (; lull_device_at(count, &info) == LULL_OK; count++) {
        seen |= strcmp(info.name, "host") == 0 ? 1u : 0;
        seen |= strncmp(info.name, "cuda", 4) == 0 ? 2u : 0;
        seen |= strcmp(info.name, "sim") == 0 ? 4u : 0;
        assert_true(info.text[0] != '\0');
        lull_device_t *opened;
        lull_status_t status = lull_device_open(info.name, &opened);
        assert_int_equal(status, info.status);
        if (status == LULL_OK)
            lull_device_destroy(opened);
        else
            assert_string_equal(info.text, lull_last_error());
    }
    assert_int_equal(seen, 7);
    assert_fails(lull_device_at(count, &info), LULL_ERR_NOT_FOUND, "device");
    info.size = 1;
    assert_fails(lull_device_at(0, &info), LULL_ERR_INVALID, "size");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_waits_for_the_event),
        cmocka_unit_test(test_reading_too_early_shows),
        cmocka_unit_test(test_copies_in_and_out),
        cmocka_unit_test(test_refuses),
        cmocka_unit_test(test_freed_under_a_copy),
        cmocka_unit_test(test_the_cpu_may_not_touch_it),
        cmocka_unit_test(test_fork_is_refused),
        cmocka_unit_test(test_bandwidth_is_kept),
        cmocka_unit_test(test_devices_are_listed),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
