/* MPC's kernels for AVX-512: bits are transposed in registers (8 by 8 with
 * GFNI), non-zero words are compressed and expanded by their mask. */
#if defined(__AVX512VBMI2__) && defined(__GFNI__)
#include <immintrin.h>
#include <string.h>

#include "codec/mpc.h"
#include "codec/words_avx512.h"

/* See expo_avx512.c: Zen 4 waits for a compress's or expand's destination. */
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

/* 8 by 8 bits in each 64: byte j of the result has bit j of the bytes, the
 * last byte's lowest. So a transposition takes its bytes in reverse. */
static inline __m512i columns(__m512i bytes) {
    const __m512i unit = _mm512_set1_epi64((long long)0x8040201008040201ull);
    return _mm512_gf2p8affine_epi64_epi8(unit, bytes, 0);
}

/* A table of 64 bytes, f(0) to f(63). */
#define EACH8(f, i) \
    f(i), f(i + 1), f(i + 2), f(i + 3), f(i + 4), f(i + 5), f(i + 6), f(i + 7)
#define EACH64(f)                                                           \
    {                                                                       \
        EACH8(f, 0), EACH8(f, 8), EACH8(f, 16), EACH8(f, 24), EACH8(f, 32), \
            EACH8(f, 40), EACH8(f, 48), EACH8(f, 56)                        \
    }

/* ---- Sums -------------------------------------------------------------- */

/* Running sums `dim` lanes apart, for a dimension less than the lanes: rounds
 * of permutations, each twice as far, and the lanes of the sums before to add.
 * For more the sums before are read from memory. */
typedef struct sums {
    unsigned dim, rounds;
    __m512i from[5], carry;
    uint32_t mask[5]; /* lanes that have one so far before them */
} sums_t;

/* SUMS(32, 16): make_sums32() for 16 lanes of 32 bits. Of a permutation's
 * lane numbers only the bits that count are read; i / dim for i < 32 is
 * i * (1024 / dim + 1) / 1024. */
#define SUMS(bits, lanes)                                                     \
    static inline sums_t make_sums##bits(unsigned dim) {                      \
        sums_t s = {.dim = dim};                                              \
        const __m512i lane = LANES##bits;                                     \
        if (dim >= (lanes))                                                   \
            return s;                                                         \
        for (unsigned far = dim; far < (lanes); far *= 2) {                   \
            s.from[s.rounds] =                                                \
                _mm512_sub_epi##bits(lane, SET##bits((int)far));              \
            s.mask[s.rounds++] =                                              \
                (uint32_t)(((1ull << (lanes)) - 1) & ~((1ull << far) - 1));   \
        }                                                                     \
        __m512i turn = _mm512_srli_epi##bits(                                 \
            _mm512_mullo_epi##bits(lane, SET##bits((int)(1024 / dim + 1))),   \
            10);                                                              \
        turn = _mm512_mullo_epi##bits(turn, SET##bits((int)dim));             \
        s.carry = _mm512_sub_epi##bits(                                       \
            _mm512_add_epi##bits(lane, SET##bits((int)((lanes)-dim))), turn); \
        return s;                                                             \
    }                                                                         \
    static inline __m512i sum##bits(const sums_t *s, __m512i x,               \
                                    __m512i before) {                         \
        for (unsigned k = 0; k < s->rounds; k++) {                            \
            __m512i far = _mm512_maskz_permutexvar_epi##bits(                 \
                (MASK##bits)s->mask[k], s->from[k], x);                       \
            x = _mm512_add_epi##bits(x, far);                                 \
        }                                                                     \
        return _mm512_add_epi##bits(                                          \
            x, _mm512_permutexvar_epi##bits(s->carry, before));               \
    }                                                                         \
    /* The values `dim` before those at `at`, as far as there are any. */     \
    static inline __m512i load_before##bits(const uint8_t *values,            \
                                            unsigned at, unsigned dim) {      \
        uint32_t lanes_on = at >= dim             ? UINT32_MAX                \
                            : at + (lanes) <= dim ? 0                         \
                                                  : UINT32_MAX << (dim - at); \
        const uint8_t *from =                                                 \
            (const uint8_t *)((uintptr_t)values + at * ((bits) / 8) -         \
                              dim * ((bits) / 8));                            \
        return _mm512_maskz_loadu_epi##bits((MASK##bits)lanes_on, from);      \
    }
#define SET16(x) _mm512_set1_epi16((short)(x))
#define SET32(x) _mm512_set1_epi32(x)
#define SET64(x) _mm512_set1_epi64(x)
#define LANES16                                                              \
    _mm512_set_epi16(31, 30, 29, 28, 27, 26, 25, 24, 23, 22, 21, 20, 19, 18, \
                     17, 16, 15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, \
                     1, 0)
