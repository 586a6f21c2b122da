/* Copying by a plan: blocks are read, verified, placed and written by a few
 * threads; then headers, lengths, fsync, and the votes. */
#include "carry.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/checksum.h"
#include "base/error.h"
#include "base/log.h"
#include "base/pages.h"
#include "pool.h"

#define CHUNK_BLOCKS 4u
#define CHUNK (CHUNK_BLOCKS * LULL__BLOCK_BYTES)
#define FILES_AT_ONCE 64u /* open */
#define THREADS_MAX 16u

typedef struct batch {
    lull__carry_t *carry;
    size_t first, count; /* files */
    char *buffers[THREADS_MAX], *blocks[THREADS_MAX];
    lull__direct_known_t known;
    lull__direct_t direct[THREADS_MAX];
    unsigned threads;
} batch_t;

/* ---- chunks ---- */

/* Reads [from, from + bytes) of a source's data to `to`, verified. `blocks`:
 * room for a chunk. */
static lull_status_t fetch(batch_t *batch, unsigned worker, size_t source,
                           uint64_t from, uint64_t bytes, char *to) {
    const lull_ckpt_info_t *info = batch->carry->info;
    uint64_t all = info->files[source].vote->bytes -
                   info->files[source].vote->header_bytes;
    lull_status_t status = LULL_OK;
    while (status == LULL_OK && bytes > 0) {
        uint64_t first = from / LULL__BLOCK_BYTES;
        uint64_t last = (from + bytes - 1) / LULL__BLOCK_BYTES;
        uint64_t count = last - first + 1;
        count = count < CHUNK_BLOCKS ? count : CHUNK_BLOCKS;
        uint64_t begin = first * LULL__BLOCK_BYTES;
        uint64_t end = begin + count * LULL__BLOCK_BYTES;
        end = end < all ? end : all;
        uint64_t n = end - from < bytes ? end - from : bytes;
        /* Whole blocks need no second place, where they can be read to. */
        bool whole = begin == from && n == end - begin &&
                     (uintptr_t)to % LULL__SECTOR == 0;
        char *at = whole ? to : batch->blocks[worker];
        status = lull__reader_blocks(info, source, first, count,
                                     &batch->direct[worker], at);
        if (status == LULL_OK)
            status = lull__reader_check_all(info, source, first, count, at);
        if (status == LULL_OK && !whole)
            memcpy(to, at + (from - begin), n);
        from += n;
        to += n;
        bytes -= n;
    }
    return status;
}

