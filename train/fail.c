/* The sentence of the trainer's first failure. */
#include "fail.h"

#include <stdarg.h>
#include <stdio.h>

static char sentence[1024];

lull_status_t train_fail(lull_status_t status, const char *format, ...) {
    va_list args;
    va_start(args, format);
    vsnprintf(sentence, sizeof sentence, format, args);
    va_end(args);
    return status;
}

const char *train_error(void) {
    return sentence[0] ? sentence : lull_last_error();
}

void train_error_clear(void) {
    sentence[0] = 0;
}