#define LANES32 \
    _mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0)
#define LANES64 _mm512_set_epi64(7, 6, 5, 4, 3, 2, 1, 0)
#define MASK16 __mmask32
#define MASK32 __mmask16
#define MASK64 __mmask8
SUMS(16, 32)
SUMS(32, 16)
SUMS(64, 8)

/* 32 words as those of even and those of odd number: half the additions and
 * permutations, and where bits are transposed it costs nothing. */
typedef struct halves {
    __m512i even, odd;
} halves_t;

/* Running sums of neighbours after *before, the sum so far in every lane.
 * First within 128 bits, where moving lanes takes two cycles instead of five;
 * and the chain from one call to the next is a single addition. */
static inline halves_t sum_all32(halves_t x, __m512i *before) {
    const __m512i pairs =
        _mm512_set_epi32(11, 11, 11, 11, 0, 0, 0, 0, 3, 3, 3, 3, 0, 0, 0, 0);
    const __m512i half = _mm512_set1_epi32(7), end = _mm512_set1_epi32(15);
    __m512i s = _mm512_add_epi32(x.even, x.odd);
    s = _mm512_add_epi32(s, _mm512_bslli_epi128(s, 4));
    s = _mm512_add_epi32(s, _mm512_bslli_epi128(s, 8));
    s = _mm512_add_epi32(s, _mm512_maskz_permutexvar_epi32(0xf0f0, pairs, s));
    s = _mm512_add_epi32(s, _mm512_maskz_permutexvar_epi32(0xff00, half, s));
    __m512i odd = _mm512_add_epi32(s, *before);
    *before = _mm512_add_epi32(*before, _mm512_permutexvar_epi32(end, s));
    return (halves_t){_mm512_sub_epi32(odd, x.odd), odd};
}

/* ---- Transpositions ---------------------------------------------------- */

/* 32 by 32 bits, two registers. Blocks of 8 by 8: first those of bytes 0 and
 * 1, which give words 0 to 15, then those of 2 and 3. */
typedef struct order32 {
    __m512i low, high, back;
} order32_t;

/* i is 32 c + 8 r + k: block of words 8 r on, byte c, word 7 - k. */
#define BLOCKS32(i) 4 * (8 * ((i) / 8 % 4) + 7 - (i) % 8) + (i) / 32
/* i is 4 (8 c + k) + r. */
#define BACK32(i) 8 * (4 * ((i) / 32) + (i) % 4) + (i) / 4 % 8

static inline order32_t make_order32(void) {
    static const uint8_t blocks[64] = EACH64(BLOCKS32);
    static const uint8_t back[64] = EACH64(BACK32);
    __m512i low = _mm512_loadu_si512(blocks);
    return (order32_t){low, _mm512_add_epi8(low, _mm512_set1_epi8(2)),
                       _mm512_loadu_si512(back)};
}

static inline void transpose32(const order32_t *order, __m512i *a, __m512i *b) {
    __m512i low = _mm512_permutex2var_epi8(*a, order->low, *b);
    __m512i high = _mm512_permutex2var_epi8(*a, order->high, *b);
    *a = _mm512_permutexvar_epi8(order->back, columns(low));
    *b = _mm512_permutexvar_epi8(order->back, columns(high));
}

/* The same from halves, and to halves or whole registers. Word w is 4 bytes
 * from 4 (w / 2) on of the even or of the odd ones. */
#define HALF(w, c) ((w) % 2 * 64 + 4 * ((w) / 2) + (c))
#define BLOCKS_OF_HALVES(i) HALF(8 * ((i) / 8 % 4) + 7 - (i) % 8, (i) / 32)
/* Byte r of word w among the blocks of words 0 to 15 and of the rest. */
#define BLOCK(w, r) ((w) / 16 * 64 + 8 * (4 * ((w) / 8 % 2) + (r)) + (w) % 8)
#define EVEN(i) BLOCK((i) / 4 * 2, (i) % 4)
#define ODD(i) BLOCK((i) / 4 * 2 + 1, (i) % 4)

typedef struct halves32 {
    __m512i low, high, even, odd, back;
} halves32_t;

static inline halves32_t make_halves32(void) {
    static const uint8_t blocks[64] = EACH64(BLOCKS_OF_HALVES);
    static const uint8_t even[64] = EACH64(EVEN), odd[64] = EACH64(ODD);
    static const uint8_t back[64] = EACH64(BACK32);
    __m512i low = _mm512_loadu_si512(blocks);
    return (halves32_t){low, _mm512_add_epi8(low, _mm512_set1_epi8(2)),
                        _mm512_loadu_si512(even), _mm512_loadu_si512(odd),
                        _mm512_loadu_si512(back)};
}

