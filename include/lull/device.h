/* Where tensors live. A device is memory and execution: the host, `sim` (a
 * fake accelerator for tests and benchmarks), later cuda. */
#ifndef LULL_DEVICE_H
#define LULL_DEVICE_H

#include <stddef.h>
#include <stdint.h>

#include "status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct lull_device lull_device_t;

/* A stream of the caller's framework, wrapped; opaque to lull's users. NULL
 * handle: the device's default stream (on the host: nothing to wait for). */
typedef struct lull_stream {
    void *handle;
} lull_stream_t;

#define LULL_STREAM_DEFAULT ((lull_stream_t){NULL})

/* Opens a device by name: "host". More rows follow ("sim", "cuda:0").
 * LULL_ERR_NOT_FOUND: no such device; LULL_ERR_UNSUPPORTED: not usable on
 * this machine, the sentence says why. May block. Destroy it after every
 * engine that uses it. Any thread. */
LULL_API lull_status_t lull_device_open(const char *name, lull_device_t **out);

/* Releases a device; NULL is harmless. */
LULL_API void lull_device_destroy(lull_device_t *device);

/* The name it was opened by; owned by the device. */
LULL_API const char *lull_device_name(const lull_device_t *device);

#ifdef __cplusplus
}
#endif

#endif
