/* ZFP encoder for AVX2: as zfp_encode_avx512.c, eight blocks of floats at
 * once. What AVX2 lacks is made of other things: leading zeros from the
 * exponent of a conversion, the transposition of 8x8 bits from exchanges,
 * look-ups of 64 bytes from four of 16. */
#ifdef __AVX2__
#include "zfp_portable.h"
/* After it: the name v is a type from here on. */
#include "zfp_avx2.h"

static INLINE v bytes16(const uint8_t table[16]) {
    return _mm256_broadcastsi128_si256(_mm_loadu_si128((const void *)table));
}

static INLINE void forward_lift(v q[4]) {
    signed32 x = (signed32)q[0], y = (signed32)q[1];
    signed32 z = (signed32)q[2], w = (signed32)q[3];
    FORWARD_LIFT(signed32, unsigned32, x, y, z, w);
    q[0] = (v)x, q[1] = (v)y, q[2] = (v)z, q[3] = (v)w;
}

/* Leading zeros, at most 31: without bit 0, and with the second of two set
 * bits in a row cleared so that the conversion does not round up. */
static INLINE v leading_zeros(v x) {
    v half = _mm256_srli_epi32(x, 1);
    v high = _mm256_andnot_si256(_mm256_srli_epi32(half, 1), half);
    v exponent =
        _mm256_srli_epi32(_mm256_castps_si256(_mm256_cvtepi32_ps(high)), 23);
    return _mm256_min_epi32(_mm256_sub_epi32(SET32(157), exponent), SET32(31));
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

/* Exchanges the bits of mask with those `shift` above them. */
static INLINE v exchange(v x, uint64_t mask, int shift) {
    v t = _mm256_xor_si256(x, _mm256_srli_epi64(x, shift));
    t = _mm256_and_si256(t, SET64(mask));
    return _mm256_xor_si256(_mm256_xor_si256(x, t),
                            _mm256_slli_epi64(t, shift));
}

/* Bit j of byte i to bit i of byte 7 - j of each 64-bit lane. */
static INLINE v transpose_bits(v x) {
    x = exchange(x, 0x00aa00aa00aa00aa, 7);
    x = exchange(x, 0x0000cccc0000cccc, 14);
    x = exchange(x, 0x00000000f0f0f0f0, 28);
    return _mm256_shuffle_epi8(x, _mm256_setr_epi8(7, 6, 5, 4, 3, 2, 1, 0, 15,
                                                   14, 13, 12, 11, 10, 9, 8, 7,
                                                   6, 5, 4, 3, 2, 1, 0, 15, 14,
                                                   13, 12, 11, 10, 9, 8));
}

/* By nibble and state: rows of the tables in zfp_encode_avx512.c; where n >= 3
 * the code is the nibble and takes 4 bits. */
static INLINE v look_up(const uint8_t table[3][16], v nibble, v index,
                        v verbatim) {
    v state0 = _mm256_slli_epi16(index, 3),
      state1 = _mm256_slli_epi16(index, 2);
    v low = _mm256_blendv_epi8(_mm256_shuffle_epi8(bytes16(table[0]), nibble),
                               _mm256_shuffle_epi8(bytes16(table[1]), nibble),
                               state0);
    v high = _mm256_blendv_epi8(_mm256_shuffle_epi8(bytes16(table[2]), nibble),
                                verbatim, state0);
    return _mm256_blendv_epi8(low, high, state1);
}

static const uint8_t plane_code[3][16] = {
    {0, 1, 6, 7, 10, 11, 30, 31, 2, 3, 14, 15, 26, 27, 62, 63},
    {0, 1, 2, 3, 12, 13, 14, 15, 4, 5, 6, 7, 28, 29, 30, 31},
    {0, 3, 5, 15, 9, 23, 29, 63, 1, 7, 13, 31, 25, 55, 61, 127},
};
static const uint8_t plane_length[3][16] = {
    {2, 2, 4, 4, 5, 5, 6, 6, 4, 4, 5, 5, 5, 5, 6, 6},
    {3, 3, 3, 3, 5, 5, 5, 5, 4, 4, 4, 4, 5, 5, 5, 5},
    {1, 3, 4, 5, 5, 6, 6, 7, 4, 5, 5, 6, 5, 6, 6, 7},
};

/* Eight bytes of up to 7 bits in each 64-bit lane, joined to one code; *length
 * in: of each byte, out: of the lane's code. */
static INLINE v join(v code, v *length) {
    static const uint8_t powers[16] = {1, 2, 4, 8, 16, 32, 64, 128};
    v l = *length;
    v power = _mm256_shuffle_epi8(bytes16(powers), l);
    v factors =
        _mm256_or_si256(_mm256_slli_epi16(power, 8), _mm256_set1_epi16(1));
    code = _mm256_maddubs_epi16(factors, code);
    l = _mm256_maddubs_epi16(l, _mm256_set1_epi8(1));

    v low = SET32(0xffff);
    v high = _mm256_srli_epi32(code, 16);
    high = _mm256_sllv_epi32(high, _mm256_and_si256(l, low));
    code = _mm256_or_si256(_mm256_and_si256(code, low), high);
    l = _mm256_madd_epi16(l, _mm256_set1_epi16(1));

    low = SET64(0xffffffff);
    high = _mm256_srli_epi64(code, 32);
    v first = _mm256_and_si256(l, low);
    high = _mm256_sllv_epi64(high, first);
    code = _mm256_or_si256(_mm256_and_si256(code, low), high);
    *length = _mm256_add_epi64(first, _mm256_srli_epi64(l, 32));
    return code;
}

/* Codes of the next eight planes of four blocks; offset moves past them. */
static INLINE v code_planes(v rows, v *offset) {
    v index = transpose_bits(rows);
    v nibble = _mm256_and_si256(index, _mm256_set1_epi8(15));
    v code = look_up(plane_code, nibble, index, nibble);
    v length = look_up(plane_length, nibble, index, _mm256_set1_epi8(4));
    code = join(code, &length);
    *offset = _mm256_add_epi64(*offset, length);
    return code;
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

/* The highest byte of each dword to byte `to` of the dword. */
static INLINE v top_byte(v x, char to) {
    char map[16];
    UNROLL
    for (int i = 0; i < 16; i++)
        map[i] = (char)(i % 4 == to ? i - i % 4 + 3 : -1);
    return _mm256_shuffle_epi8(
        x, _mm256_broadcastsi128_si256(_mm_loadu_si128((const void *)map)));
}

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
            _mm256_or_si256(top_byte(b.u[0], 0), top_byte(b.u[1], 1)),
            _mm256_or_si256(top_byte(b.u[2], 2), top_byte(b.u[3], 3)));
        v m = _mm256_or_si256(top_byte(b.m1, 0), top_byte(b.m2, 1));
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
