/* Writes in flight, by threads. */
#include "queue.h"

#include <pthread.h>
#include <stdlib.h>

#include "base/error.h"

struct lull__io_queue {
    lull__io_queue_options_t options;
    pthread_mutex_t lock; /* guards all below */
    pthread_cond_t changed;
    lull__io_job_t *head, **tail;
    bool stop;
    double busy;
    double next_write; /* when the rate cap allows one again */
    unsigned started;
    pthread_t threads[];
};

/* With the lock held: NULL once stopped and empty. */
static lull__io_job_t *pop(lull__io_queue_t *queue) {
    while (queue->head == NULL && !queue->stop)
        pthread_cond_wait(&queue->changed, &queue->lock);
    lull__io_job_t *job = queue->head;
    if (job != NULL) {
        queue->head = job->next;
        if (queue->head == NULL)
            queue->tail = &queue->head;
    }
    return job;
}

/* With the lock held: books `bytes` at the capped rate and tells when they
 * may go. The cap is on the average, a job goes as a whole. */
static double book(lull__io_queue_t *queue, uint64_t bytes) {
    double now = lull__now(), start = queue->next_write;
    if (queue->options.write_cap == 0)
        return now;
    if (start < now)
        start = now;
    queue->next_write =
        start + (double)bytes / (double)queue->options.write_cap;
    return start;
}

static void *work(void *arg) {
    lull__io_queue_t *queue = arg;
    pthread_mutex_lock(&queue->lock);
    for (;;) {
        lull__io_job_t *job = pop(queue);
        if (job == NULL)
            break;
        double start = book(queue, job->bytes);
        bool stopping = queue->stop;
        pthread_mutex_unlock(&queue->lock);
        double now = lull__now();
        if (start > now && !stopping)
            lull__sleep(start - now);
        double from = lull__now();
        lull_status_t status =
            lull__file_write(job->file, job->data, job->bytes, job->offset);
        double spent = lull__now() - from;
        job->done(job, status);
        pthread_mutex_lock(&queue->lock);
        queue->busy += spent;
    }
    pthread_mutex_unlock(&queue->lock);
    return NULL;
}

lull_status_t lull__io_queue_create(const lull__io_queue_options_t *options,
                                    lull__io_queue_t **out) {
    lull__io_queue_t *queue =
        calloc(1, sizeof *queue + options->threads * sizeof(pthread_t));
    if (queue == NULL)
        return lull__fail(LULL_ERR_NO_MEMORY, "the queue of writes");
    queue->options = *options;
    queue->tail = &queue->head;
    pthread_mutex_init(&queue->lock, NULL);
    pthread_cond_init(&queue->changed, NULL);
    while (queue->started < options->threads) {
        lull_status_t status =
            lull__thread_start(&queue->threads[queue->started], "lull-flush",
                               &options->thread, work, queue);
        if (status != LULL_OK) {
            lull__io_queue_destroy(queue);
            return status;
        }
        queue->started++;
    }
    *out = queue;
    return LULL_OK;
}

void lull__io_queue_write(lull__io_queue_t *queue, lull__io_job_t *job) {
    job->next = NULL;
    pthread_mutex_lock(&queue->lock);
    *queue->tail = job;
    queue->tail = &job->next;
    pthread_cond_signal(&queue->changed);
    pthread_mutex_unlock(&queue->lock);
}

void lull__io_queue_destroy(lull__io_queue_t *queue) {
    if (queue == NULL)
        return;
    pthread_mutex_lock(&queue->lock);
    queue->stop = true;
    pthread_cond_broadcast(&queue->changed);
    pthread_mutex_unlock(&queue->lock);
    for (unsigned i = 0; i < queue->started; i++)
        pthread_join(queue->threads[i], NULL);
    pthread_cond_destroy(&queue->changed);
    pthread_mutex_destroy(&queue->lock);
    free(queue);
}

double lull__io_queue_busy(lull__io_queue_t *queue) {
    pthread_mutex_lock(&queue->lock);
    double busy = queue->busy;
    pthread_mutex_unlock(&queue->lock);
    return busy;
}
