/* ZFP kernels of floats in portable C, the reference of the other variants.
 * Four blocks at a time go through the transforms in vectors of the
 * compiler's; planes are coded block by block, by table look-ups of several
 * each until three coefficients are significant; the rest needs no coding. */
#include <string.h>

#include "zfp_portable.h"

#define BLOCKS (LULL__ZFP_GROUP / 4)
#define MASK 0xaaaaaaaau

typedef float v4f __attribute__((vector_size(16)));
typedef int32_t v4i __attribute__((vector_size(16)));
typedef uint32_t v4u __attribute__((vector_size(16)));

typedef uint64_t v2u64 __attribute__((vector_size(16)));
typedef uint16_t v8u16 __attribute__((vector_size(16)));

/* A group to be encoded: coefficient i of block b is u[i][b]. */
typedef struct group {
    v4u u[4][BLOCKS / 4];
    v4u top[BLOCKS / 4]; /* bits of the largest magnitude */
} group_t;

static inline void transpose(v4u x[4]) {
    v4u a = __builtin_shufflevector(x[0], x[1], 0, 4, 1, 5);
    v4u b = __builtin_shufflevector(x[0], x[1], 2, 6, 3, 7);
    v4u c = __builtin_shufflevector(x[2], x[3], 0, 4, 1, 5);
    v4u d = __builtin_shufflevector(x[2], x[3], 2, 6, 3, 7);
    x[0] = __builtin_shufflevector(a, c, 0, 1, 4, 5);
    x[1] = __builtin_shufflevector(a, c, 2, 3, 6, 7);
    x[2] = __builtin_shufflevector(b, d, 0, 1, 4, 5);
    x[3] = __builtin_shufflevector(b, d, 2, 3, 6, 7);
}

static inline v4u choose(v4i mask, v4u a, v4u b) {
    return ((v4u)mask & a) | (~(v4u)mask & b);
}

/* ---- Encoding ---------------------------------------------------------- */

/* As cvttps2dq, and so libzfp on x86: what does not fit is the least int. */
static inline v4i to_int(v4f v) {
    v4i fits = (v > -0x1p31f) & (v < 0x1p31f);
    v4i whole = __builtin_convertvector((v4f)((v4i)v & fits), v4i);
    return (whole & fits) | (~fits & INT32_MIN);
}

/* Four blocks of four floats to coefficients. */
static inline void transform(group_t *g, const uint8_t *src, unsigned at) {
    v4u x[4];
    memcpy(x, src + 64 * at, sizeof x);
    transpose(x);
    v4i top = {0};
    for (int i = 0; i < 4; i++) {
        v4i size = (v4i)(x[i] & 0x7fffffff);
        top = (v4i)choose(size > top, (v4u)size, (v4u)top);
    }
    /* 2^(30 - emax), emax = exponent field - 126; Inf where that overflows. */
    v4i field = 283 - (top >> 23);
    field = (v4i)choose(field > 255, (v4u)(field * 0 + 255), (v4u)field);
    v4f scale = (v4f)(field << 23);
    v4i q[4];
    for (int i = 0; i < 4; i++)
        q[i] = to_int((v4f)x[i] * scale);
    FORWARD_LIFT(v4i, v4u, q[0], q[1], q[2], q[3]);
    for (int i = 0; i < 4; i++)
        g->u[i][at] = ((v4u)q[i] + MASK) ^ MASK;
    g->top[at] = (v4u)top;
}

/* Puts bits at `at`; what goes past 128 is dropped. `narrow`: a constant, `at`
 * is below 64 and what goes past that is not wanted. */
static inline void put(code_t *c, uint64_t bits, unsigned at, bool narrow) {
    if (narrow) {
        c->lo |= bits << at;
    } else if (at < 64) {
        c->lo |= bits << at;
        c->hi |= bits >> 1 >> (63 - at);
    } else if (at < 128) {
        c->hi |= bits << (at - 64);
    }
}

static inline uint64_t halves(const uint32_t u[4], unsigned shift) {
    return (uint64_t)(u[0] >> shift & 0xffff) |
           (uint64_t)(u[1] >> shift & 0xffff) << 16 |
           (uint64_t)(u[2] >> shift & 0xffff) << 32 |
           (uint64_t)(u[3] >> shift & 0xffff) << 48;
}

/* Bit 0 of each nibble to every second bit. */
static inline uint64_t close_up_1(uint64_t v) {
    v &= 0x1111111111111111u;
    v = (v | v >> 2) & 0x0505050505050505u;
    v = (v | v >> 4) & 0x0055005500550055u;
    v = (v | v >> 8) & 0x0000555500005555u;
    return (v | v >> 16) & 0x55555555u;
}

/* Bits 0 and 1 of each nibble to every third bit and the next. */
static inline uint64_t close_up_2(uint64_t v) {
    v = (v & 0x0303030303030303u) | (v & 0x3030303030303030u) >> 1;
    v = (v & 0x001f001f001f001fu) | (v & 0x1f001f001f001f00u) >> 2;
    v = (v & 0x000007ff000007ffu) | (v & 0x07ff000007ff0000u) >> 4;
    return (v & 0x7fffffu) | (v & 0x7fffff00000000u) >> 8;
}

