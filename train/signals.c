/* Signals become a flag that the loop looks at once a step. */
#include "signals.h"

#include <signal.h>
#include <stddef.h>
#include <string.h>

static volatile sig_atomic_t caught;

static void remember(int number) {
    if (caught == 0)
        caught = number;
}

void signals_catch(void) {
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_handler = remember;
    action.sa_flags = SA_RESTART;
    sigemptyset(&action.sa_mask);
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGUSR1, &action, NULL);
}

int signals_caught(void) {
    return caught;
}
