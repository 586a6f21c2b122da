/* Both ends of the model: the vocabulary-parallel embedding, the final norm,
 * the vocabulary-parallel logits and their cross entropy. */
#include <math.h>
#include <string.h>

#include "pass.h"

/* This rank's row of the vocabulary for a token, -1 for another rank's. */
static int local_token(const model_t *m, uint8_t token) {
    int local = (int)token - m->groups->tp_rank * m->vocabulary_part;
    return local >= 0 && local < m->vocabulary_part ? local : -1;
}

void embed_forward(pass_t *pass, slot_t *slot) {
    const model_t *m = pass->model;
    size_t width = (size_t)m->hidden;
    float *out = slot->layers[0].x;
    for (size_t row = 0; row < pass->rows; row++) {
        int token = local_token(m, slot->inputs[row]);
        const float *from = m->weights + m->ends.embed_in +
                            (size_t)(token < 0 ? 0 : token) * width;
        if (token < 0)
            memset(out + row * width, 0, width * sizeof *out);
        else
            memcpy(out + row * width, from, width * sizeof *out);
    }
    pass_sum(pass, out, pass->rows * width);
}

void embed_backward(pass_t *pass, const slot_t *slot, const float *grad) {
    const model_t *m = pass->model;
    size_t width = (size_t)m->hidden;
    float *to = m->gradients + m->ends.embed_in;
    for (size_t row = 0; row < pass->rows; row++) {
        int token = local_token(m, slot->inputs[row]);
        if (token >= 0)
            kernel_column_sums(grad + row * width, to + (size_t)token * width,
                               1, width);
    }
}

void logits_forward(pass_t *pass, slot_t *slot) {
    const model_t *m = pass->model;
    norm_t norm = {.weight = m->weights + m->ends.norm_weight,
                   .bias = m->weights + m->ends.norm_bias,
                   .out = slot->norm};
    kernel_norm_forward(slot->out, pass->rows, (size_t)m->hidden, &norm, 1,
                        slot->stats);
    pass_product(pass, PRODUCT_NT,
                 &(product_t){.rows = (int)pass->rows,
                              .cols = m->vocabulary_part,
                              .inner = m->hidden,
                              .a = slot->norm,
                              .b = m->weights + m->ends.embed_out,
                              .c = slot->logits});
}

double loss_forward(pass_t *pass, slot_t *slot, float scale) {
    const model_t *m = pass->model;
    size_t rows = pass->rows;
    float *max = m->scratch.loss, *sum = max + rows, *target = sum + rows;
    vocabulary_t vocabulary = {slot->logits, rows, (size_t)m->vocabulary_part,
                               m->groups->tp_rank * m->vocabulary_part,
                               slot->targets};
    kernel_loss_max(&vocabulary, max);
    pass_loss_combine(pass, max, rows, LULL_MAX);
    kernel_loss_exp(&vocabulary, max, sum, target);
    pass_loss_combine(pass, sum, 2 * rows, LULL_SUM);
    double loss = 0;
    for (size_t row = 0; row < rows; row++)
        loss += log((double)sum[row]) - (double)target[row];
    if (scale > 0)
        kernel_loss_backward(&vocabulary, sum, scale);
    return loss;
}

void loss_backward(pass_t *pass, slot_t *slot, float *grad) {
    const model_t *m = pass->model;
    int rows = (int)pass->rows;
    float *norm_grad = m->scratch.norms;
    pass_product(pass, PRODUCT_NN,
                 &(product_t){.rows = rows,
                              .cols = m->hidden,
                              .inner = m->vocabulary_part,
                              .a = slot->logits,
                              .b = m->weights + m->ends.embed_out,
                              .c = norm_grad});
    lull_request_t *request;
    pass_sum_begin(pass, norm_grad, pass->rows * (size_t)m->hidden, &request);
    pass_product(pass, PRODUCT_TN,
                 &(product_t){.rows = m->vocabulary_part,
                              .cols = m->hidden,
                              .inner = rows,
                              .a = slot->logits,
                              .b = slot->norm,
                              .c = m->gradients + m->ends.embed_out,
                              .beta = 1.0f});
    pass_wait(pass, pass->links->tp, &request);
    norm_t norm = {.weight = m->weights + m->ends.norm_weight,
                   .grad = norm_grad,
                   .weight_grad = m->gradients + m->ends.norm_weight,
                   .bias_grad = m->gradients + m->ends.norm_bias};
    norm_input_t input = {slot->out, slot->stats, pass->rows,
                          (size_t)m->hidden};
    kernel_norm_backward(&input, &norm, 1, grad, 0);
}
