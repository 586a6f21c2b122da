/* Logistic regression, its samples spread over MPI ranks, whose gradients are
 * averaged under a policy: "none", "zfp:8", "mpc", "zhybrid", ... (comm.h).
 *
 *     mpirun -np 4 ./logistic zfp:8 */
#include <lull/comm.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { FEATURES = 16384, SAMPLES = 256, STEPS = 50 };

static float *data, labels[SAMPLES];
static float weights[FEATURES], gradient[FEATURES];

static void check(lull_status_t status) {
    if (status == LULL_OK)
        return;
    fprintf(stderr, "logistic: %s\n", lull_last_error());
    MPI_Abort(MPI_COMM_WORLD, 1);
}

/* From -1 to 1, the same for the same number on every rank. */
static float noise(unsigned long n) {
    n = (n ^ n >> 31) * 0x9e3779b97f4a7c15;
    n = (n ^ n >> 29) * 0xbf58476d1ce4e5b9;
    return (float)((n ^ n >> 32) >> 40) / (1 << 23) - 1;
}

/* The samples of this rank, labelled by a hidden plane. */
static void make_data(int first, int count) {
    data = malloc((size_t)count * FEATURES * sizeof *data);
    if (data == NULL)
        MPI_Abort(MPI_COMM_WORLD, 1);
    for (int s = 0; s < count; s++) {
        float side = 0;
        for (int f = 0; f < FEATURES; f++) {
            float x = noise((first + s) * (unsigned long)FEATURES + f + 1);
            data[(size_t)s * FEATURES + f] = x;
            side += x * noise(~(unsigned long)f);
        }
        labels[s] = side > 0;
    }
}

/* This rank's part of the mean loss, and of its gradient. */
static double loss_and_gradient(int count) {
    double loss = 0;
    for (int f = 0; f < FEATURES; f++)
        gradient[f] = 0;
    for (int s = 0; s < count; s++) {
        const float *x = data + (size_t)s * FEATURES;
        double z = 0;
        for (int f = 0; f < FEATURES; f++)
            z += x[f] * weights[f];
        double p = 1 / (1 + exp(-z));
        loss += log1p(exp(labels[s] > 0 ? -z : z)) / SAMPLES;
        for (int f = 0; f < FEATURES; f++)
            gradient[f] += (float)(p - labels[s]) * x[f] / SAMPLES;
    }
    return loss;
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    int rank, ranks;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    const char *policy = argc > 1 ? argv[1] : "zfp:8";
    lull_comm_t *gradients, *other; /* one communicator for each role */
    check(lull_comm_create(MPI_COMM_WORLD, LULL_ROLE_DP, policy, &gradients));
    check(lull_comm_create(MPI_COMM_WORLD, LULL_ROLE_OTHER, policy, &other));

    int first = SAMPLES * rank / ranks;
    int count = SAMPLES * (rank + 1) / ranks - first;
    make_data(first, count);
    for (int step = 0; step <= STEPS; step++) {
        double loss = loss_and_gradient(count);
        check(lull_allreduce(LULL_IN_PLACE, gradient, FEATURES, LULL_F32,
                             LULL_SUM, gradients));
        check(lull_allreduce(LULL_IN_PLACE, &loss, 1, LULL_F64, LULL_SUM,
                             other)); /* never compressed */
        if (rank == 0 && step % 10 == 0)
            printf("step %2d: loss %.4f\n", step, loss);
        for (int f = 0; f < FEATURES; f++)
            weights[f] -= 0.01f * gradient[f];
    }

    lull_comm_stats_t stats = {.size = sizeof stats};
    check(lull_comm_stats(gradients, &stats));
    uint64_t bytes[2] = {stats.bytes, stats.wire_bytes};
    MPI_Allreduce(MPI_IN_PLACE, bytes, 2, MPI_UINT64_T, MPI_SUM,
                  MPI_COMM_WORLD);
    if (rank == 0)
        printf("gradients: %.2f MB on the wire under %s instead of %.2f MB\n",
               bytes[1] / 1e6, lull_comm_policy(gradients), bytes[0] / 1e6);
    lull_comm_destroy(other);
    lull_comm_destroy(gradients);
    free(data);
    return MPI_Finalize();
}
