/* Causal attention of this rank's heads: small products over blocks of rows,
 * so that what the mask hides is hardly computed. */
#include "pass.h"

#include <math.h>

enum { BLOCK = ATTENTION_BLOCK };

/* One head of one sequence, in the arrays of all. */
typedef struct head {
    pass_t *pass;
    const float *query, *key, *value; /* rows of `stride` values */
    float *query_grad, *key_grad, *value_grad;
    float *probabilities; /* [seq, seq] */
    float *context;       /* rows of `context_stride` values */
    const float *context_grad;
    float *scores; /* scratch, [BLOCK, seq] */
    int seq, dim, stride, context_stride;
    float scale;
} head_t;

static head_t head_at(pass_t *pass, const saved_t *saved, int sequence,
                      int index) {
    const model_t *m = pass->model;
    size_t seq = (size_t)pass->seq, dim = (size_t)m->head_dim;
    size_t stride = 3 * (size_t)m->hidden_part;
    size_t row = (size_t)sequence * seq, number = (size_t)index;
    size_t heads = (size_t)m->heads;
    const float *query = saved->qkv + row * stride + number * 3 * dim;
    return (head_t){
        .pass = pass,
        .query = query,
        .key = query + dim,
        .value = query + 2 * dim,
        .probabilities = saved->probabilities +
                         ((size_t)sequence * heads + number) * seq * seq,
        .context = saved->context + row * (size_t)m->hidden_part + number * dim,
        .scores = m->scratch.scores,
        .seq = pass->seq,
        .dim = m->head_dim,
        .stride = (int)stride,
        .context_stride = m->hidden_part,
        .scale = 1.0f / sqrtf((float)m->head_dim),
    };
}

static void head_forward(const head_t *h) {
    for (int first = 0; first < h->seq; first += BLOCK) {
        int rows = h->seq - first < BLOCK ? h->seq - first : BLOCK;
        int seen = first + rows;
        float *scores = h->probabilities + (size_t)first * (size_t)h->seq;
        pass_small_product(
            h->pass, PRODUCT_NT,
            &(product_t){rows, seen, h->dim,
                         h->query + (size_t)first * (size_t)h->stride, h->key,
                         scores, h->stride, h->stride, h->seq, h->scale, 0});
        kernel_softmax_forward(&(scores_t){scores, (size_t)h->seq, (size_t)rows,
                                           (size_t)seen, (size_t)first});
        product(
            PRODUCT_NN,
            &(product_t){rows, h->dim, seen, scores, h->value,
                         h->context + (size_t)first * (size_t)h->context_stride,
                         h->seq, h->stride, h->context_stride, 1, 0});
    }
}

/* From the last block to the first: it writes every row of the gradients of
 * keys and values, the others add to theirs. */
static void head_backward(const head_t *h) {
    int last = (h->seq - 1) / BLOCK * BLOCK;
    for (int first = last; first >= 0; first -= BLOCK) {
        int rows = h->seq - first < BLOCK ? h->seq - first : BLOCK;
        int seen = first + rows;
        size_t at = (size_t)first * (size_t)h->stride;
        float *p = h->probabilities + (size_t)first * (size_t)h->seq;
        float beta = first == last ? 0.0f : 1.0f;
        const float *grad =
            h->context_grad + (size_t)first * (size_t)h->context_stride;
        pass_small_product(h->pass, PRODUCT_TN,
                           &(product_t){seen, h->dim, rows, p, grad,
                                        h->value_grad, h->seq,
                                        h->context_stride, h->stride, 1, beta});
        pass_small_product(h->pass, PRODUCT_NT,
                           &(product_t){rows, seen, h->dim, grad, h->value,
                                        h->scores, h->context_stride, h->stride,
                                        seen, 1, 0});
        kernel_softmax_backward(&(scores_t){p, (size_t)h->seq, (size_t)rows,
                                            (size_t)seen, (size_t)first},
                                h->scores, (size_t)seen);
        pass_small_product(h->pass, PRODUCT_NN,
                           &(product_t){rows, h->dim, seen, h->scores, h->key,
                                        h->query_grad + at, seen, h->stride,
                                        h->stride, h->scale, 0});
        pass_small_product(h->pass, PRODUCT_TN,
                           &(product_t){seen, h->dim, rows, h->scores,
                                        h->query + at, h->key_grad, seen,
                                        h->stride, h->stride, h->scale, beta});
    }
}

void attention_forward(pass_t *pass, const saved_t *saved) {
    for (int sequence = 0; sequence < pass->batch; sequence++) {
        for (int index = 0; index < pass->model->heads; index++) {
            head_t head = head_at(pass, saved, sequence, index);
            head_forward(&head);
        }
        pass_progress(pass);
    }
}

void attention_backward(pass_t *pass, const saved_t *saved,
                        const float *context_grad, float *qkv_grad) {
    for (int sequence = 0; sequence < pass->batch; sequence++) {
        for (int index = 0; index < pass->model->heads; index++) {
            head_t head = head_at(pass, saved, sequence, index);
            size_t at = (size_t)(head.query - saved->qkv);
            head.query_grad = qkv_grad + at;
            head.key_grad = head.query_grad + head.dim;
            head.value_grad = head.key_grad + head.dim;
            head.context_grad = context_grad + (head.context - saved->context);
            head_backward(&head);
        }
        pass_progress(pass);
    }
}
