/* f16 and bf16 to float32 and back, to the nearest, ties to even. */
#ifndef LULL__HALF_H
#define LULL__HALF_H

#include <stdint.h>
#include <string.h>

static inline float lull__float_of(uint32_t bits) {
    float x;
    memcpy(&x, &bits, 4);
    return x;
}

static inline uint32_t lull__bits_of(float x) {
    uint32_t bits;
    memcpy(&bits, &x, 4);
    return bits;
}

static inline float lull__from_bf16(uint16_t h) {
    return lull__float_of((uint32_t)h << 16);
}

static inline uint16_t lull__to_bf16(float x) {
    uint32_t u = lull__bits_of(x);
    if ((u & 0x7fffffff) > 0x7f800000)
        return (uint16_t)(u >> 16 | 0x40); /* NaN stays NaN */
    return (uint16_t)((u + 0x7fff + (u >> 16 & 1)) >> 16);
}

static inline float lull__from_f16(uint16_t h) {
    uint32_t sign = (uint32_t)(h & 0x8000) << 16, magnitude = h & 0x7fff;
    if (magnitude >= 0x7c00)
        return lull__float_of(sign | 0x7f800000 | (magnitude & 0x3ff) << 13);
    /* 2^112 moves the exponent; subnormals come out right too. */
    float scaled = lull__float_of(magnitude << 13) * 0x1p112f;
    return lull__float_of(sign | lull__bits_of(scaled));
}

static inline uint16_t lull__to_f16(float x) {
    uint32_t u = lull__bits_of(x), magnitude = u & 0x7fffffff;
    uint16_t sign = (uint16_t)(u >> 16 & 0x8000);
    if (magnitude > 0x7f800000)
        return sign | 0x7e00 | (uint16_t)(magnitude >> 13 & 0x1ff);
    if (magnitude >= 0x477ff000) /* 65520 and above round to Inf */
        return sign | 0x7c00;
    if (magnitude < 0x38800000) { /* below 2^-14: units of 2^-24 */
        float shifted = lull__float_of(magnitude) + 0.5f;
        return sign | (uint16_t)(lull__bits_of(shifted) - 0x3f000000);
    }
    uint32_t rounded = magnitude + 0xfff + (magnitude >> 13 & 1);
    return sign | (uint16_t)((rounded - 0x38000000) >> 13);
}

#endif
