/* Ranks that call different collectives, where no message of theirs meets.
 *
 * Each rank numbers its collectives and keeps what the last ones were. A rank
 * that has waited for long tells all others, once a call, and looks at what it
 * was told: two descriptions of one number that differ are a mismatch, unless
 * those calls meet in lull's own messages, which tell. A slow rank is never
 * taken for a wrong one. With check=1 the descriptions are exchanged before
 * each collective instead. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/decimal.h"
#include "base/settings.h"
#include "engine.h"

enum {
    KEPT = 256,  /* descriptions of the last collectives */
    SOME = 16,   /* of these in one message */
    SETTLE = 10, /* seconds to wait for ranks that free theirs later */
    ID = 8,      /* bytes of the communicator's own number */
    TOLD = ID + SOME * LULL__HEADER_BYTES,
    TAG = 1
};

/* Messages to all ranks, each with a copy of its own: some take it late. */
typedef struct notice {
    MPI_Request *requests; /* null: it was received, or not sent yet */
    unsigned char *bytes;  /* TOLD for each rank */
} notice_t;

struct lull__doubt {
    MPI_Comm comm;
    uint64_t id;    /* a stale message of another communicator is not ours */
    double after;   /* seconds; 0: never */
    bool left;      /* not all ranks have freed it in time: nor does this one */
    uint64_t *told; /* the number of collectives when each rank was told */
    notice_t doubts;
    notice_t last;      /* what differed, when the communicator is given up */
    unsigned char *all; /* of check=1: descriptions of all ranks */
    /* What each rank told last: it may be of calls that are to come here. */
    unsigned char *heard;
    uint64_t compared; /* the number of collectives when that was compared */
    uint64_t count;    /* collectives so far */
    lull__message_t kept[KEPT];
};

lull_status_t lull__doubt_create(lull_comm_t *comm) {
    size_t ranks = (size_t)comm->size;
    if (comm->size == 1 || !(comm->codes_elsewhere || comm->policy.check))
        return LULL_OK;
    lull__doubt_t *doubt = comm->doubt = calloc(1, sizeof *doubt);
    if (doubt == NULL)
        return lull__fail(LULL_ERR_NO_MEMORY, "a watch on calls");
    doubt->comm = MPI_COMM_NULL;
    doubt->after =
        lull__decimal_read(lull__setting(LULL__SETTING_DOUBT_MS), NULL) / 1e3;
    doubt->doubts.requests = calloc(2 * ranks, sizeof(MPI_Request));
    doubt->doubts.bytes = calloc(2 * ranks, TOLD);
    doubt->told = calloc(ranks, sizeof *doubt->told);
    doubt->all = calloc(ranks + 1, LULL__HEADER_BYTES);
    doubt->heard = calloc(ranks, TOLD);
    if (doubt->doubts.requests == NULL || doubt->doubts.bytes == NULL ||
        doubt->told == NULL || doubt->all == NULL || doubt->heard == NULL)
        return lull__fail(LULL_ERR_NO_MEMORY, "%d ranks to watch", comm->size);
    doubt->last.requests = doubt->doubts.requests + ranks;
    doubt->last.bytes = doubt->doubts.bytes + ranks * TOLD;
    for (size_t i = 0; i < 2 * ranks; i++)
        doubt->doubts.requests[i] = MPI_REQUEST_NULL;
    return LULL_OK;
}

lull_status_t lull__doubt_connect(lull_comm_t *comm) {
    lull__doubt_t *doubt = comm->doubt;
    if (doubt == NULL)
        return LULL_OK;
    int error = MPI_Comm_dup(comm->native, &doubt->comm);
    if (error != MPI_SUCCESS)
        return lull__fail_mpi(error, "MPI_Comm_dup", NULL);
    MPI_Comm_set_errhandler(doubt->comm, MPI_ERRORS_RETURN);
    doubt->id = (uint64_t)(lull__now() * 1e9) ^ (uint64_t)(uintptr_t)doubt;
    error = MPI_Bcast(&doubt->id, 1, MPI_UINT64_T, 0, doubt->comm);
    return error == MPI_SUCCESS ? LULL_OK
                                : lull__fail_mpi(error, "MPI_Bcast", NULL);
}

