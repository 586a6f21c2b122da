/* ZFP decoder for AVX-512: 16 blocks of floats in lockstep, a plane of all of
 * them a step, by two look-ups with the state and the next bits. Trailing
 * zeros skip the empty planes before; once all lanes have three significant
 * coefficients the rest needs no decoding. */
#ifdef __AVX512VBMI2__
#include "zfp_avx512.h"

/* How a call finds the blocks of one half (8 blocks, maxbits bytes): which
 * bytes, and shifts in bits. */
typedef struct layout {
    v head_bytes, head_shift;
    v lo_bytes, hi_bytes, shift; /* of the code after the header */
    v keep_lo, keep_hi;          /* masks of the code's bits */
    unsigned bits;               /* of the code */
} layout_t;

static INLINE layout_t layout_of(unsigned maxbits) {
    layout_t l;
    v lane = _mm512_setr_epi64(0, 1, 2, 3, 4, 5, 6, 7);
    v bit = _mm512_mullo_epi64(lane, SET64(maxbits));
    v code = _mm512_add_epi64(bit, SET64(9));
    v spread = _mm512_setzero_si512();
    v bytes = SET64(0x0706050403020100);
    for (int i = 0; i < 8; i++)
        spread = _mm512_or_si512(spread, SET64((uint64_t)1 << 8 * i));
    l.head_bytes = _mm512_add_epi8(
        bytes, _mm512_mullo_epi64(_mm512_srli_epi64(bit, 3), spread));
    l.lo_bytes = _mm512_add_epi8(
        bytes, _mm512_mullo_epi64(_mm512_srli_epi64(code, 3), spread));
    l.hi_bytes = _mm512_add_epi8(l.lo_bytes, _mm512_set1_epi8(8));
    l.head_shift = _mm512_and_si512(bit, SET64(7));
    l.shift = _mm512_and_si512(code, SET64(7));
    l.bits = maxbits - 9;
    l.keep_lo = SET64(l.bits < 64 ? ((uint64_t)1 << l.bits) - 1 : UINT64_MAX);
    l.keep_hi = SET64(l.bits > 64 ? ((uint64_t)1 << (l.bits - 64)) - 1 : 0);
    return l;
}

/* Eight blocks on the way; lane q is block q of the half. */
typedef struct half {
    v lo, hi;       /* bits not yet decoded */
    v left;         /* how many; at most 0 once the end was passed */
    v state;        /* bits 5 and 6 */
    v word;         /* 16 planes of 4 bits, the newest highest */
    v head;         /* header */
    v skip;         /* empty planes before the first */
    v begun, known; /* precision, of lanes that are not open */
    __mmask8 open;  /* bits are left */
} half_t;

static INLINE half_t open_half(const uint8_t *src, const layout_t *l,
                               bool wide) {
    half_t h;
    v a = _mm512_loadu_si512(src), b = _mm512_loadu_si512(src + 64);
    v zero = _mm512_setzero_si512();
    h.head = _mm512_permutex2var_epi8(a, l->head_bytes, b);
    h.head = _mm512_and_si512(_mm512_srlv_epi64(h.head, l->head_shift),
                              SET64(0x1ff));
    __mmask8 some = _mm512_test_epi64_mask(h.head, SET64(1));
    h.lo = _mm512_maskz_permutex2var_epi8(UINT64_MAX, a, l->lo_bytes, b);
    if (wide) {
        h.hi = _mm512_permutex2var_epi8(a, l->hi_bytes, b);
        h.lo = _mm512_shrdv_epi64(h.lo, h.hi, l->shift);
        h.hi = _mm512_srlv_epi64(h.hi, l->shift);
        h.hi = _mm512_maskz_and_epi64(some, h.hi, l->keep_hi);
    } else {
        h.lo = _mm512_srlv_epi64(h.lo, l->shift);
        h.hi = zero;
    }
    h.lo = _mm512_maskz_and_epi64(some, h.lo, l->keep_lo);
    /* Trailing zeros: a 0 bit for each empty plane, at most 32. */
    v below = _mm512_andnot_si512(h.lo, _mm512_sub_epi64(h.lo, SET64(1)));
    unsigned most = l->bits < 32 ? l->bits : 32;
    h.skip = _mm512_min_epu64(_mm512_popcnt_epi64(below), SET64(most));
    h.open = _mm512_cmplt_epu64_mask(h.skip, SET64(most));
    if (wide) {
        h.lo = _mm512_maskz_shrdv_epi64(h.open, h.lo, h.hi, h.skip);
        h.hi = _mm512_maskz_srlv_epi64(h.open, h.hi, h.skip);
    } else {
        h.lo = _mm512_maskz_srlv_epi64(h.open, h.lo, h.skip);
    }
    h.left = _mm512_sub_epi64(SET64(l->bits), h.skip);
    h.begun = h.skip;
    h.known = SET64(4);
    h.word = zero;
    return h;
}

/* The block ends in this plane, its k-th, or with it: which bits of the plane
 * are known. Bits past the end read as 0; that is what they count as, but in
 * a search for a 1 the end itself stops it, before the last coefficient. */
