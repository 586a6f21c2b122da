/* Threads that code frames. See team.h. */
#include "team.h"

#include <stdlib.h>
#include <string.h>

typedef enum stage { WAITS, RUNS, DONE } stage_t;

typedef struct place {
    lull__team_frame_t frame;
    char *room; /* for what is coded */
    stage_t stage;
    lull_status_t status;
    char sentence[LULL__SENTENCE_MAX];
} place_t;

struct lull__team {
    size_t coded_most;
    place_t *places; /* a queue in a circle: [first, first + count) */
    unsigned room, first, count;
    lull_codec_scratch_t *scratches[LULL__ENCODE_THREADS_MAX];
    pthread_t threads[LULL__ENCODE_THREADS_MAX]; /* [0] is the user */
    unsigned thread_count, started;
    pthread_mutex_t lock; /* guards all that changes after creation */
    pthread_cond_t work, done;
    double busy;
    bool stop;
};

static place_t *place_at(const lull__team_t *team, unsigned i) {
    return &team->places[(team->first + i) % team->room];
}

/* Into `to`: the frame is the caller's alone meanwhile. */
static lull_status_t encode(place_t *place, const lull_buffer_t *to,
                            lull_codec_scratch_t *scratch) {
    lull__team_frame_t *frame = &place->frame;
    const lull_codec_t *codec = frame->codec;
    frame->coded = *to;
    return lull_frame_encode(codec, frame->values,
                             frame->bytes * 8 / lull_dtype_bits(codec->dtype),
                             0, &frame->coded, scratch);
}

/* With the lock held, which is let go meanwhile. */
static void run(lull__team_t *team, place_t *place, const lull_buffer_t *to,
                unsigned thread) {
    lull_buffer_t own = {.data = place->room, .capacity = team->coded_most};
    place->stage = RUNS;
    pthread_mutex_unlock(&team->lock);
    double from = lull__now();
    lull_status_t status =
        encode(place, to != NULL ? to : &own, team->scratches[thread]);
    if (status != LULL_OK)
        strcpy(place->sentence, lull_last_error());
    double seconds = lull__now() - from;
    pthread_mutex_lock(&team->lock);
    place->status = status;
    place->stage = DONE;
    team->busy += thread > 0 ? seconds : 0;
}

/* With the lock held: the oldest that waits. */
static place_t *next(const lull__team_t *team) {
    for (unsigned i = 0; i < team->count; i++)
        if (place_at(team, i)->stage == WAITS)
            return place_at(team, i);
    return NULL;
}

static void *work(void *arg) {
    lull__team_t *team = arg;
    pthread_mutex_lock(&team->lock);
    unsigned thread = ++team->started;
    while (!team->stop) {
        place_t *place = next(team);
        if (place == NULL) {
            pthread_cond_wait(&team->work, &team->lock);
            continue;
        }
        run(team, place, NULL, thread);
        pthread_cond_signal(&team->done);
    }
    pthread_mutex_unlock(&team->lock);
    return NULL;
}

/* ---- the user ---- */

lull__team_frame_t *lull__team_open(lull__team_t *team) {
    if (team->count == team->room)
        return NULL;
    return &place_at(team, team->count)->frame;
}

void lull__team_submit(lull__team_t *team) {
    place_t *place = place_at(team, team->count);
    pthread_mutex_lock(&team->lock);
    place->stage = place->frame.codec != NULL ? WAITS : DONE;
    place->status = LULL_OK;
    team->count++;
    pthread_cond_signal(&team->work);
    pthread_mutex_unlock(&team->lock);
}

lull__team_frame_t *lull__team_last(lull__team_t *team) {
    return team->count > 0 ? &place_at(team, team->count - 1)->frame : NULL;
}

lull__team_frame_t *lull__team_unbegun(lull__team_t *team) {
    lull__team_frame_t *frame = NULL;
    pthread_mutex_lock(&team->lock);
    if (team->count > 0 && place_at(team, 0)->stage == WAITS)
        frame = &place_at(team, 0)->frame;
    pthread_mutex_unlock(&team->lock);
    return frame;
}

/* With the lock held: waits until the oldest one is coded; codes itself. */
static void finish_first(lull__team_t *team, const lull_buffer_t *to,
                         double *waited_s) {
    place_t *first = place_at(team, 0), *place;
    if (first->stage == WAITS)
        run(team, first, to, 0);
    while (first->stage != DONE) {
        if ((place = next(team)) != NULL) {
            run(team, place, NULL, 0);
            continue;
        }
        double from = lull__now();
        pthread_cond_wait(&team->done, &team->lock);
        *waited_s += lull__now() - from;
    }
}

