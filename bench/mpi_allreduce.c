/* All-reduce of lull under each policy against MPI's own in the same run:
 * alternating calls, medians.
 *
 *     mpi_allreduce [--sizes 1KiB,16MiB] [--policies none,zfp:8] [--reps N]
 *                   [--json FILE]
 *
 * The time of a call is that of its slowest rank. `rel_l2` is against MPI's
 * own result. Hosts are counted by name. */
#include <lull/comm.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int rank, size, hosts;
static FILE *json;
static int rows;

static void die(const char *what, const char *why) {
    if (rank == 0)
        fprintf(stderr, "mpi_allreduce: %s: %s\n", what, why);
    MPI_Finalize();
    exit(2);
}

static void check(lull_status_t status, const char *what) {
    if (status == LULL_OK)
        return;
    fprintf(stderr, "mpi_allreduce: rank %d: %s: %s\n", rank, what,
            lull_last_error());
    MPI_Abort(MPI_COMM_WORLD, 1);
}

/* Gradients are heavy-tailed: a Gaussian whose scale varies. */
static void fill(float *x, size_t n) {
    unsigned long long state = 88172645463325252ull + (unsigned)rank * 77777;
    double scale = 1;
    for (size_t i = 0; i < n; i++) {
        double sum = 0;
        for (int k = 0; k < 4; k++) {
            state ^= state << 13, state ^= state >> 7, state ^= state << 17;
            sum += (double)(state >> 40) * 0x1p-24 - 0.5;
        }
        if (i % 512 == 0)
            scale = exp(6 * ((double)(state >> 40) * 0x1p-24 - 0.5));
        x[i] = (float)(1e-3 * scale * sum);
    }
}

static size_t parse_size(const char *text) {
    char *end;
    double value = strtod(text, &end);
    if (strncmp(end, "KiB", 3) == 0)
        value *= 1024;
    else if (strncmp(end, "MiB", 3) == 0)
        value *= 1048576;
    else if (*end != '\0')
        die(text, "a size such as 16MiB was expected");
    if (value < 4)
        die(text, "a size of at least 4 bytes was expected");
    return (size_t)value;
}

