/* Decoding of ZFP's planes for AVX-512: what floats and doubles share. Eight
 * blocks in lockstep, one a lane of 64 bits, a plane of all of them a step, by
 * two look-ups with the state and the next bits. Trailing zeros skip the empty
 * planes before; once all lanes have three significant coefficients the rest
 * needs no decoding. Included by zfp_*decode_avx512.c only. */
#ifndef LULL__ZFP_LOCKSTEP_AVX512_H
#define LULL__ZFP_LOCKSTEP_AVX512_H

#include "zfp_avx512.h"

/* Halves at once: two groups. While one waits for its look-ups the others go
 * on, and whether another plane follows is asked once for all. */
#define HALVES 4

/* How a call finds the blocks of one half (8 blocks, maxbits bytes), by bytes
 * and shifts in bits, of headers and of the code after them. */
typedef struct layout {
    v head_byte, code_byte; /* the first */
    v head_shift, shift;
    v head_bytes, lo_bytes, hi_bytes; /* words, where 128 bytes have them all */
    v head_mask, keep[4];
    unsigned maxbits, header, bits; /* of a block, its header, its code */
} layout_t;

static INLINE layout_t layout_of(unsigned maxbits, unsigned header) {
    layout_t l = {.maxbits = maxbits, .header = header};
    v lane = _mm512_setr_epi64(0, 1, 2, 3, 4, 5, 6, 7);
    v bit = _mm512_mullo_epi64(lane, SET64(maxbits));
    v code = _mm512_add_epi64(bit, SET64(header));
    v spread = SET64(0x0101010101010101), bytes = SET64(0x0706050403020100);
    l.head_byte = _mm512_srli_epi64(bit, 3);
    l.code_byte = _mm512_srli_epi64(code, 3);
    l.head_shift = _mm512_and_si512(bit, SET64(7));
    l.shift = _mm512_and_si512(code, SET64(7));
    l.head_bytes =
        _mm512_add_epi8(bytes, _mm512_mullo_epi64(l.head_byte, spread));
    l.lo_bytes =
        _mm512_add_epi8(bytes, _mm512_mullo_epi64(l.code_byte, spread));
    l.hi_bytes = _mm512_add_epi8(l.lo_bytes, _mm512_set1_epi8(8));
    l.head_mask = SET64(((uint64_t)1 << header) - 1);
    l.bits = maxbits - header;
    UNROLL
    for (unsigned w = 0; w < 4; w++) {
        unsigned bits = l.bits > 64 * w ? l.bits - 64 * w : 0;
        uint64_t keep = bits < 64 ? ((uint64_t)1 << bits) - 1 : UINT64_MAX;
        l.keep[w] = SET64(keep);
    }
    return l;
}

/* Eight blocks on the way; lane q is block q of the half. */
typedef struct half {
    v code[4];      /* all bits of the code, as many words as it takes */
    v lo;           /* bits not yet decoded, the next of them */
    v left;         /* how many are; at most 0 once the end was passed */
    v state;        /* bits 5 and 6 */
    v word;         /* 16 planes of 4 bits, the newest highest */
    v head;         /* header */
    v skip;         /* empty planes before the first */
    v begun, known; /* precision, of lanes that are not open */
    __mmask8 open;  /* bits are left */
} half_t;

/* 64 bits of a code of 1, 2 or 4 words, from bit `at` on. */
static INLINE v window(const v code[4], v at, unsigned words) {
    v bits = _mm512_srlv_epi64(code[0], at);
    UNROLL
    for (unsigned w = 1; w < words; w++) {
        v up = _mm512_sub_epi64(SET64(64 * w), at);
        v down = _mm512_sub_epi64(at, SET64(64 * w));
        bits = or3(bits, _mm512_sllv_epi64(code[w], up),
                   _mm512_srlv_epi64(code[w], down));
    }
    return bits;
}

/* Codes of up to 64 bits (57 where they begin within a byte) or 128 from up to
 * 128 bytes. */
static INLINE void load_half(half_t *h, const uint8_t *src, const layout_t *l,
                             unsigned words) {
    v a = _mm512_loadu_si512(src), b = _mm512_loadu_si512(src + 64);
    h->head = _mm512_permutex2var_epi8(a, l->head_bytes, b);
    h->code[0] = _mm512_permutex2var_epi8(a, l->lo_bytes, b);
    if (words == 1) {
        h->code[0] = _mm512_srlv_epi64(h->code[0], l->shift);
        return;
    }
    h->code[1] = _mm512_permutex2var_epi8(a, l->hi_bytes, b);
    h->code[0] = _mm512_shrdv_epi64(h->code[0], h->code[1], l->shift);
    h->code[1] = _mm512_srlv_epi64(h->code[1], l->shift);
}

