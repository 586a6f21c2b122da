/* The public writer of safetensors files: to a temporary file, synced, and
 * only then under its name, never over another. */
#include <fcntl.h>
#include <lull/safetensors.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "box.h"
#include "io/file.h"
#include "json.h"
#include "safetensors.h"

#ifndef RENAME_NOREPLACE
#define RENAME_NOREPLACE 1
#endif

struct lull_safetensors_writer {
    lull__dir_t dir;
    lull__file_t file;
    char *name, *temp;
    uint64_t at, header, bytes; /* next byte of the file; its sizes */
    bool published;
};

/* Names, shapes and duplicates; entries get their offsets. */
static lull_status_t layout(const lull_safetensors_tensor_t *tensors,
                            size_t count, lull__st_entry_t *entries,
                            uint64_t *bytes) {
    lull__names_t seen = {0};
    lull_status_t status = LULL_OK;
    char shown[LULL__SHOWN_MAX];
    uint64_t at = 0;
    for (size_t i = 0; status == LULL_OK && i < count; i++) {
        size_t old = SIZE_MAX;
        uint64_t n = 0;
        const lull_safetensors_tensor_t *tensor = &tensors[i];
        status = lull__name_check(tensor->name);
        if (status == LULL_OK && tensor->ndim > LULL_MAX_DIMS)
            status = lull__fail(LULL_ERR_INVALID,
                                "tensor '%s': %u dimensions, at most %d",
                                lull__name_shown(tensor->name, shown),
                                tensor->ndim, LULL_MAX_DIMS);
        if (status == LULL_OK)
            status = lull__shape_bytes(tensor->dtype, tensor->ndim,
                                       tensor->shape, &n);
        if (status == LULL_OK)
            status = lull__names_add(&seen, tensor->name, i, &old);
        if (status == LULL_OK &&
            (old != SIZE_MAX || __builtin_add_overflow(at, n, &at)))
            status = lull__fail(LULL_ERR_INVALID, "tensor '%s': %s",
                                lull__name_shown(tensor->name, shown),
                                old != SIZE_MAX ? "the name is there twice"
                                                : "too many bytes");
        if (status != LULL_OK)
            break;
        entries[i] = (lull__st_entry_t){.name = tensor->name,
                                        .dtype = tensor->dtype,
                                        .ndim = tensor->ndim,
                                        .begin = at - n,
                                        .end = at};
        memcpy(entries[i].shape, tensor->shape, sizeof entries[i].shape);
    }
    lull__names_free(&seen);
    *bytes = at;
    return status;
}

typedef struct contents {
    const lull__st_entry_t *entries;
    size_t count;
    const lull_ckpt_meta_t *meta;
    size_t meta_count;
} contents_t;

static void put(lull__st_writer_t *st, const contents_t *what) {
    bool has_format = false;
    for (size_t i = 0; i < what->meta_count; i++)
        has_format |= strcmp(what->meta[i].key, "format") == 0;
    if (!has_format)
        lull__st_meta(st, "format", "pt");
    for (size_t i = 0; i < what->meta_count; i++)
        lull__st_meta(st, what->meta[i].key, what->meta[i].value);
    for (size_t i = 0; i < what->count; i++)
        lull__st_tensor(st, &what->entries[i]);
}

static lull_status_t write_header(lull_safetensors_writer_t *writer,
                                  const contents_t *what) {
    lull__st_writer_t st;
    lull__out_t *out;
    lull__st_measure(&st);
    put(&st, what);
    lull__st_end(&st, &writer->header);
    if (writer->header - 8 > LULL__ST_HEADER_MAX)
        return lull__fail(LULL_ERR_INVALID,
                          "%s: a header of %llu bytes, at most 100000000",
                          writer->name, (unsigned long long)writer->header);
    lull__out_file_t to = {&writer->file, 0};
    lull_status_t status = lull__out_create(lull__out_to_file, &to, &out);
    if (status != LULL_OK)
        return status;
    lull__st_begin(&st, out, writer->header);
    put(&st, what);
    status = lull__st_end(&st, NULL);
    lull_status_t finished = lull__out_finish(out, NULL, NULL);
    lull__out_destroy(out);
    writer->at = to.at;
    return status != LULL_OK ? status : finished;
}

static lull_status_t check_meta(const lull_ckpt_meta_t *meta, size_t count) {
    lull__names_t seen = {0};
    lull_status_t status = LULL_OK;
    for (size_t i = 0; status == LULL_OK && i < count; i++) {
        size_t old = SIZE_MAX;
        if (meta[i].key == NULL || meta[i].value == NULL ||
            !lull__utf8_valid(meta[i].key, strlen(meta[i].key)) ||
            !lull__utf8_valid(meta[i].value, strlen(meta[i].value)))
            status = lull__fail(LULL_ERR_INVALID,
                                "metadata row %zu: NULL or not UTF-8", i);
        else
            status = lull__names_add(&seen, meta[i].key, i, &old);
        if (status == LULL_OK && old != SIZE_MAX)
            status =
                lull__fail(LULL_ERR_INVALID,
                           "metadata: key '%.80s' is there twice", meta[i].key);
    }
    lull__names_free(&seen);
    return status;
}

