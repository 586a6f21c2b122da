/* lull's own algorithms: operations as state machines over a pool of slots. */
#ifndef LULL__ENGINE_H
#define LULL__ENGINE_H

#include <lull/codec.h>

#include "message.h"

/* Most values of a chunk: 128 KiB of raw float32 measured best for codecs of
 * 8 bits. A chunk is one frame of at most one unit. */
#define LULL__CHUNK LULL_UNIT
#define LULL__CHUNK_BYTES ((size_t)4 * LULL__CHUNK)
#define LULL__SAMPLE 1024 /* values of a chunk that are sampled */

/* A slot holds a message, or a chunk of raw values; aligned to 64 bytes. */
typedef unsigned char lull__slot_t;

/* One peer of the running collective. */
typedef struct lull__peer {
    lull__slot_t *in, *out; /* out: scatter chunks and errors */
    MPI_Request in_request, out_request;
    MPI_Request gather_request[2]; /* of the shared gather slots */
    bool receiving, received, usable, sending, gathering[2];
    size_t in_bytes;
    /* Messages of the scatter and of the gather so far, both, and all. */
    uint32_t in_scatter, in_gather, in_done, in_total;
    uint32_t out_scatter, out_gather, out_done, out_total;
} lull__peer_t;

/* The running collective of a communicator; made once with it. */
typedef struct lull__direct {
    lull__peer_t *peers;    /* by rank */
    lull__slot_t **held;    /* slots that all of these are cut from */
    size_t held_count, cut; /* bytes of the last one in use */
    unsigned gathers;       /* 1 on few ranks, else 2 */
    lull__slot_t *gather[2];
    lull__slot_t *sum;        /* NULL: in the receive buffer */
    lull__slot_t *stage;      /* NULL: not needed */
    unsigned gather_users[2]; /* peers that have yet to be sent it */
    size_t gather_bytes[2];
    uint32_t summing;           /* chunk of this rank's part that is summed */
    int sum_rank;               /* its next contribution; -1: not begun */
    uint32_t own_chunks, ready; /* gather chunks of this rank: all, encoded */
    int turn;                   /* where the next round of sends begins */
} lull__direct_t;

typedef struct lull__engine {
    MPI_Comm collective, pairs; /* private duplicates; pairs: send, recv */
    lull__slot_t **owned, **idle;
    size_t slot_bytes, owned_count, idle_count, capacity;
    size_t message_bytes; /* the largest that may come */
    lull_codec_scratch_t *scratch;
    unsigned char sample[2][LULL__SAMPLE * 8 + 512];
    lull__direct_t direct;
    uint64_t begun, current; /* collectives: next to be numbered, to be run */
    uint64_t sent;           /* framed messages between pairs */
    uint64_t sampled;        /* chunks seen by sampling */
    double error2, value2;   /* of the sampled ones */
} lull__engine_t;

/* engine.c. All of these under the lock. */
void lull__engine_lock(void);
void lull__engine_unlock(void);
extern _Atomic int lull__engine_active; /* operations of the process */
lull_status_t lull__engine_create(lull_comm_t *comm);
lull_status_t lull__engine_connect(lull_comm_t *comm); /* collective */
void lull__engine_free_comms(lull_comm_t *comm);
void lull__engine_destroy(lull_comm_t *comm);
/* Begins the request's call. */
void lull__engine_start(lull_request_t *request, const lull__coding_t *coding);
/* The same with the lock held, without a first step. */
void lull__engine_enter(lull_request_t *request, const lull__coding_t *coding);
/* Gives up what is outstanding on a communicator that is of no use any more:
 * done, with that error. What MPI still holds stays where it is. */
void lull__engine_abandon(lull_comm_t *comm);
/* One round over all operations of the process; false: nothing to do. */
bool lull__engine_step(void);

/* Of one operation; true: did some work. direct.c and line.c. */
bool lull__hier_step(lull_request_t *request);
bool lull__direct_step(lull_request_t *request);
bool lull__line_step(lull_request_t *request);
bool lull__line_begin(lull_request_t *request); /* false: no slots yet */
bool lull__direct_begin(lull_request_t *request);

