/* expo's kernels for AVX-512: 64 symbols at a time. A mask of a tree's node
 * compresses them apart and expands them together again. */
#ifdef __AVX512VBMI2__
#include <immintrin.h>
#include <string.h>

#include "codec/codec_impl.h"
#include "codec/expo.h"

/* Zero in a register of its own. Zen 4 waits for the old value of the
 * destination of a compress or expand even where it is zero-masked; the
 * compiler must not find out that this is zero and fold it away. */
static inline __m512i fresh_zero(void) {
    __m512i zero;
    __asm__ volatile("vpxor %x0, %x0, %x0" : "=x"(zero));
    return zero;
}

/* A load in an instruction of its own: folded into an expand it is slow. */
static inline __m512i load_whole(const uint8_t *at) {
    __m512i x = _mm512_loadu_si512(at);
    __asm__("" : "+v"(x));
    return x;
}

static inline __m512i compress(__mmask64 mask, __m512i in) {
    return _mm512_mask_compress_epi8(fresh_zero(), mask, in);
}

/* Under 64 bits; touches no byte past them. */
static inline uint64_t last_mask(const uint8_t *mask, size_t left) {
    __mmask16 bytes = (__mmask16)((1u << (left + 7) / 8) - 1);
    __m128i x = _mm_maskz_loadu_epi8(bytes, mask);
    return (uint64_t)_mm_cvtsi128_si64(x) & lull__expo_valid(left);
}

static unsigned largest(__m512i x) {
    __m256i half = _mm256_max_epu8(_mm512_castsi512_si256(x),
                                   _mm512_extracti64x4_epi64(x, 1));
    __m128i q = _mm_max_epu8(_mm256_castsi256_si128(half),
                             _mm256_extracti128_si256(half, 1));
    q = _mm_max_epu8(q, _mm_srli_si128(q, 8));
    q = _mm_max_epu8(q, _mm_srli_si128(q, 4));
    q = _mm_max_epu8(q, _mm_srli_si128(q, 2));
    q = _mm_max_epu8(q, _mm_srli_si128(q, 1));
    return (unsigned)_mm_cvtsi128_si32(q) & 0xff;
}

/* Only whether there is a zero: map() takes all symbols alike here. */
static lull__expo_range_t range(const uint8_t *in, size_t n) {
    const __m512i ones = _mm512_set1_epi8(-1);
    __m512i least = ones;
    size_t i = 0;
    for (; i + 256 <= n; i += 256) {
        __m512i a = _mm512_min_epu8(_mm512_loadu_si512(in + i),
                                    _mm512_loadu_si512(in + i + 64));
        __m512i b = _mm512_min_epu8(_mm512_loadu_si512(in + i + 128),
                                    _mm512_loadu_si512(in + i + 192));
        least = _mm512_min_epu8(least, _mm512_min_epu8(a, b));
    }
    for (; i < n; i += 64)
        least = _mm512_mask_min_epu8(least, lull__expo_valid(n - i), least,
                                     _mm512_loadu_si512(in + i));
    return (lull__expo_range_t){_mm512_testn_epi8_mask(least, ones) != 0, 1,
                                255};
}

/* Symbol by symbol, where they lie close together. */
static void count(const uint8_t *in, size_t n, uint16_t *counts) {
    enum { SPAN = 40, VECTORS = 16 };
    __m512i x[VECTORS], most = _mm512_setzero_si512();
    __m512i least = _mm512_set1_epi8(-1);
    if (n != 64 * VECTORS) {
        lull__expo_portable.count(in, n, counts);
        return;
    }
    for (unsigned k = 0; k < VECTORS; k++) {
        x[k] = _mm512_loadu_si512(in + 64 * k);
        most = _mm512_max_epu8(most, x[k]);
        least = _mm512_min_epu8(least, x[k]);
    }
    unsigned high = largest(most);
    unsigned low = 255 - largest(_mm512_xor_si512(least, _mm512_set1_epi8(-1)));
    if (high - low > SPAN) {
        lull__expo_portable.count(in, n, counts);
        return;
    }
    memset(counts, 0, 256 * sizeof *counts);
    for (unsigned s = low; s <= high; s++) {
        const __m512i symbol = _mm512_set1_epi8((char)s);
        uint64_t sum = 0;
        for (unsigned k = 0; k < VECTORS; k++)
            sum +=
                (uint64_t)_mm_popcnt_u64(_mm512_cmpeq_epi8_mask(x[k], symbol));
        counts[s] = (uint16_t)sum;
    }
}

