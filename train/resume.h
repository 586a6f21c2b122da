/* Going on from a checkpoint: all ranks agree on one that all can read. */
#ifndef TRAIN_RESUME_H
#define TRAIN_RESUME_H

#include <lull/ckpt.h>
#include <lull/comm.h>

#include "agree.h"
#include "model.h"
#include "options.h"
#include "saver.h"
#include "tiers.h"

enum { SKIPPED_MOST = 8 };

/* A checkpoint that was passed over, and why: known to every rank. */
typedef struct skipped {
    uint64_t step;
    char why[WHY_MAX];
} skipped_t;

typedef struct resume {
    const char *dir;  /* that the checkpoint is in; NULL: nothing to resume */
    tier_dirs_t dirs; /* where it is looked for */
    size_t index;     /* of dir; with `local` each rank's own */
    bool local;       /* the first of them is on a disk of each node */
    lull_ckpt_id_t id;
    lull_ckpt_info_t *info;
    char where[512]; /* "checkpoint step 100 in DIR" */
    skipped_t skipped[SKIPPED_MOST];
    int skipped_count; /* may be more than are kept */
    int told;          /* of them */
} resume_t;

/* Collective. Finds the newest checkpoint that every rank can open; sets
 * options from it or refuses those that contradict it. With "auto" and no
 * checkpoint at all *out is empty. Those passed over are told with the reason
 * by rank 0, once one is found; where none is, the newest's reason is the
 * failure's. "auto" looks into all tiers: of the newest checkpoint the copy
 * in the fastest, or if that is bad, in another one; from disks of nodes each
 * rank takes its own. */
lull_status_t resume_find(options_t *options, lull_comm_t *other,
                          resume_t *out);
/* Collective. Fills model and state; where a rank cannot, all take the next
 * older checkpoint, which must agree with `asked`: the options as resume_find
 * left them. */
lull_status_t resume_load(resume_t *resume, const options_t *asked,
                          lull_comm_t *other, model_t *model,
                          run_state_t *state);
void resume_close(resume_t *resume);

#endif
