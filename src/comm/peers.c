/* Messages of checkpoints' ranks over MPI: what lull_ckpt_options_t.agree
 * wants. Point to point, with rounds in every message, so that ranks which
 * gave up, or are late, find their place again. */
#include <inttypes.h>
#include <lull/ckpt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/decimal.h"
#include "internal.h"

#define PIECE_MAX ((uint64_t)64 << 20)
enum { TAG_GATHER = 1, TAG_SPREAD = 2 };

typedef struct head {
    uint64_t round, total, offset;
} head_t;

/* A piece on its way; it may get there long after the call. */
typedef struct sent {
    struct sent *next;
    MPI_Request request;
    char data[]; /* head, bytes */
} sent_t;

/* What has come of a rank's message. */
typedef struct inbox {
    uint64_t round, total, have;
    char *data; /* NULL: nothing */
} inbox_t;

struct lull_peers {
    MPI_Comm comm;
    int rank, size;
    sent_t *sent;
    inbox_t *inboxes; /* [size]; ranks but 0 use the first */
};

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Longer from time to time, as the other thread needs the core. */
static void nap(unsigned *turn) {
    unsigned long ns = 20000ul << (*turn < 7 ? *turn : 7);
    struct timespec t = {0, (long)ns};
    ++*turn;
    nanosleep(&t, NULL);
}

/* ---- sending ---- */

static void reap(lull_peers_t *peers) {
    for (sent_t **at = &peers->sent; *at != NULL;) {
        sent_t *sent = *at;
        int done = 0;
        MPI_Test(&sent->request, &done, MPI_STATUS_IGNORE);
        if (!done) {
            at = &sent->next;
            continue;
        }
        *at = sent->next;
        free(sent);
    }
}

static lull_status_t post(lull_peers_t *peers, int to, int tag,
                          const lull_ckpt_agree_t *call) {
    head_t head = {call->round, call->bytes, 0};
    do {
        uint64_t n = call->bytes - head.offset;
        n = n < PIECE_MAX ? n : PIECE_MAX;
        sent_t *sent = malloc(sizeof *sent + sizeof head + n);
        if (sent == NULL)
            return lull__fail(LULL_ERR_NO_MEMORY,
                              "a message of %" PRIu64 " bytes", n);
        memcpy(sent->data, &head, sizeof head);
        if (n > 0)
            memcpy(sent->data + sizeof head,
                   (const char *)call->data + head.offset, n);
        int error = MPI_Isend(sent->data, (int)(sizeof head + n), MPI_BYTE, to,
                              tag, peers->comm, &sent->request);
        if (error != MPI_SUCCESS) {
            free(sent);
            return lull__fail_mpi(error, "MPI_Isend", NULL);
        }
        sent->next = peers->sent;
        peers->sent = sent;
        head.offset += n;
    } while (head.offset < call->bytes);
    return LULL_OK;
}

/* ---- receiving ---- */

static void empty(inbox_t *inbox) {
    free(inbox->data);
    *inbox = (inbox_t){0};
}

static bool is_whole(const inbox_t *inbox) {
    return inbox->data != NULL && inbox->have == inbox->total;
}

/* Puts a piece behind those before it; one of a round before `round` is
 * dropped. Room grows with what comes, whatever the head claims. */
static lull_status_t put(inbox_t *inbox, int from, const char *piece,
                         size_t bytes, uint64_t round) {
    head_t head = {0};
    uint64_t n = bytes - sizeof head;
    if (bytes >= sizeof head)
        memcpy(&head, piece, sizeof head);
    if (bytes < sizeof head || head.offset > head.total ||
        n > head.total - head.offset)
        return lull__fail(LULL_ERR_MISMATCH,
                          "rank %d sent a message that is none", from);
    if (head.round < round)
        return LULL_OK;
    if (inbox->round != head.round || inbox->total != head.total)
        empty(inbox);
    if (head.offset != inbox->have) /* pieces of one sender come in order */
        return lull__fail(LULL_ERR_MISMATCH,
                          "rank %d sent a piece from byte %" PRIu64
                          " on, of which %" PRIu64 " were there",
                          from, head.offset, inbox->have);
    char *data = realloc(inbox->data, inbox->have + n + 1);
    if (data == NULL)
        return lull__fail(LULL_ERR_NO_MEMORY,
                          "a message of %" PRIu64 " bytes of rank %d",
                          head.total, from);
    memcpy(data + inbox->have, piece + sizeof head, n);
    *inbox = (inbox_t){head.round, head.total, inbox->have + n, data};
    return LULL_OK;
}