/* 64 bytes of split; returns the mask. */
static inline uint64_t split64(__m512i x, __m512i least, uint64_t valid,
                               uint8_t *mask) {
    uint64_t bits = _mm512_cmpge_epu8_mask(x, least) & valid;
    memcpy(mask, &bits, 8);
    return bits;
}

static size_t split(const uint8_t *in, size_t n, unsigned threshold,
                    uint8_t *mask, uint8_t *out, unsigned keep) {
    const __m512i least = _mm512_set1_epi8((char)threshold);
    const uint64_t flip = keep ? 0 : UINT64_MAX;
    const uint8_t *begin = out;
    size_t sum = 0, i = 0;
    if (out == NULL) {
        for (; i < n; i += 64)
            sum += (size_t)_mm_popcnt_u64(
                split64(_mm512_loadu_si512(in + i), least,
                        lull__expo_valid(n - i), mask + i / 8));
        return sum;
    }
    for (; i + 64 <= n; i += 64) {
        __m512i x = _mm512_loadu_si512(in + i);
        uint64_t kept = split64(x, least, UINT64_MAX, mask + i / 8) ^ flip;
        _mm512_storeu_si512(out, compress(kept, x));
        out += _mm_popcnt_u64(kept);
    }
    if (i < n) {
        uint64_t valid = lull__expo_valid(n - i);
        __m512i x = _mm512_loadu_si512(in + i);
        uint64_t kept = (split64(x, least, valid, mask + i / 8) ^ flip) & valid;
        _mm512_storeu_si512(out, compress(kept, x));
        out += _mm_popcnt_u64(kept);
    }
    sum = (size_t)(out - begin);
    return keep ? sum : n - sum;
}

static size_t ones(const uint8_t *mask, size_t n) {
    size_t bytes = (n + 7) / 8, i = 0;
    __m512i sum = _mm512_setzero_si512();
    for (; i + 64 <= bytes; i += 64)
        sum = _mm512_add_epi64(
            sum, _mm512_popcnt_epi64(_mm512_loadu_si512(mask + i)));
    if (i < bytes) {
        __m512i x =
            _mm512_maskz_loadu_epi8(lull__expo_valid(bytes - i), mask + i);
        sum = _mm512_add_epi64(sum, _mm512_popcnt_epi64(x));
    }
    size_t all = (size_t)_mm512_reduce_add_epi64(sum);
    if (n % 8 != 0) /* what the last byte has past n does not count */
        all -= (size_t)_mm_popcnt_u32((unsigned)mask[n / 8] >> n % 8);
    return all;
}

static size_t pick(const uint8_t *in, size_t n, const uint8_t *mask,
                   uint8_t *out) {
    const uint8_t *begin = out;
    size_t i = 0;
    for (; i + 64 <= n; i += 64) {
        uint64_t bits = lull__load64(mask + i / 8);
        _mm512_storeu_si512(out, compress(bits, _mm512_loadu_si512(in + i)));
        out += _mm_popcnt_u64(bits);
    }
    if (i < n) {
        uint64_t bits = last_mask(mask + i / 8, n - i);
        _mm512_storeu_si512(out, compress(bits, _mm512_loadu_si512(in + i)));
        out += _mm_popcnt_u64(bits);
    }
    return (size_t)(out - begin);
}

static void merge_constants(const uint8_t *mask, size_t n, uint8_t zero,
                            uint8_t one, uint8_t *out) {
    const __m512i x = _mm512_set1_epi8((char)zero);
    const __m512i y = _mm512_set1_epi8((char)one);
    size_t i = 0;
    for (; i + 64 <= n; i += 64)
        _mm512_storeu_si512(
            out + i, _mm512_mask_blend_epi8(lull__load64(mask + i / 8), x, y));
    if (i < n)
        _mm512_storeu_si512(out + i, _mm512_mask_blend_epi8(
                                         last_mask(mask + i / 8, n - i), x, y));
}

/* One side is a constant: the other expands into it. flip is 0 if it is that
 * of the zeros. */
