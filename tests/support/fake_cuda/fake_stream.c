/* The fake driver: streams, events, kernels, captures. */
#include <stdlib.h>

#include "fake.h"

#pragma GCC diagnostic ignored "-Wmissing-prototypes"

/* ---- Streams ---- */

stream_t *fake_stream_new(context_t *context, bool blocking) {
    stream_t *stream = calloc(1, sizeof *stream);
    if (stream == NULL || lull__lane_create(&stream->lane) != 0) {
        free(stream);
        return NULL;
    }
    stream->context = context;
    stream->blocking = blocking;
    pthread_mutex_lock(&fake.lock);
    stream->next = fake.streams;
    fake.streams = stream;
    pthread_mutex_unlock(&fake.lock);
    return stream;
}

stream_t *fake_stream(void *handle) {
    context_t *context = fake_current();
    if (handle == NULL)
        return context->legacy;
    pthread_mutex_lock(&fake.lock);
    stream_t *stream = fake.streams;
    while (stream != NULL && stream != handle)
        stream = stream->next;
    if (stream != NULL && (stream->lane == NULL || stream->context != context))
        stream = NULL;
    pthread_mutex_unlock(&fake.lock);
    return stream;
}

typedef struct point {
    lull__lane_t *lane; /* with a reference */
    uint64_t number;
} point_t;

static void run_wait(void *arg) {
    point_t *point = arg;
    lull__lane_wait(point->lane, point->number);
    lull__lane_unref(point->lane);
}

static void push_wait(lull__lane_t *lane, lull__lane_t *other,
                      uint64_t number) {
    point_t point = {other, number};
    lull__lane_ref(other);
    (void)lull__lane_push(lane, run_wait, &point, sizeof point);
}

/* The legacy stream waits for all blocking ones, and they for it. With the
 * context's order held. */
static void push_order(stream_t *stream) {
    stream_t *legacy = stream->context->legacy;
    if (stream->blocking) {
        push_wait(stream->lane, legacy->lane, lull__lane_issued(legacy->lane));
        return;
    }
    if (stream != legacy)
        return;
    pthread_mutex_lock(&fake.lock);
    stream_t *first = fake.streams;
    pthread_mutex_unlock(&fake.lock);
    for (stream_t *at = first; at != NULL; at = at->next) {
        pthread_mutex_lock(&fake.lock);
        lull__lane_t *lane = at->lane;
        if (lane == NULL || !at->blocking || at->context != stream->context)
            lane = NULL;
        else
            lull__lane_ref(lane);
        pthread_mutex_unlock(&fake.lock);
        if (lane == NULL)
            continue;
        push_wait(legacy->lane, lane, lull__lane_issued(lane));
        lull__lane_unref(lane);
    }
}

void fake_push(stream_t *stream, void (*fn)(void *), const void *arg,
               size_t bytes) {
    pthread_mutex_lock(&stream->context->order);
    push_order(stream);
    (void)lull__lane_push(stream->lane, fn, arg, bytes);
    pthread_mutex_unlock(&stream->context->order);
}

ENTRY result_t cuStreamCreate(stream_t **out, unsigned flags) {
    BEGIN(CONTEXT);
    stream_t *stream = fake_stream_new(fake_current(), !(flags & 1));
    if (stream == NULL)
        return OUT_OF_MEMORY;
    pthread_mutex_lock(&fake.lock);
    fake.live.streams++;
    pthread_mutex_unlock(&fake.lock);
    *out = stream;
    return late;
}

ENTRY result_t cuStreamDestroy_v2(void *handle) {
    BEGIN(CONTEXT | RELEASES);
    stream_t *stream = handle ? fake_stream(handle) : NULL;
    if (stream == NULL)
        return INVALID_HANDLE;
    pthread_mutex_lock(&fake.lock);
    stream->rest = stream->lane;
    stream->lane = NULL;
    fake.live.streams--;
    pthread_mutex_unlock(&fake.lock);
    return late;
}

