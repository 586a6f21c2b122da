/* Numbers as text with a decimal point, whatever locale the program has set:
 * specs, settings and JSON mean the same everywhere. */
#ifndef LULL__DECIMAL_H
#define LULL__DECIMAL_H

#include <stdarg.h>
#include <stddef.h>

#include "error.h"

/* As strtod. */
LULL_PRIVATE double lull__decimal_read(const char *text, char **end);
/* As snprintf and vsnprintf. */
LULL_PRIVATE int lull__decimal_print(char *text, size_t room,
                                     const char *format, ...)
    __attribute__((format(printf, 3, 4)));
int lull__decimal_vprint(char *text, size_t room, const char *format,
                         va_list args) __attribute__((format(printf, 3, 0)));

#endif