static size_t merge_constant(const uint8_t *mask, size_t n, uint8_t constant,
                             const uint8_t *from, uint64_t flip, uint8_t *out) {
    const __m512i fill = _mm512_set1_epi8((char)constant);
    size_t sum = 0, i = 0;
    for (; i + 64 <= n; i += 64) {
        uint64_t bits = lull__load64(mask + i / 8) ^ flip;
        __m512i x = load_whole(from + sum);
        sum += (size_t)_mm_popcnt_u64(bits);
        _mm512_storeu_si512(out + i, _mm512_mask_expand_epi8(fill, bits, x));
    }
    if (i < n) {
        uint64_t bits = last_mask(mask + i / 8, n - i) ^ flip;
        bits &= lull__expo_valid(n - i);
        __m512i x = load_whole(from + sum);
        sum += (size_t)_mm_popcnt_u64(bits);
        _mm512_storeu_si512(out + i, _mm512_mask_expand_epi8(fill, bits, x));
    }
    return flip ? n - sum : sum;
}

/* Bytes of x where a bit is 0 and of y where it is 1, each in order. */
static inline __m512i merged(__m512i x, __m512i y, uint64_t bits) {
    __m512i both = _mm512_mask_expand_epi8(fresh_zero(), ~bits, x);
    return _mm512_mask_expand_epi8(both, bits, y);
}

static size_t merge_both(const uint8_t *mask, size_t n, const uint8_t *left,
                         const uint8_t *right, uint8_t *out) {
    size_t sum = 0, i = 0;
    for (; i + 64 <= n; i += 64) {
        uint64_t bits = lull__load64(mask + i / 8);
        __m512i x = load_whole(left + (i - sum)), y = load_whole(right + sum);
        sum += (size_t)_mm_popcnt_u64(bits);
        _mm512_storeu_si512(out + i, merged(x, y, bits));
    }
    if (i < n) {
        uint64_t bits = last_mask(mask + i / 8, n - i);
        __m512i x = load_whole(left + (i - sum)), y = load_whole(right + sum);
        sum += (size_t)_mm_popcnt_u64(bits);
        _mm512_storeu_si512(out + i, merged(x, y, bits));
    }
    return sum;
}

static size_t merge(const uint8_t *mask, size_t n, lull__expo_side_t zero,
                    lull__expo_side_t one, uint8_t *out) {
    if (zero.at == NULL && one.at == NULL) {
        merge_constants(mask, n, zero.byte, one.byte, out);
        return 0;
    }
    if (zero.at == NULL)
        return merge_constant(mask, n, zero.byte, one.at, 0, out);
    if (one.at == NULL)
        return merge_constant(mask, n, one.byte, zero.at, UINT64_MAX, out);
    return merge_both(mask, n, zero.at, one.at, out);
}

typedef struct table {
    __m512i quarter[4];
} table_t;

static inline table_t load_table(const uint8_t *table) {
    return (table_t){{_mm512_loadu_si512(table), _mm512_loadu_si512(table + 64),
                      _mm512_loadu_si512(table + 128),
                      _mm512_loadu_si512(table + 192)}};
}

static inline __m512i look_up(__m512i x, const table_t *t) {
    __m512i low = _mm512_permutex2var_epi8(t->quarter[0], x, t->quarter[1]);
    __m512i high = _mm512_permutex2var_epi8(t->quarter[2], x, t->quarter[3]);
    return _mm512_mask_blend_epi8(_mm512_movepi8_mask(x), low, high);
}

static unsigned map(const uint8_t *in, size_t n, const uint8_t *table,
                    lull__expo_range_t within, uint8_t *out) {
    const table_t t = load_table(table);
    __m512i all = _mm512_setzero_si512();
    (void)within;
    for (size_t i = 0; i < n; i += 64) {
        __mmask64 valid = lull__expo_valid(n - i);
        __m512i y = look_up(_mm512_loadu_si512(in + i), &t);
        all = _mm512_mask_max_epu8(all, valid, all, y);
        _mm512_storeu_si512(out + i, y);
    }
    return largest(all);
}

const lull__expo_kernel_t lull__expo_avx512 = {
    .piece = 1024,
    .range = range,
    .count = count,
    .split = split,
    .ones = ones,
    .pick = pick,
    .merge = merge,
    .map = map,
    .cut = &lull__expo_cut_avx512,
};
#else
typedef int lull__no_avx512;
#endif
