/* ZFP encoder for AVX2: as zfp_encode_avx512.c, eight blocks of floats at
 * once. What AVX2 lacks is made of other things: leading zeros from the
 * exponent of a conversion, the transposition of 8x8 bits from exchanges,
 * look-ups of 64 bytes from four of 16. */
#ifdef __AVX2__
#include "zfp_portable.h"
/* After it: the name v is a type from here on. */
#include "zfp_encode_avx2.h"

static INLINE void forward_lift(v q[4]) {
    signed32 x = (signed32)q[0], y = (signed32)q[1];
    signed32 z = (signed32)q[2], w = (signed32)q[3];
    FORWARD_LIFT(signed32, unsigned32, x, y, z, w);
    q[0] = (v)x, q[1] = (v)y, q[2] = (v)z, q[3] = (v)w;
}

/* Eight blocks before their planes are coded, in the order of transpose(). */
typedef struct blocks {
    v u[4];   /* coefficients, shifted so that no plane is empty */
    v m1, m2; /* states of the planes, two bits in two words */
    v header; /* 0 for a block of zeros */
    v offset; /* where the code begins: header and empty planes */
} blocks_t;

/* Loads 32 floats. Lanes of blocks that cannot come back are set in *bad. */
static INLINE blocks_t load_blocks(const uint8_t *src, v *bad) {
    blocks_t b;
    UNROLL
    for (int i = 0; i < 4; i++)
        b.u[i] = _mm256_loadu_si256((const void *)(src + 32 * i));
    transpose(b.u);
    v size[4], magnitude = SET32(0x7fffffff), zero = _mm256_setzero_si256();
    UNROLL
    for (int i = 0; i < 4; i++)
        size[i] = _mm256_and_si256(b.u[i], magnitude);
    v top = _mm256_max_epi32(_mm256_max_epi32(size[0], size[1]),
                             _mm256_max_epi32(size[2], size[3]));
    v some = _mm256_cmpgt_epi32(top, zero);
    v below = _mm256_cmpgt_epi32(SET32(LULL__ZFP_F32_LEAST), top);
    v above = _mm256_cmpgt_epi32(
        top, SET32(LULL__ZFP_F32_LEAST + LULL__ZFP_F32_RANGE - 1));
    *bad = _mm256_or_si256(
        *bad, _mm256_and_si256(some, _mm256_or_si256(below, above)));
    v field = _mm256_srli_epi32(top, 23);
    b.header = _mm256_add_epi32(_mm256_add_epi32(field, field), SET32(3));
    b.header = _mm256_and_si256(b.header, some);
    v scale = _mm256_min_epi32(_mm256_sub_epi32(SET32(283), field), SET32(255));
    __m256 factor = _mm256_castsi256_ps(_mm256_slli_epi32(scale, 23));
    UNROLL
    for (int i = 0; i < 4; i++) {
        __m256 scaled = _mm256_mul_ps(_mm256_castsi256_ps(b.u[i]), factor);
        b.u[i] = _mm256_and_si256(_mm256_cvttps_epi32(scaled), some);
    }
    forward_lift(b.u);
    v nega = SET32(0xaaaaaaaa);
    UNROLL
    for (int i = 0; i < 4; i++)
        b.u[i] = _mm256_xor_si256(_mm256_add_epi32(b.u[i], nega), nega);
    v any2 = _mm256_or_si256(b.u[2], b.u[3]);
    v any1 = _mm256_or_si256(b.u[1], any2);
    v empty = leading_zeros(_mm256_or_si256(b.u[0], any1));
    v lz1 = _mm256_sub_epi32(leading_zeros(any1), empty);
    v lz2 = _mm256_sub_epi32(leading_zeros(any2), empty);
    b.m1 = _mm256_srlv_epi32(magnitude, lz1);
    b.m2 =
        _mm256_or_si256(_mm256_srlv_epi32(magnitude, lz2), SET32(0x80000000));
    UNROLL
    for (int i = 0; i < 4; i++)
        b.u[i] = _mm256_sllv_epi32(b.u[i], empty);
    b.offset = _mm256_add_epi32(empty, SET32(9));
    return b;
}

/* Appends `code` at bit `offset` (up to 127) of lo and hi. */
static INLINE void append(v *lo, v *hi, v code, v offset, bool wide) {
    *lo = _mm256_or_si256(*lo, _mm256_sllv_epi64(code, offset));
    if (!wide)
        return;
    v cross = _mm256_sub_epi64(SET64(64), offset);
    v past = _mm256_sub_epi64(offset, SET64(64));
    v high = _mm256_or_si256(_mm256_srlv_epi64(code, cross),
                             _mm256_sllv_epi64(code, past));
    *hi = _mm256_or_si256(*hi, high);
}

