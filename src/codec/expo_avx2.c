/* expo's kernels for AVX2. Without compress and expand, a byte of a mask looks
 * up how eight symbols are shuffled. */
#ifdef __AVX2__
#include <immintrin.h>
#include <string.h>

#include "codec/expo.h"
#include "codec/expo_avx2.h"
#include "codec/expo_top.h"

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

/* Byte k: all ones where bit k is 1. */
#define FULL1(m, k) (BIT(m, k) * UINT64_C(0xff) << 8 * (k))
#define FULL(m)                                                            \
    (FULL1(m, 0) | FULL1(m, 1) | FULL1(m, 2) | FULL1(m, 3) | FULL1(m, 4) | \
     FULL1(m, 5) | FULL1(m, 6) | FULL1(m, 7))

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

static const uint64_t full_bytes[256] = {EACH256(FULL)};

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

static lull__expo_range_t range(const uint8_t *in, size_t n) {
    const __m256i one = _mm256_set1_epi8(1);
    __m256i most = _mm256_setzero_si256(), most1 = most;
    __m256i least1 = _mm256_set1_epi8(-1); /* less 1, so that 0 is the most */
    size_t i = 0;
    for (; i + 32 <= n; i += 32) {
        __m256i x = load(in + i), less = _mm256_sub_epi8(x, one);
        most = _mm256_max_epu8(most, x);
        most1 = _mm256_max_epu8(most1, less);
        least1 = _mm256_min_epu8(least1, less);
    }
    lull__expo_range_t found = {largest(most1) == 255,
                                (uint8_t)(smallest(least1) + 1),
                                (uint8_t)largest(most)};
    if (i < n) {
        lull__expo_range_t rest = lull__expo_portable.range(in + i, n - i);
        found.zero |= rest.zero;
        if (rest.most > found.most)
            found.most = rest.most;
        if (i == 0 || (rest.most != 0 && rest.least < found.least))
            found.least = rest.least;
    }
    return found;
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

static size_t pick(const uint8_t *in, size_t n, const uint8_t *mask,
                   uint8_t *out) {
    const uint8_t *begin = out;
    size_t i = 0;
    for (; i + 64 <= n; i += 64)
        for (unsigned k = 0; k < 8; k++)
            out = keep8(in + i + 8 * k, mask[i / 8 + k], out);
    for (; i < n; i += 32)
        out = keep32(in + i, load_mask(mask + i / 8, n - i), out);
    return (size_t)(out - begin);
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

/* What look_up() needs of a table: rows of 16 bytes and the symbols that they
 * begin with. Exponents lie close together, so it is the zero's row and those
 * of a few neighbours. */
typedef struct rows {
    unsigned count;
    __m256i row[17], first[17];
} rows_t;

static void add_row(rows_t *rows, const uint8_t *table, unsigned first) {
    __m128i row = _mm_loadu_si128((const void *)(table + first));
    rows->row[rows->count] = _mm256_broadcastsi128_si256(row);
    rows->first[rows->count++] = _mm256_set1_epi8((char)first);
}

static __attribute__((noinline)) void
find_rows(const uint8_t *table, lull__expo_range_t range, rows_t *rows) {
    rows->count = 0;
    if (range.zero)
        add_row(rows, table, 0);
    for (unsigned s = range.least; s <= range.most; s += 16)
        add_row(rows, table, s < 240 ? s : 240);
    while (rows->count < 2)
        add_row(rows, table, 0);
}

/* One row's part: 0 where the symbol is in another row. */
static inline __m256i look_up_row(__m256i x, const rows_t *rows, unsigned k) {
    __m256i at = _mm256_sub_epi8(x, rows->first[k]);
    return _mm256_shuffle_epi8(rows->row[k],
                               _mm256_adds_epu8(at, _mm256_set1_epi8(0x70)));
}

static inline __m256i look_up(__m256i x, const rows_t *rows) {
    __m256i y =
        _mm256_or_si256(look_up_row(x, rows, 0), look_up_row(x, rows, 1));
    for (unsigned k = 2; k < rows->count; k++)
        y = _mm256_or_si256(y, look_up_row(x, rows, k));
    return y;
}

static unsigned map(const uint8_t *in, size_t n, const uint8_t *table,
                    lull__expo_range_t within, uint8_t *out) {
    __m256i all = _mm256_setzero_si256();
    rows_t rows;
    find_rows(table, within, &rows);
    for (size_t i = 0; i < n; i += 32) {
        __m256i y = look_up(load(in + i), &rows);
        if (n - i < 32)
            y = _mm256_and_si256(y, bytes_of(valid_bits(n - i)));
        all = _mm256_max_epu8(all, y);
        store(out + i, y);
    }
    return largest(all);
}

/* ---- The top ----------------------------------------------------------- */

/* To 64 bytes, half each, what `from` has for those whose bit is 1; the others
 * stay. Returns where it goes on. */
static inline const uint8_t *expand64(const uint8_t *from, uint64_t bits,
                                      __m256i x[2]) {
    uint8_t mask[8];
    memcpy(mask, &bits, 8);
    for (unsigned k = 0; k < 2; k++, bits >>= 32) {
        const uint8_t *next = from + _mm_popcnt_u32((uint32_t)bits & 0xffff);
        __m128i low = _mm_shuffle_epi8(_mm_loadu_si128((const void *)from),
                                       before16(mask + 4 * k));
        __m128i high = _mm_shuffle_epi8(_mm_loadu_si128((const void *)next),
                                        before16(mask + 4 * k + 2));
        x[k] = _mm256_or_si256(x[k], _mm256_set_m128i(high, low));
        from += _mm_popcnt_u32((uint32_t)bits);
    }
    return from;
}

/* What comes out of three planes, 32 symbols of them; `byte` says which bytes
 * those are. */
static inline __m256i look_up_path(const __m256i plane[3], __m256i byte,
                                   __m256i symbols) {
    const __m256i bit = _mm256_set1_epi64x((long long)0x8040201008040201ull);
    __m256i x[3];
    for (unsigned k = 0; k < 3; k++) {
        x[k] = _mm256_and_si256(_mm256_shuffle_epi8(plane[k], byte), bit);
        x[k] = _mm256_cmpeq_epi8(x[k], bit);
    }
    __m256i path = _mm256_add_epi8(_mm256_add_epi8(x[0], x[0]), x[1]);
    path = _mm256_add_epi8(_mm256_add_epi8(path, path), x[2]);
    return _mm256_shuffle_epi8(symbols, _mm256_abs_epi8(path));
}

/* 64 symbols, of which those that are not valid do not count. */
static ALWAYS_INLINE void merge_chunk(lull__expo_merger_t *top, __m256i symbols,
                                      lull__expo_shape_t shape, uint64_t valid,
                                      uint8_t *out) {
    const __m256i first = _mm256_set_epi64x(
        0x0303030303030303, 0x0202020202020202, 0x0101010101010101, 0);
    const __m256i second = _mm256_add_epi8(first, _mm256_set1_epi8(4));
    uint64_t root = lull__load64(top->masks + top->at / 8) & valid;
    lull__expo_planes_t p = lull__expo_read_planes(top, shape, root, valid);
    __m256i plane[3], x[2];
    for (unsigned k = 0; k < 3; k++)
        plane[k] = _mm256_set1_epi64x((long long)p.plane[k]);
    x[0] = look_up_path(plane, first, symbols);
    x[1] = look_up_path(plane, second, symbols);
    if (shape.planes > 0 && top->from[LULL__EXPO_MIXED] != NULL)
        top->from[LULL__EXPO_MIXED] =
            expand64(top->from[LULL__EXPO_MIXED], p.bytes[LULL__EXPO_MIXED], x);
    if (shape.planes < shape.third)
        top->from[LULL__EXPO_WHOLE] =
            expand64(top->from[LULL__EXPO_WHOLE], p.bytes[LULL__EXPO_WHOLE], x);
    store(out, x[0]);
    store(out + 32, x[1]);
    top->at += 64;
}

static ALWAYS_INLINE void merge_shape(lull__expo_merger_t *top, size_t n,
                                      uint8_t *out, lull__expo_shape_t shape) {
    const __m256i symbols =
        _mm256_broadcastsi128_si256(_mm_loadu_si128((const void *)top->symbol));
    lull__expo_merger_t t = *top;
    size_t i = 0;
    for (; i + 64 <= n; i += 64)
        merge_chunk(&t, symbols, shape, UINT64_MAX, out + i);
    if (i < n)
        merge_chunk(&t, symbols, shape, lull__expo_valid(n - i), out + i);
    *top = t;
}

static void merge_top(lull__expo_merger_t *top, size_t n, uint8_t *out) {
#define MERGE(shape) merge_shape(top, n, out, shape)
    LULL__EXPO_BY_SHAPE(top->shape, MERGE)
#undef MERGE
}

/* 64 symbols, of which those that are not valid do not count. */
static ALWAYS_INLINE void split_chunk(lull__expo_splitter_t *top,
                                      const uint8_t *in, const rows_t *rows,
                                      lull__expo_shape_t shape,
                                      uint64_t valid) {
    __m256i x = look_up(load(in), rows), y = look_up(load(in + 32), rows);
    uint64_t plane[3];
    for (unsigned k = 0; k < 3; k++) {
        __m256i low = _mm256_slli_epi16(x, (int)k);
        __m256i high = _mm256_slli_epi16(y, (int)k);
        plane[k] = (uint64_t)(uint32_t)_mm256_movemask_epi8(high) << 32 |
                   (uint32_t)_mm256_movemask_epi8(low);
    }
    lull__expo_write_planes(top, shape, plane, valid);
}

static ALWAYS_INLINE void split_shape(lull__expo_splitter_t *top,
                                      const uint8_t *in, size_t n,
                                      lull__expo_shape_t shape) {
    lull__expo_splitter_t t = *top;
    rows_t rows;
    size_t i = 0;
    find_rows(top->path, top->range, &rows);
    if (rows.count == 2) {
        rows.count = 2;
        for (; i + 64 <= n; i += 64)
            split_chunk(&t, in + i, &rows, shape, UINT64_MAX);
    }
    for (; i < n; i += 64)
        split_chunk(&t, in + i, &rows, shape, lull__expo_valid(n - i));
    *top = t;
}

static void split_top(lull__expo_splitter_t *top, const uint8_t *in, size_t n) {
#define SPLIT(shape) split_shape(top, in, n, shape)
    LULL__EXPO_BY_SHAPE(top->shape, SPLIT)
#undef SPLIT
}

const lull__expo_kernel_t lull__expo_avx2 = {
    .piece = 2048,
    .range = range,
    .count = count,
    .split = split,
    .ones = ones,
    .pick = pick,
    .merge = merge,
    .split_top = split_top,
    .merge_top = merge_top,
    .map = map,
    .cut = &lull__expo_cut_avx2,
};
#else
typedef int lull__no_avx2;
#endif
