/* The fake driver: device memory, pinned host memory, copies. */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "fake.h"

#pragma GCC diagnostic ignored "-Wmissing-prototypes"

static void *raw(pointer_t pointer) {
    return (void *)(uintptr_t)pointer;
}

/* ---- Device memory ---- */

ENTRY result_t cuMemAlloc_v2(pointer_t *out, size_t bytes) {
    void *data;
    BEGIN(CONTEXT | UNSAFE);
    if (lull__sim_memory_alloc(&fake_current()->memory, bytes, &data) != 0)
        return OUT_OF_MEMORY;
    pthread_mutex_lock(&fake.lock);
    fake.live.blocks++;
    pthread_mutex_unlock(&fake.lock);
    *out = (pointer_t)(uintptr_t)data;
    return late;
}

/* Waits for all that was queued on a device. */
static void drain(context_t *context) {
    pthread_mutex_lock(&fake.lock);
    stream_t *first = fake.streams; /* the list only grows at its head */
    pthread_mutex_unlock(&fake.lock);
    for (stream_t *at = first; at != NULL; at = at->next) {
        pthread_mutex_lock(&fake.lock);
        lull__lane_t *lane = at->lane != NULL ? at->lane : at->rest;
        bool ours = at->context == context;
        pthread_mutex_unlock(&fake.lock);
        if (ours)
            lull__lane_wait(lane, lull__lane_issued(lane));
    }
}

ENTRY result_t cuMemFree_v2(pointer_t pointer) {
    char *alias;
    BEGIN(CONTEXT | RELEASES);
    context_t *context = fake_current();
    lull__sim_block_t *block =
        lull__sim_memory_find(&context->memory, raw(pointer), 1, &alias);
    if (block == NULL)
        return INVALID_VALUE;
    lull__sim_memory_unref(&context->memory, block);
    drain(context);
    lull__sim_memory_free(&context->memory, raw(pointer));
    pthread_mutex_lock(&fake.lock);
    fake.live.blocks--;
    pthread_mutex_unlock(&fake.lock);
    return late;
}

ENTRY result_t cuCtxSynchronize(void) {
    BEGIN(CONTEXT | UNSAFE);
    drain(fake_current());
    return fake_sticky(fake_current());
}

ENTRY result_t cuMemGetInfo_v2(size_t *free_bytes, size_t *total) {
    BEGIN(CONTEXT);
    *free_bytes = (size_t)15 << 30;
    *total = (size_t)16 << 30;
    return late;
}

/* ---- Pinned memory ---- */

pinned_t fake_pinned(const void *data, size_t bytes) {
    const char *begin = data, *end = begin + bytes;
    pinned_t how = PAGEABLE;
    pthread_mutex_lock(&fake.lock);
    for (pin_t *pin = fake.pins; pin != NULL; pin = pin->next) {
        if (end <= pin->data || begin >= pin->data + pin->bytes)
            continue;
        bool whole = begin >= pin->data && end <= pin->data + pin->bytes;
        how = whole ? PINNED : MIXED;
        break;
    }
    pthread_mutex_unlock(&fake.lock);
    return how;
}

static result_t add_pin(char *data, size_t bytes, bool allocated) {
    if (bytes == 0 || bytes > fake.pin_one ||
        fake.pinned + bytes > fake.pin_all)
        return OUT_OF_MEMORY;
    for (pin_t *at = fake.pins; at != NULL; at = at->next)
        if (data < at->data + at->bytes && at->data < data + bytes)
            return ALREADY_REGISTERED;
    pin_t *pin = malloc(sizeof *pin);
    if (pin == NULL)
        return OUT_OF_MEMORY;
    *pin = (pin_t){fake.pins, data, bytes, allocated};
    fake.pins = pin;
    fake.pinned += bytes;
    fake.live.pins++;
    return 0;
}

static bool drop_pin(char *data, pin_t *out) {
    pin_t **at = &fake.pins;
    while (*at != NULL && (*at)->data != data)
        at = &(*at)->next;
    if (*at == NULL)
        return false;
    pin_t *pin = *at;
    *at = pin->next;
    fake.pinned -= pin->bytes;
    fake.live.pins--;
    *out = *pin;
    free(pin);
    return true;
}

