/* Draining where each place has a part of a checkpoint: rank 0 says in a note
 * in the first slower tier what is to be copied, who leads a place copies what
 * lies there and says so, rank 0 makes one checkpoint of it and publishes that.
 * Why so: docs/decisions/0083-draining-places.md. Notes: docs/formats/notes.md.
 */
#ifndef LULL__CKPT_PARTS_H
#define LULL__CKPT_PARTS_H

#include "carry.h"
#include "publish.h"
#include "tiers.h"

/* parts_note.c */

/* Rank 0: writes tiers->order down. */
lull_status_t lull__parts_order(lull__tiers_t *tiers);
/* Who leads a place: reads it. LULL_ERR_NOT_FOUND: the tier is not there.
 * *ended: it is, and rank 0 has closed. */
lull_status_t lull__parts_look(const lull__tiers_t *tiers,
                               lull__part_order_t *out, bool *ended);
/* What becomes of order `number` in a place. */
typedef struct lull__part_word {
    uint64_t number; /* LULL__PART_GONE: nothing will, the engine is closed */
    lull_status_t status;
    bool done;
    uint64_t sum; /* done: of the votes that are written; else bytes so far */
    char text[LULL__SENTENCE_MAX]; /* of a failure */
} lull__part_word_t;
#define LULL__PART_GONE UINT64_MAX
lull_status_t lull__parts_say(const lull__tiers_t *tiers,
                              const lull__part_word_t *word);
/* Rank 0: false: nothing yet. */
bool lull__parts_hear(const lull__tiers_t *tiers, uint32_t place,
                      lull__part_word_t *out);
/* One number for a vote; they are added. */
uint64_t lull__parts_sum(uint32_t rank, const lull__manifest_vote_t *vote);

/* Rank 0: rows that a slower tier wants, as text for all places. `also` (may be
 * NULL): one that is not in the history yet. */
lull_status_t lull__parts_wanted_print(lull__tiers_t *tiers,
                                       const lull__history_row_t *also,
                                       lull__memory_t *out);
/* Another place: marks them. No text: the newest is one, the others are as
 * before. */
lull_status_t lull__parts_wanted_take(lull__tiers_t *tiers, char *text);
/* How many are; *newest is one of them. */
uint64_t lull__parts_wanted(lull__tiers_t *tiers, lull__history_row_t *newest);

/* parts.c: rank 0 */

/* Does the checkpoint have parts in other places of this run? */
bool lull__parts_has(const lull__tiers_t *tiers, size_t from,
                     const lull_ckpt_info_t *info);
/* Has all places copy it to place->partial, and publishes that. `carry` is the
 * own part. *gone: a place has lost its part. */
lull_status_t lull__parts_run(lull__tiers_t *tiers, lull__carry_t *carry,
                              lull__place_t *place, bool *gone);
/* The drainer ends. */
void lull__parts_end(lull__tiers_t *tiers);

/* Tells the other side now and then that this one lives; any thread. False: who
 * follows, and rank 0 has given up what is copied. */
bool lull__parts_beat(lull__tiers_t *tiers);
/* Naps before looking again: a tenth of the time waited `since`, `most_s` at
 * most. Ends early where there is another reason to look. False: the engine is
 * cancelled. */
bool lull__parts_nap(lull__tiers_t *tiers, double since, double most_s);

/* part.c: who leads a place and is not rank 0. arg: the engine. */
void *lull__part_thread(void *arg);

#endif
