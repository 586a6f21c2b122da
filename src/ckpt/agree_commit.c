/* A save's end with a callback: votes to rank 0 and its manifest back; each
 * place prepares, then publishes; what is published everywhere is complete. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agree.h"
#include "base/log.h"
#include "collect.h"
#include "note.h"
#include "parts.h"

#define VOTE_MAX ((uint64_t)1 << 36)

typedef struct committing {
    lull_ckpt_request_t *save;
    lull__collector_t *collector; /* rank 0 */
    lull__manifest_t collected;
    char *text; /* of the manifest below */
    lull__manifest_t manifest;
    lull__place_t place;
} committing_t;

static uint64_t round_of(const lull_ckpt_request_t *save, unsigned phase) {
    return LULL__AGREE_OPEN_ROUNDS + LULL__AGREE_SAVE_ROUNDS * save->number +
           phase;
}

/* ---- votes ---- */

static lull_status_t take_vote(void *ctx, uint32_t rank, char *body,
                               uint64_t bytes) {
    committing_t *c = ctx;
    return lull__collect_vote(c->collector, rank, body, bytes);
}

static lull_status_t print_manifest(const lull__manifest_t *manifest,
                                    lull__memory_t *out) {
    lull__out_t *to;
    lull_status_t status = lull__out_create(lull__out_to_memory, out, &to);
    if (status != LULL_OK)
        return status;
    lull__manifest_write(manifest, to);
    status = lull__out_finish(to, NULL, NULL);
    lull__out_destroy(to);
    return status;
}

static lull_status_t decide_votes(void *ctx, lull__memory_t *answer) {
    committing_t *c = ctx;
    lull_status_t status = lull__collect_end(c->collector, true);
    c->collector = NULL;
    if (status != LULL_OK)
        return status;
    status = print_manifest(&c->collected, answer);
    lull__collect_free(&c->collected);
    return status;
}

/* The save's own failure, or the first of what leads to a vote. */
static lull_status_t own_vote(committing_t *c, char **vote, uint64_t *bytes) {
    lull_ckpt_request_t *save = c->save;
    lull__entry_name_t name;
    lull_status_t status = lull__save_status(save);
    *vote = NULL;
    *bytes = 0;
    if (status != LULL_OK) {
        pthread_mutex_lock(&save->ckpt->lock);
        lull__error_set(save->sentence ? save->sentence : "no memory");
        pthread_mutex_unlock(&save->ckpt->lock);
        return status;
    }
    lull__naming_vote(name, save->ckpt->options.rank);
    status = lull__file_slurp(&save->dir, name, VOTE_MAX, vote, bytes);
    if (status == LULL_OK && save->ckpt->options.rank == 0)
        status = lull__collect_begin(save, &c->collected, &c->collector);
    return status;
}

/* Rank 0's text: is it of this save, and are the files of this place there? */
static lull_status_t check_manifest(committing_t *c) {
    lull_ckpt_request_t *save = c->save;
    const lull_ckpt_t *ckpt = save->ckpt;
    lull__manifest_t *m = &c->manifest;
    lull_status_t status = LULL_OK;
    if (m->step != save->step || m->save != save->number ||
        m->world != ckpt->options.world ||
        strcmp(m->run_id, ckpt->run_id) != 0 ||
        m->place_count != (ckpt->place_count > 1 ? ckpt->place_count : 0))
        return lull__fail(LULL_ERR_MISMATCH,
                          "agree: a manifest of another save");
    m->here = m->place_count ? ckpt->place_of[ckpt->options.rank] : 0;
    for (size_t f = 0; status == LULL_OK && f < m->file_count; f++)
        if (ckpt->place_of[m->files[f].rank] ==
            ckpt->place_of[ckpt->options.rank])
            status = lull__collect_size(&save->dir, m->files[f].name,
                                        m->files[f].bytes);
    return status;
}

static lull_status_t read_manifest(committing_t *c, lull__memory_t *answer) {
    c->text = answer->data;
    lull_status_t status =
        lull__manifest_parse(c->text, answer->bytes, "agree", &c->manifest);
    if (status != LULL_OK)
        return status;
    return check_manifest(c);
}

