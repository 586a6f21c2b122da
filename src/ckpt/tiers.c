/* Tiers: opening, what each wants of the one before, retention. */
#include "tiers.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "engine.h"
#include "note.h"
#include "parts.h"

#define MARK_GRACE_S 10.0 /* for caches of directories on shared disks */

/* ---- opening, rank 0 ---- */

static const lull_ckpt_tier_t *option(const lull_ckpt_options_t *options,
                                      size_t i) {
    const char *at = (const char *)options->tiers;
    return (const lull_ckpt_tier_t *)(const void *)(at +
                                                    i * options->tiers[0].size);
}

static void let_go(lull__tier_home_t *home) {
    if (home == NULL)
        return;
    lull__deleter_destroy(home->deleter); /* under the lock of the tier */
    lull__lock_drop(home->lock);
    lull__history_free(&home->history);
    lull__dir_close(&home->lull_dir);
    lull__dir_close(&home->dir);
    free(home);
}

static lull_status_t fill_home(const lull_ckpt_t *ckpt, const char *path,
                               lull__tier_home_t *home) {
    lull_status_t status = lull__dir_open(ckpt->io, path, &home->dir);
    if (status == LULL_OK)
        status = lull__dir_create(&home->dir, LULL__LULL_DIR, true);
    if (status == LULL_OK)
        status = lull__dir_open_at(&home->dir, LULL__LULL_DIR, &home->lull_dir);
    if (status == LULL_OK)
        status = lull__lock_take(&home->lull_dir, ckpt->run_id, &home->lock);
    if (status == LULL_OK)
        status = lull__sweep(&home->dir, &home->lull_dir, ckpt->run_id, false);
    if (status == LULL_OK)
        status = lull__history_scan(&home->dir, &home->history);
    lull__thread_options_t how = {ckpt->cpus, ckpt->options.cpu_count,
                                  ckpt->options.nice};
    if (status == LULL_OK)
        status = lull__deleter_create(&home->dir, &how, &home->deleter);
    return status;
}

/* Opens what is at a path, locks it, cleans it and reads it. */
static lull_status_t take(const lull_ckpt_t *ckpt, const char *path,
                          lull__tier_home_t **out) {
    char sentence[LULL__SENTENCE_MAX];
    lull__tier_home_t *home = calloc(1, sizeof *home);
    if (home == NULL)
        return lull__fail(LULL_ERR_NO_MEMORY, "opening %s", path);
    home->dir = home->lull_dir = (lull__dir_t)LULL__DIR_CLOSED;
    lull_status_t status = fill_home(ckpt, path, home);
    if (status == LULL_OK) {
        *out = home;
        return LULL_OK;
    }
    snprintf(sentence, sizeof sentence, "%s", lull_last_error());
    let_go(home);
    lull__error_set(sentence);
    return status;
}

/* Returns the old home, to be let go without the lock: that may wait for a
 * disk that is gone, and commits must not. */
static lull__tier_home_t *move_in(lull__tier_t *tier, lull__tier_home_t *home) {
    lull__tier_home_t *old = tier->home;
    tier->home = home;
    tier->dir = &home->dir;
    tier->history = &home->history;
    tier->garbage = tier->in_doubt = false;
    return old;
}

/* Of the directory that has this path now, wherever links lead. */
static lull_status_t stat_path(const lull__io_t *io, const char *path,
                               lull__io_stat_t *out) {
    lull__dir_t dir;
    lull_status_t status = lull__dir_open(io, path, &dir);
    if (status != LULL_OK)
        return status;
    int rc = io->ops->stat(io, dir.fd, "", out);
    lull__dir_close(&dir);
    return rc < 0 ? lull__fail_errno(-rc, "%s: looking failed", path) : LULL_OK;
}

static bool is_it(const lull__dir_t *dir, const lull__io_stat_t *st) {
    lull__io_stat_t own;
    return dir->io->ops->stat(dir->io, dir->fd, "", &own) >= 0 &&
           own.device == st->device && own.inode == st->inode;
}

