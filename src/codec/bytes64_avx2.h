/* Words of 64 bits by byte, for AVX2. */
#ifndef LULL__BYTES64_AVX2_H
#define LULL__BYTES64_AVX2_H

#include <immintrin.h>
#include <stdint.h>

/* One round: of registers 2k and 2k + 1 the low and the high halves by turns,
 * at k and k + 4. */
#define LULL__UNPACK(bits, x, y)                                            \
    for (unsigned k = 0; k < 4; k++) {                                      \
        (y)[k] = _mm256_unpacklo_epi##bits((x)[2 * k], (x)[2 * k + 1]);     \
        (y)[k + 4] = _mm256_unpackhi_epi##bits((x)[2 * k], (x)[2 * k + 1]); \
    }

/* 32 words: byte k of each to b[k]. */
static inline void lull__apart64(const uint8_t *src, __m256i b[8]) {
    const __m256i pairs = _mm256_broadcastsi128_si256(
        _mm_set_epi8(15, 7, 14, 6, 13, 5, 12, 4, 11, 3, 10, 2, 9, 1, 8, 0));
    const __m256i turns = _mm256_broadcastsi128_si256(
        _mm_set_epi8(15, 14, 7, 6, 13, 12, 5, 4, 11, 10, 3, 2, 9, 8, 1, 0));
    __m256i x[8], y[8];
    for (unsigned k = 0; k < 8; k++)
        x[k] = _mm256_shuffle_epi8(
            _mm256_loadu_si256((const void *)(src + 32 * k)), pairs);
    LULL__UNPACK(16, x, y)
    LULL__UNPACK(32, y, x)
    LULL__UNPACK(64, x, y)
    for (unsigned i = 0; i < 8; i++) {
        __m256i bytes = _mm256_permute4x64_epi64(y[i], 0xd8);
        b[4 * (i % 2) + 2 * (i / 2 % 2) + i / 4] =
            _mm256_shuffle_epi8(bytes, turns);
    }
}

#endif