/* With the lock held: the oldest one leaves the queue. */
static lull__team_frame_t *leave(lull__team_t *team) {
    lull__team_frame_t *frame = &place_at(team, 0)->frame;
    team->first = (team->first + 1) % team->room;
    team->count--;
    return frame;
}

lull_status_t lull__team_take(lull__team_t *team, const lull_buffer_t *place,
                              double *waited_s, lull__team_frame_t **out) {
    lull_status_t status = LULL_OK;
    *out = NULL;
    pthread_mutex_lock(&team->lock);
    if (team->count > 0) {
        place_t *first = place_at(team, 0);
        finish_first(team, place, waited_s);
        status = first->status;
        *out = leave(team);
        if (status != LULL_OK)
            lull__error_set(first->sentence);
    }
    pthread_mutex_unlock(&team->lock);
    return status;
}

lull__team_frame_t *lull__team_drop(lull__team_t *team) {
    lull__team_frame_t *frame = NULL;
    pthread_mutex_lock(&team->lock);
    if (team->count > 0) {
        place_t *first = place_at(team, 0);
        if (first->stage == WAITS)
            first->stage = DONE;
        while (first->stage != DONE)
            pthread_cond_wait(&team->done, &team->lock);
        frame = leave(team);
    }
    pthread_mutex_unlock(&team->lock);
    return frame;
}

double lull__team_busy(lull__team_t *team) {
    pthread_mutex_lock(&team->lock);
    double busy = team->busy;
    team->busy = 0;
    pthread_mutex_unlock(&team->lock);
    return busy;
}

/* ---- create ---- */

static lull_status_t fill(lull__team_t *team, unsigned threads, size_t raw_most,
                          size_t coded_most,
                          const lull__thread_options_t *how) {
    lull_status_t status = LULL_OK;
    team->coded_most = coded_most;
    /* One at work and one that waits for each thread. */
    team->room = threads > 1 ? 2 * threads : 1;
    team->places = calloc(team->room, sizeof *team->places);
    if (team->places == NULL)
        return lull__fail(LULL_ERR_NO_MEMORY, "the encoder");
    for (unsigned i = 0; i < team->room; i++) {
        team->places[i].frame.raw = malloc(raw_most);
        team->places[i].room = malloc(coded_most);
        if (team->places[i].frame.raw == NULL || team->places[i].room == NULL)
            return lull__fail(LULL_ERR_NO_MEMORY, "the encoder");
    }
    for (unsigned i = 0; status == LULL_OK && i < threads; i++)
        status = lull_codec_scratch_create(&team->scratches[i]);
    team->thread_count = 1;
    while (status == LULL_OK && team->thread_count < threads) {
        status = lull__thread_start(&team->threads[team->thread_count],
                                    "lull-encode", how, work, team);
        team->thread_count += status == LULL_OK;
    }
    return status;
}

lull_status_t lull__team_create(unsigned threads, size_t raw_most,
                                size_t coded_most,
                                const lull__thread_options_t *how,
                                lull__team_t **out) {
    lull__team_t *team = calloc(1, sizeof *team);
    if (team == NULL)
        return lull__fail(LULL_ERR_NO_MEMORY, "the encoder");
    pthread_mutex_init(&team->lock, NULL);
    pthread_cond_init(&team->work, NULL);
    pthread_cond_init(&team->done, NULL);
    lull_status_t status = fill(team, threads, raw_most, coded_most, how);
    if (status == LULL_OK) {
        *out = team;
        return LULL_OK;
    }
    char sentence[LULL__SENTENCE_MAX];
    strcpy(sentence, lull_last_error());
    lull__team_destroy(team);
    lull__error_set(sentence);
    return status;
}

void lull__team_destroy(lull__team_t *team) {
    if (team == NULL)
        return;
    pthread_mutex_lock(&team->lock);
    team->stop = true;
    pthread_cond_broadcast(&team->work);
    pthread_mutex_unlock(&team->lock);
    for (unsigned i = 1; i < team->thread_count; i++)
        pthread_join(team->threads[i], NULL);
    for (unsigned i = 0; i < LULL__ENCODE_THREADS_MAX; i++)
        lull_codec_scratch_destroy(team->scratches[i]);
    for (unsigned i = 0; team->places != NULL && i < team->room; i++) {
        free(team->places[i].frame.raw);
        free(team->places[i].room);
    }
    free(team->places);
    pthread_cond_destroy(&team->done);
    pthread_cond_destroy(&team->work);
    pthread_mutex_destroy(&team->lock);
    free(team);
}
