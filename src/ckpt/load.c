/* Loading slices: checked against the checkpoint, read by several threads,
 * verified, decoded, placed. */
#include <lull/codec.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/pages.h"
#include "device/device.h"
#include "load_plan.h"
#include "pool.h"

#define DEFAULT_THREADS 4u
#define MOST_THREADS 64u
#define NAMES_SHOWN 8 /* of missing or extra tensors */

typedef struct worker {
    char *blocks; /* room for LULL__READ_BLOCKS blocks, or their frames' raw
                     data; page-aligned */
    char *stored; /* coded frames as they are on disk; NULL until needed */
    size_t stored_bytes;
    lull__direct_t direct;
    void *queue;                   /* the device's; unused on the host */
    lull_codec_scratch_t *scratch; /* NULL until a frame is met */
} worker_t;

typedef struct loader {
    const lull_ckpt_info_t *info;
    lull__load_plan_t plan;
    lull_device_t *device; /* NULL: plain memory */
    worker_t *workers;
    unsigned threads;
    lull__direct_known_t known;
} loader_t;

/* ---- Placing ---- */

static lull_status_t place(loader_t *loader, worker_t *worker, void *to,
                           const void *from, uint64_t bytes) {
    if (loader->device == NULL) {
        memcpy(to, from, bytes);
        return LULL_OK;
    }
    return loader->device->exec->copy_in(loader->device, worker->queue, to,
                                         from, bytes);
}

/* Places what piece wants of bytes [low, high) of its shard's raw data, which
 * lie at `data`. */
static lull_status_t scatter(loader_t *loader, worker_t *worker,
                             const lull__load_piece_t *piece, uint64_t low,
                             uint64_t high, const char *data) {
    uint32_t inner = piece->outer > 0 ? piece->outer - 1 : 0;
    uint64_t count = piece->outer > 0 ? piece->count[inner] : 1;
    uint64_t row = lull__load_piece_seek(piece, low);
    while (row < piece->rows) {
        uint64_t from, to, left = count - row % count;
        lull__load_piece_row(piece, row, &from, &to);
        for (; left > 0; left--, row++) {
            if (from >= high)
                return LULL_OK;
            uint64_t begin = from > low ? from : low;
            uint64_t end = from + piece->run < high ? from + piece->run : high;
            lull_status_t status =
                place(loader, worker, piece->to + to + (begin - from),
                      data + (begin - low), end - begin);
            if (status != LULL_OK)
                return status;
            from += piece->outer > 0 ? piece->from_stride[inner] : 0;
            to += piece->outer > 0 ? piece->to_stride[inner] : 0;
        }
    }
    return LULL_OK;
}

/* The worker's buffer is read into again only after the copies from it. */
static lull_status_t settle(loader_t *loader, worker_t *worker) {
    uint64_t number;
    if (loader->device == NULL || !loader->device->exec->async)
        return LULL_OK;
    const lull__device_exec_t *exec = loader->device->exec;
    lull_status_t status = exec->fence(loader->device, worker->queue, &number);
    if (status == LULL_OK)
        status = exec->fence_wait(loader->device, worker->queue, number);
    return status;
}

/* ---- Raw shards ---- */

/* Where blocks can be read straight to: when one row takes them all. */
static void *straight(const loader_t *loader, const lull__load_unit_t *unit,
                      uint64_t begin, uint64_t end) {
    const lull__load_piece_t *piece = &loader->plan.pieces[unit->piece];
    uint64_t from, to;
    if (loader->device != NULL || unit->pieces != 1 ||
        begin < piece->shard->begin || end > piece->shard->end)
        return NULL;
    begin -= piece->shard->begin;
    end -= piece->shard->begin;
    uint64_t row = lull__load_piece_seek(piece, begin);
    if (row == piece->rows)
        return NULL;
    lull__load_piece_row(piece, row, &from, &to);
    if (from > begin || from + piece->run < end)
        return NULL;
    return piece->to + to + (begin - from);
}

