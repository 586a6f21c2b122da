/* CUDA from a test's side: the driver that a test drives itself, whether it
 * is the one that tests play or a real one. */
#ifndef CUDA_WORLD_H
#define CUDA_WORLD_H

#include <lull/device.h>
#include <stdbool.h>
#include <stddef.h>

#include "device/cuda_driver.h"
#include "fake_cuda/fake_cuda.h"

/* X(entry point, parameters): what tests use beside lull's own. */
#define CUDA_WORLD_TABLE(X)                                            \
    X(cuInit, (unsigned))                                              \
    X(cuDeviceGetCount, (int *))                                       \
    X(cuDeviceGet, (int *, int))                                       \
    X(cuDevicePrimaryCtxRetain, (lull__cu_context_t *, int))           \
    X(cuDevicePrimaryCtxRelease_v2, (int))                             \
    X(cuCtxPushCurrent_v2, (lull__cu_context_t))                       \
    X(cuCtxPopCurrent_v2, (lull__cu_context_t *))                      \
    X(cuCtxGetCurrent, (lull__cu_context_t *))                         \
    X(cuMemAlloc_v2, (lull__cu_pointer_t *, size_t))                   \
    X(cuMemFree_v2, (lull__cu_pointer_t))                              \
    X(cuMemHostAlloc, (void **, size_t, unsigned))                     \
    X(cuMemFreeHost, (void *))                                         \
    X(cuMemcpyHtoD_v2, (lull__cu_pointer_t, const void *, size_t))     \
    X(cuMemcpyDtoH_v2, (void *, lull__cu_pointer_t, size_t))           \
    X(cuMemsetD8Async,                                                 \
      (lull__cu_pointer_t, unsigned char, size_t, lull__cu_stream_t))  \
    X(cuLaunchHostFunc, (lull__cu_stream_t, void (*)(void *), void *)) \
    X(cuStreamCreate, (lull__cu_stream_t *, unsigned))                 \
    X(cuStreamDestroy_v2, (lull__cu_stream_t))                         \
    X(cuStreamSynchronize, (lull__cu_stream_t))                        \
    X(cuStreamBeginCapture_v2, (lull__cu_stream_t, unsigned))          \
    X(cuStreamEndCapture, (lull__cu_stream_t, void **))

typedef struct cuda_world {
#define CUDA_WORLD_MEMBER(name, parameters) unsigned(*name) parameters;
    CUDA_WORLD_TABLE(CUDA_WORLD_MEMBER)
#undef CUDA_WORLD_MEMBER
    const fake_cuda_control_t *fake; /* NULL: the driver is a real one */
    int count;                       /* of devices */
    lull__cu_context_t context;      /* of device 0; retained */
} cuda_world_t;

/* The driver of this test: LULL_TEST_CUDA=real in the environment asks for a
 * real one, else it has to be the fake. Leaves the process with 77 and the
 * reason where there is no real one, and fails where there is no fake. Device
 * 0's primary context is current on this thread until the end. */
cuda_world_t *cuda_world_begin(void);
void cuda_world_end(void);

/* Each fails the test where the driver does. */
void *cuda_world_alloc(size_t bytes);
void cuda_world_free(void *data);
lull_stream_t cuda_world_stream(bool blocking);
void cuda_world_stream_destroy(lull_stream_t stream);
/* Puts a value in all bytes, on the stream, `seconds` after the stream gets
 * to it: a late kernel. NULL data: only the wait. */
void cuda_world_late_fill(lull_stream_t stream, double seconds, void *data,
                          unsigned char value, size_t bytes);
/* What is queued on the stream behind this waits until *go is true; atomic. */
void cuda_world_hold(lull_stream_t stream, bool *go);
/* Of the fake: only the test's own context lives. */
void cuda_world_assert_empty(void);
void cuda_world_sync(lull_stream_t stream);
void cuda_world_write(void *to, const void *from, size_t bytes);
void cuda_world_read(void *to, const void *from, size_t bytes);

#endif
