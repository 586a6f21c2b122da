/* Copies on a CUDA device: a non-blocking stream for each queue, events of the
 * callers' streams that it waits for, events of its own as fences. Waits
 * block in the driver (CU_EVENT_BLOCKING_SYNC), none spins, none waits for
 * more than its own copies. */
#include <stdint.h>
#include <stdlib.h>

#include "base/error.h"
#include "cuda.h"

/* A fence more than so many behind the newest shares its event with a newer
 * one: waiting for it waits longer. More than the chunks of a usual ring. */
#define FENCES 64

typedef struct queue {
    lull__cu_stream_t stream;
    lull__cu_event_t events[FENCES]; /* fence n: n % FENCES */
    uint64_t issued, done;           /* the newest fence; known to be done */
} queue_t;

static lull__cuda_device_t *cuda_of(lull_device_t *base) {
    return (lull__cuda_device_t *)base;
}

static lull__cu_pointer_t address(const void *data) {
    return (lull__cu_pointer_t)(uintptr_t)data;
}

/* ---- Events of callers' streams ---- */

/* Kept ones first; beyond them CUDA makes one. */
static lull_status_t take_event(lull__cuda_device_t *device,
                                lull__cu_event_t *out) {
    lull__cu_event_t event = NULL;
    pthread_mutex_lock(&device->lock);
    if (device->spare_count > 0)
        event = device->spare[--device->spare_count];
    pthread_mutex_unlock(&device->lock);
    if (event == NULL) {
        lull__cu_enum_t result = device->cu->cuEventCreate(
            &event, LULL__CU_EVENT_BLOCKING_NO_TIMING);
        if (result != LULL__CU_SUCCESS)
            return lull__cuda_fail(device->cu, result, "%s: creating an event",
                                   device->name);
    }
    *out = event;
    return LULL_OK;
}

static void give_event(lull__cuda_device_t *device, lull__cu_event_t event) {
    pthread_mutex_lock(&device->lock);
    bool kept = device->spare_count < LULL__CUDA_SPARE;
    if (kept)
        device->spare[device->spare_count++] = event;
    pthread_mutex_unlock(&device->lock);
    if (!kept)
        (void)device->cu->cuEventDestroy_v2(event);
}

/* Recording in a captured stream would make the event a part of the graph. */
static lull_status_t refuse_capture(lull__cuda_device_t *device,
                                    lull__cu_stream_t stream) {
    lull__cu_enum_t capture = 0;
    lull__cu_enum_t result = device->cu->cuStreamIsCapturing(stream, &capture);
    if (result != LULL__CU_SUCCESS)
        return lull__cuda_fail(device->cu, result,
                               "%s: asking for the state of the caller's "
                               "stream %p (is it destroyed?)",
                               device->name, (void *)stream);
    if (capture != 0)
        return lull__fail(LULL_ERR_STATE,
                          "%s: the caller's stream %p is being captured into "
                          "a graph",
                          device->name, (void *)stream);
    return LULL_OK;
}

static lull_status_t record(lull__cuda_device_t *device,
                            lull__cu_stream_t stream, void **out) {
    lull__cu_event_t event = NULL;
    lull_status_t status = refuse_capture(device, stream);
    if (status == LULL_OK)
        status = take_event(device, &event);
    if (status != LULL_OK)
        return status;
    lull__cu_enum_t result = device->cu->cuEventRecord(event, stream);
    if (result != LULL__CU_SUCCESS) {
        give_event(device, event);
        return lull__cuda_fail(device->cu, result,
                               "%s: recording an event on the caller's "
                               "stream %p (is it destroyed, or of another "
                               "context?)",
                               device->name, (void *)stream);
    }
    *out = event;
    return LULL_OK;
}

static lull_status_t event_record(lull_device_t *base, lull_stream_t stream,
                                  void **event) {
    lull__cuda_device_t *device = cuda_of(base);
    lull__cuda_call_t call;
    lull_status_t status = lull__cuda_enter(device, &call);
    if (status != LULL_OK)
        return status;
    status = record(device, stream.handle, event);
    lull__cuda_leave(device, &call);
    return status;
}

/* A wait that a queue was given stays: CUDA takes the state at that call. */
static void event_destroy(lull_device_t *base, void *event) {
    lull__cuda_device_t *device = cuda_of(base);
    lull__cuda_call_t call;
    if (event == NULL || lull__cuda_forked(device))
        return;
    if (lull__cuda_enter(device, &call) != LULL_OK)
        return;
    give_event(device, event);
    lull__cuda_leave(device, &call);
}

/* ---- Queues ---- */

static void free_queue(lull__cuda_device_t *device, queue_t *queue) {
    for (int i = 0; i < FENCES; i++)
        if (queue->events[i] != NULL)
            (void)device->cu->cuEventDestroy_v2(queue->events[i]);
    if (queue->stream != NULL)
        (void)device->cu->cuStreamDestroy_v2(queue->stream);
    free(queue);
}

