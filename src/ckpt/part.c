/* A place's side of draining: a thread of who leads it copies the part that
 * lies there whenever rank 0 says so, and lets go of what is drained. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "parts.h"

#define GRACE_S 10.0 /* for caches of directories on shared disks */
#define NAP_WANTED_S 0.25
#define NAP_IDLE_S 5.0

/* ---- a part ---- */

/* Rank 0 made it; a cache may not know yet. */
static lull_status_t open_partial(lull__tiers_t *tiers, lull__dir_t *out) {
    const lull_ckpt_t *ckpt = tiers->ckpt;
    lull_status_t status;
    double begin = lull__now();
    do {
        lull__dir_t dir;
        status = lull__dir_open(ckpt->io, tiers->tiers[1].dir->path, &dir);
        if (status == LULL_OK) {
            status = lull__dir_open_at(&dir, tiers->order.partial, out);
            lull__dir_close(&dir);
        }
    } while (status == LULL_ERR_NOT_FOUND && lull__now() < begin + GRACE_S &&
             lull__parts_beat(tiers) &&
             lull__parts_nap(tiers, begin, NAP_WANTED_S));
    return status;
}

static lull_status_t copy(lull__tiers_t *tiers, const lull_ckpt_info_t *info,
                          const lull__dir_t *partial, uint64_t *sum) {
    lull__tier_t *to = &tiers->tiers[1];
    lull__carry_t carry = {.info = info,
                           .to = partial,
                           .merge = to->files,
                           .part = true,
                           .threads = tiers->ckpt->options.flush_threads,
                           .direct_writes = &to->direct_writes,
                           .pace = lull__drain_pace,
                           .ctx = tiers->ckpt};
    lull_status_t status = lull__carry_plan(&carry);
    if (status == LULL_OK)
        status = lull__carry_run(&carry);
    if (status == LULL_OK)
        status = lull__dir_sync(partial);
    for (size_t i = 0; status == LULL_OK && i < carry.vote_count; i++)
        *sum += lull__parts_sum(carry.votes[i].rank, &carry.manifest.votes[i]);
    lull__carry_free(&carry);
    return status;
}

/* LULL_ERR_NOT_FOUND: it is not here any more. */
static lull_status_t do_part(lull__tiers_t *tiers, uint64_t *sum) {
    const lull__history_row_t *row = &tiers->order.row;
    lull_ckpt_info_t *info;
    lull__dir_t partial;
    lull__entry_name_t home;
    lull__naming_step(home, row->step);
    lull_status_t status = lull__reader_open(
        tiers->tiers[0].dir, home,
        (lull_ckpt_id_t){row->seq, row->step, row->origin}, &info);
    if (status != LULL_OK)
        return status;
    status = open_partial(tiers, &partial);
    if (status == LULL_OK) {
        status = copy(tiers, info, &partial, sum);
        lull__dir_close(&partial);
    }
    lull_ckpt_info_destroy(info);
    return status == LULL_ERR_NOT_FOUND ? LULL_ERR_IO : status;
}

/* On a full disk what cannot be used makes room for a note that says so. */
static void empty_partial(lull__tiers_t *tiers) {
    lull__dir_t dir;
    if (lull__dir_open(tiers->ckpt->io, tiers->tiers[1].dir->path, &dir) !=
        LULL_OK)
        return;
    (void)lull__dir_remove_tree(&dir, tiers->order.partial);
    lull__dir_close(&dir);
}

static void answer(lull__tiers_t *tiers) {
    lull_ckpt_t *ckpt = tiers->ckpt;
    lull__part_word_t word = {.number = tiers->order.number};
    double begin = lull__now();
    pthread_mutex_lock(&ckpt->lock);
    tiers->beat_s = 0;
    tiers->moved_on = false;
    pthread_mutex_unlock(&ckpt->lock);
    word.status = do_part(tiers, &word.sum);
    word.done = word.status == LULL_OK;
    snprintf(word.text, sizeof word.text, "%s", lull_last_error());
    pthread_mutex_lock(&ckpt->lock);
    bool quiet = ckpt->cancel || tiers->moved_on;
    ckpt->stats.drain_s += lull__now() - begin;
    ckpt->stats.drain_failed += word.status != LULL_OK && !quiet;
    pthread_mutex_unlock(&ckpt->lock);
    if (word.status != LULL_OK && !quiet)
        lull__log(LULL_LOG_WARN, "step %" PRIu64 " is not drained from %s: %s",
                  tiers->order.row.step, ckpt->dir_path, word.text);
    if (quiet)
        return;
    lull_status_t told = lull__parts_say(tiers, &word);
    if (told == LULL_ERR_NO_SPACE) {
        empty_partial(tiers);
        told = lull__parts_say(tiers, &word);
    }
    if (told != LULL_OK)
        lull__log(LULL_LOG_WARN, "rank 0 cannot be told of a drain: %s",
                  lull_last_error());
}

/* ---- what was drained ---- */

static void let_go(lull__tiers_t *tiers) {
    pthread_mutex_lock(&tiers->lock);
    lull__history_row_t *row =
        lull__history_find(tiers->tiers[0].history, &tiers->order.drained);
    bool news = row != NULL && row->wanted;
    if (news)
        row->wanted = false;
    pthread_mutex_unlock(&tiers->lock);
    if (news)
        lull__tiers_retain(tiers, 0, tiers->order.number);
}

