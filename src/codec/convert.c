/* Conversions between float and 16-bit floats, and sums: portable variant and
 * choice of the variant. */
#include "convert.h"

#include "codec_impl.h"

#define INF 0x7f800000u

static uint32_t f32_of_f16(uint16_t half) {
    uint32_t sign = (uint32_t)(half & 0x8000) << 16;
    uint32_t rest = half & 0x7fff;
    if (rest >= 0x7c00) /* Inf; NaN becomes quiet as in hardware */
        return sign | 0x7f800000 | (rest & 0x3ff) << 13 |
               (rest > 0x7c00 ? 0x400000 : 0);
    if (rest >= 0x400)
        return sign | ((rest << 13) + (112u << 23));
    /* Subnormal: exact in float. */
    float value = (float)rest * 0x1p-24f;
    return sign | lull__load32(&value);
}

static uint16_t f16_of_f32(uint32_t bits) {
    uint32_t sign = bits >> 16 & 0x8000, rest = bits & 0x7fffffff;
    if (rest > 0x7f800000)
        return (uint16_t)(sign | 0x7e00 | (rest >> 13 & 0x3ff));
    if (rest >= 0x47800000) /* 2^16 and up */
        return (uint16_t)(sign | 0x7c00);
    if (rest >= 0x38800000) { /* normal; may round up to Inf */
        rest -= 112u << 23;
        return (uint16_t)(sign | ((rest + 0xfff + (rest >> 13 & 1)) >> 13));
    }
    /* The sum's unit in the last place is 2^-24, so it rounds as it should. */
    float value;
    lull__store32(&value, rest);
    value += 0.5f;
    return (uint16_t)(sign | (lull__load32(&value) - 0x3f000000));
}

static uint16_t bf16_of_f32(uint32_t bits) {
    uint32_t rounded = (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
    uint32_t nan = bits >> 16 | 0x40;
    return (uint16_t)((bits & 0x7fffffff) > 0x7f800000 ? nan : rounded);
}

static void f16_to_f32(const void *src, void *dst, size_t count) {
    for (size_t i = 0; i < count; i++)
        lull__store32((char *)dst + 4 * i,
                      f32_of_f16(lull__load16((const char *)src + 2 * i)));
}

static void bf16_to_f32(const void *src, void *dst, size_t count) {
    for (size_t i = 0; i < count; i++)
        lull__store32((char *)dst + 4 * i,
                      (uint32_t)lull__load16((const char *)src + 2 * i) << 16);
}

static bool f32_to_f16(const void *src, void *dst, size_t count) {
    bool overflow = false;
    for (size_t i = 0; i < count; i++) {
        uint32_t bits = lull__load32((const char *)src + 4 * i);
        uint16_t half = f16_of_f32(bits);
        overflow |= (half & 0x7fff) == 0x7c00 && (bits & 0x7fffffff) != INF;
        lull__store16((char *)dst + 2 * i, half);
    }
    return overflow;
}

static bool f32_to_bf16(const void *src, void *dst, size_t count) {
    bool overflow = false;
    for (size_t i = 0; i < count; i++) {
        uint32_t bits = lull__load32((const char *)src + 4 * i);
        uint16_t half = bf16_of_f32(bits);
        overflow |= (half & 0x7fff) == 0x7f80 && (bits & 0x7fffffff) != INF;
        lull__store16((char *)dst + 2 * i, half);
    }
    return overflow;
}

static void add(void *sum, size_t i, uint32_t bits) {
    float value, total;
    lull__store32(&value, bits);
    lull__store32(&total, lull__load32((char *)sum + 4 * i));
    total += value;
    lull__store32((char *)sum + 4 * i, lull__load32(&total));
}

static void add_f32(const void *src, void *sum, size_t count) {
    for (size_t i = 0; i < count; i++)
        add(sum, i, lull__load32((const char *)src + 4 * i));
}

static void add_f16(const void *src, void *sum, size_t count) {
    for (size_t i = 0; i < count; i++)
        add(sum, i, f32_of_f16(lull__load16((const char *)src + 2 * i)));
}

static void add_bf16(const void *src, void *sum, size_t count) {
    for (size_t i = 0; i < count; i++)
        add(sum, i, (uint32_t)lull__load16((const char *)src + 2 * i) << 16);
}

static void add_f64(const void *src, void *sum, size_t count) {
    for (size_t i = 0; i < count; i++) {
        double value, total;
        lull__store64(&value, lull__load64((const char *)src + 8 * i));
        lull__store64(&total, lull__load64((char *)sum + 8 * i));
        total += value;
        lull__store64((char *)sum + 8 * i, lull__load64(&total));
    }
}

const lull__convert_t lull__convert_portable = {
    f16_to_f32, bf16_to_f32, f32_to_f16, f32_to_bf16,
    add_f32,    add_f16,     add_bf16,
};

static const lull__convert_t *variant(void) {
#ifdef __x86_64__
    static const lull__convert_t *const by_isa[LULL__ISA_COUNT] = {
        &lull__convert_portable, &lull__convert_avx2, &lull__convert_avx512};
    return by_isa[lull__isa()];
#else
    return &lull__convert_portable;
#endif
}

void lull__f16_to_f32(const void *src, void *dst, size_t count) {
    variant()->f16_to_f32(src, dst, count);
}

void lull__bf16_to_f32(const void *src, void *dst, size_t count) {
    variant()->bf16_to_f32(src, dst, count);
}

bool lull__f32_to_f16(const void *src, void *dst, size_t count) {
    return variant()->f32_to_f16(src, dst, count);
}

bool lull__f32_to_bf16(const void *src, void *dst, size_t count) {
    return variant()->f32_to_bf16(src, dst, count);
}

void lull__add(lull_dtype_t dtype, const void *src, void *sum, size_t count) {
    if (dtype == LULL_F32)
        variant()->add_f32(src, sum, count);
    else if (dtype == LULL_F16)
        variant()->add_f16(src, sum, count);
    else if (dtype == LULL_BF16)
        variant()->add_bf16(src, sum, count);
    else
        add_f64(src, sum, count);
}
