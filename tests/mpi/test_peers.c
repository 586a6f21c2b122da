/* Engines of several processes in directories of their own, agreeing over MPI:
 * commit, restart, a rank that fails, is late, or leaves. */
#include <dirent.h>
#include <lull/ckpt.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "support_mpi.h"

#define ROWS 1000

static char dir[256];
static float rows[ROWS];

static void make_dir(void) {
    char base[200] = "";
    const char *tmp = getenv("TMPDIR");
    if (test_rank == 0) {
        snprintf(base, sizeof base, "%s/lull-peers-XXXXXX", tmp ? tmp : "/tmp");
        CHECK(mkdtemp(base) != NULL);
    }
    MPI_Bcast(base, sizeof base, MPI_CHAR, 0, MPI_COMM_WORLD);
    snprintf(dir, sizeof dir, "%s/node%d", base, test_rank / 2);
}

static void drop_dir(void) {
    char command[300];
    MPI_Barrier(MPI_COMM_WORLD);
    if (test_rank == 0) {
        *strrchr(dir, '/') = '\0';
        snprintf(command, sizeof command, "rm -rf '%s'", dir);
        CHECK(system(command) == 0);
    }
}

/* While set, who is waited for in vain is given up soon; atomic. */
static bool hurry;

static lull_status_t agree(void *peers, const lull_ckpt_agree_t *call) {
    lull_ckpt_agree_t sooner = *call;
    if (__atomic_load_n(&hurry, __ATOMIC_SEQ_CST))
        sooner.timeout_s /= 100;
    return lull_peers_agree(peers, &sooner);
}

static void set_hurry(bool now) {
    __atomic_store_n(&hurry, now, __ATOMIC_SEQ_CST);
}

static lull_ckpt_t *open_engine(lull_peers_t *peers) {
    lull_ckpt_options_t options = LULL_CKPT_OPTIONS_INIT;
    lull_ckpt_t *ckpt;
    options.dir = dir;
    options.rank = (uint32_t)test_rank;
    options.world = (uint32_t)test_size;
    options.buffer_bytes = 1 << 20;
    options.commit_timeout_s = 200;
    options.keep_last = 2;
    options.agree = agree;
    options.agree_ctx = peers;
    CHECK_OK(lull_ckpt_open(&options, &ckpt));
    return ckpt;
}

static uint64_t edge(int rank) {
    return (uint64_t)(ROWS * rank / test_size);
}

static void fill_rows(uint64_t step) {
    for (int i = 0; i < ROWS; i++)
        rows[i] = (float)(1000 * step) + (float)i;
}

static lull_status_t save(lull_ckpt_t *ckpt, uint64_t step, bool whole) {
    lull_ckpt_tensor_t tensor = LULL_CKPT_TENSOR_INIT;
    lull_ckpt_save_t what = LULL_CKPT_SAVE_INIT;
    fill_rows(step);
    tensor.name = "rows";
    tensor.dtype = LULL_F32;
    tensor.ndim = 1;
    tensor.global_shape[0] = ROWS;
    tensor.offset[0] = edge(test_rank);
    tensor.shape[0] = edge(test_rank + 1) - edge(test_rank);
    tensor.data = whole ? rows + tensor.offset[0] : NULL;
    what.step = step;
    what.tensors = &tensor;
    what.tensor_count = 1;
    lull_status_t status = lull_ckpt_save(ckpt, &what, NULL);
    return status != LULL_OK
               ? status
               : lull_ckpt_wait_committed(ckpt, NULL, LULL_FOREVER);
}