static lull_status_t fill_queue(lull__cuda_device_t *device, queue_t *queue) {
    lull__cu_enum_t result = device->cu->cuStreamCreate(
        &queue->stream, LULL__CU_STREAM_NON_BLOCKING);
    for (int i = 0; result == LULL__CU_SUCCESS && i < FENCES; i++)
        result = device->cu->cuEventCreate(&queue->events[i],
                                           LULL__CU_EVENT_BLOCKING_NO_TIMING);
    if (result != LULL__CU_SUCCESS)
        return lull__cuda_fail(device->cu, result,
                               "%s: creating a stream for copies",
                               device->name);
    return LULL_OK;
}

static lull_status_t queue_create(lull_device_t *base, void **out) {
    lull__cuda_device_t *device = cuda_of(base);
    lull__cuda_call_t call;
    lull_status_t status = lull__cuda_enter(device, &call);
    if (status != LULL_OK)
        return status;
    queue_t *queue = calloc(1, sizeof *queue);
    status = queue ? fill_queue(device, queue)
                   : lull__fail(LULL_ERR_NO_MEMORY, "%s: a queue of copies",
                                device->name);
    if (status == LULL_OK)
        *out = queue;
    else if (queue != NULL)
        free_queue(device, queue);
    lull__cuda_leave(device, &call);
    return status;
}

static lull_status_t wait_event(lull__cuda_device_t *device, queue_t *queue,
                                uint64_t number) {
    lull__cu_enum_t result =
        device->cu->cuEventSynchronize(queue->events[number % FENCES]);
    if (result != LULL__CU_SUCCESS)
        return lull__cuda_fail(device->cu, result, "%s: waiting for copies",
                               device->name);
    if (queue->done < number)
        queue->done = number;
    return LULL_OK;
}

static lull_status_t record_fence(lull__cuda_device_t *device, queue_t *queue) {
    uint64_t number = queue->issued + 1;
    lull__cu_enum_t result = device->cu->cuEventRecord(
        queue->events[number % FENCES], queue->stream);
    if (result != LULL__CU_SUCCESS)
        return lull__cuda_fail(device->cu, result,
                               "%s: recording an event behind copies",
                               device->name);
    queue->issued = number;
    return LULL_OK;
}

/* Copies may be under way into memory that goes next: waits for them. */
static void queue_destroy(lull_device_t *base, void *data) {
    lull__cuda_device_t *device = cuda_of(base);
    queue_t *queue = data;
    lull__cuda_call_t call;
    if (queue == NULL)
        return;
    if (lull__cuda_enter(device, &call) != LULL_OK) {
        free(queue); /* its context is gone, and what it had with it */
        return;
    }
    if (record_fence(device, queue) == LULL_OK)
        (void)wait_event(device, queue, queue->issued);
    free_queue(device, queue);
    lull__cuda_leave(device, &call);
}

static lull_status_t queue_after(lull_device_t *base, void *data, void *event) {
    lull__cuda_device_t *device = cuda_of(base);
    queue_t *queue = data;
    lull__cuda_call_t call;
    lull_status_t status = lull__cuda_enter(device, &call);
    if (status != LULL_OK)
        return status;
    lull__cu_enum_t result =
        device->cu->cuStreamWaitEvent(queue->stream, event, 0);
    if (result != LULL__CU_SUCCESS)
        status = lull__cuda_fail(device->cu, result,
                                 "%s: ordering copies behind the caller's "
                                 "stream",
                                 device->name);
    lull__cuda_leave(device, &call);
    return status;
}

/* ---- Copies ---- */

typedef struct copy {
    lull__cu_pointer_t device_data;
    char *host;
    size_t bytes;
    bool out;      /* from the device */
    bool anywhere; /* pinned host memory as "device" memory */
} copy_t;

/* Is it memory that this device's copies may touch? The driver would not
 * always refuse another one's, and a CPU must not touch any. Only the first
 * byte is asked about: allocators map what looks like one tensor in pieces. */
static lull_status_t check_pointer(lull__cuda_device_t *device, copy_t *copy) {
    unsigned type = 0, managed = 0;
    int ordinal = -1;
    lull__cu_enum_t names[] = {LULL__CU_POINTER_MEMORY_TYPE,
                               LULL__CU_POINTER_IS_MANAGED,
                               LULL__CU_POINTER_ORDINAL};
    void *values[] = {&type, &managed, &ordinal};
    lull__cu_enum_t result = LULL__CU_SUCCESS;
    if (copy->device_data != 0) /* of NULL it would be an error to ask */
        result = device->cu->cuPointerGetAttributes(3, names, values,
                                                    copy->device_data);
    if (result != LULL__CU_SUCCESS)
        return lull__cuda_fail(device->cu, result, "%s: asking about 0x%llx",
                               device->name, copy->device_data);
    copy->anywhere = type == LULL__CU_MEMORY_HOST && !managed;
    if (managed || copy->anywhere)
        return LULL_OK;
    if (type != LULL__CU_MEMORY_DEVICE)
        return lull__fail(LULL_ERR_DEVICE,
                          "%s: 0x%llx is no memory of CUDA (freed, or of the "
                          "host)",
                          device->name, copy->device_data);
    if (ordinal != device->ordinal)
        return lull__fail(LULL_ERR_DEVICE, "%s: 0x%llx is memory of cuda:%d",
                          device->name, copy->device_data, ordinal);
    return LULL_OK;
}

