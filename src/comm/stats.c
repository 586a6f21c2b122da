/* Counters of a communicator, as numbers and as JSON. */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/decimal.h"
#include "engine.h"

double lull__now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* What a bandwidth-optimal algorithm sends for a call, as comm.h has it. */
static uint64_t bytes_of(const lull__call_t *call) {
    uint64_t n = (uint64_t)call->count * lull__size_of(call->dtype);
    uint64_t ranks = (uint64_t)call->comm->size;
    switch (call->kind) {
    case LULL__ALLREDUCE:
        return 2 * (n - n / ranks);
    case LULL__REDUCE_SCATTER:
    case LULL__ALLGATHER:
        return (ranks - 1) * n;
    case LULL__BCAST:
        return call->comm->rank == call->peer && ranks > 1 ? n : 0;
    case LULL__SEND:
        return call->peer == MPI_PROC_NULL ? 0 : n;
    case LULL__RECV:
    case LULL__BARRIER:
    case LULL__KIND_COUNT:
        break;
    }
    return 0;
}

void lull__count(const lull__call_t *call, bool on_wire, int bypass) {
    lull__counters_t *c = &call->comm->counters;
    uint64_t bytes = bytes_of(call);
    lull__engine_lock();
    c->calls++;
    c->bytes += bytes;
    if (on_wire)
        c->wire_bytes += bytes;
    if (bypass >= 0)
        c->bypasses[bypass]++;
    lull__engine_unlock();
}

/* The struct of the caller may be older and shorter than ours. */
lull_status_t lull_comm_stats(const lull_comm_t *comm, lull_comm_stats_t *out) {
    if (!lull__registry_has(comm))
        return lull__fail(LULL_ERR_STATE, "lull_comm_stats: not a live comm");
    if (out == NULL || out->size < sizeof out->size || out->size > sizeof *out)
        return lull__fail(LULL_ERR_INVALID, "lull_comm_stats: out->size");
    lull__engine_lock(); /* another thread may move this one's work on */
    const lull__counters_t *c = &comm->counters;
    lull_comm_stats_t all = {.size = out->size,
                             .calls = c->calls,
                             .bytes = c->bytes,
                             .wire_bytes = c->wire_bytes,
                             .total_s = c->total_s,
                             .encode_s = c->encode_s,
                             .wait_s = c->wait_s,
                             .decode_s = c->decode_s};
    if (comm->engine != NULL && comm->engine->value2 > 0)
        all.rel_l2 = sqrt(comm->engine->error2 / comm->engine->value2);
    memcpy(all.bypasses, c->bypasses, sizeof all.bypasses);
    lull__engine_unlock();
    memcpy(out, &all, out->size);
    return LULL_OK;
}

static const char *const bypass_names[] = {
#define ROW(name, text) text,
    LULL_BYPASS_TABLE(ROW)
#undef ROW
};

lull_status_t lull_comm_stats_json(const lull_comm_t *comm, char *text,
                                   size_t capacity, size_t *needed) {
    lull_comm_stats_t s = {.size = sizeof s};
    lull_status_t status = lull_comm_stats(comm, &s);
    if (status != LULL_OK)
        return status;
    char all[1024 + LULL__RULES_TEXT_MAX];
    int n = lull__decimal_print(
        all, sizeof all,
        "{\"role\":\"%s\",\"policy\":\"%s\",\"rank\":%d,\"size\":%d,"
        "\"calls\":%llu,\"bytes\":%llu,\"wire_bytes\":%llu,"
        "\"ms\":%.3f,\"encode_ms\":%.3f,\"wait_ms\":%.3f,\"decode_ms\":%.3f,"
        "\"rel_l2\":%.6g,\"bypasses\":{",
        lull_role_name(comm->role), lull_comm_policy(comm), comm->rank,
        comm->size, (unsigned long long)s.calls, (unsigned long long)s.bytes,
        (unsigned long long)s.wire_bytes, 1e3 * s.total_s, 1e3 * s.encode_s,
        1e3 * s.wait_s, 1e3 * s.decode_s, s.rel_l2);
    for (unsigned i = 0; i < LULL_BYPASS_COUNT; i++)
        n += snprintf(all + n, sizeof all - (size_t)n, "%s\"%s\":%llu",
                      i ? "," : "", bypass_names[i],
                      (unsigned long long)s.bypasses[i]);
    n += snprintf(all + n, sizeof all - (size_t)n, "}}");
    if (needed != NULL)
        *needed = (size_t)n + 1;
    if (text == NULL || capacity < (size_t)n + 1)
        return lull__fail(LULL_ERR_CAPACITY,
                          "lull_comm_stats_json: %d bytes are needed", n + 1);
    memcpy(text, all, (size_t)n + 1);
    return LULL_OK;
}
