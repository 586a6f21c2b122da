/* Writes in flight, by io_uring: one thread that submits and reaps, as many
 * writes at once as the queue is deep, from registered buffers where the
 * kernel lets us. */
#include "queue_backend.h"

#ifdef LULL_HAVE_URING

#include <errno.h>
#include <liburing.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/error.h"

/* One registered buffer is at most 1 GiB. */
#define BUFFER_MAX ((uint64_t)1 << 30)
#define BUFFERS_MAX 1024
#define MOST_AT_ONCE ((uint64_t)1 << 30)

/* A write in flight. */
typedef struct flight {
    lull__io_job_t *job; /* NULL: free */
    uint64_t done;       /* bytes of it */
    double from;
} flight_t;

typedef struct uring {
    lull__io_queue_t base; /* first */
    struct io_uring ring;
    int wake; /* eventfd: jobs are waiting, or stop */
    uint64_t woken;
    unsigned depth, in_flight;
    unsigned buffers; /* registered pieces of the staging buffer */
    flight_t *flights;
    pthread_t thread;
} uring_t;

static void prepare(uring_t *uring, unsigned i) {
    flight_t *flight = &uring->flights[i];
    const lull__io_job_t *job = flight->job;
    const char *data = (const char *)job->data + flight->done;
    uint64_t bytes = job->bytes - flight->done;
    uint64_t at = (uint64_t)(data - (const char *)uring->base.options.buffer);
    struct io_uring_sqe *sqe = io_uring_get_sqe(&uring->ring);
    if (bytes > MOST_AT_ONCE)
        bytes = MOST_AT_ONCE;
    uint64_t offset = job->offset + flight->done;
    /* A slot never crosses a piece: both are powers of two, aligned. */
    if (uring->buffers > 0 && at < uring->base.options.buffer_bytes)
        io_uring_prep_write_fixed(sqe, job->file->fd, data, (unsigned)bytes,
                                  offset, (int)(at / BUFFER_MAX));
    else
        io_uring_prep_write(sqe, job->file->fd, data, (unsigned)bytes, offset);
    io_uring_sqe_set_data64(sqe, i);
}

static void finish(uring_t *uring, unsigned i, lull_status_t status) {
    flight_t *flight = &uring->flights[i];
    lull__io_job_t *job = flight->job;
    double spent = lull__now() - flight->from;
    flight->job = NULL;
    uring->in_flight--;
    lull__io_queue_spent(&uring->base, spent);
    job->done(job, status);
}

static void completed(uring_t *uring, unsigned i, int result) {
    flight_t *flight = &uring->flights[i];
    const lull__file_t *file = flight->job->file;
    if (result == 0)
        result = -EIO; /* no progress and no reason: do not spin */
    if (result < 0 && result != -EINTR && result != -EAGAIN) {
        finish(uring, i,
               lull__fail_errno(-result, "%s/%s: writing failed",
                                file->dir->path, file->name));
        return;
    }
    if (result > 0)
        flight->done += (uint64_t)result;
    if (flight->done < flight->job->bytes)
        prepare(uring, i); /* short or interrupted: the rest */
    else
        finish(uring, i, LULL_OK);
}

static void await_wake(uring_t *uring) {
    struct io_uring_sqe *sqe = io_uring_get_sqe(&uring->ring);
    io_uring_prep_read(sqe, uring->wake, &uring->woken, sizeof uring->woken, 0);
    io_uring_sqe_set_data64(sqe, uring->depth);
}

/* Fills free flights with waiting jobs; false: stopped, and all is done. */
static bool take_jobs(uring_t *uring) {
    bool stopped = false;
    for (unsigned i = 0; i < uring->depth; i++) {
        flight_t *flight = &uring->flights[i];
        if (flight->job != NULL)
            continue;
        flight->job = lull__io_queue_pop(&uring->base, &stopped);
        if (flight->job == NULL)
            break;
        flight->done = 0;
        flight->from = lull__now();
        uring->in_flight++;
        prepare(uring, i);
    }
    return !stopped || uring->in_flight > 0;
}

/* The ring itself broke: no write may be lost silently. */
static void fail_all(uring_t *uring, int error) {
    for (unsigned i = 0; i < uring->depth; i++)
        if (uring->flights[i].job != NULL)
            finish(uring, i, lull__fail_errno(error, "io_uring failed"));
}

