/* Communicators: created and destroyed, asked what they are. */
#include <stdlib.h>
#include <string.h>

#include "auto.h"
#include "engine.h"

static lull_status_t check_comm(MPI_Comm comm) {
    int up = 0, down = 0, inter = 0;
    MPI_Initialized(&up);
    if (up)
        MPI_Finalized(&down);
    if (!up || down)
        return lull__fail(LULL_ERR_STATE, "lull_comm_create: MPI is %s",
                          up ? "finalised" : "not initialised");
    if (comm == MPI_COMM_NULL)
        return lull__fail(LULL_ERR_INVALID,
                          "lull_comm_create: comm is MPI_COMM_NULL");
    int error = MPI_Comm_test_inter(comm, &inter);
    if (error != MPI_SUCCESS)
        return lull__fail_mpi(error, "MPI_Comm_test_inter", NULL);
    if (inter)
        return lull__fail(LULL_ERR_UNSUPPORTED,
                          "lull_comm_create: comm is an intercommunicator");
    return LULL_OK;
}

/* What can be wrong on this rank alone; it is told to the others. */
static lull_status_t fill(lull_comm_t *comm, lull_role_t role,
                          const char *policy, lull_comm_t **out) {
    if (comm == NULL)
        return lull__fail(LULL_ERR_NO_MEMORY, "a communicator");
    if (out == NULL)
        return lull__fail(LULL_ERR_INVALID, "lull_comm_create: out is NULL");
    if (lull_role_name(role) == NULL)
        return lull__fail(LULL_ERR_INVALID, "lull_comm_create: %d is no role",
                          (int)role);
    lull_status_t status = lull__policy_parse(policy, &comm->policy);
    if (status != LULL_OK)
        return status;
    comm->role = role;
    const lull__rules_t *rules = comm->policy.rules;
    lull__rules_text(&rules[role], comm->rules, sizeof comm->rules);
    comm->compressed = lull__rules_code(&rules[role]);
    for (unsigned r = 0; r < LULL_ROLE_COUNT; r++)
        comm->codes_elsewhere |=
            rules[r].automatic || lull__rules_code(&rules[r]);
    status = lull__choices_fill(comm);
    if (status == LULL_OK)
        status = lull__engine_create(comm);
    if (status == LULL_OK)
        status = lull__doubt_create(comm);
    return status == LULL_OK ? lull__registry_hook() : status;
}

static void free_comms(lull_comm_t *comm) {
    lull__hier_free_comms(comm);
    lull__engine_free_comms(comm);
    lull__doubt_free_comms(comm);
}

static void free_memory(lull_comm_t *comm) {
    lull__hier_destroy(comm);
    lull__engine_destroy(comm);
    lull__doubt_destroy(comm);
}

/* What follows blocks inside MPI, so that no operation of this process moves
 * on: another rank may need one before it comes here. */
static lull_status_t assemble(MPI_Comm comm) {
    MPI_Request request;
    int error = MPI_Ibarrier(comm, &request);
    return error == MPI_SUCCESS ? lull__poll(&request, NULL)
                                : lull__fail_mpi(error, "MPI_Ibarrier", NULL);
}

/* Under a policy to be measured, a communicator without codecs. */
static lull_status_t create(MPI_Comm comm, lull_role_t role, const char *policy,
                            lull_comm_t **out) {
    MPI_Comm native;
    int error = MPI_Comm_dup(comm, &native);
    if (error != MPI_SUCCESS)
        return lull__fail_mpi(error, "MPI_Comm_dup", NULL);
    MPI_Comm_set_errhandler(native, MPI_ERRORS_RETURN);

    lull_comm_t *new = calloc(1, sizeof *new);
    if (new != NULL) {
        new->native = native;
        MPI_Comm_rank(native, &new->rank);
        MPI_Comm_size(native, &new->size);
    }
    lull_status_t status = fill(new, role, policy, out);
    status = lull__agree(native, status, role, new ? &new->policy : NULL);
    if (status == LULL_OK)
        status = lull__engine_connect(new);
    if (status == LULL_OK)
        status = lull__doubt_connect(new);
    if (status == LULL_OK)
        status = lull__hier_create(new);
    if (status != LULL_OK)
        goto free_native;
    lull__registry_add(new);
    *out = new;
    return LULL_OK;

free_native:
    if (new != NULL) {
        free_comms(new);
        free_memory(new);
    }
    free(new);
    MPI_Comm_free(&native);
    return status;
}

lull_status_t lull_comm_create(MPI_Comm comm, lull_role_t role,
                               const char *policy, lull_comm_t **out) {
    lull_status_t status = check_comm(comm);
    if (status == LULL_OK)
        status = assemble(comm);
    if (status == LULL_OK)
        status = create(comm, role, policy, out);
    if (status != LULL_OK || !(*out)->policy.rules[role].automatic)
        return status;
    lull_comm_t *plain = *out;
    lull__policy_t measured;
    char text[LULL__POLICY_MAX];
    status = lull__auto_resolve(plain, &measured);
    if (status == LULL_OK) {
        lull__policy_text(&measured, text);
        status = create(comm, role, text, out);
    }
    if (status != LULL_OK)
        *out = NULL;
    lull_comm_destroy(plain);
    return status;
}

void lull_comm_destroy(lull_comm_t *comm) {
    if (comm == NULL || !lull__registry_has(comm))
        return;
    for (lull_request_t *request;
         !comm->dead && (request = lull__request_of(comm)) != NULL;)
        lull__complete(request);
    lull__registry_remove(comm);
    int down = 0;
    MPI_Finalized(&down);
    if (comm->broken[0] != '\0') { /* MPI may still write to its memory */
        if (!comm->dead && !down)
            (void)lull__doubt_settle(comm); /* others wait for it */
        return;
    }
    if (!comm->dead && !down) {
        free_comms(comm);
        MPI_Comm_free(&comm->native);
    }
    free_memory(comm);
    free(comm);
}

int lull_comm_rank(const lull_comm_t *comm) {
    return comm->rank;
}

int lull_comm_size(const lull_comm_t *comm) {
    return comm->size;
}

lull_role_t lull_comm_role(const lull_comm_t *comm) {
    return comm->role;
}

const char *lull_comm_policy(const lull_comm_t *comm) {
    return comm->rules;
}