/* Two names of one directory would drain it into itself. */
static lull_status_t check_distinct(const lull__tiers_t *tiers, size_t index,
                                    const char *path) {
    lull__io_stat_t st;
    lull_status_t status = stat_path(tiers->ckpt->io, path, &st);
    if (status != LULL_OK)
        return status;
    for (size_t i = 0; i < index; i++) {
        if (is_it(tiers->tiers[i].dir, &st))
            return lull__fail(LULL_ERR_INVALID,
                              "lull_ckpt_open: tiers: %s and %s are the same "
                              "directory",
                              tiers->tiers[i].dir->path, path);
    }
    return LULL_OK;
}

static lull_status_t open_tier(lull__tiers_t *tiers, size_t index) {
    lull_ckpt_t *ckpt = tiers->ckpt;
    const lull_ckpt_tier_t *from = option(&ckpt->options, index - 1);
    lull__tier_t *tier = &tiers->tiers[index];
    lull__tier_home_t *home;
    tier->keep_last = from->keep_last;
    tier->keep_every = from->keep_every;
    tier->files = from->files;
    lull_status_t status = lull__dir_create_path(ckpt->io, from->dir);
    if (status == LULL_OK)
        status = check_distinct(tiers, index, from->dir);
    if (status == LULL_OK)
        status = take(ckpt, from->dir, &home);
    if (status != LULL_OK)
        return status;
    (void)move_in(tier, home);
    tiers->count++;
    /* A new commit is the newest wherever it is. */
    lull__history_taken(&ckpt->history, tier->history->last);
    return LULL_OK;
}

/* What has the path of a tier now, with the record that open left in what had
 * it. */
static lull_status_t retake(const lull__tiers_t *tiers, size_t index,
                            lull__tier_home_t **out) {
    char sentence[LULL__SENTENCE_MAX];
    lull_status_t status =
        take(tiers->ckpt, tiers->tiers[index].dir->path, out);
    if (status != LULL_OK)
        return status;
    status = lull__tiers_record(tiers, index, &(*out)->lull_dir);
    if (status != LULL_OK) {
        snprintf(sentence, sizeof sentence, "%s", lull_last_error());
        let_go(*out);
        lull__error_set(sentence);
    }
    return status;
}

lull_status_t lull__tiers_revive(lull__tiers_t *tiers, size_t index) {
    lull_ckpt_t *ckpt = tiers->ckpt;
    lull__tier_t *tier = &tiers->tiers[index];
    lull__io_stat_t st;
    const char *path = tier->dir->path;
    lull_status_t status = stat_path(ckpt->io, path, &st);
    if (status == LULL_ERR_NOT_FOUND)
        return lull__fail(status, "%s: the tier is gone", path);
    if (status != LULL_OK)
        return status;
    if (is_it(tier->dir, &st) && lull__dir_has(tier->dir, LULL__LULL_DIR))
        return LULL_OK;
    lull__tier_home_t *home;
    status = retake(tiers, index, &home);
    if (status != LULL_OK)
        return status;
    pthread_mutex_lock(&tiers->lock);
    lull__tier_home_t *old = move_in(tier, home);
    pthread_mutex_unlock(&tiers->lock);
    let_go(old);
    if (index == 1) /* it may be another one, that has it not */
        tiers->order.drained = (lull__history_row_t){0};
    return LULL_OK;
}

/* Rank 0's marks, that of the first directory last: who sees it but not
 * another one will not see that. */
static lull_status_t leave_marks(lull__tiers_t *tiers) {
    lull_ckpt_t *ckpt = tiers->ckpt;
    lull_status_t status = LULL_OK;
    if (ckpt->options.world == 1)
        return LULL_OK;
    for (size_t i = tiers->count; status == LULL_OK && i-- > 0;) {
        lull__entry_name_t name;
        lull__note_t note = {.kind = "tier", .number = i};
        snprintf(note.run_id, sizeof note.run_id, "%s", ckpt->run_id);
        lull__note_tier(name, ckpt->run_id, i);
        status = lull__note_write(i > 0 ? &tiers->tiers[i].home->lull_dir
                                        : &ckpt->lull_dir,
                                  name, &note);
    }
    return status;
}

