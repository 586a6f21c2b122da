/* What the portable kernels of ZFP share: bits, planes. */
#ifndef LULL__ZFP_PORTABLE_H
#define LULL__ZFP_PORTABLE_H

#include "zfp_impl.h"
#include "zfp_lift.h"

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
    if (__builtin_constant_p(shift) && shift == 0)
        return low;
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

/* ---- A block ----------------------------------------------------------- */

/* A block of floats' bits: 128 in two words. */
typedef struct code {
    uint64_t lo, hi;
} code_t;

static inline uint64_t mask_of(unsigned bits) {
    return bits >= 64 ? UINT64_MAX : ((uint64_t)1 << bits) - 1;
}

/* Writes the bits of a block; *carry holds those of the block before that are
 * in the same byte. */
static inline void store(uint8_t *dst, size_t bit, code_t c, unsigned maxbits,
                         uint64_t *carry) {
    uint8_t *to = dst + bit / 8;
    unsigned shift = bit % 8;
    c.lo &= mask_of(maxbits);
    lull__store64(to, *carry | c.lo << shift);
    if (maxbits > 56) {
        c.hi &= maxbits > 64 ? mask_of(maxbits - 64) : 0;
        lull__store64(to + 8, c.hi << shift | c.lo >> 1 >> (63 - shift));
        to[16] = (uint8_t)(c.hi >> 1 >> (63 - shift));
    }
    *carry = maxbits % 8 ? dst[(bit + maxbits) / 8] : 0;
}

/* Smooth data has long runs of planes in which no coefficient becomes
 * significant. With n = 1 or 2 such a plane is n bits and a 0. Runs are taken
 * at once after so many single planes, since noise has none. */
#define SINGLES 3

/* Every second bit to bit 0 of each nibble. */
static inline uint64_t spread_1(uint64_t v) {
    v &= 0x55555555u;
    v = (v | v << 16) & 0x0000555500005555u;
    v = (v | v << 8) & 0x0055005500550055u;
    v = (v | v << 4) & 0x0505050505050505u;
    return (v | v << 2) & 0x1111111111111111u;
}

/* Every third bit and the next to bits 0 and 1 of each nibble. */
static inline uint64_t spread_2(uint64_t v) {
    v = (v & 0xffffffu) | (v & 0xffffff000000u) << 8;
    v = (v & 0x00000fff00000fffu) | (v & 0x00fff00000fff000u) << 4;
    v = (v & 0x003f003f003f003fu) | (v & 0x0fc00fc00fc00fc0u) << 2;
    v = (v & 0x0707070707070707u) | (v & 0x3838383838383838u) << 1;
    return v & 0x3333333333333333u;
}

/* 2^(emax - 30) from emax + 127, as ldexpf gives it. */
static inline float scale_of(unsigned field) {
    uint32_t bits = field >= 31  ? (field - 30) << 23
                    : field >= 8 ? 1u << (field - 8)
                                 : 0;
    float value;
    lull__store32(&value, bits);
    return value;
}

/* What is known of a block: planes from its first that is not empty. */
typedef struct block {
    uint64_t planes[4];
    unsigned empty, begun, known;
} block_t;

/* Decodes whole planes that make no coefficient significant to a word of 16
 * planes, from its plane k % 16; returns how many. */
static inline unsigned decode_run(uint64_t *word, uint64_t window, unsigned n,
                                  unsigned k, unsigned have) {
    uint64_t news =
        window & (n == 1 ? 0xaaaaaaaaaaaaaaaau : 0x4924924924924924u);
    unsigned bits = news ? (unsigned)__builtin_ctzll(news) : 64;
    unsigned run = least(bits, have) / (n + 1);
    run = least(run, 16 - k % 16);
    uint64_t code = low_bits(window, (n + 1) * run);
    *word |= (n == 1 ? spread_1(code) : spread_2(code)) << 4 * (k % 16);
    return run;
}

