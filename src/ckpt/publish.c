/* Rank 0: the steps of a commit, in the order that is the promise. */
#include "publish.h"

#include <errno.h>
#include <stdio.h> /* RENAME_EXCHANGE */
#include <stdlib.h>
#include <string.h>

#include "base/log.h"

static lull_status_t write_manifest(lull_ckpt_request_t *save,
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
        status = lull__file_publish(&save->dir, &what);
    free(memory.data);
    return status;
}

/* The same step was saved before, and directories cannot be exchanged: the old
 * one moves aside, and comes back (here or at the next open) unless the new
 * one takes its place. */
static lull_status_t replace_in_two(lull_ckpt_request_t *save,
                                    const char *home) {
    lull_ckpt_t *ckpt = save->ckpt;
    lull__entry_name_t old;
    lull__naming_old(old, save->step, ckpt->run_id, save->number);
    lull_status_t status = lull__dir_rename(&ckpt->dir, home, NULL, old, 0);
    if (status != LULL_OK)
        return status;
    status = lull__dir_sync(&ckpt->dir);
    if (status == LULL_OK)
        status = lull__dir_rename(&ckpt->dir, save->dir_name, NULL, home, 0);
    if (status == LULL_OK)
        return LULL_OK;
    char sentence[LULL__SENTENCE_MAX];
    snprintf(sentence, sizeof sentence, "%s", lull_last_error());
    if (lull__dir_rename(&ckpt->dir, old, NULL, home, 0) != LULL_OK)
        lull__log(LULL_LOG_ERROR,
                  "the old checkpoint comes back at the next "
                  "open: %s",
                  lull_last_error());
    lull__error_set(sentence);
    return status;
}

static lull_status_t move_home(lull_ckpt_request_t *save, const char *home,
                               bool *exchanged) {
    lull_ckpt_t *ckpt = save->ckpt;
    const lull__io_t *io = ckpt->io;
    *exchanged = false;
    if (!lull__dir_has(&ckpt->dir, home))
        return lull__dir_rename(&ckpt->dir, save->dir_name, NULL, home, 0);
    int rc = io->ops->rename(io, ckpt->dir.fd, save->dir_name, ckpt->dir.fd,
                             home, RENAME_EXCHANGE);
    *exchanged = rc == 0;
    if (rc == -EINVAL || rc == -ENOSYS || rc == -EOPNOTSUPP)
        return replace_in_two(save, home);
    if (rc < 0)
        return lull__fail_errno(-rc, "%s: exchanging %s and %s failed",
                                ckpt->dir.path, save->dir_name, home);
    return LULL_OK;
}

/* The one that was replaced lies under the partial or the old name now. */
static void drop_replaced(lull_ckpt_request_t *save, bool exchanged) {
    lull_ckpt_t *ckpt = save->ckpt;
    lull__retention_t what = {&ckpt->dir, ckpt->run_id, save->number, 0, 0};
    lull__entry_name_t old;
    lull__naming_old(old, save->step, ckpt->run_id, save->number);
    const char *name = exchanged ? save->dir_name : old;
    if (!lull__dir_has(&ckpt->dir, name))
        return;
    if (lull__trash(&what, name, save->step) != LULL_OK)
        lull__log(LULL_LOG_WARN, "left for the next run to delete: %s",
                  lull_last_error());
}

lull_status_t lull__publish(lull_ckpt_request_t *save,
                            const lull__manifest_t *manifest) {
    lull_ckpt_t *ckpt = save->ckpt;
    lull__entry_name_t home;
    bool exchanged;
    lull__naming_step(home, save->step);
    lull_status_t status = write_manifest(save, manifest);
    if (status == LULL_OK)
        status = lull__dir_sync(&save->dir);
    if (status == LULL_OK)
        status = move_home(save, home, &exchanged);
    if (status != LULL_OK)
        return status;
    lull__history_taken(&ckpt->history, manifest->seq);
    if (lull__dir_sync(&ckpt->dir) != LULL_OK) {
        char why[LULL__SENTENCE_MAX];
        snprintf(why, sizeof why, "%s", lull_last_error());
        return lull__fail(LULL_ERR_DURABILITY_UNKNOWN,
                          "%s is published, but may not survive a power loss: "
                          "%.700s",
                          home, why);
    }
    /* Committed. Without memory the row is missing until the next open: then
     * it is kept longer than asked, no harm. */
    if (lull__history_add(&ckpt->history, manifest->seq, save->step) != LULL_OK)
        lull__log(LULL_LOG_WARN, "%s", lull_last_error());
    drop_replaced(save, exchanged);
    return LULL_OK;
}

static lull_status_t write_latest(lull_ckpt_request_t *save) {
    lull_ckpt_t *ckpt = save->ckpt;
    lull__entry_name_t home;
    char text[LULL__ENTRY_MAX + 2];
    lull__naming_step(home, save->step);
    int n = snprintf(text, sizeof text, "%s\n", home);
    lull__publish_t what = {LULL__LULL_DIR "/tmp-" LULL__LATEST_FILE,
                            LULL__LATEST_FILE, text, (uint64_t)n, true};
    lull_status_t status = lull__file_publish(&ckpt->dir, &what);
    return status != LULL_OK ? status : lull__dir_sync(&ckpt->dir);
}

void lull__publish_latest(lull_ckpt_request_t *save) {
    if (write_latest(save) != LULL_OK)
        lull__log(LULL_LOG_WARN, "the hint 'latest' is not written: %s",
                  lull_last_error());
}
