/* A rank that dies, hangs or is cancelled at a storage call, for every call of
 * a save that changes the disk: the other one learns of it in time, what was
 * committed stays, and the next run goes on. */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/thread.h"
#include "ckpt.h"
#include "clock.h"
#include "faultio.h"
#include "test.h"

#define WORLD 2
#define ROWS 64

#define BATCH 16 /* runs at once: they mostly wait for who is dead */

static uint32_t rows[ROWS];

typedef enum end { DIES, HANGS, IS_CANCELLED } end_t;

/* A run whose rank `victim` ends so at its call `at`. */
typedef struct run {
    char dir[256];
    end_t end;
    uint32_t victim;
    uint64_t at;
    pid_t pids[WORLD];
    bool *over; /* of all processes; atomic: the victim has come to its end */
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
    return lull_ckpt_save(ckpt, &save, NULL);
}

static lull_status_t save_and_wait(lull_ckpt_t *ckpt, uint64_t step,
                                   uint32_t rank) {
    lull_status_t status = save_part(ckpt, step, rank);
    return status ? status : lull_ckpt_wait_committed(ckpt, NULL, LULL_FOREVER);
}

static bool reached; /* atomic: the call at which it is cancelled */

static void end_here(faultio_t *fault, fault_op_t op) {
    (void)op;
    run_t *run = fault->hook_ctx;
    __atomic_store_n(run->over, true, __ATOMIC_SEQ_CST);
    if (run->end != IS_CANCELLED)
        raise(run->end == DIES ? SIGKILL : SIGSTOP);
    __atomic_store_n(&reached, true, __ATOMIC_SEQ_CST);
    lull__sleep(0.05); /* destroy() begins */
}

#define CANCELLED 5

/* destroy() is called in the middle of that call, if there is one. */
static void cancel(lull_ckpt_t *ckpt, uint32_t rank) {
    lull_status_t status = save_part(ckpt, 2, rank);
    while (status == LULL_OK && !__atomic_load_n(&reached, __ATOMIC_SEQ_CST)) {
        status = lull_ckpt_wait_committed(ckpt, NULL, 1);
        if (status == LULL_OK)
            break;
        if (status == LULL_ERR_TIMEOUT)
            status = LULL_OK;
    }
    /* What follows the commit may be the one. */
    lull__sleep(0.05);
    lull_ckpt_destroy(ckpt);
    _exit(__atomic_load_n(&reached, __ATOMIC_SEQ_CST) ? CANCELLED : 0);
}

/* The other rank waits for it in vain from then on, and gives up in 2 s. */
static void *hurry(void *arg) {
    const run_t *run = arg;
    while (!__atomic_load_n(run->over, __ATOMIC_SEQ_CST))
        lull__sleep(0.001);
    test_clock_speed(TEST_CLOCK_TIMEOUT / 2);
    return NULL;
}

/* Saves steps 1 and 2; ends at call `at` of the second (0: never). Exit codes:
 * 0 both committed, 3 the second did not, 4 the first did not. */
static void run_rank(run_t *run, uint32_t rank, uint64_t at) {
    static faultio_t fault;
    lull_ckpt_t *ckpt;
    faultio_init(&fault);
    fault.ops = FAULT_CHANGES;
    lull__io_set_default(&fault.io);
    lull_ckpt_options_t options = test_options(run->dir, rank, WORLD);
    options.keep_last = 1;
    options.commit_timeout_s = TEST_CLOCK_TIMEOUT;
    if (lull_ckpt_open(&options, &ckpt) != LULL_OK ||
        save_and_wait(ckpt, 1, rank) != LULL_OK)
        _exit(4);
    fault.hook = end_here;
    fault.hook_ctx = run;
    faultio_arm(&fault, at, 0);
    pthread_t thread;
    if (at == 0 && pthread_create(&thread, NULL, hurry, run) != 0)
        _exit(4);
    if (at != 0 && run->end == IS_CANCELLED)
        cancel(ckpt, rank);
    if (save_and_wait(ckpt, 2, rank) != LULL_OK)
        _exit(3);
    lull_status_t status = lull_ckpt_close(ckpt);
    lull_ckpt_destroy(ckpt);
    _exit(status == LULL_OK ? 0 : 3);
}

static void start(run_t *run) {
    test_dir_make(run->dir);
    __atomic_store_n(run->over, false, __ATOMIC_SEQ_CST);
    fflush(stdout);
    for (uint32_t r = 0; r < WORLD; r++) {
        run->pids[r] = fork();
        if (run->pids[r] == 0)
            run_rank(run, r, r == run->victim ? run->at : 0);
        assert_true(run->pids[r] > 0);
    }
}

