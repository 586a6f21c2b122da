/* The queue of writes, by each backend: all bytes arrive, failures are told
 * with the path, short writes go on, what is queued is done before the end. */
#include <errno.h>
#include <fcntl.h>
#include <lull/status.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "ckpt.h"
#include "faultio.h"
#include "io/queue.h"
#include "support.h"
#include "test.h"

#define BYTES ((size_t)4 << 20)
#define JOBS 300

static char path[256];
static char *buffer;
static lull__dir_t dir;
static lull__file_t file;

static int set_up(void **state) {
    (void)state;
    test_dir_make(path);
    buffer = aligned_alloc(4096, BYTES);
    test_fill(buffer, BYTES, 5);
    assert_ok(lull__dir_open(&lull__io_system, path, &dir));
    assert_ok(lull__file_open(&dir, "f", O_RDWR | O_CREAT, &file));
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    (void)lull__file_close(&file);
    lull__dir_close(&dir);
    free(buffer);
    test_dir_drop(path);
    return lull_setting_set("io", "auto");
}

static unsigned ok_count, failed_count;
static lull_status_t last_status;
static char last_sentence[1024];

static void done(lull__io_job_t *job, lull_status_t status) {
    (void)job;
    if (status == LULL_OK) {
        __atomic_add_fetch(&ok_count, 1, __ATOMIC_SEQ_CST);
        return;
    }
    last_status = status;
    strcpy(last_sentence, lull_last_error());
    __atomic_add_fetch(&failed_count, 1, __ATOMIC_SEQ_CST);
}

static lull__io_queue_t *make(const char *backend, const lull__io_t *io,
                              uint64_t cap) {
    lull__io_queue_t *queue;
    ok_count = failed_count = 0;
    assert_ok(lull_setting_set("io", backend));
    lull__io_queue_options_t options = {.io = io,
                                        .threads = 3,
                                        .write_cap = cap,
                                        .buffer = buffer,
                                        .buffer_bytes = BYTES};
    assert_ok(lull__io_queue_create(&options, &queue));
    const char *got = lull__io_queue_about(queue)->backend;
    if (strcmp(backend, "uring") == 0 && cap == 0 &&
        strcmp(got, "io_uring") != 0)
        printf("[ NOTE ] no io_uring here: %s\n", lull_last_error());
    return queue;
}

/* Pieces of every length, in any order; in and outside of the buffer. */
static void all_bytes_arrive(const char *backend) {
    static lull__io_job_t jobs[JOBS];
    uint64_t random = test_seed(), offset = 0;
    static char elsewhere[100] = "elsewhere";
    lull__io_queue_t *queue = make(backend, &lull__io_system, 0);
    for (int i = 0; i < JOBS; i++) {
        uint64_t at = test_random(&random) % BYTES;
        uint64_t bytes = 1 + test_random(&random) % (BYTES - at);
        if (i % 3 == 0 && bytes > 999)
            bytes = 999;
        jobs[i] =
            (lull__io_job_t){&file, buffer + at, bytes, offset, done, NULL};
        if (i % 50 == 7)
            jobs[i].data = elsewhere, jobs[i].bytes = sizeof elsewhere;
        offset += jobs[i].bytes;
        lull__io_queue_write(queue, &jobs[i]);
    }
    lull__io_queue_destroy(queue);
    assert_int_equal(ok_count, JOBS);
    char *back = malloc(BYTES);
    for (int i = 0; i < JOBS; i++) {
        assert_ok(lull__file_read(&file, back, jobs[i].bytes, jobs[i].offset));
        assert_memory_equal(back, jobs[i].data, jobs[i].bytes);
    }
    free(back);
    lull__io_queue_destroy(NULL);
}

static void threads(void **state) {
    (void)state;
    all_bytes_arrive("threads");
}

static void uring(void **state) {
    (void)state;
    all_bytes_arrive("uring");
}

/* At the limit of a file's size a write is short, its rest fails. */
static void short_then_failing(const char *backend) {
    struct rlimit before, limit;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    signal(SIGXFSZ, SIG_IGN);
    limit = before;
    limit.rlim_cur = 300000;
    lull__io_queue_t *queue = make(backend, &lull__io_system, 0);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
    lull__io_job_t jobs[2] = {
        {&file, buffer, 1 << 20, 0, done, NULL},
        {&file, buffer, 4096, 8192, done, NULL},
    };
    lull__io_queue_write(queue, &jobs[0]);
    lull__io_queue_write(queue, &jobs[1]);
    lull__io_queue_destroy(queue);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    assert_int_equal(ok_count, 1);
    assert_int_equal(failed_count, 1);
    assert_int_equal(last_status, LULL_ERR_IO);
    assert_non_null(strstr(last_sentence, path));
    assert_non_null(strstr(last_sentence, strerror(EFBIG)));
}

