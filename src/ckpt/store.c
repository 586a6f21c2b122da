/* Opener: directory, space, files. Writes of chunks. Finisher: header, length,
 * fsync, vote. */
#include <fcntl.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "encode.h"
#include "engine.h"
#include "note.h"
#include "safetensors.h"

/* ---- opening ---- */

static bool planned(const lull_ckpt_request_t *save) {
    return save->planned;
}

/* Has rank 0 decided against this save already? LULL_OK: not that we know. */
static lull_status_t look_for_abort(lull_ckpt_request_t *save) {
    lull_ckpt_t *ckpt = save->ckpt;
    lull__entry_name_t name;
    lull__note_t note;
    lull__note_verdict(name, ckpt->run_id, save->number);
    if (lull__note_read(&ckpt->lull_dir, name, &note) != LULL_OK ||
        note.status == LULL_OK)
        return LULL_OK;
    return lull__note_fail(LULL_ERR_ABORTED, save->step, note.text);
}

static lull_status_t rank0_is_late(lull_ckpt_request_t *save) {
    return lull__fail(LULL_ERR_TIMEOUT,
                      "%s/%s: rank 0 did not create it within %.0f s",
                      save->ckpt->dir_path, save->dir_name,
                      save->ckpt->options.commit_timeout_s);
}

/* Waits for the saves before this one, and until what they let go is deleted:
 * then a disk has the room it can have. */
static void await_room(lull_ckpt_request_t *save) {
    lull_ckpt_t *ckpt = save->ckpt;
    pthread_mutex_lock(&ckpt->lock);
    while (ckpt->pending != save && !ckpt->cancel)
        pthread_cond_wait(&ckpt->changed, &ckpt->lock);
    pthread_mutex_unlock(&ckpt->lock);
    lull__deleter_wait(ckpt->deleter);
}

/* Those that write where this rank deletes. */
static uint64_t ranks_here(const lull_ckpt_t *ckpt) {
    uint64_t ranks = 0;
    if (!ckpt->leads)
        return 1;
    if (ckpt->place_of == NULL)
        return ckpt->options.world;
    for (uint32_t r = 0; r < ckpt->options.world; r++)
        ranks += ckpt->place_of[r] == ckpt->place_of[ckpt->options.rank];
    return ranks;
}

/* `in`: DIR, or the save's own. Who leads waits while there may be too little
 * for all ranks, of which each has about as much. How small tensors get by
 * coding shows only then: what might not fit is tried. */
static lull_status_t check_space(lull_ckpt_request_t *save,
                                 const lull__dir_t *in) {
    const lull__io_t *io = save->ckpt->io;
    uint64_t ranks = ranks_here(save->ckpt);
    uint64_t have, need = (uint64_t)1 << 20; /* index, manifest, directories */
    uint64_t most = need;
    for (size_t f = 0; f < save->file_count; f++) {
        need += save->files[f].room + save->files[f].sure_bytes;
        most += save->files[f].room + save->files[f].most_bytes;
    }
    int rc = io->ops->space(io, in->fd, &have);
    if (rc == 0 && have / ranks < most) {
        await_room(save);
        rc = io->ops->space(io, in->fd, &have);
    }
    save->tight = rc == 0 && have / ranks < most;
    if (rc == 0 && have < need)
        return lull__fail(LULL_ERR_NO_SPACE,
                          "%s: step %" PRIu64 " needs %" PRIu64
                          " bytes, %" PRIu64 " are free",
                          save->ckpt->dir_path, save->step, need, have);
    return LULL_OK; /* a file system that cannot tell is tried */
}

/* Who leads creates the directory of a save, when there is room in DIR, as only
 * it deletes; the others wait for it. */
static lull_status_t open_dir(lull_ckpt_request_t *save) {
    lull_ckpt_t *ckpt = save->ckpt;
    lull_status_t status;
    if (ckpt->leads) {
        status = check_space(save, &ckpt->dir);
        if (status == LULL_OK)
            status = lull__dir_create(&ckpt->dir, save->dir_name, false);
        return status != LULL_OK
                   ? status
                   : lull__dir_open_at(&ckpt->dir, save->dir_name, &save->dir);
    }
    double begin = lull__now();
    double deadline = begin + ckpt->options.commit_timeout_s;
    for (;;) {
        bool late = lull__now() > deadline; /* before it looks */
        status = lull__engine_dirs(ckpt);
        if (status == LULL_OK)
            status = lull__dir_open_at(&ckpt->dir, save->dir_name, &save->dir);
        if (status != LULL_ERR_NOT_FOUND)
            return status;
        if (ckpt->lull_dir.fd >= 0 &&
            ((status = look_for_abort(save)) != LULL_OK ||
             (status = lull__engine_there(ckpt)) != LULL_OK))
            return status;
        if (late)
            return rank0_is_late(save);
        if (!lull__engine_nap(ckpt, begin))
            return lull__fail(LULL_ERR_CANCELLED, "the engine was destroyed");
    }
}

