/* Every call under the policy `none`: every dtype and op, in place or not,
 * blocking or not, whole and in pieces, against a serial model; and under
 * policies with codecs, what those do not carry. */
#include <float.h>
#include <math.h>

#include "comm/internal.h"
#include "support_mpi.h"

static const lull_dtype_t dtypes[] = {LULL_F32, LULL_F64, LULL_F16, LULL_BF16,
                                      LULL_I32, LULL_I64, LULL_U8};
static const size_t counts[] = {0, 1, 2, 3, 5, 7, 31, 33, 1023, 1025, 4096};
enum { MOST = 70001, DTYPES = sizeof dtypes / sizeof *dtypes };
enum { COUNTS = sizeof counts / sizeof *counts };

static lull_comm_t *comm;
static uint64_t seed;
static char *in, *out, *want;

static lull_status_t complete(lull_request_t *request, bool poll) {
    int done = 0;
    if (!poll)
        return lull_wait(&request);
    while (!done) {
        lull_status_t status = lull_test(&request, &done);
        if (status != LULL_OK)
            return status;
        CHECK_OK(lull_comm_progress());
    }
    CHECK(request == NULL);
    return LULL_OK;
}

/* mode: bit 0 in place, bit 1 nonblocking, bit 2 polled. */
static void one_allreduce(size_t count, lull_dtype_t dtype, lull_op_t op,
                          int mode) {
    lull_request_t *request = NULL;
    size_t bytes = count * lull__size_of(dtype);
    test_fill(in, count, dtype, test_rank, seed, true);
    test_model(want, count, dtype, op, test_size, seed);
    memset(out, 0x5a, bytes + 1);
    if (mode & 1)
        memcpy(out, in, bytes);
    const void *from = mode & 1 ? LULL_IN_PLACE : in;
    if (mode & 2)
        CHECK_OK(lull_iallreduce(from, out, count, dtype, op, comm, &request));
    else
        CHECK_OK(lull_allreduce(from, out, count, dtype, op, comm));
    CHECK_OK(complete(request, mode & 4));
    if (memcmp(out, want, bytes) != 0)
        test_fail(__FILE__, __LINE__, "allreduce of %zu %s, op %d, mode %d",
                  count, lull_dtype_name(dtype), (int)op, mode);
    CHECK(out[bytes] == 0x5a);
}

static void one_reduce_scatter(size_t count, lull_dtype_t dtype, lull_op_t op,
                               int mode) {
    lull_request_t *request = NULL;
    size_t size = lull__size_of(dtype), all = count * (size_t)test_size;
    test_fill(in, all, dtype, test_rank, seed, true);
    test_model(want, all, dtype, op, test_size, seed);
    memset(out, 0x5a, all * size + 1);
    if (mode & 1)
        memcpy(out, in, all * size);
    const void *from = mode & 1 ? LULL_IN_PLACE : in;
    if (mode & 2)
        CHECK_OK(lull_ireduce_scatter_block(from, out, count, dtype, op, comm,
                                            &request));
    else
        CHECK_OK(lull_reduce_scatter_block(from, out, count, dtype, op, comm));
    CHECK_OK(complete(request, mode & 4));
    if (memcmp(out, want + (size_t)test_rank * count * size, count * size))
        test_fail(__FILE__, __LINE__,
                  "reduce_scatter of %zu %s, op %d, "
                  "mode %d",
                  count, lull_dtype_name(dtype), (int)op, mode);
    if (!(mode & 1))
        CHECK(out[count * size] == 0x5a);
}

static void one_allgather(size_t count, lull_dtype_t dtype, int mode) {
    lull_request_t *request = NULL;
    size_t bytes = count * lull__size_of(dtype);
    test_fill(in, count, dtype, test_rank, seed, true);
    memset(out, 0x5a, bytes * (size_t)test_size + 1);
    for (int r = 0; r < test_size; r++)
        test_fill(want + (size_t)r * bytes, count, dtype, r, seed, true);
    if (mode & 1)
        memcpy(out + (size_t)test_rank * bytes, in, bytes);
    const void *from = mode & 1 ? LULL_IN_PLACE : in;
    if (mode & 2)
        CHECK_OK(lull_iallgather(from, out, count, dtype, comm, &request));
    else
        CHECK_OK(lull_allgather(from, out, count, dtype, comm));
    CHECK_OK(complete(request, mode & 4));
    CHECK(memcmp(out, want, bytes * (size_t)test_size) == 0);
    CHECK(out[bytes * (size_t)test_size] == 0x5a);
}

