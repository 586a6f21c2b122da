/* Memory of the sim device: addresses that the CPU may not touch, beside an
 * alias through which the device itself does. */
#ifndef LULL__SIM_MEMORY_H
#define LULL__SIM_MEMORY_H

#include <lull/status.h>
#include <pthread.h>
#include <stddef.h>

#define LULL__SIM_POISON 0xeb /* not written yet */
#define LULL__SIM_FREED 0xfd

/* One allocation; stays mapped while work on it is queued. */
typedef struct lull__sim_block {
    char *device, *alias;
    size_t bytes; /* whole pages */
    unsigned refs;
} lull__sim_block_t;

typedef struct lull__sim_memory {
    pthread_mutex_t lock; /* guards all below, and blocks' refs */
    lull__sim_block_t **blocks;
    size_t count, room; /* by address */
} lull__sim_memory_t;

void lull__sim_memory_begin(lull__sim_memory_t *memory);
/* Frees every block that is left; no work may be queued. */
void lull__sim_memory_end(lull__sim_memory_t *memory);

lull_status_t lull__sim_memory_alloc(lull__sim_memory_t *memory, size_t bytes,
                                     void **out);
void lull__sim_memory_free(lull__sim_memory_t *memory, void *device);

/* The block in which all of [device, device + bytes) lies, with a reference
 * more; NULL: it is not memory of this device, or freed. *alias: where the
 * CPU reaches it. */
lull__sim_block_t *lull__sim_memory_find(lull__sim_memory_t *memory,
                                         const void *device, size_t bytes,
                                         char **alias);
void lull__sim_memory_unref(lull__sim_memory_t *memory,
                            lull__sim_block_t *block);

#endif
