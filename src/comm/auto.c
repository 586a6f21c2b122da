/* auto: candidates are measured on the communicator itself, by the calls that
 * its role makes, beside MPI's own, A B C A B C. All ranks take part; the first
 * one decides, and all hear what. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "auto.h"
#include "engine.h"

enum { KINDS = 2, REPS = 7, MOST = 4 << 20 };

/* The calls that a role makes; LULL__SEND: messages round a ring. */
static const struct {
    unsigned count;
    lull__kind_t kinds[KINDS];
} kinds_of[LULL_ROLE_COUNT] = {
    [LULL_ROLE_DP] = {2, {LULL__ALLREDUCE, LULL__REDUCE_SCATTER}},
    [LULL_ROLE_TP] = {1, {LULL__ALLREDUCE}},
    [LULL_ROLE_PP] = {1, {LULL__SEND}},
    [LULL_ROLE_PARAM] = {1, {LULL__ALLGATHER}},
};

static const uint64_t sizes[LULL__AUTO_SIZES] = {
    1 << 10, 1 << 12, 1 << 14, 1 << 16, 1 << 18, 1 << 20, MOST};
static const lull_dtype_t dtypes[LULL__AUTO_DTYPES] = {LULL_F32, LULL_BF16};
static const char *const lossless[] = {"raw", "mpc", "expo"};

/* Seconds for one dtype: no size is begun that would take more. */
static const double patience = 0.6;

typedef struct trial {
    lull_comm_t *comm;
    lull__auto_table_t table;
    lull_comm_t *wrapped[LULL__AUTO_CODECS]; /* NULL: out of the race */
    char *in, *out;
    double seconds[LULL__AUTO_CODECS][KINDS][REPS];
} trial_t;

/* ---- Candidates --------------------------------------------------------- */

static void add_codec(lull__auto_table_t *table, const char *spec) {
    for (unsigned c = 0; c < table->codec_count; c++)
        if (strcmp(table->specs[c], spec) == 0)
            return;
    if (table->codec_count < LULL__AUTO_CODECS)
        strcpy(table->specs[table->codec_count++], spec);
}

static void list_codecs(const lull__rules_t *listed,
                        lull__auto_table_t *table) {
    add_codec(table, "none");
    for (unsigned i = 0; i < sizeof lossless / sizeof *lossless; i++)
        add_codec(table, lossless[i]);
    for (unsigned i = 0; i < listed->count; i++)
        add_codec(table, listed->rule[i].spec);
}

/* One that cannot be made is made nowhere, and is no candidate. */
static lull_status_t wrap(trial_t *t) {
    for (unsigned c = 0; c < t->table.codec_count; c++) {
        char policy[64];
        snprintf(policy, sizeof policy, "%s=%s;min=0",
                 lull_role_name(t->comm->role), t->table.specs[c]);
        lull_status_t status =
            lull_comm_create(t->comm->native, t->comm->role,
                             c == 0 ? "none" : policy, &t->wrapped[c]);
        if (status != LULL_OK)
            t->wrapped[c] = NULL;
        if (status != LULL_OK && c == 0)
            return status;
    }
    return LULL_OK;
}

static void unwrap(trial_t *t) {
    for (unsigned c = 0; c < t->table.codec_count; c++)
        lull_comm_destroy(t->wrapped[c]);
}

/* ---- Measuring ---------------------------------------------------------- */

