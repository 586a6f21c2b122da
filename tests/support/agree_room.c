/* An `agree` callback for engines of one process. */
#include "agree_room.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/thread.h"
#include "test.h"

void agree_room_init(agree_room_t *room) {
    if (!room->made) {
        pthread_mutex_init(&room->lock, NULL);
        if (lull__cond_init(&room->changed) != 0)
            fail_msg("a condition");
        room->made = true;
    }
    agree_room_reset(room);
}

void agree_room_reset(agree_room_t *room) {
    pthread_mutex_lock(&room->lock);
    while (room->messages != NULL) {
        agree_message_t *message = room->messages;
        room->messages = message->next;
        free(message);
    }
    room->calls = room->cut_at = 0;
    room->says = NULL;
    room->deaf = UINT32_MAX;
    room->hurt = UINT32_MAX;
    pthread_mutex_unlock(&room->lock);
}

void agree_room_fini(agree_room_t *room) {
    pthread_mutex_lock(&room->lock);
    room->calls = room->cut_at = 1;
    while (room->inside > 0)
        pthread_cond_wait(&room->changed, &room->lock);
    pthread_mutex_unlock(&room->lock);
    agree_room_reset(room);
}

/* With the lock held, as all below. False: no memory. */
static bool post(agree_room_t *room, const lull_ckpt_agree_t *call) {
    /* Not by an allocator that a test makes fail: those are the library's. */
    void *memory;
    if (posix_memalign(&memory, 64, sizeof(agree_message_t) + call->bytes) != 0)
        return false;
    agree_message_t *message = memory;
    message->op = call->op;
    message->round = call->round;
    message->rank = call->rank;
    message->bytes = call->bytes;
    memcpy(message->data, call->data, call->bytes);
    if (room->hurt == call->rank && call->bytes > 0)
        message->data[call->bytes / 2] ^= 4;
    message->next = room->messages;
    room->messages = message;
    pthread_cond_broadcast(&room->changed);
    return true;
}

static const agree_message_t *
find(const agree_room_t *room, const lull_ckpt_agree_t *call, uint32_t rank) {
    const agree_message_t *message = room->messages;
    while (message != NULL &&
           (message->op != call->op || message->round != call->round ||
            message->rank != rank))
        message = message->next;
    return message;
}

static bool all_there(const agree_room_t *room, const lull_ckpt_agree_t *call) {
    uint32_t from = 0, count = call->op == LULL_CKPT_GATHER ? call->world : 1;
    for (; from < count; from++)
        if (find(room, call, from) == NULL)
            return false;
    return true;
}

static void forget_before(agree_room_t *room, uint64_t round) {
    agree_message_t **at = &room->messages;
    while (*at != NULL) {
        agree_message_t *message = *at;
        if (message->round + 8 < round) {
            *at = message->next;
            free(message);
        } else {
            at = &message->next;
        }
    }
}

static bool is_cut(const agree_room_t *room) {
    return room->cut_at != 0 && room->calls >= room->cut_at;
}

/* As a network that hangs would: it tells after the timeout. */
static lull_status_t wait_for(agree_room_t *room, const lull_ckpt_agree_t *call,
                              bool mute) {
    double deadline = lull__now() + call->timeout_s;
    lull_status_t status = LULL_OK;
    while (status == LULL_OK && (mute || !all_there(room, call))) {
        double nap = lull__now() + 0.01;
        lull__cond_wait_until(&room->changed, &room->lock,
                              nap < deadline ? nap : deadline);
        pthread_mutex_unlock(&room->lock);
        bool cancelled = call->cancelled(call);
        pthread_mutex_lock(&room->lock);
        if (cancelled)
            status = LULL_ERR_CANCELLED;
        else if (lull__now() >= deadline)
            status = LULL_ERR_TIMEOUT;
        else if (is_cut(room))
            status = LULL_ERR_IO;
    }
    return status;
}

lull_status_t agree_room_call(void *ctx, const lull_ckpt_agree_t *call) {
    agree_room_t *room = ctx;
    bool gather = call->op == LULL_CKPT_GATHER;
    lull_status_t status = LULL_OK;
    pthread_mutex_lock(&room->lock);
    room->calls++;
    room->inside++;
    pthread_cond_broadcast(&room->changed);
    bool mute = room->deaf == call->rank;
    if (is_cut(room))
        status = LULL_ERR_IO;
    else if (!mute && (gather || call->rank == 0) && !post(room, call))
        status = LULL_ERR_NO_MEMORY;
    if (status == LULL_OK && (mute || gather == (call->rank == 0)))
        status = wait_for(room, call, mute);
    for (uint32_t r = 0; !mute && r < call->world; r++) {
        const agree_message_t *message = find(room, call, r);
        if (message != NULL && gather == (call->rank == 0))
            call->take(call, r, message->data, message->bytes);
    }
    forget_before(room, call->round);
    if (status != LULL_OK && room->says != NULL)
        lull__error_set(room->says);
    room->inside--;
    pthread_cond_broadcast(&room->changed);
    pthread_mutex_unlock(&room->lock);
    return status;
}
