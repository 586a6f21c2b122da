/* The drainer: a thread of rank 0 that takes checkpoints, the newest first,
 * from each tier to the next one. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "carry.h"
#include "engine.h"
#include "parts.h"

#define BACK_OFF_S 1.0
#define BACK_OFF_MAX_S 300.0

/* A checkpoint that tier `from + 1` wants. */
typedef struct job {
    lull__tiers_t *tiers;
    size_t from;
    lull__history_row_t row;
    bool parts; /* other places have parts of it */
    bool gone;  /* it is not where it was, or not all of it */
} job_t;

/* ---- choosing ---- */

/* With tiers->lock held: the newest row of tier `from` that the next wants. */
static bool choose_from(lull__tiers_t *tiers, size_t from, job_t *job) {
    lull__history_t *history = tiers->tiers[from].history;
    const lull__tier_t *to = &tiers->tiers[from + 1];
    for (size_t i = history->count; i-- > 0;) {
        lull__history_row_t *row = &history->rows[i];
        if (!lull__tiers_want(tiers, from + 1, row))
            continue;
        if (lull__tiers_block(tiers, from + 1, row)) {
            row->stuck = true;
            lull__log(LULL_LOG_WARN,
                      "step %" PRIu64 " with seq %" PRIu64
                      " stays in %s alone: %s has a newer one, or one of "
                      "another run, under this step",
                      row->step, row->seq, tiers->tiers[from].dir->path,
                      to->dir->path);
            continue;
        }
        *job = (job_t){tiers, from, *row, false, false};
        return true;
    }
    return false;
}

/* The newest over all tiers that may be tried now; *wake: when another one
 * may. */
static bool choose(lull__tiers_t *tiers, const double *retry_s, job_t *job,
                   double *wake) {
    bool found = false;
    *wake = LULL__NEVER;
    pthread_mutex_lock(&tiers->lock);
    for (size_t from = 0; from + 1 < tiers->count; from++) {
        job_t one;
        if (!choose_from(tiers, from, &one))
            continue;
        if (retry_s[from + 1] > lull__now()) {
            if (retry_s[from + 1] < *wake)
                *wake = retry_s[from + 1];
            continue;
        }
        if (!found || one.row.seq > job->row.seq)
            *job = one;
        found = true;
    }
    pthread_mutex_unlock(&tiers->lock);
    return found;
}

/* ---- one drain ---- */

bool lull__drain_pace(void *ctx, uint64_t bytes) {
    lull_ckpt_t *ckpt = ctx;
    double until = bytes > 0 && ckpt->options.write_cap != 0
                       ? lull__io_queue_book(ckpt->queue, bytes)
                       : 0;
    pthread_mutex_lock(&ckpt->lock);
    ckpt->stats.drain_bytes += bytes;
    while (!ckpt->cancel && !ckpt->stop && until > lull__now())
        (void)lull__cond_wait_until(&ckpt->changed, &ckpt->lock, until);
    bool go_on = !ckpt->cancel;
    pthread_mutex_unlock(&ckpt->lock);
    if (go_on && ckpt->place_count > 1)
        go_on = lull__parts_beat(ckpt->tiers);
    return go_on;
}

/* From an open checkpoint to a published one. */
static lull_status_t copy(job_t *job, const lull_ckpt_info_t *info,
                          const lull__dir_t *partial, const char *name) {
    lull__tiers_t *tiers = job->tiers;
    lull__tier_t *to = &tiers->tiers[job->from + 1];
    lull__carry_t carry = {.info = info,
                           .to = partial,
                           .merge = to->files,
                           .threads = tiers->ckpt->options.flush_threads,
                           .direct_writes = &to->direct_writes,
                           .part = job->parts,
                           .pace = lull__drain_pace,
                           .ctx = tiers->ckpt};
    lull__place_t place = {.dir = to->dir,
                           .partial = partial,
                           .partial_name = name,
                           .run_id = tiers->ckpt->run_id,
                           .number = tiers->number,
                           .history = to->history,
                           .lock = &tiers->lock};
    lull_status_t status = LULL_OK;
    if (job->parts) {
        status = lull__parts_run(tiers, &carry, &place, &job->gone);
    } else {
        status = lull__carry_plan(&carry);
        if (status == LULL_OK)
            status = lull__carry_run(&carry);
        if (status == LULL_OK)
            status = lull__publish(&place, &carry.manifest);
    }
    lull__carry_free(&carry);
    return status;
}

static void keep_sentence(char out[LULL__SENTENCE_MAX]) {
    snprintf(out, LULL__SENTENCE_MAX, "%s", lull_last_error());
}

