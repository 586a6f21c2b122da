/* Point 9: any call that waits moves all requests of the process on; messages
 * of one stream keep their order; many operations at once, on two threads. */
#include <pthread.h>
#include <unistd.h>

#include "comm/engine.h"
#include "support_mpi.h"

enum { N = 150000 };

static lull_comm_t *coded, *plain;

static float *values(size_t n, int rank) {
    float *x = malloc(n * 4);
    CHECK(x != NULL);
    for (size_t i = 0; i < n; i++)
        x[i] = (float)((i + (size_t)rank) % 9);
    return x;
}

static void check_sum(const float *got, size_t n) {
    for (size_t i = 0; i < n; i++) {
        float want = 0;
        for (int r = 0; r < test_size; r++)
            want += (float)((i + (size_t)r) % 9);
        if (got[i] != want)
            test_fail(__FILE__, __LINE__, "value %zu: %g, expected %g", i,
                      (double)got[i], (double)want);
    }
}

/* Rank 0 waits in another call, of `other`, until rank 1 has seen the
 * all-reduce complete: so that call must move the all-reduce on. */
static void waiting_moves_the_rest_on(lull_comm_t *other) {
    float *x = values(N, test_rank), *got = malloc(N * 4), token = 1;
    lull_request_t *request;
    if (test_size < 2)
        goto done;
    CHECK_OK(lull_iallreduce(x, got, N, LULL_F32, LULL_SUM, coded, &request));
    if (test_rank == 0)
        CHECK_OK(lull_recv(&token, 1, LULL_F32, 1, 0, other));
    CHECK_OK(lull_wait(&request));
    if (test_rank == 1)
        CHECK_OK(lull_send(&token, 1, LULL_F32, 0, 0, other));
    check_sum(got, N);
    CHECK_OK(lull_iallreduce(x, got, N, LULL_F32, LULL_SUM, coded, &request));
    if (test_rank == 0)
        CHECK_OK(lull_barrier(other));
    CHECK_OK(lull_wait(&request));
    if (test_rank != 0)
        CHECK_OK(lull_barrier(other));
    check_sum(got, N);
done:
    free(x), free(got);
}

/* Rank 1 comes to the making of a communicator when it has rank 0's message:
 * so rank 0, which is there already, must move that on. */
static void making_moves_the_rest_on(const char *policy) {
    float *x = values(N, 0), *got = malloc(N * 4);
    lull_request_t *request = NULL;
    lull_comm_t *made;
    if (test_rank == 0 && test_size > 1)
        CHECK_OK(lull_isend(x, N, LULL_F32, 1, 3, coded, &request));
    if (test_rank == 1)
        CHECK_OK(lull_recv(got, N, LULL_F32, 0, 3, coded));
    CHECK_OK(lull_comm_create(MPI_COMM_WORLD, LULL_ROLE_DP, policy, &made));
    CHECK_OK(lull_wait(&request));
    CHECK(test_rank != 1 || memcmp(got, x, N * 4) == 0);
    lull_comm_destroy(made);
    free(x), free(got);
}

/* lull_comm_progress alone completes it. */
static void progress_alone(void) {
    float *x = values(N, test_rank), *got = malloc(N * 4);
    lull_request_t *request;
    int done = 0;
    CHECK_OK(lull_iallreduce(x, got, N, LULL_F32, LULL_SUM, coded, &request));
    for (int i = 0; lull__engine_active != 0; i++) {
        CHECK_OK(lull_comm_progress());
        if (i % 64 == 0)
            usleep(100);
    }
    CHECK_OK(lull_test(&request, &done));
    CHECK(done && request == NULL);
    check_sum(got, N);
    free(x), free(got);
}

/* Chunks of two messages of one stream do not mix; streams of two tags do not
 * wait for each other. */
static void order_of_messages(void) {
    enum { A = 100000, B = 70000, C = 5 };
    lull_request_t *requests[4] = {NULL, NULL, NULL, NULL};
    float *x = values(A, 0), *y = values(B, 1), z[C] = {1, 2, 3, 4, 5};
    float *a = malloc(A * 4), *b = malloc(B * 4), c[C], *d = malloc(A * 4);
    if (test_rank == 0 && test_size > 1) {
        CHECK_OK(lull_isend(x, A, LULL_F32, 1, 7, coded, &requests[0]));
        CHECK_OK(lull_isend(y, B, LULL_F32, 1, 7, coded, &requests[1]));
        CHECK_OK(lull_isend(z, C, LULL_F32, 1, 7, coded, &requests[2]));
        CHECK_OK(lull_isend(x, A, LULL_F32, 1, 8, coded, &requests[3]));
        CHECK_OK(lull_waitall(4, requests));
    } else if (test_rank == 1) {
        CHECK_OK(lull_recv(d, A, LULL_F32, 0, 8, coded));
        CHECK_OK(lull_irecv(a, A, LULL_F32, 0, 7, coded, &requests[0]));
        CHECK_OK(lull_irecv(b, B, LULL_F32, 0, 7, coded, &requests[1]));
        CHECK_OK(lull_irecv(c, C, LULL_F32, 0, 7, coded, &requests[2]));
        CHECK_OK(lull_wait(&requests[2]));
        CHECK_OK(lull_waitall(3, requests));
        CHECK(memcmp(a, x, A * 4) == 0 && memcmp(b, y, B * 4) == 0);
        CHECK(memcmp(c, z, sizeof z) == 0 && memcmp(d, x, A * 4) == 0);
    }
    free(x), free(y), free(a), free(b), free(d);
}

