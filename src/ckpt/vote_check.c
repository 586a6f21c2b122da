/* Is what a vote says possible? After this its numbers can be trusted. */
#include <string.h>

#include "base/error.h"
#include "names.h"
#include "naming.h"
#include "safetensors.h"
#include "vote.h"

static lull_status_t fail(const char *file, const char *row, const char *why) {
    char shown[LULL__SHOWN_MAX];
    return lull__fail(LULL_ERR_CORRUPT, "%s: %s: %s", file,
                      lull__name_shown(row, shown), why);
}

static lull_status_t check_file(const lull__vote_t *vote, size_t index,
                                const char *where) {
    const lull__vote_file_t *file = &vote->files[index];
    lull__entry_name_t name;
    lull__naming_data(name, vote->head.rank, (uint32_t)index);
    if (strcmp(name, file->name) != 0)
        return fail(where, file->name, "not the name of this rank's file");
    if (file->header_bytes < 10 || file->header_bytes > file->bytes ||
        file->header_bytes - 8 > LULL__ST_HEADER_MAX)
        return fail(where, file->name, "a bad size of its header");
    uint64_t data = file->bytes - file->header_bytes;
    if (file->hash_count !=
        data / LULL__BLOCK_BYTES + (data % LULL__BLOCK_BYTES != 0))
        return fail(where, file->name, "not one hash a block");
    return LULL_OK;
}

/* Raw: the bytes of the box; coded: the frames are those of the box and add
 * up to the stored bytes. */
static const char *check_bytes(const lull__shard_t *shard) {
    uint64_t raw, sum = 0, stored = shard->end - shard->begin;
    if (lull__shape_bytes(shard->dtype, shard->ndim, lull__shard_shape(shard),
                          &raw) != LULL_OK)
        return "its box is too large, or does not fill bytes";
    if (shard->codec == NULL)
        return raw == stored ? NULL : "its bytes are not what its box needs";
    if (shard->frame_count !=
        raw / LULL__FRAME_BYTES + (raw % LULL__FRAME_BYTES != 0))
        return "a wrong number of frames";
    for (uint64_t i = 0; i < shard->frame_count; i++) {
        if (shard->frames[i] > 2 * LULL__FRAME_BYTES)
            return "a frame is too large";
        sum += shard->frames[i];
    }
    return sum == stored ? NULL : "its frames are not its bytes";
}

static const char *check_shard(const lull__vote_t *vote,
                               const lull__shard_t *shard) {
    uint64_t volume;
    lull__box_t box;
    if (lull__name_check(shard->name) != LULL_OK)
        return "a bad name";
    if (shard->file >= vote->file_count)
        return "a file that is not there";
    if (shard->kind != LULL__SHARD_TENSOR &&
        (shard->dtype != LULL_U8 || shard->ndim != 1 || shard->codec != NULL))
        return "a state that is not plain bytes";
    if (!lull__shape_volume(shard->ndim, shard->global, &volume))
        return "its shape is too large";
    if (!shard->whole) {
        lull__shard_box(shard, &box);
        if (!lull__box_inside(shard->ndim, shard->global, &box))
            return "its box is not inside its shape";
    }
    if (shard->end < shard->begin)
        return "its offsets are reversed";
    return check_bytes(shard);
}

/* Files in turn, and in each its shards without holes or overlap. */
static lull_status_t check_order(const lull__vote_t *vote, const char *where) {
    uint64_t at = 0;
    size_t i = 0;
    for (size_t f = 0; f < vote->file_count; f++) {
        const lull__vote_file_t *file = &vote->files[f];
        for (at = 0; i < vote->shard_count && vote->shards[i].file == f; i++) {
            if (vote->shards[i].begin != at)
                return fail(where, vote->shards[i].name,
                            "its bytes do not follow the last one's");
            at = vote->shards[i].end;
        }
        if (at != file->bytes - file->header_bytes)
            return fail(where, file->name, "shards do not cover its data");
    }
    if (i != vote->shard_count)
        return fail(where, vote->shards[i].name, "shards are out of order");
    return LULL_OK;
}

static lull_status_t check_names(const lull__vote_t *vote, const char *where) {
    lull__names_t seen = {0};
    size_t count = vote->shard_count;
    lull_status_t status = lull__names_reserve(&seen, count);
    for (size_t i = 0; status == LULL_OK && i < count; i++) {
        size_t old = SIZE_MAX, next = i + LULL__NAMES_AHEAD;
        if (next < count)
            lull__names_expect(&seen, vote->shards[next].stored);
        status = lull__names_add(&seen, vote->shards[i].stored, i, &old);
        if (status == LULL_OK && old != SIZE_MAX)
            status = fail(where, vote->shards[i].stored, "stored twice");
    }
    lull__names_free(&seen);
    return status;
}

lull_status_t lull__vote_check(const lull__vote_t *vote, const char *where) {
    for (size_t i = 0; i < vote->file_count; i++) {
        lull_status_t status = check_file(vote, i, where);
        if (status != LULL_OK)
            return status;
    }
    for (size_t i = 0; i < vote->shard_count; i++) {
        const char *why = check_shard(vote, &vote->shards[i]);
        if (why != NULL)
            return fail(where, vote->shards[i].name, why);
    }
    lull_status_t status = check_order(vote, where);
    return status != LULL_OK ? status : check_names(vote, where);
}
