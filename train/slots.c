/* Buffers for the micro-batches that are on their way through a stage at
 * once, and for what passes between stages. */
#include <math.h>

#include "model_state.h"

/* Floats for `count` rows of `width`; *failed tells when there are none. */
static float *floats(model_t *m, size_t rows, int width, bool *failed) {
    size_t count;
    float *block = NULL;
    if (!__builtin_mul_overflow(rows, (size_t)width, &count))
        block = model_alloc(m, count, sizeof *block);
    *failed |= !block;
    return block;
}

static bool make_saved(model_t *m, saved_t *saved, size_t rows) {
    bool failed = false;
    saved->stats = floats(m, rows, 2, &failed);
    saved->norm1 = floats(m, rows, m->hidden, &failed);
    saved->norm2 = floats(m, rows, m->hidden, &failed);
    saved->qkv = floats(m, rows, 3 * m->hidden_part, &failed);
    saved->probabilities =
        floats(m, rows * (size_t)m->heads, m->config->seq, &failed);
    saved->context = floats(m, rows, m->hidden_part, &failed);
    saved->slope = floats(m, rows, m->up_part, &failed);
    saved->gelu = floats(m, rows, m->up_part, &failed);
    return !failed;
}

static bool make_slot(model_t *m, slot_t *slot, size_t rows) {
    bool failed = false;
    slot->layers = model_alloc(m, (size_t)m->layers, sizeof *slot->layers);
    if (!slot->layers)
        return false;
    for (int i = 0; i < m->layers; i++) {
        failed |= !make_saved(m, &slot->layers[i], rows);
        if (i > 0)
            slot->layers[i].x = floats(m, rows, m->hidden, &failed);
    }
    slot->out = floats(m, rows, m->hidden, &failed);
    slot->inputs = model_alloc(m, rows, 1);
    slot->targets = model_alloc(m, rows, 1);
    failed |= !slot->inputs || !slot->targets;
    if (m->is_last) {
        slot->norm = floats(m, rows, m->hidden, &failed);
        slot->stats = floats(m, rows, 2, &failed);
        slot->logits = floats(m, rows, m->vocabulary_part, &failed);
    }
    return !failed;
}

static bool make_scratch(model_t *m, size_t rows) {
    bool failed = false;
    scratch_t *s = &m->scratch;
    s->qkv = floats(m, rows, 3 * m->hidden_part, &failed);
    s->up = floats(m, rows, m->up_part, &failed);
    s->context = floats(m, rows, m->hidden_part, &failed);
    s->norms = floats(m, 2 * rows, m->hidden, &failed);
    s->scores = floats(m, ATTENTION_BLOCK, m->config->seq, &failed);
    s->bias = floats(m, 1, m->hidden, &failed);
    s->loss = floats(m, rows, 3, &failed);
    s->window = model_alloc(m, (size_t)m->config->seq + 1, 1);
    for (int i = 0; i < GRADIENT_BUFFERS; i++)
        m->gradient[i] = floats(m, rows, m->hidden, &failed);
    return !failed && s->window;
}

/* Angles of the rotary embedding: position times base^(-2j/rotary), both
 * factors in float32 as PyTorch has them. */
static bool make_angles(model_t *m) {
    size_t half = (size_t)m->rotary / 2, seq = (size_t)m->config->seq;
    bool failed = false;
    m->cosine = floats(m, seq, (int)half, &failed);
    m->sine = floats(m, seq, (int)half, &failed);
    for (size_t i = 0; i < seq * half && !failed; i++) {
        double exponent = -2.0 * (double)(i % half) / m->rotary;
        float frequency = (float)pow(ROTARY_BASE, exponent);
        float angle = (float)(i / half) * frequency;
        m->cosine[i] = (float)cos((double)angle);
        m->sine[i] = (float)sin((double)angle);
    }
    return !failed;
}

lull_status_t slots_make(model_t *m) {
    size_t rows = (size_t)m->config->micro_batch * (size_t)m->config->seq;
    int ahead = m->groups->pp - m->groups->pp_rank;
    bool failed = false;
    m->slot_count = ahead < m->micro_batches ? ahead : m->micro_batches;
    size_t slots = (size_t)m->slot_count;
    m->slots = model_alloc(m, slots, sizeof *m->slots);
    m->inputs = model_alloc(m, slots + 1, sizeof *m->inputs);
    if (!m->slots || !m->inputs)
        return LULL_ERR_NO_MEMORY;
    for (size_t i = 0; i < slots && !failed; i++)
        failed = !make_slot(m, &m->slots[i], rows);
    for (size_t i = 0; i <= slots && !failed; i++)
        m->inputs[i] = floats(m, rows, m->hidden, &failed);
    failed = failed || !make_scratch(m, rows) || !make_angles(m);
    return failed ? LULL_ERR_NO_MEMORY : LULL_OK;
}
