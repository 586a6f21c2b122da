/* expo's kernels in plain C: the reference for the variants. */
#include <string.h>

#include "codec/codec_impl.h"
#include "codec/expo.h"

static lull__expo_range_t range(const uint8_t *in, size_t n) {
    lull__expo_range_t found = {false, 255, 0};
    for (size_t i = 0; i < n; i++) {
        found.zero |= in[i] == 0;
        found.most = in[i] > found.most ? in[i] : found.most;
        if (in[i] != 0 && in[i] < found.least)
            found.least = in[i];
    }
    return found;
}

static void count(const uint8_t *in, size_t n, uint16_t *counts) {
    /* Four tables, so that equal neighbours do not wait for each other. */
    uint16_t table[4][256] = {{0}};
    size_t i = 0;
    for (; i + 4 <= n; i += 4)
        for (unsigned t = 0; t < 4; t++)
            table[t][in[i + t]]++;
    for (; i < n; i++)
        table[0][in[i]]++;
    for (unsigned s = 0; s < 256; s++)
        counts[s] =
            (uint16_t)(table[0][s] + table[1][s] + table[2][s] + table[3][s]);
}

static size_t split(const uint8_t *in, size_t n, unsigned threshold,
                    uint8_t *mask, uint8_t *out, unsigned keep) {
    size_t sum = 0;
    for (size_t i = 0; i < n; i += 8) {
        unsigned bits = 0;
        size_t left = n - i < 8 ? n - i : 8;
        for (size_t k = 0; k < left; k++) {
            unsigned bit = in[i + k] >= threshold;
            bits |= bit << k;
            if (out != NULL) {
                *out = in[i + k];
                out += bit == keep;
            }
        }
        mask[i / 8] = (uint8_t)bits;
        sum += (size_t)__builtin_popcount(bits);
    }
    return sum;
}

static size_t ones(const uint8_t *mask, size_t n) {
    size_t sum = 0;
    for (size_t i = 0; i < n; i += 8) {
        unsigned valid = n - i < 8 ? (1u << (n - i)) - 1 : 0xff;
        sum += (size_t)__builtin_popcount(mask[i / 8] & valid);
    }
    return sum;
}

static unsigned bit_at(const uint8_t *mask, size_t i) {
    return mask[i / 8] >> (i % 8) & 1;
}

static size_t pick(const uint8_t *in, size_t n, const uint8_t *mask,
                   uint8_t *out) {
    size_t sum = 0;
    for (size_t i = 0; i < n; i++) {
        out[sum] = in[i];
        sum += bit_at(mask, i);
    }
    return sum;
}

static size_t merge(const uint8_t *mask, size_t n, lull__expo_side_t zero,
                    lull__expo_side_t one, uint8_t *out) {
    /* A constant is a pointer that stays. */
    const uint8_t *from[2] = {zero.at ? zero.at : &zero.byte,
                              one.at ? one.at : &one.byte};
    const unsigned step[2] = {zero.at != NULL, one.at != NULL};
    size_t sum = 0;
    for (size_t i = 0; i < n; i++) {
        unsigned bit = bit_at(mask, i);
        out[i] = *from[bit];
        from[bit] += step[bit];
        sum += bit;
    }
    return sum;
}

static unsigned map(const uint8_t *in, size_t n, const uint8_t *table,
                    lull__expo_range_t within, uint8_t *out) {
    unsigned most = 0;
    (void)within;
    for (size_t i = 0; i < n; i++) {
        out[i] = table[in[i]];
        most = out[i] > most ? out[i] : most;
    }
    return most;
}

/* ---- Fields ------------------------------------------------------------ */

static uint8_t *plane(const lull__expo_fields_t *fields, unsigned i) {
    return (uint8_t *)fields->plane[i];
}

static void put_bit(const lull__expo_fields_t *fields, unsigned k, size_t i,
                    uint64_t bit) {
    uint8_t *byte = (uint8_t *)fields->bits[k] + i / 8;
    *byte = (uint8_t)((i % 8 ? *byte : 0) | (bit & 1) << (i % 8));
}

static void scatter_f32(const uint8_t *src, size_t n,
                        const lull__expo_fields_t *fields) {
    uint8_t *p0 = plane(fields, 0), *p1 = plane(fields, 1),
            *p2 = plane(fields, 2);
    for (size_t i = 0; i < n; i++) {
        uint32_t x = lull__load32(src + 4 * i);
        fields->symbols[i] = (uint8_t)(x >> 23);
        p0[i] = (uint8_t)x;
        p1[i] = (uint8_t)(x >> 8);
        p2[i] = (uint8_t)((x >> 16 & 0x7f) | (x >> 24 & 0x80));
    }
}

static void gather_f32(const lull__expo_fields_t *fields, size_t n,
                       uint8_t *dst) {
    for (size_t i = 0; i < n; i++) {
        uint32_t high = fields->plane[2][i];
        uint32_t x = fields->plane[0][i] | fields->plane[1][i] << 8 |
                     (high & 0x7f) << 16 | (high & 0x80) << 24 |
                     (uint32_t)fields->symbols[i] << 23;
        lull__store32(dst + 4 * i, x);
    }
}

