/* Numbers as text under every locale of the program: this thread takes the
 * locale C for the time of a call. */
#include "decimal.h"

#include <locale.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

static pthread_once_t once = PTHREAD_ONCE_INIT;
static locale_t plain; /* stays 0 without memory: then nothing is switched */

static void make_plain(void) {
    plain = newlocale(LC_ALL_MASK, "C", (locale_t)0);
}

/* The locale to come back to. */
static locale_t enter(void) {
    pthread_once(&once, make_plain);
    return uselocale(plain);
}

double lull__decimal_read(const char *text, char **end) {
    locale_t before = enter();
    double value = strtod(text, end);
    uselocale(before);
    return value;
}

int lull__decimal_vprint(char *text, size_t room, const char *format,
                         va_list args) {
    locale_t before = enter();
    int n = vsnprintf(text, room, format, args);
    uselocale(before);
    return n;
}

int lull__decimal_print(char *text, size_t room, const char *format, ...) {
    va_list args;
    va_start(args, format);
    int n = lull__decimal_vprint(text, room, format, args);
    va_end(args);
    return n;
}
