/* How a call travels, from what all ranks share: by the engine with a coding,
 * or by MPI, and why. */
#include "engine.h"

static size_t message_bytes(const lull__call_t *call) {
    bool blocks =
        call->kind == LULL__REDUCE_SCATTER || call->kind == LULL__ALLGATHER;
    return call->count * lull__size_of(call->dtype) *
           (blocks ? (size_t)call->comm->size : 1);
}

/* Why the codec of the policy is not used, or -1. */
static int bypass_of(const lull__call_t *call, const lull__coding_t *coding) {
    const lull_comm_t *comm = call->comm;
    bool reduces = lull__reduces(call->kind);
    if (comm->size == 1)
        return LULL_BYPASS_SINGLE;
    if (!comm->compressed || call->kind == LULL__BARRIER)
        return LULL_BYPASS_POLICY;
    if (message_bytes(call) < comm->policy.min)
        return LULL_BYPASS_SMALL;
    if (coding->none)
        return LULL_BYPASS_POLICY;
    if (!coding->carries || (reduces && !lull__is_float(call->dtype)))
        return LULL_BYPASS_DTYPE;
    if (reduces && call->op != LULL_SUM && call->op != LULL_AVG)
        return LULL_BYPASS_OP;
    if (coding->lossy && !reduces && !lull__is_pair(call))
        return LULL_BYPASS_OP;
    return -1;
}

/* Reductions of 16-bit floats, which MPI does not have, and messages between
 * pairs, where the receiver must learn what came, go through the engine raw
 * where they are not coded. */
lull__route_t lull__route_of(const lull__call_t *call) {
    const lull_comm_t *comm = call->comm;
    lull__coding_t coding =
        lull__choose(comm, call->dtype, message_bytes(call));
    lull__route_t route = {.bypass = bypass_of(call, &coding)};
    route.engine = route.bypass < 0;
    if (route.engine)
        route.coding = coding;
    if (route.engine || comm->size == 1)
        return route;
    route.engine = (lull__reduces(call->kind) && lull__is_half(call->dtype)) ||
                   (lull__is_pair(call) && comm->compressed);
    if (route.engine)
        route.coding = lull__coding_raw(call->dtype);
    return route;
}
