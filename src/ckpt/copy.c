/* Copy threads: lay a save out, then move its bytes to the ring, chunk by
 * chunk, hashing each block on the way. Devices that copy in the background
 * have threads of their own kind: copy_async.c. */
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/checksum.h"
#include "base/stream.h"
#include "copy.h"
#include "encode.h"

void lull__copy_settle(lull_ckpt_request_t *save) {
    bool failed = save->status != LULL_OK || save->ckpt->cancel;
    if (save->copied || !save->planned || save->copying > 0 ||
        (!failed && save->next_chunk < save->chunk_count))
        return;
    if (save->event != NULL)
        save->ckpt->device->exec->event_destroy(save->ckpt->device,
                                                save->event);
    save->event = NULL;
    save->copied = true;
    save->at.snapshot_s = lull__now();
    if (save->at.copy_begin_s == 0)
        save->at.copy_begin_s = save->at.snapshot_s;
    pthread_cond_broadcast(&save->ckpt->changed);
}

lull_ckpt_request_t *lull__copy_find(lull_ckpt_t *ckpt, bool *plan) {
    lull_ckpt_request_t *save = ckpt->pending;
    for (; save != NULL; save = save->next) {
        *plan = !save->planning;
        if (*plan)
            return save;
        if (!save->planned)
            return NULL; /* another thread is at it */
        if (save->status == LULL_OK && !ckpt->cancel &&
            save->next_chunk < save->chunk_count)
            return lull__encode_room(ckpt) ? save : NULL;
    }
    return NULL;
}

void lull__copy_plan(lull_ckpt_request_t *save) {
    lull_ckpt_t *ckpt = save->ckpt;
    if (lull__save_status(save) == LULL_OK) {
        lull_status_t status = lull__plan_layout(save);
        if (status != LULL_OK)
            lull__save_fail(save, status);
    }
    pthread_mutex_lock(&ckpt->lock);
    save->planned = true;
    lull__copy_settle(save);
    pthread_cond_broadcast(&ckpt->changed);
    pthread_mutex_unlock(&ckpt->lock);
}

