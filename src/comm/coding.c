/* A request's chunks to messages and back, and what may go wrong with them. */
#include <lull/codec.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "engine.h"
#include "half.h"

void (*lull__test_message)(lull_comm_t *comm, unsigned char *message,
                           size_t bytes);
lull_status_t (*lull__test_encode)(lull_comm_t *comm);

void lull__op_mpi(lull_request_t *request, int error, const char *what) {
    if (error != MPI_SUCCESS)
        lull__op_fail(
            request, lull__fail_mpi(error, what, request->call.comm),
            lull__name_of(request->call.comm, request->call.comm->rank));
}

void lull__op_fail(lull_request_t *request, lull_status_t status, int culprit) {
    if (request->status != LULL_OK)
        return;
    request->status = status;
    request->culprit = culprit;
    strncpy(request->sentence, lull_last_error(), sizeof request->sentence - 1);
}

lull__message_t lull__op_message(const lull_request_t *request) {
    const lull__call_t *call = &request->call;
    return (lull__message_t){
        .kind = LULL__MESSAGE_DATA,
        .call = call->kind == LULL__RECV ? LULL__SEND : call->kind,
        .dtype = (int)call->dtype,
        .op = lull__reduces(call->kind) ? (int)call->op : 0,
        .root = call->kind == LULL__BCAST ? call->peer : 0,
        .rank = lull__name_of(call->comm, call->comm->rank),
        .seq = request->seq,
        .count = call->count,
        .step = (uint32_t)call->step,
    };
}

void lull__spend(lull_comm_t *comm, double *on, double since) {
    double spent = lull__now() - since;
    *on += spent;
    comm->counters.total_s += spent;
}

static double value_at(const void *at, size_t i, lull_dtype_t dtype) {
    const char *from = (const char *)at + i * lull__size_of(dtype);
    uint16_t half;
    float single;
    double value;
    switch ((int)dtype) {
    case LULL_F32:
        return memcpy(&single, from, 4), (double)single;
    case LULL_F64:
        return memcpy(&value, from, 8), value;
    case LULL_F16:
        return memcpy(&half, from, 2), (double)lull__from_f16(half);
    case LULL_BF16:
        return memcpy(&half, from, 2), (double)lull__from_bf16(half);
    }
    return 0;
}

static void sample_add(lull__engine_t *engine, const void *values,
                       const void *coded, size_t n, lull_dtype_t dtype) {
    double error2 = 0, value2 = 0;
    for (size_t i = 0; i < n; i++) {
        double x = value_at(values, i, dtype);
        double y = value_at(coded, i, dtype);
        error2 += (x - y) * (x - y);
        value2 += x * x;
    }
    if (isfinite(error2) && isfinite(value2)) {
        engine->error2 += error2;
        engine->value2 += value2;
    }
}

/* Some values of every 32nd chunk of a lossy codec are coded once more, and
 * compared with what comes back. */
static void sample(lull_request_t *request, const void *values, size_t n) {
    lull__engine_t *engine = request->call.comm->engine;
    lull_dtype_t dtype = request->call.dtype;
    lull_buffer_t out = {.data = engine->sample[0],
                         .capacity = sizeof engine->sample[0]};
    if (!request->coding.lossy || engine->sampled++ % 32 != 0)
        return;
    n = n < LULL__SAMPLE ? n : LULL__SAMPLE;
    if (lull_frame_encode(&request->coding.codec, values, n, 0, &out,
                          engine->scratch) == LULL_OK &&
        lull_frame_decode(out.data, out.bytes, LULL_FRAME_TRUST,
                          engine->sample[1], n * lull__size_of(dtype),
                          engine->scratch) == LULL_OK)
        sample_add(engine, values, engine->sample[1], n, dtype);
}

static lull_status_t encode(lull_request_t *request, lull__slot_t *slot,
                            const void *values, size_t n, size_t *bytes) {
    lull__engine_t *engine = request->call.comm->engine;
    lull_buffer_t out = {.data = slot + LULL__HEADER_BYTES,
                         .capacity = engine->slot_bytes - LULL__HEADER_BYTES};
    lull_status_t status = LULL_OK;
    if (lull__test_encode != NULL)
        status = lull__test_encode(request->call.comm);
    if (status == LULL_OK)
        status = lull_frame_encode(&request->coding.codec, values, n,
                                   LULL_FRAME_CHECKSUM, &out, engine->scratch);
    *bytes = out.bytes;
    return status;
}

