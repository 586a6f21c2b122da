/* What the AVX-512 kernels of ZFP share. Included by *_avx512.c only. */
#ifndef LULL__ZFP_AVX512_H
#define LULL__ZFP_AVX512_H

#include <immintrin.h>

#include "zfp_impl.h"
#include "zfp_lift.h"

typedef __m512i v;

/* Rates are constants of the kernels' copies: that needs inlining. */
#define INLINE inline __attribute__((always_inline))
/* And arrays of registers stay in registers once loops are unrolled. */
#ifdef __clang__
#define UNROLL _Pragma("unroll")
#else
#define UNROLL _Pragma("GCC unroll 4")
#endif

#define SET32(x) _mm512_set1_epi32((int)(x))
#define SET64(x) _mm512_set1_epi64((long long)(x))

/* (a where mask is set, else b). */
static INLINE v choose(v mask, v a, v b) {
    return _mm512_ternarylogic_epi64(mask, a, b, 0xca);
}

static INLINE v or3(v a, v b, v c) {
    return _mm512_ternarylogic_epi64(a, b, c, 0xfe);
}

/* For the transforms; v itself is of signed words of 64 bits. */
typedef int32_t signed32 __attribute__((vector_size(64)));
typedef uint32_t unsigned32 __attribute__((vector_size(64)));
typedef unsigned long long unsigned64 __attribute__((vector_size(64)));

/* In each 128-bit lane, a 4x4 transposition of floats: lane L of register i
 * held block 4 i + L; position 4 L + i of each register is that block's. */
static INLINE void transpose(v x[4]) {
    v a = _mm512_unpacklo_epi32(x[0], x[1]);
    v b = _mm512_unpackhi_epi32(x[0], x[1]);
    v c = _mm512_unpacklo_epi32(x[2], x[3]);
    v d = _mm512_unpackhi_epi32(x[2], x[3]);
    x[0] = _mm512_unpacklo_epi64(a, c);
    x[1] = _mm512_unpackhi_epi64(a, c);
    x[2] = _mm512_unpacklo_epi64(b, d);
    x[3] = _mm512_unpackhi_epi64(b, d);
}

/* ---- The end of decoding ----------------------------------------------- */

/* Sixteen blocks ready for the inverse transform, in transpose()'s order. */
typedef struct coded {
    v u[4];
    v skip, begun, known, head;
} coded_t;

/* Bits of plane words, 16 planes each, as 16-bit words of coefficients. */
static INLINE v coefficients(v planes) {
    v high = _mm512_multishift_epi64_epi8(SET64(0x1c1814100c080400), planes);
    v low = _mm512_multishift_epi64_epi8(SET64(0x3c3834302c282420), planes);
    high = _mm512_gf2p8affine_epi64_epi8(SET64(0x0800040002000100), high, 0);
    low = _mm512_gf2p8affine_epi64_epi8(SET64(0x0008000400020001), low, 0);
    return _mm512_or_si512(high, low);
}

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
