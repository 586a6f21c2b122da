/* What the ranks agree on when a communicator is wrapped. */
#include <stdio.h>
#include <string.h>

#include "internal.h"

/* The first field never changes its place, so that versions can differ. */
typedef struct record {
    char version[16];
    char role[16];
    char policy[LULL__POLICY_MAX];
} record_t;

const char *lull__version_text = LULL_VERSION_STRING;

/* The lowest rank where `bad` is true on all ranks; -1: nowhere. */
static int lowest(MPI_Comm comm, bool bad, int *rank) {
    int mine, error = MPI_Comm_rank(comm, &mine);
    if (error != MPI_SUCCESS)
        return error;
    int key = bad ? mine : 0x7fffffff, least;
    error = MPI_Allreduce(&key, &least, 1, MPI_INT, MPI_MIN, comm);
    *rank = least == 0x7fffffff ? -1 : least;
    return error;
}

/* One rank failed before it could agree: everyone hears which, and why. */
static lull_status_t report(MPI_Comm comm, int culprit, lull_status_t local) {
    char text[512];
    int status = local, rank;
    snprintf(text, sizeof text, "%.500s", lull_last_error());
    MPI_Comm_rank(comm, &rank);
    int error = MPI_Bcast(&status, 1, MPI_INT, culprit, comm);
    if (error == MPI_SUCCESS)
        error = MPI_Bcast(text, sizeof text, MPI_CHAR, culprit, comm);
    if (error != MPI_SUCCESS)
        return lull__fail_mpi(error, "MPI_Bcast", NULL);
    text[sizeof text - 1] = '\0';
    return lull__fail(status, "lull_comm_create: rank %d: %s", culprit, text);
}

static lull_status_t compare(MPI_Comm comm, const record_t *mine) {
    record_t first = *mine, other;
    int error = MPI_Bcast(&first, sizeof first, MPI_CHAR, 0, comm), culprit;
    if (error == MPI_SUCCESS)
        error = lowest(comm, memcmp(&first, mine, sizeof first) != 0, &culprit);
    if (error != MPI_SUCCESS)
        return lull__fail_mpi(error, "agreeing on a policy", NULL);
    if (culprit < 0)
        return LULL_OK;
    other = *mine;
    error = MPI_Bcast(&other, sizeof other, MPI_CHAR, culprit, comm);
    if (error != MPI_SUCCESS)
        return lull__fail_mpi(error, "agreeing on a policy", NULL);
    return lull__fail(LULL_ERR_MISMATCH,
                      "lull_comm_create: rank 0 has version %.15s, role %.15s, "
                      "policy '%.190s', rank %d has version %.15s, role %.15s, "
                      "policy '%.190s'",
                      first.version, first.role, first.policy, culprit,
                      other.version, other.role, other.policy);
}

lull_status_t lull__agree(MPI_Comm comm, lull_status_t local, lull_role_t role,
                          const lull__policy_t *policy) {
    int culprit;
    int error = lowest(comm, local != LULL_OK, &culprit);
    if (error != MPI_SUCCESS)
        return lull__fail_mpi(error, "agreeing on a policy", NULL);
    if (culprit >= 0)
        return report(comm, culprit, local);
    record_t mine;
    memset(&mine, 0, sizeof mine);
    snprintf(mine.version, sizeof mine.version, "%s", lull__version_text);
    snprintf(mine.role, sizeof mine.role, "%s", lull_role_name(role));
    lull__policy_text(policy, mine.policy);
    return compare(comm, &mine);
}
