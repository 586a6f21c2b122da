/* ZFP decoder for AVX2 at up to 8 bits a value, the rates of choice: as
 * zfp_narrow_avx512.c, eight blocks in lockstep, look-ups by gather. */
#ifdef __AVX2__
#include "zfp_avx2.h"

/* How a call finds 8 blocks, in the order of transpose(). */
typedef struct layout {
    v byte, shift, keep;
    unsigned bits; /* of the code: without the header */
} layout_t;

static INLINE layout_t layout_of(unsigned maxbits) {
    layout_t l;
    v block = _mm256_setr_epi32(0, 2, 4, 6, 1, 3, 5, 7);
    v bit = _mm256_mullo_epi32(block, SET32(maxbits));
    l.byte = _mm256_srli_epi32(bit, 3);
    l.shift = _mm256_and_si256(bit, SET32(7));
    l.keep = SET32(maxbits < 32 ? (1u << maxbits) - 1 : UINT32_MAX);
    l.bits = maxbits - 9;
    return l;
}

static INLINE v load(const uint8_t *src, const layout_t *l) {
    if (l->bits == 23) /* dwords as they are */
        return _mm256_permutevar8x32_epi32(
            _mm256_loadu_si256((const void *)src),
            _mm256_setr_epi32(0, 2, 4, 6, 1, 3, 5, 7));
    v low = _mm256_i32gather_epi32((const void *)src, l->byte, 1);
    v high = _mm256_i32gather_epi32((const void *)(src + 4), l->byte, 1);
    v up = _mm256_sub_epi32(SET32(32), l->shift);
    v all = _mm256_or_si256(_mm256_srlv_epi32(low, l->shift),
                            _mm256_sllv_epi32(high, up));
    return _mm256_and_si256(all, l->keep);
}

/* Eight blocks on the way, in the order of transpose(). */
typedef struct group {
    v bits;         /* not yet decoded */
    v left;         /* how many; at most 0 once the end was passed */
    v entry;        /* of the last plane: its state in bits 5 and 6 */
    v word;         /* 8 planes of 4 bits, the newest highest */
    v head, skip;   /* header; empty planes before the first */
    v begun, known; /* precision, of lanes that are not open */
    v open;         /* lanes of all ones: bits are left */
} group_t;

/* Of a plane: nibble | next state << 5 | length << 8. */
typedef struct tables {
    uint32_t first[64], next[128];
} tables_t;

static void make_tables(tables_t *t) {
    for (int i = 0; i < 64; i++)
        t->first[i] =
            lull__zfp_first_plane[i] | (uint32_t)lull__zfp_first_length[i] << 8;
    for (int i = 0; i < 128; i++)
        t->next[i] =
            lull__zfp_next_plane[i] | (uint32_t)lull__zfp_next_length[i] << 8;
}

static INLINE group_t open_group(const uint8_t *src, const layout_t *l) {
    group_t g;
    v all = load(src, l);
    v zero = _mm256_setzero_si256(), one = SET32(1);
    g.head = _mm256_and_si256(all, SET32(0x1ff));
    v some = _mm256_cmpeq_epi32(_mm256_and_si256(all, one), one);
    g.bits = _mm256_and_si256(some, _mm256_srli_epi32(all, 9));
    /* Trailing zeros are the exponent of the lowest bit alone. */
    v lowest = _mm256_and_si256(g.bits, _mm256_sub_epi32(zero, g.bits));
    v exponent =
        _mm256_srli_epi32(_mm256_castps_si256(_mm256_cvtepi32_ps(lowest)), 23);
    g.skip = _mm256_min_epu32(_mm256_sub_epi32(exponent, SET32(127)),
                              SET32(l->bits));
    g.open = _mm256_cmpgt_epi32(g.bits, zero);
    g.bits = _mm256_srlv_epi32(g.bits, g.skip);
    g.left = _mm256_sub_epi32(SET32(l->bits), g.skip);
    g.begun = g.skip;
    g.known = SET32(4);
    g.word = zero;
    return g;
}

