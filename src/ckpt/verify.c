/* Verifying: every byte of every file against its hash, and every header
 * against what the votes say. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "base/error.h"
#include "base/pages.h"
#include "pool.h"
#include "reader.h"
#include "safetensors.h"

#define THREADS 4u
#define BUFFER_BYTES ((size_t)LULL__READ_BLOCKS * LULL__BLOCK_BYTES)

typedef struct verifier {
    const lull_ckpt_info_t *info;
    uint64_t done; /* bytes, atomic */
    size_t *first; /* [files + 1]: number of the file's first task */
    char *buffers[THREADS];
    lull__direct_known_t known;
    lull__direct_t direct[THREADS];
} verifier_t;

/* Does the header say of the shard what the vote says? */
static bool same(const lull__st_entry_t *entry, const lull__shard_t *shard) {
    if (strcmp(entry->name, shard->stored) != 0 ||
        entry->begin != shard->begin || entry->end != shard->end)
        return false;
    if (shard->codec != NULL)
        return entry->dtype == LULL_U8 && entry->ndim == 1;
    return entry->dtype == shard->dtype && entry->ndim == shard->ndim &&
           memcmp(entry->shape, lull__shard_shape(shard),
                  shard->ndim * sizeof *entry->shape) == 0;
}

static lull_status_t compare(const lull_ckpt_info_t *info, size_t file,
                             const lull__st_header_t *header,
                             const char *path) {
    const lull__reader_file_t *f = &info->files[file];
    const lull__shard_t *shards = info->ranks[f->owner].vote.shards + f->first;
    char shown[LULL__SHOWN_MAX];
    if (header->count != f->count)
        return lull__fail(LULL_ERR_CORRUPT,
                          "%s: header: %zu tensors, the vote has %zu", path,
                          header->count, f->count);
    for (size_t i = 0; i < f->count; i++) {
        /* Empty tensors may share an offset, in any order. */
        size_t at = lull__names_find(&header->index, shards[i].stored);
        if (at == SIZE_MAX || !same(&header->entries[at], &shards[i]))
            return lull__fail(LULL_ERR_CORRUPT,
                              "%s: tensor '%s': header and vote disagree", path,
                              lull__name_shown(shards[i].name, shown));
    }
    return LULL_OK;
}

static lull_status_t verify_header(verifier_t *verifier, size_t file) {
    const lull_ckpt_info_t *info = verifier->info;
    const lull__vote_file_t *vote = info->files[file].vote;
    lull__st_header_t header;
    unsigned char *data;
    char *path = NULL;
    uint64_t n;
    lull_status_t status = lull__reader_header(info, file, &data);
    if (status != LULL_OK)
        return status;
    if (asprintf(&path, "%s/%s", info->dir.path, vote->name) < 0) {
        free(data);
        return lull__fail(LULL_ERR_NO_MEMORY, "%s", vote->name);
    }
    status = lull__st_length(data, vote->bytes, path, &n);
    if (status == LULL_OK && n + 8 != vote->header_bytes)
        status = lull__fail(LULL_ERR_CORRUPT,
                            "%s: header: its length is not the vote's", path);
    if (status == LULL_OK)
        status = lull__st_parse((char *)data + 8, n, vote->bytes - n - 8, path,
                                &header);
    if (status == LULL_OK) {
        status = compare(info, file, &header, path);
        lull__st_free(&header);
    }
    __atomic_fetch_add(&verifier->done, vote->header_bytes, __ATOMIC_RELAXED);
    free(path);
    free(data);
    return status;
}

/* They were checked when the checkpoint was opened; are they still so? */
static lull_status_t verify_vote(const lull_ckpt_info_t *info, size_t index) {
    const lull__manifest_vote_t *row = &info->manifest.votes[index];
    lull__entry_name_t name;
    char *text;
    uint64_t bytes;
    lull__naming_vote(name, info->ranks[index].vote.head.rank);
    lull_status_t status =
        lull__file_slurp(&info->dir, name, LULL__VOTE_MAX, &text, &bytes);
    if (status != LULL_OK)
        return status == LULL_ERR_NOT_FOUND ? LULL_ERR_CORRUPT : status;
    if (bytes != row->bytes || XXH3_64bits(text, bytes) != row->hash)
        status = lull__fail(LULL_ERR_CORRUPT,
                            "%s/%s: its hash is not the manifest's",
                            info->dir.path, name);
    free(text);
    return status;
}

