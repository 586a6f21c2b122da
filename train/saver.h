/* The checkpoints that a run writes: when its state may change, what became
 * of each save, and what each cost. */
#ifndef TRAIN_SAVER_H
#define TRAIN_SAVER_H

#include <lull/ckpt.h>
#include <lull/comm.h>

#include "model.h"
#include "options.h"
#include "trace.h"

typedef struct saver saver_t;

/* Host state of a run: with the tensors all that a step depends on. */
typedef struct run_state {
    int64_t step;           /* steps done */
    int64_t updates;        /* of the optimizer */
    int64_t skipped;        /* steps without an update, in all */
    int64_t skipped_in_row; /* ... up to now */
} run_state_t;

/* X(field of run_state_t): each is saved as lull.state/NAME, an I64 in
 * little-endian bytes. */
#define RUN_STATE_TABLE(X) \
    X(step)                \
    X(updates)             \
    X(skipped)             \
    X(skipped_in_row)

/* Collective. Opens config->ckpt_dir, rank 0 first, so that a directory that
 * cannot be used is said once. *out is NULL without a directory. */
lull_status_t saver_open(const options_t *options, lull_comm_t *other,
                         saver_t **out);
/* Tells what to save, before the first save. `asked` are the options as they
 * were given or adopted, before anything was chosen for the user. */
typedef struct saver_subject {
    const model_t *model;
    const options_t *asked;
    const groups_t *groups;
    const data_t *data;
    uint64_t parent_seq;
    trace_t *trace;
} saver_subject_t;
lull_status_t saver_attach(saver_t *saver, const saver_subject_t *subject);

/* Begins a checkpoint; right after an update. Collective in its order only. */
void saver_save(saver_t *saver, const run_state_t *state);
/* Right before an update: waits until the pending copies are taken. */
void saver_before_update(saver_t *saver);
/* Seconds that this rank was held since the last call. */
double saver_blocked(saver_t *saver);

/* Looks after the saves that are under way, without blocking. */
void saver_poll(saver_t *saver);
/* The step of the newest save that failed, as this rank knows it; 0: none
 * whose failure is still to be told. */
int64_t saver_failure(const saver_t *saver);
/* Collective. The lowest rank that knows why the save of `step` failed says
 * it; all take it as told. */
void saver_tell(saver_t *saver, lull_comm_t *other, int64_t step);
/* Whether any save of this run was committed; whether the last one failed. */
bool saver_ever_committed(const saver_t *saver);
bool saver_last_failed(const saver_t *saver);

/* What became of a save, on this rank. Times in seconds. */
typedef struct save_record {
    int64_t step;
    double blocked, snapshot, durable, committed; /* since save was called */
    double bytes;
    bool failed;
} save_record_t;
const save_record_t *saver_records(const saver_t *saver, size_t *count);

/* Waits for all saves and closes the engine. NULL is harmless. */
void saver_finish(saver_t *saver);
void saver_destroy(saver_t *saver);

#endif
