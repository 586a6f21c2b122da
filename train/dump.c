/* Whole tensors in and out of a run. */
#include "dump.h"

#include <errno.h>
#include <limits.h>
#include <lull/safetensors.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agree.h"

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

/* A dump is written beside its name and takes it, over an older dump, when it
 * is whole. */
struct dump {
    lull_safetensors_writer_t *writer;
    const char *path;
    char beside[PATH_MAX];
};

static lull_status_t dump_open(dump_t *dump, const char *path,
                               const lull_safetensors_tensor_t *tensors,
                               size_t count) {
    struct stat there;
    dump->path = path;
    if (stat(path, &there) == 0 && !S_ISREG(there.st_mode))
        return train_fail(LULL_ERR_INVALID, "%s: not a plain file", path);
    snprintf(dump->beside, sizeof dump->beside, "%s.whole-%ld", path,
             (long)getpid());
    return train_wrap(lull_safetensors_create(dump->beside, tensors, count,
                                              NULL, 0, &dump->writer),
                      path);
}

static lull_status_t dump_finish(dump_t *dump) {
    lull_status_t status = lull_safetensors_close(dump->writer);
    if (status != LULL_OK)
        return train_wrap(status, dump->path);
    if (rename(dump->beside, dump->path) == 0)
        return LULL_OK;
    int why = errno;
    unlink(dump->beside);
    return train_fail(LULL_ERR_IO, "%s: cannot be written: %s", dump->path,
                      strerror(why));
}

static lull_status_t open_dump(const tensor_info_t *infos, size_t count,
                               const char *path, dump_t *dump) {
    lull_safetensors_tensor_t *tensors = calloc(count, sizeof *tensors);
    if (tensors == NULL)
        return train_fail(LULL_ERR_NO_MEMORY, "%s: out of memory", path);
    for (size_t i = 0; i < count; ++i) {
        tensors[i].name = infos[i].name;
        tensors[i].dtype = LULL_F32;
        tensors[i].ndim = infos[i].ndim;
        memcpy(tensors[i].shape, infos[i].shape, sizeof infos[i].shape);
    }
    lull_status_t status = dump_open(dump, path, tensors, count);
    free(tensors);
    return status;
}

/* All ranks gather; the one with a writer writes. */
static lull_status_t gather_all(const model_t *model, shard_kind_t kind,
                                float *whole, dump_t *dump) {
    size_t count;
    const tensor_info_t *infos = model_tensors(model, &count);
    lull_status_t written = LULL_OK;
    for (size_t i = 0; i < count; ++i) {
        lull_status_t status = model_gather(model, kind, i, whole);
        if (status != LULL_OK)
            return status;
        /* A failed write must not stop the gathering that all ranks do. */
        if (dump->writer != NULL && written == LULL_OK)
            written = train_wrap(
                lull_safetensors_write(dump->writer, whole,
                                       elements(&infos[i]) * sizeof *whole),
                dump->path);
    }
    if (dump->writer != NULL && written == LULL_OK)
        written = dump_finish(dump);
    return written;
}

lull_status_t dump_tensors(const model_t *model, const groups_t *groups,
                           shard_kind_t kind, const char *path) {
    size_t count;
    const tensor_info_t *infos = model_tensors(model, &count);
    dump_t dump = {0};
    lull_status_t status = LULL_OK;
    float *whole = malloc(largest(infos, count) * sizeof *whole);
    if (whole == NULL)
        status = train_fail(LULL_ERR_NO_MEMORY, "%s: out of memory", path);
    else if (groups->rank == 0)
        status = open_dump(infos, count, path, &dump);
    bool sayer;
    if (agree_quiet(groups->other, status, &sayer))
        status = gather_all(model, kind, whole, &dump);
    else if (status == LULL_OK)
        status = train_fail(LULL_ERR_PEER, "%s: another rank failed", path);
    lull_safetensors_writer_destroy(dump.writer);
    free(whole);
    return status;
}

/* ---- Activations ------------------------------------------------------- */

enum { TRAFFIC_NAME = 64 };

