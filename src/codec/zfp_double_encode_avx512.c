/* ZFP encoder of doubles for AVX-512: as zfp_encode_avx512.c, but eight blocks
 * at once, one a lane of 64 bits, and a code takes up to four words. */
#ifdef __AVX512VBMI2__
#include "zfp_encode_avx512.h"

/* What is known of 8 blocks before their planes are coded, block L in lane L;
 * as that of zfp_encode_avx512.c. */
typedef struct blocks {
    v u[4], m1, m2, header, offset;
} blocks_t;

/* Register i held blocks 2 i and 2 i + 1; then coefficient i of all. */
static INLINE void by_coefficient(v x[4]) {
    v first = _mm512_setr_epi64(0, 4, 1, 5, 8, 12, 9, 13);
    v second = _mm512_add_epi64(first, SET64(2));
    v a = _mm512_unpacklo_epi64(x[0], x[1]);
    v b = _mm512_unpackhi_epi64(x[0], x[1]);
    v c = _mm512_unpacklo_epi64(x[2], x[3]);
    v d = _mm512_unpackhi_epi64(x[2], x[3]);
    x[0] = _mm512_permutex2var_epi64(a, first, c);
    x[1] = _mm512_permutex2var_epi64(b, first, d);
    x[2] = _mm512_permutex2var_epi64(a, second, c);
    x[3] = _mm512_permutex2var_epi64(b, second, d);
}

/* Loads 32 doubles. Lanes of blocks that cannot come back are set in *bad.
 * That libzfp codes fewer planes of the least numbers makes no difference:
 * their scale is Inf, so all of them have the same few bits. */
static INLINE blocks_t load_blocks(const uint8_t *src, __mmask8 *bad) {
    blocks_t b;
    v size[4], magnitude = SET64(INT64_MAX), nega = SET64(MASK64);
    UNROLL
    for (int i = 0; i < 4; i++)
        b.u[i] = _mm512_loadu_si512(src + 64 * i);
    by_coefficient(b.u);
    UNROLL
    for (int i = 0; i < 4; i++)
        size[i] = _mm512_and_si512(b.u[i], magnitude);
    v top = _mm512_max_epu64(_mm512_max_epu64(size[0], size[1]),
                             _mm512_max_epu64(size[2], size[3]));
    v field = _mm512_srli_epi64(top, 52);
    __mmask8 some = _mm512_test_epi64_mask(top, top);
    v above = _mm512_sub_epi64(top, SET64(LULL__ZFP_F64_LEAST));
    *bad |=
        _mm512_mask_cmpge_epu64_mask(some, above, SET64(LULL__ZFP_F64_RANGE));
    some &= _mm512_cmplt_epu64_mask(field, SET64(2047));
    b.header =
        _mm512_maskz_add_epi64(some, _mm512_add_epi64(field, field), SET64(3));
    v scale =
        _mm512_min_epu64(_mm512_sub_epi64(SET64(2107), field), SET64(2047));
    __m512d factor = _mm512_castsi512_pd(_mm512_slli_epi64(scale, 52));
    UNROLL
    for (int i = 0; i < 4; i++)
        b.u[i] = _mm512_maskz_cvttpd_epi64(
            some, _mm512_mul_pd(_mm512_castsi512_pd(b.u[i]), factor));
    FORWARD_LIFT(v, unsigned64, b.u[0], b.u[1], b.u[2], b.u[3]);
    UNROLL
    for (int i = 0; i < 4; i++)
        b.u[i] = _mm512_xor_si512(_mm512_add_epi64(b.u[i], nega), nega);
    v any2 = _mm512_or_si512(b.u[2], b.u[3]);
    v any1 = _mm512_or_si512(b.u[1], any2);
    v empty = _mm512_lzcnt_epi64(_mm512_or_si512(b.u[0], any1));
    v lz1 = _mm512_sub_epi64(_mm512_lzcnt_epi64(any1), empty);
    v lz2 = _mm512_sub_epi64(_mm512_lzcnt_epi64(any2), empty);
    b.m1 = _mm512_srlv_epi64(magnitude, lz1);
    b.m2 = _mm512_or_si512(_mm512_srlv_epi64(magnitude, lz2), SET64(INT64_MIN));
    UNROLL
    for (int i = 0; i < 4; i++)
        b.u[i] = _mm512_sllv_epi64(b.u[i], empty);
    b.offset = _mm512_add_epi64(empty, SET64(12));
    return b;
}

