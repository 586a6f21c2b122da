/* The trace: spans kept in memory, gathered and written at the end. */
#include "trace.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agree.h"

enum { SPANS_MOST = 200000, DEPTH_MOST = 8, TAG = 77 };

/* Lanes in the order in which a person wants to see them. */
static const char *const lanes[] = {
    "forward",  "backward", "optimizer",  "tp",      "pp",
    "dp",       "param",    "other",      "blocked", "staging",
    "flushing", "commit",   "validation",
};
enum { LANE_COUNT = sizeof lanes / sizeof lanes[0] };

typedef struct open_spans {
    int depth;
    span_t spans[DEPTH_MOST];
} open_spans_t;

struct trace {
    FILE *file; /* rank 0 */
    const char *path;
    double zero; /* this rank's clock when all met */
    span_t *spans;
    size_t count, capacity, lost;
    open_spans_t open[LANE_COUNT];
};

static int lane_of(const char *name) {
    for (int i = 0; i < LANE_COUNT; ++i) {
        if (strcmp(lanes[i], name) == 0)
            return i;
    }
    return -1;
}

lull_status_t trace_open(const char *path, lull_comm_t *other, trace_t **out) {
    trace_t *trace = calloc(1, sizeof *trace);
    lull_status_t status = LULL_OK;
    if (trace == NULL)
        status = train_fail(LULL_ERR_NO_MEMORY, "--trace: out of memory");
    else if (lull_comm_rank(other) == 0) {
        trace->file = fopen(path, "w");
        if (trace->file == NULL)
            status =
                train_fail(LULL_ERR_IO, "--trace %s: cannot be written: %s",
                           path, strerror(errno));
    }
    lull_status_t met = lull_barrier(other);
    if (status == LULL_OK)
        status = train_wrap(met, "--trace");
    if (status != LULL_OK) {
        trace_close(trace);
        return status;
    }
    trace->path = path;
    trace->zero = train_now();
    *out = trace;
    return LULL_OK;
}

void trace_close(trace_t *trace) {
    if (trace == NULL)
        return;
    if (trace->file != NULL)
        fclose(trace->file);
    free(trace->spans);
    free(trace);
}

void trace_add(trace_t *trace, const span_t *span) {
    if (trace == NULL)
        return;
    if (trace->count == trace->capacity) {
        size_t wanted = trace->capacity > 0 ? 2 * trace->capacity : 1024;
        span_t *grown = trace->capacity < SPANS_MOST
                            ? realloc(trace->spans, wanted * sizeof *grown)
                            : NULL;
        if (grown == NULL) {
            ++trace->lost;
            return;
        }
        trace->spans = grown;
        trace->capacity = wanted;
    }
    trace->spans[trace->count++] = *span;
}

void trace_begin(trace_t *trace, const char *lane, const char *name) {
    int index = trace != NULL ? lane_of(lane) : -1;
    if (index < 0)
        return;
    open_spans_t *open = &trace->open[index];
    if (open->depth < DEPTH_MOST) {
        span_t *span = &open->spans[open->depth];
        snprintf(span->lane, sizeof span->lane, "%s", lane);
        snprintf(span->name, sizeof span->name, "%s", name);
        span->begin = train_now();
    }
    ++open->depth;
}

void trace_end(trace_t *trace, const char *lane) {
    int index = trace != NULL ? lane_of(lane) : -1;
    if (index < 0 || trace->open[index].depth == 0)
        return;
    open_spans_t *open = &trace->open[index];
    if (--open->depth < DEPTH_MOST) {
        open->spans[open->depth].end = train_now();
        trace_add(trace, &open->spans[open->depth]);
    }
}

static void write_names(FILE *file, int rank) {
    fprintf(file,
            "{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":%d,"
            "\"args\":{\"name\":\"rank %d\"}},\n",
            rank, rank);
    for (int i = 0; i < LANE_COUNT; ++i)
        fprintf(file,
                "{\"ph\":\"M\",\"name\":\"thread_name\",\"pid\":%d,\"tid\":%d,"
                "\"args\":{\"name\":\"%s\"}},\n"
                "{\"ph\":\"M\",\"name\":\"thread_sort_index\",\"pid\":%d,"
                "\"tid\":%d,\"args\":{\"sort_index\":%d}},\n",
                rank, i, lanes[i], rank, i, i);
}

static void write_spans(FILE *file, int rank, const span_t *spans,
                        size_t count) {
    write_names(file, rank);
    for (size_t i = 0; i < count; ++i)
        fprintf(file,
                "{\"ph\":\"X\",\"name\":\"%s\",\"cat\":\"%s\",\"pid\":%d,"
                "\"tid\":%d,\"ts\":%.3f,\"dur\":%.3f},\n",
                spans[i].name, spans[i].lane, rank, lane_of(spans[i].lane),
                1e6 * spans[i].begin, 1e6 * (spans[i].end - spans[i].begin));
}

/* Rank 0: receives one rank's spans and writes them. */
static lull_status_t take(trace_t *trace, int rank, lull_comm_t *other) {
    uint64_t bytes = 0;
    lull_status_t status =
        lull_recv(&bytes, sizeof bytes, LULL_U8, rank, TAG, other);
    if (status != LULL_OK)
        return train_wrap(status, "--trace");
    span_t *spans = malloc(bytes + 1);
    if (spans == NULL)
        return train_fail(LULL_ERR_NO_MEMORY,
                          "--trace: no memory for %llu bytes of rank %d",
                          (unsigned long long)bytes, rank);
    status = lull_recv(spans, bytes, LULL_U8, rank, TAG, other);
    if (status == LULL_OK)
        write_spans(trace->file, rank, spans, bytes / sizeof *spans);
    free(spans);
    return train_wrap(status, "--trace");
}

static lull_status_t give(const trace_t *trace, lull_comm_t *other) {
    uint64_t bytes = trace->count * sizeof(span_t);
    lull_status_t status =
        lull_send(&bytes, sizeof bytes, LULL_U8, 0, TAG, other);
    if (status == LULL_OK)
        status = lull_send(trace->spans, bytes, LULL_U8, 0, TAG, other);
    return train_wrap(status, "--trace");
}

static lull_status_t finish(trace_t *trace) {
    fprintf(trace->file,
            "{\"ph\":\"M\",\"name\":\"process_sort_index\",\"pid\":0,"
            "\"args\":{\"sort_index\":0}}\n],\n\"displayTimeUnit\":\"ms\",\n"
            "\"otherData\":{\"spans_not_kept_by_rank_0\":%zu}}\n",
            trace->lost);
    int failed = ferror(trace->file);
    failed |= fclose(trace->file);
    trace->file = NULL;
    if (failed)
        return train_fail(LULL_ERR_IO, "--trace %s: write failed: %s",
                          trace->path, strerror(errno));
    return LULL_OK;
}

lull_status_t trace_write(trace_t *trace, lull_comm_t *other) {
    for (size_t i = 0; i < trace->count; ++i) {
        trace->spans[i].begin -= trace->zero;
        trace->spans[i].end -= trace->zero;
    }
    if (lull_comm_rank(other) != 0)
        return give(trace, other);
    fprintf(trace->file, "{\"traceEvents\":[\n");
    write_spans(trace->file, 0, trace->spans, trace->count);
    lull_status_t status = LULL_OK;
    for (int rank = 1; rank < lull_comm_size(other) && status == LULL_OK;
         ++rank)
        status = take(trace, rank, other);
    return status == LULL_OK ? finish(trace) : status;
}
