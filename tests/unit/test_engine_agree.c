/* Engines that agree by a callback, in directories that they share or not:
 * commit, places, loss of ranks and messages, recovery, partial reading. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agree_room.h"
#include "allocations.h"
#include "base/thread.h"
#include "ckpt.h"
#include "ckpt/agree.h"
#include "ckpt/naming.h"
#include "clock.h"
#include "faultio.h"
#include "support.h"
#include "test.h"

#define WORLD 4
#define ROWS 64

static char base[256];
static char dirs[WORLD][300];
static agree_room_t room;
static uint32_t rows[ROWS];

static int set_up(void **state) {
    (void)state;
    /* Hundreds of saves: a disk would only add time. */
    ckpt_room_in_memory();
    test_dir_make(base);
    agree_room_init(&room);
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    agree_room_fini(&room);
    test_dir_drop(base);
    return 0;
}

/* Rank r writes to place r * places / WORLD. */
static void use_places(unsigned places) {
    for (uint32_t r = 0; r < WORLD; r++)
        snprintf(dirs[r], sizeof dirs[r], "%s/node%u", base,
                 r * places / WORLD);
}

typedef struct opener {
    lull_ckpt_options_t options;
    lull_ckpt_t *ckpt;
    lull_status_t status;
    char why[600];
} opener_t;

static void *open_one(void *arg) {
    opener_t *opener = arg;
    opener->status = lull_ckpt_open(&opener->options, &opener->ckpt);
    snprintf(opener->why, sizeof opener->why, "%s", lull_last_error());
    return NULL;
}

/* ---- a line on which messages come that nobody sent so ---- */

typedef enum odd {
    ODD_NONE,
    ODD_TOO_MANY, /* each twice, and of ranks that there are not */
    ODD_OTHERS,   /* rank 2's is rank 1's, as the rest */
    ODD_STALE,    /* ... is its own of the round before */
    ODD_OLD_RUN,  /* ... is its own of that round of another run */
    ODD_SHORT,    /* ... ends within its head */
    ODD_NOTHING   /* ... is there, and nothing in it */
} odd_t;

typedef struct said {
    char data[8192];
    uint64_t bytes;
} said_t;

/* Guarded by the room's lock, under which messages are taken. */
static struct {
    odd_t how;
    said_t of_rank1, last, voted; /* the last two: of rank 2 */
} line;

#define FIRST_VOTE LULL__AGREE_OPEN_ROUNDS /* its round */

static void keep(said_t *said, const void *data, uint64_t bytes) {
    assert_true(bytes <= sizeof said->data);
    memcpy(said->data, data, bytes);
    said->bytes = bytes;
}

static _Thread_local const lull_ckpt_agree_t *asked;

static void give(const lull_ckpt_agree_t *call, uint32_t rank,
                 const said_t *said) {
    asked->take(call, rank, said->data, said->bytes);
}

/* As it is, and others before and behind it. */
static void take_too_many(const lull_ckpt_agree_t *call, uint32_t rank,
                          const void *data, uint64_t bytes) {
    asked->take(call, call->world + rank, data, bytes);
    asked->take(call, UINT32_MAX, data, bytes);
    if (call->op == LULL_CKPT_SPREAD) {
        asked->take(call, 1, data, bytes);
        give(call, 0, &line.last); /* none of rank 0's */
    }
    asked->take(call, rank, data, bytes);
    asked->take(call, rank, data, bytes);
    give(call, rank, &line.last);
}

static void take_oddly(const lull_ckpt_agree_t *call, uint32_t rank,
                       const void *data, uint64_t bytes) {
    bool changes = call->op == LULL_CKPT_GATHER && rank == 2;
    if (line.how == ODD_TOO_MANY)
        take_too_many(call, rank, data, bytes);
    else if (changes && line.how == ODD_OTHERS)
        give(call, rank, &line.of_rank1);
    else if (changes && line.how == ODD_STALE)
        give(call, rank, &line.last);
    else if (changes && line.how == ODD_OLD_RUN && call->round == FIRST_VOTE)
        give(call, rank, &line.voted);
    else if (changes && line.how == ODD_SHORT)
        asked->take(call, rank, data, 60);
    else if (changes && line.how == ODD_NOTHING)
        asked->take(call, rank, NULL, 0);
    else
        asked->take(call, rank, data, bytes);
    if (call->op == LULL_CKPT_GATHER && rank == 1)
        keep(&line.of_rank1, data, bytes);
    if (changes)
        keep(&line.last, data, bytes);
    if (changes && call->round == FIRST_VOTE)
        keep(&line.voted, data, bytes);
}

