/* The CUDA driver, loaded at run time: the entry points that lull uses, as a
 * table, and what their results mean. Nothing of CUDA is needed to build.
 *
 * Source of types and numbers: the CUDA Driver API reference, cuda.h; where
 * that header exists a compile test holds these against it. */
#ifndef LULL__CUDA_DRIVER_H
#define LULL__CUDA_DRIVER_H

#include <lull/status.h>
#include <stddef.h>

/* Handles have cuda.h's own tags, so that both may be included. */
typedef struct CUctx_st *lull__cu_context_t;
typedef struct CUstream_st *lull__cu_stream_t;
typedef struct CUevent_st *lull__cu_event_t;
typedef unsigned lull__cu_enum_t; /* CUresult and all other enums */
typedef int lull__cu_device_t;
typedef unsigned long long lull__cu_pointer_t; /* CUdeviceptr */

enum {
    LULL__CU_VERSION_MIN = 11000, /* cuDevicePrimaryCtxRelease_v2 */
    LULL__CU_SUCCESS = 0,
    LULL__CU_INVALID_CONTEXT = 201,
    LULL__CU_STREAM_NON_BLOCKING = 1,
    LULL__CU_EVENT_BLOCKING_NO_TIMING = 1 | 2,
    LULL__CU_HOST_PORTABLE = 1, /* pinned for every context */
    LULL__CU_CAPTURE_RELAXED = 2,
    LULL__CU_POINTER_MEMORY_TYPE = 2,
    LULL__CU_POINTER_IS_MANAGED = 8,
    LULL__CU_POINTER_ORDINAL = 9,
    LULL__CU_MEMORY_HOST = 1,
    LULL__CU_MEMORY_DEVICE = 2
};

/* X(entry point as libcuda.so.1 exports it, parameters); all return a
 * result. */
#define LULL__CUDA_TABLE(X)                                                \
    X(cuDriverGetVersion, (int *))                                         \
    X(cuInit, (unsigned))                                                  \
    X(cuGetErrorName, (lull__cu_enum_t, const char **))                    \
    X(cuDeviceGetCount, (int *))                                           \
    X(cuDeviceGet, (lull__cu_device_t *, int))                             \
    X(cuDeviceGetName, (char *, int, lull__cu_device_t))                   \
    X(cuDeviceTotalMem_v2, (size_t *, lull__cu_device_t))                  \
    X(cuDeviceGetPCIBusId, (char *, int, lull__cu_device_t))               \
    X(cuDevicePrimaryCtxRetain, (lull__cu_context_t *, lull__cu_device_t)) \
    X(cuDevicePrimaryCtxRelease_v2, (lull__cu_device_t))                   \
    X(cuCtxGetDevice, (lull__cu_device_t *))                               \
    X(cuCtxPushCurrent_v2, (lull__cu_context_t))                           \
    X(cuCtxPopCurrent_v2, (lull__cu_context_t *))                          \
    X(cuThreadExchangeStreamCaptureMode, (lull__cu_enum_t *))              \
    X(cuMemHostRegister_v2, (void *, size_t, unsigned))                    \
    X(cuMemHostUnregister, (void *))                                       \
    X(cuPointerGetAttributes,                                              \
      (unsigned, lull__cu_enum_t *, void **, lull__cu_pointer_t))          \
    X(cuStreamCreate, (lull__cu_stream_t *, unsigned))                     \
    X(cuStreamDestroy_v2, (lull__cu_stream_t))                             \
    X(cuStreamIsCapturing, (lull__cu_stream_t, lull__cu_enum_t *))         \
    X(cuStreamWaitEvent, (lull__cu_stream_t, lull__cu_event_t, unsigned))  \
    X(cuEventCreate, (lull__cu_event_t *, unsigned))                       \
    X(cuEventDestroy_v2, (lull__cu_event_t))                               \
    X(cuEventRecord, (lull__cu_event_t, lull__cu_stream_t))                \
    X(cuEventSynchronize, (lull__cu_event_t))                              \
    X(cuMemcpyAsync,                                                       \
      (lull__cu_pointer_t, lull__cu_pointer_t, size_t, lull__cu_stream_t)) \
    X(cuMemcpyDtoHAsync_v2,                                                \
      (void *, lull__cu_pointer_t, size_t, lull__cu_stream_t))             \
    X(cuMemcpyHtoDAsync_v2,                                                \
      (lull__cu_pointer_t, const void *, size_t, lull__cu_stream_t))