/* The first item of the file that ends behind `at`. */
static size_t item_at(const lull_ckpt_request_t *save,
                      const lull__data_file_t *file, uint64_t at) {
    size_t low = file->first, high = file->first + file->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (save->order[middle]->end > at)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

static lull_status_t copy_item(lull__copier_t *copier, const lull__item_t *item,
                               void *to, uint64_t skip, uint64_t bytes) {
    lull_device_t *device = copier->ckpt->device;
    const char *from = (const char *)item->data + skip;
    if (item->host) {
        memcpy(to, from, bytes);
        return LULL_OK;
    }
    lull_status_t status =
        device->exec->copy_out(device, copier->queue, to, from, bytes);
    if (status == LULL_OK)
        return LULL_OK;
    char why[LULL__SENTENCE_MAX / 2];
    snprintf(why, sizeof why, "%s", lull_last_error());
    return lull__fail(status, "tensor '%.200s': %s", item->shard.name, why);
}

/* `bytes` of the file's data from `begin` on, which item *i holds or one
 * behind it; *i moves on. */
static lull_status_t gather(lull__copier_t *copier,
                            const lull_ckpt_request_t *save, size_t *i,
                            uint64_t begin, uint64_t bytes, char *to) {
    lull_status_t status = LULL_OK;
    for (uint64_t at = begin; status == LULL_OK && at < begin + bytes;) {
        const lull__item_t *item = save->order[*i];
        uint64_t end = item->end;
        if (end > begin + bytes)
            end = begin + bytes;
        if (end > at)
            status = copy_item(copier, item, to, at - item->begin, end - at);
        to += end - at;
        at = end;
        *i += at == item->end;
    }
    return status;
}

lull_status_t lull__copy_range(lull__copier_t *copier,
                               const lull__chunk_t *chunk, uint64_t begin,
                               uint64_t bytes) {
    const lull__ring_t *ring = copier->ckpt->ring;
    size_t i = item_at(chunk->save, chunk->file, begin);
    char *to =
        (char *)lull__ring_data(ring, chunk->slot) + begin - chunk->begin;
    return gather(copier, chunk->save, &i, begin, bytes, to);
}

void lull__copy_hash(const lull__chunk_t *chunk, uint64_t at, uint64_t bytes) {
    const char *data = lull__ring_data(chunk->ring, chunk->slot);
    if (chunk->save->ckpt->encoder != NULL)
        return; /* it hashes what is stored */
    uint64_t block = (chunk->begin + at) / LULL__BLOCK_BYTES;
    chunk->file->hashes[block] = lull__hash_of(data + at, bytes);
}

/* By pieces that stay in the nearest cache between three things: they are
 * gathered, hashed, and put past the cache into the slot, which only the disk
 * reads next. So the memory moves each byte in once and out once. */
#define PIECE_BYTES 4096u

static lull_status_t copy_block(lull__copier_t *copier,
                                const lull__chunk_t *chunk, uint64_t at,
                                uint64_t bytes) {
    _Alignas(64) char piece[PIECE_BYTES];
    char *to = (char *)lull__ring_data(chunk->ring, chunk->slot) + at;
    uint64_t begin = chunk->begin + at;
    bool hashed = copier->ckpt->encoder == NULL; /* else what is stored is */
    size_t i = item_at(chunk->save, chunk->file, begin);
    lull_status_t status = LULL_OK;
    lull__hash_t hash;
    lull__hash_begin(&hash);
    for (uint64_t done = 0; done < bytes;) {
        uint64_t n = bytes - done < PIECE_BYTES ? bytes - done : PIECE_BYTES;
        status = gather(copier, chunk->save, &i, begin + done, n, piece);
        if (status != LULL_OK)
            break;
        if (hashed)
            lull__hash_update(&hash, piece, n);
        lull__stream_copy(to + done, piece, n);
        done += n;
    }
    lull__stream_fence();
    if (hashed)
        chunk->file->hashes[begin / LULL__BLOCK_BYTES] = lull__hash_end(&hash);
    return status;
}

static lull_status_t copy_chunk(lull__copier_t *copier,
                                const lull__chunk_t *chunk) {
    uint64_t step = LULL__BLOCK_BYTES;
    lull_status_t status = LULL_OK;
    for (uint64_t at = 0; status == LULL_OK && at < chunk->bytes; at += step) {
        uint64_t n = chunk->bytes - at < step ? chunk->bytes - at : step;
        status = copy_block(copier, chunk, at, n);
    }
    return status;
}

lull_status_t lull__copy_after(lull__copier_t *copier,
                               lull_ckpt_request_t *save) {
    if (copier->save == save && copier->number == save->number)
        return LULL_OK;
    copier->save = save;
    copier->number = save->number;
    return copier->ckpt->device->exec->queue_after(copier->ckpt->device,
                                                   copier->queue, save->event);
}

lull__chunk_t *lull__copy_locate(lull_ckpt_request_t *save, uint64_t number,
                                 uint32_t index) {
    lull__chunk_t *chunk = &save->ckpt->chunks[index];
    uint64_t slot = lull__ring_slot_bytes(save->ckpt->ring);
    size_t f = save->file_count - 1;
    while (save->files[f].first_chunk > number)
        f--;
    chunk->ring = save->ckpt->ring;
    chunk->slot = index;
    chunk->save = save;
    chunk->file = &save->files[f];
    chunk->begin = (number - chunk->file->first_chunk) * slot;
    chunk->bytes = chunk->file->raw_bytes - chunk->begin;
    if (chunk->bytes > slot)
        chunk->bytes = slot;
    return chunk;
}

void lull__copy_claim(lull_ckpt_request_t *save) {
    save->next_chunk++;
    save->copying++;
    save->ckpt->coding += save->ckpt->encoder != NULL;
    if (save->at.copy_begin_s == 0)
        save->at.copy_begin_s = lull__now();
}

void lull__copy_count(lull__copier_t *copier) {
    lull_ckpt_t *ckpt = copier->ckpt;
    ckpt->stats.backpressure_s += copier->waited;
    ckpt->stats.copy_s += copier->busy;
    copier->waited = copier->busy = 0;
}

/* Copies chunk `number`; the lock is not held. */
static void copy_one(lull__copier_t *copier, lull_ckpt_request_t *save,
                     uint64_t number) {
    lull_ckpt_t *ckpt = copier->ckpt;
    lull__chunk_t *chunk = NULL;
    uint32_t slot;
    lull_status_t status;
    if (lull__ring_take(ckpt->ring, &slot, &copier->waited)) {
        double from = lull__now();
        chunk = lull__copy_locate(save, number, slot);
        status = lull__copy_after(copier, save);
        if (status == LULL_OK)
            status = copy_chunk(copier, chunk);
        copier->busy += lull__now() - from;
    } else {
        status = lull__fail(LULL_ERR_CANCELLED, "the engine was destroyed");
    }
    if (status != LULL_OK)
        lull__save_fail(save, status);
    pthread_mutex_lock(&ckpt->lock);
    save->copying--;
    if (chunk != NULL) {
        save->bytes_copied += chunk->bytes;
        ckpt->stats.bytes_copied += chunk->bytes;
        save->writing++;
        lull__chunk_ready(chunk);
    }
    lull__copy_count(copier);
    lull__copy_settle(save);
    pthread_mutex_unlock(&ckpt->lock);
}

static void work(lull__copier_t *copier) {
    lull_ckpt_t *ckpt = copier->ckpt;
    bool to_plan;
    pthread_mutex_lock(&ckpt->lock);
    while (!ckpt->stop) {
        lull_ckpt_request_t *save = lull__copy_find(ckpt, &to_plan);
        if (save == NULL) {
            pthread_cond_wait(&ckpt->changed, &ckpt->lock);
            continue;
        }
        uint64_t number = save->next_chunk;
        if (to_plan)
            save->planning = true;
        else
            lull__copy_claim(save);
        pthread_mutex_unlock(&ckpt->lock);
        if (to_plan)
            lull__copy_plan(save);
        else
            copy_one(copier, save, number);
        pthread_mutex_lock(&ckpt->lock);
    }
    pthread_mutex_unlock(&ckpt->lock);
}

void *lull__copy_thread(void *arg) {
    work(arg);
    return NULL;
}
