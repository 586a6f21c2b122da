/* ZFP encoder for AVX-512 (VBMI, VBMI2, GFNI): 16 blocks of floats at once,
 * one a lane, coefficient i of all in register i.
 *
 * There is no loop over planes. How many coefficients are significant before
 * each plane follows from leading zeros. Planes are taken eight at a time: a
 * transposition of 8x8 bits makes a byte of each plane (its nibble and its
 * state), two look-ups give code and length, and the eight codes are joined
 * pairwise. */
#ifdef __AVX512VBMI2__
#include "zfp_encode_avx512.h"

static INLINE void forward_lift(v q[4]) {
    signed32 x = (signed32)q[0], y = (signed32)q[1];
    signed32 z = (signed32)q[2], w = (signed32)q[3];
    FORWARD_LIFT(signed32, unsigned32, x, y, z, w);
    q[0] = (v)x, q[1] = (v)y, q[2] = (v)z, q[3] = (v)w;
}

/* What is known of 16 blocks before their planes are coded; lanes in the
 * order of transpose(). */
typedef struct blocks {
    v u[4];   /* coefficients, shifted so that no plane is empty */
    v m1, m2; /* states of the planes, two bits in two words */
    v header; /* 0 for a block of zeros */
    v offset; /* where the code begins: header and empty planes */
} blocks_t;

/* Loads 64 floats. Lanes of blocks that cannot come back are set in *bad. */
static INLINE blocks_t load_blocks(const uint8_t *src, __mmask16 *bad) {
    blocks_t b;
    UNROLL
    for (int i = 0; i < 4; i++)
        b.u[i] = _mm512_loadu_si512(src + 64 * i);
    transpose(b.u);
    v size[4], magnitude = SET32(0x7fffffff);
    UNROLL
    for (int i = 0; i < 4; i++)
        size[i] = _mm512_and_si512(b.u[i], magnitude);
    v top = _mm512_max_epu32(_mm512_max_epu32(size[0], size[1]),
                             _mm512_max_epu32(size[2], size[3]));
    __mmask16 some = _mm512_test_epi32_mask(top, top);
    v above = _mm512_sub_epi32(top, SET32(LULL__ZFP_F32_LEAST));
    *bad |=
        _mm512_mask_cmpge_epu32_mask(some, above, SET32(LULL__ZFP_F32_RANGE));
    v field = _mm512_srli_epi32(top, 23);
    b.header =
        _mm512_maskz_add_epi32(some, _mm512_add_epi32(field, field), SET32(3));
    v scale = _mm512_min_epu32(_mm512_sub_epi32(SET32(283), field), SET32(255));
    __m512 factor = _mm512_castsi512_ps(_mm512_slli_epi32(scale, 23));
    UNROLL
    for (int i = 0; i < 4; i++)
        b.u[i] = _mm512_maskz_cvttps_epi32(
            some, _mm512_mul_ps(_mm512_castsi512_ps(b.u[i]), factor));
    forward_lift(b.u);
    v nega = SET32(0xaaaaaaaa);
    UNROLL
    for (int i = 0; i < 4; i++)
        b.u[i] = _mm512_xor_si512(_mm512_add_epi32(b.u[i], nega), nega);
    v any2 = _mm512_or_si512(b.u[2], b.u[3]);
    v any1 = _mm512_or_si512(b.u[1], any2);
    v empty = _mm512_lzcnt_epi32(_mm512_or_si512(b.u[0], any1));
    v lz1 = _mm512_sub_epi32(_mm512_lzcnt_epi32(any1), empty);
    v lz2 = _mm512_sub_epi32(_mm512_lzcnt_epi32(any2), empty);
    b.m1 = _mm512_srlv_epi32(magnitude, lz1);
    b.m2 =
        _mm512_or_si512(_mm512_srlv_epi32(magnitude, lz2), SET32(0x80000000));
    UNROLL
    for (int i = 0; i < 4; i++)
        b.u[i] = _mm512_sllv_epi32(b.u[i], empty);
    b.offset = _mm512_add_epi32(empty, SET32(9));
    return b;
}

/* Streams of 16 blocks: 128 bits each in lo and hi, in two halves of eight
 * lanes: lane 2 L + j of half h is block 8 h + 4 j + L. */
typedef struct streams {
    v lo[2], hi[2];
} streams_t;

/* Appends `code` at bit `offset` (up to 127) of lo and hi. */
static INLINE void append(v *lo, v *hi, v code, v offset, bool wide) {
    *lo = _mm512_or_si512(*lo, _mm512_sllv_epi64(code, offset));
    if (!wide)
        return;
    v cross = _mm512_sub_epi64(SET64(64), offset);
    v past = _mm512_sub_epi64(offset, SET64(64));
    v high = _mm512_or_si512(_mm512_srlv_epi64(code, cross),
                             _mm512_sllv_epi64(code, past));
    *hi = _mm512_or_si512(*hi, high);
}

