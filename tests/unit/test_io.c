/* io: whole transfers through short and interrupted calls, publication. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/checksum.h"
#include "io/file.h"
#include "test.h"

/* Every other write and read is interrupted; the rest moves at most 7. */
static unsigned calls;

static ssize_t stingy_write(const lull__io_t *io, int fd, const void *data,
                            size_t bytes, uint64_t offset) {
    if (calls++ % 2 == 0)
        return -EINTR;
    return lull__io_system.ops->write(io, fd, data, bytes < 7 ? bytes : 7,
                                      offset);
}

static ssize_t stingy_read(const lull__io_t *io, int fd, void *data,
                           size_t bytes, uint64_t offset) {
    if (calls++ % 2 == 0)
        return -EINTR;
    return lull__io_system.ops->read(io, fd, data, bytes < 7 ? bytes : 7,
                                     offset);
}

static ssize_t stuck_write(const lull__io_t *io, int fd, const void *data,
                           size_t bytes, uint64_t offset) {
    (void)io, (void)fd, (void)data, (void)bytes, (void)offset;
    return 0;
}

static char root[64];

static int make_root(void **state) {
    (void)state;
    strcpy(root, "/tmp/lull-test-io-XXXXXX");
    return mkdtemp(root) ? 0 : -1;
}

static int drop_root(void **state) {
    (void)state;
    char command[128];
    snprintf(command, sizeof command, "rm -rf %s", root);
    return system(command);
}

static void short_and_interrupted_transfers_are_resumed(void **state) {
    (void)state;
    lull__io_ops_t ops = *lull__io_system.ops;
    ops.write = stingy_write;
    ops.read = stingy_read;
    lull__io_t io = {.ops = &ops};
    lull__dir_t dir;
    assert_ok(lull__dir_open(&io, root, &dir));
    lull__file_t file;
    assert_ok(lull__file_open(&dir, "f", O_RDWR | O_CREAT, &file));
    assert_ok(lull__file_write(&file, "0123456789abcdefghij", 20, 3));
    char back[24] = "";
    assert_ok(lull__file_read(&file, back, 20, 3));
    assert_string_equal(back, "0123456789abcdefghij");
    assert_fails(lull__file_read(&file, back, 21, 3), LULL_ERR_CORRUPT, "/f");
    ops.write = stuck_write;
    assert_fails(lull__file_write(&file, "x", 1, 0), LULL_ERR_IO, root);
    assert_ok(lull__file_close(&file));
    lull__dir_close(&dir);
}

static void publish_replaces_whole(void **state) {
    (void)state;
    lull__dir_t dir;
    char *data;
    uint64_t bytes;
    assert_ok(lull__dir_open(&lull__io_system, root, &dir));
    lull__publish_t what = {".p.tmp", "p", "one", 3, true};
    assert_ok(lull__file_publish(&dir, &what));
    what.data = "twenty";
    what.bytes = 6;
    assert_ok(lull__file_publish(&dir, &what));
    assert_ok(lull__file_slurp(&dir, "p", 6, &data, &bytes));
    assert_string_equal(data, "twenty");
    free(data);
    assert_fails(lull__file_slurp(&dir, "p", 5, &data, &bytes),
                 LULL_ERR_CORRUPT, "/p");
    assert_false(lull__dir_has(&dir, ".p.tmp"));
    assert_fails(lull__file_slurp(&dir, "q", 5, &data, &bytes),
                 LULL_ERR_NOT_FOUND, "/q");
    lull__dir_close(&dir);
}

static void trees_are_made_and_removed(void **state) {
    (void)state;
    char path[128];
    snprintf(path, sizeof path, "%s/a//b/c", root);
    assert_ok(lull__dir_create_path(&lull__io_system, path));
    assert_ok(lull__dir_create_path(&lull__io_system, path));
    lull__dir_t dir;
    assert_ok(lull__dir_open(&lull__io_system, root, &dir));
    lull__publish_t what = {"t", "a/b/f", "one", 3, false};
    assert_ok(lull__file_publish(&dir, &what));
    assert_ok(lull__dir_remove_tree(&dir, "a"));
    assert_ok(lull__dir_remove_tree(&dir, "a"));
    assert_false(lull__dir_has(&dir, "a"));
    lull__dir_close(&dir);
}

static void a_file_in_the_way_is_named(void **state) {
    (void)state;
    char path[128];
    lull__dir_t dir;
    assert_ok(lull__dir_open(&lull__io_system, root, &dir));
    lull__publish_t what = {"t", "plain", "one", 3, false};
    assert_ok(lull__file_publish(&dir, &what));
    lull__dir_close(&dir);
    snprintf(path, sizeof path, "%s/plain/sub", root);
    assert_fails(lull__dir_create_path(&lull__io_system, path), LULL_ERR_IO,
                 "plain");
}

static void hashes_stream_and_have_text(void **state) {
    (void)state;
    static unsigned char data[100000];
    for (size_t i = 0; i < sizeof data; i++)
        data[i] = (unsigned char)(i * 131 >> 3);
    lull__hash_t hash;
    lull__hash_begin(&hash);
    for (size_t at = 0, n = 1; at < sizeof data; at += n, n = n * 2 + 1) {
        if (n > sizeof data - at)
            n = sizeof data - at;
        lull__hash_update(&hash, data + at, n);
    }
    uint64_t value = lull__hash_of(data, sizeof data), back;
    assert_true(lull__hash_end(&hash) == value);
    /* The published value of XXH3-64 of no bytes with seed 0. */
    assert_true(lull__hash_of(NULL, 0) == 0x2d06800538d394c2u);
    char text[LULL__HASH_HEX];
    lull__hash_format(0x2d06800538d394c2u, text);
    assert_string_equal(text, "2d06800538d394c2");
    assert_true(lull__hash_parse(text, &back));
    assert_true(back == 0x2d06800538d394c2u);
    assert_false(lull__hash_parse("2D06800538d394c2", &back));
    assert_false(lull__hash_parse("2d06800538d394c", &back));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(short_and_interrupted_transfers_are_resumed),
        cmocka_unit_test(publish_replaces_whole),
        cmocka_unit_test(trees_are_made_and_removed),
        cmocka_unit_test(a_file_in_the_way_is_named),
        cmocka_unit_test(hashes_stream_and_have_text),
    };
    return cmocka_run_group_tests(tests, make_root, drop_root);
}
