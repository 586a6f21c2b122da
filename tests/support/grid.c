/* Random boxes of a random tensor. */
#include "grid.h"

#include <stdlib.h>
#include <string.h>

#include "ckpt.h"
#include "support.h"
#include "test.h"

#define DIMS GRID_DIMS

static void random_cuts(grid_t *grid, uint32_t d, uint64_t *random) {
    uint32_t n = 1 + (uint32_t)(test_random(random) % 3);
    grid->parts[d] = n;
    grid->cuts[d][0] = 0;
    grid->cuts[d][n] = grid->shape[d];
    for (uint32_t i = 1; i < n; i++) {
        uint64_t least = grid->cuts[d][i - 1];
        grid->cuts[d][i] =
            least + test_random(random) % (grid->shape[d] - least + 1);
    }
}

static uint64_t box_of(const grid_t *grid, uint32_t part, uint64_t *offset,
                       uint64_t *shape) {
    uint64_t volume = 1;
    for (uint32_t d = 0; d < DIMS; d++) {
        uint32_t i = part % grid->parts[d];
        part /= grid->parts[d];
        offset[d] = grid->cuts[d][i];
        shape[d] = grid->cuts[d][i + 1] - offset[d];
        volume *= shape[d];
    }
    return volume;
}

static uint32_t parts_of(const grid_t *grid) {
    return grid->parts[0] * grid->parts[1] * grid->parts[2];
}

/* The box of `whole`, packed. */
static void pack(const grid_t *grid, const uint16_t *whole,
                 const uint64_t *offset, const uint64_t *shape, uint16_t *out) {
    for (uint64_t i = 0; i < shape[0]; i++)
        for (uint64_t j = 0; j < shape[1]; j++)
            for (uint64_t k = 0; k < shape[2]; k++)
                *out++ =
                    whole[((offset[0] + i) * grid->shape[1] + offset[1] + j) *
                              grid->shape[2] +
                          offset[2] + k];
}

uint16_t *grid_random(grid_t *grid, grid_t *other, uint64_t *random) {
    uint64_t volume = 1;
    for (uint32_t d = 0; d < DIMS; d++) {
        grid->shape[d] = 1 + test_random(random) % (d ? 40 : 300);
        volume *= grid->shape[d];
    }
    *other = *grid;
    for (uint32_t d = 0; d < DIMS; d++) {
        random_cuts(grid, d, random);
        random_cuts(other, d, random);
    }
    uint16_t *whole = malloc(volume * 2);
    assert_non_null(whole);
    test_fill(whole, volume * 2, *random);
    return whole;
}

void grid_save(const grid_t *grid, const uint16_t *whole, lull_ckpt_t **ranks,
               uint32_t world) {
    uint32_t parts = parts_of(grid);
    uint16_t *packed[27] = {0};
    for (uint32_t r = 0; r < world; r++) {
        lull_ckpt_tensor_t tensors[27];
        size_t n = 0;
        for (uint32_t p = r; p < parts; p += world) {
            lull_ckpt_tensor_t *t = &tensors[n++];
            *t = (lull_ckpt_tensor_t)LULL_CKPT_TENSOR_INIT;
            t->name = "grid";
            t->dtype = LULL_BF16;
            t->ndim = DIMS;
            memcpy(t->global_shape, grid->shape, sizeof grid->shape);
            uint64_t volume = box_of(grid, p, t->offset, t->shape);
            packed[p] = malloc(volume * 2 + 2);
            pack(grid, whole, t->offset, t->shape, packed[p]);
            t->data = packed[p];
        }
        lull_ckpt_save_t save = LULL_CKPT_SAVE_INIT;
        save.step = 1;
        save.tensors = tensors;
        save.tensor_count = n;
        assert_ok(lull_ckpt_save(ranks[r], &save, NULL));
    }
    for (uint32_t r = 0; r < world; r++)
        assert_ok(lull_ckpt_wait_committed(ranks[r], NULL, LULL_FOREVER));
    for (uint32_t p = 0; p < parts; p++)
        free(packed[p]);
}

void grid_load(const grid_t *grid, const uint16_t *whole, const char *dir) {
    lull_ckpt_info_t *info;
    assert_ok(
        lull_ckpt_info_open(dir, (lull_ckpt_id_t){LULL_LATEST, 0, 0}, &info));
    for (uint32_t p = 0; p < parts_of(grid); p++) {
        lull_ckpt_slice_t slice = LULL_CKPT_SLICE_INIT;
        slice.name = "grid";
        slice.dtype = LULL_BF16;
        slice.ndim = DIMS;
        memcpy(slice.global_shape, grid->shape, sizeof grid->shape);
        uint64_t volume = box_of(grid, p, slice.offset, slice.shape);
        uint16_t *expected = malloc(volume * 2 + 2);
        pack(grid, whole, slice.offset, slice.shape, expected);
        slice.data = calloc(volume + 1, 2);
        lull_ckpt_load_options_t load = LULL_CKPT_LOAD_OPTIONS_INIT;
        assert_ok(lull_ckpt_load(info, &slice, 1, &load));
        assert_memory_equal(slice.data, expected, volume * 2);
        free(slice.data);
        free(expected);
    }
    assert_ok(lull_ckpt_verify(info, NULL, NULL));
    lull_ckpt_info_destroy(info);
}
