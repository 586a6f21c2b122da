/* The end of decoding ZFP's floats for AVX-512, once their coefficients are
 * known. Included by zfp_decode_avx512.c and zfp_narrow_avx512.c. */
#ifndef LULL__ZFP_DECODE_AVX512_H
#define LULL__ZFP_DECODE_AVX512_H

#include "zfp_avx512.h"

/* Sixteen blocks ready for the inverse transform, in transpose()'s order. */
typedef struct coded {
    v u[4];
    v skip, begun, known, head;
} coded_t;

static INLINE void inverse_lift(v q[4]) {
    signed32 x = (signed32)q[0], y = (signed32)q[1];
    signed32 z = (signed32)q[2], w = (signed32)q[3];
    INVERSE_LIFT(signed32, unsigned32, x, y, z, w);
    q[0] = (v)x, q[1] = (v)y, q[2] = (v)z, q[3] = (v)w;
}

/* 2^(emax - 30) by emax + 127, as ldexpf rounds it; 0 for a block of zeros. */
static INLINE __m512 scale_of(v head) {
    v field = _mm512_srli_epi32(head, 1);
    v normal = _mm512_slli_epi32(_mm512_sub_epi32(field, SET32(30)), 23);
    v small = _mm512_sllv_epi32(SET32(1), _mm512_sub_epi32(field, SET32(8)));
    __mmask16 is_normal = _mm512_cmpgt_epi32_mask(field, SET32(30));
    return _mm512_castsi512_ps(_mm512_mask_mov_epi32(small, is_normal, normal));
}

static INLINE void finish(coded_t *c, uint8_t *dst, unsigned mode) {
    v nega = SET32(0xaaaaaaaa);
    v fine = _mm512_srlv_epi32(SET32(0xaaaaaaaau >> 2), c->begun);
    v coarse = _mm512_srlv_epi32(SET32(0xaaaaaaaau >> 1), c->begun);
    UNROLL
    for (int i = 0; i < 4; i++) {
        v u = _mm512_srlv_epi32(c->u[i], c->skip);
        if (!(mode & LULL__ZFP_TRUNCATE)) {
            __mmask16 known = _mm512_cmpgt_epi32_mask(c->known, SET32(i));
            u = _mm512_add_epi32(u, _mm512_mask_mov_epi32(coarse, known, fine));
        }
        c->u[i] = _mm512_sub_epi32(_mm512_xor_si512(u, nega), nega);
    }
    inverse_lift(c->u);
    __m512 scale = scale_of(c->head);
    __mmask16 some = _mm512_test_epi32_mask(c->head, SET32(1));
    UNROLL
    for (int i = 0; i < 4; i++)
        c->u[i] = _mm512_castps_si512(
            _mm512_maskz_mul_ps(some, scale, _mm512_cvtepi32_ps(c->u[i])));
    transpose(c->u);
    UNROLL
    for (int i = 0; i < 4; i++) {
        __m512 value = _mm512_castsi512_ps(c->u[i]);
        void *to = dst + 64 * i;
        if (mode & LULL__ZFP_ADD)
            value = _mm512_add_ps(_mm512_loadu_ps(to), value);
        _mm512_storeu_ps(to, value);
    }
}

#endif
