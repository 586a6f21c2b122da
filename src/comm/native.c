/* MPI's own calls, in pieces whose counts fit an int. */
#include <stdlib.h>
#include <string.h>

#include "internal.h"

size_t lull__native_max = (size_t)1 << 30;

MPI_Datatype lull__native_type(lull_dtype_t dtype) {
    switch ((int)dtype) {
    case LULL_F32:
        return MPI_FLOAT;
    case LULL_F64:
        return MPI_DOUBLE;
    case LULL_I32:
        return MPI_INT32_T;
    case LULL_I64:
        return MPI_INT64_T;
    case LULL_U8:
        return MPI_UINT8_T;
    case LULL_F16:
    case LULL_BF16: /* moved, never reduced by MPI */
        return MPI_UINT16_T;
    }
    return MPI_DATATYPE_NULL;
}

static MPI_Op native_op(lull_op_t op) {
    return op == LULL_MIN ? MPI_MIN : op == LULL_MAX ? MPI_MAX : MPI_SUM;
}

lull_status_t lull__fail_mpi(int error, const char *what,
                             const lull_comm_t *comm) {
    char text[MPI_MAX_ERROR_STRING];
    int size = 0, class = 0;
    if (MPI_Error_string(error, text, &size) != MPI_SUCCESS)
        size = 0;
    text[size] = '\0';
    MPI_Error_class(error, &class);
    return lull__fail(class == MPI_ERR_TRUNCATE ? LULL_ERR_MISMATCH
                                                : LULL_ERR_MPI,
                      "%s on a communicator of role %s: %s", what,
                      comm ? lull_role_name(comm->role) : "(new)", text);
}

lull_status_t lull__request_room(lull_request_t *request, size_t n) {
    size_t need = request->sub_count + n;
    if (need <= request->sub_capacity)
        return LULL_OK;
    MPI_Request *subs = realloc(request->subs, need * sizeof *subs);
    if (subs == NULL)
        return lull__fail(LULL_ERR_NO_MEMORY, "%zu MPI requests", need);
    request->subs = subs;
    request->sub_capacity = need;
    return LULL_OK;
}

/* A piece of a call: n elements at `at`; for a request r, or blocking. */
typedef struct piece {
    const lull__call_t *call;
    size_t at, n;
    int root; /* of the reductions that a large reduce-scatter is made of */
    MPI_Request *r;
} piece_t;

static const void *in(const piece_t *p, size_t offset) {
    if (lull__in_place_call(p->call))
        return MPI_IN_PLACE;
    return (const char *)p->call->send +
           (offset + p->at) * lull__size_of(p->call->dtype);
}

static void *out(const piece_t *p, size_t offset) {
    return (char *)p->call->recv +
           (offset + p->at) * lull__size_of(p->call->dtype);
}

static int allreduce(const piece_t *p) {
    const lull__call_t *c = p->call;
    MPI_Datatype type = lull__native_type(c->dtype);
    MPI_Op op = native_op(c->op);
    return p->r ? MPI_Iallreduce(in(p, 0), out(p, 0), (int)p->n, type, op,
                                 c->comm->native, p->r)
                : MPI_Allreduce(in(p, 0), out(p, 0), (int)p->n, type, op,
                                c->comm->native);
}

static int reduce_scatter(const piece_t *p) {
    const lull__call_t *c = p->call;
    MPI_Datatype type = lull__native_type(c->dtype);
    MPI_Op op = native_op(c->op);
    return p->r ? MPI_Ireduce_scatter_block(in(p, 0), out(p, 0), (int)p->n,
                                            type, op, c->comm->native, p->r)
                : MPI_Reduce_scatter_block(in(p, 0), out(p, 0), (int)p->n, type,
                                           op, c->comm->native);
}

/* A piece of one rank's part of a reduce-scatter too large for one call. Not
 * in place: start() gives those a copy of the input. */
static int reduce(const piece_t *p) {
    const lull__call_t *c = p->call;
    MPI_Datatype type = lull__native_type(c->dtype);
    MPI_Op op = native_op(c->op);
    const void *input = in(p, (size_t)p->root * c->count);
    return p->r ? MPI_Ireduce(input, out(p, 0), (int)p->n, type, op, p->root,
                              c->comm->native, p->r)
                : MPI_Reduce(input, out(p, 0), (int)p->n, type, op, p->root,
                             c->comm->native);
}

