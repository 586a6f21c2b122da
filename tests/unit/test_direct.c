/* io: reads and writes past the page cache, on a file system played by a table:
 * it knows which descriptor is direct and holds it to its rules. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "io/direct.h"
#include "test.h"

enum { SECTOR = 4096, BYTES = 5 * SECTOR + 100 };

static struct {
    int open_error;     /* of opening with O_DIRECT */
    int read_error;     /* of reading so */
    int write_error;    /* of writing so */
    bool strict;        /* takes no memory */
    size_t most;        /* bytes of a direct read; 0: all */
    unsigned interrupt; /* so many direct reads, or writes */
    int direct_fd;
    unsigned opened, direct_reads, plain_reads; /* reads that gave bytes */
} disk;

static int disk_open(const lull__io_t *io, int dir, const char *path, int flags,
                     unsigned mode) {
    if ((flags & O_DIRECT) && disk.open_error != 0)
        return -disk.open_error;
    int fd = lull__io_system.ops->open(io, dir, path, flags & ~O_DIRECT, mode);
    if (flags & O_DIRECT) {
        disk.direct_fd = fd;
        disk.opened++;
    }
    return fd;
}

static ssize_t disk_read(const lull__io_t *io, int fd, void *data, size_t bytes,
                         uint64_t offset) {
    if (fd != disk.direct_fd) {
        disk.plain_reads++;
        return lull__io_system.ops->read(io, fd, data, bytes, offset);
    }
    if (disk.interrupt > 0) {
        disk.interrupt--;
        return -EINTR;
    }
    if (disk.read_error != 0)
        return -disk.read_error;
    if (offset % SECTOR != 0 || bytes % SECTOR != 0 ||
        (uintptr_t)data % SECTOR != 0 || disk.strict)
        return -EINVAL;
    disk.direct_reads++;
    if (disk.most > 0 && bytes > disk.most)
        bytes = disk.most;
    return lull__io_system.ops->read(io, fd, data, bytes, offset);
}

static ssize_t disk_write(const lull__io_t *io, int fd, const void *data,
                          size_t bytes, uint64_t offset) {
    if (fd == disk.direct_fd && disk.interrupt > 0) {
        disk.interrupt--;
        return -EINTR;
    }
    if (fd == disk.direct_fd && disk.write_error != 0)
        return -disk.write_error;
    if (fd == disk.direct_fd && disk.most > 0 && bytes > disk.most)
        bytes = disk.most;
    return lull__io_system.ops->write(io, fd, data, bytes, offset);
}

static char root[64];
static lull__io_ops_t ops;
static lull__io_t io = {.ops = &ops};
static lull__dir_t dir;
static lull__file_t file;
static lull__direct_known_t known;
static lull__direct_t direct;
static unsigned char was[BYTES],
    *back; /* back: page-aligned, and a page more */

static int begin(void **state) {
    (void)state;
    strcpy(root, "/tmp/lull-test-direct-XXXXXX");
    ops = *lull__io_system.ops;
    ops.open = disk_open;
    ops.read = disk_read;
    ops.write = disk_write;
    memset(&disk, 0, sizeof disk);
    disk.direct_fd = -1;
    known = (lull__direct_known_t){0};
    direct = (lull__direct_t)LULL__DIRECT_INIT(&known);
    for (int i = 0; i < BYTES; i++)
        was[i] = (unsigned char)(i * 7 + i / SECTOR);
    back = aligned_alloc(SECTOR, 8 * SECTOR);
    if (back == NULL || mkdtemp(root) == NULL)
        return -1;
    return lull__dir_open(&io, root, &dir) != LULL_OK ||
           lull__file_open(&dir, "f", O_RDWR | O_CREAT, &file) != LULL_OK ||
           lull__file_write(&file, was, BYTES, 0) != LULL_OK;
}

static int end(void **state) {
    (void)state;
    char command[128];
    lull__direct_close(&direct);
    lull__direct_close(&direct);
    (void)lull__file_close(&file);
    lull__dir_close(&dir);
    free(back);
    snprintf(command, sizeof command, "rm -rf %s", root);
    return system(command);
}

/* Right bytes, by so many direct and plain reads. */
static void reads(void *to, uint64_t bytes, uint64_t offset, unsigned directly,
                  unsigned plainly) {
    memset(back, 0, 8 * SECTOR);
    disk.direct_reads = disk.plain_reads = 0;
    assert_ok(lull__direct_read(&direct, &file, to, bytes, offset));
    assert_memory_equal(to, was + offset, bytes);
    assert_int_equal(disk.direct_reads, directly);
    assert_int_equal(disk.plain_reads, plainly);
}

static void whole_sectors_are_read_directly(void **state) {
    (void)state;
    reads(back, 5 * SECTOR, 0, 1, 0);
    reads(back + SECTOR, 3 * SECTOR, SECTOR, 1, 0);
    reads(back, BYTES - SECTOR, SECTOR, 1, 1); /* with the odd tail */
    reads(back, 100, 5 * SECTOR, 0, 1);
    reads(back, SECTOR, 1, 0, 1);
    reads(back + 512, SECTOR, 0, 0, 1); /* memory of no use */
    assert_int_equal(disk.opened, 1);
    assert_false(known.refused);
}