/* The first cause is this rank's own, or another's: then it was aborted. */
static lull_status_t as_aborted(const lull_ckpt_request_t *save,
                                lull_status_t status, bool own) {
    char why[LULL__SENTENCE_MAX];
    if (status == LULL_OK || own || status == LULL_ERR_OUTCOME_UNKNOWN ||
        status == LULL_ERR_CANCELLED)
        return status;
    snprintf(why, sizeof why, "%s", lull_last_error());
    return lull__note_fail(LULL_ERR_ABORTED, save->step, why);
}

static lull_status_t agree_votes(committing_t *c, lull_status_t *mine) {
    lull_ckpt_t *ckpt = c->save->ckpt;
    char *vote;
    uint64_t bytes;
    lull_status_t status = own_vote(c, &vote, &bytes);
    lull__agree_round_t round = {.number = round_of(c->save, 0),
                                 .kind = "vote",
                                 .body = vote,
                                 .bytes = bytes,
                                 .ctx = c};
    if (c->collector != NULL) {
        round.take = take_vote;
        round.decide = decide_votes;
    }
    status = lull__agree_round(ckpt, &round, status);
    free(vote);
    if (c->collector != NULL) {
        char why[LULL__SENTENCE_MAX];
        snprintf(why, sizeof why, "%s", lull_last_error());
        (void)lull__collect_end(c->collector, false);
        lull__error_set(why);
    }
    if (status == LULL_OK) {
        *mine = read_manifest(c, &round.answer);
        if (c->text == NULL)
            free(round.answer.data);
    } else if (round.agreed && ckpt->options.rank > 0) {
        *mine = status; /* no memory for it: the next round is to tell */
        return LULL_OK;
    }
    return as_aborted(c->save, status, round.own);
}

/* ---- phases ---- */

/* Ranks of this place that have not come so far look for it. */
static void leave_note(lull_ckpt_request_t *save, lull_status_t status) {
    lull_ckpt_t *ckpt = save->ckpt;
    lull__entry_name_t name;
    lull__note_t note = {
        .kind = "verdict", .number = save->number, .status = status};
    snprintf(note.run_id, sizeof note.run_id, "%s", ckpt->run_id);
    snprintf(note.text, sizeof note.text, "%s", lull_last_error());
    lull__note_verdict(name, ckpt->run_id, save->number);
    if (ckpt->leads &&
        lull__note_write_spare(&ckpt->lull_dir, name, &note) != LULL_OK)
        lull__log(LULL_LOG_WARN, "ranks of %s cannot be told: %s",
                  ckpt->dir_path, lull_last_error());
    lull__error_set(note.text);
}

static lull_status_t agree_ready(committing_t *c, lull_status_t mine,
                                 bool *agreed) {
    lull__agree_round_t round = {.number = round_of(c->save, 1),
                                 .kind = "ready"};
    lull_status_t status = lull__agree_round(c->save->ckpt, &round, mine);
    free(round.answer.data);
    *agreed = round.agreed;
    return as_aborted(c->save, status, round.own);
}

/* Rank 0: what slower tiers want now. That it cannot be told is no reason to
 * fail what is published. */
static lull_status_t decide_done(void *ctx, lull__memory_t *answer) {
    committing_t *c = ctx;
    lull__history_row_t row = lull__history_row(&c->manifest);
    if (lull__parts_wanted_print(c->save->ckpt->tiers, &row, answer) == LULL_OK)
        return LULL_OK;
    lull__log(LULL_LOG_WARN, "places cannot be told what is to be drained: %s",
              lull_last_error());
    free(answer->data);
    *answer = (lull__memory_t){0};
    return LULL_OK;
}

/* With the answer: to be freed. */
static lull_status_t agree_done(committing_t *c, lull_status_t mine,
                                lull__memory_t *answer) {
    const lull_ckpt_t *ckpt = c->save->ckpt;
    lull__agree_round_t round = {
        .number = round_of(c->save, 2), .kind = "done", .ctx = c};
    if (ckpt->options.rank == 0 && ckpt->tiers != NULL)
        round.decide = decide_done;
    lull_status_t status = lull__agree_round(c->save->ckpt, &round, mine);
    *answer = round.answer;
    return as_aborted(c->save, status, round.own);
}

