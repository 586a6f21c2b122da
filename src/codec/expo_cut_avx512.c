/* expo: values to fields and back, for AVX-512: 64 values at a time. */
#ifdef __AVX512VBMI2__
#include <immintrin.h>
#include <string.h>

#include "codec/expo.h"
#include "codec/words_avx512.h"

#define SELECT 0xca /* ternary logic: a ? b : c */

static inline __m512i choose(__m512i mask, __m512i yes, __m512i no) {
    return _mm512_ternarylogic_epi32(mask, yes, no, SELECT);
}

/* Highest and next byte of 64 values to exponents. */
static inline __m512i symbols_of(__m512i high, __m512i low) {
    __m512i carried =
        _mm512_and_si512(_mm512_srli_epi16(low, 7), _mm512_set1_epi8(1));
    return _mm512_or_si512(_mm512_add_epi8(high, high), carried);
}

/* Numbers 0, 2, 4, ... 126, or with 1 added: bytes of two registers. */
static inline __m512i even_bytes(void) {
    const __m512i base = _mm512_set_epi8(
        63, 62, 61, 60, 59, 58, 57, 56, 55, 54, 53, 52, 51, 50, 49, 48, 47, 46,
        45, 44, 43, 42, 41, 40, 39, 38, 37, 36, 35, 34, 33, 32, 31, 30, 29, 28,
        27, 26, 25, 24, 23, 22, 21, 20, 19, 18, 17, 16, 15, 14, 13, 12, 11, 10,
        9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
    return _mm512_add_epi8(base, base);
}

static inline __m512i add_bytes(__m512i x, int value) {
    return _mm512_add_epi8(x, _mm512_set1_epi8((char)value));
}

/* 0, 64, 1, 65, ...: bytes of two registers by turns; from the middle on if
 * `from` is 32. */
static inline __m512i interleaved(int from) {
    const __m512i words = _mm512_set_epi16(
        31, 30, 29, 28, 27, 26, 25, 24, 23, 22, 21, 20, 19, 18, 17, 16, 15, 14,
        13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
    __m512i both = _mm512_or_si512(words, _mm512_slli_epi16(words, 8));
    both = _mm512_add_epi16(both, _mm512_set1_epi16(0x4000));
    return add_bytes(both, from);
}

/* Stores of gathered values: past the caches, where dst must be aligned. */
static inline void put_values(uint8_t *dst, __m512i x, bool past) {
    if (past)
        _mm512_stream_si512((void *)dst, x);
    else
        _mm512_storeu_si512(dst, x);
}

/* The first value that a register's aligned store may begin with; n: none. Of
 * f64 and f16, with their planes of bits, a multiple of 8. */
static inline size_t first_aligned(const uint8_t *dst, unsigned size,
                                   size_t n) {
    size_t left = (0 - (uintptr_t)dst) % 64;
    const unsigned whole = size == 2 || size == 8 ? 8 * size : size;
    return left % whole == 0 && n >= 256 ? left / size : n;
}

/* Loops over 64 values at a time by step(fields, i, dst, past). */
#define GATHER(step, kind, size)                               \
    size_t i = fields->past ? first_aligned(dst, size, n) : n; \
    if (i < n) {                                               \
        lull__expo_cut_portable.gather[kind](fields, i, dst);  \
        for (; i + 64 <= n; i += 64)                           \
            step(fields, i, dst, true);                        \
    } else {                                                   \
        for (i = 0; i + 64 <= n; i += 64)                      \
            step(fields, i, dst, false);                       \
    }                                                          \
    lull__expo_gather_rest(kind, fields, n, i, dst, size)

static void copy(uint8_t *dst, const uint8_t *src, size_t bytes) {
    size_t i = first_aligned(dst, 1, bytes);
    memcpy(dst, src, i);
    for (; i + 64 <= bytes; i += 64)
        _mm512_stream_si512((void *)(dst + i), _mm512_loadu_si512(src + i));
    memcpy(dst + i, src + i, bytes - i);
}

static inline void store_plane(const lull__expo_fields_t *fields, unsigned k,
                               size_t i, __m512i x) {
    _mm512_storeu_si512((uint8_t *)fields->plane[k] + i, x);
}

static void scatter_bf16(const uint8_t *src, size_t n,
                         const lull__expo_fields_t *fields) {
    const __m512i even = even_bytes(), odd = add_bytes(even, 1);
    const __m512i mantissa = _mm512_set1_epi8(0x7f);
    size_t i = 0;
    for (; i + 64 <= n; i += 64) {
        __m512i a = _mm512_loadu_si512(src + 2 * i);
        __m512i b = _mm512_loadu_si512(src + 2 * i + 64);
        __m512i low = _mm512_permutex2var_epi8(a, even, b);
        __m512i high = _mm512_permutex2var_epi8(a, odd, b);
        _mm512_storeu_si512(fields->symbols + i, symbols_of(high, low));
        store_plane(fields, 0, i, choose(mantissa, low, high));
    }
    lull__expo_scatter_rest(LULL__EXPO_BF16, src, n, i, fields, 2);
}

/* Exponents and the plane with the sign to the two highest bytes. */
static inline void join_high(__m512i symbols, __m512i signs, __m512i *high,
                             __m512i *low) {
    const __m512i mantissa = _mm512_set1_epi8(0x7f);
    *high = choose(mantissa, _mm512_srli_epi16(symbols, 1), signs);
    *low = choose(mantissa, signs, _mm512_slli_epi16(symbols, 7));
}

static inline void step_bf16(const lull__expo_fields_t *fields, size_t i,
                             uint8_t *dst, bool past) {
    const __m512i first = interleaved(0), second = interleaved(32);
    __m512i high, low;
    join_high(_mm512_loadu_si512(fields->symbols + i),
              _mm512_loadu_si512(fields->plane[0] + i), &high, &low);
    put_values(dst + 2 * i, _mm512_permutex2var_epi8(low, first, high), past);
    put_values(dst + 2 * i + 64, _mm512_permutex2var_epi8(low, second, high),
               past);
}

static void gather_bf16(const lull__expo_fields_t *fields, size_t n,
                        uint8_t *dst) {
    GATHER(step_bf16, LULL__EXPO_BF16, 2);
}

static inline void store_bits(const lull__expo_fields_t *fields, unsigned k,
                              size_t i, uint64_t bits) {
    memcpy((uint8_t *)fields->bits[k] + i / 8, &bits, 8);
}

static void scatter_f16(const uint8_t *src, size_t n,
                        const lull__expo_fields_t *fields) {
    const __m512i even = even_bytes(), odd = add_bytes(even, 1);
    size_t i = 0;
    for (; i + 64 <= n; i += 64) {
        __m512i a = _mm512_loadu_si512(src + 2 * i);
        __m512i b = _mm512_loadu_si512(src + 2 * i + 64);
        __m512i high = _mm512_permutex2var_epi8(a, odd, b);
        store_plane(fields, 0, i, _mm512_permutex2var_epi8(a, even, b));
        _mm512_storeu_si512(fields->symbols + i,
                            _mm512_and_si512(_mm512_srli_epi16(high, 2),
                                             _mm512_set1_epi8(0x1f)));
        store_bits(fields, 0, i,
                   _mm512_test_epi8_mask(high, _mm512_set1_epi8(1)));
        store_bits(fields, 1, i,
                   _mm512_test_epi8_mask(high, _mm512_set1_epi8(2)));
        store_bits(fields, 2, i, _mm512_movepi8_mask(high));
    }
    lull__expo_scatter_rest(LULL__EXPO_F16, src, n, i, fields, 2);
}

static inline __m512i bit_plane(const lull__expo_fields_t *fields, unsigned k,
                                size_t i, int bit) {
    uint64_t bits;
    memcpy(&bits, fields->bits[k] + i / 8, 8);
    return _mm512_maskz_set1_epi8(bits, (char)bit);
}

static inline void gather64_f16(const lull__expo_fields_t *fields, size_t i,
                                uint8_t *dst, bool past) {
    const __m512i first = interleaved(0), second = interleaved(32);
    __m512i low = _mm512_loadu_si512(fields->plane[0] + i);
    __m512i high = _mm512_and_si512(
        _mm512_slli_epi16(_mm512_loadu_si512(fields->symbols + i), 2),
        _mm512_set1_epi8(0x7c));
    high = _mm512_or_si512(high, bit_plane(fields, 0, i, 1));
    high = _mm512_or_si512(high, bit_plane(fields, 1, i, 2));
    high = _mm512_or_si512(high, bit_plane(fields, 2, i, 0x80));
    put_values(dst + 2 * i, _mm512_permutex2var_epi8(low, first, high), past);
    put_values(dst + 2 * i + 64, _mm512_permutex2var_epi8(low, second, high),
               past);
}

static void gather_f16(const lull__expo_fields_t *fields, size_t n,
                       uint8_t *dst) {
    GATHER(gather64_f16, LULL__EXPO_F16, 2);
}

/* Bytes k and k + 1 of 32 four-byte values: the one in the lower half. */
static inline __m512i every_fourth(int k) {
    __m512i numbers = even_bytes();
    numbers = _mm512_add_epi8(numbers, numbers); /* mod 128 the upper half */
    __m512i half =
        _mm512_inserti64x4(_mm512_setzero_si512(), _mm256_set1_epi8(1), 1);
    numbers = _mm512_and_si512(numbers, _mm512_set1_epi8(127));
    return add_bytes(_mm512_add_epi8(numbers, half), k);
}

static void scatter_f32(const uint8_t *src, size_t n,
                        const lull__expo_fields_t *fields) {
    const __m512i pick01 = every_fourth(0), pick23 = every_fourth(2);
    const __m512i mantissa = _mm512_set1_epi8(0x7f);
    size_t i = 0;
    for (; i + 64 <= n; i += 64) {
        __m512i a = _mm512_loadu_si512(src + 4 * i);
        __m512i b = _mm512_loadu_si512(src + 4 * i + 64);
        __m512i c = _mm512_loadu_si512(src + 4 * i + 128);
        __m512i d = _mm512_loadu_si512(src + 4 * i + 192);
        __m512i ab01 = _mm512_permutex2var_epi8(a, pick01, b);
        __m512i cd01 = _mm512_permutex2var_epi8(c, pick01, d);
        __m512i ab23 = _mm512_permutex2var_epi8(a, pick23, b);
        __m512i cd23 = _mm512_permutex2var_epi8(c, pick23, d);
        store_plane(fields, 0, i, _mm512_shuffle_i64x2(ab01, cd01, 0x44));
        store_plane(fields, 1, i, _mm512_shuffle_i64x2(ab01, cd01, 0xee));
        __m512i low = _mm512_shuffle_i64x2(ab23, cd23, 0x44);
        __m512i high = _mm512_shuffle_i64x2(ab23, cd23, 0xee);
        _mm512_storeu_si512(fields->symbols + i, symbols_of(high, low));
        store_plane(fields, 2, i, choose(mantissa, low, high));
    }
    lull__expo_scatter_rest(LULL__EXPO_F32, src, n, i, fields, 4);
}

/* So that after two rounds of unpacking, which works within 16 bytes, values
 * stand in order: 4 by 4 groups of four bytes, transposed. */
static inline __m512i spread_groups(__m512i x) {
    const __m512i order =
        _mm512_set_epi32(15, 11, 7, 3, 14, 10, 6, 2, 13, 9, 5, 1, 12, 8, 4, 0);
    return _mm512_permutexvar_epi32(order, x);
}

static inline void step_f32(const lull__expo_fields_t *fields, size_t i,
                            uint8_t *dst, bool past) {
    __m512i b0 = spread_groups(_mm512_loadu_si512(fields->plane[0] + i));
    __m512i b1 = spread_groups(_mm512_loadu_si512(fields->plane[1] + i));
    __m512i signs = spread_groups(_mm512_loadu_si512(fields->plane[2] + i));
    __m512i symbols = spread_groups(_mm512_loadu_si512(fields->symbols + i));
    __m512i b2, b3;
    join_high(symbols, signs, &b3, &b2);
    __m512i low01 = _mm512_unpacklo_epi8(b0, b1);
    __m512i high01 = _mm512_unpackhi_epi8(b0, b1);
    __m512i low23 = _mm512_unpacklo_epi8(b2, b3);
    __m512i high23 = _mm512_unpackhi_epi8(b2, b3);
    uint8_t *to = dst + 4 * i;
    put_values(to, _mm512_unpacklo_epi16(low01, low23), past);
    put_values(to + 64, _mm512_unpackhi_epi16(low01, low23), past);
    put_values(to + 128, _mm512_unpacklo_epi16(high01, high23), past);
    put_values(to + 192, _mm512_unpackhi_epi16(high01, high23), past);
}

static void gather_f32(const lull__expo_fields_t *fields, size_t n,
                       uint8_t *dst) {
    GATHER(step_f32, LULL__EXPO_F32, 4);
}

/* ---- f64 --------------------------------------------------------------- */

/* Bytes 8k + j and 8j + k change places. */
static inline __m512i turned(__m512i x) {
    const __m512i low = _mm512_set1_epi64(0x3830282018100800);
    const __m512i add = _mm512_set_epi64(0x0707070707070707, 0x0606060606060606,
                                         0x0505050505050505, 0x0404040404040404,
                                         0x0303030303030303, 0x0202020202020202,
                                         0x0101010101010101, 0);
    return _mm512_permutexvar_epi8(_mm512_add_epi8(low, add), x);
}

static inline __m512i exponents_of(__m256i b7, __m256i b6) {
    __m512i high =
        _mm512_and_si512(_mm512_cvtepu8_epi16(b7), _mm512_set1_epi16(0x7f));
    return _mm512_or_si512(_mm512_slli_epi16(high, 4),
                           _mm512_srli_epi16(_mm512_cvtepu8_epi16(b6), 4));
}

static void scatter_f64(const uint8_t *src, size_t n,
                        const lull__expo_fields_t *fields) {
    size_t i = 0;
    for (; i + 64 <= n; i += 64) {
        __m512i b[8];
        for (unsigned k = 0; k < 8; k++)
            b[k] = turned(_mm512_loadu_si512(src + 8 * i + 64 * k));
        lull__transpose_words(b);
        for (unsigned k = 0; k < 6; k++)
            store_plane(fields, k, i, b[k]);
        for (unsigned k = 0; k < 4; k++)
            store_bits(
                fields, k, i,
                _mm512_test_epi8_mask(b[6], _mm512_set1_epi8((char)(1 << k))));
        store_bits(fields, 4, i, _mm512_movepi8_mask(b[7]));
        _mm512_storeu_si512(fields->exponents + i,
                            exponents_of(_mm512_castsi512_si256(b[7]),
                                         _mm512_castsi512_si256(b[6])));
        _mm512_storeu_si512(fields->exponents + i + 32,
                            exponents_of(_mm512_extracti64x4_epi64(b[7], 1),
                                         _mm512_extracti64x4_epi64(b[6], 1)));
    }
    lull__expo_scatter_rest(LULL__EXPO_F64, src, n, i, fields, 8);
}

/* The low bytes of 64 words of 16 bits. */
static inline __m512i low_bytes(__m512i a, __m512i b) {
    return _mm512_inserti64x4(_mm512_castsi256_si512(_mm512_cvtepi16_epi8(a)),
                              _mm512_cvtepi16_epi8(b), 1);
}

static inline void step_f64(const lull__expo_fields_t *fields, size_t i,
                            uint8_t *dst, bool past) {
    __m512i e0 = _mm512_loadu_si512(fields->exponents + i);
    __m512i e1 = _mm512_loadu_si512(fields->exponents + i + 32), b[8];
    for (unsigned k = 0; k < 6; k++)
        b[k] = _mm512_loadu_si512(fields->plane[k] + i);
    b[6] = low_bytes(_mm512_slli_epi16(e0, 4), _mm512_slli_epi16(e1, 4));
    b[7] = low_bytes(_mm512_srli_epi16(e0, 4), _mm512_srli_epi16(e1, 4));
    for (unsigned k = 0; k < 4; k++)
        b[6] = _mm512_or_si512(b[6], bit_plane(fields, k, i, 1 << k));
    b[7] = _mm512_or_si512(b[7], bit_plane(fields, 4, i, 0x80));
    lull__transpose_words(b);
    for (unsigned k = 0; k < 8; k++)
        put_values(dst + 8 * i + 64 * k, turned(b[k]), past);
}

static void gather_f64(const lull__expo_fields_t *fields, size_t n,
                       uint8_t *dst) {
    GATHER(step_f64, LULL__EXPO_F64, 8);
}

const lull__expo_cut_t lull__expo_cut_avx512 = {
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
typedef int lull__no_avx512;
#endif
