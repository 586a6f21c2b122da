/* ZFP decoder of doubles for AVX2 and BMI2: planes as in portable C, PEXT to
 * undo their transposition, four blocks at a time through the transform. */
#ifdef __AVX2__
#include <string.h>

#include "zfp_double.h"
/* After it: the name v is a type from here on. */
#include "zfp_avx2.h"

/* Four blocks, coefficient i of a block in u[i] at its place. */
typedef struct four {
    _Alignas(32) uint64_t u[4][4];
    _Alignas(32) uint64_t begun[4], known[4];
    _Alignas(32) uint64_t scale[4]; /* bits of a double */
} four_t;

/* False if it is a block of zeros. */
static inline bool load_block(const uint8_t *src, size_t bit, unsigned maxbits,
                              four_t *f, unsigned at) {
    uint64_t window = peek(src, bit), u[4] = {0};
    /* A block of zeros: u 0 without rounding decodes to 0. */
    f->scale[at] = f->known[at] = 0;
    f->begun[at] = 64;
    f->u[0][at] = f->u[1][at] = f->u[2][at] = f->u[3][at] = 0;
    if ((window & 1) == 0)
        return false;
    double_block_t d = decode_double(src, bit, maxbits, window);
    for (unsigned part = 0; part < 4; part++) {
        if (d.block.planes[part] == 0)
            continue;
        uint64_t planes = reverse_nibbles(d.block.planes[part]);
        for (unsigned i = 0; i < 4; i++)
            u[i] |= _pext_u64(planes, (uint64_t)0x1111111111111111 << i)
                    << (48 - 16 * part);
    }
    if (d.block.empty < 64)
        for (unsigned i = 0; i < 4; i++)
            f->u[i][at] = u[i] >> d.block.empty & d.keep;
    f->begun[at] = d.block.begun;
    f->known[at] = d.block.known;
    f->scale[at] = d.scale;
    return true;
}

/* Nearest even, as one conversion: the high half's is exact, and less 2^52;
 * the low half's has 2^52 more. */
static INLINE __m256d to_double(v x) {
    v low = _mm256_blend_epi32(SET64(0x4330000000000000), x, 0x55);
    v high = _mm256_xor_si256(_mm256_srli_epi64(x, 32),
                              SET64(0x4530000080000000)); /* 2^84 + 2^63 */
    __m256d bias = _mm256_castsi256_pd(SET64(0x4530000080100000));
    __m256d sum = _mm256_sub_pd(_mm256_castsi256_pd(high), bias);
    return _mm256_add_pd(sum, _mm256_castsi256_pd(low));
}

static INLINE v load(const uint64_t *from) {
    return _mm256_load_si256((const void *)from);
}

static INLINE void finish_blocks(const four_t *f, uint8_t *dst, unsigned mode) {
    v nega = SET64(MASK64), q[4];
    v begun = load(f->begun), known = load(f->known);
    v fine = _mm256_srlv_epi64(SET64(MASK64 >> 2), begun);
    v coarse = _mm256_srlv_epi64(SET64(MASK64 >> 1), begun);
    UNROLL
    for (int i = 0; i < 4; i++) {
        v u = load(f->u[i]);
        if (!(mode & LULL__ZFP_TRUNCATE)) {
            v is = _mm256_cmpgt_epi64(known, SET64(i));
            u = _mm256_add_epi64(u, _mm256_blendv_epi8(coarse, fine, is));
        }
        q[i] = _mm256_sub_epi64(_mm256_xor_si256(u, nega), nega);
    }
    INVERSE_LIFT(v, unsigned64, q[0], q[1], q[2], q[3]);
    __m256d scale = _mm256_castsi256_pd(load(f->scale));
    UNROLL
    for (int i = 0; i < 4; i++)
        q[i] = _mm256_castpd_si256(_mm256_mul_pd(scale, to_double(q[i])));
    transpose_words(q);
    UNROLL
    for (int i = 0; i < 4; i++) {
        double *to = (void *)(dst + 32 * i);
        __m256d value = _mm256_castsi256_pd(q[i]);
        if (mode & LULL__ZFP_ADD)
            value = _mm256_add_pd(_mm256_loadu_pd(to), value);
        _mm256_storeu_pd(to, value);
    }
}

static INLINE void decode_all(const uint8_t *src, uint8_t *dst, size_t groups,
                              unsigned maxbits, unsigned mode) {
    four_t f;
    for (size_t quarter = 0; quarter < 4 * groups; quarter++) {
        size_t bit = quarter * 4 * maxbits;
        bool some = mode & LULL__ZFP_ADD;
        for (unsigned b = 0; b < 4; b++)
            some |= load_block(src, bit + b * maxbits, maxbits, &f, b);
        if (some)
            finish_blocks(&f, dst + 128 * quarter, mode);
        else
            memset(dst + 128 * quarter, 0, 128);
    }
}

void lull__zfp_decode_f64_avx2(const uint8_t *src, uint8_t *dst, size_t groups,
                               unsigned maxbits, unsigned mode) {
    if (maxbits == 64)
        decode_all(src, dst, groups, 64, mode);
    else
        decode_all(src, dst, groups, maxbits, mode);
}
#else
typedef int lull__no_avx2;
#endif