/* One piece, if there is one. */
static lull_status_t take_piece(lull_peers_t *peers, int from, int tag,
                                inbox_t *inbox, uint64_t round, bool *came) {
    MPI_Message message;
    MPI_Status about;
    int flag = 0, bytes = 0;
    *came = false;
    int error = MPI_Improbe(from, tag, peers->comm, &flag, &message, &about);
    if (error != MPI_SUCCESS)
        return lull__fail_mpi(error, "MPI_Improbe", NULL);
    if (!flag)
        return LULL_OK;
    MPI_Get_count(&about, MPI_BYTE, &bytes);
    char *piece = malloc((size_t)bytes + 1);
    if (piece == NULL)
        return lull__fail(LULL_ERR_NO_MEMORY, "a message of %d bytes", bytes);
    error = MPI_Mrecv(piece, bytes, MPI_BYTE, &message, MPI_STATUS_IGNORE);
    lull_status_t status =
        error != MPI_SUCCESS ? lull__fail_mpi(error, "MPI_Mrecv", NULL)
        : inbox != NULL
            ? put(inbox, about.MPI_SOURCE, piece, (size_t)bytes, round)
            : LULL_OK;
    free(piece);
    *came = true;
    return status;
}

/* *done: the message of this round was taken; *ahead: it never comes, the rank
 * is in a later round. */
static lull_status_t take_from(lull_peers_t *peers, int from,
                               const lull_ckpt_agree_t *call, bool *done,
                               bool *ahead) {
    inbox_t *inbox = &peers->inboxes[from];
    int tag = call->op == LULL_CKPT_GATHER ? TAG_GATHER : TAG_SPREAD;
    bool came = true;
    lull_status_t status = LULL_OK;
    *done = *ahead = false;
    if (inbox->data != NULL && inbox->round < call->round)
        empty(inbox);
    while (status == LULL_OK && came && !is_whole(inbox))
        status = take_piece(peers, from, tag, inbox, call->round, &came);
    if (status != LULL_OK || !is_whole(inbox))
        return status;
    if (inbox->round > call->round) {
        *ahead = true;
        return LULL_OK;
    }
    call->take(call, (uint32_t)from, inbox->data, inbox->total);
    empty(inbox);
    *done = true;
    return LULL_OK;
}

/* The wait ends without the messages of `left` ranks. */
static lull_status_t end_early(const lull_ckpt_agree_t *call,
                               lull_status_t status, int rank, int left) {
    char others[40] = "", when[40] = "before it was cancelled";
    if (left > 1)
        snprintf(others, sizeof others, " and %d others", left - 1);
    if (status == LULL_ERR_TIMEOUT)
        lull__decimal_print(when, sizeof when, "within %g s", call->timeout_s);
    return lull__fail(status,
                      "no message of round %" PRIu64 " came from rank %d%s %s",
                      call->round, rank, others, when);
}

/* From each of ranks first .. end. */
static lull_status_t wait_for(lull_peers_t *peers,
                              const lull_ckpt_agree_t *call, int first,
                              int end) {
    double deadline = now() + call->timeout_s;
    unsigned turn = 0;
    int left = end - first, missing = first, lost = -1;
    bool *done = calloc((size_t)end, sizeof *done);
    lull_status_t status = LULL_OK;
    if (done == NULL)
        return lull__fail(LULL_ERR_NO_MEMORY, "%d ranks", end);
    while (status == LULL_OK) {
        bool late = now() > deadline; /* before it looks */
        for (int r = first; status == LULL_OK && r < end; r++) {
            bool taken, ahead;
            if (done[r])
                continue;
            status = take_from(peers, r, call, &taken, &ahead);
            done[r] = taken || ahead;
            left -= done[r];
            lost = ahead ? r : lost;
        }
        while (missing + 1 < end && done[missing])
            missing++;
        reap(peers);
        if (status != LULL_OK || left == 0)
            break;
        if (call->cancelled(call))
            status = end_early(call, LULL_ERR_CANCELLED, missing, left);
        else if (late)
            status = end_early(call, LULL_ERR_TIMEOUT, missing, left);
        else
            nap(&turn);
    }
    free(done);
    if (status != LULL_OK || lost < 0)
        return status;
    return lull__fail(LULL_ERR_TIMEOUT, "rank %d has left round %" PRIu64, lost,
                      call->round);
}

/* ---- the calls ---- */