static lull_status_t call_line(void *ctx, const lull_ckpt_agree_t *call) {
    lull_ckpt_agree_t odd = *call;
    odd.take = take_oddly;
    asked = call;
    return agree_room_call(ctx, &odd);
}

static void set_line(odd_t how) {
    pthread_mutex_lock(&room.lock);
    line.how = how;
    pthread_mutex_unlock(&room.lock);
}

/* With time enough on any machine; who is waited for in vain is given up when
 * the clock runs faster. */
static void begin_open(opener_t *openers, const char *run, uint32_t keep_last) {
    for (uint32_t r = 0; r < WORLD; r++) {
        opener_t *o = &openers[r];
        *o = (opener_t){.options = test_options(dirs[r], r, WORLD)};
        o->options.run_id = run;
        o->options.agree = call_line;
        o->options.agree_ctx = &room;
        o->options.commit_timeout_s = TEST_CLOCK_TIMEOUT;
        o->options.keep_last = keep_last;
    }
}

/* Open is collective. */
static void run_open(opener_t *openers) {
    pthread_t threads[WORLD];
    for (uint32_t r = 0; r < WORLD; r++)
        if (pthread_create(&threads[r], NULL, open_one, &openers[r]) != 0)
            fail_msg("a thread");
    for (uint32_t r = 0; r < WORLD; r++)
        pthread_join(threads[r], NULL);
}

static void open_all(lull_ckpt_t **ranks, const char *run, uint32_t keep_last) {
    opener_t openers[WORLD];
    begin_open(openers, run, keep_last);
    run_open(openers);
    for (uint32_t r = 0; r < WORLD; r++) {
        if (openers[r].status != LULL_OK)
            fail_msg("rank %u: %s", r, openers[r].why);
        ranks[r] = openers[r].ckpt;
    }
}

static void destroy_all(lull_ckpt_t **ranks) {
    for (uint32_t r = 0; r < WORLD; r++)
        lull_ckpt_destroy(ranks[r]);
}

static void close_all(lull_ckpt_t **ranks) {
    for (uint32_t r = 0; r < WORLD; r++)
        assert_ok(lull_ckpt_close(ranks[r]));
    destroy_all(ranks);
}

/* A quarter of "rows"; all of "copy", which all ranks have; a state. */
static lull_status_t save_part(lull_ckpt_t *ckpt, uint64_t step,
                               uint32_t rank) {
    uint64_t begin = ROWS * rank / WORLD, end = ROWS * (rank + 1) / WORLD;
    lull_ckpt_tensor_t tensors[2] = {
        test_tensor("rows", LULL_U32, end - begin, rows + begin),
        test_tensor("copy", LULL_U32, ROWS, rows)};
    lull_ckpt_state_t states[2] = {{"step", &step, sizeof step, false},
                                   {"own", &rank, sizeof rank, true}};
    lull_ckpt_meta_t meta = {"who", rank ? "another" : "rank 0"};
    tensors[0].global_shape[0] = ROWS;
    tensors[0].offset[0] = begin;
    tensors[1].replica = rank;
    tensors[1].replicas = WORLD;
    lull_ckpt_save_t save = LULL_CKPT_SAVE_INIT;
    save.step = step;
    save.tensors = tensors;
    save.tensor_count = 2;
    save.states = states;
    save.state_count = 2;
    save.meta = &meta;
    save.meta_count = 1;
    return lull_ckpt_save(ckpt, &save, NULL);
}

static void save_all(lull_ckpt_t **ranks, uint64_t step) {
    test_fill(rows, sizeof rows, step);
    for (uint32_t r = WORLD; r-- > 0;)
        assert_ok(save_part(ranks[r], step, r));
}

static void commit_all(lull_ckpt_t **ranks, uint64_t step) {
    save_all(ranks, step);
    for (uint32_t r = 0; r < WORLD; r++)
        assert_ok(lull_ckpt_wait_committed(ranks[r], NULL, LULL_FOREVER));
}

static lull_status_t load_rows(const lull_ckpt_info_t *info, const char *name,
                               uint64_t begin, uint64_t count, uint32_t *out) {
    lull_ckpt_slice_t slice = LULL_CKPT_SLICE_INIT;
    slice.name = name;
    slice.dtype = LULL_U32;
    slice.ndim = 1;
    slice.global_shape[0] = ROWS;
    slice.offset[0] = begin;
    slice.shape[0] = count;
    slice.data = out;
    lull_ckpt_load_options_t load = LULL_CKPT_LOAD_OPTIONS_INIT;
    return lull_ckpt_load(info, &slice, 1, &load);
}