/* Members are named after the entry points: cu->cuInit(0). */
typedef struct lull__cuda {
#define LULL__CUDA_MEMBER(name, parameters) lull__cu_enum_t(*name) parameters;
    LULL__CUDA_TABLE(LULL__CUDA_MEMBER)
#undef LULL__CUDA_MEMBER
} lull__cuda_t;

#define LULL__CUDA_NEWER "a newer driver is needed"
#define LULL__CUDA_LOST                                                    \
    "the context is lost: nothing works on this device until the process " \
    "starts again"

/* X(number, CUDA_ERROR_ name, LULL_ERR_ status, what it means or NULL):
 * results that are not just a failed device, or deserve a word. */
#define LULL__CUDA_RESULTS(X)                                                \
    X(2, OUT_OF_MEMORY, NO_MEMORY, NULL)                                     \
    X(3, NOT_INITIALIZED, UNSUPPORTED, NULL)                                 \
    X(4, DEINITIALIZED, DEVICE, LULL__CUDA_LOST)                             \
    X(34, STUB_LIBRARY, UNSUPPORTED, "it is the stub that programs link to") \
    X(46, DEVICE_UNAVAILABLE, DEVICE, "it is in exclusive use, or gone")     \
    X(100, NO_DEVICE, UNSUPPORTED, NULL)                                     \
    X(101, INVALID_DEVICE, NOT_FOUND, NULL)                                  \
    X(201, INVALID_CONTEXT, DEVICE, "its context is gone")                   \
    X(214, ECC_UNCORRECTABLE, DEVICE, LULL__CUDA_LOST)                       \
    X(220, NVLINK_UNCORRECTABLE, DEVICE, LULL__CUDA_LOST)                    \
    X(700, ILLEGAL_ADDRESS, DEVICE, LULL__CUDA_LOST)                         \
    X(702, LAUNCH_TIMEOUT, DEVICE, LULL__CUDA_LOST)                          \
    X(709, CONTEXT_IS_DESTROYED, DEVICE, LULL__CUDA_LOST)                    \
    X(710, ASSERT, DEVICE, LULL__CUDA_LOST)                                  \
    X(714, HARDWARE_STACK_ERROR, DEVICE, LULL__CUDA_LOST)                    \
    X(715, ILLEGAL_INSTRUCTION, DEVICE, LULL__CUDA_LOST)                     \
    X(716, MISALIGNED_ADDRESS, DEVICE, LULL__CUDA_LOST)                      \
    X(717, INVALID_ADDRESS_SPACE, DEVICE, LULL__CUDA_LOST)                   \
    X(718, INVALID_PC, DEVICE, LULL__CUDA_LOST)                              \
    X(719, LAUNCH_FAILED, DEVICE, LULL__CUDA_LOST)                           \
    X(801, NOT_SUPPORTED, UNSUPPORTED, NULL)                                 \
    X(802, SYSTEM_NOT_READY, UNSUPPORTED, NULL)                              \
    X(803, SYSTEM_DRIVER_MISMATCH, UNSUPPORTED,                              \
      "the driver's library and its kernel module are of two versions")      \
    X(804, COMPAT_NOT_SUPPORTED_ON_DEVICE, UNSUPPORTED, LULL__CUDA_NEWER)    \
    X(906, STREAM_CAPTURE_IMPLICIT, STATE,                                   \
      "a stream is being captured into a graph")

/* Loads libcuda.so.1 and initialises it, once for the process. LULL_ERR_
 * UNSUPPORTED: no driver, no device, or a driver too old, with the reason;
 * asked again it tries again. LULL_ERR_FORKED. The driver stays loaded. Any
 * thread. */
lull_status_t lull__cuda_load(const lull__cuda_t **out);

/* The status of a failed call, and its sentence: what was done, CUDA's own
 * name of the error and, where there is something to say, what it means. */
lull_status_t lull__cuda_fail(const lull__cuda_t *cu, lull__cu_enum_t result,
                              const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#endif
