/* Requests: waited for, tested, moved on. */
#include <sched.h>
#include <string.h>

#include "engine.h"

static lull_status_t keep(lull_request_t *request, lull_status_t status) {
    request->done = true;
    request->status = status;
    if (status != LULL_OK)
        strncpy(request->sentence, lull_last_error(),
                sizeof request->sentence - 1);
    return status;
}

/* Counts of both sides must agree; MPI itself only finds too long ones. */
static lull_status_t check_count(const lull_request_t *request) {
    const lull__call_t *call = &request->call;
    if (call->kind != LULL__RECV || call->peer == MPI_PROC_NULL ||
        request->got == call->count)
        return LULL_OK;
    return lull__fail(LULL_ERR_MISMATCH,
                      "lull_recv: rank %d sent %zu values, %zu were expected",
                      call->peer, request->got, call->count);
}

static lull_status_t settle(lull_request_t *request) {
    if (request->error != MPI_SUCCESS)
        return lull__fail_mpi(request->error, "an outstanding operation",
                              request->call.comm);
    lull_status_t status = check_count(request);
    if (status == LULL_OK && request->finish != NULL)
        status = request->finish(request);
    return status;
}

/* Moves one request on; `block` waits for it. One subrequest at a time, since
 * MPI_Waitall of Open MPI 4.1 spins for ever on some that end in an error. */
static void advance(lull_request_t *request, bool block) {
    for (; request->next_sub < request->sub_count; request->next_sub++) {
        MPI_Request *sub = &request->subs[request->next_sub];
        MPI_Status status;
        int flag = 1, n = 0;
        int error =
            block ? MPI_Wait(sub, &status) : MPI_Test(sub, &flag, &status);
        if (error == MPI_SUCCESS && !flag)
            return;
        if (error != MPI_SUCCESS)
            request->error = error;
        else if (request->call.kind == LULL__RECV)
            MPI_Get_count(&status, lull__native_type(request->call.dtype), &n);
        request->got += n > 0 ? (size_t)n : 0;
    }
    keep(request, settle(request));
}

/* A round over all operations of the process. */
static bool round_of_work(lull_request_t *request, bool *done) {
    lull__engine_lock();
    bool worked = lull__engine_step();
    if (request != NULL)
        *done = request->done;
    lull__engine_unlock();
    return worked;
}

/* Its communicator is of no use: what MPI still holds of the request is left
 * there. */
static void give_up(lull_request_t *request) {
    request->done = true;
    request->status = LULL_ERR_MISMATCH;
    memcpy(request->sentence, request->call.comm->broken,
           sizeof request->sentence);
    request->scratch = NULL;
    request->sub_count = 0;
}

/* Looks at the clock now and then; true: the wait is in vain. */
static bool is_in_vain(lull_request_t *request, unsigned *idle, double *since) {
    lull_comm_t *comm = request->call.comm;
    if (++*idle % 256 != 0 || comm->doubt == NULL)
        return false;
    if (*since == 0)
        *since = lull__now();
    if (comm->broken[0] == '\0' &&
        !lull__doubt_look(comm, lull__now() - *since))
        return false;
    give_up(request);
    return true;
}

void lull__pause(void) {
    bool unused;
    if (!round_of_work(NULL, &unused))
        sched_yield();
}

lull_status_t lull__poll(MPI_Request *request, const lull_comm_t *comm) {
    for (int done = 0;;) {
        int error = MPI_Test(request, &done, MPI_STATUS_IGNORE);
        if (error != MPI_SUCCESS)
            return lull__fail_mpi(error, "waiting for all ranks", comm);
        if (done)
            return LULL_OK;
        lull__pause();
    }
}

static bool is_done(const lull_request_t *request) {
    lull__engine_lock(); /* another thread may have moved it on */
    bool done = request->done;
    lull__engine_unlock();
    return done;
}

/* The communicator of one that is done may be gone. */
lull_status_t lull__complete(lull_request_t *request) {
    bool done = is_done(request);
    bool may_block = !done && request->call.comm->doubt == NULL;
    unsigned idle = 0;
    double since = 0;
    while (!done) {
        bool worked = false;
        if (!request->is_op && lull__engine_active == 0) {
            advance(request, may_block);
            done = request->done;
        } else {
            worked = round_of_work(request, &done);
            if (!request->is_op && !done) {
                advance(request, false);
                done = request->done;
            }
        }
        if (done || worked)
            continue;
        if (is_in_vain(request, &idle, &since))
            break;
        sched_yield();
    }
    return request->status;
}

