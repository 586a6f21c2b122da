/* The safetensors header: measured, written and parsed as a stream.
 * Format: docs/formats/checkpoint.md and
 * https://github.com/huggingface/safetensors ("Format"). */
#ifndef LULL__CKPT_SAFETENSORS_H
#define LULL__CKPT_SAFETENSORS_H

#include <lull/ckpt.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "names.h"
#include "out.h"

#define LULL__ST_ALIGN 4096u           /* data begins on such a boundary */
#define LULL__ST_SPLIT 25000000u       /* past it start another file */
#define LULL__ST_HEADER_MAX 100000000u /* what the format allows */

typedef struct lull__st_entry {
    const char *name;
    lull_dtype_t dtype;
    uint32_t ndim;
    uint64_t shape[LULL_MAX_DIMS];
    uint64_t begin, end; /* of its bytes, relative to the data */
} lull__st_entry_t;

/* ---- Writing ----
 *
 *     lull__st_measure(&w);                    first: how much room
 *     lull__st_meta(&w, "format", "pt"); ...   all metadata, then
 *     lull__st_tensor(&w, &entry); ...         all tensors, by offset
 *     lull__st_end(&w, &room);                 a multiple of 4096
 *     ... the data is written from byte `room` of the file on ...
 *     lull__st_begin(&w, out, room);           then the same calls again,
 *     lull__st_meta ... lull__st_tensor ...    with the true offsets
 *     lull__st_end(&w, NULL);
 *
 * While measuring, offsets are counted at their widest and `begin`, `end` are
 * not looked at. `out` hashes: lull__out_finish() gives the header's hash. */
typedef struct lull__st_writer {
    lull__out_t *out; /* NULL: measuring */
    uint64_t room, count;
    uint64_t metas, tensors;
} lull__st_writer_t;

void lull__st_measure(lull__st_writer_t *writer);
void lull__st_begin(lull__st_writer_t *writer, lull__out_t *out, uint64_t room);
void lull__st_meta(lull__st_writer_t *writer, const char *key,
                   const char *value);
/* Metadata of a tensor that is stored with a codec (as a U8 array under
 * entry->name): its true dtype and the shape of its box. */
void lull__st_codec_meta(lull__st_writer_t *writer, const char *codec,
                         const lull__st_entry_t *original);
void lull__st_tensor(lull__st_writer_t *writer, const lull__st_entry_t *entry);
/* Bytes of the file's head so far, its 8 bytes of length included: compare
 * with LULL__ST_SPLIT while measuring. */
uint64_t lull__st_size(const lull__st_writer_t *writer);
/* Measuring: *room (may be NULL) is what to reserve. Writing: pads with
 * spaces to the room; LULL_ERR_INTERNAL when it did not suffice. Does not
 * finish `out`: its errors come from lull__out_finish(). */
lull_status_t lull__st_end(lull__st_writer_t *writer, uint64_t *room);

/* ---- Parsing ---- */

typedef struct lull__st_header {
    lull__st_entry_t *entries; /* in the order of their bytes */
    size_t count;
    lull_ckpt_meta_t *meta;
    size_t meta_count;
    lull__names_t index; /* name to entry */
} lull__st_header_t;

/* Checks the first 8 bytes of a file of `file_bytes`: *n is the length of the
 * header's text. LULL_ERR_CORRUPT. */
lull_status_t lull__st_length(const unsigned char first[8], uint64_t file_bytes,
                              const char *file, uint64_t *n);

/* Parses the header's text[n] (what follows the 8 bytes) of a file that has
 * `data_bytes` after it, by every rule of the format. The text is written to
 * and must outlive *out. `file` is for sentences. LULL_ERR_CORRUPT names file
 * and tensor; LULL_ERR_UNSUPPORTED: more than LULL_MAX_DIMS dimensions. */
lull_status_t lull__st_parse(char *text, size_t n, uint64_t data_bytes,
                             const char *file, lull__st_header_t *out);
void lull__st_free(lull__st_header_t *header);

/* The directory of a path and the name in it, both malloc'ed.
 * LULL_ERR_INVALID: it ends in '/'. */
lull_status_t lull__st_split(const char *path, char **dir, char **name);

#endif