/* What a restart does: each rank looks in its own directory, and all agree on
 * the newest that each of them has. */
static bool find_common(lull_ckpt_id_t *out) {
    lull_ckpt_find_options_t find = LULL_CKPT_FIND_OPTIONS_INIT;
    for (;;) {
        uint64_t low = UINT64_MAX, high = 0;
        for (uint32_t r = 0; r < WORLD; r++) {
            lull_status_t status = lull_ckpt_find(dirs[r], &find, out);
            uint64_t seq = status == LULL_OK ? out->seq : 0;
            low = seq < low ? seq : low;
            high = seq > high ? seq : high;
        }
        if (low == 0 || low == high)
            return low != 0;
        find.before_seq = low + 1;
    }
}

/* Every rank loads its own part from its own directory. */
static void assert_loads(uint64_t step) {
    lull_ckpt_id_t id;
    uint32_t expected[ROWS], back[ROWS];
    test_fill(expected, sizeof expected, step);
    assert_true(find_common(&id));
    assert_int_equal(id.step, step);
    for (uint32_t r = 0; r < WORLD; r++) {
        lull_ckpt_info_t *info;
        uint64_t begin = ROWS * r / WORLD, n = ROWS * (r + 1) / WORLD - begin;
        uint64_t said;
        uint32_t own;
        size_t bytes;
        assert_ok(lull_ckpt_info_open(dirs[r], id, &info));
        assert_ok(lull_ckpt_verify(info, NULL, NULL));
        assert_ok(load_rows(info, "rows", begin, n, back));
        assert_memory_equal(back, expected + begin, n * sizeof *back);
        assert_ok(load_rows(info, "copy", 0, ROWS, back));
        assert_memory_equal(back, expected, sizeof back);
        assert_ok(
            lull_ckpt_info_state(info, "step", 0, &said, sizeof said, &bytes));
        assert_int_equal(said, step);
        assert_ok(
            lull_ckpt_info_state(info, "own", r, &own, sizeof own, &bytes));
        assert_int_equal(own, r);
        assert_string_equal(lull_ckpt_info_meta(info, "who"), "rank 0");
        lull_ckpt_info_destroy(info);
    }
}

static void places_commit_together(void **state) {
    (void)state;
    for (unsigned places = 1; places <= WORLD; places *= 2) {
        lull_ckpt_t *ranks[WORLD];
        char run[16];
        snprintf(run, sizeof run, "run%u", places);
        use_places(places);
        open_all(ranks, places == 2 ? NULL : run, 2);
        for (uint64_t step = 1; step <= 5; step++)
            commit_all(ranks, step);
        commit_all(ranks, 5); /* over what is there */
        close_all(ranks);
        agree_room_reset(&room);
        assert_loads(5);
        for (uint32_t r = 0; r < WORLD; r++) {
            assert_int_equal(test_count(dirs[r], "step-"), 2);
            assert_int_equal(test_count(dirs[r], "."), 1);
        }
        test_dir_drop(base);
        assert_int_equal(mkdir(base, 0777), 0);
    }
}

static void what_is_elsewhere_is_named(void **state) {
    (void)state;
    lull_ckpt_t *ranks[WORLD];
    lull_ckpt_info_t *info;
    lull_ckpt_file_info_t file;
    lull_ckpt_id_t id;
    uint32_t back[ROWS];
    char command[900];
    size_t bytes;
    use_places(2);
    open_all(ranks, "run", 0);
    commit_all(ranks, 7);
    close_all(ranks);
    assert_true(find_common(&id));
    assert_ok(lull_ckpt_info_open(dirs[0], id, &info));
    assert_fails(load_rows(info, "rows", 0, ROWS, back), LULL_ERR_NOT_FOUND,
                 "rank-00002.safetensors, rank-00003.safetensors");
    assert_non_null(strstr(lull_last_error(), dirs[3]));
    assert_fails(lull_ckpt_info_state(info, "own", 3, back, 4, &bytes),
                 LULL_ERR_NOT_FOUND, dirs[3]);
    assert_true(lull_ckpt_info_file_at(info, 1, &file));
    assert_null(file.elsewhere);
    assert_true(lull_ckpt_info_file_at(info, 2, &file));
    assert_non_null(strstr(file.elsewhere, dirs[3]));
    lull_ckpt_info_destroy(info);
    /* All files in one directory are the whole. */
    snprintf(command, sizeof command,
             "cp '%s'/step-00000007/rank-* '%s'/step-00000007", dirs[3],
             dirs[0]);
    assert_int_equal(system(command), 0);
    assert_ok(lull_ckpt_info_open(dirs[0], id, &info));
    assert_ok(lull_ckpt_verify(info, NULL, NULL));
    assert_ok(load_rows(info, "rows", 0, ROWS, back));
    assert_memory_equal(back, rows, sizeof rows);
    assert_ok(load_rows(info, "copy", 0, ROWS, back));
    lull_ckpt_info_destroy(info);
    /* Of what ought to be here none may be missing. */
    snprintf(command, sizeof command, "rm '%s'/step-00000007/rank-00002.json",
             dirs[3]);
    assert_int_equal(system(command), 0);
    assert_fails(lull_ckpt_info_open(dirs[3], id, &info), LULL_ERR_CORRUPT,
                 "rank-00002.json");
}

