/* The staging buffer: slots on a stack of free ones. */
#include "ring.h"

#include <pthread.h>
#include <stdlib.h>

#include "base/error.h"
#include "base/log.h"
#include "base/thread.h"

struct lull__ring {
    lull_device_t *device;
    char *data;
    uint64_t slot_bytes;
    uint32_t slots;
    pthread_mutex_t lock; /* guards all below */
    pthread_cond_t given;
    uint32_t *free; /* a stack: the slot given last is warm in the cache */
    uint32_t free_count, peak;
    bool cancelled;
};

static uint64_t slot_bytes_for(uint64_t budget) {
    uint64_t bytes = LULL__RING_SLOT_MAX;
    while (bytes > LULL__RING_SLOT_MIN && budget / bytes < 8)
        bytes /= 2;
    return bytes;
}

lull_status_t lull__ring_create(lull_device_t *device, uint64_t budget,
                                lull__ring_t **out) {
    if (budget < LULL__RING_SLOT_MIN)
        return lull__fail(LULL_ERR_INVALID,
                          "buffer_bytes is %llu, at least 1048576 is needed",
                          (unsigned long long)budget);
    uint64_t slot_bytes = slot_bytes_for(budget), slots = budget / slot_bytes;
    if (slots > UINT32_MAX)
        return lull__fail(LULL_ERR_INVALID, "buffer_bytes %llu is too large",
                          (unsigned long long)budget);
    return lull__ring_create_slots(device, slot_bytes, slots, out);
}

lull_status_t lull__ring_create_slots(lull_device_t *device,
                                      uint64_t slot_bytes, uint64_t slots,
                                      lull__ring_t **out) {
    const char *note = NULL;
    void *data = NULL;
    lull_status_t status;
    lull__ring_t *ring = calloc(1, sizeof *ring);
    if (ring == NULL)
        return lull__fail(LULL_ERR_NO_MEMORY, "the staging buffer");
    ring->free = malloc(slots * sizeof *ring->free);
    if (ring->free == NULL) {
        status = lull__fail(LULL_ERR_NO_MEMORY, "the staging buffer");
        goto free_ring;
    }
    status =
        device->memory->staging_alloc(device, slots * slot_bytes, &data, &note);
    if (status != LULL_OK)
        goto free_stack;
    if (note != NULL)
        lull__log(LULL_LOG_WARN, "staging buffer: %s", note);
    if (lull__cond_init(&ring->given) != 0) {
        status = lull__fail(LULL_ERR_NO_MEMORY, "the staging buffer");
        goto free_data;
    }
    pthread_mutex_init(&ring->lock, NULL);
    ring->device = device;
    ring->data = data;
    ring->slot_bytes = slot_bytes;
    ring->slots = (uint32_t)slots;
    while (ring->free_count < slots) {
        ring->free[ring->free_count] = (uint32_t)slots - 1 - ring->free_count;
        ring->free_count++;
    }
    *out = ring;
    return LULL_OK;

free_data:
    device->memory->staging_free(device, data, slots * slot_bytes);
free_stack:
    free(ring->free);
free_ring:
    free(ring);
    return status;
}

void lull__ring_destroy(lull__ring_t *ring) {
    if (ring == NULL)
        return;
    pthread_cond_destroy(&ring->given);
    pthread_mutex_destroy(&ring->lock);
    ring->device->memory->staging_free(ring->device, ring->data,
                                       lull__ring_bytes(ring));
    free(ring->free);
    free(ring);
}

/* With the lock held and a slot free. */
static uint32_t pop(lull__ring_t *ring) {
    uint32_t slot = ring->free[--ring->free_count];
    uint32_t taken = ring->slots - ring->free_count;
    if (taken > ring->peak)
        ring->peak = taken;
    return slot;
}

bool lull__ring_take(lull__ring_t *ring, uint32_t *slot, double *waited_s) {
    pthread_mutex_lock(&ring->lock);
    if (ring->free_count == 0 && !ring->cancelled) {
        double from = lull__now();
        while (ring->free_count == 0 && !ring->cancelled)
            pthread_cond_wait(&ring->given, &ring->lock);
        *waited_s += lull__now() - from;
    }
    bool ok = !ring->cancelled;
    if (ok)
        *slot = pop(ring);
    pthread_mutex_unlock(&ring->lock);
    return ok;
}

bool lull__ring_try_take(lull__ring_t *ring, uint32_t *slot) {
    pthread_mutex_lock(&ring->lock);
    bool ok = !ring->cancelled && ring->free_count > 0;
    if (ok)
        *slot = pop(ring);
    pthread_mutex_unlock(&ring->lock);
    return ok;
}

void lull__ring_give(lull__ring_t *ring, uint32_t slot) {
    pthread_mutex_lock(&ring->lock);
    ring->free[ring->free_count++] = slot;
    pthread_cond_signal(&ring->given);
    pthread_mutex_unlock(&ring->lock);
}

void lull__ring_cancel(lull__ring_t *ring) {
    pthread_mutex_lock(&ring->lock);
    ring->cancelled = true;
    pthread_cond_broadcast(&ring->given);
    pthread_mutex_unlock(&ring->lock);
}

void *lull__ring_data(const lull__ring_t *ring, uint32_t slot) {
    return ring->data + slot * ring->slot_bytes;
}

uint64_t lull__ring_slot_bytes(const lull__ring_t *ring) {
    return ring->slot_bytes;
}

uint32_t lull__ring_slots(const lull__ring_t *ring) {
    return ring->slots;
}

uint64_t lull__ring_bytes(const lull__ring_t *ring) {
    return ring->slots * ring->slot_bytes;
}

uint64_t lull__ring_peak(lull__ring_t *ring) {
    pthread_mutex_lock(&ring->lock);
    uint64_t peak = ring->peak * ring->slot_bytes;
    pthread_mutex_unlock(&ring->lock);
    return peak;
}
