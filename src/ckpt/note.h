/* Notes: small files in DIR/.lull by which ranks tell each other what became
 * of a save, or which run this is. Format: docs/formats/notes.md. */
#ifndef LULL__CKPT_NOTE_H
#define LULL__CKPT_NOTE_H

#include <lull/ckpt.h>

#include "base/error.h"
#include "io/file.h"
#include "naming.h"

typedef struct lull__note {
    char kind[16]; /* "verdict", "abort", "hello", "reply", "joined", "tier",
                      "behind", "drain", "part" */
    char run_id[LULL_RUN_ID_MAX];
    uint64_t number;      /* of the save */
    uint32_t rank;        /* that wrote it */
    lull_status_t status; /* of the verdict, or of the abort's cause */
    uint64_t seq;         /* of a committed one */
    char text[LULL__SENTENCE_MAX];
} lull__note_t;

#define LULL__NOTE_MAX 4096

/* A note as text, not closed by a NUL; LULL_ERR_INTERNAL: it is too long. */
lull_status_t lull__note_format(const lull__note_t *note,
                                char text[LULL__NOTE_MAX], size_t *n);
/* text[n] is written to. False: not a note. */
bool lull__note_parse(char *text, size_t n, lull__note_t *out);

/* Publishes `note` as `name`, whole or not at all. Not synced: notes are
 * between living ranks. */
lull_status_t lull__note_write(const lull__dir_t *lull, const char *name,
                               const lull__note_t *note);
/* One that stays after the run: the file is synced; its name is once the caller
 * has synced `lull`. */
lull_status_t lull__note_keep(const lull__dir_t *lull, const char *name,
                              const lull__note_t *note);
/* Room for notes of a run on a disk that is full by then: files that have their
 * blocks already. Best effort; those that are missing are made anew. */
void lull__spares_make(const lull__dir_t *lull, const char *run_id);
void lull__spares_drop(const lull__dir_t *lull, const char *run_id);
/* As lull__note_write; where there is no space, in a spare file's place. */
lull_status_t lull__note_write_spare(const lull__dir_t *lull, const char *name,
                                     const lull__note_t *note);

/* LULL_ERR_NOT_FOUND: not there. LULL_ERR_CORRUPT: not a note. */
lull_status_t lull__note_read(const lull__dir_t *lull, const char *name,
                              lull__note_t *out);

/* Names. */
void lull__note_verdict(lull__entry_name_t out, const char *run_id,
                        uint64_t number);
void lull__note_abort(lull__entry_name_t out, const char *run_id,
                      uint64_t number, uint32_t rank);
/* Rank 0's mark in tier `index` (0: DIR itself). */
void lull__note_tier(lull__entry_name_t out, const char *run_id, size_t index);
/* A slower tier behind a directory, the first is 1; stays after the run. */
void lull__note_behind(lull__entry_name_t out, size_t index);
/* In the first slower tier of places: what rank 0 drains, and what becomes of
 * it in a place. */
void lull__note_drain(lull__entry_name_t out, const char *run_id);
void lull__note_part(lull__entry_name_t out, const char *run_id,
                     uint32_t place);
/* Does `name` say "abort" of this run and save, and of which rank? */
bool lull__note_is_abort(const char *name, const char *run_id, uint64_t number,
                         uint32_t *rank);
/* Is it a note or a temp of a run other than `run_id` (hellos are kept)? */
bool lull__note_is_stale(const char *name, const char *run_id);

/* Fails with what another rank said of a save; the sentence begins with the
 * step, once. */
lull_status_t lull__note_fail(lull_status_t status, uint64_t step,
                              const char *said);

#endif
