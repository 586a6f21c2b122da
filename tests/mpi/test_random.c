/* Random policies: those that parse carry random calls, whose results are
 * compared with what MPI makes of the same values in double; those that do not
 * are refused by all ranks alike, pointing at the character. */
#include <lull/codec.h>
#include <math.h>

#include "comm/engine.h"
#include "support_mpi.h"

enum { POLICIES = 60, CALLS = 4, MOST = 40000, TEXT = 400 };

static uint64_t state; /* the same on all ranks */
static char policy[TEXT];
static char *in, *out;
static double *mine, *want;

static unsigned below(unsigned n) {
    return (unsigned)(test_random(&state) >> 33) % n;
}

static const char *any(const char *const *words, unsigned count) {
    return words[below(count)];
}
#define ANY(...)                            \
    any((const char *const[]){__VA_ARGS__}, \
        sizeof((const char *const[]){__VA_ARGS__}) / sizeof(const char *))

/* ---- Policies ----------------------------------------------------------- */

static void add(const char *text) {
    size_t used = strlen(policy);
    snprintf(policy + used, sizeof policy - used, "%s", text);
}

static void add_codec(bool lossless) {
    if (lossless || below(2))
        add(ANY("none", "raw", "mpc", "mpc:3", "expo"));
    else
        add(ANY("bf16", "mxint8", "zfp:4", "zfp:8", "zfp:08.0", "zfp:12.5",
                "zfp:16", "zfp:31.9", "zfp:40"));
}

/* One role's, or without `one` those of all. */
static void add_rules(bool lossless) {
    add_codec(lossless);
    for (unsigned more = below(3); more > 0; more--) {
        add(ANY(",0", ",64", ",4KiB", ",100000", ",1MiB"));
        add(ANY(":", "/f32:", "/f64:", "/f16:", "/bf16:"));
        add_codec(lossless);
    }
}

static void make_policy(void) {
    static const char *const roles[] = {"dp=", "tp=", "pp=", "param="};
    policy[0] = '\0';
    switch (below(4)) {
    case 0:
        add(ANY("mzhybrid", "mzhybrid:6", "zhybrid", "zhybrid:12,6.5",
                "mxhybrid"));
        break;
    case 1:
        add_rules(false);
        break;
    case 2:
        add_codec(false);
        break;
    default:
        add("other=none");
    }
    for (unsigned role = 0; role < 4; role++)
        if (below(3) == 0) {
            add(";");
            add(roles[role]);
            add_rules(role == 3);
        }
    if (below(4) != 0)
        add(ANY(";min=0", ";min=100", ";min=20KiB", ";min=1GiB"));
    if (below(4) == 0)
        add(ANY(";hier=1", ";hier=0"));
    if (below(4) == 0)
        add(";check=1");
}

/* A character changed, taken out or put in. */
static void spoil(void) {
    static const char letters[] = "0189.:;,=/-ckfzxpmn +";
    size_t length = strlen(policy), at = below((unsigned)length);
    char letter = letters[below(sizeof letters - 1)];
    switch (below(3)) {
    case 0:
        policy[at] = letter;
        break;
    case 1:
        memmove(policy + at, policy + at + 1, length - at);
        break;
    default:
        if (length + 2 > sizeof policy)
            return;
        memmove(policy + at + 1, policy + at, length - at + 1);
        policy[at] = letter;
    }
}

/* The sentence ends with the place and with what stands there. */
static void points_at_it(void) {
    const char *said = lull_last_error(), *at = NULL, *next = said;
    char tail[60];
    while ((next = strstr(next + 1, ", at character ")) != NULL)
        at = next;
    size_t place = at != NULL ? strtoull(at + 15, NULL, 10) : 0;
    if (place < 1 || place > strlen(policy) + 1)
        test_fail(__FILE__, __LINE__, "'%s': '%s'", policy, said);
    snprintf(tail, sizeof tail, ": '%.40s'", policy + place - 1);
    size_t length = strlen(said), end = strlen(tail);
    if (length < end || strcmp(said + length - end, tail) != 0)
        test_fail(__FILE__, __LINE__, "'%s': '%s' does not end with %s", policy,
                  said, tail);
}

/* ---- Calls -------------------------------------------------------------- */

