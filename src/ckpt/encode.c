/* The thread that codes: raw chunks in, frames out. See encode.h. */
#include "encode.h"

#include <stdlib.h>
#include <string.h>

#include "base/checksum.h"

#define OUT_SLOT_BYTES ((uint64_t)4 << 20) /* what one write takes */
#define OUT_SLOTS 3 /* one is filled while two are written */

struct lull__encoder {
    lull_ckpt_t *ckpt;
    lull__classes_t classes;
    lull_codec_scratch_t *scratch;
    lull__ring_t *ring;    /* for what is coded */
    lull__chunk_t *chunks; /* one for each of its slots */
    char *raw;             /* a frame's values that lie in two chunks */
    char *frame;           /* a frame that does not fit its slot */
    /* The save at hand. */
    lull_ckpt_request_t *save;
    size_t item;        /* index into save->order */
    uint64_t done;      /* raw bytes of it that were taken */
    uint64_t raw_fill;  /* bytes at `raw` */
    uint64_t at;        /* bytes of the file's data so far */
    lull__chunk_t *out; /* being filled: out->bytes; NULL: none */
    double waited, busy;
    int64_t saved; /* raw bytes less stored ones */
};

/* ---- output ---- */

/* With the lock held, before the chunk goes. */
static void count(lull__encoder_t *encoder) {
    lull_ckpt_stats_t *stats = &encoder->ckpt->stats;
    stats->encode_s += encoder->busy;
    encoder->busy = 0;
}

static void submit(lull__encoder_t *encoder) {
    lull_ckpt_t *ckpt = encoder->ckpt;
    lull__chunk_t *out = encoder->out;
    const char *data = lull__ring_data(out->ring, out->slot);
    for (uint64_t at = 0; at < out->bytes; at += LULL__BLOCK_BYTES) {
        uint64_t n = out->bytes - at;
        if (n > LULL__BLOCK_BYTES)
            n = LULL__BLOCK_BYTES;
        out->file->hashes[(out->begin + at) / LULL__BLOCK_BYTES] =
            lull__hash_of(data + at, n);
    }
    encoder->out = NULL;
    pthread_mutex_lock(&ckpt->lock);
    out->save->writing++;
    lull__chunk_ready(out);
    pthread_mutex_unlock(&ckpt->lock);
}

static lull__data_file_t *file_of(const lull__encoder_t *encoder) {
    const lull_ckpt_request_t *save = encoder->save;
    return &save->files[save->order[encoder->item]->shard.file];
}

/* A slot to write to. */
static lull_status_t need_out(lull__encoder_t *encoder) {
    uint32_t slot;
    if (encoder->out != NULL)
        return LULL_OK;
    double from = lull__now();
    if (!lull__ring_take(encoder->ring, &slot, &encoder->waited))
        return lull__fail(LULL_ERR_CANCELLED, "the engine was destroyed");
    encoder->busy -= lull__now() - from;
    lull__chunk_t *out = &encoder->chunks[slot];
    out->ring = encoder->ring;
    out->slot = slot;
    out->save = encoder->save;
    out->file = file_of(encoder);
    out->begin = encoder->at;
    out->bytes = 0;
    encoder->out = out;
    return LULL_OK;
}

static char *out_end(const lull__encoder_t *encoder) {
    const lull__chunk_t *out = encoder->out;
    return (char *)lull__ring_data(out->ring, out->slot) + out->bytes;
}

/* `n` more bytes are at out_end(). */
static void took(lull__encoder_t *encoder, uint64_t n) {
    encoder->at += n;
    encoder->out->bytes += n;
    if (encoder->out->bytes == OUT_SLOT_BYTES)
        submit(encoder);
}

static lull_status_t put(lull__encoder_t *encoder, const char *data,
                         uint64_t bytes) {
    while (bytes > 0) {
        lull_status_t status = need_out(encoder);
        if (status != LULL_OK)
            return status;
        uint64_t n = OUT_SLOT_BYTES - encoder->out->bytes;
        if (n > bytes)
            n = bytes;
        memcpy(out_end(encoder), data, n);
        took(encoder, n);
        data += n;
        bytes -= n;
    }
    return LULL_OK;
}

/* ---- frames ---- */

