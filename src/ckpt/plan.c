/* What of a replicated tensor this rank writes; order, files and offsets. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/checksum.h"
#include "encode.h"
#include "engine.h"
#include "safetensors.h"

/* ---- replicas ---- */

/* Pieces of a shared tensor have at least so many bytes. */
#define SHARE_MIN ((uint64_t)64 << 10)

/* Small tensors go to one replica, chosen by what all of them know. */
static uint32_t chosen_writer(const lull_ckpt_tensor_t *tensor) {
    size_t dims = tensor->ndim * sizeof *tensor->offset;
    lull__hash_t hash;
    lull__hash_begin(&hash);
    lull__hash_update(&hash, tensor->name, strlen(tensor->name));
    lull__hash_update(&hash, tensor->offset, dims);
    return (uint32_t)(lull__hash_end(&hash) % tensor->replicas);
}

/* rows * r / replicas without overflow. */
static uint64_t share_begin(uint64_t rows, uint32_t r, uint32_t replicas) {
    return (uint64_t)((unsigned __int128)rows * r / replicas);
}

bool lull__plan_share(const lull_ckpt_tensor_t *tensor, uint64_t bytes,
                      lull__box_t *box, uint64_t *skip) {
    uint32_t r = tensor->replica, replicas = tensor->replicas, d = 0;
    memcpy(box->offset, tensor->offset, sizeof box->offset);
    memcpy(box->shape, tensor->shape, sizeof box->shape);
    *skip = 0;
    if (replicas <= 1)
        return true;
    /* A part of the first dimension that has parts is contiguous. */
    while (d < tensor->ndim && tensor->shape[d] == 1)
        d++;
    if (d == tensor->ndim || tensor->shape[d] < replicas ||
        bytes / replicas < SHARE_MIN || lull_dtype_bits(tensor->dtype) < 8)
        return chosen_writer(tensor) == r;
    uint64_t rows = tensor->shape[d];
    uint64_t begin = share_begin(rows, r, replicas);
    box->offset[d] += begin;
    box->shape[d] = share_begin(rows, r + 1, replicas) - begin;
    *skip = bytes / rows * begin;
    return true;
}

/* ---- layout ---- */

/* Widest elements first, so that each tensor is aligned to its elements
 * though the format allows no holes; a counting sort keeps the order given. */
static unsigned order_class(const lull__item_t *item) {
    unsigned bits = lull_dtype_bits(item->shard.dtype), class = 0;
    static const unsigned widths[] = {64, 32, 16};
    while (class < 3 && bits != widths[class])
        class ++;
    /* What is coded has any length: nothing behind it would be aligned. */
    return item->shard.kind == LULL__SHARD_TENSOR && !item->coding ? class : 4;
}

static lull_status_t sort_items(lull_ckpt_request_t *save) {
    size_t at[6] = {0};
    save->order = malloc((save->item_count + 1) * sizeof *save->order);
    if (save->order == NULL)
        return lull__fail(LULL_ERR_NO_MEMORY, "the order of %zu tensors",
                          save->item_count);
    for (size_t i = 0; i < save->item_count; i++)
        at[order_class(&save->items[i]) + 1]++;
    for (unsigned c = 1; c < 6; c++)
        at[c] += at[c - 1];
    for (size_t i = 0; i < save->item_count; i++)
        save->order[at[order_class(&save->items[i])]++] = &save->items[i];
    return LULL_OK;
}

static void put_meta(lull__st_writer_t *writer, lull_ckpt_request_t *save) {
    char number[24];
    lull__st_meta(writer, "format", "pt");
    snprintf(number, sizeof number, "%llu", (unsigned long long)save->step);
    lull__st_meta(writer, "lull.step", number);
}

static lull__st_entry_t entry_of(const lull__item_t *item) {
    lull__st_entry_t entry = {.name = item->shard.stored,
                              .dtype = item->shard.dtype,
                              .ndim = item->shard.ndim,
                              .begin = item->shard.begin,
                              .end = item->shard.end};
    memcpy(entry.shape, lull__shard_shape(&item->shard),
           entry.ndim * sizeof *entry.shape);
    return entry;
}

