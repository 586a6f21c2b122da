/* What a step did and cost over all ranks, and the file with a JSON object a
 * step that --metrics asks for. */
#ifndef TRAIN_METRICS_H
#define TRAIN_METRICS_H

#include <lull/comm.h>

#include "model.h"

/* Of one role: calls and bytes are sums over ranks, seconds the mean of a
 * rank. */
typedef struct role_sum {
    double calls, bytes, wire_bytes, seconds;
} role_sum_t;

typedef struct step_line {
    int64_t step; /* steps done, from 1 */
    step_result_t result;
    bool validated;
    double val_loss;
    double seconds;      /* of the step with its save, the slowest rank's */
    double blocked;      /* by checkpoints, the most held rank's */
    double bytes_learnt; /* tokens */
    double flops;
    role_sum_t roles[LULL_ROLE_COUNT];
} step_line_t;

/* Counters of this rank's communicators at the last look. */
typedef struct comm_watch {
    const lull_comm_t *comms[8];
    lull_comm_stats_t seen[8];
    int count;
    double *gathered; /* what each rank tells, in rank order */
} comm_watch_t;
lull_status_t comm_watch_start(comm_watch_t *watch, const groups_t *groups,
                               const lull_comm_t *own);
void comm_watch_stop(comm_watch_t *watch);

/* Collective. Adds up over ranks what happened since the last look: fills
 * line->roles, and makes seconds and blocked the largest of all ranks. */
lull_status_t step_line_sum(comm_watch_t *watch, lull_comm_t *other,
                            step_line_t *line);

/* One rank. Opens the file: anew, or, when `resumed_step` > 0, behind the
 * line of that step: later lines are of steps that were lost, and go. */
typedef struct metrics metrics_t;
lull_status_t metrics_open(const char *path, int64_t resumed_step,
                           metrics_t **out);
lull_status_t metrics_write(metrics_t *metrics, const step_line_t *line);
void metrics_close(metrics_t *metrics);

#endif
