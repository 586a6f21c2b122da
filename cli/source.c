/* Tensors of a checkpoint or of safetensors files. */
#include "source.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static bool exists(const char *dir, const char *name) {
    char path[4096];
    struct stat st;
    snprintf(path, sizeof path, "%s/%s", dir, name);
    return stat(path, &st) == 0;
}

static bool is_safetensors(const char *path) {
    size_t n = strlen(path);
    if (n > 12 && strcmp(path + n - 12, ".safetensors") == 0)
        return true;
    return exists(path, "model.safetensors") ||
           exists(path, "model.safetensors.index.json");
}

int source_open(const char *path, uint64_t step, source_t *out) {
    struct stat st;
    *out = (source_t){0};
    if (!is_safetensors(path) && stat(path, &st) == 0 && S_ISREG(st.st_mode)) {
        cli_say("%s: neither a checkpoint nor a .safetensors file", path);
        return CLI_FAILED;
    }
    if (step != LULL_LATEST || !is_safetensors(path))
        return cli_open(path, step, &out->info);
    lull_status_t status = lull_safetensors_open(path, &out->file);
    return status == LULL_OK ? CLI_OK : cli_fail(status);
}

void source_close(source_t *source) {
    lull_ckpt_info_destroy(source->info);
    lull_safetensors_destroy(source->file);
    *source = (source_t){0};
}

size_t source_count(const source_t *source) {
    return source->info != NULL ? lull_ckpt_info_tensors(source->info)
                                : lull_safetensors_count(source->file);
}

static void from_info(const lull_ckpt_tensor_info_t *info, tensor_t *out) {
    *out = (tensor_t){.name = info->name,
                      .dtype = info->dtype,
                      .ndim = info->ndim,
                      .bytes = info->bytes};
    memcpy(out->shape, info->shape, sizeof out->shape);
}

bool source_at(const source_t *source, size_t index, tensor_t *out) {
    lull_ckpt_tensor_info_t info;
    if (source->info == NULL)
        return lull_safetensors_at(source->file, index, out);
    if (!lull_ckpt_info_tensor_at(source->info, index, &info))
        return false;
    from_info(&info, out);
    return true;
}

bool source_find(const source_t *source, const char *name, tensor_t *out) {
    lull_ckpt_tensor_info_t info;
    if (source->info == NULL)
        return lull_safetensors_find(source->file, name, out) == LULL_OK;
    if (lull_ckpt_info_tensor(source->info, name, &info) != LULL_OK)
        return false;
    from_info(&info, out);
    return true;
}

void source_cut(const tensor_t *tensor, cut_t *out) {
    *out = (cut_t){0};
    while (out->dim + 1 < tensor->ndim && tensor->shape[out->dim] == 1)
        out->dim++;
    uint64_t rows = tensor->ndim > 0 ? tensor->shape[out->dim] : 1;
    if (tensor->bytes == 0)
        return;
    /* Rows of packed elements go by eights, so that pieces are whole bytes. */
    uint64_t eights = rows / 8 + (rows % 8 != 0);
    uint64_t bytes = tensor->bytes / eights + 1;
    uint64_t many = bytes < SOURCE_PIECE ? SOURCE_PIECE / bytes : 1;
    out->rows = many < eights ? 8 * many : rows;
    out->pieces = rows / out->rows + (rows % out->rows != 0);
    out->piece_bytes =
        out->pieces == 1
            ? tensor->bytes
            : (uint64_t)((unsigned __int128)tensor->bytes * out->rows / rows);
}

lull_status_t source_read(const source_t *source, const tensor_t *tensor,
                          uint64_t index, void *data, uint64_t *bytes) {
    cut_t cut;
    source_cut(tensor, &cut);
    uint64_t begin = index * cut.piece_bytes;
    uint64_t left = tensor->bytes - begin;
    *bytes = left < cut.piece_bytes ? left : cut.piece_bytes;
    if (source->info == NULL)
        return lull_safetensors_read(source->file, tensor->name, begin, *bytes,
                                     data);
    lull_ckpt_slice_t slice = LULL_CKPT_SLICE_INIT;
    slice.name = tensor->name;
    slice.dtype = tensor->dtype;
    slice.ndim = tensor->ndim;
    slice.data = data;
    memcpy(slice.global_shape, tensor->shape, sizeof slice.global_shape);
    memcpy(slice.shape, tensor->shape, sizeof slice.shape);
    if (cut.pieces > 1) {
        uint64_t rows = tensor->shape[cut.dim];
        slice.offset[cut.dim] = index * cut.rows;
        slice.shape[cut.dim] = rows - index * cut.rows < cut.rows
                                   ? rows - index * cut.rows
                                   : cut.rows;
    }
    return lull_ckpt_load(source->info, &slice, 1, NULL);
}
