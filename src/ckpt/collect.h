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
void lull__collect_free(lull__manifest_t *manifest);

#endif
