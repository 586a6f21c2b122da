/* A chain of at most two neighbours: a broadcast goes down it, and send and
 * recv are its two ends. */
#include <string.h>

#include "engine.h"

enum { FREE, RECEIVING, RECEIVED, SENDING };

static uint32_t total_of(const lull_comm_t *comm, size_t count,
                         lull_dtype_t dtype) {
    uint32_t n = lull__chunks(comm, count, dtype);
    return n != 0 ? n : 1; /* an empty one */
}

static void find_neighbours(const lull__call_t *call, lull__line_t *line) {
    int ranks = call->comm->size, mine = call->comm->rank;
    line->source = line->sink = MPI_PROC_NULL;
    if (call->kind == LULL__SEND)
        line->sink = call->peer;
    if (call->kind == LULL__RECV)
        line->source = call->peer;
    if (call->kind != LULL__BCAST)
        return;
    int place = (mine - call->peer + ranks) % ranks;
    if (place != 0)
        line->source = (mine + ranks - 1) % ranks;
    if (place != ranks - 1)
        line->sink = (mine + 1) % ranks;
}

static void give_back(lull_request_t *request) {
    lull__line_t *line = &request->line;
    for (unsigned i = 0; i < line->slot_count; i++)
        lull__slot_put(request->call.comm->engine, line->slots[i]);
    line->slot_count = 0;
}

bool lull__line_begin(lull_request_t *request) {
    const lull__call_t *call = &request->call;
    lull__line_t *line = &request->line;
    uint32_t total = total_of(call->comm, call->count, call->dtype);
    memset(line, 0, sizeof *line);
    find_neighbours(call, line);
    line->in_total = line->source == MPI_PROC_NULL ? 0 : total;
    line->out_total = line->sink == MPI_PROC_NULL ? 0 : total;
    for (; line->slot_count < (total > 1 ? 2 : 1); line->slot_count++) {
        line->slots[line->slot_count] = lull__slot_get(call->comm->engine);
        if (line->slots[line->slot_count] == NULL) {
            give_back(request);
            return false;
        }
    }
    return true;
}

static size_t chunk_at(const lull__call_t *call, uint32_t k) {
    return (size_t)k * lull__chunk_values(call->comm, call->dtype);
}

static size_t chunk_values(const lull__call_t *call, uint32_t k) {
    size_t step = lull__chunk_values(call->comm, call->dtype);
    size_t left = call->count - chunk_at(call, k);
    return left < step ? left : step;
}

/* A second receive is posted only when the first message told how many there
 * are: it could take one of a later call. */
static bool may_post(const lull__line_t *line) {
    return line->posted < line->in_total &&
           (line->posted == 0 || line->in_index > 0);
}

static void poll(lull_request_t *request) {
    lull__line_t *line = &request->line;
    for (unsigned i = 0; i < line->slot_count; i++) {
        if (line->states[i] == RECEIVING &&
            lull__op_test(request, &line->requests[i], &line->bytes[i]))
            line->states[i] = RECEIVED;
        if (line->states[i] == SENDING &&
            lull__op_test(request, &line->requests[i], NULL))
            line->states[i] = FREE;
    }
    unsigned i = line->posted % line->slot_count;
    if (!may_post(line) || line->states[i] != FREE)
        return;
    line->posted++;
    if (lull__op_recv(request, line->slots[i], line->source,
                      &line->requests[i]) == MPI_SUCCESS)
        line->states[i] = RECEIVING;
    else
        line->in_index = line->in_total = line->posted;
}

static void send_slot(lull_request_t *request, unsigned i, size_t bytes) {
    lull__line_t *line = &request->line;
    line->out_index++;
    line->states[i] = lull__op_send(request, line->slots[i], bytes, line->sink,
                                    &line->requests[i]) == MPI_SUCCESS
                          ? SENDING
                          : FREE;
}

/* The first rank, and any whose source has nothing more to give. */
static bool send_own(lull_request_t *request) {
    const lull__call_t *call = &request->call;
    lull__line_t *line = &request->line;
    uint32_t k = line->out_index;
    unsigned i = k % line->slot_count;
    if (k >= line->out_total || line->in_index < line->in_total ||
        line->states[i] != FREE)
        return false;
    if (request->status != LULL_OK || call->count == 0) {
        send_slot(request, i, lull__op_error(request, line->slots[i]));
        return true;
    }
    const char *values = call->kind == LULL__BCAST ? call->recv : call->send;
    lull__source_t from = {values +
                               chunk_at(call, k) * lull__size_of(call->dtype),
                           chunk_values(call, k), 0, k};
    size_t bytes = lull__op_encode(request, line->slots[i], &from);
    if (bytes != 0)
        send_slot(request, i, bytes);
    return true;
}

static void take(lull_request_t *request, unsigned i) {
    const lull__call_t *call = &request->call;
    lull__line_t *line = &request->line;
    uint32_t k = line->in_index;
    lull__message_t m;
    bool usable = lull__op_accept(request, line->source, line->slots[i],
                                  line->bytes[i], &m);
    if (k == 0 && request->status != LULL_OK)
        line->in_total =
            total_of(call->comm, (size_t)m.count, (lull_dtype_t)m.dtype);
    if (usable && m.chunk != k) {
        lull__fail(LULL_ERR_CORRUPT, "from rank %d: chunk %u, not %u",
                   line->source, m.chunk, k);
        lull__op_fail(request, LULL_ERR_CORRUPT, line->source);
        usable = false;
    }
    if (!usable)
        return;
    lull__target_t to = {(char *)call->recv +
                             chunk_at(call, k) * lull__size_of(call->dtype),
                         chunk_values(call, k), false};
    lull__op_decode(request, line->source, line->slots[i], line->bytes[i], &to);
}

/* Decodes what came and passes on the same bytes, or that it failed. */
static bool receive(lull_request_t *request) {
    lull__line_t *line = &request->line;
    unsigned i = line->in_index % line->slot_count;
    if (line->in_index >= line->in_total || line->states[i] != RECEIVED)
        return false;
    take(request, i);
    line->in_index++;
    line->states[i] = FREE;
    if (line->out_index >= line->out_total)
        return true;
    size_t bytes = line->bytes[i];
    if (request->status != LULL_OK)
        bytes = lull__op_error(request, line->slots[i]);
    send_slot(request, i, bytes);
    return true;
}

bool lull__line_step(lull_request_t *request) {
    lull__line_t *line = &request->line;
    poll(request);
    if (receive(request) || send_own(request))
        return true;
    if (line->in_index < line->in_total || line->out_index < line->out_total)
        return false;
    for (unsigned i = 0; i < line->slot_count; i++)
        if (line->states[i] != FREE)
            return false;
    give_back(request);
    request->done = true;
    return true;
}
