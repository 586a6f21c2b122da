/* Rank 0: from a checked manifest to the commit point, in any tier. */
#ifndef LULL__CKPT_PUBLISH_H
#define LULL__CKPT_PUBLISH_H

#include <pthread.h>

#include "manifest.h"
#include "retention.h"

/* A directory of a checkpoint whose files are all there and synced, and where
 * it is to be published. */
typedef struct lull__place {
    const lull__dir_t *dir, *partial;
    const char *partial_name; /* of `partial` in `dir` */
    const char *run_id;       /* this run's, for names of what is moved aside */
    uint64_t number;          /* in it */
    lull__history_t *history; /* of dir; changed under `lock` */
    pthread_mutex_t *lock;    /* NULL: nobody else looks at it */
} lull__place_t;

/* manifest.json (temp, fsync, rename), fsync of the partial directory, rename
 * to step-N, fsync of DIR: the commit point. Adds to the history.
 * LULL_ERR_DURABILITY_UNKNOWN: only the last fsync failed. */
lull_status_t lull__publish(const lull__place_t *place,
                            const lull__manifest_t *manifest);
/* The hint; a failure is only logged. */
void lull__publish_latest(const lull__dir_t *dir, uint64_t step);

#endif
