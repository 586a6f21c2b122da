/* The tensors of the model: their names and shapes, who holds which part,
 * where the parts lie in the arenas, and their first values. */
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fail.h"
#include "model_state.h"
#include "random.h"

typedef enum extent { NONE, HIDDEN, HIDDEN3, HIDDEN4, VOCAB } extent_t;

/* One row for each tensor of the model; of a layer, or of an end. */
typedef struct row {
    const char *name;
    extent_t extents[2];
    split_t split;
    initial_t initial;
    bool output;  /* of a half of a layer: smaller first values */
    size_t place; /* in layer_t or ends_t */
} row_t;

#define LAYER(member) offsetof(layer_t, member)
#define END(member) offsetof(ends_t, member)
static const row_t layer_rows[] = {
    {"input_layernorm.weight",
     {HIDDEN, NONE},
     SPLIT_NONE,
     INITIAL_ONE,
     false,
     LAYER(norm1_weight)},
    {"input_layernorm.bias",
     {HIDDEN, NONE},
     SPLIT_NONE,
     INITIAL_ZERO,
     false,
     LAYER(norm1_bias)},
    {"post_attention_layernorm.weight",
     {HIDDEN, NONE},
     SPLIT_NONE,
     INITIAL_ONE,
     false,
     LAYER(norm2_weight)},
    {"post_attention_layernorm.bias",
     {HIDDEN, NONE},
     SPLIT_NONE,
     INITIAL_ZERO,
     false,
     LAYER(norm2_bias)},
    {"attention.query_key_value.weight",
     {HIDDEN3, HIDDEN},
     SPLIT_ROWS,
     INITIAL_NORMAL,
     false,
     LAYER(qkv_weight)},
    {"attention.query_key_value.bias",
     {HIDDEN3, NONE},
     SPLIT_ROWS,
     INITIAL_ZERO,
     false,
     LAYER(qkv_bias)},
    {"attention.dense.weight",
     {HIDDEN, HIDDEN},
     SPLIT_COLUMNS,
     INITIAL_NORMAL,
     true,
     LAYER(dense_weight)},
    {"attention.dense.bias",
     {HIDDEN, NONE},
     SPLIT_NONE,
     INITIAL_ZERO,
     false,
     LAYER(dense_bias)},
    {"mlp.dense_h_to_4h.weight",
     {HIDDEN4, HIDDEN},
     SPLIT_ROWS,
     INITIAL_NORMAL,
     false,
     LAYER(up_weight)},
    {"mlp.dense_h_to_4h.bias",
     {HIDDEN4, NONE},
     SPLIT_ROWS,
     INITIAL_ZERO,
     false,
     LAYER(up_bias)},
    {"mlp.dense_4h_to_h.weight",
     {HIDDEN, HIDDEN4},
     SPLIT_COLUMNS,
     INITIAL_NORMAL,
     true,
     LAYER(down_weight)},
    {"mlp.dense_4h_to_h.bias",
     {HIDDEN, NONE},
     SPLIT_NONE,
     INITIAL_ZERO,
     false,
     LAYER(down_bias)},
};
static const row_t end_rows[] = {
    {"gpt_neox.embed_in.weight",
     {VOCAB, HIDDEN},
     SPLIT_ROWS,
     INITIAL_NORMAL,
     false,
     END(embed_in)},
    {"gpt_neox.final_layer_norm.weight",
     {HIDDEN, NONE},
     SPLIT_NONE,
     INITIAL_ONE,
     false,
     END(norm_weight)},
    {"gpt_neox.final_layer_norm.bias",
     {HIDDEN, NONE},
     SPLIT_NONE,
     INITIAL_ZERO,
     false,
     END(norm_bias)},
    {"embed_out.weight",
     {VOCAB, HIDDEN},
     SPLIT_ROWS,
     INITIAL_NORMAL,
     false,
     END(embed_out)},
};
enum {
    LAYER_ROWS = sizeof layer_rows / sizeof *layer_rows,
    END_ROWS = sizeof end_rows / sizeof *end_rows
};

static uint64_t extent(const model_t *m, extent_t which) {
    uint64_t hidden = (uint64_t)m->hidden;
    const uint64_t values[] = {1, hidden, 3 * hidden, 4 * hidden, VOCABULARY};
    return values[which];
}

/* A copy of prefix and name that lives as long as the model. */
static const char *keep_name(model_t *m, const char *prefix, const char *name) {
    size_t bytes = strlen(prefix) + strlen(name) + 1;
    char *text = model_alloc(m, bytes, 1);
    if (text)
        snprintf(text, bytes, "%s%s", prefix, name);
    return text;
}

