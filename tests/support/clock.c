/* The library's clock, faster. */
#include "clock.h"

#include "base/thread.h"

/* `shown` was what the clock showed at `real`. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards all below */
static double real, shown, speed = 1;
static bool may_hurry;

double __real_lull__now(void);
double __wrap_lull__now(void);
double __wrap_lull__now(void) {
    pthread_mutex_lock(&lock);
    double now = shown + speed * (__real_lull__now() - real);
    pthread_mutex_unlock(&lock);
    return now;
}

static void set_speed(double to) {
    double now = __real_lull__now();
    shown += speed * (now - real);
    real = now;
    speed = to;
}

void test_clock_speed(double to) {
    pthread_mutex_lock(&lock);
    set_speed(to);
    pthread_mutex_unlock(&lock);
}

void test_clock_may_hurry(bool may) {
    pthread_mutex_lock(&lock);
    may_hurry = may;
    set_speed(1);
    pthread_mutex_unlock(&lock);
}

void test_clock_hurry(void) {
    pthread_mutex_lock(&lock);
    if (may_hurry)
        set_speed(TEST_CLOCK_HURRY);
    pthread_mutex_unlock(&lock);
}

double __wrap_lull__deadline_ms(int64_t ms);
double __wrap_lull__deadline_ms(int64_t ms) {
    return ms < 0 ? LULL__NEVER : lull__now() + 1e-3 * (double)ms;
}

bool __real_lull__cond_wait_until(pthread_cond_t *cond, pthread_mutex_t *with,
                                  double deadline);
bool __wrap_lull__cond_wait_until(pthread_cond_t *cond, pthread_mutex_t *with,
                                  double deadline);
bool __wrap_lull__cond_wait_until(pthread_cond_t *cond, pthread_mutex_t *with,
                                  double deadline) {
    if (deadline >= LULL__NEVER)
        return __real_lull__cond_wait_until(cond, with, deadline);
    pthread_mutex_lock(&lock);
    double at = real + (deadline - shown) / speed;
    pthread_mutex_unlock(&lock);
    /* It may run faster soon: who waits looks again, as when woken. */
    double soon = __real_lull__now() + 0.05;
    bool woken =
        __real_lull__cond_wait_until(cond, with, at < soon ? at : soon);
    return woken || at > soon;
}
