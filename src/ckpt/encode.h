/* The stage between copy and flush of an engine that compresses: one thread
 * takes chunks of raw bytes in their order, has their frames coded (team.h) and
 * hands on chunks of what will be in the file.
 *
 * Raw chunks lie in the engine's ring; what is coded in a small ring of the
 * encoder's own, so that coding never waits for a slot that only coding would
 * give back. A save's chunks are coded when all are copied, or when the ring
 * is full: until then the cores are the copy's. */
#ifndef LULL__CKPT_ENCODE_H
#define LULL__CKPT_ENCODE_H

#include "classes.h"
#include "engine.h"

/* NULL where the policy codes nothing. */
lull_status_t lull__encoder_create(lull_ckpt_t *ckpt,
                                   const lull__classes_t *classes,
                                   lull__encoder_t **out);
/* The thread is over. NULL is harmless. */
void lull__encoder_destroy(lull__encoder_t *encoder);
/* Wakes the thread for good, if it waits for a slot. */
void lull__encoder_cancel(lull__encoder_t *encoder);

void *lull__encode_thread(void *arg);
/* With the lock held: may one more raw chunk be begun? Chunks are begun in
 * order and no more than there are slots, so each one gets its slot while
 * those before it wait for nothing but coding. */
bool lull__encode_room(lull_ckpt_t *ckpt);
/* With the lock held: a raw chunk is in its slot. */
void lull__encode_ready(lull__chunk_t *chunk);
/* How a described item is stored, and what it may take. */
lull_status_t lull__encode_plan(lull_ckpt_request_t *save);

#endif
