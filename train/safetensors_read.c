/* A small strict reader of safetensors files, for --init. */
#include <cjson/cJSON.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agree.h"
#include "safetensors.h"

enum { HEADER_MOST = 100000000 };

typedef struct entry {
    const char *name; /* in json */
    lull_dtype_t dtype;
    uint32_t ndim;
    uint64_t shape[TENSOR_DIMS];
    uint64_t begin, end; /* in the file */
} entry_t;

struct tensor_reader {
    int file;
    char *path;
    uint64_t size, data; /* of the file; where the data begin */
    cJSON *json;
    entry_t *entries;
    size_t count;
};

static lull_status_t corrupt(const char *path, const char *what,
                             const char *why) {
    return train_fail(LULL_ERR_CORRUPT, "%s: not a safetensors file: %s%s",
                      path, what, why);
}

static lull_status_t read_at(const tensor_reader_t *reader, void *out,
                             size_t bytes, uint64_t at) {
    size_t done = 0;
    while (done < bytes) {
        ssize_t got = pread(reader->file, (char *)out + done, bytes - done,
                            (off_t)(at + done));
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return train_fail(LULL_ERR_IO, "%s: cannot be read: %s",
                              reader->path, strerror(errno));
        if (got == 0)
            return corrupt(reader->path, "it ends early", "");
        done += (size_t)got;
    }
    return LULL_OK;
}

/* A whole number that a double holds exactly, from 0. */
static bool whole(const cJSON *item, uint64_t *out) {
    if (!cJSON_IsNumber(item) || item->valuedouble < 0 ||
        item->valuedouble > 9007199254740991.0)
        return false;
    *out = (uint64_t)item->valuedouble;
    return (double)*out == item->valuedouble;
}

static bool read_shape(const cJSON *shape, entry_t *entry) {
    if (!cJSON_IsArray(shape) || cJSON_GetArraySize(shape) > TENSOR_DIMS)
        return false;
    entry->ndim = (uint32_t)cJSON_GetArraySize(shape);
    for (uint32_t i = 0; i < entry->ndim; ++i) {
        if (!whole(cJSON_GetArrayItem(shape, (int)i), &entry->shape[i]))
            return false;
    }
    return true;
}

static bool sizes_agree(const entry_t *entry) {
    uint64_t bytes = lull_dtype_bits(entry->dtype) / 8;
    for (uint32_t i = 0; i < entry->ndim; ++i) {
        if (__builtin_mul_overflow(bytes, entry->shape[i], &bytes))
            return false;
    }
    return bytes == entry->end - entry->begin;
}

static lull_status_t read_entry(const tensor_reader_t *reader,
                                const cJSON *item, entry_t *entry) {
    const cJSON *dtype = cJSON_GetObjectItemCaseSensitive(item, "dtype");
    const cJSON *ends = cJSON_GetObjectItemCaseSensitive(item, "data_offsets");
    entry->name = item->string;
    if (!cJSON_IsString(dtype) ||
        lull_dtype_parse(dtype->valuestring, &entry->dtype) != LULL_OK)
        return corrupt(reader->path, "a dtype of ", item->string);
    if (!read_shape(cJSON_GetObjectItemCaseSensitive(item, "shape"), entry))
        return corrupt(reader->path, "the shape of ", item->string);
    if (!cJSON_IsArray(ends) || cJSON_GetArraySize(ends) != 2 ||
        !whole(cJSON_GetArrayItem(ends, 0), &entry->begin) ||
        !whole(cJSON_GetArrayItem(ends, 1), &entry->end) ||
        entry->begin > entry->end || entry->end > reader->size - reader->data ||
        !sizes_agree(entry))
        return corrupt(reader->path, "the data_offsets of ", item->string);
    entry->begin += reader->data;
    entry->end += reader->data;
    return LULL_OK;
}

static lull_status_t read_entries(tensor_reader_t *reader) {
    if (!cJSON_IsObject(reader->json))
        return corrupt(reader->path, "its header is no JSON object", "");
    size_t most = (size_t)cJSON_GetArraySize(reader->json);
    reader->entries = calloc(most + 1, sizeof *reader->entries);
    if (reader->entries == NULL)
        return train_fail(LULL_ERR_NO_MEMORY, "%s: out of memory",
                          reader->path);
    const cJSON *item;
    cJSON_ArrayForEach(item, reader->json) {
        if (strcmp(item->string, "__metadata__") == 0)
            continue;
        lull_status_t status =
            read_entry(reader, item, &reader->entries[reader->count]);
        if (status != LULL_OK)
            return status;
        ++reader->count;
    }
    return LULL_OK;
}