/* Block `block`, which lies at `data`, to the pieces that want of it. */
static lull_status_t place_block(loader_t *loader, worker_t *worker,
                                 const lull__load_unit_t *unit, uint64_t block,
                                 const char *data) {
    uint64_t begin = block * LULL__BLOCK_BYTES;
    uint64_t end =
        begin + lull__reader_block_bytes(loader->info, unit->file, block, 1);
    lull_status_t status = LULL_OK;
    for (size_t i = 0; status == LULL_OK && i < unit->pieces; i++) {
        const lull__load_piece_t *piece = &loader->plan.pieces[unit->piece + i];
        const lull__shard_t *shard = piece->shard;
        uint64_t low = begin > shard->begin ? begin : shard->begin;
        uint64_t high = end < shard->end ? end : shard->end;
        if (low < high)
            status = scatter(loader, worker, piece, low - shard->begin,
                             high - shard->begin, data + (low - begin));
    }
    return status;
}

/* Past the page cache by the worker's own large pages, each block placed while
 * it lies in the cache that hashing brought it to; through the page cache,
 * which copies already, straight to its place. */
static lull_status_t load_blocks(loader_t *loader, worker_t *worker,
                                 const lull__load_unit_t *unit) {
    const lull_ckpt_info_t *info = loader->info;
    uint64_t begin = unit->first * LULL__BLOCK_BYTES;
    uint64_t end = begin + lull__reader_block_bytes(info, unit->file,
                                                    unit->first, unit->count);
    char *to = lull__direct_refused(&worker->direct)
                   ? straight(loader, unit, begin, end)
                   : NULL;
    char *data = to != NULL ? to : worker->blocks;
    lull_status_t status = lull__reader_blocks(
        info, unit->file, unit->first, unit->count, &worker->direct, data);
    for (uint64_t i = 0; status == LULL_OK && i < unit->count; i++) {
        const char *block = data + i * LULL__BLOCK_BYTES;
        status = lull__reader_check(info, unit->file, unit->first + i, block);
        if (status == LULL_OK && to == NULL)
            status = place_block(loader, worker, unit, unit->first + i, block);
    }
    return status;
}

/* ---- Coded shards ---- */

static lull_status_t fail_frame(const loader_t *loader,
                                const lull__load_unit_t *unit, uint64_t frame,
                                lull_status_t status) {
    char shown[LULL__SHOWN_MAX];
    char why[LULL__SENTENCE_MAX / 2];
    lull__text_copy(why, sizeof why, lull_last_error());
    return lull__fail(status == LULL_ERR_MISMATCH ? LULL_ERR_CORRUPT : status,
                      "%s/%s: tensor '%s': frame %llu: %s",
                      loader->info->dir.path,
                      loader->info->files[unit->file].row->name,
                      lull__name_shown(unit->shard->name, shown),
                      (unsigned long long)frame, why);
}

static lull_status_t decode(const lull__shard_t *shard, const char *frame,
                            uint64_t bytes, worker_t *worker, char *to,
                            uint64_t raw) {
    lull_frame_info_t about;
    lull_status_t status = lull_frame_peek(frame, bytes, &about);
    if (status == LULL_OK && about.codec.dtype != shard->dtype)
        status = lull__fail(LULL_ERR_CORRUPT, "it holds %s, not %s",
                            lull_dtype_name(about.codec.dtype),
                            lull_dtype_name(shard->dtype));
    if (status == LULL_OK)
        status = lull_frame_decode(frame, bytes, 0, to, raw, worker->scratch);
    return status;
}

static lull_status_t decode_frames(loader_t *loader, worker_t *worker,
                                   const lull__load_unit_t *unit,
                                   const char *stored, uint64_t raw_end) {
    const lull__shard_t *shard = unit->shard;
    for (uint64_t i = 0; i < unit->count; i++) {
        uint64_t at = (unit->first + i) * LULL__FRAME_BYTES;
        uint64_t raw = raw_end - at;
        if (raw > LULL__FRAME_BYTES)
            raw = LULL__FRAME_BYTES;
        uint64_t bytes = shard->frames[unit->first + i];
        lull_status_t status =
            decode(shard, stored, bytes, worker,
                   worker->blocks + i * LULL__FRAME_BYTES, raw);
        if (status != LULL_OK)
            return fail_frame(loader, unit, unit->first + i, status);
        stored += bytes;
    }
    return LULL_OK;
}

