/* expo: values to fields and back, for AVX2: 32 values at a time. */
#ifdef __AVX2__
#include <immintrin.h>
#include <string.h>

#include "codec/bytes64_avx2.h"
#include "codec/expo.h"
#include "codec/expo_avx2.h"

static inline __m256i choose(__m256i mask, __m256i yes, __m256i no) {
    return _mm256_or_si256(_mm256_and_si256(mask, yes),
                           _mm256_andnot_si256(mask, no));
}

/* Highest and next byte of 32 values to exponents. */
static inline __m256i symbols_of(__m256i high, __m256i low) {
    __m256i carried =
        _mm256_and_si256(_mm256_srli_epi16(low, 7), _mm256_set1_epi8(1));
    return _mm256_or_si256(_mm256_add_epi8(high, high), carried);
}

static inline void join_high(__m256i symbols, __m256i signs, __m256i *high,
                             __m256i *low) {
    const __m256i mantissa = _mm256_set1_epi8(0x7f);
    *high = choose(mantissa, _mm256_srli_epi16(symbols, 1), signs);
    *low = choose(mantissa, signs, _mm256_slli_epi16(symbols, 7));
}

/* Stores of gathered values: past the caches, where dst must be aligned. */
static inline void put_values(uint8_t *dst, __m256i x, bool past) {
    if (past)
        _mm256_stream_si256((void *)dst, x);
    else
        store(dst, x);
}

/* The first value that a register's aligned store may begin with; n: none. Of
 * f64 and f16, with their planes of bits, a multiple of 8. */
static inline size_t first_aligned(const uint8_t *dst, unsigned size,
                                   size_t n) {
    size_t left = (0 - (uintptr_t)dst) % 32;
    const unsigned whole = size == 2 || size == 8 ? 8 * size : size;
    return left % whole == 0 && n >= 256 ? left / size : n;
}

/* Loops over 32 values at a time by step(fields, i, dst, past). */
#define GATHER(step, kind, size)                               \
    size_t i = fields->past ? first_aligned(dst, size, n) : n; \
    if (i < n) {                                               \
        lull__expo_cut_portable.gather[kind](fields, i, dst);  \
        for (; i + 32 <= n; i += 32)                           \
            step(fields, i, dst, true);                        \
    } else {                                                   \
        for (i = 0; i + 32 <= n; i += 32)                      \
            step(fields, i, dst, false);                       \
    }                                                          \
    lull__expo_gather_rest(kind, fields, n, i, dst, size)

static void copy(uint8_t *dst, const uint8_t *src, size_t bytes) {
    size_t i = first_aligned(dst, 1, bytes);
    memcpy(dst, src, i);
    for (; i + 32 <= bytes; i += 32)
        _mm256_stream_si256((void *)(dst + i), load(src + i));
    memcpy(dst + i, src + i, bytes - i);
}

static inline void store_plane(const lull__expo_fields_t *fields, unsigned k,
                               size_t i, __m256i x) {
    store((uint8_t *)fields->plane[k] + i, x);
}

/* 32 values of two bytes, apart. */
static inline void halve(const uint8_t *src, __m256i *low, __m256i *high) {
    const __m256i mask = _mm256_set1_epi16(0xff);
    __m256i a = load(src), b = load(src + 32);
    *low = _mm256_packus_epi16(_mm256_and_si256(a, mask),
                               _mm256_and_si256(b, mask));
    *high =
        _mm256_packus_epi16(_mm256_srli_epi16(a, 8), _mm256_srli_epi16(b, 8));
    *low = _mm256_permute4x64_epi64(*low, 0xd8);
    *high = _mm256_permute4x64_epi64(*high, 0xd8);
}

static inline void unite(uint8_t *dst, __m256i low, __m256i high, bool past) {
    low = _mm256_permute4x64_epi64(low, 0xd8);
    high = _mm256_permute4x64_epi64(high, 0xd8);
    put_values(dst, _mm256_unpacklo_epi8(low, high), past);
    put_values(dst + 32, _mm256_unpackhi_epi8(low, high), past);
}

static void scatter_bf16(const uint8_t *src, size_t n,
                         const lull__expo_fields_t *fields) {
    const __m256i mantissa = _mm256_set1_epi8(0x7f);
    size_t i = 0;
    for (; i + 32 <= n; i += 32) {
        __m256i low, high;
        halve(src + 2 * i, &low, &high);
        store(fields->symbols + i, symbols_of(high, low));
        store_plane(fields, 0, i, choose(mantissa, low, high));
    }
    lull__expo_scatter_rest(LULL__EXPO_BF16, src, n, i, fields, 2);
}

static inline void gather32_bf16(const lull__expo_fields_t *fields, size_t i,
                                 uint8_t *dst, bool past) {
    __m256i high, low;
    join_high(load(fields->symbols + i), load(fields->plane[0] + i), &high,
              &low);
    unite(dst + 2 * i, low, high, past);
}

static void gather_bf16(const lull__expo_fields_t *fields, size_t n,
                        uint8_t *dst) {
    GATHER(gather32_bf16, LULL__EXPO_BF16, 2);
}