/* "%s: is published here, but ..." is all that can be said from now on. */
static lull_status_t in_doubt(const lull_ckpt_request_t *save,
                              lull_status_t status, lull_status_t mine) {
    char why[LULL__SENTENCE_MAX];
    if (status == LULL_OK || mine == LULL_ERR_DURABILITY_UNKNOWN)
        return status;
    snprintf(why, sizeof why, "%s", lull_last_error());
    return lull__fail(LULL_ERR_OUTCOME_UNKNOWN,
                      "step %" PRIu64 ": not known to be published in every "
                      "place: %.900s",
                      save->step, why);
}

/* Published everywhere: what slower tiers want is kept from now on. */
static void settle(committing_t *c, lull__memory_t *answer) {
    lull_ckpt_t *ckpt = c->save->ckpt;
    lull__publish_settle(&c->place, &c->manifest);
    if (ckpt->tiers != NULL && ckpt->tiers->follows &&
        lull__parts_wanted_take(ckpt->tiers, answer->data) != LULL_OK)
        lull__log(LULL_LOG_WARN, "what is to be drained is not known: %s",
                  lull_last_error());
}

/* While the drainer takes nothing for what had the name. */
static lull_status_t install(committing_t *c) {
    lull__tiers_t *tiers = c->save->ckpt->tiers;
    if (tiers == NULL)
        return lull__publish_install(&c->place, &c->manifest, true);
    c->place.lock = &tiers->lock;
    pthread_mutex_lock(&tiers->naming);
    lull_status_t status = lull__publish_install(&c->place, &c->manifest, true);
    pthread_mutex_unlock(&tiers->naming);
    return status;
}

/* From rank 0's "go" on it is published wherever it can be. */
static lull_status_t publish(committing_t *c, bool *keep) {
    lull_ckpt_request_t *save = c->save;
    lull_ckpt_t *ckpt = save->ckpt;
    lull_status_t mine = LULL_OK;
    lull__memory_t answer;
    if (ckpt->leads)
        mine = install(c);
    *keep = true;
    lull_status_t status = agree_done(c, mine, &answer);
    if (status == LULL_OK && ckpt->leads)
        settle(c, &answer);
    if (status == LULL_OK)
        *keep = false;
    free(answer.data);
    return in_doubt(save, status, mine);
}

static lull_status_t commit(committing_t *c, bool *keep) {
    lull_ckpt_request_t *save = c->save;
    lull_ckpt_t *ckpt = save->ckpt;
    bool agreed;
    lull_status_t mine = LULL_OK;
    lull_status_t before = lull__save_status(save);
    if (before != LULL_OK) {
        /* At once: the others here may wait for a directory. */
        lull__error_set(save->sentence ? save->sentence : "no memory");
        leave_note(save, before);
    }
    lull_status_t status = agree_votes(c, &mine);
    if (status != LULL_OK)
        return status;
    if (mine == LULL_OK && ckpt->leads)
        mine = lull__publish_prepare(&c->place, &c->manifest);
    status = agree_ready(c, mine, &agreed);
    if (agreed)
        return publish(c, keep);
    /* Ready and told nothing: it may be published elsewhere. */
    *keep = mine == LULL_OK && status == LULL_ERR_OUTCOME_UNKNOWN;
    return status;
}

void lull__agree_commit(lull_ckpt_request_t *save, bool *keep) {
    lull_ckpt_t *ckpt = save->ckpt;
    committing_t c = {.save = save,
                      .place = {.dir = &ckpt->dir,
                                .partial = &save->dir,
                                .partial_name = save->dir_name,
                                .run_id = ckpt->run_id,
                                .number = save->number,
                                .history = &ckpt->history}};
    *keep = false;
    lull_status_t status = commit(&c, keep);
    if (status != LULL_OK) {
        leave_note(save, status);
        lull__save_fail(save, status);
    } else if (save->ckpt->leads) {
        lull__publish_latest(&save->ckpt->dir, save->step);
    }
    lull__manifest_free(&c.manifest);
    free(c.text);
}
