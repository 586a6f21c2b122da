/* rank-NNNNN.json: a rank's vote, and the index of what it wrote; of merged
 * files, of what several ranks wrote, of which it names the first. Streamed
 * out, parsed in one pass. Format: docs/formats/checkpoint.md. */
#ifndef LULL__CKPT_VOTE_H
#define LULL__CKPT_VOTE_H

#include <lull/ckpt.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "out.h"
#include "shard.h"

#define LULL__BLOCK_BYTES (UINT64_C(1) << 20) /* of data under one hash */
#define LULL__FRAME_BYTES (UINT64_C(1) << 20) /* raw data of a coded frame */

typedef struct lull__vote_head {
    char run_id[LULL_RUN_ID_MAX];
    uint64_t save; /* number of the save in its run, from 0 */
    uint64_t step;
    uint32_t world, rank;
    uint32_t ranks; /* merged: of so many ranks from `rank` on; else 0 or 1 */
} lull__vote_head_t;

/* A data file. Its bytes are a header of header_bytes (the 8 bytes of length
 * and the padding included), then data in blocks of LULL__BLOCK_BYTES counted
 * from the start of the data, the last one shorter. */
typedef struct lull__vote_file {
    const char *name; /* lull__naming_data() */
    uint64_t bytes, header_bytes;
    uint64_t header_hash;   /* XXH3-64 of all the header's bytes */
    const uint64_t *hashes; /* XXH3-64 of each block */
    uint64_t hash_count;
} lull__vote_file_t;

/* Seconds that each stage of this save took on this rank, 0 if not known. */
typedef struct lull__vote_times {
    double queued_s; /* from save to the first byte copied */
    double copy_s;   /* from there until the snapshot was taken */
    double flush_s;  /* from the first byte copied to the last one written */
    double fsync_s;
} lull__vote_times_t;

/* Writing: begin, then all files, all shards, all aliases, end. Rows of one
 * kind come together, in this order; shards by file, then begin. Errors come
 * from lull__out_finish(), which also gives the hash that the manifest wants.
 */
typedef struct lull__vote_writer {
    lull__out_t *out;
    unsigned section; /* 0 files, 1 shards, 2 aliases */
    uint32_t rank;    /* whose shards need not say so */
    bool merged;
    uint64_t rows; /* in the section */
} lull__vote_writer_t;

void lull__vote_begin(lull__vote_writer_t *writer, lull__out_t *out,
                      const lull__vote_head_t *head);
void lull__vote_file(lull__vote_writer_t *writer,
                     const lull__vote_file_t *file);
void lull__vote_shard(lull__vote_writer_t *writer, const lull__shard_t *shard);
void lull__vote_alias(lull__vote_writer_t *writer, const char *name,
                      const char *of);
/* Of a merged one `times` are those of each of its ranks. */
void lull__vote_end(lull__vote_writer_t *writer,
                    const lull__vote_times_t *times, uint32_t count);

/* A parsed vote; all pointers are into it or into its text. */
typedef struct lull__vote {
    lull__vote_head_t head;
    lull__vote_times_t *times; /* [head.ranks] */
    lull__vote_file_t *files;
    size_t file_count;
    lull__shard_t *shards;
    size_t shard_count;
    lull_ckpt_meta_t *aliases; /* key: the tied name, value: of which */
    size_t alias_count;
    uint64_t *numbers;   /* pool of hashes and frames */
    lull__arena_t arena; /* shapes and boxes */
} lull__vote_t;

/* Parses text[n] and checks all of it: names of files, offsets against sizes,
 * boxes inside shapes, bytes against shapes or frames, counts of hashes; and
 * that the shards of a file cover its data without holes or overlap. What is
 * valid can be used without further checks. The text is written to and must
 * outlive *out. LULL_ERR_CORRUPT; LULL_ERR_VERSION. */
lull_status_t lull__vote_parse(char *text, size_t n, const char *file,
                               lull__vote_t *out);
/* Only the head, cheaply: whose vote is it? Reads at most the first 4096
 * bytes; `text` is written to. */
lull_status_t lull__vote_peek(char *text, size_t n, const char *file,
                              lull__vote_head_t *out);
void lull__vote_free(lull__vote_t *vote);
/* The checks alone, which parse makes too: for votes made in memory. */
lull_status_t lull__vote_check(const lull__vote_t *vote, const char *file);

/* One number for all hashes of a file: XXH3-64 of two little-endian words,
 * header_hash and the XXH3-64 of the blocks' hashes as such words. The manifest
 * lists it. */
uint64_t lull__vote_file_digest(const lull__vote_file_t *file);

#endif