static lull_status_t check(lull_request_t *const *request, const char *name) {
    if (request == NULL)
        return lull__fail(LULL_ERR_INVALID, "%s: request is NULL", name);
    if (*request != NULL && !lull__request_is(*request))
        return lull__fail(LULL_ERR_STATE, "%s: the request is not active",
                          name);
    if (*request != NULL && !(*request)->done &&
        (!lull__registry_has((*request)->call.comm) ||
         (*request)->call.comm->dead))
        return lull__fail(LULL_ERR_STATE, "%s: its communicator is gone", name);
    return LULL_OK;
}

/* Gives the request back; its status and sentence become the caller's. */
static lull_status_t retire(lull_request_t **request) {
    lull_status_t status = (*request)->status;
    if (status != LULL_OK)
        lull__error_set((*request)->sentence);
    lull__request_free(*request);
    *request = NULL;
    return status;
}

/* What the engine has added to the total already. */
static double worked_in(const lull_comm_t *comm) {
    return comm->counters.encode_s + comm->counters.decode_s;
}

lull__span_t lull__span_begin(lull_comm_t *comm) {
    bool live = lull__registry_has(comm);
    double worked = 0;
    lull__engine_lock(); /* another thread may move this one's work on */
    if (live)
        worked = worked_in(comm);
    lull__engine_unlock();
    return (lull__span_t){live ? comm : NULL, lull__now(), worked};
}

void lull__span_end(lull__span_t span) {
    if (span.comm == NULL)
        return;
    lull__engine_lock();
    double worked = worked_in(span.comm) - span.worked;
    double waited = lull__now() - span.since - worked;
    if (waited < 0)
        waited = 0;
    span.comm->counters.total_s += waited;
    span.comm->counters.wait_s += waited;
    lull__engine_unlock();
}

lull_status_t lull_wait(lull_request_t **request) {
    lull_status_t status = check(request, "lull_wait");
    if (status != LULL_OK || *request == NULL)
        return status;
    lull__span_t span = lull__span_begin((*request)->call.comm);
    lull__complete(*request);
    lull__span_end(span);
    return retire(request);
}

/* All of them are waited for, whatever happens; the first failure counts. */
lull_status_t lull_waitall(size_t count, lull_request_t **requests) {
    lull_status_t first = LULL_OK;
    char sentence[LULL__SENTENCE_MAX];
    if (requests == NULL && count != 0)
        return lull__fail(LULL_ERR_INVALID, "lull_waitall: requests is NULL");
    for (size_t i = 0; i < count; i++) {
        lull_status_t status = lull_wait(&requests[i]);
        if (status == LULL_OK || first != LULL_OK)
            continue;
        first = status;
        strncpy(sentence, lull_last_error(), sizeof sentence - 1);
        sentence[sizeof sentence - 1] = '\0';
    }
    if (first != LULL_OK)
        lull__error_set(sentence);
    return first;
}

lull_status_t lull_test(lull_request_t **request, int *done) {
    lull_status_t status = check(request, "lull_test");
    if (status != LULL_OK)
        return status;
    if (done == NULL)
        return lull__fail(LULL_ERR_INVALID, "lull_test: done is NULL");
    *done = 1;
    if (*request == NULL)
        return LULL_OK;
    lull__span_t span = lull__span_begin((*request)->call.comm);
    bool complete = false;
    if ((*request)->is_op) {
        round_of_work(*request, &complete);
    } else {
        if (!(*request)->done)
            advance(*request, false);
        complete = (*request)->done;
    }
    lull__span_end(span);
    lull_comm_t *comm = (*request)->call.comm;
    if (!complete && span.comm != NULL && comm->doubt != NULL &&
        (comm->broken[0] != '\0' ||
         lull__doubt_look(comm, lull__now() - (*request)->since))) {
        give_up(*request);
        complete = true;
    }
    *done = complete;
    if (!complete)
        return LULL_OK;
    return retire(request);
}

/* A probe that asks nothing of anyone moves all of MPI's own on. */
static lull_status_t probe(void) {
    int flag;
    int error = MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_SELF, &flag,
                           MPI_STATUS_IGNORE);
    return error == MPI_SUCCESS ? LULL_OK
                                : lull__fail_mpi(error, "MPI_Iprobe", NULL);
}

lull_status_t lull_comm_progress(void) {
    int up = 0, down = 0;
    MPI_Initialized(&up);
    if (up)
        MPI_Finalized(&down);
    if (!up || down)
        return lull__fail(LULL_ERR_STATE, "lull_comm_progress: MPI is %s",
                          up ? "finalised" : "not initialised");
    double end = lull__now() + 1e-3;
    bool done;
    while (lull__engine_active != 0 && round_of_work(NULL, &done) &&
           lull__now() < end)
        continue;
    return probe();
}
