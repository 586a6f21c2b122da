/* Ranks that call different things where no message of theirs meets: found by
 * those that wait, or with check=1 before the call; and a slow rank is never
 * taken for a wrong one. */
#include <unistd.h>

#include "comm/internal.h"
#include "support_mpi.h"

enum { N = 50000, FEW = 100 };

static float *in, *out;
static int culprit;

static lull_comm_t *make(const char *policy) {
    lull_comm_t *comm;
    CHECK_OK(lull_comm_create(MPI_COMM_WORLD, LULL_ROLE_DP, policy, &comm));
    return comm;
}

static lull_status_t sum(lull_comm_t *comm, size_t n) {
    return lull_allreduce(in, out, n, LULL_F32, LULL_SUM, comm);
}

static lull_status_t small_and_large(lull_comm_t *comm) {
    return sum(comm, test_rank == culprit ? FEW : N);
}

static lull_status_t two_roots(lull_comm_t *comm) {
    return lull_bcast(in, N, LULL_F32, test_rank == culprit ? culprit : 0,
                      comm);
}

static lull_status_t two_roots_small(lull_comm_t *comm) {
    return lull_bcast(in, FEW, LULL_F32, test_rank == culprit ? culprit : 0,
                      comm);
}

static lull_status_t sum_and_barrier(lull_comm_t *comm) {
    return test_rank == culprit ? lull_barrier(comm) : sum(comm, N);
}

static lull_status_t sum_and_bcast(lull_comm_t *comm) {
    return test_rank == culprit ? lull_bcast(in, N, LULL_F32, culprit, comm)
                                : sum(comm, N);
}

static lull_status_t nonblocking(lull_comm_t *comm) {
    lull_request_t *request;
    size_t n = test_rank == culprit ? FEW : N;
    lull_status_t status =
        lull_iallreduce(in, out, n, LULL_F32, LULL_SUM, comm, &request);
    return status == LULL_OK ? lull_wait(&request) : status;
}

static lull_status_t tested(lull_comm_t *comm) {
    lull_request_t *request;
    int done = 0;
    lull_status_t status =
        lull_iallreduce(in, out, test_rank == culprit ? FEW : N, LULL_F32,
                        LULL_SUM, comm, &request);
    while (status == LULL_OK && !done)
        status = lull_test(&request, &done);
    return status;
}

static lull_status_t (*const wrong[])(lull_comm_t *) = {
    small_and_large, sum_and_barrier, sum_and_bcast,  nonblocking,
    tested,          two_roots,       two_roots_small};
/* MPI's own bcast from two roots may end with nobody waiting. */
enum { WRONGS = sizeof wrong / sizeof *wrong, WAITING = 5 };

/* Some ranks may be through a call before the others know; then the next call
 * is where they hear. */
static void found_by_waiting(unsigned which) {
    lull_comm_t *comm = make("mpc;min=16384");
    lull_status_t status = wrong[which](comm);
    if (status == LULL_OK)
        status = sum(comm, N);
    if (status != LULL_ERR_MISMATCH ||
        strstr(lull_last_error(), "called") == NULL)
        test_fail(__FILE__, __LINE__, "case %u: %s: %s", which,
                  lull_status_name(status), lull_last_error());
    char name[24];
    snprintf(name, sizeof name, "rank %d ", culprit);
    CHECK(strstr(lull_last_error(), name) != NULL || test_rank == culprit ||
          test_size > 2);
    for (int i = 0; i < 2 && status == LULL_ERR_MISMATCH; i++)
        status = sum(comm, N);
    CHECK(status == LULL_ERR_STATE && strstr(lull_last_error(), "no use"));
    lull_comm_destroy(comm);
}

static void found_by_comparing(const char *policy, unsigned which) {
    lull_comm_t *comm = make(policy);
    char name[24];
    snprintf(name, sizeof name, "rank %d ", culprit);
    CHECK_FAILS(wrong[which](comm), LULL_ERR_MISMATCH, name);
    CHECK(strstr(lull_last_error(), "rank 0 ") != NULL);
    CHECK_OK(sum(comm, N));
    CHECK_OK(lull_barrier(comm));
    lull_comm_destroy(comm);
}

/* Both that took themselves for the root hear of the other. */
static void found_by_the_ring(void) {
    lull_comm_t *comm = make("mpc;min=0");
    char name[24];
    int other = test_rank == culprit ? 0 : culprit;
    snprintf(name, sizeof name, "root %d", other);
    for (size_t n = 5; n <= N; n *= 100) {
        lull_status_t status = lull_bcast(
            in, n, LULL_F32, test_rank == culprit ? culprit : 0, comm);
        if (test_rank == 0 || test_rank == culprit)
            CHECK(status == LULL_ERR_MISMATCH &&
                  strstr(lull_last_error(), name) != NULL);
        else
            CHECK(status != LULL_ERR_CORRUPT);
        CHECK_OK(sum(comm, N));
        CHECK_OK(lull_bcast(in, n, LULL_F32, culprit, comm));
    }
    lull_comm_destroy(comm);
}

