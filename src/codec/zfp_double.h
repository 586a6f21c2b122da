/* What the kernels of ZFP's doubles share that decode blocks one by one. */
#ifndef LULL__ZFP_DOUBLE_H
#define LULL__ZFP_DOUBLE_H

#include "zfp_portable.h"

/* Planes that libzfp codes at most: fewer where the least double is above
 * them (precision() with minexp -1074). */
static inline unsigned planes_f64(int emax) {
    int most = emax + 1078;
    return most < 64 ? (unsigned)most : 64;
}

/* A block that is not all zero. */
typedef struct double_block {
    block_t block;
    uint64_t keep;  /* the bits of coefficients that libzfp codes */
    uint64_t scale; /* 2^(emax - 62), as ldexp rounds it: bits of a double */
} double_block_t;

/* window: 64 bits of the stream from `bit` on, where the block begins. */
static inline double_block_t decode_double(const uint8_t *src, size_t bit,
                                           unsigned maxbits, uint64_t window) {
    unsigned field = (unsigned)(window >> 1) & 2047; /* emax + 1023 */
    unsigned count = planes_f64((int)field - 1023);
    double_block_t d = {
        .block = decode_block(src, bit + 12, maxbits - 12, window >> 12, 64),
        .keep = UINT64_MAX << (64 - count),
        .scale = field >= 63   ? (uint64_t)(field - 62) << 52
                 : field >= 11 ? (uint64_t)1 << (field - 11)
                               : 0,
    };
    if (d.block.begun > count) { /* as libzfp counts once planes run out */
        d.block.begun = count + 1;
        d.block.known = 0;
    }
    return d;
}

#endif