static void a_failure_is_every_ranks(void **state) {
    (void)state;
    lull_ckpt_t *ranks[WORLD];
    use_places(2);
    open_all(ranks, "run", 0);
    for (uint32_t bad = 0; bad < WORLD; bad++) {
        for (uint32_t r = 0; r < WORLD; r++) {
            lull_ckpt_tensor_t hole = test_tensor("hole", LULL_U32, 3, NULL);
            lull_ckpt_save_t save = LULL_CKPT_SAVE_INIT;
            save.tensors = &hole;
            save.tensor_count = 1;
            if (r == bad)
                assert_fails(lull_ckpt_save(ranks[r], &save, NULL),
                             LULL_ERR_INVALID, "hole");
            else
                assert_ok(save_part(ranks[r], 0, r));
        }
        for (uint32_t r = 0; r < WORLD; r++)
            if (r != bad)
                assert_fails(
                    lull_ckpt_wait_committed(ranks[r], NULL, LULL_FOREVER),
                    LULL_ERR_ABORTED, "hole");
    }
    /* Not whole: nobody saves rank 3's part. */
    for (uint32_t r = 0; r < WORLD; r++)
        assert_ok(save_part(ranks[r], 1, r == 3 ? 2 : r));
    for (uint32_t r = 0; r < WORLD; r++)
        assert_fails(lull_ckpt_wait_committed(ranks[r], NULL, LULL_FOREVER),
                     r ? LULL_ERR_ABORTED : LULL_ERR_MISMATCH, "'rows'");
    commit_all(ranks, 9);
    close_all(ranks);
    assert_loads(9);
    for (uint32_t r = 0; r < WORLD; r++)
        assert_int_equal(test_count(dirs[r], "."), 1);
}

/* Step 3 is saved and found again; then the directories are as at first. */
static void goes_on(lull_ckpt_t **ranks) {
    commit_all(ranks, 3);
    close_all(ranks);
    agree_room_reset(&room);
    assert_loads(3);
    test_dir_drop(base);
    assert_int_equal(mkdir(base, 0777), 0);
}

static void a_silent_rank_hangs_nobody(void **state) {
    (void)state;
    for (uint32_t deaf = 0; deaf < WORLD; deaf += 3) {
        lull_ckpt_t *ranks[WORLD];
        use_places(2);
        open_all(ranks, "run", 0);
        commit_all(ranks, 1);
        pthread_mutex_lock(&room.lock);
        room.deaf = deaf;
        pthread_mutex_unlock(&room.lock);
        test_clock_speed(TEST_CLOCK_HURRY);
        save_all(ranks, 2);
        for (uint32_t r = 0; r < WORLD; r++) {
            lull_status_t status =
                lull_ckpt_wait_committed(ranks[r], NULL, LULL_FOREVER);
            assert_true(status == LULL_ERR_ABORTED ||
                        status == LULL_ERR_OUTCOME_UNKNOWN ||
                        status == LULL_ERR_TIMEOUT);
        }
        pthread_mutex_lock(&room.lock);
        room.deaf = UINT32_MAX;
        pthread_mutex_unlock(&room.lock);
        test_clock_speed(1);
        goes_on(ranks);
    }
}

