/* What the backends of the queue of writes share. */
#ifndef LULL__IO_QUEUE_BACKEND_H
#define LULL__IO_QUEUE_BACKEND_H

#include <pthread.h>

#include "queue.h"

typedef struct lull__io_queue_ops {
    const char *name;
    void (*wake)(lull__io_queue_t *queue);    /* a job came, or stop */
    void (*destroy)(lull__io_queue_t *queue); /* stop is set; frees it */
} lull__io_queue_ops_t;

/* The first member of each backend's structure. */
struct lull__io_queue {
    const lull__io_queue_ops_t *ops;
    lull__io_queue_options_t options;
    lull__io_queue_about_t about; /* of the backend's making, then constant */
    pthread_mutex_t lock;         /* guards all below */
    pthread_cond_t changed;
    lull__io_job_t *head, **tail;
    bool stop;
    double busy;
    double next_write; /* when the rate cap allows one again */
};

void lull__io_queue_init(lull__io_queue_t *queue,
                         const lull__io_queue_options_t *options,
                         const lull__io_queue_ops_t *ops);
void lull__io_queue_fini(lull__io_queue_t *queue);
/* NULL: none now; then *stopped tells whether there will be any. */
lull__io_job_t *lull__io_queue_pop(lull__io_queue_t *queue, bool *stopped);
void lull__io_queue_spent(lull__io_queue_t *queue, double seconds);

lull_status_t lull__io_queue_threads(const lull__io_queue_options_t *options,
                                     lull__io_queue_t **out);
/* LULL_ERR_UNSUPPORTED where it is not built in. */
lull_status_t lull__io_queue_uring(const lull__io_queue_options_t *options,
                                   lull__io_queue_t **out);

#endif
