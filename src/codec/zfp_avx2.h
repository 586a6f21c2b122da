/* What the AVX2 kernels of ZFP share. Included by *_avx2.c only. */
#ifndef LULL__ZFP_AVX2_H
#define LULL__ZFP_AVX2_H

#include <immintrin.h>

#include "zfp_impl.h"
#include "zfp_lift.h"

typedef __m256i v;
/* For the transforms; v itself is of signed words of 64 bits. */
typedef int32_t signed32 __attribute__((vector_size(32)));
typedef uint32_t unsigned32 __attribute__((vector_size(32)));
typedef unsigned long long unsigned64 __attribute__((vector_size(32)));
#define SET32(x) _mm256_set1_epi32((int)(x))
#define SET64(x) _mm256_set1_epi64x((long long)(x))

/* Rates are constants of the kernels' copies: that needs inlining. And arrays
 * of registers stay in registers once loops are unrolled. */
#define INLINE inline __attribute__((always_inline))
#ifdef __clang__
#define UNROLL _Pragma("unroll")
#else
#define UNROLL _Pragma("GCC unroll 4")
#endif

/* In each 128-bit lane, a 4x4 transposition of floats: lane L of register i
 * held block 2 i + L; position 4 L + i of each register is that block's. */
static INLINE void transpose(v x[4]) {
    v a = _mm256_unpacklo_epi32(x[0], x[1]);
    v b = _mm256_unpackhi_epi32(x[0], x[1]);
    v c = _mm256_unpacklo_epi32(x[2], x[3]);
    v d = _mm256_unpackhi_epi32(x[2], x[3]);
    x[0] = _mm256_unpacklo_epi64(a, c);
    x[1] = _mm256_unpackhi_epi64(a, c);
    x[2] = _mm256_unpacklo_epi64(b, d);
    x[3] = _mm256_unpackhi_epi64(b, d);
}

/* 4 by 4 words of 64 bits. */
static INLINE void transpose_words(v x[4]) {
    v a = _mm256_unpacklo_epi64(x[0], x[1]);
    v b = _mm256_unpackhi_epi64(x[0], x[1]);
    v c = _mm256_unpacklo_epi64(x[2], x[3]);
    v d = _mm256_unpackhi_epi64(x[2], x[3]);
    x[0] = _mm256_permute2x128_si256(a, c, 0x20);
    x[1] = _mm256_permute2x128_si256(b, d, 0x20);
    x[2] = _mm256_permute2x128_si256(a, c, 0x31);
    x[3] = _mm256_permute2x128_si256(b, d, 0x31);
}

static INLINE void inverse_lift(v q[4]) {
    signed32 x = (signed32)q[0], y = (signed32)q[1];
    signed32 z = (signed32)q[2], w = (signed32)q[3];
    INVERSE_LIFT(signed32, unsigned32, x, y, z, w);
    q[0] = (v)x, q[1] = (v)y, q[2] = (v)z, q[3] = (v)w;
}

/* Eight blocks decoded but for the transform, in transpose()'s order. */
typedef struct decoded {
    v u[4], begun, known;
    v scale; /* floats */
} decoded_t;

static INLINE void finish(const decoded_t *d, uint8_t *dst, unsigned mode) {
    v nega = SET32(0xaaaaaaaa), q[4];
    v fine = _mm256_srlv_epi32(SET32(0xaaaaaaaau >> 2), d->begun);
    v coarse = _mm256_srlv_epi32(SET32(0xaaaaaaaau >> 1), d->begun);
    UNROLL
    for (int i = 0; i < 4; i++) {
        v u = d->u[i];
        if (!(mode & LULL__ZFP_TRUNCATE)) {
            v is = _mm256_cmpgt_epi32(d->known, SET32(i));
            u = _mm256_add_epi32(u, _mm256_blendv_epi8(coarse, fine, is));
        }
        q[i] = _mm256_sub_epi32(_mm256_xor_si256(u, nega), nega);
    }
    inverse_lift(q);
    __m256 scale = _mm256_castsi256_ps(d->scale);
    UNROLL
    for (int i = 0; i < 4; i++)
        q[i] =
            _mm256_castps_si256(_mm256_mul_ps(scale, _mm256_cvtepi32_ps(q[i])));
    transpose(q);
    UNROLL
    for (int i = 0; i < 4; i++) {
        float *to = (void *)(dst + 32 * i);
        __m256 value = _mm256_castsi256_ps(q[i]);
        if (mode & LULL__ZFP_ADD)
            value = _mm256_add_ps(_mm256_loadu_ps(to), value);
        _mm256_storeu_ps(to, value);
    }
}

#endif
