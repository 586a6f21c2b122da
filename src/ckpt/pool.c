/* A few threads for many tasks. */
#include "pool.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/thread.h"
#include "names.h"

#define LOOK_EVERY_MS 100

typedef struct run {
    const lull__pool_t *pool;
    pthread_mutex_t lock;
    pthread_cond_t ended; /* a worker has */
    size_t next;          /* under the lock, as all below */
    unsigned active;
    lull_status_t status;
    char sentence[LULL__SENTENCE_MAX];
} run_t;

typedef struct worker {
    run_t *run;
    unsigned number;
    pthread_t thread;
} worker_t;

static void note(run_t *run, lull_status_t status) {
    pthread_mutex_lock(&run->lock);
    if (run->status == LULL_OK && status != LULL_OK) {
        run->status = status;
        lull__text_copy(run->sentence, sizeof run->sentence, lull_last_error());
    }
    pthread_mutex_unlock(&run->lock);
}

static size_t take(run_t *run) {
    pthread_mutex_lock(&run->lock);
    size_t task = SIZE_MAX;
    if (run->status == LULL_OK && run->next < run->pool->tasks)
        task = run->next++;
    pthread_mutex_unlock(&run->lock);
    return task;
}

static void work(run_t *run, unsigned number) {
    for (;;) {
        size_t task = take(run);
        if (task == SIZE_MAX)
            return;
        lull_status_t status = run->pool->fn(run->pool->ctx, number, task);
        if (status != LULL_OK)
            note(run, status);
    }
}

static void *thread_main(void *arg) {
    worker_t *worker = arg;
    run_t *run = worker->run;
    work(run, worker->number);
    pthread_mutex_lock(&run->lock);
    run->active--;
    pthread_cond_signal(&run->ended);
    pthread_mutex_unlock(&run->lock);
    return NULL;
}

static void show(run_t *run) {
    const lull__pool_t *pool = run->pool;
    if (pool->progress == NULL)
        return;
    uint64_t done = __atomic_load_n(pool->done, __ATOMIC_RELAXED);
    if (!pool->progress(pool->progress_ctx, done, pool->total)) {
        lull__fail(LULL_ERR_CANCELLED, "reading was cancelled");
        note(run, LULL_ERR_CANCELLED);
    }
}

static void wait_for_all(run_t *run) {
    pthread_mutex_lock(&run->lock);
    while (run->active > 0) {
        if (lull__cond_wait_until(&run->ended, &run->lock,
                                  lull__deadline_ms(LOOK_EVERY_MS)))
            continue;
        pthread_mutex_unlock(&run->lock);
        show(run);
        pthread_mutex_lock(&run->lock);
    }
    pthread_mutex_unlock(&run->lock);
}

/* How many threads could be started; the caller does without the others. */
static unsigned start(run_t *run, worker_t *workers, unsigned wanted) {
    static const lull__thread_options_t plain = {0};
    unsigned started = 0;
    while (started < wanted) {
        worker_t *worker = &workers[started];
        *worker = (worker_t){.run = run, .number = started};
        pthread_mutex_lock(&run->lock);
        run->active++;
        pthread_mutex_unlock(&run->lock);
        if (lull__thread_start(&worker->thread, "lull-read", &plain,
                               thread_main, worker) != LULL_OK) {
            pthread_mutex_lock(&run->lock);
            run->active--;
            pthread_mutex_unlock(&run->lock);
            break;
        }
        started++;
    }
    return started;
}

lull_status_t lull__pool_run(const lull__pool_t *pool) {
    run_t run = {.pool = pool, .lock = PTHREAD_MUTEX_INITIALIZER};
    unsigned wanted =
        pool->threads < pool->tasks ? pool->threads : (unsigned)pool->tasks;
    worker_t *workers = calloc(wanted > 0 ? wanted : 1, sizeof *workers);
    if (workers == NULL)
        return lull__fail(LULL_ERR_NO_MEMORY, "%u reading threads", wanted);
    if (lull__cond_init(&run.ended) != 0) {
        free(workers);
        return lull__fail(LULL_ERR_INTERNAL, "no condition variable");
    }
    unsigned started = start(&run, workers, wanted);
    if (started == 0)
        work(&run, 0);
    wait_for_all(&run);
    for (unsigned i = 0; i < started; i++)
        pthread_join(workers[i].thread, NULL);
    if (run.status == LULL_OK)
        show(&run);
    pthread_cond_destroy(&run.ended);
    free(workers);
    if (run.status != LULL_OK && run.sentence[0] != '\0')
        lull__error_set(run.sentence);
    return run.status;
}