static INLINE v load_two(const uint8_t *low, const uint8_t *high) {
    __m256i first = _mm256_loadu_si256((const void *)low);
    __m256i second = _mm256_loadu_si256((const void *)high);
    return _mm512_inserti64x4(_mm512_castsi256_si512(first), second, 1);
}

/* Longer ones: 32 bytes of each block, and those transposed. */
static INLINE void load_long_half(half_t *h, const uint8_t *src,
                                  const layout_t *l) {
    v x[4], first = _mm512_setr_epi64(0, 1, 8, 9, 4, 5, 12, 13);
    v second = _mm512_add_epi64(first, SET64(2));
    UNROLL
    for (unsigned i = 0; i < 4; i++) {
        unsigned low = (i * l->maxbits + l->header) / 8;
        unsigned high = ((i + 4) * l->maxbits + l->header) / 8;
        x[i] = load_two(src + low, src + high);
    }
    v even[2] = {_mm512_unpacklo_epi64(x[0], x[1]),
                 _mm512_unpacklo_epi64(x[2], x[3])};
    v odd[2] = {_mm512_unpackhi_epi64(x[0], x[1]),
                _mm512_unpackhi_epi64(x[2], x[3])};
    x[0] = _mm512_permutex2var_epi64(even[0], first, even[1]);
    x[1] = _mm512_permutex2var_epi64(odd[0], first, odd[1]);
    x[2] = _mm512_permutex2var_epi64(even[0], second, even[1]);
    x[3] = _mm512_permutex2var_epi64(odd[0], second, odd[1]);
    UNROLL
    for (unsigned w = 0; w < 3; w++)
        h->code[w] = _mm512_shrdv_epi64(x[w], x[w + 1], l->shift);
    h->code[3] = _mm512_srlv_epi64(x[3], l->shift);
    h->head = _mm512_i64gather_epi64(l->head_byte, src, 1);
}