static void a_hurt_message_is_refused(void **state) {
    (void)state;
    lull_ckpt_t *ranks[WORLD];
    use_places(2);
    open_all(ranks, "run", 0);
    for (uint32_t hurt = 0; hurt < 2; hurt++) {
        room.hurt = hurt;
        test_clock_speed(TEST_CLOCK_HURRY);
        save_all(ranks, 1);
        for (uint32_t r = 0; r < WORLD; r++)
            assert_int_not_equal(
                lull_ckpt_wait_committed(ranks[r], NULL, LULL_FOREVER),
                LULL_OK);
    }
    room.hurt = UINT32_MAX;
    test_clock_speed(1);
    commit_all(ranks, 2);
    close_all(ranks);
    assert_loads(2);
}

/* What is not of this rank, run and round aborts for all, at once, and names
 * the rank; what is too much does not matter. */
static void messages_that_nobody_sent_are_not_believed(void **state) {
    (void)state;
    lull_ckpt_t *ranks[WORLD];
    use_places(2);
    open_all(ranks, "earlier", 0);
    commit_all(ranks, 1);
    close_all(ranks);
    agree_room_reset(&room);
    open_all(ranks, "run", 0);
    /* First that of another run: its round is the first save's. */
    static const odd_t turns[] = {ODD_OLD_RUN, ODD_OTHERS, ODD_STALE, ODD_SHORT,
                                  ODD_NOTHING};
    for (unsigned i = 0; i < sizeof turns / sizeof *turns; i++) {
        set_line(turns[i]);
        save_all(ranks, 2);
        for (uint32_t r = 0; r < WORLD; r++)
            assert_fails(
                lull_ckpt_wait_committed(ranks[r], NULL, LULL_FOREVER),
                LULL_ERR_ABORTED,
                "rank 2: its message is not one of this run and round");
        set_line(ODD_NONE);
        assert_loads(1);
    }
    set_line(ODD_TOO_MANY);
    commit_all(ranks, 3);
    set_line(ODD_NONE);
    close_all(ranks);
    assert_loads(3);
}

/* Each leads its place, so that nobody waits for a directory. */
static void a_rank_that_saves_another_step_is_named(void **state) {
    (void)state;
    lull_ckpt_t *ranks[WORLD];
    use_places(WORLD);
    open_all(ranks, "run", 0);
    for (uint32_t odd = 0; odd < WORLD; odd += 3) {
        for (uint32_t r = 0; r < WORLD; r++)
            assert_ok(save_part(ranks[r], r == odd ? 8 : 7, r));
        for (uint32_t r = 0; r < WORLD; r++)
            assert_fails(
                lull_ckpt_wait_committed(ranks[r], NULL, LULL_FOREVER),
                LULL_ERR_ABORTED,
                odd ? "rank 3: its vote is of another save: the ranks save "
                      "other steps"
                    : "rank 1: its vote is of another save");
    }
    commit_all(ranks, 9);
    close_all(ranks);
    assert_loads(9);
}

static void destroying_ends_waiting(void **state) {
    (void)state;
    lull_ckpt_t *ranks[WORLD];
    use_places(2);
    open_all(ranks, "run", 0);
    for (uint32_t r = 0; r < WORLD; r++)
        if (r != 2)
            assert_ok(save_part(ranks[r], 1, r));
    lull_ckpt_destroy(ranks[2]);
    /* Rank 2 saved nothing and is gone: only cancelling ends it. */
    ranks[2] = NULL;
    destroy_all(ranks);
    agree_room_reset(&room);
    open_all(ranks, "run2", 0);
    commit_all(ranks, 1);
    close_all(ranks);
    assert_loads(1);
}

static void an_open_that_fails_fails_for_all(void **state) {
    (void)state;
    lull_ckpt_t *ranks[WORLD];
    opener_t openers[WORLD];
    use_places(2);
    open_all(ranks, "run", 0);
    agree_room_reset(&room);
    begin_open(openers, "other", 0);
    run_open(openers);
    for (uint32_t r = 0; r < WORLD; r++) {
        assert_int_equal(openers[r].status, LULL_ERR_BUSY);
        assert_non_null(strstr(openers[r].why, "another run"));
    }
    close_all(ranks);
    agree_room_reset(&room);
    begin_open(openers, "one", 0);
    openers[2].options.run_id = "two";
    run_open(openers);
    for (uint32_t r = 0; r < WORLD; r++)
        assert_int_not_equal(openers[r].status, LULL_OK);
    assert_non_null(strstr(openers[0].why, "rank 2"));
    agree_room_reset(&room);
    begin_open(openers, "one", 0);
    openers[1].options.world = WORLD + 1;
    test_clock_speed(TEST_CLOCK_HURRY);
    run_open(openers);
    test_clock_speed(1);
    for (uint32_t r = 0; r < WORLD; r++)
        assert_int_not_equal(openers[r].status, LULL_OK);
    for (uint32_t r = 0; r < WORLD; r++)
        assert_int_equal(test_count(dirs[r], ".lull/probe"), 0);
}

