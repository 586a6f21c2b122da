/* expo's kernels for AVX2. Without compress and expand, a byte of a mask looks
 * up which of eight symbols are kept, and prefix sums say where they were. */
#ifdef __AVX2__
#include <immintrin.h>
#include <string.h>

#include "codec/codec_impl.h"
#include "codec/expo.h"
#include "codec/expo_avx2.h"

/* ---- Tables by the byte of a mask -------------------------------------- */

#define BIT(m, k) ((uint64_t)((m) >> (k)&1))
/* Byte k: all ones where bit k is 1. */
#define FULL1(m, k) (BIT(m, k) * UINT64_C(0xff) << 8 * (k))
#define FULL(m)                                                            \
    (FULL1(m, 0) | FULL1(m, 1) | FULL1(m, 2) | FULL1(m, 3) | FULL1(m, 4) | \
     FULL1(m, 5) | FULL1(m, 6) | FULL1(m, 7))

#define EACH4(f, m) f(m), f((m) + 1), f((m) + 2), f((m) + 3)
#define EACH16(f, m) \
    EACH4(f, m), EACH4(f, (m) + 4), EACH4(f, (m) + 8), EACH4(f, (m) + 12)
#define EACH64(f, m) \
    EACH16(f, m), EACH16(f, (m) + 16), EACH16(f, (m) + 32), EACH16(f, (m) + 48)
#define EACH256(f) EACH64(f, 0), EACH64(f, 64), EACH64(f, 128), EACH64(f, 192)

static const uint64_t full_bytes[256] = {EACH256(FULL)};

/* ---- Symbols ----------------------------------------------------------- */

#define ALWAYS_INLINE inline __attribute__((always_inline))

/* The bytes of eight whose bit is 1; returns where the next ones go. */
static inline uint8_t *keep8(const uint8_t *in, unsigned bits, uint8_t *out) {
    uint64_t x = _pext_u64(lull__load64(in), full_bytes[bits]);
    memcpy(out, &x, 8);
    return out + _mm_popcnt_u32(bits);
}

static inline uint8_t *keep32(const uint8_t *in, uint32_t bits, uint8_t *out) {
    for (unsigned k = 0; k < 4; k++)
        out = keep8(in + 8 * k, bits >> (8 * k) & 0xff, out);
    return out;
}

static inline uint32_t valid_bits(size_t left) {
    return left >= 32 ? UINT32_MAX : (1u << left) - 1;
}

static unsigned largest(__m256i x) {
    __m128i q =
        _mm_max_epu8(_mm256_castsi256_si128(x), _mm256_extracti128_si256(x, 1));
    q = _mm_max_epu8(q, _mm_srli_si128(q, 8));
    q = _mm_max_epu8(q, _mm_srli_si128(q, 4));
    q = _mm_max_epu8(q, _mm_srli_si128(q, 2));
    q = _mm_max_epu8(q, _mm_srli_si128(q, 1));
    return (unsigned)_mm_cvtsi128_si32(q) & 0xff;
}

static unsigned smallest(__m256i x) {
    return 255 - largest(_mm256_xor_si256(x, _mm256_set1_epi8(-1)));
}

static size_t nonzeros(const uint8_t *in, size_t n) {
    const __m256i none = _mm256_setzero_si256();
    size_t zeros = 0;
    for (size_t i = 0; i < n; i += 32) {
        __m256i is = _mm256_cmpeq_epi8(load(in + i), none);
        uint32_t bits = (uint32_t)_mm256_movemask_epi8(is) & valid_bits(n - i);
        zeros += (size_t)_mm_popcnt_u32(bits);
    }
    return n - zeros;
}

/* Symbol by symbol, where they lie close together. */
static void count(const uint8_t *in, size_t n, uint16_t *counts) {
    enum { SPAN = 40 };
    __m256i most = _mm256_setzero_si256(), least = _mm256_set1_epi8(-1);
    for (size_t i = 0; i + 32 <= n; i += 32) {
        most = _mm256_max_epu8(most, load(in + i));
        least = _mm256_min_epu8(least, load(in + i));
    }
    unsigned high = largest(most), low = smallest(least);
    if (n % 128 != 0 || n < 512 || high - low > SPAN) {
        lull__expo_portable.count(in, n, counts);
        return;
    }
    memset(counts, 0, 256 * sizeof *counts);
    for (unsigned s = low; s <= high; s++) {
        const __m256i symbol = _mm256_set1_epi8((char)s);
        __m256i sum = _mm256_setzero_si256(); /* at most 32 in a lane */
        for (size_t i = 0; i < n; i += 128)
            for (unsigned k = 0; k < 128; k += 32)
                sum = _mm256_sub_epi8(
                    sum, _mm256_cmpeq_epi8(load(in + i + k), symbol));
        sum = _mm256_sad_epu8(sum, _mm256_setzero_si256());
        __m128i q = _mm_add_epi64(_mm256_castsi256_si128(sum),
                                  _mm256_extracti128_si256(sum, 1));
        counts[s] = (uint16_t)(_mm_cvtsi128_si32(q) + _mm_extract_epi16(q, 4));
    }
}