static INLINE half_t open_half(const uint8_t *src, const layout_t *l,
                               unsigned words, unsigned planes) {
    half_t h;
    if (words <= 2)
        load_half(&h, src, l, words);
    else
        load_long_half(&h, src, l);
    h.head = _mm512_and_si512(_mm512_srlv_epi64(h.head, l->head_shift),
                              l->head_mask);
    __mmask8 some = _mm512_test_epi64_mask(h.head, SET64(1));
    UNROLL
    for (unsigned w = 0; w < words; w++)
        h.code[w] = _mm512_maskz_and_epi64(some, h.code[w], l->keep[w]);
    /* Trailing zeros: a 0 bit for each empty plane. */
    v below =
        _mm512_andnot_si512(h.code[0], _mm512_sub_epi64(h.code[0], SET64(1)));
    unsigned most = l->bits < planes ? l->bits : planes;
    h.skip = _mm512_min_epu64(_mm512_popcnt_epi64(below), SET64(most));
    h.open = _mm512_cmplt_epu64_mask(h.skip, SET64(most));
    h.lo = window(h.code, h.skip, words);
    h.left = _mm512_sub_epi64(SET64(l->bits), h.skip);
    h.begun = h.skip;
    h.known = SET64(4);
    h.word = _mm512_setzero_si512();
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
static INLINE void take_plane(half_t *h, v nibble, v length, unsigned k) {
    h->left = _mm512_sub_epi64(h->left, length);
    __mmask8 ending =
        _mm512_mask_cmple_epi64_mask(h->open, h->left, _mm512_setzero_si512());
    if (__builtin_expect(ending != 0, 0))
        nibble = close_lanes(h, ending, nibble, k);
    h->word = _mm512_or_si512(_mm512_srli_epi64(h->word, 4),
                              _mm512_slli_epi64(nibble, 60));
    h->lo = _mm512_srlv_epi64(h->lo, length);
}

static INLINE void decode_first(half_t *h) {
    __mmask64 low = (__mmask64)_pdep_u64(h->open, 0x0101010101010101);
    v index = _mm512_srli_epi64(h->lo, 1);
    h->state = _mm512_maskz_permutexvar_epi8(
        low, index, _mm512_loadu_si512(lull__zfp_first_plane));
    v length = _mm512_maskz_permutexvar_epi8(
        low, index, _mm512_loadu_si512(lull__zfp_first_length));
    take_plane(h, h->state, length, 1);
}

static INLINE void decode_next(half_t *h, unsigned k) {
    __mmask64 low = 0x0101010101010101;
    v index = choose(SET64(31), _mm512_srli_epi64(h->lo, 1), h->state);
    h->state = _mm512_maskz_permutex2var_epi8(
        low, _mm512_loadu_si512(lull__zfp_next_plane), index,
        _mm512_loadu_si512(lull__zfp_next_plane + 64));
    v length = _mm512_maskz_permutex2var_epi8(
        low, _mm512_loadu_si512(lull__zfp_next_length), index,
        _mm512_loadu_si512(lull__zfp_next_length + 64));
    v nibble = choose(SET64(1), h->lo, h->state);
    take_plane(h, nibble, length, k);
}

/* Lanes with bits left and n < 3: their planes still have to be searched. */
static INLINE __mmask8 searching(const half_t *h) {
    return _mm512_mask_test_epi64_mask(h->open, h->state, SET64(0x60));
}

/* Where the bits are that were not yet decoded. */
static INLINE v position(const half_t *h, const layout_t *l) {
    return _mm512_sub_epi64(SET64(l->bits), h->left);
}

/* Is one of all halves? */
static INLINE bool any_searching(const half_t h[HALVES]) {
    __mmask8 any = 0;
    UNROLL
    for (int i = 0; i < HALVES; i++)
        any |= searching(&h[i]);
    return any != 0;
}

/* Decodes up to plane `last` while there are lanes to search, k of them done
 * before. Returns how many are done then. */
static INLINE unsigned decode_some(half_t h[HALVES], const layout_t *l,
                                   unsigned words, unsigned k, unsigned last) {
    for (; k < last && any_searching(h); k++) {
        if (words > 1 && k % 8 == 0) { /* at most 49 bits were taken */
            UNROLL
            for (int i = 0; i < HALVES; i++)
                h[i].lo = window(h[i].code, position(&h[i], l), words);
        }
        UNROLL
        for (int i = 0; i < HALVES; i++)
            decode_next(&h[i], k + 1);
    }
    return k;
}

/* The planes after the k-th are as they stand, four bits each: from there in
 * t[k / 16], whose first are in h->word, and in the rest of t. */
static INLINE void take_rest(half_t *h, const layout_t *l, unsigned words,
                             unsigned k, v t[], unsigned parts) {
    unsigned in_word = (k - 1) % 16 + 1;
    __m128i up = _mm_cvtsi32_si128((int)(4 * in_word));
    __m128i down = _mm_cvtsi32_si128((int)(64 - 4 * in_word));
    v at = position(h, l);
    v rest = words == 1 ? h->lo : window(h->code, at, words);
    t[0] = _mm512_or_si512(_mm512_srl_epi64(h->word, down),
                           _mm512_sll_epi64(rest, up));
    at = _mm512_add_epi64(at, SET64(64 - 4 * in_word));
    UNROLL
    for (unsigned i = 1; i < parts; i++) {
        t[i] = words > 1 ? window(h->code, at, words)
               : i == 1  ? _mm512_srl_epi64(rest, down)
                         : _mm512_setzero_si512();
        at = _mm512_add_epi64(at, SET64(64));
    }
    v more = _mm512_srli_epi64(
        _mm512_add_epi64(h->left, SET64(3 + 4 * (uint64_t)k)), 2);
    h->begun = _mm512_mask_add_epi64(h->begun, h->open, h->skip, more);
    v last = _mm512_and_si512(_mm512_sub_epi64(h->left, SET64(1)), SET64(3));
    h->known = _mm512_mask_add_epi64(h->known, h->open, last, SET64(1));
}

/* All planes of the halves, 16 of them in each of t. */
static INLINE void decode_planes(half_t h[HALVES], const layout_t *l,
                                 unsigned words, unsigned planes,
                                 v t[HALVES][4]) {
    UNROLL
    for (int i = 0; i < HALVES; i++)
        decode_first(&h[i]);
    /* Each plane to be searched has two bits. */
    unsigned k = 1, most = words == 1 ? 32 : planes;
    UNROLL
    for (unsigned part = 0; part < most / 16; part++) {
        unsigned last = 16 * part + 16;
        k = decode_some(h, l, words, k, last);
        if (last < most && k == last && any_searching(h)) {
            UNROLL
            for (int i = 0; i < HALVES; i++) {
                t[i][part] = h[i].word;
                h[i].word = _mm512_setzero_si512();
            }
            continue;
        }
        UNROLL
        for (int i = 0; i < HALVES; i++)
            take_rest(&h[i], l, words, k, t[i] + part, planes / 16 - part);
        return;
    }
}

#endif