static int compare(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

typedef struct times {
    double *all;
    double median, least, most;
} times_t;

static void settle(times_t *t, int reps) {
    MPI_Allreduce(MPI_IN_PLACE, t->all, reps, MPI_DOUBLE, MPI_MAX,
                  MPI_COMM_WORLD);
    qsort(t->all, (size_t)reps, sizeof *t->all, compare);
    t->median = t->all[reps / 2];
    t->least = t->all[0];
    t->most = t->all[reps - 1];
}

static double rel_l2(const float *got, const float *want, size_t n) {
    double error = 0, norm = 0;
    for (size_t i = 0; i < n; i++) {
        double d = (double)got[i] - (double)want[i];
        error += d * d;
        norm += (double)want[i] * (double)want[i];
    }
    return norm > 0 ? sqrt(error / norm) : 0;
}

static void emit(const char *name, const times_t *ours, const times_t *mpi,
                 int reps, double error) {
    if (rank != 0)
        return;
    printf("%-24s %10.3f ms  MPI %10.3f ms  ratio %6.3f  rel_l2 %.2e\n", name,
           1e3 * ours->median, 1e3 * mpi->median, mpi->median / ours->median,
           error);
    fflush(stdout);
    if (json == NULL)
        return;
    fprintf(json,
            "%s{\"bench\":\"allreduce\",\"case\":\"%s\",\"metric\":"
            "\"time_ms\",\"unit\":\"ms\",\"value\":%.6g,\"min\":%.6g,"
            "\"max\":%.6g,\"n\":%d,\"baseline\":\"MPI_Allreduce\","
            "\"baseline_value\":%.6g,\"ratio\":%.4g}",
            rows++ ? ",\n" : "[", name, 1e3 * ours->median, 1e3 * ours->least,
            1e3 * ours->most, reps, 1e3 * mpi->median,
            mpi->median / ours->median);
    fprintf(json,
            ",\n{\"bench\":\"allreduce\",\"case\":\"%s\",\"metric\":"
            "\"rel_l2\",\"unit\":\"1\",\"value\":%.6g,\"n\":1}",
            name, error);
}

static void measure(const char *label, const char *policy, size_t bytes,
                    int reps) {
    size_t n = bytes / 4;
    float *x = malloc(bytes), *ours_out = malloc(bytes),
          *mpi_out = malloc(bytes);
    times_t ours = {malloc((size_t)reps * 8), 0, 0, 0};
    times_t mpi = {malloc((size_t)reps * 8), 0, 0, 0};
    lull_comm_t *comm;
    char name[96];
    if (!x || !ours_out || !mpi_out || !ours.all || !mpi.all)
        die(label, "out of memory");
    check(lull_comm_create(MPI_COMM_WORLD, LULL_ROLE_DP, policy, &comm),
          policy);
    fill(x, n);
    for (int i = -2; i < reps; i++) {
        MPI_Barrier(MPI_COMM_WORLD);
        double start = MPI_Wtime();
        MPI_Allreduce(x, mpi_out, (int)n, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
        if (i >= 0)
            mpi.all[i] = MPI_Wtime() - start;
        MPI_Barrier(MPI_COMM_WORLD);
        start = MPI_Wtime();
        check(lull_allreduce(x, ours_out, n, LULL_F32, LULL_SUM, comm), policy);
        if (i >= 0)
            ours.all[i] = MPI_Wtime() - start;
    }
    settle(&ours, reps);
    settle(&mpi, reps);
    snprintf(name, sizeof name, "%s/%s/%d", label, policy, hosts);
    emit(name, &ours, &mpi, reps, rel_l2(ours_out, mpi_out, n));
    lull_comm_destroy(comm);
    free(x), free(ours_out), free(mpi_out), free(ours.all), free(mpi.all);
}

static int count_hosts(void) {
    char mine[MPI_MAX_PROCESSOR_NAME] = {0};
    int length, different = 0;
    MPI_Get_processor_name(mine, &length);
    char *all = malloc((size_t)size * sizeof mine);
    MPI_Allgather(mine, sizeof mine, MPI_CHAR, all, sizeof mine, MPI_CHAR,
                  MPI_COMM_WORLD);
    for (int i = 0; i < size; i++) {
        int k = 0;
        while (k < i && strcmp(all + (size_t)k * sizeof mine,
                               all + (size_t)i * sizeof mine) != 0)
            k++;
        different += k == i;
    }
    free(all);
    return different;
}

/* Small messages are quick and noisy: more of them. */
static int reps_for(size_t bytes, int given) {
    if (given > 0)
        return given;
    return bytes < 65536 ? 1001 : bytes < 4 << 20 ? 101 : 9;
}

int main(int argc, char **argv) {
    const char *sizes = "1KiB,64KiB,1MiB,16MiB,64MiB";
    const char *policies = "none,raw,mpc,bf16,zfp:8,zfp:16,mxint8";
    const char *file = NULL;
    int reps = 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    for (int i = 1; i < argc; i += 2) {
        if (i + 1 == argc)
            die(argv[i], "needs a value");
        if (strcmp(argv[i], "--sizes") == 0)
            sizes = argv[i + 1];
        else if (strcmp(argv[i], "--policies") == 0)
            policies = argv[i + 1];
        else if (strcmp(argv[i], "--reps") == 0)
            reps = atoi(argv[i + 1]);
        else if (strcmp(argv[i], "--json") == 0)
            file = argv[i + 1];
        else
            die(argv[i], "no such option");
    }
    hosts = count_hosts();
    if (rank == 0 && file != NULL && (json = fopen(file, "w")) == NULL)
        die(file, "cannot be written");
    char *s, *size_list = strdup(sizes);
    for (char *a = strtok_r(size_list, ",", &s); a != NULL;
         a = strtok_r(NULL, ",", &s)) {
        char *p, *policy_list = strdup(policies);
        size_t bytes = parse_size(a);
        for (char *b = strtok_r(policy_list, ",", &p); b != NULL;
             b = strtok_r(NULL, ",", &p))
            measure(a, b, bytes, reps_for(bytes, reps));
        free(policy_list);
    }
    free(size_list);
    if (json != NULL) {
        fprintf(json, "%s]\n", rows ? "" : "[");
        fclose(json);
    }
    MPI_Finalize();
    return 0;
}
