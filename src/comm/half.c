/* Reductions of 16-bit floats, which MPI does not have: the contributions are
 * gathered as they are and reduced here, in float32 and in rank order. */
#include "half.h"

#include <math.h>
#include <stdlib.h>

#include "internal.h"

static float load(const char *at, lull_dtype_t dtype) {
    uint16_t bits;
    memcpy(&bits, at, 2);
    return dtype == LULL_F16 ? lull__from_f16(bits) : lull__from_bf16(bits);
}

static void store(char *at, lull_dtype_t dtype, float x) {
    uint16_t bits = dtype == LULL_F16 ? lull__to_f16(x) : lull__to_bf16(x);
    memcpy(at, &bits, 2);
}

/* A NaN of any rank stays. */
static float combine(float a, float b, lull_op_t op) {
    if (op == LULL_MIN)
        return isnan(a) || a < b ? a : b;
    if (op == LULL_MAX)
        return isnan(a) || a > b ? a : b;
    return a + b;
}

/* The reduction of element i of all ranks' parts, which lie one after the
 * other. bf16 reaches as far as float32: averages scale before they sum. */
static float reduce_one(const lull__call_t *call, const char *parts, size_t i) {
    size_t stride = 2 * call->count;
    int ranks = call->comm->size;
    bool average = call->op == LULL_AVG;
    float power = 1;
    while (average && call->dtype == LULL_BF16 && power < (float)ranks)
        power *= 2;
    float acc = load(parts + 2 * i, call->dtype) / power;
    for (int r = 1; r < ranks; r++)
        acc = combine(
            acc, load(parts + (size_t)r * stride + 2 * i, call->dtype) / power,
            call->op);
    return average ? acc / ((float)ranks / power) : acc;
}

static lull_status_t finish(lull_request_t *request) {
    const lull__call_t *call = &request->call;
    for (size_t i = 0; i < call->count; i++)
        store((char *)call->recv + 2 * i, call->dtype,
              reduce_one(call, request->scratch, i));
    return LULL_OK;
}

/* Parts for all ranks to all ranks; in place they are in recv. */
static lull_status_t exchange(lull_request_t *request) {
    const lull__call_t *call = &request->call;
    const void *from = lull__in_place_call(call) ? call->recv : call->send;
    if (call->count > lull__native_max)
        return lull__fail(LULL_ERR_UNSUPPORTED,
                          "a reduce-scatter of %zu values of %s a rank",
                          call->count, lull_dtype_name(call->dtype));
    lull_status_t status = lull__request_room(request, 1);
    if (status != LULL_OK)
        return status;
    int error = MPI_Ialltoall(from, (int)call->count, MPI_UINT16_T,
                              request->scratch, (int)call->count, MPI_UINT16_T,
                              call->comm->native, request->subs);
    if (error != MPI_SUCCESS)
        return lull__fail_mpi(error, "MPI_Ialltoall", call->comm);
    request->sub_count = 1;
    return LULL_OK;
}

lull_status_t lull__half_start(lull_request_t *request) {
    const lull__call_t *call = &request->call;
    size_t bytes = 2 * call->count * (size_t)call->comm->size;
    request->scratch = malloc(bytes);
    if (request->scratch == NULL)
        return lull__fail(LULL_ERR_NO_MEMORY, "%zu bytes of a reduction",
                          bytes);
    request->finish = finish;
    if (call->kind == LULL__REDUCE_SCATTER)
        return exchange(request);
    lull__call_t gather = *call;
    gather.kind = LULL__ALLGATHER;
    gather.recv = request->scratch;
    if (lull__in_place_call(call))
        gather.send = call->recv;
    return lull__native_post(&gather, request);
}
