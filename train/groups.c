/* Parallel groups: coordinates of a rank and its communicators. */
#include "groups.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fail.h"

/* Ranks of equal `color`, in the order of `key`. */
typedef struct place {
    int color, key;
} place_t;

static lull_status_t make(place_t place, lull_role_t role, const char *policy,
                          lull_comm_t **out) {
    MPI_Comm comm;
    if (MPI_Comm_split(MPI_COMM_WORLD, place.color, place.key, &comm) !=
        MPI_SUCCESS)
        return train_fail(LULL_ERR_MPI, "MPI_Comm_split failed for role %s",
                          lull_role_name(role));
    lull_status_t status = lull_comm_create(comm, role, policy, out);
    MPI_Comm_free(&comm);
    return status;
}

/* Replaces what the policy leaves to be measured for this role. */
static lull_status_t measure(place_t place, lull_role_t role,
                             char policy[LULL_POLICY_MAX]) {
    char found[LULL_POLICY_MAX] = "";
    lull_comm_t *trial;
    if (!lull_policy_is_auto(policy, role))
        return LULL_OK;
    lull_status_t status = make(place, role, policy, &trial);
    if (status != LULL_OK)
        return status;
    snprintf(found, sizeof found, "%s", lull_comm_policy(trial));
    lull_comm_destroy(trial);
    if (MPI_Bcast(found, sizeof found, MPI_CHAR, 0, MPI_COMM_WORLD) !=
        MPI_SUCCESS)
        return train_fail(LULL_ERR_MPI, "MPI_Bcast of a policy failed");
    return lull_policy_replace(policy, role, found, policy, LULL_POLICY_MAX);
}

lull_status_t groups_create(const config_t *config, groups_t *out) {
    groups_t g = {.tp = config->tp, .dp = config->dp, .pp = config->pp};
    memset(out, 0, sizeof *out);
    MPI_Comm_size(MPI_COMM_WORLD, &g.world);
    MPI_Comm_rank(MPI_COMM_WORLD, &g.rank);
    if (g.tp < 1 || g.dp < 1 || g.pp < 1 || g.tp * g.dp * g.pp != g.world)
        return train_fail(LULL_ERR_INVALID,
                          "tp %d x dp %d x pp %d is not the number of ranks, "
                          "%d",
                          g.tp, g.dp, g.pp, g.world);
    g.tp_rank = g.rank % g.tp;
    g.dp_rank = g.rank / g.tp % g.dp;
    g.pp_rank = g.rank / (g.tp * g.dp);
    int tp_group = g.rank / g.tp, pp_group = g.rank % (g.tp * g.dp);
    int dp_group = g.pp_rank * g.tp + g.tp_rank;
    const place_t tp = {tp_group, g.tp_rank}, pp = {pp_group, g.pp_rank},
                  dp = {dp_group, g.dp_rank}, all = {0, g.rank};
    const struct {
        place_t place;
        lull_role_t role;
        lull_comm_t **comm;
    } rows[] = {
        {tp, LULL_ROLE_TP, &g.train.tp},
        {pp, LULL_ROLE_PP, &g.train.pp},
        {tp, LULL_ROLE_OTHER, &g.plain.tp},
        {pp, LULL_ROLE_OTHER, &g.plain.pp},
        {dp, LULL_ROLE_DP, &g.dp_comm},
        {dp, LULL_ROLE_PARAM, &g.param_comm},
        {all, LULL_ROLE_OTHER, &g.other},
    };
    size_t count = sizeof rows / sizeof *rows;
    snprintf(g.policy, sizeof g.policy, "%s", config->comm);
    lull_status_t status = LULL_OK;
    for (size_t i = 0; i < count && !status; i++)
        status = measure(rows[i].place, rows[i].role, g.policy);
    for (size_t i = 0; i < count && !status; i++)
        status = make(rows[i].place, rows[i].role, g.policy, rows[i].comm);
    if (status != LULL_OK)
        groups_destroy(&g);
    else
        *out = g;
    return status;
}

void groups_destroy(groups_t *groups) {
    lull_comm_destroy(groups->other);
    lull_comm_destroy(groups->param_comm);
    lull_comm_destroy(groups->dp_comm);
    lull_comm_destroy(groups->plain.pp);
    lull_comm_destroy(groups->plain.tp);
    lull_comm_destroy(groups->train.pp);
    lull_comm_destroy(groups->train.tp);
    memset(groups, 0, sizeof *groups);
}

lull_status_t groups_sum(const groups_t *groups, double *values, int count) {
    size_t n = (size_t)count, world = (size_t)groups->world;
    if (groups->world == 1)
        return LULL_OK;
    double *all = malloc(world * n * sizeof *all);
    if (!all)
        return train_fail(LULL_ERR_NO_MEMORY, "sum over ranks: out of memory");
    lull_status_t status =
        lull_allgather(values, all, n, LULL_F64, groups->other);
    for (size_t i = 0; i < n && status == LULL_OK; i++) {
        values[i] = 0;
        for (size_t rank = 0; rank < world; rank++)
            values[i] += all[rank * n + i];
    }
    free(all);
    return status;
}