/* How a call stores its blocks, in so many words each. */
typedef struct layout {
    unsigned maxbits, words;
    v keep;  /* the bits of the last word */
    v shift; /* of a block's first bit in its byte */
    v carry; /* to the block's last bits, as many as shift says, from the last
                word's first */
} layout_t;

static INLINE layout_t layout_of(unsigned maxbits, unsigned words) {
    layout_t l = {.maxbits = maxbits, .words = words};
    unsigned last = maxbits - 64 * (words - 1);
    v block = _mm512_setr_epi64(0, 1, 2, 3, 4, 5, 6, 7);
    v bit = _mm512_mullo_epi64(block, SET64(maxbits));
    l.keep = SET64(UINT64_MAX >> (64 - last));
    l.shift = _mm512_and_si512(bit, SET64(7));
    l.carry = _mm512_sub_epi64(SET64(last), l.shift);
    return l;
}

/* Appends `code` at bit `offset` of the words. */
static INLINE void append(v word[4], unsigned words, v code, v offset) {
    word[0] = _mm512_or_si512(word[0], _mm512_sllv_epi64(code, offset));
    UNROLL
    for (unsigned w = 1; w < words; w++) {
        v up = _mm512_sub_epi64(offset, SET64(64 * w));
        v down = _mm512_sub_epi64(SET64(64 * w), offset);
        word[w] = or3(word[w], _mm512_sllv_epi64(code, up),
                      _mm512_srlv_epi64(code, down));
    }
}

/* The streams of 8 blocks. */
static INLINE void encode_planes(const blocks_t *b, const layout_t *l,
                                 v word[4]) {
    v offset = b->offset;
    /* Highest bytes: of two registers by turns, from the lane's end. */
    v bytes = _mm512_add_epi8(
        SET64(0x0747074707470747),
        _mm512_mullo_epi64(_mm512_setr_epi64(0, 8, 16, 24, 32, 40, 48, 56),
                           SET64(0x0101010101010101)));
    UNROLL
    for (int w = 0; w < 4; w++)
        word[w] = _mm512_setzero_si512();
    word[0] = b->header;
    for (int planes = 8;; planes += 8) {
        v matrix = or3(_mm512_maskz_permutex2var_epi8(0xc0c0c0c0c0c0c0c0,
                                                      b->u[0], bytes, b->u[1]),
                       _mm512_maskz_permutex2var_epi8(0x3030303030303030,
                                                      b->u[2], bytes, b->u[3]),
                       _mm512_maskz_permutex2var_epi8(0x0c0c0c0c0c0c0c0c, b->m1,
                                                      bytes, b->m2));
        v at = offset, code = code_planes(matrix, &offset);
        append(word, l->words, code, at);
        if (planes == 64 ||
            _mm512_cmplt_epu64_mask(offset, SET64(l->maxbits)) == 0)
            break;
        bytes = _mm512_sub_epi8(bytes, _mm512_set1_epi8(1));
    }
    word[l->words - 1] = _mm512_and_si512(word[l->words - 1], l->keep);
}

/* Words as they stand in bytes: behind the last bits of the block before. */
static INLINE void join_blocks(v word[4], const layout_t *l) {
    v zero = _mm512_setzero_si512();
    v last = _mm512_alignr_epi64(word[l->words - 1], zero, 7);
    v other = _mm512_alignr_epi64(word[l->words - 2], zero, 7);
    /* The word before has some of these bits where the last has but few. */
    v up = _mm512_sub_epi64(zero, l->carry);
    v down = _mm512_add_epi64(l->carry, SET64(64));
    v carry = or3(_mm512_srlv_epi64(last, l->carry),
                  _mm512_sllv_epi64(last, up), _mm512_srlv_epi64(other, down));
    for (unsigned w = l->words - 1; w > 0; w--)
        word[w] = _mm512_shldv_epi64(word[w], word[w - 1], l->shift);
    word[0] = _mm512_or_si512(_mm512_sllv_epi64(word[0], l->shift), carry);
}

