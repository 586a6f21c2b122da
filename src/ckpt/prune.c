/* lull_ckpt_prune: retention of a directory that no run has. Which tiers are
 * behind it the last run wrote down: what they lack must not go. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "lock.h"
#include "note.h"
#include "tiers.h"

/* ---- the record ---- */

/* The tier behind another one, as a note: its directory, and how it keeps. */
static lull_status_t describe(const lull__tiers_t *tiers, size_t index,
                              lull__note_t *out) {
    const lull__tier_t *tier = &tiers->tiers[index];
    char *real = realpath(tier->dir->path, NULL);
    const char *path = real != NULL ? real : tier->dir->path;
    lull_status_t status = LULL_OK;
    *out = (lull__note_t){
        .kind = "behind", .rank = tier->keep_last, .number = tier->keep_every};
    strcpy(out->run_id, tiers->ckpt->run_id);
    if (strlen(path) >= sizeof out->text)
        status = lull__fail(LULL_ERR_INVALID,
                            "lull_ckpt_open: tiers: %.200s...: a path of more "
                            "than %zu bytes cannot be written down",
                            path, sizeof out->text - 1);
    else
        strcpy(out->text, path);
    free(real);
    return status;
}

/* The run is not compared: it is the same note for each. */
static bool is_there(const lull__dir_t *lull, const char *name,
                     const lull__note_t *note) {
    lull__note_t old;
    return lull__note_read(lull, name, &old) == LULL_OK &&
           strcmp(old.kind, note->kind) == 0 && old.rank == note->rank &&
           old.number == note->number && strcmp(old.text, note->text) == 0;
}

/* `behind` is the i-th tier behind the one with the notes. */
static lull_status_t record_one(const lull__tiers_t *tiers,
                                const lull__dir_t *lull, size_t i,
                                size_t behind, bool *changed) {
    lull__entry_name_t name;
    lull__note_t note;
    lull__note_behind(name, i);
    if (behind >= tiers->count) {
        if (!lull__dir_has(lull, name))
            return LULL_OK;
        *changed = true;
        return lull__dir_unlink(lull, name);
    }
    lull_status_t status = describe(tiers, behind, &note);
    if (status != LULL_OK || is_there(lull, name, &note))
        return status;
    *changed = true;
    return lull__note_keep(lull, name, &note);
}

lull_status_t lull__tiers_record(const lull__tiers_t *tiers, size_t index,
                                 const lull__dir_t *lull) {
    lull_status_t status = LULL_OK;
    bool changed = false;
    for (size_t i = 1; status == LULL_OK && i <= LULL_CKPT_TIERS_MAX; i++)
        status = record_one(tiers, lull, i, index + i, &changed);
    if (status == LULL_OK && changed)
        status = lull__dir_sync(lull);
    return status;
}

/* ---- pruning ---- */

/* The directory and, behind it, what the tiers have that can be read. */
typedef struct pruning {
    const lull_ckpt_prune_options_t *options;
    const char *path;
    lull__dir_t dir, lull;
    lull__tiers_t tiers;
    lull__history_t histories[LULL_CKPT_TIERS_MAX + 1];
    char *behind[LULL_CKPT_TIERS_MAX + 1]; /* paths */
} pruning_t;

/* A tier that cannot be read has nothing. */
static lull_status_t look_behind(pruning_t *p, const lull__note_t *note) {
    size_t index = p->tiers.count;
    lull__dir_t dir;
    p->behind[index] = strdup(note->text);
    if (p->behind[index] == NULL)
        return lull__fail(LULL_ERR_NO_MEMORY, "%s: its tiers", p->path);
    p->tiers.tiers[index] = (lull__tier_t){.history = &p->histories[index],
                                           .keep_last = note->rank,
                                           .keep_every = note->number};
    p->tiers.count++;
    lull_status_t status =
        lull__dir_open(lull__io_default(), p->behind[index], &dir);
    if (status == LULL_OK) {
        status = lull__history_scan(&dir, &p->histories[index]);
        lull__dir_close(&dir);
    }
    if (status == LULL_OK || status == LULL_ERR_NO_MEMORY)
        return status;
    lull__log(LULL_LOG_WARN, "a slower tier of %s: %s", p->path,
              lull_last_error());
    lull__history_free(&p->histories[index]);
    return LULL_OK;
}

