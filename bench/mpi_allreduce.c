/* All-reduce of lull under each policy, and of MPI by each of its algorithms,
 * against MPI's own as it was started, in the same run: A B C A B C, medians.
 *
 *     mpi_allreduce [--sizes 1KiB,16MiB] [--policies none,zfp:8@avx2,...]
 *                   [--bf16 expo,raw] [--algorithms 1,2,3] [--reps N]
 *                   [--data FILE.safetensors] [--json FILE]
 *
 * Lists of policies are separated by spaces where a policy has a comma. A
 * policy may end in @ISA. Values are those of the file's float32 tensors, each
 * rank's from another place on; else synthetic. --bf16: the same rounded to
 * bf16, against MPI's own call for as many bytes, since it has no bf16. The
 * time of a call is that of its slowest rank. rel_l2 is of the first 256 Ki
 * values, against sums in float64; its baseline is MPI's own sum in float32.
 * Hosts are counted by name. */
#include <lull/comm.h>
#include <lull/lull.h>
#include <lull/safetensors.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MOST = 24, SAMPLE = 1 << 18 };

/* One of those that take turns. */
typedef struct runner {
    char label[96], isa[16];
    bool bf16;
    lull_comm_t *comm; /* NULL: MPI's own on `native` */
    MPI_Comm native;
    double *times;
    double median, least, most, rel_l2;
} runner_t;

static int rank, size, hosts, rows;
static FILE *json;
static runner_t runners[MOST];
static int count;
static float *gradients; /* of a file */
static size_t gradient_count;

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

/* ---- Values ------------------------------------------------------------- */

