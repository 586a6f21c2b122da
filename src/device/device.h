/* What a device has to offer: two small vtables, memory and execution, each
 * thin enough for cuda (pinned memory, streams, events, asynchronous copies)
 * and trivial on the host. */
#ifndef LULL__DEVICE_H
#define LULL__DEVICE_H

#include <lull/device.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Host memory that the device copies to and from fast. */
typedef struct lull__device_memory {
    /* Page-aligned, faulted in, pinned where that is possible: *note (static
     * text, NULL: all is well) says why not. */
    lull_status_t (*staging_alloc)(lull_device_t *device, size_t bytes,
                                   void **out, const char **note);
    void (*staging_free)(lull_device_t *device, void *data, size_t bytes);
} lull__device_memory_t;

/* A copy queue runs its copies in order, beside the caller's streams. One
 * thread at a time. Copies may be done when the call returns (`async` false)
 * or later; then `fence` numbers what was issued so far and `fence_wait`
 * blocks until that is done. */
typedef struct lull__device_exec {
    bool async;
    /* Marks the point that the caller's stream has reached in its work. */
    lull_status_t (*event_record)(lull_device_t *device, lull_stream_t stream,
                                  void **event);
    void (*event_destroy)(lull_device_t *device, void *event);
    lull_status_t (*queue_create)(lull_device_t *device, void **queue);
    void (*queue_destroy)(lull_device_t *device, void *queue);
    /* Later copies of the queue begin only after the event. */
    lull_status_t (*queue_after)(lull_device_t *device, void *queue,
                                 void *event);
    lull_status_t (*copy_out)(lull_device_t *device, void *queue, void *host,
                              const void *from, size_t bytes);
    lull_status_t (*copy_in)(lull_device_t *device, void *queue, void *to,
                             const void *host, size_t bytes);
    lull_status_t (*fence)(lull_device_t *device, void *queue,
                           uint64_t *number);
    lull_status_t (*fence_wait)(lull_device_t *device, void *queue,
                                uint64_t number);
} lull__device_exec_t;

struct lull_device {
    const char *name;
    const lull__device_memory_t *memory;
    const lull__device_exec_t *exec;
    void (*destroy)(lull_device_t *device); /* frees `device` itself */
    void *ctx;
};

/* The host, for engines that were given no device; never destroyed. */
lull_device_t *lull__device_host(void);

/* One row for each kind of device. */
typedef struct lull__device_row {
    const char *name;
    /* By the part of the name behind ':' (or ""). */
    lull_status_t (*open)(const char *rest, lull_device_t **out);
    /* The index-th of this kind; LULL_ERR_NOT_FOUND past the last. Fills an
     * info whose status is LULL_OK. */
    lull_status_t (*list)(unsigned index, lull_device_info_t *out);
} lull__device_row_t;

lull_status_t lull__device_open_host(const char *rest, lull_device_t **out);
lull_status_t lull__device_list_host(unsigned index, lull_device_info_t *out);
lull_status_t lull__device_open_cuda(const char *rest, lull_device_t **out);
lull_status_t lull__device_list_cuda(unsigned index, lull_device_info_t *out);
lull_status_t lull__device_open_sim(const char *rest, lull_device_t **out);
lull_status_t lull__device_list_sim(unsigned index, lull_device_info_t *out);

#endif