static bool unread_fd(int fd) {
    char link[64], at[400] = "";
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    return readlink(link, at, sizeof at - 1) > 0 &&
           strstr(at, "/node1/step-00000001/manifest.json") != NULL;
}

static ssize_t read_elsewhere(const lull__io_t *io, int fd, void *to,
                              size_t bytes, uint64_t offset) {
    (void)io;
    return unread_fd(fd) ? -EIO
                         : lull__io_system.ops->read(&lull__io_system, fd, to,
                                                     bytes, offset);
}

/* Else the other place would count it as one that it alone has. */
static void an_open_that_cannot_read_fails_for_all(void **state) {
    (void)state;
    lull_ckpt_t *ranks[WORLD];
    opener_t openers[WORLD];
    lull__io_ops_t ops = *lull__io_system.ops;
    const lull__io_t io = {.ops = &ops};
    use_places(2);
    open_all(ranks, "run", 0);
    commit_all(ranks, 1);
    close_all(ranks);
    agree_room_reset(&room);
    ops.read = read_elsewhere;
    lull__io_set_default(&io);
    begin_open(openers, "next", 0);
    run_open(openers);
    lull__io_set_default(NULL);
    for (uint32_t r = 0; r < WORLD; r++) {
        assert_int_equal(openers[r].status, LULL_ERR_IO);
        assert_non_null(strstr(openers[r].why, "node1/step-00000001/manifest"));
    }
    agree_room_reset(&room);
    open_all(ranks, "after", 1);
    assert_loads(1);
    commit_all(ranks, 2);
    close_all(ranks);
    assert_loads(2);
}

/* The line is cut at every call of a save, once with a new step and once with
 * a step that is there: after a restart all places have the same, the one
 * before or the new one; what was told committed is there. */
static void cut(uint64_t at, uint64_t step) {
    lull_ckpt_t *ranks[WORLD];
    bool told = false;
    lull_ckpt_id_t id;
    use_places(2);
    open_all(ranks, "run", 1);
    commit_all(ranks, 1);
    pthread_mutex_lock(&room.lock);
    room.cut_at = room.calls + at;
    pthread_mutex_unlock(&room.lock);
    test_fill(rows, sizeof rows, 100 + step);
    for (uint32_t r = 0; r < WORLD; r++)
        assert_ok(save_part(ranks[r], step, r));
    for (uint32_t r = 0; r < WORLD; r++)
        told |=
            lull_ckpt_wait_committed(ranks[r], NULL, LULL_FOREVER) == LULL_OK;
    destroy_all(ranks);
    agree_room_reset(&room);
    open_all(ranks, "run2", 1);
    assert_true(find_common(&id));
    if (told)
        assert_int_equal(id.seq, 2);
    uint32_t expected[ROWS], back[ROWS];
    test_fill(expected, sizeof expected, id.seq == 2 ? 100 + step : 1);
    for (uint32_t r = 0; r < WORLD; r++) {
        lull_ckpt_info_t *info;
        assert_ok(lull_ckpt_info_open(dirs[r], id, &info));
        assert_ok(load_rows(info, "copy", 0, ROWS, back));
        assert_memory_equal(back, expected, sizeof back);
        lull_ckpt_info_destroy(info);
        assert_int_equal(test_count(dirs[r], "."), 1);
    }
    goes_on(ranks);
}

static void the_line_is_cut_anywhere(void **state) {
    (void)state;
    /* Three rounds of a gather and a spread, of each rank. */
    for (uint64_t step = 1; step <= 2; step++)
        for (uint64_t at = 1; at <= 3 * 2 * WORLD; at++)
            cut(at, step);
}

/* What the callback says of its failure is told by every place; where it says
 * nothing, what its status says. */
