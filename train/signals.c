/* Signals wait until the loop looks, once a step. */
#include "signals.h"

#include <signal.h>
#include <stddef.h>
#include <time.h>

static void our_signals(sigset_t *out) {
    sigemptyset(out);
    sigaddset(out, SIGTERM);
    sigaddset(out, SIGUSR1);
}

void signals_hold(void) {
    sigset_t ours;
    our_signals(&ours);
    sigprocmask(SIG_BLOCK, &ours, NULL);
}

int signals_caught(void) {
    static int caught;
    static const struct timespec at_once = {0, 0};
    sigset_t ours;
    our_signals(&ours);
    int number = sigtimedwait(&ours, NULL, &at_once);
    if (caught == 0 && number > 0)
        caught = number;
    return caught;
}