/* Whether the victim came to its end; one that hangs is killed now. */
static bool victim_ended(run_t *run) {
    int end;
    pid_t victim = run->pids[run->victim];
    assert_int_equal(waitpid(victim, &end, WUNTRACED), victim);
    bool ended =
        !WIFEXITED(end) || (run->end == IS_CANCELLED && WEXITSTATUS(end) != 0);
    if (!ended)
        assert_int_equal(end, 0);
    else if (WIFEXITED(end))
        assert_int_equal(WEXITSTATUS(end), CANCELLED);
    if (WIFSTOPPED(end)) {
        kill(victim, SIGKILL);
        assert_int_equal(waitpid(victim, &end, 0), victim);
    }
    return ended;
}

/* The next run cleans up and saves. */
static void go_on(const run_t *run) {
    lull_ckpt_t *ckpt;
    lull_ckpt_options_t options = test_options(run->dir, 0, 1);
    options.run_id = "next";
    assert_ok(lull_ckpt_open(&options, &ckpt));
    assert_int_equal(test_count(run->dir, "."), 1);
    lull_ckpt_tensor_t tensor = test_tensor("rows", LULL_U32, ROWS, rows);
    lull_ckpt_save_t save = LULL_CKPT_SAVE_INIT;
    save.step = 3;
    save.tensors = &tensor;
    save.tensor_count = 1;
    assert_ok(lull_ckpt_save(ckpt, &save, NULL));
    assert_ok(lull_ckpt_close(ckpt));
    lull_ckpt_destroy(ckpt);
}

/* False: the rank did not come to its end, it makes fewer calls. */
static bool finish(run_t *run) {
    int end;
    lull_ckpt_id_t id;
    lull_ckpt_info_t *info;
    pid_t other = run->pids[1 - run->victim];
    assert_int_equal(waitpid(other, &end, 0), other);
    assert_true(WIFEXITED(end));
    assert_true(WEXITSTATUS(end) == 0 || WEXITSTATUS(end) == 3);
    bool ended = victim_ended(run);
    assert_ok(lull_ckpt_find(run->dir, NULL, &id));
    /* Who was told that it is committed, was told the truth. */
    assert_true(end == 0 ? id.step == 2 : id.step >= 1);
    assert_ok(lull_ckpt_info_open(run->dir, id, &info));
    assert_ok(lull_ckpt_verify(info, NULL, NULL));
    lull_ckpt_info_destroy(info);
    go_on(run);
    test_dir_drop(run->dir);
    return ended;
}

static void every_call_of(uint32_t victim, end_t how) {
    static run_t runs[BATCH];
    static bool *over;
    uint64_t at = 1, last = 0;
    if (over == NULL)
        over = mmap(NULL, BATCH * sizeof *over, PROT_READ | PROT_WRITE,
                    MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(over != MAP_FAILED);
    for (bool more = true; more;) {
        for (unsigned i = 0; i < BATCH; i++) {
            runs[i] = (run_t){
                .victim = victim, .end = how, .at = at++, .over = &over[i]};
            start(&runs[i]);
        }
        for (unsigned i = 0; i < BATCH; i++)
            if (finish(&runs[i]))
                last = runs[i].at;
            else
                more = false;
        assert_true(at < 200);
    }
    printf("rank %u ended at each of %u calls\n", victim, (unsigned)last);
    assert_true(last > 5);
}

static void rank_0_dies(void **state) {
    (void)state;
    every_call_of(0, DIES);
}

static void rank_1_dies(void **state) {
    (void)state;
    every_call_of(1, DIES);
}

static void rank_0_hangs(void **state) {
    (void)state;
    every_call_of(0, HANGS);
}

static void rank_1_hangs(void **state) {
    (void)state;
    every_call_of(1, HANGS);
}

static void rank_0_is_cancelled(void **state) {
    (void)state;
    every_call_of(0, IS_CANCELLED);
}

static void rank_1_is_cancelled(void **state) {
    (void)state;
    every_call_of(1, IS_CANCELLED);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rank_0_dies),
        cmocka_unit_test(rank_1_dies),
        cmocka_unit_test(rank_0_hangs),
        cmocka_unit_test(rank_1_hangs),
        cmocka_unit_test(rank_0_is_cancelled),
        cmocka_unit_test(rank_1_is_cancelled),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
