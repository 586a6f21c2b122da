/* Rank 0: from a checked manifest to the commit point. */
#ifndef LULL__CKPT_PUBLISH_H
#define LULL__CKPT_PUBLISH_H

#include "engine.h"
#include "manifest.h"

/* manifest.json (temp, fsync, rename), fsync of the partial directory, rename
 * to step-N, fsync of DIR: the commit point. Adds to the engine's history.
 * LULL_ERR_DURABILITY_UNKNOWN: only the last fsync failed. */
lull_status_t lull__publish(lull_ckpt_request_t *save,
                            const lull__manifest_t *manifest);
/* The hint; a failure is only logged. */
void lull__publish_latest(lull_ckpt_request_t *save);

#endif