static lull_status_t put_frame(lull__encoder_t *encoder, const char *values,
                               uint64_t bytes) {
    const lull__item_t *item = encoder->save->order[encoder->item];
    const lull_codec_t *codec = &item->coding->codec;
    uint64_t count = bytes * 8 / lull_dtype_bits(codec->dtype);
    size_t bound;
    lull_status_t status = need_out(encoder);
    if (status == LULL_OK)
        status = lull_frame_bound(codec, count, &bound);
    if (status != LULL_OK)
        return status;
    bool direct = OUT_SLOT_BYTES - encoder->out->bytes >= bound;
    lull_buffer_t to = {.data = direct ? out_end(encoder) : encoder->frame,
                        .capacity = bound};
    status = lull_frame_encode(codec, values, count, 0, &to, encoder->scratch);
    if (status != LULL_OK)
        return status;
    item->frames[(encoder->done - bytes) / LULL__FRAME_BYTES] = to.bytes;
    encoder->saved += (int64_t)bytes - (int64_t)to.bytes;
    if (!direct)
        return put(encoder, encoder->frame, to.bytes);
    took(encoder, to.bytes);
    return LULL_OK;
}

/* Takes at most `bytes` values of the item, up to the end of a frame. */
static lull_status_t take_coded(lull__encoder_t *encoder, const char *data,
                                uint64_t bytes, uint64_t *taken) {
    const lull__item_t *item = encoder->save->order[encoder->item];
    uint64_t begin = encoder->done - encoder->raw_fill;
    uint64_t frame = item->bytes - begin;
    if (frame > LULL__FRAME_BYTES)
        frame = LULL__FRAME_BYTES;
    uint64_t want = frame - encoder->raw_fill;
    *taken = bytes < want ? bytes : want;
    encoder->done += *taken;
    if (*taken == frame)
        return put_frame(encoder, data, frame);
    memcpy(encoder->raw + encoder->raw_fill, data, *taken);
    encoder->raw_fill += *taken;
    if (encoder->raw_fill < frame)
        return LULL_OK;
    encoder->raw_fill = 0;
    return put_frame(encoder, encoder->raw, frame);
}

static lull_status_t take_raw(lull__encoder_t *encoder, const char *data,
                              uint64_t bytes, uint64_t *taken) {
    const lull__item_t *item = encoder->save->order[encoder->item];
    uint64_t left = item->bytes - encoder->done;
    *taken = bytes < left ? bytes : left;
    encoder->done += *taken;
    return put(encoder, data, *taken);
}

/* ---- items, files, saves ---- */

static void end_file(lull__encoder_t *encoder, uint32_t file) {
    encoder->save->files[file].data_bytes = encoder->at;
    if (encoder->out != NULL)
        submit(encoder);
    encoder->at = 0;
}

/* Goes on to the next item that has bytes left, or behind the last. */
static void settle_items(lull__encoder_t *encoder) {
    lull_ckpt_request_t *save = encoder->save;
    while (encoder->item < save->item_count) {
        lull__shard_t *shard = &save->order[encoder->item]->shard;
        if (encoder->done < save->order[encoder->item]->bytes)
            return;
        shard->end = encoder->at;
        encoder->item++;
        encoder->done = 0;
        bool last = encoder->item == save->item_count;
        uint32_t next =
            last ? shard->file + 1 : save->order[encoder->item]->shard.file;
        if (next != shard->file)
            end_file(encoder, shard->file);
        if (!last)
            save->order[encoder->item]->shard.begin = encoder->at;
    }
}

static lull_status_t feed(lull__encoder_t *encoder, const char *data,
                          uint64_t bytes) {
    lull_status_t status = LULL_OK;
    while (status == LULL_OK && bytes > 0) {
        uint64_t taken;
        settle_items(encoder);
        status = encoder->save->order[encoder->item]->coding != NULL
                     ? take_coded(encoder, data, bytes, &taken)
                     : take_raw(encoder, data, bytes, &taken);
        data += taken;
        bytes -= taken;
    }
    return status;
}

static void begin_save(lull__encoder_t *encoder, lull_ckpt_request_t *save) {
    encoder->save = save;
    encoder->item = 0;
    encoder->done = encoder->raw_fill = encoder->at = encoder->saved = 0;
    if (save->item_count > 0)
        save->order[0]->shard.begin = 0;
}

/* ---- the thread ---- */

bool lull__encode_room(lull_ckpt_t *ckpt) {
    if (ckpt->encoder == NULL || ckpt->coding < lull__ring_slots(ckpt->ring))
        return true;
    if (ckpt->full_s == 0)
        ckpt->full_s = lull__now();
    return false;
}

