/* Outstanding operations of lull's own algorithms, of the whole process: any
 * call that waits moves all of them on. */
#include "engine.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* Held for one round of work at a time, never while MPI could block. Two
 * threads take turns chunk by chunk. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static lull_request_t *operations; /* in the order in which they began */
_Atomic int lull__engine_active;

void lull__engine_lock(void) {
    pthread_mutex_lock(&lock);
}

void lull__engine_unlock(void) {
    pthread_mutex_unlock(&lock);
}

/* What this rank needs; the communicators of the engine come when all ranks
 * have agreed. */
lull_status_t lull__engine_create(lull_comm_t *comm) {
    if (comm->size == 1)
        return LULL_OK;
    lull__engine_t *engine = calloc(1, sizeof *engine);
    comm->engine = engine;
    if (engine == NULL)
        return lull__fail(LULL_ERR_NO_MEMORY, "an engine");
    engine->collective = engine->pairs = MPI_COMM_NULL;
    size_t ranks = (size_t)comm->size;
    engine->direct.peers = calloc(ranks, sizeof *engine->direct.peers);
    engine->direct.held = calloc(2 * ranks + 4, sizeof(*engine->direct.held));
    if (engine->direct.peers == NULL || engine->direct.held == NULL)
        return lull__fail(LULL_ERR_NO_MEMORY, "%d peers", comm->size);
    lull_status_t status = lull_codec_scratch_create(&engine->scratch);
    return status == LULL_OK ? lull__slots_create(comm) : status;
}

static lull_status_t duplicate(MPI_Comm from, MPI_Comm *to) {
    int error = MPI_Comm_dup(from, to);
    if (error != MPI_SUCCESS)
        return lull__fail_mpi(error, "MPI_Comm_dup", NULL);
    MPI_Comm_set_errhandler(*to, MPI_ERRORS_RETURN);
    return LULL_OK;
}

lull_status_t lull__engine_connect(lull_comm_t *comm) {
    if (comm->engine == NULL)
        return LULL_OK;
    lull_status_t status = duplicate(comm->native, &comm->engine->collective);
    if (status == LULL_OK && comm->compressed)
        status = duplicate(comm->native, &comm->engine->pairs);
    return status;
}

void lull__engine_free_comms(lull_comm_t *comm) {
    if (comm->engine == NULL)
        return;
    if (comm->engine->collective != MPI_COMM_NULL)
        MPI_Comm_free(&comm->engine->collective);
    if (comm->engine->pairs != MPI_COMM_NULL)
        MPI_Comm_free(&comm->engine->pairs);
}

void lull__engine_destroy(lull_comm_t *comm) {
    if (comm == NULL || comm->engine == NULL)
        return;
    lull__slots_destroy(comm->engine);
    lull_codec_scratch_destroy(comm->engine->scratch);
    free(comm->engine->direct.peers);
    free(comm->engine->direct.held);
    free(comm->engine);
    comm->engine = NULL;
}

static bool is_pair(const lull_request_t *op) {
    return lull__is_pair(&op->call);
}

/* Messages of one stream must not mix with those of an earlier call: of the
 * same tag to or from the same peer, a send may begin when the earlier one
 * has handed over everything, a receive when the earlier one is done. */
static bool pair_may_run(const lull_request_t *op) {
    const lull_request_t *at = operations;
    for (; at != op; at = at->next_op)
        if (at->call.comm == op->call.comm && at->call.kind == op->call.kind &&
            at->call.peer == op->call.peer && at->call.tag == op->call.tag &&
            (op->call.kind == LULL__RECV || !at->begun ||
             at->line.out_index < at->line.out_total))
            return false;
    return true;
}

/* Collectives of a communicator run one after the other. */
static bool may_run(const lull_request_t *op) {
    if (is_pair(op))
        return pair_may_run(op);
    return op->seq == op->call.comm->engine->current;
}

static bool begin(lull_request_t *op) {
    bool line = is_pair(op) || op->call.kind == LULL__BCAST;
    if (!op->begun)
        op->begun = line ? lull__line_begin(op) : lull__direct_begin(op);
    return op->begun;
}

static bool run(lull_request_t *op) {
    if (!may_run(op))
        return false;
    if (lull__hier_takes(&op->call))
        return lull__hier_step(op);
    if (!begin(op))
        return false;
    if (is_pair(op) || op->call.kind == LULL__BCAST)
        return lull__line_step(op);
    return lull__direct_step(op);
}

static void retire(lull_request_t **at) {
    lull_request_t *op = *at;
    if (!is_pair(op))
        op->call.comm->engine->current++;
    *at = op->next_op;
    lull__engine_active--;
}

static bool is_of(const lull_request_t *op, const lull_comm_t *comm) {
    const lull_comm_t *on = op->call.comm;
    return on == comm || on == comm->host || on == comm->leaders;
}

void lull__engine_abandon(lull_comm_t *comm) {
    lull__engine_lock();
    for (lull_request_t **at = &operations; *at != NULL;) {
        lull_request_t *op = *at;
        if (!is_of(op, comm)) {
            at = &op->next_op;
            continue;
        }
        op->status = LULL_ERR_MISMATCH;
        memcpy(op->sentence, comm->broken, sizeof op->sentence);
        op->done = true;
        *at = op->next_op;
        lull__engine_active--;
    }
    lull__engine_unlock();
}

bool lull__engine_step(void) {
    bool worked = false;
    lull_request_t **at = &operations;
    while (*at != NULL) {
        worked |= run(*at);
        if ((*at)->done)
            retire(at);
        else
            at = &(*at)->next_op;
    }
    return worked;
}

void lull__engine_enter(lull_request_t *request, const lull__coding_t *coding) {
    lull__engine_t *engine = request->call.comm->engine;
    request->is_op = true;
    request->coding = *coding;
    request->call.step = coding->step;
    request->culprit =
        lull__name_of(request->call.comm, request->call.comm->rank);
    request->begun = false;
    request->next_op = request->part = NULL;
    request->stage = -1;
    if (request->call.kind == LULL__SEND)
        request->seq = engine->sent++;
    else if (request->call.kind != LULL__RECV)
        request->seq = engine->begun++;
    lull_request_t **last = &operations;
    while (*last != NULL)
        last = &(*last)->next_op;
    *last = request;
    lull__engine_active++;
}

/* Begins it and takes its first steps, so that its first messages are on
 * their way. */
void lull__engine_start(lull_request_t *request, const lull__coding_t *coding) {
    lull__engine_lock();
    lull__engine_enter(request, coding);
    lull__engine_step();
    lull__engine_unlock();
}