/* Heavy-tailed, as gradients are: a bell whose scale varies. */
static void fill(char *to, size_t bytes, lull_dtype_t dtype, int rank) {
    uint64_t state = 88172645463325252u + (uint64_t)rank * 77777;
    float scale = 1e-3f;
    size_t size = lull__size_of(dtype);
    for (size_t i = 0; i < bytes / size; i++) {
        float x = 0;
        for (int k = 0; k < 4; k++) {
            state ^= state << 13, state ^= state >> 7, state ^= state << 17;
            x += (float)(state >> 40) * 0x1p-24f - 0.5f;
        }
        if (i % 512 == 0)
            scale = 1e-5f * (float)(1u << (state >> 60));
        x *= scale;
        if (size == 4) {
            memcpy(to + 4 * i, &x, 4);
        } else { /* bf16: the upper half */
            uint32_t bits;
            memcpy(&bits, &x, 4);
            uint16_t upper = (uint16_t)(bits >> 16);
            memcpy(to + 2 * i, &upper, 2);
        }
    }
}

static lull_status_t call(const trial_t *t, unsigned c, lull__kind_t kind,
                          lull_dtype_t dtype, size_t count) {
    lull_comm_t *comm = t->wrapped[c];
    size_t ranks = (size_t)comm->size;
    size_t part = count / ranks != 0 ? count / ranks : 1;
    int next = (comm->rank + 1) % comm->size;
    int before = (comm->rank + comm->size - 1) % comm->size;
    if (kind == LULL__ALLREDUCE)
        return lull_allreduce(t->in, t->out, count, dtype, LULL_SUM, comm);
    if (kind == LULL__REDUCE_SCATTER)
        return lull_reduce_scatter_block(t->in, t->out, part, dtype, LULL_SUM,
                                         comm);
    if (kind == LULL__ALLGATHER)
        return lull_allgather(t->in, t->out, part, dtype, comm);
    return lull_sendrecv(&(lull_message_t){t->in, count, dtype, next, 0},
                         &(lull_message_t){t->out, count, dtype, before, 0},
                         comm);
}

/* One call of each candidate; a failure takes it out of the race. */
static void round_of_calls(trial_t *t, lull_dtype_t dtype, size_t bytes,
                           int rep) {
    size_t count = bytes / lull__size_of(dtype);
    int role = t->comm->role;
    for (unsigned k = 0; k < kinds_of[role].count; k++)
        for (unsigned c = 0; c < t->table.codec_count; c++) {
            if (t->wrapped[c] == NULL)
                continue;
            MPI_Barrier(t->comm->native);
            double since = lull__now();
            lull_status_t status =
                call(t, c, kinds_of[role].kinds[k], dtype, count);
            if (rep >= 0)
                t->seconds[c][k][rep] =
                    status == LULL_OK ? lull__now() - since : 1e9;
        }
}

