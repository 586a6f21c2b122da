/* MXINT8's kernels for AVX-512. */
#ifdef __AVX512F__
#include <immintrin.h>
#include <string.h>

#include "codec/mxint8.h"

#define INLINE inline __attribute__((always_inline))

/* A block of 32 values as floats. */
typedef struct pair {
    __m512 low, high;
} pair_t;

static inline pair_t load_f32(const uint8_t *src) {
    return (pair_t){_mm512_loadu_ps(src), _mm512_loadu_ps(src + 64)};
}

static inline pair_t load_f16(const uint8_t *src) {
    __m512i both = _mm512_loadu_si512(src);
    return (pair_t){_mm512_cvtph_ps(_mm512_castsi512_si256(both)),
                    _mm512_cvtph_ps(_mm512_extracti64x4_epi64(both, 1))};
}

static inline __m512 widen_bf16(__m256i half) {
    __m512i wide = _mm512_cvtepu16_epi32(half);
    return _mm512_castsi512_ps(_mm512_slli_epi32(wide, 16));
}

static inline pair_t load_bf16(const uint8_t *src) {
    __m512i both = _mm512_loadu_si512(src);
    return (pair_t){widen_bf16(_mm512_castsi512_si256(both)),
                    widen_bf16(_mm512_extracti64x4_epi64(both, 1))};
}

/* The largest magnitude's bits, in every lane. Narrow as soon as it can be:
 * a 512-bit operation takes two cycles of a 256-bit unit. */
static inline __m128i most_of(pair_t x) {
    const __m512i mask = _mm512_set1_epi32(0x7fffffff);
    __m512i m =
        _mm512_max_epu32(_mm512_and_si512(_mm512_castps_si512(x.low), mask),
                         _mm512_and_si512(_mm512_castps_si512(x.high), mask));
    __m256i half = _mm256_max_epu32(_mm512_castsi512_si256(m),
                                    _mm512_extracti64x4_epi64(m, 1));
    __m128i q = _mm_max_epu32(_mm256_castsi256_si128(half),
                              _mm256_extracti128_si256(half, 1));
    q = _mm_max_epu32(q, _mm_shuffle_epi32(q, 0x4e));
    return _mm_max_epu32(q, _mm_shuffle_epi32(q, 0xb1));
}

static inline __m512i noise_of(__m512i counter) {
    __m512i z = counter;
    z = _mm512_xor_si512(z, _mm512_srli_epi32(z, 16));
    z = _mm512_mullo_epi32(z, _mm512_set1_epi32((int)0x85ebca6bu));
    z = _mm512_xor_si512(z, _mm512_srli_epi32(z, 13));
    z = _mm512_mullo_epi32(z, _mm512_set1_epi32((int)0xc2b2ae35u));
    return _mm512_srli_epi32(z, 16);
}

/* t: 2^16 times elements. */
static inline __m128i add_noise(__m512i t, __m512i counter) {
    t = _mm512_add_epi32(t, noise_of(counter));
    return _mm512_cvtsepi32_epi8(_mm512_srai_epi32(t, 16));
}

static inline __m128i round_random(__m512 y, __m512i counter) {
    __m512 fine = _mm512_mul_ps(y, _mm512_set1_ps(65536));
    return add_noise(_mm512_cvtps_epi32(fine), counter);
}

#define STEP _mm512_set1_epi32((int)0x9e3779b1u)

/* The counters of 16 elements from the first on. */
static inline __m512i counter_of(uint32_t key) {
    const __m512i lanes =
        _mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
    return _mm512_add_epi32(_mm512_set1_epi32((int)key),
                            _mm512_mullo_epi32(lanes, STEP));
}

static inline void store_elements(uint8_t *to, __m128i low, __m128i high) {
    __m256i q = _mm256_inserti128_si256(_mm256_castsi128_si256(low), high, 1);
    q = _mm256_max_epi8(q, _mm256_set1_epi8(-127));
    _mm256_storeu_si256((__m256i *)to, q);
}

/* Blocks that are not finite: elements of zero, as nothing else is defined. */
static void clear_nan(const uint8_t *scales, uint8_t *elements, size_t blocks) {
    for (size_t b = 0; b < blocks; b++)
        if (scales[b] == 255)
            memset(elements + b * LULL__MX_BLOCK, 0, LULL__MX_BLOCK);
}

