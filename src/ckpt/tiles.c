/* Do the boxes of every tensor tile it? */
#include "tiles.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/error.h"
#include "grow.h"
#include "names.h"

/* A box of a tensor: offset and shape, ndim numbers each. */
typedef struct row {
    struct row *next;
    const uint64_t *dims;
} row_t;

typedef struct tensor {
    const char *name;
    const uint64_t *global;
    row_t *rows;
    size_t count;
    lull_dtype_t dtype;
    uint32_t ndim, rank; /* that spoke of it first */
} tensor_t;

typedef struct alias {
    const char *name, *of;
} alias_t;

struct lull__tiles {
    bool copies;
    lull__arena_t arena;
    lull__lists_t lists;
    lull__names_t names;
    tensor_t *tensors;
    size_t tensor_count, tensor_room;
    alias_t *aliases;
    size_t alias_count, alias_room;
};

static lull_status_t no_memory(void) {
    return lull__fail(LULL_ERR_NO_MEMORY, "checking that tensors are whole");
}

lull_status_t lull__tiles_create(bool copies, lull__tiles_t **out) {
    lull__tiles_t *tiles = calloc(1, sizeof *tiles);
    if (tiles == NULL)
        return no_memory();
    tiles->copies = copies;
    *out = tiles;
    return LULL_OK;
}

void lull__tiles_destroy(lull__tiles_t *tiles) {
    if (tiles == NULL)
        return;
    lull__arena_free(&tiles->arena);
    lull__names_free(&tiles->names);
    free(tiles->tensors);
    free(tiles->aliases);
    free(tiles);
}

static lull_status_t new_tensor(lull__tiles_t *tiles,
                                const lull__shard_t *shard, uint32_t rank) {
    lull_status_t status =
        lull__grow((void **)&tiles->tensors, tiles->tensor_count,
                   &tiles->tensor_room, sizeof *tiles->tensors);
    if (status != LULL_OK)
        return status;
    tensor_t *tensor = &tiles->tensors[tiles->tensor_count];
    *tensor =
        (tensor_t){.dtype = shard->dtype, .ndim = shard->ndim, .rank = rank};
    tensor->name = lull__arena_text(&tiles->arena, shard->name);
    tensor->global = lull__lists_keep(&tiles->lists, &tiles->arena,
                                      shard->global, shard->ndim);
    if (tensor->name == NULL || tensor->global == NULL)
        return no_memory();
    status =
        lull__names_add(&tiles->names, tensor->name, tiles->tensor_count, NULL);
    tiles->tensor_count += status == LULL_OK;
    return status;
}

static lull_status_t add_shard(lull__tiles_t *tiles, const lull__shard_t *shard,
                               uint32_t rank) {
    size_t bytes = shard->ndim * sizeof(uint64_t);
    size_t index = lull__names_find(&tiles->names, shard->name);
    if (index == SIZE_MAX) {
        index = tiles->tensor_count;
        lull_status_t status = new_tensor(tiles, shard, rank);
        if (status != LULL_OK)
            return status;
    }
    tensor_t *tensor = &tiles->tensors[index];
    if (tensor->dtype != shard->dtype || tensor->ndim != shard->ndim ||
        memcmp(tensor->global, shard->global, bytes) != 0)
        return lull__fail(LULL_ERR_MISMATCH,
                          "tensor '%.200s': ranks %" PRIu32 " and %" PRIu32
                          " disagree about its dtype or global shape",
                          shard->name, tensor->rank, rank);
    if (tiles->copies && shard->replica > 0)
        return LULL_OK;
    uint64_t dims[2 * LULL_MAX_DIMS] = {0};
    if (!shard->whole)
        memcpy(dims, shard->global + shard->ndim, bytes);
    memcpy(dims + shard->ndim, lull__shard_shape(shard), bytes);
    row_t *row = lull__arena_alloc(&tiles->arena, sizeof *row);
    if (row == NULL)
        return no_memory();
    row->dims =
        lull__lists_keep(&tiles->lists, &tiles->arena, dims, 2 * shard->ndim);
    if (row->dims == NULL)
        return no_memory();
    row->next = tensor->rows;
    tensor->rows = row;
    tensor->count++;
    return LULL_OK;
}

static lull_status_t add_alias(lull__tiles_t *tiles,
                               const lull_ckpt_meta_t *from) {
    lull_status_t status =
        lull__grow((void **)&tiles->aliases, tiles->alias_count,
                   &tiles->alias_room, sizeof *tiles->aliases);
    if (status != LULL_OK)
        return status;
    alias_t *alias = &tiles->aliases[tiles->alias_count++];
    alias->name = lull__arena_text(&tiles->arena, from->key);
    alias->of = lull__arena_text(&tiles->arena, from->value);
    return alias->name && alias->of ? LULL_OK : no_memory();
}

lull_status_t lull__tiles_add(lull__tiles_t *tiles, const lull__vote_t *vote) {
    size_t count = vote->shard_count;
    lull_status_t status = LULL_OK;
    if (tiles->tensor_count == 0) /* others have the same, mostly */
        status = lull__names_reserve(&tiles->names, count);
    for (size_t i = 0; status == LULL_OK && i < count; i++) {
        size_t next = i + LULL__NAMES_AHEAD;
        if (next < count)
            lull__names_expect(&tiles->names, vote->shards[next].name);
        if (vote->shards[i].kind == LULL__SHARD_TENSOR)
            status = add_shard(tiles, &vote->shards[i], vote->head.rank);
    }
    for (size_t i = 0; status == LULL_OK && i < vote->alias_count; i++)
        status = add_alias(tiles, &vote->aliases[i]);
    return status;
}

static lull_status_t check_tensor(const tensor_t *tensor) {
    size_t bytes = tensor->ndim * sizeof(uint64_t), n = 0;
    bool overlap = false;
    lull__box_t *boxes = calloc(tensor->count + 1, sizeof *boxes);
    if (boxes == NULL)
        return no_memory();
    for (const row_t *row = tensor->rows; row != NULL; row = row->next, n++) {
        memcpy(boxes[n].offset, row->dims, bytes);
        memcpy(boxes[n].shape, row->dims + tensor->ndim, bytes);
    }
    bool ok =
        lull__boxes_tile(tensor->ndim, tensor->global, boxes, n, &overlap);
    free(boxes);
    if (ok)
        return LULL_OK;
    return lull__fail(LULL_ERR_MISMATCH,
                      "tensor '%.200s': %s of it was saved %s", tensor->name,
                      overlap ? "a part" : "not all",
                      overlap ? "twice" : "by the ranks");
}

static lull_status_t check_alias(const lull__tiles_t *tiles,
                                 const alias_t *alias) {
    if (lull__names_find(&tiles->names, alias->of) == SIZE_MAX)
        return lull__fail(LULL_ERR_MISMATCH,
                          "tensor '%.200s' is an alias of '%.200s', which no "
                          "rank saved",
                          alias->name, alias->of);
    if (lull__names_find(&tiles->names, alias->name) != SIZE_MAX)
        return lull__fail(LULL_ERR_MISMATCH,
                          "tensor '%.200s' is saved and also an alias",
                          alias->name);
    return LULL_OK;
}

lull_status_t lull__tiles_check(lull__tiles_t *tiles) {
    lull_status_t status = LULL_OK;
    for (size_t i = 0; status == LULL_OK && i < tiles->tensor_count; i++)
        status = check_tensor(&tiles->tensors[i]);
    for (size_t i = 0; status == LULL_OK && i < tiles->alias_count; i++)
        status = check_alias(tiles, &tiles->aliases[i]);
    return status;
}
