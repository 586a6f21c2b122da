/* One transformer layer with parallel residual, split over tensor-parallel
 * ranks: x + attention(norm1(x)) + mlp(norm2(x)). The outputs of both halves
 * are row-parallel: their partial sums share one all-reduce, and so do the
 * gradients of both norms' outputs on the way back. */
#include "pass.h"

#include <string.h>

/* A tensor and its gradient lie at one place of two arenas. */
static const float *weight(const pass_t *pass, size_t place) {
    return pass->model->weights + place;
}

static float *gradient(const pass_t *pass, size_t place) {
    return pass->model->gradients + place;
}

static heads_t heads_of(const pass_t *pass) {
    const model_t *m = pass->model;
    return (heads_t){m->heads,  m->head_dim, m->rotary,
                     pass->seq, m->cosine,   m->sine};
}

static void attention_half(pass_t *pass, const layer_t *layer,
                           const saved_t *saved) {
    const model_t *m = pass->model;
    heads_t heads = heads_of(pass);
    pass_product(pass, PRODUCT_NT,
                 &(product_t){.rows = (int)pass->rows,
                              .cols = 3 * m->hidden_part,
                              .inner = m->hidden,
                              .a = saved->norm1,
                              .b = weight(pass, layer->qkv_weight),
                              .c = saved->qkv});
    kernel_rotate_forward(saved->qkv, weight(pass, layer->qkv_bias), pass->rows,
                          &heads);
    attention_forward(pass, saved);
}

static void mlp_half(pass_t *pass, const layer_t *layer, const saved_t *saved) {
    const model_t *m = pass->model;
    pass_product(pass, PRODUCT_NT,
                 &(product_t){.rows = (int)pass->rows,
                              .cols = m->up_part,
                              .inner = m->hidden,
                              .a = saved->norm2,
                              .b = weight(pass, layer->up_weight),
                              .c = saved->slope});
    kernel_gelu_forward(saved->slope, weight(pass, layer->up_bias), saved->gelu,
                        pass->rows, (size_t)m->up_part);
}

/* out = x + both row-parallel outputs, summed over ranks, + both biases. */
static void residual(pass_t *pass, const layer_t *layer, const saved_t *saved,
                     float *out) {
    const model_t *m = pass->model;
    size_t width = (size_t)m->hidden;
    bool alone = lull_comm_size(pass->links->tp) == 1;
    const float *dense_bias = weight(pass, layer->dense_bias);
    const float *down_bias = weight(pass, layer->down_bias);
    kernel_residual(m->scratch.bias, dense_bias, down_bias, 1, width, 0);
    if (alone)
        kernel_residual(out, saved->x, m->scratch.bias, pass->rows, width, 0);
    pass_product(pass, PRODUCT_NT,
                 &(product_t){.rows = (int)pass->rows,
                              .cols = m->hidden,
                              .inner = m->hidden_part,
                              .a = saved->context,
                              .b = weight(pass, layer->dense_weight),
                              .c = out,
                              .beta = alone ? 1.0f : 0.0f});
    pass_product(pass, PRODUCT_NT,
                 &(product_t){.rows = (int)pass->rows,
                              .cols = m->hidden,
                              .inner = m->up_part,
                              .a = saved->gelu,
                              .b = weight(pass, layer->down_weight),
                              .c = out,
                              .beta = 1.0f});
    if (alone)
        return;
    pass_sum(pass, out, pass->rows * width);
    kernel_residual(out, saved->x, m->scratch.bias, pass->rows, width, 1);
}

void layer_forward(pass_t *pass, int index, slot_t *slot) {
    const model_t *m = pass->model;
    const layer_t *layer = &m->places[index];
    const saved_t *saved = &slot->layers[index];
    float *out = index + 1 < m->layers ? saved[1].x : slot->out;
    norm_t norms[2] = {{.weight = weight(pass, layer->norm1_weight),
                        .bias = weight(pass, layer->norm1_bias),
                        .out = saved->norm1},
                       {.weight = weight(pass, layer->norm2_weight),
                        .bias = weight(pass, layer->norm2_bias),
                        .out = saved->norm2}};
    kernel_norm_forward(saved->x, pass->rows, (size_t)m->hidden, norms, 2,
                        saved->stats);
    attention_half(pass, layer, saved);
    mlp_half(pass, layer, saved);
    residual(pass, layer, saved, out);
}

