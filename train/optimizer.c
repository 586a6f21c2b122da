/* AdamW with clipping over the whole model; with --zero 1 each data-parallel
 * rank updates its part and the parts are gathered. */
#include <math.h>

#include "pass.h"

static const double decay = 0.1, beta1 = 0.9, beta2 = 0.95, clip = 1.0;

double train_lr(const config_t *c, int64_t step) {
    if (step < c->warmup)
        return c->lr * (double)(step + 1) / (double)c->warmup;
    int64_t span = c->steps - c->warmup;
    double done = span > 0 ? (double)(step - c->warmup) / (double)span : 1.0;
    if (done > 1.0)
        done = 1.0;
    return c->lr * (0.1 + 0.9 * 0.5 * (1.0 + cos(M_PI * done)));
}

/* This rank's share of the squared norm: what several ranks hold counts once.
 */
double optimizer_sum_squares(const model_t *m) {
    const groups_t *g = m->groups;
    double sum = 0;
    if (!m->config->zero && g->dp_rank != 0)
        return 0;
    for (size_t i = 0; i < m->bucket_count; i++) {
        part_t part = bucket_part(m, &m->buckets[i]);
        if (!m->buckets[i].replicated || g->tp_rank == 0)
            sum += kernel_sum_squares(m->gradients + part.at, part.count);
    }
    return sum;
}

/* Updates what of a tensor lies in a part. */
static void update(const model_t *m, const part_t *part, const tensor_t *t,
                   adamw_t adamw, double lr) {
    size_t from = part->at > t->at ? part->at : t->at;
    size_t to = part->at + part->count < t->at + t->count
                    ? part->at + part->count
                    : t->at + t->count;
    if (!t->local || from >= to)
        return;
    size_t moments = part->moments + (from - part->at);
    adamw_arrays_t arrays = {m->weights + from, m->mean + moments,
                             m->square + moments, m->gradients + from,
                             to - from};
    adamw.keep = t->info.ndim > 1 ? (float)(1.0 - lr * decay) : 1.0f;
    kernel_adamw(&arrays, &adamw);
}

/* The updated parts of all data-parallel ranks, gathered while the rest is
 * still being updated. */
static void gather(pass_t *pass, bucket_t *bucket) {
    const model_t *m = pass->model;
    if (m->config->zero && m->groups->dp > 1 && pass->status == LULL_OK)
        pass->status =
            lull_iallgather(LULL_IN_PLACE, m->weights + bucket->at,
                            bucket->count / (size_t)m->groups->dp, LULL_F32,
                            m->groups->param_comm, &bucket->request);
    pass_progress(pass);
}

lull_status_t optimizer_update(model_t *m, double norm, double lr) {
    double updates = (double)++m->updates;
    adamw_t adamw = {
        .grad_scale = norm > clip ? (float)(clip / (norm + 1e-6)) : 1.0f,
        .beta1 = (float)beta1,
        .beta2 = (float)beta2,
        .eps = 1e-8f,
        .rate = (float)(lr / (1.0 - pow(beta1, updates))),
        .root_bias = (float)(1.0 / sqrt(1.0 - pow(beta2, updates))),
    };
    pass_t pass = {.model = m};
    for (size_t b = 0; b < m->bucket_count; b++) {
        part_t part = bucket_part(m, &m->buckets[b]);
        for (size_t i = 0; i < m->tensor_count; i++)
            update(m, &part, &m->tensors[i], adamw, lr);
        gather(&pass, &m->buckets[b]);
    }
    for (size_t b = 0; b < m->bucket_count; b++)
        pass_wait(&pass, m->groups->param_comm, &m->buckets[b].request);
    return pass.status;
}
