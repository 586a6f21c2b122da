/* How ranks of a checkpoint agree where they do not all see one directory: a
 * callback that carries messages. Part of ckpt.h. Bytes of the messages:
 * docs/formats/agree.md. */
#ifndef LULL_AGREE_H
#define LULL_AGREE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Agreement for ranks that do not all see one directory, as on disks of nodes:
 * they talk through a callback of the caller's instead of through files. NULL
 * where all ranks see `dir` (then they agree through files).
 *
 * Ranks that see one directory form a place. Each place commits a checkpoint
 * of its own: the files of its ranks, and a record that lists all files of
 * all places; it counts when every place has it. `dir` may be another path on
 * each rank. Replicas are written whole by each rank, global host state by the
 * lowest rank of each place, so that a place holds all that its ranks saved.
 * The retention of a place follows what all places have.
 *
 * The callback does one of two things, each with all ranks:
 *
 *     LULL_CKPT_GATHER  every rank has `bytes` bytes at `data` for rank 0,
 *                       which hands each message, its own too, to take()
 *     LULL_CKPT_SPREAD  rank 0 has bytes at `data` for all, each other rank
 *                       hands them to take() with rank 0
 *
 * Rounds ascend on every rank, and each round is a gather, then a spread. A
 * rank that gave up may be rounds behind or ahead: messages of another round
 * than the call's must not be taken. (Over collectives that have no rounds:
 * after one failure fail every later call.) `data` is the engine's only until
 * the callback returns; rank 0's gather, and the others' spread, wait; what
 * has only to be sent need not have arrived.
 *
 * It waits timeout_s at most, then returns LULL_ERR_TIMEOUT (rank 0: after it
 * took what has come); and once cancelled() is true it does what needs no
 * waiting and returns LULL_ERR_CANCELLED. Any failure fails the save, or the
 * open, on all ranks that learn of it; no rank hangs longer than its timeouts.
 * Where a function of lull's failed in the callback, what it left for
 * lull_last_error() is in the sentence of that failure, else the status's text.
 *
 * Threads: called by lull_ckpt_open() in the caller's thread, then from one
 * background thread, beside whatever the caller does: over MPI that needs
 * MPI_THREAD_MULTIPLE (comm.h has a callback: lull_peers_agree), or a callback
 * that leaves its message where the caller's thread looks for it and waits for
 * the answer. It must not use the engine. lull_ckpt_open() is collective then,
 * as lull_ckpt_save() always is.
 *
 * A restart finds in each place what it has, and takes the newest seq that all
 * have: the lowest of lull_ckpt_find() (with tiers lull_ckpt_find_in(), each
 * rank its own directory first) over ranks, then again below it (before_seq)
 * until all find the same; after lull_ckpt_open(), which completes what a crash
 * left half published. Directories that were mixed up have the same seq of
 * different runs: all open rank 0's id, origin and all, else it goes on below
 * it. */
typedef enum lull_ckpt_agree_op {
    LULL_CKPT_GATHER = 0,
    LULL_CKPT_SPREAD = 1
} lull_ckpt_agree_op_t;

typedef struct lull_ckpt_agree lull_ckpt_agree_t;
struct lull_ckpt_agree {
    size_t size; /* sizeof(lull_ckpt_agree_t) */
    lull_ckpt_agree_op_t op;
    uint64_t round;
    uint32_t rank, world;
    const void *data; /* of a spread: NULL but on rank 0 */
    uint64_t bytes;
    double timeout_s;
    /* Copies what it needs of a message. */
    void (*take)(const lull_ckpt_agree_t *call, uint32_t rank, const void *data,
                 uint64_t bytes);
    bool (*cancelled)(const lull_ckpt_agree_t *call);
    void *engine; /* not the callback's */
};

typedef lull_status_t (*lull_ckpt_agree_fn)(void *ctx,
                                            const lull_ckpt_agree_t *call);

#ifdef __cplusplus
}
#endif

#endif
