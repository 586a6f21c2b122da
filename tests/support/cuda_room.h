/* What tests of the cuda device by its vtables share. */
#ifndef CUDA_ROOM_H
#define CUDA_ROOM_H

#include "cuda_world.h"
#include "device/device.h"

#define MIB ((size_t)1 << 20)
#define BYTES (4 * MIB)

extern cuda_world_t *cuda_room;
extern fake_cuda_live_t cuda_room_at_start; /* of the test at hand */
extern char *cuda_room_host;                /* [BYTES], pageable */

/* Before and after all tests; the latter gives what main() is to return. */
void cuda_room_begin(void);
int cuda_room_end(int failed);

/* Nothing of a test is left, and the thread's context is what it was. */
int cuda_room_begin_test(void **state);
int cuda_room_end_test(void **state);
#define CUDA_ROOM_TEST(name)                                    \
    cmocka_unit_test_setup_teardown(name, cuda_room_begin_test, \
                                    cuda_room_end_test)
#define NEEDS_FAKE               \
    if (cuda_room->fake == NULL) \
    skip()

lull_device_t *cuda_room_open(void);
bool cuda_room_all(const char *data, int value, size_t bytes);
/* The one path of a save: event, queue, copies, fence. */
lull_status_t cuda_room_snapshot(lull_device_t *device, lull_stream_t stream,
                                 void *to, const void *from, size_t bytes);

#endif
