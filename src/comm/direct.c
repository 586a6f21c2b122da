/* The direct algorithm: all-reduce, reduce-scatter and all-gather.
 *
 * The values are cut in a part for each rank, its owner. Each rank encodes
 * its contribution to each part once and sends it to the owner (scatter); the
 * owner sums in rank order, encodes the sum once, sends it to all and installs
 * what it sent, decoded (gather). Chunks of both halves are merged in one
 * stream for each pair of ranks.
 *
 * Why it cannot deadlock: let m be the lowest chunk that some rank has not
 * finished. All scatter chunks m can be sent, since what goes before them in
 * a stream are results below m, which are finished, and contributions up to
 * m, which are summed as they come. A result waits for a slot that an earlier
 * one leaves when all peers have it; so no more contributions go before that
 * one than results have slots, and one.
 *
 * Memory: a message in and one out for each peer, one or two results; sums and
 * scaled values lie in the receive buffer wherever nothing needs what is
 * there. */
#include <string.h>

#include "engine.h"

static bool has_scatter(lull__kind_t kind) {
    return kind != LULL__ALLGATHER;
}

static bool has_gather(lull__kind_t kind) {
    return kind != LULL__REDUCE_SCATTER;
}

/* Part `rank` of a call: of an all-reduce a share, else a block of count. */
static size_t part_begin(const lull__call_t *call, int rank) {
    size_t ranks = (size_t)call->comm->size, at = (size_t)rank;
    if (call->kind != LULL__ALLREDUCE)
        return at * call->count;
    size_t share =
        (call->count / ranks + (call->count % ranks != 0) + 31) / 32 * 32;
    return at * share < call->count ? at * share : call->count;
}

static size_t part_count(const lull__call_t *call, int rank) {
    if (call->kind != LULL__ALLREDUCE)
        return call->count;
    return part_begin(call, rank + 1) - part_begin(call, rank);
}

static uint32_t part_chunks(const lull__call_t *call, int rank) {
    return lull__chunks(part_count(call, rank), call->step);
}

static size_t chunk_values(const lull__call_t *call, int rank, uint32_t k) {
    size_t left = part_count(call, rank) - (size_t)k * call->step;
    return left < call->step ? left : call->step;
}

/* Offset of chunk k of a part, in bytes, where all parts lie. */
static size_t chunk_at(const lull__call_t *call, int rank, uint32_t k) {
    return (part_begin(call, rank) + (size_t)k * call->step) *
           lull__size_of(call->dtype);
}

static const char *input(const lull__call_t *call) {
    return lull__in_place_call(call) ? call->recv : call->send;
}

/* Messages from one rank to another, as the call's arguments have it. */
typedef struct plan {
    uint32_t scatter, gather;
} plan_t;

static plan_t plan_of(const lull__call_t *call, int from, int to) {
    return (plan_t){
        has_scatter(call->kind) ? part_chunks(call, to) : 0,
        has_gather(call->kind) ? part_chunks(call, from) : 0,
    };
}

static uint32_t plan_total(plan_t plan) {
    uint32_t n = plan.scatter + plan.gather;
    return n != 0 ? n : 1; /* an empty one */
}

/* Slots for results: fewer where they would be much for a peer. */
static unsigned gathers_of(int ranks) {
    return ranks <= 3 ? 1 : 2;
}

static bool scatter_is_next(const lull__call_t *call, plan_t plan,
                            uint32_t scatter, uint32_t gather) {
    return scatter < plan.scatter &&
           (gather >= plan.gather ||
            scatter < gather + gathers_of(call->comm->size) + 1);
}

/* ---- Memory ------------------------------------------------------------ */

static void give_back(lull_request_t *request) {
    lull__engine_t *engine = request->call.comm->engine;
    lull__direct_t *d = &engine->direct;
    while (d->held_count != 0)
        lull__slot_put(engine, d->held[--d->held_count]);
}

/* Cuts memory from the last slot, or takes one more. */
static bool cut(lull__engine_t *engine, size_t bytes, lull__slot_t **out) {
    lull__direct_t *d = &engine->direct;
    if (d->held_count == 0 || engine->slot_bytes - d->cut < bytes) {
        lull__slot_t *slot = lull__slot_get(engine);
        if (slot == NULL)
            return false;
        d->held[d->held_count++] = slot;
        d->cut = 0;
    }
    *out = d->held[d->held_count - 1] + d->cut;
    d->cut += (bytes + 63) / 64 * 64;
    return true;
}

