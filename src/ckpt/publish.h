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
    bool exchanged;           /* out: what was replaced has the partial name */
} lull__place_t;

/* manifest.json (temp, fsync, rename), fsync of the partial directory, rename
 * to step-N, fsync of DIR: the commit point. Adds to the history.
 * LULL_ERR_DURABILITY_UNKNOWN: only the last fsync failed. */
lull_status_t lull__publish(lull__place_t *place,
                            const lull__manifest_t *manifest);
/* The parts of it, for places that publish together: the manifest, synced, in
 * the partial directory; the rename and the commit point (keep_old: what had
 * the place stays, moved aside, until it is settled); the history and the end
 * of what was replaced. */
lull_status_t lull__publish_prepare(const lull__place_t *place,
                                    const lull__manifest_t *manifest);
lull_status_t lull__publish_install(lull__place_t *place,
                                    const lull__manifest_t *manifest,
                                    bool keep_old);
void lull__publish_settle(const lull__place_t *place,
                          const lull__manifest_t *manifest);
/* The hint; a failure is only logged. */
void lull__publish_latest(const lull__dir_t *dir, uint64_t step);

#endif
