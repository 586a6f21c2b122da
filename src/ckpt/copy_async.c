/* Copy threads for devices that copy in the background, and the threads that
 * hash what has landed. A copier keeps its queue full: it issues copies of
 * chunks while slots are free and only then waits for the oldest. So the
 * device is never idle for our sake, and the tensors are free again when the
 * last copy is done, however long hashing and writing take. */
#include <string.h>

#include "base/checksum.h"
#include "copy.h"

/* Chunks a copier has in flight at most: enough to keep a device busy, less
 * than a queue has fences. */
#define FLYING_MAX 32

/* The chunk's bytes are in its slot, or will never be: it goes on to be
 * hashed. */
static void landed(lull__copier_t *copier, lull__chunk_t *chunk) {
    lull_ckpt_t *ckpt = copier->ckpt;
    lull_ckpt_request_t *save = chunk->save;
    pthread_mutex_lock(&ckpt->lock);
    save->copying--;
    save->writing++;
    save->bytes_copied += chunk->bytes;
    ckpt->stats.bytes_copied += chunk->bytes;
    chunk->next = NULL;
    *ckpt->landed_tail = chunk;
    ckpt->landed_tail = &chunk->next;
    pthread_cond_signal(&ckpt->landed_changed);
    lull__copy_count(copier);
    lull__copy_settle(save);
    pthread_mutex_unlock(&ckpt->lock);
}

static lull_status_t issue(lull__copier_t *copier, lull__chunk_t *chunk) {
    lull_device_t *device = copier->ckpt->device;
    lull_status_t status = lull__copy_after(copier, chunk->save);
    if (status == LULL_OK)
        status = lull__copy_range(copier, chunk, chunk->begin, chunk->bytes);
    if (status == LULL_OK)
        status = device->exec->fence(device, copier->queue, &chunk->fence);
    return status;
}

/* Some of a chunk's copies may be under way: its slot is not to be used
 * before they are over. */
static void drain(lull__copier_t *copier) {
    const lull__device_exec_t *exec = copier->ckpt->device->exec;
    char sentence[LULL__SENTENCE_MAX];
    uint64_t fence;
    strcpy(sentence, lull_last_error());
    if (exec->fence(copier->ckpt->device, copier->queue, &fence) == LULL_OK)
        (void)exec->fence_wait(copier->ckpt->device, copier->queue, fence);
    lull__error_set(sentence);
}

/* Waits for the oldest chunk in flight. */
static void land(lull__copier_t *copier) {
    lull_device_t *device = copier->ckpt->device;
    lull__chunk_t *chunk = copier->flying;
    double from = lull__now();
    copier->flying = chunk->next;
    copier->flying_count--;
    lull_status_t status =
        device->exec->fence_wait(device, copier->queue, chunk->fence);
    if (status != LULL_OK)
        drain(copier);
    copier->busy += lull__now() - from;
    if (status != LULL_OK)
        lull__save_fail(chunk->save, status);
    landed(copier, chunk);
}

static void take_off(lull__copier_t *copier, lull__chunk_t *chunk) {
    double from = lull__now();
    lull_status_t status = issue(copier, chunk);
    if (status != LULL_OK)
        drain(copier);
    copier->busy += lull__now() - from;
    if (status != LULL_OK) {
        lull__save_fail(chunk->save, status);
        landed(copier, chunk);
        return;
    }
    chunk->next = NULL;
    if (copier->flying == NULL)
        copier->flying_tail = &copier->flying;
    *copier->flying_tail = chunk;
    copier->flying_tail = &chunk->next;
    copier->flying_count++;
}

/* No slot came: the engine is being destroyed. */
static void give_up(lull_ckpt_request_t *save) {
    lull_ckpt_t *ckpt = save->ckpt;
    lull__save_fail(save,
                    lull__fail(LULL_ERR_CANCELLED, "the engine was destroyed"));
    pthread_mutex_lock(&ckpt->lock);
    save->copying--;
    lull__copy_settle(save);
    pthread_mutex_unlock(&ckpt->lock);
}

/* Claims the save's next chunk, with a slot that is free now or, where there
 * is nothing in flight to wait for instead, with one that will be. The lock
 * is held, and is let go on success. */
static bool start_chunk(lull__copier_t *copier, lull_ckpt_request_t *save) {
    lull_ckpt_t *ckpt = copier->ckpt;
    uint32_t slot;
    uint64_t number = save->next_chunk;
    bool busy = copier->flying_count > 0;
    if (copier->flying_count == FLYING_MAX ||
        (busy && !lull__ring_try_take(ckpt->ring, &slot)))
        return false;
    lull__copy_claim(save);
    pthread_mutex_unlock(&ckpt->lock);
    if (busy || lull__ring_take(ckpt->ring, &slot, &copier->waited))
        take_off(copier, lull__copy_locate(save, number, slot));
    else
        give_up(save);
    return true;
}

void *lull__copy_async_thread(void *arg) {
    lull__copier_t *copier = arg;
    lull_ckpt_t *ckpt = copier->ckpt;
    bool to_plan;
    pthread_mutex_lock(&ckpt->lock);
    while (!ckpt->stop) {
        lull_ckpt_request_t *save = lull__copy_find(ckpt, &to_plan);
        if (save != NULL && to_plan) {
            save->planning = true;
            pthread_mutex_unlock(&ckpt->lock);
            lull__copy_plan(save);
        } else if (save != NULL && start_chunk(copier, save)) {
            /* and on to the next */
        } else if (copier->flying_count > 0) {
            pthread_mutex_unlock(&ckpt->lock);
            land(copier);
        } else {
            pthread_cond_wait(&ckpt->changed, &ckpt->lock);
            continue;
        }
        pthread_mutex_lock(&ckpt->lock);
    }
    pthread_mutex_unlock(&ckpt->lock);
    return NULL;
}

/* With the lock held; NULL: stop. */
static lull__chunk_t *next_landed(lull_ckpt_t *ckpt) {
    while (ckpt->landed == NULL && !ckpt->stop)
        pthread_cond_wait(&ckpt->landed_changed, &ckpt->lock);
    lull__chunk_t *chunk = ckpt->landed;
    if (chunk != NULL) {
        ckpt->landed = chunk->next;
        if (ckpt->landed == NULL)
            ckpt->landed_tail = &ckpt->landed;
    }
    return chunk;
}

void *lull__hash_thread(void *arg) {
    lull_ckpt_t *ckpt = arg;
    lull__chunk_t *chunk;
    const uint64_t step = LULL__BLOCK_BYTES;
    pthread_mutex_lock(&ckpt->lock);
    while ((chunk = next_landed(ckpt)) != NULL) {
        bool wanted = chunk->save->status == LULL_OK && !ckpt->cancel;
        pthread_mutex_unlock(&ckpt->lock);
        for (uint64_t at = 0; wanted && at < chunk->bytes; at += step)
            lull__copy_hash(
                chunk, at, chunk->bytes - at < step ? chunk->bytes - at : step);
        pthread_mutex_lock(&ckpt->lock);
        lull__chunk_ready(chunk);
    }
    pthread_mutex_unlock(&ckpt->lock);
    return NULL;
}