/* Names and shapes of a layer's traffic, in the order of traffic_t. */
static void name_traffic(const config_t *config, int layer,
                         lull_safetensors_tensor_t *tensors,
                         char (*names)[TRAFFIC_NAME]) {
    static const struct {
        const char *what, *of;
    } kinds[TRAFFIC_KINDS] = {
        [TRAFFIC_OUTPUT] = {"activations", "output"},
        [TRAFFIC_OUTPUT_GRADIENT] = {"activation_gradients", "output"},
        [TRAFFIC_ROW_PARALLEL] = {"activations", "row_parallel"},
        [TRAFFIC_NORM_GRADIENTS] = {"activation_gradients", "norms"},
    };
    for (int i = 0; i < TRAFFIC_KINDS; ++i) {
        lull_safetensors_tensor_t *row = &tensors[i];
        snprintf(names[i], TRAFFIC_NAME, "%s.layers.%d.%s", kinds[i].what,
                 layer, kinds[i].of);
        row->name = names[i];
        row->dtype = LULL_F32;
        if (i == TRAFFIC_NORM_GRADIENTS)
            row->shape[row->ndim++] = 2;
        row->shape[row->ndim++] = (uint64_t)config->micro_batch;
        row->shape[row->ndim++] = (uint64_t)config->seq;
        row->shape[row->ndim++] = (uint64_t)config->hidden;
    }
}

lull_status_t dump_activations_open(const config_t *config, dump_t **out) {
    size_t count = (size_t)config->layers * TRAFFIC_KINDS;
    lull_safetensors_tensor_t *tensors = calloc(count, sizeof *tensors);
    char(*names)[TRAFFIC_NAME] = calloc(count, sizeof *names);
    dump_t *dump = calloc(1, sizeof *dump);
    lull_status_t status = LULL_OK;
    if (tensors == NULL || names == NULL || dump == NULL) {
        status = train_fail(LULL_ERR_NO_MEMORY, "%s: out of memory",
                            config->dump_activations);
        goto free_all;
    }
    for (size_t at = 0; at < count; at += TRAFFIC_KINDS)
        name_traffic(config, config->layers - 1 - (int)(at / TRAFFIC_KINDS),
                     tensors + at, names + at);
    status = dump_open(dump, config->dump_activations, tensors, count);
    if (status == LULL_OK) {
        *out = dump;
        dump = NULL;
    }
free_all:
    free(dump);
    free(names);
    free(tensors);
    return status;
}

lull_status_t dump_activations_add(dump_t *dump, const float *values,
                                   size_t count) {
    return train_wrap(
        lull_safetensors_write(dump->writer, values, count * sizeof *values),
        dump->path);
}

lull_status_t dump_activations_close(dump_t *dump) {
    return dump_finish(dump);
}

void dump_activations_destroy(dump_t *dump) {
    if (dump == NULL)
        return;
    lull_safetensors_writer_destroy(dump->writer);
    free(dump);
}

/* ---- Weights from a file ----------------------------------------------- */

/* The file has the model's tensors, all of them and no other: one of a model
 * with more layers is another model's. */
static lull_status_t check_file(const model_t *model,
                                const lull_safetensors_t *file,
                                const char *path) {
    size_t count;
    const tensor_info_t *infos = model_tensors(model, &count);
    lull_safetensors_tensor_t row;
    for (size_t i = 0; i < count; ++i) {
        if (lull_safetensors_find(file, infos[i].name, &row) != LULL_OK)
            return train_fail(LULL_ERR_MISMATCH, "--init %s: has no tensor %s",
                              path, infos[i].name);
        bool same = row.dtype == LULL_F32 && row.ndim == infos[i].ndim;
        for (uint32_t k = 0; same && k < row.ndim; ++k)
            same = row.shape[k] == infos[i].shape[k];
        if (!same)
            return train_fail(
                LULL_ERR_MISMATCH,
                "--init %s: %s is %s [%llu, %llu], this model's F32 "
                "[%llu, %llu]",
                path, row.name, lull_dtype_name(row.dtype),
                (unsigned long long)row.shape[0],
                (unsigned long long)(row.ndim > 1 ? row.shape[1] : 1),
                (unsigned long long)infos[i].shape[0],
                (unsigned long long)(infos[i].ndim > 1 ? infos[i].shape[1]
                                                       : 1));
    }
    for (size_t i = 0; lull_safetensors_at(file, i, &row); ++i) {
        size_t at = 0;
        while (at < count && strcmp(infos[at].name, row.name) != 0)
            ++at;
        if (at == count)
            return train_fail(LULL_ERR_MISMATCH,
                              "--init %s: %s is no tensor of this model", path,
                              row.name);
    }
    return LULL_OK;
}

