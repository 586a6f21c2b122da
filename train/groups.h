/* Where a rank stands in the parallel layout, and a communicator for each
 * thing that ranks tell each other. */
#ifndef TRAIN_GROUPS_H
#define TRAIN_GROUPS_H

#include <lull/comm.h>

#include "config.h"

/* The two communicators that a pass through the model uses. */
typedef struct links {
    lull_comm_t *tp; /* ranks that share layers */
    lull_comm_t *pp; /* stages, in order */
} links_t;

/* rank = (pp_rank * dp + dp_rank) * tp + tp_rank: tensor-parallel ranks are
 * neighbours, then come data-parallel ones, as Megatron has it. */
typedef struct groups {
    int world, rank;
    int tp, dp, pp;                /* sizes */
    int tp_rank, dp_rank, pp_rank; /* of this rank */
    links_t train;                 /* roles tp and pp, under the policy */
    links_t plain;                 /* the same ranks in role other */
    lull_comm_t *dp_comm;          /* gradients, role dp */
    lull_comm_t *param_comm;       /* updated weights, role param */
    lull_comm_t *other;            /* all ranks, role other */
    char policy[LULL_POLICY_MAX];  /* of all these; nothing left to measure */
} groups_t;

/* Collective over MPI_COMM_WORLD. config->tp * dp * pp must be its size. What
 * is to be measured (auto) is measured on all groups of a role at once, as they
 * will run, and what rank 0's have found holds for all: replicas stay alike.
 * `out` is zeroed or complete. */
lull_status_t groups_create(const config_t *config, groups_t *out);
void groups_destroy(groups_t *groups);

/* Sums `count` (at most 8) doubles over all ranks, in rank order: the same
 * bits everywhere. */
lull_status_t groups_sum(const groups_t *groups, double *values, int count);

#endif
