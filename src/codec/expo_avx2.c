/* expo's kernels for AVX2. Without compress and expand, a byte of a mask looks
 * up how eight symbols are shuffled. */
#ifdef __AVX2__
#include <immintrin.h>
#include <string.h>

#include "codec/expo.h"
#include "codec/expo_avx2.h"

/* ---- Tables by the byte of a mask -------------------------------------- */

#define BIT(m, k) ((uint64_t)((m) >> (k)&1))
/* How many of the bits under k are 1. */
#define ONES0(m) UINT64_C(0)
#define ONES1(m) (ONES0(m) + BIT(m, 0))
#define ONES2(m) (ONES1(m) + BIT(m, 1))
#define ONES3(m) (ONES2(m) + BIT(m, 2))
#define ONES4(m) (ONES3(m) + BIT(m, 3))
#define ONES5(m) (ONES4(m) + BIT(m, 4))
#define ONES6(m) (ONES5(m) + BIT(m, 5))
#define ONES7(m) (ONES6(m) + BIT(m, 6))

/* Byte j: the number of the j-th bit that is 1. */
#define PICK1(m, k) (BIT(m, k) * (uint64_t)(k) << 8 * ONES##k(m))
#define PICK(m)                                                            \
    (PICK1(m, 0) | PICK1(m, 1) | PICK1(m, 2) | PICK1(m, 3) | PICK1(m, 4) | \
     PICK1(m, 5) | PICK1(m, 6) | PICK1(m, 7))

/* Byte k: how many ones stand before it, and 128 where it is a zero. */
#define BEFORE1(m, k) ((ONES##k(m) | (BIT(m, k) ? 0 : 128)) << 8 * (k))
#define BEFORE(m)                                                    \
    (BEFORE1(m, 0) | BEFORE1(m, 1) | BEFORE1(m, 2) | BEFORE1(m, 3) | \
     BEFORE1(m, 4) | BEFORE1(m, 5) | BEFORE1(m, 6) | BEFORE1(m, 7))
#define ONES8(m) (ONES7(m) + BIT(m, 7))
#define EVERY8 UINT64_C(0x0101010101010101)
/* That, and what it adds to the numbers of the eight after it. */
#define BEFORE_TWO(m)                    \
    {                                    \
        { BEFORE(m), ONES8(m) * EVERY8 } \
    }

#define EACH4(f, m) f(m), f((m) + 1), f((m) + 2), f((m) + 3)
#define EACH16(f, m) \
    EACH4(f, m), EACH4(f, (m) + 4), EACH4(f, (m) + 8), EACH4(f, (m) + 12)
#define EACH64(f, m) \
    EACH16(f, m), EACH16(f, (m) + 16), EACH16(f, (m) + 32), EACH16(f, (m) + 48)
#define EACH256(f) EACH64(f, 0), EACH64(f, 64), EACH64(f, 128), EACH64(f, 192)

static const uint64_t pick_order[256] = {EACH256(PICK)};

typedef struct two {
    uint64_t half[2];
} two_t;
static const two_t before_two[256] = {EACH256(BEFORE_TWO)};

/* For each of 16 bits how many ones stand before it, and 128 if it is 0. */
static inline __m128i before16(const uint8_t *mask) {
    __m128i second = _mm_castps_si128(
        _mm_loadh_pi(_mm_setzero_ps(), (const void *)before_two[mask[1]].half));
    return _mm_add_epi8(
        second, _mm_loadu_si128((const void *)before_two[mask[0]].half));
}

/* ---- Masks ------------------------------------------------------------- */

static inline __m128i load8(const void *at) {
    return _mm_loadl_epi64(at);
}

/* The bytes of 32 whose bit is 1; returns where the next ones go. */
static inline uint8_t *keep32(const uint8_t *in, uint32_t bits, uint8_t *out) {
    for (unsigned k = 0; k < 4; k++) {
        unsigned m = bits >> (8 * k) & 0xff;
        __m128i x = _mm_shuffle_epi8(load8(in + 8 * k), load8(pick_order + m));
        _mm_storel_epi64((void *)out, x);
        out += _mm_popcnt_u32(m);
    }
    return out;
}

