/* The host as a device: memory is memory, copies are done at once. */
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/pages.h"
#include "device.h"

static lull_status_t staging_alloc(lull_device_t *device, size_t bytes,
                                   void **out, const char **note) {
    (void)device;
    void *data = lull__pages_alloc(bytes);
    if (data == NULL)
        return lull__fail(LULL_ERR_NO_MEMORY, "allocating %zu bytes of staging",
                          bytes);
    /* Faults are paid here, once, not in the first save. */
    memset(data, 0, bytes);
    *out = data;
    *note = NULL;
    return LULL_OK;
}

static void staging_free(lull_device_t *device, void *data, size_t bytes) {
    (void)device;
    lull__pages_free(data, bytes);
}

static lull_status_t event_record(lull_device_t *device, lull_stream_t stream,
                                  void **event) {
    (void)device;
    if (stream.handle != NULL)
        return lull__fail(LULL_ERR_INVALID, "the host has no streams");
    *event = NULL;
    return LULL_OK;
}

static void event_destroy(lull_device_t *device, void *event) {
    (void)device, (void)event;
}

static lull_status_t queue_create(lull_device_t *device, void **queue) {
    (void)device;
    *queue = NULL;
    return LULL_OK;
}

static void queue_destroy(lull_device_t *device, void *queue) {
    (void)device, (void)queue;
}

static lull_status_t queue_after(lull_device_t *device, void *queue,
                                 void *event) {
    (void)device, (void)queue, (void)event;
    return LULL_OK;
}

static lull_status_t copy(lull_device_t *device, void *queue, void *to,
                          const void *from, size_t bytes) {
    (void)device, (void)queue;
    memcpy(to, from, bytes);
    return LULL_OK;
}

static lull_status_t fence(lull_device_t *device, void *queue,
                           uint64_t *number) {
    (void)device, (void)queue;
    *number = 0;
    return LULL_OK;
}

static lull_status_t fence_wait(lull_device_t *device, void *queue,
                                uint64_t number) {
    (void)device, (void)queue, (void)number;
    return LULL_OK;
}

static const lull__device_memory_t memory = {staging_alloc, staging_free};

static const lull__device_exec_t exec = {
    .async = false,
    .event_record = event_record,
    .event_destroy = event_destroy,
    .queue_create = queue_create,
    .queue_destroy = queue_destroy,
    .queue_after = queue_after,
    .copy_out = copy,
    .copy_in = copy,
    .fence = fence,
    .fence_wait = fence_wait,
};

static lull_device_t host = {"host", &memory, &exec, NULL, NULL};

lull_device_t *lull__device_host(void) {
    return &host;
}

lull_status_t lull__device_open_host(const char *rest, lull_device_t **out) {
    if (rest[0] != '\0')
        return lull__fail(LULL_ERR_NOT_FOUND, "there is no host:%.40s", rest);
    *out = &host;
    return LULL_OK;
}

lull_status_t lull__device_list_host(unsigned index, lull_device_info_t *out) {
    if (index > 0)
        return lull__fail(LULL_ERR_NOT_FOUND, "there is one host");
    snprintf(out->name, sizeof out->name, "host");
    snprintf(out->text, sizeof out->text, "this machine's memory");
    return LULL_OK;
}
