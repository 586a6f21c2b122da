/* A chain of at most two neighbours: a broadcast goes down it, and send and
 * recv are its two ends. The last rank of a broadcast sends the root an empty
 * message when it begins, which closes a ring: so ranks that took different
 * ones for the root get messages that say so. */
#include <string.h>

#include "engine.h"

enum { FREE, RECEIVING, RECEIVED, SENDING };

static uint32_t total_of(size_t count, size_t step) {
    uint32_t n = lull__chunks(count, step);
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
    line->closing.peer = place == 0           ? (mine + ranks - 1) % ranks
                         : place == ranks - 1 ? call->peer
                                              : MPI_PROC_NULL;
}

static void give_back(lull_request_t *request) {
    lull__line_t *line = &request->line;
    for (unsigned i = 0; i < line->held; i++)
        lull__slot_put(request->call.comm->engine, line->slots[i]);
    line->held = line->slot_count = 0;
    lull__slot_put(request->call.comm->engine, line->closing.slot);
    line->closing.slot = NULL;
}

static bool closes_in(const lull_request_t *request) {
    return request->call.kind == LULL__BCAST &&
           request->line.source == MPI_PROC_NULL;
}

static bool closes_out(const lull_request_t *request) {
    return request->call.kind == LULL__BCAST &&
           request->line.sink == MPI_PROC_NULL;
}

/* The first step of the last rank, and the root's receive. */
static void close_begin(lull_request_t *request) {
    lull__line_t *line = &request->line;
    line->closing.left = closes_in(request);
    if (!closes_out(request))
        return;
    lull__message_t m = lull__op_message(request);
    m.kind = LULL__MESSAGE_EMPTY;
    lull__message_pack(&m, line->closing.out);
    if (lull__op_send(request, line->closing.out, LULL__HEADER_BYTES,
                      line->closing.peer,
                      &line->closing.request) == MPI_SUCCESS)
        line->closing.state = SENDING;
}

/* A rank that took itself for the root sends data: they are drained. */
static void close_take(lull_request_t *request) {
    lull__line_t *line = &request->line;
    lull__message_t m;
    lull__op_accept(request, line->closing.peer, line->closing.slot,
                    line->closing.bytes, &m);
    line->closing.left--;
    if (m.kind == LULL__MESSAGE_DATA && m.chunk == 0)
        line->closing.left = total_of((size_t)m.count, m.step) - 1;
}

/* True: the ring is closed. */
static bool close_poll(lull_request_t *request) {
    lull__line_t *line = &request->line;
    if (line->closing.state == SENDING &&
        lull__op_test(request, &line->closing.request, NULL))
        line->closing.state = FREE;
    if (line->closing.state == RECEIVING &&
        lull__op_test(request, &line->closing.request, &line->closing.bytes)) {
        line->closing.state = FREE;
        close_take(request);
    }
    if (line->closing.state == FREE && line->closing.left != 0) {
        if (lull__op_recv(request, line->closing.slot, line->closing.peer,
                          &line->closing.request) == MPI_SUCCESS)
            line->closing.state = RECEIVING;
        else
            line->closing.left = 0;
    }
    return line->closing.state == FREE;
}

bool lull__line_begin(lull_request_t *request) {
    const lull__call_t *call = &request->call;
    lull__line_t *line = &request->line;
    uint32_t total = total_of(call->count, call->step);
    memset(line, 0, sizeof *line);
    find_neighbours(call, line);
    line->in_total = line->source == MPI_PROC_NULL ? 0 : total;
    line->out_total = line->sink == MPI_PROC_NULL ? 0 : total;
    lull__engine_t *engine = call->comm->engine;
    if ((line->slots[0] = lull__slot_get(engine)) == NULL)
        return false;
    line->held = line->slot_count = 1;
    if (closes_in(request) &&
        (line->closing.slot = lull__slot_get(engine)) == NULL) {
        give_back(request);
        return false;
    }
    close_begin(request);
    if (total == 1)
        return true;
    if (engine->slot_bytes >= 2 * engine->message_bytes)
        line->slots[1] = line->slots[0] + engine->message_bytes;
    else if (engine->idle_count != 0) /* more than it must have */
        line->slots[line->held++] = lull__slot_get(engine);
    line->slot_count += line->slots[1] != NULL;
    return true;
}

static size_t chunk_at(const lull__call_t *call, uint32_t k) {
    return (size_t)k * call->step;
}

static size_t chunk_values(const lull__call_t *call, uint32_t k) {
    size_t left = call->count - chunk_at(call, k);
    return left < call->step ? left : call->step;
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
        line->in_total = total_of((size_t)m.count, m.step);
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
    bool closed = close_poll(request);
    if (receive(request) || send_own(request))
        return true;
    if (!closed || line->in_index < line->in_total ||
        line->out_index < line->out_total)
        return false;
    for (unsigned i = 0; i < line->slot_count; i++)
        if (line->states[i] != FREE)
            return false;
    give_back(request);
    request->done = true;
    return true;
}