static void a_short_write_goes_on(void **state) {
    (void)state;
    short_then_failing("threads");
    short_then_failing("uring");
}

/* ---- io_uring, whose completions are short ---- */

static unsigned shortened, writes_submitted;

#ifdef TEST_URING
#include <liburing.h>

int __real_io_uring_submit_and_wait(struct io_uring *ring, unsigned wait);
int __wrap_io_uring_submit_and_wait(struct io_uring *ring, unsigned wait);

/* Two of three writes are asked for a part only, so that they complete short,
 * again and again; some are asked for what is no whole sector. */
int __wrap_io_uring_submit_and_wait(struct io_uring *ring, unsigned wait) {
    for (unsigned i = ring->sq.sqe_head; i != ring->sq.sqe_tail; i++) {
        struct io_uring_sqe *sqe = &ring->sq.sqes[i & ring->sq.ring_mask];
        if (sqe->opcode != IORING_OP_WRITE &&
            sqe->opcode != IORING_OP_WRITE_FIXED)
            continue;
        if (writes_submitted++ % 3 < shortened)
            sqe->len -= sqe->len / 3;
    }
    return __real_io_uring_submit_and_wait(ring, wait);
}

int __real_io_uring_register_buffers(struct io_uring *ring,
                                     const struct iovec *buffers, unsigned n);
int __wrap_io_uring_register_buffers(struct io_uring *ring,
                                     const struct iovec *buffers, unsigned n);

/* As under a low limit of locked memory. */
static bool refuse_to_register;
static unsigned refused;

int __wrap_io_uring_register_buffers(struct io_uring *ring,
                                     const struct iovec *buffers, unsigned n) {
    refused += refuse_to_register;
    return refuse_to_register
               ? -ENOMEM
               : __real_io_uring_register_buffers(ring, buffers, n);
}

static unsigned told; /* how often the limit was named */

static void on_log(void *ctx, lull_log_level_t level, const char *text) {
    (void)ctx, (void)level;
    told += strstr(text, "ulimit -l") != NULL;
}

static void without_locked_memory(void **state) {
    (void)state;
    refuse_to_register = true;
    refused = told = 0;
    lull_log_set(on_log, NULL, LULL_LOG_INFO);
    all_bytes_arrive("uring");
    lull_log_set(NULL, NULL, LULL_LOG_WARN);
    refuse_to_register = false;
    if (refused == 0)
        printf("[ NOTE ] no io_uring: nothing to lock\n");
    assert_int_equal(told, refused);
}
#endif

static void short_completions_go_on(void **state) {
    (void)state;
    shortened = 2;
    writes_submitted = 0;
    all_bytes_arrive("uring");
    shortened = 0;
    if (writes_submitted == 0)
        printf("[ NOTE ] no io_uring: no completion was short\n");
    else
        assert_true(writes_submitted > 2 * JOBS);
}

static void other_tables_and_caps_get_threads(void **state) {
    (void)state;
    faultio_t fault;
    faultio_init(&fault);
    lull__io_queue_t *queue = make("auto", &fault.io, 0);
    assert_string_equal(lull__io_queue_about(queue)->backend, "threads");
    lull__io_queue_destroy(queue);
    /* 3 MB at 30 MB/s: the second and third job wait for the ones before. */
    queue = make("uring", &lull__io_system, 30000000);
    assert_string_equal(lull__io_queue_about(queue)->backend, "threads");
    lull__io_job_t jobs[3];
    double begin = lull__now();
    for (int i = 0; i < 3; i++) {
        jobs[i] = (lull__io_job_t){
            &file, buffer, 1000000, (uint64_t)i * 1000000, done, NULL};
        lull__io_queue_write(queue, &jobs[i]);
    }
    while (__atomic_load_n(&ok_count, __ATOMIC_SEQ_CST) < 3)
        lull__sleep(0.001);
    assert_true(lull__now() - begin >= 0.066);
    lull__io_queue_destroy(queue);
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(threads),
        TEST(uring),
        TEST(a_short_write_goes_on),
        TEST(short_completions_go_on),
#ifdef TEST_URING
        TEST(without_locked_memory),
#endif
        TEST(other_tables_and_caps_get_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
