/* What a load has to read, and where each byte goes. */
#ifndef LULL__CKPT_LOAD_PLAN_H
#define LULL__CKPT_LOAD_PLAN_H

#include <lull/ckpt.h>

#include "reader.h"

/* One slice's part of one shard: rows of `run` bytes, counted by an odometer
 * of outer dimensions. Both sides are row-major, so rows ascend in each. */
typedef struct lull__load_piece {
    const lull__shard_t *shard;
    size_t file;
    char *to;         /* the slice's memory */
    uint64_t from_at; /* byte of the first row in the shard's raw data */
    uint64_t to_at;   /* ... in the slice */
    uint64_t run;     /* bytes of a row */
    uint64_t rows;    /* product of count */
    uint32_t outer;   /* dimensions of the odometer, slowest first */
    uint64_t count[LULL_MAX_DIMS];
    uint64_t from_stride[LULL_MAX_DIMS], to_stride[LULL_MAX_DIMS];
} lull__load_piece_t;

/* A read: of blocks of a file for all pieces that lie there, or of frames of
 * one coded shard. */
typedef struct lull__unit {
    size_t file;
    const lull__shard_t *shard; /* NULL: blocks of raw shards */
    uint64_t first, count;      /* blocks, or frames */
    size_t piece, pieces;       /* those that may lie in it */
} lull__load_unit_t;

typedef struct lull__load_plan {
    lull__load_piece_t *pieces; /* by file, then begin of the shard */
    size_t piece_count, piece_room;
    lull__load_unit_t *units;
    size_t unit_count, unit_room;
} lull__load_plan_t;

/* Adds what a slice (already checked against the tensor) needs.
 * LULL_ERR_UNSUPPORTED: packed elements that do not begin on bytes. */
lull_status_t lull__load_plan_add(lull__load_plan_t *plan,
                                  const lull_ckpt_info_t *info,
                                  const lull__reader_tensor_t *tensor,
                                  const lull_ckpt_slice_t *slice);
/* After all slices: sorts the pieces and cuts units. */
lull_status_t lull__load_plan_finish(lull__load_plan_t *plan);
void lull__load_plan_free(lull__load_plan_t *plan);

/* A row of a piece: its byte in the shard's raw data and in the slice. */
void lull__load_piece_row(const lull__load_piece_t *piece, uint64_t row,
                          uint64_t *from, uint64_t *to);
/* The first row that ends behind byte `at` of the shard's raw data;
 * piece->rows: none. */
uint64_t lull__load_piece_seek(const lull__load_piece_t *piece, uint64_t at);

#endif