/* Blocks for all that a file may get, so that the file system does not extend
 * it write by write, too. Of what is coded only where there is plenty: it will
 * take less. */
static lull_status_t reserve(const lull_ckpt_request_t *save,
                             const lull__data_file_t *file) {
    bool coded = file->sure_bytes < file->most_bytes;
    if (!file->is_direct || (coded && save->tight))
        return LULL_OK;
    lull_status_t status =
        lull__file_reserve(&file->plain, file->room + file->most_bytes);
    if (status != LULL_ERR_NO_SPACE || !coded)
        return status;
    /* Another took it meanwhile. Some of it may be reserved by now. */
    return lull__file_truncate(&file->plain, 0);
}

static lull_status_t open_files(lull_ckpt_request_t *save) {
    lull_status_t status = LULL_OK;
    for (size_t f = 0; status == LULL_OK && f < save->file_count; f++) {
        lull__data_file_t *file = &save->files[f];
        status = lull__file_open(&save->dir, file->name,
                                 O_RDWR | O_CREAT | O_TRUNC, &file->plain);
        if (status == LULL_OK && file->most_bytes > 0)
            status = lull__direct_open(&file->plain, &save->ckpt->direct_writes,
                                       &file->direct);
        file->is_direct = file->direct.fd >= 0;
        if (status == LULL_OK)
            status = reserve(save, file);
    }
    return status;
}

static lull_status_t open_save(lull_ckpt_request_t *save) {
    lull__naming_partial(save->dir_name, save->step, save->ckpt->run_id,
                         save->number);
    lull_status_t status = lull__save_status(save);
    if (status == LULL_OK)
        status = open_dir(save);
    if (status == LULL_OK && !save->ckpt->leads)
        status = check_space(save, &save->dir);
    if (status == LULL_OK)
        status = open_files(save);
    return status;
}

/* When rank 0 has aborted, and taken the directory away, its reason is the
 * better one. */
static lull_status_t first_cause(lull_ckpt_request_t *save,
                                 lull_status_t status) {
    char sentence[LULL__SENTENCE_MAX];
    if (status == LULL_OK || save->ckpt->leads || save->ckpt->lull_dir.fd < 0)
        return status;
    snprintf(sentence, sizeof sentence, "%s", lull_last_error());
    if (save->voted && save->ckpt->options.agree != NULL)
        return status;
    if (save->voted) /* rank 0 may publish it all the same */
        return lull__fail(LULL_ERR_DURABILITY_UNKNOWN, "after the vote: %.900s",
                          sentence);
    lull_status_t aborted = look_for_abort(save);
    if (aborted != LULL_OK)
        return aborted;
    lull__error_set(sentence);
    return status;
}

/* ---- chunks ---- */

static void chunk_done(lull__io_job_t *job, lull_status_t status) {
    lull__chunk_t *chunk = (lull__chunk_t *)job; /* job comes first */
    lull_ckpt_request_t *save = chunk->save;
    lull_ckpt_t *ckpt = save->ckpt;
    if (status != LULL_OK)
        lull__save_fail(save, status);
    uint64_t bytes = status == LULL_OK ? chunk->bytes : 0;
    lull__ring_give(chunk->ring, chunk->slot);
    pthread_mutex_lock(&ckpt->lock);
    save->bytes_written += bytes;
    ckpt->stats.bytes_written += bytes;
    save->written_s = lull__now();
    if (--save->writing == 0)
        pthread_cond_broadcast(&ckpt->changed);
    pthread_mutex_unlock(&ckpt->lock);
}

_Static_assert(offsetof(lull__chunk_t, job) == 0, "a job is its chunk");

