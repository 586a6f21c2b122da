/* Points 6 and 7: one decision for all ranks, and failures that hang nobody.
 * After each failure the same communicator works again. */
#include "comm/engine.h"
#include "support_mpi.h"

enum { N = 200000 }; /* several chunks a part on few ranks */

static lull_comm_t *comm;
static float *in, *out;
static int culprit;

/* All ranks hear of it, by name, from each other or from themselves. */
static void expect(const char *what, lull_status_t got, lull_status_t mine,
                   lull_status_t theirs) {
    lull_status_t want = test_rank == culprit ? mine : theirs;
    if (got != want)
        test_fail(__FILE__, __LINE__, "%s: %s, expected %s: %s", what,
                  lull_status_name(got), lull_status_name(want),
                  lull_last_error());
    char name[24];
    snprintf(name, sizeof name, "rank %d", culprit);
    if (test_rank != culprit && strstr(lull_last_error(), name) == NULL)
        test_fail(__FILE__, __LINE__, "%s: '%s' does not name %s", what,
                  lull_last_error(), name);
}

static void works_again(void) {
    for (int i = 0; i < N; i++)
        in[i] = (float)(i % 5);
    CHECK_OK(lull_allreduce(in, out, N, LULL_F32, LULL_SUM, comm));
    for (int i = 0; i < N; i++)
        CHECK(out[i] == (float)(test_size * (i % 5)));
}

static void other_count(void) {
    size_t mine = test_rank == culprit ? N / 2 : N;
    expect("count", lull_allreduce(in, out, mine, LULL_F32, LULL_SUM, comm),
           LULL_ERR_MISMATCH, LULL_ERR_MISMATCH);
    works_again();
    mine = test_rank == culprit ? N : 100;
    expect("count", lull_allreduce(in, out, mine, LULL_F32, LULL_SUM, comm),
           LULL_ERR_MISMATCH, LULL_ERR_MISMATCH);
    works_again();
}

static void other_type_op_or_call(void) {
    expect("dtype",
           lull_allreduce(in, out, N / 2,
                          test_rank == culprit ? LULL_F64 : LULL_F32, LULL_SUM,
                          comm),
           LULL_ERR_MISMATCH, LULL_ERR_MISMATCH);
    works_again();
    expect("op",
           lull_allreduce(in, out, N, LULL_F32,
                          test_rank == culprit ? LULL_AVG : LULL_SUM, comm),
           LULL_ERR_MISMATCH, LULL_ERR_MISMATCH);
    works_again();
    size_t block = N / (size_t)test_size;
    lull_status_t status =
        test_rank == culprit
            ? lull_allgather(in, out, block, LULL_F32, comm)
            : lull_allreduce(in, out, N, LULL_F32, LULL_SUM, comm);
    expect("call", status, LULL_ERR_MISMATCH, LULL_ERR_MISMATCH);
    works_again();
    status = test_rank == culprit
                 ? lull_allgather(in, out, block, LULL_F32, comm)
                 : lull_reduce_scatter_block(in, out, block, LULL_F32, LULL_SUM,
                                             comm);
    expect("call", status, LULL_ERR_MISMATCH, LULL_ERR_MISMATCH);
    works_again();
}

/* ---- An encode that fails ---------------------------------------------- */

static int encodes_left = -1;

static lull_status_t fail_encode(lull_comm_t *unused) {
    (void)unused;
    if (encodes_left < 0 || encodes_left-- != 0)
        return LULL_OK;
    return lull__fail(LULL_ERR_NO_MEMORY, "no memory, says the test");
}