size_t lull__op_encode(lull_request_t *request, lull__slot_t *slot,
                       const lull__source_t *from) {
    lull_comm_t *comm = request->call.comm;
    lull__message_t m = lull__op_message(request);
    size_t bytes = 0;
    double since = lull__now();
    lull_status_t status = encode(request, slot, from->values, from->n, &bytes);
    if (status == LULL_OK)
        sample(request, from->values, from->n);
    lull__spend(comm, &comm->counters.encode_s, since);
    if (status != LULL_OK) {
        lull__op_fail(request, status, lull__name_of(comm, comm->rank));
        return 0;
    }
    m.gather = from->gather;
    m.chunk = from->chunk;
    m.bytes = (uint32_t)bytes;
    lull__message_pack(&m, slot);
    bytes += LULL__HEADER_BYTES;
    if (lull__test_message != NULL)
        lull__test_message(comm, slot, bytes);
    return bytes;
}

size_t lull__op_error(lull_request_t *request, lull__slot_t *slot) {
    lull__message_t m = lull__op_message(request);
    m.kind = LULL__MESSAGE_EMPTY;
    if (request->status != LULL_OK) {
        m.kind = LULL__MESSAGE_ERROR;
        m.status = request->status;
        m.rank = request->culprit;
        m.bytes = (uint32_t)strnlen(request->sentence, LULL__ERROR_TEXT);
        memcpy(slot + LULL__HEADER_BYTES, request->sentence, m.bytes);
    }
    lull__message_pack(&m, slot);
    return LULL__HEADER_BYTES + m.bytes;
}

static void hear(lull_request_t *request, int from, const lull__slot_t *slot,
                 const lull__message_t *m) {
    int n = m->bytes < LULL__ERROR_TEXT ? (int)m->bytes : LULL__ERROR_TEXT;
    lull_status_t status =
        m->status == LULL_ERR_MISMATCH ? LULL_ERR_MISMATCH : LULL_ERR_PEER;
    lull__fail(status, "%s: rank %d failed%s: %.*s",
               lull__call_name(request->call.kind), m->rank,
               m->rank == from ? "" : " (and told others)", n,
               (const char *)slot + LULL__HEADER_BYTES);
    lull__op_fail(request, status, m->rank);
}

bool lull__op_accept(lull_request_t *request, int from,
                     const lull__slot_t *slot, size_t bytes,
                     lull__message_t *m) {
    lull__message_t mine = lull__op_message(request);
    from = lull__name_of(request->call.comm, from);
    lull_status_t status = lull__message_unpack(slot, bytes, m);
    if (status == LULL_OK && m->call != LULL__SEND && m->seq != mine.seq)
        status = lull__fail(LULL_ERR_CORRUPT, "call %llu, not %llu",
                            (unsigned long long)m->seq,
                            (unsigned long long)mine.seq);
    if (status != LULL_OK) {
        *m = mine;
        m->kind = LULL__MESSAGE_EMPTY;
        char why[200];
        snprintf(why, sizeof why, "%.199s", lull_last_error());
        lull__fail(status, "from rank %d: %s", from, why);
        lull__op_fail(request, status, from);
        return false;
    }
    if (!lull__message_same(m, &mine)) {
        char theirs[160], ours[160];
        lull__message_describe(m, theirs);
        lull__message_describe(&mine, ours);
        lull__fail(LULL_ERR_MISMATCH, "rank %d called %s, rank %d %s", from,
                   theirs, mine.rank, ours);
        lull__op_fail(request, LULL_ERR_MISMATCH, from);
    }
    if (m->kind == LULL__MESSAGE_ERROR)
        hear(request, from, slot, m);
    return m->kind == LULL__MESSAGE_DATA && request->status == LULL_OK;
}

