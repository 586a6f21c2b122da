/* Gradients over data-parallel ranks: a bucket's all-reduce (with --zero 1:
 * reduce-scatter) begins as soon as backward is done with it. */
#include <string.h>

#include "pass.h"

static void begin(pass_t *pass, bucket_t *bucket) {
    const model_t *m = pass->model;
    float *values = m->gradients + bucket->at;
    lull_comm_t *comm = m->groups->dp_comm;
    if (pass->status != LULL_OK)
        return;
    if (m->config->zero)
        pass->status = lull_ireduce_scatter_block(
            LULL_IN_PLACE, values, bucket->count / (size_t)m->groups->dp,
            LULL_F32, LULL_SUM, comm, &bucket->request);
    else
        pass->status =
            lull_iallreduce(LULL_IN_PLACE, values, bucket->count, LULL_F32,
                            LULL_SUM, comm, &bucket->request);
}

void reduce_begin(pass_t *pass, int ready) {
    model_t *m = pass->model;
    if (m->groups->dp == 1)
        return;
    for (size_t i = 0; i < m->bucket_count; i++)
        if (m->buckets[i].ready == ready)
            begin(pass, &m->buckets[i]);
}

/* The result of a reduce-scatter lies at the bucket's start; it is moved to
 * where this rank's part is. */
void reduce_wait(pass_t *pass) {
    model_t *m = pass->model;
    for (size_t i = 0; i < m->bucket_count; i++) {
        bucket_t *bucket = &m->buckets[i];
        pass_wait(pass, m->groups->dp_comm, &bucket->request);
        if (pass->status != LULL_OK)
            return;
        part_t part = bucket_part(m, bucket);
        if (m->config->zero && part.at != bucket->at)
            memcpy(m->gradients + part.at, m->gradients + bucket->at,
                   part.count * sizeof(float));
    }
}