/* Many collectives and messages at once, waited for in another order, on two
 * communicators whose operations begin in another order on odd ranks. */
static void many_at_once(void) {
    enum { MANY = 12, SIZE = 40000 };
    lull_comm_t *other;
    lull_request_t *a[MANY], *b[MANY], *s[2];
    float *x = values(SIZE, test_rank), *got[2 * MANY + 1];
    int next = (test_rank + 1) % test_size;
    int before = (test_rank + test_size - 1) % test_size;
    CHECK_OK(
        lull_comm_create(MPI_COMM_WORLD, LULL_ROLE_TP, "mpc;min=0", &other));
    for (int i = 0; i <= 2 * MANY; i++)
        CHECK((got[i] = malloc(SIZE * 4)) != NULL);
    for (int i = 0; i < MANY; i++) {
        lull_comm_t *first = test_rank % 2 ? other : coded;
        lull_comm_t *second = test_rank % 2 ? coded : other;
        float *one = got[test_rank % 2 ? MANY + i : i];
        float *two = got[test_rank % 2 ? i : MANY + i];
        CHECK_OK(
            lull_iallreduce(x, one, SIZE, LULL_F32, LULL_SUM, first, &a[i]));
        if (i == 3) {
            CHECK_OK(lull_irecv(got[2 * MANY], SIZE, LULL_F32, before, 1, coded,
                                &s[0]));
            CHECK_OK(lull_isend(x, SIZE, LULL_F32, next, 1, coded, &s[1]));
        }
        CHECK_OK(
            lull_iallreduce(x, two, SIZE, LULL_F32, LULL_SUM, second, &b[i]));
    }
    for (int i = MANY - 1; i >= 0; i--) {
        CHECK_OK(lull_wait(&b[i]));
        CHECK_OK(lull_wait(&a[i]));
    }
    CHECK_OK(lull_waitall(2, s));
    for (int i = 0; i < 2 * MANY; i++)
        check_sum(got[i], SIZE);
    for (int i = 0; i < SIZE; i++)
        CHECK(got[2 * MANY][i] == (float)((i + before) % 9));
    lull_comm_destroy(other);
    for (int i = 0; i <= 2 * MANY; i++)
        free(got[i]);
    free(x);
}

/* One forward, one backward over the ranks as stages, one of them slow. */
static void one_forward_one_backward(void) {
    enum { MICRO = 8, SIZE = 50000 };
    bool first = test_rank == 0, last = test_rank == test_size - 1;
    int warm = test_size - 1 - test_rank;
    lull_request_t *sends[2 * MICRO] = {NULL};
    float *act[MICRO], *grad[MICRO];
    warm = warm < MICRO ? warm : MICRO;
    for (int m = 0; m < MICRO; m++)
        act[m] = values(SIZE, m), grad[m] = values(SIZE, m);
    for (int i = 0; i < MICRO + warm; i++) {
        int f = i, b = i - warm;
        if (f < MICRO) {
            if (!first)
                CHECK_OK(
                    lull_recv(act[f], SIZE, LULL_F32, test_rank - 1, 0, coded));
            if (test_rank == test_size / 2)
                usleep(3000);
            if (!last)
                CHECK_OK(lull_isend(act[f], SIZE, LULL_F32, test_rank + 1, 0,
                                    coded, &sends[f]));
        }
        if (b < 0)
            continue;
        if (!last)
            CHECK_OK(
                lull_recv(grad[b], SIZE, LULL_F32, test_rank + 1, 1, coded));
        CHECK(grad[b][0] == (float)b);
        if (!first)
            CHECK_OK(lull_isend(grad[b], SIZE, LULL_F32, test_rank - 1, 1,
                                coded, &sends[MICRO + b]));
    }
    CHECK_OK(lull_waitall(2 * MICRO, sends));
    for (int m = 0; m < MICRO; m++)
        free(act[m]), free(grad[m]);
}

/* ---- Threads ----------------------------------------------------------- */

