/* What is stored: a box of a tensor, or a host state. There is one for each
 * row of a vote, millions in a large model, so it is small. */
#ifndef LULL__CKPT_SHARD_H
#define LULL__CKPT_SHARD_H

#include <lull/ckpt.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "box.h"

typedef enum lull__shard_kind {
    LULL__SHARD_TENSOR = 0,
    LULL__SHARD_STATE = 1,      /* host state of the whole run */
    LULL__SHARD_STATE_RANK = 2, /* host state of this rank */
    LULL__SHARD_KINDS
} lull__shard_kind_t;

/* "tensor", "state", "rank_state": as the file spells it. */
const char *lull__shard_kind_name(lull__shard_kind_t kind);

/* A state has dtype U8, one dimension, is whole, and `name` is without
 * LULL__STATE_PREFIX. */
typedef struct lull__shard {
    const char *name;
    const char *stored; /* its name in the file */
    /* The shape, and unless the box is the whole of it the box: its offset,
     * its shape. [ndim] each. Set by lull__shard_place(). */
    const uint64_t *global;
    uint64_t begin, end;    /* relative to the file's data */
    const char *codec;      /* NULL: raw */
    const uint64_t *frames; /* stored bytes of each frame; NULL: raw */
    uint32_t frame_count;
    uint32_t rank; /* that saved it; looked at only in a merged vote */
    uint32_t file; /* index into the vote's files */
    uint32_t replica, replicas; /* as in the descriptor; 0, 0: single */
    uint8_t kind;               /* lull__shard_kind_t */
    uint8_t dtype;              /* lull_dtype_t */
    uint8_t ndim;
    bool whole;
} lull__shard_t;

/* Lists of numbers in an arena. Tensors of a model have few shapes, so of lists
 * that come again soon one is kept. All zero to begin with. */
#define LULL__RECENT 64u
typedef struct lull__lists {
    struct {
        const uint64_t *values;
        uint32_t count;
    } recent[LULL__RECENT];
    unsigned turn;
} lull__lists_t;

/* NULL: no memory. */
const uint64_t *lull__lists_keep(lull__lists_t *lists, lull__arena_t *arena,
                                 const uint64_t *values, uint32_t count);

/* Gives a shard of known ndim its shape and its box. LULL_ERR_NO_MEMORY. */
lull_status_t lull__shard_place(lull__shard_t *shard, const uint64_t *global,
                                const lull__box_t *box, lull__lists_t *lists,
                                lull__arena_t *arena);
/* Its box; zeros behind ndim. */
void lull__shard_box(const lull__shard_t *shard, lull__box_t *out);
/* The box's shape, [ndim]. */
static inline const uint64_t *lull__shard_shape(const lull__shard_t *shard) {
    return shard->whole ? shard->global : shard->global + 2 * shard->ndim;
}

#endif
