/* The sim device: an accelerator played by threads. Streams and copy queues
 * are lanes; copies share one engine whose bandwidth is kept by sleeping. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/decimal.h"
#include "base/error.h"
#include "base/thread.h"
#include "device.h"
#include "lane.h"
#include "sim_memory.h"

typedef struct stream {
    struct stream *next;
    lull__lane_t *lane;
} stream_t;

typedef struct sim {
    lull_device_t base; /* first: the device's address is this one's */
    char name[32];
    pid_t pid;
    double bytes_per_s;
    lull__sim_memory_t memory;
    pthread_mutex_t lock; /* guards all below */
    double busy_until;    /* of the copy engine */
    stream_t *streams;    /* the last one is the default stream */
} sim_t;

/* A point in a stream's work. */
typedef struct event {
    lull__lane_t *lane;
    uint64_t number;
} event_t;

static const lull__device_exec_t exec;

static lull_status_t check(lull_device_t *device, const char *call,
                           sim_t **out) {
    if (device == NULL || device->exec != &exec)
        return lull__fail(LULL_ERR_INVALID, "%s: '%s' is no sim device", call,
                          lull_device_name(device));
    sim_t *sim = (sim_t *)device;
    if (sim->pid != getpid())
        return lull__fail(LULL_ERR_FORKED, "%s: opened before fork", sim->name);
    *out = sim;
    return LULL_OK;
}

/* ---- Streams ---- */

static lull_status_t add_stream(sim_t *sim, stream_t **out) {
    stream_t *stream = calloc(1, sizeof *stream);
    int rc = stream == NULL ? ENOMEM : lull__lane_create(&stream->lane);
    if (rc != 0) {
        free(stream);
        return lull__fail_errno(rc, "%s: creating a stream", sim->name);
    }
    pthread_mutex_lock(&sim->lock);
    stream->next = sim->streams;
    sim->streams = stream;
    pthread_mutex_unlock(&sim->lock);
    *out = stream;
    return LULL_OK;
}

/* Its lane, with a reference more. */
static lull_status_t lane_of(sim_t *sim, lull_stream_t handle,
                             lull__lane_t **out) {
    pthread_mutex_lock(&sim->lock);
    stream_t *stream = sim->streams;
    while (handle.handle == NULL ? stream->next != NULL
                                 : stream != NULL && stream != handle.handle)
        stream = stream->next;
    if (stream != NULL)
        lull__lane_ref(stream->lane);
    pthread_mutex_unlock(&sim->lock);
    if (stream == NULL)
        return lull__fail(LULL_ERR_DEVICE,
                          "%s: %p is not a stream of it, or destroyed",
                          sim->name, handle.handle);
    *out = stream->lane;
    return LULL_OK;
}

lull_status_t lull_sim_stream_create(lull_device_t *device,
                                     lull_stream_t *out) {
    sim_t *sim = NULL;
    stream_t *stream = NULL;
    lull_status_t status = check(device, "lull_sim_stream_create", &sim);
    if (status == LULL_OK)
        status = add_stream(sim, &stream);
    if (status == LULL_OK)
        out->handle = stream;
    return status;
}

void lull_sim_stream_destroy(lull_device_t *device, lull_stream_t handle) {
    sim_t *sim = NULL;
    if (handle.handle == NULL ||
        check(device, "lull_sim_stream_destroy", &sim) != LULL_OK)
        return;
    pthread_mutex_lock(&sim->lock);
    stream_t **at = &sim->streams, *stream = NULL;
    while (*at != NULL && *at != handle.handle)
        at = &(*at)->next;
    if (*at != NULL && (*at)->next != NULL) {
        stream = *at;
        *at = stream->next;
    }
    pthread_mutex_unlock(&sim->lock);
    if (stream == NULL)
        return;
    lull__lane_end(stream->lane);
    free(stream);
}

