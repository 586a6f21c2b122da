/* Rank 0: waits for the votes of a save, checks them, and makes a manifest of
 * them. */
#ifndef LULL__CKPT_COLLECT_H
#define LULL__CKPT_COLLECT_H

#include "engine.h"
#include "manifest.h"

/* Blocks until every rank has voted; LULL_ERR_ABORTED: an abort note, a bad
 * vote, tensors that are not whole, or commit_timeout passed; the sentence
 * names rank and reason. LULL_ERR_CANCELLED. */
lull_status_t lull__collect(lull_ckpt_request_t *save,
                            lull__manifest_t *manifest);

/* The same of votes that come as messages. vote: of `rank`; text[bytes] is
 * written to. end: `all` have come, or the manifest is freed; NULL is
 * harmless. */
typedef struct lull__collector lull__collector_t;
lull_status_t lull__collect_begin(lull_ckpt_request_t *save,
                                  lull__manifest_t *manifest,
                                  lull__collector_t **out);
lull_status_t lull__collect_vote(lull__collector_t *collector, uint32_t rank,
                                 char *text, uint64_t bytes);
lull_status_t lull__collect_end(lull__collector_t *collector, bool all);
/* Is DIR/name there, with so many bytes? */
lull_status_t lull__collect_size(const lull__dir_t *dir, const char *name,
                                 uint64_t bytes);

void lull__collect_free(lull__manifest_t *manifest);

#endif