static lull_status_t read_header(tensor_reader_t *reader) {
    uint8_t length[8];
    uint64_t size = 0;
    lull_status_t status = read_at(reader, length, sizeof length, 0);
    if (status != LULL_OK)
        return status;
    for (int i = 0; i < 8; ++i)
        size |= (uint64_t)length[i] << (8 * i);
    if (size > HEADER_MOST || size > reader->size - 8)
        return corrupt(reader->path, "the length of its header", "");
    char *text = malloc(size + 1);
    if (text == NULL)
        return train_fail(LULL_ERR_NO_MEMORY, "%s: out of memory",
                          reader->path);
    status = read_at(reader, text, size, 8);
    if (status == LULL_OK) {
        text[size] = '\0';
        reader->data = 8 + size;
        reader->json = cJSON_ParseWithLength(text, size);
    }
    free(text);
    return status == LULL_OK ? read_entries(reader) : status;
}

lull_status_t tensor_reader_open(const char *path, tensor_reader_t **out) {
    struct stat about;
    tensor_reader_t *reader = calloc(1, sizeof *reader);
    if (reader == NULL)
        return train_fail(LULL_ERR_NO_MEMORY, "%s: out of memory", path);
    reader->path = strdup(path);
    reader->file = open(path, O_RDONLY | O_CLOEXEC);
    lull_status_t status;
    if (reader->file < 0 || fstat(reader->file, &about) != 0)
        status = train_fail(LULL_ERR_IO, "%s: cannot be read: %s", path,
                            strerror(errno));
    else if (!S_ISREG(about.st_mode) || about.st_size < 8)
        status = corrupt(path, "it is too short or no plain file", "");
    else {
        reader->size = (uint64_t)about.st_size;
        status = read_header(reader);
    }
    if (status != LULL_OK) {
        tensor_reader_close(reader);
        return status;
    }
    *out = reader;
    return LULL_OK;
}

void tensor_reader_close(tensor_reader_t *reader) {
    if (reader == NULL)
        return;
    if (reader->file >= 0)
        close(reader->file);
    cJSON_Delete(reader->json);
    free(reader->entries);
    free(reader->path);
    free(reader);
}

size_t tensor_reader_count(const tensor_reader_t *reader) {
    return reader->count;
}

const char *tensor_reader_name(const tensor_reader_t *reader, size_t index) {
    return reader->entries[index].name;
}

static lull_status_t check(const tensor_reader_t *reader, const entry_t *entry,
                           const tensor_box_t *box) {
    bool same = entry->dtype == LULL_F32 && entry->ndim == box->ndim;
    for (uint32_t i = 0; same && i < box->ndim; ++i)
        same = entry->shape[i] == box->global_shape[i];
    if (same)
        return LULL_OK;
    return train_fail(LULL_ERR_MISMATCH,
                      "%s: %s is %s [%" PRIu64 "%s%" PRIu64
                      "], the model wants F32 [%" PRIu64 "%s%" PRIu64 "]",
                      reader->path, box->name, lull_dtype_name(entry->dtype),
                      entry->shape[0], entry->ndim > 1 ? ", " : "; ",
                      entry->shape[1], box->global_shape[0],
                      box->ndim > 1 ? ", " : "; ", box->global_shape[1]);
}

lull_status_t tensor_reader_box(const tensor_reader_t *reader,
                                const tensor_box_t *box, float *out) {
    const entry_t *entry = NULL;
    for (size_t i = 0; i < reader->count && entry == NULL; ++i) {
        if (strcmp(reader->entries[i].name, box->name) == 0)
            entry = &reader->entries[i];
    }
    if (entry == NULL)
        return train_fail(LULL_ERR_NOT_FOUND, "%s: has no tensor %s",
                          reader->path, box->name);
    lull_status_t status = check(reader, entry, box);
    bool flat = box->ndim == 1;
    uint64_t rows = flat ? 1 : box->shape[0];
    uint64_t columns = flat ? box->shape[0] : box->shape[1];
    uint64_t stride = flat ? 0 : box->global_shape[1];
    uint64_t at =
        flat ? box->offset[0] : box->offset[0] * stride + box->offset[1];
    for (uint64_t i = 0; i < rows && status == LULL_OK; ++i)
        status = read_at(reader, out + i * columns, columns * sizeof *out,
                         entry->begin + (at + i * stride) * sizeof *out);
    return status;
}