static int allgather_whole(const piece_t *p) {
    const lull__call_t *c = p->call;
    MPI_Datatype type = lull__native_type(c->dtype);
    return p->r ? MPI_Iallgather(in(p, 0), (int)p->n, type, c->recv, (int)p->n,
                                 type, c->comm->native, p->r)
                : MPI_Allgather(in(p, 0), (int)p->n, type, c->recv, (int)p->n,
                                type, c->comm->native);
}

/* Pieces of all ranks lie `count` elements apart: a type of that extent. */
static int allgather_piece(const piece_t *p) {
    const lull__call_t *c = p->call;
    MPI_Datatype type = lull__native_type(c->dtype), dense, spaced;
    MPI_Aint extent = (MPI_Aint)(c->count * lull__size_of(c->dtype));
    int error = MPI_Type_contiguous((int)p->n, type, &dense);
    if (error != MPI_SUCCESS)
        return error;
    error = MPI_Type_create_resized(dense, 0, extent, &spaced);
    if (error != MPI_SUCCESS)
        goto free_dense;
    error = MPI_Type_commit(&spaced);
    if (error == MPI_SUCCESS)
        error = p->r ? MPI_Iallgather(in(p, 0), (int)p->n, type, out(p, 0), 1,
                                      spaced, c->comm->native, p->r)
                     : MPI_Allgather(in(p, 0), (int)p->n, type, out(p, 0), 1,
                                     spaced, c->comm->native);
    MPI_Type_free(&spaced);
free_dense:
    MPI_Type_free(&dense);
    return error;
}

static int bcast(const piece_t *p) {
    const lull__call_t *c = p->call;
    MPI_Datatype type = lull__native_type(c->dtype);
    return p->r ? MPI_Ibcast(out(p, 0), (int)p->n, type, c->peer,
                             c->comm->native, p->r)
                : MPI_Bcast(out(p, 0), (int)p->n, type, c->peer,
                            c->comm->native);
}

static int send(const piece_t *p) {
    const lull__call_t *c = p->call;
    MPI_Datatype type = lull__native_type(c->dtype);
    return p->r ? MPI_Isend(in(p, 0), (int)p->n, type, c->peer, c->tag,
                            c->comm->native, p->r)
                : MPI_Send(in(p, 0), (int)p->n, type, c->peer, c->tag,
                           c->comm->native);
}

/* For requests; a blocking one counts what came, see run_recv(). */
static int recv(const piece_t *p) {
    const lull__call_t *c = p->call;
    return MPI_Irecv(out(p, 0), (int)p->n, lull__native_type(c->dtype), c->peer,
                     c->tag, c->comm->native, p->r);
}

static int barrier(const piece_t *p) {
    MPI_Comm native = p->call->comm->native;
    return p->r ? MPI_Ibarrier(native, p->r) : MPI_Barrier(native);
}

typedef struct row {
    const char *name;
    int (*whole)(const piece_t *);  /* where size · count fits an int */
    int (*pieces)(const piece_t *); /* where it does not */
} row_t;

static const row_t rows[LULL__KIND_COUNT] = {
    [LULL__ALLREDUCE] = {"MPI_Allreduce", allreduce, allreduce},
    [LULL__REDUCE_SCATTER] = {"MPI_Reduce_scatter_block", reduce_scatter,
                              reduce},
    [LULL__ALLGATHER] = {"MPI_Allgather", allgather_whole, allgather_piece},
    [LULL__BCAST] = {"MPI_Bcast", bcast, bcast},
    [LULL__SEND] = {"MPI_Send", send, send},
    [LULL__RECV] = {"MPI_Recv", recv, recv},
    [LULL__BARRIER] = {"MPI_Barrier", barrier, barrier},
};

static bool is_small(const lull__call_t *call) {
    size_t ranks =
        call->kind == LULL__REDUCE_SCATTER || call->kind == LULL__ALLGATHER
            ? (size_t)call->comm->size
            : 1;
    return call->count <= lull__native_max / ranks;
}

static int issue(int (*one)(const piece_t *), piece_t p, lull_request_t *to) {
    if (to == NULL)
        return one(&p);
    p.r = &to->subs[to->sub_count];
    int error = one(&p);
    to->sub_count += error == MPI_SUCCESS;
    return error;
}