static void a_callback_is_quoted(void **state) {
    (void)state;
    static const char *const says[] = {"the cable was pulled", NULL};
    for (unsigned i = 0; i < 2; i++) {
        lull_ckpt_t *ranks[WORLD];
        use_places(2);
        open_all(ranks, "run", 0);
        commit_all(ranks, 1);
        pthread_mutex_lock(&room.lock);
        room.cut_at = room.calls + 1;
        room.says = says[i];
        pthread_mutex_unlock(&room.lock);
        save_all(ranks, 2);
        for (uint32_t r = 0; r < WORLD; r++) {
            assert_int_not_equal(
                lull_ckpt_wait_committed(ranks[r], NULL, LULL_FOREVER),
                LULL_OK);
            /* One that does not lead may find its directory taken away, as it
             * comes to vote. */
            assert_true(
                strstr(lull_last_error(),
                       says[i] ? says[i] : lull_status_text(LULL_ERR_IO)) ||
                (r % 2 == 1 && strstr(lull_last_error(), "No such file")));
        }
        destroy_all(ranks);
        agree_room_reset(&room);
        test_dir_drop(base);
        assert_int_equal(mkdir(base, 0777), 0);
    }
}

/* ---- a place cannot give step 2 its name ---- */

static const char *refused; /* the place; atomic */

static int refuse_rename(const lull__io_t *io, int old_dir,
                         const char *old_name, int new_dir,
                         const char *new_name, unsigned flags) {
    char link[64], at[400] = "";
    const char *place = __atomic_load_n(&refused, __ATOMIC_SEQ_CST);
    (void)io;
    snprintf(link, sizeof link, "/proc/self/fd/%d", new_dir);
    if (place != NULL && strcmp(new_name, "step-00000002") == 0 &&
        readlink(link, at, sizeof at - 1) > 0 && strcmp(at, place) == 0)
        return -EIO;
    return lull__io_system.ops->rename(&lull__io_system, old_dir, old_name,
                                       new_dir, new_name, flags);
}

/* The other place has it by then, so it counts when both do: at the next open.
 * What was committed since is newer all the same. */
static void what_is_published_in_one_place_is_older(void **state) {
    (void)state;
    lull__io_ops_t ops = *lull__io_system.ops;
    const lull__io_t io = {.ops = &ops};
    ops.rename = refuse_rename;
    lull__io_set_default(&io);
    use_places(2);
    for (uint32_t place = 0; place < WORLD; place += WORLD / 2) {
        lull_ckpt_t *ranks[WORLD];
        open_all(ranks, "run", 0);
        commit_all(ranks, 1);
        __atomic_store_n(&refused, dirs[place], __ATOMIC_SEQ_CST);
        save_all(ranks, 2);
        for (uint32_t r = 0; r < WORLD; r++)
            assert_int_equal(
                lull_ckpt_wait_committed(ranks[r], NULL, LULL_FOREVER),
                LULL_ERR_OUTCOME_UNKNOWN);
        __atomic_store_n(&refused, NULL, __ATOMIC_SEQ_CST);
        commit_all(ranks, 4);
        destroy_all(ranks);
        assert_loads(4);
        agree_room_reset(&room);
        open_all(ranks, "run2", 0);
        assert_loads(4);
        for (uint32_t r = 0; r < WORLD; r++)
            assert_int_equal(test_count(dirs[r], "step-"), 3);
        goes_on(ranks);
    }
    lull__io_set_default(NULL);
}

/* ---- a storage call or an allocation of any rank fails ---- */

static faultio_t fault;

/* Saves step 2 over step 1 while the n-th fails; then goes on, first as it is,
 * then after a restart. What some rank was told committed is there, and all
 * places have the same. False: there was no n-th. */
static bool one_fails(uint64_t n, bool memory) {
    lull_ckpt_t *ranks[WORLD];
    lull_ckpt_id_t id;
    bool saved[WORLD], told = false, hit;
    use_places(2);
    /* With a timeout that nobody waits for: what failed is told at once. */
    open_all(ranks, "run", 1);
    commit_all(ranks, 1);
    if (memory)
        allocations_arm(n);
    else
        faultio_arm(&fault, n, n % 2 ? EIO : ENOSPC);
    test_fill(rows, sizeof rows, 2);
    for (uint32_t r = WORLD; r-- > 0;)
        saved[r] = save_part(ranks[r], 2, r) == LULL_OK;
    for (uint32_t r = 0; r < WORLD; r++) {
        lull_status_t status =
            lull_ckpt_wait_committed(ranks[r], NULL, LULL_FOREVER);
        told |= saved[r] && status == LULL_OK;
    }
    hit = allocations_arm(0);
    if (!memory)
        hit = faultio_hit(&fault);
    faultio_arm(&fault, 0, 0);
    assert_true(find_common(&id));
    if (told)
        assert_int_equal(id.step, 2);
    assert_loads(id.step);
    commit_all(ranks, 4);
    destroy_all(ranks);
    agree_room_reset(&room);
    open_all(ranks, "run2", 1);
    assert_loads(4);
    goes_on(ranks);
    return hit;
}

