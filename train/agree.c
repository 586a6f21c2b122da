/* Failures that one rank sees and all ranks agree on. */
#include "agree.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { HEARSAY = 1 << 24 };

lull_status_t train_wrap(lull_status_t status, const char *what) {
    if (status == LULL_OK)
        return LULL_OK;
    const char *why = lull_last_error();
    return train_fail(status, "%s: %s", what,
                      *why != '\0' ? why : lull_status_text(status));
}

static const char *own_sentence(lull_status_t status) {
    const char *why = train_error();
    return *why != '\0' ? why : lull_status_text(status);
}

/* The lowest rank that failed, -1: none did. *told: the ranks could talk. */
static int first_failed(lull_comm_t *other, lull_status_t status, bool *told) {
    int rank = lull_comm_rank(other);
    /* Who only heard of a failure lets those speak who know its cause. */
    int32_t first = status == LULL_OK         ? INT32_MAX
                    : status == LULL_ERR_PEER ? rank + HEARSAY
                                              : rank;
    lull_status_t sent =
        lull_allreduce(LULL_IN_PLACE, &first, 1, LULL_I32, LULL_MIN, other);
    *told = sent == LULL_OK;
    if (sent != LULL_OK && status == LULL_OK)
        train_wrap(sent, "the ranks cannot agree");
    return first == INT32_MAX ? -1 : first % HEARSAY;
}

bool agree_quiet(lull_comm_t *other, lull_status_t status, bool *sayer) {
    bool told;
    int first = first_failed(other, status, &told);
    /* Where the ranks cannot talk each says what it knows. */
    *sayer = !told || first == lull_comm_rank(other);
    return told && first < 0;
}

bool agree_ok(lull_comm_t *other, lull_status_t status) {
    bool sayer;
    if (agree_quiet(other, status, &sayer))
        return true;
    if (sayer)
        train_say("lull-train: %s", own_sentence(status));
    return false;
}

bool agree_share(lull_comm_t *other, lull_status_t status, char *why) {
    bool told;
    int first = first_failed(other, status, &told);
    memset(why, 0, WHY_MAX);
    if (first < 0)
        return told;
    snprintf(why, WHY_MAX, "%s", own_sentence(status));
    lull_bcast(why, WHY_MAX, LULL_U8, first, other);
    why[WHY_MAX - 1] = '\0';
    return false;
}

void train_say(const char *format, ...) {
    char line[1536];
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(line, sizeof line - 1, format, arguments);
    va_end(arguments);
    if (length < 0)
        return;
    size_t end = (size_t)length;
    if (end > sizeof line - 2)
        end = sizeof line - 2;
    line[end] = '\n';
    ssize_t written = write(STDERR_FILENO, line, end + 1);
    (void)written; /* there is nowhere to say it */
}

double train_now(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}
