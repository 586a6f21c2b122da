/* Log lines to the process's callback. */
#ifndef LULL__LOG_H
#define LULL__LOG_H

#include <lull/status.h>

#include "error.h"

/* Formats a line and hands it to the callback, if one is set at this level.
 * Any thread; must not be called with a lock held that the callback's owner
 * could want. */
LULL_PRIVATE void lull__log(lull_log_level_t level, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

#endif