static void check_newest(uint64_t step) {
    lull_ckpt_id_t id;
    lull_ckpt_info_t *info;
    float back[ROWS];
    lull_ckpt_slice_t slice = LULL_CKPT_SLICE_INIT;
    CHECK_OK(lull_ckpt_find(dir, NULL, &id));
    uint64_t ends[2] = {id.seq, ~id.seq};
    MPI_Allreduce(MPI_IN_PLACE, ends, 2, MPI_UINT64_T, MPI_MAX, MPI_COMM_WORLD);
    CHECK(ends[0] == id.seq && ends[1] == ~id.seq && id.step == step);
    CHECK_OK(lull_ckpt_info_open(dir, id, &info));
    slice.name = "rows";
    slice.dtype = LULL_F32;
    slice.ndim = 1;
    slice.global_shape[0] = ROWS;
    slice.offset[0] = edge(test_rank);
    slice.shape[0] = edge(test_rank + 1) - edge(test_rank);
    slice.data = back;
    CHECK_OK(lull_ckpt_load(info, &slice, 1, NULL));
    fill_rows(step);
    CHECK(memcmp(back, rows + slice.offset[0], 4 * slice.shape[0]) == 0);
    if (test_size > 2) {
        slice.offset[0] = 0;
        slice.shape[0] = ROWS;
        CHECK_FAILS(lull_ckpt_load(info, &slice, 1, NULL), LULL_ERR_NOT_FOUND,
                    "/node");
    }
    lull_ckpt_info_destroy(info);
}

static void commits(lull_peers_t *peers) {
    lull_ckpt_t *ckpt = open_engine(peers);
    for (uint64_t step = 1; step < 20; step++)
        CHECK_OK(save(ckpt, step, true));
    CHECK_OK(lull_ckpt_close(ckpt));
    lull_ckpt_destroy(ckpt);
    check_newest(19);
}

/* A bad save of the last rank is nobody's; the next is everybody's. */
static void fails(lull_peers_t *peers) {
    lull_ckpt_t *ckpt = open_engine(peers);
    bool last = test_rank == test_size - 1;
    lull_status_t status = save(ckpt, 20, !last);
    CHECK(status == (last ? LULL_ERR_INVALID : LULL_ERR_ABORTED));
    CHECK(strstr(lull_last_error(), "rows") != NULL);
    CHECK_OK(save(ckpt, 21, true));
    CHECK_OK(lull_ckpt_close(ckpt));
    lull_ckpt_destroy(ckpt);
    check_newest(21);
}

/* The last rank comes too late: given up by all, and so told; then all go on
 * together. */
static void is_late(lull_peers_t *peers) {
    bool last = test_rank == test_size - 1;
    lull_ckpt_t *ckpt = open_engine(peers);
    set_hurry(!last);
    if (last)
        MPI_Barrier(MPI_COMM_WORLD);
    lull_status_t status = save(ckpt, 22, true);
    CHECK((status == LULL_OK) == (test_size == 1));
    if (!last)
        MPI_Barrier(MPI_COMM_WORLD);
    set_hurry(false);
    MPI_Barrier(MPI_COMM_WORLD);
    CHECK_OK(save(ckpt, 23, true));
    /* One rank leaves without a word. */
    set_hurry(true);
    if (!last)
        (void)save(ckpt, 24, true);
    lull_ckpt_destroy(ckpt);
}

/* ---- What a peer may do ------------------------------------------------- */

/* The peers' own duplicate, so that a rank can send on it what lull would
 * not. */
static MPI_Comm duplicate;

int MPI_Comm_dup(MPI_Comm comm, MPI_Comm *out) {
    int error = PMPI_Comm_dup(comm, out);
    duplicate = *out;
    return error;
}

static int cancel_after;

static bool is_cancelled(const lull_ckpt_agree_t *call) {
    (void)call;
    return cancel_after > 0 && --cancel_after == 0;
}

static char taken[64];

static void take(const lull_ckpt_agree_t *call, uint32_t rank, const void *data,
                 uint64_t bytes) {
    (void)call;
    if (rank == (uint32_t)test_size - 1)
        snprintf(taken, sizeof taken, "%.*s", (int)bytes, (const char *)data);
}

/* A gather of two bytes of each rank; in the first round one says nothing. */
static lull_status_t gather(lull_peers_t *peers, uint64_t round) {
    lull_ckpt_agree_t call = {.size = sizeof call,
                              .op = LULL_CKPT_GATHER,
                              .round = round,
                              .rank = (uint32_t)test_rank,
                              .world = (uint32_t)test_size,
                              .data = "ok",
                              .bytes = 2,
                              .timeout_s = round == 1 ? 1 : 200,
                              .take = take,
                              .cancelled = is_cancelled};
    taken[0] = '\0';
    return lull_peers_agree(peers, &call);
}

