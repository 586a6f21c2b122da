/* expo's kernels for AVX-512: 64 symbols at a time. A mask of a tree's node
 * compresses them apart and expands them together again. */
#ifdef __AVX512VBMI2__
#include <immintrin.h>
#include <string.h>

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

static inline uint64_t whole_mask(const uint8_t *mask) {
    uint64_t bits;
    memcpy(&bits, mask, 8);
    return bits;
}

static inline uint64_t valid_bits(size_t left) {
    return left >= 64 ? UINT64_MAX : (1ull << left) - 1;
}

/* Under 64 bits; touches no byte past them. */
static inline uint64_t last_mask(const uint8_t *mask, size_t left) {
    __mmask16 bytes = (__mmask16)((1u << (left + 7) / 8) - 1);
    __m128i x = _mm_maskz_loadu_epi8(bytes, mask);
    return (uint64_t)_mm_cvtsi128_si64(x) & valid_bits(left);
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
            sum += (size_t)_mm_popcnt_u64(split64(_mm512_loadu_si512(in + i),
                                                  least, valid_bits(n - i),
                                                  mask + i / 8));
        return sum;
    }
    for (; i + 64 <= n; i += 64) {
        __m512i x = _mm512_loadu_si512(in + i);
        uint64_t kept = split64(x, least, UINT64_MAX, mask + i / 8) ^ flip;
        _mm512_storeu_si512(out, compress(kept, x));
        out += _mm_popcnt_u64(kept);
    }
    if (i < n) {
        uint64_t valid = valid_bits(n - i);
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
        __m512i x = _mm512_maskz_loadu_epi8(valid_bits(bytes - i), mask + i);
        sum = _mm512_add_epi64(sum, _mm512_popcnt_epi64(x));
    }
    size_t all = (size_t)_mm512_reduce_add_epi64(sum);
    if (n % 8 != 0) /* what the last byte has past n does not count */
        all -= (size_t)_mm_popcnt_u32((unsigned)mask[n / 8] >> n % 8);
    return all;
}

static void pick(const uint8_t *in, size_t n, const uint8_t *mask,
                 uint8_t *out) {
    size_t i = 0;
    for (; i + 64 <= n; i += 64) {
        uint64_t bits = whole_mask(mask + i / 8);
        _mm512_storeu_si512(out, compress(bits, _mm512_loadu_si512(in + i)));
        out += _mm_popcnt_u64(bits);
    }
    if (i < n) {
        uint64_t bits = last_mask(mask + i / 8, n - i);
        _mm512_storeu_si512(out, compress(bits, _mm512_loadu_si512(in + i)));
    }
}

