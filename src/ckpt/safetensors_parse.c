/* Parsing a safetensors header by every rule of the format. */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "box.h"
#include "grow.h"
#include "json.h"
#include "safetensors.h"

typedef struct parser {
    lull__json_t json;
    const char *file;
    lull__st_header_t header;
    size_t entry_room, meta_room;
    bool has_meta;
} parser_t;

lull_status_t lull__st_length(const unsigned char first[8], uint64_t file_bytes,
                              const char *file, uint64_t *n) {
    uint64_t length = 0;
    for (int i = 7; i >= 0; i--)
        length = length << 8 | first[i];
    if (file_bytes < 8)
        return lull__fail(LULL_ERR_CORRUPT,
                          "%s: its %llu bytes are too few for a safetensors "
                          "file",
                          file, (unsigned long long)file_bytes);
    if (length > LULL__ST_HEADER_MAX)
        return lull__fail(LULL_ERR_CORRUPT,
                          "%s: header: its length is %llu, at most 100000000",
                          file, (unsigned long long)length);
    if (length > file_bytes - 8)
        return lull__fail(
            LULL_ERR_CORRUPT, "%s: header: %llu bytes in a file of %llu", file,
            (unsigned long long)length, (unsigned long long)file_bytes);
    if (length < 2)
        return lull__fail(LULL_ERR_CORRUPT, "%s: header: it is empty", file);
    *n = length;
    return LULL_OK;
}

static lull_status_t fail_entry(const parser_t *parser, const char *name,
                                const char *why) {
    char shown[LULL__SHOWN_MAX];
    return lull__fail(LULL_ERR_CORRUPT, "%s: tensor '%s': %s", parser->file,
                      lull__name_shown(name, shown), why);
}

/* The reason is in the JSON parser, or there is none. */
static lull_status_t json_status(parser_t *parser) {
    if (parser->json.error == NULL)
        return LULL_OK;
    return lull__json_done(&parser->json, parser->file);
}

/* Exactly as the format spells it. */
static bool dtype_of(const char *name, lull_dtype_t *out) {
    return lull_dtype_parse(name, out) == LULL_OK &&
           strcmp(lull_dtype_name(*out), name) == 0;
}

static lull_status_t parse_meta(parser_t *parser) {
    lull__text_t key, value;
    lull__names_t seen = {0};
    lull_status_t status = LULL_OK;
    if (parser->has_meta)
        return fail_entry(parser, "__metadata__", "it is there twice");
    parser->has_meta = true;
    lull__json_object(&parser->json);
    while (status == LULL_OK && lull__json_key(&parser->json, &key) &&
           lull__json_string(&parser->json, &value)) {
        size_t old;
        lull__st_header_t *header = &parser->header;
        status = lull__grow((void **)&header->meta, header->meta_count,
                            &parser->meta_room, sizeof *header->meta);
        if (status != LULL_OK)
            break;
        header->meta[header->meta_count++] =
            (lull_ckpt_meta_t){key.data, value.data};
        status = lull__names_add(&seen, key.data, 0, &old);
        if (status == LULL_OK && old != SIZE_MAX)
            status = fail_entry(parser, "__metadata__",
                                "one of its keys is there twice");
    }
    lull__names_free(&seen);
    return status != LULL_OK ? status : json_status(parser);
}

enum { HAS_DTYPE = 1, HAS_SHAPE = 2, HAS_OFFSETS = 4, HAS_ALL = 7 };

/* One member of a tensor's object; its bit in *has. */
static lull_status_t parse_field(parser_t *parser, const char *key,
                                 lull__st_entry_t *entry, unsigned *has) {
    lull__json_t *json = &parser->json;
    lull__text_t text;
    uint64_t offsets[2] = {0};
    uint32_t n = 0;
    unsigned bit = 0;
    if (strcmp(key, "dtype") == 0) {
        bit = HAS_DTYPE;
        if (lull__json_string(json, &text) &&
            !dtype_of(text.data, &entry->dtype))
            return fail_entry(parser, entry->name, "unknown dtype");
    } else if (strcmp(key, "shape") == 0) {
        bit = HAS_SHAPE;
        if (!lull__json_list(json, entry->shape, LULL_MAX_DIMS, &entry->ndim) &&
            strcmp(json->error, LULL__JSON_TOO_LONG) == 0) {
            fail_entry(parser, entry->name, "more than 8 dimensions");
            return LULL_ERR_UNSUPPORTED;
        }
    } else if (strcmp(key, "data_offsets") == 0) {
        bit = HAS_OFFSETS;
        if (lull__json_list(json, offsets, 2, &n) && n != 2)
            return fail_entry(parser, entry->name, "data_offsets are not two");
        entry->begin = offsets[0];
        entry->end = offsets[1];
    } else {
        return fail_entry(parser, entry->name, "a field that no tensor has");
    }
    if (*has & bit)
        return fail_entry(parser, entry->name, "a field is there twice");
    *has |= bit;
    return json_status(parser);
}