static inline void store_bits(const lull__expo_fields_t *fields, unsigned k,
                              size_t i, __m256i signs) {
    uint32_t bits = (uint32_t)_mm256_movemask_epi8(signs);
    memcpy((uint8_t *)fields->bits[k] + i / 8, &bits, 4);
}

static void scatter_f16(const uint8_t *src, size_t n,
                        const lull__expo_fields_t *fields) {
    size_t i = 0;
    for (; i + 32 <= n; i += 32) {
        __m256i low, high;
        halve(src + 2 * i, &low, &high);
        store_plane(fields, 0, i, low);
        store(fields->symbols + i, _mm256_and_si256(_mm256_srli_epi16(high, 2),
                                                    _mm256_set1_epi8(0x1f)));
        store_bits(fields, 0, i, _mm256_slli_epi16(high, 7));
        store_bits(fields, 1, i, _mm256_slli_epi16(high, 6));
        store_bits(fields, 2, i, high);
    }
    lull__expo_scatter_rest(LULL__EXPO_F16, src, n, i, fields, 2);
}

static inline __m256i bit_plane(const lull__expo_fields_t *fields, unsigned k,
                                size_t i, int bit) {
    uint32_t bits;
    memcpy(&bits, fields->bits[k] + i / 8, 4);
    return _mm256_and_si256(bytes_of(bits), _mm256_set1_epi8((char)bit));
}

static inline void gather32_f16(const lull__expo_fields_t *fields, size_t i,
                                uint8_t *dst, bool past) {
    __m256i high =
        _mm256_and_si256(_mm256_slli_epi16(load(fields->symbols + i), 2),
                         _mm256_set1_epi8(0x7c));
    high = _mm256_or_si256(high, bit_plane(fields, 0, i, 1));
    high = _mm256_or_si256(high, bit_plane(fields, 1, i, 2));
    high = _mm256_or_si256(high, bit_plane(fields, 2, i, 0x80));
    unite(dst + 2 * i, load(fields->plane[0] + i), high, past);
}

static void gather_f16(const lull__expo_fields_t *fields, size_t n,
                       uint8_t *dst) {
    GATHER(gather32_f16, LULL__EXPO_F16, 2);
}

/* Eight values of four bytes: by byte, in groups of four values. */
static inline __m256i by_byte(const uint8_t *src) {
    const __m256i order = _mm256_broadcastsi128_si256(
        _mm_set_epi8(15, 11, 7, 3, 14, 10, 6, 2, 13, 9, 5, 1, 12, 8, 4, 0));
    return _mm256_shuffle_epi8(load(src), order);
}

static void scatter_f32(const uint8_t *src, size_t n,
                        const lull__expo_fields_t *fields) {
    const __m256i mantissa = _mm256_set1_epi8(0x7f);
    const __m256i order = _mm256_set_epi32(7, 3, 6, 2, 5, 1, 4, 0);
    size_t i = 0;
    for (; i + 32 <= n; i += 32) {
        const uint8_t *at = src + 4 * i;
        __m256i a = by_byte(at), b = by_byte(at + 32), c = by_byte(at + 64),
                d = by_byte(at + 96);
        __m256i ab01 = _mm256_unpacklo_epi32(a, b);
        __m256i ab23 = _mm256_unpackhi_epi32(a, b);
        __m256i cd01 = _mm256_unpacklo_epi32(c, d);
        __m256i cd23 = _mm256_unpackhi_epi32(c, d);
        __m256i b0 = _mm256_unpacklo_epi64(ab01, cd01);
        __m256i b1 = _mm256_unpackhi_epi64(ab01, cd01);
        __m256i b2 = _mm256_unpacklo_epi64(ab23, cd23);
        __m256i b3 = _mm256_unpackhi_epi64(ab23, cd23);
        store_plane(fields, 0, i, _mm256_permutevar8x32_epi32(b0, order));
        store_plane(fields, 1, i, _mm256_permutevar8x32_epi32(b1, order));
        __m256i symbols = symbols_of(b3, b2), signs = choose(mantissa, b2, b3);
        store(fields->symbols + i, _mm256_permutevar8x32_epi32(symbols, order));
        store_plane(fields, 2, i, _mm256_permutevar8x32_epi32(signs, order));
    }
    lull__expo_scatter_rest(LULL__EXPO_F32, src, n, i, fields, 4);
}

/* So that two rounds of unpacking leave values in order. */
static inline __m256i spread_groups(const uint8_t *at) {
    const __m256i order = _mm256_set_epi32(7, 5, 3, 1, 6, 4, 2, 0);
    return _mm256_permutevar8x32_epi32(load(at), order);
}

