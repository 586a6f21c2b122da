/* Checkpoints of a training's state: saved lazily while forward and backward
 * leave the state unchanged, committed across ranks through the file system,
 * restored to any layout.
 *
 * Source of the method: Maurya et al., "DataStates-LLM: Lazy Asynchronous
 * Checkpointing for Large Language Models", HPDC 2024. Rules of the life
 * cycle: docs/lifecycle.md. Bytes on disk: docs/formats/checkpoint.md.
 *
 * The loop of a trainer, on every rank:
 *
 *     lull_ckpt_open(&options, &ckpt);
 *     for each step:
 *         lull_ckpt_wait_snapshot(ckpt, NULL, LULL_FOREVER);
 *         optimizer update;
 *         lull_ckpt_save(ckpt, &save, NULL);    every few steps
 *         forward; backward;
 *     status = lull_ckpt_close(ckpt);
 *     lull_ckpt_destroy(ckpt);
 *
 * Threads: an engine may be used from one thread at a time; waits and
 * lull_ckpt_test may run beside a save. Sizes and offsets are bytes unless
 * they are called counts; times are milliseconds or, with _s, seconds. */
#ifndef LULL_CKPT_H
#define LULL_CKPT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agree.h"
#include "device.h"
#include "dtype.h"
#include "status.h"

