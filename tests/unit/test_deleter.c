/* Deleting in the background: saves are committed while an old checkpoint is
 * slow to go, the disk is not filled with trash, and at the end all is gone. */
#include <pthread.h>
#include <unistd.h>

#include "ckpt.h"
#include "io/io.h"
#include "test.h"

static char dir[256];

/* A storage table whose unlink waits at a gate. */
static struct {
    lull__io_t io;
    lull__io_ops_t ops;
    pthread_mutex_t lock;
    pthread_cond_t opened;
    bool open;
} gate = {.lock = PTHREAD_MUTEX_INITIALIZER,
          .opened = PTHREAD_COND_INITIALIZER};

static void set_gate(bool open) {
    pthread_mutex_lock(&gate.lock);
    gate.open = open;
    pthread_cond_broadcast(&gate.opened);
    pthread_mutex_unlock(&gate.lock);
}

static int slow_unlink(const lull__io_t *io, int at, const char *path,
                       int flags) {
    (void)io;
    pthread_mutex_lock(&gate.lock);
    while (!gate.open)
        pthread_cond_wait(&gate.opened, &gate.lock);
    pthread_mutex_unlock(&gate.lock);
    return lull__io_system.ops->unlink(&lull__io_system, at, path, flags);
}

/* Trash fills the disk, where a test wants that. */
static bool crowded;

static int space_beside_trash(const lull__io_t *io, int fd, uint64_t *bytes) {
    (void)io;
    if (!crowded)
        return lull__io_system.ops->space(&lull__io_system, fd, bytes);
    *bytes = test_count(dir, ".trash") > 0 ? 4096 : 1 << 30;
    return 0;
}

static int make_dir(void **state) {
    (void)state;
    test_dir_make(dir);
    gate.ops = *lull__io_system.ops;
    gate.ops.unlink = slow_unlink;
    gate.ops.space = space_beside_trash;
    crowded = false;
    gate.io = lull__io_system;
    gate.io.ops = &gate.ops;
    lull__io_set_default(&gate.io);
    set_gate(true);
    return 0;
}

static int drop_dir(void **state) {
    (void)state;
    lull__io_set_default(NULL);
    test_dir_drop(dir);
    return 0;
}

static lull_ckpt_t *open_engine(void) {
    lull_ckpt_options_t options = test_options(dir, 0, 1);
    options.keep_last = 1;
    lull_ckpt_t *ckpt;
    assert_ok(lull_ckpt_open(&options, &ckpt));
    return ckpt;
}

static void save_one(lull_ckpt_t *ckpt, uint64_t step) {
    static uint32_t x[1000];
    lull_ckpt_tensor_t tensor = test_tensor("x", LULL_U32, 1000, x);
    lull_ckpt_save_t save = LULL_CKPT_SAVE_INIT;
    save.step = step;
    save.tensors = &tensor;
    save.tensor_count = 1;
    assert_ok(lull_ckpt_save(ckpt, &save, NULL));
}

/* Steps 2 to 5 let four go, and none of them can: all are committed, and
 * their saves are over, so that the next ones find room. */
static void commits_do_not_wait(void **state) {
    (void)state;
    lull_ckpt_t *ckpt = open_engine();
    set_gate(false);
    for (uint64_t step = 1; step <= 5; step++) {
        save_one(ckpt, step);
        assert_ok(lull_ckpt_wait_committed(ckpt, NULL, 200000));
    }
    assert_true(test_has(dir, "step-00000005"));
    set_gate(true);
    assert_ok(lull_ckpt_close(ckpt));
    lull_ckpt_destroy(ckpt);
    assert_int_equal(test_count(dir, "step-"), 1);
    assert_int_equal(test_count(dir, ".trash"), 0);
}

static void *open_late(void *arg) {
    lull_ckpt_t *ckpt = arg;
    lull_ckpt_stats_t stats = {.size = sizeof stats};
    while (stats.committed < 6) { /* the sixth has nowhere to put its trash */
        usleep(1000);
        assert_ok(lull_ckpt_stats(ckpt, &stats));
    }
    usleep(50000);
    set_gate(true);
    return NULL;
}

/* With more to go than the thread takes, the committer deletes itself: never
 * are there more than five of trash. */
static void trash_is_bounded(void **state) {
    (void)state;
    lull_ckpt_t *ckpt = open_engine();
    pthread_t thread;
    set_gate(false);
    assert_int_equal(pthread_create(&thread, NULL, open_late, ckpt), 0);
    for (uint64_t step = 1; step <= 12; step++) {
        save_one(ckpt, step);
        assert_true(test_count(dir, ".trash") <= 5);
    }
    pthread_join(thread, NULL);
    assert_ok(lull_ckpt_close(ckpt));
    lull_ckpt_destroy(ckpt);
    assert_int_equal(test_count(dir, "step-"), 1);
    assert_int_equal(test_count(dir, ".trash"), 0);
}

/* What has lost its name is gone when destroy returns, close or not. */
static void destroy_waits(void **state) {
    (void)state;
    lull_ckpt_t *ckpt = open_engine();
    for (uint64_t step = 1; step <= 3; step++) {
        save_one(ckpt, step);
        assert_ok(lull_ckpt_wait_committed(ckpt, NULL, 200000));
    }
    lull_ckpt_destroy(ckpt);
    assert_int_equal(test_count(dir, ".trash"), 0);
}

static void save_both(lull_ckpt_t **ranks, uint64_t step) {
    static uint32_t x[1000];
    for (int r = 0; r < 2; r++) {
        lull_ckpt_tensor_t tensor =
            test_tensor(r ? "y" : "x", LULL_U32, 1000, x);
        lull_ckpt_save_t save = LULL_CKPT_SAVE_INIT;
        save.step = step;
        save.tensors = &tensor;
        save.tensor_count = 1;
        assert_ok(lull_ckpt_save(ranks[r], &save, NULL));
    }
}

/* Only rank 0 deletes: another rank that finds no room waits for that, too. */
static void every_rank_waits_for_room(void **state) {
    (void)state;
    lull_ckpt_t *ranks[2];
    for (uint32_t r = 0; r < 2; r++) {
        lull_ckpt_options_t options = test_options(dir, r, 2);
        options.keep_last = 1;
        options.commit_timeout_s = 200;
        assert_ok(lull_ckpt_open(&options, &ranks[r]));
    }
    set_gate(false);
    crowded = true;
    for (uint64_t step = 1; step <= 2; step++) {
        save_both(ranks, step);
        for (int r = 0; r < 2; r++)
            assert_ok(lull_ckpt_wait_committed(ranks[r], NULL, 200000));
    }
    while (test_count(dir, ".trash") == 0)
        usleep(1000);
    save_both(ranks, 3);
    usleep(100000);
    set_gate(true);
    for (int r = 0; r < 2; r++)
        assert_ok(lull_ckpt_wait_committed(ranks[r], NULL, 200000));
    for (int r = 0; r < 2; r++) {
        assert_ok(lull_ckpt_close(ranks[r]));
        lull_ckpt_destroy(ranks[r]);
    }
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, make_dir, drop_dir)
    const struct CMUnitTest tests[] = {
        TEST(commits_do_not_wait),
        TEST(trash_is_bounded),
        TEST(destroy_waits),
        TEST(every_rank_waits_for_room),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
