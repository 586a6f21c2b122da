/* A thread that runs operations in order, from a ring of fixed size. */
#include "lane.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define ROOM 256

typedef struct operation {
    void (*fn)(void *arg);
    _Alignas(16) unsigned char arg[LULL__LANE_ARG];
} operation_t;

struct lull__lane {
    pthread_t thread;
    pthread_mutex_t lock; /* guards all below */
    pthread_cond_t changed;
    operation_t ring[ROOM]; /* operation n: n % ROOM */
    uint64_t issued, done;
    bool stop;
    unsigned refs;
};

static void *run(void *arg) {
    lull__lane_t *lane = arg;
    pthread_mutex_lock(&lane->lock);
    for (;;) {
        while (lane->done == lane->issued && !lane->stop)
            pthread_cond_wait(&lane->changed, &lane->lock);
        if (lane->done == lane->issued)
            break;
        operation_t *operation = &lane->ring[(lane->done + 1) % ROOM];
        pthread_mutex_unlock(&lane->lock);
        operation->fn(operation->arg);
        pthread_mutex_lock(&lane->lock);
        lane->done++;
        pthread_cond_broadcast(&lane->changed);
    }
    pthread_mutex_unlock(&lane->lock);
    return NULL;
}

int lull__lane_create(lull__lane_t **out) {
    lull__lane_t *lane = calloc(1, sizeof *lane);
    if (lane == NULL)
        return ENOMEM;
    pthread_mutex_init(&lane->lock, NULL);
    pthread_cond_init(&lane->changed, NULL);
    lane->refs = 1;
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int rc = pthread_create(&lane->thread, NULL, run, lane);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (rc != 0) {
        lull__lane_unref(lane);
        return rc;
    }
    *out = lane;
    return 0;
}

void lull__lane_end(lull__lane_t *lane) {
    pthread_mutex_lock(&lane->lock);
    lane->stop = true;
    pthread_cond_broadcast(&lane->changed);
    pthread_mutex_unlock(&lane->lock);
    pthread_join(lane->thread, NULL);
    lull__lane_unref(lane);
}

void lull__lane_ref(lull__lane_t *lane) {
    pthread_mutex_lock(&lane->lock);
    lane->refs++;
    pthread_mutex_unlock(&lane->lock);
}

void lull__lane_unref(lull__lane_t *lane) {
    pthread_mutex_lock(&lane->lock);
    bool last = --lane->refs == 0;
    pthread_mutex_unlock(&lane->lock);
    if (!last)
        return;
    pthread_cond_destroy(&lane->changed);
    pthread_mutex_destroy(&lane->lock);
    free(lane);
}

uint64_t lull__lane_push(lull__lane_t *lane, void (*fn)(void *arg),
                         const void *arg, size_t bytes) {
    assert(bytes <= LULL__LANE_ARG);
    pthread_mutex_lock(&lane->lock);
    while (lane->issued - lane->done == ROOM)
        pthread_cond_wait(&lane->changed, &lane->lock);
    uint64_t number = ++lane->issued;
    lane->ring[number % ROOM].fn = fn;
    memcpy(lane->ring[number % ROOM].arg, arg, bytes);
    pthread_cond_broadcast(&lane->changed);
    pthread_mutex_unlock(&lane->lock);
    return number;
}

uint64_t lull__lane_issued(lull__lane_t *lane) {
    pthread_mutex_lock(&lane->lock);
    uint64_t issued = lane->issued;
    pthread_mutex_unlock(&lane->lock);
    return issued;
}

void lull__lane_wait(lull__lane_t *lane, uint64_t number) {
    pthread_mutex_lock(&lane->lock);
    while (lane->done < number)
        pthread_cond_wait(&lane->changed, &lane->lock);
    pthread_mutex_unlock(&lane->lock);
}