static void failing_encode(void) {
    lull__test_encode = fail_encode;
    for (int n = 0; n < 6; n++) {
        encodes_left = test_rank == culprit ? n : -1;
        lull_status_t status =
            lull_allreduce(in, out, N, LULL_F32, LULL_SUM, comm);
        if (test_rank == culprit && encodes_left >= 0)
            test_fail(__FILE__, __LINE__, "encode %d was not reached", n);
        expect("encode", status, LULL_ERR_NO_MEMORY, LULL_ERR_PEER);
        CHECK(strstr(lull_last_error(), "says the test") != NULL);
        encodes_left = -1;
        works_again();
        if (n >= 2 * test_size - 3)
            break; /* few chunks on many ranks */
    }
    encodes_left = test_rank == culprit ? 0 : -1;
    lull_status_t status = lull_bcast(in, N, LULL_F32, culprit, comm);
    expect("bcast", status, LULL_ERR_NO_MEMORY, LULL_ERR_PEER);
    encodes_left = -1;
    works_again();
    encodes_left = test_rank == culprit ? 1 : -1;
    status = lull_allgather(in, out, N / (size_t)test_size, LULL_F32, comm);
    if (test_size <= 4) /* else there is one chunk */
        expect("allgather", status, LULL_ERR_NO_MEMORY, LULL_ERR_PEER);
    encodes_left = -1;
    works_again();
    lull__test_encode = NULL;
}

/* ---- A message that arrives damaged ------------------------------------ */

static int messages_left = -1;
static size_t damage_at;

static void damage(lull_comm_t *unused, unsigned char *message, size_t bytes) {
    (void)unused;
    if (messages_left < 0 || messages_left-- != 0)
        return;
    message[damage_at < bytes ? damage_at : bytes - 1] ^= 0x10;
}

static void corrupt_payload(void) {
    static const size_t places[] = {0, 5, 24, 63, 64, 70, 80, 96, 200, 100000};
    lull__test_message = damage;
    for (unsigned i = 0; i < sizeof places / sizeof *places; i++) {
        damage_at = places[i];
        messages_left = test_rank == culprit ? 0 : -1;
        lull_status_t status =
            lull_allreduce(in, out, N, LULL_F32, LULL_SUM, comm);
        CHECK(status == LULL_ERR_CORRUPT || status == LULL_ERR_PEER);
        works_again();
        if (test_rank == culprit) {
            messages_left = 1;
            CHECK_OK(lull_send(in, N, LULL_F32, 0, 1, comm));
        } else if (test_rank == 0) {
            CHECK_FAILS(lull_recv(out, N, LULL_F32, culprit, 1, comm),
                        LULL_ERR_CORRUPT, "from rank");
        }
        messages_left = -1;
        works_again();
    }
    lull__test_message = NULL;
}

static lull_status_t moved(unsigned call) {
    size_t part = N / (size_t)test_size;
    if (call == 0)
        return lull_bcast(in, N, LULL_F32, culprit, comm);
    if (call == 1)
        return lull_allgather(in, out, part, LULL_F32, comm);
    return lull_reduce_scatter_block(in, out, part, LULL_F32, LULL_AVG, comm);
}