/* Row by row: a box of a row-major matrix. */
static lull_status_t read_box(const lull_safetensors_t *file,
                              const shard_t *shard) {
    bool flat = shard->ndim == 1;
    uint64_t rows = flat ? 1 : shard->shape[0];
    uint64_t columns = flat ? shard->shape[0] : shard->shape[1];
    uint64_t stride = flat ? 0 : shard->global_shape[1];
    uint64_t at =
        flat ? shard->offset[0] : shard->offset[0] * stride + shard->offset[1];
    lull_status_t status = LULL_OK;
    for (uint64_t i = 0; i < rows && status == LULL_OK; ++i)
        status = lull_safetensors_read(
            file, shard->name, (at + i * stride) * sizeof(float),
            columns * sizeof(float), shard->data + i * columns);
    return status;
}

lull_status_t init_weights_from(const model_t *model, const char *path) {
    lull_safetensors_t *file;
    char what[512];
    snprintf(what, sizeof what, "--init %s", path);
    lull_status_t status = lull_safetensors_open(path, &file);
    if (status != LULL_OK)
        return train_wrap(status, what);
    status = check_file(model, file, path);
    size_t count;
    const shard_t *shards = model_shards(model, SHARDS_WEIGHTS, &count);
    for (size_t i = 0; i < count && status == LULL_OK; ++i)
        status = train_wrap(read_box(file, &shards[i]), what);
    lull_safetensors_destroy(file);
    return status;
}

static lull_status_t write_batches(const config_t *config, const data_t *data,
                                   int64_t first, dump_t *dump, size_t count) {
    size_t bytes = (size_t)config->seq + 1;
    uint8_t *window = malloc(bytes);
    lull_status_t status = LULL_OK;
    if (window == NULL)
        return train_fail(LULL_ERR_NO_MEMORY, "--dump-batches: out of memory");
    for (size_t i = 0; i < count; ++i) {
        for (int k = 0; k < config->global_batch && status == LULL_OK; ++k) {
            status = data_train_window(data, first + (int64_t)i, k, window);
            if (status == LULL_OK)
                status = train_wrap(
                    lull_safetensors_write(dump->writer, window, bytes),
                    dump->path);
        }
    }
    free(window);
    return status == LULL_OK ? dump_finish(dump) : status;
}

/* Names of the batches, each in 32 bytes of `names`. */
static void name_batches(const config_t *config, int64_t first, size_t count,
                         lull_safetensors_tensor_t *tensors, char *names) {
    enum { NAME = 32 };
    for (size_t i = 0; i < count; ++i) {
        snprintf(names + NAME * i, NAME, "batch.%06lld",
                 (long long)(first + 1 + (int64_t)i));
        tensors[i].name = names + NAME * i;
        tensors[i].dtype = LULL_U8;
        tensors[i].ndim = 2;
        tensors[i].shape[0] = (uint64_t)config->global_batch;
        tensors[i].shape[1] = (uint64_t)config->seq + 1;
    }
}

lull_status_t dump_batches(const config_t *config, const data_t *data,
                           int64_t first, int64_t last) {
    size_t count = last > first ? (size_t)(last - first) : 0;
    lull_safetensors_tensor_t *tensors = calloc(count + 1, sizeof *tensors);
    char *names = calloc(count + 1, 32);
    dump_t dump = {0};
    lull_status_t status = LULL_OK;
    if (tensors == NULL || names == NULL) {
        status = train_fail(LULL_ERR_NO_MEMORY, "--dump-batches: no memory");
        goto free_names;
    }
    name_batches(config, first, count, tensors, names);
    status = dump_open(&dump, config->dump_batches, tensors, count);
    if (status == LULL_OK)
        status = write_batches(config, data, first, &dump, count);
    lull_safetensors_writer_destroy(dump.writer);
free_names:
    free(names);
    free(tensors);
    return status;
}