static lull_status_t look(pruning_t *p, bool behind) {
    lull__history_t *own = &p->histories[0];
    lull_status_t status = lull__history_scan(&p->dir, own);
    p->tiers.tiers[0] = (lull__tier_t){.dir = &p->dir, .history = own};
    p->tiers.count = 1;
    for (size_t i = 1; behind && status == LULL_OK && i <= LULL_CKPT_TIERS_MAX;
         i++) {
        lull__entry_name_t name;
        lull__note_t note;
        lull__note_behind(name, i);
        status = lull__note_read(&p->lull, name, &note);
        if (status == LULL_ERR_NOT_FOUND) {
            status = LULL_OK;
            break;
        }
        if (status == LULL_OK)
            status = look_behind(p, &note);
    }
    /* What the engine would not drain either. */
    for (size_t i = 0; p->tiers.count > 1 && i < own->count; i++)
        own->rows[i].stuck = lull__tiers_block(&p->tiers, 1, &own->rows[i]);
    return status;
}

static lull_status_t hold(void *ctx, const lull__history_row_t *row) {
    const pruning_t *p = ctx;
    if (!lull__tiers_want(&p->tiers, 1, row))
        return LULL_OK;
    return lull__fail(LULL_ERR_BUSY,
                      "step %" PRIu64 ": %s, a slower tier, does not have it",
                      row->step, p->behind[1]);
}

static void kept(void *ctx, const lull__history_row_t *row) {
    const lull_ckpt_prune_options_t *options = ((pruning_t *)ctx)->options;
    if (options->on_keep != NULL)
        options->on_keep(options->ctx,
                         (lull_ckpt_id_t){row->seq, row->step, row->origin},
                         lull_last_error());
}

/* With the directory open. */
static lull_status_t prune(pruning_t *p, size_t *deleted) {
    lull__lock_t *lock = NULL;
    char run_id[LULL_RUN_ID_MAX];
    lull_status_t status = LULL_OK;
    lull__run_id_make(run_id);
    if (lull__dir_has(&p->dir, LULL__MANIFEST))
        status = lull__fail(LULL_ERR_INVALID,
                            "%s: is one checkpoint, not a directory of them",
                            p->path);
    if (status == LULL_OK)
        status = lull__dir_create(&p->dir, LULL__LULL_DIR, true);
    if (status == LULL_OK)
        status = lull__dir_open_at(&p->dir, LULL__LULL_DIR, &p->lull);
    if (status == LULL_OK)
        status = lull__lock_take(&p->lull, run_id, &lock);
    if (status == LULL_OK)
        status = look(p, !p->options->undrained);
    lull__retention_t what = {.dir = &p->dir,
                              .run_id = run_id,
                              .keep_last = p->options->keep_last,
                              .keep_every = p->options->keep_every,
                              .hold = hold,
                              .kept = kept,
                              .ctx = p};
    if (status == LULL_OK)
        status = lull__retention_run(&what, &p->histories[0], deleted);
    for (size_t i = 0; i <= LULL_CKPT_TIERS_MAX; i++) {
        lull__history_free(&p->histories[i]);
        free(p->behind[i]);
    }
    lull__lock_drop(lock);
    return status;
}

lull_status_t lull_ckpt_prune(const char *path,
                              const lull_ckpt_prune_options_t *options,
                              size_t *deleted) {
    if (path == NULL || options == NULL || options->size != sizeof *options)
        return lull__fail(LULL_ERR_INVALID, "lull_ckpt_prune: %s",
                          path == NULL
                              ? "dir is NULL"
                              : "begin with LULL_CKPT_PRUNE_OPTIONS_INIT");
    if (options->keep_last == 0)
        return lull__fail(LULL_ERR_INVALID,
                          "lull_ckpt_prune: keep_last must be at least 1");
    pruning_t p = {.options = options, .path = path, .lull = LULL__DIR_CLOSED};
    lull_status_t status = lull__dir_open(lull__io_default(), path, &p.dir);
    if (status != LULL_OK)
        return status;
    status = prune(&p, deleted);
    lull__dir_close(&p.lull);
    lull__dir_close(&p.dir);
    return status;
}