static void one_bcast(size_t count, lull_dtype_t dtype, int root) {
    size_t bytes = count * lull__size_of(dtype);
    test_fill(want, count, dtype, root, seed, true);
    test_fill(out, count, dtype, test_rank, seed, true);
    CHECK_OK(lull_bcast(out, count, dtype, root, comm));
    CHECK(memcmp(out, want, bytes) == 0);
}

/* A ring: each rank sends to the next, three ways. */
static void one_ring(size_t count, lull_dtype_t dtype, int way) {
    int next = (test_rank + 1) % test_size;
    int before = (test_rank + test_size - 1) % test_size;
    size_t bytes = count * lull__size_of(dtype);
    lull_request_t *requests[2] = {NULL, NULL};
    test_fill(in, count, dtype, test_rank, seed, true);
    test_fill(want, count, dtype, before, seed, true);
    memset(out, 0x5a, bytes + 1);
    lull_message_t give = {in, count, dtype, next, 32767};
    lull_message_t take = {out, count, dtype, before, 32767};
    if (way == 0) {
        CHECK_OK(lull_sendrecv(&give, &take, comm));
    } else if (way == 1) {
        CHECK_OK(lull_irecv(out, count, dtype, before, 7, comm, &requests[0]));
        CHECK_OK(lull_isend(in, count, dtype, next, 7, comm, &requests[1]));
        CHECK_OK(lull_waitall(2, requests));
        CHECK(requests[0] == NULL && requests[1] == NULL);
    } else {
        CHECK_OK(lull_isend(in, count, dtype, next, 0, comm, &requests[1]));
        CHECK_OK(lull_recv(out, count, dtype, before, 0, comm));
        CHECK_OK(lull_wait(&requests[1]));
    }
    CHECK(memcmp(out, want, bytes) == 0 && out[bytes] == 0x5a);
}

static void all_of(size_t count, lull_dtype_t dtype) {
    for (lull_op_t op = LULL_SUM; op <= LULL_MAX; op++) {
        if (op == LULL_AVG && !lull__is_float(dtype))
            continue;
        for (int mode = 0; mode < 8; mode += mode == 3 ? 3 : 1) {
            one_allreduce(count, dtype, op, mode);
            one_reduce_scatter(count, dtype, op, mode);
        }
    }
    for (int mode = 0; mode < 4; mode++)
        one_allgather(count, dtype, mode);
    one_bcast(count, dtype, 0);
    one_bcast(count, dtype, test_size - 1);
    for (int way = 0; way < 3; way++)
        one_ring(count, dtype, way);
}

/* The average of values near the largest is finite where the true one is. */
static void large_averages(void) {
    float big[3] = {FLT_MAX, -FLT_MAX, 1}, got[3];
    CHECK_OK(lull_allreduce(big, got, 3, LULL_F32, LULL_AVG, comm));
    CHECK(isfinite(got[0]) && got[0] >= FLT_MAX * (1 - 0x1p-21f));
    CHECK(isfinite(got[1]) && got[1] <= -FLT_MAX * (1 - 0x1p-21f));
    CHECK(got[2] == 1);
    double wide = DBL_MAX, mean;
    CHECK_OK(lull_allreduce(&wide, &mean, 1, LULL_F64, LULL_AVG, comm));
    CHECK(isfinite(mean) && mean >= DBL_MAX * (1 - 0x1p-50));
    uint16_t half = 0x7bff, brain = 0x7f7f, result;
    CHECK_OK(lull_allreduce(&half, &result, 1, LULL_F16, LULL_AVG, comm));
    CHECK(result == 0x7bff);
    CHECK_OK(lull_allreduce(&brain, &result, 1, LULL_BF16, LULL_AVG, comm));
    CHECK(result == 0x7f7f);
}

/* Inf and NaN of one rank are seen by all. */
static void nonfinite(void) {
    float x[2] = {0, 0}, got[2];
    if (test_rank == test_size - 1)
        x[0] = INFINITY, x[1] = NAN;
    for (lull_op_t op = LULL_SUM; op <= LULL_AVG; op++) {
        CHECK_OK(lull_allreduce(x, got, 2, LULL_F32, op, comm));
        CHECK(isinf(got[0]) && isnan(got[1]));
    }
    uint16_t half = test_rank == test_size - 1 ? 0x7c00 : 0, result;
    CHECK_OK(lull_allreduce(&half, &result, 1, LULL_F16, LULL_SUM, comm));
    CHECK(result == 0x7c00);
}

