/* One run of lull-train: what all its parts share. */
#ifndef TRAIN_RUN_H
#define TRAIN_RUN_H

#include "dump.h"
#include "identity.h"
#include "metrics.h"
#include "model.h"
#include "options.h"
#include "report.h"
#include "resume.h"
#include "saver.h"
#include "trace.h"

typedef struct run {
    options_t options; /* checked */
    options_t asked;   /* as given or adopted: what a checkpoint keeps */
    lull_comm_t *other;
    groups_t groups;
    bool grouped;
    data_t *data;
    model_t *model;
    resume_t resume;
    saver_t *saver;
    trace_t *trace;
    metrics_t *metrics; /* rank 0 */
    comm_watch_t watch;
    report_t report;
    run_state_t state;
    dump_t *activations;   /* in the step that is dumped */
    int64_t first, last;   /* steps done at the beginning and at the end */
    lull_status_t trouble; /* of this rank, to be agreed on after a step */
    int signal;            /* that ended the loop, agreed; 0: none */
} run_t;

/* Collective. Trains from state.step to last. False: a failure, which one rank
 * has told. */
bool run_loop(run_t *run);

#endif