/* Codes those of the next `left` planes that make no coefficient
 * significant; returns how many. */
static inline unsigned encode_run(code_t *c, uint64_t planes, unsigned n,
                                  unsigned left, unsigned *at) {
    uint64_t news =
        planes & (n == 1 ? 0xeeeeeeeeeeeeeeeeu : 0xccccccccccccccccu);
    unsigned run = news ? (unsigned)__builtin_ctzll(news) / 4 : 16;
    run = least(run, left);
    uint64_t code = low_bits(planes, 4 * run);
    put(c, n == 1 ? close_up_1(code) : close_up_2(code), *at, false);
    *at += (n + 1) * run;
    return run;
}

/* The code of a block that is not all zero; bits past maxbits may be set. */
static inline code_t encode_block(const uint32_t coefficients[4], uint32_t top,
                                  unsigned maxbits) {
    bool narrow = maxbits <= 64;
    code_t c = {.lo = 2 * (top >> 23) + 3};
    uint32_t u[4], any = 1; /* at least one plane is not empty */
    for (int i = 0; i < 4; i++)
        any |= coefficients[i];
    unsigned empty = (unsigned)__builtin_clz(any), at = 9 + empty, n = 0;
    for (int i = 0; i < 4; i++)
        u[i] = coefficients[i] << empty;
    for (unsigned shift = 16; at < maxbits; shift -= 16) {
        uint64_t planes = to_planes(halves(u, shift));
        unsigned left = 16;
        if (shift == 16) { /* four planes, without looking each time */
            uint32_t one = lull__zfp_pairs[0][planes & 255];
            put(&c, one >> 16, at, narrow);
            at += one & 63;
            uint32_t two = lull__zfp_pairs[one >> 8 & 3][planes >> 8 & 255];
            put(&c, two >> 16, at, narrow);
            at += two & 63;
            n = two >> 8 & 3;
            planes >>= 16;
            left = 12;
            if (at >= maxbits)
                break;
        }
        for (; n < 3 && left > 0 && at < maxbits; left--) {
            if (left <= 16 - SINGLES && n > 0) {
                unsigned run = encode_run(&c, planes, n, left, &at);
                planes = run < 16 ? planes >> 4 * run : 0;
                left -= run;
                if (left == 0 || at >= maxbits)
                    break;
            }
            unsigned entry = lull__zfp_encode[n][planes & 15];
            put(&c, entry & 0xff, at, narrow);
            at += entry >> 8 & 15;
            n = entry >> 12;
            planes >>= 4;
        }
        if (at >= maxbits)
            break;
        put(&c, planes, at, narrow);
        at += 4 * left;
        if (shift == 0)
            break;
    }
    return c;
}

static inline void encode_group(const uint8_t *src, uint8_t *dst,
                                unsigned maxbits, bool *fit) {
    group_t g;
    for (unsigned at = 0; at < BLOCKS / 4; at++)
        transform(&g, src, at);
    const uint32_t(*u)[BLOCKS] = (const void *)g.u;
    const uint32_t *tops = (const void *)g.top;
    uint64_t carry = 0;
    for (unsigned b = 0; b < BLOCKS; b++) {
        uint32_t top = tops[b];
        code_t c = {0, 0};
        if (top != 0) {
            uint32_t block[4] = {u[0][b], u[1][b], u[2][b], u[3][b]};
            c = encode_block(block, top, maxbits);
            *fit &= top - LULL__ZFP_F32_LEAST < LULL__ZFP_F32_RANGE;
        }
        store(dst, b * maxbits, c, maxbits, &carry);
    }
}

bool lull__zfp_encode_f32_portable(const uint8_t *src, uint8_t *dst,
                                   size_t groups, unsigned maxbits) {
    bool fit = true;
    for (size_t g = 0; g < groups; g++) {
        const uint8_t *from = src + 4 * LULL__ZFP_GROUP * g;
        if (maxbits == 32) /* a copy of its own, with the rate a constant */
            encode_group(from, dst + 64 * g, 32, &fit);
        else if (maxbits == 64)
            encode_group(from, dst + 128 * g, 64, &fit);
        else
            encode_group(from, dst + 2 * maxbits * g, maxbits, &fit);
    }
    return fit;
}

/* ---- Decoding ---------------------------------------------------------- */

/* A group as decoded, by block. */
typedef struct planes {
    v2u64 high[BLOCKS / 2], low[BLOCKS / 2]; /* bytes in reverse */
    v4u rounding[BLOCKS];                    /* by coefficient */
    v4f scale[BLOCKS / 4];
    bool any_low;
} planes_t;

static inline v2u64 swap_bits(v2u64 v, uint64_t mask, int shift) {
    v2u64 t = (v ^ v >> shift) & mask;
    return v ^ t ^ t << shift;
}