/* Fills in a tensor of the whole model and this rank's box of it. */
static lull_status_t describe(model_t *m, const row_t *row, const char *prefix,
                              tensor_t *t) {
    t->info.name = keep_name(m, prefix, row->name);
    if (!t->info.name)
        return LULL_ERR_NO_MEMORY;
    t->info.ndim = row->extents[1] == NONE ? 1 : 2;
    t->split = row->split;
    t->initial = row->initial;
    t->deviation =
        row->output ? 0.02 / sqrt(2.0 * (double)m->config->layers) : 0.02;
    for (int d = 0; d < 2; d++)
        t->info.shape[d] = t->shape[d] = extent(m, row->extents[d]);
    int dim = row->split == SPLIT_COLUMNS ? 1 : 0;
    if (row->split != SPLIT_NONE) {
        t->shape[dim] /= (uint64_t)m->groups->tp;
        t->offset[dim] = t->shape[dim] * (uint64_t)m->groups->tp_rank;
    }
    t->count = (size_t)(t->shape[0] * t->shape[1]);
    t->local = t->stage == m->groups->pp_rank;
    return LULL_OK;
}

/* Which stage holds a layer: even shares, the first stages take the rest. */
static int stage_of(const model_t *m, int layer) {
    int share = m->config->layers / m->groups->pp;
    int rest = m->config->layers % m->groups->pp;
    int longer = rest * (share + 1);
    return layer < longer ? layer / (share + 1)
                          : rest + (layer - longer) / share;
}

static lull_status_t list_tensors(model_t *m) {
    size_t layers = (size_t)m->config->layers;
    m->tensor_count = layers * LAYER_ROWS + END_ROWS;
    m->tensors = model_alloc(m, m->tensor_count, sizeof *m->tensors);
    m->infos = model_alloc(m, m->tensor_count, sizeof *m->infos);
    m->names = model_alloc(m, 3 * m->tensor_count, sizeof *m->names);
    if (!m->tensors || !m->infos || !m->names)
        return LULL_ERR_NO_MEMORY;
    tensor_t *t = m->tensors;
    lull_status_t status = LULL_OK;
    for (int i = 0; i < END_ROWS && status == LULL_OK; i++, t++) {
        t->layer = -1;
        t->stage = i == 0 ? 0 : m->groups->pp - 1;
        status = describe(m, &end_rows[i], "", t);
    }
    for (int layer = 0; layer < (int)layers; layer++) {
        char prefix[64];
        snprintf(prefix, sizeof prefix, "gpt_neox.layers.%d.", layer);
        for (int i = 0; i < LAYER_ROWS && status == LULL_OK; i++, t++) {
            t->layer = layer;
            t->stage = stage_of(m, layer);
            status = describe(m, &layer_rows[i], prefix, t);
        }
    }
    return status;
}

static lull_status_t list_names(model_t *m) {
    size_t n = m->tensor_count;
    for (size_t i = 0; i < n; i++) {
        const char *name = m->tensors[i].info.name;
        m->infos[i] = m->tensors[i].info;
        m->names[i] = name;
        m->names[n + i] = keep_name(m, "optimizer.exp_avg.", name);
        m->names[2 * n + i] = keep_name(m, "optimizer.exp_avg_sq.", name);
        if (!m->names[n + i] || !m->names[2 * n + i])
            return LULL_ERR_NO_MEMORY;
    }
    return LULL_OK;
}

/* ---- Places in the arenas ---------------------------------------------- */

/* Lays out the arenas in the order in which backward finishes gradients:
 * sharded tensors from the top of the stage to its bottom, in buckets; then
 * all that tensor-parallel ranks replicate, in a bucket of its own, so that
 * its compressed blocks lie alike on those ranks. */
typedef struct layout {
    model_t *model;
    bucket_t *bucket; /* being filled; NULL: none */
} layout_t;

static void close_bucket(layout_t *layout, int ready) {
    model_t *m = layout->model;
    size_t align = (size_t)m->groups->dp * BUCKET_ALIGN;
    bucket_t *bucket = layout->bucket;
    if (!bucket)
        return;
    m->arena = bucket->at + (m->arena - bucket->at + align - 1) / align * align;
    bucket->count = m->arena - bucket->at;
    bucket->ready = ready;
    bucket->moments = m->moments;
    m->moments += bucket->count / (m->config->zero ? (size_t)m->groups->dp : 1);
    layout->bucket = NULL;
}

/* Tensors begin at 64 bytes. */
static void place(layout_t *layout, tensor_t *t) {
    model_t *m = layout->model;
    if (!layout->bucket) {
        layout->bucket = &m->buckets[m->bucket_count++];
        *layout->bucket =
            (bucket_t){.at = m->arena, .replicated = t->split == SPLIT_NONE};
    }
    m->arena = (m->arena + 15) / 16 * 16;
    t->at = m->arena;
    m->arena += t->count;
}

