/* A buffered byte sink that hashes what goes through it, so that headers and
 * indexes of any length are written without being held in memory. */
#ifndef LULL__CKPT_OUT_H
#define LULL__CKPT_OUT_H

#include <lull/status.h>
#include <stddef.h>
#include <stdint.h>

#include "io/file.h"

/* Takes the next `n` bytes, in order; a failing status stops the sink. */
typedef lull_status_t (*lull__out_fn)(void *ctx, const void *data, size_t n);

typedef struct lull__out lull__out_t;

/* fn NULL: the bytes are only counted and hashed. One thread at a time. */
lull_status_t lull__out_create(lull__out_fn fn, void *ctx, lull__out_t **out);
void lull__out_destroy(lull__out_t *out);

/* Appends. Errors stick: the first one is told by every later
 * lull__out_finish(), so writers need not check each call. */
void lull__out_bytes(lull__out_t *out, const void *data, size_t n);
void lull__out_text(lull__out_t *out, const char *text);
void lull__out_u64(lull__out_t *out, uint64_t value);
/* A quoted JSON string, escaped; `text` is valid UTF-8. */
void lull__out_string(lull__out_t *out, const char *text);
/* Bytes that escaping makes of a text, without quotes, and the text so. */
uint64_t lull__out_escaped_bytes(const char *text);
void lull__out_escaped(lull__out_t *out, const char *text);
/* A quoted string of 16 hexadecimal digits. */
void lull__out_hash(lull__out_t *out, uint64_t hash);
/* [1,2,3] */
void lull__out_list(lull__out_t *out, const uint64_t *values, size_t n);
void lull__out_spaces(lull__out_t *out, uint64_t n);

/* Bytes appended so far. */
uint64_t lull__out_count(const lull__out_t *out);
/* XXH3-64 of the bytes appended so far. */
uint64_t lull__out_digest(lull__out_t *out);

/* Hands on what is buffered; *bytes and *hash (each may be NULL) are those of
 * all that was appended. More may follow, and another finish. */
lull_status_t lull__out_finish(lull__out_t *out, uint64_t *bytes,
                               uint64_t *hash);

/* A sink into memory, for small things: ctx is a lull__memory_t that begins
 * as zeros; the caller frees data. */
typedef struct lull__memory {
    char *data;
    size_t bytes, capacity;
} lull__memory_t;
lull_status_t lull__out_to_memory(void *memory, const void *data, size_t n);

/* A sink that writes on in a file: ctx is a lull__out_file_t. */
typedef struct lull__out_file {
    const lull__file_t *file;
    uint64_t at; /* of the next byte */
} lull__out_file_t;
lull_status_t lull__out_to_file(void *out_file, const void *data, size_t n);

#endif