/* ---- Digits ------------------------------------------------------------ */

/* Rows of 16 bytes of a table and the symbols that they begin with. Exponents
 * lie close together, so it is a few neighbours, and the zero's. */
typedef struct rows {
    unsigned count;
    __m256i row[17], first[17], rest, last;
} rows_t;

static void add_row(rows_t *rows, const uint8_t *table, unsigned first) {
    __m128i row = _mm_loadu_si128((const void *)(table + first));
    rows->row[rows->count] = _mm256_broadcastsi128_si256(row);
    rows->first[rows->count++] = _mm256_set1_epi8((char)first);
}

static void find_rows(const lull__expo_digits_t *of, rows_t *rows) {
    rows->count = 0;
    for (unsigned s = of->least; s <= of->most; s += 16)
        add_row(rows, of->digit, s < 240 ? s : 240);
    if (of->zero)
        add_row(rows, of->digit, 0);
}

/* One row's part: 0 where the symbol is in another row. */
static inline __m256i look_up(__m256i x, const rows_t *rows, unsigned k) {
    __m256i at = _mm256_sub_epi8(x, rows->first[k]);
    return _mm256_shuffle_epi8(rows->row[k],
                               _mm256_adds_epu8(at, _mm256_set1_epi8(0x70)));
}

static inline __m256i digits32(__m256i x, const rows_t *rows, unsigned count) {
    __m256i d = _mm256_setzero_si256();
    for (unsigned k = 0; k < count; k++)
        d = _mm256_or_si256(d, look_up(x, rows, k));
    return _mm256_xor_si256(d, rows->rest);
}

static ALWAYS_INLINE size_t digits_by(const uint8_t *in, size_t n,
                                      const rows_t *rows, unsigned count,
                                      uint8_t *digits, uint8_t *kept) {
    const uint8_t *begin = kept;
    for (size_t i = 0; i < n; i += 32) {
        __m256i d = digits32(load(in + i), rows, count);
        store(digits + i, d);
        __m256i is = _mm256_cmpeq_epi8(d, rows->last);
        uint32_t bits = (uint32_t)_mm256_movemask_epi8(is);
        kept = keep32(in + i, bits & valid_bits(n - i), kept);
    }
    return (size_t)(kept - begin);
}

static size_t digits(const uint8_t *in, size_t n, const lull__expo_digits_t *of,
                     unsigned last, uint8_t *digits, uint8_t *kept) {
    rows_t rows;
    find_rows(of, &rows);
    rows.rest = _mm256_set1_epi8((char)of->rest);
    rows.last = _mm256_set1_epi8((char)last);
    if (last == 255) {
        for (size_t i = 0; i < n; i += 32)
            store(digits + i, digits32(load(in + i), &rows, rows.count));
        return 0;
    }
    if (rows.count == 1)
        return digits_by(in, n, &rows, 1, digits, kept);
    if (rows.count == 2)
        return digits_by(in, n, &rows, 2, digits, kept);
    return digits_by(in, n, &rows, rows.count, digits, kept);
}

static void keep(const uint8_t *in, size_t n, const uint8_t *flags,
                 uint8_t *out) {
    const __m256i none = _mm256_setzero_si256();
    for (size_t i = 0; i < n; i += 32) {
        __m256i is = _mm256_cmpeq_epi8(load(flags + i), none);
        uint32_t bits = ~(uint32_t)_mm256_movemask_epi8(is);
        out = keep32(in + i, bits & valid_bits(n - i), out);
    }
}

/* The first of n bytes that a register of 32 begins at after the one at i: the
 * last one overlaps. */
static inline size_t next_of(size_t i, size_t n) {
    return i + 32 == n ? n : i + 64 <= n ? i + 32 : n - 32;
}

/* 32 bytes of pack. */
static ALWAYS_INLINE __m256i pack32(const uint8_t *digits, size_t v,
                                    unsigned shift, unsigned width) {
    const __m256i mask = _mm256_set1_epi8((char)((1u << width) - 1));
    const __m128i down = _mm_cvtsi32_si128((int)shift);
    __m256i sum = _mm256_setzero_si256();
    for (unsigned bit = 0; bit < 8; bit += width, digits += v) {
        __m256i x = _mm256_srl_epi16(load(digits), down);
        x = _mm256_slli_epi16(_mm256_and_si256(x, mask), (int)bit);
        sum = _mm256_or_si256(sum, x);
    }
    return sum;
}