/* Blocks one after the other; each store may write past its block, which the
 * next overwrites. */
static INLINE void store_pairs(uint8_t *dst, const v word[4],
                               const layout_t *l) {
    v even = _mm512_unpacklo_epi64(word[0], word[1]);
    v odd = _mm512_unpackhi_epi64(word[0], word[1]);
    UNROLL
    for (unsigned i = 0; i < 4; i++) {
        __m128i *to = (void *)(dst + 2 * i * l->maxbits / 8);
        _mm_storeu_si128(to, _mm512_castsi512_si128(even));
        to = (void *)(dst + (2 * i + 1) * l->maxbits / 8);
        _mm_storeu_si128(to, _mm512_castsi512_si128(odd));
        even = _mm512_shuffle_i64x2(even, even, 0x39);
        odd = _mm512_shuffle_i64x2(odd, odd, 0x39);
    }
}

static INLINE void store_fours(uint8_t *dst, const v word[4],
                               const layout_t *l) {
    v first = _mm512_setr_epi64(0, 1, 8, 9, 2, 3, 10, 11);
    v second = _mm512_add_epi64(first, SET64(4));
    v even[2] = {_mm512_unpacklo_epi64(word[0], word[1]),
                 _mm512_unpacklo_epi64(word[2], word[3])};
    v odd[2] = {_mm512_unpackhi_epi64(word[0], word[1]),
                _mm512_unpackhi_epi64(word[2], word[3])};
    UNROLL
    for (unsigned i = 0; i < 4; i++) {
        v order = i < 2 ? first : second;
        v a = _mm512_permutex2var_epi64(even[0], order, even[1]);
        v b = _mm512_permutex2var_epi64(odd[0], order, odd[1]);
        __m256i *to = (void *)(dst + 2 * i * l->maxbits / 8);
        _mm256_storeu_si256(to, i % 2 ? _mm512_extracti64x4_epi64(a, 1)
                                      : _mm512_castsi512_si256(a));
        to = (void *)(dst + (2 * i + 1) * l->maxbits / 8);
        _mm256_storeu_si256(to, i % 2 ? _mm512_extracti64x4_epi64(b, 1)
                                      : _mm512_castsi512_si256(b));
    }
}

static INLINE void store_blocks(uint8_t *dst, v word[4], const layout_t *l) {
    if (l->words == 1 && l->maxbits == 64) {
        _mm512_storeu_si512(dst, word[0]);
    } else if (l->words == 1) {
        v before = _mm512_alignr_epi64(word[0], _mm512_setzero_si512(), 7);
        store_codes(dst, word[0], before, l->maxbits, 0);
    } else {
        join_blocks(word, l);
        if (l->words == 2)
            store_pairs(dst, word, l);
        else
            store_fours(dst, word, l);
    }
}

static INLINE bool encode_all(const uint8_t *src, uint8_t *dst, size_t groups,
                              unsigned maxbits, unsigned words) {
    __mmask8 bad = 0;
    layout_t l = layout_of(maxbits, words);
    for (size_t half = 0; half < 2 * groups; half++) {
        v word[4];
        blocks_t b = load_blocks(src + 256 * half, &bad);
        encode_planes(&b, &l, word);
        store_blocks(dst + half * maxbits, word, &l);
    }
    return bad == 0;
}

bool lull__zfp_encode_f64_avx512(const uint8_t *src, uint8_t *dst,
                                 size_t groups, unsigned maxbits) {
    if (maxbits == 64)
        return encode_all(src, dst, groups, 64, 1);
    if (maxbits < 64)
        return encode_all(src, dst, groups, maxbits, 1);
    if (maxbits <= 128)
        return encode_all(src, dst, groups, maxbits, 2);
    if (maxbits <= 192)
        return encode_all(src, dst, groups, maxbits, 3);
    return encode_all(src, dst, groups, maxbits, 4);
}
#else
typedef int lull__no_avx512;
#endif