static void write_chunk(lull__chunk_t *chunk) {
    lull__data_file_t *file = chunk->file;
    lull__io_job_t *job = &chunk->job;
    job->data = lull__ring_data(chunk->ring, chunk->slot);
    job->file = file->is_direct ? &file->direct : &file->plain;
    job->offset = file->room + chunk->begin;
    job->bytes = chunk->bytes;
    job->done = chunk_done;
    if (file->is_direct)
        job->bytes = lull__direct_pad(lull__ring_data(chunk->ring, chunk->slot),
                                      job->bytes);
    lull__io_queue_write(chunk->save->ckpt->queue, job);
}

void lull__chunk_ready(lull__chunk_t *chunk) {
    lull_ckpt_request_t *save = chunk->save;
    if (save->ckpt->encoder != NULL && chunk->ring == save->ckpt->ring) {
        lull__encode_ready(chunk);
        return;
    }
    if (save->opened && save->status == LULL_OK) {
        write_chunk(chunk);
        return;
    }
    chunk->next = save->waiting;
    save->waiting = chunk;
    if (save->status != LULL_OK || save->ckpt->cancel)
        lull__chunks_drop(save);
}

void lull__chunks_drop(lull_ckpt_request_t *save) {
    while (save->waiting != NULL) {
        lull__chunk_t *chunk = save->waiting;
        save->waiting = chunk->next;
        if (--save->writing == 0)
            pthread_cond_broadcast(&save->ckpt->changed);
        lull__ring_give(chunk->ring, chunk->slot);
    }
}

/* Those that came before the files were open, in the order they came. */
static void write_waiting(lull_ckpt_request_t *save) {
    lull__chunk_t *chunk = save->waiting, *ordered = NULL;
    while (chunk != NULL) {
        lull__chunk_t *next = chunk->next;
        chunk->next = ordered;
        ordered = chunk;
        chunk = next;
    }
    save->waiting = NULL;
    while (ordered != NULL) {
        chunk = ordered;
        ordered = chunk->next;
        write_chunk(chunk);
    }
}

void *lull__open_thread(void *arg) {
    lull_ckpt_t *ckpt = arg;
    lull_ckpt_request_t *save;
    size_t begun = offsetof(lull_ckpt_request_t, opening);
    while ((save = lull__engine_next(ckpt, begun, planned)) != NULL) {
        lull_status_t status = first_cause(save, open_save(save));
        if (status != LULL_OK)
            lull__save_fail(save, status);
        pthread_mutex_lock(&ckpt->lock);
        save->opened = true;
        if (save->status == LULL_OK && !ckpt->cancel)
            write_waiting(save);
        else
            lull__chunks_drop(save);
        pthread_cond_broadcast(&ckpt->changed);
        pthread_mutex_unlock(&ckpt->lock);
    }
    return NULL;
}

/* ---- finishing ---- */

static bool written(const lull_ckpt_request_t *save) {
    const lull_ckpt_t *ckpt = save->ckpt;
    bool compared = !ckpt->options.detect_mutation || save->verified ||
                    save->status != LULL_OK || ckpt->cancel;
    bool coded = ckpt->encoder == NULL || save->coded;
    return save->opened && save->copied && coded && save->writing == 0 &&
           compared;
}

static lull_status_t write_header(lull_ckpt_request_t *save,
                                  lull__data_file_t *file) {
    lull__out_file_t sink = {&file->plain, 0};
    lull__out_t *out;
    lull_status_t status = lull__out_create(lull__out_to_file, &sink, &out);
    if (status != LULL_OK)
        return status;
    status = lull__plan_header(save, file, out);
    lull_status_t finished = lull__out_finish(out, NULL, &file->header_hash);
    lull__out_destroy(out);
    return status != LULL_OK ? status : finished;
}

/* Header, exact length, fsync: the file is done. */
static lull_status_t finish_file(lull_ckpt_request_t *save,
                                 lull__data_file_t *file) {
    lull_status_t status = write_header(save, file);
    if (status == LULL_OK)
        status =
            lull__file_truncate(&file->plain, file->room + file->data_bytes);
    double from = lull__now();
    if (status == LULL_OK)
        status = lull__file_sync(&file->plain);
    save->times.fsync_s += lull__now() - from;
    return status;
}

