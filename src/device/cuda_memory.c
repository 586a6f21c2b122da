/* Staging memory of a CUDA device: pages of our own, near the device, pinned
 * for it. They are registered rather than allocated by CUDA, so that they can
 * be pinned in part and outlive a context that breaks under a save. */
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/error.h"
#include "base/pages.h"
#include "cuda.h"
#include "numa.h"

typedef struct lull__cuda_staging {
    struct lull__cuda_staging *next;
    char *data;
    size_t bytes;
    size_t pinned; /* bytes from `data` on */
    bool whole;    /* pinned by one registration, not piece by piece */
} staging_t;

static size_t least(size_t a, size_t b) {
    return a < b ? a : b;
}

/* Where the piece that `data` lies in ends. */
static size_t piece_rest(const char *data, size_t bytes) {
    size_t rest = LULL__CUDA_PIECE - (uintptr_t)data % LULL__CUDA_PIECE;
    return least(rest, bytes);
}

/* Faulted in, near the device. */
static char *map_pages(size_t bytes, int node) {
    char *data = lull__pages_alloc(bytes);
    if (data == NULL)
        return NULL;
    lull__numa_prefer(data, bytes, node);
    /* A child's copy-on-write must not move pages under the device. */
    (void)madvise(data, bytes, MADV_DONTFORK);
    memset(data, 0, bytes);
    return data;
}

static void pin(lull__cuda_device_t *device, staging_t *staging) {
    lull__cuda_call_t call;
    if (lull__cuda_enter(device, &call) != LULL_OK)
        return;
    const lull__cuda_t *cu = device->cu;
    staging->whole =
        cu->cuMemHostRegister_v2(staging->data, staging->bytes,
                                 LULL__CU_HOST_PORTABLE) == LULL__CU_SUCCESS;
    if (staging->whole)
        staging->pinned = staging->bytes;
    while (staging->pinned < staging->bytes) {
        char *at = staging->data + staging->pinned;
        size_t piece = piece_rest(at, staging->bytes - staging->pinned);
        if (cu->cuMemHostRegister_v2(at, piece, LULL__CU_HOST_PORTABLE) !=
            LULL__CU_SUCCESS)
            break;
        staging->pinned += piece;
    }
    lull__cuda_leave(device, &call);
}

static void unpin(lull__cuda_device_t *device, staging_t *staging) {
    lull__cuda_call_t call;
    if (staging->pinned == 0 || lull__cuda_enter(device, &call) != LULL_OK)
        return;
    const lull__cuda_t *cu = device->cu;
    for (size_t at = 0; at < staging->pinned;) {
        (void)cu->cuMemHostUnregister(staging->data + at);
        at += staging->whole
                  ? staging->pinned
                  : piece_rest(staging->data + at, staging->pinned - at);
    }
    lull__cuda_leave(device, &call);
}

static const char *note_of(const staging_t *staging) {
    if (staging->pinned == 0)
        return "CUDA refused to pin the staging memory: copies are slower "
               "and take a thread's time";
    if (staging->pinned < staging->bytes)
        return "CUDA pinned only a part of the staging memory: some copies "
               "are slower";
    return NULL;
}

static lull_status_t staging_alloc(lull_device_t *base, size_t bytes,
                                   void **out, const char **note) {
    lull__cuda_device_t *device = (lull__cuda_device_t *)base;
    if (lull__cuda_forked(device))
        return lull__fail(LULL_ERR_FORKED, "%s: opened before fork",
                          device->name);
    staging_t *staging = calloc(1, sizeof *staging);
    if (staging == NULL)
        return lull__fail(LULL_ERR_NO_MEMORY, "allocating staging");
    size_t page = (size_t)sysconf(_SC_PAGESIZE); /* pinned are whole pages */
    staging->bytes = bytes > SIZE_MAX - page ? 0 : (bytes + page - 1) & -page;
    if (staging->bytes > 0)
        staging->data = map_pages(staging->bytes, device->node);
    if (staging->data == NULL) {
        free(staging);
        return lull__fail(LULL_ERR_NO_MEMORY, "allocating %zu bytes of staging",
                          bytes);
    }
    pin(device, staging);
    pthread_mutex_lock(&device->lock);
    staging->next = device->staging;
    device->staging = staging;
    pthread_mutex_unlock(&device->lock);
    *out = staging->data;
    *note = note_of(staging);
    return LULL_OK;
}

static staging_t *take_staging(lull__cuda_device_t *device, void *data) {
    pthread_mutex_lock(&device->lock);
    staging_t **at = &device->staging;
    while (*at != NULL && (*at)->data != data)
        at = &(*at)->next;
    staging_t *staging = *at;
    if (staging != NULL)
        *at = staging->next;
    pthread_mutex_unlock(&device->lock);
    return staging;
}

static void staging_free(lull_device_t *base, void *data, size_t bytes) {
    lull__cuda_device_t *device = (lull__cuda_device_t *)base;
    (void)bytes;
    /* In a child the pages are not there: MADV_DONTFORK. */
    if (data == NULL || lull__cuda_forked(device))
        return;
    staging_t *staging = take_staging(device, data);
    if (staging == NULL)
        return;
    unpin(device, staging);
    lull__pages_free(staging->data, staging->bytes);
    free(staging);
}

const lull__device_memory_t lull__cuda_memory = {staging_alloc, staging_free};
