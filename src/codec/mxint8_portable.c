/* MXINT8's kernels in plain C: the reference for the variants. */
#include <string.h>

#include "codec/codec_impl.h"
#include "codec/mxint8.h"

static uint32_t bits_of(float value) {
    return lull__load32(&value);
}

static double double_of(uint64_t bits) {
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static int8_t clamp(int q) {
    return (int8_t)(q > 127 ? 127 : q < -127 ? -127 : q);
}

/* To the nearest integer, ties to even: in the sum the unit of the last place
 * is one. */
static int nearest(double y) {
    return (int)(y + 0x1.8p52 - 0x1.8p52);
}

/* A scaled value, under 128 in magnitude, to an element. */
static int8_t element(double y, bool random, uint32_t noise) {
    if (!random)
        return clamp(nearest(y));
    return clamp((nearest(y * 65536) + (int)noise) >> 16);
}

typedef struct random {
    bool on;
    uint32_t key;
} random_t;

static void encode_block(const float *x, lull__mx_range_t *range,
                         uint8_t *scale, int8_t *elements, random_t random,
                         uint32_t index) {
    uint32_t most = 0;
    for (unsigned i = 0; i < LULL__MX_BLOCK; i++) {
        uint32_t magnitude = bits_of(x[i]) & 0x7fffffff;
        most = magnitude > most ? magnitude : most;
    }
    lull__mx_see(range, most);
    unsigned code = most >> 23;
    *scale = (uint8_t)code;
    if (code == 255) { /* NaN for the whole block, as OCP has it */
        memset(elements, 0, LULL__MX_BLOCK);
        return;
    }
    double factor = double_of(lull__mx_factor_f64(code));
    for (unsigned i = 0; i < LULL__MX_BLOCK; i++)
        elements[i] = element(x[i] * factor, random.on,
                              lull__mx_random(random.key, index + i));
}

typedef void (*load_fn)(const void *src, void *dst, size_t count);

static void load_f32(const void *src, void *dst, size_t count) {
    memcpy(dst, src, count * sizeof(float));
}

static inline lull__mx_range_t encode(const uint8_t *src, size_t blocks,
                                      uint8_t *scales, uint8_t *elements,
                                      random_t random, load_fn load) {
    lull__mx_range_t range = {0, UINT64_MAX};
    size_t size = load == load_f32 ? 4 : 2;
    for (size_t b = 0; b < blocks; b++) {
        float x[LULL__MX_BLOCK];
        load(src + b * LULL__MX_BLOCK * size, x, LULL__MX_BLOCK);
        encode_block(x, &range, scales + b,
                     (int8_t *)elements + b * LULL__MX_BLOCK, random,
                     (uint32_t)(b * LULL__MX_BLOCK));
    }
    return range;
}

static void values_of(uint8_t scale, const uint8_t *elements, float *x) {
    float unit = lull__mx_unit_value(scale);
    for (unsigned i = 0; i < LULL__MX_BLOCK; i++)
        x[i] = (float)(int8_t)elements[i] * unit;
}

static void store_f32(const float *src, void *dst, size_t count) {
    memcpy(dst, src, count * sizeof *src);
}

static void store_f16(const float *src, void *dst, size_t count) {
    (void)lull__f32_to_f16(src, dst, count);
}

static void store_bf16(const float *src, void *dst, size_t count) {
    (void)lull__f32_to_bf16(src, dst, count);
}

typedef void (*store_fn)(const float *src, void *dst, size_t count);

static inline void decode(const uint8_t *scales, const uint8_t *elements,
                          size_t blocks, uint8_t *dst, store_fn store) {
    size_t size = store == store_f32 ? 4 : 2;
    for (size_t b = 0; b < blocks; b++) {
        float x[LULL__MX_BLOCK];
        values_of(scales[b], elements + b * LULL__MX_BLOCK, x);
        store(x, dst + b * LULL__MX_BLOCK * size, LULL__MX_BLOCK);
    }
}

static inline void decode_add(const uint8_t *scales, const uint8_t *elements,
                              size_t blocks, uint8_t *sum, bool f16) {
    for (size_t b = 0; b < blocks; b++) {
        float x[LULL__MX_BLOCK];
        uint16_t half[LULL__MX_BLOCK];
        values_of(scales[b], elements + b * LULL__MX_BLOCK, x);
        if (f16) { /* the only dtype in which values round */
            store_f16(x, half, LULL__MX_BLOCK);
            lull__f16_to_f32(half, x, LULL__MX_BLOCK);
        }
        lull__add(LULL_F32, x, sum + b * LULL__MX_BLOCK * 4, LULL__MX_BLOCK);
    }
}

static void decode_add_f32(const uint8_t *scales, const uint8_t *elements,
                           size_t blocks, uint8_t *sum) {
    decode_add(scales, elements, blocks, sum, false);
}

static void decode_add_f16(const uint8_t *scales, const uint8_t *elements,
                           size_t blocks, uint8_t *sum) {
    decode_add(scales, elements, blocks, sum, true);
}

#define KERNEL(dtype, load, store)                                             \
    static lull__mx_range_t encode_##dtype(const uint8_t *src, size_t blocks,  \
                                           uint8_t *scales,                    \
                                           uint8_t *elements) {                \
        return encode(src, blocks, scales, elements, (random_t){false, 0},     \
                      load);                                                   \
    }                                                                          \
    static lull__mx_range_t encode_random_##dtype(                             \
        const uint8_t *src, size_t blocks, uint8_t *scales, uint8_t *elements, \
        uint32_t key) {                                                        \
        return encode(src, blocks, scales, elements, (random_t){true, key},    \
                      load);                                                   \
    }                                                                          \
    static void decode_##dtype(const uint8_t *scales, const uint8_t *elements, \
                               size_t blocks, uint8_t *dst) {                  \
        decode(scales, elements, blocks, dst, store);                          \
    }