static void *thread_main(void *arg) {
    lull_comm_t *comm = arg;
    float *x = values(N, test_rank), *got = malloc(N * 4);
    for (int i = 0; i < 5; i++) {
        lull_request_t *request;
        CHECK_OK(
            lull_iallreduce(x, got, N, LULL_F32, LULL_SUM, comm, &request));
        CHECK_OK(lull_wait(&request));
        check_sum(got, N);
        CHECK_OK(lull_allreduce(x, got, 100, LULL_F32, LULL_SUM, comm));
        check_sum(got, 100);
    }
    free(x), free(got);
    return NULL;
}

static void two_threads(void) {
    int level;
    lull_comm_t *comms[2];
    pthread_t threads[2];
    MPI_Query_thread(&level);
    if (level < MPI_THREAD_MULTIPLE) {
        if (test_rank == 0)
            printf("skipped: two threads: MPI grants no "
                   "MPI_THREAD_MULTIPLE\n");
        return;
    }
    for (int i = 0; i < 2; i++)
        CHECK_OK(lull_comm_create(MPI_COMM_WORLD, LULL_ROLE_DP,
                                  i ? "mpc;min=1000" : "raw;min=1000",
                                  &comms[i]));
    for (int i = 0; i < 2; i++)
        CHECK(pthread_create(&threads[i], NULL, thread_main, comms[i]) == 0);
    for (int i = 0; i < 2; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
    for (int i = 0; i < 2; i++)
        lull_comm_destroy(comms[i]);
}

/* Memory does not grow with the message: at most three chunks a peer, whatever
 * the call, in place or not. */
static void memory_of(const char *policy) {
    size_t n = 1 << 19, part = n / (size_t)test_size;
    static const lull_dtype_t dtypes[] = {LULL_F32, LULL_F64, LULL_BF16};
    double *x = calloc(n, 8), *got = calloc(n, 8);
    lull_request_t *requests[2];
    lull_comm_t *comm;
    int next = (test_rank + 1) % test_size;
    int before = (test_rank + test_size - 1) % test_size;
    CHECK_OK(lull_comm_create(MPI_COMM_WORLD, LULL_ROLE_DP, policy, &comm));
    for (unsigned i = 0; i < 12; i++) {
        lull_dtype_t dtype = dtypes[i % 3];
        lull_op_t op = i / 3 % 2 ? LULL_AVG : LULL_SUM;
        const void *from = i / 6 ? LULL_IN_PLACE : x;
        CHECK_OK(lull_allreduce(from, got, n, dtype, op, comm));
        CHECK_OK(lull_reduce_scatter_block(from, got, part, dtype, op, comm));
        CHECK_OK(lull_allgather(x, got, part, dtype, comm));
    }
    CHECK_OK(lull_allreduce(x, got, n, LULL_BF16, LULL_MAX, comm));
    CHECK_OK(lull_bcast(x, n, LULL_F32, 0, comm));
    CHECK_OK(lull_irecv(got, n, LULL_F32, before, 0, comm, &requests[0]));
    CHECK_OK(lull_isend(x, n, LULL_F32, next, 0, comm, &requests[1]));
    CHECK_OK(lull_waitall(2, requests));
    size_t most = 3 * ((size_t)test_size - 1);
    if (comm->engine->owned_count > most)
        test_fail(__FILE__, __LINE__, "%s: %zu slots", policy,
                  comm->engine->owned_count);
    CHECK(comm->engine->slot_bytes <= LULL__CHUNK_BYTES + 1024);
    lull_comm_destroy(comm);
    free(x), free(got);
}

static void memory_stays(void) {
    static const char *const policies[] = {"zfp:8", "zfp:16", "mpc", "mxint8",
                                           "raw"};
    for (unsigned i = 0; i < 5 && test_size > 1; i++)
        memory_of(policies[i]);
}

int main(int argc, char **argv) {
    test_begin(&argc, &argv);
    CHECK_OK(
        lull_comm_create(MPI_COMM_WORLD, LULL_ROLE_PP, "mpc;min=0", &coded));
    CHECK_OK(lull_comm_create(MPI_COMM_WORLD, LULL_ROLE_OTHER, "mpc", &plain));
    waiting_moves_the_rest_on(plain);
    waiting_moves_the_rest_on(coded);
    making_moves_the_rest_on("none");
    making_moves_the_rest_on("zfp:8");
    progress_alone();
    order_of_messages();
    many_at_once();
    one_forward_one_backward();
    memory_stays();
    two_threads();
    /* What is outstanding completes when its communicator goes. */
    lull_request_t *request;
    float *x = values(N, test_rank), *got = malloc(N * 4);
    CHECK_OK(lull_iallreduce(x, got, N, LULL_F32, LULL_SUM, coded, &request));
    lull_comm_destroy(coded);
    check_sum(got, N);
    CHECK_OK(lull_wait(&request));
    lull_comm_destroy(plain);
    free(x), free(got);
    return test_end();
}
