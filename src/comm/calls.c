/* The calls of comm.h: arguments are checked, then MPI or lull carries them. */
#include <stdlib.h>
#include <string.h>

#include "engine.h"

static const char *const names[LULL__KIND_COUNT] = {
    "lull_allreduce", "lull_reduce_scatter_block",
    "lull_allgather", "lull_bcast",
    "lull_send",      "lull_recv",
    "lull_barrier"};

static lull_status_t check_comm(const lull__call_t *call) {
    const char *name = names[call->kind];
    if (call->comm == NULL)
        return lull__fail(LULL_ERR_INVALID, "%s: comm is NULL", name);
    if (!lull__registry_has(call->comm))
        return lull__fail(LULL_ERR_STATE, "%s: comm was destroyed", name);
    if (call->comm->dead)
        return lull__fail(LULL_ERR_STATE, "%s: MPI is finalised", name);
    if (call->comm->broken[0] != '\0')
        return lull__fail(LULL_ERR_STATE, "%s: comm is of no use since %.300s",
                          name, call->comm->broken);
    return LULL_OK;
}

static lull_status_t check_type(const lull__call_t *call) {
    const char *name = names[call->kind];
    if (lull__native_type(call->dtype) == MPI_DATATYPE_NULL)
        return lull__fail(LULL_ERR_UNSUPPORTED,
                          "%s: dtype %d (%s): F32, F64, F16, BF16, I32, I64 "
                          "and U8 are",
                          name, (int)call->dtype,
                          lull_dtype_name(call->dtype)
                              ? lull_dtype_name(call->dtype)
                              : "none");
    if (!lull__reduces(call->kind))
        return LULL_OK;
    if (call->op > LULL_MAX || (int)call->op < 0)
        return lull__fail(LULL_ERR_UNSUPPORTED, "%s: op %d is none", name,
                          (int)call->op);
    if (call->op == LULL_AVG && !lull__is_float(call->dtype))
        return lull__fail(LULL_ERR_UNSUPPORTED,
                          "%s: AVG of %s: averages are of floats only", name,
                          lull_dtype_name(call->dtype));
    return LULL_OK;
}

/* Sizes are in bytes below; that all of them fit is checked once. */
static lull_status_t check_count(const lull__call_t *call) {
    size_t bytes, ranks = (size_t)call->comm->size;
    if (__builtin_mul_overflow(call->count, ranks * 16, &bytes) ||
        bytes > (size_t)1 << 62)
        return lull__fail(LULL_ERR_INVALID, "%s: count %zu is too large",
                          names[call->kind], call->count);
    return LULL_OK;
}

static lull_status_t check_buffers(const lull__call_t *call) {
    const char *name = names[call->kind];
    bool sends = call->kind != LULL__RECV && call->kind != LULL__BCAST;
    bool receives = call->kind != LULL__SEND;
    if (call->count == 0 || call->kind == LULL__BARRIER)
        return LULL_OK;
    if (sends && call->send == NULL)
        return lull__fail(LULL_ERR_INVALID, "%s: the send buffer is NULL",
                          name);
    if (receives && (call->recv == NULL || call->recv == LULL_IN_PLACE))
        return lull__fail(LULL_ERR_INVALID, "%s: the receive buffer is %s",
                          name, call->recv ? "LULL_IN_PLACE" : "NULL");
    if (call->kind == LULL__SEND && lull__in_place_call(call))
        return lull__fail(LULL_ERR_INVALID, "%s: LULL_IN_PLACE", name);
    if (sends && receives && call->send == call->recv)
        return lull__fail(LULL_ERR_INVALID,
                          "%s: send and recv are the same: use LULL_IN_PLACE",
                          name);
    return LULL_OK;
}

static lull_status_t check_root(const lull__call_t *call) {
    if (call->peer >= 0 && call->peer < call->comm->size)
        return LULL_OK;
    return lull__fail(LULL_ERR_INVALID, "%s: root %d of %d ranks",
                      names[call->kind], call->peer, call->comm->size);
}

static lull_status_t check_peer(const lull__call_t *call) {
    const char *name = names[call->kind];
    if (call->peer == MPI_ANY_SOURCE)
        return lull__fail(LULL_ERR_UNSUPPORTED, "%s: MPI_ANY_SOURCE", name);
    if (call->tag == MPI_ANY_TAG)
        return lull__fail(LULL_ERR_UNSUPPORTED, "%s: MPI_ANY_TAG", name);
    if (call->tag < 0 || call->tag > 32767)
        return lull__fail(LULL_ERR_INVALID, "%s: tag %d is not in 0 to 32767",
                          name, call->tag);
    return call->peer == MPI_PROC_NULL ? LULL_OK : check_root(call);
}

static lull_status_t check(const lull__call_t *call) {
    lull_status_t status = LULL_OK;
    if (call->kind != LULL__BARRIER)
        status = check_type(call);
    if (status == LULL_OK)
        status = check_count(call);
    if (status == LULL_OK)
        status = check_buffers(call);
    if (status == LULL_OK && call->kind == LULL__BCAST)
        status = check_root(call);
    if (status == LULL_OK &&
        (call->kind == LULL__SEND || call->kind == LULL__RECV))
        status = check_peer(call);
    return status;
}

