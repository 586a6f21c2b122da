/* A small writer of safetensors files. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agree.h"
#include "safetensors.h"

struct tensor_writer {
    FILE *file;
    char *path, *part;
};

static uint64_t bytes_of(const tensor_head_t *head) {
    uint64_t bytes = lull_dtype_bits(head->dtype) / 8;
    for (uint32_t i = 0; i < head->ndim; ++i)
        bytes *= head->shape[i];
    return bytes;
}

/* Names are the trainer's own: nothing in them needs escaping. */
static char *header(const tensor_head_t *heads, size_t count, size_t *size) {
    char *text = NULL;
    FILE *file = open_memstream(&text, size);
    if (file == NULL)
        return NULL;
    uint64_t at = 0;
    fputc('{', file);
    for (size_t i = 0; i < count; ++i) {
        const tensor_head_t *head = &heads[i];
        fprintf(file, "%s\"%s\":{\"dtype\":\"%s\",\"shape\":[",
                i > 0 ? "," : "", head->name, lull_dtype_name(head->dtype));
        for (uint32_t k = 0; k < head->ndim; ++k)
            fprintf(file, "%s%" PRIu64, k > 0 ? "," : "", head->shape[k]);
        fprintf(file, "],\"data_offsets\":[%" PRIu64 ",%" PRIu64 "]}", at,
                at + bytes_of(head));
        at += bytes_of(head);
    }
    fputc('}', file);
    while ((ftell(file) + 8) % 64 != 0)
        fputc(' ', file);
    if (fclose(file) != 0) {
        free(text);
        return NULL;
    }
    return text;
}

static lull_status_t failed(const tensor_writer_t *writer) {
    return train_fail(errno == ENOSPC ? LULL_ERR_NO_SPACE : LULL_ERR_IO,
                      "%s: cannot be written: %s", writer->path,
                      strerror(errno));
}

lull_status_t tensor_writer_add(tensor_writer_t *writer, const void *data,
                                size_t bytes) {
    if (fwrite(data, 1, bytes, writer->file) != bytes)
        return failed(writer);
    return LULL_OK;
}

static lull_status_t begin(tensor_writer_t *writer, const tensor_head_t *heads,
                           size_t count) {
    writer->file = fopen(writer->part, "wb");
    if (writer->file == NULL)
        return failed(writer);
    size_t size = 0;
    char *text = header(heads, count, &size);
    if (text == NULL)
        return train_fail(LULL_ERR_NO_MEMORY, "%s: out of memory",
                          writer->path);
    uint8_t length[8];
    for (int i = 0; i < 8; ++i)
        length[i] = (uint8_t)((uint64_t)size >> (8 * i));
    lull_status_t status = tensor_writer_add(writer, length, sizeof length);
    if (status == LULL_OK)
        status = tensor_writer_add(writer, text, size);
    free(text);
    return status;
}

lull_status_t tensor_writer_open(const char *path, const tensor_head_t *heads,
                                 size_t count, tensor_writer_t **out) {
    tensor_writer_t *writer = calloc(1, sizeof *writer);
    if (writer == NULL)
        return train_fail(LULL_ERR_NO_MEMORY, "%s: out of memory", path);
    lull_status_t status = LULL_ERR_NO_MEMORY;
    writer->path = strdup(path);
    if (writer->path == NULL || asprintf(&writer->part, "%s.part", path) < 0) {
        writer->part = NULL;
        train_fail(status, "%s: out of memory", path);
        goto close_writer;
    }
    status = begin(writer, heads, count);
    if (status != LULL_OK)
        goto close_writer;
    *out = writer;
    return LULL_OK;
close_writer:
    tensor_writer_close(writer);
    return status;
}

lull_status_t tensor_writer_finish(tensor_writer_t *writer) {
    FILE *file = writer->file;
    if (fflush(file) != 0 || fsync(fileno(file)) != 0)
        return failed(writer);
    writer->file = NULL;
    if (fclose(file) != 0 || rename(writer->part, writer->path) != 0)
        return failed(writer);
    return LULL_OK;
}

void tensor_writer_close(tensor_writer_t *writer) {
    if (writer == NULL)
        return;
    if (writer->file != NULL) {
        fclose(writer->file);
        unlink(writer->part);
    }
    free(writer->part);
    free(writer->path);
    free(writer);
}
