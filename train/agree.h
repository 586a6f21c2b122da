/* Failures that one rank sees and every rank has to know of: the first
 * function that knows a cause says it with train_fail(), the others pass the
 * status on, and agree_ok() makes the failure every rank's, said once. */
#ifndef TRAIN_AGREE_H
#define TRAIN_AGREE_H

#include <lull/comm.h>
#include <stdbool.h>

#include "fail.h"

enum { EXIT_USAGE = 2 }; /* beside EXIT_SUCCESS and EXIT_FAILURE */

/* Keeps "what: the library's sentence" of a failed call; LULL_OK passes. */
lull_status_t train_wrap(lull_status_t status, const char *what);

/* Collective: true where every rank's status is LULL_OK. Otherwise the lowest
 * failing rank prints its sentence as one line, and every rank gets false. */
bool agree_ok(lull_comm_t *other, lull_status_t status);
/* As agree_ok, but prints nothing: *sayer tells whether this rank is the one
 * that would. */
bool agree_quiet(lull_comm_t *other, lull_status_t status, bool *sayer);
/* As agree_ok, but prints nothing: every rank gets the sentence of the lowest
 * failing rank. */
enum { WHY_MAX = 768 };
bool agree_share(lull_comm_t *other, lull_status_t status, char *why);

/* One line to stderr, in one write, so that ranks' lines do not mix. */
void train_say(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Seconds of CLOCK_MONOTONIC. */
double train_now(void);

#endif
