/* ckpt: frames that lie; any layout loads into any other, a property test. */
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ckpt_writer.h"
#include "support.h"
#include "test.h"

/* ---- Codecs ---- */

/* A frame that is not what the vote says: its bytes are as they were written,
 * so only decoding can tell. */
static void encode_another(const test_shard_t *shard, uint64_t raw,
                           lull__memory_t *to, uint64_t **frames,
                           uint64_t *frame_count) {
    test_shard_t other = *shard;
    if (strcmp(shard->name, "dtype") == 0)
        other.dtype = LULL_I32;
    if (strcmp(shard->name, "length") == 0) {
        test_encode(&other, raw - 4, to, frames, frame_count);
        return;
    }
    size_t before = to->bytes;
    test_encode(&other, raw, to, frames, frame_count);
    if (strcmp(shard->name, "magic") == 0)
        to->data[before] ^= 1;
}

static void frames_that_lie(void **state) {
    (void)state;
    static const char *const names[] = {"dtype", "length", "magic"};
    char *dir = test_dir("frames");
    static float data[1000], back[1000];
    test_ckpt_encode = encode_another;
    for (uint64_t i = 0; i < 3; i++) {
        test_shard_t shard = {.name = names[i],
                              .dtype = LULL_F32,
                              .ndim = 1,
                              .global = {1000},
                              .box = {{0}, {1000}},
                              .data = data,
                              .codec = "raw"};
        test_ckpt_write(&(test_ckpt_t){.dir = dir,
                                       .seq = i + 1,
                                       .step = i,
                                       .world = 1,
                                       .shards = &shard,
                                       .count = 1});
        lull_ckpt_info_t *info;
        assert_ok(
            lull_ckpt_info_open(dir, (lull_ckpt_id_t){i + 1, i, 0}, &info));
        lull_ckpt_tensor_info_t tensor;
        assert_true(lull_ckpt_info_tensor_at(info, 0, &tensor));
        assert_string_equal(tensor.codec, "raw");
        lull_ckpt_slice_t slice = {.size = sizeof slice,
                                   .name = names[i],
                                   .dtype = LULL_F32,
                                   .ndim = 1,
                                   .global_shape = {1000},
                                   .shape = {1000},
                                   .data = back};
        lull_status_t status = lull_ckpt_load(info, &slice, 1, NULL);
        assert_int_not_equal(status, LULL_OK);
        assert_non_null(strstr(lull_last_error(), names[i]));
        assert_non_null(strstr(lull_last_error(), "frame 0"));
        lull_ckpt_info_destroy(info);
    }
    test_ckpt_encode = test_encode;
    test_dir_remove(dir);
}

/* ---- Any layout to any layout ---- */

#define MOST_TENSORS 6
#define MOST_SHARDS 64

typedef struct world {
    uint64_t seed;
    struct {
        char name[24];
        lull_dtype_t dtype;
        uint32_t ndim;
        uint64_t shape[LULL_MAX_DIMS];
    } tensors[MOST_TENSORS];
    size_t count;
    test_shard_t shards[MOST_SHARDS];
    size_t shard_count;
} world_t;

static uint64_t below(world_t *world, uint64_t n) {
    return test_random(&world->seed) % n;
}

/* The byte that belongs at byte `byte` of the element with a global index. */
static unsigned char value(size_t tensor, uint64_t index, unsigned byte) {
    uint64_t x = (index + 1) * 0x9e3779b97f4a7c15u + tensor * 0x1234567u;
    x ^= x >> 29;
    return (unsigned char)(x * 0xbf58476d1ce4e5b9u >> (8 * byte));
}

/* Fills, or checks against, what a box must hold. False: it differs. */
static bool visit(const world_t *world, size_t t, const lull__box_t *box,
                  unsigned char *data, bool check) {
    uint32_t ndim = world->tensors[t].ndim;
    unsigned width = lull_dtype_bits(world->tensors[t].dtype) / 8;
    uint64_t volume;
    assert_true(lull__shape_volume(ndim, box->shape, &volume));
    for (uint64_t e = 0; e < volume; e++) {
        uint64_t rest = e, index = 0, stride = 1;
        for (uint32_t d = ndim; d-- > 0;) {
            index += (box->offset[d] + rest % box->shape[d]) * stride;
            rest /= box->shape[d];
            stride *= world->tensors[t].shape[d];
        }
        for (unsigned b = 0; b < width; b++) {
            unsigned char *at = &data[e * width + b];
            if (check && *at != value(t, index, b))
                return false;
            *at = value(t, index, b);
        }
    }
    return true;
}

static unsigned char *box_data(const world_t *world, size_t t,
                               const lull__box_t *box) {
    uint64_t bytes;
    assert_ok(lull__shape_bytes(world->tensors[t].dtype, world->tensors[t].ndim,
                                box->shape, &bytes));
    return malloc(bytes + 1);
}

