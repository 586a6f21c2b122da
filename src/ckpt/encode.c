/* The thread that codes: raw chunks in, frames out. See encode.h. */
#include "encode.h"

#include <stdlib.h>
#include <string.h>

#include "base/checksum.h"
#include "team.h"

#define OUT_SLOT_BYTES ((uint64_t)4 << 20) /* what one write takes */
#define OUT_SLOTS 3 /* one is filled while two are written */

struct lull__encoder {
    lull_ckpt_t *ckpt;
    lull__classes_t classes;
    lull__team_t *team;    /* that codes */
    lull__ring_t *ring;    /* for what is coded */
    lull__chunk_t *chunks; /* one for each of its slots */
    /* The save at hand: what goes to the team. */
    lull_ckpt_request_t *save;
    size_t item;       /* index into save->order */
    uint64_t done;     /* raw bytes of it that were taken */
    uint64_t raw_fill; /* bytes in the room of the open frame */
    /* ... and what comes from it. */
    size_t placed;      /* index into save->order: items before it are over */
    uint64_t at;        /* bytes of the file's data so far */
    lull__chunk_t *out; /* being filled: out->bytes; NULL: none */
    double waited, busy;
    int64_t saved; /* raw bytes less stored ones */
};

/* ---- output ---- */

/* With the lock held, before the chunk goes. */
static void count(lull__encoder_t *encoder) {
    lull_ckpt_stats_t *stats = &encoder->ckpt->stats;
    stats->encode_s += encoder->busy + lull__team_busy(encoder->team);
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
    return &save->files[save->order[encoder->placed]->shard.file];
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

/* ---- items and files, as they are placed ---- */

static void end_file(lull__encoder_t *encoder, uint32_t file) {
    encoder->save->files[file].data_bytes = encoder->at;
    if (encoder->out != NULL)
        submit(encoder);
    encoder->at = 0;
}

/* All items before `item` are over. */
static void place_upto(lull__encoder_t *encoder, size_t item) {
    lull_ckpt_request_t *save = encoder->save;
    while (encoder->placed < item) {
        lull__shard_t *shard = &save->order[encoder->placed++]->shard;
        bool last = encoder->placed == save->item_count;
        uint32_t next =
            last ? shard->file + 1 : save->order[encoder->placed]->shard.file;
        shard->end = encoder->at;
        if (next != shard->file)
            end_file(encoder, shard->file);
        if (!last)
            save->order[encoder->placed]->shard.begin = encoder->at;
    }
}

/* ---- frames ---- */

/* With the engine's lock held: gives back a list of chunks. */
static void give_back_all(lull_ckpt_t *ckpt, lull__chunk_t *chunk);

/* Where the next frame may be coded at once; data NULL: elsewhere. */
static lull_status_t find_place(lull__encoder_t *encoder, lull_buffer_t *out) {
    const lull__team_frame_t *frame = lull__team_unbegun(encoder->team);
    size_t bound;
    *out = (lull_buffer_t){0};
    if (frame == NULL)
        return LULL_OK;
    place_upto(encoder, frame->item);
    lull_status_t status = need_out(encoder);
    if (status == LULL_OK)
        status = lull_frame_bound(
            frame->codec,
            frame->bytes * 8 / lull_dtype_bits(frame->codec->dtype), &bound);
    if (status == LULL_OK && OUT_SLOT_BYTES - encoder->out->bytes >= bound)
        *out = (lull_buffer_t){.data = out_end(encoder), .capacity = bound};
    return status;
}

static lull_status_t place_frame(lull__encoder_t *encoder,
                                 const lull__team_frame_t *frame,
                                 const lull_buffer_t *there) {
    const lull_buffer_t *coded = &frame->coded;
    place_upto(encoder, frame->item);
    if (frame->codec == NULL)
        return put(encoder, frame->values, frame->bytes);
    encoder->save->order[frame->item]->frames[frame->index] = coded->bytes;
    encoder->saved += (int64_t)frame->bytes - (int64_t)coded->bytes;
    if (there->data == NULL || coded->data != there->data)
        return put(encoder, coded->data, coded->bytes);
    took(encoder, coded->bytes);
    return LULL_OK;
}

static void let_go(lull__encoder_t *encoder, lull__team_frame_t *frame) {
    lull_ckpt_t *ckpt = encoder->ckpt;
    lull__chunk_t *held = frame->held;
    frame->held = NULL;
    if (held == NULL)
        return;
    pthread_mutex_lock(&ckpt->lock);
    give_back_all(ckpt, held);
    pthread_mutex_unlock(&ckpt->lock);
}

/* The oldest frame goes to its place in the file. The engine's lock is not
 * held. False in *some: there was none. */
static lull_status_t place_one(lull__encoder_t *encoder, bool *some) {
    lull__team_frame_t *frame;
    lull_buffer_t there;
    double waited = 0;
    lull_status_t status = find_place(encoder, &there);
    *some = false;
    if (status != LULL_OK)
        return status;
    status = lull__team_take(encoder->team, there.data ? &there : NULL, &waited,
                             &frame);
    encoder->busy -= waited;
    if (frame == NULL)
        return LULL_OK;
    *some = true;
    if (status == LULL_OK)
        status = place_frame(encoder, frame, &there);
    let_go(encoder, frame);
    return status;
}

/* The frame that is filled next. */
static lull_status_t need_frame(lull__encoder_t *encoder,
                                lull__team_frame_t **out) {
    bool some;
    *out = lull__team_open(encoder->team);
    while (*out == NULL) {
        lull_status_t status = place_one(encoder, &some);
        if (status != LULL_OK)
            return status;
        *out = lull__team_open(encoder->team);
    }
    return LULL_OK;
}

static void submit_frame(lull__encoder_t *encoder, lull__team_frame_t *frame,
                         const char *values, uint64_t bytes) {
    const lull__item_t *item = encoder->save->order[encoder->item];
    frame->codec = item->coding != NULL ? &item->coding->codec : NULL;
    frame->values = values;
    frame->bytes = bytes;
    frame->item = encoder->item;
    frame->index = (encoder->done - bytes) / LULL__FRAME_BYTES;
    frame->held = NULL;
    lull__team_submit(encoder->team);
}

/* Takes at most `bytes` values of the item, up to the end of a frame. */
static uint64_t take_coded(lull__encoder_t *encoder, lull__team_frame_t *frame,
                           const char *data, uint64_t bytes) {
    const lull__item_t *item = encoder->save->order[encoder->item];
    uint64_t begin = encoder->done - encoder->raw_fill;
    uint64_t all = item->bytes - begin;
    if (all > LULL__FRAME_BYTES)
        all = LULL__FRAME_BYTES;
    uint64_t want = all - encoder->raw_fill;
    uint64_t taken = bytes < want ? bytes : want;
    encoder->done += taken;
    if (taken == all) {
        submit_frame(encoder, frame, data, all);
        return taken;
    }
    memcpy(frame->raw + encoder->raw_fill, data, taken);
    encoder->raw_fill += taken;
    if (encoder->raw_fill == all) {
        encoder->raw_fill = 0;
        submit_frame(encoder, frame, frame->raw, all);
    }
    return taken;
}

static uint64_t take_raw(lull__encoder_t *encoder, lull__team_frame_t *frame,
                         const char *data, uint64_t bytes) {
    const lull__item_t *item = encoder->save->order[encoder->item];
    uint64_t left = item->bytes - encoder->done;
    uint64_t taken = bytes < left ? bytes : left;
    encoder->done += taken;
    submit_frame(encoder, frame, data, taken);
    return taken;
}

static lull_status_t feed(lull__encoder_t *encoder, const char *data,
                          uint64_t bytes) {
    lull_ckpt_request_t *save = encoder->save;
    while (bytes > 0) {
        lull__team_frame_t *frame;
        while (encoder->done == save->order[encoder->item]->bytes) {
            encoder->item++;
            encoder->done = 0;
        }
        lull_status_t status = need_frame(encoder, &frame);
        if (status != LULL_OK)
            return status;
        uint64_t taken = save->order[encoder->item]->coding != NULL
                             ? take_coded(encoder, frame, data, bytes)
                             : take_raw(encoder, frame, data, bytes);
        data += taken;
        bytes -= taken;
    }
    return LULL_OK;
}

static void begin_save(lull__encoder_t *encoder, lull_ckpt_request_t *save) {
    encoder->save = save;
    encoder->item = encoder->placed = 0;
    encoder->done = encoder->raw_fill = encoder->at = 0;
    encoder->saved = 0;
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

static void give_back_all(lull_ckpt_t *ckpt, lull__chunk_t *chunk) {
    while (chunk != NULL) {
        lull__chunk_t *next = chunk->next;
        give_back(ckpt, chunk);
        chunk = next;
    }
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

/* The lock is held, and let go: what the team has is for nothing. */
static void drop_frames(lull__encoder_t *encoder) {
    lull_ckpt_t *ckpt = encoder->ckpt;
    lull__team_frame_t *frame;
    pthread_mutex_unlock(&ckpt->lock);
    while ((frame = lull__team_drop(encoder->team)) != NULL)
        let_go(encoder, frame);
    pthread_mutex_lock(&ckpt->lock);
}

/* With the lock held: lets go of a failed save. False: not all of its copies
 * are over. */
static bool drop(lull__encoder_t *encoder, lull_ckpt_request_t *save) {
    drop_frames(encoder);
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

/* Of a chunk that is fed: its slot is free once the frames are placed that have
 * values in it. */
static void hold(lull__encoder_t *encoder, lull__chunk_t *chunk) {
    lull__team_frame_t *last = lull__team_last(encoder->team);
    if (last == NULL) {
        give_back(encoder->ckpt, chunk);
        return;
    }
    chunk->next = last->held;
    last->held = chunk;
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
    hold(encoder, chunk);
    count(encoder);
}

/* No chunk is there: a frame that the team has goes to its place, for the slots
 * that it holds may be what is waited for. False: it has none. The lock is
 * held, and let go. */
static bool place_rest(lull__encoder_t *encoder, lull_ckpt_request_t *save) {
    lull_ckpt_t *ckpt = encoder->ckpt;
    if (encoder->save != save || lull__team_last(encoder->team) == NULL)
        return false;
    pthread_mutex_unlock(&ckpt->lock);
    double from = lull__now();
    bool some;
    lull_status_t status = place_one(encoder, &some);
    encoder->busy += lull__now() - from;
    if (status != LULL_OK)
        lull__save_fail(save, status);
    pthread_mutex_lock(&ckpt->lock);
    count(encoder);
    return true;
}

/* All is placed but what has no bytes. The lock is held, and let go. */
static void end_save(lull__encoder_t *encoder, lull_ckpt_request_t *save) {
    lull_ckpt_t *ckpt = encoder->ckpt;
    if (save->next_coded == 0)
        begin_save(encoder, save);
    pthread_mutex_unlock(&ckpt->lock);
    place_upto(encoder, save->item_count);
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
    lull__chunk_t *chunk = may_begin(save) ? next_chunk(save) : NULL;
    if (chunk != NULL)
        encode_chunk(encoder, chunk);
    if (chunk != NULL || place_rest(encoder, save))
        return true;
    if (save->next_coded < save->chunk_count || !save->copied)
        return false;
    end_save(encoder, save);
    return true;
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
    shard->frame_count = (uint32_t)frames;
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
    lull__thread_options_t how = {ckpt->cpus, ckpt->options.cpu_count,
                                  ckpt->options.nice};
    lull_status_t status = LULL_OK;
    if (encoder->chunks == NULL)
        status = lull__fail(LULL_ERR_NO_MEMORY, "the encoder");
    if (status == LULL_OK)
        status =
            lull__team_create(ckpt->options.encode_threads, LULL__FRAME_BYTES,
                              classes->frame_most, &how, &encoder->team);
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
    lull__team_destroy(encoder->team);
    free(encoder->chunks);
    free(encoder);
}
