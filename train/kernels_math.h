/* exp and erf in float32, made to be inlined into vectorised loops. */
#ifndef TRAIN_KERNELS_MATH_H
#define TRAIN_KERNELS_MATH_H

#include <stdint.h>

/* The hot loops are compiled once for each level of x86-64 and chosen at
 * start. Sanitizers cannot follow the resolvers that do it. */
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && \
    !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define KERNEL      \
    __attribute__(( \
        target_clones("default", "arch=x86-64-v3", "arch=x86-64-v4")))
#else
#define KERNEL
#endif
#define INLINE static inline __attribute__((always_inline))

INLINE float bits_float(uint32_t bits) {
    union {
        uint32_t u;
        float f;
    } pun = {bits};
    return pun.f;
}

INLINE uint32_t float_bits(float value) {
    union {
        float f;
        uint32_t u;
    } pun = {value};
    return pun.u;
}

/* Cephes' polynomial, under 1 ulp for -87.3 <= x <= 88; beyond, the value at
 * the end of the range. NaN stays NaN. */
INLINE float exp_f32(float x) {
    x = x < -87.3f ? -87.3f : x;
    x = x > 88.0f ? 88.0f : x;
    float shifted = x * 1.44269504f + 0x1.8p23f; /* n in the low bits */
    float n = shifted - 0x1.8p23f;
    float r = x - n * 0.693359375f;
    r = r - n * -2.12194440e-4f;
    float p = 1.9875691500e-4f;
    p = p * r + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    p = p * (r * r) + r + 1.0f;
    return p * bits_float((float_bits(shifted) + 127u) << 23);
}

/* erf in two polynomials, about 1 ulp: near 0 in x, beyond it as one minus
 * the exponential of one. */
INLINE float erf_f32(float x) {
    float t = bits_float(float_bits(x) & 0x7fffffffu), s = x * x;
    float u = -3.88396438e-3f * t + 2.42546219e-2f;
    float far = -1.72853470e-5f * t + 3.83197126e-4f;
    far = far * s + u;
    far = far * t + -1.06777877e-1f;
    far = far * t + -6.34846687e-1f;
    far = far * t + -1.28717512e-1f;
    far = far * t - t;
    far = 1.0f - exp_f32(far);
    far = bits_float(float_bits(far) | (float_bits(x) & 0x80000000u));
    float near = -5.96761703e-4f;
    near = near * s + 4.99119423e-3f;
    near = near * s + -2.67681349e-2f;
    near = near * s + 1.12819925e-1f;
    near = near * s + -3.76125336e-1f;
    near = near * s + 1.28379166e-1f;
    near = near * x + x;
    return t > 0.927734375f ? far : near;
}

#endif
