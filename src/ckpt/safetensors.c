/* Writing a safetensors header: measured first, then streamed. */
#include "safetensors.h"

#include <string.h>

#include "base/error.h"

#define WIDEST_OFFSET "18446744073709551615"

static void put(lull__st_writer_t *writer, const char *text) {
    writer->count += strlen(text);
    if (writer->out != NULL)
        lull__out_text(writer->out, text);
}

static void put_escaped(lull__st_writer_t *writer, const char *text) {
    writer->count += lull__out_escaped_bytes(text);
    if (writer->out != NULL)
        lull__out_escaped(writer->out, text);
}

static void put_u64(lull__st_writer_t *writer, uint64_t value) {
    char digits[21], *at = digits + 20;
    *at = '\0';
    do {
        *--at = (char)('0' + value % 10);
        value /= 10;
    } while (value != 0);
    put(writer, at);
}

static void put_shape(lull__st_writer_t *writer,
                      const lull__st_entry_t *entry) {
    put(writer, "[");
    for (uint32_t d = 0; d < entry->ndim; d++) {
        if (d > 0)
            put(writer, ",");
        put_u64(writer, entry->shape[d]);
    }
    put(writer, "]");
}

static void put_offset(lull__st_writer_t *writer, uint64_t offset) {
    if (writer->out == NULL)
        put(writer, WIDEST_OFFSET);
    else
        put_u64(writer, offset);
}

void lull__st_measure(lull__st_writer_t *writer) {
    *writer = (lull__st_writer_t){.count = 8};
    put(writer, "{");
}

void lull__st_begin(lull__st_writer_t *writer, lull__out_t *out,
                    uint64_t room) {
    unsigned char length[8];
    *writer = (lull__st_writer_t){.out = out, .room = room, .count = 8};
    for (int i = 0; i < 8; i++)
        length[i] = (unsigned char)((room - 8) >> 8 * i);
    lull__out_bytes(out, length, sizeof length);
    put(writer, "{");
}

static void begin_meta(lull__st_writer_t *writer) {
    put(writer, writer->metas++ == 0 ? "\"__metadata__\":{\"" : ",\"");
}

void lull__st_meta(lull__st_writer_t *writer, const char *key,
                   const char *value) {
    begin_meta(writer);
    put_escaped(writer, key);
    put(writer, "\":\"");
    put_escaped(writer, value);
    put(writer, "\"");
}

void lull__st_codec_meta(lull__st_writer_t *writer, const char *codec,
                         const lull__st_entry_t *original) {
    begin_meta(writer);
    put(writer, "lull.codec/");
    put_escaped(writer, original->name);
    put(writer, "\":\"");
    put_escaped(writer, codec);
    put(writer, " ");
    put(writer, lull_dtype_name(original->dtype));
    put(writer, " ");
    put_shape(writer, original);
    put(writer, "\"");
}

void lull__st_tensor(lull__st_writer_t *writer, const lull__st_entry_t *entry) {
    if (writer->tensors == 0 && writer->metas > 0)
        put(writer, "},");
    put(writer, writer->tensors++ == 0 ? "\"" : ",\"");
    put_escaped(writer, entry->name);
    put(writer, "\":{\"dtype\":\"");
    put(writer, lull_dtype_name(entry->dtype));
    put(writer, "\",\"shape\":");
    put_shape(writer, entry);
    put(writer, ",\"data_offsets\":[");
    put_offset(writer, entry->begin);
    put(writer, ",");
    put_offset(writer, entry->end);
    put(writer, "]}");
}

uint64_t lull__st_size(const lull__st_writer_t *writer) {
    return writer->count + 2; /* what end may still close */
}

lull_status_t lull__st_end(lull__st_writer_t *writer, uint64_t *room) {
    if (writer->tensors == 0 && writer->metas > 0)
        put(writer, "}");
    put(writer, "}");
    if (writer->out == NULL) {
        writer->room = (writer->count + LULL__ST_ALIGN - 1) / LULL__ST_ALIGN *
                       LULL__ST_ALIGN;
    } else {
        if (writer->count > writer->room)
            return lull__fail(LULL_ERR_INTERNAL,
                              "a safetensors header of %llu bytes in a room "
                              "of %llu",
                              (unsigned long long)writer->count,
                              (unsigned long long)writer->room);
        lull__out_spaces(writer->out, writer->room - writer->count);
    }
    if (room != NULL)
        *room = writer->room;
    return LULL_OK;
}