/* Skips the 0 bits of empty planes, `most` at most; returns how many. What is
 * known of the next bits is *have of them in *window, at first 52 or more. */
static inline unsigned skip_empty(const uint8_t *src, size_t bit, unsigned left,
                                  uint64_t *window, unsigned *have,
                                  unsigned most) {
    unsigned before = 0;
    most = least(most, left);
    if (most > 52 && *window == 0) { /* once is enough for 64 planes */
        before = *have;
        *have = least(left - before, 55);
        *window = low_bits(peek(src, bit + before), *have);
    }
    unsigned empty = *window ? (unsigned)__builtin_ctzll(*window) : *have;
    empty = least(empty, most - before);
    *window >>= empty;
    *have -= empty;
    return before + empty;
}

/* The planes of a block, of which there are 32 or 64, from its first bit after
 * the header on; `window`: 64 bits from there without the header's. */
static inline __attribute__((always_inline)) block_t
decode_block(const uint8_t *src, size_t bit, unsigned left, uint64_t window,
             unsigned planes) {
    block_t b = {.known = 4};
    bool brief = left < 30; /* fewer than 16 planes, none empty */
    unsigned have = least(left, planes == 32 ? 55 : 52), n = 0, k = 0;
    window = low_bits(window, have);
    b.empty = skip_empty(src, bit, left, &window, &have, planes);
    left -= b.empty;
    bit += b.empty;
    if (have >= 17) { /* enough for two look-ups, whatever they find */
        uint32_t one = lull__zfp_planes[0][window >> 1 & 255];
        window >>= one & 63;
        const uint32_t *row = lull__zfp_planes[one >> 8 & 3];
        uint32_t two = row[window & 255];
        window >>= two & 63;
        b.planes[0] = (one >> 16) | (uint64_t)(two >> 16) << (one >> 10 & 60);
        k = (one >> 12 & 15) + (two >> 12 & 15);
        n = two >> 8 & 3;
        unsigned used = (one & 15) + (two & 15);
        have -= used;
        left -= used;
        bit += used;
    }
    while (n < 3 && left > 0 && k < planes) {
        if (have < 7 && have < left) {
            have = least(left, 55);
            window = low_bits(peek(src, bit), have);
        }
        if (k >= SINGLES && n > 0) {
            unsigned run = decode_run(&b.planes[k / 16], window, n, k, have);
            if (run > 0) {
                window >>= (n + 1) * run;
                have -= (n + 1) * run;
                left -= (n + 1) * run;
                bit += (n + 1) * run;
                k += run;
                b.known = 4;
                continue;
            }
        }
        unsigned entry =
            lull__zfp_decode[n][1u << least(have, 7) | (window & 127)];
        unsigned length = entry >> 4 & 7;
        b.planes[k / 16] |= (uint64_t)(entry & 15) << 4 * (k % 16);
        n = entry >> 8 & 7;
        b.known = entry >> 12;
        window >>= length;
        have -= length;
        left -= length;
        bit += length;
        k++;
    }
    b.begun = b.empty + k;
    if (brief) { /* what is left, perhaps nothing */
        b.planes[0] |= window << 4 * k;
        b.begun += (left + 3) / 4;
        b.known = left ? (left - 1) % 4 + 1 : b.known;
        return b;
    }
    if (left == 0 || k >= planes)
        return b;
    b.begun += (left + 3) / 4;
    b.known = (left - 1) % 4 + 1;
    uint64_t bits = have == left ? window : low_bits(peek(src, bit), left);
    unsigned word = k / 16, up = 4 * (k % 16);
    b.planes[word] |= bits << up;
    while (++word < planes / 16) {
        b.planes[word] = bits >> 1 >> (63 - up);
        if (left <= 64)
            break;
        left -= 64;
        bit += 64;
        bits = low_bits(peek(src, bit), left);
        b.planes[word] |= bits << up;
    }
    return b;
}

#endif
