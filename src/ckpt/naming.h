/* Names of directories and files of a checkpoint directory, and back. */
#ifndef LULL__CKPT_NAMING_H
#define LULL__CKPT_NAMING_H

#include <lull/ckpt.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LULL__ENTRY_MAX 192 /* bytes of any name made here, with its NUL */

#define LULL__MANIFEST "manifest.json"
#define LULL__LATEST_FILE "latest"
#define LULL__LULL_DIR ".lull"
#define LULL__LOCK_FILE "lock" /* in LULL__LULL_DIR */

typedef char lull__entry_name_t[LULL__ENTRY_MAX];

/* "step-00000100"; longer from 10^8 on. */
void lull__naming_step(lull__entry_name_t out, uint64_t step);
/* ".step-00000200.partial-RUN-SAVE" */
void lull__naming_partial(lull__entry_name_t out, uint64_t step,
                          const char *run_id, uint64_t save);
/* ".step-00000200.old-RUN-SAVE": an old one while its successor is published,
 * where directories cannot be exchanged. */
void lull__naming_old(lull__entry_name_t out, uint64_t step, const char *run_id,
                      uint64_t save);
/* ".trash-RUN-SAVE-STEP" */
void lull__naming_trash(lull__entry_name_t out, const char *run_id,
                        uint64_t save, uint64_t step);
/* "rank-00000.safetensors"; part 1 and on: "rank-00000.01.safetensors". */
void lull__naming_data(lull__entry_name_t out, uint32_t rank, uint32_t part);
/* "rank-00000.json" */
void lull__naming_vote(lull__entry_name_t out, uint32_t rank);

typedef enum lull__naming_kind {
    LULL__NAMING_OTHER = 0, /* none of ours */
    LULL__NAMING_STEP,      /* step */
    LULL__NAMING_PARTIAL,   /* step, run_id, save */
    LULL__NAMING_OLD,       /* step, run_id, save */
    LULL__NAMING_TRASH,     /* no fields */
    LULL__NAMING_DATA,      /* rank, part */
    LULL__NAMING_VOTE,      /* rank */
    LULL__NAMING_MANIFEST
} lull__naming_kind_t;

typedef struct lull__naming {
    lull__naming_kind_t kind;
    uint64_t step, save;
    uint32_t rank, part;
    char run_id[LULL_RUN_ID_MAX];
} lull__naming_t;

/* What a name means. Only exactly what the functions above make is
 * recognised ("step-100" or "step-00000100x" is OTHER). */
lull__naming_kind_t lull__naming_parse(const char *name, lull__naming_t *out);

/* May it be a run id: 1 to 63 of [A-Za-z0-9_-]? */
bool lull__run_id_valid(const char *run_id);

/* A name of a file inside a checkpoint, read from a manifest: a data file of
 * ours and nothing else, so no "/", no "..". */
bool lull__naming_is_data(const char *name, uint32_t rank);

#endif
