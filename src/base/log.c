/* The log callback, one call at a time. */
#include "log.h"

#include <pthread.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static lull_log_fn callback;
static void *callback_ctx;
static lull_log_level_t callback_level;

void lull_log_set(lull_log_fn fn, void *ctx, lull_log_level_t level) {
    pthread_mutex_lock(&lock);
    callback = fn;
    callback_ctx = ctx;
    callback_level = level;
    pthread_mutex_unlock(&lock);
}

void lull__log(lull_log_level_t level, const char *format, ...) {
    pthread_mutex_lock(&lock);
    if (callback != NULL && level <= callback_level) {
        char line[2048];
        va_list args;
        va_start(args, format);
        vsnprintf(line, sizeof line, format, args);
        va_end(args);
        callback(callback_ctx, level, line);
    }
    pthread_mutex_unlock(&lock);
}
