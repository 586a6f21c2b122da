/* What the files of this folder share: the communicator, a call, a request. */
#ifndef LULL__COMM_INTERNAL_H
#define LULL__COMM_INTERNAL_H

#include <lull/codec.h>
#include <lull/comm.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "policy.h"

typedef enum lull__kind {
    LULL__ALLREDUCE,
    LULL__REDUCE_SCATTER,
    LULL__ALLGATHER,
    LULL__BCAST,
    LULL__SEND,
    LULL__RECV,
    LULL__BARRIER,
    LULL__KIND_COUNT
} lull__kind_t;

/* One call of a user, as all layers below see it. */
typedef struct lull__call {
    lull__kind_t kind;
    const void *send; /* LULL_IN_PLACE where the call has it */
    void *recv;
    size_t count;
    lull_dtype_t dtype;
    lull_op_t op;
    int peer, tag; /* peer is the root of a bcast */
    lull_comm_t *comm;
    size_t step; /* values of a chunk, where the engine carries it */
    bool plain;  /* of hier.c, which scales and divides an average itself */
} lull__call_t;

typedef struct lull__counters {
    uint64_t calls, bytes, wire_bytes;
    double total_s, encode_s, wait_s, decode_s;
    uint64_t bypasses[LULL_BYPASS_COUNT];
} lull__counters_t;

/* What a call's messages are coded with. */
typedef struct lull__coding {
    bool none;    /* by MPI's own call */
    bool carries; /* the codec knows the dtype */
    bool lossy;
    size_t step; /* values of a chunk */
    lull_codec_t codec;
} lull__coding_t;

/* The rules of the policy for one dtype: the last one that is for messages of
 * so many bytes. */
typedef struct lull__choices {
    unsigned count;
    uint64_t bytes[LULL__RULES_MAX];
    lull__coding_t coding[LULL__RULES_MAX];
} lull__choices_t;

#define LULL__DTYPES 7 /* that calls take */
extern const lull_dtype_t lull__dtypes[LULL__DTYPES];

#define LULL__HEADER_BYTES 64 /* of a message */

/* A chain of at most two neighbours: bcast, send, recv. */
typedef struct lull__line {
    int source, sink;          /* MPI_PROC_NULL: none */
    unsigned slot_count, held; /* two messages may lie in one slot */
    unsigned char *slots[2];
    MPI_Request requests[2];
    size_t bytes[2];
    int states[2]; /* line.c */
    uint32_t posted, in_index, in_total, out_index, out_total;
    struct { /* of a bcast: from its last rank to its root */
        int peer, state;
        MPI_Request request;
        unsigned char *slot; /* of the root */
        unsigned char out[LULL__HEADER_BYTES];
        size_t bytes;
        uint32_t left; /* messages to come */
    } closing;
} lull__line_t;

struct lull__engine;
typedef struct lull__doubt lull__doubt_t;

struct lull_comm {
    MPI_Comm native; /* private duplicate, for MPI's own calls */
    int rank, size;
    lull_role_t role;
    lull__policy_t policy;
    bool compressed;      /* the policy of this role is not none */
    bool codes_elsewhere; /* the policy of some role is not none */
    /* hier=1: this rank's host and, of its first rank, the first ranks of all
     * hosts; else NULL. */
    lull_comm_t *host, *leaders;
    int *names; /* of such: ranks as the user knows them */
    bool dead;  /* MPI is finalised: the duplicates are gone */
    /* Why it is of no use any more: ranks called different things, and some
     * still wait. */
    char broken[LULL__SENTENCE_MAX];
    lull__doubt_t *doubt;             /* NULL: nothing is compared */
    char rules[LULL__RULES_TEXT_MAX]; /* of this role, as a string */
    lull__choices_t choices[LULL__DTYPES];
    struct lull__engine *engine; /* NULL: one rank */
    lull__counters_t counters;
    lull_comm_t *next; /* in the registry */
};

struct lull_request {
    bool active;
    lull__call_t call;
    double since;      /* it was begun, of nonblocking ones */
    MPI_Request *subs; /* of MPI's own calls, all posted at once */
    size_t sub_count, sub_capacity;
    size_t next_sub, got; /* the first not complete; values received */
    int error;            /* the last of a subrequest */
    void *scratch;        /* freed at the end */
    lull_status_t (*finish)(lull_request_t *request); /* may be NULL */
    /* Of operations of the engine: */
    lull__coding_t coding;
    uint64_t seq;
    bool is_op, begun;
    int culprit; /* where a failure happened first */
    lull__line_t line;
    lull_request_t *next_op;
    int stage;            /* of hier.c */
    lull_request_t *part; /* its operation now */

    bool done;
    lull_status_t status;
    char sentence[LULL__SENTENCE_MAX]; /* of a status that is an error */
    lull_request_t *next; /* in the registry, or of its free list */
};