/* As close_lanes() of zfp_lockstep_avx512.h. */
static INLINE v close_lanes(group_t *g, v ending, v nibble, unsigned k) {
    v zero = _mm256_setzero_si256(), four = SET32(4), eight = SET32(8);
    v over = _mm256_sub_epi32(zero, g->left);
    v state = _mm256_and_si256(_mm256_srli_epi32(g->entry, 5), SET32(3));
    v known = _mm256_add_epi32(state, SET32(1));
    known = _mm256_blendv_epi8(known, four, _mm256_cmpeq_epi32(state, zero));
    known = _mm256_sub_epi32(known, over);
    known = _mm256_blendv_epi8(known, four, _mm256_cmpeq_epi32(over, zero));
    v begun = _mm256_add_epi32(g->skip, SET32(k));
    g->known = _mm256_blendv_epi8(g->known, known, ending);
    g->begun = _mm256_blendv_epi8(g->begun, begun, ending);
    g->open = _mm256_andnot_si256(ending, g->open);
    v last = _mm256_cmpeq_epi32(_mm256_and_si256(nibble, eight), eight);
    v stop = _mm256_srlv_epi32(eight, over);
    v fixed = _mm256_or_si256(_mm256_andnot_si256(eight, nibble), stop);
    return _mm256_blendv_epi8(nibble, fixed, _mm256_and_si256(last, ending));
}

static INLINE void take_plane(group_t *g, v nibble, unsigned k) {
    v length = _mm256_srli_epi32(g->entry, 8);
    g->left = _mm256_sub_epi32(g->left, length);
    v ending = _mm256_and_si256(g->open, _mm256_cmpgt_epi32(SET32(1), g->left));
    if (__builtin_expect(!_mm256_testz_si256(ending, ending), 0))
        nibble = close_lanes(g, ending, nibble, k);
    g->word = _mm256_or_si256(_mm256_srli_epi32(g->word, 4),
                              _mm256_slli_epi32(nibble, 28));
    g->bits = _mm256_srlv_epi32(g->bits, length);
}

static INLINE void decode_first(group_t *g, const tables_t *t) {
    v index = _mm256_and_si256(_mm256_srli_epi32(g->bits, 1), SET32(63));
    g->entry = _mm256_i32gather_epi32((const int *)t->first, index, 4);
    g->entry = _mm256_and_si256(g->entry, g->open);
    take_plane(g, g->entry, 1);
}

static INLINE void decode_next(group_t *g, const tables_t *t, unsigned k) {
    v index = _mm256_and_si256(_mm256_srli_epi32(g->bits, 1), SET32(31));
    index = _mm256_or_si256(index, _mm256_and_si256(g->entry, SET32(0x60)));
    g->entry = _mm256_i32gather_epi32((const int *)t->next, index, 4);
    v nibble = _mm256_or_si256(_mm256_and_si256(g->bits, SET32(1)), g->entry);
    take_plane(g, nibble, k);
}

static INLINE bool searching(const group_t *g) {
    return !_mm256_testz_si256(_mm256_and_si256(g->open, g->entry),
                               SET32(0x60));
}

static INLINE v swap(v x, unsigned mask, int shift) {
    v t = _mm256_xor_si256(x, _mm256_srli_epi32(x, shift));
    t = _mm256_and_si256(t, SET32(mask));
    return _mm256_xor_si256(_mm256_xor_si256(x, t),
                            _mm256_slli_epi32(t, shift));
}

/* Eight planes of four bits in each lane to a byte for each coefficient, the
 * first plane its highest bit. Bit 4 p + i goes to 8 i + 7 - p. */
static INLINE v coefficients(v planes) {
    v bytes = _mm256_shuffle_epi8(
        planes,
        _mm256_setr_epi8(3, 2, 1, 0, 7, 6, 5, 4, 11, 10, 9, 8, 15, 14, 13, 12,
                         3, 2, 1, 0, 7, 6, 5, 4, 11, 10, 9, 8, 15, 14, 13, 12));
    v low = SET32(0x0f0f0f0f);
    v x = _mm256_or_si256(_mm256_and_si256(_mm256_srli_epi32(bytes, 4), low),
                          _mm256_slli_epi32(_mm256_and_si256(bytes, low), 4));
    x = swap(x, 0x0000cccc, 14);
    x = swap(x, 0x00aa00aa, 7);
    x = swap(x, 0x0c0c0c0c, 2);
    return swap(x, 0x22222222, 1);
}

