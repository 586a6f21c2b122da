/* MXINT8's kernels for AVX2. */
#ifdef __AVX2__
#include <immintrin.h>
#include <string.h>

#include "codec/mxint8.h"

#define INLINE inline __attribute__((always_inline))

/* A block of 32 values as floats. */
typedef struct floats {
    __m256 part[4];
} floats_t;

static inline __m256i load(const uint8_t *src) {
    return _mm256_loadu_si256((const void *)src);
}

static inline __m128i load_half(const uint8_t *src) {
    return _mm_loadu_si128((const void *)src);
}

static inline __m256 load_f32(const uint8_t *src, unsigned i) {
    return _mm256_castsi256_ps(load(src + i * 32));
}

static inline __m256 load_f16(const uint8_t *src, unsigned i) {
    return _mm256_cvtph_ps(load_half(src + i * 16));
}

static inline __m256 load_bf16(const uint8_t *src, unsigned i) {
    __m256i wide = _mm256_cvtepu16_epi32(load_half(src + i * 16));
    return _mm256_castsi256_ps(_mm256_slli_epi32(wide, 16));
}

/* The largest magnitude's bits, in every lane. Without a sign the order of
 * floats is that of their bits. */
static inline __m256i most_of(const floats_t *x) {
    const __m256i mask = _mm256_set1_epi32(0x7fffffff);
    __m256i m = _mm256_and_si256(_mm256_castps_si256(x->part[0]), mask);
    for (unsigned i = 1; i < 4; i++)
        m = _mm256_max_epu32(
            m, _mm256_and_si256(_mm256_castps_si256(x->part[i]), mask));
    m = _mm256_max_epu32(m, _mm256_permute2x128_si256(m, m, 1));
    m = _mm256_max_epu32(m, _mm256_shuffle_epi32(m, 0x4e));
    return _mm256_max_epu32(m, _mm256_shuffle_epi32(m, 0xb1));
}

static inline __m256i noise_of(__m256i z) {
    z = _mm256_xor_si256(z, _mm256_srli_epi32(z, 16));
    z = _mm256_mullo_epi32(z, _mm256_set1_epi32((int)0x85ebca6bu));
    z = _mm256_xor_si256(z, _mm256_srli_epi32(z, 13));
    z = _mm256_mullo_epi32(z, _mm256_set1_epi32((int)0xc2b2ae35u));
    return _mm256_srli_epi32(z, 16);
}

/* t: 2^16 times elements. */
static inline __m256i add_noise(__m256i t, __m256i counter) {
    return _mm256_srai_epi32(_mm256_add_epi32(t, noise_of(counter)), 16);
}

static inline __m256i round_random(__m256 y, __m256i counter) {
    __m256 fine = _mm256_mul_ps(y, _mm256_set1_ps(65536));
    return add_noise(_mm256_cvtps_epi32(fine), counter);
}

#define STEP _mm256_set1_epi32((int)0x9e3779b1u)

/* The counters of 8 elements from the first on. */
static inline __m256i counter_of(uint32_t key) {
    const __m256i lanes = _mm256_set_epi32(7, 6, 5, 4, 3, 2, 1, 0);
    return _mm256_add_epi32(_mm256_set1_epi32((int)key),
                            _mm256_mullo_epi32(lanes, STEP));
}

static inline void store_elements(uint8_t *to, const __m256i *q) {
    const __m256i order = _mm256_set_epi32(7, 3, 6, 2, 5, 1, 4, 0);
    __m256i bytes = _mm256_packs_epi16(_mm256_packs_epi32(q[0], q[1]),
                                       _mm256_packs_epi32(q[2], q[3]));
    bytes = _mm256_permutevar8x32_epi32(bytes, order);
    bytes = _mm256_max_epi8(bytes, _mm256_set1_epi8(-127));
    _mm256_storeu_si256((__m256i *)to, bytes);
}

/* Blocks that are not finite: elements of zero, as nothing else is defined. */
static void clear_nan(const uint8_t *scales, uint8_t *elements, size_t blocks) {
    for (size_t b = 0; b < blocks; b++)
        if (scales[b] == 255)
            memset(elements + b * LULL__MX_BLOCK, 0, LULL__MX_BLOCK);
}

/* 2^(133 - code), as two factors: alone it would overflow under a code of 6.
 * The products are exact. */
static inline void factors_of(__m256i code, __m256 *first, __m256 *second) {
    const __m256i six = _mm256_set1_epi32(6);
    __m256i high = _mm256_max_epi32(code, six);
    __m256i low = _mm256_sub_epi32(high, code);
    *first = _mm256_castsi256_ps(
        _mm256_slli_epi32(_mm256_sub_epi32(_mm256_set1_epi32(260), high), 23));
    *second = _mm256_castsi256_ps(
        _mm256_slli_epi32(_mm256_add_epi32(_mm256_set1_epi32(127), low), 23));
}

