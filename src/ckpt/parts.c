/* Rank 0's side of draining places: it says what is to be copied, waits for
 * all, and makes one checkpoint of what they wrote. */
#include "parts.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/checksum.h"
#include "base/log.h"
#include "collect.h"
#include "grow.h"
#include "note.h"
#include "tiles.h"

#define NAP_MOST_S 0.25

/* ---- living ---- */

bool lull__parts_beat(lull__tiers_t *tiers) {
    lull_ckpt_t *ckpt = tiers->ckpt;
    pthread_mutex_lock(&ckpt->lock);
    bool due =
        !tiers->beating && !tiers->moved_on && lull__now() >= tiers->beat_s;
    bool moved_on = tiers->moved_on;
    tiers->beating = tiers->beating || due;
    uint64_t bytes = ckpt->stats.drain_bytes;
    pthread_mutex_unlock(&ckpt->lock);
    if (!due)
        return !moved_on;
    if (tiers->follows) {
        lull__part_order_t now;
        bool ended;
        lull__part_word_t word = {.number = tiers->order.number, .sum = bytes};
        (void)lull__parts_say(tiers, &word);
        moved_on = lull__parts_look(tiers, &now, &ended) == LULL_OK
                       ? !now.copy || now.number != tiers->order.number
                       : ended;
    } else {
        tiers->order.beat++;
        (void)lull__parts_order(tiers);
    }
    pthread_mutex_lock(&ckpt->lock);
    tiers->beating = false;
    tiers->moved_on = moved_on;
    tiers->beat_s = lull__now() + ckpt->options.commit_timeout_s / 8;
    pthread_mutex_unlock(&ckpt->lock);
    return !moved_on;
}

bool lull__parts_nap(lull__tiers_t *tiers, double since, double most_s) {
    lull_ckpt_t *ckpt = tiers->ckpt;
    double now = lull__now(), nap = (now - since) / 10;
    nap = nap < 0.001 ? 0.001 : nap < most_s ? nap : most_s;
    pthread_mutex_lock(&ckpt->lock);
    uint64_t seen = tiers->ticket;
    bool stop = ckpt->stop, in_time = true;
    while (in_time && !ckpt->cancel && ckpt->stop == stop &&
           tiers->ticket == seen)
        in_time = lull__cond_wait_until(&ckpt->changed, &ckpt->lock, now + nap);
    bool go_on = !ckpt->cancel;
    pthread_mutex_unlock(&ckpt->lock);
    return go_on;
}

/* ---- what all places wrote ---- */

typedef struct gathering {
    const lull__dir_t *partial;
    const lull__manifest_t *like; /* that of the own place */
    lull__manifest_t manifest;
    lull__tiles_t *tiles;
    size_t file_room;
    uint64_t sum;
    uint32_t missing; /* the first rank without a vote; UINT32_MAX: none */
} gathering_t;

static lull_status_t add_files(gathering_t *g, const lull__vote_t *vote) {
    lull__manifest_t *m = &g->manifest;
    lull_status_t status = LULL_OK;
    for (size_t i = 0; status == LULL_OK && i < vote->file_count; i++) {
        const lull__vote_file_t *file = &vote->files[i];
        status = lull__collect_size(g->partial, file->name, file->bytes);
        if (status == LULL_OK)
            status = lull__grow((void **)&m->files, m->file_count,
                                &g->file_room, sizeof *m->files);
        char *name = status == LULL_OK ? strdup(file->name) : NULL;
        if (status == LULL_OK && name == NULL)
            status = lull__fail(LULL_ERR_NO_MEMORY, "collecting votes");
        if (status == LULL_OK)
            m->files[m->file_count++] =
                (lull__manifest_file_t){name, vote->head.rank, file->bytes,
                                        lull__vote_file_digest(file)};
    }
    return status;
}

static lull_status_t add_vote(gathering_t *g, uint32_t rank,
                              const lull__vote_t *vote,
                              lull__manifest_vote_t row) {
    lull__manifest_t *m = &g->manifest;
    const lull__vote_head_t *head = &vote->head;
    if (strcmp(head->run_id, m->run_id) != 0 || head->save != m->save ||
        head->step != m->step || head->world != m->world ||
        head->rank != rank || head->ranks > m->world - rank)
        return lull__fail(LULL_ERR_CORRUPT,
                          "%s: the vote of rank %" PRIu32 " is of another save",
                          g->partial->path, rank);
    row.ranks = head->ranks;
    g->sum += lull__parts_sum(rank, &row);
    m->votes[m->vote_count++] = row;
    lull_status_t status = lull__tiles_add(g->tiles, vote);
    return status == LULL_OK ? add_files(g, vote) : status;
}

