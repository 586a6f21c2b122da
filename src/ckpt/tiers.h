/* Slower directories behind the first: what each holds, what each wants, and
 * the thread of rank 0 that drains. Why so: docs/decisions/0072-tiers.md. */
#ifndef LULL__CKPT_TIERS_H
#define LULL__CKPT_TIERS_H

#include "engine.h"

/* A slower directory that is open, locked and read. */
typedef struct lull__tier_home {
    lull__dir_t dir, lull_dir;
    lull__lock_t *lock;
    lull__history_t history;
    lull__deleter_t *deleter; /* the drainer's */
} lull__tier_home_t;

/* Index 0 is the engine's own directory. */
typedef struct lull__tier {
    const lull__dir_t *dir;
    lull__history_t *history; /* under lull__tiers_t.lock */
    uint32_t keep_last, files;
    uint64_t keep_every;
    lull__tier_home_t *home; /* of slower ones: where these two are */
    lull__direct_writes_t direct_writes; /* the drainer's, as these: */
    bool garbage;                        /* a partial directory could not go */
    bool in_doubt; /* ... one may hold what was replaced, perhaps not durably */
    /* Under the engine's lock. */
    double retry_s;    /* not before; 0: at once */
    unsigned failures; /* in a row */
    lull_status_t
        status; /* of the last try that failed, and is not made good */
    bool stuck; /* ... and will not be */
    char *sentence;
} lull__tier_t;

/* What rank 0 wants of the leaders of places; a part of a checkpoint each. */
typedef struct lull__part_order {
    uint64_t number, beat; /* beat: says only that rank 0 lives */
    bool copy;             /* else there is nothing to do */
    lull__history_row_t row;
    lull__entry_name_t partial;
    lull__history_row_t drained; /* the last that was; seq 0: none */
} lull__part_order_t;

struct lull__tiers {
    lull_ckpt_t *ckpt;
    bool follows; /* who leads a place but is not rank 0: of slower tiers it has
                     only paths and rules, and drains what rank 0 says */
    lull__part_order_t order; /* the drainer's: given, or seen last */
    lull__tier_t tiers[LULL_CKPT_TIERS_MAX + 1];
    size_t count;
    uint64_t number; /* of partial directories; the drainer's */
    /* Held while names in the first directory change: by a commit, or by
     * retention, which the drainer runs, too, and which must not take a new
     * checkpoint for the old one of its step. In the others only the drainer
     * changes names. Taken before `lock`. */
    pthread_mutex_t naming;
    pthread_mutex_t lock; /* guards histories; over no storage call */
    /* Under the engine's lock. */
    uint64_t ticket; /* grows with each reason to look again */
    bool idle;       /* the drainer has nothing that it could do now */
    double beat_s;   /* when the others are to be told that this one lives */
    bool beating;    /* ... which happens now */
    bool moved_on;   /* rank 0 has given up what is being drained here */
};

/* tiers.c */

/* Rank 0, when its own directory is open: opens, locks, cleans and reads all
 * others, and leaves its marks. */
lull_status_t lull__tiers_open(lull_ckpt_t *ckpt);
/* Another rank: waits for the marks. */
lull_status_t lull__tiers_probe(lull_ckpt_t *ckpt);
/* After that, who leads a place. */
lull_status_t lull__tiers_follow(lull_ckpt_t *ckpt);
/* Opens the notes' directory of the tier that has a path now. */
lull_status_t lull__tiers_notes(const lull__io_t *io, const char *path,
                                lull__dir_t *out);
/* Before a tier that failed is tried again: when another directory has its
 * path by now (mounted again, made again), that is opened. It is not created:
 * what is under a mount that went is not what was meant. */
lull_status_t lull__tiers_revive(lull__tiers_t *tiers, size_t index);
void lull__tiers_unlock_dirs(lull__tiers_t *tiers);
void lull__tiers_destroy(lull__tiers_t *tiers);

/* With tiers->lock held. Does tier `index` lack the row and want it, for its
 * own sake or a slower one's? */
bool lull__tiers_want(const lull__tiers_t *tiers, size_t index,
                      const lull__history_row_t *row);
/* With tiers->lock held. Does tier `index` have something under the row's step
 * that must not make room for it: newer, or of another run? */
bool lull__tiers_block(const lull__tiers_t *tiers, size_t index,
                       const lull__history_row_t *row);
/* With tiers->lock held: what the next tier wants, counted over all tiers. */
uint64_t lull__tiers_pending(const lull__tiers_t *tiers);
/* Retention of a tier. `save`: for names of trash. */
void lull__tiers_retain(lull__tiers_t *tiers, size_t index, uint64_t save);

/* The committer has published, and nobody knows yet: who does, and looks, must
 * find the drainer at work. */
void lull__tiers_committed(lull__tiers_t *tiers);

/* prune.c */

/* Writes down in `lull`, of tier `index`, which slower ones are behind it, for
 * a prune while no run has it. */
lull_status_t lull__tiers_record(const lull__tiers_t *tiers, size_t index,
                                 const lull__dir_t *lull);

/* drain.c */

/* Another reason to look; with `again` those that failed are tried at once.
 * With the engine's lock held. */
void lull__drain_wake(lull__tiers_t *tiers, bool again);
/* Counts bytes to be drained, and waits while the cap on writing wants it; not
 * once the engine closes. False: cancelled, or rank 0 gave it up. */
bool lull__drain_pace(void *ctx, uint64_t bytes);
/* What is not made good; takes it as told. */
lull_status_t lull__drain_report(lull__tiers_t *tiers);
/* arg: the engine. */
void *lull__drain_thread(void *arg);

#endif