#define ENCODE(name, dtype, size, KEY, random)                                \
    static lull__mx_range_t name##_##dtype(const uint8_t *src, size_t blocks, \
                                           uint8_t *scales,                   \
                                           uint8_t *elements KEY) {           \
        __m256i all = _mm256_setzero_si256(), least = _mm256_set1_epi32(-1);  \
        INIT_##random;                                                        \
        for (size_t b = 0; b < blocks; b++) {                                 \
            const uint8_t *at = src + b * LULL__MX_BLOCK * (size);            \
            floats_t x = {{load_##dtype(at, 0), load_##dtype(at, 1),          \
                           load_##dtype(at, 2), load_##dtype(at, 3)}};        \
            __m256i most = most_of(&x), q[4];                                 \
            __m256i code = _mm256_srli_epi32(most, 23);                       \
            __m256 first, second;                                             \
            factors_of(code, &first, &second);                                \
            all = _mm256_max_epu32(all, most);                                \
            least = _mm256_min_epu32(                                         \
                least, _mm256_sub_epi32(most, _mm256_set1_epi32(1)));         \
            scales[b] =                                                       \
                (uint8_t)_mm_cvtsi128_si32(_mm256_castsi256_si128(code));     \
            for (unsigned i = 0; i < 4; i++) {                                \
                __m256 y = _mm256_mul_ps(x.part[i], first);                   \
                q[i] = ROUND_##random(_mm256_mul_ps(y, second));              \
                NEXT_##random;                                                \
            }                                                                 \
            store_elements(elements + b * LULL__MX_BLOCK, q);                 \
        }                                                                     \
        uint32_t most = (uint32_t)_mm256_cvtsi256_si32(all);                  \
        uint32_t less = (uint32_t)_mm256_cvtsi256_si32(least);                \
        if (most >= LULL__MX_INF_F32)                                         \
            clear_nan(scales, elements, blocks);                              \
        return (lull__mx_range_t){most,                                       \
                                  less == UINT32_MAX ? UINT64_MAX : less};    \
    }

#define INIT_false (void)0
#define NEXT_false (void)0
#define ROUND_false(y) _mm256_cvtps_epi32(y)
#define INIT_true __m256i counter = counter_of(key)
#define NEXT_true \
    counter = _mm256_add_epi32(counter, _mm256_slli_epi32(STEP, 3))
#define ROUND_true(y) round_random(y, counter)
#define NO_KEY
#define WITH_KEY , uint32_t key

ENCODE(encode, f32, 4, NO_KEY, false)
ENCODE(encode, f16, 2, NO_KEY, false)
ENCODE(encode, bf16, 2, NO_KEY, false)
ENCODE(encode_random, f32, 4, WITH_KEY, true)
ENCODE(encode_random, f16, 2, WITH_KEY, true)
ENCODE(encode_random, bf16, 2, WITH_KEY, true)

/* ---- Doubles ----------------------------------------------------------- */

/* Eight of them to the nearest integers. */
static inline __m256i nearest_f64(const uint8_t *src, double factor) {
    const double *from = (const void *)src;
    __m256d f = _mm256_set1_pd(factor);
    __m128i low = _mm256_cvtpd_epi32(_mm256_mul_pd(_mm256_loadu_pd(from), f));
    __m128i high =
        _mm256_cvtpd_epi32(_mm256_mul_pd(_mm256_loadu_pd(from + 4), f));
    return _mm256_inserti128_si256(_mm256_castsi128_si256(low), high, 1);
}

static inline __m256i larger(__m256i a, __m256i b) {
    return _mm256_blendv_epi8(b, a, _mm256_cmpgt_epi64(a, b));
}

static inline uint64_t most_of_f64(const uint8_t *src) {
    const __m256i mask = _mm256_set1_epi64x(INT64_MAX);
    __m256i m = _mm256_setzero_si256();
    for (unsigned i = 0; i < 8; i++)
        m = larger(m, _mm256_and_si256(load(src + 32 * i), mask));
    m = larger(m, _mm256_permute2x128_si256(m, m, 1));
    m = larger(m, _mm256_shuffle_epi32(m, 0x4e));
    return (uint64_t)_mm256_extract_epi64(m, 0);
}

static INLINE lull__mx_range_t encode_all_f64(const uint8_t *src, size_t blocks,
                                              uint8_t *scales,
                                              uint8_t *elements,
                                              const uint32_t *key) {
    lull__mx_range_t range = {0, UINT64_MAX};
    __m256i counter = _mm256_setzero_si256();
    if (key != NULL)
        counter = counter_of(*key);
    for (size_t b = 0; b < blocks; b++, src += 8 * LULL__MX_BLOCK) {
        uint64_t most = most_of_f64(src);
        unsigned code = lull__mx_code_f64(most);
        lull__mx_see(&range, most);
        scales[b] = (uint8_t)code;
        uint64_t bits = lull__mx_factor_f64(code);
        double factor;
        memcpy(&factor, &bits, sizeof factor);
        __m256i q[4];
        for (unsigned i = 0; i < 4; i++) {
            if (key != NULL) {
                q[i] = add_noise(nearest_f64(src + 64 * i, factor * 65536),
                                 counter);
                counter = _mm256_add_epi32(counter, _mm256_slli_epi32(STEP, 3));
            } else {
                q[i] = nearest_f64(src + 64 * i, factor);
            }
        }
        store_elements(elements + b * LULL__MX_BLOCK, q);
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

static inline __m256 value_of(__m256 unit, const uint8_t *elements) {
    __m128i eight = _mm_loadl_epi64((const void *)elements);
    __m256i wide = _mm256_cvtepi8_epi32(eight);
    return _mm256_mul_ps(_mm256_cvtepi32_ps(wide), unit);
}

static inline floats_t values_of(uint8_t scale, const uint8_t *elements) {
    __m256 unit =
        _mm256_castsi256_ps(_mm256_set1_epi32((int)lull__mx_unit(scale)));
    return (floats_t){{value_of(unit, elements), value_of(unit, elements + 8),
                       value_of(unit, elements + 16),
                       value_of(unit, elements + 24)}};
}

static inline void store_f32(uint8_t *dst, const floats_t *x) {
    for (unsigned i = 0; i < 4; i++)
        _mm256_storeu_ps((float *)(void *)(dst + i * 32), x->part[i]);
}

static inline __m128i halves(__m256 x) {
    return _mm256_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}

static inline void store_f16(uint8_t *dst, const floats_t *x) {
    for (unsigned i = 0; i < 4; i++)
        _mm_storeu_si128((void *)(dst + i * 16), halves(x->part[i]));
}

static inline __m256i pack_bf16(__m256 low, __m256 high) {
    __m256i both =
        _mm256_packus_epi32(_mm256_srli_epi32(_mm256_castps_si256(low), 16),
                            _mm256_srli_epi32(_mm256_castps_si256(high), 16));
    return _mm256_permute4x64_epi64(both, 0xd8);
}

/* Elements have 7 bits, so nothing is cut off. */
static inline void store_bf16(uint8_t *dst, const floats_t *x) {
    _mm256_storeu_si256((void *)dst, pack_bf16(x->part[0], x->part[1]));
    _mm256_storeu_si256((void *)(dst + 32), pack_bf16(x->part[2], x->part[3]));
}

static inline void add_f32(uint8_t *sum, const floats_t *x) {
    for (unsigned i = 0; i < 4; i++) {
        float *at = (float *)(void *)(sum + i * 32);
        _mm256_storeu_ps(at, _mm256_add_ps(_mm256_loadu_ps(at), x->part[i]));
    }
}

static inline void add_f16(uint8_t *sum, const floats_t *x) {
    floats_t rounded;
    for (unsigned i = 0; i < 4; i++)
        rounded.part[i] = _mm256_cvtph_ps(halves(x->part[i]));
    add_f32(sum, &rounded);
}

static INLINE void put_f64(double *to, __m256d x, bool add) {
    if (add)
        x = _mm256_add_pd(_mm256_loadu_pd(to), x);
    _mm256_storeu_pd(to, x);
}

static INLINE void decode_all_f64(const uint8_t *scales,
                                  const uint8_t *elements, size_t blocks,
                                  uint8_t *dst, bool add) {
    for (size_t b = 0; b < blocks; b++) {
        __m256d unit = _mm256_set1_pd(lull__mx_unit_value(scales[b]));
        for (unsigned i = 0; i < 4; i++, elements += 8, dst += 64) {
            double *to = (void *)dst;
            __m256i wide =
                _mm256_cvtepi8_epi32(_mm_loadl_epi64((const void *)elements));
            __m256d low = _mm256_cvtepi32_pd(_mm256_castsi256_si128(wide));
            __m256d high =
                _mm256_cvtepi32_pd(_mm256_extracti128_si256(wide, 1));
            put_f64(to, _mm256_mul_pd(low, unit), add);
            put_f64(to + 4, _mm256_mul_pd(high, unit), add);
        }
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

#define DECODE(put, size)                                                     \
    static void decode_##put(const uint8_t *scales, const uint8_t *elements,  \
                             size_t blocks, uint8_t *dst) {                   \
        for (size_t b = 0; b < blocks; b++) {                                 \
            floats_t x = values_of(scales[b], elements + b * LULL__MX_BLOCK); \
            put(dst + b * LULL__MX_BLOCK * (size), &x);                       \
        }                                                                     \
    }

DECODE(store_f32, 4)
DECODE(store_f16, 2)
DECODE(store_bf16, 2)
DECODE(add_f32, 4)
DECODE(add_f16, 4)

const lull__mx_kernel_t lull__mx_avx2[LULL__MX_KINDS] = {
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
typedef int lull__no_avx2;
#endif