static ALWAYS_INLINE void pack_by(const uint8_t *digits, size_t n,
                                  unsigned shift, unsigned width,
                                  uint8_t *out) {
    const size_t v = (n * width + 7) / 8;
    if (v < 32) {
        store(out, pack32(digits, v, shift, width));
        return;
    }
    for (size_t i = 0; i < v; i = next_of(i, v))
        store(out + i, pack32(digits + i, v, shift, width));
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

/* Those of 32 bytes. */
static ALWAYS_INLINE void unpack32(__m256i x, fields_t f, uint8_t *digits) {
    const __m256i mask = _mm256_set1_epi8((char)((1u << f.width) - 1));
    const __m128i up = _mm_cvtsi32_si128((int)f.shift);
    for (unsigned bit = 0; bit < 8; bit += f.width, digits += f.v) {
        __m256i d = _mm256_and_si256(_mm256_srli_epi16(x, (int)bit), mask);
        d = _mm256_sll_epi16(d, up);
        store(digits, f.first ? d : _mm256_or_si256(d, load(digits)));
    }
}

static ALWAYS_INLINE void unpack_by(const uint8_t *in, fields_t f,
                                    uint8_t *digits) {
    if (f.v < 32) { /* zeros past the end are or'ed to what follows */
        uint8_t padded[32] = {0};
        memcpy(padded, in, f.v);
        unpack32(load(padded), f, digits);
        return;
    }
    for (size_t i = 0; i < f.v; i = next_of(i, f.v))
        unpack32(load(in + i), f, digits + i);
}

static void unpack(const uint8_t *in, size_t n, unsigned shift, unsigned width,
                   bool first, uint8_t *digits) {
    const size_t v = (n * width + 7) / 8;
#define UNPACK(shift, width) \
    unpack_by(in, (fields_t){v, shift, width, first}, digits)
    LULL__EXPO_BY_WIDTH(shift, width, UNPACK);
#undef UNPACK
}

/* Of 16 bytes in each half, 0xff or 0: less how many of those up to each are
 * 0xff. */
static inline __m256i up_to(__m256i is) {
    __m256i x = _mm256_add_epi8(is, _mm256_slli_si256(is, 1));
    x = _mm256_add_epi8(x, _mm256_slli_si256(x, 2));
    x = _mm256_add_epi8(x, _mm256_slli_si256(x, 4));
    return _mm256_add_epi8(x, _mm256_slli_si256(x, 8));
}

/* 32 digits d, whose symbols are these, of which those in `valid` count. */
static ALWAYS_INLINE size_t join32(__m256i d, __m256i last, __m256i symbols,
                                   uint32_t valid, const uint8_t *below,
                                   uint8_t *out) {
    __m256i is = _mm256_cmpeq_epi8(d, last);
    uint32_t bits = (uint32_t)_mm256_movemask_epi8(is);
    const uint8_t *second = below + _mm_popcnt_u32(bits & 0xffff);
    __m256i next = _mm256_inserti128_si256(
        _mm256_castsi128_si256(_mm_loadu_si128((const void *)below)),
        _mm_loadu_si128((const void *)second), 1);
    /* -k - 1 is ~k; the others' highest bit makes them 0. */
    __m256i at = _mm256_and_si256(up_to(is), is);
    at = _mm256_xor_si256(at, _mm256_set1_epi8(-1));
    store(out, _mm256_or_si256(_mm256_shuffle_epi8(next, at), symbols));
    return (size_t)_mm_popcnt_u32(bits & valid);
}

/* Those of up to 64 digits, 16 of them in a row. */
static ALWAYS_INLINE __m256i symbols_of(__m256i d, const __m256i row[4],
                                        bool wide) {
    __m256i sum = _mm256_setzero_si256();
    if (!wide)
        return _mm256_shuffle_epi8(row[0], d);
    for (unsigned k = 0; k < 4; k++) {
        __m256i at = _mm256_sub_epi8(d, _mm256_set1_epi8((char)(16 * k)));
        at = _mm256_adds_epu8(at, _mm256_set1_epi8(0x70));
        sum = _mm256_or_si256(sum, _mm256_shuffle_epi8(row[k], at));
    }
    return sum;
}

static ALWAYS_INLINE size_t join_by(const uint8_t *digits, size_t n,
                                    const lull__expo_level_t *level, bool wide,
                                    const uint8_t *below, uint8_t *out) {
    const __m256i last = _mm256_set1_epi8((char)level->last);
    const uint8_t *begin = below;
    __m256i row[4];
    size_t i = 0;
    for (unsigned k = 0; k < 4; k++)
        row[k] = _mm256_broadcastsi128_si256(
            _mm_loadu_si128((const void *)(level->symbol + 16 * k)));
    for (; i + 32 <= n; i += 32) {
        __m256i d = load(digits + i);
        below += join32(d, last, symbols_of(d, row, wide), UINT32_MAX, below,
                        out + i);
    }
    if (i < n) {
        __m256i d = load(digits + i);
        below += join32(d, last, symbols_of(d, row, wide), valid_bits(n - i),
                        below, out + i);
    }
    return (size_t)(below - begin);
}

static size_t join(const uint8_t *digits, size_t n,
                   const lull__expo_level_t *level, const uint8_t *below,
                   uint8_t *out) {
    return level->width <= 4 ? join_by(digits, n, level, false, below, out)
                             : join_by(digits, n, level, true, below, out);
}

const lull__expo_kernel_t lull__expo_avx2 = {
    .piece = 512,
    .nonzeros = nonzeros,
    .count = count,
    .keep = keep,
    .digits = digits,
    .pack = pack,
    .unpack = unpack,
    .join = join,
    .cut = &lull__expo_cut_avx2,
};
#else
typedef int lull__no_avx2;
#endif