lull_status_t lull_sim_stream_wait(lull_device_t *device,
                                   lull_stream_t handle) {
    sim_t *sim = NULL;
    lull__lane_t *lane = NULL;
    lull_status_t status = check(device, "lull_sim_stream_wait", &sim);
    if (status == LULL_OK)
        status = lane_of(sim, handle, &lane);
    if (status != LULL_OK)
        return status;
    lull__lane_wait(lane, lull__lane_issued(lane));
    lull__lane_unref(lane);
    return LULL_OK;
}

/* ---- Memory and kernels ---- */

lull_status_t lull_sim_alloc(lull_device_t *device, size_t bytes, void **out) {
    sim_t *sim = NULL;
    lull_status_t status = check(device, "lull_sim_alloc", &sim);
    if (status != LULL_OK)
        return status;
    return lull__sim_memory_alloc(&sim->memory, bytes, out);
}

void lull_sim_free(lull_device_t *device, void *data) {
    sim_t *sim = NULL;
    if (data != NULL && check(device, "lull_sim_free", &sim) == LULL_OK)
        lull__sim_memory_free(&sim->memory, data);
}

static lull_status_t find(sim_t *sim, const void *data, size_t bytes,
                          lull__sim_block_t **block, char **alias) {
    *block = lull__sim_memory_find(&sim->memory, data, bytes, alias);
    if (*block == NULL)
        return lull__fail(LULL_ERR_DEVICE,
                          "%s: %zu bytes at %p are no memory of it, or freed",
                          sim->name, bytes, data);
    return LULL_OK;
}

lull_status_t lull_sim_write(lull_device_t *device, void *to, const void *from,
                             size_t bytes) {
    sim_t *sim = NULL;
    lull__sim_block_t *block = NULL;
    char *alias = NULL;
    lull_status_t status = check(device, "lull_sim_write", &sim);
    if (status == LULL_OK)
        status = find(sim, to, bytes, &block, &alias);
    if (status != LULL_OK)
        return status;
    memcpy(alias, from, bytes);
    lull__sim_memory_unref(&sim->memory, block);
    return LULL_OK;
}

lull_status_t lull_sim_read(lull_device_t *device, void *to, const void *from,
                            size_t bytes) {
    sim_t *sim = NULL;
    lull__sim_block_t *block = NULL;
    char *alias = NULL;
    lull_status_t status = check(device, "lull_sim_read", &sim);
    if (status == LULL_OK)
        status = find(sim, from, bytes, &block, &alias);
    if (status != LULL_OK)
        return status;
    memcpy(to, alias, bytes);
    lull__sim_memory_unref(&sim->memory, block);
    return LULL_OK;
}

typedef struct kernel {
    sim_t *sim;
    lull__sim_block_t *block; /* NULL: no output */
    char *data;
    size_t bytes;
    double seconds;
    lull_sim_kernel_fn fn;
    void *ctx;
} kernel_t;

static void run_kernel(void *arg) {
    kernel_t *kernel = arg;
    double end = lull__now() + kernel->seconds;
    if (kernel->block != NULL)
        memset(kernel->data, LULL__SIM_POISON, kernel->bytes);
    if (end > lull__now())
        lull__sleep(end - lull__now());
    if (kernel->fn != NULL)
        kernel->fn(kernel->ctx, kernel->data, kernel->bytes);
    if (kernel->block != NULL)
        lull__sim_memory_unref(&kernel->sim->memory, kernel->block);
}

lull_status_t lull_sim_launch(lull_device_t *device, lull_stream_t stream,
                              const lull_sim_kernel_t *kernel) {
    sim_t *sim = NULL;
    lull__lane_t *lane = NULL;
    lull_status_t status = check(device, "lull_sim_launch", &sim);
    if (status != LULL_OK)
        return status;
    if (kernel == NULL || kernel->size < sizeof *kernel ||
        !(kernel->seconds >= 0) || kernel->seconds > 1e6)
        return lull__fail(LULL_ERR_INVALID,
                          "lull_sim_launch: the kernel's size or seconds");
    kernel_t work = {sim,        NULL,       NULL, 0, kernel->seconds,
                     kernel->fn, kernel->ctx};
    status = lane_of(sim, stream, &lane);
    if (status != LULL_OK)
        return status;
    if (kernel->output != NULL) {
        work.bytes = kernel->bytes;
        status =
            find(sim, kernel->output, kernel->bytes, &work.block, &work.data);
    }
    if (status == LULL_OK)
        (void)lull__lane_push(lane, run_kernel, &work, sizeof work);
    lull__lane_unref(lane);
    return status;
}