static void merge_constants(const uint8_t *mask, size_t n, uint8_t zero,
                            uint8_t one, uint8_t *out) {
    const __m512i x = _mm512_set1_epi8((char)zero);
    const __m512i y = _mm512_set1_epi8((char)one);
    size_t i = 0;
    for (; i + 64 <= n; i += 64)
        _mm512_storeu_si512(
            out + i, _mm512_mask_blend_epi8(whole_mask(mask + i / 8), x, y));
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
        uint64_t bits = whole_mask(mask + i / 8) ^ flip;
        __m512i x = load_whole(from + sum);
        sum += (size_t)_mm_popcnt_u64(bits);
        _mm512_storeu_si512(out + i, _mm512_mask_expand_epi8(fill, bits, x));
    }
    if (i < n) {
        uint64_t bits = last_mask(mask + i / 8, n - i) ^ flip;
        bits &= valid_bits(n - i);
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
        uint64_t bits = whole_mask(mask + i / 8);
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

static unsigned map(const uint8_t *in, size_t n, const uint8_t *table,
                    uint8_t *out) {
    const __m512i t0 = _mm512_loadu_si512(table);
    const __m512i t1 = _mm512_loadu_si512(table + 64);
    const __m512i t2 = _mm512_loadu_si512(table + 128);
    const __m512i t3 = _mm512_loadu_si512(table + 192);
    __m512i all = _mm512_setzero_si512();
    for (size_t i = 0; i < n; i += 64) {
        __mmask64 valid = n - i >= 64 ? UINT64_MAX : (1ull << (n - i)) - 1;
        __m512i x = _mm512_loadu_si512(in + i);
        __m512i low = _mm512_permutex2var_epi8(t0, x, t1);
        __m512i high = _mm512_permutex2var_epi8(t2, x, t3);
        low = _mm512_mask_blend_epi8(_mm512_movepi8_mask(x), low, high);
        all = _mm512_mask_max_epu8(all, valid, all, low);
        _mm512_storeu_si512(out + i, low);
    }
    return largest(all);
}

/* ---- Fields ------------------------------------------------------------ */

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

static void scatter_tail(unsigned kind, const uint8_t *src, size_t n, size_t i,
                         const lull__expo_fields_t *fields, unsigned size) {
    if (i == n)
        return;
    lull__expo_fields_t rest = lull__expo_fields_at(fields, i);
    lull__expo_portable.scatter[kind](src + i * size, n - i, &rest);
}

static void gather_tail(unsigned kind, const lull__expo_fields_t *fields,
                        size_t n, size_t i, uint8_t *dst, unsigned size) {
    if (i == n)
        return;
    lull__expo_fields_t rest = lull__expo_fields_at(fields, i);
    lull__expo_portable.gather[kind](&rest, n - i, dst + i * size);
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
    scatter_tail(LULL__EXPO_BF16, src, n, i, fields, 2);
}

/* Exponents and the plane with the sign to the two highest bytes. */
static inline void join_high(__m512i symbols, __m512i signs, __m512i *high,
                             __m512i *low) {
    const __m512i mantissa = _mm512_set1_epi8(0x7f);
    *high = choose(mantissa, _mm512_srli_epi16(symbols, 1), signs);
    *low = choose(mantissa, signs, _mm512_slli_epi16(symbols, 7));
}

static void gather_bf16(const lull__expo_fields_t *fields, size_t n,
                        uint8_t *dst) {
    const __m512i first = interleaved(0), second = interleaved(32);
    size_t i = 0;
    for (; i + 64 <= n; i += 64) {
        __m512i high, low;
        join_high(_mm512_loadu_si512(fields->symbols + i),
                  _mm512_loadu_si512(fields->plane[0] + i), &high, &low);
        _mm512_storeu_si512(dst + 2 * i,
                            _mm512_permutex2var_epi8(low, first, high));
        _mm512_storeu_si512(dst + 2 * i + 64,
                            _mm512_permutex2var_epi8(low, second, high));
    }
    gather_tail(LULL__EXPO_BF16, fields, n, i, dst, 2);
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
    scatter_tail(LULL__EXPO_F16, src, n, i, fields, 2);
}

static inline __m512i bit_plane(const lull__expo_fields_t *fields, unsigned k,
                                size_t i, int bit) {
    uint64_t bits;
    memcpy(&bits, fields->bits[k] + i / 8, 8);
    return _mm512_maskz_set1_epi8(bits, (char)bit);
}

static void gather_f16(const lull__expo_fields_t *fields, size_t n,
                       uint8_t *dst) {
    const __m512i first = interleaved(0), second = interleaved(32);
    size_t i = 0;
    for (; i + 64 <= n; i += 64) {
        __m512i low = _mm512_loadu_si512(fields->plane[0] + i);
        __m512i high = _mm512_and_si512(
            _mm512_slli_epi16(_mm512_loadu_si512(fields->symbols + i), 2),
            _mm512_set1_epi8(0x7c));
        high = _mm512_or_si512(high, bit_plane(fields, 0, i, 1));
        high = _mm512_or_si512(high, bit_plane(fields, 1, i, 2));
        high = _mm512_or_si512(high, bit_plane(fields, 2, i, 0x80));
        _mm512_storeu_si512(dst + 2 * i,
                            _mm512_permutex2var_epi8(low, first, high));
        _mm512_storeu_si512(dst + 2 * i + 64,
                            _mm512_permutex2var_epi8(low, second, high));
    }
    gather_tail(LULL__EXPO_F16, fields, n, i, dst, 2);
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
    scatter_tail(LULL__EXPO_F32, src, n, i, fields, 4);
}

/* So that after two rounds of unpacking, which works within 16 bytes, values
 * stand in order: 4 by 4 groups of four bytes, transposed. */
static inline __m512i spread_groups(__m512i x) {
    const __m512i order =
        _mm512_set_epi32(15, 11, 7, 3, 14, 10, 6, 2, 13, 9, 5, 1, 12, 8, 4, 0);
    return _mm512_permutexvar_epi32(order, x);
}

static void gather_f32(const lull__expo_fields_t *fields, size_t n,
                       uint8_t *dst) {
    size_t i = 0;
    for (; i + 64 <= n; i += 64) {
        __m512i b0 = spread_groups(_mm512_loadu_si512(fields->plane[0] + i));
        __m512i b1 = spread_groups(_mm512_loadu_si512(fields->plane[1] + i));
        __m512i signs = spread_groups(_mm512_loadu_si512(fields->plane[2] + i));
        __m512i symbols =
            spread_groups(_mm512_loadu_si512(fields->symbols + i));
        __m512i b2, b3;
        join_high(symbols, signs, &b3, &b2);
        __m512i low01 = _mm512_unpacklo_epi8(b0, b1);
        __m512i high01 = _mm512_unpackhi_epi8(b0, b1);
        __m512i low23 = _mm512_unpacklo_epi8(b2, b3);
        __m512i high23 = _mm512_unpackhi_epi8(b2, b3);
        uint8_t *to = dst + 4 * i;
        _mm512_storeu_si512(to, _mm512_unpacklo_epi16(low01, low23));
        _mm512_storeu_si512(to + 64, _mm512_unpackhi_epi16(low01, low23));
        _mm512_storeu_si512(to + 128, _mm512_unpacklo_epi16(high01, high23));
        _mm512_storeu_si512(to + 192, _mm512_unpackhi_epi16(high01, high23));
    }
    gather_tail(LULL__EXPO_F32, fields, n, i, dst, 4);
}

const lull__expo_kernel_t lull__expo_avx512 = {
    .count = count,
    .split = split,
    .ones = ones,
    .pick = pick,
    .merge = merge,
    .map = map,
    .scatter = {[LULL__EXPO_F32] = scatter_f32,
                [LULL__EXPO_F16] = scatter_f16,
                [LULL__EXPO_BF16] = scatter_bf16,
                [LULL__EXPO_F64] = lull__expo_scatter_f64},
    .gather = {[LULL__EXPO_F32] = gather_f32,
               [LULL__EXPO_F16] = gather_f16,
               [LULL__EXPO_BF16] = gather_bf16,
               [LULL__EXPO_F64] = lull__expo_gather_f64},
};
#else
typedef int lull__no_avx512;
#endif
