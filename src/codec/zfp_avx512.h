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

/* Bits of plane words, 16 planes each, as 16-bit words of coefficients. */
static INLINE v coefficients(v planes) {
    v high = _mm512_multishift_epi64_epi8(SET64(0x1c1814100c080400), planes);
    v low = _mm512_multishift_epi64_epi8(SET64(0x3c3834302c282420), planes);
    high = _mm512_gf2p8affine_epi64_epi8(SET64(0x0800040002000100), high, 0);
    low = _mm512_gf2p8affine_epi64_epi8(SET64(0x0008000400020001), low, 0);
    return _mm512_or_si512(high, low);
}

#endif
