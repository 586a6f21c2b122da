/* The model of one rank: created whole or not at all, freed at once. */
#include <stdlib.h>
#include <string.h>

#include "fail.h"
#include "pass.h"

void *model_alloc(model_t *m, size_t count, size_t size) {
    size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes) || bytes > PTRDIFF_MAX / 2)
        return NULL;
    if (m->block_count % 64 == 0) {
        void **more =
            realloc(m->blocks, (m->block_count + 64) * sizeof *m->blocks);
        if (!more)
            return NULL;
        m->blocks = more;
    }
    void *block = aligned_alloc(64, (bytes + 64) / 64 * 64);
    if (block) {
        memset(block, 0, bytes);
        m->blocks[m->block_count++] = block;
    }
    return block;
}

/* One rule of the shape: `value` must be a positive multiple of `divisor`. */
typedef struct rule {
    const char *what, *of;
    int64_t value, divisor;
} rule_t;

static lull_status_t check_shape(const config_t *c) {
    const rule_t rules[] = {
        {"--layers", "1", c->layers, 1},
        {"--hidden", "--heads", c->hidden, c->heads},
        {"--heads", "--tp", c->heads, c->tp},
        {"--hidden", "--tp", c->hidden, c->tp},
        {"the vocabulary", "--tp", VOCABULARY, c->tp},
        {"--seq", "1", c->seq, 1},
        {"--micro-batch", "1", c->micro_batch, 1},
        {"--global-batch", "data-parallel ranks x --micro-batch",
         c->global_batch, (int64_t)c->dp * c->micro_batch},
    };
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++) {
        const rule_t *r = &rules[i];
        if (r->divisor < 1 || r->value < 1 || r->value % r->divisor != 0)
            return train_fail(LULL_ERR_INVALID,
                              "%s, %lld, is not a positive multiple of %s, "
                              "%lld",
                              r->what, (long long)r->value, r->of,
                              (long long)r->divisor);
    }
    if (c->pp < 1 || c->pp > c->layers)
        return train_fail(LULL_ERR_INVALID,
                          "--pp, %d, is not between 1 and --layers, %d", c->pp,
                          c->layers);
    int rotary = c->hidden / c->heads / 4;
    if (rotary < 2 || rotary % 2 != 0)
        return train_fail(LULL_ERR_INVALID,
                          "--hidden / --heads is %d: a quarter of it rotates "
                          "in pairs, so it must be 8 or more and the quarter "
                          "even",
                          c->hidden / c->heads);
    const int64_t limit = INT32_MAX; /* of BLAS' arguments */
    if ((int64_t)c->hidden * 4 > limit ||
        (int64_t)c->micro_batch * c->seq > limit)
        return train_fail(LULL_ERR_INVALID,
                          "--hidden %d or --micro-batch %d x --seq %d is "
                          "beyond a BLAS' 32-bit sizes",
                          c->hidden, c->micro_batch, c->seq);
    return LULL_OK;
}

static void set_sizes(model_t *m) {
    const config_t *c = m->config;
    const groups_t *g = m->groups;
    m->hidden = c->hidden;
    m->heads = c->heads / g->tp;
    m->head_dim = c->hidden / c->heads;
    m->rotary = m->head_dim / 4;
    m->hidden_part = c->hidden / g->tp;
    m->up_part = 4 * c->hidden / g->tp;
    m->vocabulary_part = VOCABULARY / g->tp;
    m->micro_batches = c->global_batch / (g->dp * c->micro_batch);
    m->is_first = g->pp_rank == 0;
    m->is_last = g->pp_rank == g->pp - 1;
}

lull_status_t model_create(const config_t *config, const groups_t *groups,
                           const data_t *data, model_t **out) {
    lull_status_t status = check_shape(config);
    if (status != LULL_OK)
        return status;
    model_t *m = calloc(1, sizeof *m);
    if (!m)
        return train_fail(LULL_ERR_NO_MEMORY, "model: out of memory");
    m->config = config;
    m->groups = groups;
    m->data = data;
    set_sizes(m);
    product_one_thread();
    status = tensors_make(m);
    if (status == LULL_OK)
        status = slots_make(m);
    if (status == LULL_OK)
        status = shards_make(m);
    if (status == LULL_OK) {
        *out = m;
        return LULL_OK;
    }
    model_destroy(m);
    return train_fail(status,
                      "model: out of memory: %lld layers of hidden %d, seq %d, "
                      "micro-batch %d",
                      (long long)config->layers, config->hidden, config->seq,
                      config->micro_batch);
}

void model_destroy(model_t *m) {
    if (!m)
        return;
    for (size_t i = 0; i < m->block_count; i++)
        free(m->blocks[i]);
    free(m->blocks);
    free(m);
}

int64_t model_updates(const model_t *m) {
    return m->updates;
}

void model_set_updates(model_t *m, int64_t updates) {
    m->updates = updates;
}

uint64_t model_parameters(const model_t *m) {
    uint64_t sum = 0;
    for (size_t i = 0; i < m->tensor_count; i++)
        sum += m->infos[i].shape[0] * m->infos[i].shape[1];
    return sum;
}

double model_step_flops(const model_t *m) {
    const config_t *c = m->config;
    double hidden = c->hidden, seq = c->seq;
    double layer = 24 * hidden * hidden + 2 * seq * hidden;
    double token = c->layers * layer + 2 * VOCABULARY * hidden;
    return 3 * token * seq * c->global_batch;
}
