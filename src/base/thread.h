/* Background threads, and a monotonic clock to wait by. */
#ifndef LULL__THREAD_H
#define LULL__THREAD_H

#include <lull/status.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct lull__thread_options {
    const int *cpus;  /* where it may run */
    size_t cpu_count; /* 0: inherited */
    int nice;         /* added niceness */
} lull__thread_options_t;

/* Starts a thread that takes no signals. `name` shows in debuggers, at most
 * 15 bytes. A refused affinity or niceness is logged, not an error. */
lull_status_t lull__thread_start(pthread_t *thread, const char *name,
                                 const lull__thread_options_t *options,
                                 void *(*fn)(void *), void *arg);

/* Seconds of CLOCK_MONOTONIC. */
double lull__now(void);
/* No deadline. */
#define LULL__NEVER 1e300
/* now + milliseconds; negative: never. */
double lull__deadline_ms(int64_t ms);

/* A condition that is waited for by lull__now()'s clock. */
int lull__cond_init(pthread_cond_t *cond);
/* false: the deadline has passed. */
bool lull__cond_wait_until(pthread_cond_t *cond, pthread_mutex_t *lock,
                           double deadline);
/* Sleeps through signals. */
void lull__sleep(double seconds);

#endif