void lull__encode_ready(lull__chunk_t *chunk) {
    chunk->next = chunk->save->raw;
    chunk->save->raw = chunk;
    pthread_cond_broadcast(&chunk->save->ckpt->changed);
}

/* With the lock held. Once its slot is given, the chunk is another's: a
 * copier that waits for a slot does not wait for the lock. */
static void give_back(lull_ckpt_t *ckpt, lull__chunk_t *chunk) {
    chunk->save->writing--;
    lull__ring_give(chunk->ring, chunk->slot);
    ckpt->coding--;
    if (ckpt->full_s != 0)
        ckpt->stats.backpressure_s += lull__now() - ckpt->full_s;
    ckpt->full_s = 0;
    pthread_cond_broadcast(&ckpt->changed);
}

/* With the lock held: the save's next chunk, taken off its list, or NULL. */
static lull__chunk_t *next_chunk(lull_ckpt_request_t *save) {
    uint64_t slot = lull__ring_slot_bytes(save->ckpt->ring);
    lull__chunk_t **at = &save->raw;
    for (; *at != NULL; at = &(*at)->next) {
        lull__chunk_t *chunk = *at;
        if (chunk->file->first_chunk + chunk->begin / slot != save->next_coded)
            continue;
        *at = chunk->next;
        return chunk;
    }
    return NULL;
}

/* With the lock held: is it time? Not while copying could go on alone. */
static bool may_begin(const lull_ckpt_request_t *save) {
    const lull_ckpt_t *ckpt = save->ckpt;
    return save->next_coded > 0 || save->copied ||
           ckpt->coding >= lull__ring_slots(ckpt->ring) ||
           save->bytes > lull__ring_bytes(ckpt->ring);
}

static lull_ckpt_request_t *first_uncoded(lull_ckpt_t *ckpt) {
    lull_ckpt_request_t *save = ckpt->pending;
    while (save != NULL && save->coded)
        save = save->next;
    return save;
}

static void set_coded(lull__encoder_t *encoder, lull_ckpt_request_t *save) {
    if (encoder->save == save && save->status == LULL_OK)
        encoder->ckpt->stats.bytes_saved += encoder->saved;
    encoder->save = NULL;
    save->coded = true;
    pthread_cond_broadcast(&encoder->ckpt->changed);
}

/* With the lock held: lets go of a failed save. False: not all of its copies
 * are over. */
static bool drop(lull__encoder_t *encoder, lull_ckpt_request_t *save) {
    while (save->raw != NULL) {
        lull__chunk_t *chunk = save->raw;
        save->raw = chunk->next;
        give_back(encoder->ckpt, chunk);
    }
    if (encoder->out != NULL)
        lull__ring_give(encoder->ring, encoder->out->slot);
    encoder->out = NULL;
    if (save->copied)
        set_coded(encoder, save);
    return save->copied;
}

/* The lock is held, and let go meanwhile. */
static void encode_chunk(lull__encoder_t *encoder, lull__chunk_t *chunk) {
    lull_ckpt_t *ckpt = encoder->ckpt;
    lull_ckpt_request_t *save = chunk->save;
    if (save->next_coded++ == 0)
        begin_save(encoder, save);
    pthread_mutex_unlock(&ckpt->lock);
    double from = lull__now();
    lull_status_t status =
        feed(encoder, lull__ring_data(chunk->ring, chunk->slot), chunk->bytes);
    encoder->busy += lull__now() - from;
    if (status != LULL_OK)
        lull__save_fail(save, status);
    pthread_mutex_lock(&ckpt->lock);
    give_back(ckpt, chunk);
    count(encoder);
}

/* All is coded but what has no bytes. The lock is held, and let go. */
static void end_save(lull__encoder_t *encoder, lull_ckpt_request_t *save) {
    lull_ckpt_t *ckpt = encoder->ckpt;
    if (save->next_coded == 0)
        begin_save(encoder, save);
    pthread_mutex_unlock(&ckpt->lock);
    settle_items(encoder);
    pthread_mutex_lock(&ckpt->lock);
    set_coded(encoder, save);
}

/* One thing to do, with the lock held; false: nothing now. */
static bool step(lull__encoder_t *encoder) {
    lull_ckpt_t *ckpt = encoder->ckpt;
    lull_ckpt_request_t *save = first_uncoded(ckpt);
    if (save == NULL || !save->planned)
        return false;
    if (save->status != LULL_OK || ckpt->cancel)
        return drop(encoder, save);
    if (save->next_coded == save->chunk_count && save->copied) {
        end_save(encoder, save);
        return true;
    }
    lull__chunk_t *chunk = may_begin(save) ? next_chunk(save) : NULL;
    if (chunk != NULL)
        encode_chunk(encoder, chunk);
    return chunk != NULL;
}

