/* The thread that deletes. See deleter.h. */
#include "deleter.h"

#include <stdlib.h>

#include "base/error.h"
#include "base/log.h"

/* So many wait at most: a disk must not fill with trash because deleting is
 * slower than saving. */
#define WAITING_MAX 4

struct lull__deleter {
    const lull__dir_t *dir;
    lull__thread_options_t how;
    pthread_t thread;
    bool started;         /* the caller's of add and destroy */
    pthread_mutex_t lock; /* guards all below */
    pthread_cond_t changed;
    lull__trash_t *head, **tail;
    unsigned count; /* of those that wait and the one at hand */
    bool stop;
};

void lull__trash_free(lull__trash_t *trash) {
    if (trash == NULL)
        return;
    (void)lull__file_close(&trash->manifest);
    lull__dir_close(&trash->dir);
    free(trash);
}

lull_status_t lull__trash_delete(const lull__dir_t *dir, lull__trash_t *trash) {
    lull_status_t status = lull__dir_remove_tree(dir, trash->name);
    lull__trash_free(trash);
    return status;
}

lull_status_t lull__deleter_create(const lull__dir_t *dir,
                                   const lull__thread_options_t *thread,
                                   lull__deleter_t **out) {
    lull__deleter_t *deleter = calloc(1, sizeof *deleter);
    if (deleter == NULL)
        return lull__fail(LULL_ERR_NO_MEMORY, "the list of trash");
    deleter->dir = dir;
    deleter->how = *thread;
    deleter->tail = &deleter->head;
    pthread_mutex_init(&deleter->lock, NULL);
    pthread_cond_init(&deleter->changed, NULL);
    *out = deleter;
    return LULL_OK;
}

/* With the lock held; NULL: stop. */
static lull__trash_t *next(lull__deleter_t *deleter) {
    while (deleter->head == NULL && !deleter->stop)
        pthread_cond_wait(&deleter->changed, &deleter->lock);
    lull__trash_t *trash = deleter->head;
    if (trash != NULL) {
        deleter->head = trash->next;
        if (deleter->head == NULL)
            deleter->tail = &deleter->head;
    }
    return trash;
}

static void *work(void *arg) {
    lull__deleter_t *deleter = arg;
    lull__trash_t *trash;
    pthread_mutex_lock(&deleter->lock);
    while ((trash = next(deleter)) != NULL) {
        pthread_mutex_unlock(&deleter->lock);
        if (lull__trash_delete(deleter->dir, trash) != LULL_OK)
            lull__log(LULL_LOG_WARN, "left for the next run to delete: %s",
                      lull_last_error());
        pthread_mutex_lock(&deleter->lock);
        deleter->count--;
        pthread_cond_broadcast(&deleter->changed);
    }
    pthread_mutex_unlock(&deleter->lock);
    return NULL;
}

bool lull__deleter_add(lull__deleter_t *deleter, lull__trash_t *trash) {
    if (deleter == NULL)
        return false;
    if (!deleter->started)
        deleter->started =
            lull__thread_start(&deleter->thread, "lull-delete", &deleter->how,
                               work, deleter) == LULL_OK;
    pthread_mutex_lock(&deleter->lock);
    bool takes = deleter->started && deleter->count < WAITING_MAX;
    if (takes) {
        trash->next = NULL;
        *deleter->tail = trash;
        deleter->tail = &trash->next;
        deleter->count++;
        pthread_cond_broadcast(&deleter->changed);
    }
    pthread_mutex_unlock(&deleter->lock);
    return takes;
}

void lull__deleter_wait(lull__deleter_t *deleter) {
    pthread_mutex_lock(&deleter->lock);
    while (deleter->count > 0)
        pthread_cond_wait(&deleter->changed, &deleter->lock);
    pthread_mutex_unlock(&deleter->lock);
}

void lull__deleter_destroy(lull__deleter_t *deleter) {
    if (deleter == NULL)
        return;
    pthread_mutex_lock(&deleter->lock);
    deleter->stop = true;
    pthread_cond_broadcast(&deleter->changed);
    pthread_mutex_unlock(&deleter->lock);
    if (deleter->started)
        pthread_join(deleter->thread, NULL);
    pthread_cond_destroy(&deleter->changed);
    pthread_mutex_destroy(&deleter->lock);
    free(deleter);
}
