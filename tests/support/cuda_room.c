/* What tests of the cuda device share. */
#include "cuda_room.h"

#include <stdlib.h>
#include <string.h>

#include "test.h"

cuda_world_t *cuda_room;
fake_cuda_live_t cuda_room_at_start;
char *cuda_room_host;

void cuda_room_begin(void) {
    cuda_room = cuda_world_begin();
    cuda_room_host = malloc(BYTES);
    assert_non_null(cuda_room_host);
}

int cuda_room_end(int failed) {
    free(cuda_room_host);
    if (failed == 0)
        cuda_world_end();
    return failed;
}

int cuda_room_begin_test(void **state) {
    (void)state;
    if (cuda_room->fake != NULL) {
        cuda_room->fake->reset();
        cuda_room->fake->live(&cuda_room_at_start);
    }
    return 0;
}

int cuda_room_end_test(void **state) {
    (void)state;
    lull__cu_context_t current = NULL;
    assert_int_equal(cuda_room->cuCtxGetCurrent(&current), 0);
    assert_ptr_equal(current, cuda_room->context);
    if (cuda_room->fake == NULL)
        return 0;
    fake_cuda_live_t live;
    cuda_room->fake->live(&live);
    assert_memory_equal(&live, &cuda_room_at_start, sizeof live);
    assert_int_equal(cuda_room->fake->spins(), 0);
    return 0;
}

lull_device_t *cuda_room_open(void) {
    lull_device_t *device = NULL;
    assert_ok(lull_device_open("cuda:0", &device));
    return device;
}

bool cuda_room_all(const char *data, int value, size_t bytes) {
    return (unsigned char)data[0] == value &&
           memcmp(data, data + 1, bytes - 1) == 0;
}

lull_status_t cuda_room_snapshot(lull_device_t *device, lull_stream_t stream,
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