#ifdef __cplusplus
extern "C" {
#endif

#define LULL_MAX_DIMS 8    /* dimensions of a tensor */
#define LULL_FOREVER (-1)  /* a timeout that never ends */
#define LULL_RUN_ID_MAX 64 /* bytes of a run id with its NUL */
#define LULL_LATEST UINT64_MAX

typedef struct lull_ckpt lull_ckpt_t;
typedef struct lull_ckpt_request lull_ckpt_request_t;

/* ---- Saving ------------------------------------------------------------ */

typedef enum lull_ckpt_mode {
    LULL_CKPT_LAZY = 0,  /* save returns when the request is queued */
    LULL_CKPT_EAGER = 1, /* ... when the snapshot is taken */
    LULL_CKPT_SYNC = 2   /* ... when the checkpoint is committed */
} lull_ckpt_mode_t;

/* A slower directory behind the first one. Rank 0 copies there in the
 * background what is committed in the tier before it: a drained checkpoint has
 * the same seq and step, and is committed there or absent. From the places of
 * `agree` each copies its own part to the first slower tier, where they are one
 * checkpoint: whole for any reader, each replica once. */
#define LULL_CKPT_TIERS_MAX 7
typedef struct lull_ckpt_tier {
    size_t size;         /* sizeof(lull_ckpt_tier_t); the stride of arrays */
    const char *dir;     /* created if missing; all ranks see it; copied */
    uint32_t keep_last;  /* its own retention: the newest K, 0: keep all */
    uint64_t keep_every; /* and every M-th step; 0: none */
    uint32_t files;      /* the ranks' data files are merged into so many, for
                            file systems that suffer from many; 0: as they are.
                            More than there are ranks: one a rank. A header past
                            25 MB still begins another file. A place of `agree`
                            has one at least for each of its runs of ranks that
                            follow each other */
} lull_ckpt_tier_t;

#define LULL_CKPT_TIER_INIT \
    { .size = sizeof(lull_ckpt_tier_t) }

typedef struct lull_ckpt_options {
    size_t size;          /* sizeof(lull_ckpt_options_t) */
    const char *dir;      /* created if missing; copied */
    uint32_t rank, world; /* this rank of how many */
    const char *run_id;   /* same on all ranks, new at each launch, at most
                             63 of [A-Za-z0-9_-]; NULL: agreed through dir
                             or `agree`; copied */
    lull_ckpt_mode_t mode;
    lull_device_t *device;    /* where tensors live; NULL: host */
    uint64_t buffer_bytes;    /* staging budget; 0: 256 MiB. At least 1 MiB */
    uint32_t max_pending;     /* saves queued before save blocks; 0: 2 */
    double commit_timeout_s;  /* 0: 600 */
    uint32_t keep_last;       /* retention: newest K by seq; 0: keep all */
    uint64_t keep_every;      /* and every M-th step; 0: none */
    bool detect_mutation;     /* hash tensors again at wait_snapshot; a save
                                 is voted for only after that (or a later
                                 wait, save or close) has compared them */
    uint32_t copy_threads;    /* 0: 1; beside a device as many more hash */
    uint32_t flush_threads;   /* 0: 2 */
    const int *cpus;          /* affinity of background threads; copied */
    size_t cpu_count;         /* 0: inherited */
    int nice;                 /* added niceness of background threads */
    uint64_t write_cap;       /* bytes/s a rank, drains too; 0: none */
    lull_ckpt_agree_fn agree; /* agree.h: on all ranks or none; NULL: files */
    void *agree_ctx;
    /* How tensors are stored: CLASS=CODEC, separated by commas, as
     * "weights=expo,moments=expo,*=raw"; a codec alone is for all classes.
     * Classes: "moments", tensors whose names begin with "optimizer.";
     * "weights", all others; "*", those that are not named. Codecs: codec.h; a
     * lossy one only for a class that is named. Tensors of a dtype that a
     * codec does not take, and host state, are stored raw. NULL: all raw.
     *
     * Coding happens in the background, after the snapshot where the staging
     * buffer holds all of it; so a save blocks no longer than a raw one. It
     * takes encode_threads and 14 MiB beside the staging buffer, and 4 MiB for
     * each thread where there are more than one. Where what is coded might not
     * fit a disk it is tried: LULL_ERR_NO_SPACE may then come late. */
    const char *codec;
    /* Tiers behind `dir`, fast to slow. A save is committed when it is in
     * `dir`. Rank 0 drains, the newest first, what the retention of a slower
     * tier would keep; until then no retention deletes it. A tier that fails
     * stops nothing: it is tried again after a while and after the next
     * commit. With `agree` as many on all ranks; a place that copies nothing
     * for commit_timeout_s fails the drain. */
    const lull_ckpt_tier_t *tiers;
    size_t tier_count;       /* at most LULL_CKPT_TIERS_MAX */
    uint32_t encode_threads; /* with `codec`; the bytes are the same. 0: 1 */
} lull_ckpt_options_t;

#define LULL_CKPT_OPTIONS_INIT \
    { .size = sizeof(lull_ckpt_options_t) }

/* Opens the engine of one rank: allocates its one staging buffer and starts
 * its threads. Rank 0 creates the directory, takes its lock and removes what
 * crashed runs left. Blocks until the ranks agree on a run id when none is
 * given, commit_timeout_s at most. With tiers rank 0 takes the lock of each,
 * and the other ranks wait for rank 0's mark in each: LULL_ERR_NOT_FOUND names
 * one that they do not see.
 * LULL_ERR_BUSY: another run holds the directory (host and pid are in the
 * sentence). LULL_ERR_INVALID: an option, named. LULL_ERR_IO, _PERMISSION,
 * _NO_SPACE: the directory cannot be used. LULL_ERR_TIMEOUT: no agreement. */
LULL_API lull_status_t lull_ckpt_open(const lull_ckpt_options_t *options,
                                      lull_ckpt_t **out);

/* One shard: a box of a tensor, row-major and contiguous. A whole tensor has
 * offset 0 and shape = global_shape. The descriptor is copied by save; the
 * memory at `data` is not: it must stay valid and unchanged from save until
 * wait_snapshot. */
typedef struct lull_ckpt_tensor {
    size_t size; /* sizeof(lull_ckpt_tensor_t); the stride of arrays */
    const char *name;
    lull_dtype_t dtype;
    uint32_t ndim;                        /* 0: a scalar */
    uint64_t global_shape[LULL_MAX_DIMS]; /* logical: no padding */
    uint64_t offset[LULL_MAX_DIMS];       /* of this box */
    uint64_t shape[LULL_MAX_DIMS];        /* of this box */
    const void *data;                     /* on the engine's device */
    uint32_t replica, replicas; /* which of how many ranks hold this box;
                                   0, 0: only this rank. They share its
                                   writing, each element once. */
    const char *alias_of;       /* tied: the name of the tensor it equals;
                                   data is NULL then. Usually NULL. */
} lull_ckpt_tensor_t;

#define LULL_CKPT_TENSOR_INIT \
    { .size = sizeof(lull_ckpt_tensor_t) }

/* Host state: copied inside save, at most 1 MiB a save in all. */
typedef struct lull_ckpt_state {
    const char *name;
    const void *data;
    size_t bytes;
    bool per_rank; /* false: global, rank 0's is written and all get it */
} lull_ckpt_state_t;

/* A string of the checkpoint's metadata, for people and programs: what model
 * this is. Rank 0's are written. */
typedef struct lull_ckpt_meta {
    const char *key, *value;
} lull_ckpt_meta_t;

typedef struct lull_ckpt_save {
    size_t size;   /* sizeof(lull_ckpt_save_t) */
    uint64_t step; /* a label; < LULL_LATEST */
    const lull_ckpt_tensor_t *tensors;
    size_t tensor_count;
    const lull_ckpt_state_t *states;
    size_t state_count;
    const lull_ckpt_meta_t *meta;
    size_t meta_count;
    lull_stream_t stream; /* the tensors are ready when it gets here */
    uint64_t parent_seq;  /* checkpoint this run resumed from; 0: none */
} lull_ckpt_save_t;

#define LULL_CKPT_SAVE_INIT \
    { .size = sizeof(lull_ckpt_save_t) }

/* Queues a save; collective: every rank saves the same steps in the same
 * order. In lazy mode returns before any tensor is read, unless max_pending
 * saves are pending: then it waits for one, and counts that. *request (may be
 * NULL: use NULL in the waits) is to be destroyed by the caller.
 * LULL_ERR_INVALID: a bad descriptor, named; nothing is queued on this rank
 * and an abort note tells the others. LULL_ERR_NO_MEMORY. LULL_ERR_STATE:
 * closed. LULL_ERR_FORKED. In sync mode also all that
 * lull_ckpt_wait_committed returns. */
LULL_API lull_status_t lull_ckpt_save(lull_ckpt_t *ckpt,
                                      const lull_ckpt_save_t *save,
                                      lull_ckpt_request_t **request);

/* The three waits. `request` NULL: every request of the engine. timeout_ms
 * LULL_FOREVER: no limit; 0: look. LULL_ERR_TIMEOUT: not yet, nothing lost.
 * Any other failure is the request's own; with NULL the first failure that no
 * wait has reported yet. All block without spinning; any thread. */

/* Every byte is out of the live tensors: they may be changed or freed. */
LULL_API lull_status_t lull_ckpt_wait_snapshot(lull_ckpt_t *ckpt,
                                               lull_ckpt_request_t *request,
                                               int64_t timeout_ms);
/* This rank's file is written, synced and voted for. */
LULL_API lull_status_t lull_ckpt_wait_durable(lull_ckpt_t *ckpt,
                                              lull_ckpt_request_t *request,
                                              int64_t timeout_ms);
/* Every rank voted and rank 0 published: a restart after power loss finds it.
 * LULL_ERR_ABORTED: not published, and why. LULL_ERR_OUTCOME_UNKNOWN: no
 * verdict came in commit_timeout_s. LULL_ERR_DURABILITY_UNKNOWN: published,
 * but the directory's fsync failed. */
LULL_API lull_status_t lull_ckpt_wait_committed(lull_ckpt_t *ckpt,
                                                lull_ckpt_request_t *request,
                                                int64_t timeout_ms);

/* Every committed checkpoint that a tier wants is committed there, too. Only
 * rank 0 knows: on others nothing is waited for. Saves still pending are not
 * waited for. Any other failure than LULL_ERR_TIMEOUT is that of the last try
 * of a checkpoint that is not drained yet; it is tried again later. */
LULL_API lull_status_t lull_ckpt_wait_drained(lull_ckpt_t *ckpt,
                                              int64_t timeout_ms);

typedef enum lull_ckpt_stage {
    LULL_CKPT_QUEUED = 0,
    LULL_CKPT_COPYING = 1,
    LULL_CKPT_FLUSHING = 2, /* snapshot taken */
    LULL_CKPT_DURABLE = 3,
    LULL_CKPT_COMMITTED = 4,
    LULL_CKPT_FAILED = 5
} lull_ckpt_stage_t;

/* When each stage of a request was reached, in seconds of CLOCK_MONOTONIC; 0:
 * not yet. */
typedef struct lull_ckpt_progress {
    size_t size; /* sizeof, set by the caller */
    lull_ckpt_stage_t stage;
    uint64_t step;
    uint64_t bytes, bytes_copied, bytes_written;
    double queued_s, copy_begin_s, snapshot_s, durable_s, committed_s;
    double blocked_s; /* time the caller spent in save and wait_snapshot */
    lull_status_t status;
} lull_ckpt_progress_t;

/* Stage and bytes done of a request, without blocking; any thread. Fills
 * *out whatever the stage; the status of a failed save is in out->status. */
LULL_API lull_status_t lull_ckpt_test(lull_ckpt_t *ckpt,
                                      lull_ckpt_request_t *request,
                                      lull_ckpt_progress_t *out);

/* Lets go of a request; the save itself goes on. NULL is harmless. Must come
 * before lull_ckpt_destroy(). */
LULL_API void lull_ckpt_request_destroy(lull_ckpt_request_t *request);

typedef struct lull_ckpt_stats {
    size_t size; /* sizeof, set by the caller */
    uint64_t saves, committed, failed;
    uint64_t bytes_copied, bytes_written;
    double save_s;          /* spent by the caller inside save */
    double wait_snapshot_s; /* ... inside wait_snapshot */
    double pending_s;       /* of save_s: waiting for max_pending */
    double backpressure_s;  /* copy threads waiting for a free chunk */
    double copy_s, flush_s, fsync_s, commit_s; /* busy, summed over threads */
    uint64_t buffer_bytes;                     /* staging memory */
    uint64_t buffer_peak;                      /* most of it in use at once */
    int64_t bytes_saved; /* by codecs: raw bytes less stored ones */
    double encode_s;     /* busy coding */
    /* Of tiers, on rank 0. A checkpoint that is drained to two counts twice. Of
     * another place of `agree`, on who leads it: but `drained`, of its part. */
    uint64_t drained, drain_failed; /* copies committed; tries that failed */
    uint64_t drain_pending;         /* copies still to be made */
    uint64_t drain_bytes;           /* read from faster tiers so far */
    double drain_s;                 /* busy draining */
} lull_ckpt_stats_t;

/* Counters since open. Any thread. */
LULL_API lull_status_t lull_ckpt_stats(lull_ckpt_t *ckpt,
                                       lull_ckpt_stats_t *out);

/* Waits for every save and every drain, stops the threads and reports the
 * first failure no wait has reported; if there is none, that of a tier which
 * does not have what it should: the next open takes that up. Where places of
 * `agree` drain, who leads one goes on until its part is drained or rank 0 has
 * closed, but no longer than commit_timeout_s after rank 0's last sign of life:
 * LULL_ERR_TIMEOUT names what is not drained. Afterwards only
 * destroy, requests' destroy, lull_ckpt_test and lull_ckpt_stats may be called.
 * Blocks. */
LULL_API lull_status_t lull_ckpt_close(lull_ckpt_t *ckpt);

/* Frees an engine. Without close first it cancels: threads are joined, an
 * abort note is left for the coordinator, nothing more is published; drains
 * are taken up by the next open. NULL is harmless. */
LULL_API void lull_ckpt_destroy(lull_ckpt_t *ckpt);

/* How checkpoints are written to a directory and read from it here. Each false
 * has its line in `why`. */
typedef struct lull_ckpt_io {
    size_t size;         /* sizeof, set by the caller */
    char writer[16];     /* "io_uring" or "threads" */
    bool registered;     /* io_uring writes from registered buffers */
    bool direct_writes;  /* past the page cache */
    bool direct_reads;   /* the same */
    bool reserves;       /* a file's blocks are reserved before it is written */
    bool exchanges;      /* a step that is saved again is replaced at once */
    uint64_t free_bytes; /* for this user; 0: not known */
    char why[1024];      /* reasons, a line each; "": none */
} lull_ckpt_io_t;

/* Tries it out, with two small files in `dir` that are removed again; dir
 * NULL: only how writes are made. Changes nothing else, needs no engine.
 * LULL_ERR_NOT_FOUND, _PERMISSION, _NO_SPACE, _IO: of dir. */
LULL_API lull_status_t lull_ckpt_probe(const char *dir, lull_ckpt_io_t *out);

/* ---- Finding and reading ---------------------------------------------- */

/* The exact name of one committed checkpoint: seq orders the commits of a
 * directory, step is a label. Directories that were not always used together
 * may have the same of both; origin tells those apart. Plain bytes: may be
 * broadcast. */
typedef struct lull_ckpt_id {
    uint64_t seq, step;
    uint64_t origin; /* a hash of which save it is, of which run: the same in
                        all tiers and places. Given: 0 is any */
} lull_ckpt_id_t;

/* Called once for each checkpoint that find passed over, or prune kept, with
 * the reason as a sentence. May be NULL. */
typedef void (*lull_ckpt_skip_fn)(void *ctx, lull_ckpt_id_t id,
                                  const char *why);

typedef struct lull_ckpt_find_options {
    size_t size;         /* sizeof(lull_ckpt_find_options_t) */
    uint64_t step;       /* this step, or LULL_LATEST: the highest seq */
    uint64_t before_seq; /* only below this seq; 0: any. How ranks that
                            could not load one ask for the next older */
    lull_ckpt_skip_fn on_skip;
    void *ctx;
    /* Only lull_ckpt_find_in(), beside before_seq: before anything older comes
     * the same checkpoint in the directories from this index on. How ranks
     * that could not load a copy ask for another one. 0: none. */
    size_t from_tier;
    /* Beside before_seq: the origin of the checkpoint that is meant, so that
     * one of another run with the same seq is no copy of it, but the next (also
     * where the one that is meant is not); 0: all with that seq are. */
    uint64_t before_origin;
} lull_ckpt_find_options_t;

#define LULL_CKPT_FIND_OPTIONS_INIT \
    { .size = sizeof(lull_ckpt_find_options_t), .step = LULL_LATEST }

/* Resolves to one committed checkpoint that passes the cheap checks (its
 * manifest, votes, sizes and headers); call it on one rank and broadcast the
 * id. A damaged newest is skipped, and reported, for LATEST only.
 * LULL_ERR_NOT_FOUND: none. LULL_ERR_CORRUPT: that step is damaged.
 * LULL_ERR_IO, LULL_ERR_PERMISSION: the one that is wanted, or one that may be
 * newer, cannot be read, tried again or not: it may be whole, so an older one
 * is not taken for it. Ask for a step, or move it away. */
LULL_API lull_status_t lull_ckpt_find(const char *dir,
                                      const lull_ckpt_find_options_t *options,
                                      lull_ckpt_id_t *out);

/* The same over several directories, fast to slow: the tiers of a run. The
 * newest over all of them, of one seq the one committed last; of the same
 * checkpoint the copy in the first one that is whole. *index: the directory it
 * is in, for lull_ckpt_info_open(); broadcast it beside the id. Directories
 * that are not there are passed over unless all are. */
LULL_API lull_status_t
lull_ckpt_find_in(const char *const *dirs, size_t count,
                  const lull_ckpt_find_options_t *options, lull_ckpt_id_t *out,
                  size_t *index);

/* A line of `lull ls`. */
typedef struct lull_ckpt_entry {
    lull_ckpt_id_t id;
    uint64_t parent_seq;
    uint32_t world, files;
    uint64_t bytes;      /* of all its files */
    int64_t time;        /* of commit, seconds since the epoch, UTC */
    lull_status_t state; /* LULL_OK: passes the cheap checks */
    char name[64];       /* of its directory */
    char why[256];       /* the reason when state is a failure */
} lull_ckpt_entry_t;

/* Committed checkpoints of a directory, in ascending seq (damaged ones whose
 * seq is not readable first, with seq 0). *entries is to be freed with
 * lull_ckpt_entries_free(). LULL_ERR_NOT_FOUND: no such directory; one
 * without checkpoints gives count 0. */
LULL_API lull_status_t lull_ckpt_list(const char *dir,
                                      lull_ckpt_entry_t **entries,
                                      size_t *count);
LULL_API void lull_ckpt_entries_free(lull_ckpt_entry_t *entries);

/* An opened checkpoint: everything but the tensors' data, parsed and checked.
 * Holds its files open: it stays readable while it is pruned or overwritten.
 * Immutable: any number of threads may read from it. */
typedef struct lull_ckpt_info lull_ckpt_info_t;

/* Opens by exact id; id.seq may be LULL_LATEST for a single rank.
 * LULL_ERR_NOT_FOUND, also where that seq is of another origin;
 * LULL_ERR_CORRUPT names the file; LULL_ERR_VERSION. */
LULL_API lull_status_t lull_ckpt_info_open(const char *dir, lull_ckpt_id_t id,
                                           lull_ckpt_info_t **out);
LULL_API void lull_ckpt_info_destroy(lull_ckpt_info_t *info);

/* What it is as a whole. */
LULL_API lull_status_t lull_ckpt_info_entry(const lull_ckpt_info_t *info,
                                            lull_ckpt_entry_t *out);
/* A metadata value by key, NULL if there is none; owned by info. */
LULL_API const char *lull_ckpt_info_meta(const lull_ckpt_info_t *info,
                                         const char *key);
/* Row `index` of the metadata; false past the last. */
LULL_API bool lull_ckpt_info_meta_at(const lull_ckpt_info_t *info, size_t index,
                                     lull_ckpt_meta_t *out);

/* One logical tensor, whole. Strings are owned by info. */
typedef struct lull_ckpt_tensor_info {
    const char *name;
    lull_dtype_t dtype;
    uint32_t ndim;
    uint64_t shape[LULL_MAX_DIMS];
    uint64_t bytes;        /* of its values */
    uint64_t stored_bytes; /* of its shards on disk */
    size_t shards;
    const char *codec;    /* "raw" when stored as it is */
    const char *alias_of; /* NULL unless tied */
} lull_ckpt_tensor_info_t;

/* Logical tensors, sorted by name; host state is not among them. */
LULL_API size_t lull_ckpt_info_tensors(const lull_ckpt_info_t *info);
LULL_API bool lull_ckpt_info_tensor_at(const lull_ckpt_info_t *info,
                                       size_t index,
                                       lull_ckpt_tensor_info_t *out);
/* By name; LULL_ERR_NOT_FOUND. */
LULL_API lull_status_t lull_ckpt_info_tensor(const lull_ckpt_info_t *info,
                                             const char *name,
                                             lull_ckpt_tensor_info_t *out);

/* Shard `index` of a tensor: its box, and where it is stored. */
typedef struct lull_ckpt_shard_info {
    uint64_t offset[LULL_MAX_DIMS], shape[LULL_MAX_DIMS];
    uint32_t rank;        /* that wrote it */
    const char *file;     /* relative to the checkpoint; owned by info */
    uint64_t file_offset; /* of its first byte in the file */
    uint64_t stored_bytes;
} lull_ckpt_shard_info_t;
LULL_API bool lull_ckpt_info_shard_at(const lull_ckpt_info_t *info,
                                      const char *name, size_t index,
                                      lull_ckpt_shard_info_t *out);

/* A file of the checkpoint, as the manifest lists it. Where ranks agreed by
 * `agree`, a directory may lack files of other places: what is read of a
 * checkpoint then is what is here (lists of tensors, shards and states, sizes,
 * verify). All files copied into one directory are a whole checkpoint. */
typedef struct lull_ckpt_file_info {
    const char *name; /* owned by info */
    uint32_t rank;
    uint64_t bytes;
    const char *elsewhere; /* NULL: it is here; else the place (HOST:DIR) that
                              it was written to; owned by info */
} lull_ckpt_file_info_t;
LULL_API bool lull_ckpt_info_file_at(const lull_ckpt_info_t *info, size_t index,
                                     lull_ckpt_file_info_t *out);

/* Host state by name: copies it to `data` and its length to *bytes. rank: the
 * old rank whose per-rank state is wanted; ignored for global state.
 * capacity 0 with data NULL asks the length only. LULL_ERR_NOT_FOUND;
 * LULL_ERR_CAPACITY: *bytes tells what is needed; LULL_ERR_CORRUPT. */
LULL_API lull_status_t lull_ckpt_info_state(const lull_ckpt_info_t *info,
                                            const char *name, uint32_t rank,
                                            void *data, size_t capacity,
                                            size_t *bytes);

/* Row `index` of the host states, in the order of ranks; false past the
 * last. */
typedef struct lull_ckpt_state_info {
    const char *name; /* owned by info */
    uint32_t rank;    /* that saved it: what info_state wants */
    bool per_rank;
    uint64_t bytes;
} lull_ckpt_state_info_t;
LULL_API bool lull_ckpt_info_state_at(const lull_ckpt_info_t *info,
                                      size_t index,
                                      lull_ckpt_state_info_t *out);

/* What one rank wrote and how long its stages took, in seconds, 0 where it is
 * not known; false past the last rank. */
typedef struct lull_ckpt_rank_info {
    uint64_t bytes;  /* of its files; of merged ones, of its data in them */
    uint64_t shards; /* host states included */
    double queued_s; /* from save until the first byte was copied */
    double copy_s;   /* until the snapshot was taken */
    double flush_s;  /* from the first byte copied to the last written */
    double fsync_s;
} lull_ckpt_rank_info_t;
LULL_API bool lull_ckpt_info_rank_at(const lull_ckpt_info_t *info, size_t rank,
                                     lull_ckpt_rank_info_t *out);

/* A slice that the caller wants: the box (offset, shape) of tensor `name`,
 * placed row-major and contiguous at `data`, with the dtype it was saved as
 * (which must equal `dtype`). */
typedef struct lull_ckpt_slice {
    size_t size; /* sizeof(lull_ckpt_slice_t); the stride of arrays */
    const char *name;
    lull_dtype_t dtype;
    uint32_t ndim;
    uint64_t global_shape[LULL_MAX_DIMS]; /* must equal the saved one */
    uint64_t offset[LULL_MAX_DIMS], shape[LULL_MAX_DIMS];
    void *data;
} lull_ckpt_slice_t;

#define LULL_CKPT_SLICE_INIT \
    { .size = sizeof(lull_ckpt_slice_t) }

typedef struct lull_ckpt_load_options {
    size_t size;              /* sizeof(lull_ckpt_load_options_t) */
    bool allow_missing;       /* slices of tensors it lacks: data untouched */
    bool allow_extra;         /* tensors that no slice names on this rank are
                                 always fine; this is about whole names that the
                                 caller says it knows of, see `known` */
    const char *const *known; /* every name the model has over all ranks; NULL:
                                 extras are not looked for */
    size_t known_count;
    lull_device_t *device; /* where `data` points to; NULL: host. Ordered with
                              no stream: work on the memory must be over */
    uint32_t threads;      /* reads in flight, 4 MiB of memory each, 11 where
                              it is coded; 0: 4 */
} lull_ckpt_load_options_t;

#define LULL_CKPT_LOAD_OPTIONS_INIT \
    { .size = sizeof(lull_ckpt_load_options_t) }

/* Reads the ranges that cover the slices, verifies the hash of every block
 * read, and places the bytes. Any layout to any layout. Blocks; any thread.
 * After a failure the contents of the destinations are unspecified.
 * LULL_ERR_NOT_FOUND: missing or extra tensors, listed; or a slice with bytes
 * in another place: which place, and its files. LULL_ERR_MISMATCH: dtype or
 * shape. LULL_ERR_CORRUPT: file, tensor and block. LULL_ERR_IO. */
LULL_API lull_status_t lull_ckpt_load(const lull_ckpt_info_t *info,
                                      const lull_ckpt_slice_t *slices,
                                      size_t count,
                                      const lull_ckpt_load_options_t *options);

/* Called now and then during a long read; returning false cancels it. */
typedef bool (*lull_ckpt_progress_fn)(void *ctx, uint64_t done, uint64_t total);

/* Reads every byte of a checkpoint and checks every hash. LULL_ERR_CORRUPT:
 * the sentence names the first damaged file, tensor and block. */
LULL_API lull_status_t lull_ckpt_verify(const lull_ckpt_info_t *info,
                                        lull_ckpt_progress_fn progress,
                                        void *ctx);

/* ---- Deleting ---------------------------------------------------------- */

typedef struct lull_ckpt_prune_options {
    size_t size;               /* sizeof(lull_ckpt_prune_options_t) */
    uint32_t keep_last;        /* the newest K by seq stay; at least 1 */
    uint64_t keep_every;       /* and every M-th step; 0: none */
    bool undrained;            /* also what a slower tier wants and lacks */
    lull_ckpt_skip_fn on_keep; /* told of each that the rules let go and that
                                  stays, with the reason; may be NULL */
    void *ctx;
} lull_ckpt_prune_options_t;

#define LULL_CKPT_PRUNE_OPTIONS_INIT \
    { .size = sizeof(lull_ckpt_prune_options_t) }

/* Deletes committed checkpoints but those that the options keep; never one that
 * a reader holds, nor, unless `undrained`, one that a slower tier of the last
 * run with tiers would keep and does not have: a tier that cannot be read has
 * nothing. Takes the directory's lock: LULL_ERR_BUSY while a run writes there.
 * LULL_ERR_INVALID: an option, named. *deleted may be NULL. */
LULL_API lull_status_t lull_ckpt_prune(const char *dir,
                                       const lull_ckpt_prune_options_t *options,
                                       size_t *deleted);

#ifdef __cplusplus
}
#endif

#endif