/* Is it in the slow tier? */
static bool has_it(const lull__tiers_t *tiers, const lull__history_row_t *row) {
    lull__dir_t dir, step;
    lull__manifest_t manifest;
    lull__entry_name_t home;
    char *text;
    lull__naming_step(home, row->step);
    if (lull__dir_open(tiers->ckpt->io, tiers->tiers[1].dir->path, &dir) !=
        LULL_OK)
        return false;
    lull_status_t status = lull__dir_open_at(&dir, home, &step);
    lull__dir_close(&dir);
    if (status != LULL_OK)
        return false;
    status = lull__reader_manifest(&step, &text, &manifest);
    lull__dir_close(&step);
    if (status != LULL_OK)
        return false;
    lull__history_row_t is = lull__history_row(&manifest);
    lull__manifest_free(&manifest);
    free(text);
    return is.seq == row->seq && is.origin == row->origin;
}

/* Rank 0 has closed, and its last words went with it. */
static void look_at_the_end(lull__tiers_t *tiers) {
    lull__history_row_t row;
    while (lull__parts_wanted(tiers, &row) > 0 && has_it(tiers, &row)) {
        tiers->order.drained = row;
        let_go(tiers);
    }
}

/* ---- the thread ---- */

typedef struct following {
    lull__tiers_t *tiers;
    double since;    /* it was quiet */
    uint64_t ticket; /* ... and nothing was committed */
    double closed_s; /* when closing began */
    double news_s;   /* rank 0's last sign, or that */
    double looked_s; /* when the last look began */
    double blind_s;  /* since when the tier cannot be looked into; 0: it can */
    char why[LULL__SENTENCE_MAX]; /* ... and why */
    uint64_t answered;            /* number of the last order */
    bool ended, stop, cancel;
} following_t;

/* Looks, and does what there is to do. */
static void look(following_t *f) {
    lull__part_order_t now, *seen = &f->tiers->order;
    f->looked_s = lull__now();
    lull_status_t status = lull__parts_look(f->tiers, &now, &f->ended);
    if (status != LULL_OK && !f->ended) {
        f->blind_s = f->blind_s > 0 ? f->blind_s : f->looked_s;
        snprintf(f->why, sizeof f->why, "%s", lull_last_error());
    } else {
        f->blind_s = 0;
    }
    if (status != LULL_OK)
        return;
    if (now.number != seen->number || now.beat != seen->beat ||
        now.copy != seen->copy)
        f->news_s = lull__now();
    *seen = now;
    let_go(f->tiers);
    if (now.copy && now.number != f->answered) {
        f->answered = now.number;
        answer(f->tiers);
        f->since = f->news_s = lull__now();
    }
}

/* For rank 0 long enough; for a tier that is gone no longer than rank 0, which
 * tries once more when it closes, might. Says why. */
static bool has_waited(following_t *f) {
    double most = f->tiers->ckpt->options.commit_timeout_s;
    if (f->blind_s > 0) {
        double begin = f->blind_s > f->closed_s ? f->blind_s : f->closed_s;
        return f->looked_s > begin + (most < GRACE_S ? most : GRACE_S);
    }
    snprintf(f->why, sizeof f->why, "rank 0 gave no sign for %.0f s", most);
    return f->looked_s > f->news_s + most;
}

/* Closing ends with a place whose part is drained, with rank 0, or with
 * waiting for it. */
static bool is_over(following_t *f) {
    lull__tiers_t *tiers = f->tiers;
    lull_ckpt_t *ckpt = tiers->ckpt;
    lull__history_row_t row;
    char sentence[LULL__SENTENCE_MAX];
    if (!f->stop)
        return false;
    if (f->ended)
        look_at_the_end(tiers);
    uint64_t wanted = lull__parts_wanted(tiers, &row);
    if (wanted == 0 || f->ended)
        return true;
    if (!has_waited(f))
        return false;
    snprintf(sentence, sizeof sentence,
             "step %" PRIu64 " is in %s and not drained to %s (%" PRIu64
             " in all): %.600s",
             row.step, ckpt->dir_path, tiers->tiers[1].dir->path, wanted,
             f->why);
    lull__log(LULL_LOG_WARN, "%s", sentence);
    pthread_mutex_lock(&ckpt->lock);
    tiers->tiers[1].status = LULL_ERR_TIMEOUT;
    tiers->tiers[1].sentence = strdup(sentence);
    pthread_mutex_unlock(&ckpt->lock);
    return true;
}

static void update(following_t *f) {
    lull_ckpt_t *ckpt = f->tiers->ckpt;
    pthread_mutex_lock(&ckpt->lock);
    f->cancel = ckpt->cancel;
    if (ckpt->stop && !f->stop)
        f->since = f->news_s = f->closed_s = lull__now();
    if (f->tiers->ticket != f->ticket)
        f->since = lull__now();
    f->ticket = f->tiers->ticket;
    f->stop = ckpt->stop;
    pthread_mutex_unlock(&ckpt->lock);
}

static double longest_nap(const following_t *f) {
    lull__history_row_t row;
    if (lull__parts_wanted(f->tiers, &row) > 0)
        return NAP_WANTED_S;
    double nap = f->tiers->ckpt->options.commit_timeout_s / 8;
    return nap < NAP_IDLE_S ? nap : NAP_IDLE_S;
}

/* Nobody is to wait for this place any more. */
static void say_gone(lull__tiers_t *tiers) {
    lull__part_word_t word = {.number = LULL__PART_GONE,
                              .status = LULL_ERR_PEER};
    snprintf(word.text, sizeof word.text,
             "rank %" PRIu32 " has closed its engine",
             tiers->ckpt->options.rank);
    (void)lull__parts_say(tiers, &word);
}

void *lull__part_thread(void *arg) {
    lull_ckpt_t *ckpt = arg;
    following_t f = {.tiers = ckpt->tiers, .since = lull__now()};
    for (;;) {
        update(&f);
        if (f.cancel)
            break;
        look(&f);
        if (is_over(&f) || !lull__parts_nap(f.tiers, f.since, longest_nap(&f)))
            break;
    }
    say_gone(f.tiers);
    return NULL;
}
