/* What an opened checkpoint tells: metadata, tensors, shards, files, state. */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "reader.h"

static lull_status_t null_given(const char *call) {
    return lull__fail(LULL_ERR_INVALID, "%s: an argument is NULL", call);
}

lull_status_t lull_ckpt_info_entry(const lull_ckpt_info_t *info,
                                   lull_ckpt_entry_t *out) {
    if (info == NULL || out == NULL)
        return null_given("lull_ckpt_info_entry");
    const lull__manifest_t *m = &info->manifest;
    memset(out, 0, sizeof *out);
    out->id = lull__reader_id(m);
    out->parent_seq = m->parent;
    out->world = m->world;
    out->files = (uint32_t)(m->file_count + m->vote_count + 1);
    out->bytes = info->bytes;
    out->time = m->time;
    out->state = LULL_OK;
    lull__text_copy(out->name, sizeof out->name, info->name);
    return LULL_OK;
}

const char *lull_ckpt_info_meta(const lull_ckpt_info_t *info, const char *key) {
    if (info == NULL || key == NULL)
        return NULL;
    for (size_t i = 0; i < info->manifest.meta_count; i++)
        if (strcmp(info->manifest.meta[i].key, key) == 0)
            return info->manifest.meta[i].value;
    return NULL;
}

bool lull_ckpt_info_meta_at(const lull_ckpt_info_t *info, size_t index,
                            lull_ckpt_meta_t *out) {
    if (info == NULL || out == NULL || index >= info->manifest.meta_count)
        return false;
    *out = info->manifest.meta[index];
    return true;
}

size_t lull_ckpt_info_tensors(const lull_ckpt_info_t *info) {
    return info != NULL ? info->tensor_count : 0;
}

/* Shards may differ: one of another codec than the first counts as "mixed". */
static const char *codec_of(const lull_ckpt_info_t *info,
                            const lull__reader_tensor_t *tensor) {
    const char *first = "raw";
    for (size_t i = 0; i < tensor->count; i++) {
        const char *codec = info->shards[tensor->first + i].shard->codec;
        codec = codec != NULL ? codec : "raw";
        if (i == 0)
            first = codec;
        else if (strcmp(codec, first) != 0)
            return "mixed";
    }
    return first;
}

bool lull_ckpt_info_tensor_at(const lull_ckpt_info_t *info, size_t index,
                              lull_ckpt_tensor_info_t *out) {
    if (info == NULL || out == NULL || index >= info->tensor_count)
        return false;
    const lull__reader_tensor_t *tensor = &info->tensors[index];
    const lull__shard_t *sample = tensor->sample;
    memset(out, 0, sizeof *out);
    out->name = tensor->name;
    out->dtype = sample->dtype;
    out->ndim = sample->ndim;
    memcpy(out->shape, sample->global, sample->ndim * sizeof *out->shape);
    /* Its shards tile it and each was checked, but their sum was not. */
    if (lull__shape_bytes(sample->dtype, sample->ndim, sample->global,
                          &out->bytes) != LULL_OK)
        return false;
    out->stored_bytes = tensor->stored;
    out->shards = tensor->count;
    out->codec = codec_of(info, tensor);
    out->alias_of = tensor->alias_of;
    return true;
}

static lull_status_t no_tensor(const lull_ckpt_info_t *info, const char *name) {
    char shown[LULL__SHOWN_MAX], where[LULL__ELSEWHERE_MAX];
    lull__reader_elsewhere(info, where);
    return lull__fail(LULL_ERR_NOT_FOUND, "%s: no tensor '%s'%s",
                      info->dir.path, lull__name_shown(name, shown), where);
}

lull_status_t lull_ckpt_info_tensor(const lull_ckpt_info_t *info,
                                    const char *name,
                                    lull_ckpt_tensor_info_t *out) {
    if (info == NULL || name == NULL || out == NULL)
        return null_given("lull_ckpt_info_tensor");
    size_t index = lull__reader_find(info, name);
    if (index == SIZE_MAX || !lull_ckpt_info_tensor_at(info, index, out))
        return no_tensor(info, name);
    return LULL_OK;
}

bool lull_ckpt_info_shard_at(const lull_ckpt_info_t *info, const char *name,
                             size_t index, lull_ckpt_shard_info_t *out) {
    if (info == NULL || name == NULL || out == NULL)
        return false;
    size_t t = lull__reader_find(info, name);
    if (t == SIZE_MAX || index >= info->tensors[t].count)
        return false;
    const lull__reader_shard_t *at =
        &info->shards[info->tensors[t].first + index];
    const lull__reader_file_t *file = &info->files[at->file];
    lull__box_t box;
    memset(out, 0, sizeof *out);
    lull__shard_box(at->shard, &box);
    memcpy(out->offset, box.offset, sizeof out->offset);
    memcpy(out->shape, box.shape, sizeof out->shape);
    out->rank = at->shard->rank;
    out->file = file->row->name;
    out->file_offset = file->vote->header_bytes + at->shard->begin;
    out->stored_bytes = at->shard->end - at->shard->begin;
    return true;
}