/* The first segment that ends behind `at`. */
static size_t segment_at(const lull__carry_t *carry,
                         const lull__carry_file_t *file, uint64_t at) {
    size_t low = file->segment, high = file->segment + file->segments;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        const lull__carry_segment_t *s = &carry->segments[middle];
        if (s->at + s->bytes > at)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

static lull_status_t gather(batch_t *batch, unsigned worker,
                            const lull__carry_file_t *file, uint64_t begin,
                            uint64_t bytes) {
    const lull__carry_t *carry = batch->carry;
    char *to = batch->buffers[worker];
    uint64_t at = begin, end = begin + bytes;
    lull_status_t status = LULL_OK;
    for (size_t i = segment_at(carry, file, begin);
         status == LULL_OK && at < end; i++) {
        const lull__carry_segment_t *s = &carry->segments[i];
        uint64_t skip = at - s->at, n = s->bytes - skip;
        n = n < end - at ? n : end - at;
        status = fetch(batch, worker, s->source, s->from + skip, n, to);
        to += n;
        at += n;
    }
    return status;
}

static lull_status_t put(batch_t *batch, unsigned worker,
                         const lull__carry_file_t *file, uint64_t begin,
                         uint64_t bytes) {
    const lull__carry_t *carry = batch->carry;
    char *data = batch->buffers[worker];
    const lull__file_t *to = file->is_direct ? &file->direct : &file->plain;
    if (!carry->pace(carry->ctx, bytes))
        return lull__fail(LULL_ERR_CANCELLED, "the engine was destroyed");
    if (file->is_direct)
        bytes = lull__direct_pad(data, bytes);
    return lull__file_write(to, data, bytes, file->header_bytes + begin);
}

/* The file of a task: the last whose first task is not behind it. */
static lull__carry_file_t *file_of(const batch_t *batch, size_t task) {
    lull__carry_file_t *files = batch->carry->files;
    size_t low = batch->first, high = batch->first + batch->count;
    while (high - low > 1) {
        size_t middle = low + (high - low) / 2;
        if (files[middle].task <= task)
            low = middle;
        else
            high = middle;
    }
    return &files[low];
}

static lull_status_t do_chunk(void *ctx, unsigned worker, size_t task) {
    batch_t *batch = ctx;
    lull__carry_file_t *file = file_of(batch, task);
    uint64_t begin = (task - file->task) * (uint64_t)CHUNK;
    uint64_t bytes = file->data_bytes - begin;
    bytes = bytes < CHUNK ? bytes : CHUNK;
    lull_status_t status = gather(batch, worker, file, begin, bytes);
    const char *data = batch->buffers[worker];
    uint64_t block = begin / LULL__BLOCK_BYTES;
    for (uint64_t at = 0;
         file->hashes != NULL && status == LULL_OK && at < bytes;
         at += LULL__BLOCK_BYTES) {
        uint64_t n = bytes - at;
        n = n < LULL__BLOCK_BYTES ? n : LULL__BLOCK_BYTES;
        file->hashes[block++] = lull__hash_of(data + at, n);
    }
    return status == LULL_OK ? put(batch, worker, file, begin, bytes) : status;
}

/* ---- files ---- */

static lull_status_t open_files(batch_t *batch, size_t *tasks) {
    lull__carry_t *carry = batch->carry;
    *tasks = 0;
    for (size_t i = 0; i < batch->count; i++) {
        lull__carry_file_t *file = &carry->files[batch->first + i];
        lull_status_t status = lull__file_open(
            carry->to, file->name, O_RDWR | O_CREAT | O_TRUNC, &file->plain);
        if (status == LULL_OK && file->data_bytes > 0 &&
            file->header_bytes % LULL__SECTOR == 0)
            status = lull__direct_open(&file->plain, carry->direct_writes,
                                       &file->direct);
        file->is_direct = file->direct.fd >= 0;
        if (status == LULL_OK && file->is_direct)
            status = lull__file_reserve(&file->plain,
                                        file->header_bytes + file->data_bytes);
        if (status != LULL_OK)
            return status;
        file->task = *tasks;
        *tasks += (file->data_bytes + CHUNK - 1) / CHUNK;
    }
    return LULL_OK;
}

static lull_status_t copy_header(const lull__carry_t *carry,
                                 const lull__carry_file_t *file) {
    unsigned char *header;
    lull_status_t status =
        lull__reader_header(carry->info, file->source, &header);
    if (status != LULL_OK)
        return status;
    status = lull__file_write(&file->plain, header, file->header_bytes, 0);
    free(header);
    return status;
}

static lull_status_t make_header(const lull__carry_t *carry,
                                 lull__carry_file_t *file) {
    lull__out_file_t sink = {&file->plain, 0};
    lull__out_t *out;
    lull_status_t status = lull__out_create(lull__out_to_file, &sink, &out);
    if (status != LULL_OK)
        return status;
    status = lull__carry_header(carry, file, out);
    lull_status_t finished = lull__out_finish(out, NULL, &file->header_hash);
    lull__out_destroy(out);
    return status != LULL_OK ? status : finished;
}

/* Header, exact length, fsync. */
static lull_status_t finish_file(void *ctx, unsigned worker, size_t task) {
    batch_t *batch = ctx;
    lull__carry_t *carry = batch->carry;
    lull__carry_file_t *file = &carry->files[batch->first + task];
    (void)worker;
    lull_status_t status =
        carry->made ? make_header(carry, file) : copy_header(carry, file);
    if (status == LULL_OK)
        status = lull__file_truncate(&file->plain,
                                     file->header_bytes + file->data_bytes);
    if (status == LULL_OK)
        status = lull__file_sync(&file->plain);
    return status;
}

static bool go_on(void *ctx, uint64_t done, uint64_t total) {
    lull__carry_t *carry = ctx;
    (void)done, (void)total;
    return carry->pace(carry->ctx, 0);
}

static lull_status_t run_batch(batch_t *batch) {
    lull__carry_t *carry = batch->carry;
    static const uint64_t nothing;
    lull__pool_t pool = {.threads = batch->threads,
                         .ctx = batch,
                         .fn = do_chunk,
                         .progress = go_on,
                         .progress_ctx = carry,
                         .done = &nothing};
    lull_status_t status = open_files(batch, &pool.tasks);
    if (status == LULL_OK)
        status = lull__pool_run(&pool);
    pool.fn = finish_file;
    pool.tasks = batch->count;
    if (status == LULL_OK)
        status = lull__pool_run(&pool);
    for (size_t i = 0; i < batch->count; i++) {
        (void)lull__file_close(&carry->files[batch->first + i].direct);
        (void)lull__file_close(&carry->files[batch->first + i].plain);
    }
    return status;
}

static lull_status_t run_files(lull__carry_t *carry) {
    batch_t batch = {.carry = carry};
    lull_status_t status = LULL_OK;
    batch.threads = carry->threads < THREADS_MAX ? carry->threads : THREADS_MAX;
    for (unsigned i = 0; i < batch.threads; i++) {
        batch.direct[i] = (lull__direct_t)LULL__DIRECT_INIT(&batch.known);
        batch.buffers[i] = lull__pages_alloc(CHUNK);
        batch.blocks[i] = lull__pages_alloc(CHUNK);
        if (batch.buffers[i] == NULL || batch.blocks[i] == NULL)
            status = lull__fail(LULL_ERR_NO_MEMORY, "%s: buffers of a drain",
                                carry->to->path);
    }
    for (size_t i = 0; status == LULL_OK && i < carry->file_count;
         i += batch.count) {
        size_t left = carry->file_count - i;
        batch.first = i;
        batch.count = left < FILES_AT_ONCE ? left : FILES_AT_ONCE;
        status = run_batch(&batch);
    }
    for (unsigned i = 0; i < batch.threads; i++) {
        lull__direct_close(&batch.direct[i]);
        lull__pages_free(batch.buffers[i], CHUNK);
        lull__pages_free(batch.blocks[i], CHUNK);
    }
    return status;
}

/* ---- votes and the manifest ---- */

static lull__vote_file_t vote_file(const lull__carry_t *carry,
                                   const lull__carry_file_t *file) {
    lull__vote_file_t row = {.name = file->name,
                             .bytes = file->header_bytes + file->data_bytes,
                             .header_bytes = file->header_bytes,
                             .header_hash = file->header_hash};
    row.hash_count =
        (file->data_bytes + LULL__BLOCK_BYTES - 1) / LULL__BLOCK_BYTES;
    row.hashes = file->hashes != NULL
                     ? file->hashes
                     : carry->info->files[file->source].vote->hashes;
    return row;
}

static void put_rows(const lull__carry_t *carry, const lull__carry_vote_t *vote,
                     lull__vote_writer_t *writer) {
    for (size_t i = 0; i < vote->files; i++) {
        lull__vote_file_t row = vote_file(carry, &carry->files[vote->file + i]);
        lull__vote_file(writer, &row);
    }
    for (size_t i = 0; i < vote->rows; i++) {
        const lull__carry_row_t *row = &carry->rows[vote->row + i];
        lull__shard_t shard = *row->shard;
        shard.stored = row->stored;
        shard.file = row->file;
        shard.begin = row->begin;
        shard.end = row->end;
        lull__vote_shard(writer, &shard);
    }
    for (size_t v = vote->source; v < vote->source + vote->sources; v++) {
        const lull__vote_t *old = &carry->info->ranks[v].vote;
        for (size_t i = 0; i < old->alias_count; i++)
            lull__vote_alias(writer, old->aliases[i].key,
                             old->aliases[i].value);
    }
}

static lull_status_t put_vote(const lull__carry_t *carry,
                              const lull__carry_vote_t *vote,
                              lull__out_t *out) {
    const lull_ckpt_info_t *info = carry->info;
    lull__vote_head_t head = info->ranks[vote->source].vote.head;
    lull__vote_times_t *times = calloc(vote->ranks, sizeof *times);
    lull__vote_writer_t writer;
    uint32_t at = 0;
    if (times == NULL)
        return lull__fail(LULL_ERR_NO_MEMORY, "%s: a vote", carry->to->path);
    head.ranks = vote->ranks;
    lull__vote_begin(&writer, out, &head);
    put_rows(carry, vote, &writer);
    for (size_t v = vote->source; v < vote->source + vote->sources; v++) {
        const lull__vote_t *old = &info->ranks[v].vote;
        memcpy(times + at, old->times, old->head.ranks * sizeof *times);
        at += old->head.ranks;
    }
    lull__vote_end(&writer, times, vote->ranks);
    free(times);
    return LULL_OK;
}

static lull_status_t make_vote(const lull__carry_t *carry,
                               const lull__carry_vote_t *vote,
                               const lull__file_t *file,
                               lull__manifest_vote_t *row) {
    lull__out_file_t sink = {file, 0};
    lull__out_t *out;
    lull_status_t status = lull__out_create(lull__out_to_file, &sink, &out);
    if (status != LULL_OK)
        return status;
    status = put_vote(carry, vote, out);
    lull_status_t finished = lull__out_finish(out, &row->bytes, &row->hash);
    lull__out_destroy(out);
    return status != LULL_OK ? status : finished;
}

/* The parser has written into the text that was read when it was opened. */
static lull_status_t copy_vote(const lull__carry_t *carry, const char *name,
                               const lull__file_t *file,
                               const lull__manifest_vote_t *row) {
    char *text;
    uint64_t bytes;
    lull_status_t status = lull__file_slurp(&carry->info->dir, name,
                                            LULL__VOTE_MAX, &text, &bytes);
    if (status != LULL_OK)
        return status;
    if (bytes != row->bytes || lull__hash_of(text, bytes) != row->hash)
        status = lull__fail(LULL_ERR_CORRUPT,
                            "%s/%s: its hash is not the manifest's",
                            carry->info->dir.path, name);
    else
        status = lull__file_write(file, text, bytes, 0);
    free(text);
    return status;
}

static lull_status_t run_vote(lull__carry_t *carry, size_t index) {
    const lull__carry_vote_t *vote = &carry->votes[index];
    lull__manifest_vote_t *row = &carry->manifest.votes[index];
    lull__entry_name_t name;
    lull__file_t file;
    lull__naming_vote(name, vote->rank);
    row->ranks = vote->ranks;
    lull_status_t status =
        lull__file_open(carry->to, name, O_WRONLY | O_CREAT | O_TRUNC, &file);
    if (status != LULL_OK)
        return status;
    if (carry->made) {
        status = make_vote(carry, vote, &file, row);
    } else {
        *row = carry->info->manifest.votes[index];
        status = copy_vote(carry, name, &file, row);
    }
    if (status == LULL_OK)
        status = lull__file_sync(&file);
    (void)lull__file_close(&file);
    return status;
}

/* As the old one, but files and votes. */
static lull_status_t begin_manifest(lull__carry_t *carry) {
    lull__manifest_t *m = &carry->manifest;
    *m = carry->info->manifest;
    m->file_count = carry->file_count;
    m->vote_count = carry->vote_count;
    m->files = calloc(m->file_count + 1, sizeof *m->files);
    m->votes = calloc(m->vote_count, sizeof *m->votes);
    if (m->files == NULL || m->votes == NULL)
        return lull__fail(LULL_ERR_NO_MEMORY, "%s: a manifest",
                          carry->to->path);
    return LULL_OK;
}

static void fill_manifest(lull__carry_t *carry) {
    for (size_t v = 0; v < carry->vote_count; v++) {
        const lull__carry_vote_t *vote = &carry->votes[v];
        for (size_t i = vote->file; i < vote->file + vote->files; i++) {
            lull__vote_file_t row = vote_file(carry, &carry->files[i]);
            carry->manifest.files[i] = (lull__manifest_file_t){
                carry->files[i].name, vote->rank, row.bytes,
                lull__vote_file_digest(&row)};
        }
    }
}

static lull_status_t check_space(const lull__carry_t *carry) {
    const lull__io_t *io = carry->to->io;
    uint64_t have, need = (uint64_t)1 << 20; /* directories, manifest */
    for (size_t i = 0; i < carry->file_count; i++)
        need += carry->files[i].header_bytes + carry->files[i].data_bytes;
    for (size_t i = 0; i < carry->info->rank_count; i++)
        if (!carry->info->ranks[i].elsewhere)
            need += carry->info->manifest.votes[i].bytes;
    if (io->ops->space(io, carry->to->fd, &have) == 0 && have < need)
        return lull__fail(LULL_ERR_NO_SPACE,
                          "%s: %" PRIu64 " bytes are needed, %" PRIu64
                          " are free",
                          carry->to->path, need, have);
    return LULL_OK; /* a file system that cannot tell is tried */
}

lull_status_t lull__carry_run(lull__carry_t *carry) {
    lull_status_t status = check_space(carry);
    if (status == LULL_OK)
        status = begin_manifest(carry);
    if (status == LULL_OK)
        status = run_files(carry);
    for (size_t i = 0; status == LULL_OK && i < carry->vote_count; i++)
        status = run_vote(carry, i);
    if (status == LULL_OK)
        fill_manifest(carry);
    return status;
}

void lull__carry_free(lull__carry_t *carry) {
    for (size_t i = 0; i < carry->file_count; i++)
        free(carry->files[i].hashes);
    free(carry->files);
    free(carry->votes);
    free(carry->segments);
    free(carry->rows);
    lull__arena_free(&carry->arena);
    /* The rest is the reader's. */
    free(carry->manifest.files);
    free(carry->manifest.votes);
}