/* hier.c: communicators of hosts. */
lull_status_t lull__hier_create(lull_comm_t *comm); /* collective */
void lull__hier_free_comms(lull_comm_t *comm);
void lull__hier_destroy(lull_comm_t *comm);
bool lull__hier_takes(const lull__call_t *call);

/* pool.c: slots; NULL: out of memory. */
lull__slot_t *lull__slot_get(lull__engine_t *engine);
/* Slots of the pool: what a collective takes. Chunks of 128 KiB, at most three
 * a peer. */
size_t lull__slots_of(int ranks);
/* Bytes of a message with one chunk of this coding, at most. */
size_t lull__message_room(const lull__coding_t *coding);
void lull__slot_put(lull__engine_t *engine, lull__slot_t *slot);
lull_status_t lull__slots_create(lull_comm_t *comm);
void lull__slots_destroy(lull__engine_t *engine);

/* coding.c: a request's chunks to messages and back. */
/* Coded chunks stay below LULL__MESSAGE_BYTES: MPI sends larger messages only
 * when the receiver has answered, and its answer waits behind the data that
 * goes the other way. */
#define LULL__MESSAGE_BYTES ((size_t)60 << 10)
static inline uint32_t lull__chunks(size_t count, size_t step) {
    return (uint32_t)((count + step - 1) / step);
}
/* The first failure of an operation decides its status; the caller's sentence
 * is kept, and the rank that peers will hear named. */
void lull__op_fail(lull_request_t *request, lull_status_t status, int culprit);
/* Time since `since`, on one of the counters and on the total. */
void lull__spend(lull_comm_t *comm, double *on, double since);
void lull__op_mpi(lull_request_t *request, int error, const char *what);
/* A message header of this request. */
lull__message_t lull__op_message(const lull_request_t *request);
/* n values of a chunk, to be encoded. */
typedef struct lull__source {
    const void *values;
    size_t n;
    int gather;
    uint32_t chunk;
} lull__source_t;
/* Where n decoded values go; or are added, to float32 (f64: double) sums. */
typedef struct lull__target {
    void *values;
    size_t n;
    bool add;
} lull__target_t;
/* A message of data in a slot; its size, or 0 where that failed, which fails
 * the request. */
size_t lull__op_encode(lull_request_t *request, lull__slot_t *slot,
                       const lull__source_t *from);
/* An error if the request failed, else an empty message. */
size_t lull__op_error(lull_request_t *request, lull__slot_t *slot);
/* Checks what came against the call. Any failure fails the request. False: do
 * not decode it. *message is always plausible: it tells the call of `from`. */
bool lull__op_accept(lull_request_t *request, int from,
                     const lull__slot_t *slot, size_t bytes,
                     lull__message_t *message);
void lull__op_decode(lull_request_t *request, int from,
                     const lull__slot_t *slot, size_t bytes,
                     const lull__target_t *to);
/* MPI's calls for it: errors fail the request and are returned. */
int lull__op_send(lull_request_t *request, const lull__slot_t *slot,
                  size_t bytes, int to, MPI_Request *out);
int lull__op_recv(lull_request_t *request, lull__slot_t *slot, int from,
                  MPI_Request *in);
/* Is it complete? *bytes: what was received; may be NULL. An error completes
 * it. */
bool lull__op_test(lull_request_t *request, MPI_Request *of, size_t *bytes);

/* sum.c: arithmetic of one chunk. `sum` is float, double for f64. */
void lull__sum_clear(void *sum, size_t n, lull_dtype_t dtype);
void lull__sum_add(const lull__call_t *call, void *sum, const void *values,
                   size_t n, bool first);
void lull__sum_finish(const lull__call_t *call, const void *sum, void *out,
                      size_t n);
/* Does an average of this dtype scale before it sums? */
bool lull__scales(const lull__call_t *call);
void lull__scale(const lull__call_t *call, const void *in, void *out, size_t n);

/* Tests look at and change what goes out. */
extern void (*lull__test_message)(lull_comm_t *comm, unsigned char *message,
                                  size_t bytes);
extern lull_status_t (*lull__test_encode)(lull_comm_t *comm);

#endif
