/* The boxes of tensors that this rank holds, for checkpoints and dumps. */
#include <stdlib.h>
#include <string.h>

#include "fail.h"
#include "model_state.h"

/* A list that is counted first and filled in a second run. */
typedef struct list {
    shard_t *shards; /* NULL: counting */
    size_t count;
} list_t;

static void add(list_t *list, shard_t shard) {
    if (list->shards)
        list->shards[list->count] = shard;
    list->count++;
}

/* Whole local box: every data-parallel rank has it, and every tensor-parallel
 * one if it is not split. */
static shard_t whole(const model_t *m, const tensor_t *t) {
    const groups_t *g = m->groups;
    shard_t shard = {.name = t->info.name, .ndim = t->info.ndim};
    memcpy(shard.global_shape, t->info.shape, sizeof shard.global_shape);
    memcpy(shard.offset, t->offset, sizeof shard.offset);
    memcpy(shard.shape, t->shape, sizeof shard.shape);
    bool split = t->split != SPLIT_NONE;
    shard.replicas = (uint32_t)(split ? g->dp : g->dp * g->tp);
    shard.replica =
        (uint32_t)(split ? g->dp_rank : g->dp_rank * g->tp + g->tp_rank);
    return shard;
}

/* The local values [from, to) of a tensor as at most three boxes: the rest of
 * a row, whole rows, the begin of a row. */
static void add_range(list_t *list, shard_t shard, size_t from, size_t to) {
    uint64_t width = shard.shape[1], row0 = shard.offset[0];
    uint64_t col0 = shard.offset[1];
    float *data = shard.data; /* of value `from` */
    while (from < to) {
        uint64_t row = from / width, col = from % width, end = to - from;
        uint64_t rows = 1, cols = width - col < end ? width - col : end;
        if (col == 0 && end >= width) {
            rows = end / width;
            cols = width;
        }
        shard.offset[0] = row0 + row;
        shard.offset[1] = col0 + col;
        shard.shape[0] = rows;
        shard.shape[1] = cols;
        shard.data = data;
        add(list, shard);
        data += rows * cols;
        from += rows * cols;
    }
}

static void add_whole(list_t *list, const model_t *m, float *arena) {
    for (size_t i = 0; i < m->tensor_count; i++) {
        const tensor_t *t = &m->tensors[i];
        if (!t->local)
            continue;
        shard_t shard = whole(m, t);
        shard.data = arena + t->at;
        add(list, shard);
    }
}

/* What of an array like the moments (`by_part`: packed by parts; else placed
 * as the arenas are) this rank keeps. `names`: of all tensors. */
static void add_parts(list_t *list, const model_t *m, float *array,
                      const char *const *names, bool by_part) {
    const groups_t *g = m->groups;
    for (size_t b = 0; b < m->bucket_count; b++) {
        part_t part = bucket_part(m, &m->buckets[b]);
        for (size_t i = 0; i < m->tensor_count; i++) {
            const tensor_t *t = &m->tensors[i];
            size_t from = part.at > t->at ? part.at : t->at;
            size_t to = part.at + part.count < t->at + t->count
                            ? part.at + part.count
                            : t->at + t->count;
            if (!t->local || from >= to)
                continue;
            shard_t shard = whole(m, t);
            shard.name = names[i];
            shard.data =
                array + (by_part ? part.moments + (from - part.at) : from);
            if (m->config->zero) {
                shard.replicas = t->split == SPLIT_NONE ? (uint32_t)g->tp : 1;
                shard.replica =
                    t->split == SPLIT_NONE ? (uint32_t)g->tp_rank : 0;
            }
            add_range(list, shard, from - t->at, to - t->at);
        }
    }
}

static void fill(list_t *list, const model_t *m, shard_kind_t kind) {
    size_t n = m->tensor_count;
    if (kind == SHARDS_GRADIENTS) {
        add_parts(list, m, m->gradients, m->names, false);
        return;
    }
    add_whole(list, m, m->weights);
    if (kind == SHARDS_WEIGHTS)
        return;
    add_parts(list, m, m->mean, m->names + n, true);
    add_parts(list, m, m->square, m->names + 2 * n, true);
}

lull_status_t shards_make(model_t *m) {
    for (int kind = 0; kind < 3; kind++) {
        list_t list = {NULL, 0};
        fill(&list, m, (shard_kind_t)kind);
        list.shards = model_alloc(m, list.count, sizeof *list.shards);
        if (!list.shards)
            return LULL_ERR_NO_MEMORY;
        list.count = 0;
        fill(&list, m, (shard_kind_t)kind);
        m->shards[kind] = list.shards;
        m->shard_count[kind] = list.count;
    }
    return LULL_OK;
}

const shard_t *model_shards(const model_t *m, shard_kind_t kind,
                            size_t *count) {
    *count = m->shard_count[kind];
    return m->shards[kind];
}

const tensor_info_t *model_tensors(const model_t *m, size_t *count) {
    *count = m->tensor_count;
    return m->infos;
}

const char *const *model_names(const model_t *m, size_t *count) {
    *count = 3 * m->tensor_count;
    return (const char *const *)m->names;
}

static void copy_box(const shard_t *shard, float *to) {
    uint64_t width = shard->global_shape[1], cols = shard->shape[1];
    for (uint64_t row = 0; row < shard->shape[0]; row++)
        memcpy(to + (shard->offset[0] + row) * width + shard->offset[1],
               shard->data + row * cols, cols * sizeof *to);
}

lull_status_t model_gather(const model_t *m, shard_kind_t kind, size_t index,
                           float *out) {
    const tensor_info_t *info = &m->infos[index];
    size_t count = (size_t)(info->shape[0] * info->shape[1]), shards;
    const shard_t *shard = model_shards(m, kind, &shards);
    memset(out, 0, count * sizeof *out);
    for (size_t i = 0; i < shards; i++, shard++)
        if (shard->replica == 0 && strcmp(shard->name, info->name) == 0)
            copy_box(shard, out);
    if (m->groups->world == 1)
        return LULL_OK;
    return lull_allreduce(LULL_IN_PLACE, out, count, LULL_F32, LULL_SUM,
                          m->groups->other);
}
