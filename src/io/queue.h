/* Writes in flight: jobs are queued and done in the background, in any
 * order, by io_uring where it is to be had, else by threads. */
#ifndef LULL__IO_QUEUE_H
#define LULL__IO_QUEUE_H

#include "base/thread.h"
#include "file.h"

typedef struct lull__io_job lull__io_job_t;

/* One write; owned by the caller until `done` is called, from a thread of the
 * queue, with the status of all its bytes and, as that thread's sentence, the
 * reason. `done` may free or queue the job again. */
struct lull__io_job {
    const lull__file_t *file;
    const void *data;
    uint64_t bytes, offset;
    void (*done)(lull__io_job_t *job, lull_status_t status);
    lull__io_job_t *next; /* the queue's */
};

typedef struct lull__io_queue lull__io_queue_t;

typedef struct lull__io_queue_options {
    const lull__io_t *io;
    unsigned threads;   /* writes in flight */
    uint64_t write_cap; /* bytes a second; 0: none */
    lull__thread_options_t thread;
    void *buffer; /* where most data will lie; NULL: anywhere */
    uint64_t buffer_bytes;
} lull__io_queue_options_t;

/* Chooses the backend by the setting "io"; what it is and why is logged. */
lull_status_t lull__io_queue_create(const lull__io_queue_options_t *options,
                                    lull__io_queue_t **out);
/* Never blocks. Any thread. */
void lull__io_queue_write(lull__io_queue_t *queue, lull__io_job_t *job);
/* Does what is still queued, then stops. NULL is harmless. */
void lull__io_queue_destroy(lull__io_queue_t *queue);
/* Counts bytes against the cap and tells when, by lull__now(), they may be
 * written: for writes that go another way. */
double lull__io_queue_book(lull__io_queue_t *queue, uint64_t bytes);
/* Seconds spent in writes, summed over those in flight. */
double lull__io_queue_busy(lull__io_queue_t *queue);
/* What was chosen, and why nothing faster. */
typedef struct lull__io_queue_about {
    const char *backend; /* "io_uring" or "threads" */
    bool registered;     /* the buffer is */
    char why[256];       /* "": all that there is */
} lull__io_queue_about_t;
const lull__io_queue_about_t *
lull__io_queue_about(const lull__io_queue_t *queue);

#endif