/* The streams of 64 floats; bits past maxbits may be set. */
static INLINE streams_t encode_blocks(const uint8_t *src, unsigned maxbits,
                                      bool wide, __mmask16 *bad) {
    blocks_t b = load_blocks(src, bad);
    v zero = _mm512_setzero_si512(), top8 = SET32(0xff000000);
    streams_t s = {{_mm512_unpacklo_epi32(b.header, zero),
                    _mm512_unpackhi_epi32(b.header, zero)},
                   {zero, zero}};
    v offset[2] = {_mm512_unpacklo_epi32(b.offset, zero),
                   _mm512_unpackhi_epi32(b.offset, zero)};
    for (int planes = 8;; planes += 8) {
        v a01 = choose(top8, b.u[0], _mm512_srli_epi32(b.u[1], 8));
        v a23 = choose(top8, b.u[2], _mm512_srli_epi32(b.u[3], 8));
        v a = choose(SET32(0xffff0000), a01, _mm512_srli_epi32(a23, 16));
        v m = choose(top8, b.m1, _mm512_srli_epi32(b.m2, 8));
        v at[2] = {offset[0], offset[1]};
        v code0 = code_planes(_mm512_unpacklo_epi32(m, a), &offset[0]);
        v code1 = code_planes(_mm512_unpackhi_epi32(m, a), &offset[1]);
        append(&s.lo[0], &s.hi[0], code0, at[0], wide);
        append(&s.lo[1], &s.hi[1], code1, at[1], wide);
        v least = _mm512_min_epu64(offset[0], offset[1]);
        if (planes == 32 || _mm512_cmplt_epu64_mask(least, SET64(maxbits)) == 0)
            return s;
        UNROLL
        for (int i = 0; i < 4; i++)
            b.u[i] = _mm512_slli_epi32(b.u[i], 8);
        b.m1 = _mm512_slli_epi32(b.m1, 8);
        b.m2 = _mm512_slli_epi32(b.m2, 8);
    }
}

static INLINE void store_32(uint8_t *dst, const streams_t *s) {
    v order = _mm512_setr_epi32(0, 4, 8, 12, 2, 6, 10, 14, 16, 20, 24, 28, 18,
                                22, 26, 30);
    _mm512_storeu_si512(dst,
                        _mm512_permutex2var_epi32(s->lo[0], order, s->lo[1]));
}

static INLINE void store_64(uint8_t *dst, const streams_t *s) {
    v order = _mm512_setr_epi64(0, 2, 4, 6, 1, 3, 5, 7);
    UNROLL
    for (int h = 0; h < 2; h++)
        _mm512_storeu_si512(dst + 64 * h,
                            _mm512_permutexvar_epi64(order, s->lo[h]));
}

static INLINE void store_96(uint8_t *dst, const streams_t *s) {
    v first = _mm512_setr_epi32(0, 1, 16, 4, 5, 20, 8, 9, 24, 12, 13, 28, 2, 3,
                                18, 6);
    v rest = _mm512_setr_epi32(7, 22, 10, 11, 26, 14, 15, 30, 0, 0, 0, 0, 0, 0,
                               0, 0);
    UNROLL
    for (int h = 0; h < 2; h++) {
        _mm512_storeu_si512(
            dst + 96 * h, _mm512_permutex2var_epi32(s->lo[h], first, s->hi[h]));
        v tail = _mm512_permutex2var_epi32(s->lo[h], rest, s->hi[h]);
        _mm256_storeu_si256((void *)(dst + 96 * h + 64),
                            _mm512_castsi512_si256(tail));
    }
}

static INLINE void store_128(uint8_t *dst, const streams_t *s) {
    v first = _mm512_setr_epi64(0, 8, 2, 10, 4, 12, 6, 14);
    v rest = _mm512_setr_epi64(1, 9, 3, 11, 5, 13, 7, 15);
    UNROLL
    for (int h = 0; h < 2; h++) {
        _mm512_storeu_si512(dst + 128 * h, _mm512_permutex2var_epi64(
                                               s->lo[h], first, s->hi[h]));
        _mm512_storeu_si512(dst + 128 * h + 64, _mm512_permutex2var_epi64(
                                                    s->lo[h], rest, s->hi[h]));
    }
}

