/* From the shards of all ranks to logical tensors: agreement, tiling, names,
 * aliases, the index. */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "grow.h"
#include "reader.h"

typedef struct builder {
    lull_ckpt_info_t *info;
    lull__reader_tensor_t *tensors;
    size_t count, room;
    lull__names_t names;
    uint32_t *owners; /* of each shard, in the order of ranks: its tensor */
    size_t at;        /* in them */
} builder_t;

static lull_status_t fail(const builder_t *builder, const char *name,
                          const char *why) {
    char shown[LULL__SHOWN_MAX];
    return lull__fail(LULL_ERR_CORRUPT, "%s: tensor '%s': %s",
                      builder->info->dir.path, lull__name_shown(name, shown),
                      why);
}

static lull_status_t add_tensor(builder_t *builder,
                                const lull__reader_tensor_t *tensor) {
    lull_status_t status =
        lull__grow((void **)&builder->tensors, builder->count, &builder->room,
                   sizeof *tensor);
    if (status == LULL_OK)
        builder->tensors[builder->count++] = *tensor;
    return status;
}

static bool same_tensor(const lull__shard_t *a, const lull__shard_t *b) {
    return a->dtype == b->dtype && a->ndim == b->ndim &&
           memcmp(a->global, b->global, a->ndim * sizeof *a->global) == 0;
}

/* Counts a shard for its tensor, which may be new. */
static lull_status_t count_shard(builder_t *builder,
                                 const lull__shard_t *shard) {
    size_t old;
    lull_status_t status =
        lull__names_add(&builder->names, shard->name, builder->count, &old);
    if (status == LULL_OK && old == SIZE_MAX) {
        old = builder->count;
        status = add_tensor(builder, &(lull__reader_tensor_t){
                                         .name = shard->name, .sample = shard});
    }
    if (status != LULL_OK)
        return status;
    lull__reader_tensor_t *tensor = &builder->tensors[old];
    if (!same_tensor(tensor->sample, shard))
        return fail(builder, shard->name,
                    "its shards disagree on dtype or shape");
    tensor->count++;
    tensor->stored += shard->end - shard->begin;
    builder->owners[builder->at++] = (uint32_t)old;
    return LULL_OK;
}

/* Room for an owner of each shard, and for the names of the first rank: others
 * have the same, mostly. */
static lull_status_t make_room(builder_t *builder) {
    const lull_ckpt_info_t *info = builder->info;
    size_t shards = 0, names = 0;
    for (size_t r = 0; r < info->rank_count; r++) {
        shards += info->ranks[r].vote.shard_count;
        if (names == 0)
            names = shards;
    }
    builder->owners = malloc((shards + 1) * sizeof *builder->owners);
    if (builder->owners == NULL)
        return lull__fail(LULL_ERR_NO_MEMORY, "%zu shards", shards);
    return lull__names_reserve(&builder->names, names);
}

/* Calls fn for each shard of a tensor, in the order of ranks. */
static lull_status_t each_shard(builder_t *builder,
                                lull_status_t (*fn)(builder_t *,
                                                    const lull__shard_t *,
                                                    size_t file)) {
    for (size_t r = 0; r < builder->info->rank_count; r++) {
        const lull__reader_rank_t *rank = &builder->info->ranks[r];
        for (size_t i = 0; i < rank->vote.shard_count; i++) {
            const lull__shard_t *shard = &rank->vote.shards[i];
            size_t next = i + LULL__NAMES_AHEAD;
            if (next < rank->vote.shard_count)
                lull__names_expect(&builder->names, shard[next - i].name);
            if (shard->kind != LULL__SHARD_TENSOR)
                continue;
            lull_status_t status =
                fn(builder, shard, rank->first_file + shard->file);
            if (status != LULL_OK)
                return status;
        }
    }
    return LULL_OK;
}

static lull_status_t count_one(builder_t *builder, const lull__shard_t *shard,
                               size_t file) {
    (void)file;
    builder->info->shard_count++;
    return count_shard(builder, shard);
}

