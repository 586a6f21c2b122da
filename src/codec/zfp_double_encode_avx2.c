/* ZFP encoder of doubles for AVX2: as zfp_double_encode_avx512.c, four blocks
 * at once. There is no conversion to 64-bit integers: mantissas are shifted. */
#ifdef __AVX2__
#include "zfp_portable.h"
/* After it: the name v is a type from here on. */
#include "zfp_encode_avx2.h"

/* What is known of 4 blocks before their planes are coded, block L in lane L;
 * as that of zfp_encode_avx2.c. */
typedef struct blocks {
    v u[4], m1, m2, header, offset;
} blocks_t;

/* Leading zeros, at most 63. */
static INLINE v leading_zeros_64(v x) {
    v zeros = leading_zeros(x), none = _mm256_setzero_si256();
    v low = _mm256_and_si256(zeros, SET64(0xffffffff));
    low = _mm256_add_epi64(low, SET64(32));
    v high = _mm256_srli_epi64(zeros, 32);
    v no_high = _mm256_cmpeq_epi64(_mm256_srli_epi64(x, 32), none);
    return _mm256_blendv_epi8(high, low, no_high);
}

static INLINE v larger(v a, v b) {
    return _mm256_blendv_epi8(b, a, _mm256_cmpgt_epi64(a, b));
}

/* x 2^(62 - emax) without a fraction, as zfp scales: `field` is emax + 1022. */
static INLINE v to_fixed(v x, v field) {
    v zero = _mm256_setzero_si256(), magnitude = SET64(INT64_MAX);
    v hidden = SET64((uint64_t)1 << 52);
    v exponent = _mm256_srli_epi64(_mm256_and_si256(x, magnitude), 52);
    v subnormal = _mm256_cmpeq_epi64(exponent, zero);
    v mantissa = _mm256_and_si256(x, SET64(((uint64_t)1 << 52) - 1));
    mantissa =
        _mm256_or_si256(mantissa, _mm256_andnot_si256(subnormal, hidden));
    exponent = _mm256_sub_epi64(exponent, subnormal); /* 1 for those */
    v up = _mm256_add_epi64(_mm256_sub_epi64(exponent, field), SET64(9));
    v down = _mm256_sub_epi64(zero, up);
    /* What is shifted by 64 or more is 0. */
    v fixed = _mm256_or_si256(_mm256_sllv_epi64(mantissa, up),
                              _mm256_srlv_epi64(mantissa, down));
    v negative = _mm256_cmpgt_epi64(zero, x);
    return _mm256_sub_epi64(_mm256_xor_si256(fixed, negative), negative);
}

/* Loads 16 doubles. Lanes of blocks that cannot come back are set in *bad. */
static INLINE blocks_t load_blocks(const uint8_t *src, v *bad) {
    blocks_t b;
    v magnitude = SET64(INT64_MAX), nega = SET64(MASK64);
    UNROLL
    for (int i = 0; i < 4; i++)
        b.u[i] = _mm256_loadu_si256((const void *)(src + 32 * i));
    transpose_words(b.u);
    v size[4];
    UNROLL
    for (int i = 0; i < 4; i++)
        size[i] = _mm256_and_si256(b.u[i], magnitude);
    v top = larger(larger(size[0], size[1]), larger(size[2], size[3]));
    v some = _mm256_cmpgt_epi64(top, _mm256_setzero_si256());
    v below = _mm256_cmpgt_epi64(SET64(LULL__ZFP_F64_LEAST), top);
    v above = _mm256_cmpgt_epi64(
        top, SET64(LULL__ZFP_F64_LEAST + LULL__ZFP_F64_RANGE - 1));
    *bad = _mm256_or_si256(
        *bad, _mm256_and_si256(some, _mm256_or_si256(below, above)));
    v field = _mm256_srli_epi64(top, 52);
    some = _mm256_and_si256(some, _mm256_cmpgt_epi64(SET64(2047), field));
    b.header = _mm256_add_epi64(_mm256_add_epi64(field, field), SET64(3));
    b.header = _mm256_and_si256(b.header, some);
    UNROLL
    for (int i = 0; i < 4; i++) {
        /* Where libzfp's scale is Inf all become the least integer. */
        v fixed = _mm256_blendv_epi8(to_fixed(b.u[i], field), SET64(INT64_MIN),
                                     below);
        b.u[i] = _mm256_and_si256(fixed, some);
    }
    FORWARD_LIFT(v, unsigned64, b.u[0], b.u[1], b.u[2], b.u[3]);
    UNROLL
    for (int i = 0; i < 4; i++)
        b.u[i] = _mm256_xor_si256(_mm256_add_epi64(b.u[i], nega), nega);
    v any2 = _mm256_or_si256(b.u[2], b.u[3]);
    v any1 = _mm256_or_si256(b.u[1], any2);
    v empty = leading_zeros_64(_mm256_or_si256(b.u[0], any1));
    v lz1 = _mm256_sub_epi64(leading_zeros_64(any1), empty);
    v lz2 = _mm256_sub_epi64(leading_zeros_64(any2), empty);
    b.m1 = _mm256_srlv_epi64(magnitude, lz1);
    b.m2 = _mm256_or_si256(_mm256_srlv_epi64(magnitude, lz2), SET64(INT64_MIN));
    UNROLL
    for (int i = 0; i < 4; i++)
        b.u[i] = _mm256_sllv_epi64(b.u[i], empty);
    b.offset = _mm256_add_epi64(empty, SET64(12));
    return b;
}

