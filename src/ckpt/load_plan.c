/* Planning a load: boxes to rows of bytes, rows to blocks, blocks to reads. */
#include "load_plan.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "grow.h"

/* Bit strides of a row-major array. */
static void strides(uint32_t ndim, const uint64_t *shape, uint64_t bits,
                    uint64_t *out) {
    for (uint32_t d = ndim; d-- > 0;) {
        out[d] = bits;
        bits *= shape[d];
    }
}

/* Sets rows and strides, still in bits; trailing dimensions that both sides
 * hold whole melt into the run. */
static void odometer(const lull__box_t *saved, const lull_ckpt_slice_t *slice,
                     const lull__box_t *both, lull__load_piece_t *piece) {
    uint64_t from[LULL_MAX_DIMS], to[LULL_MAX_DIMS];
    uint64_t run = lull_dtype_bits(slice->dtype);
    uint32_t d = slice->ndim;
    strides(d, saved->shape, run, from);
    strides(d, slice->shape, run, to);
    for (uint32_t i = 0; i < d; i++) {
        piece->from_at += (both->offset[i] - saved->offset[i]) * from[i];
        piece->to_at += (both->offset[i] - slice->offset[i]) * to[i];
    }
    while (d > 0) {
        d--;
        run *= both->shape[d];
        if (both->shape[d] != saved->shape[d] ||
            both->shape[d] != slice->shape[d])
            break;
    }
    piece->run = run;
    piece->outer = slice->ndim > 0 ? d : 0;
    piece->rows = 1;
    for (uint32_t i = 0; i < piece->outer; i++) {
        piece->count[i] = both->shape[i];
        piece->from_stride[i] = from[i];
        piece->to_stride[i] = to[i];
        piece->rows *= both->shape[i];
    }
}

/* From bits to bytes; false: something does not lie on a byte. */
static bool to_bytes(lull__load_piece_t *piece) {
    uint64_t all = piece->from_at | piece->to_at | piece->run;
    for (uint32_t i = 0; i < piece->outer; i++)
        if (piece->count[i] > 1)
            all |= piece->from_stride[i] | piece->to_stride[i];
    if (all % 8 != 0)
        return false;
    piece->from_at /= 8;
    piece->to_at /= 8;
    piece->run /= 8;
    for (uint32_t i = 0; i < piece->outer; i++) {
        piece->from_stride[i] /= 8;
        piece->to_stride[i] /= 8;
    }
    return true;
}

lull_status_t lull__load_plan_add(lull__load_plan_t *plan,
                                  const lull_ckpt_info_t *info,
                                  const lull__reader_tensor_t *tensor,
                                  const lull_ckpt_slice_t *slice) {
    lull__box_t wanted, saved, both = {0};
    char shown[LULL__SHOWN_MAX];
    memcpy(wanted.offset, slice->offset, sizeof wanted.offset);
    memcpy(wanted.shape, slice->shape, sizeof wanted.shape);
    for (size_t i = 0; i < tensor->count; i++) {
        const lull__reader_shard_t *at = &info->shards[tensor->first + i];
        uint64_t volume;
        lull__shard_box(at->shard, &saved);
        if (!lull__box_intersect(slice->ndim, &wanted, &saved, &both) ||
            !lull__shape_volume(slice->ndim, both.shape, &volume) ||
            volume == 0)
            continue;
        lull__load_piece_t piece = {
            .shard = at->shard, .file = at->file, .to = slice->data};
        odometer(&saved, slice, &both, &piece);
        if (!to_bytes(&piece))
            return lull__fail(LULL_ERR_UNSUPPORTED,
                              "%s: tensor '%s': a slice of packed %s elements "
                              "that does not lie on whole bytes",
                              info->dir.path,
                              lull__name_shown(slice->name, shown),
                              lull_dtype_name(slice->dtype));
        lull_status_t status =
            lull__grow((void **)&plan->pieces, plan->piece_count,
                       &plan->piece_room, sizeof piece);
        if (status != LULL_OK)
            return status;
        plan->pieces[plan->piece_count++] = piece;
    }
    return LULL_OK;
}

void lull__load_piece_row(const lull__load_piece_t *piece, uint64_t row,
                          uint64_t *from, uint64_t *to) {
    *from = piece->from_at;
    *to = piece->to_at;
    for (uint32_t d = piece->outer; d-- > 0;) {
        uint64_t i = row % piece->count[d];
        row /= piece->count[d];
        *from += i * piece->from_stride[d];
        *to += i * piece->to_stride[d];
    }
}

