/* Element-wise kernels: norms, GELU, residual, optimizer. Written so that the
 * compiler vectorises them; the order of every sum is fixed. */
#include "kernels.h"

#include <math.h>

#include "kernels_math.h"

KERNEL void kernel_norm_forward(const float *x, size_t rows, size_t width,
                                const norm_t *norms, int count, float *stats) {
    float inverse = 1.0f / (float)width;
    for (size_t row = 0; row < rows; row++) {
        const float *in = x + row * width;
        float sum = 0, squares = 0;
#pragma omp simd reduction(+ : sum)
        for (size_t i = 0; i < width; i++)
            sum += in[i];
        float mean = sum * inverse;
#pragma omp simd reduction(+ : squares)
        for (size_t i = 0; i < width; i++)
            squares += (in[i] - mean) * (in[i] - mean);
        float scale = 1.0f / sqrtf(squares * inverse + 1e-5f);
        stats[2 * row] = mean;
        stats[2 * row + 1] = scale;
        for (int k = 0; k < count; k++) {
            const float *restrict weight = norms[k].weight;
            const float *restrict bias = norms[k].bias;
            float *restrict out = norms[k].out + row * width;
            for (size_t i = 0; i < width; i++)
                out[i] = (in[i] - mean) * scale * weight[i] + bias[i];
        }
    }
}

/* One row through one norm: adds to its gradients. */
INLINE void norm_grads(const norm_t *norm, size_t row, const float *in,
                       const float *stats, size_t width) {
    const float *restrict grad = norm->grad + row * width;
    float *restrict weight_grad = norm->weight_grad;
    float *restrict bias_grad = norm->bias_grad;
    float mean = stats[0], scale = stats[1];
    for (size_t i = 0; i < width; i++) {
        weight_grad[i] += grad[i] * ((in[i] - mean) * scale);
        bias_grad[i] += grad[i];
    }
}

KERNEL void kernel_norm_backward(const norm_input_t *in, const norm_t *norms,
                                 int count, float *dx, int keep) {
    size_t width = in->width;
    float inverse = 1.0f / (float)width;
    const norm_t *first = &norms[0], *last = &norms[count - 1];
    float second = count > 1 ? 1.0f : 0.0f;
    for (size_t row = 0; row < in->rows; row++) {
        const float *x = in->x + row * width, *stats = in->stats + 2 * row;
        const float *g1 = first->grad + row * width, *w1 = first->weight;
        const float *g2 = last->grad + row * width, *w2 = last->weight;
        float mean = stats[0], scale = stats[1], sum = 0, dot = 0;
        for (int k = 0; k < count; k++)
            norm_grads(&norms[k], row, x, stats, width);
#pragma omp simd reduction(+ : sum, dot)
        for (size_t i = 0; i < width; i++) {
            float g = g1[i] * w1[i] + second * (g2[i] * w2[i]);
            sum += g;
            dot += g * ((x[i] - mean) * scale);
        }
        sum *= inverse;
        dot *= inverse;
        float *restrict out = dx + row * width;
#pragma omp simd
        for (size_t i = 0; i < width; i++) {
            float g = g1[i] * w1[i] + second * (g2[i] * w2[i]);
            float hat = (x[i] - mean) * scale;
            out[i] = (keep ? out[i] : 0.0f) + scale * (g - sum - hat * dot);
        }
    }
}

KERNEL void kernel_residual(float *out, const float *x, const float *bias,
                            size_t rows, size_t width, int keep) {
    for (size_t row = 0; row < rows; row++) {
        float *restrict o = out + row * width;
        const float *restrict in = x + row * width;
        if (keep)
            for (size_t i = 0; i < width; i++)
                o[i] = in[i] + (o[i] + bias[i]);
        else
            for (size_t i = 0; i < width; i++)
                o[i] = in[i] + bias[i];
    }
}

KERNEL void kernel_gelu_forward(float *h, const float *bias, float *out,
                                size_t rows, size_t width) {
    for (size_t row = 0; row < rows; row++) {
        float *restrict in = h + row * width;
        float *restrict o = out + row * width;
        for (size_t i = 0; i < width; i++) {
            float v = in[i] + bias[i];
            float cdf = 0.5f + 0.5f * erf_f32(v * 0.70710678f);
            float pdf = 0.39894228f * exp_f32(-0.5f * v * v);
            o[i] = v * cdf;
            in[i] = cdf + v * pdf;
        }
    }
}

KERNEL void kernel_gelu_backward(float *grad, const float *slope,
                                 float *bias_grad, size_t rows, size_t width) {
    for (size_t row = 0; row < rows; row++) {
        float *restrict g = grad + row * width;
        const float *restrict s = slope + row * width;
        float *restrict sums = bias_grad;
        for (size_t i = 0; i < width; i++) {
            float v = g[i] * s[i];
            g[i] = v;
            sums[i] += v;
        }
    }
}

KERNEL void kernel_column_sums(const float *x, float *sums, size_t rows,
                               size_t width) {
    float *restrict to = sums;
    for (size_t row = 0; row < rows; row++) {
        const float *restrict in = x + row * width;
        for (size_t i = 0; i < width; i++)
            to[i] += in[i];
    }
}

KERNEL double kernel_sum_squares(const float *x, size_t count) {
    double sum = 0;
#pragma omp simd reduction(+ : sum)
    for (size_t i = 0; i < count; i++)
        sum += (double)x[i] * (double)x[i];
    return sum;
}

KERNEL void kernel_adamw(const adamw_arrays_t *arrays, const adamw_t *adamw) {
    float *restrict weight = arrays->weight;
    float *restrict mean = arrays->mean;
    float *restrict square = arrays->square;
    const float *restrict grad = arrays->grad;
    adamw_t a = *adamw;
    for (size_t i = 0; i < arrays->count; i++) {
        float g = grad[i] * a.grad_scale;
        float m = a.beta1 * mean[i] + (1.0f - a.beta1) * g;
        float v = a.beta2 * square[i] + (1.0f - a.beta2) * (g * g);
        mean[i] = m;
        square[i] = v;
        weight[i] =
            weight[i] * a.keep - a.rate * m / (sqrtf(v) * a.root_bias + a.eps);
    }
}
