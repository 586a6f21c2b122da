/* The staging buffer of an engine: a fixed budget in equal slots, allocated
 * once. Slots are taken and given back in any order; when none is free, the
 * taker waits for a flush: back-pressure, never an allocation. */
#ifndef LULL__CKPT_RING_H
#define LULL__CKPT_RING_H

#include <lull/status.h>
#include <stdbool.h>
#include <stdint.h>

#include "device/device.h"

#define LULL__RING_SLOT_MIN ((uint64_t)1 << 20)
#define LULL__RING_SLOT_MAX ((uint64_t)8 << 20)

typedef struct lull__ring lull__ring_t;

/* Slots have a power of two of bytes, from 1 to 8 MiB, so that there are at
 * least 8 of them where the budget (at least 1 MiB) allows it. */
lull_status_t lull__ring_create(lull_device_t *device, uint64_t budget,
                                lull__ring_t **out);
/* `slots` of `slot_bytes`, a multiple of 4096. */
lull_status_t lull__ring_create_slots(lull_device_t *device,
                                      uint64_t slot_bytes, uint64_t slots,
                                      lull__ring_t **out);
/* No slot may be taken any more. NULL is harmless. */
void lull__ring_destroy(lull__ring_t *ring);

/* Blocks until a slot is free; *waited_s grows by the time that took. False:
 * cancelled. Any thread. */
bool lull__ring_take(lull__ring_t *ring, uint32_t *slot, double *waited_s);
/* As take, but false when none is free now. */
bool lull__ring_try_take(lull__ring_t *ring, uint32_t *slot);
void lull__ring_give(lull__ring_t *ring, uint32_t slot);
/* Wakes takers for good. */
void lull__ring_cancel(lull__ring_t *ring);

void *lull__ring_data(const lull__ring_t *ring, uint32_t slot);
uint64_t lull__ring_slot_bytes(const lull__ring_t *ring);
uint32_t lull__ring_slots(const lull__ring_t *ring);
/* Bytes of staging, and the most of them that were taken at once. */
uint64_t lull__ring_bytes(const lull__ring_t *ring);
uint64_t lull__ring_peak(lull__ring_t *ring);

#endif