static void reap(uring_t *uring) {
    struct io_uring_cqe *cqe;
    while (io_uring_peek_cqe(&uring->ring, &cqe) == 0) {
        unsigned i = (unsigned)io_uring_cqe_get_data64(cqe);
        int result = cqe->res;
        io_uring_cqe_seen(&uring->ring, cqe);
        if (i == uring->depth)
            await_wake(uring);
        else if (uring->flights[i].job != NULL) /* else failed by fail_all() */
            completed(uring, i, result);
    }
}

static void *work(void *arg) {
    uring_t *uring = arg;
    await_wake(uring);
    while (take_jobs(uring)) {
        int rc = io_uring_submit_and_wait(&uring->ring, 1);
        if (rc < 0 && rc != -EINTR && rc != -EAGAIN && rc != -EBUSY)
            fail_all(uring, -rc);
        reap(uring);
    }
    return NULL;
}

static void wake(lull__io_queue_t *queue) {
    uring_t *uring = (uring_t *)queue;
    uint64_t one = 1;
    while (write(uring->wake, &one, sizeof one) < 0 && errno == EINTR)
        continue;
}

/* Best effort: without them the kernel maps pages for each write. */
static void register_buffers(uring_t *uring) {
    struct iovec pieces[BUFFERS_MAX];
    char *data = uring->base.options.buffer;
    uint64_t left = uring->base.options.buffer_bytes;
    unsigned n = 0;
    while (left > 0 && n < BUFFERS_MAX) {
        uint64_t bytes = left < BUFFER_MAX ? left : BUFFER_MAX;
        pieces[n++] = (struct iovec){data, bytes};
        data += bytes;
        left -= bytes;
    }
    if (n == 0 || left > 0)
        return;
    int rc = io_uring_register_buffers(&uring->ring, pieces, n);
    if (rc == 0)
        uring->buffers = n;
    else
        snprintf(uring->base.about.why, sizeof uring->base.about.why,
                 "buffers are not registered: %s%s", strerrordesc_np(-rc),
                 rc == -ENOMEM ? " (see ulimit -l)" : "");
    uring->base.about.registered = rc == 0;
}

static void destroy(lull__io_queue_t *queue) {
    uring_t *uring = (uring_t *)queue;
    wake(queue);
    pthread_join(uring->thread, NULL);
    io_uring_queue_exit(&uring->ring);
    close(uring->wake);
    free(uring->flights);
    lull__io_queue_fini(queue);
    free(uring);
}

static const lull__io_queue_ops_t ops = {"io_uring", wake, destroy};

lull_status_t lull__io_queue_uring(const lull__io_queue_options_t *options,
                                   lull__io_queue_t **out) {
    uring_t *uring = calloc(1, sizeof *uring);
    if (uring == NULL)
        return lull__fail(LULL_ERR_NO_MEMORY, "the queue of writes");
    lull_status_t status = LULL_OK;
    uring->depth = options->threads;
    uring->flights = calloc(uring->depth, sizeof *uring->flights);
    uring->wake = eventfd(0, EFD_CLOEXEC);
    int rc = uring->flights == NULL ? -ENOMEM : uring->wake < 0 ? -errno : 0;
    if (rc == 0)
        rc = io_uring_queue_init(2 * uring->depth + 2, &uring->ring, 0);
    if (rc < 0) {
        status = lull__fail_errno(-rc, "io_uring is not to be had");
        goto free_uring;
    }
    lull__io_queue_init(&uring->base, options, &ops);
    register_buffers(uring);
    status = lull__thread_start(&uring->thread, "lull-flush", &options->thread,
                                work, uring);
    if (status != LULL_OK)
        goto exit_ring;
    *out = &uring->base;
    return LULL_OK;

exit_ring:
    io_uring_queue_exit(&uring->ring);
    lull__io_queue_fini(&uring->base);
free_uring:
    if (uring->wake >= 0)
        close(uring->wake);
    free(uring->flights);
    free(uring);
    return status;
}

#else

#include "base/error.h"

lull_status_t lull__io_queue_uring(const lull__io_queue_options_t *options,
                                   lull__io_queue_t **out) {
    (void)options, (void)out;
    return lull__fail(LULL_ERR_UNSUPPORTED, "lull was built without io_uring");
}

#endif
