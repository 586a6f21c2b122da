/* One micro-batch going through the layers: its size, the communicators it
 * uses, and the first failure met on the way. Functions that take a pass do
 * nothing more once it has failed. */
#ifndef TRAIN_PASS_H
#define TRAIN_PASS_H

#include "model_state.h"

typedef struct pass {
    model_t *model;
    const links_t *links;
    int batch, seq; /* sequences, positions in each */
    size_t rows;    /* batch * seq */
    lull_status_t status;
} pass_t;

/* c = alpha * a b + beta * c for row-major matrices; b (NT) or a (TN) is
 * transposed in memory. A stride of 0 is the natural one, an alpha of 0
 * counts as 1. */
typedef enum product_kind { PRODUCT_NN, PRODUCT_NT, PRODUCT_TN } product_kind_t;
typedef struct product {
    int rows, cols, inner;
    const float *a, *b;
    float *c;
    int a_stride, b_stride, c_stride;
    float alpha, beta;
} product_t;
lull_status_t product(product_kind_t kind, const product_t *product);
/* Every rank is a thread of its own: products use one unless the environment
 * says otherwise. */
void product_one_thread(void);

/* The same as part of a pass; and followed by a chance for outstanding
 * communication to move on. */
void pass_small_product(pass_t *pass, product_kind_t kind,
                        const product_t *what);
void pass_product(pass_t *pass, product_kind_t kind, const product_t *what);
void pass_progress(pass_t *pass);

/* All-reduce in place over the tensor-parallel ranks; the maximum and the
 * sums of the loss always in role other. */
void pass_sum(pass_t *pass, float *values, size_t count);
void pass_loss_combine(pass_t *pass, float *values, size_t count, lull_op_t op);
/* The same sum, begun here and ended by pass_wait. */
void pass_sum_begin(pass_t *pass, float *values, size_t count,
                    lull_request_t **request);
void pass_wait(pass_t *pass, const lull_comm_t *comm, lull_request_t **request);

/* Spans of the trace. */
void span_begin(const model_t *model, const char *lane, const char *name);
void span_end(const model_t *model, const char *lane);

/* ---- What a pass is made of (ends.c, layers.c) ------------------------- */

/* Whole stage: from slot->layers[0].x to slot->out; and back, the gradient of
 * out in `grad` becoming that of the input. `done`, unless NULL, hears of each
 * layer whose weights' gradients are complete. */
void layer_forward(pass_t *pass, int layer, slot_t *slot);
void layer_backward(pass_t *pass, int layer, slot_t *slot, float *grad);

/* Tell hooks.traffic, unless NULL, of a layer right before and right after its
 * layer_backward (traffic.c). */
void traffic_before(pass_t *pass, int layer, const slot_t *slot,
                    const float *grad);
void traffic_after(pass_t *pass);

/* Tokens in slot->inputs to slot->layers[0].x, and back to the weights. */
void embed_forward(pass_t *pass, slot_t *slot);
void embed_backward(pass_t *pass, const slot_t *slot, const float *grad);

/* slot->out to slot->logits. */
void logits_forward(pass_t *pass, slot_t *slot);
/* The sum of the cross entropies of slot->targets, in nats; with scale > 0
 * the logits become their gradient times scale. */
double loss_forward(pass_t *pass, slot_t *slot, float scale);
/* From there to the gradient of slot->out. */
void loss_backward(pass_t *pass, slot_t *slot, float *grad);

/* Attention of this rank's heads (attention.c). */
void attention_forward(pass_t *pass, const saved_t *saved);
void attention_backward(pass_t *pass, const saved_t *saved,
                        const float *context_grad, float *qkv_grad);

/* ---- Reduction and update ---------------------------------------------- */

/* Begins to reduce every bucket that is final at `ready` (reduce.c). */
void reduce_begin(pass_t *pass, int ready);
void reduce_wait(pass_t *pass);

/* Forward and backward of all micro-batches (schedule.c); *loss is the sum of
 * this rank's cross entropies. */
lull_status_t schedule_run(model_t *model, int64_t step, double *loss);

/* Clips and updates, or skips (optimizer.c). */
lull_status_t optimizer_update(model_t *model, double norm, double lr);
double optimizer_sum_squares(const model_t *model);

#endif