static lull_status_t open_writer(lull_safetensors_writer_t *writer,
                                 const char *path) {
    char *dir;
    lull_status_t status = lull__st_split(path, &dir, &writer->name);
    if (status != LULL_OK) {
        writer->name = NULL;
        return status;
    }
    status = lull__dir_open(lull__io_default(), dir, &writer->dir);
    free(dir);
    if (status != LULL_OK)
        return status;
    if (lull__dir_has(&writer->dir, writer->name))
        return lull__fail(LULL_ERR_BUSY, "%s: it exists", path);
    if (asprintf(&writer->temp, ".%s.tmp-%ld", writer->name, (long)getpid()) <
        0) {
        writer->temp = NULL;
        return lull__fail(LULL_ERR_NO_MEMORY, "%s", path);
    }
    return lull__file_open(&writer->dir, writer->temp,
                           O_WRONLY | O_CREAT | O_TRUNC, &writer->file);
}

lull_status_t lull_safetensors_create(const char *path,
                                      const lull_safetensors_tensor_t *tensors,
                                      size_t count,
                                      const lull_ckpt_meta_t *meta,
                                      size_t meta_count,
                                      lull_safetensors_writer_t **out) {
    if (path == NULL || out == NULL || (count > 0 && tensors == NULL) ||
        (meta_count > 0 && meta == NULL))
        return lull__fail(LULL_ERR_INVALID, "lull_safetensors_create: NULL");
    lull_safetensors_writer_t *writer = calloc(1, sizeof *writer);
    lull__st_entry_t *entries = calloc(count > 0 ? count : 1, sizeof *entries);
    contents_t what = {entries, count, meta, meta_count};
    lull_status_t status = LULL_OK;
    if (writer == NULL || entries == NULL) {
        status = lull__fail(LULL_ERR_NO_MEMORY, "%s: %zu tensors", path, count);
        goto fail;
    }
    writer->dir = (lull__dir_t)LULL__DIR_CLOSED;
    writer->file = (lull__file_t)LULL__FILE_CLOSED;
    status = layout(tensors, count, entries, &writer->bytes);
    if (status == LULL_OK)
        status = check_meta(meta, meta_count);
    if (status == LULL_OK)
        status = open_writer(writer, path);
    if (status == LULL_OK)
        status = write_header(writer, &what);
    if (status != LULL_OK)
        goto fail;
    free(entries);
    *out = writer;
    return LULL_OK;

fail:
    free(entries);
    lull_safetensors_writer_destroy(writer);
    return status;
}

lull_status_t lull_safetensors_write(lull_safetensors_writer_t *writer,
                                     const void *data, uint64_t bytes) {
    uint64_t left = writer->header + writer->bytes - writer->at;
    if (bytes > left)
        return lull__fail(
            LULL_ERR_INVALID, "%s: %llu bytes more, its tensors lack %llu",
            writer->name, (unsigned long long)bytes, (unsigned long long)left);
    lull_status_t status =
        lull__file_write(&writer->file, data, bytes, writer->at);
    if (status == LULL_OK)
        writer->at += bytes;
    return status;
}

/* Where the file system cannot refuse to replace, look first. */
static lull_status_t rename_new(lull_safetensors_writer_t *writer) {
    lull_status_t status = lull__dir_rename(&writer->dir, writer->temp, NULL,
                                            writer->name, RENAME_NOREPLACE);
    if (status == LULL_OK)
        return LULL_OK;
    if (lull__dir_has(&writer->dir, writer->name))
        return lull__fail(LULL_ERR_BUSY, "%s/%s: it exists", writer->dir.path,
                          writer->name);
    return lull__dir_rename(&writer->dir, writer->temp, NULL, writer->name, 0);
}

lull_status_t lull_safetensors_close(lull_safetensors_writer_t *writer) {
    uint64_t left = writer->header + writer->bytes - writer->at;
    if (writer->published)
        return lull__fail(LULL_ERR_STATE, "%s: closed already", writer->name);
    if (left > 0)
        return lull__fail(LULL_ERR_INVALID, "%s: %llu bytes are missing",
                          writer->name, (unsigned long long)left);
    lull_status_t status = lull__file_sync(&writer->file);
    if (status == LULL_OK)
        status = rename_new(writer);
    if (status != LULL_OK)
        return status;
    writer->published = true;
    return lull__dir_sync(&writer->dir);
}

void lull_safetensors_writer_destroy(lull_safetensors_writer_t *writer) {
    if (writer == NULL)
        return;
    bool created = writer->file.fd >= 0;
    (void)lull__file_close(&writer->file);
    if (created && !writer->published)
        (void)lull__dir_unlink(&writer->dir, writer->temp);
    lull__dir_close(&writer->dir);
    free(writer->name);
    free(writer->temp);
    free(writer);
}