static lull_status_t into_partial(job_t *job, const lull_ckpt_info_t *info) {
    lull__tiers_t *tiers = job->tiers;
    lull__tier_t *to = &tiers->tiers[job->from + 1];
    lull__entry_name_t name;
    lull__dir_t partial = LULL__DIR_CLOSED;
    char sentence[LULL__SENTENCE_MAX];
    lull__naming_partial(name, job->row.step, tiers->ckpt->run_id,
                         ++tiers->number);
    lull_status_t status = lull__dir_create(to->dir, name, false);
    if (status == LULL_OK)
        status = lull__dir_open_at(to->dir, name, &partial);
    if (status == LULL_OK)
        status = copy(job, info, &partial, name);
    lull__dir_close(&partial);
    keep_sentence(sentence);
    if (status == LULL_ERR_DURABILITY_UNKNOWN)
        to->in_doubt = true;
    else if (status == LULL_OK)
        to->in_doubt = false; /* what was renamed before is synced, too */
    else if (lull__dir_remove_tree(to->dir, name) != LULL_OK)
        to->garbage = true;
    lull__error_set(sentence);
    return status;
}

/* Is it the newest there? */
static bool is_newest(lull__tiers_t *tiers, const lull__tier_t *tier,
                      const lull__history_row_t *row) {
    pthread_mutex_lock(&tiers->lock);
    const lull__history_t *history = tier->history;
    bool newest =
        history->count > 0 && history->rows[history->count - 1].seq == row->seq;
    pthread_mutex_unlock(&tiers->lock);
    return newest;
}

static bool failed_before(lull__tiers_t *tiers, const lull__tier_t *tier) {
    pthread_mutex_lock(&tiers->ckpt->lock);
    bool failed = tier->failures > 0;
    pthread_mutex_unlock(&tiers->ckpt->lock);
    return failed;
}

static lull_status_t drain(job_t *job) {
    lull__tiers_t *tiers = job->tiers;
    const lull__tier_t *from = &tiers->tiers[job->from];
    lull__tier_t *to = &tiers->tiers[job->from + 1];
    lull_ckpt_info_t *info;
    lull__entry_name_t home;
    lull__naming_step(home, job->row.step);
    lull_status_t status = LULL_OK;
    if (failed_before(tiers, to))
        status = lull__tiers_revive(tiers, job->from + 1);
    if (status != LULL_OK)
        return status;
    if (to->garbage && !to->in_doubt)
        to->garbage = lull__sweep_own(to->dir, tiers->ckpt->run_id,
                                      tiers->number + 1) != LULL_OK;
    lull__deleter_wait(to->home->deleter); /* then there is what room can be */
    status = lull__reader_open(
        from->dir, home,
        (lull_ckpt_id_t){job->row.seq, job->row.step, job->row.origin}, &info);
    job->gone = status == LULL_ERR_NOT_FOUND;
    if (status != LULL_OK)
        return status;
    job->parts = lull__parts_has(tiers, job->from, info);
    job->gone = info->elsewhere > 0 && !job->parts;
    status = job->gone ? lull__fail(LULL_ERR_NOT_FOUND,
                                    "%s: files of it are in other places",
                                    info->dir.path)
                       : into_partial(job, info);
    lull_ckpt_info_destroy(info);
    if (status == LULL_OK && is_newest(tiers, to, &job->row))
        lull__publish_latest(to->dir, job->row.step);
    return status;
}

/* ---- what became of it ---- */

/* Trying again is for nothing: it is the old copy that is bad, or gone. */
static bool is_final(lull_status_t status) {
    return status == LULL_ERR_CORRUPT || status == LULL_ERR_VERSION;
}

static void mark_row(const job_t *job, bool stuck) {
    lull__tiers_t *tiers = job->tiers;
    lull__history_t *history = tiers->tiers[job->from].history;
    pthread_mutex_lock(&tiers->lock);
    lull__history_row_t *row = lull__history_find(history, &job->row);
    if (row != NULL)
        row->stuck = stuck;
    pthread_mutex_unlock(&tiers->lock);
}

/* With the engine's lock held. True: it is news. */
static bool note_failure(lull__tier_t *to, lull_status_t status,
                         const char *sentence) {
    bool news = to->status != status || to->sentence == NULL ||
                strcmp(to->sentence, sentence) != 0;
    double wait = BACK_OFF_S;
    for (unsigned i = 0; i < to->failures && wait < BACK_OFF_MAX_S; i++)
        wait *= 2;
    to->failures++;
    to->retry_s = lull__now() + (wait < BACK_OFF_MAX_S ? wait : BACK_OFF_MAX_S);
    to->status = status;
    to->stuck = is_final(status);
    if (to->stuck) /* others may go */
        to->retry_s = 0;
    free(to->sentence);
    to->sentence = strdup(sentence);
    return news;
}

static void failed(const job_t *job, lull_status_t status) {
    lull_ckpt_t *ckpt = job->tiers->ckpt;
    lull__tier_t *to = &job->tiers->tiers[job->from + 1];
    char sentence[LULL__SENTENCE_MAX];
    snprintf(sentence, sizeof sentence,
             "step %" PRIu64 " is in %s and not drained to %s: %.600s",
             job->row.step, job->tiers->tiers[job->from].dir->path,
             to->dir->path, lull_last_error());
    pthread_mutex_lock(&ckpt->lock);
    bool news = note_failure(to, status, sentence);
    ckpt->stats.drain_failed++;
    pthread_mutex_unlock(&ckpt->lock);
    lull__log(news ? LULL_LOG_WARN : LULL_LOG_INFO, "%s%s", sentence,
              is_final(status) ? "" : "; it is tried again");
}

