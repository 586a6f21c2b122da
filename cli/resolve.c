/* From what a person writes to one exact checkpoint. */
#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "cli.h"

/* "step-00000100" or "100". */
static bool step_of(const char *text, uint64_t *step) {
    char *end;
    if (strncmp(text, "step-", 5) == 0)
        text += 5;
    if (!isdigit((unsigned char)*text))
        return false;
    errno = 0;
    *step = strtoull(text, &end, 10);
    return errno == 0 && *end == '\0' && *step < LULL_LATEST;
}

/* Splits "DIR/STEP"; false: it is a directory of checkpoints as it is. */
static bool split(char *path, uint64_t *step) {
    size_t n = strlen(path);
    while (n > 1 && path[n - 1] == '/')
        path[--n] = '\0';
    char *slash = strrchr(path, '/');
    const char *last = slash != NULL ? slash + 1 : path;
    struct stat st;
    if (!step_of(last, step))
        return false;
    /* "DIR/100" may also be a directory of that name. */
    if (strncmp(last, "step-", 5) != 0 && stat(path, &st) == 0)
        return false;
    if (slash == NULL)
        strcpy(path, ".");
    else
        slash[slash == path] = '\0';
    return true;
}

unsigned cli_skipped;

static void say_skipped(void *ctx, lull_ckpt_id_t id, const char *why) {
    (void)ctx;
    cli_skipped++;
    cli_say("skipped step %" PRIu64 ": %s", id.step, why);
}

int cli_resolve(const char *path, uint64_t step, char **dir,
                lull_ckpt_id_t *id) {
    lull_ckpt_find_options_t options = LULL_CKPT_FIND_OPTIONS_INIT;
    uint64_t in_path = LULL_LATEST;
    /* Room for "." in place of an empty path. */
    char *copy = calloc(strlen(path) + 2, 1);
    if (copy == NULL) {
        cli_say("out of memory");
        return CLI_FAILED;
    }
    strcpy(copy, path);
    if (step == LULL_LATEST && split(copy, &in_path))
        step = in_path;
    options.step = step;
    options.on_skip = say_skipped;
    lull_status_t status = lull_ckpt_find(copy, &options, id);
    if (status != LULL_OK) {
        free(copy);
        return cli_fail(status);
    }
    *dir = copy;
    return CLI_OK;
}

int cli_open(const char *path, uint64_t step, lull_ckpt_info_t **info) {
    lull_ckpt_id_t id;
    char *dir;
    int code = cli_resolve(path, step, &dir, &id);
    if (code != CLI_OK)
        return code;
    lull_status_t status = lull_ckpt_info_open(dir, id, info);
    free(dir);
    return status == LULL_OK ? CLI_OK : cli_fail(status);
}
