/* The engine's own structures, shared by the files of its write side. What a
 * save goes through, each stage by one background thread and in the order of
 * saves:
 *
 *   save.c    describe   the caller: checks, copies descriptors and host state
 *   copy.c    copy       copy threads: lay out, then chunk by chunk to the ring
 *   store.c   open       opener: directory, space, files; chunks may be written
 *   encode.c  encode     encoder, where there is a codec
 *   store.c   finish     finisher: header, length, fsync, vote
 *   commit.c  commit     committer: rank 0 publishes, the others wait
 *
 * A failed save goes through all stages too; each then only counts it. */
#ifndef LULL__CKPT_ENGINE_H
#define LULL__CKPT_ENGINE_H

#include <lull/ckpt.h>
#include <pthread.h>
#include <stdbool.h>
#include <sys/types.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/thread.h"
#include "deleter.h"
#include "device/device.h"
#include "io/direct.h"
#include "io/queue.h"
#include "lock.h"
#include "naming.h"
#include "retention.h"
#include "ring.h"
#include "vote.h"

typedef struct lull__encoder lull__encoder_t;
typedef struct lull__tiers lull__tiers_t;

/* What this rank stores: a shard and where its bytes are now. */
typedef struct lull__item {
    lull__shard_t shard;
    const void *data;
    uint64_t bytes;
    uint64_t begin, end; /* of the raw data of its file */
    uint64_t most;       /* bytes that it may take in the file */
    const struct lull__class_codec *coding; /* NULL: stored raw */
    uint64_t *frames;                       /* of a coded one: the shard's */
    uint64_t hash; /* of the tensor at save; only to detect mutation */
    bool host;     /* `data` is the save's own copy, not on the device */
} lull__item_t;

/* A data file of a save. */
typedef struct lull__data_file {
    lull__entry_name_t name;
    lull__file_t direct; /* for chunks; O_DIRECT where that works */
    lull__file_t plain;  /* for the header */
    bool is_direct;
    uint64_t room;       /* reserved for the header: where data begins */
    uint64_t raw_bytes;  /* of its tensors: what is copied */
    uint64_t most_bytes; /* that its data may have */
    uint64_t sure_bytes; /* that it has however well the rest is coded */
    uint64_t data_bytes; /* that it has, once all is coded */
    uint64_t header_hash;
    uint64_t *hashes;     /* of each block */
    uint64_t first_chunk; /* of the save's, here */
    size_t first, count;  /* of the save's items, in order */
} lull__data_file_t;

/* A chunk: a ring slot and the write of it. */
typedef struct lull__chunk {
    lull__io_job_t job;
    lull_ckpt_request_t *save;
    lull__data_file_t *file;
    uint64_t begin, bytes; /* of the file's data; in the staging ring of an
                              engine that compresses, of the raw data */
    lull__ring_t *ring;
    uint32_t slot;
    uint64_t fence;           /* of an asynchronous device's copies */
    struct lull__chunk *next; /* in flight, landed, or waiting for the file to
                                 be open */
} lull__chunk_t;

/* One save; the public request is a reference to it. Plain fields are set by
 * the stage that owns the save, and read by later ones. */
struct lull_ckpt_request {
    lull_ckpt_t *ckpt;
    uint64_t number, step, parent_seq;
    void *event; /* on the caller's stream */
    /* described */
    lull__item_t *items;
    size_t item_count, item_room;
    lull_ckpt_meta_t *aliases, *meta;
    size_t alias_count, meta_count;
    lull__arena_t arena;      /* of all but the metadata, until it voted */
    lull__arena_t meta_arena; /* the manifest wants it */
    /* laid out */
    lull__item_t **order;
    lull__data_file_t *files;
    size_t file_count;
    uint64_t chunk_count;
    /* opened */
    lull__dir_t dir;
    lull__entry_name_t dir_name;
    bool tight; /* there may be too little room for what it may take at most */
    /* finished: the vote, for the coordinator */
    bool voted;
    bool
        exchanged; /* the committer's: the partial name has what was replaced */
    lull__vote_times_t times;
    /* From here on under the engine's lock. */
    lull_ckpt_request_t *next; /* of the pending ones, by number */
    unsigned refs;
    /* Stages begun, and stages over (well or not). */
    bool planning, opening, finishing, committing;
    bool planned, opened, finished;
    bool coded;   /* the encoder has done with it */
    bool copied;  /* nobody reads the tensors any more */
    bool decided; /* committed or not, as far as this rank will know */
    bool verifying, verified; /* detect_mutation: being, been compared */
    uint64_t next_chunk, copying, writing;
    uint64_t next_coded;    /* chunk that the encoder wants */
    lull__chunk_t *raw;     /* chunks that wait for it */
    lull__chunk_t *waiting; /* chunks whose file is not open yet */
    uint64_t bytes, bytes_copied, bytes_written;
    lull_ckpt_progress_t at; /* times */
    double written_s;        /* of the last chunk so far */
    lull_status_t status;
    bool reported;
    char *sentence; /* of status; malloc'ed, may be NULL */
};

