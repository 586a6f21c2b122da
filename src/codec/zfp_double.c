/* ZFP kernels of doubles, in portable C: a table look-up for each bit plane
 * instead of a loop over bits. */
#include <string.h>

#include "zfp_portable.h"

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

/* 16 planes a word, the highest first; `count` of them exist. */
typedef struct planes {
    uint64_t word[4];
    unsigned count;
} planes_t;

/* Plane k and those after it in its word. */
static inline uint64_t from_plane(const planes_t *p, unsigned k) {
    return p->word[k / 16] >> 4 * (k % 16);
}

/* Empty planes before the first that is not. */
static unsigned empty_planes(const planes_t *p) {
    for (unsigned k = 0; k < p->count; k += 16)
        if (p->word[k / 16] != 0)
            return k + (unsigned)__builtin_ctzll(p->word[k / 16]) / 4;
    return p->count;
}

/* Codes planes in exactly `left` bits: the code's first, or zeros after it. */
static inline void encode_planes(bits_t *to, const planes_t *p, unsigned left) {
    unsigned n = 0, k = least(empty_planes(p), left);
    put_zeros(to, k); /* a 0 bit for each empty plane */
    left -= k;
    while (left > 0 && k < p->count && n < 4) {
        uint64_t word = from_plane(p, k), code = 0;
        unsigned length = 0, end = least((k / 16 + 1) * 16, p->count);
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
    while (left > 0 && k < p->count) { /* all significant: as they are */
        unsigned in_word = 4 * (least((k / 16 + 1) * 16, p->count) - k);
        unsigned length = least(least(in_word, 56), left);
        put(to, low_bits(from_plane(p, k), length), length);
        left -= length;
        k += length / 4;
    }
    put_zeros(to, left);
}

/* Where a decoder is in a block. */
typedef struct reader {
    const uint8_t *src;
    size_t bit;    /* next of the stream */
    unsigned left; /* bits of the block */
} reader_t;

/* How exactly a block was decoded. */
typedef struct precision {
    unsigned planes; /* begun */
    unsigned known;  /* coefficients known in the last of them */
} precision_t;

/* Skips the 0 bits of empty planes. */
static inline unsigned skip_empty(reader_t *r, unsigned count) {
    unsigned k = 0;
    while (r->left > 0 && k < count) {
        unsigned have = least(least(r->left, 56), count - k);
        uint64_t window = low_bits(peek(r->src, r->bit), have);
        unsigned empty = window ? (unsigned)__builtin_ctzll(window) : have;
        k += empty;
        r->left -= empty;
        r->bit += empty;
        if (window != 0)
            break;
    }
    return k;
}

/* Decodes to planes that were zero before. */
static inline precision_t decode_planes(reader_t *r, planes_t *p) {
    unsigned n = 0, have = 0, k = skip_empty(r, p->count);
    precision_t got = {.known = 4};
    uint64_t window = 0;
    while (r->left > 0 && k < p->count && n < 4) {
        if (have < 7 && have < r->left) {
            have = least(r->left, 56);
            window = low_bits(peek(r->src, r->bit), have);
        }
        unsigned entry =
            lull__zfp_decode[n][1u << least(have, 7) | (window & 127)];
        unsigned length = entry >> 4 & 7;
        p->word[k / 16] |= (uint64_t)(entry & 15) << 4 * (k % 16);
        n = entry >> 8 & 7;
        got.known = entry >> 12;
        window >>= length;
        have -= length;
        r->left -= length;
        r->bit += length;
        k++;
    }
    while (r->left > 0 && k < p->count) {
        unsigned in_word = 4 * (least((k / 16 + 1) * 16, p->count) - k);
        unsigned length = least(least(in_word, 56), r->left);
        uint64_t window4 = low_bits(peek(r->src, r->bit), length);
        p->word[k / 16] |= window4 << 4 * (k % 16);
        k += (length + 3) / 4;
        got.known = length % 4 ? length % 4 : 4;
        r->left -= length;
        r->bit += length;
    }
    got.planes = k;
    if (r->left > 0) /* as libzfp counts once planes run out before bits */
        got = (precision_t){.planes = k + 1, .known = 0};
    return got;
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

/* Planes that libzfp codes at most: fewer where the least double is above
 * them (precision() with minexp -1074). */
static inline unsigned planes_f64(int emax) {
    int most = emax + 1078;
    return most < 64 ? (unsigned)most : 64;
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
    planes_t planes = {.count = planes_f64((int)field - 1022)};
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

/* 2^(emax - 62) from emax + 1023. */
static inline double scale_f64(uint64_t field) {
    if (field >= 63)
        return double_of((field - 62) << 52);
    return double_of(field >= 11 ? (uint64_t)1 << (field - 11) : 0);
}

static inline void decode_block_f64(reader_t *r, double *out, unsigned mode) {
    unsigned head = (unsigned)peek(r->src, r->bit) & 0xfff;
    for (int i = 0; i < 4; i++)
        out[i] = 0;
    if ((head & 1) == 0)
        return;
    r->bit += 12;
    r->left -= 12;
    unsigned field = head >> 1;
    planes_t planes = {.count = planes_f64((int)field - 1023)};
    precision_t got = decode_planes(r, &planes);
    uint64_t word[4];
    for (int part = 0; part < 4; part++)
        word[part] = from_planes(planes.word[part]);
    int64_t q[4];
    bool round = !(mode & LULL__ZFP_TRUNCATE) && got.planes < 63;
    for (unsigned i = 0; i < 4; i++) {
        uint64_t u = 0;
        for (int part = 0; part < 4; part++)
            u = u << 16 | (word[part] >> 16 * i & 0xffff);
        if (round)
            u += (i < got.known ? MASK64 >> 2 : MASK64 >> 1) >> got.planes;
        q[i] = (int64_t)((u ^ MASK64) - MASK64);
    }
    INVERSE_LIFT(int64_t, uint64_t, q[0], q[1], q[2], q[3]);
    double scale = scale_f64(field);
    for (int i = 0; i < 4; i++)
        out[i] = scale * (double)q[i];
}

void lull__zfp_decode_f64_portable(const uint8_t *src, uint8_t *dst,
                                   size_t groups, unsigned maxbits,
                                   unsigned mode) {
    for (size_t block = 0; block < groups * BLOCKS; block++) {
        reader_t r = {src, block * maxbits, maxbits};
        double out[4], sum[4];
        decode_block_f64(&r, out, mode);
        if (mode & LULL__ZFP_ADD) {
            memcpy(sum, dst + 32 * block, 32);
            for (int i = 0; i < 4; i++)
                out[i] += sum[i];
        }
        memcpy(dst + 32 * block, out, 32);
    }
}