/* All pieces of a call, one after the other (to NULL) or all at once. */
static lull_status_t each(const lull__call_t *call, lull_request_t *to) {
    const row_t *row = &rows[call->kind];
    bool small = is_small(call);
    int roots =
        !small && call->kind == LULL__REDUCE_SCATTER ? call->comm->size : 1;
    size_t step = lull__native_max;
    for (int root = 0; root < roots; root++)
        for (size_t at = 0; at == 0 || at < call->count; at += step) {
            size_t left = call->count - at;
            piece_t p = {call, at, left < step ? left : step, root, NULL};
            int error = issue(small ? row->whole : row->pieces, p, to);
            if (error != MPI_SUCCESS)
                return lull__fail_mpi(error, row->name, call->comm);
        }
    return LULL_OK;
}

lull_status_t lull__native_post(const lull__call_t *call, lull_request_t *to) {
    size_t n = call->count / lull__native_max + 1;
    if (call->kind == LULL__REDUCE_SCATTER)
        n *= (size_t)call->comm->size;
    lull_status_t status = lull__request_room(to, n);
    return status == LULL_OK ? each(call, to) : status;
}

/* A reduction that needs its own copy of the input: averages scale it, large
 * reduce-scatters in place would read what they write. */
static lull_status_t prepare(lull__call_t *call, void **scratch) {
    bool average = call->op == LULL_AVG, in_place = lull__in_place_call(call);
    bool scatter = call->kind == LULL__REDUCE_SCATTER;
    bool copy = scatter && (average ? !in_place : in_place && !is_small(call));
    size_t count = call->count * (scatter ? (size_t)call->comm->size : 1);
    const void *from = in_place ? call->recv : call->send;
    void *to = call->recv;
    if (scatter && average && !is_small(call))
        copy = true;
    if (copy) {
        to = *scratch = malloc(count * lull__size_of(call->dtype));
        if (to == NULL)
            return lull__fail(LULL_ERR_NO_MEMORY, "%zu values of a reduction",
                              count);
        call->send = to;
    } else if (average) {
        call->send = LULL_IN_PLACE;
    }
    if (average)
        lull__average_before(from, to, count, call->dtype, call->comm->size);
    else if (copy)
        memcpy(to, from, count * lull__size_of(call->dtype));
    return LULL_OK;
}

static lull_status_t finish_average(lull_request_t *request) {
    const lull__call_t *call = &request->call;
    lull__average_after(call->recv, call->count, call->dtype, call->comm->size);
    return LULL_OK;
}

lull_status_t lull__native_start(lull_request_t *request) {
    lull__call_t call = request->call;
    if (lull__reduces(call.kind)) {
        lull_status_t status = prepare(&call, &request->scratch);
        if (status != LULL_OK)
            return status;
        if (call.op == LULL_AVG)
            request->finish = finish_average;
    }
    return lull__native_post(&call, request);
}

/* Counts of both sides must agree; MPI itself only finds too long ones. */
static lull_status_t run_recv(const lull__call_t *call) {
    size_t step = lull__native_max, size = lull__size_of(call->dtype);
    MPI_Datatype type = lull__native_type(call->dtype);
    for (size_t at = 0; at == 0 || at < call->count; at += step) {
        size_t left = call->count - at, n = left < step ? left : step;
        MPI_Status status;
        int got = 0;
        int error =
            MPI_Recv((char *)call->recv + at * size, (int)n, type, call->peer,
                     call->tag, call->comm->native, &status);
        if (error != MPI_SUCCESS)
            return lull__fail_mpi(error, "MPI_Recv", call->comm);
        MPI_Get_count(&status, type, &got);
        if (got >= 0 && (size_t)got != n)
            return lull__fail(LULL_ERR_MISMATCH,
                              "lull_recv: rank %d sent %zu values, %zu were "
                              "expected",
                              call->peer, at + (size_t)got, call->count);
    }
    return LULL_OK;
}

lull_status_t lull__native_run(const lull__call_t *given) {
    lull__call_t call = *given;
    void *scratch = NULL;
    lull_status_t status = LULL_OK;
    if (call.kind == LULL__RECV)
        return run_recv(given);
    if (lull__reduces(call.kind))
        status = prepare(&call, &scratch);
    if (status == LULL_OK)
        status = each(&call, NULL);
    if (status == LULL_OK && lull__reduces(call.kind) && call.op == LULL_AVG)
        lull__average_after(call.recv, call.count, call.dtype, call.comm->size);
    free(scratch);
    return status;
}
