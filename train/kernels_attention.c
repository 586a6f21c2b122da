/* Element-wise kernels of attention and of the loss: rotary embedding, causal
 * softmax, cross entropy. */
#include <float.h>

#include "kernels.h"
#include "kernels_math.h"

/* Rotates both halves of the first dimensions of one query or key; the sign
 * turns back. */
INLINE void rotate(float *restrict x, const float *restrict cosine,
                   const float *restrict sine, int half, float sign) {
#pragma omp simd
    for (int j = 0; j < half; j++) {
        float a = x[j], b = x[j + half], s = sign * sine[j];
        x[j] = a * cosine[j] - b * s;
        x[j + half] = b * cosine[j] + a * s;
    }
}

/* All queries and keys of one row. */
INLINE void rotate_row(float *row, size_t position, const heads_t *heads,
                       float sign) {
    int half = heads->rotary / 2, dim = heads->dim;
    const float *cosine = heads->cosine + position * (size_t)half;
    const float *sine = heads->sine + position * (size_t)half;
    for (int head = 0; head < heads->heads; head++) {
        float *query = row + (size_t)head * 3 * (size_t)dim;
        rotate(query, cosine, sine, half, sign);
        rotate(query + dim, cosine, sine, half, sign);
    }
}

KERNEL void kernel_rotate_forward(float *qkv, const float *bias, size_t rows,
                                  const heads_t *heads) {
    size_t width = 3 * (size_t)heads->heads * (size_t)heads->dim;
    for (size_t row = 0; row < rows; row++) {
        float *restrict x = qkv + row * width;
        for (size_t i = 0; i < width; i++)
            x[i] += bias[i];
        rotate_row(x, row % (size_t)heads->seq, heads, 1.0f);
    }
}

KERNEL void kernel_rotate_backward(float *grad, float *bias_grad, size_t rows,
                                   const heads_t *heads) {
    size_t width = 3 * (size_t)heads->heads * (size_t)heads->dim;
    float *restrict sums = bias_grad;
    for (size_t row = 0; row < rows; row++) {
        float *restrict g = grad + row * width;
        rotate_row(g, row % (size_t)heads->seq, heads, -1.0f);
        for (size_t i = 0; i < width; i++)
            sums[i] += g[i];
    }
}

KERNEL void kernel_softmax_forward(const scores_t *scores) {
    for (size_t row = 0; row < scores->rows; row++) {
        float *x = scores->values + row * scores->stride;
        size_t count = scores->first + row + 1;
        float max = -FLT_MAX, sum = 0;
#pragma omp simd reduction(max : max)
        for (size_t i = 0; i < count; i++)
            max = x[i] > max ? x[i] : max;
#pragma omp simd reduction(+ : sum)
        for (size_t i = 0; i < count; i++) {
            float e = exp_f32(x[i] - max);
            x[i] = e;
            sum += e;
        }
        float inverse = 1.0f / sum;
        for (size_t i = 0; i < count; i++)
            x[i] *= inverse;
        for (size_t i = count; i < scores->width; i++)
            x[i] = 0;
    }
}

KERNEL void kernel_softmax_backward(const scores_t *probabilities, float *grad,
                                    size_t grad_stride) {
    for (size_t row = 0; row < probabilities->rows; row++) {
        const float *restrict p =
            probabilities->values + row * probabilities->stride;
        float *restrict g = grad + row * grad_stride;
        size_t count = probabilities->first + row + 1;
        float dot = 0;
#pragma omp simd reduction(+ : dot)
        for (size_t i = 0; i < count; i++)
            dot += p[i] * g[i];
        for (size_t i = 0; i < count; i++)
            g[i] = p[i] * (g[i] - dot);
        for (size_t i = count; i < probabilities->width; i++)
            g[i] = 0;
    }
}

KERNEL void kernel_loss_max(const vocabulary_t *in, float *max) {
    for (size_t row = 0; row < in->rows; row++) {
        const float *x = in->logits + row * in->width;
        float most = -FLT_MAX;
#pragma omp simd reduction(max : most)
        for (size_t i = 0; i < in->width; i++)
            most = x[i] > most ? x[i] : most;
        max[row] = most;
    }
}

KERNEL void kernel_loss_exp(const vocabulary_t *in, const float *max,
                            float *sum, float *target) {
    for (size_t row = 0; row < in->rows; row++) {
        float *restrict x = in->logits + row * in->width;
        int local = (int)in->targets[row] - in->first;
        int mine = local >= 0 && (size_t)local < in->width;
        float top = max[row], total = 0;
        target[row] = mine ? x[local] - top : 0.0f;
#pragma omp simd reduction(+ : total)
        for (size_t i = 0; i < in->width; i++) {
            float e = exp_f32(x[i] - top);
            x[i] = e;
            total += e;
        }
        sum[row] = total;
    }
}

KERNEL void kernel_loss_backward(const vocabulary_t *in, const float *sum,
                                 float scale) {
    for (size_t row = 0; row < in->rows; row++) {
        float *restrict x = in->logits + row * in->width;
        int local = (int)in->targets[row] - in->first;
        float factor = scale / sum[row];
        for (size_t i = 0; i < in->width; i++)
            x[i] *= factor;
        if (local >= 0 && (size_t)local < in->width)
            x[local] -= scale;
    }
}
