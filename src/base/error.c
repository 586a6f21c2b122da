/* Per-thread error sentences; statuses' names and texts. */
#include "error.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "decimal.h"

static _Thread_local char sentence[LULL__SENTENCE_MAX];

const char *lull_status_name(lull_status_t status) {
    switch (status) {
#define ROW(name, value, text) \
    case LULL_##name:          \
        return "LULL_" #name;
        LULL_STATUS_TABLE(ROW)
#undef ROW
    }
    return "LULL_UNKNOWN";
}

const char *lull_status_text(lull_status_t status) {
    switch (status) {
#define ROW(name, value, text) \
    case LULL_##name:          \
        return text;
        LULL_STATUS_TABLE(ROW)
#undef ROW
    }
    return "unknown status";
}

const char *lull_last_error(void) {
    return sentence;
}

const char *lull_version(void) {
    return LULL_VERSION_STRING;
}

void lull__error_set(const char *text) {
    /* The text may be this thread's own sentence. */
    size_t n = strnlen(text, sizeof sentence - 1);
    memmove(sentence, text, n);
    sentence[n] = '\0';
}

lull_status_t lull__fail_say(lull_status_t status, const char *format, ...) {
    /* Arguments may point into the old sentence, so build the new one apart. */
    char text[LULL__SENTENCE_MAX];
    va_list args;
    va_start(args, format);
    lull__decimal_vprint(text, sizeof text, format, args);
    va_end(args);
    lull__error_set(text);
    return status;
}

static lull_status_t status_of_errno(int errnum) {
    switch (errnum) {
    case ENOSPC:
    case EDQUOT:
        return LULL_ERR_NO_SPACE;
    case EACCES:
    case EPERM:
    case EROFS:
        return LULL_ERR_PERMISSION;
    case ENOENT:
        return LULL_ERR_NOT_FOUND;
    case ENOMEM:
    case EMFILE: /* no less the process's own limit */
    case ENFILE:
        return LULL_ERR_NO_MEMORY;
    default:
        return LULL_ERR_IO;
    }
}

lull_status_t lull__fail_errno_say(int errnum, const char *format, ...) {
    char text[LULL__SENTENCE_MAX - 128];
    va_list args;
    va_start(args, format);
    lull__decimal_vprint(text, sizeof text, format, args);
    va_end(args);
    char why[128];
    return lull__fail(status_of_errno(errnum), "%s: %s", text,
                      strerror_r(errnum, why, sizeof why));
}
