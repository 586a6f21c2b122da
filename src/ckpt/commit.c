/* Committer: rank 0 publishes what all voted for, the others learn of it. */
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agree.h"
#include "base/log.h"
#include "collect.h"
#include "engine.h"
#include "note.h"
#include "publish.h"
#include "tiers.h"

#define VERDICTS_KEPT 64 /* at least; others may not have read them yet */

static bool finished(const lull_ckpt_request_t *save) {
    return save->finished;
}

/* ---- ranks but 0 ---- */

/* A rank that has not voted needs its files no more: on a full disk they make
 * room for a note. */
static bool drop_files(lull_ckpt_request_t *save) {
    if (save->voted || save->dir.fd < 0)
        return false;
    for (size_t f = 0; f < save->file_count; f++)
        (void)lull__dir_unlink(&save->dir, save->files[f].name);
    return save->file_count > 0;
}

/* The sentence of this thread as a note to the coordinator. */
static void leave_abort(lull_ckpt_request_t *save, lull_status_t status) {
    lull_ckpt_t *ckpt = save->ckpt;
    lull__entry_name_t name;
    lull__note_t note = {.kind = "abort",
                         .number = save->number,
                         .rank = ckpt->options.rank,
                         .status = status};
    snprintf(note.run_id, sizeof note.run_id, "%s", ckpt->run_id);
    snprintf(note.text, sizeof note.text, "%s", lull_last_error());
    lull__note_abort(name, ckpt->run_id, save->number, ckpt->options.rank);
    lull_status_t told = lull__engine_dirs(ckpt);
    if (told == LULL_OK)
        told = lull__note_write(&ckpt->lull_dir, name, &note);
    if (told == LULL_ERR_NO_SPACE && drop_files(save))
        told = lull__note_write(&ckpt->lull_dir, name, &note);
    /* Where all of it was deleted, rank 0 knows. */
    if (told != LULL_OK && lull__engine_there(ckpt) == LULL_OK)
        lull__log(LULL_LOG_WARN, "rank %" PRIu32 " could not tell rank 0: %s",
                  ckpt->options.rank, lull_last_error());
}

static lull_status_t no_verdict(lull_ckpt_request_t *save) {
    return lull__fail(LULL_ERR_OUTCOME_UNKNOWN,
                      "step %" PRIu64 ": rank %" PRIu32
                      " voted, and rank 0 gave no verdict within %.0f s",
                      save->step, save->ckpt->options.rank,
                      save->ckpt->options.commit_timeout_s);
}

static lull_status_t no_place(lull_ckpt_request_t *save) {
    char why[LULL__SENTENCE_MAX];
    snprintf(why, sizeof why, "%s", lull_last_error());
    return lull__fail(LULL_ERR_OUTCOME_UNKNOWN,
                      "step %" PRIu64 ": no verdict can come: %.700s",
                      save->step, why);
}

/* Waits for the verdict. The coordinator's own time runs from its own vote, so
 * a little more is given here. */
static lull_status_t wait_verdict(lull_ckpt_request_t *save,
                                  lull__note_t *note) {
    lull_ckpt_t *ckpt = save->ckpt;
    double begin = lull__now();
    double deadline = begin + 1.25 * ckpt->options.commit_timeout_s + 1;
    lull__entry_name_t name;
    lull__note_verdict(name, ckpt->run_id, save->number);
    for (;;) {
        bool late = lull__now() > deadline; /* before it looks */
        lull_status_t status = lull__note_read(&ckpt->lull_dir, name, note);
        if (status == LULL_OK)
            return LULL_OK;
        if (lull__engine_there(ckpt) != LULL_OK)
            return no_place(save);
        if (late)
            return no_verdict(save);
        if (!lull__engine_nap(ckpt, begin))
            return lull__fail(LULL_ERR_CANCELLED,
                              "the engine was destroyed before the verdict");
    }
}

static lull_status_t verdict_status(lull_ckpt_request_t *save,
                                    const lull__note_t *note) {
    if (note->status == LULL_OK)
        return LULL_OK;
    lull_status_t status = note->status == LULL_ERR_DURABILITY_UNKNOWN
                               ? LULL_ERR_DURABILITY_UNKNOWN
                               : LULL_ERR_ABORTED;
    return lull__note_fail(status, save->step, note->text);
}

static void follow_failed(lull_ckpt_request_t *save, lull_status_t status) {
    lull__error_set(save->sentence ? save->sentence : lull_last_error());
    leave_abort(save, status);
}