ENTRY result_t cuMemHostRegister_v2(void *data, size_t bytes, unsigned flags) {
    (void)flags;
    BEGIN(CONTEXT | UNSAFE);
    pthread_mutex_lock(&fake.lock);
    result_t result = add_pin(data, bytes, false);
    pthread_mutex_unlock(&fake.lock);
    return result;
}

ENTRY result_t cuMemHostUnregister(void *data) {
    pin_t pin;
    BEGIN(CONTEXT | RELEASES);
    pthread_mutex_lock(&fake.lock);
    bool found = drop_pin(data, &pin);
    pthread_mutex_unlock(&fake.lock);
    return found ? late : (result_t)NOT_REGISTERED;
}

ENTRY result_t cuMemHostAlloc(void **out, size_t bytes, unsigned flags) {
    (void)flags;
    BEGIN(CONTEXT | UNSAFE);
    void *data = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (data == MAP_FAILED)
        return OUT_OF_MEMORY;
    pthread_mutex_lock(&fake.lock);
    result_t result = add_pin(data, bytes, true);
    pthread_mutex_unlock(&fake.lock);
    if (result != 0)
        munmap(data, bytes);
    else
        *out = data;
    return result;
}

ENTRY result_t cuMemFreeHost(void *data) {
    pin_t pin;
    BEGIN(CONTEXT | RELEASES);
    drain(fake_current());
    pthread_mutex_lock(&fake.lock);
    bool found = drop_pin(data, &pin);
    pthread_mutex_unlock(&fake.lock);
    if (!found || !pin.allocated)
        return INVALID_VALUE;
    munmap(data, pin.bytes);
    return late;
}

ENTRY result_t cuPointerGetAttributes(unsigned count, unsigned *names,
                                      void **values, pointer_t pointer) {
    unsigned type = 0;
    int ordinal = -2;
    char *alias;
    BEGIN(CONTEXT);
    for (int i = 0; i < DEVICES; i++) {
        lull__sim_memory_t *memory = &fake.contexts[i].memory;
        lull__sim_block_t *block =
            lull__sim_memory_find(memory, raw(pointer), 1, &alias);
        if (block == NULL)
            continue;
        lull__sim_memory_unref(memory, block);
        type = 2;
        ordinal = i;
    }
    if (type == 0 && fake_pinned(raw(pointer), 1) == PINNED) {
        type = 1;
        ordinal = 0;
    }
    for (unsigned i = 0; i < count; i++) {
        if (names[i] == 2)
            *(unsigned *)values[i] = type;
        else if (names[i] == 8)
            *(unsigned *)values[i] = 0;
        else if (names[i] == 9)
            *(int *)values[i] = ordinal;
        else
            return INVALID_VALUE;
    }
    return late;
}

/* ---- Copies ---- */

double fake_engine(context_t *context, int direction, size_t bytes) {
    pthread_mutex_lock(&fake.lock);
    double now = fake_now(), *busy = &context->busy_until[direction];
    double begin = *busy > now ? *busy : now;
    double end = begin + (double)bytes / (1e9 * fake.gbps);
    *busy = end;
    pthread_mutex_unlock(&fake.lock);
    fake_sleep(begin - now);
    return end;
}

typedef struct copy {
    context_t *context;
    lull__sim_block_t *block; /* NULL: host to host */
    char *to;
    const char *from;
    size_t bytes;
    int direction;
} copy_t;

static void run_copy(void *arg) {
    copy_t *copy = arg;
    if (fake_sticky(copy->context) == 0) {
        double end = fake_engine(copy->context, copy->direction, copy->bytes);
        memcpy(copy->to, copy->from, copy->bytes);
        fake_sleep(end - fake_now());
    }
    if (copy->block != NULL)
        lull__sim_memory_unref(&copy->context->memory, copy->block);
}