/* Next message of another rank; its sender, or -1. */
static int take(const lull__doubt_t *doubt, unsigned char in[TOLD],
                int *bytes) {
    MPI_Status status;
    int flag = 0;
    if (MPI_Iprobe(MPI_ANY_SOURCE, TAG, doubt->comm, &flag, &status) !=
            MPI_SUCCESS ||
        !flag)
        return -1;
    if (MPI_Recv(in, TOLD, MPI_BYTE, status.MPI_SOURCE, TAG, doubt->comm,
                 &status) != MPI_SUCCESS)
        return -1;
    MPI_Get_count(&status, MPI_BYTE, bytes);
    return status.MPI_SOURCE;
}

/* Whether all that was sent was received. */
static bool all_took(const lull_comm_t *comm, const notice_t *notice) {
    int flag = 1;
    for (int r = 0; flag && r < comm->size; r++)
        MPI_Test(&notice->requests[r], &flag, MPI_STATUS_IGNORE);
    return flag != 0;
}

/* MPI gives the place of a communicator that was freed to a new one, and what
 * still comes for the old one then takes the turn of what is sent in the new
 * one, which is never received. So nothing may be on its way: a rank enters the
 * barrier when all that it told was received, for which all receive until it
 * ends. Ranks of a broken communicator come here, too. */
bool lull__doubt_settle(lull_comm_t *comm) {
    lull__doubt_t *doubt = comm->doubt;
    unsigned char in[TOLD];
    MPI_Request barrier = MPI_REQUEST_NULL;
    int bytes, done = 0;
    if (doubt == NULL || doubt->comm == MPI_COMM_NULL)
        return true;
    for (double since = lull__now(); !done && !doubt->left;) {
        while (take(doubt, in, &bytes) >= 0)
            continue;
        if (barrier == MPI_REQUEST_NULL && all_took(comm, &doubt->doubts) &&
            all_took(comm, &doubt->last) &&
            MPI_Ibarrier(doubt->comm, &barrier) != MPI_SUCCESS)
            doubt->left = true;
        if (barrier != MPI_REQUEST_NULL &&
            MPI_Test(&barrier, &done, MPI_STATUS_IGNORE) != MPI_SUCCESS)
            doubt->left = true;
        if (lull__now() - since > SETTLE)
            doubt->left = true;
        lull__pause();
    }
    return !doubt->left;
}

void lull__doubt_free_comms(lull_comm_t *comm) {
    if (comm->doubt == NULL || comm->doubt->comm == MPI_COMM_NULL)
        return;
    if (lull__doubt_settle(comm))
        MPI_Comm_free(&comm->doubt->comm);
}

void lull__doubt_destroy(lull_comm_t *comm) {
    if (comm->doubt == NULL || comm->doubt->left)
        return; /* MPI may still read what is on its way */
    free(comm->doubt->doubts.requests);
    free(comm->doubt->doubts.bytes);
    free(comm->doubt->told);
    free(comm->doubt->all);
    free(comm->doubt->heard);
    free(comm->doubt);
    comm->doubt = NULL;
}

void lull__doubt_note(const lull__call_t *call) {
    lull__doubt_t *doubt = call->comm->doubt;
    if (doubt == NULL || lull__is_pair(call))
        return;
    lull__message_t *m = &doubt->kept[doubt->count % KEPT];
    *m = (lull__message_t){
        .kind = LULL__MESSAGE_EMPTY,
        .call = call->kind,
        .dtype = (int)call->dtype,
        .op = lull__reduces(call->kind) ? (int)call->op : 0,
        .root = call->kind == LULL__BCAST ? call->peer : 0,
        .rank = call->comm->rank,
        .seq = doubt->count++,
        .count = call->count,
        .step = 1,
    };
}

/* ---- check=1 ------------------------------------------------------------ */

