/* Opening a checkpoint: the manifest, the votes, sizes and headers. */
#include "reader.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <xxhash.h>

#include "base/error.h"
#include "base/log.h"

/* O_NONBLOCK: a FIFO of that name must not hold us. */
#define READ_FLAGS (O_RDONLY | O_NONBLOCK)

/* What is listed must be there. */
static lull_status_t as_damage(lull_status_t status) {
    return status == LULL_ERR_NOT_FOUND ? LULL_ERR_CORRUPT : status;
}

/* A shared lock keeps deleters away as long as we read. */
static lull_status_t lock_manifest(lull_ckpt_info_t *info) {
    lull_status_t status =
        lull__file_open(&info->dir, LULL__MANIFEST, READ_FLAGS, &info->lock);
    if (status != LULL_OK)
        return as_damage(status);
    status = lull__file_lock(&info->lock, LOCK_SH | LOCK_NB);
    if (status == LULL_ERR_BUSY)
        return lull__fail(LULL_ERR_NOT_FOUND, "%s: it is being deleted",
                          info->dir.path);
    if (status != LULL_OK)
        lull__log(LULL_LOG_WARN,
                  "%s; it is read without a lock against deletion",
                  lull_last_error());
    return LULL_OK;
}

static lull_status_t check_vote(const lull_ckpt_info_t *info, size_t row,
                                uint32_t rank, const char *path) {
    const lull__manifest_t *m = &info->manifest;
    const lull__vote_t *vote = &info->ranks[row].vote;
    const lull__vote_head_t *head = &vote->head;
    if (strcmp(head->run_id, m->run_id) != 0 || head->save != m->save ||
        head->step != m->step || head->world != m->world ||
        head->rank != rank || head->ranks != m->votes[row].ranks)
        return lull__fail(LULL_ERR_CORRUPT,
                          "%s: a vote of another save than the manifest's",
                          path);
    for (size_t i = 0; i < vote->file_count; i++) {
        size_t at = info->ranks[row].first_file + i;
        if (at >= m->file_count || m->files[at].rank != rank ||
            strcmp(m->files[at].name, vote->files[i].name) != 0 ||
            m->files[at].bytes != vote->files[i].bytes ||
            m->files[at].digest != lull__vote_file_digest(&vote->files[i]))
            return lull__fail(LULL_ERR_CORRUPT,
                              "%s: its files are not the manifest's", path);
    }
    size_t end = info->ranks[row].first_file + vote->file_count;
    if (end < m->file_count && m->files[end].rank == rank)
        return lull__fail(LULL_ERR_CORRUPT,
                          "%s: a file of the manifest is not in it", path);
    return LULL_OK;
}

/* Reads, hashes and parses the vote in a row of the manifest: that of `rank`
 * and perhaps of some after it. */
static lull_status_t read_vote(lull_ckpt_info_t *info, size_t index,
                               uint32_t rank) {
    const lull__manifest_vote_t *row = &info->manifest.votes[index];
    lull__reader_rank_t *out = &info->ranks[index];
    lull__entry_name_t name;
    uint64_t bytes;
    char *path = NULL;
    lull__naming_vote(name, rank);
    lull_status_t status =
        lull__file_slurp(&info->dir, name, LULL__VOTE_MAX, &out->text, &bytes);
    if (status == LULL_ERR_NOT_FOUND && info->manifest.place_count > 0 &&
        row->place != info->manifest.here) {
        out->text = NULL;
        out->elsewhere = true;
        info->elsewhere++;
        return LULL_OK;
    }
    if (status != LULL_OK) {
        out->text = NULL;
        return as_damage(status);
    }
    info->bytes += bytes;
    if (asprintf(&path, "%s/%s", info->dir.path, name) < 0)
        return lull__fail(LULL_ERR_NO_MEMORY, "%s", name);
    if (bytes != row->bytes)
        status = lull__fail(LULL_ERR_CORRUPT, "%s: %llu bytes, %llu expected",
                            path, (unsigned long long)bytes,
                            (unsigned long long)row->bytes);
    else if (XXH3_64bits(out->text, bytes) != row->hash)
        status = lull__fail(LULL_ERR_CORRUPT,
                            "%s: its hash is not the manifest's", path);
    else
        status = lull__vote_parse(out->text, bytes, path, &out->vote);
    if (status == LULL_OK)
        status = check_vote(info, index, rank, path);
    free(path);
    return status;
}

