/* A checkpoint written in one go by the formats' own writers, without the
 * engine: for tests of reading. */
#ifndef TEST_CKPT_WRITER_H
#define TEST_CKPT_WRITER_H

#include <lull/ckpt.h>

#include "ckpt/vote.h"

typedef struct test_shard {
    uint32_t rank;
    const char *name;
    lull__shard_kind_t kind;
    lull_dtype_t dtype;
    uint32_t ndim;
    uint64_t global[LULL_MAX_DIMS];
    lull__box_t box;
    const void *data;  /* of the box, row-major */
    const char *codec; /* NULL: raw; else a spec, encoded in frames */
} test_shard_t;

typedef struct test_ckpt {
    const char *dir; /* exists */
    uint64_t seq, parent, step;
    uint32_t world;
    const test_shard_t *shards; /* ascending rank */
    size_t count;
    const lull_ckpt_meta_t *meta;
    size_t meta_count;
    const lull_ckpt_meta_t *aliases; /* rank 0 tells of them */
    size_t alias_count;
} test_ckpt_t;

/* Writes step-%08 into dir; fails the test when it cannot. */
void test_ckpt_write(const test_ckpt_t *ckpt);

/* The whole box of a shape. */
lull__box_t test_whole(uint32_t ndim, const uint64_t *shape);

/* Frames of 1 MiB of raw data, as an engine makes them. */
void test_encode(const test_shard_t *shard, uint64_t raw, lull__memory_t *to,
                 uint64_t **frames, uint64_t *frame_count);
/* How a shard with a codec becomes frames: that, unless a test sets it. */
extern void (*test_ckpt_encode)(const test_shard_t *shard, uint64_t raw,
                                lull__memory_t *to, uint64_t **frames,
                                uint64_t *frame_count);

/* A fresh directory under the build's; its path is malloc'ed. */
char *test_dir(const char *name);
/* Deletes a tree. */
void test_dir_remove(char *path);

/* A whole file; malloc'ed with a NUL behind it. And back. */
char *test_file_read(const char *dir, const char *name, size_t *bytes);
void test_file_write(const char *dir, const char *name, const void *data,
                     size_t bytes);

#endif
