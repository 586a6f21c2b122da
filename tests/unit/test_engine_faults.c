/* The n-th storage call of a save fails, for every n: the error reaches the
 * caller with path and cause, the old checkpoint stays, the next save works.
 * And the n-th allocation. */
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "allocations.h"
#include "base/thread.h"
#include "ckpt.h"
#include "clock.h"
#include "faultio.h"
#include "test.h"

#define BYTES ((size_t)1200000) /* two blocks, two slots */

static char data[BYTES];
static faultio_t fault;

/* A change of the disk failed before the step was published. */
static bool failed_before;

static void note(faultio_t *one, fault_op_t op) {
    (void)one;
    if ((op & FAULT_CHANGES) && !test_has(ckpt_room, "step-00000002"))
        __atomic_store_n(&failed_before, true, __ATOMIC_SEQ_CST);
}

static int set_up(void **state) {
    ckpt_room_in_memory(); /* thousands of saves */
    (void)ckpt_room_make(state);
    faultio_init(&fault);
    fault.hook = note;
    lull__io_set_default(&fault.io);
    return 0;
}

static lull_status_t save_step(lull_ckpt_t *ckpt, uint64_t step) {
    lull_ckpt_tensor_t tensor = test_tensor("t", LULL_U8, BYTES, data);
    lull_ckpt_save_t save = LULL_CKPT_SAVE_INIT;
    save.step = step;
    save.tensors = &tensor;
    save.tensor_count = 1;
    test_fill(data, BYTES, step);
    return test_commit(ckpt, &save);
}

static bool holds(uint64_t step) {
    uint64_t n;
    char *stored = test_stored(ckpt_room, step, 0, "t", &n);
    test_fill(data, BYTES, step);
    bool ok = stored != NULL && n == BYTES && memcmp(stored, data, n) == 0;
    free(stored);
    return ok;
}

/* Not after another: it also finds out what the disk takes. */
static bool alone;

/* One save whose n-th call fails. Returns whether a call failed at all. */
static bool one(uint64_t n, int error, bool from_then_on) {
    lull_ckpt_t *ckpt;
    lull_ckpt_options_t options = test_options(ckpt_room, 0, 1);
    options.keep_last = 3;
    faultio_arm(&fault, 0, 0);
    fault.from_then_on = from_then_on;
    assert_ok(lull_ckpt_open(&options, &ckpt));
    if (!alone)
        assert_ok(save_step(ckpt, 1));
    __atomic_store_n(&failed_before, false, __ATOMIC_SEQ_CST);
    faultio_arm(&fault, n, error);
    lull_status_t status = save_step(ckpt, 2);
    /* What happens after the commit (retention) is over before the next. */
    char sentence[1024];
    strcpy(sentence, lull_last_error());
    bool hit = faultio_hit(&fault);
    faultio_arm(&fault, 0, 0);
    if (status == LULL_OK) {
        if (error != EINTR)
            assert_false(__atomic_load_n(&failed_before, __ATOMIC_SEQ_CST));
        assert_true(holds(2));
    } else {
        if (error == EINTR)
            fail_msg("call %d: interrupted, it failed: %s", (int)n, sentence);
        if (strstr(sentence, ckpt_room) == NULL &&
            strstr(sentence, "step") == NULL)
            fail_msg("n %d error %d: '%s' says no path", (int)n, error,
                     sentence);
        if (error && strstr(sentence, strerror(error)) == NULL)
            fail_msg("n %d: '%s' says no cause", (int)n, sentence);
        assert_true(hit);
        if (status != LULL_ERR_DURABILITY_UNKNOWN)
            assert_false(test_has(ckpt_room, "step-00000002"));
        else
            assert_true(holds(2));
    }
    assert_true(alone || holds(1));
    assert_ok(save_step(ckpt, 3));
    assert_ok(lull_ckpt_close(ckpt));
    lull_ckpt_destroy(ckpt);
    assert_true(alone || holds(1));
    assert_true(holds(3));
    assert_ok(lull_ckpt_open(&options, &ckpt)); /* leftovers go */
    lull_ckpt_destroy(ckpt);
    assert_int_equal(test_count(ckpt_room, "."), 1);
    test_dir_drop(ckpt_room);
    test_dir_make(ckpt_room);
    return hit;
}

static void every_call(int error, bool from_then_on) {
    uint64_t n = 1;
    while (one(n, error, from_then_on))
        n++;
    assert_true(n > 20);
}

