/* One training step: gradients, their norm, the update. */
#include <math.h>

#include "fail.h"
#include "pass.h"

static lull_status_t update(model_t *m, step_result_t *result) {
    const hooks_t *hooks = m->hooks;
    lull_status_t status = LULL_OK;
    if (hooks && hooks->before_update)
        status = hooks->before_update(hooks->ctx);
    if (status != LULL_OK)
        return status;
    span_begin(m, "optimizer", "update");
    status = optimizer_update(m, result->grad_norm, result->lr);
    span_end(m, "optimizer");
    return status;
}

static lull_status_t run_step(model_t *m, int64_t step, step_result_t *result) {
    const config_t *c = m->config;
    const groups_t *g = m->groups;
    double sums[2]; /* cross entropies, squares of gradients */
    lull_status_t status = schedule_run(m, step, &sums[0]);
    if (status == LULL_OK && m->hooks && m->hooks->gradients)
        status = m->hooks->gradients(m->hooks->ctx, m);
    if (status != LULL_OK)
        return status;
    if (!m->is_last || g->tp_rank != 0)
        sums[0] = 0; /* tensor-parallel ranks all have the same */
    sums[1] = optimizer_sum_squares(m);
    span_begin(m, "other", "norm");
    status = groups_sum(g, sums, 2);
    span_end(m, "other");
    if (status != LULL_OK)
        return status;
    result->loss = sums[0] / ((double)c->global_batch * c->seq);
    result->grad_norm = sqrt(sums[1]);
    result->lr = train_lr(c, step);
    result->skipped = !isfinite(result->grad_norm);
    return result->skipped ? LULL_OK : update(m, result);
}

lull_status_t train_step(model_t *m, int64_t step, const hooks_t *hooks,
                         step_result_t *out) {
    step_result_t result = {0};
    if (!m->data)
        return train_fail(LULL_ERR_STATE, "a step needs data");
    m->hooks = hooks;
    lull_status_t status = run_step(m, step, &result);
    m->hooks = NULL;
    if (status == LULL_OK)
        *out = result;
    return status;
}