/* Room for so many bytes at worker->stored. */
static lull_status_t need_stored(worker_t *worker, uint64_t bytes) {
    if (bytes <= worker->stored_bytes)
        return LULL_OK;
    lull__pages_free(worker->stored, worker->stored_bytes);
    worker->stored_bytes = 0;
    worker->stored = lull__pages_alloc(bytes);
    if (worker->stored == NULL)
        return lull__fail(LULL_ERR_NO_MEMORY, "frames of %llu bytes",
                          (unsigned long long)bytes);
    worker->stored_bytes = bytes;
    return LULL_OK;
}

static lull_status_t load_frames(loader_t *loader, worker_t *worker,
                                 const lull__load_unit_t *unit) {
    const lull__shard_t *shard = unit->shard;
    uint64_t begin = shard->begin, bytes = 0, raw_end = 0;
    for (uint64_t i = 0; i < unit->first; i++)
        begin += shard->frames[i];
    for (uint64_t i = 0; i < unit->count; i++)
        bytes += shard->frames[unit->first + i];
    lull_status_t status = lull__shape_bytes(
        shard->dtype, shard->ndim, lull__shard_shape(shard), &raw_end);
    if (status == LULL_OK && worker->scratch == NULL)
        status = lull_codec_scratch_create(&worker->scratch);
    if (status != LULL_OK)
        return status;
    uint64_t first = begin / LULL__BLOCK_BYTES;
    uint64_t blocks = bytes == 0 ? 0
                                 : (begin + bytes + LULL__BLOCK_BYTES - 1) /
                                           LULL__BLOCK_BYTES -
                                       first;
    status = need_stored(worker, (blocks + 1) * LULL__BLOCK_BYTES);
    if (status == LULL_OK && blocks > 0)
        status = lull__reader_blocks(loader->info, unit->file, first, blocks,
                                     &worker->direct, worker->stored);
    if (status == LULL_OK)
        status = lull__reader_check_all(loader->info, unit->file, first, blocks,
                                        worker->stored);
    if (status == LULL_OK)
        status = decode_frames(
            loader, worker, unit,
            worker->stored + (begin - first * LULL__BLOCK_BYTES), raw_end);
    uint64_t low = unit->first * LULL__FRAME_BYTES;
    uint64_t high = low + unit->count * LULL__FRAME_BYTES;
    for (size_t i = 0; status == LULL_OK && i < unit->pieces; i++)
        status = scatter(loader, worker, &loader->plan.pieces[unit->piece + i],
                         low, high < raw_end ? high : raw_end, worker->blocks);
    return status;
}

static lull_status_t load_unit(void *ctx, unsigned number, size_t task) {
    loader_t *loader = ctx;
    worker_t *worker = &loader->workers[number];
    const lull__load_unit_t *unit = &loader->plan.units[task];
    lull_status_t status = unit->shard == NULL
                               ? load_blocks(loader, worker, unit)
                               : load_frames(loader, worker, unit);
    /* Also after a failure: nothing may read the buffer when it is freed. */
    lull_status_t settled = settle(loader, worker);
    return status == LULL_OK ? settled : status;
}

/* ---- Checking what is asked for ---- */

/* Names of what is missing or too much, for one sentence. */
typedef struct listing {
    size_t count, bytes;
    char text[NAMES_SHOWN * (LULL__SHOWN_MAX + 4)];
} listing_t;

static void list_name(listing_t *listing, const char *name) {
    char shown[LULL__SHOWN_MAX];
    if (listing->count++ >= NAMES_SHOWN)
        return;
    int n =
        snprintf(listing->text + listing->bytes,
                 sizeof listing->text - listing->bytes, "%s'%s'",
                 listing->bytes > 0 ? ", " : "", lull__name_shown(name, shown));
    listing->bytes += (size_t)n;
}