/* Other calls: some rank finds it, none hangs or takes it for good. */
static void corrupt_elsewhere(const char *policy) {
    static const size_t places[] = {6, 70, 90, 5000};
    lull_comm_t *whole = comm;
    CHECK_OK(lull_comm_create(MPI_COMM_WORLD, LULL_ROLE_TP, policy, &comm));
    lull__test_message = damage;
    for (unsigned i = 0; i < 12; i++) {
        int bad, found;
        damage_at = places[i % 4];
        messages_left = test_rank == culprit ? 0 : -1;
        lull_status_t status = moved(i / 4);
        CHECK(status == LULL_OK || status == LULL_ERR_CORRUPT ||
              status == LULL_ERR_PEER);
        bad = status != LULL_OK;
        MPI_Allreduce(&bad, &found, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
        CHECK(found > 0);
        messages_left = -1;
        works_again();
    }
    lull__test_message = NULL;
    lull_comm_destroy(comm);
    comm = whole;
}

/* ---- Messages between two ranks ---------------------------------------- */

static void pair_of_other_counts(void) {
    static const size_t sent[] = {N, N / 4, 0, N, 10, N};
    static const size_t expected[] = {N / 4, N, N, 0, N, 10};
    for (unsigned i = 0; i < 6; i++) {
        if (test_rank == culprit) {
            CHECK_OK(lull_send(in, sent[i], LULL_F32, 0, 9, comm));
            CHECK_OK(lull_send(in, 70000, LULL_F32, 0, 9, comm));
        } else if (test_rank == 0) {
            CHECK_FAILS(lull_recv(out, expected[i], LULL_F32, culprit, 9, comm),
                        LULL_ERR_MISMATCH, "rank");
            memset(out, 0, 70000 * 4);
            CHECK_OK(lull_recv(out, 70000, LULL_F32, culprit, 9, comm));
            CHECK(memcmp(in, out, 70000 * 4) == 0);
        }
    }
    works_again();
}

/* ---- Agreement --------------------------------------------------------- */

static void differ(const char *common, const char *other, const char *word) {
    lull_comm_t *made = NULL;
    const char *mine = test_rank == culprit ? other : common;
    CHECK_FAILS(lull_comm_create(MPI_COMM_WORLD, LULL_ROLE_DP, mine, &made),
                LULL_ERR_MISMATCH, word);
    char name[24];
    snprintf(name, sizeof name, "rank %d ", culprit);
    CHECK(made == NULL && strstr(lull_last_error(), name) != NULL);
}

static void point_6_one_decision(void) {
    differ("zfp:8", "zfp:16", "zfp:16");
    differ("zfp:8", "mpc", "mpc");
    differ("zfp:8", "none", "none");
    differ("zfp:8", "zfp:8;min=0", "min=0");
    lull__version_text = test_rank == culprit ? "9.9.9" : "0.1.0";
    differ("mpc", "mpc", "9.9.9");
    lull__version_text = "0.1.0";
    lull_comm_t *made;
    CHECK_OK(lull_comm_create(MPI_COMM_WORLD, LULL_ROLE_DP,
                              test_rank == culprit ? "zfp:8.0" : "zfp:8;hier=0",
                              &made));
    lull_comm_destroy(made);
}

/* A header of any bytes is refused or understood. */
static void hostile_headers(uint64_t seed) {
    unsigned char bytes[LULL__HEADER_BYTES + 8];
    lull__message_t message, good = {.kind = LULL__MESSAGE_DATA,
                                     .dtype = LULL_F32,
                                     .count = 77,
                                     .step = 32,
                                     .bytes = 8};
    for (unsigned i = 0; i < 20000; i++) {
        lull__message_pack(&good, bytes);
        CHECK_OK(lull__message_unpack(bytes, sizeof bytes, &message));
        unsigned at = (unsigned)(test_random(&seed) % LULL__HEADER_BYTES);
        bytes[at] ^= (unsigned char)(1 + test_random(&seed) % 255);
        CHECK_FAILS(lull__message_unpack(bytes, sizeof bytes, &message),
                    LULL_ERR_CORRUPT, "message");
        size_t shorter = test_random(&seed) % sizeof bytes;
        lull__message_pack(&good, bytes);
        CHECK_FAILS(lull__message_unpack(bytes, shorter, &message),
                    LULL_ERR_CORRUPT, "message");
    }
}

int main(int argc, char **argv) {
    uint64_t seed = test_begin(&argc, &argv);
    hostile_headers(seed);
    if (test_size < 2)
        return test_end();
    in = calloc(N, 8), out = calloc(N, 8);
    CHECK(in && out);
    for (culprit = 1; culprit < test_size;
         culprit += test_size - 2 + !culprit) {
        point_6_one_decision();
        CHECK_OK(
            lull_comm_create(MPI_COMM_WORLD, LULL_ROLE_DP, "mpc;min=0", &comm));
        works_again();
        other_count();
        other_type_op_or_call();
        failing_encode();
        corrupt_payload();
        corrupt_elsewhere("raw;min=0");
        corrupt_elsewhere("expo;min=0");
        pair_of_other_counts();
        lull_comm_destroy(comm);
        if (test_size <= 3)
            break;
    }
    free(in), free(out);
    return test_end();
}
