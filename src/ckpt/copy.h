/* What the two kinds of copy threads share. */
#ifndef LULL__CKPT_COPY_H
#define LULL__CKPT_COPY_H

#include "engine.h"

/* What a copy thread does next, with the lock held; NULL: nothing now. The
 * oldest save with something to do comes first: to be laid out (*plan), or
 * to be copied, chunk number save->next_chunk. */
lull_ckpt_request_t *lull__copy_find(lull_ckpt_t *ckpt, bool *plan);
/* Lays a save out; the lock is not held. */
void lull__copy_plan(lull_ckpt_request_t *save);
/* With the lock held: takes chunk save->next_chunk on. */
void lull__copy_claim(lull_ckpt_request_t *save);
/* Chunk `number` of a save, as it will lie in ring slot `slot`. */
lull__chunk_t *lull__copy_locate(lull_ckpt_request_t *save, uint64_t number,
                                 uint32_t slot);
/* The copier's queue begins only behind the save's event: told once for each
 * save. */
lull_status_t lull__copy_after(lull__copier_t *copier,
                               lull_ckpt_request_t *save);
/* Issues the copies of bytes [begin, begin + bytes) of the file's data into
 * the chunk's slot. */
lull_status_t lull__copy_range(lull__copier_t *copier,
                               const lull__chunk_t *chunk, uint64_t begin,
                               uint64_t bytes);
/* Hashes one block: `bytes` of the chunk from `at` on, which are there. */
void lull__copy_hash(const lull__chunk_t *chunk, uint64_t at, uint64_t bytes);
/* With the lock held: the copier's times go into the engine's counters. */
void lull__copy_count(lull__copier_t *copier);

#endif
