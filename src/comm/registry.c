/* Live communicators and requests of the process: a handle is looked up here
 * before it is followed, so that a freed one is an error and not a crash. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "engine.h"

static pthread_mutex_t registry = PTHREAD_MUTEX_INITIALIZER;
static lull_comm_t *comms;
/* Requests are never given back to malloc: a stale pointer to one still
 * points to a request, which says that it is not active. */
static lull_request_t *requests, *idle;

void lull__registry_add(lull_comm_t *comm) {
    pthread_mutex_lock(&registry);
    lull_comm_t **last = &comms;
    while (*last != NULL)
        last = &(*last)->next;
    *last = comm;
    comm->next = NULL;
    pthread_mutex_unlock(&registry);
}

void lull__registry_remove(lull_comm_t *comm) {
    pthread_mutex_lock(&registry);
    lull_comm_t **at = &comms;
    while (*at != NULL && *at != comm)
        at = &(*at)->next;
    if (*at != NULL)
        *at = comm->next;
    pthread_mutex_unlock(&registry);
}

bool lull__registry_has(const lull_comm_t *comm) {
    pthread_mutex_lock(&registry);
    const lull_comm_t *at = comms;
    while (at != NULL && at != comm)
        at = at->next;
    pthread_mutex_unlock(&registry);
    return at != NULL;
}

/* MPI_Finalize deletes the attributes of MPI_COMM_SELF first, while all of
 * MPI still works. The order of creation is the same on all ranks. */
static int on_finalize(MPI_Comm self, int keyval, void *value, void *extra) {
    (void)self, (void)keyval, (void)value, (void)extra;
    for (lull_comm_t *at = comms; at != NULL; at = at->next) {
        if (at->dead)
            continue;
        at->dead = true;
        if (at->broken[0] != '\0') {
            (void)lull__doubt_settle(at); /* others wait for it */
            continue;
        }
        lull__hier_free_comms(at);
        lull__engine_free_comms(at);
        lull__doubt_free_comms(at);
        MPI_Comm_free(&at->native);
    }
    return MPI_SUCCESS;
}

lull_status_t lull__registry_hook(void) {
    static bool hooked;
    int keyval = MPI_KEYVAL_INVALID, error = MPI_SUCCESS;
    pthread_mutex_lock(&registry);
    if (!hooked) {
        error = MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, on_finalize,
                                       &keyval, NULL);
        if (error == MPI_SUCCESS)
            error = MPI_Comm_set_attr(MPI_COMM_SELF, keyval, NULL);
        hooked = error == MPI_SUCCESS;
    }
    pthread_mutex_unlock(&registry);
    return error == MPI_SUCCESS
               ? LULL_OK
               : lull__fail_mpi(error, "MPI_Comm_set_attr", NULL);
}

lull_status_t lull__request_new(const lull__call_t *call,
                                lull_request_t **out) {
    pthread_mutex_lock(&registry);
    lull_request_t *request = idle;
    if (request != NULL)
        idle = request->next;
    pthread_mutex_unlock(&registry);
    if (request == NULL)
        request = calloc(1, sizeof *request);
    if (request == NULL)
        return lull__fail(LULL_ERR_NO_MEMORY, "a request");
    request->call = *call;
    request->sub_count = request->next_sub = request->got = 0;
    request->error = MPI_SUCCESS;
    request->scratch = NULL;
    request->finish = NULL;
    request->is_op = false;
    request->done = false;
    request->status = LULL_OK;
    pthread_mutex_lock(&registry);
    request->active = true;
    request->next = requests;
    requests = request;
    pthread_mutex_unlock(&registry);
    return *out = request, LULL_OK;
}

bool lull__request_is(const lull_request_t *request) {
    return request->active;
}

void lull__request_free(lull_request_t *request) {
    free(request->scratch);
    request->scratch = NULL;
    pthread_mutex_lock(&registry);
    lull_request_t **at = &requests;
    while (*at != request)
        at = &(*at)->next;
    *at = request->next;
    request->active = false;
    request->next = idle;
    idle = request;
    pthread_mutex_unlock(&registry);
}

/* Under the engine's lock too: one that another thread has just completed is
 * not done with its communicator before the round ends. */
lull_request_t *lull__request_of(const lull_comm_t *comm) {
    lull__engine_lock();
    pthread_mutex_lock(&registry);
    lull_request_t *at = requests;
    while (at != NULL && (at->call.comm != comm || at->done))
        at = at->next;
    pthread_mutex_unlock(&registry);
    lull__engine_unlock();
    return at;
}