static void put_vote(lull_ckpt_request_t *save, lull__out_t *out) {
    lull_ckpt_t *ckpt = save->ckpt;
    lull__vote_writer_t writer;
    lull__vote_head_t head = {.save = save->number,
                              .step = save->step,
                              .world = ckpt->options.world,
                              .rank = ckpt->options.rank};
    strcpy(head.run_id, ckpt->run_id);
    lull__vote_begin(&writer, out, &head);
    for (size_t f = 0; f < save->file_count; f++) {
        const lull__data_file_t *file = &save->files[f];
        lull__vote_file_t row = {
            .name = file->name,
            .bytes = file->room + file->data_bytes,
            .header_bytes = file->room,
            .header_hash = file->header_hash,
            .hashes = file->hashes,
            .hash_count =
                (file->data_bytes + LULL__BLOCK_BYTES - 1) / LULL__BLOCK_BYTES};
        lull__vote_file(&writer, &row);
    }
    for (size_t i = 0; i < save->item_count; i++)
        lull__vote_shard(&writer, &save->order[i]->shard);
    for (size_t i = 0; i < save->alias_count; i++)
        lull__vote_alias(&writer, save->aliases[i].key, save->aliases[i].value);
    lull__vote_end(&writer, &save->times, 1);
}

static lull_status_t write_vote_temp(lull_ckpt_request_t *save,
                                     const char *temp) {
    lull__file_t file;
    lull__out_t *out;
    lull_status_t status =
        lull__file_open(&save->dir, temp, O_WRONLY | O_CREAT | O_TRUNC, &file);
    if (status != LULL_OK)
        return status;
    lull__out_file_t sink = {&file, 0};
    status = lull__out_create(lull__out_to_file, &sink, &out);
    if (status == LULL_OK) {
        put_vote(save, out);
        status = lull__out_finish(out, NULL, NULL);
        lull__out_destroy(out);
    }
    if (status == LULL_OK)
        status = lull__file_sync(&file);
    (void)lull__file_close(&file);
    return status;
}

/* From the rename on, this rank has voted and does not withdraw. */
static lull_status_t vote(lull_ckpt_request_t *save) {
    lull__entry_name_t name;
    char temp[LULL__ENTRY_MAX + 8];
    lull__naming_vote(name, save->ckpt->options.rank);
    snprintf(temp, sizeof temp, "tmp-%s", name);
    lull_status_t status = write_vote_temp(save, temp);
    if (status == LULL_OK)
        status = lull__dir_rename(&save->dir, temp, NULL, name, 0);
    if (status != LULL_OK)
        return status;
    save->voted = true;
    return lull__dir_sync(&save->dir);
}

static void fill_times(lull_ckpt_request_t *save) {
    pthread_mutex_lock(&save->ckpt->lock);
    const lull_ckpt_progress_t *at = &save->at;
    save->times.queued_s = at->copy_begin_s - at->queued_s;
    save->times.copy_s = at->snapshot_s - at->copy_begin_s;
    if (save->written_s > at->copy_begin_s)
        save->times.flush_s = save->written_s - at->copy_begin_s;
    pthread_mutex_unlock(&save->ckpt->lock);
}

static lull_status_t finish_save(lull_ckpt_request_t *save) {
    lull_status_t status = lull__save_status(save);
    for (size_t f = 0; status == LULL_OK && f < save->file_count; f++)
        status = finish_file(save, &save->files[f]);
    fill_times(save);
    if (status == LULL_OK)
        status = vote(save);
    for (size_t f = 0; f < save->file_count; f++) {
        (void)lull__file_close(&save->files[f].direct);
        (void)lull__file_close(&save->files[f].plain);
    }
    return status;
}

/* The vote has all of them that a commit asks for; it is read back there, and
 * memory is not to hold both. The detector of mutation may still be looking. */
static void drop_items(lull_ckpt_request_t *save) {
    if (save->ckpt->options.detect_mutation)
        return;
    free(save->order);
    free(save->items);
    free(save->aliases);
    lull__arena_free(&save->arena);
    save->order = NULL;
    save->items = NULL;
    save->aliases = NULL;
    save->item_count = save->alias_count = 0;
}

void *lull__finish_thread(void *arg) {
    lull_ckpt_t *ckpt = arg;
    lull_ckpt_request_t *save;
    size_t begun = offsetof(lull_ckpt_request_t, finishing);
    while ((save = lull__engine_next(ckpt, begun, written)) != NULL) {
        lull_status_t status = first_cause(save, finish_save(save));
        if (status != LULL_OK)
            lull__save_fail(save, status);
        drop_items(save);
        pthread_mutex_lock(&ckpt->lock);
        save->at.durable_s = lull__now();
        ckpt->stats.fsync_s += save->times.fsync_s;
        pthread_mutex_unlock(&ckpt->lock);
        lull__save_set(save, offsetof(lull_ckpt_request_t, finished));
    }
    return NULL;
}