static void any_call_may_fail(void **state) {
    (void)state;
    uint64_t n = 1;
    faultio_init(&fault);
    fault.ops = FAULT_CHANGES;
    lull__io_set_default(&fault.io);
    while (one_fails(n, false))
        n++;
    lull__io_set_default(NULL);
    assert_true(n > 40);
}

static void any_allocation_may_fail(void **state) {
    (void)state;
    uint64_t n = 1;
    faultio_init(&fault);
    while (one_fails(n, true))
        n++;
    assert_true(n > 40);
}

/* Not even for the request, twice: the others are told, and at once. */
static void a_save_without_memory_is_told(void **state) {
    (void)state;
    lull_ckpt_t *ranks[WORLD];
    use_places(2);
    open_all(ranks, "run", 0);
    for (uint32_t poor = 0; poor < WORLD; poor += 3) {
        for (unsigned i = 0; i < 2; i++) {
            allocations_arm(1);
            assert_fails(save_part(ranks[poor], 1, poor), LULL_ERR_NO_MEMORY,
                         "no memory to begin");
            allocations_arm(0);
            for (uint32_t r = 0; r < WORLD; r++)
                if (r != poor)
                    assert_ok(save_part(ranks[r], 1, r));
        }
        for (uint32_t r = 0; r < WORLD; r++) {
            lull_status_t status =
                lull_ckpt_wait_committed(ranks[r], NULL, LULL_FOREVER);
            if (r == poor) /* it was told by the call */
                assert_int_equal(status, LULL_OK);
            else
                assert_fails(status, LULL_ERR_ABORTED, "no memory to begin");
        }
        /* The second failure of each is still to be told. */
        for (uint32_t r = 0; r < WORLD; r++)
            (void)lull_ckpt_wait_committed(ranks[r], NULL, LULL_FOREVER);
        commit_all(ranks, 2 + poor);
    }
    close_all(ranks);
    assert_loads(5);
}

static void at_step(char path[400], uint32_t rank, unsigned step) {
    snprintf(path, 400, "%s/step-%08u", dirs[rank], step);
}

/* A run that is killed between the retention of one place and that of another
 * leaves a part that no restart can take. */
static void retention_takes_what_another_place_has_not(void **state) {
    (void)state;
    lull_ckpt_t *ranks[WORLD];
    char path[400];
    use_places(2);
    open_all(ranks, "run", 0);
    for (uint64_t step = 1; step <= 4; step++)
        commit_all(ranks, step);
    close_all(ranks);
    for (unsigned step = 1; step <= 3; step += 2) {
        at_step(path, 0, step);
        test_dir_drop(path);
    }
    /* Where all are kept, this one is, too. */
    agree_room_reset(&room);
    open_all(ranks, "all", 0);
    commit_all(ranks, 5);
    close_all(ranks);
    assert_int_equal(test_count(dirs[3], "step-"), 5);
    /* 3 does not count as one of the newest: 2 is kept, by all places. */
    agree_room_reset(&room);
    open_all(ranks, "three", 4);
    commit_all(ranks, 6);
    close_all(ranks);
    assert_int_equal(test_count(dirs[0], "step-"), 4);
    assert_int_equal(test_count(dirs[3], "step-"), 5);
    at_step(path, 3, 1);
    assert_int_equal(access(path, F_OK), -1);
    agree_room_reset(&room);
    open_all(ranks, "two", 2);
    commit_all(ranks, 7);
    close_all(ranks);
    agree_room_reset(&room);
    assert_loads(7);
    for (uint32_t r = 0; r < WORLD; r++)
        assert_int_equal(test_count(dirs[r], "step-"), 2);
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(places_commit_together),
        TEST(what_is_elsewhere_is_named),
        TEST(a_failure_is_every_ranks),
        TEST(a_silent_rank_hangs_nobody),
        TEST(a_hurt_message_is_refused),
        TEST(messages_that_nobody_sent_are_not_believed),
        TEST(a_rank_that_saves_another_step_is_named),
        TEST(destroying_ends_waiting),
        TEST(an_open_that_fails_fails_for_all),
        TEST(an_open_that_cannot_read_fails_for_all),
        TEST(the_line_is_cut_anywhere),
        TEST(a_callback_is_quoted),
        TEST(what_is_published_in_one_place_is_older),
        TEST(any_call_may_fail),
        TEST(any_allocation_may_fail),
        TEST(a_save_without_memory_is_told),
        TEST(retention_takes_what_another_place_has_not),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
