/* What tests of checkpoints share: a fresh directory, engines, tensors, and a
 * reader of data files that is not the library's. */
#ifndef TEST_CKPT_H
#define TEST_CKPT_H

#include <lull/ckpt.h>
#include <stdio.h>

/* Makes /tmp/lull-test-XXXXXX (TMPDIR is followed); removed by test_dir_drop.
 */
void test_dir_make(char path[256]);
void test_dir_drop(const char *path);

/* A directory of the test at hand; set-up and tear-down of a test. The latter
 * makes the system's storage calls the default ones again. */
extern char ckpt_room[256];
int ckpt_room_make(void **state);
int ckpt_room_drop(void **state);
/* From now on directories are made in memory, where there is a large tmpfs and
 * TMPDIR is not set: for tests to which a disk would only add time. */
void ckpt_room_in_memory(void);

/* dir/name exists. */
bool test_has(const char *dir, const char *name);
/* Entries of a directory whose names begin with `prefix`. */
unsigned test_count(const char *dir, const char *prefix);
/* A whole file, malloc'ed, NUL behind; NULL if it cannot be read. */
char *test_slurp(const char *path, size_t *bytes);
void test_spit(const char *path, const void *data, size_t bytes);

/* Options of rank `rank` of `world` in `dir`, run id "run", 1 MiB of staging,
 * commit timeout 20 s. */
lull_ckpt_options_t test_options(const char *dir, uint32_t rank,
                                 uint32_t world);

/* Saves, and waits until it is committed. */
lull_status_t test_commit(lull_ckpt_t *ckpt, const lull_ckpt_save_t *save);

/* A whole one-dimensional tensor. */
lull_ckpt_tensor_t test_tensor(const char *name, lull_dtype_t dtype,
                               uint64_t count, const void *data);

/* The bytes of tensor `stored` in a rank's data file of DIR/step-N; malloc'ed.
 * NULL: it is not there. Fails the test if the file breaks a rule. */
char *test_stored(const char *dir, uint64_t step, uint32_t rank,
                  const char *stored, uint64_t *bytes);

/* Fills with what depends on seed, place and step. */
void test_fill(void *data, size_t bytes, uint64_t seed);

/* Open descriptors of this process. */
unsigned test_descriptors(void);

#endif
