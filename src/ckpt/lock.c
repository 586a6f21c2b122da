/* The lock of a directory; run ids, agreed by nonces. */
#include "lock.h"

#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#include "base/error.h"
#include "base/thread.h"
#include "naming.h"
#include "note.h"

struct lull__lock {
    lull__file_t file;
    lull__lock_t *next; /* of all that this process holds */
};

/* flock belongs to the open file, which a forked child shares: a child that
 * outlives its parent would keep the directory locked. So it closes them. */
static pthread_mutex_t held_lock = PTHREAD_MUTEX_INITIALIZER;
static lull__lock_t *held;
static pthread_once_t at_fork = PTHREAD_ONCE_INIT;

static void fork_prepare(void) {
    pthread_mutex_lock(&held_lock);
}

static void fork_parent(void) {
    pthread_mutex_unlock(&held_lock);
}

static void fork_child(void) {
    for (lull__lock_t *lock = held; lock != NULL; lock = lock->next)
        close(lock->file.fd);
    held = NULL;
    pthread_mutex_unlock(&held_lock);
}

static void install_fork(void) {
    pthread_atfork(fork_prepare, fork_parent, fork_child);
}

static lull_status_t busy(const lull__dir_t *lull) {
    char *text = NULL;
    uint64_t n = 0;
    if (lull__file_slurp(lull, LULL__LOCK_FILE, 512, &text, &n) != LULL_OK)
        text = NULL;
    if (text != NULL)
        text[strcspn(text, "\n")] = '\0';
    lull_status_t status =
        lull__fail(LULL_ERR_BUSY, "%s: another run writes here: %s", lull->path,
                   text && text[0] ? text : "(it has not said who it is)");
    free(text);
    return status;
}

/* Who holds it, for the sentence of a BUSY elsewhere. */
static lull_status_t sign(const lull__file_t *file, const char *run_id) {
    char host[128] = "?", text[320];
    gethostname(host, sizeof host - 1);
    int n = snprintf(text, sizeof text, "host %s pid %ld run %s\n", host,
                     (long)getpid(), run_id);
    lull_status_t status = lull__file_truncate(file, 0);
    return status != LULL_OK ? status
                             : lull__file_write(file, text, (uint64_t)n, 0);
}

lull_status_t lull__lock_take(const lull__dir_t *lull, const char *run_id,
                              lull__lock_t **out) {
    lull__lock_t *lock = calloc(1, sizeof *lock);
    if (lock == NULL)
        return lull__fail(LULL_ERR_NO_MEMORY, "%s: the lock", lull->path);
    pthread_once(&at_fork, install_fork);
    lull_status_t status =
        lull__file_open(lull, LULL__LOCK_FILE, O_RDWR | O_CREAT, &lock->file);
    if (status != LULL_OK)
        goto free_lock;
    status = lull__file_lock(&lock->file, LOCK_EX | LOCK_NB);
    if (status == LULL_ERR_BUSY)
        status = busy(lull);
    if (status == LULL_OK)
        status = sign(&lock->file, run_id);
    if (status != LULL_OK)
        goto close_file;
    pthread_mutex_lock(&held_lock);
    lock->next = held;
    held = lock;
    pthread_mutex_unlock(&held_lock);
    *out = lock;
    return LULL_OK;

close_file:
    (void)lull__file_close(&lock->file);
free_lock:
    free(lock);
    return status;
}

void lull__lock_drop(lull__lock_t *lock) {
    if (lock == NULL)
        return;
    pthread_mutex_lock(&held_lock);
    for (lull__lock_t **at = &held; *at != NULL; at = &(*at)->next)
        if (*at == lock) {
            *at = lock->next;
            break;
        }
    pthread_mutex_unlock(&held_lock);
    (void)lull__file_close(&lock->file);
    free(lock);
}

static uint64_t random_bits(void) {
    uint64_t bits;
    if (getrandom(&bits, sizeof bits, 0) != (ssize_t)sizeof bits) {
        struct timespec now;
        clock_gettime(CLOCK_REALTIME, &now);
        bits = (uint64_t)now.tv_nsec * 0x9e3779b97f4a7c15u ^ (uint64_t)getpid()
                                                                 << 32;
    }
    return bits;
}

void lull__run_id_make(char out[LULL_RUN_ID_MAX]) {
    snprintf(out, LULL_RUN_ID_MAX, "%llx-%016" PRIx64,
             (unsigned long long)time(NULL), random_bits());
}

/* ---- joining ---- */

#define POLL_S 0.002

static void name_of(lull__entry_name_t out, const char *kind, uint32_t rank,
                    uint64_t nonce) {
    snprintf(out, LULL__ENTRY_MAX, "%s-%" PRIu32 "-%016" PRIx64, kind, rank,
             nonce);
}

static void name_joined(lull__entry_name_t out, const char *run_id,
                        uint32_t rank) {
    snprintf(out, LULL__ENTRY_MAX, "joined-%s-%" PRIu32, run_id, rank);
}