/* from_planes() of two blocks, their bytes in reverse already. */
static inline v8u16 unpack(v2u64 v) {
    v = (v >> 4 & 0x0f0f0f0f0f0f0f0fu) | (v & 0x0f0f0f0f0f0f0f0fu) << 4;
    v = swap_bits(v, 0x0a0a0a0a0a0a0a0au, 3);
    v = swap_bits(v, 0x00cc00cc00cc00ccu, 6);
    v = swap_bits(v, 0x0000f0f00000f0f0u, 12);
    return (v8u16)swap_bits(v, 0x00000000ff00ff00u, 24);
}

/* Coefficients of four blocks: coefficient i of all in x[i]. */
static inline void unpack_blocks(const planes_t *p, v4u x[4], unsigned at) {
    for (unsigned half = 0; half < 2; half++) {
        v8u16 low = {0}, high = unpack(p->high[2 * at + half]);
        if (p->any_low)
            low = unpack(p->low[2 * at + half]);
        x[2 * half] =
            (v4u)__builtin_shufflevector(low, high, 0, 8, 1, 9, 2, 10, 3, 11);
        x[2 * half + 1] =
            (v4u)__builtin_shufflevector(low, high, 4, 12, 5, 13, 6, 14, 7, 15);
    }
    for (unsigned i = 0; i < 4; i++)
        x[i] += p->rounding[4 * at + i];
    transpose(x);
}

/* Four blocks to floats. */
static inline void inverse_transform(const planes_t *p, uint8_t *dst,
                                     unsigned at, unsigned mode) {
    v4u x[4];
    v4i q[4];
    unpack_blocks(p, x, at);
    for (int i = 0; i < 4; i++)
        q[i] = (v4i)((x[i] ^ MASK) - MASK);
    INVERSE_LIFT(v4i, v4u, q[0], q[1], q[2], q[3]);
    for (int i = 0; i < 4; i++)
        x[i] = (v4u)(p->scale[at] * __builtin_convertvector(q[i], v4f));
    transpose(x);
    for (int i = 0; i < 4; i++) {
        v4f sum, value = (v4f)x[i];
        if (mode & LULL__ZFP_ADD) {
            memcpy(&sum, dst + 64 * at + 16 * i, 16);
            value = sum + value;
        }
        memcpy(dst + 64 * at + 16 * i, &value, 16);
    }
}

/* What rounding adds, before it is shifted by the planes begun: less where a
 * bit of the last is known. By how many are. */
#define FINE (MASK >> 2)
#define COARSE (MASK >> 1)
static const v4u roundings[5] = {
    {COARSE, COARSE, COARSE, COARSE}, {FINE, COARSE, COARSE, COARSE},
    {FINE, FINE, COARSE, COARSE},     {FINE, FINE, FINE, COARSE},
    {FINE, FINE, FINE, FINE},
};

/* Planes of a block to where they belong: behind the empty ones. */
static inline void settle(const block_t *b, uint64_t *high, uint64_t *low) {
    uint64_t first = b->planes[0], second = b->planes[1];
    unsigned shift = 4 * b->empty;
    if (b->empty >= 16) { /* 32: there are no others */
        second = b->empty < 32 ? first : 0;
        first = 0;
    }
    shift &= 63;
    *high = __builtin_bswap64(first << shift);
    *low = __builtin_bswap64(second << shift | first >> 1 >> (63 - shift));
}

static inline void decode_group(const uint8_t *src, uint8_t *dst,
                                unsigned maxbits, unsigned mode) {
    planes_t p;
    uint64_t *high = (void *)p.high, *low = (void *)p.low, any_low = 0;
    unsigned some = 0;
    float *scale = (void *)p.scale;
    for (unsigned b = 0; b < BLOCKS; b++) {
        size_t bit = b * maxbits;
        uint64_t window = peek(src, bit);
        unsigned head = (unsigned)window & 0x1ff;
        if ((head & 1) == 0) { /* zeros; u 0 without rounding decodes to 0 */
            high[b] = low[b] = 0;
            p.rounding[b] = (v4u){0};
            scale[b] = 0;
            continue;
        }
        some++;
        block_t block =
            decode_block(src, bit + 9, maxbits - 9, window >> 9, 32);
        settle(&block, &high[b], &low[b]);
        any_low |= low[b];
        p.rounding[b] = mode & LULL__ZFP_TRUNCATE
                            ? (v4u){0}
                            : roundings[block.known] >> least(block.begun, 31);
        scale[b] = scale_of(head >> 1);
    }
    p.any_low = any_low != 0;
    if (some == 0 && !(mode & LULL__ZFP_ADD)) { /* as gradients unused are */
        memset(dst, 0, 4 * LULL__ZFP_GROUP);
        return;
    }
    for (unsigned at = 0; at < BLOCKS / 4; at++)
        inverse_transform(&p, dst, at, mode);
}

void lull__zfp_decode_f32_portable(const uint8_t *src, uint8_t *dst,
                                   size_t groups, unsigned maxbits,
                                   unsigned mode) {
    for (size_t g = 0; g < groups; g++) {
        uint8_t *to = dst + 4 * LULL__ZFP_GROUP * g;
        if (maxbits == 32)
            decode_group(src + 64 * g, to, 32, mode);
        else
            decode_group(src + 2 * maxbits * g, to, maxbits, mode);
    }
}
