/* An opened checkpoint, as finding, loading and verifying see it. */
#ifndef LULL__CKPT_READER_H
#define LULL__CKPT_READER_H

#include <lull/ckpt.h>

#include "io/direct.h"
#include "manifest.h"
#include "names.h"
#include "naming.h"
#include "vote.h"

#define LULL__READ_BLOCKS 4u /* hashed blocks in one read, at most */

/* Files stay open unless there are more: then they are opened when needed. */
#define LULL__OPEN_FILES_MAX 512u

#define LULL__MANIFEST_MAX (UINT64_C(1) << 28)
#define LULL__VOTE_MAX (UINT64_C(1) << 33)

typedef struct lull__reader_file {
    const lull__manifest_file_t *row;
    const lull__vote_file_t *vote; /* NULL: the file is in another place */
    lull__file_t file;             /* closed when not kept open */
    size_t owner;                  /* index of the vote it is in */
    size_t first, count;           /* its shards, in the shards of that vote */
} lull__reader_file_t;

typedef struct lull__reader_rank {
    char *text;
    lull__vote_t vote;
    size_t first_file; /* index of its first file */
    bool elsewhere;    /* its vote is in another place; the vote is empty */
} lull__reader_rank_t;

typedef struct lull__reader_shard {
    const lull__shard_t *shard;
    size_t file; /* index into the reader's files */
} lull__reader_shard_t;

typedef struct lull__reader_tensor {
    const char *name;
    const char *alias_of;        /* NULL: has shards of its own */
    const lull__shard_t *sample; /* any shard: dtype, ndim, global */
    size_t first, count;         /* shards; of an alias: of its tensor */
    uint64_t stored;             /* bytes on disk */
} lull__reader_tensor_t;

struct lull_ckpt_info {
    lull__entry_name_t name; /* of the directory */
    lull__dir_t dir;
    lull__file_t lock; /* the manifest, open and locked shared */
    char *text;
    lull__manifest_t manifest;
    lull__reader_rank_t *ranks; /* votes, in the order of ranks */
    size_t rank_count;          /* less than the world where merged */
    size_t elsewhere;           /* ranks whose files are in other places */
    lull__reader_file_t *files; /* [manifest.file_count] */
    size_t open_files;
    lull__reader_shard_t *shards; /* grouped by tensor */
    size_t shard_count;
    lull__reader_tensor_t *tensors; /* by name */
    size_t tensor_count;
    lull__names_t index;
    uint64_t bytes; /* of all files */
};

/* A directory that may be a checkpoint, and what its manifest says. */
typedef struct lull__candidate {
    const lull__dir_t *root; /* where it is */
    size_t tier;             /* of several roots; 0 */
    lull__entry_name_t name;
    lull_ckpt_id_t id;    /* seq 0: the manifest could not be read */
    int64_t time;         /* of commit */
    lull_status_t status; /* of reading the manifest */
    char why[256];
} lull__candidate_t;

/* All of them, by ascending seq. NULL is not given for none. The caller
 * frees *out. */
lull_status_t lull__candidates(const lull__dir_t *root, lull__candidate_t **out,
                               size_t *count);

/* Finds the newest whole one of a directory and opens it, once. */
lull_status_t lull__find_open(const char *dir, lull_ckpt_info_t **out);

/* Opens the checkpoint in directory `name` and makes the cheap checks. id: its
 * seq and origin, 0: any. LULL_ERR_NOT_FOUND: it has others. */
lull_status_t lull__reader_open(const lull__dir_t *root, const char *name,
                                lull_ckpt_id_t id, lull_ckpt_info_t **out);

/* Builds tensors, shards and the index of an info whose votes are parsed. */
lull_status_t lull__reader_index(lull_ckpt_info_t *info);

/* What a manifest is of. */
lull_ckpt_id_t lull__reader_id(const lull__manifest_t *manifest);

/* Reads and checks only the manifest; free it and *text. */
lull_status_t lull__reader_manifest(const lull__dir_t *dir, char **text,
                                    lull__manifest_t *out);

/* Reads the header of a file and checks its hash; the caller frees *data. */
lull_status_t lull__reader_header(const lull_ckpt_info_t *info, size_t file,
                                  unsigned char **data);

/* Reads blocks [first, first + count) of a file's data, which are not to be
 * believed before lull__reader_check. `data` has room for count *
 * LULL__BLOCK_BYTES. `direct`: the thread's, NULL: through the page cache. Any
 * thread. */
lull_status_t lull__reader_blocks(const lull_ckpt_info_t *info, size_t file,
                                  uint64_t first, uint64_t count,
                                  lull__direct_t *direct, void *data);

/* Checks the hash of a block that lies at `data`. The sentence of a failure
 * names file, tensor and block. */
lull_status_t lull__reader_check(const lull_ckpt_info_t *info, size_t file,
                                 uint64_t block, const void *data);
/* ... of `count` blocks that follow each other. */
lull_status_t lull__reader_check_all(const lull_ckpt_info_t *info, size_t file,
                                     uint64_t first, uint64_t count,
                                     const void *data);

/* Bytes of the file's data in these blocks: less when the last is short. */
uint64_t lull__reader_block_bytes(const lull_ckpt_info_t *info, size_t file,
                                  uint64_t first, uint64_t count);

/* Reads bytes [begin, end) of a file's data, verified, into `data`. */
lull_status_t lull__reader_range(const lull_ckpt_info_t *info, size_t file,
                                 uint64_t begin, uint64_t end, void *data);

/* What follows a name that is not here, where other places have files: " (it
 * may be in HOST:DIR: rank-00001.safetensors, ...)"; else "". */
#define LULL__ELSEWHERE_MAX 400
void lull__reader_elsewhere(const lull_ckpt_info_t *info,
                            char text[LULL__ELSEWHERE_MAX]);

/* SIZE_MAX: no such tensor. */
size_t lull__reader_find(const lull_ckpt_info_t *info, const char *name);

#endif
