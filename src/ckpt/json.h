/* A pull parser of JSON text that trusts nothing and allocates nothing:
 * linear, strict (RFC 8259, UTF-8 checked), strings decoded in place. */
#ifndef LULL__CKPT_JSON_H
#define LULL__CKPT_JSON_H

#include <lull/status.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct lull__json {
    char *begin, *at, *end;
    bool first;        /* nothing yet in the innermost open container */
    const char *error; /* the first one, sticky; static text */
} lull__json_t;

/* A decoded string inside the text: NUL-terminated, without inner NULs. */
typedef struct lull__text {
    char *data;
    size_t bytes;
} lull__text_t;

/* Parses text[n]; the text is written to and must outlive the strings. Each
 * function returns false at the end of a container or after an error: look
 * at `error` (or use lull__json_done) to know which.
 *
 *     lull__json_object(j);
 *     while (lull__json_key(j, &key))
 *         if (key is known) lull__json_u64(j, &value);
 *         else lull__json_skip(j);
 *     status = lull__json_done(j, "file name");                           */
void lull__json_begin(lull__json_t *json, char *text, size_t n);

bool lull__json_object(lull__json_t *json);
bool lull__json_key(lull__json_t *json, lull__text_t *key);
bool lull__json_array(lull__json_t *json);
bool lull__json_item(lull__json_t *json);
bool lull__json_string(lull__json_t *json, lull__text_t *out);
/* Whole and unsigned, at most 2^64 - 1, without sign, fraction, exponent. */
bool lull__json_u64(lull__json_t *json, uint64_t *out);
bool lull__json_u32(lull__json_t *json, uint32_t *out);
/* A string of 16 lower-case hexadecimal digits. */
bool lull__json_hash(lull__json_t *json, uint64_t *out);
/* The error of a longer list than was asked for. */
#define LULL__JSON_TOO_LONG "a list is too long"
/* At most `max` numbers into out; *n counts them. */
bool lull__json_list(lull__json_t *json, uint64_t *out, uint32_t max,
                     uint32_t *n);
bool lull__json_skip(lull__json_t *json);

/* Notes an error of the caller's own; returns false. */
bool lull__json_fail(lull__json_t *json, const char *error);

/* LULL_OK when no error was met and only white space is left; else
 * LULL_ERR_CORRUPT with `what`, the byte position and the reason. */
lull_status_t lull__json_done(lull__json_t *json, const char *what);

/* Is it UTF-8, without NUL, surrogates, overlong forms? */
bool lull__utf8_valid(const char *text, size_t n);

#endif
