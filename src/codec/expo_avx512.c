/* expo's kernels for AVX-512: 64 symbols at a time. A mask of those
 * that go on compresses them and expands them to where they were. */
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

#define ALWAYS_INLINE inline __attribute__((always_inline))

static inline __m512i compress(__mmask64 mask, __m512i in) {
    return _mm512_mask_compress_epi8(fresh_zero(), mask, in);
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

static size_t nonzeros(const uint8_t *in, size_t n) {
    size_t sum = 0;
    for (size_t i = 0; i < n; i += 64) {
        __m512i x = _mm512_loadu_si512(in + i);
        sum += (size_t)_mm_popcnt_u64(_mm512_test_epi8_mask(x, x) &
                                      lull__expo_valid(n - i));
    }
    return sum;
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

/* ---- Digits ------------------------------------------------------------ */

static void keep(const uint8_t *in, size_t n, const uint8_t *flags,
                 uint8_t *out) {
    for (size_t i = 0; i < n; i += 64) {
        __m512i x = _mm512_loadu_si512(flags + i);
        __mmask64 kept = _mm512_test_epi8_mask(x, x) & lull__expo_valid(n - i);
        _mm512_storeu_si512(out, compress(kept, _mm512_loadu_si512(in + i)));
        out += _mm_popcnt_u64(kept);
    }
}

/* Of 64 symbols x, those whose digit d is `last`; returns how many. */
static ALWAYS_INLINE size_t keep64(__m512i x, __m512i d, __m512i last,
                                   uint64_t valid, uint8_t *kept) {
    __mmask64 goes_on = _mm512_cmpeq_epi8_mask(d, last) & valid;
    _mm512_storeu_si512(kept, compress(goes_on, x));
    return (size_t)_mm_popcnt_u64(goes_on);
}

/* Digits that differ are of 64 neighbours. */
static size_t digits_near(const uint8_t *in, size_t n,
                          const lull__expo_digits_t *of, unsigned last,
                          uint8_t *digits, uint8_t *kept) {
    const unsigned from = of->least < 192 ? of->least : 192;
    const __m512i first = _mm512_set1_epi8((char)from);
    const __m512i row = _mm512_loadu_si512(of->digit + from);
    const __m512i rest = _mm512_set1_epi8((char)of->rest);
    const __m512i goes_on = _mm512_set1_epi8((char)last);
    const uint8_t *begin = kept;
    for (size_t i = 0; i < n; i += 64) {
        __m512i x = _mm512_loadu_si512(in + i);
        __m512i at = _mm512_sub_epi8(x, first);
        __mmask64 near = _mm512_cmplt_epu8_mask(at, _mm512_set1_epi8(64));
        __m512i d = _mm512_maskz_permutexvar_epi8(near, at, row);
        d = _mm512_xor_si512(d, rest);
        _mm512_storeu_si512(digits + i, d);
        kept += keep64(x, d, goes_on, lull__expo_valid(n - i), kept);
    }
    return (size_t)(kept - begin);
}

static size_t digits(const uint8_t *in, size_t n, const lull__expo_digits_t *of,
                     unsigned last, uint8_t *digits, uint8_t *kept) {
    const __m512i rest = _mm512_set1_epi8((char)of->rest);
    const __m512i goes_on = _mm512_set1_epi8((char)last);
    const uint8_t *begin = kept;
    __m512i row[4];
    if (!of->zero && of->most - of->least < 64 && last != 255)
        return digits_near(in, n, of, last, digits, kept);
    for (unsigned k = 0; k < 4; k++)
        row[k] = _mm512_loadu_si512(of->digit + 64 * k);
    for (size_t i = 0; i < n; i += 64) {
        __m512i x = _mm512_loadu_si512(in + i);
        __m512i low = _mm512_permutex2var_epi8(row[0], x, row[1]);
        __m512i high = _mm512_permutex2var_epi8(row[2], x, row[3]);
        __m512i d = _mm512_mask_mov_epi8(low, _mm512_movepi8_mask(x), high);
        d = _mm512_xor_si512(d, rest);
        _mm512_storeu_si512(digits + i, d);
        if (last != 255)
            kept += keep64(x, d, goes_on, lull__expo_valid(n - i), kept);
    }
    return (size_t)(kept - begin);
}

/* The first of n bytes that a register of 64 begins at after the one at i: the
 * last one overlaps. */
static inline size_t next_of(size_t i, size_t n) {
    return i + 64 == n ? n : i + 128 <= n ? i + 64 : n - 64;
}

/* 64 bytes of pack. */
static ALWAYS_INLINE __m512i pack64(const uint8_t *digits, size_t v,
                                    unsigned shift, unsigned width) {
    const __m512i mask = _mm512_set1_epi8((char)((1u << width) - 1));
    const __m128i down = _mm_cvtsi32_si128((int)shift);
    __m512i sum = _mm512_setzero_si512();
    for (unsigned bit = 0; bit < 8; bit += width, digits += v) {
        __m512i x = _mm512_srl_epi16(_mm512_loadu_si512(digits), down);
        x = _mm512_slli_epi16(_mm512_and_si512(x, mask), bit);
        sum = _mm512_or_si512(sum, x);
    }
    return sum;
}

static ALWAYS_INLINE void pack_by(const uint8_t *digits, size_t n,
                                  unsigned shift, unsigned width,
                                  uint8_t *out) {
    const size_t v = (n * width + 7) / 8;
    if (v < 64) {
        _mm512_storeu_si512(out, pack64(digits, v, shift, width));
        return;
    }
    for (size_t i = 0; i < v; i = next_of(i, v))
        _mm512_storeu_si512(out + i, pack64(digits + i, v, shift, width));
}

static void pack(const uint8_t *digits, size_t n, unsigned shift,
                 unsigned width, uint8_t *out) {
#define PACK(shift, width) pack_by(digits, n, shift, width, out)
    LULL__EXPO_BY_WIDTH(shift, width, PACK);
#undef PACK
}

/* How fields come to digits. */
typedef struct fields {
    size_t v; /* bytes that they are in */
    unsigned shift, width;
    bool first;
} fields_t;

/* Those of 64 bytes, of which those in `valid` count. */
static ALWAYS_INLINE void unpack64(__m512i x, __mmask64 valid, fields_t f,
                                   uint8_t *digits) {
    const __m512i mask = _mm512_set1_epi8((char)((1u << f.width) - 1));
    const __m128i up = _mm_cvtsi32_si128((int)f.shift);
    for (unsigned bit = 0; bit < 8; bit += f.width, digits += f.v) {
        __m512i d = _mm512_and_si512(_mm512_srli_epi16(x, bit), mask);
        d = _mm512_sll_epi16(d, up);
        if (!f.first)
            d = _mm512_or_si512(d, _mm512_loadu_si512(digits));
        _mm512_mask_storeu_epi8(digits, valid, d);
    }
}

static ALWAYS_INLINE void unpack_by(const uint8_t *in, fields_t f,
                                    uint8_t *digits) {
    if (f.v < 64) {
        __mmask64 valid = lull__expo_valid(f.v);
        unpack64(_mm512_maskz_loadu_epi8(valid, in), valid, f, digits);
        return;
    }
    for (size_t i = 0; i < f.v; i = next_of(i, f.v))
        unpack64(_mm512_loadu_si512(in + i), UINT64_MAX, f, digits + i);
}

static void unpack(const uint8_t *in, size_t n, unsigned shift, unsigned width,
                   bool first, uint8_t *digits) {
    const size_t v = (n * width + 7) / 8;
#define UNPACK(shift, width) \
    unpack_by(in, (fields_t){v, shift, width, first}, digits)
    LULL__EXPO_BY_WIDTH(shift, width, UNPACK);
#undef UNPACK
}

static size_t join(const uint8_t *digits, size_t n,
                   const lull__expo_level_t *level, const uint8_t *below,
                   uint8_t *out) {
    const __m512i symbols = _mm512_loadu_si512(level->symbol);
    const __m512i last = _mm512_set1_epi8((char)level->last);
    size_t sum = 0;
    for (size_t i = 0; i < n; i += 64) {
        __m512i d = _mm512_loadu_si512(digits + i);
        __mmask64 goes_on =
            _mm512_cmpeq_epi8_mask(d, last) & lull__expo_valid(n - i);
        __m512i x = _mm512_permutexvar_epi8(d, symbols);
        __m512i y = _mm512_mask_expand_epi8(fresh_zero(), goes_on,
                                            load_whole(below + sum));
        _mm512_storeu_si512(out + i, _mm512_or_si512(x, y));
        sum += (size_t)_mm_popcnt_u64(goes_on);
    }
    return sum;
}

const lull__expo_kernel_t lull__expo_avx512 = {
    .piece = 512,
    .nonzeros = nonzeros,
    .count = count,
    .keep = keep,
    .digits = digits,
    .pack = pack,
    .unpack = unpack,
    .join = join,
    .cut = &lull__expo_cut_avx512,
};
#else
typedef int lull__no_avx512;
#endif