/* A failure that no wait has reported yet. */
#define LULL__FAILURES_MAX 8
typedef struct lull__failure {
    uint64_t number;
    lull_status_t status;
    char *sentence;
} lull__failure_t;

#define LULL__COPY_THREADS_MAX 16

/* One copy thread's own things. */
typedef struct lull__copier {
    lull_ckpt_t *ckpt;
    void *queue;               /* of the device */
    lull_ckpt_request_t *save; /* whose event the queue was told to wait for */
    uint64_t number;           /* of that save: pointers come again */
    double waited, busy;       /* since last reported */
    /* An asynchronous device's: issued and not waited for, the oldest first. */
    lull__chunk_t *flying, **flying_tail;
    unsigned flying_count;
} lull__copier_t;

struct lull_ckpt {
    /* options, checked and copied */
    lull_ckpt_options_t options;
    char *dir_path;
    char run_id[LULL_RUN_ID_MAX];
    int *cpus;
    pid_t pid;
    const lull__io_t *io;
    lull_device_t *device;
    lull__dir_t dir, lull_dir; /* opened by who leads at open, by others late */
    bool leads;                /* creates, locks and cleans dir: rank 0, or with
                                  `agree` the lowest rank that sees dir */
    lull__lock_t *dir_lock;    /* who leads */
    /* With `agree`: directories, as HOST:DIR, and whose is which. */
    char **place_names;
    uint32_t *place_of; /* [world] */
    uint32_t place_count;
    bool *heard; /* [world] rank 0: who spoke in this round */
    lull__ring_t *ring;
    lull__chunk_t *chunks; /* one for each slot of the ring */
    lull__io_queue_t *queue;
    lull__deleter_t *deleter; /* of what retention lets go */
    lull__encoder_t *encoder; /* NULL: nothing is compressed */
    lull__history_t history;  /* who leads: what is committed; committer's */
    lull__tiers_t *tiers;     /* rank 0, and who leads another place; NULL:
                                 there is one directory */
    lull__direct_writes_t direct_writes; /* the opener's */
    uint64_t verdicts_begin; /* the committer's: first not deleted */
    /* The committer's: a partial directory could not go yet; one may hold an
     * older checkpoint whose successor is perhaps not durable. */
    bool garbage, in_doubt;
    pthread_t threads[5 + 2 * LULL__COPY_THREADS_MAX];
    lull__copier_t copiers[LULL__COPY_THREADS_MAX];
    unsigned copier_count;
    unsigned thread_count;

    pthread_mutex_t lock; /* guards all below, and requests as said there */
    pthread_cond_t changed;
    lull_ckpt_request_t *pending, **pending_tail; /* not over, by number */
    lull_ckpt_request_t *spare; /* for a save that finds no memory for one: the
                                   others are to be told; NULL: in use */
    unsigned pending_count;
    uint64_t next_number;
    bool closed, cancel, stop;
    uint64_t coding; /* raw chunks begun and not coded yet */
    double full_s;   /* since when that is all there may be; 0: it is not */
    lull__chunk_t *landed, **landed_tail; /* to be hashed */
    pthread_cond_t landed_changed;
    lull__failure_t failures[LULL__FAILURES_MAX];
    unsigned failure_count;
    lull_ckpt_stats_t stats;
};

/* engine.c */

/* Refuses NULL, a forked child and, unless `or_closed`, a closed engine. */
lull_status_t lull__engine_check(const lull_ckpt_t *ckpt, const char *call,
                                 bool or_closed);