/* ---- The vtables ---- */

static lull_status_t staging_alloc(lull_device_t *device, size_t bytes,
                                   void **out, const char **note) {
    (void)device;
    lull_device_t *host = lull__device_host();
    return host->memory->staging_alloc(host, bytes, out, note);
}

static void staging_free(lull_device_t *device, void *data, size_t bytes) {
    (void)device;
    lull_device_t *host = lull__device_host();
    host->memory->staging_free(host, data, bytes);
}

static lull_status_t event_record(lull_device_t *device, lull_stream_t stream,
                                  void **out) {
    sim_t *sim = NULL;
    event_t *event = malloc(sizeof *event);
    if (event == NULL)
        return lull__fail(LULL_ERR_NO_MEMORY, "recording an event");
    lull_status_t status = check(device, "recording an event", &sim);
    if (status == LULL_OK)
        status = lane_of(sim, stream, &event->lane);
    if (status != LULL_OK) {
        free(event);
        return status;
    }
    event->number = lull__lane_issued(event->lane);
    *out = event;
    return LULL_OK;
}

static void event_destroy(lull_device_t *device, void *data) {
    (void)device;
    event_t *event = data;
    if (event == NULL)
        return;
    lull__lane_unref(event->lane);
    free(event);
}

static lull_status_t queue_create(lull_device_t *device, void **queue) {
    sim_t *sim = NULL;
    lull__lane_t *lane = NULL;
    lull_status_t status = check(device, "creating a queue", &sim);
    if (status != LULL_OK)
        return status;
    int rc = lull__lane_create(&lane);
    if (rc != 0)
        return lull__fail_errno(rc, "%s: creating a queue", sim->name);
    *queue = lane;
    return LULL_OK;
}

static void queue_destroy(lull_device_t *device, void *queue) {
    sim_t *sim = NULL;
    /* A child has no such thread; the memory is little. */
    if (queue != NULL && check(device, "ending a queue", &sim) == LULL_OK)
        lull__lane_end(queue);
}

static void run_wait(void *arg) {
    event_t *event = arg;
    lull__lane_wait(event->lane, event->number);
    lull__lane_unref(event->lane);
}

static lull_status_t queue_after(lull_device_t *device, void *queue,
                                 void *data) {
    sim_t *sim = NULL;
    event_t *event = data;
    lull_status_t status = check(device, "ordering copies", &sim);
    if (status != LULL_OK)
        return status;
    lull__lane_ref(event->lane);
    (void)lull__lane_push(queue, run_wait, event, sizeof *event);
    return LULL_OK;
}

typedef struct copy {
    sim_t *sim;
    lull__sim_block_t *block;
    char *to;
    const char *from;
    size_t bytes;
} copy_t;

static void run_copy(void *arg) {
    copy_t *copy = arg;
    sim_t *sim = copy->sim;
    pthread_mutex_lock(&sim->lock);
    double now = lull__now();
    double begin = sim->busy_until > now ? sim->busy_until : now;
    double end = begin + (double)copy->bytes / sim->bytes_per_s;
    sim->busy_until = end;
    pthread_mutex_unlock(&sim->lock);
    if (begin > now)
        lull__sleep(begin - now);
    memcpy(copy->to, copy->from, copy->bytes);
    now = lull__now();
    if (end > now)
        lull__sleep(end - now);
    lull__sim_memory_unref(&sim->memory, copy->block);
}

static lull_status_t copy_out(lull_device_t *device, void *queue, void *host,
                              const void *from, size_t bytes) {
    copy_t copy = {.to = host, .bytes = bytes};
    char *alias = NULL;
    lull_status_t status = check(device, "copying", &copy.sim);
    if (status != LULL_OK || bytes == 0)
        return status;
    status = find(copy.sim, from, bytes, &copy.block, &alias);
    if (status != LULL_OK)
        return status;
    copy.from = alias;
    (void)lull__lane_push(queue, run_copy, &copy, sizeof copy);
    return LULL_OK;
}