/* Appends `code` at bit `offset` of the words. */
static INLINE void append(v word[4], unsigned words, v code, v offset) {
    word[0] = _mm256_or_si256(word[0], _mm256_sllv_epi64(code, offset));
    UNROLL
    for (unsigned w = 1; w < words; w++) {
        v up = _mm256_sub_epi64(offset, SET64(64 * w));
        v down = _mm256_sub_epi64(SET64(64 * w), offset);
        v both = _mm256_or_si256(_mm256_sllv_epi64(code, up),
                                 _mm256_srlv_epi64(code, down));
        word[w] = _mm256_or_si256(word[w], both);
    }
}

/* The streams of 4 blocks; bits past maxbits may be set. */
static INLINE void encode_blocks(blocks_t *b, v word[4], unsigned maxbits,
                                 unsigned words) {
    v offset = b->offset;
    word[0] = b->header;
    word[1] = word[2] = word[3] = _mm256_setzero_si256();
    if (_mm256_testz_si256(b->header, b->header))
        return; /* nothing but zeros, as in gradients unused */
    for (int planes = 8;; planes += 8) {
        v a = _mm256_or_si256(
            _mm256_or_si256(top_byte(b->u[0], 8, 0), top_byte(b->u[1], 8, 1)),
            _mm256_or_si256(top_byte(b->u[2], 8, 2), top_byte(b->u[3], 8, 3)));
        v m = _mm256_or_si256(top_byte(b->m1, 8, 4), top_byte(b->m2, 8, 5));
        v at = offset, code = code_planes(_mm256_or_si256(a, m), &offset);
        append(word, words, code, at);
        v more = _mm256_cmpgt_epi64(SET64(maxbits), offset);
        if (planes == 64 || _mm256_testz_si256(more, more))
            return;
        UNROLL
        for (int i = 0; i < 4; i++)
            b->u[i] = _mm256_slli_epi64(b->u[i], 8);
        b->m1 = _mm256_slli_epi64(b->m1, 8);
        b->m2 = _mm256_slli_epi64(b->m2, 8);
    }
}

/* Writes the bits of a block; *carry holds those of the block before that are
 * in the same byte. */
static INLINE void store_block(uint8_t *dst, size_t bit, const uint64_t word[4],
                               unsigned maxbits, uint64_t *carry) {
    uint8_t *to = dst + bit / 8;
    unsigned shift = bit % 8, words = (maxbits + 63) / 64;
    uint64_t over = *carry;
    UNROLL
    for (unsigned w = 0; w < words; w++) {
        uint64_t bits = low_bits(word[w], maxbits - 64 * w);
        lull__store64(to + 8 * w, bits << shift | over);
        over = bits >> 1 >> (63 - shift);
    }
    to[8 * words] = (uint8_t)over;
    *carry = maxbits % 8 ? dst[(bit + maxbits) / 8] : 0;
}

/* Four blocks, from number `first` on. */
static INLINE void store_blocks(uint8_t *dst, unsigned first, v word[4],
                                unsigned maxbits, uint64_t *carry) {
    _Alignas(32) uint64_t block[4][4];
    if (maxbits == 64) {
        _mm256_storeu_si256((void *)(dst + 8 * first), word[0]);
        return;
    }
    transpose_words(word);
    UNROLL
    for (int i = 0; i < 4; i++)
        _mm256_store_si256((void *)block[i], word[i]);
    UNROLL
    for (unsigned b = 0; b < 4; b++)
        store_block(dst, (first + b) * maxbits, block[b], maxbits, carry);
}

static INLINE bool encode_all(const uint8_t *src, uint8_t *dst, size_t groups,
                              unsigned maxbits, unsigned words) {
    v bad = _mm256_setzero_si256();
    for (size_t half = 0; half < 2 * groups; half++, dst += maxbits) {
        uint64_t carry = 0;
        for (unsigned first = 0; first < 8; first += 4, src += 128) {
            v word[4];
            blocks_t b = load_blocks(src, &bad);
            encode_blocks(&b, word, maxbits, words);
            store_blocks(dst, first, word, maxbits, &carry);
        }
    }
    return _mm256_testz_si256(bad, bad);
}

bool lull__zfp_encode_f64_avx2(const uint8_t *src, uint8_t *dst, size_t groups,
                               unsigned maxbits) {
    if (maxbits == 64)
        return encode_all(src, dst, groups, 64, 1);
    if (maxbits < 64)
        return encode_all(src, dst, groups, maxbits, 1);
    if (maxbits <= 128)
        return encode_all(src, dst, groups, maxbits, 2);
    return encode_all(src, dst, groups, maxbits, 4);
}
#else
typedef int lull__no_avx2;
#endif