/* Buffers may lie anywhere. */
static void unaligned(void) {
    test_fill(want, 100, LULL_F32, test_rank, seed, true);
    memcpy(in + 1, want, 400);
    test_model(want, 100, LULL_F32, LULL_SUM, test_size, seed);
    CHECK_OK(lull_allreduce(in + 1, out + 3, 100, LULL_F32, LULL_SUM, comm));
    CHECK(memcmp(out + 3, want, 400) == 0);
}

static void counted(void) {
    lull_comm_stats_t before = {.size = sizeof before}, after = before;
    float x[30] = {0}, got[30];
    uint64_t ranks = (uint64_t)test_size;
    CHECK_OK(lull_comm_stats(comm, &before));
    CHECK_OK(lull_allreduce(x, got, 30, LULL_F32, LULL_SUM, comm));
    CHECK_OK(lull_comm_stats(comm, &after));
    CHECK(after.calls == before.calls + 1);
    CHECK(after.bytes - before.bytes == 2 * (120 - 120 / ranks));
    CHECK(after.wire_bytes - before.wire_bytes == after.bytes - before.bytes);
    unsigned why = test_size == 1 ? LULL_BYPASS_SINGLE : LULL_BYPASS_POLICY;
    CHECK(after.bypasses[why] == before.bypasses[why] + 1);
    char text[600];
    size_t needed;
    CHECK_OK(lull_comm_stats_json(comm, text, sizeof text, &needed));
    CHECK(strlen(text) + 1 == needed && strstr(text, "\"role\":\"dp\""));
    CHECK_FAILS(lull_comm_stats_json(comm, text, 10, &needed),
                LULL_ERR_CAPACITY, "needed");
}

/* Integers, and the least and largest of floats, under a policy that codes. */
static void one_beside(size_t count, lull_dtype_t dtype, int way) {
    bool whole = !lull__is_float(dtype);
    for (lull_op_t op = whole ? LULL_SUM : LULL_MIN; op <= LULL_MAX; op++) {
        if (op == LULL_AVG)
            continue;
        one_allreduce(count, dtype, op, way % 4);
        one_reduce_scatter(count, dtype, op, (way + 1) % 4);
    }
    one_allgather(count, dtype, (way + 2) % 4);
    one_bcast(count, dtype, way % test_size);
    if (whole)
        one_ring(count, dtype, way % 3);
}

static void beside_a_codec(const char *policy) {
    static const size_t few[] = {0, 1, 33, 1025};
    lull_comm_t *plain = comm;
    lull_comm_stats_t stats = {.size = sizeof stats};
    CHECK_OK(lull_comm_create(MPI_COMM_WORLD, LULL_ROLE_DP, policy, &comm));
    for (int d = 0; d < DTYPES; d++) {
        for (int c = 0; c < 4; c++)
            one_beside(few[c], dtypes[d], 7 * c + d);
        one_beside(d == 4 ? MOST : 100, dtypes[d], 0); /* several chunks */
    }
    CHECK_OK(lull_comm_stats(comm, &stats));
    CHECK(test_size == 1 || (stats.bypasses[LULL_BYPASS_DTYPE] != 0 &&
                             stats.bypasses[LULL_BYPASS_OP] != 0));
    lull_comm_destroy(comm);
    comm = plain;
}

int main(int argc, char **argv) {
    seed = test_begin(&argc, &argv);
    size_t room = MOST * 8 * (size_t)test_size + 64;
    in = malloc(room), out = malloc(room), want = malloc(room);
    CHECK(in && out && want);
    CHECK_OK(lull_comm_create(MPI_COMM_WORLD, LULL_ROLE_DP, NULL, &comm));
    for (int pieces = 0; pieces < 2; pieces++) {
        lull__native_max = pieces ? 100 : (size_t)1 << 30;
        for (int c = 0; c < COUNTS; c++)
            for (int d = 0; d < DTYPES; d++) {
                bool half = lull__is_half(dtypes[d]);
                if (counts[c] > 2000 && (pieces || test_size > 4))
                    continue;
                if (pieces && (half || counts[c] < 31))
                    continue;
                all_of(counts[c], dtypes[d]);
            }
    }
    lull__native_max = (size_t)1 << 30;
    large_averages();
    nonfinite();
    unaligned();
    counted();
    static const char *const policies[] = {
        "raw;min=0",   "mpc;min=0",    "expo;min=0",         "bf16;min=0",
        "zfp:8;min=0", "mxint8;min=0", "zfp:8;min=0;hier=1", "mpc;check=1"};
    for (unsigned i = 0; i < sizeof policies / sizeof *policies; i++)
        beside_a_codec(policies[i]);
    CHECK_OK(lull_barrier(comm));
    lull_comm_destroy(comm);
    free(in), free(out), free(want);
    return test_end();
}