static bool is_joined(const char *name, const char *run_id, unsigned *rank) {
    size_t n = strlen(run_id);
    return strncmp(name, "joined-", 7) == 0 &&
           strncmp(name + 7, run_id, n) == 0 &&
           sscanf(name + 7 + n, "-%u", rank) == 1;
}

typedef struct leading {
    const lull__join_t *join;
    const char *run_id;
    bool *joined;
    uint32_t missing;
    lull_status_t status;
} leading_t;

static lull_status_t answer(const leading_t *lead, uint32_t rank,
                            uint64_t nonce) {
    lull__entry_name_t hello, reply;
    name_of(hello, "hello", rank, nonce);
    name_of(reply, "reply", rank, nonce);
    lull__note_t note = {.kind = "reply", .number = nonce};
    snprintf(note.run_id, sizeof note.run_id, "%s", lead->run_id);
    lull_status_t status = lull__note_write(lead->join->lull, reply, &note);
    if (status == LULL_OK)
        status = lull__dir_unlink(lead->join->lull, hello);
    return status;
}

static int look(void *ctx, const char *name) {
    leading_t *lead = ctx;
    unsigned rank;
    uint64_t nonce;
    lull__entry_name_t expected;
    if (sscanf(name, "hello-%u-%" SCNx64, &rank, &nonce) == 2) {
        name_of(expected, "hello", rank, nonce);
        if (strcmp(expected, name) == 0)
            lead->status = answer(lead, rank, nonce);
    }
    if (is_joined(name, lead->run_id, &rank) && rank < lead->join->world &&
        rank > 0 && !lead->joined[rank]) {
        lead->joined[rank] = true;
        lead->missing--;
    }
    return lead->status != LULL_OK;
}

static int sweep_joins(void *ctx, const char *name) {
    if (strncmp(name, "joined-", 7) == 0 || strncmp(name, "reply-", 6) == 0 ||
        strncmp(name, "hello-", 6) == 0)
        (void)lull__dir_unlink(ctx, name);
    return 0;
}

static lull_status_t too_late(const leading_t *lead) {
    uint32_t rank = 1;
    while (lead->joined[rank])
        rank++;
    return lull__fail(LULL_ERR_TIMEOUT,
                      "%s: %" PRIu32 " of %" PRIu32
                      " ranks did not come to agree on a run id; the first is "
                      "rank %" PRIu32,
                      lead->join->lull->path, lead->missing, lead->join->world,
                      rank);
}

lull_status_t lull__join_lead(const lull__join_t *join, const char *run_id) {
    if (join->world == 1)
        return LULL_OK;
    leading_t lead = {join, run_id, NULL, join->world - 1, LULL_OK};
    lead.joined = calloc(join->world, sizeof *lead.joined);
    if (lead.joined == NULL)
        return lull__fail(LULL_ERR_NO_MEMORY, "agreeing on a run id");
    lull_status_t status;
    for (;;) {
        bool late = lull__now() > join->deadline; /* before it looks */
        status = lull__dir_list(join->lull, look, &lead);
        if (status == LULL_OK)
            status = lead.status;
        if (status != LULL_OK || lead.missing == 0)
            break;
        if (late) {
            status = too_late(&lead);
            break;
        }
        lull__sleep(POLL_S);
    }
    if (status == LULL_OK)
        (void)lull__dir_list(join->lull, sweep_joins, (void *)join->lull);
    free(lead.joined);
    return status;
}

static lull_status_t say_joined(const lull__join_t *join, const char *run_id) {
    lull__entry_name_t name;
    name_joined(name, run_id, join->rank);
    lull__note_t note = {.kind = "joined", .rank = join->rank};
    snprintf(note.run_id, sizeof note.run_id, "%s", run_id);
    return lull__note_write(join->lull, name, &note);
}

lull_status_t lull__join_follow(const lull__join_t *join,
                                char run_id[LULL_RUN_ID_MAX]) {
    uint64_t nonce = random_bits();
    lull__entry_name_t hello, reply;
    name_of(hello, "hello", join->rank, nonce);
    name_of(reply, "reply", join->rank, nonce);
    lull__note_t note = {.kind = "hello", .run_id = "-", .rank = join->rank};
    lull_status_t status = lull__note_write(join->lull, hello, &note);
    if (status != LULL_OK)
        return status;
    for (;;) {
        bool late = lull__now() > join->deadline; /* before it looks */
        status = lull__note_read(join->lull, reply, &note);
        if (status != LULL_ERR_NOT_FOUND)
            break;
        if (late) {
            (void)lull__dir_unlink(join->lull, hello);
            return lull__fail(LULL_ERR_TIMEOUT,
                              "%s: rank 0 gave no run id to rank %" PRIu32,
                              join->lull->path, join->rank);
        }
        lull__sleep(POLL_S);
    }
    if (status != LULL_OK)
        return status;
    memcpy(run_id, note.run_id, LULL_RUN_ID_MAX);
    return say_joined(join, run_id);
}
