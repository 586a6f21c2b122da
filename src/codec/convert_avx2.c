/* Conversions between float and 16-bit floats, and sums: AVX2 and F16C. */
#ifdef __AVX2__
#include <immintrin.h>

#include "convert.h"

#define IN(size) ((const char *)src + (size)*i)
#define OUT(size) ((void *)((char *)dst + (size)*i))

static inline __m256 load_f32(const void *p) {
    return _mm256_loadu_ps(p);
}

static inline __m256 load_f16(const void *p) {
    return _mm256_cvtph_ps(_mm_loadu_si128(p));
}

static inline __m256 load_bf16(const void *p) {
    __m256i wide = _mm256_cvtepu16_epi32(_mm_loadu_si128(p));
    return _mm256_castsi256_ps(_mm256_slli_epi32(wide, 16));
}

static void f16_to_f32(const void *src, void *dst, size_t count) {
    size_t i = 0;
    for (; i + 8 <= count; i += 8)
        _mm256_storeu_ps(OUT(4), load_f16(IN(2)));
    lull__convert_portable.f16_to_f32(IN(2), OUT(4), count - i);
}

static void bf16_to_f32(const void *src, void *dst, size_t count) {
    size_t i = 0;
    for (; i + 8 <= count; i += 8)
        _mm256_storeu_ps(OUT(4), load_bf16(IN(2)));
    lull__convert_portable.bf16_to_f32(IN(2), OUT(4), count - i);
}

/* Of eight results: those that are Inf (exponent `inf`) though the source is
 * finite. */
static inline __m256i overflowed(__m256i half, int inf, __m256 value) {
    __m256i is =
        _mm256_cmpeq_epi32(_mm256_and_si256(half, _mm256_set1_epi32(0x7fff)),
                           _mm256_set1_epi32(inf));
    __m256i was =
        _mm256_cmpeq_epi32(_mm256_and_si256(_mm256_castps_si256(value),
                                            _mm256_set1_epi32(0x7fffffff)),
                           _mm256_set1_epi32(0x7f800000));
    return _mm256_andnot_si256(was, is);
}

static bool f32_to_f16(const void *src, void *dst, size_t count) {
    size_t i = 0;
    __m256i bad = _mm256_setzero_si256();
    for (; i + 8 <= count; i += 8) {
        __m256 value = load_f32(IN(4));
        __m128i half = _mm256_cvtps_ph(value, _MM_FROUND_TO_NEAREST_INT);
        bad = _mm256_or_si256(
            bad, overflowed(_mm256_cvtepu16_epi32(half), 0x7c00, value));
        _mm_storeu_si128(OUT(2), half);
    }
    bool rest = lull__convert_portable.f32_to_f16(IN(4), OUT(2), count - i);
    return rest || !_mm256_testz_si256(bad, bad);
}

static inline __m256i round_bf16(__m256 value) {
    __m256i bits = _mm256_castps_si256(value);
    __m256i high = _mm256_srli_epi32(bits, 16);
    __m256i odd = _mm256_and_si256(high, _mm256_set1_epi32(1));
    __m256i up = _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff));
    __m256i rounded = _mm256_srli_epi32(_mm256_add_epi32(bits, up), 16);
    __m256i quiet = _mm256_or_si256(high, _mm256_set1_epi32(0x40));
    __m256 nan = _mm256_cmp_ps(value, value, _CMP_UNORD_Q);
    return _mm256_blendv_epi8(rounded, quiet, _mm256_castps_si256(nan));
}

static bool f32_to_bf16(const void *src, void *dst, size_t count) {
    size_t i = 0;
    __m256i bad = _mm256_setzero_si256();
    for (; i + 8 <= count; i += 8) {
        __m256 value = load_f32(IN(4));
        __m256i wide = round_bf16(value);
        bad = _mm256_or_si256(bad, overflowed(wide, 0x7f80, value));
        __m128i half = _mm_packus_epi32(_mm256_castsi256_si128(wide),
                                        _mm256_extracti128_si256(wide, 1));
        _mm_storeu_si128(OUT(2), half);
    }
    bool rest = lull__convert_portable.f32_to_bf16(IN(4), OUT(2), count - i);
    return rest || !_mm256_testz_si256(bad, bad);
}

static void add_f32(const void *src, void *dst, size_t count) {
    size_t i = 0;
    for (; i + 8 <= count; i += 8)
        _mm256_storeu_ps(
            OUT(4), _mm256_add_ps(_mm256_loadu_ps(OUT(4)), load_f32(IN(4))));
    lull__convert_portable.add_f32(IN(4), OUT(4), count - i);
}

static void add_f16(const void *src, void *dst, size_t count) {
    size_t i = 0;
    for (; i + 8 <= count; i += 8)
        _mm256_storeu_ps(
            OUT(4), _mm256_add_ps(_mm256_loadu_ps(OUT(4)), load_f16(IN(2))));
    lull__convert_portable.add_f16(IN(2), OUT(4), count - i);
}

static void add_bf16(const void *src, void *dst, size_t count) {
    size_t i = 0;
    for (; i + 8 <= count; i += 8)
        _mm256_storeu_ps(
            OUT(4), _mm256_add_ps(_mm256_loadu_ps(OUT(4)), load_bf16(IN(2))));
    lull__convert_portable.add_bf16(IN(2), OUT(4), count - i);
}

const lull__convert_t lull__convert_avx2 = {
    f16_to_f32, bf16_to_f32, f32_to_f16, f32_to_bf16,
    add_f32,    add_f16,     add_bf16,
};
#else
typedef int lull__no_avx2;
#endif
