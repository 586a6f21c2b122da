/* Creation and the end: agreement, misuse, what is refused. */
#include "support_mpi.h"

static void malformed_on_one_rank(void) {
    lull_comm_t *comm = NULL;
    int culprit = test_size - 1;
    const char *policy = test_rank == culprit ? "none;min=x" : "none";
    char word[24];
    snprintf(word, sizeof word, "rank %d:", culprit);
    CHECK_FAILS(lull_comm_create(MPI_COMM_WORLD, LULL_ROLE_DP, policy, &comm),
                LULL_ERR_INVALID, word);
    CHECK(strstr(lull_last_error(), "character 10") != NULL && comm == NULL);
}

static void different(void) {
    lull_comm_t *comm = NULL;
    if (test_size == 1)
        return;
    int culprit = test_size - 1;
    char word[24];
    snprintf(word, sizeof word, "rank %d ", culprit);
    CHECK_FAILS(lull_comm_create(MPI_COMM_WORLD, LULL_ROLE_DP,
                                 test_rank == culprit ? "min=1" : "min=2",
                                 &comm),
                LULL_ERR_MISMATCH, word);
    CHECK(strstr(lull_last_error(), "min=2") != NULL);
    CHECK(strstr(lull_last_error(), "min=1") != NULL);
    CHECK_FAILS(
        lull_comm_create(MPI_COMM_WORLD,
                         test_rank == culprit ? LULL_ROLE_TP : LULL_ROLE_DP,
                         "none", &comm),
        LULL_ERR_MISMATCH, "role tp");
    CHECK(comm == NULL);
}

static void refused_at_creation(void) {
    lull_comm_t *comm = NULL;
    CHECK_FAILS(lull_comm_create(MPI_COMM_NULL, LULL_ROLE_DP, "none", &comm),
                LULL_ERR_INVALID, "MPI_COMM_NULL");
    CHECK_FAILS(lull_comm_create(MPI_COMM_WORLD, (lull_role_t)9, "none", &comm),
                LULL_ERR_INVALID, "9 is no role");
    if (test_size == 1)
        return;
    MPI_Comm half, inter;
    MPI_Comm_split(MPI_COMM_WORLD, test_rank == 0, 0, &half);
    MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, test_rank == 0 ? 1 : 0, 5,
                         &inter);
    CHECK_FAILS(lull_comm_create(inter, LULL_ROLE_DP, "none", &comm),
                LULL_ERR_UNSUPPORTED, "intercommunicator");
    MPI_Comm_free(&inter);
    MPI_Comm_free(&half);
}

static void refused_calls(void) {
    lull_comm_t *comm;
    lull_request_t *request = NULL;
    float x[4] = {0}, y[4];
    CHECK_OK(lull_comm_create(MPI_COMM_WORLD, LULL_ROLE_PP, "none", &comm));
    CHECK(lull_comm_rank(comm) == test_rank);
    CHECK(lull_comm_size(comm) == test_size);
    CHECK(lull_comm_role(comm) == LULL_ROLE_PP);
    CHECK(strcmp(lull_comm_policy(comm), "none") == 0);
    CHECK_FAILS(lull_recv(x, 1, LULL_F32, MPI_ANY_SOURCE, 0, comm),
                LULL_ERR_UNSUPPORTED, "MPI_ANY_SOURCE");
    CHECK_FAILS(lull_irecv(x, 1, LULL_F32, 0, MPI_ANY_TAG, comm, &request),
                LULL_ERR_UNSUPPORTED, "MPI_ANY_TAG");
    CHECK_FAILS(lull_send(x, 1, LULL_F32, 0, 32768, comm), LULL_ERR_INVALID,
                "tag 32768");
    CHECK_FAILS(lull_send(x, 1, LULL_F32, test_size, 0, comm), LULL_ERR_INVALID,
                "ranks");
    CHECK_FAILS(lull_bcast(x, 1, LULL_F32, -1, comm), LULL_ERR_INVALID,
                "root -1");
    CHECK_FAILS(lull_allreduce(x, y, 1, LULL_I16, LULL_SUM, comm),
                LULL_ERR_UNSUPPORTED, "I16");
    CHECK_FAILS(lull_allreduce(x, y, 1, LULL_I32, LULL_AVG, comm),
                LULL_ERR_UNSUPPORTED, "AVG");
    CHECK_FAILS(lull_allreduce(x, y, 1, LULL_F32, (lull_op_t)7, comm),
                LULL_ERR_UNSUPPORTED, "op 7");
    CHECK_FAILS(lull_allreduce(x, x, 1, LULL_F32, LULL_SUM, comm),
                LULL_ERR_INVALID, "LULL_IN_PLACE");
    CHECK_FAILS(lull_allreduce(NULL, x, 1, LULL_F32, LULL_SUM, comm),
                LULL_ERR_INVALID, "send buffer");
    CHECK_FAILS(lull_allreduce(x, NULL, 1, LULL_F32, LULL_SUM, comm),
                LULL_ERR_INVALID, "receive buffer");
    CHECK_FAILS(lull_allreduce(x, y, SIZE_MAX, LULL_F32, LULL_SUM, comm),
                LULL_ERR_INVALID, "too large");
    CHECK_FAILS(lull_allreduce(x, y, 1, LULL_F32, LULL_SUM, NULL),
                LULL_ERR_INVALID, "comm is NULL");
    CHECK_OK(lull_allreduce(NULL, NULL, 0, LULL_F32, LULL_SUM, comm));
    CHECK_OK(lull_send(x, 4, LULL_F32, MPI_PROC_NULL, 0, comm));
    CHECK_OK(lull_recv(x, 4, LULL_F32, MPI_PROC_NULL, 0, comm));
    CHECK_OK(lull_wait(&request));
    lull_comm_destroy(comm);
    CHECK_FAILS(lull_allreduce(x, y, 1, LULL_F32, LULL_SUM, comm),
                LULL_ERR_STATE, "destroyed");
    lull_comm_destroy(NULL);
}