static lull_status_t read_votes(lull_ckpt_info_t *info) {
    const lull__manifest_t *m = &info->manifest;
    size_t file = 0;
    uint32_t rank = 0;
    info->ranks = calloc(m->vote_count, sizeof *info->ranks);
    if (info->ranks == NULL)
        return lull__fail(LULL_ERR_NO_MEMORY, "%zu votes", m->vote_count);
    info->rank_count = m->vote_count;
    for (size_t i = 0; i < m->vote_count; i++) {
        info->ranks[i].first_file = file;
        lull_status_t status = read_vote(info, i, rank);
        if (status != LULL_OK)
            return status;
        file += info->ranks[i].vote.file_count;
        if (info->ranks[i].elsewhere)
            while (file < m->file_count && m->files[file].rank == rank)
                file++;
        rank += m->votes[i].ranks;
    }
    return LULL_OK;
}

/* Opens a file unless it is kept open; close_after says what to do with it. */
static lull_status_t use_file(const lull_ckpt_info_t *info, size_t file,
                              lull__file_t *out, bool *close_after) {
    const lull__reader_file_t *f = &info->files[file];
    *close_after = f->file.fd < 0;
    *out = f->file;
    if (!*close_after)
        return LULL_OK;
    return as_damage(
        lull__file_open(&info->dir, f->row->name, READ_FLAGS, out));
}

typedef struct range {
    uint64_t offset, bytes;
} range_t;

static lull_status_t read_from(const lull_ckpt_info_t *info, size_t file,
                               range_t range, lull__direct_t *direct,
                               void *data) {
    lull__file_t open;
    bool close_after;
    lull_status_t status = use_file(info, file, &open, &close_after);
    if (status != LULL_OK)
        return status;
    status =
        direct != NULL
            ? lull__direct_read(direct, &open, data, range.bytes, range.offset)
            : lull__file_read(&open, data, range.bytes, range.offset);
    if (close_after)
        (void)lull__file_close(&open);
    return status;
}

lull_status_t lull__reader_header(const lull_ckpt_info_t *info, size_t file,
                                  unsigned char **data) {
    const lull__vote_file_t *vote = info->files[file].vote;
    /* At most 100 MB: the vote was checked, and the file's size too. */
    unsigned char *header = malloc(vote->header_bytes + 1);
    if (header == NULL)
        return lull__fail(LULL_ERR_NO_MEMORY, "%s/%s: header of %llu bytes",
                          info->dir.path, vote->name,
                          (unsigned long long)vote->header_bytes);
    lull_status_t status =
        read_from(info, file, (range_t){0, vote->header_bytes}, NULL, header);
    if (status == LULL_OK &&
        XXH3_64bits(header, vote->header_bytes) != vote->header_hash)
        status = lull__fail(LULL_ERR_CORRUPT,
                            "%s/%s: the hash of its header is wrong",
                            info->dir.path, vote->name);
    if (status != LULL_OK)
        free(header);
    else
        *data = header;
    return status;
}

static lull_status_t check_file(lull_ckpt_info_t *info, size_t file) {
    lull__reader_file_t *f = &info->files[file];
    lull__file_t open;
    bool close_after;
    uint64_t bytes;
    unsigned char *header;
    lull_status_t status = use_file(info, file, &open, &close_after);
    if (status != LULL_OK)
        return status;
    status = lull__file_size(&open, &bytes);
    if (status == LULL_OK && bytes != f->row->bytes)
        status =
            lull__fail(LULL_ERR_CORRUPT, "%s/%s: %llu bytes, %llu expected",
                       info->dir.path, f->row->name, (unsigned long long)bytes,
                       (unsigned long long)f->row->bytes);
    if (status != LULL_OK || info->open_files == LULL__OPEN_FILES_MAX) {
        (void)lull__file_close(&open);
    } else {
        f->file = open;
        info->open_files++;
    }
    if (status == LULL_OK)
        status = lull__reader_header(info, file, &header);
    if (status != LULL_OK)
        return status;
    free(header);
    info->bytes += bytes;
    return LULL_OK;
}

