/* Ranks that call different collectives, where no message of theirs meets.
 *
 * Each rank numbers its collectives and keeps what the last ones were. A rank
 * that has waited for long tells all others, once a call, and looks at what it
 * was told: two descriptions of one number that differ are a mismatch. A slow
 * rank is never taken for a wrong one. With check=1 the descriptions are
 * exchanged before each collective instead. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/decimal.h"
#include "base/settings.h"
#include "engine.h"

enum {
    KEPT = 16, /* descriptions of the last collectives */
    ID = 8,    /* bytes of the communicator's own number */
    TOLD = ID + KEPT * LULL__HEADER_BYTES,
    TAG = 1
};
/* The kind of a description of a call that failed: not compared with another
 * such. */
static const lull__message_kind_t settled = LULL__MESSAGE_ERROR;

struct lull__doubt {
    MPI_Comm comm;
    uint64_t id;   /* a stale message of another communicator is not ours */
    double after;  /* seconds; 0: never */
    uint64_t told; /* the number of collectives when it was told last */
    unsigned char out[TOLD];
    int out_bytes;
    bool sending;
    MPI_Request *requests;
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
    doubt->requests = calloc(ranks, sizeof(*doubt->requests));
    doubt->all = calloc(ranks + 1, LULL__HEADER_BYTES);
    doubt->heard = calloc(ranks, TOLD);
    return doubt->requests != NULL && doubt->all != NULL && doubt->heard != NULL
               ? LULL_OK
               : lull__fail(LULL_ERR_NO_MEMORY, "%d ranks to watch",
                            comm->size);
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

static void finish_sends(const lull_comm_t *comm) {
    lull__doubt_t *doubt = comm->doubt;
    int flag = 1;
    for (int r = 0; doubt->sending && flag && r < comm->size; r++)
        MPI_Test(&doubt->requests[r], &flag, MPI_STATUS_IGNORE);
    if (flag)
        doubt->sending = false;
}

/* What was told in vain is read, so that nothing is left for a communicator
 * that MPI may give the same place. */
void lull__doubt_free_comms(lull_comm_t *comm) {
    unsigned char in[TOLD];
    int bytes;
    if (comm->doubt == NULL || comm->doubt->comm == MPI_COMM_NULL)
        return;
    while (take(comm->doubt, in, &bytes) >= 0)
        continue;
    finish_sends(comm);
    MPI_Comm_free(&comm->doubt->comm);
}

void lull__doubt_destroy(lull_comm_t *comm) {
    if (comm->doubt == NULL || comm->doubt->sending)
        return; /* MPI may still read what is on its way: it is left */
    free(comm->doubt->requests);
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

uint64_t lull__doubt_number(const lull__call_t *call) {
    const lull__doubt_t *doubt = call->comm->doubt;
    return doubt == NULL || lull__is_pair(call) ? 0 : doubt->count;
}

void lull__doubt_settle(const lull_request_t *request) {
    if (request->status == LULL_OK || request->number == 0 ||
        !lull__registry_has(request->call.comm) ||
        request->call.comm->doubt == NULL)
        return;
    lull__message_t *m =
        &request->call.comm->doubt->kept[(request->number - 1) % KEPT];
    if (m->seq == request->number - 1)
        m->kind = settled;
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

static void tell(lull_comm_t *comm) {
    lull__doubt_t *doubt = comm->doubt;
    finish_sends(comm);
    if (doubt->sending || doubt->told == doubt->count)
        return;
    uint64_t first = doubt->count > KEPT ? doubt->count - KEPT : 0;
    memcpy(doubt->out, &doubt->id, ID);
    doubt->out_bytes = ID;
    for (uint64_t i = first; i < doubt->count; i++) {
        lull__message_pack(&doubt->kept[i % KEPT],
                           doubt->out + doubt->out_bytes);
        doubt->out_bytes += LULL__HEADER_BYTES;
    }
    for (int r = 0; r < comm->size; r++) {
        doubt->requests[r] = MPI_REQUEST_NULL;
        if (r != comm->rank)
            MPI_Isend(doubt->out, doubt->out_bytes, MPI_BYTE, r, TAG,
                      doubt->comm, &doubt->requests[r]);
    }
    doubt->sending = true;
    doubt->told = doubt->count;
}

/* Does another rank's description differ from this rank's of that number? */
static bool differs(const lull_comm_t *comm, int from,
                    const unsigned char *header) {
    const lull__doubt_t *doubt = comm->doubt;
    char theirs[160], ours[160];
    lull__message_t m;
    if (lull__message_unpack(header, LULL__HEADER_BYTES, &m) != LULL_OK ||
        m.seq >= doubt->count || m.seq + KEPT < doubt->count)
        return false;
    const lull__message_t *mine = &doubt->kept[m.seq % KEPT];
    bool known = mine->kind == settled && m.kind == settled;
    if (mine->seq != m.seq || known || lull__message_same(mine, &m))
        return false;
    lull__message_describe(&m, theirs);
    lull__message_describe(mine, ours);
    lull__fail(LULL_ERR_MISMATCH, "rank %d called %s, rank %d %s", from, theirs,
               comm->rank, ours);
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
static bool hear(const lull_comm_t *comm) {
    lull__doubt_t *doubt = comm->doubt;
    if (!receive(comm) && doubt->compared == doubt->count)
        return false;
    doubt->compared = doubt->count;
    for (int r = 0; r < comm->size; r++)
        for (int at = ID; at < TOLD; at += LULL__HEADER_BYTES)
            if (differs(comm, r, doubt->heard + (size_t)r * TOLD + at))
                return true;
    return false;
}

bool lull__doubt_look(lull_comm_t *comm, double waited) {
    lull__doubt_t *doubt = comm->doubt;
    if (doubt == NULL || comm->policy.check || doubt->after <= 0 ||
        waited < doubt->after)
        return false;
    tell(comm);
    if (!hear(comm))
        return false;
    strncpy(comm->broken, lull_last_error(), sizeof comm->broken - 1);
    lull__engine_abandon(comm);
    return true;
}
