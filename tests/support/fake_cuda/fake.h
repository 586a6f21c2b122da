/* Shared by the files of the fake driver. */
#ifndef FAKE_H
#define FAKE_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "device/lane.h"
#include "device/sim_memory.h"
#include "fake_cuda.h"

#define ENTRY __attribute__((visibility("default")))
#define DEVICES 4

typedef unsigned result_t;
typedef unsigned long long pointer_t;

enum {
    INVALID_VALUE = 1,
    OUT_OF_MEMORY = 2,
    NOT_INITIALIZED = 3,
    NO_DEVICE = 100,
    INVALID_DEVICE = 101,
    INVALID_CONTEXT = 201,
    INVALID_HANDLE = 400,
    ALREADY_REGISTERED = 712,
    NOT_REGISTERED = 713,
    CAPTURE_UNSUPPORTED = 900,
    CAPTURE_IMPLICIT = 906
};

/* Context of a device: there are only primary ones. */
typedef struct context {
    int ordinal, refs;
    result_t sticky;
    lull__sim_memory_t memory;
    struct stream *legacy;
    pthread_mutex_t order; /* held while operations are pushed */
    double busy_until[2];  /* of the engines out of the device and into it */
} context_t;

/* Memory of streams and events is never given back, so that a dead handle
 * never is a live one again. */
typedef struct stream {
    struct stream *next;
    context_t *context;
    lull__lane_t *lane; /* NULL: destroyed */
    lull__lane_t *rest; /* destroyed: what was queued still runs */
    bool blocking;      /* synchronises with the legacy stream */
    int capture;        /* 0, or 1 + mode */
    bool capture_broken;
} stream_t;

typedef struct event {
    struct event *next;
    context_t *context;
    unsigned flags;
    lull__lane_t *lane; /* NULL: never recorded; with a reference */
    uint64_t number;
    double time;
} event_t;

typedef struct pin {
    struct pin *next;
    char *data;
    size_t bytes;
    bool allocated; /* by cuMemHostAlloc */
} pin_t;

#define LOG 65536

typedef struct fake {
    pthread_mutex_t lock; /* guards all but what contexts say */
    bool begun, initialised;
    pid_t pid;
    int devices, version;
    double gbps, kernel_s;
    result_t init;
    context_t contexts[DEVICES];
    stream_t *streams;
    event_t *events, *dead_events;
    pin_t *pins;
    size_t pin_one, pin_all, pinned;
    fake_cuda_live_t live;
    char fail_name[64];
    unsigned fail_nth, spins;
    result_t fail_result;
    bool fail_done;
    const char *log[LOG];
    unsigned logged;
} fake_t;

extern fake_t fake;

/* What an entry point needs. */
enum {
    BARE = 0,     /* not even cuInit */
    INIT = 1,     /* cuInit */
    CONTEXT = 3,  /* and a current context */
    UNSAFE = 4,   /* breaks captures of other threads */
    RELEASES = 8, /* does its work even where it fails */
};
/* Logs the call; what it has to return before anything else, or 0. A failing
 * RELEASES call does its work and returns *late. */
result_t fake_begin(const char *name, int needs, result_t *late);
#define BEGIN(needs)                                          \
    result_t late = 0;                                        \
    do {                                                      \
        result_t begin_ = fake_begin(__func__, needs, &late); \
        if (begin_ != 0)                                      \
            return begin_;                                    \
    } while (0)

context_t *fake_current(void); /* of this thread */
/* A live stream of the current context (NULL: legacy), or NULL. */
stream_t *fake_stream(void *handle);
/* Pushes an operation in CUDA's order of streams. */
void fake_push(stream_t *stream, void (*fn)(void *), const void *arg,
               size_t bytes);
double fake_now(void);
void fake_sleep(double seconds);
/* Of a copy through an engine: sleeps until it may begin; returns its end. */
double fake_engine(context_t *context, int direction, size_t bytes);
result_t fake_sticky(context_t *context);
stream_t *fake_stream_new(context_t *context, bool blocking);

/* How host memory is pinned: wholly, not at all, in part. */
typedef enum pinned { PINNED, PAGEABLE, MIXED } pinned_t;
pinned_t fake_pinned(const void *data, size_t bytes);

#endif
