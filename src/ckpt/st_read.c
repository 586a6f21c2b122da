/* The public reader of safetensors files, single or sharded with an index. */
#include <fcntl.h>
#include <lull/safetensors.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "grow.h"
#include "io/file.h"
#include "json.h"
#include "safetensors.h"

#define ONE_FILE "model.safetensors"
#define INDEX_FILE "model.safetensors.index.json"
#define INDEX_MAX (UINT64_C(1) << 30)

typedef struct part {
    char *name;
    lull__file_t file;
    char *text;
    lull__st_header_t header;
    uint64_t data_at; /* byte of the file where its data begins */
} part_t;

struct lull_safetensors {
    lull__dir_t dir;
    char *index_text; /* NULL: a single file */
    part_t **parts;   /* each malloc'ed: files keep pointers to names */
    size_t part_count, part_room;
    size_t count;
    lull__names_t part_names; /* file name to part */
};

static lull_status_t read_header(part_t *part) {
    unsigned char first[8] = {0};
    uint64_t bytes, n;
    char *path = NULL;
    lull_status_t status = lull__file_size(&part->file, &bytes);
    if (status != LULL_OK)
        return status;
    if (asprintf(&path, "%s/%s", part->file.dir->path, part->name) < 0)
        return lull__fail(LULL_ERR_NO_MEMORY, "%s", part->name);
    if (bytes >= 8)
        status = lull__file_read(&part->file, first, 8, 0);
    if (status == LULL_OK)
        status = lull__st_length(first, bytes, path, &n);
    if (status == LULL_OK) {
        part->text = malloc(n);
        if (part->text == NULL)
            status = lull__fail(LULL_ERR_NO_MEMORY, "%s: header", path);
    }
    if (status == LULL_OK)
        status = lull__file_read(&part->file, part->text, n, 8);
    if (status == LULL_OK) {
        part->data_at = n + 8;
        status =
            lull__st_parse(part->text, n, bytes - n - 8, path, &part->header);
    }
    free(path);
    return status;
}

static void free_part(part_t *part) {
    (void)lull__file_close(&part->file);
    lull__st_free(&part->header);
    free(part->text);
    free(part->name);
    free(part);
}

static lull_status_t add_part(lull_safetensors_t *st, const char *name) {
    part_t *part = calloc(1, sizeof *part);
    if (part == NULL)
        return lull__fail(LULL_ERR_NO_MEMORY, "%s", name);
    part->file = (lull__file_t)LULL__FILE_CLOSED;
    part->name = strdup(name);
    lull_status_t status =
        part->name == NULL
            ? lull__fail(LULL_ERR_NO_MEMORY, "%s", name)
            : lull__file_open(&st->dir, part->name, O_RDONLY | O_NONBLOCK,
                              &part->file);
    if (status == LULL_OK)
        status = read_header(part);
    if (status == LULL_OK)
        status = lull__grow((void **)&st->parts, st->part_count, &st->part_room,
                            sizeof *st->parts);
    if (status == LULL_OK)
        status =
            lull__names_add(&st->part_names, part->name, st->part_count, NULL);
    if (status != LULL_OK) {
        free_part(part);
        return status;
    }
    st->count += part->header.count;
    st->parts[st->part_count++] = part;
    return LULL_OK;
}

/* A file beside the index and nothing else. */
static bool plain_name(const char *name) {
    size_t n = strlen(name);
    return n > 12 && n < 256 && strchr(name, '/') == NULL && name[0] != '.' &&
           strcmp(name + n - 12, ".safetensors") == 0;
}

/* One row of the weight map: the file must be there and hold the tensor. */
static lull_status_t map_row(lull_safetensors_t *st, const char *tensor,
                             const char *file) {
    char shown[LULL__SHOWN_MAX], shown_file[LULL__SHOWN_MAX];
    size_t part = lull__names_find(&st->part_names, file);
    if (part == SIZE_MAX) {
        if (!plain_name(file))
            return lull__fail(LULL_ERR_CORRUPT,
                              "%s/" INDEX_FILE ": '%s' is no file name",
                              st->dir.path, lull__name_shown(file, shown));
        lull_status_t status = add_part(st, file);
        if (status != LULL_OK)
            return status;
        part = st->part_count - 1;
    }
    if (lull__names_find(&st->parts[part]->header.index, tensor) == SIZE_MAX)
        return lull__fail(LULL_ERR_CORRUPT,
                          "%s/" INDEX_FILE ": tensor '%s' is not in %s",
                          st->dir.path, lull__name_shown(tensor, shown),
                          lull__name_shown(file, shown_file));
    return LULL_OK;
}