/* With the engine's own directory. */
static lull_status_t create(lull_ckpt_t *ckpt) {
    lull__tiers_t *tiers = calloc(1, sizeof *tiers);
    if (tiers == NULL)
        return lull__fail(LULL_ERR_NO_MEMORY, "opening tiers");
    pthread_mutex_init(&tiers->lock, NULL);
    pthread_mutex_init(&tiers->naming, NULL);
    ckpt->tiers = tiers;
    tiers->ckpt = ckpt;
    tiers->count = 1;
    tiers->tiers[0] = (lull__tier_t){.dir = &ckpt->dir,
                                     .history = &ckpt->history,
                                     .keep_last = ckpt->options.keep_last,
                                     .keep_every = ckpt->options.keep_every};
    return LULL_OK;
}

lull_status_t lull__tiers_open(lull_ckpt_t *ckpt) {
    lull_status_t status = create(ckpt);
    if (status != LULL_OK)
        return status;
    lull__tiers_t *tiers = ckpt->tiers;
    for (size_t i = 0; status == LULL_OK && i < ckpt->options.tier_count; i++)
        status = open_tier(tiers, i + 1);
    for (size_t i = 0; status == LULL_OK && i < tiers->count; i++)
        status = lull__tiers_record(tiers, i,
                                    i == 0 ? &ckpt->lull_dir
                                           : &tiers->tiers[i].home->lull_dir);
    if (status == LULL_OK)
        status = leave_marks(tiers);
    if (status == LULL_OK && ckpt->place_count > 1)
        status = lull__parts_order(tiers);
    ckpt->stats.drain_pending = lull__tiers_pending(tiers);
    return status;
}

/* ---- the other ranks ---- */

lull_status_t lull__tiers_notes(const lull__io_t *io, const char *path,
                                lull__dir_t *out) {
    lull__dir_t dir;
    lull_status_t status = lull__dir_open(io, path, &dir);
    if (status != LULL_OK)
        return status;
    status = lull__dir_open_at(&dir, LULL__LULL_DIR, out);
    lull__dir_close(&dir);
    return status;
}

/* Is the mark there before the deadline? */
static lull_status_t wait_mark(lull_ckpt_t *ckpt, const char *path,
                               size_t index, double deadline) {
    lull__entry_name_t name;
    lull__note_tier(name, ckpt->run_id, index);
    for (double begin = lull__now();;) {
        lull__dir_t lull = LULL__DIR_CLOSED;
        lull__note_t note;
        bool late = lull__now() > deadline; /* before it looks */
        lull_status_t status = lull__tiers_notes(ckpt->io, path, &lull);
        if (status == LULL_OK)
            status = lull__note_read(&lull, name, &note);
        lull__dir_close(&lull);
        if (status != LULL_ERR_NOT_FOUND || late)
            return status;
        (void)lull__engine_nap(ckpt, begin);
    }
}

lull_status_t lull__tiers_probe(lull_ckpt_t *ckpt) {
    const lull_ckpt_options_t *options = &ckpt->options;
    lull_status_t status = LULL_OK;
    if (options->agree == NULL) /* else all know that rank 0 is there */
        status = wait_mark(ckpt, ckpt->dir_path, 0,
                           lull__now() + options->commit_timeout_s);
    if (status == LULL_ERR_NOT_FOUND)
        return lull__fail(LULL_ERR_TIMEOUT,
                          "%s: rank 0 left no mark there: it did not open, or "
                          "without tiers, or this rank sees another directory",
                          ckpt->dir_path);
    double grace = options->commit_timeout_s < MARK_GRACE_S
                       ? options->commit_timeout_s
                       : MARK_GRACE_S;
    for (size_t i = 0; status == LULL_OK && i < options->tier_count; i++) {
        const char *path = option(options, i)->dir;
        status = wait_mark(ckpt, path, i + 1, lull__now() + grace);
        if (status == LULL_ERR_NOT_FOUND)
            status = lull__fail(LULL_ERR_NOT_FOUND,
                                "tier %s: rank %" PRIu32
                                " does not see what rank 0 sees there: a tier "
                                "must be one directory for all ranks",
                                path, options->rank);
    }
    return status;
}