/* Ranks that called something else than rank 0, in words. */
static lull_status_t compare(const lull_comm_t *comm) {
    char theirs[160], first[160], ranks[120] = "";
    lull__message_t zero, m, other = {0};
    size_t used = 0;
    bool differ = false;
    for (int r = 0; r < comm->size; r++) {
        lull_status_t status = lull__message_unpack(
            comm->doubt->all + (size_t)(r + 1) * LULL__HEADER_BYTES,
            LULL__HEADER_BYTES, &m);
        if (status != LULL_OK)
            return status;
        if (r == 0)
            zero = m;
        if (m.kind == LULL__MESSAGE_ERROR)
            return lull__fail(LULL_ERR_PEER, "%s: rank %d failed: %s",
                              lull__call_name(m.call), r,
                              lull_status_name((lull_status_t)m.status));
        if (lull__message_same(&zero, &m) && zero.seq == m.seq)
            continue;
        if (!differ)
            other = m;
        differ = true;
        if (used < sizeof ranks - 12)
            used += (size_t)snprintf(ranks + used, sizeof ranks - used, "%s%d",
                                     used != 0 ? ", " : "", r);
    }
    if (!differ)
        return LULL_OK;
    lull__message_describe(&zero, first);
    lull__message_describe(&other, theirs);
    return lull__fail(LULL_ERR_MISMATCH,
                      "rank 0 called %s (call %llu), rank %s %s (call %llu)",
                      first, (unsigned long long)zero.seq, ranks, theirs,
                      (unsigned long long)other.seq);
}

lull_status_t lull__doubt_check(const lull__call_t *call, lull_status_t local) {
    const lull_comm_t *comm = call->comm;
    lull__doubt_t *doubt = comm->doubt;
    MPI_Request request;
    if (!comm->policy.check || doubt == NULL || lull__is_pair(call))
        return local;
    char sentence[LULL__SENTENCE_MAX];
    lull__message_t m = doubt->kept[(doubt->count - 1) % KEPT];
    if (local != LULL_OK) {
        strncpy(sentence, lull_last_error(), sizeof sentence - 1);
        sentence[sizeof sentence - 1] = '\0';
        m.kind = LULL__MESSAGE_ERROR;
        m.status = local;
    }
    m.count &= ((uint64_t)1 << 60) - 1;
    lull__message_pack(&m, doubt->all);
    int error =
        MPI_Iallgather(doubt->all, LULL__HEADER_BYTES, MPI_BYTE,
                       doubt->all + LULL__HEADER_BYTES, LULL__HEADER_BYTES,
                       MPI_BYTE, doubt->comm, &request);
    if (error != MPI_SUCCESS)
        return lull__fail_mpi(error, "comparing calls", comm);
    lull_status_t status = lull__poll(&request, comm);
    if (local != LULL_OK) {
        lull__error_set(sentence);
        return local;
    }
    return status == LULL_OK ? compare(comm) : status;
}

/* ---- Doubts of a rank that waits ---------------------------------------- */

/* To rank r: the last descriptions before the collective of number `end`. */
static void send_one(const lull_comm_t *comm, uint64_t end,
                     const notice_t *notice, int r) {
    const lull__doubt_t *doubt = comm->doubt;
    unsigned char *to = notice->bytes + (size_t)r * TOLD;
    int bytes = ID;
    memcpy(to, &doubt->id, ID);
    for (uint64_t i = end > SOME ? end - SOME : 0; i < end; i++) {
        lull__message_pack(&doubt->kept[i % KEPT], to + bytes);
        bytes += LULL__HEADER_BYTES;
    }
    MPI_Issend(to, bytes, MPI_BYTE, r, TAG, doubt->comm, &notice->requests[r]);
}

/* All ranks that have taken what they were told before. */
static void tell(const lull_comm_t *comm) {
    lull__doubt_t *doubt = comm->doubt;
    for (int r = 0; r < comm->size; r++) {
        int took = 1;
        if (r == comm->rank || doubt->told[r] == doubt->count)
            continue;
        MPI_Test(&doubt->doubts.requests[r], &took, MPI_STATUS_IGNORE);
        if (!took)
            continue;
        send_one(comm, doubt->count, &doubt->doubts, r);
        doubt->told[r] = doubt->count;
    }
}

