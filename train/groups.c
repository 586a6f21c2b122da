/* Parallel groups: coordinates of a rank and its communicators. */
#include "groups.h"

#include <stdlib.h>
#include <string.h>

#include "fail.h"

/* One communicator: ranks of equal `color`, in the order of `key`. */
static lull_status_t make(int color, int key, lull_role_t role,
                          const char *policy, lull_comm_t **out) {
    MPI_Comm comm;
    if (MPI_Comm_split(MPI_COMM_WORLD, color, key, &comm) != MPI_SUCCESS)
        return train_fail(LULL_ERR_MPI, "MPI_Comm_split failed for role %s",
                          lull_role_name(role));
    lull_status_t status = lull_comm_create(comm, role, policy, out);
    MPI_Comm_free(&comm);
    return status;
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
    const struct {
        int color, key;
        lull_role_t role;
        lull_comm_t **comm;
    } rows[] = {
        {tp_group, g.tp_rank, LULL_ROLE_TP, &g.train.tp},
        {pp_group, g.pp_rank, LULL_ROLE_PP, &g.train.pp},
        {tp_group, g.tp_rank, LULL_ROLE_OTHER, &g.plain.tp},
        {pp_group, g.pp_rank, LULL_ROLE_OTHER, &g.plain.pp},
        {dp_group, g.dp_rank, LULL_ROLE_DP, &g.dp_comm},
        {dp_group, g.dp_rank, LULL_ROLE_PARAM, &g.param_comm},
        {0, g.rank, LULL_ROLE_OTHER, &g.other},
    };
    lull_status_t status = LULL_OK;
    for (size_t i = 0; i < sizeof rows / sizeof *rows && !status; i++)
        status = make(rows[i].color, rows[i].key, rows[i].role, config->comm,
                      rows[i].comm);
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
