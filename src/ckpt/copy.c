/* Copy threads: lay a save out, then move its bytes to the ring, chunk by
 * chunk, hashing each block on the way. */
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/checksum.h"
#include "engine.h"

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

/* What a copy thread does next, with the lock held; NULL: nothing now. The
 * oldest save with something to copy comes first. */
static lull_ckpt_request_t *find_work(lull_ckpt_t *ckpt, bool *plan) {
    lull_ckpt_request_t *save = ckpt->pending;
    for (; save != NULL; save = save->next) {
        *plan = !save->planning;
        if (*plan)
            return save;
        if (!save->planned)
            return NULL; /* another thread is at it */
        if (save->status == LULL_OK && !ckpt->cancel &&
            save->next_chunk < save->chunk_count)
            return save;
    }
    return NULL;
}

static void plan(lull_ckpt_request_t *save) {
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
        if (save->order[middle]->shard.end > at)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

/* Issues the copies of bytes [begin, begin + bytes) of the file's data. */
static lull_status_t copy_range(lull__copier_t *copier,
                                const lull__chunk_t *chunk, uint64_t begin,
                                uint64_t bytes) {
    lull_ckpt_t *ckpt = copier->ckpt;
    lull_ckpt_request_t *save = chunk->save;
    size_t i = item_at(save, chunk->file, begin);
    char *to =
        (char *)lull__ring_data(ckpt->ring, chunk->slot) + begin - chunk->begin;
    lull_status_t status = LULL_OK;
    for (uint64_t at = begin; status == LULL_OK && at < begin + bytes; i++) {
        const lull__item_t *item = save->order[i];
        uint64_t end = item->shard.end;
        if (end > begin + bytes)
            end = begin + bytes;
        const char *from = (const char *)item->data + (at - item->shard.begin);
        if (end > at && item->host)
            memcpy(to, from, end - at);
        else if (end > at)
            status = ckpt->device->exec->copy_out(ckpt->device, copier->queue,
                                                  to, from, end - at);
        to += end - at;
        at = end;
    }
    return status;
}

/* Blocks are hashed while they are in the cache: `copy` says that each is to
 * be copied first, at once. */
static lull_status_t hash_blocks(lull__copier_t *copier,
                                 const lull__chunk_t *chunk, bool copy) {
    const char *data = lull__ring_data(copier->ckpt->ring, chunk->slot);
    lull_status_t status = LULL_OK;
    for (uint64_t at = 0; status == LULL_OK && at < chunk->bytes;) {
        uint64_t n = chunk->bytes - at, block = chunk->begin + at;
        if (n > LULL__BLOCK_BYTES)
            n = LULL__BLOCK_BYTES;
        if (copy)
            status = copy_range(copier, chunk, block, n);
        if (status == LULL_OK)
            chunk->file->hashes[block / LULL__BLOCK_BYTES] =
                lull__hash_of(data + at, n);
        at += n;
    }
    return status;
}

/* The save's event, once for each save and thread. */
static lull_status_t wait_event(lull__copier_t *copier,
                                lull_ckpt_request_t *save) {
    if (copier->save == save && copier->number == save->number)
        return LULL_OK;
    copier->save = save;
    copier->number = save->number;
    return copier->ckpt->device->exec->queue_after(copier->ckpt->device,
                                                   copier->queue, save->event);
}

static void locate(lull_ckpt_request_t *save, uint64_t number,
                   lull__chunk_t *chunk) {
    uint64_t slot = lull__ring_slot_bytes(save->ckpt->ring);
    size_t f = save->file_count - 1;
    while (save->files[f].first_chunk > number)
        f--;
    chunk->save = save;
    chunk->file = &save->files[f];
    chunk->begin = (number - chunk->file->first_chunk) * slot;
    chunk->bytes = chunk->file->data_bytes - chunk->begin;
    if (chunk->bytes > slot)
        chunk->bytes = slot;
}

/* The chunk is in its slot, or will never be. NULL: there was no slot. */
static void release(lull__copier_t *copier, lull_ckpt_request_t *save,
                    lull__chunk_t *chunk, lull_status_t status) {
    lull_ckpt_t *ckpt = copier->ckpt;
    if (status != LULL_OK)
        lull__save_fail(save, status);
    pthread_mutex_lock(&ckpt->lock);
    save->copying--;
    if (chunk != NULL) {
        save->bytes_copied += chunk->bytes;
        ckpt->stats.bytes_copied += chunk->bytes;
        lull__chunk_ready(chunk);
    }
    ckpt->stats.backpressure_s += copier->waited;
    ckpt->stats.copy_s += copier->busy;
    copier->waited = copier->busy = 0;
    lull__copy_settle(save);
    pthread_mutex_unlock(&ckpt->lock);
}

/* Lands the chunk that the device is still copying, if there is one. */
static void land(lull__copier_t *copier) {
    lull__chunk_t *chunk = copier->flying;
    lull_device_t *device = copier->ckpt->device;
    if (chunk == NULL)
        return;
    double from = lull__now();
    copier->flying = NULL;
    lull_status_t status =
        device->exec->fence_wait(device, copier->queue, copier->fence);
    if (status == LULL_OK)
        status = hash_blocks(copier, chunk, false);
    copier->busy += lull__now() - from;
    release(copier, chunk->save, chunk, status);
}

/* Begins a chunk on a device that copies behind our back. The one before
 * lands meanwhile, so that the copy engine has work while we hash. */
static void launch(lull__copier_t *copier, lull__chunk_t *chunk) {
    const lull__device_exec_t *exec = copier->ckpt->device->exec;
    uint64_t fence = 0;
    lull_status_t status =
        copy_range(copier, chunk, chunk->begin, chunk->bytes);
    /* The fence comes in any case: what was begun must end. */
    lull_status_t fenced =
        exec->fence(copier->ckpt->device, copier->queue, &fence);
    land(copier);
    copier->fence = fence;
    if (status == LULL_OK)
        status = fenced;
    if (status == LULL_OK) {
        copier->flying = chunk;
        return;
    }
    lull__save_fail(chunk->save, status);
    if (fenced == LULL_OK)
        (void)exec->fence_wait(copier->ckpt->device, copier->queue, fence);
    release(copier, chunk->save, chunk, status);
}

/* A slot; the flying chunk must not be what we wait for. */
static bool take_slot(lull__copier_t *copier, uint32_t *slot) {
    if (lull__ring_try_take(copier->ckpt->ring, slot))
        return true;
    land(copier);
    return lull__ring_take(copier->ckpt->ring, slot, &copier->waited);
}

/* Copies chunk `number`; the lock is not held. */
static void copy_one(lull__copier_t *copier, lull_ckpt_request_t *save,
                     uint64_t number) {
    uint32_t slot;
    if (!take_slot(copier, &slot)) {
        release(copier, save, NULL,
                lull__fail(LULL_ERR_CANCELLED, "the engine was destroyed"));
        return;
    }
    double from = lull__now();
    lull__chunk_t *chunk = &copier->ckpt->chunks[slot];
    chunk->slot = slot;
    locate(save, number, chunk);
    lull_status_t status = wait_event(copier, save);
    if (status == LULL_OK && copier->ckpt->device->exec->async) {
        launch(copier, chunk);
        return;
    }
    if (status == LULL_OK)
        status = hash_blocks(copier, chunk, true);
    copier->busy += lull__now() - from;
    release(copier, save, chunk, status);
}

/* With the lock held: what to do next is begun. */
static void begin_work(lull_ckpt_request_t *save, bool to_plan) {
    if (to_plan) {
        save->planning = true;
        return;
    }
    save->next_chunk++;
    save->copying++;
    if (save->at.copy_begin_s == 0)
        save->at.copy_begin_s = lull__now();
}

static void work(lull__copier_t *copier) {
    lull_ckpt_t *ckpt = copier->ckpt;
    bool to_plan;
    pthread_mutex_lock(&ckpt->lock);
    while (!ckpt->stop) {
        lull_ckpt_request_t *save = find_work(ckpt, &to_plan);
        if (save == NULL && copier->flying == NULL) {
            pthread_cond_wait(&ckpt->changed, &ckpt->lock);
            continue;
        }
        uint64_t number = save ? save->next_chunk : 0;
        if (save != NULL)
            begin_work(save, to_plan);
        pthread_mutex_unlock(&ckpt->lock);
        if (save == NULL)
            land(copier);
        else if (to_plan)
            plan(save);
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