static lull_status_t fail_listing(const lull_ckpt_info_t *info,
                                  const listing_t *listing, const char *what) {
    char more[48] = "", where[LULL__ELSEWHERE_MAX];
    lull__reader_elsewhere(info, where);
    if (listing->count > NAMES_SHOWN)
        snprintf(more, sizeof more, " and %zu more",
                 listing->count - NAMES_SHOWN);
    return lull__fail(LULL_ERR_NOT_FOUND, "%s: %s: %s%s%s", info->dir.path,
                      what, listing->text, more, where);
}

static void shape_text(uint32_t ndim, const uint64_t *shape, char text[200]) {
    size_t n = 0;
    text[0] = '\0';
    for (uint32_t d = 0; d < ndim && n < 180; d++)
        n += (size_t)snprintf(text + n, 200 - n, d > 0 ? ",%llu" : "%llu",
                              (unsigned long long)shape[d]);
}

static lull_status_t check_slice(const lull_ckpt_info_t *info,
                                 const lull__reader_tensor_t *tensor,
                                 const lull_ckpt_slice_t *slice) {
    const lull__shard_t *saved = tensor->sample;
    char shown[LULL__SHOWN_MAX], a[200], b[200];
    const char *name = lull__name_shown(slice->name, shown);
    lull__box_t box;
    uint64_t bytes;
    if (slice->dtype != saved->dtype) {
        const char *wanted = lull_dtype_name(slice->dtype);
        return lull__fail(LULL_ERR_MISMATCH,
                          "%s: tensor '%s': it is %s, %s is wanted",
                          info->dir.path, name, lull_dtype_name(saved->dtype),
                          wanted != NULL ? wanted : "no dtype");
    }
    if (slice->ndim != saved->ndim ||
        memcmp(slice->global_shape, saved->global,
               saved->ndim * sizeof *saved->global) != 0) {
        shape_text(saved->ndim, saved->global, a);
        shape_text(slice->ndim <= LULL_MAX_DIMS ? slice->ndim : 0,
                   slice->global_shape, b);
        return lull__fail(LULL_ERR_MISMATCH,
                          "%s: tensor '%s': its shape is [%s], [%s] is wanted",
                          info->dir.path, name, a, b);
    }
    memcpy(box.offset, slice->offset, sizeof box.offset);
    memcpy(box.shape, slice->shape, sizeof box.shape);
    if (!lull__box_inside(slice->ndim, slice->global_shape, &box))
        return lull__fail(LULL_ERR_MISMATCH,
                          "%s: tensor '%s': the slice is not inside its shape",
                          info->dir.path, name);
    lull_status_t status =
        lull__shape_bytes(slice->dtype, slice->ndim, slice->shape, &bytes);
    if (status == LULL_OK && bytes > 0 && slice->data == NULL)
        status =
            lull__fail(LULL_ERR_INVALID, "slice of '%s': data is NULL", name);
    return status;
}

/* Some files are in other places: is all of the slice here? */
static lull_status_t check_here(const lull_ckpt_info_t *info,
                                const lull__reader_tensor_t *tensor,
                                const lull_ckpt_slice_t *slice) {
    char shown[LULL__SHOWN_MAX], where[LULL__ELSEWHERE_MAX];
    lull__box_t wanted;
    size_t kept = 0;
    bool overlap;
    lull__box_t *boxes = calloc(tensor->count + 1, sizeof *boxes);
    if (boxes == NULL)
        return lull__fail(LULL_ERR_NO_MEMORY, "%zu shards", tensor->count);
    memcpy(wanted.offset, slice->offset, sizeof wanted.offset);
    memcpy(wanted.shape, slice->shape, sizeof wanted.shape);
    for (size_t i = 0; i < tensor->count; i++) {
        const lull__shard_t *shard = info->shards[tensor->first + i].shard;
        lull__box_t *box = &boxes[kept], saved;
        lull__shard_box(shard, &saved);
        if (!lull__box_intersect(slice->ndim, &wanted, &saved, box))
            continue;
        for (uint32_t d = 0; d < slice->ndim; d++)
            box->offset[d] -= wanted.offset[d];
        kept++;
    }
    bool here =
        lull__boxes_tile(slice->ndim, wanted.shape, boxes, kept, &overlap);
    free(boxes);
    if (here)
        return LULL_OK;
    const char *name = lull__name_shown(slice->name, shown);
    if (overlap)
        return lull__fail(LULL_ERR_CORRUPT,
                          "%s: tensor '%s': parts of it are stored twice",
                          info->dir.path, name);
    lull__reader_elsewhere(info, where);
    return lull__fail(LULL_ERR_NOT_FOUND,
                      "%s: tensor '%s': not all of the slice is here%s",
                      info->dir.path, name, where);
}

