/* The element-wise loops of the model, fused and vectorised. All matrices are
 * row-major; rows of a batch follow each other. No kernel fails. */
#ifndef TRAIN_KERNELS_H
#define TRAIN_KERNELS_H

#include <stddef.h>
#include <stdint.h>

/* One LayerNorm. Norms of the same input share its mean and deviation. */
typedef struct norm {
    const float *weight, *bias;
    float *out;                     /* forward */
    const float *grad;              /* backward: of out */
    float *weight_grad, *bias_grad; /* added to */
} norm_t;

/* stats: mean and 1/deviation of each row. eps 1e-5. */
void kernel_norm_forward(const float *x, size_t rows, size_t width,
                         const norm_t *norms, int count, float *stats);

/* The input of the norms and what came of it. */
typedef struct norm_input {
    const float *x, *stats;
    size_t rows, width;
} norm_input_t;
/* dx = (keep ? dx : 0) + the gradient through all norms. */
void kernel_norm_backward(const norm_input_t *in, const norm_t *norms,
                          int count, float *dx, int keep);

/* out = x + bias + (keep ? out : 0), bias added to each row. */
void kernel_residual(float *out, const float *x, const float *bias, size_t rows,
                     size_t width, int keep);

/* h + bias through the exact GELU: the value to out, the slope back to h. */
void kernel_gelu_forward(float *h, const float *bias, float *out, size_t rows,
                         size_t width);
/* grad *= slope, and its column sums are added to bias_grad. */
void kernel_gelu_backward(float *grad, const float *slope, float *bias_grad,
                          size_t rows, size_t width);

/* Column sums of a matrix, added to sums. */
void kernel_column_sums(const float *x, float *sums, size_t rows, size_t width);

/* Attention's shape on this rank: rows of qkv hold for each head its query,
 * key and value. */
typedef struct heads {
    int heads, dim;      /* of this rank; values a head */
    int rotary;          /* dimensions that rotate */
    int seq;             /* positions a sequence */
    const float *cosine; /* [seq, rotary / 2] */
    const float *sine;
} heads_t;

/* Adds the bias and rotates queries and keys. */
void kernel_rotate_forward(float *qkv, const float *bias, size_t rows,
                           const heads_t *heads);
/* Rotates the gradients of queries and keys back and adds the column sums of
 * all to bias_grad. */
void kernel_rotate_backward(float *grad, float *bias_grad, size_t rows,
                            const heads_t *heads);

/* A block of attention scores: row i belongs to position first + i and sees
 * columns up to that; the columns after it, up to `width`, become 0. */
typedef struct scores {
    float *values;
    size_t stride, rows, width, first;
} scores_t;
void kernel_softmax_forward(const scores_t *scores);
/* In place of the probabilities' gradient `grad`: the scores' gradient, given
 * the probabilities. */
void kernel_softmax_backward(const scores_t *probabilities, float *grad,
                             size_t grad_stride);

/* Cross entropy over a vocabulary that may be split: this rank has `width`
 * columns from `first` on. Between the calls the caller combines maxima, then
 * sums and targets' logits, over the ranks. */
typedef struct vocabulary {
    float *logits; /* [rows, width] */
    size_t rows, width;
    int first;
    const uint8_t *targets; /* [rows] */
} vocabulary_t;
void kernel_loss_max(const vocabulary_t *in, float *max);
/* logits = exp(logits - max), their sum, and the target's logit - max, or 0
 * where another rank has it. */
void kernel_loss_exp(const vocabulary_t *in, const float *max, float *sum,
                     float *target);
/* The gradient of the loss, times scale, in place of the exponentials. */
void kernel_loss_backward(const vocabulary_t *in, const float *sum,
                          float scale);

double kernel_sum_squares(const float *x, size_t count);

typedef struct adamw {
    float grad_scale; /* clipping */
    float beta1, beta2, eps;
    float rate;      /* learning rate over 1 - beta1^t */
    float root_bias; /* 1 / sqrt(1 - beta2^t) */
    float keep;      /* 1 - learning rate * decay */
} adamw_t;
typedef struct adamw_arrays {
    float *weight, *mean, *square; /* updated */
    const float *grad;
    size_t count;
} adamw_arrays_t;
void kernel_adamw(const adamw_arrays_t *arrays, const adamw_t *adamw);

#endif