/* The save has failed: keeps this thread's sentence, if it is the first. The
 * lock is not held. */
void lull__save_fail(lull_ckpt_request_t *save, lull_status_t status);
/* As lull__save_fail, but also over a DURABILITY_UNKNOWN that has turned out
 * not to be: the save was aborted. */
void lull__save_amend(lull_ckpt_request_t *save, lull_status_t status);
/* Status so far; the lock is not held. Cancelling counts as a failure. */
lull_status_t lull__save_status(lull_ckpt_request_t *save);
/* With the lock held: drops a reference, frees the last one. */
void lull__save_unref(lull_ckpt_request_t *save);
/* Frees what only the stages need. */
void lull__save_free_work(lull_ckpt_request_t *save);
/* Naps before looking at the file system again: a tenth of the time waited
 * `since`, between 0.5 and 50 ms, so that short waits stay short and long ones
 * cost a shared file system little. False: the engine is cancelled. */
bool lull__engine_nap(lull_ckpt_t *ckpt, double since);
/* LULL_ERR_NOT_FOUND: somebody deleted the notes' directory, or all of DIR:
 * waiting for another rank is for nothing. */
lull_status_t lull__engine_there(const lull_ckpt_t *ckpt);
/* The first pending save whose flag at offset `begun` is not set, once it is
 * `ready` (called with the lock held); sets the flag. Blocks; NULL: stop. */
lull_ckpt_request_t *
lull__engine_next(lull_ckpt_t *ckpt, size_t begun,
                  bool (*ready)(const lull_ckpt_request_t *save));
/* The stage is over: sets the flag at the offset, wakes all. */
void lull__save_set(lull_ckpt_request_t *save, size_t flag);
/* Opens DIR and DIR/.lull on a rank that does not create them; LULL_ERR_
 * NOT_FOUND while they are not there. */
lull_status_t lull__engine_dirs(lull_ckpt_t *ckpt);

/* wait.c */

/* mutation.c */

/* detect_mutation: hashes the tensors of a described save, in the caller's
 * time: only so a change before the copy is noticed too. */
lull_status_t lull__mutation_note(lull_ckpt_request_t *save);
/* detect_mutation: waits until every pending save is copied and compares the
 * tensors with their hashes; a changed one fails its save. */
void lull__mutation_check(lull_ckpt_t *ckpt);
/* Waits until `save` has the flag, or (NULL) every pending
 * save does; false: the deadline passed. */
bool lull__wait_flag(lull_ckpt_t *ckpt, lull_ckpt_request_t *save, size_t flag,
                     double deadline);
/* Sets the sentence of the first unreported failure and takes it off the
 * list; LULL_OK if there is none. */
lull_status_t lull__wait_report(lull_ckpt_t *ckpt);

/* copy.c, copy_async.c, store.c, commit.c: threads' functions; arg is the
 * engine, or of copiers the copier. */
void *lull__copy_thread(void *arg);
void *lull__copy_async_thread(void *arg);
void *lull__hash_thread(void *arg);
void *lull__open_thread(void *arg);
void *lull__finish_thread(void *arg);
void *lull__commit_thread(void *arg);
/* With the lock held: is copying over? */
void lull__copy_settle(lull_ckpt_request_t *save);
/* With the lock held: a chunk is in its slot, to be written (or, one of raw
 * bytes, to be coded), and counted in save->writing;
 * its write begins, now or when the file is open. */
void lull__chunk_ready(lull__chunk_t *chunk);
/* With the lock held: lets go of chunks that will not be written. */
void lull__chunks_drop(lull_ckpt_request_t *save);

/* plan.c */

/* Does this replica write the tensor, and which part of it? Every replica
 * answers from what all of them know; together they write each element once.
 * *box: in the global tensor; *skip: bytes of `data` before it. False: other
 * replicas write it. */
bool lull__plan_share(const lull_ckpt_tensor_t *tensor, uint64_t bytes,
                      lull__box_t *box, uint64_t *skip);
/* Order, files, offsets, chunks of a described save. */
lull_status_t lull__plan_layout(lull_ckpt_request_t *save);
/* The header of a file through `out`; out NULL measures, *room is the room to
 * reserve. */
lull_status_t lull__plan_header(lull_ckpt_request_t *save,
                                lull__data_file_t *file, lull__out_t *out);

#endif
