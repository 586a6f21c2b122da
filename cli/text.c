/* Messages, sizes, times, JSON, the progress bar. */
#include <inttypes.h>
#include <stdarg.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cli.h"

static void say(const char *format, va_list args) {
    fputs("lull: ", stderr);
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
}

void cli_say(const char *format, ...) {
    va_list args;
    va_start(args, format);
    say(format, args);
    va_end(args);
}

int cli_usage(const command_t *command, const char *format, ...) {
    va_list args;
    va_start(args, format);
    say(format, args);
    va_end(args);
    cli_print_usage(stderr, command);
    return CLI_USAGE;
}

int cli_fail(lull_status_t status) {
    const char *why = lull_last_error();
    cli_say("%s", why[0] != '\0' ? why : lull_status_text(status));
    return status == LULL_ERR_CORRUPT ? CLI_CORRUPT : CLI_FAILED;
}

/* One of a few buffers that take turns, so that a printf may use several. */
static char *buffer(size_t *n) {
    static char buffers[8][256];
    static unsigned turn;
    *n = sizeof *buffers;
    return buffers[turn++ % 8];
}

const char *cli_bytes(uint64_t bytes) {
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
    size_t n, unit = 0;
    char *text = buffer(&n);
    double value = (double)bytes;
    while (value >= 1023.95 && unit < 5) {
        value /= 1024;
        unit++;
    }
    if (unit == 0)
        snprintf(text, n, "%" PRIu64 " B", bytes);
    else
        snprintf(text, n, "%.1f %s", value, units[unit]);
    return text;
}

const char *cli_time(int64_t seconds) {
    size_t n;
    char *text = buffer(&n);
    time_t t = (time_t)seconds;
    struct tm tm;
    if (gmtime_r(&t, &tm) == NULL ||
        strftime(text, n, "%Y-%m-%d %H:%M:%S", &tm) == 0)
        snprintf(text, n, "%" PRId64, seconds);
    return text;
}

const char *cli_shape(uint32_t ndim, const uint64_t *shape) {
    size_t n, at = 1;
    char *text = buffer(&n);
    text[0] = '[';
    for (uint32_t d = 0; d < ndim; d++)
        at += (size_t)snprintf(text + at, n - at,
                               d > 0 ? ",%" PRIu64 : "%" PRIu64, shape[d]);
    snprintf(text + at, n - at, "]");
    return text;
}

void cli_print_name(FILE *to, const char *name) {
    for (; *name != '\0'; name++) {
        unsigned char c = (unsigned char)*name;
        fputc(c < 0x20 || c == 0x7f ? '?' : c, to);
    }
}

void cli_json_string(FILE *to, const char *text) {
    fputc('"', to);
    for (; *text != '\0'; text++) {
        unsigned char c = (unsigned char)*text;
        if (c < 0x20)
            fprintf(to, "\\u%04x", c);
        else if (c == '"' || c == '\\')
            fprintf(to, "\\%c", c);
        else
            fputc(c, to);
    }
    fputc('"', to);
}

void cli_json_key(FILE *to, bool first, const char *key) {
    if (!first)
        fputc(',', to);
    cli_json_string(to, key);
    fputc(':', to);
}

void cli_json_list(FILE *to, uint32_t n, const uint64_t *values) {
    fputs(cli_shape(n, values), to);
}

/* ---- Progress ---- */

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

void cli_progress_begin(progress_t *progress, const char *what) {
    *progress = (progress_t){
        .what = what, .begin = now(), .terminal = isatty(STDERR_FILENO) == 1};
}

bool cli_progress(void *ctx, uint64_t done, uint64_t total) {
    enum { WIDTH = 30 };
    progress_t *progress = ctx;
    double t = now();
    if (!progress->terminal || t - progress->begin < 1 ||
        t - progress->shown < 0.1 || total == 0)
        return true;
    double part = (double)done / (double)total;
    int filled = (int)(part * WIDTH);
    fprintf(stderr, "\r%s [%.*s%.*s] %3.0f%%, %s of %s, %s/s ", progress->what,
            filled, "##############################", WIDTH - filled,
            "..............................", 100 * part, cli_bytes(done),
            cli_bytes(total),
            cli_bytes((uint64_t)((double)done / (t - progress->begin))));
    fflush(stderr);
    progress->shown = t;
    progress->visible = true;
    return true;
}

void cli_progress_end(progress_t *progress) {
    if (progress->visible)
        fputs("\r\033[K", stderr);
    progress->visible = false;
}