/* `first` has run ahead to the end of what was placed. */
static lull_status_t place_one(builder_t *builder, const lull__shard_t *shard,
                               size_t file) {
    lull__reader_tensor_t *tensor =
        &builder->tensors[builder->owners[builder->at++]];
    builder->info->shards[tensor->first++] =
        (lull__reader_shard_t){shard, file};
    return LULL_OK;
}

static lull_status_t place_shards(builder_t *builder) {
    lull_ckpt_info_t *info = builder->info;
    size_t at = 0;
    info->shards = calloc(info->shard_count > 0 ? info->shard_count : 1,
                          sizeof *info->shards);
    if (info->shards == NULL)
        return lull__fail(LULL_ERR_NO_MEMORY, "%zu shards", info->shard_count);
    for (size_t i = 0; i < builder->count; i++) {
        builder->tensors[i].first = at;
        at += builder->tensors[i].count;
    }
    builder->at = 0;
    lull_status_t status = each_shard(builder, place_one);
    for (size_t i = 0; i < builder->count; i++)
        builder->tensors[i].first -= builder->tensors[i].count;
    return status;
}

static int by_file(const void *a, const void *b) {
    const lull__reader_shard_t *x = a, *y = b;
    if (x->file != y->file)
        return x->file < y->file ? -1 : 1;
    return (x->shard > y->shard) - (x->shard < y->shard);
}

static int by_box(const void *a, const void *b) {
    const lull__shard_t *x = ((const lull__reader_shard_t *)a)->shard;
    const lull__shard_t *y = ((const lull__reader_shard_t *)b)->shard;
    lull__box_t a_box, b_box;
    lull__shard_box(x, &a_box);
    lull__shard_box(y, &b_box);
    int order = memcmp(&a_box, &b_box, sizeof a_box);
    return order != 0 ? order : by_file(a, b);
}

static bool same_box(const lull__shard_t *a, const lull__shard_t *b) {
    size_t bytes = (a->whole ? 1 : 3) * a->ndim * sizeof *a->global;
    return a->replicas > 1 && a->replicas == b->replicas &&
           a->whole == b->whole && memcmp(a->global, b->global, bytes) == 0;
}

/* In places replicas are stored whole: of those that are here the first
 * counts. */
static void drop_copies(builder_t *builder) {
    if (builder->info->manifest.place_count == 0)
        return;
    for (size_t t = 0; t < builder->count; t++) {
        lull__reader_tensor_t *tensor = &builder->tensors[t];
        lull__reader_shard_t *shards = builder->info->shards + tensor->first;
        size_t kept = 0;
        qsort(shards, tensor->count, sizeof *shards, by_box);
        for (size_t i = 0; i < tensor->count; i++)
            if (kept == 0 || !same_box(shards[kept - 1].shard, shards[i].shard))
                shards[kept++] = shards[i];
        qsort(shards, kept, sizeof *shards, by_file);
        tensor->count = kept;
    }
}

static lull_status_t check_tiling(builder_t *builder) {
    lull__box_t *boxes = NULL;
    size_t room = 0;
    lull_status_t status = LULL_OK;
    if (builder->info->elsewhere > 0)
        return LULL_OK; /* a load looks whether its slices are here */
    for (size_t t = 0; status == LULL_OK && t < builder->count; t++) {
        const lull__reader_tensor_t *tensor = &builder->tensors[t];
        const lull__shard_t *sample = tensor->sample;
        bool overlap;
        for (size_t i = 0; status == LULL_OK && i < tensor->count; i++) {
            status = lull__grow((void **)&boxes, i, &room, sizeof *boxes);
            if (status == LULL_OK)
                lull__shard_box(builder->info->shards[tensor->first + i].shard,
                                &boxes[i]);
        }
        if (status == LULL_OK &&
            !lull__boxes_tile(sample->ndim, sample->global, boxes,
                              tensor->count, &overlap))
            status = fail(builder, tensor->name,
                          overlap ? "parts of it are stored twice"
                                  : "parts of it are missing");
    }
    free(boxes);
    return status;
}