static inline void step_f32(const lull__expo_fields_t *fields, size_t i,
                            uint8_t *dst, bool past) {
    __m256i b0 = spread_groups(fields->plane[0] + i);
    __m256i b1 = spread_groups(fields->plane[1] + i);
    __m256i b2, b3;
    join_high(spread_groups(fields->symbols + i),
              spread_groups(fields->plane[2] + i), &b3, &b2);
    __m256i low01 = _mm256_unpacklo_epi8(b0, b1);
    __m256i high01 = _mm256_unpackhi_epi8(b0, b1);
    __m256i low23 = _mm256_unpacklo_epi8(b2, b3);
    __m256i high23 = _mm256_unpackhi_epi8(b2, b3);
    uint8_t *to = dst + 4 * i;
    put_values(to, _mm256_unpacklo_epi16(low01, low23), past);
    put_values(to + 32, _mm256_unpackhi_epi16(low01, low23), past);
    put_values(to + 64, _mm256_unpacklo_epi16(high01, high23), past);
    put_values(to + 96, _mm256_unpackhi_epi16(high01, high23), past);
}

static void gather_f32(const lull__expo_fields_t *fields, size_t n,
                       uint8_t *dst) {
    GATHER(step_f32, LULL__EXPO_F32, 4);
}

/* ---- f64 --------------------------------------------------------------- */

static inline __m256i low_exponent(__m128i b7, __m128i b6) {
    __m256i high =
        _mm256_and_si256(_mm256_cvtepu8_epi16(b7), _mm256_set1_epi16(0x7f));
    return _mm256_or_si256(_mm256_slli_epi16(high, 4),
                           _mm256_srli_epi16(_mm256_cvtepu8_epi16(b6), 4));
}

static void scatter_f64(const uint8_t *src, size_t n,
                        const lull__expo_fields_t *fields) {
    size_t i = 0;
    for (; i + 32 <= n; i += 32) {
        __m256i b[8];
        lull__apart64(src + 8 * i, b);
        for (unsigned k = 0; k < 6; k++)
            store_plane(fields, k, i, b[k]);
        for (unsigned k = 0; k < 4; k++)
            store_bits(fields, k, i, _mm256_slli_epi16(b[6], (int)(7 - k)));
        store_bits(fields, 4, i, b[7]);
        store(fields->exponents + i,
              low_exponent(_mm256_castsi256_si128(b[7]),
                           _mm256_castsi256_si128(b[6])));
        store(fields->exponents + i + 16,
              low_exponent(_mm256_extracti128_si256(b[7], 1),
                           _mm256_extracti128_si256(b[6], 1)));
    }
    lull__expo_scatter_rest(LULL__EXPO_F64, src, n, i, fields, 8);
}

/* The low bytes of 32 words of 16 bits. */
static inline __m256i low_bytes(__m256i a, __m256i b) {
    const __m256i mask = _mm256_set1_epi16(0xff);
    return _mm256_permute4x64_epi64(
        _mm256_packus_epi16(_mm256_and_si256(a, mask),
                            _mm256_and_si256(b, mask)),
        0xd8);
}

static inline void step_f64(const lull__expo_fields_t *fields, size_t i,
                            uint8_t *dst, bool past) {
    __m256i x[8], y[8];
    __m256i e0 = load(fields->exponents + i);
    __m256i e1 = load(fields->exponents + i + 16);
    for (unsigned k = 0; k < 6; k++)
        x[k] = load(fields->plane[k] + i);
    x[6] = low_bytes(_mm256_slli_epi16(e0, 4), _mm256_slli_epi16(e1, 4));
    x[7] = low_bytes(_mm256_srli_epi16(e0, 4), _mm256_srli_epi16(e1, 4));
    for (unsigned k = 0; k < 4; k++)
        x[6] = _mm256_or_si256(x[6], bit_plane(fields, k, i, 1 << k));
    x[7] = _mm256_or_si256(x[7], bit_plane(fields, 4, i, 0x80));
    LULL__UNPACK(8, x, y)
    LULL__UNPACK(16, y, x)
    LULL__UNPACK(32, x, y)
    /* y[4a + 2b + c], read as bits: values from 8a + 4b + 2c on, and 16 later.
     */
    for (unsigned k = 0; k < 4; k++) {
        unsigned at = (k & 1) * 8 + (k >> 1) * 4;
        uint8_t *to = dst + 8 * (i + at);
        __m256i low = y[k], high = y[k + 4];
        put_values(to, _mm256_permute2x128_si256(low, high, 0x20), past);
        put_values(to + 128, _mm256_permute2x128_si256(low, high, 0x31), past);
    }
}

static void gather_f64(const lull__expo_fields_t *fields, size_t n,
                       uint8_t *dst) {
    GATHER(step_f64, LULL__EXPO_F64, 8);
}

const lull__expo_cut_t lull__expo_cut_avx2 = {
    .scatter = {[LULL__EXPO_F32] = scatter_f32,
                [LULL__EXPO_F16] = scatter_f16,
                [LULL__EXPO_BF16] = scatter_bf16,
                [LULL__EXPO_F64] = scatter_f64},
    .gather = {[LULL__EXPO_F32] = gather_f32,
               [LULL__EXPO_F16] = gather_f16,
               [LULL__EXPO_BF16] = gather_bf16,
               [LULL__EXPO_F64] = gather_f64},
    .past = {true, true, true, true},
    .copy = copy,
};
#else
typedef int lull__no_avx2;
#endif