static void expect_slice(const loader_t *loader,
                         const lull_ckpt_slice_t *slices, size_t i) {
    const char *row = (const char *)slices + i * slices->size;
    const char *name = ((const lull_ckpt_slice_t *)(const void *)row)->name;
    if (name != NULL)
        lull__names_expect(&loader->info->index, name);
}

/* Row i of an array whose rows may be longer than we know, or shorter. */
static lull_status_t slice_at(const lull_ckpt_slice_t *slices, size_t i,
                              lull_ckpt_slice_t *out) {
    size_t size = slices->size;
    if (size < sizeof out->size + sizeof out->name)
        return lull__fail(LULL_ERR_INVALID, "slice: its size is not set");
    memset(out, 0, sizeof *out);
    memcpy(out, (const char *)slices + i * size,
           size < sizeof *out ? size : sizeof *out);
    if (out->name == NULL)
        return lull__fail(LULL_ERR_INVALID, "slice %zu: it has no name", i);
    return LULL_OK;
}

static lull_status_t plan_slices(loader_t *loader,
                                 const lull_ckpt_slice_t *slices, size_t count,
                                 bool allow_missing) {
    listing_t missing = {0};
    for (size_t i = 0; i < count; i++) {
        lull_ckpt_slice_t slice;
        lull_status_t status = slice_at(slices, i, &slice);
        if (status != LULL_OK)
            return status;
        if (i + LULL__NAMES_AHEAD < count)
            expect_slice(loader, slices, i + LULL__NAMES_AHEAD);
        size_t t = lull__reader_find(loader->info, slice.name);
        if (t == SIZE_MAX) {
            list_name(&missing, slice.name);
            continue;
        }
        const lull__reader_tensor_t *tensor = &loader->info->tensors[t];
        status = check_slice(loader->info, tensor, &slice);
        if (status == LULL_OK && loader->info->elsewhere > 0)
            status = check_here(loader->info, tensor, &slice);
        if (status == LULL_OK)
            status = lull__load_plan_add(&loader->plan, loader->info, tensor,
                                         &slice);
        if (status != LULL_OK)
            return status;
    }
    if (missing.count > 0 && !allow_missing)
        return fail_listing(loader->info, &missing, "missing tensors");
    return lull__load_plan_finish(&loader->plan);
}

static lull_status_t check_extra(const lull_ckpt_info_t *info,
                                 const lull_ckpt_load_options_t *options) {
    lull__names_t known = {0};
    listing_t extra = {0};
    lull_status_t status = LULL_OK;
    if (options->known == NULL || options->allow_extra)
        return LULL_OK;
    for (size_t i = 0; status == LULL_OK && i < options->known_count; i++)
        status = lull__names_add(&known, options->known[i], i, NULL);
    for (size_t i = 0; status == LULL_OK && i < info->tensor_count; i++)
        if (lull__names_find(&known, info->tensors[i].name) == SIZE_MAX)
            list_name(&extra, info->tensors[i].name);
    lull__names_free(&known);
    if (status == LULL_OK && extra.count > 0)
        status = fail_listing(info, &extra, "tensors that the model lacks");
    return status;
}

/* ---- */

#define BLOCKS_BYTES ((size_t)LULL__READ_BLOCKS * LULL__BLOCK_BYTES)