static lull_status_t copy_in(lull_device_t *device, void *queue, void *to,
                             const void *host, size_t bytes) {
    copy_t copy = {.from = host, .bytes = bytes};
    lull_status_t status = check(device, "copying", &copy.sim);
    if (status != LULL_OK || bytes == 0)
        return status;
    status = find(copy.sim, to, bytes, &copy.block, &copy.to);
    if (status != LULL_OK)
        return status;
    (void)lull__lane_push(queue, run_copy, &copy, sizeof copy);
    return LULL_OK;
}

static lull_status_t fence(lull_device_t *device, void *queue,
                           uint64_t *number) {
    sim_t *sim = NULL;
    lull_status_t status = check(device, "recording a fence", &sim);
    if (status == LULL_OK)
        *number = lull__lane_issued(queue);
    return status;
}

static lull_status_t fence_wait(lull_device_t *device, void *queue,
                                uint64_t number) {
    sim_t *sim = NULL;
    lull_status_t status = check(device, "waiting for copies", &sim);
    if (status == LULL_OK && number > lull__lane_issued(queue))
        return lull__fail(LULL_ERR_INVALID, "%s: fence %llu does not exist",
                          sim->name, (unsigned long long)number);
    if (status == LULL_OK)
        lull__lane_wait(queue, number);
    return status;
}

static const lull__device_memory_t memory = {staging_alloc, staging_free};

static const lull__device_exec_t exec = {
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

/* ---- Opening ---- */

static void sim_destroy(lull_device_t *device) {
    sim_t *sim = (sim_t *)device;
    if (sim->pid == getpid())
        while (sim->streams != NULL) {
            stream_t *stream = sim->streams;
            sim->streams = stream->next;
            lull__lane_end(stream->lane);
            free(stream);
        }
    lull__sim_memory_end(&sim->memory);
    pthread_mutex_destroy(&sim->lock);
    free(sim);
}

static lull_status_t parse_speed(const char *rest, double *gbps) {
    char *end = NULL;
    *gbps = rest[0] == '\0' ? 12 : lull__decimal_read(rest, &end);
    if ((end != NULL && (*end != '\0' || end == rest)) || !(*gbps >= 1e-3) ||
        !(*gbps <= 1e4))
        return lull__fail(LULL_ERR_NOT_FOUND,
                          "sim:%.40s: a sim device is sim:GBPS, from 0.001 "
                          "to 10000",
                          rest);
    return LULL_OK;
}

lull_status_t lull__device_open_sim(const char *rest, lull_device_t **out) {
    double gbps;
    stream_t *stream = NULL;
    lull_status_t status = parse_speed(rest, &gbps);
    if (status != LULL_OK)
        return status;
    sim_t *sim = calloc(1, sizeof *sim);
    if (sim == NULL)
        return lull__fail(LULL_ERR_NO_MEMORY, "opening the sim device");
    lull__decimal_print(sim->name, sizeof sim->name, "sim:%g", gbps);
    sim->base = (lull_device_t){sim->name, &memory, &exec, sim_destroy, sim};
    sim->pid = getpid();
    sim->bytes_per_s = 1e9 * gbps;
    lull__sim_memory_begin(&sim->memory);
    pthread_mutex_init(&sim->lock, NULL);
    status = add_stream(sim, &stream);
    if (status != LULL_OK) {
        sim_destroy(&sim->base);
        return status;
    }
    *out = &sim->base;
    return LULL_OK;
}

lull_status_t lull__device_list_sim(unsigned index, lull_device_info_t *out) {
    if (index > 0)
        return lull__fail(LULL_ERR_NOT_FOUND, "there is one sim");
    snprintf(out->name, sizeof out->name, "sim");
    snprintf(out->text, sizeof out->text,
             "an accelerator that lull plays, for tests and benchmarks; "
             "sim:GBPS sets the speed of its copies");
    return LULL_OK;
}
