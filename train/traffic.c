/* What a layer would send on other layouts, for a dump: nothing here changes
 * what training computes. */
#include "pass.h"

static void tell(pass_t *pass, const float *values, size_t count) {
    const hooks_t *hooks = pass->model->hooks;
    if (pass->status == LULL_OK)
        pass->status = hooks->traffic(hooks->ctx, values, count);
}

static bool wanted(const pass_t *pass) {
    const hooks_t *hooks = pass->model->hooks;
    return hooks != NULL && hooks->traffic != NULL;
}

/* On one rank the residual is added to inside the products, so the sum that
 * ranks would reduce is nowhere: made again. */
static void row_parallel(pass_t *pass, const layer_t *layer,
                         const saved_t *saved, float *to) {
    const model_t *m = pass->model;
    pass_small_product(pass, PRODUCT_NT,
                       &(product_t){.rows = (int)pass->rows,
                                    .cols = m->hidden,
                                    .inner = m->hidden_part,
                                    .a = saved->context,
                                    .b = m->weights + layer->dense_weight,
                                    .c = to});
    pass_small_product(pass, PRODUCT_NT,
                       &(product_t){.rows = (int)pass->rows,
                                    .cols = m->hidden,
                                    .inner = m->up_part,
                                    .a = saved->gelu,
                                    .b = m->weights + layer->down_weight,
                                    .c = to,
                                    .beta = 1.0f});
}

void traffic_before(pass_t *pass, int index, const slot_t *slot,
                    const float *grad) {
    const model_t *m = pass->model;
    const saved_t *saved = &slot->layers[index];
    const float *out = index + 1 < m->layers ? saved[1].x : slot->out;
    size_t count = pass->rows * (size_t)m->hidden;
    if (!wanted(pass))
        return;
    tell(pass, out, count);
    tell(pass, grad, count);
    /* The layer's backward fills this anew. */
    row_parallel(pass, &m->places[index], saved, m->scratch.norms);
    tell(pass, m->scratch.norms, count);
}

void traffic_after(pass_t *pass) {
    const model_t *m = pass->model;
    if (wanted(pass))
        tell(pass, m->scratch.norms, 2 * pass->rows * (size_t)m->hidden);
}
