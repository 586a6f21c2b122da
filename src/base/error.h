/* The sentence that a failing call leaves for its thread. */
#ifndef LULL__ERROR_H
#define LULL__ERROR_H

#include <lull/status.h>

/* Functions that liblull_mpi needs of liblull: exported under a private
 * version node, for no one else. */
#define LULL_PRIVATE __attribute__((visibility("default")))

/* Sets this thread's sentence and returns `status`, so that the first
 * function that knows the cause says it and the others pass it on:
 *     return lull__fail(LULL_ERR_IO, "%s: write failed: %s", path, why); */
#define lull__fail(status, ...) \
    lull__failed(lull__fail_say(status, __VA_ARGS__))

/* As lull__fail for a failed system call: the status follows from errnum
 * (ENOSPC and EDQUOT: NO_SPACE, EACCES, EPERM, EROFS: PERMISSION, ENOENT:
 * NOT_FOUND, ENOMEM, EMFILE, ENFILE: NO_MEMORY, else IO), and its text is
 * appended. */
#define lull__fail_errno(errnum, ...) \
    lull__failed(lull__fail_errno_say(errnum, __VA_ARGS__))

LULL_PRIVATE lull_status_t lull__fail_say(lull_status_t status,
                                          const char *format, ...)
    __attribute__((format(printf, 2, 3)));
LULL_PRIVATE lull_status_t lull__fail_errno_say(int errnum, const char *format,
                                                ...)
    __attribute__((format(printf, 2, 3)));

/* Lets the compiler see that a failure is never LULL_OK; without it, outputs
 * that are written only on success seem to be used uninitialized. */
static inline lull_status_t lull__failed(lull_status_t status) {
    return status < LULL_OK ? status : LULL_ERR_INTERNAL;
}

/* This thread's sentence, to be handed to another thread, and back. */
#define LULL__SENTENCE_MAX 1024
LULL_PRIVATE void lull__error_set(const char *sentence);

#endif
