/* hier=1: an all-reduce sums raw inside each host, coded between the first
 * ranks of the hosts, and spreads the result raw inside each host. It is made
 * of three operations on communicators of its own. */
#include <stdlib.h>
#include <string.h>

#include "base/settings.h"
#include "engine.h"

/* Ranks on one host get one color. The setting fakes hosts of so many ranks
 * each. */
static int split_hosts(const lull_comm_t *comm, MPI_Comm *host) {
    int fake = atoi(lull__setting(LULL__SETTING_HOST_RANKS));
    if (fake > 0)
        return MPI_Comm_split(comm->native, comm->rank / fake, comm->rank,
                              host);
    return MPI_Comm_split_type(comm->native, MPI_COMM_TYPE_SHARED, comm->rank,
                               MPI_INFO_NULL, host);
}

/* A communicator of the engine over some ranks of `of`; takes `native`. */
static lull_status_t derive(const lull_comm_t *of, MPI_Comm native,
                            lull_comm_t **out) {
    lull_comm_t *comm = calloc(1, sizeof *comm);
    if (comm == NULL)
        return lull__fail(LULL_ERR_NO_MEMORY, "a communicator of a host");
    *out = comm;
    comm->native = native;
    comm->role = of->role;
    comm->policy = of->policy;
    memcpy(comm->choices, of->choices, sizeof comm->choices);
    MPI_Comm_set_errhandler(native, MPI_ERRORS_RETURN);
    MPI_Comm_rank(native, &comm->rank);
    MPI_Comm_size(native, &comm->size);
    comm->names = calloc((size_t)comm->size, sizeof *comm->names);
    if (comm->names == NULL)
        return lull__fail(LULL_ERR_NO_MEMORY, "%d names", comm->size);
    return lull__engine_create(comm);
}

static lull_status_t connect(const lull_comm_t *of, lull_comm_t *comm) {
    int error = MPI_Allgather(&of->rank, 1, MPI_INT, comm->names, 1, MPI_INT,
                              comm->native);
    if (error != MPI_SUCCESS)
        return lull__fail_mpi(error, "MPI_Allgather", of);
    return lull__engine_connect(comm);
}

static void drop(lull_comm_t *comm) {
    if (comm == NULL)
        return;
    lull__engine_destroy(comm);
    free(comm->names);
    free(comm);
}

void lull__hier_free_comms(lull_comm_t *comm) {
    lull_comm_t *parts[] = {comm->host, comm->leaders};
    for (unsigned i = 0; i < 2; i++)
        if (parts[i] != NULL) {
            lull__engine_free_comms(parts[i]);
            MPI_Comm_free(&parts[i]->native);
        }
}

void lull__hier_destroy(lull_comm_t *comm) {
    drop(comm->host);
    drop(comm->leaders);
}

/* Collective: what one rank lacks is an error on all. */
lull_status_t lull__hier_create(lull_comm_t *comm) {
    MPI_Comm host, leaders = MPI_COMM_NULL;
    int local;
    if (!comm->policy.hier || !comm->compressed || comm->size == 1)
        return LULL_OK;
    int error = split_hosts(comm, &host);
    if (error == MPI_SUCCESS)
        error = MPI_Comm_rank(host, &local);
    if (error == MPI_SUCCESS)
        error = MPI_Comm_split(comm->native, local == 0 ? 0 : MPI_UNDEFINED,
                               comm->rank, &leaders);
    if (error != MPI_SUCCESS)
        return lull__fail_mpi(error, "MPI_Comm_split", comm);
    lull_status_t status = derive(comm, host, &comm->host);
    if (comm->host == NULL)
        MPI_Comm_free(&host);
    if (status == LULL_OK && leaders != MPI_COMM_NULL)
        status = derive(comm, leaders, &comm->leaders);
    if (comm->leaders == NULL && leaders != MPI_COMM_NULL)
        MPI_Comm_free(&leaders);
    status = lull__agree(comm->native, status, comm->role, &comm->policy);
    if (status == LULL_OK)
        status = connect(comm, comm->host);
    if (status == LULL_OK && comm->leaders != NULL)
        status = connect(comm, comm->leaders);
    return status;
}

/* 16-bit sums would be rounded between the stages: those stay flat. */
bool lull__hier_takes(const lull__call_t *call) {
    return call->comm->host != NULL && call->kind == LULL__ALLREDUCE &&
           !lull__is_half(call->dtype);
}

/* ---- The operation ----------------------------------------------------- */

static void collect(lull_comm_t *to, lull_comm_t *from) {
    lull__counters_t *c = &from->counters;
    to->counters.wire_bytes += c->wire_bytes;
    to->counters.encode_s += c->encode_s;
    to->counters.decode_s += c->decode_s;
    to->counters.total_s += c->total_s;
    memset(c, 0, sizeof *c);
    if (from->engine == NULL)
        return;
    to->engine->error2 += from->engine->error2;
    to->engine->value2 += from->engine->value2;
    from->engine->error2 = from->engine->value2 = 0;
}

/* The call of a stage, on the communicator that carries it. */
static lull__call_t stage_call(const lull__call_t *whole, int stage) {
    lull__call_t call = *whole;
    call.comm = stage == 1 ? whole->comm->leaders : whole->comm->host;
    call.kind = stage == 2 ? LULL__BCAST : LULL__ALLREDUCE;
    call.send = LULL_IN_PLACE;
    call.plain = true;
    call.peer = 0;
    return call;
}

/* Begins the stage unless nobody is there to talk to. A failed operation goes
 * on, since the others wait: it sends errors. */
static void begin_stage(lull_request_t *op) {
    lull__call_t call = stage_call(&op->call, op->stage);
    lull__coding_t coding = op->coding;
    if (call.comm == NULL || call.comm->size == 1)
        return;
    if (op->stage != 1)
        coding = lull__coding_raw(call.dtype);
    lull_status_t status = lull__request_new(&call, &op->part);
    if (status != LULL_OK) {
        op->part = NULL;
        lull__op_fail(op, status, op->call.comm->rank);
        return;
    }
    op->part->status = op->status;
    memcpy(op->part->sentence, op->sentence, sizeof op->sentence);
    lull__engine_enter(op->part, &coding);
    op->part->culprit = op->culprit;
}

/* Values go to recv, scaled if they are averaged. */
static void prepare(lull_request_t *op) {
    const lull__call_t *call = &op->call;
    const void *from = lull__in_place_call(call) ? call->recv : call->send;
    if (call->op == LULL_AVG)
        lull__average_before(from, call->recv, call->count, call->dtype,
                             call->comm->size);
    else if (from != call->recv)
        memcpy(call->recv, from, call->count * lull__size_of(call->dtype));
}

bool lull__hier_step(lull_request_t *op) {
    const lull__call_t *call = &op->call;
    if (op->part != NULL) {
        if (!op->part->done)
            return false;
        collect(call->comm, op->part->call.comm);
        if (op->status == LULL_OK && op->part->status != LULL_OK) {
            op->status = op->part->status;
            op->culprit = op->part->culprit;
            memcpy(op->sentence, op->part->sentence, sizeof op->sentence);
        }
        lull__request_free(op->part);
        op->part = NULL;
    }
    if (op->stage < 0)
        prepare(op);
    if (++op->stage < 3) {
        begin_stage(op);
        return true;
    }
    if (op->status == LULL_OK && call->op == LULL_AVG)
        lull__average_after(call->recv, call->count, call->dtype,
                            call->comm->size);
    op->done = true;
    return true;
}