/* Files of the votes in the manifest's order; the shards of each. */
static lull_status_t check_files(lull_ckpt_info_t *info) {
    size_t count = info->manifest.file_count, file = 0;
    info->files = calloc(count > 0 ? count : 1, sizeof *info->files);
    if (info->files == NULL)
        return lull__fail(LULL_ERR_NO_MEMORY, "%zu files", count);
    for (size_t i = 0; i < count; i++)
        info->files[i].file = (lull__file_t)LULL__FILE_CLOSED;
    for (size_t rank = 0; rank < info->rank_count; rank++) {
        const lull__vote_t *vote = &info->ranks[rank].vote;
        size_t shard = 0;
        while (info->ranks[rank].elsewhere && file < count &&
               info->manifest.files[file].rank == rank) {
            info->files[file].row = &info->manifest.files[file];
            info->files[file].owner = rank;
            file++;
        }
        for (size_t i = 0; i < vote->file_count; i++, file++) {
            lull__reader_file_t *f = &info->files[file];
            f->row = &info->manifest.files[file];
            f->vote = &vote->files[i];
            f->owner = rank;
            f->first = shard;
            while (shard < vote->shard_count && vote->shards[shard].file == i)
                shard++;
            f->count = shard - f->first;
            lull_status_t status = check_file(info, file);
            if (status != LULL_OK)
                return status;
        }
    }
    if (file != count)
        return lull__fail(LULL_ERR_CORRUPT,
                          "%s/" LULL__MANIFEST ": more files than votes have",
                          info->dir.path);
    return LULL_OK;
}

static lull_status_t check_id(const lull_ckpt_info_t *info, lull_ckpt_id_t id) {
    lull_ckpt_id_t is = lull__reader_id(&info->manifest);
    if (id.seq != 0 && is.seq != id.seq)
        return lull__fail(LULL_ERR_NOT_FOUND,
                          "%s: it has seq %llu by now, not %llu",
                          info->dir.path, (unsigned long long)is.seq,
                          (unsigned long long)id.seq);
    if (id.origin != 0 && is.origin != id.origin)
        return lull__fail(LULL_ERR_NOT_FOUND,
                          "%s: its seq %llu is that of another save, of "
                          "another run",
                          info->dir.path, (unsigned long long)is.seq);
    return LULL_OK;
}

lull_status_t lull__reader_open(const lull__dir_t *root, const char *name,
                                lull_ckpt_id_t id, lull_ckpt_info_t **out) {
    lull_ckpt_info_t *info = calloc(1, sizeof *info);
    if (info == NULL)
        return lull__fail(LULL_ERR_NO_MEMORY, "%s", name);
    info->lock = (lull__file_t)LULL__FILE_CLOSED;
    info->dir = (lull__dir_t)LULL__DIR_CLOSED;
    lull__text_copy(info->name, sizeof info->name, name);
    lull_status_t status = lull__dir_open_at(root, name, &info->dir);
    if (status == LULL_OK)
        status = lock_manifest(info);
    if (status == LULL_OK)
        status = as_damage(
            lull__reader_manifest(&info->dir, &info->text, &info->manifest));
    if (status != LULL_OK)
        info->text = NULL;
    if (status == LULL_OK)
        status = check_id(info, id);
    if (status == LULL_OK)
        status = read_votes(info);
    if (status == LULL_OK)
        status = check_files(info);
    if (status == LULL_OK)
        status = lull__reader_index(info);
    if (status != LULL_OK)
        lull_ckpt_info_destroy(info);
    else
        *out = info;
    return status;
}