static void follow(lull_ckpt_request_t *save) {
    lull__note_t note;
    pthread_mutex_lock(&save->ckpt->lock);
    lull_status_t mine = save->status;
    pthread_mutex_unlock(&save->ckpt->lock);
    if (mine != LULL_OK && !save->voted) {
        /* Nothing can be published. */
        if (mine != LULL_ERR_ABORTED)
            follow_failed(save, mine);
        return;
    }
    if (mine != LULL_OK && mine != LULL_ERR_CANCELLED)
        follow_failed(save, mine); /* if rank 0 sees it in time */
    lull_status_t status = wait_verdict(save, &note);
    if (status == LULL_OK)
        status = verdict_status(save, &note);
    if (status == LULL_ERR_ABORTED)
        lull__save_amend(save, status);
    else if (status != LULL_OK)
        lull__save_fail(save, status);
}

/* ---- rank 0 ---- */

static void publish_verdict(lull_ckpt_request_t *save, lull_status_t status,
                            uint64_t seq) {
    lull_ckpt_t *ckpt = save->ckpt;
    lull__entry_name_t name;
    lull__note_t note = {.kind = "verdict",
                         .number = save->number,
                         .status = status,
                         .seq = seq};
    if (ckpt->options.world == 1)
        return; /* nobody asks */
    snprintf(note.run_id, sizeof note.run_id, "%s", ckpt->run_id);
    if (status != LULL_OK)
        snprintf(note.text, sizeof note.text, "%s", lull_last_error());
    lull__note_verdict(name, ckpt->run_id, save->number);
    if (lull__note_write_spare(&ckpt->lull_dir, name, &note) != LULL_OK &&
        lull__engine_there(ckpt) == LULL_OK)
        lull__log(LULL_LOG_ERROR, "the others cannot be told the verdict: %s",
                  lull_last_error());
}

/* A verdict may go when every rank has read it: a rank that voted for this
 * save has at most max_pending undecided ones. Where saves fail, a rank that is
 * further behind than the verdicts kept hangs, and learns no more than that. */
static void forget_verdicts(lull_ckpt_request_t *save) {
    lull_ckpt_t *ckpt = save->ckpt;
    uint64_t keep = 2 * (uint64_t)ckpt->options.max_pending;
    lull__entry_name_t name;
    if (keep < VERDICTS_KEPT)
        keep = VERDICTS_KEPT;
    if (ckpt->options.world == 1)
        return;
    while (ckpt->verdicts_begin + keep < save->number) {
        lull__note_verdict(name, ckpt->run_id, ckpt->verdicts_begin++);
        (void)lull__dir_unlink(&ckpt->lull_dir, name);
    }
}

static void keep_sentence(char out[LULL__SENTENCE_MAX]) {
    snprintf(out, LULL__SENTENCE_MAX, "%s", lull_last_error());
}

/* The partial directory goes, at once or when nobody writes there any more. */
static void discard(lull_ckpt_request_t *save) {
    lull__dir_close(&save->dir);
    if (lull__dir_remove_tree(&save->ckpt->dir, save->dir_name) != LULL_OK)
        save->ckpt->garbage = true;
}

static void collect_garbage(lull_ckpt_t *ckpt, uint64_t before) {
    if (ckpt->garbage && !ckpt->in_doubt)
        ckpt->garbage =
            lull__sweep_own(&ckpt->dir, ckpt->run_id, before) != LULL_OK;
}

static lull_status_t lead_commit(lull_ckpt_request_t *save, uint64_t *seq) {
    lull__manifest_t manifest;
    lull_status_t status = lull__collect(save, &manifest);
    if (status != LULL_OK)
        return status;
    *seq = manifest.seq;
    lull__place_t place = {.dir = &save->ckpt->dir,
                           .partial = &save->dir,
                           .partial_name = save->dir_name,
                           .run_id = save->ckpt->run_id,
                           .number = save->number,
                           .history = &save->ckpt->history};
    lull__tiers_t *tiers = save->ckpt->tiers;
    if (tiers != NULL) {
        place.lock = &tiers->lock;
        pthread_mutex_lock(&tiers->naming);
    }
    status = lull__publish(&place, &manifest);
    if (tiers != NULL)
        pthread_mutex_unlock(&tiers->naming);
    lull__collect_free(&manifest);
    return status;
}