/* Two ranks sum in any order: this one's contribution may come first. */
static bool sums_onto_own(const lull__call_t *call) {
    return call->kind == LULL__ALLREDUCE && lull__in_place_call(call) &&
           call->comm->size == 2;
}

/* May the sum of a chunk lie where its result will? */
static bool sums_in_place(const lull__call_t *call) {
    return !lull__is_half(call->dtype) &&
           (uintptr_t)call->recv % lull__size_of(call->dtype) == 0 &&
           (!lull__in_place_call(call) || sums_onto_own(call));
}

/* Is there nothing in the receive buffer that scaled or decoded values of
 * the same place could overwrite? */
static bool stages_apart(const lull__call_t *call) {
    bool extreme = call->op == LULL_MIN || call->op == LULL_MAX;
    return extreme || (lull__scales(call) && !lull__in_place_call(call) &&
                       call->kind == LULL__REDUCE_SCATTER);
}

static bool cut_all(lull_request_t *request) {
    const lull__call_t *call = &request->call;
    lull__engine_t *engine = call->comm->engine;
    lull__direct_t *d = &engine->direct;
    size_t out = lull__message_room(&request->coding);
    size_t values = call->step * lull__size_of(call->dtype);
    bool all = true;
    d->sum = d->stage = NULL;
    for (int r = 0; r < call->comm->size; r++)
        if (r != call->comm->rank)
            all = all && cut(engine, engine->message_bytes, &d->peers[r].in);
    if (has_scatter(call->kind) && !sums_in_place(call))
        all = all && cut(engine, call->step * (call->dtype == LULL_F64 ? 8 : 4),
                         &d->sum);
    for (int r = 0; r < call->comm->size; r++)
        if (r != call->comm->rank)
            all = all && cut(engine, out, &d->peers[r].out);
    for (unsigned g = 0; g < d->gathers && has_gather(call->kind); g++)
        all = all && cut(engine, out, &d->gather[g]);
    if (has_scatter(call->kind) && stages_apart(call))
        all = all && cut(engine, values, &d->stage);
    return all;
}

bool lull__direct_begin(lull_request_t *request) {
    const lull__call_t *call = &request->call;
    lull__direct_t *d = &call->comm->engine->direct;
    int mine = call->comm->rank;
    for (int r = 0; r < call->comm->size; r++) {
        lull__peer_t *peer = &d->peers[r];
        memset(peer, 0, sizeof *peer);
        if (r == mine)
            continue;
        peer->in_total = plan_total(plan_of(call, r, mine));
        peer->out_total = plan_total(plan_of(call, mine, r));
    }
    d->gathers = gathers_of(call->comm->size);
    d->gather_users[0] = d->gather_users[1] = 0;
    d->summing = d->ready = 0;
    d->sum_rank = 0;
    d->turn = mine;
    bool all = cut_all(request);
    if (!all)
        give_back(request);
    return all;
}

/* ---- What has come, and what has gone --------------------------------- */

/* Is it the message that the plan has next? */
static void check_place(lull_request_t *request, int r,
                        const lull__message_t *m) {
    const lull__call_t *call = &request->call;
    lull__peer_t *peer = &call->comm->engine->direct.peers[r];
    plan_t plan = plan_of(call, r, call->comm->rank);
    bool scatter =
        scatter_is_next(call, plan, peer->in_scatter, peer->in_gather);
    uint32_t chunk = scatter ? peer->in_scatter : peer->in_gather;
    if (m->gather == !scatter && m->chunk == chunk)
        return;
    lull__fail(LULL_ERR_CORRUPT, "from rank %d: chunk %u of half %d, not %u", r,
               m->chunk, m->gather, chunk);
    lull__op_fail(request, LULL_ERR_CORRUPT, r);
}

static void arrive(lull_request_t *request, int r) {
    lull__peer_t *peer = &request->call.comm->engine->direct.peers[r];
    int mine = request->call.comm->rank;
    lull__message_t m;
    peer->receiving = false;
    peer->received = true;
    peer->usable = lull__op_accept(request, r, peer->in, peer->in_bytes, &m);
    if (peer->usable)
        check_place(request, r, &m);
    if (peer->in_done == 0 && request->status != LULL_OK) {
        lull__call_t theirs = request->call;
        theirs.kind = m.call;
        theirs.count = m.count;
        theirs.dtype = (lull_dtype_t)m.dtype;
        theirs.step = m.step;
        peer->in_total = plan_total(plan_of(&theirs, r, mine));
    }
}