KERNEL(f32, load_f32, store_f32)
KERNEL(f16, lull__f16_to_f32, store_f16)
KERNEL(bf16, lull__bf16_to_f32, store_bf16)

/* ---- f64 --------------------------------------------------------------- */

static lull__mx_range_t encode_all_f64(const uint8_t *src, size_t blocks,
                                       uint8_t *scales, uint8_t *elements,
                                       random_t random) {
    lull__mx_range_t range = {0, UINT64_MAX};
    for (size_t b = 0; b < blocks; b++, elements += LULL__MX_BLOCK) {
        double x[LULL__MX_BLOCK];
        uint64_t most = 0;
        memcpy(x, src + b * sizeof x, sizeof x);
        for (unsigned i = 0; i < LULL__MX_BLOCK; i++) {
            uint64_t magnitude = lull__load64(&x[i]) & INT64_MAX;
            most = magnitude > most ? magnitude : most;
        }
        lull__mx_see(&range, most);
        unsigned code = lull__mx_code_f64(most);
        scales[b] = (uint8_t)code;
        memset(elements, 0, LULL__MX_BLOCK);
        if (code == 255)
            continue;
        double factor = double_of(lull__mx_factor_f64(code));
        for (uint32_t i = 0; i < LULL__MX_BLOCK; i++)
            elements[i] = (uint8_t)element(
                x[i] * factor, random.on,
                lull__mx_random(random.key, (uint32_t)b * LULL__MX_BLOCK + i));
    }
    return range;
}

static lull__mx_range_t encode_f64(const uint8_t *src, size_t blocks,
                                   uint8_t *scales, uint8_t *elements) {
    return encode_all_f64(src, blocks, scales, elements, (random_t){false, 0});
}

static lull__mx_range_t encode_random_f64(const uint8_t *src, size_t blocks,
                                          uint8_t *scales, uint8_t *elements,
                                          uint32_t key) {
    return encode_all_f64(src, blocks, scales, elements, (random_t){true, key});
}

static void decode_f64(const uint8_t *scales, const uint8_t *elements,
                       size_t blocks, uint8_t *dst) {
    for (size_t b = 0; b < blocks; b++, elements += LULL__MX_BLOCK) {
        double x[LULL__MX_BLOCK], unit = lull__mx_unit_value(scales[b]);
        for (unsigned i = 0; i < LULL__MX_BLOCK; i++)
            x[i] = (double)(int8_t)elements[i] * unit;
        memcpy(dst + b * sizeof x, x, sizeof x);
    }
}

static void decode_add_f64(const uint8_t *scales, const uint8_t *elements,
                           size_t blocks, uint8_t *sum) {
    for (size_t b = 0; b < blocks; b++) {
        double x[LULL__MX_BLOCK];
        decode_f64(scales + b, elements + b * LULL__MX_BLOCK, 1, (uint8_t *)x);
        lull__add(LULL_F64, x, sum + b * sizeof x, LULL__MX_BLOCK);
    }
}

const lull__mx_kernel_t lull__mx_portable[LULL__MX_KINDS] = {
    [LULL__MX_F32] = {encode_f32, encode_random_f32, decode_f32,
                      decode_add_f32},
    [LULL__MX_F16] = {encode_f16, encode_random_f16, decode_f16,
                      decode_add_f16},
    [LULL__MX_BF16] = {encode_bf16, encode_random_bf16, decode_bf16,
                       decode_add_f32},
    [LULL__MX_F64] = {encode_f64, encode_random_f64, decode_f64,
                      decode_add_f64},
};