/* A device copies from memory of its own kind: pinned, and near to it. */
static lull_status_t alloc_blocks(loader_t *loader, char **out) {
    const char *note;
    void *blocks = NULL;
    if (loader->device != NULL) {
        lull_status_t status = loader->device->memory->staging_alloc(
            loader->device, BLOCKS_BYTES, &blocks, &note);
        if (status != LULL_OK)
            return status;
    } else {
        blocks = lull__pages_alloc(BLOCKS_BYTES);
        if (blocks == NULL)
            return lull__fail(LULL_ERR_NO_MEMORY, "a buffer for reading");
    }
    *out = blocks;
    return LULL_OK;
}

static void free_blocks(loader_t *loader, char *blocks) {
    if (loader->device != NULL)
        loader->device->memory->staging_free(loader->device, blocks,
                                             BLOCKS_BYTES);
    else
        lull__pages_free(blocks, BLOCKS_BYTES);
}

static void free_workers(loader_t *loader) {
    for (unsigned i = 0; loader->workers != NULL && i < loader->threads; i++) {
        /* It waits for copies from the blocks. */
        if (loader->workers[i].queue != NULL)
            loader->device->exec->queue_destroy(loader->device,
                                                loader->workers[i].queue);
        free_blocks(loader, loader->workers[i].blocks);
        lull__pages_free(loader->workers[i].stored,
                         loader->workers[i].stored_bytes);
        lull__direct_close(&loader->workers[i].direct);
        lull_codec_scratch_destroy(loader->workers[i].scratch);
    }
    free(loader->workers);
}

static lull_status_t make_workers(loader_t *loader) {
    loader->workers = calloc(loader->threads, sizeof *loader->workers);
    if (loader->workers == NULL)
        return lull__fail(LULL_ERR_NO_MEMORY, "%u readers", loader->threads);
    for (unsigned i = 0; i < loader->threads; i++)
        loader->workers[i].direct =
            (lull__direct_t)LULL__DIRECT_INIT(&loader->known);
    for (unsigned i = 0; i < loader->threads; i++) {
        worker_t *worker = &loader->workers[i];
        lull_status_t status = alloc_blocks(loader, &worker->blocks);
        if (status == LULL_OK && loader->device != NULL)
            status = loader->device->exec->queue_create(loader->device,
                                                        &worker->queue);
        if (status != LULL_OK)
            return status;
    }
    return LULL_OK;
}

lull_status_t lull_ckpt_load(const lull_ckpt_info_t *info,
                             const lull_ckpt_slice_t *slices, size_t count,
                             const lull_ckpt_load_options_t *options) {
    lull_ckpt_load_options_t all = LULL_CKPT_LOAD_OPTIONS_INIT;
    loader_t loader = {.info = info};
    if (info == NULL || (count > 0 && slices == NULL))
        return lull__fail(LULL_ERR_INVALID, "lull_ckpt_load: %s is NULL",
                          info ? "slices" : "info");
    if (options != NULL)
        memcpy(&all, options,
               options->size < sizeof all ? options->size : sizeof all);
    if (all.device != NULL && all.device->exec != lull__device_host()->exec)
        loader.device = all.device;
    lull_status_t status = check_extra(info, &all);
    if (status == LULL_OK)
        status = plan_slices(&loader, slices, count, all.allow_missing);
    unsigned wanted = all.threads > 0 ? all.threads : DEFAULT_THREADS;
    wanted = wanted < MOST_THREADS ? wanted : MOST_THREADS;
    loader.threads = loader.plan.unit_count < wanted
                         ? (unsigned)loader.plan.unit_count
                         : wanted;
    if (status == LULL_OK && loader.threads > 0) {
        status = make_workers(&loader);
        lull__pool_t pool = {.threads = loader.threads,
                             .tasks = loader.plan.unit_count,
                             .fn = load_unit,
                             .ctx = &loader};
        if (status == LULL_OK)
            status = lull__pool_run(&pool);
        free_workers(&loader);
    }
    lull__load_plan_free(&loader.plan);
    return status;
}