/* Of pageable host memory, the call lasts as long as the copy. */
static result_t copy_async(copy_t copy, const void *host, void *handle) {
    stream_t *stream = fake_stream(handle);
    pinned_t how = fake_pinned(host, copy.bytes);
    if (stream == NULL || how == MIXED) {
        if (copy.block != NULL)
            lull__sim_memory_unref(&copy.context->memory, copy.block);
        return stream == NULL ? INVALID_HANDLE : INVALID_VALUE;
    }
    fake_push(stream, run_copy, &copy, sizeof copy);
    if (how == PAGEABLE)
        lull__lane_wait(stream->lane, lull__lane_issued(stream->lane));
    return 0;
}

static result_t copy_out(void *host, pointer_t from, size_t bytes,
                         void *stream) {
    copy_t copy = {.context = fake_current(), .to = host, .bytes = bytes};
    char *alias;
    copy.block =
        lull__sim_memory_find(&copy.context->memory, raw(from), bytes, &alias);
    if (copy.block == NULL)
        return INVALID_VALUE;
    copy.from = alias;
    return copy_async(copy, host, stream);
}

static result_t copy_in(pointer_t to, const void *host, size_t bytes,
                        void *stream) {
    copy_t copy = {.context = fake_current(),
                   .from = host,
                   .bytes = bytes,
                   .direction = 1};
    copy.block =
        lull__sim_memory_find(&copy.context->memory, raw(to), bytes, &copy.to);
    if (copy.block == NULL)
        return INVALID_VALUE;
    return copy_async(copy, host, stream);
}

ENTRY result_t cuMemcpyDtoHAsync_v2(void *host, pointer_t from, size_t bytes,
                                    void *stream) {
    BEGIN(CONTEXT);
    return copy_out(host, from, bytes, stream);
}

ENTRY result_t cuMemcpyHtoDAsync_v2(pointer_t to, const void *host,
                                    size_t bytes, void *stream) {
    BEGIN(CONTEXT);
    return copy_in(to, host, bytes, stream);
}

/* Here only from host to host. */
ENTRY result_t cuMemcpyAsync(pointer_t to, pointer_t from, size_t bytes,
                             void *handle) {
    BEGIN(CONTEXT);
    copy_t copy = {.context = fake_current(),
                   .to = raw(to),
                   .from = raw(from),
                   .bytes = bytes};
    stream_t *stream = fake_stream(handle);
    if (stream == NULL)
        return INVALID_HANDLE;
    if (fake_pinned(raw(to), bytes) == MIXED ||
        fake_pinned(raw(from), bytes) == MIXED)
        return INVALID_VALUE;
    fake_push(stream, run_copy, &copy, sizeof copy);
    lull__lane_wait(stream->lane, lull__lane_issued(stream->lane));
    return late;
}

/* Blocking ones, through the legacy stream. */
ENTRY result_t cuMemcpyDtoH_v2(void *host, pointer_t from, size_t bytes) {
    BEGIN(CONTEXT | UNSAFE);
    result_t result = copy_out(host, from, bytes, NULL);
    drain(fake_current());
    return result;
}

ENTRY result_t cuMemcpyHtoD_v2(pointer_t to, const void *host, size_t bytes) {
    BEGIN(CONTEXT | UNSAFE);
    result_t result = copy_in(to, host, bytes, NULL);
    drain(fake_current());
    return result;
}

typedef struct fill {
    context_t *context;
    lull__sim_block_t *block;
    char *data;
    size_t bytes;
    unsigned char value;
} fill_t;

static void run_fill(void *arg) {
    fill_t *fill = arg;
    memset(fill->data, fill->value, fill->bytes);
    lull__sim_memory_unref(&fill->context->memory, fill->block);
}

ENTRY result_t cuMemsetD8Async(pointer_t to, unsigned char value, size_t bytes,
                               void *handle) {
    BEGIN(CONTEXT);
    stream_t *stream = fake_stream(handle);
    if (stream == NULL)
        return INVALID_HANDLE;
    fill_t fill = {.context = fake_current(), .bytes = bytes, .value = value};
    fill.block = lull__sim_memory_find(&fill.context->memory, raw(to), bytes,
                                       &fill.data);
    if (fill.block == NULL)
        return INVALID_VALUE;
    fake_push(stream, run_fill, &fill, sizeof fill);
    return late;
}