static void refused_it_goes_through_the_cache(void **state) {
    (void)state;
    disk.open_error = EINVAL;
    reads(back, BYTES, 0, 0, 1);
    assert_true(known.refused);
    disk.open_error = 0;
    reads(back, BYTES, 0, 0, 1);
    assert_int_equal(disk.opened, 0); /* it is not tried again */
    known.refused = false;
    disk.read_error = EOPNOTSUPP;
    reads(back, BYTES, 0, 0, 1);
    assert_true(lull__direct_refused(&direct));
    known.refused = false;
    disk.read_error = 0;
    disk.strict = true;
    reads(back, BYTES, 0, 0, 1);
    assert_true(lull__direct_refused(&direct));
}

static void memory_of_a_driver_is_copied_to(void **state) {
    (void)state;
    disk.read_error = EFAULT;
    reads(back, BYTES, 0, 0, 1);
    assert_false(known.refused);
}

static void short_and_interrupted_reads_go_on(void **state) {
    (void)state;
    disk.interrupt = 3;
    reads(back, 5 * SECTOR, 0, 1, 0);
    disk.most = SECTOR;
    reads(back, 5 * SECTOR, 0, 5, 0);
    disk.most = 10; /* then an odd place is gone on from by the cache */
    reads(back, 5 * SECTOR, 0, 1, 1);
    assert_false(known.refused);
}

static void errors_name_the_file(void **state) {
    (void)state;
    disk.read_error = EIO;
    assert_fails(lull__direct_read(&direct, &file, back, SECTOR, 0),
                 LULL_ERR_IO, "/f");
    disk.read_error = 0;
    assert_ok(lull__file_truncate(&file, 2 * SECTOR));
    assert_fails(lull__direct_read(&direct, &file, back, 5 * SECTOR, 0),
                 LULL_ERR_CORRUPT, "/f: ends at byte 8192");
}

/* Not there any more, or too many are open: this time only. */
static void what_is_no_refusal_is_not_learnt(void **state) {
    (void)state;
    disk.open_error = EMFILE;
    reads(back, 5 * SECTOR, 0, 0, 1);
    assert_false(known.refused);
    disk.open_error = 0;
    reads(back, 5 * SECTOR, 0, 1, 0);
}

static lull__direct_writes_t writes;

/* Is it open for direct writes? */
static bool opens(void) {
    lull__file_t out;
    assert_ok(lull__direct_open(&file, &writes, &out));
    bool open = out.fd >= 0;
    assert_ok(lull__file_close(&out));
    return open;
}

static void a_disk_that_refuses_writes_is_known(void **state) {
    (void)state;
    static const int refusals[] = {EINVAL, EOPNOTSUPP, ENOTSUP};
    for (int i = 0; i < 6; i++) {
        writes = (lull__direct_writes_t){0};
        disk.open_error = i < 3 ? refusals[i] : 0;
        disk.write_error = i < 3 ? 0 : refusals[i - 3];
        assert_false(opens());
        assert_true(writes.refused);
        disk.open_error = disk.write_error = 0;
        disk.opened = 0;
        assert_false(opens());
        assert_int_equal(disk.opened, 0); /* it is not tried again */
    }
}

static void a_disk_that_takes_writes_is_known(void **state) {
    (void)state;
    writes = (lull__direct_writes_t){0};
    disk.interrupt = 2;
    disk.most = 100; /* some of it: it does take them */
    assert_true(opens());
    assert_true(writes.taken);
    disk.write_error = EINVAL; /* it is not tried again */
    assert_true(opens());
}

static void errors_of_the_trial_are_told(void **state) {
    (void)state;
    static const struct {
        int error;
        lull_status_t status;
    } rows[] = {{ENOSPC, LULL_ERR_NO_SPACE},
                {EDQUOT, LULL_ERR_NO_SPACE},
                {EIO, LULL_ERR_IO},
                {EROFS, LULL_ERR_PERMISSION},
                {EMFILE, LULL_ERR_NO_MEMORY}};
    for (int i = 0; i < 10; i++) {
        lull__file_t out;
        writes = (lull__direct_writes_t){0};
        disk.open_error = i < 5 ? rows[i].error : 0;
        disk.write_error = i < 5 ? 0 : rows[i - 5].error;
        assert_fails(lull__direct_open(&file, &writes, &out),
                     rows[i % 5].status, root);
        assert_non_null(strstr(lull_last_error(), "/f: "));
        assert_non_null(
            strstr(lull_last_error(), strerrordesc_np(rows[i % 5].error)));
        assert_int_equal(out.fd, -1);
        assert_false(writes.refused);
        disk.open_error = disk.write_error = 0;
        assert_true(opens());
    }
}

int main(void) {
#define WITH_FILE(test) cmocka_unit_test_setup_teardown(test, begin, end)
    const struct CMUnitTest tests[] = {
        WITH_FILE(whole_sectors_are_read_directly),
        WITH_FILE(refused_it_goes_through_the_cache),
        WITH_FILE(memory_of_a_driver_is_copied_to),
        WITH_FILE(short_and_interrupted_reads_go_on),
        WITH_FILE(errors_name_the_file),
        WITH_FILE(what_is_no_refusal_is_not_learnt),
        WITH_FILE(a_disk_that_refuses_writes_is_known),
        WITH_FILE(a_disk_that_takes_writes_is_known),
        WITH_FILE(errors_of_the_trial_are_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
