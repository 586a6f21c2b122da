/* The sentence of the trainer's first failure, beside lull_last_error(). */
#ifndef TRAIN_FAIL_H
#define TRAIN_FAIL_H

#include <lull/status.h>

/* Keeps a sentence and returns `status`, for failures that the trainer finds
 * itself; those of the library are passed on and leave theirs there. */
lull_status_t train_fail(lull_status_t status, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* The kept sentence, else the library's. */
const char *train_error(void);

/* Forgets the kept sentence, after a failure that was dealt with. */
void train_error_clear(void);

#endif
