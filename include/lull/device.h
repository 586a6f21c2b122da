/* Where tensors live. A device is memory and execution: the host, CUDA's
 * devices, and `sim`, an accelerator that this library plays. No header of
 * CUDA is needed: its streams and pointers are wrapped. */
#ifndef LULL_DEVICE_H
#define LULL_DEVICE_H

#include <stddef.h>
#include <stdint.h>

#include "status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct lull_device lull_device_t;

/* A stream of the caller's framework, wrapped: on cuda a cudaStream_t or
 * CUstream. NULL handle: the device's default stream (on cuda the legacy one;
 * on the host: nothing to wait for). */
typedef struct lull_stream {
    void *handle;
} lull_stream_t;

#define LULL_STREAM_DEFAULT ((lull_stream_t){NULL})

/* Opens a device by name:
 *   "host"
 *   "cuda:N"    the driver's N-th device through its primary context, which
 *               is retained; "cuda": the one that is current on this thread,
 *               else cuda:0. Memory of any allocator of that context will do,
 *               also managed memory and host memory that CUDA has pinned.
 *   "sim:GBPS"  see below; "sim": 12
 * LULL_ERR_NOT_FOUND: no such device. LULL_ERR_UNSUPPORTED: not usable on
 * this machine, the sentence says why. LULL_ERR_DEVICE: it fails, with CUDA's
 * name of the error. LULL_ERR_FORKED: CUDA was used before a fork. May block.
 * Destroy it after every engine that uses it. Any thread. */
LULL_API lull_status_t lull_device_open(const char *name, lull_device_t **out);

/* Releases a device; NULL is harmless. */
LULL_API void lull_device_destroy(lull_device_t *device);

/* Its name, as "cuda:0"; owned by the device. */
LULL_API const char *lull_device_name(const lull_device_t *device);

/* A device of this machine. */
typedef struct lull_device_info {
    size_t size;          /* sizeof, set by the caller */
    char name[32];        /* what opens it */
    lull_status_t status; /* LULL_OK: may be opened */
    char text[480];       /* what it is, or why it may not be opened */
} lull_device_info_t;

/* Device `index` of this machine, counted from 0; LULL_ERR_NOT_FOUND past the
 * last. Where there is no cuda device, one row says why. Initialises CUDA: a
 * process that forks must not use it in the child. May block. Any thread. */
LULL_API lull_status_t lull_device_at(unsigned index, lull_device_info_t *out);

/* ---- sim --------------------------------------------------------------
 * An accelerator without the hardware, to test and to measure what overlaps:
 * memory that the CPU cannot touch by its address, streams that run behind
 * the caller's back, and one copy engine of GBPS GB/s (1e9 bytes). Its work
 * takes a wall clock's time but next to no processor, except for copying.
 * Every function here fails with LULL_ERR_INVALID on another device. */

/* Memory on the device; its bytes read as 0xeb until they are written. Any
 * thread. Freeing waits for nothing; NULL is harmless. LULL_ERR_NO_MEMORY. */
LULL_API lull_status_t lull_sim_alloc(lull_device_t *device, size_t bytes,
                                      void **out);
LULL_API void lull_sim_free(lull_device_t *device, void *data);

/* A stream, for lull_ckpt_save_t.stream. Destroying it waits for its work. */
LULL_API lull_status_t lull_sim_stream_create(lull_device_t *device,
                                              lull_stream_t *out);
LULL_API void lull_sim_stream_destroy(lull_device_t *device,
                                      lull_stream_t stream);

/* A kernel's work, on the stream's thread: `data` is where the CPU can reach
 * the output of the launch. Must not call the library. */
typedef void (*lull_sim_kernel_fn)(void *ctx, void *data, size_t bytes);

/* What a kernel is. Its output (NULL: none) becomes 0xeb when it starts, and
 * what `fn` (NULL: nothing) makes of it after `seconds`. */
typedef struct lull_sim_kernel {
    size_t size; /* sizeof(lull_sim_kernel_t) */
    double seconds;
    void *output; /* in memory of lull_sim_alloc */
    size_t bytes;
    lull_sim_kernel_fn fn;
    void *ctx;
} lull_sim_kernel_t;

#define LULL_SIM_KERNEL_INIT \
    { .size = sizeof(lull_sim_kernel_t) }

/* Queues a kernel; returns at once, but waits while 256 operations wait in
 * the stream. LULL_ERR_DEVICE: output is not memory of this device. */
LULL_API lull_status_t lull_sim_launch(lull_device_t *device,
                                       lull_stream_t stream,
                                       const lull_sim_kernel_t *kernel);

/* Waits for what was launched on a stream. */
LULL_API lull_status_t lull_sim_stream_wait(lull_device_t *device,
                                            lull_stream_t stream);

/* Copies between the device's memory and the host's, at once, without the
 * copy engine: to set up and to look. Not ordered with any stream. */
LULL_API lull_status_t lull_sim_write(lull_device_t *device, void *to,
                                      const void *from, size_t bytes);
LULL_API lull_status_t lull_sim_read(lull_device_t *device, void *to,
                                     const void *from, size_t bytes);

#ifdef __cplusplus
}
#endif

#endif