static void poll_peer(lull_request_t *request, int r) {
    lull__direct_t *d = &request->call.comm->engine->direct;
    lull__peer_t *peer = &d->peers[r];
    if (peer->sending && lull__op_test(request, &peer->out_request, NULL))
        peer->sending = false;
    for (unsigned g = 0; g < d->gathers; g++)
        if (peer->gathering[g] &&
            lull__op_test(request, &peer->gather_request[g], NULL)) {
            peer->gathering[g] = false;
            d->gather_users[g]--;
        }
    if (peer->receiving &&
        lull__op_test(request, &peer->in_request, &peer->in_bytes))
        arrive(request, r);
    if (peer->receiving || peer->received || peer->in_done >= peer->in_total)
        return;
    if (lull__op_recv(request, peer->in, r, &peer->in_request) == MPI_SUCCESS)
        peer->receiving = true;
    else
        peer->in_done = peer->in_total;
}

/* ---- Summing ----------------------------------------------------------- */

static bool has_sum_left(const lull_request_t *request) {
    const lull__call_t *call = &request->call;
    return has_scatter(call->kind) && call->comm->engine->direct.summing <
                                          part_chunks(call, call->comm->rank);
}

static void sum_advance(lull_request_t *request) {
    request->call.comm->engine->direct.sum_rank++;
}

/* Where the sum of the chunk lies. */
static void *sum_at(const lull__call_t *call) {
    lull__direct_t *d = &call->comm->engine->direct;
    int part = has_gather(call->kind) ? call->comm->rank : 0;
    return d->sum != NULL
               ? (void *)d->sum
               : (char *)call->recv + chunk_at(call, part, d->summing);
}

static void sum_prepare(const lull__call_t *call) {
    lull__direct_t *d = &call->comm->engine->direct;
    size_t n = chunk_values(call, call->comm->rank, d->summing);
    void *sum = sum_at(call);
    if (d->sum_rank != 0)
        return;
    if (!sums_onto_own(call) || d->sum != NULL)
        lull__sum_clear(sum, n, call->dtype);
    else if (lull__scales(call))
        lull__scale(call, sum, sum, n);
}

/* This rank's own contribution, scaled a few values at a time. */
static void add_own(const lull__call_t *call, char *sum, const char *values,
                    size_t n) {
    enum { FEW = 512 };
    _Alignas(64) char scaled[FEW * 8];
    bool first = call->comm->rank == 0;
    size_t size = lull__size_of(call->dtype);
    size_t wide = size < 4 ? 4 : size;
    if (!lull__scales(call)) {
        lull__sum_add(call, sum, values, n, first);
        return;
    }
    for (size_t at = 0; at < n; at += FEW) {
        size_t few = n - at < FEW ? n - at : FEW;
        lull__scale(call, values + at * size, scaled, few);
        lull__sum_add(call, sum + at * wide, scaled, few, first);
    }
}

/* It is not coded. */
static bool sum_own(lull_request_t *request) {
    const lull__call_t *call = &request->call;
    lull__direct_t *d = &call->comm->engine->direct;
    int mine = call->comm->rank;
    if (!has_sum_left(request) || d->sum_rank != mine)
        return false;
    double since = lull__now();
    size_t n = chunk_values(call, mine, d->summing);
    sum_prepare(call);
    if (!sums_onto_own(call) || d->sum != NULL)
        add_own(call, sum_at(call),
                input(call) + chunk_at(call, mine, d->summing), n);
    sum_advance(request);
    lull__spend(call->comm, &call->comm->counters.decode_s, since);
    return true;
}

static void sum_theirs(lull_request_t *request, int r) {
    const lull__call_t *call = &request->call;
    lull__direct_t *d = &call->comm->engine->direct;
    lull__peer_t *peer = &d->peers[r];
    size_t n = chunk_values(call, call->comm->rank, d->summing);
    bool adds = call->op == LULL_SUM || call->op == LULL_AVG;
    lull__target_t to = {adds ? sum_at(call) : d->stage, n, adds};
    sum_prepare(call);
    lull__op_decode(request, r, peer->in, peer->in_bytes, &to);
    if (!adds)
        lull__sum_add(call, sum_at(call), d->stage, n, r == 0);
    sum_advance(request);
}

