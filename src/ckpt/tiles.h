/* The coordinator's check that all ranks together saved every tensor: boxes
 * of each tile its global shape exactly once. */
#ifndef LULL__CKPT_TILES_H
#define LULL__CKPT_TILES_H

#include "vote.h"

typedef struct lull__tiles lull__tiles_t;

/* copies: replicas are stored whole, the first one counts. */
lull_status_t lull__tiles_create(bool copies, lull__tiles_t **out);
void lull__tiles_destroy(lull__tiles_t *tiles);
/* Adds a rank's vote; nothing of it is kept. LULL_ERR_MISMATCH: its dtype or
 * shape of a tensor is not what another rank says. */
lull_status_t lull__tiles_add(lull__tiles_t *tiles, const lull__vote_t *vote);
/* LULL_ERR_MISMATCH names the first tensor that is not whole, or an alias of
 * nothing. */
lull_status_t lull__tiles_check(lull__tiles_t *tiles);

#endif
