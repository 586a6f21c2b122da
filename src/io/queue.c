/* The queue of writes: what backends share, and the choice of one. */
#include "queue.h"

#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/log.h"
#include "base/settings.h"
#include "queue_backend.h"

void lull__io_queue_init(lull__io_queue_t *queue,
                         const lull__io_queue_options_t *options,
                         const lull__io_queue_ops_t *ops) {
    queue->ops = ops;
    queue->options = *options;
    queue->about = (lull__io_queue_about_t){.backend = ops->name};
    queue->tail = &queue->head;
    pthread_mutex_init(&queue->lock, NULL);
    pthread_cond_init(&queue->changed, NULL);
}

void lull__io_queue_fini(lull__io_queue_t *queue) {
    pthread_cond_destroy(&queue->changed);
    pthread_mutex_destroy(&queue->lock);
}

lull__io_job_t *lull__io_queue_pop(lull__io_queue_t *queue, bool *stopped) {
    pthread_mutex_lock(&queue->lock);
    lull__io_job_t *job = queue->head;
    if (job != NULL) {
        queue->head = job->next;
        if (queue->head == NULL)
            queue->tail = &queue->head;
    }
    *stopped = job == NULL && queue->stop;
    pthread_mutex_unlock(&queue->lock);
    return job;
}

void lull__io_queue_spent(lull__io_queue_t *queue, double seconds) {
    pthread_mutex_lock(&queue->lock);
    queue->busy += seconds;
    pthread_mutex_unlock(&queue->lock);
}

/* The cap is on the average, a job goes as a whole. */
double lull__io_queue_book(lull__io_queue_t *queue, uint64_t bytes) {
    pthread_mutex_lock(&queue->lock);
    double start = lull__now();
    if (queue->options.write_cap != 0) {
        if (start < queue->next_write)
            start = queue->next_write;
        queue->next_write =
            start + (double)bytes / (double)queue->options.write_cap;
    }
    pthread_mutex_unlock(&queue->lock);
    return start;
}

void lull__io_queue_write(lull__io_queue_t *queue, lull__io_job_t *job) {
    job->next = NULL;
    pthread_mutex_lock(&queue->lock);
    *queue->tail = job;
    queue->tail = &job->next;
    pthread_mutex_unlock(&queue->lock);
    queue->ops->wake(queue);
}

void lull__io_queue_destroy(lull__io_queue_t *queue) {
    if (queue == NULL)
        return;
    pthread_mutex_lock(&queue->lock);
    queue->stop = true;
    pthread_mutex_unlock(&queue->lock);
    queue->ops->destroy(queue);
}

double lull__io_queue_busy(lull__io_queue_t *queue) {
    pthread_mutex_lock(&queue->lock);
    double busy = queue->busy;
    pthread_mutex_unlock(&queue->lock);
    return busy;
}

const lull__io_queue_about_t *
lull__io_queue_about(const lull__io_queue_t *queue) {
    return &queue->about;
}

/* By preference; the last one takes what no other does. */
static const struct {
    const char *name; /* in the setting "io" */
    lull_status_t (*create)(const lull__io_queue_options_t *options,
                            lull__io_queue_t **out);
} backends[] = {
    {"uring", lull__io_queue_uring},
    {"threads", lull__io_queue_threads},
};
enum { LAST = sizeof backends / sizeof *backends - 1 };

/* Why only the last one will do; NULL: let us try the others. */
static const char *reason(const lull__io_queue_options_t *options,
                          const char *setting) {
    if (strcmp(setting, backends[LAST].name) == 0)
        return "the setting says so";
    if (options->io != &lull__io_system)
        return "storage calls go through a table of the caller";
    if (options->write_cap != 0)
        return "the rate of writing is capped";
    return NULL;
}

static void tell(const lull__io_queue_t *queue, bool disappointed) {
    const lull__io_queue_about_t *about = &queue->about;
    lull__log(disappointed ? LULL_LOG_WARN : LULL_LOG_INFO,
              "checkpoints are written by %s%s%s%s", about->backend,
              about->registered ? ", from registered buffers" : "",
              about->why[0] != '\0' ? ": " : "", about->why);
}

lull_status_t lull__io_queue_create(const lull__io_queue_options_t *options,
                                    lull__io_queue_t **out) {
    const char *setting = lull__setting(LULL__SETTING_IO);
    bool any = strcmp(setting, "auto") == 0;
    const char *why = reason(options, setting);
    lull__io_queue_t *queue;
    bool try = why == NULL;
    lull_status_t status = LULL_ERR_UNSUPPORTED;
    for (unsigned i = 0; try && status != LULL_OK && i < LAST; i++) {
        if (!any && strcmp(setting, backends[i].name) != 0)
            continue;
        status = backends[i].create(options, &queue);
        if (status == LULL_ERR_NO_MEMORY)
            return status;
        why = lull_last_error();
    }
    bool asked = !any && strcmp(setting, backends[LAST].name) != 0;
    bool other = status != LULL_OK;
    if (other) {
        status = backends[LAST].create(options, &queue);
        if (status != LULL_OK)
            return status;
        snprintf(queue->about.why, sizeof queue->about.why, "%s",
                 why != NULL ? why : "no other way is left");
    }
    tell(queue, asked && other);
    *out = queue;
    return LULL_OK;
}
