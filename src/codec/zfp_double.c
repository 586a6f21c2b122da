/* ZFP kernels of doubles, in portable C: a table look-up for each bit plane
 * instead of a loop over bits. */
#include <string.h>

#include "zfp_double.h"

#define BLOCKS (LULL__ZFP_GROUP / 4)

/* ---- Bits -------------------------------------------------------------- */

/* Bits in order, low bit first. */
typedef struct bits {
    uint8_t *at;
    uint64_t held;
    unsigned count; /* of held; under 8 between calls */
} bits_t;

/* Appends up to 56 bits; those of value above count are 0. */
static inline void put(bits_t *to, uint64_t value, unsigned count) {
    to->held |= value << to->count;
    count += to->count;
    lull__store64(to->at, to->held);
    to->at += count >> 3;
    to->held >>= count & ~7u;
    to->count = count & 7;
}

static inline void put_zeros(bits_t *to, unsigned count) {
    for (; count > 56; count -= 56)
        put(to, 0, 56);
    put(to, 0, count);
}

/* ---- Coding of planes -------------------------------------------------- */

/* 64 planes, 16 a word, the highest first. */
typedef struct planes {
    uint64_t word[4];
} planes_t;

/* Plane k and those after it in its word. */
static inline uint64_t from_plane(const planes_t *p, unsigned k) {
    return p->word[k / 16] >> 4 * (k % 16);
}

/* Empty planes before the first that is not. */
static unsigned empty_planes(const planes_t *p) {
    for (unsigned k = 0; k < 64; k += 16)
        if (p->word[k / 16] != 0)
            return k + (unsigned)__builtin_ctzll(p->word[k / 16]) / 4;
    return 64;
}

/* Codes planes in exactly `left` bits: the code's first, or zeros after it. */
static inline void encode_planes(bits_t *to, const planes_t *p, unsigned left) {
    unsigned n = 0, k = least(empty_planes(p), left);
    put_zeros(to, k); /* a 0 bit for each empty plane */
    left -= k;
    while (left > 0 && k < 64 && n < 4) {
        uint64_t word = from_plane(p, k), code = 0;
        unsigned length = 0, end = (k / 16 + 1) * 16;
        /* At most 7 bits a plane, 56 a call of put. */
        while (k < end && length < least(left, 50) && n < 4) {
            unsigned entry = lull__zfp_encode[n][word & 15];
            code |= (uint64_t)(entry & 0xff) << length;
            length += entry >> 8 & 15;
            n = entry >> 12;
            word >>= 4;
            k++;
        }
        length = least(length, left);
        put(to, low_bits(code, length), length);
        left -= length;
    }
    while (left > 0 && k < 64) { /* all significant: as they are */
        unsigned length = least(least(4 * (16 - k % 16), 56), left);
        put(to, low_bits(from_plane(p, k), length), length);
        left -= length;
        k += length / 4;
    }
    put_zeros(to, left);
}

/* ---- Double ------------------------------------------------------------ */

static inline double double_of(uint64_t bits) {
    double value;
    lull__store64(&value, bits);
    return value;
}

static inline int64_t to_int64(double v) {
    return v > -0x1p63 && v < 0x1p63 ? (int64_t)v : INT64_MIN;
}

static inline void encode_block_f64(bits_t *to, const uint8_t *src,
                                    uint64_t top, unsigned maxbits) {
    /* 2^(62 - emax), emax = exponent field - 1022. */
    uint64_t field = top >> 52;
    double scale = double_of((field < 61 ? 2047 : 2107 - field) << 52);
    int64_t q[4];
    for (int i = 0; i < 4; i++)
        q[i] = to_int64(double_of(lull__load64(src + 8 * i)) * scale);
    FORWARD_LIFT(int64_t, uint64_t, q[0], q[1], q[2], q[3]);
    /* libzfp codes fewer of the least numbers; but their scale is Inf, all of
     * them have the same few bits, and zeros follow either way. */
    planes_t planes;
    for (int part = 0; part < 4; part++) {
        uint64_t word = 0;
        for (int i = 3; i >= 0; i--) {
            uint64_t u = ((uint64_t)q[i] + MASK64) ^ MASK64;
            word = word << 16 | (u >> (48 - 16 * part) & 0xffff);
        }
        planes.word[part] = to_planes(word);
    }
    put(to, 2 * (field + 1) + 1, 12);
    encode_planes(to, &planes, maxbits - 12);
}

bool lull__zfp_encode_f64_portable(const uint8_t *src, uint8_t *dst,
                                   size_t groups, unsigned maxbits) {
    bits_t to = {.at = dst};
    bool fit = true;
    for (size_t block = 0; block < groups * BLOCKS; block++, src += 32) {
        uint64_t top = 0;
        for (int i = 0; i < 4; i++) {
            uint64_t size = lull__load64(src + 8 * i) << 1 >> 1;
            top = size > top ? size : top;
        }
        if (top == 0) {
            put_zeros(&to, maxbits);
            continue;
        }
        fit &= top - LULL__ZFP_F64_LEAST < LULL__ZFP_F64_RANGE;
        if ((top >> 52) == 2047)
            put_zeros(&to, maxbits);
        else
            encode_block_f64(&to, src, top, maxbits);
    }
    return fit;
}

static inline void decode_block_f64(const uint8_t *src, size_t bit,
                                    unsigned maxbits, unsigned mode,
                                    double out[4]) {
    uint64_t window = peek(src, bit), u[4] = {0};
    for (int i = 0; i < 4; i++)
        out[i] = 0;
    if ((window & 1) == 0)
        return;
    double_block_t d = decode_double(src, bit, maxbits, window);
    for (unsigned part = 0; part < 4; part++) {
        if (d.block.planes[part] == 0)
            continue;
        uint64_t words = from_planes(d.block.planes[part]);
        for (int i = 0; i < 4; i++)
            u[i] |= (words >> 16 * i & 0xffff) << (48 - 16 * part);
    }
    int64_t q[4];
    uint64_t fine = 0, coarse = 0;
    if (!(mode & LULL__ZFP_TRUNCATE) && d.block.begun < 63) {
        fine = MASK64 >> 2 >> d.block.begun;
        coarse = MASK64 >> 1 >> d.block.begun;
    }
    for (unsigned i = 0; i < 4; i++) {
        u[i] = d.block.empty < 64 ? u[i] >> d.block.empty & d.keep : 0;
        u[i] += i < d.block.known ? fine : coarse;
        q[i] = (int64_t)((u[i] ^ MASK64) - MASK64);
    }
    INVERSE_LIFT(int64_t, uint64_t, q[0], q[1], q[2], q[3]);
    double scale = double_of(d.scale);
    for (int i = 0; i < 4; i++)
        out[i] = scale * (double)q[i];
}

void lull__zfp_decode_f64_portable(const uint8_t *src, uint8_t *dst,
                                   size_t groups, unsigned maxbits,
                                   unsigned mode) {
    for (size_t block = 0; block < groups * BLOCKS; block++) {
        double out[4], sum[4];
        decode_block_f64(src, block * maxbits, maxbits, mode, out);
        if (mode & LULL__ZFP_ADD) {
            memcpy(sum, dst + 32 * block, 32);
            for (int i = 0; i < 4; i++)
                out[i] += sum[i];
        }
        memcpy(dst + 32 * block, out, 32);
    }
}