static INLINE v close_lanes(half_t *h, __mmask8 ending, v nibble, unsigned k) {
    v over = _mm512_sub_epi64(_mm512_setzero_si512(), h->left);
    v state = _mm512_and_si512(_mm512_srli_epi64(h->state, 5), SET64(3));
    __mmask8 all = _mm512_testn_epi64_mask(state, state);
    v known = _mm512_add_epi64(state, SET64(1));
    known = _mm512_mask_mov_epi64(known, all, SET64(4));
    known = _mm512_sub_epi64(known, over);
    known = _mm512_mask_mov_epi64(known, _mm512_testn_epi64_mask(over, over),
                                  SET64(4));
    h->known = _mm512_mask_mov_epi64(h->known, ending, known);
    h->begun = _mm512_mask_add_epi64(h->begun, ending, h->skip, SET64(k));
    h->open &= (__mmask8)~ending;
    __mmask8 cut = _mm512_mask_test_epi64_mask(ending, nibble, SET64(8));
    v stop = _mm512_srlv_epi64(SET64(8), over);
    v fixed = choose(SET64(8), stop, nibble);
    fixed = _mm512_or_si512(fixed, stop);
    return _mm512_mask_mov_epi64(nibble, cut, fixed);
}

/* Takes one plane, the k-th counted from 1, with its code's length. */
static INLINE void take_plane(half_t *h, v nibble, v length, unsigned k,
                              bool wide) {
    h->left = _mm512_sub_epi64(h->left, length);
    __mmask8 ending =
        _mm512_mask_cmple_epi64_mask(h->open, h->left, _mm512_setzero_si512());
    if (__builtin_expect(ending != 0, 0))
        nibble = close_lanes(h, ending, nibble, k);
    h->word = _mm512_or_si512(_mm512_srli_epi64(h->word, 4),
                              _mm512_slli_epi64(nibble, 60));
    if (wide) {
        h->lo = _mm512_shrdv_epi64(h->lo, h->hi, length);
        h->hi = _mm512_srlv_epi64(h->hi, length);
    } else {
        h->lo = _mm512_srlv_epi64(h->lo, length);
    }
}

static INLINE void decode_first(half_t *h, bool wide) {
    __mmask64 low = (__mmask64)_pdep_u64(h->open, 0x0101010101010101);
    v index = _mm512_srli_epi64(h->lo, 1);
    h->state = _mm512_maskz_permutexvar_epi8(
        low, index, _mm512_loadu_si512(lull__zfp_first_plane));
    v length = _mm512_maskz_permutexvar_epi8(
        low, index, _mm512_loadu_si512(lull__zfp_first_length));
    take_plane(h, h->state, length, 1, wide);
}

static INLINE void decode_next(half_t *h, unsigned k, bool wide) {
    __mmask64 low = 0x0101010101010101;
    v index = choose(SET64(31), _mm512_srli_epi64(h->lo, 1), h->state);
    h->state = _mm512_maskz_permutex2var_epi8(
        low, _mm512_loadu_si512(lull__zfp_next_plane), index,
        _mm512_loadu_si512(lull__zfp_next_plane + 64));
    v length = _mm512_maskz_permutex2var_epi8(
        low, _mm512_loadu_si512(lull__zfp_next_length), index,
        _mm512_loadu_si512(lull__zfp_next_length + 64));
    v nibble = choose(SET64(1), h->lo, h->state);
    take_plane(h, nibble, length, k, wide);
}

/* Lanes with bits left and n < 3: their planes still have to be searched. */
static INLINE __mmask8 searching(const half_t *h) {
    return _mm512_mask_test_epi64_mask(h->open, h->state, SET64(0x60));
}

/* Position 4 L + i of transpose() is block 4 i + L: the dword of its lane, and
 * its word of coefficient 0, twice, in two halves. */
static const uint32_t lane_dword[16] = {
    0, 8, 16, 24, 2, 10, 18, 26, 4, 12, 20, 28, 6, 14, 22, 30,
};
static const uint16_t lane_word[32] = {
    0, 0, 16, 16, 32, 32, 48, 48, 4,  4,  20, 20, 36, 36, 52, 52,
    8, 8, 24, 24, 40, 40, 56, 56, 12, 12, 28, 28, 44, 44, 60, 60,
};