bool lull_ckpt_info_file_at(const lull_ckpt_info_t *info, size_t index,
                            lull_ckpt_file_info_t *out) {
    if (info == NULL || out == NULL || index >= info->manifest.file_count)
        return false;
    const lull__manifest_file_t *row = &info->manifest.files[index];
    const lull__manifest_t *m = &info->manifest;
    *out = (lull_ckpt_file_info_t){row->name, row->rank, row->bytes, NULL};
    if (info->ranks[info->files[index].owner].elsewhere)
        out->elsewhere = m->places[m->votes[row->rank].place];
    return true;
}

/* The vote that a rank's shards are in. */
static const lull__vote_t *vote_of(const lull_ckpt_info_t *info, size_t rank) {
    size_t low = 0, high = info->rank_count;
    if (high == info->manifest.world)
        return &info->ranks[rank].vote;
    while (high - low > 1) {
        size_t middle = low + (high - low) / 2;
        if (info->ranks[middle].vote.head.rank <= rank)
            low = middle;
        else
            high = middle;
    }
    return &info->ranks[low].vote;
}

bool lull_ckpt_info_rank_at(const lull_ckpt_info_t *info, size_t rank,
                            lull_ckpt_rank_info_t *out) {
    if (info == NULL || out == NULL || rank >= info->manifest.world)
        return false;
    const lull__vote_t *vote = vote_of(info, rank);
    *out = (lull_ckpt_rank_info_t){0};
    if (vote->times == NULL)
        return true; /* it is in another place */
    const lull__vote_times_t *times = &vote->times[rank - vote->head.rank];
    *out = (lull_ckpt_rank_info_t){.queued_s = times->queued_s,
                                   .copy_s = times->copy_s,
                                   .flush_s = times->flush_s,
                                   .fsync_s = times->fsync_s};
    bool merged = vote->head.ranks > 1;
    for (size_t i = 0; i < vote->shard_count; i++) {
        const lull__shard_t *shard = &vote->shards[i];
        if (shard->rank != rank)
            continue;
        out->shards++;
        out->bytes += merged ? shard->end - shard->begin : 0;
    }
    for (size_t i = 0; !merged && i < vote->file_count; i++)
        out->bytes += vote->files[i].bytes;
    return true;
}

/* The state that `wanted` says, in the order of ranks; NULL: none. */
typedef bool (*state_test)(const lull__shard_t *shard, uint32_t rank,
                           void *ctx);

static const lull__shard_t *find_state(const lull_ckpt_info_t *info,
                                       state_test wanted, void *ctx,
                                       size_t *file, uint32_t *rank) {
    for (size_t r = 0; r < info->rank_count; r++) {
        const lull__reader_rank_t *at = &info->ranks[r];
        for (size_t i = 0; i < at->vote.shard_count; i++) {
            const lull__shard_t *shard = &at->vote.shards[i];
            if (shard->kind == LULL__SHARD_TENSOR ||
                !wanted(shard, shard->rank, ctx))
                continue;
            *file = at->first_file + shard->file;
            *rank = shard->rank;
            return shard;
        }
    }
    return NULL;
}

static bool count_down(const lull__shard_t *shard, uint32_t rank, void *ctx) {
    size_t *left = ctx;
    (void)shard;
    (void)rank;
    return (*left)-- == 0;
}

bool lull_ckpt_info_state_at(const lull_ckpt_info_t *info, size_t index,
                             lull_ckpt_state_info_t *out) {
    size_t file;
    uint32_t rank;
    if (info == NULL || out == NULL)
        return false;
    const lull__shard_t *shard =
        find_state(info, count_down, &index, &file, &rank);
    if (shard == NULL)
        return false;
    *out = (lull_ckpt_state_info_t){shard->name, rank,
                                    shard->kind == LULL__SHARD_STATE_RANK,
                                    shard->end - shard->begin};
    return true;
}

typedef struct by_name {
    const char *name;
    uint32_t rank;
} by_name_t;

static bool has_name(const lull__shard_t *shard, uint32_t rank, void *ctx) {
    const by_name_t *wanted = ctx;
    return (shard->kind == LULL__SHARD_STATE || rank == wanted->rank) &&
           strcmp(shard->name, wanted->name) == 0;
}

lull_status_t lull_ckpt_info_state(const lull_ckpt_info_t *info,
                                   const char *name, uint32_t rank, void *data,
                                   size_t capacity, size_t *bytes) {
    by_name_t wanted = {name, rank};
    char shown[LULL__SHOWN_MAX], where[LULL__ELSEWHERE_MAX];
    size_t file;
    uint32_t at;
    if (info == NULL || name == NULL || bytes == NULL ||
        (data == NULL && capacity > 0))
        return null_given("lull_ckpt_info_state");
    const lull__shard_t *shard =
        find_state(info, has_name, &wanted, &file, &at);
    if (shard == NULL) {
        lull__reader_elsewhere(info, where);
        return lull__fail(LULL_ERR_NOT_FOUND, "%s: no state '%s' of rank %u%s",
                          info->dir.path, lull__name_shown(name, shown), rank,
                          where);
    }
    uint64_t n = shard->end - shard->begin;
    *bytes = n;
    if (data == NULL && capacity == 0)
        return LULL_OK;
    if (n > capacity)
        return lull__fail(LULL_ERR_CAPACITY,
                          "%s: state '%s' has %llu bytes, the buffer %zu",
                          info->dir.path, lull__name_shown(name, shown),
                          (unsigned long long)n, capacity);
    return lull__reader_range(info, file, shard->begin, shard->end, data);
}