/* Encodes chunk k of this rank's part for all peers. Of a lossy codec this
 * rank installs what the others will decode. */
static void publish(lull_request_t *request, char *values, uint32_t k) {
    const lull__call_t *call = &request->call;
    lull__direct_t *d = &call->comm->engine->direct;
    int mine = call->comm->rank;
    size_t n = chunk_values(call, mine, k);
    lull__source_t from = {values, n, 1, k};
    d->gather_bytes[k % d->gathers] =
        lull__op_encode(request, d->gather[k % d->gathers], &from);
    if (d->gather_bytes[k % d->gathers] == 0)
        return;
    d->gather_users[k % d->gathers] = (unsigned)call->comm->size - 1;
    d->ready = k + 1;
    lull__target_t to = {values, n, false};
    if (request->coding.lossy)
        lull__op_decode(request, mine, d->gather[k % d->gathers],
                        d->gather_bytes[k % d->gathers], &to);
}

/* In place, the result of a reduce-scatter lies where the input of rank 0's
 * part is: that must have been encoded. */
static bool may_write(const lull_request_t *request, uint32_t k) {
    const lull__call_t *call = &request->call;
    if (call->kind != LULL__REDUCE_SCATTER || call->comm->rank == 0 ||
        !lull__in_place_call(call))
        return true;
    return call->comm->engine->direct.peers[0].out_scatter > k;
}

static bool finish_sum(lull_request_t *request) {
    const lull__call_t *call = &request->call;
    lull__direct_t *d = &call->comm->engine->direct;
    int mine = call->comm->rank;
    uint32_t k = d->summing;
    if (!has_sum_left(request) || d->sum_rank != call->comm->size ||
        !may_write(request, k) ||
        (has_gather(call->kind) && d->gather_users[k % d->gathers] != 0))
        return false;
    size_t at = chunk_at(call, has_gather(call->kind) ? mine : 0, k);
    char *to = (char *)call->recv + at;
    double since = lull__now();
    lull__sum_finish(call, sum_at(call), to, chunk_values(call, mine, k));
    lull__spend(call->comm, &call->comm->counters.decode_s, since);
    if (has_gather(call->kind))
        publish(request, to, k);
    d->summing++;
    d->sum_rank = 0;
    return true;
}

/* An all-gather has nothing to sum. */
static bool publish_own(lull_request_t *request) {
    const lull__call_t *call = &request->call;
    lull__direct_t *d = &call->comm->engine->direct;
    int mine = call->comm->rank;
    uint32_t k = d->ready;
    if (call->kind != LULL__ALLGATHER || k >= part_chunks(call, mine) ||
        d->gather_users[k % d->gathers] != 0)
        return false;
    size_t size = lull__size_of(call->dtype);
    char *to = (char *)call->recv + chunk_at(call, mine, k);
    if (!lull__in_place_call(call))
        memcpy(to, (const char *)call->send + (size_t)k * call->step * size,
               chunk_values(call, mine, k) * size);
    publish(request, to, k);
    return true;
}

/* ---- Messages ---------------------------------------------------------- */

static void send_from(lull_request_t *request, int r, size_t bytes) {
    lull__peer_t *peer = &request->call.comm->engine->direct.peers[r];
    peer->out_done++;
    peer->sending = lull__op_send(request, peer->out, bytes, r,
                                  &peer->out_request) == MPI_SUCCESS;
}

static bool send_scatter(lull_request_t *request, int r) {
    const lull__call_t *call = &request->call;
    lull__direct_t *d = &call->comm->engine->direct;
    lull__peer_t *peer = &d->peers[r];
    uint32_t k = peer->out_scatter;
    lull__source_t from = {input(call) + chunk_at(call, r, k),
                           chunk_values(call, r, k), 0, k};
    if (lull__scales(call)) {
        double since = lull__now();
        /* Nothing that is needed lies in the receive buffer there, but what
         * is sent now. */
        void *to = d->stage != NULL ? (void *)d->stage
                                    : (char *)call->recv + chunk_at(call, r, k);
        lull__scale(call, from.values, to, from.n);
        from.values = to;
        lull__spend(call->comm, &call->comm->counters.encode_s, since);
    }
    size_t bytes = lull__op_encode(request, peer->out, &from);
    if (bytes == 0)
        return true; /* it failed: an error goes in its place, next time */
    peer->out_scatter++;
    send_from(request, r, bytes);
    return true;
}

