/* Whole tensors in and out of a run. */
#include "dump.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agree.h"
#include "safetensors.h"

static uint64_t elements(const tensor_info_t *info) {
    uint64_t count = 1;
    for (uint32_t i = 0; i < info->ndim; ++i)
        count *= info->shape[i];
    return count;
}

static uint64_t largest(const tensor_info_t *infos, size_t count) {
    uint64_t most = 1;
    for (size_t i = 0; i < count; ++i) {
        uint64_t here = elements(&infos[i]);
        most = here > most ? here : most;
    }
    return most;
}

static lull_status_t open_dump(const tensor_info_t *infos, size_t count,
                               const char *path, tensor_writer_t **out) {
    tensor_head_t *heads = calloc(count, sizeof *heads);
    if (heads == NULL)
        return train_fail(LULL_ERR_NO_MEMORY, "%s: out of memory", path);
    for (size_t i = 0; i < count; ++i) {
        snprintf(heads[i].name, sizeof heads[i].name, "%s", infos[i].name);
        heads[i].dtype = LULL_F32;
        heads[i].ndim = infos[i].ndim;
        memcpy(heads[i].shape, infos[i].shape, sizeof heads[i].shape);
    }
    lull_status_t status = tensor_writer_open(path, heads, count, out);
    free(heads);
    return status;
}

/* All ranks gather; the one with a writer writes. */
static lull_status_t gather_all(const model_t *model, shard_kind_t kind,
                                float *whole, tensor_writer_t *writer) {
    size_t count;
    const tensor_info_t *infos = model_tensors(model, &count);
    lull_status_t written = LULL_OK;
    for (size_t i = 0; i < count; ++i) {
        lull_status_t status = model_gather(model, kind, i, whole);
        if (status != LULL_OK)
            return status;
        /* A failed write must not stop the gathering that all ranks do. */
        if (writer != NULL && written == LULL_OK)
            written = tensor_writer_add(writer, whole,
                                        elements(&infos[i]) * sizeof *whole);
    }
    if (writer != NULL && written == LULL_OK)
        written = tensor_writer_finish(writer);
    return written;
}

lull_status_t dump_tensors(const model_t *model, const groups_t *groups,
                           shard_kind_t kind, const char *path) {
    size_t count;
    const tensor_info_t *infos = model_tensors(model, &count);
    tensor_writer_t *writer = NULL;
    lull_status_t status = LULL_OK;
    float *whole = malloc(largest(infos, count) * sizeof *whole);
    if (whole == NULL)
        status = train_fail(LULL_ERR_NO_MEMORY, "%s: out of memory", path);
    else if (groups->rank == 0)
        status = open_dump(infos, count, path, &writer);
    bool sayer;
    if (agree_quiet(groups->other, status, &sayer))
        status = gather_all(model, kind, whole, writer);
    else if (status == LULL_OK)
        status = train_fail(LULL_ERR_PEER, "%s: another rank failed", path);
    tensor_writer_close(writer);
    free(whole);
    return status;
}

/* Every name in the file must be one of the model's: a file of a model with
 * more layers is another model's. */
static lull_status_t check_names(const model_t *model,
                                 const tensor_reader_t *reader,
                                 const char *path) {
    size_t count;
    const tensor_info_t *infos = model_tensors(model, &count);
    for (size_t i = 0; i < tensor_reader_count(reader); ++i) {
        const char *name = tensor_reader_name(reader, i);
        size_t at = 0;
        while (at < count && strcmp(infos[at].name, name) != 0)
            ++at;
        if (at == count)
            return train_fail(LULL_ERR_MISMATCH,
                              "--init %s: %s is no tensor of this model", path,
                              name);
    }
    return LULL_OK;
}

lull_status_t init_weights_from(const model_t *model, const char *path) {
    tensor_reader_t *reader;
    lull_status_t status = tensor_reader_open(path, &reader);
    if (status != LULL_OK)
        return status;
    status = check_names(model, reader, path);
    size_t count;
    const shard_t *shards = model_shards(model, SHARDS_WEIGHTS, &count);
    for (size_t i = 0; i < count && status == LULL_OK; ++i) {
        tensor_box_t box = {.name = shards[i].name, .ndim = shards[i].ndim};
        memcpy(box.global_shape, shards[i].global_shape,
               sizeof box.global_shape);
        memcpy(box.offset, shards[i].offset, sizeof box.offset);
        memcpy(box.shape, shards[i].shape, sizeof box.shape);
        status = tensor_reader_box(reader, &box, shards[i].data);
    }
    tensor_reader_close(reader);
    return status;
}

static lull_status_t write_batches(const config_t *config, const data_t *data,
                                   int64_t first, tensor_writer_t *writer,
                                   size_t count) {
    size_t bytes = (size_t)config->seq + 1;
    uint8_t *window = malloc(bytes);
    lull_status_t status = LULL_OK;
    if (window == NULL)
        return train_fail(LULL_ERR_NO_MEMORY, "--dump-batches: out of memory");
    for (size_t i = 0; i < count; ++i) {
        for (int k = 0; k < config->global_batch && status == LULL_OK; ++k) {
            status = data_train_window(data, first + (int64_t)i, k, window);
            if (status == LULL_OK)
                status = tensor_writer_add(writer, window, bytes);
        }
    }
    free(window);
    return status == LULL_OK ? tensor_writer_finish(writer) : status;
}

lull_status_t dump_batches(const config_t *config, const data_t *data,
                           int64_t first, int64_t last) {
    size_t count = last > first ? (size_t)(last - first) : 0;
    tensor_head_t *heads = calloc(count + 1, sizeof *heads);
    if (heads == NULL)
        return train_fail(LULL_ERR_NO_MEMORY, "--dump-batches: out of memory");
    for (size_t i = 0; i < count; ++i) {
        snprintf(heads[i].name, sizeof heads[i].name, "batch.%06lld",
                 (long long)(first + 1 + (int64_t)i));
        heads[i].dtype = LULL_U8;
        heads[i].ndim = 2;
        heads[i].shape[0] = (uint64_t)config->global_batch;
        heads[i].shape[1] = (uint64_t)config->seq + 1;
    }
    tensor_writer_t *writer = NULL;
    lull_status_t status =
        tensor_writer_open(config->dump_batches, heads, count, &writer);
    if (status == LULL_OK)
        status = write_batches(config, data, first, writer, count);
    tensor_writer_close(writer);
    free(heads);
    return status;
}
