/* The fake driver: initialisation, devices, contexts, and what every call
 * goes through. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "fake.h"

fake_t fake = {.lock = PTHREAD_MUTEX_INITIALIZER};

#define STACK 16
static _Thread_local context_t *stack[STACK];
static _Thread_local int depth;
static _Thread_local unsigned capture_mode; /* 0: global, as CUDA's default */

double fake_now(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

void fake_sleep(double seconds) {
    if (seconds <= 0)
        return;
    struct timespec left = {.tv_sec = (time_t)seconds};
    left.tv_nsec = (long)(1e9 * (seconds - (double)left.tv_sec));
    while (nanosleep(&left, &left) != 0 && errno == EINTR)
        ;
}

static double env_number(const char *name, double otherwise) {
    const char *text = getenv(name);
    return text != NULL && *text != '\0' ? atof(text) : otherwise;
}

/* With the lock held. */
static void settings(void) {
    fake.devices = (int)env_number("FAKE_CUDA_DEVICES", 1);
    if (fake.devices > DEVICES)
        fake.devices = DEVICES;
    fake.version = (int)env_number("FAKE_CUDA_VERSION", 12080);
    fake.gbps = env_number("FAKE_CUDA_GBPS", 20);
    fake.init = (result_t)env_number("FAKE_CUDA_INIT", 0);
    fake.kernel_s = 1e-3 * env_number("FAKE_CUDA_KERNEL_MS", 2);
    fake.pin_one = fake.pin_all = SIZE_MAX;
}

static void begin_once(void) {
    if (fake.begun)
        return;
    fake.begun = true;
    settings();
    for (int i = 0; i < DEVICES; i++) {
        fake.contexts[i].ordinal = i;
        lull__sim_memory_begin(&fake.contexts[i].memory);
        pthread_mutex_init(&fake.contexts[i].order, NULL);
    }
}

/* A call that a capture in the mode "global" does not stand. */
static bool breaks_capture(void) {
    bool broken = false;
    if (capture_mode == 2)
        return false;
    for (stream_t *at = fake.streams; at != NULL; at = at->next)
        if (at->capture == 1)
            at->capture_broken = broken = true;
    return broken;
}

result_t fake_begin(const char *name, int needs, result_t *late) {
    result_t result = 0;
    pthread_mutex_lock(&fake.lock);
    begin_once();
    if (fake.logged < LOG)
        fake.log[fake.logged] = name;
    fake.logged++;
    bool counted = fake.fail_nth > 0 && (strcmp(fake.fail_name, "*") == 0 ||
                                         strcmp(fake.fail_name, name) == 0);
    if (counted && --fake.fail_nth == 0) {
        fake.fail_done = true;
        result = fake.fail_result;
    }
    if (result == 0 && (needs & INIT) && !fake.initialised)
        result = NOT_INITIALIZED;
    if (result == 0 && (needs & INIT) && fake.pid != getpid())
        result = NOT_INITIALIZED;
    if (result == 0 && (needs & CONTEXT) == CONTEXT)
        result = depth == 0 ? INVALID_CONTEXT : stack[depth - 1]->sticky;
    if (result == 0 && (needs & UNSAFE) && breaks_capture())
        result = CAPTURE_UNSUPPORTED;
    pthread_mutex_unlock(&fake.lock);
    bool context = (needs & CONTEXT) != CONTEXT || depth > 0;
    if (result != 0 && (needs & RELEASES) && context) {
        *late = result;
        return 0;
    }
    return result;
}

context_t *fake_current(void) {
    return depth > 0 ? stack[depth - 1] : NULL;
}

result_t fake_sticky(context_t *context) {
    pthread_mutex_lock(&fake.lock);
    result_t result = context->sticky;
    pthread_mutex_unlock(&fake.lock);
    return result;
}

/* Joins the threads of streams that are left, as the legacy ones. */
__attribute__((destructor)) static void end_streams(void) {
    if (!fake.initialised || fake.pid != getpid())
        return;
    for (stream_t *at = fake.streams; at != NULL; at = at->next)
        lull__lane_end(at->lane != NULL ? at->lane : at->rest);
}

/* ---- Entry points ---- */

#pragma GCC diagnostic ignored "-Wmissing-prototypes"

ENTRY result_t cuDriverGetVersion(int *version) {
    BEGIN(BARE);
    *version = fake.version;
    return late;
}

ENTRY result_t cuInit(unsigned flags) {
    (void)flags;
    BEGIN(BARE);
    pthread_mutex_lock(&fake.lock);
    result_t result = fake.devices == 0 ? (result_t)NO_DEVICE : fake.init;
    if (result == 0 && !fake.initialised) {
        fake.initialised = true;
        fake.pid = getpid();
    }
    pthread_mutex_unlock(&fake.lock);
    return result;
}

ENTRY result_t cuGetErrorName(result_t error, const char **name) {
    static const struct {
        result_t number;
        const char *name;
    } names[] = {{0, "CUDA_SUCCESS"},
                 {1, "CUDA_ERROR_INVALID_VALUE"},
                 {2, "CUDA_ERROR_OUT_OF_MEMORY"},
                 {3, "CUDA_ERROR_NOT_INITIALIZED"},
                 {100, "CUDA_ERROR_NO_DEVICE"},
                 {101, "CUDA_ERROR_INVALID_DEVICE"},
                 {201, "CUDA_ERROR_INVALID_CONTEXT"},
                 {400, "CUDA_ERROR_INVALID_HANDLE"},
                 {700, "CUDA_ERROR_ILLEGAL_ADDRESS"},
                 {709, "CUDA_ERROR_CONTEXT_IS_DESTROYED"},
                 {719, "CUDA_ERROR_LAUNCH_FAILED"},
                 {803, "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH"},
                 {900, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED"},
                 {906, "CUDA_ERROR_STREAM_CAPTURE_IMPLICIT"}};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (names[i].number == error) {
            *name = names[i].name;
            return 0;
        }
    *name = NULL;
    return INVALID_VALUE;
}

ENTRY result_t cuDeviceGetCount(int *count) {
    BEGIN(INIT);
    *count = fake.devices;
    return late;
}

ENTRY result_t cuDeviceGet(int *device, int ordinal) {
    BEGIN(INIT);
    if (ordinal < 0 || ordinal >= fake.devices)
        return INVALID_DEVICE;
    *device = ordinal;
    return late;
}

ENTRY result_t cuDeviceGetName(char *name, int bytes, int device) {
    BEGIN(INIT);
    snprintf(name, (size_t)bytes, "Fake GPU %d", device);
    return late;
}

ENTRY result_t cuDeviceTotalMem_v2(size_t *bytes, int device) {
    (void)device;
    BEGIN(INIT);
    *bytes = (size_t)16 << 30;
    return late;
}

ENTRY result_t cuDeviceGetPCIBusId(char *id, int bytes, int device) {
    BEGIN(INIT);
    snprintf(id, (size_t)bytes, "FFFF:%02X:00.0", device);
    return late;
}

ENTRY result_t cuDevicePrimaryCtxRetain(context_t **out, int device) {
    BEGIN(INIT);
    if (device < 0 || device >= fake.devices)
        return INVALID_DEVICE;
    context_t *context = &fake.contexts[device];
    pthread_mutex_lock(&fake.lock);
    context->refs++;
    fake.live.contexts++;
    bool bare = context->legacy == NULL;
    pthread_mutex_unlock(&fake.lock);
    if (bare && (context->legacy = fake_stream_new(context, false)) == NULL)
        return OUT_OF_MEMORY;
    *out = context;
    return late;
}

ENTRY result_t cuDevicePrimaryCtxRelease_v2(int device) {
    BEGIN(INIT | RELEASES);
    pthread_mutex_lock(&fake.lock);
    bool held = fake.contexts[device].refs > 0;
    if (held) {
        fake.contexts[device].refs--;
        fake.live.contexts--;
    }
    pthread_mutex_unlock(&fake.lock);
    return held ? late : INVALID_CONTEXT;
}

ENTRY result_t cuDevicePrimaryCtxReset_v2(int device) {
    BEGIN(INIT);
    pthread_mutex_lock(&fake.lock);
    fake.contexts[device].sticky = 709;
    pthread_mutex_unlock(&fake.lock);
    return late;
}

ENTRY result_t cuCtxPushCurrent_v2(context_t *context) {
    BEGIN(INIT);
    if (context == NULL || context->refs == 0)
        return INVALID_CONTEXT;
    if (depth == STACK)
        return OUT_OF_MEMORY;
    stack[depth++] = context;
    return late;
}

ENTRY result_t cuCtxPopCurrent_v2(context_t **out) {
    result_t late = 0;
    result_t result = fake_begin(__func__, INIT | RELEASES, &late);
    if (result != 0)
        return result;
    if (depth == 0)
        return INVALID_CONTEXT;
    *out = stack[--depth];
    return late;
}

ENTRY result_t cuCtxGetCurrent(context_t **out) {
    BEGIN(INIT);
    *out = fake_current();
    return late;
}

ENTRY result_t cuCtxGetDevice(int *device) {
    BEGIN(INIT);
    if (depth == 0)
        return INVALID_CONTEXT;
    *device = stack[depth - 1]->ordinal;
    return late;
}

ENTRY result_t cuThreadExchangeStreamCaptureMode(unsigned *mode) {
    BEGIN(INIT);
    unsigned old = capture_mode;
    capture_mode = *mode;
    *mode = old;
    return late;
}

/* ---- Control ---- */

static void control_reset(void) {
    pthread_mutex_lock(&fake.lock);
    begin_once();
    settings();
    for (int i = 0; i < DEVICES; i++)
        fake.contexts[i].sticky = 0;
    fake.fail_nth = fake.logged = fake.spins = 0;
    fake.fail_done = false;
    pthread_mutex_unlock(&fake.lock);
}

static void control_inject(const char *name, unsigned nth, unsigned result) {
    pthread_mutex_lock(&fake.lock);
    snprintf(fake.fail_name, sizeof fake.fail_name, "%s", name);
    fake.fail_nth = nth;
    fake.fail_result = result;
    fake.fail_done = false;
    pthread_mutex_unlock(&fake.lock);
}

static int control_injected(void) {
    pthread_mutex_lock(&fake.lock);
    int done = fake.fail_done;
    pthread_mutex_unlock(&fake.lock);
    return done;
}

static void control_break(int ordinal, unsigned result) {
    pthread_mutex_lock(&fake.lock);
    fake.contexts[ordinal].sticky = result;
    pthread_mutex_unlock(&fake.lock);
}

typedef struct breaking {
    context_t *context;
    unsigned result;
} breaking_t;

static void run_break(void *arg) {
    breaking_t *breaking = arg;
    control_break(breaking->context->ordinal, breaking->result);
}

static void control_break_in_stream(void *handle, unsigned result) {
    stream_t *stream = fake_stream(handle);
    breaking_t breaking = {stream->context, result};
    fake_push(stream, run_break, &breaking, sizeof breaking);
}

static void control_pin_limits(size_t one, size_t all) {
    pthread_mutex_lock(&fake.lock);
    fake.pin_one = one;
    fake.pin_all = all;
    pthread_mutex_unlock(&fake.lock);
}

static void control_set_gbps(double gbps) {
    pthread_mutex_lock(&fake.lock);
    fake.gbps = gbps;
    pthread_mutex_unlock(&fake.lock);
}

static void control_set_devices(int count) {
    pthread_mutex_lock(&fake.lock);
    begin_once();
    fake.devices = count;
    pthread_mutex_unlock(&fake.lock);
}

static void control_set_version(int version) {
    pthread_mutex_lock(&fake.lock);
    begin_once();
    fake.version = version;
    pthread_mutex_unlock(&fake.lock);
}

static unsigned control_calls(const char *name) {
    unsigned count = 0;
    pthread_mutex_lock(&fake.lock);
    for (unsigned i = 0; i < fake.logged && i < LOG; i++)
        count += strcmp(name, "*") == 0 || strcmp(name, fake.log[i]) == 0;
    pthread_mutex_unlock(&fake.lock);
    return count;
}

static const char *control_log_at(unsigned index) {
    pthread_mutex_lock(&fake.lock);
    const char *name =
        index < fake.logged && index < LOG ? fake.log[index] : NULL;
    pthread_mutex_unlock(&fake.lock);
    return name;
}

static void control_live(fake_cuda_live_t *out) {
    pthread_mutex_lock(&fake.lock);
    *out = fake.live;
    pthread_mutex_unlock(&fake.lock);
}

static unsigned control_spins(void) {
    pthread_mutex_lock(&fake.lock);
    unsigned spins = fake.spins;
    pthread_mutex_unlock(&fake.lock);
    return spins;
}

ENTRY const fake_cuda_control_t *fake_cuda_control(void) {
    static const fake_cuda_control_t control = {
        .reset = control_reset,
        .inject = control_inject,
        .injected = control_injected,
        .break_device = control_break,
        .break_in_stream = control_break_in_stream,
        .pin_limits = control_pin_limits,
        .set_gbps = control_set_gbps,
        .set_devices = control_set_devices,
        .set_version = control_set_version,
        .calls = control_calls,
        .log_at = control_log_at,
        .live = control_live,
        .spins = control_spins,
    };
    return &control;
}
