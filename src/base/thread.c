/* Background threads and the monotonic clock. */
#include "thread.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "error.h"
#include "log.h"

static void set_affinity(pthread_t thread, const char *name,
                         const lull__thread_options_t *options) {
    cpu_set_t set;
    CPU_ZERO(&set);
    for (size_t i = 0; i < options->cpu_count; i++)
        if (options->cpus[i] >= 0 && options->cpus[i] < CPU_SETSIZE)
            CPU_SET(options->cpus[i], &set);
    int rc = pthread_setaffinity_np(thread, sizeof set, &set);
    if (rc != 0)
        lull__log(LULL_LOG_WARN, "thread %s: affinity refused: %s", name,
                  strerrordesc_np(rc));
}

/* Niceness is a thread's own on Linux, and can only be set from inside. */
typedef struct start {
    void *(*fn)(void *);
    void *arg;
    int nice;
} start_t;

static void *enter(void *arg) {
    start_t start = *(start_t *)arg;
    free(arg);
    if (start.nice != 0) {
        id_t self = (id_t)syscall(SYS_gettid);
        errno = 0;
        int now = getpriority(PRIO_PROCESS, self);
        if (setpriority(PRIO_PROCESS, self, now + start.nice) != 0)
            lull__log(LULL_LOG_WARN, "niceness %d refused: %s", start.nice,
                      strerrordesc_np(errno));
    }
    return start.fn(start.arg);
}

lull_status_t lull__thread_start(pthread_t *thread, const char *name,
                                 const lull__thread_options_t *options,
                                 void *(*fn)(void *), void *arg) {
    start_t *start = malloc(sizeof *start);
    if (start == NULL)
        return lull__fail(LULL_ERR_NO_MEMORY, "starting the thread %s", name);
    *start = (start_t){fn, arg, options ? options->nice : 0};
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    pthread_t made;
    int rc = pthread_create(&made, NULL, enter, start);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (rc != 0) {
        free(start);
        return lull__fail_errno(rc, "starting the thread %s failed", name);
    }
    pthread_setname_np(made, name);
    if (options != NULL && options->cpu_count > 0)
        set_affinity(made, name, options);
    *thread = made;
    return LULL_OK;
}

double lull__now(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

double lull__deadline_ms(int64_t ms) {
    return ms < 0 ? LULL__NEVER : lull__now() + 1e-3 * (double)ms;
}

int lull__cond_init(pthread_cond_t *cond) {
    pthread_condattr_t attr;
    int rc = pthread_condattr_init(&attr);
    if (rc != 0)
        return rc;
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    rc = pthread_cond_init(cond, &attr);
    pthread_condattr_destroy(&attr);
    return rc;
}

static struct timespec timespec_of(double seconds) {
    /* Far enough for ever, near enough for time_t. */
    if (seconds > 1e15)
        seconds = 1e15;
    struct timespec at = {.tv_sec = (time_t)seconds};
    at.tv_nsec = (long)(1e9 * (seconds - (double)at.tv_sec));
    return at;
}

bool lull__cond_wait_until(pthread_cond_t *cond, pthread_mutex_t *lock,
                           double deadline) {
    if (deadline >= LULL__NEVER)
        return pthread_cond_wait(cond, lock) == 0;
    struct timespec at = timespec_of(deadline);
    return pthread_cond_timedwait(cond, lock, &at) != ETIMEDOUT;
}

void lull__sleep(double seconds) {
    struct timespec left = timespec_of(seconds);
    while (nanosleep(&left, &left) != 0 && errno == EINTR)
        continue;
}