/* *ranks: that it is of. */
static lull_status_t read_vote(gathering_t *g, uint32_t rank, uint32_t *ranks) {
    lull__entry_name_t name;
    lull__vote_t vote;
    lull__manifest_vote_t row = {0};
    char *text;
    lull__naming_vote(name, rank);
    lull_status_t status =
        lull__file_slurp(g->partial, name, LULL__VOTE_MAX, &text, &row.bytes);
    *ranks = 1;
    if (status == LULL_ERR_NOT_FOUND) {
        g->missing = rank < g->missing ? rank : g->missing;
        return LULL_OK;
    }
    if (status != LULL_OK)
        return status;
    row.hash = lull__hash_of(text, row.bytes);
    status = lull__vote_parse(text, row.bytes, name, &vote);
    if (status == LULL_OK) {
        status = add_vote(g, rank, &vote, row);
        *ranks = vote.head.ranks;
        lull__vote_free(&vote);
    }
    free(text);
    return status;
}

static lull_status_t read_votes(gathering_t *g, uint64_t sum, bool *gone) {
    uint32_t world = g->like->world, ranks = 1;
    lull_status_t status = LULL_OK;
    for (uint32_t r = 0; status == LULL_OK && r < world; r += ranks)
        status = read_vote(g, r, &ranks);
    if (status == LULL_OK && g->sum != sum)
        return lull__fail(LULL_ERR_IO,
                          "%s: what is read there is not what the places wrote",
                          g->partial->path);
    *gone = status == LULL_OK && g->missing != UINT32_MAX;
    if (*gone)
        return lull__fail(LULL_ERR_NOT_FOUND,
                          "files of rank %" PRIu32 " are in no place of this "
                          "run",
                          g->missing);
    return status == LULL_OK ? lull__tiles_check(g->tiles) : status;
}

/* A manifest of one directory. `sum`: of the votes, as the places say. Free it
 * with lull__collect_free(). */
static lull_status_t gather(gathering_t *g, uint64_t sum, bool *gone) {
    lull__manifest_t *m = &g->manifest;
    *m = *g->like;
    m->files = NULL;
    m->places = NULL;
    m->file_count = m->vote_count = m->place_count = 0;
    m->here = 0;
    m->votes = calloc(m->world, sizeof *m->votes);
    g->missing = UINT32_MAX;
    lull_status_t status =
        m->votes == NULL ? lull__fail(LULL_ERR_NO_MEMORY, "collecting votes")
                         : lull__tiles_create(false, &g->tiles);
    if (status == LULL_OK)
        status = read_votes(g, sum, gone);
    lull__tiles_destroy(g->tiles);
    return status;
}

/* ---- waiting ---- */

typedef struct waiting {
    lull__tiers_t *tiers;
    struct {
        bool done;
        double news_s;
        uint64_t seen; /* bytes it had copied */
    } * places;
    uint32_t missing;
    uint64_t sum;
    bool gone;
} waiting_t;

static lull_status_t no_sign(const waiting_t *w, uint32_t place) {
    const lull_ckpt_t *ckpt = w->tiers->ckpt;
    uint32_t rank = 0;
    while (ckpt->place_of[rank] != place)
        rank++;
    return lull__fail(LULL_ERR_TIMEOUT,
                      "rank %" PRIu32 " in %s copied nothing for %.0f s", rank,
                      ckpt->place_names[place], ckpt->options.commit_timeout_s);
}

static lull_status_t hear(waiting_t *w, uint32_t place) {
    const lull_ckpt_t *ckpt = w->tiers->ckpt;
    lull__part_word_t word;
    double now = lull__now();
    bool heard = lull__parts_hear(w->tiers, place, &word);
    if (heard && word.number == LULL__PART_GONE)
        return lull__fail(LULL_ERR_PEER, "%s: %s", ckpt->place_names[place],
                          word.text);
    if (heard && word.number == w->tiers->order.number) {
        w->gone = word.status == LULL_ERR_NOT_FOUND;
        if (word.status != LULL_OK)
            return lull__fail(word.status, "%s: %.900s",
                              ckpt->place_names[place], word.text);
        if (word.done) {
            w->places[place].done = true;
            w->sum += word.sum;
            w->missing--;
        } else if (word.sum != w->places[place].seen) {
            w->places[place].seen = word.sum;
            w->places[place].news_s = now;
        }
    }
    return !w->places[place].done && now > w->places[place].news_s +
                                               ckpt->options.commit_timeout_s
               ? no_sign(w, place)
               : LULL_OK;
}