/* Nothing to send: no values, or no other rank. */
static bool is_local(const lull__call_t *call) {
    if (call->kind == LULL__SEND || call->kind == LULL__RECV)
        return call->peer == MPI_PROC_NULL;
    return call->kind != LULL__BARRIER &&
           (call->count == 0 || call->comm->size == 1);
}

static void run_local(const lull__call_t *call) {
    bool copies = lull__reduces(call->kind) || call->kind == LULL__ALLGATHER;
    if (copies && call->count != 0 && !lull__in_place_call(call))
        memcpy(call->recv, call->send,
               call->count * lull__size_of(call->dtype));
}

static lull_status_t start(lull_request_t *request,
                           const lull__route_t *route) {
    const lull__call_t *call = &request->call;
    if (is_local(call)) {
        run_local(call);
        request->done = true;
        return LULL_OK;
    }
    if (!route->engine)
        return lull__native_start(request);
    lull__engine_start(request, &route->coding);
    return LULL_OK;
}

/* Pieces that were posted before a later one failed cannot be left alone:
 * their buffers are in use. */
static lull_status_t begin(const lull__call_t *call, const lull__route_t *route,
                           lull_request_t **out) {
    lull_request_t *request;
    lull_status_t status = lull__request_new(call, &request);
    if (status != LULL_OK)
        return status;
    status = start(request, route);
    if (status == LULL_OK)
        return *out = request, LULL_OK;
    for (size_t i = 0; i < request->sub_count; i++) {
        if (call->kind == LULL__RECV)
            MPI_Cancel(&request->subs[i]);
        MPI_Request_free(&request->subs[i]);
    }
    lull__request_free(request);
    return status;
}

/* May MPI block, or would operations of the engine stand still meanwhile? A
 * blocking collective of MPI does not match a nonblocking one, so that must
 * follow from what all ranks share; a send or a receive may look around. */
static bool may_block(const lull__call_t *call) {
    if (lull__is_pair(call))
        return lull__engine_active == 0;
    return !call->comm->codes_elsewhere;
}

static lull_status_t run_blocking(const lull__call_t *call,
                                  const lull__route_t *route) {
    if (is_local(call)) {
        run_local(call);
        return LULL_OK;
    }
    if (!route->engine && may_block(call))
        return lull__native_run(call);
    lull_request_t *request;
    lull_status_t status = begin(call, route, &request);
    if (status != LULL_OK)
        return status;
    status = lull__complete(request);
    if (status != LULL_OK)
        lull__error_set(request->sentence);
    lull__request_free(request);
    return status;
}

/* Local checks, then what all ranks must share. */
static lull_status_t check_all(const lull__call_t *call) {
    lull_status_t status = check_comm(call);
    if (status != LULL_OK)
        return status;
    status = check(call);
    lull__doubt_note(call);
    return lull__doubt_check(call, status);
}

static lull__route_t choose(const lull__call_t *call) {
    lull__route_t route = lull__route_of(call);
    int why = route.bypass;
    if (why < 0 && call->comm->host != NULL && !lull__hier_takes(call))
        why = LULL_BYPASS_HIER;
    lull__count(call, !route.engine, why);
    return route;
}

static lull_status_t run(const lull__call_t *call) {
    lull_status_t status = check_all(call);
    if (status != LULL_OK)
        return status;
    lull__span_t span = lull__span_begin(call->comm);
    lull__route_t route = choose(call);
    status = run_blocking(call, &route);
    lull__span_end(span);
    return status;
}

static lull_status_t run_request(const lull__call_t *call,
                                 lull_request_t **out) {
    if (out == NULL)
        return lull__fail(LULL_ERR_INVALID, "%s: request is NULL",
                          names[call->kind]);
    lull_status_t status = check_all(call);
    if (status != LULL_OK)
        return status;
    lull__span_t span = lull__span_begin(call->comm);
    lull__route_t route = choose(call);
    status = begin(call, &route, out);
    if (status == LULL_OK)
        (*out)->since = span.since;
    lull__span_end(span);
    return status;
}

/* Send and receive at once, so that a ring of them cannot deadlock. */
static lull_status_t run_pair(const lull__call_t *send,
                              const lull__call_t *recv) {
    lull_request_t *requests[2] = {NULL, NULL};
    lull_status_t status = check_comm(send);
    if (status == LULL_OK)
        status = check(send);
    if (status == LULL_OK)
        status = check(recv);
    if (status != LULL_OK)
        return status;
    status = run_request(recv, &requests[0]);
    if (status != LULL_OK)
        return status;
    status = run_request(send, &requests[1]);
    lull_status_t waited = lull_waitall(2, requests);
    return status != LULL_OK ? status : waited;
}

/* ---- One description of each call, for both of its forms ---------------- */

typedef lull__call_t call_t;

static call_t reduction(lull__kind_t kind, const void *send, void *recv,
                        size_t count, lull_dtype_t dtype, lull_op_t op) {
    return (call_t){.kind = kind,
                    .send = send,
                    .recv = recv,
                    .count = count,
                    .dtype = dtype,
                    .op = op};
}

