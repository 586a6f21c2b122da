/* MXINT8's kernels: what a variant for an instruction set gives. A block is 32
 * values; docs/formats/mxint8.md has the arithmetic. */
#ifndef LULL__MXINT8_H
#define LULL__MXINT8_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LULL__MX_BLOCK 32
#define LULL__MX_TINY_F32 0x00400000u /* bits of 2^-127 */
#define LULL__MX_INF_F32 0x7f800000u

/* What an encoder saw: the bits of the largest magnitude, and the least of the
 * blocks' largest but for zero, less one (so that zero is the largest). */
typedef struct lull__mx_range {
    uint64_t most, least1;
} lull__mx_range_t;

/* Whole blocks, pointers of any alignment. `key` starts the random numbers of
 * stochastic rounding. */
typedef struct lull__mx_kernel {
    lull__mx_range_t (*encode)(const uint8_t *src, size_t blocks,
                               uint8_t *scales, uint8_t *elements);
    lull__mx_range_t (*encode_random)(const uint8_t *src, size_t blocks,
                                      uint8_t *scales, uint8_t *elements,
                                      uint32_t key);
    void (*decode)(const uint8_t *scales, const uint8_t *elements,
                   size_t blocks, uint8_t *dst);
    void (*decode_add)(const uint8_t *scales, const uint8_t *elements,
                       size_t blocks, uint8_t *sum);
} lull__mx_kernel_t;

/* In this order. */
enum {
    LULL__MX_F32,
    LULL__MX_F16,
    LULL__MX_BF16,
    LULL__MX_F64,
    LULL__MX_KINDS
};
extern const lull__mx_kernel_t lull__mx_portable[LULL__MX_KINDS],
    lull__mx_avx2[LULL__MX_KINDS], lull__mx_avx512[LULL__MX_KINDS];

/* The random number of element i, 16 bits: a counter through a finalizer
 * (that of MurmurHash3), so that any order of evaluation gives the same. */
static inline uint32_t lull__mx_random(uint32_t key, uint32_t i) {
    uint32_t z = key + i * 0x9e3779b1u;
    z = (z ^ (z >> 16)) * 0x85ebca6bu;
    z = (z ^ (z >> 13)) * 0xc2b2ae35u;
    return z >> 16;
}

/* The scale of a block of doubles by the bits of its largest magnitude, within
 * what a scale holds; 255 from 2^128 on. */
static inline unsigned lull__mx_code_f64(uint64_t most) {
    int code = (int)(most >> 52) - 1023 + 127;
    return code < 0 ? 0 : code > 255 ? 255 : (unsigned)code;
}

/* 2^(133 - scale) as bits of a double: a value times it is an element. */
static inline uint64_t lull__mx_factor_f64(unsigned scale) {
    return (uint64_t)(1023 + 133 - scale) << 52;
}

static inline void lull__mx_see(lull__mx_range_t *range, uint64_t most) {
    if (most > range->most)
        range->most = most;
    if (most - 1 < range->least1)
        range->least1 = most - 1;
}

/* 2^(scale - 133) as bits of a float: an element times it is a value. 255
 * stands for NaN. */
static inline uint32_t lull__mx_unit(unsigned scale) {
    if (scale == 255)
        return 0x7fc00000u;
    return scale < 7 ? 1u << (16 + scale) : (scale - 6) << 23;
}

static inline float lull__mx_unit_value(unsigned scale) {
    uint32_t bits = lull__mx_unit(scale);
    float value;
    __builtin_memcpy(&value, &bits, sizeof value);
    return value;
}

#endif
