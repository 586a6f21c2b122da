/* MPC's kernels for AVX2: bits are transposed by gathering bytes and taking
 * their sign bits. */
#ifdef __AVX2__
#include <immintrin.h>
#include <string.h>

#include "codec/bytes64_avx2.h"
#include "codec/mpc.h"

static inline __m256i load(const void *at) {
    return _mm256_loadu_si256(at);
}

static inline void store(void *at, __m256i x) {
    _mm256_storeu_si256(at, x);
}

/* ---- Transposition ----------------------------------------------------- */

/* Eight words of 32 bits: by byte, in groups of four words. */
static inline __m256i by_byte(__m256i words) {
    const __m256i order = _mm256_broadcastsi128_si256(
        _mm_set_epi8(15, 11, 7, 3, 14, 10, 6, 2, 13, 9, 5, 1, 12, 8, 4, 0));
    return _mm256_shuffle_epi8(words, order);
}

/* 32 bytes, byte k of 32 words, to 8 words: bit j of all of them. */
static inline void take_signs(__m256i bytes, uint32_t *words) {
    const __m256i order = _mm256_set_epi32(7, 3, 6, 2, 5, 1, 4, 0);
    bytes = _mm256_permutevar8x32_epi32(bytes, order);
    for (unsigned j = 8; j-- > 0;) {
        words[j] = (uint32_t)_mm256_movemask_epi8(bytes);
        bytes = _mm256_add_epi8(bytes, bytes);
    }
}

/* 32 by 32 bits. */
static inline void transpose32(const __m256i in[4], uint32_t *out) {
    __m256i a = by_byte(in[0]), b = by_byte(in[1]), c = by_byte(in[2]),
            d = by_byte(in[3]);
    __m256i ab01 = _mm256_unpacklo_epi32(a, b);
    __m256i ab23 = _mm256_unpackhi_epi32(a, b);
    __m256i cd01 = _mm256_unpacklo_epi32(c, d);
    __m256i cd23 = _mm256_unpackhi_epi32(c, d);
    take_signs(_mm256_unpacklo_epi64(ab01, cd01), out);
    take_signs(_mm256_unpackhi_epi64(ab01, cd01), out + 8);
    take_signs(_mm256_unpacklo_epi64(ab23, cd23), out + 16);
    take_signs(_mm256_unpackhi_epi64(ab23, cd23), out + 24);
}

/* Twice 16 by 16 bits, of 32 words. */
static inline void transpose16(const uint16_t *in, uint16_t *out) {
    const __m256i mask = _mm256_set1_epi16(0xff);
    __m256i a = load(in), b = load(in + 16);
    __m256i low = _mm256_packus_epi16(_mm256_and_si256(a, mask),
                                      _mm256_and_si256(b, mask));
    __m256i high =
        _mm256_packus_epi16(_mm256_srli_epi16(a, 8), _mm256_srli_epi16(b, 8));
    low = _mm256_permute4x64_epi64(low, 0xd8);
    high = _mm256_permute4x64_epi64(high, 0xd8);
    for (unsigned j = 8; j-- > 0;) {
        uint32_t bits = (uint32_t)_mm256_movemask_epi8(low);
        uint32_t bits8 = (uint32_t)_mm256_movemask_epi8(high);
        out[j] = (uint16_t)bits;
        out[16 + j] = (uint16_t)(bits >> 16);
        out[8 + j] = (uint16_t)bits8;
        out[24 + j] = (uint16_t)(bits8 >> 16);
        low = _mm256_add_epi8(low, low);
        high = _mm256_add_epi8(high, high);
    }
}

/* ---- Words and their bitmap -------------------------------------------- */

/* How eight words of 32 bits stand by a byte of the bitmap: the lanes of those
 * that are there, packed, and the place of each among them. */
typedef struct lanes {
    _Alignas(32) uint8_t pack[256][8];
    _Alignas(32) uint8_t place[256][8];
} lanes_t;

#define BIT(m, k) ((m) >> (k)&1)
#define ONES0(m) 0
#define ONES1(m) (ONES0(m) + BIT(m, 0))
#define ONES2(m) (ONES1(m) + BIT(m, 1))
#define ONES3(m) (ONES2(m) + BIT(m, 2))
#define ONES4(m) (ONES3(m) + BIT(m, 3))
#define ONES5(m) (ONES4(m) + BIT(m, 4))
#define ONES6(m) (ONES5(m) + BIT(m, 5))
#define ONES7(m) (ONES6(m) + BIT(m, 6))
/* The number of the j-th bit that is 1: the sum over all bits of those that
 * are j-th. */