static void after_commit(lull_ckpt_request_t *save) {
    lull_ckpt_t *ckpt = save->ckpt;
    lull__retention_t what = {.dir = &ckpt->dir,
                              .run_id = ckpt->run_id,
                              .save = save->number,
                              .keep_last = ckpt->options.keep_last,
                              .keep_every = ckpt->options.keep_every,
                              .deleter = ckpt->deleter};
    if (ckpt->tiers != NULL)
        lull__tiers_retain(ckpt->tiers, 0, save->number);
    else if (lull__retention_run(&what, &ckpt->history, NULL) != LULL_OK)
        lull__log(LULL_LOG_WARN, "an old checkpoint is not deleted: %s",
                  lull_last_error());
}

static void lead(lull_ckpt_request_t *save) {
    lull_ckpt_t *ckpt = save->ckpt;
    uint64_t seq = 0;
    char sentence[LULL__SENTENCE_MAX];
    lull_status_t status = lull__save_status(save);
    if (status == LULL_OK)
        status = lead_commit(save, &seq);
    else
        lull__error_set(save->sentence ? save->sentence : "no memory");
    keep_sentence(sentence);
    publish_verdict(save, status, seq);
    if (status == LULL_OK)
        lull__publish_latest(&ckpt->dir, save->step);
    lull__error_set(sentence);
    if (status != LULL_OK)
        lull__save_fail(save, status);
}

static void lead_cleanup(lull_ckpt_request_t *save, bool keep) {
    pthread_mutex_lock(&save->ckpt->lock);
    lull_status_t status = save->status;
    pthread_mutex_unlock(&save->ckpt->lock);
    keep = keep || status == LULL_ERR_DURABILITY_UNKNOWN;
    if (keep)
        save->ckpt->in_doubt = true;
    collect_garbage(save->ckpt, save->number);
    if (status == LULL_OK)
        after_commit(save);
    else if (!keep)
        discard(save);
    forget_verdicts(save);
    if (status != LULL_OK && save->ckpt->options.world > 1)
        lull__spares_make(&save->ckpt->lull_dir, save->ckpt->run_id);
}

/* ---- both ---- */

static void set_decided(lull_ckpt_request_t *save) {
    lull_ckpt_t *ckpt = save->ckpt;
    pthread_mutex_lock(&ckpt->lock);
    bool committed = save->status == LULL_OK;
    pthread_mutex_unlock(&ckpt->lock);
    if (committed && ckpt->tiers != NULL)
        lull__tiers_committed(ckpt->tiers);
    pthread_mutex_lock(&ckpt->lock);
    save->decided = true;
    if (save->status == LULL_OK) {
        save->at.committed_s = lull__now();
        ckpt->stats.committed++;
    }
    pthread_cond_broadcast(&ckpt->changed);
    pthread_mutex_unlock(&ckpt->lock);
}

/* It is the oldest pending one. */
static void retire(lull_ckpt_request_t *save) {
    lull_ckpt_t *ckpt = save->ckpt;
    lull__dir_close(&save->dir);
    pthread_mutex_lock(&ckpt->lock);
    /* The detector of mutation may hold it and be looking. */
    while (save->verifying && !save->verified)
        pthread_cond_wait(&ckpt->changed, &ckpt->lock);
    lull__save_free_work(save);
    ckpt->pending = save->next;
    if (ckpt->pending == NULL)
        ckpt->pending_tail = &ckpt->pending;
    ckpt->pending_count--;
    lull__save_unref(save);
    pthread_cond_broadcast(&ckpt->changed);
    pthread_mutex_unlock(&ckpt->lock);
}

static void count_commit(lull_ckpt_t *ckpt, double from) {
    pthread_mutex_lock(&ckpt->lock);
    ckpt->stats.commit_s += lull__now() - from;
    pthread_mutex_unlock(&ckpt->lock);
}

/* *keep: its directory must stay. */
static void decide(lull_ckpt_request_t *save, bool *keep) {
    lull_ckpt_t *ckpt = save->ckpt;
    double from = lull__now();
    *keep = false;
    if (ckpt->options.agree != NULL)
        lull__agree_commit(save, keep);
    else if (ckpt->leads)
        lead(save);
    else
        follow(save);
    if (ckpt->leads)
        count_commit(ckpt, from);
}

void *lull__commit_thread(void *arg) {
    lull_ckpt_t *ckpt = arg;
    lull_ckpt_request_t *save;
    size_t begun = offsetof(lull_ckpt_request_t, committing);
    bool keep;
    while ((save = lull__engine_next(ckpt, begun, finished)) != NULL) {
        decide(save, &keep);
        set_decided(save);
        if (ckpt->leads)
            lead_cleanup(save, keep);
        retire(save);
    }
    if (ckpt->leads)
        collect_garbage(ckpt, UINT64_MAX);
    return NULL;
}