static lull__cu_enum_t issue(lull__cuda_device_t *device, queue_t *queue,
                             const copy_t *copy, size_t bytes) {
    const lull__cuda_t *cu = device->cu;
    lull__cu_pointer_t host = address(copy->host);
    if (copy->anywhere && copy->out)
        return cu->cuMemcpyAsync(host, copy->device_data, bytes, queue->stream);
    if (copy->anywhere)
        return cu->cuMemcpyAsync(copy->device_data, host, bytes, queue->stream);
    if (copy->out)
        return cu->cuMemcpyDtoHAsync_v2(copy->host, copy->device_data, bytes,
                                        queue->stream);
    return cu->cuMemcpyHtoDAsync_v2(copy->device_data, copy->host, bytes,
                                    queue->stream);
}

static lull_status_t issue_all(lull__cuda_device_t *device, queue_t *queue,
                               copy_t copy) {
    lull_status_t status = check_pointer(device, &copy);
    while (status == LULL_OK && copy.bytes > 0) {
        /* What is pinned piece by piece is copied so. */
        size_t bytes =
            LULL__CUDA_PIECE - (uintptr_t)copy.host % LULL__CUDA_PIECE;
        if (bytes > copy.bytes)
            bytes = copy.bytes;
        lull__cu_enum_t result = issue(device, queue, &copy, bytes);
        if (result != LULL__CU_SUCCESS)
            return lull__cuda_fail(device->cu, result,
                                   "%s: copying %zu bytes %s 0x%llx",
                                   device->name, bytes,
                                   copy.out ? "from" : "to", copy.device_data);
        copy.device_data += bytes;
        copy.host += bytes;
        copy.bytes -= bytes;
    }
    return status;
}

static lull_status_t copy(lull_device_t *base, void *queue, copy_t copy) {
    lull__cuda_device_t *device = cuda_of(base);
    lull__cuda_call_t call;
    if (copy.bytes == 0)
        return LULL_OK;
    lull_status_t status = lull__cuda_enter(device, &call);
    if (status != LULL_OK)
        return status;
    status = issue_all(device, queue, copy);
    lull__cuda_leave(device, &call);
    return status;
}

static lull_status_t copy_out(lull_device_t *base, void *queue, void *host,
                              const void *from, size_t bytes) {
    return copy(base, queue, (copy_t){address(from), host, bytes, true, false});
}

static lull_status_t copy_in(lull_device_t *base, void *queue, void *to,
                             const void *host, size_t bytes) {
    return copy(
        base, queue,
        (copy_t){address(to), (char *)(uintptr_t)host, bytes, false, false});
}

/* ---- Fences ---- */

static lull_status_t fence(lull_device_t *base, void *data, uint64_t *number) {
    lull__cuda_device_t *device = cuda_of(base);
    queue_t *queue = data;
    lull__cuda_call_t call;
    lull_status_t status = lull__cuda_enter(device, &call);
    if (status != LULL_OK)
        return status;
    status = record_fence(device, queue);
    if (status == LULL_OK)
        *number = queue->issued;
    lull__cuda_leave(device, &call);
    return status;
}

static lull_status_t fence_wait(lull_device_t *base, void *data,
                                uint64_t number) {
    lull__cuda_device_t *device = cuda_of(base);
    queue_t *queue = data;
    lull__cuda_call_t call;
    if (number > queue->issued)
        return lull__fail(LULL_ERR_INVALID, "%s: fence %llu does not exist",
                          device->name, (unsigned long long)number);
    if (number <= queue->done)
        return lull__cuda_forked(device)
                   ? lull__fail(LULL_ERR_FORKED, "%s: opened before fork",
                                device->name)
                   : LULL_OK;
    lull_status_t status = lull__cuda_enter(device, &call);
    if (status != LULL_OK)
        return status;
    status = wait_event(device, queue, number);
    lull__cuda_leave(device, &call);
    return status;
}

const lull__device_exec_t lull__cuda_exec = {
    .async = true,
    .event_record = event_record,
    .event_destroy = event_destroy,
    .queue_create = queue_create,
    .queue_destroy = queue_destroy,
    .queue_after = queue_after,
    .copy_out = copy_out,
    .copy_in = copy_in,
    .fence = fence,
    .fence_wait = fence_wait,
};
