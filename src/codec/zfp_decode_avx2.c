/* ZFP decoder for AVX2 and BMI2: planes as in portable C, PEXT to undo their
 * transposition, eight blocks at a time through the transforms. */
#ifdef __AVX2__
#include "zfp_portable.h"
/* After it: the name v is a type from here on. */
#include "zfp_avx2.h"

/* Eight blocks, coefficient i of a block in u[i] at its place. */
typedef struct eight {
    _Alignas(32) uint32_t u[4][8];
    _Alignas(32) uint32_t begun[8], known[8];
    _Alignas(32) uint32_t scale[8]; /* bits of a float */
} eight_t;

/* Block 2 i + L goes to place 4 L + i, where transpose() wants it. */
static const uint8_t place[8] = {0, 4, 1, 5, 2, 6, 3, 7};

static inline void unpack_block(const block_t *b, eight_t *e, unsigned at) {
    uint64_t high = reverse_nibbles(b->planes[0]);
    uint64_t low = reverse_nibbles(b->planes[1]);
    for (unsigned i = 0; i < 4; i++) {
        uint64_t ones = (uint64_t)0x1111111111111111 << i;
        uint64_t u = _pext_u64(high, ones) << 16;
        if (b->planes[1] != 0)
            u |= _pext_u64(low, ones);
        e->u[i][at] = (uint32_t)(u >> b->empty);
    }
}

static inline void load_block(const uint8_t *src, size_t bit, unsigned maxbits,
                              eight_t *e, unsigned at) {
    uint64_t window = peek(src, bit);
    unsigned head = (unsigned)window & 0x1ff;
    /* A block of zeros: u 0 without rounding decodes to 0. */
    e->scale[at] = e->known[at] = 0;
    e->begun[at] = 32;
    e->u[0][at] = e->u[1][at] = e->u[2][at] = e->u[3][at] = 0;
    if ((head & 1) == 0)
        return;
    block_t block = decode_block(src, bit + 9, maxbits - 9, window >> 9, 32);
    unpack_block(&block, e, at);
    float scale = scale_of(head >> 1);
    e->begun[at] = block.begun;
    e->known[at] = block.known;
    e->scale[at] = lull__load32(&scale);
}

static inline void decode_all(const uint8_t *src, uint8_t *dst, size_t groups,
                              unsigned maxbits, unsigned mode) {
    eight_t e;
    for (size_t half = 0; half < 2 * groups; half++) {
        const uint8_t *from = src + half * maxbits;
        for (unsigned b = 0; b < 8; b++)
            load_block(from, b * maxbits, maxbits, &e, place[b]);
        decoded_t d;
        for (int i = 0; i < 4; i++)
            d.u[i] = _mm256_load_si256((const void *)e.u[i]);
        d.begun = _mm256_load_si256((const void *)e.begun);
        d.known = _mm256_load_si256((const void *)e.known);
        d.scale = _mm256_load_si256((const void *)e.scale);
        finish(&d, dst + 128 * half, mode);
    }
}

void lull__zfp_decode_f32_avx2(const uint8_t *src, uint8_t *dst, size_t groups,
                               unsigned maxbits, unsigned mode) {
    if (maxbits <= 32)
        lull__zfp_decode_narrow_avx2(src, dst, groups, maxbits, mode);
    else if (maxbits == 64)
        decode_all(src, dst, groups, 64, mode);
    else
        decode_all(src, dst, groups, maxbits, mode);
}
#else
typedef int lull__no_avx2;
#endif