/* An argument that one rank is refused is heard of by all. */
static void refused_on_one_rank(void) {
    lull_comm_t *comm = make("none;check=1");
    lull_status_t status =
        lull_allreduce(in, out, FEW, LULL_F32,
                       test_rank == culprit ? (lull_op_t)7 : LULL_SUM, comm);
    CHECK(status ==
          (test_rank == culprit ? LULL_ERR_UNSUPPORTED : LULL_ERR_PEER));
    CHECK_OK(sum(comm, FEW));
    lull_comm_destroy(comm);
}

static void slow_is_not_wrong(void) {
    for (int i = 0; i < 3; i++) {
        lull_comm_t *comm = make("mpc");
        CHECK_OK(sum(comm, N));
        if (test_rank == culprit)
            usleep(300000);
        CHECK_OK(sum(comm, i == 0 ? FEW : N));
        CHECK_OK(lull_bcast(in, N, LULL_F32, culprit, comm));
        lull_comm_destroy(comm);
    }
}

/* A difference that all returned is not found once more by ranks that wait for
 * long, in that call or later. */
static void settled(const char *policy) {
    lull_comm_t *comm = make(policy);
    size_t mine = test_rank == culprit ? N / 2 : N;
    if (test_rank == culprit)
        usleep(200000);
    CHECK(sum(comm, mine) == LULL_ERR_MISMATCH);
    for (int i = 0; i < 3; i++) {
        if ((test_rank == culprit) == i)
            usleep(200000);
        CHECK_OK(sum(comm, N));
    }
    lull_comm_destroy(comm);
}

/* Ranks that have begun many more calls than one that waits in the first of
 * them: both hear of it. */
static void far_ahead(void) {
    enum { MANY = 100 };
    lull_comm_t *comm = make("mpc");
    lull_request_t *requests[MANY];
    float *results = calloc((size_t)MANY * N, sizeof *results);
    CHECK(results != NULL);
    if (test_rank == culprit) {
        CHECK_FAILS(sum(comm, FEW), LULL_ERR_MISMATCH, "called");
    } else {
        for (int i = 0; i < MANY; i++)
            CHECK_OK(lull_iallreduce(in, results + (size_t)i * N, N, LULL_F32,
                                     LULL_SUM, comm, &requests[i]));
        CHECK_FAILS(lull_waitall(MANY, requests), LULL_ERR_MISMATCH, "called");
    }
    CHECK_FAILS(sum(comm, N), LULL_ERR_STATE, "no use");
    lull_comm_destroy(comm); /* MPI may still write to the results */
}

/* Looks until it has heard of a difference, or not for so many ms. */
static bool looks(lull_comm_t *comm, int ms) {
    while (ms-- > 0) {
        if (lull__doubt_look(comm, 1e9))
            return true;
        usleep(1000);
    }
    return false;
}

/* The last rank hears of a call that it has not come to yet, and must not have
 * forgotten when it does: the others tell once. */
static void heard_before_its_time(void) {
    lull_comm_t *comm = make("mpc");
    lull__call_t call = {.kind = LULL__ALLREDUCE, .count = FEW, .comm = comm};
    lull__doubt_note(&call);
    call.count = N;
    if (test_rank != culprit) {
        lull__doubt_note(&call);
        CHECK(!lull__doubt_look(comm, 1e9));
    }
    MPI_Barrier(MPI_COMM_WORLD);
    if (test_rank == culprit) {
        CHECK(!looks(comm, 100));
        call.count = 1;
        lull__doubt_note(&call);
    }
    CHECK(looks(comm, 10000));
    lull_comm_destroy(comm);
}

/* What is told as a communicator is destroyed does not get into the next one,
 * to which MPI gives its place. */
static void told_at_the_end(void) {
    for (int i = 0; i < 40; i++) {
        lull_comm_t *comm = make("mpc");
        lull__call_t call = {
            .kind = LULL__ALLREDUCE, .count = FEW, .comm = comm};
        if (test_rank == i % test_size)
            for (int k = 0; k < 3; k++) { /* or more, if they take it */
                lull__doubt_note(&call);
                CHECK(!lull__doubt_look(comm, 1e9));
            }
        lull_comm_destroy(comm);
        comm = make("mpc;check=1");
        for (int k = 0; k < 3; k++)
            CHECK_OK(sum(comm, FEW));
        lull_comm_destroy(comm);
    }
}

int main(int argc, char **argv) {
    test_begin(&argc, &argv);
    if (test_size == 1)
        return test_end();
    in = calloc(N, 4), out = calloc(N, 4);
    CHECK(in && out);
    culprit = test_size - 1;
    CHECK_OK(lull_setting_set("doubt-ms", "50"));
    CHECK_OK(lull_setting_set("host-ranks", "2"));
    slow_is_not_wrong();
    told_at_the_end();
    for (unsigned i = 0; i < WRONGS; i++) {
        found_by_comparing("mpc;check=1", i);
        found_by_comparing("none;check=1", i);
    }
    refused_on_one_rank();
    settled("mpc;min=0");
    settled("mpc;min=0;hier=1");
    settled("mpc;check=1");
    far_ahead();
    for (unsigned i = 0; i < WAITING; i++)
        found_by_waiting(i);
    found_by_the_ring();
    heard_before_its_time();
    /* A communicator made afterwards is as good as any. */
    lull_comm_t *comm = make("mpc;min=0");
    CHECK_OK(sum(comm, N));
    lull_comm_destroy(comm);
    return test_end();
}