static void split(world_t *world, size_t t, lull__box_t box, unsigned depth) {
    uint32_t ndim = world->tensors[t].ndim;
    uint32_t d = ndim > 0 ? (uint32_t)below(world, ndim) : 0;
    if (depth > 0 && ndim > 0 && box.shape[d] > 1) {
        uint64_t at = below(world, box.shape[d] + 1);
        lull__box_t low = box, high = box;
        low.shape[d] = at;
        high.offset[d] += at;
        high.shape[d] -= at;
        split(world, t, low, depth - 1);
        split(world, t, high, depth - 1);
        return;
    }
    test_shard_t *shard = &world->shards[world->shard_count++];
    *shard = (test_shard_t){.name = world->tensors[t].name,
                            .dtype = world->tensors[t].dtype,
                            .ndim = ndim,
                            .box = box};
    memcpy(shard->global, world->tensors[t].shape, sizeof shard->global);
    unsigned char *data = box_data(world, t, &box);
    visit(world, t, &box, data, false);
    shard->data = data;
    if (shard->dtype == LULL_F32 || shard->dtype == LULL_F64)
        shard->codec = below(world, 3) == 0   ? "mpc:1"
                       : below(world, 3) == 0 ? "raw"
                                              : NULL;
}

static void invent(world_t *world, uint32_t ranks, bool large) {
    static const lull_dtype_t dtypes[] = {LULL_U8,  LULL_BF16, LULL_F32,
                                          LULL_F64, LULL_BOOL, LULL_I64};
    world->count = 1 + below(world, MOST_TENSORS);
    world->shard_count = 0;
    for (size_t t = 0; t < world->count; t++) {
        snprintf(world->tensors[t].name, 24, "t%zu", t);
        world->tensors[t].dtype = dtypes[below(world, 6)];
        world->tensors[t].ndim = (uint32_t)below(world, 5);
        memset(world->tensors[t].shape, 0, sizeof world->tensors[t].shape);
        for (uint32_t d = 0; d < world->tensors[t].ndim; d++)
            world->tensors[t].shape[d] =
                below(world, 12) == 0 ? 0 : 1 + below(world, 9);
        if (large && t == 0) {
            world->tensors[t].dtype = LULL_F32;
            world->tensors[t].ndim = 2;
            world->tensors[t].shape[0] = 100 + below(world, 900);
            world->tensors[t].shape[1] = 1000 + below(world, 1000);
        }
        split(world, t,
              test_whole(world->tensors[t].ndim, world->tensors[t].shape),
              (unsigned)below(world, 4));
    }
    for (size_t i = 0; i < world->shard_count; i++)
        world->shards[i].rank = (uint32_t)below(world, ranks);
}

static void random_slice(world_t *world, lull_ckpt_slice_t *slice,
                         lull__box_t *box, size_t *tensor) {
    size_t t = below(world, world->count);
    *slice = (lull_ckpt_slice_t)LULL_CKPT_SLICE_INIT;
    slice->name = world->tensors[t].name;
    slice->dtype = world->tensors[t].dtype;
    slice->ndim = world->tensors[t].ndim;
    memset(box, 0, sizeof *box);
    for (uint32_t d = 0; d < slice->ndim; d++) {
        uint64_t whole = world->tensors[t].shape[d];
        slice->global_shape[d] = whole;
        box->offset[d] = below(world, 3) == 0 ? 0 : below(world, whole + 1);
        box->shape[d] = below(world, 2) == 0
                            ? whole - box->offset[d]
                            : below(world, whole - box->offset[d] + 1);
    }
    memcpy(slice->offset, box->offset, sizeof slice->offset);
    memcpy(slice->shape, box->shape, sizeof slice->shape);
    slice->data = box_data(world, t, box);
    *tensor = t;
}

static void one_layout(world_t *world, bool large) {
    enum { SLICES = 12 };
    uint32_t ranks = 1 + (uint32_t)below(world, 5);
    char *dir = test_dir("layout");
    invent(world, ranks, large);
    test_ckpt_write(&(test_ckpt_t){.dir = dir,
                                   .seq = 1,
                                   .step = 1,
                                   .world = ranks,
                                   .shards = world->shards,
                                   .count = world->shard_count});
    lull_ckpt_info_t *info;
    assert_ok(lull_ckpt_info_open(dir, (lull_ckpt_id_t){1, 1, 0}, &info));
    assert_ok(lull_ckpt_verify(info, NULL, NULL));
    lull_ckpt_slice_t slices[SLICES];
    lull__box_t boxes[SLICES];
    size_t tensors[SLICES];
    for (int i = 0; i < SLICES; i++)
        random_slice(world, &slices[i], &boxes[i], &tensors[i]);
    lull_ckpt_load_options_t options = LULL_CKPT_LOAD_OPTIONS_INIT;
    options.threads = 1 + (uint32_t)below(world, 4);
    assert_ok(lull_ckpt_load(info, slices, SLICES, &options));
    for (int i = 0; i < SLICES; i++) {
        if (!visit(world, tensors[i], &boxes[i], slices[i].data, true))
            fail_msg("slice %d of %s differs", i, slices[i].name);
        free(slices[i].data);
    }
    for (size_t i = 0; i < world->shard_count; i++)
        free((void *)world->shards[i].data);
    lull_ckpt_info_destroy(info);
    test_dir_remove(dir);
}

static void any_layout_to_any_layout(void **state) {
    (void)state;
    world_t *world = calloc(1, sizeof *world);
    world->seed = test_seed();
    for (int i = 0; i < 150; i++)
        one_layout(world, i % 10 == 0);
    free(world);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(frames_that_lie),
        cmocka_unit_test(any_layout_to_any_layout),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
