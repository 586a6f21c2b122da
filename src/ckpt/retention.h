/* What is committed in a directory, what of it may go, and how it goes. */
#ifndef LULL__CKPT_RETENTION_H
#define LULL__CKPT_RETENTION_H

#include <lull/ckpt.h>

#include "deleter.h"
#include "io/file.h"
#include "manifest.h"
#include "naming.h"

typedef struct lull__history_row {
    uint64_t seq, step;
    uint64_t origin; /* of which save: the same in every tier */
    bool stuck;      /* cannot be drained: not waited for */
    bool partly;     /* not every place has its part: it counts for nothing,
                        but goes when it would go if they had */
    bool wanted;     /* of a place but rank 0's: a slower tier wants it, rank 0
                        says */
} lull__history_row_t;

/* Committed checkpoints by ascending seq. Zeros are an empty one. */
typedef struct lull__history {
    lull__history_row_t *rows;
    size_t count, room;
    uint64_t last; /* the highest seq ever seen here */
} lull__history_t;

/* Reads the manifests of a directory. A checkpoint whose manifest cannot be
 * read, or is that of another step, is left out: it is neither counted nor
 * deleted. */
lull_status_t lull__history_scan(const lull__dir_t *dir,
                                 lull__history_t *history);
/* A seq is taken, whatever becomes of the row. */
void lull__history_taken(lull__history_t *history, uint64_t seq);
/* A commit: takes the place of an older one of the same step. */
lull_status_t lull__history_add(lull__history_t *history,
                                const lull__manifest_t *manifest);
lull_status_t lull__history_put(lull__history_t *history,
                                const lull__history_row_t *row);
lull__history_row_t lull__history_row(const lull__manifest_t *manifest);
/* NULL: not there. */
lull__history_row_t *lull__history_find(const lull__history_t *history,
                                        const lull__history_row_t *row);
/* Takes a row out; harmless if it is not there. */
void lull__history_drop(lull__history_t *history,
                        const lull__history_row_t *row);
/* ... those of a step. */
void lull__history_forget(lull__history_t *history, uint64_t step);
void lull__history_free(lull__history_t *history);

typedef struct lull__retention {
    const lull__dir_t *dir;
    const char *run_id; /* for names of trash */
    uint64_t save;
    uint32_t keep_last;       /* 0: all */
    uint64_t keep_every;      /* 0: none */
    lull__deleter_t *deleter; /* NULL: deleted before the call returns */
    /* Both may be NULL. hold: LULL_ERR_BUSY and a sentence where a row must
     * stay though the rules let it go; kept: told of each such row, and of
     * those that a reader holds, while the sentence says why. */
    lull_status_t (*hold)(void *ctx, const lull__history_row_t *row);
    void (*kept)(void *ctx, const lull__history_row_t *row);
    void *ctx;
} lull__retention_t;

/* Deletes what is not kept; what a reader holds, or cannot be deleted, stays
 * for the next time. *deleted (may be NULL) counts. */
lull_status_t lull__retention_run(const lull__retention_t *what,
                                  lull__history_t *history, size_t *deleted);

/* Is a row of the history kept by the rules? */
bool lull__retention_keeps(const lull__retention_t *what,
                           const lull__history_t *history, size_t row);

/* Renames DIR/name to trash, syncs DIR, and has it deleted. LULL_ERR_BUSY: a
 * reader holds it. */
lull_status_t lull__trash(const lull__retention_t *what, const char *name,
                          uint64_t step);

/* Under the lock: puts back or deletes what crashed runs left: partial and
 * old directories, trash, notes of other runs than `run_id`. `lull`: DIR/.lull.
 * leave_old: not the old directories. */
lull_status_t lull__sweep(const lull__dir_t *dir, const lull__dir_t *lull,
                          const char *run_id, bool leave_old);

/* Deletes the partial directories of this run's saves below `before`: what
 * could not go when they failed, because a rank was still writing there. */
lull_status_t lull__sweep_own(const lull__dir_t *dir, const char *run_id,
                              uint64_t before);

#endif
