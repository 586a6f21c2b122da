/* What crashed runs left, put back or deleted; only under the lock. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/log.h"
#include "naming.h"
#include "note.h"
#include "retention.h"

/* An old checkpoint of the same step was moved away for its successor, which
 * was never published: it goes back. Else it is trash. */
static lull_status_t put_back(const lull__dir_t *dir, const char *name,
                              const lull__naming_t *was) {
    lull__entry_name_t home, trash;
    lull__naming_step(home, was->step);
    lull__naming_trash(trash, was->run_id, was->save, was->step);
    lull_status_t status;
    if (lull__dir_has(dir, home)) {
        /* Half deleted, it must not have a name that puts it back. */
        status = lull__dir_rename(dir, name, NULL, trash, 0);
        return status != LULL_OK ? status : lull__dir_remove_tree(dir, trash);
    }
    status = lull__dir_rename(dir, name, dir, home, 0);
    if (status == LULL_OK)
        lull__log(LULL_LOG_WARN,
                  "%s/%s put back: its successor was not "
                  "committed",
                  dir->path, home);
    return status;
}

typedef struct sweep {
    const lull__dir_t *dir;
    const char *run_id;
    uint64_t before;
    bool leave_old;
    char **names;
    size_t count, room;
} sweep_t;

static int gather(void *ctx, const char *name) {
    sweep_t *sweep = ctx;
    if (sweep->count == sweep->room) {
        size_t room = sweep->room ? 2 * sweep->room : 16;
        char **names = realloc(sweep->names, room * sizeof *names);
        if (names == NULL)
            return -ENOMEM;
        sweep->names = names;
        sweep->room = room;
    }
    char *copy = strdup(name);
    if (copy == NULL)
        return -ENOMEM;
    sweep->names[sweep->count++] = copy;
    return 0;
}

static lull_status_t sweep_name(const sweep_t *sweep, const char *name) {
    lull__naming_t naming;
    switch (lull__naming_parse(name, &naming)) {
    case LULL__NAMING_PARTIAL:
    case LULL__NAMING_TRASH:
        return lull__dir_remove_tree(sweep->dir, name);
    case LULL__NAMING_OLD:
        return sweep->leave_old ? LULL_OK : put_back(sweep->dir, name, &naming);
    default:
        return LULL_OK;
    }
}

static lull_status_t sweep_note(const sweep_t *sweep, const char *name) {
    if (!lull__note_is_stale(name, sweep->run_id))
        return LULL_OK;
    return lull__dir_unlink(sweep->dir, name);
}

static lull_status_t sweep_own(const sweep_t *sweep, const char *name) {
    lull__naming_t naming;
    if (lull__naming_parse(name, &naming) != LULL__NAMING_PARTIAL ||
        strcmp(naming.run_id, sweep->run_id) != 0 ||
        naming.save >= sweep->before)
        return LULL_OK;
    return lull__dir_remove_tree(sweep->dir, name);
}

/* Names first, then deeds: a listing may skip what moves under it. */
static lull_status_t each(sweep_t sweep,
                          lull_status_t (*fn)(const sweep_t *, const char *)) {
    lull_status_t status = lull__dir_list(sweep.dir, gather, &sweep);
    for (size_t i = 0; i < sweep.count; i++) {
        if (status == LULL_OK)
            status = fn(&sweep, sweep.names[i]);
        free(sweep.names[i]);
    }
    free(sweep.names);
    return status;
}

lull_status_t lull__sweep_own(const lull__dir_t *dir, const char *run_id,
                              uint64_t before) {
    return each((sweep_t){dir, run_id, before, false, NULL, 0, 0}, sweep_own);
}

lull_status_t lull__sweep(const lull__dir_t *dir, const lull__dir_t *lull,
                          const char *run_id, bool leave_old) {
    /* What is seen here must be what is on disk before anything is deleted:
     * the last run may have ended between a rename and its sync. */
    lull_status_t status = lull__dir_sync(dir);
    if (status == LULL_OK)
        status =
            each((sweep_t){dir, run_id, 0, leave_old, NULL, 0, 0}, sweep_name);
    if (status == LULL_OK)
        status = lull__dir_sync(dir);
    if (status == LULL_OK)
        status =
            each((sweep_t){lull, run_id, 0, leave_old, NULL, 0, 0}, sweep_note);
    return status;
}