lull_status_t lull_peers_agree(void *ctx, const lull_ckpt_agree_t *call) {
    lull_peers_t *peers = ctx;
    lull_status_t status = LULL_OK;
    if ((int)call->rank != peers->rank || (int)call->world != peers->size)
        return lull__fail(LULL_ERR_INVALID,
                          "lull_peers_agree: rank %d of %d of the communicator "
                          "is rank %" PRIu32 " of %" PRIu32 " of the engine",
                          peers->rank, peers->size, call->rank, call->world);
    reap(peers);
    if (call->op == LULL_CKPT_GATHER) {
        if (peers->rank != 0)
            return post(peers, 0, TAG_GATHER, call);
        call->take(call, 0, call->data, call->bytes);
        return wait_for(peers, call, 1, peers->size);
    }
    if (peers->rank != 0)
        return wait_for(peers, call, 0, 1);
    for (int r = 1; status == LULL_OK && r < peers->size; r++)
        status = post(peers, r, TAG_SPREAD, call);
    return status;
}

static lull_status_t check_threads(MPI_Comm comm) {
    int up = 0, down = 0, level = 0;
    MPI_Initialized(&up);
    if (up)
        MPI_Finalized(&down);
    if (!up || down)
        return lull__fail(LULL_ERR_STATE, "lull_peers_create: MPI is %s",
                          up ? "finalised" : "not initialised");
    if (comm == MPI_COMM_NULL)
        return lull__fail(LULL_ERR_INVALID,
                          "lull_peers_create: comm is MPI_COMM_NULL");
    MPI_Query_thread(&level);
    if (level < MPI_THREAD_MULTIPLE)
        return lull__fail(LULL_ERR_UNSUPPORTED,
                          "lull_peers_create: MPI gives thread level %d, "
                          "MPI_THREAD_MULTIPLE (%d) is needed: a background "
                          "thread talks",
                          level, MPI_THREAD_MULTIPLE);
    return LULL_OK;
}

lull_status_t lull_peers_create(MPI_Comm comm, lull_peers_t **out) {
    lull_status_t status = check_threads(comm);
    if (status != LULL_OK)
        return status;
    lull_peers_t *peers = calloc(1, sizeof *peers);
    int size = 0, fine, all;
    MPI_Comm_size(comm, &size);
    if (peers != NULL)
        peers->inboxes = calloc((size_t)size, sizeof *peers->inboxes);
    fine = out != NULL && peers != NULL && peers->inboxes != NULL;
    int error = MPI_Allreduce(&fine, &all, 1, MPI_INT, MPI_MIN, comm);
    if (error == MPI_SUCCESS && all)
        error = MPI_Comm_dup(comm, &peers->comm);
    if (error != MPI_SUCCESS || !all) {
        if (peers != NULL)
            free(peers->inboxes);
        free(peers);
        return error != MPI_SUCCESS
                   ? lull__fail_mpi(error, "lull_peers_create", NULL)
               : out == NULL
                   ? lull__fail(LULL_ERR_INVALID,
                                "lull_peers_create: out is NULL")
                   : lull__fail(LULL_ERR_NO_MEMORY, "peers of a checkpoint");
    }
    MPI_Comm_set_errhandler(peers->comm, MPI_ERRORS_RETURN);
    MPI_Comm_rank(peers->comm, &peers->rank);
    peers->size = size;
    *out = peers;
    return LULL_OK;
}

/* Late messages are received and dropped, until all ranks' have arrived. */
static void drain(lull_peers_t *peers) {
    MPI_Request barrier = MPI_REQUEST_NULL;
    bool begun = false, came;
    unsigned turn = 0;
    for (int done = 0; !done;) {
        reap(peers);
        do
            if (take_piece(peers, MPI_ANY_SOURCE, MPI_ANY_TAG, NULL, 0,
                           &came) != LULL_OK)
                return;
        while (came);
        if (!begun && peers->sent == NULL) {
            begun = true;
            if (MPI_Ibarrier(peers->comm, &barrier) != MPI_SUCCESS)
                return;
        }
        if (begun)
            MPI_Test(&barrier, &done, MPI_STATUS_IGNORE);
        if (!done)
            nap(&turn);
    }
}

void lull_peers_destroy(lull_peers_t *peers) {
    int down = 0;
    if (peers == NULL)
        return;
    MPI_Finalized(&down);
    if (!down) {
        drain(peers);
        MPI_Comm_free(&peers->comm);
    }
    for (int r = 0; r < peers->size; r++)
        empty(&peers->inboxes[r]);
    free(peers->inboxes);
    free(peers);
}
