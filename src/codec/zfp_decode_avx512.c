/* ZFP decoder for AVX-512: 16 blocks of floats in lockstep, a plane of all of
 * them a step, by two look-ups with the state and the next bits. Trailing
 * zeros skip the empty planes before; once all lanes have three significant
 * coefficients the rest needs no decoding. */
#ifdef __AVX512VBMI2__
#include "zfp_decode_avx512.h"
#include "zfp_lockstep_avx512.h"

/* Position 4 L + i of transpose() is block 4 i + L: the dword of its lane, and
 * its word of coefficient 0, twice, in two halves. */
static const uint32_t lane_dword[16] = {
    0, 8, 16, 24, 2, 10, 18, 26, 4, 12, 20, 28, 6, 14, 22, 30,
};
static const uint16_t lane_word[32] = {
    0, 0, 16, 16, 32, 32, 48, 48, 4,  4,  20, 20, 36, 36, 52, 52,
    8, 8, 24, 24, 40, 40, 56, 56, 12, 12, 28, 28, 44, 44, 60, 60,
};

/* From the halves and their 32 planes. */
static INLINE coded_t gather(const half_t h[2], v t[2][4]) {
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
    v high[2] = {coefficients(t[0][0]), coefficients(t[1][0])};
    v word = _mm512_loadu_si512(lane_word);
    UNROLL
    for (int i = 0; i < 4; i++)
        c.u[i] = _mm512_maskz_permutex2var_epi16(
            0xaaaaaaaa, high[0],
            _mm512_add_epi16(word, _mm512_set1_epi16((short)i)), high[1]);
    v rest = _mm512_or_si512(t[0][1], t[1][1]);
    if (_mm512_test_epi64_mask(rest, rest) != 0) {
        v low[2] = {coefficients(t[0][1]), coefficients(t[1][1])};
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

static INLINE void decode_all(const uint8_t *src, uint8_t *dst, size_t groups,
                              unsigned maxbits, unsigned mode) {
    layout_t l = layout_of(maxbits, 9);
    unsigned words = maxbits <= 66 ? 1 : 2;
    for (size_t i = 0; i < groups; i += 2) {
        size_t next = i + 1 < groups ? i + 1 : i; /* or the last one twice */
        const uint8_t *a = src + i * 2 * maxbits;
        const uint8_t *b = src + next * 2 * maxbits;
        v t[HALVES][4];
        half_t h[HALVES] = {
            open_half(a, &l, words, 32), open_half(a + maxbits, &l, words, 32),
            open_half(b, &l, words, 32), open_half(b + maxbits, &l, words, 32)};
        decode_planes(h, &l, words, 32, t);
        coded_t c = gather(h, t);
        finish(&c, dst + 256 * i, mode);
        if (next == i)
            break;
        c = gather(h + 2, t + 2);
        finish(&c, dst + 256 * next, mode);
    }
}

void lull__zfp_decode_f32_avx512(const uint8_t *src, uint8_t *dst,
                                 size_t groups, unsigned maxbits,
                                 unsigned mode) {
    if (maxbits <= 32)
        lull__zfp_decode_narrow_avx512(src, dst, groups, maxbits, mode);
    else if (maxbits == 64)
        decode_all(src, dst, groups, 64, mode);
    else if (maxbits <= 66)
        decode_all(src, dst, groups, maxbits, mode);
    else
        decode_all(src, dst, groups, maxbits, mode);
}
#else
typedef int lull__no_avx512;
#endif