/* Until every place has done its part; w->sum has that of rank 0's. */
static lull_status_t await(waiting_t *w) {
    lull__tiers_t *tiers = w->tiers;
    const lull_ckpt_t *ckpt = tiers->ckpt;
    double begin = lull__now();
    uint32_t own = ckpt->place_of[ckpt->options.rank];
    for (uint32_t p = 0; p < ckpt->place_count; p++)
        w->places[p].news_s = begin;
    w->places[own].done = true;
    w->missing = ckpt->place_count - 1;
    for (;;) {
        for (uint32_t p = 0; p < ckpt->place_count; p++) {
            lull_status_t status = w->places[p].done ? LULL_OK : hear(w, p);
            if (status != LULL_OK)
                return status;
        }
        if (w->missing == 0)
            return LULL_OK;
        (void)lull__parts_beat(tiers);
        if (!lull__parts_nap(tiers, begin, NAP_MOST_S))
            return lull__fail(LULL_ERR_CANCELLED, "the engine was destroyed");
    }
}

static lull_status_t all_parts(waiting_t *w, lull__carry_t *carry) {
    uint32_t count = w->tiers->ckpt->place_count;
    w->places = calloc(count, sizeof *w->places);
    if (w->places == NULL)
        return lull__fail(LULL_ERR_NO_MEMORY, "%" PRIu32 " places", count);
    lull_status_t status = lull__carry_plan(carry);
    if (status == LULL_OK)
        status = lull__carry_run(carry);
    for (size_t i = 0; status == LULL_OK && i < carry->vote_count; i++)
        w->sum +=
            lull__parts_sum(carry->votes[i].rank, &carry->manifest.votes[i]);
    if (status == LULL_OK)
        status = await(w);
    free(w->places);
    return status;
}

/* ---- one drain ---- */

bool lull__parts_has(const lull__tiers_t *tiers, size_t from,
                     const lull_ckpt_info_t *info) {
    return from == 0 && tiers->ckpt->place_count > 1 &&
           info->manifest.place_count > 0;
}

static lull_status_t run(lull__tiers_t *tiers, lull__carry_t *carry,
                         lull__place_t *place, bool *gone) {
    waiting_t waiting = {.tiers = tiers};
    gathering_t gathering = {.partial = carry->to,
                             .like = &carry->info->manifest};
    lull_status_t status = all_parts(&waiting, carry);
    *gone = waiting.gone;
    if (status != LULL_OK)
        return status;
    status = gather(&gathering, waiting.sum, gone);
    if (status == LULL_OK)
        status = lull__publish(place, &gathering.manifest);
    lull__collect_free(&gathering.manifest);
    return status;
}

lull_status_t lull__parts_run(lull__tiers_t *tiers, lull__carry_t *carry,
                              lull__place_t *place, bool *gone) {
    char why[LULL__SENTENCE_MAX];
    lull__part_order_t *order = &tiers->order;
    order->number = place->number;
    order->copy = true;
    order->row = lull__history_row(&carry->info->manifest);
    lull__text_copy(order->partial, sizeof order->partial, place->partial_name);
    *gone = false;
    lull_status_t status = lull__parts_order(tiers);
    if (status == LULL_OK)
        status = run(tiers, carry, place, gone);
    snprintf(why, sizeof why, "%s", lull_last_error());
    order->copy = false;
    if (status == LULL_OK)
        order->drained = order->row;
    if (lull__parts_order(tiers) != LULL_OK)
        lull__log(LULL_LOG_INFO, "places cannot be told of a drain: %s",
                  lull_last_error());
    lull__error_set(why);
    return status;
}

void lull__parts_end(lull__tiers_t *tiers) {
    lull__entry_name_t name;
    if (tiers->ckpt->place_count < 2)
        return;
    lull__note_drain(name, tiers->ckpt->run_id);
    (void)lull__dir_unlink(&tiers->tiers[1].home->lull_dir, name);
}