/* The local tensors of a layer (-1: the end of `row` alone), of one kind. */
static void place_all(layout_t *layout, int layer, const char *end,
                      bool replicated) {
    model_t *m = layout->model;
    for (size_t i = 0; i < m->tensor_count; i++) {
        tensor_t *t = &m->tensors[i];
        bool wanted = t->layer == layer && t->local &&
                      (t->split == SPLIT_NONE) == replicated;
        if (wanted && (layer >= 0 || strcmp(t->info.name, end) == 0))
            place(layout, t);
    }
}

static void close_if_full(layout_t *layout, int ready) {
    if (layout->bucket &&
        layout->model->arena - layout->bucket->at >= BUCKET_VALUES)
        close_bucket(layout, ready);
}

static lull_status_t lay_out(model_t *m) {
    m->buckets = model_alloc(m, (size_t)m->layers + 4, sizeof *m->buckets);
    if (!m->buckets)
        return LULL_ERR_NO_MEMORY;
    layout_t layout = {.model = m};
    place_all(&layout, -1, end_rows[3].name, false);
    close_if_full(&layout, m->layers);
    for (int i = m->layers - 1; i >= 0; i--) {
        place_all(&layout, m->first_layer + i, "", false);
        close_if_full(&layout, i);
    }
    place_all(&layout, -1, end_rows[0].name, false);
    close_bucket(&layout, READY_END);
    place_all(&layout, -1, end_rows[1].name, true);
    place_all(&layout, -1, end_rows[2].name, true);
    for (int i = m->layers - 1; i >= 0; i--)
        place_all(&layout, m->first_layer + i, "", true);
    close_bucket(&layout, READY_END);
    return LULL_OK;
}

/* Copies the places to where layers look for them. */
static lull_status_t note_places(model_t *m) {
    m->places = model_alloc(m, (size_t)m->layers, sizeof *m->places);
    if (!m->places)
        return LULL_ERR_NO_MEMORY;
    for (size_t i = 0; i < m->tensor_count; i++) {
        const tensor_t *t = &m->tensors[i];
        if (!t->local)
            continue;
        char *base = t->layer < 0
                         ? (char *)&m->ends
                         : (char *)&m->places[t->layer - m->first_layer];
        const row_t *row = i < END_ROWS
                               ? &end_rows[i]
                               : &layer_rows[(i - END_ROWS) % LAYER_ROWS];
        memcpy(base + row->place, &t->at, sizeof t->at);
    }
    return LULL_OK;
}

lull_status_t tensors_make(model_t *m) {
    lull_status_t status = list_tensors(m);
    if (status == LULL_OK)
        status = list_names(m);
    for (int i = m->config->layers - 1; i >= 0; i--)
        if (stage_of(m, i) == m->groups->pp_rank) {
            m->first_layer = i;
            m->layers++;
        }
    if (status == LULL_OK)
        status = lay_out(m);
    if (status == LULL_OK)
        status = note_places(m);
    if (status != LULL_OK)
        return status;
    m->weights = model_alloc(m, m->arena, sizeof(float));
    m->gradients = model_alloc(m, m->arena, sizeof(float));
    m->mean = model_alloc(m, m->moments, sizeof(float));
    m->square = model_alloc(m, m->moments, sizeof(float));
    return m->weights && m->gradients && m->mean && m->square
               ? LULL_OK
               : LULL_ERR_NO_MEMORY;
}

part_t bucket_part(const model_t *m, const bucket_t *bucket) {
    if (!m->config->zero)
        return (part_t){bucket->at, bucket->moments, bucket->count};
    size_t count = bucket->count / (size_t)m->groups->dp;
    return (part_t){bucket->at + count * (size_t)m->groups->dp_rank,
                    bucket->moments, count};
}

/* ---- First values ------------------------------------------------------ */

static void init_tensor(const model_t *m, const tensor_t *t) {
    float *out = m->weights + t->at;
    uint64_t key = random_key(m->config->seed, t->info.name);
    for (uint64_t i = 0; i < t->shape[0]; i++)
        for (uint64_t j = 0; j < t->shape[1]; j++) {
            uint64_t index =
                (t->offset[0] + i) * t->info.shape[1] + t->offset[1] + j;
            double value = t->initial == INITIAL_ONE ? 1.0 : 0.0;
            if (t->initial == INITIAL_NORMAL)
                value = t->deviation * random_normal(key, index);
            *out++ = (float)value;
        }
}

void model_init_weights(model_t *m) {
    for (size_t i = 0; i < m->tensor_count; i++)
        if (m->tensors[i].local)
            init_tensor(m, &m->tensors[i]);
}