/* Streams of 8 blocks: 128 bits each in lo and hi, in two halves of four
 * lanes: lanes of half h are blocks 4 h + 0, 2, 1, 3. */
typedef struct streams {
    v lo[2], hi[2];
} streams_t;

/* The streams of 32 floats; bits past maxbits may be set. */
static INLINE streams_t encode_blocks(const uint8_t *src, unsigned maxbits,
                                      bool wide, v *bad) {
    blocks_t b = load_blocks(src, bad);
    v zero = _mm256_setzero_si256();
    streams_t s = {{_mm256_unpacklo_epi32(b.header, zero),
                    _mm256_unpackhi_epi32(b.header, zero)},
                   {zero, zero}};
    v offset[2] = {_mm256_unpacklo_epi32(b.offset, zero),
                   _mm256_unpackhi_epi32(b.offset, zero)};
    for (int planes = 8;; planes += 8) {
        v a = _mm256_or_si256(
            _mm256_or_si256(top_byte(b.u[0], 4, 0), top_byte(b.u[1], 4, 1)),
            _mm256_or_si256(top_byte(b.u[2], 4, 2), top_byte(b.u[3], 4, 3)));
        v m = _mm256_or_si256(top_byte(b.m1, 4, 0), top_byte(b.m2, 4, 1));
        v at[2] = {offset[0], offset[1]};
        v code0 = code_planes(_mm256_unpacklo_epi32(a, m), &offset[0]);
        v code1 = code_planes(_mm256_unpackhi_epi32(a, m), &offset[1]);
        append(&s.lo[0], &s.hi[0], code0, at[0], wide);
        append(&s.lo[1], &s.hi[1], code1, at[1], wide);
        v more = _mm256_or_si256(_mm256_cmpgt_epi64(SET64(maxbits), offset[0]),
                                 _mm256_cmpgt_epi64(SET64(maxbits), offset[1]));
        if (planes == 32 || _mm256_testz_si256(more, more))
            return s;
        UNROLL
        for (int i = 0; i < 4; i++)
            b.u[i] = _mm256_slli_epi32(b.u[i], 8);
        b.m1 = _mm256_slli_epi32(b.m1, 8);
        b.m2 = _mm256_slli_epi32(b.m2, 8);
    }
}

static INLINE void store_32(uint8_t *dst, const streams_t *s) {
    v order = _mm256_setr_epi32(0, 4, 2, 6, 0, 4, 2, 6);
    v low = _mm256_permutevar8x32_epi32(s->lo[0], order);
    v high = _mm256_permutevar8x32_epi32(s->lo[1], order);
    _mm256_storeu_si256((void *)dst, _mm256_blend_epi32(low, high, 0xf0));
}

static INLINE void store_any(uint8_t *dst, const streams_t *s,
                             unsigned maxbits) {
    _Alignas(32) uint64_t lo[8], hi[8];
    for (int h = 0; h < 2; h++) {
        _mm256_store_si256((void *)(lo + 4 * h),
                           _mm256_permute4x64_epi64(s->lo[h], 0xd8));
        _mm256_store_si256((void *)(hi + 4 * h),
                           _mm256_permute4x64_epi64(s->hi[h], 0xd8));
    }
    uint64_t carry = 0;
    for (unsigned b = 0; b < 8; b++)
        store(dst, b * maxbits, (code_t){lo[b], hi[b]}, maxbits, &carry);
}

static INLINE bool encode_all(const uint8_t *src, uint8_t *dst, size_t groups,
                              unsigned maxbits, bool wide) {
    v bad = _mm256_setzero_si256();
    for (size_t half = 0; half < 2 * groups; half++) {
        streams_t s = encode_blocks(src + 128 * half, maxbits, wide, &bad);
        uint8_t *to = dst + half * maxbits;
        if (maxbits == 32)
            store_32(to, &s);
        else
            store_any(to, &s, maxbits);
    }
    return _mm256_testz_si256(bad, bad);
}

bool lull__zfp_encode_f32_avx2(const uint8_t *src, uint8_t *dst, size_t groups,
                               unsigned maxbits) {
    switch (maxbits) { /* the rates that users choose, each by itself */
    case 32:
        return encode_all(src, dst, groups, 32, false);
    case 64:
        return encode_all(src, dst, groups, 64, false);
    case 96:
        return encode_all(src, dst, groups, 96, true);
    default:
        return encode_all(src, dst, groups, maxbits, true);
    }
}
#else
typedef int lull__no_avx2;
#endif