ENTRY result_t cuStreamSynchronize(void *handle) {
    BEGIN(CONTEXT | UNSAFE);
    stream_t *stream = fake_stream(handle);
    if (stream == NULL)
        return INVALID_HANDLE;
    lull__lane_wait(stream->lane, lull__lane_issued(stream->lane));
    return fake_sticky(stream->context);
}

ENTRY result_t cuStreamIsCapturing(void *handle, unsigned *out) {
    BEGIN(CONTEXT);
    stream_t *stream = fake_stream(handle);
    if (stream == NULL)
        return INVALID_HANDLE;
    result_t result = 0;
    pthread_mutex_lock(&fake.lock);
    if (handle == NULL)
        for (stream_t *at = fake.streams; at != NULL; at = at->next)
            if (at->blocking && at->capture != 0)
                result = CAPTURE_IMPLICIT;
    *out = stream->capture != 0;
    pthread_mutex_unlock(&fake.lock);
    return result;
}

ENTRY result_t cuStreamBeginCapture_v2(void *handle, unsigned mode) {
    BEGIN(CONTEXT);
    stream_t *stream = handle ? fake_stream(handle) : NULL;
    if (stream == NULL)
        return INVALID_HANDLE;
    pthread_mutex_lock(&fake.lock);
    stream->capture = 1 + (int)mode;
    stream->capture_broken = false;
    pthread_mutex_unlock(&fake.lock);
    return late;
}

ENTRY result_t cuStreamEndCapture(void *handle, void **graph) {
    BEGIN(CONTEXT);
    stream_t *stream = handle ? fake_stream(handle) : NULL;
    if (stream == NULL)
        return INVALID_HANDLE;
    pthread_mutex_lock(&fake.lock);
    bool broken = stream->capture_broken;
    stream->capture = 0;
    pthread_mutex_unlock(&fake.lock);
    *graph = NULL;
    return broken ? 901 : late;
}

typedef struct call {
    void (*fn)(void *);
    void *arg;
} call_t;

static void run_call(void *arg) {
    call_t *call = arg;
    call->fn(call->arg);
}

ENTRY result_t cuLaunchHostFunc(void *handle, void (*fn)(void *), void *arg) {
    BEGIN(CONTEXT);
    stream_t *stream = fake_stream(handle);
    if (stream == NULL)
        return INVALID_HANDLE;
    call_t call = {fn, arg};
    fake_push(stream, run_call, &call, sizeof call);
    return late;
}

/* ---- Events ---- */

static event_t *event_of(void *handle) {
    pthread_mutex_lock(&fake.lock);
    event_t *event = fake.events;
    while (event != NULL && event != handle)
        event = event->next;
    if (event != NULL && event->context != fake_current())
        event = NULL;
    pthread_mutex_unlock(&fake.lock);
    return event;
}

ENTRY result_t cuEventCreate(event_t **out, unsigned flags) {
    BEGIN(CONTEXT);
    event_t *event = calloc(1, sizeof *event);
    if (event == NULL)
        return OUT_OF_MEMORY;
    event->context = fake_current();
    event->flags = flags;
    pthread_mutex_lock(&fake.lock);
    event->next = fake.events;
    fake.events = event;
    fake.live.events++;
    pthread_mutex_unlock(&fake.lock);
    *out = event;
    return late;
}

ENTRY result_t cuEventDestroy_v2(void *handle) {
    BEGIN(CONTEXT | RELEASES);
    event_t *event = event_of(handle);
    if (event == NULL)
        return INVALID_HANDLE;
    pthread_mutex_lock(&fake.lock);
    event_t **at = &fake.events;
    while (*at != event)
        at = &(*at)->next;
    *at = event->next;
    event->next = fake.dead_events;
    fake.dead_events = event;
    lull__lane_t *lane = event->lane;
    event->lane = NULL;
    fake.live.events--;
    pthread_mutex_unlock(&fake.lock);
    if (lane != NULL)
        lull__lane_unref(lane);
    return late;
}

static void run_stamp(void *arg) {
    event_t *event = *(event_t **)arg;
    pthread_mutex_lock(&fake.lock);
    event->time = fake_now();
    pthread_mutex_unlock(&fake.lock);
}