/* lull's own schedules: ranks in the same one hear from its messages what the
 * others called, and none of them waits in vain. */
typedef enum schedule { NO_OTHER, ALL_TO_ALL, RING, HOSTS } schedule_t;

static schedule_t schedule_of(const lull_comm_t *comm,
                              const lull__message_t *m) {
    lull__call_t call = {.kind = m->call,
                         .count = (size_t)m->count,
                         .dtype = (lull_dtype_t)m->dtype,
                         .op = (lull_op_t)m->op,
                         .comm = (lull_comm_t *)(uintptr_t)comm};
    bool collective = lull__reduces(m->call) || m->call == LULL__ALLGATHER ||
                      m->call == LULL__BCAST;
    if (!collective || m->count == 0 || !lull__route_of(&call).engine)
        return NO_OTHER;
    return lull__hier_takes(&call)  ? HOSTS
           : m->call == LULL__BCAST ? RING
                                    : ALL_TO_ALL;
}

static bool meet(const lull_comm_t *comm, const lull__message_t *a,
                 const lull__message_t *b) {
    return schedule_of(comm, a) != NO_OTHER &&
           schedule_of(comm, a) == schedule_of(comm, b);
}

/* Does another rank's description differ from this rank's of that number?
 * *number: the one after it. */
static bool differs(const lull_comm_t *comm, int from,
                    const unsigned char *header, uint64_t *number) {
    const lull__doubt_t *doubt = comm->doubt;
    char theirs[160], ours[160];
    lull__message_t m;
    if (lull__message_unpack(header, LULL__HEADER_BYTES, &m) != LULL_OK ||
        m.seq >= doubt->count || m.seq + KEPT < doubt->count)
        return false;
    const lull__message_t *mine = &doubt->kept[m.seq % KEPT];
    if (mine->seq != m.seq || lull__message_same(mine, &m) ||
        meet(comm, mine, &m))
        return false;
    lull__message_describe(&m, theirs);
    lull__message_describe(mine, ours);
    lull__fail(LULL_ERR_MISMATCH, "rank %d called %s, rank %d %s", from, theirs,
               comm->rank, ours);
    *number = m.seq + 1;
    return true;
}

/* Keeps what came; true: something did. */
static bool receive(const lull_comm_t *comm) {
    lull__doubt_t *doubt = comm->doubt;
    unsigned char in[TOLD];
    bool came = false;
    int bytes, from;
    while ((from = take(doubt, in, &bytes)) >= 0) {
        if (bytes < ID || memcmp(in, &doubt->id, ID) != 0)
            continue;
        unsigned char *to = doubt->heard + (size_t)from * TOLD;
        memset(to, 0, TOLD);
        memcpy(to, in, (size_t)bytes);
        came = true;
    }
    return came;
}

/* A rank that is ahead told of calls that have not begun here: it is told once,
 * so that is kept until they have. */
static bool hear(const lull_comm_t *comm, uint64_t *number) {
    lull__doubt_t *doubt = comm->doubt;
    if (!receive(comm) && doubt->compared == doubt->count)
        return false;
    doubt->compared = doubt->count;
    for (int r = 0; r < comm->size; r++)
        for (int at = ID; at < TOLD; at += LULL__HEADER_BYTES)
            if (differs(comm, r, doubt->heard + (size_t)r * TOLD + at, number))
                return true;
    return false;
}

bool lull__doubt_look(lull_comm_t *comm, double waited) {
    lull__doubt_t *doubt = comm->doubt;
    uint64_t number;
    if (doubt == NULL || comm->policy.check || doubt->after <= 0 ||
        waited < doubt->after)
        return false;
    tell(comm);
    if (!hear(comm, &number))
        return false;
    strncpy(comm->broken, lull_last_error(), sizeof comm->broken - 1);
    /* One that waits there was not told if this rank is far ahead. */
    for (int r = 0; r < comm->size; r++)
        if (r != comm->rank)
            send_one(comm, number, &doubt->last, r);
    lull__engine_abandon(comm);
    return true;
}