static int handled;

static void handler(MPI_Comm *comm, int *error, ...) {
    (void)comm, (void)error;
    handled++;
}

/* Counts of both sides must agree: too long and too short are found. What MPI
 * itself finds is a status, and no business of the user's error handler. */
static void count_mismatch(void) {
    lull_comm_t *comm;
    MPI_Errhandler ours;
    MPI_Comm_create_errhandler(handler, &ours);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, ours);
    MPI_Errhandler_free(&ours);
    float x[4] = {0};
    if (test_size < 2)
        return;
    CHECK_OK(lull_comm_create(MPI_COMM_WORLD, LULL_ROLE_PP, "none", &comm));
    if (test_rank == 0) {
        CHECK_OK(lull_send(x, 2, LULL_F32, 1, 3, comm));
        CHECK_OK(lull_send(x, 4, LULL_F32, 1, 4, comm));
        CHECK_OK(lull_send(x, 4, LULL_F32, 1, 5, comm));
    } else if (test_rank == 1) {
        CHECK_FAILS(lull_recv(x, 4, LULL_F32, 0, 3, comm), LULL_ERR_MISMATCH,
                    "rank 0 sent 2");
        CHECK_FAILS(lull_recv(x, 2, LULL_F32, 0, 4, comm), LULL_ERR_MISMATCH,
                    "MPI_Recv");
        CHECK_OK(lull_recv(x, 4, LULL_F32, 0, 5, comm));
    }
    CHECK(handled == 0);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
    lull_comm_destroy(comm);
}

/* The user's communicator may go first; duplicates and splits are as good;
 * what is outstanding completes when a communicator is destroyed. */
static void lifetimes(void) {
    MPI_Comm split, twin;
    lull_comm_t *a, *b;
    lull_request_t *request = NULL, *stale;
    float one = 1, sum = 0;
    MPI_Comm_split(MPI_COMM_WORLD, test_rank % 2, test_rank, &split);
    CHECK_OK(lull_comm_create(split, LULL_ROLE_DP, "none", &a));
    MPI_Comm_free(&split);
    MPI_Comm_dup(MPI_COMM_WORLD, &twin);
    CHECK_OK(lull_comm_create(twin, LULL_ROLE_TP, "none", &b));
    MPI_Comm_free(&twin);
    CHECK_OK(lull_iallreduce(&one, &sum, 1, LULL_F32, LULL_SUM, b, &request));
    lull_comm_destroy(b);
    CHECK(sum == (float)test_size);
    stale = request;
    CHECK_OK(lull_wait(&request));
    CHECK(request == NULL);
    CHECK_FAILS(lull_wait(&stale), LULL_ERR_STATE, "not active");
    CHECK_OK(lull_allreduce(&one, &sum, 1, LULL_F32, LULL_SUM, a));
    CHECK(sum == (float)lull_comm_size(a));
    lull_comm_destroy(a);
}

int main(int argc, char **argv) {
    test_begin(&argc, &argv);
    malformed_on_one_rank();
    different();
    refused_at_creation();
    refused_calls();
    count_mismatch();
    lifetimes();
    /* One that the program forgot: MPI_Finalize frees its duplicate. */
    lull_comm_t *forgotten;
    float x = 0, y;
    CHECK_OK(
        lull_comm_create(MPI_COMM_WORLD, LULL_ROLE_OTHER, NULL, &forgotten));
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Finalize();
    lull_status_t status =
        lull_allreduce(&x, &y, 1, LULL_F32, LULL_SUM, forgotten);
    lull_comm_destroy(forgotten);
    return status == LULL_ERR_STATE ? 0 : 1;
}