static INLINE void unpack(decoded_t *d, v t0, v t1, v skip) {
    v high = coefficients(t0), top = SET32(0xff000000);
    d->u[0] = _mm256_slli_epi32(high, 24);
    d->u[1] = _mm256_and_si256(_mm256_slli_epi32(high, 16), top);
    d->u[2] = _mm256_and_si256(_mm256_slli_epi32(high, 8), top);
    d->u[3] = _mm256_and_si256(high, top);
    if (!_mm256_testz_si256(t1, t1)) {
        v low = coefficients(t1), next = SET32(0x00ff0000);
        v part[4] = {_mm256_slli_epi32(low, 16), _mm256_slli_epi32(low, 8), low,
                     _mm256_srli_epi32(low, 8)};
        UNROLL
        for (int i = 0; i < 4; i++)
            d->u[i] = _mm256_or_si256(d->u[i], _mm256_and_si256(part[i], next));
    }
    UNROLL
    for (int i = 0; i < 4; i++)
        d->u[i] = _mm256_srlv_epi32(d->u[i], skip);
}

/* 2^(emax - 30) by emax + 127, as ldexpf rounds it; 0 for a block of zeros. */
static INLINE v scale_of(v head) {
    v field = _mm256_srli_epi32(head, 1), one = SET32(1);
    v normal = _mm256_slli_epi32(_mm256_sub_epi32(field, SET32(30)), 23);
    v small = _mm256_sllv_epi32(one, _mm256_sub_epi32(field, SET32(8)));
    v scale =
        _mm256_blendv_epi8(small, normal, _mm256_cmpgt_epi32(field, SET32(30)));
    v some = _mm256_cmpeq_epi32(_mm256_and_si256(head, one), one);
    return _mm256_and_si256(scale, some);
}

static INLINE decoded_t decode_planes(const uint8_t *src, const layout_t *l,
                                      const tables_t *t) {
    group_t g = open_group(src, l);
    decode_first(&g, t);
    unsigned k = 1;
    for (; k < 8 && searching(&g); k++)
        decode_next(&g, t, k + 1);
    v first = g.word;
    bool second = k == 8 && searching(&g);
    unsigned in_word = k;
    if (__builtin_expect(second, 0)) {
        g.word = _mm256_setzero_si256();
        for (; searching(&g); k++) /* 12 planes at most: each has 2 bits */
            decode_next(&g, t, k + 1);
        in_word = k - 8;
    }
    __m128i up = _mm_cvtsi32_si128((int)(4 * in_word));
    __m128i down = _mm_cvtsi32_si128((int)(32 - 4 * in_word));
    v word = _mm256_or_si256(_mm256_srl_epi32(g.word, down),
                             _mm256_sll_epi32(g.bits, up));
    v t0 = second ? first : word;
    v t1 = second ? word : _mm256_srl_epi32(g.bits, down);

    decoded_t d;
    v planes = _mm256_srli_epi32(_mm256_add_epi32(g.left, SET32(3 + 4 * k)), 2);
    planes = _mm256_add_epi32(planes, g.skip);
    d.begun = _mm256_blendv_epi8(g.begun, planes, g.open);
    v last = _mm256_and_si256(_mm256_sub_epi32(g.left, SET32(1)), SET32(3));
    last = _mm256_add_epi32(last, SET32(1));
    d.known = _mm256_blendv_epi8(g.known, last, g.open);
    d.scale = scale_of(g.head);
    unpack(&d, t0, t1, g.skip);
    /* Blocks of zeros stay +0: nothing is added to round them. */
    v some = _mm256_cmpeq_epi32(_mm256_and_si256(g.head, SET32(1)), SET32(1));
    d.begun = _mm256_blendv_epi8(SET32(32), d.begun, some);
    return d;
}

static INLINE void decode_all(const uint8_t *src, uint8_t *dst, size_t groups,
                              unsigned maxbits, unsigned mode) {
    tables_t t;
    make_tables(&t);
    layout_t l = layout_of(maxbits);
    for (size_t half = 0; half < 2 * groups; half++) {
        decoded_t d = decode_planes(src + half * maxbits, &l, &t);
        finish(&d, dst + 128 * half, mode);
    }
}

void lull__zfp_decode_narrow_avx2(const uint8_t *src, uint8_t *dst,
                                  size_t groups, unsigned maxbits,
                                  unsigned mode) {
    if (maxbits == 32 && mode == 0)
        decode_all(src, dst, groups, 32, 0);
    else if (maxbits == 32 && mode == LULL__ZFP_ADD)
        decode_all(src, dst, groups, 32, LULL__ZFP_ADD);
    else
        decode_all(src, dst, groups, maxbits, mode);
}
#else
typedef int lull__no_avx2;
#endif
