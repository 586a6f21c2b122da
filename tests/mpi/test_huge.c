/* Counts beyond 2^31, on two ranks: MPI's own calls in pieces, and frames. */
#include <unistd.h>

#include "support_mpi.h"

#define N (((size_t)1 << 31) + 5)

/* Mostly zero pages that nobody touched; a few values far apart. */
static const size_t places[] = {
    0,    1, (1u << 30) - 1, 1u << 30, ((size_t)1 << 31) - 1, (size_t)1 << 31,
    N - 1};

static void mark(uint8_t *x, int rank) {
    for (unsigned i = 0; i < 7; i++)
        x[places[i]] = (uint8_t)(i + 1 + (unsigned)rank * 10);
}

static void check(const uint8_t *x, int rank) {
    for (unsigned i = 0; i < 7; i++)
        CHECK(x[places[i]] == (uint8_t)(i + 1 + (unsigned)rank * 10));
    CHECK(x[2] == 0 && x[N - 2] == 0);
}

static void run(uint8_t *x, const char *policy) {
    lull_comm_t *comm;
    CHECK_OK(lull_comm_create(MPI_COMM_WORLD, LULL_ROLE_PP, policy, &comm));
    memset(x, 0, N);
    if (test_rank == 1)
        mark(x, 1);
    CHECK_OK(lull_bcast(x, N, LULL_U8, 1, comm));
    check(x, 1);
    if (test_rank == 0) {
        mark(x, 0);
        CHECK_OK(lull_send(x, N, LULL_U8, 1, 0, comm));
    } else {
        CHECK_OK(lull_recv(x, N, LULL_U8, 0, 0, comm));
    }
    check(x, 0);
    CHECK_OK(lull_allreduce(LULL_IN_PLACE, x, N, LULL_U8, LULL_MAX, comm));
    check(x, 0);
    lull_comm_destroy(comm);
}

int main(int argc, char **argv) {
    test_begin(&argc, &argv);
    long pages = sysconf(_SC_AVPHYS_PAGES), page = sysconf(_SC_PAGESIZE);
    int enough = pages > 0 && (size_t)pages * (size_t)page > 6 * N;
    MPI_Bcast(&enough, 1, MPI_INT, 0, MPI_COMM_WORLD);
    if (!enough) {
        if (test_rank == 0)
            printf("skipped: needs 12 GB of free memory\n");
        MPI_Finalize();
        return 77;
    }
    uint8_t *x = malloc(N);
    CHECK(x != NULL);
    run(x, "none");
    run(x, "raw");
    free(x);
    return test_end();
}
