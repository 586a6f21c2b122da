/* One committed checkpoint's way into another directory: as it is, or with the
 * files of several ranks merged. Every block is verified on the way. */
#ifndef LULL__CKPT_CARRY_H
#define LULL__CKPT_CARRY_H

#include "base/arena.h"
#include "reader.h"

/* Bytes of a source file's data that lie at `at` of a new one's. */
typedef struct lull__carry_segment {
    size_t source; /* index into the reader's files */
    uint64_t from, at, bytes;
} lull__carry_segment_t;

/* A shard in a merged file. */
typedef struct lull__carry_row {
    const lull__shard_t *shard; /* in its old vote */
    size_t source;
    const char *stored;
    uint64_t begin, end;
    uint32_t file; /* index into its new vote's */
} lull__carry_row_t;

/* A new data file. */
typedef struct lull__carry_file {
    lull__entry_name_t name;
    lull__file_t plain, direct;
    bool is_direct;
    uint64_t header_bytes, data_bytes, header_hash;
    uint64_t *hashes; /* of merged ones, to be filled; else NULL */
    size_t source;    /* of a copy */
    size_t segment, segments;
    size_t row, rows; /* of a merged one */
    size_t task;      /* its first chunk in the batch */
} lull__carry_file_t;

/* A new vote: the old votes [source, source + sources). */
typedef struct lull__carry_vote {
    uint32_t rank, ranks;
    size_t source, sources;
    size_t file, files;
    size_t row, rows;
} lull__carry_vote_t;

typedef struct lull__carry {
    /* Set by the caller. */
    const lull_ckpt_info_t *info;
    const lull__dir_t *to; /* an empty directory */
    uint32_t merge;        /* into so many; 0: as they are */
    bool part; /* only what was written to the info's own place, and of things
                  that each place has only one: all places' parts are a whole
                  checkpoint of one directory, for which each gives no less than
                  a vote for each run of ranks that follow each other */
    unsigned threads;
    lull__direct_writes_t *direct_writes; /* what is known of `to`'s disk */
    /* Told of bytes before they are written, may wait; false: cancelled. Any
     * thread. */
    bool (*pace)(void *ctx, uint64_t bytes);
    void *ctx;
    /* The plan. */
    bool made; /* files and votes are new, not copies */
    lull__carry_vote_t *votes;
    size_t vote_count;
    lull__carry_file_t *files;
    size_t file_count, file_room;
    lull__carry_segment_t *segments;
    size_t segment_count, segment_room;
    lull__carry_row_t *rows; /* by vote, then file, then offset */
    size_t row_count;
    lull__arena_t arena; /* new names */
    /* For the manifest. */
    lull__manifest_t manifest;
} lull__carry_t;

/* carry_plan.c: what goes where. */
lull_status_t lull__carry_plan(lull__carry_t *carry);
/* The header of a merged file. */
lull_status_t lull__carry_header(const lull__carry_t *carry,
                                 const lull__carry_file_t *file,
                                 lull__out_t *out);

/* carry.c: writes all files and votes, synced; afterwards carry->manifest can
 * be published. */
lull_status_t lull__carry_run(lull__carry_t *carry);
/* Frees the plan. */
void lull__carry_free(lull__carry_t *carry);

#endif