static lull_status_t parse_entry(parser_t *parser, const char *name) {
    lull__st_entry_t entry = {.name = name};
    lull__text_t key;
    unsigned has = 0;
    lull__json_object(&parser->json);
    while (lull__json_key(&parser->json, &key)) {
        lull_status_t status = parse_field(parser, key.data, &entry, &has);
        if (status != LULL_OK)
            return status;
    }
    if (parser->json.error != NULL)
        return json_status(parser);
    if (has != HAS_ALL)
        return fail_entry(parser, name,
                          "dtype, shape or data_offsets are missing");
    lull__st_header_t *header = &parser->header;
    lull_status_t status =
        lull__grow((void **)&header->entries, header->count,
                   &parser->entry_room, sizeof *header->entries);
    if (status == LULL_OK)
        header->entries[header->count++] = entry;
    return status;
}

static int by_offset(const void *a, const void *b) {
    const lull__st_entry_t *x = a, *y = b;
    if (x->begin != y->begin)
        return x->begin < y->begin ? -1 : 1;
    if (x->end != y->end)
        return x->end < y->end ? -1 : 1;
    return 0;
}

static void sort(lull__st_header_t *header) {
    for (size_t i = 1; i < header->count; i++)
        if (by_offset(&header->entries[i - 1], &header->entries[i]) > 0) {
            qsort(header->entries, header->count, sizeof *header->entries,
                  by_offset);
            return;
        }
}

/* Contiguous, of the sizes that dtype and shape say, no name twice. */
static lull_status_t check_entries(parser_t *parser, uint64_t data_bytes) {
    lull__st_header_t *header = &parser->header;
    uint64_t at = 0, bytes;
    for (size_t i = 0; i < header->count; i++) {
        lull__st_entry_t *entry = &header->entries[i];
        size_t old;
        if (entry->begin != at || entry->end < entry->begin)
            return fail_entry(parser, entry->name,
                              entry->begin < at ? "its bytes overlap"
                                                : "its offsets leave a hole");
        if (lull__shape_bytes(entry->dtype, entry->ndim, entry->shape,
                              &bytes) != LULL_OK)
            return fail_entry(parser, entry->name,
                              "its shape is too large, or does not fill bytes");
        if (entry->end - entry->begin != bytes)
            return fail_entry(parser, entry->name,
                              "its bytes are not what its shape needs");
        lull_status_t status =
            lull__names_add(&header->index, entry->name, i, &old);
        if (status != LULL_OK)
            return status;
        if (old != SIZE_MAX)
            return fail_entry(parser, entry->name, "the name is there twice");
        at = entry->end;
    }
    if (at == data_bytes)
        return LULL_OK;
    return lull__fail(
        LULL_ERR_CORRUPT, "%s: %llu bytes of data, its tensors have %llu",
        parser->file, (unsigned long long)data_bytes, (unsigned long long)at);
}

static lull_status_t parse_all(parser_t *parser) {
    lull__text_t key;
    lull_status_t status = LULL_OK;
    lull__json_object(&parser->json);
    while (status == LULL_OK && lull__json_key(&parser->json, &key))
        status = strcmp(key.data, "__metadata__") == 0
                     ? parse_meta(parser)
                     : parse_entry(parser, key.data);
    if (status != LULL_OK)
        return status;
    for (const char *s = parser->json.at;
         parser->json.error == NULL && s < parser->json.end; s++)
        if (*s != ' ')
            lull__json_fail(&parser->json, "no space after the header");
    return json_status(parser);
}

lull_status_t lull__st_parse(char *text, size_t n, uint64_t data_bytes,
                             const char *file, lull__st_header_t *out) {
    parser_t parser = {.file = file};
    lull__json_begin(&parser.json, text, n);
    if (n == 0 || text[0] != '{')
        return lull__fail(LULL_ERR_CORRUPT, "%s: header: no '{' begins it",
                          file);
    lull_status_t status = parse_all(&parser);
    if (status == LULL_OK) {
        sort(&parser.header);
        status = check_entries(&parser, data_bytes);
    }
    if (status != LULL_OK)
        lull__st_free(&parser.header);
    else
        *out = parser.header;
    return status;
}

void lull__st_free(lull__st_header_t *header) {
    free(header->entries);
    free(header->meta);
    lull__names_free(&header->index);
    *header = (lull__st_header_t){0};
}