static inline halves_t even_odd32(__m512i a, __m512i b) {
    const __m512i even = _mm512_set_epi32(30, 28, 26, 24, 22, 20, 18, 16, 14,
                                          12, 10, 8, 6, 4, 2, 0);
    const __m512i odd = _mm512_add_epi32(even, _mm512_set1_epi32(1));
    return (halves_t){_mm512_permutex2var_epi32(a, even, b),
                      _mm512_permutex2var_epi32(a, odd, b)};
}

/* Twice 16 by 16 bits, one register. */
typedef struct order16 {
    __m512i blocks, back;
} order16_t;

/* i is 32 g + 16 c + 8 r + k: group g, words 8 r on, byte c. */
#define BLOCKS16(i) \
    32 * ((i) / 32) + 2 * (8 * ((i) / 8 % 2) + 7 - (i) % 8) + (i) / 16 % 2
/* i is 32 g + 2 (8 c + k) + r. */
#define BACK16(i) \
    32 * ((i) / 32) + 8 * (2 * ((i) / 16 % 2) + (i) % 2) + (i) / 2 % 8

static inline order16_t make_order16(void) {
    static const uint8_t blocks[64] = EACH64(BLOCKS16);
    static const uint8_t back[64] = EACH64(BACK16);
    return (order16_t){_mm512_loadu_si512(blocks), _mm512_loadu_si512(back)};
}

static inline __m512i transpose16(const order16_t *order, __m512i x) {
    x = _mm512_permutexvar_epi8(order->blocks, x);
    return _mm512_permutexvar_epi8(order->back, columns(x));
}

/* 64 by 64 bits, eight registers. */
typedef struct order64 {
    __m512i blocks, back;
} order64_t;

#define BLOCKS64(i) 8 * (7 - (i) % 8) + (i) / 8
#define BACK64(i) 8 * ((i) % 8) + (i) / 8

static inline order64_t make_order64(void) {
    static const uint8_t blocks[64] = EACH64(BLOCKS64);
    static const uint8_t back[64] = EACH64(BACK64);
    return (order64_t){_mm512_loadu_si512(blocks), _mm512_loadu_si512(back)};
}

static inline void transpose64(const order64_t *order, __m512i x[8]) {
    for (unsigned r = 0; r < 8; r++)
        x[r] = columns(_mm512_permutexvar_epi8(order->blocks, x[r]));
    lull__transpose_words(x);
    for (unsigned c = 0; c < 8; c++)
        x[c] = _mm512_permutexvar_epi8(order->back, x[c]);
}

/* ---- 32 bits ----------------------------------------------------------- */

static inline __m512i difference32(const uint8_t *values, unsigned at,
                                   unsigned dim) {
    return _mm512_sub_epi32(_mm512_loadu_si512(values + at * 4),
                            load_before32(values, at, dim));
}

/* Differences of neighbours, compressed; returns their mask. */
static inline uint32_t put32(__m512i t, __m512i before, uint8_t **words) {
    __m512i u = _mm512_sub_epi32(t, _mm512_alignr_epi32(t, before, 15));
    __mmask16 mask = _mm512_test_epi32_mask(u, u);
    _mm512_storeu_si512(*words,
                        _mm512_mask_compress_epi32(fresh_zero(), mask, u));
    *words += 4 * (unsigned)_mm_popcnt_u32(mask);
    return mask;
}

static size_t encode32(const uint8_t *values, unsigned dim, uint8_t *bitmap,
                       uint8_t *words) {
    const order32_t order = make_order32();
    uint8_t *begin = words;
    __m512i before = _mm512_setzero_si512();
    for (unsigned i = 0; i < LULL__MPC_CHUNK; i += 32) {
        __m512i a = difference32(values, i, dim);
        __m512i b = difference32(values, i + 16, dim);
        transpose32(&order, &a, &b);
        uint32_t mask = put32(a, before, &words);
        mask |= put32(b, a, &words) << 16;
        memcpy(bitmap + i / 8, &mask, 4);
        before = b;
    }
    return (size_t)(words - begin) / 4;
}

static inline __m512i take32(uint32_t mask, const uint8_t **words) {
    __m512i x = load_whole(*words);
    *words += 4 * (unsigned)_mm_popcnt_u32(mask);
    return _mm512_mask_expand_epi32(fresh_zero(), (__mmask16)mask, x);
}

