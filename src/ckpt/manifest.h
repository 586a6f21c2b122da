/* manifest.json: the commit record of a checkpoint.
 * Format: docs/formats/checkpoint.md. */
#ifndef LULL__CKPT_MANIFEST_H
#define LULL__CKPT_MANIFEST_H

#include <lull/ckpt.h>
#include <stddef.h>
#include <stdint.h>

#include "out.h"

#define LULL__FORMAT_VERSION 1u
#define LULL__FORMAT_VERSION_PLACES 2u /* with places; else 1 is written */

typedef struct lull__manifest_file {
    const char *name;
    uint32_t rank;
    uint64_t bytes;
    uint64_t digest; /* lull__vote_file_digest() */
} lull__manifest_file_t;

typedef struct lull__manifest_vote {
    uint64_t bytes, hash; /* of rank-NNNNN.json */
    uint32_t place;       /* that the rank wrote to; 0 without places */
    uint32_t ranks;       /* whose shards are in it; 0: 1 */
} lull__manifest_vote_t;

/* Everything a manifest says; the writer reads it, the parser fills it. */
typedef struct lull__manifest {
    uint64_t seq, parent, step, save;
    int64_t time; /* seconds since the epoch, UTC; not negative */
    uint32_t world;
    char run_id[LULL_RUN_ID_MAX];
    lull__manifest_file_t *files; /* by rank, then part */
    size_t file_count;
    lull__manifest_vote_t *votes; /* in the order of ranks */
    size_t vote_count;            /* 0: world */
    lull_ckpt_meta_t *meta;
    size_t meta_count;
    const char **places; /* HOST:DIR of each directory that has a part; none
                            where one has all */
    size_t place_count;  /* 0, or at least 2 */
    uint32_t here;       /* place of this manifest */
} lull__manifest_t;

/* Writes it, its own hash last. Errors come from lull__out_finish(). `out`
 * must be fresh: the hash is of all that went through it. */
void lull__manifest_write(const lull__manifest_t *manifest, lull__out_t *out);

/* Checks the own hash of text[n] first, then parses and checks every field.
 * The text is written to and must outlive *out. LULL_ERR_CORRUPT,
 * LULL_ERR_VERSION (a newer format, whose hash is right). */
lull_status_t lull__manifest_parse(char *text, size_t n, const char *file,
                                   lull__manifest_t *out);
void lull__manifest_free(lull__manifest_t *manifest);

#endif