static lull_status_t parse_index(lull_safetensors_t *st, size_t n) {
    lull__json_t json;
    lull__text_t key, tensor, file;
    lull__names_t seen = {0};
    size_t old, rows = 0;
    lull_status_t status = LULL_OK;
    lull__json_begin(&json, st->index_text, n);
    lull__json_object(&json);
    while (status == LULL_OK && lull__json_key(&json, &key)) {
        if (strcmp(key.data, "weight_map") != 0) {
            lull__json_skip(&json);
            continue;
        }
        lull__json_object(&json);
        while (status == LULL_OK && lull__json_key(&json, &tensor) &&
               lull__json_string(&json, &file)) {
            status = lull__names_add(&seen, tensor.data, 0, &old);
            if (status == LULL_OK && old != SIZE_MAX)
                lull__json_fail(&json, "a tensor is there twice");
            else if (status == LULL_OK)
                status = map_row(st, tensor.data, file.data);
            rows++;
        }
    }
    lull__names_free(&seen);
    if (status == LULL_OK)
        status = lull__json_done(&json, INDEX_FILE);
    if (status == LULL_OK && rows != st->count)
        status = lull__fail(LULL_ERR_CORRUPT,
                            "%s/" INDEX_FILE ": %zu tensors, its files have "
                            "%zu",
                            st->dir.path, rows, st->count);
    return status;
}

static lull_status_t open_dir(lull_safetensors_t *st, const char *path) {
    uint64_t n;
    lull_status_t status = lull__dir_open(lull__io_default(), path, &st->dir);
    if (status != LULL_OK)
        return status;
    if (lull__dir_has(&st->dir, ONE_FILE))
        return add_part(st, ONE_FILE);
    status =
        lull__file_slurp(&st->dir, INDEX_FILE, INDEX_MAX, &st->index_text, &n);
    if (status != LULL_OK) {
        st->index_text = NULL;
        return status;
    }
    return parse_index(st, n);
}

/* The directory of a path and the name in it; both malloc'ed. */
lull_status_t lull__st_split(const char *path, char **dir, char **name) {
    const char *slash = strrchr(path, '/');
    *name = strdup(slash != NULL ? slash + 1 : path);
    *dir = slash == NULL   ? strdup(".")
           : slash == path ? strdup("/")
                           : strndup(path, (size_t)(slash - path));
    if (*dir != NULL && *name != NULL && (*name)[0] != '\0')
        return LULL_OK;
    bool empty = *name != NULL && (*name)[0] == '\0';
    free(*dir);
    free(*name);
    return empty ? lull__fail(LULL_ERR_INVALID, "'%.200s' names no file", path)
                 : lull__fail(LULL_ERR_NO_MEMORY, "%.200s", path);
}

static lull_status_t open_file(lull_safetensors_t *st, const char *path) {
    char *dir, *name;
    lull_status_t status = lull__st_split(path, &dir, &name);
    if (status != LULL_OK)
        return status;
    status = lull__dir_open(lull__io_default(), dir, &st->dir);
    if (status == LULL_OK)
        status = add_part(st, name);
    free(dir);
    free(name);
    return status;
}