/* The frame is of the codec that was agreed, and of n values. */
static lull_status_t check_frame(const lull_request_t *request,
                                 const lull__slot_t *slot, size_t bytes,
                                 size_t n) {
    const lull_codec_t *mine = &request->coding.codec;
    lull_frame_info_t info;
    lull_status_t status =
        lull_frame_peek(slot + LULL__HEADER_BYTES, bytes, &info);
    if (status != LULL_OK)
        return status;
    if (info.codec.id == mine->id && info.codec.param == mine->param &&
        info.codec.dtype == mine->dtype && info.count == n)
        return LULL_OK;
    return lull__fail(LULL_ERR_CORRUPT,
                      "a frame of %llu values of codec %u, %zu of codec %u "
                      "were expected",
                      (unsigned long long)info.count, info.codec.id, n,
                      mine->id);
}

typedef lull_status_t decode_fn(const void *frame, size_t bytes, unsigned flags,
                                void *values, size_t values_bytes,
                                lull_codec_scratch_t *scratch);

void lull__op_decode(lull_request_t *request, int from,
                     const lull__slot_t *slot, size_t bytes,
                     const lull__target_t *to) {
    lull_comm_t *comm = request->call.comm;
    decode_fn *fn = to->add ? lull_frame_decode_add : lull_frame_decode;
    size_t size = lull__size_of(request->call.dtype);
    size_t each = to->add && size < 4 ? 4 : size;
    double since = lull__now();
    from = lull__name_of(comm, from);
    bytes -= LULL__HEADER_BYTES;
    lull_status_t status = check_frame(request, slot, bytes, to->n);
    if (status == LULL_OK)
        status = fn(slot + LULL__HEADER_BYTES, bytes, 0, to->values,
                    to->n * each, comm->engine->scratch);
    lull__spend(comm, &comm->counters.decode_s, since);
    if (status == LULL_OK)
        return;
    char why[200];
    snprintf(why, sizeof why, "%.199s", lull_last_error());
    /* Whatever the frame says it is, it is not what was agreed. */
    lull__fail(LULL_ERR_CORRUPT, "from rank %d: %s", from, why);
    lull__op_fail(request, LULL_ERR_CORRUPT, from);
}

/* Where the messages of a call travel. Tags of collectives follow their
 * numbers, so that a rank that is ahead is not misunderstood. */
static MPI_Comm lane(const lull_request_t *request, int *tag) {
    const lull__call_t *call = &request->call;
    if (call->kind == LULL__SEND || call->kind == LULL__RECV)
        return *tag = call->tag, call->comm->engine->pairs;
    return *tag = (int)(request->seq & 0x3fff), call->comm->engine->collective;
}

int lull__op_send(lull_request_t *request, const lull__slot_t *slot,
                  size_t bytes, int to, MPI_Request *out) {
    int tag;
    MPI_Comm comm = lane(request, &tag);
    request->call.comm->counters.wire_bytes += bytes;
    int error = MPI_Isend(slot, (int)bytes, MPI_BYTE, to, tag, comm, out);
    lull__op_mpi(request, error, "MPI_Isend");
    return error;
}

int lull__op_recv(lull_request_t *request, lull__slot_t *slot, int from,
                  MPI_Request *in) {
    int tag;
    MPI_Comm comm = lane(request, &tag);
    int bytes = (int)request->call.comm->engine->message_bytes;
    int error = MPI_Irecv(slot, bytes, MPI_BYTE, from, tag, comm, in);
    lull__op_mpi(request, error, "MPI_Irecv");
    return error;
}

bool lull__op_test(lull_request_t *request, MPI_Request *of, size_t *bytes) {
    int flag = 0, n = 0;
    MPI_Status status;
    int error = MPI_Test(of, &flag, &status);
    if (error != MPI_SUCCESS) {
        lull__op_mpi(request, error, "MPI_Test");
        if (bytes != NULL)
            *bytes = 0;
        return true;
    }
    if (flag && bytes != NULL) {
        MPI_Get_count(&status, MPI_BYTE, &n);
        *bytes = n > 0 ? (size_t)n : 0;
    }
    return flag != 0;
}