static void scatter_bf16(const uint8_t *src, size_t n,
                         const lull__expo_fields_t *fields) {
    uint8_t *p0 = plane(fields, 0);
    for (size_t i = 0; i < n; i++) {
        unsigned x = lull__load16(src + 2 * i);
        fields->symbols[i] = (uint8_t)(x >> 7);
        p0[i] = (uint8_t)((x & 0x7f) | (x >> 8 & 0x80));
    }
}

static void gather_bf16(const lull__expo_fields_t *fields, size_t n,
                        uint8_t *dst) {
    for (size_t i = 0; i < n; i++) {
        unsigned low = fields->plane[0][i];
        lull__store16(dst + 2 * i, (uint16_t)((low & 0x7f) | (low & 0x80) << 8 |
                                              fields->symbols[i] << 7));
    }
}

static void scatter_f16(const uint8_t *src, size_t n,
                        const lull__expo_fields_t *fields) {
    uint8_t *p0 = plane(fields, 0);
    for (size_t i = 0; i < n; i++) {
        unsigned x = lull__load16(src + 2 * i);
        fields->symbols[i] = x >> 10 & 0x1f;
        p0[i] = (uint8_t)x;
        put_bit(fields, 0, i, x >> 8);
        put_bit(fields, 1, i, x >> 9);
        put_bit(fields, 2, i, x >> 15);
    }
}

static void gather_f16(const lull__expo_fields_t *fields, size_t n,
                       uint8_t *dst) {
    for (size_t i = 0; i < n; i++) {
        unsigned x = fields->plane[0][i] | bit_at(fields->bits[0], i) << 8 |
                     bit_at(fields->bits[1], i) << 9 |
                     (fields->symbols[i] & 0x1fu) << 10 |
                     bit_at(fields->bits[2], i) << 15;
        lull__store16(dst + 2 * i, (uint16_t)x);
    }
}

static void scatter_f64(const uint8_t *src, size_t n,
                        const lull__expo_fields_t *fields) {
    for (size_t i = 0; i < n; i++) {
        uint64_t x = lull__load64(src + 8 * i);
        fields->exponents[i] = x >> 52 & 0x7ff;
        for (unsigned k = 0; k < 6; k++)
            plane(fields, k)[i] = (uint8_t)(x >> (8 * k));
        for (unsigned k = 0; k < 4; k++)
            put_bit(fields, k, i, x >> (48 + k));
        put_bit(fields, 4, i, x >> 63);
    }
}

static void gather_f64(const lull__expo_fields_t *fields, size_t n,
                       uint8_t *dst) {
    for (size_t i = 0; i < n; i++) {
        uint64_t x = (uint64_t)fields->exponents[i] << 52;
        for (unsigned k = 0; k < 6; k++)
            x |= (uint64_t)fields->plane[k][i] << (8 * k);
        for (unsigned k = 0; k < 4; k++)
            x |= (uint64_t)bit_at(fields->bits[k], i) << (48 + k);
        x |= (uint64_t)bit_at(fields->bits[4], i) << 63;
        lull__store64(dst + 8 * i, x);
    }
}

static void copy(uint8_t *dst, const uint8_t *src, size_t bytes) {
    memcpy(dst, src, bytes);
}

lull__expo_fields_t lull__expo_fields_at(const lull__expo_fields_t *fields,
                                         size_t at) {
    lull__expo_fields_t moved = *fields;
    if (moved.symbols != NULL)
        moved.symbols += at;
    if (moved.exponents != NULL)
        moved.exponents += at;
    for (unsigned k = 0; k < LULL__EXPO_PLANES; k++)
        if (moved.plane[k] != NULL)
            moved.plane[k] += at;
    for (unsigned k = 0; k < LULL__EXPO_BITS; k++)
        if (moved.bits[k] != NULL)
            moved.bits[k] += at / 8;
    return moved;
}

const lull__expo_cut_t lull__expo_cut_portable = {
    .scatter = {[LULL__EXPO_F32] = scatter_f32,
                [LULL__EXPO_F16] = scatter_f16,
                [LULL__EXPO_BF16] = scatter_bf16,
                [LULL__EXPO_F64] = scatter_f64},
    .gather = {[LULL__EXPO_F32] = gather_f32,
               [LULL__EXPO_F16] = gather_f16,
               [LULL__EXPO_BF16] = gather_bf16,
               [LULL__EXPO_F64] = gather_f64},
    .copy = copy,
};

void lull__expo_scatter_rest(unsigned kind, const uint8_t *src, size_t n,
                             size_t i, const lull__expo_fields_t *fields,
                             unsigned size) {
    if (i == n)
        return;
    lull__expo_fields_t rest = lull__expo_fields_at(fields, i);
    lull__expo_cut_portable.scatter[kind](src + i * size, n - i, &rest);
}

void lull__expo_gather_rest(unsigned kind, const lull__expo_fields_t *fields,
                            size_t n, size_t i, uint8_t *dst, unsigned size) {
    if (i == n)
        return;
    lull__expo_fields_t rest = lull__expo_fields_at(fields, i);
    lull__expo_cut_portable.gather[kind](&rest, n - i, dst + i * size);
}

const lull__expo_kernel_t lull__expo_portable = {
    .piece = 2048,
    .range = range,
    .count = count,
    .split = split,
    .ones = ones,
    .pick = pick,
    .merge = merge,
    .map = map,
    .cut = &lull__expo_cut_portable,
};
