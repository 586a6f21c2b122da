/* Conversions between float and 16-bit floats, and sums: AVX-512. */
#ifdef __AVX512F__
#include <immintrin.h>

#include "convert.h"

#define IN(size) ((const char *)src + (size)*i)
#define OUT(size) ((void *)((char *)dst + (size)*i))

static inline __m512 load_f32(const void *p) {
    return _mm512_loadu_ps(p);
}

static inline __m512 load_f16(const void *p) {
    return _mm512_cvtph_ps(_mm256_loadu_si256(p));
}

static inline __m512 load_bf16(const void *p) {
    __m512i wide = _mm512_cvtepu16_epi32(_mm256_loadu_si256(p));
    return _mm512_castsi512_ps(_mm512_slli_epi32(wide, 16));
}

static void f16_to_f32(const void *src, void *dst, size_t count) {
    size_t i = 0;
    for (; i + 16 <= count; i += 16)
        _mm512_storeu_ps(OUT(4), load_f16(IN(2)));
    lull__convert_portable.f16_to_f32(IN(2), OUT(4), count - i);
}

static void bf16_to_f32(const void *src, void *dst, size_t count) {
    size_t i = 0;
    for (; i + 16 <= count; i += 16)
        _mm512_storeu_ps(OUT(4), load_bf16(IN(2)));
    lull__convert_portable.bf16_to_f32(IN(2), OUT(4), count - i);
}

/* Of sixteen results: those that are Inf (exponent `inf`) though the source
 * is finite. */
static inline __mmask16 overflowed(__m512i half, int inf, __m512 value) {
    __mmask16 is = _mm512_cmpeq_epi32_mask(
        _mm512_and_si512(half, _mm512_set1_epi32(0x7fff)),
        _mm512_set1_epi32(inf));
    return _mm512_mask_cmpneq_epi32_mask(
        is,
        _mm512_and_si512(_mm512_castps_si512(value),
                         _mm512_set1_epi32(0x7fffffff)),
        _mm512_set1_epi32(0x7f800000));
}

static bool f32_to_f16(const void *src, void *dst, size_t count) {
    size_t i = 0;
    unsigned bad = 0;
    for (; i + 16 <= count; i += 16) {
        __m512 value = load_f32(IN(4));
        __m256i half = _mm512_cvtps_ph(value, _MM_FROUND_TO_NEAREST_INT);
        bad |= overflowed(_mm512_cvtepu16_epi32(half), 0x7c00, value);
        _mm256_storeu_si256(OUT(2), half);
    }
    bool rest = lull__convert_portable.f32_to_f16(IN(4), OUT(2), count - i);
    return rest || bad != 0;
}

static inline __m512i round_bf16(__m512 value) {
    __m512i bits = _mm512_castps_si512(value);
    __m512i high = _mm512_srli_epi32(bits, 16);
    __m512i odd = _mm512_and_si512(high, _mm512_set1_epi32(1));
    __m512i up = _mm512_add_epi32(odd, _mm512_set1_epi32(0x7fff));
    __m512i rounded = _mm512_srli_epi32(_mm512_add_epi32(bits, up), 16);
    __mmask16 nan = _mm512_cmp_ps_mask(value, value, _CMP_UNORD_Q);
    return _mm512_mask_or_epi32(rounded, nan, high, _mm512_set1_epi32(0x40));
}

static bool f32_to_bf16(const void *src, void *dst, size_t count) {
    size_t i = 0;
    unsigned bad = 0;
    for (; i + 16 <= count; i += 16) {
        __m512 value = load_f32(IN(4));
        __m512i wide = round_bf16(value);
        bad |= overflowed(wide, 0x7f80, value);
        _mm256_storeu_si256(OUT(2), _mm512_cvtepi32_epi16(wide));
    }
    bool rest = lull__convert_portable.f32_to_bf16(IN(4), OUT(2), count - i);
    return rest || bad != 0;
}

static void add_f32(const void *src, void *dst, size_t count) {
    size_t i = 0;
    for (; i + 16 <= count; i += 16)
        _mm512_storeu_ps(
            OUT(4), _mm512_add_ps(_mm512_loadu_ps(OUT(4)), load_f32(IN(4))));
    lull__convert_portable.add_f32(IN(4), OUT(4), count - i);
}

static void add_f16(const void *src, void *dst, size_t count) {
    size_t i = 0;
    for (; i + 16 <= count; i += 16)
        _mm512_storeu_ps(
            OUT(4), _mm512_add_ps(_mm512_loadu_ps(OUT(4)), load_f16(IN(2))));
    lull__convert_portable.add_f16(IN(2), OUT(4), count - i);
}

static void add_bf16(const void *src, void *dst, size_t count) {
    size_t i = 0;
    for (; i + 16 <= count; i += 16)
        _mm512_storeu_ps(
            OUT(4), _mm512_add_ps(_mm512_loadu_ps(OUT(4)), load_bf16(IN(2))));
    lull__convert_portable.add_bf16(IN(2), OUT(4), count - i);
}

const lull__convert_t lull__convert_avx512 = {
    f16_to_f32, bf16_to_f32, f32_to_f16, f32_to_bf16,
    add_f32,    add_f16,     add_bf16,
};
#else
typedef int lull__no_avx512;
#endif