#define IS(m, k, j) (BIT(m, k) && ONES##k(m) == (j) ? (k) : 0)
#define NTH(m, j)                                                          \
    (IS(m, 0, j) + IS(m, 1, j) + IS(m, 2, j) + IS(m, 3, j) + IS(m, 4, j) + \
     IS(m, 5, j) + IS(m, 6, j) + IS(m, 7, j))
#define PACK(m)                                                           \
    {                                                                     \
        NTH(m, 0), NTH(m, 1), NTH(m, 2), NTH(m, 3), NTH(m, 4), NTH(m, 5), \
            NTH(m, 6), NTH(m, 7)                                          \
    }
#define PLACE(m)                                                              \
    {                                                                         \
        ONES0(m), ONES1(m), ONES2(m), ONES3(m), ONES4(m), ONES5(m), ONES6(m), \
            ONES7(m)                                                          \
    }
#define EACH4(f, m) f(m), f((m) + 1), f((m) + 2), f((m) + 3)
#define EACH16(f, m) \
    EACH4(f, m), EACH4(f, (m) + 4), EACH4(f, (m) + 8), EACH4(f, (m) + 12)
#define EACH64(f, m) \
    EACH16(f, m), EACH16(f, (m) + 16), EACH16(f, (m) + 32), EACH16(f, (m) + 48)
#define EACH256(f) EACH64(f, 0), EACH64(f, 64), EACH64(f, 128), EACH64(f, 192)

static const lanes_t lanes = {{EACH256(PACK)}, {EACH256(PLACE)}};

static inline __m256i lane_numbers(const uint8_t *at) {
    return _mm256_cvtepu8_epi32(_mm_loadl_epi64((const void *)at));
}

/* The difference of 8 words to those before them, packed. words[-1] is read. */
static inline unsigned put32(const uint32_t *t, uint8_t **words) {
    __m256i u = _mm256_sub_epi32(load(t), load(t - 1));
    __m256i none = _mm256_cmpeq_epi32(u, _mm256_setzero_si256());
    unsigned m =
        ~(unsigned)_mm256_movemask_ps(_mm256_castsi256_ps(none)) & 0xff;
    store(*words, _mm256_permutevar8x32_epi32(u, lane_numbers(lanes.pack[m])));
    *words += 4 * (unsigned)_mm_popcnt_u32(m);
    return m;
}

static inline __m256i take32(unsigned m, const uint8_t **words) {
    const __m256i bit = _mm256_set_epi32(128, 64, 32, 16, 8, 4, 2, 1);
    __m256i there = _mm256_cmpeq_epi32(
        _mm256_and_si256(_mm256_set1_epi32((int)m), bit), bit);
    __m256i x =
        _mm256_permutevar8x32_epi32(load(*words), lane_numbers(lanes.place[m]));
    *words += 4 * (unsigned)_mm_popcnt_u32(m);
    return _mm256_and_si256(x, there);
}

/* ---- 32 bits ----------------------------------------------------------- */

/* The values from byte i of a chunk on, before which others can be read. Before
 * the chunk there are zeros, for any dimension: its first group is copied
 * behind some. The others come from where they are; copied all at once, memory
 * would be waited for. */
static inline const uint8_t *group_at(const uint8_t *values, size_t i,
                                      uint8_t *first, size_t bytes) {
    if (i != 0)
        return values + i;
    memset(first, 0, bytes);
    memcpy(first + bytes, values, bytes);
    return first + bytes;
}

static size_t encode32(const uint8_t *values, unsigned dim, uint8_t *bitmap,
                       uint8_t *words) {
    uint8_t first[2 * 128], *begin = words;
    uint32_t t[8 + LULL__MPC_CHUNK];
    t[7] = 0;
    for (unsigned i = 0; i < LULL__MPC_CHUNK; i += 32) {
        const uint8_t *at = group_at(values, 4 * i, first, 128);
        __m256i d[4];
        for (unsigned k = 0; k < 4; k++)
            d[k] = _mm256_sub_epi32(load(at + 32 * k),
                                    load(at + 32 * k - 4 * dim));
        transpose32(d, t + 8 + i);
    }
    /* Only now: a load waits for the small stores it covers. */
    for (unsigned i = 0; i < LULL__MPC_CHUNK; i += 8)
        bitmap[i / 8] = (uint8_t)put32(t + 8 + i, &words);
    return (size_t)(words - begin) / 4;
}

/* Running sums of eight neighbours after *before, the sum so far in every
 * lane. */