static int by_size(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

/* Medians of the slowest ranks' times to ratios; the worse kind counts. */
static void judge(trial_t *t, int reps, double ratio[LULL__AUTO_CODECS]) {
    unsigned kinds = kinds_of[t->comm->role].count;
    double none[KINDS] = {0};
    for (unsigned c = 0; c < t->table.codec_count; c++) {
        ratio[c] = t->wrapped[c] != NULL ? 1e9 : 0;
        for (unsigned k = 0; k < kinds && t->wrapped[c] != NULL; k++) {
            double *x = t->seconds[c][k];
            qsort(x, (size_t)reps, sizeof *x, by_size);
            if (c == 0)
                none[k] = x[reps / 2];
            double here = none[k] / x[reps / 2];
            ratio[c] = here < ratio[c] ? here : ratio[c];
        }
    }
}

/* What the first rank tells the others after a size. */
typedef struct verdict {
    double ratio[LULL__AUTO_CODECS];
    int go_on;
} verdict_t;

static lull_status_t one_size(trial_t *t, lull_dtype_t dtype, unsigned s,
                              double since, verdict_t *verdict) {
    MPI_Comm native = t->comm->native;
    double began = lull__now();
    int reps = sizes[s] < 1 << 20 ? REPS : 3;
    memset(t->seconds, 0, sizeof t->seconds);
    for (int rep = -1; rep < reps; rep++)
        round_of_calls(t, dtype, sizes[s], rep);
    int error = MPI_Allreduce(MPI_IN_PLACE, t->seconds,
                              LULL__AUTO_CODECS * KINDS * REPS, MPI_DOUBLE,
                              MPI_MAX, native);
    judge(t, reps, verdict->ratio);
    double took = lull__now() - began;
    verdict->go_on = lull__now() - since + 4 * took < patience;
    if (error == MPI_SUCCESS)
        error = MPI_Bcast(verdict, sizeof *verdict, MPI_BYTE, 0, native);
    return error == MPI_SUCCESS
               ? LULL_OK
               : lull__fail_mpi(error, "measuring for auto", t->comm);
}

/* Those that lose by far at a size of some weight will not win at the next. */
static void drop_losers(trial_t *t, unsigned s, const double *ratio) {
    for (unsigned c = 1; c < t->table.codec_count; c++) {
        bool framing = t->table.framed && strcmp(t->table.specs[c], "raw") == 0;
        if (t->wrapped[c] == NULL || sizes[s] < 1 << 18 || framing ||
            ratio[c] > 0.7)
            continue;
        lull_comm_destroy(t->wrapped[c]);
        t->wrapped[c] = NULL;
    }
}

static lull_status_t one_dtype(trial_t *t, lull_dtype_t dtype) {
    lull__auto_part_t *part = &t->table.parts[t->table.part_count++];
    double since = lull__now();
    verdict_t verdict = {.go_on = 1};
    part->dtype = dtype;
    fill(t->in, MOST, dtype, t->comm->rank);
    for (unsigned s = 0; s < LULL__AUTO_SIZES && verdict.go_on; s++) {
        lull_status_t status = one_size(t, dtype, s, since, &verdict);
        if (status != LULL_OK)
            return status;
        memcpy(part->ratio[s], verdict.ratio, sizeof verdict.ratio);
        part->size_count = s + 1;
        drop_losers(t, s, verdict.ratio);
    }
    return LULL_OK;
}

/* ---- The whole ---------------------------------------------------------- */

static lull_status_t measure(trial_t *t) {
    lull_comm_t *comm = t->comm;
    lull_status_t status = LULL_OK;
    size_t room = (size_t)MOST + 64 * (size_t)comm->size;
    memcpy(t->table.sizes, sizes, sizeof sizes);
    t->table.framed = comm->role == LULL_ROLE_PP;
    list_codecs(&comm->policy.rules[comm->role], &t->table);
    t->in = malloc(room);
    t->out = malloc(room);
    if (t->in == NULL || t->out == NULL)
        status = lull__fail(LULL_ERR_NO_MEMORY, "%zu bytes to measure with",
                            2 * room);
    status = lull__agree(comm->native, status, comm->role, &comm->policy);
    for (unsigned d = 0; d < LULL__AUTO_DTYPES && status == LULL_OK; d++) {
        status = wrap(t);
        if (status == LULL_OK)
            status = one_dtype(t, dtypes[d]);
        unwrap(t);
        memset(t->wrapped, 0, sizeof t->wrapped);
    }
    free(t->in);
    free(t->out);
    return status;
}

lull_status_t lull__auto_resolve(lull_comm_t *comm, lull__policy_t *policy) {
    *policy = comm->policy;
    lull__rules_t *rules = &policy->rules[comm->role];
    if (comm->size == 1) {
        *rules = (lull__rules_t){.count = 1, .rule = {{.any = true}}};
        strcpy(rules->rule[0].spec, "none");
        return LULL_OK;
    }
    trial_t *t = calloc(1, sizeof *t);
    lull_status_t status =
        t != NULL ? LULL_OK : lull__fail(LULL_ERR_NO_MEMORY, "a measurement");
    status = lull__agree(comm->native, status, comm->role, &comm->policy);
    if (status == LULL_OK) {
        t->comm = comm;
        status = measure(t);
    }
    if (status == LULL_OK)
        lull__auto_decide(&t->table, policy->min, rules);
    free(t);
    return status;
}