static void eio(void **state) {
    (void)state;
    every_call(EIO, false);
}

static void enospc(void **state) {
    (void)state;
    every_call(ENOSPC, false);
}

static void over_quota(void **state) {
    (void)state;
    every_call(EDQUOT, false);
}

static void disk_stays_full(void **state) {
    (void)state;
    fault.ops = FAULT_WRITE | FAULT_TRUNCATE | FAULT_MKDIR;
    uint64_t n = 1;
    while (one(n, EDQUOT, true))
        n++;
    assert_true(n > 4);
}

static int open_cached(const lull__io_t *io, int dir, const char *path,
                       int flags, unsigned mode) {
    return lull__io_system.ops->open(io, dir, path, flags & ~O_DIRECT, mode);
}

/* The first save of an engine tries the disk, which here takes all writes. */
static void of_the_first_save(void **state) {
    (void)state;
    static lull__io_ops_t ops;
    static lull__io_t takes_all = {.ops = &ops};
    ops = *lull__io_system.ops;
    ops.open = open_cached;
    fault.below = &takes_all;
    alone = true;
    every_call(ENOSPC, false);
    every_call(EIO, false);
    alone = false;
}

static void interrupted(void **state) {
    (void)state;
    /* A sync is not made again, whatever its reason. */
    fault.ops = FAULT_ANY & ~FAULT_SYNC & ~FAULT_LIST & ~FAULT_STAT;
    every_call(EINTR, false);
}

static void short_transfers(void **state) {
    (void)state;
    fault.ops = FAULT_READ | FAULT_WRITE;
    lull_ckpt_t *ckpt;
    lull_ckpt_options_t options = test_options(ckpt_room, 0, 1);
    for (uint64_t n = 1; n < 40; n++) {
        assert_ok(lull_ckpt_open(&options, &ckpt));
        faultio_arm(&fault, n, 0);
        assert_ok(save_step(ckpt, 7));
        faultio_arm(&fault, 0, 0);
        assert_ok(lull_ckpt_close(ckpt));
        lull_ckpt_destroy(ckpt);
        assert_true(holds(7));
    }
}

/* Whole checkpoints of step 1 that do not bear its name. */
static size_t others(void) {
    char pattern[300];
    glob_t found;
    snprintf(pattern, sizeof pattern, "%s/.step-00000001.*/manifest.json",
             ckpt_room);
    size_t count = glob(pattern, 0, NULL, &found) == 0 ? found.gl_pathc : 0;
    globfree(&found);
    return count;
}

/* A step is saved again, they change places, and DIR's fsync fails: which of
 * them has the name on the disk nobody knows. Both stay until an open saw. */
static void in_doubt_both_stay(void **state) {
    (void)state;
    lull_ckpt_t *ckpt;
    lull_ckpt_options_t options = test_options(ckpt_room, 0, 1);
    unsigned doubts = 0;
    bool hit = true;
    fault.ops = FAULT_SYNC;
    for (uint64_t n = 1; hit; n++) {
        assert_ok(lull_ckpt_open(&options, &ckpt));
        assert_ok(save_step(ckpt, 1));
        faultio_arm(&fault, n, EIO);
        lull_status_t status = save_step(ckpt, 1);
        hit = faultio_hit(&fault);
        faultio_arm(&fault, 0, 0);
        bool doubt = status == LULL_ERR_DURABILITY_UNKNOWN;
        doubts += doubt;
        assert_ok(save_step(ckpt, 3));
        (void)lull_ckpt_close(ckpt);
        lull_ckpt_destroy(ckpt);
        assert_int_equal(others(), doubt);
        assert_true(holds(1));
        assert_ok(lull_ckpt_open(&options, &ckpt));
        lull_ckpt_destroy(ckpt);
        assert_int_equal(test_count(ckpt_room, "."), 1);
        assert_true(holds(1));
    }
    assert_int_equal(doubts, 1);
}