static lull_status_t verify_small(const lull_ckpt_info_t *info) {
    lull__manifest_t manifest;
    char *text;
    lull_status_t status = lull__reader_manifest(&info->dir, &text, &manifest);
    if (status != LULL_OK)
        return status == LULL_ERR_NOT_FOUND ? LULL_ERR_CORRUPT : status;
    lull__manifest_free(&manifest);
    free(text);
    for (size_t i = 0; status == LULL_OK && i < info->rank_count; i++)
        if (!info->ranks[i].elsewhere)
            status = verify_vote(info, i);
    return status;
}

/* The file of a task: the last whose first task is not behind it. */
static size_t file_of(const verifier_t *verifier, size_t task) {
    size_t low = 0, high = verifier->info->manifest.file_count;
    while (high - low > 1) {
        size_t middle = low + (high - low) / 2;
        if (verifier->first[middle] <= task)
            low = middle;
        else
            high = middle;
    }
    return low;
}

/* Task 0 of a file is its header, the others are blocks. */
static lull_status_t verify_task(void *ctx, unsigned worker, size_t task) {
    verifier_t *verifier = ctx;
    size_t file = file_of(verifier, task);
    uint64_t number = task - verifier->first[file];
    if (number == 0)
        return verify_header(verifier, file);
    const lull_ckpt_info_t *info = verifier->info;
    uint64_t first = (number - 1) * LULL__READ_BLOCKS;
    uint64_t count = info->files[file].vote->hash_count - first;
    if (count > LULL__READ_BLOCKS)
        count = LULL__READ_BLOCKS;
    char *data = verifier->buffers[worker];
    lull_status_t status = lull__reader_blocks(info, file, first, count,
                                               &verifier->direct[worker], data);
    if (status == LULL_OK)
        status = lull__reader_check_all(info, file, first, count, data);
    if (status == LULL_OK)
        __atomic_fetch_add(&verifier->done,
                           lull__reader_block_bytes(info, file, first, count),
                           __ATOMIC_RELAXED);
    return status;
}

static void number_tasks(verifier_t *verifier) {
    const lull_ckpt_info_t *info = verifier->info;
    size_t at = 0;
    for (size_t i = 0; i < info->manifest.file_count; i++) {
        verifier->first[i] = at;
        if (info->files[i].vote == NULL)
            continue; /* it is in another place */
        uint64_t blocks = info->files[i].vote->hash_count;
        at += 1 + (blocks + LULL__READ_BLOCKS - 1) / LULL__READ_BLOCKS;
    }
    verifier->first[info->manifest.file_count] = at;
}

static uint64_t data_bytes(const lull_ckpt_info_t *info) {
    uint64_t sum = 0;
    for (size_t i = 0; i < info->manifest.file_count; i++)
        sum += info->files[i].vote ? info->files[i].row->bytes : 0;
    return sum;
}

lull_status_t lull_ckpt_verify(const lull_ckpt_info_t *info,
                               lull_ckpt_progress_fn progress, void *ctx) {
    if (info == NULL)
        return lull__fail(LULL_ERR_INVALID, "lull_ckpt_verify: info is NULL");
    size_t files = info->manifest.file_count;
    verifier_t verifier = {.info = info};
    lull_status_t status = verify_small(info);
    if (status != LULL_OK)
        return status;
    verifier.first = calloc(files + 1, sizeof *verifier.first);
    bool whole = verifier.first != NULL;
    for (unsigned i = 0; i < THREADS; i++) {
        verifier.direct[i] = (lull__direct_t)LULL__DIRECT_INIT(&verifier.known);
        verifier.buffers[i] = lull__pages_alloc(BUFFER_BYTES);
        whole = whole && verifier.buffers[i] != NULL;
    }
    if (whole) {
        number_tasks(&verifier);
        lull__pool_t pool = {.threads = THREADS,
                             .tasks = verifier.first[files],
                             .fn = verify_task,
                             .ctx = &verifier,
                             .progress = progress,
                             .progress_ctx = ctx,
                             .done = &verifier.done,
                             .total = data_bytes(info)};
        status = lull__pool_run(&pool);
    } else {
        status = lull__fail(LULL_ERR_NO_MEMORY, "%s: buffers for verifying",
                            info->dir.path);
    }
    for (unsigned i = 0; i < THREADS; i++) {
        lull__direct_close(&verifier.direct[i]);
        lull__pages_free(verifier.buffers[i], BUFFER_BYTES);
    }
    free(verifier.first);
    return status;
}
