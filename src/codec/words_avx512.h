/* Registers of words of 64 bits, transposed, for AVX-512. */
#ifndef LULL__WORDS_AVX512_H
#define LULL__WORDS_AVX512_H

#include <immintrin.h>
#include <string.h>

/* 8 by 8 words of 64 bits. */
static inline void lull__transpose_words(__m512i x[8]) {
    __m512i y[8];
    for (unsigned i = 0; i < 8; i += 2) {
        y[i] = _mm512_unpacklo_epi64(x[i], x[i + 1]);
        y[i + 1] = _mm512_unpackhi_epi64(x[i], x[i + 1]);
    }
    for (unsigned i = 0; i < 8; i += 4)
        for (unsigned k = 0; k < 2; k++) {
            x[i + k] = _mm512_shuffle_i64x2(y[i + k], y[i + k + 2], 0x88);
            x[i + k + 2] = _mm512_shuffle_i64x2(y[i + k], y[i + k + 2], 0xdd);
        }
    for (unsigned k = 0; k < 4; k++) {
        y[k] = _mm512_shuffle_i64x2(x[k], x[k + 4], 0x88);
        y[k + 4] = _mm512_shuffle_i64x2(x[k], x[k + 4], 0xdd);
    }
    memcpy(x, y, sizeof y);
}

#endif