static inline __m256i sum_all32(__m256i x, __m256i *before) {
    x = _mm256_add_epi32(x, _mm256_slli_si256(x, 4));
    x = _mm256_add_epi32(x, _mm256_slli_si256(x, 8));
    __m256i low = _mm256_permute2x128_si256(x, x, 0x08); /* 0, low half */
    x = _mm256_add_epi32(x, _mm256_shuffle_epi32(low, 0xff));
    __m256i sum = _mm256_add_epi32(x, *before);
    *before = _mm256_add_epi32(
        *before, _mm256_permutevar8x32_epi32(x, _mm256_set1_epi32(7)));
    return sum;
}

/* Spoils v, before which stand 32 zeros. */
static void finish32(uint32_t *v, unsigned dim, uint8_t *values) {
    __m256i before = _mm256_setzero_si256();
    if (dim == 1) {
        for (unsigned i = 0; i < LULL__MPC_CHUNK; i += 8)
            store(values + 4 * i, sum_all32(load(v + i), &before));
        return;
    }
    if (dim >= 8)
        for (unsigned i = 0; i < LULL__MPC_CHUNK; i += 8)
            store(v + i, _mm256_add_epi32(load(v + i), load(v + i - dim)));
    else
        for (unsigned i = dim; i < LULL__MPC_CHUNK; i++)
            v[i] += v[i - dim];
    memcpy(values, v, LULL__MPC_CHUNK * sizeof *v);
}

static void decode32(const uint8_t *bitmap, const uint8_t *words, unsigned dim,
                     uint8_t *values) {
    uint32_t v[32 + LULL__MPC_CHUNK];
    __m256i last = _mm256_setzero_si256(), t[4];
    memset(v, 0, 32 * sizeof *v);
    for (unsigned i = 0; i < LULL__MPC_CHUNK; i += 32) {
        for (unsigned k = 0; k < 4; k++)
            t[k] = sum_all32(take32(bitmap[i / 8 + k], &words), &last);
        transpose32(t, v + 32 + i);
    }
    finish32(v + 32, dim, values);
}

/* ---- 64 bits ----------------------------------------------------------- */

/* 32 words of 64 bits: out[2 * i] has bit i of each. */
static inline void transpose_half64(const uint64_t *in, uint32_t *out) {
    __m256i b[8];
    lull__apart64((const uint8_t *)in, b);
    for (unsigned k = 0; k < 8; k++)
        for (unsigned j = 8; j-- > 0;) {
            out[2 * (8 * k + j)] = (uint32_t)_mm256_movemask_epi8(b[k]);
            b[k] = _mm256_add_epi8(b[k], b[k]);
        }
}

static inline void transpose64(const uint64_t *in, uint64_t *out) {
    transpose_half64(in, (uint32_t *)out);
    transpose_half64(in + 32, (uint32_t *)out + 1);
}

/* Both words of 32 bits of the words of 64 that a mask of four names. */
static inline unsigned doubled(unsigned m) {
    return _pdep_u32(m, 0x55) * 3;
}

static inline unsigned put64(const uint64_t *t, uint8_t **words) {
    __m256i u = _mm256_sub_epi64(load(t), load(t - 1));
    __m256i none = _mm256_cmpeq_epi64(u, _mm256_setzero_si256());
    unsigned m = ~(unsigned)_mm256_movemask_pd(_mm256_castsi256_pd(none)) & 0xf;
    store(*words,
          _mm256_permutevar8x32_epi32(u, lane_numbers(lanes.pack[doubled(m)])));
    *words += 8 * (unsigned)_mm_popcnt_u32(m);
    return m;
}

static inline __m256i take64(unsigned m, const uint8_t **words) {
    const __m256i bit = _mm256_set_epi64x(8, 4, 2, 1);
    __m256i there =
        _mm256_cmpeq_epi64(_mm256_and_si256(_mm256_set1_epi64x(m), bit), bit);
    __m256i x = _mm256_permutevar8x32_epi32(
        load(*words), lane_numbers(lanes.place[doubled(m)]));
    *words += 8 * (unsigned)_mm_popcnt_u32(m);
    return _mm256_and_si256(x, there);
}

static inline __m256i sum_all64(__m256i x, __m256i *before) {
    x = _mm256_add_epi64(x, _mm256_slli_si256(x, 8));
    __m256i low = _mm256_permute2x128_si256(x, x, 0x08); /* 0, low half */
    x = _mm256_add_epi64(x, _mm256_unpackhi_epi64(low, low));
    __m256i sum = _mm256_add_epi64(x, *before);
    *before = _mm256_add_epi64(*before, _mm256_permute4x64_epi64(x, 0xff));
    return sum;
}