/* Heavy-tailed: a bell whose scale varies. */
static void fill_synthetic(float *x, size_t n) {
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

static void fill(float *x, size_t n) {
    if (gradient_count == 0) {
        fill_synthetic(x, n);
        return;
    }
    size_t at = gradient_count / (size_t)size * (size_t)rank;
    for (size_t i = 0; i < n; i++, at = at + 1 < gradient_count ? at + 1 : 0)
        x[i] = gradients[at];
}

static uint16_t to_bf16(float x) {
    uint32_t bits;
    memcpy(&bits, &x, 4);
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

static float from_bf16(uint16_t half) {
    uint32_t bits = (uint32_t)half << 16;
    float x;
    memcpy(&x, &bits, 4);
    return x;
}

static void load(const char *path) {
    lull_safetensors_t *file;
    lull_safetensors_tensor_t t;
    check(lull_safetensors_open(path, &file), path);
    for (size_t i = 0; lull_safetensors_at(file, i, &t); i++) {
        if (t.dtype != LULL_F32)
            continue;
        gradients = realloc(gradients, gradient_count * 4 + t.bytes + 4);
        if (gradients == NULL)
            die(path, "out of memory");
        check(lull_safetensors_read(file, t.name, 0, t.bytes,
                                    gradients + gradient_count),
              path);
        gradient_count += t.bytes / 4;
    }
    lull_safetensors_destroy(file);
    if (gradient_count == 0)
        die(path, "it has no float32 tensors");
}

/* ---- Those that take turns ---------------------------------------------- */

static runner_t *add(const char *label) {
    if (count == MOST)
        die(label, "too many of them");
    runner_t *r = &runners[count++];
    snprintf(r->label, sizeof r->label, "%s", label);
    r->native = MPI_COMM_WORLD;
    return r;
}

static void add_policy(const char *text, bool bf16) {
    char policy[96];
    snprintf(policy, sizeof policy, "%s", text);
    char *at = strchr(policy, '@');
    runner_t *r = add(text);
    if (bf16)
        snprintf(r->label, sizeof r->label, "bf16:%.80s", text);
    r->bf16 = bf16;
    if (at != NULL) {
        *at = '\0';
        snprintf(r->isa, sizeof r->isa, "%.15s", at + 1);
    }
    check(lull_comm_create(MPI_COMM_WORLD, LULL_ROLE_DP, policy, &r->comm),
          text);
    if (rank == 0 && strncmp(policy, "auto", 4) == 0)
        printf("%s: measured: %s\n", policy, lull_comm_policy(r->comm));
}

static MPI_T_cvar_handle algorithm_handle;
static int started_with;

/* Open MPI reads the algorithm when a communicator is made; false: this MPI
 * cannot be told. */
static bool find_algorithm(void) {
    static bool looked, found;
    int level, index, n;
    if (!looked && MPI_T_init_thread(MPI_THREAD_SINGLE, &level) == MPI_SUCCESS)
        found = MPI_T_cvar_get_index("coll_tuned_allreduce_algorithm",
                                     &index) == MPI_SUCCESS &&
                MPI_T_cvar_handle_alloc(index, NULL, &algorithm_handle, &n) ==
                    MPI_SUCCESS &&
                MPI_T_cvar_read(algorithm_handle, &started_with) == MPI_SUCCESS;
    looked = true;
    return found;
}

static void add_algorithm(const char *text) {
    char label[32];
    snprintf(label, sizeof label, "mpi:%.20s", text);
    int algorithm = atoi(text);
    if (!find_algorithm() ||
        MPI_T_cvar_write(algorithm_handle, &algorithm) != MPI_SUCCESS) {
        if (rank == 0)
            printf("%s: this MPI cannot be told which algorithm\n", label);
        return;
    }
    runner_t *r = add(label);
    MPI_Comm_dup(MPI_COMM_WORLD, &r->native);
    MPI_T_cvar_write(algorithm_handle, &started_with);
}

static void add_list(const char *list, void (*one)(const char *)) {
    char *s, *copy = strdup(list);
    const char *by = strchr(list, ' ') != NULL ? " " : ",";
    for (char *a = strtok_r(copy, by, &s); a != NULL;
         a = strtok_r(NULL, by, &s))
        one(a);
    free(copy);
}

static void add_f32(const char *policy) {
    add_policy(policy, false);
}

static void add_bf16(const char *policy) {
    add_policy(policy, true);
}

/* ---- Measuring ---------------------------------------------------------- */

typedef struct values {
    float *f32;
    uint16_t *bf16;
    float *out;
    size_t bytes;
    bool in_turn; /* bf16 ones are among them */
} values_t;

/* A shaped link lets what follows a pause go at once (its burst): each call
 * begins after one, or who comes after a large sender would pay for it. */
static void rest(size_t bytes) {
    long ns = (long)(bytes < 131072 ? 16 * bytes : 2097152);
    nanosleep(&(struct timespec){.tv_nsec = ns}, NULL);
}

static double one_call(const runner_t *r, const values_t *v) {
    MPI_Barrier(MPI_COMM_WORLD);
    rest(v->bytes);
    MPI_Barrier(MPI_COMM_WORLD);
    double start = MPI_Wtime();
    if (r->comm == NULL)
        MPI_Allreduce(v->f32, v->out, (int)(v->bytes / 4), MPI_FLOAT, MPI_SUM,
                      r->native);
    else if (r->bf16)
        check(lull_allreduce(v->bf16, v->out, v->bytes / 2, LULL_BF16, LULL_SUM,
                             r->comm),
              r->label);
    else
        check(lull_allreduce(v->f32, v->out, v->bytes / 4, LULL_F32, LULL_SUM,
                             r->comm),
              r->label);
    return MPI_Wtime() - start;
}

static double turn(const runner_t *r, const values_t *v) {
    if (r->isa[0] != '\0')
        check(lull_setting_set("isa", r->isa), r->isa);
    double took = one_call(r, v);
    if (r->isa[0] != '\0')
        check(lull_setting_set("isa", "auto"), "isa");
    return took;
}

static double error_of(const runner_t *r, const values_t *v,
                       const double *exact) {
    double error = 0, norm = 0;
    size_t n = v->bytes / (r->bf16 ? 2 : 4);
    for (size_t i = 0; i < n && i < SAMPLE; i++) {
        double got = r->bf16 ? (double)from_bf16(((uint16_t *)v->out)[i])
                             : (double)v->out[i];
        error += (got - exact[i]) * (got - exact[i]);
        norm += exact[i] * exact[i];
    }
    return norm > 0 ? sqrt(error / norm) : 0;
}

/* What the values of a type really add up to. */
static void sum_exactly(const values_t *v, bool bf16, double *exact) {
    size_t n = v->bytes / (bf16 ? 2 : 4);
    n = n < SAMPLE ? n : SAMPLE;
    for (size_t i = 0; i < n; i++)
        exact[i] = bf16 ? (double)from_bf16(v->bf16[i]) : (double)v->f32[i];
    MPI_Allreduce(MPI_IN_PLACE, exact, (int)n, MPI_DOUBLE, MPI_SUM,
                  MPI_COMM_WORLD);
}

static int compare(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static void settle(runner_t *r, int reps) {
    MPI_Allreduce(MPI_IN_PLACE, r->times, reps, MPI_DOUBLE, MPI_MAX,
                  MPI_COMM_WORLD);
    qsort(r->times, (size_t)reps, sizeof *r->times, compare);
    r->median = r->times[reps / 2];
    r->least = r->times[0];
    r->most = r->times[reps - 1];
}

static void emit(const char *label, const runner_t *r, int reps) {
    const runner_t *mpi = &runners[0];
    if (rank != 0)
        return;
    printf("%-7s %-16s %10.3f ms  MPI %10.3f ms  ratio %6.3f  rel_l2 %.2e\n",
           label, r->label, 1e3 * r->median, 1e3 * mpi->median,
           mpi->median / r->median, r->rel_l2);
    fflush(stdout);
    if (json == NULL)
        return;
    fprintf(json,
            "%s{\"bench\":\"allreduce\",\"case\":\"%s/%s/%d\",\"metric\":"
            "\"time_ms\",\"unit\":\"ms\",\"value\":%.6g,\"min\":%.6g,"
            "\"max\":%.6g,\"n\":%d,\"baseline\":\"MPI_Allreduce%s\","
            "\"baseline_value\":%.6g,\"ratio\":%.4g}",
            rows++ ? ",\n" : "[", label, r->label, hosts, 1e3 * r->median,
            1e3 * r->least, 1e3 * r->most, reps,
            r->bf16 ? " of as many bytes" : "", 1e3 * mpi->median,
            mpi->median / r->median);
    fprintf(json,
            ",\n{\"bench\":\"allreduce\",\"case\":\"%s/%s/%d\",\"metric\":"
            "\"rel_l2\",\"unit\":\"1\",\"value\":%.6g,\"min\":%.6g,"
            "\"max\":%.6g,\"n\":1,\"baseline\":\"MPI_Allreduce of f32\","
            "\"baseline_value\":%.6g,\"ratio\":",
            label, r->label, hosts, r->rel_l2, r->rel_l2, r->rel_l2,
            mpi->rel_l2);
    if (r->rel_l2 > 0)
        fprintf(json, "%.4g}", mpi->rel_l2 / r->rel_l2);
    else
        fprintf(json, "null}");
}

static void measure(const char *label, size_t bytes, int reps) {
    values_t v = {.bytes = bytes / 4 * 4};
    double *exact = malloc(SAMPLE * sizeof *exact);
    v.f32 = malloc(bytes), v.out = malloc(bytes);
    v.bf16 = malloc(bytes); /* twice as many, the same bytes */
    if (exact == NULL || v.f32 == NULL || v.bf16 == NULL || v.out == NULL)
        die(label, "out of memory");
    fill(v.out, v.bytes / 4);
    for (size_t i = 0; i < v.bytes / 2; i++)
        v.bf16[i] = to_bf16(v.out[i % (v.bytes / 4)]);
    fill(v.f32, v.bytes / 4);
    for (int i = 0; i < count; i++) {
        runners[i].times = calloc((size_t)reps, sizeof *runners[i].times);
        if (runners[i].times == NULL)
            die(label, "out of memory");
        sum_exactly(&v, runners[i].bf16, exact);
        turn(&runners[i], &v); /* the first one warms up */
        runners[i].rel_l2 = error_of(&runners[i], &v, exact);
    }
    for (int rep = 0; rep < reps; rep++)
        for (int i = 0; i < count; i++)
            runners[i].times[rep] = turn(&runners[i], &v);
    for (int i = 0; i < count; i++) {
        settle(&runners[i], reps);
        if (i > 0)
            emit(label, &runners[i], reps);
        free(runners[i].times);
    }
    free(v.f32), free(v.bf16), free(v.out), free(exact);
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
    return bytes < 65536      ? 1001
           : bytes < 4 << 20  ? 41
           : bytes < 32 << 20 ? 7
                              : 5;
}

static int given_reps;

static void measure_size(const char *label) {
    size_t bytes = parse_size(label);
    measure(label, bytes, reps_for(bytes, given_reps));
}

int main(int argc, char **argv) {
    const char *sizes = "1KiB,4KiB,16KiB,64KiB,256KiB,1MiB,4MiB,16MiB,64MiB";
    const char *policies = "none raw mpc expo bf16 zfp:8 zfp:16 mxint8";
    const char *bf16 = "expo", *algorithms = "", *data = NULL, *file = NULL;
    const struct {
        const char *name;
        const char **value;
    } options[] = {{"--sizes", &sizes}, {"--policies", &policies},
                   {"--bf16", &bf16},   {"--algorithms", &algorithms},
                   {"--data", &data},   {"--json", &file}};
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    for (int i = 1; i < argc; i += 2) {
        size_t k = 0, known = sizeof options / sizeof *options;
        if (i + 1 == argc)
            die(argv[i], "needs a value");
        while (k < known && strcmp(argv[i], options[k].name) != 0)
            k++;
        if (k < known)
            *options[k].value = argv[i + 1];
        else if (strcmp(argv[i], "--reps") == 0)
            given_reps = atoi(argv[i + 1]);
        else
            die(argv[i], "no such option");
    }
    hosts = count_hosts();
    if (rank == 0 && file != NULL && (json = fopen(file, "w")) == NULL)
        die(file, "cannot be written");
    if (data != NULL)
        load(data);
    add("MPI");
    add_list(algorithms, add_algorithm);
    add_list(policies, add_f32);
    add_list(bf16, add_bf16);
    add_list(sizes, measure_size);
    for (int i = 0; i < count; i++)
        lull_comm_destroy(runners[i].comm);
    if (json != NULL) {
        fprintf(json, "%s]\n", rows ? "" : "[");
        fclose(json);
    }
    MPI_Finalize();
    return 0;
}