static void succeeded(const job_t *job, double seconds) {
    lull__tiers_t *tiers = job->tiers;
    lull_ckpt_t *ckpt = tiers->ckpt;
    lull__tier_t *to = &tiers->tiers[job->from + 1];
    pthread_mutex_lock(&ckpt->lock);
    bool again = to->failures > 0 && !to->stuck;
    to->failures = 0;
    to->retry_s = 0;
    if (!to->stuck) {
        to->status = LULL_OK;
        free(to->sentence);
        to->sentence = NULL;
    }
    ckpt->stats.drained++;
    pthread_mutex_unlock(&ckpt->lock);
    lull__log(again ? LULL_LOG_WARN : LULL_LOG_INFO,
              "step %" PRIu64 " is drained to %s in %.1f s%s", job->row.step,
              to->dir->path, seconds, again ? ": it works again" : "");
}

static void run(job_t *job) {
    lull__tiers_t *tiers = job->tiers;
    lull_ckpt_t *ckpt = tiers->ckpt;
    double begin = lull__now();
    lull_status_t status = drain(job);
    double seconds = lull__now() - begin;
    pthread_mutex_lock(&ckpt->lock);
    ckpt->stats.drain_s += seconds;
    bool cancel = ckpt->cancel;
    pthread_mutex_unlock(&ckpt->lock);
    if (cancel && status != LULL_OK)
        return;
    if (job->gone || is_final(status))
        mark_row(job, true);
    if (status == LULL_OK)
        succeeded(job, seconds);
    else if (job->gone)
        lull__log(LULL_LOG_WARN, "not drained: %s", lull_last_error());
    else
        failed(job, status);
    lull__tiers_retain(tiers, job->from + 1, tiers->number);
    lull__tiers_retain(tiers, job->from, tiers->number);
}

/* ---- the thread ---- */

void lull__drain_wake(lull__tiers_t *tiers, bool again) {
    for (size_t i = 0; again && i < tiers->count; i++)
        tiers->tiers[i].retry_s = 0;
    tiers->ticket++;
    tiers->idle = false;
    pthread_cond_broadcast(&tiers->ckpt->changed);
}

lull_status_t lull__drain_report(lull__tiers_t *tiers) {
    lull_status_t status = LULL_OK;
    pthread_mutex_lock(&tiers->ckpt->lock);
    for (size_t i = 1; status == LULL_OK && i < tiers->count; i++) {
        lull__tier_t *tier = &tiers->tiers[i];
        if (tier->status == LULL_OK)
            continue;
        status = tier->status;
        lull__error_set(tier->sentence ? tier->sentence
                                       : "a drain failed (no memory to say "
                                         "why)");
        if (tier->stuck)
            tier->status = LULL_OK; /* told once */
    }
    pthread_mutex_unlock(&tiers->ckpt->lock);
    return status;
}

/* Waits until there is a reason to look again. False: never. */
static bool wait_for_reason(lull__tiers_t *tiers, uint64_t seen, double wake,
                            bool last) {
    lull_ckpt_t *ckpt = tiers->ckpt;
    pthread_mutex_lock(&ckpt->lock);
    bool in_time = true;
    while (in_time && !ckpt->cancel && !ckpt->stop && tiers->ticket == seen) {
        if (!tiers->idle)
            pthread_cond_broadcast(&ckpt->changed);
        tiers->idle = true;
        in_time = lull__cond_wait_until(&ckpt->changed, &ckpt->lock, wake);
    }
    bool go_on = !ckpt->cancel && !(last && tiers->ticket == seen);
    pthread_mutex_unlock(&ckpt->lock);
    return go_on;
}

void *lull__drain_thread(void *arg) {
    lull_ckpt_t *ckpt = arg;
    lull__tiers_t *tiers = ckpt->tiers;
    bool last = false, cancel = false;
    while (!cancel) {
        double retry_s[LULL_CKPT_TIERS_MAX + 1], wake;
        job_t job;
        pthread_mutex_lock(&ckpt->lock);
        /* When the engine closes, what failed is tried once more. */
        if (ckpt->stop && !last)
            lull__drain_wake(tiers, true);
        last = ckpt->stop;
        cancel = ckpt->cancel;
        uint64_t seen = tiers->ticket;
        for (size_t i = 0; i < tiers->count; i++)
            retry_s[i] = tiers->tiers[i].retry_s;
        pthread_mutex_unlock(&ckpt->lock);
        if (!cancel && choose(tiers, retry_s, &job, &wake))
            run(&job);
        else if (!cancel && !wait_for_reason(tiers, seen, wake, last))
            break;
    }
    lull__parts_end(tiers);
    pthread_mutex_lock(&ckpt->lock);
    tiers->idle = true;
    pthread_cond_broadcast(&ckpt->changed);
    pthread_mutex_unlock(&ckpt->lock);
    return NULL;
}