/* A slower tier, of which only path and rules are wanted. */
static lull_status_t know_tier(lull__tiers_t *tiers, size_t index) {
    const lull_ckpt_tier_t *from = option(&tiers->ckpt->options, index - 1);
    lull__tier_home_t *home = calloc(1, sizeof *home);
    if (home == NULL)
        return lull__fail(LULL_ERR_NO_MEMORY, "opening tiers");
    home->dir = home->lull_dir = (lull__dir_t)LULL__DIR_CLOSED;
    (void)move_in(&tiers->tiers[index], home);
    tiers->tiers[index].keep_last = from->keep_last;
    tiers->tiers[index].keep_every = from->keep_every;
    tiers->tiers[index].files = from->files;
    tiers->count++;
    return lull__dir_open(tiers->ckpt->io, from->dir, &home->dir);
}

lull_status_t lull__tiers_follow(lull_ckpt_t *ckpt) {
    lull_status_t status = create(ckpt);
    if (status != LULL_OK)
        return status;
    lull__tiers_t *tiers = ckpt->tiers;
    tiers->follows = tiers->idle = true;
    for (size_t i = 0; status == LULL_OK && i < ckpt->options.tier_count; i++)
        status = know_tier(tiers, i + 1);
    return status == LULL_OK ? lull__tiers_record(tiers, 0, &ckpt->lull_dir)
                             : status;
}

/* ---- what is wanted ---- */

/* The highest seq of rows [0, *at) that count; 0: none. */
static uint64_t top_seq(const lull__history_t *history, size_t *at) {
    while (*at > 0 && history->rows[*at - 1].partly)
        --*at;
    return *at > 0 ? history->rows[*at - 1].seq : 0;
}

/* Are at least `most` distinct checkpoints of any tier newer? Histories are
 * ascending: they are merged from their ends. */
static bool has_newer(const lull__tiers_t *tiers, uint64_t seq, uint64_t most) {
    size_t at[LULL_CKPT_TIERS_MAX + 1];
    for (size_t t = 0; t < tiers->count; t++)
        at[t] = tiers->tiers[t].history->count;
    for (uint64_t newer = 0; newer < most; newer++) {
        uint64_t top = 0;
        for (size_t t = 0; t < tiers->count; t++) {
            uint64_t one = top_seq(tiers->tiers[t].history, &at[t]);
            top = one > top ? one : top;
        }
        if (top <= seq)
            return false;
        for (size_t t = 0; t < tiers->count; t++)
            while (at[t] > 0 &&
                   tiers->tiers[t].history->rows[at[t] - 1].seq >= top)
                at[t]--;
    }
    return true;
}

bool lull__tiers_want(const lull__tiers_t *tiers, size_t index,
                      const lull__history_row_t *row) {
    if (tiers->follows)
        return row->wanted;
    if (row->stuck || row->partly)
        return false;
    for (; index < tiers->count; index++) {
        const lull__tier_t *tier = &tiers->tiers[index];
        if (lull__history_find(tier->history, row) != NULL)
            return false;
        if (tier->keep_last == 0 ||
            (tier->keep_every != 0 && row->step % tier->keep_every == 0) ||
            !has_newer(tiers, row->seq, tier->keep_last))
            return true;
    }
    return false;
}

bool lull__tiers_block(const lull__tiers_t *tiers, size_t index,
                       const lull__history_row_t *row) {
    const lull__history_t *history = tiers->tiers[index].history;
    for (size_t i = 0; i < history->count; i++)
        if (history->rows[i].step == row->step &&
            history->rows[i].seq >= row->seq)
            return true;
    return false;
}

uint64_t lull__tiers_pending(const lull__tiers_t *tiers) {
    uint64_t pending = 0;
    for (size_t t = 0; t + 1 < tiers->count; t++) {
        const lull__history_t *history = tiers->tiers[t].history;
        for (size_t i = 0; i < history->count; i++)
            pending += lull__tiers_want(tiers, t + 1, &history->rows[i]);
    }
    return pending;
}

