/* --ckpt-tier: a directory and how checkpoints are kept there. */
#ifndef TRAIN_TIERS_H
#define TRAIN_TIERS_H

#include <limits.h>
#include <lull/ckpt.h>

#include "config.h"

typedef struct tier_spec {
    char dir[PATH_MAX];
    lull_ckpt_tier_t tier; /* its dir points here */
} tier_spec_t;

/* "DIR[,keep-last=N][,keep-every=N][,files=N]"; a comma that no such key
 * follows belongs to DIR. LULL_ERR_INVALID: what is wrong, and what would do.
 */
lull_status_t tier_parse(const char *text, tier_spec_t *out);

/* The directories of a run, fast to slow: --ckpt-dir, then the tiers. */
typedef struct tier_dirs {
    tier_spec_t specs[LULL_CKPT_TIERS_MAX];
    const char *dirs[LULL_CKPT_TIERS_MAX + 1];
    size_t count;
} tier_dirs_t;
void tier_dirs_fill(const config_t *config, tier_dirs_t *out);

#endif
