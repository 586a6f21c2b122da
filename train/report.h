/* What a person sees: a progress line every two seconds, a table at the
 * end. All on stderr; stdout is for the sample. */
#ifndef TRAIN_REPORT_H
#define TRAIN_REPORT_H

#include "metrics.h"
#include "saver.h"

typedef struct report {
    int64_t first, last;  /* steps done before the run, and at its end */
    double shown;         /* when the last line was written */
    double begun;         /* when training began */
    double learnt, spent; /* bytes and seconds since the last line */
    double given, wire;   /* ... bytes of communication */
    double blocked;       /* ... seconds */
    role_sum_t roles[LULL_ROLE_COUNT]; /* since the beginning */
    double steps_seconds, all_blocked;
    int64_t steps;
} report_t;

void report_start(report_t *report, int64_t first, int64_t last);
/* Rank 0 counts a step, and writes a line when it is time. */
void report_step(report_t *report, const step_line_t *line);

/* Collective: the table, by rank 0. */
lull_status_t report_table(const report_t *report, const saver_t *saver,
                           lull_comm_t *other);

#endif