lull_status_t lull_safetensors_open(const char *path,
                                    lull_safetensors_t **out) {
    const lull__io_t *io = lull__io_default();
    lull__io_stat_t st;
    if (path == NULL || out == NULL)
        return lull__fail(LULL_ERR_INVALID, "lull_safetensors_open: %s is NULL",
                          path ? "out" : "path");
    lull_safetensors_t *file = calloc(1, sizeof *file);
    if (file == NULL)
        return lull__fail(LULL_ERR_NO_MEMORY, "%s", path);
    file->dir = (lull__dir_t)LULL__DIR_CLOSED;
    /* A link to a directory opens as one, though stat follows no links. */
    int fd = io->ops->open(io, AT_FDCWD, path, O_RDONLY | O_DIRECTORY, 0);
    bool is_dir = fd >= 0 && io->ops->stat(io, fd, "", &st) == 0 && st.is_dir;
    if (fd >= 0)
        io->ops->close(io, fd);
    lull_status_t status =
        is_dir ? open_dir(file, path) : open_file(file, path);
    if (status != LULL_OK)
        lull_safetensors_destroy(file);
    else
        *out = file;
    return status;
}

void lull_safetensors_destroy(lull_safetensors_t *file) {
    if (file == NULL)
        return;
    for (size_t i = 0; i < file->part_count; i++)
        free_part(file->parts[i]);
    free(file->parts);
    free(file->index_text);
    lull__names_free(&file->part_names);
    lull__dir_close(&file->dir);
    free(file);
}

size_t lull_safetensors_count(const lull_safetensors_t *file) {
    return file->count;
}

static void describe(const lull__st_entry_t *entry,
                     lull_safetensors_tensor_t *out) {
    *out = (lull_safetensors_tensor_t){.name = entry->name,
                                       .dtype = entry->dtype,
                                       .ndim = entry->ndim,
                                       .bytes = entry->end - entry->begin};
    memcpy(out->shape, entry->shape, sizeof out->shape);
}

bool lull_safetensors_at(const lull_safetensors_t *file, size_t index,
                         lull_safetensors_tensor_t *out) {
    for (size_t i = 0; i < file->part_count; i++) {
        const lull__st_header_t *header = &file->parts[i]->header;
        if (index < header->count) {
            describe(&header->entries[index], out);
            return true;
        }
        index -= header->count;
    }
    return false;
}

static lull_status_t find(const lull_safetensors_t *file, const char *name,
                          const part_t **part, const lull__st_entry_t **entry) {
    char shown[LULL__SHOWN_MAX];
    for (size_t i = 0; i < file->part_count; i++) {
        const lull__st_header_t *header = &file->parts[i]->header;
        size_t at = lull__names_find(&header->index, name);
        if (at != SIZE_MAX) {
            *part = file->parts[i];
            *entry = &header->entries[at];
            return LULL_OK;
        }
    }
    return lull__fail(LULL_ERR_NOT_FOUND, "%s: no tensor '%s'", file->dir.path,
                      lull__name_shown(name, shown));
}

lull_status_t lull_safetensors_find(const lull_safetensors_t *file,
                                    const char *name,
                                    lull_safetensors_tensor_t *out) {
    const part_t *part;
    const lull__st_entry_t *entry;
    lull_status_t status = find(file, name, &part, &entry);
    if (status == LULL_OK)
        describe(entry, out);
    return status;
}

const char *lull_safetensors_meta(const lull_safetensors_t *file,
                                  const char *key) {
    const lull__st_header_t *header =
        file->part_count > 0 ? &file->parts[0]->header : NULL;
    for (size_t i = 0; header != NULL && i < header->meta_count; i++)
        if (strcmp(header->meta[i].key, key) == 0)
            return header->meta[i].value;
    return NULL;
}

lull_status_t lull_safetensors_read(const lull_safetensors_t *file,
                                    const char *name, uint64_t offset,
                                    uint64_t bytes, void *data) {
    const part_t *part;
    const lull__st_entry_t *entry;
    char shown[LULL__SHOWN_MAX];
    lull_status_t status = find(file, name, &part, &entry);
    if (status != LULL_OK)
        return status;
    uint64_t all = entry->end - entry->begin;
    if (offset > all || bytes > all - offset)
        return lull__fail(LULL_ERR_INVALID,
                          "%s: tensor '%s': %llu bytes from %llu, it has %llu",
                          part->name, lull__name_shown(name, shown),
                          (unsigned long long)bytes, (unsigned long long)offset,
                          (unsigned long long)all);
    return lull__file_read(&part->file, data, bytes,
                           part->data_at + entry->begin + offset);
}
