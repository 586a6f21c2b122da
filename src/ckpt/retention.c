/* What is committed in a directory, and deleting of it. */
#include "retention.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>

#include "base/checksum.h"
#include "base/error.h"
#include "base/log.h"
#include "manifest.h"

#define MANIFEST_MAX ((uint64_t)1 << 32)

/* Keeps the order of seq: what is drained comes late. */
static lull_status_t insert(lull__history_t *history,
                            const lull__history_row_t *row) {
    if (history->count == history->room) {
        size_t room = history->room ? 2 * history->room : 16;
        lull__history_row_t *rows = realloc(history->rows, room * sizeof *rows);
        if (rows == NULL)
            return lull__fail(LULL_ERR_NO_MEMORY, "the list of checkpoints");
        history->rows = rows;
        history->room = room;
    }
    size_t at = history->count++;
    for (; at > 0 && history->rows[at - 1].seq > row->seq; at--)
        history->rows[at] = history->rows[at - 1];
    history->rows[at] = *row;
    lull__history_taken(history, row->seq);
    return LULL_OK;
}

void lull__history_forget(lull__history_t *history, uint64_t step) {
    size_t kept = 0;
    for (size_t i = 0; i < history->count; i++)
        if (history->rows[i].step != step)
            history->rows[kept++] = history->rows[i];
    history->count = kept;
}

lull__history_row_t lull__history_row(const lull__manifest_t *manifest) {
    lull__hash_t hash;
    uint64_t numbers[2] = {manifest->save, (uint64_t)manifest->time};
    lull__hash_begin(&hash);
    lull__hash_update(&hash, manifest->run_id, strlen(manifest->run_id));
    lull__hash_update(&hash, numbers, sizeof numbers);
    return (lull__history_row_t){
        manifest->seq, manifest->step, lull__hash_end(&hash),
        false,         false,          false};
}

lull_status_t lull__history_add(lull__history_t *history,
                                const lull__manifest_t *manifest) {
    lull__history_row_t row = lull__history_row(manifest);
    return lull__history_put(history, &row);
}

lull_status_t lull__history_put(lull__history_t *history,
                                const lull__history_row_t *row) {
    lull__history_forget(history, row->step);
    return insert(history, row);
}

lull__history_row_t *lull__history_find(const lull__history_t *history,
                                        const lull__history_row_t *row) {
    for (size_t i = history->count; i-- > 0;)
        if (history->rows[i].seq == row->seq &&
            history->rows[i].step == row->step &&
            history->rows[i].origin == row->origin)
            return &history->rows[i];
    return NULL;
}

void lull__history_drop(lull__history_t *history,
                        const lull__history_row_t *row) {
    lull__history_row_t *at = lull__history_find(history, row);
    if (at == NULL)
        return;
    size_t behind = (size_t)(history->rows + history->count - (at + 1));
    memmove(at, at + 1, behind * sizeof *at);
    history->count--;
}

void lull__history_free(lull__history_t *history) {
    free(history->rows);
    *history = (lull__history_t){0};
}

void lull__history_taken(lull__history_t *history, uint64_t seq) {
    if (seq > history->last)
        history->last = seq;
}

/* What the manifest of DIR/name says. */
static lull_status_t read_row(const lull__dir_t *dir, const char *name,
                              lull__history_row_t *row) {
    lull__dir_t step;
    char *text;
    uint64_t n;
    lull__manifest_t manifest;
    lull_status_t status = lull__dir_open_at(dir, name, &step);
    if (status != LULL_OK)
        return status;
    status = lull__file_slurp(&step, LULL__MANIFEST, MANIFEST_MAX, &text, &n);
    lull__dir_close(&step);
    if (status != LULL_OK)
        return status;
    status = lull__manifest_parse(text, n, name, &manifest);
    if (status == LULL_OK) {
        *row = lull__history_row(&manifest);
        lull__manifest_free(&manifest);
    }
    free(text);
    return status;
}

typedef struct scan {
    const lull__dir_t *dir;
    lull__history_t *history;
    lull_status_t status;
} scan_t;

static int scan_name(void *ctx, const char *name) {
    scan_t *scan = ctx;
    lull__naming_t naming;
    lull__history_row_t row;
    if (lull__naming_parse(name, &naming) != LULL__NAMING_STEP)
        return 0;
    lull_status_t status = read_row(scan->dir, name, &row);
    if (status == LULL_OK && row.step != naming.step) {
        lull__history_taken(scan->history, row.seq);
        status = lull__fail(LULL_ERR_CORRUPT,
                            "its manifest is that of step %" PRIu64, row.step);
    }
    /* Nor is it known what seq that one has, and what it is older than. */
    if (status == LULL_ERR_NO_MEMORY || lull__is_unread(status))
        scan->status = status;
    else if (status == LULL_OK)
        scan->status = insert(scan->history, &row);
    else
        lull__log(LULL_LOG_WARN, "%s/%s is left alone: %s", scan->dir->path,
                  name, lull_last_error());
    return scan->status != LULL_OK;
}

