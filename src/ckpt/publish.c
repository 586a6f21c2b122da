/* Rank 0: the steps of a commit, in the order that is the promise. */
#include "publish.h"

#include <errno.h>
#include <stdio.h> /* RENAME_EXCHANGE */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/log.h"

static lull_status_t write_manifest(const lull__place_t *place,
                                    const lull__manifest_t *manifest) {
    lull__memory_t memory = {0};
    lull__out_t *out;
    lull_status_t status = lull__out_create(lull__out_to_memory, &memory, &out);
    if (status != LULL_OK)
        return status;
    lull__manifest_write(manifest, out);
    status = lull__out_finish(out, NULL, NULL);
    lull__out_destroy(out);
    lull__publish_t what = {"tmp-" LULL__MANIFEST, LULL__MANIFEST, memory.data,
                            memory.bytes, true};
    if (status == LULL_OK)
        status = lull__file_publish(place->partial, &what);
    free(memory.data);
    return status;
}

/* The same step was saved before, and directories cannot be exchanged: the old
 * one moves aside, and comes back (here or at the next open) unless the new
 * one takes its place. */
static lull_status_t replace_in_two(const lull__place_t *place, uint64_t step,
                                    const char *home) {
    const lull__dir_t *dir = place->dir;
    lull__entry_name_t old;
    lull__naming_old(old, step, place->run_id, place->number);
    lull_status_t status = lull__dir_rename(dir, home, NULL, old, 0);
    if (status != LULL_OK)
        return status;
    status = lull__dir_sync(dir);
    if (status == LULL_OK)
        status = lull__dir_rename(dir, place->partial_name, NULL, home, 0);
    if (status == LULL_OK)
        return LULL_OK;
    char sentence[LULL__SENTENCE_MAX];
    snprintf(sentence, sizeof sentence, "%s", lull_last_error());
    if (lull__dir_rename(dir, old, NULL, home, 0) != LULL_OK)
        lull__log(LULL_LOG_ERROR,
                  "the old checkpoint comes back at the next "
                  "open: %s",
                  lull_last_error());
    lull__error_set(sentence);
    return status;
}

static lull_status_t move_home(const lull__place_t *place, uint64_t step,
                               const char *home, bool *exchanged) {
    const lull__dir_t *dir = place->dir;
    const lull__io_t *io = dir->io;
    const char *partial = place->partial_name;
    *exchanged = false;
    if (!lull__dir_has(dir, home))
        return lull__dir_rename(dir, partial, NULL, home, 0);
    int rc =
        io->ops->rename(io, dir->fd, partial, dir->fd, home, RENAME_EXCHANGE);
    *exchanged = rc == 0;
    if (rc == -EINVAL || rc == -ENOSYS || rc == -EOPNOTSUPP)
        return replace_in_two(place, step, home);
    if (rc < 0)
        return lull__fail_errno(-rc, "%s: exchanging %s and %s failed",
                                dir->path, partial, home);
    return LULL_OK;
}

/* The one that was replaced lies under the partial or the old name now. */
static void drop_replaced(const lull__place_t *place, uint64_t step,
                          bool exchanged) {
    lull__retention_t what = {
        .dir = place->dir, .run_id = place->run_id, .save = place->number};
    lull__entry_name_t old;
    lull__naming_old(old, step, place->run_id, place->number);
    const char *name = exchanged ? place->partial_name : old;
    if (!lull__dir_has(place->dir, name))
        return;
    if (lull__trash(&what, name, step) != LULL_OK)
        lull__log(LULL_LOG_WARN, "left for the next run to delete: %s",
                  lull_last_error());
}

/* In the history: the seq is taken, and, committed, the row is there. Without
 * memory it is missing until the next open: then it is kept longer than asked,
 * no harm. */
static void note(const lull__place_t *place, const lull__manifest_t *manifest,
                 bool committed) {
    if (place->lock != NULL)
        pthread_mutex_lock(place->lock);
    lull__history_taken(place->history, manifest->seq);
    if (committed && lull__history_add(place->history, manifest) != LULL_OK)
        lull__log(LULL_LOG_WARN, "%s", lull_last_error());
    if (place->lock != NULL)
        pthread_mutex_unlock(place->lock);
}

/* What the history has of the step has its name no more: until it is settled
 * which one does, nothing is to be deleted under that. */
static void forget(const lull__place_t *place, uint64_t step) {
    if (place->lock != NULL)
        pthread_mutex_lock(place->lock);
    lull__history_forget(place->history, step);
    if (place->lock != NULL)
        pthread_mutex_unlock(place->lock);
}

lull_status_t lull__publish_prepare(const lull__place_t *place,
                                    const lull__manifest_t *manifest) {
    lull_status_t status = write_manifest(place, manifest);
    return status != LULL_OK ? status : lull__dir_sync(place->partial);
}

lull_status_t lull__publish_install(lull__place_t *place,
                                    const lull__manifest_t *manifest,
                                    bool keep_old) {
    lull__entry_name_t home;
    place->exchanged = false;
    lull__naming_step(home, manifest->step);
    /* Also where this fails another place may publish it. */
    note(place, manifest, false);
    lull_status_t status =
        keep_old && lull__dir_has(place->dir, home)
            ? replace_in_two(place, manifest->step, home)
            : move_home(place, manifest->step, home, &place->exchanged);
    if (status != LULL_OK)
        return status;
    forget(place, manifest->step);
    if (lull__dir_sync(place->dir) != LULL_OK) {
        char why[LULL__SENTENCE_MAX];
        snprintf(why, sizeof why, "%s", lull_last_error());
        return lull__fail(LULL_ERR_DURABILITY_UNKNOWN,
                          "%s is published, but may not survive a power loss: "
                          "%.700s",
                          home, why);
    }
    return LULL_OK;
}

void lull__publish_settle(const lull__place_t *place,
                          const lull__manifest_t *manifest) {
    note(place, manifest, true);
    drop_replaced(place, manifest->step, place->exchanged);
}

lull_status_t lull__publish(lull__place_t *place,
                            const lull__manifest_t *manifest) {
    lull_status_t status = lull__publish_prepare(place, manifest);
    if (status == LULL_OK)
        status = lull__publish_install(place, manifest, false);
    if (status == LULL_OK)
        lull__publish_settle(place, manifest);
    return status;
}

static lull_status_t write_latest(const lull__dir_t *dir, uint64_t step) {
    lull__entry_name_t home;
    char text[LULL__ENTRY_MAX + 2];
    lull__naming_step(home, step);
    int n = snprintf(text, sizeof text, "%s\n", home);
    lull__publish_t what = {LULL__LULL_DIR "/tmp-" LULL__LATEST_FILE,
                            LULL__LATEST_FILE, text, (uint64_t)n, true};
    lull_status_t status = lull__file_publish(dir, &what);
    return status != LULL_OK ? status : lull__dir_sync(dir);
}

void lull__publish_latest(const lull__dir_t *dir, uint64_t step) {
    if (write_latest(dir, step) != LULL_OK)
        lull__log(LULL_LOG_WARN, "the hint 'latest' is not written: %s",
                  lull_last_error());
}
