/* Forward without backward: validation and sampling, both over the
 * uncompressed communicators, so that they are properties of the weights. */
#include <math.h>
#include <string.h>

#include "fail.h"
#include "pass.h"
#include "random.h"

enum { TAG_EVALUATE };

static pass_t plain_pass(model_t *m, int batch, int seq) {
    return (pass_t){.model = m,
                    .links = &m->groups->plain,
                    .batch = batch,
                    .seq = seq,
                    .rows = (size_t)batch * (size_t)seq};
}

/* Through this stage; the last one's logits are in m->slots[0]. */
static void run(pass_t *pass) {
    model_t *m = pass->model;
    slot_t *slot = &m->slots[0];
    size_t count = pass->rows * (size_t)m->hidden;
    slot->layers[0].x = m->inputs[0];
    if (m->is_first)
        embed_forward(pass, slot);
    else
        pass->status =
            lull_recv(m->inputs[0], count, LULL_F32, m->groups->pp_rank - 1,
                      TAG_EVALUATE, pass->links->pp);
    for (int i = 0; i < m->layers && pass->status == LULL_OK; i++)
        layer_forward(pass, i, slot);
    if (pass->status != LULL_OK)
        return;
    if (m->is_last)
        logits_forward(pass, slot);
    else
        pass->status =
            lull_send(slot->out, count, LULL_F32, m->groups->pp_rank + 1,
                      TAG_EVALUATE, pass->links->pp);
}

/* Windows first, first + dp, ... of at most a micro-batch; how many. */
static int load_windows(pass_t *pass, int first) {
    model_t *m = pass->model;
    size_t seq = (size_t)m->config->seq;
    int count = 0;
    for (int i = first;
         i < m->config->val_windows && count < m->config->micro_batch;
         i += m->groups->dp, count++) {
        uint8_t *window = m->scratch.window;
        slot_t *slot = &m->slots[0];
        if (pass->status == LULL_OK)
            pass->status = data_val_window(m->data, i, window);
        memcpy(slot->inputs + (size_t)count * seq, window, seq);
        memcpy(slot->targets + (size_t)count * seq, window + 1, seq);
    }
    return count;
}

static lull_status_t validate_part(model_t *m, double *sum) {
    const config_t *c = m->config;
    int stride = m->groups->dp * c->micro_batch;
    for (int first = m->groups->dp_rank; first < c->val_windows;
         first += stride) {
        pass_t pass = plain_pass(m, 0, c->seq);
        pass.batch = load_windows(&pass, first);
        pass.rows = (size_t)pass.batch * (size_t)c->seq;
        if (pass.status == LULL_OK)
            run(&pass);
        if (m->is_last && pass.status == LULL_OK)
            *sum += loss_forward(&pass, &m->slots[0], 0);
        if (pass.status != LULL_OK)
            return pass.status;
    }
    return LULL_OK;
}

lull_status_t model_validate(model_t *m, double *out) {
    const config_t *c = m->config;
    double sum = 0;
    if (!m->data || c->val_windows < 1)
        return train_fail(LULL_ERR_STATE,
                          "validation needs data and --val-windows");
    lull_status_t status = validate_part(m, &sum);
    if (m->groups->tp_rank != 0)
        sum = 0;
    if (status == LULL_OK)
        status = groups_sum(m->groups, &sum, 1);
    if (status == LULL_OK)
        *out = sum / ((double)c->val_windows * c->seq);
    return status;
}

/* ---- Sampling ---------------------------------------------------------- */

/* Draws from softmax(logits / temperature) over the top_k likeliest. */
static int draw(const float *logits, const sample_options_t *options,
                uint64_t index) {
    int order[VOCABULARY], kept = 0;
    double weights[VOCABULARY], total = 0;
    int limit = options->top_k > 0 && options->top_k < VOCABULARY
                    ? options->top_k
                    : VOCABULARY;
    for (int i = 0; i < VOCABULARY; i++) { /* insertion, likeliest first */
        int at = kept < VOCABULARY ? kept++ : kept - 1;
        while (at > 0 && logits[order[at - 1]] < logits[i]) {
            order[at] = order[at - 1];
            at--;
        }
        order[at] = i;
    }
    if (options->temperature <= 0)
        return order[0];
    for (int i = 0; i < limit; i++) {
        double above = (double)logits[order[i]] - (double)logits[order[0]];
        weights[i] = exp(above / options->temperature);
        total += weights[i];
    }
    uint64_t key = random_key(options->seed, "sample");
    double left = random_uniform(key, index) * total;
    int chosen = 0;
    while (chosen < limit - 1 && left >= weights[chosen])
        left -= weights[chosen++];
    return order[chosen];
}

/* The byte after `text`, known on the last stage. */
static lull_status_t next_byte(model_t *m, const uint8_t *text, int length,
                               const sample_options_t *options,
                               uint64_t index) {
    const groups_t *g = m->groups;
    pass_t pass = plain_pass(m, 1, length);
    slot_t *slot = &m->slots[0];
    float logits[VOCABULARY];
    size_t part = (size_t)m->vocabulary_part;
    memcpy(slot->inputs, text, (size_t)length);
    run(&pass);
    if (!m->is_last || pass.status != LULL_OK)
        return pass.status;
    const float *mine = slot->logits + (size_t)(length - 1) * part;
    if (g->tp == 1)
        memcpy(logits, mine, sizeof logits);
    else
        pass.status = lull_allgather(mine, logits, part, LULL_F32, g->plain.tp);
    if (pass.status == LULL_OK)
        slot->targets[0] = (uint8_t)draw(logits, options, index);
    return pass.status;
}

lull_status_t model_sample(model_t *m, const sample_options_t *options,
                           uint8_t *out) {
    const groups_t *g = m->groups;
    int root = (g->pp - 1) * g->dp * g->tp;
    size_t seq = (size_t)m->config->seq, length = 0;
    uint8_t *text = m->scratch.window;
    for (size_t i = 0; i < options->prompt_bytes; i++) {
        if (length == seq)
            memmove(text, text + 1, --length);
        text[length++] = options->prompt[i];
    }
    if (length == 0)
        return train_fail(LULL_ERR_INVALID, "--prompt is empty");
    for (size_t i = 0; i < options->count; i++) {
        lull_status_t status = next_byte(m, text, (int)length, options, i);
        uint8_t *byte = &m->slots[0].targets[0];
        if (status == LULL_OK && g->world > 1)
            status = lull_bcast(byte, 1, LULL_U8, root, g->other);
        if (status != LULL_OK)
            return status;
        out[i] = *byte;
        if (length == seq)
            memmove(text, text + 1, --length);
        text[length++] = *byte;
    }
    return LULL_OK;
}