lull_status_t lull__history_scan(const lull__dir_t *dir,
                                 lull__history_t *history) {
    scan_t scan = {dir, history, LULL_OK};
    lull_status_t status = lull__dir_list(dir, scan_name, &scan);
    if (status == LULL_OK)
        status = scan.status;
    return status;
}

/* ---- deleting ---- */

/* An exclusive lock on the manifest: readers hold a shared one. A checkpoint
 * without a readable manifest has no readers. */
static lull_status_t lock_manifest(const lull__dir_t *dir, const char *name,
                                   lull__dir_t *step, lull__file_t *file) {
    *step = (lull__dir_t)LULL__DIR_CLOSED;
    *file = (lull__file_t)LULL__FILE_CLOSED;
    lull_status_t status = lull__dir_open_at(dir, name, step);
    if (status != LULL_OK)
        return status;
    status = lull__file_open(step, LULL__MANIFEST, O_RDONLY | O_NONBLOCK, file);
    if (status == LULL_ERR_NOT_FOUND)
        return LULL_OK;
    if (status == LULL_OK)
        status = lull__file_lock(file, LOCK_EX | LOCK_NB);
    return status;
}

lull_status_t lull__trash(const lull__retention_t *what, const char *name,
                          uint64_t step) {
    lull__trash_t *trash = calloc(1, sizeof *trash);
    if (trash == NULL)
        return lull__fail(LULL_ERR_NO_MEMORY, "deleting %s", name);
    lull__naming_trash(trash->name, what->run_id, what->save, step);
    lull_status_t status =
        lock_manifest(what->dir, name, &trash->dir, &trash->manifest);
    if (status == LULL_OK)
        status = lull__dir_rename(what->dir, name, what->dir, trash->name, 0);
    /* The name is gone for good before the first byte is: after a crash it is
     * whole, or it is trash. */
    if (status == LULL_OK)
        status = lull__dir_sync(what->dir);
    if (status != LULL_OK) {
        lull__trash_free(trash);
        return status;
    }
    return lull__deleter_add(what->deleter, trash)
               ? LULL_OK
               : lull__trash_delete(what->dir, trash);
}

bool lull__retention_keeps(const lull__retention_t *what,
                           const lull__history_t *history, size_t row) {
    /* The newest always stays. */
    uint32_t most = what->keep_last, newer = 0;
    for (size_t i = history->count; i-- > row + 1 && newer < most;)
        newer += !history->rows[i].partly;
    if (most == 0 || newer < most)
        return true;
    return what->keep_every != 0 &&
           history->rows[row].step % what->keep_every == 0;
}

/* LULL_ERR_BUSY: not now, for the sentence's reason. */
static lull_status_t let_go(const lull__retention_t *what,
                            const lull__history_row_t *row) {
    lull__entry_name_t name;
    lull_status_t status = LULL_OK;
    lull__naming_step(name, row->step);
    if (what->hold != NULL)
        status = what->hold(what->ctx, row);
    if (status == LULL_OK)
        status = lull__trash(what, name, row->step);
    if (status == LULL_ERR_BUSY && what->kept != NULL)
        what->kept(what->ctx, row);
    return status;
}

/* Kept rows move to the front; those at and behind `i`, and the count that
 * is gone by, are as they were until the end. */
lull_status_t lull__retention_run(const lull__retention_t *what,
                                  lull__history_t *history, size_t *deleted) {
    lull_status_t first = LULL_OK;
    size_t gone = 0, kept = 0, rows = history->count;
    for (size_t i = 0; i < rows; i++) {
        lull__history_row_t row = history->rows[i];
        lull_status_t status = LULL_OK;
        bool stays = lull__retention_keeps(what, history, i);
        if (!stays) {
            status = let_go(what, &row);
            stays = status != LULL_OK && status != LULL_ERR_NOT_FOUND;
            gone += status == LULL_OK;
        }
        if (status != LULL_OK && stays && status != LULL_ERR_BUSY &&
            first == LULL_OK)
            first = status;
        if (stays)
            history->rows[kept++] = row;
    }
    history->count = kept;
    if (deleted != NULL)
        *deleted = gone;
    return first;
}