#define ENCODE(name, dtype, size, KEY, random)                                \
    static lull__mx_range_t name##_##dtype(const uint8_t *src, size_t blocks, \
                                           uint8_t *scales,                   \
                                           uint8_t *elements KEY) {           \
        __m128i all = _mm_setzero_si128(), least = _mm_set1_epi32(-1);        \
        INIT_##random;                                                        \
        for (size_t b = 0; b < blocks; b++) {                                 \
            pair_t x = load_##dtype(src + b * LULL__MX_BLOCK * (size));       \
            __m128i most = most_of(x);                                        \
            __m128i code = _mm_srli_epi32(most, 23);                          \
            __m512 shift = _mm512_broadcastss_ps(                             \
                _mm_cvtepi32_ps(_mm_sub_epi32(_mm_set1_epi32(133), code)));   \
            all = _mm_max_epu32(all, most);                                   \
            least =                                                           \
                _mm_min_epu32(least, _mm_sub_epi32(most, _mm_set1_epi32(1))); \
            scales[b] = (uint8_t)_mm_cvtsi128_si32(code);                     \
            __m512 low = _mm512_scalef_ps(x.low, shift);                      \
            __m512 high = _mm512_scalef_ps(x.high, shift);                    \
            store_elements(elements + b * LULL__MX_BLOCK,                     \
                           ROUND_##random(low, 0), ROUND_##random(high, 1));  \
            NEXT_##random;                                                    \
        }                                                                     \
        uint32_t most = (uint32_t)_mm_cvtsi128_si32(all);                     \
        uint32_t less = (uint32_t)_mm_cvtsi128_si32(least);                   \
        if (most >= LULL__MX_INF_F32)                                         \
            clear_nan(scales, elements, blocks);                              \
        return (lull__mx_range_t){most,                                       \
                                  less == UINT32_MAX ? UINT64_MAX : less};    \
    }

#define INIT_false (void)0
#define NEXT_false (void)0
#define ROUND_false(y, half) _mm512_cvtsepi32_epi8(_mm512_cvtps_epi32(y))
#define INIT_true                                       \
    const __m512i sixteen = _mm512_slli_epi32(STEP, 4); \
    __m512i counter = counter_of(key)
#define NEXT_true \
    counter = _mm512_add_epi32(counter, _mm512_slli_epi32(STEP, 5))
#define ROUND_true(y, half) \
    round_random(y, half ? _mm512_add_epi32(counter, sixteen) : counter)
#define NO_KEY
#define WITH_KEY , uint32_t key

ENCODE(encode, f32, 4, NO_KEY, false)
ENCODE(encode, f16, 2, NO_KEY, false)
ENCODE(encode, bf16, 2, NO_KEY, false)
ENCODE(encode_random, f32, 4, WITH_KEY, true)
ENCODE(encode_random, f16, 2, WITH_KEY, true)
ENCODE(encode_random, bf16, 2, WITH_KEY, true)

/* ---- Doubles ----------------------------------------------------------- */

static inline __m512d double_of(uint64_t bits) {
    return _mm512_castsi512_pd(_mm512_set1_epi64((long long)bits));
}

/* Sixteen of them to the nearest integers. */
static inline __m512i nearest_f64(const uint8_t *src, __m512d factor) {
    __m256i low =
        _mm512_cvtpd_epi32(_mm512_mul_pd(_mm512_loadu_pd(src), factor));
    __m256i high =
        _mm512_cvtpd_epi32(_mm512_mul_pd(_mm512_loadu_pd(src + 64), factor));
    return _mm512_inserti64x4(_mm512_castsi256_si512(low), high, 1);
}

static inline uint64_t most_of_f64(const uint8_t *src) {
    const __m512i mask = _mm512_set1_epi64(INT64_MAX);
    __m512i m = _mm512_setzero_si512();
    for (unsigned i = 0; i < 4; i++) {
        __m512i x = _mm512_loadu_si512(src + 64 * i);
        m = _mm512_max_epu64(m, _mm512_and_si512(x, mask));
    }
    return (uint64_t)_mm512_reduce_max_epu64(m);
}

static INLINE lull__mx_range_t encode_all_f64(const uint8_t *src, size_t blocks,
                                              uint8_t *scales,
                                              uint8_t *elements,
                                              const uint32_t *key) {
    lull__mx_range_t range = {0, UINT64_MAX};
    __m512i counter = _mm512_setzero_si512();
    if (key != NULL)
        counter = counter_of(*key);
    for (size_t b = 0; b < blocks; b++, src += 8 * LULL__MX_BLOCK) {
        uint64_t most = most_of_f64(src);
        unsigned code = lull__mx_code_f64(most);
        lull__mx_see(&range, most);
        scales[b] = (uint8_t)code;
        __m512d factor = double_of(lull__mx_factor_f64(code));
        __m128i q[2];
        for (unsigned i = 0; i < 2; i++) {
            const uint8_t *from = src + 128 * i;
            if (key != NULL) {
                __m512d fine = _mm512_mul_pd(factor, _mm512_set1_pd(65536));
                q[i] = add_noise(nearest_f64(from, fine), counter);
                counter = _mm512_add_epi32(counter, _mm512_slli_epi32(STEP, 4));
            } else {
                q[i] = _mm512_cvtsepi32_epi8(nearest_f64(from, factor));
            }
        }
        store_elements(elements + b * LULL__MX_BLOCK, q[0], q[1]);
    }
    if (range.most >> 52 >= 1023 + 128)
        clear_nan(scales, elements, blocks);
    return range;
}

static lull__mx_range_t encode_f64(const uint8_t *src, size_t blocks,
                                   uint8_t *scales, uint8_t *elements) {
    return encode_all_f64(src, blocks, scales, elements, NULL);
}

static lull__mx_range_t encode_random_f64(const uint8_t *src, size_t blocks,
                                          uint8_t *scales, uint8_t *elements,
                                          uint32_t key) {
    return encode_all_f64(src, blocks, scales, elements, &key);
}

/* ---- Decoding ---------------------------------------------------------- */

static inline pair_t values_of(uint8_t scale, const uint8_t *elements) {
    __m512 unit =
        _mm512_castsi512_ps(_mm512_set1_epi32((int)lull__mx_unit(scale)));
    __m512i low = _mm512_cvtepi8_epi32(_mm_loadu_si128((const void *)elements));
    __m512i high =
        _mm512_cvtepi8_epi32(_mm_loadu_si128((const void *)(elements + 16)));
    return (pair_t){_mm512_mul_ps(_mm512_cvtepi32_ps(low), unit),
                    _mm512_mul_ps(_mm512_cvtepi32_ps(high), unit)};
}

static inline void store_f32(uint8_t *dst, pair_t x) {
    _mm512_storeu_ps(dst, x.low);
    _mm512_storeu_ps(dst + 64, x.high);
}

static inline __m256i halves(__m512 x) {
    return _mm512_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}

static inline void store_f16(uint8_t *dst, pair_t x) {
    _mm256_storeu_si256((void *)dst, halves(x.low));
    _mm256_storeu_si256((void *)(dst + 32), halves(x.high));
}

/* Elements have 7 bits, so nothing is cut off. */
static inline void store_bf16(uint8_t *dst, pair_t x) {
    const __m512i odd = _mm512_set_epi16(
        63, 61, 59, 57, 55, 53, 51, 49, 47, 45, 43, 41, 39, 37, 35, 33, 31, 29,
        27, 25, 23, 21, 19, 17, 15, 13, 11, 9, 7, 5, 3, 1);
    _mm512_storeu_si512(
        dst, _mm512_permutex2var_epi16(_mm512_castps_si512(x.low), odd,
                                       _mm512_castps_si512(x.high)));
}

static inline void add_f32(uint8_t *sum, pair_t x) {
    _mm512_storeu_ps(sum, _mm512_add_ps(_mm512_loadu_ps(sum), x.low));
    _mm512_storeu_ps(sum + 64,
                     _mm512_add_ps(_mm512_loadu_ps(sum + 64), x.high));
}

static inline void add_f16(uint8_t *sum, pair_t x) {
    add_f32(sum, (pair_t){_mm512_cvtph_ps(halves(x.low)),
                          _mm512_cvtph_ps(halves(x.high))});
}

static inline __m512d eight_of(double unit, const uint8_t *elements) {
    __m256i wide =
        _mm256_cvtepi8_epi32(_mm_loadl_epi64((const void *)elements));
    return _mm512_mul_pd(_mm512_cvtepi32_pd(wide), _mm512_set1_pd(unit));
}

static INLINE void decode_all_f64(const uint8_t *scales,
                                  const uint8_t *elements, size_t blocks,
                                  uint8_t *dst, bool add) {
    for (size_t i = 0; i < 4 * blocks; i++) {
        double unit = lull__mx_unit_value(scales[i / 4]);
        __m512d x = eight_of(unit, elements + 8 * i);
        if (add)
            x = _mm512_add_pd(_mm512_loadu_pd(dst + 64 * i), x);
        _mm512_storeu_pd(dst + 64 * i, x);
    }
}

static void decode_f64(const uint8_t *scales, const uint8_t *elements,
                       size_t blocks, uint8_t *dst) {
    decode_all_f64(scales, elements, blocks, dst, false);
}

static void decode_add_f64(const uint8_t *scales, const uint8_t *elements,
                           size_t blocks, uint8_t *sum) {
    decode_all_f64(scales, elements, blocks, sum, true);
}

#define DECODE(put, size)                                                    \
    static void decode_##put(const uint8_t *scales, const uint8_t *elements, \
                             size_t blocks, uint8_t *dst) {                  \
        for (size_t b = 0; b < blocks; b++)                                  \
            put(dst + b * LULL__MX_BLOCK * (size),                           \
                values_of(scales[b], elements + b * LULL__MX_BLOCK));        \
    }

DECODE(store_f32, 4)
DECODE(store_f16, 2)
DECODE(store_bf16, 2)
DECODE(add_f32, 4)
DECODE(add_f16, 4)

const lull__mx_kernel_t lull__mx_avx512[LULL__MX_KINDS] = {
    [LULL__MX_F32] = {encode_f32, encode_random_f32, decode_store_f32,
                      decode_add_f32},
    [LULL__MX_F16] = {encode_f16, encode_random_f16, decode_store_f16,
                      decode_add_f16},
    [LULL__MX_BF16] = {encode_bf16, encode_random_bf16, decode_store_bf16,
                       decode_add_f32},
    [LULL__MX_F64] = {encode_f64, encode_random_f64, decode_f64,
                      decode_add_f64},
};
#else
typedef int lull__no_avx512;
#endif
