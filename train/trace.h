/* Spans of every rank, written as one Chrome trace (JSON, "X" events), which
 * Perfetto and chrome://tracing open: a process a rank, a thread a lane. */
#ifndef TRAIN_TRACE_H
#define TRAIN_TRACE_H

#include <lull/comm.h>
#include <lull/status.h>

typedef struct trace trace_t;

/* Collective: ranks' clocks are aligned here, so that spans of different
 * hosts compare. Rank 0 makes the file at once, so that a path that cannot be
 * written fails before the training. */
lull_status_t trace_open(const char *path, lull_comm_t *other, trace_t **out);
void trace_close(trace_t *trace);

/* Spans nest within a lane. NULL is harmless: no trace is asked for. Past
 * about 200,000 spans of a rank the rest is counted, not kept. */
void trace_begin(trace_t *trace, const char *lane, const char *name);
void trace_end(trace_t *trace, const char *lane);
/* A span whose times are known: seconds of CLOCK_MONOTONIC. */
typedef struct span {
    double begin, end;
    char lane[12], name[20];
} span_t;
void trace_add(trace_t *trace, const span_t *span);

/* Collective: rank 0 gathers and writes all spans. */
lull_status_t trace_write(trace_t *trace, lull_comm_t *other);

#endif