/* Nor does retention take the one in doubt for the old one of its step. */
static void in_doubt_is_not_the_old_one(void **state) {
    (void)state;
    lull_ckpt_t *ckpt;
    lull_ckpt_options_t options = test_options(ckpt_room, 0, 1);
    unsigned doubts = 0;
    bool hit = true;
    options.keep_last = 2;
    fault.ops = FAULT_SYNC;
    for (uint64_t n = 1; hit; n++) {
        assert_ok(lull_ckpt_open(&options, &ckpt));
        assert_ok(save_step(ckpt, 1));
        assert_ok(save_step(ckpt, 2));
        faultio_arm(&fault, n, EIO);
        bool doubt = save_step(ckpt, 1) == LULL_ERR_DURABILITY_UNKNOWN;
        hit = faultio_hit(&fault);
        faultio_arm(&fault, 0, 0);
        doubts += doubt;
        assert_ok(save_step(ckpt, 3));
        (void)lull_ckpt_close(ckpt);
        lull_ckpt_destroy(ckpt);
        if (doubt)
            assert_true(holds(1));
        assert_true(holds(3));
        test_dir_drop(ckpt_room);
        test_dir_make(ckpt_room);
    }
    assert_int_equal(doubts, 1);
}

/* The n-th call of open fails: no engine, no leak, the next open works. */
static void opening(void **state) {
    (void)state;
    lull_ckpt_t *ckpt;
    lull_ckpt_options_t options = test_options(ckpt_room, 0, 1);
    unsigned before = test_descriptors(), failed = 0;
    for (uint64_t n = 1; n < 1000; n++) {
        assert_ok(lull_ckpt_open(&options, &ckpt));
        assert_ok(save_step(ckpt, 1));
        lull_ckpt_destroy(ckpt);
        faultio_arm(&fault, n, EIO);
        lull_status_t status = lull_ckpt_open(&options, &ckpt);
        bool hit = faultio_hit(&fault);
        faultio_arm(&fault, 0, 0);
        if (status == LULL_OK)
            lull_ckpt_destroy(ckpt);
        else
            assert_non_null(strstr(lull_last_error(), ckpt_room));
        failed += status != LULL_OK;
        assert_int_equal(test_descriptors(), before);
        assert_true(holds(1));
        if (!hit)
            break;
    }
    assert_true(failed > 5);
}

/* ---- two ranks, the calls of one of them fail ---- */

static lull_status_t save_half(lull_ckpt_t *ckpt, uint32_t rank,
                               uint64_t step) {
    static char halves[2][BYTES / 2];
    lull_ckpt_tensor_t tensor =
        test_tensor("t", LULL_U8, BYTES / 2, halves[rank]);
    tensor.global_shape[0] = BYTES;
    tensor.offset[0] = rank * (BYTES / 2);
    test_fill(data, BYTES, step);
    memcpy(halves[rank], data + rank * (BYTES / 2), BYTES / 2);
    lull_ckpt_save_t save = LULL_CKPT_SAVE_INIT;
    save.step = step;
    save.tensors = &tensor;
    save.tensor_count = 1;
    return lull_ckpt_save(ckpt, &save, NULL);
}

static void save_halves(lull_ckpt_t **ranks, uint64_t step,
                        lull_status_t *outcome) {
    for (uint32_t r = 0; r < 2; r++)
        assert_ok(save_half(ranks[r], r, step));
    for (uint32_t r = 0; r < 2; r++)
        outcome[r] = lull_ckpt_wait_committed(ranks[r], NULL, LULL_FOREVER);
}

static bool verifies(uint64_t step) {
    lull_ckpt_find_options_t find = LULL_CKPT_FIND_OPTIONS_INIT;
    find.step = step;
    lull_ckpt_id_t id;
    lull_ckpt_info_t *info;
    static char back[BYTES];
    if (lull_ckpt_find(ckpt_room, &find, &id) != LULL_OK)
        return false;
    assert_ok(lull_ckpt_info_open(ckpt_room, id, &info));
    lull_ckpt_slice_t slice = LULL_CKPT_SLICE_INIT;
    slice.name = "t";
    slice.dtype = LULL_U8;
    slice.ndim = 1;
    slice.global_shape[0] = slice.shape[0] = BYTES;
    slice.data = back;
    lull_ckpt_load_options_t load = LULL_CKPT_LOAD_OPTIONS_INIT;
    assert_ok(lull_ckpt_load(info, &slice, 1, &load));
    lull_ckpt_info_destroy(info);
    test_fill(data, BYTES, step);
    assert_memory_equal(back, data, BYTES);
    return true;
}

/* A rank that fails may not come to vote: it is waited for in vain. */
static void hurry(faultio_t *one, fault_op_t op) {
    (void)one, (void)op;
    test_clock_hurry();
}