/* Stores 32 values that are neighbours' sums of x. */
static inline void finish_halves32(halves_t x, __m512i *before,
                                   uint8_t *values) {
    const __m512i first = _mm512_set_epi32(23, 7, 22, 6, 21, 5, 20, 4, 19, 3,
                                           18, 2, 17, 1, 16, 0);
    const __m512i second = _mm512_add_epi32(first, _mm512_set1_epi32(8));
    x = sum_all32(x, before);
    _mm512_storeu_si512(values,
                        _mm512_permutex2var_epi32(x.even, first, x.odd));
    _mm512_storeu_si512(values + 64,
                        _mm512_permutex2var_epi32(x.even, second, x.odd));
}

/* Stores 16 values that are sums of x `dim` apart. */
static inline __m512i finish32(const sums_t *s, __m512i x, __m512i before,
                               uint8_t *values, unsigned at) {
    if (s->rounds != 0)
        x = sum32(s, x, before);
    else
        x = _mm512_add_epi32(x, load_before32(values, at, s->dim));
    _mm512_storeu_si512(values + at * 4, x);
    return x;
}

/* Decoding of 32 words is four steps of about 15 cycles' latency each. Done
 * one after another they fill the scheduler with waiting instructions; so a
 * turn of the loop takes each step of other words, as a pipeline does. */
typedef struct decoder32 {
    const uint8_t *bitmap, *words;
    const sums_t *far; /* NULL: dimension 1 */
    uint8_t *values;
    __m512i last, before;
    halves32_t order;
} decoder32_t;

static inline halves_t expand_step(decoder32_t *d, unsigned i) {
    uint32_t mask;
    memcpy(&mask, d->bitmap + i * 4, 4);
    __m512i a = take32(mask & 0xffff, &d->words);
    __m512i b = take32(mask >> 16, &d->words);
    return even_odd32(a, b);
}

static inline halves_t sum_step(decoder32_t *d, halves_t x) {
    return sum_all32(x, &d->last);
}

/* Gives halves, or for another dimension than 1 words 0 to 15 and the rest. */
static inline halves_t transpose_step(decoder32_t *d, halves_t x) {
    __m512i a = columns(_mm512_permutex2var_epi8(x.even, d->order.low, x.odd));
    __m512i b = columns(_mm512_permutex2var_epi8(x.even, d->order.high, x.odd));
    if (d->far == NULL)
        return (halves_t){_mm512_permutex2var_epi8(a, d->order.even, b),
                          _mm512_permutex2var_epi8(a, d->order.odd, b)};
    return (halves_t){_mm512_permutexvar_epi8(d->order.back, a),
                      _mm512_permutexvar_epi8(d->order.back, b)};
}

static inline void finish_step(decoder32_t *d, halves_t x, unsigned i) {
    if (d->far == NULL) {
        finish_halves32(x, &d->before, d->values + i * 128);
        return;
    }
    d->before = finish32(d->far, x.even, d->before, d->values, i * 32);
    d->before = finish32(d->far, x.odd, d->before, d->values, i * 32 + 16);
}

static inline void decode_as32(const uint8_t *bitmap, const uint8_t *words,
                               const sums_t *far, uint8_t *values) {
    enum { LAST = LULL__MPC_CHUNK / 32 - 1 };
    const __m512i zero = _mm512_setzero_si512();
    decoder32_t d = {bitmap, words, far, values, zero, zero, make_halves32()};
    halves_t z = transpose_step(&d, sum_step(&d, expand_step(&d, 0)));
    halves_t y = sum_step(&d, expand_step(&d, 1));
    halves_t x = expand_step(&d, 2);
    for (unsigned i = 0; i + 3 <= LAST; i++) {
        finish_step(&d, z, i);
        z = transpose_step(&d, y);
        y = sum_step(&d, x);
        x = expand_step(&d, i + 3);
    }
    finish_step(&d, z, LAST - 2);
    finish_step(&d, transpose_step(&d, y), LAST - 1);
    finish_step(&d, transpose_step(&d, sum_step(&d, x)), LAST);
}

static void decode32(const uint8_t *bitmap, const uint8_t *words, unsigned dim,
                     uint8_t *values) {
    if (dim == 1) { /* a loop of its own */
        decode_as32(bitmap, words, NULL, values);
    } else {
        const sums_t far = make_sums32(dim);
        decode_as32(bitmap, words, &far, values);
    }
}

/* ---- 16 bits ----------------------------------------------------------- */

