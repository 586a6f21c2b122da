/* The detector of mutation, a mode for debugging: tensors are hashed at save
 * and again at wait_snapshot. */
#include <inttypes.h>
#include <stddef.h>
#include <stdlib.h>

#include "base/checksum.h"
#include "engine.h"

#define BOUNCE_BYTES ((uint64_t)1 << 20)

/* Reads tensors of a device that the host cannot. */
typedef struct reader {
    lull_device_t *device;
    void *queue;
    char *bounce; /* NULL: the host sees tensors as they are */
} reader_t;

static void close_reader(reader_t *reader) {
    if (reader->bounce == NULL)
        return;
    reader->device->exec->queue_destroy(reader->device, reader->queue);
    free(reader->bounce);
}

static lull_status_t open_reader(lull_ckpt_request_t *save, reader_t *reader) {
    lull_device_t *device = save->ckpt->device;
    *reader = (reader_t){.device = device};
    if (!device->exec->async)
        return LULL_OK;
    reader->bounce = malloc(BOUNCE_BYTES);
    if (reader->bounce == NULL)
        return lull__fail(LULL_ERR_NO_MEMORY, "detecting mutation");
    lull_status_t status = device->exec->queue_create(device, &reader->queue);
    if (status == LULL_OK && save->event != NULL)
        status = device->exec->queue_after(device, reader->queue, save->event);
    if (status != LULL_OK)
        close_reader(reader);
    return status;
}

static lull_status_t hash_bounced(reader_t *reader, const lull__item_t *item,
                                  uint64_t *hash) {
    const lull__device_exec_t *exec = reader->device->exec;
    lull_status_t status = LULL_OK;
    lull__hash_t running;
    lull__hash_begin(&running);
    for (uint64_t at = 0; status == LULL_OK && at < item->bytes;) {
        uint64_t fence, n = item->bytes - at;
        if (n > BOUNCE_BYTES)
            n = BOUNCE_BYTES;
        status = exec->copy_out(reader->device, reader->queue, reader->bounce,
                                (const char *)item->data + at, n);
        if (status == LULL_OK)
            status = exec->fence(reader->device, reader->queue, &fence);
        if (status == LULL_OK)
            status = exec->fence_wait(reader->device, reader->queue, fence);
        lull__hash_update(&running, reader->bounce, n);
        at += n;
    }
    *hash = lull__hash_end(&running);
    return status;
}

static lull_status_t hash_item(reader_t *reader, const lull__item_t *item,
                               uint64_t *hash) {
    if (reader->bounce != NULL)
        return hash_bounced(reader, item, hash);
    *hash = lull__hash_of(item->data, item->bytes);
    return LULL_OK;
}

lull_status_t lull__mutation_note(lull_ckpt_request_t *save) {
    reader_t reader;
    lull_status_t status = open_reader(save, &reader);
    if (status != LULL_OK)
        return status;
    for (size_t i = 0; status == LULL_OK && i < save->item_count; i++)
        if (!save->items[i].host)
            status = hash_item(&reader, &save->items[i], &save->items[i].hash);
    close_reader(&reader);
    return status;
}

static lull_status_t compare(lull_ckpt_request_t *save) {
    reader_t reader;
    lull_status_t status = open_reader(save, &reader);
    if (status != LULL_OK)
        return status;
    for (size_t i = 0; status == LULL_OK && i < save->item_count; i++) {
        const lull__item_t *item = &save->items[i];
        uint64_t now = 0;
        if (item->host)
            continue;
        status = hash_item(&reader, item, &now);
        if (status == LULL_OK && now != item->hash)
            status = lull__fail(LULL_ERR_MUTATED,
                                "step %" PRIu64 ": tensor '%.200s' changed "
                                "between save and wait_snapshot",
                                save->step, item->shard.name);
    }
    close_reader(&reader);
    return status;
}

/* A pending save that was not compared yet, kept alive. */
static lull_ckpt_request_t *next_to_compare(lull_ckpt_t *ckpt) {
    pthread_mutex_lock(&ckpt->lock);
    lull_ckpt_request_t *save = ckpt->pending;
    while (save != NULL &&
           (save->verifying || !save->copied || save->status != LULL_OK))
        save = save->next;
    if (save != NULL) {
        save->verifying = true;
        save->refs++;
    }
    pthread_mutex_unlock(&ckpt->lock);
    return save;
}

void lull__mutation_check(lull_ckpt_t *ckpt) {
    lull_ckpt_request_t *save;
    if (!ckpt->options.detect_mutation)
        return;
    (void)lull__wait_flag(ckpt, NULL, offsetof(lull_ckpt_request_t, copied),
                          LULL__NEVER);
    while ((save = next_to_compare(ckpt)) != NULL) {
        lull_status_t status = compare(save);
        if (status != LULL_OK)
            lull__save_fail(save, status);
        pthread_mutex_lock(&ckpt->lock);
        save->verified = true;
        pthread_cond_broadcast(&ckpt->changed);
        lull__save_unref(save);
        pthread_mutex_unlock(&ckpt->lock);
    }
}