ENTRY result_t cuEventRecord(void *handle, void *stream_handle) {
    BEGIN(CONTEXT);
    event_t *event = event_of(handle);
    stream_t *stream = fake_stream(stream_handle);
    if (event == NULL || stream == NULL)
        return INVALID_HANDLE;
    fake_push(stream, run_stamp, &event, sizeof event);
    lull__lane_ref(stream->lane);
    pthread_mutex_lock(&fake.lock);
    lull__lane_t *old = event->lane;
    event->lane = stream->lane;
    event->number = lull__lane_issued(stream->lane);
    pthread_mutex_unlock(&fake.lock);
    if (old != NULL)
        lull__lane_unref(old);
    return late;
}

/* What the event stands for now, with a reference. */
static bool point_of(event_t *event, point_t *out) {
    pthread_mutex_lock(&fake.lock);
    *out = (point_t){event->lane, event->number};
    if (event->lane != NULL)
        lull__lane_ref(event->lane);
    pthread_mutex_unlock(&fake.lock);
    return out->lane != NULL;
}

ENTRY result_t cuEventSynchronize(void *handle) {
    point_t point;
    BEGIN(CONTEXT | UNSAFE);
    event_t *event = event_of(handle);
    if (event == NULL)
        return INVALID_HANDLE;
    if (!(event->flags & 1)) {
        pthread_mutex_lock(&fake.lock);
        fake.spins++;
        pthread_mutex_unlock(&fake.lock);
    }
    if (point_of(event, &point))
        run_wait(&point);
    return fake_sticky(event->context);
}

ENTRY result_t cuStreamWaitEvent(void *stream_handle, void *handle,
                                 unsigned flags) {
    (void)flags;
    point_t point;
    BEGIN(CONTEXT);
    event_t *event = event_of(handle);
    stream_t *stream = fake_stream(stream_handle);
    if (event == NULL || stream == NULL)
        return INVALID_HANDLE;
    if (point_of(event, &point))
        fake_push(stream, run_wait, &point, sizeof point);
    return late;
}

ENTRY result_t cuEventElapsedTime(float *ms, void *from, void *to) {
    BEGIN(CONTEXT);
    event_t *first = event_of(from), *second = event_of(to);
    if (first == NULL || second == NULL)
        return INVALID_HANDLE;
    pthread_mutex_lock(&fake.lock);
    *ms = (float)(1e3 * (second->time - first->time));
    pthread_mutex_unlock(&fake.lock);
    return late;
}

/* ---- Kernels: any of them takes FAKE_CUDA_KERNEL_MS ---- */

ENTRY result_t cuModuleLoadData(void **module, const void *image) {
    BEGIN(CONTEXT);
    if (image == NULL)
        return INVALID_VALUE;
    *module = &fake;
    return late;
}

ENTRY result_t cuModuleUnload(void *module) {
    (void)module;
    BEGIN(CONTEXT | RELEASES);
    return late;
}

ENTRY result_t cuModuleGetFunction(void **function, void *module,
                                   const char *name) {
    (void)module, (void)name;
    BEGIN(CONTEXT);
    *function = &fake;
    return late;
}

static void run_kernel(void *arg) {
    fake_sleep(*(double *)arg);
}

ENTRY result_t cuLaunchKernel(void *function, unsigned grid_x, unsigned grid_y,
                              unsigned grid_z, unsigned block_x,
                              unsigned block_y, unsigned block_z,
                              unsigned shared_bytes, void *handle,
                              void **parameters, void **extra) {
    (void)function, (void)grid_x, (void)grid_y, (void)grid_z, (void)block_x;
    (void)block_y, (void)block_z, (void)shared_bytes, (void)parameters;
    (void)extra;
    BEGIN(CONTEXT);
    stream_t *stream = fake_stream(handle);
    if (stream == NULL)
        return INVALID_HANDLE;
    fake_push(stream, run_kernel, &fake.kernel_s, sizeof fake.kernel_s);
    return late;
}
