/* An `agree` callback for engines of one process: messages in memory, with
 * rounds and timeouts, and a line that can be cut. */
#ifndef TEST_AGREE_ROOM_H
#define TEST_AGREE_ROOM_H

#include <lull/ckpt.h>
#include <pthread.h>

typedef struct agree_message {
    struct agree_message *next;
    lull_ckpt_agree_op_t op;
    uint64_t round, bytes;
    uint32_t rank;
    char data[];
} agree_message_t;

/* Static: engines that a failed test has left may call later. */
typedef struct agree_room {
    bool made;
    pthread_mutex_t lock; /* guards all below */
    pthread_cond_t changed;
    unsigned inside; /* calls under way */
    agree_message_t *messages;
    uint64_t calls;   /* so far, of all ranks */
    uint64_t cut_at;  /* the call, from 1, from which on none gets through; 0:
                         none */
    const char *says; /* by a call that fails, as its sentence; NULL: nothing */
    uint32_t deaf;    /* this rank's calls end only with their timeout;
                         UINT32_MAX: none */
    uint64_t hurt;    /* flips a byte of each message of this rank; as deaf */
} agree_room_t;

void agree_room_init(agree_room_t *room);
/* Ends all calls. */
void agree_room_fini(agree_room_t *room);
/* Forgets messages, counts anew, mends all. */
void agree_room_reset(agree_room_t *room);
/* ctx: the room. */
lull_status_t agree_room_call(void *ctx, const lull_ckpt_agree_t *call);

#endif