/* Where the checkpoint with this id lies: under its own name, or moved aside
 * by a run that crashed. */
static lull_status_t open_id(const lull__dir_t *root, lull_ckpt_id_t id,
                             lull_ckpt_info_t **out) {
    lull__candidate_t *rows;
    size_t count;
    lull_status_t status = lull__candidates(root, &rows, &count);
    if (status != LULL_OK)
        return status;
    status = lull__fail(
        LULL_ERR_NOT_FOUND, "%s: no checkpoint of step %llu with seq %llu",
        root->path, (unsigned long long)id.step, (unsigned long long)id.seq);
    for (size_t i = 0; i < count; i++) {
        if (rows[i].id.step != id.step)
            continue;
        if (rows[i].status != LULL_OK)
            status = lull__fail(rows[i].status, "%s", rows[i].why);
        else if (rows[i].id.seq == id.seq)
            status = lull__reader_open(root, rows[i].name, id, out);
    }
    free(rows);
    return status;
}

lull_status_t lull_ckpt_info_open(const char *dir, lull_ckpt_id_t id,
                                  lull_ckpt_info_t **out) {
    lull__entry_name_t name;
    lull__dir_t root;
    if (dir == NULL || out == NULL)
        return lull__fail(LULL_ERR_INVALID, "lull_ckpt_info_open: %s is NULL",
                          dir ? "out" : "dir");
    if (id.seq == LULL_LATEST)
        return lull__find_open(dir, out);
    lull_status_t status = lull__dir_open(lull__io_default(), dir, &root);
    if (status != LULL_OK)
        return status;
    lull__naming_step(name, id.step);
    status = lull__reader_open(&root, name, id, out);
    if (status == LULL_ERR_NOT_FOUND)
        status = open_id(&root, id, out);
    lull__dir_close(&root);
    return status;
}

void lull_ckpt_info_destroy(lull_ckpt_info_t *info) {
    if (info == NULL)
        return;
    for (size_t i = 0; info->files != NULL && i < info->manifest.file_count;
         i++)
        (void)lull__file_close(&info->files[i].file);
    for (size_t i = 0; i < info->rank_count; i++) {
        lull__vote_free(&info->ranks[i].vote);
        free(info->ranks[i].text);
    }
    free(info->ranks);
    free(info->files);
    free(info->shards);
    free(info->tensors);
    lull__names_free(&info->index);
    lull__manifest_free(&info->manifest);
    free(info->text);
    (void)lull__file_close(&info->lock);
    lull__dir_close(&info->dir);
    free(info);
}

void lull__reader_elsewhere(const lull_ckpt_info_t *info,
                            char text[LULL__ELSEWHERE_MAX]) {
    const lull__manifest_t *m = &info->manifest;
    uint32_t place = UINT32_MAX;
    size_t n = 0, shown = 0;
    text[0] = '\0';
    for (size_t i = 0; info->elsewhere > 0 && i < m->file_count && shown < 8;
         i++) {
        /* Places have a vote for each rank. */
        if (!info->ranks[m->files[i].rank].elsewhere)
            continue;
        uint32_t at = m->votes[m->files[i].rank].place;
        const char *between = at == place ? ","
                              : shown > 0 ? ";"
                                          : " (it may be";
        n += (size_t)snprintf(text + n, LULL__ELSEWHERE_MAX - n, "%s", between);
        if (at != place && n < LULL__ELSEWHERE_MAX)
            n += (size_t)snprintf(text + n, LULL__ELSEWHERE_MAX - n,
                                  " in %.100s:", m->places[at]);
        if (n < LULL__ELSEWHERE_MAX)
            n += (size_t)snprintf(text + n, LULL__ELSEWHERE_MAX - n, " %s",
                                  m->files[i].name);
        if (n >= LULL__ELSEWHERE_MAX - 8)
            n = LULL__ELSEWHERE_MAX - 8, shown = 8;
        place = at;
        shown++;
    }
    if (shown > 0)
        snprintf(text + n, LULL__ELSEWHERE_MAX - n, shown < 8 ? ")" : " ...)");
}

