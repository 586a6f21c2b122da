/* What the portable kernels of ZFP share: bits, planes, transforms. */
#ifndef LULL__ZFP_PORTABLE_H
#define LULL__ZFP_PORTABLE_H

#include "zfp_impl.h"

/* ---- Bits -------------------------------------------------------------- */

static inline unsigned least(unsigned a, unsigned b) {
    return a < b ? a : b;
}

static inline uint64_t low_bits(uint64_t v, unsigned count) {
    return count >= 64 ? v : v & (((uint64_t)1 << count) - 1);
}

/* 64 bits from bit `bit` of a stream. */
static inline uint64_t peek(const uint8_t *src, size_t bit) {
    uint64_t low = lull__load64(src + (bit >> 3));
    unsigned shift = bit & 7;
    uint64_t high = (uint64_t)src[(bit >> 3) + 8] << 1;
    return low >> shift | high << (63 - shift);
}

/* ---- Bit planes -------------------------------------------------------- */

/* Exchanges the bits of mask with those `shift` above them. */
static inline uint64_t swap(uint64_t v, uint64_t mask, unsigned shift) {
    uint64_t t = (v ^ v >> shift) & mask;
    return v ^ t ^ t << shift;
}

static inline uint64_t reverse_nibbles(uint64_t v) {
    v = __builtin_bswap64(v);
    return (v >> 4 & 0x0f0f0f0f0f0f0f0fu) | (v & 0x0f0f0f0f0f0f0f0fu) << 4;
}

/* Four 16-bit words, word i at bits 16 i, to 16 planes of four bits, that of
 * the words' highest bit lowest; bit i of a plane is word i's. Bit 16 i + p
 * goes to 4 (15 - p) + i: four exchanges of two bits of the index, then the
 * nibbles in reverse. */
static inline uint64_t to_planes(uint64_t v) {
    v = swap(v, 0x00000000ff00ff00u, 24);
    v = swap(v, 0x0000f0f00000f0f0u, 12);
    v = swap(v, 0x00cc00cc00cc00ccu, 6);
    v = swap(v, 0x0a0a0a0a0a0a0a0au, 3);
    return reverse_nibbles(v);
}

static inline uint64_t from_planes(uint64_t v) {
    v = reverse_nibbles(v);
    v = swap(v, 0x0a0a0a0a0a0a0a0au, 3);
    v = swap(v, 0x00cc00cc00cc00ccu, 6);
    v = swap(v, 0x0000f0f00000f0f0u, 12);
    return swap(v, 0x00000000ff00ff00u, 24);
}

/* ---- Transforms -------------------------------------------------------- */

/* Shifts are arithmetic; sums wrap, as libzfp's do. */
#define FORWARD_LIFT(type, utype, x, y, z, w)     \
    do {                                          \
        x = (type)((utype)x + (utype)w), x >>= 1; \
        w = (type)((utype)w - (utype)x);          \
        z = (type)((utype)z + (utype)y), z >>= 1; \
        y = (type)((utype)y - (utype)z);          \
        x = (type)((utype)x + (utype)z), x >>= 1; \
        z = (type)((utype)z - (utype)x);          \
        w = (type)((utype)w + (utype)y), w >>= 1; \
        y = (type)((utype)y - (utype)w);          \
        w = (type)((utype)w + (utype)(y >> 1));   \
        y = (type)((utype)y - (utype)(w >> 1));   \
    } while (0)

#define INVERSE_LIFT(type, utype, x, y, z, w)                       \
    do {                                                            \
        y = (type)((utype)y + (utype)(w >> 1));                     \
        w = (type)((utype)w - (utype)(y >> 1));                     \
        y = (type)((utype)y + (utype)w), w = (type)((utype)w << 1); \
        w = (type)((utype)w - (utype)y);                            \
        z = (type)((utype)z + (utype)x), x = (type)((utype)x << 1); \
        x = (type)((utype)x - (utype)z);                            \
        y = (type)((utype)y + (utype)z), z = (type)((utype)z << 1); \
        z = (type)((utype)z - (utype)y);                            \
        w = (type)((utype)w + (utype)x), x = (type)((utype)x << 1); \
        x = (type)((utype)x - (utype)w);                            \
    } while (0)

#endif