static call_t movement(lull__kind_t kind, const void *send, void *recv,
                       size_t count, lull_dtype_t dtype) {
    return reduction(kind, send, recv, count, dtype, LULL_SUM);
}

static call_t send_of(const lull_message_t *m) {
    call_t call = movement(LULL__SEND, m->buffer, NULL, m->count, m->dtype);
    call.peer = m->peer;
    call.tag = m->tag;
    return call;
}

static call_t recv_of(const lull_message_t *m) {
    call_t call = movement(LULL__RECV, NULL, m->buffer, m->count, m->dtype);
    call.peer = m->peer;
    call.tag = m->tag;
    return call;
}

/* What a user sends is not written to. */
static lull_message_t message(const void *buffer, size_t count,
                              lull_dtype_t dtype, int peer, int tag) {
    return (lull_message_t){(void *)(uintptr_t)buffer, count, dtype, peer, tag};
}

static lull_status_t run_on(call_t call, lull_comm_t *comm) {
    call.comm = comm;
    return run(&call);
}

static lull_status_t start_on(call_t call, lull_comm_t *comm,
                              lull_request_t **request) {
    call.comm = comm;
    return run_request(&call, request);
}

lull_status_t lull_allreduce(const void *send, void *recv, size_t count,
                             lull_dtype_t dtype, lull_op_t op,
                             lull_comm_t *comm) {
    return run_on(reduction(LULL__ALLREDUCE, send, recv, count, dtype, op),
                  comm);
}

lull_status_t lull_iallreduce(const void *send, void *recv, size_t count,
                              lull_dtype_t dtype, lull_op_t op,
                              lull_comm_t *comm, lull_request_t **request) {
    return start_on(reduction(LULL__ALLREDUCE, send, recv, count, dtype, op),
                    comm, request);
}

lull_status_t lull_reduce_scatter_block(const void *send, void *recv,
                                        size_t count, lull_dtype_t dtype,
                                        lull_op_t op, lull_comm_t *comm) {
    return run_on(reduction(LULL__REDUCE_SCATTER, send, recv, count, dtype, op),
                  comm);
}

lull_status_t lull_ireduce_scatter_block(const void *send, void *recv,
                                         size_t count, lull_dtype_t dtype,
                                         lull_op_t op, lull_comm_t *comm,
                                         lull_request_t **request) {
    return start_on(
        reduction(LULL__REDUCE_SCATTER, send, recv, count, dtype, op), comm,
        request);
}

lull_status_t lull_allgather(const void *send, void *recv, size_t count,
                             lull_dtype_t dtype, lull_comm_t *comm) {
    return run_on(movement(LULL__ALLGATHER, send, recv, count, dtype), comm);
}

lull_status_t lull_iallgather(const void *send, void *recv, size_t count,
                              lull_dtype_t dtype, lull_comm_t *comm,
                              lull_request_t **request) {
    return start_on(movement(LULL__ALLGATHER, send, recv, count, dtype), comm,
                    request);
}

lull_status_t lull_bcast(void *buffer, size_t count, lull_dtype_t dtype,
                         int root, lull_comm_t *comm) {
    call_t call = movement(LULL__BCAST, NULL, buffer, count, dtype);
    call.peer = root;
    return run_on(call, comm);
}

lull_status_t lull_barrier(lull_comm_t *comm) {
    return run_on(movement(LULL__BARRIER, NULL, NULL, 0, LULL_U8), comm);
}

lull_status_t lull_send(const void *buffer, size_t count, lull_dtype_t dtype,
                        int dest, int tag, lull_comm_t *comm) {
    lull_message_t m = message(buffer, count, dtype, dest, tag);
    return run_on(send_of(&m), comm);
}

lull_status_t lull_recv(void *buffer, size_t count, lull_dtype_t dtype,
                        int source, int tag, lull_comm_t *comm) {
    lull_message_t m = message(buffer, count, dtype, source, tag);
    return run_on(recv_of(&m), comm);
}

lull_status_t lull_sendrecv(const lull_message_t *send,
                            const lull_message_t *recv, lull_comm_t *comm) {
    if (send == NULL || recv == NULL)
        return lull__fail(LULL_ERR_INVALID, "lull_sendrecv: %s is NULL",
                          send ? "recv" : "send");
    call_t out = send_of(send), in = recv_of(recv);
    out.comm = in.comm = comm;
    return run_pair(&out, &in);
}

lull_status_t lull_isend(const void *buffer, size_t count, lull_dtype_t dtype,
                         int dest, int tag, lull_comm_t *comm,
                         lull_request_t **request) {
    lull_message_t m = message(buffer, count, dtype, dest, tag);
    return start_on(send_of(&m), comm, request);
}

lull_status_t lull_irecv(void *buffer, size_t count, lull_dtype_t dtype,
                         int source, int tag, lull_comm_t *comm,
                         lull_request_t **request) {
    lull_message_t m = message(buffer, count, dtype, source, tag);
    return start_on(recv_of(&m), comm, request);
}