/* ---- Blocks ---- */

uint64_t lull__reader_block_bytes(const lull_ckpt_info_t *info, size_t file,
                                  uint64_t first, uint64_t count) {
    const lull__vote_file_t *vote = info->files[file].vote;
    uint64_t begin = first * LULL__BLOCK_BYTES;
    uint64_t left = vote->bytes - vote->header_bytes - begin;
    return count * LULL__BLOCK_BYTES < left ? count * LULL__BLOCK_BYTES : left;
}

/* The first tensor with a byte in the block. */
static const char *tensor_of(const lull_ckpt_info_t *info, size_t file,
                             uint64_t block) {
    const lull__reader_file_t *f = &info->files[file];
    const lull__shard_t *shards = info->ranks[f->owner].vote.shards + f->first;
    uint64_t begin = block * LULL__BLOCK_BYTES;
    size_t low = 0, high = f->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (shards[middle].end > begin)
            high = middle;
        else
            low = middle + 1;
    }
    return low < f->count ? shards[low].name : "";
}

static lull_status_t fail_block(const lull_ckpt_info_t *info, size_t file,
                                uint64_t block) {
    char shown[LULL__SHOWN_MAX];
    return lull__fail(LULL_ERR_CORRUPT,
                      "%s/%s: tensor '%s': the hash of block %llu is wrong",
                      info->dir.path, info->files[file].row->name,
                      lull__name_shown(tensor_of(info, file, block), shown),
                      (unsigned long long)block);
}

lull_status_t lull__reader_blocks(const lull_ckpt_info_t *info, size_t file,
                                  uint64_t first, uint64_t count,
                                  lull__direct_t *direct, void *data) {
    uint64_t at = info->files[file].vote->header_bytes;
    range_t range = {at + first * LULL__BLOCK_BYTES,
                     lull__reader_block_bytes(info, file, first, count)};
    return read_from(info, file, range, direct, data);
}

lull_status_t lull__reader_check(const lull_ckpt_info_t *info, size_t file,
                                 uint64_t block, const void *data) {
    uint64_t bytes = lull__reader_block_bytes(info, file, block, 1);
    if (XXH3_64bits(data, bytes) != info->files[file].vote->hashes[block])
        return fail_block(info, file, block);
    return LULL_OK;
}

lull_status_t lull__reader_check_all(const lull_ckpt_info_t *info, size_t file,
                                     uint64_t first, uint64_t count,
                                     const void *data) {
    const char *at = data;
    lull_status_t status = LULL_OK;
    for (uint64_t i = 0; status == LULL_OK && i < count; i++)
        status = lull__reader_check(info, file, first + i,
                                    at + i * LULL__BLOCK_BYTES);
    return status;
}

lull_status_t lull__reader_range(const lull_ckpt_info_t *info, size_t file,
                                 uint64_t begin, uint64_t end, void *data) {
    if (begin == end)
        return LULL_OK;
    uint64_t first = begin / LULL__BLOCK_BYTES;
    uint64_t last = (end - 1) / LULL__BLOCK_BYTES;
    char *block = malloc(LULL__BLOCK_BYTES), *to = data;
    lull_status_t status = LULL_OK;
    if (block == NULL)
        return lull__fail(LULL_ERR_NO_MEMORY, "a block of 1 MiB");
    for (uint64_t b = first; status == LULL_OK && b <= last; b++) {
        uint64_t from = b * LULL__BLOCK_BYTES, upto = from + LULL__BLOCK_BYTES;
        uint64_t low = begin > from ? begin : from;
        uint64_t high = end < upto ? end : upto;
        status = lull__reader_blocks(info, file, b, 1, NULL, block);
        if (status == LULL_OK)
            status = lull__reader_check(info, file, b, block);
        if (status == LULL_OK)
            memcpy(to + (low - begin), block + (low - from), high - low);
    }
    free(block);
    return status;
}
