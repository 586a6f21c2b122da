/* What expo's files for AVX2 share. */
#ifndef LULL__EXPO_AVX2_H
#define LULL__EXPO_AVX2_H

#include <immintrin.h>
#include <stdint.h>

static inline __m256i load(const void *at) {
    return _mm256_loadu_si256(at);
}

static inline void store(void *at, __m256i x) {
    _mm256_storeu_si256(at, x);
}

/* Bit i of 32 to byte i, 0xff where it is 1. */
static inline __m256i bytes_of(uint32_t bits) {
    const __m256i byte =
        _mm256_set_epi8(3, 3, 3, 3, 3, 3, 3, 3, 2, 2, 2, 2, 2, 2, 2, 2, 1, 1, 1,
                        1, 1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0);
    const __m256i bit = _mm256_set1_epi64x((long long)0x8040201008040201ull);
    __m256i x = _mm256_shuffle_epi8(_mm256_set1_epi32((int)bits), byte);
    return _mm256_cmpeq_epi8(_mm256_and_si256(x, bit), bit);
}

#endif
