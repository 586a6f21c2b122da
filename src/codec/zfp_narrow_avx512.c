/* ZFP decoder for AVX-512 at up to 8 bits a value, the rates of choice: as
 * zfp_decode_avx512.c, but a block fits a lane of 32 bits, so that 16 blocks
 * are one register and need no gathering. */
#ifdef __AVX512VBMI2__
#include "zfp_decode_avx512.h"

/* How a call finds 16 blocks, in the order of transpose(). */
typedef struct layout {
    v bytes, next, shift; /* the four bytes from a block's first, and after */
    v keep;               /* mask of a block */
    unsigned bits;        /* of the code: without the header */
} layout_t;

static INLINE layout_t layout_of(unsigned maxbits) {
    layout_t l;
    v block =
        _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    v bit = _mm512_mullo_epi32(block, SET32(maxbits));
    v byte = _mm512_mullo_epi32(_mm512_srli_epi32(bit, 3), SET32(0x01010101));
    l.bytes = _mm512_add_epi8(byte, SET32(0x03020100));
    l.next = _mm512_add_epi8(byte, SET32(0x07060504));
    l.shift = _mm512_and_si512(bit, SET32(7));
    l.keep = SET32(maxbits < 32 ? (1u << maxbits) - 1 : UINT32_MAX);
    l.bits = maxbits - 9;
    return l;
}

/* The last bytes may come from the start of the register again: only bits
 * past maxbits do. */
static INLINE v load(const uint8_t *src, const layout_t *l) {
    v all = _mm512_loadu_si512(src);
    v low = _mm512_permutexvar_epi8(l->bytes, all);
    v high = _mm512_permutexvar_epi8(l->next, all);
    return _mm512_and_si512(_mm512_shrdv_epi32(low, high, l->shift), l->keep);
}

/* Sixteen blocks on the way, in the order of transpose(). */
typedef struct group {
    v bits;         /* not yet decoded */
    v left;         /* how many; at most 0 once the end was passed */
    v state;        /* bits 5 and 6 */
    v word;         /* 8 planes of 4 bits, the newest highest */
    v head, skip;   /* header; empty planes before the first */
    v begun, known; /* precision, of lanes that are not open */
    __mmask16 open; /* bits are left */
} group_t;

static INLINE group_t open_group(const uint8_t *src, const layout_t *l) {
    group_t g;
    v all = load(src, l);
    g.head = _mm512_and_si512(all, SET32(0x1ff));
    __mmask16 some = _mm512_test_epi32_mask(all, SET32(1));
    g.bits = _mm512_maskz_srli_epi32(some, all, 9);
    v below = _mm512_andnot_si512(g.bits, _mm512_sub_epi32(g.bits, SET32(1)));
    g.skip = _mm512_min_epu32(_mm512_popcnt_epi32(below), SET32(l->bits));
    g.open = _mm512_test_epi32_mask(g.bits, g.bits);
    g.bits = _mm512_srlv_epi32(g.bits, g.skip);
    g.left = _mm512_sub_epi32(SET32(l->bits), g.skip);
    g.begun = g.skip;
    g.known = SET32(4);
    g.word = _mm512_setzero_si512();
    return g;
}

/* As close_lanes() of zfp_lockstep_avx512.h. */
static INLINE v close_lanes(group_t *g, __mmask16 ending, v nibble,
                            unsigned k) {
    v over = _mm512_sub_epi32(_mm512_setzero_si512(), g->left);
    v state = _mm512_and_si512(_mm512_srli_epi32(g->state, 5), SET32(3));
    __mmask16 all = _mm512_testn_epi32_mask(state, state);
    v known = _mm512_add_epi32(state, SET32(1));
    known = _mm512_mask_mov_epi32(known, all, SET32(4));
    known = _mm512_sub_epi32(known, over);
    known = _mm512_mask_mov_epi32(known, _mm512_testn_epi32_mask(over, over),
                                  SET32(4));
    g->known = _mm512_mask_mov_epi32(g->known, ending, known);
    g->begun = _mm512_mask_add_epi32(g->begun, ending, g->skip, SET32(k));
    g->open &= (__mmask16)~ending;
    __mmask16 cut = _mm512_mask_test_epi32_mask(ending, nibble, SET32(8));
    v stop = _mm512_srlv_epi32(SET32(8), over);
    v fixed = choose(SET32(8), stop, nibble);
    fixed = _mm512_or_si512(fixed, stop);
    return _mm512_mask_mov_epi32(nibble, cut, fixed);
}

static INLINE void take_plane(group_t *g, v nibble, v length, unsigned k) {
    g->left = _mm512_sub_epi32(g->left, length);
    __mmask16 ending =
        _mm512_mask_cmple_epi32_mask(g->open, g->left, _mm512_setzero_si512());
    if (__builtin_expect(ending != 0, 0))
        nibble = close_lanes(g, ending, nibble, k);
    g->word = _mm512_or_si512(_mm512_srli_epi32(g->word, 4),
                              _mm512_slli_epi32(nibble, 28));
    g->bits = _mm512_srlv_epi32(g->bits, length);
}

static INLINE void decode_first(group_t *g) {
    __mmask64 low = (__mmask64)_pdep_u64(g->open, 0x1111111111111111);
    v index = _mm512_srli_epi32(g->bits, 1);
    g->state = _mm512_maskz_permutexvar_epi8(
        low, index, _mm512_loadu_si512(lull__zfp_first_plane));
    v length = _mm512_maskz_permutexvar_epi8(
        low, index, _mm512_loadu_si512(lull__zfp_first_length));
    take_plane(g, g->state, length, 1);
}

