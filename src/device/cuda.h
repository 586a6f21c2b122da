/* A CUDA device as lull sees it; shared by the files of the cuda device. */
#ifndef LULL__CUDA_H
#define LULL__CUDA_H

#include <pthread.h>
#include <sys/types.h>

#include "cuda_driver.h"
#include "device.h"

/* Staging is pinned whole, or, where that is refused, in pieces that begin at
 * multiples of this address; no copy crosses such a multiple. */
#define LULL__CUDA_PIECE ((size_t)64 << 20)

/* Events for callers' streams kept for the next save. */
#define LULL__CUDA_SPARE 16

typedef struct lull__cuda_device {
    lull_device_t base; /* first: the device's address is this one's */
    const lull__cuda_t *cu;
    pid_t pid; /* which opened it */
    int ordinal, node;
    lull__cu_device_t id;
    lull__cu_context_t context; /* the primary one, retained */
    char name[24];

    pthread_mutex_t lock; /* guards all below */
    lull__cu_event_t spare[LULL__CUDA_SPARE];
    unsigned spare_count;
    struct lull__cuda_staging *staging;
} lull__cuda_device_t;

/* A call from lull into CUDA, on any thread: the device's context is current
 * in it, and captures of graphs on other threads take no notice. */
typedef struct lull__cuda_call {
    lull__cu_enum_t capture_mode; /* the thread's own, to be put back */
    bool exchanged;
} lull__cuda_call_t;

lull_status_t lull__cuda_enter(lull__cuda_device_t *device,
                               lull__cuda_call_t *call);
void lull__cuda_leave(lull__cuda_device_t *device, lull__cuda_call_t *call);

/* In a child of the process that opened the device? Nothing of CUDA may be
 * called then. */
bool lull__cuda_forked(const lull__cuda_device_t *device);

extern const lull__device_memory_t lull__cuda_memory; /* cuda_memory.c */
extern const lull__device_exec_t lull__cuda_exec;     /* cuda_exec.c */

#endif