static inline uint32_t valid_bits(size_t left) {
    return left >= 32 ? UINT32_MAX : (1u << left) - 1;
}

static inline uint32_t whole_mask(const uint8_t *mask) {
    uint32_t bits;
    memcpy(&bits, mask, 4);
    return bits;
}

/* 1 to 32 bits; touches no byte past them. Not by memcpy(): a call for a few
 * bytes costs more than all else at a small node. */
static inline uint32_t load_mask(const uint8_t *mask, size_t left) {
    if (left > 24)
        return whole_mask(mask) & valid_bits(left);
    uint32_t bits = mask[0];
    if (left > 8)
        bits |= (uint32_t)mask[1] << 8;
    if (left > 16)
        bits |= (uint32_t)mask[2] << 16;
    return bits & valid_bits(left);
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

/* Symbol by symbol, where they lie close together. */
static void count(const uint8_t *in, size_t n, uint16_t *counts) {
    enum { SPAN = 40 };
    __m256i most = _mm256_setzero_si256(), least = _mm256_set1_epi8(-1);
    for (size_t i = 0; i + 32 <= n; i += 32) {
        most = _mm256_max_epu8(most, load(in + i));
        least = _mm256_min_epu8(least, load(in + i));
    }
    unsigned high = largest(most), low = smallest(least);
    if (n % 32 != 0 || n < 512 || high - low > SPAN) {
        lull__expo_portable.count(in, n, counts);
        return;
    }
    memset(counts, 0, 256 * sizeof *counts);
    for (unsigned s = low; s <= high; s++) {
        const __m256i symbol = _mm256_set1_epi8((char)s);
        __m256i sum = _mm256_setzero_si256(); /* at most 32 in a lane */
        for (size_t i = 0; i < n; i += 32)
            sum = _mm256_sub_epi8(sum, _mm256_cmpeq_epi8(load(in + i), symbol));
        sum = _mm256_sad_epu8(sum, _mm256_setzero_si256());
        __m128i q = _mm_add_epi64(_mm256_castsi256_si128(sum),
                                  _mm256_extracti128_si256(sum, 1));
        counts[s] = (uint16_t)(_mm_cvtsi128_si32(q) + _mm_extract_epi16(q, 4));
    }
}

/* 32 bytes of split; `valid` bits count. Returns the mask. */
static inline uint32_t split32(const uint8_t *in, __m256i least, uint32_t valid,
                               uint8_t *mask) {
    __m256i x = load(in);
    __m256i is = _mm256_cmpeq_epi8(_mm256_max_epu8(x, least), x);
    uint32_t bits = (uint32_t)_mm256_movemask_epi8(is) & valid;
    memcpy(mask, &bits, 4);
    return bits;
}

static size_t split(const uint8_t *in, size_t n, unsigned threshold,
                    uint8_t *mask, uint8_t *out, unsigned keep) {
    const __m256i least = _mm256_set1_epi8((char)threshold);
    const uint32_t flip = keep ? 0 : UINT32_MAX;
    size_t sum = 0, i = 0;
    if (out == NULL) {
        for (; i < n; i += 32)
            sum += (size_t)_mm_popcnt_u32(
                split32(in + i, least, valid_bits(n - i), mask + i / 8));
        return sum;
    }
    for (; i + 32 <= n; i += 32) {
        uint32_t bits = split32(in + i, least, UINT32_MAX, mask + i / 8);
        sum += (size_t)_mm_popcnt_u32(bits);
        out = keep32(in + i, bits ^ flip, out);
    }
    if (i < n) {
        uint32_t valid = valid_bits(n - i);
        uint32_t bits = split32(in + i, least, valid, mask + i / 8);
        sum += (size_t)_mm_popcnt_u32(bits);
        keep32(in + i, (bits ^ flip) & valid, out);
    }
    return sum;
}

static size_t ones(const uint8_t *mask, size_t n) {
    size_t sum = 0, i = 0;
    for (; i + 64 <= n; i += 64) {
        uint64_t bits;
        memcpy(&bits, mask + i / 8, 8);
        sum += (size_t)_mm_popcnt_u64(bits);
    }
    for (; i < n; i += 32)
        sum += (size_t)_mm_popcnt_u32(load_mask(mask + i / 8, n - i));
    return sum;
}

static void pick(const uint8_t *in, size_t n, const uint8_t *mask,
                 uint8_t *out) {
    size_t i = 0;
    for (; i + 32 <= n; i += 32)
        out = keep32(in + i, whole_mask(mask + i / 8), out);
    if (i < n)
        keep32(in + i, load_mask(mask + i / 8, n - i), out);
}

static void merge_constants(const uint8_t *mask, size_t n, uint8_t zero,
                            uint8_t one, uint8_t *out) {
    const __m256i x = _mm256_set1_epi8((char)zero);
    const __m256i y = _mm256_set1_epi8((char)one);
    for (size_t i = 0; i < n; i += 32) {
        __m256i is = bytes_of(load_mask(mask + i / 8, n - i));
        store(out + i, _mm256_blendv_epi8(x, y, is));
    }
}

/* Which of the next bytes 16 take where their bit is 1, from before16(); with
 * `zeros` where it is 0: what of a byte's number is not ones before it is
 * zeros. Others have the highest bit, which shuffles to 0. */
static inline __m128i choice(__m128i before, bool zeros) {
    const __m128i numbers = _mm_set_epi8(
        -113, -114, -115, -116, -117, -118, -119, -120, -121, -122, -123, -124,
        -125, -126, -127, -128); /* 128 + 15, ... 128 */
    return zeros ? _mm_sub_epi8(numbers, before) : before;
}

/* Sixteen bytes: the next of `zeros` or `ones`. */
static inline void merge16(const uint8_t *mask, const uint8_t *zeros,
                           const uint8_t *ones, uint8_t *out) {
    __m128i before = before16(mask);
    __m128i x = _mm_shuffle_epi8(_mm_loadu_si128((const void *)ones),
                                 choice(before, false));
    __m128i y = _mm_shuffle_epi8(_mm_loadu_si128((const void *)zeros),
                                 choice(before, true));
    _mm_storeu_si128((void *)out, _mm_or_si128(x, y));
}

/* 32 of that; returns how many bits are 1. */
static inline size_t merge32(const uint8_t *mask, const uint8_t *zeros,
                             const uint8_t *ones, uint8_t *out) {
    uint32_t bits = whole_mask(mask);
    size_t first = (size_t)_mm_popcnt_u32(bits & 0xffff);
    merge16(mask, zeros, ones, out);
    merge16(mask + 2, zeros + (16 - first), ones + first, out + 16);
    return (size_t)_mm_popcnt_u32(bits);
}

/* Sixteen bytes: the next of `from` where chosen, else the constant. */
static inline void expand16(__m128i choice, const uint8_t *from,
                            __m128i constant, uint8_t *out) {
    __m128i x = _mm_shuffle_epi8(_mm_loadu_si128((const void *)from), choice);
    _mm_storeu_si128((void *)out, _mm_blendv_epi8(x, constant, choice));
}

/* 32 of that; returns how many bits are 1. */
static inline size_t expand32(const uint8_t *mask, const uint8_t *from,
                              __m128i constant, bool zeros, uint8_t *out) {
    uint32_t bits = whole_mask(mask);
    size_t first = (size_t)_mm_popcnt_u32(bits & 0xffff);
    expand16(choice(before16(mask), zeros), from, constant, out);
    expand16(choice(before16(mask + 2), zeros),
             from + (zeros ? 16 - first : first), constant, out + 16);
    return (size_t)_mm_popcnt_u32(bits);
}

/* One side is a constant: into it expands the other, that of the zeros or of
 * the ones. */
static inline __attribute__((always_inline)) size_t
merge_constant(const uint8_t *mask, size_t n, uint8_t constant,
               const uint8_t *from, bool zeros, uint8_t *out) {
    const __m128i fill = _mm_set1_epi8((char)constant);
    size_t sum = 0, i = 0;
    for (; i + 32 <= n; i += 32, mask += 4)
        sum += expand32(mask, from + (zeros ? i - sum : sum), fill, zeros,
                        out + i);
    if (i == n)
        return sum;
    uint32_t bits = load_mask(mask, n - i);
    const uint8_t *last = (const uint8_t *)&bits;
    return sum +
           expand32(last, from + (zeros ? i - sum : sum), fill, zeros, out + i);
}

static size_t merge_both(const uint8_t *mask, size_t n, const uint8_t *zeros,
                         const uint8_t *ones, uint8_t *out) {
    size_t i = 0, sum = 0;
    for (; i + 32 <= n; i += 32, mask += 4)
        sum += merge32(mask, zeros + (i - sum), ones + sum, out + i);
    if (i == n)
        return sum;
    uint32_t bits = load_mask(mask, n - i);
    const uint8_t *last = (const uint8_t *)&bits;
    return sum + merge32(last, zeros + (i - sum), ones + sum, out + i);
}

static size_t merge(const uint8_t *mask, size_t n, lull__expo_side_t zero,
                    lull__expo_side_t one, uint8_t *out) {
    if (zero.at == NULL && one.at == NULL) {
        merge_constants(mask, n, zero.byte, one.byte, out);
        return 0;
    }
    if (zero.at == NULL)
        return merge_constant(mask, n, zero.byte, one.at, false, out);
    if (one.at == NULL)
        return merge_constant(mask, n, one.byte, zero.at, true, out);
    return merge_both(mask, n, zero.at, one.at, out);
}

/* ---- Map --------------------------------------------------------------- */

/* Which rows of 16 of a table are needed: a bit each. Exponents lie close
 * together, so it is the zero's and a few neighbours. */
static unsigned rows_of(const uint8_t *in, size_t n) {
    const __m256i one = _mm256_set1_epi8(1);
    __m256i most = _mm256_setzero_si256(), least = _mm256_set1_epi8(-1);
    __m256i least1 = least; /* of symbols less 1, so that 0 is the most */
    size_t i = 0;
    for (; i + 32 <= n; i += 32) {
        __m256i x = load(in + i);
        most = _mm256_max_epu8(most, x);
        least = _mm256_min_epu8(least, x);
        least1 = _mm256_min_epu8(least1, _mm256_sub_epi8(x, one));
    }
    unsigned high = largest(most), low1 = smallest(least1);
    unsigned rows = smallest(least) == 0;
    for (; i < n; i++) {
        uint8_t less = (uint8_t)(in[i] - 1);
        high = in[i] > high ? in[i] : high;
        low1 = less < low1 ? less : low1;
        rows |= in[i] == 0;
    }
    if (high != 0)
        rows |= ((2u << (high >> 4)) - 1) & ~((1u << ((low1 + 1) >> 4)) - 1);
    return rows;
}

/* One row's part: 0 where the symbol is in another row. */
static inline __m256i look_up(__m256i x, __m256i row, __m256i number) {
    __m256i at = _mm256_xor_si256(x, number);
    return _mm256_shuffle_epi8(row,
                               _mm256_adds_epu8(at, _mm256_set1_epi8(0x70)));
}

static unsigned map(const uint8_t *in, size_t n, const uint8_t *table,
                    uint8_t *out) {
    __m256i row[16], number[16], all = _mm256_setzero_si256();
    unsigned rows = 0;
    for (unsigned left = rows_of(in, n); left != 0; left &= left - 1) {
        unsigned r = (unsigned)__builtin_ctz(left);
        __m128i part = _mm_loadu_si128((const void *)(table + 16 * r));
        row[rows] = _mm256_broadcastsi128_si256(part);
        number[rows++] = _mm256_set1_epi8((char)(16 * r));
    }
    /* The last symbols may be followed by others, in rows that are not looked
     * up: that gives 0, which does not count. */
    for (size_t i = 0; i < n; i += 32) {
        __m256i x = load(in + i), y = _mm256_setzero_si256();
        for (unsigned k = 0; k < rows; k++)
            y = _mm256_or_si256(y, look_up(x, row[k], number[k]));
        if (n - i < 32)
            y = _mm256_and_si256(y, bytes_of(valid_bits(n - i)));
        all = _mm256_max_epu8(all, y);
        store(out + i, y);
    }
    return largest(all);
}

const lull__expo_kernel_t lull__expo_avx2 = {
    .count = count,
    .split = split,
    .ones = ones,
    .pick = pick,
    .merge = merge,
    .map = map,
    .cut = &lull__expo_cut_avx2,
};
#else
typedef int lull__no_avx2;
#endif