/* From the halves, whose first 32 planes are in t0 and t1. */
static INLINE coded_t gather(const half_t h[2], const v t0[2], const v t1[2]) {
    coded_t c;
    v field[2];
    UNROLL
    for (int i = 0; i < 2; i++) {
        field[i] = _mm512_or_si512(h[i].skip, _mm512_slli_epi64(h[i].begun, 8));
        v rest = _mm512_or_si512(_mm512_slli_epi64(h[i].known, 16),
                                 _mm512_slli_epi64(h[i].head, 20));
        field[i] = _mm512_or_si512(field[i], rest);
    }
    v fields = _mm512_permutex2var_epi32(
        field[0], _mm512_loadu_si512(lane_dword), field[1]);
    c.skip = _mm512_and_si512(fields, SET32(255));
    c.begun = _mm512_and_si512(_mm512_srli_epi32(fields, 8), SET32(255));
    c.known = _mm512_and_si512(_mm512_srli_epi32(fields, 16), SET32(15));
    c.head = _mm512_srli_epi32(fields, 20);
    v high[2] = {coefficients(t0[0]), coefficients(t0[1])};
    v word = _mm512_loadu_si512(lane_word);
    UNROLL
    for (int i = 0; i < 4; i++)
        c.u[i] = _mm512_maskz_permutex2var_epi16(
            0xaaaaaaaa, high[0],
            _mm512_add_epi16(word, _mm512_set1_epi16((short)i)), high[1]);
    v rest = _mm512_or_si512(t1[0], t1[1]);
    if (_mm512_test_epi64_mask(rest, rest) != 0) {
        v low[2] = {coefficients(t1[0]), coefficients(t1[1])};
        UNROLL
        for (int i = 0; i < 4; i++)
            c.u[i] = _mm512_or_si512(
                c.u[i], _mm512_maskz_permutex2var_epi16(
                            0x55555555, low[0],
                            _mm512_add_epi16(word, _mm512_set1_epi16((short)i)),
                            low[1]));
    }
    return c;
}

static INLINE coded_t decode_planes(const uint8_t *src, const layout_t *l,
                                    bool wide) {
    size_t half_bytes = l->bits + 9;
    half_t h[2] = {open_half(src, l, wide),
                   open_half(src + half_bytes, l, wide)};
    decode_first(&h[0], wide);
    decode_first(&h[1], wide);
    unsigned k = 1;
    for (; k < 16 && (searching(&h[0]) | searching(&h[1])); k++) {
        decode_next(&h[0], k + 1, wide);
        decode_next(&h[1], k + 1, wide);
    }
    v t0[2], t1[2];
    unsigned in_word = k;
    bool second = k == 16 && (searching(&h[0]) | searching(&h[1]));
    if (second) {
        t0[0] = h[0].word, t0[1] = h[1].word;
        h[0].word = h[1].word = _mm512_setzero_si512();
        for (; k < 32 && (searching(&h[0]) | searching(&h[1])); k++) {
            decode_next(&h[0], k + 1, wide);
            decode_next(&h[1], k + 1, wide);
        }
        in_word = k - 16;
    }
    /* The rest is as it stands: four bits a plane. */
    __m128i up = _mm_cvtsi32_si128((int)(4 * in_word));
    __m128i down = _mm_cvtsi32_si128((int)(64 - 4 * in_word));
    UNROLL
    for (int i = 0; i < 2; i++) {
        v word = _mm512_or_si512(_mm512_srl_epi64(h[i].word, down),
                                 _mm512_sll_epi64(h[i].lo, up));
        if (second) {
            t1[i] = word;
        } else {
            t0[i] = word;
            t1[i] = _mm512_or_si512(_mm512_srl_epi64(h[i].lo, down),
                                    _mm512_sll_epi64(h[i].hi, up));
        }
        v planes = _mm512_srli_epi64(
            _mm512_add_epi64(h[i].left, SET64(3 + 4 * (uint64_t)k)), 2);
        h[i].begun =
            _mm512_mask_add_epi64(h[i].begun, h[i].open, h[i].skip, planes);
        v last =
            _mm512_and_si512(_mm512_sub_epi64(h[i].left, SET64(1)), SET64(3));
        h[i].known =
            _mm512_mask_add_epi64(h[i].known, h[i].open, last, SET64(1));
    }
    return gather(h, t0, t1);
}

static INLINE void decode_all(const uint8_t *src, uint8_t *dst, size_t groups,
                              unsigned maxbits, unsigned mode) {
    layout_t l = layout_of(maxbits);
    for (size_t g = 0; g < groups; g++) {
        coded_t c = decode_planes(src + g * 2 * maxbits, &l, maxbits > 66);
        finish(&c, dst + 256 * g, mode);
    }
}

static INLINE void decode_rates(const uint8_t *src, uint8_t *dst, size_t groups,
                                unsigned maxbits, unsigned mode) {
    if (maxbits <= 32)
        lull__zfp_decode_narrow_avx512(src, dst, groups, maxbits, mode);
    else if (maxbits == 64)
        decode_all(src, dst, groups, 64, mode);
    else if (maxbits <= 66)
        decode_all(src, dst, groups, maxbits, mode);
    else
        decode_all(src, dst, groups, maxbits, mode);
}

void lull__zfp_decode_f32_avx512(const uint8_t *src, uint8_t *dst,
                                 size_t groups, unsigned maxbits,
                                 unsigned mode) {
    if (mode == 0)
        decode_rates(src, dst, groups, maxbits, 0);
    else if (mode == LULL__ZFP_ADD)
        decode_rates(src, dst, groups, maxbits, LULL__ZFP_ADD);
    else
        decode_rates(src, dst, groups, maxbits, mode);
}

#else
typedef int lull__no_avx512;
#endif