void *lull__encode_thread(void *arg) {
    lull__encoder_t *encoder = arg;
    lull_ckpt_t *ckpt = encoder->ckpt;
    pthread_mutex_lock(&ckpt->lock);
    while (!ckpt->stop)
        if (!step(encoder))
            pthread_cond_wait(&ckpt->changed, &ckpt->lock);
    pthread_mutex_unlock(&ckpt->lock);
    return NULL;
}

/* ---- plan ---- */

/* Bytes of the frame of `bytes` values at most. */
static uint64_t frame_bound(const lull__item_t *item, uint64_t bytes) {
    const lull_codec_t *codec = &item->coding->codec;
    size_t bound = 0;
    (void)lull_frame_bound(codec, bytes * 8 / lull_dtype_bits(codec->dtype),
                           &bound);
    return bound;
}

static lull_status_t plan_item(lull_ckpt_request_t *save, lull__item_t *item) {
    const lull__classes_t *classes = &save->ckpt->encoder->classes;
    lull__shard_t *shard = &item->shard;
    if (shard->kind != LULL__SHARD_TENSOR || item->bytes == 0)
        return LULL_OK;
    item->coding = lull__classes_find(classes, shard->name, shard->dtype);
    if (item->coding == NULL)
        return LULL_OK;
    uint64_t frames = (item->bytes + LULL__FRAME_BYTES - 1) / LULL__FRAME_BYTES;
    item->frames =
        lull__arena_alloc(&save->arena, frames * sizeof *item->frames);
    if (item->frames == NULL)
        return lull__fail(LULL_ERR_NO_MEMORY, "tensor '%.200s': its frames",
                          shard->name);
    memset(item->frames, 0, frames * sizeof *item->frames);
    shard->codec = item->coding->spec;
    shard->frames = item->frames;
    shard->frame_count = frames;
    item->most =
        (frames - 1) * frame_bound(item, LULL__FRAME_BYTES) +
        frame_bound(item, item->bytes - (frames - 1) * LULL__FRAME_BYTES);
    return LULL_OK;
}

lull_status_t lull__encode_plan(lull_ckpt_request_t *save) {
    lull_status_t status = LULL_OK;
    for (size_t i = 0; status == LULL_OK && i < save->item_count; i++) {
        save->items[i].most = save->items[i].bytes;
        if (save->ckpt->encoder != NULL)
            status = plan_item(save, &save->items[i]);
    }
    return status;
}

/* ---- create ---- */

lull_status_t lull__encoder_create(lull_ckpt_t *ckpt,
                                   const lull__classes_t *classes,
                                   lull__encoder_t **out) {
    *out = NULL;
    if (!classes->any)
        return LULL_OK;
    lull__encoder_t *encoder = calloc(1, sizeof *encoder);
    if (encoder == NULL)
        return lull__fail(LULL_ERR_NO_MEMORY, "the encoder");
    encoder->ckpt = ckpt;
    encoder->classes = *classes;
    encoder->chunks = calloc(OUT_SLOTS, sizeof *encoder->chunks);
    encoder->raw = malloc(LULL__FRAME_BYTES);
    encoder->frame = malloc(classes->frame_most);
    lull_status_t status = LULL_OK;
    if (!encoder->chunks || !encoder->raw || !encoder->frame)
        status = lull__fail(LULL_ERR_NO_MEMORY, "the encoder");
    if (status == LULL_OK)
        status = lull_codec_scratch_create(&encoder->scratch);
    if (status == LULL_OK)
        status = lull__ring_create_slots(lull__device_host(), OUT_SLOT_BYTES,
                                         OUT_SLOTS, &encoder->ring);
    if (status != LULL_OK) {
        lull__encoder_destroy(encoder);
        return status;
    }
    *out = encoder;
    return LULL_OK;
}

void lull__encoder_cancel(lull__encoder_t *encoder) {
    if (encoder != NULL)
        lull__ring_cancel(encoder->ring);
}

void lull__encoder_destroy(lull__encoder_t *encoder) {
    if (encoder == NULL)
        return;
    lull__ring_destroy(encoder->ring);
    lull_codec_scratch_destroy(encoder->scratch);
    free(encoder->frame);
    free(encoder->raw);
    free(encoder->chunks);
    free(encoder);
}
