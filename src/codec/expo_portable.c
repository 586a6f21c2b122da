/* expo's kernels in plain C: the reference for the variants. */
#include <string.h>

#include "codec/codec_impl.h"
#include "codec/expo.h"

static size_t nonzeros(const uint8_t *in, size_t n) {
    size_t sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += in[i] != 0;
    return sum;
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

static void keep(const uint8_t *in, size_t n, const uint8_t *flags,
                 uint8_t *out) {
    for (size_t i = 0; i < n; i++) {
        *out = in[i];
        out += flags[i] != 0;
    }
}

static size_t digits(const uint8_t *in, size_t n, const lull__expo_digits_t *of,
                     unsigned last, uint8_t *digits, uint8_t *kept) {
    size_t sum = 0;
    for (size_t i = 0; i < n; i++)
        digits[i] = of->digit[in[i]] ^ of->rest;
    for (size_t i = 0; i < n && last != 255; i++) {
        kept[sum] = in[i];
        sum += digits[i] == last;
    }
    return sum;
}

static void pack(const uint8_t *digits, size_t n, unsigned shift,
                 unsigned width, uint8_t *out) {
    const size_t v = (n * width + 7) / 8;
    const unsigned mask = (1u << width) - 1;
    memset(out, 0, v);
    for (unsigned bit = 0; bit < 8; bit += width, digits += v)
        for (size_t i = 0; i < v; i++)
            out[i] |= (uint8_t)((digits[i] >> shift & mask) << bit);
}

static void unpack(const uint8_t *in, size_t n, unsigned shift, unsigned width,
                   bool first, uint8_t *digits) {
    const size_t v = (n * width + 7) / 8;
    const unsigned mask = (1u << width) - 1, kept = first ? 0 : 0xff;
    for (unsigned bit = 0; bit < 8; bit += width, digits += v)
        for (size_t i = 0; i < v; i++)
            digits[i] =
                (uint8_t)((digits[i] & kept) | (in[i] >> bit & mask) << shift);
}

static size_t join(const uint8_t *digits, size_t n,
                   const lull__expo_level_t *level, const uint8_t *below,
                   uint8_t *out) {
    size_t sum = 0;
    for (size_t i = 0; i < n; i++) {
        unsigned goes_on = digits[i] == level->last;
        out[i] = goes_on ? below[sum] : level->symbol[digits[i]];
        sum += goes_on;
    }
    return sum;
}

/* ---- Fields ------------------------------------------------------------ */

static unsigned bit_at(const uint8_t *bits, size_t i) {
    return bits[i / 8] >> (i % 8) & 1;
}

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
    .nonzeros = nonzeros,
    .count = count,
    .keep = keep,
    .digits = digits,
    .pack = pack,
    .unpack = unpack,
    .join = join,
    .cut = &lull__expo_cut_portable,
};