static size_t encode64(const uint8_t *values, unsigned dim, uint8_t *bitmap,
                       uint8_t *words) {
    uint8_t first[2 * 512], *begin = words;
    uint64_t d[64], t[4 + LULL__MPC_CHUNK];
    t[3] = 0;
    for (unsigned i = 0; i < LULL__MPC_CHUNK; i += 64) {
        const uint8_t *at = group_at(values, 8 * i, first, 512);
        for (unsigned k = 0; k < 64; k += 4)
            store(d + k, _mm256_sub_epi64(load(at + 8 * k),
                                          load(at + 8 * k - 8 * dim)));
        transpose64(d, t + 4 + i);
    }
    for (unsigned i = 0; i < LULL__MPC_CHUNK; i += 8) {
        unsigned m = put64(t + 4 + i, &words);
        bitmap[i / 8] = (uint8_t)(m | put64(t + 8 + i, &words) << 4);
    }
    return (size_t)(words - begin) / 8;
}

/* As finish32(). */
static void finish64(uint64_t *v, unsigned dim, uint8_t *values) {
    __m256i before = _mm256_setzero_si256();
    if (dim == 1) {
        for (unsigned i = 0; i < LULL__MPC_CHUNK; i += 4)
            store(values + 8 * i, sum_all64(load(v + i), &before));
        return;
    }
    if (dim >= 4)
        for (unsigned i = 0; i < LULL__MPC_CHUNK; i += 4)
            store(v + i, _mm256_add_epi64(load(v + i), load(v + i - dim)));
    else
        for (unsigned i = dim; i < LULL__MPC_CHUNK; i++)
            v[i] += v[i - dim];
    memcpy(values, v, LULL__MPC_CHUNK * sizeof *v);
}

static void decode64(const uint8_t *bitmap, const uint8_t *words, unsigned dim,
                     uint8_t *values) {
    uint64_t v[32 + LULL__MPC_CHUNK], t[64];
    __m256i last = _mm256_setzero_si256();
    memset(v, 0, 32 * sizeof *v);
    for (unsigned i = 0; i < LULL__MPC_CHUNK; i += 64) {
        for (unsigned k = 0; k < 64; k += 4)
            store(t + k,
                  sum_all64(take64(bitmap[(i + k) / 8] >> k % 8 & 0xf, &words),
                            &last));
        transpose64(t, v + 32 + i);
    }
    finish64(v + 32, dim, values);
}

/* ---- 16 bits ----------------------------------------------------------- */

/* Of 16 bits only the transposition pays: the rest is as in plain C. */
static size_t encode16(const uint8_t *values, unsigned dim, uint8_t *bitmap,
                       uint8_t *words) {
    uint8_t first[2 * 64], *begin = words;
    uint16_t d[32], t[32], last = 0;
    for (unsigned i = 0; i < LULL__MPC_CHUNK; i += 32) {
        const uint8_t *at = group_at(values, 2 * i, first, 64);
        uint32_t bits = 0;
        for (unsigned k = 0; k < 32; k += 16)
            store(d + k, _mm256_sub_epi16(load(at + 2 * k),
                                          load(at + 2 * k - 2 * dim)));
        transpose16(d, t);
        for (unsigned k = 0; k < 32; k++) {
            uint16_t u = (uint16_t)(t[k] - last);
            last = t[k];
            memcpy(words, &u, 2);
            words += u != 0 ? 2 : 0;
            bits |= (uint32_t)(u != 0) << k;
        }
        memcpy(bitmap + i / 8, &bits, 4);
    }
    return (size_t)(words - begin) / 2;
}

static void decode16(const uint8_t *bitmap, const uint8_t *words, unsigned dim,
                     uint8_t *values) {
    uint16_t v[32 + LULL__MPC_CHUNK], t[32], last = 0;
    memset(v, 0, 32 * sizeof *v);
    for (unsigned i = 0; i < LULL__MPC_CHUNK; i += 32) {
        uint32_t bits;
        memcpy(&bits, bitmap + i / 8, 4);
        for (unsigned k = 0; k < 32; k++) {
            uint16_t u, set = (uint16_t)(bits >> k & 1);
            memcpy(&u, words, 2);
            last = (uint16_t)(last + (u & (uint16_t)(0 - set)));
            words += 2 * set;
            t[k] = last;
        }
        transpose16(t, v + 32 + i);
    }
    for (unsigned i = 32 + dim; i < 32 + LULL__MPC_CHUNK; i++)
        v[i] = (uint16_t)(v[i] + v[i - dim]);
    memcpy(values, v + 32, LULL__MPC_CHUNK * sizeof *v);
}

const lull__mpc_kernel_t lull__mpc_avx2[3] = {
    {encode16, decode16},
    {encode32, decode32},
    {encode64, decode64},
};
#else
typedef int lull__no_avx2;
#endif
