/* Boxes of tensors: volume, intersection, tiling. */
#ifndef LULL__CKPT_BOX_H
#define LULL__CKPT_BOX_H

#include <lull/ckpt.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct lull__box {
    uint64_t offset[LULL_MAX_DIMS], shape[LULL_MAX_DIMS];
} lull__box_t;

/* Product of the shape (1 for ndim 0); false: it overflows 64 bits. A zero
 * anywhere makes 0, whatever the rest. */
bool lull__shape_volume(uint32_t ndim, const uint64_t *shape, uint64_t *out);

/* Bytes of a row-major array; LULL_ERR_INVALID: overflow, bad dtype, packed
 * elements that do not fill bytes. */
lull_status_t lull__shape_bytes(lull_dtype_t dtype, uint32_t ndim,
                                const uint64_t *shape, uint64_t *bytes);

/* Does the box lie inside the global shape (without overflow)? */
bool lull__box_inside(uint32_t ndim, const uint64_t *global,
                      const lull__box_t *box);

/* *out: what both have; false: nothing. */
bool lull__box_intersect(uint32_t ndim, const lull__box_t *a,
                         const lull__box_t *b, lull__box_t *out);

/* Do the boxes cover the global shape exactly once? Boxes without elements
 * count for nothing. Each must be inside. The array is sorted in place.
 * *overlap tells the way it failed: twice, or not at all. */
bool lull__boxes_tile(uint32_t ndim, const uint64_t *global, lull__box_t *boxes,
                      size_t count, bool *overlap);

#endif