uint64_t lull__load_piece_seek(const lull__load_piece_t *piece, uint64_t at) {
    uint64_t low = 0, high = piece->rows;
    while (low < high) {
        uint64_t middle = low + (high - low) / 2, from, to;
        lull__load_piece_row(piece, middle, &from, &to);
        if (from + piece->run > at)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

static int by_place(const void *a, const void *b) {
    const lull__load_piece_t *x = a, *y = b;
    if (x->file != y->file)
        return x->file < y->file ? -1 : 1;
    if (x->shard->begin != y->shard->begin)
        return x->shard->begin < y->shard->begin ? -1 : 1;
    return 0;
}

static bool in_place(const lull__load_plan_t *plan) {
    for (size_t p = 1; p < plan->piece_count; p++)
        if (by_place(&plan->pieces[p - 1], &plan->pieces[p]) > 0)
            return false;
    return true;
}

/* Pieces first, first + 1, ... of one file whose blocks are now cut into
 * units: what has been promised to be read so far. */
typedef struct cutter {
    lull__load_plan_t *plan;
    bool open;
    lull__load_unit_t unit;
} cutter_t;

static lull_status_t flush(cutter_t *cutter) {
    lull__load_plan_t *plan = cutter->plan;
    if (!cutter->open)
        return LULL_OK;
    cutter->open = false;
    lull_status_t status = lull__grow((void **)&plan->units, plan->unit_count,
                                      &plan->unit_room, sizeof cutter->unit);
    if (status == LULL_OK)
        plan->units[plan->unit_count++] = cutter->unit;
    return status;
}

/* Blocks of a file (shard NULL) or frames of a shard, [first, last], that
 * piece `p` needs. They come in ascending order. */
static lull_status_t need(cutter_t *cutter, size_t p, uint64_t first,
                          uint64_t last, const lull__shard_t *shard) {
    const lull__load_piece_t *piece = &cutter->plan->pieces[p];
    lull__load_unit_t *unit = &cutter->unit;
    for (uint64_t at = first; at <= last; at++) {
        bool same =
            cutter->open && unit->file == piece->file && unit->shard == shard;
        if (same && at >= unit->first && at < unit->first + unit->count) {
            unit->pieces = p + 1 - unit->piece;
            continue;
        }
        if (!same || at != unit->first + unit->count ||
            unit->count == LULL__READ_BLOCKS) {
            lull_status_t status = flush(cutter);
            if (status != LULL_OK)
                return status;
            *unit = (lull__load_unit_t){piece->file, shard, at, 0, p, 0};
            cutter->open = true;
        }
        unit->count++;
        unit->pieces = p + 1 - unit->piece;
    }
    return LULL_OK;
}

/* `base`: where the shard's raw data begins in what is numbered, the file's
 * data or its own frames. Slices of one tensor may overlap: then blocks are
 * read again for the later piece. */
static lull_status_t need_rows(cutter_t *cutter, size_t p, uint64_t base,
                               const lull__shard_t *shard) {
    const lull__load_piece_t *piece = &cutter->plan->pieces[p];
    uint64_t from, to;
    for (uint64_t row = 0; row < piece->rows;) {
        lull__load_piece_row(piece, row, &from, &to);
        uint64_t first = (base + from) / LULL__BLOCK_BYTES;
        uint64_t last = (base + from + piece->run - 1) / LULL__BLOCK_BYTES;
        lull_status_t status = need(cutter, p, first, last, shard);
        if (status != LULL_OK)
            return status;
        /* On to the first row that ends behind these blocks. */
        uint64_t end = (last + 1) * LULL__BLOCK_BYTES - base;
        uint64_t next = lull__load_piece_seek(piece, end);
        row = next > row ? next : row + 1;
    }
    return LULL_OK;
}

lull_status_t lull__load_plan_finish(lull__load_plan_t *plan) {
    cutter_t cutter = {.plan = plan};
    lull_status_t status = LULL_OK;
    _Static_assert(LULL__BLOCK_BYTES == LULL__FRAME_BYTES,
                   "blocks and frames are numbered alike");
    if (!in_place(
            plan)) /* a model is mostly loaded in the order of its files */
        qsort(plan->pieces, plan->piece_count, sizeof *plan->pieces, by_place);
    for (size_t p = 0; status == LULL_OK && p < plan->piece_count; p++) {
        const lull__shard_t *shard = plan->pieces[p].shard;
        if (shard->codec == NULL)
            status = need_rows(&cutter, p, shard->begin, NULL);
        else
            status = need_rows(&cutter, p, 0, shard);
    }
    if (status == LULL_OK)
        status = flush(&cutter);
    return status;
}

void lull__load_plan_free(lull__load_plan_t *plan) {
    free(plan->pieces);
    free(plan->units);
    *plan = (lull__load_plan_t){0};
}
