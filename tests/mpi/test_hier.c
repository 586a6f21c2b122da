/* hier=1 with hosts faked by a setting, also of unequal size: right, the same
 * on all ranks, cheaper between hosts, and no hang where a rank fails. */
#include <float.h>
#include <math.h>

#include "comm/engine.h"
#include "support_mpi.h"

enum { N = 150001 };
static float *in, *out, *want;
static uint64_t seed;

static void exact(lull_comm_t *comm, size_t n, lull_op_t op, bool in_place) {
    test_fill(in, n, LULL_F32, test_rank, seed, true);
    test_model(want, n, LULL_F32, op, test_size, seed);
    memcpy(out, in, n * 4);
    CHECK_OK(lull_allreduce(in_place ? LULL_IN_PLACE : in, out, n, LULL_F32, op,
                            comm));
    for (size_t i = 0; i < n; i++)
        if (fabsf(out[i] - want[i]) > (op == LULL_AVG ? 1e-6f * 16 : 0))
            test_fail(__FILE__, __LINE__, "%zu of %zu: %g, expected %g", i, n,
                      (double)out[i], (double)want[i]);
}

static void replicas(lull_comm_t *comm, size_t n) {
    lull_request_t *request;
    double error = 0, norm = 0;
    test_fill(in, n, LULL_F32, test_rank, seed, false);
    MPI_Allreduce(in, want, (int)n, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    CHECK_OK(lull_iallreduce(in, out, n, LULL_F32, LULL_SUM, comm, &request));
    CHECK_OK(lull_wait(&request));
    for (size_t i = 0; i < n; i++) {
        double d = (double)out[i] - (double)want[i];
        error += d * d, norm += (double)want[i] * (double)want[i];
    }
    CHECK(error <= 0.01 * norm);
    memcpy(want, out, n * 4);
    MPI_Bcast(want, (int)n, MPI_FLOAT, 0, MPI_COMM_WORLD);
    CHECK(memcmp(want, out, n * 4) == 0);
}

static int left = -1;

static lull_status_t fail_encode(lull_comm_t *unused) {
    (void)unused;
    if (left < 0 || left-- != 0)
        return LULL_OK;
    return lull__fail(LULL_ERR_NO_MEMORY, "says the test");
}

static void failing(lull_comm_t *comm, int culprit) {
    lull__test_encode = fail_encode;
    left = test_rank == culprit ? 0 : -1;
    lull_status_t status = lull_allreduce(in, out, N, LULL_F32, LULL_SUM, comm);
    CHECK(status ==
          (test_rank == culprit ? LULL_ERR_NO_MEMORY : LULL_ERR_PEER));
    char name[24];
    snprintf(name, sizeof name, "rank %d", culprit);
    CHECK(strstr(lull_last_error(), "says the test") != NULL);
    if (test_rank != culprit && strstr(lull_last_error(), name) == NULL)
        test_fail(__FILE__, __LINE__, "'%s' does not name %s",
                  lull_last_error(), name);
    left = -1;
    lull__test_encode = NULL;
    exact(comm, N, LULL_SUM, false);
}

/* An average beside sums, or another count, is told to all. */
static void different(lull_comm_t *comm, int culprit) {
    bool other = test_rank == culprit;
    CHECK_FAILS(
        lull_allreduce(in, out, N, LULL_F32, other ? LULL_AVG : LULL_SUM, comm),
        LULL_ERR_MISMATCH, "avg");
    CHECK_FAILS(
        lull_allreduce(in, out, other ? 70 : N, LULL_F32, LULL_SUM, comm),
        LULL_ERR_MISMATCH, "called");
    exact(comm, N, LULL_AVG, true);
}

/* What stays flat says so, and is right. */
static void counted(lull_comm_t *comm) {
    lull_comm_stats_t before = {.size = sizeof before}, s = before;
    size_t part = N / (size_t)test_size;
    CHECK_OK(lull_comm_stats(comm, &before));
    test_fill(in, part * (size_t)test_size, LULL_F32, test_rank, seed, true);
    CHECK_OK(
        lull_reduce_scatter_block(in, out, part, LULL_F32, LULL_SUM, comm));
    test_model(want, part * (size_t)test_size, LULL_F32, LULL_SUM, test_size,
               seed);
    CHECK(memcmp(out, want + (size_t)test_rank * part, part * 4) == 0);
    test_fill(in, 100, LULL_BF16, test_rank, seed, true);
    CHECK_OK(lull_allreduce(in, out, 100, LULL_BF16, LULL_SUM, comm));
    CHECK_OK(lull_allreduce(in, out, 100, LULL_F32, LULL_SUM, comm));
    CHECK_OK(lull_comm_stats(comm, &s));
    CHECK(s.bypasses[LULL_BYPASS_HIER] - before.bypasses[LULL_BYPASS_HIER] ==
          (test_size > 1 ? 2 : 0));
}

int main(int argc, char **argv) {
    static const size_t counts[] = {0, 1, 3, 33, 1025, 70001, N};
    lull_comm_t *comm, *lossy;
    seed = test_begin(&argc, &argv);
    in = malloc(N * 4), out = malloc(N * 4), want = malloc(N * 4);
    CHECK(in && out && want);
    CHECK_OK(lull_setting_set("host-ranks", "2"));
    CHECK_OK(lull_comm_create(MPI_COMM_WORLD, LULL_ROLE_DP, "mpc;min=0;hier=1",
                              &comm));
    CHECK_OK(lull_comm_create(MPI_COMM_WORLD, LULL_ROLE_DP,
                              "zfp:16;min=0;hier=1", &lossy));
    for (unsigned i = 0; i < sizeof counts / sizeof *counts; i++)
        for (int mode = 0; mode < 4; mode++)
            exact(comm, counts[i], mode & 1 ? LULL_AVG : LULL_SUM, mode & 2);
    counted(comm);
    replicas(lossy, N);
    replicas(lossy, 100);
    for (int i = 0; i < 4; i++)
        in[i] = i % 2 ? FLT_MAX : -FLT_MAX;
    CHECK_OK(lull_allreduce(in, out, 4, LULL_F32, LULL_AVG, comm));
    for (int i = 0; i < 4; i++)
        CHECK(isfinite(out[i]) && fabsf(out[i]) > 0.99f * FLT_MAX);
    for (int culprit = 0; culprit < test_size && test_size > 2; culprit++)
        if (culprit % 2 == 0 || culprit == 1) {
            failing(comm, culprit);
            different(comm, culprit);
        }
    lull_comm_destroy(comm);
    lull_comm_destroy(lossy);
    /* The hosts that MPI knows: one. */
    CHECK_OK(lull_setting_set("host-ranks", "0"));
    CHECK_OK(lull_comm_create(MPI_COMM_WORLD, LULL_ROLE_DP,
                              "zfp:8;min=0;hier=1", &comm));
    exact(comm, 1025, LULL_SUM, false);
    lull_comm_destroy(comm);
    free(in), free(out), free(want);
    return test_end();
}
