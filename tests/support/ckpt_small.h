/* A small checkpoint of two ranks, that no engine wrote. */
#ifndef TEST_CKPT_SMALL_H
#define TEST_CKPT_SMALL_H

#include <lull/ckpt.h>

#include "ckpt_writer.h"
#include "test.h"

static const float w_top[6] = {1, 2, 3, 4, 5, 6};
static const float w_low[6] = {7, 8, 9, 10, 11, 12};
static const uint16_t bias[3] = {100, 200, 300};
static const double scalar = 2.5;

static const test_shard_t small_shards[] = {
    {0,
     "w",
     LULL__SHARD_TENSOR,
     LULL_F32,
     2,
     {4, 3},
     {{0, 0}, {2, 3}},
     w_top,
     NULL},
    {0,
     "b/..|\xc3\xa9",
     LULL__SHARD_TENSOR,
     LULL_BF16,
     1,
     {3},
     {{0}, {3}},
     bias,
     NULL},
    {0,
     "none",
     LULL__SHARD_TENSOR,
     LULL_F32,
     2,
     {0, 3},
     {{0}, {0, 3}},
     NULL,
     NULL},
    {0,
     "loader",
     LULL__SHARD_STATE,
     LULL_U8,
     1,
     {5},
     {{0}, {5}},
     "state",
     NULL},
    {0,
     "rng",
     LULL__SHARD_STATE_RANK,
     LULL_U8,
     1,
     {4},
     {{0}, {4}},
     "rng0",
     NULL},
    {1,
     "w",
     LULL__SHARD_TENSOR,
     LULL_F32,
     2,
     {4, 3},
     {{2, 0}, {2, 3}},
     w_low,
     NULL},
    {1, "s", LULL__SHARD_TENSOR, LULL_F64, 0, {0}, {{0}, {0}}, &scalar, NULL},
    {1,
     "rng",
     LULL__SHARD_STATE_RANK,
     LULL_U8,
     1,
     {4},
     {{0}, {4}},
     "rng1",
     NULL},
};
static const lull_ckpt_meta_t small_meta[] = {{"model.model_type", "gpt_neox"},
                                              {"note", "a \"b\"\n"}};
static const lull_ckpt_meta_t small_aliases[] = {{"tied", "w"}};

static inline void write_small(const char *dir, uint64_t seq, uint64_t step) {
    test_ckpt_write(
        &(test_ckpt_t){.dir = dir,
                       .seq = seq,
                       .step = step,
                       .parent = seq - 1,
                       .world = 2,
                       .shards = small_shards,
                       .count = sizeof small_shards / sizeof *small_shards,
                       .meta = small_meta,
                       .meta_count = 2,
                       .aliases = small_aliases,
                       .alias_count = 1});
}

static inline lull_ckpt_slice_t slice_w(void *to) {
    return (lull_ckpt_slice_t){.size = sizeof(lull_ckpt_slice_t),
                               .name = "w",
                               .dtype = LULL_F32,
                               .ndim = 2,
                               .global_shape = {4, 3},
                               .shape = {4, 3},
                               .data = to};
}

#endif
