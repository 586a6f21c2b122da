/* The three upper levels of expo's tree as bits, 64 symbols at a time: what the
 * variant for AVX2 takes. A node's bits are spread over the chunk
 * by PDEP; what is left to do with bytes is to look up what comes out. */
#ifndef LULL__EXPO_TOP_H
#define LULL__EXPO_TOP_H

#include <immintrin.h>
#include <string.h>

#include "codec/codec_impl.h"
#include "codec/expo.h"

#define ALWAYS_INLINE inline __attribute__((always_inline))

/* The 64 bits from `bit` on; reads up to 16 bytes past the byte it is in. */
static inline uint64_t lull__expo_bits(const uint8_t *masks, size_t bit) {
    const uint8_t *at = masks + bit / 64 * 8;
    uint64_t low = lull__load64(at) >> (bit % 64);
    uint64_t high = lull__load64(at + 8) << (~bit % 64);
    return low | high << 1;
}

/* What the masks say of a chunk: of each symbol the bits of its path, a plane
 * for each level, and which symbols are bytes from below. */
typedef struct lull__expo_planes {
    uint64_t plane[3];
    uint64_t bytes[2]; /* LULL__EXPO_MIXED, LULL__EXPO_WHOLE */
} lull__expo_planes_t;

/* Which symbols of those in `at` go right at a node. */
static ALWAYS_INLINE uint64_t lull__expo_right(lull__expo_merger_t *top,
                                               unsigned node, uint64_t at) {
    uint64_t bits = lull__expo_bits(top->masks, top->bit[node]);
    top->bit[node] += (size_t)_mm_popcnt_u64(at);
    return _pdep_u64(bits, at);
}

/* The same at a place of the third level, if the shape has bits there. */
static ALWAYS_INLINE void lull__expo_third(lull__expo_merger_t *top,
                                           lull__expo_shape_t shape,
                                           unsigned place, uint64_t at,
                                           lull__expo_planes_t *p) {
    unsigned first = 4 - shape.third;
    if (place < first || place >= first + shape.planes)
        return;
    p->bytes[LULL__EXPO_MIXED] = lull__expo_right(top, 4 + place, at);
    p->plane[2] |= p->bytes[LULL__EXPO_MIXED];
}

static ALWAYS_INLINE lull__expo_planes_t
lull__expo_read_planes(lull__expo_merger_t *top, lull__expo_shape_t shape,
                       uint64_t root, uint64_t valid) {
    lull__expo_planes_t p = {{root, 0, 0}, {0, 0}};
    uint64_t left = valid & ~root, left_right = 0;
    uint64_t right_right = lull__expo_right(top, 3, root);
    if (shape.second > 1)
        left_right = lull__expo_right(top, 2, left);
    p.plane[1] = left_right | right_right;
    lull__expo_third(top, shape, 0, left & ~left_right, &p);
    lull__expo_third(top, shape, 1, left_right, &p);
    lull__expo_third(top, shape, 2, root & ~right_right, &p);
    lull__expo_third(top, shape, 3, right_right, &p);
    p.bytes[LULL__EXPO_WHOLE] = right_right;
    return p;
}

/* ---- Apart ------------------------------------------------------------- */

/* Appends to a node's mask, of the symbols in `at`, which of them go right. */
static ALWAYS_INLINE void lull__expo_append(lull__expo_splitter_t *top,
                                            unsigned node, uint64_t right,
                                            uint64_t at) {
    uint64_t bits = _pext_u64(right, at);
    size_t bit = top->bit[node];
    uint8_t *to = top->masks + bit / 64 * 8;
    uint64_t low = bits << (bit % 64) | lull__load64(to);
    uint64_t high = bits >> 1 >> (~bit % 64);
    memcpy(to, &low, 8);
    memcpy(to + 8, &high, 8);
    top->bit[node] = bit + (size_t)_mm_popcnt_u64(at);
}

static ALWAYS_INLINE void lull__expo_append_third(lull__expo_splitter_t *top,
                                                  lull__expo_shape_t shape,
                                                  unsigned place,
                                                  uint64_t right, uint64_t at) {
    unsigned first = 4 - shape.third;
    if (place < first || place >= first + shape.planes)
        return;
    lull__expo_append(top, 4 + place, right, at);
    at &= right; /* the last one's stays */
    memcpy(top->below[LULL__EXPO_MIXED] + top->at / 8, &at, 8);
}

/* A chunk whose paths are these planes. */
static ALWAYS_INLINE void lull__expo_write_planes(lull__expo_splitter_t *top,
                                                  lull__expo_shape_t shape,
                                                  const uint64_t plane[3],
                                                  uint64_t valid) {
    uint64_t root = plane[0] & valid, left = valid & ~plane[0];
    uint64_t left_right = left & plane[1], right_right = root & plane[1];
    memcpy(top->masks + top->at / 8, &root, 8);
    if (shape.second > 1)
        lull__expo_append(top, 2, plane[1], left);
    lull__expo_append(top, 3, plane[1], root);
    lull__expo_append_third(top, shape, 0, plane[2], left & ~left_right);
    lull__expo_append_third(top, shape, 1, plane[2], left_right);
    lull__expo_append_third(top, shape, 2, plane[2], root & ~right_right);
    lull__expo_append_third(top, shape, 3, plane[2], right_right);
    if (shape.planes < shape.third)
        memcpy(top->below[LULL__EXPO_WHOLE] + top->at / 8, &right_right, 8);
    top->at += 64;
}

/* Calls fn(..., shape) with what shapes are frequent as constants: of bell
 * curves, and of what has one symbol that is half of all. */
#define LULL__EXPO_BY_SHAPE(shape, call)                                 \
    switch ((shape).second << 8 | (shape).third << 4 | (shape).planes) { \
    case 0x200 | 1 << 4 | 1:                                             \
        call(((lull__expo_shape_t){2, 1, 1}));                           \
        break;                                                           \
    case 0x200 | 1 << 4 | 0:                                             \
        call(((lull__expo_shape_t){2, 1, 0}));                           \
        break;                                                           \
    case 0x200 | 2 << 4 | 2:                                             \
        call(((lull__expo_shape_t){2, 2, 2}));                           \
        break;                                                           \
    case 0x200 | 2 << 4 | 1:                                             \
        call(((lull__expo_shape_t){2, 2, 1}));                           \
        break;                                                           \
    case 0x200 | 3 << 4 | 2:                                             \
        call(((lull__expo_shape_t){2, 3, 2}));                           \
        break;                                                           \
    case 0x100 | 1 << 4 | 1:                                             \
        call(((lull__expo_shape_t){1, 1, 1}));                           \
        break;                                                           \
    default:                                                             \
        call(shape);                                                     \
        break;                                                           \
    }

#endif