/* ---- retention ---- */

/* With tiers->lock held: a list of what may go, to be freed; *count rows. */
static lull__history_row_t *rows_to_go(lull__tiers_t *tiers, size_t index,
                                       const lull__retention_t *what,
                                       size_t *count) {
    const lull__history_t *history = tiers->tiers[index].history;
    lull__history_row_t *rows = calloc(history->count + 1, sizeof *rows);
    *count = 0;
    for (size_t i = 0; rows != NULL && i < history->count; i++)
        if (!lull__retention_keeps(what, history, i) &&
            !lull__tiers_want(tiers, index + 1, &history->rows[i]))
            rows[(*count)++] = history->rows[i];
    return rows;
}

/* What a reader holds stays for the next time. */
static void delete_row(lull__tiers_t *tiers, size_t index,
                       const lull__retention_t *what,
                       const lull__history_row_t *row) {
    lull__entry_name_t name;
    lull__naming_step(name, row->step);
    lull_status_t status = lull__trash(what, name, row->step);
    if (status == LULL_OK || status == LULL_ERR_NOT_FOUND) {
        pthread_mutex_lock(&tiers->lock);
        lull__history_drop(tiers->tiers[index].history, row);
        pthread_mutex_unlock(&tiers->lock);
    } else if (status != LULL_ERR_BUSY) {
        lull__log(LULL_LOG_WARN, "an old checkpoint is not deleted: %s",
                  lull_last_error());
    }
}

/* The committer and the drainer count: what is counted last is told last. */
static void count_pending(lull__tiers_t *tiers, bool wake) {
    lull_ckpt_t *ckpt = tiers->ckpt;
    pthread_mutex_lock(&tiers->lock);
    uint64_t pending = lull__tiers_pending(tiers);
    pthread_mutex_lock(&ckpt->lock);
    ckpt->stats.drain_pending = pending;
    if (wake)
        lull__drain_wake(tiers, true);
    pthread_mutex_unlock(&ckpt->lock);
    pthread_mutex_unlock(&tiers->lock);
}

void lull__tiers_retain(lull__tiers_t *tiers, size_t index, uint64_t save) {
    lull__tier_t *tier = &tiers->tiers[index];
    lull__retention_t what = {.dir = tier->dir,
                              .run_id = tiers->ckpt->run_id,
                              .save = save,
                              .keep_last = tier->keep_last,
                              .keep_every = tier->keep_every,
                              .deleter = index == 0 ? tiers->ckpt->deleter
                                                    : tier->home->deleter};
    size_t count;
    if (index == 0)
        pthread_mutex_lock(&tiers->naming);
    pthread_mutex_lock(&tiers->lock);
    lull__history_row_t *rows = rows_to_go(tiers, index, &what, &count);
    pthread_mutex_unlock(&tiers->lock);
    for (size_t i = 0; i < count; i++)
        delete_row(tiers, index, &what, &rows[i]);
    if (index == 0)
        pthread_mutex_unlock(&tiers->naming);
    free(rows);
    count_pending(tiers, false);
}

void lull__tiers_committed(lull__tiers_t *tiers) {
    count_pending(tiers, true);
}

/* ---- closing ---- */

void lull__tiers_unlock_dirs(lull__tiers_t *tiers) {
    for (size_t i = 1; tiers != NULL && i < tiers->count; i++) {
        lull__deleter_destroy(tiers->tiers[i].home->deleter);
        tiers->tiers[i].home->deleter = NULL;
        lull__lock_drop(tiers->tiers[i].home->lock);
        tiers->tiers[i].home->lock = NULL;
    }
}

void lull__tiers_destroy(lull__tiers_t *tiers) {
    if (tiers == NULL)
        return;
    for (size_t i = 0; i < tiers->count; i++) {
        let_go(tiers->tiers[i].home);
        free(tiers->tiers[i].sentence);
    }
    pthread_mutex_destroy(&tiers->lock);
    pthread_mutex_destroy(&tiers->naming);
    free(tiers);
}
