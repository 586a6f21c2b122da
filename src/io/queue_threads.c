/* Writes in flight, by threads that call the table's write. */
#include <stdlib.h>

#include "base/error.h"
#include "queue_backend.h"

typedef struct threads {
    lull__io_queue_t base; /* first */
    unsigned started;
    pthread_t threads[];
} threads_t;

static void do_job(lull__io_queue_t *queue, lull__io_job_t *job) {
    double start = lull__io_queue_book(queue, job->bytes), from = lull__now();
    pthread_mutex_lock(&queue->lock);
    bool stopping = queue->stop;
    pthread_mutex_unlock(&queue->lock);
    if (start > from && !stopping)
        lull__sleep(start - from);
    from = lull__now();
    lull_status_t status =
        lull__file_write(job->file, job->data, job->bytes, job->offset);
    lull__io_queue_spent(queue, lull__now() - from);
    job->done(job, status);
}

static void *work(void *arg) {
    lull__io_queue_t *queue = arg;
    bool stopped = false;
    while (!stopped) {
        lull__io_job_t *job = lull__io_queue_pop(queue, &stopped);
        if (job != NULL) {
            do_job(queue, job);
            continue;
        }
        pthread_mutex_lock(&queue->lock);
        while (queue->head == NULL && !queue->stop)
            pthread_cond_wait(&queue->changed, &queue->lock);
        pthread_mutex_unlock(&queue->lock);
    }
    return NULL;
}

static void wake(lull__io_queue_t *queue) {
    pthread_mutex_lock(&queue->lock);
    pthread_cond_signal(&queue->changed);
    pthread_mutex_unlock(&queue->lock);
}

static void destroy(lull__io_queue_t *queue) {
    threads_t *threads = (threads_t *)queue;
    pthread_mutex_lock(&queue->lock);
    queue->stop = true;
    pthread_cond_broadcast(&queue->changed);
    pthread_mutex_unlock(&queue->lock);
    for (unsigned i = 0; i < threads->started; i++)
        pthread_join(threads->threads[i], NULL);
    lull__io_queue_fini(queue);
    free(threads);
}

static const lull__io_queue_ops_t ops = {"threads", wake, destroy};

lull_status_t lull__io_queue_threads(const lull__io_queue_options_t *options,
                                     lull__io_queue_t **out) {
    threads_t *threads =
        calloc(1, sizeof *threads + options->threads * sizeof(pthread_t));
    if (threads == NULL)
        return lull__fail(LULL_ERR_NO_MEMORY, "the queue of writes");
    lull__io_queue_init(&threads->base, options, &ops);
    while (threads->started < options->threads) {
        lull_status_t status =
            lull__thread_start(&threads->threads[threads->started],
                               "lull-flush", &options->thread, work, threads);
        if (status != LULL_OK) {
            destroy(&threads->base);
            return status;
        }
        threads->started++;
    }
    *out = &threads->base;
    return LULL_OK;
}
