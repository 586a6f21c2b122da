/* The policy auto on a communicator: all ranks hold the same one, nothing is
 * left to measure, what is lossy was listed, and its string makes the same
 * communicator again. What follows from figures is in test_policy.c. */
#include "comm/auto.h"
#include "support_mpi.h"

static void same_everywhere(const char *text) {
    char first[LULL_POLICY_MAX] = "";
    snprintf(first, sizeof first, "%s", text);
    MPI_Bcast(first, sizeof first, MPI_CHAR, 0, MPI_COMM_WORLD);
    if (strcmp(first, text) != 0)
        test_fail(__FILE__, __LINE__, "'%s', rank 0 has '%s'", text, first);
}

static void works(lull_comm_t *comm) {
    enum { N = 200000 };
    float *x = malloc(N * 4), *y = malloc(N * 4),
          far = 8 + 4 * (float)test_size;
    for (size_t n = 5; n <= N; n *= 50) {
        test_fill(x, n, LULL_F32, test_rank, 7, true);
        CHECK_OK(lull_allreduce(x, y, n, LULL_F32, LULL_SUM, comm));
        float *want = malloc(n * 4);
        test_model(want, n, LULL_F32, LULL_SUM, test_size, 7);
        for (size_t i = 0; i < n; i++)
            CHECK(y[i] > want[i] - far && y[i] < want[i] + far);
        free(want);
    }
    free(x), free(y);
}

static void resolved(lull_role_t role, const char *policy) {
    lull_comm_t *comm, *again;
    char whole[LULL_POLICY_MAX];
    CHECK_OK(lull_comm_create(MPI_COMM_WORLD, role, policy, &comm));
    const char *rules = lull_comm_policy(comm);
    same_everywhere(rules);
    CHECK(strstr(rules, "auto") == NULL);
    static const char *const lossy[] = {"zfp", "mxint8"};
    for (unsigned i = 0; i < 2; i++)
        if (strstr(policy, lossy[i]) == NULL || role == LULL_ROLE_PARAM)
            CHECK(strstr(rules, lossy[i]) == NULL);
    if (role == LULL_ROLE_OTHER || test_size == 1)
        CHECK(strcmp(rules, "none") == 0);
    works(comm);
    if (role != LULL_ROLE_OTHER) {
        CHECK_OK(lull_policy_replace(policy, role, rules, whole, sizeof whole));
        CHECK(!lull_policy_is_auto(whole, role));
        CHECK_OK(lull_comm_create(MPI_COMM_WORLD, role, whole, &again));
        CHECK(strcmp(lull_comm_policy(again), rules) == 0);
        lull_comm_destroy(again);
    }
    lull_comm_destroy(comm);
}

/* Ranks that ask for different things hear so before anything is measured. */
static void asked_differently(void) {
    lull_comm_t *comm = NULL;
    if (test_size == 1)
        return;
    CHECK_FAILS(lull_comm_create(MPI_COMM_WORLD, LULL_ROLE_DP,
                                 test_rank == 1 ? "auto:zfp:8" : "auto", &comm),
                LULL_ERR_MISMATCH, "auto:zfp:8");
    CHECK(comm == NULL);
}

/* What each message of a policy by size and dtype travels in. */
static void by_size(void) {
    lull_comm_t *comm;
    lull_comm_stats_t s = {.size = sizeof s};
    CHECK_OK(lull_comm_create(MPI_COMM_WORLD, LULL_ROLE_DP,
                              "dp=none,4KiB/f32:mpc,8KiB:zfp:8;min=0", &comm));
    lull__coding_t a = lull__choose(comm, LULL_F32, 4095),
                   b = lull__choose(comm, LULL_F32, 4096),
                   c = lull__choose(comm, LULL_BF16, 8191),
                   d = lull__choose(comm, LULL_BF16, 8192);
    CHECK(a.none && !b.none && !b.lossy && c.none && !d.none && d.lossy);
    CHECK(b.step == 8192 && d.step == 32768);
    works(comm);
    CHECK_OK(lull_comm_stats(comm, &s));
    CHECK(s.calls == 3);
    if (test_size > 1)
        CHECK(s.bypasses[LULL_BYPASS_POLICY] == 2);
    lull_comm_destroy(comm);
}

int main(int argc, char **argv) {
    test_begin(&argc, &argv);
    by_size();
    asked_differently();
    resolved(LULL_ROLE_DP, "auto:zfp:8");
    resolved(LULL_ROLE_TP, "auto;min=0");
    resolved(LULL_ROLE_PP, "auto:mxint8");
    resolved(LULL_ROLE_PARAM, "auto:zfp:8");
    resolved(LULL_ROLE_OTHER, "auto:zfp:8");
    return test_end();
}