/* registry.c: live communicators and requests of the process. */
void lull__registry_add(lull_comm_t *comm);
void lull__registry_remove(lull_comm_t *comm);
bool lull__registry_has(const lull_comm_t *comm);
/* Frees the duplicates when MPI_Finalize begins. */
lull_status_t lull__registry_hook(void);
lull_status_t lull__request_new(const lull__call_t *call, lull_request_t **out);
bool lull__request_is(const lull_request_t *request);
void lull__request_free(lull_request_t *request);
/* The first active request of a communicator that is not done, or NULL. */
lull_request_t *lull__request_of(const lull_comm_t *comm);

/* choice.c: the codec of the policy for each dtype and size. */
lull_status_t lull__choices_fill(lull_comm_t *comm);
lull__coding_t lull__coding_raw(lull_dtype_t dtype);
lull__coding_t lull__choose(const lull_comm_t *comm, lull_dtype_t dtype,
                            uint64_t bytes);

/* How a call travels: by the engine with a coding, or by MPI. It follows from
 * what all ranks share. route.c */
typedef struct lull__route {
    bool engine;
    int bypass; /* why it is not coded; -1: it is */
    lull__coding_t coding;
} lull__route_t;
lull__route_t lull__route_of(const lull__call_t *call);

/* agree.c: collective. `local` is what this rank found about its arguments,
 * with its sentence; all ranks return the same judgement. */
lull_status_t lull__agree(MPI_Comm comm, lull_status_t local, lull_role_t role,
                          const lull__policy_t *policy);

extern const char *lull__version_text; /* tests change it */

/* native.c: MPI's own calls, in pieces below 2^31. */
lull_status_t lull__native_run(const lull__call_t *call);
lull_status_t lull__native_start(lull_request_t *request);
/* Posts the pieces of one call into the request, which may be another's. */
lull_status_t lull__native_post(const lull__call_t *call, lull_request_t *to);
/* Room for n more subrequests. */
lull_status_t lull__request_room(lull_request_t *request, size_t n);
/* Largest count of one piece; tests make it small. */
extern size_t lull__native_max;
MPI_Datatype lull__native_type(lull_dtype_t dtype); /* MPI_DATATYPE_NULL */
lull_status_t lull__fail_mpi(int error, const char *what,
                             const lull_comm_t *comm);

/* average.c: averages that do not overflow where the average is finite. */
double lull__average_power(int ranks); /* what values are divided by */
void lull__average_before(const void *in, void *out, size_t count,
                          lull_dtype_t dtype, int ranks);
void lull__average_after(void *data, size_t count, lull_dtype_t dtype,
                         int ranks);

/* wait.c */
lull_status_t lull__complete(lull_request_t *request); /* blocks */
/* Moves all operations on until MPI's own request is complete. comm: for the
 * sentence of an error; may be NULL. */
lull_status_t lull__poll(MPI_Request *request, const lull_comm_t *comm);
/* Between two looks: what else there is to do, or the core for others. */
void lull__pause(void);

/* Time in a call, to the communicator's total and, but for what the engine
 * worked meanwhile, to its waiting. */
typedef struct lull__span {
    lull_comm_t *comm;
    double since, worked;
} lull__span_t;
lull__span_t lull__span_begin(lull_comm_t *comm);
void lull__span_end(lull__span_t span);

/* doubt.c: ranks that call different collectives. The first two with the
 * communicator; connect is collective. */
lull_status_t lull__doubt_create(lull_comm_t *comm);
lull_status_t lull__doubt_connect(lull_comm_t *comm);
/* Collective: waits until nothing is on its way in its communicator. False:
 * other ranks did not come in time, and it cannot be freed. */
bool lull__doubt_settle(lull_comm_t *comm);
void lull__doubt_free_comms(lull_comm_t *comm);
void lull__doubt_destroy(lull_comm_t *comm);
/* A collective begins. */
void lull__doubt_note(const lull__call_t *call);
/* With check=1: compares it with the other ranks', which hear of a `local`
 * failure too. Else `local`. */
lull_status_t lull__doubt_check(const lull__call_t *call, lull_status_t local);
/* A wait of so many seconds: true, where it is in vain; the operations of the
 * communicator are given up. */
bool lull__doubt_look(lull_comm_t *comm, double waited);

/* stats.c */
double lull__now(void);
void lull__count(const lull__call_t *call, bool on_wire, int bypass);

/* A rank as the user's communicator has it. */
static inline int lull__name_of(const lull_comm_t *comm, int rank) {
    return comm->names != NULL ? comm->names[rank] : rank;
}

static inline size_t lull__size_of(lull_dtype_t dtype) {
    return lull_dtype_bits(dtype) / 8;
}

static inline bool lull__is_half(lull_dtype_t dtype) {
    return dtype == LULL_F16 || dtype == LULL_BF16;
}

static inline bool lull__is_float(lull_dtype_t dtype) {
    return dtype == LULL_F32 || dtype == LULL_F64 || lull__is_half(dtype);
}

static inline bool lull__reduces(lull__kind_t kind) {
    return kind == LULL__ALLREDUCE || kind == LULL__REDUCE_SCATTER;
}

static inline bool lull__is_pair(const lull__call_t *call) {
    return call->kind == LULL__SEND || call->kind == LULL__RECV;
}

static inline bool lull__in_place_call(const lull__call_t *call) {
    return call->send == LULL_IN_PLACE;
}

#endif
