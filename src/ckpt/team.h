/* Frames that several threads code, handed back in the order they came. One
 * thread uses it, and codes itself while it would have to wait: a team of one
 * is that thread alone, and codes a frame when it is taken. */
#ifndef LULL__CKPT_TEAM_H
#define LULL__CKPT_TEAM_H

#include <lull/codec.h>

#include "base/error.h"
#include "base/thread.h"

#define LULL__ENCODE_THREADS_MAX 16u

typedef struct lull__team lull__team_t;

/* A frame of values, or values that are stored as they are. */
typedef struct lull__team_frame {
    /* Set before it is submitted. */
    const lull_codec_t *codec; /* NULL: stored as they are */
    const char *values;        /* stay until it is taken */
    uint64_t bytes;            /* of values */
    size_t item;               /* the user's: whose they are, which frame */
    uint64_t index;
    void *held; /* the user's: to be let go when it is taken */
    char *raw;  /* room of the frame's own for its values */
    /* When it is taken. */
    lull_buffer_t coded; /* in room of the frame's own, or the taker's */
} lull__team_frame_t;

/* `raw_most`, `coded_most`: bytes that a frame may have before and after. */
lull_status_t lull__team_create(unsigned threads, size_t raw_most,
                                size_t coded_most,
                                const lull__thread_options_t *how,
                                lull__team_t **out);
/* Frames that were not taken are forgotten. NULL is harmless. */
void lull__team_destroy(lull__team_t *team);

/* The frame to be filled and submitted next: the same until it is; NULL: there
 * are as many as may be, take one first. */
lull__team_frame_t *lull__team_open(lull__team_t *team);
void lull__team_submit(lull__team_t *team);
/* The one submitted last that was not taken; NULL: there is none. */
lull__team_frame_t *lull__team_last(lull__team_t *team);
/* The one that lull__team_take will give, while its coding has not begun, so
 * that it can be coded to the taker's place; else NULL. */
lull__team_frame_t *lull__team_unbegun(lull__team_t *team);
/* The oldest one, coded; to `place`, where that is given and the frame was
 * unbegun. Its room is its own until the next open. A failure is that of its
 * coding; it is taken all the same. *waited_s grows by what was waited. NULL in
 * *out: there is none. */
lull_status_t lull__team_take(lull__team_t *team, const lull_buffer_t *place,
                              double *waited_s, lull__team_frame_t **out);
/* Takes back the oldest one, coded or not; NULL: there is none. */
lull__team_frame_t *lull__team_drop(lull__team_t *team);
/* Seconds that the other threads have coded since the last call. */
double lull__team_busy(lull__team_t *team);

#endif