/* A linear layer y = x Wᵀ + b on the way back, in two halves: what the layers
 * below wait for comes first. */
typedef struct linear {
    const float *grad, *x;
    size_t place; /* of the weight */
    int out, in;
} linear_t;

static void input_gradient(pass_t *pass, const linear_t *linear, float *to) {
    pass_product(pass, PRODUCT_NN,
                 &(product_t){.rows = (int)pass->rows,
                              .cols = linear->in,
                              .inner = linear->out,
                              .a = linear->grad,
                              .b = weight(pass, linear->place),
                              .c = to});
}

static void weight_gradient(pass_t *pass, const linear_t *linear) {
    pass_product(pass, PRODUCT_TN,
                 &(product_t){.rows = linear->out,
                              .cols = linear->in,
                              .inner = (int)pass->rows,
                              .a = linear->grad,
                              .b = linear->x,
                              .c = gradient(pass, linear->place),
                              .beta = 1.0f});
}

static void norms_backward(pass_t *pass, const layer_t *layer,
                           const saved_t *saved, float *grad) {
    const model_t *m = pass->model;
    float *first = m->scratch.norms;
    norm_t norms[2] = {{.weight = weight(pass, layer->norm1_weight),
                        .grad = first,
                        .weight_grad = gradient(pass, layer->norm1_weight),
                        .bias_grad = gradient(pass, layer->norm1_bias)},
                       {.weight = weight(pass, layer->norm2_weight),
                        .grad = first + pass->rows * (size_t)m->hidden,
                        .weight_grad = gradient(pass, layer->norm2_weight),
                        .bias_grad = gradient(pass, layer->norm2_bias)}};
    norm_input_t input = {saved->x, saved->stats, pass->rows,
                          (size_t)m->hidden};
    kernel_norm_backward(&input, norms, 2, grad, 1);
}

/* Both row-parallel biases are added to the same sum. */
static void biases_backward(pass_t *pass, const layer_t *layer,
                            const float *grad) {
    size_t width = (size_t)pass->model->hidden;
    float *sums = pass->model->scratch.bias;
    memset(sums, 0, width * sizeof *sums);
    kernel_column_sums(grad, sums, pass->rows, width);
    kernel_column_sums(sums, gradient(pass, layer->dense_bias), 1, width);
    kernel_column_sums(sums, gradient(pass, layer->down_bias), 1, width);
}

void layer_backward(pass_t *pass, int index, slot_t *slot, float *grad) {
    const model_t *m = pass->model;
    const scratch_t *s = &m->scratch;
    const layer_t *layer = &m->places[index];
    const saved_t *saved = &slot->layers[index];
    size_t width = (size_t)m->hidden;
    heads_t heads = heads_of(pass);
    linear_t down = {grad, saved->gelu, layer->down_weight, m->hidden,
                     m->up_part};
    linear_t dense = {grad, saved->context, layer->dense_weight, m->hidden,
                      m->hidden_part};
    linear_t up = {s->up, saved->norm2, layer->up_weight, m->up_part,
                   m->hidden};
    linear_t qkv = {s->qkv, saved->norm1, layer->qkv_weight, 3 * m->hidden_part,
                    m->hidden};

    input_gradient(pass, &down, s->up);
    kernel_gelu_backward(s->up, saved->slope, gradient(pass, layer->up_bias),
                         pass->rows, (size_t)m->up_part);
    input_gradient(pass, &up, s->norms + pass->rows * width);
    input_gradient(pass, &dense, s->context);
    attention_backward(pass, saved, s->context, s->qkv);
    kernel_rotate_backward(s->qkv, gradient(pass, layer->qkv_bias), pass->rows,
                           &heads);
    input_gradient(pass, &qkv, s->norms);

    lull_request_t *request;
    pass_sum_begin(pass, s->norms, 2 * pass->rows * width, &request);
    biases_backward(pass, layer, grad);
    weight_gradient(pass, &down);
    weight_gradient(pass, &dense);
    weight_gradient(pass, &up);
    weight_gradient(pass, &qkv);
    pass_wait(pass, pass->links->tp, &request);
    norms_backward(pass, layer, saved, grad);
}