static void put_codec(lull__st_writer_t *writer, const lull__item_t *item) {
    lull__st_entry_t entry = entry_of(item);
    if (item->coding != NULL)
        lull__st_codec_meta(writer, item->shard.codec, &entry);
}

static void put_item(lull__st_writer_t *writer, const lull__item_t *item) {
    lull__st_entry_t entry = entry_of(item);
    if (item->coding != NULL) {
        /* While measuring, as wide as it can get. */
        entry.dtype = LULL_U8;
        entry.ndim = 1;
        entry.shape[0] = writer->out ? entry.end - entry.begin : UINT64_MAX;
    }
    lull__st_tensor(writer, &entry);
}

static lull_status_t add_file(lull_ckpt_request_t *save, size_t first) {
    lull__data_file_t *files =
        realloc(save->files, (save->file_count + 1) * sizeof *files);
    if (files == NULL)
        return lull__fail(LULL_ERR_NO_MEMORY, "the list of data files");
    save->files = files;
    lull__data_file_t *file = &files[save->file_count];
    *file = (lull__data_file_t){.direct = LULL__FILE_CLOSED,
                                .plain = LULL__FILE_CLOSED,
                                .first = first};
    lull__naming_data(file->name, save->ckpt->options.rank,
                      (uint32_t)save->file_count);
    save->file_count++;
    return LULL_OK;
}

/* Items in order, as many to a file as its header takes. */
static lull_status_t split_files(lull_ckpt_request_t *save) {
    lull__st_writer_t writer;
    lull_status_t status = add_file(save, 0);
    lull__st_measure(&writer);
    put_meta(&writer, save);
    for (size_t i = 0; status == LULL_OK && i < save->item_count; i++) {
        lull__item_t *item = save->order[i];
        lull__data_file_t *file = &save->files[save->file_count - 1];
        if (lull__st_size(&writer) > LULL__ST_SPLIT) {
            (void)lull__st_end(&writer, &file->room);
            status = add_file(save, i);
            if (status != LULL_OK)
                break;
            file = &save->files[save->file_count - 1];
            lull__st_measure(&writer);
            put_meta(&writer, save);
        }
        item->shard.file = (uint32_t)save->file_count - 1;
        item->shard.begin = item->begin = file->raw_bytes;
        file->raw_bytes += item->bytes;
        item->shard.end = item->end = file->raw_bytes;
        file->most_bytes += item->most;
        file->sure_bytes += item->coding == NULL ? item->bytes : 0;
        file->count++;
        put_codec(&writer, item);
        put_item(&writer, item);
    }
    if (status == LULL_OK)
        status = lull__st_end(&writer, &save->files[save->file_count - 1].room);
    return status;
}

lull_status_t lull__plan_layout(lull_ckpt_request_t *save) {
    uint64_t slot = lull__ring_slot_bytes(save->ckpt->ring);
    lull_status_t status = lull__encode_plan(save);
    if (status == LULL_OK)
        status = sort_items(save);
    if (status == LULL_OK)
        status = split_files(save);
    for (size_t f = 0; status == LULL_OK && f < save->file_count; f++) {
        lull__data_file_t *file = &save->files[f];
        uint64_t blocks =
            (file->most_bytes + LULL__BLOCK_BYTES - 1) / LULL__BLOCK_BYTES;
        file->data_bytes = file->raw_bytes; /* until it is coded */
        file->hashes = calloc(blocks + 1, sizeof *file->hashes);
        if (file->hashes == NULL)
            status = lull__fail(LULL_ERR_NO_MEMORY, "%s: hashes of blocks",
                                file->name);
        file->first_chunk = save->chunk_count;
        save->chunk_count += (file->raw_bytes + slot - 1) / slot;
    }
    return status;
}

lull_status_t lull__plan_header(lull_ckpt_request_t *save,
                                lull__data_file_t *file, lull__out_t *out) {
    lull__st_writer_t writer;
    lull__st_begin(&writer, out, file->room);
    put_meta(&writer, save);
    for (size_t i = 0; i < file->count; i++)
        put_codec(&writer, save->order[file->first + i]);
    for (size_t i = 0; i < file->count; i++)
        put_item(&writer, save->order[file->first + i]);
    return lull__st_end(&writer, NULL);
}