/* One piece as of the gather of a round: total and offset are claims. */
static void claim(uint64_t round, uint64_t total, uint64_t offset,
                  const char *text) {
    struct {
        uint64_t round, total, offset;
        char text[8];
    } piece = {round, total, offset, ""};
    size_t n = strlen(text);
    memcpy(piece.text, text, n);
    MPI_Send(&piece, (int)(24 + n), MPI_BYTE, 0, 1, duplicate);
}

/* Of rank 0's gather, when all have sent what they send. */
static void expect(lull_peers_t *peers, uint64_t round, lull_status_t status,
                   const char *word) {
    char name[24];
    if (test_rank != 0 && test_rank != test_size - 1)
        CHECK_OK(gather(peers, round));
    MPI_Barrier(MPI_COMM_WORLD);
    if (test_rank == 0) {
        CHECK_FAILS(gather(peers, round), status, word);
        snprintf(name, sizeof name, "rank %d ", test_size - 1);
        CHECK(strstr(lull_last_error(), name) != NULL);
    }
    MPI_Barrier(MPI_COMM_WORLD);
}

/* Nothing that the last rank sends makes rank 0 take more memory than came,
 * or end without a word. */
static void hostile_peer(lull_peers_t *peers) {
    bool last = test_rank == test_size - 1;
    struct rlimit all, few = {(rlim_t)64 << 30, RLIM_INFINITY};
    if (test_size == 1)
        return;
    CHECK(getrlimit(RLIMIT_AS, &all) == 0);
    few.rlim_max = all.rlim_max;
    CHECK(setrlimit(RLIMIT_AS, &few) == 0); /* a claim of 1 TiB fails */
    if (last)
        claim(1, (uint64_t)1 << 40, 0, "some");
    expect(peers, 1, LULL_ERR_TIMEOUT, "no message of round 1");
    CHECK(setrlimit(RLIMIT_AS, &all) == 0);
    if (last)
        claim(2, 8, 4, "late");
    expect(peers, 2, LULL_ERR_MISMATCH, "from byte 4");
    if (last)
        claim(3, 4, 8, "");
    expect(peers, 3, LULL_ERR_MISMATCH, "none");
    if (last)
        MPI_Send("short", 5, MPI_BYTE, 0, 1, duplicate);
    expect(peers, 4, LULL_ERR_MISMATCH, "none");
    cancel_after = test_rank == 0 ? 3 : 0;
    expect(peers, 5, LULL_ERR_CANCELLED, "cancelled");
    if (last)
        CHECK_OK(gather(peers, 7));
    expect(peers, 6, LULL_ERR_TIMEOUT, "left round 6");
    /* In pieces, and of no bytes. */
    if (!last)
        CHECK_OK(gather(peers, 7));
    if (last)
        claim(8, 4, 0, "in"), claim(8, 4, 2, "to");
    else
        CHECK_OK(gather(peers, 8));
    CHECK(test_rank != 0 || strcmp(taken, "into") == 0);
    MPI_Barrier(MPI_COMM_WORLD);
}

int main(int argc, char **argv) {
    lull_peers_t *peers;
    int level;
    test_begin(&argc, &argv);
    MPI_Query_thread(&level);
    if (level < MPI_THREAD_MULTIPLE) {
        CHECK_FAILS(lull_peers_create(MPI_COMM_WORLD, &peers),
                    LULL_ERR_UNSUPPORTED, "MPI_THREAD_MULTIPLE");
        if (test_rank == 0)
            printf("skipped: MPI gives no MPI_THREAD_MULTIPLE\n");
        MPI_Finalize();
        return 77;
    }
    make_dir();
    CHECK_OK(lull_peers_create(MPI_COMM_WORLD, &peers));
    commits(peers);
    lull_peers_destroy(peers);
    CHECK_OK(lull_peers_create(MPI_COMM_WORLD, &peers));
    fails(peers);
    lull_peers_destroy(peers);
    CHECK_OK(lull_peers_create(MPI_COMM_WORLD, &peers));
    hostile_peer(peers);
    lull_peers_destroy(peers);
    CHECK_OK(lull_peers_create(MPI_COMM_WORLD, &peers));
    is_late(peers);
    lull_peers_destroy(peers);
    lull_peers_destroy(NULL);
    drop_dir();
    return test_end();
}
