/* The lock of a checkpoint directory, and the agreement of ranks on a run id
 * by nonces through it. */
#ifndef LULL__CKPT_LOCK_H
#define LULL__CKPT_LOCK_H

#include <lull/ckpt.h>

#include "io/file.h"

typedef struct lull__lock lull__lock_t;

/* Takes DIR/.lull/lock for this process; `lull` is the open .lull directory.
 * LULL_ERR_BUSY names the holder's host, pid and run. A forked child does not
 * keep the lock alive. */
lull_status_t lull__lock_take(const lull__dir_t *lull, const char *run_id,
                              lull__lock_t **out);
/* NULL is harmless. */
void lull__lock_drop(lull__lock_t *lock);

/* A new run id: time and random bits. */
void lull__run_id_make(char out[LULL_RUN_ID_MAX]);

/* Rank 0 answers every rank's hello with its run id until all have said that
 * they have it; the others say hello with a nonce until answered. Stale files
 * of crashed launches are answered too, and harmless. `deadline` by
 * lull__now(). */
typedef struct lull__join {
    const lull__dir_t *lull; /* the open DIR/.lull */
    uint32_t rank, world;
    double deadline;
} lull__join_t;
lull_status_t lull__join_lead(const lull__join_t *join, const char *run_id);
lull_status_t lull__join_follow(const lull__join_t *join,
                                char run_id[LULL_RUN_ID_MAX]);

#endif
