/* Agreement by the caller's callback, for ranks that do not all see one
 * directory. Messages: docs/formats/agree.md. */
#ifndef LULL__CKPT_AGREE_H
#define LULL__CKPT_AGREE_H

#include "engine.h"
#include "manifest.h"

/* Rounds of an open (the last only with tiers), then of each save. */
#define LULL__AGREE_OPEN_ROUNDS 5u
#define LULL__AGREE_SAVE_ROUNDS 3u

/* One round: what every rank says goes to rank 0, what rank 0 makes of it goes
 * to every rank. */
typedef struct lull__agree_round {
    uint64_t number;
    const char *kind; /* at most 15 bytes */
    const void *body; /* of this rank; may be NULL */
    uint64_t bytes;
    /* On rank 0, both may be NULL. take: a rank's body, its own too; the body
     * is written to by parsers, and freed afterwards. decide: when all have
     * said yes; what it puts in *answer goes to all. */
    lull_status_t (*take)(void *ctx, uint32_t rank, char *body, uint64_t bytes);
    lull_status_t (*decide)(void *ctx, lull__memory_t *answer);
    void *ctx;
    lull__memory_t answer; /* out, on success: rank 0's; to be freed. A NUL
                              that does not count is behind it */
    bool agreed; /* out: rank 0 decided yes, as far as this rank knows; on rank
                    0 also where not all could be told */
    bool own;    /* out: the failure is of this rank: its `mine`, or decide() */
} lull__agree_round_t;

/* LULL_OK where every rank's `mine` is and rank 0 decided yes. A rank that
 * failed gets its own status and sentence; the others that of the first rank
 * that did, which is named, or that rank 0 decided so.
 * LULL_ERR_OUTCOME_UNKNOWN: the callback gave this rank no answer. Blocks. */
lull_status_t lull__agree_round(lull_ckpt_t *ckpt, lull__agree_round_t *round,
                                lull_status_t mine);

/* The open of an engine with a callback: agrees on a run id and on places,
 * takes the lock of this place, recovers what a crash left between the places,
 * fills the history. Collective. */
lull_status_t lull__agree_open(lull_ckpt_t *ckpt);

/* agree_recover.c: what a place has, as rows of text for rank 0; what all
 * places have, of rows of all; what to do about it here. */
lull_status_t lull__recover_list(const lull__dir_t *dir, lull__memory_t *rows);

typedef struct lull__recover_row {
    uint64_t seq, step, tag; /* tag: of run and save */
    uint32_t place;
    char kind; /* 'H' at home, 'O' moved aside, 'P' prepared, not published */
} lull__recover_row_t;

typedef struct lull__recover {
    lull__recover_row_t *rows;
    size_t count, room;
} lull__recover_t;

/* Parses text[n] of place `place`. LULL_ERR_CORRUPT. */
lull_status_t lull__recover_add(lull__recover_t *recover, uint32_t place,
                                char *text, size_t n);
/* Leaves one row for each checkpoint that all `places` have, and that was
 * published in one of them. */
void lull__recover_complete(lull__recover_t *recover, uint32_t places);
lull_status_t lull__recover_print(const lull__recover_t *recover,
                                  lull__memory_t *out);
/* With the lock: publishes here what was published elsewhere, puts back what
 * the other places still have, and fills the history with what is complete. */
lull_status_t lull__recover_apply(const lull__recover_t *complete,
                                  const lull__dir_t *dir,
                                  lull__history_t *history);
void lull__recover_free(lull__recover_t *recover);

/* The committer's part of a save. *keep: its directory must stay, it may be
 * published elsewhere. */
void lull__agree_commit(lull_ckpt_request_t *save, bool *keep);

/* "HOST:DIR" */
lull_status_t lull__agree_place_name(const lull__dir_t *dir, char **out);

#endif
