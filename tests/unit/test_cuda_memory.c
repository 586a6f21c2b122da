/* The cuda device's staging memory: pinned whole, in part or not at all. Runs
 * on the driver that tests play, and with LULL_TEST_CUDA=real on a real one,
 * where what needs the fake is skipped. */
#include <stdlib.h>
#include <string.h>

#include "cuda_room.h"
#include "device/cuda.h"
#include "test.h"

typedef struct pin_case {
    size_t bytes, one, all;
    int pins;         /* registrations that are left */
    const char *note; /* a word of it; NULL: none */
} pin_case_t;

static void pin_and_copy(const pin_case_t *c) {
    lull_device_t *device = cuda_room_open();
    const lull__device_exec_t *exec = device->exec;
    void *staging, *queue, *data = cuda_world_alloc(c->bytes);
    const char *note;
    fake_cuda_live_t live;
    uint64_t number;
    cuda_room->fake->pin_limits(c->one, c->all);
    assert_ok(device->memory->staging_alloc(device, c->bytes, &staging, &note));
    cuda_room->fake->live(&live);
    assert_int_equal(live.pins - cuda_room_at_start.pins, c->pins);
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
    assert_true(cuda_room_all(staging, 3, c->bytes));
    exec->queue_destroy(device, queue);
    device->memory->staging_free(device, staging, c->bytes);
    cuda_room->fake->live(&live);
    assert_int_equal(live.pins, cuda_room_at_start.pins);
    cuda_world_free(data);
    lull_device_destroy(device);
}

static void test_pinning_falls_back(void **state) {
    (void)state;
    NEEDS_FAKE;
    const size_t piece = LULL__CUDA_PIECE, most = SIZE_MAX;
    cuda_room->fake->set_gbps(1000);
    /* A limit of one piece: two or three pieces by where it begins. */
    pin_case_t whole = {BYTES, most, most, 1, NULL};
    pin_case_t none = {BYTES, 0, most, 0, "refused"};
    pin_case_t odd = {5 * MIB + 123, most, most, 1, NULL};
    pin_and_copy(&whole);
    pin_and_copy(&none);
    odd.bytes = 5 * MIB + 123;
    pin_and_copy(&odd);
    lull_device_t *device = cuda_room_open();
    void *staging;
    const char *note;
    fake_cuda_live_t live;
    cuda_room->fake->pin_limits(piece, most);
    assert_ok(
        device->memory->staging_alloc(device, 2 * piece, &staging, &note));
    assert_null(note);
    cuda_room->fake->live(&live);
    assert_in_range(live.pins - cuda_room_at_start.pins, 2, 3);
    device->memory->staging_free(device, staging, 2 * piece);
    lull_device_destroy(device);
}

static void test_pinned_in_part(void **state) {
    (void)state;
    NEEDS_FAKE;
    const size_t piece = LULL__CUDA_PIECE, bytes = piece + piece / 2;
    lull_device_t *device = cuda_room_open();
    const lull__device_exec_t *exec = device->exec;
    void *staging, *queue, *data = cuda_world_alloc(bytes);
    const char *note;
    uint64_t number;
    cuda_room->fake->set_gbps(1000);
    cuda_room->fake->pin_limits(piece, piece); /* not all of it */
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
    assert_true(cuda_room_all(staging, 6, bytes));
    exec->queue_destroy(device, queue);
    device->memory->staging_free(device, staging, bytes);
    cuda_world_free(data);
    lull_device_destroy(device);
}

static void test_huge_staging_is_refused(void **state) {
    (void)state;
    lull_device_t *device = cuda_room_open();
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
    lull_device_t *device = cuda_room_open();
    void *staging;
    const char *note;
    assert_ok(device->memory->staging_alloc(device, BYTES, &staging, &note));
    cuda_room->fake->break_device(0, 709);
    memset(staging, 4, BYTES);
    assert_true(cuda_room_all(staging, 4, BYTES));
    device->memory->staging_free(device, staging, BYTES);
    lull_device_destroy(device);
    cuda_room->fake->reset();
}

int main(void) {
    const struct CMUnitTest tests[] = {
        CUDA_ROOM_TEST(test_pinning_falls_back),
        CUDA_ROOM_TEST(test_pinned_in_part),
        CUDA_ROOM_TEST(test_huge_staging_is_refused),
        CUDA_ROOM_TEST(test_staging_outlives_the_context),
    };
    cuda_room_begin();
    return cuda_room_end(cmocka_run_group_tests(tests, NULL, NULL));
}