static bool send_gather(lull_request_t *request, int r) {
    lull__direct_t *d = &request->call.comm->engine->direct;
    lull__peer_t *peer = &d->peers[r];
    unsigned g = peer->out_gather % d->gathers;
    if (peer->out_gather >= d->ready)
        return false;
    peer->out_gather++;
    peer->out_done++;
    peer->gathering[g] =
        lull__op_send(request, d->gather[g], d->gather_bytes[g], r,
                      &peer->gather_request[g]) == MPI_SUCCESS;
    return true;
}

static bool send_next(lull_request_t *request, int r) {
    const lull__call_t *call = &request->call;
    lull__peer_t *peer = &call->comm->engine->direct.peers[r];
    if (peer->out_done == peer->out_total)
        return false;
    plan_t plan = plan_of(call, call->comm->rank, r);
    bool nothing = plan.scatter + plan.gather == 0;
    if (request->status == LULL_OK && !nothing) {
        if (!scatter_is_next(call, plan, peer->out_scatter, peer->out_gather))
            return send_gather(request, r);
        return !peer->sending && send_scatter(request, r);
    }
    if (peer->sending)
        return false;
    send_from(request, r, lull__op_error(request, peer->out));
    return true;
}

static bool send_any(lull_request_t *request) {
    int ranks = request->call.comm->size;
    lull__direct_t *d = &request->call.comm->engine->direct;
    for (int i = 1; i <= ranks; i++) {
        int r = (d->turn + i) % ranks;
        if (r != request->call.comm->rank && send_next(request, r)) {
            d->turn = r;
            return true;
        }
    }
    return false;
}

/* A message that came, if its turn has come: contributions are summed in the
 * order of the ranks. */
static bool receive(lull_request_t *request, int r) {
    const lull__call_t *call = &request->call;
    lull__direct_t *d = &call->comm->engine->direct;
    lull__peer_t *peer = &d->peers[r];
    if (!peer->received)
        return false;
    plan_t plan = plan_of(call, r, call->comm->rank);
    bool scatter =
        scatter_is_next(call, plan, peer->in_scatter, peer->in_gather);
    if (peer->usable && request->status == LULL_OK) {
        if (scatter && (d->summing != peer->in_scatter || d->sum_rank != r))
            return false;
        if (scatter) {
            sum_theirs(request, r);
        } else {
            lull__target_t to = {(char *)call->recv +
                                     chunk_at(call, r, peer->in_gather),
                                 chunk_values(call, r, peer->in_gather), false};
            lull__op_decode(request, r, peer->in, peer->in_bytes, &to);
        }
    }
    if (scatter)
        peer->in_scatter++;
    else
        peer->in_gather++;
    peer->in_done++;
    peer->received = false;
    return true;
}

static bool receive_any(lull_request_t *request) {
    for (int r = 0; r < request->call.comm->size; r++)
        if (receive(request, r))
            return true;
    return false;
}

static bool is_complete(const lull_request_t *request) {
    const lull__call_t *call = &request->call;
    const lull__direct_t *d = &call->comm->engine->direct;
    for (int r = 0; r < call->comm->size; r++) {
        const lull__peer_t *peer = &d->peers[r];
        if (r != call->comm->rank &&
            (peer->out_done < peer->out_total || peer->sending ||
             peer->gathering[0] || peer->gathering[1] || peer->received ||
             peer->receiving || peer->in_done < peer->in_total))
            return false;
    }
    return request->status != LULL_OK || !has_sum_left(request);
}

bool lull__direct_step(lull_request_t *request) {
    const lull__call_t *call = &request->call;
    for (int r = 0; r < call->comm->size; r++)
        if (r != call->comm->rank)
            poll_peer(request, r);
    bool well = request->status == LULL_OK;
    if ((well &&
         (finish_sum(request) || publish_own(request) || sum_own(request))) ||
        send_any(request) || receive_any(request))
        return true;
    if (!is_complete(request))
        return false;
    give_back(request);
    request->done = true;
    return true;
}