/* Largest relative error (L2) of coding values once. */
static double error_of(const lull__route_t *route, lull_dtype_t dtype) {
    char spec[LULL_CODEC_SPEC_MAX];
    double rounding = dtype == LULL_F64    ? 0x1p-50
                      : dtype == LULL_F32  ? 0x1p-22
                      : dtype == LULL_F16  ? 0x1p-9
                      : dtype == LULL_BF16 ? 0x1p-6
                                           : 0;
    if (!route->engine || !route->coding.lossy)
        return rounding;
    CHECK_OK(lull_codec_format(&route->coding.codec, spec, sizeof spec));
    if (strcmp(spec, "bf16") == 0)
        return rounding + 0x1p-7;
    if (strcmp(spec, "mxint8") == 0)
        return rounding + 0x1p-5;
    CHECK(strncmp(spec, "zfp:", 4) == 0);
    double bits = atof(spec + 4) - (dtype == LULL_F64 ? 8 : 5);
    return rounding + exp2(-bits);
}

static double norm(const double *x, size_t n) {
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += x[i] * x[i];
    return sqrt(sum);
}

/* got[n] against want[n]; `size`: of what was coded to make it. */
static void close_to(const lull__call_t *call, size_t n, double size) {
    lull__route_t route = lull__route_of(call);
    double error = error_of(&route, call->dtype);
    for (size_t i = 0; i < n; i++)
        mine[i] = test_get(out, i, call->dtype) - want[i];
    double off = norm(mine, n);
    if (!(off <= error * size))
        test_fail(__FILE__, __LINE__,
                  "role %s, '%s': call %d of %zu %s, op %d: off by %g, at most "
                  "%g of %g expected",
                  lull_role_name(call->comm->role), policy, (int)call->kind,
                  call->count, lull_dtype_name(call->dtype), (int)call->op, off,
                  error, size);
}