/* Rates up to 8: blocks in pairs. */
static INLINE void store_pairs(uint8_t *dst, const streams_t *s,
                               unsigned maxbits) {
    v even = _mm512_setr_epi64(0, 4, 1, 5, 8, 12, 9, 13);
    v odd = _mm512_setr_epi64(2, 6, 3, 7, 10, 14, 11, 15);
    v keep = SET64(((uint64_t)1 << maxbits) - 1);
    v a = _mm512_permutex2var_epi64(s->lo[0], even, s->lo[1]);
    v b = _mm512_permutex2var_epi64(s->lo[0], odd, s->lo[1]);
    b = _mm512_sllv_epi64(_mm512_and_si512(b, keep), SET64(maxbits));
    v pairs = _mm512_or_si512(_mm512_and_si512(a, keep), b);
    v before = _mm512_alignr_epi64(pairs, _mm512_setzero_si512(), 7);
    store_codes(dst, pairs, before, 2 * maxbits, 0);
}

/* Rates up to 16. */
static INLINE void store_singles(uint8_t *dst, const streams_t *s,
                                 unsigned maxbits) {
    v order = _mm512_setr_epi64(0, 2, 4, 6, 1, 3, 5, 7), codes[2];
    v keep = SET64(UINT64_MAX >> (64 - maxbits));
    for (int h = 0; h < 2; h++)
        codes[h] =
            _mm512_and_si512(keep, _mm512_permutexvar_epi64(order, s->lo[h]));
    v before = _mm512_alignr_epi64(codes[0], _mm512_setzero_si512(), 7);
    store_codes(dst, codes[0], before, maxbits, 0);
    before = _mm512_alignr_epi64(codes[1], codes[0], 7);
    store_codes(dst, codes[1], before, maxbits, 8);
}

/* Rates above 16: one block after the other. Each store may write 15 bytes past
 * its block, which the next overwrites. */
static INLINE void store_any(uint8_t *dst, const streams_t *s,
                             unsigned maxbits) {
    static const uint8_t lane[8] = {0, 2, 4, 6, 1, 3, 5, 7};
    uint64_t lo[16], hi[16];
    uint64_t keep_lo = maxbits < 64 ? ((uint64_t)1 << maxbits) - 1 : UINT64_MAX;
    uint64_t keep_hi = maxbits <= 64   ? 0
                       : maxbits < 128 ? ((uint64_t)1 << (maxbits - 64)) - 1
                                       : UINT64_MAX;
    UNROLL
    for (int h = 0; h < 2; h++) {
        _mm512_storeu_si512(lo + 8 * h, s->lo[h]);
        _mm512_storeu_si512(hi + 8 * h, s->hi[h]);
    }
    uint64_t carry = 0; /* bits of the block before in this one's byte */
    for (unsigned b = 0, bit = 0; b < 16; b++) {
        uint64_t low = lo[8 * (b / 8) + lane[b % 8]] & keep_lo;
        uint64_t high = hi[8 * (b / 8) + lane[b % 8]] & keep_hi;
        uint8_t *to = dst + bit / 8;
        unsigned shift = bit % 8;
        lull__store64(to, carry | low << shift);
        if (maxbits > 56) {
            lull__store64(to + 8, high << shift | low >> 1 >> (63 - shift));
            to[16] = (uint8_t)(high >> 1 >> (63 - shift));
        }
        bit += maxbits;
        carry = dst[bit / 8];
    }
}

static INLINE bool encode_all(const uint8_t *src, uint8_t *dst, size_t groups,
                              unsigned maxbits, bool wide) {
    __mmask16 bad = 0;
    for (size_t g = 0; g < groups; g++) {
        streams_t s = encode_blocks(src + 256 * g, maxbits, wide, &bad);
        uint8_t *to = dst + g * 2 * maxbits;
        if (maxbits == 32)
            store_32(to, &s);
        else if (maxbits == 64)
            store_64(to, &s);
        else if (maxbits == 96)
            store_96(to, &s);
        else if (maxbits == 128)
            store_128(to, &s);
        else if (wide)
            store_any(to, &s, maxbits);
        else if (maxbits < 32)
            store_pairs(to, &s, maxbits);
        else
            store_singles(to, &s, maxbits);
    }
    return bad == 0;
}

bool lull__zfp_encode_f32_avx512(const uint8_t *src, uint8_t *dst,
                                 size_t groups, unsigned maxbits) {
    switch (maxbits) { /* the rates that users choose, each by itself */
    case 32:
        return encode_all(src, dst, groups, 32, false);
    case 64:
        return encode_all(src, dst, groups, 64, false);
    case 96:
        return encode_all(src, dst, groups, 96, true);
    default:
        if (maxbits < 64)
            return encode_all(src, dst, groups, maxbits, false);
        return encode_all(src, dst, groups, maxbits, true);
    }
}

#else
typedef int lull__no_avx512;
#endif
