/* ZFP decoder of doubles for AVX-512: planes as those of floats, 16 blocks in
 * two halves; then eight blocks at once, one a lane of 64 bits. */
#ifdef __AVX512VBMI2__
#include "zfp_lockstep_avx512.h"

/* Coefficients of 8 blocks from their 64 planes. */
static INLINE void gather(v u[4], const v t[4]) {
    /* Words of a coefficient, from the lane's lowest: of the second register,
     * of the first. */
    v at = _mm512_add_epi16(
        SET64(0x0000002000000020),
        _mm512_mullo_epi64(_mm512_setr_epi64(0, 1, 2, 3, 4, 5, 6, 7),
                           SET64(0x0004000400040004)));
    v one = _mm512_set1_epi16(1), rest = _mm512_or_si512(t[2], t[3]);
    v first = coefficients(t[0]), second = coefficients(t[1]);
    v from = at;
    UNROLL
    for (int i = 0; i < 4; i++) {
        u[i] = _mm512_maskz_permutex2var_epi16(0xcccccccc, first, from, second);
        from = _mm512_add_epi16(from, one);
    }
    if (_mm512_test_epi64_mask(rest, rest) == 0)
        return;
    first = coefficients(t[2]), second = coefficients(t[3]);
    UNROLL
    for (int i = 0; i < 4; i++) {
        u[i] = _mm512_or_si512(u[i], _mm512_maskz_permutex2var_epi16(
                                         0x33333333, first, at, second));
        at = _mm512_add_epi16(at, one);
    }
}

/* 2^(emax - 62) by emax + 1023, as ldexp rounds it. */
static INLINE __m512d scale_of(v head) {
    v field = _mm512_srli_epi64(head, 1);
    v normal = _mm512_slli_epi64(_mm512_sub_epi64(field, SET64(62)), 52);
    v small = _mm512_sllv_epi64(SET64(1), _mm512_sub_epi64(field, SET64(11)));
    __mmask8 is_normal = _mm512_cmpgt_epi64_mask(field, SET64(62));
    return _mm512_castsi512_pd(_mm512_mask_mov_epi64(small, is_normal, normal));
}

/* Registers of coefficients to such of two blocks each. */
static INLINE void by_block(v x[4]) {
    v low = _mm512_setr_epi64(0, 8, 1, 9, 2, 10, 3, 11);
    v high = _mm512_add_epi64(low, SET64(4));
    v first = _mm512_setr_epi64(0, 1, 8, 9, 2, 3, 10, 11);
    v second = _mm512_add_epi64(first, SET64(4));
    v a = _mm512_permutex2var_epi64(x[0], low, x[1]);
    v b = _mm512_permutex2var_epi64(x[2], low, x[3]);
    v c = _mm512_permutex2var_epi64(x[0], high, x[1]);
    v d = _mm512_permutex2var_epi64(x[2], high, x[3]);
    x[0] = _mm512_permutex2var_epi64(a, first, b);
    x[1] = _mm512_permutex2var_epi64(a, second, b);
    x[2] = _mm512_permutex2var_epi64(c, first, d);
    x[3] = _mm512_permutex2var_epi64(c, second, d);
}

static INLINE void finish_half(const half_t *h, const v t[4], uint8_t *dst,
                               unsigned mode) {
    v u[4], nega = SET64(MASK64);
    v fine = _mm512_srlv_epi64(SET64(MASK64 >> 2), h->begun);
    v coarse = _mm512_srlv_epi64(SET64(MASK64 >> 1), h->begun);
    gather(u, t);
    UNROLL
    for (int i = 0; i < 4; i++) {
        u[i] = _mm512_srlv_epi64(u[i], h->skip);
        if (!(mode & LULL__ZFP_TRUNCATE)) {
            __mmask8 known = _mm512_cmpgt_epi64_mask(h->known, SET64(i));
            u[i] = _mm512_add_epi64(u[i],
                                    _mm512_mask_mov_epi64(coarse, known, fine));
        }
        u[i] = _mm512_sub_epi64(_mm512_xor_si512(u[i], nega), nega);
    }
    INVERSE_LIFT(v, unsigned64, u[0], u[1], u[2], u[3]);
    __m512d scale = scale_of(h->head);
    __mmask8 some = _mm512_test_epi64_mask(h->head, SET64(1));
    UNROLL
    for (int i = 0; i < 4; i++)
        u[i] = _mm512_castpd_si512(
            _mm512_maskz_mul_pd(some, scale, _mm512_cvtepi64_pd(u[i])));
    by_block(u);
    UNROLL
    for (int i = 0; i < 4; i++) {
        __m512d value = _mm512_castsi512_pd(u[i]);
        void *to = dst + 64 * i;
        if (mode & LULL__ZFP_ADD)
            value = _mm512_add_pd(_mm512_loadu_pd(to), value);
        _mm512_storeu_pd(to, value);
    }
}

/* Is there a block of so small numbers that it has fewer planes? */
static INLINE bool have_few_planes(const half_t h[HALVES]) {
    __mmask8 any = 0;
    UNROLL
    for (int i = 0; i < HALVES; i++) {
        __mmask8 few =
            _mm512_cmplt_epu64_mask(h[i].head, SET64(2 * LULL__ZFP_F64_FULL));
        any |= _mm512_mask_test_epi64_mask(few, h[i].head, SET64(1));
    }
    return any != 0;
}

static INLINE void decode_all(const uint8_t *src, uint8_t *dst, size_t groups,
                              unsigned maxbits, unsigned mode) {
    layout_t l = layout_of(maxbits, 12);
    unsigned words = maxbits <= 69 ? 1 : maxbits <= 128 ? 2 : 4;
    for (size_t i = 0; i < groups; i += 2) {
        size_t next = i + 1 < groups ? i + 1 : i; /* or the last one twice */
        const uint8_t *a = src + i * 2 * maxbits;
        const uint8_t *b = src + next * 2 * maxbits;
        v t[HALVES][4];
        half_t h[HALVES] = {
            open_half(a, &l, words, 64), open_half(a + maxbits, &l, words, 64),
            open_half(b, &l, words, 64), open_half(b + maxbits, &l, words, 64)};
        if (__builtin_expect(have_few_planes(h), 0)) {
            lull__zfp_decode_f64_portable(a, dst + 512 * i, next - i + 1,
                                          maxbits, mode);
            continue;
        }
        decode_planes(h, &l, words, 64, t);
        finish_half(&h[0], t[0], dst + 512 * i, mode);
        finish_half(&h[1], t[1], dst + 512 * i + 256, mode);
        if (next == i)
            break;
        finish_half(&h[2], t[2], dst + 512 * next, mode);
        finish_half(&h[3], t[3], dst + 512 * next + 256, mode);
    }
}

void lull__zfp_decode_f64_avx512(const uint8_t *src, uint8_t *dst,
                                 size_t groups, unsigned maxbits,
                                 unsigned mode) {
    if (maxbits <= 69)
        decode_all(src, dst, groups, maxbits, mode);
    else if (maxbits <= 128)
        decode_all(src, dst, groups, maxbits, mode);
    else
        decode_all(src, dst, groups, maxbits, mode);
}
#else
typedef int lull__no_avx512;
#endif