static lull_status_t add_alias(builder_t *builder,
                               const lull_ckpt_meta_t *alias, size_t stored) {
    size_t of = lull__names_find(&builder->names, alias->value), old;
    if (of >= stored && builder->info->elsewhere > 0)
        return LULL_OK;
    if (of >= stored)
        return fail(builder, alias->key,
                    "the tensor that it equals is missing");
    lull__reader_tensor_t tensor = builder->tensors[of];
    tensor.name = alias->key;
    tensor.alias_of = alias->value;
    tensor.stored = 0;
    lull_status_t status =
        lull__names_add(&builder->names, alias->key, builder->count, &old);
    if (status != LULL_OK)
        return status;
    if (old == SIZE_MAX)
        return add_tensor(builder, &tensor);
    /* Several ranks may tell of the same tie. */
    const char *before = builder->tensors[old].alias_of;
    if (before == NULL || strcmp(before, alias->value) != 0)
        return fail(builder, alias->key,
                    "it is tied and stored, or tied twice");
    return LULL_OK;
}

static lull_status_t add_aliases(builder_t *builder) {
    size_t stored = builder->count;
    for (size_t r = 0; r < builder->info->rank_count; r++) {
        const lull__vote_t *vote = &builder->info->ranks[r].vote;
        for (size_t i = 0; i < vote->alias_count; i++) {
            lull_status_t status =
                add_alias(builder, &vote->aliases[i], stored);
            if (status != LULL_OK)
                return status;
        }
    }
    return LULL_OK;
}

/* A tensor, where it was. */
typedef struct ordered {
    const char *name;
    size_t old;
} ordered_t;

static int by_name(const void *a, const void *b) {
    return strcmp(((const ordered_t *)a)->name, ((const ordered_t *)b)->name);
}

/* Sorts the tensors by name, and tells the index. */
static lull_status_t sort_tensors(builder_t *builder) {
    size_t count = builder->count;
    ordered_t *order = malloc((count + 1) * sizeof *order);
    uint32_t *map = malloc((count + 1) * sizeof *map);
    lull__reader_tensor_t *sorted = malloc((count + 1) * sizeof *sorted);
    lull_status_t status = LULL_OK;
    if (order == NULL || map == NULL || sorted == NULL) {
        free(sorted);
        status = lull__fail(LULL_ERR_NO_MEMORY, "%zu tensors", count);
        goto free_maps;
    }
    for (size_t i = 0; i < count; i++)
        order[i] = (ordered_t){builder->tensors[i].name, i};
    qsort(order, count, sizeof *order, by_name);
    for (size_t i = 0; i < count; i++) {
        sorted[i] = builder->tensors[order[i].old];
        map[order[i].old] = (uint32_t)i;
    }
    lull__names_renumber(&builder->names, map);
    free(builder->tensors);
    builder->tensors = sorted;
free_maps:
    free(map);
    free(order);
    return status;
}

lull_status_t lull__reader_index(lull_ckpt_info_t *info) {
    builder_t builder = {.info = info};
    lull_status_t status = make_room(&builder);
    if (status == LULL_OK)
        status = each_shard(&builder, count_one);
    if (status == LULL_OK)
        status = place_shards(&builder);
    if (status == LULL_OK)
        drop_copies(&builder);
    if (status == LULL_OK)
        status = check_tiling(&builder);
    if (status == LULL_OK)
        status = add_aliases(&builder);
    if (status == LULL_OK)
        status = sort_tensors(&builder);
    free(builder.owners);
    info->index = builder.names;
    info->tensors = builder.tensors;
    info->tensor_count = builder.count;
    return status;
}

size_t lull__reader_find(const lull_ckpt_info_t *info, const char *name) {
    return lull__names_find(&info->index, name);
}
