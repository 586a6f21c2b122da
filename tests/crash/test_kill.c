/* SIGKILL of a run at random moments: the newest committed checkpoint always
 * loads and verifies, no rank hangs, and the next run cleans up. */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/thread.h"
#include "ckpt.h"
#include "support.h"
#include "test.h"

#define ROWS 100000
#define WORLD 2

static char dir[256];

static int set_up(void **state) {
    (void)state;
    test_dir_make(dir);
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    test_dir_drop(dir);
    return 0;
}

/* Ranks whose peer is dead end soon; one without dead peers has time. */
static double patience_s = 1;

/* The program of one rank: saves steps from `step` on until it is killed, or
 * `saves` of them. Exits 0 when all went well, 3 when a save did not. */
static void run_rank(uint32_t rank, uint64_t step, unsigned saves,
                     const char *run_id) {
    static uint32_t rows[ROWS];
    lull_ckpt_t *ckpt;
    lull_ckpt_options_t options = test_options(dir, rank, WORLD);
    options.run_id = run_id;
    options.keep_last = 2;
    options.commit_timeout_s = patience_s;
    if (lull_ckpt_open(&options, &ckpt) != LULL_OK)
        _exit(2);
    for (unsigned i = 0; i < saves; i++, step++) {
        /* Every third save is of the step before. */
        uint64_t label = i % 3 == 2 ? step - 1 : step;
        if (lull_ckpt_wait_snapshot(ckpt, NULL, LULL_FOREVER) != LULL_OK)
            _exit(3);
        test_fill(rows, sizeof rows, label);
        size_t half = ROWS / WORLD;
        lull_ckpt_tensor_t tensor =
            test_tensor("rows", LULL_U32, half, rows + rank * half);
        tensor.global_shape[0] = ROWS;
        tensor.offset[0] = rank * half;
        lull_ckpt_save_t save = LULL_CKPT_SAVE_INIT;
        save.step = label;
        save.tensors = &tensor;
        save.tensor_count = 1;
        if (lull_ckpt_save(ckpt, &save, NULL) != LULL_OK)
            _exit(3);
    }
    _exit(lull_ckpt_close(ckpt) == LULL_OK ? 0 : 3);
}

/* Nothing yet is fine too: then *seq stays. */
static void assert_newest_loads(uint64_t *seq) {
    static uint32_t back[ROWS], expected[ROWS];
    lull_ckpt_id_t id;
    lull_ckpt_info_t *info;
    lull_ckpt_find_options_t find = LULL_CKPT_FIND_OPTIONS_INIT;
    lull_status_t status = lull_ckpt_find(dir, &find, &id);
    if (status == LULL_ERR_NOT_FOUND && *seq == 0)
        return;
    assert_int_equal(status, LULL_OK);
    assert_true(id.seq >= *seq); /* nothing that was published is lost */
    *seq = id.seq;
    assert_ok(lull_ckpt_info_open(dir, id, &info));
    assert_ok(lull_ckpt_verify(info, NULL, NULL));
    lull_ckpt_slice_t slice = LULL_CKPT_SLICE_INIT;
    slice.name = "rows";
    slice.dtype = LULL_U32;
    slice.ndim = 1;
    slice.global_shape[0] = slice.shape[0] = ROWS;
    slice.data = back;
    lull_ckpt_load_options_t load = LULL_CKPT_LOAD_OPTIONS_INIT;
    assert_ok(lull_ckpt_load(info, &slice, 1, &load));
    test_fill(expected, sizeof expected, id.step);
    assert_memory_equal(back, expected, sizeof back);
    lull_ckpt_info_destroy(info);
}

static void start(pid_t *ranks, uint64_t step, unsigned saves,
                  const char *run_id) {
    for (uint32_t r = 0; r < WORLD; r++) {
        ranks[r] = fork();
        assert_true(ranks[r] >= 0);
        if (ranks[r] == 0)
            run_rank(r, step, saves, run_id);
    }
}

/* Kills all ranks, or one: the others must end by themselves. */
static void killed_at_random(unsigned rounds, bool all) {
    uint64_t random = test_seed(), seq = 0;
    for (unsigned round = 0; round < rounds; round++) {
        pid_t ranks[WORLD];
        char run_id[32];
        int how;
        sprintf(run_id, "run%u", round);
        start(ranks, 100 * round, all ? 100000 : 30, run_id);
        lull__sleep(1e-3 * (double)(test_random(&random) % 120));
        uint32_t victim = (uint32_t)(test_random(&random) % WORLD);
        for (uint32_t r = 0; r < WORLD; r++)
            if (all || r == victim)
                kill(ranks[r], SIGKILL);
        for (uint32_t r = 0; r < WORLD; r++) {
            assert_int_equal(waitpid(ranks[r], &how, 0), ranks[r]);
            if (!all && r != victim)
                assert_true(WIFEXITED(how));
        }
        assert_newest_loads(&seq);
    }
    /* The next run works, and nothing of the others is left. */
    pid_t ranks[WORLD];
    int how;
    patience_s = 600;
    start(ranks, 1000000, 5, "last");
    patience_s = 1;
    for (uint32_t r = 0; r < WORLD; r++) {
        assert_int_equal(waitpid(ranks[r], &how, 0), ranks[r]);
        assert_true(WIFEXITED(how) && WEXITSTATUS(how) == 0);
    }
    assert_newest_loads(&seq);
    assert_true(seq >= 5);
    assert_int_equal(test_count(dir, "."), 1);
    assert_int_equal(test_count(dir, "step-"), 2);
}

static void all_ranks(void **state) {
    (void)state;
    killed_at_random(40, true);
}

static void one_rank(void **state) {
    (void)state;
    killed_at_random(8, false);
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {TEST(all_ranks), TEST(one_rank)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