static size_t encode16(const uint8_t *values, unsigned dim, uint8_t *bitmap,
                       uint8_t *words) {
    const order16_t order = make_order16();
    /* The lane before, of two registers. */
    const __m512i back = _mm512_add_epi16(LANES16, SET16(31));
    uint8_t *begin = words;
    __m512i before = _mm512_setzero_si512();
    for (unsigned i = 0; i < LULL__MPC_CHUNK; i += 32) {
        __m512i t = _mm512_sub_epi16(_mm512_loadu_si512(values + i * 2),
                                     load_before16(values, i, dim));
        t = transpose16(&order, t);
        __m512i u =
            _mm512_sub_epi16(t, _mm512_permutex2var_epi16(before, back, t));
        uint32_t mask = _mm512_test_epi16_mask(u, u);
        _mm512_storeu_si512(words,
                            _mm512_mask_compress_epi16(fresh_zero(), mask, u));
        words += 2 * (unsigned)_mm_popcnt_u32(mask);
        memcpy(bitmap + i / 8, &mask, 4);
        before = t;
    }
    return (size_t)(words - begin) / 2;
}

static void decode16(const uint8_t *bitmap, const uint8_t *words, unsigned dim,
                     uint8_t *values) {
    const order16_t order = make_order16();
    const sums_t one = make_sums16(1), far = make_sums16(dim);
    __m512i last = _mm512_setzero_si512(), before = last;
    for (unsigned i = 0; i < LULL__MPC_CHUNK; i += 32) {
        uint32_t mask;
        memcpy(&mask, bitmap + i / 8, 4);
        __m512i x = load_whole(words);
        words += 2 * (unsigned)_mm_popcnt_u32(mask);
        x = _mm512_mask_expand_epi16(fresh_zero(), mask, x);
        last = sum16(&one, x, last);
        x = transpose16(&order, last);
        if (far.rounds != 0)
            x = sum16(&far, x, before);
        else
            x = _mm512_add_epi16(x, load_before16(values, i, dim));
        _mm512_storeu_si512(values + i * 2, x);
        before = x;
    }
}

/* ---- 64 bits ----------------------------------------------------------- */

static size_t encode64(const uint8_t *values, unsigned dim, uint8_t *bitmap,
                       uint8_t *words) {
    const order64_t order = make_order64();
    uint8_t *begin = words;
    __m512i before = _mm512_setzero_si512();
    for (unsigned i = 0; i < LULL__MPC_CHUNK; i += 64) {
        __m512i x[8];
        for (unsigned r = 0; r < 8; r++)
            x[r] =
                _mm512_sub_epi64(_mm512_loadu_si512(values + (i + 8 * r) * 8),
                                 load_before64(values, i + 8 * r, dim));
        transpose64(&order, x);
        for (unsigned c = 0; c < 8; c++) {
            __m512i u =
                _mm512_sub_epi64(x[c], _mm512_alignr_epi64(x[c], before, 7));
            __mmask8 mask = _mm512_test_epi64_mask(u, u);
            _mm512_storeu_si512(
                words, _mm512_mask_compress_epi64(fresh_zero(), mask, u));
            words += 8 * (unsigned)_mm_popcnt_u32(mask);
            bitmap[i / 8 + c] = mask;
            before = x[c];
        }
    }
    return (size_t)(words - begin) / 8;
}

static void decode64(const uint8_t *bitmap, const uint8_t *words, unsigned dim,
                     uint8_t *values) {
    const order64_t order = make_order64();
    const sums_t one = make_sums64(1), far = make_sums64(dim);
    __m512i last = _mm512_setzero_si512(), before = last;
    for (unsigned i = 0; i < LULL__MPC_CHUNK; i += 64) {
        __m512i x[8];
        for (unsigned c = 0; c < 8; c++) {
            __mmask8 mask = bitmap[i / 8 + c];
            x[c] =
                _mm512_mask_expand_epi64(fresh_zero(), mask, load_whole(words));
            words += 8 * (unsigned)_mm_popcnt_u32(mask);
            x[c] = last = sum64(&one, x[c], last);
        }
        transpose64(&order, x);
        for (unsigned r = 0; r < 8; r++) {
            unsigned at = i + 8 * r;
            if (far.rounds != 0)
                x[r] = sum64(&far, x[r], before);
            else
                x[r] = _mm512_add_epi64(x[r], load_before64(values, at, dim));
            _mm512_storeu_si512(values + at * 8, x[r]);
            before = x[r];
        }
    }
}

const lull__mpc_kernel_t lull__mpc_avx512[3] = {
    {encode16, decode16},
    {encode32, decode32},
    {encode64, decode64},
};
#else
typedef int lull__no_avx512;
#endif
