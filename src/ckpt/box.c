/* Boxes of tensors. */
#include "box.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"

bool lull__shape_volume(uint32_t ndim, const uint64_t *shape, uint64_t *out) {
    uint64_t volume = 1;
    for (uint32_t d = 0; d < ndim; d++)
        if (shape[d] == 0) {
            *out = 0;
            return true;
        }
    for (uint32_t d = 0; d < ndim; d++)
        if (__builtin_mul_overflow(volume, shape[d], &volume))
            return false;
    *out = volume;
    return true;
}

lull_status_t lull__shape_bytes(lull_dtype_t dtype, uint32_t ndim,
                                const uint64_t *shape, uint64_t *bytes) {
    uint64_t volume;
    if (!lull__shape_volume(ndim, shape, &volume))
        return lull__fail(LULL_ERR_INVALID,
                          "the shape overflows 64 bits of elements");
    return lull_dtype_bytes(dtype, volume, bytes);
}

bool lull__box_inside(uint32_t ndim, const uint64_t *global,
                      const lull__box_t *box) {
    for (uint32_t d = 0; d < ndim; d++)
        if (box->offset[d] > global[d] ||
            box->shape[d] > global[d] - box->offset[d])
            return false;
    return true;
}

bool lull__box_intersect(uint32_t ndim, const lull__box_t *a,
                         const lull__box_t *b, lull__box_t *out) {
    for (uint32_t d = 0; d < ndim; d++) {
        uint64_t begin =
            a->offset[d] > b->offset[d] ? a->offset[d] : b->offset[d];
        uint64_t a_end = a->offset[d] + a->shape[d];
        uint64_t b_end = b->offset[d] + b->shape[d];
        uint64_t end = a_end < b_end ? a_end : b_end;
        if (begin >= end)
            return false;
        out->offset[d] = begin;
        out->shape[d] = end - begin;
    }
    return true;
}

static int by_dim(const void *a, const void *b, void *dim) {
    uint32_t d = *(const uint32_t *)dim;
    uint64_t x = ((const lull__box_t *)a)->offset[d];
    uint64_t y = ((const lull__box_t *)b)->offset[d];
    return (x > y) - (x < y);
}

/* The dimension along which most boxes begin at places of their own: the
 * sweep meets the fewest pairs there. Leaves the boxes sorted along it. */
static uint32_t sort_best(uint32_t ndim, lull__box_t *boxes, size_t count) {
    uint32_t best = 0;
    size_t most = 0;
    for (uint32_t d = 0; d < ndim; d++) {
        size_t distinct = 1;
        qsort_r(boxes, count, sizeof *boxes, by_dim, &d);
        for (size_t i = 1; i < count; i++)
            distinct += boxes[i].offset[d] != boxes[i - 1].offset[d];
        if (distinct > most) {
            most = distinct;
            best = d;
        }
    }
    if (ndim > 1)
        qsort_r(boxes, count, sizeof *boxes, by_dim, &best);
    return best;
}

bool lull__boxes_tile(uint32_t ndim, const uint64_t *global, lull__box_t *boxes,
                      size_t count, bool *overlap) {
    uint64_t whole = 0, one = 0;
    unsigned __int128 sum = 0;
    size_t kept = 0;
    *overlap = false;
    if (!lull__shape_volume(ndim, global, &whole))
        return false;
    for (size_t i = 0; i < count; i++) {
        if (!lull__shape_volume(ndim, boxes[i].shape, &one))
            return false;
        sum += one;
        if (one > 0)
            boxes[kept++] = boxes[i];
    }
    if (sum != whole) {
        *overlap = sum > whole;
        return false;
    }
    if (kept < 2)
        return true;
    uint32_t d = sort_best(ndim, boxes, kept);
    for (size_t i = 0; i + 1 < kept; i++) {
        uint64_t end = boxes[i].offset[d] + boxes[i].shape[d];
        for (size_t j = i + 1; j < kept && boxes[j].offset[d] < end; j++) {
            lull__box_t both;
            if (lull__box_intersect(ndim, &boxes[i], &boxes[j], &both)) {
                *overlap = true;
                return false;
            }
        }
    }
    return true;
}