/* Both ranks agree about what became of it, and it is as they say. */
static bool one_of_two(uint32_t faulty, uint64_t n) {
    lull_ckpt_t *ranks[2];
    lull_status_t outcome[2];
    for (uint32_t r = 0; r < 2; r++) {
        lull__io_set_default(r == faulty ? &fault.io : NULL);
        lull_ckpt_options_t options = test_options(ckpt_room, r, 2);
        options.commit_timeout_s = TEST_CLOCK_TIMEOUT;
        assert_ok(lull_ckpt_open(&options, &ranks[r]));
    }
    lull__io_set_default(NULL);
    save_halves(ranks, 1, outcome);
    assert_int_equal(outcome[0] | outcome[1], LULL_OK);
    fault.hook = hurry;
    test_clock_may_hurry(true);
    faultio_arm(&fault, n, EIO);
    save_halves(ranks, 2, outcome);
    bool hit = faultio_hit(&fault);
    faultio_arm(&fault, 0, 0);
    test_clock_may_hurry(false);
    bool there = verifies(2);
    for (uint32_t r = 0; r < 2; r++) {
        bool says_there =
            outcome[r] == LULL_OK || outcome[r] == LULL_ERR_DURABILITY_UNKNOWN;
        if (outcome[r] != LULL_ERR_OUTCOME_UNKNOWN && says_there != there)
            fail_msg("faulty %u, call %d: rank %u says %s, it is %s",
                     (unsigned)faulty, (int)n, (unsigned)r,
                     lull_status_name(outcome[r]), there ? "there" : "not");
    }
    assert_true(verifies(1));
    save_halves(ranks, 3, outcome);
    assert_int_equal(outcome[0] | outcome[1], LULL_OK);
    for (uint32_t r = 0; r < 2; r++) {
        assert_ok(lull_ckpt_close(ranks[r]));
        lull_ckpt_destroy(ranks[r]);
    }
    assert_true(verifies(3));
    test_dir_drop(ckpt_room);
    test_dir_make(ckpt_room);
    return hit;
}

static void either_of_two_ranks(void **state) {
    (void)state;
    for (uint32_t faulty = 0; faulty < 2; faulty++) {
        uint64_t n = 1;
        while (one_of_two(faulty, n))
            n++;
        assert_true(n > 15);
    }
}

/* ---- allocations ---- */

static void every_allocation(void **state) {
    (void)state;
    lull_ckpt_t *ckpt;
    lull_ckpt_options_t options = test_options(ckpt_room, 0, 1);
    unsigned failed = 0;
    for (uint64_t n = 1; n < 1000; n++) {
        assert_ok(lull_ckpt_open(&options, &ckpt));
        assert_ok(save_step(ckpt, 1));
        allocations_arm(n);
        lull_status_t status = save_step(ckpt, 2);
        bool reached = allocations_arm(0);
        failed += status != LULL_OK;
        if (status == LULL_OK)
            assert_true(holds(2));
        assert_true(holds(1));
        assert_ok(save_step(ckpt, 3));
        assert_ok(lull_ckpt_close(ckpt));
        lull_ckpt_destroy(ckpt);
        assert_true(holds(3));
        test_dir_drop(ckpt_room);
        test_dir_make(ckpt_room);
        if (!reached)
            break;
    }
    assert_true(failed > 10);
}

static void every_allocation_of_open(void **state) {
    (void)state;
    lull_ckpt_t *ckpt;
    lull_ckpt_options_t options = test_options(ckpt_room, 0, 1);
    unsigned before = test_descriptors();
    for (uint64_t n = 1; n < 1000; n++) {
        allocations_arm(n);
        lull_status_t status = lull_ckpt_open(&options, &ckpt);
        allocations_arm(0);
        if (status == LULL_OK)
            lull_ckpt_destroy(ckpt);
        assert_int_equal(test_descriptors(), before);
        if (status == LULL_OK)
            return;
        assert_int_equal(status, LULL_ERR_NO_MEMORY);
    }
    fail();
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, ckpt_room_drop)
    const struct CMUnitTest tests[] = {
        TEST(eio),
        TEST(enospc),
        TEST(over_quota),
        TEST(disk_stays_full),
        TEST(of_the_first_save),
        TEST(interrupted),
        TEST(short_transfers),
        TEST(in_doubt_both_stay),
        TEST(in_doubt_is_not_the_old_one),
        TEST(opening),
        TEST(either_of_two_ranks),
        TEST(every_allocation),
        TEST(every_allocation_of_open),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