/* In double, by MPI: want = the reduction; the sum of all ranks' norms. */
static double reduce(size_t n, lull_op_t op) {
    MPI_Op by = op == LULL_MIN ? MPI_MIN : op == LULL_MAX ? MPI_MAX : MPI_SUM;
    double size = norm(mine, n);
    MPI_Allreduce(mine, want, (int)n, MPI_DOUBLE, by, MPI_COMM_WORLD);
    MPI_Allreduce(MPI_IN_PLACE, &size, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    for (size_t i = 0; op == LULL_AVG && i < n; i++)
        want[i] /= test_size;
    return 2 * (op == LULL_AVG ? size / test_size : size);
}

static void fill(size_t n, lull_dtype_t dtype) {
    test_fill(in, n, dtype, test_rank, state, false);
    for (size_t i = 0; i < n; i++)
        mine[i] = test_get(in, i, dtype);
}

static void all_the_same(const lull__call_t *call) {
    uint64_t hash = 14695981039346656037u, ends[2];
    size_t bytes = call->count * lull__size_of(call->dtype);
    for (size_t i = 0; i < bytes; i++)
        hash = (hash ^ (unsigned char)out[i]) * 1099511628211u;
    ends[0] = hash, ends[1] = ~hash;
    MPI_Allreduce(MPI_IN_PLACE, ends, 2, MPI_UINT64_T, MPI_MAX, MPI_COMM_WORLD);
    if (ends[0] != ~ends[1])
        test_fail(__FILE__, __LINE__, "'%s': ranks differ", policy);
}

static void one_reduction(lull__call_t *call) {
    bool scatter = call->kind == LULL__REDUCE_SCATTER, in_place = below(2);
    size_t size = lull__size_of(call->dtype);
    size_t n = call->count * (scatter ? (size_t)test_size : 1);
    lull_request_t *request = NULL;
    fill(n, call->dtype);
    if (in_place)
        memcpy(out, in, n * size);
    const void *from = in_place ? LULL_IN_PLACE : in;
    if (scatter)
        CHECK_OK(lull_reduce_scatter_block(from, out, call->count, call->dtype,
                                           call->op, call->comm));
    else if (below(2))
        CHECK_OK(lull_allreduce(from, out, call->count, call->dtype, call->op,
                                call->comm));
    else
        CHECK_OK(lull_iallreduce(from, out, call->count, call->dtype, call->op,
                                 call->comm, &request));
    CHECK_OK(lull_wait(&request));
    double whole = reduce(n, call->op);
    if (scatter)
        memmove(want, want + (size_t)test_rank * call->count,
                call->count * sizeof *want);
    close_to(call, call->count, whole);
    if (!scatter && lull__route_of(call).engine)
        all_the_same(call);
}

/* Never lossy. */
static void one_movement(const lull__call_t *call) {
    size_t bytes = call->count * lull__size_of(call->dtype);
    fill(call->count, call->dtype);
    if (call->kind == LULL__BCAST) {
        memcpy(out, in, bytes);
        MPI_Bcast(in, (int)bytes, MPI_BYTE, call->peer, MPI_COMM_WORLD);
        CHECK_OK(
            lull_bcast(out, call->count, call->dtype, call->peer, call->comm));
        CHECK(memcmp(out, in, bytes) == 0);
        return;
    }
    CHECK_OK(lull_allgather(in, out, call->count, call->dtype, call->comm));
    MPI_Allgather(in, (int)bytes, MPI_BYTE, want, (int)bytes, MPI_BYTE,
                  MPI_COMM_WORLD);
    CHECK(memcmp(out, want, bytes * (size_t)test_size) == 0);
}

static void one_message(lull__call_t *call) {
    int next = (test_rank + 1) % test_size;
    int before = (test_rank + test_size - 1) % test_size;
    lull_message_t give = {in, call->count, call->dtype, next, 3};
    lull_message_t take = {out, call->count, call->dtype, before, 3};
    fill(call->count, call->dtype);
    CHECK_OK(lull_sendrecv(&give, &take, call->comm));
    MPI_Sendrecv(mine, (int)call->count, MPI_DOUBLE, next, 0, want,
                 (int)call->count, MPI_DOUBLE, before, 0, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
    close_to(call, call->count, norm(want, call->count));
}

static void one_call(lull_comm_t *comm) {
    static const lull__kind_t kinds[] = {LULL__ALLREDUCE,      LULL__ALLREDUCE,
                                         LULL__REDUCE_SCATTER, LULL__ALLGATHER,
                                         LULL__BCAST,          LULL__SEND};
    static const size_t counts[] = {0, 1, 5, 33, 1000, 5000, MOST};
    lull__call_t call = {.kind = kinds[below(6)],
                         .dtype = lull__dtypes[below(LULL__DTYPES)],
                         .op = (lull_op_t)below(LULL_MAX + 1),
                         .comm = comm};
    call.count = counts[below(
        call.kind == LULL__REDUCE_SCATTER || call.kind == LULL__ALLGATHER ? 6
                                                                          : 7)];
    call.peer = (int)below((unsigned)test_size);
    if (call.op == LULL_AVG && !lull__is_float(call.dtype))
        call.op = LULL_SUM;
    if (lull__reduces(call.kind))
        one_reduction(&call);
    else if (call.kind == LULL__SEND)
        one_message(&call);
    else
        one_movement(&call);
}

/* ---- The whole ---------------------------------------------------------- */

static bool one_policy(void) {
    lull_role_t role = (lull_role_t)below(LULL_ROLE_COUNT);
    lull_comm_t *comm = NULL;
    lull_status_t status = lull_policy_check(policy);
    if (status != LULL_OK) {
        points_at_it();
        lull_status_t made =
            lull_comm_create(MPI_COMM_WORLD, role, policy, &comm);
        CHECK(made == status && comm == NULL);
        CHECK(strstr(lull_last_error(), "lull_comm_create: rank 0: policy '"));
        return false;
    }
    if (lull_policy_is_auto(policy, role))
        return true;
    lull_status_t made = lull_comm_create(MPI_COMM_WORLD, role, policy, &comm);
    if (made != LULL_OK)
        test_fail(__FILE__, __LINE__, "'%s': %s", policy, lull_last_error());
    for (int i = 0; i < CALLS; i++)
        one_call(comm);
    lull_comm_destroy(comm);
    return true;
}

int main(int argc, char **argv) {
    int good = 0;
    state = test_begin(&argc, &argv);
    size_t values = (size_t)MOST * (size_t)(test_size < 4 ? 4 : test_size);
    in = malloc(values * 8), out = malloc(values * 8);
    mine = malloc(values * 8), want = malloc(values * 8);
    CHECK(in && out && mine && want);
    CHECK_OK(lull_setting_set("host-ranks", "2"));
    for (int i = 0; i < POLICIES; i++) {
        make_policy();
        if (!one_policy())
            test_fail(__FILE__, __LINE__, "'%s': %s", policy,
                      lull_last_error());
        for (int k = 0; k < 3; k++) {
            spoil();
            if (i % 4 == 0)
                good += one_policy();
            else if (lull_policy_check(policy) != LULL_OK)
                points_at_it();
        }
    }
    if (test_rank == 0)
        printf("%d spoilt policies parse\n", good);
    return test_end();
}