static INLINE void decode_next(group_t *g, unsigned k) {
    __mmask64 low = 0x1111111111111111;
    v index = choose(SET32(31), _mm512_srli_epi32(g->bits, 1), g->state);
    g->state = _mm512_maskz_permutex2var_epi8(
        low, _mm512_loadu_si512(lull__zfp_next_plane), index,
        _mm512_loadu_si512(lull__zfp_next_plane + 64));
    v length = _mm512_maskz_permutex2var_epi8(
        low, _mm512_loadu_si512(lull__zfp_next_length), index,
        _mm512_loadu_si512(lull__zfp_next_length + 64));
    v nibble = choose(SET32(1), g->bits, g->state);
    take_plane(g, nibble, length, k);
}

/* Lanes of either group that are not in the last state yet. */
static INLINE unsigned searching(const group_t g[2]) {
    unsigned lanes = 0;
    for (unsigned k = 0; k < 2; k++)
        lanes |=
            _mm512_mask_test_epi32_mask(g[k].open, g[k].state, SET32(0x60));
    return lanes;
}

/* Words of the coefficients of each position, twice; see coefficients(). */
static const uint16_t position_word[32] = {
    0,  0,  4,  4,  32, 32, 36, 36, 8,  8,  12, 12, 40, 40, 44, 44,
    16, 16, 20, 20, 48, 48, 52, 52, 24, 24, 28, 28, 56, 56, 60, 60,
};

/* A group whose k planes, the last 8 at most, were decoded: the rest is as it
 * stands. first: the word of the first 8, if there are more. */
static INLINE coded_t complete(const group_t *g, v first, unsigned k) {
    unsigned in_word = k > 8 ? k - 8 : k;
    __m128i up = _mm_cvtsi32_si128((int)(4 * in_word));
    __m128i down = _mm_cvtsi32_si128((int)(32 - 4 * in_word));
    v word = _mm512_or_si512(_mm512_srl_epi32(g->word, down),
                             _mm512_sll_epi32(g->bits, up));
    v t0 = k > 8 ? first : word;
    v t1 = k > 8 ? word : _mm512_srl_epi32(g->bits, down);

    coded_t c;
    v planes =
        _mm512_srli_epi32(_mm512_add_epi32(g->left, SET32(3 + 4 * k)), 2);
    c.begun = _mm512_mask_add_epi32(g->begun, g->open, g->skip, planes);
    v last = _mm512_and_si512(_mm512_sub_epi32(g->left, SET32(1)), SET32(3));
    c.known = _mm512_mask_add_epi32(g->known, g->open, last, SET32(1));
    c.skip = g->skip;
    c.head = g->head;
    v low = coefficients(_mm512_unpacklo_epi32(t0, t1));
    v high = coefficients(_mm512_unpackhi_epi32(t0, t1));
    v at = _mm512_loadu_si512(position_word);
    UNROLL
    for (int i = 0; i < 4; i++)
        c.u[i] = _mm512_maskz_permutex2var_epi16(
            0xaaaaaaaa, low, _mm512_add_epi16(at, _mm512_set1_epi16((short)i)),
            high);
    return c;
}

/* Two groups at once: while one waits for its look-ups the other goes on. */
static INLINE void decode_planes(group_t g[2], coded_t c[2]) {
    decode_first(&g[0]);
    decode_first(&g[1]);
    unsigned k = 1;
    for (; k < 8 && searching(g) != 0; k++) {
        decode_next(&g[0], k + 1);
        decode_next(&g[1], k + 1);
    }
    v first[2] = {g[0].word, g[1].word};
    if (__builtin_expect(k == 8 && searching(g) != 0, 0)) {
        g[0].word = g[1].word = _mm512_setzero_si512();
        /* 12 planes at most: each has 2 bits. */
        for (; searching(g) != 0; k++) {
            decode_next(&g[0], k + 1);
            decode_next(&g[1], k + 1);
        }
    }
    c[0] = complete(&g[0], first[0], k);
    c[1] = complete(&g[1], first[1], k);
}

static INLINE void decode_all(const uint8_t *src, uint8_t *dst, size_t groups,
                              unsigned maxbits, unsigned mode) {
    layout_t l = layout_of(maxbits);
    for (size_t i = 0; i < groups; i += 2) {
        size_t next = i + 1 < groups ? i + 1 : i; /* or the last one twice */
        coded_t c[2];
        group_t g[2] = {open_group(src + i * 2 * maxbits, &l),
                        open_group(src + next * 2 * maxbits, &l)};
        decode_planes(g, c);
        finish(&c[0], dst + 256 * i, mode);
        if (next != i)
            finish(&c[1], dst + 256 * next, mode);
    }
}

void lull__zfp_decode_narrow_avx512(const uint8_t *src, uint8_t *dst,
                                    size_t groups, unsigned maxbits,
                                    unsigned mode) {
    if (mode == 0)
        decode_all(src, dst, groups, maxbits, 0);
    else if (mode == LULL__ZFP_ADD)
        decode_all(src, dst, groups, maxbits, LULL__ZFP_ADD);
    else
        decode_all(src, dst, groups, maxbits, mode);
}
#else
typedef int lull__no_avx512;
#endif
