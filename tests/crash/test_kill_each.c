/* A rank that dies at a storage call, for every call of a save that changes
 * the disk: the other one learns of it in time, what was committed stays, and
 * the next run goes on. */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ckpt.h"
#include "faultio.h"
#include "test.h"

#define WORLD 2
#define ROWS 64

#define BATCH 16 /* runs at once: they mostly wait for who is dead */

static uint32_t rows[ROWS];

/* A run whose rank `victim` dies at its call `at`. */
typedef struct run {
    char dir[256];
    uint32_t victim;
    uint64_t at;
    pid_t pids[WORLD];
} run_t;

static lull_status_t save_part(lull_ckpt_t *ckpt, uint64_t step,
                               uint32_t rank) {
    uint64_t half = ROWS / WORLD;
    lull_ckpt_tensor_t tensor =
        test_tensor("rows", LULL_U32, half, rows + rank * half);
    tensor.global_shape[0] = ROWS;
    tensor.offset[0] = rank * half;
    lull_ckpt_save_t save = LULL_CKPT_SAVE_INIT;
    save.step = step;
    save.tensors = &tensor;
    save.tensor_count = 1;
    test_fill(rows, sizeof rows, step);
    lull_status_t status = lull_ckpt_save(ckpt, &save, NULL);
    return status ? status : lull_ckpt_wait_committed(ckpt, NULL, LULL_FOREVER);
}

static void die(faultio_t *fault, fault_op_t op) {
    (void)fault;
    (void)op;
    raise(SIGKILL);
}

/* Saves steps 1 and 2; dies at call `at` of the second (0: never). Exit codes:
 * 0 both committed, 3 the second did not, 4 the first did not. */
static void run_rank(const run_t *run, uint32_t rank, uint64_t at) {
    static faultio_t fault;
    lull_ckpt_t *ckpt;
    faultio_init(&fault);
    fault.ops = FAULT_CHANGES;
    lull__io_set_default(&fault.io);
    lull_ckpt_options_t options = test_options(run->dir, rank, WORLD);
    options.keep_last = 1;
    options.commit_timeout_s = at == 0 ? 4 : 60;
    if (lull_ckpt_open(&options, &ckpt) != LULL_OK ||
        save_part(ckpt, 1, rank) != LULL_OK)
        _exit(4);
    fault.hook = die;
    faultio_arm(&fault, at, 0);
    if (save_part(ckpt, 2, rank) != LULL_OK)
        _exit(3);
    lull_status_t status = lull_ckpt_close(ckpt);
    lull_ckpt_destroy(ckpt);
    _exit(status == LULL_OK ? 0 : 3);
}

static void start(run_t *run) {
    test_dir_make(run->dir);
    fflush(stdout);
    for (uint32_t r = 0; r < WORLD; r++) {
        run->pids[r] = fork();
        if (run->pids[r] == 0)
            run_rank(run, r, r == run->victim ? run->at : 0);
        assert_true(run->pids[r] > 0);
    }
}

/* False: the rank was not killed, it makes fewer calls. */
static bool finish(run_t *run) {
    int ends[WORLD];
    lull_ckpt_id_t id;
    lull_ckpt_info_t *info;
    for (uint32_t r = 0; r < WORLD; r++)
        assert_int_equal(waitpid(run->pids[r], &ends[r], 0), run->pids[r]);
    bool killed = WIFSIGNALED(ends[run->victim]);
    int other = ends[1 - run->victim];
    assert_true(WIFEXITED(other));
    assert_true(WEXITSTATUS(other) == 0 || WEXITSTATUS(other) == 3);
    if (!killed)
        assert_int_equal(ends[run->victim], 0);
    assert_ok(lull_ckpt_find(run->dir, NULL, &id));
    /* Who was told that it is committed, was told the truth. */
    assert_true(other == 0 ? id.step == 2 : id.step >= 1);
    assert_ok(lull_ckpt_info_open(run->dir, id, &info));
    assert_ok(lull_ckpt_verify(info, NULL, NULL));
    lull_ckpt_info_destroy(info);
    test_dir_drop(run->dir);
    return killed;
}

static void every_call_of(uint32_t victim) {
    static run_t runs[BATCH];
    uint64_t at = 1, last = 0;
    for (bool more = true; more;) {
        for (unsigned i = 0; i < BATCH; i++) {
            runs[i] = (run_t){.victim = victim, .at = at++};
            start(&runs[i]);
        }
        for (unsigned i = 0; i < BATCH; i++)
            if (finish(&runs[i]))
                last = runs[i].at;
            else
                more = false;
        assert_true(at < 200);
    }
    printf("rank %u was killed at each of %u calls\n", victim, (unsigned)last);
    assert_true(last > 5);
}

static void rank_0(void **state) {
    (void)state;
    every_call_of(0);
}

static void rank_1(void **state) {
    (void)state;
    every_call_of(1);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(rank_0),
                                       cmocka_unit_test(rank_1)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
